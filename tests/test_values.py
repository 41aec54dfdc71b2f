"""Every value that is given is of its type, at whatever door; every text can be written."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bias_core.errors import InvalidInput, quoted
from bias_core.explore.options import explore_settings
from bias_core.measures.arrays import (
    all_equal,
    finite_vector,
    probability,
    same_dimension,
    same_length,
    unit_rows,
    unit_vector,
)
from bias_core.study.types import Arm, StudySettings
from bias_core.values import check_arguments, check_texts, check_value, declared_settings
from tests.every import every

WRONG = {
    str: [None, 5, 1.5, True, ["a"], {}],
    int: [None, "5", 1.0, True, [5], 10**30 / 1],
    float: [None, "0.5", True, [], 10**400],
    bool: [None, 0, 1, "true", "\ud800"],
    list[str]: [None, "a", [1], [None], [["a"]], {"a": "b"}],
}


def test_what_is_not_of_its_type_is_refused_by_name():
    for declared, values in WRONG.items():
        for value in values:
            with pytest.raises(InvalidInput, match=r"^it must be .*got "):
                check_value("it", value, declared)
        check_value("it", None, declared | None)


def test_every_field_of_the_settings_is_looked_at():
    for settings in (explore_settings(concept="doctor"), StudySettings()):
        for name, one in declared_settings(StudySettings).items():
            with pytest.raises(InvalidInput, match=re.escape(one.label)):
                replace(settings, **{name: "a\x00"})
    with pytest.raises(InvalidInput, match="“Number of denoising steps” must be a whole number"):
        replace(settings, arms=(Arm(), Arm(num_inference_steps="many")))


def test_texts_that_cannot_be_written_or_have_no_end_are_refused_but_people_write_in_every_language():
    endless = "x" * 10_001, ["x"] * 1001, [[[[[[[]]]]]]]
    for value in ("\ud800", "a\x00", "\x1b[31m", ["\x07"], {"a": ["\udfff"]}, *endless):
        with pytest.raises(InvalidInput, match="words "):
            check_texts("words", value)
    check_texts("words", "Krankenpfleger\nسائق شاحنة\n看護師\t👩‍🚀 ñ")


def test_a_type_is_looked_at_whether_it_stands_there_as_text_or_as_itself():
    for declared in (int, "int"):

        def run(n_images):
            """Declared below."""

        run.__annotations__ = {"n_images": declared}
        check_arguments(run, {"n_images": 5})
        with pytest.raises(InvalidInput, match="n_images must be a whole number; got 'five'"):
            check_arguments(run, {"n_images": "five"})


def test_what_is_quoted_is_short():
    values = (10**5000, -(10**5000), "x" * 10**6, ["x" * 1000] * 1000, {"a": {"b": {"c": 10**5000}}})
    assert all(len(quoted(value)) < 1000 for value in values)
    assert quoted(7) == "7"


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
