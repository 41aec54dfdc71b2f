"""The study runs on the program's own small model, and says what it found."""

import pytest

from bias_core import Services, StudySettings, complete, find_design, run_study
from bias_core.settings import Settings
from bias_core.study.design import more_studies

import study_name
from study_name.report import build_results
from bias_core.measures.sequential import against, share_interval


@pytest.fixture
def services(tmp_path):
    opened = Services(Settings(data_dir=tmp_path, offline=True))
    with more_studies(tmp_path.__class__(study_name.__file__).parent, "study_name"):  # also before it is installed
        yield opened
    opened.close()


def test_a_run_gives_a_share_with_an_interval_for_each_person(services):
    settings = StudySettings(model="calibration-renderer", scale=0.25)
    report = complete(run_study(find_design("study_name"), settings, services))
    assert [found.key for found in report.results.findings] == ["doctor", "nurse"]
    for found in report.results.findings:
        assert found.estimate.low <= found.estimate.value <= found.estimate.high
        assert found.estimate.n == 8


def test_only_a_share_far_from_half_is_called_clear():
    shares = {"doctor": (40, 40), "nurse": (21, 40)}
    estimates = {who: against(share_interval(*counts), 0.5, 0.95) for who, counts in shares.items()}
    table = build_results(estimates, "a hat", 0.95).tables[0].frame
    assert dict(zip(table["person"], table["clear"])) == {"doctor": "yes", "nurse": "no"}
