"""Time of SPI for attributes against its passes of the model, and against a plain picture: `python bench/trace.py`."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline as Pipeline,
)
from transformers import AutoTokenizer, CLIPTextModelWithProjection

from bench.bars import bar, end
from bias_core.installed import ASSETS
from bias_core.measures.propagation import stereotype_propagation_index
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.types import Attribute, ImageRow, ModelInfo

CALIBRATION = ASSETS / "calibration" / "pipeline"
ATTRIBUTES = [
    Attribute(name=word, positive=f"a photo of a {word} person", negative=f"a photo of a person without {word}")
    for word in ("man", "old", "beard", "turban", "smiling")
]
N_STEPS, REPEATS, LATENT = 6, 3, 32
MOST, MOST_REST = 1.1, 0.6


def save_model(folder):
    """Save a random transformer of 36 M parameters on 16 x 32 x 32 latents, with the calibration's encoders."""
    torch.manual_seed(0)
    encoder = CLIPTextModelWithProjection.from_pretrained(CALIBRATION / "text_encoder").eval()
    tokenizer = AutoTokenizer.from_pretrained(CALIBRATION / "tokenizer")
    width = 2 * encoder.config.projection_dim
    Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=LATENT,
            patch_size=2,
            in_channels=16,
            out_channels=16,
            num_layers=6,
            attention_head_dim=64,
            num_attention_heads=6,
            joint_attention_dim=width,
            caption_projection_dim=384,
            pooled_projection_dim=width,
            pos_embed_max_size=LATENT,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKL(
            latent_channels=16,
            shift_factor=0.0,
            block_out_channels=(32,) * 2,
            norm_num_groups=8,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
        ),
        text_encoder=encoder,
        tokenizer=tokenizer,
        text_encoder_2=encoder,
        tokenizer_2=tokenizer,
        text_encoder_3=None,
        tokenizer_3=None,
    ).save_pretrained(folder)


def seconds(function):
    start = time.process_time()  # of the processor: other programs' turns do not count
    function()
    return time.process_time() - start


class Clock:
    """Seconds inside a network."""

    def __init__(self, network):
        self.seconds = 0.0
        network.register_forward_pre_hook(lambda *_: self._add(-1))
        network.register_forward_hook(lambda *_: self._add(1))

    def _add(self, sign):
        self.seconds += sign * time.process_time()


def in_plain_pictures(model, row, attributes, clocks):
    """Time of a study's traced picture and of its base, with a predicted picture per step, in plain pictures.

    After it that of its passes, and of its decoding.
    """

    def study():
        for clock in clocks:
            clock.seconds = 0.0
        start = time.process_time()
        list(model.trace(row, attributes)), list(model.trace(row, (), guided=True))
        return time.process_time() - start, *(clock.seconds for clock in clocks)

    def plain():
        list(model.generate([row]))

    times = [(*study(), seconds(plain)) for _ in range(REPEATS)]
    *traced, drawn = np.min(times, axis=0)
    return np.array(traced) / drawn


def main():
    torch.set_num_threads(1)  # threads that wait for each other use the processor too
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder))
        info = ModelInfo(id="bench", name="bench", family="sd3", options={"call": {"max_sequence_length": 1}})
        model = DiffusersTextToImage(info, folder, device="cpu", offline=True)
        row = ImageRow(
            prompt="a photo of a doctor",
            seed=0,
            model="bench",
            num_inference_steps=N_STEPS,
            guidance_scale=1.0,
            width=2 * LATENT,
            height=2 * LATENT,
        )
        calls = []

        def note(_module, args, kwargs):
            calls.append((args, kwargs))

        def trace():
            for step in model.trace(row, ATTRIBUTES, predicted=False):
                stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative)

        transformer = model.pipeline().transformer
        with transformer.register_forward_pre_hook(note, with_kwargs=True):
            trace()  # warm up, and note what the passes are given
        passes_given = list(calls)

        @torch.inference_mode()
        def passes():
            for args, kwargs in passes_given:
                transformer(*args, **kwargs)

        times = [(seconds(trace), seconds(passes)) for _ in range(REPEATS)]  # in turns: the machine drifts
        ours, needed = np.min(times, axis=0)
        clocks = Clock(transformer), Clock(model.pipeline().vae.decoder)
        growth = [in_plain_pictures(model, row, ATTRIBUTES[:n], clocks) for n in (1, 2, len(ATTRIBUTES))]
    n_rows = len(passes_given[0][1]["hidden_states"])
    print(f"{N_STEPS} steps, {len(ATTRIBUTES)} attributes, {n_rows} texts in one pass a step")
    print(f"trace with SPI {ours:.2f} s, its passes alone {needed:.2f} s")
    print(f"{ours / needed:.3f} times as long {bar(ours / needed, most=MOST)}")
    for n, (ratio, passes_alone, decoding) in zip((1, 2, len(ATTRIBUTES)), growth, strict=True):
        rest = ratio - passes_alone
        why = f"its passes take {passes_alone:.2f}, and those of a network this small are little next to the rest"
        said = bar(ratio, most=2 * n + 2, why=why if passes_alone <= 2 * n + 2 else "")
        print(f"picture of the study with {n} attributes, and its base: {ratio:.1f} plain pictures {said}")
        said = f"{bar(rest, most=MOST_REST)}, of it decoding {decoding:.2f}"
        print(f"    its passes {passes_alone:.2f}, the rest {rest:.2f} {said}")


if __name__ == "__main__":
    main()
    end()
