"""A report as HTML, Markdown, model card or JSON."""

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image, ImageOps

from bias_core.measures.cards import METRICS, Card, load_references, work
from bias_core.report.blocked_pictures import describe_count
from bias_core.report.figures import figure_svg, page_width
from bias_core.report.headlines import headline
from bias_core.report.palette import css_variables
from bias_core.report.report_text import (
    LIMITS,
    Row,
    arm_folder,
    arms_overview,
    circumstances,
    claim,
    claims,
    describe_generator,
    describe_report_reader,
    excerpt,
    finding_frame,
    finding_rows,
    finding_text,
    format_day,
    further_tables,
    get_title,
    list_notes,
    markdown_table,
    null_words,
    number_columns,
    plain,
    report_facts,
    size_in_words,
)
from bias_core.store.export import DatasetFacts, escape_markdown, fenced
from bias_core.study.design import CHECKLIST, format_summary, known_study
from bias_core.study.types import ArmReport, Measured, StudyReport
from bias_core.types import StoredImage
from bias_core.wording import NO_INTERVAL, format_list

_MOST_AVERAGED, _AVERAGE_SIZE = 200, 96  # pictures, pixels
_SMALL = 128  # pixels
_MISSING = Image.new("RGB", (8, 8), "#808080")


def data_uri(path: Path, size: int) -> str:
    """Return a copy of at most ``size`` pixels as a data URI; grey if the file is gone."""
    return _uri(_open_scaled(path, size))


def small_uri(image: Image.Image) -> str:
    """Return a small data URI of a picture that is shown only for a moment."""
    return _uri(image, "webp", quality=70, method=0)


def light_uri(path: Path, size: int) -> str:
    """Return a copy of at most ``size`` pixels for a file to share: PNG if that is small, else JPEG."""
    image = _open_scaled(path, size)
    return _uri(image) if max(image.size) <= _SMALL else _uri(image, "jpeg", quality=85)


def average_uri(paths: Sequence[Path]) -> str:
    """Return the pixel mean of the pictures (at most the first 200) as a data URI."""
    stack = [
        np.asarray(_open_scaled(path, _AVERAGE_SIZE, exactly=True), dtype=np.float32) for path in paths[:_MOST_AVERAGED]
    ]
    mean = np.mean(stack, axis=0) if stack else np.asarray(_MISSING)
    return _uri(Image.fromarray(np.rint(mean).astype(np.uint8)))


def _open_scaled(path: Path, size: int, *, exactly: bool = False) -> Image.Image:
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except OSError:
        image = _MISSING
    method = Image.Resampling.BOX if max(image.size) > size else Image.Resampling.NEAREST
    if exactly:
        return image.resize((size, size), method)
    return ImageOps.contain(image, (size, size), method) if max(image.size) > size else image


def _uri(image: Image.Image, form: str = "png", **options: int) -> str:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return f"data:image/{form};base64," + base64.b64encode(buffer.getvalue()).decode()


@cache
def _environment() -> Environment:
    folder = Path(__file__).parent
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=lambda name: name == "report.html.jinja",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "count": lambda n: f"{n:,}",
        "excerpt": excerpt,
        "fenced": fenced,
        "findings": lambda arm: _titled(pd.DataFrame([finding_text(row) for row in finding_rows(arm)]), arm),
        "in_markdown": escape_markdown,
        "markdown": markdown_table,
        "numbers": number_columns,
        "svg": lambda figure: Markup(figure_svg(figure, _DATA_ARE, width=page_width(figure))),
        "work": work,
    }
    light, dark = (f":root {{ {css_variables(look)} }}" for look in ("light", "dark"))
    colours = f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"
    made.globals["styles"] = Markup(colours + (folder / "report.css").read_text(encoding="utf-8"))
    return made


def _render(template: str, report: StudyReport, **values: Any) -> str:
    """Fill a template with the report, the texts of every document, and further values."""
    return (
        _environment()
        .get_template(template)
        .render(
            report=report,
            title=get_title(report),
            summary=format_summary(report.design, report.settings),
            headline=headline(report),
            limits=LIMITS,
            notes=list_notes(report),
            measures=_list_cards(report),
            **values,
        )
    )


_MOST_CLAIMS, _MOST_NUMBERS = 3, 8


def to_model_card(report: StudyReport, export: DatasetFacts) -> str:
    """Return a section for a model card, in Markdown; ``export`` are the facts of the dataset card.

    It has the numbers of the study's main measure, and says how many it leaves out.
    """
    frame = _titled(finding_frame(report), report).rename(columns={"": "number"})
    metrics = [finding.metric for finding in report.results.findings]
    leading = frame[[metric == metrics[0] for metric in metrics]].head(_MOST_NUMBERS) if metrics else frame
    return _render(
        "model_card.md.jinja",
        report,
        claims=claims(report)[:_MOST_CLAIMS],
        findings=leading,
        left_out=f"{len(leading):,} of {len(frame):,} numbers" if len(leading) < len(frame) else "",
        how=describe_measurement(report, export),
        command=export.command,
        works=get_bibtex_entries(report),
    )


