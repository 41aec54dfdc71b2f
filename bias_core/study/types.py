"""Types of a study: its settings, pictures, progress and results (findings, tables, figures).

The functions at the end make results from estimates and rows.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from bias_core.errors import InvalidInput, quoted
from bias_core.prompts import SLOT, WORD_SLOT
from bias_core.types import Estimate, ImageRow, ReaderFacts, Sampler, StoredImage
from bias_core.values import RemembersNames, declared_settings, setting, settings_class
from bias_core.wording import typeset

if TYPE_CHECKING:  # the command line's help does without pandas and scipy
    import numpy as np
    import pandas as pd
    from PIL import Image

    from bias_core.measures.paired_prevalence import PairedTest

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
FigureKind = Literal[
    "intervals", "pairs", "bars", "distributions", "arrows", "scatter", "curves", "space", "heatmap", "mosaic",
    "pictures",
]  # fmt: skip
Facts = Mapping[str, str | int | float]
AUTO = "auto"  # as a classifier's name: one that suits the pictures and the machine, chosen when a run is laid out
NOBODY = "nobody"  # in place of a classifier, for pictures that are not measured
OFF, OWN, FAIR = "off", "own", "fair"
"""Values of the setting ``rewrite``."""
MAX_STEPS = 150
MAX_GUIDANCE = 30.0
MAX_SEED = 2**53  # larger ones do not survive JSON in a browser


# Settings that an arm may change are declared once for run and arm.
_MODEL = {"label": "Model", "sentence": "Model that draws: a name from `models`, org/name on the hub, or a folder"}
_CONDITION = {
    "label": "Condition",
    "sentence": "Bias that is planted: built into the calibration models, and so known (published, fair, extreme, "
    "trigger, backdoor or crossed)",
}
_STEPS: dict[str, Any] = {
    "label": "Number of denoising steps", "sentence": "Denoising steps per picture (default: the model's)",
    "ge": 1, "le": MAX_STEPS, "option": "--steps",
}  # fmt: skip
_GUIDANCE: dict[str, Any] = {
    "label": "Guidance scale",
    "sentence": "Strength with which pictures follow the prompt (default: the model's)",
    "ge": 0, "le": MAX_GUIDANCE, "option": "--guidance",
}  # fmt: skip
_NEGATIVE = {"label": "Negative prompt", "sentence": "Things that the pictures should not show", "link": "negative"}
_REWRITE = {
    "label": "Rewriting of prompts",
    "sentence": "Rewrite each prompt before drawing: own (by the model itself), fair (by the rewriter, "
    "fairness-aware), an instruction, or off",
}
_SIZE: dict[str, Any] = {
    "label": "Picture size",
    "sentence": "Width x height in pixels, such as 512x512 (default: the model's)",
    "pattern": r"^(\d{2,4}x\d{2,4})?$",
    "example": "512x512",
}
_SAMPLER = {
    "label": "Sampler", "sentence": "Scheduler (default: the model's)",
}  # fmt: skip
_IMAGES: dict[str, Any] = {
    "label": "Your own pictures instead",
    "sentence": "Folder or zip of your own pictures with their prompts; nothing is drawn",
    "local": True,
}
_PROMPTS_FROM = {
    "label": "Prompts from",
    "sentence": "Source of the prompts of your own pictures: auto, table, picture, text file, file name, folder, "
    "none (all show the concept), or “one for all: a photo of a doctor”",
}
_DRAWN_WITH = {
    "label": "Drawn with",
    "sentence": "Of your own pictures, take only those drawn with this model (and LoRAs), as `pictures` names it",
}


@settings_class(frozen=True, kw_only=True)
class Arm:
    """One of the settings that a run compares; None keeps the run's value, ``images`` "" means drawn pictures."""

    name: str = setting("", "Name", "Name of the arm in the report (default: its difference from the other arms)")
    model: str | None = setting(None, **_MODEL)
    condition: str | None = setting(None, **_CONDITION)
    template: str | None = setting(
        None,
        "Treatment of every prompt",
        "Change of every prompt: a text with {} for the prompt, such as “{}, in watercolour”, or {nurse=person}",
    )
    negative_prompt: str | None = setting(None, **_NEGATIVE)
    guidance_scale: float | None = setting(None, **_GUIDANCE)
    num_inference_steps: int | None = setting(None, **_STEPS)
    rewrite: str | None = setting(None, **_REWRITE)
    size: str | None = setting(None, **_SIZE)
    sampler: Sampler | None = setting(None, **_SAMPLER)
    images: str | None = setting(None, **_IMAGES)
    prompts_from: str | None = setting(None, **_PROMPTS_FROM)
    drawn_with: str | None = setting(None, **_DRAWN_WITH)


