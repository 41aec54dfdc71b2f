"""OASIS's headlines, its sentences on steps, and how well a step foretells the finished picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import kendall_tau
from bias_core.measures.effects import adjusted_share_p_values
from bias_core.measures.propagation import StepsSeen
from bias_core.number_text import format_change, format_estimate, format_given, format_interval, format_number, typeset
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

GAIN = "gain-"  # begins the keys of the figures of predicted gain
PROMPTS = "table3"
BEYOND = "mean P − P*, sourced"  # of the attributes of a nationality whose P* has a source
_THREE = 3  # nationalities, whose orders are 6; a perfect trend, up or down, is 2 of them


def steps_headline(report: StudyReport) -> str:
    """Say at which steps each attribute is first told apart from the base prompt."""
    gains = [figure for figure in report.results.figures if figure.key.startswith(GAIN)]
    return " ".join(_gain_sentence(figure, report.results.frame("spi")) for figure in gains)


def _gain_sentence(figure: StudyFigure, table: pd.DataFrame) -> str:
    """At which steps each attribute is first told apart from the base prompt."""
    concept, curves = figure.labels["concept"], figure.data.groupby("group", sort=False)
    early: list[tuple[int, str, str]] = []
    unclear: list[str] = []
    for name, steps in curves:
        is_clear = ((steps["low"] > 0) | (steps["high"] < 0)).tolist()
        if any(is_clear):
            first = is_clear.index(True)
            more = "(more often)" if steps["value"].iloc[first] > 0 else "(less often)"
            early.append((first, str(name), f"step {first + 1} for {name} {more}"))
        else:
            unclear.append(str(name))
    if not early:
        n_seeds = table.loc[table["nationality"] == concept, "seeds"].max()
        return f"{concept}: with {n_seeds} seeds no step is told apart from the base prompt."
    rest = f"; not told apart: {listed(unclear)}" if unclear else ""
    when = listed([words for *_, words in sorted(early)])
    base = figure.labels["base"]
    return f"Of {curves.size().max()} steps, {concept} is told apart from {base} from {when}{rest}."


def texts_of(report: StudyReport) -> pd.DataFrame:
    """The texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {PROMPTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[PROMPTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    return texts.assign(name=[cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)])


def texts_headline(report: StudyReport) -> str:
    """Say which texts tell their cluster from the concept's other pictures."""
    texts = texts_of(report).drop_duplicates("name")
    is_specific = ~(texts["specificity low"] <= 0)  # nan: nothing to be told apart from
    specific_texts = "; ".join(
        f"{row['name']} ({100 * row['share']:.0f} % of the concept's pictures): “{row['prompt']}”"
        for row in texts[is_specific].to_dict("records")
    )
    rest = ", ".join(texts["name"][~is_specific])
    none = f"No text tells {rest} from the concept's other pictures." if rest else ""
    return " ".join(filter(None, [f"For this reader, {specific_texts}." if specific_texts else "", none]))


def stereotypes_headline(report: StudyReport) -> str:
    """Say how many attributes with a sourced rate are shown more often than in the world, and which most."""
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
            f"Share of the pictures: {listed(shares)}. No real-world rate with a source is known, so that none is "
            "called too high or too low."
        )
    comparable = _as_far_as_corrected(comparable)
    tested = [
        Estimate(value=row["P"], low=row["P low"], high=row["P high"], n=row["n"], null_value=row["P*"])
        for row in comparable.to_dict("records")
    ]
    is_clear = adjusted_share_p_values(tested, report.settings.confidence) <= 1 - report.settings.confidence
    above = comparable[is_clear & (comparable["P low"] > comparable["P*"])]
    if above.empty:
        return f"None {which} is told to be shown more often than in the world."
    most = above.assign(beyond=above["P"] - above["P*"]).nlargest(1, "beyond").iloc[0]
    ends = most["P"], most["P low"], most["P high"]
    beyond = format_estimate(*(end - most["P*"] for end in ends))
    return (
        f"{len(above)} {which} are shown more often than in the world. Farthest: "
        f"{most['attribute']} for {most['nationality']}, P − P* = {beyond}: "
        f"{format_number(*ends)} of the pictures against {format_given(most['P*'])}."
    )


def _as_far_as_corrected(table: pd.DataFrame) -> pd.DataFrame:
    """P of these lines as the figures and findings have it: corrected for the reader's errors where they are known."""
    names = [name for name in ("P", "P low", "P high") if name.replace("P", "P corrected") in table]
    corrected = {name: table[name.replace("P", "P corrected")].astype(float) for name in names}
    return table.assign(**{name: column.fillna(table[name]) for name, column in corrected.items()})


def doctors_headline(report: StudyReport) -> str:
    """Say how often doctors are shown as men, and what a nationality adds to that."""
    table = table_of(report, "table2").frame
    plain, others = _as_far_as_corrected(table).iloc[0], table.dropna(subset=["added"])
    parts = [
        f"{row['concept']} {format_change(row['added'], row['added low'], row['added high'])}"
        for _, row in others.iterrows()
    ]
    clear = others[(others["added low"] > 0) | (others["added high"] < 0)]
    verdict = "" if len(clear) else ", which is not told apart from nothing"
    ends = plain["P low"], plain["P high"]
    first = (
        f"Shown as men: {format_number(plain['P'], *ends)} of the pictures of a {plain['concept']} "
        f"{format_interval(*ends, value=plain['P'])}."
    )
    return f"{first} A nationality adds to that: {', '.join(parts)}{verdict}." if parts else first


