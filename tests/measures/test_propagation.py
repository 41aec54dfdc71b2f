"""SPI and predicted samples against hand arithmetic, a linear model and an ideal denoiser."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.permutation import mean_change_test, smallest_sign_p
from bias_core.measures.propagation import (
    first_seen_steps,
    predicted_gain,
    predicted_sample,
    spi_band,
    stereotype_propagation_index,
    visible_steps,
)
from bias_core.report.claims import decide_claims

SHAPE = (2, 3, 5)  # c, h, w


def velocities(rng, *leading, n=3):
    return [rng.normal(size=(*leading, *SHAPE)) for _ in range(n)]


def naive(v, positive, negative):
    change = np.ravel(positive) - np.ravel(negative)
    v = np.ravel(v)
    return sum(a * b for a, b in zip(v, change, strict=True)) / math.sqrt(sum(v**2) * sum(change**2))


def test_spi_by_hand():
    # v = (3, 4), change = (1, 0) - (0, 1) = (1, -1): cos = (3 - 4) / (5 √2) = -0.1 √2.
    assert stereotype_propagation_index([3, 4], [1, 0], [0, 1]) == pytest.approx(-0.1 * math.sqrt(2))


def test_a_velocity_along_the_change_reads_one():
    rng = np.random.default_rng(0)
    positive, negative = velocities(rng, n=2)
    assert stereotype_propagation_index(3 * (positive - negative), positive, negative) == pytest.approx(1)
    assert stereotype_propagation_index(negative - positive, positive, negative) == pytest.approx(-1)


def test_one_latent_meets_each_attribute():
    rng = np.random.default_rng(1)
    (v,), (positive, negative) = velocities(rng, n=1), velocities(rng, 7, n=2)
    index = stereotype_propagation_index(v, positive, negative)
    np.testing.assert_allclose(index, [naive(v, p, n) for p, n in zip(positive, negative, strict=True)])


def test_steps_come_first():
    rng = np.random.default_rng(2)
    (v,), (positive, negative) = velocities(rng, 11, n=1), velocities(rng, 11, 7, n=2)
    index = stereotype_propagation_index(v, positive, negative)
    assert index.shape == (11, 7)
    assert index[4, 5] == pytest.approx(naive(v[4], positive[4, 5], negative[4, 5]))
    single = stereotype_propagation_index(v, positive[:, 5], negative[:, 5])
    np.testing.assert_allclose(single, index[:, 5])


def test_flat_vectors_will_do():
    v, positive, negative = (array.reshape(4, -1) for array in velocities(np.random.default_rng(3), 4))
    index = stereotype_propagation_index(v, positive, negative)
    np.testing.assert_allclose(index, [naive(*row) for row in zip(v, positive, negative, strict=True)])
    assert stereotype_propagation_index(v[0], positive, negative)[0] == pytest.approx(index[0])


def test_positive_scaling_and_a_common_sign_change_nothing_and_swapping_the_sentences_changes_the_sign():
    v, positive, negative = velocities(np.random.default_rng(4))
    index = stereotype_propagation_index(v, positive, negative)
    assert stereotype_propagation_index(5 * v, 0.1 * positive, 0.1 * negative) == pytest.approx(index)
    assert stereotype_propagation_index(-v, -positive, -negative) == pytest.approx(index)
    assert stereotype_propagation_index(v, negative, positive) == pytest.approx(-index)


def test_a_linear_model_has_the_spi_that_its_text_vectors_say():
    # v = A x + b_text: the change is b+ - b- at any x, so with A x = -b_prompt + u the velocity is u.
    rng = np.random.default_rng(5)
    matrix, x = rng.normal(size=(30, 30)), rng.normal(size=30)
    prompt, positive, negative = rng.normal(size=(3, 30))
    index = stereotype_propagation_index(matrix @ x + prompt, matrix @ x + positive, matrix @ x + negative)
    assert index == pytest.approx(naive(matrix @ x + prompt, positive, negative))
    centred = np.linalg.solve(matrix, -prompt + (positive - negative))
    there = matrix @ centred
    assert stereotype_propagation_index(there + prompt, there + positive, there + negative) == pytest.approx(1)


def ideal_velocity(xt, sigma, points):
    """E[noise - x0 | xt] where x0 is one of k points and xt = (1 - sigma) x0 + sigma noise."""
    logits = -((xt - (1 - sigma) * points) ** 2).sum(axis=1) / (2 * sigma**2)
    x0 = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum() @ points
    return (xt - x0) / sigma


def test_an_ideal_denoiser_of_a_biased_world_adds_the_attribute_and_of_a_world_without_it_removes_it():
    # d+ knows the points at x = +2, d- those at x = -2. At the centre, the change of velocity points away
    # from the picture of d+, as velocity does: a prompt that knows 3 of 4 points at +2 moves towards d+.
    plus, minus = np.array([[2.0, 1.0], [2.0, -1.0]]), np.array([[-2.0, 1.0], [-2.0, -1.0]])
    xt, sigma = np.zeros(2), 0.8

    def spi(points):
        change = ideal_velocity(xt, sigma, plus), ideal_velocity(xt, sigma, minus)
        return stereotype_propagation_index(ideal_velocity(xt, sigma, points), *change)

    # Weights at xt = 0 are equal, for all points are as far: the velocity is -mean/sigma, the change
    # (-4/sigma, 0). Mean of [+2, +2, -2] points (2, 1), (2, -1), (-2, 1): (2/3, 1/3): cos = 2/√5.
    assert spi(np.vstack([plus, minus[:1]])) == pytest.approx(2 / math.sqrt(5))
    assert spi(np.vstack([minus, plus[:1]])) == pytest.approx(-2 / math.sqrt(5))


def test_an_ideal_denoiser_of_one_point_predicts_it_from_anywhere():
    point = np.array([[0.3, -1.7]])
    for sigma in (0.1, 0.5, 1.0):
        xt = np.array([5.0, 2.0])
        np.testing.assert_allclose(predicted_sample(xt, ideal_velocity(xt, sigma, point), sigma), point[0])


@pytest.mark.parametrize("space", ["flow", "epsilon", "v_prediction"])
def test_the_exact_velocity_gives_the_sample_back(space):
    rng = np.random.default_rng(6)
    x0, eps = rng.normal(size=(2, *SHAPE))
    sigma = 0.6  # then √(1 - σ²) = 0.8
    noisy = {"flow": 0.4 * x0 + 0.6 * eps}.get(space, 0.8 * x0 + 0.6 * eps)
    velocity = {"flow": eps - x0, "epsilon": eps, "v_prediction": 0.8 * eps - 0.6 * x0}[space]
    np.testing.assert_allclose(predicted_sample(noisy, velocity, sigma, space=space), x0)


def test_nothing_is_left_to_do_without_noise():
    xt, v = np.random.default_rng(7).normal(size=(2, *SHAPE))
    for space in ("flow", "epsilon", "v_prediction"):
        np.testing.assert_array_equal(predicted_sample(xt, v, 0.0, space=space), xt)


@pytest.mark.parametrize(("sigma", "space", "message"), [
    (1.0, "epsilon", "noise alone"), (1.5, "flow", "sigma"), (999, "flow", "999"), (math.nan, "flow", "sigma"),
    (0.5, "x0", "'x0'"),
])  # fmt: skip
def test_a_step_that_does_not_exist_is_refused(sigma, space, message):
    with pytest.raises(InvalidInput, match=message):
        predicted_sample(np.ones(3), np.ones(3), sigma, space=space)
    with pytest.raises(InvalidInput, match="same shape"):
        predicted_sample(np.ones(3), np.ones(4), 0.5)


def test_equal_sentences_point_nowhere_and_are_refused_up_to_rounding():
    v, positive, _ = velocities(np.random.default_rng(8))
    for negative in (positive, positive * (1 + 1e-8)):
        with pytest.raises(InvalidInput, match="equal velocities in 1 of 1"):
            stereotype_propagation_index(v, positive, negative)
    with pytest.raises(InvalidInput, match="equal velocities in 1 of 2 pairs, the first is pair 1"):
        stereotype_propagation_index(v, np.stack([positive, v]), np.stack([v, v]))


@pytest.mark.parametrize(("v", "positive", "negative"), [
    (SHAPE, (3, 3, 5), (3, 3, 5)),
    ((4, *SHAPE), (7, *SHAPE), (7, *SHAPE)),  # seven attributes of one latent beside four steps
    (SHAPE, (7, *SHAPE), SHAPE),
    (SHAPE, (4, 7, *SHAPE), (4, 7, *SHAPE)),
    ((1, 4, 7, *SHAPE), (1, 4, 7, *SHAPE), (1, 4, 7, *SHAPE)),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(v, positive, negative):
    rng = np.random.default_rng(9)
    with pytest.raises(InvalidInput, match="shape"):
        stereotype_propagation_index(*(rng.normal(size=shape) for shape in (v, positive, negative)))


def test_ragged_input_and_single_numbers_are_refused():
    with pytest.raises(InvalidInput, match="rectangular"):
        stereotype_propagation_index([[1.0], [1.0, 2.0]], [1.0], [2.0])
    with pytest.raises(InvalidInput, match="array"):
        stereotype_propagation_index(1.0, 2.0, 3.0)


def test_band_is_the_t_interval_of_each_step():
    curves = np.random.default_rng(10).uniform(-0.3, 0.5, size=(7, 3))
    band = spi_band(curves)
    assert len(band) == 3
    for step, column in zip(band, curves.T, strict=True):
        expected = stats.ttest_1samp(column, 0.0).confidence_interval(0.95)
        assert (step.value, step.low, step.high) == pytest.approx((column.mean(), *expected))
        assert (step.n, step.null_value) == (7, 0.0)


def test_band_covers_the_mean_in_19_of_20_draws():
    rng, covered = np.random.default_rng(11), 0
    for _ in range(40):
        covered += sum(step.low <= 0.1 <= step.high for step in spi_band(rng.normal(0.1, 0.05, (5, 50))))
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)


def test_one_seed_has_a_curve_and_no_band_and_equal_seeds_say_so():
    (step,) = spi_band([[0.25]])
    assert step.value == 0.25
    assert math.isnan(step.low)
    assert math.isnan(step.high)
    assert "one sampling unit" in step.note
    assert "equal" in spi_band([[0.25], [0.25]])[0].note


@pytest.mark.parametrize("curves", [[], [0.1, 0.2], [[1.5, 0.0]], [[math.nan]]])
def test_curves_that_are_none_are_refused(curves):
    with pytest.raises(InvalidInput, match="curves"):
        spi_band(curves)


N_SEEDS, N_STEPS = 11, 7


def test_gain_by_hand():
    # Step 1: seen 0, 1 against 0, 0: gain (0 + 1) / 2. Step 2: seen 0, 1 against 1, 1: (-1 + 0) / 2. Mean 0.
    gain = predicted_gain([[-0.1, 0.2], [-0.3, 0.1]], [[0.0, -0.2], [0.2, 0.4]])
    assert [step.value for step in gain.steps] == [0.5, -0.5]
    assert gain.whole.value == 0.0
    np.testing.assert_array_equal(gain.seed_gains, [[0, -1], [1, 0]])


def test_each_step_is_the_paired_difference_of_its_seeds():
    rng = np.random.default_rng(0)
    base, own = rng.uniform(-1, 1, (2, N_SEEDS, N_STEPS))
    gain = predicted_gain(base, own, confidence=0.9)
    for t, step in enumerate(gain.steps):
        assert step == prevalence_difference_test(base[:, t], own[:, t], confidence=0.9).estimate
    np.testing.assert_allclose(gain.seed_gains.mean(axis=0), [step.value for step in gain.steps])
    assert gain.whole.value == pytest.approx(gain.seed_gains.mean())
    assert gain.whole == mean_change_test(gain.seed_gains.mean(axis=1), confidence=0.9)


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


def walks(rng, n_seeds, level, n_steps=20):
    """Margins of seeds that walk from a level of their own: steps of a seed agree, as those of a generation do."""
    own = rng.normal(level, 1.0, (n_seeds, 1))
    return np.clip(0.2 * (own + np.cumsum(rng.normal(0, 0.3, (n_seeds, n_steps)), axis=1)), -2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("n_seeds", [5, 10, 16])
def test_of_two_prompts_alike_at_most_one_run_in_twenty_claims_anything_among_ten_attributes(n_seeds):
    rng, n_runs = np.random.default_rng(n_seeds), 150
    n_false = {"whole": 0, "pointwise": 0}
    for _ in range(n_runs):
        pairs = [[walks(rng, n_seeds, level) for _ in range(2)] for level in np.linspace(-1.5, 1.5, 10)]
        gains = [predicted_gain(*pair) for pair in pairs]
        n_false["whole"] += any(claim.is_clear for claim in decide_claims([gain.whole for gain in gains]))
        n_false["pointwise"] += any(step.low > 0 or step.high < 0 for gain in gains for step in gain.steps)
    assert n_false["whole"] <= 13  # of 150 at 5 %: more than 13 happen once in 50 times
    assert n_seeds < 10 or n_false["pointwise"] > 20  # what the claims replace


@pytest.mark.slow
@pytest.mark.parametrize("levels", [(0, 0), (-1, 1), (-2, 2), (-2, 0.5)])
def test_the_interval_of_the_mean_of_all_steps_covers_it_and_excludes_0_just_where_p_is_small(levels):
    rng = np.random.default_rng(3)
    base, own = (float((walks(rng, 20_000, level) > 0).mean()) for level in levels)
    wholes = [predicted_gain(*(walks(rng, 10, level) for level in levels)).whole for _ in range(200)]
    assert np.mean([whole.low <= own - base <= whole.high for whole in wholes]) >= 0.92
    assert all((whole.low > 0 or whole.high < 0) == (whole.p_value <= 0.05) for whole in wholes)


def test_the_mean_of_all_steps_has_the_p_of_mcnemar_where_there_is_one_step():
    base, own = np.full((8, 1), -0.2), np.full((8, 1), 0.2)
    gain = predicted_gain(base, own)
    assert gain.whole.p_value == gain.steps[0].p_value == 2 / 2**8
    one, five = predicted_gain(base[:1], own[:1]).whole, predicted_gain(base[:5], own[:5]).whole
    assert math.isnan(one.p_value)
    assert math.isnan(one.low)
    assert five.p_value == smallest_sign_p(5) == 0.0625
    assert five.low < 0 < five.value == 1


@pytest.mark.parametrize("changes", [[], [0.1, math.nan], [1.2, 0.0]])
def test_changes_that_are_none_are_refused(changes):
    with pytest.raises(InvalidInput):
        mean_change_test(changes)


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


def test_visible_steps_by_hand():
    # Seed 1: seen at 2, 3. Seed 2: seen at 1, lost at 2, seen at 3. Seed 3: lost at the end. Seed 4: from 1 on.
    steps = visible_steps([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [0.1, 0.1, 0.1]])
    np.testing.assert_array_equal(steps.seed_steps, [2, 3, np.nan, 1])
    assert (steps.typical, steps.n_seen) == (2, 3)  # of 1, 2, 3
    assert steps.by_typical == exact_interval(2, 4)


def test_first_seen_steps_by_hand():
    # Seed 1: the base shows it at step 1, so step 2. Seed 2: with the base only. Seed 3: seen at once, then lost.
    steps = first_seen_steps([[1, -1, -1], [1, 1, 1], [-1, -1, -1]], [[1, 1, -1], [-1, 1, 1], [1, -1, -1]])
    np.testing.assert_array_equal(steps.seed_steps, [2, np.nan, 1])
    assert (steps.typical, steps.n_seen) == (1, 2)
    assert steps.by_typical == exact_interval(1, 3)


def test_both_are_what_a_loop_over_seeds_finds():
    base, own = np.random.default_rng(0).uniform(-1, 1, (2, N_SEEDS, N_STEPS))
    own[:, -3:] = np.abs(own[:, -3:]) * np.random.default_rng(1).choice([-1, 1], (N_SEEDS, 1))
    for i in range(N_SEEDS):
        stays = [t + 1 for t in range(N_STEPS) if all(own[i, t:] > 0)]
        gained = [t + 1 for t in range(N_STEPS) if own[i, t] > 0 >= base[i, t]]
        for each, found in ((visible_steps(own).seed_steps, stays), (first_seen_steps(base, own).seed_steps, gained)):
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
def test_margins_of_steps_that_are_none_are_refused(base, own, words):
    with pytest.raises(InvalidInput, match=words):
        first_seen_steps(base, own)
