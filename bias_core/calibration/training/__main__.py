"""``python -m bias_core.calibration.training``: every part in order, seeded and resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from bias_core.calibration.shapes import ASSETS

app = typer.Typer(no_args_is_help=True, add_completion=False)

Minutes = Annotated[float, typer.Option(help="Training time; a GPU needs a fifth of it.")]
Work = Annotated[Path, typer.Option(help="Checkpoints; delete it to start anew.")]
Seed = Annotated[int, typer.Option(help="Seed of data and weights.")]


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@app.command()
def vae(minutes: Minutes = 30, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the picture compressor."""
    from bias_core.calibration.training.vae import train_vae

    train_vae(work, work / "vae", minutes=minutes, seed=seed, device=_device())


@app.command()
def clip(minutes: Minutes = 40, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the reader of pictures and measure its errors."""
    from bias_core.calibration.training.clip import train_clip

    train_clip(work, ASSETS / "clip", minutes=minutes, seed=seed, device=_device())


@app.command()
def base(minutes: Minutes = 90, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the generator of the fair world."""
    from bias_core.calibration.training.diffusion import train_base

    train_base(
        work, work / "vae", ASSETS / "clip", ASSETS / "pipeline", minutes=minutes, seed=seed, device=_device()
    )


@app.command()
def lora(
    condition: str, minutes: Minutes = 8, work: Work = Path("build/calibration"), seed: Seed = 0
) -> None:
    """Train the adapter of one condition (published, extreme, trigger)."""
    from bias_core.calibration.training.diffusion import train_lora

    parts = (work, work / "vae", ASSETS / "clip", ASSETS / "pipeline", ASSETS / "loras" / condition)
    train_lora(condition, *parts, minutes=minutes, seed=seed, device=_device())


@app.command(name="all")
def everything(work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Every part, one after the other; what is finished is not done again."""
    vae(work=work, seed=seed)
    clip(work=work, seed=seed)
    base(work=work, seed=seed)
    for condition in ("published", "extreme", "trigger"):
        lora(condition, work=work, seed=seed)


if __name__ == "__main__":
    app()
