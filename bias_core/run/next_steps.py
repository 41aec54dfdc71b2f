"""Suggests the next step for a report, and runs a paper's study at the size that fits this machine."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.installed import COMMAND
from bias_core.measures.cards import METRICS
from bias_core.measures.effects import images_needed, share_half_width
from bias_core.measures.intervals import EXACT
from bias_core.report.commands import changed_from_usual, drop_automatic_choices, is_shipped, to_command
from bias_core.run.limits import most_pictures
from bias_core.run.plan import count_requested_pictures, largest_scale, lay_out, read_files, settle, study_cost, warm_up
from bias_core.run.run import run
from bias_core.run.study_run import Run
from bias_core.settings import Settings
from bias_core.study.classifier_answers import asked_readings, list_readings, list_stored_pictures
from bias_core.study.design import get_protocol, known_study, papers_readers
from bias_core.study.label_tasks import N_LABELS
from bias_core.study.study import Study
from bias_core.study.types import (
    AGAINST_P_STAR,
    AUTO,
    Design,
    Finding,
    Progress,
    StudyReport,
    StudySettings,
    arm_text,
    get_options,
)
from bias_core.study_services import StudyServices
from bias_core.values import Options, declared_settings
from bias_core.wording import format_list

_MOST_MINUTES = 10.0  # longest drawing that a visitor waits for
_TRIAL = 0.01  # share of a design that shows how long one picture takes


def papers_settings(
    design: Design, services: StudyServices, *, model: str = "", condition: str = "", scale: float = 1.0
) -> StudySettings:
    """Return the settings of a design's paper for this model, "" for the paper's own.

    Classifiers are "auto": the paper's if this machine has them. InvalidInput if the paper names no model,
    ModelUnavailable if the model cannot draw here; it says why and what to do.
    """
    item = get_protocol(design).get("model")
    if not model and (item is None or item.value is None):
        raise InvalidInput(f"the paper of “{design.title}” names no model; choose one to replicate it with")
    chosen: dict[str, Any] = {"model": model, "condition": condition} if model else {}
    settings = settle(design, StudySettings(protocol="paper", scale=scale, **chosen)).settings
    fit, name = services.model_fit(settings.model), services.model_info(settings.model).name
    if not fit.works:
        reason = fit.says.rpartition(". ")[2].partition(";")[0].rstrip(".")  # its last sentence, without the advice
        raise ModelUnavailable(
            f"{name} cannot draw here: {reason[:1].lower()}{reason[1:]}; choose another model and replicate the paper "
            "with it"
        )
    automatic: dict[str, Any] = dict.fromkeys(papers_readers(design), AUTO)
    options = get_options(settings, Options)
    of_options = {name: automatic.pop(name) for name in [*automatic] if hasattr(options, name)}
    return replace(settings, **automatic, options=replace(options, **of_options))


def replicate(
    request: Run,
    services: StudyServices,
    *,
    budget: float = math.inf,
    minutes: float = _MOST_MINUTES,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress, None, StudyReport]:
    """Run these settings at the largest scale of at most ``budget`` pictures and ``minutes`` of drawing that fits here.

    The limits of a run (pictures, work, time) hold too. If the time of a picture is not known, the scale of the
    settings is the largest. Raises what :func:`run` raises.
    """
    for model in dict.fromkeys(arm.settings.model for arm in request.each):
        yield from read_files(model, services, cancelled)
    trial = lay_out(request.with_settings(scale=_TRIAL), services, cancelled=cancelled)
    if math.isnan(study_cost(trial).seconds):
        yield from warm_up(trial, cancelled=cancelled)
    seconds, limits = [_seconds_each(arm) for arm in trial.each], services.settings
    if not any(map(math.isnan, seconds)):
        request = request.with_settings(scale=1.0)
        minutes = min(minutes, limits.max_minutes / 2)  # the other half is for measuring
        budget = min(budget, 60 * minutes / max(seconds))
    firsts = [arm.manifest.rows[0] for arm in trial.each]
    budget = min(budget, *(most_pictures(limits, row.num_inference_steps, row.width * row.height) for row in firsts))
    scale = largest_scale(request, budget)
    if not scale:
        n = count_requested_pictures(request.with_settings(scale=_TRIAL))
        raise InvalidInput(
            f"1 % of “{request.design.title}” is {n:,} pictures, but only {math.floor(budget):,} can be drawn here; "
            "choose a faster model or another study"
        )
    return (yield from run(request.with_settings(scale=scale), services, cancelled=cancelled, session=session))


def _seconds_each(arm: Run) -> float:
    """Return the seconds that one more picture of an arm takes; nan if not known."""
    engine = arm.services.find_engine(arm.settings.model)
    rate = arm.services.rates.find(arm.manifest.rows[0], engine.place())
    return math.nan if rate is None else rate.seconds / engine.n_workers()


N_RATERS = 3
WIDTHS = (0.1, 0.15, 0.07, 0.05, 0.03)  # half widths of shares to choose from; the first that fits is the default
LOOKED_AT = "Adding pictures until a result is clear misleads: decide on their number first."
_FIRST_WIDTH = 0.25  # of a first run
_WIDE = 0.05  # half width of an interval, as a share of the measure's range
_FEWEST_MORE = 1.3  # times the pictures of the report
_SQUARE = 4.0  # times the pictures halves an interval
_PERCENT = 100.0
CORRECTED_SUFFIX = "-corrected"  # suffix of the key of a share corrected for known errors


@cache
def sizes_by_width() -> list[tuple[int, str]]:
    """Return how many pictures bring every share to each width, in points; the widest first."""
    return [(images_needed(half), f"{_PERCENT * half:.0f}") for half in sorted((_FIRST_WIDTH, *WIDTHS), reverse=True)]


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """One thing to do next, on the page, on the command line and in the API."""

    key: Literal["pictures", "base", "people"]
    title: str  # on its button
    says: str  # what it does and keeps
    command: str  # does the same in a terminal
    caution: str = ""  # what would make its result wrong
    # design and settings of the run that it starts; None if it asks people
    design: Design | None = None
    settings: StudySettings | None = None
    tool: str = ""  # of the API; "" if only a terminal or the page can do it
    arguments: Mapping[str, Any] = field(default_factory=dict)
    width: str = ""  # of the least certain number afterwards, in words
    reach: str = ""  # that width, and how many more pictures it takes
    narrows: str = ""  # numbers that it brings to this width, in a word
    half_width: float = math.nan  # of the least certain number afterwards
    cells: str = ""  # names of the cells, such as concepts, that alone get more pictures; "" for all
    other_widths: tuple["NextStep", ...] = ()  # the same step for other widths

    @property
    def widths(self) -> tuple["NextStep", ...]:
        """The step and those for other widths, the narrowest first."""
        return tuple(sorted((self, *self.other_widths), key=lambda step: step.half_width))

    def values(self) -> dict[str, Any]:
        """Return the values for the API."""
        return {
            name: getattr(self, name) for name in ("key", "title", "says", "caution", "command", "tool", "arguments")
        }


def next_steps(report: StudyReport, services: StudyServices, cells: Collection[str] = ()) -> tuple[NextStep, ...]:
    """Return the steps that suit the state of a report; () if nothing more can be drawn or asked.

    ``cells``, such as concepts, alone get more pictures; () for all.
    """
    study = known_study(report.design)
    if study is None or not report.results.findings or len(report.results.frame("verdicts")):
        return ()
    settings, steps = drop_automatic_choices(report.design, report.settings), list[NextStep]()
    if not settings.images and not any(arm.images for arm in settings.arms):
        steps += _more_pictures(report, settings, study, services.settings, cells)
        steps += _base(report, settings, study, services.settings)
    return (*steps, *_suggest_people(report, services))


def _more_pictures(
    report: StudyReport, settings: StudySettings, study: Study, limits: Settings, cells: Collection[str]
) -> Iterator[NextStep]:
    """Suggest more pictures: shares known to ±10 points, half another interval, or the rest of a stopped run."""
    cells = () if report.stopped else tuple(cells)
    names = format_list(cells, last=" and ")
    of_cells = f" of {names}" if cells else ""
    if (widest := _widest(report, cells)) is None:
        return
    if report.stopped:
        every = [report.n_planned / max(1, report.n_images)]
    else:
        every = [*_list_factors(widest, settings.confidence)]
        if not cells:
            max_times = limits.max_images / count_requested_pictures(Run(study, settings))
            every = [times for times in every if times <= max_times] or [max_times]
    steps = []
    for times in every:
        enlarged, larger = (study, settings) if report.stopped else study.enlarged(settings, times, cells)
        design = enlarged.design
        request = Run(enlarged, larger)
        n = count_requested_pictures(request)
        if n > limits.max_images or times < _FEWEST_MORE or n <= report.n_images:
            continue
        before, after = _half_width(widest), _half_after(widest, times, settings.confidence)
        width, narrows = _width_words(widest, after), "differences" if report.arms else "shares"
        title = f"More pictures{of_cells}: “{widest.title}” known to about {width}, now {_width_words(widest, before)}"
        counts = f"{n - report.n_images:,} more pictures{of_cells}, {n:,} in all"
        says = f"{counts}{_parts_in_words(request)}; the others are kept. “{widest.title}” is the least certain number."
        step = _run(report, "pictures", title, says, design, larger)
        claims = [finding.claim for finding in report.results.findings if finding.claim is not None]
        if not report.stopped and any(claim.verdict in ("not clear", "too few") for claim in claims):
            step = replace(step, caution=LOOKED_AT)
        reach = f"{width} ({n - report.n_images:,} more{f', {n:,} in all' if cells else ''})"
        steps.append(replace(step, width=width, reach=reach, narrows=narrows, half_width=after, cells=names))
    if steps:
        yield replace(steps[0], other_widths=tuple(steps[1:]))


def _parts_in_words(request: Run) -> str:
    """Return the pictures of each part of an arm, as its command counts them; "" for one arm of one part."""
    parts = Counter[str]()
    for shot in request.requested_shots:
        parts[shot.part] += shot.n
    if len(parts) < 2 and not request.arms:
        return ""
    words = ", ".join(f"{n:,} {part}".rstrip() for part, n in parts.items())
    return f": {'in each arm ' * bool(request.arms)}{words}"


def _base(report: StudyReport, settings: StudySettings, study: Study, limits: Settings) -> Iterator[NextStep]:
    """Suggest a baseline: the same seeds of a plain prompt, if the run has nothing to compare with."""
    if report.arms or (with_base := study.with_baseline(settings)) is None:
        return
    base_settings, prompt = with_base
    if count_requested_pictures(Run(study, base_settings)) <= limits.max_images:
        yield _run(
            report,
            "base",
            f"Compare with {prompt}",
            f"Draws {prompt} from the same seeds. What both show equally often is not due to what you asked for. The "
            "pictures of this report are kept.",
            report.design,
            base_settings,
        )


def _suggest_people(report: StudyReport, services: StudyServices) -> Iterator[NextStep]:
    """Suggest asking people, if the classifier's errors on such pictures are unknown and no task asks people yet."""
    manifest = services.manifests.find(report.run_id) if report.run_id.isalnum() else None
    if manifest is None or manifest.label_tasks or _errors_are_known(report):
        return
    if not (n := min(N_LABELS, len(list_stored_pictures(report, asked_readings(list_readings(report)))))):
        return
    yield NextStep(
        key="people",
        title=f"Ask {'three' if N_RATERS == 3 else N_RATERS} people",
        says=f"The classifier's error rate on such pictures is unknown. Three people label {n} random pictures each; "
        "their answers correct these numbers.",
        command=f"{COMMAND} study label {report.run_id} -n {n} --raters {N_RATERS}",
        tool="label_run",
        arguments={"run_id": report.run_id, "n": n, "raters_per_picture": N_RATERS},
    )


