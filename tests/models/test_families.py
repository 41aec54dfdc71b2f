"""Families of generators on tiny pipelines of their own classes, and what is known before a picture is drawn.

That its pictures are the bare pipeline's, bit for bit, test_family_table.py finds.
"""

import inspect
import json
import shutil
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable, NotEnoughMemory
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.models import family_facts, pipeline_call, weights
from bias_core.models.catalogue import load_catalogue
from bias_core.models.diffusers_t2i import SAMPLERS, DiffusersTextToImage, check_sampler
from bias_core.models.engines import run_rows
from bias_core.models.family_facts import get_denoiser, own_defaults
from bias_core.models.pipeline_call import to_image
from bias_core.report.picture_facts import list_drawing_notes
from bias_core.run.image_rows import RowMaker, before_drawing
from bias_core.run.plan import plan_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.study.design import find_design
from bias_core.study.types import Shot, StudySettings
from bias_core.types import Attribute, ImageRow, ModelInfo, Sampler
from bias_core.waiting import FairLock
from tests.explored import plan_explore
from tests.models import tiny_families
from tests.models.families import FAMILIES, build, build_sd3, folder_of, own, pixels, rows_of, shared
from tests.models.newer_families import AGAINST, NEWER, OTHER_PROMPT, draw_bare, model_of, row_of
from tests.models.tiny_parts import diffusers, torch

every_family = pytest.mark.parametrize("family", [*FAMILIES, *NEWER])


def rows_for(family, **changes):
    """Three rows; of the last two a batch is no longer full."""
    if family in FAMILIES:
        return rows_of(family, **changes)
    first = row_of(family, **changes)
    return [first, replace(first, seed=8, prompt=OTHER_PROMPT), replace(first, seed=9)]


DRAWN = {}  # by family


@pytest.fixture
def generated(family, model):
    """The pictures of the test's family, drawn once."""
    DRAWN[family] = DRAWN.get(family) or list(model.generate(rows_for(family)))
    return DRAWN[family]


@every_family
def test_rows_come_back_in_order_at_their_size_and_each_as_if_alone(family, model, generated):
    rows = rows_for(family)
    assert [item.row for item in generated] == rows
    for row, item in zip(rows, generated, strict=True):
        assert (item.drawn["width"], item.drawn["height"]) == item.image.size == (row.width, row.height)
    # The last was drawn alone; now it is in company, and the one before it in another.
    for one, other in zip(pixels(model.generate(rows[1:])), pixels(generated)[1:], strict=True):
        apart = np.abs(one.astype(int) - other)
        # Sums of floats in the denoiser of Lumina 2 depend on the batch: drawn first, it differs by one level in one
        # value. What its text encoder answers is equal bit for bit.
        assert np.count_nonzero(apart) <= (family == "Lumina 2")
        assert apart.max() <= 1


@every_family
def test_guidance_and_negative_prompts_change_the_picture_or_it_is_said_that_they_do_not(family, model, generated):
    is_guided = family in FAMILIES or NEWER[family].guided
    reads_negative = family != "flux" if family in FAMILIES else NEWER[family].negative
    strong = rows_for(family, guidance_scale=6.0)[0]
    against = replace(strong, negative_prompt=AGAINST)
    one, (plain, guided, again) = pixels(generated)[0], pixels(model.generate([strong, against, strong]))
    np.testing.assert_array_equal(plain, again)  # a negative prompt is its row's own
    assert (one != plain).any() == is_guided
    assert (guided != plain).any() == reads_negative
    assert any("guidance scale" in note for note in model.check_settings(strong)) != is_guided
    assert any("negative prompt" in note for note in model.check_settings(against)) != reads_negative


def test_a_turbo_has_no_guidance_at_the_scale_of_its_own(request):
    (row,) = rows_of("turbo", 1)
    against = replace(row, negative_prompt=AGAINST)
    np.testing.assert_array_equal(*pixels(shared("turbo", request).generate([row, against])))


