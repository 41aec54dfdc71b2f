"""The headline of a report, the same wherever it stands: page, command line, API, report and cards.

Where people's labels correct the report's numbers, it is the first of these. A study may have its own (``headline`` and
``arms_headline`` of its class). No headline compares with a rate P* that somebody assumed: where none has a source,
it says the share with its interval.
"""

import math
from typing import Any

import pandas as pd

from bias_core.number_text import format_estimate, format_given, format_number
from bias_core.studies.kit.designs import known_study
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.kit.watching import stop_rule
from bias_core.studies.reports import verdicts
from bias_core.studies.reports.claims import corrected_headline
from bias_core.studies.reports.text import finding_rows, is_known

AGAINST_P_STAR = {"attribute_prevalence", "signed_difference", "stereotype_score"}
"""Measures that are compared with a P*: only a study that knows where it comes from makes a headline of them."""

_HANG_ON_P_STAR = AGAINST_P_STAR - {"attribute_prevalence"}  # a difference of shares is compared with 0


def headline(report: StudyReport) -> str:
    """What stands out, in a sentence or two; of a run that was stopped inside of its measuring also how far it came."""
    text = corrected_headline(report) or _of_all(report)
    return f"{text} Stopped after {report.stopped_after}." if report.stopped_after else text


def _of_all(report: StudyReport) -> str:
    if report.design.kind.startswith(verdicts.KINDS):
        return verdicts.headline(report)
    study = known_study(report.design)
    if report.arms:
        own = "" if study is None else study.arms_headline(report)
        return own or differences_headline(report, report.results.frame("differences"))
    return ("" if study is None else study.headline(report)) or numbers_headline(report)


def numbers_headline(report: StudyReport) -> str:
    """How many findings exclude their null value, and the clearest of them."""
    rows = [
        row
        for row, finding in zip(finding_rows(report), report.results.findings, strict=True)
        if finding.metric not in AGAINST_P_STAR and all(map(is_known, (row["low"], row["high"], row["null_value"])))
    ]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show what was found."
    away = [row for row in rows if not row["low"] <= row["null_value"] <= row["high"]]
    if not away:
        which = "The number is" if len(rows) == 1 else f"All {len(rows)} numbers are"
        return f"{which} compatible with “no bias”: no departure is shown, none is ruled out."
    lead = max(away, key=_clearance)
    if len(rows) == 1:
        return _spoken(lead)
    verb = "departs" if len(away) == 1 else "depart"
    return f"{len(away)} of {len(rows)} numbers {verb} clearly from “no bias”. Clearest: {_spoken(lead)}"


def _spoken(row: dict[str, Any]) -> str:
    number = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    null = format_given(row["null_value"])
    return f"{row['finding']}, {number}, where {null} would be no bias. {row['says']}".strip()


def _clearance(row: dict[str, Any]) -> float:
    """How far the null value lies outside of the interval, in widths of it."""
    outside = max(row["low"] - row["null_value"], row["null_value"] - row["high"])
    return outside / width if (width := row["high"] - row["low"]) else math.inf


def differences_headline(report: StudyReport, frame: pd.DataFrame) -> str:
    """What a comparison found, by the rows of its table of differences that may be compared."""
    tested = frame[frame["p adjusted"].notna()] if len(frame) else frame
    if stop_rule(report.settings) is not None and len(frame):
        return _summary_of_intervals(frame[frame["low"].notna()], _AT_ANY_TIME)
    if tested.empty and len(frame) and frame["low"].notna().any():
        return _summary_of_intervals(frame[frame["low"].notna()], "No p-value is claimed.")
    if tested.empty:
        return "Nothing could be tested on these pictures; the tables show what was measured."
    clear = tested[tested["clear"] == "yes"]
    if clear.empty:
        return f"No clear difference between the arms: none of {len(tested)} tests stands out from chance."
    row = clear[clear["finding"] == clear["finding"].iloc[0]].sort_values("difference", key=abs).iloc[-1]
    ends = row["low"], row["high"]
    text = (
        f"{row['finding']} is {format_number(row['value first'], *ends)} in “{row['first']}” and "
        f"{format_number(row['value second'], *ends)} in “{row['second']}”: a difference of "
        f"{format_estimate(row['difference'], *ends)}. {len(clear)} of {len(tested)} differences are clear "
        "after correction for looking at all."
    )
    return text[:1].upper() + text[1:]


_AT_ANY_TIME = "No p-value is claimed where a stop rule looks at the pictures; these intervals hold at any time."


def _summary_of_intervals(frame: pd.DataFrame, how: str) -> str:
    """What the intervals alone say, where no p-value is claimed; ``how`` says why."""
    clear = frame[(frame["low"] > 0) | (frame["high"] < 0)]
    if clear.empty:
        return f"No interval of the {len(frame)} differences leaves out 0. {how}"
    count = f"{len(clear)} of {len(frame)} intervals of differences leave out 0. {how}"
    if "measure" in clear and (clear := clear[~clear["measure"].isin(_HANG_ON_P_STAR)]).empty:
        return count
    alike = clear[clear["measure"] == clear["measure"].iloc[0]] if "measure" in clear else clear  # on one scale
    row = alike.iloc[int(alike["difference"].abs().to_numpy().argmax())]
    estimate = format_estimate(row["difference"], row["low"], row["high"])
    text = f"{row['finding']}, “{row['second']}” less “{row['first']}”: {estimate}, n = {row['n']} of each. "
    return f"{text[:1].upper()}{text[1:]}{count}"
