"""Hold the sentences of a report against its tables: what they claim, and each number in them."""

import math
import re

import numpy as np
import pandas as pd

from bias_core.report.headlines import headline
from bias_core.report.report_text import readable
from bias_core.study.types import named_parts

ROUNDING = 1e-9
_NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?(?:e[−+-]?\d+)?")
_QUOTED = re.compile(r"“[^”]*”|\([^()]*(?:Eq\.|Table|Fig)[^()]*\)")
# Constants of the wording.
_OWN = re.compile(r"95 %|\b5 %|p < 0\.001|\bn_\w+|Table \d+|Eq\. ?\d|10 units|10 points|at least \d+ are needed")


def broken_claims(report):
    """Return what is wrong with the claims of a report, in words; [] if each follows from its test."""
    wrong = []
    for name, part in [("comparison", report), *named_parts(report)] if report.arms else named_parts(report):
        level = 1 - part.settings.confidence
        for finding in part.results.findings:
            wrong += [f"{name} {finding.key}: {says}" for says in _broken_finding(finding, level)]
        for table in part.results.tables:
            wrong += [f"{name} {table.key}: {says}" for says in _broken_rows(table.frame, level)]
    return wrong


def _broken_finding(finding, level):
    estimate, claim = finding.estimate, finding.claim
    p, null = estimate.p_value, estimate.null_value
    if null is not None and not math.isnan(p) and math.isfinite(estimate.low) and math.isfinite(estimate.high):
        outside = not estimate.low - ROUNDING <= null <= estimate.high + ROUNDING
        inside = estimate.low + ROUNDING < null < estimate.high - ROUNDING
        if (p <= level and inside) or (p > level * (1 + 1e-6) and outside):
            yield f"p = {p}, yet the interval [{estimate.low}, {estimate.high}] of {null}"
    if claim is None or finding.claim_of:
        return
    if claim.is_clear != (claim.p_adjusted <= level + ROUNDING):
        yield f"{claim.verdict} with an adjusted p of {claim.p_adjusted}"
    if claim.p_adjusted < p - ROUNDING:
        yield f"adjusted p {claim.p_adjusted} below p {p}"
    if claim.is_clear and (claim.verdict == "above") != (estimate.value > null):
        yield f"{claim.verdict}, yet {estimate.value} against {null}"


def _broken_rows(frame, level):
    if not {"p", "p adjusted", "clear"} <= set(frame):
        return
    for i, row in enumerate(frame.to_dict("records")):
        is_clear = not math.isnan(row["p adjusted"]) and row["p adjusted"] <= level + ROUNDING
        if row["clear"] in ("yes", "no", "too few") and (row["clear"] == "yes") != is_clear:
            yield f"row {i}: clear {row['clear']!r} with an adjusted p of {row['p adjusted']}"
        if not math.isnan(row["p"]) and row["p adjusted"] < row["p"] - ROUNDING:
            yield f"row {i}: adjusted p {row['p adjusted']} below p {row['p']}"


def stray_numbers(report):
    """Return the numbers of the headline that are in no table or finding of the report, and count no rows of it."""
    text = _OWN.sub(" ", _QUOTED.sub(" ", headline(report).replace("\N{NO-BREAK SPACE}", " ")))
    tokens = [token.rstrip(",") for token in _NUMBER.findall(text)]
    values = np.array(sorted(_values(report)))
    return [token for token in tokens if not _is_known(token, values)]


def stray_counts(report):
    """Return each n of the headline that no finding or column of counts has; "no n" where an interval has none."""
    text = headline(report).replace("\N{NO-BREAK SPACE}", " ")
    said = {int(n.replace(",", "")) for n in re.findall(r"\bn = (\d[\d,]*)", text)}
    known, tables = set(), []
    for part in (report, *(part for _, part in named_parts(report))):
        known |= {finding.estimate.n for finding in part.results.findings}
        tables += [table.frame for table in part.results.tables]
    numbers = (frame[name].dropna() for frame in tables for name in frame.select_dtypes("number"))
    known |= {int(value) for column in numbers for value in column if float(value).is_integer()}
    has_n = said or re.search(r"\bof (?:the )?\d[\d,]* \w+|\b\d+ against \d+ \w+", text, re.IGNORECASE)
    return sorted(said - known) if has_n or "[" not in text else ["no n"]


def _is_known(token, values):
    number = float(token.replace("−", "-").replace(",", ""))
    decimals = len(token.partition(".")[2].partition("e")[0])
    near = 0.5 * 10.0**-decimals * (1 + 1e-9)
    if "e" in token:
        near = abs(number) * 0.06
    return bool((np.abs(np.abs(values) - abs(number)) <= near).any())


def _values(report):
    parts = [report, *(part for _, part in named_parts(report))]
    values = {float(report.n_images), float(report.n_planned), float(report.n_blocked), float(len(report.arms))}
    for part in parts:
        claims = [finding.claim for finding in part.results.findings if finding.claim is not None]
        values |= {float(claim.n_tests) for claim in claims} | {float(sum(claim.is_clear for claim in claims))}
        values |= {float(len(part.results.findings))}
        for finding in part.results.findings:
            estimate = finding.estimate
            scale = (estimate.value, estimate.low, estimate.high, estimate.n, estimate.p_value, estimate.null_value)
            scale = (*scale, finding.claim.p_adjusted if finding.claim else None)
            values |= {float(number) for number in scale if number is not None and math.isfinite(number)}
            values |= {float(token.replace("−", "-").replace(",", "")) for token in _NUMBER.findall(finding.says)}
        for table in part.results.tables:
            values |= set(_of_frame(table.frame))
    shares = {100 * value for value in values} | {100 * (1 - value) for value in values}
    shares |= {(value + 100) / 2 for value in values}  # a stereotype test score as a share
    return values | shares


def _of_frame(frame):
    yield float(len(frame))
    for name in frame:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            yield from (float(value) for value in column.dropna() if math.isfinite(value))
            yield from (float((column > 0).sum()), float((column < 0).sum()))
        else:
            yield from map(float, column.astype(str).value_counts())  # rows that say the same, such as clear: yes
    for column in readable(frame).to_numpy(object).ravel():
        yield from (float(token.replace("−", "-").replace(",", "")) for token in _NUMBER.findall(str(column))[:12])
