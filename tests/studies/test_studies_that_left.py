"""A run that an earlier version kept of a study that is no longer part of the app."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bias_core.errors import InvalidInput
from bias_core.library.tab import RunsTab
from bias_core.studies.reports.headline import headline
from bias_core.studies.running.hand_on import to_form
from bias_core.studies.running.history import go_on, list_runs, open_run
from bias_core.studies.running.run import complete
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

KEPT = Path(__file__).parent / "kept_validity_run"
RUN, ME = "46ab12519e6b8e68", "somebody"
LEFT = "This study is no longer part of the app: these are the numbers that the run had, and it cannot be run again."


@pytest.fixture
def services(tmp_path):
    shutil.copytree(KEPT, tmp_path / "data")
    made = FakeServices(tmp_path / "data")
    yield made
    made.close()


def test_it_is_listed_and_opens_with_its_numbers_and_one_note(services):
    (line,) = list_runs(services, ME)
    assert (line.run_id, line.study, line.saved) == (RUN, "validity-rates", True)
    for report in (open_run(services, ME, RUN).report, open_run(services, ME, RUN).report):  # read, and remembered
        assert [note for note in report.results.notes if "no longer part" in note] == [LEFT]
        assert headline(report).startswith("0 of 5 ways of measuring are shown to tell what was planted.")
        assert set(report.results.frame("rates")["condition"]) == {"fair", "extreme"}
    for form in ("html", "md", "json"):
        assert "no longer part of the app" in to_form(report, form).decode()


def test_the_runs_tab_shows_it_and_no_command(services):
    tab = built(RunsTab, services)
    tab.others = []
    shown = tab.opened(open_run(services, ME, RUN))
    assert "ways of measuring" in shown[tab.parts["header"]]
    assert [shown[tab.parts[name]].get("value") for name in ("shell", "python")] == ["", ""]
    details = tab.on_unfold("details", shown[tab.parts["report"]], ())
    assert "no longer part of the app" in details[tab.parts["notes"]]


def test_it_is_not_run_again(services):
    with pytest.raises(InvalidInput, match="“Planted against measured” cannot be run again: this study is no longer"):
        complete(go_on(services, ME, RUN))
