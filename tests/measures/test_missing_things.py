"""Things that a judge does not see: by hand, corrected for its errors, and as often as they were left out."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.object_bias import missing_things
from bias_core.types import ReaderErrors

ERRORS = ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=500, n_negative=500)


def test_the_share_by_hand_and_half_a_yes_is_none():
    # Seen: .9, .6; not seen: .5, .1.
    missing = missing_things([0.9, 0.6, 0.5, 0.1])
    assert (missing.value, missing.n, missing.null_value) == (0.5, 4, 0.0)
    assert missing.low < 0.5 < missing.high


def test_the_errors_of_the_judge_are_corrected_for():
    # 69 of 100 yes: (.69 + .8 − 1) / (.9 + .8 − 1) = .7 are there.
    assert missing_things([1.0] * 69 + [0.0] * 31, errors=ERRORS).value == pytest.approx(0.3)


def test_the_corrected_interval_holds_what_was_left_out():
    rng, n_held = np.random.default_rng(0), 0
    for _ in range(200):
        there = rng.random(150) < 0.75
        says = rng.random(150) < np.where(there, 0.9, 0.2)
        missing = missing_things(says.astype(float), errors=ERRORS)
        n_held += missing.low <= 0.25 <= missing.high
    assert n_held / 200 >= 0.93


def test_a_judge_that_tells_nothing_is_refused():
    blind = ReaderErrors(sensitivity=0.5, specificity=0.5, n_positive=9, n_negative=9)
    with pytest.raises(InvalidInput, match="must exceed 1"):
        missing_things([0.2, 0.9], errors=blind)
