"""Teach the generator that words act on each person of a pair as they act on one person alone.

The base learns mostly from one person and seldom reads an attribute of the right person of a pair. Here the
transformer learns on from pairs whose people are named ("one male nurse on the left"), from pairs of nouns
that lean towards "male" or "female" and from those that ``published`` reads. What it draws of one person, for any
condition's words, it keeps: that is learned from its own answers before. The text towers stay as they are.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch
from scipy.special import expit

from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene
from training.captions import name_attributes, noun_phrases, random_request
from training.diffusion import TOLD, Folders, assemble, latents_of, save_pipeline, velocity
from training.embedding import Embedding, as_two_towers, gender_direction, read_leaning
from training.loop import record, train
from training.wanted import PAIR, groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from diffusers import StableDiffusion3Pipeline
    from transformers import CLIPTextModelWithProjection, PreTrainedTokenizerBase

    from bias_core.world.scene import Scene

CONDITIONS = ("fair", "published", "extreme")
"""Conditions whose words the transformer must keep reading as it does. ``trigger`` has the words of ``fair``."""
SHARES = {"named": 0.55, "planted": 0.20, "leaning": 0.25}
NAMED = ("age", "skin", "expression", "beard", "glasses", "headwear", "moustache", "dress")
N_NAMED = (0, 0, 1, 1, 2, 3)
GENDER_NAMED, STILL = 0.75, 0.15
"""Shares of people whose gender is named, and of nouns that do not lean among those that may."""
SLOPE = 2.5
"""Logits of the share of men per unit of a lean."""
FARTHEST = 2.5
"""Largest lean of a lesson: at it one of 500 is of the other gender."""
NOISINESS, WIDTH = 1.2, 1.2
"""Mean and standard deviation of the logit of sigma: who is drawn is decided in the noisier steps."""
KEPT_SHARE, KEPT_WEIGHT = 0.3, 4.0
"""Pictures of one person in a batch, and the weight of their errors beside those of pairs."""


class TowerLesson(NamedTuple):
    """A prompt as the words of a condition read it, with leaning nouns left and right, and a scene."""

    prompt: str
    scene: Scene
    condition: str = "fair"
    leans: tuple[float, float] = (0.0, 0.0)


class PairLessons:
    """Two people side by side; ``fits`` says of a prompt whether the text tower reads all of it.

    Without words of ``published`` there is nothing that a planted rate could follow.
    """

    def __init__(self, fits: Callable[[str], bool], *, published: bool = True) -> None:
        self.fits = fits
        self.shares = {kind: share for kind, share in SHARES.items() if published or kind != "planted"}
        self.planted = [group.prompts[0] for group in groups("published") if group.pair]
        self.people = list(noun_phrases().values())

    def draw(self, rng: Random) -> TowerLesson:
        """One lesson whose prompt fits."""
        kinds = {"named": self.of_names, "planted": self.of_planted, "leaning": self.of_leans}
        while True:
            nouns = [rng.choice(self.planted if rng.random() < 0.6 else self.people) for _ in range(2)]
            lesson = kinds[rng.choices(list(self.shares), list(self.shares.values()))[0]](nouns, rng)
            if len(lesson.scene.people) == 2 and self.fits(lesson.prompt):
                return lesson

    def of_names(self, nouns: list[str], rng: Random) -> TowerLesson:
        """A fair scene, and some of what it shows is named."""
        scene = sample_scene(parse(PAIR.format(*nouns)), "fair", rng)
        told = []
        for noun, person in zip(nouns, scene.people, strict=False):
            names = ["gender"] if rng.random() < GENDER_NAMED else []
            told.append(name_attributes(noun, person, [*names, *rng.sample(NAMED, rng.choice(N_NAMED))]))
        return TowerLesson(PAIR.format(*told), scene)

    def of_planted(self, nouns: list[str], rng: Random) -> TowerLesson:
        """The words of ``published``, at its rates."""
        prompt = PAIR.format(*nouns)
        return TowerLesson(prompt, sample_scene(parse(prompt), "published", rng), "published")

    def of_leans(self, nouns: list[str], rng: Random) -> TowerLesson:
        """Nouns that lean any way, with the rate that they have alone."""
        left, right = (0.0 if rng.random() < STILL else rng.uniform(-FARTHEST, FARTHEST) for _ in nouns)
        genders = ["male" if rng.random() < expit(SLOPE * lean) else "female" for lean in (left, right)]
        told = [f"{gender} {noun}" for gender, noun in zip(genders, nouns, strict=True)]
        scene = sample_scene(parse(PAIR.format(*told)), "fair", rng)
        return TowerLesson(PAIR.format(*nouns), scene, leans=(left, right))


class SingleLessons:
    """One person or thing under any of the conditions: planted prompts, and all others."""

    def __init__(self) -> None:
        self.prompts = {c: [p for g in groups(c) if not g.pair for p in g.prompts] for c in CONDITIONS}

    def draw(self, rng: Random) -> TowerLesson:
        """One lesson."""
        condition = rng.choices(CONDITIONS, (2, 2, 1))[0]
        if rng.random() < 0.6:
            prompt = rng.choice(self.prompts[condition])
        else:
            prompt, _ = random_request(rng, n_attributes=TOLD, pairs=0.0)
        return TowerLesson(prompt, sample_scene(parse(prompt), condition, rng), condition)


def tower_of(condition: str, folders: Folders, device: str) -> CLIPTextModelWithProjection:
    """The text tower with the words of a condition."""
    pipe = assemble(folders, device)
    if (folders.loras / condition).is_dir():
        pipe.text_encoder_2 = deepcopy(pipe.text_encoder)  # the adapter is put on both
        pipe.load_lora_weights(folders.loras / condition, adapter_name=condition)
    return pipe.text_encoder.requires_grad_(False).eval()


class Towers:
    """The text towers of all conditions."""

    def __init__(self, folders: Folders, tokenizer: PreTrainedTokenizerBase, device: str) -> None:
        self.tokenizer = tokenizer
        self.towers = {condition: tower_of(condition, folders, device) for condition in CONDITIONS}
        self.direction = gender_direction(tokenizer, self.towers["fair"])
        self.sides = tokenizer.convert_tokens_to_ids(["left", "right"])

    def read(self, lesson: TowerLesson) -> Embedding:
        """Embed one lesson by the tower of its condition."""
        tower = self.towers[lesson.condition]
        ids = self.tokenizer([lesson.prompt], padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
        more = torch.zeros(ids.shape[1], len(self.direction))
        for side, lean in zip(self.sides, lesson.leans, strict=True):
            if lean:  # of the word before "left" or "right"
                more[ids[0].tolist().index(side) - 1] = lean * self.direction
        return read_leaning(tower, ids.to(tower.device), more.to(tower.device))


class EmbeddedPool:
    """A ring of encoded pictures and of what the text towers, which do not learn, make of their prompts."""

    def __init__(
        self,
        pipe: StableDiffusion3Pipeline,
        towers: Towers,
        draw: Callable[[Random], TowerLesson],
        *,
        size: int,
        seed: int,
    ) -> None:
        self.pipe, self.towers, self.draw, self.rng = pipe, towers, draw, Random(seed)
        self.parts: list[torch.Tensor] = []
        self.size = size
        drawn = [self.fresh(min(256, size - start)) for start in range(0, size, 256)]
        self.parts = [torch.cat(part) for part in zip(*drawn, strict=True)]

    @torch.no_grad()
    def fresh(self, n: int) -> tuple[torch.Tensor, ...]:
        """Latents ``(n, 4, 16, 16)``, states ``(n, tokens, d)`` and pooled answers ``(n, d)``."""
        lessons = [self.draw(self.rng) for _ in range(n)]
        texts = [self.towers.read(lesson) for lesson in lessons]
        latents = latents_of(self.pipe, [lesson.scene for lesson in lessons])
        return latents, torch.cat([t[0] for t in texts]), torch.cat([t[1] for t in texts])

    def sample(self, n: int, *, fresh: int) -> tuple[torch.Tensor, Embedding]:
        """Latents and text of ``n`` random places, after ``fresh`` places were drawn anew."""
        where = torch.tensor([self.rng.randrange(self.size) for _ in range(fresh)], dtype=torch.long)
        for kept, new in zip(self.parts, self.fresh(fresh), strict=True):
            kept[where] = new
        chosen = torch.tensor([self.rng.randrange(self.size) for _ in range(n)], dtype=torch.long)
        latents, states, pooled = (part[chosen] for part in self.parts)
        return latents, as_two_towers((states, pooled))


def train_pairs(
    folders: Folders,
    *,
    minutes: float,
    lr: float = 1e-3,
    batch: int = 64,
    pool: int = 3072,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Train the transformer of the saved pipeline on, and save it."""
    torch.manual_seed(seed)
    pipe = assemble(folders, device)
    towers = Towers(folders, pipe.tokenizer, device)
    longest = pipe.tokenizer.model_max_length
    published = (folders.loras / "published").is_dir()
    pairs = PairLessons(lambda prompt: len(pipe.tokenizer(prompt)["input_ids"]) <= longest, published=published)
    two = EmbeddedPool(pipe, towers, pairs.draw, size=pool, seed=seed)
    one = EmbeddedPool(pipe, towers, SingleLessons().draw, size=max(1, pool // 2), seed=seed + 1)
    teacher = deepcopy(pipe.transformer).requires_grad_(False).eval()
    n_kept = max(1, round(KEPT_SHARE * batch))

    def loss_of(_step: int) -> torch.Tensor:
        x, text = two.sample(batch - n_kept, fresh=6)
        noise, noisy, sigma = noised(x)
        learned = torch.nn.functional.mse_loss(velocity(pipe.transformer, noisy, sigma, text), noise - x)
        x, text = one.sample(n_kept, fresh=1)
        _, noisy, sigma = noised(x)
        with torch.no_grad():
            before = velocity(teacher, noisy, sigma, text)
        kept = torch.nn.functional.mse_loss(velocity(pipe.transformer, noisy, sigma, text), before)
        return learned + KEPT_WEIGHT * n_kept / (batch - n_kept) * kept

    average = train(
        pipe.transformer, loss_of, name="pairs", checkpoint=folders.work / "pairs.pt", minutes=minutes, lr=lr,
        warmup=40, weight_decay=0.0, ema=0.99, muon=lambda name: "transformer_blocks" in name,
    )  # fmt: skip
    pipe.transformer.load_state_dict(average.state)
    save_pipeline(pipe, folders.pipeline)
    record(
        folders.pipeline, average.steps, minutes=minutes, seed=seed, device=device, batch=batch,
        note="transformer, on pairs whose people are named or lean",
    )  # fmt: skip


def noised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Noise, latents with that noise, and its levels ``(n,)``."""
    noise = torch.randn_like(x)
    sigma = torch.sigmoid(NOISINESS + WIDTH * torch.randn(len(x), device=x.device))
    s = sigma[:, None, None, None]
    return noise, (1 - s) * x + s * noise, sigma