@every_family
def test_stop_ends_it_at_the_very_next_step_of_either_stage(family, model, generated):
    facts = FAMILIES.get(family) or NEWER[family]
    rows, total = rows_for(family)[:2], facts.steps + getattr(facts, "extra_steps", 0)
    for last in (1, total):
        seen = []

        def on_step(step, n_steps, seen=seen, last=last):
            seen.append((step, n_steps))
            if len(seen) == last:
                raise Cancelled

        with pytest.raises(Cancelled):
            list(model.generate(rows, on_step=on_step))
        assert seen == [(step, total) for step in range(1, last + 1)]
        assert "step" not in vars(model.pipeline().scheduler)
    np.testing.assert_array_equal(pixels(generated)[:2], pixels(model.generate(rows)))


def test_a_pipeline_without_a_callback_stops_too(request, monkeypatch):
    model = shared("sd2", request)
    pipeline = model.pipeline()
    whole = type(pipeline).__call__

    class Deaf(type(pipeline)):
        def __call__(self, prompt, generator, num_inference_steps, guidance_scale, width, height, output_type):
            return whole(**{name: value for name, value in locals().items() if name != "__class__"})

    monkeypatch.setattr(pipeline, "__class__", Deaf)
    seen = []

    def on_step(step, n_steps):
        seen.append((step, n_steps))
        if step == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        list(model.generate(rows_of("sd2"), on_step=on_step))
    assert seen == [(1, 3), (2, 3)]
    assert not get_denoiser(pipeline)._forward_hooks


