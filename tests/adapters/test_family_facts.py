"""What is known of a model before it draws: its own settings, what it leaves out, why it is refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.family_facts import own_defaults
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models.catalogue import load_catalogue
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from bias_core.store.images import ImageStore
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.drawn import while_drawing
from bias_core.studies.running.run import plan_study
from bias_core.types import ModelInfo
from tests.adapters import tiny_families
from tests.adapters.families import build, rows_of
from tests.adapters.newer_families import model_of, row_of

CATALOGUE = load_catalogue(ASSETS / "models.yaml")


@pytest.mark.parametrize(("name", "entries", "expected"), [
    ("ZImagePipeline", {}, (50, 5.0, 1024)), ("Flux2KleinPipeline", {}, (50, 4.0, 1024)),
    ("AuraFlowPipeline", {}, (50, 3.5, 1024)), ("OmniGenPipeline", {}, (50, 2.5, 1024)),
    ("SanaSprintPipeline", {}, (2, 4.5, 1024)), ("QwenImagePipeline", {}, (50, 4.0, 1024)),
    ("Ideogram4Pipeline", {}, (48, 7.0, 2048)), ("HunyuanImagePipeline", {}, (50, 3.25, 2048)),
    ("Flux2KleinKVPipeline", {}, (4, 1.0, 1024)), ("StableDiffusionPipeline", {}, (30, 7.5, 512)),
    ("SomebodysOwnPipeline", {}, (30, 7.5, 512)), ("PRXPipeline", {"default_sample_size": 256}, (28, 4.0, 256)),
    ("Flux2KleinPipeline", {"is_distilled": True}, (50, 1.0, 1024)),
    ("Krea2Pipeline", {"is_distilled": True}, (28, 0.0, 1024)),
])  # fmt: skip
def test_a_model_that_is_not_listed_draws_with_the_settings_of_its_family_and_index(tmp_path, name, entries, expected):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name, **entries}))
    info = CATALOGUE.model(str(tmp_path), defaults_of=own_defaults)
    assert (info.default_steps, info.default_guidance, info.width) == expected
    assert info.width == info.height


def notes(family, request, **changes):
    folder = {"flux": "tiny_flux", "sd2": "tiny_sd2", "sdxl": "tiny_sdxl"}[family]
    model = build(family, request.getfixturevalue(folder))
    (row,) = rows_of(family, 1, **changes)
    found = model.check_settings(row)
    assert not model.loaded
    return " ".join(found)


def test_settings_without_effect_are_said_before_anything_is_loaded(request):
    assert "negative prompt has no effect" in notes("flux", request, negative_prompt="a man")
    assert "true_cfg_scale" in notes("flux", request, negative_prompt="a man")
    assert notes("flux", request, guidance_scale=9.0) == ""
    assert notes("sd2", request, negative_prompt="a man", guidance_scale=5.0) == ""
    assert "set the guidance above 1" in notes("sd2", request, negative_prompt="a man", guidance_scale=1.0)


def test_guidance_that_a_schnell_does_not_read_is_said(tiny_flux, tmp_path):
    folder = tmp_path / "schnell"
    shutil.copytree(tiny_flux, folder)
    config = folder / "transformer" / "config.json"
    config.write_text(config.read_text().replace('"guidance_embeds": true', '"guidance_embeds": false'))
    (row,) = rows_of("flux", 1)
    (said,) = build("flux", folder).check_settings(replace(row, guidance_scale=3.5))
    assert "The guidance scale (3.5) has no effect" in said
    assert "guidance_embeds is false" in said
    assert build("flux", folder).check_settings(replace(row, guidance_scale=0.0)) == ()


def test_what_is_special_of_a_family_is_said():
    z = model_of("Z-Image", tiny_families.z_image())
    assert z.check_settings(row_of("Z-Image")) == ("tiny counts guidance from 0: 3 is what others call 4.",)
    said = " ".join(model_of("Ideogram 4", tiny_families.ideogram4()).check_settings(row_of("Ideogram 4")))
    assert "structured captions" in said
    assert "3 steps of 3" in said


def test_a_folder_that_lacks_a_part_says_which(tiny_sd2, tiny_kandinsky, tmp_path):
    folder = tmp_path / "pipeline"
    shutil.copytree(tiny_sd2, folder)
    index = json.loads((folder / "model_index.json").read_text())
    for part in ("vae", "tokenizer", "unet", "text_encoder"):
        (folder / "model_index.json").write_text(json.dumps(index | {part: [None, None]}))
        with pytest.raises(ModelUnavailable, match=rf"tiny-sd2 \(StableDiffusionPipeline\) has no {part}, with"):
            list(build("sd2", folder).generate(rows_of("sd2", 1)))
    model = build("kandinsky", tiny_kandinsky.parent / "prior")
    with pytest.raises(ModelUnavailable, match=r"a prior alone.*choose the decoder"):
        list(model.generate(rows_of("kandinsky", 1)))


def test_what_a_pipeline_refuses_is_one_sentence_with_the_family_and_the_argument(request, tiny_sd2):
    model = build("sd2", tiny_sd2)
    with pytest.raises(InvalidInput, match=r"tiny-sd2 \(StableDiffusionPipeline\).*31x32.*`height`") as found:
        list(model.generate(rows_of("sd2", 1, width=31)))
    assert "\n" not in str(found.value)
    model.pipeline().unet.forward = lambda *_a, **_k: None.missing
    with pytest.raises(ModelUnavailable, match=r"in 3 steps at guidance 3: AttributeError.*missing"):
        list(model.generate(rows_of("sd2", 1)))


def test_a_prompt_is_rewritten_only_where_the_options_ask_for_it_and_then_it_is_kept(tmp_path):
    pipeline = tiny_families.ernie_image()
    pipeline.set_progress_bar_config(disable=True)
    pipeline.pe.generation_config.max_new_tokens = 3
    row = row_of("ERNIE-Image")
    (plain,) = model_of("ERNIE-Image", pipeline).generate([row])
    (rewritten,) = model_of("ERNIE-Image", pipeline, call={"use_pe": True}).generate([row])
    assert "revised_prompt" not in plain.drawn
    assert rewritten.drawn["revised_prompt"]
    assert (np.asarray(plain.image) != np.asarray(rewritten.image)).any()
    (stored,) = ImageStore(tmp_path).add([rewritten])
    assert ImageStore(tmp_path).get(row).drawn == stored.drawn == rewritten.drawn
    (note,) = while_drawing([stored])
    assert "1 of 1 pictures were drawn from a prompt that the model rewrote" in note


def test_longcat_can_rewrite_with_its_text_encoder_while_texts_are_remembered():
    pipeline = tiny_families.longcat()
    pipeline.set_progress_bar_config(disable=True)
    pipeline.tokenizer_max_length = 8
    row = row_of("LongCat-Image")
    model = model_of("LongCat-Image", pipeline, call={"enable_prompt_rewrite": True})
    first, again = model.generate([row]), model.generate([row])
    np.testing.assert_array_equal(*(np.asarray(next(iter(found)).image) for found in (first, again)))


def test_warnings_of_diffusers_and_what_it_reports_of_its_guidance_are_kept_with_the_picture(tiny_sd2):
    long, model = "a photo of a doctor " * 6, build("sd2", tiny_sd2)
    (item,) = model.generate([replace(rows_of("sd2", 1)[0], prompt=long)])
    assert item.drawn["reported"] == {"guidance_scale": 3.0, "do_classifier_free_guidance": True}
    assert item.drawn["asked"]["num_inference_steps"] == 3
    assert any("truncated" in warning for warning in item.drawn["warnings"])
    (item,) = model.generate(rows_of("sd2", 1))
    assert "warnings" not in item.drawn
    kind = type(model.pipeline())
    quiet = type("Quiet", (kind,), {"do_classifier_free_guidance": False, "guidance_scale": 1.0})
    quiet.__name__ = kind.__name__
    model.pipeline().__class__ = quiet
    (item,) = model.generate(rows_of("sd2", 1))
    first, second = item.drawn["warnings"]
    assert "guidance 3 was asked for, the pipeline says 1" in first
    assert "was not guided" in second


def test_spi_of_a_model_that_cannot_be_traced_is_refused_before_a_picture(tiny_kandinsky, tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True, device="cpu"))
    settings = StudySettings(model=str(tiny_kandinsky), encoder="calibration-clip", scale=0.05, force=True)
    for measure in (True, False):
        with pytest.raises(InvalidInput, match="has no velocity to trace"):
            plan_study(find_design("oasis-spi"), settings, services, measure=measure)
    assert not list(tmp_path.glob("images/*/*.png"))
    services.close()


def test_the_last_predicted_picture_of_a_vae_with_means_is_the_finished_one(tiny_sdxl):
    info = ModelInfo(id="tiny", name="tiny", family="sdxl", options={"batch_size": 1})
    model = DiffusersTextToImage(info, str(tiny_sdxl), device="cpu", offline=True)
    model.pipeline().vae.register_to_config(latents_mean=[-1.6, 1.1, 3.3, -2.6], latents_std=[8.4, 5.9, 5.9, 5.2])
    (row,) = rows_of("sdxl", 1)
    (finished,) = model.generate([row])
    *_, last = model.trace(row, [])
    difference = np.asarray(last.predicted, int) - np.asarray(finished.image, int)
    assert np.abs(difference).max() <= 1
