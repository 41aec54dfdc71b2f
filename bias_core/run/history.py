"""A visitor's runs, shared ones and those of the gallery: listed, described, opened, deleted, continued."""

import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from bias_core.errors import BiasCoreError, InvalidInput, StorageError, quoted
from bias_core.report.saved import (
    EXAMPLE,
    NO_LONGER,
    Newest,
    SavedReport,
    decode,
    gone_study,
    keep_report,
    list_picture_files,
    open_report,
    open_report_in_folder,
    report_store,
    with_note_on,
)
from bias_core.run.run import run_study
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.store.manifests import Manifest, ManifestStore, ReportStore, RunHead, Status
from bias_core.study.classifiers import READER_SETTINGS
from bias_core.study.design import study_classes, with_known_options
from bias_core.study.types import NOBODY, Design, Progress, StudyReport, StudySettings, each_arm, settings_from_dict
from bias_core.study_services import StudyServices
from bias_core.values import Setting, check_texts, declared_settings
from bias_core.wording import format_percent, shorten

_LONGEST = 60  # characters of an option in the list
MOST_NAME, MOST_NOTE = 120, 2_000  # characters of the visitor's own words about a run
_N_SHOWN, _N_TRIED = 4, 16  # pictures of a run in the list, and those looked for where some are gone
# prefixes of the ids of gallery runs and of runs that others share; other ids have only letters and digits
GALLERY, SHARED = "gallery-", "shared-"
NOT_SHARED = (
    "this link leads to no result: it is not shared (its owner can press Share), or no longer, or it was deleted"
)
_AS_STORED = (
    "study", "title", "status", "is_kept", "created", "updated", "name", "note", "headline", "is_shared",
)  # fmt: skip
_SAID_ELSEWHERE = {"model", "condition", "scale", "images", "labels", "options", "arms", "protocol", "force"}
_CALIBRATION = "calibration-"  # prefix of the classifiers that "auto" chooses for the calibration world
_NOT_OURS = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors from reading values that this program did not write."""


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run in its visitor's list."""

    run_id: str
    study: str  # name of the design, "explore" for Explore
    title: str
    choices: str  # settings that differ from the study's defaults
    # name, note: the visitor's own words; headline: of its report; "" for none
    name: str
    note: str
    headline: str
    labelled_by: str  # source of the labels of its pictures, in words
    pictures: tuple[str, ...]  # paths of some of its stored pictures
    is_shared: bool
    # model, condition: of the drawing, or "imported:..." for imported pictures
    model: str
    condition: str
    # n_pictures, n_stored, n_bytes: requested; still in the store; bytes of the stored ones
    n_pictures: int
    n_stored: int
    n_bytes: int
    status: Status
    is_kept: bool
    # created, updated: seconds since 1970
    created: float
    updated: float
    saved: bool  # True if its report can be opened without a run
    may_go_on: bool  # True if it was cut off, or a stop rule may have ended it
    in_gallery: bool = False  # True for a gallery run, which can be viewed and compared, not changed


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """A deleted run, to undo the deletion."""

    manifest: Manifest
    report: str | None


def list_runs(services: StudyServices, session: str) -> list[ListedRun]:
    """Return the visitor's runs, newest first."""
    reports, usual = report_store(services), cache(partial(_get_model_defaults, services))
    runs = services.manifests.list(_check_session(session))
    answered = services.answered_tasks([task for run in runs for task in run.label_tasks])
    return [_build_listed_run(run, services.images, reports, usual, answered) for run in runs]


def _get_model_defaults(services: StudyServices, name: str) -> Mapping[str, Any]:
    """Return the settings that a model has where none are chosen; {} for a model that no longer exists."""
    with suppress(BiasCoreError):
        info = services.model_info(name)
        return {"num_inference_steps": info.default_steps, "guidance_scale": info.default_guidance}
    return {}


_IN_GALLERY = Newest[tuple[int, ListedRun]](1000)
"""Listed runs of the gallery, by file, each with the time of the file."""


def list_gallery(services: StudyServices) -> tuple[list[ListedRun], str]:
    """Return the gallery runs with a report, newest first, and a sentence on files that cannot be read."""
    try:
        folder = gallery_folder(services.settings)
    except StorageError as error:
        return [], str(error)
    if folder is None:
        return [], ""
    files = [path for path in (folder / "runs").glob("*.json") if (folder / "reports" / path.name).is_file()]
    lines = [line for path in files if (line := _gallery_line(folder, path)) is not None]
    n_broken = len(files) - len(lines)
    problem = f"This version cannot read {n_broken:,} files of the gallery." if n_broken else ""
    return sorted(lines, key=lambda line: -line.updated), problem


