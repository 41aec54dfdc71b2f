"""Pictures embedded per second, ours against the library's bare loop: `python bench/encoders.py`."""

import tempfile
import time
from pathlib import Path

import numpy as np
import open_clip
import torch
from PIL import Image
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

from bench.bars import bar, end
from bias_core.installed import ASSETS
from bias_core.models.encoders import OpenClipEncoder, TransformersEncoder

ARCHITECTURE, BATCH, SIDE = "ViT-B-32", 16, 512
GPU = torch.cuda.is_available()
N_PICTURES, REPEATS = (1024, 5) if GPU else (32, 5)
DEVICE = "cuda" if GPU else "cpu"
AT_LEAST, MOST_PROCESSOR = 1.0 if GPU else 0.97, 1.2


def pictures():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)) for _ in range(N_PICTURES)]


def bare(images, prepare, embed):
    """Plain loop: batch by batch, on a GPU in half precision like ours."""
    rows = []
    for start in range(0, len(images), BATCH):
        pixels = prepare(images[start : start + BATCH]).to(DEVICE)
        with torch.inference_mode(), torch.autocast(DEVICE, dtype=torch.float16, enabled=GPU):
            features = embed(pixels)
        rows.append(torch.nn.functional.normalize(features.float(), dim=-1).cpu().numpy())
    return np.concatenate(rows)


def open_clip_pair(folder):
    """Bare loop and ours on random weights of full size."""
    torch.manual_seed(0)
    model, _, preprocess = open_clip.create_model_and_transforms(ARCHITECTURE, device=DEVICE)
    weights = Path(folder) / "weights.pt"
    torch.save(model.state_dict(), weights)
    model.eval()
    ours = OpenClipEncoder("bench", ARCHITECTURE, str(weights), batch_size=BATCH, device=DEVICE)
    return (
        lambda images: bare(
            images, lambda some: torch.stack([preprocess(image) for image in some]), model.encode_image
        ),
        ours.encode_images,
    )


def transformers_pair(folder):
    """Bare loop and ours on transformers' CLIP of the same size; the tokenizer is not used, so any will do."""
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    model = CLIPModel(CLIPConfig()).eval()
    model.save_pretrained(folder)
    processor = CLIPImageProcessor()
    processor.save_pretrained(folder)
    AutoTokenizer.from_pretrained(ASSETS / "calibration" / "clip").save_pretrained(folder)
    model.to(DEVICE)
    ours = TransformersEncoder("bench", folder, batch_size=BATCH, device=DEVICE)
    return (
        lambda images: bare(
            images,
            lambda some: processor(images=some, return_tensors="pt")["pixel_values"],
            lambda pixels: model.get_image_features(pixel_values=pixels).pooler_output,
        ),
        ours.encode_images,
    )


def seconds(function, images):
    """Processor seconds (without other programs' turns) and clock seconds."""
    before = np.array([time.process_time(), time.perf_counter()])
    rows = function(images)
    return np.array([time.process_time(), time.perf_counter()]) - before, rows


def compare(name, pair, images):
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = pair(folder)
        theirs(images[:BATCH]), ours(images[:BATCH])  # load, and warm up
        rounds = [(seconds(theirs, images), seconds(ours, images)) for _ in range(REPEATS)]  # in turns
    (_, expected), (_, found) = rounds[0]
    if np.abs((expected * found).sum(axis=1) - 1).max() > 1e-3:
        raise SystemExit(f"{name}: our embeddings are not those of the bare library")
    best = np.min([[times for times, _ in both] for both in rounds], axis=0)  # (bare and ours, processor and clock)
    clock, processor = 1, 0
    ratio = best[0] / best[1]
    decides = clock if GPU else processor  # of a processor that others use too, the clock tells little
    print(
        f"{name}: bare {N_PICTURES / best[0, clock]:.1f}, "
        f"ours {N_PICTURES / best[1, clock]:.1f} pictures a second; "
        f"{ratio[decides]:.2f} times by the {'clock' if GPU else 'processor'} "
        f"{bar(ratio[decides], least=AT_LEAST)}; processor time {1 / ratio[processor]:.2f} times bare's "
        f"{bar(1 / ratio[processor], most=MOST_PROCESSOR)}"
    )


def main():
    torch.set_num_threads(1)  # threads that wait for each other use the processor too
    images = pictures()
    print(f"{N_PICTURES} pictures of {SIDE} pixels in batches of {BATCH}, ViT-B/32 with random weights, {DEVICE}")
    compare("open_clip", open_clip_pair, images)
    compare("transformers", transformers_pair, images)


if __name__ == "__main__":
    main()
    end()
