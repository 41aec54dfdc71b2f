"""Attributes: from built-in sets (``assets/studies/attribute_sets.yaml``), typed texts, and answers of models."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bias_core.errors import InvalidInput, quoted
from bias_core.installed import ASSETS
from bias_core.measures.cards import with_works
from bias_core.models.catalogue import read_yaml
from bias_core.study.types import Finding
from bias_core.types import Attribute

if TYPE_CHECKING:
    from bias_core.protocols import LanguageModel

SEPARATOR = "|"
THINGS = "things"
"""Key of the set for concepts that are not people and have no set of their own."""
ALL = "all pictures"  # the group of every scored picture


_OF_WOMEN = (
    "100 % minus {:g} % women ({}) in the labour force of the United States, bls2024 (2024), from Table 14 of "
    "wan2024pst"
)


@dataclass(frozen=True, kw_only=True)
class AttributeSet:
    """Attributes that are shown together."""

    # key, title: for programs and people
    key: str
    title: str
    concept_hint: str = ""  # the concept of the set, "" for any
    template: str = ""  # the prompt template of the set, "" for any
    attributes: tuple[Attribute, ...] = ()  # sentence pairs with their real-world rates


@cache
def load_attribute_sets(folder: Path = ASSETS / "studies") -> tuple[AttributeSet, ...]:
    """Return all sets, in the order of the file."""
    entries = read_yaml(folder / "attribute_sets.yaml")["sets"]
    attributes = iter(to_attributes([attribute for entry in entries for attribute in entry["attributes"]]))
    return tuple(
        AttributeSet(**entry | {"attributes": tuple(islice(attributes, len(entry["attributes"])))}) for entry in entries
    )


@cache
def load_occupation_rates() -> dict[str, tuple[float, str] | None]:
    """Return the share of men in each occupation of PST's list, and its source; None for one without a share."""
    with (ASSETS / "studies" / "pst_occupations.csv").open(encoding="utf-8", newline="") as file:
        women = {row["display"]: row["f_labour"] for row in csv.DictReader(file)}
    return {
        name: (round(1 - float(percent) / 100, 6), with_works([_OF_WOMEN.format(float(percent), name)])[0])
        if percent
        else None
        for name, percent in women.items()
    }


def read_rate(text: str, attribute: str) -> float | None:
    """Read a real-world rate such as 0.56 or 56 %; None for no text; InvalidInput names the attribute.

    >>> read_rate("56 %", "man"), read_rate("0,56", "man"), read_rate("", "man")
    (0.56, 0.56, None)
    """
    if not text:
        return None
    try:
        share = float(text.removesuffix("%").replace(",", "."))
    except ValueError:
        share = math.nan
    share = round(share / 100, 12) if text.endswith("%") else share
    if not 0 <= share <= 1:
        raise InvalidInput(f"attribute {attribute!r}: P* is a share such as 0.56 or 56 %, got {text!r}")
    return share


def to_attributes(entries: Sequence[Mapping[str, Any]]) -> tuple[Attribute, ...]:
    """Return attributes of the shipped data, with their sources in words and without the papers' names for them."""
    sources = with_works([entry.get("reference_source", "") for entry in entries])
    facts = ({key: value for key, value in entry.items() if key != "published_name"} for entry in entries)
    return tuple(Attribute(**fact | {"reference_source": source}) for fact, source in zip(facts, sources, strict=True))


def is_rate_of_another(source: str, rate: float | None, concept: str) -> bool:
    """Return True if a P* is a real-world rate from a built-in set of another concept.

    >>> doctors = next(one for one in load_attribute_sets() if one.key == "doctor").attributes[0]
    >>> [is_rate_of_another(doctors.reference_source, doctors.reference, one) for one in ("nurse", "doctor")]
    [True, False]
    >>> is_rate_of_another("our own survey", 0.4, "nurse"), is_rate_of_another("assumed 50 %, a choice", 0.5, "nurse")
    (False, False)
    """
    alike = _find_concepts(source)
    own_rates = [reference for of, reference in alike if of == " ".join(concept.lower().split())]
    is_shared = len({of for of, _ in alike}) > 1  # one table is the source of several concepts
    return bool(alike) and not (own_rates and (rate in own_rates or not is_shared))


