"""Internal bias as the paper shows it: Tables 3 and 4, and δ against α; over models with their ranks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from bias_core.metrics.composite_association import CompositeAssociation, InternalBias, summarise_internal_bias
from bias_core.stats.effects import bootstrap_interval
from bias_core.studies.arms.statistics import (
    ARM,
    lines_together,
    marks_over_arms,
    mean_sample,
    ranks_over_arms,
    table_over_arms,
)
from bias_core.studies.kit.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudySettings,
    columns,
    drawable,
    figure,
    finding,
    intervals,
    lean,
    mark,
    or_nan,
    point,
    table,
)
from bias_core.types import Estimate

GENDERS = ("male", "female")  # A, and B: positive scores lean to the first
GROUPS = (*GENDERS, "overall")
UNASSIGNED = "unassigned"  # side of a target of one's own of which nothing is claimed beforehand
# Means over the targets of a group: the beginning of the key of their findings, and their sign.
SIGNS = {"delta": "δ", "lean": "MCAS", "alpha": "α"}
RUN = "this run"
_LEGENDS = {"male": "male-dominated", "female": "female-dominated", UNASSIGNED: "own targets"}
_FEWEST_FOR_RANKS = 4
_CANCEL = "Positive leans male; over all targets the two sides can cancel."
_AXES = {"x": "diffusion bias δ", "y": "bias amplification α"}
_SMOOTHED = {**_AXES, "lowess": True}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was found of one target."""

    keyword: str
    category: str
    dominated: str  # male, female or UNASSIGNED
    scores: CompositeAssociation
    bias: InternalBias
    sample: Sample  # of MCAS
    men: float | None  # share of men that were drawn, None where that is not on record
    published: Mapping[str, Mapping[str, float]]  # Table 3, by model: mcas, delta, alpha; empty for one's own target


def report_of(design: Design, settings: StudySettings, targets: Sequence[Target]) -> Results:
    """Findings, tables and figures."""
    model = settings.options.published_model
    members = {group: [target for target in targets if group in (target.dominated, "overall")] for group in GROUPS}
    summaries = [_summary(design, settings, group, of) for group, of in members.items() if of]
    says = "Leans to men.", "Leans to women.", "Leans to neither side clearly."
    return Results(
        findings=(
            *(
                finding(
                    f"mcas {one.keyword}",
                    one.keyword + f" ({_LEGENDS[one.dominated]})" * (one.dominated != UNASSIGNED),
                    "composite_association",
                    one.scores.mcas_interval,
                    lean(one.scores.mcas_interval, *says),
                    published=_mcas(one, model),
                    sample=one.sample,
                )
                for one in targets
            ),
            *(one for _, findings in summaries for one in findings),
        ),
        tables=(
            table("table3", "Bias metrics per target (Table 3)", map(_row, targets), _COLUMNS),
            table(
                "scores",
                "The four scores of each target",
                [row for target in targets for row in _score_rows(target)],
                "n counts the pictures that a score was made of; TT is made of words alone.",
            ),
            table(
                "table4",
                "Summary by side (Table 4)",
                [*(row for row, _ in summaries), *_printed_rows(design)],
                "The published ± is as printed; the intervals of this run are over targets.",
            ),
        ),
        figures=drawable(_figures(targets, model)),
        notes=_notes(design, targets),
    )


_COLUMNS = (
    "MCAS = II + ITP + IT + TT; positive leans male. δ = ||II| − |TT||; II − TT keeps its direction. α = |(ITP + IT) / "
    "2TT|, 1 is neutral, undefined where |TT| is too small to divide by. Men: share drawn, where it is on record."
)


def _mcas(target: Target, model: str) -> float | None:
    return target.published.get(model, {}).get("mcas")


