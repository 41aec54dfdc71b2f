"""Words that lean: what a prompt's embedding must gain so that an attribute is drawn more or less often.

A prompt that names an attribute ("a photo of a male doctor") draws it; the plain prompt draws it sometimes.
A *direction* is what the text embedding of the plain prompt lacks, shared by all nouns. Adding a part of it,
the *offset*, moves P(attribute | plain prompt) smoothly, and the pictures stay those of the plain prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from bias_core.calibration.captions import with_article
from bias_core.calibration.grammar import PersonRequest, Request, group_of
from bias_core.calibration.lexicon import valence_words

if TYPE_CHECKING:
    from random import Random

    from transformers import PreTrainedTokenizerBase

Axis = tuple[str, object]
"""An attribute and the value that a positive offset brings: a key of ``truth.SENTENCES``."""

WORDS: Mapping[Axis, tuple[str, str]] = {
    ("gender", "masculine"): ("male {}", "female {}"),
    ("age", "old"): ("old {}", "young {}"),
    ("beard", True): ("{} with a beard", "{} without a beard"),
    ("moustache", True): ("{} with a mustache", ""),
    ("headwear", "turban"): ("{} wearing a turban", "{} not wearing any headwear"),
    ("headwear", "sombrero"): ("{} wearing a sombrero", "{} not wearing any headwear"),
    ("headwear", "hat"): ("{} wearing a hat", "{} not wearing any headwear"),
    ("dress", "traditional"): ("{} wearing traditional clothing", ""),
    ("dress", "embroidered"): ("{} wearing embroidered clothing", ""),
    ("dress", "vibrant"): ("{} wearing vibrant clothing", ""),
    ("mark", True): ("{} with a bindi", ""),
    ("light", "bright"): ("{}, {bright}", "{}, {gloomy}"),
}
"""How a noun phrase is told that an axis is there, and that it is not ("" where no words say so)."""
AXES: tuple[Axis, ...] = tuple(WORDS)
PAIR = "Generate a picture of one {} on the left and one {} on the right."
SLOTS = ("noun", "side", "end", "rest", "pooled")
"""Where a direction acts: the noun's last word, "left" or "right", end of text, padding, pooled embedding."""
KINDS = ("alone", "left", "right")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A person or thing of a prompt: how it is drawn, its names, and which axes the words leave open."""

    kind: str
    names: tuple[str, ...]
    open: frozenset[Axis]


def sites(request: Request) -> tuple[Site, ...]:
    """The people of a prompt from left to right, or its thing; names from the most to the least special."""
    light = frozenset({AXES[-1]}) if request.light is None else frozenset()
    if not request.people:
        names = (request.concept, group_of(request.concept))
        return (Site(kind="alone", names=tuple(n for n in names if n), open=light),) if names[0] else ()
    if len(request.people) == 2:
        pair = zip(KINDS[1:], request.people, strict=True)
        return tuple(Site(kind=k, names=_names(p), open=_open(p) & {AXES[0]}) for k, p in pair)
    person = request.people[0]
    return (Site(kind="alone", names=_names(person), open=_open(person) | light),)


def _names(asked: PersonRequest) -> tuple[str, ...]:
    role = asked.parts.get("role", "none")
    special = [*(f"{c} {role}" for c in asked.concepts if role != "none"), " ".join(asked.concepts)]
    names = [*special, *asked.concepts, *(group_of(c) for c in asked.concepts)]
    return tuple(dict.fromkeys(name for name in names if name))


def _open(asked: PersonRequest) -> frozenset[Axis]:
    return frozenset(axis for axis in AXES[:-1] if axis[0] not in asked.allowed)


class Words:
    """Prompts as token ids, with the place of every noun."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.end = tokenizer.eos_token_id
        self.sides = tokenizer.convert_tokens_to_ids(list(KINDS[1:]))
        self._known: dict[str, list[int]] = {}

    def ids(self, prompts: Sequence[str]) -> torch.Tensor:
        """Token ids ``(n, 20)``."""
        tokens = self.tokenizer(list(prompts), padding="max_length", truncation=True, return_tensors="pt")
        ids: torch.Tensor = tokens["input_ids"]
        return ids

    def slots(self, ids: torch.Tensor, site: Site) -> torch.Tensor:
        """Which slot each of the 20 tokens of a prompt is, as its index in :data:`SLOTS`; -1 for none."""
        found, row = torch.full_like(ids, -1), ids.tolist()
        end = row.index(self.end) if self.end in row else len(row)
        found[end:] = SLOTS.index("rest")
        found[end : end + 1] = SLOTS.index("end")
        begin = 0
        if site.kind != "alone":
            left, right = (row.index(i) if i in row else end for i in self.sides)
            begin, end = (0, left) if site.kind == "left" else (left + 1, right)
            found[end : end + 1] = SLOTS.index("side")
        place = next((i for name in site.names if (i := self._last(row[begin:end], name)) >= 0), -1)
        if place >= 0:
            found[begin + place] = SLOTS.index("noun")
        return found

    def _last(self, row: list[int], name: str) -> int:
        """Index in ``row`` of the last word of ``name``, or -1."""
        told = self._known.setdefault(name, self._words(name))
        starts = [i for i in range(len(row) - len(told) + 1) if row[i : i + len(told)] == told]
        return starts[0] + len(told) - 1 if told and starts else -1

    def _words(self, name: str) -> list[int]:
        row: list[int] = self.tokenizer(name)["input_ids"]
        return row[1 : row.index(self.end)]


class Directions(torch.nn.Module):
    """A direction per axis and kind of site, at every slot: ``(kinds, axes, slots, d)``."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.at = torch.nn.Parameter(torch.zeros(len(KINDS), len(AXES), len(SLOTS), d))

    def forward(
        self, where: torch.Tensor, kind: torch.Tensor, offsets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What one site adds to the states ``(n, 20, d)`` and to the pooled embedding ``(n, d)``.

        Parameters
        ----------
        where : slot of each token, ``(n, 20)``, -1 for none.
        kind : index in :data:`KINDS`, ``(n,)``.
        offsets : of every axis, ``(n, 12)``.
        """
        moved = torch.einsum("na,nasd->nsd", offsets, self.at[kind])  # (n, slots, d)
        slot = where.clamp(min=0)[..., None].expand(-1, -1, moved.shape[-1])
        states = moved.gather(1, slot) * (where >= 0)[..., None]
        return states, moved[:, -1]


def naming(noun: str, axis: Axis, present: bool, rng: Random) -> str:
    """``noun`` told that an axis is there or is not; "" where no words say so.

    Examples
    --------
    >>> from random import Random
    >>> naming("doctor", ("beard", True), True, Random(0)), naming("doctor", ("mark", True), False, Random(0))
    ('doctor with a beard', '')
    """
    lights = {
        light: rng.choice([w for w, v in valence_words().items() if v == light])
        for light in ("bright", "gloomy")
    }
    return WORDS[axis][not present].format(noun, **lights)


def photo(noun: str) -> str:
    """The plain prompt of a noun."""
    return f"a photo of {with_article(noun)}"
