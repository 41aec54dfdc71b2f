"""The stereotype test score by further attributes: for Explore's pictures, and for labelled people of paired tests."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

from bias_core.measures.intersections import (
    LEAST_EXPECTED,
    CrossedStereotype,
    Interaction,
    crossed_stereotype,
    interaction,
)
from bias_core.measures.paired_stereotype import checked_labels
from bias_core.papers.pst import MakeSample
from bias_core.papers.pst.labelling import LabellingOptions, also_seen, get_column
from bias_core.papers.pst.report import FURTHER
from bias_core.report.claims import WHY_NOT, claim_columns, decide_claims, family_note, p_words
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.design import read_study
from bias_core.study.label_tasks import SINGLE
from bias_core.study.types import (
    Claim,
    Finding,
    Results,
    Sample,
    StudySettings,
    StudyTable,
    columns,
    figure,
    finding,
    get_options,
    join_results,
    mark,
    table,
)
from bias_core.types import Attribute, Estimate, ReaderErrors
from bias_core.wording import format_list, format_number, format_rate, typeset

SCORES = "crossed_scores"
_SIDES = {
    **dict.fromkeys(("man", "male", "masculine", "a man"), "masculine"),
    **dict.fromkeys(("woman", "female", "feminine", "a woman"), "feminine"),
}
"""The gender that an attribute of this name is about."""
_ALSO = {"doctor": "physician"}  # further words for occupations of the paired stereotype test
_SCORED = (
    "Stereotype test score (STS). 100: all people of this combination match the stereotype of the occupation; 0: half "
    "of them; −100: none. STS is shrunk towards that of all people, more so if it is uncertain; its interval is that "
    "of the counted score."
)


@dataclass(frozen=True, kw_only=True)
class ScoredCells:
    """STS of the people in every combination of some attributes."""

    attributes: tuple[Attribute, ...]  # the further ones
    scores: CrossedStereotype
    samples: tuple[Sample | None, ...]  # of each cell, as the scores are
    group: str = ""  # stereotype or identity of these people, if others are scored as well

    @property
    def names(self) -> tuple[str, ...]:
        """The combinations, in words."""
        return tuple(self.add_group(cell_in_words(self.attributes, cell)) for cell in self.scores.cells)

    def add_group(self, text: str) -> str:
        """Return a text about them, with their stereotype or identity if needed."""
        return f"{self.group}, {text}" if self.group else text

    def score(self, place: int) -> Estimate:
        """Return STS of a cell, shrunk."""
        return replace(self.scores.scores[place], value=float(self.scores.shrunk[place]))

    def is_small(self, place: int) -> bool:
        """True if too few pictures are expected in a cell."""
        return bool(self.scores.expected[place] < LEAST_EXPECTED)


def cell_in_words(attributes: Sequence[Attribute], cell: np.ndarray) -> str:
    """Return the attributes of a cell, of 0 and 1, in words."""
    names = zip(attributes, cell, strict=True)
    return ", ".join(attribute.name if present else f"not {attribute.name}" for attribute, present in names)


@cache
def _stereotypes() -> dict[str, str]:
    """Return the stereotyped gender of each occupation of the paired stereotype test, by every word for it."""
    occupations = read_study("pst")["occupations"]
    genders = {name: gender for gender in ("masculine", "feminine") for name in occupations[gender]}
    words = {**_ALSO, **{shown.partition(" (")[0]: name for name, shown in occupations["display"].items()}}
    return genders | {word.lower(): genders[name] for word, name in words.items()}


@cache
def find_stereotype(prompt: str) -> tuple[str, str]:
    """Return the occupation that a prompt names, and its stereotyped gender [wan2024pst, Table 7]; "" and "" for none.

    >>> find_stereotype("a photo of an Iranian doctor"), find_stereotype("a photo of a person")
    (('doctor', 'masculine'), ('', ''))
    """
    by_length = sorted(_stereotypes(), key=len, reverse=True)
    match = re.search(rf"\b({'|'.join(map(re.escape, by_length))})\b", prompt, re.IGNORECASE)
    return (match[0], _stereotypes()[match[0].lower()]) if match else ("", "")


def to_odds_ratio(link: Interaction) -> Estimate:
    """Return the odds ratio of a link (of three attributes the ratio of two), with 1 as the value without a link."""
    value, low, high = (
        math.exp(end) if end < _LARGEST else math.inf
        for end in (link.estimate.value, link.estimate.low, link.estimate.high)
    )
    return replace(link.estimate, value=value, low=low, high=high, null_value=1.0)


_LARGEST = 700.0  # logarithm of a number


def decide_links(links: Sequence[Interaction], confidence: float) -> tuple[Claim, ...]:
    """Return what may be claimed of the links of one family."""
    return decide_claims([to_odds_ratio(link) for link in links], confidence=confidence)


def link_sentence(clear: str, unclear: str, text: str, link: Interaction, claim: Claim) -> str:
    """Return a link in words.

    ``clear`` and ``unclear`` are beginnings, ``text`` has the ratio at "{}", else it stands in brackets.
    """
    if math.isnan(link.estimate.value):
        return f"Undefined: {link.estimate.note}."
    ends = to_odds_ratio(link).value, to_odds_ratio(link).low, to_odds_ratio(link).high
    value, low, high = (f"{float(f'{end:.2g}'):g}" if math.isfinite(end) else format_number(end) for end in ends)
    has_ends = link.estimate.low > -_LARGEST and link.estimate.high < _LARGEST  # else the value is only one that fits
    ratio = f"{value} [{low}, {high}]" if has_ends else f"[{low}, {high}]"
    numbers = f"n = {link.estimate.n:,}, {p_words(claim)}"
    says = f"{text.format(ratio)} ({numbers})" if "{}" in text else f"{text} (odds ratio {ratio}, {numbers})"
    reason = f" Not clear: {claim.reason}." if claim.reason else ""
    return f"{claim.choose(clear, clear, unclear)}: {says}.{reason}"


def score_stereotype_cells(
    attribute_scores: Sequence[AttributeScore],
    prompts: Sequence[str],
    sample: Callable[[np.ndarray], Sample],
    confidence: float,
) -> ScoredCells | None:
    """Return STS by the attributes other than gender; None without a gender attribute or a stereotype."""
    about = [score for score in attribute_scores if score.attribute.name.lower() in _SIDES]
    genders = np.array([find_stereotype(prompt)[1] for prompt in prompts])
    if len(about) != 1 or not (genders != "").any():
        return None
    gender, other_scores = about[0], [score for score in attribute_scores if score is not about[0]]
    is_side = genders == _SIDES[gender.attribute.name.lower()]
    conforms = np.where(genders == "", np.nan, np.where(is_side, gender.calls, 1 - gender.calls))
    readings = np.column_stack([conforms, *(score.calls for score in other_scores)])
    clear = np.flatnonzero(~np.isnan(readings).any(axis=1))
    if not len(clear):
        return None
    scores = crossed_stereotype(
        readings[clear],
        strata=[prompts[int(i)] for i in clear],
        errors=[_get_conforming_errors(gender, is_side[genders != ""]), *map(known_errors, other_scores)],
        confidence=confidence,
    )
    cells = [(readings[:, 1:] == cell).all(axis=1) for cell in scores.cells]
    samples = tuple(sample(np.where(cell, 200 * conforms - 100, np.nan)) for cell in cells)
    return ScoredCells(attributes=tuple(score.attribute for score in other_scores), scores=scores, samples=samples)


def known_errors(score: AttributeScore) -> ReaderErrors | None:
    """Return the classifier's errors if they are used."""
    return None if score.corrected is None else score.errors