def open_gallery_run(services: StudyServices, run_id: str) -> SavedReport:
    """Return the report of a gallery run under its id in the list; nothing is run or changed.

    Raises InvalidInput if there is none, StorageError if it cannot be read or names a file outside the gallery.
    """
    folder, name = gallery_folder(services.settings), run_id.removeprefix(GALLERY)
    try:
        saved = None if folder is None else open_report_in_folder(folder, name)
        paths = [] if saved is None else list_picture_files(saved.report)
        outside = folder and any(not path.resolve().is_relative_to(folder) for path in paths)
    except _NOT_OURS as error:
        raise StorageError(f"this version cannot read the gallery's report {quoted(name)}: {error}") from error
    if saved is None:
        raise InvalidInput(f"the gallery has no run {quoted(name)}")
    if outside:
        raise StorageError(f"the run {quoted(name)} names a file outside the gallery, so it is not opened")
    return replace(saved, report=replace(saved.report, run_id=f"{GALLERY}{name}"))


def gallery_folder(settings: Settings) -> Path | None:
    """Return the folder in ``BIAS_GALLERY``, None if it is empty; StorageError if it cannot be read."""
    where = settings.gallery.strip()
    if not where:
        return None
    try:
        folder, data_folder = Path(where).expanduser().resolve(), settings.data_dir.resolve()
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        raise StorageError(f"the gallery {quoted(Path(where).name)} is not a readable folder (see BIAS_GALLERY)")
    if folder == data_folder:
        raise StorageError("the gallery (BIAS_GALLERY) is this program's own data folder: name another folder of runs")
    return folder


def _gallery_line(folder: Path, path: Path) -> ListedRun | None:
    """Return a gallery run for the list; None if its file is not a run."""
    try:
        written, (listed, line) = path.stat().st_mtime_ns, _IN_GALLERY.get(path) or (0, None)
        if line is None or listed != written:
            run = ManifestStore(path.parent).head(path.stem)
            if run is None or run.id != path.stem:
                return None
            line = _build_listed_run(
                replace(run, complete=0.0), ImageStore(folder / "images"), ReportStore(folder / "reports")
            )
            if not all(isinstance(text, str) for text in (line.title, line.study, line.status, line.headline)):
                return None
            time.gmtime(line.updated)  # raises if it is no time
            line = replace(line, run_id=f"{GALLERY}{line.run_id}", in_gallery=True)
            line = replace(line, name="", note="", is_shared=False)  # for their visitor alone
            _IN_GALLERY.put(path, (written, line))
        return line
    except (OSError, OverflowError, *_NOT_OURS):
        return None


def open_run(services: StudyServices, session: str, run_id: str) -> SavedReport:
    """Return the report of a run; InvalidInput if the visitor has no such run, StorageError if it has no report."""
    manifest = _mine(services, session, run_id)
    saved = open_report(run_id, services)
    if saved is None:
        raise StorageError(
            f"“{manifest.title}” has no saved report: it was not finished, or its report made room for newer "
            "ones. Press “Run again”: stored pictures are not drawn again"
        )
    return saved


def describe_run(
    services: StudyServices, session: str, run_id: str, *, name: str | None = None, note: str | None = None
) -> None:
    """Change the name or note of a run, or neither if None; InvalidInput for texts that are too long."""
    texts = {key: text for key, text in (("name", name), ("note", note)) if text is not None}
    for key, text in texts.items():
        check_texts(key, text, longest=MOST_NAME if key == "name" else MOST_NOTE)
    if name is not None:
        texts["name"] = " ".join(name.split())
    services.manifests.describe(_mine(services, session, run_id).id, **texts)


def share_run(services: StudyServices, session: str, run_id: str, is_shared: bool) -> None:
    """Show the report to everyone who knows the run's id, or no longer; InvalidInput if there is none to show."""
    if is_shared:
        open_run(services, session, run_id)
    services.manifests.describe(_mine(services, session, run_id).id, is_shared=is_shared)


