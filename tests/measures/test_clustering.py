"""Spectral clusters of planted groups, and of the sets that have none."""

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from bias_core.errors import InvalidInput
from bias_core.measures import clustering
from bias_core.measures.clustering import spectral_clusters

D = 7


def groups(sizes, d=D, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    return 3 * np.eye(d)[truth] + noise * rng.normal(size=(len(truth), d)), truth


@pytest.mark.parametrize("sizes", [(3, 5), (23, 13, 17), (70, 50, 31)])
def test_planted_groups_are_found_and_counted(sizes):
    images, truth = groups(sizes)
    order = np.random.default_rng(1).permutation(len(truth))
    result = spectral_clusters(images[order])
    assert result.n_clusters == len(sizes)
    assert adjusted_rand_score(truth[order], result.labels) == 1
    assert np.bincount(result.labels).tolist() == sorted(sizes, reverse=True)
    assert np.all(result.eigenvalues[: len(sizes)] < 0.1)


@pytest.mark.parametrize("block", [2000, 37])
def test_eigenvalues_are_those_of_the_normalised_laplacian(monkeypatch, block):
    monkeypatch.setattr(clustering, "_BLOCK", block)
    images, _ = groups((60, 50), noise=1.0)
    blockwise = spectral_clusters(images).eigenvalues
    rows = images / np.linalg.norm(images, axis=1, keepdims=True)
    squares = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    scales = np.sqrt(np.sort(squares, axis=1)[:, 7])
    w = np.exp(-squares / np.outer(scales, scales)) - np.eye(110)
    laplacian = np.eye(110) - w / np.sqrt(np.outer(w.sum(1), w.sum(1)))
    np.testing.assert_allclose(blockwise, np.linalg.eigvalsh(laplacian)[:10], atol=1e-3)
    assert np.all(np.diff(blockwise) >= 0)


def test_the_graph_of_many_images_gives_the_groups_of_the_graph_in_double_precision(monkeypatch):
    images, _ = groups((70, 50, 31), noise=1.0)
    images[3] = -9 * np.eye(D)[-1]  # far from all others
    whole = [spectral_clusters(images, n_clusters=k) for k in (None, 3)]
    monkeypatch.setattr(clustering, "_BLOCK", 37)
    for one, k in zip(whole, (None, 3), strict=True):
        in_blocks = spectral_clusters(images, n_clusters=k)
        np.testing.assert_array_equal(in_blocks.labels, one.labels)
        np.testing.assert_allclose(in_blocks.eigenvalues, one.eigenvalues, atol=1e-5)


def test_the_map_is_the_principal_plane():
    images, truth = groups((23, 13))
    result = spectral_clusters(images)
    assert result.coordinates.shape == (36, 2)
    np.testing.assert_allclose(result.coordinates.mean(axis=0), 0, atol=1e-12)
    first = result.coordinates[:, 0]
    assert first[truth == 0].max() < first[truth == 1].min() or first[truth == 1].max() < first[truth == 0].min()


def test_a_number_that_is_given_is_kept():
    images, _ = groups((23, 13))
    assert spectral_clusters(images, n_clusters=5).n_clusters == 5
    assert spectral_clusters(images, n_clusters=1).n_clusters == 1


def test_the_same_seed_gives_the_same_labels():
    images = np.random.default_rng(2).normal(size=(41, D))
    first = spectral_clusters(images, n_clusters=3, seed=4)
    np.testing.assert_array_equal(first.labels, spectral_clusters(images, n_clusters=3, seed=4).labels)


def test_one_image_is_one_cluster_with_a_note():
    result = spectral_clusters([[3.0, 4.0]])
    assert (result.labels.tolist(), result.n_clusters, result.eigenvalues.tolist()) == ([0], 1, [0.0])
    assert result.coordinates.tolist() == [[0.0, 0.0]]
    assert "one image" in result.note


@pytest.mark.parametrize("n", [2, 3])
def test_two_and_three_images_have_a_map(n):
    result = spectral_clusters(np.random.default_rng(3).normal(size=(n, D)))
    assert result.labels.shape == (n,)
    assert result.coordinates.shape == (n, 2)
    assert np.isfinite(result.coordinates).all()
    assert spectral_clusters(np.eye(D)[:n], n_clusters=n).n_clusters == n


@pytest.mark.parametrize("n_clusters", [None, 2])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_equal_images_are_one_cluster_with_a_note(n_clusters, dtype):
    images = np.repeat(np.random.default_rng(4).normal(size=(1, D)), 13, axis=0).astype(dtype)
    result = spectral_clusters(images, n_clusters=n_clusters)
    assert result.n_clusters == 1
    assert "same embedding" in result.note
    assert not result.coordinates.any()


def test_copies_are_never_torn_apart():
    images = np.random.default_rng(5).normal(size=(2, D))[[0, 0, 0, 1, 1]]
    result = spectral_clusters(images, n_clusters=4)
    assert result.labels.tolist() == [0, 0, 0, 1, 1]
    assert result.note == "4 clusters asked for, 2 found"


@pytest.mark.parametrize("n_clusters", [0, 4, -1])
def test_impossible_numbers_are_quoted(n_clusters):
    with pytest.raises(InvalidInput, match=f"got {n_clusters}"):
        spectral_clusters(np.eye(3), n_clusters=n_clusters)


@pytest.mark.parametrize("bad", [np.empty((0, D)), np.zeros((3, D)), np.full((3, D), np.nan), np.ones(D)])
def test_bad_embeddings_are_refused(bad):
    with pytest.raises(InvalidInput):
        spectral_clusters(bad)


def test_two_thousand_images_are_told_apart():
    images, truth = groups((700, 600, 400, 300), d=128, noise=0.2)
    assert adjusted_rand_score(truth, spectral_clusters(images.astype(np.float32)).labels) == 1


@pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)  # fewer rows than clusters
@pytest.mark.parametrize("n_distinct", [2, 5, 47])
def test_k_means_gives_the_labels_of_scikit_learn(n_distinct):
    for seed, k in itertools.product(range(7), (2, 3, 5, 8)):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n_distinct, k))[rng.integers(n_distinct, size=47)]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        expected = KMeans(n_clusters=k, n_init=10, random_state=seed).fit_predict(rows)
        assert adjusted_rand_score(expected, clustering._k_means(rows, seed)) == 1, (seed, k)
