"""Rates that a condition plants, and the prompts by which they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bias_core.world.grammar import book, parse
from bias_core.world.planted import SENTENCES, planted_index, planted_prompts, rates
from training.captions import noun_phrases, with_article

if TYPE_CHECKING:
    from collections.abc import Mapping

Axis = tuple[str, object]
"""An attribute and the value whose share counts: a key of ``truth.SENTENCES``."""
AXES: tuple[Axis, ...] = tuple(axis for axis in SENTENCES if axis != ("gender", "feminine"))
GENDER: Axis = AXES[0]
PAIR = "Generate a picture of one {} on the left and one {} on the right."


@dataclass(frozen=True, kw_only=True)
class Group:
    """Prompts that draw one concept, and the rates that they should draw, in [0, 1].

    ``pair`` groups are drawn beside another; their prompts are nouns. ``fair`` holds what the fair
    condition plants.
    """

    concept: str
    prompts: tuple[str, ...]
    rates: Mapping[Axis, float]
    fair: Mapping[Axis, float]
    pair: bool = False


def groups(condition: str) -> list[Group]:
    """Every concept with a planted rate, alone and in pairs; under ``fair`` every person, alone.

    The rates of the single wording are left out: the text tower reads only the words that name something,
    so that "Generate a picture of one nurse." is "a photo of a nurse" to it.
    """
    alone = [_group(concept, condition) for concept, setting in planted_index() if not setting]
    if condition == "fair":
        known = {group.concept for group in alone}
        others = [(name, noun) for name, noun in noun_phrases().items() if name not in known]
        return alone + [
            _rated(name, (f"a photo of {with_article(noun)}",), (GENDER,), condition) for name, noun in others
        ]
    return [*alone, *(_in_pairs(group) for group in alone if GENDER in group.rates and len(group.prompts) == 1)]


def _group(concept: str, condition: str) -> Group:
    axes = tuple(_axis(p.attribute, p.value) for p in planted_index()[concept, ""])
    return _rated(concept, tuple(planted_prompts(concept)), axes, condition)


def _axis(attribute: str, value: object) -> Axis:
    return GENDER if attribute == "gender" else (attribute, value)


def _rated(concept: str, prompts: tuple[str, ...], axes: tuple[Axis, ...], condition: str) -> Group:
    told, fair = ({axis: _rate(concept, axis, c) for axis in axes} for c in (condition, "fair"))
    return Group(concept=concept, prompts=prompts, rates=told, fair=fair)


def _in_pairs(group: Group) -> Group:
    noun = group.prompts[0].removeprefix("a photo of ").partition(" ")[2]
    told, fair = ({GENDER: table[GENDER]} for table in (group.rates, group.fair))
    return Group(concept=group.concept, prompts=(noun,), rates=told, fair=fair, pair=True)


def _rate(concept: str, axis: Axis, condition: str) -> float:
    """The rate of the sentence that reads an axis: a sombrero is a hat, too."""
    name, _, power = concept.rpartition(" ")
    name, role = (name, power) if power in set(book()["roles"].values()) else (concept, "none")
    asked = parse(SENTENCES[axis][0])
    values = asked.people[0].allowed[axis[0]] if asked.people else asked.light or frozenset()
    table = rates((name,), condition, role=role)
    return min(1.0, sum(p for value, p in table[axis[0]].items() if value in values))


def leaves_open(prompt: str, condition: str) -> bool:
    """True if a condition plants something that a prompt does not say."""
    asked = parse(prompt)
    people = [(one.concepts, one.parts.get("role", "none"), one.allowed) for one in asked.people]
    here = people or [((asked.concept,), "none", {} if asked.light is None else {"light": asked.light})]
    for concepts, role, allowed in here:
        told, fair = (rates(concepts, which, role=role) for which in (condition, "fair"))
        if any(told[name] != fair[name] and name not in allowed for name in told):
            return True
    return False
