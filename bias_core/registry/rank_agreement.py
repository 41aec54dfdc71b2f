"""Agreement of two orders in the table of measures."""

from __future__ import annotations

from bias_core.annotation import rank_agreement
from bias_core.registry.card import Input, Metric

METRICS = (
    Metric(
        key="kendall_tau",
        name="Kendall's τ",
        summary="How far two scores, such as a machine's and people's, put things in the same order.",
        reference="kendall1945",
        equation="definition of τ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="the orders agree more; 0 is chance",
        inputs=(
            Input(name="a", kind="similarities", means="one score of each item", paired="b"),
            Input(name="b", kind="similarities", means="the other score", paired="a"),
        ),
        limits="It compares orders, not sizes, and with few items its interval is wide.",
        function=rank_agreement.kendall_tau,
        field="tau.value",
    ),
)
