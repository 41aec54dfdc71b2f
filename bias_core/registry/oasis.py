"""OASIS in the table of measures."""

from __future__ import annotations

import math

from bias_core.metrics import alignment, similarity, stereotype
from bias_core.registry.card import Input, Metric

_SENTENCES = (
    Input(
        name="similarity_positive",
        kind="similarities",
        means="cosine of each image to the sentence for presence",
        paired="similarity_negative",
    ),
    Input(
        name="similarity_negative",
        kind="similarities",
        means="cosine of each image to the sentence for absence",
        paired="similarity_positive",
    ),
)
_RATES = (
    Input(name="prevalence", kind="probability", means="P, share of images that show the attribute"),
    Input(name="reference", kind="probability", means="P*, its real-world rate, with a source"),
)
_DIRECTED = (
    Input(name="image_embeddings", kind="embeddings", means="images of the concept"),
    Input(name="direction", kind="direction", means="direction of the attribute"),
)

METRICS = (
    Metric(
        key="attribute_prevalence",
        name="Attribute prevalence P",
        summary="The share of the images in which the attribute is seen.",
        reference="dehdashtian2025oasis",
        equation="Eq. 5",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="seen in more images",
        inputs=_SENTENCES,
        limits="The reader errs: use the corrected prevalence where its errors are known.",
        function=stereotype.attribute_prevalence,
    ),
    Metric(
        key="stereotype_score",
        name="Stereotype score Ψ",
        summary="How far the attribute is over-represented against its real-world rate.",
        reference="dehdashtian2025oasis",
        equation="Eq. 3",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more over-represented",
        inputs=_RATES,
        limits="0 includes under-representation; it is only as good as the real-world rate.",
        function=stereotype.stereotype_score,
    ),
    Metric(
        key="signed_difference",
        name="Signed difference P − P*",
        summary="How far the attribute is over- or under-represented against its real-world rate.",
        reference="dehdashtian2025oasis",
        equation="Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="over-represented; negative: under-represented",
        inputs=_RATES,
        limits="It is only as good as the real-world rate.",
        function=stereotype.signed_difference,
    ),
    Metric(
        key="weighted_alignment_score",
        name="Weighted alignment score WALS",
        summary="How well the main directions of variety of the images align with the attribute.",
        reference="dehdashtian2025oasis",
        equation="Eq. 7",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more of the variety lies along the attribute",
        inputs=_DIRECTED,
        limits="It moves with the number of images and components: compare at equal n; with 32 images of the "
        "calibration world its 95 % intervals held the value of many images in only 69 % of the runs.",
        function=alignment.weighted_alignment_score,
    ),
    Metric(
        key="spread_along",
        name="Spread along the attribute",
        summary="Standard deviation of the images along the attribute, in units of cosine.",
        reference="dehdashtian2025oasis",
        equation="3.2",
        bounds=(0.0, math.sqrt(2.0)),
        null_value=None,
        higher_means="more variety along the attribute",
        inputs=_DIRECTED,
        limits="Noise of the encoder counts as variety: compare within one encoder.",
        function=alignment.spread_along,
    ),
    Metric(
        key="mean_similarity",
        name="Mean cosine",
        summary="How close the images are to a text, or to the images of a set.",
        reference="dehdashtian2025oasis",
        equation="Eq. 8",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="closer",
        inputs=(
            Input(
                name="similarities",
                kind="similarities",
                means="cosine of each image to the text, or its mean cosine to the set",
            ),
        ),
        limits="Its scale is the encoder's own: compare texts and sets within one encoder only.",
        function=similarity.mean_similarity,
    ),
)
