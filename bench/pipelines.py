"""Our pictures per second against the bare pipeline's: `python bench/pipelines.py [--full] [family ...]`.

Random weights of the real classes: mid-size ones for a CPU, or with --full those of the published architectures,
created on a CUDA GPU in half precision. Both draw the same prompts from the same noise, with the same batch size, in
turns; the pixels must be equal. It also times a trace of five attributes against its passes of the model.
"""

import argparse
import gc
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import (
    AutoTokenizer,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    T5Config,
    T5EncoderModel,
)

from bench.bars import bar, end, held
from bias_core.installed import ASSETS
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.family_facts import pipeline_facts, without_guidance
from bias_core.types import Attribute, ImageRow, ModelInfo

LEAST, MOST_TRACE = 0.97, 1.1
MEASURED, MOST_ROUNDS = 10, 20  # seconds: the machine drifts
WORDS = ("man", "old", "beard", "turban", "smiling")
ATTRIBUTES = [
    Attribute(name=word, positive=f"a photo of a {word} person", negative=f"a photo of a person, no {word}")
    for word in WORDS
]
TOKENS = 77
SIDE = 128  # pixels, of the mid-size ones


def tokenizer():
    """Tokenizer of the calibration's words; pads and cuts like the real ones."""
    return AutoTokenizer.from_pretrained(ASSETS / "calibration" / "pipeline" / "tokenizer", model_max_length=TOKENS)


def clip(full, width=768, n_layers=12, projection=None):
    width, n_layers = (width, n_layers) if full else (64, 2)
    config = CLIPTextConfig(
        vocab_size=49408 if full else 2000,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=n_layers,
        num_attention_heads=width // 64,
        max_position_embeddings=TOKENS,
        projection_dim=(projection or width) if full else 64,
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config).eval()


def t5(full):
    sizes = {"d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "d_kv": 64}
    small = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2, "d_kv": 32}
    vocab_size, gated = 32128 if full else 2000, "gated-gelu"
    config = T5Config(vocab_size=vocab_size, feed_forward_proj=gated, **(sizes if full else small))
    return T5EncoderModel(config).eval()


def vae(full, channels, side):
    widths = (128, 256, 512, 512) if full else (32, 32, 32, 32)
    return AutoencoderKL(
        latent_channels=channels,
        sample_size=side if full else SIDE,  # of its tiles too
        use_quant_conv=channels == 4,
        use_post_quant_conv=channels == 4,
        shift_factor=0.06 if channels == 16 else None,
        block_out_channels=widths,
        layers_per_block=2 if full else 1,
        norm_num_groups=32 if full else 8,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
    ).eval()


def sd1(full):
    words = tokenizer()
    return StableDiffusionPipeline(
        unet=UNet2DConditionModel(
            sample_size=64 if full else 16,
            block_out_channels=(320, 640, 1280, 1280) if full else (64, 128, 128, 128),
            cross_attention_dim=768 if full else 64,
            attention_head_dim=8,
        ),
        scheduler=DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False, steps_offset=1),
        vae=vae(full, 4, 512),
        text_encoder=clip(full),
        tokenizer=words,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def sdxl(full):
    words, pooled = tokenizer(), 1280 if full else 64
    return StableDiffusionXLPipeline(
        unet=UNet2DConditionModel(
            sample_size=128 if full else 16,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            block_out_channels=(320, 640, 1280) if full else (64, 128, 128),
            transformer_layers_per_block=(1, 2, 10) if full else (1, 1, 2),
            attention_head_dim=(5, 10, 20) if full else (1, 2, 2),
            cross_attention_dim=2048 if full else 128,
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256 if full else 8,
            projection_class_embeddings_input_dim=6 * (256 if full else 8) + pooled,
        ),
        scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear"),
        vae=vae(full, 4, 1024),
        text_encoder=clip(full),
        tokenizer=words,
        text_encoder_2=clip(full, 1280, 32, projection=1280),
        tokenizer_2=words,
        add_watermarker=False,
    )


def sd3(full):
    words = tokenizer()
    return StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=128 if full else 16,
            in_channels=16,
            out_channels=16,
            num_layers=24 if full else 4,
            attention_head_dim=64,
            num_attention_heads=24 if full else 4,
            joint_attention_dim=4096 if full else 128,
            caption_projection_dim=1536 if full else 256,
            pooled_projection_dim=2048 if full else 128,
            pos_embed_max_size=192 if full else 16,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae(full, 16, 1024),
        text_encoder=clip(full, projection=768),
        tokenizer=words,
        text_encoder_2=clip(full, 1280, 32, projection=1280),
        tokenizer_2=words,
        text_encoder_3=None,
        tokenizer_3=None,
    )