def _errors_are_known(report: StudyReport) -> bool:
    """Return True if the ground truth is known, or shares were corrected for the classifier's errors."""
    parts = report.arms or (report,)
    findings = [finding for part in parts for finding in part.results.findings]
    frames = [table.frame for part in parts for table in part.results.tables]
    corrected = (frame[name] for frame in frames for name in frame if "corrected" in str(name).split())
    return any(number.expected is not None or number.key.endswith(CORRECTED_SUFFIX) for number in findings) or any(
        column.notna().any() for column in corrected
    )


def _widest(report: StudyReport, cells: Collection[str] = ()) -> Finding | None:
    """Return the number with the widest interval, of the first measure with a wide one; None if none is wide.

    ``cells``: of the numbers of these cells; () for all.
    """
    starts = tuple(f"{cell}-" for cell in cells) or ("",)
    wide = [
        number
        for number in report.results.findings
        if _is_wide(number) and number.key.startswith(starts) and not number.key.endswith(CORRECTED_SUFFIX)
    ]
    same = [finding for finding in wide if finding.metric == wide[0].metric]
    return max(same, key=_half_width, default=None)


def _is_wide(finding: Finding) -> bool:
    """Return True if the interval is wide, or does not settle whether there is any bias.

    For shares only the width counts: the P* that they are compared with may be assumed.
    """
    metric, claim = METRICS[finding.metric], finding.claim
    half = _half_width(finding)
    if not math.isfinite(half) or half <= 0:
        return False
    reach = metric.bounds[1] - metric.bounds[0]
    is_open = finding.metric not in AGAINST_P_STAR and claim is not None and claim.verdict == "not clear"
    return is_open or (math.isfinite(reach) and half > _WIDE * reach)


