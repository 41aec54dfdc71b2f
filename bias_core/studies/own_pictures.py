"""Attributes in somebody's own pictures: OASIS's numbers per prompt, and what looks alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.clustering import spectral_clusters
from bias_core.studies.catalogue import find_attribute, load_attribute_sets
from bias_core.studies.oasis_cells import keep_readings, read_cells
from bias_core.studies.program import Program
from bias_core.studies.setting_fields import Options, setting, settings_class
from bias_core.studies.study_types import Design, Finding, Results, StudyFigure, StudyTable
from bias_core.studies.whom import keep_people

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.oasis_cells import Cell
    from bias_core.studies.program import Measuring
    from bias_core.studies.study_data import StudyData
    from bias_core.studies.study_types import Shot, StudySettings
    from bias_core.types import Attribute

ALL = "all pictures"
OWN_PICTURES = Design(
    name="own-pictures",
    title="Attributes in pictures of your own",
    kind="own_pictures",
    reference="dehdashtian2025oasis",
    where="Eqs. 1 to 5, on imported pictures",
    summary=(
        "How often a reader perceives each attribute in the pictures of each prompt, how far that is from "
        "the real-world rate P*, how much of the pictures' variety runs along it, and which look alike."
    ),
    options={"attributes": ["man", "old", "dark skin"], "groups": 0},
)
_FEWEST = 4  # pictures of a prompt that are scored by themselves
_MOST_PROMPTS = 24
_FOR_CLUSTERS = range(4, 3001)


@settings_class(frozen=True, kw_only=True)
class OwnPictureOptions(Options):
    """What is looked for in imported pictures."""

    attributes: tuple[str, ...] = setting(
        ("man", "old", "dark skin"),
        "Attributes",
        "Built-in names, or name|positive sentence|negative sentence|P*|source",
    )
    groups: int = setting(0, "Groups of look-alikes", "0: found from the pictures", ge=0, le=20)


def own_pictures(attributes: Sequence[str], groups: int = 0) -> Design:
    """The design with these attributes in it, which its command then need not name."""
    return replace(OWN_PICTURES, options={"attributes": list(attributes), "groups": groups})


def no_shots(design: Design, settings: StudySettings) -> list[Shot]:  # noqa: ARG001
    """None: all imported pictures are taken as they are."""
    return []


def measure_own(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """P, Ψ and WALS of every attribute, over all pictures and for each prompt with enough of them."""
    attributes = chosen_attributes(settings)
    frame = data.frame.reset_index(drop=True)
    if len(frame) < _FEWEST:
        raise InvalidInput(f"at least {_FEWEST} pictures are needed, got {len(frame)}")
    keep_people(data)
    rows = yield from data.embed(frame)
    cells = read_cells(data, ALL, frame, rows, attributes)
    keep_readings(data, frame, cells)
    scored, left_out = _prompts(frame)
    for prompt in scored:
        places = np.flatnonzero(frame["prompt"] == prompt)
        data.check()
        cells += read_cells(data, prompt, frame.iloc[places], rows[places], attributes)
    few = f"{left_out:,} prompts have too few pictures, or come too late, to be scored by themselves"
    notes = [f"{few}: they count in “{ALL}” only."] if left_out else []
    return Results(
        findings=tuple(finding for cell in cells for finding in _findings(cell)),
        tables=(_table(cells),),
        figures=(*_shares(cells), *_compared(cells), *_alike(settings, data, frame, rows)),
        notes=tuple(notes),
    )


def chosen_attributes(settings: StudySettings) -> list[Attribute]:
    """Of the option: built-in names, or ``name|positive sentence|negative sentence|P*|source``."""
    sets = load_attribute_sets()
    texts = [text for text in settings.options.attributes if str(text).strip()]
    if not texts:
        raise InvalidInput("no attribute to look for: give at least one")
    return [find_attribute(str(text), "", sets) for text in texts]


def _prompts(frame: pd.DataFrame) -> tuple[list[str], int]:
    """The prompts that are scored by themselves, those with most pictures first; how many are not."""
    counts = frame["prompt"].value_counts()
    if len(counts) == 1:
        return [], 0
    enough = list(counts[counts >= _FEWEST].index[:_MOST_PROMPTS])
    return enough, len(counts) - len(enough)


def _findings(cell: Cell) -> list[Finding]:
    attribute, key = cell.score.attribute, f"{cell.concept}-{cell.score.attribute.name}"
    name = f"{attribute.name}, {cell.concept}"
    found = [
        Finding(
            key=f"{key}-p",
            title=name,
            metric="attribute_prevalence",
            estimate=cell.prevalence,
            says=f"“{attribute.name}” is perceived in this share of the pictures.",
        )
    ]
    if attribute.reference is not None:
        says = "Ψ: how far that share lies above the real-world rate."
        found.append(
            Finding(
                key=f"{key}-psi", title=name, metric="stereotype_score", estimate=cell.stereotype, says=says
            )
        )
    if cell.concept == ALL:
        says = "WALS: how much of the pictures' variety runs along it."
        found.append(
            Finding(
                key=f"{key}-wals",
                title=name,
                metric="weighted_alignment_score",
                estimate=cell.score.wals,
                says=says,
            )
        )
    return found


def _table(cells: list[Cell]) -> StudyTable:
    records = [_record(cell) for cell in cells]
    return StudyTable(
        key="attributes",
        title="Attributes per prompt",
        frame=pd.DataFrame(records),
        note="P is corrected for the reader's errors where these are known, else as read. "
        "Ψ needs a real-world rate P*.",
    )


def _record(cell: Cell) -> dict[str, Any]:
    score, share = cell.score, cell.prevalence
    return {
        "pictures of": cell.concept,
        "attribute": score.attribute.name,
        "n": share.n,
        "P": share.value,
        "low": share.low,
        "high": share.high,
        "P*": np.nan if score.attribute.reference is None else score.attribute.reference,
        "Ψ": cell.stereotype.value,
        "WALS": score.wals.value,
        "spread": score.spread.value,
        "ties": score.n_ties,
    }


def _shares(cells: list[Cell]) -> list[StudyFigure]:
    """Of all pictures; an attribute that the reader cannot tell has no share."""
    rows = [
        {
            "name": cell.score.attribute.name,
            "value": cell.prevalence.value,
            "low": cell.prevalence.low,
            "high": cell.prevalence.high,
        }
        for cell in cells
        if cell.concept == ALL and np.isfinite(cell.prevalence.value)
    ]
    if not rows:
        return []
    return [
        StudyFigure(
            key="shares",
            title="How often each attribute is perceived",
            kind="intervals",
            data=pd.DataFrame(rows),
            labels={"x": "share of all pictures"},
            caption="A dot is the share of all imported pictures; its line is the interval.",
        )
    ]


def _compared(cells: list[Cell]) -> list[StudyFigure]:
    """Prompts against attributes, where there are several prompts."""
    rows = [
        {"row": c.concept, "column": c.score.attribute.name, "value": c.prevalence.value}
        for c in cells
        if c.concept != ALL and np.isfinite(c.prevalence.value)
    ]
    if not rows:
        return []
    return [
        StudyFigure(
            key="prompts",
            title="Which attribute belongs to which prompt",
            kind="heatmap",
            data=pd.DataFrame(rows),
            labels={"unit": "share of the prompt's pictures"},
            caption="Each cell is the share of a prompt's pictures in which the attribute is perceived.",
        )
    ]


def _alike(
    settings: StudySettings, data: StudyData, frame: pd.DataFrame, rows: np.ndarray
) -> list[StudyFigure]:
    """Groups of look-alikes, as a map; kept with every picture."""
    if len(frame) not in _FOR_CLUSTERS:
        return []
    wanted = int(settings.options.groups)
    found = spectral_clusters(
        rows, n_clusters=min(wanted, len(frame)) if wanted else None, seed=settings.seed
    )
    names = [f"group {label + 1}" for label in found.labels]
    data.keep(frame, looks_like=names)
    points = pd.DataFrame({"x": found.coordinates[:, 0], "y": found.coordinates[:, 1], "group": names})
    return [
        StudyFigure(
            key="alike",
            title="What looks alike",
            kind="scatter",
            data=points.sort_values("group", kind="stable").reset_index(drop=True),
            labels={"x": "first principal component", "y": "second"},
            caption="Each dot is a picture; pictures that the reader takes for alike lie close. "
            "The groups can be chosen in the list of pictures, as “looks_like”.",
        )
    ]


PROGRAMS = {
    "own_pictures": Program(
        shows_anything=True, shots=no_shots, measure=measure_own, options=OwnPictureOptions
    )
}
