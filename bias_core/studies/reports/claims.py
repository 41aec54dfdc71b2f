"""Sentences that can be quoted: a number with its interval and n, of which pictures, drawn and read by whom, and when.

The same sentences stand on the page, in every report, on the command line and in the API.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from bias_core.metrics.cards import METRICS
from bias_core.number_text import format_estimate, format_given, format_number, format_p, format_share
from bias_core.studies.kit.designs import known_study
from bias_core.studies.kit.types import ArmReport, Measured, StudyReport, StudySettings
from bias_core.studies.reports.text import Row, at_any_time, day_of, drawn_by, finding_rows, is_known, read_by
from bias_core.types import IMPORTED, ImageRow

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
        if is_known(row["value"]) and (_has_interval(row) or is_known(row["p_value"])):
            name = study.share_of(finding) if study else ""
            sentence = _share(name, row, of) if name and _has_interval(row) else _number(row, of, part)
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


def _has_interval(row: Row) -> bool:
    return not (math.isnan(row["low"]) or math.isnan(row["high"]))


def _share(name: str, row: Row, of: Circumstances) -> str:
    share = format_share(row["value"], row["low"], row["high"], n=row["n"])
    return (
        f"In {row['n']:,} pictures{of.read_prompts}{of.origin}, {share} ({of.interval}) were read as “{name}” by "
        f"{of.reader}."
    )


def _number(row: Row, of: Circumstances, part: Measured) -> str:
    ends, n, null = (row["low"], row["high"]), row["n"], row["null_value"]
    bounded = _has_interval(row)
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
