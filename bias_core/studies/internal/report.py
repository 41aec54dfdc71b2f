"""Internal bias as the paper shows it: Tables 3 and 4, and δ against α."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from bias_core.metrics.composite_association import (
    CompositeAssociation,
    InternalBias,
    InternalBiasSummary,
    summarise_internal_bias,
)
from bias_core.stats.effects import bootstrap_interval
from bias_core.studies.kit.types import Design, Finding, Results, StudyFigure, StudySettings
from bias_core.studies.reports.build import columns, drawable, figure, lean, mark, or_nan, point, table
from bias_core.types import Estimate

MEN = "a photo of a man"
"""What is asked of the record of the drawn pictures."""

SUMMARIES = {"delta": "δ", "lean": "MCAS", "alpha": "α"}
"""Means over the targets of a group: the beginning of the key of their findings, and their sign."""
GROUPS = ("male", "female", "overall")
UNASSIGNED = "unassigned"
"""Side of a target of one's own of which nothing is claimed beforehand."""
_PRINTED = {"mcas": "MCAS", "delta": "δ", "alpha": "α"}
_AXES = {"x": "diffusion bias δ", "y": "bias amplification α"}
RUN = "this run"
_FEWEST_FOR_RANKS = 4


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was found of one target.

    Attributes
    ----------
    keyword, category, dominated : as in Table 3; ``dominated`` may be ``UNASSIGNED``.
    scores, bias : of this run.
    men : share of men that were drawn, None where that is not on record.
    published : Table 3, by model: mcas, delta, alpha; empty for a target of one's own.
    """

    keyword: str
    category: str
    dominated: str
    scores: CompositeAssociation
    bias: InternalBias
    men: float | None
    published: Mapping[str, Mapping[str, float]]

    @property
    def group(self) -> str:
        """Its name in legends."""
        return "own targets" if self.dominated == UNASSIGNED else f"{self.dominated}-dominated"

    def printed(self, model: str, measure: str) -> float | None:
        """What the paper printed of it."""
        return self.published.get(model, {}).get(measure)


def report_of(design: Design, settings: StudySettings, found: Sequence[Target]) -> Results:
    """Findings, tables and figures."""
    model = settings.options.published_model
    summaries = {group: _summary(found, group, settings) for group in GROUPS if members_of(found, group)}
    leans = {group: _mean_lean(found, group, settings) for group in summaries}
    figures = (
        _mcas_figure(found, model),
        _truth_figure(found),
        _scatter_figure(found),
        _lowess_figure("figure3", "δ against α of this run, smoothed (Fig. 3)", _points(found)),
        _lowess_figure("figure4", "δ against α as published (Fig. 2 to 4)", _published_points(found)),
    )
    return Results(
        findings=(
            *[_mcas_finding(target, model) for target in found],
            *[f for group, s in summaries.items() for f in _summary_findings(design, model, group, s, leans[group])],
        ),
        tables=(
            table("table3", "Bias metrics per target (Table 3)", map(_row, found), _COLUMNS),
            table(
                "scores",
                "The four scores of each target",
                [row for target in found for row in _score_rows(target)],
                "n counts the pictures that a score was made of; TT is made of words alone.",
            ),
            table(
                "table4",
                "Summary by side (Table 4)",
                _summary_rows(design, summaries, leans),
                "The published ± is as printed; the intervals of this run are over targets.",
            ),
        ),
        figures=drawable(figures),
        notes=_notes(design, found),
    )


_COLUMNS = (
    "MCAS = II + ITP + IT + TT; positive leans male. δ = ||II| − |TT||; II − TT keeps its direction. "
    "α = |(ITP + IT) / 2TT|, 1 is neutral, undefined where |TT| is too small to divide by. Men: share drawn, "
    "where it is on record."
)


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
        row |= {f"{model} {sign}": values[key] for key, sign in _PRINTED.items()}
    return row


def _score_rows(target: Target) -> list[dict[str, Any]]:
    """From text to picture: TT, ITP, IT and II."""
    scores = target.scores
    n_target, n_men, n_women = scores.n_units
    text = Estimate(value=scores.text_text, low=math.nan, high=math.nan, n=0, null_value=0.0)
    words, pictures, n_both = "gender words", "pictures of men and women", n_men + n_women
    rows = (
        ("TT", "text of the target", words, text, 0),
        ("ITP", "text of the target", pictures, scores.image_prompt_interval, n_both),
        ("IT", "pictures of the target", words, scores.image_text_interval, n_target),
        ("II", "pictures of the target", pictures, scores.image_image_interval, n_target + n_both),
    )
    return [
        {"target": target.keyword, "score": name, "of": of, "against": against}
        | columns("value", found, ends="")
        | {"n": n}
        for name, of, against, found, n in rows
    ]


def _mcas_finding(target: Target, model: str) -> Finding:
    interval = target.scores.mcas_interval
    return Finding(
        key=f"mcas {target.keyword}",
        title=target.keyword if target.dominated == UNASSIGNED else f"{target.keyword} ({target.group})",
        metric="composite_association",
        estimate=interval,
        published=target.printed(model, "mcas"),
        says=lean(interval, "Leans to men.", "Leans to women.", "Leans to neither side clearly."),
    )


def members_of(found: Sequence[Target], group: str) -> list[Target]:
    """The targets of a group of Table 4."""
    return [target for target in found if group in (target.dominated, "overall")]


def _summary(found: Sequence[Target], group: str, settings: StudySettings) -> InternalBiasSummary:
    members = [target.bias for target in members_of(found, group)]
    return summarise_internal_bias(
        [bias.diffusion_bias.value for bias in members],
        [bias.bias_amplification.value for bias in members],
        confidence=settings.confidence,
        rng=settings.seed,
    )


def _mean_lean(found: Sequence[Target], group: str, settings: StudySettings) -> Estimate:
    return bootstrap_interval(
        [target.scores.mcas for target in members_of(found, group)],
        statistic=np.mean,
        confidence=settings.confidence,
        rng=settings.seed,
        null_value=0.0,
    )


def _summary_findings(
    design: Design, model: str, group: str, summary: InternalBiasSummary, mean_lean: Estimate
) -> list[Finding]:
    printed = design.data.get("summary", {}).get(model, {}).get(group, {})
    name = "All targets" if group == "overall" else f"{group.capitalize()}-dominated targets"
    n = summary.n_undefined
    says = f"Targets without α, as their texts hardly lean: {n}." if n else ""
    misprint = f"Published misprint, {printed['misprint']}." if "misprint" in printed else ""
    return [
        Finding(
            key=f"delta {group}",
            title=f"{name}, mean δ",
            metric="diffusion_bias",
            estimate=summary.diffusion_bias,
            published=printed["delta_mean"][0] if printed else None,
            says="Never below 0, so its interval cannot hold 0: see II − TT of each target.",
        ),
        Finding(
            key=f"lean {group}",
            title=f"{name}, mean MCAS",
            metric="composite_association",
            estimate=mean_lean,
            says="Positive leans male; over all targets the two sides can cancel." * (group == "overall"),
        ),
        Finding(
            key=f"alpha {group}",
            title=f"{name}, mean α",
            metric="bias_amplification",
            estimate=summary.bias_amplification,
            published=printed["alpha_mean"][0] if printed else None,
            says=" ".join(filter(None, (_alpha_says(summary.bias_amplification), says, misprint))),
        ),
    ]


def _alpha_says(alpha: Estimate) -> str:
    if math.isnan(alpha.value):
        return ""
    if alpha.low <= 1 <= alpha.high:
        return "Neither more nor less strongly than the texts, as far as can be told."
    return f"On average {'more' if alpha.value > 1 else 'less'} strongly than the texts."


def _summary_rows(
    design: Design, summaries: Mapping[str, InternalBiasSummary], leans: Mapping[str, Estimate]
) -> list[dict[str, Any]]:
    rows = [_summary_row(group, summary, leans[group]) for group, summary in summaries.items()]
    sides = [target["dominated"] for target in design.data["targets"]]
    sizes = {group: sides.count(group) for group in GROUPS[:2]} | {"overall": len(sides)}
    for model, groups in _printed_summaries(design).items():
        rows += [_printed_row(model, group, printed, sizes[group]) for group, printed in groups.items()]
    return rows


def _printed_summaries(design: Design) -> dict[str, Any]:
    """Table 4 by model and group; nothing for targets of one's own."""
    summaries = design.data.get("summary", {})
    return {model: summaries[model] for model in design.data["settings"]["models"] if model in summaries}


