"""What a study is asked, what it draws, where it is, and what it answers: findings, tables and figures.

The functions at the end make these of estimates and rows; studies say which of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from bias_core.errors import InvalidInput, quoted
from bias_core.number_text import typeset
from bias_core.prompts import SLOT, WORD_SLOT
from bias_core.types import Estimate, ImageRow, ReaderFacts, Sampler, StoredImage
from bias_core.values import RemembersNames, setting, settings_class, settings_of

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
_MOST_LISTED = 3
AUTO = "auto"
"""In place of a classifier's name: the one that suits the pictures and the machine, chosen when a run is laid out."""
OFF, OWN, FAIR = "off", "own", "fair"  # ways to rewrite prompts
MAX_STEPS = 150
MAX_GUIDANCE = 30.0
MAX_SEED = 2**53  # larger ones do not survive JSON in a browser


# What an arm may have otherwise than the run is declared once for both.
_MODEL = {"label": "Model", "sentence": "Model that draws: a name from `models`, org/name on the hub, or a folder"}
_CONDITION = {
    "label": "Condition",
    "sentence": "Bias planted in the calibration world: published, fair, extreme, trigger, backdoor or crossed",
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


@settings_class(frozen=True, kw_only=True)
class Arm:
    """One of the ways to draw a study: what is None is as the run's settings say; ``images`` "" is drawn."""

    name: str = setting("", "Name", "Name of the arm in the report (default: its difference from the other arms)")
    model: str | None = setting(None, **_MODEL)
    condition: str | None = setting(None, **_CONDITION)
    template: str | None = setting(
        None,
        "Treatment of every prompt",
        "Change of every prompt: a text with one {} for the whole prompt, or {old=new} for another word in it",
    )
    negative_prompt: str | None = setting(None, **_NEGATIVE)
    guidance_scale: float | None = setting(None, **_GUIDANCE)
    num_inference_steps: int | None = setting(None, **_STEPS)
    rewrite: str | None = setting(None, **_REWRITE)
    size: str | None = setting(None, **_SIZE)
    sampler: Sampler | None = setting(None, **_SAMPLER)
    images: str | None = setting(None, **_IMAGES)


@settings_class(frozen=True, kw_only=True)
class StudySettings(RemembersNames):
    """How a study is run: on which model, read by whom, how much of it.

    ``condition`` is "" for models without planted conditions. ``scale`` thins lists out before pictures per
    prompt fall below two. What ``options`` leaves out has the value of the design. Without ``arms`` the
    settings themselves are the only one.
    """

    model: str = setting("calibration-renderer", **_MODEL)
    condition: str = setting("published", **_CONDITION)
    encoder: str = setting(
        AUTO,
        "Reader (encoder)",
        "Encoder that classifies the pictures; auto picks one that suits them and this machine",
    )
    further_encoders: tuple[str, ...] = setting(
        (),
        "Further readers (encoders)",
        "More encoders that read the same pictures and show how sensitive the numbers are to the encoder",
    )
    judge: str = setting(
        "",
        "Judge",
        "Model that says whether a picture shows an attribute, in place of the encoder: smolvlm-500m, "
        "qwen2.5-vl-3b, endpoint, org/name of a vision-language model, or a classifier as "
        "org/name:Male=man,Female=woman",
    )
    scale: float = setting(
        1.0, "Share of the full size", "Share of the study's pictures that is drawn", gt=0, le=1,
        link="percent", percent=True,
    )  # fmt: skip
    seed: int = setting(
        0, "Seed", "Seed of the first picture of each prompt; picture i has seed + i", ge=0, le=MAX_SEED
    )
    num_inference_steps: int | None = setting(None, **_STEPS)
    guidance_scale: float | None = setting(None, **_GUIDANCE)
    confidence: float = setting(0.95, "Confidence", "Confidence level of every interval", ge=0.5, lt=1, percent=True)
    images: str = setting("", **_IMAGES)
    labels: str = setting(
        "",
        "People's answers",
        "File of people's answers (CSV, or JSON of Label Studio), which replace or check the classifier's",
        local=True,
    )
    # names with values, or the checked options of a kind of study, which :func:`options_in` returns
    options: object = setting({}, "Options of the study", "Option of the study, as name=value")
    force: bool = setting(
        False, "Score anyway", "Let the encoder that you name read pictures it is not made for; the report says so"
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
        "Stop early once every share is known to this width on each side, a tenth being ±10 points (default: "
        "draw all pictures)",
        gt=0, lt=0.5, percent=True,
    )  # fmt: skip
    stop_when_clear: bool = setting(
        False,
        "Stop when P* is excluded",
        "Stop early once every share is known that well, or its interval excludes the real-world rate P*",
    )
    protocol: Literal["", "paper"] = setting(
        "",
        "Protocol",
        "paper takes the model, steps, size and encoder of the study's paper for each setting that you leave out",
    )
    arms: tuple[Arm, ...] = setting(
        (),
        "Arms",
        "Ways to draw the same prompts, which are compared; each key=value|key=value, such as condition=fair",
    )


def options_in(settings: StudySettings, kind: type[T]) -> T:  # noqa: ARG001 - for type checkers alone
    """Return the options of a settled run, which are of its study's kind; nothing is checked again."""
    return cast("T", settings.options)


def each_arm(settings: StudySettings) -> tuple[StudySettings, ...]:
    """Return the settings of every arm, each as if it were run alone; of a run without arms, its own.

    >>> [one.condition for one in each_arm(StudySettings(arms=(Arm(condition="fair"), Arm())))]
    ['fair', 'published']
    """
    return tuple(arm_alone(settings, arm) for arm in settings.arms) or (settings,)


def arm_alone(settings: StudySettings, arm: Arm) -> StudySettings:
    """Return the settings of one arm, as if it were run alone."""
    own = {name: value for name, value in asdict(arm).items() if value is not None and name not in ("name", "template")}
    return replace(settings, **own, arms=(Arm(template=arm.template),) if arm.template else ())


def settings_from_dict(values: Mapping[str, Any]) -> StudySettings:
    """Settings from plain values, as a file or a manifest has them; InvalidInput quotes what is none.

    >>> settings_from_dict({"seed": 3, "arms": [{"condition": "fair"}, {}]}).arms[0].condition
    'fair'
    >>> settings_from_dict({"further_encoders": ["org/clip"]}).further_encoders  # JSON has lists only
    ('org/clip',)
    """
    arms = values.get("arms") or ()
    if not isinstance(arms, (list, tuple)) or not all(isinstance(arm, Mapping) for arm in arms):
        raise InvalidInput(f"arms must be a list, each with names and their values; got {quoted(arms)}")
    lists = [name for name, one in settings_of(StudySettings).items() if one.kind is tuple]
    plain: dict[str, Any] = {
        name: tuple(value) if name in lists and isinstance(value, list) else value for name, value in values.items()
    }
    return StudySettings(**{**plain, "arms": tuple(Arm(**arm) for arm in arms)})


@dataclass(frozen=True, kw_only=True)
class Design:
    """A study as its YAML says it."""

    name: str  # for the list of studies
    title: str
    kind: str  # which program runs it
    reference: str  # key in ``refs.bib``
    where: str  # the tables or figures that it redraws
    summary: str
    # the study data that the program reads: stimuli, lists, published numbers
    data: Mapping[str, Any] = field(default_factory=dict)
    images_per_prompt: int = 10  # as published
    options: Mapping[str, Any] = field(default_factory=dict)  # of the program, with their values as published
    # what its paper says of each setting, option and circumstance of it (:mod:`bias_core.study.design`), by
    # name; with those of ``assets/studies/protocols.yaml`` for the reference. Empty where it follows none
    protocol: Mapping[str, Any] = field(default_factory=dict)
    our_reading: Sequence[str] = ()  # how this study reads what the paper leaves open, a sentence each
    published_size: str = ""  # in words, how many pictures were published, where that is not the design's full size
    # of :class:`StudySettings`, by name: the defaults of this study in place of the program's
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Shot:
    """``n`` pictures of one prompt, with what the study knows of them; condition "" is that of the run."""

    prompt: str
    n: int
    group: str
    facts: Facts = field(default_factory=dict)
    part: str = ""  # of a run that counts its pictures by parts, in words: "of the concept", "for the association"
    first_seed: int = 0
    condition: str = ""
    later_prompt: str = ""  # this and ``text_condition`` as :class:`bias_core.types.ImageRow` has them
    first_steps: float = 0.0  # share of the steps that are taken with ``prompt``, where there is a later one
    text_condition: str = ""


PairedComparison: TypeAlias = "Callable[[Sample, Sample, np.ndarray, np.ndarray, float, int], PairedTest]"
"""A test of two samples, the positions of the shared units in each, the confidence and a seed."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a number was computed from, so that it can be computed again from a part or a resample of it."""

    # ``(n,)`` names of what was sampled, the same for the same picture (or prompt) in every arm: the column ``unit``
    # of the data frame
    units: tuple[str, ...]
    # the number, from positions ``(m,)`` in ``units``, which may repeat; nan where it is undefined
    statistic: Callable[[np.ndarray], Any]
    vectorised: bool = False  # ``statistic`` also takes ``(k, m)`` positions and returns ``(k,)`` numbers
    of: str = "seeds"  # what the units are, in words
    data: Any = None  # what ``test`` needs of the units
    # of this number in two arms on the units that both have, where there is a better one than the bootstrap
    test: PairedComparison | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number that the study is about."""

    key: str  # for programs and for people
    title: str
    metric: str  # key in the table of measures
    estimate: Estimate  # with its interval, n and null value
    p_value: float | None = None  # None where there is no test
    published: float | None = None  # what the paper printed, None where it did not
    expected: float | None = None  # the same of what was really drawn, where that is on record; None elsewhere
    says: str = ""  # one plain sentence
    # what each of several readers says, by its name, the first one's as in ``estimate``; empty where one reads alone
    by_reader: Mapping[str, float] = field(default_factory=dict)
    # whether it moves with the number of pictures alone, so that arms are compared at equal n
    depends_on_n: bool = False
    # what it was computed from, for comparing arms; None where arms cannot be compared by it. It is not saved with
    # the report.
    sample: Sample | None = field(default=None, compare=False, repr=False, metadata={"saved": False})


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """A table of the report; ``note`` says how to read it."""

    key: str
    title: str
    frame: pd.DataFrame
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    """A figure of the report, as data and the way to draw it (:mod:`bias_core.study.figures`)."""

    key: str
    title: str
    kind: FigureKind  # how it is drawn
    # one row per mark; the columns that each kind reads are named in :mod:`bias_core.study.figures`
    data: pd.DataFrame
    labels: Mapping[str, Any] = field(default_factory=dict)  # axis labels and reference lines of the kind
    caption: str = ""  # what to see, in one or two sentences


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a program found; ``scored`` is what its comparison of arms needs besides, and is not saved."""

    findings: tuple[Finding, ...] = ()
    tables: tuple[StudyTable, ...] = ()
    figures: tuple[StudyFigure, ...] = ()
    notes: tuple[str, ...] = ()
    scored: Any = field(default=None, compare=False, repr=False, metadata={"saved": False})

    def frame(self, key: str) -> pd.DataFrame:
        """What the table of this key holds; empty where there is none."""
        return next((table.frame for table in self.tables if table.key == key), frame_of(()))

    def renewed(self, new: Results, gone: Sequence[str] = ()) -> Results:
        """Return ``new`` with the findings and tables of these results whose keys it lacks, but for those ``gone``."""
        keys = {*gone, *(one.key for one in new.findings), *(one.key for one in new.tables)}
        findings = [one for one in self.findings if one.key not in keys]
        tables = [one for one in self.tables if one.key not in keys]
        return replace(new, findings=(*new.findings, *findings), tables=(*new.tables, *tables))


def joined(first: Results, *others: Results) -> Results:
    """Return all results in one, those of the first in front."""
    for one in others:
        parts = {name: (*getattr(first, name), *getattr(one, name)) for name in _JOINED}
        first = replace(first, **parts)
    return first


_JOINED = ("findings", "tables", "figures", "notes")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was found in some pictures, and in how many."""

    settings: StudySettings
    results: Results
    n_planned: int  # pictures asked for
    n_images: int  # scored
    n_blocked: int = 0  # blanked by a safety checker
    warning: str = ""  # what must be read before everything else, "" for nothing


@dataclass(frozen=True, kw_only=True)
class ArmReport(Measured):
    """What a study found in one of its arms, with the settings of it alone, as it would have without the others."""

    name: str


@dataclass(frozen=True, kw_only=True)
class StudyReport(Measured):
    """The answer of a study: numbers, tables, figures, and what was noticed on the way."""

    run_id: str
    design: Design
    unknown_words: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    # one row per scored picture: ``image_id, group, prompt, seed``, the study's facts, and what the program kept of
    # each (:meth:`bias_core.study.study_data.StudyData.keep`)
    pictures: pd.DataFrame | None = None
    stored: Mapping[str, StoredImage] = field(default_factory=dict)  # the pictures by their id
    # what was found in each arm; ``results`` is then their comparison, and ``pictures`` has a column ``arm``. Empty
    # for a run of one arm.
    arms: tuple[ArmReport, ...] = ()
    stopped: bool = False  # whether the run was stopped, and what was finished is measured
    stopped_after: str = ""  # how much was measured, where it was stopped after all pictures were drawn, in words
    stop_rule: str = ""  # that ended the run before all of its pictures were drawn, in words
    read_by: tuple[ReaderFacts, ...] = ()  # who read the pictures, with revisions
    created: float = 0.0  # when it was measured, in seconds since 1970; 0 where that is not on record


def pictures_of(report: StudyReport) -> pd.DataFrame:
    """The frame of scored pictures; InvalidInput if the report has none."""
    if report.pictures is None:
        raise InvalidInput("this report names no pictures that people's answers could be about")
    return report.pictures


@dataclass(frozen=True, kw_only=True)
class WatchedShare:
    """A share in the pictures so far, with an interval that may be looked at at any time."""

    name: str
    estimate: Estimate  # a share in [0, 1], or a score in [-1, 1]
    is_score: bool = False  # a mean of +1 and −1, which is shown from -100 to 100

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
    """Where a run is: pictures done and planned, seconds left (nan: unknown), a sentence; what can be seen of it."""

    message: str
    done: int = 0
    total: int = 0
    seconds_left: float = math.nan
    images: tuple[StoredImage, ...] = ()  # finished, in their order
    drawing: tuple[ImageRow, ...] = ()  # of all pictures in their order, while some of them are being drawn
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # small, of those that are at work, by id
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # ids of pictures by part; {} for one part
    shares: tuple[WatchedShare, ...] = ()  # in the pictures so far
    watches_shares: bool = False  # whether there will be some


def mapped(steps: Generator[S, None, R], change: Callable[[S], T]) -> Generator[T, None, R]:
    """The steps of a run, each changed; what the run returns is returned, and it ends with its reader."""
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            yield change(step)


Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
POINTS = "Points are pictures, bars their quartiles, circles their medians."  # caption of figures of distributions


def or_nan(value: float | None) -> float:
    """A number for a table: what is not known is nan."""
    return math.nan if value is None else value


def columns(name: str, estimate: Estimate | None, *, ends: str | None = None) -> dict[str, float]:
    """Value and interval as columns of a table, nan where there is none; ``ends`` names the interval's.

    >>> p = Estimate(value=0.5, low=0.4, high=0.6, n=9)
    >>> columns("P", p), list(columns("S", p, ends=""))
    ({'P': 0.5, 'P low': 0.4, 'P high': 0.6}, ['S', 'low', 'high'])
    """
    low, high = (f"{name if ends is None else ends} {end}".strip() for end in ("low", "high"))
    if estimate is None:
        return dict.fromkeys((name, low, high), math.nan)
    return {name: estimate.value, low: estimate.low, high: estimate.high}


def mark(name: str, estimate: Estimate, **more: Any) -> dict[str, Any]:
    """An estimate as a mark of a figure of intervals or bars."""
    return {"name": name, **columns("value", estimate, ends=""), **more}


def finding_mark(finding: Finding) -> dict[str, Any]:
    """A finding as a mark of a figure of intervals, with what was published and drawn."""
    return mark(finding.title, finding.estimate, published=finding.published, expected=finding.expected)


def point(x: Estimate | float, y: Estimate | float, **more: Any) -> dict[str, Any]:
    """A point of a scatter, with the intervals of what is an estimate."""
    row = dict(more)
    for axis, value in (("x", x), ("y", y)):
        if isinstance(value, Estimate):
            row |= {axis: value.value, f"{axis}low": value.low, f"{axis}high": value.high}
        else:
            row[axis] = value
    return row


def marks(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """What a figure reads, by its own names, from the columns of a table; those that it has.

    >>> marks(frame_of([{"target": "judge", "MCAS": 0.5}]), {"name": "target", "value": "MCAS", "low": "L"})
        name  value
    0  judge    0.5
    """
    there = {name: column for name, column in names.items() if column in rows}
    return rows[[*there.values()]].set_axis([*there], axis=1).reset_index(drop=True)


def intervals(settings: StudySettings) -> dict[str, Any]:
    """The confidence and the seed of a run's intervals, as measures take them."""
    return {"confidence": settings.confidence, "rng": settings.seed}


def finding(key: str, title: str, metric: str, estimate: Estimate, says: str = "", **more: Any) -> Finding:
    """A number that the study is about, in one plain sentence; ``more`` by the fields of ``Finding``."""
    return Finding(key=key, title=title, metric=metric, estimate=estimate, says=says, **more)


def table(key: str, title: str, rows: Rows, note: str = "") -> StudyTable:
    """A table of the report; ``note`` says how to read it."""
    return StudyTable(key=key, title=title, frame=frame_of(rows), note=note)


def figure(kind: FigureKind, key: str, title: str, rows: Rows, caption: str = "", **labels: Any) -> StudyFigure:
    """A figure of the report; ``labels`` as its kind reads them (:mod:`bias_core.study.figures`)."""
    return StudyFigure(key=key, title=title, kind=kind, data=frame_of(rows), labels=labels, caption=caption)


def finding_rows(findings: Sequence[Finding], n: str) -> list[dict[str, Any]]:
    """Findings as lines of a table, whose sampling units the column ``n`` counts."""
    return [
        {"": f.title, **columns("value", f.estimate, ends=""), n: f.estimate.n, "published": f.published}
        for f in findings
    ]


def listed(items: Sequence[str], between: str = ", ") -> str:
    """The first of some texts, and how many more there are.

    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    more = f" and {len(items) - _MOST_LISTED:,} more" if len(items) > _MOST_LISTED else ""
    return between.join(items[:_MOST_LISTED]) + more


def drawable(figures: Iterable[StudyFigure]) -> tuple[StudyFigure, ...]:
    """Those with something to show."""
    return tuple(figure for figure in figures if not figure.data.empty)


def lean(estimate: Estimate, above: str, below: str, neither: str, *, null: float = 0.0) -> str:
    """One of three sentences: the interval lies above the value of no bias, below it, or holds it."""
    if estimate.low > null:
        return above
    return below if estimate.high < null else neither


def frame_of(rows: Rows) -> pd.DataFrame:
    """Rows as a data frame."""
    import pandas as pd

    return rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))


MOST_ARMS = 8
_BETWEEN = "|"
_ESCAPED = r"\|"  # one that belongs to a prompt
ARM_WORDS = {name: one.key for name, one in settings_of(Arm).items()}
"""Fields of an arm and what they are called in ``--arm``."""
_LONGEST_NAME = 40
_REWRITING = {
    "": "prompts as they are", OFF: "prompts as they are", OWN: "rewritten by the model", FAIR: "rewritten to be fair",
}  # fmt: skip


def check_arms(settings: StudySettings) -> StudySettings:
    """Settings with named, comparable arms (else InvalidInput); a single arm becomes the settings of the run."""
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


def with_arms_of_options(settings: StudySettings, laid_out: tuple[Arm, ...]) -> StudySettings:
    """The settings with the arms that their options lay out; InvalidInput where they have others already."""
    unnamed = [replace(arm, name="") for arm in laid_out]
    if laid_out and any(replace(arm, name="") not in unnamed for arm in settings.arms):
        raise InvalidInput("languages are arms of their own: leave the other arms out, or write every arm's template")
    return settings if settings.arms else replace(settings, arms=laid_out)


def check_several(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Arms that can be compared with each other: there are at least two, none of which reads a file here."""
    if len(arms) < 2:
        raise InvalidInput(f"compare two to {MOST_ARMS} arms, got {len(arms)}")
    return arms


def arm_names(settings: StudySettings) -> tuple[str, ...]:
    """The arms' own names, or what makes each differ from the others.

    InvalidInput where two arms have the same name, or nothing tells them apart.

    >>> arms = Arm(condition="fair"), Arm(), Arm(name="mine", condition="extreme"), Arm(images="pics/old.zip")
    >>> arm_names(StudySettings(arms=arms))
    ('fair', 'published', 'mine', 'old.zip')
    """
    words = [_in_words(settings, arm) for arm in settings.arms]
    drawn = [values for values in words if not values["images"]]
    differs = [word for word in ARM_WORDS if len({values[word] for values in drawn}) > 1] or ["model", "condition"]
    names = tuple(
        arm.name.strip() or values["images"] or ", ".join(filter(None, (values[field] for field in differs)))
        for arm, values in zip(settings.arms, words, strict=True)
    )
    if len(set(names)) < len(names):
        raise InvalidInput(f"arms need names that differ, or settings that differ; got {', '.join(names)}")
    return names


def _in_words(settings: StudySettings, arm: Arm) -> dict[str, str]:
    """The settings of an arm in words, by field; of imported pictures their source alone."""
    one, words = arm_alone(settings, arm), dict.fromkeys(ARM_WORDS, "")
    if one.images:
        return words | {"images": re.split(r"[\\/]", one.images.rstrip("\\/"))[-1]}
    guidance, steps = one.guidance_scale, one.num_inference_steps
    negative, template = _short(one.negative_prompt), _short(arm.template or "")
    return words | {
        "model": _short(one.model),
        "condition": _short(one.condition),
        "template": template or "plain prompts",
        "negative_prompt": f"without “{negative}”" if negative else "no negative prompt",
        "guidance_scale": f"guidance {'default' if guidance is None else format(guidance, 'g')}",
        "num_inference_steps": f"steps {'default' if steps is None else steps}",
        "rewrite": _REWRITING.get(one.rewrite) or f"rewritten: {_short(one.rewrite)}",
        "size": f"size {one.size or 'default'}",
        "sampler": f"sampler {one.sampler or 'default'}",
    }


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"


def arm_text(arm: Arm) -> str:
    """An arm as ``--arm`` takes it.

    >>> arm_text(Arm(name="mine", condition="fair"))
    'name=mine|condition=fair'
    """
    return _BETWEEN.join(
        f"{ARM_WORDS[f.name]}={str(value).replace(_BETWEEN, _ESCAPED)}"
        for f in fields(Arm)
        if (value := getattr(arm, f.name)) is not None and not (f.name == "name" and not value)
    )


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """The arms that ``--arm`` asks for: ``key=value`` with ``|`` between them.

    InvalidInput quotes a part that is no ``key=value``, an unknown key, or a number that is none.

    >>> parse_arms(["condition=fair|guidance=2"])[0].guidance_scale
    2.0
    """
    return tuple(_parse_arm(str(text)) for text in texts)


def _parse_arm(text: str) -> Arm:
    declared = settings_of(Arm)
    given: dict[str, Any] = {}
    names = {word: name for name, word in ARM_WORDS.items()} | {name: name for name in ARM_WORDS}
    for part in filter(str.strip, re.split(r"(?<!\\)\|", text)):
        word, sign, value = (piece.strip() for piece in part.replace(_ESCAPED, _BETWEEN).partition("="))
        if not sign or word not in names:
            raise InvalidInput(
                f"write an arm as key=value|key=value with the keys {', '.join(ARM_WORDS.values())}; got {quoted(part)}"
            )
        one = declared[names[word]]
        given[one.name] = value if one.kind is str else one.read(value)
    return Arm(**given)
