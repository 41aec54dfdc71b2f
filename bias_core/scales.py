"""Scales: ordered classes of how a person looks in a picture, the ten skin tones of the Monk scale and age groups."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from bias_core.errors import InvalidInput, quoted
from bias_core.settings import ASSETS

SEPARATOR = "|"
CANNOT_TELL = "cannot tell"  # in place of a level
SCALES = (
    "Scales",
    "Ordered classes: skin tone (ten of the Monk scale), age group; with a goal as in skin tone|even, or "
    "age group|0.2 0.5 0.3|source",
)
"""How forms and doors call this choice, and what it does."""
SCALE_READER = (
    "Reader of a scale",
    "skin-tone-classifier, once installed, on photographs of one face; no number before people label some pictures",
)
EVEN = "even"
EVEN_SOURCE = "a goal: each class as often, a choice"
_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_ROUNDED = 0.015  # how far the sum of shares in whole percents may lie from 1


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Classes in an order, and the words for them; how a person looks, not who somebody is."""

    name: str  # that is asked for
    title: str
    levels: tuple[str, ...]  # from one end to the other
    colours: tuple[str, ...]  # of each level, where it has one
    step: str  # what the distance of two levels is called
    steps: str  # several of them
    lowest: str  # what the first levels are
    highest: str  # what the last levels are
    ends: int  # levels that count as an end of the scale
    record: str  # name of what pictures of the calibration world have on record
    unlike: tuple[str, ...]  # levels whose colour there is nearer to that of another level
    source: str
    question: str  # that raters are asked; "{}" is whom the picture was asked to show

    @property
    def lowest_words(self) -> str:
        """The levels at the beginning, in words.

        >>> [(scale.lowest_words, scale.highest_words) for scale in load_scales().values()]
        [('three lightest', 'three darkest'), ('youngest', 'oldest')]
        """
        return self._end_words(self.lowest)

    @property
    def highest_words(self) -> str:
        """The levels at the end."""
        return self._end_words(self.highest)

    def _end_words(self, end: str) -> str:
        return end if self.ends == 1 else f"{('two', 'three')[self.ends - 2]} {end}"


@dataclass(frozen=True, kw_only=True)
class AskedScale:
    """A scale that is asked for, with the shares that somebody states as a goal, or as a reference with its source."""

    scale: Scale
    goal: tuple[float, ...] = ()  # a share for each level; () for none
    source: str = ""  # of the goal


@cache
def load_scales() -> Mapping[str, Scale]:
    """Every scale by its name."""
    text = (ASSETS / "studies" / "scales.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.safe_load(text)["scales"]
    lists = ("levels", "colours", "unlike")
    return {entry["name"]: Scale(**entry | {name: tuple(entry[name]) for name in lists}) for entry in entries}


def read_scales(texts: Sequence[str]) -> tuple[AskedScale, ...]:
    """Scales from their names, also with a goal: ``skin tone``, ``skin tone|even``, ``age group|0.2 0.5 0.3|source``.

    Raises
    ------
    InvalidInput : for an unknown scale, one that is asked for twice, shares that do not fit it, or have no source.

    Examples
    --------
    >>> [one.goal for one in read_scales(["age group|0.25 0.5 0.25|our goal"])]
    [(0.25, 0.5, 0.25)]
    """
    scales = tuple(_read(text) for text in texts if text.strip())
    names = [one.scale.name for one in scales]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidInput(f"the scale {quoted(twice[0])} is asked for twice")
    return scales


def _read(text: str) -> AskedScale:
    name, goal, source, *more = [part.strip() for part in f"{text}||".split(SEPARATOR)]
    scale = load_scales().get(name.lower())
    if scale is None:
        raise InvalidInput(f"no scale is called {quoted(name)}; there are {', '.join(load_scales())}")
    if any(more):
        raise InvalidInput(f"a scale is its name, then a goal and its source, with | between; got {quoted(text)}")
    if not goal:
        return AskedScale(scale=scale)
    k = len(scale.levels)
    if goal == EVEN:
        return AskedScale(scale=scale, goal=(1 / k,) * k, source=source or EVEN_SOURCE)
    parts = goal.split()
    shares = [float(part) for part in parts if _NUMBER.fullmatch(part)]
    if len(shares) < len(parts) or len(shares) != k or abs(sum(shares) - 1) > _ROUNDED:
        says = f"{EVEN}, or {k} shares that add up to 1 with spaces between"
        raise InvalidInput(f"a goal for {name} is {says}; got {quoted(goal)}")
    if not source:
        raise InvalidInput(f"say where the shares for {name} come from, or that they are a goal: {name}|…|source")
    return AskedScale(scale=scale, goal=tuple(share / sum(shares) for share in shares), source=source)