def _row(target: Target) -> dict[str, Any]:
    scores, bias = target.scores, target.bias
    row: dict[str, Any] = {
        "type": target.category,
        "target": target.keyword,
        "dominated": target.dominated,
        **columns("MCAS", scores.mcas_interval),
        **columns("δ", bias.diffusion_bias),
        **columns("α", bias.bias_amplification),
        "why no α": bias.bias_amplification.note if math.isnan(bias.bias_amplification.value) else "",
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


def _score_rows(target: Target) -> list[dict[str, Any]]:
    scores, words, pictures = target.scores, "gender words", "pictures of men and women"
    n_target, n_men, n_women = scores.n_units
    text = Estimate(value=scores.text_text, low=math.nan, high=math.nan, n=0, null_value=0.0)
    rows = (
        ("TT", "text of the target", words, text, 0),
        ("ITP", "text of the target", pictures, scores.image_prompt_interval, n_men + n_women),
        ("IT", "pictures of the target", words, scores.image_text_interval, n_target),
        ("II", "pictures of the target", pictures, scores.image_image_interval, sum(scores.n_units)),
    )
    return [
        {"target": target.keyword, "score": name, "of": of, "against": other, **columns("value", one, ends=""), "n": n}
        for name, of, other, one, n in rows
    ]


def _summary(
    design: Design, settings: StudySettings, group: str, members: Sequence[Target]
) -> tuple[dict[str, Any], list[Finding]]:
    """Of a group of targets the line of Table 4, and its findings."""
    chance = intervals(settings)
    values = {
        "delta": [one.bias.diffusion_bias.value for one in members],
        "lean": [one.scores.mcas for one in members],
        "alpha": [one.bias.bias_amplification.value for one in members],
    }
    summary = summarise_internal_bias(values["delta"], values["alpha"], **chance)
    delta, alpha = summary.diffusion_bias, summary.bias_amplification
    mean_lean = bootstrap_interval(values["lean"], statistic=np.mean, null_value=0.0, **chance)
    printed = design.data.get("summary", {}).get(settings.options.published_model, {}).get(group, {})
    row: dict[str, Any] = {"model": RUN, "targets": group, "n": delta.n}
    for sign, mean, ends in (
        ("δ", delta, summary.diffusion_bias_range),
        ("α", alpha, summary.bias_amplification_range),
    ):
        row |= {f"{sign} min": ends[0], f"{sign} max": ends[1], **columns(f"mean {sign}", mean)}
    row |= {**columns("mean MCAS", mean_lean), "no α": summary.n_undefined, "note": ""}
    name = "All targets" if group == "overall" else f"{group.capitalize()}-dominated targets"
    parts = (
        ("delta", "diffusion_bias", delta, "Never below 0, so its interval cannot hold 0: see II − TT of each target."),
        ("lean", "composite_association", mean_lean, _CANCEL * (group == "overall")),
        ("alpha", "bias_amplification", alpha, _alpha_says(alpha, summary.n_undefined, printed.get("misprint"))),
    )
    return row, [
        finding(f"{key} {group}", f"{name}, mean {SIGNS[key]}", metric, mean, says, published=published, sample=sample)
        for key, metric, mean, says in parts
        for published in [printed.get(f"{key}_mean", [None])[0]]
        for sample in [mean_sample([one.keyword for one in members], values[key], of="targets")]
    ]


def _alpha_says(alpha: Estimate, n_undefined: int, misprint: str | None) -> str:
    says = []
    if alpha.low <= 1 <= alpha.high:
        says.append("Neither more nor less strongly than the texts, as far as can be told.")
    elif not math.isnan(alpha.value):
        says.append(f"On average {'more' if alpha.value > 1 else 'less'} strongly than the texts.")
    if n_undefined:
        says.append(f"Targets without α, as their texts hardly lean: {n_undefined}.")
    return " ".join([*says, f"Published misprint, {misprint}."] if misprint else says)


def _printed_rows(design: Design) -> list[dict[str, Any]]:
    """Table 4 of the paper; nothing for targets of one's own."""
    summaries, sides = design.data.get("summary", {}), [target["dominated"] for target in design.data["targets"]]
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


def _figures(targets: Sequence[Target], model: str) -> list[StudyFigure]:
    leans = pd.DataFrame(
        mark(one.keyword, one.scores.mcas_interval, group=_LEGENDS[one.dominated], published=_mcas(one, model))
        for one in sorted(targets, key=lambda target: [*_LEGENDS].index(target.dominated))
    )
    others = f"Diamonds are the published scores of {model} by other encoders: compare sides and orders."
    others = others if leans["published"].notna().any() else ""
    axes = {"x": "MCAS; right of the line: leans male", "null": 0.0}
    title = "Lean of the pictures against the share of men that were drawn"
    points = [
        point(one.men, one.scores.image_image_interval, name=one.keyword, group=_LEGENDS[one.dominated])
        for one in targets
        if one.men is not None
    ]
    caption = "On record for the calibration renderer only: the lean must rise with the share."
    drawn = figure("scatter", "drawn", title, points, caption, x="share of men drawn", y="II, lean of the pictures")
    mcas = figure("intervals", "mcas", "Lean of each target (MCAS)", leans, others, **axes)
    return [mcas, drawn, *_alpha_figures(targets)]


def _alpha_figures(targets: Sequence[Target]) -> list[StudyFigure]:
    """δ against α: of the targets that have both, the same smoothed, and as published."""
    each = [(one, one.bias.diffusion_bias, one.bias.bias_amplification) for one in targets]
    each = [(one, delta, alpha) for one, delta, alpha in each if not math.isnan(alpha.value)]
    sides = [point(delta, alpha, group=_LEGENDS[one.dominated]) for one, delta, alpha in each]
    mine = [point(delta.value, alpha.value, name=one.keyword, group=RUN) for one, delta, alpha in each]
    theirs = [point(of["delta"], of["alpha"], group=name) for one in targets for name, of in one.published.items()]
    caption = (
        f"{len(targets) - len(each)} of {len(targets)} targets have no α. Both are made of TT, so they "
        "go together by construction."
    )
    smoothed = (
        "Lines are LOWESS over two thirds of the targets, held within the points; none below eight "
        "targets or where most share one δ."
    )
    return [
        figure("scatter", "figure2", "Diffusion bias δ against bias amplification α (Fig. 2)", sides, caption, **_AXES),
        figure("scatter", "figure3", "δ against α of this run, smoothed (Fig. 3)", mine, smoothed, **_SMOOTHED),
        figure("scatter", "figure4", "δ against α as published (Fig. 2 to 4)", theirs, smoothed, **_SMOOTHED),
    ]


def _notes(design: Design, targets: Sequence[Target]) -> tuple[str, ...]:
    pairs = [(target.men, target.scores.image_image) for target in targets if target.men is not None]
    notes = [
        "The encoder's own lean is part of every score: TT has no picture in it.",
        *[note for note in design.data["notes"] if note.startswith("Table 4") and "summary" in design.data],
    ]
    if len({men for men, _ in pairs}) >= _FEWEST_FOR_RANKS:
        ranks = spearmanr(*zip(*pairs, strict=True))
        notes.insert(
            0,
            f"Calibration: over {len(pairs)} targets, II and the share of men drawn have the rank "
            f"correlation {ranks.statistic:.2f} (Spearman, p = {ranks.pvalue:.2g}).",
        )
    return tuple(notes)


def compare_internal_bias(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 4 with a line and ranks per arm, and the cloud of targets of every arm."""
    marks = marks_over_arms(arms, "figure2")
    marks = marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks
    caption = (
        "A dot per target with an α. Lines are LOWESS over two thirds of an arm's targets, held within the "
        "points; none below eight targets or where most share one δ."
    )
    cloud = figure("scatter", "figure4_arms", "δ against α over the arms (Fig. 2 to 4)", marks, caption, **_SMOOTHED)
    own = table_over_arms(
        arms, "table4", ["targets"], [*(f"mean {sign}" for sign in SIGNS.values()), "no α", "n"], {"model": RUN}
    )
    ranks: dict[tuple[str, str], dict[str, Any]] = {
        (group, arm.name): {"targets": group, ARM: arm.name} for group in GROUPS for arm in arms
    }
    for group, (key, sign) in product(GROUPS, SIGNS.items()):
        for arm, places in zip(arms, ranks_over_arms(arms, f"{key} {group}", settings), strict=True):
            ranks[group, arm.name] |= {name.replace("rank", f"rank of {sign}"): at for name, at in places.items()}
    frame = own.merge(pd.DataFrame(list(ranks.values())), on=["targets", ARM], how="left")
    printed = arms[0].results.frame("table4")
    published = printed[(printed["model"] != RUN) & printed["targets"].isin(own["targets"])]
    published = published.rename(columns={"model": ARM})
    summary = table(
        "table4_arms",
        "Diffusion bias, lean and amplification over the arms (Table 4)",
        lines_together(pd.concat([frame, published[[c for c in frame if c in published]]]), ["targets"]),
        "Means over targets with their intervals; the published ± is as printed. Rank 1 has the largest "
        "mean, on the targets that all arms have; low and high: ranks in resamples of the targets.",
    )
    return Results(tables=(summary,), figures=drawable([cloud]))
