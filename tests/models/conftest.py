"""Tiny pipelines of the families that only the adapters' own tests need."""

import json
import shutil
from pathlib import Path

import pytest

from tests.models import tiny_parts as parts
from tests.models.families import shared
from tests.models.newer_families import NEWER, model_of
from tests.models.tiny_families import deep_vae
from tests.models.tiny_parts import diffusers, torch, transformers

N_WORDS = len(parts.WORDS)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Saves the pipeline that ``make(folder, tokenizer)`` builds from this seed; gives its folder."""

    def save(name, seed, make) -> Path:
        folder = tmp_path_factory.mktemp(name)
        torch.manual_seed(seed)
        make(folder, parts.small_tokenizer()).save_pretrained(folder / "pipeline")
        return folder / "pipeline"

    return save


@pytest.fixture(scope="session")
def tiny_sd2(saved) -> Path:
    """A Stable Diffusion 2.x pipeline: v-prediction, no safety checker."""
    return saved("sd2", 1, lambda _folder, tokenizer: diffusers.StableDiffusionPipeline(
        unet=parts.unet(cross_attention_dim=16),
        scheduler=diffusers.DDIMScheduler(
            beta_schedule="scaled_linear", clip_sample=False, prediction_type="v_prediction",
            set_alpha_to_one=True, timestep_spacing="trailing",
        ),
        vae=parts.vae(), text_encoder=transformers.CLIPTextModel(parts.text_config()).eval(),
        tokenizer=tokenizer, safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ))  # fmt: skip


@pytest.fixture(scope="session")
def tiny_sdxl(saved) -> Path:
    """A Stable Diffusion XL pipeline: two text encoders, pooled embeddings and sizes, Euler steps."""
    return saved("sdxl", 2, lambda _folder, tokenizer: diffusers.StableDiffusionXLPipeline(
        unet=parts.unet(
            cross_attention_dim=32, addition_embed_type="text_time", addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + 16,
        ),
        scheduler=diffusers.EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="leading"),
        vae=parts.vae(), text_encoder=transformers.CLIPTextModel(parts.text_config()).eval(), tokenizer=tokenizer,
        text_encoder_2=transformers.CLIPTextModelWithProjection(parts.text_config()).eval(), tokenizer_2=tokenizer,
        add_watermarker=False,
    ))  # fmt: skip


@pytest.fixture(scope="session")
def tiny_turbo(tiny_sdxl: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SDXL-Turbo: the same parts, with a sampler that adds noise at every step."""

    folder = tmp_path_factory.mktemp("turbo") / "pipeline"
    shutil.copytree(tiny_sdxl, folder)
    scheduler = diffusers.EulerAncestralDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="trailing")
    scheduler.save_pretrained(folder / "scheduler")
    index = (folder / "model_index.json").read_text()
    (folder / "model_index.json").write_text(index.replace("EulerDiscrete", "EulerAncestralDiscrete"))
    return folder


@pytest.fixture(scope="session")
def tiny_flux(saved) -> Path:
    """A FLUX pipeline with a guidance embedding and shifted sigmas."""
    return saved("flux", 3, lambda _folder, tokenizer: diffusers.FluxPipeline(
        transformer=diffusers.FluxTransformer2DModel(
            patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        ),
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae(),
        text_encoder=transformers.CLIPTextModel(parts.text_config()).eval(), tokenizer=tokenizer,
        text_encoder_2=parts.t5(vocab_size=N_WORDS), tokenizer_2=tokenizer,
    ))  # fmt: skip


@pytest.fixture(scope="session")
def tiny_pixart(saved) -> Path:
    """A PixArt-Sigma pipeline, whose transformer says the variance too."""
    return saved("pixart", 4, lambda _folder, tokenizer: diffusers.PixArtSigmaPipeline(
        transformer=diffusers.PixArtTransformer2DModel(
            sample_size=16, num_layers=1, patch_size=2, attention_head_dim=8, num_attention_heads=2,
            caption_channels=16, in_channels=4, cross_attention_dim=16, out_channels=8,
            norm_elementwise_affine=False, norm_eps=1e-6, use_additional_conditions=False,
        ),
        scheduler=diffusers.DPMSolverMultistepScheduler(), vae=parts.vae(),
        text_encoder=parts.t5(vocab_size=N_WORDS), tokenizer=tokenizer,
    ))  # fmt: skip


@pytest.fixture(scope="session")
def tiny_sana(saved) -> Path:
    """A Sana pipeline: a Gemma as text encoder, a deep-compression VAE, flow sigmas in a DPM solver."""
    return saved("sana", 5, lambda _folder, tokenizer: diffusers.SanaPipeline(
        transformer=diffusers.SanaTransformer2DModel(
            patch_size=1, in_channels=4, out_channels=4, num_layers=1, num_attention_heads=2,
            attention_head_dim=8, num_cross_attention_heads=2, cross_attention_head_dim=8,
            cross_attention_dim=16, caption_channels=16, sample_size=16,
        ),
        scheduler=diffusers.DPMSolverMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0,
        ),
        vae=deep_vae(), text_encoder=parts.decoder("Gemma2Model", vocab_size=N_WORDS, num_hidden_layers=1),
        tokenizer=tokenizer,
    ))  # fmt: skip