def users_headline(report: StudyReport) -> str:
    """Say how far the pictures of each nationality are from the world, fewest internet users first."""
    table = table_of(report, "figure3").frame
    if table[BEYOND].isna().all():
        return "No attribute of these nationalities has a real-world rate with a source, so that none is compared."
    parts = [
        f"{row['nationality']} {typeset(row[BEYOND], '+.2f')} ({row['users']:g} million)"
        for _, row in table.dropna(subset=BEYOND).sort_values("users").iterrows()
    ]
    few = (
        " So few nationalities cannot show a trend: by chance alone, one order in three looks as clear."
        if len(table) == _THREE
        else ""
    )
    return (
        "Share of the pictures less the rate in the world, mean over the attributes whose rate has a source, "
        f"fewest internet users first: {', '.join(parts)}.{few}"
    )


def cluster_name(concept: str, number: int) -> str:
    """Return the name of a cluster on pages and in tables; numbers start at 1 with the largest."""
    return f"{concept}, cluster {number}"


VISIBLE, FIRST = "visible", "first seen"  # ends of the findings' keys


def step_findings(key: str, title: str, visible: StepsSeen, first: StepsSeen, n_steps: int) -> tuple[Finding, Finding]:
    """The shares of seeds, each with its sentence."""
    return (
        finding(
            f"{key} {VISIBLE}", f"{title}: can be seen", "visible_steps", visible.by_typical,
            visible_sentence(visible, n_steps),
        ),
        finding(
            f"{key} {FIRST}", f"{title}: first seen beside the base prompt", "first_seen_steps", first.by_typical,
            first_sentence(first, n_steps),
        ),
    )  # fmt: skip


def visible_sentence(steps: StepsSeen, n_steps: int) -> str:
    """Return the step from which on it can be seen, in words.

    >>> from bias_core.measures.propagation import visible_steps
    >>> visible_sentence(visible_steps([[-0.1, 0.2], [0.1, 0.1], [-0.2, -0.1]]), 2)
    'It can be seen from the start, by then in 1 of 3 seeds [2 %, 86 %]; by step 2 in all 2 that end with it.'
    >>> visible_sentence(visible_steps([[0.2, -0.1], [0.2, -0.1]]), 2)
    'It cannot be seen: the reader sees it in none of 2 finished pictures.'
    """
    n, n_seen = len(steps.each), steps.n_seen
    if not n_seen:
        return f"It cannot be seen: the reader sees it in none of {n} finished pictures."
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
    """At which step it is first seen where the base prompt lacks it.

    >>> from bias_core.measures.propagation import first_seen_steps
    >>> steps = first_seen_steps([[-0.1, -0.1], [0.1, 0.1]], [[-0.1, 0.2], [0.1, 0.1]])
    >>> first_sentence(steps, 2).partition(", by then ")
    ('Where the base prompt lacks it, it is first seen at step 2 of 2', ', by then ', 'in 1 of 2 seeds [3 %, 97 %]; in 1 never.')
    """  # noqa: E501 - one sentence
    n = len(steps.each)
    if not steps.n_seen:
        return f"Where the base prompt lacks it, it is not seen at any step of {n} seeds."
    when = "from the start" if steps.typical == 1 else f"at step {steps.typical:.0f} of {n_steps}"
    never = f"; in {n - steps.n_seen} never" if steps.n_seen < n else ""
    return f"Where the base prompt lacks it, it is first seen {when}, by then in {_share(steps.by_typical)}{never}."


def step_sentences(report: StudyReport, key: str) -> list[str]:
    """Both sentences and that of SPI, of an attribute by its key in a report."""
    says = {one.key: one for one in report.results.findings}
    steps = [says[f"{key} {end}"].says for end in (VISIBLE, FIRST)]
    spi = says.get(f"{key} SPI")
    if spi is None:
        return steps
    value = format_change(spi.estimate.value, spi.estimate.low, spi.estimate.high, n=spi.estimate.n)
    return [*steps, f"SPI of the first step is {value}. {spi.says.removeprefix('As the paper has it. ')}"]


def _share(share: Estimate) -> str:
    return f"{share.value * share.n:.0f} of {share.n} seeds [{100 * share.low:.0f} %, {100 * share.high:.0f} %]"


TEXTS = ReportTexts(__file__)
SPI, HEADING = "SPI", "what the step heads for"
_FEWEST_SEEDS = 5  # of fewer, orders agree by chance too often to say anything
_SAYS = (
    "Where SPI of the first step is higher, the finished picture is read to have it more.",
    "Where SPI of the first step is higher, the finished picture is read to have it less.",
    "SPI of the first step is not told to go with what the finished picture shows.",
)


def agreements(
    spi: np.ndarray, heading: np.ndarray, finished: np.ndarray, *, confidence: float, seed: int
) -> Mapping[str, list[Estimate]]:
    """Kendall's τ over seeds of SPI, and of the margins of predicted pictures, with the finished margins, step by step.

    Parameters
    ----------
    spi, heading : arrays (n_seeds, n_steps).
    finished : array (n_seeds,). Margins of the finished pictures.

    Returns
    -------
    The estimates of each step by what was read; empty for too few seeds.
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
    """All rows as a table; none where there are none."""
    return (TEXTS.table("foretold", rows),) if rows else ()
