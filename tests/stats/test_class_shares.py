"""Shares of several classes: by hand, with a reader that errs, and intervals that hold what was drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.class_shares import class_shares
from bias_core.types import ClassErrors

TONES = np.arange(1, 6)
SHARES = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
READ_AS = np.array(
    [[0.8, 0.2, 0, 0, 0], [0.15, 0.8, 0.05, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0.1, 0.9, 0], [0, 0, 0, 0.2, 0.8]]
)


def errors_of(matrix, n=10**7):
    counts = tuple(tuple(round(n * share) for share in row) for row in matrix)
    return ClassErrors(classes=tuple(map(str, range(len(matrix)))), counts=counts)


def test_errors_are_taken_out_exactly_of_what_they_make_of_the_shares():
    counts = np.round(100_000 * SHARES @ READ_AS)
    np.testing.assert_allclose(class_shares(counts, errors_of(READ_AS)).value, SHARES, atol=1e-4)


def test_pictures_of_nobody_are_left_out_also_where_they_are_read_as_somebody():
    matrix = np.vstack([np.hstack([0.9 * READ_AS, np.full((5, 1), 0.1)]), [0.05] * 5 + [0.75]])
    matrix[-1] /= matrix[-1].sum()
    counts = np.round(100_000 * np.append(0.6 * SHARES, 0.4) @ matrix)
    shares = class_shares(counts, errors_of(matrix), has_unclear=True)
    np.testing.assert_allclose(shares.value, SHARES, atol=1e-3)
    assert shares.n == pytest.approx(60_000, rel=1e-3)


def test_the_likelihood_interval_of_two_classes_is_that_of_a_binomial_share():
    n, x = 40, 13
    found, most = class_shares([n - x, x]).interval([0, 1]), stats.chi2.ppf(0.95, 1)

    def left(p):
        return 2 * (x * math.log(x / n / p) + (n - x) * math.log((n - x) / n / (1 - p)))

    assert [left(found.low), left(found.high)] == pytest.approx([most, most], rel=1e-5)
    assert found.low < x / n < found.high


def test_pictures_that_are_all_alike_leave_the_mean_open():
    found = class_shares([0, 0, 20, 0, 0]).interval(TONES)
    unseen = 1 - math.exp(-stats.chi2.ppf(0.95, 1) / 40)  # share of a class that 20 pictures may all miss
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 - 2 * unseen, 3 + 2 * unseen))


@pytest.mark.parametrize("matrix", [None, READ_AS])
def test_intervals_hold_what_is_planted_and_all_shares_together(matrix):
    rng, n, repetitions = np.random.default_rng(4), 80, 80
    held, together = 0, 0
    for _ in range(repetitions):
        known = np.array([rng.multinomial(200, row) for row in READ_AS]) if matrix is not None else None
        errors = (
            None if known is None else ClassErrors(classes=tuple("abcde"), counts=tuple(map(tuple, known.tolist())))
        )
        shares = class_shares(rng.multinomial(n, SHARES if matrix is None else SHARES @ matrix), errors)
        mean = shares.interval(TONES)
        held += mean.low <= SHARES @ TONES <= mean.high
        together += all(
            one.low - 1e-9 <= share <= one.high + 1e-9 for one, share in zip(shares.intervals(), SHARES, strict=True)
        )
    assert 0.90 <= held / repetitions <= 0.99
    assert together / repetitions >= 0.92


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_share_that_is_0_or_small_is_held_though_errors_are_read_as_it(share):
    matrix = np.array([[0.86, 0.10, 0.04], [0.10, 0.84, 0.06], [0.04, 0.06, 0.90]])
    truth, held, above, repetitions, rng = np.array([0.6, 0.4 - share, share]), 0, 0, 100, np.random.default_rng(8)
    for _ in range(repetitions):
        known = [rng.multinomial(150, row) for row in matrix]
        errors = ClassErrors(classes=tuple("abc"), counts=tuple(tuple(map(int, row)) for row in known))
        found = class_shares(rng.multinomial(120, truth @ matrix), errors).interval([0, 0, 1])
        held += found.low <= share <= found.high
        above += found.value > 0
    assert 0.92 <= held / repetitions <= 0.995
    assert above / repetitions > 0.4  # of which an interval that is made of the share alone never reaches 0


def test_what_is_not_known_of_the_errors_widens_the_interval():
    counts = np.round(500 * SHARES @ READ_AS)
    few, many = (class_shares(counts, errors_of(READ_AS, n)).interval(TONES) for n in (20, 10**7))
    plain = class_shares(counts).interval(TONES)
    assert few.high - few.low > 1.05 * (many.high - many.low) > plain.high - plain.low


def test_the_covariance_is_that_of_many_draws():
    rng, n = np.random.default_rng(7), 400
    errors = errors_of(READ_AS)
    drawn = [class_shares(rng.multinomial(n, SHARES @ READ_AS), errors).value for _ in range(400)]
    expected = class_shares(np.round(n * SHARES @ READ_AS), errors).covariance
    seen = np.cov(np.array(drawn).T)
    np.testing.assert_allclose(np.sqrt(np.diag(seen))[:3], np.sqrt(np.diag(expected))[:3], rtol=0.15)


@pytest.mark.parametrize(("counts", "errors", "says"), [
    ([], None, "shape|at least|size|needs"),
    ([3], None, "at least 2 classes"),
    ([0, 0, 0], None, "at least one picture"),
    ([1, -1, 2], None, "whole numbers"),
    ([1, 0.5, 2], None, "whole numbers"),
    ([1, math.nan], None, "finite|nan"),
    ([1, 2, 3], errors_of(READ_AS), "errors are needed of 3 classes"),
    ([1, 2], errors_of([[0.5, 0.5], [0.5, 0.5]]), "errs too often"),
    ([1, 2], errors_of([[0.0, 0.0], [0.5, 0.5]]), "counted on pictures of each"),
])  # fmt: skip
def test_what_cannot_be_corrected_is_refused(counts, errors, says):
    with pytest.raises(InvalidInput, match=says):
        class_shares(counts, errors)


def test_pictures_of_which_nothing_can_be_told_have_no_shares():
    with pytest.raises(InvalidInput, match="none of the 7"):
        class_shares([0, 0, 7], has_unclear=True)
