"""Finished runs: listed, opened, and written as files."""

import json
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.settings import Settings
from bias_core.store.export import write_folder, write_zip
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.store.manifests import Manifest, ManifestStore, ReportStore, RunHead, Status
from bias_core.study.design import study_classes, with_known_options
from bias_core.study.documents import to_dict, to_html, to_markdown, to_model_card
from bias_core.study.evaluation_records import to_every_eval_ever
from bias_core.study.export import facts_of, to_export
from bias_core.study.limits import stop_rule
from bias_core.study.run import run_study
from bias_core.study.saved import (
    NO_LONGER,
    Newest,
    SavedReport,
    decode,
    gone_study,
    keep_report,
    open_report,
    open_report_of,
    pictures_of,
    report_store,
    with_note_on,
)
from bias_core.study.services import StudyServices
from bias_core.study.setting_fields import settings_of
from bias_core.study.types import Design, Progress, StudyReport, StudySettings, each_arm, settings_from_dict

_LONGEST = 60  # characters of an option in the list
GALLERY = "gallery-"  # begins the ids of runs of the gallery; those of other runs have letters and digits alone
_NOT_OURS = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors of reading values that this program did not write."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run as its visitor's list shows it."""

    run_id: str
    study: str  # name of the design, "explore" for Explore
    title: str
    choices: str  # what tells it from other runs of the same study: size, options, seed
    # model, condition: that drew, or "imported:..." for one's own pictures
    model: str
    condition: str
    # n_pictures, n_stored, n_bytes: asked for; still in the store; bytes of these
    n_pictures: int
    n_stored: int
    n_bytes: int
    status: Status
    is_kept: bool
    # created, updated: seconds since 1970
    created: float
    updated: float
    saved: bool  # whether its report can be opened without running anything
    may_go_on: bool  # whether it was cut off, or a stop rule of its settings may have ended it
    in_gallery: bool = False  # whether it is nobody's here: it can be looked at and compared, not changed


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """What is needed to undo a deletion."""

    manifest: Manifest
    report: str | None


def list_runs(services: StudyServices, session: str) -> list[RunLine]:
    """The visitor's runs, newest first."""
    reports = report_store(services)
    return [_line(run, services.images, reports) for run in services.manifests.list(_checked(session))]


_IN_GALLERY = Newest[tuple[int, RunLine]](1000)
"""The lines of runs of the gallery, by their file, each with when it was written."""


def list_gallery(services: StudyServices) -> tuple[list[RunLine], str]:
    """The runs of the gallery that have a report, newest first; and what of it cannot be read, in words."""
    try:
        folder = gallery_folder(services.settings)
    except StorageError as error:
        return [], str(error)
    if folder is None:
        return [], ""
    files = [path for path in (folder / "runs").glob("*.json") if (folder / "reports" / path.name).is_file()]
    lines = [line for path in files if (line := _gallery_line(folder, path)) is not None]
    problems = []
    if broken := len(files) - len(lines):
        problems.append(f"{broken:,} files in the gallery are no runs that this version can read.")
    if audits := len(list(folder.glob("*/about.json"))):
        problems.append(
            f"{audits:,} audits in the gallery were published by an earlier version and are left out: copy their runs "
            "there, as docs/settings.md says."
        )
    return sorted(lines, key=lambda line: -line.updated), " ".join(problems)


def open_gallery_run(services: StudyServices, run_id: str) -> SavedReport:
    """The report of a run of the gallery, under the id that the list has; nothing of it is run, or changed.

    Raises InvalidInput: there is none; StorageError: it cannot be read, or names a file outside of the gallery.
    """
    folder, name = gallery_folder(services.settings), run_id.removeprefix(GALLERY)
    try:
        saved = None if folder is None else open_report_of(folder, name)
        outside = saved and folder and not all(_is_inside(path, folder) for path in pictures_of(saved.report))
    except _NOT_OURS as error:
        raise StorageError(f"the gallery holds no report {quoted(name)} that this version can read: {error}") from error
    if saved is None:
        raise InvalidInput(f"the gallery has no run {quoted(name)}")
    if outside:
        raise StorageError(f"the run {quoted(name)} names a file outside of the gallery, so it is not opened")
    return replace(saved, report=replace(saved.report, run_id=f"{GALLERY}{name}"))


def gallery_folder(settings: Settings) -> Path | None:
    """The folder that ``BIAS_GALLERY`` names, None where it names none; StorageError where it cannot be read."""
    where = settings.gallery.strip()
    if not where:
        return None
    try:
        folder, own = Path(where).expanduser().resolve(), settings.data_dir.resolve()
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        raise StorageError(f"the gallery {quoted(Path(where).name)} is no folder that can be read (see BIAS_GALLERY)")
    if folder == own:
        raise StorageError("the gallery (BIAS_GALLERY) is this program's own data folder: name another folder of runs")
    return folder


