"""Read a saved report of the kind "explore": its pictures by number, with the results of each."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bias_core.explore.options import KIND, explore_options
from bias_core.measures.association import association
from bias_core.measures.clustering import ClusterResult
from bias_core.report.claims import NO_CLAIM
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.design import PACK
from bias_core.study.types import Claim, StudyReport, StudyTable
from bias_core.types import Attribute, Estimate, StoredImage
from bias_core.values import option_values

CONCEPT = "concept"  # the group of the pictures that are scored
SCORED_GROUPS = (CONCEPT, "imported")  # or imported pictures
ASSOCIATION, ATTRIBUTES, EIGENVALUES = "association", "attributes", "eigenvalues"
BEYOND = "association-beyond"  # the association less that of an even mix
FIDELITY = "asked-kept"  # how often the words of the association are shown where the prompt has them


class Kind(NamedTuple):
    """One number of an attribute: its field in a score, its metric, its label, and its explanation."""

    field: str
    metric: str
    label: str
    says: str


KINDS: Mapping[str, Kind] = {
    "p": Kind("prevalence", "attribute_prevalence", "P",
              "Share of pictures in which the classifier sees the attribute."),
    "corrected": Kind("corrected", "attribute_prevalence", "P corrected",
                      "Share P, corrected for the classifier's known errors."),
    "true": Kind("true_rate", "attribute_prevalence", "true P",
                 "Share for this model and prompt, measured once on many other pictures."),
    "unclear": Kind("cannot_tell", "attribute_prevalence", "cannot tell",
                    "Share of pictures for which the judge cannot tell; P leaves them out."),
    "difference": Kind("signed_difference", "signed_difference", "P − P*",
                       "Share P minus P*: above 0, seen more often than P*; below 0, less often."),
    "psi": Kind("stereotype", "stereotype_score", "Ψ",
                "The paper's score: P − P* if above 0, else 0. On average it is above 0 even without bias."),
    "variance": Kind("variance_share", "variance_share", "share of variance",
                     "Part of the pictures' variance that lies along the attribute (0 none, 1 all)."),
    "wals": Kind("wals", "weighted_alignment_score", "WALS",
                 "Variety along the attribute (Eq. 7, centred, with |δ·u|); compare at equal numbers of pictures."),
}  # fmt: skip
"""Numbers of an attribute by the end of their key, in the order of reports."""


OF_THE_MODEL = "-true"
"""End of the key of a number that belongs to the model, independent of the run's pictures."""


@dataclass(frozen=True, kw_only=True)
class AssociationScore:
    """T2IAT's Eq. 2 for the concept: mean cosine to the pictures of A minus that to the pictures of B."""

    attribute_a: str
    attribute_b: str
    mean: Estimate
    associations: np.ndarray  # of each scored picture, ``(n,)``
    beyond: Estimate | None = None  # mean minus that of an even mix; None if unknown
    fidelity: Estimate | None = None  # share of pictures that show their prompt's word
    calls: tuple[np.ndarray, ...] = ()  # the same of each picture of A, and of B; () after a report was saved
    # rows, units: embeddings and units of the concept's pictures, of those of A, of those of B; () after a report was
    # saved
    rows: tuple[np.ndarray, ...] = ()
    units: tuple[tuple[str, ...], ...] = ()

    def compute_mean(self, places: np.ndarray) -> float:
        """Return the mean over some of the concept's pictures."""
        return float(association(self.rows[0][places], *self.rows[1:]).mean())


@dataclass(frozen=True, kw_only=True)
class ExploredImage(StoredImage):
    """One numbered picture of the concept (or of an attribute side, by ``row.group``)."""

    number: int
    id: str


@dataclass(frozen=True, kw_only=True)
class Clusters(ClusterResult):
    """Groups of similar pictures; ``numbers (n,)`` are the pictures' numbers, without blocked and unfinished ones."""

    numbers: tuple[int, ...]


