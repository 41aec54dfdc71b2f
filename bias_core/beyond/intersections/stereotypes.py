"""The stereotype test score over crossed attributes: does the stereotype hang on what else is seen of people?"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bias_core.measures.intersections import LEAST_EXPECTED, CrossedStereotype, crossed_stereotype
from bias_core.number_text import typeset
from bias_core.study.attribute_scores import AttributeScore
from bias_core.study.design import read_study
from bias_core.study.types import Finding, Results, Sample, StudyTable, columns, figure, listed, mark, table
from bias_core.types import Attribute, Estimate, ReaderErrors

SCORES = "crossed_scores"
_SIDES = {
    **dict.fromkeys(("man", "male", "masculine", "a man"), "masculine"),
    **dict.fromkeys(("woman", "female", "feminine", "a woman"), "feminine"),
}
"""Which look an attribute of this name is about."""
_ALSO = {"doctor": "physician"}  # further words for occupations of the paired stereotype test
_SCORED = (
    "100: all people of this combination look as the stereotype of the occupation has it, −100: none, 0: one half. STS "
    "is drawn towards that of all, the more so the less sure it is; its interval is that of the score as counted."
)


@dataclass(frozen=True, kw_only=True)
class ScoredCells:
    """STS of the people in every combination of some attributes."""

    attributes: tuple[Attribute, ...]  # the further ones
    scores: CrossedStereotype
    samples: tuple[Sample | None, ...]  # of each cell, as the scores are
    who: str = ""  # these people are, where others are scored beside them

    @property
    def names(self) -> tuple[str, ...]:
        """The combinations, in words."""
        return tuple(self.named(cell_in_words(self.attributes, cell)) for cell in self.scores.cells)

    def named(self, text: str) -> str:
        """A text about them, with who they are where that must be said."""
        return f"{self.who}, {text}" if self.who else text

    def score(self, place: int) -> Estimate:
        """STS of a cell, shrunk."""
        return replace(self.scores.scores[place], value=float(self.scores.shrunk[place]))

    def is_small(self, place: int) -> bool:
        """Whether a cell can hardly be told."""
        return bool(self.scores.expected[place] < LEAST_EXPECTED)


def cell_in_words(attributes: Sequence[Attribute], cell: np.ndarray) -> str:
    """Which attributes a cell, of 0 and 1, has."""
    names = zip(attributes, cell, strict=True)
    return ", ".join(one.name if present else f"not {one.name}" for one, present in names)


@cache
def _stereotypes() -> dict[str, str]:
    """The stereotyped gender of each occupation of the paired stereotype test, by every word for it."""
    occupations = read_study("pst")["occupations"]
    genders = {name: gender for gender in ("masculine", "feminine") for name in occupations[gender]}
    words = {**_ALSO, **{shown.partition(" (")[0]: name for name, shown in occupations["display"].items()}}
    return genders | {word.lower(): genders[name] for word, name in words.items()}


@cache
def stereotype_of(prompt: str) -> tuple[str, str]:
    """The occupation that a prompt names, and its stereotyped gender [wan2024pst, Table 7]; "" and "" for none.

    >>> stereotype_of("a photo of an Iranian doctor"), stereotype_of("a photo of a person")
    (('doctor', 'masculine'), ('', ''))
    """
    by_length = sorted(_stereotypes(), key=len, reverse=True)
    match = re.search(rf"\b({'|'.join(map(re.escape, by_length))})\b", prompt, re.IGNORECASE)
    return (match[0], _stereotypes()[match[0].lower()]) if match else ("", "")


def score_cells(
    some: Sequence[AttributeScore], prompts: Sequence[str], sample: Callable[[np.ndarray], Sample], confidence: float
) -> ScoredCells | None:
    """STS over the attributes beside the one about gender; None where there is no such one, or no stereotype."""
    about = [one for one in some if one.attribute.name.lower() in _SIDES]
    genders = np.array([stereotype_of(prompt)[1] for prompt in prompts])
    if len(about) != 1 or not (genders != "").any():
        return None
    gender, others = about[0], [one for one in some if one is not about[0]]
    is_side = genders == _SIDES[gender.attribute.name.lower()]
    conforms = np.where(genders == "", np.nan, np.where(is_side, gender.calls, 1 - gender.calls))
    readings = np.column_stack([conforms, *(one.calls for one in others)])
    clear = np.flatnonzero(~np.isnan(readings).any(axis=1))
    if not len(clear):
        return None
    scores = crossed_stereotype(
        readings[clear],
        strata=[prompts[int(i)] for i in clear],
        errors=[_of_conforming(gender, is_side[genders != ""]), *map(known_errors, others)],
        confidence=confidence,
    )
    cells = [(readings[:, 1:] == cell).all(axis=1) for cell in scores.cells]
    samples = tuple(sample(np.where(here, 200 * conforms - 100, np.nan)) for here in cells)
    return ScoredCells(attributes=tuple(one.attribute for one in others), scores=scores, samples=samples)


def known_errors(score: AttributeScore) -> ReaderErrors | None:
    """The reader's errors where they are used."""
    return None if score.corrected is None else score.errors


