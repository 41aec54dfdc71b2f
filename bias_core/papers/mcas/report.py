"""What is said of targets: δ' and α' between their own poles first, then MCAS, δ and α as the paper has them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from bias_core.measures.composite_association import (
    MINIMUM_TEXT_TEXT,
    CompositeAssociation,
    InternalBias,
    summarise_internal_bias,
)
from bias_core.measures.intervals import bootstrap_interval
from bias_core.papers.mcas.poles import (
    GENDERS,
    InternalBiasOptions,
    Places,
    group_findings,
    place_columns,
    sides_of,
    target_finding,
)
from bias_core.study.arm_statistics import (
    ARM,
    lines_together,
    marks_over_arms,
    mean_sample,
    ranks_over_arms,
    table_over_arms,
)
from bias_core.study.design import ReportTexts
from bias_core.study.report_text import table_of
from bias_core.study.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    drawable,
    finding,
    intervals,
    lean,
    listed,
    mark,
    options_in,
    or_nan,
    point,
)
from bias_core.types import Estimate

TEXTS = ReportTexts(__file__)
GROUPS = (*GENDERS, "overall")
UNASSIGNED = "unassigned"  # side of a target of one's own of which nothing is claimed beforehand
# Means over the targets of a group: the beginning of the key of their findings, and their sign.
SIGNS = {"delta": "δ", "lean": "MCAS", "alpha": "α"}
RANKED = {"difference": "δ′", "amplification": "α′"}
REPAIRED = {"difference": "mean δ′", "amplification": "α′ of all"}  # columns of findings of a group
RUN = "this run"
_LEGENDS = {"male": "male-dominated", "female": "female-dominated", UNASSIGNED: "own targets"}
_FEWEST_FOR_RANKS = 4
_CANCEL = "Positive leans to {}; over all targets the two sides can cancel."


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was found of one target."""

    keyword: str
    category: str
    dominated: str  # male, female or UNASSIGNED
    scores: CompositeAssociation
    places: Places | None  # between its own poles; None where these were not drawn
    bias: InternalBias
    sample: Sample  # of MCAS
    men: float | None  # share of men that were drawn, None where that is not on record
    published: Mapping[str, Mapping[str, float]]  # Table 3, by model: mcas, delta, alpha; empty for one's own target

    @property
    def has_doubtful_alpha(self) -> bool:
        """Whether α was formed though the texts hardly lean."""
        return not math.isnan(self.bias.bias_amplification.value) and abs(self.bias.text_text) < MINIMUM_TEXT_TEXT


def report_of(design: Design, settings: StudySettings, targets: Sequence[Target]) -> Results:
    """Findings, tables and figures."""
    model, sides = options_in(settings, InternalBiasOptions).published_model, sides_of(settings)
    a, b = sides.called
    members = {group: [target for target in targets if group in (target.dominated, "overall")] for group in GROUPS}
    summaries = [_summary(design, settings, group, of) for group, of in members.items() if of]
    says = f"Leans to {a}.", f"Leans to {b}.", "Leans to neither side clearly."
    repaired = [one for _, findings in summaries for one in findings if one.key.split()[0] in REPAIRED]
    return Results(
        findings=(
            *(
                target_finding(one.keyword, f"{_title(one)}: δ′", one.places, sides)
                for one in targets
                if one.places is not None
            ),
            *repaired,
            *(
                finding(
                    f"mcas {one.keyword}",
                    f"{_title(one)}: MCAS",
                    "composite_association",
                    one.scores.mcas_interval,
                    lean(one.scores.mcas_interval, *says),
                    published=_mcas(one, model),
                    sample=one.sample,
                )
                for one in targets
            ),
            *(one for _, findings in summaries for one in findings if one not in repaired),
        ),
        tables=(
            TEXTS.table("table3", map(_row, targets), a=a, b=b),
            TEXTS.table("scores", [row for target in targets for row in _score_rows(target, f"{a} and {b}")]),
            TEXTS.table("table4", [*(row for row, _ in summaries), *_printed_rows(design, sides.names)]),
        ),
        figures=drawable(_figures(targets, model, sides.called)),
        notes=_notes(design, targets),
    )


