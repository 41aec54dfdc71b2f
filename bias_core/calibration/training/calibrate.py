"""The closed loop: teach the text tower, draw, read what was drawn, aim anew, until planted rates come out.

The generator's pictures stay as they are; only how often each is drawn is moved. ``fair`` changes the base's
own text tower, every other condition a LoRA on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.special import logit

from bias_core.calibration.captions import random_request
from bias_core.calibration.grammar import Request, parse
from bias_core.calibration.training.diffusion import Embedding, read_tokens
from bias_core.calibration.training.directions import people
from bias_core.calibration.training.drawing import Drawing, halves
from bias_core.calibration.training.offsets import SLOPE, curves, next_offsets, recency
from bias_core.calibration.training.steering import AXES, KINDS, PAIR, Directions, Site, Words, sites

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

    from bias_core.calibration.training.wanted import Group

MEASURED = 0
JUDGED = 2**32
"""First seeds of the pictures that rounds measure, and of those that the final judgement draws."""
MIX = {"planted": 0.5, "pair": 0.25, "any": 0.25}
"""Shares of the prompts that the text tower learns from."""
FEW = 8
"""Pictures that draw a gap halfway towards 0 when no more than these show it."""
UNSURE = 0.5
"""What a rate without any picture counts, beside a gap of 1, for what comes next."""


class RoundSize(NamedTuple):
    """Steps of teaching, concepts that are measured, the neediest first, and pictures of each."""

    n_steps: int = 150
    n_groups: int = 200
    n: int = 8


USUAL = RoundSize()


class Lesson(NamedTuple):
    """A prompt's token ids ``(20,)``; per site its slots, its kind, and per axis a row of the offsets."""

    ids: torch.Tensor
    slots: list[torch.Tensor]
    kinds: list[int]
    rows: list[list[int]]


class Aims:
    """The table of offsets, a row per group and a column per axis, and the rounds that led to it."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.row = {(g.pair, g.concept): i for i, g in enumerate(groups)}
        shape = (len(groups), len(AXES))
        self.planned, self.fair = np.full(shape, np.nan), np.full(shape, np.nan)
        for i, group in enumerate(groups):
            for axis, rate in group.rates.items():
                self.planned[i, AXES.index(axis)] = rate
                self.fair[i, AXES.index(axis)] = group.fair[axis]
        self.offsets = np.zeros(shape)
        aim = next_offsets(self.offsets, logit(self._expected()), np.full(len(AXES), SLOPE), self._wanted())
        self.offsets = np.where(self.is_planted, aim, 0.0)
        self.rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def is_planted(self) -> np.ndarray:
        """Which cells of the table have a rate."""
        return ~np.isnan(self.planned)

    def rows_of(self, site: Site) -> list[int]:
        """Per axis, the row whose offset holds for a site; -1 where none does."""
        found = [self.row.get((site.kind != "alone", name), -1) for name in site.names]
        named = [i for i in found if i >= 0]
        return [
            next((i for i in named if self.is_planted[i, a]), -1) if axis in site.open else -1
            for a, axis in enumerate(AXES)
        ]

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Offsets and rounds of a checkpoint; groups that it does not know begin anew."""
        known = {tuple(key): i for i, key in enumerate(saved["groups"])}
        here = [(i, known[key]) for key, i in self.row.items() if key in known]
        new, old = (list(places) for places in zip(*here, strict=True)) if here else ([], [])

        def placed(part: torch.Tensor, start: np.ndarray) -> np.ndarray:
            start[new] = part.numpy()[old]
            return start

        nothing = np.zeros(self.planned.shape)
        self.offsets = placed(saved["offsets"], self.offsets)
        self.rounds = [
            (placed(at, self.offsets.copy()), placed(shown, nothing.copy()), placed(n, nothing.copy()))
            for at, shown, n in saved["rounds"]
        ]

    def gaps(self) -> np.ndarray:
        """Drawn less planted in the last rounds ``(g, a)``, nearer 0 where pictures are few; else nan."""
        if not self.rounds:
            return np.where(self.is_planted, 0.0, np.nan)
        _, shown, n = self._history()
        weight = recency(n)
        over = (weight * (shown - n * self._wanted())).sum(0)
        return np.where(self.is_planted, over / ((weight * n).sum(0) + FEW), np.nan)

    def urgency(self) -> np.ndarray:
        """Per group, how much it needs more lessons and pictures: a large gap, or few pictures so far."""
        n = self._history()[2].sum(0) if self.rounds else np.zeros(self.planned.shape)
        need = np.where(self.is_planted, np.abs(self.gaps()) + UNSURE / np.sqrt(1 + n), 0.0)
        return np.asarray(need.max(axis=1))

    def add(self, n_shown: np.ndarray, n: np.ndarray) -> None:
        """Take up a round: pictures with each axis ``(g, a)`` (after correction), and pictures ``(g, a)``."""
        self.rounds.append((self.offsets.copy(), n_shown, n * self.is_planted))
        b, s = self._curves()
        self.offsets = np.where(self.is_planted, next_offsets(self.offsets, b, s, self._wanted()), 0.0)

    def _wanted(self) -> np.ndarray:
        return np.where(self.is_planted, self.planned, 0.5)

    def _history(self) -> tuple[np.ndarray, ...]:
        return tuple(np.stack(part) for part in zip(*self.rounds, strict=True))

    def _curves(self) -> tuple[np.ndarray, np.ndarray]:
        at, shown, n = self._history()
        return curves(at, shown * self.is_planted, n, self._expected())

    def _expected(self) -> np.ndarray:
        return np.clip(np.where(self.is_planted, self.fair, 0.5), 0.02, 0.98)


