"""What to do next with a report, by its state: more pictures, a plain prompt beside it, people who are asked."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bias_core.metrics.cards import METRICS
from bias_core.settings import Settings
from bias_core.stats.effects import images_needed, share_half_width
from bias_core.stats.exact_shares import EXACT
from bias_core.studies.kit.designs import known_study
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.study import Settled, Study
from bias_core.studies.kit.types import Design, Finding, StudyReport, StudySettings
from bias_core.studies.reports.headline import AGAINST_P_STAR
from bias_core.studies.running.arms import arm_text
from bias_core.studies.running.export import as_asked, changed_from_usual, is_shipped, to_command
from bias_core.studies.running.run_readings import readings_of
from bias_core.studies.running.size import n_asked

N_LABELS, N_RATERS = 64, 3
WIDTHS = (0.1, 0.15, 0.07, 0.05, 0.03)  # half widths of shares that can be asked for; the first that fits leads
_WIDE = 0.05  # half width of an interval, as a share of the measure's range
_FEWEST_MORE = 1.3  # times the pictures that there are
_SQUARE = 4.0  # times the pictures halve an interval
_PERCENT = 100.0
_CORRECTED = "-corrected"  # ends the key of a share as known errors correct it


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """One thing to do next, with what does it on the page, on the command line and in the API."""

    key: Literal["pictures", "base", "people"]
    title: str  # on its button
    says: str  # what it does, and what stays
    command: str  # that does the same in a terminal
    # of the run that it starts; None where it asks people
    design: Design | None = None
    settings: StudySettings | None = None
    tool: str = ""  # of the API; "" where only a terminal or the page can
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reach: str = ""  # how closely the least certain number is known then, and how many more pictures that takes
    others: tuple["NextStep", ...] = ()  # the same to other widths

    @property
    def widths(self) -> tuple["NextStep", ...]:
        """The step itself, then the same to other widths."""
        return (self, *self.others)

    def values(self) -> dict[str, Any]:
        """What programs are told."""
        return {name: getattr(self, name) for name in ("key", "title", "says", "command", "tool", "arguments")}


def next_steps(report: StudyReport, services: StudyServices) -> tuple[NextStep, ...]:
    """The steps that the state of a report asks for; none where nothing more can be drawn or asked."""
    study = known_study(report.design)
    if study is None or not report.results.findings or len(report.results.frame("verdicts")):
        return ()
    return tuple(_steps(report, study, services))


def _steps(report: StudyReport, study: Study, services: StudyServices) -> Iterator[NextStep]:
    settings = as_asked(report.design, report.settings)
    if not settings.images and not any(arm.images for arm in settings.arms):
        yield from _more_pictures(report, settings, study, services.settings)
        yield from _base(report, settings, study, services.settings)
    yield from _people(report, services)


def _more_pictures(report: StudyReport, settings: StudySettings, study: Study, limits: Settings) -> Iterator[NextStep]:
    """Until shares are known to ±10 points, or the widest interval is half as wide; of a stopped run, all asked for."""
    if (widest := _widest(report)) is None:
        return
    if report.stopped:
        every = [report.n_planned / max(1, report.n_images)]
    else:
        most = limits.max_images / n_asked(Settled(study=study, settings=settings))
        every = [times for times in _times(widest, settings.confidence) if times <= most] or [most]
    steps = []
    for times in every:
        enlarged, larger = (study, settings) if report.stopped else study.enlarged(settings, times)
        design = enlarged.design
        n = n_asked(Settled(study=enlarged, settings=larger))
        if n > limits.max_images or times < _FEWEST_MORE or n <= report.n_images:
            continue
        before, after = _half_width(widest), _half_after(widest, times, settings.confidence)
        title = f"More pictures: {_reach(widest, before)} → about {_reach(widest, after)}"
        says = f"{n - report.n_images:,} more pictures, {n:,} in all; the others are kept. The least certain number is "
        step = _run(report, "pictures", title, f"{says}“{widest.title}”.", design, larger)
        steps.append(replace(step, reach=f"{_reach(widest, after)} ({n - report.n_images:,} more)"))
    if steps:
        yield replace(steps[0], others=tuple(steps[1:]))


def _base(report: StudyReport, settings: StudySettings, study: Study, limits: Settings) -> Iterator[NextStep]:
    """The same pictures of a plain prompt, where the run has nothing to be compared with."""
    if report.arms or (with_base := study.with_baseline(settings)) is None:
        return
    other, prompt = with_base
    if n_asked(Settled(study=study, settings=other)) <= limits.max_images:
        yield _run(
            report,
            "base",
            "Compare with a plain prompt",
            f"The same seeds are drawn for {prompt}: what both show alike is not due to what was asked for. The "
            "pictures of this report are kept.",
            report.design,
            other,
        )


def _people(report: StudyReport, services: StudyServices) -> Iterator[NextStep]:
    """Where nobody knows how often the reader errs on such pictures, and no task asks people yet."""
    manifest = services.manifests.find(report.run_id) if report.run_id.isalnum() else None
    if manifest is None or manifest.label_tasks or _errors_are_known(report) or not readings_of(report):
        return
    n = min(N_LABELS, report.n_images)
    yield NextStep(
        key="people",
        title=f"Ask {'three' if N_RATERS == 3 else N_RATERS} people",
        says=f"How often the reader errs on such pictures is not known. A task of {n} of them, drawn at random, each "
        "for three people: what they answer corrects these numbers.",
        command=f"python -m bias_core study label {report.run_id} -n {n} --raters {N_RATERS}",
        tool="label_run",
        arguments={"run_id": report.run_id, "n": n, "raters_per_picture": N_RATERS},
    )


def _errors_are_known(report: StudyReport) -> bool:
    """Whether what was drawn is on record, or shares were corrected for the reader's errors."""
    parts = report.arms or (report,)
    findings = [finding for part in parts for finding in part.results.findings]
    frames = [table.frame for part in parts for table in part.results.tables]
    corrected = (frame[name] for frame in frames for name in frame if "corrected" in str(name).split())
    return any(one.expected is not None or one.key.endswith(_CORRECTED) for one in findings) or any(
        column.notna().any() for column in corrected
    )


