"""A run ends when its time is over, says so, and keeps what it drew."""

import pytest

from bias_core.errors import Cancelled, Interrupted
from bias_core.settings import Settings
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.limits import TimeLimit
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import complete, run_study
from tests.explored import explore
from tests.ui.fakes import FakeServices

OVER = "the most that one run may here (BIAS_MAX_MINUTES)"


@pytest.fixture
def hurried(tmp_path):
    services = FakeServices(tmp_path / "data")
    services.settings = services.settings.model_copy(update={"max_minutes": 1e-9})
    yield services
    services.close()


def test_a_study_whose_time_is_over_says_so_and_goes_on_from_there(hurried):
    design, settings = find_design("oasis-doctors"), StudySettings(scale=0.01)
    with pytest.raises(Interrupted) as ended:
        complete(run_study(design, settings, hurried))
    assert OVER in str(ended.value)
    (run,) = hurried.manifests.list()
    assert run.status == "cancelled"
    hurried.settings = hurried.settings.model_copy(update={"max_minutes": 5.0})
    assert complete(run_study(design, settings, hurried)).n_images


def test_an_exploration_whose_time_is_over_reports_what_it_has_and_why(hurried):
    asked = explore_settings(concept="doctor", n_images=64, model="calibration-renderer")
    *_, report = explore(asked, hurried)
    assert len(report.images) < 64
    assert any(OVER in note for note in report.notes)


def test_a_stop_stays_a_stop():
    limit = TimeLimit(Settings(max_minutes=1e-9), lambda: True)
    assert limit()
    with pytest.raises(Cancelled) as stopped, limit.explained():
        raise Cancelled("stopped")
    assert not isinstance(stopped.value, Interrupted)
