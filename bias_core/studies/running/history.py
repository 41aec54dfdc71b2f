"""The runs of one visitor: listed, opened, kept, deleted and brought back, and gone on with."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.manifests import Manifest, Status
from bias_core.studies.kit.designs import find_design, programs_by_kind
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Design, Progress, StudyReport, StudySettings, settings_from_dict
from bias_core.studies.kit.watching import stop_rule
from bias_core.studies.reports.saved import LEFT, SavedReport, decode, open_report, report_store
from bias_core.studies.running.arms import each_arm
from bias_core.studies.running.run import run_study

_LONGEST = 60  # characters of an option in the list


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


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """What is needed to undo a deletion."""

    manifest: Manifest
    report: str | None


def list_runs(services: StudyServices, session: str) -> list[RunLine]:
    """The visitor's runs, newest first."""
    return [_line(services, run) for run in services.manifests.list(_checked(session))]


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

    A run that is finished under a stop rule goes on without the rule, and its own report stays.
    """
    manifest = _mine(services, session, run_id)
    design, settings = _study_of(manifest)
    if design.kind not in programs_by_kind():
        raise InvalidInput(f"“{manifest.title}” cannot be run again: {LEFT}")
    if has_rule := manifest.status == "finished" and stop_rule(settings) is not None:
        settings = replace(settings, stop_within=None, stop_when_clear=False)
    for one in each_arm(settings):
        if one.images and not Path(one.images).exists():
            raise InvalidInput(
                f"the pictures {Path(one.images).name!r} of this run are no longer here: import them again"
            )
    report = yield from run_study(design, settings, services, cancelled=cancelled, session=session)
    if report.run_id != manifest.id and not has_rule:
        if manifest.is_kept:
            services.manifests.keep(report.run_id)
        delete_run(services, session, manifest.id)
    return report


def _study_of(manifest: Manifest) -> tuple[Design, StudySettings]:
    for kind, program in programs_by_kind().items() if not manifest.design else ():
        if manifest.study in program.old_settings:
            return find_design(kind), program.old_settings[manifest.study](manifest.settings)
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


def _choices(manifest: Manifest) -> str:
    """What a visitor chose, as far as it was not the study's own."""
    settings, design = manifest.settings, manifest.design
    usual = design.get("options", {})
    parts = [f"{100 * settings['scale']:g} %"] if "scale" in settings and design.get("reference") else []
    for name, value in settings.get("options", {}).items():
        if value != usual.get(name):
            items = value if isinstance(value, (list, tuple)) else [value]
            text = ", ".join(str(item).partition("|")[0] for item in items)
            parts.append(f"{name}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}")
    if settings.get("images"):
        parts.append(f"pictures of {Path(settings['images']).name}")
    return " · ".join([*parts, f"seed {settings.get('seed', 0)}"])


def _has_rule(manifest: Manifest) -> bool:
    return manifest.settings.get("stop_within") is not None or bool(manifest.settings.get("stop_when_clear"))


def _line(services: StudyServices, manifest: Manifest) -> RunLine:
    ids = {row.id for row in manifest.rows}
    sizes = [path.stat().st_size for path in map(services.images.path, ids) if path.is_file()]
    models, conditions = (
        " and ".join(filter(None, dict.fromkeys(getattr(row, name) for row in manifest.rows)))
        for name in ("model", "condition")
    )
    return RunLine(
        run_id=manifest.id,
        choices=_choices(manifest),
        model=models or str(manifest.settings.get("model", "")),
        condition=conditions,
        n_pictures=len(ids),
        n_stored=len(sizes),
        n_bytes=sum(sizes),
        saved=manifest.id in report_store(services),
        may_go_on=manifest.status != "finished" or _has_rule(manifest),
        **{name: getattr(manifest, name) for name in ("study", "title", "status", "is_kept", "created", "updated")},
    )
