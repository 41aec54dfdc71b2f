"""A report as one HTML page that needs no network and no other file: to be read, sent around and printed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bias_core.exchange.export import DatasetFacts
from bias_core.metrics.cards import METRICS, Card, load_references, work
from bias_core.number_text import NO_INTERVAL
from bias_core.studies.kit.protocol import CHECKLIST
from bias_core.studies.kit.types import ArmReport, Measured, StudyReport
from bias_core.studies.reports.claims import circumstances, claims
from bias_core.studies.reports.embedded import figure_svg, light_uri
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import (
    LIMITS,
    arms_overview,
    day_of,
    excerpt,
    finding_frame,
    further_tables,
    notes_of,
    number_columns,
    report_facts,
    title_of,
)
from bias_core.types import ImageRow, StoredImage

MOST_PICTURES = 64
_MOST_GROUPS = 12  # with more, pictures stand in one group
_PIXELS = 256  # of a picture's copy
_MOST_CLAIMS = 6
_MOST_LISTED = 4
_DATA_ARE = "its numbers are a CSV file in the zip of this report"


@dataclass(frozen=True, kw_only=True)
class ShownPicture:
    """One picture of the page."""

    number: int  # as on the page of the program
    image: StoredImage
    prompt: str

    @property
    def copy(self) -> str:
        """Of it, as a data URI."""
        return light_uri(self.image.path, _PIXELS)


@dataclass(frozen=True, kw_only=True)
class PictureGroup:
    """Pictures of one arm, or of one part of the study."""

    title: str
    n: int  # that there are of these prompts
    prompts: tuple[str, ...]  # different ones of those that are shown
    pictures: tuple[ShownPicture, ...]


def to_html(report: StudyReport, export: DatasetFacts) -> str:
    """The page, made of the same numbers, texts and figures as every other form of the report.

    ``export`` are the facts that its dataset card has, too.
    """
    further = further_tables(report)
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            report=report,
            title=title_of(report),
            facts=report_facts(report)[1:],
            claims=claims(report),
            most_claims=_MOST_CLAIMS,
            groups=picture_groups(report),
            findings=_numbers(report),
            overview=arms_overview(report),
            tables=[table for table in further if table.key != CHECKLIST],
            checklist=[table for table in further if table.key == CHECKLIST],
            how=how_measured(report, export),
            export=export,
            measures=_measures(report),
            works=works_of(report),
            limits=LIMITS,
            notes=notes_of(report),
            figure_list=[figure for figure in report.results.figures if not figure.data.empty],
            headline=headline(report),
            day=day_of(report),
        )
    )


def _numbers(report: StudyReport) -> pd.DataFrame:
    """The findings, each value with its interval in one cell beside its name, the words at the end."""
    frame = finding_frame(report)
    if not len(frame):
        return frame
    none = frame["interval"] == NO_INTERVAL
    values = (frame["value"] + " " + frame["interval"]).where(~none, frame["value"] + ", " + NO_INTERVAL)
    words = frame[["measure", "reads"]]
    return frame.assign(value=values).drop(columns=["interval", *words]).join(words)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "svg": lambda figure: Markup(figure_svg(figure, _DATA_ARE)),
        "excerpt": excerpt,
        "numbers": number_columns,
        "work": work,
        "count": lambda n: f"{n:,}",
    }
    styles = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    made.globals |= {"styles": Markup(styles)}
    return made


def picture_groups(report: StudyReport) -> list[PictureGroup]:
    """Of each arm, or else of each part of the study, equally many pictures; no more than the page holds."""
    frame = report.pictures
    if frame is None or frame.empty:
        return []
    frame = frame.drop_duplicates(["arm", "image_id"] if "arm" in frame else ["image_id"])
    frame = frame[frame["image_id"].isin(list(report.stored))]
    by = "arm" if report.arms and "arm" in frame else "group"
    parts = [(str(name), part) for name, part in frame.groupby(by, sort=False)]
    if not 1 < len(parts) <= _MOST_GROUPS:
        parts = [("", frame)]
    return [_group(report, name, part, n) for (name, part), n in zip(parts, _quotas(parts), strict=True) if n]


def _quotas(parts: list[tuple[str, pd.DataFrame]]) -> list[int]:
    """How many of each part: what small ones leave goes to larger ones."""
    quotas, left = [0] * len(parts), MOST_PICTURES
    for place, i in enumerate(sorted(range(len(parts)), key=lambda i: len(parts[i][1]))):
        quotas[i] = min(len(parts[i][1]), left // (len(parts) - place))
        left -= quotas[i]
    return quotas


def _group(report: StudyReport, name: str, frame: pd.DataFrame, n: int) -> PictureGroup:
    rows = list(enumerate(frame.to_dict("records"), start=1))[:n]
    drawn = {image_id: report.stored[image_id].row.prompt for image_id in frame["image_id"]}  # the arm's words
    pictures = tuple(
        ShownPicture(number=_number(row, i), image=report.stored[row["image_id"]], prompt=drawn[row["image_id"]])
        for i, row in rows
    )
    prompts = tuple(dict.fromkeys(one.prompt for one in pictures))
    n_of_prompt = sum(drawn[image_id] in prompts for image_id in frame["image_id"])
    return PictureGroup(title=name, n=n_of_prompt, prompts=prompts, pictures=pictures)


def _number(row: dict[Any, Any], place: int) -> int:
    number = row.get("number", math.nan)
    return place if math.isnan(number) else int(number)


def how_measured(report: StudyReport, export: DatasetFacts) -> dict[str, str]:
    """What anybody needs to know to measure it again, in words, by their titles; "" where it does not apply."""
    return dict(_how_measured(report, export))


def _how_measured(report: StudyReport, export: DatasetFacts) -> Iterator[tuple[str, str]]:
    rows, of = [image.row for image in report.stored.values()], circumstances(report, report)
    yield "Drawn by", export.model or "whoever brought the pictures along"
    for part in report.arms:
        yield f"Arm “{part.name}”", _arm(report, part)
    yield from _drawn_how(rows)
    yield "Read by", of.reader
    yield "How they were read", export.annotation
    methods = list(dict.fromkeys(filter(None, (f.estimate.method for p in _parts(report) for f in p.results.findings))))
    if methods:
        yield "Intervals", "; ".join(methods)
    yield "Licence of the pictures", export.licence_note
    yield "Measured on", f"{day_of(report)} (UTC)" if report.created else "a day that is not on record"
    yield "Run", report.run_id


def _arm(report: StudyReport, part: ArmReport) -> str:
    words = f"{part.n_images:,} of {part.n_planned:,} pictures{circumstances(report, part).origin}"
    blocked = f"; {part.n_blocked:,} refused or blanked" if part.n_blocked else ""
    return words + blocked


def _drawn_how(rows: list[ImageRow]) -> Iterator[tuple[str, str]]:
    """Prompts, seeds, size and steps, as the rows of the pictures have them."""
    if not rows:
        return
    yield "Prompts", _listed(f"“{row.prompt}”" for row in rows)
    yield "Negative prompts", _listed(row.negative_prompt for row in rows)
    seeds = [row.seed for row in rows]
    yield "Seeds", f"{min(seeds)} to {max(seeds)}" if len(set(seeds)) > 1 else f"{seeds[0]}"
    yield "Size", _listed(f"{row.width} × {row.height} pixels" for row in rows)
    steps = (f"{row.num_inference_steps}, {row.guidance_scale:g}" for row in rows if row.num_inference_steps)
    yield "Steps, guidance", _listed(steps)
    yield "Sampler", _listed(row.sampler for row in rows)


def _listed(texts: Iterator[str]) -> str:
    """Each text once, the first few; the template leaves out what is empty."""
    different = list(dict.fromkeys(filter(None, texts)))
    more = len(different) - _MOST_LISTED
    return ", ".join(different[:_MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _parts(report: StudyReport) -> tuple[Measured, ...]:
    return (report, *report.arms)


def _measures(report: StudyReport) -> list[Card]:
    keys = dict.fromkeys(finding.metric for part in _parts(report) for finding in part.results.findings)
    return [METRICS[key] for key in keys]


def works_of(report: StudyReport) -> list[str]:
    """BibTeX of the paper that the study follows, and of its measures."""
    keys = dict.fromkeys([report.design.reference, *(card.reference for card in _measures(report))])
    references = load_references()
    return [references[key].bibtex.strip() for key in keys if key in references]
