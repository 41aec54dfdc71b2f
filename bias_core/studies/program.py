"""What a kind of study does: lay out the pictures, then measure them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bias_core.studies.explore_types import Progress
from bias_core.studies.study_data import ReadAhead, embed_ahead
from bias_core.studies.study_types import Design, Results, Shot, StudySettings, StudyTable

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.context import StudyServices
    from bias_core.studies.study_data import StudyData

Measuring = Generator[Progress, None, Results]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A kind of study.

    Attributes
    ----------
    shots : which pictures the design asks for under these settings.
    suits : raises where the pictures of a model, or those brought along, cannot be used for this; asked
        before anything is drawn, also where nothing will be measured yet.
    ready : raises where a model that will be needed is missing; asked before anything is drawn.
    measure : a generator that yields where it is and returns the results; ``data`` holds the pictures.
    needs_reader : whether it reads pictures with the encoder of the settings.
    ahead : reads finished pictures while the next are drawn.
    rescore : the results from labelled people alone, for labels that were corrected; None where the study
        has none. The tables are those of the raters.
    """

    shots: Callable[[Design, StudySettings], list[Shot]]
    measure: Callable[[Design, StudySettings, StudyData], Measuring]
    suits: Callable[[StudySettings, StudyServices], None] = lambda _settings, _services: None
    ready: Callable[[StudySettings, StudyServices], None] = lambda _settings, _services: None
    needs_reader: bool = True
    ahead: ReadAhead = embed_ahead
    rescore: Callable[[Design, StudySettings, pd.DataFrame, Sequence[StudyTable]], Results] | None = None