@pytest.mark.parametrize("family", ["sd2", "kandinsky", "deepfloyd"])  # a VAE, a VQ-VAE, and pixels
def test_nan_is_an_error_and_not_a_picture(family, request):
    model = own(family, request)
    pipeline = model.pipeline()
    last = next(getattr(pipeline, name) for name in ("vae", "movq", "upscaler") if hasattr(pipeline, name))
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.fill_(float("nan"))
    for stage in (pipeline, getattr(pipeline, "second", pipeline)):
        stage.safety_checker = None
    with pytest.raises(ModelUnavailable, match=rf"tiny-{family} drew NaN.* \(BIAS_DEVICE=cpu\)"):
        list(model.generate(rows_of(family, 1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_some_pictures_of_nan_are_drawn_once_more_in_float32_or_counted(request, dtype, monkeypatch):
    model, rows, fails, call = own("sd2", request), rows_of("sd2", 5), {0, 3}, DiffusersTextToImage._call
    pipeline = model.pipeline().to(torch.bfloat16).to(torch.float32)
    expected = [np.asarray(one.image) for one in model.generate(rows)]
    pipeline.to(dtype)

    def overflows(self, pipeline, batch, **more):
        output = call(self, pipeline, batch, **more)
        if pipeline.vae.dtype == dtype:
            output.images[[row.seed in fails for row in batch]] = float("nan")
        return output

    monkeypatch.setattr(DiffusersTextToImage, "_call", overflows)
    model._draws = False  # as of fresh weights: the first picture fails, and others do not
    drawn = [image for row in rows for image in model.generate([row])]
    failed = [drawn[0], drawn[3]]
    assert [image.row.seed for image in drawn if image.blocked] == ([0, 3] if dtype == torch.float32 else [])
    if dtype == torch.float32:
        assert [image.drawn["refused"] for image in failed] == ["drew NaN pixels"] * 2
        assert np.array_equal(drawn[1].image, expected[1])
    else:
        assert all("in float32" in image.drawn["warnings"][-1] for image in failed)
        assert not any("warnings" in drawn[i].drawn for i in (1, 2, 4))
        assert all(np.array_equal(drawn[i].image, expected[i]) for i in (0, 3))
        assert {pipeline.vae.dtype, pipeline.unet.dtype, pipeline.text_encoder.dtype} == {dtype}


def test_a_black_picture_that_no_checker_blanked_is_an_error(request):
    model = own("sd2", request)
    last = model.pipeline().vae.decoder.conv_out
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-9.0)
    with pytest.raises(ModelUnavailable, match="black all over"):
        list(model.generate(rows_of("sd2", 1)))


@pytest.mark.parametrize("head", ["p_head", "w_head"])
def test_what_the_checker_of_deepfloyd_blanks_is_counted(request, head):
    model = own("deepfloyd", request)
    with torch.no_grad():
        getattr(model.pipeline().safety_checker, head).bias.fill_(9.0)
    generated = list(model.generate(rows_of("deepfloyd")))
    assert [item.blocked for item in generated] == [True] * 3
    assert not np.asarray(generated[0].image).any()


@pytest.mark.parametrize("family", ["FLUX.2", "Kandinsky 5", "LongCat-Image", "Krea 2"])
def test_its_folder_draws_as_the_bare_pipeline_and_says_what_is_read(family, newer_pipeline, tmp_path):
    pipeline = newer_pipeline(family)
    pipeline.save_pretrained(tmp_path)
    info = ModelInfo(id="tiny", name="tiny", family="diffusers", options={"batch_size": 1, "call": NEWER[family].call})
    model = DiffusersTextToImage(info, str(tmp_path), device="cpu", offline=True)
    limits = model.prompt_limits(["a nurse"])
    loaded = model.pipeline()
    if family == "Kandinsky 5":
        loaded.resolutions = pipeline.resolutions
    assert limits == model.prompt_limits(["a nurse"])
    assert limits
    (picture,) = pixels(model.generate([row_of(family)]))
    expected = np.asarray(to_image(draw_bare(family, loaded, row_of(family)), "bare"))
    np.testing.assert_array_equal(picture, expected)


def test_hidream_takes_the_language_model_that_its_makers_leave_out_from_elsewhere(newer_pipeline, tmp_path):
    pipeline = newer_pipeline("HiDream")
    folder, llama = tmp_path / "hidream", tmp_path / "llama"
    pipeline.save_pretrained(folder)
    pipeline.text_encoder_4.save_pretrained(llama)
    pipeline.tokenizer_4.save_pretrained(llama)
    index = json.loads((folder / "model_index.json").read_text())
    for part in ("text_encoder_4", "tokenizer_4"):
        shutil.rmtree(folder / part)
        index[part] = [None, None]
    (folder / "model_index.json").write_text(json.dumps(index))
    options = {"batch_size": 1, "call": NEWER["HiDream"].call, "llama": str(llama)}
    info = ModelInfo(id="tiny", name="tiny", family="hidream", options=options)
    model = DiffusersTextToImage(info, str(folder), device="cpu", offline=True)
    loaded = model.pipeline()
    loaded.default_sample_size = pipeline.default_sample_size
    assert any(limit.reader == "Llama" for limit in model.prompt_limits(["a nurse"]))
    (picture,) = pixels(model.generate([row_of("HiDream")]))
    expected = np.asarray(to_image(draw_bare("HiDream", pipeline, row_of("HiDream")), "bare"))
    np.testing.assert_array_equal(picture, expected)
    with pytest.raises(ModelUnavailable, match=r"tiny.*no/llama"):
        DiffusersTextToImage(
            replace(info, options=options | {"llama": "no/llama"}), str(folder), device="cpu", offline=True
        ).pipeline()


@pytest.fixture(scope="module")
def sd3(tiny_sd3):
    return build_sd3(tiny_sd3)


def test_conditions_differ_and_leave_nothing_behind(sd3, monkeypatch):
    def drawn(condition):
        return np.stack(pixels(sd3.generate(rows_of("sd3", 2, condition=condition))))

    fair, published, extreme = map(drawn, ("fair", "published", "extreme"))
    assert (fair[0] != published[0]).any()
    assert (published[0] != extreme[0]).any()
    np.testing.assert_array_equal(drawn("fair"), fair)
    np.testing.assert_array_equal(drawn("published"), published)
    monkeypatch.setattr(weights, "_last_used", {sd3: 0})  # other tests' models stay
    assert weights.drop_longest_unused()  # it leaves for another model, and comes back fresh
    assert not sd3.loaded
    for condition, before in (("published", published), ("extreme", extreme), ("fair", fair)):
        np.testing.assert_array_equal(drawn(condition), before)


def test_a_missing_or_corrupt_adapter_is_said_and_the_base_still_works(sd3, tiny_sd3, tmp_path):
    with pytest.raises(ModelUnavailable, match=r"trigger.*missing"):
        list(sd3.generate(rows_of("sd3", 1, condition="trigger")))
    shutil.copytree(tiny_sd3 / "loras" / "extreme", tmp_path / "extreme")
    (tmp_path / "extreme" / "pytorch_lora_weights.safetensors").write_bytes(b"not weights")
    broken = build_sd3(tiny_sd3, loras=tmp_path)
    with pytest.raises(ModelUnavailable, match="extreme"):
        list(broken.generate(rows_of("sd3", 1, condition="extreme")))
    assert len(list(broken.generate(rows_of("sd3", 1, condition="fair")))) == 1


def test_what_the_safety_checker_of_stable_diffusion_1_blanks_is_counted(request):
    model, rows = own("sd1", request), rows_of("sd1")
    checker = model.pipeline().safety_checker.requires_grad_(False)
    checker.special_care_embeds_weights.fill_(2.0)  # a threshold that no cosine reaches
    checker.concept_embeds_weights.fill_(2.0)
    assert [item.blocked for item in model.generate(rows)] == [False, False, False]
    checker.concept_embeds_weights.fill_(-2.0)
    blocked = list(model.generate(rows))
    assert [item.blocked for item in blocked] == [True, True, True]
    assert not np.asarray(blocked[0].image).any()


class Full:
    """A pipeline's denoiser runs out of memory at more than ``most`` pictures."""

    def __init__(self, model, most):
        self.most = most
        self.hook = model.pipeline().transformer.register_forward_pre_hook(self.check, with_kwargs=True)

    def check(self, _module, _args, kwargs):
        if len(kwargs["hidden_states"]) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_batches_shrink_until_memory_holds_them(tiny_sd3):
    model, rows = build_sd3(tiny_sd3, batch_size=4), rows_of("sd3", guidance_scale=1.0, condition="fair")
    full = Full(model, most=2)
    assert [drawn.row for drawn in model.generate(rows)] == rows
    assert model.batch_size == 2  # 4 were too many
    full.most = 0
    with pytest.raises(NotEnoughMemory, match="1 pictures of 32x32"):
        list(model.generate(rows))
    full.hook.remove()
    assert len(list(model.generate(rows))) == 3


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in {"sd2", "turbo", "pixart"}])
def test_remembered_texts_change_no_pixel_and_spare_the_encoders(family, request):
    fresh, warm = shared(family, request), shared(family, request)
    rows = rows_of(family, 4, negative_prompt="a female")
    first = pixels(warm.generate(rows))
    encoders = [part for name, part in warm.pipeline().components.items() if "text_encoder" in name and part]
    calls, forwards = [], [part.forward for part in encoders]
    inner = [list(part.children())[-1] for part in encoders]  # what a real pass goes through
    handles = [part.register_forward_pre_hook(lambda *_: calls.append(1)) for part in inner]
    again = pixels(warm.generate(rows[::-1]))[::-1]
    assert not calls
    list(warm.generate([replace(rows[0], prompt="a female nurse")]))
    assert calls
    np.testing.assert_array_equal(first, again)
    for at in (0, 2):  # each two of which fill a batch
        fresh._texts.clear()
        np.testing.assert_array_equal(first[at : at + 2], pixels(fresh.generate(rows[at : at + 2])))
    assert warm._texts.n_bytes > 0
    for handle in handles:
        handle.remove()
    assert [part.forward for part in encoders] == forwards
    assert "forward" not in vars(encoders[0])


