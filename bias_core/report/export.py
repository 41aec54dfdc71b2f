"""Writes a report as one file (:data:`FORMS`), or as a folder or zip with figures, tables and a dataset card.

Every Eval Ever (schema 0.3) gets one record per arm, since a record is about one model: each number with its interval,
its n and the known errors of the classifier. There is no composite score.
"""

import hashlib
import io
import json
import math
import re
import time
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

import pandas as pd
import yaml

from bias_core import __version__
from bias_core.errors import InvalidInput, UnknownModel, quoted
from bias_core.installed import ASSETS
from bias_core.measures.cards import METRICS, Card, with_works, work
from bias_core.models.catalogue import hosted_name, is_hub_id, load_catalogue, split_revision
from bias_core.prompts import WORD_SLOT
from bias_core.report.blocked_pictures import describe_count
from bias_core.report.claims import SAME_TEST, UNSUITED, WHY_NOT
from bias_core.report.commands import is_shipped, to_command
from bias_core.report.documents import describe_measurement, to_dict, to_html, to_markdown, to_model_card
from bias_core.report.figures import draw, to_bytes
from bias_core.report.headlines import headline
from bias_core.report.picture_facts import get_drawing_facts
from bias_core.report.report_text import (
    CORRECTED,
    LIMITS,
    Row,
    arm_folder,
    circumstances,
    find_revision,
    finding_rows,
    format_day,
    get_title,
    is_corrected_by_people,
    is_known,
    null_sentence,
    plain,
    replaced_by_people,
    size_in_words,
)
from bias_core.report.saved import from_text, to_text
from bias_core.store.export import (
    DatasetFacts,
    Export,
    ExportedImage,
    card_head,
    csv_bytes,
    escape_markdown,
    without_splits,
    write_folder,
    write_zip,
)
from bias_core.store.files import write_atomically
from bias_core.store.images import get_source_type
from bias_core.store.published_runs import (
    CLAIMS,
    PublishedClaim,
    PublishedPart,
    PublishedRun,
    parse_claims,
    source_bytes,
    to_json,
)
from bias_core.study.attributes import get_attribute
from bias_core.study.design import CHECKLIST, DIFFERS, format_summary, known_study, study_classes
from bias_core.study.types import Design, Finding, Measured, StudyFigure, StudyReport, StudySettings, named_parts
from bias_core.types import IMPORTED, ModelInfo
from bias_core.values import option_values
from bias_core.wording import format_interval, format_list, format_p

_IN_ROW = ["image_id", "prompt", "seed"]  # part of an ImageRow
_SPDX = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
FIGURE_FORMS = ("svg", "png")


def to_export(report: StudyReport, *, pictures: bool = False) -> Export:
    """Return the files of a report for ``write_zip`` and ``write_folder``, with ``pictures`` also the originals."""
    parts: dict[str, Measured] = {"": report} | {f"{arm_folder(report, arm)}/": arm for arm in report.arms}
    files: dict[str, bytes | Callable[[], bytes]] = dict(_own_design(report.design))
    for folder, part in parts.items():
        for figure in part.results.figures:
            files |= _figure_files(f"{folder}figures/{figure.key}", figure)
    facts = build_dataset_facts(report, pictures=pictures)
    files["report.html"] = lambda: to_html(report, facts).encode()
    files["model-card.md"] = lambda: to_model_card(report, facts).encode()
    if has_numbers(report):
        # The hub takes a file name with "eval" in it for a test split.
        files["records.zip"] = lambda: to_every_eval_ever(report, facts)
    tables = {f"{folder}findings": pd.DataFrame(finding_rows(part)) for folder, part in parts.items()}
    tables |= {
        f"{folder}tables/{table.key}": table.frame for folder, part in parts.items() for table in part.results.tables
    }
    return Export(
        images=_list_exported_images(report) if pictures else [],
        tables=tables,
        report=to_dict(report),
        markdown=to_markdown(report),
        files=files,
        facts=facts,
    )


