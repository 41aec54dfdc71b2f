"""Suggests attributes: from the words of a concept, and from what its pictures show more often than a baseline's.

Words: a language model lists attributes [dehdashtian2025oasis, Eq. 2]; one that follows no instructions continues
sentences about the concept. Pictures: phrases of captions are compared with those of a matched baseline.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.measures.wordnet import Lexicon, lexicon
from bias_core.prompts import article, fill_template, fix_articles
from bias_core.study.attributes import LONGEST_SENTENCE, plain_line, propose_candidates
from bias_core.study.types import Claim
from bias_core.types import Attribute
from bias_core.wording import format_count

if TYPE_CHECKING:
    from bias_core.protocols import LanguageModel

if TYPE_CHECKING:
    from bias_core.measures.object_comparison import ObjectComparison, ObjectOdds

PERSON = "person"
_IS = "is"  # link of a property of the subject, such as "old" in "an old man"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_LONGEST = 3  # words of a phrase; longer ones are ignored
_COUNTERPARTS = {"man": "woman", "woman": "man", "boy": "girl", "girl": "boy"}


@dataclass(frozen=True, kw_only=True, order=True)
class Phrase:
    """A thing, a person or a property that a caption names.

    >>> phrases = parse_phrases("an old man with a beard wearing a white hat in a park")
    >>> [str(phrase) for phrase in phrases]
    ['man', 'old', 'with a beard', 'wearing a white hat', 'wearing a hat', 'in a park']
    """

    words: tuple[str, ...]  # in lower case, the last one in the singular; equal words make equal phrases
    link: str  # word between the subject and the phrase ("wearing"); "" for the subject, "is" for a property
    text: str  # the phrase in the words of the caption, with its article

    def __str__(self) -> str:
        return self.text if self.link in ("", _IS) else f"{self.link} {self.text}"

    def attribute(self, subject: str = PERSON) -> Attribute:
        """Return the attribute, with sentences for presence and absence about a ``subject``.

        >>> beard = parse_phrases("a man with a beard")[1].attribute()
        >>> beard.positive, beard.negative
        ('a photo of a person with a beard', 'a photo of a person without a beard')
        """
        return self.wordings(subject)[0]

    def wordings(self, subject: str = PERSON, *, opposite: str = "") -> list[Attribute]:
        """Return the attribute in several pairs of sentences, as an encoder may distinguish one pair but not another.

        ``opposite`` is a property that never goes with this one, such as "young" for "old".

        >>> old = parse_phrases("an old man")[1].wordings(opposite="young")
        >>> [one.negative for one in old][:2]
        ['a photo of a person who is not old', 'a photo of a young person']
        """
        pairs = list(self._pairs(subject, opposite))
        return [
            Attribute(name=str(self), positive=fix_articles(positive), negative=fix_articles(negative))
            for positive, negative in dict.fromkeys(pairs)
        ]

    def _pairs(self, subject: str, opposite: str) -> Iterator[tuple[str, str]]:
        pronoun, photo = "who" if _is_person(subject) else "that", "a photo of a"
        if self.link == "":
            noun = " ".join(self.words)
            counterpart = _counterpart(noun)
            yield (
                f"{photo} {noun}",
                f"{photo} {counterpart}" if counterpart else f"{photo} {subject} {pronoun} is not a {noun}",
            )
            return
        if self.link == _IS:
            positive, says, denies = f"{photo} {self.text} {subject}", f"is {self.text}", f"is not {self.text}"
            yield positive, f"{photo} {subject} {pronoun} {denies}"
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


def parse_phrases(caption: str) -> list[Phrase]:
    """Return the subject that a caption names first, its properties, and the things with it, each once.

    "in embroidered clothing" also gives "in clothing", to find what many phrases share. A caption that names nothing
    gives [].
    """
    phrases: dict[tuple[str, ...], Phrase] = {}
    for number, (link, tokens) in enumerate(_segments(caption)):
        for phrase in _parse_head(tokens) if number == 0 and not link else _parse_segment(link, tokens):
            phrases.setdefault(phrase.words, phrase)
    return list(phrases.values())


def is_about_person(caption: str) -> bool:
    """Return True if the subject that the caption names first is a person.

    >>> is_about_person("an old man in a park"), is_about_person("a rose on a table")
    (True, False)
    """
    first = next(iter(parse_phrases(caption)), None)
    return first is not None and first.link == "" and _is_person(first.words[-1])


def is_about_thing(text: str) -> bool:
    """Return True if the subject that the text names first is a thing, and it names no person.

    >>> is_about_thing("red tulips"), is_about_thing("guard"), is_about_thing("a street with people")
    (True, False, False)
    """
    words, phrases = lexicon(), parse_phrases(text)
    nouns = [phrase.words[-1] for phrase in phrases if phrase.link != _IS]
    return bool(phrases) and words.is_thing(phrases[0].words[-1]) and not any(map(_is_person, nouns))


def is_gendered(noun: str) -> bool:
    """Return True for a gender word, such as "woman"."""
    words = lexicon()
    return noun in words.masculine or noun in words.feminine


def _is_person(noun: str) -> bool:
    words = lexicon()
    return is_gendered(noun) or noun in words.person_words or words.is_person(noun)


def _segments(caption: str) -> Iterator[tuple[str, list[str]]]:
    """Cut the caption at prepositions, participles and "and" that begin something new: (link, words)."""
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
    """Return True for a noun rather than an adjective; unknown words are nouns unless they end in "ed"."""
    words = lexicon()
    lemma = words.lemma(token, "NOUN")
    if lemma is not None:
        return (words.frequency(lemma, "NOUN") or 0) >= (words.frequency(token, "ADJ") or 0)
    return token not in words.rows and not token.endswith("ed")


def _parse_head(tokens: list[str]) -> Iterator[Phrase]:
    words = lexicon()
    named = _with_compounds([token for token in tokens if token not in words.determiners], words)
    if not named or named[-1] in words.stop_words:
        return
    noun = words.lemma(named[-1], "NOUN") or named[-1]
    yield Phrase(words=(noun,), link="", text=noun)
    for word in named[:-1]:
        yield Phrase(words=(word,), link=_IS, text=word)


def _parse_segment(link: str, tokens: list[str]) -> Iterator[Phrase]:
    """Yield the phrase and, if it has several words, its last word alone."""
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
    """Join neighbours that form one word with a hyphen: "dark skinned" becomes "dark-skinned"."""
    joined: list[str] = []
    for word in named:
        if joined and f"{joined[-1]}-{word}" in words.rows:
            joined[-1] = f"{joined[-1]}-{word}"
        else:
            joined.append(word)
    return joined


def _counterpart(noun: str) -> str:
    """Return the other gender's word; "" for a noun without gender."""
    words = lexicon()
    default = "woman" if noun in words.masculine else "man" if noun in words.feminine else ""
    return _COUNTERPARTS.get(noun, default)


