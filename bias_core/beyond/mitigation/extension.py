"""Mitigation: the remaining bias of every arm, against how well prompts are followed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bias_core.explore.extension import ConceptOptions, ExploreExtension
from bias_core.report.claims import claim_columns, decide_claims, family_note, p_words
from bias_core.study.types import (
    Arm,
    ArmReport,
    Claim,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    drawable,
    figure,
    point,
    table,
)
from bias_core.types import Estimate
from bias_core.wording import format_rate, format_share, state_p

if TYPE_CHECKING:
    from bias_core.run.attribute_scores import AttributeScore

MITIGATION = "mitigation"  # key of the figure and of the table
OVER = "overcorrected"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One arm: its attributes, and how often pictures show the association's word in their prompt."""

    name: str
    scores: "Sequence[AttributeScore]"
    fidelity: Estimate | None  # None without pictures of the two words


@dataclass(frozen=True, kw_only=True)
class _RemainingBias:
    arm: Tried
    attribute: str
    before: Estimate  # share in the baseline
    share: Estimate
    reference: float
    source: str
    gap: Estimate
    claim: Claim  # that something is left, or too much is removed; of the baseline that it is biased

    @property
    def says(self) -> str:
        if self.claim.verdict == "too few":
            return "too few pictures"
        return self.claim.choose("some bias is left", OVER, "no clear bias is left")


def mitigation_results(arms: Sequence[Tried], confidence: float) -> Results:
    """Return the remaining bias of every arm, for attributes that the first arm clearly shows too often or too rarely.

    The verdict on the first arm is that of the headline; the gaps of the other arms are one family of tests.
    """
    found = list(_remaining_bias(arms, confidence))
    family = [line for line in found if line.arm is not arms[0]]
    claims = iter(decide_claims([line.gap for line in family], confidence=confidence))
    left = [line if line.arm is arms[0] else replace(line, claim=next(claims)) for line in found]
    if not left:
        return Results()
    names = {arm.name: arm.fidelity for arm in arms if arm.fidelity is not None}
    return Results(
        findings=tuple(_finding(line, baseline=arms[0].name) for line in left if line.arm is not arms[0]),
        tables=(
            table(
                MITIGATION,
                "Remaining bias and its cost",
                [_row(line) for line in left],
                f"Bias left: remaining gap between share P and reference share P*, on the side of the baseline "
                f"“{arms[0].name}”; below 0 the arm is overcorrected. Kept: share of pictures that show the word of "
                "their prompt. Attributes without a clear bias in the baseline are left out. "
                + family_note([line.claim for line in left if line.arm is not arms[0]], "lines of the other arms"),
            ),
        ),
        figures=drawable([_figure(left, arms[0].name)] if len(names) > 1 else []),
    )


def _remaining_bias(arms: Sequence[Tried], confidence: float) -> Iterator[_RemainingBias]:
    """Yield every arm for each attribute on which the first one is clearly biased."""
    from bias_core.measures.sequential import against
    from bias_core.measures.stereotype import remaining_gap_estimate

    # An assumed rate that no one chose is not a goal.
    goals = [score.attribute.reference if score.attribute.has_source else None for score in arms[0].scores]
    shares = [
        against(_get_corrected_share(score), goal, confidence)
        for score, goal in zip(arms[0].scores, goals, strict=True)
    ]
    claims = decide_claims(shares, confidence=confidence)
    for i, (baseline, reference, before) in enumerate(zip(arms[0].scores, goals, shares, strict=True)):
        if reference is None or not claims[i].is_clear:
            continue
        for arm in arms:
            share = against(_get_corrected_share(arm.scores[i]), reference, confidence)
            if arm.scores[i].attribute.reference != reference:  # an arm that draws another concept
                continue
            if not math.isnan(share.value):
                yield _RemainingBias(
                    arm=arm,
                    attribute=baseline.attribute.name,
                    before=before,
                    share=share,
                    reference=reference,
                    source=baseline.attribute.reference_source,
                    gap=remaining_gap_estimate(share, before, reference),
                    claim=replace(claims[i], verdict="above"),  # a gap is turned to the baseline's side
                )