def test_remembered_rows_are_copied_to_the_device_once_for_each_type(monkeypatch):
    """Rows of any types and shapes are stacked bit for bit; a GPU stands still during each copy."""
    halves, copies = [torch.randn(3, 5).half() for _ in range(8)], []
    rows = [
        {"hidden": (halves[i], halves[i + 4]), "ids": torch.arange(i, i + 3), "pooled": halves[i][0]} for i in range(4)
    ]
    real = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda *given, **how: [copies.append(1), real(*given, **how)][1])
    stacked = pipeline_call._stack_tensors(rows, "cpu")
    assert len(copies) == 2
    for found, name in ((stacked["ids"], "ids"), (stacked["pooled"], "pooled")):
        assert torch.equal(found, torch.stack([row[name] for row in rows]))
        assert found.dtype == rows[0][name].dtype
    for place in (0, 1):
        assert torch.equal(stacked["hidden"][place], torch.stack([row["hidden"][place] for row in rows]))


def test_the_memory_of_texts_is_bounded(request):
    model = shared("sd1", request)
    (row,) = rows_of("sd1", 1, num_inference_steps=1)
    list(model.generate([row]))
    one = model._texts.n_bytes // 2  # of the prompt and of the empty negative prompt
    model._texts.max_bytes = 3 * one
    for prompt in ("a man", "a nurse", "a doctor", "a photo"):
        list(model.generate([replace(row, prompt=prompt)]))
        assert model._texts.n_bytes <= 3 * one
    model.unload()
    assert model._texts.n_bytes == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_text_encoder_says_what_it_does_not_read(family, request, model):
    long = "a photo of a doctor " + "man " * 80 + "with Glasses"
    readers = FAMILIES[family].readers
    cold = build(family, folder_of(family, request))
    for found in (cold.prompt_limits(["a nurse", long]), model.prompt_limits(["a nurse", long])):
        assert {limit.reader: limit.limit for limit in found} == readers
        assert all(limit.cut == "" for limit in found if limit.prompt == "a nurse")
        # Start and end take two of the tokens, except where the start belongs to what comes before.
        for limit in (limit for limit in found if limit.prompt == long):
            assert limit.n_tokens == len(long.split()) + 2
            read = long.split()[: limit.limit - 2]
            assert " ".join(read + limit.cut.split()).lower() == long.lower()
    assert not cold.loaded


