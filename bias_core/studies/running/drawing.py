"""Draws the pictures of a plan's arms; under a stop rule, of all of them the same ones."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from bias_core.stats.sequential import holds_at_any_time
from bias_core.studies.kit.program import StudyData, StudyPlan
from bias_core.studies.kit.types import Finding, Progress, Results
from bias_core.studies.kit.watching import stop_rule

FIXED_N = "the interval takes the number of pictures as fixed, which it was not"


def draw_arms(plan: StudyPlan, arms: Sequence[StudyData]) -> Generator[Progress, None, None]:
    """The pictures of every arm, one after the other, with one progress over all of them."""
    if not plan.arms:
        yield from arms[0].draw(plan.shots)
        return
    yield from _one_after_the_other(plan, arms, dict.fromkeys(range(len(arms))))
    if stop_rule(plan.settings) is not None:
        yield from _to_the_same_number(plan, arms)
    for arm, data in zip(plan.arms, arms, strict=True):
        data.take_up(arm.shots)


def _to_the_same_number(plan: StudyPlan, arms: Sequence[StudyData]) -> Generator[Progress, None, None]:
    """Draw the arms that ended early as far as the last one went, so that they share their seeds."""
    sizes = [len({row.id for row in arm.manifest.rows}) for arm in plan.arms]
    most = max(size if data.n_enough is None else data.n_enough for size, data in zip(sizes, arms, strict=True))
    behind = {i: most for i, data in enumerate(arms) if data.n_enough is not None and data.n_enough < most}
    yield from _one_after_the_other(plan, arms, behind)
    for size, data in zip(sizes, arms, strict=True):
        data.n_enough = most if most < size else None


def _one_after_the_other(
    plan: StudyPlan, arms: Sequence[StudyData], n_first: Mapping[int, int | None]
) -> Generator[Progress, None, None]:
    """The arms at these places, each as far as it says; None: until its rule ends it, or all."""
    sizes = [len({row.id for row in arm.manifest.rows}) for arm in plan.arms]
    for i, most in n_first.items():
        before, rest = sum(sizes[:i]), sum(sizes[i + 1 :])
        for step in arms[i].fetch(plan.arms[i].shots, most):
            missing = step.total - step.done
            yield replace(
                step,
                done=before + step.done,
                total=before + step.total + rest,
                seconds_left=step.seconds_left * (1 + rest / missing) if missing else math.nan,
                message=f"{plan.settings.arms[i].name}: {before + step.done:,} of {sum(sizes):,} pictures",
            )


def as_watched(results: Results) -> Results:
    """Results of pictures whose number followed from what they show: other intervals than sequences say so."""
    return replace(results, findings=tuple(map(_as_watched, results.findings)))


def _as_watched(finding: Finding) -> Finding:
    estimate = finding.estimate
    if holds_at_any_time(estimate) or math.isnan(estimate.low):
        return replace(finding, p_value=None)
    return replace(finding, p_value=None, estimate=estimate.with_note(FIXED_N))
