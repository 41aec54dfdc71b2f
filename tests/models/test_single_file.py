"""A checkpoint in one file draws what the same weights draw as a folder; what it does not say is asked for."""

import json
import re
import shutil

import numpy as np
import pytest

from bias_core.errors import ModelUnavailable
from bias_core.services import Services
from bias_core.settings import Settings
from tests.models.families import folder_of, pixels, rows_of
from tests.models.tiny_parts import diffusers, safetensors, torch

RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0",
          "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}  # fmt: skip
UNET = {"conv_in": "input_blocks.0.0", "time_embedding.linear_1": "time_embed.0", "conv_norm_out": "out.0",
        "time_embedding.linear_2": "time_embed.2", "conv_out": "out.2", "mid_block.resnets.0": "middle_block.0",
        "mid_block.attentions.0": "middle_block.1", "mid_block.resnets.1": "middle_block.2"}  # fmt: skip
VAE = {"mid_block.resnets.0": "mid.block_1", "mid_block.resnets.1": "mid.block_2", "conv_norm_out": "norm_out",
       "mid_block.attentions.0": "mid.attn_1", "group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v",
       "to_out.0": "proj_out", "conv_shortcut": "nin_shortcut", "downsamplers.0": "downsample",
       "upsamplers.0": "upsample", "resnets": "block"}  # fmt: skip


def replaced(key, names):
    for name, other in names.items():
        key = re.sub(rf"(?<![\w]){re.escape(name)}(?=\.)", other, key)
    return key


def unet_key(key, unet):
    """The name that CompVis gave a weight of the UNet."""
    n, key = unet.config.layers_per_block, replaced(key, UNET)
    if match := re.match(r"(down|up)_blocks\.(\d+)\.(\w+)\.(\d+)\.(.*)", key):
        way, block, kind, layer, rest = match[1], int(match[2]), match[3], int(match[4]), match[5]
        start = 1 + block * (n + 1) if way == "down" else block * (n + 1)
        has_attention = hasattr(getattr(unet, f"{way}_blocks")[block], "attentions")
        place, rest = {
            "resnets": (f"{start + layer}.0", rest),
            "attentions": (f"{start + layer}.1", rest),
            "downsamplers": (f"{start + n}.0", rest.replace("conv.", "op.")),
            "upsamplers": (f"{start + n}.{1 + has_attention}", rest),
        }[kind]
        key = f"{'input' if way == 'down' else 'output'}_blocks.{place}.{rest}"
    return f"model.diffusion_model.{key if 'transformer_blocks' in key else replaced(key, RESNET)}"


def vae_key(key, vae):
    key = re.sub(r"down_blocks\.(\d+)", r"down.\1", key)
    last = len(vae.config.block_out_channels) - 1
    key = re.sub(r"up_blocks\.(\d+)", lambda match: f"up.{last - int(match[1])}", key)
    return f"first_stage_model.{replaced(key, VAE)}"


@pytest.fixture
def checkpoint(tmp_path, request):
    """Saves a tiny pipeline as one file, with its settings in the folder of the same name."""

    def saved(**more):
        folder, file = folder_of("sd1", request), tmp_path / "model.safetensors"
        pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder)
        tensors = {unet_key(key, pipeline.unet): value for key, value in pipeline.unet.state_dict().items()}
        tensors |= {vae_key(key, pipeline.vae): value for key, value in pipeline.vae.state_dict().items()}
        for key, value in pipeline.text_encoder.state_dict().items():
            tensors[f"cond_stage_model.transformer.text_model.{key.removeprefix('text_model.')}"] = value
        kept = {key: value.clone().contiguous() for key, value in (tensors | more).items() if value is not None}
        safetensors.save_file(kept, file)
        shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
        return folder, file

    return saved


@pytest.fixture
def services(tmp_path):
    made = Services(Settings(data_dir=tmp_path / "data", offline=True, device="cpu"))
    yield made
    made.close()


def drawn(services, name):
    return pixels(services.text_to_image(name).generate(rows_of("sd1", 2)))


def test_it_draws_what_the_folder_draws_and_predicts_what_its_name_says(checkpoint, services):
    folder, file = checkpoint()
    info = services.model_info(f"{file}@epsilon")
    assert (info.id, info.family) == (f"{file}@epsilon", services.model_info(str(folder)).family)
    np.testing.assert_array_equal(drawn(services, info.id), drawn(services, str(folder)))
    assert (np.array(drawn(services, f"{file}@v_prediction")) != drawn(services, info.id)).any()
    own = services.model_info(f"{file}@v_prediction").options["path"]
    scheduler = json.loads((services.settings.data_dir / own / "scheduler" / "scheduler_config.json").read_text())
    assert scheduler["prediction_type"] == "v_prediction"


def test_what_it_does_not_say_or_lacks_is_asked_for(checkpoint, services, tmp_path):
    _, file = checkpoint()
    with pytest.raises(ModelUnavailable, match=r"name it \S+@epsilon, as most are, or \S+@v_prediction"):
        services.model_info(str(file))
    checkpoint(v_pred=torch.ones(1), ztsnr=torch.ones(1))  # as NoobAI says it
    path = services.model_info(str(file)).options["path"]
    scheduler = json.loads((services.settings.data_dir / path / "scheduler" / "scheduler_config.json").read_text())
    assert (scheduler["prediction_type"], scheduler["rescale_betas_zero_snr"]) == ("v_prediction", True)
    checkpoint(**{"model.diffusion_model.out.2.weight": None})
    with pytest.raises(ModelUnavailable, match="lacks weights of one of its networks"):
        services.model_info(f"{file}@epsilon")
    safetensors.save_file({"a": torch.ones(1)}, file)
    with pytest.raises(ModelUnavailable, match=r"not a checkpoint of a whole model \(its weights are a\)"):
        services.model_info(f"{file}@epsilon")
    checkpoint()
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(ModelUnavailable, match=r"settings of its kind, \S+, are not on this machine"):
        services.model_info(f"{file}@epsilon")
