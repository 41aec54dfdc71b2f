"""A study: the pictures it draws, the classifiers that read them, and how it measures.

A new study is a subclass of :class:`Study` in its own folder, with a design next to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bias_core.study.classifiers import Reader
from bias_core.study.label_tasks import YES_NO
from bias_core.study.types import (
    AGAINST_P_STAR,
    Arm,
    ArmReport,
    Design,
    Finding,
    Progress,
    Results,
    Shot,
    StudyReport,
    StudySettings,
)
from bias_core.values import Options

if TYPE_CHECKING:  # the command line's help does without pandas
    import pandas as pd

    from bias_core.report.stop_rules import ShareValues
    from bias_core.run.study_run import Run, Steps
    from bias_core.study.answer_fit import Questions
    from bias_core.study_services import StudyServices
    from bias_core.types import Attribute

Measuring = Generator[Progress, None, Results]
_PER_CENT = 100  # scales are given in whole percent


def encoders_and_judge(settings: StudySettings) -> tuple[Reader, ...]:
    """Return the encoders and the judge of the settings, which read the pictures in most studies."""
    encoders = tuple(Reader(role="encoder", name=name) for name in (settings.encoder, *settings.further_encoders))
    return (*encoders, *get_judge_reader(settings))


def get_judge_reader(settings: StudySettings) -> tuple[Reader, ...]:
    """Return the judge of the settings; () if they name none."""
    return (Reader(role="judge", name=settings.judge),) if settings.judge else ()


@dataclass(frozen=True, kw_only=True)
class RunSize:
    """The size of a run beyond its shots."""

    n_later: int = 0  # most pictures drawn while measuring
    note: str = ""  # limits of this size, in words


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """A study's own words and values for a report."""

    made_of: str = ""  # groups that add up to the number of pictures, in words
    values: Mapping[str, Any] = field(default_factory=dict)  # added to the report's JSON


