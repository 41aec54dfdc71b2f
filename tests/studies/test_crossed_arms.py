"""Attributes crossed with the arms: the arm that differs is named, chance is not, and figures can be drawn."""

import math

import numpy as np
import pytest
from scipy.stats import fisher_exact, hypergeom

from bias_core.studies.arms.crossed import cross_arms, crossed_arms_headline
from bias_core.studies.reports.figures import to_bytes
from tests.studies.test_crossed import YOUNG, score

EVEN = {"doctor": [1] * 20 + [0] * 80, "Indian doctor": [1] * 19 + [0] * 81}


def arms_of(women, young=None):
    """Two attributes of each arm; youth even among women and men where nothing else is said."""
    young = young or {}
    return {
        arm: [score("woman", calls), score("young", young.get(arm, [1, 0] * (len(calls) // 2)))]
        for arm, calls in women.items()
    }


def crossed(arms, crossing="pairs"):
    return cross_arms(arms, crossing=crossing, confidence=0.95)


def test_the_arm_in_which_an_attribute_is_another_one_is_named_with_both_shares():
    results = crossed(arms_of({**EVEN, "Iranian doctor": [1] * 2 + [0] * 98}))
    woman, young, both = results.findings
    assert woman.title == "woman and the arm “Iranian doctor”: log odds ratio"
    assert woman.says.startswith("More than chance: “woman” is seen in 2 % of “Iranian doctor”, in 20 % of the others")
    # Three arms, two attributes and the two together: nine tests. 2 of 100 against 39 of 200.
    alone = fisher_exact([[2, 98], [39, 161]]).pvalue - hypergeom.pmf(2, 300, 41, 100) / 2  # mid-p
    frame = results.frame("arm_interactions").set_index(["attributes", "arm"])
    assert len(frame) == 9
    assert frame.loc[("woman", "Iranian doctor"), "p"] == pytest.approx(alone)
    assert woman.p_value == pytest.approx(9 * alone)
    assert young.says.startswith("Not told from chance: “young” is seen in 50 % of “doctor”, in 50 % of the others")
    assert both.p_value is None or both.p_value > 0.05
    cells = results.frame("crossed_arms").query("attributes == 'woman × young' and arm == 'Iranian doctor'")
    assert cells["combination"].tolist() == ["not woman, not young", "not woman, young", "woman, not young",
                                             "woman, young"]  # fmt: skip
    assert cells["pictures"].tolist() == [49, 49, 1, 1]
    assert cells["P"].sum() == pytest.approx(1)
    assert results.notes == ()  # 300 · 0.14 · 0.5 / 3: seven young women of an arm are to be expected
    assert [one.key for one in results.figures] == ["arms1", "arms2", "arms3"]
    assert all(to_bytes(one).startswith(b"<?xml") for one in results.figures)
    assert results.figures[0].data.groupby("column", sort=False)["n"].sum().tolist() == [100, 100, 100]


def test_two_that_go_together_in_one_of_two_arms_alone_are_told_once():
    women = [1] * 50 + [0] * 50
    results = crossed(arms_of({"fair": women, "crossed": women}, {"crossed": YOUNG, "fair": [1, 0] * 50}))
    assert results.frame("arm_interactions")["arm"].tolist() == ["crossed"] * 3
    both = results.findings[-1]
    assert both.title == "woman × young and the arm “crossed”: log of the ratio of odds ratios"
    assert both.estimate.value == pytest.approx(math.log(9), abs=0.1)  # 45 of 50 women and 25 of 50 men are young
    assert "the odds ratio of “woman” and “young” is" in both.says
    assert "as in “fair”" in both.says
    assert crossed_arms_headline(results.findings) == f" {both.says}"
    assert set(results.figures[0].data["column"]) == {"fair", "crossed"}


def test_arms_that_are_alike_are_claimed_no_more_often_than_the_level_says():
    rng, claimed = np.random.default_rng(7), 0
    for _ in range(60):
        women = {name: rng.integers(0, 2, 61) for name in "abc"}
        results = crossed(arms_of(women, {name: rng.integers(0, 2, 61) for name in "abc"}))
        claimed += any(one.says.startswith("More than chance") for one in results.findings)
    assert claimed <= 7  # of 60 at most 3 to be expected
    assert crossed_arms_headline(results.findings).startswith((" No two", " More"))


def test_nothing_is_said_where_nothing_is_crossed_or_can_be_told():
    arms = arms_of({"a": [1] * 10 + [0] * 10, "b": [1] * 10 + [0] * 10})
    assert crossed(arms, "none").findings == ()
    assert crossed(dict(list(arms.items())[:1])).findings == ()
    few = crossed(arms_of({"a": [1] + [0] * 19, "b": [1] * 10 + [0] * 10}))
    assert few.notes == ("Small cells: fewer than 5 pictures of an arm are to be expected in a combination of "
                         "“woman × young”.",)  # fmt: skip
    everywhere = crossed(arms_of({"a": [1] * 20, "b": [1] * 20}))
    assert everywhere.findings[0].says.startswith("Nothing can be told: one of the attributes")
    assert everywhere.findings[0].p_value is None
