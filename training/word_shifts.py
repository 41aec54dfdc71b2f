"""A condition as shifts of words: nouns lean until the generator draws what is planted for them.

To the token embedding of a noun is added a part of what tells the words for an attribute from the words for
its absence, such as "male" from "female". The rate of the attribute rises smoothly with it, the offset:

    e'(word) = e(word) + sum_a offset(word, a) direction(a)

A prompt that names the attribute ("a female doctor") still draws it, and all other words stay as they are. As
a LoRA of the token embedding this is exact. The offsets come from pictures: their rate follows
sigmoid(intercept + SLOPE x offset), and the intercept of each concept is fitted to all that was drawn of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import expit, logit

from bias_core.world.lexicon import valence_words
from training.wanted import AXES, Group

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NAMING: dict[tuple[str, object], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("gender", "masculine"): (("male",), ("female",)),
    ("age", "old"): (("old",), ("young",)),
    ("beard", True): (("beard",), ("glasses", "without")),
    ("moustache", True): (("mustache",), ()),
    ("headwear", "turban"): (("turban",), ()),
    ("headwear", "sombrero"): (("sombrero",), ()),
    ("headwear", "hat"): (("hat",), ()),
    ("dress", "traditional"): (("traditional", "clothing", "wearing"), ()),
    ("dress", "embroidered"): (("embroidered", "clothing", "wearing"), ()),
    ("dress", "vibrant"): (("vibrant",), ()),
    ("mark", True): (("bindi",), ()),
}
"""Words that bring an attribute, and words that lead away from it; the lexicon has those of the light."""
GENERIC = (
    "person", "man", "woman", "boy", "girl", "with", "studying", "focusing", "light", "dark", "skinned",
)  # fmt: skip
"""Words that stand in many prompts and therefore never lean."""
SLOPE = 2.5
"""Logits of a rate per unit of an offset; what is wrong with it goes into the intercepts."""
UNKNOWN, CALIBRATED = 2.0, 0.8
"""Standard deviations in logits of a rate about the usual one, before any picture and after calibration."""
FORGETTING = 0.9
"""Weight of a round's pictures beside those of the next: words that lean together change each other."""
LEAST, LARGEST, STEP = 0.012, 6.0, 2.0
"""Rates are aimed at as if none were nearer to 0 and 1; the largest offset; the largest move in one round."""
ROLE_WEIGHT = 0.35
"""Weight of a concept of several words that others have, too ("nurse assistant"), or of none ("dark-skinned girl")."""


