"""The verdicts that open with the tab: from shipped reports, and from none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import StorageError
from bias_core.settings import Settings
from bias_core.stats.effects import normal_estimate
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudyReport, StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.validity.headline import ADVICE, verdict_lines
from bias_core.studies.validity.summary import STUDIES, load_others, load_shipped, report_files, shipped_files
from bias_core.studies.validity.tab import CalibrationTab, summary_html
from bias_core.studies.validity.verdicts import measured, results_of
from tests.ui.tabs import built

if TYPE_CHECKING:
    from tests.ui.fakes import FakeServices

N = 210


def report(*, slope: float = 1.0, bias: float = 0.0, width: float = 1.0) -> StudyReport:
    """Of a normal measure with an error of 0.1, whose intervals claim ``width`` times that."""
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
        run_id="abc", design=find_design("validity-measures"), settings=settings, n_planned=9, n_images=9,
        results=results_of(pd.DataFrame(rows), settings), versions={"bias_core": "0"},
        pictures=pd.DataFrame({"image_id": ["x"]}),
    )  # fmt: skip


def test_a_right_measure_can_be_trusted_for_everything() -> None:
    (line,) = verdict_lines(report())
    assert line.grade == "holds"
    assert "value, its interval and its order" in line.advice
    assert line.coverage is not None
    assert line.alarms is not None
    assert (line.coverage["n"], line.alarms["n"]) == (3 * N, N)
    assert line.means.count("→") == 2


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"width": 0.5}, "intervals too narrow"),
        ({"bias": 0.3}, "reads bias where none is planted"),
        ({"slope": 0.0}, "does not follow what is planted"),
    ],
)
def test_what_fails_is_said_with_what_it_can_still_be_used_for(how: dict[str, float], words: str) -> None:
    (line,) = verdict_lines(report(**how))
    assert line.grade == "fails"
    assert ADVICE[words] in line.advice


def test_shipped_reports_read_back_without_repetitions_and_pictures(tmp_path: Path) -> None:
    for name, content in shipped_files([report()]).items():
        (tmp_path / name).write_bytes(content)
    (saved,) = load_shipped(tmp_path)
    assert isinstance(saved.report, StudyReport)
    assert saved.report.pictures is None
    assert "repetitions" not in [table.key for table in saved.report.results.tables]
    assert verdict_lines(saved.report) == verdict_lines(report())
    html = summary_html((saved,))
    assert "1 of 1 headline measures are shown to tell what was planted." in html
    assert "&lt;gender&gt;" in html
    assert "<gender>" not in html


def test_reports_on_another_generator_stand_folded_below(tmp_path: Path) -> None:
    (tmp_path / "a-model").mkdir()
    for name, content in shipped_files([report()]).items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / "a-model" / name).write_bytes(content)
    html = summary_html(load_shipped(tmp_path), load_others(tmp_path))
    assert "The same on pictures of a-model, 9 of them" in html
    assert html.count("Signed difference P − P*") == 2
    page = report_files([report()], list(load_others(tmp_path)))["README.md"].decode()
    assert "[its own report](a-model/README.md)" in page


def test_a_broken_file_is_said(tmp_path: Path) -> None:
    (tmp_path / f"{STUDIES[0]}.json").write_bytes(b"\xff")
    with pytest.raises(StorageError, match="shipped"):
        load_shipped(tmp_path)


def test_without_a_shipped_report_the_tab_says_how_to_get_one(fakes: FakeServices, tmp_path: Path) -> None:
    fakes.settings = Settings(data_dir=tmp_path, assets_dir=tmp_path)
    assert not CalibrationTab(fakes).shipped
    assert "calibrate-report --ship" in summary_html(())


def test_the_headline_names_what_fails() -> None:
    assert headline(report()) == "1 of 1 ways of measuring are shown to tell what was planted."
    failed = headline(report(width=0.5))
    assert failed.startswith(
        "0 of 1 ways of measuring are shown to tell what was planted. These fail: Signed difference"
    )
    assert "intervals too narrow" in failed


def test_every_preset_is_small_and_has_options_of_its_study() -> None:
    from bias_core.studies.kit.designs import program_of
    from bias_core.studies.running.run import with_options

    for preset in CalibrationTab.presets:
        design = find_design(preset.study)
        settings = with_options(design, StudySettings(**preset.settings))
        n = sum(shot.n for shot in program_of(design).shots(design, settings))
        assert n <= 650, (preset.name, n)


def test_what_is_shipped_shows_every_study_that_there_is() -> None:
    saved = load_shipped()
    if not saved:
        pytest.skip("no report is shipped: make one with python -m bias_core calibrate-report --ship")
    names = [item.report.design.name for item in saved if isinstance(item.report, StudyReport)]
    assert names == [name for name in STUDIES if name in names]
    shown: Any = summary_html(saved)
    for item in saved:
        assert isinstance(item.report, StudyReport)
        assert item.report.design == replace(find_design(item.report.design.name))
        for line in verdict_lines(item.report):
            assert line.coverage is not None or line.alarms is not None  # tests have no interval
    assert "✓" in shown


def test_every_headline_holds_within_the_bar() -> None:
    """What fails, or is not shown to hold, is no headline."""
    lines = [line for saved in load_shipped() for line in verdict_lines(cast("StudyReport", saved.report))]
    headlines = [line for line in lines if line.kind == "headline"]
    assert len(headlines) > 15
    for line in headlines:
        assert line.grade in ("holds", "remark"), (line.measure, line.planted, line.verdict)
        assert line.coverage is None or (line.coverage["value"] >= 0.93 and line.coverage["n"] >= 200), line
        assert line.alarms is None or (line.alarms["value"] <= 0.07 and line.alarms["n"] >= 200), line


def test_what_is_shipped_and_what_is_documented_is_the_same() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "validity" / "README.md"
    if not page.is_file() or not load_shipped():
        pytest.skip("no report is documented or shipped")
    told = {tuple(row.strip("| ").split(" | "))[:3] for row in page.read_text().splitlines() if "%" in row}
    shares = {
        (line.measure, line.planted, f"{100 * line.coverage['value']:.1f} % of {line.coverage['n']:,}")
        for item in load_shipped()
        if isinstance(item.report, StudyReport)
        for line in verdict_lines(item.report)
        if line.coverage is not None
    }
    assert shares <= told


def test_what_a_shipped_report_shows_is_made_once_for_all_visitors(
    fakes: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = built(CalibrationTab, fakes)
    tab.__dict__["shipped"] = dict(list(tab.shipped.items())[:1])
    first, header = tab.first_example(), tab.parts["header"]
    assert "Example" in first[header]
    assert first[tab.parts["shown"]]["visible"]
    first[tab.parts["shown"]].clear()  # Gradio takes them apart
    with monkeypatch.context() as patched:
        patched.setattr(CalibrationTab, "finished", None)
        assert tab.first_example()[header] == first[header]
        assert tab.on_open(*tab.shipped)[tab.parts["shown"]]["visible"]
