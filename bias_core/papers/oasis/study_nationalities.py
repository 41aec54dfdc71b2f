"""OASIS: pictures of people of a nationality (Table 1, Figures 3 to 5), and of doctors of one (Table 2)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import percentile_estimate, with_p_through_ends
from bias_core.measures.stereotype import stereotype_score
from bias_core.papers.oasis.cells import (
    FEWEST_PICTURES,
    PLAIN,
    Cell,
    Labels,
    NationalityOptions,
    Published,
    accuracy_tables,
    cell_claims,
    cell_findings,
    doctor_by_concept,
    labelled_directions,
    nationality_shots,
    own_attributes,
    own_by_nationality,
    people_labels,
    read_all_cells,
    shown_words,
    wanted_nationalities,
)
from bias_core.papers.oasis.report import (
    BASE_RATES_NOTE,
    BEYOND,
    CLASSIFIER_NOTE,
    DIRECTION_NOTES,
    NOT_TESTED_NOTE,
    OTHER_ATTRIBUTES_NOTE,
    THREE_NATIONALITIES_NOTE,
    describe_added,
    describe_assumed_rates,
    describe_given_users,
    doctors_headline,
    stereotypes_headline,
    users_headline,
)
from bias_core.prompts import fill_template
from bias_core.report.arm_comparison import (
    ARM,
    arms_as_columns,
    counted_sample,
    find_finding,
    lines_together,
    marks_over_arms,
    table_over_arms,
    two_shares,
)
from bias_core.report.claims import NO_CLAIM, WHY_NOT, claim_columns, decide_claims, family_note, p_words
from bias_core.report.stop_rules import ShareValues
from bias_core.run.attribute_scores import watch_attributes
from bias_core.run.image_rows import scaled
from bias_core.run.run import complete
from bias_core.run.study_run import Run, Steps
from bias_core.study.attributes import to_attributes
from bias_core.study.design import ReportTexts
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    finding,
    finding_mark,
    get_options,
    get_scored_pictures,
    marks,
    or_nan,
    point,
)
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, Estimate
from bias_core.values import Options, setting, settings_class

TEXTS = ReportTexts(__file__)
N_RESAMPLES = 2000
SUMMARIES: Mapping[str, Callable[..., Any]] = {"mean": np.mean, "maximum": np.max}
"""Summaries of the stereotype scores of a nationality's attributes."""
HERE = "these pictures"
VARIETY = "share of variance"
_PEOPLE = 10_000  # millions: more than the people on earth
_THREE = 3
WALS = {"absolute": "WALS", "literal": "WALS, Eq. 7 as printed"}
"""Names of the two forms."""


@settings_class(frozen=True, kw_only=True)
class StereotypeOptions(NationalityOptions):
    labels_replace_reader: ClassVar = False

    threshold: float = setting(
        0.0,
        "Threshold ζ of Definition 1",
        "Gap P − P* above which an attribute counts as a stereotype; the paper leaves it to the user",
        ge=0,
        le=1,
    )
    wals: Literal["absolute", "literal"] = setting(
        "absolute",
        "WALS",
        "Form of WALS (variety along an attribute): absolute (centred, |δ·u|, components with 90 % of the energy) or "
        "literal (Eq. 7 as printed: signed, not centred, all components)",
    )
    direction: Literal["text", "linear", "rbf"] = setting(
        "text",
        "Direction δA",
        "Source of an attribute's direction: text (its two sentences, Eq. 6), or linear or rbf (people's labels, A.2)",
    )


def _measurable_shots(design: Design, settings: StudySettings) -> list[Shot]:
    model, models = get_options(settings, NationalityOptions).published_model, Published(design).models
    if models and model not in models:
        raise InvalidInput(f"Table 1 has no model {model!r}; it has {', '.join(models)}")
    for nationality in wanted_nationalities(design, settings):
        if not own_attributes(design, nationality):
            raise InvalidInput(f"{design.name} has no attributes for {nationality}")
    return nationality_shots(design, settings)


def _checked_by_people(results: Results, accuracy: Sequence[StudyTable], says: str) -> Results:
    """Return the results with the classifier's accuracy; ``says`` gives the number of answers."""
    return replace(results, tables=(*results.tables, *accuracy), notes=(says, *results.notes))