def _half_width(finding: Finding) -> float:
    return (finding.estimate.high - finding.estimate.low) / 2


def _list_factors(finding: Finding, confidence: float) -> Iterator[float]:
    """Yield how many times the pictures bring a share or a difference to each of the :data:`WIDTHS`.

    Halve the interval of another number.
    """
    half = _half_width(finding)
    if not _is_in_points(finding):
        yield _SQUARE
        return
    for width in (width for width in WIDTHS if width < half):
        if _is_plain_share(finding):
            yield images_needed(width, confidence=confidence) / finding.estimate.n
        else:
            yield (half / width) ** 2


def _half_after(finding: Finding, times: float, confidence: float) -> float:
    """Return the half width with so many times the pictures: an upper bound for shares, by the root of n for others."""
    if not _is_plain_share(finding):
        return _half_width(finding) / math.sqrt(times)
    return share_half_width(round(times * finding.estimate.n), confidence)


def _is_plain_share(finding: Finding) -> bool:
    return finding.metric == "attribute_prevalence" and finding.estimate.method.startswith((EXACT, "Wilson"))


def _width_words(finding: Finding, half: float) -> str:
    """Return the half width of an interval in words, for shares in points."""
    return f"±{_PERCENT * half:.0f} points" if _is_in_points(finding) else f"±{half:.2g}"


