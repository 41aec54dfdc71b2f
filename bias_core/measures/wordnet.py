"""WordNet in one small table: parts of speech of a word, its lemma, and the name of its synonyms."""

import gzip
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from bias_core.errors import InvalidInput
from bias_core.installed import ASSETS

PartOfSpeech = Literal["NOUN", "VERB", "ADJ", "ADV"]
PARTS_OF_SPEECH: tuple[PartOfSpeech, ...] = ("NOUN", "VERB", "ADJ", "ADV")

_TABLES = ASSETS / "wordnet"
_LETTERS: Mapping[str, PartOfSpeech] = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}
# WordNet's detachment rules (man page morphy(7WN)): ending of the form, ending of the lemma.
_DETACHMENTS: Mapping[PartOfSpeech, tuple[tuple[str, str], ...]] = {
    "NOUN": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "VERB": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "ADJ": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "ADV": (),
}


@dataclass(frozen=True, kw_only=True)
class Lexicon:
    """The words that :func:`bias_core.measures.objects.extract_objects` knows."""

    # word -> "noun,verb,adjective,adverb,kind<tab>name": how often its most frequent sense of each part of speech was
    # tagged in WordNet's corpora (empty: it is no such part), p for a noun that names people, t for one that names
    # things and hardly ever people, o for others that can be seen, and the name that it shares with its synonyms
    # (empty: its own)
    rows: Mapping[str, str]
    # (form, part of speech) -> lemmas that no rule finds ("mice", "left")
    irregular: Mapping[tuple[str, PartOfSpeech], tuple[str, ...]]
    # words kept together -> the word that the table has for them ("cell phone": "cellphone")
    compounds: Mapping[str, str]
    # determiners, relatives, prepositions, coordinators, other_function_words: words that are never objects; which kind
    # they are tells what may follow
    determiners: Collection[str]
    relatives: Collection[str]
    prepositions: Collection[str]
    coordinators: Collection[str]
    other_function_words: Collection[str]
    stop_words: Collection[str]  # nouns of captions that are no objects in a picture ("view", "background")
    released_stop_words: Collection[str]  # those of the released code, which counts all other words
    # masculine, feminine: gender words of Table IV
    masculine: Collection[str]
    feminine: Collection[str]
    person_words: Collection[str]  # those that are "person" wherever prompts and pictures are compared
    neutral: Mapping[str, str]  # gendered name of a profession -> its neutral one ("policeman": "police officer")
    people: Collection[str]  # further nouns for people, of another kind in WordNet ("people", "driver")
    things: Collection[str]  # further nouns for things ("table", "whale")
    colours: Collection[str]  # names of colours
    tones: Collection[str]  # how light a colour is
    colour_things: Collection[str]  # colours and tones that are also things ("an orange", "a light")
    things_of_colour: Collection[str]  # things that are colours only before another noun ("a ginger cat")
    shades: Collection[str]  # things that only name the shade of the colour after them ("sky blue")
    parts_of_things: Collection[str]  # nouns before which all of these are things ("orange juice")
    made_of_things: Collection[str]  # nouns before which ``things_of_colour`` are things too ("a chocolate cake")
    coloured: Collection[str]  # words after a colour or tone ("light skinned")
    keep_plural: Mapping[str, str]  # plurals with a meaning of their own ("jeans") -> their name ("": themselves)

    def frequency(self, lemma: str, part: PartOfSpeech) -> int | None:
        """Tags of the most frequent sense of this part of speech; None where the word has no such sense."""
        if lemma not in self.rows:
            return None
        count = self.rows[lemma].split("\t")[0].split(",")[PARTS_OF_SPEECH.index(part)]
        return int(count) if count else None

    def is_person(self, noun: str) -> bool:
        """True if it names people: its first sense is a person, and none is a thing."""
        return noun == "person" or noun in self.people or self._kind(noun) == "p"

    def is_thing(self, noun: str) -> bool:
        """True if it names things and hardly ever people: animals, plants, food, artefacts, places."""
        return (noun in self.things or self._kind(noun) == "t") and not self.is_person(noun)

    def is_groundable(self, noun: str) -> bool:
        """True if a picture can show it; unknown words count as visible, since brands are unknown."""
        return noun not in self.rows or self.is_person(noun) or bool(self._kind(noun))

    def _kind(self, noun: str) -> str:
        return self.rows[noun].split("\t")[0].split(",")[len(PARTS_OF_SPEECH)] if noun in self.rows else ""

    def lemma(self, form: str, part: PartOfSpeech) -> str | None:
        """Most frequent word that ``form`` can be a form of, itself first; None if there is none.

        WordNet's morphy: the form, its entries in the exception list, the rules of detachment [miller1995].
        """
        if part == "NOUN" and form in self.keep_plural:
            return form
        frequencies = {  # a dict keeps the order, which decides ties
            candidate: frequency
            for candidate in (form, *self.irregular.get((form, part), ()), *_detached(form, part))
            if (frequency := self.frequency(candidate, part)) is not None
        }
        return max(frequencies, key=frequencies.__getitem__) if frequencies else None

    def name(self, noun: str) -> str:
        """Common name of a noun and the synonyms of its first sense; the noun itself if there are none."""
        if noun in self.keep_plural:
            return self.keep_plural[noun] or noun
        noun = self.compounds.get(noun) or noun
        return (self.rows[noun].split("\t")[1] if noun in self.rows else "") or noun


@cache
def lexicon() -> Lexicon:
    """The shipped lexicon, read on first use from ``assets/wordnet``.

    Raises InvalidInput: if the tables are not there.

    >>> lexicon().lemma("mice", "NOUN"), lexicon().name("couch"), lexicon().frequency("watch", "VERB")
    ('mouse', 'sofa', 77)
    """
    try:
        words = json.loads((_TABLES / "words.json").read_text(encoding="utf-8"))
        rows = dict(line.split("\t", 1) for line in _read_lines("lexicon.tsv.gz"))
        irregular: dict[tuple[str, PartOfSpeech], tuple[str, ...]] = {}
        for line in _read_lines("irregular.tsv.gz"):
            form, letter, lemma = line.split("\t")
            key = form, _LETTERS[letter]
            irregular[key] = (*irregular.get(key, ()), lemma)
    except OSError as error:
        raise InvalidInput(f"The word tables of assets/wordnet cannot be read: {error}.") from None
    given: dict[str, Any] = {
        key: frozenset(value) if isinstance(value, list) else value
        for key, value in words.items()
        if key in Lexicon.__dataclass_fields__
    }
    return Lexicon(rows=rows, irregular=irregular, **given)


def _read_lines(name: str) -> list[str]:
    return gzip.decompress((_TABLES / name).read_bytes()).decode("utf-8").splitlines()


def _detached(form: str, part: PartOfSpeech) -> list[str]:
    """Lemmas that the rules propose; "ss" is no plural."""
    if part == "NOUN" and form.endswith("ss"):
        return []
    return [
        form.removesuffix(ending) + replacement
        for ending, replacement in _DETACHMENTS[part]
        if form.endswith(ending) and form != ending
    ]
