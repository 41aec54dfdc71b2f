"""WALS and spread against hand arithmetic, another decomposition, and planted variety."""

import math

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bias_core.errors import InvalidInput
from bias_core.metrics import alignment
from bias_core.metrics.alignment import (
    alignment_estimates,
    alignment_score,
    decompose,
    resampled_alignments,
    spread_along,
    spread_estimates,
    weighted_alignment_score,
)

N, D = 11, 7


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(N, D)) * np.arange(1, D + 1)


@pytest.fixture
def direction():
    return np.random.default_rng(1).normal(size=D)


def cross(a, b):
    """Four unit rows whose deviations are ±a along the second axis and ±b along the third."""
    return [[math.sqrt(1 - s * s), *(s * np.array(axis))] for s, axis in
            ((a, (1, 0)), (-a, (1, 0)), (b, (0, 1)), (-b, (0, 1)))]  # fmt: skip


def test_wals_by_hand():
    # Deviations ±0.6 on axis 2 and ±0.3 on axis 3; on axis 1 0.8 - m and 0.953939 - m, ±0.076970.
    # Singular values: √2·0.6 = 0.848528, √2·0.3 = 0.424264, 2·0.076970 = 0.153939, each along its own axis.
    # δ = (0, 0.6, 0.8), all three: (0.848528·0.6 + 0.424264·0.8) / 1.426731 = 0.594736.
    score = weighted_alignment_score(cross(0.6, 0.3), [0, 3, 4], n_components=3)
    assert score == pytest.approx(0.594736, abs=1e-6)
    # One component: σ cancels, |δ·u_1| = 0.6.
    assert weighted_alignment_score(cross(0.6, 0.3), [0, 3, 4], n_components=1) == pytest.approx(0.6)


def test_the_default_takes_the_fewest_components_with_90_percent_of_the_energy():
    # Squares 0.72, 0.18, 0.023697 of 0.923697: the first has 78 %, the first two 97 %.
    assert decompose(cross(0.6, 0.3)).n_components() == 2
    two = weighted_alignment_score(cross(0.6, 0.3), [0, 3, 4], n_components=2)
    assert weighted_alignment_score(cross(0.6, 0.3), [0, 3, 4]) == two


def test_the_components_are_those_of_principal_component_analysis(images, direction):
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    pca = PCA(svd_solver="full").fit(unit)
    delta = direction / np.linalg.norm(direction)
    expected = pca.singular_values_ @ np.abs(pca.components_ @ delta) / pca.singular_values_.sum()
    assert weighted_alignment_score(images, direction, n_components=D) == pytest.approx(expected)


def test_the_literal_form_agrees_with_a_plain_svd_up_to_the_sign_rule(images, direction):
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    _, sigma, u = np.linalg.svd(unit)
    u = np.array([row * np.sign(row[np.abs(row).argmax()]) for row in u])
    delta = direction / np.linalg.norm(direction)
    literal = weighted_alignment_score(images, direction, n_components=D, centred=False, signed=True)
    assert literal == pytest.approx(sigma @ (u @ delta) / sigma.sum())


def test_more_dimensions_than_images_work_too(direction):
    wide = np.random.default_rng(2).normal(size=(3, D))
    assert 0 < weighted_alignment_score(wide, direction) <= 1


def test_order_scale_and_sign_do_not_matter(images, direction):
    score = weighted_alignment_score(images, direction)
    assert weighted_alignment_score(images[::-1], direction) == pytest.approx(score)
    assert weighted_alignment_score(images * 5, direction * -3) == pytest.approx(score)
    signed = weighted_alignment_score(images, direction, signed=True)
    assert weighted_alignment_score(images, -direction, signed=True) == pytest.approx(-signed)


def test_one_decomposition_serves_many_attributes(images):
    whole, directions = decompose(images), np.random.default_rng(3).normal(size=(5, D))
    for direction in directions:
        assert alignment_score(whole, direction) == weighted_alignment_score(images, direction)


def test_planted_variety_raises_both_measures():
    rng = np.random.default_rng(4)
    base = np.array([10.0, *np.zeros(D - 1)])
    along = np.eye(D)[1]
    scores, spreads = [], []
    for planted in (0.1, 1.0, 5.0):
        images = base + 0.5 * rng.normal(size=(101, D)) + planted * rng.normal(size=(101, 1)) * along
        scores.append(weighted_alignment_score(images, along))
        spreads.append(spread_along(images, along))
    assert scores == sorted(scores)
    assert spreads == sorted(spreads)


def test_spread_by_hand():
    # Rows (0.6, 0.8) and (0.8, 0.6) on the first axis: 0.6 and 0.8, sd = 0.2 / √2.
    assert spread_along([[3, 4], [8, 6]], [5, 0]) == pytest.approx(0.2 / math.sqrt(2))


