"""The words of the calibration world, read once from ``assets/calibration/lexicon.yaml``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from bias_core.world.scene import DOMAINS, LIGHTS, Thing
from bias_core.world.shapes import ASSETS, drawing

Constraint = Mapping[str, frozenset[object]]
"""For a visible attribute, the values that the words allow."""

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What one phrase means. Only the fields that its kind needs are filled.

    ``kind`` is one of look, value, person, thing, nationality, valence, harm, known.
    """

    kind: str
    name: str = ""
    parts: Mapping[str, str] | None = None
    allowed: Constraint | None = None
    thing: Thing | None = None
    n: int = 1


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation or articles."""
    return [w for w in re.findall(r"\w+", text.lower().replace("'", "")) if w not in ARTICLES]


@cache
def book() -> dict[str, Any]:
    """The parsed lexicon."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read: dict[str, Any] = yaml.load((ASSETS / "lexicon.yaml").read_text(encoding="utf-8"), Loader=loader)
    return read


@cache
def association_stimuli() -> dict[str, Any]:
    """Names and valence words of the association tests, from ``assets/studies/t2iat.yaml``."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read: dict[str, Any] = yaml.load(
        (ASSETS.parent / "studies" / "t2iat.yaml").read_text(encoding="utf-8"), Loader=loader
    )
    return read


def allowed(entry: Mapping[str, object]) -> Constraint:
    """``{"age": "old"}`` and the like as sets of values."""
    return {
        field: frozenset(value if isinstance(value, list) else [value])
        for field, value in entry.items()
        if field in DOMAINS or field == "light"
    }


def negated(constraint: Constraint) -> Constraint:
    """The values that the constraint does not allow."""
    domains = {**DOMAINS, "light": LIGHTS}
    return {field: frozenset(domains[field]) - values for field, values in constraint.items()}


@cache
def phrases() -> Mapping[tuple[str, ...], Meaning]:
    """Every phrase the world knows, as a tuple of words."""
    table: dict[tuple[str, ...], Meaning] = {}
    for word in (*book()["carriers"], *book()["actions"], *book()["negations"]):
        table[tuple(words_of(str(word)) or [str(word)])] = Meaning(kind="known", name=str(word))
    for word in book()["harm"]:
        table[(word,)] = Meaning(kind="harm", name=word, allowed=allowed({"light": "gloomy"}))
    for meanings in (_things(), _names(), _people(), _looks(), _values(), _nationalities()):
        table.update({tuple(words_of(phrase)): meaning for phrase, meaning in meanings.items()})
    return table


@cache
def valence_words() -> Mapping[str, str]:
    """Evaluative words appended to a prompt -> the light they stand for."""
    concepts = association_stimuli()["concepts"]
    return {w: light for key, light in (("unpleasant", "gloomy"), ("pleasant", "bright")) for w in concepts[key]}


def _things() -> dict[str, Meaning]:
    icons = drawing("icons")
    found = {}
    for phrase, spec in book()["things"].items():
        *icon, colour = spec.split()
        name = icon[0] if icon else phrase
        found[phrase] = Meaning(
            kind="thing", name=phrase, thing=Thing(icon=name if name in icons else "unknownthing", colour=colour)
        )
    return found


def _looks() -> dict[str, Meaning]:
    found = {}
    for phrase, spec in book()["looks"].items():
        parts = dict(zip(("setting", "clothing", "prop", "colour"), spec.split(), strict=False))
        found[phrase] = Meaning(kind="look", name=phrase, parts=parts)
    for alias, phrase in book()["aliases"].items():
        found[alias] = found[phrase]
    return found


def _people() -> dict[str, Meaning]:
    found = {}
    for phrase, entry in book()["people"].items():
        parts = {"prop": entry["sign"]} if "sign" in entry else {}
        name = phrase if "sign" in entry else ""
        found[phrase] = Meaning(kind="person", name=name, parts=parts, allowed=allowed(entry), n=entry.get("n", 1))
    return found


def _values() -> dict[str, Meaning]:
    return {
        phrase: Meaning(kind="value", name=phrase, allowed=allowed(entry)) for phrase, entry in book()["values"].items()
    }


def _nationalities() -> dict[str, Meaning]:
    return {
        word: Meaning(kind="nationality", name=word, parts={"flag": flag})
        for word, flag in book()["nationalities"].items()
    }


def _names() -> dict[str, Meaning]:
    found = {}
    skins = {"european_american": [1, 2, 3, 4], "african_american": [7, 8, 9, 10]}
    for group, by_gender in association_stimuli()["gender"].items():
        for gender, names in by_gender.items():
            meaning = Meaning(
                kind="person", name=group, parts={}, allowed=allowed({"gender": gender, "skin": skins[group]})
            )
            found.update(dict.fromkeys(names, meaning))
    return found
