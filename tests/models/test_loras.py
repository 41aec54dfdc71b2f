"""LoRAs, and parts and texts that are exchanged: they come and go, have a weight, and fit or are refused."""

import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable
from bias_core.models.catalogue import WITHOUT_ADAPTER, check_condition
from bias_core.models.family_facts import get_denoiser
from bias_core.models.pipeline_call import step_replaced
from bias_core.types import ImageRow
from tests.models.families import FAMILIES, READ, build, build_sd3, folder_of, own, pixels, rows_of, shared
from tests.models.newer_families import OTHER_PROMPT, model_of, row_of
from tests.models.tiny_parts import change_weights, diffusers, safetensors, torch, transformers

WITH_LORA = [name for name, facts in FAMILIES.items() if facts.lora]


@pytest.fixture(autouse=True)
def _read_once(monkeypatch):
    """A LoRA that is put on while a model loads goes onto a copy of the pipeline that tests share."""
    from bias_core.models import pipeline_loader

    load = pipeline_loader.load_pipeline

    def read(info, source, **how):
        return deepcopy(READ[Path(source)]) if Path(source) in READ else load(info, source, **how)

    monkeypatch.setattr(pipeline_loader, "load_pipeline", read)


def parts_of(family, request):
    """The pipeline of diffusers, and of two stages the first."""
    pipeline = own(family, request).pipeline()
    return getattr(pipeline, "first", pipeline)


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture
def lora_for(request, made, tmp_path_factory):
    """Gives the folder of a family's random LoRA, the only one beside others: the condition "strong"."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    def lora(family):
        if family not in made:
            pipeline = parts_of(family, request)
            network = get_denoiser(pipeline)
            torch.manual_seed(11)
            network.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k", "to_v"], init_lora_weights=False))
            layers = {name: value * 20 for name, value in get_peft_model_state_dict(network).items()}
            part = "transformer" if hasattr(pipeline, "transformer") else "unet"
            made[family] = tmp_path_factory.mktemp(f"lora-{family}") / "strong"
            type(pipeline).save_lora_weights(made[family], **{f"{part}_lora_layers": layers})
        return made[family]

    return lora


@pytest.fixture
def draw(request):
    """Draws a picture with a LoRA, or without one."""

    def picture(lora=None, family="sd1", **options):
        options |= {"batch_size": 1} | ({} if lora is None else {"lora": str(lora)})
        (image,) = pixels(build(family, folder_of(family, request), options=options).generate(rows_of(family, 1)))
        return image

    return picture


@pytest.mark.parametrize("family", [name for name in WITH_LORA if name not in {"sd2", "turbo"}])  # of other classes
def test_a_lora_comes_and_goes_and_leaves_nothing_behind(family, request, lora_for):
    model = own(family, request, loras=lora_for(family).parent)
    plain, strong, again, strong_again = (
        pixels(model.generate(rows_of(family, 2, condition=condition))) for condition in ("", "strong") * 2
    )
    assert (plain[0] != strong[0]).any()
    np.testing.assert_array_equal([again, strong_again], [plain, strong])


def as_kohya(tensors):
    """The same weights in the words of kohya's trainer, which most published LoRAs have."""
    for key in list(tensors):
        layer, half = key.removeprefix("unet.").rsplit(".lora_", 1)
        name = "lora_unet_" + layer.replace(".", "_")
        tensors[f"{name}.{'lora_down' if half.startswith('A') else 'lora_up'}.weight"] = tensors.pop(key)
        tensors[f"{name}.alpha"] = torch.tensor(2.0)  # the rank: a strength of 1