def common_form(phrases: Iterable[Phrase]) -> Phrase:
    """Return the most frequent form of phrases with the same words; the first of a tie."""
    counts: dict[Phrase, int] = {}
    for phrase in phrases:
        counts[phrase] = counts.get(phrase, 0) + 1
    return max(counts, key=counts.__getitem__)


WORDS, PICTURES, GROUP = "words", "pictures", "group"
_MOST = 12
_LIKELY = 0.9  # confidence at which a phrase, by itself, ranks before phrases from words alone
_FEWEST_IN_GROUP = 3  # pictures
_OF_SUBJECT = ("", "is", "with", "wearing")  # links that describe the subject, not its surroundings
_OPENINGS = {True: ("with", "wearing", "in"), False: ("with", "on", "in")}  # for a person, for a thing
_N_NAMED, _N_SCENES = 15, 20  # attributes, captions that a language model is asked for
_SCENES = """\
Write {n} captions of everyday photographs, as people write them for pictures that they see. Each has 5 to 15 words \
and names "{word}" with exactly this word. Vary who and what else is there, and where. Name no brand.
Answer with one caption per line and nothing else."""
_BEGINNINGS = (
    "a {} on", "a {} in", "a {} with", "a person with a {}", "a person holding a {} in", "two people with a {} in",
    "a man with a {}", "a woman with a {}", "a table with a {} and",
)  # fmt: skip
_PROPOSED, _FURTHER = 60, 20  # next words to ask a language model for, and words after an unfinished one


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A suggested attribute with its reason, for a person to check; nothing is measured yet."""

    attribute: Attribute
    sources: tuple[str, ...]  # of "words", "pictures", "group"
    where_from: str  # in words: "in 14 of 16 pictures, 2 of 16 in the baseline; p = 0.0005"
    odds: "ObjectOdds | None" = None  # of the phrase against the baseline; None if it comes from words alone
    claim: Claim | None = None  # on these odds, in the family of all phrases
    phrase: Phrase | None = None  # None if a language model worded it

    @property
    def is_clear(self) -> bool:
        """True if the pictures clearly show it more often than the baseline."""
        return self.claim is not None and self.claim.verdict == "above"

    @property
    def is_likely(self) -> bool:
        """True if the phrase, looked at by itself, would be clear at a lower confidence; it decides the order alone."""
        from bias_core.report.claims import decide_claims  # loads scipy, which the doors do without

        return self.odds is not None and decide_claims([self.odds.log_odds], confidence=_LIKELY)[0].is_clear


def suggest_from_captions(
    captions: Sequence[str],
    base_captions: Sequence[str],
    *,
    concept: str = "",
    subject: str = PERSON,
    groups: Sequence[int] = (),
    confidence: float = 0.95,
) -> list[Suggestion]:
    """Return phrases that captions of a concept's pictures have more often than a baseline's, the clearest first.

    Parameters
    ----------
    captions, base_captions : one per picture; entry i of both is of one seed.
    concept : concept of the pictures; words of it that captions repeat are no finding.
    subject : subject of the baseline, for the sentences of the attributes.
    groups : group of similar pictures of each picture, from 0; () for none. Phrases of one group alone are suggested
        last.

    Returns
    -------
    list of Suggestion : p is McNemar's exact test of pairs; all phrases are one family of claims. Groups are made of
        the pictures themselves, so theirs is a hint and no test.

    Raises
    ------
    InvalidInput : for no captions, or numbers that differ.

    Examples
    --------
    >>> ours, base = ["a man with a beard in a shop"] * 8, ["a man in a shop", "a woman in a shop"] * 4
    >>> [(one.attribute.name, one.where_from) for one in suggest_from_captions(ours, base)][0]
    ('with a beard', 'captions: in 8 of 8 pictures, 0 of 8 in the baseline; adjusted p = 0.023 for 3 phrases')
    """
    if not captions or len(captions) != len(base_captions):
        raise InvalidInput(
            "each caption needs a baseline caption of the same seed; "
            f"got {len(captions)} captions and {len(base_captions)} of the baseline."
        )
    from bias_core.measures.object_comparison import object_odds  # loads scipy, which the doors do without

    ours, theirs = ([parse_phrases(caption) for caption in side] for side in (captions, base_captions))
    if not any(ours) and not any(theirs):
        return []
    forms = _find_frequent_forms(chain(ours, theirs))
    comparison = object_odds(_list_phrase_words(ours), _list_phrase_words(theirs), confidence=confidence)
    n, repeated = len(captions), _get_concept_words(concept)
    claims = _claims_on(comparison, confidence)
    frequent_odds = [
        odds
        for odds in comparison.objects
        if odds.n_images > odds.n_base and not repeated.issuperset(forms[odds.word].words)
    ]
    specific = _without_generals(frequent_odds, forms)
    suggestions = [_suggest_from_odds(odds, forms[odds.word], n, claims[odds.word], subject) for odds in specific]
    shown = {suggestion.attribute.name for suggestion in suggestions if suggestion.is_clear}
    hints = _suggest_from_groups(ours, theirs, groups, forms, subject, repeated, confidence)
    return [*suggestions, *(hint for hint in hints if hint.attribute.name not in shown)]


def suggest_from_words(
    concept: str, language_model: "LanguageModel", *, subject: str = PERSON, follows: bool = True
) -> list[Suggestion]:
    """Return attributes that a language model lists for a concept [dehdashtian2025oasis, Eq. 2], or continues it with.

    A model that ``follows`` no instructions, or lists no attribute, continues sentences about the concept. Its answers
    are not measured.
    """
    answered = propose_candidates(fill_template("a {}", concept), language_model, n=_N_NAMED) if follows else ()
    if answered:
        where = "words: named by the language model"
        return [Suggestion(attribute=attribute, sources=(WORDS,), where_from=where) for attribute in answered]
    phrases = _continuations(concept, subject, language_model)
    where = "words: continued by the language model"
    return [
        Suggestion(attribute=phrase.attribute(subject), sources=(WORDS,), where_from=where, phrase=phrase)
        for phrase in phrases[:_N_NAMED]
    ]


def suggest_scenes(word: str, language_model: "LanguageModel", *, follows: bool = True) -> list[str]:
    """Return captions of everyday photographs that each name a word, by a language model, for a person to check.

    A model that ``follows`` no instructions continues beginnings of captions. InvalidInput for no word, or if the model
    writes no such caption.
    """
    subject = " ".join(word.split())
    if not subject:
        raise InvalidInput(f"name the word that every scene contains, such as pizza; got {word!r}")
    if follows:
        lines = language_model.complete(_SCENES.format(word=subject, n=_N_SCENES), 40 * _N_SCENES).splitlines()
    else:
        beginnings = [fill_template(opening, subject) for opening in _BEGINNINGS]
        lines = [f"{begin} {language_model.complete(begin, _FURTHER)}" for begin in beginnings]
    named = re.compile(rf"\b{re.escape(subject)}\b", re.I)
    scenes = dict.fromkeys(plain for line in lines if named.search(plain := plain_line(line)))
    scenes = {
        scene: None for scene in scenes if len(scene) <= LONGEST_SENTENCE and scene.casefold() != subject.casefold()
    }
    if not scenes:
        raise InvalidInput(f"the language model wrote no scene with “{subject}”: write scenes of your own")
    return list(scenes)[:_N_SCENES]


def merge_suggestions(
    pictures: Sequence[Suggestion], words: Sequence[Suggestion], *, limit: int = _MOST
) -> list[Suggestion]:
    """Return at most ``limit`` suggestions, each attribute once with all its sources.

    First come attributes that pictures clearly show more often than the baseline, alternating between the subject and
    its surroundings, the clearest first. Then those that would be clear by themselves at 90 %, those that pictures and
    words both name, and the rest.
    """
    by_name = {_strip_articles(new.attribute): new for new in words}
    picture_suggestions = [_with_words(new, by_name.pop(_strip_articles(new.attribute), None)) for new in pictures]
    clear = [new for new in picture_suggestions if new.is_clear]
    likely = [new for new in picture_suggestions if not new.is_clear and new.is_likely]
    unclear = [new for new in picture_suggestions if new not in clear and new not in likely]
    agreed = [new for new in unclear if len(new.sources) > 1]
    alone = [new for new in unclear if len(new.sources) == 1]
    subject_suggestions = [new for new in clear if new.phrase is not None and new.phrase.link in _OF_SUBJECT]
    around = [new for new in clear if new not in subject_suggestions]
    ordered = [*_alternate(subject_suggestions, around), *likely, *agreed, *_alternate(alone, list(by_name.values()))]
    return ordered[:limit]


def _alternate(first: Sequence[Suggestion], second: Sequence[Suggestion]) -> list[Suggestion]:
    return [suggestion for pair in zip_longest(first, second) for suggestion in pair if suggestion is not None]


def _with_words(suggestion: Suggestion, in_words: Suggestion | None) -> Suggestion:
    if in_words is None:
        return suggestion
    return replace(
        suggestion, sources=(*suggestion.sources, WORDS), where_from=f"{suggestion.where_from}; {in_words.where_from}"
    )


def _strip_articles(attribute: Attribute) -> str:
    """Return a name without links and articles: "wearing a turban" and "turban" are one attribute."""
    words, name = lexicon(), attribute.name.lower().split()
    left = [w for w in name if w not in words.determiners and w not in words.prepositions and w not in _OF_SUBJECT]
    return " ".join(left) or attribute.name.lower()


def _list_phrase_words(phrases: Iterable[Iterable[Phrase]]) -> list[list[str]]:
    return [[" ".join(phrase.words) for phrase in of_one] for of_one in phrases]


def _find_frequent_forms(phrases: Iterable[Iterable[Phrase]]) -> dict[str, Phrase]:
    """Return the most frequent form of each phrase, by its words."""
    by_words: dict[str, list[Phrase]] = {}
    for of_one in phrases:
        for phrase in of_one:
            by_words.setdefault(" ".join(phrase.words), []).append(phrase)
    return {key: common_form(of_key) for key, of_key in by_words.items()}


def _get_concept_words(concept: str) -> set[str]:
    """Return the concept's words, with nouns also in the singular."""
    words, tokens = lexicon(), concept.lower().split()
    return {*tokens, *(words.lemma(token, "NOUN") or token for token in tokens)}


