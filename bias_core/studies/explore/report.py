"""A study's report of the kind "explore", read back: its pictures by number, and what was found of each."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.explore.options import KIND, OLD_KIND, explore_options
from bias_core.studies.explore.results import ALL, ASSOCIATION, ATTRIBUTES, CONCEPT, EIGENVALUES, KINDS, finding_key
from bias_core.studies.kit.attribute_scores import AttributeScore
from bias_core.studies.kit.setting_fields import option_values
from bias_core.types import Attribute, Estimate

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.studies.kit.types import Results, StudyReport, StudySettings
    from bias_core.types import ImageRow


@dataclass(frozen=True, kw_only=True)
class ExploredImage:
    """One numbered picture of the concept (or of an attribute side, by ``row.group``)."""

    number: int
    id: str
    path: Path
    row: ImageRow
    blocked: bool = False


@dataclass(frozen=True, kw_only=True)
class AssociationScore:
    """T2IAT's Eq. 2 for the concept: its mean, and the association of each scored picture, ``(n,)``."""

    attribute_a: str
    attribute_b: str
    mean: Estimate
    associations: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Groups of look-alikes, and a 2-D map.

    ``labels (n,)`` count from 0 by size; ``coordinates (n, 2)``; ``eigenvalues`` of the Laplacian, ascending.
    ``numbers (n,)`` are the pictures' own numbers (blocked and unfinished ones are left out).
    """

    labels: np.ndarray
    coordinates: np.ndarray
    eigenvalues: np.ndarray
    n_clusters: int
    numbers: tuple[int, ...]
    note: str = ""


class Exploration:
    """What a report says of each attribute and picture.

    Attributes
    ----------
    report : of the kind "explore".
    arm : which of its arms is looked at, where it has several.
    """

    def __init__(self, report: StudyReport, arm: int = 0) -> None:
        self.report, self.arm = report, arm

    @property
    def settings(self) -> StudySettings:
        """Of the run, or of the arm."""
        return self.report.arms[self.arm].settings if self.report.arms else self.report.settings

    @property
    def results(self) -> Results:
        """Of the run, or of the arm."""
        return self.report.arms[self.arm].results if self.report.arms else self.report.results

    @property
    def prompt(self) -> str:
        """What was drawn."""
        options = explore_options(self.settings)
        return "" if options.takes_all else options.prompts()[CONCEPT]

    @cached_property
    def images(self) -> tuple[ExploredImage, ...]:
        """The concept's pictures, those included that a safety checker blanked."""
        return self._numbered(CONCEPT)

    @cached_property
    def attribute_images(self) -> tuple[ExploredImage, ...]:
        """The pictures of both sides of the association."""
        return self._numbered("attribute_a") + self._numbered("attribute_b")

    @cached_property
    def scored_numbers(self) -> tuple[int, ...]:
        """Numbers of the pictures that the scores are of, in the order of every array over pictures."""
        numbers = {image.id: image.number for image in self.images}
        return tuple(numbers[image_id] for image_id in self._frame["image_id"])

    @cached_property
    def attributes(self) -> tuple[AttributeScore, ...]:
        """Every attribute with its numbers on all pictures."""
        table = self._table(ATTRIBUTES)
        if table is None:
            return ()
        rows = table[table["pictures of"] == ALL].to_dict("records")
        return tuple(map(self._score, rows))

    @cached_property
    def association(self) -> AssociationScore | None:
        """Which way the pictures lean; None where it was not measured."""
        found = self._estimates.get(ASSOCIATION)
        if found is None:
            return None
        options = option_values(self.settings.options)
        return AssociationScore(
            attribute_a=options["attribute_a"],
            attribute_b=options["attribute_b"],
            mean=found,
            associations=self._column(ASSOCIATION),
        )

    @cached_property
    def clusters(self) -> Clusters | None:
        """Groups of look-alikes; None where there are none."""
        table = next((t for t in self.results.tables if t.key == EIGENVALUES), None)
        if table is None or "looks_like" not in self._frame:
            return None
        labels = np.array([_group_number(name) for name in self._frame["looks_like"]], dtype=int)
        return Clusters(
            labels=labels,
            coordinates=np.column_stack([self._column("map_x"), self._column("map_y")]),
            eigenvalues=table.frame["eigenvalue"].to_numpy(float),
            n_clusters=len(set(labels.tolist())),
            numbers=self.scored_numbers,
            note=table.note,
        )

    @cached_property
    def _frame(self) -> pd.DataFrame:
        frame = self.report.pictures
        if frame is None or frame.empty:
            return pd.DataFrame({"image_id": []})
        if "arm" in frame and self.report.arms:
            frame = frame[frame["arm"] == self.report.arms[self.arm].name]
        concept = frame["group"].isin([CONCEPT, "imported"])
        return frame[concept].reset_index(drop=True)

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {finding.key: finding.estimate for finding in self.results.findings}

    def _numbered(self, group: str) -> tuple[ExploredImage, ...]:
        """The pictures of a group by their numbers: their seeds less the first one, where they were drawn."""
        stored, first = self.report.stored, self.settings.seed - 1
        numbers = {
            i: one.row.seed - first
            for i, one in stored.items()
            if one.row.group == group and (one.blocked or group != CONCEPT) and not self.report.arms
        }
        if group == CONCEPT and not self._frame.empty:
            kept = zip(self._frame["image_id"], self._frame["number"], strict=True)
            numbers |= {i: int(number) for i, number in kept if i in stored}
        return tuple(
            ExploredImage(number=numbers[i], id=i, path=stored[i].path, row=stored[i].row, blocked=stored[i].blocked)
            for i in sorted(numbers, key=lambda i: numbers[i])
        )

    def _score(self, row: dict[Any, Any]) -> AttributeScore:
        name = str(row["attribute"])
        attribute = Attribute(
            name=name,
            positive=str(row["positive"]),
            negative=str(row["negative"]),
            reference=_or_none(row["P*"]),
            reference_source=str(row["source of P*"]),
        )
        found = {kind.field: self._estimates.get(finding_key(ALL, name, end)) for end, kind in KINDS.items()}
        missing = _not_measured(int(row["n"]))
        return AttributeScore(
            attribute=attribute,
            corrected=found.pop("corrected"),
            **{field: estimate or missing for field, estimate in found.items()},
            drawn=_or_none(row["drawn"]),
            n_ties=int(row["ties"]),
            similarity_positive=self._column(f"{name}: positive").astype(np.float32),
            similarity_negative=self._column(f"{name}: negative").astype(np.float32),
        )

    def _column(self, name: str) -> np.ndarray:
        return self._frame[name].to_numpy(float) if name in self._frame else np.empty(0)

    def _table(self, key: str) -> pd.DataFrame | None:
        return next((table.frame for table in self.results.tables if table.key == key), None)


