"""Lists of concepts: typed, built in, or read from a table; each concept has real-world rates of its own.

No model code is loaded.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bias_core.errors import InvalidInput, quoted
from bias_core.explore.extension import SUGGESTED, SeveralOptions, read_attributes, suggest_set
from bias_core.store.reader import limit_file, read_apart
from bias_core.store.tables import describe_unused_columns, note_unused_columns, read_table, refuse
from bias_core.study.attributes import (
    SEPARATOR,
    load_attribute_sets,
    load_occupation_rates,
    read_rate,
    with_built_in_rate,
    with_rate_of_concept,
)
from bias_core.types import Attribute
from bias_core.values import parse_whole_number

MOST_CONCEPTS = 200
_HEAD = 2_000  # bytes
_COLUMNS = ("attribute", "rate", "source", "n")  # of a table, in addition to "concept"


@dataclass(frozen=True, kw_only=True)
class ConceptList:
    """Concepts, in their order, with the rates and numbers of pictures that are given for single ones."""

    title: str = ""
    concepts: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()  # as the option of this name
    counts: tuple[str, ...] = ()
    note: str = ""  # what was read and is not used


_OCCUPATIONS = (
    "doctor", "nurse", "CEO", "lawyer", "teacher", "secretary", "construction worker", "cook", "farmer", "mechanic",
    "developer", "librarian",
)  # fmt: skip


@cache
def load_concept_lists() -> Mapping[str, ConceptList]:
    """Return the built-in lists by their names: those that have real-world rates."""
    nations = [
        attribute_set.concept_hint
        for attribute_set in load_attribute_sets()
        if attribute_set.concept_hint.endswith(" person")
    ]
    return {
        "occupations": ConceptList(title=f"{len(_OCCUPATIONS)} occupations", concepts=_OCCUPATIONS),
        "pst-occupations": ConceptList(
            title=f"{len(load_occupation_rates())} occupations of PST", concepts=tuple(load_occupation_rates())
        ),
        "nationalities": ConceptList(title="Nationalities", concepts=tuple(nations)),
    }


def split_concepts(text: str) -> tuple[str, ...]:
    r"""Return the concepts of a text, with commas or line breaks between them; quotation marks keep a comma.

    A concept that stands twice counts once.

    >>> split_concepts('doctor, nurse\nCEO, "a tall, thin man", Nurse')
    ('doctor', 'nurse', 'CEO', 'a tall, thin man')
    """
    try:
        cells = [cell for row in csv.reader(text.splitlines(), skipinitialspace=True) for cell in row]
    except csv.Error as error:
        raise InvalidInput(f"the concepts cannot be read: {error}") from error
    return distinct_concepts(cells)


def distinct_concepts(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without blank ones and repetitions, whatever their case."""
    named: dict[str, str] = {}
    for name in names:
        if plain := " ".join(name.split()):
            named.setdefault(plain.lower(), plain)
    return tuple(named.values())


def join_concepts(concepts: Sequence[str]) -> str:
    """Return the text of which :func:`split_concepts` makes these concepts."""
    return ", ".join(f'"{concept}"' if "," in concept or concept.startswith('"') else concept for concept in concepts)


def read_concept_list(name: str) -> ConceptList:
    """Return a built-in list by its name, or that of a table of concepts; InvalidInput lists the names.

    A table has a line for each concept, or for each rate of a concept: ``concept``, and ``attribute``, ``rate``,
    ``source``, ``n`` (its number of pictures) where they are known.
    """
    if name in load_concept_lists():
        return load_concept_lists()[name]
    if not Path(name).expanduser().is_file():
        known = ", ".join(load_concept_lists())
        raise InvalidInput(f"no list of concepts {quoted(name)}; there are {known}, or give a CSV file with a column "
                           "concept")  # fmt: skip
    path = Path(name).expanduser().absolute()
    found: ConceptList = read_apart(read_concept_table, path.name, str(path))
    return found


def has_concepts(path: str) -> bool:
    """Return True if the first line of a file names a column "concept", and none of prompts."""
    with Path(path).open("rb") as file:
        head = file.read(_HEAD).partition(b"\n")[0].decode("utf-8", "replace").lower()
    columns = {cell.strip(' "\ufeff') for cell in re.split(r"[,;\t|:{}]", head)}
    return "concept" in columns and not {"prompt", "text"} & columns


def read_concept_table(name: str, file: str) -> ConceptList:
    """Read a table of concepts, in a reader; ``name``: for messages."""
    names, rates, counts = dict[str, str](), dict[tuple[str, str], str](), dict[str, str]()
    unused, wrong = dict[str, None](), list[str]()
    with limit_file(name):
        rows = read_table(name, Path(file).read_bytes(), needs=[["concept"]], further=_COLUMNS)
        for place, row in note_unused_columns(rows, (), {"concept", *_COLUMNS}.__contains__, unused):
            try:
                _add_row({key: str(value or "").strip() for key, value in row.items()}, names, rates, counts)
            except InvalidInput as error:
                wrong.append(f"{place}: {error}")
    refuse(name, wrong)
    if not names:
        raise InvalidInput(f"{name} has no concept")
    return ConceptList(
        title=name, concepts=tuple(names.values()), rates=tuple(rates.values()), counts=tuple(counts.values()),
        note=f"{name}: {columns}" if (columns := describe_unused_columns(unused)) else "",
    )  # fmt: skip


