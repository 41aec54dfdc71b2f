"""Answers copied to a dataset of a hub every few minutes, where a disk does not outlive its machine.

Each process appends to a JSONL file of its own, which a ``CommitScheduler`` uploads. Lines are only ever
added: an undo is a line that withdraws another, a deletion is a line that names a rater all of whose lines
are to be dropped. A line is written before it is marked as written, so that after a kill, or of two
processes at once, it may stand twice, under the same id, and is never missing.
"""

import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sqlalchemy import exists, insert, select

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.schema import answers, deletions, items, raters, synced
from bias_core.annotation.task_owner import iso
from bias_core.errors import StorageError
from bias_core.exchange.export import json_lines

_AT_ONCE = 5000  # lines of one transaction


class LabelSync:
    """Copies new answers of every task of ``store`` to a file in ``folder`` and has it uploaded.

    ``schedule`` makes the ``huggingface_hub.CommitScheduler`` that uploads the folder, on the first copy: a lock
    around writing, ``trigger`` for an upload now, and ``stop``. ``last_error`` is why the last upload or copy did
    not work, "" while all is well; for the owner's page.
    """

    def __init__(self, store: LabelStore, folder: Path, schedule: Callable[[Path], Any]) -> None:
        self.last_error = ""
        self._store = store
        self._file = folder / f"labels-{uuid.uuid4().hex}.jsonl"
        self._schedule = schedule
        self._scheduler: Any = None
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, minutes: float) -> None:
        """Copy and upload by the clock, in a thread of its own, until :meth:`close`."""
        self._thread = threading.Thread(target=self._run, args=(60 * minutes,), daemon=True)
        self._thread.start()

    def flush(self) -> bool:
        """Copy what is new and upload it now; whether that worked (else see ``last_error``)."""
        error: BaseException | None = None
        if self._scheduler is None:
            # A future keeps whatever is raised: the hub's library has errors of its own, which change.
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(self._schedule, self._file.parent)
            error = future.exception()
            self._scheduler = None if error else future.result()
        if error is None:
            try:
                while self._copy(self._scheduler.lock):
                    pass
                error = self._scheduler.trigger().exception()
            except StorageError as problem:
                error = problem
        self.last_error = "" if error is None else (str(error) or type(error).__name__)[:500]
        return error is None

    def close(self) -> None:
        """Upload the last answers and stop."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        if self._scheduler is not None:
            self._scheduler.stop()

    def _run(self, seconds: float) -> None:
        while not self._end.wait(seconds):
            self.flush()

    def _copy(self, lock: threading.Lock) -> int:
        """Append some lines that no process has appended, on the disk before they are marked."""
        with self._store.read() as connection:
            acts, gone = connection.execute(_NEW).all(), connection.execute(_GONE).all()
        marks = {("answer", row.id) for row in acts} | {("delete", row.id) for row in gone}
        if marks:  # raters do not wait for this file, so that another process may write the same lines
            self._append([*map(_answer_line, acts), *map(_deletion_line, gone)], lock)
            numbers = [number for _, number in marks]
            nearby = select(synced).where(synced.c.row_id.between(min(numbers), max(numbers)))
            with self._store.write() as connection:
                if new := marks - {(row.kind, row.row_id) for row in connection.execute(nearby)}:
                    connection.execute(insert(synced), [{"kind": k, "row_id": i} for k, i in sorted(new)])
        return len(marks)

    def _append(self, lines: list[dict[str, Any]], lock: threading.Lock) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with lock, self._file.open("a", encoding="utf-8") as file:
                file.write(json_lines(lines))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write {self._file.name}: {error.strerror}") from error


def hub_sync(store: LabelStore, folder: Path, *, repo: str, minutes: int) -> LabelSync:
    """A running copy to the dataset ``repo``, private when it is made, with the token of this machine."""

    def schedule(path: Path) -> Any:
        from huggingface_hub import CommitScheduler

        where = {"repo_id": repo, "repo_type": "dataset", "path_in_repo": "labels"}
        return CommitScheduler(folder_path=path, every=minutes, private=True, **where)

    sync = LabelSync(store, folder, schedule)
    sync.start(minutes)
    return sync


_earlier = answers.alias()
_NEW = (
    select(answers, _earlier.c.client_id.label("withdraws_id"), raters.c.name)
    .add_columns(items.c.task_id, items.c.image_id, items.c.identities, items.c.gold)
    .join(raters, raters.c.id == answers.c.rater_id)
    .join(items, items.c.id == answers.c.item_id)
    .outerjoin(_earlier, _earlier.c.id == answers.c.withdraws)
    .where(~exists().where(synced.c.kind == "answer", synced.c.row_id == answers.c.id))
    .order_by(answers.c.id)
    .limit(_AT_ONCE)
)
_is_copied = exists().where(synced.c.kind == "delete", synced.c.row_id == deletions.c.id)
_GONE = select(deletions).where(~_is_copied).order_by(deletions.c.id).limit(_AT_ONCE)


def _answer_line(row: Any) -> dict[str, Any]:
    return {
        "id": f"{row.name}/{row.client_id}",
        "kind": row.kind,
        "withdraws": f"{row.name}/{row.withdraws_id}" if row.withdraws_id else None,
        "task": row.task_id,
        "task_version": row.task_version,
        "image_id": row.image_id,
        "identities": row.identities,
        "known": row.gold,
        "rater": row.name,
        "choices": row.choices,
        "seconds": row.duration_ms / 1000,
        "at": iso(row.at_ms),
    }


def _deletion_line(row: Any) -> dict[str, Any]:
    line = {"id": f"{row.rater}/deleted", "kind": "delete", "task": row.task_id, "rater": row.rater}
    return line | {"n_answers": row.n_answers, "at": iso(row.at_ms)}
