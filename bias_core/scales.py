"""Scales: ordered classes of how a person looks in a picture, the ten skin tones of the Monk scale and age groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from bias_core.settings import ASSETS


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Classes in an order, and the words for them; how a person looks, not who somebody is."""

    name: str  # that is asked for
    title: str
    levels: tuple[str, ...]  # from one end to the other
    colours: tuple[str, ...]  # of each level, where it has one
    step: str  # what the distance of two levels is called
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


@cache
def load_scales() -> Mapping[str, Scale]:
    """Every scale by its name."""
    text = (ASSETS / "studies" / "scales.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.safe_load(text)["scales"]
    lists = ("levels", "colours", "unlike")
    return {entry["name"]: Scale(**entry | {name: tuple(entry[name]) for name in lists}) for entry in entries}
