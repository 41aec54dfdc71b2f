"""The gallery: finished audits in a folder, or a dataset of a hub, in the form of the examples; and publishing there.

An audit is a saved report, ``<name>.json``, with small copies of its pictures and its manifest in ``<name>/``, and
``<name>/about.json`` for the list, which is written last: what has none is not whole. Nothing in it is ever run.
"""

import hashlib
import io
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from bias_core.errors import InvalidInput, ModelUnavailable, StorageError, quoted
from bias_core.store.files import write_atomically
from bias_core.store.manifests import Manifest, ManifestStore
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.types import Results, StudyFigure, StudyReport, StudySettings
from bias_core.studies.reports.saved import Example, Newest, SavedReport, list_examples, open_example, to_text
from bias_core.studies.reports.text import title_of

ABOUT = "about.json"
SHIPPED = "comes with the program"
_FORM = 1  # of ``about.json``; newer ones are not read
_MOST_PICTURES = 120
_SIDE, _QUALITY = 256, 85  # pixels of a small copy's longer side
_MOST_PIXELS = 2048 * 2048  # of a picture that is shown
_MOST_ABOUT, _MOST_REPORT = 65_536, 64_000_000  # bytes
_LONGEST = 80  # characters of a publisher
_FORMATS = ("PNG", "WEBP", "JPEG")
_MARK = 12  # hex digits of the run
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_HUB = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_SECONDS_BETWEEN_LOOKS = 300.0
_LOOKED = Newest[float](16)
"""When the list of a hub's dataset was fetched last, by its name."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A finished audit as the list shows it."""

    name: str  # of its files
    title: str
    study: str  # name of its design
    model: str
    condition: str
    n_images: int  # that its numbers are of
    publisher: str
    # created, published: seconds since 1970
    created: float
    published: float
    version: str = ""  # of the program that published it


def with_small_pictures(
    report: StudyReport, copy: Callable[[Path], Path], copy_of_figure: Callable[[Path], Path], most: int
) -> StudyReport:
    """The report with copies of at most ``most`` of its pictures, evenly out of all, and of those in its figures."""
    frame = report.pictures
    ids = list(dict.fromkeys(() if frame is None or frame.empty else frame["image_id"]))
    ids = [image_id for image_id in ids if image_id in report.stored]
    places = np.linspace(0, len(ids) - 1, min(len(ids), most)).round().astype(int) if ids else ()
    chosen = {ids[i]: report.stored[ids[i]] for i in dict.fromkeys(places)}
    if frame is not None:
        frame = frame[frame["image_id"].isin(list(chosen))].reset_index(drop=True)
    stored = {key: replace(image, path=copy(image.path), truth=None) for key, image in chosen.items()}

    def small(results: Results) -> Results:
        return replace(results, figures=tuple(_with_copies(one, copy_of_figure) for one in results.figures))

    arms = tuple(replace(arm, results=small(arm.results)) for arm in report.arms)
    return replace(report, results=small(report.results), arms=arms, pictures=frame, stored=stored)


def pictures_of(report: StudyReport) -> Iterator[Path]:
    """The files of the pictures that a report shows, in its figures, too."""
    yield from (image.path for image in report.stored.values())
    for results in (report.results, *(arm.results for arm in report.arms)):
        for figure in results.figures:
            yield from map(Path, figure.data.get("path", ()))


def _with_copies(figure: StudyFigure, copy: Callable[[Path], Path]) -> StudyFigure:
    if "path" not in figure.data:
        return figure
    return replace(figure, data=figure.data.assign(path=[str(copy(Path(path))) for path in figure.data["path"]]))


def list_audits(services: StudyServices) -> tuple[list[Audit], list[str]]:
    """Those of the gallery, the newest first, then those that come with the program; and what could not be read.

    A gallery that cannot be reached is one more line of what could not be read.
    """
    audits, problems = list[Audit](), list[str]()
    try:
        folder = _fetched(services, f"*/{ABOUT}") if services.settings.gallery.strip() else None
    except (InvalidInput, StorageError, ModelUnavailable) as error:
        folder, problems = None, [str(error)]
    for path in sorted(folder.glob(f"*/{ABOUT}")) if folder else ():
        if isinstance(one := _line(path), Audit):
            audits.append(one)
        else:
            problems.append(one)
    audits.sort(key=lambda one: -one.published)
    return [*audits, *shipped_audits(services)], problems


