"""Services without weights: the calibration renderer draws, and pixels compared with prototypes read."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bias_core.installed import ASSETS
from bias_core.people import person_halves
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import Estimate, GeneratedImage, ImageRow, ReaderErrors, Step
from bias_core.world.scene import balanced_scene, draw_scene

if TYPE_CHECKING:
    from bias_core.people import Box
    from bias_core.types import Attribute
    from bias_core.world.scene import Scene

RATES = {"published": 0.75, "fair": 0.5, "extreme": 0.95, "trigger": 0.5}
CUES: Mapping[str, dict[str, Any]] = {
    "woman": {"gender": "feminine"},
    "female": {"gender": "feminine"},
    "male": {"gender": "masculine"},
    "man": {"gender": "masculine"},
    "without glasses": {"glasses": False},
    "glasses": {"glasses": True},
    "without a beard": {"beard": False},
    "beard": {"beard": True},
    "young": {"age": "young"},
    "old": {"age": "old"},
    "dark skin": {"skin": 9},
    "light skin": {"skin": 2},
}
SLOW_STEP_SECONDS = 0.1
KNOWN = {"a", "an", "photo", "of", "doctor", "nurse", "ceo", "person", "male", "female", "rose", "spider"}


def _cue(text: str) -> str:
    """The first cue in a text, or ""."""
    return next((cue for cue in CUES if cue in text), "")


def _cues(text: str) -> dict[str, Any]:
    return CUES.get(_cue(text), {})


def _portrait(rng: Random, **values: Any) -> Scene:
    scene = balanced_scene(rng)
    while len(scene.people) != 1:
        scene = balanced_scene(rng)
    return replace(scene, people=(replace(scene.people[0], **values),))


def _pair(rng: Random) -> Scene:
    scene = balanced_scene(rng)
    while len(scene.people) != 2:
        scene = balanced_scene(rng)
    return scene


_BOXES: dict[int, list[Box]] = {}  # of pictures of two, for the finder that cannot err


class SlowRenderer:
    """Draws a portrait per row, or two people side by side where the prompt names a left and a right one.

    The word "slow" in a prompt makes its steps slow, and seed 13 is blocked.
    """

    batch_size = 4

    def generate(self, rows: Sequence[ImageRow], *, on_step: Any = None) -> Iterator[GeneratedImage]:
        n_steps = max(1, rows[0].num_inference_steps)
        for step in range(1, n_steps + 1):
            time.sleep(SLOW_STEP_SECONDS if "slow" in rows[0].prompt else 0.0)
            if on_step is not None:
                on_step(step, n_steps)
        for row in rows:
            rng = Random(zlib.crc32(f"{row.prompt} {row.condition} {row.seed}".encode()))
            gender = "masculine" if rng.random() < RATES.get(row.condition, 0.5) else "feminine"
            two, own = " on the left and " in row.prompt, {"gender": gender, **_cues(row.prompt)}
            scene = _pair(rng) if two else _portrait(rng, **own)
            image = draw_scene(scene, row.width)
            if two:
                _BOXES[zlib.crc32(image.tobytes())] = person_halves(image)
            yield GeneratedImage(row=row, image=image, truth=scene.truth(), blocked=row.seed == 13)


class TracedRenderer(SlowRenderer):
    """A renderer with denoising steps, which shows what forms.

    It goes towards the first attribute from the start, and from the second step on away from the second one; towards
    others or away from them by the seed.
    """

    rows: Sequence[ImageRow] = ()

    def generate(self, rows: Sequence[ImageRow], *, on_step: Any = None) -> Iterator[GeneratedImage]:
        self.rows = rows
        yield from super().generate(rows, on_step=on_step)

    def forming(self) -> dict[str, Image.Image]:
        return {row.id: Image.new("RGB", (16, 16), "grey") for row in self.rows}

    def trace(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        *,
        guided: bool = False,
        predicted: bool = True,
        on_step: Any = None,
    ) -> Iterator[Step]:
        axes = np.eye(16, dtype=np.float32).reshape(16, 4, 2, 2)
        (finished,) = (drawn.image for drawn in self.generate([row]))
        grey, n_steps = Image.new("RGB", finished.size, "grey"), max(1, row.num_inference_steps)
        wiggle = 0.02 * Random(row.seed).uniform(-1, 1)
        for i in range(n_steps):
            parts = [0.5 + wiggle, -0.4 + wiggle if i else 10 * wiggle, 10 * wiggle]
            parts = [*parts, *[10 * wiggle] * len(attributes)][: len(attributes)]
            rest = np.sqrt(1 - sum(part**2 for part in parts))
            yield Step(
                index=i,
                sigma=1 - i / n_steps,
                xt=axes[15],
                velocity=rest * axes[14] + sum(part * axes[k] for k, part in enumerate(parts)),
                velocity_positive=axes[: len(parts)] + axes[15],
                velocity_negative=axes[[15] * len(parts)],
                predicted=Image.blend(grey, finished, (i + 1) / n_steps) if predicted else None,
                guided=guided,
            )
            if on_step is not None:
                on_step(i + 1, n_steps)


class FewTexts:
    """A language model that goes on with one of four words."""

    name = "few-texts"
    WORDS = ("glasses", "a beard", "dark skin", "light skin")

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        return [[f"{prefix} {word}" for word in self.WORDS[:n]] for prefix in prefixes]

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> np.ndarray:
        return np.zeros(len(texts))

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        return "in a park"


class RecordFinder:
    """Knows which pictures show two people; the others show one."""

    name = "records-1"

    def find(self, image: Image.Image) -> list[Box]:
        return _BOXES.get(zlib.crc32(image.tobytes()), [(0, 0, *image.size)])


class FewWords:
    """A captioner with four sentences, one for each picture by its pixels."""

    name = "few-words-1"
    SENTENCES = (
        "a man with a hat in a kitchen",
        "a woman holding a cup in a kitchen",
        "a person near a window with a book",
        "a man holding a cup",
    )

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        return [self.SENTENCES[zlib.crc32(image.tobytes()) % len(self.SENTENCES)] for image in images]


@cache
def _portraits() -> np.ndarray:
    """A hundred different people, a row of pixels each."""
    rng = Random(1)
    return _pixels([draw_scene(_portrait(rng)) for _ in range(100)])


def _pixels(images: Sequence[Image.Image]) -> np.ndarray:
    rows = [np.asarray(i.convert("RGB").resize((16, 16)), dtype=np.float32).ravel() for i in images]
    return np.stack(rows) / 255


class PixelEncoder:
    """Embeds pictures by their pixels; a sentence by the mean of pictures that show it."""

    name = "pixels-2"

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        rows = _pixels(images) - _portraits().mean(axis=0)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._text(text) for text in texts])

    def _text(self, text: str) -> np.ndarray:
        if cue := _cue(text):
            return _cue_row(cue)
        some = _portraits()[Random(zlib.crc32(text.encode())).sample(range(100), 30)]  # the text shows nothing
        row = some.mean(axis=0) - _portraits().mean(axis=0)
        return row / np.linalg.norm(row)


@cache
def _cue_row(cue: str) -> np.ndarray:
    """The mean of portraits that show it: one for all texts with this cue, for each takes a tenth of a second."""
    rng = Random(0)
    row = PixelEncoder().encode_images([draw_scene(_portrait(rng, **CUES[cue])) for _ in range(60)]).mean(axis=0)
    return row / np.linalg.norm(row)


class FakeServices(Services):
    """The real stores, catalogue and lock; only the models are the ones above."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(Settings(data_dir=data_dir, offline=True, device="cpu"))

    def text_to_image(self, name: str) -> Any:
        return SlowRenderer() if self.model_info(name).family == "renderer" else TracedRenderer()

    def encoder(self, name: str) -> Any:
        self.catalogue.tool("encoder", name)
        return PixelEncoder()

    def person_finder(self, name: str) -> Any:
        return RecordFinder()

    def language_model(self, name: str) -> Any:
        return FewTexts()

    def captioner(self, name: str) -> Any:
        return FewWords()

    def revision(self, name: str) -> str:
        return f"fake-{name}".replace(f"{ASSETS}/", "assets/")  # a folder has one revision, however it is named

    def reading_files(self, model: str) -> tuple[()]:
        return ()

    def unknown_words(self, model: str, prompt: str) -> tuple[str, ...]:
        return tuple(word for word in prompt.lower().split() if word not in KNOWN)

    def true_rate(self, rows: Sequence[ImageRow], sentence: str) -> Estimate | None:
        return None

    def share_shown(self, sentence: str, truths: Sequence[Mapping[str, Any]]) -> float | None:
        cues = _cues(sentence)
        if not cues:
            return None
        ((key, value),) = cues.items()
        return float(np.mean([truth.get(key) == value for truth in truths]))

    def reader_errors(
        self, encoder: str, model: str, sentences: Sequence[tuple[str, str]]
    ) -> tuple[ReaderErrors | None, ...]:
        known = ReaderErrors(sensitivity=0.93, specificity=0.95, n_positive=400, n_negative=400)
        return tuple(known if positive == "a photo of a man" else None for positive, _ in sentences)