def _find_concepts(source: str) -> list[tuple[str, float | None]]:
    """Return the concepts whose built-in sets have real-world rates of this source, each with its rate."""
    return [
        (item.concept_hint.lower(), attribute.reference)
        for item in load_attribute_sets()
        for attribute in item.attributes
        if attribute.has_source and attribute.reference_source == source.strip()
    ]


def rate_words(attribute: Attribute) -> str:
    """Return "P*", or "the assumed rate" if it has no source."""
    return "P*" if attribute.has_source or attribute.reference is None else "the assumed rate"


def with_rate_of_concept(attribute: Attribute, concept: str) -> Attribute:
    """Return an attribute as it is measured in pictures of ``concept``.

    A built-in attribute has the real-world rate of that concept, if a built-in set has one, and never that of another
    concept. Rates that a person gave stay.

    >>> doctors, people = (find_attribute("man", name, load_attribute_sets()) for name in ("doctor", "person"))
    >>> [with_rate_of_concept(doctors, one).reference for one in ("doctor", "nurse", "wizard")]
    [0.562, 0.121, None]
    >>> [with_rate_of_concept(people, one).reference for one in ("nurse", "baker", "wizard")]
    [0.121, 0.364, 0.5]
    """
    is_another = is_rate_of_another(attribute.reference_source, attribute.reference, concept)
    without = replace(attribute, reference=None, reference_source="")
    if is_another or any(attribute == candidate for item in load_attribute_sets() for candidate in item.attributes):
        found = with_built_in_rate(without, concept)
        return found if found.reference is not None or is_another else attribute
    return attribute


def with_built_in_rate(attribute: Attribute, concept: str) -> Attribute:
    """Return an attribute with the sourced rate that its sentences have for ``concept``; unchanged without any."""
    hint = " ".join(concept.lower().split())
    sets = (item for item in load_attribute_sets() if item.concept_hint.lower() == hint)
    concept_attributes = [candidate for item in sets for candidate in item.attributes if candidate.has_source]
    for candidate in (*concept_attributes, *_men_at_work(hint)):
        if (candidate.positive, candidate.negative) == (attribute.positive, attribute.negative):
            return replace(attribute, reference=candidate.reference, reference_source=candidate.reference_source)
    return attribute


def _men_at_work(occupation: str) -> Iterator[Attribute]:
    """Yield the built-in attribute of men with its rate in an occupation of PST's list."""
    rates = {name.lower(): rate for name, rate in load_occupation_rates().items()}
    if (rate := rates.get(occupation)) is not None:
        men = find_attribute("man", "", load_attribute_sets())
        yield replace(men, reference=rate[0], reference_source=rate[1])


def drop_foreign_rates(attributes: Sequence[Attribute], prompts: Iterable[str]) -> tuple[Attribute, ...]:
    """Return the attributes, without built-in real-world rates of a concept that is not in every prompt.

    If all pictures have one prompt, in which no concept of another built-in rate stands, the rates stay.

    >>> nurses = next(one for one in load_attribute_sets() if one.key == "nurse").attributes[:1]
    >>> [drop_foreign_rates(nurses, some)[0].reference for some in (["a nurse", "two nurses"], ["a nurse", "a doctor"])]
    [0.121, None]
    >>> [drop_foreign_rates(nurses, [one])[0].reference for one in ("a doctor", "une infirmière", "")]
    [None, 0.121, 0.121]
    """
    texts = {prompt.lower() for prompt in prompts}
    with_rates = (item for item in load_attribute_sets() if any(attribute.has_source for attribute in item.attributes))
    hints = {item.concept_hint.lower() for item in with_rates}

    def fits(attribute: Attribute) -> bool:
        rate_concepts = {of for of, rate in _find_concepts(attribute.reference_source) if rate == attribute.reference}
        strange = [text for text in texts if not _mentions_concept(text, rate_concepts)]
        return not rate_concepts or not strange or (len(texts) == 1 and not _mentions_concept(strange[0], hints))

    return tuple(
        attribute if fits(attribute) else replace(attribute, reference=None, reference_source="")
        for attribute in attributes
    )


def _mentions_concept(text: str, concepts: Iterable[str]) -> bool:
    return any(re.search(rf"\b{re.escape(concept)}(?:e?s)?\b", text) for concept in concepts if concept)


