"""PST: what its studies share, from labelled people to a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bias_core.studies.kit.data import nothing_ahead
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.types import Results
from bias_core.studies.paired.arms import compare_pairs
from bias_core.studies.paired.labelling import (
    check_labelling,
    keep_labels,
    label_people,
    labelled_only,
    labeller_ready,
    labelling_readers,
    people_of,
)
from bias_core.studies.paired.scores import (
    agreement,
    coverage_table,
    labelled_by,
    labels_table,
    raters_table,
    runs_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.setting_fields import Options
    from bias_core.studies.kit.types import Design, Shot, StudySettings, StudyTable


@dataclass(frozen=True, kw_only=True)
class PairedStudy:
    """What is its own in each study of the paired stereotype test; all else is shared.

    Attributes
    ----------
    shots : the pictures, once the labelling is known to be possible.
    identities : ``stereotyped_gender`` and further columns, by identity.
    report : the study's own findings, tables, figures and notes, from labelled people.
    options : what may be asked.
    runs : whose published runs stand beside those of the report (Table 13); "" where there are none.
    """

    shots: Callable[[Design, StudySettings], list[Shot]]
    identities: Callable[[Design, StudySettings], pd.DataFrame]
    report: Callable[[Design, StudySettings, pd.DataFrame], Results]
    options: type[Options]
    runs: str = ""

    def program(self) -> Program:
        """Draw, label, and report."""
        return Program(
            takes_labels=True,
            shots=self.checked_shots,
            measure=self.measure,
            ready=labeller_ready,
            readers=labelling_readers,
            options=self.options,
            ahead=nothing_ahead,
            rescore=self.score,
            compare=compare_pairs,
        )

    def checked_shots(self, design: Design, settings: StudySettings) -> list[Shot]:
        """The pictures; refuses options and labels that cannot be used."""
        check_labelling(settings)
        return self.shots(design, settings)

    def measure(self, design: Design, settings: StudySettings, data: StudyData) -> Measuring:
        """Label everybody, keep the labels beside their pictures, and score them."""
        asked = people_of(data.frame, self.identities(design, settings))
        people = yield from label_people(asked, design, settings, data)
        keep_labels(people, data)
        return self.score(design, settings, people, raters_table(asked, settings))

    def score(
        self, design: Design, settings: StudySettings, asked: pd.DataFrame, raters: Sequence[StudyTable]
    ) -> Results:
        """All of it from labelled people."""
        people = labelled_only(asked)
        own = self.report(design, settings, people)
        kappas, agreements = agreement(people, settings)
        runs = [runs_table(people, settings, design.data["overall"][self.runs])] if self.runs else []
        shared = (coverage_table(people, settings), *agreements, *raters, *runs, labels_table(asked))
        return Results(
            findings=(*own.findings, *kappas),
            tables=(*own.tables, *shared),
            figures=own.figures,
            notes=(*labelled_by(people, settings, len(asked)), *own.notes),
        )