def _celeba(design: Design, _part: str, attribute: str) -> dict[str, float]:
    """Return the paper's accuracy of its classifier on CelebA (Table 5)."""
    printed = design.data.get("clip_accuracy", {}).get("celeba", {}).get(attribute)
    return {"in the paper, CelebA": math.nan if printed is None else printed / 100}


def _list_all_attributes(design: Design, nationality: str, nationalities: Sequence[str]) -> list[Attribute]:
    """Return a nationality's attributes, then those of the other nationalities without their P*."""
    attributes = {attribute.name: attribute for attribute in own_attributes(design, nationality)}
    for other_nationality in nationalities:
        for attribute in own_attributes(design, other_nationality):
            # A P* holds for its own nationality alone.
            attributes.setdefault(attribute.name, replace(attribute, reference=None, reference_source=""))
    return list(attributes.values())


def _table_row(cell: Cell, share: Finding, published: Published) -> dict[str, Any]:
    score, attribute, corrected = cell.score, cell.attribute, cell.score.corrected
    return {
        "nationality": cell.concept,
        "attribute": attribute.name,
        "P*": or_nan(attribute.reference),
        **columns("P", score.prevalence),
        **columns("P − P*", score.signed_difference),
        **columns("Ψ", score.stereotype),
        **columns("P corrected", corrected),
        "P − P* corrected": math.nan if corrected is None else cell.signed_difference.value,
        "Ψ corrected": math.nan if corrected is None else cell.stereotype.value,
        **claim_columns(share.estimate, share.claim or NO_CLAIM),
        "drawn": or_nan(score.drawn),
        "neither": or_nan(cell.neither),
        "n": score.prevalence.n,
        "ties": score.n_ties,
        **{
            f"{model} {symbol}": or_nan(published.share(cell, model, column))
            for model in published.models
            for symbol, column in (("P", "prevalence"), ("Ψ", "stereotype_score"))
        },
        "P* from": attribute.reference_source,
    }


def _figures(
    cells: Sequence[Cell],
    own_cells: Sequence[Cell],
    findings: Sequence[tuple[Cell, Finding]],
    variety: pd.DataFrame,
    settings: StudySettings,
) -> tuple[StudyFigure, ...]:
    """Return maps of P, P − P* and variety for all cells, and the other figures for a nationality's own attributes."""
    options = get_options(settings, StereotypeOptions)
    places = pd.DataFrame({"row": [c.attribute.name for c in cells], "column": [c.concept for c in cells]})
    maps = {
        "map-prevalence": [cell.prevalence.value for cell in cells],
        "map-stereotype": [cell.signed_difference.value for cell in cells],
        "map-variety": [cell.score.variance_share.value for cell in cells],
    }
    points = [point(c.score.wals.value, c.stereotype, group=c.concept, name=c.attribute.name) for c in own_cells]
    figures = [*drawable(TEXTS.figure(key, places.assign(value=values).dropna()) for key, values in maps.items())]
    wals = WALS[options.wals]
    figures.append(TEXTS.figure("figure5", points, wals=wals))
    for metric, key in (("attribute_prevalence", "prevalence"), ("signed_difference", "stereotype")):
        rows = [
            finding_mark(finding) | {"group": cell.concept, "name": cell.attribute.name}
            for cell, finding in findings
            if finding.metric == metric
        ]
        figures += drawable([TEXTS.figure(key, rows, model=options.published_model)])
    names = {"group": "nationality", "name": "attribute"}
    ends = {"value": VARIETY, "low": f"{VARIETY} low", "high": f"{VARIETY} high"}
    return (
        *figures,
        TEXTS.figure("figure4", marks(variety, names | {"value": wals}), wals=wals),
        TEXTS.figure("variety", marks(variety, names | ends)),
    )


