"""The words of the calibration world, read once from ``assets/calibration/lexicon.yaml``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bias_core.world.scene import DOMAINS, LIGHTS, Thing
from bias_core.world.shapes import drawing, read_asset

Constraint = Mapping[str, frozenset[object]]  # for a visible attribute, the values that the words allow

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
    return read_asset("lexicon.yaml")


@cache
def association_stimuli() -> dict[str, Any]:
    """Names and valence words of the association tests, from ``assets/studies/t2iat.yaml``."""
    return read_asset("../studies/t2iat.yaml")


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
    table.update((tuple(words_of(phrase)), meaning) for phrase, meaning in _meanings())
    return table


@cache
def words_of_the_renderer() -> frozenset[str]:
    """Words that the renderer alone understands: no model of this world was trained on them."""
    own = book()["people_of_the_renderer"]
    others = {word for phrase in phrases() if " ".join(phrase) not in own for word in phrase}
    return frozenset(word for phrase in own for word in words_of(phrase)) - others


@cache
def valence_words() -> Mapping[str, str]:
    """Evaluative words appended to a prompt -> the light they stand for."""
    concepts = association_stimuli()["concepts"]
    return {w: light for key, light in (("unpleasant", "gloomy"), ("pleasant", "bright")) for w in concepts[key]}


def _meanings() -> Iterator[tuple[str, Meaning]]:
    """Phrases with what they mean; of the same phrase the last one counts."""
    words, icons = book(), drawing("icons")
    for phrase, spec in words["things"].items():
        *icon, colour = spec.split()
        name = icon[0] if icon else phrase
        thing = Thing(icon=name if name in icons else "unknownthing", colour=colour)
        yield phrase, Meaning(kind="thing", name=phrase, thing=thing)
    skins = {"european_american": [1, 2, 3, 4], "african_american": [7, 8, 9, 10]}
    for group, by_gender in association_stimuli()["gender"].items():
        for gender, names in by_gender.items():
            values = allowed({"gender": gender, "skin": skins[group]})
            yield from ((name, Meaning(kind="person", name=group, parts={}, allowed=values)) for name in names)
    for phrase, entry in (words["people"] | words["people_of_the_renderer"]).items():
        name, parts = (phrase, {"prop": entry["sign"]}) if "sign" in entry else ("", {})
        yield phrase, Meaning(kind="person", name=name, parts=parts, allowed=allowed(entry), n=entry.get("n", 1))
    keys = ("setting", "clothing", "prop", "colour")
    looks = {name: dict(zip(keys, spec.split(), strict=False)) for name, spec in words["looks"].items()}
    for phrase, name in ({name: name for name in looks} | words["aliases"]).items():
        yield phrase, Meaning(kind="look", name=name, parts=looks[name])
    for phrase, entry in words["values"].items():
        yield phrase, Meaning(kind="value", name=phrase, allowed=allowed(entry))
    for word, flag in words["nationalities"].items():
        yield word, Meaning(kind="nationality", name=word, parts={"flag": flag})
