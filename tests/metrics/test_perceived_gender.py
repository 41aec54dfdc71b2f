"""Shares and lean over four looks: by hand, and with a reader's errors taken out as often as they say."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.perceived_gender import gender_lean, look_shares
from bias_core.types import ClassErrors

LOOKS = ("feminine", "masculine", "androgynous", "unclear")
ERRORS = ClassErrors(
    classes=LOOKS, counts=((180, 10, 10, 0), (6, 190, 4, 0), (10, 40, 150, 0), (0, 0, 10, 190))
)  # fmt: skip
MATRIX = np.array(ERRORS.counts) / 200


def test_shares_and_lean_are_those_counted_by_hand():
    counts = [40, 10, 30, 20]
    assert [one.value for one in look_shares(counts)] == pytest.approx([0.4, 0.1, 0.3, 0.2])
    assert gender_lean(counts).value == pytest.approx((10 - 40) / 80)
    assert gender_lean([0, 5, 0, 0]).value == 1


def test_a_reader_that_takes_androgynous_people_for_men_is_corrected():
    truth = np.array([0.3, 0.2, 0.4, 0.1])
    counts = np.round(100_000 * truth @ MATRIX)
    assert [one.value for one in look_shares(counts, errors=ERRORS)] == pytest.approx(truth, abs=1e-3)
    assert look_shares(counts)[2].value == pytest.approx(0.324)  # 0.3 · 0.05 + 0.2 · 0.02 + 0.4 · 0.75 + 0.1 · 0.05
    lean = gender_lean(counts, errors=ERRORS)
    assert lean.value == pytest.approx((0.2 - 0.3) / 0.9, abs=2e-3)


@pytest.mark.parametrize("truth", [(0.45, 0.45, 0.0, 0.1), (0.55, 0.1, 0.2, 0.15)])
def test_corrected_intervals_hold_the_truth_as_often_as_they_say(truth):
    rng, shares, leans = np.random.default_rng(3), [], []
    target = (truth[1] - truth[0]) / (1 - truth[3])
    for _ in range(24):
        sampled = [rng.multinomial(200, row) for row in MATRIX]
        errors = ClassErrors(classes=LOOKS, counts=tuple(tuple(map(int, row)) for row in sampled))
        counts = rng.multinomial(120, np.array(truth) @ MATRIX)
        corrected = look_shares(counts, errors=errors)
        shares += [one.low - 1e-9 <= p <= one.high + 1e-9 for one, p in zip(corrected, truth, strict=True)]
        lean = gender_lean(counts, errors=errors)
        leans.append(lean.low <= target <= lean.high)
    assert 0.9 <= np.mean(shares) <= 1
    assert 0.85 <= np.mean(leans) <= 1


def test_a_look_that_nobody_has_is_no_certain_zero():
    *_, unclear = look_shares([50, 50, 0, 0])
    assert (unclear.low, unclear.value) == (0, 0)
    assert 0.01 < unclear.high < 0.05


def test_where_the_number_of_pictures_was_not_fixed_nothing_is_corrected():
    shares = look_shares([40, 10, 30, 20], fixed_n=False)
    assert all(one.method.startswith("confidence sequence") for one in shares)
    lean, fixed = gender_lean([40, 10, 30, 20], fixed_n=False), gender_lean([40, 10, 30, 20])
    assert lean.value == pytest.approx(fixed.value)
    assert lean.low < fixed.low < fixed.high < lean.high
    for measure in (look_shares, gender_lean):
        with pytest.raises(InvalidInput, match="fixed beforehand"):
            measure([40, 10, 30, 20], errors=ERRORS, fixed_n=False)


@pytest.mark.parametrize("bad", [[0, 0, 0, 0], [1, 2], [1.5, 2, 3, 4], [0, 0, 0, 7]])
def test_a_lean_of_nobody_is_refused(bad):
    with pytest.raises(InvalidInput):
        gender_lean(bad)
