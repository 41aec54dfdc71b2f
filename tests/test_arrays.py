"""Checks at the door."""

from functools import partial

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
from tests.every import every


@pytest.mark.parametrize(
    ("given", "kept"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_half_precision_is_cast_up_and_the_rest_is_kept(given, kept):
    rows = unit_rows(np.array([[3, 4], [5, 12]], dtype=given))
    assert rows.dtype == kept
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_rows_whose_squares_leave_float32_still_get_length_one(scale):
    rows = unit_rows(np.array([[3.0, 4.0]], dtype=np.float32) * np.float32(scale))
    np.testing.assert_allclose(rows, [[0.6, 0.8]], rtol=1e-6)


def test_a_direction_keeps_its_sign():
    np.testing.assert_allclose(unit_vector([-3.0, 4.0]), [-0.6, 0.8])


def test_copies_that_differ_by_float32_rounding_are_equal():
    row = unit_rows(np.arange(1, 8, dtype=np.float32)[np.newaxis])
    copies = np.repeat(row, 3, axis=0)
    copies[1, 0] = np.nextafter(copies[1, 0], np.float32(1))
    assert all_equal(copies)
    copies[1, 0] += np.float32(1e-3)
    assert not all_equal(copies)


@every([
    *((unit_rows, (x, "pictures"), rf"pictures .*{quoted}") for x, quoted in (
        (np.empty((0, 7)), r"empty; got shape \(0, 7\)"), (np.empty((3, 0)), r"empty; got shape \(3, 0\)"),
        (np.ones(7), r"got shape \(7,\)"), (np.ones((2, 3, 5)), r"got shape \(2, 3, 5\)"),
        ([[1.0, np.nan], [np.inf, 1.0]], "got 2 nan or infinite of 4 numbers"),
        ([[1.0, 2.0], [0.0, 0.0]], "row of zeros; got 1, the first is row 1"),
        ([["a", "b"]], "got type <U1"), ([[1.0 + 2.0j]], "got type complex128"),
        ([[1.0, 2.0], [3.0]], "rectangular"), (None, "got type object"),
    )),
    (partial(unit_rows, min_rows=2), (np.ones((1, 3)),), r"at least 2 rows; got shape \(1, 3\)"),
    *((unit_vector, (x,), "direction") for x in ([0.0, 0.0], [], [[1.0]], [np.nan])),
    *((finite_vector, (x,), "values") for x in ([], [[1.0]], [np.inf], ["a"])),
    (partial(finite_vector, min_size=3), ([1.0, 2.0],), "at least 3 numbers; got 2"),
    (partial(same_dimension, texts=np.ones((2, 7))), {"images": np.ones((3, 5))}, r"texts \(2, 7\), images \(3, 5\)"),
    (partial(same_length, a=np.ones(3)), {"b": np.ones(5)}, "a 3, b 5"),
    *((probability, (x, "P*"), r"P\*") for x in (-0.01, 1.01, 50, float("nan"), "half", None)),
])  # fmt: skip
def test_what_does_not_pass_the_door_is_quoted(check, values, quoted):
    with pytest.raises(InvalidInput, match=quoted):
        check(**values) if isinstance(values, dict) else check(*values)
