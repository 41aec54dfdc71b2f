"""The database of labels: one place that opens it, upgrades it, and gives transactions.

SQLite by default, in WAL mode with every commit forced to the disk: an answer that was acknowledged
survives a kill and a power cut, and none is acknowledged while its file is not where it should be
(:mod:`bias_core.annotation.label_file`). Any SQLAlchemy URL of PostgreSQL serves several machines.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import create_engine, event, func, insert, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bias_core.annotation.group_commit import GroupCommit
from bias_core.annotation.label_file import LabelFile, copy_database
from bias_core.annotation.schema import items, metadata, task_versions, upgrade
from bias_core.annotation.tasks import Task, task_from
from bias_core.errors import BiasCoreError, StorageError
from bias_core.runs.files import replaced_file

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

T = TypeVar("T")

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONNECTIONS = 16  # to a database that several may write to at once
_PATIENCE_SECONDS = 30  # for a database that another process is writing to


class LabelStore:
    """Opens on first use; safe to use from several threads and processes.

    Parameters
    ----------
    url : of SQLAlchemy, such as ``sqlite:////data/labels.sqlite`` or
        ``postgresql+psycopg://user:password@host/labels``.
    pictures : folder of the pictures that raters see; shared by all machines that serve them.
    clock : seconds since 1970.
    rng : decides where among a rater's pictures the attention checks come.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        pictures: Path,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        try:
            self._url = make_url(url)
        except ArgumentError as error:
            raise StorageError(f"the labels' database has no valid URL: {error}") from error
        self._path = self._sqlite_path()
        self.pictures = pictures
        self.rng = rng or random.Random()
        self._clock = clock
        self._engine: Engine | None = None
        self._file: LabelFile | None = None  # of the engine, where that is one file
        self._written: LabelFile | None = None  # by the transaction that is under way
        self._opening = threading.Lock()
        self._group_commit = GroupCommit(self._begin_write, self._commit_write, errors=self._errors)
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="labels")
        self._version = lru_cache(maxsize=256)(self._read_version)
        self.n_checks = lru_cache(maxsize=256)(self._count_checks)

    @property
    def is_sqlite(self) -> bool:
        """Whether the labels are in one file."""
        return self._url.get_backend_name() == "sqlite"

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
        with self._errors():
            if self.is_sqlite:
                with self._group_commit.transaction() as connection:
                    yield connection
            else:
                with self._open()[0].begin() as connection:
                    yield connection

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have ``act`` done by a thread, and what it wrote on the disk before it is told.

        Acts that wait at the same time share a commit where the database has one writer, so that all of an
        act happens inside the transactions it opens.
        """
        if self.is_sqlite:
            return self._group_commit.submit(act)
        return self._threads.submit(act)

    def task(self, task_id: str, version: int) -> Task:
        """The texts of one version; what never changes is read once."""
        return self._version(task_id, version)

    def forget_texts(self) -> None:
        """After a task was deleted: what is read is read anew."""
        self._version.cache_clear()

    def erase_traces(self) -> None:
        """After a deletion: no copy of the rows stays in SQLite's log, or until that is next full."""
        if self._path is not None:
            with self.read():  # the file is there: to open one that is not would make it
                pass
            with self._errors(), closing(sqlite3.connect(self._path, timeout=2)) as log:
                log.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, target: Path) -> Path:
        """A copy of the whole SQLite file, whole at one moment while answers go on coming in.

        Raises
        ------
        StorageError
            The labels are in another database (use :meth:`dump`), or the disk is full.
        """
        if not self.is_sqlite:
            raise StorageError("a copy of the file exists of SQLite only; save the labels as JSONL")
        with self.read() as connection:
            source: Any = connection.connection.driver_connection
            copy_database(source, target)
        return target

    def dump(self, target: Path) -> Path:
        """Every row of every table, a line of JSON each: from any database, for :meth:`restore`."""
        with (
            self.read() as connection,
            replaced_file(target) as temporary,
            temporary.open("w", encoding="utf-8") as lines,
        ):
            for table in metadata.sorted_tables:
                for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
                    line = {"table": table.name, "row": dict(row)}
                    lines.write(json.dumps(line, ensure_ascii=False) + "\n")
        return target

    def restore(self, source: Path) -> int:
        """Fill an empty database from :meth:`dump`, of this or another kind; the number of rows.

        Raises
        ------
        StorageError
            The database holds tasks already, or the file is not such a dump of this version.
        """
        known = {table.name: table for table in metadata.sorted_tables}
        n_rows = 0
        with self.write() as connection:
            if connection.scalar(select(func.count()).select_from(known["tasks"])):
                raise StorageError("labels are restored into an empty database only; this one has tasks")
            try:
                with source.open(encoding="utf-8") as lines:
                    for line in map(json.loads, lines):
                        if line["table"] == "schema_version":
                            continue
                        connection.execute(insert(known[line["table"]]).values(**line["row"]))
                        n_rows += 1
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise StorageError(f"{source.name} is no dump of labels: {error!r}") from error
            _continue_numbering(connection)
        return n_rows

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
                        self._file.followed()
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

    def _begin_write(self) -> Connection:
        engine, self._written = self._open()
        connection = engine.execution_options(write=True).connect()
        connection.begin()
        return connection

    def _commit_write(self, connection: Connection) -> None:
        file = self._written
        number = 0 if file is None else file.number(connection)
        connection.commit()
        if file is not None:
            file.committed(number)

    def _new_engine(self) -> Engine:
        if not self.is_sqlite:
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
        if not self.is_sqlite or not name or name == ":memory:":
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
        known = select(func.count()).select_from(items).where(items.c.task_id == task_id)
        with self.read() as connection:
            return connection.scalar(known.where(items.c.gold.is_not(None))) or 0

    def _read_version(self, task_id: str, version: int) -> Task:
        table = task_versions.c
        wanted = select(table.texts).where(table.task_id == task_id, table.version == version)
        with self.read() as connection:
            return task_from(connection.execute(wanted).scalar_one(), id=task_id, version=version)


def token(text: str) -> str:
    """``text`` where it could be a token of ours, else "", which is nobody's.

    Examples
    --------
    >>> token("zJ8s-_"), token("' OR 1=1")
    ('zJ8s-_', '')
    """
    return text if _TOKEN.fullmatch(text) else ""


def hashed(secret: str) -> str:
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


def _continue_numbering(connection: Connection) -> None:
    """PostgreSQL's counters go on behind the rows that came with their numbers."""
    if connection.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None and table.name != "schema_version":
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            last = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, last, False)))
