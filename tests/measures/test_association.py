"""T2IAT against hand arithmetic, a naive loop and its own null."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.association import (
    Neutral,
    association,
    association_beyond_even_mix,
    association_difference_test,
    association_test,
    even_mix_association,
    leave_one_out,
    mean_association,
    repooled_permutation_test,
    swap_test,
)
from bias_core.measures.intervals import mean_interval

N_X, N_Y, D = 3, 5, 7


def random_sets(rng, n_x=N_X, n_y=N_Y, d=D):
    """Targets X and Y, then X^A, X^B, Y^A, Y^B, all of different sizes."""
    return [rng.normal(size=(n, d)) for n in (n_x, n_y, 2, 11, 13, 17)]


def naive_association(x, a_set, b_set):
    def cosine(u, v):
        return float(np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)))

    return sum(cosine(x, a) for a in a_set) / len(a_set) - sum(cosine(x, b) for b in b_set) / len(b_set)


def test_association_by_hand():
    # x = (0.6, 0.8); A = {(1, 0), (0, 2)}: cosines 0.6, 0.8, mean 0.7; B = {(-3, 0)}: -0.6. Asc = 1.3.
    assert association([[0.6, 0.8]], [[1, 0], [0, 2]], [[-3, 0]])[0] == pytest.approx(1.3)


def test_association_agrees_with_a_naive_loop():
    x, _, a, b, _, _ = random_sets(np.random.default_rng(0))
    np.testing.assert_allclose(association(x, a, b), [naive_association(row, a, b) for row in x])


def test_each_target_meets_the_attributes_of_its_own_concept():
    x, y, xa, xb, ya, yb = random_sets(np.random.default_rng(2))
    test = association_test(x, y, xa, xb, ya, yb)
    ours = [naive_association(row, xa, xb) for row in x]
    theirs = [naive_association(row, ya, yb) for row in y]
    np.testing.assert_allclose(test.associations_x, ours)
    np.testing.assert_allclose(test.associations_y, theirs)
    assert test.score == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert (test.associations_x.size, test.associations_y.size) == (N_X, N_Y)
    assert (test.n_units_x, test.n_units_y, test.n_permutations) == (N_X, N_Y, 56)


def test_swapping_concepts_or_attributes_flips_signs_and_keeps_p():
    x, y, xa, xb, ya, yb = random_sets(np.random.default_rng(3))
    test = association_test(x, y, xa, xb, ya, yb)
    for swapped in (association_test(y, x, ya, yb, xa, xb), association_test(x, y, xb, xa, yb, ya)):
        assert swapped.score == pytest.approx(-test.score)
        assert swapped.effect_size == pytest.approx(-test.effect_size)
        assert swapped.p_value == test.p_value


def test_eq_3_as_printed_is_a_naive_loop_over_halves_whose_edited_images_are_pooled_anew():
    # Three prompts against four, of 1 to 3 images each: 7! / (3! 4!) = 35 halves, Y~ the larger one.
    rng, prompts = np.random.default_rng(8), {"x": "abc", "y": "defg"}
    images = {(p, kind): rng.normal(size=(rng.integers(1, 4), D)) for p in "abcdefg" for kind in ("n", "a", "b")}

    def half(chosen, kind):
        return np.concatenate([images[p, kind] for p in chosen])

    def score(x, y):
        means = [
            np.mean([naive_association(row, half(some, "a"), half(some, "b")) for row in half(some, "n")])
            for some in (x, y)
        ]
        return means[0] - means[1]

    def names(side, kind):
        return [p for p in prompts[side] for _ in images[p, kind]]

    sets = [half(prompts[side], kind) for side, kind in ("xn", "yn", "xa", "xb", "ya", "yb")]
    of = {"groups_x": names("x", "n"), "groups_y": names("y", "n")}
    of["attribute_groups"] = [names(side, kind) for side, kind in ("xa", "xb", "ya", "yb")]
    test = repooled_permutation_test(*sets, **of)
    observed = score("abc", "defg")
    halves = [abs(score(x, set("abcdefg") - set(x))) for x in combinations("abcdefg", 3)]
    assert test.statistic == pytest.approx(observed)
    assert (test.exact, test.n_permutations, test.smallest_p_value) == (True, 35, 0.0)
    assert test.p_value == np.mean([one > abs(observed) + 1e-12 for one in halves]) > 0
    sampled = repooled_permutation_test(*sets, **of, n_permutations=34)
    assert (sampled.exact, sampled.n_permutations) == (False, 34)
    wrong = [({"n_permutations": 0}, "got 0"), ({"attribute_groups": []}, "four"), ({"groups_x": ["a"]}, "one entry")]
    for values, words in wrong:
        with pytest.raises(InvalidInput, match=words):
            repooled_permutation_test(*sets, **of | values)


def test_null_p_values_are_uniform_for_given_attribute_images():
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(200):
        x, y, a, b, _, _ = random_sets(rng)
        p_values.append(association_test(x, y, a, b, a, b, n_permutations=99).p_value)
    for alpha in (0.1, 0.25, 0.5):
        share = np.mean(np.array(p_values) <= alpha)
        assert abs(share - alpha) < 3 * np.sqrt(alpha * (1 - alpha) / 200) + 1 / 56


def test_chance_in_attribute_images_of_one_s_own_is_not_counted_without_their_prompts():
    # All six sets come from one cloud around a common mean, as embeddings of pictures do: nothing is biased.
    rng = np.random.default_rng(7)
    centre, small = 2 * np.eye(D)[0], []
    for _ in range(150):
        sets = [centre + rng.normal(size=(n, D)) for n in (31, 37, 29, 41, 23, 43)]
        small.append(association_test(*sets, n_permutations=199).p_value < 0.05)
    assert np.mean(small) > 0.2  # as the docstring says


def prompts_with_edits(rng, n_prompts, n_images):
    """Neutral pictures and their edits; a prompt has a shift of its own, and so has each of its edits."""
    centre, towards, own = 3 * np.eye(D)[0], np.eye(D)[1], rng.normal(size=(n_prompts, D))
    shifts = [own + side * towards + abs(side) * rng.normal(size=own.shape) for side in (0.0, 1.0, -1.0)]
    sets = [centre + np.repeat(shift, n_images, axis=0) for shift in shifts]
    groups = np.repeat([f"p{i}" for i in range(n_prompts)], n_images)
    return [images + 0.7 * rng.normal(size=images.shape) for images in sets], [groups] * 3


def whole_prompts_test(rng, n_x, n_y, n_images=2, **options):
    (x, xa, xb), (groups_x, gxa, gxb) = prompts_with_edits(rng, n_x, n_images)
    (y, ya, yb), (groups_y, gya, gyb) = prompts_with_edits(rng, n_y, n_images)
    return association_test(
        x, y, xa, xb, ya, yb, groups_x=groups_x, groups_y=groups_y,
        attribute_groups=[gxa, gxb, gya, gyb], rng=rng, **options,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("n_x", "n_y"), [(3, 3), (9, 8), (25, 25)])
def test_fair_comparisons_of_whole_prompts_are_called_different_in_at_most_5_percent(n_x, n_y):
    rng, n = np.random.default_rng(1), 250
    tests = [whole_prompts_test(rng, n_x, n_y, n_permutations=199) for _ in range(n)]
    sampling = 2 * np.sqrt(0.05 * 0.95 / n)
    assert np.mean([test.p_value < 0.05 for test in tests]) <= 0.05 + sampling
    intervals = [test.estimate for test in tests if not math.isnan(test.estimate.low)]
    n_excluding = sum(not interval.low <= 0 <= interval.high for interval in intervals)
    assert n_excluding == sum(test.p_value <= 0.05 + 1e-12 for test in tests)
    assert len(intervals) == (0 if n_x == 3 else n)  # 2 of 20 splits are more than 5 %
    assert min(test.p_value for test in tests) >= tests[0].smallest_p_value


def test_a_whole_prompt_by_hand():
    # x = (1, 0) twice; a = (1, 0), (0, 1); b = (0, 1) twice. Mean a - mean b = (0.5, -0.5): both associations
    # are 0.5. The edits with A add 1 - 0.5 and 0 - 0.5, those with B nothing: 1 and 0, with mean 0.5 and
    # standard error 0.5; t of one degree of freedom at 97.5 % is 12.706.
    east, north = [1.0, 0.0], [0.0, 1.0]
    found = mean_association(
        [east, east], [east, north], [north, north], groups=["p", "q"], attribute_groups=[["p", "q"]] * 2
    )
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((0.5 - 6.353, 0.5 + 6.353), abs=1e-3)
    assert found.n == 2


def test_a_whole_prompt_counts_as_much_as_its_weight_moves_the_score():
    # A naive oracle: the derivative of the mean association when one prompt weighs a little more.
    rng = np.random.default_rng(3)
    (x, a, b), (groups, *edited_from) = prompts_with_edits(rng, 5, 3)
    x, a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, a, b))

    def mean(weights):
        w = np.repeat(weights / weights.sum(), 3) / 3
        return (w @ x) @ (w @ a - w @ b)

    plain, step = mean(np.ones(5)), 1e-6
    added = [plain + 5 * (mean(np.ones(5) + step * one) - plain) / step for one in np.eye(5)]
    expected = stats.ttest_1samp(added, 0).confidence_interval()
    found = mean_association(x, a, b, groups=groups, attribute_groups=edited_from)
    assert found.value == pytest.approx(plain)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-5)


def test_whole_prompts_of_unequal_size_keep_the_score_and_its_sign():
    rng = np.random.default_rng(4)
    x, y, xa, xb, ya, yb = random_sets(rng, 7, 5)
    groups_x, groups_y = list("pppqqrr"), list("uuvvw")
    edited = [list("pqr") * 3 + list("pq"), list("uvw") * 4 + ["u"]]
    options = {"groups_x": groups_x, "groups_y": groups_y}
    edits = [edited[0], edited[0][:7], edited[1], list("uvw") * 5 + ["u"] * 2]
    sets = [x, y, np.vstack([xa] * 6)[:11], xb[:7], ya, yb]
    test = association_test(*sets, **options, attribute_groups=edits)
    assert test.score == pytest.approx(association_test(*sets, **options).score)
    assert test.confidence_interval.value == pytest.approx(test.score)
    x, y, xa, xb, ya, yb = sets
    swapped = association_test(
        y, x, ya, yb, xa, xb, groups_x=groups_y, groups_y=groups_x, attribute_groups=[*edits[2:], *edits[:2]]
    )
    assert swapped.score == pytest.approx(-test.score)
    assert swapped.p_value == test.p_value


def test_edits_of_other_prompts_are_refused():
    (x, a, b), (groups, *_) = prompts_with_edits(np.random.default_rng(5), 3, 2)
    other = np.where(groups == "p0", "p9", groups)
    with pytest.raises(InvalidInput, match="p9"):
        mean_association(x, a, b, groups=groups, attribute_groups=[other, groups])
    with pytest.raises(InvalidInput, match="5"):
        mean_association(x, a, b, groups=groups, attribute_groups=[groups[:5], groups])
    with pytest.raises(InvalidInput, match="attribute_groups"):
        association_test(x, x[1:], a, b, a, b, attribute_groups=[groups] * 4)
    with pytest.raises(InvalidInput, match="four"):
        association_test(x, x, a, b, a, b, groups_x=groups, groups_y=groups, attribute_groups=[groups] * 2)


def test_a_planted_difference_is_found():
    rng = np.random.default_rng(6)
    x, y, a, b, _, _ = random_sets(rng, 31, 37, 16)
    towards = a.mean(axis=0) - b.mean(axis=0)
    test = association_test(x + towards, y - towards, a, b, a, b, alternative="greater", rng=7)
    assert not test.exact
    assert test.p_value == 1 / 1001
    assert test.effect_size > 0.8
    assert 0 < test.confidence_interval.low < test.score < test.confidence_interval.high


def test_with_groups_the_prompt_is_the_unit():
    # Three prompts of two images and four of two: C(7, 3) = 35 splits of prompt means.
    x, y, xa, xb, ya, yb = random_sets(np.random.default_rng(8), 6, 8)
    groups_x, groups_y = ["a", "b", "c"] * 2, ["d", "e", "f", "g"] * 2
    test = association_test(x, y, xa, xb, ya, yb, groups_x=groups_x, groups_y=groups_y)
    assert (test.n_units_x, test.n_units_y, test.n_permutations) == (3, 4, 35)
    plain = association_test(x, y, xa, xb, ya, yb)
    assert test.score == pytest.approx(plain.score)  # groups of equal size
    assert test.effect_size == pytest.approx(plain.effect_size)  # always that of single images


def test_clustered_images_fool_the_test_without_groups_but_not_with_them():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 5, D))
    plain, grouped = [], []
    for _ in range(60):
        prompts = rng.normal(size=(10, D))  # five prompts a side, no difference between the sides
        images = np.repeat(prompts, 8, axis=0) + 0.1 * rng.normal(size=(80, D))
        x, y, groups = images[:40], images[40:], np.repeat(np.arange(5), 8)
        options = {"n_permutations": 252, "rng": 0}
        plain.append(association_test(x, y, a, b, a, b, **options).p_value)
        grouped.append(association_test(x, y, a, b, a, b, groups_x=groups, groups_y=groups, **options).p_value)
    assert np.mean(np.array(plain) <= 0.05) > 0.25
    assert np.mean(np.array(grouped) <= 0.05) < 0.15


def test_mean_association_has_an_interval_and_a_null():
    x, _, _, a, b, _ = random_sets(np.random.default_rng(11), 41)
    estimate = mean_association(x, a, b)
    assert estimate.value == pytest.approx(association(x, a, b).mean())
    assert estimate.low < estimate.value < estimate.high
    assert (estimate.n, estimate.null_value) == (41, 0.0)
    assert mean_association(x, a, b, groups=np.arange(41) % 5).n == 5


def test_the_interval_of_the_mean_counts_the_chance_in_the_attribute_images():
    rng = np.random.default_rng(12)
    covered = {"drawn": [], "fixed": []}
    for _ in range(200):
        x, _, _, a, b, _ = random_sets(rng, 41)  # A and B differ by chance alone
        for attributes, hits in covered.items():
            estimate = mean_association(x, a, b, attributes=attributes)
            hits.append(estimate.low <= 0 <= estimate.high)
    assert np.mean(covered["drawn"]) >= 0.90
    assert np.mean(covered["fixed"]) < np.mean(covered["drawn"])


def test_the_interval_of_the_mean_joins_the_chance_of_three_sets_by_hand():
    # Targets (1, 0) and (0.6, 0.8): associations with A = {(1, 0), (0.6, 0.8)}, B = {(0, 1), (0.6, 0.8)} are
    # 0.8 - 0.3 = 0.5 and 0.8 - 0.9 = -0.1; their mean 0.2, their variance 0.6²/2 = 0.18.
    # The mean target is (0.8, 0.4): with A 0.8 twice, variance 0; with B 0.4 and 0.8, variance 0.08.
    # Of four of each kind the variances are 2 · 4 · 0.09 / 7 and 2 · 4 · 0.04 / 7, of seven degrees of freedom each:
    # (V + W)² / ((V² + W²) / 9) - 2, at most 21; W is V · 4 / 9.
    sets = [[[1, 0], [0.6, 0.8]], [[1, 0], [0.6, 0.8]], [[0, 1], [0.6, 0.8]]]
    few, estimate = mean_association(*sets), mean_association(*(rows * 4 for rows in sets))
    assert (few.value, estimate.value) == pytest.approx((0.2, 0.2))
    assert "at least 8 of each set, and there are 2" in few.note
    freedom = min(21, 9 * (1 + 4 / 9) ** 2 / (1 + 16 / 81) - 2)
    reach = stats.t.ppf(0.975, freedom) * math.sqrt((0.09 + 0.04) / 7)
    assert (estimate.low, estimate.high) == pytest.approx((0.2 - reach, 0.2 + reach), abs=1e-6)


def test_one_image_has_a_mean_but_no_interval():
    estimate = mean_association([[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]])
    assert estimate.value == 1
    assert np.isnan(estimate.low)


def test_one_unit_a_side_is_refused_with_a_way_out():
    x, y, *attributes = random_sets(np.random.default_rng(12))
    with pytest.raises(InvalidInput, match="leave groups_x and groups_y out"):
        association_test(x, y, *attributes, groups_x=["a"] * N_X, groups_y=["b"] * N_Y)


@pytest.mark.parametrize(
    "groups", [{"groups_x": [0, 1, 2]}, {"groups_x": [0, 1], "groups_y": [0] * 5}, {"groups_x": 3, "groups_y": 4}]
)
def test_groups_that_do_not_fit_are_refused(groups):
    with pytest.raises(InvalidInput, match="groups_"):
        association_test(*random_sets(np.random.default_rng(13)), **groups)


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [5, 9, 25])
def test_the_interval_of_s_holds_what_is_planted_with_few_and_with_many_prompts(n_prompts):
    """Prompts of their own leaning, three pictures each; S of all prompts there could be is planted."""
    rng = np.random.default_rng(n_prompts)

    def pictures(n, place):
        """Three pictures of each of ``n`` prompts, and the three that are edited from it with A and with B."""
        prompts = rng.normal(size=(n, D)) * 0.12
        rows = [np.repeat(prompts, 3, axis=0) + rng.normal(size=(3 * n, D)) * 0.2 for _ in range(3)]
        for row, lean in zip(rows, (place, 0.5, -0.5), strict=True):
            row[:, 0] += 1.5
            row[:, 1] += lean
        return rows

    def test(n, n_permutations=199):
        (x, xa, xb), (y, ya, yb) = pictures(n, 0.3), pictures(n, 0.0)
        groups = np.repeat(np.arange(n), 3)
        return association_test(
            x, y, xa, xb, ya, yb, groups_x=groups, groups_y=groups, attribute_groups=[groups] * 4,
            n_permutations=n_permutations,
        )  # fmt: skip

    truth = test(8_000, 1).score
    intervals = [test(n_prompts).confidence_interval for _ in range(200)]
    # 95 % of 200, give or take two standard errors of 1.5 points
    assert np.mean([one.low <= truth <= one.high for one in intervals]) >= 0.919


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
    test = association_test(
        x[0], y[0], x[1], x[2], y[1], y[2], groups_x=names_x, groups_y=names_y,
        attribute_groups=[names_x, names_x, names_y, names_y], n_permutations=2,
    )  # fmt: skip
    interval = mean_interval(test.units_x, test.units_y)
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


D_NULL = 7


def rows(rng, n, spread, lean):
    """Pictures around a direction; a larger spread makes them less alike."""
    centre = np.zeros(D_NULL)
    centre[lean] = 1.0
    return centre + spread * rng.normal(size=(n, D_NULL))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_alikeness_by_hand():
    # A: two pictures at 60 degrees, cosine 0.5. B: at right angles, cosine 0. (0.5 - 0) / 2.
    a = [[1.0, 0.0], [0.5, math.sqrt(0.75)]]
    assert even_mix_association(a, np.eye(2)) == pytest.approx(0.25)


def test_a_naive_loop_gives_the_same():
    rng = np.random.default_rng(0)
    a, b, x = rows(rng, 3, 0.5, 0), rows(rng, 5, 0.9, 1), rows(rng, 11, 0.7, 2)
    ua, ub, ux = unit(a), unit(b), unit(x)
    pairs = [[ua[i] @ ua[j] for i in range(3) for j in range(3) if i != j],
             [ub[i] @ ub[j] for i in range(5) for j in range(5) if i != j]]  # fmt: skip
    even = (np.mean(pairs[0]) - np.mean(pairs[1])) / 2
    assert even_mix_association(a, b) == pytest.approx(even)
    lean = np.mean([np.mean([v @ w for w in ua]) - np.mean([v @ w for w in ub]) for v in ux])
    found = association_beyond_even_mix(x, a, b)
    assert found.value == pytest.approx(lean - even)
    assert found.value == pytest.approx(mean_association(x, a, b).value - even)
    assert found.n == 11


def test_exchanging_a_and_b_changes_the_sign():
    rng = np.random.default_rng(1)
    a, b, x = rows(rng, 8, 0.5, 0), rows(rng, 13, 0.9, 1), rows(rng, 11, 0.7, 2)
    there, back = association_beyond_even_mix(x, a, b), association_beyond_even_mix(x, b, a)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)


def mixed(rng, n, share):
    """Neutral pictures of which ``share`` are like those of A; pictures of A are less alike."""
    of_a = rng.random(n) < share
    return np.where(of_a[:, None], rows(rng, n, 0.9, 0), rows(rng, n, 0.3, 1))


def test_an_even_mix_of_unequally_varied_pictures_is_neutral_only_here():
    rng = np.random.default_rng(2)
    p_values, leans = [], []
    for _ in range(300):
        a, b, x = rows(rng, 31, 0.9, 0), rows(rng, 37, 0.3, 1), mixed(rng, 41, 0.5)
        found = association_beyond_even_mix(x, a, b)
        error = (found.high - found.low) / (2 * stats.norm.ppf(0.975))
        p_values.append(2 * stats.norm.sf(abs(found.value) / error))
        leans.append(mean_association(x, a, b).value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(leans) < -0.1  # Eq. 2 alone reads as leaning to B


@pytest.mark.slow
def test_chance_that_two_sets_share_widens_the_interval_once():
    """Pictures vary in 96 directions and the targets are all of A: seen along x̄ - ā there is chance alone."""
    rng = np.random.default_rng(9)

    def drawn(n, sign):
        return np.eye(96)[0] + sign * 0.2 * np.eye(96)[1] + 0.2 * rng.normal(size=(n, 96))

    truth = association_beyond_even_mix(drawn(9000, 1), drawn(9000, 1), drawn(9000, -1)).value
    estimates = [association_beyond_even_mix(drawn(31, 1), drawn(11, 1), drawn(11, -1)) for _ in range(800)]
    # 95 % give or take two standard errors of 0.8 points, and what is cut at 0; counted twice it was 98.5 %
    assert 0.934 <= np.mean([one.low <= truth <= one.high for one in estimates]) <= 0.976


def test_a_planted_lean_is_found():
    rng = np.random.default_rng(3)
    found = association_beyond_even_mix(mixed(rng, 101, 0.8), rows(rng, 101, 0.9, 0), rows(rng, 101, 0.3, 1))
    assert found.low > 0


@pytest.mark.parametrize(
    "bad", [np.empty((0, D_NULL)), np.ones((1, D_NULL)), np.zeros((3, D_NULL)), np.full((3, D_NULL), np.nan)]
)
@pytest.mark.parametrize("place", range(3))
def test_what_has_no_alikeness_is_refused(bad, place):
    sets = [np.random.default_rng(5).normal(size=(n, D_NULL)) for n in (3, 5, 7)]
    sets[place] = bad
    with pytest.raises(InvalidInput):
        association_beyond_even_mix(*sets)


def images(rng, n, shift=0.0):
    """n unit rows around one direction, shifted along axis 1."""
    rows = rng.normal(size=(n, D_NULL)) * 0.3
    rows[:, 1] = shift + rng.normal(size=n) * 0.3
    rows[:, 0] += 3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def neutral(rng, n, m, shift=0.0):
    return Neutral(
        targets=images(rng, n, shift=shift),
        attributes_a=images(rng, m, shift=1.0),
        attributes_b=images(rng, m, shift=-1.0),
    )


def test_the_association_difference_is_t2iats_score():
    rng = np.random.default_rng(5)
    first, second = neutral(rng, 13, 5), neutral(rng, 13, 5, shift=0.4)
    found = association_difference_test(first, second)
    oracle = association_test(
        second.targets, first.targets, second.attributes_a, second.attributes_b, first.attributes_a, first.attributes_b
    )
    assert found.estimate.value == pytest.approx(oracle.score)
    assert found.p_value < 0.05
    assert found.estimate.low > 0
    assert "4 df" in found.test


def test_equal_associations_are_called_different_in_about_five_percent():
    rng = np.random.default_rng(6)
    p_values = [association_difference_test(neutral(rng, 13, 5), neutral(rng, 13, 5)).p_value for _ in range(500)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.07


def test_one_guided_image_has_no_standard_error():
    rng = np.random.default_rng(7)
    found = association_difference_test(neutral(rng, 5, 1), neutral(rng, 5, 1))
    assert math.isnan(found.p_value)
    assert math.isnan(found.estimate.low)
    assert "one image" in found.estimate.note


def test_sets_of_unequal_size_are_no_pairs():
    rng = np.random.default_rng(8)
    with pytest.raises(InvalidInput, match=r"first 5.*second 7"):
        association_difference_test(neutral(rng, 5, 3), neutral(rng, 7, 3))


def mcas_of_means(means):
    x, a, b = means
    return ((x + 0.3) * (a - b)).sum(axis=1)


def three_sets(rng, n, m=4):
    """Targets of which half are near A and half near B, and pictures of A and of B."""
    signs = rng.choice([-1.0, 1.0], size=(n, 1))
    return [rng.normal(size=(k, D)) * 0.3 + lean for k, lean in ((n, signs), (m, 1.0), (m, -1.0))]


def test_arms_are_told_apart_by_all_swaps_of_the_seeds_that_differ():
    rng = np.random.default_rng(9)
    first = three_sets(rng, 6)
    second = [three_sets(rng, 6)[0], *first[1:]]  # attribute pictures are shared, and one target as well
    second[0][2] = first[0][2]
    found = swap_test(first, second, mcas_of_means)
    # By hand: each of five pairs changes places or not.
    gains = []
    for signs in np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T:
        swapped = np.insert(signs, 2, 0)[:, None]
        x, y = (np.where(swapped == arm, first[0], second[0]).mean(axis=0) for arm in (0, 1))
        gains.append((y - x) @ (first[1].mean(axis=0) - first[2].mean(axis=0)))
    observed = gains[0]
    assert found.value == pytest.approx(observed)
    assert found.p_value == pytest.approx(np.mean(np.abs(gains) >= abs(observed) - 1e-12))
    assert found.n == 6
    assert math.isnan(found.low)  # 2 / 2⁵ at best
    assert "too few" in found.note


@pytest.mark.parametrize("paired", [True, False])
def test_arms_without_a_difference_are_told_apart_in_five_percent_and_planted_ones_more_often(paired):
    rng = np.random.default_rng(10)
    p_values, planted = [], []
    for _ in range(300):
        sets = three_sets(rng, 10), three_sets(rng, 10)
        found = swap_test(*sets, mcas_of_means, paired=paired, n_resamples=199, rng=rng)
        assert (found.p_value <= 0.05) == (not found.low <= 0 <= found.high)
        p_values.append(found.p_value)
        sets[1][0] += 1.5
        planted.append(swap_test(*sets, mcas_of_means, paired=paired, n_resamples=199, rng=rng).p_value)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)
    assert np.mean(np.array(planted) <= 0.05) > 0.5


def test_arms_of_equal_pictures_differ_by_nothing_and_other_sets_are_refused():
    sets = three_sets(np.random.default_rng(11), 5)
    same = swap_test(sets, sets, mcas_of_means)
    assert (same.value, same.note) == (0, "no picture differs, so there is no interval")
    assert math.isnan(swap_test(sets, sets, lambda means: means[0][:, 0] * math.nan).value)
    for wrong in (sets[:2], [sets[0][:3], *sets[1:]], [sets[0] * math.nan, *sets[1:]]):
        with pytest.raises(InvalidInput, match=r"same sets|finite"):
            swap_test(sets, wrong, mcas_of_means)
