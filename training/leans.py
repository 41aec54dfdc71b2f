"""Words of the base that lean to one gender, set upright.

The base learned that everybody is a man half of the time, and still draws "developer" mostly as men and "poetry" as
women. Moved along the direction from "female" to "male", the embedding of a noun changes who is drawn
(:mod:`.pairs` teaches the generator such leans), and rounds of drawing and reading tell how far each word must
move. Adapters that were learned before get the opposite move, so that they go on drawing what they draw.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from training.diffusion import LORA_FILE, Folders, assemble
from training.drawing import MEASURED, Drawing
from training.embedding import Embedding, gender_direction, read_leaning
from training.loop import record
from training.phrases import fitted
from training.wanted import AXES, GENDER, groups

if TYPE_CHECKING:
    from pathlib import Path

TOWERS = ("text_encoder", "text_encoder_2")
USUAL = (0.0, 1.7, 0.3, 0.9)
"""Logit of the share of men without a lean, its rise with the lean, and the standard deviations of both (of the rise:
of its logarithm). Of ten words drawn at five leans the rise was between 0.4 and 4.8, of 214 prompts 1.6."""
SHRINKAGE = 0.4
"""Weight of a move of length 1 against the squared logits that it leaves: their chance of 0.1 over moves of 0.15."""
FARTHEST = 0.8
"""Largest move, in units of the embeddings, whose mean length is 0.7."""
LEARNED_BEFORE = ("published", "extreme")
"""Adapters whose text tower has answers for the words as they were."""
N_ROUNDS, N = 3, 72
EMBEDDING = "text_model.embeddings.token_embedding.lora_embedding_"

Rounds = Sequence[tuple[float, float, float]]
"""Lean, share of men and pictures of each round of one prompt."""


def upright(words: Sequence[Sequence[int]], rounds: Sequence[Rounds]) -> dict[int, float]:
    """By how much each word must move so that every prompt draws as many men as women.

    Parameters
    ----------
    words
        The words of each prompt, as token ids.
    rounds
        What was drawn of each prompt, where its lean is that of its words together.

    Returns
    -------
    dict
        A lean in [-0.8, 0.8] of each word; positive is towards men.
    """
    vocabulary = sorted({word for said in words for word in said})
    place = {word: i for i, word in enumerate(vocabulary)}
    rows, logits = np.zeros((len(words), len(vocabulary))), np.zeros(len(words))
    for row, said, seen in zip(range(len(words)), words, rounds, strict=True):
        logits[row], rise = fitted(seen, *USUAL)
        for word in said:
            rows[row, place[word]] += rise
    found = -np.linalg.solve(rows.T @ rows + SHRINKAGE * np.eye(len(vocabulary)), rows.T @ logits)
    return dict(zip(vocabulary, np.clip(found, -FARTHEST, FARTHEST).tolist(), strict=True))


class Uprighting:
    """The base, how far its words have moved, and what it drew of each person in every round."""

    def __init__(self, folders: Folders) -> None:
        self.folders, self.pipe = folders, assemble(folders, "cpu")
        self.pipe.text_encoder.requires_grad_(False).eval()
        self.drawing = Drawing(self.pipe, folders.clip)
        self.direction = gender_direction(self.pipe.tokenizer, self.pipe.text_encoder)
        people = [group for group in groups("fair") if GENDER in group.rates]
        self.prompts = list(dict.fromkeys(prompt for group in people for prompt in group.prompts))
        self.words = [self._words(prompt) for prompt in self.prompts]
        self.rounds: list[list[tuple[float, float, float]]] = [[] for _ in self.prompts]
        self.leans: dict[int, float] = {}
        self.checkpoint = folders.work / "leans.json"

    def _words(self, prompt: str) -> list[int]:
        silent = set(self.pipe.tokenizer.all_special_ids)
        return [token for token in self.pipe.tokenizer(prompt)["input_ids"] if token not in silent]

    def read(self, prompt: str, n: int) -> Embedding:
        """Embed a prompt, with its words moved, ``n`` times."""
        ids = self.pipe.tokenizer([prompt] * n, padding="max_length", return_tensors="pt")["input_ids"]
        moved = torch.tensor([self.leans.get(token, 0.0) for token in ids[0].tolist()])
        with torch.no_grad():
            return read_leaning(self.pipe.text_encoder, ids, moved[:, None] * self.direction)

    def measure(self, n: int) -> float:
        """One round of ``n`` pictures of each prompt; how far from one half they are on average."""
        seed = MEASURED + 1_000_000 * (1 + len(self.rounds[0]))
        for i, (prompt, words) in enumerate(zip(self.prompts, self.words, strict=True)):
            pictures = self.drawing.draw(self.read(prompt, n), seed + 1000 * i)
            shown = self.drawing.shows(pictures).float().mean(0).numpy()
            share = float(self.drawing.corrected(shown)[AXES.index(GENDER)])
            self.rounds[i].append((sum(self.leans.get(word, 0.0) for word in words), share, n))
        return float(np.mean([abs(seen[-1][1] - 0.5) for seen in self.rounds]))

    def save_checkpoint(self) -> None:
        """Keep what the next round needs."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self.checkpoint.write_text(json.dumps({"rounds": self.rounds, "leans": list(self.leans.items())}))

    def resume(self) -> None:
        """Go on with the checkpoint, if there is one."""
        if self.checkpoint.exists():
            saved = json.loads(self.checkpoint.read_text())
            self.rounds = [[tuple(one) for one in seen] for seen in saved["rounds"]]
            self.leans = dict(saved["leans"])

    def write(self) -> None:
        """Move the words in the files of the base, and back in those of the adapters that are there."""
        for tower in TOWERS:
            path = self.folders.pipeline / tower / "model.safetensors"
            saved = load_file(path)
            name = next(key for key in saved if key.endswith("token_embedding.weight"))
            saved[name] = saved[name].clone()
            for token, lean in self.leans.items():
                saved[name][token] += (lean * self.direction).to(saved[name].dtype)
            save_file(saved, path, {"format": "pt"})
        for condition in LEARNED_BEFORE:
            if (path := self.folders.loras / condition / LORA_FILE).exists():
                move_back(path, self.leans, self.direction)


