"""OASIS's cells: pictures of a nationality measured for one attribute, next to the paper's numbers."""

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import image_direction
from bias_core.measures.sequential import against, share_interval
from bias_core.measures.stereotype import signed_difference_estimate, stereotype_estimate, stereotype_score
from bias_core.prompts import SLOT, fill_template
from bias_core.report.arm_comparison import mean_sample, share_test
from bias_core.report.claims import decide_claims
from bias_core.run.attribute_scores import AttributeScore, score_attributes
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run, Steps
from bias_core.study.answers import count_answers, majority
from bias_core.study.attributes import to_attributes
from bias_core.study.design import ReportTexts, keep_only_options, read_study_table
from bias_core.study.label_tasks import YES_NO
from bias_core.study.types import (
    Claim,
    Design,
    Finding,
    Progress,
    Sample,
    Shot,
    StudySettings,
    StudyTable,
    columns,
    finding,
    get_options,
)
from bias_core.types import Attribute, Estimate
from bias_core.values import Options, option_values, setting, settings_class
from bias_core.wording import format_list

FEWEST_PICTURES = 8
PLAIN = "doctor"
_FEW_NATIONALITIES = 3  # that a summary names
_NOTABLE = 0.005


@settings_class(frozen=True, kw_only=True)
class NationalityOptions(Options):
    """The nationalities to draw, and the prompts."""

    nationalities: tuple[str, ...] = setting(
        ("Iranian", "Indian", "Mexican"), "Nationalities", "Nationalities to draw, from the study's list"
    )
    templates: str = setting(
        "default",
        "Templates",
        "Prompt templates: default, or sdv2 for four wordings in equal shares (the paper picks one at random)",
    )
    published_model: str = setting(
        "SDv2", "Model in the paper", "Model whose numbers in the paper are shown for comparison"
    )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One attribute in the pictures of one concept."""

    concept: str  # a nationality, or another concept such as "doctor"
    score: AttributeScore  # OASIS's numbers, with uncorrected P and Ψ
    units: tuple[str, ...]  # of its pictures, in the order of the score's similarities
    neither: float | None  # true share that neither sentence describes; None if unknown

    @property
    def attribute(self) -> Attribute:
        return self.score.attribute

    @property
    def prevalence(self) -> Estimate:
        """P corrected for the classifier's errors, or uncorrected if they are unknown."""
        return self.score.prevalence if self.score.corrected is None else self.score.corrected

    @property
    def stereotype(self) -> Estimate:
        """Ψ of :attr:`prevalence`; nan with a note without P*."""
        if self.score.corrected is None or self.attribute.reference is None:
            return self.score.stereotype
        return stereotype_estimate(self.score.corrected, self.attribute.reference)

    @property
    def signed_difference(self) -> Estimate:
        """P − P* of :attr:`prevalence`; nan with a note without P*."""
        if self.score.corrected is None or self.attribute.reference is None:
            return self.score.signed_difference
        return signed_difference_estimate(self.score.corrected, self.attribute.reference)

    def sample(self, reference: float | None = None) -> Sample | None:
        """Return the sample of P, or of Ψ if P* is given; None if the encoder tells nothing."""
        if math.isnan(self.score.prevalence.value) or not self.units:
            return None
        if self.score.corrected is None:
            return mean_sample(self.units, self.score.calls, reference=reference)
        return mean_sample(self.units, self.score.margins > 0, errors=self.score.errors, reference=reference)

    def excess_sample(self, reference: float) -> Sample | None:
        """Return the sample of P − P*; in two arms it differs as P does."""
        if (share := self.sample()) is None:
            return None
        return replace(share, statistic=lambda places: share.statistic(places) - reference, test=share_test)

    def share_in_words(self) -> str:
        """Say how P was computed, and its limits."""
        says = f"Uncorrected. {self.score.uncorrected_reason}."
        if self.score.corrected is not None:
            says = f"Seen in {100 * self.score.prevalence.value:.1f} %, then corrected for the classifier's errors."
        if self.score.cannot_tell is not None and self.score.cannot_tell.value > 0:
            says += f" The judge cannot tell for {100 * self.score.cannot_tell.value:.1f} % of the pictures."
        if self.neither and self.neither > _NOTABLE:
            says += f" Neither sentence describes {100 * self.neither:.1f} % of the pictures."
        return says


