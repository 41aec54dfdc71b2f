"""The sentences of a report except its headline (findings, claims, facts, notes), and tables as text."""

import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from bias_core.measures.cards import METRICS, work
from bias_core.report.blocked_pictures import describe_count
from bias_core.report.claims import NO_CLAIM, SAME_TEST, WHY_NOT
from bias_core.store.export import escape_markdown, format_code, without_splits
from bias_core.store.found_pictures import NO_PROMPT
from bias_core.study.answer_files import NO_RATER
from bias_core.study.attributes import find_attribute_name
from bias_core.study.design import design_files, known_study
from bias_core.study.types import ArmReport, Design, Measured, StudyReport, StudySettings, StudyTable, or_nan
from bias_core.types import IMPORTED, ImageRow
from bias_core.values import option_values
from bias_core.wording import (
    NOT_KNOWN,
    format_change,
    format_estimate,
    format_given,
    format_interval,
    format_number,
    format_p,
    format_percent,
    format_rank,
    format_rate,
    format_share,
    shorten,
    state_p,
    typeset,
)

NOT_PUBLISHED = "not in the paper"
BETWEEN_CLASSIFIERS = "between classifiers"
NO_NULL = "not defined"
VALIDITY = "validity_"  # prefix of the kinds of validity studies
_NULLS = {
    "without bias": "{} means no bias", "without difference": "{} means no difference", "expected": "{} is expected",
}  # fmt: skip

MOST_ROWS, END_ROWS = 40, 10
"""Tables longer than the first number show that many rows of each end; their CSV files have all rows."""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as text: each value with its interval in one column, p-values and missing values in words.

    An interval is two columns "<name> low" and "<name> high" (or "low" and "high") after their value.
    Columns without any known value are left out.
    """
    names, texts, last = [str(name) for name in frame.columns], {}, -1
    for i, name in enumerate(names):
        if i <= last:  # an end of an interval, which is part of another column
            continue
        column, n = frame.iloc[:, i], _find_counts(name, frame)
        if _has_interval(frame, names, i):
            last = i + 2
            cells = [pd.to_numeric(frame.iloc[:, j]).to_numpy(float) for j in (i, i + 1, i + 2)]
            has_values = np.isfinite(cells[0]).any()
            if name == "rank" or name.startswith("rank of "):
                text = [format_rank(*row) for row in zip(*cells, strict=True)]
            else:
                text = [format_estimate(v, low, high, n=k) for v, low, high, k in zip(*cells, n, strict=True)]
        else:
            has_values = (column.notna() & (column.astype(str) != "")).any()
            text = [
                _format_cell(value, k, as_p=bool(_P_VALUE.search(name))) for value, k in zip(column, n, strict=True)
            ]
        if has_values or not len(frame):
            texts[i] = text
    return pd.DataFrame(texts, index=frame.index).set_axis([names[i] for i in texts], axis=1)


def excerpt(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the first and last rows of a table as text (:func:`readable`), and a sentence on the rows left out.

    File paths of this machine (``path``) are dropped, because reports are shared.
    """
    text = readable(frame.drop(columns="path", errors="ignore"))
    if len(text) <= MOST_ROWS:
        return text, ""
    gap = pd.DataFrame([["…"] * text.shape[1]], columns=text.columns)
    ends = pd.concat([text.iloc[:END_ROWS], gap, text.iloc[-END_ROWS:]], ignore_index=True)
    return ends, f"The first {END_ROWS} and the last {END_ROWS} of {len(text):,} rows"


def number_columns(text: pd.DataFrame) -> list[str]:
    """Return the columns that hold only numbers, intervals, and words for missing values.

    >>> number_columns(pd.DataFrame({"n": ["7", "not known"], "at": ["[0.1, 0.2]", "…"], "step": ["none", "5"]}))
    ['n', 'at']
    """
    missing = {"", "…", NOT_KNOWN, NO_NULL}
    return [
        str(name) for name in text if all(cell in missing or _NUMBER.match(cell) for cell in text[name].astype(str))
    ]