def open_shared_run(services: StudyServices, run_id: str) -> SavedReport:
    """Return the report of a shared run, which nothing can be done with; InvalidInput if it is not shared.

    It has neither the visitor's words about it nor folders of this machine, and an id that no action knows.
    """
    run_id = run_id.removeprefix(SHARED)
    if find_shared(services, run_id) is None or (saved := open_report(run_id, services)) is None:
        raise InvalidInput(NOT_SHARED)
    return replace(saved, report=_without_folders(replace(saved.report, run_id=f"{SHARED}{run_id}")))


def find_shared(services: StudyServices, run_id: str) -> RunHead | None:
    """Return the head of a run that its visitor shares; None for every other id."""
    with suppress(InvalidInput):  # no id
        head = services.manifests.head(run_id)
        return head if head is not None and head.is_shared is True else None
    return None


def id_in_address(services: StudyServices, report: StudyReport) -> str:
    """Return the id by which an address shows this report: of a stored run, a gallery run or an example; else ""."""
    if report.run_id.startswith((EXAMPLE, GALLERY)):
        return report.run_id
    run_id = report.run_id.removeprefix(SHARED)
    with suppress(InvalidInput):  # no id
        return run_id if services.manifests.head(run_id) is not None else ""
    return ""


def _without_folders(report: StudyReport) -> StudyReport:
    """Return the report with files of its settings named without their folders."""

    def bare(settings: StudySettings) -> StudySettings:
        arms = tuple(replace(arm, images=arm.images and Path(arm.images).name) for arm in settings.arms)
        return replace(settings, images=Path(settings.images).name, labels=Path(settings.labels).name, arms=arms)

    arms = tuple(replace(arm, settings=bare(arm.settings)) for arm in report.arms)
    return replace(report, settings=bare(report.settings), arms=arms)


def study_of_run(services: StudyServices, session: str, run_id: str) -> tuple[Design, StudySettings]:
    """Return the design and settings of a visitor's run; InvalidInput if it or they were not kept."""
    return _read_design_settings(_mine(services, session, run_id))


def keep_run(services: StudyServices, session: str, run_id: str, is_kept: bool) -> None:
    """Keep the run's pictures and report from being removed to make room, or stop keeping them."""
    services.manifests.keep(_mine(services, session, run_id).id, is_kept)


def delete_run(services: StudyServices, session: str, run_id: str) -> Deleted:
    """Delete a run and its report; its pictures stay until room is needed, as other runs may share them."""
    manifest, store = _mine(services, session, run_id), report_store(services)
    deleted = Deleted(manifest=manifest, report=store.find(run_id))
    services.manifests.delete(run_id)
    store.delete(run_id)
    return deleted


def restore_run(services: StudyServices, session: str, deleted: Deleted) -> None:
    """Undo :func:`delete_run`."""
    if deleted.manifest.session != _check_session(session):
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
    design, settings = _read_design_settings(manifest)
    if design.kind not in study_classes():
        raise InvalidInput(f"“{manifest.title}” cannot be run again. {NO_LONGER} {gone_study(design)}.")
    design, settings, gone = with_known_options(design, settings)
    if has_rule := manifest.status == "finished" and settings.may_stop_early:
        settings = replace(settings, stop_within=None, stop_when_clear=False)
    for arm_settings in each_arm(settings):
        if arm_settings.images and not Path(arm_settings.images).exists():
            raise InvalidInput(
                f"the pictures {Path(arm_settings.images).name!r} of this run are no longer here: import them again"
            )
    report = yield from run_study(design, settings, services, cancelled=cancelled, session=session)
    if gone:
        report = with_note_on(report, gone)
        keep_report(report, services)
    elif report.run_id != manifest.id and not has_rule:
        services.manifests.describe(report.run_id, name=manifest.name, note=manifest.note)
        if manifest.is_kept:
            services.manifests.keep(report.run_id)
        delete_run(services, session, manifest.id)
    return report


def _read_design_settings(manifest: Manifest) -> tuple[Design, StudySettings]:
    values = decode(manifest.design, Path())  # a run of version 0.1.0 has it in the form of reports
    try:
        design = values if isinstance(values, Design) else Design(**values)
    except TypeError as error:
        raise InvalidInput(f"the run {manifest.id} has no design that this version can read") from error
    return design, settings_from_dict(manifest.settings)


def _mine(services: StudyServices, session: str, run_id: str) -> Manifest:
    manifest = services.manifests.find(run_id)
    if manifest is None or manifest.session != _check_session(session):
        raise InvalidInput(f"there is no run {run_id!r} of yours")
    return manifest


