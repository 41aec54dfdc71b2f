"""STS over what else is seen of people: do those who look old look more as the stereotype has it?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from bias_core.beyond.intersections.attributes import ratio_of
from bias_core.beyond.intersections.stereotypes import ScoredCells, few_people, score_results
from bias_core.measures.effects import holm
from bias_core.measures.intersections import Interaction, crossed_stereotype, interaction
from bias_core.measures.paired_stereotype import checked_labels
from bias_core.papers.pst import MakeSample
from bias_core.papers.pst.labelling import LabellingOptions, also_seen, column_of
from bias_core.papers.pst.report import FURTHER
from bias_core.study.design import ReportTexts
from bias_core.study.label_tasks import SINGLE
from bias_core.study.limits import stop_rule
from bias_core.study.types import Finding, Results, StudySettings, finding, joined, options_in
from bias_core.types import Attribute

TEXTS = ReportTexts(__file__)
_PLACES = {"paired": "in pairs", SINGLE: "alone"}
"""Settings of which the first that a run has is crossed, in words."""


def crossed_scores(people: pd.DataFrame, settings: StudySettings, sample: MakeSample) -> Results:
    """Scores of labelled people by what else is seen of them, and whether that goes with the stereotype.

    Everybody who is scored together stands in a picture of their own, so that people are independent: those of one
    stereotype, or of one identity where a picture shows two of a stereotype. ``sample`` makes of people what arms are
    compared by.
    """
    attributes = also_seen(options_in(settings, LabellingOptions).also_seen)
    place = next((one for one in _PLACES if one in set(people["setting"])), "")
    if not attributes or not place:
        return Results()
    if stop_rule(settings) is not None:
        return Results(notes=(TEXTS.note("not crossed"),))
    checked = checked_labels(people)
    usable = people.assign(conforms=checked["conforms"].to_numpy())[checked["usable"].to_numpy()]
    groups = list(_groups(usable[usable["setting"] == place].dropna(subset=[*map(column_of, attributes)])))
    sizes = range(1, len(attributes) + 1)
    cells = [
        _scored(who, some, of, settings, sample)
        for who, some in groups
        for size in sizes
        for of in combinations(attributes, size)
    ]
    if not cells:
        return Results(notes=(TEXTS.note("nobody to cross"),))
    tests = Results(findings=tuple(_tests(groups, attributes, settings)))
    notes = (TEXTS.note("crossed", place=_PLACES[place]), *few_people(cells))
    return joined(replace(score_results(cells), notes=notes), tests)


def _groups(people: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """People of whom no two stand in one picture, and who they are."""
    by_stereotype = people.groupby("stereotyped_gender")["identity"].nunique()
    together = people.duplicated(["image_id", "stereotyped_gender"]).any()
    if together or by_stereotype.max() == 1:
        yield from ((str(name), some) for name, some in people.groupby("identity", sort=False))
    else:
        yield from ((f"{name}-stereotyped", some) for name, some in people.groupby("stereotyped_gender", sort=False))


def _scored(
    who: str, people: pd.DataFrame, attributes: Sequence[Attribute], settings: StudySettings, sample: MakeSample
) -> ScoredCells:
    further = people[[*map(column_of, attributes)]].to_numpy(float)
    scores = crossed_stereotype(
        np.column_stack([people["conforms"].to_numpy(float), further]),
        strata=people["identity"].tolist(),
        confidence=settings.confidence,
    )
    samples = tuple(sample([people[(further == cell).all(axis=1)]]) for cell in scores.cells)
    return ScoredCells(attributes=tuple(attributes), scores=scores, samples=samples, who=who)


def _tests(
    groups: Sequence[tuple[str, pd.DataFrame]], attributes: Sequence[Attribute], settings: StudySettings
) -> Iterator[Finding]:
    """Whether looking as the stereotype has it goes with an attribute, corrected for all that is asked (Holm)."""
    tests = [(who, some, one, _link(some, one, settings)) for who, some in groups for one in attributes]
    corrected = holm([1.0 if math.isnan(link.p_value) else link.p_value for *_, link in tests])
    for (who, some, attribute, link), p_value in zip(tests, corrected, strict=True):
        if is_known := not math.isnan(link.p_value):
            begins = "More than chance" if p_value < 1 - settings.confidence else "Not told from chance"
            says = f"{begins}: {who} {_shares(some, attribute)} (odds ratio {ratio_of(link.estimate)})."
        else:
            says = f"Nothing can be told: {link.estimate.note}."
        yield finding(
            f"{FURTHER}{who}-{attribute.name}",
            f"{who}: the stereotype and {attribute.name}, log odds ratio",
            "interaction",
            link.estimate,
            says,
            p_value=float(p_value) if is_known else None,
        )


def _link(people: pd.DataFrame, attribute: Attribute, settings: StudySettings) -> Interaction:
    readings = people[["conforms", column_of(attribute)]].to_numpy(float)
    return interaction(readings, strata=people["identity"].tolist(), confidence=settings.confidence)


def _shares(people: pd.DataFrame, attribute: Attribute) -> str:
    share = 100 * people.groupby(column_of(attribute))["conforms"].mean()
    return f"with “{attribute.name}” look as the stereotype has it in {share[1]:.0f} %, without in {share[0]:.0f} %"
