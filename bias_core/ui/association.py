"""The Association tab: T2IAT's tests, occupations, amplification and human comparison."""

from __future__ import annotations

from typing import ClassVar

from bias_core.ui.study_form import Preset
from bias_core.ui.study_tab import StudyTab


class AssociationTab(StudyTab):
    """Which of two concepts is drawn more like which of two attributes."""

    key: ClassVar = "association"
    title: ClassVar = "Association"
    question: ClassVar = "Does the model draw one concept more like one attribute than another concept?"
    caution: ClassVar = (
        "A difference says how the pictures of two concepts differ for this reader. It does not say which "
        "of the two is drawn wrongly, nor that the reader itself has no leanings."
    )
    studies: ClassVar = ("t2iat-tests", "t2iat-occupations", "t2iat-amplification", "t2iat-human")
    presets: ClassVar = (
        Preset(
            name="Science and arts, male and female",
            study="t2iat-tests",
            says="One of the eight tests of T2IAT, at a tenth of its size",
            settings={"scale": 0.1, "options": {"tests": ["science_arts"]}},
        ),
    )
