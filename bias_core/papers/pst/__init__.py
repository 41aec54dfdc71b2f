"""PST: the paired stereotype test.

``study`` draws and scores pairs, ``study_swapped`` pairs in both orders; ``labelling`` labels people, and ``report``
makes headlines, scores and tables. The tab is ``tab``. Below is the hook of ``bias_core/beyond``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bias_core.study.types import Results, Sample, StudySettings

if TYPE_CHECKING:
    import pandas as pd

MakeSample = Callable[[Sequence["pd.DataFrame"]], Sample | None]
"""Turns people into a sample for comparing arms."""


class PeopleExtension:
    """Additional results of paired stereotype tests, in a module ``bias_core/beyond/*/extension.py``."""

    def scores(self, people: "pd.DataFrame", settings: StudySettings, sample: MakeSample) -> Results:
        return Results()
