"""The headlines of association studies: tests of two concepts, occupations, their words, and people's choices."""

from typing import Any

import pandas as pd

from bias_core.number_text import format_estimate, format_p
from bias_core.study.report_text import table_of
from bias_core.study.types import StudyReport

SIGNIFICANT = 0.05


def order_headline(report: StudyReport) -> str:
    """Say how far associations and people's choices put concepts in one order."""
    order = next((finding.estimate for finding in report.results.findings if finding.key == "order"), None)
    if order is None:
        return "Too few concepts have choices and associations to put them in order."
    return (
        "Associations and choices put the concepts in orders that agree by τ = "
        f"{format_estimate(order.value, order.low, order.high, n=order.n)}: "
        "1 is the same order, 0 is none in common."
    )


def test_of(report: StudyReport, key: str) -> dict[str, Any]:
    """A test of the design by its key; empty where it has none."""
    return next((test for test in report.design.data.get("tests", ()) if test["key"] == key), {})


def tests_table(report: StudyReport) -> pd.DataFrame:
    """Table 1 with the attributes as they read within a sentence."""
    table = table_of(report, "table1").frame
    tests = [test_of(report, key) for key in table["test"]]
    return table.assign(A=[test["a"] for test in tests], B=[test["b"] for test in tests])


def tests_headline(report: StudyReport) -> str:
    """Say which concepts are told apart; with p only if the number of prompts was fixed beforehand."""
    if report.results.frame("table1").empty:
        return ""
    table, with_p = tests_table(report), not report.stopped
    clear = table[table["q"] < SIGNIFICANT].sort_values("q", kind="stable")
    row = (table if clear.empty else clear).iloc[0]
    more, less = (row["X"], row["Y"]) if row["S"] > 0 else (row["Y"], row["X"])
    lean = f"Pictures of {more} lean more to “{row['A']}” than pictures of {less} do"
    score = f"S = {format_estimate(row['S'], row['low'], row['high'])}" + f", p = {format_p(row['p'])}" * with_p
    if len(table) == 1 and clear.empty:
        smallest = row["smallest p"]
        few = (
            f"{row['prompts X']} against {row['prompts Y']} prompts give p = {smallest:#.2g} at best: take more."
            if smallest >= SIGNIFICANT
            else "That is no proof that they are drawn alike."
        )
        return f"Pictures of {row['X']} and of {row['Y']} are not told apart: {score}. {few}"
    if clear.empty:
        return f"In none of {len(table)} tests are the two concepts told apart; none is shown to be alike."
    if len(table) == 1:
        return f"{lean}: {score}; S = 0 would be no difference."
    return (
        f"In {len(clear)} of {len(table)} tests the two concepts are told apart, all tests counted. "
        f"Clearest: {lean[0].lower()}{lean[1:]}, {score}."
    )


_LENGTHS = (
    "How much more strongly than words cannot be told: similarities of pictures and of words have no common scale."
)


def words_headline(report: StudyReport) -> str:
    """Say of how many occupations the pictures lean clearly, and whether to the side of their words."""
    table = report.results.frame("amplification")
    if table.empty:
        return ""
    is_clear = (table["low"] > table["even mix"]) | (table["high"] < table["even mix"])
    if not is_clear.any():
        return f"Of none of {len(table)} occupations the pictures lean clearly to either side. {_LENGTHS}"
    clear = table[is_clear]
    n_same = int((((clear["image"] - clear["even mix"]) > 0) == (clear["text"] > 0)).sum())
    return (
        f"Of {len(clear)} of {len(table)} occupations the pictures lean clearly: {n_same} to the side of their words, "
        f"{len(clear) - n_same} to the other. {_LENGTHS}"
    )


def occupations_headline(report: StudyReport) -> str:
    """Say which occupations lean to male and which to female."""
    table = report.results.frame("occupations")
    if table.empty:
        return ""
    male = table.loc[table["beyond low"] > 0, "occupation"].tolist()
    female = table.loc[table["beyond high"] < 0, "occupation"].tolist()
    parts = [f"{', '.join(names)} to {side}" for names, side in ((male, "male"), (female, "female")) if names]
    if not parts:
        return f"None of {len(table)} occupations leans clearly to male or female; none is shown to be even."
    rest = len(table) - len(male) - len(female)
    unclear = f"; {rest} of {len(table)} to neither clearly" if rest else ""
    return f"Pictures lean: {'; '.join(parts)}{unclear}."