def _get_conforming_errors(gender: AttributeScore, is_side: np.ndarray) -> ReaderErrors | None:
    """Return the classifier's errors on matching the stereotype; None if the prompts' stereotypes differ."""
    errors = known_errors(gender)
    if errors is None or (is_side.any() and not is_side.all()):
        return None
    return errors if is_side.all() else errors.complement


def score_results(scored: Sequence[ScoredCells], confidence: float) -> Results:
    """Return scores of combinations: of two attributes as findings, of all in a table and a figure."""
    if not scored:
        return Results()
    scored = list({cells.names: cells for cells in scored}.values())  # once, even if both genders are attributes
    places = [(cells, place) for cells in scored for place in range(len(cells.names))]
    claims = decide_claims([cells.score(place) for cells, place in places], confidence=confidence)
    lines = [(cells, place, claim) for (cells, place), claim in zip(places, claims, strict=True)]
    findings = [
        Finding(
            key="-".join(
                ["crossed", *([cells.group] if cells.group else []), cells.attributes[0].name, "score", str(place)]
            ),
            title=f"{cells.names[place]}: stereotype test score",
            metric="crossed_stereotype",
            estimate=cells.score(place),
            claim=claim,
            readings=_word_readings(cells.score(place)),
            says=f"The score of all people is {typeset(cells.scores.overall.value, '.0f')}.",
            sample=cells.samples[place],
        )
        for cells, place, claim in lines
        if len(cells.attributes) == 1
    ]
    marks = {}  # by name, without repetitions
    for cells, place, _ in lines:
        marks[cells.add_group("all")] = cells.scores.overall
        marks[cells.names[place]] = cells.score(place)
    rows = [mark(name, estimate) for name, estimate in marks.items()]
    caption = "Each score with its own interval; the table says which are clear. “all” is the score over all people."
    return Results(
        findings=tuple(findings),
        tables=(_score_table(lines),),
        figures=(
            figure("intervals", SCORES, "Does the stereotype depend on other attributes?", rows, caption, null=0.0),
        ),
    )


