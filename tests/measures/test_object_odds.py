"""Log-odds of objects against a base: by hand, by statsmodels and scipy, on planted objects and on none."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from bias_core.errors import InvalidInput
from bias_core.measures.object_comparison import object_odds, presence_with_base

RARE = np.minimum(0.9, 1.5 / np.arange(1, 38))  # shares of 37 objects
FEW = RARE[2:13]  # of 11


def pictures(shares, n, rng):
    """Pictures that show object i with probability shares[i], independently."""
    return [[f"w{i}" for i in np.flatnonzero(row)] for row in rng.random((n, len(shares))) < shares]


def of(comparison, word):
    return next(one for one in comparison.objects if one.word == word)


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
    # "cup" is lost in two pairs: p = 2 / 2²; the smaller p-value stands first, adjusted for two tests.
    assert comparison.objects[0] is cup
    assert (cup.p_value, cup.p_adjusted) == (0.5, 0.625)
    assert cup.log_odds.low == -math.inf
    assert cup.log_odds.high < math.inf
    assert comparison.gained == comparison.lost == ()


def test_p_is_that_of_mcnemar_and_the_interval_that_of_jeffreys():
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
            low, high = stats.beta.ppf([0.025, 0.975], gained + 0.5, lost + 0.5)
            assert one.log_odds.low == pytest.approx(math.log(low / (1 - low)))
            assert one.log_odds.high == pytest.approx(math.log(high / (1 - high)))


def test_independent_pictures_by_hand_and_by_fisher():
    # 3 of 5 against 1 of 7: ln(3.5 · 6.5 / (2.5 · 1.5)).
    comparison = object_odds([["sign"]] * 3 + [[]] * 2, [["sign"]] + [[]] * 6, paired=False)
    (sign,) = comparison.objects
    assert sign.log_odds.value == pytest.approx(math.log(3.5 * 6.5 / (2.5 * 1.5)))
    assert sign.log_odds.n == 12
    assert sign.p_value == pytest.approx(stats.fisher_exact([[3, 2], [1, 6]]).pvalue)


def test_exchanging_pictures_and_base_turns_the_sign():
    rng = np.random.default_rng(1)
    ours, base = pictures(RARE, 41, rng), pictures(RARE[::-1], 41, rng)
    for paired in (True, False):
        forth, back = object_odds(ours, base, paired=paired), object_odds(base, ours, paired=paired)
        for one in forth.objects:
            assert of(back, one.word).log_odds.value == pytest.approx(-one.log_odds.value, nan_ok=True)
            assert of(back, one.word).p_value == pytest.approx(one.p_value)
        assert {one.word for one in forth.gained} == {one.word for one in back.lost}


def test_a_planted_object_is_named_and_others_are_not():
    rng, n_planted, n_others = np.random.default_rng(2), 0, 0
    for _ in range(100):
        base = pictures(FEW, 60, rng)
        ours = [[*words, "sign"] if rng.random() < 0.3 else words for words in pictures(FEW, 60, rng)]
        gained = {one.word for one in object_odds(ours, base).gained}
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
        n_false += any(one.differs for one in comparison.objects)
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
    assert 0.93 <= n_held / 400 <= 0.97


def test_what_never_changes_has_no_odds_and_is_no_test():
    comparison = object_odds([["cup", "man"], ["cup"]], [["cup"], ["cup", "dog"]])
    cup = of(comparison, "cup")
    assert math.isnan(cup.log_odds.value)
    assert "in neither" in cup.log_odds.note
    assert (cup.p_value, cup.differs) == (1.0, False)
    assert of(comparison, "man").p_adjusted == 1
    same = object_odds([["cup"], []], [["cup"], []])
    assert math.isnan(same.largest)
    assert not same.gained


def test_pairs_of_unequal_numbers_are_refused_and_p_is_never_0():
    with pytest.raises(InvalidInput, match="3 pictures and 2 of the base"):
        object_odds([["a"]] * 3, [["a"]] * 2)
    (sign,) = object_odds([["sign"]] * 2003, [[]] * 2003).gained
    assert sign.p_value > 0
    assert sign.log_odds.high == math.inf