def is_exploration(report: StudyReport) -> bool:
    """Whether a report can be read as an exploration: those of own pictures once held less."""
    tables = [table.frame for table in report.results.tables if table.key == ATTRIBUTES]
    return report.design.kind in (KIND, OLD_KIND) and all("positive" in frame for frame in tables)


def estimates(score: AttributeScore) -> dict[str, Estimate]:
    """The estimates of one attribute by their field, those that exist."""
    found = {kind.field: getattr(score, kind.field) for kind in KINDS.values()}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def explore_values(report: StudyReport) -> dict[str, Any]:
    """What programs may ask of an exploration by name, beside what every study says."""
    if report.arms or not is_exploration(report):
        return {}
    seen = Exploration(report)
    attributes = [asdict(score.attribute) for score in seen.attributes]
    return {
        "prompt": seen.prompt,
        "settings": asdict(report.settings) | option_values(report.settings.options) | {"attributes": attributes},
        "attributes": [_attribute_values(score) for score in seen.attributes],
        "association": _association_values(seen.association),
        "clusters": None if seen.clusters is None else vars(seen.clusters),
        "images": image_rows(seen),
    }


def image_rows(seen: Exploration) -> list[dict[str, Any]]:
    """One row per picture: its number, everything that made it, and what was found of it."""
    kept = _kept(seen.report)
    return [
        {"number": image.number, "id": image.id, **asdict(image.row), "blocked": image.blocked} | kept.get(image.id, {})
        for image in (*seen.images, *seen.attribute_images)
    ]


def _kept(report: StudyReport) -> dict[str, dict[str, Any]]:
    frame = report.pictures
    if frame is None or frame.empty:
        return {}
    rows = frame.drop_duplicates("image_id").drop(columns=["group", "prompt", "seed", "number"], errors="ignore")
    for name in [name for name in rows if str(name).endswith(": perceived")]:
        rows[name] = rows[name].map({"yes": True, "no": False})
    if "looks_like" in rows:
        rows["cluster"] = rows["looks_like"].map(_group_number, na_action="ignore")
    return {
        row.pop("image_id"): {
            str(name): value for name, value in row.items() if not (isinstance(value, float) and math.isnan(value))
        }
        for row in rows.to_dict("records")
    }


def _group_number(name: str) -> int:
    return int(name.split()[-1]) - 1


def _attribute_values(score: AttributeScore) -> dict[str, Any]:
    numbers = {name: asdict(estimate) for name, estimate in estimates(score).items()}
    return asdict(score.attribute) | numbers | {"drawn": score.drawn, "n_ties": score.n_ties}


def _association_values(score: AssociationScore | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {"attribute_a": score.attribute_a, "attribute_b": score.attribute_b, "mean": asdict(score.mean)}


def _not_measured(n: int) -> Estimate:
    return Estimate(
        value=math.nan, low=math.nan, high=math.nan, n=n, null_value=0.0, note="no real-world rate P* was given"
    )


def _or_none(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
