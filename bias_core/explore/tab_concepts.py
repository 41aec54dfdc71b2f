"""The result of several concepts on the page: a row for each concept, by attribute, or all as a map."""

import math
from typing import Any

from bias_core.explore.options import SEVERAL
from bias_core.explore.several import ConceptShare, list_concept_shares
from bias_core.report.figures import N_COLOURS
from bias_core.study.design import PACK
from bias_core.study.types import StudyFigure, StudyReport
from bias_core.types import is_sourced
from bias_core.ui.study.comparison import place_mark
from bias_core.ui.study.pictures import AND, find_filter
from bias_core.ui.templates import render
from bias_core.wording import format_rate, format_share


def concepts_html(report: StudyReport, plot: StudyFigure | None) -> str:
    """Return the chart of several concepts, or of a file's prompts, in one or more arms; "" for any other run.

    ``plot`` is the figure to download.
    """
    if report.design.kind not in (SEVERAL, PACK):
        return ""
    parts = (
        [("", list_concept_shares(report))]
        if not report.arms
        else [(arm.name, list_concept_shares(arm)) for arm in report.arms]
    )
    if len({cell.concept for _, shares in parts for of in shares.values() for cell in of}) < 2:
        return ""
    attributes: dict[str, dict[str, list[dict[str, Any]]]] = {}
    claims = []
    for place, (arm, shares) in enumerate(parts):
        for name, of_concepts in shares.items():
            for cell in of_concepts:
                lane = _lane(report, cell, arm) | {"tone": place % N_COLOURS}
                attributes.setdefault(name, {}).setdefault(cell.concept, []).append(lane)
                claims.append(cell.claim)
    tested = next((claim for claim in claims if claim.n_tests > 1), None)
    correction = f"Marked as above or below: {tested.correction}, {tested.n_tests} tests." if tested else ""
    return render(
        "concepts_chart",
        attributes={
            name: [_row(report, concept, lanes) for concept, lanes in rows.items()]
            for name, rows in attributes.items()
        },
        arms=[{"name": arm, "tone": place % N_COLOURS} for place, (arm, _) in enumerate(parts) if arm],
        map=_map(parts, list(attributes)),
        correction="" if report.arms else correction,
        plot=plot,
        run=report.run_id,
        what="concept" if report.design.kind == SEVERAL else "prompt",
        may_grow=report.design.kind == SEVERAL,
    )  # fmt: skip


def _lane(report: StudyReport, cell: ConceptShare, arm: str) -> dict[str, Any]:
    share, is_known = cell.share, cell.rate is not None and is_sourced(cell.source)
    text = format_share(share.value, share.low, share.high, n=share.n)
    note = f"{cell.attribute}, {', '.join(filter(None, (cell.concept, arm)))}: {text}, n = {share.n:,}"
    filters = [find_filter(report, name) for name in (cell.attribute, cell.concept, *filter(None, [arm]))]
    rate = "no rate is known" if cell.rate is None else f"{'rate' if is_known else 'assumed'} {format_rate(cell.rate)}"
    return place_mark(share.value, share.low, share.high, note) | {
        "known": None if cell.rate is None else {
            "at": f"{100 * cell.rate:.2f}", "note": f"{cell.concept}, {rate}: {cell.source}", "assumed": not is_known,
        },
        "text": f"{text} of {share.n:,}",
        "rate": rate,
        "verdict": cell.claim.verdict if cell.claim.is_clear and not report.arms else "",
        "reason": cell.claim.reason,
        "among": cell.claim.n_tests if cell.claim.reason and cell.claim.verdict == "not clear" else 0,
        "is_tested": cell.claim.verdict in ("not clear", "too few") and not report.arms,
        "which": AND.join(filters) if all(filters) else "",
        "share": share.value,
        "gap": abs(cell.gap),
    }  # fmt: skip


def _row(report: StudyReport, concept: str, lanes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "concept": concept,
        "which": find_filter(report, concept),
        "lanes": lanes,
        "is_clear": any(lane["verdict"] for lane in lanes),
        "share": f"{lanes[0]['share']:.4f}",
        "gap": "" if math.isnan(lanes[0]["gap"]) else f"{lanes[0]['gap']:.4f}",
    }


def _map(parts: list[tuple[str, dict[str, list[ConceptShare]]]], names: list[str]) -> list[dict[str, Any]]:
    """Return a row of shares for each concept and arm."""
    rows = []
    for arm, shares in parts:
        by_concept: dict[str, dict[str, ConceptShare]] = {}
        for of in shares.values():
            for cell in of:
                by_concept.setdefault(cell.concept, {})[cell.attribute] = cell
        for concept, of_attribute in by_concept.items():
            cells = [of_attribute.get(name) for name in names]
            first = next(filter(None, cells))
            rows.append({
                "name": f"{concept}, {arm}" if arm else concept,
                "share": f"{first.share.value:.4f}",
                "gap": "" if math.isnan(first.gap) else f"{abs(first.gap):.4f}",
                "cells": [cell and {
                    "share": f"{100 * cell.share.value:.0f}", "text": format_rate(cell.share.value),
                    "note": f"{cell.attribute}, {concept}: n = {cell.share.n:,}",
                } for cell in cells],
            })  # fmt: skip
    return rows
