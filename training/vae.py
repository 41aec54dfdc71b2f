"""Train the picture compressor: 128 x 128 x 3 pixels to 16 x 16 x 4 latents and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from transformers import VisionTextDualEncoderModel

from bias_core.world.scene import balanced_scene, draw_scene
from training.clip import READ_AT
from training.loop import record, to_tensor, train

CONFIG = {
    "block_out_channels": (16, 16, 32, 64),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 1,
    "latent_channels": 4,
    "norm_num_groups": 8,
    "sample_size": 128,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "mid_block_add_attention": False,
}


def train_vae(
    work: Path,
    out: Path,
    *,
    minutes: float,
    batch: int = 24,
    held_out: int = 256,
    decoder_only: bool = False,
    reader: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Fit the autoencoder to balanced renders and save it, averaged, with its latent scale and shift.

    Weights in ``out`` are trained further. With ``decoder_only`` the latents keep their meaning, so that a
    generator already trained on them stays valid. Pixels weigh a mouth little, though it says who is drawn:
    a ``reader`` adds how far its embedding of the picture that comes back is from that of the original.
    The error that is recorded is of ``held_out`` further pictures.
    """
    torch.manual_seed(seed)
    rng = Random(seed)
    model = AutoencoderKL(**CONFIG).to(device)
    if (out / "config.json").exists():
        model = AutoencoderKL.from_pretrained(out, torch_dtype=torch.float32).to(device)
    model.encoder.requires_grad_(not decoder_only)

    embed = _embedding_of(reader, device) if reader else None

    def pictures(n: int) -> torch.Tensor:
        return to_tensor([draw_scene(balanced_scene(rng), model.config.sample_size) for _ in range(n)]).to(device)

    def loss_of(_step: int) -> torch.Tensor:
        x = pictures(batch)
        posterior = model.encode(x).latent_dist
        y = model.decode(posterior.sample()).sample
        loss = reconstruction_loss(y, x) + 2e-5 * posterior.kl().mean() / (16 * 16 * 4) * 50
        return loss + (1 - F.cosine_similarity(embed(y), embed(x))).mean() if embed else loss

    average = train(model, loss_of, name="vae", checkpoint=work / "vae.pt", minutes=minutes, lr=2e-3, ema=0.995)
    model.load_state_dict(average.state)
    with torch.no_grad():
        x = pictures(held_out)
        z = model.encode(x).latent_dist.sample()
        error = F.l1_loss(model.decode(z).sample, x).item()
    if not decoder_only:
        model.register_to_config(scaling_factor=1 / z.std().item(), shift_factor=z.mean().item())
    model.save_pretrained(out)
    record(out, average.steps, minutes=minutes, seed=seed, device=device, held_out_l1=error)
    print(f"vae: held-out L1 {error:.4f} in [-1, 1]")


def _embedding_of(reader: Path, device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Pictures ``(n, 3, h, h)`` to embeddings ``(n, d)`` of a reader that does not learn."""
    model = VisionTextDualEncoderModel.from_pretrained(reader, torch_dtype=torch.float32).eval().to(device)
    model.requires_grad_(False)

    def embed(x: torch.Tensor) -> torch.Tensor:
        features = model.get_image_features(pixel_values=F.adaptive_avg_pool2d(x, READ_AT))
        return torch.as_tensor(getattr(features, "pooler_output", features))

    return embed


def reconstruction_loss(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """L1 on pixels plus L1 on their differences to the right and below: edges make a drawing legible."""
    pixel = F.l1_loss(y, x) + 0.5 * F.mse_loss(y, x)
    right = F.l1_loss(y[..., 1:] - y[..., :-1], x[..., 1:] - x[..., :-1])
    below = F.l1_loss(y[..., 1:, :] - y[..., :-1, :], x[..., 1:, :] - x[..., :-1, :])
    return pixel + right + below
