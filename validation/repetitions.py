"""Repetitions: cells with their own seeds, and their conditions."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run, Steps
from bias_core.study.types import Design, Shot, StudySettings, get_options
from bias_core.types import PlantedLine
from bias_core.values import Options, setting, settings_class
from bias_core.world.planted import planted_lines

T = TypeVar("T")
LADDER = ("fair", "published", "extreme")
"""Conditions with known planted rates, in rising order."""
OWN_NULL = "its own null"
"""Group of pictures with a measure's planted null value, if that is not the first condition."""
POOL = "pool"
ARM = "arm"
"""Fact that separates shots on the same seeds: those of a base, and those compared with it."""
ENOUGH_FOR_TRUTH = 1000  # pictures that what a model draws was measured on; fewer err more than what is tested
FEWEST_REPETITIONS = 3  # however small the scale

CellShots = Callable[[str, Random], Iterable[Shot]]
"""Makes the shots of a cell from its condition, and from its own random numbers if prompts are drawn too."""


SEEDS = "Seeds", "Number of seeds for the repetitions, from the seed of the run on"
"""Label and help of an option."""


@settings_class(frozen=True, kw_only=True)
class RepetitionOptions(Options):
    """Options of repeated measurements."""

    conditions: tuple[str, ...] = setting(LADDER, "Conditions", "Two or more, in rising order")
    repetitions: int = setting(30, "Repetitions", "Number of times to draw and measure everything", ge=1, le=1000)
    seeds: int = setting(3, *SEEDS, ge=1, le=100)


@settings_class(frozen=True, kw_only=True)
class PoolOptions(RepetitionOptions):
    """Options of repeated measurements on pictures from a pool, drawn once per seed."""

    pool: int = setting(
        1200,
        "Pictures of the pool",
        "Pictures of each prompt, condition and seed, to draw repetitions from",
        ge=2,
        le=50_000,
    )


def pool_size(design: Design, settings: StudySettings) -> int:
    """Pictures of each cell's pool."""
    return scaled(get_options(settings, PoolOptions).pool, settings.scale, minimum=design.images_per_prompt)


def pools(settings: StudySettings, shots: Sequence[Shot]) -> list[Shot]:
    """Shots of a pool on every seed of the run, all with different pictures; the fact ``pool`` counts them."""
    return [
        replace(shot, first_seed=_hashed("pool", settings.seed + k) + shot.first_seed, facts={**shot.facts, POOL: k})
        for k in range(get_options(settings, PoolOptions).seeds)
        for shot in shots
    ]


def pool_of(settings: StudySettings, repetition: int) -> int:
    """Index, among the seeds of the run, of a repetition's seed."""
    return repetition % int(get_options(settings, PoolOptions).seeds)


def places_in_pool(design: Design, settings: StudySettings, groups: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """Indices of every repetition's pictures in the pool, by group, at random with replacement."""
    chance, n_pool = np.random.default_rng(settings.seed), pool_size(design, settings)
    return [
        {group: chance.integers(n_pool, size=design.images_per_prompt) for group in groups}
        for _ in range(n_repetitions(settings))
    ]


def n_repetitions(settings: StudySettings) -> int:
    """Number of repetitions of a run with these settings."""
    return scaled(get_options(settings, PoolOptions).repetitions, settings.scale, minimum=FEWEST_REPETITIONS)


def in_each_repetition(data: Run, work: Callable[[int], Iterable[T]]) -> Steps[list[T]]:
    """Results of ``work`` in all repetitions, in one list.

    A stopped run gives those of the finished repetitions, if there are enough of them.
    """
    n = n_repetitions(data.settings)
    fewest = min(n, FEWEST_REPETITIONS)
    parts = yield from data.map_until_stopped("repetitions", range(n), lambda k, _: list(work(k)), min_results=fewest)
    return [one for part in parts for one in part]


def repeated(
    settings: StudySettings, of_cell: CellShots, *, also: Sequence[str] = (), conditions: Sequence[str] = ()
) -> list[Shot]:
    """Shots of every repetition under every condition of the run, each on its own seeds.

    Repetitions are spread over the seeds of the run. No two cells (repetition, condition, prompt and what else the
    study knows of a shot) share a picture's seed, so that their pictures are independent draws. The seeds of a cell do
    not change with the number of repetitions: a longer run goes on from a shorter one.

    Shots that differ only in the fact :data:`ARM` share their seeds, as the arms of a run do.

    Parameters
    ----------
    of_cell : the shots of one condition in one repetition; their group, where none is given, becomes the condition.
        Their first seed is counted from the first of the cell.
    conditions : () for those of the run, from the :data:`LADDER`.
    also : groups in addition to the conditions of the run, drawn under the first of them, such as :data:`OWN_NULL`.
    """
    conditions = conditions or ladder(settings)
    shots = []
    for repetition in range(n_repetitions(settings)):
        seed = settings.seed + pool_of(settings, repetition)
        for group in (*conditions, *also):
            condition = group if group in conditions else conditions[0]
            for shot in of_cell(group, Random(f"{seed} {repetition} {group}")):
                own = replace(
                    shot,
                    group=shot.group or group,
                    condition=shot.condition or condition,
                    facts={**shot.facts, "repetition": repetition},
                )
                shots.append(replace(own, first_seed=_seed_of(own, seed) + shot.first_seed))
    return shots


def _seed_of(shot: Shot, seed: int) -> int:
    """First seed of a cell: 48 bits of a hash of everything that identifies it."""
    facts = {name: value for name, value in shot.facts.items() if name != ARM}
    condition = "" if ARM in shot.facts else shot.condition
    return _hashed(seed, shot.prompt, shot.group, condition, 0, sorted(facts.items()))


def _hashed(*facts: Any) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(facts).encode()).digest()[:6])


def ladder(settings: StudySettings) -> list[str]:
    """Conditions of a run, in rising order; InvalidInput for fewer than two, unknown ones, or imported pictures."""
    if settings.images:
        raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
    conditions = [str(condition) for condition in get_options(settings, PoolOptions).conditions]
    if len(conditions) < 2 or conditions != [condition for condition in LADDER if condition in conditions]:
        raise InvalidInput(f"conditions are two or more of {', '.join(LADDER)} in this order; got {conditions}")
    return conditions


def true_shares(data: Run, prompt: str) -> dict[str, float]:
    """:func:`planted_shares` as the model of a run really draws them: nan where too few pictures tell it."""
    lines = tuple(planted_lines())
    shares = planted_shares(lines, prompt)
    if data.services.model_info(data.settings.model).family == "renderer":
        return shares
    line = next(one for one in lines if one.attribute == "gender" and prompt.lower() in map(str.lower, one.prompts))
    for condition in shares:
        here = data.frame[(data.frame["prompt"] == prompt) & (data.frame["group"] == condition)]
        own = data.services.true_rate([one.row for one in data.stored(here)], line.positive) if len(here) else None
        share = own.value if own and own.n >= ENOUGH_FOR_TRUTH else math.nan
        shares[condition] = share if line.value == "masculine" else 1 - share
    return shares


def planted_shares(lines: Sequence[PlantedLine], prompt: str) -> dict[str, float]:
    """Planted share of masculine people for this prompt's concept, by condition; InvalidInput if there is none."""
    for line in lines:
        if line.attribute == "gender" and prompt.lower() in map(str.lower, line.prompts):
            masculine = line.value == "masculine"
            return {c: rate if masculine else 1 - rate for c, rate in line.rates.items()}
    raise InvalidInput(f"no perceived gender is planted for {prompt!r}")