def markdown_table(frame: pd.DataFrame, *, code: Collection[str] = ()) -> str:
    """Return a Markdown table with escaped cells; the columns in ``code`` hold names of this program."""
    names = [str(column) for column in frame.columns]
    writers = [format_code if name in code else escape_markdown for name in names]
    cells = [[write(cell) for write, cell in zip(writers, row, strict=True)] for row in frame.astype(object).to_numpy()]
    rows = [list(map(escape_markdown, names)), ["---"] * len(names), *cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _has_interval(frame: pd.DataFrame, names: list[str], i: int) -> bool:
    """Return True for a column of numbers if the next two columns are the ends of its interval."""
    if i + 2 >= len(names) or _is_count(names[i]):
        return False
    if not names[i + 1].endswith("low") or not names[i + 2].endswith("high"):
        return False
    same = names[i + 1].removesuffix("low") == names[i + 2].removesuffix("high")
    numbers = frame.iloc[:, i].map(lambda value: value is None or isinstance(value, (float, np.floating)))
    return same and bool(numbers.all())


def _is_count(name: str) -> bool:
    return name == "n" or name.startswith("n ")


def _find_counts(name: str, frame: pd.DataFrame) -> list[float | None]:
    """Return the n of each row, from the column "n <last word of the name>", else from "n"."""
    columns = [] if _is_count(name) else [c for c in (f"n {name.rpartition(' ')[2]}", "n") if c in frame]
    counts = frame[columns[0]] if columns else [None] * len(frame)
    is_number = (int, float, np.number)
    return [float(n) if isinstance(n, is_number) and math.isfinite(n) else None for n in counts]


def _format_cell(value: Any, n: float | None, *, as_p: bool) -> str:
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
    "Attributes are perceived: what a classifier sees in a picture, never what a person is. "
    "Classifiers make errors; unless their error rates are measured, a share can be wrong by more than its interval. "
    "Intervals cover the chance of drawing these pictures, not other prompts, models or classifiers."
)
_LONGEST_FOLDER = 40
_P_VALUE = re.compile(r"^[pq]( |$)| [pq]$")  # in the name of a column


def get_title(report: StudyReport) -> str:
    """Return the title of a report: the design's, or the study's own for these settings."""
    study = known_study(report.design)
    return report.design.title if study is None else study.get_run_title(report.settings)


def finding_rows(of: Measured) -> list[Row]:
    """Return one row per finding; every front end shows these first.

    The p-value of each is for itself alone, the adjusted one for the tests of its family. A number about which nothing
    is claimed, such as one against an assumed rate, has neither p nor a value without bias; nor is one shown for Ψ: it
    is above 0 on average without bias, and its claim is that of P.
    """
    rows = []
    is_decided = any(finding.claim is not None for finding in of.results.findings)  # no report of version 0.1.0 is
    for finding in of.results.findings:
        estimate, metric, claim = finding.estimate, METRICS[finding.metric], finding.claim or NO_CLAIM
        is_tested = not is_decided or (claim.verdict != "not tested" and finding.metric != "stereotype_score")
        null_value = metric.null_value if estimate.null_value is None else estimate.null_value
        rows.append(
            {
                "finding": finding.title,
                "measure": metric.name,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
                "p_value": finding.p_value if claim.verdict != "not tested" or not is_decided else None,
                "p_adjusted": (or_none(claim.p_adjusted) if is_tested else None) if is_decided else finding.p_value,
                "n_tests": claim.n_tests,
                "clear": claim.word if is_tested else "",
                "why_not_clear": "" if claim.is_clear else claim.reason,
                "null_value": null_value if is_tested else None,
                "published": finding.published,
                "drawn": finding.expected,
                "readers_low": min(finding.by_reader.values(), default=None),
                "readers_high": max(finding.by_reader.values(), default=None),
                "restates": finding.claim_of,
                "says": finding.says,
                "method": estimate.method,
                "note": estimate.note,
            }
        )
    return rows