def _of_conforming(gender: AttributeScore, is_side: np.ndarray) -> ReaderErrors | None:
    """The reader's errors on looking as the stereotype has it; None where the prompts' stereotypes are unlike."""
    errors = known_errors(gender)
    if errors is None or (is_side.any() and not is_side.all()):
        return None
    return errors if is_side.all() else errors.of_absence


def score_results(scored: Sequence[ScoredCells]) -> Results:
    """Scores of combinations: of two attributes as findings, of all in a table and in a figure."""
    if not scored:
        return Results()
    scored = list({one.names: one for one in scored}.values())  # once where both genders are looked for
    lines = [(one, place) for one in scored for place in range(len(one.names))]
    findings = [
        Finding(
            key="-".join(["crossed", *([one.who] if one.who else []), one.attributes[0].name, "score", str(place)]),
            title=f"{one.names[place]}: stereotype test score",
            metric="crossed_stereotype",
            estimate=one.score(place),
            says=_score_says(one.score(place), one.scores.overall),
            sample=one.samples[place],
        )
        for one, place in lines
        if len(one.attributes) == 1
    ]
    marks = {}  # by their names, so that each stands once
    for one, place in lines:
        marks[one.named("all")] = one.scores.overall
        marks[one.names[place]] = one.score(place)
    rows = [mark(name, estimate) for name, estimate in marks.items()]
    caption = "Where intervals hold the line at 0, no lean is clear. “all” is the score whatever else people look like."
    return Results(
        findings=tuple(findings),
        tables=(_score_table(lines),),
        figures=(
            figure("intervals", SCORES, "Does the stereotype hang on what else is seen?", rows, caption, null=0.0),
        ),
    )


def _score_says(score: Estimate, overall: Estimate) -> str:
    if math.isnan(score.value):
        return f"Undefined: {score.note}."
    says = "No clear lean either way"
    if not score.low <= 0 <= score.high:
        says = "Looks as the stereotype has it" if score.value > 0 else "Looks against the stereotype"
    return f"{says}; of all people it is {typeset(overall.value, '.0f')}."


def _score_table(lines: Sequence[tuple[ScoredCells, int]]) -> StudyTable:
    rows = [
        {
            "attributes": " × ".join(attribute.name for attribute in one.attributes),
            "combination": one.names[place],
            "people": int(one.scores.counts[place]),
            **columns("STS", one.score(place), ends=""),
            "STS as counted": one.scores.scores[place].value,
            "STS of all": one.scores.overall.value,
            "rarer side": float(one.scores.expected[place]),
            "note": one.scores.scores[place].note,
        }
        for one, place in lines
    ]
    return table(SCORES, "Stereotype in every combination", rows, _SCORED)


def stereotypes_named(prompts: Sequence[str]) -> str:
    """A note on the stereotypes of the occupations in these prompts."""
    of = dict.fromkeys(stereotype_of(prompt) for prompt in prompts)
    words = listed([f"“{name}” as {gender}" for name, gender in of if name])
    return f"STS of combinations: the paired stereotype test (its Table 7) has {words}."


def few_people(scored: Sequence[ScoredCells]) -> Iterator[str]:
    """A note on the combinations that can hardly be told; nothing where there is none."""
    few = dict.fromkeys(
        f"“{one.names[place]}”" for one in scored for place in range(len(one.names)) if one.is_small(place)
    )
    if few:
        yield f"Few people: fewer than 5 are to be expected on the rarer side of the stereotype in {listed([*few])}."
