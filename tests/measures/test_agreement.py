"""Coefficients of agreement against published examples, second libraries, naive loops and edge cases."""

import math
import re
import time
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import (
    agreement_estimate,
    cohen_kappa,
    disagreements,
    end_share,
    fleiss_kappa,
    kendall_tau,
    krippendorff_alpha,
    largest_disagreement,
    mean_level,
    reader_errors_from_labels,
)
from bias_core.measures.effects import corrected_prevalence

# The example of 10 subjects, 14 raters and 5 answers that textbooks and encyclopaedias print: κ = 0.210.
TEN_SUBJECTS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1], [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip

# [krippendorff2011, C]: 4 observers, 12 units, missing answers; α is 0.743 (nominal), 0.815 (ordinal),
# 0.849 (interval).
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
        [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
    ]
).T

# [krippendorff2011, A]: 2 observers, 10 units, answers 0 and 1: α = 0.095.
MEG = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
OWEN = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]

GENDERS = ("masculine", "feminine", "cannot_identify")
ALL = ("fleiss_kappa", "cohen_kappa", "krippendorff_alpha")


def value(coefficient, ratings):
    if coefficient == "cohen_kappa":
        return cohen_kappa(*np.asarray(ratings, dtype=object).T)
    return {"fleiss_kappa": fleiss_kappa, "krippendorff_alpha": krippendorff_alpha}[coefficient](ratings)


def naive_fleiss(ratings):
    """Shares of equal pairs, counted one by one."""
    rows = [list(row) for row in ratings]
    p = np.mean([np.mean([a == b for a, b in combinations(row, 2)]) for row in rows])
    flat = [answer for row in rows for answer in row]
    p_e = np.mean([a == b for a in flat for b in flat])
    return (p - p_e) / (1 - p_e)


def naive_alpha(ratings, delta):
    """Every pair of answers of an item, and every pair of answers, one by one."""
    rows = [[x for x in row if not pd.isna(x)] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    flat = [x for row in rows for x in row]
    observed = sum(delta(a, b) / (len(row) - 1) for row in rows for a, b in permutations(row, 2)) / len(flat)
    expected = np.mean([delta(a, b) for a, b in permutations(flat, 2)])
    return 1 - observed / expected


def test_fleiss_kappa_of_the_textbook_example():
    ratings = [np.repeat(range(5), counts) for counts in TEN_SUBJECTS]
    assert fleiss_kappa(np.array(ratings)) == pytest.approx(0.210, abs=0.0005)


def test_fleiss_kappa_by_hand():
    # Items fff, mmf, mmm: P = (1 + 1/3 + 1)/3 = 7/9. Shares f 4/9, m 5/9: P_e = 41/81. κ = 22/40.
    assert fleiss_kappa([["f", "f", "f"], ["m", "m", "f"], ["m", "m", "m"]]) == pytest.approx(0.55)


def test_cohen_kappa_by_hand():
    # Grants, two readers: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no.
    # p_o = 35/50 = 0.7; p_c = 0.5*0.6 + 0.5*0.4 = 0.5; κ = 0.2/0.5.
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)


def test_alpha_of_the_published_examples():
    assert krippendorff_alpha(np.column_stack([MEG, OWEN])) == pytest.approx(0.095, abs=0.0005)
    for level, published in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        assert krippendorff_alpha(OBSERVERS, level=level) == pytest.approx(published, abs=0.0005)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_coefficients_equal_second_opinions(seed):
    rng = np.random.default_rng(seed)
    ratings = np.vstack([list(GENDERS), rng.choice(GENDERS, size=(11, 3), p=[0.5, 0.4, 0.1])])
    assert fleiss_kappa(ratings) == pytest.approx(naive_fleiss(ratings))
    a, b = ratings[:, 0], ratings[:, 1]
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))
    holes = ratings.astype(object)
    holes[1:][rng.random((11, 3)) < 0.3] = None
    if sum(1 for row in holes if sum(x is not None for x in row) > 1) > 1:
        assert krippendorff_alpha(holes) == pytest.approx(naive_alpha(holes, lambda x, y: x != y))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_alpha_of_numbers_equals_a_naive_loop(seed):
    rng = np.random.default_rng(seed)
    ratings = np.vstack([[1, 2, 5], rng.choice([1.0, 2.0, 5.0, np.nan], size=(11, 3))])
    assert krippendorff_alpha(ratings, level="interval") == pytest.approx(
        naive_alpha(ratings, lambda x, y: (x - y) ** 2)
    )
    flat = [x for row in ratings if (~np.isnan(row)).sum() > 1 for x in row if not np.isnan(x)]

    def ranks_apart(x, y):  # answers between the two, those of both ends counted half
        low, high = min(x, y), max(x, y)
        between = sum(low <= z <= high for z in flat)
        return (between - (flat.count(low) + flat.count(high)) / 2) ** 2 if low < high else 0

    assert krippendorff_alpha(ratings, level="ordinal") == pytest.approx(naive_alpha(ratings, ranks_apart))