def _figure_files(name: str, figure: StudyFigure) -> dict[str, bytes | Callable[[], bytes]]:
    made: dict[str, bytes] = {}

    def render_form(form: str) -> bytes:
        if form not in made:
            drawn = draw(figure)
            for figure_form in FIGURE_FORMS:
                made[figure_form] = to_bytes(figure, figure_form, drawn=drawn)
                drawn.set_layout_engine("none")  # keep the layout for the next form
        return made.pop(form)  # not kept once written

    files = {f"{name}.{form}": partial(render_form, form) for form in FIGURE_FORMS}
    return {**files, f"{name}.txt": f"{figure.title}. {figure.caption}\n".encode()}


def build_dataset_facts(report: StudyReport, *, pictures: bool = False) -> DatasetFacts:
    """Return the facts of the dataset card; ``pictures``: True if the export contains them."""
    design, settings, frame = report.design, report.settings, report.pictures
    held = frame.drop_duplicates("image_id") if pictures and frame is not None else None
    return DatasetFacts(
        key=f"{design.name}-{report.run_id}",
        title=get_title(report),
        summary=(
            f"{f'{report.warning} ' if report.warning else ''}{format_summary(design, settings)} "
            f"{report.n_images:,} of {report.n_planned:,} planned pictures were scored, "
            f"{describe_count(report.n_blocked)}; {size_in_words(design, settings)}. {headline(report)}"
        ),
        reference=f"{work(design.reference)}, {design.where}" if design.reference else "",
        annotation=_annotation(report),
        readers=[report.versions.get("encoder", settings.encoder), *filter(None, [report.versions.get("judge")])],
        notes=report.results.notes,
        n_pictures=0 if held is None else len(held),
        n_prompts=0 if held is None else held["prompt"].nunique(),
        limits=LIMITS,
        command=to_command(design, settings),
        versions=report.versions,
        **_describe_model(settings.model, settings.condition, report.versions.get("model_revision", "")),
    )


def _annotation(report: StudyReport) -> str:
    settings, people = report.settings, ""
    if is_corrected_by_people(report):
        people = " People’s answers correct its numbers; the corrected ones are in a table of their own."
    elif replaced_by_people(settings):
        people = " Where people answered, their answers are used instead."
    criterion = "it is closer to the sentence that states it than to the one that denies it"
    if settings.judge:
        criterion = f"the judge {settings.judge} answers yes; pictures that it cannot tell have no label"
    return (
        f"Labelled by {settings.encoder}, without people. Unless the study says otherwise, a picture shows an "
        f"attribute if {criterion}. Intervals are {settings.confidence:.0%} intervals.{people}"
    )


def _describe_model(model: str, condition: str, revision: str) -> dict[str, str]:
    """Return model and licence as fields of the facts."""
    if model.startswith(IMPORTED):
        return {"model": "", "licence_note": "The pictures were imported; their licence is unknown."}
    info = _catalogue_entry(model)
    named = f"{info.name} ({model})" if info and info.name != model else model
    parts = [named, f"condition “{condition}”" if condition else "", f"revision {revision}" if revision else ""]
    facts = {"model": ", ".join(filter(None, parts))}
    if info is not None and info.embedded:
        spdx = _SPDX.get(info.licence, "")
        return facts | {"licence": spdx, "licence_note": f"Drawn by a model that comes with the program: {spdx}."}
    terms = f"is under {info.licence}" if info and info.licence else "has its own licence"
    note = f"The model {terms}; its terms for generated pictures hold for these."
    return facts | {"licence_note": note}


def _catalogue_entry(model: str) -> ModelInfo | None:
    with suppress(UnknownModel):
        return load_catalogue(ASSETS / "models.yaml").model(model)
    return None


