"""Leans between their own poles, δ′ and α′: arithmetic, planted mixtures, naive loops, coverage and false alarms."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from bias_core.errors import InvalidInput
from bias_core.measures.relative_association import (
    log_amplification,
    log_amplification_estimate,
    mean_log_amplification,
    mean_relative_lean_difference,
    relative_lean,
    relative_lean_difference,
    relative_lean_difference_estimate,
    relative_lean_over_encoders,
    text_relative_lean,
)
from bias_core.types import Estimate

D = 7
EAST, NORTH = [[1.0, 0.0]], [[0.0, 1.0]]


def pictures(rng, n, share, *, look=1, lean=0.5):
    """n pictures of a look, of which a share shows A: they lie ``lean`` towards A, the others as far towards B."""
    rows = rng.normal(size=(n, D)) * 0.15
    rows[:, 0] += 1.5
    rows[:, look] += 0.5
    rows[:, 3] += lean * np.where(rng.random(n) < share, 1, -1)
    return rows


def world(rng, share, sizes=(24, 12, 13, 16, 17), lean=0.5):
    """Targets, both poles, and other pictures of A and of B."""
    looks, shares = (1, 1, 1, 2, 2), (share, 1, 0, 1, 0)
    return [pictures(rng, n, p, look=k, lean=lean) for n, p, k in zip(sizes, shares, looks, strict=True)]


def lean_of(*sets, **options):
    """r of one encoder's five sets."""
    return relative_lean_over_encoders([sets], **options)


def test_r_is_one_at_the_pole_of_a_and_minus_one_at_that_of_b():
    assert relative_lean(0.3, 0.3, -0.1) == 1
    assert relative_lean(-0.1, 0.3, -0.1) == -1
    # (2 · 0.2 - 0.3 + 0.1) / (0.3 + 0.1) = 0.2 / 0.4
    assert relative_lean(0.2, 0.3, -0.1) == pytest.approx(0.5)
    # on another scale and with another middle it is the same
    assert relative_lean(1 + 0.2 / 4, 1 + 0.3 / 4, 1 - 0.1 / 4) == pytest.approx(0.5)


def test_by_hand_with_one_picture_of_each():
    # Lean direction (1, -1): target (0.6, 0.8) scores -0.2, the poles 1 and -1, so r = -0.2 without an interval.
    estimate = lean_of([[0.6, 0.8]], EAST, NORTH, EAST, NORTH)
    assert estimate.value == pytest.approx(-0.2)
    assert math.isnan(estimate.low)
    assert "at least 8 units of each set, and there are 1" in estimate.note
    assert text_relative_lean([([[0.6, 0.8]], EAST, NORTH, EAST, NORTH)]) == pytest.approx(-0.2)


@pytest.mark.parametrize("lean", [0.5, 0.1])
def test_a_planted_mixture_reads_as_its_share_whatever_the_scale_of_the_encoder(lean):
    rng = np.random.default_rng(0)
    for share in (0.5, 0.8, 1.0):
        sets = world(rng, share, sizes=(40_000, 9_000, 9_001, 5_003, 5_009), lean=lean)
        assert lean_of(*sets).value == pytest.approx(2 * share - 1, abs=0.04)


def naive(sets):
    x, a, b, to_a, to_b = ([row / np.linalg.norm(row) for row in one] for one in sets)

    def score(rows):
        return np.mean([np.mean([r @ p for p in to_a]) - np.mean([r @ p for p in to_b]) for r in rows])

    return score(x), score(a), score(b)


def test_value_and_ends_are_those_of_a_naive_loop_and_of_a_search():
    rng = np.random.default_rng(1)
    # The targets are of another look than their poles, so that c'Σ_l c is more than chance and nothing is cut at 0.
    sets = [pictures(rng, 11, 0.7, look=4), *world(rng, 0.7, sizes=(11, 9, 8, 10, 13))[1:]]
    sets[0][:, 3:5] += 2
    score, pole_a, pole_b = naive(sets)
    estimate = lean_of(*sets)
    assert estimate.value == pytest.approx(relative_lean(score, pole_a, pole_b))
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sets]
    x, a, b, to_a, to_b = (rows.mean(axis=0) for rows in units)
    of_x, of_a, of_b, of_to_a, of_to_b = (np.cov(rows, rowvar=False) / len(rows) for rows in units)
    lean, of_lean = to_a - to_b, of_to_a + of_to_b

    def terms(rho):
        """Parts of the variance of c·l, c = 2 x̄ - (1 + ρ) ā - (1 - ρ) b̄: E(l'Σ_c l) by set, and c'Σ_l c."""
        c = 2 * x - (1 + rho) * a - (1 - rho) * b
        of_c = [4 * of_x, (1 + rho) ** 2 * of_a, (1 - rho) ** 2 * of_b]
        shared = np.trace(sum(of_c) @ of_lean)
        with_poles = np.cov(np.vstack([units[0], a, b]), rowvar=False) / len(units[0])
        return [*(lean @ one @ lean for one in (4 * with_poles, *of_c[1:])), c @ of_lean @ c - shared]

    at, own = np.array(terms(estimate.value)), np.array([10, 8, 7, 9])
    assert min(at) >= 0
    df = min(at.sum() ** 2 / (at**2 / (own + 2)).sum() - 2, own.sum())
    reach = stats.t.ppf(0.975, df)

    def beyond(rho):
        value = 2 * score - (1 + rho) * pole_a - (1 - rho) * pole_b
        return value**2 - reach**2 * sum(terms(rho))

    for end, side in ((estimate.low, -40), (estimate.high, 40)):
        assert beyond(end) == pytest.approx(0, abs=1e-9)
        assert end == pytest.approx(optimize.brentq(beyond, *sorted((estimate.value, estimate.value + side))))