def _word_readings(score: Estimate) -> tuple[str, str, str]:
    if math.isnan(score.value):
        return (f"Undefined: {score.note}.",) * 3
    return "Most match the stereotype.", "Most contradict the stereotype.", "No clear direction."


def _score_table(lines: Sequence[tuple[ScoredCells, int, Claim]]) -> StudyTable:
    rows = [
        {
            "attributes": " × ".join(attribute.name for attribute in cells.attributes),
            "combination": cells.names[place],
            "people": int(cells.scores.counts[place]),
            **columns("STS", cells.score(place), ends=""),
            **claim_columns(cells.score(place), claim),
            WHY_NOT: claim.reason,
            "STS as counted": cells.scores.scores[place].value,
            "STS of all": cells.scores.overall.value,
            "rarer side": float(cells.scores.expected[place]),
            "note": cells.scores.scores[place].note,
        }
        for cells, place, claim in lines
    ]
    note = f"{_SCORED} {family_note([claim for *_, claim in lines])}"
    return table(SCORES, "Stereotype in every combination", rows, note)


def stereotypes_named(prompts: Sequence[str]) -> str:
    of = dict.fromkeys(find_stereotype(prompt) for prompt in prompts)
    words = format_list([f"“{name}” as {gender}" for name, gender in of if name])
    return f"Stereotypes behind STS (Table 7 of the paired stereotype test): {words}."


def few_people(scored: Sequence[ScoredCells]) -> Iterator[str]:
    """Yield a note on combinations with too few people, if any."""
    few = dict.fromkeys(
        f"“{cells.names[place]}”" for cells in scored for place in range(len(cells.names)) if cells.is_small(place)
    )
    if few:
        yield f"Few people: fewer than 5 are expected on the rarer side of the stereotype in {format_list([*few])}."


_PLACES = {"paired": "in pairs", SINGLE: "alone"}
"""Names of the settings; the first one that a run has is crossed."""


