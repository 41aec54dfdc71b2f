"""Internal bias (MCAS, diffusion bias, bias amplification) in the table of measures."""

from __future__ import annotations

import math

from bias_core.metrics import composite_association
from bias_core.registry.card import Input, Metric

_II = Input(name="image_image", kind="score", means="II: lean of the pictures by pictures of A and B")
_ITP = Input(name="image_prompt", kind="score", means="ITP: lean of the prompt by pictures of A and B")
_IT = Input(name="image_text", kind="score", means="IT: lean of the pictures by words of A and B")
_TT = Input(name="text_text", kind="score", means="TT: lean of the prompt by words of A and B")

METRICS = (
    Metric(
        key="composite_association",
        name="Composite association MCAS",
        summary="How much a concept leans to A rather than B, as pictures and as text, all in one sum.",
        reference="mandal2024internal",
        equation="Eq. 3",
        bounds=(-8.0, 8.0),
        null_value=0.0,
        higher_means="leans to A",
        inputs=(
            Input(name="image_targets", kind="embeddings", means="pictures of the concept"),
            Input(name="text_targets", kind="embeddings", means="the prompts they were drawn from"),
            Input(name="image_attributes_a", kind="embeddings", means="pictures of attribute A"),
            Input(name="image_attributes_b", kind="embeddings", means="pictures of attribute B"),
            Input(name="text_attributes_a", kind="embeddings", means="words of attribute A"),
            Input(name="text_attributes_b", kind="embeddings", means="words of attribute B"),
        ),
        limits="Opposite leanings of pictures and texts cancel; the encoder has leanings of its own.",
        function=composite_association.composite_association,
        field="mcas",
    ),
    Metric(
        key="diffusion_bias",
        name="Diffusion bias δ",
        summary="How much more, or less, strongly the pictures of a concept lean than its texts do.",
        reference="mandal2024internal",
        equation="Eq. 4",
        bounds=(0.0, 2.0),
        null_value=0.0,
        higher_means="drawing changes the strength of the leaning more",
        inputs=(_II, _TT),
        limits="It cannot see a change of direction, and on the calibration world its interval never "
        "reached 0: read the signed difference beside it.",
        function=composite_association.diffusion_bias,
    ),
    Metric(
        key="signed_lean_difference",
        name="Signed difference II − TT",
        summary="How much more the pictures of a concept lean to A than its texts do.",
        reference="mandal2024internal",
        equation="Eq. 4",
        bounds=(-4.0, 4.0),
        null_value=0.0,
        higher_means="drawing moves the concept towards A",
        inputs=(_II, _TT),
        limits="Cosines among pictures and among texts have different scales: compare within one encoder.",
        function=composite_association.signed_lean_difference,
    ),
    Metric(
        key="bias_amplification",
        name="Bias amplification α",
        summary="How many times as strongly the pictures of a concept lean as its texts do.",
        reference="mandal2024internal",
        equation="Eq. 5",
        bounds=(0.0, math.inf),
        null_value=1.0,
        higher_means="more amplified; below 1: weakened",
        inputs=(_ITP, _IT, _TT),
        limits="It explodes where the texts hardly lean, and is not given there; the direction is lost.",
        function=composite_association.bias_amplification,
    ),
)