def _title(target: Target) -> str:
    return target.keyword + f" ({_LEGENDS[target.dominated]})" * (target.dominated != UNASSIGNED)


def _mcas(target: Target, model: str) -> float | None:
    return target.published.get(model, {}).get("mcas")


def _row(target: Target) -> dict[str, Any]:
    scores, bias = target.scores, target.bias
    row: dict[str, Any] = {
        "type": target.category,
        "target": target.keyword,
        "dominated": target.dominated,
        **place_columns(target.places),
        **columns("MCAS", scores.mcas_interval),
        **columns("δ", bias.diffusion_bias),
        **columns("α", bias.bias_amplification),
        "why no α": bias.bias_amplification.note if math.isnan(bias.bias_amplification.value) else "",
        "why doubt α": bias.bias_amplification.note if target.has_doubtful_alpha else "",
        "TT": scores.text_text,
        "II": scores.image_image,
        "ITP": scores.image_prompt,
        "IT": scores.image_text,
        **columns("II − TT", bias.signed_difference),
        "n": scores.n_units[0],
        "men": or_nan(target.men),
    }
    for model, values in target.published.items():
        row |= {f"{model} {sign}": values[key] for key, sign in {"mcas": "MCAS", "delta": "δ", "alpha": "α"}.items()}
    return row


def _score_rows(target: Target, both: str) -> list[dict[str, Any]]:
    scores, words, pictures = target.scores, f"words for {both}", f"pictures of {both}"
    n_target, n_men, n_women = scores.n_units
    text = Estimate(value=scores.text_text, low=math.nan, high=math.nan, n=0, null_value=0.0)
    return [
        {"target": target.keyword, "score": name, "of": of, "against": other, **columns("value", one, ends=""), "n": n}
        for name, of, other, one, n in (
            ("TT", "text of the target", words, text, 0),
            ("ITP", "text of the target", pictures, scores.image_prompt_interval, n_men + n_women),
            ("IT", "pictures of the target", words, scores.image_text_interval, n_target),
            ("II", "pictures of the target", pictures, scores.image_image_interval, sum(scores.n_units)),
        )
    ]


def _summary(
    design: Design, settings: StudySettings, group: str, members: Sequence[Target]
) -> tuple[dict[str, Any], list[Finding]]:
    """Of a group of targets the line of Table 4, and its findings."""
    chance, sides = intervals(settings), sides_of(settings)
    values = {
        "delta": [one.bias.diffusion_bias.value for one in members],
        "lean": [one.scores.mcas for one in members],
        "alpha": [one.bias.bias_amplification.value for one in members],
    }
    summary = summarise_internal_bias(values["delta"], values["alpha"], **chance)
    delta, alpha = summary.diffusion_bias, summary.bias_amplification
    mean_lean = bootstrap_interval(values["lean"], statistic=np.mean, null_value=0.0, **chance)
    of_paper = design.data.get("summary", {}) if sides.names == GENDERS else {}
    printed = of_paper.get(options_in(settings, InternalBiasOptions).published_model, {}).get(group, {})
    row: dict[str, Any] = {"model": RUN, "targets": group, "n": delta.n}
    for sign, mean, ends in (
        ("δ", delta, summary.diffusion_bias_range),
        ("α", alpha, summary.bias_amplification_range),
    ):
        row |= {f"{sign} min": ends[0], f"{sign} max": ends[1], **columns(f"mean {sign}", mean)}
    name = "All targets" if group == "overall" else f"{group.capitalize()}-dominated targets"
    n_doubtful = sum(one.has_doubtful_alpha for one in members)
    places = {one.keyword: one.places for one in members}
    more, repaired = group_findings(group, name, places, sides, settings.confidence)
    row |= {**columns("mean MCAS", mean_lean), "no α": summary.n_undefined, **more, "note": ""}
    parts = (
        ("delta", "diffusion_bias", delta, "A mean of absolute values, so never 0: see δ′."),
        ("lean", "composite_association", mean_lean, _CANCEL.format(sides.called[0]) * (group == "overall")),
        (
            "alpha",
            "bias_amplification",
            alpha,
            _alpha_says(alpha, summary.n_undefined, n_doubtful, printed.get("misprint")),
        ),
    )
    return row, repaired + [
        finding(f"{key} {group}", f"{name}, mean {SIGNS[key]}", metric, mean, says, published=published, sample=sample)
        for key, metric, mean, says in parts
        for published in [printed.get(f"{key}_mean", [None])[0]]
        for sample in [mean_sample([one.keyword for one in members], values[key], of="targets")]
    ]


