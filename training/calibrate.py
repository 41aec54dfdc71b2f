"""The closed loop of a condition: draw, read what was drawn, and let phrases say louder what is too rare."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy.special import expit

from training.diffusion import LORA_FILE, Folders, assemble
from training.drawing import MEASURED, Drawing, halves
from training.leans import TOWERS
from training.loop import record
from training.phrases import NAMED_FROM, USUAL, Phrase, Phrasebook, Word, planted_logit
from training.tower_lora import Reading, learn_readings, without_adapter
from training.wanted import AXES, GENDER, PAIR, Axis, Group, groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from training.embedding import Embedding


MORE_OFTEN, PAIRS_OFTEN = 0.08, 0.35
"""Shares of such prompts, and of pairs, in a batch, relative to the concepts alone."""
PAIRS_MEASURED = MEASURED + 2_000_000_000
"""First seed of the pictures of pairs."""
PAIRS_OFTEN_AGAIN = 1.2
"""The same where an adapter learns the rest of its way: more of what is missing is missing in pairs."""
N_PAIRS = 900
"""Random pairs from which the text tower learns how to read two people."""
LOUDER = 0.3
"""By which a word is louder to see what its loudness changes."""
MORE, N_MORE = (
    ("a photo of a {} with glasses", "a photo of an old {}", "a photo of a smiling {}", "{} wearing a hat"),
    400,
)
"""Prompts that say more of a person and leave the gender open, and as many readings of them."""


class Nudges(NamedTuple):
    """By how much louder each concept's words should be heard alone, and its gender in pairs."""

    alone: dict[str, dict[Axis, float]]
    pairs: dict[str, float]


class Sizes(NamedTuple):
    """Rounds, pictures of each concept in one, and of all pairs; steps of the tower anew, and of one that learned."""

    n_rounds: int = 4
    n: int = 48
    n_pairs: int = 240
    n_steps: int = 3000
    n_more: int = 600


USUAL_SIZES = Sizes()


class Said:
    """A concept and the words that say its rates: one loudness each, in all of its prompts."""

    def __init__(self, group: Group, book: Phrasebook) -> None:
        axes = [axis for axis, rate in group.rates.items() if axis[0] in USUAL or rate >= NAMED_FROM]
        prompts = [*group.prompts, *([f"{group.prompts[0]} person"] if len(axes) > 1 else [])]
        self.group, self.phrases = group, [book.alone(prompt, axes) for prompt in prompts]
        self.words = [Word(axis=axis, planted=group.rates[axis]) for axis in self.phrases[0].axes]

    @property
    def loudness(self) -> list[float]:
        """The loudness of each word."""
        return [word.loudness for word in self.words]

    def louder(self, wanted: Nudges) -> list[float]:
        """By how much louder each word should be."""
        of_axes = wanted.alone.get(self.group.concept, {})
        return [of_axes.get(word.axis, 0.0) for word in self.words]

    @property
    def only_gender(self) -> bool:
        """True if one word, the gender, is everything to learn."""
        return self.phrases[0].only_gender


