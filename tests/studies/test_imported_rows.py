"""Every study runs on imported pictures: matched by prompt, nothing drawn, what is missing said."""

import io
import zipfile
from dataclasses import replace

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import InvalidInput
from bias_core.exchange.export import Export, ExportedImage, write_zip
from bias_core.settings import Settings
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.rows import ImportedRows
from bias_core.studies.kit.types import Arm, Shot, StudySettings
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.export import to_command
from bias_core.studies.running.run import complete, run_study
from tests import shared

drawing = shared.real_services

DESIGN = find_design("t2iat-occupations")
SMALL = StudySettings(scale=0.02)


class NoModels(shared.RealServices):
    """The reader is there; a text-to-image model must not be asked for."""

    def text_to_image(self, name):
        raise AssertionError(f"asked for {name}")


@pytest.fixture(scope="module")
def drawn(drawing, tmp_path_factory):
    """The report of a drawn run, and its pictures as a zip."""
    report = complete(run_study(DESIGN, SMALL, drawing))
    rows = drawing.manifests.get(report.run_id).rows
    images = [ExportedImage(path=drawing.images.get(row).path, row=row) for row in rows]
    path = tmp_path_factory.mktemp("zip") / "pictures.zip"
    return report, write_zip(Export(images=images, tables={}, report={}, markdown=""), path)


@pytest.fixture
def services(shelf, tmp_path):
    built = NoModels(Settings(data_dir=shared.shared_folder(shelf, tmp_path / "data"), offline=True))
    yield built
    built.close()


def numbers(report):
    names = ("value", "low", "high", "n", "p_value")
    return [{name: row[name] for name in names} for row in to_dict(report)["findings"]]


def test_imported_pictures_give_the_numbers_of_the_drawn_ones(drawn, services):
    report, path = drawn
    imported = complete(run_study(DESIGN, replace(SMALL, images=str(path)), services))
    assert numbers(imported) == numbers(report)
    assert (imported.n_images, imported.n_planned) == (report.n_images, report.n_planned)
    assert imported.settings.model == "imported:pictures"
    assert "pictures of imported:pictures, read by" in to_markdown(imported)
    assert imported.unknown_words == ()
    assert services.manifests.get(imported.run_id).status == "finished"
    command = to_command(DESIGN, imported.settings)
    assert f"--images {path}" in command
    assert "--model" not in command
    assert "--condition" not in command
    again = complete(run_study(DESIGN, imported.settings, services))
    assert numbers(again) == numbers(imported)
    assert again.run_id == imported.run_id


def test_what_is_missing_is_said(drawn, services):
    _, path = drawn
    larger = replace(SMALL, scale=0.04, images=str(path))
    report = complete(run_study(DESIGN, larger, services))
    assert 0 < report.n_images < report.n_planned
    (note,) = [note for note in report.results.notes if "missing" in note]
    assert note.startswith(f"{report.n_planned - report.n_images:,} pictures of this study are missing: ")


def test_pictures_of_another_study_are_refused_with_both_sides_prompts(drawn, services):
    _, path = drawn
    settings = StudySettings(scale=0.02, images=str(path))
    with pytest.raises(InvalidInput, match=r"It asks for: .* The pictures have: "):
        complete(run_study(find_design("t2iat-tests"), settings, services))
    with pytest.raises(InvalidInput, match="no folder or zip"):
        complete(run_study(DESIGN, replace(SMALL, images="nowhere"), services))


def test_pictures_that_nobody_asks_for_are_said(drawn):
    _, path = drawn
    rows = ImportedRows.build(str(path))
    prompt, count = next(iter(rows.source.counts.items()))
    total = sum(rows.source.counts.values())
    notes = rows.notes([Shot(prompt=prompt.upper(), n=count - 1, group="x")])
    assert notes[0].startswith(f"{total - count + 1:,} pictures are more than this study asks for: ")
    assert len(rows.of(Shot(prompt=prompt, n=count - 1, group="x"))) == count - 1


def written(tmp_path, name, seeds):
    """A zip of pictures as A1111 saves them, two prompts and these seeds."""
    path = tmp_path / f"{name}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for who in ("doctor", "nurse"):
            for i, seed in enumerate(seeds):
                info, file = PngInfo(), io.BytesIO()
                parameters = f"a photo of a {who}\nSteps: 20, Sampler: Euler a, CFG scale: 7"
                info.add_text("parameters", parameters + (f", Seed: {seed}, Size: 512x512" if seed else ""))
                Image.new("RGB", (8, 8), (seed or i, 90, 120)).save(file, "PNG", pnginfo=info)
                archive.writestr(f"2026-11-22/{who}-{i}.png", file.getvalue())
    return path


def units(path):
    rows = ImportedRows.build(str(path))
    shots = [Shot(prompt=f"a photo of a {who}", n=9, group="x") for who in ("doctor", "nurse")]
    unit_of = rows.unit_of(shots)
    return [f"{place}:{unit_of(k, row)}" for place, shot in enumerate(shots) for k, row in enumerate(rows.of(shot))]


def test_imports_with_the_same_seeds_are_paired_by_them_and_others_are_not(tmp_path):
    first = units(written(tmp_path, "first", [11, 5, 7]))
    assert len(set(first)) == 6
    assert set(units(written(tmp_path, "again", [7, 11, 5]))) == set(first)  # in another order, too
    for name, seeds in (("fewer", [11, 5]), ("others", [11, 5, 8]), ("one unknown", [11, 5, 0]), ("twice", [11, 5, 5])):
        assert set(units(written(tmp_path, name, seeds))).isdisjoint(first), name


def test_arms_of_imported_pictures_with_the_same_seeds_are_compared_pair_by_pair(tmp_path, services):
    arms = tuple(Arm(name=name, images=str(written(tmp_path, name, range(10, 22)))) for name in ("one", "two"))
    asked = StudySettings(force=True, encoder="calibration-clip")
    settings = explore_settings(
        asked, concept="doctor", arms=arms, attributes=["man"], n_images=12, attribute_a="", attribute_b=""
    )
    report = complete(run_study(find_design("explore"), settings, services))
    assert set(table_of(report, "differences").frame["compared on"]) == {"same seeds"}
    (note,) = [note for note in report.arms[0].results.notes if note.startswith("How they were drawn")]
    assert note == (
        "How they were drawn, say 12 of 12 pictures themselves: program AUTOMATIC1111; sampler Euler a; steps 20; "
        "guidance 7; size 512x512; seeds of 12."
    )
