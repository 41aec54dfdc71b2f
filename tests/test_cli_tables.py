"""Tables on the command line can be read at any width."""

from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from rich.table import Table
from typer.testing import CliRunner

from bias_core.app.cli import app, common
from bias_core.app.cli.common import console
from bias_core.app.cli.reports import show_study_report
from bias_core.measures.propagation import spi_band
from bias_core.report.claims import decide_findings
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import Results, StudyReport, StudySettings, StudyTable, columns, finding
from bias_core.types import Estimate


@pytest.fixture
def at_width(monkeypatch):
    def set_width(width: int) -> int:
        monkeypatch.setattr(console, "_width", width)
        return width

    return set_width


def test_no_list_cuts_a_word_and_study_list_shows_whole_names(at_width):
    designs = [f" {design.name} " for design in list_designs()]
    studies = ["study", "list"], designs
    for width, command, names in (
        (60, *studies),
        (80, *studies),
        (200, *studies),
        (80, ["models"], ["│"]),
        (80, ["attributes"], ["│"]),
        (80, ["measures"], ["│"]),
    ):
        at_width(width)
        said = CliRunner().invoke(app, command, env={"BIAS_OFFLINE": "1"}).output
        assert [name for name in names if name not in said] == []
        assert "…" not in said
        assert max(map(len, said.splitlines())) <= width


def spi_report() -> StudyReport:
    """A report with the columns of SPI's table, of two nationalities with two attributes each."""
    rows = []
    band = spi_band([[0.123, 0.5], [-0.1, 0.6], [0.0, 0.55]])
    for nationality, attribute in product(("Iranian", "Mexican"), ("turban", "headscarf with a long name")):
        row = {"nationality": nationality, "attribute": attribute, **columns("first step", band[0])}
        row |= {"first clear": 2.0, "strongest": 2, **columns("gain there", band[1]), "last": band[-1].value}
        row |= {**columns("all steps", band[0]), **columns("finished P", band[1])}
        row |= {**columns("SPI, first step", band[0]), **columns("SPI, all steps", band[0]), "seeds": 4, "steps": 12}
        rows.append(row)
    frame = pd.DataFrame(rows)
    return StudyReport(
        run_id="0" * 16,
        design=find_design("oasis-spi"),
        settings=StudySettings(),
        results=Results(
            findings=(), tables=(StudyTable(key="spi", title="When attributes are added", frame=frame),),
            figures=(), notes=(),
        ),
        n_planned=4, n_images=4, n_blocked=0, unknown_words=(), versions={}, seconds=1.0,
    )  # fmt: skip


def test_spi_is_readable_at_80_columns(at_width):
    at_width(80)
    with console.capture() as caught:
        show_study_report(spi_report(), full=True)
    said = caught.get()
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80
    for word in ("nationality", "attribute", "strongest", "finished", "seeds", "Mexican", "headscarf"):
        assert said.count(word) >= 2  # a table for each row
    assert said.count("When attributes are added") == 1


def test_what_fits_is_printed_whole_and_nothing_is_broken_or_cut(at_width):
    at_width(40)
    table = Table("name", "text", title="Two")
    table.add_row("a", "some words that need more than one line")
    with console.capture() as caught:
        common.show_table(table)
    lines = caught.get().splitlines()
    assert sum("Two" in line for line in lines) == 1
    assert max(map(len, lines)) <= 40
    at_width(45)
    table = Table("a", "value", "interval")
    table.add_row("x" * 40, "0.5", "-0.12 to 0.34")
    with console.capture() as caught:
        common.show_table(table)
    said = caught.get()
    assert "-0.12 to 0.34" in said
    assert said.count("x") >= 40  # folded
    assert "…" not in said


def test_first_numbers_keep_their_names_n_and_interval_at_any_width(at_width):
    share = Estimate(value=0.9, low=0.69, high=0.99, n=20, null_value=0.5, p_value=0.001)
    found = finding("a", "Iranian, traditional clothes: P", "attribute_prevalence", share, published=0.98, expected=0.9)
    report = replace(spi_report(), results=Results(findings=decide_findings([found], lambda _: "a", confidence=0.95)))
    for width in (60, 80, 120):
        at_width(width)
        with console.capture() as caught:
            show_study_report(report)
        said = caught.get()
        assert "Iranian, traditional" in said
        assert "0.90 [0.69, 0.99]     │ 20" in said