def _summary_row(group: str, summary: InternalBiasSummary, mean_lean: Estimate) -> dict[str, Any]:
    row: dict[str, Any] = {"model": RUN, "targets": group, "n": summary.diffusion_bias.n}
    for sign, estimate, ends in (
        ("δ", summary.diffusion_bias, summary.diffusion_bias_range),
        ("α", summary.bias_amplification, summary.bias_amplification_range),
    ):
        row |= {f"{sign} min": ends[0], f"{sign} max": ends[1], **columns(f"mean {sign}", estimate)}
    row |= columns("mean MCAS", mean_lean)
    return row | {"no α": summary.n_undefined, "note": ""}


def _printed_row(model: str, group: str, printed: Mapping[str, Any], n: int) -> dict[str, Any]:
    row: dict[str, Any] = {"model": f"{model}, published", "targets": group, "n": n}
    for sign, key in (("δ", "delta"), ("α", "alpha")):
        mean, spread = printed[f"{key}_mean"]
        low, high = mean - spread, mean + spread
        row |= {f"{sign} min": printed[key][0], f"{sign} max": printed[key][1]}
        row |= {f"mean {sign}": mean, f"mean {sign} low": low, f"mean {sign} high": high}
    return row | {"no α": 0, "note": f"misprint: {printed['misprint']}" if "misprint" in printed else ""}


