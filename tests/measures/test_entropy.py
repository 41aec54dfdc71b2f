"""Chao and Shen's entropy: by hand, by a loop, and nearer to the truth than the plug-in one."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.measures.object_distribution import chao_shen_entropy


def loop(counts):
    n = sum(counts)
    coverage = 1 - sum(c == 1 for c in counts) / n
    total = 0.0
    for count in counts:
        p = coverage * count / n
        total -= p * math.log(p) / (1 - (1 - p) ** n)
    return total


def test_two_objects_by_hand():
    # Shares 2/4 twice, nothing seen once: 2 · (1/2 ln 2) / (1 − 1/2⁴) = ln 2 · 16 / 15.
    assert chao_shen_entropy([2, 2]) == pytest.approx(math.log(2) * 16 / 15)


@pytest.mark.parametrize("counts", [[13, 7, 5, 3, 2, 1, 1], [40, 1], [2, 3, 5], [9, 9, 0, 1]])
def test_it_is_what_a_loop_over_the_formula_finds(counts):
    assert chao_shen_entropy(counts) == pytest.approx(loop([c for c in counts if c]))


def test_objects_that_were_missed_are_allowed_for():
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 102)
    shares /= shares.sum()
    truth = stats.entropy(shares)
    draws = rng.multinomial(150, shares, size=200)
    plain = [stats.entropy(counts[counts > 0]) for counts in draws]
    ours = [chao_shen_entropy(counts) for counts in draws]
    assert abs(np.mean(ours) - truth) < 0.2 * abs(np.mean(plain) - truth)


def test_objects_seen_once_each_tell_nothing():
    assert math.isnan(chao_shen_entropy([1, 1, 1]))
    assert chao_shen_entropy([7]) == 0