def _without_generals(candidates: "Sequence[ObjectOdds]", forms: Mapping[str, Phrase]) -> "list[ObjectOdds]":
    """Drop "in clothing" if most of it is "in embroidered clothing", and the latter if not."""
    specific = []
    for odds in candidates:
        words = forms[odds.word].words
        of_one = [(other_odds, forms[other_odds.word].words) for other_odds in candidates]
        longer = [
            other_odds for other_odds, other_words in of_one if len(other_words) > 1 and other_words[-1:] == words
        ]
        shorter = [other_odds for other_odds, other_words in of_one if len(words) > 1 and other_words == words[-1:]]
        is_general = any(2 * other_odds.n_images > odds.n_images for other_odds in longer)
        is_part = any(2 * odds.n_images <= other_odds.n_images for other_odds in shorter)
        if not is_general and not is_part:
            specific.append(odds)
    return specific


def _claims_on(comparison: "ObjectComparison", confidence: float) -> dict[str, Claim]:
    """Return what may be claimed of each phrase."""
    from bias_core.report.claims import decide_claims

    claims = decide_claims([odds.log_odds for odds in comparison.objects], confidence=confidence)
    return {odds.word: claim for odds, claim in zip(comparison.objects, claims, strict=True)}


def _suggest_from_odds(odds: "ObjectOdds", form: Phrase, n: int, claim: Claim, subject: str) -> Suggestion:
    from bias_core.report.claims import p_words

    where = (
        f"captions: in {odds.n_images} of {n} pictures, {odds.n_base} of {n} in the baseline; {p_words(claim)} for "
        f"{format_count(claim.n_tests, 'phrase')}"
    )
    attribute = form.attribute(subject)
    return Suggestion(attribute=attribute, sources=(PICTURES,), where_from=where, odds=odds, claim=claim, phrase=form)


