"""Explore: a concept in one's own words, or pictures of one's own; what a reader perceives in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.association import association, mean_association
from bias_core.metrics.clustering import spectral_clusters
from bias_core.prompts import fill_template
from bias_core.studies.explore.arms import Scored, association_sample, compare_explorations
from bias_core.studies.explore.old_runs import OLD_SETTINGS, old_report
from bias_core.studies.explore.options import (
    KIND,
    NO_WORDS,
    OLD_KIND,
    ExploreOptions,
    OwnPictureOptions,
    explore_options,
    explore_words,
)
from bias_core.studies.explore.report import explore_values
from bias_core.studies.explore.results import (
    ALL,
    CONCEPT,
    Leaning,
    association_figure,
    association_finding,
    attribute_findings,
    attribute_table,
    eigenvalue_table,
    map_figure,
    picture_columns,
    prompt_figure,
    share_figure,
)
from bias_core.studies.kit.attribute_scores import AttributeScore, SentencePairs, read_sentences, score_attributes
from bias_core.studies.kit.kind import Program
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.types import Results, Shot
from bias_core.studies.running.identities import keep_people

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.metrics.clustering import ClusterResult
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.kind import Measuring
    from bias_core.studies.kit.types import Design, Finding, StudyFigure, StudySettings, StudyTable

_FEWEST = 4  # pictures that make a map, or that are scored as those of one prompt
_MOST_ON_MAP = 3000  # the similarity graph has n x n entries
_MOST_PROMPTS = 24


def explore_shots(design: Design, settings: StudySettings) -> list[Shot]:  # noqa: ARG001
    """The concept's pictures, then those of both sides of the association.

    Of pictures that were brought along those of these prompts are taken; without a concept all of them, so
    that there are no shots.
    """
    options = explore_options(settings)
    if options.takes_all:
        if not settings.images:
            fill_template(options.template, options.concept)
        return []
    n = {CONCEPT: options.n_images}
    return [
        Shot(prompt=prompt, n=scaled(n.get(group, options.n_attribute_images), settings.scale), group=group)
        for group, prompt in options.prompts().items()
    ]


def explore_title(design: Design, settings: StudySettings) -> str:
    """The concept's prompt; of pictures that were brought along, what they are."""
    options = explore_options(settings)
    if options.takes_all:
        return "Attributes in pictures of your own" if design.kind == KIND else design.title
    return fill_template(options.template, options.concept)