def _own_design(design: Design) -> dict[str, bytes]:
    """Return the YAML of a design that the program does not ship; the command line names this file."""
    if is_shipped(design) or design.kind not in study_classes():  # a comparison is no design
        return {}
    return {f"{design.name}.yaml": yaml.safe_dump(asdict(design), sort_keys=False, allow_unicode=True).encode()}


def _list_exported_images(report: StudyReport) -> list[ExportedImage]:
    if report.pictures is None or report.pictures.empty:
        return []
    pictures = report.pictures.drop_duplicates("image_id")
    return [
        ExportedImage(
            path=report.stored[i].path,
            row=report.stored[i].row,
            source=get_source_type(report.stored[i]),
            metadata=plain(
                {name.replace(" ", "_"): t for name, t in get_drawing_facts(report.stored[i]).items()} | facts
            ),
        )
        for i, facts in zip(pictures["image_id"], pictures.drop(columns=_IN_ROW).to_dict("records"), strict=True)
    ]


def numbers_table(report: StudyReport) -> pd.DataFrame:
    """Return all numbers of a report and its arms as one table; those that people's labels correct are last."""
    parts: list[tuple[str, Measured]] = [("", report), *((arm.name, arm) for arm in report.arms)]
    rows = [{"arm": name, **row} for name, part in parts for row in finding_rows(part)]
    frame = pd.DataFrame([*rows, *_corrected_rows(report)])
    return frame if report.arms else frame.drop(columns="arm", errors="ignore")


def _corrected_rows(report: StudyReport) -> list[Row]:
    return [
        {"finding": f"{row['number']}, corrected by people’s labels"}
        | {name: row[of] for name, of in _CORRECTED_AS.items()}
        for row in report.results.frame(CORRECTED).to_dict("records")
    ]


_CORRECTED_AS = {
    "measure": "measure", "value": "corrected", "low": "corrected low", "high": "corrected high", "n": "n",
    "p_value": "p", "p_adjusted": "p adjusted", "clear": "clear", "why_not_clear": WHY_NOT,
    "null_value": "without bias", "restates": SAME_TEST, "note": "note",
}  # fmt: skip
"""Columns of the table of all numbers, and of the table of corrected numbers."""


OF_CALIBRATION = "Its pictures are drawings of the calibration world, which tests measures: no real model drew them."
_LOCAL = re.compile(r"(?:^|(?<=\+))((?:~|/|\.\.?[\\/]|[A-Za-z]:[\\/])[^+]*?)(?=:[\d.]+(?:\+|$)|\+|$)")
_LONGEST_NAME = 60


def build_published_run(report: StudyReport) -> PublishedRun:
    """Return what a run publishes: each number with its interval, n and verdict, and how it was measured."""
    arms = tuple(_publish_part(report, arm.name, arm) for arm in report.arms)
    whole = _publish_part(report, "", report)
    if arms:  # no picture was drawn with the settings of the report itself
        whole = replace(whole, model=format_list(list(dict.fromkeys(arm.model for arm in arms))))
    return PublishedRun(
        study=report.design.name,
        title=get_title(report),
        reference=report.design.reference,
        run=report.run_id,
        day=format_day(report),
        headline=headline(report),
        caution=OF_CALIBRATION * any(part.world for part in (whole, *arms)),
        limits=LIMITS,
        measurement=_keep_known(
            **describe_measurement(report, build_dataset_facts(report)), **_describe_attributes(report)
        ),
        versions=_keep_known(**report.versions),
        parts=(whole, *arms),
    )


def _describe_attributes(report: StudyReport) -> dict[str, str]:
    """Return the sentences that decide if a picture shows an attribute, by the words for it."""
    study, sentences = known_study(report.design), defaultdict[str, dict[str, None]](dict)
    for attribute in chain.from_iterable(study.attributes(report.settings).values() if study else ()):
        sentences[f"“{attribute.name}”"][f"“{attribute.positive}”, not “{attribute.negative}”"] = None
    return {name: "; ".join(texts) for name, texts in sentences.items()}


