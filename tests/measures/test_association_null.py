"""The even mix by hand, by a naive loop, and in pictures that really are one."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.association import association_beyond_even_mix, even_mix_association, mean_association

D = 7


def rows(rng, n, spread, lean):
    """Pictures around a direction; a larger spread makes them less alike."""
    centre = np.zeros(D)
    centre[lean] = 1.0
    return centre + spread * rng.normal(size=(n, D))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_alikeness_by_hand():
    # A: two pictures at 60 degrees, cosine 0.5. B: at right angles, cosine 0. (0.5 - 0) / 2.
    a = [[1.0, 0.0], [0.5, math.sqrt(0.75)]]
    assert even_mix_association(a, np.eye(2)) == pytest.approx(0.25)


def test_a_naive_loop_gives_the_same():
    rng = np.random.default_rng(0)
    a, b, x = rows(rng, 3, 0.5, 0), rows(rng, 5, 0.9, 1), rows(rng, 11, 0.7, 2)
    ua, ub, ux = unit(a), unit(b), unit(x)
    pairs = [[ua[i] @ ua[j] for i in range(3) for j in range(3) if i != j],
             [ub[i] @ ub[j] for i in range(5) for j in range(5) if i != j]]  # fmt: skip
    even = (np.mean(pairs[0]) - np.mean(pairs[1])) / 2
    assert even_mix_association(a, b) == pytest.approx(even)
    lean = np.mean([np.mean([v @ w for w in ua]) - np.mean([v @ w for w in ub]) for v in ux])
    found = association_beyond_even_mix(x, a, b)
    assert found.value == pytest.approx(lean - even)
    assert found.value == pytest.approx(mean_association(x, a, b).value - even)
    assert found.n == 11


def test_exchanging_a_and_b_changes_the_sign():
    rng = np.random.default_rng(1)
    a, b, x = rows(rng, 3, 0.5, 0), rows(rng, 5, 0.9, 1), rows(rng, 11, 0.7, 2)
    there, back = association_beyond_even_mix(x, a, b), association_beyond_even_mix(x, b, a)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)


def mixed(rng, n, share):
    """Neutral pictures of which ``share`` are like those of A; pictures of A are less alike."""
    of_a = rng.random(n) < share
    return np.where(of_a[:, None], rows(rng, n, 0.9, 0), rows(rng, n, 0.3, 1))


def test_an_even_mix_of_unequally_varied_pictures_is_neutral_only_here():
    rng = np.random.default_rng(2)
    p_values, leans = [], []
    for _ in range(300):
        a, b, x = rows(rng, 31, 0.9, 0), rows(rng, 37, 0.3, 1), mixed(rng, 41, 0.5)
        found = association_beyond_even_mix(x, a, b)
        error = (found.high - found.low) / (2 * stats.norm.ppf(0.975))
        p_values.append(2 * stats.norm.sf(abs(found.value) / error))
        leans.append(mean_association(x, a, b).value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(leans) < -0.1  # Eq. 2 alone reads as leaning to B


@pytest.mark.slow
def test_chance_that_two_sets_share_widens_the_interval_once():
    """Pictures vary in 96 directions and the targets are all of A: seen along x̄ - ā there is chance alone."""
    rng = np.random.default_rng(9)

    def drawn(n, sign):
        return np.eye(96)[0] + sign * 0.2 * np.eye(96)[1] + 0.2 * rng.normal(size=(n, 96))

    truth = association_beyond_even_mix(drawn(9000, 1), drawn(9000, 1), drawn(9000, -1)).value
    estimates = [association_beyond_even_mix(drawn(31, 1), drawn(11, 1), drawn(11, -1)) for _ in range(800)]
    # 95 % give or take two standard errors of 0.8 points, and what is cut at 0; counted twice it was 98.5 %
    assert 0.934 <= np.mean([one.low <= truth <= one.high for one in estimates]) <= 0.976


def test_a_planted_lean_is_found():
    rng = np.random.default_rng(3)
    found = association_beyond_even_mix(mixed(rng, 101, 0.8), rows(rng, 101, 0.9, 0), rows(rng, 101, 0.3, 1))
    assert found.low > 0


@pytest.mark.parametrize("bad", [np.empty((0, D)), np.ones((1, D)), np.zeros((3, D)), np.full((3, D), np.nan)])
@pytest.mark.parametrize("place", range(3))
def test_what_has_no_alikeness_is_refused(bad, place):
    sets = [np.random.default_rng(5).normal(size=(n, D)) for n in (3, 5, 7)]
    sets[place] = bad
    with pytest.raises(InvalidInput):
        association_beyond_even_mix(*sets)