def _check_session(session: str) -> str:
    # The command line has the session "": its runs must not be listed over the web.
    if not session:
        raise InvalidInput("a visitor without a key has no runs")
    return session


def _describe_choices(manifest: RunHead, of_model: Mapping[str, Any]) -> str:
    """Return the visitor's choices that differ from the defaults of study and model, and are not in the title."""
    settings, design = manifest.settings, manifest.design
    study = study_classes().get(design.get("kind", ""))
    declared = {} if study is None else declared_settings(study.options)
    usual = {name: option.default for name, option in declared.items()} | design.get("options", {})
    parts = []
    if settings.get("scale", 1.0) != 1.0 and design.get("reference"):
        parts.append(f"{format_percent(settings['scale'])} of the full size")
    run_options = settings.get("options", {})
    options = [(declared.get(name), usual.get(name), name, value) for name, value in run_options.items()]
    every = {
        name: design.get("settings", {}).get(name, setting.default) for name, setting in _unlisted_settings().items()
    }
    options += [(_unlisted_settings()[name], every[name], name, settings[name]) for name in every if name in settings]
    for setting, default, name, value in options:
        is_usual = (
            _to_list(value) == _to_list(default) or value == of_model.get(name) or (setting is None and not value)
        )
        is_in_title = name == "concept" and str(value) in manifest.title
        if (
            is_usual or is_in_title or (name in READER_SETTINGS and str(value).startswith(_CALIBRATION))
        ):  # chosen by "auto"
            continue
        items = value if isinstance(value, (list, tuple)) else [value]
        text = ", ".join(str(item).partition("|")[0] for item in items) or "none"
        text = {"True": "yes", "False": "no"}.get(text, text)
        label = name.replace("_", " ") if setting is None else setting.label
        parts.append(f"{label}: {shorten(text, _LONGEST)}")
    if arms := settings.get("arms"):
        parts.append(f"{len(arms)} arms")
    if settings.get("images"):
        parts.append(f"pictures of {Path(settings['images']).name}")
    return " · ".join(parts)


@cache
def _unlisted_settings() -> dict[str, Setting]:
    """Return the settings of every study that the list has no column for."""
    return {name: setting for name, setting in declared_settings(StudySettings).items() if name not in _SAID_ELSEWHERE}


def _describe_labels(manifest: RunHead, answered: Collection[str]) -> str:
    settings = manifest.settings
    if settings.get("encoder") == NOBODY:
        return "not labelled"
    if settings.get("labels") or settings.get("options", {}).get("labeller") == "people":
        return "labels by people"
    return f"labels by a classifier{', corrected by people' if {*manifest.label_tasks} & {*answered} else ''}"


def _to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _spread_ids(ids: Sequence[str], n: int) -> list[str]:
    """Return at most ``n`` ids from all parts of a run."""
    return list(dict.fromkeys(ids[i * len(ids) // n] for i in range(n if ids else 0)))


def _build_listed_run(
    run: RunHead,
    images: ImageStore,
    reports: ReportStore,
    usual: Callable[[str], Mapping[str, Any]] = lambda name: {},  # noqa: ARG005 - of no model
    answered: Collection[str] = (),  # labelling tasks with answers that count
) -> ListedRun:
    settings, ids = run.settings, run.image_ids
    has_rule = settings.get("stop_within") is not None or bool(settings.get("stop_when_clear"))
    n_stored, n_bytes = len(ids), run.n_bytes
    shown = _spread_ids(ids, _N_SHOWN)
    if run.complete <= images.last_removal:
        sizes = images.sizes(ids)
        n_stored, n_bytes = len(sizes), sum(sizes)
        stored_ids = (image_id for image_id in _spread_ids(ids, _N_TRIED) if images.path(image_id).is_file())
        shown = list(islice(stored_ids, _N_SHOWN))
    folder = images.folder.as_posix()  # no path per picture: that takes a third of the time of the list
    return ListedRun(
        run_id=run.id,
        choices=_describe_choices(run, usual(str(settings.get("model", "")))),
        labelled_by=_describe_labels(run, answered),
        pictures=tuple(f"{folder}/{image_id[:2]}/{image_id}.png" for image_id in shown),
        model=run.model,
        condition=" and ".join(filter(None, run.conditions)),
        n_pictures=len(ids),
        n_stored=n_stored,
        n_bytes=n_bytes,
        saved=run.id in reports,
        may_go_on=run.status != "finished" or has_rule,
        **{name: getattr(run, name) for name in _AS_STORED},
    )