def _publish_part(report: StudyReport, arm: str, part: Measured) -> PublishedPart:
    settings, info = part.settings, _catalogue_entry(part.settings.model)
    rows = _corrected_rows(report) if part is report else []
    claims = [_publish_number(row, key=f"corrected {row['finding']}") for row in rows]
    for finding, row in zip(part.results.findings, finding_rows(part), strict=True):
        correction = finding.claim.correction if finding.claim and row["clear"] else ""
        attribute = get_attribute(finding.key) if arm or not report.arms else ""
        claims.append(_publish_number(row, key=finding.key, attribute=attribute, correction=correction))
    return PublishedPart(
        arm=arm,
        concept=get_concept(settings),
        model=model_record(settings)["id"],
        revision=find_revision(report, part),
        world="calibration" if info is not None and info.embedded else "",
        classifier=circumstances(report, part).reader,
        n_planned=part.n_planned,
        n_images=part.n_images,
        n_blocked=part.n_blocked,
        protocol=protocol_in_words(report, arm),
        settings=_keep_known(**{name: getattr(settings, name) for name in _DRAWN_WITH}),
        claims=tuple(claims),
    )


def _publish_number(row: Row, **facts: str) -> PublishedClaim:
    values: Row = {f.name: row[f.name] for f in fields(PublishedClaim) if f.name in row}
    optional = ("p_value", "p_adjusted", "null_value", "published")
    values |= {name: None for name in optional if not is_known(values.get(name))}
    return PublishedClaim(**values | facts | {"number": row["finding"]})


def get_concept(settings: StudySettings) -> str:
    """Return the concept that a run or arm draws; "" if its study has none."""
    concept = str(option_values(settings.options).get("concept", ""))
    swap = WORD_SLOT.fullmatch(settings.arms[0].template or "") if len(settings.arms) == 1 else None
    return swap[2] if swap and swap[1] == concept else concept


NOT_CHECKED = "protocol not checked"


def protocol_in_words(report: StudyReport, arm: str = "") -> str:
    """Return if a run, or one of its arms, meets its paper's protocol, or in which items it differs."""
    frame = report.results.frame(CHECKLIST)
    if frame.empty:
        return NOT_CHECKED
    if arm and "arm" in frame:
        frame = frame[frame["arm"] == arm]
    names = [str(item) for item in frame[frame["status"] == DIFFERS]["item"]]
    if not names:
        return "paper’s protocol met"
    return f"differs in {format_list(names)}"


def _to_published_files(report: StudyReport) -> dict[str, bytes]:
    """Return claims and card of a run, in a folder of its own, by file name; InvalidInput as :func:`publish`."""
    run = build_published_run(report := _without_folders(report))
    is_empty = not any(is_known(claim.value) for part in run.parts for claim in part.claims)
    if report.warning or is_empty:
        blocked = f" ({describe_count(report.n_blocked)})" if report.n_blocked else ""
        reason = UNSUITED if report.warning else f"none of its numbers is known{blocked}"
        raise InvalidInput(f"the run {report.run_id} has nothing to publish: {reason}")
    try:
        parse_claims("", source_bytes(io.BytesIO(data := to_json(run))))
    except InvalidInput as error:
        raise InvalidInput(f"the run {report.run_id} cannot be published: in {CLAIMS}, {error}") from error
    facts = build_dataset_facts(report)
    head = card_head(facts, viewer=False)  # the Hub would look for a table
    caution = f"> **{run.caution}**\n\n" if run.caution else ""
    card = f"---\n{head}---\n\n# {escape_markdown(facts.title)}\n\n{caution}{to_model_card(report, facts)}"
    folder = _name_published(run)
    return {f"{folder}/{CLAIMS}": data, f"{folder}/README.md": card.encode()}


