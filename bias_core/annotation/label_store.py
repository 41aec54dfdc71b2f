"""The database of labels: one place that opens it, makes its tables, and gives transactions.

SQLite by default, in WAL mode where the file system allows it, with every commit forced to the disk: an answer
that was acknowledged survives a kill and a power cut, and none is acknowledged while its file is not where it
should be (:class:`LabelFile`). Any SQLAlchemy URL of PostgreSQL serves several machines.
"""

import hashlib
import logging
import random
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bias_core.annotation.label_file import LabelFile, count_change, give_id
from bias_core.annotation.schema import items, make_tables, task_versions
from bias_core.annotation.tasks import KINDS, Task, task_from
from bias_core.errors import BiasCoreError, NotAllowed, StorageError
from bias_core.waiting import handing_over

T = TypeVar("T")

_log = logging.getLogger(__name__)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONNECTIONS = 16  # to a database that several may write to at once
_PATIENCE_SECONDS = 30  # for a database that another process is writing to
_MOST_ACTS = 256  # of one commit, so that nobody waits long for those who come later


class RemovedQuestion(NotAllowed):
    """The task asks a kind of question that an earlier version of the program had."""


class LabelStore:
    """Opens on first use; safe to use from several threads and processes.

    SQLite has one writer, and forcing a commit to the disk takes longer than everything in it. While one
    commit is under way the next acts wait; a thread then does them one after the other in a single
    transaction, each whole or not at all, and all are told that they are done when that is on the disk.

    Parameters
    ----------
    url : of SQLAlchemy, such as ``sqlite:////data/labels.sqlite`` or
        ``postgresql+psycopg://user:password@host/labels``.
    pictures : folder of the pictures that raters see; shared by all machines that serve them.
    clock : seconds since 1970.
    rng : decides where among a rater's pictures the attention checks come.
    most_picture_bytes : that the pictures of all tasks may take together.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        pictures: Path,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        most_picture_bytes: float = float("inf"),
    ) -> None:
        try:
            self._url = make_url(url)
        except ArgumentError as error:
            raise StorageError(f"the labels' database has no valid URL: {error}") from error
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        name = self._url.database or ":memory:"
        if self._is_sqlite and name.startswith("file:"):
            raise StorageError("the labels' database is given as a file, not as a URI of SQLite's own")
        self._path = Path(name).expanduser().absolute() if self._is_sqlite and name != ":memory:" else None
        self.pictures = pictures
        self.most_picture_bytes = most_picture_bytes
        self.rng = rng or random.Random()
        self._clock = clock
        self._engine: Engine | None = None
        self._file: LabelFile | None = None  # of the engine, where that is one file
        self._opening, self._writing = threading.Lock(), threading.Lock()
        self._of_thread = threading.local()
        self._queue: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._threads = ThreadPoolExecutor(1 if self._is_sqlite else _CONNECTIONS, thread_name_prefix="labels")
        self.task = lru_cache(maxsize=256)(self._read_version)
        self.n_checks = lru_cache(maxsize=256)(self._count_checks)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A view of the database that nobody changes meanwhile."""
        with _errors(), self._open()[0].connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: on the disk when the block ends well, else undone; in an act, part of that of all acts."""
        with _errors():
            if (shared := getattr(self._of_thread, "connection", None)) is not None:
                with _savepoint(shared):
                    yield shared
            elif not self._is_sqlite:
                with self._open()[0].begin() as connection:
                    yield connection
            else:
                with self._writing:
                    yield from self._write_alone()

    def _write_alone(self) -> Iterator[Connection]:
        engine, file = self._open()
        with engine.execution_options(write=True).connect() as connection:
            connection.begin()
            before = _n_written(connection)
            yield connection
            try:
                if file is not None and _n_written(connection) != before:
                    count_change(connection)
                connection.commit()
            except SQLAlchemyError:
                connection.invalidate()  # closed for good, with what it had not committed
                raise
            if file is not None:
                file.check()

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have ``act`` done by a thread, and what it wrote on the disk before it is told.

        Acts that wait at the same time share a commit where the database has one writer, so that all of an
        act happens inside the transactions it opens; where that commit fails, all in it are told. Who cancels
        before its turn comes is left out.
        """
        if not self._is_sqlite:
            return self._threads.submit(act)
        future: Future[T] = Future()
        self._queue.append((act, future))
        self._threads.submit(self._work)  # finds nothing to do where an earlier call took the act along
        return future

    def _work(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(_MOST_ACTS, len(self._queue)))]
        if not (batch := [(act, future) for act, future in batch if future.set_running_or_notify_cancel()]):
            return
        results: list[Future[Any]] = [Future() for _ in batch]  # told to nobody before the commit
        commit: Future[None] = Future()
        with handing_over(commit), self.write() as self._of_thread.connection:
            for (act, _), result in zip(batch, results, strict=True):
                with handing_over(result):
                    result.set_result(act())
        self._of_thread.connection = None
        for (_, future), result in zip(batch, results, strict=True):
            if (error := (commit if commit.done() else result).exception()) is None:
                future.set_result(result.result())
            else:
                future.set_exception(error)

    def erase_traces(self) -> None:
        """After a deletion: no copy of the rows stays in SQLite's log, or until that is next full."""
        self.task.cache_clear()
        if self._path is not None:
            with _errors():
                _, file = self._open()
                if file is not None:
                    file.empty_log()

    def close(self) -> None:
        """Let go of the database; it opens again on the next use."""
        with self._opening, _errors():
            self._let_go()

    def _open(self) -> "tuple[Engine, LabelFile | None]":
        """The database; StorageError while its file is gone, replaced or read-only."""
        with self._opening, _errors():
            if self._file is not None:
                self._file.check()
            if self._engine is None:
                try:
                    self._engine = self._new_engine()
                    with self._engine.execution_options(write=True).begin() as connection:
                        make_tables(connection)
                        _note_removed_questions(connection)
                        if self._file is not None:
                            give_id(connection)
                    if self._file is not None:
                        self._file.watch()
                except (BiasCoreError, SQLAlchemyError, sqlite3.Error, OSError):
                    self._let_go()
                    raise
            return self._engine, self._file

    def _let_go(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        if self._file is not None:
            self._file.close()
        self._engine = self._file = None

    def _new_engine(self) -> Engine:
        if not self._is_sqlite:
            try:
                return create_engine(self._url, pool_size=_CONNECTIONS, pool_pre_ping=True)
            except ImportError as error:
                raise StorageError(
                    f"the driver of {self._url.drivername} is not installed (pip install 'psycopg[binary]')"
                ) from error
        url = self._url
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = LabelFile(self._path)
            url = url.set(database=str(self._path))
        engine = create_engine(url, connect_args={"timeout": _PATIENCE_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _count_checks(self, task_id: str) -> int:  # never changes
        checks = (items.c.task_id == task_id) & items.c.gold.is_not(None)
        with self.read() as connection:
            return connection.scalar(select(func.count()).select_from(items).where(checks)) or 0

    def _read_version(self, task_id: str, version: int) -> Task:  # never changes
        table = task_versions.c
        of_version = select(table.texts).where(table.task_id == task_id, table.version == version)
        with self.read() as connection:
            texts = connection.execute(of_version).scalar_one()
        if texts["kind"] not in KINDS:
            raise RemovedQuestion(
                "this task asks a kind of question that this version of the program no longer has; its answers stay "
                "in the database"
            )
        return task_from(texts, id=task_id, version=version)


def _note_removed_questions(connection: Connection) -> None:
    kind = task_versions.c.texts["kind"].as_string()
    n = connection.scalar(select(func.count(task_versions.c.task_id.distinct())).where(kind.not_in(KINDS)))
    if n:
        _log.warning(
            "labels: %d of the tasks ask a kind of question that this version no longer has; they are skipped, and "
            "their answers stay in the database",
            n,
        )


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """What the block did is undone when it raises; SQLAlchemy's own takes longer than what is inside."""
    database: Any = connection.connection.driver_connection
    database.execute("SAVEPOINT block")
    done = False
    try:
        yield
        done = True
    finally:
        if not done:
            database.execute("ROLLBACK TO block")
        database.execute("RELEASE block")


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        if isinstance(error, StorageError):
            raise
        # The statement may hold what a rater said, and the URL a password: neither is repeated.
        reason = getattr(error, "orig", None) or getattr(error, "strerror", None)
        reason = reason or (error if isinstance(error, sqlite3.Error) else type(error).__name__)
        raise StorageError(f"the labels' database: {reason}") from error


def token(text: str) -> str:
    """``text`` where it could be a token of ours, else "", which is nobody's.

    >>> token("zJ8s-_"), token("' OR 1=1")
    ('zJ8s-_', '')
    """
    return text if _TOKEN.fullmatch(text) else ""


def hash_of(secret: str) -> str:
    """What is kept of a code or secret; these are random and long, so that nobody can try them all."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _set_up_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where _begin_sqlite says
    for pragma in (
        "synchronous = EXTRA",  # the log is on the disk before a commit returns, or that the journal is gone
        "foreign_keys = ON",
        "secure_delete = ON",  # deleted answers are overwritten, not only forgotten
    ):
        connection.execute(f"PRAGMA {pragma}")


def _n_written(connection: Connection) -> int:
    """Rows that this connection has written so far."""
    database: Any = connection.connection.driver_connection
    return int(database.total_changes)


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its turn at once: one that read first could find the database changed, and fail.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN")
