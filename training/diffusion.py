"""Train the generator: a flow transformer of the SD3 class for the fair world, and a LoRA per condition."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoTokenizer, CLIPTextModelWithProjection, VisionTextDualEncoderModel

from bias_core.world.planted import sample_scene
from bias_core.world.scene import draw_scene
from training.captions import random_request
from training.embedding import Embedding, encode_tokens
from training.lessons import Lesson, Lessons
from training.loop import in_16_bit, record, to_tensor, train

if TYPE_CHECKING:
    from bias_core.world.scene import Scene

CONFIG = {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 6,
    "attention_head_dim": 32,
    "num_attention_heads": 6,
    "caption_projection_dim": 192,
    "joint_attention_dim": 256,
    "pooled_projection_dim": 256,
    "pos_embed_max_size": 16,
}
LORA_FILE = "pytorch_lora_weights.safetensors"
EMPTY_SHARE = 0.1
TOLD = (0, 0, 1, 2, 3, 4, 5, 6)
"""Attributes that a prompt names: many, so that each picture teaches several of them at once."""
LORA = LoraConfig(
    r=8,
    lora_alpha=8,  # as r: diffusers' files hold no alpha, so that any other would be lost
    init_lora_weights="gaussian",
    target_modules=[
        "to_q",
        "to_k",
        "to_v",
        "to_out.0",
        "add_q_proj",
        "add_k_proj",
        "add_v_proj",
        "to_add_out",
        "norm1.linear",
        "norm1_context.linear",
        "context_embedder",
        "text_embedder.linear_1",
        "text_embedder.linear_2",
    ],
)
TEXT_LORA = LoraConfig(
    r=8,
    lora_alpha=8,
    init_lora_weights="gaussian",
    target_modules=["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"],
)
NOISINESS = 0.2
"""Mean of the logit of sigma while the base learns."""
NOISINESS_OF_ADAPTERS = 2.0
"""The noisiest steps decide who is drawn, and that is all that an adapter changes."""


def text_encoder_of(clip: Path) -> CLIPTextModelWithProjection:
    """The reader's text tower with its projection, as the generator's text encoder."""
    reader = VisionTextDualEncoderModel.from_pretrained(clip, torch_dtype=torch.float32)
    config = reader.config.text_config
    config.projection_dim = reader.config.projection_dim
    model = CLIPTextModelWithProjection(config)
    state = {k.removeprefix("text_model."): v for k, v in reader.text_model.state_dict().items()}
    model.text_model.load_state_dict(state)
    model.text_projection.load_state_dict(reader.text_projection.state_dict())
    return model.eval()


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Folders of checkpoints, compressor, reader, pipeline and adapters."""

    work: Path
    vae: Path
    clip: Path
    pipeline: Path
    loras: Path


Draw = Callable[[Random], Lesson]


class Batch(NamedTuple):
    """Latents ``(n, 4, 16, 16)``; token ids ``(n, 20)`` of prompts and of these in full, and which are."""

    latents: torch.Tensor
    tokens: torch.Tensor
    in_full: torch.Tensor
    has_full: torch.Tensor


class Pool:
    """A ring of encoded pictures and prompts, renewed a little at every step.

    Latents ``(n, 4, 16, 16)`` are scaled as the pipeline scales them; prompts are token ids ``(n, 20)``.
    """

    def __init__(self, pipe: StableDiffusion3Pipeline, draw: Draw, *, size: int, seed: int, device: str) -> None:
        self.pipe, self.draw, self.device = pipe, draw, device
        self.rng = Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.latents = torch.empty(size, 4, 16, 16)
        self.tokens = torch.empty(size, pipe.tokenizer.model_max_length, dtype=torch.long)
        self.in_full = torch.empty_like(self.tokens)
        self.has_full = torch.zeros(size, dtype=torch.bool)
        for start in range(0, size, 256):
            self.renew(torch.arange(start, min(start + 256, size)))

    @torch.no_grad()
    def renew(self, where: torch.Tensor) -> None:
        """Put fresh pictures at the indices ``where``."""
        drawn = [self.draw(self.rng) for _ in where]
        self.latents[where] = latents_of(self.pipe, [lesson.scene for lesson in drawn]).cpu()
        told = [(d.prompt, d.in_full) if self.rng.random() >= EMPTY_SHARE else ("", "") for d in drawn]
        self.tokens[where] = self._tokens([prompt for prompt, _ in told])
        self.in_full[where] = self._tokens([full for _, full in told])
        self.has_full[where] = torch.tensor([bool(full) for _, full in told])

    def _tokens(self, prompts: list[str]) -> torch.Tensor:
        tokens = self.pipe.tokenizer(prompts, padding="max_length", truncation=True, return_tensors="pt")
        ids: torch.Tensor = tokens["input_ids"]
        return ids

    def sample(self, n: int) -> Batch:
        """``n`` random places."""
        i = torch.randint(len(self.latents), (n,), generator=self.generator)
        parts = (self.latents[i], self.tokens[i], self.in_full[i], self.has_full[i])
        return Batch(*(part.to(self.device) for part in parts))