def _name_published(run: PublishedRun) -> str:
    """Return a name that every file system and the Hub take: study, model, day and run."""
    models = list(dict.fromkeys(part.model.rpartition("/")[2] for part in run.compared_parts))
    model = models[0][:_LONGEST_NAME] if len(models) == 1 else f"{len(models)}-models"
    return without_splits(_safe("_".join(filter(None, (run.study[:_LONGEST_NAME], model, run.day, run.run)))))


def _without_folders(report: StudyReport) -> StudyReport:
    """Return the report with the names of local models and files in place of their paths."""
    settings = [part.settings for part in (report, *report.arms)]
    arms = [arm for part in settings for arm in part.arms]
    files = [text for part in settings for text in (part.images, part.labels)] + [arm.images for arm in arms]
    texts = [*(part.model for part in settings), *(arm.model for arm in arms)]
    texts += [text for part in settings for text in (part.encoder, part.judge, *part.further_encoders)]
    paths = {*filter(None, files), *(path for text in filter(None, texts) for path in _LOCAL.findall(text))}
    paths = {path.rstrip("/\\") for path in paths}
    longest_first = sorted((path for path in paths if PureWindowsPath(path).name not in ("", path)), key=len)[::-1]
    if not longest_first:
        return report
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def shorten(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda path: PureWindowsPath(path[0]).name, value)
        if isinstance(value, dict):
            return {shorten(name): shorten(entry) for name, entry in value.items()}
        return [shorten(entry) for entry in value] if isinstance(value, list) else value

    values = shorten(json.loads(to_text(report, Path("/"), created=report.created)))
    return from_text(json.dumps(values), Path("/")).report


def publish(report: StudyReport, place: Path) -> Path:
    """Write claims and card of a run into a new folder in ``place``; return that folder.

    Raises InvalidInput if the folder exists, or the run has no number that its classifier is made for.
    """
    files = _to_published_files(report)
    folder = place / next(iter(files)).partition("/")[0]
    if folder.exists():
        raise InvalidInput(f"{folder} exists already: delete it, or write the run somewhere else (--to)")
    for name, content in files.items():
        write_atomically(place / name, content)
    return folder