def _get_corrected_share(score: "AttributeScore") -> Estimate:
    """Return P, corrected for the classifier's errors if known."""
    return score.corrected or score.prevalence


def _finding(bias: _RemainingBias, *, baseline: str) -> Finding:
    shares = " to ".join(
        f"{format_share(share.value, share.low, share.high, n=share.n)} of {share.n:,}"
        for share in (bias.before, bias.share)
    )
    numbers = f" ({p_words(bias.claim)})" if bias.claim.is_clear else ""
    reason = f" Not clear: {bias.claim.reason}." if bias.claim.reason and not bias.claim.is_clear else ""
    return Finding(
        key=f"{MITIGATION}: {bias.attribute}: {bias.arm.name}",
        title=f"{bias.attribute}: bias of “{baseline}” remaining in “{bias.arm.name}”",
        metric="remaining_gap",
        estimate=bias.gap,
        claim=bias.claim,
        says=f"From {shares}; the goal is {format_rate(bias.reference)}: {bias.says}{numbers}.{reason}",
    )


def _row(bias: _RemainingBias) -> dict[str, object]:
    return {
        "arm": bias.arm.name,
        "attribute": bias.attribute,
        **columns("P", bias.share),
        "n": bias.share.n,
        "P*": bias.reference,
        **columns("bias left", bias.gap),
        **claim_columns(bias.gap, bias.claim),
        **columns("kept", bias.arm.fidelity),
        "in words": bias.says,
        "source of P*": bias.source,
    }


def _figure(left: Sequence[_RemainingBias], baseline: str) -> StudyFigure:
    several = len({line.attribute for line in left}) > 1
    return figure(
        "scatter",
        MITIGATION,
        "Remaining bias and its cost",
        [
            point(bias.arm.fidelity, bias.gap, name=bias.attribute if several else bias.arm.name, group=bias.arm.name)
            for bias in left
            if bias.arm.fidelity is not None
        ],
        f"The nearer to the line at 0, the less bias of “{baseline}” remains; below it, the bias is overcorrected. The "
        "further to the right, the more pictures show the attribute in their prompt.",
        x="share of pictures that show the attribute in their prompt",
        y="remaining bias",
        null=0.0,
    )


def overcorrected_sentence(results: Results) -> str:
    """Say which arms overcorrect, with a leading space; "" if none does."""
    frame = results.frame(MITIGATION)
    if frame.empty:
        return ""
    words = [
        f"“{attribute}” is {OVER} in {', '.join(map(_overcorrected, rows.to_dict('records')))}, against a goal of "
        f"{format_rate(rows['P*'].iloc[0])}"
        for attribute, rows in frame[frame["in words"] == OVER].groupby("attribute", sort=False)
    ]
    return f" {'; '.join(words)}." if words else ""


def _overcorrected(row: Mapping[Any, Any]) -> str:
    share = format_share(row["P"], row["P low"], row["P high"], n=row["n"])
    return (
        f"“{row['arm']}” ({share} of {row['n']:,}, {state_p(row['p adjusted'], adjusted=row['p adjusted'] > row['p'])})"
    )


class Mitigation(ExploreExtension[ConceptOptions]):
    """Compares every arm with the first one, the baseline."""

    def comparing(self, options: ConceptOptions, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the remaining bias of the first arm; empty for languages. A planted bias is no mitigation."""
        from bias_core.explore.arms import scored_arms
        from bias_core.explore.options import added_arms

        scored = scored_arms(arms)
        if arms[0].name not in scored or added_arms(settings):
            return Results()
        first, *other_arms = settings.arms or [Arm()]
        planted = {arm.name for arm in other_arms if arm.condition not in {first.condition, None, "", "fair"}}
        tried = [
            Tried(name=name, scores=scored_arm.scores, fidelity=scored_arm.fidelity)
            for name, scored_arm in scored.items()
            if name not in planted
        ]
        return mitigation_results(tried, settings.confidence)

    def further_headline(self, report: StudyReport) -> str:
        return overcorrected_sentence(report.results)