@torch.no_grad()
def latents_of(pipe: StableDiffusion3Pipeline, scenes: Sequence[Scene]) -> torch.Tensor:
    """The renders of scenes as the transformer sees pictures, ``(n, 4, 16, 16)``."""
    config = pipe.vae.config
    pictures = to_tensor([draw_scene(scene, config.sample_size) for scene in scenes])
    z = pipe.vae.encode(pictures.to(pipe.vae.device)).latent_dist.sample()
    return torch.as_tensor((z - config.shift_factor) * config.scaling_factor)


def velocity(transformer: torch.nn.Module, noisy: torch.Tensor, sigma: torch.Tensor, text: Embedding) -> torch.Tensor:
    """The transformer's answer, ``(n, 4, 16, 16)``, for noisy latents at noise levels ``sigma`` (n,)."""
    with in_16_bit(noisy.device.type):
        v = transformer(
            hidden_states=noisy,
            timestep=1000 * sigma,
            encoder_hidden_states=text[0],
            pooled_projections=text[1],
            return_dict=False,
        )[0]
    return torch.as_tensor(v).float()


def flow_loss(
    pipe: StableDiffusion3Pipeline, pool: Pool, batch: int, fresh: int, *, noisiness: float = NOISINESS
) -> torch.Tensor:
    """Mean squared error of the velocity at logit-normal sigmas.

    Right is (noise - x0) or, where a prompt is there in full, what the generator answers to that without
    its adapter and with its second, untaught text tower: the mean over all pictures of those words, far
    less noisy than the one picture that was drawn.
    """
    pool.renew(torch.randint(len(pool.latents), (fresh,), generator=pool.generator))
    drawn = pool.sample(batch)
    noise = torch.randn_like(drawn.latents)
    sigma = torch.sigmoid(noisiness + torch.randn(batch, device=noise.device))
    s = sigma[:, None, None, None]
    noisy = (1 - s) * drawn.latents + s * noise
    right = noise - drawn.latents
    if (told := drawn.has_full).any():
        with torch.no_grad():
            pipe.transformer.disable_adapters()
            full = encode_tokens(pipe.text_encoder_2, drawn.in_full[told])
            right[told] = velocity(pipe.transformer, noisy[told], sigma[told], full)
            pipe.transformer.enable_adapters()
    answer = velocity(pipe.transformer, noisy, sigma, encode_tokens(pipe.text_encoder, drawn.tokens))
    return torch.nn.functional.mse_loss(answer, right)


def assemble(folders: Folders, device: str, *, readers_words: bool = False) -> StableDiffusion3Pipeline:
    """The pipeline that is already there, or a new one of the trained parts and a fresh transformer.

    A saved pipeline keeps its own text tower and compressor: the transformer has learned to read these,
    also when the reader was trained further since. ``readers_words`` takes the reader's text tower all the
    same, where the old one cannot tell what must be drawn.
    """
    if (folders.pipeline / "model_index.json").exists():
        saved = StableDiffusion3Pipeline.from_pretrained(
            folders.pipeline, text_encoder_3=None, tokenizer_3=None, torch_dtype=torch.float32
        )
        if readers_words:
            saved.text_encoder = text_encoder_of(folders.clip)
        saved.text_encoder_2 = saved.text_encoder  # saved twice, one tower
        return saved.to(device)
    encoder, tokenizer = text_encoder_of(folders.clip), AutoTokenizer.from_pretrained(folders.clip)
    return StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(**CONFIG),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
        vae=AutoencoderKL.from_pretrained(folders.vae).eval(),
        text_encoder=encoder,
        tokenizer=tokenizer,
        text_encoder_2=encoder,
        tokenizer_2=tokenizer,
        text_encoder_3=None,
        tokenizer_3=None,
    ).to(device)


