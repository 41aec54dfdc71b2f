"""Numbers have the digits that their interval or their n bears out, and tables say what is missing."""

import math

import numpy as np
import pandas as pd

from bias_core.report.report_text import excerpt, markdown_table, readable
from bias_core.wording import format_estimate, format_given, format_interval, format_number, format_p
from tests.every import every

NAN, INF = math.nan, math.inf


@every([
    (41.963, 24.012, 60.4, "42 [24, 60]"),  # half the width: 18
    (41.963, 40.4, 43.4, "42.0 [40.4, 43.4]"),  # 1.5
    (0.41963, 0.24012, 0.604, "0.42 [0.24, 0.60]"),  # 0.18
    (0.0123456, 0.0118, 0.0129, "0.01235 [0.01180, 0.01290]"),  # 0.00055
    (-0.2, -12.4, 11.9, "0 [−12, 12]"),  # no negative zero
    (1234567.8, 1200000.1, 1270000.9, "1,234,568 [1,200,000, 1,270,001]"),
    (3e-9, 1e-9, 5e-9, "3.0e−09 [1.0e−09, 5.0e−09]"),
    (2.345, 1.2, INF, "2.3 [1.2, ∞]"),
    (2.345, -INF, INF, "2.35 [−∞, ∞]"),
])  # fmt: skip
def test_digits_follow_half_the_width_of_the_interval(value, low, high, text):
    assert format_estimate(value, low, high) == text
    assert format_number(value, low, high) == text.split(" ", 1)[0]
    assert format_interval(low, high, value=value) == text.split(" ", 1)[1]


@every([
    (-51.664, 3, "−52"), (-51.664, 1600, "−51.7"), (0.41963, 11, "0.42"), (0.41963, 10_007, "0.4196"),
    (0.0523, 50, "0.052"), (1.0, 800, "1.000"), (0.0, 53, "0.00"), (-51.664, 0, "−51.7"),
])  # fmt: skip
def test_without_an_interval_or_its_width_digits_follow_n(value, n, text):
    assert format_number(value, n=n) == text
    assert format_estimate(value, NAN, NAN, n=n) == f"{text}, no interval"
    assert format_estimate(value, value, value, n=n) == f"{text} [{text}, {text}]"


def test_nothing_is_a_word():
    assert format_number(None) == format_given(None) == format_given(NAN) == "not known"
    assert format_number(NAN) == format_estimate(NAN, NAN, NAN) == "undefined"
    assert format_interval(NAN, 1.0) == "no interval"
    assert format_p(None) == format_p(NAN) == "no test"


def test_a_number_that_somebody_gave_stays_as_it_is():
    given = [33.33, 0.885, 331.0, 0.0, -30.0, 15.000000000000002, 1500.0]
    assert [format_given(value, n=3) for value in given] == [
        "33.33", "0.885", "331", "0", "−30", "15", "1,500",
    ]  # fmt: skip
    assert format_given(200 / 3, n=3) == "67"
    assert format_given(200 / 3, 60.2, 70.1) == "66.7"  # beside a number with that interval


def test_a_table_has_its_intervals_beside_their_values_and_no_empty_column():
    frame = pd.DataFrame(
        {
            "who": ["a", "b"], "n single": [3, 40], "STS single": [-33.333, 14.9], "single low": [-88.1, NAN],
            "single high": [58.2, NAN], "F single": [200 / 3] * 2, "true": [NAN, 12.5], "empty": [None] * 2,
            "why": "",
            "p": [0.00001, NAN], "held": [True, False], "score": [0.5, 0.25], "low": [0.4, 0.2],
            "high": [0.6, 0.3],
        }
    )  # fmt: skip
    text = readable(frame)
    assert list(text.columns) == ["who", "n single", "STS single", "F single", "true", "p", "held", "score"]
    assert text.iloc[0].tolist() == [
        "a", "3", "−33 [−88, 58]", "67", "not known", "< 0.001", "yes", "0.50 [0.40, 0.60]",
    ]  # fmt: skip
    assert text.iloc[1].tolist() == [
        "b", "40", "15, no interval", "67", "12.5", "no test", "no", "0.250 [0.200, 0.300]",
    ]  # fmt: skip


def test_two_columns_low_and_high_behind_a_word_or_a_count_are_numbers_of_their_own():
    values = {"low": [0.25], "high": [0.5], "n": [7], "n low": [1.0], "n high": [2.0]}
    frame = pd.DataFrame({"who": ["a"], **values})
    assert readable(frame).to_numpy().tolist() == [["a", "0.25", "0.5", "7", "1", "2"]]


def test_a_table_without_rows_keeps_its_head_and_of_a_long_one_both_ends_and_its_length_are_shown():
    assert list(readable(pd.DataFrame({"a": [], "b": []})).columns) == ["a", "b"]
    assert readable(pd.DataFrame()).empty
    text, shown = excerpt(pd.DataFrame({"i": np.arange(53), "j": [None] * 53}))
    assert text["i"].tolist() == [*map(str, range(10)), "…", *map(str, range(43, 53))]
    assert shown == "The first 10 and the last 10 of 53 rows"
    assert "| … |" in markdown_table(text)
    assert excerpt(pd.DataFrame({"i": range(40)}))[1] == ""
