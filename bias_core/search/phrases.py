"""What a caption says of a picture, phrase by phrase, and each phrase as an attribute with its two sentences.

Objects are nouns of captions [vice2023tbyb]; here a noun keeps what stands before it, and how it is linked to the rest.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bias_core.metrics.wordnet import Lexicon, lexicon
from bias_core.prompts import article, fix_articles
from bias_core.types import Attribute

PERSON = "person"
_IS = "is"  # the link of a property of who or what is shown, as "old" in "an old man"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_LONGEST = 3  # words of a phrase; a longer one is talk
_COUNTERPARTS = {"man": "woman", "woman": "man", "boy": "girl", "girl": "boy"}


@dataclass(frozen=True, kw_only=True, order=True)
class Phrase:
    """A thing, a property or somebody that a caption names.

    >>> phrases = phrases_of("an old man with a beard wearing a white hat in a park")
    >>> [str(phrase) for phrase in phrases]
    ['man', 'old', 'with a beard', 'wearing a white hat', 'wearing a hat', 'in a park']
    """

    words: tuple[str, ...]  # in lower case, the last one in the singular; what makes phrases the same
    link: str  # word between what is shown and the phrase ("wearing"); "" for who is shown, "is" for a property
    text: str  # the phrase as the caption writes it, with its article

    def __str__(self) -> str:
        return self.text if self.link in ("", _IS) else f"{self.link} {self.text}"

    def attribute(self, subject: str = PERSON) -> Attribute:
        """The attribute with a sentence for presence and one for absence, said of a ``subject``.

        >>> beard = phrases_of("a man with a beard")[1].attribute()
        >>> beard.positive, beard.negative
        ('a photo of a person with a beard', 'a photo of a person without a beard')
        """
        return self.wordings(subject)[0]

    def wordings(self, subject: str = PERSON, *, opposite: str = "") -> list[Attribute]:
        """The attribute in several pairs of sentences, for a reader that may tell one pair and not another.

        ``opposite`` is a property that is never said together with this one, such as "young" of "old".

        >>> old = phrases_of("an old man")[1].wordings(opposite="young")
        >>> [one.negative for one in old][:2]
        ['a photo of a person who is not old', 'a photo of a young person']
        """
        pairs = list(self._pairs(subject, opposite))
        return [
            Attribute(name=str(self), positive=fix_articles(positive), negative=fix_articles(negative))
            for positive, negative in dict.fromkeys(pairs)
        ]

    def _pairs(self, subject: str, opposite: str) -> Iterator[tuple[str, str]]:
        who, photo = "who" if _is_person(subject) else "that", "a photo of a"
        if self.link == "":
            noun = " ".join(self.words)
            other = _counterpart(noun)
            yield f"{photo} {noun}", f"{photo} {other}" if other else f"{photo} {subject} {who} is not a {noun}"
            return
        if self.link == _IS:
            positive, says, denies = f"{photo} {self.text} {subject}", f"is {self.text}", f"is not {self.text}"
            yield positive, f"{photo} {subject} {who} {denies}"
            if opposite:
                yield positive, f"{photo} {opposite} {subject}"
                yield f"The {subject} {says}.", f"The {subject} is {opposite}."
        else:
            without = "without" if self.link == "with" else f"not {self.link}"
            positive = f"{photo} {subject} {self.link} {self.text}"
            yield positive, f"{photo} {subject} {without} {self.text}"
            bare = self.text.partition(" ")[2] if self.text.startswith(("a ", "an ")) else self.text
            has = self.link == "with"
            says = f"has {self.text}" if has else f"is {self.link} {self.text}"
            denies = f"has no {bare}" if has else f"is not {self.link} {self.text}"
        yield f"The {subject} {says}.", f"The {subject} {denies}."
        if self.link == "in":
            yield f"The {subject} is wearing {self.text}.", f"The {subject} is not wearing {self.text}."
        yield positive, f"{photo} {subject}"


def phrases_of(caption: str) -> list[Phrase]:
    """Who or what a caption names first, its properties, and all that is said to be with it; each once.

    Of "in embroidered clothing" also "in clothing" is given, so that what is common to many phrases can be found.
    A caption that names nothing gives none.
    """
    phrases: dict[tuple[str, ...], Phrase] = {}
    for number, (link, tokens) in enumerate(_segments(caption)):
        for phrase in _of_head(tokens) if number == 0 and not link else _of_segment(link, tokens):
            phrases.setdefault(phrase.words, phrase)
    return list(phrases.values())


def is_about_person(caption: str) -> bool:
    """Whether who or what the caption names first is a person.

    >>> is_about_person("an old man in a park"), is_about_person("a rose on a table")
    (True, False)
    """
    first = next(iter(phrases_of(caption)), None)
    return first is not None and first.link == "" and _is_person(first.words[-1])


def is_about_thing(text: str) -> bool:
    """Whether who or what the text names first is a thing, and nobody is named beside it.

    >>> is_about_thing("red tulips"), is_about_thing("guard"), is_about_thing("a street with people")
    (True, False, False)
    """
    words, phrases = lexicon(), phrases_of(text)
    nouns = [phrase.words[-1] for phrase in phrases if phrase.link != _IS]
    return bool(phrases) and words.is_thing(phrases[0].words[-1]) and not any(map(_is_person, nouns))


def is_gendered(noun: str) -> bool:
    """Whether it is a gender word, such as "woman"."""
    words = lexicon()
    return noun in words.masculine or noun in words.feminine


def _is_person(noun: str) -> bool:
    words = lexicon()
    return is_gendered(noun) or noun in words.person_words or words.is_person(noun)


def _segments(caption: str) -> Iterator[tuple[str, list[str]]]:
    """The caption cut where a preposition, a participle or an "and" begins something new: (link, words)."""
    words, link, tokens, n_segments = lexicon(), "", list[str](), 0
    for token in _TOKEN.findall(caption.lower()):
        joins = token in words.coordinators or not token[0].isalpha()
        if tokens:
            after_noun = tokens[-1] not in words.determiners and is_noun(tokens[-1])
        else:
            after_noun = n_segments > 0 and not words.frequency(token, "ADJ")
        opens = token in words.prepositions or (token.endswith("ing") and after_noun)
        ends = token in words.relatives or token in words.other_function_words
        if not (joins or opens or ends):
            tokens.append(token)
            continue
        named = [word for word in tokens if word not in words.determiners]
        if opens and (not named or named[-1] in words.stop_words) and link:  # "standing in", "in front of"
            link = " ".join([link, *tokens, token])
            tokens = []
            continue
        if named:
            yield link, tokens
            n_segments += 1
        tokens = []
        link = token if opens else link if joins else ""
    if tokens:
        yield link, tokens


def is_noun(token: str) -> bool:
    """Whether it is a noun rather than an adjective; a word that is not known is one, but for a participle."""
    words = lexicon()
    lemma = words.lemma(token, "NOUN")
    if lemma is not None:
        return (words.frequency(lemma, "NOUN") or 0) >= (words.frequency(token, "ADJ") or 0)
    return token not in words.rows and not token.endswith("ed")


def _of_head(tokens: list[str]) -> Iterator[Phrase]:
    """Who or what is shown, and its properties."""
    words = lexicon()
    named = _with_compounds([token for token in tokens if token not in words.determiners], words)
    if not named or named[-1] in words.stop_words:
        return
    noun = words.lemma(named[-1], "NOUN") or named[-1]
    yield Phrase(words=(noun,), link="", text=noun)
    for word in named[:-1]:
        yield Phrase(words=(word,), link=_IS, text=word)


def _of_segment(link: str, tokens: list[str]) -> Iterator[Phrase]:
    """The phrase and, where it has several words, its last one alone."""
    words = lexicon()
    named = [token for token in tokens if token not in words.determiners]
    if not named or not link or len(named) > _LONGEST or named[-1] in words.stop_words:
        return
    key = (*named[:-1], words.lemma(named[-1], "NOUN") or named[-1])
    has_article = tokens[0] in ("a", "an")
    text = " ".join([article(named[0]), *named] if has_article else named)
    yield Phrase(words=key, link=link, text=text)
    if len(named) > 1:
        yield Phrase(words=key[-1:], link=link, text=f"{article(named[-1])} {named[-1]}" if has_article else named[-1])


def _with_compounds(named: list[str], words: Lexicon) -> list[str]:
    """Neighbours that are one word with a hyphen put together: "dark skinned" is "dark-skinned"."""
    joined: list[str] = []
    for word in named:
        if joined and f"{joined[-1]}-{word}" in words.rows:
            joined[-1] = f"{joined[-1]}-{word}"
        else:
            joined.append(word)
    return joined


def _counterpart(noun: str) -> str:
    """The other gender's word; "" for a noun without gender."""
    words = lexicon()
    other = "woman" if noun in words.masculine else "man" if noun in words.feminine else ""
    return _COUNTERPARTS.get(noun, other)


def common_form(phrases: Iterable[Phrase]) -> Phrase:
    """Of phrases with the same words, the one that is written most often; the first of equally frequent ones."""
    counts: dict[Phrase, int] = {}
    for phrase in phrases:
        counts[phrase] = counts.get(phrase, 0) + 1
    return max(counts, key=counts.__getitem__)
