"""The database of labels: one place that opens it, upgrades it, and gives transactions.

SQLite by default, in WAL mode with every commit forced to the disk: an answer that was acknowledged
survives a kill and a power cut, and none is acknowledged while its file is not where it should be
(:mod:`bias_core.annotation.label_file`). Any SQLAlchemy URL of PostgreSQL serves several machines.
"""

from __future__ import annotations

import hashlib
import random
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bias_core.annotation.label_file import LabelFile
from bias_core.annotation.schema import items, task_versions, upgrade
from bias_core.annotation.tasks import Task, task_from
from bias_core.errors import BiasCoreError, StorageError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

T = TypeVar("T")

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONNECTIONS = 16  # to a database that several may write to at once
_PATIENCE_SECONDS = 30  # for a database that another process is writing to
_MOST_ACTS = 256  # of one commit, so that nobody waits long for those who come later


class LabelStore:
    """Opens on first use; safe to use from several threads and processes.

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
        self._path = self._sqlite_path()
        self.pictures = pictures
        self.most_picture_bytes = most_picture_bytes
        self.rng = rng or random.Random()
        self._clock = clock
        self._engine: Engine | None = None
        self._file: LabelFile | None = None  # of the engine, where that is one file
        self._file_of_write: LabelFile | None = None  # of the transaction that is under way
        self._opening = threading.Lock()
        self._group_commit = _GroupCommit(self._begin_write, self._commit_write, errors=self._errors)
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="labels")
        self.task = lru_cache(maxsize=256)(self._read_version)
        self.n_checks = lru_cache(maxsize=256)(self._count_checks)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A view of the database that nobody changes meanwhile."""
        with self._errors(), self._open()[0].connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: on the disk when the block ends well, undone when it raises."""
        transaction = self._group_commit.transaction if self._is_sqlite else self._begin_own
        with self._errors(), transaction() as connection:
            yield connection

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have ``act`` done by a thread, and what it wrote on the disk before it is told.

        Acts that wait at the same time share a commit where the database has one writer, so that all of an
        act happens inside the transactions it opens.
        """
        return self._group_commit.submit(act) if self._is_sqlite else self._threads.submit(act)

    def erase_traces(self) -> None:
        """After a deletion: no copy of the rows stays in SQLite's log, or until that is next full."""
        self.task.cache_clear()
        if self._path is not None:
            with self.read():  # the file is there: to open one that is not would make it
                pass
            with self._errors(), closing(sqlite3.connect(self._path, timeout=2)) as log:
                log.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the database; it opens again on the next use."""
        with self._opening, self._errors():
            if self._file is not None and self._file.has_lost_its_name() and not self._file.is_succeeded():
                self._file.rescue()  # nothing else has it when this process ends
            self._let_go()

    def _open(self) -> tuple[Engine, LabelFile | None]:
        """The database that has its name now; StorageError while that has not all that was acknowledged."""
        with self._opening, self._errors():
            if self._file is not None and (trouble := self._file.trouble()):
                self._follow_name(self._file, trouble)
            if self._engine is None:
                try:
                    self._engine = self._new_engine()
                    with self._engine.execution_options(write=True).begin() as connection:
                        upgrade(connection)
                        if self._file is not None:
                            self._file.follow(connection)
                    if self._file is not None:
                        self._file.watch_names()
                except (BiasCoreError, SQLAlchemyError, sqlite3.Error, OSError):
                    self._let_go()
                    raise
            return self._engine, self._file

    def _follow_name(self, file: LabelFile, trouble: str) -> None:
        """Another file has the name: it is taken where it has everything; else that is kept in a copy."""
        if not file.has_lost_its_name():
            raise StorageError(f"the labels' database: {trouble}")
        if not file.is_succeeded():
            raise StorageError(
                f"the labels' database: {trouble}; put it back, or give its name to {file.rescue()}, which "
                "has every answer"
            )
        self._let_go()

    def _let_go(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        if self._file is not None:
            self._file.close()
        self._engine = self._file = None

    def _begin_own(self) -> AbstractContextManager[Connection]:
        return self._open()[0].begin()

    def _begin_write(self) -> Connection:
        engine, self._file_of_write = self._open()
        connection = engine.execution_options(write=True).connect()
        connection.begin()
        return connection

    def _commit_write(self, connection: Connection) -> None:
        file = self._file_of_write
        number = 0 if file is None else file.number(connection)
        connection.commit()
        if file is not None:
            file.committed(number)

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

    def _sqlite_path(self) -> Path | None:
        """The one file that the labels are in; None where they are not in one."""
        name = self._url.database
        if not self._is_sqlite or not name or name == ":memory:":
            return None
        if name.startswith("file:"):
            raise StorageError("the labels' database is given as a file, not as a URI of SQLite's own")
        return Path(name).expanduser().absolute()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            # The statement may hold what a rater said, and the URL a password: neither is repeated.
            reason = str(getattr(error, "orig", None) or type(error).__name__)
            raise StorageError(f"the labels' database: {reason}") from error
        except sqlite3.Error as error:
            raise StorageError(f"the labels' database: {error}") from error
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"the labels' database: {error.strerror}") from error

    def _count_checks(self, task_id: str) -> int:
        """How many items of a task have a known answer; that never changes."""
        checks = (items.c.task_id == task_id) & items.c.gold.is_not(None)
        with self.read() as connection:
            return connection.scalar(select(func.count()).select_from(items).where(checks)) or 0

    def _read_version(self, task_id: str, version: int) -> Task:
        """The texts of one version of a task; they never change."""
        table = task_versions.c
        texts = select(table.texts).where(table.task_id == task_id, table.version == version)
        with self.read() as connection:
            return task_from(connection.execute(texts).scalar_one(), id=task_id, version=version)


class _GroupCommit:
    """One writer at a time, and several acts in one commit, so that the disk is waited for once.

    SQLite has one writer, and forcing a commit to the disk takes longer than everything in it. While one
    commit is under way the next acts wait; a thread then does them one after the other in a single
    transaction, each whole or not at all, and all are told that they are done when that is on the disk.

    Parameters
    ----------
    begin : gives a connection in a transaction that may write.
    commit : ends that transaction, with all that was done in it on the disk.
    errors : what a commit of several acts raises, in the caller's own terms.
    """

    def __init__(
        self,
        begin: Callable[[], Connection],
        commit: Callable[[Connection], None],
        *,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._begin, self._commit, self._errors = begin, commit, errors
        self._writing = threading.Lock()
        self._of_thread = threading.local()
        self._queue: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="labels")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A block of one's own, or, inside an act that was submitted, a part of the group's transaction."""
        connection: Connection | None = getattr(self._of_thread, "connection", None)
        if connection is not None:
            with _savepoint(connection):
                yield connection
            return
        with self._writing, self._begin() as connection:
            yield connection
            try:
                self._commit(connection)
            except SQLAlchemyError:
                connection.invalidate()  # closed for good, with what it had not committed
                raise

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """What ``act`` returns or raises, after the commit; where that fails, all in it are told.

        Who cancels before its turn comes is left out.
        """
        future: Future[T] = Future()
        self._queue.append((act, future))
        self._thread.submit(self._work)  # finds nothing to do where an earlier call took the act along
        return future

    def _work(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(_MOST_ACTS, len(self._queue)))]
        batch = [(act, future) for act, future in batch if future.set_running_or_notify_cancel()]
        if not batch:
            return
        results: list[Any] = [None] * len(batch)
        errors = [_Caught() for _ in batch]
        failure = _Caught()
        with failure, self._errors(), self.transaction() as self._of_thread.connection:
            for i, (act, _) in enumerate(batch):
                with errors[i]:
                    results[i] = act()
        self._of_thread.connection = None
        for (_, future), result, caught in zip(batch, results, errors, strict=True):
            error = failure.error or caught.error
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class _Caught:
    """Keeps what a block raises, to hand it to the thread that asked."""

    error: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        self.error = error
        return True


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


def token(text: str) -> str:
    """``text`` where it could be a token of ours, else "", which is nobody's.

    Examples
    --------
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
        "synchronous = FULL",  # the log is on the disk before a commit returns
        "foreign_keys = ON",
        "secure_delete = ON",  # deleted answers are overwritten, not only forgotten
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its turn at once: one that read first could find the database changed, and fail.
    writing = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