class Exploration:
    """A report, or one of its arms, read by attribute and picture."""

    def __init__(self, report: StudyReport, arm: int = 0) -> None:
        part = report.arms[arm] if report.arms else report
        self.report, self.arm, self.settings, self.results = report, arm, part.settings, part.results

    @property
    def prompt(self) -> str:
        """The prompt of the concept's pictures."""
        options = explore_options(self.settings)
        return options.concept_prompt

    @cached_property
    def images(self) -> tuple[ExploredImage, ...]:
        """The concept's pictures, including blocked ones."""
        return self._numbered(CONCEPT)

    @cached_property
    def attribute_images(self) -> tuple[ExploredImage, ...]:
        """The pictures of both sides of the association."""
        return self._numbered("attribute_a") + self._numbered("attribute_b")

    @cached_property
    def scored_numbers(self) -> tuple[int, ...]:
        """Numbers of the scored pictures, in the order of every array over pictures."""
        numbers = {image.id: image.number for image in self.images}
        return tuple(numbers[image_id] for image_id in self._frame["image_id"])

    @cached_property
    def attributes(self) -> tuple[AttributeScore, ...]:
        """Every attribute with its numbers on all pictures."""
        if ATTRIBUTES not in self._tables:
            return ()
        frame = self._tables[ATTRIBUTES].frame
        rows = frame[frame["pictures of"] == ALL].astype(object)
        return tuple(map(self._score, rows.where(rows.notna(), None).to_dict("records")))

    @cached_property
    def shares_by_prompt(self) -> dict[str, dict[str, Estimate]]:
        """P of each attribute by prompt, or group of prompts; {} if all pictures have one prompt."""
        shares: dict[str, dict[str, Estimate]] = {}
        if ATTRIBUTES in self._tables:
            frame = self._tables[ATTRIBUTES].frame
            for cell, name in zip(frame["pictures of"], frame["attribute"], strict=True):
                if cell != ALL:
                    shares.setdefault(name, {})[cell] = self._estimates[finding_key(cell, name, "p")]
        return shares

    @cached_property
    def association(self) -> AssociationScore | None:
        """The association of the pictures; None if it was not measured."""
        if ASSOCIATION not in self._estimates:
            return None
        options = option_values(self.settings.options)
        return AssociationScore(
            attribute_a=options["attribute_a"],
            attribute_b=options["attribute_b"],
            mean=self._estimates[ASSOCIATION],
            associations=self._column(ASSOCIATION),
            beyond=self._estimates.get(BEYOND),
            fidelity=self._estimates.get(FIDELITY),
        )

    @cached_property
    def clusters(self) -> Clusters | None:
        """Groups of similar pictures; None if there are none."""
        if EIGENVALUES not in self._tables or "looks_like" not in self._frame:
            return None
        labels = np.array([_group_number(name) for name in self._frame["looks_like"]], dtype=int)
        return Clusters(
            labels=labels,
            coordinates=np.column_stack([self._column("map_x"), self._column("map_y")]),
            eigenvalues=self._tables[EIGENVALUES].frame["eigenvalue"].to_numpy(float),
            n_clusters=len(set(labels.tolist())),
            numbers=self.scored_numbers,
            note=self._tables[EIGENVALUES].note,
        )

    def claim(self, key: str) -> Claim:
        """Return what may be claimed of the number with this key."""
        claims = (finding.claim for finding in self.results.findings if finding.key == key)
        return next(filter(None, claims), NO_CLAIM)

    def explanation(self, key: str) -> str:
        """Return the sentence on the number with this key; "" without one."""
        return next((finding.says for finding in self.results.findings if finding.key == key), "")

    @cached_property
    def _frame(self) -> pd.DataFrame:
        frame = self.report.pictures
        if frame is None or frame.empty:
            return pd.DataFrame({"image_id": []})
        if "arm" in frame and self.report.arms:
            frame = frame[frame["arm"] == self.report.arms[self.arm].name]
        return frame[frame["group"].isin(SCORED_GROUPS)].reset_index(drop=True)

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {finding.key: finding.estimate for finding in self.results.findings}

    @cached_property
    def _tables(self) -> dict[str, StudyTable]:
        return {table.key: table for table in self.results.tables}

    def _numbered(self, group: str) -> tuple[ExploredImage, ...]:
        """Pictures of a group in the order of their numbers: seed minus first seed, if they were drawn here."""
        stored, first = self.report.stored, self.settings.seed - 1
        numbers = {
            i: image.row.seed - first
            for i, image in stored.items()
            if image.row.group == group and (image.blocked or group != CONCEPT) and not self.report.arms
        }
        if group == CONCEPT and not self._frame.empty:
            scored = zip(self._frame["image_id"], self._frame["number"], strict=True)
            numbers |= {i: int(number) for i, number in scored if i in stored}
        in_order = sorted(numbers, key=lambda i: numbers[i])
        return tuple(ExploredImage(number=numbers[i], id=i, **vars(stored[i])) for i in in_order)

    def _score(self, row: dict[Any, Any]) -> AttributeScore:
        name = str(row["attribute"])
        estimates = {kind.field: self._estimates.get(finding_key(ALL, name, end)) for end, kind in KINDS.items()}
        missing = Estimate.undefined(int(row["n"]), "no real-world rate P* was given", null_value=0.0)
        numbers: dict[str, Any] = {field: estimate or missing for field, estimate in estimates.items()}
        return AttributeScore(
            attribute=Attribute(
                name=name,
                positive=str(row["positive"]),
                negative=str(row["negative"]),
                reference=row["P*"],
                reference_source=str(row["source of P*"]),
            ),
            **numbers | {name: estimates[name] for name in ("corrected", "true_rate", "cannot_tell")},
            question=str(row.get("asked") or ""),
            drawn=row["drawn"],
            n_ties=int(row["ties"]),
            similarity_positive=self._column(f"{name}: positive").astype(np.float32),
            similarity_negative=self._column(f"{name}: negative").astype(np.float32),
        )

    def _column(self, name: str) -> np.ndarray:
        return self._frame[name].to_numpy(float) if name in self._frame else np.empty(0)


