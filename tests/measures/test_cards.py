"""Properties that every measure must have, what its card states, where it is shown, and how it is found."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

from bias_core.app.cli import app
from bias_core.errors import InvalidInput, StorageError
from bias_core.measures.cards import METRICS, card_lines, cards_markdown, load_references, metric, read_references, work
from tests.every import every
from tests.metric_inputs import NUMBERS, SIZES, D, arguments, degenerate

KEYS = sorted(METRICS)
ROOT = Path(__file__).parent.parent.parent
BIB = (ROOT / "assets" / "refs.bib").read_text()
SHUFFLED = ("embeddings", "similarities", "probabilities", "counts", "words", "table")


def copied(value):
    return value.copy() if hasattr(value, "copy") else value


def same(a, b):
    if isinstance(a, (pd.DataFrame, list)):
        return a.equals(b) if isinstance(a, pd.DataFrame) else a == b
    return np.array_equal(a, b)


@every(KEYS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_lie_within_the_stated_bounds(key, seed):
    values = METRICS[key].value(*arguments(key, np.random.default_rng(seed)))
    low, high = METRICS[key].bounds
    assert np.all(np.isfinite(values))
    assert np.all((low - 1e-9 <= np.asarray(values)) & (np.asarray(values) <= high + 1e-9))


@every(KEYS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_length_of_embeddings_and_directions_does_not_matter(key, seed):
    rng = np.random.default_rng(seed)
    plain = arguments(key, rng)
    longer = [
        value * rng.uniform(0.1, 10) if entry.kind in ("embeddings", "direction") else value
        for entry, value in zip(METRICS[key].inputs, plain, strict=True)
    ]
    np.testing.assert_allclose(METRICS[key].value(*longer), METRICS[key].value(*plain), atol=1e-9)


@every(KEYS)
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


@every(KEYS)
def test_input_is_left_as_it_was_and_gives_the_same_value_again(key):
    given_values = arguments(key, np.random.default_rng(1))
    copies = [copied(value) for value in given_values]
    first = METRICS[key].value(*given_values)
    np.testing.assert_array_equal(METRICS[key].value(*given_values), first)
    for value, copy in zip(given_values, copies, strict=True):
        assert same(value, copy)


@every(KEYS)
def test_float16_gives_the_value_of_the_same_numbers_in_float64(key):
    numbers = [entry.kind in NUMBERS for entry in METRICS[key].inputs]
    values = arguments(key, np.random.default_rng(2))
    half = [np.float16(v) if number else v for v, number in zip(values, numbers, strict=True)]
    full = [np.float64(v) if number else v for v, number in zip(half, numbers, strict=True)]
    np.testing.assert_allclose(METRICS[key].value(*half), METRICS[key].value(*full), atol=1e-5)


@every(
    [
        (key, i, bad)
        for key in KEYS
        for i, entry in enumerate(METRICS[key].inputs)
        for bad, _ in degenerate(entry.kind)
        if not (bad == "longer" and not entry.paired)
    ]
)
def test_nothing_degenerate_reads_as_no_bias(key, position, bad):
    values, kind = arguments(key, np.random.default_rng(3)), METRICS[key].inputs[position].kind
    values[position] = dict(degenerate(kind))[bad]
    with pytest.raises(InvalidInput):
        METRICS[key].value(*values)


@every([key for key in KEYS if METRICS[key].inputs[0].kind == "embeddings"])
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


@every(KEYS)
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


@every(KEYS)
def test_inputs_are_the_parameters_of_the_function(key):
    parameters = [
        p.name for p in inspect.signature(METRICS[key].function).parameters.values() if p.kind != p.KEYWORD_ONLY
    ]
    assert [entry.name for entry in METRICS[key].inputs] == parameters


@every(KEYS)
def test_docstrings_tell_source_range_and_errors(key):
    text = METRICS[key].function.__doc__
    assert "Raises" in text
    assert "Examples" in text
    if METRICS[key].equation.startswith("Eq."):
        assert METRICS[key].reference in text or ":func:" in text or "P - P*" in text


def test_an_unknown_measure_is_quoted():
    with pytest.raises(InvalidInput, match=r"'weat'.*association"):
        metric("weat")


def test_every_measure_has_a_formula_and_a_source():
    for key, card in METRICS.items():
        work = load_references()[card.reference]
        assert card.tex, key
        assert card.symbols.count("$") % 2 == 0, key
        assert work.year in work.short, key
        assert work.title, key
        assert work.authors, key


def test_references_read_as_in_a_list():
    works = load_references()
    assert works["wan2024pst"].short == "Wan and Chang 2024"
    assert works["wan2024pst"].authors == "Y. Wan, K.-W. Chang"
    assert works["wan2024pst"].url == "https://arxiv.org/abs/2402.11089"
    assert works["rogan1978"].venue == "American Journal of Epidemiology 107(1), 71–76"
    assert works["rogan1978"].url == ""
    assert works["gini1912"].title == "Variabilità e mutabilità"
    assert not any(sign in f"{w.title}{w.authors}{w.venue}" for w in works.values() for sign in "{}\\")


def test_a_title_may_go_on_in_the_next_line_and_the_entry_is_kept_as_it_stands(tmp_path):
    entry = "@article{long2020,\n  title = {One line\n    and another},\n  author = {Long, Ann},\n  year = {2020},\n}"
    path = tmp_path / "refs.bib"
    path.write_text(f"% some\n\n{entry}\n")
    (reference,) = read_references(path).values()
    assert (reference.title, reference.authors, reference.bibtex) == ("One line and another", "A. Long", entry)


def test_every_entry_of_the_bibliography_ends_before_the_next_begins():
    assert list(load_references()) == re.findall(r"^@\w+\{([^,\s]+),$", BIB, re.M)


def test_a_missing_bibliography_is_said(tmp_path):
    with pytest.raises(StorageError, match="bibliography"):
        read_references(tmp_path / "none.bib")


def test_the_page_of_cards_is_up_to_date():
    written = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    assert written == cards_markdown(METRICS.values()), "python -m bias_core measures --markdown > docs/measures.md"


def test_a_card_tells_range_source_and_limits():
    for card in METRICS.values():
        text = "\n".join(card_lines(card))
        assert all(fact in text for fact in (card.name, card.summary, work(card.reference), card.limits)), card.key


def test_the_command_line_lists_every_measure():
    plain = CliRunner().invoke(app, ["measures", "--markdown"])
    assert plain.exit_code == 0
    assert plain.output == cards_markdown(METRICS.values())
    table = CliRunner().invoke(app, ["measures"])
    assert table.exit_code == 0
    assert "null" in table.output


def test_a_new_measure_is_one_file_and_is_listed_and_documented(tmp_path):
    shutil.copytree(ROOT / "bias_core", tmp_path / "bias_core", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    source = (ROOT / "bias_core" / "measures" / "exchange.py").read_text()
    new = source.replace("exchange_effect", "nearness").replace('"Effect of exchanging the text"', '"Mean nearness"')
    (tmp_path / "bias_core" / "measures" / "nearness.py").write_text(new)
    command = [sys.executable, "-m", "bias_core", "measures", "--markdown"]
    page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "### Mean nearness\n" in page
    assert "`bias_core.measures.nearness.nearness`" in page
    assert "### Effect of exchanging the text\n" in page