def _zip_files(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # the same bytes every day
    return target.getvalue()


@dataclass(frozen=True, kw_only=True)
class Form:
    title: str  # on its button
    purpose: str  # its use, in a sentence
    ending: str  # of the file's name
    write: Callable[[StudyReport], bytes]
    is_text: bool = True  # UTF-8


FORMS: Mapping[str, Form] = {
    "html": Form(
        title="Report to read",
        purpose="One page with pictures, figures, numbers, limits and sources; opens offline in any browser.",
        ending=".html",
        write=lambda report: to_html(report, build_dataset_facts(report)).encode(),
    ),
    "csv": Form(
        title="Table (CSV)",
        purpose="A row for each number, with its interval, n and p; opens in a spreadsheet.",
        ending=".csv",
        write=lambda report: csv_bytes(numbers_table(report)),
    ),
    "md": Form(
        title="Report as text (Markdown)",
        purpose="For a wiki, a notebook or an issue.",
        ending=".md",
        write=lambda report: to_markdown(report, beside=False).encode(),
    ),
    "card": Form(
        title="Section for a model card",
        purpose="Markdown for the card of the model on a hub.",
        ending="-model-card.md",
        write=lambda report: to_model_card(report, build_dataset_facts(report)).encode(),
    ),
    "json": Form(
        title="All numbers (JSON)",
        purpose="For programs.",
        ending=".json",
        write=lambda report: json.dumps(to_dict(report), indent=2, ensure_ascii=False).encode(),
    ),
    "every_eval_ever": Form(
        title="Records for Every Eval Ever (zip)",
        purpose="A JSON record for each model and arm, in Every Eval Ever's shared format for results of evaluations.",
        ending="-every-eval-ever.zip",
        write=lambda report: to_every_eval_ever(report, build_dataset_facts(report)),
        is_text=False,
    ),
    "publish": Form(
        title="Publish: claims and card (zip)",
        purpose="A folder that stands next to other people’s runs: claims with n and intervals, settings, versions, "
        "and a card; no pictures.",
        ending="-published.zip",
        write=lambda report: _zip_files(_to_published_files(report)),
        is_text=False,
    ),
}
"""The forms of a report that are one file, by their names on the command line and the page."""


def to_form(report: StudyReport, name: str) -> bytes:
    """Return the report in one of the forms; InvalidInput lists them for an unknown name."""
    if name not in FORMS:
        raise InvalidInput(f"a report has no form {quoted(name)}; choose {', '.join(FORMS)} or zip")
    return FORMS[name].write(report)


def check_place(place: Path) -> None:
    """Raise InvalidInput for a name with another file ending, unless it is an existing folder."""
    endings = [*(form.ending for form in FORMS.values()), ".zip"]
    if place.name.lower().endswith(tuple(endings)) or place.is_dir():
        return
    if re.fullmatch(r"\.[A-Za-z]{2,5}", place.suffix):
        raise InvalidInput(
            f"a report cannot be written as {place.suffix}; use a file that ends in {', '.join(endings)}, or a folder"
        )


def write_report(report: StudyReport, place: Path, *, pictures: bool = False) -> Path:
    """Write one file of :data:`FORMS`, a .zip, or a folder of all files, by the ending of ``place``.

    Raises InvalidInput for another ending.
    """
    check_place(place)
    fitting = [name for name, form in FORMS.items() if place.name.lower().endswith(form.ending)]
    if fitting:  # the longest ending is the most specific
        write_atomically(place, to_form(report, max(fitting, key=lambda name: len(FORMS[name].ending))))
        return place
    write = write_zip if place.suffix.lower() == ".zip" else write_folder
    return write(to_export(report, pictures=pictures), place)


SCHEMA = "0.3.0"
"""Version of the schema of ``every_eval_ever``."""
COLLECTION = "t2i-bias-explorer"
_FORBIDDEN = re.compile(r"[^\w.+-]+")  # characters that folder names of their data store cannot have
_CORRECTED = "corrected"
_DRAWN_WITH = (
    "seed", "num_inference_steps", "guidance_scale", "negative_prompt", "size", "sampler", "rewrite", "scale",
    "confidence", "encoder", "judge",
)  # fmt: skip


def to_every_eval_ever(report: StudyReport, facts: DatasetFacts) -> bytes:
    """Return a zip with one record per arm, under the file names that ``every_eval_ever`` checks for.

    A path is ``data/<collection>/<developer>/<model>/<uuid>.json``. Undefined numbers, arms without numbers and
    differences between arms (which have no single model) are left out.

    Raises InvalidInput if the report has no number.
    """
    if not has_numbers(report):
        raise InvalidInput("this report has no known number, so there is nothing to record")
    by_people = replaced_by_people(report.settings) and not is_corrected_by_people(report)
    files, collection = dict[str, bytes](), f"{COLLECTION}_{_FORBIDDEN.sub('_', report.design.name)}"
    for number, (arm, part) in enumerate(named_parts(report)):
        if results := [_result(*number, part, collection, facts, arm, by_people) for number in _list_numbers(part)]:
            record = _record(report, part, facts, arm) | {"evaluation_results": results}
            key = hashlib.sha256(f"{report.run_id}/{report.created}/{number}".encode()).digest()
            name = f"data/{collection}/{record['model_info']['id']}/{uuid.UUID(bytes=key[:16], version=4)}.json"
            files[name] = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False).encode()
    return _zip_files(files)


def has_numbers(report: StudyReport) -> bool:
    """Return True if the report or one of its arms has a known number."""
    return any(_list_numbers(part) for _, part in named_parts(report))