def _widest(report: StudyReport) -> Finding | None:
    """Of the first measure that is known too loosely, the number with the widest interval; None where all are close."""
    wide = [one for one in report.results.findings if _is_wide(one) and not one.key.endswith(_CORRECTED)]
    same = [finding for finding in wide if finding.metric == wide[0].metric]
    return max(same, key=_half_width, default=None)


def _is_wide(finding: Finding) -> bool:
    """Whether it reaches far to either side, or leaves open whether there is anything.

    Of shares only the first counts: the P* that they are compared with may be assumed.
    """
    estimate, metric = finding.estimate, METRICS[finding.metric]
    half, null = _half_width(finding), metric.null_value if estimate.null_value is None else estimate.null_value
    if not math.isfinite(half) or half <= 0:
        return False
    reach = metric.bounds[1] - metric.bounds[0]
    is_open = finding.metric not in AGAINST_P_STAR and null is not None and estimate.low < null < estimate.high
    return is_open or (math.isfinite(reach) and half > _WIDE * reach)


def _half_width(finding: Finding) -> float:
    return (finding.estimate.high - finding.estimate.low) / 2


def _times(finding: Finding, confidence: float) -> Iterator[float]:
    """How many times the pictures bring a share to each of the :data:`WIDTHS`, or halve another interval."""
    if not _is_plain_share(finding):
        yield _SQUARE
        return
    for width in WIDTHS:
        if width < _half_width(finding):
            yield images_needed(width, confidence=confidence) / finding.estimate.n


def _half_after(finding: Finding, times: float, confidence: float) -> float:
    """Half the interval of so many times the pictures: of a share at most, of others by the root of n."""
    if not _is_plain_share(finding):
        return _half_width(finding) / math.sqrt(times)
    return share_half_width(round(times * finding.estimate.n), confidence)


def _is_plain_share(finding: Finding) -> bool:
    return finding.metric == "attribute_prevalence" and finding.estimate.method.startswith((EXACT, "Wilson"))


def _reach(finding: Finding, half: float) -> str:
    """How far an interval reaches to each side: of a share in points."""
    low, high = METRICS[finding.metric].bounds
    if (low, high) in ((0, 1), (-1, 1)) and finding.metric in AGAINST_P_STAR:
        return f"±{_PERCENT * half:.0f} points"
    return f"±{half:.2g}"


def _run(
    report: StudyReport,
    key: Literal["pictures", "base"],
    title: str,
    says: str,
    design: Design,
    settings: StudySettings,
) -> NextStep:
    """A step that runs a study again, with its command and the call of the API that does so."""
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
    """Of ``run_study`` in the API."""
    given = changed_from_usual(design, settings)
    options = given.pop("options", {})
    write = settings_of(StudySettings)["options"].write
    arms = [arm_text(arm) for arm in given.pop("arms", ())]
    return {
        "study": design.name,
        "scale": settings.scale,
        **given,
        **({"options": [f"{name}={write(value)}" for name, value in options.items()]} if options else {}),
        **({"arms": arms} if arms else {}),
    }