def test_estimates_hold_the_scores_in_their_intervals(images):
    directions = np.random.default_rng(5).normal(size=(3, D))
    for estimate, direction in zip(alignment_estimates(images, directions), directions, strict=True):
        assert estimate.value == pytest.approx(weighted_alignment_score(images, direction))
        assert 0 <= estimate.low < estimate.high <= 1
        assert estimate.n == N
    for estimate, direction in zip(spread_estimates(images, directions), directions, strict=True):
        assert estimate.value == pytest.approx(spread_along(images, direction))
        assert estimate.low < estimate.value < estimate.high


def test_the_same_seed_gives_the_same_interval(images):
    directions = np.eye(D)[:2]
    assert alignment_estimates(images, directions, rng=3) == alignment_estimates(images, directions, rng=3)


def test_wals_intervals_cover_the_value_of_image_sets_of_this_size():
    rng = np.random.default_rng(6)
    scale, along = np.array([1, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05]), np.array([1.0, 2, 0, 1, 0, 0, 1])

    def sample():
        return np.array([3.0, 0, 0, 0, 0, 0, 0]) + scale * rng.normal(size=(61, D))

    usual = np.mean([weighted_alignment_score(sample(), along, n_components=3) for _ in range(300)])
    hits = 0
    for _ in range(60):
        (estimate,) = alignment_estimates(sample(), [along], n_components=3, n_resamples=100, rng=rng)
        hits += estimate.low <= usual <= estimate.high
    assert hits / 60 >= 0.85


@pytest.mark.parametrize("estimates", [alignment_estimates, spread_estimates])
@pytest.mark.parametrize(("images", "note"), [(np.ones((1, D)), "one image"), (np.ones((5, D)), "same embedding")])
def test_without_variety_estimates_are_nan_and_say_why(estimates, images, note):
    (estimate,) = estimates(images, np.eye(D)[:1])
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.low)
    assert note in estimate.note


def test_two_images_have_a_score_but_no_interval():
    (estimate,) = alignment_estimates([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]])
    assert estimate.value == pytest.approx(1 / math.sqrt(2))
    assert math.isnan(estimate.low)


@pytest.mark.parametrize("function", [weighted_alignment_score, spread_along])
@pytest.mark.parametrize("bad", [np.empty((0, D)), np.ones((1, D)), np.ones((5, D)), np.full((3, D), np.nan)])
def test_images_without_variety_are_refused(function, bad, direction):
    with pytest.raises(InvalidInput):
        function(bad, direction)


@pytest.mark.parametrize("bad", [np.zeros(D), np.ones(D + 1), np.ones((1, D)), np.full(D, np.inf)])
def test_bad_directions_are_refused(images, bad):
    for function in (weighted_alignment_score, spread_along):
        with pytest.raises(InvalidInput):
            function(images, bad)


@pytest.mark.parametrize("n_components", [0, D + 1, -1])
def test_impossible_numbers_of_components_are_quoted(images, direction, n_components):
    with pytest.raises(InvalidInput, match=f"got {n_components}"):
        weighted_alignment_score(images, direction, n_components=n_components)


def test_half_precision_is_close(images, direction):
    half = weighted_alignment_score(images.astype(np.float16), direction.astype(np.float16), n_components=3)
    assert half == pytest.approx(weighted_alignment_score(images, direction, n_components=3), abs=2e-3)


def test_directions_are_at_this_door_too():
    assert alignment.text_direction([1, 0], [0, 1]).shape == (2,)
    assert alignment.image_direction([[1, 0], [0, 1]], [1, 0]).shape == (2,)


@pytest.mark.parametrize("n_components", [None, 3])
def test_sets_that_are_decomposed_together_are_those_decomposed_alone(n_components):
    rng = np.random.default_rng(12)
    images, directions = rng.normal(size=(11, D)) + 2, rng.normal(size=(3, D))
    weights = np.vstack([rng.multinomial(11, np.full(11, 1 / 11), size=70), [0] * 10 + [4]])
    found = resampled_alignments(images, directions, weights, n_components=n_components, energy=1.0)
    for row, scores in zip(weights[:-1], found, strict=False):
        alone = decompose(np.repeat(images, row, axis=0))
        expected = [alignment_score(alone, direction, n_components=n_components) for direction in directions]
        np.testing.assert_allclose(scores, expected)
    assert np.isnan(found[-1]).all()  # one image, four times
    assert np.isnan(resampled_alignments(np.ones((3, D)), directions, np.ones((2, 3), dtype=int))).all()