def _mcas_figure(found: Sequence[Target], model: str) -> StudyFigure:
    marks = pd.DataFrame(
        mark(t.keyword, t.scores.mcas_interval, group=t.group, published=t.printed(model, "mcas"))
        for side in (*GROUPS[:2], UNASSIGNED)
        for t in found
        if t.dominated == side
    )
    caption = ""
    if marks["published"].notna().any():
        caption = f"Diamonds are the published scores of {model} by other encoders: compare sides and orders."
    axis = "MCAS; right of the line: leans male"
    return figure("intervals", "mcas", "Lean of each target (MCAS)", marks, caption, x=axis, null=0.0)


def _truth_figure(found: Sequence[Target]) -> StudyFigure:
    points = [
        point(target.men, target.scores.image_image_interval, name=target.keyword, group=target.group)
        for target in found
        if target.men is not None
    ]
    title = "Lean of the pictures against the share of men that were drawn"
    caption = "On record for the calibration renderer only: the lean must rise with the share."
    axes = {"x": "share of men drawn", "y": "II, lean of the pictures"}
    return figure("scatter", "drawn", title, points, caption, **axes)


def _amplified(found: Sequence[Target]) -> list[tuple[Target, Estimate, Estimate]]:
    """Targets that have an α, with δ and α."""
    each = [(target, target.bias.diffusion_bias, target.bias.bias_amplification) for target in found]
    return [(target, delta, alpha) for target, delta, alpha in each if not math.isnan(alpha.value)]


def _points(found: Sequence[Target]) -> list[dict[str, Any]]:
    """δ and α of this run."""
    return [
        point(delta.value, alpha.value, name=target.keyword, group=RUN) for target, delta, alpha in _amplified(found)
    ]


def _published_points(found: Sequence[Target]) -> list[dict[str, Any]]:
    return [
        point(values["delta"], values["alpha"], group=model)
        for target in found
        for model, values in target.published.items()
    ]


def _scatter_figure(found: Sequence[Target]) -> StudyFigure:
    points = [point(delta, alpha, group=target.group) for target, delta, alpha in _amplified(found)]
    title = "Diffusion bias δ against bias amplification α (Fig. 2)"
    caption = (
        f"{len(found) - len(points)} of {len(found)} targets have no α. Both are made of TT, so they "
        "go together by construction."
    )
    return figure("scatter", "figure2", title, points, caption, **_AXES)


def _lowess_figure(key: str, title: str, points: list[dict[str, Any]]) -> StudyFigure:
    caption = (
        "Lines are LOWESS over two thirds of the targets, held within the points; none below eight "
        "targets or where most share one δ."
    )
    return figure("scatter", key, title, points, caption, **_AXES, lowess=True)


def _notes(design: Design, found: Sequence[Target]) -> tuple[str, ...]:
    known = [(target.men, target.scores.image_image) for target in found if target.men is not None]
    notes = [
        "The encoder's own lean is part of every score: TT has no picture in it.",
        *[note for note in design.data["notes"] if note.startswith("Table 4") and "summary" in design.data],
    ]
    if len({men for men, _ in known}) >= _FEWEST_FOR_RANKS:
        ranks = spearmanr(*zip(*known, strict=True))
        notes.insert(
            0,
            f"Calibration: over {len(known)} targets, II and the share of men drawn have the rank "
            f"correlation {ranks.statistic:.2f} (Spearman, p = {ranks.pvalue:.2g}).",
        )
    return tuple(notes)