class Study(ABC):
    """A design, and how pictures of its kind are drawn and measured.

    A study needs only ``shots`` and ``measure``; the other methods have defaults. The settings that methods take are
    complete: protocol, defaults and options are filled in.

    Attributes
    ----------
    kind : the ``kind`` of the designs that this class runs.
    options : the options that a design or a user may set.
    judged : subject of a judge's questions: "attributes" of pictures, which of two sentences is true of "people", the
        "things" that prompts name, or "" for none.
    shows_anything : True if its pictures may show no people.
    reads_ahead : True if its encoders and captioner read finished pictures while the next are drawn.
    watches_shares : True if :meth:`watch` reads shares while pictures are drawn.
    fewest_when_stopped : the fewest finished pictures for which a stopped run is measured; None: never.
    """

    kind: ClassVar[str]
    options: ClassVar[type[Options]] = Options
    judged: ClassVar[Literal["", "attributes", "people", "things"]] = ""
    shows_anything: ClassVar[bool] = False
    reads_ahead: ClassVar[bool] = True
    watches_shares: ClassVar[bool] = False
    fewest_when_stopped: ClassVar[int | None] = None

    def __init__(self, design: Design) -> None:
        self.design = design

    @abstractmethod
    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures to draw."""

    @abstractmethod
    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Yield the progress of measuring; return the results. ``data`` holds the pictures."""

    # Before a run

    def get_run_title(self, settings: StudySettings) -> str:
        """Return the title of a run."""
        return self.design.title

    def get_command(self, settings: StudySettings) -> Sequence[str]:
        """Return the words of this study's own command; () if ``study run`` starts it."""
        return ()

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return words for the ``{name}`` in the design's texts that depend on the options.

        "wording" says how the prompts differ from the paper's; without it they are the paper's.
        """
        return {}

    def get_concept_prompt(self, settings: StudySettings) -> str:
        """Return the prompt of the one concept that all pictures without prompts are taken to show; "" if none is."""
        return ""

    def count_taken(self, settings: StudySettings, frame: pd.DataFrame) -> Mapping[str, Collection[int]]:
        """Return how many of its pictures a run really took for each option that asks for a number, by its name."""
        return {}

    def run_size(self, settings: StudySettings) -> RunSize:
        """Return how many pictures are drawn later, and the limits of this size."""
        return RunSize()

    def arms(self, settings: StudySettings) -> tuple[Arm, ...]:
        """Return the arms that the options ask for; () if they ask for none."""
        return ()

    def settled(self, settings: StudySettings, services: StudyServices) -> StudySettings:
        """Return the settings with the values that depend on the model."""
        return settings

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return the classifiers and encoders that read the pictures."""
        return encoders_and_judge(settings)

    def check_given(self, settings: StudySettings) -> None:  # noqa: B027
        """Raise InvalidInput for options that cannot be used together.

        It is called as soon as the settings are complete, before models are looked up.
        """

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:  # noqa: B027
        """Raise InvalidInput or ModelUnavailable if this cannot run; called before anything is drawn.

        ``draws_to_measure``: True if pictures will be drawn and measured, so that every model for it must work; a run
        whose pictures are stored loses nothing without one.
        """

    @property
    def takes_labels(self) -> bool:
        """True if this study scores people's answers, so that a file of them may be given with a run."""
        return type(self).correct is not Study.correct

    def has_readings(self, settings: StudySettings) -> bool:
        """Return True if a classifier answers questions about single pictures, so that people can correct its answers.

        :func:`bias_core.study.classifier_answers.list_readings` returns these answers.
        """
        return any(self.attributes(settings).values())

    def questions(self, settings: StudySettings, frame: pd.DataFrame, results: Results | None = None) -> Questions:
        """Return what people can be asked about each picture of one arm; by default its attributes.

        ``frame`` has the planned pictures, or with ``results`` those of a finished run.
        """
        attributes = self.attributes_for_prompts(settings, frame["prompt"])
        questions: dict[str, dict[str, Collection[str]]] = {}
        for image_id, group in zip(frame["image_id"], frame["group"], strict=True):
            of_group = {attribute.name: YES_NO for attribute in attributes.get(group, ())}
            questions.setdefault(image_id, {}).update(of_group)
        return questions

    # During a run

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        """Read the shares in finished pictures, one row of the frame each, for a stop rule."""
        raise NotImplementedError

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        """Return the attributes with a measured share, by group of pictures."""
        return {}

    def attributes_for_prompts(
        self, settings: StudySettings, prompts: Iterable[str]
    ) -> Mapping[str, Sequence[Attribute]]:
        """Return the attributes for pictures of these prompts, which may change their real-world rates."""
        return self.attributes(settings)

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the paper's tables and figures over several arms."""
        return Results()

    # After a run

    def correct(self, report: StudyReport, answers: pd.DataFrame, services: StudyServices) -> StudyReport | None:
        """Return a report of one arm corrected by people's answers.

        None if the study has no way of its own, so that the answers correct the classifier's shares.
        ``answers`` is a frame that fits the run (:func:`bias_core.study.answer_fit.fit_answers`).
        """
        return None

    def family(self, finding: Finding) -> str | None:
        """Return the family of tests in which the claim on a finding is decided; None if nothing is claimed of it.

        A family is what the headline chooses among. By default that is every number with a null value, except those
        compared with a P*, of which only a study knows the source.
        """
        return None if finding.metric in AGAINST_P_STAR else "numbers"

    def headline(self, report: StudyReport) -> str:
        """Return the headline of a report of one arm, in one or two sentences; "" for the default headline.

        It does not compare with an assumed rate.
        """
        return ""

    def corrected_headline(self, report: StudyReport) -> str:
        """Return the headline of a report whose shares people's labels correct; "" for the default one."""
        return ""

    def arms_headline(self, report: StudyReport) -> str:
        """Return the headline of a report of several arms; "" for the default headline."""
        return ""

    def facts(self, report: StudyReport) -> ReportFacts:
        """Return the study's own words and values for a report."""
        return ReportFacts()

    def enlarged(
        self, settings: StudySettings, times: float, cells: Collection[str] = ()
    ) -> tuple[Study, StudySettings]:
        """Return the study and settings that draw ``times`` as many pictures, of these cells only if it can."""
        design, enlarged_settings = enlarge_design(self.design, settings, times)
        return type(self)(design), enlarged_settings

    def with_baseline(self, settings: StudySettings) -> tuple[StudySettings, str] | None:
        """Return the settings with a baseline, and its prompt in words; None if there is one, or cannot be one."""
        return None


def enlarge_design(design: Design, settings: StudySettings, times: float) -> tuple[Design, StudySettings]:
    """Return a design and settings with about so many times the pictures: first a larger scale, then more per prompt.

    >>> from bias_core.study.design import find_design
    >>> design, settings = enlarge_design(find_design("pst-power"), StudySettings(scale=0.5), 4.0)
    >>> design.images_per_prompt / find_design("pst-power").images_per_prompt, settings.scale
    (2.0, 1.0)
    """
    scale = min(1.0, math.ceil(_PER_CENT * settings.scale * times) / _PER_CENT)
    remaining_factor = settings.scale * times / scale
    if remaining_factor > 1:
        design = replace(design, images_per_prompt=math.ceil(round(design.images_per_prompt * remaining_factor, 6)))
    return design, replace(settings, scale=scale)
