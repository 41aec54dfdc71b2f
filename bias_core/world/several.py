"""Several people in one picture: who stands where, how large, who acts on whom, and what is planted on that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from bias_core.errors import InvalidInput
from bias_core.world.scene import CHILD, GRID, PLACES, Person, Place
from bias_core.world.shapes import read_asset

PEOPLE = "people"
"""The condition of the renderer alone that plants who looks how where, for some groups of people."""
MOST_PEOPLE = max(PLACES)
ACTING, SERVED = "acting", "served"

_SCALES = {2: 0.62, 3: 0.5, 4: 0.4, 5: 0.34}  # of a whole portrait, by how many people there are
_SPREAD = 0.15  # sizes vary by that much to either side, whoever it is
_DEEPEST = 26.0  # pixels of 256 by which the smallest possible person stands further up
_INWARD = 16  # pixels of 256 nearer to the middle, where people stand at differing distances, so that none is cut off
_STEPS = range(-6, 7, 2)  # pixels nearer still, whoever it is


@dataclass(frozen=True, kw_only=True)
class PlantedPeople:
    """What hangs on whom, for people who are asked for together; 0 and {} where nothing is planted.

    With a ``nearness``, 0 too, everybody stands at a distance of their own from the middle; None: all at the same.
    """

    who: tuple[str, ...]
    role: Mapping[str, float]  # by concept: what is added to P(masculine)
    position: Mapping[str, float]  # by place ("left"): the same
    act: Mapping[str, float]  # of who acts and who is served: the same
    size: float  # share by which masculine people are drawn larger, and feminine ones smaller
    nearness: int | None  # even pixels of 256 that masculine people stand nearer to the middle, feminine ones further

    def __post_init__(self) -> None:
        if self.nearness is not None and (self.nearness % 2 or len(self.who) != 2):
            raise InvalidInput(
                f"nearness is an even number of pixels, for two people; got {self.nearness} for {self.who}"
            )

    def masculine_share(self, concept: str, place: str, act: str) -> float:
        """P(masculine) of one of them, in [0, 1]."""
        return 0.5 + self.role.get(concept, 0.0) + self.position.get(place, 0.0) + self.act.get(act, 0.0)


@cache
def planted_people() -> tuple[PlantedPeople, ...]:
    """Every group of people for whom something is planted."""
    plans: list[Mapping[str, Any]] = read_asset("planted.yaml")["people"]
    return tuple(
        PlantedPeople(
            who=tuple(plan["who"]),
            **{name: plan.get(name, {}) for name in ("role", "position", "act")},
            size=plan.get("size", 0.0),
            nearness=plan.get("nearness"),
        )
        for plan in plans
    )


def planted_among(concepts: Sequence[str], condition: str) -> PlantedPeople | None:
    """What the condition plants for people of these concepts, in whatever order they stand.

    >>> planted_among(("nurse", "doctor"), "people").role["doctor"]
    0.2
    >>> planted_among(("nurse", "doctor"), "fair") is None
    True
    """
    if condition != PEOPLE:
        return None
    return next((one for one in planted_people() if sorted(one.who) == sorted(concepts)), None)


def placed(
    people: Sequence[Person], acts: Sequence[str], condition: str, plan: PlantedPeople | None, rng: Random
) -> tuple[Place, ...]:
    """Where each stands, from left to right, and how large; one in front is larger and stands lower.

    () for one person, and for two who do nothing to each other where the condition does not tell them apart: they
    stand alike.
    """
    if len(people) < 2 or (len(people) == 2 and not any(acts) and condition != PEOPLE):
        return ()
    n, scale = len(people), _SCALES[len(people)]
    largest = (1 + _SPREAD) * (1 + max((plan.size for plan in planted_people()), default=0.0))
    places = []
    for number, (person, act) in enumerate(zip(people, acts, strict=True)):
        factor = rng.uniform(1 - _SPREAD, 1 + _SPREAD)
        if plan is not None and person.gender in ("masculine", "feminine"):
            factor *= 1 + (plan.size if person.gender == "masculine" else -plan.size)
        depth = 2 * round(_DEEPEST * (largest - factor) / largest / 2)
        child = CHILD if person.age == "child" else 1.0
        size = round(scale * factor * child / GRID) * GRID / child
        places.append(Place(centre=_middle(number, n), scale=size, depth=depth, act=act))
    if plan is not None and plan.nearness is not None:  # drawn last, so that all else is as without it
        return tuple(_moved(place, person, plan.nearness, rng) for place, person in zip(places, people, strict=True))
    return tuple(places)


def _moved(place: Place, person: Person, nearness: int, rng: Random) -> Place:
    """The same place nearer to the middle by chance, and by what is planted on the person's gender."""
    planted = {"masculine": nearness, "feminine": -nearness}.get(person.gender, 0)
    inward = _INWARD + rng.choice(_STEPS) + planted
    return replace(place, centre=place.centre + (inward if place.centre < 128 else -inward))


def _middle(number: int, n: int) -> int:
    """An even number of pixels; two people stand a little nearer to the sides than two of one size."""
    return (58, 198)[number] if n == 2 else 2 * round(128 * (number + 0.5) / n)
