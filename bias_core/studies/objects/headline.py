"""What stands out of a study of objects: what is gained against a base; without one what towers."""

import math

import pandas as pd

from bias_core.studies.kit.types import StudyReport
from bias_core.types import Estimate

_NO_BASE = "Whether any of this is bias cannot be told: there is no base to hold it against."


def headline(report: StudyReport) -> str:
    """Which object towers, how far pictures stray from their prompts, and how sure that is."""
    if len(against := report.results.frame("against_base")):
        return _changed(report, against)
    top = report.results.frame("top_objects")
    estimates = {finding.key.rpartition(" ")[2]: finding.estimate for finding in reversed(report.results.findings)}
    if top.empty or "hallucination" not in estimates:
        return f"{report.n_images:,} pictures were captioned, and no object was named in them."
    first, whole = top.iloc[0], estimates["hallucination"]
    says = (
        f"“{first['object']}” is what captions name most, in {first['pictures with it']:,} of "
        f"{whole.n:,} pictures. Of the objects that a prompt and its picture's caption name, "
        f"{_percent(whole)} are named by one of them only (H_J)"
    )
    if "stronger" in estimates:
        says += f"; {_percent(estimates['stronger'])} of the pictures fit another prompt better than their own (M_G)"
    people = report.results.frame("table4")
    if people.empty or not people["male"].iloc[0] + people["female"].iloc[0]:
        return f"{says}. {_NO_BASE}"
    row = people.iloc[0]
    parts = [f"{row[g]:.0f} % {g} [{row[f'{g} low']:.0f}, {row[f'{g} high']:.0f}]" for g in ("male", "female")]
    return f"{says}. Captions call the people {' and '.join(parts)}. {_NO_BASE}"


def _changed(report: StudyReport, against: pd.DataFrame) -> str:
    """Against a base: the object that is gained, and how many more objects nobody asked for."""
    by_findings = {finding.key: finding for finding in report.results.findings}
    names_by_change: dict[str, list[str]] = {}  # sets of pictures by what is said of them
    for row in against.to_dict("records"):
        name = str(row[against.columns[0]])
        named, added = by_findings[f"{name} named object"], by_findings[f"{name} added"]
        gain = named.says.rstrip(".")
        names_by_change.setdefault(f"{gain}{_moves(added.estimate)}", []).append(name)
    is_condition = against.columns[0] == "condition"
    how, word = (", on the same prompts and seeds", "under") if is_condition else ("", "of")
    parts = [f"{word} {' and '.join(names)} {what}" for what, names in names_by_change.items()]
    return f"Against {against['base'].iloc[0]}{how}: {'; '.join(parts)}."


def _moves(change: Estimate) -> str:
    if math.isnan(change.value):
        return ""
    if math.isnan(change.low):
        return f" ({change.value:+.2f} objects a picture that no prompt names)".replace("-", "−")
    numbers = f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]".replace("-", "−")
    clear = "" if change.low > 0 or change.high < 0 else ", no clear change"
    return f" ({numbers} objects a picture that no prompt names{clear})"


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"