def _gallery_line(folder: Path, path: Path) -> RunLine | None:
    """A run of the gallery as the list shows it; None where its file holds none."""
    try:
        written, (listed, line) = path.stat().st_mtime_ns, _IN_GALLERY.get(path) or (0, None)
        if line is None or listed != written:
            run = ManifestStore(path.parent).head(path.stem)
            if run is None or run.id != path.stem:
                return None
            line = _line(replace(run, complete=0.0), ImageStore(folder / "images"), ReportStore(folder / "reports"))
            if not all(isinstance(text, str) for text in (line.title, line.study, line.status)):
                return None
            time.gmtime(line.updated)  # raises if it is no time
            line = replace(line, run_id=f"{GALLERY}{line.run_id}", in_gallery=True)
            _IN_GALLERY.put(path, (written, line))
        return line
    except (OSError, OverflowError, *_NOT_OURS):
        return None


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def open_run(services: StudyServices, session: str, run_id: str) -> SavedReport:
    """The report of a run; InvalidInput where the visitor has no such run, StorageError where it has no report."""
    manifest = _mine(services, session, run_id)
    saved = open_report(run_id, services)
    if saved is None:
        raise StorageError(
            f"“{manifest.title}” has no saved report: it was not finished, or its report made room for newer "
            "ones. Press “Run again”: what was drawn is not drawn again"
        )
    return saved


def design_of(services: StudyServices, session: str, run_id: str) -> Design:
    """What a run of this visitor is a run of; InvalidInput where there is none, or no design is on record."""
    return _study_of(_mine(services, session, run_id))[0]


def keep_run(services: StudyServices, session: str, run_id: str, is_kept: bool) -> None:
    """Protect the run's pictures and report from making room for others, or no longer."""
    services.manifests.keep(_mine(services, session, run_id).id, is_kept)


def delete_run(services: StudyServices, session: str, run_id: str) -> Deleted:
    """Forget a run and its report; its pictures go when room is needed, for other runs may share them."""
    manifest, store = _mine(services, session, run_id), report_store(services)
    deleted = Deleted(manifest=manifest, report=store.find(run_id))
    services.manifests.delete(run_id)
    store.delete(run_id)
    return deleted


def restore_run(services: StudyServices, session: str, deleted: Deleted) -> None:
    """Undo :func:`delete_run`."""
    if deleted.manifest.session != _checked(session):
        raise InvalidInput("this run belongs to another visitor")
    services.manifests.restore(deleted.manifest)
    if deleted.report is not None:
        report_store(services).save(deleted.manifest.id, deleted.report)


def go_on(
    services: StudyServices, session: str, run_id: str, *, cancelled: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, StudyReport]:
    """Run it again from what is stored, under its new id alone; InvalidInput where run, study or pictures are gone.

    A run that is finished under a stop rule goes on without the rule, and its own report stays; so does that of a run
    with options that this version no longer has, of which the new report has a note.
    """
    manifest = _mine(services, session, run_id)
    design, settings = _study_of(manifest)
    if design.kind not in study_classes():
        raise InvalidInput(f"“{manifest.title}” cannot be run again. {NO_LONGER} {gone_study(design)}.")
    design, settings, gone = with_known_options(design, settings)
    if has_rule := manifest.status == "finished" and stop_rule(settings) is not None:
        settings = replace(settings, stop_within=None, stop_when_clear=False)
    for one in each_arm(settings):
        if one.images and not Path(one.images).exists():
            raise InvalidInput(
                f"the pictures {Path(one.images).name!r} of this run are no longer here: import them again"
            )
    report = yield from run_study(design, settings, services, cancelled=cancelled, session=session)
    if gone:
        report = with_note_on(report, gone)
        keep_report(report, services)
    elif report.run_id != manifest.id and not has_rule:
        if manifest.is_kept:
            services.manifests.keep(report.run_id)
        delete_run(services, session, manifest.id)
    return report


def _study_of(manifest: Manifest) -> tuple[Design, StudySettings]:
    design = decode(manifest.design, Path())
    if not isinstance(design, Design):
        raise InvalidInput(f"the run {manifest.id} was made by an older version, which did not keep its design")
    declared = settings_of(StudySettings)
    return design, settings_from_dict({k: v for k, v in manifest.settings.items() if k in declared})


def _mine(services: StudyServices, session: str, run_id: str) -> Manifest:
    manifest = services.manifests.find(run_id)
    if manifest is None or manifest.session != _checked(session):
        raise InvalidInput(f"there is no run {run_id!r} of yours")
    return manifest


