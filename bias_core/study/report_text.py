"""The sentences of a report: findings, claims and headlines; and tables as text.

:func:`headline` takes a study's own sentence where it has one.
"""

import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bias_core.measures.cards import METRICS, work
from bias_core.number_text import (
    NOT_KNOWN,
    format_estimate,
    format_given,
    format_interval,
    format_number,
    format_p,
    format_share,
    typeset,
)
from bias_core.store.export import as_code, in_markdown, without_splits
from bias_core.study.design import known_study
from bias_core.study.limits import stop_rule
from bias_core.study.setting_fields import option_values
from bias_core.study.types import ArmReport, Design, Finding, Measured, StudyReport, StudySettings, StudyTable
from bias_core.types import IMPORTED, ImageRow

NOT_PUBLISHED = "not published"
BETWEEN_READERS = "between readers"
NO_NULL = "no such value"

MOST_ROWS, END_ROWS = 40, 10
"""Tables longer than the first are shown by so many rows of either end; all stand in their CSV."""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as text: each value with its interval in one column, p-values as such, nothing missing unsaid.

    An interval is two columns "<name> low" and "<name> high" (or "low" and "high") behind their value.
    Columns in which nothing is known are left out.
    """
    names, texts, last = [str(name) for name in frame.columns], {}, -1
    for i, name in enumerate(names):
        if i <= last:  # an end of an interval, which stands in another column
            continue
        column, n = frame.iloc[:, i], _counts_of(name, frame)
        if _has_interval(frame, names, i):
            last = i + 2
            cells = [pd.to_numeric(frame.iloc[:, j]).to_numpy(float) for j in (i, i + 1, i + 2)]
            has_values = np.isfinite(cells[0]).any()
            text = [format_estimate(v, low, high, n=k) for v, low, high, k in zip(*cells, n, strict=True)]
        else:
            has_values = (column.notna() & (column.astype(str) != "")).any()
            text = [_cell(value, k, as_p=bool(_P_VALUE.search(name))) for value, k in zip(column, n, strict=True)]
        if has_values or not len(frame):
            texts[i] = text
    return pd.DataFrame(texts, index=frame.index).set_axis([names[i] for i in texts], axis=1)


def excerpt(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """:func:`readable` with the first and last rows of a long table, and a sentence on what is left out.

    Where files lie on this machine (``path``) is nobody's business.
    """
    text = readable(frame.drop(columns="path", errors="ignore"))
    if len(text) <= MOST_ROWS:
        return text, ""
    gap = pd.DataFrame([["…"] * text.shape[1]], columns=text.columns)
    ends = pd.concat([text.iloc[:END_ROWS], gap, text.iloc[-END_ROWS:]], ignore_index=True)
    return ends, f"The first {END_ROWS} and the last {END_ROWS} of {len(text):,} rows"


def number_columns(text: pd.DataFrame) -> list[str]:
    """The columns that hold nothing but numbers, intervals, and words for what is missing.

    >>> number_columns(pd.DataFrame({"n": ["7", "not known"], "at": ["[0.1, 0.2]", "…"], "step": ["none", "5"]}))
    ['n', 'at']
    """
    missing = {"", "…", NOT_KNOWN, NO_NULL}
    return [
        str(name) for name in text if all(cell in missing or _NUMBER.match(cell) for cell in text[name].astype(str))
    ]


def markdown_table(frame: pd.DataFrame, *, code: Collection[str] = ()) -> str:
    """A Markdown table; text cannot break out of its cell. Columns that are ``code`` hold names of this program."""
    names = [str(column) for column in frame.columns]
    writers = [as_code if name in code else in_markdown for name in names]
    cells = [[write(cell) for write, cell in zip(writers, row, strict=True)] for row in frame.astype(object).to_numpy()]
    rows = [list(map(in_markdown, names)), ["---"] * len(names), *cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _has_interval(frame: pd.DataFrame, names: list[str], i: int) -> bool:
    """Whether this is a column of numbers and the two behind it are the ends of its interval."""
    if i + 2 >= len(names) or _is_count(names[i]):
        return False
    if not names[i + 1].endswith("low") or not names[i + 2].endswith("high"):
        return False
    same = names[i + 1].removesuffix("low") == names[i + 2].removesuffix("high")
    numbers = frame.iloc[:, i].map(lambda value: value is None or isinstance(value, (float, np.floating)))
    return same and bool(numbers.all())


def _is_count(name: str) -> bool:
    return name == "n" or name.startswith("n ")


def _counts_of(name: str, frame: pd.DataFrame) -> list[float | None]:
    """The n of each row: of the column "n <last word of the name>", else of "n"."""
    columns = [] if _is_count(name) else [c for c in (f"n {name.rpartition(' ')[2]}", "n") if c in frame]
    counts = frame[columns[0]] if columns else [None] * len(frame)
    is_number = (int, float, np.number)
    return [float(n) if isinstance(n, is_number) and math.isfinite(n) else None for n in counts]


def _cell(value: Any, n: float | None, *, as_p: bool) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or value is pd.NA or value is pd.NaT:
        return NOT_KNOWN
    if isinstance(value, (float, np.floating)):
        return format_p(float(value)) if as_p else format_given(float(value), n=n)
    return typeset(int(value), "d") if isinstance(value, (int, np.integer)) else str(value)


Row = dict[str, Any]
_NUMBER = re.compile(r"[-+−<>≥≤]?[\d.\[]")

LIMITS = (
    "Attributes are perceived ones: what a picture shows to a classifier, never what anybody is. "
    "The classifier errs; without its measured error rates a share can be wrong by more than its interval. "
    "Intervals cover the chance of drawing these pictures, not other prompts, models or readers."
)
_LONGEST_FOLDER = 40
_P_VALUE = re.compile(r"^[pq]( |$)| [pq]$")  # in the name of a column


def title_of(report: StudyReport) -> str:
    """What a report is of: the design's title, or what its settings ask for in words of one's own."""
    study = known_study(report.design)
    return report.design.title if study is None else study.title(report.settings)


def finding_rows(of: Measured) -> list[Row]:
    """One row per finding: what every front end shows first."""
    return [_finding_row(finding) for finding in of.results.findings]


def _finding_row(finding: Finding) -> Row:
    estimate, metric = finding.estimate, METRICS[finding.metric]
    return {
        "finding": finding.title,
        "measure": metric.name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "p_value": finding.p_value,
        "null_value": metric.null_value if estimate.null_value is None else estimate.null_value,
        "published": finding.published,
        "drawn": finding.expected,
        "readers_low": min(finding.by_reader.values(), default=None),
        "readers_high": max(finding.by_reader.values(), default=None),
        "says": finding.says,
        "method": estimate.method,
        "note": estimate.note,
    }


def plain(value: Any) -> Any:
    """``value`` with numpy's numbers as Python's and what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def size_in_words(design: Design, settings: StudySettings) -> str:
    """How much of the full design was drawn, and what was published where that is another number.

    >>> from bias_core.study.design import find_design
    >>> from bias_core.study.types import StudySettings
    >>> size_in_words(find_design("tbyb-general"), StudySettings(scale=0.5))
    '50 % of the full size (published: 3,690 pictures of 369 prompts)'
    """
    share = f"{100 * settings.scale:g} % of the full size"
    return f"{share} (published: {design.published_size})" if design.published_size else share