def _table1(arms: Sequence[ArmReport]) -> pd.DataFrame:
    printed = arms[0].results.frame("table1")
    frame = printed[["nationality", "attribute", "P*"]].copy()
    keys = list(frame["nationality"] + " " + frame["attribute"])
    for arm in arms:
        for sign, ending in (("P", "P"), ("P − P*", "difference"), ("Ψ", "stereotype")):
            findings = [find_finding(arm, f"{key} {ending}") for key in keys]
            frame[f"{arm.name} {sign}"] = [math.nan if f is None else f.estimate.value for f in findings]
    models = [name.removesuffix(" Ψ") for name in map(str, printed) if name.endswith(" Ψ")]
    return frame.join(printed[[f"{model} {sign}" for model in models for sign in ("P", "Ψ")]])


@settings_class(frozen=True, kw_only=True)
class DoctorOptions(Options):
    """The paper's numbers to show next to the findings."""

    labels_replace_reader: ClassVar = False

    published_model: str = setting(
        "SDv2", "Model in the paper", "Model whose numbers in the paper are shown for comparison"
    )


_NOT_ADDED = Estimate.undefined(0, ""), NO_CLAIM


def _added(cells: Mapping[str, Cell], confidence: float) -> dict[str, tuple[Estimate, Claim]]:
    """Return uncorrected P of each nationality's doctors minus that of plain doctors, decided as one family."""
    added = {
        name: two_shares(cells[PLAIN].score.clear_calls, cell.score.clear_calls, confidence).estimate
        for name, cell in cells.items()
        if PLAIN in cells and name != PLAIN and cells[PLAIN].score.prevalence.n and cell.score.prevalence.n
    }
    claims = decide_claims([*added.values()], confidence=confidence)
    return {name: (estimate, claim) for (name, estimate), claim in zip(added.items(), claims, strict=True)}


def _share_finding(cell: Cell, published: float | None) -> Finding:
    comparison = {"published": published, "expected": cell.score.drawn, "sample": cell.sample()}
    says = cell.share_in_words()
    return finding(cell.concept, f"{cell.concept}: P(man)", "attribute_prevalence", cell.prevalence, says, **comparison)


_ADDED = ("Clearly more often men.", "Clearly less often men.", "Not clearly more or less often men.")


def _added_finding(concept: str, change: Estimate, claim: Claim) -> Finding:
    title, says = f"{concept}: P(man) minus that of a {PLAIN}", f"Fisher’s exact test: {p_words(claim)}."
    return finding(
        f"added {concept}", title, "prevalence_difference", change, says * bool(p_words(claim)),
        claim=claim, readings=_ADDED,
    )  # fmt: skip


@settings_class(frozen=True, kw_only=True)
class UserOptions(NationalityOptions):
    """The nationalities, and their numbers of internet users."""

    users: tuple[str, ...] = setting(
        (),
        "Users of further countries",
        "Users in millions by nationality, such as Nigerian=103; these are also drawn. Without a P*, man is measured "
        "with an assumed P* of 50 %",
    )


_BEYOND = (
    "On average clearly more often than in the real world.",
    "On average clearly less often than in the real world.",
    "Not clearly more or less often than in the real world.",
)


def _beyond_finding(name: str, estimate: Estimate, claim: Claim) -> Finding:
    return finding(
        f"{name} beyond", f"{name}: {BEYOND}", "signed_difference", estimate, f"Tested: {p_words(claim)}.",
        claim=claim, readings=_BEYOND,
    )  # fmt: skip


def with_further_users(design: Design, settings: StudySettings) -> tuple[Design, StudySettings]:
    """Return design and settings with the nationalities of the option ``users``; InvalidInput for invalid numbers."""
    options, data = get_options(settings, UserOptions), design.data
    if not (given := dict(map(_parse_users, options.users))):
        return design, settings
    nationalities = dict(data["nationalities"])
    for name in given:
        entry = {"adjective": name, "attributes": [], **nationalities.get(name, {})}
        if all(attribute["reference"] is None for attribute in entry["attributes"]):
            entry["attributes"] = data.get("further_attributes", [])
        nationalities[name] = entry
    users = {**data.get("internet_users", {}), **given}
    names = tuple(dict.fromkeys([*options.nationalities, *given]))
    return (
        replace(design, data={**data, "nationalities": nationalities, "internet_users": users}),
        replace(settings, options=replace(options, nationalities=names)),
    )