@pytest.mark.slow
def test_the_interval_holds_the_place_of_many_pictures():
    rng = np.random.default_rng(2)
    truth = lean_of(*world(rng, 0.65, sizes=(30_000, 9_000, 9_001, 9_000, 9_001))).value
    estimates = [lean_of(*world(rng, 0.65)) for _ in range(400)]
    # 95 % of 400, give or take two standard errors of 1.1 points
    assert 0.928 <= np.mean([one.low <= truth <= one.high for one in estimates]) <= 0.975


@pytest.mark.slow
def test_chance_in_both_factors_widens_the_interval_once():
    """Pictures vary in 200 directions and targets are as their pole, so that c is nothing but chance; r is 1."""
    rng = np.random.default_rng(9)

    def drawn(n, sign):
        return np.eye(200)[0] + sign * 0.7 * np.eye(200)[1] + 0.2 * rng.normal(size=(n, 200))

    sizes, signs = (31, 11, 13, 11, 11), (1, 1, -1, 1, -1)
    estimates = [lean_of(*map(drawn, sizes, signs)) for _ in range(500)]
    # 97.3 %, as the target more at the other pole widens it; with chance counted twice it was 99.1 %
    assert 0.95 <= np.mean([one.low <= 1 <= one.high for one in estimates]) <= 0.982


@pytest.mark.slow
def test_targets_nearly_all_of_one_kind_are_no_more_certain_than_others():
    """Of 20 targets one in ten is of the other kind: r is -0.8, and in one sample of eight all 20 are alike."""
    rng = np.random.default_rng(0)

    def drawn(n, share):
        return np.eye(6)[0] * 5 + np.eye(6)[1] * rng.choice([1, -1], p=[share, 1 - share], size=(n, 1))

    sizes, shares = (20, 10, 10, 64, 64), (0.1, 1, 0, 1, 0)
    p_values = np.array(
        [
            lean_of(*[rows + 0.3 * rng.normal(size=rows.shape) for rows in map(drawn, sizes, shares)], null_value=-0.8)
            .p_value
            for _ in range(2000)
        ]
    )  # fmt: skip
    assert np.mean(p_values <= 0.05) <= 0.06
    assert np.mean(p_values <= 0.05 / 28) <= 0.004  # 28 targets; 0.008 without a target more at each pole


@pytest.mark.slow
def test_an_even_mix_is_told_from_the_middle_in_five_percent():
    rng = np.random.default_rng(3)
    estimates = [lean_of(*world(rng, 0.5)) for _ in range(400)]
    assert np.mean([not one.low <= 0 <= one.high for one in estimates]) <= 0.07


def test_swapping_a_and_b_turns_the_sign_and_the_order_of_pictures_nothing():
    x, a, b, to_a, to_b = world(np.random.default_rng(4), 0.7)
    one, turned = lean_of(x, a, b, to_a, to_b), lean_of(x[::-1], b, a, to_b, to_a)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-one.value, -one.high, -one.low))


def test_scores_are_averaged_over_encoders():
    rng = np.random.default_rng(5)
    sets = world(rng, 0.7, sizes=(11, 9, 8, 10, 13))
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0]
    other = [rows @ turn * 3 for rows in sets]
    one = lean_of(*sets)
    assert relative_lean_over_encoders([sets, other]).low == pytest.approx(one.low)  # cosines do not turn
    another = world(rng, 0.2, sizes=(11, 9, 8, 10, 13))
    scores = np.mean([naive(sets), naive(another)], axis=0)
    assert relative_lean_over_encoders([sets, another]).value == pytest.approx(relative_lean(*scores))
    with pytest.raises(InvalidInput, match="same pictures"):
        relative_lean_over_encoders([sets, world(rng, 0.7)])


