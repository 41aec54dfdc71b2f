"""OASIS: how people of a nationality (Table 1, Figures 4 and 5) and doctors of one (Table 2) are shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import stereotype_score
from bias_core.prompts import fill_template
from bias_core.stats.effects import benjamini_hochberg
from bias_core.studies.arms.statistics import (
    ARM,
    arms_as_columns,
    finding_of,
    lines_together,
    marks_over_arms,
    table_over_arms,
    two_shares,
)
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    drawable,
    figure,
    finding,
    finding_mark,
    or_nan,
    point,
    table,
)
from bias_core.studies.origins.cells import (
    FEWEST_PICTURES,
    Cell,
    NationalityOptions,
    Published,
    nationality_shots,
    own_attributes,
    read_concepts,
    to_attribute,
    wanted_nationalities,
)
from bias_core.types import Attribute, Estimate

PLAIN = "doctor"


@settings_class(frozen=True, kw_only=True)
class StereotypeOptions(NationalityOptions):
    """Of whom, and what counts as a stereotype."""

    threshold: float = setting(0.0, "Threshold ζ of Definition 1", "The paper leaves it to the user", ge=0, le=1)


def stereotype_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of each nationality; refuses options that cannot be measured."""
    model, models = settings.options.published_model, Published(design).models
    if models and model not in models:
        raise InvalidInput(f"Table 1 has no model {model!r}; it has {', '.join(models)}")
    for nationality in wanted_nationalities(design, settings):
        if not own_attributes(design, nationality):
            raise InvalidInput(f"{design.name} has no attributes for {nationality}")
    return nationality_shots(design, settings)