def or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def plain(value: Any) -> Any:
    """Return ``value`` with Python's numbers instead of numpy's, and None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def size_in_words(design: Design, settings: StudySettings) -> str:
    """Return the share of the full design that was drawn, and the paper's size if it differs; own words have none.

    >>> from bias_core.study.design import find_design
    >>> from bias_core.study.types import StudySettings
    >>> size_in_words(find_design("tbyb-general"), StudySettings(scale=0.5))
    '50 % of the full size (in the paper: 3,690 pictures of 369 prompts)'
    """
    if design.name not in design_files():
        return "with words of your own"
    share = f"{format_percent(settings.scale)} of the full size"
    return f"{share} (in the paper: {design.published_size})" if design.published_size else share


def get_interval_suffix(report: StudyReport) -> str:
    """Return the addition to "interval" if the number of pictures was not fixed, or not all were drawn; else ""."""
    watched = report.stopped or report.settings.may_stop_early
    return ", for shares valid at any time" if watched else ""


def describe_reader(settings: StudySettings, *, is_corrected: bool = False) -> str:
    """Return the classifier, judge or people that read the pictures, by the names in the settings.

    ``is_corrected``: as of :func:`is_corrected_by_people`.

    >>> describe_reader(StudySettings(encoder="calibration-clip", judge="endpoint"))
    'calibration-clip, attributes by the judge endpoint'
    >>> describe_reader(StudySettings(encoder="calibration-clip", labels="answers/three.csv"))
    'people (three.csv), otherwise calibration-clip'
    >>> describe_reader(StudySettings(encoder="calibration-clip", labels="answers/three.csv"), is_corrected=True)
    'calibration-clip, corrected by people (three.csv)'
    """
    people = f"people ({Path(settings.labels).name})"
    classifier = settings.encoder + (f", attributes by the judge {settings.judge}" if settings.judge else "")
    if is_corrected:
        return classifier + f", corrected by {people}" * bool(settings.labels)
    if not replaced_by_people(settings):
        return classifier + f", checked by {people}" * bool(settings.labels)
    alone = getattr(settings.options, "labeller", "") == "people"
    return people + f", otherwise {classifier}" * (not alone)


def replaced_by_people(settings: StudySettings) -> bool:
    """Return True if people's answers replace the classifier's; in some studies they only check it."""
    return bool(settings.labels) and getattr(settings.options, "labels_replace_reader", True)


def is_corrected_by_people(report: StudyReport) -> bool:
    """Return True if people's answers correct a report's numbers in a table of their own, next to the classifier's."""
    study = known_study(report.design)
    return bool(_corrected_rows(report)) and not (study is not None and study.takes_labels)


def describe_report_reader(report: StudyReport) -> str:
    """Return :func:`describe_reader` of a report, also of one whose numbers people's answers correct."""
    return describe_reader(report.settings, is_corrected=is_corrected_by_people(report))


def report_facts(report: StudyReport) -> list[str]:
    """Return the pictures, model, classifier and paper of a report, in a few words each."""
    settings, design = report.settings, report.design
    ended = f"after {report.stopped_after}" if report.stopped_after else "before all were drawn"
    scored = " scored" if report.results.findings or report.results.figures else ""
    study = known_study(design)
    made_of = "" if study is None else study.facts(report).made_of
    return [
        get_title(report),
        f"{report.n_images:,} of {report.n_planned:,} pictures{scored}" + f": {made_of}" * bool(made_of),
        *([describe_count(report.n_blocked)] if report.n_blocked else []),
        *(list(shared_model) if len(shared_model := {arm.settings.model for arm in report.arms}) == 1 else []),
        *filter(None, [describe_generator(report)]),
        f"classified by {describe_report_reader(report)}",
        *([size_in_words(design, settings)] if design.reference else []),
        f"{settings.confidence:.0%} intervals{get_interval_suffix(report)}",
        *(["ended by its stop rule"] if report.stop_rule else []),
        *([f"stopped {ended}"] if report.stopped else []),
        *([f"after {work(design.reference)}, {design.where}"] if design.reference else []),
    ]


def list_notes(report: StudyReport) -> list[str]:
    """Return the notes of a report, and one on words that the calibration world does not know."""
    return [*report.results.notes, *describe_unknown_words(report)]