@settings_class(frozen=True, kw_only=True)
class StudySettings(RemembersNames):
    """Settings of a run: the model, the classifiers, and how much of the study is drawn.

    ``condition`` is "" for models without planted conditions. ``scale`` shortens lists of prompts before pictures per
    prompt fall below two. Missing ``options`` have the design's values. Without ``arms`` the settings are the only arm.
    """

    model: str = setting("calibration-renderer", **_MODEL)
    condition: str = setting("published", **_CONDITION)
    encoder: str = setting(
        AUTO, "Encoder", "Encoder that classifies the pictures; auto picks one that suits them and this machine"
    )
    further_encoders: tuple[str, ...] = setting(
        (),
        "Further encoders",
        "They classify the same pictures, which shows how much the numbers depend on the encoder",
    )
    judge: str = setting(
        "",
        "Judge",
        "Model that answers for each picture if it shows an attribute, instead of the encoder: smolvlm-500m, "
        "qwen2.5-vl-3b, endpoint, org/name of a vision-language model, or a classifier as "
        "org/name:Male=man,Female=woman",
    )
    scale: float = setting(
        1.0, "Share of the full size", "Share of the study's pictures to draw", gt=0, le=1,
        link="percent", percent=True,
    )  # fmt: skip
    seed: int = setting(
        0, "Seed", "Picture i of a prompt has seed + i; paired tests add a number for each prompt", ge=0, le=MAX_SEED
    )
    num_inference_steps: int | None = setting(None, **_STEPS)
    guidance_scale: float | None = setting(None, **_GUIDANCE)
    confidence: float = setting(0.95, "Confidence", "Confidence level of every interval", ge=0.5, lt=1, percent=True)
    images: str = setting("", **_IMAGES)
    prompts_from: str = setting("auto", **_PROMPTS_FROM)
    copies: Literal["count once", "count all"] = setting(
        "count once", "Copies", "Copies, drafts and contact sheets among your own pictures: count once, or count all"
    )
    drawn_with: str = setting("", **_DRAWN_WITH)
    labels: str = setting(
        "",
        "People's answers",
        "File of people's answers (CSV, Label Studio's JSON, CVAT's XML), which replace or check the classifier's",
        local=True,
    )
    # a mapping, or the checked options of a kind of study, which :func:`get_options` returns
    options: object = setting({}, "Options of the study", "Option of the study, as name=value")
    force: bool = setting(
        False, "Score anyway", "Use the chosen encoder on pictures it is not made for; the report says so"
    )
    negative_prompt: str = setting("", **_NEGATIVE)
    rewrite: str = setting("", **_REWRITE)
    rewriter: str = setting(
        "", "Rewriter", "Language model that rewrites the prompts (default: this machine's endpoint)"
    )
    size: str = setting("", **_SIZE)
    sampler: Sampler = setting("", **_SAMPLER)
    stop_within: float | None = setting(
        None,
        "Stop once known to ±",
        "Stop early once every share is known to this precision, such as 0.1 for ±10 points (default: draw all "
        "pictures)",
        gt=0, lt=0.5, percent=True,
    )  # fmt: skip
    stop_when_clear: bool = setting(
        False,
        "Stop once a difference is clear",
        "Stop early once every share is that precise, or differs clearly from its real-world rate",
    )
    protocol: Literal["", "paper"] = setting(
        "",
        "Protocol",
        "paper: settings that you leave out (model, steps, size, encoder) are those of the study's paper",
    )
    arms: tuple[Arm, ...] = setting(
        (), "Arms", "Settings to compare on the same prompts, one per arm, such as 'condition=fair|guidance=3'"
    )

    @property
    def may_stop_early(self) -> bool:
        """True if a stop rule may end the run before its number of pictures."""
        return self.stop_within is not None or self.stop_when_clear


