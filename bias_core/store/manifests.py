"""One JSON file per run: what was asked, every row that it needs, and how far it came; and one of its report.

What all stores may take of the disk: above that, what was unused longest makes room.
"""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.files import evict_oldest, write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow

Status = Literal["running", "finished", "cancelled", "failed"]

STALE_SECONDS = 24 * 3600  # a run that a kill left "running" protects its pictures from eviction no longer than this
_MOST_ID = 100  # characters: an id becomes the name of a file
_HEAD_BYTES = 1024  # id, study and session stand first
_PIECE = 1 << 16  # bytes that are read together
_SESSION = rb'"session"\s*:\s*%s'
_ROWS = re.compile(rb',\s*"rows"\s*:\s*\[')
_NO_MANIFEST = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of reading a file that is not there, or holds something else."""
DERIVED = ("derived", "traces")
"""Folders of what studies make out of pictures: other pictures, and what denoising steps were like."""
_SHARE = 0.05  # of the picture store's limit that reports, runs and what is derived may take, each
_LEAST = 50_000_000  # bytes of each of these that always have room
_NAMED = re.compile(rf"(?:{'|'.join(DERIVED)})/[\w./-]+")


@dataclass(frozen=True, kw_only=True)
class RunHead:
    """A run on record, without its rows."""

    id: str  # hash of visitor and settings, so that the same question resumes the same run
    study: str  # which study asked, e.g. "explore".
    session: str  # the visitor it belongs to; "" on the command line
    title: str  # a line for the list of runs
    settings: Mapping[str, Any]  # the study's settings as plain JSON values
    status: Status = "running"  # "running" also after a kill, until it is resumed
    is_kept: bool = False  # the user wants it kept: its pictures are never evicted; "kept" in the file
    # created, updated: seconds since 1970
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    versions: Mapping[str, str] = field(default_factory=dict)  # of the programs and weights that made it
    # the study's design as plain JSON values, so that one's own can go on, too
    design: Mapping[str, Any] = field(default_factory=dict)
    label_tasks: tuple[str, ...] = ()  # ids of the labelling tasks that correct its numbers
    # n_bytes, complete: of all its pictures, and when all were stored, in seconds since 1970; 0: they never were
    n_bytes: int = 0
    complete: float = 0.0
    # image_ids, models, conditions: of its rows, each once; filled in when it is written
    image_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def is_at_work(self) -> bool:
        """Whether it runs, and is not only left so by a kill long ago."""
        return self.status == "running" and self.updated > time.time() - STALE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Manifest(RunHead):
    """A run on record."""

    rows: tuple[ImageRow, ...]  # one per picture

    def described(self) -> "Manifest":
        """The same with what its head says of its rows."""
        return replace(
            self,
            image_ids=tuple(dict.fromkeys(row.id for row in self.rows)),
            models=tuple(dict.fromkeys(row.model for row in self.rows)),
            conditions=tuple(dict.fromkeys(row.condition for row in self.rows)),
        )


def _is_id(run_id: object) -> bool:
    return isinstance(run_id, str) and run_id.isascii() and run_id.isalnum() and len(run_id) <= _MOST_ID


class _RunFiles:
    """Files ``<folder>/<run id>.json``, each whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, run_id: str) -> Path:
        """The run's file, which may not be there."""
        # The id becomes a file name and may come from a visitor.
        if not _is_id(run_id):
            raise InvalidInput(f"a run id has letters and digits only, {_MOST_ID} at most; got {run_id!r:.80}")
        return self.folder / f"{run_id}.json"

    def delete(self, run_id: str) -> None:
        """Forget the run; its pictures go by eviction, for other runs may share them."""
        self.path(run_id).unlink(missing_ok=True)


class ReportStore(_RunFiles):
    """Finished reports, as texts; what is in them is the studies' business."""

    def save(self, run_id: str, text: str) -> None:
        """Write it, whole or not at all; StorageError where the disk refuses."""
        write_atomically(self.path(run_id), text.encode())

    def find(self, run_id: str) -> str | None:
        """The text, or None."""
        try:
            return self.path(run_id).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"cannot read the report of run {run_id}: {error}") from error

    def __contains__(self, run_id: str) -> bool:
        return self.path(run_id).is_file()


