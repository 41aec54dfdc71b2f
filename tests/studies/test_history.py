"""A visitor's runs are his own: listed, opened, kept, deleted and brought back, and gone on with."""

from dataclasses import replace

import pytest

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.store.manifests import Manifest
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.documents import to_dict
from bias_core.studies.reports.saved import report_store
from bias_core.studies.running.history import delete_run, go_on, keep_run, list_runs, open_run, restore_run
from bias_core.studies.running.run import complete, run_study
from tests.explored import explore
from tests.shared import shared_folder
from tests.studies.oasis_runs import without_seconds
from tests.ui.fakes import FakeServices

ME, OTHER = "a" * 32, "b" * 32
DESIGN = find_design("t2iat-tests")
SETTINGS = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})


@pytest.fixture
def services(shelf, tmp_path):
    """Runs of their own over pictures that other tests drew, too."""
    built = FakeServices(shared_folder(shelf, tmp_path / "data"))
    yield built
    built.close()


def run(services, session=ME, design=DESIGN, settings=SETTINGS):
    return complete(run_study(design, settings, services, session=session))


def test_the_list_tells_what_was_asked_and_how_it_ended_and_the_report_opens_as_it_was(services):
    report = run(services)
    (line,) = list_runs(services, ME)
    assert (line.run_id, line.study, line.status, line.saved) == (report.run_id, "t2iat-tests", "finished", True)
    assert line.choices == "2 % · tests: science_arts · n_permutations: 200 · seed 0"
    assert line.n_pictures == line.n_stored == report.n_images
    assert line.n_bytes == sum(image.path.stat().st_size for image in report.stored.values())
    assert to_dict(open_run(services, ME, report.run_id).report) == to_dict(report)


def test_nobody_sees_or_touches_anothers_runs(services):
    mine = run(services)
    assert list_runs(services, OTHER) == []
    for act in (
        lambda: open_run(services, OTHER, mine.run_id),
        lambda: delete_run(services, OTHER, mine.run_id),
        lambda: keep_run(services, OTHER, mine.run_id, True),
        lambda: complete(go_on(services, OTHER, mine.run_id)),
        lambda: list_runs(services, ""),
        lambda: open_run(services, "", mine.run_id),
        lambda: open_run(services, ME, "../reports"),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert len(list_runs(services, ME)) == 1


def test_deleting_takes_the_report_along_and_can_be_undone(services):
    report = run(services)
    before = list_runs(services, ME)
    deleted = delete_run(services, ME, report.run_id)
    assert list_runs(services, ME) == []
    assert report.run_id not in report_store(services)
    with pytest.raises(InvalidInput, match="another visitor"):
        restore_run(services, OTHER, deleted)
    restore_run(services, ME, deleted)
    assert list_runs(services, ME) == before
    assert to_dict(open_run(services, ME, report.run_id).report) == to_dict(report)


def test_keeping_protects_the_pictures(services):
    report = run(services)
    for kept in (True, False):
        keep_run(services, ME, report.run_id, kept)
        assert list_runs(services, ME)[0].is_kept == kept
        assert services.manifests.protected_ids() == (set(report.stored) if kept else set())


def test_a_stopped_run_goes_on_to_the_report_that_it_would_have_had(services, tmp_path):
    asked, empty = iter([False] * 8 + [True] * 1000), FakeServices(tmp_path / "empty")
    with pytest.raises(Cancelled):
        complete(run_study(DESIGN, SETTINGS, empty, cancelled=lambda: next(asked), session=ME))
    (line,) = list_runs(empty, ME)
    assert (line.status, line.saved) == ("cancelled", False)
    assert 0 < line.n_stored < line.n_pictures
    with pytest.raises(StorageError, match="Run again"):
        open_run(empty, ME, line.run_id)
    report = complete(go_on(empty, ME, line.run_id))
    assert report.run_id == line.run_id
    assert without_seconds(report) == without_seconds(run(services))
    assert [line.status for line in list_runs(empty, ME)] == ["finished"]
    empty.close()


def test_a_design_of_ones_own_goes_on_too(services):
    own = replace(DESIGN, name="mine", title="Mine", options={**DESIGN.options, "tests": ["career_family"]})
    settings = replace(SETTINGS, options={"n_permutations": 200})
    report = run(services, design=own, settings=settings)
    again = complete(go_on(services, ME, report.run_id))
    assert again.design == own
    assert without_seconds(again) == without_seconds(report)


def test_an_exploration_goes_on_and_opens(services):
    settings = explore_settings(concept="nurse", n_images=5, attribute_a="", attribute_b="", encoder="calibration-clip")
    *_, report = explore(settings, services, session=ME)
    assert open_run(services, ME, report.run_id).report.settings == settings
    assert complete(go_on(services, ME, report.run_id)).settings == settings


def test_imported_pictures_that_are_gone_are_asked_for_again(services):
    report = run(services)
    manifest = services.manifests.get(report.run_id)
    services.manifests.restore(replace(manifest, settings={**manifest.settings, "images": "nowhere/mine.zip"}))
    with pytest.raises(InvalidInput, match=r"'mine\.zip' of this run are no longer here"):
        complete(go_on(services, ME, report.run_id))
    assert "pictures of mine.zip" in list_runs(services, ME)[0].choices


def test_a_run_of_an_older_version_says_so(services):
    old = Manifest(id="abc", study="t2iat-tests", session=ME, title="Old", settings={}, rows=(), status="cancelled")
    services.manifests.save(old)
    with pytest.raises(InvalidInput, match="older version"):
        complete(go_on(services, ME, "abc"))
    assert list_runs(services, ME)[0].n_pictures == 0
