"""T2IAT in the table of measures."""

from __future__ import annotations

import math

from bias_core.metrics import association, association_null
from bias_core.registry.card import Input, Metric

_ASSOCIATION_INPUTS = (
    Input(name="targets", kind="embeddings", means="neutral images of the concept"),
    Input(name="attributes_a", kind="embeddings", means="its images edited with attribute A"),
    Input(name="attributes_b", kind="embeddings", means="its images edited with attribute B"),
)
_ASSOCIATION_TEST_INPUTS = (
    Input(name="targets_x", kind="embeddings", means="neutral images of concept X"),
    Input(name="targets_y", kind="embeddings", means="neutral images of concept Y"),
    Input(name="x_attributes_a", kind="embeddings", means="images of X edited with attribute A"),
    Input(name="x_attributes_b", kind="embeddings", means="images of X edited with attribute B"),
    Input(name="y_attributes_a", kind="embeddings", means="images of Y edited with attribute A"),
    Input(name="y_attributes_b", kind="embeddings", means="images of Y edited with attribute B"),
)

METRICS = (
    Metric(
        key="association",
        name="Association",
        summary="How much closer an image is to the images of attribute A than to those of attribute B.",
        reference="wang2023t2iat",
        equation="Eq. 2",
        bounds=(-2.0, 2.0),
        null_value=0.0,
        higher_means="leans to A",
        inputs=_ASSOCIATION_INPUTS,
        limits="It is relative to these attribute images and this encoder, and an even mix need not read 0 "
        "where images of A and of B vary unequally: read the association beyond an even mix.",
        function=association.association,
    ),
    Metric(
        key="association_beyond_even_mix",
        name="Association beyond an even mix",
        summary="How much more images lean to A than an even mix of the images of A and of B would.",
        reference="wang2023t2iat",
        equation="Eq. 2, less that of an even mix",
        bounds=(-3.0, 3.0),
        null_value=0.0,
        higher_means="leans to A",
        inputs=_ASSOCIATION_INPUTS,
        limits="An even mix is one of these attribute images: it is neutral only where they are edited well.",
        function=association_null.association_beyond_even_mix,
        field="value",
    ),
    Metric(
        key="differential_association",
        name="Differential association S",
        summary="How much more the images of X lean to attribute A than the images of Y do.",
        reference="wang2023t2iat",
        equation="Eq. 1",
        bounds=(-4.0, 4.0),
        null_value=0.0,
        higher_means="X leans to A more than Y does",
        inputs=_ASSOCIATION_TEST_INPUTS,
        limits="0 says that X and Y lean alike, not that neither leans; with few prompts p cannot "
        "be small: three against three give 0.10 at best. Without the prompts of the edited "
        "images p holds for these attribute images alone.",
        function=association.association_test,
        field="score",
    ),
    Metric(
        key="association_effect_size",
        name="Effect size d",
        summary="Differential association in standard deviations of single images.",
        reference="wang2023t2iat",
        equation="Eq. 4",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="X leans to A more than Y does",
        inputs=_ASSOCIATION_TEST_INPUTS,
        limits="It grows as images of one prompt look more alike; compare at the same prompts and settings.",
        function=association.association_test,
        field="effect_size",
    ),
)