def describe_unknown_words(report: StudyReport) -> list[str]:
    """Return a sentence on words that the calibration world does not know; [] without any."""
    words = ", ".join(f"“{word}”" for word in report.unknown_words)
    says = (
        f"The calibration model does not know {words}: its pictures mean nothing with an unknown word, so leave it out."
    )
    return [says] if words else []


def format_day(report: StudyReport) -> str:
    """Return the day on which it was measured (UTC), such as 2026-11-22; "" if unknown."""
    return time.strftime("%Y-%m-%d", time.gmtime(report.created)) if report.created else ""


def describe_generator(report: StudyReport) -> str:
    """Return the model and condition that drew the pictures, or the names of the arms."""
    settings = report.settings
    if report.arms:
        return f"{len(report.arms)} arms ({', '.join(arm.name for arm in report.arms)})"
    condition = " and ".join(option_values(settings.options).get("conditions", ())) or settings.condition
    return f"{settings.model}, {condition}" if condition else settings.model


def arm_folder(report: StudyReport, arm: ArmReport) -> str:
    words = re.sub(r"[^\w-]+", "-", arm.name.lower()).strip("-")[:_LONGEST_FOLDER]
    return f"arms/{report.arms.index(arm) + 1}-{without_splits(words) or 'arm'}"


def arms_overview(report: StudyReport) -> list[StudyTable]:
    """Return the tables that a comparison shows first: each number by arm, and the ranks of the arms."""
    tables = {table.key: table for table in report.results.tables} if report.arms else {}
    overview = [tables[key] for key in ("by_arm", "ranks") if key in tables]
    if "ranks" in tables:
        rows: dict[str, Row] = {}
        for row in tables["ranks"].frame.to_dict("records"):
            text = format_rank(row["rank"], row["low"], row["high"])
            rows.setdefault(row["finding"], {"finding": row["finding"]})[row["arm"]] = text
        overview[-1:] = [replace(tables["ranks"], frame=pd.DataFrame(list(rows.values())))] if rows else []
    return overview


def further_tables(report: StudyReport) -> list[StudyTable]:
    """Return the tables that :func:`arms_overview` does not show."""
    shown = [table.key for table in arms_overview(report)]
    return [table for table in report.results.tables if table.key not in shown]


def null_words(of: Measured) -> str:
    """Return the heading of the null values; those of a validity study are the shares that its intervals promise."""
    if isinstance(of, StudyReport) and of.design.kind.startswith(VALIDITY):
        return "expected"
    return "without difference" if isinstance(of, StudyReport) and of.arms else "without bias"


def null_sentence(value: str, of: Measured) -> str:
    """Return the meaning of a null value: "0 means no bias", "0 means no difference" or "0.95 is expected"."""
    return _NULLS[null_words(of)].format(value)


def finding_frame(report: StudyReport) -> pd.DataFrame:
    """Return the findings as text, without columns that none of them has."""
    rows = finding_rows(report)
    optional = {"p": "p_adjusted", "published": "published", "drawn": "drawn", BETWEEN_CLASSIFIERS: "readers_low"}
    absent = [name for name, key in optional.items() if not any(map(is_known, (row[key] for row in rows)))]
    absent += [] if any(row["clear"] for row in rows) else ["clear"]
    text = pd.DataFrame([finding_text(row) for row in rows]).drop(columns=absent if rows else [])
    return text.rename(columns={"p": p_head(rows)})


def p_head(rows: Sequence[Row]) -> str:
    """Return the head of the p-values of :func:`finding_rows`, which are adjusted if a family has several tests."""
    return "p adjusted" if any(row["n_tests"] > 1 for row in rows) else "p"


def is_known(value: float | None) -> bool:
    """Return True for a finite number."""
    return value is not None and math.isfinite(value)