def is_exploration(report: StudyReport) -> bool:
    """Return True if a report can be read as an exploration."""
    return report.design.kind in (KIND, PACK)


def explore_values(report: StudyReport) -> dict[str, Any]:
    """Return the values of an exploration by name, in addition to those of every study."""
    if report.arms or not is_exploration(report):
        return {}
    shown = Exploration(report)
    lean, attributes = shown.association, []
    for score in shown.attributes:
        estimates = {kind.field: getattr(score, kind.field) for kind in KINDS.values()}
        numbers = {name: asdict(estimate) for name, estimate in estimates.items() if estimate is not None}
        attributes.append(asdict(score.attribute) | numbers | {"drawn": score.drawn, "n_ties": score.n_ties})
    return {
        "prompt": shown.prompt,
        "settings": asdict(report.settings)
        | option_values(report.settings.options)
        | {"attributes": [asdict(score.attribute) for score in shown.attributes]},
        "attributes": attributes,
        "association": lean
        and {"attribute_a": lean.attribute_a, "attribute_b": lean.attribute_b, "mean": asdict(lean.mean)}
        | ({"beyond": asdict(lean.beyond)} if lean.beyond else {}),
        "clusters": shown.clusters and vars(shown.clusters),
        "images": image_rows(shown),
    }


def image_rows(shown: Exploration) -> list[dict[str, Any]]:
    """Return one row per picture: its number, settings and results."""
    scored = _scored_values(shown.report)
    return [
        {"number": image.number, "id": image.id, **asdict(image.row), "blocked": image.blocked}
        | dict(zip(("width", "height"), image.size, strict=True))
        | scored.get(image.id, {})
        for image in (*shown.images, *shown.attribute_images)
    ]


def _scored_values(report: StudyReport) -> dict[str, dict[str, Any]]:
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
