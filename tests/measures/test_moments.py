"""Large sets are decomposed from sums, and read as they would row by row."""

import numpy as np
import pytest

from bias_core.measures import alignment
from bias_core.measures.alignment import large_spectrum

D = 7


@pytest.mark.parametrize("centred", [True, False])
def test_the_spectrum_is_that_of_the_rows(centred):
    rows = np.random.default_rng(0).normal(size=(53, D)) + 1
    sigma, components = large_spectrum(rows.astype(np.float32), centred=centred)
    expected = np.linalg.svd(rows - rows.mean(axis=0) if centred else rows)
    np.testing.assert_allclose(sigma, expected.S, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(components * expected.Vh, axis=1)), 1, atol=1e-4)


def test_a_large_set_scores_as_it_would_row_by_row(monkeypatch):
    images = np.random.default_rng(3).normal(size=(397, D)) + 1
    direction = np.random.default_rng(4).normal(size=D)
    whole = alignment.weighted_alignment_score(images, direction)
    (small,) = alignment.alignment_estimates(images, direction[None])
    monkeypatch.setattr(alignment, "LARGE", 100)
    assert alignment.decompose(images).rows is None
    assert alignment.weighted_alignment_score(images, direction) == pytest.approx(whole, abs=1e-6)
    (large,) = alignment.alignment_estimates(images, direction[None])
    assert large.value == pytest.approx(small.value, abs=1e-6)
