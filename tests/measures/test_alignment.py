"""WALS and the share of variance against hand arithmetic, another decomposition, and planted variety."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA

from bias_core.errors import InvalidInput
from bias_core.measures import alignment
from bias_core.measures.alignment import (
    alignment_estimates,
    decompose,
    image_direction,
    jackknifed_shares,
    kernel_direction,
    large_spectrum,
    resampled_variance_shares,
    similarity_estimate,
    squared_deviations,
    text_direction,
    variance_share,
    variance_share_estimates,
    weighted_alignment_score,
)
from tests.every import every

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


def test_the_literal_form_by_hand():
    # Two images e1 and one e2: AᵀA = diag(2, 1, 0), so σ = √2, 1 with u = e1, e2, and no mean is taken off.
    # δ = (0.6, -0.8, 0): (√2·0.6 - 1·0.8) / (√2 + 1) = 0.048528 / 2.414214 = 0.020101.
    (literal,) = alignment_estimates([[1, 0, 0], [1, 0, 0], [0, 1, 0]], [[0.6, -0.8, 0]], literal=True)
    assert literal.value == pytest.approx(0.020101, abs=1e-6)


def test_the_sign_of_a_direction_matters_to_the_signed_score_alone(images, direction):
    score = weighted_alignment_score(images, direction)
    assert weighted_alignment_score(images, -direction) == pytest.approx(score)
    signed = weighted_alignment_score(images, direction, signed=True)
    assert weighted_alignment_score(images, -direction, signed=True) == pytest.approx(-signed)


def test_planted_variety_raises_both_measures():
    rng = np.random.default_rng(4)
    base = np.array([10.0, *np.zeros(D - 1)])
    along = np.eye(D)[1]
    scores, shares = [], []
    for planted in (0.1, 1.0, 5.0):
        images = base + 0.5 * rng.normal(size=(101, D)) + planted * rng.normal(size=(101, 1)) * along
        scores.append(weighted_alignment_score(images, along))
        shares.append(variance_share(images, along).value)
    assert scores == sorted(scores)
    assert shares == sorted(shares)


def test_the_share_of_variance_by_hand():
    # Deviations ±0.6 along axis 2, ±0.3 along axis 3, ±0.076970 along axis 1: sums of squares 0.72, 0.18, 0.023697.
    whole = 0.72 + 0.18 + 0.023697
    assert variance_share(cross(0.6, 0.3), [0, 2, 0]).value == pytest.approx(0.72 / whole, abs=1e-6)
    # δ = (0, 0.6, 0.8): 0.36 · 0.72 + 0.64 · 0.18 = 0.3744
    assert variance_share(cross(0.6, 0.3), [0, 3, 4]).value == pytest.approx(0.3744 / whole, abs=1e-6)


def test_the_share_of_variance_is_that_of_the_covariance_and_its_jackknife_a_naive_loop(images, direction):
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    delta = direction / np.linalg.norm(direction)

    def share(rows):
        sigma = np.cov(rows, rowvar=False)
        return delta @ sigma @ delta / np.trace(sigma)

    estimate = variance_share(images, direction)
    assert estimate.value == pytest.approx(share(unit))
    without_each = np.array([share(np.delete(unit, i, axis=0)) for i in range(N)])
    along, distances = squared_deviations(images, direction[None])
    np.testing.assert_allclose(jackknifed_shares(along[:, 0], distances), without_each)
    logits = np.log(without_each / (1 - without_each))
    reach = stats.t.ppf(0.975, N - 1) * math.sqrt((N - 1) / N * ((logits - logits.mean()) ** 2).sum())
    centre = math.log(estimate.value / (1 - estimate.value))
    assert (estimate.low, estimate.high) == pytest.approx(
        tuple(1 / (1 + math.exp(-centre - side * reach)) for side in (-1, 1))
    )


def test_the_shares_along_perpendicular_directions_add_up_to_one(images):
    shares = variance_share_estimates(images, np.eye(D))
    assert sum(one.value for one in shares) == pytest.approx(1)
    assert shares[2] == variance_share(images, 5 * np.eye(D)[2])


@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_the_interval_of_the_share_holds_that_of_many_pictures(mix):
    # Pictures of two looks (mix) or of one: 95 % of 400 intervals, give or take two standard errors of 1.1 points.
    rng = np.random.default_rng(6)
    scale = np.array([1, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05]) * 0.3

    def sample(n):
        rows = np.array([3.0, *np.zeros(D - 1)]) + scale * rng.normal(size=(n, D))
        rows[:, 1] += mix * rng.choice([-1, 1], size=n)
        return rows

    along = np.array([0.0, 2, 1, 1, 0, 0, 0])
    truth = variance_share(sample(200_000), along).value
    estimates = [variance_share(sample(23), along) for _ in range(400)]
    assert 0.92 <= np.mean([one.low <= truth <= one.high for one in estimates]) <= 0.98
    assert np.mean([one.value for one in estimates]) == pytest.approx(truth, rel=0.04)  # whatever their number


def test_without_variety_along_it_the_share_is_nothing_and_has_no_interval():
    still = variance_share([[0.6, 0.8, 0.0], [0.6, -0.8, 0.0], [0.8, 0.6, 0.0]], [0, 0, 1])
    assert still.value == pytest.approx(0, abs=1e-12)
    assert math.isnan(still.low)
    assert "no interval" in still.note
    alone = variance_share([[1, 0, 0], [1, 0, 0.2], [1, 0.3, 0], [1, -0.3, 0]], [0, 0, 1])  # of one picture only
    assert 0 < alone.value < 1
    assert "one image makes all" in alone.note
    assert "two images" in variance_share([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]).note


def test_where_all_images_show_the_same_look_the_share_has_no_interval(images, direction):
    plain, shows = variance_share(images, direction), np.arange(N) % 2
    assert variance_share(images, direction, shows=shows) == plain
    assert variance_share(images, direction, shows=np.where(np.arange(N) > 1, np.nan, shows)) == plain  # 0, 1 and nan
    for same in (np.zeros(N), np.ones(N), np.full(N, np.nan), np.where(np.arange(N) == 3, np.nan, 1)):
        estimate = variance_share(images, direction, shows=same)
        assert (estimate.value, estimate.note) == (plain.value, alignment.ONE_LOOK)
        assert np.isnan([estimate.low, estimate.high]).all()
    by_attribute = variance_share_estimates(images, np.eye(D)[:2], shows=np.stack([shows, np.ones(N)], axis=1))
    assert [math.isnan(one.low) for one in by_attribute] == [False, True]
    for bad in (np.ones(N - 1), np.full(N, 2), np.ones((N, 2))):
        with pytest.raises(InvalidInput, match="shows must hold 1, 0 or nan for each of 11 images"):
            variance_share(images, direction, shows=bad)
    for no_number in (["yes"] * N, [[1], [1, 0]] + [1] * (N - 2), "yes", {}):
        with pytest.raises(InvalidInput, match="shows must hold 1, 0 or nan for each image; "):
            variance_share(images, direction, shows=no_number)


@pytest.mark.slow
def test_intervals_hold_where_one_look_is_rare_and_only_sets_with_both_have_one():
    # One image in twenty has the other look: without `shows` every set of 23 without it (.95^23 = 31 %) would have an
    # interval about nothing, and a third of all would miss.
    rng, along = np.random.default_rng(7), np.eye(D)[1]

    def sample(n):
        rare = rng.random(n) < 0.05
        rows = np.array([3.0, *np.zeros(D - 1)]) + 0.1 * rng.normal(size=(n, D))
        rows[:, 1] += np.where(rare, -1, 1)
        return rows, ~rare

    truth = variance_share(sample(200_000)[0], along).value
    sets = [sample(23) for _ in range(600)]
    told = [one for one in (variance_share(x, along, shows=shows) for x, shows in sets) if not math.isnan(one.low)]
    assert len(told) / len(sets) == pytest.approx(1 - 0.95**23, abs=0.06)
    assert np.mean([one.low <= truth <= one.high for one in told]) >= 0.92
    assert np.mean([one.low <= truth <= one.high for one in (variance_share(x, along) for x, _ in sets)]) < 0.75


def test_wals_stands_without_an_interval(images):
    directions = np.random.default_rng(5).normal(size=(3, D))
    for estimate, direction in zip(alignment_estimates(images, directions), directions, strict=True):
        assert estimate.value == pytest.approx(weighted_alignment_score(images, direction))
        assert math.isnan(estimate.low)
        assert "no interval" in estimate.note
        assert estimate.n == N


@pytest.mark.parametrize("estimates", [alignment_estimates, variance_share_estimates])
@pytest.mark.parametrize(("images", "note"), [(np.ones((1, D)), "one image"), (np.ones((5, D)), "same embedding")])
def test_without_variety_estimates_are_nan_and_say_why(estimates, images, note):
    (estimate,) = estimates(images, np.eye(D)[:1])
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.low)
    assert note in estimate.note


@pytest.mark.parametrize("n_components", [0, D + 1, -1])
def test_impossible_numbers_of_components_are_quoted(images, direction, n_components):
    with pytest.raises(InvalidInput, match=f"got {n_components}"):
        weighted_alignment_score(images, direction, n_components=n_components)


def test_weighted_sets_are_those_with_repeated_rows():
    rng = np.random.default_rng(12)
    images, directions = rng.normal(size=(11, D)) + 2, rng.normal(size=(3, D))
    weights = np.vstack([rng.multinomial(11, np.full(11, 1 / 11), size=5), [0] * 10 + [4]])
    shares = resampled_variance_shares(images, directions, weights)
    for row, found in zip(weights[:-1], shares, strict=False):
        alone = variance_share_estimates(np.repeat(images, row, axis=0), directions)
        np.testing.assert_allclose(found, [one.value for one in alone])
    assert np.isnan(shares[-1]).all()  # one image, four times


D_DIRECTION = 7


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    labels = np.array([1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0])
    return rng.normal(size=(11, D_DIRECTION)) + np.outer(labels, np.eye(D_DIRECTION)[2] * 2), labels


def test_text_direction_by_hand():
    # (0.6, 0.8) - (1, 0) = (-0.4, 0.8), length √0.8.
    np.testing.assert_allclose(text_direction([3, 4], [2, 0]), np.array([-0.4, 0.8]) / np.sqrt(0.8))


def test_the_linear_direction_is_the_first_eigenvector_of_supervised_pca(labelled):
    embeddings, labels = labelled
    z = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).T  # (d, m) as in the paper
    h = np.eye(11) - 1 / 11
    _, vectors = np.linalg.eigh(z @ h @ np.outer(labels, labels) @ h @ z.T)
    ours = image_direction(embeddings, labels)
    assert abs(ours @ vectors[:, -1]) == pytest.approx(1)
    assert ours[2] > 0  # towards a+


def test_the_kernel_direction_is_the_first_eigenvector_in_sample_space(labelled):
    embeddings, labels = labelled
    direction = kernel_direction(embeddings, labels, gamma=0.7)
    z = direction.support
    kernel = np.exp(-0.7 * ((z[:, None] - z[None]) ** 2).sum(-1))
    h = np.eye(11) - 1 / 11
    _, vectors = np.linalg.eigh(kernel @ h @ np.outer(labels, labels) @ h @ kernel.T)
    assert abs(direction.coefficients @ vectors[:, -1]) == pytest.approx(1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_both_kernels_point_along_the_planted_axis(labelled, kernel):
    direction = image_direction(*labelled, kernel=kernel)
    assert direction.shape == (D_DIRECTION,)
    assert np.linalg.norm(direction) == pytest.approx(1)
    assert direction[2] > 0.5


def test_the_mean_gradient_is_the_derivative_of_the_projection(labelled):
    direction = kernel_direction(*labelled)
    z, step = direction.support, 1e-5

    def mean_projection(x):
        kernel = np.exp(-direction.gamma * ((x[:, None] - z[None]) ** 2).sum(-1))
        return (kernel @ direction.coefficients).mean()

    numeric = [
        (mean_projection(z + step * axis) - mean_projection(z - step * axis)) / (2 * step)
        for axis in np.eye(D_DIRECTION)
    ]
    np.testing.assert_allclose(direction.mean_gradient(), numeric / np.linalg.norm(numeric), atol=1e-6)


@every([
    (lambda: text_direction([1.0, 2.0], [2.0, 4.0]), "same embedding"),
    (lambda: image_direction([[1, 0], [1, 0]], [0, 1]), "same mean"),
    (lambda: kernel_direction(np.ones((5, D_DIRECTION)), [0, 1, 0, 1, 1]), "gamma"),
    (lambda: image_direction(np.eye(3), [0, 1, 1], kernel="poly"), "'poly'"),
    (lambda: image_direction(np.eye(3), [0, 1, 1], kernel="rbf", gamma=-1), "got -1"),
    *((partial(image_direction, np.eye(3), labels, kernel=kernel), None) for kernel in ("linear", "rbf") for labels in (
        [1, 1, 1], [0, 1], [0, 1, 2], ["a", "b", "a"], [[0, 1, 1]], [0, 1, np.nan],
    )),
])  # fmt: skip
def test_what_has_no_direction_is_refused(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


@pytest.mark.parametrize("centred", [True, False])
def test_the_spectrum_is_that_of_the_rows(centred):
    rows = np.random.default_rng(0).normal(size=(53, D_DIRECTION)) + 1
    sigma, components = large_spectrum(rows.astype(np.float32), centred=centred)
    expected = np.linalg.svd(rows - rows.mean(axis=0) if centred else rows)
    np.testing.assert_allclose(sigma, expected.S, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(components * expected.Vh, axis=1)), 1, atol=1e-4)


def test_a_large_set_scores_as_it_would_row_by_row(monkeypatch):
    images = np.random.default_rng(3).normal(size=(397, D_DIRECTION)) + 1
    direction = np.random.default_rng(4).normal(size=D_DIRECTION)
    whole = alignment.weighted_alignment_score(images, direction)
    (small,) = alignment.alignment_estimates(images, direction[None])
    monkeypatch.setattr(alignment, "LARGE", 100)
    assert alignment.decompose(images).rows is None
    assert alignment.weighted_alignment_score(images, direction) == pytest.approx(whole, abs=1e-6)
    (large,) = alignment.alignment_estimates(images, direction[None])
    assert large.value == pytest.approx(small.value, abs=1e-6)


def test_a_mean_by_hand():
    # (0.6 + 0.8 + 0.1) / 3 = 0.5
    assert similarity_estimate([0.6, 0.8, 0.1]).value == pytest.approx(0.5)


def test_the_mean_over_a_set_is_the_mean_over_all_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 7)), rng.normal(size=(5, 7))
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    pairs = [float(a @ b) for a in x for b in y]
    assert similarity_estimate(x @ y.mean(axis=0)).value == pytest.approx(np.mean(pairs))


def test_the_interval_covers_the_mean_of_the_population():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        found = similarity_estimate(rng.uniform(-0.2, 0.6, size=29))
        hits += found.low <= 0.2 <= found.high
    assert 176 <= hits <= 199  # 0.95 of 200, four standard errors below


def test_rounding_is_forgiven_and_one_image_has_no_interval():
    assert similarity_estimate([1 + 1e-8]).value == 1.0
    one = similarity_estimate([0.25])
    assert math.isnan(one.low)
    assert "one" in one.note


@pytest.mark.parametrize("bad", [[], [0.1, math.nan], [1.1], [-1.2, 0.0], [[0.1, 0.2]]])
def test_what_is_no_cosine_is_refused(bad):
    with pytest.raises(InvalidInput):
        similarity_estimate(bad)
