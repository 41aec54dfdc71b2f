"""Headlines of association studies: tests of two concepts, occupations, their words, and people's choices."""

from typing import Any

import pandas as pd

from bias_core.number_text import format_estimate, format_p
from bias_core.study.report_text import table_of
from bias_core.study.types import StudyReport, listed

SIGNIFICANT = 0.05


def order_headline(report: StudyReport) -> str:
    """Say how well associations and people's choices rank the concepts alike."""
    order = next((finding.estimate for finding in report.results.findings if finding.key == "order"), None)
    if order is None:
        return "Too few concepts have both choices and associations to compare their order."
    return (
        "Associations and people's choices rank the concepts with an agreement of τ = "
        f"{format_estimate(order.value, order.low, order.high, n=order.n)} "
        "(1: same order, 0: unrelated orders)."
    )


def test_of(report: StudyReport, key: str) -> dict[str, Any]:
    """Return a test of the design by its key; empty if there is none."""
    return next((test for test in report.design.data.get("tests", ()) if test["key"] == key), {})


def tests_table(report: StudyReport) -> pd.DataFrame:
    """Return Table 1 with the names of the attributes for sentences."""
    table = table_of(report, "table1").frame
    tests = [test_of(report, key) for key in table["test"]]
    return table.assign(A=[test["a"] for test in tests], B=[test["b"] for test in tests])


def tests_headline(report: StudyReport) -> str:
    """Say which concepts differ clearly; with p only if the number of prompts was fixed beforehand."""
    if report.results.frame("table1").empty:
        return ""
    table, with_p = tests_table(report), not report.stopped
    clear = table[table["q"] < SIGNIFICANT].sort_values("q", kind="stable")
    row = (table if clear.empty else clear).iloc[0]
    more, less = (row["X"], row["Y"]) if row["S"] > 0 else (row["Y"], row["X"])
    lean = f"Pictures of {more} are closer to “{row['A']}” than pictures of {less}"
    score = f"S = {format_estimate(row['S'], row['low'], row['high'])}" + f", p = {format_p(row['p'])}" * with_p
    if len(table) == 1 and clear.empty:
        smallest = row["smallest p"]
        few = (
            f"{row['prompts X']} against {row['prompts Y']} prompts give p = {smallest:#.2g} at best: use more."
            if smallest >= SIGNIFICANT
            else "This does not prove that there is none."
        )
        return f"Pictures of {row['X']} and of {row['Y']} show no clear difference: {score}. {few}"
    if clear.empty:
        return f"None of {len(table)} tests shows a clear difference between its two concepts; there may still be one."
    if len(table) == 1:
        return f"{lean}: {score} (0: no difference)."
    return (
        f"{len(clear)} of {len(table)} tests show a clear difference between their two concepts, corrected for all "
        f"tests. Clearest: {lean[0].lower()}{lean[1:]}, {score}."
    )


_LENGTHS = "The strengths cannot be compared: similarities of pictures and of words have different scales."


def words_headline(report: StudyReport) -> str:
    """Say how many occupations' pictures have a clear association, and how many agree with their words."""
    table = report.results.frame("amplification")
    if table.empty:
        return ""
    is_clear = (table["low"] > table["even mix"]) | (table["high"] < table["even mix"])
    if not is_clear.any():
        return f"None of {len(table)} occupations has pictures with a clear association. {_LENGTHS}"
    clear = table[is_clear]
    n_same = int((((clear["image"] - clear["even mix"]) > 0) == (clear["text"] > 0)).sum())
    return (
        f"{len(clear)} of {len(table)} occupations have pictures with a clear association: {n_same} on the side of "
        f"their words, {len(clear) - n_same} on the other. {_LENGTHS}"
    )


def occupations_headline(report: StudyReport) -> str:
    """Say which occupations are associated with male and which with female."""
    table = report.results.frame("occupations")
    if table.empty:
        return ""
    male = table.loc[table["beyond low"] > 0, "occupation"].tolist()
    female = table.loc[table["beyond high"] < 0, "occupation"].tolist()
    parts = [f"{listed(names)} with {side}" for names, side in ((male, "male"), (female, "female")) if names]
    if not parts:
        return f"None of {len(table)} occupations differs clearly from an even mix of male and female; some may differ."
    rest = len(table) - len(male) - len(female)
    unclear = f"; the other {rest} do not differ clearly from an even mix of both" if rest else ""
    return f"Pictures associate {', and '.join(parts)}{unclear}."
