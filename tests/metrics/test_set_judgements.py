"""Which of two sets has more: by hand, against a second fit, planted raters, and what has no end."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from bias_core.errors import InvalidInput
from bias_core.metrics.set_judgements import set_judgements

COLUMNS = ["rater", "left", "right", "difference", "choice"]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def planted(rng, *, slope, side=0.0, n_raters=11, n=37, spread=0.0, shares=(0.2, 0.5, 0.6)):
    """Judgements of raters of whom each sees a little finer or coarser than the others."""
    rows = []
    for rater in range(n_raters):
        own, bias = slope + spread * rng.normal(), side + 0.1 * spread * rng.normal()
        for _ in range(n):
            left, right = rng.choice(len(shares), 2, replace=False)
            d = shares[right] - shares[left]
            choice = "right" if rng.random() < expit(bias + own * d) else "left"
            rows.append((f"r{rater}", f"set {left}", f"set {right}", d, "alike" if rng.random() < 0.1 else choice))
    return frame(rows)


def test_slope_side_and_strength_are_right_by_hand():
    """At d = 0.5 three of four choose the right set, at -0.5 one of four: b = (log 3 + log 3) / 1, a = 0."""
    rows = [(f"r{i % 2}", "a", "b", 0.5, "right" if i else "left") for i in range(4)]
    rows += [(f"r{i % 2}", "b", "a", -0.5, "left" if i else "right") for i in range(4)]
    found = set_judgements(frame(rows))
    assert found.slope.value == pytest.approx(2 * math.log(3))
    assert found.side.value == pytest.approx(0, abs=1e-9)
    # b is chosen in six of eight: s_b - s_a = log 3, of mean 0
    assert found.strengths["b"].value == pytest.approx(math.log(3) / 2)
    assert found.strengths["a"].value == pytest.approx(-math.log(3) / 2)


def test_alike_counts_half_for_each_side_and_a_plain_likelihood_gives_the_same():
    some = planted(np.random.default_rng(5), slope=4, side=0.3)
    d, chosen = some["difference"], some["choice"].map({"left": 0.0, "alike": 0.5, "right": 1.0})
    assert (chosen == 0.5).sum() > 5

    def loss(ab):
        return -float(
            (chosen * np.log(expit(ab[0] + ab[1] * d)) + (1 - chosen) * np.log(expit(-ab[0] - ab[1] * d))).sum()
        )

    best = minimize(loss, [0.0, 1.0]).x
    found = set_judgements(some)
    assert [found.side.value, found.slope.value] == pytest.approx(best, abs=1e-3)


def test_intervals_hold_the_planted_slope_and_order_though_raters_differ():
    rng, held, in_order, n = np.random.default_rng(8), 0, 0, 120
    for _ in range(n):
        some = planted(rng, slope=4, spread=1.0).query("choice != 'alike'")
        found = set_judgements(some)
        held += found.slope.low <= 4 <= found.slope.high
        in_order += list(found.strengths) == sorted(found.strengths, key=lambda name: found.strengths[name].value)
    assert held >= 0.89 * n
    assert in_order >= 0.9 * n


def test_raters_who_do_not_see_the_difference_are_hardly_ever_said_to():
    rng, n = np.random.default_rng(9), 120
    claimed = [set_judgements(planted(rng, slope=0)).slope.low > 0 for _ in range(n)]
    assert np.mean(claimed) <= 0.06  # one side of 95 %


def test_the_threshold_is_the_difference_that_three_of_four_see():
    found = set_judgements(planted(np.random.default_rng(1), slope=6))
    assert found.threshold.value == pytest.approx(math.log(3) / found.slope.value)
    assert found.threshold.low < found.threshold.value < found.threshold.high
    blind = set_judgements(planted(np.random.default_rng(2), slope=0))
    assert math.isnan(blind.threshold.value)
    assert "no difference is shown" in blind.threshold.note


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("r", "a", "b", 0.5, "right"), ("s", "b", "a", -0.5, "left")], "no upper end"),
        ([("r", "a", "b", 0.5, "right"), ("s", "a", "b", 0.5, "left")], "do not vary"),
        ([("r", "a", "b", 0.5, "right"), ("s", "a", "b", 0.2, "right")], "do not vary"),
        ([("r", "a", "b", math.nan, "right"), ("s", "a", "b", math.nan, "left")], "do not vary"),
    ],
)
def test_a_slope_without_an_end_is_not_given_as_a_number(rows, words):
    found = set_judgements(frame(rows))
    assert math.isnan(found.slope.value)
    assert words in found.slope.note
    assert math.isnan(found.threshold.value)


def test_a_set_that_always_wins_has_no_strength_and_one_rater_no_interval():
    found = set_judgements(frame([("r", "a", "b", 0.2, "right"), ("s", "b", "c", 0.1, "alike")]))
    assert all(math.isnan(one.value) for one in found.strengths.values())
    assert "no end" in found.strengths["a"].note
    one = set_judgements(planted(np.random.default_rng(3), slope=3, n_raters=1))
    assert math.isnan(one.slope.low)
    assert one.slope.note == "one rater has no interval"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("r", "a", "b", 0.5, "up"), "got 'up'"),
        (("r", "a", "b", 1.5, "left"), r"in \[-1, 1\]"),
        (("r", "a", "a", 0.5, "left"), "against itself"),
    ],
)
def test_odd_judgements_are_refused(row, words):
    with pytest.raises(InvalidInput, match=words):
        set_judgements(frame([row]))
