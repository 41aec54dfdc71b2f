"""An association study in words: what each number says, and the prompts and pictures behind it."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.studies.number_text import format_estimate, format_interval, format_number, format_p
from bias_core.studies.study_report import table_of
from bias_core.studies.t2iat import SIGNIFICANT
from bias_core.ui.study_extremes import Ends, extremes_html
from bias_core.ui.study_html import figure_cards

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.study_types import StudyReport

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
    figures = [f for f in report.results.figures if f.key == f"{INFLUENCE}{key}"]
    words = f'<section class="card">{_words(report, key)}</section>'
    return f'<div class="figures">{words}{figure_cards(figures)}</div>'


def _words(report: StudyReport, key: str) -> str:
    """What the numbers of one test say, for a person who knows none of them."""
    table, influence = _tests_table(report), table_of(report, "influence").frame
    row, n = table[table["test"] == key].iloc[0], len(table)
    corrected = f"q = {format_p(row['q'])}, all {n} tests counted" if n > 1 else "how easily by chance"
    numbers = [
        (f"S = {format_number(row['S'], row['low'], row['high'])}", format_interval(row["low"], row["high"]),
         _score_words(report, row, key)),
        (f"d = {format_number(row['d'])}", "S in standard deviations of single pictures", _size_words(row)),
        (f"p = {format_p(row['p'])}", corrected, _chance_words(row, n)),
        ("One prompt less", "leave one out", _influence_words(influence[influence["test"] == key])),
    ]  # fmt: skip
    listed = "".join(
        f"<dt>{escape(name)}<small>{escape(more)}</small></dt><dd>{escape(says)}</dd>"
        for name, more, says in numbers
    )
    return f'<h3>In words</h3><dl class="words">{listed}</dl>'


def _score_words(report: StudyReport, row: pd.Series[Any], key: str) -> str:
    means = {end.title: float(end.frame["association"].mean()) for end in ends_of(report, key)}
    sides = ", ".join(
        f"those of {name} are {format_number(abs(mean))} nearer to “{row['A' if mean > 0 else 'B']}”"
        for name, mean in means.items()
    )
    return (
        "Pictures drawn without any attribute word, held against pictures of the same concept drawn with "
        f"such words: on average {sides}. S is the difference; 0 would say that both lean alike."
    )


def _size_words(row: pd.Series[Any]) -> str:
    if math.isnan(row["d"]):
        return "The pictures do not vary, so there is no d."
    name = next(text for limit, text in _SIZES if abs(row["d"]) < limit)
    share = 100 * row["X above Y"]
    return (
        f"By the usual rule of thumb {name} difference. Of all pairs of one picture of each, the one of "
        f"{row['X']} leans more to “{row['A']}” in {share:.0f} %; 50 % would be no difference."
    )


def _chance_words(row: pd.Series[Any], n: int) -> str:
    often = "fewer than 1" if row["p"] < 0.001 else f"about {1000 * row['p']:.0f}"
    many = f" With {n} tests at once, q is what counts: below 0.05 is called told apart." if n > 1 else ""
    few = ""
    if "smallest p" in row:  # reports of earlier versions do not say it
        sides = f"{row['prompts X']} against {row['prompts Y']} prompts"
        few = f" The smallest p that {sides} can give here is {row['smallest p']:#.2g}."
    return (
        "If it did not matter which concept a prompt is of, a difference this large would still come up in "
        f"{often} of 1,000 such runs.{many}{few}"
    )


def _influence_words(frame: pd.DataFrame) -> str:
    turning = frame.loc[frame["S changes its sign"], "left out"].tolist()
    if turning:
        return (
            f"S rests on single prompts: without {' or without '.join(turning[:3])} it would change its sign."
        )
    low, high = frame["S without it"].min(), frame["S without it"].max()
    return (
        f"Whichever prompt is left out, S stays on the same side of 0, between {format_number(low)} and "
        f"{format_number(high)}. “{frame.iloc[0]['left out']}” moves it most."
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
    shown = extremes_html(report, "association", ends, low=f"nearest to “{low}”", high=f"nearest to “{high}”")
    if not shown:
        return ""
    return (
        '<section class="card"><h3>The pictures behind it</h3>'
        f'<p class="quiet">{_BEHIND}</p>{shown}</section>'
    )


_BEHIND = (
    "Drawn without any attribute word; below each its association. What the pictures of one end have in "
    "common may be light, setting or style as much as people: look before you conclude."
)


def _test(report: StudyReport, key: str) -> dict[str, Any]:
    return next((test for test in report.design.data.get("tests", ()) if test["key"] == key), {})


def _interval(row: pd.Series[Any], name: str) -> str:
    return format_estimate(row[name], row["low"], row["high"])
