"""What stands out of a study of objects: what is gained against a base; without one what towers."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from bias_core.number_text import format_change, format_share
from bias_core.studies.kit.types import StudyReport, listed
from bias_core.studies.objects.captions import STRONGER
from bias_core.types import Estimate

_HALLUCINATION, _STRONGER = "hallucination", f"miss {STRONGER}"  # end the keys of numbers of a set of pictures
_NO_BASE = "Whether any of this is bias cannot be told: there is no base to hold it against."


def headline(report: StudyReport) -> str:
    """Which object towers, how far pictures stray from their prompts, and how sure that is."""
    if len(against := report.results.frame("against_base")):
        return _changed(report, against)
    top = report.results.frame("top_objects")
    estimates = {finding.key: finding.estimate for finding in report.results.findings}
    of_set = _headed(estimates, list(dict.fromkeys(top.get("pictures", ()))))
    if top.empty or f"{of_set} {_HALLUCINATION}" not in estimates:
        return f"{report.n_images:,} pictures were captioned, and no object was named in them."
    top = top[top["pictures"] == of_set] if (top["pictures"] == of_set).any() else top
    first, whole, stronger = (
        top.iloc[0],
        estimates[f"{of_set} {_HALLUCINATION}"],
        estimates.get(f"{of_set} {_STRONGER}"),
    )
    says = (
        f"“{first['object']}” is what captions name most, in {first['pictures with it']:,} of "
        f"{whole.n:,} pictures. Of the objects that a prompt and its picture's caption name, "
        f"{_percent(whole)} are named by one of them only (H_J)"
    )
    if stronger is not None:
        says += f"; {_percent(stronger)} of the pictures fit another prompt better than their own (M_G)"
    people = report.results.frame("table4")
    if people.empty or not people["male"].iloc[0] + people["female"].iloc[0]:
        return f"{says}. {_NO_BASE}"
    is_own = people["model"].str.endswith(f", {of_set}")
    row = people[is_own].iloc[0] if of_set and is_own.any() else people.iloc[0]
    parts = [f"{row[g]:.0f} % {g} [{row[f'{g} low']:.0f}, {row[f'{g} high']:.0f}]" for g in ("male", "female")]
    return f"{says}. Captions call the people {' and '.join(parts)}. {_NO_BASE}"


def _headed(estimates: Mapping[str, Estimate], shown: Sequence[str]) -> str:
    """Whose numbers the headline says: of the first set of pictures with objects that has numbers, or of the only one.

    >>> one = Estimate(value=0.5, low=0.4, high=0.6, n=9)
    >>> _headed({"Dataset hallucination": one}, ["all pictures"]), _headed({}, [])
    ('Dataset', '')
    """
    sets = [key.removesuffix(_HALLUCINATION).rstrip() for key in estimates if key.endswith(f" {_HALLUCINATION}")]
    return next((name for name in shown if name in sets), sets[0] if len(sets) == 1 else "")


def _changed(report: StudyReport, against: pd.DataFrame) -> str:
    """Against a base: the object that each set gains most surely, and how many more objects nobody asked for."""
    by_set, odds = against.columns[0], report.results.frame("log_odds")
    findings = {finding.key: finding for finding in report.results.findings}
    odds = odds.assign(gained=(odds["differs"] == "yes") & (odds["log-odds"] > 0)) if len(odds) else odds
    word, how = ("under", ", on the same prompts and seeds") if by_set == "condition" else ("of", "")
    sets_by_object: dict[str, list[str]] = {}
    added: dict[str, list[str]] = {}  # sets by how many more objects they hold
    unclear: list[str] = []
    for row in against.to_dict("records"):
        name, base = str(row[by_set]), str(row["base"])
        gained = (
            odds[(odds[by_set] == name) & (odds["differs"] == "yes") & (odds["log-odds"] > 0)] if len(odds) else odds
        )
        if gained.empty:
            unclear.append(f"{word} {name}: {findings[f'{name} named object'].says.rstrip('.')}")
        else:
            most = gained.sort_values("p adjusted", kind="stable").iloc[0]
            in_base = f"{base}: {most['with it in the base']:,}"
            in_set = f"in {most['pictures with it']:,} of {most['n']:,} pictures {word} {name} ({in_base})"
            sets_by_object.setdefault(f"“{most['object']}” is", []).append(in_set)
        if says := _moves(findings[f"{name} added"].estimate):
            added.setdefault(says, []).append(f"{word} {name}")
    parts = [f"{what} {listed(where)}" for what, where in sets_by_object.items()] + unclear
    text = f"Against {against['base'].iloc[0]}{how}, {'; '.join(parts)}."
    more = "; ".join(f"{says} {listed(where)}" for says, where in added.items())
    return f"{text} Objects a picture that no prompt names: {more}." if more else text


def _moves(change: Estimate) -> str:
    if math.isnan(change.value):
        return ""
    has_interval = not math.isnan(change.low)
    clear = " (no clear change)" if has_interval and change.low <= 0 <= change.high else ""
    return format_change(change.value, change.low, change.high, n=change.n) + clear


def _percent(share: Estimate) -> str:
    return format_share(share.value, share.low, share.high, n=share.n)
