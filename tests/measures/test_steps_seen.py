"""Steps at which an attribute is seen: hand arithmetic, a naive loop, planted steps, and seeds that never show it."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.propagation import first_seen_steps, visible_steps

N_SEEDS, N_STEPS = 11, 7


def test_visible_steps_by_hand():
    # Seed 1: seen at 2, 3. Seed 2: seen at 1, lost at 2, seen at 3. Seed 3: lost at the end. Seed 4: from 1 on.
    steps = visible_steps([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [0.1, 0.1, 0.1]])
    np.testing.assert_array_equal(steps.each, [2, 3, np.nan, 1])
    assert (steps.typical, steps.n_seen) == (2, 3)  # of 1, 2, 3
    assert steps.by_typical == exact_interval(2, 4)


def test_first_seen_steps_by_hand():
    # Seed 1: the base shows it at step 1, so step 2. Seed 2: with the base only. Seed 3: seen at once, then lost.
    steps = first_seen_steps([[1, -1, -1], [1, 1, 1], [-1, -1, -1]], [[1, 1, -1], [-1, 1, 1], [1, -1, -1]])
    np.testing.assert_array_equal(steps.each, [2, np.nan, 1])
    assert (steps.typical, steps.n_seen) == (1, 2)
    assert steps.by_typical == exact_interval(1, 3)


def test_both_are_what_a_loop_over_seeds_finds():
    base, own = np.random.default_rng(0).uniform(-1, 1, (2, N_SEEDS, N_STEPS))
    own[:, -3:] = np.abs(own[:, -3:]) * np.random.default_rng(1).choice([-1, 1], (N_SEEDS, 1))
    for i in range(N_SEEDS):
        stays = [t + 1 for t in range(N_STEPS) if all(own[i, t:] > 0)]
        gained = [t + 1 for t in range(N_STEPS) if own[i, t] > 0 >= base[i, t]]
        for each, found in ((visible_steps(own).each, stays), (first_seen_steps(base, own).each, gained)):
            np.testing.assert_equal(each[i], min(found, default=np.nan))


def test_a_planted_step_is_found_whatever_the_seeds_that_never_show_it():
    own = np.full((N_SEEDS, N_STEPS), -0.2)
    own[:8, 3:] = 0.2
    for steps in (visible_steps(own, confidence=0.9), first_seen_steps(np.full(own.shape, -0.1), own, confidence=0.9)):
        assert (steps.typical, steps.n_seen) == (4, 8)
        assert steps.by_typical == exact_interval(8, N_SEEDS, confidence=0.9)


def test_what_no_seed_shows_has_no_step_and_an_interval_that_rules_little_out():
    steps = visible_steps(np.zeros((3, 2)))  # a tie is absent
    assert np.isnan(steps.typical)
    assert steps.n_seen == 0
    assert steps.by_typical.value == 0
    assert steps.by_typical.high > 0.5
    assert first_seen_steps([0.1, 0.2], [0.3, 0.3]).n_seen == 0  # the base shows it as well


@pytest.mark.parametrize(
    ("base", "own", "words"),
    [([[0.1, 0.2]], [[0.1]], "same shape"), ([0.1, 3.0], [0.1, 0.2], r"\[-2, 2\]"), ([], [], "margins_base")],
)
def test_margins_that_are_none_are_refused(base, own, words):
    with pytest.raises(InvalidInput, match=words):
        first_seen_steps(base, own)
