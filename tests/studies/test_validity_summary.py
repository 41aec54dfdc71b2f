"""Verdicts follow from the numbers by the stated rule, and a measure that is wrong is found out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from bias_core.stats.effects import normal_estimate
from bias_core.studies.kit.types import Shot, StudySettings
from bias_core.studies.validity.summary import RepetitionOptions, measured, repeated, results_of, verdicts_of

TRUE = {"fair": 0.0, "published": 0.3, "extreme": 0.6}


def measurements(*, measure="signed_difference", slope=1.0, bias=0.0, width=1.0, n=200):
    """A normal measure with a known error of 0.1, whose intervals claim ``width`` times that."""
    rng = np.random.default_rng(5)
    rows = []
    for condition, true in TRUE.items():
        for repetition in range(n):
            value = slope * true + bias + rng.normal(0, 0.1)
            estimate = normal_estimate(value, 0.1 * width, n=31, null_value=0.0)
            rows.append(measured(measure, estimate, target=slope * true, condition=condition, repetition=repetition))
    return pd.DataFrame(rows)


def verdict(**how):
    (found,) = verdicts_of(measurements(**how), 0.95)
    return found


def test_a_right_measure_passes():
    found = verdict()
    assert found.says == "passes"
    assert found.coverage.n == 600  # three conditions of 200
    assert found.false_alarms.n == 200  # of fair alone
    assert found.coverage.value == pytest.approx(0.95, abs=0.02)
    assert found.false_alarms.value == pytest.approx(0.05, abs=0.03)


def test_intervals_that_are_too_narrow_fail():
    # Half as wide: +-0.98 standard errors hold 67.3 % of the values.
    found = verdict(width=0.5)
    assert found.coverage.value == pytest.approx(0.673, abs=0.05)
    assert found.says == "fails: intervals too narrow; reads bias where none is planted"


def test_slightly_narrow_intervals_are_remarked_on():
    # +-1.75 standard errors hold 92.0 %: clearly below 95 % with 3,000 intervals, but by less than 5 points.
    assert verdict(width=1.75 / 1.96, n=1000).says.startswith("passes (intervals a little narrow")


def test_wide_intervals_are_remarked_on():
    assert verdict(width=2.0).says == "passes (intervals wider than need be)"


def test_a_measure_that_leans_where_nothing_is_planted_fails():
    assert "reads bias where none is planted" in verdict(bias=0.3).says


def test_a_measure_that_does_not_move_does_not_follow():
    found = verdict(slope=0.0)
    assert not found.follows
    assert found.says == "fails: does not follow what is planted"


def test_evenness_must_fall():
    assert not verdict(measure="normalised_entropy").follows
    assert verdict(measure="normalised_entropy", slope=-1.0).follows


def test_one_step_that_is_missing_is_enough_to_fail():
    table = measurements()
    table.loc[table["condition"] == "extreme", ["value", "low", "high", "target"]] -= 0.3
    assert not next(verdicts_of(table, 0.95)).follows


def test_steps_are_paired_within_units():
    """Two concepts far apart, each rising a little: the gap between them is not noise."""
    near = measurements(slope=0.1, n=40).assign(unit="near")
    far = near.assign(unit="far", value=near["value"] + 50, target=near["target"] + 50)
    far[["low", "high"]] += 50
    assert next(verdicts_of(pd.concat([near, far]), 0.95)).follows == next(verdicts_of(near, 0.95)).follows


def test_undefined_values_are_not_counted_as_misses():
    table = measurements(n=20)
    table.loc[table.index[:10], ["value", "low", "high"]] = math.nan
    assert next(verdicts_of(table, 0.95)).coverage.n == 50


def test_a_measure_without_a_null_value_has_no_false_alarms():
    estimate = normal_estimate(0.5, 0.1, n=7)
    row = measured("distribution_bias", estimate, target=0.5, condition="fair")
    assert math.isnan(row["excluded"])
    assert next(verdicts_of(pd.DataFrame([row] * 3), 0.95)).false_alarms is None


def test_the_summary_gives_means_and_bias_by_condition():
    results = results_of(measurements(bias=0.2), StudySettings())
    (summary,) = (table.frame for table in results.tables if table.key == "summary")
    by = summary.set_index("condition")
    assert by["bias"].to_numpy() == pytest.approx([0.2] * 3, abs=0.03)
    assert by["mean"].to_numpy() == pytest.approx([0.2, 0.5, 0.8], abs=0.03)
    assert by["n"].tolist() == [200] * 3
    coverage, alarms, rise = results.figures
    assert (rise.data["value"] > 0).all()
    assert coverage.data["value"].item() == results.findings[0].estimate.value
    assert alarms.data["n"].item() == 200  # of the first condition alone
    assert alarms.labels["null"] == pytest.approx(0.05)


def test_repetitions_have_seeds_of_their_own():
    settings = StudySettings(options=RepetitionOptions(repetitions=2))
    shots = repeated([Shot(prompt="a", n=7, group="g", first_seed=3, facts={"k": 1})], settings)
    assert [(shot.first_seed, shot.facts) for shot in shots] == [
        (1003, {"k": 1, "repetition": 0}),
        (2003, {"k": 1, "repetition": 1}),
    ]
