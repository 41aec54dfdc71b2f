"""Spectral clusters of planted groups, and of the sets that have none."""

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
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


def laplacian_by_hand(images, n_neighbours=10):
    rows = images / np.linalg.norm(images, axis=1, keepdims=True)
    squares = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    order = np.argsort(squares, axis=1)[:, 1 : n_neighbours + 1]  # the first is the image itself
    scales = np.sqrt([squares[i, near[-1]] for i, near in enumerate(order)])
    a = np.zeros_like(squares)
    for i, near in enumerate(order):
        for j in near:
            a[i, j] = np.exp(-squares[i, j] / (scales[i] * scales[j]))
    w = (a + a.T) / 2
    return np.eye(len(w)) - w / np.sqrt(np.outer(w.sum(1), w.sum(1)))


@pytest.mark.parametrize("block", [500, 37])
@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_eigenvalues_are_those_of_the_normalised_laplacian(monkeypatch, block, noise):
    monkeypatch.setattr(clustering, "_BLOCK", block)
    images, _ = groups((60, 50, 31), noise=noise)
    eigenvalues = spectral_clusters(images).eigenvalues
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(laplacian_by_hand(images))[:10], atol=1e-3)
    assert np.all(np.diff(eigenvalues) >= 0)
    n_parts = np.count_nonzero(eigenvalues < 1e-6)
    assert n_parts == (1 if noise == 1 else 3)  # a graph of three parts has three zeros


def test_an_image_far_from_all_others_does_not_hide_their_groups_whatever_the_blocks(monkeypatch):
    images, truth = groups((70, 50, 31), noise=0.5)
    images[3] = -9 * np.eye(D)[-1]
    whole = spectral_clusters(images)
    assert whole.n_clusters == 3
    assert adjusted_rand_score(np.delete(truth, 3), np.delete(whole.labels, 3)) == 1
    monkeypatch.setattr(clustering, "_BLOCK", 37)
    in_blocks = spectral_clusters(images)
    np.testing.assert_array_equal(in_blocks.labels, whole.labels)
    np.testing.assert_allclose(in_blocks.eigenvalues, whole.eigenvalues, atol=1e-5)


@pytest.mark.parametrize("sizes", [(20, 20), (90, 60, 30), (60, 50, 40, 30, 20)])
def test_groups_in_many_dimensions_are_found_though_all_distances_are_alike(sizes):
    images, truth = groups(sizes, d=512, noise=0.25)  # cosines 0.22 within a group, 0 between groups
    result = spectral_clusters(images)
    assert result.n_clusters == len(sizes)
    assert adjusted_rand_score(truth, result.labels) == 1


@pytest.mark.parametrize("n", [4, 5, 16, 40, 300])
def test_images_without_groups_are_one_cluster(n):
    found = [spectral_clusters(np.random.default_rng(k).normal(size=(n, 512))).n_clusters for k in range(5)]
    assert found == [1] * 5


def test_more_than_eight_separate_groups_are_eight_clusters():
    images, truth = groups([20] * 11, d=64)
    result = spectral_clusters(images)
    assert result.n_clusters == 8
    assert all(len(np.unique(result.labels[truth == k])) == 1 for k in range(11))


def test_many_copies_of_an_image_stay_together_and_leave_the_other_groups():
    images, truth = groups((70, 50, 40))
    images[truth == 2] = images[-1]
    result = spectral_clusters(images)
    assert result.n_clusters == 3
    assert adjusted_rand_score(truth, result.labels) == 1


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


def test_the_same_seed_gives_the_same_result_to_the_last_bit():
    images = np.random.default_rng(2).normal(size=(131, D))
    first, second = (spectral_clusters(images, n_clusters=3, seed=4) for _ in range(2))
    for name in ("labels", "eigenvalues", "coordinates"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


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


@pytest.mark.parametrize("n", [47, 300])
def test_k_means_finds_clusters_as_tight_as_scikit_learn_finds(n):
    ratios = []
    for seed, k in itertools.product(range(7), (2, 3, 5, 8)):
        rows = np.random.default_rng(seed).normal(size=(n, k))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        labels = clustering._k_means(rows, seed)
        spread = sum(len(own) * own.var(axis=0).sum() for own in (rows[labels == one] for one in np.unique(labels)))
        ratios.append(spread / KMeans(n_clusters=k, n_init=10, random_state=seed).fit(rows).inertia_)
    assert np.mean(ratios) < 1.01
    assert max(ratios) < 1.08


@pytest.mark.parametrize("n_distinct", [1, 2, 5])
def test_k_means_keeps_copies_together_where_there_are_fewer_rows_than_clusters(n_distinct):
    kinds = np.random.default_rng(0).integers(n_distinct, size=47)
    rows = np.random.default_rng(1).normal(size=(n_distinct, 8))[kinds]
    assert adjusted_rand_score(kinds, clustering._k_means(rows, 0)) == 1