@pytest.mark.parametrize("coefficient", ALL)
def test_perfect_agreement_is_exactly_one(coefficient):
    assert value(coefficient, [["f", "f"], ["m", "m"], ["f", "f"]]) == 1


@pytest.mark.parametrize("coefficient", ALL)
def test_perfect_disagreement_is_negative(coefficient):
    # Two raters, each pair differs, both answers equally often: κ = (0 - 1/2) / (1 - 1/2) = -1.
    # α: D_o = 1, D_e = 2*4*4/(8*7) = 4/7, so 1 - 7/4 = -0.75.
    expected = -0.75 if coefficient == "krippendorff_alpha" else -1
    assert value(coefficient, [["f", "m"], ["m", "f"]] * 2) == pytest.approx(expected)


@pytest.mark.parametrize("coefficient", ALL)
def test_equal_ratings_everywhere_are_nan_with_a_note_and_never_agreement(coefficient):
    constant = [["f", "f"]] * 5
    assert math.isnan(value(coefficient, constant))
    estimate = agreement_estimate(constant, coefficient=coefficient)
    assert math.isnan(estimate.value)
    assert "0/0" in estimate.note
    assert estimate.n == 5


def test_a_rater_who_always_says_the_same_agrees_as_by_chance():
    assert cohen_kappa(["f", "m", "f"], ["m", "m", "m"]) == 0
    assert cohen_kappa(["f", "f"], ["m", "m"]) == 0  # though they never agree: look at the confusion table


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", ALL)
def test_random_answers_are_near_zero_and_their_intervals_cover_it(coefficient):
    rng, covered = np.random.default_rng(0), 0
    for _ in range(60):
        ratings = rng.choice(["f", "m"], size=(53, 2))
        estimate = agreement_estimate(ratings, coefficient=coefficient, n_resamples=150, rng=rng)
        covered += estimate.low <= 0 <= estimate.high
    assert 51 <= covered <= 59


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", ALL)
def test_the_interval_is_that_of_a_naive_bootstrap_over_items(coefficient):
    rng = np.random.default_rng(7)
    truth = rng.choice(["f", "m"], size=31)
    ratings = np.column_stack([np.where(rng.random(31) < 0.85, truth, rng.choice(["f", "m"], 31)) for _ in range(2)])
    estimate = agreement_estimate(ratings, coefficient=coefficient, n_resamples=2000)
    resampled = [value(coefficient, ratings[rng.integers(0, 31, 31)]) for _ in range(500)]
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert estimate.value == value(coefficient, ratings)
    assert estimate.low == pytest.approx(low, abs=0.06)
    assert estimate.high == pytest.approx(high, abs=0.06)
    assert (estimate.n, estimate.null_value) == (31, None)


def test_items_of_one_group_are_worth_one():
    ratings = np.array([["f", "f"], ["m", "m"], ["f", "m"], ["m", "m"], ["f", "f"], ["m", "f"], ["f", "f"]] * 7)
    twice = np.repeat(ratings, 2, axis=0)
    groups = np.repeat(np.arange(49), 2)
    for coefficient in ALL:
        plain = agreement_estimate(ratings, coefficient=coefficient)
        naive = agreement_estimate(twice, coefficient=coefficient)
        grouped = agreement_estimate(twice, coefficient=coefficient, groups=groups)
        assert grouped.n == 49
        assert grouped.high - grouped.low == pytest.approx(plain.high - plain.low, rel=0.1)
        assert naive.high - naive.low < 0.8 * (grouped.high - grouped.low)


