"""Differences on the same seeds in the table of measures."""

from __future__ import annotations

import math

from bias_core.metrics import paired_prevalence, paired_variety
from bias_core.registry.card import Input, Metric

_MARGINS = (
    Input(
        name="margins_first",
        kind="similarities",
        means="cosine to the sentence for presence minus that for absence, of each image of the first set",
        paired="margins_second",
    ),
    Input(
        name="margins_second",
        kind="similarities",
        means="the same of the second set, seed by seed",
        paired="margins_first",
    ),
)
_SETS = (
    Input(name="first", kind="embeddings", means="images of the first set"),
    Input(name="second", kind="embeddings", means="images of the second set"),
    Input(name="direction", kind="direction", means="direction of the attribute"),
)

METRICS = (
    Metric(
        key="prevalence_difference",
        name="Difference of prevalence P",
        summary="How much more often the attribute is seen in the second set, on the same seeds.",
        reference="mcnemar1947",
        equation="difference of P on pairs",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="seen more often in the second set",
        inputs=_MARGINS,
        limits="It says that the two sets differ, not which of them is right.",
        function=paired_prevalence.prevalence_difference,
    ),
    Metric(
        key="stereotype_difference",
        name="Difference of stereotype score Ψ",
        summary="How much more over-represented the attribute is in the second set, on the same seeds.",
        reference="dehdashtian2025oasis",
        equation="difference of Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more over-represented in the second set",
        inputs=(
            *_MARGINS,
            Input(name="reference", kind="probability", means="P*, the real-world rate, with a source"),
        ),
        limits="Below P* nothing counts: it is 0 where neither set over-represents the attribute.",
        function=paired_prevalence.stereotype_difference,
    ),
    Metric(
        key="alignment_difference",
        name="Difference of WALS",
        summary="How much more of the variety of the second set lies along the attribute.",
        reference="dehdashtian2025oasis",
        equation="difference of Eq. 7",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the second set's variety lies along the attribute",
        inputs=_SETS,
        limits="A share of the variety: it also moves when the sets vary more or less in other ways.",
        function=paired_variety.alignment_difference,
    ),
    Metric(
        key="spread_difference",
        name="Difference of spread",
        summary="How much wider the second set is spread along the attribute, in units of cosine.",
        reference="dehdashtian2025oasis",
        equation="difference of 3.2",
        bounds=(-math.sqrt(2.0), math.sqrt(2.0)),
        null_value=0.0,
        higher_means="the second set is wider",
        inputs=_SETS,
        limits="Noise of the encoder counts as variety, and may differ between two models.",
        function=paired_variety.spread_difference,
    ),
    Metric(
        key="picture_change",
        name="Change of the picture of a seed",
        summary="How far the two images of a seed lie apart for the reader, one minus their cosine.",
        reference="dehdashtian2025oasis",
        equation="1 - cosine",
        bounds=(0.0, 2.0),
        null_value=None,
        higher_means="the pictures changed more",
        inputs=(Input(name="similarities", kind="similarities", means="cosine of the two images of a seed"),),
        limits="Its scale is the encoder's own: compare with how far images of different seeds lie apart.",
        function=paired_variety.picture_change,
    ),
)