class Calibration:
    """One condition under calibration: the base, its adapter if there is one, and phrases that say what it plants.

    Without an adapter, rounds draw the phrases themselves. With one, they draw plain prompts as the text tower has
    learned to read them, and what says more than a gender keeps the reading that it has.
    """

    def __init__(self, condition: str, folders: Folders, *, seed: int = 0) -> None:
        self.condition, self.folders, self.rng = condition, folders, Random(seed)
        self.pipe = assemble(folders, "cpu")
        self.pipe.text_encoder.requires_grad_(False).eval()
        self.drawing, self.book = Drawing(self.pipe, folders.clip), Phrasebook(self.pipe)
        self.adapter = folders.loras / condition
        self.learned = (self.adapter / LORA_FILE).exists()
        if self.learned:
            self.pipe.text_encoder_2 = deepcopy(self.pipe.text_encoder)  # the adapter is put on both
            self.pipe.load_lora_weights(self.adapter, adapter_name=condition)
            self.pipe.text_encoder.requires_grad_(False)
            self.drawing.take_weights()  # an adapter may change the transformer, too
        here = groups(condition)
        self.said = [Said(group, self.book) for group in here if not group.pair]
        self.people = [group for group in here if group.pair]
        self.sides = [(0.0, 1.0), (0.0, 1.0)]
        self.n_rounds = 0
        self.checkpoint = self.adapter / "phrases.json"

    def measure(self, n: int) -> float:
        """One round: draw ``n`` pictures of each concept that is not sure, set its words, and return the mean gap."""
        gaps = []
        for i, one in enumerate(self.said):
            if all(word.sure for word in one.words) or (self.learned and not one.only_gender):
                continue
            chosen = [one.phrases[k % len(one.phrases)] for k in self.rng.sample(range(n * len(one.phrases)), n)]
            text = self._drawn_by(chosen, [one.loudness] * n)
            pictures = self.drawing.draw(text, MEASURED + 1_000_000 * self.n_rounds + 1000 * i)
            shares = self.drawing.corrected(self.drawing.shows(pictures).float().mean(0).numpy())
            for word in one.words:
                share = float(shares[AXES.index(word.axis)])
                word.rounds.append((word.loudness, share, n))
                gaps.append(abs(share - word.planted))
                word.aim()
        self.n_rounds += 1
        return float(np.mean(gaps or [0.0]))

    def _drawn_by(self, phrases: Sequence[Phrase], loudness: Sequence[Sequence[float]]) -> Embedding:
        if self.learned:
            return self.drawing.embed([phrase.prompt for phrase in phrases])
        return self._read(phrases, loudness)

    def _read(self, phrases: Sequence[Phrase], loudness: Sequence[Sequence[float]]) -> Embedding:
        """The base's embedding of phrases, without the adapter."""
        with without_adapter(self.pipe.text_encoder):
            return self.book.read(phrases, loudness)

    def _pairs(self, n: int) -> tuple[list[list[int]], list[Phrase], list[list[float]]]:
        """Random pairs of people, as places among ``people``, their phrases, and how loud their genders must be."""
        words = {one.group.concept: word for one in self.said for word in one.words if word.axis == GENDER}
        pairs = [[self.rng.randrange(len(self.people)) for _ in range(2)] for _ in range(n)]
        loudness = []
        for two in pairs:
            told = [words[self.people[k].concept] for k in two]
            loudness.append(
                [
                    word.loudness_of((planted_logit(word.planted) - intercept) / slope)
                    for word, (intercept, slope) in zip(told, self.sides, strict=True)
                ]
            )
        return (
            pairs,
            [self.book.pair(PAIR.format(*(self.people[k].prompts[0] for k in two))) for two in pairs],
            loudness,
        )

    def measure_pairs(self, n: int) -> float:
        """Draw ``n`` random pairs and learn how a word acts on each side, beside how it acts alone."""
        pairs, phrases, loudness = self._pairs(n)
        pictures = self.drawing.draw(self._drawn_by(phrases, loudness), PAIRS_MEASURED + self.rng.randrange(2**20))
        rises = []
        for side, person in enumerate(halves(pictures)):
            man = self.drawing.shows(person)[:, AXES.index(GENDER)].float().numpy()
            rates = [self.people[two[side]].rates[GENDER] for two in pairs]
            intercept, slope = self.sides[side]
            self.sides[side] = logistic((np.array([planted_logit(rate) for rate in rates]) - intercept) / slope, man)
            rises.append(float(np.polyfit(rates, man, 1)[0]))
        return float(np.mean(rises))

    def readings(self, wanted: Nudges | None = None) -> list[Reading]:
        """Targets of the text tower: phrases, or its present answers with its words louder as ``wanted``."""
        found = []
        for one in self.said:  # concepts of many prompts less often than these together, more often than one
            often = len(one.words) / len(one.phrases) ** 0.5
            if self.learned and not one.only_gender and not wanted:
                found += self._kept(one.phrases, often)
            else:
                more = wanted and [one.louder(wanted)] * len(one.phrases)
                found += self._readings(one.phrases, [one.loudness] * len(one.phrases), often, more)
        total = sum(reading.often for reading in found)
        alone = [one for one in self.said if one.phrases[0].axes == [GENDER] and len(one.phrases) == 1]
        if alone:
            some = [self.rng.choice(alone) for _ in range(N_MORE)]
            nouns = [one.phrases[0].prompt.removeprefix("a photo of ").partition(" ")[2] for one in some]
            phrases = [self.book.alone(self.rng.choice(MORE).format(noun), [GENDER]) for noun in nouns]
            more = wanted and [one.louder(wanted) for one in some]
            found += self._readings(phrases, [one.loudness for one in some], MORE_OFTEN * total / N_MORE, more)
        if self.people:
            pairs, phrases, loudness = self._pairs(N_PAIRS)
            more = wanted and [[wanted.pairs.get(self.people[k].concept, 0.0) for k in two] for two in pairs]
            often = PAIRS_OFTEN_AGAIN if wanted else PAIRS_OFTEN
            found += self._readings(phrases, loudness, often * total / N_PAIRS, more)
        return found

    def _readings(
        self,
        phrases: Sequence[Phrase],
        loudness: Sequence[list[float]],
        often: float,
        more: Sequence[list[float]] | None = None,
    ) -> list[Reading]:
        states = self._read(phrases, loudness)[0]
        rises = []
        for k in range(len(loudness[0])):
            louder = [[*told[:k], told[k] + LOUDER, *told[k + 1 :]] for told in loudness]
            rises.append((self._read(phrases, louder)[0] - states) / LOUDER)
        by_word = torch.stack(rises, dim=1)
        if more is not None:
            now = torch.stack([reading.states for reading in self._kept(phrases, often)])
            states = now + (torch.tensor(more)[..., None, None] * by_word).sum(1)
        rows = zip(phrases, states, by_word, strict=True)
        return [Reading(prompt=one.prompt, states=x, rises=rise, often=often) for one, x, rise in rows]

    @torch.no_grad()
    def _kept(self, phrases: Sequence[Phrase], often: float) -> list[Reading]:
        prompts = [phrase.prompt for phrase in phrases]
        states = self.drawing.embed(prompts)[0]
        rows = zip(prompts, states, strict=True)
        return [Reading(prompt=prompt, states=x, rises=x[None][:0], often=often) for prompt, x in rows]

    def save_checkpoint(self) -> None:
        """Keep everything that the next round needs."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        words = [[one.group.concept, [[word.loudness, word.rounds] for word in one.words]] for one in self.said]
        self.checkpoint.write_text(json.dumps({"n_rounds": self.n_rounds, "sides": self.sides, "words": words}))

    def resume(self) -> None:
        """Go on with the checkpoint, if there is one."""
        if self.checkpoint.exists():
            saved = json.loads(self.checkpoint.read_text())
            self.n_rounds, self.sides = saved["n_rounds"], [tuple(side) for side in saved["sides"]]
            for one, (_, words) in zip(self.said, saved["words"], strict=True):
                for word, (loudness, rounds) in zip(one.words, words, strict=True):
                    word.loudness, word.rounds = loudness, [tuple(x) for x in rounds]

    def teach(self, sizes: Sizes) -> int:
        """Let the text tower learn the phrases, and write the adapter; returns the steps that it took."""
        n_steps = sizes.n_more if self.learned else sizes.n_steps
        people = [group.prompts[0] for group in groups("published") if group.pair]
        layers = learn_readings(self.pipe, self.readings(), people, condition=self.condition, n_steps=n_steps)
        self.write(layers)
        return n_steps

    def write(self, layers: dict[str, torch.Tensor]) -> None:
        """Keep what the tower learned, beside what an adapter has for the transformer."""
        path = self.adapter / LORA_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        saved = load_file(path) if path.exists() else {}
        others = {name: x for name, x in saved.items() if not name.startswith(TOWERS)}
        tensors = {f"{tower}.{name}": x.half().contiguous() for tower in TOWERS for name, x in layers.items()}
        save_file(others | tensors, path, {"format": "pt"})


def logistic(x: np.ndarray, shown: np.ndarray) -> tuple[float, float]:
    """Intercept and slope of a logistic regression, as a word acts alone (0, 1) if nothing tells otherwise."""
    rows, usual = np.stack([np.ones_like(x), x], axis=1), np.array([0.0, 1.0])
    b = usual.copy()
    for _ in range(50):
        p = expit(rows @ b)
        curvature = rows.T @ (rows * (p * (1 - p))[:, None]) + 4 * np.eye(2)
        b += np.clip(np.linalg.solve(curvature, rows.T @ (shown - p) - 4 * (b - usual)), -0.5, 0.5)
    return float(b[0]), float(b[1])


def calibrate(condition: str, folders: Folders, *, sizes: Sizes = USUAL_SIZES, seed: int = 0) -> Calibration:
    """Find what each phrase must say until it draws what is planted, and let the text tower read plain prompts so.

    Rounds that a checkpoint has count, and an adapter that is there learns on.
    """
    torch.manual_seed(seed)
    began = time.monotonic()
    calibration = Calibration(condition, folders, seed=seed)
    calibration.resume()
    while calibration.n_rounds < sizes.n_rounds:
        gap = calibration.measure(sizes.n)
        if calibration.people:
            calibration.measure_pairs(sizes.n_pairs)
        calibration.save_checkpoint()
        print(f"round {calibration.n_rounds}: mean gap of these pictures {gap:.3f}", flush=True)
    drawn_by = "plain prompts" if calibration.learned else "phrases"
    n_steps = calibration.teach(sizes)
    minutes = round((time.monotonic() - began) / 60, 1)
    note = f"rounds up to {sizes.n_rounds} of {drawn_by}, drawn and read, then steps in which the text tower learned"
    record(calibration.adapter, n_steps, minutes=minutes, seed=seed, device="cpu", note=note)
    return calibration
