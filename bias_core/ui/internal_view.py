"""The internal bias of one target as a flow from text to picture, in words and with its pictures."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.studies.number_text import NO_INTERVAL, format_interval, format_number
from bias_core.studies.study_report import table_of
from bias_core.ui.study_extremes import Ends, extremes_html
from bias_core.ui.study_html import frame_html

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.study_types import StudyReport

_STAGES = (
    ("The words", ("TT",)),
    ("Words and pictures", ("ITP", "IT")),
    ("The pictures", ("II",)),
)
_READS = {
    "TT": ("TT", "the prompt’s words, among the words for men and women (he, man … she, woman …)"),
    "ITP": ("ITP", "the prompt’s words, among pictures of men and of women"),
    "IT": ("IT", "the drawn pictures, among the words for men and women"),
    "II": ("II", "the drawn pictures, among pictures of men and of women"),
}
_WIDTH, _HEIGHT = 240.0, 34.0


def targets_of(report: StudyReport) -> list[str]:
    """The targets that were drawn, for a menu."""
    return [str(target) for target in table_of(report, "table3").frame["target"]]


def headline(report: StudyReport) -> str:
    """One sentence on which targets lean which way."""
    table = table_of(report, "table3").frame
    men = table.loc[table["MCAS low"] > 0, "target"].tolist()
    women = table.loc[table["MCAS high"] < 0, "target"].tolist()
    named = [f"to {side}: {', '.join(names)}" for side, names in (("men", men), ("women", women)) if names]
    rest = len(table) - len(men) - len(women)
    if not named:
        return f"None of {len(table)} targets leans clearly to men or women; none is shown to be even."
    unclear = f"; to neither clearly: {rest}" if rest else ""
    return f"Of {len(table)} targets, as text and pictures together (MCAS), lean {'; '.join(named)}{unclear}."


def flow_html(report: StudyReport, target: str) -> str:
    """The four scores from text to picture, δ and α, in words and as a table."""
    scores = table_of(report, "scores").frame
    reach = 1.08 * float(scores[["value", "low", "high"]].abs().max().max())
    mine = scores[scores["target"] == target].drop(columns="target")
    by_score = {row["score"]: row for _, row in mine.iterrows()}
    rows = table_of(report, "table3").frame
    rows = rows[rows["target"] == target]
    if rows.empty:
        return ""
    stages = '<div class="step" aria-hidden="true"></div>'.join(
        _stage(title, [_score(by_score[key], key, reach) for key in keys]) for title, keys in _STAGES
    )
    table = frame_html(mine, f"The four scores of {target}")
    return (
        f'<section class="card"><h3>{escape(target)}, from text to picture</h3>{_prompt(report, target)}'
        f'<div class="flow">{stages}</div><dl class="words">{_words(rows.iloc[0])}</dl>'
        f"<details><summary>The four scores as a table</summary>{table}</details></section>"
    )


def _prompt(report: StudyReport, target: str) -> str:
    frame = report.pictures
    drawn = [] if frame is None else frame.loc[frame["keyword"] == target, "prompt"].tolist()
    prompts = ", ".join(f"“{prompt}”" for prompt in dict.fromkeys(drawn))
    return f'<p class="quiet">Drawn {len(drawn)} times: {escape(prompts)}</p>'


def _stage(title: str, scores: list[str]) -> str:
    return f'<div class="stage"><h4>{escape(title)}</h4>{"".join(scores)}</div>'


def _score(row: pd.Series[Any], key: str, reach: float) -> str:
    name, reads = _READS[key]
    ends = format_interval(row["low"], row["high"])
    sure = f"{ends}: words are not drawn by chance" if ends == NO_INTERVAL else ends
    value = format_number(row["value"], row["low"], row["high"])
    return (
        f'<div class="score"><b>{name} = {value}</b> <small>{sure}</small>'
        f"{_gauge(row, reach)}<p class='poles'><span>women</span><span>men</span></p>"
        f"<p><strong>{_lean(row['value'], row['low'], row['high'])}</strong> {escape(reads)}</p></div>"
    )


def _gauge(row: pd.Series[Any], reach: float) -> str:
    """The score between women and men, on one scale for all targets of the run."""

    def x(value: float) -> float:
        return _WIDTH / 2 + (_WIDTH / 2 - 8) * value / (reach or 1.0)

    middle = _HEIGHT / 2
    line = (
        ""
        if math.isnan(row["low"])
        else f'<path class="reach" d="M{x(row["low"]):.1f} {middle}H{x(row["high"]):.1f}"/>'
    )
    return (
        f'<svg class="gauge" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" aria-hidden="true">'
        f'<path class="axis" d="M4 {middle}H{_WIDTH - 4}"/>'
        f'<path class="null" d="M{_WIDTH / 2} 3V{_HEIGHT - 3}"/>{line}'
        f'<circle class="value" cx="{x(row["value"]):.1f}" cy="{middle}" r="6"/></svg>'
    )


def _lean(value: float, low: float, high: float) -> str:
    """In words; a number without an interval is taken as it is."""
    if low < 0 < high:
        return "To neither clearly:"
    return "Nearer to men:" if value > 0 else "Nearer to women:"


def _words(row: pd.Series[Any]) -> str:
    says = {
        "II − TT": _signed_words(row),
        "δ": _DELTA,
        "α": _alpha_words(row),
        "MCAS": _MCAS + _men_words(row),
    }
    return "".join(
        f"<dt>{name} = {_number(row, name)}<small>{_interval(row, name)}</small></dt><dd>{escape(text)}</dd>"
        for name, text in says.items()
    )


_DELTA = (
    "How much more or less strongly the pictures lean than the words, whichever the side. It is never below "
    "0, so its interval cannot say whether there is a difference: judge by II − TT."
)
_MCAS = "All four scores added up; positive is nearer to men."


def _signed_words(row: pd.Series[Any]) -> str:
    adds = "What drawing adds to the lean of the words; 0 would be nothing."
    if row["II − TT low"] <= 0 <= row["II − TT high"]:
        return f"{adds} Here it is not told apart from nothing."
    return f"{adds} Here drawing moves it towards {'men' if row['II − TT'] > 0 else 'women'}."


def _alpha_words(row: pd.Series[Any]) -> str:
    if math.isnan(row["α"]):
        return f"There is no α: {row['why no α']}."
    return (
        f"Words and pictures together lean {_number(row, 'α')} times as strongly as the words alone "
        f"(TT = {format_number(row['TT'])}). 1 would be as strongly; α says nothing of the side, and is "
        "large wherever TT is small."
    )


def _men_words(row: pd.Series[Any]) -> str:
    return (
        "" if math.isnan(row["men"]) else f" On record, {100 * row['men']:.0f} % of the pictures show a man."
    )


def _interval(row: pd.Series[Any], name: str) -> str:
    return "" if math.isnan(row[name]) else format_interval(row[f"{name} low"], row[f"{name} high"])


def _number(row: pd.Series[Any], name: str) -> str:
    return format_number(row[name], row[f"{name} low"], row[f"{name} high"])


def behind_html(report: StudyReport, target: str) -> str:
    """The target's pictures that are nearest to those of women and of men."""
    frame = report.pictures
    if frame is None or "lean" not in frame:
        return ""
    ends = [Ends(title=target, frame=frame[frame["keyword"] == target])]
    shown = extremes_html(report, "lean", ends, low="nearest to women", high="nearest to men")
    if not shown:
        return ""
    return (
        '<section class="card"><h3>The pictures behind it</h3>'
        f'<p class="quiet">{_BEHIND}</p>{shown}</section>'
    )


_BEHIND = (
    "Below each how much nearer it is to this run’s pictures of men than to those of women; II is the mean. "
    "Clothing, age, light or style may be what makes it so: look before you conclude."
)
