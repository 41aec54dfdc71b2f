"""The page of cards is that of the table."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.registry import METRICS
from bias_core.registry.markdown import card, to_markdown

PAGE = Path(__file__).parent.parent / "docs" / "measures.md"


def test_the_page_is_up_to_date():
    written = PAGE.read_text(encoding="utf-8")
    assert written == to_markdown(METRICS.values()), (
        "python -m bias_core measures --markdown > docs/measures.md"
    )


@pytest.mark.parametrize("key", sorted(METRICS))
def test_a_card_tells_range_source_and_limits(key):
    text = "\n".join(card(METRICS[key]))
    for fact in (METRICS[key].name, METRICS[key].summary, METRICS[key].reference, METRICS[key].limits):
        assert fact in text


def test_the_command_line_lists_every_measure():
    plain = CliRunner().invoke(app, ["measures", "--markdown"])
    assert plain.exit_code == 0
    assert plain.output == to_markdown(METRICS.values())
    table = CliRunner().invoke(app, ["measures"])
    assert table.exit_code == 0
    assert "null" in table.output