_LIST_SETTINGS = {name for name, option in declared_settings(StudySettings).items() if option.kind is tuple}


def get_options(settings: StudySettings, kind: type[T]) -> T:  # noqa: ARG001 - for type checkers alone
    """Return the options of a settled run with their type; nothing is checked again."""
    return cast("T", settings.options)


def each_arm(settings: StudySettings) -> tuple[StudySettings, ...]:
    """Return the settings of every arm, each as if it were run alone; of a run without arms, its own.

    >>> [one.condition for one in each_arm(StudySettings(arms=(Arm(condition="fair"), Arm())))]
    ['fair', 'published']
    """
    return tuple(arm_alone(settings, arm) for arm in settings.arms) or (settings,)


def arm_alone(settings: StudySettings, arm: Arm) -> StudySettings:
    """Return the settings of one arm, as if it were run alone."""
    arm_settings = {
        name: value for name, value in asdict(arm).items() if value is not None and name not in ("name", "template")
    }
    return replace(settings, **arm_settings, arms=(Arm(template=arm.template),) if arm.template else ())


def settings_from_dict(values: Mapping[str, Any]) -> StudySettings:
    """Return settings from the plain values of a file or manifest; InvalidInput quotes a value that does not fit.

    >>> settings_from_dict({"seed": 3, "arms": [{"condition": "fair"}, {}]}).arms[0].condition
    'fair'
    >>> settings_from_dict({"further_encoders": ["org/clip"]}).further_encoders  # JSON has lists only
    ('org/clip',)
    """
    arms = values.get("arms") or ()
    if not isinstance(arms, (list, tuple)) or not all(isinstance(arm, Mapping) for arm in arms):
        raise InvalidInput(f"arms must be a list, each with names and their values; got {quoted(arms)}")
    plain: dict[str, Any] = {
        name: tuple(value) if name in _LIST_SETTINGS and isinstance(value, list) else value
        for name, value in values.items()
    }
    return StudySettings(**{**plain, "arms": tuple(Arm(**arm) for arm in arms)})


@dataclass(frozen=True, kw_only=True)
class Design:
    """The design of a study, from its YAML file.

    Designs that differ only in words for readers are equal, and give runs the same id.
    """

    name: str  # for the list of studies
    title: str = field(compare=False)
    kind: str  # of the class that runs it
    reference: str  # key in ``refs.bib``
    where: str = field(compare=False)  # the tables or figures that it redraws
    # :func:`bias_core.study.design.format_summary` fills in the ``{name}`` that depend on options
    summary: str = field(compare=False)
    # data of the study: stimuli, lists, the paper's numbers
    data: Mapping[str, Any] = field(default_factory=dict)
    images_per_prompt: int = 10  # as in the paper
    options: Mapping[str, Any] = field(default_factory=dict)  # options of the study, with the paper's values
    # the paper's protocol by setting, option or circumstance (:mod:`bias_core.study.design`), together with that of
    # ``assets/studies/protocols.yaml`` for the reference; empty without a paper. Its values reach a run as settings.
    protocol: Mapping[str, Any] = field(default_factory=dict, compare=False)
    # our choices for what the paper leaves open: texts, or {says: text, only_if: {option: value}}
    our_reading: Sequence[str | Mapping[str, Any]] = field(default=(), compare=False)
    # the paper's number of pictures in words, if it is not the design's full size
    published_size: str = field(default="", compare=False)
    # defaults of :class:`StudySettings` for this study, by name
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = field(default=(), compare=False)  # those of its data

    def __post_init__(self) -> None:
        """Take the notes out of the data: they decide no number."""
        if "notes" in self.data:
            object.__setattr__(self, "notes", self.data["notes"])
            object.__setattr__(self, "data", {name: value for name, value in self.data.items() if name != "notes"})


@dataclass(frozen=True, kw_only=True)
class Shot:
    """``n`` pictures of one prompt with their facts; condition "" is that of the run."""

    prompt: str
    n: int
    group: str
    facts: Facts = field(default_factory=dict)
    part: str = ""  # for runs that count pictures by parts, in words: "of the concept", "for the association"
    first_seed: int = 0
    condition: str = ""
    later_prompt: str = ""  # this and ``text_condition`` as :class:`bias_core.types.ImageRow` has them
    first_steps: float = 0.0  # share of the steps with ``prompt``, if there is a later one
    text_condition: str = ""