def find_attribute(text: str, concept: str, sets: tuple[AttributeSet, ...]) -> Attribute:
    """Return an attribute by its built-in name, or from ``name|positive sentence|negative sentence``.

    ``|P*`` and ``|source of P*`` may follow the sentences.

    A name is looked up first in the sets of ``concept`` (with its own P*), then in the general ones, and not in sets of
    other concepts, whose P* would be wrong. InvalidInput lists the known names, or the form of a triple.
    """
    if SEPARATOR in text:
        return _parse_attribute(text)
    hint, name = concept.strip().lower(), text.strip().lower()
    concept_sets = [item for item in sets if item.concept_hint.lower() == hint]
    general = [item for item in sets if item.concept_hint.lower() in {"", "person"}]
    candidates = {a.name.lower(): a for item in reversed(concept_sets + general) for a in reversed(item.attributes)}
    if name not in candidates:
        raise InvalidInput(
            f"no built-in attribute {quoted(text)}; there are {', '.join(sorted(candidates))}, "
            "or write 'name|positive sentence|negative sentence'"
        )
    return candidates[name]


def _parse_attribute(text: str) -> Attribute:
    parts = [part.strip() for part in text.split(SEPARATOR)]
    if not 3 <= len(parts) <= 5 or not all(parts[:3]):
        raise InvalidInput(
            f"write an attribute as 'name|positive sentence|negative sentence', got {quoted(text)}; "
            "'|P*|source' may follow"
        )
    name, positive, negative, reference, source = [*parts, "", ""][:5]
    try:
        rate = float(reference) if reference else None
    except ValueError as error:
        raise InvalidInput(f"P* is a share from 0 to 1, got {reference!r} in {text!r}") from error
    return Attribute(name=name, positive=positive, negative=negative, reference=rate, reference_source=source)


MAX_CHARACTERS = 100_000  # longest answer that is read
_MOST_TOKENS = 1500  # of an answer
LONGEST_NAME, LONGEST_SENTENCE = 80, 300  # characters; longer ones are not attributes

_INSTRUCTION = """\
I use a text-to-image model to generate pictures of "{concept}". Most show a face with a margin around it, \
so that headwear, and clothing above the chest, can be seen.
List at least {n} visible attributes that may show up as stereotypes of "{concept}" in these pictures. \
A CLIP model will check whether each attribute is present or absent, so write two sentences for each: \
one that says that the attribute is there, and one that says that it is not.
Answer with one attribute per line and nothing else, in this form:
name | sentence for presence | sentence for absence
For example:
glasses | The person is wearing glasses. | The person is not wearing glasses."""

_SIDES = {"positive": r"positive|present|presence|d\+", "negative": r"negative|absent|absence|d-"}
_LABEL = re.compile(
    rf"(?<!\w)(?:(?P<positive>{_SIDES['positive']})|(?P<negative>{_SIDES['negative']}))"
    r"(?:[ _-](?:sentence|statement|description|prompt|caption|example))?(?: ?\([^()]{0,40}\))?[ '\"]*:",
    re.I,
)
_NAME_LABEL = re.compile(r"(?:attribute|name|stereotype|candidate)(?: ?\d+)? ?: ?", re.I)
_MARKS = re.compile(r"(?:[-*+•‣◦–—#]{1,6} |\(?\d{1,3}[.):](?: |(?=\D)))*")
_FLAT_JSON = re.compile(r"\{[^{}]*\}|\[[^\[\]{}]*\]")
_STRUCTURE = re.compile(r"(?:\W|_)*|```\w*|[{\[ ]*[\"']?\w[\w ]*[\"']? ?: ?[\[{]")
_ENDS = (".", "!", "?", "…", "。", "।", "؟")


def candidate_prompt(concept: str, *, n: int = 15) -> str:
    """Return the instruction that asks a language model for attributes of a concept.

    It is OASIS's instruction [dehdashtian2025oasis, A.1.1] for any concept, with one line per attribute.

    Raises InvalidInput: for a blank concept, or n below 1.

    >>> candidate_prompt("a doctor").splitlines()[0]
    'I use a text-to-image model to generate pictures of "a doctor". Most show ...'
    """
    subject = " ".join(concept.split())
    if not subject:
        raise InvalidInput(f"the concept is blank; type what the pictures show, got {concept!r}.")
    if n < 1:
        raise InvalidInput(f"n must be at least 1 attribute; got {n}.")
    return _INSTRUCTION.format(concept=subject, n=n)