def _parse_users(text: str) -> tuple[str, float]:
    """Return a nationality and its internet users in millions.

    >>> _parse_users("South African = 45.3")
    ('South African', 45.3)
    """
    name, _, users = map(str.strip, text.partition("="))
    if not name or not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", users) or not 0 < float(users) < _PEOPLE:
        raise InvalidInput(f"users are millions by nationality, such as Nigerian=103; got {text!r:.200}")
    return name, float(users)


def _user_findings(
    name: str, users: float, cells: Sequence[Cell], data: Run, published: Published
) -> dict[str, Finding]:
    """Return mean and maximum of Ψ over the attributes of a nationality."""
    references = np.array([cell.attribute.reference for cell in cells], dtype=float)
    presence = np.column_stack([_corrected_answers(cell) for cell in cells])  # (n, n_attributes)
    n, settings = len(presence), data.settings
    counts = np.random.default_rng(settings.seed).multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES)

    def summed(of: Callable[..., Any], times: np.ndarray) -> np.ndarray:
        shares = times @ np.nan_to_num(presence) / (times @ ~np.isnan(presence))
        return np.asarray(of(np.maximum(0.0, np.clip(shares, 0.0, 1.0) - references), axis=1))

    drawn = [(cell.score.drawn, reference) for cell, reference in zip(cells, references, strict=True)]
    truths = [stereotype_score(share, reference) for share, reference in drawn if share is not None]
    largest = max(cells, key=lambda cell: cell.stereotype.value).attribute.name
    says = f"{users:g} million internet users; the largest score is that of {largest}."
    findings = {}
    for summary, of in SUMMARIES.items():
        value, resampled = float(summed(of, np.ones((1, n)))[0]), summed(of, counts)
        findings[summary] = finding(
            f"{name} {summary}",
            f"{name}: {summary} Ψ",
            "stereotype_score",
            percentile_estimate(value, resampled, n=n, confidence=settings.confidence, null_value=0.0),
            says,
            expected=float(of(truths)) if len(truths) == len(cells) else None,
            published=_published(published, name, get_options(settings, UserOptions).published_model, summary),
            sample=counted_sample(cells[0].units, partial(summed, of)),
        )
    return findings


def _corrected_answers(cell: Cell) -> np.ndarray:
    """Return each answer, corrected so that the mean is the prevalence of the cell [rogan1978, Eq. 1]."""
    calls, errors = (cell.score.margins > 0).astype(float), cell.score.errors
    if cell.score.corrected is None or errors is None:
        return cell.score.calls
    return (calls + errors.specificity - 1) / (errors.sensitivity + errors.specificity - 1)


def _mean_beyond(cells: Sequence[Cell], confidence: float) -> Estimate:
    """Return the mean of P − P* over attributes with a sourced P*.

    Its ends are the means of the attributes' ends. This is never too narrow, as a mean spreads no more than its parts
    do on average, and has a width where all pictures are alike.
    """
    gaps = [cell.signed_difference for cell in cells if cell.attribute.has_source]
    if not gaps:
        return Estimate.undefined(0, "no attribute has a real-world rate with a source")
    value, low, high = np.mean([[gap.value, gap.low, gap.high] for gap in gaps], axis=0).tolist()
    method = f"mean of {len(gaps)} attributes' intervals ({gaps[0].method})"
    n = min(gap.n for gap in gaps)
    return with_p_through_ends(
        Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method), confidence
    )


def _published(published: Published, nationality: str, model: str, summary: str) -> float | None:
    """Return a summary of the scores from the paper's shares; None if there are none."""
    scores = [
        stereotype_score(*(float(row[of]) / 100 for of in ("prevalence", "reference")))
        for row in published.select_rows(nationality, model)
    ]
    return float(SUMMARIES[summary](scores)) if scores else None


