"""What drawing a study will cost here: from earlier runs, or from a first batch."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from bias_core.engine.rates import Cost, estimate_cost
from bias_core.studies.kit.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.running.plan import StudyPlan


def study_cost(plan: StudyPlan, services: StudyServices) -> Cost:
    """Pictures, seconds and bytes; the last two nan where this model was never run here at this size."""
    if plan.arms:
        costs = [study_cost(arm, services) for arm in plan.arms]
        return Cost(**{f.name: sum(getattr(cost, f.name) for cost in costs) for f in fields(Cost)})
    rows, engine = plan.manifest.rows, services.engine
    if services.images.n_present({row.id for row in rows}) == len({row.id for row in rows}):
        return estimate_cost(rows, services.images, None, n_workers=1)  # no worker need start
    rate = services.rates.find(rows[0], engine.place())
    return estimate_cost(rows, services.images, rate, n_workers=engine.n_workers())


def warm_up(
    plan: StudyPlan, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, None]:
    """Draw a batch per worker of what is missing, so that :func:`study_cost` knows how long it takes.

    Time counts from the first denoising step on. Where that cannot tell (a model of one step), two more
    batches per worker are drawn. Raises what drawing raises.
    """
    for arm in plan.arms:
        if math.isnan(study_cost(arm, services).seconds):
            yield from warm_up(arm, services, cancelled=cancelled)
    if plan.arms:
        return
    rows = list({row.id: row for row in plan.manifest.rows}.values())
    missing = [row for row in rows if not services.images.n_present([row.id])]
    size = services.text_to_image(rows[0].model).batch_size * services.engine.n_workers()
    for part in (missing[:size], missing[size : 3 * size]):
        for event in services.draw(part, cancelled=cancelled):
            message = f"trying {rows[0].model}, {event.done:,} of {event.total:,} pictures"
            yield Progress(done=event.done, total=event.total, seconds_left=event.seconds_left, message=message)
        if services.rates.find(rows[0], services.engine.place()) is not None:
            return