def at_any_time(report: StudyReport) -> str:
    """What is added where the number of pictures was not fixed beforehand, or not all are there."""
    watched = report.stopped or stop_rule(report.settings) is not None
    return " (of shares: at any time)" if watched else ""


def read_by(settings: StudySettings) -> str:
    """Who read the pictures, by the names in the settings.

    >>> read_by(StudySettings(encoder="calibration-clip", judge="endpoint"))
    'calibration-clip, attributes by the judge endpoint'
    >>> read_by(StudySettings(encoder="calibration-clip", labels="answers/three.csv"))
    'people (three.csv), else calibration-clip'
    """
    people = f"people ({Path(settings.labels).name})"
    reader = settings.encoder + (f", attributes by the judge {settings.judge}" if settings.judge else "")
    if not replaced_by_people(settings):
        return reader + f", checked by {people}" * bool(settings.labels)
    alone = getattr(settings.options, "labeller", "") == "people"
    return people + f", else {reader}" * (not alone)


def replaced_by_people(settings: StudySettings) -> bool:
    """Whether people's answers stand in place of the reader's; in some studies they check it."""
    return bool(settings.labels) and getattr(settings.options, "labels_replace_reader", True)


def report_facts(report: StudyReport) -> list[str]:
    """What the numbers were found on, by whom and after which paper, in a few words each."""
    settings, design = report.settings, report.design
    ended = f"after {report.stopped_after}" if report.stopped_after else "before all were drawn"
    scored = " scored" if report.results.findings or report.results.figures else ""
    study = known_study(design)
    made_of = "" if study is None else study.facts(report).made_of
    return [
        title_of(report),
        f"{report.n_images:,} of {report.n_planned:,} pictures{scored}" + f": {made_of}" * bool(made_of),
        *([f"{report.n_blocked:,} refused or blanked"] if report.n_blocked else []),
        *filter(None, [drawn_by(report)]),
        f"read by {read_by(settings)}",
        *([size_in_words(design, settings)] if design.reference else []),
        f"{settings.confidence:.0%} intervals{at_any_time(report)}",
        *(["ended by its stop rule"] if report.stop_rule else []),
        *([f"stopped {ended}"] if report.stopped else []),
        *([f"after {work(design.reference)}, {design.where}"] if design.reference else []),
    ]


