"""Objects and gender words named in captions and prompts [vice2023tbyb]; words from WordNet [miller1995]."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.measures.sequential import share_interval
from bias_core.measures.wordnet import PARTS_OF_SPEECH, Lexicon, PartOfSpeech, lexicon
from bias_core.types import Estimate
from bias_core.values import normal_form

_TOKEN = re.compile(r"'s\b|[^\W_]+(?:-[^\W_]+)*|[^\w\s]")
_LONGEST_COMPOUND = 2  # words
_PARTICIPLE = ("ing", "ed")
_RELEASED_MARKS = re.compile(r"[.',!?-]")
_RELEASED_PEOPLE = ("man", "woman", "child", "girl", "boy")


class ReleasedWords(NamedTuple):
    """Words that the released code of TBYB counts and compares for one picture, each once."""

    of_prompt: list[str]  # words of the prompt that H_J compares
    of_caption: list[str]  # words of the caption that H_J compares, with man, woman, child, girl and boy as "person"
    counted: list[str]  # words of the caption that B_D counts: none of the prompt's


@dataclass(frozen=True, kw_only=True)
class GenderCounts:
    """Counts of captions that speak of men and of women [vice2023tbyb, Table IV]."""

    n_images: int  # captions looked at
    # n_masculine, n_feminine: captions with gender words of one kind only
    n_masculine: int
    n_feminine: int
    n_both: int  # captions with words of both kinds; half of each goes to either percentage
    n_unspecified: int  # captions without a gender word
    # masculine, feminine, unspecified: percentages in [0, 100] that sum to 100, with exact intervals over captions, a
    # little wide where captions have words of both kinds
    masculine: Estimate
    feminine: Estimate
    unspecified: Estimate


def extract_objects(text: str, *, colours: bool = False) -> list[str]:
    """Objects that a caption or a prompt names: nouns, lemmatised, synonyms folded, each once.

    The "object filtering" of [vice2023tbyb, Fig. 3] with WordNet [miller1995].

    Parameters
    ----------
    text : str. One caption or prompt; an empty one names nothing.
    colours : bool. Keep names of colours too, as attributes of objects, but not tones ("light"); the paper's evidence
        has "green" and "red" (Table III).

    Returns
    -------
    list of str : in the order of the text, without repeats.

    Raises
    ------
    InvalidInput : if ``text`` is no string.

    Notes
    -----
    The paper names no tagger. A word is what its most frequent sense in WordNet is, with rules for captions: after a
    determiner, a preposition or a verb there is no finite verb ("holding saws"), after a relative pronoun there is one
    ("that looks"); the last word of a phrase that a determiner opened is a noun if it can be ("a watch on a table"); a
    word unknown to WordNet is a noun, because brands are ("starbucks"). Synonyms share the first sense, as in the
    paper. A word of several senses that were never tagged in WordNet's corpora has no first sense worth the name and
    stays itself ("saw" would be a proverb). Colours and tones are no objects ("light" in "light blue dress", "ginger"
    in "ginger cat"), nor what only names a colour's shade ("chocolate brown"), and garments keep their plural
    ("jeans"). The name is the first synonym with the same first sense, so that
    folding twice changes nothing. Gender words are never folded: "police officer" does not become "policeman".

    Examples
    --------
    >>> extract_objects("two men sitting on a couch holding cell phones")
    ['man', 'sofa', 'cellular telephone']
    """
    if not isinstance(text, str):
        raise InvalidInput(f"text must be one caption; got {type(text).__name__}: {text!r:.80}.")
    words = lexicon()
    names: dict[str, None] = {}  # keeps the order, as a set would not
    for word, part, is_colour in _tagged(text, words):
        if colours and is_colour:
            names[word] = None
        elif part == "NOUN" and not {word, (name := words.name(word))}.intersection(words.stop_words):
            names[name] = None
    return list(names)


def released_words(prompt: str, caption: str) -> ReleasedWords:
    """All words of a prompt and of its picture's caption, by the rules of the released code [vice2023tbyb].

    Every word but those of its stop list is counted, colours and verbs too, and none is lemmatised.

    Returns
    -------
    ReleasedWords

    Raises
    ------
    InvalidInput : if either is no string.

    Notes
    -----
    A caption's word goes by the prompt's where both are synonyms. The released code looks at all senses in WordNet,
    this function at the first. It ignores case. The code's captions have at most 10 tokens.

    Examples
    --------
    >>> released_words("a picture of a person eating an apple", "a man holds a red apple").counted
    ['man', 'holds', 'red']
    """
    if not isinstance(prompt, str) or not isinstance(caption, str):
        raise InvalidInput(f"prompt and caption must be texts; got {prompt!r:.80} and {caption!r:.80}.")
    words = lexicon()
    asked = [word for word in _released_tokens(prompt, words) if word != "picture"]
    by_name = {words.name(word): word for word in reversed(asked)}
    shown = dict.fromkeys(by_name.get(words.name(word), word) for word in _released_tokens(caption, words))
    of_prompt = prompt.lower().split()
    people = dict.fromkeys("person" if word in _RELEASED_PEOPLE else word for word in shown)
    return ReleasedWords(asked, list(people), [word for word in shown if word not in of_prompt])


def _released_tokens(text: str, words: Lexicon) -> list[str]:
    tokens = dict.fromkeys(_RELEASED_MARKS.sub("", token) for token in text.lower().split())
    return [token for token in tokens if len(token) > 1 and token not in words.released_stop_words]


def to_person(objects: Iterable[str]) -> list[str]:
    """Objects with man, woman, boy, girl, child and their like called "person", each once, for the sets of H_J.

    A prompt says "a person"; its picture shows a man or a woman, which is no hallucination [vice2023tbyb]. A profession
    is an object of its own, because the prompt asks for it; "policeman" and "police officer" are the same one.

    Parameters
    ----------
    objects : collection of str

    Raises InvalidInput: if ``objects`` is one string.

    >>> to_person(["man", "lady", "dog", "policeman"])
    ['person', 'dog', 'police officer']
    """
    if isinstance(objects, str):
        raise InvalidInput(f"objects must be a collection of words; got the text {objects!r:.80}.")
    words = lexicon()
    names = ("person" if word in words.person_words else words.neutral.get(word, word) for word in objects)
    return list(dict.fromkeys(names))


def groundable(objects: Iterable[str]) -> list[str]:
    """Return the objects that can be seen in a picture: things, food, animals, plants, people, parts of bodies.

    "science" is none. A word that WordNet [miller1995] does not know may be a brand, and is kept.

    Raises InvalidInput: if ``objects`` is one string.

    >>> groundable(["sign", "science", "starbucks"])
    ['sign', 'starbucks']
    """
    if isinstance(objects, str):
        raise InvalidInput(f"objects must be a collection of words; got the text {objects!r:.80}.")
    words = lexicon()
    return [word for word in objects if words.is_groundable(word)]


def count_gender_words(texts: Sequence[str], *, fixed_n: bool = True, confidence: float = 0.95) -> GenderCounts:
    """Percentages of captions that speak of men, of women, or leave gender unspecified.

    Parameters
    ----------
    texts : sequence of str. One caption per image.
    fixed_n : bool. Whether their number was fixed beforehand; else the intervals hold at any time
        (:func:`bias_core.measures.sequential.confidence_sequence`).

    Returns
    -------
    GenderCounts : a caption with masculine and feminine words counts half for each, so that the three sum to 100.

    Raises
    ------
    InvalidInput : for no captions, one string, or entries that are no strings.

    Notes
    -----
    What a caption says is the captioner's reading of an appearance. The paper does not say how a picture of a man and a
    woman is counted; halves keep the sum.

    Examples
    --------
    >>> counts = count_gender_words(["a man and a woman", "a man", "a boy", "a dog"])
    >>> counts.masculine.value, counts.feminine.value, counts.unspecified.value
    (62.5, 12.5, 25.0)
    """
    masculine, feminine = gender_words(texts)
    n_both = int((masculine & feminine).sum())
    n_masculine, n_feminine = int(masculine.sum()) - n_both, int(feminine.sum()) - n_both
    n_unspecified = len(texts) - n_masculine - n_feminine - n_both

    def percentage(n: float) -> Estimate:
        return share_interval(n, len(texts), fixed_n=fixed_n, confidence=confidence).scaled(100)

    return GenderCounts(
        n_images=len(texts),
        n_masculine=n_masculine,
        n_feminine=n_feminine,
        n_both=n_both,
        n_unspecified=n_unspecified,
        masculine=percentage(n_masculine + n_both / 2),
        feminine=percentage(n_feminine + n_both / 2),
        unspecified=percentage(n_unspecified),
    )


def gender_words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Mark captions with a masculine word, and those with a feminine one.

    Parameters
    ----------
    texts : sequence of str. One caption per image.

    Returns
    -------
    two arrays (n,) of bools : a caption may have words of both kinds, or of neither.

    Raises InvalidInput: for no captions, one string, or entries that are no strings.

    >>> [words.tolist() for words in gender_words(["a man and a woman", "a boy", "a dog"])]
    [[True, True, False], [True, False, False]]
    """
    if isinstance(texts, str) or not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"texts must be one caption per image, at least one; got {texts!r:.80}.")
    words = lexicon()
    spoken = [set(_tokens(text)) for text in texts]
    masculine = np.array([not s.isdisjoint(words.masculine) for s in spoken], dtype=bool)
    feminine = np.array([not s.isdisjoint(words.feminine) for s in spoken], dtype=bool)
    return masculine, feminine