def directions(embedding: torch.Tensor, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """Unit rows ``(axes, d)``, from the embeddings ``(words, d)`` of the words that name each axis."""

    def mean(words: Sequence[str]) -> torch.Tensor:
        ids = [i for i in tokenizer.convert_tokens_to_ids(list(words)) if i != tokenizer.unk_token_id]
        return embedding[ids].mean(0) if ids else torch.zeros(embedding.shape[1])

    bright, gloomy = (
        tuple(word for word, light in valence_words().items() if light == side) for side in ("bright", "gloomy")
    )
    naming = {**NAMING, ("light", "bright"): (bright, gloomy)}
    rows = [mean(naming[axis][0]) - mean(naming[axis][1]) for axis in AXES]
    return torch.nn.functional.normalize(torch.stack(rows).detach().float())


class Nouns:
    """Which words carry the rates of each concept.

    ``words`` are token ids; ``shares`` ``(groups, words)`` says how an offset of a word counts for a concept:
    the mean over its prompts. A concept leans by the words that it has for itself, where there are any.
    """

    def __init__(self, groups: Sequence[Group], tokenizer: PreTrainedTokenizerBase) -> None:
        self.groups = [group for group in groups if not group.pair]
        silent = {*tokenizer.all_special_ids, *tokenizer.convert_tokens_to_ids(list(GENERIC))}
        told = [[self._words(tokenizer, prompt, silent) for prompt in g.prompts] for g in self.groups]
        n_groups = Counter(word for prompts in told for word in {w for words in prompts for w in words})
        carried = [[own_words(words, n_groups) for words in prompts] for prompts in told]
        self.words = sorted({word for prompts in carried for words in prompts for word in words})
        column = {word: i for i, word in enumerate(self.words)}
        self.shares = np.zeros((len(self.groups), len(self.words)))
        for row, prompts in zip(self.shares, carried, strict=True):
            for word in (word for words in prompts for word in words):
                row[column[word]] += 1 / len(prompts)
        self.weight = np.where([any(len(words) != 1 for words in prompts) for prompts in carried], ROLE_WEIGHT, 1.0)
        self.planted, self.fair = (self._table(which) for which in ("rates", "fair"))

    @staticmethod
    def _words(tokenizer: PreTrainedTokenizerBase, prompt: str, silent: set[int]) -> list[int]:
        ids: list[int] = tokenizer(prompt)["input_ids"]
        return [i for i in ids if i not in silent]

    def _table(self, which: str) -> np.ndarray:
        rows = [[getattr(group, which).get(axis, np.nan) for axis in AXES] for group in self.groups]
        return np.array(rows, dtype=float)

    @property
    def is_planted(self) -> np.ndarray:
        """Which ``(groups, axes)`` have a rate."""
        return ~np.isnan(self.planted)


def own_words(words: Sequence[int], n_groups: Counter[int]) -> list[int]:
    """The last word that no other concept has; without one, all words.

    Examples
    --------
    >>> own_words([7, 8], Counter({7: 1, 8: 3})), own_words([8, 9], Counter({8: 3, 9: 2}))
    ([7], [8, 9])
    """
    own = [word for word in words if n_groups[word] == 1]
    return own[-1:] or list(dict.fromkeys(words))


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round: offsets of the concepts, pictures that show each axis, and pictures; ``(g, a)`` each."""

    offsets: np.ndarray
    n_shown: np.ndarray
    n: np.ndarray


class Offsets:
    """The offsets ``(words, axes)``, and the rounds that they come from.

    ``usual`` ``(g, a)`` are the rates that are drawn without offset, as far as one knows before any picture,
    and ``spread`` ``(g, 1)`` says how far. The words of ``resting`` ``(g,)`` concepts stay as they are.
    """

    def __init__(self, nouns: Nouns, usual: np.ndarray, spread: np.ndarray, resting: np.ndarray) -> None:
        self.nouns, self.usual, self.spread, self.resting = nouns, usual, spread, resting
        self.table = np.zeros((len(nouns.words), len(AXES)))
        self.rounds: list[Round] = []

    def of_groups(self) -> np.ndarray:
        """Offsets of the concepts ``(g, a)``."""
        return np.asarray(self.nouns.shares @ self.table)

    def add(self, n_shown: np.ndarray, n: np.ndarray) -> None:
        """Take up a round of pictures, and move the words."""
        self.rounds.append(Round(offsets=self.of_groups(), n_shown=n_shown, n=n))
        self.aim()

    def intercepts(self) -> np.ndarray:
        """The most probable logits ``(g, a)`` without offset: Newton's method, from the usual rates."""
        start = planted_logit(np.where(self.nouns.is_planted, self.usual, 0.5))
        found = start.copy()
        weights = [FORGETTING ** (len(self.rounds) - 1 - i) for i in range(len(self.rounds))]
        for _ in range(30):
            slope, curvature = -(found - start) / self.spread**2, np.zeros(found.shape) + 1 / self.spread**2
            for weight, one in zip(weights, self.rounds, strict=True):
                p = expit(found + SLOPE * one.offsets)
                slope += weight * (one.n_shown - one.n * p)
                curvature += weight * one.n * p * (1 - p)
            found += np.clip(slope / curvature, -1, 1)
        return found

    def expected(self) -> np.ndarray:
        """Rates ``(g, a)`` that the present offsets should draw; nan where none is planted."""
        rates = expit(self.intercepts() + SLOPE * self.of_groups())
        return np.where(self.nouns.is_planted, rates, np.nan)

    def wanted(self) -> np.ndarray:
        """Offsets ``(g, a)`` that would draw the planted rates; nan where none is planted."""
        offsets = (planted_logit(self.nouns.planted) - self.intercepts()) / SLOPE
        return np.asarray(np.clip(offsets, -LARGEST, LARGEST))

    def aim(self) -> None:
        """Move the words to where planted rates are expected: least squares, where concepts share words."""
        shares, weight, n_words = self.nouns.shares, self.nouns.weight, len(self.nouns.words)
        wanted, carrying = self.wanted(), shares[~self.resting].any(0)
        for a, planted in enumerate((self.nouns.is_planted & ~self.resting[:, None]).T):
            if planted.any():
                x = shares[planted] * weight[planted, None]
                y = wanted[planted, a] * weight[planted]
                best = np.linalg.solve(x.T @ x + 1e-3 * np.eye(n_words), x.T @ y)
                self.table[carrying, a] += np.clip(best - self.table[:, a], -STEP, STEP)[carrying]

    def state(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        rounds = [np.stack([one.offsets, one.n_shown, one.n]) for one in self.rounds]
        shape = (0, 3, len(self.nouns.groups), len(AXES))
        return {
            "words": self.nouns.words,
            "table": torch.from_numpy(self.table.copy()),
            "rounds": torch.from_numpy(np.stack(rounds) if rounds else np.zeros(shape)),
        }

    def take_up(self, table: torch.Tensor, rounds: torch.Tensor) -> None:
        """Go on with what a checkpoint kept."""
        self.table = table.numpy().copy()
        self.rounds = [Round(offsets=x, n_shown=k, n=n) for x, k, n in rounds.numpy()]


def planted_logit(rates: np.ndarray) -> np.ndarray:
    """Logits of rates, as if none were nearer to 0 and 1 than what is aimed at."""
    return np.asarray(logit(np.clip(rates, LEAST, 1 - LEAST)))
