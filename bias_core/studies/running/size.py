"""How many pictures a study asks for, whether that is too many here, and what drawing them will cost."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

from bias_core.engine.local import Cost, estimate_cost
from bias_core.errors import TooLarge
from bias_core.models.hosted import hosted_name
from bias_core.settings import Settings
from bias_core.studies.kit.limits import check_budget, check_work, most_pictures
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.study import Settled, StudyPlan
from bias_core.studies.kit.types import Progress

MOST_ESTIMATED = 100_000  # pictures that are laid out to say what they would cost, whatever the limit of a run


def check_number(asked: Settled, limits: Settings) -> None:
    """Refuse too many pictures before anything waits, as :func:`check_size`; own ones are counted when opened."""
    if asked.has_arms or not asked.settings.images:
        check_size(asked, limits)


def check_size(asked: Settled, limits: Settings, rows: RowMaker | None = None) -> None:
    """Refuse a study that would draw more in all its arms than is allowed here; no row is made for that.

    Without ``rows`` the size of a picture and its steps are not known yet, and not looked at. The sentence of
    the InvalidInput names the largest scale that would do.
    """
    design, settings = asked.design, asked.settings
    n, what = n_asked(asked), f"{design.name} at {100 * settings.scale:g} % of its size"
    less, advice = "less in its options, its prompts or their number of pictures", "ask for a smaller scale"
    if settings.arms[1:]:
        what, less = f"{design.name} with {len(settings.arms)} arms{what.removeprefix(design.name)}", "fewer arms"
    elif not design.reference:
        what = f"exploring “{asked.study.title(settings)}”"
    n_steps, pixels = (rows.num_inference_steps, rows.info.width * rows.info.height) if rows else (0, 0)
    scale = 0.0
    if n > (most := most_pictures(limits, n_steps, pixels)):
        scale = largest_scale(asked, most)
        advice = f"ask for {f'a scale of {scale:g} ({100 * scale:g} % of the full size)' if scale else less}"
    with _allowing(scale):
        check_budget(n, limits, what=what, advice=advice, n_steps=n_steps, pixels=pixels)


@contextmanager
def _allowing(scale: float) -> Iterator[None]:
    """Around a check of a run's size: its refusal says which scale is allowed."""
    try:
        yield
    except TooLarge as why:
        why.scale = scale
        raise


def check_work_of_arms(asked: Settled, plans: Sequence[StudyPlan], limits: Settings) -> None:
    """Refuse arms of more pictures, imported ones too, or of more steps than one run may have here."""
    n, work = 0, 0.0
    for plan in plans:
        rows = plan.manifest.rows
        later = 0 if plan.settings.images else plan.study.n_later(plan.settings)
        n += len(rows) + later
        if not plan.settings.images:  # what is brought along was drawn elsewhere
            sizes = [row.num_inference_steps * row.width * row.height for row in rows]
            work += (sum(sizes) + later * sizes[0]) / 1e6
    what = f"{asked.design.name} with {len(plans)} arms"
    advice = "ask for a smaller scale or fewer arms"
    check_budget(n, limits, what=what, advice=advice)
    most = n * limits.max_megapixel_steps / work if work else math.inf
    with _allowing(largest_scale(asked, most) if n > most else 0.0):
        check_work(work, limits, what=what, of=f"{n:,} pictures of all arms", advice=advice)


def n_asked(asked: Settled) -> int:
    """Return the largest number of pictures that all arms draw, those drawn while measuring included."""
    if asked.has_arms:
        return sum(n_asked(arm) for arm in asked.arms if not arm.settings.images)
    return sum(shot.n for shot in asked.study.shots(asked.settings)) + asked.study.n_later(asked.settings)


def largest_scale(asked: Settled, most: float) -> float:
    """Return the largest scale that asks for at most ``most`` pictures: the settings', or a whole percentage; or 0."""
    if n_asked(asked) <= most:
        return asked.settings.scale
    low, high = 0, math.ceil(100 * asked.settings.scale) - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = n_asked(asked.with_settings(scale=middle / 100)) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return low / 100


def study_cost(plan: StudyPlan, services: StudyServices) -> Cost:
    """Pictures, seconds and bytes; the last two nan where this model was never run here at this size."""
    if plan.arms:
        costs = [study_cost(arm, services) for arm in plan.arms]
        return Cost(**{f.name: sum(getattr(cost, f.name) for cost in costs) for f in fields(Cost)})
    if plan.settings.images:
        n = len({row.id for row in plan.manifest.rows})
        return Cost(n_pictures=n, n_stored=n, seconds=0.0, n_bytes=0.0)
    rows, engine = plan.manifest.rows, services.engine_of(plan.settings.model)
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
    if plan.arms or hosted_name(plan.settings.model):  # which is paid for by the picture
        return
    rows = list({row.id: row for row in plan.manifest.rows}.values())
    missing = [row for row in rows if not services.images.n_present([row.id])]
    engine = services.engine_of(rows[0].model)
    size = services.text_to_image(rows[0].model).batch_size * engine.n_workers()
    for part in (missing[:size], missing[size : 3 * size]):
        for event in services.draw(part, cancelled=cancelled):
            message = f"trying {rows[0].model}, {event.done:,} of {event.total:,} pictures"
            yield Progress(done=event.done, total=event.total, seconds_left=event.seconds_left, message=message)
        if services.rates.find(rows[0], engine.place()) is not None:
            return