def measure_nationalities(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """P, Ψ, WALS and spread of every attribute for every nationality."""
    published = Published(design)
    nationalities = [n for n in wanted_nationalities(design, settings) if (data.frame["nationality"] == n).any()]
    read = yield from read_concepts(
        data, "nationality", nationalities, lambda name: _with_those_of_others(design, name, nationalities)
    )
    cells = [cell for name in nationalities for cell in read[name]]
    own = [cell for name in nationalities for cell in read[name][: len(own_attributes(design, name))]]
    variety = pd.DataFrame([_variety(cell) for cell in cells])
    findings = [(cell, one) for cell in own for one in _findings(cell, settings, published)]
    return Results(
        findings=tuple(one for _, one in findings),
        tables=(
            table("table1", "Stereotype scores (Table 1)", [_table_row(c, published) for c in own], _COLUMNS),
            table("figure4", "Variety along attributes (Figure 4)", variety, _WALS),
        ),
        figures=(*_heatmaps(cells), *_figures(own, findings, variety, settings)),
        notes=(*published.notes(nationalities), *([] if all(c.score.drawn is None for c in own) else [_BASE_RATES])),
    )


_COLUMNS = (
    "P: share in which the reader sees the attribute. Ψ = max(0, P − P*). Corrected: with the reader's known errors "
    "taken into account. Drawn: share of these pictures that really show it; neither: share that neither sentence "
    "describes, which is read as the one or the other. Then what the paper printed, as shares."
)
_WALS = (
    "WALS: share of the pictures' variety along the attribute. Spread: its standard deviation, in cosine. "
    "Attributes of the other nationalities are read here too."
)
_BASE_RATES = (
    "P* are real-world rates. Where nothing is planted (fair), all nationalities have the base rates of "
    "the calibration world, which are not P*: Ψ need not be 0 there."
)


def _with_those_of_others(design: Design, nationality: str, nationalities: Sequence[str]) -> list[Attribute]:
    """Its own attributes, then those of the other nationalities, whose P* are not its own."""
    attributes = {attribute.name: attribute for attribute in own_attributes(design, nationality)}
    for other in nationalities:
        for attribute in own_attributes(design, other):
            attributes.setdefault(attribute.name, replace(attribute, reference=None, reference_source=""))
    return list(attributes.values())


def _table_row(cell: Cell, published: Published) -> dict[str, Any]:
    score, attribute, corrected = cell.score, cell.attribute, cell.score.corrected
    return {
        "nationality": cell.concept,
        "attribute": attribute.name,
        "P*": or_nan(attribute.reference),
        **columns("P", score.prevalence),
        **columns("Ψ", score.stereotype),
        "P − P*": score.signed_difference.value,
        **columns("P corrected", corrected),
        "Ψ corrected": math.nan if corrected is None else cell.stereotype.value,
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


def _variety(cell: Cell) -> dict[str, Any]:
    wals, spread = columns("WALS", cell.score.wals), columns("spread", cell.score.spread)
    return {"nationality": cell.concept, "attribute": cell.attribute.name, **wals, **spread, "n": cell.score.wals.n}


def _findings(cell: Cell, settings: StudySettings, published: Published) -> list[Finding]:
    reference, drawn, model = cell.attribute.reference, cell.score.drawn, settings.options.published_model
    key, title = f"{cell.concept} {cell.attribute.name}", f"{cell.concept}, {cell.attribute.name}"
    comparison = {"published": published.share(cell, model, "prevalence"), "expected": drawn, "sample": cell.sample()}
    share, says = replace(cell.prevalence, null_value=reference), cell.share_in_words()
    findings = [finding(f"{key} P", f"{title}: P", "attribute_prevalence", share, says, **comparison)]
    if reference is not None:
        comparison = {
            "published": published.share(cell, model, "stereotype_score"),
            "expected": None if drawn is None else stereotype_score(drawn, reference),
            "sample": cell.sample(reference),
        }
        says = _says_of_score(cell.prevalence, reference, settings.options.threshold)
        score = finding(f"{key} stereotype", f"{title}: Ψ", "stereotype_score", cell.stereotype, says, **comparison)
        findings.append(score)
    return findings


def _says_of_score(share: Estimate, reference: float, threshold: float) -> str:
    """Definition 1, by the interval."""
    more = f" by more than {threshold:g}" if threshold else ""
    if share.low - reference > threshold:
        return f"Shown more often than in the world{more}."
    if share.high < reference:
        return "Shown less often than in the world, which is no stereotype."
    return f"Not told to be shown more often than in the world{more}."


def _heatmaps(cells: Sequence[Cell]) -> tuple[StudyFigure, ...]:
    """P, Ψ and WALS of every nationality and attribute; Ψ only where there is a P*."""
    everywhere = "Attributes of the other nationalities are read here too; intervals are in the tables."
    gaps = "Empty where no real-world rate of this nationality is known: then there is no Ψ."
    places = pd.DataFrame({"row": [c.attribute.name for c in cells], "column": [c.concept for c in cells]})
    return drawable(
        figure("heatmap", f"map-{key}", title, places.assign(value=values).dropna(), caption, unit=unit)
        for key, unit, title, caption, values in (
            ("prevalence", "P", "Who is shown with what", everywhere, [c.prevalence.value for c in cells]),
            ("stereotype", "Ψ", "Shown beyond the world's rate (Table 1)", gaps, [c.stereotype.value for c in cells]),
            ("variety", "WALS", "Variety along each attribute", everywhere, [c.score.wals.value for c in cells]),
        )
    )


def _figures(
    own: Sequence[Cell], findings: Sequence[tuple[Cell, Finding]], variety: pd.DataFrame, settings: StudySettings
) -> tuple[StudyFigure, ...]:
    points = [point(c.score.wals, c.stereotype, group=c.concept, name=c.attribute.name) for c in own]
    best = "Best is the lower right: no stereotype, and much variety along the attribute."
    title = "Stereotype against variety (Figure 5)"
    figures = [figure("scatter", "figure5", title, points, best, x="WALS", y="Ψ")]
    caption = f"Diamonds: published for {settings.options.published_model}."
    for metric, key, title, labels in (
        ("attribute_prevalence", "prevalence", "Shares that show the attribute", {"x": "P"}),
        ("stereotype_score", "stereotype", "Stereotype scores", {"x": "Ψ", "null": 0.0}),
    ):
        chosen = ((cell, one) for cell, one in findings if one.metric == metric)
        rows = [finding_mark(one) | {"group": cell.concept, "name": cell.attribute.name} for cell, one in chosen]
        figures += drawable([figure("intervals", key, title, rows, caption, **labels)])
    names = {"nationality": "group", "attribute": "name", "WALS": "value", "WALS low": "low", "WALS high": "high"}
    bars = variety.rename(columns=names)[list(names.values())]
    caption = "Higher: more of the variety of the nationality's pictures lies along the attribute."
    return *figures, figure("bars", "figure4", "Variety along attributes (Figure 4)", bars, caption, y="WALS")


def compare_nationalities(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 1 over the arms; Figures 4 and 5 with a colour per arm and a marker per nationality."""
    by = ["nationality", "attribute"]
    variety = arms_as_columns(table_over_arms(arms, "figure4", by, ["WALS"]), by, "WALS")
    bars, plane = marks_over_arms(arms, "figure4"), marks_over_arms(arms, "figure5")
    note = (
        "Ψ = max(0, P − P*), of P corrected for the reader's errors where these are known. The last columns "
        "are as published. Intervals and n: see the table of each arm."
    )
    figures, caption = [], "Longer: more of the variety of the arm's pictures lies along the attribute."
    for i, (nationality, mine) in enumerate(bars.groupby("group", sort=False), start=1):
        rows, title = mine.assign(group=mine[ARM]).reset_index(drop=True), "variety along attributes (Figure 4)"
        figures.append(figure("bars", f"figure4-{i}", f"{nationality}: {title}", rows, caption, y="WALS"))
    figures.append(_plane_figure(plane))
    figures += [_plane_figure(plane, name, i) for i, name in enumerate(dict.fromkeys(plane["group"]), start=1)]
    return Results(
        tables=(
            table("table1_arms", "Stereotype scores over the arms (Table 1)", _table1(arms), note),
            table("figure4_arms", "Variety along each attribute, WALS, over the arms (Figure 4)", variety),
        ),
        figures=tuple(figures),
    )


def _plane_figure(plane: pd.DataFrame, nationality: str = "", number: int = 0) -> StudyFigure:
    """Figure 5 of all nationalities, or of one with the names of its attributes."""
    mine = plane[plane["group"] == nationality] if nationality else plane
    data = mine[["x", "y"]].assign(group=mine[ARM], marker=mine["group"])
    if nationality:
        data = data.assign(name=mine["name"])
    key = f"figure5-{number}" if nationality else "figure5_arms"
    title = f"{nationality or 'All nationalities'}: stereotype against variety (Figure 5)"
    names = "A line joins one attribute in all arms. " if nationality else ""
    caption = (
        f"A colour per arm, a marker per nationality, a dot per attribute. {names}Best is the lower right: "
        "no stereotype, and much variety along the attribute."
    )
    labels = {"x": "WALS", "y": "Ψ", "join": bool(nationality), "markers": list(dict.fromkeys(plane["group"]))}
    return figure("scatter", key, title, data.dropna(ignore_index=True), caption, **labels)


def _table1(arms: Sequence[ArmReport]) -> pd.DataFrame:
    printed = arms[0].results.frame("table1")
    frame = printed[["nationality", "attribute", "P*"]].copy()
    keys = list(frame["nationality"] + " " + frame["attribute"])
    for arm in arms:
        for sign, ending in (("P", "P"), ("Ψ", "stereotype")):
            findings = [finding_of(arm, f"{key} {ending}") for key in keys]
            frame[f"{arm.name} {sign}"] = [math.nan if f is None else f.estimate.value for f in findings]
    models = [name.removesuffix(" Ψ") for name in map(str, printed) if name.endswith(" Ψ")]
    return frame.join(printed[[f"{model} {sign}" for model in models for sign in ("P", "Ψ")]])


@settings_class(frozen=True, kw_only=True)
class DoctorOptions(Options):
    """What stands beside the findings."""

    published_model: str = setting("SDv2", "Published model", "Whose published numbers stand beside the findings")


def doctor_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Doctors of no nationality, then of each."""
    doctor, published = design.data["doctor"], settings.options.published_model
    if published not in doctor["prevalence_man"]:
        models = ", ".join(doctor["prevalence_man"])
        raise InvalidInput(f"Table 2 has no model {published!r}; it has {models}")
    plain, national = doctor["templates"]
    prompts = {PLAIN: plain} | {f"{n} {PLAIN}": fill_template(national, n) for n in doctor["nationalities"]}
    n = scaled(design.images_per_prompt, settings.scale, least=FEWEST_PICTURES)
    return [Shot(prompt=prompt, n=n, group=concept, facts={"concept": concept}) for concept, prompt in prompts.items()]


def measure_doctors(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """P(man) of each concept, and what a nationality adds to it."""
    attribute = to_attribute(design.data["doctor"]["attribute"])
    concepts = list(map(str, dict.fromkeys(data.frame["concept"])))
    read = yield from read_concepts(data, "concept", concepts, lambda _concept: [attribute])
    cells = {concept: own[0] for concept, own in read.items()}
    added = _added(cells, settings.confidence)
    shares = design.data["doctor"]["prevalence_man"]
    printed = {model: {name: share / 100 for name, share in of.items()} for model, of in shares.items()}
    findings, table2 = [], []
    for name, cell in cells.items():
        findings.append(_finding(cell, added.get(name), printed[settings.options.published_model].get(name)))
        table2.append(
            {
                "concept": name,
                **columns("P", cell.score.prevalence),
                **columns("P corrected", cell.score.corrected),
                "drawn": or_nan(cell.score.drawn),
                "n": cell.score.prevalence.n,
                **added.get(name, dict.fromkeys(("added", "added low", "added high", "p", "q"), math.nan)),
                **{f"{model} P": of.get(name, math.nan) for model, of in printed.items()},
            }
        )
    title, caption = "Share of doctors shown as men (Table 2)", f"published for {settings.options.published_model}."
    marks = map(finding_mark, findings)
    return Results(
        findings=tuple(findings),
        tables=(table("table2", "P(man) of doctors (Table 2)", table2, _COLUMNS),),
        figures=(figure("intervals", "table2", title, marks, f"Diamonds: {caption}", x="P(man)"),),
        notes=(
            "As in the paper, a classifier reads the pictures. The paper's is CLIP, which agreed with labels "
            "by hand in 99 to 100 % of 100 pictures of doctors of each model (its Table 4).",
        ),
    )


_COLUMNS = (
    "Added: P less that of doctors of no nationality, as read, with Newcombe's interval. p: Fisher's exact "
    "test that nothing is added. q: p after Benjamini–Hochberg. Then what the paper printed, as shares."
)


def _added(cells: Mapping[str, Cell], confidence: float) -> dict[str, dict[str, float]]:
    """P of each nationality's doctors less that of plain doctors, as read, with interval, p and q."""
    tests = {
        name: two_shares(cells[PLAIN].score.margins > 0, cell.score.margins > 0, confidence)
        for name, cell in cells.items()
        if PLAIN in cells and name != PLAIN
    }
    if not tests:
        return {}
    adjusted = benjamini_hochberg([test.p_value for test in tests.values()]).adjusted
    return {
        name: {**columns("added", test.estimate), "p": test.p_value, "q": float(q)}
        for (name, test), q in zip(tests.items(), adjusted, strict=True)
    }


def _finding(cell: Cell, added: Mapping[str, Any] | None, published: float | None) -> Finding:
    says = cell.share_in_words()
    if added:
        says += (
            f" {added['added']:+.3f} against doctors of no nationality "
            f"({added['added low']:.3f} to {added['added high']:.3f}, q = {added['q']:.2g})."
        )
    comparison = {"published": published, "expected": cell.score.drawn, "sample": cell.sample()}
    return finding(cell.concept, f"{cell.concept}: P(man)", "attribute_prevalence", cell.prevalence, says, **comparison)


def compare_doctors(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 2 over the arms, with lines of the paper's models, which the arms' tables have as "<model> P"."""
    frame = table_over_arms(arms, "table2", ["concept"], ["P", "P corrected", "drawn", "n", "added", "p", "q"])
    printed = arms[0].results.frame("table2")
    models = [name.removesuffix(" P") for name in map(str, printed) if name.endswith(" P")]
    lines = [printed[["concept"]].assign(**{ARM: f"{model}, published"}, P=printed[f"{model} P"]) for model in models]
    frame = lines_together(pd.concat([frame, *lines], ignore_index=True), ["concept"])
    note = (
        "Added: P less that of doctors of no nationality, as read, with its interval, p and corrected p. The "
        "last lines of each are as published."
    )
    return Results(tables=(table("table2_arms", "P(man) of doctors over the arms (Table 2)", frame, note),))


PROGRAMS = {
    "nationality_stereotypes": Program(
        shots=stereotype_shots, measure=measure_nationalities, options=StereotypeOptions, compare=compare_nationalities
    ),
    "doctor_prevalence": Program(
        shots=doctor_shots, measure=measure_doctors, options=DoctorOptions, compare=compare_doctors
    ),
}
