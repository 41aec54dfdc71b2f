"""OASIS's headlines, its sentences on steps, and how well a step predicts the finished picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import kendall_tau
from bias_core.measures.propagation import StepsSeen
from bias_core.measures.sequential import against
from bias_core.number_text import format_change, format_estimate, format_given, format_interval, format_number, typeset
from bias_core.study.claims import decide_claims
from bias_core.study.design import ReportTexts
from bias_core.study.report_text import table_of
from bias_core.study.types import (
    Finding,
    StudyFigure,
    StudyReport,
    StudyTable,
    columns,
    drawable,
    finding,
    lean,
    listed,
)
from bias_core.types import Estimate, is_sourced

GAIN = "gain-"  # start of the keys of figures of predicted gain
BY_PAPER = "The paper's measure. "
PROMPTS = "table3"
BEYOND = "mean P − P*, sourced"  # over a nationality's attributes with a sourced P*
_THREE = 3  # nationalities, whose orders are 6; a perfect trend, up or down, is 2 of them


def steps_headline(report: StudyReport) -> str:
    """Say at which step each attribute first differs clearly from the base prompt."""
    gains = [figure for figure in report.results.figures if figure.key.startswith(GAIN)]
    return " ".join(_gain_sentence(figure, report.results.frame("spi")) for figure in gains)


def _gain_sentence(figure: StudyFigure, table: pd.DataFrame) -> str:
    concept, curves = figure.labels["concept"], figure.data.groupby("group", sort=False)
    early: list[tuple[int, str, str]] = []
    unclear: list[str] = []
    for name, steps in curves:
        is_clear = ((steps["low"] > 0) | (steps["high"] < 0)).tolist()
        if any(is_clear):
            first = is_clear.index(True)
            more = "more" if steps["value"].iloc[first] > 0 else "less"
            early.append((first, str(name), f"{name} {more} often (first at step {first + 1})"))
        else:
            unclear.append(str(name))
    if not early:
        n_seeds = table.loc[table["nationality"] == concept, "seeds"].max()
        return f"{concept}: with {n_seeds} seeds, no step differs clearly from the base prompt."
    rest = f"; no clear difference: {listed(unclear)}" if unclear else ""
    when = listed([words for *_, words in sorted(early)])
    base = figure.labels["base"]
    return f"Over {curves.size().max()} steps, “{concept}” differs from {base}: {when}{rest}."


def texts_of(report: StudyReport) -> pd.DataFrame:
    """Return the texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {PROMPTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[PROMPTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    return texts.assign(name=[cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)])


def texts_headline(report: StudyReport) -> str:
    """Say which texts fit their cluster better than the concept's other pictures."""
    texts = texts_of(report).drop_duplicates("name")
    is_specific = ~(texts["specificity low"] <= 0)  # nan: no other pictures
    specific_texts = "; ".join(
        f"{row['name']} ({100 * row['share']:.0f} % of the concept's pictures): “{row['prompt']}”"
        for row in texts[is_specific].to_dict("records")
    )
    rest = ", ".join(texts["name"][~is_specific])
    none = f"The best texts of {rest} do not clearly fit better than the concept's other pictures." if rest else ""
    best = f"Texts that fit a cluster best, for this encoder: {specific_texts}." if specific_texts else ""
    return " ".join(filter(None, [best, none]))


def stereotypes_headline(report: StudyReport) -> str:
    """Say how many attributes with a sourced rate are shown more often than in the real world, and which most."""
    table = table_of(report, "table1").frame
    comparable = table.dropna(subset=["P*"])
    comparable = comparable[comparable["P* from"].map(is_sourced)]
    which = f"of {len(comparable)} attributes with a sourced rate"
    if comparable.empty:
        shares = [
            f"{row['attribute']} of {row['nationality']} in "
            f"{format_estimate(row['P'], row['P low'], row['P high'], n=row['n'])}"
            for row in table.to_dict("records")
        ]
        return (
            f"Share of pictures: {listed(shares)}. No real-world rate with a source is known, so no share is called "
            "too high or too low."
        )
    comparable = _as_far_as_corrected(comparable)
    tested = [
        Estimate(value=row["P"], low=row["P low"], high=row["P high"], n=row["n"], null_value=row["P*"])
        for row in comparable.to_dict("records")
    ]
    confidence = report.settings.confidence
    tested = [against(share, share.null_value, confidence) for share in tested]
    is_clear = np.array([claim.is_clear for claim in decide_claims(tested, confidence=confidence)], dtype=bool)
    above = comparable[is_clear & (comparable["P low"] > comparable["P*"])]
    if above.empty:
        return f"None {which} is clearly shown more often than in the real world."
    most = above.assign(beyond=above["P"] - above["P*"]).nlargest(1, "beyond").iloc[0]
    ends = most["P"], most["P low"], most["P high"]
    beyond = format_estimate(*(end - most["P*"] for end in ends))
    return (
        f"{len(above)} {which} are shown more often than in the real world. Largest gap: "
        f"{most['attribute']} for {most['nationality']}, {format_number(*ends)} of pictures against "
        f"{format_given(most['P*'])} (P − P* = {beyond})."
    )


def _as_far_as_corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Return the lines with P corrected for the classifier's errors if known, as in figures and findings."""
    names = [name for name in ("P", "P low", "P high") if name.replace("P", "P corrected") in table]
    corrected = {name: table[name.replace("P", "P corrected")].astype(float) for name in names}
    return table.assign(**{name: column.fillna(table[name]) for name, column in corrected.items()})


def doctors_headline(report: StudyReport) -> str:
    """Say how often doctors are shown as men, and the effect of a nationality."""
    table = table_of(report, "table2").frame
    plain, others = _as_far_as_corrected(table).iloc[0], table.dropna(subset=["added"])
    parts = [
        f"{row['concept']} {format_change(row['added'], row['added low'], row['added high'])}"
        for _, row in others.iterrows()
    ]
    clear = others[(others["added low"] > 0) | (others["added high"] < 0)]
    verdict = "" if len(clear) else "; no clear difference"
    ends = plain["P low"], plain["P high"]
    first = (
        f"A share of {format_number(plain['P'], *ends)} of the pictures of a {plain['concept']} shows men "
        f"{format_interval(*ends, value=plain['P'])}."
    )
    return f"{first} Change with a nationality: {', '.join(parts)}{verdict}." if parts else first


def users_headline(report: StudyReport) -> str:
    """Say how far the pictures of each nationality are from the real world, fewest internet users first."""
    table = table_of(report, "figure3").frame
    if table[BEYOND].isna().all():
        return "No attribute of these nationalities has a real-world rate with a source, so none is compared."
    parts = [
        f"{row['nationality']} {typeset(row[BEYOND], '+.2f')} ({row['users']:g} million)"
        for _, row in table.dropna(subset=BEYOND).sort_values("users").iterrows()
    ]
    few = (
        " So few nationalities cannot show a trend: by chance, one order in three looks as clear."
        if len(table) == _THREE
        else ""
    )
    return (
        "Mean gap between share and real-world rate, over attributes whose rate has a source, fewest internet users "
        f"first: {', '.join(parts)}.{few}"
    )


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
    """Return the sentences on an attribute's steps and on its SPI, by its key in a report."""
    says = {one.key: one for one in report.results.findings}
    steps = [says[f"{key} {end}"].says for end in (VISIBLE, FIRST)]
    spi = says.get(f"{key} SPI")
    if spi is None:
        return steps
    value = format_change(spi.estimate.value, spi.estimate.low, spi.estimate.high, n=spi.estimate.n)
    return [*steps, f"SPI of the first step is {value}. {spi.says.removeprefix(BY_PAPER)}"]


def _share(share: Estimate) -> str:
    return f"{share.value * share.n:.0f} of {share.n} seeds [{100 * share.low:.0f} %, {100 * share.high:.0f} %]"


TEXTS = ReportTexts(__file__)
SPI, HEADING = "SPI", "predicted picture"
_FEWEST_SEEDS = 5  # orders of fewer agree by chance too often
_SAYS = (
    "Seeds with a higher SPI at the first step show the attribute more clearly in the finished picture.",
    "Seeds with a higher SPI at the first step show the attribute less clearly in the finished picture.",
    "No clear link between SPI of the first step and the finished picture.",
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
        name: [kendall_tau(step, finished, **how).tau for step in values.T]
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
            first = by_reading[SPI][0]
            says = first.note or lean(first, *_SAYS)
            findings.append(
                finding(f"{nationality} {name} foretold", f"{nationality}, {name}: SPI and the finished picture",
                        "kendall_tau", first, f"{says[0].upper()}{says[1:].rstrip('.')}.")
            )  # fmt: skip
    figure = TEXTS.figure("foretold", marks, nationality=nationality, place=place)
    return tuple(findings), drawable([figure]), rows


def foretelling_table(rows: Sequence[Mapping[str, Any]]) -> tuple[StudyTable, ...]:
    """Return all rows as a table; empty without rows."""
    return (TEXTS.table("foretold", rows),) if rows else ()
