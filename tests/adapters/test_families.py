"""Every family of generators on tiny pipelines of its own classes: batches, guidance, texts, conditions, Stop, errors.

That its pictures are the bare pipeline's, bit for bit, test_family_table.py finds.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters import weights
from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.family_facts import denoiser_of
from bias_core.adapters.pipeline_call import to_image
from bias_core.errors import Cancelled, ModelUnavailable, NotEnoughMemory
from bias_core.types import ModelInfo
from tests.adapters.families import FAMILIES, build, build_sd3, folder_of, own, pixels, rows_of, shared
from tests.adapters.newer_families import AGAINST, NEWER, OTHER_PROMPT, draw_bare, row_of
from tests.adapters.tiny_parts import torch

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
    """What the test's family draws of its rows, once."""
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
    assert not denoiser_of(pipeline)._forward_hooks


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
    with pytest.raises(ModelUnavailable, match=f"tiny-{family} drew NaN"):
        list(model.generate(rows_of(family, 1)))


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