def test_groups_go_with_their_items_when_some_have_a_single_answer():
    ratings = [["f", "f"], ["m", None], ["m", "m"], [None, None], ["f", "m"]]
    estimate = agreement_estimate(ratings, groups=["a", "b", "b", "c", "a"])
    assert estimate.n == 2  # group c has no item with two answers
    assert estimate.value == krippendorff_alpha(ratings)


@pytest.mark.parametrize("coefficient", ALL)
def test_raters_who_agree_on_every_item_have_an_interval_down_from_one(coefficient):
    def agreed(n, **options):
        return agreement_estimate([["f"] * 2, ["m"] * 2] * (n // 2), coefficient=coefficient, **options)

    # Lower Clopper-Pearson end of 8 of 8: 0.025^(1/8) = 0.6306. p_c = 0.5² + 0.5²: (0.6306 - 0.5) / 0.5.
    few = agreed(8)
    assert (few.value, few.low, few.high) == (1, pytest.approx(2 * 0.025 ** (1 / 8) - 1), 1)
    assert "Clopper-Pearson 95 %" in few.method
    assert "all 8 items;" in few.note
    many = agreed(800)
    assert 0.99 < many.low < 1
    assert agreed(800, confidence=0.5).low > many.low
    assert agreed(2).low >= -1
    grouped = agreed(16, groups=np.repeat(range(8), 2))
    assert (grouped.n, grouped.low) == (8, few.low)


def test_resamples_without_a_coefficient_are_counted():
    ratings = [["f", "f"]] * 8 + [["m", "m"], ["f", "m"]]
    estimate = agreement_estimate(ratings, coefficient="cohen_kappa")
    # Resamples of fs only: (8/10)^10 = 10.7 %, 107 of 1000.
    found = re.fullmatch(r"(\d+) of 1000 resamples had all ratings equal and were left out", estimate.note)
    assert 75 < int(found[1]) < 140
    few = agreement_estimate(ratings[-4:], coefficient="cohen_kappa")
    assert math.isnan(few.low)
    assert "fewer than 10 units" in few.note


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_ratings_are_left_out_of_alpha_and_refused_by_the_kappas(missing):
    ratings = [["f", "f", missing], ["m", "m", "f"], ["m", "m", "m"], [missing, "f", missing]]
    # Item 4 has one answer: left out. The coincidences: ff 2, mm 1 + 3, fm 1, mf 1; n_f 3, n_m 5, n 8.
    # D_o = 2/8, D_e = 2*3*5/(8*7): α = 1 - (1/4)/(15/28) = 1 - 7/15.
    assert krippendorff_alpha(ratings) == pytest.approx(8 / 15)
    assert krippendorff_alpha(pd.DataFrame(ratings)) == pytest.approx(8 / 15)
    with pytest.raises(InvalidInput, match="got 3 of 12"):
        fleiss_kappa(ratings)
    with pytest.raises(InvalidInput, match="got 1 of 4"):
        cohen_kappa(["f", missing], ["f", "m"])


def test_an_answer_of_a_left_out_item_only_changes_nothing():
    ratings = [[1, 1], [2, 2], [1, 2], [9, None]]
    for level in ("nominal", "ordinal", "interval"):
        assert krippendorff_alpha(ratings, level=level) == krippendorff_alpha(ratings[:3], level=level)


def test_missing_answers_that_numpy_made_words_of_are_refused():
    with pytest.raises(InvalidInput, match="'nan'"):
        krippendorff_alpha(np.array([["f", np.nan], ["m", "m"], ["f", "f"]]))
    with pytest.raises(InvalidInput, match="'nan'"):
        cohen_kappa(np.array(["f", np.nan]), ["f", "m"])


def test_fleiss_kappa_lies_below_alpha_by_what_chance_makes_of_few_ratings():
    chance = np.random.default_rng(8)
    kappas = []
    for _ in range(500):
        ratings = chance.integers(0, 3, size=(7, 5))
        kappas.append(fleiss_kappa(ratings))
        assert krippendorff_alpha(ratings) == pytest.approx(kappas[-1] + (1 - kappas[-1]) / 35)
    assert np.mean(kappas) == pytest.approx(-1 / 34, abs=3 * np.std(kappas) / 500**0.5)


@pytest.mark.parametrize("function", [fleiss_kappa, krippendorff_alpha, agreement_estimate])
@pytest.mark.parametrize("ratings", [
    [], np.empty((0, 3)), ["f", "m"], [["f"], ["m"], ["m"]], [["f", "m", "f"]], [["f", "m"], ["f"]],
    [[None, "f"], ["m", None], [None, None]], np.ones((2, 2, 2)), "feminine",
], ids=["empty", "no rows", "flat", "one rater", "one item", "ragged", "single answers", "cube", "word"])  # fmt: skip
def test_bad_ratings_are_refused(function, ratings):
    with pytest.raises(InvalidInput, match=r"ratings need at least two|two ratings each|No rating may"):
        function(ratings)


@pytest.mark.parametrize(("options", "message"), [
    ({"groups": [1]}, "each of the 3 items"), ({"groups": [1, None, 2]}, "1 missing"),
    ({"coefficient": "kappa"}, "'kappa'"), ({"level": "ratio"}, "'ratio'"), ({"level": "interval"}, "numbers; got"),
    ({"confidence": 95}, "got 95"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        agreement_estimate([["f", "f"], ["m", "m"], ["f", "m"]], **options)


def test_cohen_is_for_two_raters_and_levels_for_distinct_numbers():
    with pytest.raises(InvalidInput, match="two raters; got 3"):
        agreement_estimate([["f", "f", "m"], ["m", "m", "m"]], coefficient="cohen_kappa")
    with pytest.raises(InvalidInput, match="distinct"):
        krippendorff_alpha([[1, "1"], [2, 2]], level="interval")


def test_reader_errors_by_hand_feed_the_corrected_prevalence():
    # People: 8 f, 10 m, 2 ?. The reader calls 6 of the 8 f and 1 of the 10 m feminine; its "?" is no call.
    human = ["f"] * 8 + ["m"] * 10 + ["?"] * 2
    automatic = ["f"] * 6 + ["m", "?"] + ["f"] + ["m"] * 9 + ["f", "f"]
    errors = reader_errors_from_labels(human, automatic, positive="f", negative="m")
    assert (errors.sensitivity, errors.specificity) == pytest.approx((0.75, 0.9))
    assert (errors.n_positive, errors.n_negative) == (8, 10)
    corrected = corrected_prevalence(
        30, 100, sensitivity=errors.sensitivity, specificity=errors.specificity, n_sensitivity=errors.n_positive,
        n_specificity=errors.n_negative,
    )  # fmt: skip
    assert corrected.value == pytest.approx((0.3 - 0.1) / 0.65)
    # With any other answer taken as absence: 12 absent, of which 3 are called feminine.
    assert reader_errors_from_labels(human, automatic, positive="f").specificity == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("human", "negative"), [(["f", "f"], None), (["m", "m"], None), (["f", "?"], "m"), (["f", "m"], "f")]
)
def test_reader_errors_need_both_kinds_of_truth(human, negative):
    with pytest.raises(InvalidInput, match="People must have answered both 'f'"):
        reader_errors_from_labels(human, ["f", "m"], positive="f", negative=negative)


LOOKS = np.array(["feminine", "masculine", "androgynous", "unclear"], dtype=object)


def test_pairs_of_answers_are_counted_as_by_hand():
    # f f a: two pairs f-a over m - 1 = 2 -> 1; a m: 1; m u: 1; f f: 0. In all 3.
    pairs = disagreements([["f", "f", "a"], ["a", "m", None], ["m", "u", None], ["f", "f", "f"]])
    shares = {frozenset(one.answers): one.share.value for one in pairs}
    assert shares[frozenset("fa")] == shares[frozenset("am")] == shares[frozenset("mu")] == pytest.approx(1 / 3)
    # f 5, a 2, m 2, u 1: of 5·2 + 5·2 + 5·1 + 2·2 + 2·1 + 2·1 = 33 pairs by chance 10 are f-a
    assert next(one.by_chance for one in pairs if set(one.answers) == set("fa")) == pytest.approx(10 / 33)
    assert sum(one.share.value for one in pairs) == pytest.approx(1)
    assert sum(one.by_chance for one in pairs) == pytest.approx(1)


def test_it_equals_a_loop_over_every_two_answers():
    rng = np.random.default_rng(5)
    ratings = rng.choice(LOOKS, size=(37, 5), p=[0.4, 0.3, 0.2, 0.1])
    ratings[rng.random(ratings.shape) < 0.3] = None
    weights: dict[frozenset, float] = {}
    for row in ratings:
        given = [one for one in row if one is not None]
        for a, b in combinations(given, 2):
            if a != b:
                weights[frozenset({a, b})] = weights.get(frozenset({a, b}), 0.0) + 1 / (len(given) - 1)
    total = sum(weights.values())
    for one in disagreements(ratings):
        assert one.share.value == pytest.approx(weights.get(frozenset(one.answers), 0.0) / total)


def test_the_pair_that_raters_are_made_to_confuse_is_found_and_its_interval_holds_what_is_planted():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        truth = rng.choice(4, size=150, p=[0.35, 0.35, 0.2, 0.1])
        ratings = np.repeat(truth[:, None], 2, axis=1)
        wrong = rng.random(150) < np.where(truth == 2, 0.5, 0.1)  # of androgynous people half, of others a tenth
        other = np.where(truth == 2, 0, rng.integers(0, 4, 150))  # androgynous are called feminine, others anything
        ratings[wrong, 1] = other[wrong]
        first = disagreements(LOOKS[ratings])[0]
        assert set(first.answers) == {"feminine", "androgynous"}
        assert first.share.value > first.by_chance
        # f-a: 0.2 · 0.5 + 0.35 · 0.1 / 4; others: 0.35 · 0.1 · 2 / 4 + 0.35 · 0.1 · 3 / 4 + 0.1 · 0.1 · 3 / 4
        planted = 0.10875 / (0.10875 + 0.0175 + 0.02625 + 0.0075)
        hits += first.share.low <= planted <= first.share.high
    assert 182 <= hits <= 198  # of 200 at 95 %; others in 1 of 100 such tests


def test_nobody_who_disagrees_is_no_share_of_zero():
    pairs = disagreements([["f", "f"], ["m", "m"], ["m", "m"]])
    assert [math.isnan(one.share.value) for one in pairs] == [True]
    assert pairs[0].share.note == "raters never disagree"
    assert disagreements([["f", "f"], ["f", "f"]]) == ()
    assert math.isnan(largest_disagreement([["f", "f"], ["f", "f"]]).value)


def test_two_people_of_one_picture_are_resampled_together():
    ratings = [["f", "a"], ["f", "a"], ["m", "m"], ["m", "a"]] * 5
    together = disagreements(ratings, groups=np.repeat(range(10), 2))[0].share
    assert together.n == 10
    assert together.value == disagreements(ratings)[0].share.value
    with pytest.raises(InvalidInput, match="one group for each of the 20 items"):
        disagreements(ratings, groups=[1, 2])


@pytest.mark.parametrize("bad", [[["f"], ["m"]], [["f", None], ["m", "m"]], [], "ff"])
def test_what_tells_nothing_of_agreement_is_refused(bad):
    with pytest.raises(InvalidInput, match="two"):
        disagreements(bad)


def test_the_mean_and_the_ends_are_as_by_hand():
    counts = [2, 0, 5, 3]  # (2·1 + 5·3 + 3·4) / 10 = 2.9
    assert mean_level(counts) == pytest.approx(2.9)
    assert end_share(counts, last=2) == pytest.approx(0.8)
    assert end_share(counts, last=-2) == pytest.approx(0.2)


def test_of_many_sets_each_has_its_own_and_one_without_pictures_has_none():
    sets = [[1, 0, 0], [0, 0, 0], [0, 1, 3]]
    np.testing.assert_allclose(mean_level(sets), [1, np.nan, 2.75])
    np.testing.assert_allclose(end_share(sets, last=1), [0, np.nan, 0.75])


@pytest.mark.parametrize("last", [0, 3, -3])
def test_an_end_is_a_part_of_the_scale(last):
    with pytest.raises(InvalidInput, match="1 to 2 of them"):
        end_share([1, 2, 3], last=last)


def test_one_exchanged_pair_of_four_items():
    # 6 pairs, all but (2, 3) in the same order: (5 - 1) / 6.
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]).tau.value == pytest.approx(4 / 6)


def test_ties_are_left_out_of_the_pairs_that_differ():
    # Pairs (1,2) (1,3) (2,3): a differs in the last two, b in all; both of those agree: 2 / sqrt(2 * 3).
    assert kendall_tau([1, 1, 2], [1, 2, 3]).tau.value == pytest.approx(2 / math.sqrt(6))


def test_scores_that_differ_by_rounding_are_tied():
    assert kendall_tau([0.1 + 0.2, 0.3, 1.0], [1, 2, 3]).tau.value == pytest.approx(2 / math.sqrt(6))


@pytest.mark.parametrize("seed", range(5))
def test_scipy_gives_the_same_tau(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 6, 13), rng.normal(size=13)
    assert kendall_tau(a, b).tau.value == pytest.approx(stats.kendalltau(a, b).statistic)


def test_the_p_value_is_that_of_the_exact_test():
    a, b = [3, 1, 4, 5, 9, 2, 6], [2, 7, 1, 8, 12, 3, 9]
    exact = stats.kendalltau(a, b, method="exact").pvalue
    assert kendall_tau(a, b, n_resamples=20_000).p_value == pytest.approx(exact, abs=0.015)


def test_swapping_changes_nothing_and_turning_one_round_changes_the_sign():
    a, b = [3.0, 1.0, 4.0, 5.0, 9.0], [2.0, 7.0, 1.0, 8.0, 12.0]
    tau = kendall_tau(a, b).tau.value
    assert kendall_tau(b, a).tau.value == tau
    assert kendall_tau(a, -np.array(b)).tau.value == -tau


@pytest.mark.parametrize("n", [7, 11])
def test_unrelated_orders_seldom_have_a_small_p(n):
    rng = np.random.default_rng(1)
    p_values = [kendall_tau(*rng.normal(size=(2, n)), n_resamples=199, rng=rng).p_value for _ in range(200)]
    for alpha in (0.05, 0.25, 0.5):
        assert np.mean(np.array(p_values) <= alpha) < alpha + 3 * math.sqrt(alpha * (1 - alpha) / 200)


def test_fewer_than_ten_items_have_a_p_of_all_orders_and_no_interval():
    few = kendall_tau([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], n_resamples=20_000).tau
    assert few.p_value == pytest.approx(2 / math.factorial(5), rel=0.15)  # the same order and its reverse
    assert math.isnan(few.low)
    assert "fewer than 10 units" in few.note


def test_a_planted_order_is_found():
    rng = np.random.default_rng(2)
    x = np.arange(17.0)
    answer = kendall_tau(x, x + rng.normal(scale=2, size=17))
    assert answer.p_value < 0.01
    assert answer.tau.low > 0


def test_many_items_are_looked_at_in_blocks():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=301), rng.normal(size=301)
    assert kendall_tau(a, b, n_resamples=120).tau.value == pytest.approx(stats.kendalltau(a, b).statistic)


def test_a_score_that_does_not_vary_has_no_tau():
    answer = kendall_tau([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])
    assert math.isnan(answer.tau.value)
    assert math.isnan(answer.p_value)
    assert "same for all" in answer.tau.note


def test_resamples_without_a_tau_are_counted():
    assert "were left out" in kendall_tau([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]).tau.note


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, math.nan], [1.0, 2.0])])
def test_what_has_no_order_is_refused(a, b):
    with pytest.raises(InvalidInput):
        kendall_tau(a, b)


@pytest.mark.slow
def test_many_raters_of_many_items_take_seconds():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 2000)
    ratings = np.where(rng.random((2000, 50)) < 0.7, truth[:, None], rng.integers(0, 3, (2000, 50)))
    begun = time.process_time()
    agreement_estimate(ratings)
    assert time.process_time() - begun < 8  # 20 s and more where counts are multiplied as whole numbers