def _attention_unet(**options):
    """A UNet whose blocks attend to text in the way of unCLIP and of DeepFloyd IF."""

    return diffusers.UNet2DConditionModel(
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"), block_out_channels=(8, 16),
        layers_per_block=1, cross_attention_dim=16, encoder_hid_dim=16, attention_head_dim=4,
        resnet_time_scale_shift="scale_shift", norm_num_groups=4, **options,
    ).eval()  # fmt: skip


def _kandinsky(folder, tokenizer):
    tower, processor = parts.eyes()
    prior = diffusers.PriorTransformer(
        num_attention_heads=2, attention_head_dim=8, embedding_dim=16, num_layers=1, num_embeddings=16,
        additional_embeddings=4,
    )  # fmt: skip
    torch.nn.init.ones_(prior.clip_std)  # of embeddings; untrained it is 0
    diffusers.KandinskyV22PriorPipeline(
        prior=prior, image_encoder=transformers.CLIPVisionModelWithProjection(tower).eval(), image_processor=processor,
        text_encoder=transformers.CLIPTextModelWithProjection(parts.text_config()).eval(), tokenizer=tokenizer,
        scheduler=diffusers.UnCLIPScheduler(
            variance_type="fixed_small_log", prediction_type="sample", clip_sample_range=10.0
        ),
    ).save_pretrained(folder / "prior")  # fmt: skip
    unet = _attention_unet(
        in_channels=4, out_channels=8, sample_size=16, addition_embed_type="image", encoder_hid_dim_type="image_proj"
    )
    return diffusers.KandinskyV22Pipeline(
        unet=unet,
        scheduler=diffusers.DDPMScheduler(beta_schedule="linear", variance_type="learned_range", clip_sample=False),
        movq=diffusers.VQModel(
            block_out_channels=(32, 32), down_block_types=("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
            up_block_types=("AttnUpDecoderBlock2D", "UpDecoderBlock2D"), latent_channels=4, norm_num_groups=4,
            norm_type="spatial", num_vq_embeddings=12, vq_embed_dim=4,
        ),
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_kandinsky(saved) -> Path:
    """A Kandinsky 2.2 decoder, and its prior in the folder "prior" beside it, as the hub has them."""
    return saved("kandinsky", 6, _kandinsky)


def _deepfloyd(folder, tokenizer):
    from diffusers.pipelines.deepfloyd_if import IFSafetyChecker

    def scheduler():
        return diffusers.DDPMScheduler(
            beta_schedule="squaredcos_cap_v2", thresholding=True, dynamic_thresholding_ratio=0.95,
            variance_type="learned_range",
        )  # fmt: skip

    def unet(channels, **options):
        return _attention_unet(
            in_channels=channels, out_channels=6, sample_size=32, addition_embed_type="text",
            addition_embed_type_num_heads=2, **options,
        )  # fmt: skip

    tower, processor = parts.eyes()
    checker = IFSafetyChecker(parts.clip_config(tower))
    for head in (checker.p_head, checker.w_head):
        torch.nn.init.constant_(head.bias, -5.0)  # it finds nothing
    text_encoder = parts.t5(vocab_size=N_WORDS)
    checked = {"safety_checker": checker, "feature_extractor": processor, "watermarker": None}
    first = diffusers.IFPipeline(tokenizer, text_encoder, unet(3), scheduler(), **checked)
    noise = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    second = unet(6, class_embed_type="timestep")
    diffusers.IFSuperResolutionPipeline(tokenizer, text_encoder, second, scheduler(), noise, **checked).save_pretrained(
        folder / "upscaler"
    )
    return first


@pytest.fixture(scope="session")
def tiny_deepfloyd(saved) -> Path:
    """Stage I of DeepFloyd IF with its safety checker, and stage II in the folder "upscaler" beside it."""
    return saved("deepfloyd", 7, _deepfloyd)


@pytest.fixture(scope="session")
def tiny_open_clip(tmp_path_factory) -> Path:
    """The files that open_clip's push_to_hub writes of "tiny-test", and the same weights as a pickle."""
    import open_clip
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("open_clip")
    model = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    config = {"model_cfg": model, "preprocess_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5]}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    (folder / "arch").mkdir()
    (folder / "arch" / "tiny-test.json").write_text(json.dumps(model))
    open_clip.add_model_config(folder / "arch")
    torch.manual_seed(0)
    weights = open_clip.create_model("tiny-test").state_dict()
    torch.save(weights, folder / "weights.pt")
    save_file(weights, folder / "open_clip_model.safetensors")
    return folder


@pytest.fixture
def model(family, request, newer_pipeline):
    """A fresh adapter of the test's family, which draws two at once, on the pipeline that all tests share."""
    if family in NEWER:
        return model_of(family, newer_pipeline(family), batch_size=2)
    return shared(family, request)


@pytest.fixture(scope="session")
def newer_pipeline():
    """The tiny pipeline of a newer family, built once."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    built = {}

    def pipeline_of(family):
        if family not in built:
            torch.manual_seed(0)
            built[family] = NEWER[family].build()
            built[family].set_progress_bar_config(disable=True)
            for name, value in NEWER[family].set_to.items():
                setattr(built[family], name, value)
        return built[family]

    return pipeline_of
