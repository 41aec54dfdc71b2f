"""LoRAs on every family that takes them: they come and go, have a weight, and fit or are refused."""

import json
import re
import shutil

import numpy as np
import pytest

from bias_core.adapters.family_facts import denoiser_of
from bias_core.errors import ModelUnavailable
from tests.adapters.families import FAMILIES, build, folder_of, pixels, rows_of
from tests.adapters.tiny_parts import change_weights, diffusers, safetensors, torch

WITH_LORA = [name for name, facts in FAMILIES.items() if facts.lora]

# What diffusers must be told to do without: SD3 has no T5 here, and IF's checker cannot be loaded as it is.
WITHOUT = {"sd3": ("text_encoder_3", "tokenizer_3"), "deepfloyd": ("safety_checker",)}


def parts_of(family, request):
    """The pipeline by diffusers alone."""
    without = dict.fromkeys(WITHOUT.get(family, ()))
    return diffusers.DiffusionPipeline.from_pretrained(folder_of(family, request), local_files_only=True, **without)


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
            network = denoiser_of(pipeline)
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
        options |= {} if lora is None else {"lora": str(lora)}
        (image,) = pixels(build(family, folder_of(family, request), options=options).generate(rows_of(family, 1)))
        return image

    return picture


@pytest.mark.parametrize("family", [name for name in WITH_LORA if name not in {"sd2", "turbo"}])  # of other classes
def test_a_lora_comes_and_goes_and_leaves_nothing_behind(family, request, lora_for):
    model = build(family, folder_of(family, request), loras=lora_for(family).parent)
    plain = pixels(model.generate(rows_of(family)))
    strong = pixels(model.generate(rows_of(family, condition="strong")))
    assert (plain[0] != strong[0]).any()
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family))), plain)
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family, condition="strong"))), strong)


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
    assert "LoRA" in refused(folder, tmp_path / "empty.safetensors")
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


def with_nan(tensors):
    next(iter(tensors.values())).view(-1)[0] = float("nan")


NO_PLACE = r"fits only in part: \d+ of its \d+ weights have no place in this model"


@pytest.mark.parametrize(("change", "said"), [
    (renamed, rf"{NO_PLACE} \(unet.mid_block_of_another"),
    (for_no_component, rf"{NO_PLACE} \(text_encoder_2"),
    (without_a_half, r"fits only in part: 1 weights are missing beside its \d+ \(unet\S+lora_B"),
    (with_nan, r"NaN or infinity"),
])  # fmt: skip
def test_a_lora_that_fits_in_part_is_refused_and_says_what_does_not(request, lora_for, tmp_path, change, said):
    assert re.search(said, refused(folder_of("sd1", request), changed(lora_for("sd1"), tmp_path, change)))


def peft_folder(request, part, target, tmp_path, **config):
    """What peft's ``save_pretrained`` leaves of a component that it was put on."""
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
    (expected,) = pixels(build("sd1", tmp_path / "pipeline").generate(rows_of("sd1", 1)))
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_folder_of_peft_for_another_model_or_of_another_kind_is_refused(request, draw, tmp_path):
    adapter = peft_folder(request, "unet", ["to_q"], tmp_path)
    with pytest.raises(ModelUnavailable, match="does not fit this model"):
        draw(adapter, "sd3")
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"peft_type": "LOHA"}))
    assert "an adapter of the kind LOHA, and only LoRA is taken" in refused(folder_of("sd1", request), adapter)
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