def _checked(session: str) -> str:
    # The command line has the session ""; nobody may list its runs over the web by saying nothing.
    if not session:
        raise InvalidInput("a visitor without a key has no runs")
    return session


def _choices(manifest: RunHead) -> str:
    """What a visitor chose, as far as it was not the study's own."""
    settings, design = manifest.settings, manifest.design
    study = study_classes().get(design.get("kind", ""))
    declared = {} if study is None else settings_of(study.options)
    usual = {name: one.default for name, one in declared.items()} | design.get("options", {})
    parts = [f"{100 * settings['scale']:g} %"] if "scale" in settings and design.get("reference") else []
    for name, value in settings.get("options", {}).items():
        if _as_list(value) != _as_list(usual.get(name)):
            items = value if isinstance(value, (list, tuple)) else [value]
            text = ", ".join(str(item).partition("|")[0] for item in items)
            label = declared[name].label if name in declared else name
            parts.append(f"{label}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}")
    if settings.get("images"):
        parts.append(f"pictures of {Path(settings['images']).name}")
    return " · ".join([*parts, f"seed {settings.get('seed', 0)}"])


def _as_list(value: Any) -> Any:
    """A value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def _has_rule(manifest: RunHead) -> bool:
    return manifest.settings.get("stop_within") is not None or bool(manifest.settings.get("stop_when_clear"))


def _line(run: RunHead, images: ImageStore, reports: ReportStore) -> RunLine:
    n_stored, n_bytes = len(run.image_ids), run.n_bytes
    if run.complete <= images.last_removal:
        sizes = images.sizes(run.image_ids)
        n_stored, n_bytes = len(sizes), sum(sizes)
    return RunLine(
        run_id=run.id,
        choices=_choices(run),
        model=" and ".join(filter(None, run.models)) or str(run.settings.get("model", "")),
        condition=" and ".join(filter(None, run.conditions)),
        n_pictures=len(run.image_ids),
        n_stored=n_stored,
        n_bytes=n_bytes,
        saved=run.id in reports,
        may_go_on=run.status != "finished" or _has_rule(run),
        **{name: getattr(run, name) for name in ("study", "title", "status", "is_kept", "created", "updated")},
    )


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of a report."""

    title: str  # on its button
    purpose: str  # what it is good for, in a sentence
    ending: str  # of the file's name
    write: Callable[[StudyReport], bytes]
    is_text: bool = True  # UTF-8


FORMS: Mapping[str, Form] = {
    "html": Form(
        title="Report to read",
        purpose="One page with pictures, figures, numbers, limits and sources; opens anywhere without a network.",
        ending=".html",
        write=lambda report: to_html(report, facts_of(report)).encode(),
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
        write=lambda report: to_model_card(report, facts_of(report)).encode(),
    ),
    "json": Form(
        title="All numbers (JSON)",
        purpose="For programs.",
        ending=".json",
        write=lambda report: json.dumps(to_dict(report), indent=2, ensure_ascii=False).encode(),
    ),
    "every_eval_ever": Form(
        title="Records for Every Eval Ever (zip)",
        purpose="A JSON record for each model and arm, in the shared schema for results of evaluations.",
        ending="-every-eval-ever.zip",
        write=lambda report: to_every_eval_ever(report, facts_of(report)),
        is_text=False,
    ),
}
"""The forms of a report that are one file, by the names that the command line and the page call them."""


def to_form(report: StudyReport, name: str) -> bytes:
    """The report in one of the forms; InvalidInput lists them where there is no such."""
    if name not in FORMS:
        raise InvalidInput(f"a report is no {quoted(name)}; it can be {', '.join(FORMS)} or zip")
    return FORMS[name].write(report)


def check_place(place: Path) -> None:
    """Raise InvalidInput where the name ends as a file of another kind; a folder may be called so if it exists."""
    endings = [*(form.ending for form in FORMS.values()), ".zip"]
    if place.name.lower().endswith(tuple(endings)) or place.is_dir():
        return
    if re.fullmatch(r"\.[A-Za-z]{2,5}", place.suffix):
        raise InvalidInput(
            f"a report is not written as {place.suffix}; a file ends in {', '.join(endings)}, and a folder in none"
        )


def write_report(report: StudyReport, place: Path, *, pictures: bool = False) -> Path:
    """Write one file of :data:`FORMS`, a .zip, or a folder of all files, as the ending of ``place`` says.

    Raises InvalidInput: it is another ending.
    """
    check_place(place)
    fitting = [name for name, form in FORMS.items() if place.name.lower().endswith(form.ending)]
    if fitting:  # the longest says most
        write_atomically(place, to_form(report, max(fitting, key=lambda name: len(FORMS[name].ending))))
        return place
    write = write_zip if place.suffix.lower() == ".zip" else write_folder
    return write(to_export(report, pictures=pictures), place)