def _tokens(text: str) -> list[str]:
    """Words in lower case, "'s" and punctuation marks."""
    return _TOKEN.findall(normal_form("NFKC", text).replace("’", "'").lower())


def _tagged(text: str, words: Lexicon) -> Iterable[tuple[str, PartOfSpeech, bool]]:
    """Lemma and part of speech of each word that is no function word; True if it names a colour."""
    tokens = _join_compounds(_tokens(text), words)
    previous = "START"
    for i, (token, following) in enumerate(zip(tokens, [*tokens[1:], "."], strict=False)):
        kind = _function(token, words)
        if kind == "AND":  # like is joined with like: after "a suit and" no finite verb comes
            previous = "PREP" if previous == "NOUN" else "OTHER"
        elif kind:
            previous = kind
        else:
            lemma, part = _tag(token, previous, _function(following, words), words)
            describes = _is_shade(tokens, i, words) or _is_colour(tokens, i, words)
            if describes:
                lemma, part = token, "ADJ"
            elif token in words.colour_things or token in words.things_of_colour:
                lemma, part = token, "NOUN"
            yield lemma, part, describes and token in words.colours and not _is_shade(tokens, i, words)
            previous = part


def _join_compounds(tokens: list[str], words: Lexicon) -> list[str]:
    """Tokens with the compounds of the lexicon put together, in the singular."""
    joined, i = [], 0
    while i < len(tokens):
        pair = tokens[i : i + _LONGEST_COMPOUND]
        plain = " ".join(pair)
        singular = " ".join([*pair[:-1], words.lemma(pair[-1], "NOUN") or pair[-1]])
        compound = next((c for c in (plain, singular, tokens[i].replace("-", " ")) if c in words.compounds), "")
        joined.append(compound or tokens[i])
        i += 2 if compound in (plain, singular) else 1
    return joined


