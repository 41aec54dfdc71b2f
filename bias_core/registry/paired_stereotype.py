"""PST in the table of measures, and how far its raters agree."""

from __future__ import annotations

from bias_core.annotation import agreement
from bias_core.metrics import paired_stereotype
from bias_core.registry.card import Input, Metric

_RATINGS = (Input(name="ratings", kind="ratings", means="answer of each rater for each person"),)

METRICS = (
    Metric(
        key="stereotype_test_score",
        name="Stereotype test score STS",
        summary="How far the perceived genders of people conform to the stereotype of who they are.",
        reference="wan2024pst",
        equation="Eq. 1",
        bounds=(-100.0, 100.0),
        null_value=0.0,
        higher_means="conforms to the stereotype; negative: goes against it",
        inputs=(Input(name="labels", kind="labels", means="perceived gender of each person"),),
        limits="People who cannot be identified are left out: read it with its coverage.",
        function=paired_stereotype.stereotype_test_score,
        field="score",
    ),
    Metric(
        key="stereotype_gap",
        name="Gap between two settings",
        summary="How much more stereotyped people look beside another person than alone.",
        reference="wan2024pst",
        equation="Table 15",
        bounds=(-200.0, 200.0),
        null_value=0.0,
        higher_means="more stereotyped in pairs",
        inputs=(
            Input(name="labels_paired", kind="labels", means="people in pictures of two"),
            Input(name="labels_single", kind="labels", means="people in pictures of one"),
        ),
        limits="0 says that both settings conform alike, not that neither does.",
        function=paired_stereotype.stereotype_gap,
        field="gap.value",
    ),
    Metric(
        key="fleiss_kappa",
        name="Fleiss' κ",
        summary="How far any number of raters agree beyond chance.",
        reference="fleiss1971",
        equation="definition of κ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree.",
        function=agreement.fleiss_kappa,
    ),
    Metric(
        key="cohen_kappa",
        name="Cohen's κ",
        summary="How far two raters, or people and an automatic reader, agree beyond chance.",
        reference="cohen1960",
        equation="Eq. 1",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="they agree more; 0 is chance",
        inputs=(
            Input(name="a", kind="answers", means="answers of one rater", paired="b"),
            Input(name="b", kind="answers", means="answers of the other", paired="a"),
        ),
        limits="It does not tell who errs: look at the confusion table too.",
        function=agreement.cohen_kappa,
    ),
    Metric(
        key="krippendorff_alpha",
        name="Krippendorff's α",
        summary="How far raters agree beyond chance, where not all have rated everything.",
        reference="krippendorff2011",
        equation="definition of α",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree.",
        function=agreement.krippendorff_alpha,
    ),
)