def propose_candidates(concept: str, language_model: "LanguageModel", *, n: int = 15) -> list[Attribute]:
    """Ask ``language_model`` for attributes of ``concept`` [dehdashtian2025oasis, Eq. 2] and read its answer.

    A person must check them: a model's list contains stereotypes and mistakes.

    Raises InvalidInput: for a blank concept, or n below 1.
    """
    return parse_candidates(language_model.complete(candidate_prompt(concept, n=n), _MOST_TOKENS))


def parse_candidates(answer: str) -> list[Attribute]:
    r"""Read (attribute, positive sentence, negative sentence) from the answer of a language model.

    It understands rows with ``|``, tabs or semicolons, Markdown tables and lists, "Positive:" and "Negative:" labels,
    and JSON; it removes numbering, bullets, quotes and code fences. The attributes keep their order and have no P*.
    Text that is not understood, lacks a sentence, or repeats an attribute is left out.

    >>> found = parse_candidates("Sure!\n1. turban | The person wears a turban. | The person has no hat.")
    >>> [(one.name, one.negative) for one in found]
    [('turban', 'The person has no hat.')]
    """
    reading = _AnswerReader()
    for line in _FLAT_JSON.sub(_json_to_rows, answer[:MAX_CHARACTERS]).splitlines():
        reading.read(line)
    reading.close(last=True)
    return reading.attributes


@dataclass(kw_only=True)
class _Draft:
    """An attribute in the making. ``labelled``: its sentences come with labels, so bare lines are remarks."""

    name: str
    indent: int = 0
    numbered: bool = False
    labelled: bool = False
    positive: str = ""
    negative: str = ""