def finding_text(row: Row) -> dict[str, str]:
    """Return a row of :func:`finding_rows` as text, with as many digits as its interval or its n supports."""
    ends, n, readers = (row["low"], row["high"]), row["n"], (row["readers_low"], row["readers_high"])
    between = format_interval(*readers, value=row["value"], n=n) if all(map(is_known, readers)) else ""
    return {
        "": row["finding"],
        "measure": row["measure"],
        "value": format_number(row["value"], *ends, n=n),
        "interval": format_interval(*ends, value=row["value"], n=n),
        "n": f"{n:,}",
        "p": format_p(row["p_adjusted"]),
        "clear": row["clear"],
        "null": format_given(row["null_value"], absent=NO_NULL),
        "published": format_given(row["published"], *ends, n=n, absent=NOT_PUBLISHED),
        "drawn": format_given(row["drawn"], *ends, n=n),
        BETWEEN_CLASSIFIERS: between,
        "reads": row["note"] or row["says"],
    }


def get_table(report: StudyReport, key: str) -> StudyTable:
    """Return the table of this key; KeyError lists the keys if there is none."""
    tables = {table.key: table for table in report.results.tables}
    if key not in tables:
        raise KeyError(f"no table {key!r}; there are {', '.join(tables)}")
    return tables[key]


CORRECTED = "corrected"  # key of the table of corrected numbers
_LONGEST = 90  # letters of a prompt


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Words that all claims of a report, or of one of its arms, share."""

    prompts: str  # prompts of all pictures
    read_prompts: str  # prompts of the pictures that shares are measured in
    origin: str  # model and day
    reader: str  # classifier, judge or people
    interval: str  # kind of the interval in brackets


def claims(report: StudyReport) -> list[str]:
    """Return a sentence for each number with an interval or a p-value: the report's own, then those of each arm."""
    return [sentence for part in (report, *report.arms) for sentence in _write_claims(report, part)]


def claim(report: StudyReport) -> str:
    """Return the first of :func:`claims`; "" if there is none."""
    return next((sentence for part in (report, *report.arms) for sentence in _write_claims(report, part)), "")


def _write_claims(report: StudyReport, part: Measured) -> Iterator[str]:
    of, is_study = circumstances(report, part), known_study(report.design) is not None
    between = _index_differences(report) if part is report else {}
    for finding, row in zip(part.results.findings, finding_rows(part), strict=True):
        if is_known(row["value"]) and (_row_has_interval(row) or is_known(row["p_adjusted"])):
            name = find_attribute_name(finding) if is_study else ""
            sentence = (
                _describe_share(name, row, of)
                if name and _row_has_interval(row)
                else _describe_number(row, of, part, between)
            )
            yield " ".join(filter(None, (sentence, _describe_correction(report, part, row), part.warning)))


def corrected_headline(report: StudyReport) -> str:
    """Return the corrected number that a report is about, and what may be claimed of it; "" if there is none.

    That is the largest clear one, of several arms the largest clear difference; else the first tested one.
    """
    rows = _corrected_rows(report)
    if not rows:
        return ""
    row = _lead(rows, has_arms=bool(report.arms))
    alone = f"; the classifier alone gives {_format_corrected(row, 'as read')}" if is_known(row["as read"]) else ""
    labels = f"{row['labels']:,} of {row['n']:,}, {format_rater_count(row['raters'])}"
    return (
        f"{row['number']}, corrected by people’s labels ({labels}): "
        f"{_format_corrected(row, 'corrected')}{_claim_on(row)}{alone}."
    )


def _lead(rows: Sequence[Row], *, has_arms: bool) -> Row:
    tested = [row for row in rows if is_known(row.get("p adjusted")) and not row[SAME_TEST]]
    between = [row for row in tested if row["measure"] in _BETWEEN_ARMS] if has_arms else []
    clear = [row for row in between or tested if row["clear"] == "yes"]
    alike = [row for row in clear if row["measure"] == clear[0]["measure"]]
    return max(
        alike, key=lambda row: abs(row["corrected"] - row["without bias"]), default=(between or tested or rows)[0]
    )


_BETWEEN_ARMS = [METRICS[key].name for key in ("prevalence_difference", "stereotype_gap")]