def open_audit(services: StudyServices, name: str) -> SavedReport:
    """The report of an audit; nothing is run, and no file outside of the gallery is read.

    Raises InvalidInput: there is none of this name; StorageError: it is broken, or no audit.
    """
    shipped = {example.name: example for example in list_examples(folder=_examples(services))}
    if name in shipped:
        return open_example(shipped[name], _examples(services))
    if not _NAME.fullmatch(name) or not services.settings.gallery.strip():
        raise InvalidInput(f"the gallery has no audit {quoted(name)}; its list has the names")
    folder = _fetched(services, f"{name}.json", f"{name}/*", anew=True)
    if not (folder / name / ABOUT).is_file():
        raise InvalidInput(f"the gallery has no audit {quoted(name)}; its list has the names")
    audit, path = _read_about(folder / name / ABOUT), folder / f"{name}.json"
    if path.is_file() and path.stat().st_size > _MOST_REPORT:
        raise StorageError(f"the audit “{name}” is larger than {_MOST_REPORT // 10**6} MB, which none is")
    try:
        saved = open_example(Example(name=name, tab="", title=audit.title), folder)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise StorageError(f"the audit “{name}” holds no report that this version can read: {error}") from error
    for picture in pictures_of(saved.report):
        _check_picture(picture, folder, name)
    return saved


def publish_run(services: StudyServices, run_id: str, report: StudyReport, *, publisher: str, token: str = "") -> Audit:
    """Write a finished run into the gallery; again, it takes the place of the earlier one.

    Who ran it is not told: the publisher alone is named. Of imported pictures and of people's answers the file names
    stay. ``token`` opens a hub's dataset.

    Raises InvalidInput: no gallery, no name, no token; StorageError: it cannot be written.
    """
    where, by = services.settings.gallery.strip(), " ".join(publisher.split())
    if not where:
        raise InvalidInput("there is no gallery: set BIAS_GALLERY to a folder, or to a dataset of the hub as org/name")
    if not by or len(by) > _LONGEST or not by.isprintable():
        raise InvalidInput(f"say who publishes it, in 1 to {_LONGEST} characters; got {quoted(publisher)}")
    manifest = services.manifests.get(run_id)
    if manifest.status not in ("finished", "cancelled"):
        raise InvalidInput(f"the run {run_id} is not finished ({manifest.status}): run it again, then publish it")
    if not _on_hub(where):
        return _write(_local(where), manifest, report, by)
    if not token:
        raise InvalidInput(f"the gallery is the dataset {where} of the hub: give your own token, which may write there")
    with TemporaryDirectory() as folder:
        audit = _write(Path(folder), manifest, report, by)
        _upload(where, Path(folder), audit, token)
    _LOOKED.put(where, None)
    return audit


@dataclass(frozen=True, kw_only=True)
class TakenBack:
    """What is needed to put an audit back into the gallery: its files lie in ``place``."""

    name: str
    title: str
    place: Path


def own_audits(services: StudyServices, run_ids: Iterable[str]) -> set[str]:
    """Names of the audits of a local gallery that are of these runs."""
    where = services.settings.gallery.strip()
    if not where or _on_hub(where):
        return set()
    ends = {_mark_of(run_id) for run_id in run_ids}
    return {path.parent.name for path in _local(where).glob(f"*/{ABOUT}") if path.parent.name[-_MARK:] in ends}


def take_back(services: StudyServices, name: str, run_ids: Iterable[str]) -> TakenBack:
    """Take one's own audit out of a local gallery; its files are kept, and :func:`put_back` undoes it.

    Raises InvalidInput: it is of none of these runs, or the gallery is no folder.
    """
    if name not in own_audits(services, run_ids):
        raise InvalidInput(f"the gallery has no audit {quoted(name)} of a run of yours that could be taken back")
    folder, place = _local(services.settings.gallery.strip()), _bin(services) / f"{name}-{time.time_ns()}"
    audit = _read_about(folder / name / ABOUT)
    place.mkdir(parents=True)
    _move(folder / name, place / name)  # first what makes it whole
    _move(folder / f"{name}.json", place / f"{name}.json")
    return TakenBack(name=name, title=audit.title, place=place)


def put_back(services: StudyServices, audit: TakenBack) -> None:
    """Undo :func:`take_back`; InvalidInput where it was published again meanwhile."""
    folder = _local(services.settings.gallery.strip())
    if (folder / audit.name).exists():
        raise InvalidInput(f"“{audit.title}” was published again meanwhile; the earlier one stays taken back")
    if not audit.place.resolve().is_relative_to(_bin(services).resolve()):
        raise InvalidInput("this audit was not taken back here")
    _move(audit.place / f"{audit.name}.json", folder / f"{audit.name}.json")
    _move(audit.place / audit.name, folder / audit.name)


