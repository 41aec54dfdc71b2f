"""Generators that tests hand to engines, in a module that worker processes can import."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from PIL import Image

from bias_core.errors import ModelUnavailable
from bias_core.types import GeneratedImage, ImageRow


class Noise:
    """Draws seeded noise in five "denoising steps".

    What the prompt names happens instead: "slow" takes a tenth of a second a step, "broken" raises,
    "deadly" kills the process at every try, and "deadly once: FILE" where the file is not there yet.
    """

    batch_size = 3
    n_steps = 5

    def __init__(self) -> None:
        self.drawn: list[int] = []
        self.n_steps_done = 0

    def generate(self, rows, *, on_step=None):
        for step in range(1, self.n_steps + 1):
            self.n_steps_done += 1
            if any("slow" in row.prompt for row in rows):
                time.sleep(0.1)
            if on_step is not None:
                on_step(step, self.n_steps)
        for row in rows:
            _act(row.prompt)
            self.drawn.append(row.seed)
            yield GeneratedImage(row=row, image=picture(row))


def picture(row: ImageRow) -> Image.Image:
    pixels = np.random.default_rng(row.seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def _act(prompt: str) -> None:
    if prompt == "broken":
        raise ModelUnavailable("weights are gone")
    what, _, mark = prompt.partition(": ")
    if prompt == "deadly" or (what == "deadly once" and not Path(mark).exists()):
        if mark:
            Path(mark).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)


def build(_row: ImageRow) -> Noise:
    return Noise()


def rows(n: int, prompt: str = "p") -> list[ImageRow]:
    return [ImageRow(prompt=prompt, seed=seed, model="noise") for seed in range(n)]