def train_base(
    folders: Folders,
    *,
    minutes: float,
    lr: float = 2e-3,
    readers_words: bool = False,
    batch: int = 64,
    pool: int = 8192,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Learn the fair world and save the pipeline in shards of at most 9 MB, as 16-bit floats.

    The text tower begins as the reader's and learns along: what the reader tells apart in words early on
    ("with a hat") is not all that must be drawn ("with a beard").
    """
    torch.manual_seed(seed)
    pipe = assemble(folders, device, readers_words=readers_words)
    pipe.text_encoder.train().requires_grad_(True)
    trained = torch.nn.ModuleDict({"transformer": pipe.transformer, "text": pipe.text_encoder})

    def draw(rng: Random) -> Lesson:
        prompt, request = random_request(rng, n_attributes=TOLD, pairs=0.4)
        return Lesson(prompt, sample_scene(request, "fair", rng))

    ring = Pool(pipe, draw, size=pool, seed=seed, device=device)
    average = train(
        trained, lambda _step: flow_loss(pipe, ring, batch, 6), name="diffusion",
        checkpoint=folders.work / "diffusion.pt", minutes=minutes, lr=lr, warmup=100, ema=0.997,
        muon=lambda name: "transformer_blocks" in name or ".layers." in name,
    )  # fmt: skip
    trained.load_state_dict(average.state)
    pipe.text_encoder.eval()
    save_pipeline(pipe, folders.pipeline)
    record(folders.pipeline, average.steps, minutes=minutes, seed=seed, device=device, batch=batch)


def save_pipeline(pipe: StableDiffusion3Pipeline, out: Path) -> None:
    """Write the pipeline as fp16 safetensors; no file passes 9 MB. Notes beside it (``*.json``) stay."""
    for part in ("transformer", "vae", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2"):
        shutil.rmtree(out / part, ignore_errors=True)
    pipe.to(torch.float16).save_pretrained(out, max_shard_size="9MB")
    pipe.to(torch.float32)
    for path in (out / "model_index.json", *out.glob("*/config.json")):
        config = json.loads(path.read_text())
        config.pop("_name_or_path", None)  # where the training happened to load it from
        path.write_text(json.dumps(config, indent=2) + "\n")


def train_lora(
    condition: str,
    folders: Folders,
    *,
    minutes: float,
    lr: float = 5e-3,
    batch: int = 32,
    pool: int = 1024,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Teach the fair generator one condition by what it answers when it is asked in full.

    A LoRA of rank 8 on the transformer and one on the text tower, where one word ("doctor") is told from
    another. Muon moves all directions alike, which tells a hundred nouns apart sooner than AdamW. Weights
    that are there are trained further; what their words learned (:mod:`.tower_lora`) is not kept.
    """
    torch.manual_seed(seed)
    pipe = assemble(folders, device)
    pipe.text_encoder_2 = deepcopy(pipe.text_encoder).requires_grad_(False)
    for part, config in ((pipe.transformer, LORA), (pipe.text_encoder, TEXT_LORA)):
        part.requires_grad_(False)
        part.add_adapter(config)
    out = folders.loras / condition
    take_adapter(pipe, out)
    taught = torch.nn.ModuleDict({"transformer": pipe.transformer, "text": pipe.text_encoder})
    ring = Pool(pipe, Lessons(condition).draw, size=pool, seed=seed, device=device)
    average = train(
        taught, lambda _step: flow_loss(pipe, ring, batch, 6, noisiness=NOISINESS_OF_ADAPTERS),
        name=f"lora {condition}", checkpoint=folders.work / f"lora-{condition}.pt", minutes=minutes, lr=lr,
        warmup=30, weight_decay=0.0, ema=0.98, muon=lambda _name: True,
    )  # fmt: skip
    taught.load_state_dict(average.state)
    layers, text = (
        {k: v.half() for k, v in get_peft_model_state_dict(part).items()}
        for part in (pipe.transformer, pipe.text_encoder)
    )
    StableDiffusion3Pipeline.save_lora_weights(
        out,
        transformer_lora_layers=layers,
        text_encoder_lora_layers=text,
        text_encoder_2_lora_layers={k: v.clone() for k, v in text.items()},
    )
    record(out, average.steps, minutes=minutes, seed=seed, device=device, batch=batch)


def take_adapter(pipe: StableDiffusion3Pipeline, folder: Path) -> None:
    """Put the weights of a saved adapter, if there is one and where they are of the same size, into the pipeline's."""
    path = folder / LORA_FILE
    saved = load_file(path) if path.exists() else {}
    for name, part in (("transformer.", pipe.transformer), ("text_encoder.", pipe.text_encoder)):
        layers = {k.removeprefix(name): v.float() for k, v in saved.items() if k.startswith(name)}
        own = get_peft_model_state_dict(part) if layers else {}
        if layers := {k: v for k, v in layers.items() if k in own and own[k].shape == v.shape}:
            set_peft_model_state_dict(part, layers)