def _list_numbers(part: Measured) -> list[tuple[Finding, Row]]:
    rows = zip(part.results.findings, finding_rows(part), strict=True)
    return [(finding, row) for finding, row in rows if is_known(row["value"])]


def _record(report: StudyReport, part: Measured, facts: DatasetFacts, arm: str) -> Row:
    model = model_record(part.settings, find_revision(report, part))
    day, ours = str(int(report.created or time.time())), report.versions.get("bias_core") or __version__
    named = f"{COLLECTION}/{report.design.name}/{model['id'].replace('/', '_')}/{report.run_id}"
    return {
        "schema_version": SCHEMA,
        "evaluation_id": "/".join(filter(None, (named, arm, day))),
        "evaluation_timestamp": day,
        "retrieved_timestamp": day,
        "source_metadata": {
            "source_name": "T2I Bias Explorer",
            "source_type": "evaluation_run",
            "source_organization_name": "the person who ran the explorer",
            "evaluator_relationship": "other",
            "additional_details": _keep_known(
                study=get_title(report), summary=format_summary(report.design, report.settings),
                reference=facts.reference, run=report.run_id, arm=arm,
                limits=LIMITS, warning=part.warning or report.warning, stop_rule=report.stop_rule,
                notes=" ".join(part.results.notes),
                differences_between_arms="in the report of the run" if arm else "",
            ),
        },
        "eval_library": {
            "name": "t2i-bias-explorer", "version": ours, "additional_details": _keep_known(**report.versions),
        },
        "model_info": model,
    }  # fmt: skip


def model_record(settings: StudySettings, revision: str = "") -> Row:
    """Return the record of the model: its id as "organisation/name", its host, and if its weights are public."""
    name, info = settings.model, _catalogue_entry(settings.model)
    hosted = None if name.startswith(IMPORTED) else hosted_name(name)
    origin, platform = "unknown", {}
    if name.startswith(IMPORTED):
        identity, where = f"imported/{name.removeprefix(IMPORTED)}", ("unknown", "unknown")
        origin = "Imported pictures; the model that drew them is unknown."
    elif hosted:
        identity = hosted.path if "/" in hosted.path else f"{hosted.service}-compatible/{hosted.path}"
        where, platform = ("externally_managed", "unknown"), {"inference_platform": hosted.provider or hosted.service}
    else:
        identity, origin = _own_identity(name, info, settings.condition)
        where = "self_deployed", "open_weights" if info and origin != "local" else "unknown"
    developer, _, title = identity.partition("/")
    details = {"condition": settings.condition, "revision": revision, "note": origin if " " in origin else ""}
    if origin != "local":  # a path describes a machine, not a model
        details["asked_for"] = name
    return {
        "name": info.name if info and origin != "local" else title,
        "id": f"{_safe(developer)}/{_safe(title)}",
        "developer": _safe(developer),
        **platform,
        "additional_details": {"deployment_type": where[0], "model_availability": where[1]} | _keep_known(**details),
    }


def _own_identity(name: str, info: ModelInfo | None, condition: str) -> tuple[str, str]:
    """Return organisation and name of a model that this machine ran, and "local" if only this machine has it."""
    if info is not None and info.embedded:
        return f"{COLLECTION}/{'-'.join(filter(None, (info.id, condition)))}", ""
    base, _, lora = name.partition("+")
    path = split_revision(str(info.options.get("path", base)) if info else base)[0]
    if not is_hub_id(path) or PurePath(lora.rpartition(":")[0] or lora).is_absolute():
        return f"local/{'+'.join(PurePath(part).name for part in filter(None, (path, lora)))}", "local"
    return "+".join(filter(None, (path, lora))), ""


def _safe(name: str) -> str:
    return _FORBIDDEN.sub("_", name).strip("._ ") or "unnamed"