def notes_of(report: StudyReport) -> list[str]:
    """What was noticed on the way, words that the world does not know included."""
    unknown = ", ".join(report.unknown_words)
    return [
        *report.results.notes,
        *([f"This world does not know: {unknown}. It was drawn without it."] if unknown else []),
    ]


def day_of(report: StudyReport) -> str:
    """The day on which it was measured (UTC), as 2026-11-22; "" where that is not on record."""
    return time.strftime("%Y-%m-%d", time.gmtime(report.created)) if report.created else ""


def drawn_by(report: StudyReport) -> str:
    """What drew the pictures, in words: model and condition, or the names of the arms."""
    settings = report.settings
    if report.arms:
        return f"{len(report.arms)} arms ({', '.join(arm.name for arm in report.arms)})"
    condition = " and ".join(option_values(settings.options).get("conditions", ())) or settings.condition
    return f"{settings.model}, {condition}" if condition else settings.model


def arm_folder(report: StudyReport, arm: ArmReport) -> str:
    """Where the files of an arm lie in an export."""
    words = re.sub(r"[^\w-]+", "-", arm.name.lower()).strip("-")[:_LONGEST_FOLDER]
    return f"arms/{report.arms.index(arm) + 1}-{without_splits(words) or 'arm'}"


def arms_overview(report: StudyReport) -> list[StudyTable]:
    """What a comparison shows first: each number in each arm, and the arms' ranks, a line for each number."""
    tables = {table.key: table for table in report.results.tables} if report.arms else {}
    overview = [tables[key] for key in ("by_arm", "ranks") if key in tables]
    if "ranks" in tables:
        rows: dict[str, Row] = {}
        for row in tables["ranks"].frame.to_dict("records"):
            ends = f"{row['low']:g} to {row['high']:g}"
            text = f"{row['rank']:g} ({ends})" if is_known(row["rank"]) else "undefined"
            rows.setdefault(row["finding"], {"finding": row["finding"]})[row["arm"]] = text
        overview[-1:] = [replace(tables["ranks"], frame=pd.DataFrame(list(rows.values())))] if rows else []
    return overview


def further_tables(report: StudyReport) -> list[StudyTable]:
    """The tables that :func:`arms_overview` does not show."""
    shown = [table.key for table in arms_overview(report)]
    return [table for table in report.results.tables if table.key not in shown]


def finding_frame(report: StudyReport) -> pd.DataFrame:
    """The findings as text, for reading; what none of them has is left out."""
    rows = finding_rows(report)
    optional = {"p": "p_value", "published": "published", "drawn": "drawn", BETWEEN_READERS: "readers_low"}
    absent = [name for name, key in optional.items() if not any(map(is_known, (row[key] for row in rows)))]
    return pd.DataFrame([finding_text(row) for row in rows]).drop(columns=absent if rows else [])


def between_readers(row: Row) -> str:
    """The lowest and the highest of several readers' numbers; "" where one read alone."""
    low, high = row["readers_low"], row["readers_high"]
    return format_interval(low, high, value=row["value"], n=row["n"]) if is_known(low) and is_known(high) else ""


def is_known(value: float | None) -> bool:
    """Whether there is such a number."""
    return value is not None and math.isfinite(value)