def _claim_on(row: Row) -> str:
    """Return what may be claimed of a corrected number; "" without a test."""
    if not is_known(row.get("p adjusted")):
        return ""
    is_share = row["measure"] == METRICS["attribute_prevalence"].name
    null = format_given(100 * row["without bias"] if is_share else row["without bias"])
    against = f"the real-world rate of {null} %" if is_share else null
    p_value = state_p(row["p adjusted"], adjusted=row["p adjusted"] > row["p"])
    if row["clear"] == "yes":
        return f", clearly {'above' if row['corrected'] > row['without bias'] else 'below'} {against} ({p_value})"
    reason = f", {row[WHY_NOT]}" if row[WHY_NOT] else ""
    return f", not clearly different from {against} ({p_value}{reason})"


def format_rater_count(n: int) -> str:
    """Return by how many people answers are, in words; 0 if no rater is known.

    >>> format_rater_count(1), format_rater_count(2), format_rater_count(0)
    ('by 1 person', 'by 2 people', 'without a rater')
    """
    return f"by {n:,} {'person' if n == 1 else 'people'}" if n else NO_RATER


def _describe_correction(report: StudyReport, part: Measured, finding: Row) -> str:
    """Return a sentence on a finding as corrected by people's labels; "" if they do not correct it."""
    arm = f", {part.name}" if isinstance(part, ArmReport) else ""
    subject, *details = finding["finding"].split(":")
    title = ":".join([subject + arm, *details])
    for row in _corrected_rows(report):
        if row["number"] == title:
            number, people = _format_corrected(row, "corrected"), format_rater_count(row["raters"])
            return f"Corrected by people’s labels of {row['labels']:,} of them: {number} ({people})."
    return ""


def _corrected_rows(report: StudyReport) -> list[Row]:
    frame = report.results.frame(CORRECTED)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]


def _format_corrected(corrected: Row, name: str) -> str:
    write = format_share if corrected["measure"] == METRICS["attribute_prevalence"].name else format_estimate
    return write(corrected[name], corrected[f"{name} low"], corrected[f"{name} high"])


def circumstances(report: StudyReport, part: Measured) -> Circumstances:
    """Return the pictures, the model and the classifier of a report or arm, in words."""
    frame, rows = _select_pictures(report, part)
    study = known_study(report.design)
    groups = study.attributes(report.settings) if study and len(frame) else {}
    readers = [reader for reader in report.read_by if reader.role != "language_model"]  # it sees no picture
    names = [f"{reader.id} ({reader.revision})" if reader.revision else reader.id for reader in readers]
    # Numbers that people correct are the classifier's own; the corrected ones have a sentence of their own.
    settings = replace(part.settings, labels="" if is_corrected_by_people(report) else report.settings.labels)
    return Circumstances(
        prompts=_describe_prompt(frame),
        read_prompts=_describe_prompt(frame[frame["group"].isin(list(groups))]),
        origin=_describe_origin(report, part, rows),
        reader=describe_reader(settings) if settings.labels or not names else " and ".join(dict.fromkeys(names)),
        interval=f"{part.settings.confidence:.0%} interval{get_interval_suffix(report)}",
    )


def find_revision(report: StudyReport, part: Measured) -> str:
    """Return the revision of the weights that drew the pictures of a report or arm; "" if unknown or imported."""
    rows = [row for row in _select_pictures(report, part)[1] if not row.model.startswith(IMPORTED)]
    revisions = dict.fromkeys(row.revision for row in rows if row.revision)
    return " and ".join(revisions) or report.versions.get("model_revision", "")


def _select_pictures(report: StudyReport, part: Measured) -> tuple[pd.DataFrame, list[ImageRow]]:
    """Return the rows of the scored pictures, and the rows that they were drawn from."""
    frame = report.pictures
    if frame is None or frame.empty or not {"group", "prompt"} <= set(frame):
        return pd.DataFrame({"group": [], "prompt": []}), [image.row for image in report.stored.values()]
    if isinstance(part, ArmReport) and "arm" in frame:
        frame = frame[frame["arm"] == part.name]
    return frame, [report.stored[i].row for i in frame["image_id"] if i in report.stored]