def _suggest_from_groups(
    ours: Sequence[Sequence[Phrase]],
    theirs: Sequence[Sequence[Phrase]],
    groups: Sequence[int],
    forms: Mapping[str, Phrase],
    subject: str,
    repeated: set[str],
    confidence: float,
) -> list[Suggestion]:
    """Return phrases of most pictures of a group of similar pictures and few others, each for its clearest group."""
    from bias_core.measures.object_comparison import object_odds

    hints: dict[str, Suggestion] = {}
    for group in sorted(set(groups)):
        inside = [k for k, of in enumerate(groups) if of == group]
        outside = [k for k, of in enumerate(groups) if of != group]
        inside_keys = _list_phrase_words(ours[k] for k in inside)
        if len(inside) < _FEWEST_IN_GROUP or not outside or not (any(inside_keys) or any(theirs)):
            continue
        against = object_odds(inside_keys, _list_phrase_words(theirs), paired=False, confidence=confidence)
        claims = _claims_on(against, confidence)
        for odds in (odds for odds in against.objects if claims[odds.word].verdict == "above"):
            form, elsewhere = (
                forms[odds.word],
                sum(odds.word in key for key in _list_phrase_words(ours[k] for k in outside)),
            )
            if 2 * elsewhere >= len(outside) or repeated.issuperset(form.words):
                continue
            where = (
                f"a group of similar pictures: in {odds.n_images} of its {len(inside)} pictures, {elsewhere} of the "
                f"other {len(outside)}, {odds.n_base} of {len(theirs)} in the baseline"
            )
            hint = Suggestion(attribute=form.attribute(subject), sources=(GROUP,), where_from=where, phrase=form)
            hints.setdefault(odds.word, hint)
    return list(hints.values())


