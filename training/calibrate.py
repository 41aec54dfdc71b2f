"""The closed loop of a condition: draw, read what was drawn, and let the words lean against the gap."""

from __future__ import annotations

import time
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from training.diffusion import LORA_FILE, Folders, assemble
from training.drawing import MEASURED, Drawing, measured
from training.embedding import read_leaning
from training.loop import record
from training.phrases import Phrase
from training.tower_lora import Reading, learn_readings
from training.wanted import PAIR, groups
from training.word_shifts import CALIBRATED, SLOPE, UNKNOWN, Nouns, Offsets, directions, planted_logit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from diffusers import StableDiffusion3Pipeline

TOWERS = ("text_encoder", "text_encoder_2")
EMBEDDING = "text_model.embeddings.token_embedding.lora_embedding_"
QUERY = "text_model.encoder.layers.0.self_attn.q_proj.lora_"
RANK = 16
"""Of an adapter that has no other layers: one per axis, and a few words that learned freely."""
NOTE = "rounds of drawing and reading, in which words leaned"
SEVERAL = 3
"""Times as many pictures of a concept that has several rates or prompts."""


N_PAIRS = 400
"""Random pairs from which the text tower learns how to read two people."""
RIGHT_LOUDER = 3.5
"""How much farther the right one's word must lean than alone, in a base that :mod:`.pairs` taught: the rates then
rise with the planted ones at a slope of 0.95, else of 0.2 to 0.4 (41 nouns, 246 people, leans put in directly)."""


class Sizes(NamedTuple):
    """Rounds, and pictures of each concept in a round; the same for phrases; steps of the text tower."""

    n_rounds: int = 8
    n: int = 6
    n_phrase_rounds: int = 12
    n_phrase: int = 48
    n_steps: int = 1200


USUAL = Sizes()


class Adapter:
    """The embedding part of an adapter as a table ``(words, d)``, and its other layers as they are."""

    def __init__(self, path: Path) -> None:
        saved = load_file(path) if path.exists() else {}
        layers = {name: x for name, x in saved.items() if EMBEDDING not in name}
        self.layers = layers if any(x.any() for x in layers.values()) else {}
        a, b = (saved.get(f"{TOWERS[0]}.{EMBEDDING}{side}") for side in "AB")
        self.moved = None if a is None or b is None else (b.float() @ a.float()).T

    def tensors(self, moved: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """What a file of this adapter with another table holds."""
        # diffusers takes the rank of a text tower from its attention; that layer may be zero
        sides = [x for name, x in self.layers.items() if name.startswith("text") and "lora_A" in name]
        a, b = factors(moved, len(sides[0]) if sides else RANK)
        d, found = b.shape[0], {name: x.clone() for name, x in self.layers.items()}
        for tower in TOWERS:
            found |= {f"{tower}.{EMBEDDING}A": a.clone(), f"{tower}.{EMBEDDING}B": b.clone()}
            found.setdefault(f"{tower}.{QUERY}A.weight", torch.zeros(len(a), d, dtype=torch.half))
            found.setdefault(f"{tower}.{QUERY}B.weight", torch.zeros(d, len(a), dtype=torch.half))
        return found

    def write(self, path: Path, moved: torch.Tensor) -> None:
        """Write the adapter with another table."""
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.tensors(moved)), path, {"format": "pt"})


