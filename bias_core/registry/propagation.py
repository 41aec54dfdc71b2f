"""OASIS's look inside the generation in the table of measures."""

from __future__ import annotations

from bias_core.metrics import propagation
from bias_core.registry.card import Input, Metric

METRICS = (
    Metric(
        key="stereotype_propagation_index",
        name="Stereotype propagation index SPI",
        summary="How much a denoising step moves the picture towards an attribute.",
        reference="dehdashtian2025oasis",
        equation="Eq. 11",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="the attribute is being added; negative: removed",
        inputs=(
            Input(name="velocity", kind="velocity", means="velocity of the prompt at x_t"),
            Input(name="velocity_positive", kind="velocity", means="that of the sentence for presence"),
            Input(name="velocity_negative", kind="velocity", means="that of the sentence for absence"),
        ),
        limits="It is a direction, not an amount, and is relative to the wording of both sentences.",
        function=propagation.stereotype_propagation_index,
    ),
)
