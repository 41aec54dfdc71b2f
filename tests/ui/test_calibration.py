"""The verdicts that open with the tab: from shipped reports, and from none."""

import re
from functools import cache
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bias_core.app.build import TABS
from bias_core.errors import InvalidInput, StorageError
from bias_core.installed import ASSETS
from bias_core.measures.intervals import normal_estimate
from bias_core.report.headlines import ADVICE, AS_PUBLISHED, GRADES, count_grades, headline, verdict_lines
from bias_core.report.report_text import VALIDITY
from bias_core.report.shipped import TITLES, load_others, load_shipped
from bias_core.settings import Settings
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import StudyReport, StudySettings
from bias_core.ui.calibration.tab import CalibrationTab, verdicts_html
from bias_core.ui.links import notice_html, read_link
from tests.ui.tabs import built
from validation import find_study
from validation.summary import STUDIES, report_files, shipped_files
from validation.verdicts import measured, results_of

N = 210

COUNTS = "validity-headlines"


@cache
def report(*, slope=1.0, bias=0.0, width=1.0):
    """A report of a normal measure with an error of 0.1, whose intervals claim ``width`` times that."""
    rng = np.random.default_rng(7)
    rows = []
    for place, condition in enumerate(("fair", "published", "extreme")):
        for repetition in range(N):
            true = slope * 0.3 * place
            value = true + bias + rng.normal(0, 0.1)
            estimate = normal_estimate(value, 0.1 * width, n=31, null_value=0.0)
            rows.append(
                measured(
                    "signed_difference", estimate, target=true, condition=condition, repetition=repetition,
                    planted="<gender>",
                )
            )  # fmt: skip
    settings = StudySettings(options={"conditions": ["fair", "published", "extreme"]})
    return StudyReport(
        run_id="abc", design=find_study("validity-measures"), settings=settings, n_planned=9, n_images=9,
        results=results_of(pd.DataFrame(rows), settings), versions={"bias_core": "0"},
        pictures=pd.DataFrame({"image_id": ["x"]}),
    )  # fmt: skip


def test_a_right_measure_can_be_trusted_for_everything():
    (line,) = verdict_lines(report())
    assert line.grade == "holds"
    assert "value, interval and ranking" in line.advice
    assert line.coverage is not None
    assert line.alarms is not None
    assert (line.coverage["n"], line.alarms["n"]) == (3 * N, N)
    assert line.means.count("→") == 2


def test_what_fails_is_named_with_what_it_can_still_be_used_for():
    for how, words in (
        ({"width": 0.5}, "intervals too narrow"),
        ({"bias": 0.3}, "finds bias where none is planted"),
        ({"slope": 0.0}, "does not follow what is planted"),
    ):
        (line,) = verdict_lines(report(**how))
        assert line.grade == "fails"
        assert ADVICE[words] in line.advice
        assert words in headline(report(**how))
    assert headline(report()) == "1 of 1 measures recover the bias that was planted."
    failed = "0 of 1 measures recover the bias that was planted. These fail: Signed difference"
    assert headline(report(width=0.5)).startswith(failed)


def test_shipped_reports_read_back_without_repetitions_and_pictures(tmp_path):
    for name, content in shipped_files([report()]).items():
        (tmp_path / name).write_bytes(content)
    (saved,) = load_shipped(tmp_path)
    assert saved.report.pictures is None
    assert "repetitions" not in [table.key for table in saved.report.results.tables]
    assert verdict_lines(saved.report) == verdict_lines(report())
    html = verdicts_html((saved,))
    assert "1 of 1 measures used in headlines recover the planted bias." in html
    assert "&lt;gender&gt;" in html
    assert "<gender>" not in html


def test_failing_measures_stand_first_and_inconclusive_ones_are_counted():
    html = verdicts_html(load_shipped())
    for group in html.split("<section>")[1:]:
        found = re.findall(r'<b class="grade (\w+)"', group.partition("</section>")[0])
        assert found == sorted(found, key=GRADES.index, reverse=True)
    lines = [line for saved in load_shipped() for line in verdict_lines(saved.report) if line.kind == AS_PUBLISHED]
    n = count_grades(lines)
    assert f"{n['holds'] + n['remark']} of {len(lines)} recover it; inconclusive: {n['inconclusive']}; failing" in html
    assert "Attribute prevalence P (share of the pictures)" in html


def test_reports_on_another_generator_stand_folded_below(tmp_path):
    (tmp_path / "a-model").mkdir()
    for name, content in shipped_files([report()]).items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / "a-model" / name).write_bytes(content)
    html = verdicts_html(load_shipped(tmp_path), load_others(tmp_path))
    assert "The verdicts with 9 pictures by a-model" in html
    assert html.count("Signed difference P − P*") == 2
    page = report_files([report()], list(load_others(tmp_path)))["README.md"].decode()
    assert "[its own report](a-model/README.md)" in page


def test_a_broken_file_is_said(tmp_path):
    (tmp_path / f"{STUDIES[0]}.json").write_bytes(b"\xff")
    with pytest.raises(StorageError, match="shipped"):
        load_shipped(tmp_path)