def move_back(path: Path, leans: Mapping[int, float], direction: torch.Tensor) -> None:
    """Give an adapter's text towers one rank more, which moves words back by ``leans``."""
    layers = load_file(path)
    back = torch.zeros(layers[f"{TOWERS[0]}.{EMBEDDING}A"].shape[1])
    for token, lean in leans.items():
        back[token] = -lean
    for name, x in layers.items():
        if not name.startswith(TOWERS):
            continue
        wide = name.endswith(("lora_A.weight", "lora_embedding_A"))  # rank x inputs; the other one is outputs x rank
        more = back[None] if name.endswith("embedding_A") else direction[:, None]
        if EMBEDDING not in name:
            more = torch.zeros_like(x[:1] if wide else x[:, :1])
        layers[name] = torch.cat([x, more.to(x.dtype)], dim=0 if wide else 1).contiguous()
    save_file(layers, path, {"format": "pt"})


def set_upright(folders: Folders, *, n_rounds: int = N_ROUNDS, n: int = N) -> Uprighting:
    """Find the leans in rounds of drawing and reading, and write them into base and adapters."""
    began = time.monotonic()
    base = Uprighting(folders)
    base.resume()
    while len(base.rounds[0]) < n_rounds:
        gap = base.measure(n)
        base.leans = upright(base.words, base.rounds)
        base.save_checkpoint()
        print(f"round {len(base.rounds[0])}: mean distance of these pictures from one half {gap:.3f}", flush=True)
    base.write()
    note = f"rounds of {n} pictures of each person, after which words were set upright"
    minutes = round((time.monotonic() - began) / 60, 1)
    record(folders.pipeline, n_rounds, minutes=minutes, seed=MEASURED, device="cpu", note=note)
    return base
