"""The table of measures: what each is called, where it comes from, and how to read it.

The methods tab, the documentation and the common tests all read ``METRICS``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bias_core.errors import InvalidInput
from bias_core.metrics import alignment, association, stereotype

if TYPE_CHECKING:
    from collections.abc import Callable

InputKind = Literal["embeddings", "direction", "similarities", "probability"]


@dataclass(frozen=True, kw_only=True)
class Input:
    """One array or number that a measure takes.

    Attributes
    ----------
    name : of the parameter.
    kind : embeddings ``(n, d)``, direction ``(d,)``, similarities ``(n,)`` in [-1, 1], probability in [0, 1].
    means : what it holds, in words.
    paired : name of the input that has the same n, entry by entry; "" where n is free.
    """

    name: str
    kind: InputKind
    means: str
    paired: str = ""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One measure, as a person reads about it and as a test drives it.

    Attributes
    ----------
    key, name : identifier and display name.
    summary : one sentence: what it tells.
    reference, equation : key in ``refs.bib`` and number there.
    bounds : smallest and largest value; infinite where there is none.
    null_value : what "no bias" reads; None where no value means that.
    higher_means : reading of a larger value.
    inputs : in the order of the function's parameters.
    limits : one sentence on what it cannot tell.
    function : computes it.
    field : attribute of the function's result that holds it; "" where the result is the value (or values).
    """

    key: str
    name: str
    summary: str
    reference: str
    equation: str
    bounds: tuple[float, float]
    null_value: float | None
    higher_means: str
    inputs: tuple[Input, ...]
    limits: str
    function: Callable[..., Any]
    field: str = ""

    def value(self, *inputs: Any, **options: Any) -> Any:
        """The measure itself, without what the function reports beside it."""
        result = self.function(*inputs, **options)
        return getattr(result, self.field) if self.field else result


_ASSOCIATION_TEST_INPUTS = (
    Input(name="targets_x", kind="embeddings", means="neutral images of concept X"),
    Input(name="targets_y", kind="embeddings", means="neutral images of concept Y"),
    Input(name="x_attributes_a", kind="embeddings", means="images of X edited with attribute A"),
    Input(name="x_attributes_b", kind="embeddings", means="images of X edited with attribute B"),
    Input(name="y_attributes_a", kind="embeddings", means="images of Y edited with attribute A"),
    Input(name="y_attributes_b", kind="embeddings", means="images of Y edited with attribute B"),
)
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

_ALL = (
    Metric(
        key="association",
        name="Association",
        summary="How much closer an image is to the images of attribute A than to those of attribute B.",
        reference="wang2023t2iat",
        equation="Eq. 2",
        bounds=(-2.0, 2.0),
        null_value=0.0,
        higher_means="leans to A",
        inputs=(
            Input(name="targets", kind="embeddings", means="neutral images of the concept"),
            Input(name="attributes_a", kind="embeddings", means="its images edited with attribute A"),
            Input(name="attributes_b", kind="embeddings", means="its images edited with attribute B"),
        ),
        limits="It is relative to these attribute images and this encoder, which has leanings of its own.",
        function=association.association,
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
        limits="0 says that X and Y lean alike, not that neither leans; p holds for these attribute images.",
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
        limits="It moves with the number of images and components: compare at equal n.",
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
)

METRICS: dict[str, Metric] = {metric.key: metric for metric in _ALL}


def metric(key: str) -> Metric:
    """The line of the table with this key.

    Raises
    ------
    InvalidInput
        If there is none; the message lists the keys.

    Examples
    --------
    >>> metric("stereotype_score").null_value
    0.0
    """
    if key not in METRICS:
        raise InvalidInput(f"No measure is called {key!r}; there are {', '.join(METRICS)}.")
    return METRICS[key]
