"""Skin tones and age groups again and again: what is planted in them is read, and what is not is not claimed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.ordinal import distance_to_goal, end_share, level_distance, mean_level, ordered_test
from bias_core.scales import Scale, load_scales, read_scales
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.scale_scores import ScaleScore, score_scales
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.types import Estimate
from validation.repetitions import PoolOptions, in_each_repetition, places_in_pool, pool_size
from validation.verdicts import TEXTS, measured, results_of

FAIR, HALF, PLANTED = "fair", "half", "tones"
CONDITIONS = (FAIR, HALF, PLANTED)
_OTHER = "another set"  # of pictures in which nothing is planted, that distances are to


@settings_class(frozen=True, kw_only=True)
class ToneOptions(PoolOptions):
    """How often scales are read."""

    conditions: tuple[str, ...] = setting(CONDITIONS, "Conditions", "Nothing is planted, in half, and in all pictures")


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """The pictures of one scale."""

    scale: Scale
    fair: ScaleScore
    planted: ScaleScore

    def shares(self, condition: str) -> np.ndarray:
        """What the pictures of a condition really show, by record."""
        fair, planted = (np.array(one.drawn) / sum(one.drawn) for one in (self.fair, self.planted))
        shares: np.ndarray = {FAIR: fair, HALF: (fair + planted) / 2, PLANTED: planted}[condition]
        return shares

    def read_as(self, condition: str, places: np.ndarray) -> np.ndarray:
        """What some pictures of a condition are read as; of :data:`HALF` every second is from either pool."""
        if condition == HALF:
            return np.concatenate([self.fair.places[places[::2]], self.planted.places[places[1::2]]])
        of_pool: np.ndarray = (self.planted if condition == PLANTED else self.fair).places[places]
        return of_pool


def tone_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A pool of pictures of each scale's prompt, with nothing planted and with planted shares."""
    if settings.images:
        raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
    if tuple(settings.options.conditions) != CONDITIONS:
        raise InvalidInput(f"conditions are {', '.join(CONDITIONS)}; got {', '.join(settings.options.conditions)}")
    cells = [(name, prompt, condition) for name, prompt in _prompts(design).items() for condition in (FAIR, PLANTED)]
    n, pool = pool_size(design, settings), settings.options.pool
    return [
        Shot(prompt=prompt, n=n, group=name, condition=condition, first_seed=i * pool, facts={"planted": condition})
        for i, (name, prompt, condition) in enumerate(cells)
    ]


def measure_tones(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Mean, upper end, distance to another set and to a goal, of every scale in every repetition."""
    frame = data.frame.reset_index(drop=True)
    rows = yield from data.embed(frame)
    pools = {name: _pool(data, frame, rows, name) for name in _prompts(design)}
    draws = places_in_pool(design, settings, (*CONDITIONS, _OTHER))

    def work(repetition: int) -> Iterator[dict[str, Any]]:
        places = draws[repetition]
        for name, pool in pools.items():
            other = pool.read_as(FAIR, places[_OTHER])
            for condition in CONDITIONS:
                where = {"condition": condition, "repetition": repetition, "variant": name}
                readings = pool.read_as(condition, places[condition])
                yield from _measurements(pool, condition, readings, other, where, settings)

    lines = yield from in_each_repetition(data, work)
    note = TEXTS.note("tones", n=pool_size(design, settings))
    return results_of(pd.DataFrame(lines), settings, notes=(note,))


def _prompts(design: Design) -> Mapping[str, str]:
    return {name: str(design.data["prompts"][name]) for name in load_scales()}


def _pool(data: StudyData, frame: pd.DataFrame, rows: np.ndarray, name: str) -> _Pool:
    scores = []
    for condition in (FAIR, PLANTED):
        at = np.flatnonzero((frame["group"] == name) & (frame["planted"] == condition))
        of_pool, notes = score_scales(data, frame.iloc[at], rows[at], read_scales([name]))
        if not of_pool or not sum(of_pool[0].drawn):
            raise InvalidInput(f"what is drawn must be on record: {'; '.join(notes) or 'choose calibration-renderer'}")
        scores.append(of_pool[0])
    return _Pool(scale=scores[0].request.scale, fair=scores[0], planted=scores[1])


def _measurements(
    pool: _Pool, condition: str, readings: np.ndarray, other: np.ndarray, where: Mapping[str, Any], settings: Any
) -> Iterator[dict[str, Any]]:
    scale, k, seed = pool.scale, len(pool.scale.levels), where["repetition"]
    shares, goal, levels = pool.shares(condition), pool.shares(FAIR), np.arange(1.0, k + 1)
    counts, of_other = (np.bincount(one, minlength=k + 1) for one in (readings, other))
    how: dict[str, Any] = {"errors": pool.fair.errors, "has_unclear": True, "confidence": settings.confidence}
    ends = (levels > k - scale.ends).astype(float)
    distance = float(np.abs(np.cumsum(shares - goal)[:-1]).sum())

    def line(
        key: str, estimate: Estimate, target: float, test: str = "", excluded: bool | None = None
    ) -> dict[str, Any]:
        given = {**where, "variant": ", ".join(filter(None, (where["variant"], test)))}
        return measured(key, estimate, target=target, planted="shares of a scale", excluded=excluded, **given)

    mean = mean_level(counts, null_value=float(goal @ levels), **how)
    yield line("mean_level", mean, float(shares @ levels))
    end = end_share(counts, last=scale.ends, null_value=float(goal @ ends), **how)
    yield line("end_share", end, float(shares @ ends))
    yield line("distance_to_goal", distance_to_goal(counts, goal, rng=seed, **how), distance)
    yield line("level_distance", level_distance(counts, of_other, rng=seed, **how), distance)
    clear = [np.where(one < k, one, np.nan) for one in (readings, other)]
    test = ordered_test(clear[0], clear[1], k, n_permutations=199, rng=seed)
    alone = Estimate.undefined(test.n, "a test alone", null_value=0.0)
    is_clear = bool(test.p_value < 1 - settings.confidence)
    yield line("level_distance", alone, np.nan, excluded=is_clear, test="permutation test")


PROGRAMS = {"validity_tones": Program(shots=tone_shots, measure=measure_tones, options=ToneOptions)}
