"""Predicted gain against hand arithmetic, the paired test of each step, a planted step and a null."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.propagation import predicted_gain

N_SEEDS, N_STEPS = 11, 7


def test_gain_by_hand():
    # Step 1: seen 0, 1 against 0, 0: gain (0 + 1) / 2. Step 2: seen 0, 1 against 1, 1: (-1 + 0) / 2. Mean 0.
    gain = predicted_gain([[-0.1, 0.2], [-0.3, 0.1]], [[0.0, -0.2], [0.2, 0.4]])
    assert [step.value for step in gain.steps] == [0.5, -0.5]
    assert gain.whole.value == 0.0
    np.testing.assert_array_equal(gain.each, [[0, -1], [1, 0]])


def test_each_step_is_the_paired_difference_of_its_seeds():
    rng = np.random.default_rng(0)
    base, own = rng.uniform(-1, 1, (2, N_SEEDS, N_STEPS))
    gain = predicted_gain(base, own, confidence=0.9)
    for t, step in enumerate(gain.steps):
        assert step == prevalence_difference_test(base[:, t], own[:, t], confidence=0.9).estimate
    np.testing.assert_allclose(gain.each.mean(axis=0), [step.value for step in gain.steps])
    assert gain.whole.value == pytest.approx(gain.each.mean())
    assert gain.whole.low == pytest.approx(np.mean([step.low for step in gain.steps]))


def test_an_attribute_that_enters_at_the_third_step_is_told_from_there_on():
    base = np.full((N_SEEDS, N_STEPS), -0.2)
    own = base.copy()
    own[:, 2:] = 0.2
    steps = predicted_gain(base, own).steps
    assert [step.low > 0 for step in steps] == [False] * 2 + [True] * 5


def test_what_both_prompts_show_is_no_gain_whatever_the_margins():
    base = np.full((N_SEEDS, N_STEPS), 0.1)
    gain = predicted_gain(base, base + 0.3)
    assert gain.whole.value == 0
    assert gain.whole.low < 0 < gain.whole.high  # nothing changed is no proof that nothing ever does


@pytest.mark.slow
def test_intervals_hold_nothing_in_19_of_20_draws_of_two_equal_prompts():
    rng = np.random.default_rng(1)
    held = []
    for _ in range(300):  # steps of one seed agree, as those of a generation do
        seeds = rng.normal(size=(2, N_SEEDS, 1)) + 0.3 * rng.normal(size=(2, N_SEEDS, N_STEPS))
        whole = predicted_gain(*np.clip(seeds, -2, 2)).whole
        held.append(whole.low <= 0 <= whole.high)
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize(("base", "own", "words"), [
    ([[0.1, 0.2]], [[0.1, 0.2], [0.1, 0.2]], "same shape"),
    (np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), "n_seeds"),
    ([[0.1], [0.2, 0.3]], [[0.1], [0.2]], "rectangular"),
    ([0.1, 3.0], [0.1, 0.2], r"\[-2, 2\]"),
    ([], [], "margins_base"),
])  # fmt: skip
def test_margins_that_are_none_are_refused(base, own, words):
    with pytest.raises(InvalidInput, match=words):
        predicted_gain(base, own)