def _alpha_says(alpha: Estimate, n_undefined: int, n_doubtful: int, misprint: str | None) -> str:
    says = []
    if alpha.low <= 1 <= alpha.high:
        says.append("Neither more nor less strongly than the texts, as far as can be told.")
    elif not math.isnan(alpha.value):
        says.append(f"On average {'more' if alpha.value > 1 else 'less'} strongly than the texts.")
    if n_doubtful:
        says.append(f"Targets whose texts hardly lean, so that their α is large whatever is drawn: {n_doubtful}.")
    if n_undefined:
        says.append(f"Targets without α, as their texts hardly lean: {n_undefined}.")
    return " ".join([*says, f"Published misprint, {misprint}."] if misprint else says)


def _printed_rows(design: Design, between: tuple[str, str]) -> list[dict[str, Any]]:
    """Table 4 of the paper; nothing for targets of one's own, or between other sides."""
    summaries = design.data.get("summary", {}) if between == GENDERS else {}
    sides = [target["dominated"] for target in design.data["targets"]]
    rows = []
    for model in filter(summaries.__contains__, design.data["settings"]["models"]):
        for group, printed in summaries[model].items():
            n = len(sides) if group == "overall" else sides.count(group)
            row: dict[str, Any] = {"model": f"{model}, published", "targets": group, "n": n}
            for sign, key in (("δ", "delta"), ("α", "alpha")):
                mean, spread = printed[f"{key}_mean"]
                row |= {f"{sign} min": printed[key][0], f"{sign} max": printed[key][1], f"mean {sign}": mean}
                row |= {f"mean {sign} low": mean - spread, f"mean {sign} high": mean + spread}
            rows.append(row | {"no α": 0, "note": f"misprint: {printed['misprint']}" if "misprint" in printed else ""})
    return rows


def _figures(targets: Sequence[Target], model: str, called: tuple[str, str]) -> list[StudyFigure]:
    """Leans, leans against what was drawn, and δ against α: as it is, smoothed, and as published."""
    leans = pd.DataFrame(
        mark(one.keyword, one.scores.mcas_interval, group=_LEGENDS[one.dominated], published=_mcas(one, model))
        for one in sorted(targets, key=lambda target: [*_LEGENDS].index(target.dominated))
    )
    others = f"Diamonds are the published scores of {model} by other encoders: compare sides and orders."
    drawn = [
        point(one.men, one.scores.image_image_interval, name=one.keyword, group=_LEGENDS[one.dominated])
        for one in targets
        if one.men is not None
    ]
    each = [(one, one.bias.diffusion_bias, one.bias.bias_amplification) for one in targets]
    each = [(one, delta, alpha) for one, delta, alpha in each if not math.isnan(alpha.value)]
    sides = [point(delta, alpha, group=_LEGENDS[one.dominated]) for one, delta, alpha in each]
    placed = [(one, one.places) for one in targets if one.places and not math.isnan(one.places.difference.value)]
    a, b = called
    return [
        TEXTS.figure(
            "places",
            [{"name": one.keyword, "start": of.texts, "end": of.pictures.value} for one, of in placed],
            a=a,
            b=b,
        ),
        TEXTS.figure(
            "difference",
            [mark(one.keyword, of.difference, group=_LEGENDS[one.dominated]) for one, of in placed],
            a=a,
            b=b,
        ),
        TEXTS.figure("mcas", leans, published=others if leans["published"].notna().any() else "", a=a),
        TEXTS.figure("drawn", drawn),
        TEXTS.figure("figure2", sides, n_without=len(targets) - len(each), n=len(targets)),
        TEXTS.figure(
            "figure3", [point(delta.value, alpha.value, name=one.keyword, group=RUN) for one, delta, alpha in each]
        ),
        TEXTS.figure(
            "figure4",
            [point(of["delta"], of["alpha"], group=name) for one in targets for name, of in one.published.items()],
        ),
    ]


