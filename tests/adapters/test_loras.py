"""LoRAs on every family that takes them: they come and go, have a weight, and fit or are refused."""

import shutil

import numpy as np
import pytest

from bias_core.adapters.family_facts import denoiser_of
from bias_core.errors import ModelUnavailable
from tests.adapters.families import FAMILIES, build, folder_of, pixels, rows_of
from tests.adapters.tiny_parts import torch

WITH_LORA = [name for name, facts in FAMILIES.items() if facts.lora]

# What diffusers must be told to do without: SD3 has no T5 here, and IF's checker cannot be loaded as it is.
WITHOUT = {"sd3": ("text_encoder_3", "tokenizer_3"), "deepfloyd": ("safety_checker",)}


@pytest.fixture(scope="module")
def lora_folders(tmp_path_factory):
    """Folders "strong" with a random LoRA, made on demand for each family."""
    return {}, tmp_path_factory


def lora_for(family, request, lora_folders):
    """A folder with one condition, "strong"."""
    from diffusers import DiffusionPipeline
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    made, factory = lora_folders
    if family not in made:
        pipeline = DiffusionPipeline.from_pretrained(
            folder_of(family, request), local_files_only=True, **dict.fromkeys(WITHOUT.get(family, ()))
        )
        network, torch_seed = denoiser_of(pipeline), 11
        torch.manual_seed(torch_seed)
        network.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k", "to_v"], init_lora_weights=False))
        layers = {name: value * 20 for name, value in get_peft_model_state_dict(network).items()}
        part = "transformer" if hasattr(pipeline, "transformer") else "unet"
        folder = factory.mktemp(f"lora-{family}")
        type(pipeline).save_lora_weights(folder / "strong", **{f"{part}_lora_layers": layers})
        made[family] = folder
    return made[family]


@pytest.mark.parametrize("family", [name for name in WITH_LORA if name not in {"sd2", "turbo"}])  # of other classes
def test_a_lora_comes_and_goes_and_leaves_nothing_behind(family, request, lora_folders):
    model = build(family, folder_of(family, request), loras=lora_for(family, request, lora_folders))
    plain = pixels(model.generate(rows_of(family)))
    strong = pixels(model.generate(rows_of(family, condition="strong")))
    assert (plain[0] != strong[0]).any()
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family))), plain)
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family, condition="strong"))), strong)


def test_a_lora_has_a_weight_and_can_be_a_file(request, lora_folders):
    folder, lora = folder_of("sd1", request), lora_for("sd1", request, lora_folders) / "strong"
    rows = rows_of("sd1", 1)
    (plain,) = pixels(build("sd1", folder).generate(rows))
    whole, same, half, none = (
        pixels(build("sd1", folder, options={"lora": str(source), "lora_weight": w}).generate(rows))[0]
        for source, w in ((lora, 1.0), (next(lora.iterdir()), 1.0), (lora, 0.5), (lora, 0.0))
    )
    np.testing.assert_array_equal(whole, same)
    assert (whole != half).any()
    np.testing.assert_array_equal(none, plain)


def test_a_lora_of_the_hub_works_from_the_cache(request, lora_folders, tmp_path, monkeypatch):
    commit, lora = "a" * 40, lora_for("sd1", request, lora_folders) / "strong"
    cached = tmp_path / "models--org--lora"
    shutil.copytree(lora, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder, rows = folder_of("sd1", request), rows_of("sd1", 1)
    (expected,) = pixels(build("sd1", folder, options={"lora": str(lora)}).generate(rows))
    for name in ("org/lora", f"org/lora@{commit}"):
        (found,) = pixels(build("sd1", folder, options={"lora": name}).generate(rows))
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        list(build("sd1", folder, options={"lora": "org/nowhere"}).generate(rows))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(WITH_LORA)))
def test_a_family_that_takes_no_lora_says_so(family, request, lora_folders):
    lora = lora_for("sd1", request, lora_folders) / "strong"
    model = build(family, folder_of(family, request), options={"lora": str(lora)})
    with pytest.raises(ModelUnavailable, match="takes no LoRA"):
        list(model.generate(rows_of(family, 1)))


@pytest.mark.parametrize("family", ["sdxl", "flux", "deepfloyd"])
def test_a_lora_of_another_model_is_refused_and_not_ignored(family, request, lora_folders):
    lora = lora_for("sd1", request, lora_folders) / "strong"
    model = build(family, folder_of(family, request), options={"lora": str(lora)})
    with pytest.raises(ModelUnavailable, match=f"tiny-{family}: the LoRA .* does not fit this model"):
        list(model.generate(rows_of(family, 1)))


@pytest.mark.parametrize(("files", "said"), [
    (["a.safetensors", "b.safetensors"], "2 .safetensors files"),
    (["pytorch_lora_weights.bin"], "a pickle, which can run code"),
    ([], "none"),
])  # fmt: skip
def test_a_folder_that_is_no_lora_is_said(tmp_path, request, files, said):
    for name in files:
        (tmp_path / name).write_bytes(b"")
    model = build("sd1", folder_of("sd1", request), options={"lora": str(tmp_path)})
    with pytest.raises(ModelUnavailable, match=said):
        list(model.generate(rows_of("sd1", 1)))


def sd1_parts(folder):
    from diffusers import DiffusionPipeline

    return DiffusionPipeline.from_pretrained(folder, local_files_only=True)