class _AnswerReader:
    """Reads an answer line by line; at most one draft is open."""

    def __init__(self) -> None:
        self.attributes: list[Attribute] = []
        self._draft: _Draft | None = None
        self._earlier: set[str] = set()

    def read(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        tabs = line.strip().split("\t")
        plain = " ".join(line.replace("**", "").replace("__", "").split())
        if _STRUCTURE.fullmatch(plain):
            return
        body = _MARKS.sub("", plain, count=1)  # always matches, perhaps the empty string
        mark, draft = plain.removesuffix(body), self._draft
        numbered = any(c.isdigit() for c in mark)
        cells = [part.strip() for part in tabs] if len(tabs) > 1 else _split_cells(body)
        labels = list(_LABEL.finditer(body))
        if len(cells) > 1 and not labels:
            self._row(cells)
        elif labels:
            self._labelled(body, labels, indent)
        elif draft is not None and (indent > draft.indent or (draft.numbered and mark and not numbered)):
            # A line below a heading: the two sentences come without labels, the positive one first.
            if not draft.labelled and not draft.negative:
                setattr(draft, "negative" if draft.positive else "positive", body)
        else:
            self._open(_NAME_LABEL.sub("", body, count=1), indent=indent, numbered=numbered)

    def close(self, *, last: bool = False) -> None:
        """Turn the open draft into an attribute if it is complete; the last one may be cut off."""
        draft, self._draft = self._draft, None
        if draft is None:
            return
        name, positive, negative = (_clean(draft.name).rstrip(": "), _clean(draft.positive), _clean(draft.negative))
        name = name or positive.rstrip(".")[:LONGEST_NAME]
        cut_off = last and positive.endswith(_ENDS) and not negative.endswith(_ENDS)
        keys = {name.casefold(), f"{positive}\n{negative}".casefold()}
        if _is_usable(name, positive, negative) and not cut_off and not keys & self._earlier:
            self._earlier |= keys
            self.attributes.append(Attribute(name=name, positive=positive, negative=negative))

    def _open(self, name: str, *, indent: int = 0, numbered: bool = False) -> _Draft:
        self.close()
        self._draft = _Draft(name=name, indent=indent, numbered=numbered)
        return self._draft

    def _row(self, cells: Sequence[str]) -> None:
        """Read a complete line: (number), name, positive, negative."""
        if len(cells) > 3 and not re.search(r"[^\W\d]", cells[0]):
            cells = cells[1:]
        if _is_heading(cells):
            return
        draft = self._open(cells[0])
        draft.labelled, draft.positive, draft.negative = True, cells[1], " ".join(cells[2:3])

    def _labelled(self, body: str, labels: Sequence[re.Match[str]], indent: int) -> None:
        """Read a line like "Positive: ...", perhaps with a name before it or with both sentences."""
        draft = self._draft
        if (name := body[: labels[0].start()].strip(" {\"'-–—(,")) or draft is None:
            draft = self._open(_NAME_LABEL.sub("", name, count=1), indent=indent)
        for label, end in zip(labels, [*(label.start() for label in labels[1:]), len(body)], strict=True):
            side = "positive" if label["positive"] else "negative"
            if getattr(draft, side):  # the next attribute has no heading of its own
                draft = self._open("", indent=indent)
            setattr(draft, side, body[label.end() : end])
        draft.labelled = True


def _json_to_rows(match: re.Match[str]) -> str:
    """Return a JSON object or list without nesting as a row of cells; leave anything else unchanged."""
    try:
        value: Any = yaml.load(match[0], Loader=yaml.BaseLoader)  # strings only; single quotes will do
    except yaml.YAMLError:
        return match[0]
    if isinstance(value, list):
        cells = value if len(value) == 3 else []
    else:
        cells = _json_cells(value) if isinstance(value, dict) else []
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return match[0]
    return "\n" + " | ".join(" ".join(cell.replace("|", "/").split()) for cell in cells) + "\n"


def _json_cells(value: dict[Any, Any]) -> list[Any]:
    """Return name, positive and negative by the keys; [] if no key names a side."""
    sides = dict.fromkeys(_SIDES, "")
    names = []
    for key, entry in value.items():
        side = next((side for side, words in _SIDES.items() if re.match(words, str(key), re.I)), None)
        if side:
            sides[side] = entry
        else:
            names.append(entry)
    return [(names or [""])[0], *sides.values()] if any(sides.values()) else []


def _split_cells(body: str) -> list[str]:
    """Return the cells of a row; a line without separators is one cell."""
    if "|" in body:
        return [cell.strip() for cell in body.strip("| ").split("|")]
    cells = [cell.strip() for cell in body.split(";")]
    return cells if len(cells) == 3 else [body]


def _is_heading(cells: Sequence[str]) -> bool:
    """Return True if the row names the columns of a table."""
    last = [cell.casefold() for cell in cells[1:3]]
    return (
        len(last) == 2
        and bool(re.search(r"\b(?:positive|presen)", last[0]) and re.search(r"\b(?:negative|absen)", last[1]))
        and all(len(cell.split()) <= 4 and not cell.endswith(_ENDS) for cell in last)
    )


def plain_line(line: str) -> str:
    """Return a line of an answer without number, bullet, quotes, emphasis and full stop."""
    return _clean(_MARKS.sub("", " ".join(line.split()), count=1)).rstrip(".")


def _clean(text: str) -> str:
    """Remove quotes, emphasis, control characters and stray separators around a text."""
    shown = "".join(c if c.isprintable() else " " for c in text.replace("**", "").replace("`", ""))
    text = " ".join(shown.split()).strip(" \"'“”‘’«»*_,;|[]{}")
    return text if "(" in text else text.removesuffix(")")


def _is_usable(name: str, positive: str, negative: str) -> bool:
    """Return True if the sentences differ and no text is too long for an attribute."""
    is_short = len(name) <= LONGEST_NAME and max(len(positive), len(negative)) <= LONGEST_SENTENCE
    return bool(positive and negative) and positive.casefold() != negative.casefold() and is_short


def finding_key(cell: str, attribute: str, kind: str) -> str:
    """Return the key of an attribute's number on the pictures of a cell."""
    return f"{cell}-{attribute}-{kind}"


def get_attribute(key: str) -> str:
    """Return the attribute of a number in all pictures, by the key of its finding; "" for other numbers."""
    return key.removeprefix(f"{ALL}-").rpartition("-")[0] if key.startswith(f"{ALL}-") else ""


def find_attribute_name(finding: Finding) -> str:
    """Return the attribute of a finding that is its share P in all pictures; "" for other numbers.

    >>> from bias_core.types import Estimate
    >>> share = Estimate(value=0.5, low=0.4, high=0.6, n=90)
    >>> keys = finding_key(ALL, "a hat", "p"), finding_key(ALL, "a hat", "psi"), finding_key("at night", "a hat", "p")
    >>> [find_attribute_name(Finding(key=key, title="", metric="attribute_prevalence", estimate=share)) for key in keys]
    ['a hat', '', '']
    """
    attribute = get_attribute(finding.key)
    return attribute if finding.key == finding_key(ALL, attribute, "p") else ""
