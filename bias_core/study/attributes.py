"""The built-in attribute sets (``assets/studies/attribute_sets.yaml``), and attributes typed by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bias_core.errors import InvalidInput, quoted
from bias_core.measures.cards import with_works
from bias_core.models.catalogue import read_yaml
from bias_core.settings import ASSETS
from bias_core.study.phrases import is_about_thing
from bias_core.study.types import Finding
from bias_core.types import Attribute

SEPARATOR = "|"
ALL = "all pictures"  # the cell of a table that holds every scored picture
THINGS = "things"
"""Key of the set for concepts that are no people, and for which no set was made."""


@dataclass(frozen=True, kw_only=True)
class AttributeSet:
    """Attributes that are shown together."""

    # key, title: for programs and for people
    key: str
    title: str
    concept_hint: str = ""  # a concept that the set suits, "" for any
    template: str = ""  # the prompt template it goes with, "" for any
    attributes: tuple[Attribute, ...] = ()  # sentence pairs with their real-world rates


@cache
def load_attribute_sets(folder: Path = ASSETS / "studies") -> tuple[AttributeSet, ...]:
    """All sets, in the order of the file."""
    return tuple(
        AttributeSet(**entry | {"attributes": to_attributes(entry["attributes"])})
        for entry in read_yaml(folder / "attribute_sets.yaml")["sets"]
    )


def to_attributes(entries: Sequence[Mapping[str, Any]]) -> tuple[Attribute, ...]:
    """Return attributes of the shipped data: their sources in words, and without the names that papers print."""
    sources = with_works([entry.get("reference_source", "") for entry in entries])
    facts = ({key: value for key, value in entry.items() if key != "published_name"} for entry in entries)
    return tuple(Attribute(**one | {"reference_source": source}) for one, source in zip(facts, sources, strict=True))


def suggest_set(concept: str, sets: tuple[AttributeSet, ...]) -> AttributeSet:
    """The set made for this concept, else that of things or the first, of people; InvalidInput where there are none."""
    if not sets:
        raise InvalidInput("there are no attribute sets to suggest from")
    hint = " ".join(concept.lower().split())
    usual = THINGS if is_about_thing(hint) else sets[0].key
    made = (item for item in sets if hint and item.concept_hint.lower() == hint)
    return next(made, next((item for item in sets if item.key == usual), sets[0]))


def is_rate_of_another(source: str, rate: float | None, concept: str) -> bool:
    """Whether a P* is a rate in the world that a built-in set has for other concepts than this one.

    >>> doctors = next(one for one in load_attribute_sets() if one.key == "doctor").attributes[0]
    >>> [is_rate_of_another(doctors.reference_source, doctors.reference, one) for one in ("nurse", "doctor")]
    [True, False]
    >>> is_rate_of_another("our own survey", 0.4, "nurse"), is_rate_of_another("assumed 50 %, a choice", 0.5, "nurse")
    (False, False)
    """
    alike = [
        (item.concept_hint.lower(), one.reference)
        for item in load_attribute_sets()
        for one in item.attributes
        if one.has_source and one.reference_source == source.strip()
    ]
    own = [reference for of, reference in alike if of == " ".join(concept.lower().split())]
    is_shared = len({of for of, _ in alike}) > 1  # one table is the source of several concepts
    return bool(alike) and not (own and (rate in own or not is_shared))


def find_attribute(text: str, concept: str, sets: tuple[AttributeSet, ...]) -> Attribute:
    """An attribute by its built-in name, or from ``name|positive sentence|negative sentence``.

    The sentences may be followed by ``|P*`` and ``|source of P*``.

    A name is looked up first in the sets made for ``concept`` (there P* is the concept's own), then in
    the general ones. For another concept's set no P* would be right, so it is not taken from there.
    InvalidInput lists the known names, or says how a triple is written.
    """
    if SEPARATOR in text:
        return _parse_attribute(text)
    hint, name = concept.strip().lower(), text.strip().lower()
    own = [item for item in sets if item.concept_hint.lower() == hint]
    general = [item for item in sets if item.concept_hint.lower() in {"", "person"}]
    candidates = {a.name.lower(): a for item in reversed(own + general) for a in reversed(item.attributes)}
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


def finding_key(cell: str, attribute: str, kind: str) -> str:
    """The key of an attribute's number on the pictures of a cell."""
    return f"{cell}-{attribute}-{kind}"


def attribute_of(finding: Finding) -> str:
    """The attribute that a finding is the share of all pictures of; "" for every other number.

    >>> from bias_core.types import Estimate
    >>> share = Estimate(value=0.5, low=0.4, high=0.6, n=90)
    >>> keys = finding_key(ALL, "a hat", "p"), finding_key(ALL, "a hat", "psi"), finding_key("at night", "a hat", "p")
    >>> [attribute_of(Finding(key=key, title="", metric="attribute_prevalence", estimate=share)) for key in keys]
    ['a hat', '', '']
    """
    start, end = finding_key(ALL, "|", "p").split("|")
    fits = finding.key.startswith(start) and finding.key.endswith(end)
    return finding.key.removeprefix(start).removesuffix(end) if fits else ""