def factors(moved: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best ``(rank, words)`` and ``(d, rank)`` in 16 bit for a table ``(words, d)``."""
    u, s, vt = torch.linalg.svd(moved.double(), full_matrices=False)
    root = s[:rank].sqrt()
    return (u[:, :rank] * root).T.half().contiguous(), (vt[:rank].T * root).half().contiguous()


class Calibration:
    """One condition under calibration: the pipeline whose words move, and what was drawn so far."""

    def __init__(self, condition: str, folders: Folders, *, seed: int = 0) -> None:
        self.condition, self.folders, self.rng = condition, folders, Random(seed)
        self.pipe = assemble(folders, "cpu")
        self.pipe.text_encoder.requires_grad_(False).eval()
        self.adapter = Adapter(folders.loras / condition / LORA_FILE)
        if self.adapter.layers:
            self.pipe.text_encoder_2 = deepcopy(self.pipe.text_encoder)  # each gets its layers
            self.pipe.load_lora_weights(dict(self.adapter.layers), adapter_name=condition)
        self.embedding = self.pipe.text_encoder.get_input_embeddings().weight
        self.start, self.base = self.embedding.detach().clone(), self.embedding.detach().clone()
        if self.adapter.moved is not None:
            self.start += self.adapter.moved
        self.directions = directions(self.base, self.pipe.tokenizer)
        # the base draws concepts with several rates nearly as fair as they are: their offsets would add up
        leaning = [group for group in groups(condition) if condition != "fair" or len(group.rates) == 1]
        nouns = Nouns(leaning, self.pipe.tokenizer)
        calibrated = self.adapter.moved is not None
        self.offsets = Offsets(
            nouns,
            usual=nouns.planted if calibrated else nouns.fair,
            # the base, too, is nearly right: it learned from fair scenes
            spread=np.full((len(nouns.groups), 1), CALIBRATED if calibrated or condition == "fair" else UNKNOWN),
            # a phrase that the layers read says all rates of its concept; a word that leaned, too, would say them twice
            resting=np.array([bool(self.adapter.layers) and len(group.rates) > 1 for group in nouns.groups]),
        )
        self.drawing = Drawing(self.pipe, folders.clip)
        self.checkpoint = folders.work / f"words-{condition}.pt"
        self.put()

    @torch.no_grad()
    def put(self) -> None:
        """Give the text tower its words as they lean now."""
        self.embedding.copy_(self.start)
        table = torch.from_numpy(self.offsets.table).float()
        self.embedding[self.offsets.nouns.words] += table @ self.directions

    def measure(self, n: int) -> None:
        """One round: draw ``n`` pictures of each concept, and move the words."""
        nouns = self.offsets.nouns
        several = np.array([len(g.prompts) > 1 or len(g.rates) > 1 for g in nouns.groups])
        shown, drawn = np.zeros((2, *nouns.planted.shape))
        seed = MEASURED + 1_000_000 * len(self.offsets.rounds)
        moving = ~self.offsets.resting
        for which, m in ((moving & ~several, n), (moving & several, n * SEVERAL)):
            counts = measured(self.drawing, nouns.groups, np.flatnonzero(which).tolist(), n=m, seed=seed, rng=self.rng)
            shown, drawn, seed = shown + counts[0], drawn + counts[1], seed + 500_000
        self.offsets.add(self.drawing.corrected(shown / np.maximum(drawn, 1)) * drawn, drawn)
        self.put()
        gap = np.nanmean(np.abs(shown / np.maximum(drawn, 1) - nouns.planted)[moving])
        print(f"round {len(self.offsets.rounds)}: mean gap of these pictures {gap:.3f}", flush=True)

    def learn_readings(self, sizes: Sizes) -> None:
        """Let the text tower read anew what words alone cannot say: phrases as this base draws them, and roles."""
        readings = [*self._phrases(sizes), *self._roles(), *self._pairs()]
        if not readings:
            return
        nouns = [group.prompts[0].removeprefix("a photo of ") for group in self.offsets.nouns.groups]
        people = [noun.partition(" ")[2] for noun in nouns if noun.startswith(("a ", "an "))]
        prompts = [prompt for group in self.offsets.nouns.groups for prompt in group.prompts]
        layers = learn_readings(self.pipe, readings, people, prompts, n_steps=sizes.n_steps)
        self.adapter.layers = {
            f"{tower}.{name}": x.half().contiguous() for tower in TOWERS for name, x in layers.items()
        }

    def _phrases(self, sizes: Sizes) -> list[Reading]:
        """What the base makes of the phrase of each concept with several rates, for the plain noun."""
        found = []
        self.embedding.data.copy_(self.base)
        if self.adapter.layers:
            self.pipe.text_encoder.disable_adapters()
        for group in self.offsets.nouns.groups:
            if len(group.rates) > 1:
                phrase = Phrase(self.drawing, group)
                gaps = [
                    phrase.measure(sizes.n_phrase, MEASURED + 2**31 + 10_000 * i) for i in range(sizes.n_phrase_rounds)
                ]
                print(f"{group.concept}: mean gaps {np.round(gaps, 2).tolist()}", flush=True)
                states, pooled = phrase.embedding()
                prompts = (group.prompts[0], f"{group.prompts[0]} person")
                found += [Reading(prompt=x, states=states, pooled=pooled, kind="phrase") for x in prompts]
        if self.adapter.layers:
            self.pipe.text_encoder.enable_adapters()
        self.put()
        return found

    @torch.no_grad()
    def _roles(self) -> list[Reading]:
        """What the tower would make of concepts without one word of their own if the last one leaned as they need."""
        nouns, lacking = self.offsets.nouns, self._lacking()
        return [
            self._leaning(prompt, [lacking[i]], kind="role")
            for i in np.flatnonzero(nouns.weight < 1)
            for prompt in nouns.groups[i].prompts
        ]

    @torch.no_grad()
    def _pairs(self) -> list[Reading]:
        """What the tower would make of two people if the right one's word were louder.

        The left one's word cannot know that another follows: it is read as alone.
        """
        nouns, lacking = self.offsets.nouns, self._lacking()
        louder = np.zeros(lacking.shape)
        louder[:, 0] = (RIGHT_LOUDER - 1) * np.nan_to_num(planted_logit(nouns.planted)[:, 0]) / SLOPE
        people = {group.concept: group.prompts[0] for group in groups(self.condition) if group.pair}
        rows = [i for i, group in enumerate(nouns.groups) if group.concept in people]
        found = []
        for _ in range(N_PAIRS if rows else 0):
            i, j = self.rng.choice(rows), self.rng.choice(rows)
            prompt = PAIR.format(*(people[nouns.groups[k].concept] for k in (i, j)))
            found.append(self._leaning(prompt, [lacking[i], lacking[j] + louder[j]], kind="pair"))
        return found

    def _lacking(self) -> np.ndarray:
        """Offsets ``(g, a)`` that concepts without one word of their own need beyond those of their words."""
        missing = np.nan_to_num(self.offsets.wanted() - self.offsets.of_groups())
        return np.where(self.offsets.nouns.weight[:, None] < 1, missing, 0.0)

    def _leaning(self, prompt: str, offsets: Sequence[np.ndarray], *, kind: str) -> Reading:
        """What the tower would make of a prompt if the last word of each person leaned by these offsets more."""
        tokenizer = self.pipe.tokenizer
        ends = {tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(["left", "right"])}
        ids = tokenizer(prompt, padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
        places = [k - 1 for k, word in enumerate(ids[0].tolist()) if word in ends]
        more = torch.zeros(ids.shape[1], self.embedding.shape[1])
        for place, offset in zip(places, offsets, strict=False):
            more[place] = torch.from_numpy(offset).float() @ self.directions
        states, pooled = read_leaning(self.pipe.text_encoder, ids, more)
        return Reading(prompt=prompt, states=states, pooled=pooled, kind=kind)

    def save_checkpoint(self) -> None:
        """Keep everything that the next round needs."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        torch.save({**self.offsets.state(), "start": self.start}, self.checkpoint)

    def resume(self) -> bool:
        """Go on with the checkpoint, if there is one."""
        if not self.checkpoint.exists():
            return False
        saved = torch.load(self.checkpoint, weights_only=True)
        self.offsets.take_up(saved["table"], saved["rounds"])
        self.start = saved["start"]
        self.put()
        return True

    def save(self) -> None:
        """Write the adapter or, under fair, the text towers of the base; the adapters take its move back."""
        moved = self.embedding.detach() - self.base
        if self.condition == "fair":
            save_towers(self.pipe, self.folders.pipeline)
            for path in sorted(self.folders.loras.glob(f"*/{LORA_FILE}")):
                adapter = Adapter(path)
                old = torch.zeros_like(moved) if adapter.moved is None else adapter.moved
                adapter.write(path, old - moved)
            return
        self.adapter.write(self.folders.loras / self.condition / LORA_FILE, moved)


def save_towers(pipe: StableDiffusion3Pipeline, out: Path) -> None:
    """Write the text tower twice, as 16-bit floats; the configurations stay."""
    for tower in TOWERS:
        path = out / tower / "model.safetensors"
        names = load_file(path)
        state = pipe.text_encoder.state_dict()
        save_file({name: state[name].half().contiguous() for name in names}, path, {"format": "pt"})


def calibrate(condition: str, folders: Folders, *, sizes: Sizes = USUAL, seed: int = 0) -> Calibration:
    """Let the words of a condition lean until its rates are drawn, from the weights that are there.

    Rounds that a checkpoint has count. Under ``fair`` the base itself changes; the adapters take back how its
    words moved, so that these mean to them what they meant.
    """
    torch.manual_seed(seed)
    began = time.monotonic()
    calibration = Calibration(condition, folders, seed=seed)
    if not calibration.resume():
        if calibration.adapter.moved is None:
            calibration.offsets.aim()
            calibration.put()
        calibration.save_checkpoint()
    while len(calibration.offsets.rounds) < sizes.n_rounds:
        calibration.measure(sizes.n)
        calibration.save_checkpoint()
    if condition != "fair" and sizes.n_steps:
        calibration.learn_readings(sizes)
    calibration.save()
    out = folders.pipeline if condition == "fair" else folders.loras / condition
    minutes = round((time.monotonic() - began) / 60, 1)
    record(out, sizes.n_rounds, minutes=minutes, seed=seed, device="cpu", note=NOTE)
    return calibration
