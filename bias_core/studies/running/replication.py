"""A paper's study on the model at hand: its protocol, at the largest share of it that this machine draws in time."""

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.studies.kit.limits import most_pictures
from bias_core.studies.kit.protocol import papers_readers, protocol_of
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.study import Settled, StudyPlan
from bias_core.studies.kit.types import AUTO, Design, Progress, StudyReport, StudySettings
from bias_core.studies.running.plan import lay_out, read_files, settle
from bias_core.studies.running.run import run
from bias_core.studies.running.size import largest_scale, n_asked, study_cost, warm_up

_MOST_MINUTES = 10.0  # of drawing that a visitor waits for
_TRIAL = 0.01  # share of a design that tells how long one of its pictures takes


def papers_settings(
    design: Design, services: StudyServices, *, model: str = "", condition: str = "", scale: float = 1.0
) -> StudySettings:
    """The settings of a design's paper for this model, "" for the paper's own.

    Readers are "auto": the paper's where this machine has them. InvalidInput where the paper names no model,
    ModelUnavailable where the model cannot draw here; it says why and what to do.
    """
    item = protocol_of(design).get("model")
    if not model and (item is None or item.value is None):
        raise InvalidInput(f"the paper of “{design.title}” names no model; replicate it with a model of your choice")
    chosen: dict[str, Any] = {"model": model, "condition": condition} if model else {}
    settings = settle(design, StudySettings(protocol="paper", scale=scale, **chosen)).settings
    fit, name = services.model_fit(settings.model), services.model_info(settings.model).name
    if not fit.works:
        why = fit.says.rpartition(". ")[2].partition(";")[0].rstrip(".")  # its last sentence, without its advice
        raise ModelUnavailable(
            f"{name} cannot draw here: {why[:1].lower()}{why[1:]}; choose another model and replicate the paper with it"
        )
    automatic: dict[str, Any] = dict.fromkeys(papers_readers(design), AUTO)
    options = {name: automatic.pop(name) for name in [*automatic] if hasattr(settings.options, name)}
    return replace(settings, **automatic, options=replace(settings.options, **options))


def replicate(
    asked: Settled,
    services: StudyServices,
    *,
    most: float = math.inf,
    minutes: float = _MOST_MINUTES,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress, None, StudyReport]:
    """Run these settings at the largest scale of at most ``most`` pictures and ``minutes`` of drawing that fits here.

    One run has its limits of pictures, work and time. Where nobody can tell how long
    a picture takes, the scale of the settings stays the largest. Raises what :func:`run` raises.
    """
    for model in dict.fromkeys(arm.settings.model for arm in asked.arms):
        yield from read_files(model, services, cancelled)
    trial = lay_out(asked.with_settings(scale=_TRIAL), services, cancelled=cancelled)
    if math.isnan(study_cost(trial, services).seconds):
        yield from warm_up(trial, services, cancelled=cancelled)
    seconds, limits = [_seconds_each(arm, services) for arm in trial.each], services.settings
    if not any(map(math.isnan, seconds)):
        asked = asked.with_settings(scale=1.0)
        minutes = min(minutes, limits.max_minutes / 2)  # the other half is for measuring
        most = min(most, 60 * minutes / max(seconds))
    firsts = [arm.manifest.rows[0] for arm in trial.each]
    most = min(most, *(most_pictures(limits, row.num_inference_steps, row.width * row.height) for row in firsts))
    scale = largest_scale(asked, most)
    if not scale:
        n = n_asked(asked.with_settings(scale=_TRIAL))
        raise InvalidInput(
            f"1 % of “{asked.design.title}” is {n:,} pictures, and {math.floor(most):,} can be drawn here; choose a "
            "faster model or another study"
        )
    return (yield from run(asked.with_settings(scale=scale), services, cancelled=cancelled, session=session))


def _seconds_each(plan: StudyPlan, services: StudyServices) -> float:
    """Seconds that one more picture of a plan of one arm takes; nan where nobody knows."""
    engine = services.engine_of(plan.settings.model)
    rate = services.rates.find(plan.manifest.rows[0], engine.place())
    return math.nan if rate is None else rate.seconds / engine.n_workers()
