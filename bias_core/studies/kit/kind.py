"""What a kind of study does: lay out the pictures, then measure them; and the plan of one run of it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from bias_core.store.manifests import Manifest
from bias_core.studies.kit.data import ReadAhead, StudyData, embed_ahead
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.rows import Rows
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import Options
from bias_core.studies.kit.types import ArmReport, Design, Results, Shot, StudyReport, StudySettings, StudyTable

Measuring = Generator[Progress, None, Results]


def encoder_of(settings: StudySettings) -> tuple[Reader, ...]:
    """The encoder of the settings, which reads the pictures of most studies."""
    return (Reader(role="encoder", name=settings.encoder),)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kind of study."""

    shots: Callable[[Design, StudySettings], list[Shot]]  # which pictures the design asks for under these settings
    # a generator that yields where it is and returns the results; ``data`` holds the pictures
    measure: Callable[[Design, StudySettings, StudyData], Measuring]
    # raises where the pictures of a model, or those brought along, cannot be used for this; asked before anything is
    # drawn, also where nothing will be measured yet
    suits: Callable[[StudySettings, StudyServices], None] = lambda _settings, _services: None
    # raises where a model that will be needed is missing; asked before anything is drawn
    ready: Callable[[StudySettings, StudyServices], None] = lambda _settings, _services: None
    readers: Callable[[StudySettings], Sequence[Reader]] = encoder_of  # who reads pictures under these settings
    options: type[Options] = Options  # what may be asked of this kind; a design may give other defaults
    # pictures that measuring draws beside those of ``shots``, at most
    n_later: Callable[[Design, StudySettings], int] = lambda _design, _settings: 0
    ahead: ReadAhead = embed_ahead  # reads finished pictures while the next are drawn
    takes_labels: bool = False  # whether people's labels (``StudySettings.labels``) change the scores
    shows_anything: bool = False  # whether its pictures may show no people at all
    # the results from labelled people alone, for labels that were corrected; None where the study has none. The
    # tables are those of the raters.
    rescore: Callable[[Design, StudySettings, pd.DataFrame, Sequence[StudyTable]], Results] | None = None
    # the paper's own tables and figures over the arms of a run, beside those that every study has; None where it has
    # none
    compare: Callable[[Design, StudySettings, Sequence[ArmReport]], Results] | None = None
    # of a run with these settings
    title: Callable[[Design, StudySettings], str] = lambda design, _settings: design.title
    # what a report of this kind says as JSON values beside what every report says
    values: Callable[[StudyReport], Mapping[str, Any]] = lambda _report: {}
    measures_when_stopped: bool = False  # whether what is finished when a run is stopped is measured
    # the words of its own command line that stand for options and model; None where it is started by ``study run`` as
    # the others
    command: Callable[[StudySettings], Sequence[str]] | None = None
    # reads the settings of runs that older versions kept as another study, by that study's name
    old_settings: Mapping[str, Callable[[Mapping[str, Any]], StudySettings]] = field(default_factory=dict)
    old_report: Callable[[Any], StudyReport] | None = None  # reads the reports of these, whose classes are no more


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study would draw, found out without drawing."""

    design: Design
    settings: StudySettings  # with the design's options filled in
    program: Program
    rows: Rows  # where the pictures come from, and which; of several arms, those of the first
    shots: list[Shot]
    manifest: Manifest  # with one row per picture; not yet saved
    warning: str = ""  # what the report must say first, "" for nothing
    # the plans of several arms, whose manifests are parts of this one; empty for a run of one arm
    arms: "tuple[StudyPlan, ...]" = ()

    @property
    def each(self) -> "tuple[StudyPlan, ...]":
        """The plan of every arm; of a run of one arm, this one."""
        return self.arms or (self,)
