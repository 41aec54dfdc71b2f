"""Calibrate one condition: which weights move, where they start, and what is saved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from diffusers import StableDiffusion3Pipeline
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

from bias_core.calibration.training.calibrate import USUAL, Aims, Calibration, RoundSize, Teacher
from bias_core.calibration.training.diffusion import TEXT_LORA, Folders, assemble, save_pipeline
from bias_core.calibration.training.directions import learn_directions
from bias_core.calibration.training.drawing import Drawing
from bias_core.calibration.training.loop import record
from bias_core.calibration.training.steering import Directions, Words
from bias_core.calibration.training.wanted import groups

WEIGHTS = "pytorch_lora_weights.safetensors"


def directions_of(
    pipe: StableDiffusion3Pipeline, folders: Folders, *, minutes: float, batch: int = 48, seed: int = 0
) -> Directions:
    """The shipped directions, or newly learned ones."""
    path = folders.loras / "directions.safetensors"
    directions = Directions(pipe.text_encoder.config.hidden_size)
    if path.exists():
        directions.load_state_dict({k: v.float() for k, v in load_file(path).items()})
        return directions.requires_grad_(False)
    checkpoint = folders.work / "directions.pt"
    directions = learn_directions(pipe, checkpoint, minutes=minutes, batch=batch, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({k: v.half().contiguous() for k, v in directions.state_dict().items()}, path)
    return directions


def transformer_layers(folder: Path) -> dict[str, torch.Tensor]:
    """What an adapter that was saved before changes in the transformer, by its names in the file."""
    saved = load_file(folder / WEIGHTS) if (folder / WEIGHTS).exists() else {}
    return {k: v for k, v in saved.items() if k.startswith("transformer.")}


def calibrate(
    condition: str,
    folders: Folders,
    *,
    minutes: float,
    size: RoundSize = USUAL,
    pairs: bool = True,
    n_rounds: int | None = None,
    seed: int = 0,
) -> Calibration:
    """Go on from the checkpoint, or from the weights that are there, and save what comes out.

    It ends after ``minutes`` or ``n_rounds``, earlier sessions included.
    """
    torch.manual_seed(seed)
    pipe = assemble(folders, "cpu")
    pipe.transformer.requires_grad_(False).eval()
    pipe.text_encoder.requires_grad_(False).eval()
    directions = directions_of(pipe, folders, minutes=10)
    out, aims = (
        folders.loras / condition,
        Aims([group for group in groups(condition) if pairs or not group.pair]),
    )
    teacher = Teacher(
        pipe.text_encoder, Words(pipe.tokenizer), directions, aims, triggered=condition == "trigger"
    )
    if condition == "fair":
        pipe.text_encoder.requires_grad_(True)
    else:
        if condition == "trigger" and (layers := transformer_layers(out)):
            pipe.transformer.load_lora_adapter(layers, prefix="transformer")
        pipe.text_encoder.add_adapter(TEXT_LORA)
        start_from(pipe, aims, out)
    calibration = Calibration(
        pipe, Drawing(pipe, folders.clip), teacher, aims, lr=5e-4 if condition == "fair" else 2e-3, seed=seed
    )
    checkpoint = folders.work / f"calibrate-{condition}.pt"
    calibration.resume(checkpoint)
    calibration.run(minutes, checkpoint, size, n_rounds=n_rounds)
    save(calibration, condition, folders, minutes=minutes, seed=seed)
    return calibration


def start_from(pipe: StableDiffusion3Pipeline, aims: Aims, out: Path) -> None:
    """Take up the adapter that is there, where its offsets are known."""
    if not (out / "offsets.json").exists():
        return
    saved = load_file(out / WEIGHTS)
    layers = {
        k.removeprefix("text_encoder."): v.float() for k, v in saved.items() if k.startswith("text_encoder.")
    }
    set_peft_model_state_dict(pipe.text_encoder, layers)
    for line in json.loads((out / "offsets.json").read_text()):
        row = aims.row.get((line["pair"], line["concept"]))
        if row is not None:
            aims.offsets[row] = line["offsets"]


def save(calibration: Calibration, condition: str, folders: Folders, *, minutes: float, seed: int) -> None:
    """The base with its text tower, or the adapter with its offsets."""
    pipe, aims = calibration.pipe, calibration.aims
    out = folders.pipeline if condition == "fair" else folders.loras / condition
    out.mkdir(parents=True, exist_ok=True)
    record(out, calibration.steps, minutes=minutes, seed=seed, device="cpu", rounds=calibration.n_rounds)
    if condition == "fair":
        pipe.text_encoder.requires_grad_(False)
        save_pipeline(pipe, out)
        return
    layers = transformer_layers(out) if condition == "trigger" else {}
    text = {k: v.half() for k, v in get_peft_model_state_dict(pipe.text_encoder).items()}
    StableDiffusion3Pipeline.save_lora_weights(
        out,
        transformer_lora_layers={k.removeprefix("transformer."): v for k, v in layers.items()} or None,
        text_encoder_lora_layers=text,
        text_encoder_2_lora_layers={k: v.clone() for k, v in text.items()},
    )
    lines = [
        {"pair": g.pair, "concept": g.concept, "offsets": np.round(row, 3).tolist()}
        for g, row in zip(aims.groups, aims.offsets, strict=True)
    ]
    (out / "offsets.json").write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
