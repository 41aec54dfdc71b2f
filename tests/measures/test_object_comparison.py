"""Objects against a base: odds of each, the shift of all, and Hill numbers at equal coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon
from statsmodels.stats.contingency_tables import mcnemar

from bias_core.errors import InvalidInput
from bias_core.measures.object_comparison import (
    hill_number,
    object_odds,
    object_shift,
    presence_with_base,
    sample_coverage,
    variety_change,
)
from bias_core.report.claims import decide_claims


def presence(n, shares, rng):
    return rng.random((n, len(shares))) < shares


def test_coverage_by_hand():
    # Q₁ = 1, Q₂ = 1, U = 6, n = 4: 1 − 1/6 · 3 / (3 + 2).
    assert sample_coverage(np.array([3.0, 2.0, 1.0]), 4, 4) == pytest.approx(1 - 1 / 6 * 3 / 5)
    # Nothing was seen once: all was seen.
    assert sample_coverage(np.array([2.0, 3.0]), 3, 3) == 1
    # No object in two pictures, Q₁ = 3, n = 4, U = 6: 1 − 3/6 · 3 · 2 / (3 · 2 + 2).
    assert sample_coverage(np.array([3.0, 1.0, 1.0, 1.0]), 4, 4) == pytest.approx(1 - 0.5 * 6 / 8)


def test_coverage_of_fewer_pictures_is_the_mean_over_their_subsets():
    shown = presence(7, [0.7, 0.5, 0.3, 0.2, 0.1], np.random.default_rng(0))
    counts = shown.sum(axis=0).astype(float)
    for m in (2, 5):
        # A sighting in another picture is of an object that m of the other pictures show.
        hits = [
            shown[list(chosen)][:, shown[other]].any(axis=0)
            for other in range(7)
            for chosen in itertools.combinations([i for i in range(7) if i != other], m)
        ]
        assert sample_coverage(counts[counts > 0], 7, m) == pytest.approx(np.concatenate(hits).mean())


def test_richness_of_fewer_pictures_is_the_mean_over_their_subsets():
    shown = presence(8, [0.7, 0.5, 0.3, 0.2, 0.1], np.random.default_rng(1))
    counts = shown.sum(axis=0)
    counts = counts[counts > 0].astype(float)
    for m in (3, 6):
        expected = np.mean([shown[list(c)].any(axis=0).sum() for c in itertools.combinations(range(8), m)])
        coverage = sample_coverage(counts, 8, m)
        assert hill_number(counts, 8, coverage=coverage, order=0) == pytest.approx(expected)


def test_with_all_pictures_it_is_the_plug_in_number():
    counts = np.array([13.0, 7.0, 5.0, 3.0, 2.0])
    p = counts / counts.sum()
    for order, expected in ((0, 5), (1, math.exp(-(p * np.log(p)).sum())), (2, 1 / (p**2).sum())):
        assert hill_number(counts, 17, order=order) == pytest.approx(expected)


def test_a_larger_sample_of_the_same_scenes_is_no_more_varied_at_equal_coverage():
    rng = np.random.default_rng(2)
    plain, equal = [], []
    for _ in range(30):
        few, many = pictures(RARE, 40, rng), pictures(RARE, 160, rng)
        change = variety_change(few, many, paired=False, order=0)
        equal.append(change.log_ratio.value)
        plain.append(math.log(len({w for i in few for w in i}) / len({w for i in many for w in i})))
    assert abs(np.mean(equal)) < 0.03
    assert np.mean(plain) < -0.03


@pytest.mark.slow
def test_the_interval_holds_no_change_and_falls_with_one_object_that_takes_over():
    rng, n_held = np.random.default_rng(3), 0
    for _ in range(40):
        change = variety_change(pictures(RARE, 37, rng), pictures(RARE, 37, rng)).log_ratio
        n_held += change.low <= 0 <= change.high
    assert n_held >= 35  # of 40: fewer would be rarer than 2 in 100 at 95 %
    base = pictures(RARE, 61, rng)
    values = [
        variety_change([["w0"] if i < n else words for i, words in enumerate(base)], base).log_ratio.value
        for n in (10, 30, 50)
    ]
    assert 0 > values[0] > values[1] > values[2]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InvalidInput, match="show no object"):
        variety_change([[], []], [["cup"], ["dog"]])
    with pytest.raises(InvalidInput, match="order is 0, 1 or 2"):
        hill_number(np.array([2.0, 2.0]), 2, order=3)
    with pytest.raises(InvalidInput, match="n_drawn"):
        sample_coverage(np.array([2.0]), 2, 3)
    assert math.isnan(variety_change([["cup"]], [["cup"]]).log_ratio.low)


RARE = np.minimum(0.9, 1.5 / np.arange(1, 38))  # shares of 37 objects
FEW = RARE[2:13]  # of 11


def pictures(shares, n, rng):
    """Pictures that show object i with probability shares[i], independently."""
    return [[f"w{i}" for i in np.flatnonzero(row)] for row in rng.random((n, len(shares))) < shares]


def of(comparison, word):
    return next(one for one in comparison.objects if one.word == word)


def verdicts(comparison):
    claims = decide_claims([one.log_odds for one in comparison.objects])
    return {one.word: claim.verdict for one, claim in zip(comparison.objects, claims, strict=True)}


def test_pairs_by_hand():
    # "sign" is in three pictures whose base has none, in one base whose picture has none, in both of one pair:
    # b = 3, c = 1, ln(3.5 / 1.5); p = 2 (1 + 4) / 2⁴.
    ours = [["sign"], ["sign"], ["sign"], [], ["sign"], [], []]
    base = [[], [], [], ["sign"], ["sign"], ["cup"], ["cup"]]
    comparison = object_odds(ours, base)
    sign, cup = of(comparison, "sign"), of(comparison, "cup")
    assert (sign.n_images, sign.n_base, sign.log_odds.n) == (4, 2, 7)
    assert sign.log_odds.value == pytest.approx(math.log(3.5 / 1.5))
    assert sign.p_value == pytest.approx(10 / 16)
    # "cup" is lost in two pairs: p = 2 / 2²; the smaller p-value stands first.
    assert comparison.objects[0] is cup
    assert cup.p_value == 0.5
    assert cup.log_odds.low == -math.inf
    assert cup.log_odds.high < math.inf


def test_p_is_that_of_mcnemar_and_the_interval_that_of_clopper_and_pearson():
    rng = np.random.default_rng(0)
    ours, base = pictures(RARE, 53, rng), pictures(RARE[::-1], 53, rng)
    words, x, y = presence_with_base(ours, base, paired=True)
    comparison = object_odds(ours, base)
    for i, word in enumerate(words):
        a, b = (side.toarray()[:, i].astype(bool) for side in (x, y))
        table = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
        one = of(comparison, word)
        assert one.p_value == pytest.approx(mcnemar(table, exact=True).pvalue)
        gained, lost = table[0][1], table[1][0]
        if gained and lost:
            low, high = stats.binomtest(int(gained), int(gained + lost)).proportion_ci(0.95, method="exact")
            assert one.log_odds.low == pytest.approx(math.log(low / (1 - low)))
            assert one.log_odds.high == pytest.approx(math.log(high / (1 - high)))


def test_independent_pictures_by_hand_and_by_fisher():
    # 3 of 5 against 1 of 7: ln(3.5 · 6.5 / (2.5 · 1.5)).
    comparison = object_odds([["sign"]] * 3 + [[]] * 2, [["sign"]] + [[]] * 6, paired=False)
    (sign,) = comparison.objects
    assert sign.log_odds.value == pytest.approx(math.log(3.5 * 6.5 / (2.5 * 1.5)))
    assert sign.log_odds.n == 12
    # Of C(12, 4) = 495 ways to place four signs C(5, 3) C(7, 1) + C(5, 4) = 75 have three or more in the five.
    assert sign.p_value == pytest.approx(2 * 75 / 495)
    ends = stats.contingency.odds_ratio([[3, 2], [1, 6]]).confidence_interval(0.95)
    assert (math.exp(sign.log_odds.low), math.exp(sign.log_odds.high)) == pytest.approx(tuple(ends), rel=1e-5)


def test_exchanging_pictures_and_base_turns_the_sign():
    rng = np.random.default_rng(1)
    ours, base = pictures(RARE, 41, rng), pictures(RARE[::-1], 41, rng)
    for paired in (True, False):
        forth, back = object_odds(ours, base, paired=paired), object_odds(base, ours, paired=paired)
        for one in forth.objects:
            assert of(back, one.word).log_odds.value == pytest.approx(-one.log_odds.value, nan_ok=True)
            assert of(back, one.word).p_value == pytest.approx(one.p_value)


def test_a_planted_object_is_named_and_others_are_not():
    rng, n_planted, n_others = np.random.default_rng(2), 0, 0
    for _ in range(100):
        base = pictures(FEW, 60, rng)
        ours = [[*words, "sign"] if rng.random() < 0.3 else words for words in pictures(FEW, 60, rng)]
        gained = {word for word, verdict in verdicts(object_odds(ours, base)).items() if verdict == "above"}
        n_planted += "sign" in gained
        n_others += bool(gained - {"sign"})
    assert n_planted >= 95
    assert n_others <= 7


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_where_nothing_is_planted_hardly_anything_is_named(paired):
    rng, n_false, p_values = np.random.default_rng(3), 0, []
    for _ in range(100):
        comparison = object_odds(pictures(FEW, 50, rng), pictures(FEW, 50, rng), paired=paired)
        n_false += not {"above", "below"}.isdisjoint(verdicts(comparison).values())
        p_values += [one.p_value for one in comparison.objects if one.word == "w0"]
    assert n_false <= 7
    for level in (0.05, 0.2, 0.5):  # exact tests are conservative: never more often than they say
        assert np.mean(np.array(p_values) <= level) <= level + 2 * math.sqrt(level * (1 - level) / 100)


def test_the_interval_of_pairs_holds_the_planted_odds():
    rng, n_held = np.random.default_rng(4), 0
    for _ in range(400):  # in the picture alone with .3, in the base alone with .1: odds of 3
        change = rng.choice([1, -1, 0], p=[0.3, 0.1, 0.6], size=80)
        ours = [["sign"] if one > 0 else [] for one in change]
        base = [["sign"] if one < 0 else [] for one in change]
        interval = object_odds(ours, base).objects[0].log_odds
        n_held += interval.low <= math.log(3) <= interval.high
    assert n_held / 400 >= 0.94  # exact: at least 95 %, less half of a standard error of two


def test_what_never_changes_has_no_odds_and_is_no_test():
    comparison = object_odds([["cup", "man"], ["cup"]], [["cup"], ["cup", "dog"]])
    cup = of(comparison, "cup")
    assert math.isnan(cup.log_odds.value)
    assert "neither does" in cup.log_odds.note
    assert cup.p_value == 1.0
    assert verdicts(comparison) == {"cup": "too few", "dog": "not clear", "man": "not clear"}
    same = object_odds([["cup"], []], [["cup"], []])
    assert math.isnan(same.largest)
    assert verdicts(same) == {"cup": "too few"}


def test_pairs_of_unequal_numbers_are_refused_and_p_is_never_0():
    with pytest.raises(InvalidInput, match="3 pictures and 2 of the base"):
        object_odds([["a"]] * 3, [["a"]] * 2)
    (sign,) = object_odds([["sign"]] * 2003, [[]] * 2003).objects
    assert sign.p_value > 0
    assert sign.log_odds.high == math.inf


def test_the_divergence_by_hand():
    # Shares (1, 0) and (0, 1) have nothing in common; (1/2, 1/2) and (0, 1) have the middle (1/4, 3/4):
    # H = .8113 bits, less (1 + 0) / 2.
    assert object_shift([["cup"]] * 2, [["dog"]] * 2).divergence == 1
    middle = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert object_shift([["cup"], ["dog"]], [["dog"], ["dog"]]).divergence == pytest.approx(middle - 0.5)


@pytest.mark.parametrize("paired", [True, False])
def test_the_divergence_is_that_of_scipy(paired):
    rng = np.random.default_rng(0)
    ours, base = pictures(RARE, 31, rng), pictures(RARE[::-1], 31, rng)
    words = sorted({w for image in [*ours, *base] for w in image})
    shares = [[sum(w in image for image in side) for w in words] for side in (ours, base)]
    assert object_shift(ours, base, paired=paired).divergence == pytest.approx(jensenshannon(*shares, base=2) ** 2)


def test_four_pairs_have_the_p_value_of_all_their_exchanges():
    # The observed labels and their mirror alone put all cups on one side: 2 of 2⁴.
    shift = object_shift([["cup"]] * 4, [["dog"]] * 4, n_permutations=7999)
    assert shift.p_value == pytest.approx(2 / 16, abs=0.02)
    assert shift.n == 4


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_p_is_uniform_where_nothing_is_planted(paired):
    rng = np.random.default_rng(5)
    p = [
        object_shift(
            pictures(RARE, 30, rng), pictures(RARE, 30, rng), paired=paired, n_permutations=199, rng=rng
        ).p_value
        for _ in range(400)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.07
    for level in (0.25, 0.5, 0.75):
        assert np.mean(np.array(p) <= level) == pytest.approx(level, abs=0.1)


def test_more_of_a_planted_object_is_a_larger_shift():
    rng = np.random.default_rng(2)
    base, ours = pictures(RARE, 80, rng), pictures(RARE, 80, rng)
    draws = rng.random(80)
    planted = [
        object_shift([[*words, "sign"] if u < share else words for words, u in zip(ours, draws, strict=True)], base)
        for share in (0, 0.2, 0.5, 0.9)
    ]
    assert [one.excess for one in planted] == sorted(one.excess for one in planted)
    assert planted[-1].p_value == 1 / 2000
    assert planted[0].p_value > 0.05


def test_equal_pictures_are_nothing_to_test():
    shift = object_shift([["cup"], ["dog"]], [["cup"], ["dog"]])
    assert (shift.divergence, shift.excess, shift.p_value) == (0, 0, 1)
    assert "every picture" in shift.note


def test_a_side_without_objects_is_refused():
    with pytest.raises(InvalidInput, match="No image of base_objects"):
        object_shift([["cup"]], [[]])
    with pytest.raises(InvalidInput, match="n_permutations"):
        object_shift([["cup"]], [["cup"]], n_permutations=0)