def finding_text(row: Row) -> dict[str, str]:
    """A row of :func:`finding_rows` as text, with the digits that its interval or its n bears out."""
    ends, n = (row["low"], row["high"]), row["n"]
    return {
        "": row["finding"],
        "measure": row["measure"],
        "value": format_number(row["value"], *ends, n=n),
        "interval": format_interval(*ends, value=row["value"], n=n),
        "n": f"{n:,}",
        "p": format_p(row["p_value"]),
        "null": format_given(row["null_value"], absent=NO_NULL),
        "published": format_given(row["published"], *ends, n=n, absent=NOT_PUBLISHED),
        "drawn": format_given(row["drawn"], *ends, n=n),
        BETWEEN_READERS: between_readers(row),
        "reads": row["note"] or row["says"],
    }


def table_of(report: StudyReport, key: str) -> StudyTable:
    """The table of this key; KeyError lists the keys where there is none."""
    tables = {table.key: table for table in report.results.tables}
    if key not in tables:
        raise KeyError(f"no table {key!r}; there are {', '.join(tables)}")
    return tables[key]


CORRECTED = "corrected"  # key of the table of numbers that people's labels correct
_LONGEST = 90  # letters of a prompt


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What every sentence says of a report, or of one of its arms, in words."""

    prompts: str  # of all pictures
    read_prompts: str  # of those whose shares are read
    origin: str  # by which model, when
    reader: str
    interval: str  # which kind stands in brackets


def claims(report: StudyReport) -> list[str]:
    """A sentence for each number that has an interval or a p-value: the report's own, then those of each arm."""
    return [sentence for part in (report, *report.arms) for sentence in _claims_of(report, part)]


def claim(report: StudyReport) -> str:
    """The first of these sentences; "" where nothing can be claimed."""
    return next((sentence for part in (report, *report.arms) for sentence in _claims_of(report, part)), "")


def _claims_of(report: StudyReport, part: Measured) -> Iterator[str]:
    study, of = known_study(report.design), circumstances(report, part)
    for finding, row in zip(part.results.findings, finding_rows(part), strict=True):
        if is_known(row["value"]) and (_row_has_interval(row) or is_known(row["p_value"])):
            name = study.share_of(finding) if study else ""
            sentence = _share(name, row, of) if name and _row_has_interval(row) else _number(row, of, part)
            yield " ".join(filter(None, (sentence, _corrected(report, part, row), part.warning)))


def corrected_headline(report: StudyReport) -> str:
    """The first number that people's labels correct, in words; "" where there is none."""
    for row in _corrected_rows(report):
        alone = f"; the classifier alone has {_estimate_of(row, 'as read')}" if is_known(row["as read"]) else ""
        return f"{row['number']}, corrected by people’s labels: {_estimate_of(row, 'corrected')}{alone}."
    return ""


def _corrected(report: StudyReport, part: Measured, finding: Row) -> str:
    """What people's labels make of a finding, as a sentence; "" where they correct something else."""
    arm = f", {part.name}" if isinstance(part, ArmReport) else ""
    subject, *what = finding["finding"].split(":")
    title = ":".join([subject + arm, *what])
    for row in _corrected_rows(report):
        if row["number"] == title:
            number = _estimate_of(row, "corrected")
            return f"Corrected by people’s labels of {row['labels']:,} of them: {number}."
    return ""


def _corrected_rows(report: StudyReport) -> list[Row]:
    frame = report.results.frame(CORRECTED)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]


def _estimate_of(corrected: Row, name: str) -> str:
    """A number of the table of corrected ones with its interval."""
    write = format_share if corrected["measure"] == METRICS["attribute_prevalence"].name else format_estimate
    return write(corrected[name], corrected[f"{name} low"], corrected[f"{name} high"])


def circumstances(report: StudyReport, part: Measured) -> Circumstances:
    """Of which pictures, drawn by what, read by whom."""
    frame, rows = _pictures_of(report, part)
    study = known_study(report.design)
    groups = study.attributes(report.settings) if study and len(frame) else {}
    readers = [one for one in report.read_by if one.role != "language_model"]  # which looks at no picture
    names = [f"{one.id} ({one.revision})" if one.revision else one.id for one in readers]
    return Circumstances(
        prompts=_prompts(frame),
        read_prompts=_prompts(frame[frame["group"].isin(list(groups))]),
        origin=_origin(report, part, rows),
        reader=read_by(part.settings) if part.settings.labels or not names else " and ".join(dict.fromkeys(names)),
        interval=f"{part.settings.confidence:.0%} interval{at_any_time(report)}",
    )


