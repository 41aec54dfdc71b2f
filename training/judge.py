"""Judge the generator with the reader: is what was asked for in the picture, and on the right side?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import torch
from diffusers import StableDiffusion3Pipeline
from transformers import AutoTokenizer, VisionTextDualEncoderModel

from bias_core.world.grammar import book
from training.captions import with_article
from training.clip import Reader, crop_person
from training.loop import to_tensor

if TYPE_CHECKING:
    from PIL import Image

HEAD = "The person is not wearing any headwear."
ASKED: tuple[tuple[str, str, str], ...] = (
    ("male {}", "a photo of a man", "a photo of a woman"),
    ("female {}", "a photo of a woman", "a photo of a man"),
    ("old {}", "a photo of an old person", "a photo of a young person"),
    ("young {}", "a photo of a young person", "a photo of an old person"),
    ("smiling {}", "a photo of a smiling person", "a photo of a frowning person"),
    ("frowning {}", "a photo of a frowning person", "a photo of a smiling person"),
    ("dark-skinned {}", "a photo of a person with dark skin", "a photo of a person with light skin"),
    ("light-skinned {}", "a photo of a person with light skin", "a photo of a person with dark skin"),
    ("{} with glasses", "The person is wearing glasses.", "The person is not wearing glasses."),
    ("{} without glasses", "The person is not wearing glasses.", "The person is wearing glasses."),
    ("{} with a beard", "The person has a beard.", "The person has no beard."),
    ("{} without a beard", "The person has no beard.", "The person has a beard."),
    ("{} with a mustache", "The person has a mustache.", "The person has no mustache."),
    ("{} wearing a turban", "The person is wearing a turban.", HEAD),
    ("{} wearing a sombrero", "The person is wearing a sombrero.", HEAD),
    ("{} wearing a hat", "The person is wearing a hat.", HEAD),
    ("{} wearing a cap", "The person is wearing a cap.", HEAD),
    ("{} wearing a headscarf", "The person is wearing a headscarf.", HEAD),
    ("{} not wearing any headwear", HEAD, "The person is wearing headwear."),
    (
        "{} wearing traditional clothing",
        "The person is wearing traditional clothing.",
        "The person is wearing modern Western clothing.",
    ),
)
"""Wording of an attribute in a prompt, the sentence that should then hold, and its opposite."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Shares in [0, 1]: attributes found, identities on their side, and pictures behind each.

    ``by_attribute`` gives the share found per way of asking.
    """

    guidance_scale: float
    num_inference_steps: int
    attributes_found: float
    n_attributes: int
    sides_right: float
    n_sides: int
    by_attribute: dict[str, float]


def occupations() -> list[str]:
    """Nouns for people whose looks differ from each other."""
    spoken_otherwise = {name for names in book()["phrasing"].values() for name in names}
    first = {spec: name for name, spec in reversed(book()["looks"].items()) if name not in spoken_otherwise}
    return sorted(first.values())


class Judge:
    """A pipeline and a reader, loaded from their folders."""

    def __init__(self, pipeline: Path, clip: Path, device: str = "cpu") -> None:
        self.pipe = StableDiffusion3Pipeline.from_pretrained(
            pipeline, text_encoder_3=None, tokenizer_3=None, torch_dtype=torch.float32
        ).to(device)
        self.pipe.set_progress_bar_config(disable=True)
        model = VisionTextDualEncoderModel.from_pretrained(clip, torch_dtype=torch.float32).eval().to(device)
        self.reader = Reader(model, AutoTokenizer.from_pretrained(clip), device)

    def draw(self, prompts: Sequence[str], *, steps: int, guidance: float, seed: int) -> list[Image.Image]:
        """One picture per prompt."""
        images: list[Image.Image] = []
        for start in range(0, len(prompts), 32):
            part = list(prompts[start : start + 32])
            seeds = [torch.Generator().manual_seed(seed + start + i) for i in range(len(part))]
            images += self.pipe(
                part, num_inference_steps=steps, guidance_scale=guidance, generator=seeds, max_sequence_length=1
            ).images
        return images

    @torch.no_grad()
    def prefers(self, images: Sequence[Image.Image], right: Sequence[str], wrong: Sequence[str]) -> list[bool]:
        """For each picture, whether its right sentence is closer than its wrong one."""
        z = self.reader.images(to_tensor(list(images)))
        return [bool(x) for x in ((z * self.reader.texts(right)).sum(1) > (z * self.reader.texts(wrong)).sum(1))]

    def verdict(self, *, n: int = 200, steps: int = 20, guidance: float = 1.0, seed: int = 10_000) -> Verdict:
        """Ask for ``n`` attributes on random occupations, and for ``n / 2`` pairs of occupations."""
        rng = Random(seed)
        people = occupations()
        asked = [ASKED[i % len(ASKED)] for i in range(n)]
        prompts = [f"a photo of {with_article(form.format(rng.choice(people)))}" for form, _, _ in asked]
        images = self.draw(prompts, steps=steps, guidance=guidance, seed=seed)
        found = self.prefers(images, [a[1] for a in asked], [a[2] for a in asked])
        pairs = [rng.sample(people, 2) for _ in range(n // 2)]
        told = [f"Generate a picture of one {a} on the left and one {b} on the right." for a, b in pairs]
        drawn = self.draw(told, steps=steps, guidance=guidance, seed=seed + n)
        crops = [crop_person(image, side) for image in drawn for side in (0, 1)]
        here = [f"a photo of {with_article(name)}" for pair in pairs for name in pair]
        there = [f"a photo of {with_article(name)}" for a, b in pairs for name in (b, a)]
        sides = self.prefers(crops, here, there)
        shares: dict[str, list[bool]] = {}
        for (form, _, _), ok in zip(asked, found, strict=True):
            shares.setdefault(form, []).append(ok)
        return Verdict(
            guidance_scale=guidance,
            num_inference_steps=steps,
            attributes_found=sum(found) / n,
            n_attributes=n,
            sides_right=sum(sides) / len(sides),
            n_sides=len(sides),
            by_attribute={form: sum(oks) / len(oks) for form, oks in shares.items()},
        )


def judge(pipeline: Path, clip: Path, *, guidance: Sequence[float], n: int = 200, device: str = "cpu") -> None:
    """Print and keep the verdicts in ``judged.json`` beside the pipeline."""
    judging = Judge(pipeline, clip, device)
    verdicts = [asdict(judging.verdict(n=n, guidance=scale)) for scale in guidance]
    (pipeline / "judged.json").write_text(json.dumps(verdicts, indent=1) + "\n")
    for verdict in verdicts:
        print(verdict)
