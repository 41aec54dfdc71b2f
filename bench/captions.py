"""Speed of captions and their objects, in batches and one picture at a time: `python bench/captions.py`."""

import time

import numpy as np
import torch
from transformers import BlipForConditionalGeneration, BlipProcessor

from bench.bars import bar, end
from bias_core.installed import ASSETS
from bias_core.measures.objects import extract_objects
from bias_core.models.language_models import BlipCaptioner
from bias_core.types import ImageRow
from bias_core.world.models import CalibrationRenderer
from tests.prompts_of_papers import object_prompts

SOURCE = str(ASSETS / "calibration" / "captioner")
N_PICTURES, SIDE, REPEATS, AT_LEAST = 128, 128, 3, 3


def draw():
    """Render prompts spread over the whole object study."""
    prompts = list(object_prompts())
    chosen = [prompts[i] for i in np.linspace(0, len(prompts) - 1, N_PICTURES).astype(int)]
    rows = [
        ImageRow(prompt=prompt, seed=seed, model="calibration-renderer", width=SIDE, height=SIDE)
        for seed, prompt in enumerate(chosen)
    ]
    return [generated.image for generated in CalibrationRenderer().generate(rows)]


def one_at_a_time(model, processor, images):
    found = []
    for image in images:
        with torch.inference_mode():
            output = model.generate(**processor(images=image, return_tensors="pt"), max_new_tokens=50)
        caption = processor.decode(output[0], skip_special_tokens=True)
        found.append((caption, extract_objects(caption)))
    return found


def in_batches(captioner, images):
    captions = captioner.caption(images)
    objects = {caption: extract_objects(caption) for caption in set(captions)}
    return [(caption, objects[caption]) for caption in captions]


def seconds(function):
    """Processor seconds (without other programs' turns) and clock seconds."""
    before = np.array([time.process_time(), time.perf_counter()])
    function()
    return np.array([time.process_time(), time.perf_counter()]) - before


def main():
    torch.set_num_threads(1)  # threads that wait for each other use the processor too
    images = draw()
    model = BlipForConditionalGeneration.from_pretrained(SOURCE, dtype=torch.float32).eval()
    processor = BlipProcessor.from_pretrained(SOURCE)
    captioner = BlipCaptioner("calibration-captioner", SOURCE, device="cpu", offline=True)
    if in_batches(captioner, images) != one_at_a_time(model, processor, images):  # and all is loaded
        raise SystemExit("a picture's caption depends on its batch")
    times = [  # in turns: the machine drifts
        (seconds(lambda: one_at_a_time(model, processor, images)), seconds(lambda: in_batches(captioner, images)))
        for _ in range(REPEATS)
    ]
    alone, together = np.min(times, axis=0)
    print(f"{N_PICTURES} pictures of {SIDE} pixels, one thread")
    for name, a, b in zip(("processor", "clock"), alone, together, strict=True):
        print(
            f"{name}: one at a time {a:.2f} s, in batches of {captioner.batch_size} {b:.2f} s, "
            f"{N_PICTURES / b:.0f} pictures a second: {a / b:.1f} times as quick {bar(a / b, least=AT_LEAST)}"
        )


if __name__ == "__main__":
    main()
    end()