def _pictures_of(report: StudyReport, part: Measured) -> tuple[pd.DataFrame, list[ImageRow]]:
    """The rows of its scored pictures, and what they were drawn from."""
    frame = report.pictures
    if frame is None or frame.empty or not {"group", "prompt"} <= set(frame):
        return pd.DataFrame({"group": [], "prompt": []}), [image.row for image in report.stored.values()]
    if isinstance(part, ArmReport) and "arm" in frame:
        frame = frame[frame["arm"] == part.name]
    return frame, [report.stored[i].row for i in frame["image_id"] if i in report.stored]


def _prompts(frame: pd.DataFrame) -> str:
    prompts = list(dict.fromkeys(frame["prompt"]))
    if len(prompts) != 1:
        return f" of {len(prompts):,} prompts" if prompts else ""
    (prompt,) = prompts
    return f" of “{prompt if len(prompt) <= _LONGEST else prompt[:_LONGEST] + '…'}”"


def _origin(report: StudyReport, part: Measured, rows: list[ImageRow]) -> str:
    """Who drew them, with revision and day."""
    day = f" on {day_of(report)}" if report.created else ""
    if part.settings.model.startswith(IMPORTED):
        return f" that were brought along ({part.settings.model.removeprefix(IMPORTED)}), measured{day}"
    revisions = " and ".join(dict.fromkeys(row.revision for row in rows if row.revision))
    revisions = revisions or report.versions.get("model_revision", "")
    revision = f" (revision {revisions})" if revisions else ""
    if isinstance(part, StudyReport) and part.arms:
        models = " and ".join(dict.fromkeys(arm.settings.model for arm in part.arms))
        return f" drawn by {models}{revision} in {drawn_by(part)}{day}"
    name = drawn_by(part) if isinstance(part, StudyReport) else _model(part.settings)
    return f" drawn by {name}{revision}{day}"


def _model(settings: StudySettings) -> str:
    return ", ".join(filter(None, (settings.model, settings.condition)))


def _row_has_interval(row: Row) -> bool:
    return not (math.isnan(row["low"]) or math.isnan(row["high"]))


def _share(name: str, row: Row, of: Circumstances) -> str:
    share = format_share(row["value"], row["low"], row["high"], n=row["n"])
    return (
        f"In {row['n']:,} pictures{of.read_prompts}{of.origin}, {share} ({of.interval}) were read as “{name}” by "
        f"{of.reader}."
    )


def _number(row: Row, of: Circumstances, part: Measured) -> str:
    ends, n, null = (row["low"], row["high"]), row["n"], row["null_value"]
    bounded = _row_has_interval(row)
    number = format_estimate(row["value"], *ends, n=n) if bounded else format_number(row["value"], n=n)
    facts = [
        row["measure"],
        *([of.interval] if bounded else []),
        f"n = {n:,}",
        *([f"p {_compared(format_p(row['p_value']))}"] if is_known(row["p_value"]) else []),
        *(
            [f"no {'difference' if isinstance(part, StudyReport) and part.arms else 'bias'} reads {format_given(null)}"]
            if is_known(null)
            else []
        ),
    ]
    return (
        f"{row['finding']}: {number} ({'; '.join(facts)}). Measured in {part.n_images:,} pictures{of.prompts}"
        f"{of.origin}, read by {of.reader}."
    )


def _compared(p_value: str) -> str:
    return p_value if p_value.startswith("<") else f"= {p_value}"


KINDS = "validity_"  # the kinds of these studies begin with it
HEADLINE, AS_PUBLISHED = "headline", "as the paper has it"
NO_PICTURES = "without pictures"  # how the words for what is planted begin where nothing is drawn
CONTRAST = "against the others"  # how the app searches for texts of clusters

ADVICE: Mapping[str, str] = {
    "intervals too narrow": "Trust its value and its order; its interval is surer than it should be.",
    "reads bias where none is planted": "Do not read one value as bias: compare it with a fair condition.",
    "does not follow what is planted": "Do not compare models by it: more bias does not always move it.",
    "inconclusive": "Not shown either way by this many repetitions: run more of them.",
    "intervals wider than need be": "Its interval is on the safe side.",
}
_UNRELATED = ("reads bias where none is planted", "does not follow what is planted")
_NOTHING = "Nothing alone: here it tells neither whether bias was planted nor how much."
_SOUND = "Its value, its interval and its order can be trusted here."
GRADES = ("holds", "remark", "inconclusive", "fails")


