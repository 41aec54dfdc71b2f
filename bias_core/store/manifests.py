"""One JSON file per run with its settings, rows and progress, and one for its report.

Also the disk limits of all stores, which evict the longest unused files.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.files import evict_oldest, write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow

Status = Literal["running", "finished", "cancelled", "failed"]

STALE_SECONDS = 24 * 3600  # for this time, a killed run that is still "running" protects its pictures from eviction
_MOST_ID = 100  # characters: an id becomes the name of a file
_ABOUT = ("created", "label_tasks", "name", "note", "headline", "is_shared")  # facts that a re-run keeps
_HEAD_BYTES = 1024  # id, study and session stand first
_PIECE = 1 << 16  # bytes that are read together
_SESSION = rb'"session"\s*:\s*%s'
_ROWS = re.compile(rb',\s*"rows"\s*:\s*\[')
_NO_MANIFEST = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors from a missing file or one with other contents."""
DERIVED = ("derived", "traces")
"""Folders of derived data: pictures of steps, and facts about denoising steps."""
_SHARE = 0.05  # share of the picture store's limit for each of reports, runs and derived data
_LEAST = 50_000_000  # bytes that each of these may always use
_NAMED = re.compile(rf"(?:{'|'.join(DERIVED)})/[\w./-]+")


@dataclass(frozen=True, kw_only=True)
class RunHead:
    """A stored run without its rows."""

    id: str  # hash of visitor and settings, so that equal settings resume the run
    study: str  # kind of study, e.g. "explore"
    session: str  # its visitor; "" on the command line
    title: str  # line in the list of runs
    settings: Mapping[str, Any]  # the study's settings as plain JSON values
    status: Status = "running"  # also "running" after a kill, until it resumes
    is_kept: bool = False  # kept by the user: its pictures are never evicted; "kept" in the file
    # created, updated: seconds since 1970
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    versions: Mapping[str, str] = field(default_factory=dict)  # versions of programs and weights
    # the study's design as plain JSON values, so that custom designs can resume
    design: Mapping[str, Any] = field(default_factory=dict)
    label_tasks: tuple[str, ...] = ()  # ids of the labelling tasks that correct its numbers
    # name, note: the visitor's own words
    name: str = ""
    note: str = ""
    headline: str = ""  # of its report
    is_shared: bool = False  # True if everyone who knows its id may see its report
    # n_bytes, complete: size of all its pictures, and the time when all were stored, in seconds since 1970; 0: never
    n_bytes: int = 0
    complete: float = 0.0
    # image_ids, models, conditions: of its rows, each once; filled in when it is written
    image_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The models that drew its rows; without rows, the one in its settings."""
        return " and ".join(filter(None, self.models)) or str(self.settings.get("model", ""))

    @property
    def is_at_work(self) -> bool:
        """True if it runs, unless it was killed long ago."""
        return self.status == "running" and self.updated > time.time() - STALE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Manifest(RunHead):
    rows: tuple[ImageRow, ...]  # one per picture

    def described(self) -> "Manifest":
        """Copy with the head's facts about the rows."""
        return replace(
            self,
            image_ids=tuple(dict.fromkeys(row.id for row in self.rows)),
            models=tuple(dict.fromkeys(row.model for row in self.rows)),
            conditions=tuple(dict.fromkeys(row.condition for row in self.rows)),
        )


def _is_id(run_id: object) -> bool:
    return isinstance(run_id, str) and run_id.isascii() and run_id.isalnum() and len(run_id) <= _MOST_ID


class _RunFiles:
    """Files ``<folder>/<run id>.json``, each complete or absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, run_id: str) -> Path:
        """The path of the run's file, which may not exist."""
        # The id becomes a file name and may come from a visitor.
        if not _is_id(run_id):
            raise InvalidInput(f"a run id may have letters and digits only, {_MOST_ID} at most; got {run_id!r:.80}")
        return self.folder / f"{run_id}.json"

    def delete(self, run_id: str) -> None:
        """Delete the run; its pictures go by eviction, because other runs may share them."""
        self.path(run_id).unlink(missing_ok=True)


