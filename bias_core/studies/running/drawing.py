"""Draws the pictures of a plan's arms, under a stop rule the same of all; what is there of a stopped run."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from bias_core.errors import Cancelled, Interrupted
from bias_core.stats.sequential import holds_at_any_time
from bias_core.studies.kit.data import StudyData
from bias_core.studies.kit.study import StudyPlan
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
                message=f"{plan.settings.arms[i].name}: {step.message}",
            )


def what_is_there(plan: StudyPlan, data: Sequence[StudyData], why: Cancelled) -> tuple[StudyPlan, list[StudyData]]:
    """What is finished of a run that was stopped, of several arms those that have pictures; else Cancelled again.

    Arms are measured where a stop rule could have ended them as well: then nothing rests on a number that was fixed.
    """
    _check_that_parts_will_do(plan, data, why)
    for arm, one in zip(plan.each, data, strict=True):
        one.measure_what_is_there(arm.shots, why)
    return _those_with_pictures(plan, data, why)


def what_was_read(plan: StudyPlan, data: Sequence[StudyData], why: Cancelled) -> tuple[StudyPlan, list[StudyData]]:
    """The same of a run that was stopped once all pictures were drawn: with those that were read by then.

    Of several arms, those after the one that was at work are left out.
    """
    _check_that_parts_will_do(plan, data, why)
    at = next(i for i, one in enumerate(data) if not one.is_measured)
    unread = [why.unread if i == at else one.images_by_id.keys() if i > at else () for i, one in enumerate(data)]
    n = sum(len(one.drawn) for one in data)
    n_unread = sum(int(one.drawn["image_id"].isin(ids).sum()) for one, ids in zip(data, unread, strict=True))
    after = f"{n - n_unread:,} of {n:,} pictures were read" if n_unread else ""
    for one, ids in zip(data, unread, strict=True):
        one.measure_what_was_read(ids, after)
    return _those_with_pictures(plan, data, why)


def _check_that_parts_will_do(plan: StudyPlan, data: Sequence[StudyData], why: Cancelled) -> None:
    """Raise Cancelled again where the numbers of this study rest on all of its pictures."""
    laid_out = plan.study.arms(plan.settings)
    if plan.study.fewest_when_stopped is None or (plan.arms and (not plan.study.watches_shares or laid_out)):
        raise too_early(plan, data, why) from why


def _those_with_pictures(
    plan: StudyPlan, data: Sequence[StudyData], why: Cancelled
) -> tuple[StudyPlan, list[StudyData]]:
    fewest = max(plan.study.fewest_when_stopped or 0, bool(data[0].stopped_after))
    if not plan.arms:
        if len(data[0].frame) < fewest:
            raise too_early(plan, data, why) from why
        return plan, list(data)
    ready = [i for i, one in enumerate(data) if len(one.frame) >= max(fewest, 1)]
    names = [arm.name for arm in plan.settings.arms]
    if len(ready) < 2:
        only = " and ".join(names[i] for i in ready) or "none"
        raise type(why)(
            f"{why}. To compare arms, two need pictures, and only {only} has any: run it again, which goes on from "
            "there, or run an arm alone"
        ) from why
    if rest := [name for i, name in enumerate(names) if i not in ready]:
        done = "picture that was read" if data[0].stopped_after else "finished picture"
        data[ready[0]].notes.append(f"Arms without a {done} are left out: {', '.join(rest)}.")
    settings = replace(plan.settings, arms=tuple(plan.settings.arms[i] for i in ready), stop_when_clear=True)
    return replace(plan, arms=tuple(plan.arms[i] for i in ready), settings=settings), [data[i] for i in ready]


def too_early(plan: StudyPlan, data: Sequence[StudyData], why: Cancelled) -> Cancelled:
    """What is said where too little is finished to measure: how much that is, and how to go on."""
    if isinstance(why, Interrupted):  # it says so
        return why
    if data[0].stopped_after:
        why = data[0].too_little()
    ids = {row.id for row in plan.manifest.rows}
    n = data[0].services.images.n_present(ids)
    if n == len(ids):
        return Cancelled(
            f"{why}. All {n:,} pictures are finished: run it again with the same settings, which finds them"
        )
    return Cancelled(
        f"{why}. {n:,} of {len(ids):,} pictures are finished, too few for a report of this study: run it again with "
        "the same settings, which goes on from there, or with a smaller share"
    )


def as_watched(results: Results) -> Results:
    """Results of pictures whose number followed from what they show: other intervals than sequences say so."""
    return replace(results, findings=tuple(map(_as_watched, results.findings)))


def _as_watched(finding: Finding) -> Finding:
    estimate = finding.estimate
    if holds_at_any_time(estimate) or math.isnan(estimate.low):
        return replace(finding, p_value=None)
    return replace(finding, p_value=None, estimate=estimate.with_note(FIXED_N))
