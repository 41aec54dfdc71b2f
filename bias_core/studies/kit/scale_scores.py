"""What pictures show on a scale, such as ten skin tones: read by whoever has known errors on these pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.scales import CANNOT_TELL, AskedScale
from bias_core.stats.class_shares import ClassShares, class_shares, unbiased_scores
from bias_core.studies.kit.program import Steps, StudyData
from bias_core.types import ClassErrors

READ_AS = ": read as"  # how the column ends that says it of every picture


@dataclass(frozen=True, kw_only=True)
class ScaleScore:
    """What is known of one scale in some pictures."""

    request: AskedScale
    places: np.ndarray  # ``(n,)`` of levels, from 0; one more than the last where nothing can be told
    errors: ClassErrors
    drawn: tuple[int, ...] = ()  # pictures that really show each level, where that is on record

    @property
    def name(self) -> str:
        """Of the scale."""
        return self.request.scale.name

    @property
    def n_levels(self) -> int:
        """How many there are."""
        return len(self.request.scale.levels)

    @property
    def counts(self) -> np.ndarray:
        """Pictures read as each level, and last those of which nothing can be told."""
        return np.bincount(self.places, minlength=self.n_levels + 1)

    @property
    def clear_places(self) -> np.ndarray:
        """Places of levels ``(n,)``, nan where nothing can be told."""
        return np.where(self.places < self.n_levels, self.places, np.nan)

    @property
    def shares(self) -> ClassShares | None:
        """The share of every level, corrected for the reader's errors; None where it can tell of no picture."""
        try:
            return class_shares(self.counts, self.errors, has_unclear=True)
        except InvalidInput:
            return None

    @property
    def drawn_shares(self) -> np.ndarray | None:
        """The share of every level among those that are on record."""
        return np.array(self.drawn) / sum(self.drawn) if sum(self.drawn) else None

    def values(self, scores: Sequence[float]) -> np.ndarray:
        """What each picture counts so that their mean is that of the levels' ``scores``, nan where it can't be told."""
        counted = np.append(unbiased_scores(scores, self.errors, has_unclear=True), np.nan)
        values: np.ndarray = counted[self.places]
        return values

    @property
    def words(self) -> list[str]:
        """What every picture is read as."""
        names = (*self.request.scale.levels, CANNOT_TELL)
        return [names[place] for place in self.places]


def score_scales(
    data: StudyData, frame: pd.DataFrame, rows: np.ndarray, requests: Sequence[AskedScale]
) -> tuple[tuple[ScaleScore, ...], tuple[str, ...]]:
    """Every scale in the pictures of ``frame``, whose embeddings are ``rows (n, d)``; and why one is not shown."""
    scores, notes = list[ScaleScore](), list[str]()
    truths = [one.truth for one in data.stored(frame)]
    for one in requests:
        head = data.services.class_head(data.settings.encoder, data.settings.model, one.scale.name)
        if head is None or data.settings.images:
            notes.append(
                f"{one.scale.title}: of no reader here is it known how it errs on these pictures, so no number is "
                "shown. People can say it: make a task of this run."
            )
            continue
        drawn = tuple(_drawn(truths, one)) if all(truth is not None for truth in truths) else ()
        scores.append(ScaleScore(request=one, places=head.read(rows), errors=head.errors, drawn=drawn))
    return tuple(scores), tuple(notes)


def read_levels(
    data: StudyData, frame: pd.DataFrame, rows: np.ndarray, requests: Sequence[AskedScale], name: str
) -> Steps[tuple[tuple[ScaleScore, ...], tuple[str, ...]]]:
    """The same, where a reader of this ``name`` ("" for none) reads its own scale.

    How often it errs is not known, so what it says is kept beside each picture and no number rests on it; people's
    labels of some pictures are corrected by it (:mod:`bias_core.studies.running.corrected`).
    """
    if not name:
        return score_scales(data, frame, rows, requests)
    reader = data.services.scale_reader(name)
    others = [one for one in requests if one.scale.name != reader.scale]
    scores, notes = score_scales(data, frame, rows, others)
    own = next((one.scale for one in requests if one.scale.name == reader.scale), None)
    if own is None:
        return scores, (f"{name} reads {reader.scale} alone, which is none of the scales that were asked for.", *notes)
    words = yield from data.say(f"reading {own.name}", frame, reader, [own.name] * len(frame))
    data.keep(frame, **{f"{own.name}{READ_AS}": words})
    n_clear = len(words) - words.count(CANNOT_TELL)
    note = (
        f"{own.title}: {name} can tell it of {n_clear:,} of {len(words):,} pictures, and it stands beside each. It is "
        "not known how it errs on these pictures, so no number is shown before people have said it of some: make a "
        "task of this run."
    )
    return scores, (note, *notes)


def _drawn(truths: Sequence[Mapping[str, Any] | None], request: AskedScale) -> list[int]:
    """Pictures of one person by the level that is on record."""
    shown = [str(truth.get(request.scale.record)) for truth in truths if truth and truth.get("n_people") == 1]
    return [shown.count(level) for level in request.scale.levels]
