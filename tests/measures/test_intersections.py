"""Attributes seen together: by hand, on planted tables, with a reader that errs, and against scipy."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact, hypergeom
from scipy.stats.contingency import odds_ratio

from bias_core.errors import InvalidInput
from bias_core.measures.intersections import ParityFamily, crossed_shares, crossed_stereotype, interaction
from bias_core.measures.paired_stereotype import stereotype_test_score
from bias_core.types import ReaderErrors
from tests.metric_inputs import in_cells as people, in_cells as rows

PLANTED = np.array([0.25, 0.25, 0.05, 0.45])  # odds ratio 9, each by itself 0.5 and 0.7


def drawn(shares, n, rng):
    return rows(*rng.multinomial(n, shares))


def test_shares_expected_and_shrunk_are_as_by_hand():
    crossed = crossed_shares(rows(1, 2, 3, 4))
    assert crossed.counts.tolist() == [1, 2, 3, 4]
    # First in 7 of 10, second in 6 of 10: 0.3 · 0.4, 0.3 · 0.6, 0.7 · 0.4, 0.7 · 0.6.
    np.testing.assert_allclose(crossed.expected, [0.12, 0.18, 0.28, 0.42])
    # 1 − (.01 + .04 + .09 + .16) = .7 over 4 · .02² = .0016: K = 437.5; all but none of it stays with λ.
    assert crossed.weight == pytest.approx(437.5 / 447.5)
    np.testing.assert_allclose(crossed.shrunk, (10 * np.arange(1, 5) / 10 + 437.5 * crossed.expected) / 447.5)
    assert [one.value for one in crossed.excess] == pytest.approx([-0.02, 0.02, 0.02, -0.02])
    assert crossed.n_needed == 42  # 5 / 0.12 = 41.7


def test_the_interval_of_a_share_is_wilsons_where_the_reader_does_not_err():
    low, high = (crossed_shares(rows(3, 5, 11, 7)).together.low, crossed_shares(rows(3, 5, 11, 7)).together.high)
    n, p, z = 26, 7 / 26, 1.959964
    middle, reach = (p + z * z / 2 / n), z * math.sqrt(p * (1 - p) / n + z * z / 4 / n**2)
    assert (low, high) == pytest.approx(((middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)))


def test_the_expected_table_is_that_of_the_margins_without_an_interaction():
    # Margins 3 and 2 of 5, twice: 3 · 3 / 5, 3 · 2 / 5, 2 · 3 / 5, 2 · 2 / 5; at the ends one side holds all it can.
    family = ParityFamily(tables=np.array([[2, 1, 1, 1]]))
    np.testing.assert_allclose(family.expected(0.0), [1.8, 1.2, 1.2, 0.8])
    assert family.expected(math.inf).tolist() == [3, 0, 0, 2]
    assert family.expected(-math.inf).tolist() == [1, 2, 2, 0]


def test_a_reader_that_errs_is_corrected_exactly_on_what_is_expected():
    se, sp = (0.9, 0.8), (0.95, 0.7)
    matrices = [np.array([[p, 1 - e], [1 - p, e]]) for e, p in zip(se, sp, strict=True)]
    read = np.kron(*matrices) @ PLANTED
    counts = np.round(100_000 * read).astype(int)
    errors = [
        ReaderErrors(sensitivity=e, specificity=p, n_positive=10**9, n_negative=10**9)
        for e, p in zip(se, sp, strict=True)
    ]
    crossed = crossed_shares(rows(*counts), errors=errors)
    np.testing.assert_allclose([one.value for one in crossed.shares], PLANTED, atol=1e-4)
    assert crossed.excess_together.value == pytest.approx(0.45 - 0.5 * 0.7, abs=1e-4)
    # Smaller numbers, as exact sums over 100,000 pictures take long.
    few = rows(*np.round(2000 * read).astype(int))
    as_read, corrected = (math.exp(interaction(few, errors=e).estimate.value) for e in (None, errors))
    assert as_read < 4 < 8.5 < corrected < 9.6
    as_read, corrected = (interaction(few, errors=e).estimate.p_value for e in (None, errors))
    assert corrected == pytest.approx(as_read, rel=1e-9)


def test_what_a_correction_would_empty_stands_as_read_and_says_so():
    errors = [ReaderErrors(sensitivity=0.9, specificity=0.9, n_positive=100, n_negative=100)] * 2
    found = interaction(rows(20, 1, 1, 20), errors=errors).estimate
    assert found.value == interaction(rows(20, 1, 1, 20)).estimate.value
    assert "as large as the rarest cell" in found.note


@pytest.mark.parametrize("counts", [(8, 2, 1, 5), (30, 20, 10, 40), (9, 3, 3, 5), (40, 7, 13, 3)])
def test_two_attributes_are_as_scipy_has_them(counts):
    found, square = interaction(rows(*counts)), np.array(counts).reshape(2, 2)
    (a, b), (c, d) = square
    chances = hypergeom.pmf(np.arange(a + b + 1), a + b + c + d, a + b, a + c)
    smaller = min(fisher_exact(square, alternative=side).pvalue for side in ("less", "greater"))
    assert found.estimate.p_value == pytest.approx(min(1, 2 * smaller - chances[a]))  # what was seen counts half
    exact = odds_ratio(square)
    assert math.exp(found.estimate.value) == pytest.approx(exact.statistic, rel=1e-6)
    ends = exact.confidence_interval(0.95)  # mid-p counts what was seen half, and so is a little narrower
    assert ends.low < math.exp(found.estimate.low) < exact.statistic < math.exp(found.estimate.high) < ends.high


def test_an_empty_cell_has_a_finite_value_and_one_end():
    found = interaction(rows(9, 0, 3, 5)).estimate
    assert math.isfinite(found.value)
    assert (found.low > 0, found.high) == (True, math.inf)


def test_three_attributes_are_as_a_naive_sum_over_all_tables():
    counts, signs = np.array([4, 2, 3, 5, 1, 6, 7, 2]), np.array([-1, 1, 1, -1, 1, -1, -1, 1])
    weights = {
        u: math.prod(1 / math.factorial(int(c)) for c in counts + u * signs)
        for u in range(-9, 9)
        if min(counts + u * signs) >= 0
    }
    chances = {u: weight / sum(weights.values()) for u, weight in weights.items()}
    sides = [sum(chance for u, chance in chances.items() if sign * u > 0) for sign in (1, -1)]
    p_value = min(1, 2 * min(sides) + chances[0])  # mid-p
    assert interaction(rows(*counts)).estimate.p_value == pytest.approx(p_value)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("is_corrected", [False, True])
def test_an_interval_excludes_0_just_where_p_is_as_small(k, is_corrected):
    rng, seen = np.random.default_rng(k), set()
    errors = (
        [ReaderErrors(sensitivity=0.9, specificity=0.85, n_positive=90, n_negative=70)] * k if is_corrected else None
    )
    for _ in range(150):
        readings = rng.random((37, k)) < rng.uniform(0.25, 0.75, k)
        readings[:, 1] ^= rng.random() < 0.5 * readings[:, 0] * (rng.random(37) < 0.9)
        found = interaction(readings, strata=list("ab" * 19)[:37], errors=errors).estimate
        if not math.isnan(found.value):
            assert (found.p_value <= 0.05) == (found.low > 0 or found.high < 0)
            seen.add(found.p_value <= 0.05)
    assert seen == {False, True}


def test_a_score_excludes_0_just_where_p_is_as_small():
    rng, seen = np.random.default_rng(0), set()
    errors = [ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=90, n_negative=70)] * 2
    for _ in range(150):
        readings = rng.random((31, 2)) < rng.uniform(0.2, 0.8, 2)
        for given in (None, errors):
            for score in crossed_stereotype(readings, errors=given).scores:
                assert (score.p_value <= 0.05) == (score.low > 0 or score.high < 0)
                seen.add(score.p_value <= 0.05)
    assert seen == {False, True}


def test_prompts_that_differ_are_no_interaction():
    """Women old and men young by prompt alone: the pooled table says much, the tables of the prompts nothing."""
    apart = np.vstack([rows(36, 4, 9, 1), rows(1, 9, 4, 36)])
    prompts = ["a"] * 50 + ["b"] * 50
    assert interaction(apart).estimate.p_value < 1e-5
    within = interaction(apart, strata=prompts)
    assert within.estimate.p_value > 0.8
    assert abs(within.estimate.value) < 0.1
    crossed = crossed_shares(apart, strata=prompts)
    assert crossed.excess_together.value == pytest.approx(0, abs=1e-12)
    assert crossed_shares(apart).excess_together.low > 0


@pytest.mark.slow
def test_what_is_planted_is_found_what_is_not_is_not_claimed_and_intervals_hold():
    rng, n, repetitions = np.random.default_rng(0), 200, 100
    found = [interaction(drawn(PLANTED, n, rng)) for _ in range(repetitions)]
    nothing = [interaction(drawn(np.outer([0.3, 0.7], [0.85, 0.15]).ravel(), n, rng)) for _ in range(repetitions)]
    assert np.mean([one.estimate.p_value < 0.05 for one in found]) >= 0.95
    assert np.mean([one.estimate.p_value < 0.05 for one in nothing]) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / repetitions)
    held = np.mean([one.estimate.low <= math.log(9) <= one.estimate.high for one in found])
    assert 0.91 <= held <= 0.99


def test_shrinking_comes_nearer_where_nothing_is_planted_and_stays_in_the_interval():
    rng, truth = np.random.default_rng(1), np.kron([0.6, 0.4], np.kron([0.8, 0.2], [0.7, 0.3]))
    plain, shrunk = [], []
    for _ in range(60):
        crossed = crossed_shares(drawn(truth, 90, rng))
        plain.append(sum((one.value - p) ** 2 for one, p in zip(crossed.shares, truth, strict=True)))
        shrunk.append(float(((crossed.shrunk - truth) ** 2).sum()))
        assert all(one.low <= p <= one.high for one, p in zip(crossed.shares, crossed.shrunk, strict=True))
    assert np.mean(shrunk) < 0.8 * np.mean(plain)


def test_an_attribute_that_is_everywhere_says_nothing_about_links():
    found, crossed = interaction(rows(0, 0, 6, 7)), crossed_shares(rows(0, 0, 6, 7))
    assert math.isnan(found.estimate.value)
    assert math.isnan(found.estimate.p_value)
    assert "in all pictures or in none" in found.estimate.note
    assert math.isnan(crossed.excess_together.value)
    assert crossed.together.value == pytest.approx(7 / 13)


@pytest.mark.parametrize(("readings", "words"), [
    (np.ones((5, 4)), "2 to 3 attributes; got shape"),
    (np.ones((5, 1)), "2 to 3 attributes"),
    ([[0, 1], [1, 0.5]], "0 or 1; got 1 others, the first is 0.5"),
    ([[0, 1], [1]], "rectangular"),
    ([[0, math.nan], [1, 0]], "0 or 1"),
])  # fmt: skip
def test_what_cannot_be_crossed_is_quoted(readings, words):
    for measure in (crossed_shares, interaction):
        with pytest.raises(InvalidInput, match=words):
            measure(readings)


def test_strata_and_errors_are_one_each():
    with pytest.raises(InvalidInput, match="readings 4, strata 3"):
        interaction(rows(1, 1, 1, 1), strata=["a", "b", "c"])
    with pytest.raises(InvalidInput, match="each of the 2 attributes; got 1"):
        crossed_shares(rows(1, 1, 1, 1), errors=[None])


def _tables(p_first, p_second, odds_ratio, n, repetitions, rng):
    """Readings of two attributes with these shares that go together so, and their true excess."""
    a, b = odds_ratio - 1, 1 + (p_first + p_second) * (odds_ratio - 1)
    both = p_first * p_second
    if a:
        both = (b - math.sqrt(b * b - 4 * a * odds_ratio * p_first * p_second)) / (2 * a)
    shares = [1 - p_first - p_second + both, p_second - both, p_first - both, both]
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    return both - p_first * p_second, [cells[rng.choice(4, size=n, p=shares)] for _ in range(repetitions)]


@pytest.mark.slow
@pytest.mark.parametrize(("shares", "odds_ratio", "n"), [
    ((0.5, 0.3), 1, 200),
    ((0.2, 0.1), 1, 200),
    ((0.5, 0.3), 4, 200),
    ((0.2, 0.1), 4, 200),
    ((0.2, 0.1), 0.25, 100),  # where one that took P and λ to be as alike as they are read held in 91.6 %,
    ((0.1, 0.1), 0.25, 400),  # and in 92.4 %
])  # fmt: skip
def test_the_interval_of_the_excess_holds_it_in_a_thousand_sets_also_in_small_cells(shares, odds_ratio, n):
    """Four of 200 pictures with (0.2, 0.1) are expected in the cell; a normal interval holds 0 in 92.5 % only."""
    excess, tables = _tables(*shares, odds_ratio, n, 1000, np.random.default_rng(3))
    ends: dict[tuple[int, ...], tuple[float, float]] = {}
    counts = [tuple(np.bincount(table @ [2, 1], minlength=4)) for table in tables]
    for one, table in zip(counts, tables, strict=True):
        if one not in ends:
            of = crossed_shares(table).excess_together
            ends[one] = of.low, of.high
    held = np.mean([ends[one][0] - 1e-12 <= excess <= ends[one][1] + 1e-12 for one in counts])
    assert 0.93 <= held <= 0.97  # where nothing goes together, the rest is what is claimed of nothing


def test_what_always_goes_together_has_an_interval_that_ends_at_its_excess():
    """P = 0.5, λ = 0.25: no more is possible with these shares, and less is."""
    one = crossed_shares([[1, 1]] * 10 + [[0, 0]] * 10).excess_together
    assert (one.value, one.high) == pytest.approx((0.25, 0.25))
    assert 0.1 < one.low < 0.25


OLD_MEN = np.array([0.25, 0.05, 0.25, 0.45])  # not conforming old and young, conforming old and young


def test_scores_and_shrunk_scores_are_as_by_hand():
    # Old: 4 of 5 conform, 100 · (2 · 0.8 − 1) = 60. Young: 3 of 9, −33.3. All: 7 of 14, 0.
    crossed = crossed_stereotype(people(1, 6, 4, 3))
    assert [one.value for one in (*crossed.scores, crossed.overall)] == pytest.approx([60, -100 / 3, 0])
    assert crossed.counts.tolist() == [5, 9]
    assert crossed.expected.tolist() == pytest.approx([2.5, 4.5])  # half of them on either side
    # P: 1, 6, 4, 3 of 14; by itself 2.5, 4.5, 2.5, 4.5. K = (1 − 62/196) / (9/196) = 134/9.
    # Shrunk, old: (14 · 4 + K · 2.5) to (14 · 1 + K · 2.5), all over 14 · 14 + ... which cancels.
    strength = 134 / 9
    conform, against = 14 * 4 + strength * 2.5, 14 * 1 + strength * 2.5
    assert crossed.shrunk[0] == pytest.approx(100 * (conform - against) / (conform + against))
    assert 0 < crossed.shrunk[0] < 60
    assert -100 / 3 < crossed.shrunk[1] < 0


@pytest.mark.parametrize("counts", [(3, 5, 11, 7), (0, 4, 6, 5), (2, 3, 5, 7, 11, 13, 17, 1)])
def test_without_errors_each_cell_is_the_score_of_its_people(counts):
    readings = people(*counts)
    frame = pd.DataFrame(readings[:, 1:]).assign(
        identity="CEO",
        stereotyped_gender="masculine",
        image_id=range(len(readings)),
        perceived_gender=np.where(readings[:, 0] == 1, "masculine", "feminine"),
    )
    frame = frame.set_axis([*"abcdefgh"[: readings.shape[1] - 1], *frame.columns[-4:]], axis=1)
    names = list(frame.columns[:-4])
    one_by_one = stereotype_test_score(frame, by=names).set_index(names).sort_index()
    crossed = crossed_stereotype(readings)
    found = [[one.value, one.low, one.high, one.p_value, one.n] for one in crossed.scores]
    alone = one_by_one[["score", "low", "high", "p_value", "n"]].to_numpy(float)
    np.testing.assert_allclose(found, alone, atol=1e-8)
    np.testing.assert_array_equal(crossed.cells, one_by_one.reset_index()[names].to_numpy(float))
    assert crossed.overall.value == pytest.approx(stereotype_test_score(frame).score)


@pytest.mark.slow
def test_intervals_hold_what_is_planted_although_the_reader_errs():
    rng = np.random.default_rng(5)
    errors = [
        ReaderErrors(sensitivity=se, specificity=sp, n_positive=997, n_negative=1009)
        for se, sp in ((0.94, 0.9), (0.9, 0.93))
    ]
    matrices = [np.array([[e.specificity, 1 - e.sensitivity], [1 - e.specificity, e.sensitivity]]) for e in errors]
    read = np.kron(*matrices) @ OLD_MEN
    exact = crossed_stereotype(people(*np.round(100_000 * read).astype(int)), errors=errors)
    assert [one.value for one in exact.scores] == pytest.approx([0, 80], abs=0.1)
    held, as_read = [], []
    for i in range(200):
        readings = people(*rng.multinomial(211, read))
        for given, line in ((errors, held), (None, as_read))[: 1 + (i < 60)]:
            scores = crossed_stereotype(readings, errors=given).scores
            line += [one.low <= target <= one.high for one, target in zip(scores, (0, 80), strict=True)]
    assert 0.93 < np.mean(held) < 0.985
    assert np.mean(as_read) < 0.9  # the correction is what holds it


@pytest.mark.slow
def test_where_cells_do_not_matter_shrunk_scores_lie_nearer_to_the_truth():
    rng, counted, shrunk = np.random.default_rng(3), [], []
    for _ in range(100):
        crossed = crossed_stereotype(people(*rng.multinomial(97, [0.24, 0.16, 0.36, 0.24])))
        counted += [(one.value - 20) ** 2 for one in crossed.scores]
        shrunk += list((crossed.shrunk - 20) ** 2)
    assert np.mean(shrunk) < 0.6 * np.mean(counted)


def test_what_nobody_looks_like_has_no_score_and_bad_readings_say_so():
    crossed = crossed_stereotype(people(4, 0, 7, 0))
    assert math.isnan(crossed.joint_score.value)
    assert crossed.joint_score.note == "no person has this combination"
    assert math.isnan(crossed.shrunk[1])
    # All alike: as certain as the exact interval is, and never a score without one.
    alike = crossed_stereotype(people(0, 0, 3, 8)).scores[1]
    assert (alike.value, alike.high) == (100, 100)
    assert 25 < alike.low < 35
    with pytest.raises(InvalidInput, match="readings must be 0 or 1"):
        crossed_stereotype([[0.5, 1]])
    with pytest.raises(InvalidInput, match="errors are needed for each of the 2"):
        crossed_stereotype(people(1, 2, 3, 4), errors=[None])