def refused(folder, lora):
    model = build("sd1", folder, options={"lora": str(lora)})
    with pytest.raises(ModelUnavailable) as said:
        list(model.generate(rows_of("sd1", 1)))
    assert "\n" not in str(said.value)
    assert not model.loaded
    return str(said.value)


def changed(lora, tmp_path, change):
    from safetensors.torch import load_file, save_file

    (file,) = lora.glob("*.safetensors")
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, tmp_path / "changed.safetensors")
    return tmp_path / "changed.safetensors"


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
def test_a_lora_that_fits_in_part_is_refused_and_says_what_does_not(request, lora_folders, tmp_path, change, said):
    import re

    lora = lora_for("sd1", request, lora_folders) / "strong"
    assert re.search(said, refused(folder_of("sd1", request), changed(lora, tmp_path, change)))


def peft_folder(folder, part, target, tmp_path, **config):
    """What peft's ``save_pretrained`` leaves of a component that it was put on."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    component = getattr(sd1_parts(folder), part)
    config = {"r": 2, "lora_alpha": 7, "target_modules": target, "init_lora_weights": False} | config
    get_peft_model(component, LoraConfig(**config)).save_pretrained(tmp_path / "peft")
    return tmp_path / "peft"


@pytest.mark.parametrize(("part", "target", "config"), [
    ("unet", ["to_q", "to_v"], {}),
    ("unet", ["to_k", "conv1"], {"use_rslora": True}),
    ("text_encoder", ["q_proj", "v_proj"], {}),
])  # fmt: skip
def test_a_folder_of_peft_draws_what_peft_itself_would(request, tmp_path, part, target, config):
    from peft import PeftModel

    folder, rows = folder_of("sd1", request), rows_of("sd1", 1)
    adapter = peft_folder(folder, part, target, tmp_path, **config)
    (plain,) = pixels(build("sd1", folder).generate(rows))
    (found,) = pixels(build("sd1", folder, options={"lora": str(adapter)}).generate(rows))
    assert (plain != found).any()
    pipeline = sd1_parts(folder)
    merged = PeftModel.from_pretrained(getattr(pipeline, part), adapter).merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    shutil.copytree(folder, tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "pipeline" / part)
    shutil.copytree(tmp_path / "merged", tmp_path / "pipeline" / part)
    (expected,) = pixels(build("sd1", tmp_path / "pipeline").generate(rows))
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_folder_of_peft_for_another_model_or_of_another_kind_is_refused(request, tmp_path, tiny_sd3):
    import json

    adapter = peft_folder(folder_of("sd1", request), "unet", ["to_q"], tmp_path)
    model = build("sd3", tiny_sd3 / "pipeline", options={"lora": str(adapter)})
    with pytest.raises(ModelUnavailable, match="does not fit this model"):
        list(model.generate(rows_of("sd3", 1)))
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"peft_type": "LOHA"}))
    assert "an adapter of the kind LOHA, and only LoRA is taken" in refused(folder_of("sd1", request), adapter)
    (adapter / "adapter_config.json").write_text("{")
    assert "adapter_config.json: it is not JSON" in refused(folder_of("sd1", request), adapter)


def test_a_lora_without_a_weight_is_refused(request, tmp_path):
    from safetensors.torch import save_file

    save_file({}, tmp_path / "empty.safetensors")
    assert "LoRA" in refused(folder_of("sd1", request), tmp_path / "empty.safetensors")


def as_kohya(tensors):
    """The same weights in the words of kohya's trainer, which most published LoRAs have."""
    for key in list(tensors):
        layer, half = key.removeprefix("unet.").rsplit(".lora_", 1)
        name = "lora_unet_" + layer.replace(".", "_")
        tensors[f"{name}.{'lora_down' if half.startswith('A') else 'lora_up'}.weight"] = tensors.pop(key)
        tensors[f"{name}.alpha"] = torch.tensor(2.0)  # the rank: a strength of 1


def test_a_lora_in_the_words_of_another_trainer_is_whole(request, lora_folders, tmp_path):
    folder, rows = folder_of("sd1", request), rows_of("sd1", 1)
    lora = lora_for("sd1", request, lora_folders) / "strong"
    (expected,) = pixels(build("sd1", folder, options={"lora": str(lora)}).generate(rows))
    (found,) = pixels(build("sd1", folder, options={"lora": str(changed(lora, tmp_path, as_kohya))}).generate(rows))
    np.testing.assert_array_equal(found, expected)


def test_a_lora_of_both_text_encoders_is_whole(request, tmp_path):
    from diffusers import DiffusionPipeline
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    folder, rows = folder_of("sdxl", request), rows_of("sdxl", 1)
    pipeline, layers = DiffusionPipeline.from_pretrained(folder, local_files_only=True), {}
    torch.manual_seed(5)
    for part, targets in (("unet", ["to_q"]), ("text_encoder", ["q_proj"]), ("text_encoder_2", ["v_proj"])):
        network = getattr(pipeline, part)
        network.add_adapter(LoraConfig(r=2, target_modules=targets, init_lora_weights=False))
        name = next(iter(network.peft_config))
        layers[f"{part}_lora_layers"] = get_peft_model_state_dict(network, adapter_name=name)
    type(pipeline).save_lora_weights(tmp_path, **layers)
    (plain,) = pixels(build("sdxl", folder).generate(rows))
    (found,) = pixels(build("sdxl", folder, options={"lora": str(tmp_path)}).generate(rows))
    assert (plain != found).any()
