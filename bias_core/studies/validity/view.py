"""The verdict on every measure: what to trust it for, as a table that opens with the page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bias_core.metrics.cards import METRICS
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.text import table_of
from bias_core.studies.validity.report import NOT_HERE
from bias_core.studies.validity.summary import RULE
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from bias_core.studies.reports.saved import SavedReport

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
_GRADES = ("holds", "remark", "fails")


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
    return render(
        "verdicts",
        lines=sorted(lines, key=lambda line: _GRADES.index(line.grade)),
        sentence=_sentence(lines),
        about=_facts(reports, max(item.created for item in saved)) if lines else (),
        rule=RULE,
        not_tested=[(METRICS[key].name, why) for key, why in NOT_HERE.items()],
    )


def _sentence(lines: Sequence[VerdictLine]) -> str:
    n = {grade: sum(line.grade == grade for line in lines) for grade in _GRADES}
    parts = [f"{n['holds'] + n['remark']} of {len(lines)} ways of measuring tell what was planted"]
    parts += [f", {n['remark']} of them with a remark"] * bool(n["remark"])
    parts += [f". The other {n['fails']}, in part or not: see what each is good for"] * bool(n["fails"])
    return "".join((*parts, "."))


def _facts(reports: Sequence[StudyReport], created: float) -> list[str]:
    first = reports[0]
    n = sum(report.n_images for report in reports)
    newest = time.strftime("%d %B %Y", time.gmtime(created))
    versions = {"bias_core", "torch", "transformers"} & set(first.versions)
    return [
        f"shipped report of {newest}",
        f"{n:,} pictures of {first.settings.model}, read by {first.settings.encoder}",
        ", ".join(f"{name} {first.versions[name]}" for name in sorted(versions)),
    ]