PairedComparison: TypeAlias = "Callable[[Sample, Sample, np.ndarray, np.ndarray, float, int], PairedTest]"
"""A test of two samples, the positions of the shared units in each, the confidence and a seed."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The data of a number, to compute it again from a part or a resample."""

    # ``(n,)`` names of the sampled units, the same for the same picture (or prompt) in every arm: the column ``unit``
    # of the data frame
    units: tuple[str, ...]
    # the number from positions ``(m,)`` in ``units``, which may repeat; nan if undefined
    statistic: Callable[[np.ndarray], Any]
    vectorised: bool = False  # ``statistic`` also takes ``(k, m)`` positions and returns ``(k,)`` numbers
    of: str = "seeds"  # name of the units
    data: Any = None  # values of the units that ``test`` needs
    # test of this number in two arms on their shared units, if there is a better one than the bootstrap
    test: PairedComparison | None = None
    apart: PairedComparison | None = None  # the same for two arms that share no unit


@dataclass(frozen=True, kw_only=True)
class JudgeAnswer:
    """A judge's answer to one question about a picture."""

    image_id: str
    question: str
    verdict: str  # "yes", "no" or "cannot tell"
    said: str = ""  # by a judge on a server whose text counts


Verdict = Literal["above", "below", "not clear", "too few", "not tested"]
"""Verdicts on a number against its null value; *not tested* without a null value."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The verdict on one number, which a report may state; :mod:`bias_core.report.claims` decides it."""

    verdict: Verdict
    p_adjusted: float  # two-sided p, adjusted for the tests of its family; nan without a test
    n_tests: int  # of the family
    level: float  # the number is clear if the adjusted p is at most this
    reason: str = ""  # why it is not clear though its own interval excludes the null value, or why it is not tested

    @property
    def is_clear(self) -> bool:
        """True if the number clearly differs from its null value."""
        return self.verdict in ("above", "below")

    @property
    def word(self) -> str:
        """The entry of the column "clear" of a table: yes, no, too few, or "" without a null value."""
        words = {"not clear": "no", "too few": "too few", "not tested": ""}
        return words.get(self.verdict, "yes")

    @property
    def correction(self) -> str:
        """The correction for several tests, in words; "" for one test."""
        few = "Holm’s correction" if self.n_tests <= MOST_IN_HOLM else "Benjamini and Hochberg’s correction"
        return few if self.n_tests > 1 else ""

    def choose(self, above: T, below: T, otherwise: T) -> T:
        """Return the first if the number is clearly above its null value, the second if clearly below."""
        return {"above": above, "below": below}.get(self.verdict, otherwise)


AGAINST_P_STAR = frozenset({"attribute_prevalence", "signed_difference", "stereotype_score"})
"""Measures that are compared with a P*: only a study that knows its source makes a headline of them."""

MOST_IN_HOLM = 20
"""Tests up to which Holm's correction is made; of more, the false discovery rate is bounded (Benjamini–Hochberg)."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number of a report."""

    key: str  # for programs and for people
    title: str
    metric: str  # key in the table of measures
    estimate: Estimate  # with its interval, n, null value and p-value
    # what may be claimed of it; None before it is decided, and where nothing is
    claim: Claim | None = None
    claim_of: str = ""  # key of the finding that it restates in another unit, such as P of Ψ, and whose claim it has
    # sentences for a number clearly above its null value, clearly below, and neither, of which ``says`` gets one
    readings: tuple[str, ...] = field(default=(), compare=False, repr=False, metadata={"saved": False})
    published: float | None = None  # the paper's number, None if it prints none
    expected: float | None = None  # the number from the ground truth of the pictures; None if unknown
    says: str = ""  # one plain sentence
    # the value of each of several classifiers, by name, the first as in ``estimate``; empty for one classifier
    by_reader: Mapping[str, float] = field(default_factory=dict)
    # True if it depends on the number of pictures, so that arms are compared at equal n
    depends_on_n: bool = False
    # its data, to compare arms; None if arms cannot be compared by it; not saved with the report
    sample: Sample | None = field(default=None, compare=False, repr=False, metadata={"saved": False})

    @property
    def p_value(self) -> float | None:
        """Two-sided p of its null value, for itself alone; None without a test."""
        return None if math.isnan(self.estimate.p_value) else self.estimate.p_value

    @property
    def is_clear(self) -> bool:
        """True if the report claims that it differs from its null value."""
        return self.claim is not None and self.claim.is_clear


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """A table of a report; ``note`` says how to read it."""

    key: str
    title: str
    frame: pd.DataFrame
    note: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyFigure:
    """A figure of a report: its data and kind (:mod:`bias_core.report.figures`); equal to itself alone."""

    key: str
    title: str
    kind: FigureKind
    # one row per mark; :mod:`bias_core.report.figures` names the columns that each kind reads
    data: pd.DataFrame
    labels: Mapping[str, Any] = field(default_factory=dict)  # axis labels and reference lines of the kind
    caption: str = ""  # one or two sentences