MOST_PICTURES = 64
_MOST_GROUPS = 12  # with more, all pictures form one group
_PIXELS = 256  # of a picture's copy
_MOST_CLAIMS_ON_PAGE = 6
_MOST_LISTED = 4
_DATA_ARE = "its numbers are a CSV file in the zip of this report"


@dataclass(frozen=True, kw_only=True)
class ShownPicture:
    number: int  # as on the page of the program
    image: StoredImage
    prompt: str

    @property
    def copy(self) -> str:
        """A small copy as a data URI."""
        return light_uri(self.image.path, _PIXELS)


@dataclass(frozen=True, kw_only=True)
class PictureGroup:
    """Pictures of one arm, or of one part of the study."""

    title: str
    n: int  # pictures of these prompts
    prompts: tuple[str, ...]  # different prompts of the pictures shown
    pictures: tuple[ShownPicture, ...]


def to_html(report: StudyReport, export: DatasetFacts) -> str:
    """Return the report as an HTML page; ``export`` are the facts of the dataset card."""
    further = further_tables(report)
    return _render(
        "report.html.jinja",
        report,
        facts=report_facts(report)[1:],
        claims=claims(report),
        most_claims=_MOST_CLAIMS_ON_PAGE,
        groups=picture_groups(report),
        findings=_build_number_frame(report),
        overview=arms_overview(report),
        tables=[table for table in further if table.key != CHECKLIST],
        checklist=[table for table in further if table.key == CHECKLIST],
        how=describe_measurement(report, export),
        export=export,
        works=get_bibtex_entries(report),
        figure_list=[figure for figure in report.results.figures if not figure.data.empty],
        day=format_day(report),
    )


def _build_number_frame(report: StudyReport) -> pd.DataFrame:
    """Return the findings as text, each value with its interval in one cell, the sentences last."""
    frame = finding_frame(report)
    if not len(frame):
        return frame
    none = frame["interval"] == NO_INTERVAL
    values = (frame["value"] + " " + frame["interval"]).where(~none, frame["value"] + ", " + NO_INTERVAL)
    words = frame[["measure", "reads"]]
    return _titled(frame.assign(value=values).drop(columns=["interval", *words]).join(words), report)


def _titled(findings: pd.DataFrame, of: Measured) -> pd.DataFrame:
    """Return findings as text under the column titles that people read."""
    return findings.rename(columns={"null": null_words(of), "published": "in the paper", "reads": "meaning"})


def picture_groups(report: StudyReport) -> list[PictureGroup]:
    """Return equally many pictures of each arm, or of each part of the study, up to :data:`MOST_PICTURES`."""
    frame = report.pictures
    if frame is None or frame.empty:
        return []
    frame = frame.drop_duplicates(["arm", "image_id"] if "arm" in frame else ["image_id"])
    frame = frame[frame["image_id"].isin(list(report.stored))]
    by = "arm" if report.arms and "arm" in frame else "group"
    parts = [(str(name), part) for name, part in frame.groupby(by, sort=False)]
    if not 1 < len(parts) <= _MOST_GROUPS:
        parts = [("", frame)]
    return [_build_group(report, name, part, n) for (name, part), n in zip(parts, _quotas(parts), strict=True) if n]