def _bin(services: StudyServices) -> Path:
    return services.settings.data_dir / "taken_back"


def _move(source: Path, target: Path) -> None:
    try:
        shutil.move(source, target)
    except OSError as error:
        raise StorageError(f"{source.name!r} of the gallery cannot be moved: {error.strerror or error}") from error


def may_publish(services: StudyServices, *, has_token: bool) -> str:
    """Why a visitor of the page cannot publish; "" where they can."""
    where = services.settings.gallery.strip()
    if not where:
        return "There is no gallery here: whoever runs this program sets BIAS_GALLERY to a folder or a hub's dataset."
    if not _on_hub(where):
        return "On a public server nobody may write into its folders." if services.settings.public else ""
    return "" if has_token else f"Give your own token of the hub (Options above), which may write to {where}."


def _write(folder: Path, manifest: Manifest, report: StudyReport, publisher: str) -> Audit:
    """All files of an audit below a folder, what makes it whole last."""
    now, name = time.time(), _name_of(manifest, report)
    copies = folder / name
    copy = partial(_small_copy, copies)
    small = with_small_pictures(_without_paths(report), copy, copy, _MOST_PICTURES)
    about = (
        f"Published by {publisher}: small copies of {len(small.stored):,} of its {report.n_images:,} pictures are "
        "shown; the numbers are of all."
    )
    small = replace(small, results=replace(small.results, notes=(about, *small.results.notes)))
    plain = _plain_settings(manifest.settings)
    ManifestStore(copies).restore(replace(manifest, session="", label_tasks=(), is_kept=False, settings=plain))
    write_atomically(folder / f"{name}.json", to_text(small, folder, created=manifest.updated).encode())
    audit = Audit(
        name=name,
        title=title_of(report),
        study=report.design.name,
        model=report.settings.model,
        condition=report.settings.condition,
        n_images=report.n_images,
        publisher=publisher,
        created=manifest.updated,
        published=now,
        version=str(report.versions.get("bias_core", "")),
    )
    write_atomically(copies / ABOUT, json.dumps({"form": _FORM, **asdict(audit)}, ensure_ascii=False).encode())
    used = set(pictures_of(small))
    for old in set(copies.glob("*.webp")) - used:  # of an earlier publication
        old.unlink()
    return audit


def _name_of(manifest: Manifest, report: StudyReport) -> str:
    """Of the files: what it is in words, and which run."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{report.design.name} {title_of(report)}".lower()).strip("-")[:60].strip("-")
    return f"{words or 'audit'}-{_mark_of(manifest.id)}"


def _mark_of(run_id: str) -> str:
    """How the names of a run's audits end."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:_MARK]


def _small_copy(folder: Path, path: Path) -> Path:
    """A small copy, named by what it shows; whatever the file said of itself stays behind."""
    buffer = io.BytesIO()
    try:
        with Image.open(path) as image:
            small = image.convert("RGB")
            small.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    except OSError as error:
        raise StorageError("a picture of this run is no longer stored: run it again, then publish it") from error
    small.save(buffer, format="WEBP", quality=_QUALITY)
    target = folder / f"{hashlib.sha256(buffer.getvalue()).hexdigest()[:16]}.webp"
    write_atomically(target, buffer.getvalue())
    return target


def _without_paths(report: StudyReport) -> StudyReport:
    """The report without folders of this machine."""

    def plain(settings: StudySettings) -> StudySettings:
        return replace(settings, images=_last(settings.images), labels=_last(settings.labels))

    arms = tuple(replace(arm, settings=plain(arm.settings)) for arm in report.arms)
    return replace(report, settings=plain(report.settings), arms=arms)


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    files = {name: _last(str(settings.get(name) or "")) for name in ("images", "labels")}
    return {**settings, **{name: value for name, value in files.items() if name in settings}}


def _last(path: str) -> str:
    return Path(path).name if path else ""


def shipped_audits(services: StudyServices) -> list[Audit]:
    """The examples that come with the program: they are finished audits."""
    audits = []
    for example in list_examples(folder=_examples(services)):
        saved = open_example(example, _examples(services))
        report = saved.report
        audits.append(
            Audit(
                name=example.name,
                title=example.title,
                study=report.design.name,
                model=report.settings.model,
                condition=report.settings.condition,
                n_images=report.n_images,
                publisher=SHIPPED,
                created=saved.created,
                published=saved.created,
                version=str(report.versions.get("bias_core", "")),
            )
        )
    return audits


