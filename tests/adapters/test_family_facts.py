"""What is known before a picture is drawn: settings, size and sampler of its model, what it leaves out or refuses."""

import json
import shutil
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from bias_core.adapters import family_facts
from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.family_facts import own_defaults
from bias_core.adapters.pipeline_call import to_image
from bias_core.adapters.samplers import SAMPLERS, check_sampler
from bias_core.engine.local import run_rows
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models.catalogue import load_catalogue
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from bias_core.store.images import ImageStore
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import Shot, StudySettings
from bias_core.studies.running.drawn import before_drawing, while_drawing
from bias_core.studies.running.run import plan_study
from bias_core.types import Attribute, ImageRow, ModelInfo, Sampler
from bias_core.waiting import FairLock
from tests.adapters import tiny_families
from tests.adapters.families import build, folder_of, own, rows_of
from tests.adapters.newer_families import NEWER, draw_bare, model_of, row_of
from tests.adapters.tiny_parts import diffusers, torch
from tests.explored import plan_explore

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
    model = build(family, folder_of(family, request))
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


def test_what_a_pipeline_refuses_is_one_sentence_with_the_family_and_the_argument(request):
    model = own("sd2", request)
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


def test_warnings_of_diffusers_and_what_it_reports_of_its_guidance_are_kept_with_the_picture(request):
    long, model = "a photo of a doctor " * 6, own("sd2", request)
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


def test_the_last_predicted_picture_of_a_vae_with_means_is_the_finished_one(request):
    model = own("sdxl", request, options={"batch_size": 1})
    model.pipeline().vae.register_to_config(latents_mean=[-1.6, 1.1, 3.3, -2.6], latents_std=[8.4, 5.9, 5.9, 5.2])
    (row,) = rows_of("sdxl", 1)
    (finished,) = model.generate([row])
    *_, last = model.trace(row, [])
    difference = np.asarray(last.predicted, int) - np.asarray(finished.image, int)
    assert np.abs(difference).max() <= 1


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


N_STEPS, SIDE = 3, 32
ROW = ImageRow(
    prompt="a doctor", seed=5, model="tiny", num_inference_steps=N_STEPS, guidance_scale=4.0, width=SIDE, height=SIDE
)


@pytest.fixture(scope="module")
def sd1(request):
    model = own("sd1", request)
    model.pipeline().safety_checker = None
    return model


def bare(pipeline, sampler, row=ROW):
    """Pixels of the pipeline itself under this scheduler, in a batch as full as the adapter's."""
    name, more = SAMPLERS[sampler]
    own = pipeline.scheduler
    pipeline.scheduler = getattr(diffusers, name).from_config(own.config, **more)
    output = pipeline(
        prompt=[row.prompt] * 2, generator=[torch.Generator("cpu").manual_seed(row.seed) for _ in range(2)],
        num_inference_steps=row.num_inference_steps, guidance_scale=row.guidance_scale,
        width=row.width, height=row.height, output_type="np",
    )  # fmt: skip
    pipeline.scheduler = own
    return (output.images[0] * 255).round().astype(np.uint8)


def test_every_sampler_has_a_name_that_settings_take_and_a_class_of_diffusers():
    assert set(SAMPLERS) == set(get_args(Sampler)) - {""}
    assert all(hasattr(diffusers, name) for name, _ in SAMPLERS.values())


def test_a_sampler_draws_what_the_bare_pipeline_draws_with_its_scheduler_and_its_own_is_put_back(sd1):
    (own,) = sd1.generate([ROW])
    scheduler = sd1.pipeline().scheduler
    drawn = {}
    for sampler in ("ddim", "euler", "euler-a", "dpm++", "dpm++-karras", "unipc"):
        (image,) = sd1.generate([replace(ROW, sampler=sampler)])
        drawn[sampler] = np.asarray(image.image)
        np.testing.assert_array_equal(drawn[sampler], bare(sd1.pipeline(), sampler), err_msg=sampler)
        assert image.row.sampler == sampler
        assert sd1.pipeline().scheduler is scheduler
    assert len({pixels.tobytes() for pixels in drawn.values()}) > 3
    (again,) = sd1.generate([ROW])
    np.testing.assert_array_equal(np.asarray(again.image), np.asarray(own.image))


def test_rows_of_several_samplers_and_sizes_are_drawn_each_with_its_own(sd1):
    rows = [replace(ROW, sampler="ddim"), ROW, replace(ROW, sampler="euler-a", width=48)]
    together = list(sd1.generate(rows))
    assert [item.row for item in together] == rows
    assert [item.image.size for item in together] == [(32, 32), (32, 32), (48, 32)]
    for row, item in zip(rows, together, strict=True):
        (alone,) = sd1.generate([row])
        np.testing.assert_array_equal(np.asarray(alone.image), np.asarray(item.image))


def test_a_trace_follows_the_sampler_of_its_row(sd1):
    man = Attribute(name="man", positive="a man", negative="a woman")
    sigmas = {
        sampler: [step.sigma for step in sd1.trace(replace(ROW, sampler=sampler), [man], predicted=False)]
        for sampler in ("ddim", "euler")
    }
    assert all(len(values) == N_STEPS for values in sigmas.values())
    assert sigmas["ddim"] != sigmas["euler"]
    with pytest.raises(InvalidInput, match="HeunDiscreteScheduler"):
        list(sd1.trace(replace(ROW, sampler="heun"), [man], predicted=False))


def test_flow_models_refuse_a_sampler_in_a_sentence_loaded_or_not(tiny_sd3):
    info = ModelInfo(id="flowing", name="", family="sd3", options={"call": {"max_sequence_length": 1}})
    model = DiffusersTextToImage(info, str(tiny_sd3 / "pipeline"), device="cpu", offline=True)
    words = r"flowing cannot be drawn with the sampler ddim: it is a flow model.*FlowMatch.*leave the sampler out"
    with pytest.raises(InvalidInput, match=words):
        model.check_sampler("ddim")
    assert not model.loaded
    with pytest.raises(InvalidInput, match=words):
        list(model.generate([replace(ROW, sampler="ddim")]))
    absent = DiffusersTextToImage(info, "org/absent", device="cpu", offline=True)
    with pytest.raises(InvalidInput, match="models of the family sd3 have one of their own"):
        absent.check_sampler("ddim")
    absent.check_sampler("")
    check_sampler(replace(info, family="sd1"), None, "ddim")
