"""The six sets of pictures of an association test, and the prompts that its score hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.association_influence import LeaveOneOut, leave_one_out
from bias_core.studies.reports.build import figure, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.types import Design, StudyFigure, StudyTable

SIDES = ("x", "y")
SETS = ("neutral", "a", "b")
"""Neutral pictures of a concept, and those edited with words of attribute A and of B."""
MOST_SHOWN = 12
"""Prompts in a figure: those that move S most."""


def sets_of(frame: pd.DataFrame, rows: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, list[np.ndarray]]:
    """What an association test takes: six sets of embeddings, and the prompts of each picture.

    The sets are X, Y, X edited with A and with B, Y edited with A and with B; then the prompts of X, those of
    Y, and those of the four edited sets.
    """

    def of(side: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
        chosen = frame[(frame["side"] == side) & (frame["set"] == kind)]
        return rows[chosen.index], chosen["stimulus"].to_numpy(dtype=str)

    (x, groups_x), (y, groups_y) = (of(side, "neutral") for side in SIDES)
    edited = [of(side, kind) for side in SIDES for kind in ("a", "b")]
    return [x, y, *(found for found, _ in edited)], groups_x, groups_y, [groups for _, groups in edited]


def leave_out(frame: pd.DataFrame, rows: np.ndarray) -> LeaveOneOut:
    """S of one test without each of its prompts."""
    embeddings, groups_x, groups_y, edited_from = sets_of(frame, rows)
    return leave_one_out(*embeddings, groups_x=groups_x, groups_y=groups_y, attribute_groups=edited_from)


def influence_table(design: Design, tests: Sequence[Mapping[str, Any]], found: Mapping[str, LeaveOneOut]) -> StudyTable:
    """Every prompt of every test, those that move S most first."""
    titles = design.data["titles"]
    frames = []
    for test in tests:
        left_out = found[test["key"]]
        frame = pd.DataFrame(
            {
                "test": test["key"],
                "concept": [titles[test[side]] for side in left_out.sides],
                "left out": left_out.prompts,
                "S": left_out.score,
                "S without it": left_out.scores,
                "adds to S": left_out.influences,
                "S changes its sign": left_out.scores * left_out.score < 0,
            }
        )
        frames.append(frame.iloc[_by_influence(left_out)])
    note = "A prompt is left out with its neutral pictures and with those edited from it."
    frame = pd.concat(frames, ignore_index=True)
    return table("influence", "S without each prompt (leave one out)", frame, note)


def influence_figure(key: str, title: str, found: LeaveOneOut) -> StudyFigure:
    """An arrow from S to S without the prompt, for the prompts that move it most."""
    most = _by_influence(found)[:MOST_SHOWN]
    names = [f"{found.prompts[i]} ({found.sides[i].upper()})" for i in most]
    return figure(
        "arrows",
        f"influence_{key}",
        f"S without one prompt: {title}",
        pd.DataFrame({"name": names, "start": found.score, "end": found.scores[most]}),
        "The prompts that move S most. Where an arrow crosses the line, S would point the other way "
        "without this one prompt.",
        x="S, in units of cosine",
        null=0.0,
        start="all prompts",
        end="without it",
    )


def _by_influence(found: LeaveOneOut) -> np.ndarray:
    """Places of the prompts, from the one that moves S most."""
    return np.argsort(-np.abs(found.influences), kind="stable")