def _continuations(concept: str, subject: str, language_model: "LanguageModel") -> list[Phrase]:
    """Return phrases in which a model continues after the concept, alternating between openings."""
    prompt = fill_template("a photo of a {}", concept)
    is_person = is_about_person(f"a {subject}")
    turns = [_heads(language_model, "a photo of a", subject, is_person=is_person)]
    turns += [_openings(language_model, f"{prompt} {opening}", opening) for opening in _OPENINGS[is_person]]
    repeated, phrases = _get_concept_words(concept), dict[tuple[str, ...], Phrase]()
    for phrase in chain.from_iterable(zip_longest(*turns)):
        if phrase is not None and not repeated.issuperset(phrase.words):
            phrases.setdefault(phrase.words, phrase)
    return list(phrases.values())


def _heads(language_model: "LanguageModel", before: str, subject: str, *, is_person: bool) -> list[Phrase]:
    """Return gender words and adjectives that may come before the concept, or replace it."""
    words, phrases = lexicon(), list[Phrase]()
    texts = [text for text in language_model.propose([before], _PROPOSED)[0] if text[len(before) :].strip().isalpha()]
    for text, further in zip(texts, language_model.propose(texts, _FURTHER) if texts else (), strict=True):
        word = text[len(before) :].strip().lower()
        compounds = (f"{word}-{longer[len(text) :].strip().lower()}" for longer in further)
        word = next((compound for compound in compounds if compound in words.rows), word)
        if is_gendered(word) and is_person:
            phrases += parse_phrases(f"a {word}")
        elif words.frequency(word, "ADJ") is not None and not is_noun(word):
            phrases += [phrase for phrase in parse_phrases(f"a {word} {subject}") if phrase.link]
    return phrases