def test_a_lora_has_a_weight_and_is_the_same_from_a_file_another_trainer_or_the_cache(
    lora_for, draw, tmp_path, monkeypatch
):
    commit, lora = "a" * 40, lora_for("sd1")
    cached = tmp_path / "models--org--lora"
    shutil.copytree(lora, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    expected = draw(lora)
    for same in (next(lora.iterdir()), changed(lora, tmp_path, as_kohya), "org/lora", f"org/lora@{commit}"):
        np.testing.assert_array_equal(draw(same), expected)
    assert (draw(lora, lora_weight=0.5) != expected).any()
    np.testing.assert_array_equal(draw(lora, lora_weight=0.0), draw())
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        draw("org/nowhere")


@pytest.mark.parametrize("family", [*sorted(set(FAMILIES) - set(WITH_LORA)), "sdxl", "flux", "deepfloyd"])
def test_a_lora_of_another_model_is_refused_and_not_ignored(family, lora_for, draw):
    said = f"tiny-{family}: the LoRA .* does not fit this model" if family in WITH_LORA else "takes no LoRA"
    with pytest.raises(ModelUnavailable, match=said):
        draw(lora_for("sd1"), family)


def refused(folder, lora):
    model = build("sd1", folder, options={"lora": str(lora)})
    with pytest.raises(ModelUnavailable) as said:
        list(model.generate(rows_of("sd1", 1)))
    assert "\n" not in str(said.value)
    assert not model.loaded
    return str(said.value)


def test_a_folder_that_is_no_lora_is_said(tmp_path, request):
    folder = folder_of("sd1", request)
    safetensors.save_file({}, tmp_path / "empty.safetensors")
    assert "is no LoRA (its weights are none)" in refused(folder, tmp_path / "empty.safetensors")
    for said, keys in {
        "a LoHa, and only a LoRA": ("lora_unet_a.hada_w1_a", "lora_unet_b.lora_up.weight"),
        "a LoKr, and only a LoRA": ("lora_unet_a.lokr_w1", "lora_unet_a.lokr_w2_a"),
        "a textual inversion, and only a LoRA": ("emb_params",),
        "is a textual inversion": ("<new-word>",),
        "a textual inversion,": ("clip_l", "clip_g"),
        "a whole checkpoint": ("model.diffusion_model.out.2.weight", "cond_stage_model.x.weight"),
        "no LoRA (its weights are conv.bias, conv.weight)": ("conv.weight", "conv.bias"),
    }.items():
        safetensors.save_file({key: torch.ones(2, 4) for key in keys}, tmp_path / "other.safetensors")
        assert said in refused(folder, tmp_path / "other.safetensors")
    for said, *files in (
        ("2 .safetensors files", "a.safetensors", "b.safetensors"),
        ("a pickle, which can run code", "pytorch_lora_weights.bin"),
        ("none",),
    ):
        lora = tmp_path / said
        lora.mkdir()
        for name in files:
            (lora / name).write_bytes(b"")
        assert said in refused(folder, lora)


def changed(lora, tmp_path, change):
    shutil.copytree(lora, tmp_path / "changed")
    change_weights(tmp_path / "changed", change)
    return tmp_path / "changed"


def renamed(tensors):
    """Half of one layer's weights belongs to a layer that this model does not have."""
    for key in [key for key in tensors if "mid_block" in key and "to_q" in key]:
        tensors[key.replace("mid_block", "mid_block_of_another")] = tensors.pop(key)


def for_no_component(tensors):
    tensors["text_encoder_2.encoder.layers.0.self_attn.q_proj.lora_A.weight"] = next(iter(tensors.values())).clone()


def without_a_half(tensors):
    del tensors[next(key for key in sorted(tensors) if "lora_B" in key or "lora.up" in key)]


def with_magnitudes(tensors):
    as_kohya(tensors)
    tensors |= {key.replace("alpha", "dora_scale"): torch.ones(8, 1) for key in list(tensors) if key.endswith("alpha")}


def with_nan(tensors):
    next(iter(tensors.values())).view(-1)[0] = float("nan")


NO_PLACE = r"fits only in part: \d+ of its \d+ weights have no place in this model"


@pytest.mark.parametrize(("change", "said"), [
    (renamed, rf"{NO_PLACE} \(unet.mid_block_of_another"),
    (for_no_component, rf"{NO_PLACE} \(text_encoder_2"),
    (without_a_half, r"fits only in part: 1 weights are missing next to its \d+ \(unet\S+lora_B"),
    (with_magnitudes, r"fits only in part: it is a DoRA, and its \d+ magnitudes"),
    (with_nan, r"NaN or infinity"),
])  # fmt: skip
def test_a_lora_that_fits_in_part_is_refused_and_says_what_does_not(request, lora_for, tmp_path, change, said):
    assert re.search(said, refused(folder_of("sd1", request), changed(lora_for("sd1"), tmp_path, change)))


def peft_folder(request, part, target, tmp_path, **config):
    """The output of peft's ``save_pretrained`` for a component with an adapter."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    component = getattr(parts_of("sd1", request), part)
    config = {"r": 2, "lora_alpha": 7, "target_modules": target, "init_lora_weights": False} | config
    get_peft_model(component, LoraConfig(**config)).save_pretrained(tmp_path / "peft")
    return tmp_path / "peft"


@pytest.mark.parametrize(("part", "target", "config"), [
    ("unet", ["to_q", "to_v"], {}),
    ("unet", ["to_k", "conv1"], {"use_rslora": True}),
    ("text_encoder", ["q_proj", "v_proj"], {}),
    ("unet", ["to_k"], {"use_dora": True}),
])  # fmt: skip
def test_a_folder_of_peft_draws_what_peft_itself_would(request, draw, tmp_path, part, target, config):
    from peft import PeftModel

    adapter = peft_folder(request, part, target, tmp_path, **config)
    found = draw(adapter)
    assert (found != draw()).any()
    merged = PeftModel.from_pretrained(getattr(parts_of("sd1", request), part), adapter).merge_and_unload()
    shutil.copytree(folder_of("sd1", request), tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "pipeline" / part)
    merged.save_pretrained(tmp_path / "pipeline" / part)
    model = build("sd1", tmp_path / "pipeline", options={"batch_size": 1})
    (expected,) = pixels(model.generate(rows_of("sd1", 1)))
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_folder_of_peft_for_another_model_or_of_another_kind_is_refused(request, draw, tmp_path):
    adapter = peft_folder(request, "unet", ["to_q"], tmp_path)
    with pytest.raises(ModelUnavailable, match="does not fit this model"):
        draw(adapter, "sd3")
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"peft_type": "LOHA"}))
    assert "an adapter of the kind LOHA, and only a LoRA works" in refused(folder_of("sd1", request), adapter)
    (adapter / "adapter_config.json").write_text("{")
    assert "adapter_config.json: it is not JSON" in refused(folder_of("sd1", request), adapter)


def test_a_lora_of_both_text_encoders_is_whole(request, draw, tmp_path):
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    pipeline, layers = parts_of("sdxl", request), {}
    torch.manual_seed(5)
    for part, targets in (("unet", ["to_q"]), ("text_encoder", ["q_proj"]), ("text_encoder_2", ["v_proj"])):
        network = getattr(pipeline, part)
        network.add_adapter(LoraConfig(r=2, target_modules=targets, init_lora_weights=False))
        name = next(iter(network.peft_config))
        layers[f"{part}_lora_layers"] = get_peft_model_state_dict(network, adapter_name=name)
    type(pipeline).save_lora_weights(tmp_path, **layers)
    assert (draw(tmp_path, "sdxl") != draw(family="sdxl")).any()


N_STEPS = 4
OLDER = ["sd2", "sdxl", "flux", "pixart", "sana"]  # sd1 and sd3 above, bit for bit
# One of each way to encode a text and to guide; GLM-Image draws from tokens.
NEWER_KINDS = ["FLUX.2", "Qwen-Image", "Z-Image", "HiDream", "Chroma", "Kandinsky 5", "SANA-Sprint", "OmniGen"]
NEWER_KINDS += ["Ideogram 4", "HunyuanImage", "Krea 2"]
LATER = "a nurse"


def an_exchange(row, n_first_steps, later=LATER):
    return replace(row, later_prompt=later, n_first_steps=n_first_steps)


def with_callback(pipeline, row, n_first_steps, names, encode, **more):
    """The same by the pipeline's own callback, which puts embeddings of the later text in the place of the first's."""

    def exchange(_pipe, step, _timestep, kwargs):
        return kwargs | (encode() if step == n_first_steps - 1 else {})

    with torch.inference_mode():
        output = pipeline(
            prompt=row.prompt, generator=torch.Generator("cpu").manual_seed(row.seed),
            num_inference_steps=row.num_inference_steps, guidance_scale=row.guidance_scale, width=row.width,
            height=row.height, output_type="np", callback_on_step_end=exchange,
            callback_on_step_end_tensor_inputs=names, **more,
        )  # fmt: skip
    return (output.images[0] * 255).round().astype(np.uint8)


@pytest.fixture
def sd1(request):
    return shared("sd1", request, options={"batch_size": 1})


def test_it_is_what_the_callback_of_stable_diffusion_draws(sd1):
    (row,) = rows_of("sd1", 1, num_inference_steps=N_STEPS)
    pipeline = sd1.pipeline()

    def encode():
        with torch.inference_mode():
            own, away = pipeline.encode_prompt(LATER, pipeline.device, 1, True)
        return {"prompt_embeds": torch.cat([away, own])}

    for n_first_steps in (1, 3):
        expected = with_callback(pipeline, row, n_first_steps, ["prompt_embeds"], encode)
        (drawn,) = pixels(sd1.generate([an_exchange(row, n_first_steps)]))
        np.testing.assert_array_equal(drawn, expected)


def test_it_is_what_the_callback_of_stable_diffusion_3_draws(tiny_sd3):
    model = build_sd3(tiny_sd3, batch_size=1)
    (row,) = rows_of("sd3", 1, condition="fair", num_inference_steps=N_STEPS, guidance_scale=1.0)
    pipeline = model.pipeline()

    def encode():
        with torch.inference_mode():
            own, _, pooled, _ = pipeline.encode_prompt(
                LATER, None, None, do_classifier_free_guidance=False, max_sequence_length=8
            )
        return {"prompt_embeds": own, "pooled_prompt_embeds": pooled}

    names = ["latents", "prompt_embeds", "pooled_prompt_embeds"]
    pipeline.__class__ = type("Asked", (type(pipeline),), {"_callback_tensor_inputs": names})
    expected = with_callback(pipeline, row, 2, names, encode, max_sequence_length=8)
    (drawn,) = pixels(model.generate([an_exchange(row, 2)]))
    np.testing.assert_array_equal(drawn, expected)


def latents_of(model, row):
    """Inputs and outputs of the scheduler, step by step, in the call whose picture is kept."""
    calls = []

    def look(step):
        answer = step.answer()
        following = answer[0] if isinstance(answer, tuple) else answer.prev_sample
        calls.append((step.sample.clone(), following.clone()))
        return answer

    with step_replaced(model.pipeline().scheduler, look):
        (picture,) = pixels(model.generate([row]))
    return calls, picture


def check_exchange(model, row, later):
    """Until the exchange the latents are those of the first prompt; then they are those of neither."""
    n = 1
    first, first_picture = latents_of(model, row)
    second, second_picture = latents_of(model, replace(row, prompt=later))
    steps, _ = latents_of(model, an_exchange(row, n, later))
    steps = steps[-len(first) :]  # before these the first call, which was ended early
    for (_, expected), (_, following) in zip(first[:n], steps[:n], strict=True):
        np.testing.assert_array_equal(following.float().numpy(), expected.float().numpy())
    assert not np.array_equal(steps[n][1].float().numpy(), first[n][1].float().numpy())
    assert not np.array_equal(steps[n][1].float().numpy(), second[n][1].float().numpy())
    (same,) = pixels(model.generate([an_exchange(row, n, row.prompt)]))
    np.testing.assert_array_equal(same, first_picture)  # exchanged for itself
    (again,) = pixels(model.generate([replace(row, prompt=later)]))
    np.testing.assert_array_equal(again, second_picture)  # and nothing stays behind


@pytest.mark.parametrize("family", [*OLDER, *NEWER_KINDS])
def test_until_the_exchange_a_picture_is_the_first_prompt_s_and_then_the_later_one_s(family, request, newer_pipeline):
    if family in OLDER:
        model = shared(family, request, options={"batch_size": 1})
        check_exchange(model, *rows_of(family, 1), LATER)
    else:
        check_exchange(model_of(family, newer_pipeline(family)), row_of(family), OTHER_PROMPT)


def test_pictures_of_a_batch_are_exchanged_together_and_apart_from_others(request):
    model = shared("sd1", request)
    rows = rows_of("sd1", 3, num_inference_steps=N_STEPS)
    mixed = [an_exchange(rows[0], 1), an_exchange(rows[1], 1), an_exchange(rows[1], 3), rows[2]]
    seen = []
    together = pixels(model.generate(mixed, on_step=lambda *at: seen.append(at)))
    for row, expected in zip(mixed, together, strict=True):
        (alone,) = pixels(model.generate([row]))
        np.testing.assert_array_equal(alone, expected)
    assert seen == [(i, n) for n in (5, 7, 4) for i in range(1, n + 1)]


def test_it_stops_in_the_steps_before_the_exchange_too_and_what_cannot_be_exchanged_is_said(sd1, request):
    (row,) = rows_of("sd1", 1, num_inference_steps=N_STEPS)

    def on_step(*_):
        raise Cancelled

    with pytest.raises(Cancelled):
        list(sd1.generate([an_exchange(row, 2)], on_step=on_step))
    assert len(list(sd1.generate([row]))) == 1
    with pytest.raises(InvalidInput, match="after 1 to 3 of 4 steps; got 4"):
        list(sd1.generate([an_exchange(row, 4)]))
    stages = shared("kandinsky", request)
    with pytest.raises(InvalidInput, match="several stages"):
        list(stages.generate([an_exchange(rows_of("kandinsky", 1)[0], 1)]))


def test_a_row_is_stored_under_an_id_of_its_own_and_older_ones_keep_theirs():
    row = ImageRow(prompt="a doctor", seed=1, model="m", num_inference_steps=4)
    assert row.id == "2bd8f69a2a2e132b60d3"
    changes = [{"later_prompt": "a nurse", "n_first_steps": 1}, {"later_prompt": "a nurse", "n_first_steps": 2}]
    ids = {replace(row, **change).id for change in ({}, *changes, {"text_condition": "fair"})}
    assert len(ids) == 4


@pytest.fixture(scope="module")
def two_parts(tiny_sd3, tmp_path_factory):
    """LoRAs "texts" of the text encoder alone, "drawing" of the transformer alone, and "whole", which is both."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    folder = tmp_path_factory.mktemp("parts")
    text_encoder = transformers.CLIPTextModelWithProjection.from_pretrained(tiny_sd3 / "pipeline" / "text_encoder")
    torch.manual_seed(5)
    text_encoder.add_adapter(LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False), "texts")
    layers = get_peft_model_state_dict(text_encoder, adapter_name="texts")
    layers = {name: 20 * weight for name, weight in layers.items()}
    diffusers.StableDiffusion3Pipeline.save_lora_weights(folder / "texts", text_encoder_lora_layers=layers)
    file = "pytorch_lora_weights.safetensors"
    shutil.copytree(tiny_sd3 / "loras" / "published", folder / "drawing")
    (folder / "whole").mkdir()
    parts = safetensors.load_file(folder / "texts" / file) | safetensors.load_file(folder / "drawing" / file)
    safetensors.save_file(parts, folder / "whole" / file, metadata={"format": "pt"})
    return folder


