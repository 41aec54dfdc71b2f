"""S without each prompt: by hand, against a naive loop, and against the interval over prompts."""

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.association import association_test, leave_one_out

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]


def drawn(rng, n_prompts, n_images, shift=0.0):
    """Neutral images and their edits with A and with B, and the prompt of each; 5 dimensions."""
    names = np.repeat([f"p{i:02d}" for i in range(n_prompts)], n_images)
    cue = np.zeros(5)
    cue[0] = 1.0
    of_prompt = np.repeat(rng.normal(size=(n_prompts, 5)) * [0.2, 1, 1, 1, 1], n_images, axis=0)
    sets = [of_prompt + rng.normal(size=(len(names), 5)) + weight * cue for weight in (shift, 3.0, -3.0)]
    return sets, names


def influence(x, names_x, y, names_y):
    return leave_one_out(
        x[0], y[0], x[1], x[2], y[1], y[2],
        groups_x=names_x, groups_y=names_y, attribute_groups=[names_x, names_x, names_y, names_y],
    )  # fmt: skip


def test_by_hand():
    # Asc = cos to east - cos to north. X: p = 1, q = 0.6 - 0.8 = -0.2; Y: r = s = -1, as is their mean.
    # S = 0.4 + 1 = 1.4; without p: -0.2 + 1 = 0.8; without q: 1 + 1 = 2; without r or s: 1.4.
    found = leave_one_out(
        [EAST, [0.6, 0.8]], [NORTH, NORTH, NORTH], [EAST] * 2, [NORTH] * 2, [EAST] * 2, [NORTH] * 2,
        groups_x=["p", "q"], groups_y=["r", "s", "s"],
        attribute_groups=[["p", "q"], ["p", "q"], ["r", "s"], ["r", "s"]],
    )  # fmt: skip
    assert found.score == pytest.approx(1.4)
    assert found.prompts == ("p", "q", "r", "s")
    assert found.sides == ("x", "x", "y", "y")
    assert found.scores == pytest.approx([0.8, 2.0, 1.4, 1.4])
    assert found.influences == pytest.approx([0.6, -0.6, 0.0, 0.0])


def test_each_score_is_that_of_the_test_without_the_prompt():
    rng = np.random.default_rng(0)
    (x, names_x), (y, names_y) = drawn(rng, 5, 3, 0.5), drawn(rng, 7, 2)
    found = influence(x, names_x, y, names_y)
    assert found.score == pytest.approx(_score(x, names_x, y, names_y))
    for prompt, side, score in zip(found.prompts, found.sides, found.scores, strict=True):
        keep_x = names_x != prompt if side == "x" else np.ones(len(names_x), bool)
        keep_y = names_y != prompt if side == "y" else np.ones(len(names_y), bool)
        rest = [[s[keep_x] for s in x], names_x[keep_x], [s[keep_y] for s in y], names_y[keep_y]]
        assert score == pytest.approx(_score(*rest))


def _score(x, names_x, y, names_y):
    return association_test(
        x[0], y[0], x[1], x[2], y[1], y[2], groups_x=names_x, groups_y=names_y, n_permutations=2
    ).score


def test_a_planted_outlier_is_the_most_influential_prompt():
    rng = np.random.default_rng(1)
    (x, names_x), (y, names_y) = drawn(rng, 11, 3), drawn(rng, 13, 3)
    x[0][names_x == "p07"] += [40.0, 0, 0, 0, 0]
    found = influence(x, names_x, y, names_y)
    most = int(np.abs(found.influences).argmax())
    assert (found.sides[most], found.prompts[most]) == ("x", "p07")
    assert found.influences[most] > 0


def test_the_jackknife_s_standard_error_is_near_that_of_prompts_with_student_s_t():
    rng = np.random.default_rng(2)
    (x, names_x), (y, names_y) = drawn(rng, 23, 3), drawn(rng, 19, 3)
    found = influence(x, names_x, y, names_y)
    variance = 0.0
    for side in ("x", "y"):
        some = found.scores[np.array(found.sides) == side]
        variance += (len(some) - 1) / len(some) * ((some - some.mean()) ** 2).sum()
    interval = association_test(
        x[0], y[0], x[1], x[2], y[1], y[2], groups_x=names_x, groups_y=names_y,
        attribute_groups=[names_x, names_x, names_y, names_y], n_permutations=2,
    ).confidence_interval  # fmt: skip
    reach = stats.t.ppf(0.975, 23 + 19 - 2)
    assert variance**0.5 == pytest.approx((interval.high - interval.low) / 2 / reach, rel=0.15)


@pytest.mark.parametrize(("names_x", "edited_x", "text"), [
    (["p", "p"], ["p", "p"], "two or more"),
    (["p", "q"], ["p", "r"], "same prompts"),
    (["p", "q", "q"], ["p", "q"], "3"),
])  # fmt: skip
def test_what_cannot_be_left_out_is_refused(names_x, edited_x, text):
    pair = [EAST, NORTH]
    with pytest.raises(InvalidInput, match=text):
        leave_one_out(
            pair, pair, pair, pair, pair, pair, groups_x=names_x, groups_y=["r", "s"],
            attribute_groups=[edited_x, edited_x, ["r", "s"], ["r", "s"]],
        )  # fmt: skip


def test_four_lists_of_prompts_are_needed():
    pair, names = [EAST, NORTH], ["p", "q"]
    with pytest.raises(InvalidInput, match="four"):
        leave_one_out(*[pair] * 6, groups_x=names, groups_y=names, attribute_groups=[names])