def _add_row(
    row: Mapping[str, str], names: dict[str, str], rates: dict[tuple[str, str], str], counts: dict[str, str]
) -> None:
    concept = " ".join(row.get("concept", "").split())
    if not concept or SEPARATOR in concept:
        raise InvalidInput("has no concept" if not concept else f"a concept cannot contain {SEPARATOR}")
    concept = names.setdefault(concept.lower(), concept)
    if number := row.get("n", ""):
        text = f"{concept}{SEPARATOR}{parse_whole_number(number, 'number n of pictures')}"
        if counts.setdefault(concept.lower(), text) != text:
            raise InvalidInput(f"gives “{concept}” another number of pictures than before")
    attribute, rate, source = (row.get(name, "") for name in ("attribute", "rate", "source"))
    if not rate:
        return
    if not attribute:
        raise InvalidInput("has a rate without the attribute that it is of")
    text = SEPARATOR.join((concept, attribute, repr(read_rate(rate, attribute)), source))
    if rates.setdefault((concept.lower(), attribute.lower()), text) != text:
        raise InvalidInput(f"gives “{attribute}” of “{concept}” another rate than before")


def _measured_attributes(options: SeveralOptions) -> tuple[Attribute, ...]:
    """Return the attributes that are measured in all pictures; of suggested sets, those of all concepts by name."""
    if tuple(options.attributes) != (SUGGESTED,):
        return read_attributes(options.attributes, options.concepts[0])
    by_name: dict[str, Attribute] = {}
    for concept in options.concepts:
        for attribute in suggest_set(concept, load_attribute_sets()).attributes:
            by_name.setdefault(attribute.name.lower(), attribute)
    return tuple(by_name.values())


def listed_attributes(options: SeveralOptions) -> tuple[Attribute, ...]:
    """Return what is measured in the pictures of every concept, without built-in rates of single concepts."""
    return tuple(with_rate_of_concept(attribute, "") for attribute in _measured_attributes(options))


def attributes_by_concept(options: SeveralOptions) -> dict[str, tuple[Attribute, ...]]:
    """Return the measured attributes with the rates of each concept.

    A given rate comes first, then one that a person wrote for all concepts, then a built-in one of the concept.

    >>> of = attributes_by_concept(SeveralOptions(concepts=("nurse", "pilot"), rates=("pilot|man|0.9|our count",)))
    >>> [(concept, found[0].name, found[0].reference) for concept, found in of.items()]
    [('nurse', 'man', 0.121), ('pilot', 'man', 0.9)]
    """
    measured, given = _measured_attributes(options), read_given_rates(options)
    found: dict[str, tuple[Attribute, ...]] = {}
    for concept in options.concepts:
        rates = [given.get((concept.lower(), attribute.name.lower())) for attribute in measured]
        found[concept] = tuple(
            replace(attribute, reference=rate[0], reference_source=rate[1]) if rate else _own_rate(attribute, concept)
            for attribute, rate in zip(measured, rates, strict=True)
        )
    return found


def _own_rate(attribute: Attribute, concept: str) -> Attribute:
    if attribute.reference is None:
        return with_built_in_rate(attribute, concept)
    return with_rate_of_concept(attribute, concept)


def read_given_rates(options: SeveralOptions) -> dict[tuple[str, str], tuple[float, str]]:
    """Return the given rates with their sources by concept and attribute, in lower case; InvalidInput for others."""
    measured = {attribute.name.lower() for attribute in _measured_attributes(options)}
    concepts = {concept.lower() for concept in options.concepts}
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for text in options.rates:
        concept, attribute, rate, source = [*(part.strip() for part in text.split(SEPARATOR, 3)), "", "", ""][:4]
        key = concept.lower(), attribute.lower()
        if not rate:
            raise InvalidInput(f"write a rate as concept|attribute|P*|source, got {quoted(text)}")
        if key[0] not in concepts:
            raise InvalidInput(f"there is a rate for {quoted(concept)}, which is not among the concepts")
        if key[1] not in measured:
            raise InvalidInput(
                f"there is a rate of {quoted(attribute)} for {quoted(concept)}, which is not measured; add this "
                f"attribute, or leave the rate out (measured: {', '.join(measured)})"
            )
        found[key] = (read_rate(rate, attribute) or 0.0, source or "given without a source, a choice")
    return found


def read_counts(options: SeveralOptions) -> dict[str, int]:
    """Return the number of pictures of each concept; InvalidInput for a wrong one."""
    counts = dict.fromkeys(options.concepts, options.n_images)
    names = {concept.lower(): concept for concept in options.concepts}
    for text in options.counts:
        concept, _, number = text.rpartition(SEPARATOR)
        if concept.strip().lower() not in names:
            raise InvalidInput(f"there is a number of pictures for {quoted(concept or text)}, which is not among the "
                               "concepts; write concept|number")  # fmt: skip
        n = parse_whole_number(number.strip(), "number of pictures")
        if n < 1:
            raise InvalidInput(f"“{concept}” needs at least one picture, got {n}")
        counts[names[concept.strip().lower()]] = n
    return counts


def check_concepts(options: SeveralOptions) -> None:
    """Raise InvalidInput for lists that cannot be drawn."""
    if not 1 <= len(options.concepts) <= MOST_CONCEPTS:
        raise InvalidInput(f"a run has 1 to {MOST_CONCEPTS} concepts, got {len(options.concepts):,}")
    if len(distinct_concepts(options.concepts)) < len(options.concepts):
        raise InvalidInput("each concept may stand only once, and none may be empty")
    if wrong := next((concept for concept in options.concepts if SEPARATOR in concept), ""):
        raise InvalidInput(f"a concept cannot contain {SEPARATOR}: {quoted(wrong)}")
    read_given_rates(options)
    read_counts(options)