def nationality_shots(design: Design, settings: StudySettings, *, minimum: int = FEWEST_PICTURES) -> list[Shot]:
    """Return the pictures of each nationality, in equal shares of the templates; never fewer than ``minimum``."""
    templates = {k: v for k, v in design.data["templates"].items() if isinstance(v, list) and "{}" in v[0]}
    if (chosen := get_options(settings, NationalityOptions).templates) not in templates:
        raise InvalidInput(f"{design.name} has no templates {chosen!r}; it has {', '.join(templates)}")
    n, wordings = scaled(design.images_per_prompt, settings.scale, minimum=minimum), templates[chosen]
    firsts = [i * n // len(wordings) for i in range(len(wordings) + 1)]
    return [
        Shot(
            prompt=fill_template(template, design.data["nationalities"][nationality]["adjective"]),
            n=firsts[i + 1] - firsts[i],
            group=nationality,
            facts={"nationality": nationality},
            first_seed=firsts[i],
        )
        for nationality in wanted_nationalities(design, settings)
        for i, template in enumerate(wordings)
    ]


def wanted_nationalities(design: Design, settings: StudySettings) -> list[str]:
    """Return the nationalities of the option, each once."""
    all_names = design.data["nationalities"]
    names = list(dict.fromkeys(get_options(settings, NationalityOptions).nationalities))
    if unknown := [name for name in names if name not in all_names]:
        raise InvalidInput(f"{design.name} has no nationality {', '.join(unknown)}; it has {', '.join(all_names)}")
    return names


def shown_words(design: Design, settings: StudySettings) -> dict[str, str]:
    """Return what the pictures show, in words: people of the nationalities, or the user's own concepts."""
    names = wanted_nationalities(design, settings)
    templates = design.data["templates"][get_options(settings, NationalityOptions).templates]
    if not all(f"{SLOT} person" in template for template in templates):
        return {"shown": format_list([f"“{name}”" for name in names], last=" and ")}
    if len(names) > _FEW_NATIONALITIES:
        return {"shown": f"people of {len(names)} nationalities"}
    return {"shown": f"{format_list(names, last=' and ')} people"}


def own_attributes(design: Design, nationality: str) -> list[Attribute]:
    """Return the attributes that the design lists for a nationality, with their real-world rates."""
    return [*to_attributes(design.data["nationalities"][nationality]["attributes"])]


def own_by_nationality(design: Design, settings: StudySettings) -> dict[str, list[Attribute]]:
    """Return these attributes for every chosen nationality."""
    return {name: own_attributes(design, name) for name in wanted_nationalities(design, settings)}


def doctor_by_concept(design: Design) -> dict[str, list[Attribute]]:
    """Return the one attribute of Table 2, for doctors without a nationality and of each."""
    doctor = design.data["doctor"]
    names = [PLAIN, *(f"{nationality} {PLAIN}" for nationality in doctor["nationalities"])]
    return {name: [*to_attributes([doctor["attribute"]])] for name in names}


def read_cells(
    data: Run, concept: str, frame: pd.DataFrame, rows: np.ndarray, attributes: Sequence[Attribute], **variety: Any
) -> Steps[list[Cell]]:
    """Return OASIS's numbers for pictures with the embeddings ``rows (len(frame), d)``.

    ``variety`` is as in :func:`score_attributes`.
    """
    truths = [truth for truth in data.truths(frame) if truth is not None]
    units = tuple(frame["unit"])
    cells = []
    for score in (yield from score_attributes(data, frame, rows, attributes, **variety)):
        absent = data.services.share_shown(score.attribute.negative, truths) if truths else None
        neither = None if score.drawn is None or absent is None else max(0.0, 1 - score.drawn - absent)
        cells.append(Cell(concept=concept, score=score, units=units, neither=neither))
    return cells


def read_all_cells(
    data: Run,
    column: str,
    names: Sequence[str],
    attributes_of: Callable[[str], Sequence[Attribute]],
    variety_of: Callable[[np.ndarray], Mapping[str, Any]] = lambda _rows: {},
) -> Generator[Progress, None, dict[str, list[Cell]]]:
    """Return the cells of every concept that has pictures.

    Each picture keeps how much nearer it is to the sentence of presence than to that of absence (for a judge: the
    probability of yes minus that of no). ``variety_of`` returns the measure of variety from all embeddings.
    """
    rows = yield from data.embed(data.frame)
    cells, variety = {}, variety_of(rows)
    for name in names:
        data.check()
        chosen = data.frame[data.frame[column] == name]
        if len(chosen):
            cells[name] = yield from read_cells(data, name, chosen, rows[chosen.index], attributes_of(name), **variety)
            data.keep(chosen, **{f"{cell.attribute.name}: nearer by": cell.score.margins for cell in cells[name]})
    return cells


class Published:
    """Table 1 of the paper, and its models in their order; empty for designs without one."""

    def __init__(self, design: Design) -> None:
        self.rows = read_study_table(design.data["table1"]["file"]) if "table1" in design.data else []
        self.models = tuple(dict.fromkeys(row["model"] for row in self.rows))

    def share(self, cell: Cell, model: str, column: str) -> float | None:
        """Return a percentage of the paper as a share; None if there is none."""
        rows = (row for row in self.select_rows(cell.concept, model) if row["attribute"] == cell.attribute.name)
        return next((float(row[column]) / 100 for row in rows), None)

    def select_rows(self, nationality: str, model: str) -> list[dict[str, str]]:
        """Return the lines of a nationality's attributes."""
        return [row for row in self.rows if (row["nationality"], row["model"]) == (nationality, model)]

    def notes(self, concepts: Collection[str]) -> list[str]:
        """Return notes on misprints in the paper's numbers of these concepts."""
        names = ("nationality", "attribute", "model")
        return [
            f"In the paper's Table 1, {', '.join(row[name] for name in names)}: {row['note']}."
            for row in self.rows
            if row["note"] and row["nationality"] in concepts
        ]


OWN_KINDS = {"propagation": "SPI", "optimised_prompts": "StOP", "stereotypes_by_internet_users": "Ψ and internet users"}
"""Kinds of study that take other concepts, with their measures."""
MOST_OWN_PICTURES = 500


def own_concepts(
    design: Design, *, concepts: Sequence[str], template: str, attributes: Sequence[Attribute], n: int
) -> Design:
    """Return the design with these concepts, each with all attributes and ``n`` pictures."""
    names = list(dict.fromkeys(name.strip() for name in concepts if name.strip()))
    _check_own(design, names, template, attributes, n)
    entry = [asdict(attribute) for attribute in attributes]
    own_options = {**_OWN_OPTIONS, "nationalities": names}
    return replace(
        design,
        name=f"own-{design.name}",
        title=f"{design.title}: own words",
        data={
            "templates": {"default": [template.strip()]},
            "nationalities": {name: {"adjective": name, "attributes": entry} for name in names},
        },
        images_per_prompt=n,
        options={name: own_options.get(name, value) for name, value in design.options.items()},
        protocol={},
        our_reading=(),
    )


_OWN_OPTIONS: dict[str, Any] = {"nationalities": [], "templates": "default", "attributes": []}
"""Values for other concepts of the options that name contents of the shipped design."""


def without_names(settings: StudySettings) -> StudySettings:
    """Return settings for such a design: all of its pictures, and no option that names the shipped content."""
    return keep_only_options(settings, option_values(settings.options).keys() - _OWN_OPTIONS.keys())


def _check_words_fit(design: Design) -> None:
    if design.kind == "nationality_stereotypes":
        raise InvalidInput("for the shares of other concepts, write them into Explore, with commas between them")
    if not design.data:
        raise InvalidInput(f"the prompts and the attribute of “{design.title}” are options: change them below")
    if design.kind not in OWN_KINDS:
        raise InvalidInput(
            f"“{design.title}” compares with the paper's numbers and takes no other words; choose a study of "
            f"{', '.join(OWN_KINDS.values())} above"
        )


def _check_own(design: Design, names: list[str], template: str, attributes: Sequence[Attribute], n: int) -> None:
    _check_words_fit(design)
    if not names:
        raise InvalidInput("there is no concept; write at least one, such as nurse")
    if "{}" not in template:
        raise InvalidInput(f"the prompt needs {{}} where the concept goes, got {template!r}")
    if not 1 <= n <= MOST_OWN_PICTURES:
        raise InvalidInput(f"each concept can have 1 to {MOST_OWN_PICTURES} pictures, got {n}")
    if not attributes and design.kind != "optimised_prompts":
        raise InvalidInput("there is no attribute; write a name and two sentences in the table")
    if len({attribute.name for attribute in attributes}) < len(attributes):
        raise InvalidInput(f"two attributes have the same name: {', '.join(a.name for a in attributes)}")
    for attribute in attributes:
        if not (attribute.name and attribute.positive and attribute.negative):
            raise InvalidInput(
                "an attribute needs a name, a sentence for its presence and one for its absence, got "
                f"{attribute.name!r}, {attribute.positive!r}, {attribute.negative!r}"
            )
        if attribute.reference is not None and not 0 <= attribute.reference <= 1:
            raise InvalidInput(f"P* of {attribute.name} is a share from 0 to 1, got {attribute.reference}")


def cell_claims(cells: Sequence[Cell], threshold: float, confidence: float) -> tuple[Claim, ...]:
    """Return what may be claimed of each P against P* + ζ: one family of all cells with a sourced P*."""
    shares = [_add_p_beyond(cell, threshold, confidence) for cell in cells]
    nulls = [share.null_value if cell.attribute.has_source else None for cell, share in zip(cells, shares, strict=True)]
    return decide_claims(
        [share.replace_null_value(null) for share, null in zip(shares, nulls, strict=True)], confidence=confidence
    )


def _add_p_beyond(cell: Cell, threshold: float, confidence: float) -> Estimate:
    """Return P with p of the value above which it is a stereotype by Definition 1, P* + ζ; without P* P alone."""
    reference = cell.attribute.reference
    return against(cell.prevalence, None if reference is None else min(1.0, reference + threshold), confidence)


def cell_findings(
    cell: Cell, claim: Claim, model: str, threshold: float, published: Published, confidence: float
) -> list[Finding]:
    """Return P, and with a P* also P − P* and Ψ, next to the ground truth and the paper's numbers for ``model``."""
    reference, drawn = cell.attribute.reference, cell.score.drawn
    key, title = f"{cell.concept} {cell.attribute.name}", f"{cell.concept}, {cell.attribute.name}"
    printed, says = published.share(cell, model, "prevalence"), cell.share_in_words()
    of: dict[str, Any] = {"published": printed, "expected": drawn, "sample": cell.sample()}
    share = _add_p_beyond(cell, threshold, confidence)
    findings = [finding(f"{key} P", f"{title}: P", "attribute_prevalence", share, says, claim=claim, **of)]
    if reference is None:
        return findings
    of = {
        "published": None if printed is None else printed - reference,
        "expected": None if drawn is None else drawn - reference,
        "sample": cell.excess_sample(reference),
        "claim_of": f"{key} P",
    }
    readings = _threshold_readings(threshold) if cell.attribute.has_source else (_ASSUMED,) * 3
    beyond = cell.signed_difference
    findings.append(
        finding(f"{key} difference", f"{title}: P − P*", "signed_difference", beyond, readings=readings, **of)
    )
    says = "The paper's score: P − P* if above 0, else 0."
    of |= {
        "published": published.share(cell, model, "stereotype_score"),
        "expected": None if drawn is None else stereotype_score(drawn, reference),
        "sample": cell.sample(reference),
    }
    findings.append(finding(f"{key} stereotype", f"{title}: Ψ", "stereotype_score", cell.stereotype, says, **of))
    return findings


_ASSUMED = "P* is assumed, so no share is called too high or too low."


def _threshold_readings(threshold: float) -> tuple[str, str, str]:
    """Return the readings of Definition 1: P is clearly above P* + ζ, clearly below, or neither."""
    margin = f" by more than {threshold:g}" if threshold else ""
    return (
        f"Shown more often than in the real world{margin}.",
        f"Not shown more often than in the real world{margin}."
        if threshold
        else "Shown less often than in the real world, which is no stereotype.",
        f"Not clearly shown more often than in the real world{margin}.",
    )


TEXTS = ReportTexts(__file__)
Labels = Mapping[str, "pd.Series[float]"]
"""People's answers by attribute and picture id: 1 shown, 0 not shown, nan for ties and unclear pictures."""
_ANSWERS = dict(zip(YES_NO, (1.0, 0.0, np.nan), strict=True))


def people_labels(answers: pd.DataFrame) -> tuple[Labels, str]:
    """Return the majority answer for each picture, and a sentence on the number of answers."""
    says = f"{count_answers(answers)} P, P − P* and Ψ stay the classifier's."
    by_name = answers.groupby("position", sort=False)
    return {str(name): majority(picture_answers).map(_ANSWERS) for name, picture_answers in by_name}, says


def labelled_directions(
    labels: Labels, frame: pd.DataFrame, rows: np.ndarray, kernel: Literal["linear", "rbf"]
) -> dict[str, np.ndarray]:
    """Return δA of attributes with labelled pictures of both kinds [dehdashtian2025oasis, A.2]; ``rows (n, d)``."""
    is_first = ~frame["image_id"].duplicated().to_numpy()
    directions = {}
    for name, of_pictures in labels.items():
        shown = of_pictures.reindex(frame["image_id"]).to_numpy()
        known = is_first & ~np.isnan(shown)
        if len(np.unique(shown[known])) == len({0.0, 1.0}):
            directions[name] = image_direction(rows[known], shown[known], kernel=kernel)
    return directions


def accuracy_tables(
    labels: Labels,
    parts: Mapping[str, pd.DataFrame],
    confidence: float,
    published: Callable[[str, str], Mapping[str, float]],
) -> list[StudyTable]:
    """Return the classifier's accuracy against people, by attribute and part of the pictures; empty without labels.

    ``published`` are the paper's numbers of a part and an attribute.
    """
    rows: list[dict[str, Any]] = []
    for part, frame in parts.items():
        pictures = frame.drop_duplicates("image_id")
        for name, of_pictures in labels.items():
            if f"{name}: nearer by" not in pictures:  # a stopped run may lack some attributes
                continue
            margins = pictures[f"{name}: nearer by"].to_numpy(float)
            shown = of_pictures.reindex(pictures["image_id"]).to_numpy(float)
            known = ~np.isnan(shown) & ~np.isnan(margins)
            if n := int(known.sum()):
                right = share_interval(int(((margins > 0) == shown)[known].sum()), n, confidence=confidence)
                first = {"attribute": name, "pictures": part, **columns("accuracy", right), "labelled": n}
                rows.append({**first, **published(part, name)})
    return [TEXTS.table("accuracy", rows)] if rows else []