def _notes(design: Design, targets: Sequence[Target]) -> tuple[str, ...]:
    pairs = [(target.men, target.scores.image_image) for target in targets if target.men is not None]
    notes = [
        TEXTS.note("encoder"),
        *[note for note in design.data["notes"] if note.startswith("Table 4") and "summary" in design.data],
    ]
    if len({men for men, _ in pairs}) >= _FEWEST_FOR_RANKS:
        notes.insert(0, TEXTS.note("calibration", n=len(pairs), ranks=spearmanr(*zip(*pairs, strict=True))))
    return tuple(notes)


def compare_internal_bias(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 4 with a line and ranks per arm, and the cloud of targets of every arm."""
    marks = marks_over_arms(arms, "figure2")
    marks = marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks
    own = table_over_arms(
        arms,
        "table4",
        ["targets"],
        [*REPAIRED.values(), *(f"mean {sign}" for sign in SIGNS.values()), "no α", "n"],
        {"model": RUN},
    )
    ranks: dict[tuple[str, str], dict[str, Any]] = {
        (group, arm.name): {"targets": group, ARM: arm.name} for group in GROUPS for arm in arms
    }
    for group, (key, sign) in product(GROUPS, {**RANKED, **SIGNS}.items()):
        for arm, places in zip(arms, ranks_over_arms(arms, f"{key} {group}", settings), strict=True):
            ranks[group, arm.name] |= {name.replace("rank", f"rank of {sign}"): at for name, at in places.items()}
    frame = own.merge(pd.DataFrame(list(ranks.values())), on=["targets", ARM], how="left")
    printed = arms[0].results.frame("table4")
    published = printed[(printed["model"] != RUN) & printed["targets"].isin(own["targets"])]
    published = published.rename(columns={"model": ARM})
    lines = lines_together(pd.concat([frame, published[[c for c in frame if c in published]]]), ["targets"])
    return Results(tables=(TEXTS.table("table4_arms", lines),), figures=drawable([TEXTS.figure("figure4_arms", marks)]))


def headline(report: StudyReport) -> str:
    """One sentence on which way drawing moves which targets; without their poles, which way they lean."""
    table, called = table_of(report, "table3").frame, sides_of(report.settings).called
    if table["δ′"].isna().all():
        return _headline(table, "MCAS", "Text and pictures together (MCAS) lean", "for", called)
    return _headline(table.dropna(subset=["δ′"]), "δ′", "Between their own poles (δ′), drawing moves", "", called)


def _headline(table: pd.DataFrame, column: str, what: str, of: str, called: tuple[str, str]) -> str:
    """Which targets go which way by the intervals of a column; ``what`` goes there, ``of`` stands before targets."""
    to_a = table.loc[table[f"{column} low"] > 0, "target"].tolist()
    to_b = table.loc[table[f"{column} high"] < 0, "target"].tolist()
    rest = len(table) - len(to_a) - len(to_b)
    sides = [
        f"to {side} {of} {listed(names)}" if of else f"{listed(names)} to {side}"
        for side, names in zip(called, (to_a, to_b), strict=True)
        if names
    ]
    if not sides:
        none, where = f"none of {len(table)} targets", f"clearly to {' or '.join(called)}"
        return f"{what} {f'{where} {of} {none}' if of else f'{none} {where}'}; none is shown to be even."
    return f"{what} {', '.join(sides)}{f'; {rest} of {len(table)} to neither clearly' if rest else ''}."
