"""Tiny pipelines of the families that only the adapters' own tests need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.adapters.families import build, folder_of
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
def tiny_turbo(tiny_sdxl: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SDXL-Turbo: the same parts, with a sampler that adds noise at every step."""
    from diffusers import EulerAncestralDiscreteScheduler

    folder = tmp_path_factory.mktemp("turbo") / "pipeline"
    shutil.copytree(tiny_sdxl, folder)
    scheduler = EulerAncestralDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="trailing")
    scheduler.save_pretrained(folder / "scheduler")
    index = (folder / "model_index.json").read_text()
    (folder / "model_index.json").write_text(index.replace("EulerDiscrete", "EulerAncestralDiscrete"))
    return folder


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


def _t5():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=N_WORDS, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0)
    return T5EncoderModel(config).eval()


@pytest.fixture(scope="session")
def tiny_pixart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PixArt-Sigma pipeline, whose transformer says the variance too."""
    import torch
    from diffusers import DPMSolverMultistepScheduler, PixArtSigmaPipeline, PixArtTransformer2DModel

    folder = tmp_path_factory.mktemp("pixart")
    torch.manual_seed(4)
    pipeline = PixArtSigmaPipeline(
        transformer=PixArtTransformer2DModel(
            sample_size=16,
            num_layers=1,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=2,
            caption_channels=16,
            in_channels=4,
            cross_attention_dim=16,
            out_channels=8,
            norm_elementwise_affine=False,
            norm_eps=1e-6,
            use_additional_conditions=False,
        ),
        scheduler=DPMSolverMultistepScheduler(),
        vae=_vae(),
        text_encoder=_t5(),
        tokenizer=_load_tokenizer(folder / "tokenizer"),
    )
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def tiny_sana(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Sana pipeline: a Gemma as text encoder, a deep-compression VAE, flow sigmas in a DPM solver."""
    import torch
    from diffusers import AutoencoderDC, DPMSolverMultistepScheduler, SanaPipeline, SanaTransformer2DModel
    from transformers import Gemma2Config, Gemma2Model

    folder = tmp_path_factory.mktemp("sana")
    torch.manual_seed(5)
    gemma = Gemma2Config(
        vocab_size=N_WORDS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    blocks = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("block_types", ("ResBlock", "EfficientViTBlock")),
            ("block_out_channels", (8, 8)),
            ("qkv_multiscales", ((), (5,))),
            ("layers_per_block", (1, 1)),
        )
    }
    pipeline = SanaPipeline(
        transformer=SanaTransformer2DModel(
            patch_size=1,
            in_channels=4,
            out_channels=4,
            num_layers=1,
            num_attention_heads=2,
            attention_head_dim=8,
            num_cross_attention_heads=2,
            cross_attention_head_dim=8,
            cross_attention_dim=16,
            caption_channels=16,
            sample_size=16,
        ),
        scheduler=DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        vae=AutoencoderDC(
            latent_channels=4,
            attention_head_dim=2,
            downsample_block_type="conv",
            upsample_block_type="interpolate",
            scaling_factor=0.41407,
            **blocks,
        ),
        text_encoder=Gemma2Model(gemma).eval(),
        tokenizer=_load_tokenizer(folder / "tokenizer"),
    )
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"


