"""Tiny pipelines of the families that only the adapters' own tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import _load_tokenizer, _text_config, _vae

N_WORDS = 13


def _unet(**options):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        attention_head_dim=2,
        norm_num_groups=4,
        **options,
    )


@pytest.fixture(scope="session")
def tiny_sd2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable Diffusion 2.x pipeline: v-prediction, no safety checker."""
    import torch
    from diffusers import DDIMScheduler, StableDiffusionPipeline
    from transformers import CLIPTextModel

    folder = tmp_path_factory.mktemp("sd2")
    torch.manual_seed(1)
    pipeline = StableDiffusionPipeline(
        unet=_unet(cross_attention_dim=16),
        scheduler=DDIMScheduler(
            beta_schedule="scaled_linear",
            clip_sample=False,
            prediction_type="v_prediction",
            set_alpha_to_one=True,
            timestep_spacing="trailing",
        ),
        vae=_vae(),
        text_encoder=CLIPTextModel(_text_config()).eval(),
        tokenizer=_load_tokenizer(folder / "tokenizer"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def tiny_sdxl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable Diffusion XL pipeline: two text encoders, pooled embeddings and sizes, Euler steps."""
    import torch
    from diffusers import EulerDiscreteScheduler, StableDiffusionXLPipeline
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    folder = tmp_path_factory.mktemp("sdxl")
    torch.manual_seed(2)
    tokenizer = _load_tokenizer(folder / "tokenizer")
    pipeline = StableDiffusionXLPipeline(
        unet=_unet(
            cross_attention_dim=32,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + 16,
        ),
        scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="leading"),
        vae=_vae(),
        text_encoder=CLIPTextModel(_text_config()).eval(),
        tokenizer=tokenizer,
        text_encoder_2=CLIPTextModelWithProjection(_text_config()).eval(),
        tokenizer_2=tokenizer,
        add_watermarker=False,
    )
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def tiny_flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FLUX pipeline with a guidance embedding and shifted sigmas."""
    import torch
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
    from transformers import CLIPTextModel, T5Config, T5EncoderModel

    folder = tmp_path_factory.mktemp("flux")
    torch.manual_seed(3)
    tokenizer = _load_tokenizer(folder / "tokenizer")
    t5 = T5Config(vocab_size=N_WORDS, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0)
    pipeline = FluxPipeline(
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=_vae(),
        text_encoder=CLIPTextModel(_text_config()).eval(),
        tokenizer=tokenizer,
        text_encoder_2=T5EncoderModel(t5).eval(),
        tokenizer_2=tokenizer,
    )
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"
