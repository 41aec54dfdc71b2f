"""An association study in words: what each number says, and the prompts and pictures behind it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bias_core.studies.association.tests import SIGNIFICANT
from bias_core.studies.reports.number_text import format_estimate
from bias_core.studies.reports.text import table_of
from bias_core.ui.study.extremes import Ends, extremes_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.types import StudyReport

_SIZES = ((0.2, "hardly any"), (0.5, "a small"), (0.8, "a medium"), (math.inf, "a large"))
"""Cohen's rule of thumb for d."""
INFLUENCE = "influence_"
"""How the keys of the figures begin that stand beside their test."""


def is_test(report: StudyReport) -> bool:
    """Whether it compares two concepts (else it looks at each occupation, or at people's choices)."""
    return any(table.key == "table1" for table in report.results.tables)


def closer_looks(report: StudyReport) -> list[tuple[str, str]]:
    """What can be looked at closer, as choices of a menu: tests, or occupations."""
    if is_test(report):
        return [(finding.title, finding.key) for finding in report.results.findings]
    frame = report.pictures
    column = "occupation" if frame is not None and "occupation" in frame else "test"
    values = [] if frame is None else list(dict.fromkeys(frame[column]))
    tests = {test["key"]: test for test in report.design.data["tests"]}
    titles = report.design.data["titles"]
    names = {key: f"{titles[t['x']]} / {titles[t['y']]}" for key, t in tests.items()}
    return [(names.get(value, value), value) for value in values]


def headline(report: StudyReport) -> str:
    """One sentence on what was found."""
    tables = {table.key: table.frame for table in report.results.tables}
    if "table1" in tables:
        return _tests_headline(_tests_table(report))
    if "occupations" in tables:
        return _sides_headline(tables["occupations"])
    if "amplification" in tables:
        return _amplification_headline(tables["amplification"])
    return _human_headline(report)


def _tests_headline(table: pd.DataFrame) -> str:
    clear = table[table["q"] < SIGNIFICANT]
    if len(table) == 1:
        row = table.iloc[0]
        if clear.empty:
            return (
                f"Pictures of {row['X']} and of {row['Y']} are not told apart: S = {_interval(row, 'S')}. "
                "That is no proof that they are drawn alike."
            )
        return f"{_lean(row)}: S = {_interval(row, 'S')}, where 0 would be no difference."
    if clear.empty:
        return f"In none of {len(table)} tests are the two concepts told apart; none is shown to be alike."
    lead = clear.sort_values("q", kind="stable").iloc[0]
    return (
        f"In {len(clear)} of {len(table)} tests the two concepts are told apart, all tests counted. "
        f"Clearest: {_lean(lead).replace('P', 'p', 1)}, S = {_interval(lead, 'S')}."
    )


def _tests_table(report: StudyReport) -> pd.DataFrame:
    """Table 1 with the attributes as they read within a sentence."""
    words = {test["key"]: test for test in report.design.data["tests"]}
    table = table_of(report, "table1").frame
    return table.assign(**{side.upper(): [words[key][side] for key in table["test"]] for side in "ab"})


def _lean(row: pd.Series[Any]) -> str:
    more, less = (row["X"], row["Y"]) if row["S"] > 0 else (row["Y"], row["X"])
    return f"Pictures of {more} lean more to “{row['A']}” than pictures of {less} do"


def _sides_headline(table: pd.DataFrame) -> str:
    male = table.loc[table["beyond low"] > 0, "occupation"].tolist()
    female = table.loc[table["beyond high"] < 0, "occupation"].tolist()
    parts = [f"{', '.join(names)} to {side}" for names, side in ((male, "male"), (female, "female")) if names]
    if not parts:
        return f"None of {len(table)} occupations leans clearly to male or female; none is shown to be even."
    rest = len(table) - len(male) - len(female)
    unclear = f"; {rest} of {len(table)} to neither clearly" if rest else ""
    return f"Pictures lean: {'; '.join(parts)}{unclear}."


def _amplification_headline(table: pd.DataFrame) -> str:
    more, turned = int(table["amplified"].sum()), int((~table["same side"]).sum())
    return (
        f"For {more} of {len(table)} occupations the pictures lean more strongly than the words they were "
        f"drawn from; for {turned} they lean the other way."
    )


def _human_headline(report: StudyReport) -> str:
    order = [finding for finding in report.results.findings if finding.key == "order"]
    if not order:
        return "Too few concepts have choices and associations to put them in order."
    estimate = order[0].estimate
    return (
        "Associations and choices put the concepts in orders that agree by τ = "
        f"{format_estimate(estimate.value, estimate.low, estimate.high, n=estimate.n)}: "
        "1 is the same order, 0 is none in common."
    )


def closer_html(report: StudyReport, key: str) -> str:
    """One test in words beside the prompts that it hangs on; "" where there is no test."""
    if not is_test(report):
        return ""
    table, influence = _tests_table(report), table_of(report, "influence").frame
    row = table[table["test"] == key].iloc[0].to_dict()
    influence = influence[influence["test"] == key]
    without = influence["S without it"]
    return render(
        "association_words",
        row=row,
        n_tests=len(table),
        means={end.title: float(end.frame["association"].mean()) for end in ends_of(report, key)},
        size=next((text for limit, text in _SIZES if abs(row["d"]) < limit), ""),
        turning=influence.loc[influence["S changes its sign"], "left out"].tolist(),
        reach=(without.min(), without.max()),
        strongest=influence.iloc[0]["left out"],
        figures=[f for f in report.results.figures if f.key == f"{INFLUENCE}{key}" and not f.data.empty],
    )


def ends_of(report: StudyReport, key: str) -> list[Ends]:
    """The neutral pictures of the concepts of a test, or of an occupation."""
    frame = report.pictures
    if frame is None or "association" not in frame:
        return []
    frame = frame[frame["association"].notna()]
    if "occupation" in frame:
        return [Ends(title=key, frame=frame[frame["occupation"] == key])]
    test, titles = _test(report, key), report.design.data["titles"]
    some = frame[frame["test"] == key]
    return [Ends(title=titles[test[side]], frame=some[some["side"] == side]) for side in "xy" if test]


def behind_html(report: StudyReport, key: str) -> str:
    """The neutral pictures that lean most to either attribute."""
    test = _test(report, key)
    high, low = (test["a"], test["b"]) if test else ("male", "female")
    ends = ends_of(report, key)
    words = {"low": f"nearest to “{low}”", "high": f"nearest to “{high}”"}
    return extremes_html(report, "association", ends, **words, note=_BEHIND)


_BEHIND = (
    "Drawn without any attribute word; below each its association. What the pictures of one end have in "
    "common may be light, setting or style as much as people: look before you conclude."
)


def _test(report: StudyReport, key: str) -> dict[str, Any]:
    return next((test for test in report.design.data.get("tests", ()) if test["key"] == key), {})


def _interval(row: pd.Series[Any], name: str) -> str:
    return format_estimate(row[name], row["low"], row["high"])
