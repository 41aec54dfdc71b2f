"""One line of the table of measures: what a measure is called, where it comes from, how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

InputKind = Literal[
    "embeddings",
    "direction",
    "similarities",
    "probability",
    "probabilities",
    "score",
    "counts",
    "words",
    "labels",
    "ratings",
    "answers",
    "velocity",
    "table",
]


@dataclass(frozen=True, kw_only=True)
class Input:
    """One array or number that a measure takes.

    Attributes
    ----------
    name : of the parameter.
    kind : embeddings ``(n, d)``, direction ``(d,)``, similarities ``(n,)`` in [-1, 1], probability in [0, 1],
        probabilities ``(n,)`` in [0, 1],
        score: one mean cosine in [-2, 2], counts ``(k,)`` >= 0, words: one collection of words per image,
        labels: a data frame of perceived genders, ratings ``(n_items, n_raters)``, answers: of one rater,
        ``(n_items,)``, velocity: an array of any shape or a batch of them, table: a data frame with a row
        per model.
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
    field : attribute of the function's result that holds it, dotted where that is an Estimate's value;
        "" where the result is the value (or values).
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
        return attrgetter(self.field)(result) if self.field else result