def _examples(services: StudyServices) -> Path:
    return services.settings.assets_dir / "examples"


def _read_about(path: Path) -> Audit:
    """A line of the list; StorageError says what is wrong with it."""
    name = path.parent.name
    try:
        if path.stat().st_size > _MOST_ABOUT:
            raise ValueError("it is too large")
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it holds no names with their values")
        if isinstance(values.get("form"), int) and values["form"] > _FORM:
            version = f" ({values.get('version')})" if values.get("version") else ""
            raise StorageError(
                f"the audit “{name}” was published by a newer version of the program{version}: update this one"
            )
        return _checked(values, name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"“{name}” in the gallery is no audit of this program: {error}") from error


def _line(path: Path) -> Audit | str:
    """A line of the list, or why there is none."""
    try:
        return _read_about(path)
    except StorageError as error:
        return str(error)


def _checked(values: Mapping[str, Any], name: str) -> Audit:
    """The audit, if every field is of its kind and its name is that of its folder."""
    if values.get("form") != _FORM or values["name"] != name or not _NAME.fullmatch(name):
        raise ValueError("its name or form is another")
    kinds: dict[str, Any] = {"n_images": int, "created": (int, float), "published": (int, float)}
    for field in fields(Audit):
        if not isinstance(values[field.name], kinds.get(field.name, str)):
            raise TypeError(f"{field.name} is {quoted(values[field.name])}")
    return Audit(**{field.name: values[field.name] for field in fields(Audit)})


def _check_picture(path: Path, folder: Path, name: str) -> None:
    """StorageError where a picture lies elsewhere, or is none."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise StorageError(f"the audit “{name}” names a file outside of the gallery, so it is not opened")
    try:
        with Image.open(path, formats=_FORMATS) as image:
            width, height = image.size
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise StorageError(f"the audit “{name}” lacks a picture, or holds one that is none: {path.name}") from error
    if width * height > _MOST_PIXELS:
        raise StorageError(f"the audit “{name}” holds a picture of {width}x{height} pixels, more than any has")


def _on_hub(where: str) -> bool:
    """Whether it is a dataset of the hub: org/name, where there is no such folder."""
    return bool(_HUB.fullmatch(where)) and not where.startswith((".", "~")) and not Path(where).is_dir()


def _local(where: str) -> Path:
    try:
        return Path(where).expanduser().absolute()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"BIAS_GALLERY is neither a folder nor a hub's dataset org/name: {quoted(where)}") from error


def _fetched(services: StudyServices, *patterns: str, anew: bool = False) -> Path:
    """The gallery as a folder, with these files; those of a hub are fetched, the list at most every five minutes."""
    where = services.settings.gallery.strip()
    if not _on_hub(where):
        folder = _local(where)
        if not folder.is_dir():
            raise StorageError(f"the gallery {folder.name!r} is no folder that can be read; see BIAS_GALLERY")
        return folder
    folder = services.settings.data_dir / "gallery" / where.replace("/", "--")
    if not anew and time.monotonic() - (_LOOKED.get(where) or -_SECONDS_BETWEEN_LOOKS) < _SECONDS_BETWEEN_LOOKS:
        return folder
    if services.settings.offline:
        if folder.is_dir():
            return folder
        raise ModelUnavailable(f"the gallery is the dataset {where} of the hub, and BIAS_OFFLINE forbids to ask it")
    _of_hub(where, "read", partial(_download, where, folder, patterns))
    if not anew:
        _LOOKED.put(where, time.monotonic())
    return folder


def _download(where: str, folder: Path, patterns: Sequence[str]) -> None:
    import huggingface_hub

    how = {"repo_type": "dataset", "local_dir": folder, "allow_patterns": list(patterns)}
    huggingface_hub.snapshot_download(where, **how)


def _upload(where: str, folder: Path, audit: Audit, token: str) -> None:
    import huggingface_hub

    api = huggingface_hub.HfApi(token=token)
    message = f"{audit.title}, by {audit.publisher}"
    how = {"repo_type": "dataset", "commit_message": message}
    _of_hub(where, "written to", partial(api.upload_folder, repo_id=where, folder_path=folder, **how))


def _of_hub(where: str, what: str, ask: Callable[[], Any]) -> None:
    """Ask the hub; StorageError says why that could not be done."""
    from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled

    try:
        ask()
    except (HTTPError, HFValidationError, OfflineModeIsEnabled, OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise StorageError(f"the dataset {where} of the hub cannot be {what}: {reason}") from error
