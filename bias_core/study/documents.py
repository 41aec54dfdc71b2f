"""A report as HTML, Markdown, model card or JSON."""

import base64
import io
import math
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from PIL import Image, ImageOps

from bias_core.measures.cards import METRICS, Card, load_references, work
from bias_core.number_text import NO_INTERVAL
from bias_core.store.export import DatasetFacts, fenced, in_markdown
from bias_core.study.design import CHECKLIST, known_study
from bias_core.study.figures import COLOURS, MUTED, WIDEST, draw
from bias_core.study.report_text import (
    LIMITS,
    Row,
    arm_folder,
    arms_overview,
    circumstances,
    claim,
    claims,
    day_of,
    drawn_by,
    excerpt,
    finding_frame,
    finding_rows,
    finding_text,
    further_tables,
    headline,
    markdown_table,
    notes_of,
    number_columns,
    plain,
    read_by,
    report_facts,
    size_in_words,
    title_of,
)
from bias_core.study.types import ArmReport, Measured, StudyFigure, StudyReport
from bias_core.types import ImageRow, StoredImage

MOST_AVERAGED = 200
NARROW = 4.0  # inches: shown as wide as a phone, letters can still be read
_QUALITY = 70  # of a hundred
_SMALL, _JPEG_QUALITY = 128, 85  # pixels, of a hundred
_MISSING = Image.new("RGB", (8, 8), "#808080")
DRAWING = threading.Lock()  # rc_context is global to the process
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_GROUP, _TEXT = f"{{{_SVG}}}g", f"{{{_SVG}}}text"
_TICK = 7.0  # points from the axis to the name of a row
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _LINK)
N_COLOURS = 8  # of groups on the page, in turn
_INKS = {
    **{colour: f"var(--c{i})" for i, colour in enumerate(COLOURS[:-1])},
    COLOURS[-1]: "var(--ink)",
    MUTED: "var(--muted)",
    "#ffffff": "var(--surface)",
    "#b0b0b0": "var(--line)",  # matplotlib's grid
    "#cccccc": "var(--line)",
}


def figure_svg(
    figure: StudyFigure,
    numbers: str = "the data can be taken as CSV below",
    marks: Mapping[str, str] | None = None,
    width: float = WIDEST,
) -> str:
    """The drawing; its label for screen readers says where the same ``numbers`` stand.

    It is at most ``width`` inches wide, with letters of the same size: for a narrow page.
    A name of ``marks`` that stands beside a mark is a button there, with what it stands for as its data.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    with DRAWING, mpl.rc_context({"svg.fonttype": "none"}):
        drawn = draw(figure, widest=width)
        for patch in (drawn.patch, *(axes.patch for axes in drawn.axes)):
            patch.set_alpha(0)
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(buffer.getvalue())
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    narrow = " narrow" if drawn.get_figwidth() <= NARROW else ""
    root.attrib |= {"role": "img", "class": f"plot{narrow}", "aria-label": f"{figure.title}; {numbers}"}
    _join_lines(root)
    if marks and _name_marks(root, marks):
        root.attrib["role"] = "group"  # what is in an image cannot be pressed
    svg = ET.tostring(root, encoding="unicode")
    for colour, ink in _INKS.items():
        svg = svg.replace(colour, ink)
    return re.sub(r"font(-family)?: ([\d.]+px )?'[^;\"]*", _font, svg)


def _join_lines(root: ET.Element) -> None:
    """Have the lines of a row's name end where names of one line do."""
    for tick in (group for group in root.iter(_GROUP) if group.get("id", "").startswith("ytick_")):
        edge = next((float(mark.attrib["x"]) - _TICK for mark in tick.iter(f"{{{_SVG}}}use")), None)
        for group in tick.iter(_GROUP):
            lines = group.findall(_TEXT)
            if edge is None or len(lines) < 2:
                continue
            for line in lines:
                line.set("style", f"{line.get('style', '')}; text-anchor: end")
                line.set("transform", re.sub(r"\([-\d.]+", f"({edge:g}", line.get("transform", "")))


def _name_marks(root: ET.Element, marks: Mapping[str, str]) -> int:
    """Make buttons of the names of marks in a drawing; how many there are."""
    n_named, by_name = 0, {" ".join(name.split()): name for name in marks}
    for group in root.iter(_GROUP):
        lines = group.findall(_TEXT)
        name = by_name.get(_name_of(lines))
        if name is None:
            continue
        n_named += 1
        for line in lines:
            line.attrib |= {"data-pictures": marks[name], "class": "mark-name"}
        lines[0].attrib |= {"tabindex": "0", "role": "button", "aria-label": f"Show the pictures of {name}"}
    return n_named


def _name_of(lines: Sequence[ET.Element]) -> str:
    return " ".join((line.text or "").strip() for line in lines)


def _font(declaration: re.Match[str]) -> str:
    return f"font: {declaration[2].strip()} var(--font)" if declaration[2] else "font-family: var(--font)"


def data_uri(path: Path, size: int) -> str:
    """A copy of at most ``size`` pixels as a data URI; grey where the file has gone."""
    return _uri(_open(path, size))


