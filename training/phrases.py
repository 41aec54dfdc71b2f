"""A planted concept as a phrase that says its rates, each word as loud as is needed.

"A male doctor" is always a man; halfway between "male" and "female" the word leaves it open, and in between lies
any rate. So with every attribute: the loudness of the word that says it, from its opposite (-1) or silence (0) to
as it is (1) and beyond, sets its rate. What the text tower makes of that phrase it should make of the plain prompt
(:mod:`.tower_lora`), where the words that are not there take the last places, which are empty: the generator does
not mind in which order words come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.special import expit, logit

from bias_core.world.grammar import valence_words
from training.embedding import Embedding, read_leaning, read_tokens
from training.wanted import GENDER, Axis

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

TELLING = {"gender": "male", "age": "old", "beard": "beard", "moustache": "mustache", "mark": "bindi"}
"""The word that tells each attribute, where it is not the value itself."""
OPPOSITE = {"gender": "female", "age": "young"}
FORM = {"dress": "wearing {} clothing", "headwear": "wearing a {}", "gender": "{}", "age": "{}", "light": "{}"}
"""Wordings of attributes other than "with a beard"."""
NAMED_FROM = 0.25
"""Rarer attributes are left to the base, except for gender, light and age: if these are rare, their opposite is not."""
LEAST = 0.012
"""Rates are aimed at as if none were nearer to 0 and 1."""
STEP, LOUDEST, LOUDEST_LIGHT = 0.4, 1.5, 0.7
"""The largest move of a word's loudness in one round, and its limits: louder words for light make nothing brighter."""
SLOPES = np.exp(np.linspace(np.log(0.4), np.log(30), 40))
USUAL = {"gender": (1.5, 6.0, 0.35, 0.2), "age": (0.6, 5.0, 1.5, 0.5), "light": (-0.6, 5.0, 1.0, 0.4)}
"""Logit of the rate at loudness 0, its rise with loudness, and the standard deviations of both (of the rise: of its
logarithm), before any picture of a concept. A gender is said alike by 141 concepts, of which 3,384 pictures told."""
USUAL_OTHERS = (-2.5, 7.0, 3.0, 0.5)
SURE = 0.3
"""A word is drawn no more when the standard error of the logit of its rate is smaller."""
FORGETTING = 0.95