def _attention_unet(**options):
    """A UNet whose blocks attend to text in the way of unCLIP and of DeepFloyd IF."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        cross_attention_dim=16,
        encoder_hid_dim=16,
        attention_head_dim=4,
        resnet_time_scale_shift="scale_shift",
        norm_num_groups=4,
        **options,
    ).eval()


@pytest.fixture(scope="session")
def tiny_kandinsky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kandinsky 2.2 decoder, and its prior in the folder "prior" beside it, as the hub has them."""
    import torch
    from diffusers import (
        DDPMScheduler,
        KandinskyV22Pipeline,
        KandinskyV22PriorPipeline,
        PriorTransformer,
        UnCLIPScheduler,
        VQModel,
    )
    from transformers import (
        CLIPImageProcessor,
        CLIPTextModelWithProjection,
        CLIPVisionConfig,
        CLIPVisionModelWithProjection,
    )

    folder = tmp_path_factory.mktemp("kandinsky")
    torch.manual_seed(6)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
        projection_dim=16,
    )
    prior = PriorTransformer(
        num_attention_heads=2,
        attention_head_dim=8,
        embedding_dim=16,
        num_layers=1,
        num_embeddings=16,
        additional_embeddings=4,
    )
    torch.nn.init.ones_(prior.clip_std)  # of embeddings; untrained it is 0
    KandinskyV22PriorPipeline(
        prior=prior,
        image_encoder=CLIPVisionModelWithProjection(vision).eval(),
        text_encoder=CLIPTextModelWithProjection(_text_config()).eval(),
        tokenizer=_load_tokenizer(folder / "tokenizer"),
        scheduler=UnCLIPScheduler(variance_type="fixed_small_log", prediction_type="sample", clip_sample_range=10.0),
        image_processor=CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    ).save_pretrained(folder / "prior")
    unet = _attention_unet(
        in_channels=4, out_channels=8, sample_size=16, addition_embed_type="image", encoder_hid_dim_type="image_proj"
    )
    KandinskyV22Pipeline(
        unet=unet,
        scheduler=DDPMScheduler(beta_schedule="linear", variance_type="learned_range", clip_sample=False),
        movq=VQModel(
            block_out_channels=(32, 32),
            down_block_types=("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
            up_block_types=("AttnUpDecoderBlock2D", "UpDecoderBlock2D"),
            latent_channels=4,
            norm_num_groups=4,
            norm_type="spatial",
            num_vq_embeddings=12,
            vq_embed_dim=4,
        ),
    ).save_pretrained(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def tiny_deepfloyd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stage I of DeepFloyd IF with its safety checker, and stage II in the folder "upscaler" beside it."""
    import torch
    from diffusers import DDPMScheduler, IFPipeline, IFSuperResolutionPipeline
    from diffusers.pipelines.deepfloyd_if import IFSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPVisionConfig

    def scheduler():
        return DDPMScheduler(
            beta_schedule="squaredcos_cap_v2",
            thresholding=True,
            dynamic_thresholding_ratio=0.95,
            variance_type="learned_range",
        )

    def unet(channels, **options):
        return _attention_unet(
            in_channels=channels,
            out_channels=6,
            sample_size=32,
            addition_embed_type="text",
            addition_embed_type_num_heads=2,
            **options,
        )

    folder = tmp_path_factory.mktemp("deepfloyd")
    torch.manual_seed(7)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
        projection_dim=16,
    )
    checker = IFSafetyChecker(
        CLIPConfig(text_config=_text_config().to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    )
    for head in (checker.p_head, checker.w_head):
        torch.nn.init.constant_(head.bias, -5.0)  # it finds nothing
    text_encoder, tokenizer = _t5(), _load_tokenizer(folder / "tokenizer")
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    checked = {"safety_checker": checker, "feature_extractor": processor, "watermarker": None}
    IFPipeline(tokenizer, text_encoder, unet(3), scheduler(), **checked).save_pretrained(folder / "pipeline")
    IFSuperResolutionPipeline(
        tokenizer,
        text_encoder,
        unet(6, class_embed_type="timestep"),
        scheduler(),
        DDPMScheduler(beta_schedule="squaredcos_cap_v2"),
        **checked,
    ).save_pretrained(folder / "upscaler")
    return folder / "pipeline"


@pytest.fixture(scope="module")
def models():
    return {}


@pytest.fixture
def model(family, models, request):
    """The adapter of the test's family, one for all tests of a file."""
    if family not in models:
        models[family] = build(family, folder_of(family, request))
    return models[family]


@pytest.fixture(scope="session")
def newer_pipeline():
    """The tiny pipeline of a newer family, built once."""
    import torch
    from transformers.utils import logging

    from tests.adapters.newer_families import NEWER

    logging.disable_progress_bar()
    built = {}

    def pipeline_of(family):
        if family not in built:
            torch.manual_seed(0)
            built[family] = NEWER[family].build()
            built[family].set_progress_bar_config(disable=True)
        return built[family]

    return pipeline_of
