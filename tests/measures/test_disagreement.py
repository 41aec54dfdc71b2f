"""What raters disagree about, against counting by hand, a naive loop and planted confusions."""

import math
from itertools import combinations

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import disagreements, largest_disagreement

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
    assert pairs[0].share.note == "raters differ on nothing"
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
