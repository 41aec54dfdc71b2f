"""Verdicts follow from the numbers by the stated rule, and a measure that is wrong is found out."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from bias_core.explore.options import ExploreOptions
from bias_core.measures.intervals import normal_estimate, wilson_interval
from bias_core.study.types import Shot, StudySettings
from tests.every import every
from validation import shares
from validation.repetitions import OWN_NULL, PoolOptions, RepetitionOptions, pools, repeated
from validation.verdicts import FEWEST, NULL_OF_ITS_OWN, kind_of, measured, power_of, results_of, verdicts_of

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


def test_a_right_measure_passes_and_one_with_half_its_interval_fails():
    found = verdict()
    assert found.says == "passes"
    assert found.coverage.n == 600  # three conditions of 200
    assert found.false_alarms.n == 200  # of fair alone
    assert found.coverage.value == pytest.approx(0.95, abs=0.02)
    assert found.false_alarms.value == pytest.approx(0.05, abs=0.03)
    half = verdict(width=0.5)  # +-0.98 standard errors hold 67.3 % of the values
    assert half.coverage.value == pytest.approx(0.673, abs=0.05)
    assert half.says == "fails: intervals too narrow; finds bias where none is planted"


@every([
    # +-1.75 standard errors hold 92.0 %: below the 93 % that pass, and clearly below 95 % with 3,000 intervals.
    ({"width": 1.75 / 1.96, "n": 1000}, "fails: intervals too narrow.*"),
    ({"width": 1.75 / 1.96, "n": 10}, "inconclusive.*"),
    # A measure that is right does not pass with four repetitions; one that is clearly wrong fails with 60.
    *(({"n": n}, f"inconclusive: {n} of the {FEWEST} intervals that a verdict needs") for n in (1, 4, 60)),
    ({"n": 60, "bias": 0.3}, "fails.*"),
    ({"slope": -1.0, "n": 10}, "fails: does not follow what is planted"),
    ({"slope": 0.0, "n": 10}, "inconclusive.*"),
    ({"slope": 0.0}, "fails: does not follow what is planted"),
    ({"width": 2.0}, r"passes \(intervals wider than necessary\)"),
    ({"bias": 0.3}, ".*finds bias where none is planted.*"),
    ({"measure": "normalised_entropy"}, ".*does not follow.*"),  # evenness must fall
    ({"measure": "normalised_entropy", "slope": -1.0}, "(?!.*does not follow).*"),
])  # fmt: skip
def test_a_verdict_follows_from_the_numbers_by_the_rule(how, says):
    assert re.fullmatch(says, verdict(**how).says), verdict(**how).says


def test_the_power_that_is_stated_is_that_of_the_rule():
    """By simulation: how often the Wilson interval of a share of 90 % lies below 95 %."""
    rng = np.random.default_rng(3)
    below = {k: wilson_interval(k, FEWEST).high < 0.95 for k in range(FEWEST + 1)}
    seen = np.mean([below[k] for k in rng.binomial(FEWEST, 0.90, size=4000)])
    assert power_of(FEWEST) == pytest.approx(seen, abs=0.02)
    assert power_of(4) < power_of(60) < power_of(FEWEST) < power_of(FEWEST, deviation=0.1)


def test_false_alarms_are_counted_where_the_null_of_the_measure_is_planted():
    """On fair the pictures may lean otherwise than the texts: that is no false alarm of II − TT."""
    assert "signed_lean_difference" in NULL_OF_ITS_OWN
    table = measurements(measure="signed_lean_difference", bias=0.3).assign(target=lambda rows: rows["target"] + 0.3)
    assert next(verdicts_of(table, 0.95)).says == "inconclusive: its null is not planted"
    null = table[table["condition"] == "fair"].copy()
    null[["value", "low", "high", "target"]] -= 0.3
    null["excluded"] = ((null["low"] > 0) | (null["high"] < 0)).astype(float)
    found = next(verdicts_of(pd.concat([table, null.assign(condition=OWN_NULL)]), 0.95))
    assert found.says == "passes"
    assert found.false_alarms.n == 200
    assert found.coverage.n == 800  # the own null counts, too
    assert len(found.means) == 3  # but it is no step of the ladder


def test_what_cannot_be_missed_is_not_known_or_undefined_is_not_counted():
    certain, unknown, undefined = measurements(), measurements(n=300), measurements(n=20)
    certain.loc[certain["condition"] == "extreme", ["value", "low", "high", "target"]] = 1.0
    unknown.loc[unknown["condition"] == "fair", "target"] = math.nan
    undefined.loc[undefined.index[:10], ["value", "low", "high"]] = math.nan
    assert [next(verdicts_of(one, 0.95)).coverage.n for one in (certain, unknown, undefined)] == [400, 600, 50]


def test_measures_are_headlines_or_as_their_paper_has_them():
    assert kind_of("signed_difference") == "headline"
    assert kind_of("stereotype_score") == kind_of("distribution_bias") == "as in the paper"


def test_one_step_that_is_missing_is_enough_to_fail_and_steps_are_paired_within_units():
    """Two concepts far apart, each rising a little: the gap between them is not noise."""
    table = measurements()
    table.loc[table["condition"] == "extreme", ["value", "low", "high", "target"]] -= 0.3
    assert not next(verdicts_of(table, 0.95)).follows
    near = measurements(slope=0.1, n=40).assign(unit="near")
    far = near.assign(unit="far", value=near["value"] + 50, target=near["target"] + 50)
    far[["low", "high"]] += 50
    assert next(verdicts_of(pd.concat([near, far]), 0.95)).follows == next(verdicts_of(near, 0.95)).follows


def test_a_measure_without_a_null_value_has_no_false_alarms():
    estimate = normal_estimate(0.5, 0.1, n=7)
    row = measured("distribution_bias", estimate, target=0.5, condition="fair")
    assert math.isnan(row["excluded"])
    assert next(verdicts_of(pd.DataFrame([row] * 3), 0.95)).false_alarms is None


def test_the_summary_gives_means_and_bias_by_condition():
    results = results_of(measurements(bias=0.2), StudySettings())
    (summary,) = (table.frame for table in results.tables if table.key == "summary")
    by = summary.set_index("condition")
    assert by["mean error"].to_numpy() == pytest.approx([0.2] * 3, abs=0.03)
    assert by["mean"].to_numpy() == pytest.approx([0.2, 0.5, 0.8], abs=0.03)
    assert by["repetitions"].tolist() == [200] * 3
    coverage, alarms, rise = results.figures
    assert (rise.data["value"] > 0).all()
    assert coverage.data["value"].item() == results.findings[0].estimate.value
    assert alarms.data["n"].item() == 200  # of the first condition alone
    assert alarms.labels["null"] == pytest.approx(0.05)


def shots_of(n, *, seed=0, seeds=3):
    options = RepetitionOptions(conditions=("fair", "extreme"), repetitions=n, seeds=seeds)
    settings = StudySettings(seed=seed, options=options)

    def of_cell(_group, _chance):
        yield Shot(prompt="a", n=7, group="", facts={"set": "x"})
        yield Shot(prompt="b", n=7, group="", facts={"set": "x"})
        yield Shot(prompt="a", n=7, group="", facts={"set": "y"})

    return repeated(settings, of_cell, also=(OWN_NULL,))


def test_every_cell_has_seeds_of_its_own():
    shots = shots_of(5)
    assert len(shots) == 5 * 3 * 3  # repetitions, groups, shots
    seeds = {shot.first_seed + k for shot in shots for k in range(shot.n)}
    assert len(seeds) == len(shots) * 7
    assert {(shot.group, shot.condition) for shot in shots} == {
        ("fair", "fair"), ("extreme", "extreme"), (OWN_NULL, "fair"),
    }  # fmt: skip
    assert max(seeds) < 2**53  # what JSON in a browser keeps


def test_more_repetitions_go_on_from_fewer_and_another_seed_draws_others():
    few, many, other = shots_of(3), shots_of(7), shots_of(3, seed=1)
    assert few == many[: len(few)]
    assert not {shot.first_seed for shot in few} & {shot.first_seed for shot in other}


def test_repetitions_are_spread_over_the_seeds_and_each_has_a_pool_of_its_own():
    by_seed = [shots_of(5, seed=seed, seeds=1) for seed in range(3)]
    assert shots_of(5) == [by_seed[i // 9 % 3][i] for i in range(5 * 9)]  # nine shots a repetition
    shots = [Shot(prompt="a", n=7, group="g"), Shot(prompt="b", n=7, group="g", first_seed=7)]
    pool, (next_pool, *_) = (
        pools(StudySettings(options=PoolOptions()), shots),
        pools(StudySettings(seed=1, options=PoolOptions()), shots),
    )
    assert [(shot.prompt, shot.facts["pool"]) for shot in pool] == [(name, k) for k in range(3) for name in "ab"]
    assert len({shot.first_seed + k for shot in pool for k in range(7)}) == 6 * 7
    assert next_pool.first_seed == pool[2].first_seed  # the second seed's


def test_verdicts_on_shares_are_counted_by_the_apps_own_and_the_count_can_fail(monkeypatch):
    monkeypatch.setattr(shares, "NULLS", shares.NULLS[::9])
    counted = shares.false_verdicts(300)
    # Of 16 at P* = .5 exact: 3 or less, and 13 or more, 2 (1 + 16 + 120 + 560) / 2^16; Wilson's also 4 and 12.
    tables = {table.key: table.frame for table in counted.tables}
    cell = tables["every-rate"].query("pictures == 16 and `P*` == 0.5").iloc[0]
    assert cell[shares.EXACT] == pytest.approx(2 * 697 / 2**16)
    assert cell[shares.WILSON] == pytest.approx(2 * (697 + 1820) / 2**16)
    power = tables["power"].query("pictures == 32 and gap == 0.3").iloc[0]
    assert (power[shares.WILSON], power[shares.EXACT]) == pytest.approx((0.959, 0.910), abs=0.001)
    assert (tables["any-attribute"][shares.EXACT] <= 0.06).all()  # of 300 draws
    assert [one.says.partition(":")[0] for one in counted.verdicts] == ["fails", "passes"] * 2
    assert shares.DEFAULTS[0] == ExploreOptions().n_images
    monkeypatch.setattr(shares, "prevalence_estimate", _by_wilson)
    assert not any(one.says == "passes" for one in shares.false_verdicts(300).verdicts)


def _by_wilson(yes, no, *, reference, confidence):
    return wilson_interval(int((yes > no).sum()), len(yes), confidence=confidence, null_value=reference)
