"""The size of a picture is known before it is drawn, and recorded as it is."""

import numpy as np
import pytest

from bias_core.adapters import family_facts
from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.pipeline_call import to_image
from bias_core.engine.local import run_rows
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import Shot, StudySettings
from bias_core.studies.running.drawn import before_drawing
from bias_core.types import ModelInfo
from bias_core.waiting import FairLock
from tests.adapters.families import build, rows_of
from tests.adapters.newer_families import NEWER, draw_bare, model_of, row_of
from tests.explored import plan_explore

REFUSE = {"Z-Image", "Lumina 2", "CogView4", "PRX", "OmniGen", "AuraFlow", "GLM-Image", "Ideogram 4"}
REFUSE |= {"SANA-Sprint", "ERNIE-Image"}
ONCE = [name for name in NEWER if ", " not in name]


@pytest.fixture
def pipeline(family, newer_pipeline):
    return newer_pipeline(family)


def configured(pipeline, folder):
    """The small files of a pipeline."""
    pipeline.save_config(folder)
    for name in ("vae", "transformer"):
        getattr(pipeline, name).save_config(folder / name)
    return DiffusersTextToImage(
        ModelInfo(id="tiny", name="tiny", family="diffusers"), str(folder), device="cpu", offline=True
    )


@pytest.mark.parametrize("family", ONCE)
def test_a_size_is_drawn_as_it_was_foretold_or_refused(family, pipeline, tmp_path):
    model, row = model_of(family, pipeline), row_of(family, width=91, height=51)
    told = model.drawn_size(91, 51)
    if family in REFUSE:
        assert told == (91, 51)
        with pytest.raises((InvalidInput, ModelUnavailable), match="cannot draw 91x51"):
            list(model.generate([row]))
        return
    (picture,) = model.generate([row])
    assert picture.image.size == told == (picture.row.width, picture.row.height) != (91, 51)
    assert model.drawn_size(*told) == told
    (said,) = [note for note in model.check_settings(row) if "pixels" in note]
    assert f"draws {told[0]}x{told[1]} pixels where 91x51 were asked for" in said
    if family not in {"HiDream", "Kandinsky 5"}:  # these are not as their constructors make them
        assert configured(pipeline, tmp_path).drawn_size(91, 51) == told
        np.testing.assert_array_equal(picture.image, to_image(draw_bare(family, pipeline, row), "bare"))


@pytest.mark.parametrize(("family", "asked", "drawn"), [
    ("HiDream", (64, 64), (256, 256)), ("HiDream", (1000, 500), (360, 180)), ("Kandinsky 5", (512, 512), (1024, 1024)),
    ("Kandinsky 5", (500, 1000), (640, 1408)), ("Kandinsky 5", (1280, 768), (1280, 768)),
])  # fmt: skip
def test_families_with_sizes_of_their_own_say_them_from_their_small_files(family, pipeline, asked, drawn, tmp_path):
    model = configured(pipeline, tmp_path)
    assert model.drawn_size(*asked) == drawn
    notes = model.check_settings(row_of(family, width=asked[0], height=asked[1]))
    assert any("pixels where" in note for note in notes) == (asked != drawn)
    assert not model.loaded


def test_kandinsky_rounds_up_and_a_damaged_folder_is_left_to_the_loader(tiny_kandinsky, newer_pipeline, tmp_path):
    model = build("kandinsky", tiny_kandinsky)
    (row,) = rows_of("kandinsky", 1, width=33, height=70)
    told = model.drawn_size(33, 70)
    assert not model.loaded
    (picture,) = model.generate([row])
    assert picture.image.size == told == model.drawn_size(33, 70)
    assert told[0] > 33
    model = configured(newer_pipeline("Qwen-Image"), tmp_path)
    (tmp_path / "vae" / "config.json").write_text("{}")
    assert model.drawn_size(91, 51) == (91, 51)


def test_rows_reports_and_pictures_of_a_run_have_the_size_that_is_drawn(newer_pipeline, tmp_path):
    newer_pipeline("HiDream").save_pretrained(tmp_path / "hidream")
    services = Services(Settings(data_dir=tmp_path / "data", offline=True, device="cpu"))
    name = str(tmp_path / "hidream")
    asked = services.model_info(name)
    assert (asked.width, asked.height) != (256, 256)
    settings = explore_settings(
        concept="doctor", model=name, condition="", n_images=1, num_inference_steps=1, force=True
    )
    plan = plan_explore(settings, services).rows
    assert {(row.width, row.height) for row in plan} == {(256, 256)}
    said = f"draws 256x256 pixels where {asked.width}x{asked.height} were asked for"
    assert any(said in note for note in before_drawing(services, plan))
    maker = RowMaker.build(StudySettings(model=name), services)
    (row,) = maker.of(Shot(prompt="a nurse", group="a", n=1))
    assert (row.width, row.height) == (256, 256)
    services.close()


def test_a_picture_of_a_size_that_was_not_foretold_is_kept_as_what_it_is(newer_pipeline, tmp_path, monkeypatch):
    monkeypatch.delitem(family_facts._RULES, "QwenImagePipeline")
    model, store = model_of("Qwen-Image", newer_pipeline("Qwen-Image")), ImageStore(tmp_path)
    asked = [row_of("Qwen-Image", width=44, height=36, seed=seed) for seed in range(3)]
    with pytest.raises(InvalidInput, match="drew 40x32 pixels where 44x36 were asked for"):
        list(run_rows(asked, model, store, lock=FairLock().turns))
    kept = store.get(row_of("Qwen-Image", width=40, height=32, seed=0))
    assert (kept.drawn["width"], kept.drawn["height"]) == (kept.row.width, kept.row.height) == (40, 32)
    assert not store.find({row.id: row for row in asked})