def _quotas(parts: list[tuple[str, pd.DataFrame]]) -> list[int]:
    """Return the number of pictures of each part; places that small parts leave go to larger ones."""
    quotas, left = [0] * len(parts), MOST_PICTURES
    for place, i in enumerate(sorted(range(len(parts)), key=lambda i: len(parts[i][1]))):
        quotas[i] = min(len(parts[i][1]), left // (len(parts) - place))
        left -= quotas[i]
    return quotas


def _build_group(report: StudyReport, name: str, frame: pd.DataFrame, n: int) -> PictureGroup:
    rows = list(enumerate(frame.to_dict("records"), start=1))[:n]
    drawn = {image_id: report.stored[image_id].row.prompt for image_id in frame["image_id"]}  # as the arm has it
    pictures = tuple(
        ShownPicture(number=_get_number(row, i), image=report.stored[row["image_id"]], prompt=drawn[row["image_id"]])
        for i, row in rows
    )
    prompts = tuple(dict.fromkeys(picture.prompt for picture in pictures))
    n_of_prompt = sum(drawn[image_id] in prompts for image_id in frame["image_id"])
    return PictureGroup(title=name, n=n_of_prompt, prompts=prompts, pictures=pictures)


def _get_number(row: dict[Any, Any], place: int) -> int:
    number = row.get("number", math.nan)
    return place if math.isnan(number) else int(number)


def describe_measurement(report: StudyReport, export: DatasetFacts) -> dict[str, str]:
    """Return everything needed to measure it again, in words by title; "" if it does not apply."""
    rows, seeds = [image.row for image in report.stored.values()], [image.row.seed for image in report.stored.values()]
    methods = dict.fromkeys(finding.estimate.method for part in _parts(report) for finding in part.results.findings)
    return {
        "Drawn by": export.model or "unknown: the pictures were imported",
        **{f"Arm “{part.name}”": _arm(report, part) for part in report.arms},
        "Prompts": _listed(f"“{row.prompt}”" for row in rows),
        "Negative prompts": _listed(row.negative_prompt for row in rows),
        "Seeds": " to ".join(map(str, dict.fromkeys((min(seeds), max(seeds))))) if seeds else "",
        "Size": _listed(f"{row.width} × {row.height} pixels" for row in rows),
        "Steps, guidance": _listed(
            f"{row.num_inference_steps}, {row.guidance_scale:g}" for row in rows if row.num_inference_steps
        ),
        "Sampler": _listed(row.sampler for row in rows),
        "Read by": circumstances(report, report).reader,
        "How they were read": export.annotation,
        "Intervals": "; ".join(filter(None, methods)),
        "Licence of the pictures": export.licence_note,
        "Measured on": f"{format_day(report)} (UTC)" if report.created else "an unknown day",
        "Run": report.run_id,
    }


def _arm(report: StudyReport, part: ArmReport) -> str:
    blocked = f"; {describe_count(part.n_blocked)}" if part.n_blocked else ""
    return f"{part.n_images:,} of {part.n_planned:,} pictures{circumstances(report, part).origin}{blocked}"


def _listed(texts: Iterable[str]) -> str:
    return format_list(list(dict.fromkeys(filter(None, texts))), limit=_MOST_LISTED)


def _parts(report: StudyReport) -> tuple[Measured, ...]:
    return (report, *report.arms)


def _list_cards(report: StudyReport) -> list[Card]:
    keys = dict.fromkeys(finding.metric for part in _parts(report) for finding in part.results.findings)
    return [METRICS[key] for key in keys]


def get_bibtex_entries(report: StudyReport) -> list[str]:
    """Return the BibTeX of the study's paper and of its measures."""
    keys = dict.fromkeys([report.design.reference, *(card.reference for card in _list_cards(report))])
    references = load_references()
    return [references[key].bibtex.strip() for key in keys if key in references]


def to_dict(report: StudyReport) -> Row:
    """Return the report as JSON values; nan becomes None."""
    study = known_study(report.design)
    values = {
        "warning": report.warning,
        "run_id": report.run_id,
        "study": report.design.name,
        "title": get_title(report),
        "headline": headline(report),
        "reference": report.design.reference,
        **_record_part(report),
        "claims": claims(report),
        "unknown_words": list(report.unknown_words),
        "limits": LIMITS,
        "stop_rule": report.stop_rule,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        **(study.facts(report).values if study else {}),
    }
    if report.arms:
        values["arms"] = [{"name": arm.name, **_record_part(arm)} for arm in report.arms]
    return dict(plain(values))


def _record_part(of: Measured) -> Row:
    results = of.results
    return {
        "warning": of.warning,
        "settings": asdict(of.settings),
        "findings": finding_rows(of),
        "tables": {t.key: _records(t.frame) for t in results.tables},
        "figures": {f.key: {"kind": f.kind, "data": _records(f.data)} for f in results.figures},
        "notes": list(results.notes),
        "n_planned": of.n_planned,
        "n_images": of.n_images,
        "n_blocked": of.n_blocked,
    }


def to_markdown(report: StudyReport, *, beside: bool = True) -> str:
    """Return the report as Markdown: findings, figures, and the ends of the tables.

    With ``beside``, it links to figures and tables in the same zip or folder.
    """
    design, settings = report.design, report.settings
    size = f"; {size_in_words(design, settings)}" if design.reference else ""
    return _render(
        "report.md.jinja",
        report,
        beside=beside,
        source=f" After {work(design.reference)}, {design.where}." if design.reference else "",
        describe_count=describe_count,
        how=f" of {describe_generator(report)}, classified by {describe_report_reader(report)}{size}",
        overview=arms_overview(report),
        findings=_titled(finding_frame(report), report),
        further=further_tables(report),
        folder_of=lambda arm: f"{arm_folder(report, arm)}/",
        claim=claim(report),
    )


def _records(frame: pd.DataFrame) -> list[Row]:
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]