class ManifestStore(_RunFiles):
    """Manifests, each written atomically."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._old: dict[tuple[str, int], RunHead | None] = {}  # heads of files that were read whole, by id and time

    def save(self, manifest: Manifest) -> Manifest:
        """Write it and give it back with its time of change; what is kept of the run survives a re-run."""
        if (earlier := self.head(manifest.id)) is not None:
            manifest = replace(manifest, is_kept=earlier.is_kept or manifest.is_kept, label_tasks=earlier.label_tasks)
            manifest = replace(manifest, created=earlier.created)
        return self._write(manifest)

    def find(self, run_id: str) -> Manifest | None:
        """The manifest of this id, or None. An unreadable one counts as absent."""
        path = self.path(run_id)
        try:
            values = _read_values(path.read_bytes())
            return Manifest(**values | {"rows": tuple(ImageRow(**row) for row in values["rows"])})
        except _NO_MANIFEST:
            return None

    def head(self, run_id: str, session: str | None = None) -> RunHead | None:
        """The head of a run of this visitor, or of any; None where there is none. Its rows are not read.

        A file of an earlier version has its rows in the middle: it is read whole, once.
        """
        written = 0
        try:
            with self.path(run_id).open("rb") as file:
                data, written = file.read(_HEAD_BYTES), os.fstat(file.fileno()).st_mtime_ns
                if session is not None and not re.search(_SESSION % re.escape(json.dumps(session)).encode(), data):
                    return None
                while not (rows := _ROWS.search(data)) and (more := file.read(_PIECE)):
                    data += more
            values = _read_values(data[: rows.start()] + b"}") if rows else {}
            if "image_ids" in values:
                return RunHead(**values)
        except _NO_MANIFEST:
            pass
        if (run_id, written) not in self._old:
            manifest = self.find(run_id)
            self._old[run_id, written] = manifest and RunHead(**_values_of(manifest.described(), RunHead))
        return self._old[run_id, written]

    def get(self, run_id: str) -> Manifest:
        """The manifest of this id; StorageError where there is none."""
        if (manifest := self.find(run_id)) is None:
            raise StorageError(f"no run {run_id!r} on record")
        return manifest

    def list(self, session: str | None = None) -> list[RunHead]:
        """All runs, newest first; only this visitor's when ``session`` is given."""
        runs = (self.head(path.stem, session) for path in self.folder.glob("*.json") if _is_id(path.stem))
        mine = [run for run in runs if run is not None and session in (None, run.session)]
        return sorted(mine, key=lambda run: run.updated, reverse=True)

    def keep(self, run_id: str, is_kept: bool = True) -> Manifest:
        """Mark the run as kept (its pictures are then never evicted), or no longer."""
        return self._write(replace(self.get(run_id), is_kept=is_kept))

    def add_label_task(self, run_id: str, task_id: str) -> Manifest:
        """People label pictures of this run: it is kept, so that these are not evicted."""
        run = self.get(run_id)
        return self._write(replace(run, label_tasks=(*run.label_tasks, task_id), is_kept=True))

    def protected_ids(self) -> set[str]:
        """Ids of the pictures that eviction must not touch: of kept runs, and of runs at work."""
        return {image_id for run in self.list() if run.is_kept or run.is_at_work for image_id in run.image_ids}

    def restore(self, manifest: Manifest) -> Manifest:
        """Put a deleted run back as it was."""
        manifest = manifest.described()
        values = _values_of(manifest, Manifest)
        values["kept"] = values.pop("is_kept")
        values["rows"] = [_values_of(row, ImageRow) for row in values.pop("rows")]
        write_atomically(self.path(manifest.id), json.dumps(values, ensure_ascii=False).encode())
        return manifest

    def _write(self, manifest: Manifest) -> Manifest:
        return self.restore(replace(manifest, updated=time.time()))


def _values_of(one: object, kind: type) -> dict[str, Any]:
    """The fields of a dataclass; dataclasses.asdict copies deeply, which takes a third of a second for 2,000 rows."""
    return {f.name: getattr(one, f.name) for f in fields(kind)}


def _read_values(data: bytes) -> dict[str, Any]:
    values = dict(json.loads(data))
    values["is_kept"] = values.pop("kept", False)
    lists = ("label_tasks", "image_ids", "models", "conditions")
    values |= {name: tuple(values[name]) for name in lists if name in values}
    if not "".join(("0", *values.get("image_ids", ()))).isalnum():
        raise ValueError("ids of pictures have letters and digits only")
    return values


def make_room(data: Path, limit: int, images: ImageStore, manifests: ManifestStore) -> Sequence[str]:
    """Delete what is too much in a data folder, but nothing of a run that is kept, or at work.

    ``data``: the folder that holds everything; ``limit``: bytes of the pictures; 5 % of it, or 50 MB, is the limit of
    the reports, of the runs on record and of what is derived from pictures.

    Gives the ids of the pictures that went.
    """

    @cache
    def kept_runs() -> set[str]:
        return {run.id for run in manifests.list() if run.is_kept}

    def is_needed(run_id: str) -> bool:
        run = manifests.head(run_id)
        return run is not None and (run.is_kept or run.is_at_work)

    @cache
    def shown() -> set[str]:
        """Names of the derived files that reports of kept runs show."""
        paths = (data / "reports" / f"{run_id}.json" for run_id in kept_runs())
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())
        return {name for text in texts for name in _NAMED.findall(text)}

    reports, rest = data / "reports", max(_LEAST, int(_SHARE * limit))
    evict_oldest(reports.glob("*.json"), rest, protected=lambda path: path.stem in kept_runs())
    for run in evict_oldest(manifests.folder.glob("*.json"), rest, protected=lambda path: is_needed(path.stem)):
        (reports / run.name).unlink(missing_ok=True)
    derived = [path for name in DERIVED for path in (data / name).rglob("*.*")]
    evict_oldest(derived, rest, protected=lambda path: path.relative_to(data).as_posix() in shown())
    return [] if images.n_bytes <= limit else images.evict(limit, protected=manifests.protected_ids())