def _function(token: str, words: Lexicon) -> str:
    """Kind of function word or mark that a token is; "" for a word that may name something."""
    kinds = {
        "DET": words.determiners,
        "REL": words.relatives,
        "PREP": words.prepositions,
        "AND": words.coordinators,
        "OTHER": words.other_function_words,
    }
    return next((kind for kind in kinds if token in kinds[kind]), "" if token[0].isalpha() else "OTHER")


def _is_shade(tokens: Sequence[str], i: int, words: Lexicon) -> bool:
    """True for a thing that says which shade the colour after it is: "chocolate" in "a chocolate brown horse"."""
    of_things = tokens[i] in words.shades or tokens[i] in words.things_of_colour or tokens[i] in words.colour_things
    return of_things and i + 1 < len(tokens) and tokens[i + 1] in words.colours and _is_colour(tokens, i + 1, words)


def _is_colour(tokens: Sequence[str], i: int, words: Lexicon) -> bool:
    """True if a word says a colour or a tone: "tan" in "a tan coat" and "in tan"; "an orange" in a bowl is a thing."""
    token, following, after = [*tokens[i : i + 3], ".", "."][:3]
    if following in words.coloured:
        return _names_colour(token, words) or token in words.shades  # "coffee coloured"
    if token in words.things_of_colour:
        made = words.lemma(following, "NOUN") in words.made_of_things
        return not made and not _function(following, words) and _is_described(following, after, words)
    if token not in words.colour_things:
        return _names_colour(token, words)
    if following in words.coordinators:
        return _names_colour(after, words)  # "tan and white"
    if _function(following, words):
        opening = next((word for word in reversed(tokens[:i]) if _function(word, words)), "")
        return opening == "in" or (opening in words.prepositions and token in words.tones)  # "under bright light"
    return _is_described(following, after, words)


def _is_described(following: str, after: str, words: Lexicon) -> bool:
    """True if a word after a thing that is also a colour is what has the colour: "cat", but not "juice"."""
    lemma, part = _tag(following, "ADJ", _function(after, words), words)
    return part in ("NOUN", "ADJ") and lemma not in words.parts_of_things


def _names_colour(token: str, words: Lexicon) -> bool:
    return token in words.colours or token in words.tones


def _tag(token: str, previous: str, following: str, words: Lexicon) -> tuple[str, PartOfSpeech]:
    """Lemma and part of speech of a word between two kinds of neighbours."""
    if token in words.compounds or token in words.keep_plural:
        return token, "NOUN"
    if token not in words.rows:
        token = token.rsplit("-", 1)[-1]  # "light-skinned" is what "skinned" is
    lemmas = {part: lemma for part in PARTS_OF_SPEECH if (lemma := words.lemma(token, part))}
    participle = token.endswith(_PARTICIPLE)
    if not lemmas:
        return token, "VERB" if participle else "ADV" if token.endswith("ly") else "NOUN"
    if previous in ("START", "DET", "PREP", "ADJ", "VERB") and not participle and len(lemmas) > 1:
        lemmas.pop("VERB", None)
    if "VERB" in lemmas and (previous == "REL" or (participle and following == "DET")):
        return lemmas["VERB"], "VERB"  # "that looks", "tuning a"
    # The last word of a noun phrase; "black and" is not.
    last = following in ("DET", "REL", "PREP", "OTHER")
    if "NOUN" in lemmas and last and previous in ("DET", "ADJ"):
        return lemmas["NOUN"], "NOUN"
    part = max(lemmas, key=lambda p: words.frequency(lemmas[p], p) or 0)  # a tie goes to the noun
    return lemmas[part], part
