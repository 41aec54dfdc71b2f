"""Somebody's own pictures: which studies they fit, and what their attributes are."""

import zipfile
from random import Random

import pytest

from bias_core.annotation.collected import task_items
from bias_core.errors import InvalidInput
from bias_core.exchange.export import write_zip
from bias_core.labels.run_task import label_run
from bias_core.library.tab import look_through
from bias_core.studies.explore.results import ALL
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import finding_rows, table_of
from bias_core.studies.running.corrected import correct_run
from bias_core.studies.running.run import complete, run_study
from bias_core.world.render import render
from tests import shared
from tests.explored import explore_settings, measured, own_pictures, pictures_of
from tests.studies.simulated_raters import simulate
from tests.ui.fakes import _portrait

services = shared.fake_services

DARK, LIGHT = "a photo of a mechanic", "a photo of a nurse"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Twelve dark-skinned mechanics, seven light-skinned nurses, one picture of something else."""
    return zipped(tmp_path_factory.mktemp("import") / "mine.zip", (DARK, 9, 12), (LIGHT, 2, 7), ("a red door", 2, 1))


def zipped(path, *folders):
    """A zip with a folder for each prompt, skin tone and number of pictures."""
    rng = Random(3)
    with zipfile.ZipFile(path, "w") as archive:
        for prompt, tone, n in folders:
            for i in range(n):
                with archive.open(f"{prompt}/{i}.png", "w") as file:
                    render(_portrait(rng, skin=tone), 64).save(file, "PNG")
    return path


@pytest.fixture(scope="module")
def report(services, path):
    settings = StudySettings(images=str(path), force=True)
    settings = explore_settings(own_pictures(settings, "dark skin", "old"), n_clusters=2)
    return complete(run_study(find_design("explore"), settings, services))


def test_what_is_planted_is_found_per_prompt(report):
    frame = table_of(report, "attributes").frame.set_index(["pictures of", "attribute"])
    assert frame.loc[(DARK, "dark skin"), "P"] > 0.8
    assert frame.loc[(LIGHT, "dark skin"), "P"] < 0.3
    assert list(frame["n"]) == [20, 20, 12, 12, 7, 7]
    assert frame.loc[(ALL, "dark skin"), "low"] < 12 / 20 < frame.loc[(ALL, "dark skin"), "high"]
    assert any("1 prompts have too few pictures" in note for note in report.results.notes)


def test_every_picture_has_its_reading_and_its_group(report):
    assert {"dark skin: nearer by", "old: nearer by", "looks_like"} < set(report.pictures)
    assert set(report.pictures["looks_like"]) == {"group 1", "group 2"}
    assert report.pictures["dark skin: nearer by"].notna().all()
    assert {figure.key for figure in report.results.figures} == {"shares", "prompts", "alike"}


def test_people_correct_what_is_read_in_pictures_of_one_s_own(services, report):
    made = label_run(report, services.manifests, services.labels, n=15, attributes=["dark skin"])
    prompts = report.pictures.set_index("image_id")["prompt"]
    truth = {
        (item.image_id, "dark_skin"): "yes" if prompts[item.image_id] == DARK else "no"
        for item in task_items(services.labels, made.key)
    }
    assert len(truth) == 15
    simulate(services.labels, made, truth, error=0.0, rater=0)
    p = correct_run(report, services.manifests, lambda: services.labels).numbers[0]
    assert (p.title, p.n_labelled, p.corrected.n) == ("dark skin: P", 15, 20)
    assert p.corrected.low < 12 / 20 < p.corrected.high


def test_the_export_of_an_import_gives_the_same_numbers(services, report, tmp_path):
    zipped = write_zip(pictures_of(report), tmp_path / "again.zip")
    settings = StudySettings(images=str(zipped), options=report.settings.options, force=True)
    again = complete(run_study(find_design("explore"), settings, services))
    assert finding_rows(again) == finding_rows(report)


def test_without_pictures_or_attributes_it_is_refused(services, path):
    with pytest.raises(InvalidInput, match=r"the concept is empty"):
        measured(StudySettings(), services)
    settings = StudySettings(images=str(path), force=True)
    nothing = explore_settings(own_pictures(settings), attributes=())
    with pytest.raises(InvalidInput, match="no attribute"):
        complete(run_study(find_design("explore"), nothing, services))
    with pytest.raises(InvalidInput, match="no built-in attribute"):
        measured(settings, services, "unheard-of")


def test_too_few_pictures_are_refused(services, tmp_path):
    few = zipped(tmp_path / "few.zip", (DARK, 9, 1))
    with pytest.raises(InvalidInput, match="at least 4 pictures"):
        measured(StudySettings(images=str(few), force=True), services)


def test_pictures_of_a_concept_are_found_by_its_prompt(services, path):
    settings = explore_settings(
        StudySettings(images=str(path), force=True), concept="mechanic", attributes=["dark skin"],
        attribute_a="", attribute_b="",
    )  # fmt: skip
    found = complete(run_study(find_design("explore"), settings, services))
    assert set(found.pictures["prompt"]) == {DARK}
    assert found.n_images == 12


def test_the_studies_that_fit_are_told(path):
    found = look_through(path)
    assert found.counts == {DARK: 12, LIGHT: 7, "a red door": 1}
    fits = {fit.design.name: fit for fit in found.fits}
    assert fits["explore"].n_found == fits["tbyb-dataset"].n_found == 20
    assert fits["t2iat-tests"].n_found == 0
    assert fits["t2iat-tests"].n_asked > 0
    assert fits["t2iat-tests"].examples
    assert found.fits[0].design.name == "explore"
    order = [fit.n_found == 0 for fit in found.fits]
    assert order == sorted(order)


def test_a_study_that_asks_for_these_prompts_says_how_many(services, tmp_path):
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    drawn = complete(run_study(find_design("t2iat-tests"), settings, services))
    path = write_zip(pictures_of(drawn), tmp_path / "drawn.zip")
    fits = {fit.design.name: fit for fit in look_through(path).fits}
    assert fits["t2iat-tests"].n_found >= drawn.n_images