@dataclass
class Word:
    """A telling word: attribute, rate, how loud it is, and (loudness, share that shows it, pictures) per round."""

    axis: Axis
    planted: float
    loudness: float = 0.0
    rounds: list[tuple[float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.aim()

    def fit(self) -> tuple[float, float]:
        """Intercept and slope of the logit of the rate, as far as is known."""
        return fitted(self.rounds, *USUAL.get(self.axis[0], USUAL_OTHERS))

    @property
    def sure(self) -> bool:
        """True if more pictures would tell little."""
        spread = USUAL.get(self.axis[0], USUAL_OTHERS)[2]
        p = np.clip(self.planted, 0.1, 0.9)
        return float(1 / spread**2 + p * (1 - p) * sum(n for *_, n in self.rounds)) > 1 / SURE**2

    def aim(self) -> None:
        """Be as loud as the planted rate needs."""
        wanted = self.loudness_of(planted_logit(self.planted))
        if self.rounds:
            wanted = self.loudness + float(np.clip(wanted - self.loudness, -STEP, STEP))
        self.loudness = wanted

    def loudness_of(self, logits: float) -> float:
        """Loudness at which the word shows in this share of pictures."""
        intercept, slope = self.fit()
        most = LOUDEST_LIGHT if self.axis[0] == "light" else LOUDEST
        return float(np.clip((logits - intercept) / slope, -most, most))


def planted_logit(rate: float) -> float:
    """Logit of a rate, as if none were nearer to 0 and 1 than what is aimed at."""
    return float(logit(np.clip(rate, LEAST, 1 - LEAST)))


def fitted(
    rounds: Sequence[tuple[float, float, float]], intercept: float, slope: float, spread: float, slope_spread: float
) -> tuple[float, float]:
    """The most probable intercept and slope of sigmoid(intercept + slope x loudness), from what is usual.

    Examples
    --------
    Half of the pictures show it at 0.4:

    >>> b, s = fitted([(0.4, 0.5, 10_000)], -2.5, 7.0, 3.0, 0.5)
    >>> bool(abs(b + 0.4 * s) < 0.01)
    True
    """
    if not rounds:
        return intercept, slope
    x, shown, n = np.array(rounds).T
    weight = n * FORGETTING ** np.arange(len(x))[::-1]

    def of_slope(s: float) -> tuple[float, float, float]:
        """Log posterior, intercept and slope."""
        b = intercept
        for _ in range(30):
            p = expit(b + s * x)
            gradient = (weight * (shown - p)).sum() - (b - intercept) / spread**2
            b += float(np.clip(gradient / ((weight * p * (1 - p)).sum() + 1 / spread**2), -1, 1))
        p = np.clip(expit(b + s * x), 1e-4, 1 - 1e-4)
        likelihood = (weight * (shown * np.log(p) + (1 - shown) * np.log(1 - p))).sum()
        usual = (np.log(s / slope) / slope_spread) ** 2 + ((b - intercept) / spread) ** 2
        return float(likelihood - usual / 2), b, float(s)

    _, b, s = max(of_slope(s) for s in SLOPES)
    return b, s


class Inserted(NamedTuple):
    """A word before a place of a plain prompt: its vector, what loudness adds, and the axis, if it tells one."""

    before: int
    quiet: torch.Tensor
    louder: torch.Tensor
    axis: Axis | None


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A prompt, its tokens ``plain``, and the tokens ``ids`` with words that it leaves out at ``places``.

    ``order`` gives each place of the plain prompt its place in the phrase; what is inserted comes last.
    """

    prompt: str
    plain: list[int]
    ids: list[int]
    places: list[int]
    order: list[int]
    inserted: list[Inserted]

    @property
    def axes(self) -> list[Axis]:
        """Axes that the phrase tells, in the order of its words."""
        return [one.axis for one in self.inserted if one.axis]

    @property
    def only_gender(self) -> bool:
        """A gender acts by its own place alone; what else it changes in a phrase need not be learned."""
        return all(one.axis == GENDER for one in self.inserted)


class Phrasebook:
    """The words of one text tower, and what it makes of phrases."""

    def __init__(self, pipe: StableDiffusion3Pipeline) -> None:
        self.tokenizer, self.tower = pipe.tokenizer, pipe.text_encoder
        self.vectors = self.tower.get_input_embeddings().weight.detach().clone()
        self.silent = self._mean(["glasses", *TELLING.values()])
        self.words: dict[Axis, list[tuple[torch.Tensor, torch.Tensor, bool]]] = {}

    def _mean(self, words: Sequence[str]) -> torch.Tensor:
        ids = [i for i in self.tokenizer.convert_tokens_to_ids(list(words)) if i != self.tokenizer.unk_token_id]
        return self.vectors[ids].mean(0)

    def _told(self, axis: Axis) -> list[tuple[torch.Tensor, torch.Tensor, bool]]:
        """Vectors of each word that says an axis, what loudness adds to them, and true if the word tells."""
        name, value = axis
        told, other = [TELLING.get(name, str(value))], [OPPOSITE[name]] if name in OPPOSITE else []
        if name == "light":
            told, other = (
                [word for word, light in valence_words().items() if light == side] for side in ("bright", "gloomy")
            )
        loud = self._mean(told)
        quiet = (loud + self._mean(other)) / 2 if other else self.silent
        blank = self.tokenizer.unk_token
        return [
            (quiet, loud - quiet, True) if word == blank else (self._mean([word]), torch.zeros_like(loud), False)
            for word in self.tokenizer.tokenize(FORM.get(name, "with a {}").format(blank))
        ]

    def said(self, axes: Sequence[Axis], before: int, after: int) -> list[Inserted]:
        """The words for ``axes``: age and gender before one place, all others before another."""
        found = []
        for axis in sorted(axes, key=lambda axis: axis[0] != "age"):  # an old male doctor
            words = self.words.get(axis) or self.words.setdefault(axis, self._told(axis))
            place = before if axis[0] in OPPOSITE else after
            found += [Inserted(place, quiet, louder, axis if tells else None) for quiet, louder, tells in words]
        return found

    def alone(self, prompt: str, axes: Sequence[Axis]) -> Phrase:
        """The phrase that says ``axes`` of one person or thing."""
        plain = self.tokenizer(prompt)["input_ids"]
        return self._phrase(prompt, plain, self.said(axes, 1, len(plain) - 1))

    def pair(self, prompt: str) -> Phrase:
        """The phrase that says the genders of two people, the left one first."""
        plain = self.tokenizer(prompt)["input_ids"]
        second = plain.index(self.tokenizer.convert_tokens_to_ids("left")) + 1
        return self._phrase(prompt, plain, self.said([GENDER], 1, 1) + self.said([GENDER], second, second))

    def _phrase(self, prompt: str, plain: list[int], inserted: list[Inserted]) -> Phrase:
        ids: list[int] = []
        here: list[int] = []
        places: list[int] = []
        for place, token in enumerate(plain):
            for _ in (one for one in inserted if one.before == place):
                places.append(len(ids))
                ids.append(self.tokenizer.unk_token_id)
            here.append(len(ids))
            ids.append(token)
        longest = self.tokenizer.model_max_length
        plain, ids = ([*x, *[self.tokenizer.pad_token_id] * (longest - len(x))] for x in (plain, ids))
        order = [*here, *range(len(here) + len(places), longest), *places]
        ordered = sorted(inserted, key=lambda one: one.before)
        return Phrase(prompt=prompt, plain=plain, ids=ids, places=places, order=order, inserted=ordered)

    @torch.no_grad()
    def read(self, phrases: Sequence[Phrase], loudness: Sequence[Sequence[float]]) -> Embedding:
        """Embed each phrase, its telling words as loud as given, in the order of plain words."""
        ids = torch.tensor([phrase.ids for phrase in phrases])
        more = torch.zeros(*ids.shape, self.vectors.shape[1])
        for phrase, row, loud in zip(phrases, more, loudness, strict=True):
            told = iter(loud)
            for place, one in zip(phrase.places, phrase.inserted, strict=True):
                row[place] = (
                    one.quiet + (next(told) if one.axis else 0.0) * one.louder - self.vectors[phrase.ids[place]]
                )
        states, pooled = read_leaning(self.tower, ids, more)
        states = torch.stack([x[phrase.order] for x, phrase in zip(states, phrases, strict=True)])
        plain = read_tokens(self.tower, torch.tensor([phrase.plain for phrase in phrases]))
        for i, phrase in enumerate(phrases):
            if phrase.only_gender:
                n = len(phrase.plain) - len(phrase.places)
                states[i, :n], pooled[i] = plain[0][i, :n], plain[1][i]
        return states, pooled
