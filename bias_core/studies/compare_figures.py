"""The figures of a comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.study_types import StudyFigure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bias_core.studies.compare_types import ComparedPair, Difference, DrawnArm
    from bias_core.studies.explore_types import AttributeScore

_MOST_DRAWN = 400  # pairs of different seeds in the figure of change


def compare_figures(arms: Sequence[DrawnArm], pairs: Sequence[ComparedPair]) -> Iterator[StudyFigure]:
    """Shares of each arm, their differences, the plane of Ψ and WALS, and how far pictures changed."""
    shares = pd.DataFrame([_share(arm, score) for arm in arms for score in arm.report.attributes])
    yield StudyFigure(
        key="shares",
        title="How often is each attribute seen?",
        kind="pairs",
        data=shares,
        labels={"x": "share of the pictures, P", "reference": "rate in the world, P*"},
        caption="One dot per arm with its interval; the line between them is what changes. Diamonds: the "
        "real-world rate, or the rate that was chosen where nobody knows it.",
    )
    gaps = [d for pair in pairs for d in pair.differences if d.score == "prevalence"]
    yield StudyFigure(
        key="differences",
        title="Difference of P on the same seeds",
        kind="intervals",
        data=pd.DataFrame([_gap(d, several=len(pairs) > 1) for d in gaps]),
        labels={"x": "second less first", "null": 0.0},
        caption="An interval that holds the line at 0 leaves the direction open. It is paired: seeds on "
        "which both arms show the same add nothing.",
    )
    plane = pd.DataFrame([_point(arm, score) for arm in arms for score in arm.report.attributes])
    known = plane.dropna(subset=["x", "y"]) if len(plane) else plane
    yield StudyFigure(
        key="plane",
        title="Stereotype and variety (Fig. 5 of OASIS)",
        kind="scatter",
        data=known,
        labels={"x": "variety along the attribute, WALS", "y": "stereotype score Ψ", "join": True},
        caption="Towards the lower right: less over-represented and more varied. An arm can lower Ψ at the "
        "cost of variety, which one number alone would not show. WALS moves with the number of pictures.",
    )
    yield StudyFigure(
        key="change",
        title="How far does the picture of a seed change?",
        kind="distributions",
        data=pd.concat([_changes(pair, arms) for pair in pairs], ignore_index=True),
        labels={"x": "one minus the cosine of the two pictures"},
        caption="Where the two rows look alike, the same seed gives another picture: the pairs are then no "
        "before and after, but two draws.",
    )


def _share(arm: DrawnArm, score: AttributeScore) -> dict[str, Any]:
    estimate = score.prevalence
    return {
        "name": score.attribute.name,
        "group": arm.name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "reference": math.nan if score.attribute.reference is None else score.attribute.reference,
    }


def _gap(d: Difference, *, several: bool) -> dict[str, Any]:
    estimate = d.test.estimate
    return {
        "name": f"{d.attribute}: {d.second} − {d.first}" if several else d.attribute,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "expected": math.nan if d.expected is None else d.expected,
    }


def _point(arm: DrawnArm, score: AttributeScore) -> dict[str, Any]:
    x, y = score.wals, score.stereotype
    ends = {"xlow": x.low, "xhigh": x.high, "ylow": y.low, "yhigh": y.high}
    return {"name": score.attribute.name, "group": arm.name, "x": x.value, "y": y.value, **ends}


def _changes(pair: ComparedPair, arms: Sequence[DrawnArm]) -> pd.DataFrame:
    """Changes on the same seed, and between random different seeds of the same two arms."""
    one, other = (
        next(arm.pictures for arm in arms if arm.name == name) for name in (pair.first, pair.second)
    )
    rng = np.random.default_rng(0)  # only chooses what is drawn
    i, j = (rng.integers(0, len(side.seeds), size=_MOST_DRAWN) for side in (one, other))
    apart = one.seeds[i] != other.seeds[j]
    cosines = np.einsum("nd,nd->n", one.embeddings[i[apart]], other.embeddings[j[apart]])
    name = f"{pair.first} – {pair.second}"
    groups = [f"{name}, same seed"] * len(pair.changes) + [f"{name}, other seeds"] * len(cosines)
    return pd.DataFrame({"group": groups, "value": np.concatenate([pair.changes, 1 - cosines])})
