"""LoRAs on every family that takes them: they come and go, have a weight, and fit or are refused."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from bias_core.adapters.pipeline_call import denoiser_of
from bias_core.errors import ModelUnavailable
from tests.adapters.families import FAMILIES, build, folder_of, pixels, rows_of

WITH_LORA = [name for name, facts in FAMILIES.items() if facts.lora]

# What diffusers must be told to do without: SD3 has no T5 here, and IF's checker cannot be loaded as it is.
WITHOUT = {"sd3": ("text_encoder_3", "tokenizer_3"), "deepfloyd": ("safety_checker",)}


@pytest.fixture(scope="module")
def lora_folders(tmp_path_factory):
    """Folders "strong" with a random LoRA, made on demand for each family."""
    return {}, tmp_path_factory


def lora_for(family, request, lora_folders):
    """A folder with one condition, "strong"."""
    import torch
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


@pytest.mark.parametrize("family", WITH_LORA)
def test_a_lora_comes_and_goes_and_leaves_nothing_behind(family, request, lora_folders):
    model = build(family, folder_of(family, request), loras=lora_for(family, request, lora_folders))
    plain = pixels(model.generate(rows_of(family)))
    strong = pixels(model.generate(rows_of(family, condition="strong")))
    assert (plain[0] != strong[0]).any()
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family))), plain)
    np.testing.assert_array_equal(pixels(model.generate(rows_of(family, condition="strong"))), strong)


@pytest.mark.parametrize("family", WITH_LORA)
def test_a_lora_can_be_always_on(family, request, lora_folders, model):
    lora = lora_for(family, request, lora_folders) / "strong"
    on = build(family, folder_of(family, request), options={"lora": str(lora)})
    rows = rows_of(family, 1)
    assert (pixels(on.generate(rows))[0] != pixels(model.generate(rows))[0]).any()


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


@pytest.mark.parametrize("family", ["sdxl", "sd3", "flux", "sana", "deepfloyd"])
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
