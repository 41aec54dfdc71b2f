"""Does what is seen of a step tell how the finished picture of that seed will be read? Rank agreement, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bias_core.measures.agreement import kendall_tau
from bias_core.study.design import ReportTexts
from bias_core.study.types import Finding, StudyFigure, StudyTable, columns, drawable, finding, lean
from bias_core.types import Estimate

TEXTS = ReportTexts(__file__)
SPI, HEADING = "SPI", "what the step heads for"
_FEWEST_SEEDS = 5  # of fewer, orders agree by chance too often to say anything
_SAYS = (
    "Where SPI of the first step is higher, the finished picture is read to have it more.",
    "Where SPI of the first step is higher, the finished picture is read to have it less.",
    "SPI of the first step is not told to go with what the finished picture shows.",
)


def agreements(
    spi: np.ndarray, heading: np.ndarray, finished: np.ndarray, *, confidence: float, seed: int
) -> Mapping[str, list[Estimate]]:
    """Kendall's τ over seeds of SPI, and of the margins of predicted pictures, with the finished margins, step by step.

    Parameters
    ----------
    spi, heading : arrays (n_seeds, n_steps).
    finished : array (n_seeds,). Margins of the finished pictures.

    Returns
    -------
    The estimates of each step by what was read; empty for too few seeds.
    """
    if len(finished) < _FEWEST_SEEDS:
        return {}
    how: dict[str, Any] = {"confidence": confidence, "n_resamples": 500, "rng": seed}
    return {
        name: [kendall_tau(step, finished, **how).tau for step in values.T]
        for name, values in ((SPI, spi), (HEADING, heading))
    }


def foretelling(
    nationality: str, place: str, by_name: Mapping[str, Mapping[str, Sequence[Estimate]]]
) -> tuple[tuple[Finding, ...], tuple[StudyFigure, ...], list[dict[str, Any]]]:
    """What is said of a nationality's attributes: a finding each, a figure, and rows of the table."""
    findings, marks, rows = [], [], []
    for name, by_reading in by_name.items():
        for reading, steps in by_reading.items():
            for step, tau in enumerate(steps, start=1):
                here = {"x": step, **columns("value", tau, ends="")}
                marks += [] if np.isnan(tau.value) else [{"group": f"{name}: {reading}", **here}]
                rows.append({"nationality": nationality, "attribute": name, "reading": reading, "step": step,
                             **columns("τ", tau), "seeds": tau.n})  # fmt: skip
        if SPI in by_reading:
            first = by_reading[SPI][0]
            says = first.note or lean(first, *_SAYS)
            findings.append(
                finding(f"{nationality} {name} foretold", f"{nationality}, {name}: SPI and the finished picture",
                        "kendall_tau", first, f"{says[0].upper()}{says[1:].rstrip('.')}.")
            )  # fmt: skip
    figure = TEXTS.figure("foretold", marks, nationality=nationality, place=place)
    return tuple(findings), drawable([figure]), rows


def foretelling_table(rows: Sequence[Mapping[str, Any]]) -> tuple[StudyTable, ...]:
    """All rows as a table; none where there are none."""
    return (TEXTS.table("foretold", rows),) if rows else ()
