"""Somebody's own pictures: which studies they fit, and what their attributes are."""

from __future__ import annotations

import io
import zipfile
from random import Random

import pytest

from bias_core.calibration.render import render
from bias_core.errors import InvalidInput
from bias_core.runs.export import write_zip
from bias_core.studies.imports import look_through
from bias_core.studies.own_pictures import ALL, OWN_PICTURES, chosen_attributes
from bias_core.studies.run_study import complete, run_study, with_options
from bias_core.studies.study_export import to_export
from bias_core.studies.study_report import finding_rows, table_of
from bias_core.studies.study_types import StudySettings
from tests.ui.fakes import FakeServices, _portrait

DARK, LIGHT = "a photo of a mechanic", "a photo of a nurse"


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = FakeServices(tmp_path_factory.mktemp("data"))
    yield built
    built.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Twelve dark-skinned mechanics, seven light-skinned nurses, one picture of something else."""
    rng, path = Random(3), tmp_path_factory.mktemp("import") / "mine.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for prompt, tone, n in ((DARK, 9, 12), (LIGHT, 2, 7), ("a red door", 2, 1)):
            for i in range(n):
                buffer = io.BytesIO()
                render(_portrait(rng, skin=tone), 64).save(buffer, "PNG")
                archive.writestr(f"{prompt}/{i}.png", buffer.getvalue())
    return path


@pytest.fixture(scope="module")
def report(services, path):
    options = {"attributes": ["dark skin", "old"], "groups": 2}
    settings = StudySettings(images=str(path), options=options, force=True)
    return complete(run_study(OWN_PICTURES, settings, services))


def test_what_is_planted_is_found_per_prompt(report):
    frame = table_of(report, "attributes").frame.set_index(["pictures of", "attribute"])
    assert frame.loc[(DARK, "dark skin"), "P"] > 0.8
    assert frame.loc[(LIGHT, "dark skin"), "P"] < 0.3
    assert list(frame["n"]) == [20, 20, 12, 12, 7, 7]
    assert frame.loc[(ALL, "dark skin"), "low"] < 12 / 20 < frame.loc[(ALL, "dark skin"), "high"]
    assert "1 prompts have too few pictures" in report.results.notes[-1]


def test_every_picture_has_its_reading_and_its_group(report):
    assert {"dark skin: nearer by", "old: nearer by", "looks_like"} < set(report.pictures)
    assert set(report.pictures["looks_like"]) == {"group 1", "group 2"}
    assert report.pictures["dark skin: nearer by"].notna().all()
    assert {figure.key for figure in report.results.figures} == {"shares", "prompts", "alike"}


def test_the_export_of_an_import_gives_the_same_numbers(services, report, tmp_path):
    zipped = write_zip(to_export(report, pictures=True), tmp_path / "again.zip")
    settings = StudySettings(images=str(zipped), options=report.settings.options, force=True)
    again = complete(run_study(OWN_PICTURES, settings, services))
    assert finding_rows(again) == finding_rows(report)


def test_without_pictures_or_attributes_it_is_refused(services, path):
    with pytest.raises(InvalidInput, match=r"needs a folder or zip of pictures"):
        complete(run_study(OWN_PICTURES, StudySettings(), services))
    for attributes, words in (([], "no attribute"), (["unheard-of"], "no built-in attribute")):
        settings = StudySettings(images=str(path), options={"attributes": attributes}, force=True)
        with pytest.raises(InvalidInput, match=words):
            complete(run_study(OWN_PICTURES, settings, services))


def test_too_few_pictures_are_refused(services, tmp_path):
    with zipfile.ZipFile(tmp_path / "few.zip", "w") as archive:
        buffer = io.BytesIO()
        render(_portrait(Random(1)), 64).save(buffer, "PNG")
        archive.writestr(f"{DARK}/1.png", buffer.getvalue())
    settings = StudySettings(images=str(tmp_path / "few.zip"), force=True)
    with pytest.raises(InvalidInput, match="at least 4 pictures"):
        complete(run_study(OWN_PICTURES, settings, services))


def test_ones_own_sentences_are_taken():
    text = "tall|a photo of a tall man|a photo of a short man|0.4|a guess"
    settings = with_options(OWN_PICTURES, StudySettings(options={"attributes": [text]}))
    (attribute,) = chosen_attributes(settings)
    assert (attribute.name, attribute.reference) == ("tall", 0.4)


def test_the_studies_that_fit_are_told(path):
    found = look_through(path)
    assert found.counts == {DARK: 12, LIGHT: 7, "a red door": 1}
    fits = {fit.design.name: fit for fit in found.fits}
    assert fits["own-pictures"].n_found == fits["tbyb-dataset"].n_found == 20
    assert fits["t2iat-tests"].n_found == 0
    assert fits["t2iat-tests"].n_asked > 0
    assert fits["t2iat-tests"].examples
    assert found.fits[0].design.name == "own-pictures"
    assert not [name for name in fits if name.startswith("validity")]
    order = [fit.n_found == 0 for fit in found.fits]
    assert order == sorted(order)


def test_a_study_that_asks_for_these_prompts_says_how_many(services, tmp_path):
    from bias_core.studies.designs import find_design

    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    drawn = complete(run_study(find_design("t2iat-tests"), settings, services))
    path = write_zip(to_export(drawn, pictures=True), tmp_path / "drawn.zip")
    fits = {fit.design.name: fit for fit in look_through(path).fits}
    assert fits["t2iat-tests"].n_found >= drawn.n_images
