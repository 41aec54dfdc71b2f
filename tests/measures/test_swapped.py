"""The effect of role and of place, worked by hand, against all signs, and planted."""

import itertools

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import order_effect


def test_the_place_and_the_people_share_out_what_is_seen():
    # Seed by seed, A less B: A left 1, 1, 0; A right 1, -1, -1.
    # Place: (1 - 1) / 2 = 0, (1 + 1) / 2 = 1, (0 + 1) / 2 = 0.5; mean 0.5. People: 1, 0, -0.5; mean 1/6.
    assert order_effect([1, 1, 0], [1, -1, -1]).estimate.value == pytest.approx(0.5)
    assert order_effect([1, 1, 0], [1, -1, -1], sign=1).estimate.value == pytest.approx(1 / 6)


def test_p_is_that_of_all_signs():
    values = np.array([0.5, 1.0, -0.5, 1.0, 0.0, 0.5, 1.0])
    signs = np.array(list(itertools.product((-1, 1), repeat=len(values))))
    sums = signs @ values
    expected = np.mean(np.abs(sums) >= abs(values.sum()) - 1e-12)
    assert order_effect(values, values, sign=1).p_value == pytest.approx(expected)


def test_a_place_that_is_planted_is_found_and_the_people_are_not_blamed():
    rng = np.random.default_rng(0)
    found, blamed = 0, 0
    for _ in range(60):
        left, right = rng.random((2, 2, 100)) < np.array([0.7, 0.3])[:, None, None]
        first, second = left[0].astype(float) - right[0], right[1].astype(float) - left[1]
        found += order_effect(first, second, n_resamples=499).p_value < 0.05
        blamed += order_effect(first, second, sign=1, n_resamples=499).p_value < 0.05
    assert found == 60
    assert blamed <= 8  # 5 % of 60, and three standard errors


def test_where_all_seeds_are_equal_there_is_no_interval_and_no_test():
    effect = order_effect([0, 0, 0], [0, 0, 0])
    assert effect.estimate.value == 0
    assert np.isnan([effect.estimate.low, effect.p_value]).all()


@pytest.mark.parametrize(
    ("first", "second", "sign", "words"),
    [([1], [1, 0], -1, "same length"), ([], [], 1, "first"), ([1, np.nan], [1, 0], 1, "first"), ([1], [1], 0, "sign")],
)
def test_what_cannot_be_compared_is_refused(first, second, sign, words):
    with pytest.raises(InvalidInput, match=words):
        order_effect(first, second, sign=sign)