def _openings(language_model: "LanguageModel", prefix: str, opening: str) -> list[Phrase]:
    """Return phrases that may follow "with" and similar words, with one more word after an article or adjective."""
    words, texts = lexicon(), language_model.propose([prefix], _PROPOSED)[0]

    def added(text: str) -> list[str]:
        return text[len(prefix) :].lower().split()

    texts = [text for text in texts if added(text)]
    unfinished = [text for text in texts if added(text)[-1] in words.determiners or not is_noun(added(text)[-1])]
    further = language_model.propose(unfinished, _FURTHER) if unfinished else []
    whole = [text for text in texts if text not in unfinished]
    whole += [text for proposals in zip_longest(*further) for text in proposals if text is not None]
    phrases = [parse_phrases(f"a {PERSON} {opening} {' '.join(added(text))}") for text in whole]
    things = [text_phrases[1] for text_phrases in phrases if len(text_phrases) > 1 and text_phrases[1].link == opening]
    return [
        thing
        for thing in things
        if words.is_groundable(thing.words[-1]) and not is_about_person(f"a {thing.words[-1]}")
    ]


def find_opposite(phrase: Phrase, captions: Sequence[str]) -> str:
    """Return the property that captions use most often instead of this one, and never with it; "" for none.

    >>> old = parse_phrases("an old man")[1]
    >>> find_opposite(old, ["an old man", "a young man", "a young smiling woman"])
    'young'
    """
    if phrase.link != "is":
        return ""
    counts, together = Counter[str](), set[str]()
    for caption in captions:
        in_words = {phrase.text: phrase.words for phrase in parse_phrases(caption) if phrase.link == "is"}
        if phrase.words in in_words.values():
            together |= in_words.keys()
        else:
            counts.update(in_words.keys())
    for text in (text for text, _ in counts.most_common() if text not in together):
        if 2 * counts[text] > counts.total() - counts[text] or _alike(text, phrase):
            return text
    return ""


def _alike(text: str, phrase: Phrase) -> bool:
    """Return True if both are compounds of one word: "light-skinned" and "dark-skinned"."""
    end = phrase.text.rpartition("-")[2]
    return "-" in text and "-" in phrase.text and text.rpartition("-")[2] == end