class ReportStore(_RunFiles):
    """Finished reports as texts; the studies define their contents."""

    def save(self, run_id: str, text: str) -> None:
        """Write the text completely or not at all; StorageError if the disk fails."""
        write_atomically(self.path(run_id), text.encode())

    def find(self, run_id: str) -> str | None:
        """The text, or None; StorageError if it cannot be read."""
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

    def save(self, manifest: Manifest) -> Manifest:
        """Write the manifest and return it with its time; a re-run loses nothing that was written about the run."""
        if (earlier := self.head(manifest.id)) is not None:
            about = {name: getattr(earlier, name) for name in _ABOUT}
            manifest = replace(manifest, **about, is_kept=earlier.is_kept or manifest.is_kept)
        return self.restore(replace(manifest, updated=time.time()))

    def find(self, run_id: str) -> Manifest | None:
        """The manifest of this id; None if it is missing or unreadable."""
        path = self.path(run_id)
        try:
            values = _read_values(path.read_bytes())
            return Manifest(**values | {"rows": tuple(ImageRow(**row) for row in values["rows"])})
        except _NO_MANIFEST:
            return None

    def head(self, run_id: str, session: str | None = None) -> RunHead | None:
        """The head of a run of this visitor (or any), without reading its rows; None if missing or unreadable."""
        path = self.path(run_id)
        try:
            with path.open("rb") as file:
                data = file.read(_HEAD_BYTES)
                if session is not None and not re.search(_SESSION % re.escape(json.dumps(session)).encode(), data):
                    return None
                while not (found := _find_head(data)) and (piece := file.read(_PIECE)):
                    data += piece
            return found[0] if found else None
        except _NO_MANIFEST:
            return None

    def get(self, run_id: str) -> Manifest:
        """The manifest of this id; StorageError if missing."""
        if (manifest := self.find(run_id)) is None:
            raise StorageError(f"no run {run_id!r} on record")
        return manifest

    def list(self, session: str | None = None) -> list[RunHead]:
        """All runs, newest first; only this visitor's when ``session`` is given."""
        runs = (self.head(path.stem, session) for path in self.folder.glob("*.json") if _is_id(path.stem))
        mine = [run for run in runs if run is not None and session in (None, run.session)]
        return sorted(mine, key=lambda run: run.updated, reverse=True)

    def keep(self, run_id: str, is_kept: bool = True) -> None:
        """Mark the run as kept (its pictures are then never evicted), or not."""
        self._rewrite(run_id, is_kept=is_kept, updated=time.time())

    def add_label_task(self, run_id: str, task_id: str) -> None:
        """Add a labelling task to the run, and keep it so that its pictures are not evicted."""
        earlier = head.label_tasks if (head := self.head(run_id)) else ()
        self._rewrite(run_id, label_tasks=(*earlier, task_id), is_kept=True, updated=time.time())

    def describe(self, run_id: str, **about: Any) -> None:
        """Change name, note, headline or sharing of the run; its place in the list stays."""
        self._rewrite(run_id, **about)

    def protected_ids(self) -> set[str]:
        """Ids of the pictures of kept and running runs, which eviction must not touch."""
        return {image_id for run in self.list() if run.is_kept or run.is_at_work for image_id in run.image_ids}

    def restore(self, manifest: Manifest) -> Manifest:
        manifest = manifest.described()
        rows = json.dumps([_shallow_dict(row, ImageRow) for row in manifest.rows], ensure_ascii=False)
        self._write_parts(manifest, f', "rows": {rows}}}'.encode())
        return manifest

    def _rewrite(self, run_id: str, **about: Any) -> None:
        """Change facts of the head and leave the rows unread; StorageError if there is no such run."""
        path = self.path(run_id)
        try:
            data = path.read_bytes()
            if not (found := _find_head(data)) or not data.endswith(b"]}"):
                raise ValueError("it is not whole")
        except _NO_MANIFEST as error:
            raise StorageError(f"no run {run_id!r} on record") from error
        head, end = found
        self._write_parts(replace(head, **about), data[end:])

    def _write_parts(self, head: RunHead, rows: bytes) -> None:
        values = _shallow_dict(head, RunHead)
        values["kept"] = values.pop("is_kept")
        for name in ("name", "note", "headline", "is_shared"):
            if not values[name]:
                del values[name]
        text = json.dumps(values, ensure_ascii=False).removesuffix("}")
        write_atomically(self.path(head.id), text.encode() + rows)


def _find_head(data: bytes) -> tuple[RunHead, int] | None:
    """The head at the beginning of a manifest, and where its rows begin; None if that is not in ``data``."""
    for rows in _ROWS.finditer(data):
        with suppress(ValueError):  # rows of a table in the design
            return RunHead(**_read_values(data[: rows.start()] + b"}")), rows.start()
    return None


def _shallow_dict(record: object, kind: type) -> dict[str, Any]:
    """The fields of a dataclass; dataclasses.asdict copies deeply: a third of a second for 2,000 rows."""
    return {f.name: getattr(record, f.name) for f in fields(kind)}


def _read_values(data: bytes) -> dict[str, Any]:
    values = dict(json.loads(data))
    values["is_kept"] = values.pop("kept", False)
    lists = ("label_tasks", "image_ids", "models", "conditions")
    values |= {name: tuple(values[name]) for name in lists if name in values}
    if not "".join(("0", *values.get("image_ids", ()))).isalnum():
        raise ValueError("ids of pictures have letters and digits only")
    return values


def make_room(data: Path, limit: int, images: ImageStore, manifests: ManifestStore) -> Sequence[str]:
    """Delete files above the limits of a data folder, but none of kept or running runs.

    ``data``: the folder that holds everything; ``limit``: bytes of the pictures; 5 % of it, or 50 MB, is the limit of
    reports, stored runs and derived data each.

    Returns the ids of deleted pictures.
    """

    @cache
    def kept_runs() -> set[str]:
        return {run.id for run in manifests.list() if run.is_kept}

    def is_needed(run_id: str) -> bool:
        run = manifests.head(run_id)
        return run is not None and (run.is_kept or run.is_at_work)

    @cache
    def shown_files() -> set[str]:
        """Names of the derived files that reports of kept runs show."""
        paths = (data / "reports" / f"{run_id}.json" for run_id in kept_runs())
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())
        return {name for text in texts for name in _NAMED.findall(text)}

    reports, side_limit = data / "reports", max(_LEAST, int(_SHARE * limit))
    evict_oldest(reports.glob("*.json"), side_limit, protected=lambda path: path.stem in kept_runs())
    for run in evict_oldest(manifests.folder.glob("*.json"), side_limit, protected=lambda path: is_needed(path.stem)):
        (reports / run.name).unlink(missing_ok=True)
    derived = [path for name in DERIVED for path in (data / name).rglob("*.*")]
    evict_oldest(derived, side_limit, protected=lambda path: path.relative_to(data).as_posix() in shown_files())
    return [] if images.n_bytes <= limit else images.evict(limit, protected=manifests.protected_ids())
