"""Large sets are decomposed from sums, and read as they would row by row."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics import alignment
from bias_core.metrics.moments import group_moments

D = 7


@pytest.mark.parametrize("centred", [True, False])
def test_the_spectrum_is_that_of_the_rows(centred):
    rows = np.random.default_rng(0).normal(size=(53, D)) + 1
    spectrum = group_moments(rows.astype(np.float32), 3).spectrum(centred=centred)
    expected = np.linalg.svd(rows - rows.mean(axis=0) if centred else rows)
    np.testing.assert_allclose(spectrum.singular_values, expected.S, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(spectrum.components * expected.Vh, axis=1)), 1, atol=1e-4)


def test_leaving_out_a_group_is_leaving_out_its_rows():
    rows = np.random.default_rng(1).normal(size=(53, D))
    without = group_moments(rows, 5).spectrum(without=2)
    kept = rows[np.arange(53) % 5 != 2]
    expected = np.linalg.svd(kept - kept.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(without.singular_values, expected, rtol=1e-9)


def test_groups_are_of_nearly_equal_size_and_drawn_by_seed():
    rows = np.random.default_rng(2).normal(size=(53, D))
    one, two = (group_moments(rows, 5, rng=np.random.default_rng(s)) for s in (0, 1))
    assert sorted(one.counts) == [10, 10, 11, 11, 11]
    assert not np.allclose(one.sums, two.sums)


@pytest.mark.parametrize("n_groups", [0, 6])
def test_impossible_groups_are_refused(n_groups):
    with pytest.raises(InvalidInput, match=str(n_groups)):
        group_moments(np.ones((5, D)), n_groups)


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
    assert large.low < large.value < large.high
    assert large.method == "normal 95 %"


def test_the_jackknife_holds_the_value_of_the_world(monkeypatch):
    monkeypatch.setattr(alignment, "LARGE", 100)
    rng = np.random.default_rng(5)
    scales, direction = np.array([3.0, 2.5, 2, 1, 0.5, 0.3, 0.1]), np.ones(D)
    truth = alignment.weighted_alignment_score(rng.normal(size=(60_000, D)) * scales, direction, n_components=3)
    held = []
    for _ in range(120):
        images = rng.normal(size=(401, D)) * scales
        (estimate,) = alignment.alignment_estimates(images, direction[None], n_components=3, rng=rng)
        held.append(estimate.low <= truth <= estimate.high)
    assert np.mean(held) >= 0.85