def flux(full):
    words = tokenizer()
    return FluxPipeline(
        transformer=FluxTransformer2DModel(
            in_channels=64,
            num_layers=19 if full else 2,
            num_single_layers=38 if full else 2,
            attention_head_dim=128,
            num_attention_heads=24 if full else 2,
            joint_attention_dim=4096 if full else 64,
            pooled_projection_dim=768 if full else 64,
            guidance_embeds=True,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=vae(full, 16, 1024),
        text_encoder=clip(full),
        tokenizer=words,
        text_encoder_2=t5(full),
        tokenizer_2=words,
    )


# Family: how to build it, side in pixels at full size, guidance.
FAMILIES = {"sd1": (sd1, 512, 7.5), "sdxl": (sdxl, 1024, 5.0), "sd3": (sd3, 1024, 5.0), "flux": (flux, 1024, 3.5)}


def seconds(function):
    """Seconds of the clock on a GPU, else of the processor, without other programs' turns."""
    if not torch.cuda.is_available():
        start = time.process_time()
        result = function()
        return time.process_time() - start, result
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def in_turns(first, second, repeats):
    """Medians of the seconds of both, after a warm-up, in alternating order, for MEASURED seconds or longer."""
    times, order = {first: [], second: []}, [first, second]
    while (n := len(times[first])) < repeats or (n < MOST_ROUNDS and sum(map(sum, times.values())) < MEASURED):
        for function in order:
            times[function].append(seconds(function)[0])
        order.reverse()
    return [np.median(taken) for taken in times.values()]


@dataclass(frozen=True, kw_only=True)
class Built:
    """Pipeline, our model on top of it, and rows of one batch."""

    name: str
    pipeline: Any
    model: DiffusersTextToImage
    rows: list[ImageRow]


def half_precision(family):
    return torch.float16 if family in ("sd1", "sdxl") else torch.bfloat16


def built(family, full, device, *, dtype=None, n_batch=4, n_steps=None):
    """Build a family with random weights, on the device and in their final precision."""
    build, side, guidance = FAMILIES[family]
    side, n_steps = side if full else SIDE, n_steps or (20 if full else 6)
    dtype = dtype or (half_precision(family) if full else torch.float32)
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            pipeline = build(full).to(device, dtype)
    finally:
        torch.set_default_dtype(usual)
    pipeline.scheduler = pipeline.scheduler.from_config(pipeline.scheduler.config)  # its tables belong on the CPU
    pipeline.set_progress_bar_config(disable=True)
    info = ModelInfo(id="bench", name="bench", family=family, width=side, height=side,
                     options={"batch_size": n_batch})  # fmt: skip
    model = DiffusersTextToImage(info, "bench", device=device, offline=True)
    model.use(pipeline)
    rows = [
        ImageRow(prompt="a photo of a doctor", seed=seed, model="bench", num_inference_steps=n_steps,
                 guidance_scale=guidance, width=side, height=side)
        for seed in range(n_batch)
    ]  # fmt: skip
    return Built(name=f"{family} {str(dtype).removeprefix('torch.')}", pipeline=pipeline, model=model, rows=rows)


def draw_bare(pipeline, rows):
    """Draw these rows with the bare pipeline."""
    first, generators = rows[0], [torch.Generator("cpu").manual_seed(row.seed) for row in rows]
    return pipeline(
        prompt=[row.prompt for row in rows], generator=generators, num_inference_steps=first.num_inference_steps,
        guidance_scale=first.guidance_scale, width=first.width, height=first.height, output_type="pil",
    ).images  # fmt: skip


def draw(one, repeats):
    """Draw with the bare pipeline and ours in turns; return the seconds of both."""
    rows, n = one.rows, len(one.rows)

    def bare():
        return draw_bare(one.pipeline, rows)

    def ours():
        return [item.image for item in one.model.generate(rows)]

    equal = all(np.array_equal(a, b) for a, b in zip(bare(), ours(), strict=True))
    needed, taken = in_turns(bare, ours, repeats)
    print(f"{one.name}: {n} pictures of {rows[0].width} px, {rows[0].num_inference_steps} steps: "
          f"bare {n / needed:.3f} a second, ours {n / taken:.3f}: {needed / taken:.3f} times "
          f"{bar(needed / taken, least=LEAST)}; pixels equal bit for bit: {held(equal)}")  # fmt: skip
    return needed, taken


def waits(function):
    """Count the calls that wait for the GPU, with the lines that make most of them; none without a GPU."""
    if not torch.cuda.is_available():
        return "nan times"
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = Counter(f"{Path(one.filename).name}:{one.lineno}" for one in caught if "synchron" in str(one.message))
    most = ", ".join(f"{place} {n}" for place, n in places.most_common(6))
    return f"{places.total()} times ({most})"


def trace(one, repeats):
    """Time a trace of five attributes against its passes of the model alone."""
    model, pipeline, row, calls = one.model, one.pipeline, one.rows[0], []
    denoiser = getattr(pipeline, "transformer", None) or pipeline.unet

    def run():
        return list(model.trace(row, ATTRIBUTES, predicted=False))

    forward = denoiser.forward

    def noted(*args, **kwargs):  # not a hook: the trace's own choose which rows pass
        calls.append((args, kwargs))
        return forward(*args, **kwargs)

    denoiser.forward = noted
    run()
    del denoiser.forward
    given = list(calls)
    latents = (kwargs["hidden_states"] if "hidden_states" in kwargs else args[0] for args, kwargs in given)
    # The path, where it is guided twice and its own velocity once more; and both sentences of each attribute.
    n_path = 3 if without_guidance(pipeline_facts(pipeline), row, {}) else 1
    n_rows, n_needed = sum(map(len, latents)), (n_path + 2 * len(ATTRIBUTES)) * row.num_inference_steps

    @torch.inference_mode()
    def passes():
        for args, kwargs in given:
            denoiser(*args, **kwargs)

    taken, needed = in_turns(run, passes, repeats)
    print(f"{one.name}: trace of {len(ATTRIBUTES)} attributes, {row.num_inference_steps} steps: {taken:.2f} s, its "
          f"{len(given)} passes {needed:.2f} s: {taken / needed:.3f} times "
          f"{bar(taken / needed, most=MOST_TRACE)}; {n_rows} rows through the denoiser, which needs {n_needed}: "
          f"{held(n_rows == n_needed)}; the CPU waits for the GPU {waits(run)}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--full", action="store_true")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)  # threads that wait for each other use the processor too
    print(f"{device}, {'published architectures' if asked.full else 'mid-size'}, random weights")
    for family in asked.families:
        one, repeats = built(family, asked.full, device), 3 if asked.full else 5
        draw(one, repeats)
        trace(one, repeats)
        del one
        gc.collect()
        if torch.cuda.is_available():
            print(f"      peak memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
    end()
