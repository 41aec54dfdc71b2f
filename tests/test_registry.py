"""Properties that every measure in the table must have, and facts that every line must state."""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bias_core.errors import InvalidInput
from bias_core.registry import METRICS, metric
from tests.metric_inputs import NUMBERS, SIZES, D, arguments, degenerate

KEYS = sorted(METRICS)
BIB = (Path(__file__).parent.parent / "refs.bib").read_text()
SHUFFLED = ("embeddings", "similarities", "probabilities", "counts", "words", "table")


def copied(value):
    return value.copy() if hasattr(value, "copy") else value


def same(a, b):
    if isinstance(a, (pd.DataFrame, list)):
        return a.equals(b) if isinstance(a, pd.DataFrame) else a == b
    return np.array_equal(a, b)


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_lie_within_the_stated_bounds(key, seed):
    values = METRICS[key].value(*arguments(key, np.random.default_rng(seed)))
    low, high = METRICS[key].bounds
    assert np.all(np.isfinite(values))
    assert np.all((low - 1e-9 <= np.asarray(values)) & (np.asarray(values) <= high + 1e-9))


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_length_of_embeddings_and_directions_does_not_matter(key, seed):
    rng = np.random.default_rng(seed)
    plain = arguments(key, rng)
    longer = [
        value * rng.uniform(0.1, 10) if entry.kind in ("embeddings", "direction") else value
        for entry, value in zip(METRICS[key].inputs, plain, strict=True)
    ]
    np.testing.assert_allclose(METRICS[key].value(*longer), METRICS[key].value(*plain), atol=1e-9)


@pytest.mark.parametrize("key", KEYS)
def test_the_order_of_images_does_not_matter(key):
    plain = arguments(key, np.random.default_rng(0))
    turned = [
        value[::-1] if entry.kind in SHUFFLED else value
        for entry, value in zip(METRICS[key].inputs, plain, strict=True)
    ]
    expected = METRICS[key].value(*plain)
    if np.ndim(expected):  # one value per image
        expected = expected[::-1]
    np.testing.assert_allclose(METRICS[key].value(*turned), expected, atol=1e-12)


@pytest.mark.parametrize("key", KEYS)
def test_input_is_left_as_it_was(key):
    given_values = arguments(key, np.random.default_rng(1))
    copies = [copied(value) for value in given_values]
    METRICS[key].value(*given_values)
    for value, copy in zip(given_values, copies, strict=True):
        assert same(value, copy)


@pytest.mark.parametrize("key", KEYS)
def test_float16_gives_the_value_of_the_same_numbers_in_float64(key):
    numbers = [entry.kind in NUMBERS for entry in METRICS[key].inputs]
    values = arguments(key, np.random.default_rng(2))
    half = [np.float16(v) if number else v for v, number in zip(values, numbers, strict=True)]
    full = [np.float64(v) if number else v for v, number in zip(half, numbers, strict=True)]
    np.testing.assert_allclose(METRICS[key].value(*half), METRICS[key].value(*full), atol=1e-5)


@pytest.mark.parametrize(
    ("key", "position", "bad"),
    [
        (key, i, bad)
        for key in KEYS
        for i, entry in enumerate(METRICS[key].inputs)
        for bad, _ in degenerate(entry.kind)
        if not (bad == "longer" and not entry.paired)
    ],
)
def test_nothing_degenerate_reads_as_no_bias(key, position, bad):
    values, kind = arguments(key, np.random.default_rng(3)), METRICS[key].inputs[position].kind
    values[position] = dict(degenerate(kind))[bad]
    with pytest.raises(InvalidInput):
        METRICS[key].value(*values)


@pytest.mark.parametrize("key", [key for key in KEYS if METRICS[key].inputs[0].kind == "embeddings"])
def test_equal_images_are_refused_or_lean_nowhere_by_luck(key):
    values = [
        np.ones((size, D)) if entry.kind == "embeddings" else np.eye(D)[0]
        for size, entry in zip(SIZES, METRICS[key].inputs, strict=False)
    ]
    if key == "association":  # equal sets A and B: their difference is exactly nothing
        np.testing.assert_allclose(METRICS[key].value(*values), 0, atol=1e-12)
        return
    with pytest.raises(InvalidInput, match="equal"):
        METRICS[key].value(*values)


@pytest.mark.parametrize("key", KEYS)
def test_each_line_states_its_facts(key):
    entry = METRICS[key]
    low, high = entry.bounds
    assert entry.key == key
    assert low < high
    assert entry.null_value is None or low <= entry.null_value <= high
    for sentence in (entry.summary, entry.limits):
        assert sentence.endswith(".")
    assert entry.name
    assert entry.higher_means
    assert re.search(rf"@\w+{{{entry.reference},", BIB)


@pytest.mark.parametrize("key", KEYS)
def test_inputs_are_the_parameters_of_the_function(key):
    parameters = [
        p.name
        for p in inspect.signature(METRICS[key].function).parameters.values()
        if p.kind != p.KEYWORD_ONLY
    ]
    assert [entry.name for entry in METRICS[key].inputs] == parameters


@pytest.mark.parametrize("key", KEYS)
def test_docstrings_tell_source_range_and_errors(key):
    text = METRICS[key].function.__doc__
    assert "Raises" in text
    assert "Examples" in text
    if METRICS[key].equation.startswith("Eq."):
        assert METRICS[key].reference in text or ":func:" in text or "P - P*" in text


def test_an_unknown_measure_is_quoted():
    with pytest.raises(InvalidInput, match=r"'weat'.*association"):
        metric("weat")