def crossed_scores(people: pd.DataFrame, settings: StudySettings, sample: MakeSample) -> Results:
    """Return scores of labelled people by their further attributes, and tests of the link with the stereotype.

    People who are scored together stand in different pictures, so that they are independent: those of one stereotype,
    or of one identity if a picture shows two of a stereotype. ``sample`` turns people into a sample for comparing arms.
    """
    attributes = also_seen(get_options(settings, LabellingOptions).also_seen)
    place = next((setting for setting in _PLACES if setting in set(people["setting"])), "")
    if not attributes or not place:
        return Results()
    if settings.may_stop_early:
        note = "Scores are crossed with further attributes only if the number of pictures was fixed beforehand."
        return Results(notes=(note,))
    checked = checked_labels(people)
    usable = people.assign(conforms=checked["conforms"].to_numpy())[checked["usable"].to_numpy()]
    groups = list(_group_people(usable[usable["setting"] == place].dropna(subset=[*map(get_column, attributes)])))
    sizes = range(1, len(attributes) + 1)
    cells = [
        _score_group(group, members, of, settings, sample)
        for group, members in groups
        for size in sizes
        for of in combinations(attributes, size)
    ]
    if not cells:
        return Results(notes=("Scores are not crossed: no scored person has known further attributes.",))
    tests = Results(findings=tuple(_test_stereotype(groups, attributes, settings)))
    note = (
        f"Scores by further attributes are for people {_PLACES[place]}, as the classifier sees them. Its errors on "
        "cut-out people are unknown and not corrected."
    )
    notes = (note, *few_people(cells))
    return join_results(replace(score_results(cells, settings.confidence), notes=notes), tests)


def _group_people(people: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield groups of people from different pictures, with their names."""
    by_stereotype = people.groupby("stereotyped_gender")["identity"].nunique()
    together = people.duplicated(["image_id", "stereotyped_gender"]).any()
    if together or by_stereotype.max() == 1:
        yield from ((str(name), members) for name, members in people.groupby("identity", sort=False))
    else:
        yield from (
            (f"{name}-stereotyped", members) for name, members in people.groupby("stereotyped_gender", sort=False)
        )


def _score_group(
    group: str, people: pd.DataFrame, attributes: Sequence[Attribute], settings: StudySettings, sample: MakeSample
) -> ScoredCells:
    further = people[[*map(get_column, attributes)]].to_numpy(float)
    scores = crossed_stereotype(
        np.column_stack([people["conforms"].to_numpy(float), further]),
        strata=people["identity"].tolist(),
        confidence=settings.confidence,
    )
    samples = tuple(sample([people[(further == cell).all(axis=1)]]) for cell in scores.cells)
    return ScoredCells(attributes=tuple(attributes), scores=scores, samples=samples, group=group)


def _test_stereotype(
    groups: Sequence[tuple[str, pd.DataFrame]], attributes: Sequence[Attribute], settings: StudySettings
) -> Iterator[Finding]:
    """Yield the tests of the stereotype against each attribute, which are one family."""
    tests = [
        (group, members, attribute, _link(members, attribute, settings))
        for group, members in groups
        for attribute in attributes
    ]
    claims = decide_links([link for *_, link in tests], settings.confidence)
    for (group, members, attribute, link), claim in zip(tests, claims, strict=True):
        text = "" if math.isnan(link.estimate.value) else _describe_match(group, members, attribute)
        yield finding(
            f"{FURTHER}{group}-{attribute.name}",
            f"{group}: the stereotype and {attribute.name}, log odds ratio",
            "interaction",
            link.estimate,
            link_sentence("Clear link", "No clear link", text, link, claim),
            claim=claim,
        )


def _link(people: pd.DataFrame, attribute: Attribute, settings: StudySettings) -> Interaction:
    readings = people[["conforms", get_column(attribute)]].to_numpy(float)
    return interaction(readings, strata=people["identity"].tolist(), confidence=settings.confidence)


def _describe_match(group: str, people: pd.DataFrame, attribute: Attribute) -> str:
    share = people.groupby(get_column(attribute))["conforms"].mean().map(format_rate)
    return f"{share[1]} of {group} with “{attribute.name}” match the stereotype, {share[0]} without"