def test_prompts_can_be_the_sampling_units():
    rng = np.random.default_rng(6)
    x, a, b, to_a, to_b = world(rng, 0.7, sizes=(11, 9, 10, 8, 8))
    pairs = ["p", "p", "q", "q"] * 2
    doubled = lean_of(x, a, b, np.repeat(to_a, 2, axis=0), np.repeat(to_b, 2, axis=0))
    grouped = lean_of(
        x, a, b, np.repeat(to_a, 2, axis=0), np.repeat(to_b, 2, axis=0),
        groups=[None, None, None, np.repeat(range(8), 2), np.repeat(range(8), 2)],
    )  # fmt: skip
    single = lean_of(x, a, b, to_a, to_b)
    assert (grouped.low, grouped.high) == pytest.approx((single.low, single.high))  # copies are no new pictures
    assert doubled.n == grouped.n + 16
    coarse = lean_of(x, a, b, to_a, to_b, groups=[None, None, None, pairs, pairs])
    assert coarse.value == pytest.approx(single.value)
    assert math.isnan(coarse.low)  # two prompts a side tell nothing of others


def test_poles_that_are_not_told_apart_make_no_scale_and_no_zero():
    rng = np.random.default_rng(7)
    x, a, _, to_a, to_b = world(rng, 0.7)
    for poles in ((a, a), (pictures(rng, 3, 0.5), pictures(rng, 3, 0.5))):
        estimate = lean_of(x, *poles, to_a, to_b)
        assert math.isnan(estimate.value)
        assert "not distinguish" in estimate.note
    assert math.isnan(text_relative_lean([(NORTH, EAST, EAST, EAST, NORTH)]))
    with pytest.raises(InvalidInput, match="must differ"):
        relative_lean(0.1, 0.2, 0.2)


@pytest.mark.parametrize(("change", "says"), [
    ({0: np.ones((4, D))}, "All 4 targets are equal"),
    ({3: np.ones((4, D)), 4: np.ones((3, D))}, "All 7 attributes"),
    ({1: np.empty((0, D))}, "poles_a"),
    ({2: np.ones((3, D + 1))}, "poles_b"),
])  # fmt: skip
def test_sets_that_tell_nothing_are_refused_with_what_came(change, says):
    sets = dict(enumerate(world(np.random.default_rng(8), 0.7))) | change
    with pytest.raises(InvalidInput, match=says):
        lean_of(*sets.values())


def test_a_reading_without_five_sets_or_encoders_is_refused():
    with pytest.raises(InvalidInput, match="at least one encoder"):
        relative_lean_over_encoders([])
    with pytest.raises(InvalidInput, match="at least one encoder"):
        text_relative_lean([])
    with pytest.raises(InvalidInput, match="got 2"):
        relative_lean_over_encoders([(EAST, NORTH)])


def test_the_difference_is_that_of_the_places():
    assert relative_lean_difference(0.5, 0.2) == pytest.approx(0.3)
    assert relative_lean_difference(-0.2, 0.2) == pytest.approx(-0.4)  # which the paper's δ reads as 0
    assert relative_lean_difference(0.2, -0.2) == -relative_lean_difference(-0.2, 0.2)


def test_pictures_that_lean_as_the_words_do_are_told_from_them_in_five_percent():
    rng = np.random.default_rng(0)
    words = lean_of(*world(rng, 0.7, sizes=(30_000, 9_000, 9_001, 9_000, 9_001))).value
    alarms = []
    for _ in range(300):
        found = relative_lean_difference_estimate(lean_of(*world(rng, 0.7)), words)
        alarms.append(not found.low <= 0 <= found.high)
    assert np.mean(alarms) <= 0.07


def test_a_planted_difference_is_found():
    found = relative_lean_difference_estimate(lean_of(*world(np.random.default_rng(1), 0.95)), 0.1)
    assert found.low > 0
    assert found.null_value == 0


def test_the_mean_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(2)
    pictures, texts = rng.normal(size=(2, 7))
    found = mean_relative_lean_difference(pictures, texts)
    interval = stats.ttest_rel(pictures, texts).confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert math.isnan(mean_relative_lean_difference([0.5], [0.1]).low)


def test_without_a_place_there_is_no_difference_and_no_zero():
    unknown = Estimate.undefined(9, "not told apart", null_value=0.0)
    assert relative_lean_difference_estimate(unknown, 0.1).note == "not told apart"
    without = relative_lean_difference_estimate(Estimate(value=0.1, low=0.0, high=0.2, n=9), math.nan)
    assert math.isnan(without.value)
    assert "does not tell" in without.note