def test_without_a_shipped_report_the_tab_says_how_to_get_one(fakes, tmp_path):
    fakes.settings = Settings(data_dir=tmp_path, assets_dir=tmp_path)
    assert not CalibrationTab(fakes).shipped
    assert "validation report --ship" in verdicts_html(())


def test_what_is_shipped_shows_every_study_that_there_is():
    saved = load_shipped()
    if not saved:
        pytest.skip("no report is shipped: make one with python -m validation report --ship")
    names = [item.report.design.name for item in saved if isinstance(item.report, StudyReport)]
    assert names == [name for name in (*STUDIES, COUNTS) if name in names]
    shipped = {path.stem for path in (ASSETS / "validity").rglob("*.json")}
    assert shipped <= set(TITLES)
    shown = verdicts_html(saved)
    for item in saved:
        if item.report.design.name == COUNTS:  # counted by a command, no study
            assert headline(item.report) in shown
            continue
        assert item.report.design == find_study(item.report.design.name)
        for line in verdict_lines(item.report):
            assert line.coverage is not None or line.alarms is not None  # tests have no interval
            assert line.seeds.startswith("on seed") or line.planted.startswith("without pictures")
    assert "✓" in shown
    assert "on seeds 0 to 2" in shown


def test_every_headline_holds_within_the_bar():
    """A measure that fails, or is not shown to hold, is no headline."""
    lines = [line for saved in load_shipped() for line in verdict_lines(saved.report)]
    headlines = [line for line in lines if line.kind == "headline"]
    assert len(headlines) > 15
    for line in headlines:
        assert line.grade in ("holds", "remark"), (line.measure, line.planted, line.verdict)
        assert line.coverage is None or (line.coverage["value"] >= 0.93 and line.coverage["n"] >= 200), line
        assert line.alarms is None or (line.alarms["value"] <= 0.07 and line.alarms["n"] >= 200), line


def test_what_is_shipped_and_what_is_documented_is_the_same():
    page = Path(__file__).parent.parent.parent / "docs" / "validity" / "README.md"
    if not page.is_file() or not load_shipped():
        pytest.skip("no report is documented or shipped")
    rows = page.read_text().replace("\\*", "*").splitlines()
    told = {tuple(row.strip("| ").split(" | "))[:3] for row in rows if "%" in row}
    shares = {
        (line.measure, line.planted, f"{100 * line.coverage['value']:.1f} % of {line.coverage['n']:,}")
        for item in load_shipped()
        if isinstance(item.report, StudyReport)
        for line in verdict_lines(item.report)
        if line.coverage is not None
    }
    assert shares <= told


def test_what_a_shipped_report_shows_is_made_once_for_all_visitors(fakes, monkeypatch):
    tab = built(CalibrationTab, fakes)
    tab.__dict__["shipped"] = dict(list(tab.shipped.items())[:1])
    first, header = tab.on_look(None), tab.parts["header"]
    assert "It comes with the app." in first[header]
    assert "measures that headlines use recover the bias that was planted" in first[header]
    assert first[tab.parts["shown"]]["visible"]
    assert header not in tab.on_look(first[tab.parts["report"]])  # one that is open stays
    first[tab.parts["shown"]].clear()  # Gradio takes them apart
    with monkeypatch.context() as patched:
        patched.setattr(CalibrationTab, "show_report", None)
        assert tab.first_example()[header] == first[header]
        assert tab.on_open(*tab.shipped)[tab.parts["shown"]]["visible"]


def test_a_shipped_report_says_what_it_found_and_no_command_of_the_app(fakes):
    tab = built(CalibrationTab, fakes)
    header, outputs = tab.parts["header"], {id(part) for part in (*tab.result_outputs(), tab.parts["status"])}
    said = {name: headline(saved.report) for name, saved in tab.shipped.items()}
    ways = [name for name, text in said.items() if "recover the bias that was planted" in text]
    assert sorted([*ways, "validity-texts", COUNTS]) == sorted(said)
    assert "headlines claim something" in said[COUNTS]
    assert "The text that the headline shows names" in said["validity-texts"]
    for name in (ways[0], "validity-texts"):
        shown, saved = tab.on_open(name), tab.shipped[name]
        assert {id(part) for part in shown} <= outputs
        assert said[name] in unescape(shown[header])
        assert shown[tab.parts["plot"]].count("<svg") >= 1, name
        assert not any(shown[tab.parts[part]]["visible"] for part in ("shell", "python", "link"))
        details = tab.on_unfold("details", saved.report, ())
        assert "verdicts" in details[tab.parts["tables"]] or name == "validity-texts"
    assert "run" not in tab.parts


def test_the_app_knows_no_validity_study():
    assert not [design.name for design in list_designs() if design.kind.startswith(VALIDITY)]
    with pytest.raises(InvalidInput, match="no study 'validity-rates'"):
        find_design("validity-rates")


def test_a_link_with_settings_of_a_validity_study_opens_the_tab_with_one_note(fakes):
    query = {"tab": "calibration", "study": "validity-pairs", "scale": "0.25", "option.repetitions": "2"}
    link = read_link(query, {tab.key: getattr(tab, "studies", ()) for tab in TABS}, fakes)
    assert link.tab == "calibration"
    assert "ignored them: study “validity-pairs”, option.repetitions “2”." in notice_html(link)