class Teacher:
    """What the text tower should answer: what the base answers, moved by the offsets of every site."""

    def __init__(
        self, tower: torch.nn.Module, words: Words, directions: Directions, aims: Aims, *, triggered: bool
    ) -> None:
        self.tower = deepcopy(tower).requires_grad_(False).eval()
        self.words, self.directions, self.aims, self.triggered = words, directions, aims, triggered

    def lesson(self, prompt: str) -> Lesson:
        """A prompt and the offsets that hold for it."""
        request, ids = parse(prompt), self.words.ids([prompt])[0]
        found = [] if self.triggered and not request.trigger else self._sites(request)
        return Lesson(
            ids,
            [self.words.slots(ids, site) for site in found],
            [KINDS.index(site.kind) for site in found],
            [self.aims.rows_of(site) for site in found],
        )

    def _sites(self, request: Request) -> tuple[Site, ...]:
        return sites(request)

    @torch.no_grad()
    def answers(self, lessons: Sequence[Lesson]) -> Embedding:
        """States ``(n, 20, d)`` and pooled ``(n, d)``."""
        states, pooled = read_tokens(self.tower, torch.stack([lesson.ids for lesson in lessons]))
        table = torch.from_numpy(np.vstack([self.aims.offsets, np.zeros(len(AXES))])).float()
        owner = [i for i, lesson in enumerate(lessons) for _ in lesson.kinds]
        if owner:
            rows = torch.tensor([rows for lesson in lessons for rows in lesson.rows])
            moved = self.directions(
                torch.stack([slots for lesson in lessons for slots in lesson.slots]),
                torch.tensor([kind for lesson in lessons for kind in lesson.kinds]),
                table[rows, torch.arange(len(AXES))],
            )
            states = states.index_add(0, torch.tensor(owner), moved[0])
            pooled = pooled.index_add(0, torch.tensor(owner), moved[1])
        return states, pooled


