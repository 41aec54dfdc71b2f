"""OASIS's headlines, its sentences on steps, and how well a step predicts the finished picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import kendall_tau
from bias_core.measures.intervals import smallest_p_value, with_p_through_ends
from bias_core.measures.propagation import StepsSeen
from bias_core.number_text import format_change, format_estimate, format_given, format_share, state_p
from bias_core.papers.oasis.prompt_search import PERMUTATIONS
from bias_core.study.claims import NO_CLAIM, fewest_units, p_words
from bias_core.study.design import ReportTexts
from bias_core.study.report_text import table_of
from bias_core.study.types import (
    MOST_IN_HOLM,
    Finding,
    StudyFigure,
    StudyReport,
    StudyTable,
    columns,
    drawable,
    finding,
    listed,
)
from bias_core.types import Estimate, is_sourced
from bias_core.values import option_values

GAIN = "gain-"  # start of the keys of figures of predicted gain
BY_PAPER = "SPI is the paper's measure."
PROMPTS = "table3"
BEYOND = "mean P − P*, sourced"  # over a nationality's attributes with a sourced P*
_THREE = 3  # nationalities, whose orders are 6; a perfect trend, up or down, is 2 of them


def steps_headline(report: StudyReport) -> str:
    """Name the attributes that are clearly seen more or less often than with the base prompt, over all steps."""
    table = report.results.frame("spi")
    if table.empty or "clear" not in table:
        return ""
    bases = {figure.labels["base"]: None for figure in report.results.figures if figure.key.startswith(GAIN)}
    n_seeds, n = int(table["seeds"].max()), len(table)
    rows = sorted(table.to_dict("records"), key=lambda row: -abs(row["all steps"]))
    clear = [_gain_words(row, n) for row in rows if row["clear"] == "yes"]
    base = f"seen more or less often than with {listed([*bases])}"
    if clear:
        which = f"{len(clear)} of {n} attributes {'is' if len(clear) == 1 else 'are'}" if n > 1 else "The attribute is"
        return f"{which} clearly {base}, over all steps of {n_seeds} seeds: {listed(clear, '; ')}."
    key = f"{rows[0]['nationality']} {rows[0]['attribute']}"
    claim = next(finding.claim for finding in report.results.findings if finding.key == key) or NO_CLAIM
    says = f"With {n_seeds} seeds, {f'none of {n} attributes is' if n > 1 else 'the attribute is not'} clearly {base}."
    reason = f" Not clear: {claim.reason}." if claim.verdict == "not clear" and claim.reason else ""
    if (table["clear"] == "too few").all():
        says = (
            f"Of {n_seeds} seed{'s' * (n_seeds > 1)}, too few, it cannot be told whether "
            f"{f'any of {n} attributes' if n > 1 else 'the attribute'} is {base}: at least "
            f"{fewest_units(claim) if claim.n_tests else 2} are needed."
        )
    return f"{says} {'Farthest: ' if n > 1 else ''}{_gain_words(rows[0], n)}.{reason}"


def _gain_words(row: Mapping[Any, Any], n_tests: int) -> str:
    """Return an attribute, its gain over all steps with interval and p, and the first clear step if there is one."""
    gain = format_change(row["all steps"], row["all steps low"], row["all steps high"], n=row["seeds"])
    p = state_p(row["p adjusted"], adjusted=n_tests > 1)
    when = "" if np.isnan(row["first clear"]) else f"first at step {row['first clear']:.0f} of {row['steps']}"
    return ", ".join(filter(None, [f"{row['nationality']}, {row['attribute']} {gain}", p, when]))


def texts_of(report: StudyReport) -> pd.DataFrame:
    """Return the texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {PROMPTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[PROMPTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    return texts.assign(name=[cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)])


def texts_headline(report: StudyReport) -> str:
    """Say which first texts clearly fit their cluster better than the concept's other pictures, and which are weak."""
    all_texts = texts_of(report)
    if all_texts.empty or "clear" not in all_texts:
        return ""
    texts = all_texts.drop_duplicates("name").sort_values("specificity", ascending=False, kind="stable")
    words = texts["clear"].where((texts["clear"] != "yes") | (texts["specificity"] > 0), "no")
    by_word = {word: texts[words == word] for word in ("yes", "no", "too few", "")}
    options = option_values(report.settings.options)
    how = "Most specific" if options.get("contrast", True) else "Closest and specific"
    says = []
    if len(by_word["yes"]):
        first, *others = by_word["yes"].to_dict("records")
        by = format_change(first["specificity"], first["specificity low"], first["specificity high"])
        named = [f"{_quote(first, options)} (by {by}, n = {first['n']})", *(_quote(row, options) for row in others)]
        says.append(f"{how} to a cluster: {listed(named, '; ')}.")
    for word, what in _NOT_SPECIFIC.items():
        named = [
            f"{_quote(row, options)}{' (' + format_change(row['specificity']) + ')' if word == 'no' else ''}"
            for row in by_word[word].to_dict("records")
        ]
        says += [f"{what}: {listed(named, '; ')}."] if named else []
    if len(by_word["too few"]):
        n_tests = int((all_texts["clear"] != "").sum())
        level = (1 - report.settings.confidence) / (n_tests if n_tests <= MOST_IN_HOLM else 1)
        says.append(f"About {_times_needed(by_word['too few'], level)} times as many pictures are needed.")
    return " ".join(says)


def _quote(row: Mapping[Any, Any], options: Mapping[str, Any]) -> str:
    """Return a cluster and its text without the beginning that all texts have."""
    return f"{row['name']} “{str(row['prompt']).removeprefix(str(options.get('prefix', ''))).strip()}”"


_NOT_SPECIFIC = {
    "no": "Weak, not clearly better than for the other pictures",
    "too few": "Too few pictures to tell whether the best text fits better than for the other pictures",
    "": "Not tested, as the search saw all pictures or there are no others",
}


def _times_needed(texts: pd.DataFrame, level: float) -> int:
    """Return how many times the pictures are needed for a random division of them to give p <= ``level``."""
    sizes = list(zip(texts["n"], texts["n others"], strict=True))
    return next(
        (k for k in range(2, 100) if all(smallest_p_value(k * n, k * m, PERMUTATIONS) <= level for n, m in sizes)), 100
    )


def stereotypes_headline(report: StudyReport) -> str:
    """Say how many attributes with a sourced rate are shown more often than in the real world, and which most."""
    table = table_of(report, "table1").frame
    shares = {finding.key: finding for finding in report.results.findings}
    rows = {f"{row['nationality']} {row['attribute']} P": row for row in table.to_dict("records")}
    compared = [shares[key] for key, row in rows.items() if is_sourced(row["P* from"]) and not np.isnan(row["P*"])]
    if not compared:
        seen = [f"{shares[key].title.removesuffix(': P')} in {_share_words(shares[key].estimate)}" for key in rows]
        return f"Share of pictures: {listed(seen)}. {_NO_SOURCE}"
    claims = [share.claim for share in compared if share.claim is not None]
    if len(claims) < len(compared):  # a report of an earlier version
        return ""
    above = [share for share, claim in zip(compared, claims, strict=True) if claim.verdict == "above"]
    zeta = option_values(report.settings.options).get("threshold")
    what = f"shown more often than in the real world{f' by more than {zeta:g}' if zeta else ''}"
    farthest = max(above or compared, key=lambda share: share.estimate.value - rows[share.key]["P*"])
    row, share, claim = rows[farthest.key], farthest.estimate, farthest.claim
    p = f" ({p_words(claim)})" if claim is not None and p_words(claim) else ""
    gap = (
        f"Largest gap: {row['attribute']} for {row['nationality']}, in {_share_words(share)} against "
        f"{format_given(row['P*'])}{p}."
    )
    n, which = len(compared), "with a sourced rate"
    if above:
        verb = "is" if len(above) == 1 else "are"
        first = f"{len(above)} of {n} attributes {which} {verb}" if n > 1 else f"The one attribute {which} is"
        return f"{first} clearly {what}. {gap}"
    reason = f" Not clear: {claim.reason}." if claim is not None and claim.reason else ""
    first = f"None of {n} attributes {which} is" if n > 1 else f"The one attribute {which} is not"
    return f"{first} clearly {what}. {gap}{reason}"


_NO_SOURCE = "No real-world rate with a source is known, so no share is called too high or too low."


def _share_words(share: Estimate) -> str:
    return f"{format_estimate(share.value, share.low, share.high, n=share.n)} of {share.n:,} pictures"


def doctors_headline(report: StudyReport) -> str:
    """Say how often doctors are shown as men, and the effect of a nationality."""
    table = table_of(report, "table2").frame
    share = report.results.findings[0].estimate
    percent = format_share(share.value, share.low, share.high, n=share.n)
    first = f"Pictures of a {table['concept'].iloc[0]} show men in {percent} (n = {share.n:,})."
    others = table.dropna(subset=["added"])
    if others.empty or "clear" not in others:
        return first
    parts = [
        f"{row['concept']} {format_change(row['added'], row['added low'], row['added high'])}"
        + (f" ({state_p(row['p adjusted'], adjusted=len(others) > 1)}, clear)" if row["clear"] == "yes" else "")
        for row in others.to_dict("records")
    ]
    verdict = "" if (others["clear"] == "yes").any() else "; no clear difference"
    return f"{first} Change with a nationality: {', '.join(parts)}{verdict}."


def users_headline(report: StudyReport) -> str:
    """Say how far the pictures of each nationality are from the real world, fewest internet users first."""
    table = table_of(report, "figure3").frame
    if "clear" not in table:  # a report of an earlier version
        return ""
    if table[BEYOND].isna().all():
        return "No attribute of these nationalities has a real-world rate with a source, so none is compared."
    without = table["nationality"][table[BEYOND].isna()].tolist()
    compared = table.dropna(subset=BEYOND).sort_values("users")
    parts = [
        f"{row['nationality']} {format_change(row[BEYOND], row[f'{BEYOND} low'], row[f'{BEYOND} high'])} "
        f"({row['users']:g} million, n = {row['n']:,}{', clear' * (row['clear'] == 'yes')})"
        for row in compared.to_dict("records")
    ]
    says = [
        "Mean gap between share and real-world rate, over attributes whose rate has a source, fewest internet users "
        f"first: {', '.join(parts)}."
    ]
    if without:
        says.append(f"Without a sourced rate, so not compared: {', '.join(without)}.")
    if len(compared) <= _THREE:
        says.append("So few nationalities cannot show a trend: by chance, one order in three looks as clear.")
    return " ".join(says)


def cluster_name(concept: str, number: int) -> str:
    """Return the name of a cluster; numbers start at 1 with the largest."""
    return f"{concept}, cluster {number}"


VISIBLE, FIRST = "visible", "first seen"  # ends of the findings' keys


def step_findings(key: str, title: str, visible: StepsSeen, first: StepsSeen, n_steps: int) -> tuple[Finding, Finding]:
    """Return two findings: shares of seeds, each with its sentence."""
    return (
        finding(
            f"{key} {VISIBLE}", f"{title}: can be seen", "visible_steps", visible.by_typical,
            visible_sentence(visible, n_steps),
        ),
        finding(
            f"{key} {FIRST}", f"{title}: first seen without the base prompt", "first_seen_steps", first.by_typical,
            first_sentence(first, n_steps),
        ),
    )  # fmt: skip


def visible_sentence(steps: StepsSeen, n_steps: int) -> str:
    """Say from which step on the attribute can be seen.

    >>> from bias_core.measures.propagation import visible_steps
    >>> visible_sentence(visible_steps([[-0.1, 0.2], [0.1, 0.1], [-0.2, -0.1]]), 2)
    'It can be seen from the start, by then in 1 of 3 seeds [2 %, 86 %]; by step 2 in all 2 that end with it.'
    >>> visible_sentence(visible_steps([[0.2, -0.1], [0.2, -0.1]]), 2)
    'It cannot be seen: the classifier sees it in none of 2 finished pictures.'
    """
    n, n_seen = len(steps.each), steps.n_seen
    if not n_seen:
        return f"It cannot be seen: the classifier sees it in none of {n} finished pictures."
    when = f"from step {steps.typical:.0f} of {n_steps} on"
    if steps.typical == 1:
        when = "from the start"
    elif steps.typical == n_steps:
        when = "at the last step only"
    latest = float(np.nanmax(steps.each))
    rest = f"; by step {latest:.0f} in all {n_seen} that end with it" if latest > steps.typical else ""
    if not rest and n_seen < n:
        rest = f"; {n - n_seen} end without it"
    return f"It can be seen {when}, by then in {_share(steps.by_typical)}{rest}."


def first_sentence(steps: StepsSeen, n_steps: int) -> str:
    """Say at which step the attribute is first seen in seeds without it under the base prompt.

    >>> from bias_core.measures.propagation import first_seen_steps
    >>> steps = first_seen_steps([[-0.1, -0.1], [0.1, 0.1]], [[-0.1, 0.2], [0.1, 0.1]])
    >>> first_sentence(steps, 2).partition(", by then ")
    ('It is first seen without the base prompt showing it at step 2 of 2', ', by then ', 'in 1 of 2 seeds [3 %, 97 %]; in 1 never.')
    """  # noqa: E501 - one sentence
    n = len(steps.each)
    if not steps.n_seen:
        return f"It is never seen without the base prompt showing it, in {n} seeds."
    when = "from the start" if steps.typical == 1 else f"at step {steps.typical:.0f} of {n_steps}"
    never = f"; in {n - steps.n_seen} never" if steps.n_seen < n else ""
    return f"It is first seen without the base prompt showing it {when}, by then in {_share(steps.by_typical)}{never}."


def step_sentences(report: StudyReport, key: str) -> list[str]:
    """Return the sentences on an attribute's steps, on its gain and on its SPI, by its key in a report."""
    by_key = {finding.key: finding for finding in report.results.findings}
    steps = [by_key[f"{key} {end}"].says for end in (VISIBLE, FIRST)]
    numbers = {"Predicted gain over all steps": by_key[key], "SPI of the first step": by_key[f"{key} SPI"]}
    return steps + [
        f"{name} is {format_change(e.value, e.low, e.high, n=e.n)}, n = {e.n}. {finding.says}"
        for name, finding in numbers.items()
        for e in [finding.estimate]
    ]


def _share(share: Estimate) -> str:
    return f"{share.value * share.n:.0f} of {share.n} seeds [{100 * share.low:.0f} %, {100 * share.high:.0f} %]"


TEXTS = ReportTexts(__file__)
SPI, HEADING = "SPI", "predicted picture"
_FEWEST_SEEDS = 5  # orders of fewer agree by chance too often
_FORETOLD = (
    "Seeds with a higher SPI at the first step show the attribute more clearly in the finished picture.",
    "Seeds with a higher SPI at the first step show the attribute less clearly in the finished picture.",
    "SPI of the first step and the finished picture are not clearly linked.",
)


def agreements(
    spi: np.ndarray, heading: np.ndarray, finished: np.ndarray, *, confidence: float, seed: int
) -> Mapping[str, list[Estimate]]:
    """Return Kendall's τ over seeds of SPI, and of predicted pictures' margins, with finished margins, step by step.

    ``spi`` and ``heading`` (the predicted margins) are (n_seeds, n_steps), ``finished`` (n_seeds,). Empty for too few
    seeds.
    """
    if len(finished) < _FEWEST_SEEDS:
        return {}
    how: dict[str, Any] = {"confidence": confidence, "n_resamples": 500, "rng": seed}
    return {
        name: [
            with_p_through_ends(replace(kendall_tau(step, finished, **how).tau, null_value=0.0), confidence)
            for step in values.T
        ]
        for name, values in ((SPI, spi), (HEADING, heading))
    }


def foretelling(
    nationality: str, place: str, by_name: Mapping[str, Mapping[str, Sequence[Estimate]]]
) -> tuple[tuple[Finding, ...], tuple[StudyFigure, ...], list[dict[str, Any]]]:
    """Return a nationality's findings, one for each attribute, their figure, and rows of the table."""
    findings, marks, rows = [], [], []
    for name, by_reading in by_name.items():
        for reading, steps in by_reading.items():
            for step, tau in enumerate(steps, start=1):
                here = {"x": step, **columns("value", tau, ends="")}
                marks += [] if np.isnan(tau.value) else [{"group": f"{name}: {reading}", **here}]
                rows.append({"nationality": nationality, "attribute": name, "reading": reading, "step": step,
                             **columns("τ", tau), "seeds": tau.n})  # fmt: skip
        if SPI in by_reading:
            findings.append(
                finding(f"{nationality} {name} foretold", f"{nationality}, {name}: SPI and the finished picture",
                        "kendall_tau", by_reading[SPI][0], readings=_FORETOLD)
            )  # fmt: skip
    figure = TEXTS.figure("foretold", marks, nationality=nationality, place=place)
    return tuple(findings), drawable([figure]), rows


def foretelling_table(rows: Sequence[Mapping[str, Any]]) -> tuple[StudyTable, ...]:
    """Return all rows as a table; empty without rows."""
    return (TEXTS.table("foretold", rows),) if rows else ()