@dataclass(frozen=True, kw_only=True)
class Results:
    """Results of a study; ``scored`` holds further data for comparing arms, and is not saved."""

    findings: tuple[Finding, ...] = ()
    tables: tuple[StudyTable, ...] = ()
    figures: tuple[StudyFigure, ...] = ()
    notes: tuple[str, ...] = ()
    scored: Any = field(default=None, compare=False, repr=False, metadata={"saved": False})

    @cached_property
    def token(self) -> str:
        """Random name of this object: an id may be used again once an object is gone."""
        return secrets.token_hex(8)

    def frame(self, key: str) -> pd.DataFrame:
        """Return the frame of the table with this key; an empty one if there is none."""
        return next((table.frame for table in self.tables if table.key == key), make_frame(()))

    def renewed(self, new: Results, gone: Sequence[str] = ()) -> Results:
        """Return ``new`` with the findings and tables of these results that it lacks, except those in ``gone``."""
        keys = {*gone, *(line.key for line in new.findings), *(line.key for line in new.tables)}
        findings = [number for number in self.findings if number.key not in keys]
        tables = [frame for frame in self.tables if frame.key not in keys]
        return replace(new, findings=(*new.findings, *findings), tables=(*new.tables, *tables))


def join_results(first: Results, *other_results: Results) -> Results:
    """Return all results in one, in their order."""
    for results in other_results:
        parts = {name: (*getattr(first, name), *getattr(results, name)) for name in _JOINED}
        first = replace(first, **parts)
    return first


_JOINED = ("findings", "tables", "figures", "notes")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of some pictures, and how many there were."""

    settings: StudySettings
    results: Results
    n_planned: int  # pictures asked for
    n_images: int  # pictures scored
    n_blocked: int = 0  # blocked pictures, once each (``report/blocked_pictures.py``)
    warning: str = ""  # shown before everything else; "" for none


@dataclass(frozen=True, kw_only=True)
class ArmReport(Measured):
    """The results of one arm, with its own settings, as if it had run alone."""

    name: str


@dataclass(frozen=True, kw_only=True)
class StudyReport(Measured):
    """The report of a run: numbers, tables, figures and notes."""

    run_id: str
    design: Design
    unknown_words: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    # one row per scored picture: ``image_id, group, prompt, seed``, the study's facts, and its measured values
    # (:meth:`bias_core.run.study_run.Run.keep`)
    pictures: pd.DataFrame | None = None
    stored: Mapping[str, StoredImage] = field(default_factory=dict)  # the pictures by id
    # files of own pictures (:func:`bias_core.study.picture_names.list_files`), by which people's answers find them
    files: pd.DataFrame | None = None
    # the arms; ``results`` is then their comparison, and ``pictures`` has a column ``arm``; empty for one arm
    arms: tuple[ArmReport, ...] = ()
    stopped: bool = False  # True if the run was stopped and its finished part is measured
    stopped_after: str = ""  # how much was measured, in words, if it was stopped after drawing
    stop_rule: str = ""  # the rule that ended the run early, in words
    read_by: tuple[ReaderFacts, ...] = ()  # classifiers of the pictures, with revisions
    created: float = 0.0  # time of measuring, in seconds since 1970; 0 if unknown


def named_parts(report: StudyReport) -> list[tuple[str, Measured]]:
    """Return the name and results of each arm; "" and the report itself without arms."""
    return [(arm.name, arm) for arm in report.arms] or [("", report)]


def get_scored_pictures(report: StudyReport) -> pd.DataFrame:
    """Return the frame of scored pictures; InvalidInput if the report has none."""
    if report.pictures is None:
        raise InvalidInput("this report names no pictures that people's answers could be about")
    return report.pictures


@dataclass(frozen=True, kw_only=True)
class WatchedShare:
    """A share in the pictures so far, with an interval that holds at any time."""

    name: str
    estimate: Estimate  # a share in [0, 1], or a score in [-1, 1]
    is_score: bool = False  # a mean of +1 and −1, shown from -100 to 100

    @property
    def value_words(self) -> str:
        """The share in percent, or the score with its sign."""
        return self._words(self.estimate.value)

    @property
    def interval_words(self) -> str:
        """Both ends of the interval.

        >>> share = Estimate(value=0.625, low=0.5, high=0.731, n=80)
        >>> WatchedShare(name="old", estimate=share).interval_words
        '50 % to 73 %'
        >>> WatchedShare(name="score", estimate=share, is_score=True).interval_words
        '+50 to +73'
        """
        return f"{self._words(self.estimate.low)} to {self._words(self.estimate.high)}"

    def _words(self, value: float) -> str:
        return typeset(100 * value, "+.0f") if self.is_score else f"{100 * value:.0f} %"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a run: a sentence, pictures done and planned, seconds left (nan: unknown), its pictures so far."""

    message: str
    done: int = 0
    total: int = 0
    seconds_left: float = math.nan
    images: tuple[StoredImage, ...] = ()  # finished, in their order
    drawing: tuple[ImageRow, ...] = ()  # rows of all pictures in their order, while some are being drawn
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # small previews of unfinished pictures, by id
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # ids of pictures by part; {} for one part
    shares: tuple[WatchedShare, ...] = ()  # in the pictures so far
    watches_shares: bool = False  # True if there will be shares


