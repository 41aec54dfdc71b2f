"""The verdict on every measure: what to trust it for, as a table that opens with the page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.metrics.cards import METRICS
from bias_core.studies.study_report import table_of
from bias_core.studies.study_types import StudyReport
from bias_core.studies.validity_report import NOT_HERE
from bias_core.studies.validity_summary import RULE

if TYPE_CHECKING:
    from bias_core.studies.saved_reports import SavedReport

ADVICE: Mapping[str, str] = {
    "intervals too narrow": "Trust its value and its order; its interval is surer than it should be.",
    "reads bias where none is planted": "Do not read one value as bias: compare it with a fair condition.",
    "does not follow what is planted": "Do not compare models by it: more bias does not always move it.",
    "intervals a little narrow": "Its interval is a little too sure.",
    "intervals wider than need be": "Its interval is on the safe side.",
    "a few false alarms too many": "Slightly too many false alarms: look for a second sign.",
}
_UNRELATED = ("reads bias where none is planted", "does not follow what is planted")
_NOTHING = "Nothing alone: here it tells neither whether bias was planted nor how much."
_SOUND = "Its value, its interval and its order can be trusted here."
_STRIP, _EDGE = 118.0, 6.0


@dataclass(frozen=True, kw_only=True)
class VerdictLine:
    """One measure of a report.

    Attributes
    ----------
    verdict : in the words of the rule.
    coverage, alarms : ``value, low, high, n`` of the share, None where there is none.
    means : the measure where nothing, some and all is planted, as text.
    """

    study: str
    measure: str
    planted: str
    verdict: str
    coverage: Mapping[str, Any] | None
    alarms: Mapping[str, Any] | None
    means: str

    @property
    def grade(self) -> str:
        """``holds``, ``remark`` or ``fails``."""
        return "fails" if self.verdict.startswith("fails") else "remark" if "(" in self.verdict else "holds"

    @property
    def advice(self) -> str:
        """What the measure can be trusted for."""
        if all(words in self.verdict for words in _UNRELATED):
            return _NOTHING
        return " ".join(says for words, says in ADVICE.items() if words in self.verdict) or _SOUND


def verdict_lines(report: StudyReport) -> list[VerdictLine]:
    """The verdicts of a validity study with their shares."""
    shares = {figure.key: _by_name(figure.data) for figure in report.results.figures}
    lines = []
    for row in table_of(report, "verdicts").frame.to_dict("records"):
        name = f"{row['measure']}, {row['planted']}" if row["planted"] else str(row["measure"])
        middle = [] if row["some"] == "–" else str(row["some"]).split(", ")
        lines.append(
            VerdictLine(
                study=report.design.name,
                measure=str(row["measure"]),
                planted=str(row["planted"]),
                verdict=str(row["verdict"]),
                coverage=shares.get("coverage", {}).get(name),
                alarms=shares.get("alarms", {}).get(name),
                means=" → ".join((str(row["nothing planted"]), *middle, str(row["all"]))),
            )
        )
    return lines


def _by_name(data: Any) -> dict[str, Mapping[str, Any]]:
    if data.empty or not {"name", "value", "low", "high", "n"} <= set(data):
        return {}
    return {str(row["name"]): row for row in data.to_dict("records")}


def summary_html(saved: Sequence[SavedReport]) -> str:
    """What the shipped reports say of every measure; a word on how to get them where there are none."""
    reports = [item.report for item in saved if isinstance(item.report, StudyReport)]
    lines = [line for report in reports for line in verdict_lines(report)]
    if not lines:
        return (
            '<p class="notes">This copy came without its report. Press an example below, or make it with '
            "<code>python -m bias_core calibrate-report --ship</code>.</p>"
        )
    facts = _facts(reports, max(item.created for item in saved))
    return f"{_sentence(lines)}{facts}{_legend()}{_table(lines)}{_not_tested()}"


def _sentence(lines: Sequence[VerdictLine]) -> str:
    n = {grade: sum(line.grade == grade for line in lines) for grade in _GRADES}
    parts = [f"{n['holds'] + n['remark']} of {len(lines)} ways of measuring tell what was planted"]
    parts += [f", {n['remark']} of them with a remark"] * bool(n["remark"])
    parts += [f". The other {n['fails']}, in part or not: see what each is good for"] * bool(n["fails"])
    text = "".join((*parts, "."))
    return f"<h2>{escape(text)}</h2>"


def _facts(reports: Sequence[StudyReport], created: float) -> str:
    first = reports[0]
    n = sum(report.n_images for report in reports)
    newest = time.strftime("%d %B %Y", time.gmtime(created))
    versions = {"bias_core", "torch", "transformers"} & set(first.versions)
    parts = [
        f"shipped report of {newest}",
        f"{n:,} pictures of {first.settings.model}, read by {first.settings.encoder}",
        ", ".join(f"{name} {first.versions[name]}" for name in sorted(versions)),
    ]
    return f'<p class="facts">{"".join(f"<span>{escape(part)}</span>" for part in parts)}</p>'


def _legend() -> str:
    return (
        '<p class="legend"><span class="k measured">measured share, with its interval</span>'
        '<span class="k null">what it should be: 95 % of the intervals hold, 5 % false alarms</span></p>'
    )


def _table(lines: Sequence[VerdictLine]) -> str:
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("measure", *_COLUMNS))
    body = "".join(_row(line) for line in sorted(lines, key=lambda line: _GRADES.index(line.grade)))
    return (
        '<div class="scroll tall" tabindex="0" role="region" aria-label="Verdicts">'
        f'<table class="scores verdicts"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


_GRADES = ("holds", "remark", "fails")
_MARKS = {"holds": ("✓", "holds"), "remark": ("✓", "holds, with a remark"), "fails": ("✗", "fails in part")}
_COLUMNS = ("verdict", "intervals that hold", "false alarms", "fair → extreme", "trust it for")


def _row(line: VerdictLine) -> str:
    sign, words = _MARKS[line.grade]
    planted = f"<small>planted: {escape(line.planted)}</small>" if line.planted else ""
    cells = (
        f'<b class="grade {line.grade}" title="{escape(line.verdict)}">{sign} {words}</b>',
        _share(line.coverage, 0.95, (0.5, 1.0)),
        _share(line.alarms, 0.05, (0.0, 0.5)),
        escape(line.means),
        escape(line.advice),
    )
    named = zip(_COLUMNS, cells, strict=True)
    told = "".join(f'<td data-label="{name}"><span>{cell}</span></td>' for name, cell in named)
    return f'<tr><th scope="row">{escape(line.measure)}{planted}</th>{told}</tr>'


def _share(share: Mapping[str, Any] | None, nominal: float, scale: tuple[float, float]) -> str:
    """A share with its interval against what it should be; clipped to the part of the axis that matters."""
    if share is None:
        return "–"
    value, low, high = (float(share[name]) for name in ("value", "low", "high"))

    def x(at: float) -> float:
        inside = min(max(at, scale[0]), scale[1])
        return _EDGE + (_STRIP - 2 * _EDGE) * (inside - scale[0]) / (scale[1] - scale[0])

    title = f"{100 * low:.1f} to {100 * high:.1f} % of {int(share['n']):,} intervals"
    return (
        f'<span title="{title}"><svg class="strip" viewBox="0 0 {_STRIP:.0f} 22" aria-hidden="true">'
        f'<path class="null" d="M{x(nominal):.1f} 1V21"/>'
        f'<path class="measured" d="M{x(low):.1f} 11H{x(high):.1f}"/>'
        f'<circle class="measured" cx="{x(value):.1f}" cy="11" r="4.5"/></svg>{100 * value:.1f} %'
        f"<small>of {int(share['n']):,}</small></span>"
    )


def _not_tested() -> str:
    items = "".join(
        f"<dt>{escape(METRICS[k].name)}</dt><dd>{escape(why)}</dd>" for k, why in NOT_HERE.items()
    )
    return (
        f'<details class="how"><summary>The rule, and what is not tested</summary><p>{escape(RULE)}</p>'
        f"<dl>{items}</dl></details>"
    )