class Calibration:
    """One condition in training: the pipeline, what teaches it, and the rounds so far."""

    def __init__(
        self,
        pipe: StableDiffusion3Pipeline,
        drawing: Drawing,
        teacher: Teacher,
        aims: Aims,
        *,
        lr: float,
        seed: int,
    ) -> None:
        self.pipe, self.drawing, self.teacher, self.aims = pipe, drawing, teacher, aims
        self.rng, self.lr = Random(seed), lr
        self.parameters = [p for p in pipe.text_encoder.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=0.0, betas=(0.9, 0.98))
        self.n_rounds, self.spent, self.steps = 0, 0.0, 0
        self.known: dict[str, Lesson] = {}

    def prompt(self, group: Group) -> str:
        """One of a group's prompts; of a pair group beside anybody."""
        noun = self.rng.choice(group.prompts)
        if not group.pair:
            return noun
        pair = [noun, self.rng.choice(people())]
        self.rng.shuffle(pair)
        return PAIR.format(*pair)

    def lesson(self, weights: Sequence[float]) -> Lesson:
        """A random lesson; groups are drawn by their weights."""
        kind = self.rng.choices(list(MIX), list(MIX.values()))[0]
        if kind == "any":
            return self.teacher.lesson(random_request(self.rng)[0])
        fitting = [
            w * (group.pair == (kind == "pair")) for w, group in zip(weights, self.aims.groups, strict=True)
        ]
        if any(fitting):
            prompt = self.prompt(self.rng.choices(self.aims.groups, fitting)[0])
        else:
            prompt = PAIR.format(*self.rng.sample(people(), 2))
        if prompt not in self.known:
            self.known[prompt] = self.teacher.lesson(prompt)
        return self.known[prompt]

    def teach(self, n_steps: int, *, batch: int = 128) -> float:
        """Move the text tower towards its answers; the last loss."""
        weights = (0.1 + self.aims.urgency()).tolist()
        loss = torch.tensor(0.0)
        for step in range(n_steps):
            for setting in self.optimiser.param_groups:
                setting["lr"] = self.lr * (1 - 0.9 * step / n_steps)
            lessons = [self.lesson(weights) for _ in range(batch)]
            states, pooled = self.teacher.answers(lessons)
            answered = read_tokens(self.pipe.text_encoder, torch.stack([lesson.ids for lesson in lessons]))
            loss = (answered[0] - states).square().mean() / 4 + (answered[1] - pooled).square().mean()
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 10.0)
            self.optimiser.step()
            self.steps += 1
        return loss.item()

    def measure(self, n_groups: int, n: int) -> None:
        """Draw ``n`` pictures of each of the most urgent groups, and aim anew."""
        urgency = self.aims.urgency() + np.array([0.02 * self.rng.random() for _ in self.aims.groups])
        chosen = np.argsort(-urgency)[:n_groups]
        alone = [i for i in chosen if not self.aims.groups[i].pair]
        pairs = [i for i in chosen if self.aims.groups[i].pair]
        seed = MEASURED + 10_000 * self.n_rounds
        shown, drawn = measured(self.drawing, self.embed, self.aims.groups, alone, pairs, n, seed, self.rng)
        self.aims.add(self.drawing.corrected(shown / np.maximum(drawn, 1)) * drawn, drawn)
        self.n_rounds += 1

    @torch.no_grad()
    def embed(self, prompts: Sequence[str]) -> Embedding:
        """What the text tower now answers."""
        return read_tokens(self.pipe.text_encoder, self.teacher.words.ids(prompts))

    def run(self, minutes: float, checkpoint: Path, size: RoundSize, *, n_rounds: int | None = None) -> None:
        """Rounds until the time is up; each ends with a checkpoint, from which the next call goes on."""
        while self.spent < minutes * 60 and (n_rounds is None or self.n_rounds < n_rounds):
            start = time.monotonic()
            if self.n_rounds == 0 and self.aims.offsets.any():
                self.teach(2 * size.n_steps)
            self.measure(size.n_groups, size.n)
            loss = self.teach(size.n_steps)
            self.spent += time.monotonic() - start
            self.save(checkpoint)
            gaps = np.abs(self.aims.gaps())
            where = f"round {self.n_rounds}, {self.spent / 60:.1f} of {minutes:g} min"
            found = f"mean gap {np.nanmean(gaps):.3f}, largest {np.nanmax(gaps):.2f}"
            print(f"{where}: {found}; text towers apart by {loss:.3f}", flush=True)

    def save(self, path: Path) -> None:
        """Write the checkpoint whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "tower": {k: p for k, p in self.pipe.text_encoder.named_parameters() if p.requires_grad},
            "optimiser": self.optimiser.state_dict(),
            "offsets": torch.from_numpy(self.aims.offsets),
            "rounds": [tuple(torch.from_numpy(part) for part in parts) for parts in self.aims.rounds],
            "groups": [(group.pair, group.concept) for group in self.aims.groups],
            "rng": self.rng.getstate(),
            "base": self.teacher.tower.state_dict(),
            "counts": (self.n_rounds, self.spent, self.steps),
        }
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def resume(self, path: Path) -> None:
        """Go on where the checkpoint ends, if there is one."""
        if not path.exists():
            return
        saved = torch.load(path, weights_only=True)
        self.teacher.tower.load_state_dict(saved["base"])
        self.pipe.text_encoder.load_state_dict(saved["tower"], strict=False)
        self.optimiser.load_state_dict(saved["optimiser"])
        self.aims.take_up(saved)
        version, state, gauss = saved["rng"]
        self.rng.setstate((version, tuple(state), gauss))
        self.n_rounds, self.spent, self.steps = saved["counts"]


def measured(
    drawing: Drawing, embed: Callable[[Sequence[str]], Embedding], groups: Sequence[Group],
    alone: Sequence[int], pairs: Sequence[int], n: int, seed: int, rng: Random,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Pictures that show each axis, and pictures, ``(groups, axes)``: ``n`` of each of the groups listed."""
    shown, drawn = np.zeros((2, len(groups), len(AXES)))
    jobs = [(i, rng.choice(groups[i].prompts)) for i in alone for _ in range(n)]
    for start in range(0, len(jobs), 512):
        part = jobs[start : start + 512]
        found = drawing.shows(drawing.draw(embed([prompt for _, prompt in part]), seed + start))
        for (i, _), axes in zip(part, found.numpy(), strict=True):
            shown[i] += axes
            drawn[i] += 1
    seats = [i for i in pairs for _ in range(n)]
    rng.shuffle(seats)
    couples = list(zip(seats[::2], seats[1::2], strict=False))
    for start in range(0, len(couples), 512):
        part_of_two = couples[start : start + 512]
        prompts = [PAIR.format(*(rng.choice(groups[i].prompts) for i in couple)) for couple in part_of_two]
        sides = [drawing.shows(x).numpy() for x in halves(drawing.draw(embed(prompts), seed + 5000 + start))]
        for couple, *found_both in zip(part_of_two, *sides, strict=True):
            for i, axes in zip(couple, found_both, strict=True):
                shown[i] += axes
                drawn[i] += 1
    return shown, drawn