def verdicts_headline(report: StudyReport) -> str:
    """Count of the measures that hold, with those that do not; of a search for texts, how often it names them."""
    lines = verdict_lines(report)
    if not lines:
        return _texts_headline(report)
    n = counts_of(lines)
    fails = [line for line in lines if line.grade == "fails"]
    failures = "; ".join(f"{line.measure}: {line.verdict.removeprefix('fails: ')}" for line in fails)
    more = f" Inconclusive with this many repetitions: {n['inconclusive']}." if n["inconclusive"] else ""
    more += f" These fail: {failures}." if failures else ""
    return f"{n['holds'] + n['remark']} of {len(lines)} ways of measuring are shown to tell what was planted.{more}"


def _texts_headline(report: StudyReport) -> str:
    """Share in which the app's search names what is planted, and in which such words come by themselves."""
    shares = {
        one.key: format_share(one.estimate.value, one.estimate.low, one.estimate.high, n=one.estimate.n)
        for one in report.results.findings
    }
    planted, none = (shares.get(f"{CONTRAST} {is_planted}") for is_planted in (True, False))
    if planted is None:
        return "No planted attribute is in enough pictures, and lacking in enough, for clusters that share it."
    return (
        f"Of clusters that share a planted attribute, one of the three best texts names it in {planted}; of clusters "
        f"without one such a word comes up in {none}."
    )


class VerdictLine(NamedTuple):
    """One measure of a report; of a share ``value, low, high, n``, None where there is none."""

    measure: str
    planted: str
    verdict: str  # in the words of the rule
    grade: str  # ``holds``, ``remark``, ``inconclusive`` or ``fails``
    kind: str  # whether headlines show it, or it is as its paper has it
    advice: str  # what the measure can be trusted for
    coverage: Mapping[str, Any] | None
    alarms: Mapping[str, Any] | None
    seeds: str  # of its pictures, in words
    means: str  # the measure where nothing, some and all is planted, as text


def verdict_lines(report: StudyReport) -> list[VerdictLine]:
    """The verdicts of a validity study with their shares; none of a search for texts, which has no intervals."""
    shares: dict[str, dict[str, Any]] = {
        figure.key: {str(row["name"]): row for row in figure.data.to_dict("records")}
        for figure in report.results.figures
        if {"name", "value", "low", "high", "n"} <= set(figure.data)
    }
    lines = []
    for row in report.results.frame("verdicts").to_dict("records"):
        measure, planted, verdict = (str(row[column]) for column in ("measure", "what is planted", "verdict"))
        name = f"{measure}, {planted}" if planted else measure
        middle = [] if row["mean, some planted"] == "–" else str(row["mean, some planted"]).split(", ")
        trust = " ".join(says for words, says in ADVICE.items() if words in verdict) or _SOUND
        lines.append(
            VerdictLine(
                measure=measure,
                planted=planted,
                verdict=verdict,
                grade=_grade(verdict),
                kind=str(row["kind"]),
                advice=_NOTHING if all(words in verdict for words in _UNRELATED) else trust,
                coverage=shares.get("coverage", {}).get(name),
                alarms=shares.get("alarms", {}).get(name),
                seeds=seeds_of(report, planted),
                means=" → ".join((str(row["mean, nothing planted"]), *middle, str(row["mean, all planted"]))),
            )
        )
    return lines


def _grade(verdict: str) -> str:
    first = verdict.partition(":")[0]
    return first if first in GRADES else "remark" if "(" in verdict else "holds"


def seeds_of(report: StudyReport, planted: str) -> str:
    """The seeds that the repetitions were spread over, in words; "" where none was drawn as a picture."""
    if planted.startswith(NO_PICTURES):
        return ""
    first, n = report.settings.seed, int(option_values(report.settings.options).get("seeds", 1))
    return f"on seed {first}" if n == 1 else f"on seeds {first} to {first + n - 1}"


def counts_of(lines: Sequence[VerdictLine]) -> dict[str, int]:
    """How many lines have each grade."""
    return {grade: sum(line.grade == grade for line in lines) for grade in GRADES}


AGAINST_P_STAR = {"attribute_prevalence", "signed_difference", "stereotype_score"}
"""Measures that are compared with a P*: only a study that knows where it comes from makes a headline of them."""

_HANG_ON_P_STAR = AGAINST_P_STAR - {"attribute_prevalence"}  # a difference of shares is compared with 0