def measure_exploration(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """Every attribute on the concept's pictures, their lean, and which of them look alike."""
    options = explore_options(settings)
    keep_people(data)
    frame = data.frame.reset_index(drop=True)
    if not options.takes_all and len(frame):
        frame = frame[frame["group"] == CONCEPT]
    if settings.images and len(frame) < _FEWEST:
        raise InvalidInput(f"at least {_FEWEST} pictures are needed, got {len(frame)}")
    if frame.empty:
        return Results(notes=tuple(_notes(data, len(frame), missing=False)))
    rows = yield from data.embed(frame)
    scored = _Scored(options=options, data=data, frame=frame, rows=rows)
    leaning = yield from scored.leaning()
    return scored.results(leaning)


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """The pictures that are scored: their rows of the data frame, and their embeddings ``(n, d)``."""

    options: ExploreOptions
    data: StudyData
    frame: pd.DataFrame
    rows: np.ndarray

    def leaning(self) -> Any:
        """T2IAT's Eq. 2 for the concept; None where a side has no picture."""
        if not self.options.has_association:
            return None
        frames = [self.data.frame[self.data.frame["group"] == side] for side in NO_WORDS]
        if any(frame.empty for frame in frames):
            return None
        sides = [(yield from self.data.embed(frames[0])), (yield from self.data.embed(frames[1]))]
        return Leaning(
            words=(self.options.attribute_a, self.options.attribute_b),
            mean=mean_association(
                self.rows, *sides, confidence=self.data.settings.confidence, rng=self.data.settings.seed
            ),
            each=association(self.rows, *sides),
            rows=(self.rows, *sides),
            units=tuple(tuple(_units(one)) for one in (self.frame, *frames)),
        )

    def results(self, leaning: Leaning | None) -> Results:
        """All findings, tables and figures; what was found of each picture is kept with it."""
        whole, sentences = self._scores(slice(None))
        cells, compared = {ALL: whole}, self._compared(whole, sentences)
        prompts, left_out = self._prompts()
        for prompt in prompts:
            self.data.check()
            cells[prompt], _ = self._scores(np.flatnonzero(self.frame["prompt"] == prompt))
        alike = self._alike()
        self.data.keep(self.frame, number=self._numbers(), **picture_columns(cells[ALL], leaning, alike))
        missing = self.options.has_association and leaning is None
        few = f"{left_out:,} prompts have too few pictures, or come too late, to be scored by themselves"
        notes = [f"{few}: they count in “{ALL}” only."] if left_out else []
        return Results(
            findings=tuple(_findings(cells, leaning, compared)),
            tables=tuple(_tables(cells, alike)),
            figures=tuple(_figures(cells, leaning, alike)),
            notes=(*notes, *_notes(self.data, len(self.frame), missing=missing)),
            scored=compared,
        )

    def _compared(self, scores: Sequence[AttributeScore], sentences: SentencePairs) -> Scored:
        names = [score.attribute.name for score in scores]
        return Scored(
            units=tuple(_units(self.frame)),
            ids=tuple(self.frame["image_id"]),
            seeds=tuple(self.frame["seed"]),
            rows=self.rows,
            scores=tuple(scores),
            errors=sentences.errors,
            directions={names[i]: direction for i, direction in sentences.directions().items()},
        )

    def _scores(self, places: Any) -> tuple[tuple[AttributeScore, ...], SentencePairs]:
        settings, data = self.data.settings, self.data
        sentences = read_sentences(
            data.services,
            self.options.scored,
            encoder=settings.encoder,
            model=settings.model,
            truths=data.truths(self.frame.iloc[places]),
        )
        scores = score_attributes(
            self.options.scored, self.rows[places], sentences, confidence=settings.confidence, seed=settings.seed
        )
        return scores, sentences

    def _prompts(self) -> tuple[list[str], int]:
        """The prompts that are scored by themselves, those with most pictures first; how many are not."""
        counts = self.frame["prompt"].value_counts()
        if len(counts) == 1:
            return [], 0
        enough = list(counts[counts >= _FEWEST].index[:_MOST_PROMPTS])
        return enough, len(counts) - len(enough)

    def _alike(self) -> ClusterResult | None:
        n, chosen = len(self.rows), self.options.n_clusters
        if not _FEWEST <= n <= _MOST_ON_MAP:
            return None
        return spectral_clusters(self.rows, n_clusters=min(chosen, n) if chosen else None, seed=self.data.settings.seed)

    def _numbers(self) -> Sequence[int]:
        """By their seeds where they were drawn here, and one after the other otherwise."""
        settings = self.data.settings
        if settings.images:
            return range(1, len(self.frame) + 1)
        return [int(seed) - settings.seed + 1 for seed in self.frame["seed"]]


def _findings(
    cells: dict[str, tuple[AttributeScore, ...]], leaning: Leaning | None, compared: Scored
) -> Iterator[Finding]:
    for cell, scores in cells.items():
        of = f", {cell}" if len(cells) > 1 else ""
        yield from attribute_findings(cell, scores, of, compared.sample if cell == ALL else None)
    if leaning is not None:
        yield replace(association_finding(leaning), sample=association_sample(leaning))


def _units(frame: pd.DataFrame) -> Sequence[str]:
    return [str(unit) for unit in frame["unit" if "unit" in frame else "image_id"]]


def _tables(cells: dict[str, tuple[AttributeScore, ...]], alike: ClusterResult | None) -> Iterator[StudyTable]:
    yield from attribute_table(cells)
    if alike is not None:
        yield eigenvalue_table(alike)


def _figures(
    cells: dict[str, tuple[AttributeScore, ...]], leaning: Leaning | None, alike: ClusterResult | None
) -> Iterator[StudyFigure]:
    yield from share_figure(cells[ALL])
    yield from prompt_figure(cells)
    if leaning is not None:
        yield association_figure(leaning)
    if alike is not None:
        yield map_figure(alike)


def _notes(data: StudyData, n: int, *, missing: bool) -> Iterator[str]:
    if data.n_blocked:
        of = n + data.n_blocked
        yield (f"The model's safety checker blanked {data.n_blocked} of {of} pictures; they are not scored.")
    if not n:
        yield "There is no picture to score."
    if n > _MOST_ON_MAP:
        yield f"No clusters: they are made for at most {_MOST_ON_MAP:,} pictures."
    if missing:
        yield "No association: the pictures guided to the two attributes were not finished."
    if data.settings.images:
        return
    info = data.services.model_info(data.settings.model)
    if info.family == "renderer" and data.settings.negative_prompt:
        yield "The renderer has no negative prompt; it was ignored."
    if info.embedded and (data.settings.guidance_scale or 0) > 1:
        yield "Guidance above 1 sharpens the majority beyond the planted rates."


PROGRAM = Program(
    shots=explore_shots,
    measure=measure_exploration,
    options=ExploreOptions,
    title=explore_title,
    command=explore_words,
    old_settings=OLD_SETTINGS,
    old_report=old_report,
    values=explore_values,
    compare=compare_explorations,
    measures_when_stopped=True,
    shows_anything=True,
)
PROGRAMS = {KIND: PROGRAM, OLD_KIND: replace(PROGRAM, options=OwnPictureOptions)}