@pytest.mark.parametrize(("pictures", "texts"), [([], []), ([0.1], [0.1, 0.2]), ([math.nan], [0.1])])
def test_bad_places_are_refused(pictures, texts):
    with pytest.raises(InvalidInput):
        mean_relative_lean_difference(pictures, texts)


def test_twice_and_half_as_strongly_lie_as_far_from_nothing():
    assert log_amplification(0.4, 0.2) == pytest.approx(math.log(2))
    assert log_amplification(0.2, 0.4) == pytest.approx(-math.log(2))
    assert log_amplification(-0.4, -0.4) == 0


@pytest.mark.slow
def test_pictures_that_lean_as_the_words_do_read_zero_in_ninety_five_percent():
    rng = np.random.default_rng(1)
    words = lean_of(*world(rng, 0.8, sizes=(30_000, 9_000, 9_001, 9_000, 9_001))).value
    found = [log_amplification_estimate(lean_of(*world(rng, 0.8)), words) for _ in range(400)]
    assert sum(math.isnan(one.value) for one in found) < 20
    # 5 % of 400, and two standard errors of 1.1 points; of 2,000 it is 5.7 %
    assert np.mean([one.low > 0 or one.high < 0 for one in found]) <= 0.072
    assert np.mean([one.low > math.log(1.5) or one.high < math.log(1.5) for one in found]) > 0.2  # another ratio


def test_where_the_interval_of_the_ratio_reaches_zero_its_logarithm_has_no_lower_end():
    found = log_amplification_estimate(Estimate(value=-0.2, low=-0.4, high=0.1, n=9, method="Fieller 95 %"), -0.1)
    # ratios 2, from -1 to 4
    assert (found.value, found.high) == pytest.approx((math.log(2), math.log(4)))
    assert found.low == -math.inf
    assert found.method == "Fieller 95 %"


@pytest.mark.parametrize(
    ("pictures", "texts", "says"),
    [(0.3, 0.01, "no clear"), (-0.3, 0.2, "opposite"), (0.0, 0.2, "opposite"), (0.3, math.nan, "does not tell")],
)
def test_what_has_no_ratio_says_why(pictures, texts, says):
    found = log_amplification_estimate(Estimate(value=pictures, low=-0.9, high=0.9, n=9), texts)
    assert math.isnan(found.value)
    assert says in found.note


def test_several_concepts_together_leave_none_out():
    # towards the words' side 0.4, 0.2 and -0.1, in all 0.5; the words lean 0.2 + 0.3 + 0.125 = 0.625: ln 0.8
    assert mean_log_amplification([0.4, -0.2, 0.1], [0.2, -0.3, -0.125]).value == pytest.approx(math.log(0.8))
    assert mean_log_amplification([0.4, -0.6], [0.2, -0.3]).value == pytest.approx(math.log(2))
    turned = mean_log_amplification([-0.4, 0.6], [0.2, -0.3])
    assert math.isnan(turned.value)
    assert "opposite" in turned.note
    assert "no clear association" in mean_log_amplification([0.1, 0.2], [0.0, -0.02]).note
    assert math.isnan(mean_log_amplification([0.1], [0.1]).low)


def test_the_interval_of_several_concepts_is_about_that_of_a_bootstrap():
    rng = np.random.default_rng(1)
    texts = rng.normal(0, 0.4, size=53)
    pictures = 1.5 * texts + rng.normal(0, 0.2, size=53)
    found = mean_log_amplification(pictures, texts)
    drawn = rng.integers(0, 53, size=(4000, 53))
    along = (np.sign(texts) * pictures)[drawn].mean(axis=1)
    low, high = np.quantile(np.log(along / np.abs(texts)[drawn].mean(axis=1)), [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)


def test_the_interval_of_several_concepts_holds_what_is_planted():
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        texts = rng.normal(0, 0.4, size=28)
        one = mean_log_amplification(1.5 * texts + rng.normal(0, 0.25, size=28), texts)
        held.append(one.low <= math.log(1.5) <= one.high)
    assert 0.928 <= np.mean(held) <= 0.975  # 95 % of 400, give or take two standard errors; of 3,000 it is 95.5 %


@pytest.mark.parametrize(("pictures", "texts"), [([], []), ([0.1], [0.1, 0.2]), ([math.nan], [0.1])])
def test_bad_places_of_a_ratio_are_refused(pictures, texts):
    with pytest.raises(InvalidInput):
        mean_log_amplification(pictures, texts)


def test_an_impossible_threshold_is_quoted():
    with pytest.raises(InvalidInput, match="got 0"):
        log_amplification(0.1, 0.1, minimum_texts=0)
