"""T2IAT's test, repeated on new pictures: how often it is right, and how often it only seems to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.statistics import wilson_interval
from bias_core.studies.program import Measuring, Program
from bias_core.studies.rows import thinned
from bias_core.studies.study_types import Design, Finding, Results, Shot, StudySettings, StudyTable
from bias_core.studies.t2iat import SIDES, chosen_tests, edits_of, run_test
from bias_core.studies.validity import CONDITIONS
from bias_core.studies.validity_measures import SEEDS_APART, repetitions

if TYPE_CHECKING:
    import numpy as np

    from bias_core.studies.study_data import StudyData

LEVEL = 0.05


def repeated_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: the neutral prompts of each test and their edits."""
    once = replace(settings, scale=1.0)  # the scale thins the repetitions out, not the test
    return [
        Shot(
            prompt=prompt,
            n=n,
            group=condition,
            condition=condition,
            first_seed=SEEDS_APART * (repetition + 1),
            facts={
                "test": test["key"],
                "side": side,
                "set": kind,
                "stimulus": stimulus,
                "repetition": repetition,
            },
        )
        for repetition in range(repetitions(settings))
        for condition in CONDITIONS
        for test in chosen_tests(design, settings)
        for side in SIDES
        for stimulus in _few(design, settings, test[side])
        for kind, prompt, n in edits_of(design, once, test, side, stimulus)
    ]


def _few(design: Design, settings: StudySettings, concept: str) -> list[str]:
    words = [str(word) for word in design.data["concepts"][concept]]
    n = settings.options["n_stimuli"]
    return thinned(words, min(1.0, n / len(words)), least=2, seed=settings.seed)


def measure_repeatedly(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """Share of repetitions in which each kind of p lies below 5 %, and in which the interval holds S."""
    rows = yield from data.embed(data.frame)
    table = pd.DataFrame(list(_repetitions(settings, data, rows)))
    columns = ["below, fixed", "below, drawn", "held", "S"]
    summary = table.groupby(["test", "condition"], sort=False)[columns].mean().reset_index()
    return Results(
        findings=tuple(_alarms(table)),
        tables=(
            StudyTable(key="summary", title="How often the test finds something", frame=summary, note=_NOTE),
            StudyTable(key="repetitions", title="Every repetition", frame=table),
        ),
        notes=(
            "The prompts are the same in every repetition while the standard error counts new ones, so fewer "
            "than 5 % false alarms are to be expected where the attribute pictures are drawn anew.",
        ),
    )


def _repetitions(settings: StudySettings, data: StudyData, rows: np.ndarray) -> Iterator[dict[str, object]]:
    """The test on the pictures of every repetition, beside S of all repetitions' pictures."""
    for (test, condition), part in data.frame.groupby(["test", "group"], sort=False):
        together = run_test(part, rows, settings).score
        for repetition, here in part.groupby("repetition"):
            data.check()
            result = run_test(here, rows, settings)
            interval = result.total_interval
            yield {
                "test": test,
                "condition": condition,
                "repetition": repetition,
                "S": result.score,
                "p": result.p_value,
                "total p": result.total_p_value,
                "below, fixed": result.p_value < LEVEL,
                "below, drawn": result.total_p_value < LEVEL,
                "held": interval.low <= together <= interval.high,
            }


_NOTE = (
    "below, fixed: share of repetitions whose permutation p, attribute pictures held fixed, lies below 5 %. "
    "below, drawn: the same for the p that counts the attribute pictures' chance; on fair both are false "
    "alarms. held: share of intervals that hold S of all repetitions' pictures together."
)


def _alarms(table: pd.DataFrame) -> list[Finding]:
    fair = table[table["condition"] == "fair"]
    kinds = (("fixed", "attribute pictures held fixed"), ("drawn", "attribute pictures drawn anew"))
    return [
        Finding(
            key=f"false alarms {kind}",
            title=f"False alarms on fair at 5 %, {words}",
            metric="differential_association",
            estimate=wilson_interval(int(fair[f"below, {kind}"].sum()), len(fair), null_value=LEVEL),
            says="A valid test stays near 5 % or below.",
        )
        for kind, words in kinds
    ]


PROGRAMS = {"validity_associations": Program(shots=repeated_shots, measure=measure_repeatedly)}