def map_progress(steps: Generator[S, None, R], change: Callable[[S], T]) -> Generator[T, None, R]:
    """Yield the steps of a run, each changed; return its result. Closing this closes the run."""
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as stop:
                result: R = stop.value
                return result
            yield change(step)


Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
POINTS = "Points are pictures, bars their quartiles, circles their medians."  # caption of figures of distributions


def or_nan(value: float | None) -> float:
    """Return a number for a table, nan for None."""
    return math.nan if value is None else value


def columns(name: str, estimate: Estimate | None, *, ends: str | None = None) -> dict[str, float]:
    """Return value and interval as columns of a table, nan without an estimate; ``ends`` names the interval's.

    >>> p = Estimate(value=0.5, low=0.4, high=0.6, n=9)
    >>> columns("P", p), list(columns("S", p, ends=""))
    ({'P': 0.5, 'P low': 0.4, 'P high': 0.6}, ['S', 'low', 'high'])
    """
    low, high = (f"{name if ends is None else ends} {end}".strip() for end in ("low", "high"))
    if estimate is None:
        return dict.fromkeys((name, low, high), math.nan)
    return {name: estimate.value, low: estimate.low, high: estimate.high}


def mark(name: str, estimate: Estimate, **extra: Any) -> dict[str, Any]:
    """Return an estimate as a mark of a figure of intervals or bars."""
    return {"name": name, **columns("value", estimate, ends=""), "n": estimate.n, **extra}


def finding_mark(finding: Finding) -> dict[str, Any]:
    """Return a finding as a mark of a figure of intervals, with the paper's number and the ground truth."""
    return mark(finding.title, finding.estimate, published=finding.published, expected=finding.expected)


def point(x: Estimate | float, y: Estimate | float, **extra: Any) -> dict[str, Any]:
    """Return a point of a scatter, with intervals for estimates."""
    row = dict(extra)
    for axis, value in (("x", x), ("y", y)):
        if isinstance(value, Estimate):
            row |= {axis: value.value, f"{axis}low": value.low, f"{axis}high": value.high}
        else:
            row[axis] = value
    return row