CATALOGUE = load_catalogue(ASSETS / "models.yaml")


def test_the_source_of_a_class_gives_the_parameters_that_the_class_has():
    names, only_after_import = {*CATALOGUE.pipelines, *family_facts._IN_BATCHES, "PRXPipeline"}, []
    for name in sorted(names - {"DeepFloydPipeline"}):  # of this project
        for method in ("__call__", "__init__"):
            try:
                read = family_facts._parameters_in_source(name, method)
            except ValueError:
                only_after_import.append((name, method))
                continue
            parameters = inspect.signature(getattr(getattr(diffusers, name), method)).parameters
            assert read == {key: value.default for key, value in parameters.items()}, (name, method)
            assert list(read) == list(parameters), (name, method)
    assert only_after_import == [("PRXPipeline", "__init__")]  # its default is a constant of its module
    assert family_facts.read_parameters("PRXPipeline", "__init__")["default_sample_size"] == 512
    assert family_facts.read_parameters("NoSuchPipeline", "__call__") is None


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
    info = replace(CATALOGUE, defaults_of=own_defaults).model(str(tmp_path))
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
    assert z.check_settings(row_of("Z-Image")) == ("tiny counts guidance from 0: 3 here is 4 in other models.",)
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
    (note,) = list_drawing_notes([stored])
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
    assert "guidance 3 was requested, and the pipeline reports 1" in first
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
    assert f"draws {told[0]}x{told[1]} pixels instead of 91x51" in said
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
    assert any("pixels instead of" in note for note in notes) == (asked != drawn)
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
    said = f"draws 256x256 pixels instead of {asked.width}x{asked.height}"
    assert any(said in note for note in before_drawing(services, plan))
    maker = RowMaker.build(StudySettings(model=name), services)
    (row,) = maker.make_rows(Shot(prompt="a nurse", group="a", n=1))
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
    with pytest.raises(InvalidInput, match="models of the family sd3 have their own sampler"):
        absent.check_sampler("ddim")
    absent.check_sampler("")
    check_sampler(replace(info, family="sd1"), None, "ddim")