def headline(report: StudyReport) -> str:
    """What stands out, in a sentence or two; of a run that was stopped inside of its measuring also how far it came."""
    text = corrected_headline(report) or _of_all(report)
    return f"{text} Stopped after {report.stopped_after}." if report.stopped_after else text


def _of_all(report: StudyReport) -> str:
    if report.design.kind.startswith(KINDS):
        return verdicts_headline(report)
    study = known_study(report.design)
    if report.arms:
        own = "" if study is None else study.arms_headline(report)
        return own or differences_headline(report, report.results.frame("differences"))
    return ("" if study is None else study.headline(report)) or numbers_headline(report)


def numbers_headline(report: StudyReport) -> str:
    """How many findings exclude their null value, and the clearest of them."""
    rows = [
        row
        for row, finding in zip(finding_rows(report), report.results.findings, strict=True)
        if finding.metric not in AGAINST_P_STAR and all(map(is_known, (row["low"], row["high"], row["null_value"])))
    ]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show what was found."
    away = [row for row in rows if not row["low"] <= row["null_value"] <= row["high"]]
    if not away:
        which = "The number is" if len(rows) == 1 else f"All {len(rows)} numbers are"
        return f"{which} compatible with “no bias”: no departure is shown, none is ruled out."
    lead = max(away, key=_clearance)
    if len(rows) == 1:
        return _spoken(lead)
    verb = "departs" if len(away) == 1 else "depart"
    return f"{len(away)} of {len(rows)} numbers {verb} clearly from “no bias”. Clearest: {_spoken(lead)}"


def _spoken(row: dict[str, Any]) -> str:
    number = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    null = format_given(row["null_value"])
    return f"{row['finding']}, {number}, where {null} would be no bias. {row['says']}".strip()


def _clearance(row: dict[str, Any]) -> float:
    """How far the null value lies outside of the interval, in widths of it."""
    outside = max(row["low"] - row["null_value"], row["null_value"] - row["high"])
    return outside / width if (width := row["high"] - row["low"]) else math.inf


def differences_headline(report: StudyReport, frame: pd.DataFrame) -> str:
    """What a comparison found, by the rows of its table of differences that may be compared."""
    tested = frame[frame["p adjusted"].notna()] if len(frame) else frame
    if stop_rule(report.settings) is not None and len(frame):
        return _summary_of_intervals(frame[frame["low"].notna()], _AT_ANY_TIME)
    if tested.empty and len(frame) and frame["low"].notna().any():
        return _summary_of_intervals(frame[frame["low"].notna()], "No p-value is claimed.")
    if tested.empty:
        return "Nothing could be tested on these pictures; the tables show what was measured."
    clear = tested[tested["clear"] == "yes"]
    if clear.empty:
        return f"No clear difference between the arms: none of {len(tested)} tests stands out from chance."
    row = clear[clear["finding"] == clear["finding"].iloc[0]].sort_values("difference", key=abs).iloc[-1]
    ends = row["low"], row["high"]
    text = (
        f"{row['finding']} is {format_number(row['value first'], *ends)} in “{row['first']}” and "
        f"{format_number(row['value second'], *ends)} in “{row['second']}”: a difference of "
        f"{format_estimate(row['difference'], *ends)}. {len(clear)} of {len(tested)} differences are clear "
        "after correction for looking at all."
    )
    return text[:1].upper() + text[1:]


_AT_ANY_TIME = "No p-value is claimed where a stop rule looks at the pictures; these intervals hold at any time."


def _summary_of_intervals(frame: pd.DataFrame, how: str) -> str:
    """What the intervals alone say, where no p-value is claimed; ``how`` says why."""
    clear = frame[(frame["low"] > 0) | (frame["high"] < 0)]
    if clear.empty:
        return f"No interval of the {len(frame)} differences leaves out 0. {how}"
    count = f"{len(clear)} of {len(frame)} intervals of differences leave out 0. {how}"
    if "measure" in clear and (clear := clear[~clear["measure"].isin(_HANG_ON_P_STAR)]).empty:
        return count
    alike = clear[clear["measure"] == clear["measure"].iloc[0]] if "measure" in clear else clear  # on one scale
    row = alike.iloc[int(alike["difference"].abs().to_numpy().argmax())]
    estimate = format_estimate(row["difference"], row["low"], row["high"])
    text = f"{row['finding']}, “{row['second']}” less “{row['first']}”: {estimate}, n = {row['n']} of each. "
    return f"{text[:1].upper()}{text[1:]}{count}"