def marks(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the columns of a table that a figure reads, under the figure's names; missing ones are left out.

    >>> marks(make_frame([{"target": "judge", "MCAS": 0.5}]), {"name": "target", "value": "MCAS", "low": "L"})
        name  value
    0  judge    0.5
    """
    present_columns = {name: column for name, column in names.items() if column in rows}
    return rows[[*present_columns.values()]].set_axis([*present_columns], axis=1).reset_index(drop=True)


def intervals(settings: StudySettings) -> dict[str, Any]:
    """Return the confidence and seed of a run's intervals, as arguments of measures."""
    return {"confidence": settings.confidence, "rng": settings.seed}


def finding(key: str, title: str, metric: str, estimate: Estimate, says: str = "", **extra: Any) -> Finding:
    """Return a finding; ``says`` is one plain sentence, ``extra`` are further fields."""
    return Finding(key=key, title=title, metric=metric, estimate=estimate, says=says, **extra)


def table(key: str, title: str, rows: Rows, note: str = "") -> StudyTable:
    """Return a table of the report; ``note`` says how to read it."""
    return StudyTable(key=key, title=title, frame=make_frame(rows), note=note)


def figure(kind: FigureKind, key: str, title: str, rows: Rows, caption: str = "", **labels: Any) -> StudyFigure:
    """Return a figure of the report; its kind reads the ``labels`` (:mod:`bias_core.report.figures`)."""
    return StudyFigure(key=key, title=title, kind=kind, data=make_frame(rows), labels=labels, caption=caption)


def value_rows(findings: Sequence[Finding], n: str) -> list[dict[str, Any]]:
    """Return findings as rows of a table; the column ``n`` counts their units."""
    return [
        {"": f.title, **columns("value", f.estimate, ends=""), n: f.estimate.n, "in the paper": f.published}
        for f in findings
    ]


def drawable(figures: Iterable[StudyFigure]) -> tuple[StudyFigure, ...]:
    """Return the figures that have data."""
    return tuple(figure for figure in figures if not figure.data.empty)


def make_frame(rows: Rows) -> pd.DataFrame:
    """Return rows as a data frame."""
    import pandas as pd

    return rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))


MOST_ARMS = 8
_BETWEEN = "|"
_ESCAPED = r"\|"  # one that belongs to a prompt
ARM_WORDS = {name: option.key for name, option in declared_settings(Arm).items()}
"""Fields of an arm and their names in ``--arm``."""
_LONGEST_NAME = 40
_REWRITING = {
    "": "prompts as they are", OFF: "prompts as they are", OWN: "rewritten by the model", FAIR: "rewritten to be fair",
}  # fmt: skip


def check_arms(settings: StudySettings, arms_of_options: tuple[Arm, ...] = ()) -> StudySettings:
    """Return settings with named, comparable arms (else InvalidInput); a single arm becomes the run's settings."""
    if arms_of_options:
        unnamed = [replace(arm, name="") for arm in arms_of_options]
        if any(replace(arm, name="") not in unnamed for arm in settings.arms):
            raise InvalidInput(
                "languages are arms of their own: leave the other arms out, or write every arm's template"
            )
        settings = settings if settings.arms else replace(settings, arms=arms_of_options)
    for arm in settings.arms:
        if arm.template and WORD_SLOT.sub(SLOT, arm.template).count(SLOT) != 1:
            raise InvalidInput(
                f"the template of an arm has one {SLOT} for each whole prompt of the study, as in "
                f'"{SLOT}, in watercolour", or a word in place of another, as in "{{doctor=person}}"; '
                f"got {quoted(arm.template)}"
            )
    if len(settings.arms) <= 1:
        return each_arm(settings)[0]
    if len(settings.arms) > MOST_ARMS:
        raise InvalidInput(f"a run compares up to {MOST_ARMS} arms, got {len(settings.arms)}")
    names = arm_names(settings)
    return replace(
        settings, arms=tuple(replace(arm, name=name) for arm, name in zip(settings.arms, names, strict=True))
    )


