"""Runs with options, or of a study, that this version no longer has: they open, and one note names what is gone.

Kept by the version before: an exploration with two scales, four looks and a reader of scales, pictures of who acts,
pictures of three people, and planted against measured.
"""

import shutil
from html import unescape
from pathlib import Path

import pytest

from bias_core.errors import InvalidInput, UnknownModel
from bias_core.library.tab import RunsTab
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.reports.claims import claims
from bias_core.studies.reports.documents import to_markdown
from bias_core.studies.reports.headline import headline
from bias_core.studies.running.export import to_export
from bias_core.studies.running.history import go_on, list_runs, open_run
from bias_core.studies.running.run import complete
from bias_core.ui.links import read_link
from tests.shared import RealServices, undrawn
from tests.ui.tabs import built

__all__ = ["undrawn"]

EXPLORED, ACTED, THREE = "f892e6636675c66b", "0af5be8dae33e423", "f8ef304efb2707b7"
VALIDITY = "46ab12519e6b8e68"
ME = "visitor-0000000000000000"


@pytest.fixture
def services(tmp_path):
    shutil.copytree(Path(__file__).parent / "left_runs", tmp_path / "data")
    built = RealServices(Settings(data_dir=tmp_path / "data", offline=True, device="cpu"))
    yield built
    built.close()


def note_of(report):
    (note,) = (one for one in report.results.notes if "This version of the program no longer has" in one)
    return note


def test_all_are_on_the_list_and_open_with_what_they_measured(services, undrawn):
    assert {line.run_id for line in list_runs(services, ME)} == {EXPLORED, ACTED, THREE}
    for run_id in (EXPLORED, ACTED, THREE):
        report = open_run(services, ME, run_id).report
        assert report.results.findings
        assert claims(report)
        assert note_of(report) in to_markdown(report)
        to_export(report)


def test_an_exploration_is_without_its_scales_and_their_reader_is_in_no_sentence(services):
    report = open_run(services, ME, EXPLORED).report
    gone = "the option scales, the option in_four, the option scale_reader"
    note = note_of(report)
    assert note.startswith("Left out, as this version of the program measures it otherwise: age group: distance to the")
    assert note.endswith(f"This version of the program no longer has {gone}.")
    assert not {"scales", "in_four", "scale_reader"} & set(option_values(report.settings.options))
    assert "scale-age group-mean" in {one.key for one in report.results.findings}  # what was measured stays
    assert "skin-tone-classifier" not in " ".join(claims(report))
    with pytest.raises(UnknownModel, match="has no condition 'tones'"):
        complete(go_on(services, ME, EXPLORED))


def test_a_pair_who_act_is_left_out_and_the_run_goes_on_beside_the_one_that_was_kept(services):
    report = open_run(services, ME, ACTED).report
    note = note_of(report)
    assert note.startswith("Left out, as this version of the program measures it otherwise: Share of the picture")
    assert note.endswith("This version of the program no longer has the option act, the option looks.")
    assert "act" not in report.design.options
    assert option_values(report.settings.options)["pairs"] == ("teacher and student",)
    again = complete(go_on(services, ME, ACTED))
    assert note_of(again) == "This version of the program no longer has the option act, the option looks."
    assert note_of(open_run(services, ME, again.run_id).report) == note_of(again)
    assert {line.run_id for line in list_runs(services, ME)} == {EXPLORED, ACTED, THREE, again.run_id}


@pytest.mark.parametrize(
    ("run_id", "session", "study"), [(THREE, ME, "pst-three"), (VALIDITY, "somebody", "validity-rates")]
)
def test_a_run_of_a_study_that_is_gone_shows_its_numbers_and_is_not_run_again(services, run_id, session, study):
    assert run_id in {line.run_id for line in list_runs(services, session)}
    for report in (open_run(services, session, run_id).report, open_run(services, session, run_id).report):
        assert note_of(report).endswith(f"This version of the program no longer has the study {study}.")
    tab = built(RunsTab, services)
    tab.others = []
    shown = tab.opened(open_run(services, session, run_id))
    assert headline(report) in unescape(shown[tab.parts["header"]])
    assert [shown[tab.parts[name]].get("value") for name in ("shell", "python")] == ["", ""]
    with pytest.raises(InvalidInput, match=f"cannot be run again. This version .* no longer has the study {study}"):
        complete(go_on(services, session, run_id))


def test_a_study_that_is_gone_is_refused_with_the_names_of_those_there_are():
    for name in ("pst-three", "validity-tones", "validity-gender"):
        with pytest.raises(InvalidInput, match=f"no study '{name}'; there are .*pst-swapped"):
            find_design(name)


def test_a_link_says_what_it_asks_for_in_vain(services):
    tabs = {"explore": (), "paired": ("pst-occupations", "pst-swapped")}
    given = {"tab": "paired", "study": "pst-swapped", "model": "calibration-renderer", "condition": "tones"}
    link = read_link(given | {"option.act": "helping", "option.looks": "four"}, tabs, services)
    assert link.values["study"] == "pst-swapped"
    assert set(link.ignored) >= {"condition “tones”"}
    assert len(link.ignored) == 3
    assert read_link({"tab": "paired", "study": "pst-three"}, tabs, services).ignored == ("study “pst-three”",)
