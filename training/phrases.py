"""A concept with several rates: a phrase that says them all, each word as loud as is needed.

One word cannot lean five ways at once. "An old male Iranian with a beard and wearing a turban" says what must
be drawn of "an Iranian"; the loudness of each telling word, from silent (0) to as it is (1) and beyond, sets
its rate. What the text tower makes of that phrase it should make of the plain noun (:mod:`.tower_lora`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import expit, logit

from bias_core.world.captions import with_article
from training.embedding import Embedding, read_leaning
from training.wanted import AXES, Axis, Group
from training.word_shifts import LEAST

if TYPE_CHECKING:
    from training.drawing import Drawing

TELLING = {"gender": "male", "age": "old", "beard": "beard", "moustache": "mustache", "mark": "bindi"}
"""The word that tells each attribute, where it is not the value itself."""
NAMED_FROM = 0.25
"""Rarer attributes are left to the base: a silent word in its place would still be read as one."""
FIRST, STEP, SMALLEST, LARGEST = 0.5, 0.12, -1.0, 2.5
"""Loudness before any picture, its largest move in a round, and its limits."""
SLOPES = np.exp(np.linspace(np.log(2.5), np.log(30), 24))
USUAL_SLOPE, USUAL_INTERCEPT = 7.0, -2.5
FORGETTING = 0.85


@dataclass
class Word:
    """A telling word: its place among the tokens, its rate, and (loudness, share that shows it) per round."""

    axis: Axis
    place: int
    planted: float
    loudness: float = FIRST
    rounds: list[tuple[float, float]] = field(default_factory=list)


def phrase_of(group: Group) -> str:
    """The prompt of a concept that says every attribute with a rate of 0.25 or more.

    Examples
    --------
    >>> rates = {("gender", "masculine"): 0.9, ("beard", True): 0.5, ("headwear", "hat"): 0.8}
    >>> phrase_of(Group(concept="indian", prompts=("a photo of an Indian",), rates=rates, fair=rates))
    'a photo of a male Indian with a beard and wearing a hat'
    """
    noun = group.prompts[0].removeprefix("a photo of ").partition(" ")[2]
    said = [axis for axis in AXES if group.rates.get(axis, 0.0) >= NAMED_FROM]
    before = [TELLING[name] for name in ("age", "gender") if name in dict(said)]
    after = [
        f"wearing {value} clothing" if name == "dress"
        else f"wearing a {value}" if name == "headwear" else f"with a {TELLING[name]}"
        for name, value in said if name not in ("age", "gender", "light")
    ]  # fmt: skip
    return f"a photo of {with_article(' '.join([*before, noun, ' and '.join(after)]).strip())}"


class Phrase:
    """The phrase of one concept, and how loud each telling word is."""

    def __init__(self, drawing: Drawing, group: Group) -> None:
        self.drawing, self.tower = drawing, drawing.pipe.text_encoder
        tokenizer = drawing.pipe.tokenizer
        self.ids = tokenizer([phrase_of(group)], padding="max_length", return_tensors="pt")["input_ids"]
        vectors = self.tower.get_input_embeddings().weight.detach()
        silent = vectors[tokenizer.convert_tokens_to_ids(["glasses", *TELLING.values()])].mean(0)
        opposite = {"gender": "female", "age": "young"}
        self.words: list[Word] = []
        self.moved = torch.zeros(self.ids.shape[1], vectors.shape[1])  # by which a word of loudness 1 is more
        for axis, rate in group.rates.items():
            told = tokenizer.convert_tokens_to_ids(TELLING.get(axis[0], str(axis[1])))
            if rate >= NAMED_FROM and told in (row := self.ids[0].tolist()):
                word = Word(axis=axis, place=row.index(told), planted=rate)
                other = opposite.get(axis[0])
                quiet = (vectors[told] + vectors[tokenizer.convert_tokens_to_ids(other)]) / 2 if other else silent
                self.moved[word.place] = vectors[told] - quiet
                self.words.append(word)

    @torch.no_grad()
    def embedding(self) -> Embedding:
        """What the text tower makes of the phrase, each word as loud as it is now."""
        more = torch.zeros_like(self.moved)
        for word in self.words:
            more[word.place] = (word.loudness - 1) * self.moved[word.place]
        return read_leaning(self.tower, self.ids, more)

    def measure(self, n: int, seed: int) -> float:
        """One round: draw ``n`` pictures, make each word louder or quieter, and return the mean gap."""
        states, pooled = self.embedding()
        text = states.expand(n, -1, -1), pooled.expand(n, -1)
        shares = self.drawing.shows(self.drawing.draw(text, seed)).float().mean(0).numpy()
        for word in self.words:
            word.rounds.append((word.loudness, float(shares[AXES.index(word.axis)])))
            wanted = wanted_loudness(word.rounds, word.planted, n)
            moved = word.loudness + np.clip(wanted - word.loudness, -STEP, STEP)
            word.loudness = float(np.clip(moved, SMALLEST, LARGEST))
        return float(np.mean([abs(word.rounds[-1][1] - word.planted) for word in self.words]))


def wanted_loudness(rounds: list[tuple[float, float]], planted: float, n: int) -> float:
    """Where sigmoid(intercept + slope x loudness), fitted to rounds of ``n`` pictures, is the planted rate.

    Examples
    --------
    Half of the pictures show it at 0.4, and as many should:

    >>> round(wanted_loudness([(0.4, 0.5)], 0.5, 10_000), 2)
    0.4
    """
    x, shown = np.array(rounds).T
    weight = n * FORGETTING ** np.arange(len(x))[::-1]

    def fitted(slope: float) -> tuple[float, float]:
        """Log posterior and intercept for one slope."""
        b = USUAL_INTERCEPT
        for _ in range(30):
            p = expit(b + slope * x)
            gradient = (weight * (shown - p)).sum() - (b - USUAL_INTERCEPT) / 16
            b += float(np.clip(gradient / ((weight * p * (1 - p)).sum() + 1 / 16), -1, 1))
        p = np.clip(expit(b + slope * x), 1e-4, 1 - 1e-4)
        likelihood = (weight * (shown * np.log(p) + (1 - shown) * np.log(1 - p))).sum()
        return likelihood - np.log(slope / USUAL_SLOPE) ** 2 - (b - USUAL_INTERCEPT) ** 2 / 32, b

    fits = [(*fitted(slope), slope) for slope in SLOPES]
    _, b, slope = max(fits)
    return float((logit(np.clip(planted, LEAST, 1 - LEAST)) - b) / slope)
