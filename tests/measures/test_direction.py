"""Attribute directions against closed forms and the eigenvectors they are defined by."""

from functools import partial

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import image_direction, kernel_direction, text_direction
from tests.every import every

D = 7


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    labels = np.array([1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0])
    return rng.normal(size=(11, D)) + np.outer(labels, np.eye(D)[2] * 2), labels


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
    np.testing.assert_allclose(direction.project(embeddings), kernel @ direction.coefficients)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_both_kernels_point_along_the_planted_axis(labelled, kernel):
    direction = image_direction(*labelled, kernel=kernel)
    assert direction.shape == (D,)
    assert np.linalg.norm(direction) == pytest.approx(1)
    assert direction[2] > 0.5


def test_the_mean_gradient_is_the_derivative_of_the_projection(labelled):
    direction = kernel_direction(*labelled)
    z, step = direction.support, 1e-5

    def mean_projection(x):
        kernel = np.exp(-direction.gamma * ((x[:, None] - z[None]) ** 2).sum(-1))
        return (kernel @ direction.coefficients).mean()

    numeric = [(mean_projection(z + step * axis) - mean_projection(z - step * axis)) / (2 * step) for axis in np.eye(D)]
    np.testing.assert_allclose(direction.mean_gradient(), numeric / np.linalg.norm(numeric), atol=1e-6)


@every([
    (lambda: text_direction([1.0, 2.0], [2.0, 4.0]), "same embedding"),
    (lambda: image_direction([[1, 0], [1, 0]], [0, 1]), "same mean"),
    (lambda: kernel_direction(np.ones((5, D)), [0, 1, 0, 1, 1]), "gamma"),
    (lambda: image_direction(np.eye(3), [0, 1, 1], kernel="poly"), "'poly'"),
    (lambda: image_direction(np.eye(3), [0, 1, 1], kernel="rbf", gamma=-1), "got -1"),
    (lambda: kernel_direction(np.eye(3), [0, 1, 1]).project(np.ones((2, 4))), "dimension"),
    *((partial(image_direction, np.eye(3), labels, kernel=kernel), None) for kernel in ("linear", "rbf") for labels in (
        [1, 1, 1], [0, 1], [0, 1, 2], ["a", "b", "a"], [[0, 1, 1]], [0, 1, np.nan],
    )),
])  # fmt: skip
def test_what_has_no_direction_is_refused(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()
