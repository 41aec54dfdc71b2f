"""Tables on the command line can be read at any width."""

import pandas as pd
import pytest
from rich.table import Table
from typer.testing import CliRunner

from bias_core.cli import app, common
from bias_core.cli.common import console
from bias_core.cli.reports import show_study_report
from bias_core.metrics.propagation import spi_band
from bias_core.studies.kit.designs import find_design, list_designs
from bias_core.studies.kit.types import Results, StudyReport, StudySettings, StudyTable, columns


@pytest.fixture
def at_width(monkeypatch):
    def set_width(width: int) -> int:
        monkeypatch.setattr(console, "_width", width)
        return width

    return set_width


@pytest.mark.parametrize("width", [60, 80, 200])
def test_study_list_shows_whole_names(at_width, width):
    at_width(width)
    said = CliRunner().invoke(app, ["study", "list"]).output
    for design in list_designs():
        assert f"│ {design.name} " in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize("command", [["models"], ["attributes"], ["measures"]])
def test_no_list_cuts_a_word_at_80_columns(at_width, command):
    at_width(80)
    said = CliRunner().invoke(app, command, env={"BIAS_OFFLINE": "1"}).output
    assert "│" in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80


def spi_report() -> StudyReport:
    """A report with the columns of SPI's table, of two nationalities with two attributes each."""
    rows = []
    for nationality in ("Iranian", "Mexican"):
        for attribute in ("turban", "headscarf with a long name"):
            band = spi_band([[0.123, 0.5], [-0.1, 0.6], [0.0, 0.55]])
            rows.append(
                {
                    "nationality": nationality,
                    "attribute": attribute,
                    **columns("first step", band[0]),
                    "first clear": 2.0,
                    "strongest": 2,
                    **columns("gain there", band[1]),
                    "last": band[-1].value,
                    **columns("all steps", band[0]),
                    **columns("finished P", band[1]),
                    **columns("SPI, first step", band[0]),
                    **columns("SPI, all steps", band[0]),
                    "seeds": 4,
                    "steps": 12,
                }
            )
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
        show_study_report(spi_report())
    said = caught.get()
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80
    for word in ("nationality", "attribute", "strongest", "finished", "seeds", "Mexican", "headscarf"):
        assert word in said
    # Every part of the table says which row it goes on with.
    heads = [line for line in said.splitlines() if line.startswith("┃ nation")]
    assert len(heads) == sum("When attributes are added" in line for line in said.splitlines()) >= 2
    assert said.count("Iranian") == 2 * len(heads)


def test_what_fits_is_printed_whole_and_a_long_text_gets_the_room_that_is_left(at_width):
    at_width(40)
    table = Table("name", "text", title="Two")
    table.add_row("a", "some words that need more than one line")
    with console.capture() as caught:
        common.show_table(table)
    lines = caught.get().splitlines()
    assert sum("Two" in line for line in lines) == 1
    assert max(map(len, lines)) == 40


def test_an_interval_is_not_broken_and_a_word_wider_than_the_terminal_is_folded_not_cut(at_width):
    at_width(45)
    table = Table("a", "value", "interval")
    table.add_row("x" * 40, "0.5", "-0.12 to 0.34")
    with console.capture() as caught:
        common.show_table(table)
    said = caught.get()
    assert "-0.12 to 0.34" in said
    assert said.count("x") >= 40
    assert "…" not in said