def pictures_of(model, condition="", text_condition=""):
    rows = rows_of("sd3", 2, condition=condition, text_condition=text_condition)
    return np.stack(pixels(model.generate(rows)))


def test_an_adapter_in_one_part_is_that_part_of_it(tiny_sd3, two_parts):
    drawn = partial(pictures_of, build_sd3(tiny_sd3, loras=two_parts))
    pictures = {name: drawn(name) for name in ("fair", "texts", "drawing", "whole")}
    assert len({picture.tobytes() for picture in pictures.values()}) == 4
    np.testing.assert_array_equal(drawn("fair", "whole"), pictures["texts"])
    np.testing.assert_array_equal(drawn("whole", "fair"), pictures["drawing"])
    np.testing.assert_array_equal(drawn("drawing", "texts"), pictures["whole"])  # two adapters of one base
    np.testing.assert_array_equal(drawn("texts", "drawing"), pictures["fair"])  # neither has the other's part
    np.testing.assert_array_equal(drawn("whole", "whole"), pictures["whole"])
    np.testing.assert_array_equal(drawn("fair"), pictures["fair"])


def test_a_lora_that_is_always_on_can_be_taken_out_of_either_part(tiny_sd3, two_parts):
    def model_with(**options):
        return build("sd3", tiny_sd3 / "pipeline", options=options)

    model = model_with(lora=str(two_parts / "whole"))
    plain, whole = pictures_of(model_with()), pictures_of(model)
    texts, drawing = (pictures_of(model_with(lora=str(two_parts / part))) for part in ("texts", "drawing"))
    np.testing.assert_array_equal(pictures_of(model, WITHOUT_ADAPTER), plain)
    np.testing.assert_array_equal(pictures_of(model, "", WITHOUT_ADAPTER), drawing)
    np.testing.assert_array_equal(pictures_of(model), whole)
    model.unload()
    np.testing.assert_array_equal(pictures_of(model, WITHOUT_ADAPTER), plain)
    assert check_condition(model.info, WITHOUT_ADAPTER) == WITHOUT_ADAPTER
    assert (texts != plain).any()
