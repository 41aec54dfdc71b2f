"""PST: the paired stereotype test.

``study`` draws and scores pairs, ``study_swapped`` pairs in both orders; ``labelling`` says how people look, and
``report`` makes headlines, scores and tables. The tab is ``tab``. Below stands the hook of ``bias_core/beyond``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bias_core.study.types import Results, Sample, StudySettings

if TYPE_CHECKING:
    import pandas as pd

MakeSample = Callable[[Sequence["pd.DataFrame"]], Sample | None]
"""Makes of people what arms are compared by."""


class PeopleExtension:
    """Something that paired stereotype tests report in addition, in a module ``bias_core/beyond/*/extension.py``."""

    def scores(self, people: "pd.DataFrame", settings: StudySettings, sample: MakeSample) -> Results:
        """Return further results of labelled people."""
        return Results()
