"""The table of measures: what each is called, where it comes from, and how to read it.

The methods tab, the documentation and the common tests all read ``METRICS``; each paper has a file here.
"""

from __future__ import annotations

from bias_core.errors import InvalidInput
from bias_core.registry import (
    association,
    composite_association,
    oasis,
    object_bias,
    paired_difference,
    paired_stereotype,
    propagation,
    rank_agreement,
)
from bias_core.registry.card import Input, InputKind, Metric

__all__ = ["METRICS", "Input", "InputKind", "Metric", "metric"]

METRICS: dict[str, Metric] = {
    metric.key: metric
    for method in (
        association,
        paired_stereotype,
        object_bias,
        composite_association,
        oasis,
        propagation,
        paired_difference,
        rank_agreement,
    )
    for metric in method.METRICS
}


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