def small_uri(image: Image.Image) -> str:
    """A picture that is shown for a moment, as a data URI of few bytes."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY, method=0)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def light_uri(path: Path, size: int) -> str:
    """A copy of at most ``size`` pixels for a file that is sent around: as PNG where that is small, else as JPEG."""
    image = _open(path, size)
    if max(image.size) <= _SMALL:
        return _uri(image)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def average_uri(paths: Sequence[Path], size: int = 96) -> str:
    """The pixel mean of (at most the first 200 of) the pictures as a data URI."""
    stack = [np.asarray(_open(path, size, exactly=True), dtype=np.float32) for path in paths[:MOST_AVERAGED]]
    mean = np.mean(stack, axis=0) if stack else np.asarray(_MISSING)
    return _uri(Image.fromarray(np.rint(mean).astype(np.uint8)))


def _open(path: Path, size: int, *, exactly: bool = False) -> Image.Image:
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except OSError:
        image = _MISSING
    method = Image.Resampling.BOX if max(image.size) > size else Image.Resampling.NEAREST
    if exactly:
        return image.resize((size, size), method)
    return ImageOps.contain(image, (size, size), method) if max(image.size) > size else image


def _uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


_MOST_CLAIMS, _MOST_NUMBERS = 3, 8


def to_model_card(report: StudyReport, export: DatasetFacts) -> str:
    """The section in Markdown; ``export`` are the facts that the dataset card has, too."""
    findings, left_out = _leading(report)
    return _template().render(
        headline=headline(report),
        warning=report.warning,
        claims=claims(report)[:_MOST_CLAIMS],
        findings=findings,
        left_out=left_out,
        limits=LIMITS,
        notes=notes_of(report),
        summary=report.design.summary,
        how=how_measured(report, export),
        command=export.command,
        works=works_of(report),
    )


def _leading(report: StudyReport) -> tuple[pd.DataFrame, str]:
    """The numbers of the measure that the study is about first, and a sentence on what is left out."""
    frame = finding_frame(report).rename(columns={"": "number"})
    metrics = [finding.metric for finding in report.results.findings]
    leading = frame[[metric == metrics[0] for metric in metrics]].head(_MOST_NUMBERS) if metrics else frame
    left_out = f"{len(leading):,} of {len(frame):,} numbers" if len(leading) < len(frame) else ""
    return leading, left_out


@cache
def _template() -> Template:
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.filters |= {"in_markdown": in_markdown, "fenced": fenced, "markdown": markdown_table}
    return made.from_string((Path(__file__).parent / "model_card.md.jinja").read_text(encoding="utf-8"))


MOST_PICTURES = 64
_MOST_GROUPS = 12  # with more, pictures stand in one group
_PIXELS = 256  # of a picture's copy
_MOST_CLAIMS_ON_PAGE = 6
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
            most_claims=_MOST_CLAIMS_ON_PAGE,
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


def to_dict(report: StudyReport) -> Row:
    """Everything as JSON values; nan becomes None."""
    study = known_study(report.design)
    values = {
        "warning": report.warning,
        "run_id": report.run_id,
        "study": report.design.name,
        "title": title_of(report),
        "headline": headline(report),
        "reference": report.design.reference,
        **_measured(report),
        "claims": claims(report),
        "unknown_words": list(report.unknown_words),
        "limits": LIMITS,
        "stop_rule": report.stop_rule,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        **(study.facts(report).values if study else {}),
    }
    if report.arms:
        values["arms"] = [{"name": arm.name, **_measured(arm)} for arm in report.arms]
    return dict(plain(values))


def _measured(of: Measured) -> Row:
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
    """The report as a person reads it: what was found, the figures, and the tables with their ends.

    ``beside`` says that figures and tables stand beside it as files, as in a zip or folder.
    """
    design, settings = report.design, report.settings
    size = f"; {size_in_words(design, settings)}" if design.reference else ""
    return _markdown_template().render(
        report=report,
        beside=beside,
        title=title_of(report),
        headline=headline(report),
        source=f" After {work(design.reference)}, {design.where}." if design.reference else "",
        how=f" of {drawn_by(report)}, read by {read_by(settings)}{size}",
        overview=arms_overview(report),
        findings=finding_frame(report),
        further=further_tables(report),
        folder_of=lambda arm: f"{arm_folder(report, arm)}/",
        notes=notes_of(report),
        claim=claim(report),
        limits=LIMITS,
    )


@cache
def _markdown_template() -> Template:
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.filters |= {"in_markdown": in_markdown, "excerpt": excerpt, "markdown": markdown_table}
    made.filters["findings"] = _findings_of_arm
    return made.from_string((Path(__file__).parent / "report.md.jinja").read_text(encoding="utf-8"))


def _findings_of_arm(arm: ArmReport) -> pd.DataFrame:
    return pd.DataFrame([finding_text(row) for row in finding_rows(arm)])


def _records(frame: pd.DataFrame) -> list[Row]:
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]
