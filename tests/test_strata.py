"""Means over given prompts, and the jackknife over seeds: by hand, and as wide as chance is."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.intervals import mean_interval
from bias_core.stats.jackknife import jackknife_interval
from bias_core.stats.strata import stratified_mean


def test_one_prompt_is_the_mean_of_student():
    values = [1.0, 2.0, 4.0, 9.0]
    ours, plain = stratified_mean(values, ["a"] * 4), mean_interval(values)
    assert (ours.value, ours.low, ours.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_what_sets_prompts_apart_is_no_chance():
    apart = stratified_mean([0.0, 0.1, 9.0, 9.1], ["a", "a", "b", "b"])
    assert apart.high - apart.low < 1
    one_each = stratified_mean([0.0, 9.0, 4.0], ["a", "b", "c"])
    assert one_each.high - one_each.low > 9


@pytest.mark.parametrize("spreads", [(1,) * 8, (1, 1, 1, 2, 2, 2, 0.5, 0.5)])
def test_two_pictures_of_each_prompt_make_an_interval_that_holds_as_often_as_it_says(spreads):
    rng, prompts = np.random.default_rng(0), np.repeat(range(8), 2)
    drawn = rng.normal(size=(1500, 8, 2)) * np.array(spreads)[:, None]
    held = [one.low <= 0 <= one.high for one in (stratified_mean(values.ravel(), prompts) for values in drawn)]
    # 95 % give or take two standard errors, and a point; with freedom after Satterthwaite it is 97.5 and 98.3 %
    assert 0.93 <= np.mean(held) <= 0.968


def test_values_that_do_not_vary_have_no_interval():
    same = stratified_mean([1.0, 1.0, 2.0, 2.0], ["a", "a", "b", "b"])
    assert same.value == 1.5
    assert math.isnan(same.low)
    with pytest.raises(InvalidInput, match="3 for 2"):
        stratified_mean([1.0, 2.0], ["a", "b", "c"])


def test_the_jackknife_of_a_mean_is_that_of_student_and_keeps_seeds_together():
    values = np.array([1.0, 2.0, 4.0, 9.0, 3.0, 8.0])
    plain = jackknife_interval(lambda kept: float(values[kept].mean()), 6)
    reach = stats.t.ppf(0.975, 5) * values.std(ddof=1) / math.sqrt(6)
    assert plain.high - plain.value == pytest.approx(reach)
    twice = np.repeat(values, 2)  # two prompts that share the seed's draw are one draw
    of_seeds = jackknife_interval(lambda kept: float(twice[kept].mean()), 12, groups=list("aabbccddeeff"))
    assert of_seeds.high == pytest.approx(plain.high)


def test_the_jackknife_says_where_it_has_no_interval():
    assert math.isnan(jackknife_interval(lambda _: 1.0, 6).low)
    assert "undefined" in jackknife_interval(lambda kept: math.nan if kept.sum() < 6 else 1.0, 6).note
    with pytest.raises(InvalidInput, match="2 groups"):
        jackknife_interval(lambda _: 1.0, 3, groups=["a", "b"])
    few = jackknife_interval(lambda kept: float(kept.sum()), 4, groups=[0, 1, 0, 1])
    assert math.isnan(few.low)
    assert few.note == "an interval needs 5 seeds of each prompt; there are 2"
