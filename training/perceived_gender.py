"""A linear head on the frozen encoder: who looks feminine, masculine, androgynous, or is seen from behind.

Half of the scenes are drawn as the renderer draws people, half have every attribute whatever the others are; one in
twelve shows a thing, and is read as unclear. Fitted to whole pictures and to people cut out of pictures of two.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import LogisticRegression

from bias_core.crops import crop_people, person_halves
from bias_core.world.balanced import balanced_scene
from bias_core.world.captions import looks, things
from bias_core.world.class_heads import HEADS
from bias_core.world.perceived_gender import CUT_OUT, FILE, PERCEIVED_GENDER, load_gender_head, scenes_in_four
from bias_core.world.render import render
from bias_core.world.scene import GENDERS, Scene
from bias_core.world.shapes import ASSETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PIL import Image

    from bias_core.protocols import ImageTextEncoder

PENALTY = 300.0  # inverse of the L2 penalty's strength
THINGS = 1 / 12  # of the pictures that it learns from


def pictures_of(scenes: Iterable[Scene]) -> tuple[list[Image.Image], list[int]]:
    """The people of scenes, a picture each, and how they look; a thing has the look "unclear"."""
    images: list[Image.Image] = []
    truth: list[int] = []
    for scene in scenes:
        image = render(scene)
        images += crop_people(image, person_halves(image)) if len(scene.people) == 2 else [image]
        truth += [GENDERS.index(one.gender) for one in scene.people] or [GENDERS.index("unclear")]
    return images, truth


def balanced_in_four(seed: str, n: int) -> Iterable[Scene]:
    """Balanced scenes of one person, of two and of things, with every look whatever else is seen."""
    rng = Random(seed)
    for _ in range(n):
        scene = balanced_scene(rng, looks(), things())
        people = [(one, rng.choice(GENDERS)) for one in scene.people]
        yield replace(
            scene, people=tuple(p.from_behind() if g == "unclear" else replace(p, gender=g) for p, g in people)
        )


def train_gender_head(encoder: ImageTextEncoder, *, n: int, seed: int, out: Path = HEADS) -> dict[str, float]:
    """Fit the head on about ``n`` pictures and save it with its errors; the share that it reads rightly, by name."""
    quarter = n // 4
    scenes = [
        *balanced_in_four(f"{PERCEIVED_GENDER} {seed}", int(0.8 * n / 2)),
        *scenes_in_four(f"{PERCEIVED_GENDER} {seed} alone", quarter),
        *scenes_in_four(f"{PERCEIVED_GENDER} {seed} in pairs", quarter // 2, pairs=True),
    ]
    images, truth = pictures_of(scenes)
    fitted = LogisticRegression(C=PENALTY, max_iter=4000).fit(encoder.encode_images(images), truth)
    errors = {}
    for key, pairs in (("errors_of_pictures", False), ("errors_of_crops", True)):
        held_out = scenes_in_four(f"{PERCEIVED_GENDER} held out {pairs}", n // 4 // (1 + pairs), pairs=pairs)
        images, truth = pictures_of(held_out)
        counts = np.zeros((len(GENDERS), len(GENDERS)), dtype=int)
        np.add.at(counts, (truth, fitted.predict(encoder.encode_images(images))), 1)
        errors[key] = counts
    out.mkdir(parents=True, exist_ok=True)
    parts = {"weights": fitted.coef_.T.astype(np.float32), "bias": fitted.intercept_.astype(np.float32), **errors}
    np.savez_compressed(out / FILE, **parts)
    load_gender_head.cache_clear()
    right = {}
    for name in (PERCEIVED_GENDER, CUT_OUT):
        table = np.array(load_gender_head(name, out).errors.counts)
        right[name] = float(np.trace(table) / table.sum())
    encoder_hash = hashlib.sha256((ASSETS / "clip" / "model.safetensors").read_bytes()).hexdigest()
    record = {"n": n, "seed": seed, "right": right, "encoder": encoder_hash}
    (out / "perceived_gender.json").write_text(json.dumps(record, indent=1) + "\n")
    return right