def _result(
    finding: Finding, row: Row, part: Measured, collection: str, facts: DatasetFacts, arm: str, by_people: bool
) -> Row:
    settings = part.settings
    command = {"generation_args": {"execution_command": facts.command}} if facts.command else {}
    return {
        "evaluation_result_id": "/".join(filter(None, (arm, finding.key))),
        "evaluation_name": finding.title,
        "source_data": {
            "dataset_name": collection,
            "source_type": "other",
            "additional_details": _keep_known(
                pictures_planned=part.n_planned, pictures_scored=part.n_images, pictures_blocked=part.n_blocked
            ),
        },
        "metric_config": _metric(METRICS[finding.metric], row, part),
        "score_details": {
            "score": row["value"],
            "details": _keep_known(
                says=row["says"],
                interval=format_interval(row["low"], row["high"], value=row["value"], n=row["n"]),
                interval_method=row["method"],
                n=row["n"],
                p_value="" if row["p_value"] is None else format_p(row["p_value"]),
                p_value_adjusted="" if row["p_adjusted"] is None else format_p(row["p_adjusted"]),
                tests_in_family=row["n_tests"] or "",
                clearly_differs_from_null=row["clear"],
                why_not_clear=row["why_not_clear"],
                published=row["published"],
                really_drawn=row["drawn"],
                note=row["note"],
                reader_errors=_reader_errors(finding, part, by_people=by_people),
                read_by=", ".join(facts.readers),
            ),
            **_uncertainty(row, settings.confidence),
        },
        "generation_config": {
            **command,
            "additional_details": _keep_known(**{name: getattr(settings, name) for name in _DRAWN_WITH}),
        },
    }


def _metric(card: Card, row: Row, of: Measured) -> Row:
    (low, high), null = card.bounds, row["null_value"]
    if any(not low <= row[end] <= high for end in ("value", "low", "high") if math.isfinite(row[end])):
        low, high = low - high, high - low  # a difference between two values of the measure
    return {
        "evaluation_description": card.summary,
        "metric_id": f"{COLLECTION}.{card.key}",
        "metric_name": card.name,
        "metric_kind": card.key,
        "metric_parameters": {"null_value": null},
        "lower_is_better": card.null_value is not None and card.null_value == card.bounds[0],
        "score_type": "continuous",
        "min_score": low if math.isfinite(low) else "-Infinity",
        "max_score": high if math.isfinite(high) else "Infinity",
        "additional_details": _keep_known(
            how_to_read="" if null is None else null_sentence(f"{null:g}", of),
            higher_means=card.higher_means,
            limits=card.limits,
            source=with_works(card.source),
        ),
    }


def _uncertainty(row: Row, confidence: float) -> Row:
    """Return the interval if both ends are known, and n; {} if neither is known."""
    parts: Row = {"num_samples": int(row["n"])} if row["n"] else {}
    if is_known(row["low"]) and is_known(row["high"]):
        method = {"method": row["method"]} if row["method"] else {}
        interval = {"lower": row["low"], "upper": row["high"], "confidence_level": confidence, **method}
        parts["confidence_interval"] = interval
    return {"uncertainty": plain(parts)} if parts else {}


def _reader_errors(finding: Finding, part: Measured, *, by_people: bool) -> str:
    if by_people:
        return "People's answers are used; the interval does not include their disagreement."
    estimate, siblings = finding.estimate, {found.key for found in part.results.findings}
    if finding.key.endswith(_CORRECTED) or _CORRECTED in f"{estimate.note} {estimate.method}":
        return "Corrected for the classifier's measured error rates."
    if f"{finding.key.rpartition('-')[0]}-{_CORRECTED}" in siblings:
        return "The classifier's error rates are known; a separate number has the corrected share."
    return "The classifier's error rates here are unknown; a share can be wrong by more than its interval."


def _keep_known(**values: Any) -> dict[str, str]:
    """Return the known values as texts, the only type that details of a record allow."""
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
        if value not in ("", None) and not (isinstance(value, float) and math.isnan(value))
    }
