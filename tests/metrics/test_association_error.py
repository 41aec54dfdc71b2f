"""The standard error over prompts is that of drawing prompts anew, and refuses what has none."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.association import association_test
from bias_core.metrics.association_error import prompt_error

D = 7


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def world(rng, n_prompts, n_images, lean=0.0):
    """Neutral images and edits of prompts whose images share a shift of their own."""
    centre = np.zeros(D)
    centre[0] = 3.0
    shift = np.repeat(rng.normal(size=(n_prompts, D)), n_images, axis=0)
    groups = np.repeat([f"p{i}" for i in range(n_prompts)], n_images)
    towards = np.eye(D)[1]
    sets = [
        unit(centre + shift + side * towards + rng.normal(size=shift.shape) * 0.5)
        for side in (lean, 1.0, -1.0)
    ]
    return sets, [groups] * 3


def test_two_prompts_by_hand():
    # Means per prompt: x = (1,0), (0,1); a = (1,0), (0,1); b = (0,1), (1,0). A resample is {1,1}, {1,2} or
    # {2,2}: x.(a - b) = 1, 0 (a and b then have the same mean), 1, with chances 1/4, 1/2, 1/4: its variance
    # is 1/2 - 1/4 = 1/4.
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    x = np.stack([east, north])
    error = prompt_error([x, x, x[::-1]], [["p", "q"]] * 3, n_resamples=40_000)
    assert error == pytest.approx(0.5, abs=0.01)


def test_it_is_the_spread_over_newly_drawn_prompts():
    rng = np.random.default_rng(0)
    means, errors = [], []
    for _ in range(300):
        (x, a, b), groups = world(rng, 13, 5)
        means.append(float(x.mean(0) @ (a.mean(0) - b.mean(0))))
        errors.append(prompt_error([x, a, b], groups, n_resamples=300, rng=rng))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)


def test_fair_comparisons_are_called_different_in_about_5_percent():
    rng = np.random.default_rng(1)
    small = []
    for _ in range(300):
        (x, xa, xb), groups_x = world(rng, 17, 3)
        (y, ya, yb), groups_y = world(rng, 13, 3)
        test = association_test(
            x, y, xa, xb, ya, yb, groups_x=groups_x[0], groups_y=groups_y[0],
            attribute_groups=[*groups_x[1:], *groups_y[1:]], n_permutations=1, rng=rng,
        )  # fmt: skip
        small.append(test.total_p_value < 0.05)
    assert 0.02 <= np.mean(small) <= 0.10


def test_other_prompts_among_the_edits_are_refused():
    (x, a, b), groups = world(np.random.default_rng(2), 3, 2)
    other = np.where(groups[0] == "p0", "p9", groups[0])
    with pytest.raises(InvalidInput, match="p9"):
        prompt_error([x, a, b], [groups[0], other, groups[2]])


def test_one_prompt_has_no_error():
    (x, a, b), groups = world(np.random.default_rng(3), 1, 5)
    with pytest.raises(InvalidInput, match="at least two"):
        prompt_error([x, a, b], groups)


def test_groups_of_another_length_are_refused():
    (x, a, b), groups = world(np.random.default_rng(4), 3, 2)
    with pytest.raises(InvalidInput, match="5"):
        prompt_error([x, a, b], [groups[0][:5], groups[1], groups[2]])


def test_attribute_groups_come_with_groups():
    (x, a, b), groups = world(np.random.default_rng(5), 3, 2)
    with pytest.raises(InvalidInput, match="attribute_groups"):
        association_test(x, x[1:], a, b, a, b, attribute_groups=[groups[0]] * 4)
