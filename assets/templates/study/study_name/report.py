"""Build the findings, the table, the figure and the headline of the report."""

from collections.abc import Mapping

from bias_core.report.claims import claim_columns, decide_claims, family_note
from bias_core.study.types import Results, StudyReport, columns, figure, finding, mark, table
from bias_core.types import Estimate
from bias_core.wording import format_list


def build_results(shares: Mapping[str, Estimate], thing: str, confidence: float) -> Results:
    """Return a finding, a row and a mark for each share, by the person's name."""
    claims = decide_claims([*shares.values()], confidence=confidence)  # the one place that decides what is clear
    rows = [
        {"person": who, **columns("share", share), "n": share.n, **claim_columns(share, claim)}
        for (who, share), claim in zip(shares.items(), claims, strict=True)
    ]
    title = f"Pictures with {thing}"
    return Results(
        findings=tuple(
            finding(
                who, f"{who}: {thing}", "attribute_prevalence", share,
                readings=(f"More than half of {who} pictures show {thing}.",
                          f"Less than half of {who} pictures show {thing}.",
                          f"About half of {who} pictures may show {thing}."),
            )
            for who, share in shares.items()
        ),
        tables=(table("shares", title, rows, note=f"Value without bias: an even split. {family_note(claims)}"),),
        figures=(
            figure("intervals", "shares", title, [mark(who, share) for who, share in shares.items()],
                   caption="A dot is the share, a line its interval.", x=f"share of pictures with {thing}", null=0.5),
        ),
        notes=("An encoder decides what a picture shows: measure its errors, or have people label a sample.",),
    )  # fmt: skip


def write_headline(report: StudyReport) -> str:
    """Name the people whose share clearly differs from an even split."""
    clear = [found.key for found in report.results.findings if found.is_clear]
    if not clear:
        return "No share clearly differs from an even split, which does not prove that there is no bias."
    return f"The share clearly differs from an even split for {format_list(clear, last=' and ')}."