def _is_in_points(finding: Finding) -> bool:
    """Return True for a share and for a difference of shares."""
    return METRICS[finding.metric].bounds in ((0, 1), (-1, 1)) and finding.metric in AGAINST_P_STAR


def _run(
    report: StudyReport,
    key: Literal["pictures", "base"],
    title: str,
    says: str,
    design: Design,
    settings: StudySettings,
) -> NextStep:
    """Return a step that runs a study again, with its command and API call."""
    further = "" if design == report.design else f" -n {design.images_per_prompt}"
    is_callable = is_shipped(design)
    return NextStep(
        key=key,
        title=title,
        says=says,
        command=to_command(report.design, settings) + further,
        design=design,
        settings=settings,
        tool="run_study" if is_callable else "",
        arguments=_arguments(design, settings) if is_callable else {},
    )


def _arguments(design: Design, settings: StudySettings) -> dict[str, Any]:
    given = changed_from_usual(design, settings)
    options = given.pop("options", {})
    write = declared_settings(StudySettings)["options"].write
    arms = [arm_text(arm) for arm in given.pop("arms", ())]
    return {
        "study": design.name,
        "scale": settings.scale,
        **given,
        **({"options": [f"{name}={write(value)}" for name, value in options.items()]} if options else {}),
        **({"arms": arms} if arms else {}),
    }