def check_several(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Return the arms if there are at least two; else raise InvalidInput."""
    if len(arms) < 2:
        raise InvalidInput(f"compare two to {MOST_ARMS} arms, got {len(arms)}")
    return arms


def arm_names(settings: StudySettings) -> tuple[str, ...]:
    """Return the arms' names, or the settings in which each differs from the others.

    InvalidInput if two arms have the same name, or the same settings.

    >>> arms = Arm(condition="fair"), Arm(), Arm(name="mine", condition="extreme"), Arm(images="pics/old.zip")
    >>> arm_names(StudySettings(arms=arms))
    ('fair', 'published', 'mine', 'old.zip')
    >>> arm_names(StudySettings(arms=(Arm(), Arm(template="{doctor=nurse}"))))
    ('doctor', 'nurse')
    """
    words = [_describe_arm(settings, arm) for arm in settings.arms]
    drawn = [values for values in words if not values["images"]]
    differs = [word for word in ARM_WORDS if len({values[word] for values in drawn}) > 1] or ["model", "condition"]
    names = tuple(
        arm.name.strip() or values["images"] or ", ".join(filter(None, (values[field] for field in differs)))
        for arm, values in zip(settings.arms, words, strict=True)
    )
    if len(set(names)) < len(names):
        raise InvalidInput(f"arms need names that differ, or settings that differ; got {', '.join(names)}")
    return names


def _describe_arm(settings: StudySettings, arm: Arm) -> dict[str, str]:
    """Return the settings of an arm in words, by field; for imported pictures only their source."""
    arm_settings, words = arm_alone(settings, arm), dict.fromkeys(ARM_WORDS, "")
    if arm_settings.images:
        return words | {"images": arm_settings.drawn_with or re.split(r"[\\/]", arm_settings.images.rstrip("\\/"))[-1]}
    guidance, steps = arm_settings.guidance_scale, arm_settings.num_inference_steps
    negative = _short(arm_settings.negative_prompt)
    return words | {
        "model": _short(arm_settings.model),
        "condition": _short(arm_settings.condition),
        "template": _short(_template_words(settings.arms, arm.template or "")),
        "negative_prompt": f"without “{negative}”" if negative else "no negative prompt",
        "guidance_scale": f"guidance {'default' if guidance is None else format(guidance, 'g')}",
        "num_inference_steps": f"steps {'default' if steps is None else steps}",
        "rewrite": _REWRITING.get(arm_settings.rewrite) or f"rewritten: {_short(arm_settings.rewrite)}",
        "size": f"size {arm_settings.size or 'default'}",
        "sampler": f"sampler {arm_settings.sampler or 'default'}",
    }


def _template_words(arms: Sequence[Arm], template: str) -> str:
    """Return the word that a template puts in, or the words that it adds; of no template, the word that others replace.

    >>> arms = Arm(), Arm(template="{doctor=nurse}"), Arm(template="{}, in watercolour")
    >>> [_template_words(arms, one.template or "") for one in arms]
    ['doctor', 'nurse', '…, in watercolour']
    """
    if swap := WORD_SLOT.fullmatch(template):
        return swap[2]
    if template:
        return template.replace(SLOT, "…")
    replaced = {swap[1] for arm in arms if (swap := WORD_SLOT.fullmatch(arm.template or ""))}
    return replaced.pop() if len(replaced) == 1 else "original prompt"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"


def arm_text(arm: Arm) -> str:
    """Return an arm as ``--arm`` takes it.

    >>> arm_text(Arm(name="mine", condition="fair"))
    'name=mine|condition=fair'
    """
    return _BETWEEN.join(
        f"{ARM_WORDS[f.name]}={str(value).replace(_BETWEEN, _ESCAPED)}"
        for f in fields(Arm)
        if (value := getattr(arm, f.name)) is not None and not (f.name == "name" and not value)
    )


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """Return the arms in the texts of ``--arm``: ``key=value`` with ``|`` between them.

    InvalidInput quotes a part that is not ``key=value``, an unknown key, or a value that is not a number.

    >>> parse_arms(["condition=fair|guidance=2"])[0].guidance_scale
    2.0
    """
    return tuple(_parse_arm(str(text)) for text in texts)


def _parse_arm(text: str) -> Arm:
    declared = declared_settings(Arm)
    given: dict[str, Any] = {}
    names = {word: name for name, word in ARM_WORDS.items()} | {name: name for name in ARM_WORDS}
    for part in filter(str.strip, re.split(r"(?<!\\)\|", text)):
        word, sign, value = (piece.strip() for piece in part.replace(_ESCAPED, _BETWEEN).partition("="))
        if not sign or word not in names:
            raise InvalidInput(
                f"write an arm as key=value|key=value with the keys {', '.join(ARM_WORDS.values())}; got {quoted(part)}"
            )
        setting = declared[names[word]]
        given[setting.name] = value if setting.kind is str else setting.read(value)
    return Arm(**given)
