"""Checks at the door."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import (
    all_equal,
    finite_vector,
    probability,
    same_dimension,
    same_length,
    unit_rows,
    unit_vector,
)


@pytest.mark.parametrize(
    ("given", "kept"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_half_precision_is_cast_up_and_the_rest_is_kept(given, kept):
    rows = unit_rows(np.array([[3, 4], [5, 12]], dtype=given))
    assert rows.dtype == kept
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(("x", "quoted"), [
    (np.empty((0, 7)), r"empty; got shape \(0, 7\)"),
    (np.empty((3, 0)), r"empty; got shape \(3, 0\)"),
    (np.ones(7), r"got shape \(7,\)"),
    (np.ones((2, 3, 5)), r"got shape \(2, 3, 5\)"),
    ([[1.0, np.nan], [np.inf, 1.0]], "got 2 nan or infinite of 4 numbers"),
    ([[1.0, 2.0], [0.0, 0.0]], "row of zeros; got 1, the first is row 1"),
    ([["a", "b"]], "got type <U1"),
    ([[1.0 + 2.0j]], "got type complex128"),
    ([[1.0, 2.0], [3.0]], "rectangular"),
    (None, "got type object"),
])  # fmt: skip
def test_bad_embeddings_are_refused_and_quoted(x, quoted):
    with pytest.raises(InvalidInput, match="pictures .*" + quoted):
        unit_rows(x, "pictures")


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidInput, match=r"at least 2 rows; got shape \(1, 3\)"):
        unit_rows(np.ones((1, 3)), min_rows=2)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_rows_whose_squares_leave_float32_still_get_length_one(scale):
    rows = unit_rows(np.array([[3.0, 4.0]], dtype=np.float32) * np.float32(scale))
    np.testing.assert_allclose(rows, [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("x", [[0.0, 0.0], [], [[1.0]], [np.nan]])
def test_a_direction_must_be_a_finite_vector_that_is_not_zero(x):
    with pytest.raises(InvalidInput, match="direction"):
        unit_vector(x)


def test_a_direction_keeps_its_sign():
    np.testing.assert_allclose(unit_vector([-3.0, 4.0]), [-0.6, 0.8])


@pytest.mark.parametrize("x", [[], [[1.0]], [np.inf], ["a"]])
def test_values_must_be_a_finite_vector(x):
    with pytest.raises(InvalidInput, match="values"):
        finite_vector(x)


def test_a_short_vector_is_refused():
    with pytest.raises(InvalidInput, match="at least 3 numbers; got 2"):
        finite_vector([1.0, 2.0], min_size=3)


def test_different_dimensions_are_named():
    with pytest.raises(InvalidInput, match=r"images \(3, 5\), texts \(2, 7\)"):
        same_dimension(images=np.ones((3, 5)), texts=np.ones((2, 7)))


def test_different_lengths_are_named():
    with pytest.raises(InvalidInput, match="a 3, b 5"):
        same_length(a=np.ones(3), b=np.ones(5))


@pytest.mark.parametrize("value", [-0.01, 1.01, 50, float("nan"), "half", None])
def test_a_probability_lies_between_0_and_1(value):
    with pytest.raises(InvalidInput, match="P\\*"):
        probability(value, "P*")


def test_copies_that_differ_by_float32_rounding_are_equal():
    row = unit_rows(np.arange(1, 8, dtype=np.float32)[np.newaxis])
    copies = np.repeat(row, 3, axis=0)
    copies[1, 0] = np.nextafter(copies[1, 0], np.float32(1))
    assert all_equal(copies)
    copies[1, 0] += np.float32(1e-3)
    assert not all_equal(copies)