def _describe_prompt(frame: pd.DataFrame) -> str:
    prompts = list(dict.fromkeys(frame["prompt"]))
    if len(prompts) != 1:
        return f" of {len(prompts):,} prompts" if prompts else ""
    (prompt,) = prompts
    if prompt == NO_PROMPT:
        return f" {NO_PROMPT}"
    return f" of “{shorten(prompt, _LONGEST)}”"


def _describe_origin(report: StudyReport, part: Measured, rows: list[ImageRow]) -> str:
    """Return the model that drew the pictures, with revision and day, or their import."""
    day = f" on {format_day(report)}" if report.created else ""
    sources = list(dict.fromkeys(row.model for row in rows)) or [part.settings.model]
    if all(source.startswith(IMPORTED) for source in sources):
        names = " and ".join(source.removeprefix(IMPORTED) for source in sources)
        return f" that were imported ({names}), measured{day}"
    revisions = find_revision(report, part)
    revision = f" (revision {revisions})" if revisions else ""
    if isinstance(part, StudyReport) and part.arms:
        models = " and ".join(dict.fromkeys(arm.settings.model for arm in part.arms))
        return f" drawn by {models}{revision} in {describe_generator(part)}{day}"
    name = describe_generator(part) if isinstance(part, StudyReport) else _model(part.settings)
    return f" drawn by {name}{revision}{day}"


def _model(settings: StudySettings) -> str:
    return ", ".join(filter(None, (settings.model, settings.condition)))


def _row_has_interval(row: Row) -> bool:
    return not (math.isnan(row["low"]) or math.isnan(row["high"]))


def _describe_share(name: str, row: Row, of: Circumstances) -> str:
    share = format_share(row["value"], row["low"], row["high"], n=row["n"])
    return (
        f"In {row['n']:,} pictures{of.read_prompts}{of.origin}, {share} ({of.interval}) were classified as “{name}” by "
        f"{of.reader}."
    )


def _index_differences(report: StudyReport) -> dict[str, Row]:
    """Return the lines of the table of differences by the title of their finding."""
    rows = report.results.frame("differences").to_dict("records")
    return {f"{row['finding']}, {row['second']} − {row['first']}": cast("Row", row) for row in rows}


def _describe_difference(line: Row, number: str) -> str:
    """Return a number of two arms and its difference ``number`` in words, shares in percent."""
    name, _, symbol = line["finding"].rpartition(": ")
    ends, sides = (line["low"], line["high"]), [(line[side], line[f"value {side}"]) for side in ("first", "second")]
    if symbol == "P" and line["measure"] == "attribute_prevalence":
        shares = [f"{format_rate(value)} of the pictures of “{arm}”" for arm, value in sides]
        change = format_change(*(100 * line[end] for end in ("difference", "low", "high")))
        return f"“{name}” was seen in {' and in '.join(shares)}, a difference of {change} points"
    values = [f"{format_number(value, *ends)} in “{arm}”" for arm, value in sides]
    return f"{line['finding']} is {' and '.join(values)}, a difference of {number}"


def _describe_number(row: Row, of: Circumstances, part: Measured, between: Mapping[str, Row]) -> str:
    n, null = row["n"], row["null_value"]
    bounded = _row_has_interval(row)
    number = (
        format_estimate(row["value"], row["low"], row["high"], n=n) if bounded else format_number(row["value"], n=n)
    )
    line = between.get(row["finding"])
    facts = (
        row["measure"] if line is None else "",
        of.interval if bounded else "",
        f"n = {n:,}",
        state_p(or_nan(row["p_adjusted"]), adjusted=row["n_tests"] > 1),
        null_sentence(format_given(null), part) if is_known(null) and line is None else "",
    )
    says = f"{row['finding']}: {number}" if line is None else _describe_difference(line, number)
    return (
        f"{says} ({'; '.join(filter(None, facts))}). Measured in {part.n_images:,} pictures"
        f"{of.prompts}{of.origin}, classified by {of.reader}."
    )
