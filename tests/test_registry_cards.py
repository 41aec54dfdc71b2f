"""What a card says beside the table: the formula from a docstring, and the source from refs.bib."""

from __future__ import annotations

from pathlib import Path

import pytest

from bias_core.errors import StorageError
from bias_core.registry import METRICS
from bias_core.registry.formula import formula
from bias_core.registry.references import load_references


@pytest.mark.parametrize("key", sorted(METRICS))
def test_every_measure_has_a_formula_without_markup_and_a_source(key: str) -> None:
    lines = formula(METRICS[key])
    assert lines
    assert not any(mark in line for line in lines for mark in ("[", "``", ":func:")) or key in _BRACKETS
    work = load_references()[METRICS[key].reference]
    assert work.year in work.short
    assert work.title
    assert work.authors


_BRACKETS = {"stereotype_test_score", "prevalence_difference"}  # E[s], and 1/n Σ_i [a - b]


def test_each_definition_is_a_line_and_a_broken_line_is_joined() -> None:
    assert formula(METRICS["composite_association"])[:3] == (
        "s(w, A, B) = mean_a cos(w, a) - mean_b cos(w, b)",
        "AS = mean_w s(w, A, B)",
        "MCAS = II + ITP + IT + TT",
    )
    (line,) = formula(METRICS["fleiss_kappa"])
    assert line.startswith("κ = (P - P_e) / (1 - P_e)")
    assert line.endswith("p_k the share of answer k among all")


def test_references_read_as_in_a_list() -> None:
    works = load_references()
    assert works["wan2024pst"].short == "Wan and Chang 2024"
    assert works["wan2024pst"].authors == "Y. Wan, K.-W. Chang"
    assert works["wan2024pst"].url == "https://arxiv.org/abs/2402.11089"
    assert works["rogan1978"].venue == "American Journal of Epidemiology 107(1), 71–76"
    assert works["rogan1978"].url == ""
    assert works["gini1912"].title == "Variabilità e mutabilità"
    assert not any(sign in f"{w.title}{w.authors}{w.venue}" for w in works.values() for sign in "{}\\")


def test_a_missing_bibliography_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="bibliography"):
        load_references(tmp_path / "none.bib")