def _correlations(frame: pd.DataFrame, models: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Return the correlations of the number of users with the mean and the largest score, here and as published."""
    return [
        {"Ψ of": of, "summary": summary, "n": len(points), **_correlate(points, seed)}
        for of, summary in product((HERE, *models), SUMMARIES)
        for points in [frame[["users", f"{summary} Ψ" if of == HERE else f"{of} {summary}"]].dropna()]
    ]


def _correlate(points: ArrayLike, seed: int) -> dict[str, float]:
    x, y = np.array(points, dtype=float).reshape(-1, 2).T
    coefficients: dict[str, float] = {}
    for name, coefficient in (("Spearman", scipy.stats.spearmanr), ("Pearson", scipy.stats.pearsonr)):
        value, p_value = math.nan, math.nan
        if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
            options = {"permutation_type": "pairings", "vectorized": False, "n_resamples": 999, "rng": seed}
            test = scipy.stats.permutation_test((y,), lambda y, of=coefficient: float(of(x, y).statistic), **options)
            value, p_value = float(test.statistic), float(test.pvalue)
        coefficients |= {name: value, f"{name} p": p_value}
    return coefficients


def _mark_scores(frame: pd.DataFrame, summary: str, **names: str) -> pd.DataFrame:
    return marks(
        frame,
        {**names, "x": "users", "y": f"{summary} Ψ", **{f"y{end}": f"{summary} Ψ {end}" for end in ("low", "high")}},
    )


def _user_figure(frame: pd.DataFrame, points: Sequence[Mapping[str, Any]]) -> StudyFigure:
    """Return Figure 3, with one label per nationality."""
    parts = [_mark_scores(frame, summary, name="nationality").assign(group=summary) for summary in SUMMARIES]
    parts[1]["name"] = ""
    return TEXTS.figure("figure3", pd.concat([pd.DataFrame(points), *parts], ignore_index=True))


class _NationalityStudy(Study):
    """OASIS: shares of attributes in pictures of people of each nationality."""

    judged = "attributes"
    watches_shares = True
    fewest_when_stopped = 1

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return own_by_nationality(self.design, settings)

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        return watch_attributes(self.attributes(settings), data, frame, of_groups=True)


class NationalityStereotypes(_NationalityStudy):
    """OASIS, Table 2: the stereotype score of every nationality and attribute."""

    kind = "nationality_stereotypes"
    options = StereotypeOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        zeta = f"{get_options(settings, StereotypeOptions).threshold:g}"
        return {**shown_words(self.design, settings), "zeta": zeta}

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of each nationality; refuse options that cannot be used."""
        options = get_options(settings, StereotypeOptions)
        if options.direction != "text" and not settings.labels:
            raise InvalidInput(
                f"direction={options.direction} needs people's answers about pictures of this run, as a CSV in "
                "the setting labels: image_id, position (the attribute), answer (yes, no, cannot tell), rater"
            )
        return _measurable_shots(self.design, settings)

    def correct(self, report: StudyReport, answers: pd.DataFrame, services: StudyServices) -> StudyReport:
        """Return the report with the classifier's accuracy, and with directions from labelled pictures if asked for."""
        settings, results, frame = report.settings, report.results, get_scored_pictures(report)
        labels, says = people_labels(answers)
        if get_options(settings, StereotypeOptions).direction != "text":
            new_results = complete(self._measured(settings, Run.from_report(self, report, services), labels))
            results = replace(results.renewed(new_results), notes=results.notes)
        accuracy = accuracy_tables(labels, {"all": frame}, settings.confidence, partial(_celeba, self.design))
        return replace(report, results=_checked_by_people(results, accuracy, says))

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure P, P − P*, Ψ, WALS and the share of variance of every attribute for every nationality."""
        return self._measured(settings, data, {})

    def _measured(self, settings: StudySettings, data: Run, labels: Labels) -> Measuring:
        """Measure with people's labels; directions are nan for attributes without labels."""
        published, options = Published(self.design), get_options(settings, StereotypeOptions)
        nationalities = [
            n for n in wanted_nationalities(self.design, settings) if (data.frame["nationality"] == n).any()
        ]

        def get_variety_options(rows: np.ndarray) -> dict[str, Any]:
            kwargs = {"literal_wals": options.wals == "literal"}
            if options.direction == "text":
                return kwargs
            return kwargs | {"image_directions": labelled_directions(labels, data.frame, rows, options.direction)}

        read = yield from read_all_cells(
            data,
            "nationality",
            nationalities,
            lambda name: _list_all_attributes(self.design, name, nationalities),
            get_variety_options,
        )
        cells = [cell for name in nationalities for cell in read[name]]
        own_cells = [cell for name in nationalities for cell in read[name][: len(own_attributes(self.design, name))]]
        variety = pd.DataFrame(
            [
                {
                    "nationality": cell.concept,
                    "attribute": cell.attribute.name,
                    **columns(VARIETY, cell.score.variance_share),
                    WALS[options.wals]: cell.score.wals.value,
                    "n": cell.score.wals.n,
                }
                for cell in cells
            ]
        )
        model, threshold, confidence = options.published_model, options.threshold, settings.confidence
        claims = cell_claims(own_cells, threshold, confidence)
        by_cell = [
            cell_findings(cell, claim, model, threshold, published, confidence)
            for cell, claim in zip(own_cells, claims, strict=True)
        ]
        findings = [(cell, finding) for cell, of_cell in zip(own_cells, by_cell, strict=True) for finding in of_cell]
        table1 = [_table_row(cell, of_cell[0], published) for cell, of_cell in zip(own_cells, by_cell, strict=True)]
        return Results(
            findings=tuple(number for _, number in findings),
            tables=(
                TEXTS.table("table1", table1, family=family_note(claims, "attributes with a sourced rate")),
                TEXTS.table("figure4", variety),
            ),
            figures=_figures(cells, own_cells, findings, variety, settings),
            notes=(
                *published.notes(nationalities),
                *([] if options.direction == "text" else [DIRECTION_NOTES[options.direction]]),
                *([BASE_RATES_NOTE] if settings.condition == "fair" else []),
            ),
        )

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return Table 1 by arm; Figures 4 and 5 with a colour per arm and a marker per nationality."""
        by, wals = ["nationality", "attribute"], WALS[get_options(settings, StereotypeOptions).wals]
        arm_table = table_over_arms(arms, "figure4", by, [VARIETY, wals])
        tables = [
            TEXTS.table(key, arms_as_columns(arm_table, by, column), wals=wals)
            for key, column in (("figure4_arms", wals), ("variety_arms", VARIETY))
        ]
        bars, plane = marks_over_arms(arms, "figure4"), marks_over_arms(arms, "figure5")
        figures, markers = [], {"markers": list(dict.fromkeys(plane["group"]))}
        for i, (nationality, mine) in enumerate(bars.groupby("group", sort=False), start=1):
            rows = mine.assign(group=mine[ARM]).reset_index(drop=True)
            figures.append(TEXTS.figure("figure4_arms", rows, number=i, nationality=nationality, wals=wals))
        dots = plane[["x", "y"]].assign(group=plane[ARM], marker=plane["group"])
        figures.append(TEXTS.figure("figure5_arms", dots.dropna(ignore_index=True), markers, wals=wals))
        for i, nationality in enumerate(markers["markers"], start=1):
            mine = dots.assign(name=plane["name"])[plane["group"] == nationality].dropna(ignore_index=True)
            figures.append(
                TEXTS.figure("figure5_nationality", mine, markers, number=i, nationality=nationality, wals=wals)
            )
        return Results(tables=(TEXTS.table("table1_arms", _table1(arms)), *tables), figures=tuple(figures))

    def headline(self, report: StudyReport) -> str:
        return stereotypes_headline(report)


class DoctorPrevalence(_NationalityStudy):
    """OASIS, Fig. 2: attributes of doctors of each nationality."""

    kind = "doctor_prevalence"
    options = DoctorOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return pictures of doctors without a nationality, then of each."""
        doctor, published = self.design.data["doctor"], get_options(settings, DoctorOptions).published_model
        if published not in doctor["prevalence_man"]:
            models = ", ".join(doctor["prevalence_man"])
            raise InvalidInput(f"Table 2 has no model {published!r}; it has {models}")
        plain, national = doctor["templates"]
        prompts = {PLAIN: plain} | {f"{n} {PLAIN}": fill_template(national, n) for n in doctor["nationalities"]}
        n = scaled(self.design.images_per_prompt, settings.scale, minimum=FEWEST_PICTURES)
        return [
            Shot(prompt=prompt, n=n, group=concept, facts={"concept": concept}) for concept, prompt in prompts.items()
        ]

    def correct(self, report: StudyReport, answers: pd.DataFrame, services: StudyServices) -> StudyReport:
        """Return the report with the classifier's accuracy, for each concept."""
        frame, by_hand = get_scored_pictures(report), self.design.data["clip_accuracy"]["gender_of_doctors"]
        labels, says = people_labels(answers)

        def table4(concept: str, _attribute: str) -> dict[str, float]:
            return {f"{m}, in the paper": share / 100 if concept == PLAIN else math.nan for m, share in by_hand.items()}

        parts = {str(name): pictures for name, pictures in frame.groupby("concept", sort=False)}
        accuracy = accuracy_tables(labels, parts, report.settings.confidence, table4)
        return replace(report, results=_checked_by_people(report.results, accuracy, says))

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure P(man) of each concept, and the change with a nationality."""
        (attribute,) = to_attributes([self.design.data["doctor"]["attribute"]])
        read = yield from read_all_cells(
            data, "concept", list(map(str, dict.fromkeys(data.frame["concept"]))), lambda _concept: [attribute]
        )
        cells = {concept: concept_cells[0] for concept, concept_cells in read.items()}
        added = _added(cells, settings.confidence) if data.fixed_n else {}
        printed = {
            model: {name: share / 100 for name, share in of.items()}
            for model, of in self.design.data["doctor"]["prevalence_man"].items()
        }
        findings, table2, model = [], [], get_options(settings, DoctorOptions).published_model
        for name, cell in cells.items():
            findings.append(_share_finding(cell, printed[model].get(name)))
            table2.append(
                {
                    "concept": name,
                    **columns("P", cell.score.prevalence),
                    **columns("P corrected", cell.score.corrected),
                    "drawn": or_nan(cell.score.drawn),
                    "n": cell.score.prevalence.n,
                    **columns("added", added[name][0] if name in added else None),
                    **claim_columns(*added.get(name, _NOT_ADDED)),
                    WHY_NOT: added.get(name, _NOT_ADDED)[1].reason,
                    **{f"{model} P": of.get(name, math.nan) for model, of in printed.items()},
                }
            )
        family = family_note([claim for _, claim in added.values()], "concepts")
        note = describe_added(family) if data.fixed_n else NOT_TESTED_NOTE
        return Results(
            findings=(*findings, *(_added_finding(name, *change) for name, change in added.items())),
            tables=(TEXTS.table("table2", table2, added=note),),
            figures=(TEXTS.figure("table2", map(finding_mark, findings), model=model),),
            notes=(CLASSIFIER_NOTE,),
        )

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return doctor_by_concept(self.design)

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return Table 2 by arm, with lines for the paper's models, from the columns "<model> P" of the arms."""
        frame = table_over_arms(
            arms, "table2", ["concept"], ["P", "P corrected", "drawn", "n", "added", "p adjusted", "clear"]
        )
        printed = arms[0].results.frame("table2")
        lines = [
            printed[["concept"]].assign(**{ARM: f"{model}, in the paper"}, P=printed[f"{model} P"])
            for model in [name.removesuffix(" P") for name in map(str, printed) if name.endswith(" P")]
        ]
        frame = lines_together(pd.concat([frame, *lines], ignore_index=True), ["concept"])
        return Results(tables=(TEXTS.table("table2_arms", frame),))

    def headline(self, report: StudyReport) -> str:
        """Return how often doctors are shown as men."""
        return doctors_headline(report)


class StereotypesByInternetUsers(_NationalityStudy):
    """OASIS, Fig. 3: stereotype scores by each country's number of internet users."""

    kind = "stereotypes_by_internet_users"
    options = UserOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return what the pictures show, with further countries."""
        return shown_words(*with_further_users(self.design, settings))

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of each nationality; refuse one without known internet users or any P*."""
        self.design, settings = with_further_users(self.design, settings)
        users, names = self.design.data.get("internet_users", {}), wanted_nationalities(self.design, settings)
        if unknown := [n for n in names if n not in users]:
            raise InvalidInput(
                f"{self.design.name} does not know the internet users of {', '.join(unknown)}; give them in "
                f"millions, such as users={unknown[0]}=10"
            )
        if without := [
            n for n in names if all(attribute.reference is None for attribute in own_attributes(self.design, n))
        ]:
            raise InvalidInput(f"no attribute of {', '.join(without)} has a P*, so there is no stereotype score")
        return _measurable_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure mean and largest Ψ of every nationality, and their correlation with the number of users."""
        self.design, settings = with_further_users(self.design, settings)
        own_users = get_options(settings, UserOptions).users
        names, users = wanted_nationalities(self.design, settings), self.design.data["internet_users"]
        read = yield from read_all_cells(data, "nationality", names, lambda name: own_attributes(self.design, name))
        published = Published(self.design)
        findings: list[Finding] = []
        points: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        beyond: list[Estimate] = []
        for name, of_name in read.items():
            cells = [cell for cell in of_name if not math.isnan(cell.stereotype.value)]
            if not cells:
                raise InvalidInput(f"no attribute of {name} has a stereotype score: {of_name[0].stereotype.note}")
            own_findings = _user_findings(name, float(users[name]), cells, data, published)
            findings += own_findings.values()
            scores = {summary: columns(f"{summary} Ψ", finding.estimate) for summary, finding in own_findings.items()}
            first = {"nationality": name, "users": float(users[name]), **scores["mean"], **scores["maximum"]}
            printed = {
                f"{model} {summary}": or_nan(_published(published, name, model, summary))
                for model, summary in product(published.models, SUMMARIES)
            }
            beyond.append(_mean_beyond(cells, settings.confidence))
            rows.append(first | {"attributes": len(cells), "n": own_findings["mean"].estimate.n} | printed)
            points += [
                {"group": "attributes", "name": "", "x": float(users[name]), "y": cell.stereotype.value}
                for cell in cells
            ]
        claims = decide_claims(beyond, confidence=settings.confidence)
        for row, estimate, claim in zip(rows, beyond, claims, strict=True):
            row |= columns(BEYOND, estimate) | claim_columns(estimate, claim) | {WHY_NOT: claim.reason}
            if not math.isnan(estimate.value):
                findings.append(_beyond_finding(row["nationality"], estimate, claim))
        frame = pd.DataFrame(rows)
        assumed = list(frame.loc[frame[BEYOND].isna(), "nationality"])
        return Results(
            findings=tuple(findings),
            tables=(
                TEXTS.table("figure3", frame, family=family_note(claims, "nationalities with a sourced rate")),
                TEXTS.table("correlations", _correlations(frame, published.models, settings.seed)),
            ),
            figures=(_user_figure(frame, points),),
            notes=(
                *published.notes(list(read)),
                *([THREE_NATIONALITIES_NOTE] if len(read) == _THREE else []),
                OTHER_ATTRIBUTES_NOTE,
                *([describe_given_users("; ".join(own_users))] if own_users else []),
                *([describe_assumed_rates(", ".join(assumed))] if assumed else []),
            ),
        )

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return own_by_nationality(*with_further_users(self.design, settings))

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return Figure 3, for the mean and the largest stereotype score of each nationality."""
        scores = table_over_arms(arms, "figure3", ["nationality", "users"], ["mean Ψ", "maximum Ψ", "attributes", "n"])
        orders = table_over_arms(
            arms, "correlations", ["summary"], ["Spearman", "Spearman p", "Pearson", "Pearson p", "n"], {"Ψ of": HERE}
        )
        markers = {"markers": list(dict.fromkeys(scores["nationality"]))}
        figures = []
        for summary in SUMMARIES:
            shown = _mark_scores(scores.sort_values("users", kind="stable"), summary, marker="nationality", group=ARM)
            figures.append(TEXTS.figure("figure3_arms", shown, markers, summary=summary))
        return Results(
            tables=(TEXTS.table("figure3_arms", scores), TEXTS.table("correlations_arms", orders)),
            figures=tuple(figures),
        )

    def headline(self, report: StudyReport) -> str:
        """Say the distance from the real world, by the number of internet users."""
        return users_headline(report)
