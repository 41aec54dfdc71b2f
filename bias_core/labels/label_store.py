"""The database of people's answers, and checks of its file."""

import hashlib
import logging
import os
import random
import re
import secrets
import shlex
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bias_core.errors import BiasCoreError, StorageError
from bias_core.store.files import use_journal
from bias_core.study.label_tasks import Task, task_from
from bias_core.waiting import handing_over

_log = logging.getLogger(__name__)
_LOCK_SECONDS = 1.5  # for another program that keeps the file locked
_REFUSAL_SECONDS = 0.5  # after such a wait: the requests that waited behind it do not wait in turn
_ENDS = ("", "-wal", "-shm")  # of the names of a database, its log, and the index of that
_N_LOOKS, _LOOK_AGAIN_SECONDS = 3, 0.02  # at a database that seems changed: its log may be going into it


class LabelsGone(StorageError):
    """The database file was removed or replaced: nothing is stored until it is back, or the program restarts."""

    def __init__(self, trouble: str) -> None:
        super().__init__(
            f"the labels' database: {trouble}; put it back, or restart the program to go on with the present "
            "file (the program deletes nothing)"
        )


def give_id(connection: Connection) -> None:
    """Give a database a number that identifies it."""
    if not connection.exec_driver_sql("PRAGMA application_id").scalar():
        connection.exec_driver_sql(f"PRAGMA application_id = {1 + secrets.randbelow(2**31 - 1)}")


def count_change(connection: Connection) -> None:
    """Count a transaction in the first page of the database, so that an older copy is recognised."""
    n = connection.exec_driver_sql("PRAGMA user_version").scalar() or 0
    connection.exec_driver_sql(f"PRAGMA user_version = {(n + 1) % 2**31}")


class LabelFile:
    """The names of an open database and of its log, which must stay with the same files.

    Every commit is moved from the log to the database. Where other programs changed the files, a connection that can
    only read is closed last: any other would write the rest of the log to the file that has the name now, and delete
    the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        names = self._names()
        if names["-wal"].exists() and not (names[""].exists() and names[""].stat().st_size):
            raise StorageError(
                f"{path.name} is missing or empty, and {path.name}-wal is there: put the database back, or move "
                f"{path.name}-wal away to begin without it"
            )
        _keep_private(names)
        _refuse_damage(path)
        self._writer = sqlite3.connect(path, timeout=_LOCK_SECONDS, check_same_thread=False, isolation_level=None)
        try:
            self._ends = _ENDS if _use_journal(self._writer, path) == "wal" else _ENDS[:1]
            _set_up_sqlite(self._writer, None)
            self._reader = sqlite3.connect(_address(path, "mode=ro"), uri=True, check_same_thread=False)
        except (sqlite3.Error, StorageError):
            self._writer.close()
            raise
        self._found: dict[str, os.stat_result] = {}  # by the ends of their names
        self._ids, self._n_changes, self._trouble = {0}, 0, ""

    def watch(self) -> None:
        """Start to check, after the first commit, that the names stay with these files."""
        self._writer.execute("PRAGMA busy_timeout = 0")
        self.empty_log()
        id_in_log = self._reader.execute("PRAGMA application_id").fetchone()[0]
        self._found = {end: self._names()[end].stat() for end in self._ends}
        id_in_file, self._n_changes = _read_head(self._path)
        self._ids = {id_in_log, id_in_file}  # two, as long as another program keeps the log from being emptied

    def check(self) -> None:
        """Raise StorageError if the file is gone, replaced, overwritten, cut short or read-only."""
        try:
            self._check_names()
            self._check_content()
        except LabelsGone as error:
            if self._trouble != f"{error}":
                self._trouble = f"{error}"
                self._log_rescue()
            raise
        self._trouble = ""

    def empty_log(self) -> None:
        """Move the log to the database, as far as no snapshot still needs it."""
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the database after all its other connections; leave its files alone if other programs changed them."""
        first, last = self._reader, self._writer
        try:
            if self._found:
                self.check()
                self.empty_log()
        except (OSError, sqlite3.Error) as error:  # StorageError is one
            _log.warning("labels: the files are left as they are (%s)", error)
            first, last = last, first
        first.close()
        last.close()

    def _names(self) -> dict[str, Path]:
        """The files that a restart would find; the log of a linked file lies next to the target of the link."""
        real = os.path.realpath(self._path)
        return {end: Path(f"{real}{end}") for end in _ENDS}

    def _check_names(self) -> None:
        names = self._names()
        for end, before in self._found.items():
            name = f"{self._path.name}{end}"
            try:
                found = names[end].stat()
            except OSError as error:
                raise LabelsGone(f"{name} was removed or cannot be reached ({error.strerror})") from error
            if not os.path.samestat(found, before):
                raise LabelsGone(f"{name} was replaced by another file")
            if not (found.st_mode & 0o222 and os.access(names[end], os.W_OK)):
                raise StorageError(f"the labels' database: {name} is read-only; make it writable to take answers again")

    def _check_content(self) -> None:
        for _ in range(1 if self._trouble else _N_LOOKS):
            with suppress(sqlite3.Error):
                id_in_file, n_changes = _read_head(self._path)
                if id_in_file in self._ids and n_changes >= self._n_changes:
                    self._n_changes = n_changes
                    return
            time.sleep(_LOOK_AGAIN_SECONDS)
        raise LabelsGone(f"{self._path.name} was cut short or overwritten with other or older content")

    def _log_rescue(self) -> None:
        """Log what is wrong, and how to copy a removed file, which Linux keeps as long as it is open."""
        _log.error("%s", self._trouble)
        advice = "labels: the removed file is lost once this program ends; before that, copy it: %s"
        for handle in Path("/proc/self/fd").glob("*"):
            with suppress(OSError):
                if os.path.samestat(handle.stat(), self._found[""]) and not handle.stat().st_nlink:
                    with suppress(sqlite3.Error):
                        self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    copy = f"{self._path}.removed"
                    return _log.error(advice, f"cp /proc/{os.getpid()}/fd/{handle.name} {shlex.quote(copy)}")
        return None


def _address(path: Path, option: str) -> str:
    return f"file:{quote(str(path))}?{option}"


def _read_head(path: Path) -> tuple[int, int]:
    """Id of a database and number of its changes, from the file alone, without its log and what is remembered of it."""
    with closing(sqlite3.connect(_address(path, "immutable=1"), uri=True)) as connection:
        return tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))


def _keep_private(names: dict[str, Path]) -> None:
    """Create the database if there is none; let only its owner read its files."""
    with suppress(FileExistsError):
        os.close(os.open(names[""], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for path in names.values():
        with suppress(OSError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _refuse_damage(path: Path) -> None:
    """Raise StorageError for a damaged database; the check changes nothing."""
    trouble = "ok"
    try:
        with closing(sqlite3.connect(_address(path, "mode=ro"), timeout=_LOCK_SECONDS, uri=True)) as connection:
            trouble = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if _is_locked(error):
            raise
        return  # it cannot be read now, which opening it will say
    except sqlite3.DatabaseError as error:
        trouble = str(error)
    if trouble != "ok":
        raise StorageError(
            f"the labels' database: {path.name} is damaged ({trouble[:200]}); put a whole copy in its place, move "
            f"{path.name}-wal away, and answers are taken again"
        )


def _use_journal(connection: sqlite3.Connection, path: Path) -> str:
    """Set the journal mode, which stays with the file; SQLite does not wait while another program sets it."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return use_journal(connection, path)
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() >= until:
                raise
        time.sleep(0.02)


def _is_locked(error: object) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


Row = Any  # a row of a query, with its columns as attributes; SQLAlchemy gives every query a type of its own

# Times are milliseconds since 1970, UTC. Codes and owners' secrets are kept as SHA-256 only.
metadata = sa.MetaData()

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(24), primary_key=True),
    Column("join_code", String(64), nullable=False, unique=True),
    Column("owner_hash", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("hub_user", String(100), nullable=False, server_default=""),  # "" for none
)

task_versions = Table(
    "task_versions",
    metadata,
    Column("task_id", String(24), ForeignKey("tasks.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("texts", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

_ORDINARY = sa.column("gold").is_(None)
items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False),
    Column("picture", String(64), nullable=False),
    Column("image_id", Text, nullable=False),
    Column("identities", JSON, nullable=False),
    Column("gold", JSON(none_as_null=True)),
    Column("question", Text, nullable=False),
    # Number of raters, without excluded ones, who have it on screen or have answered it; kept next to the
    # assignments it counts.
    Column("n_claims", Integer, nullable=False),
    # What still wants raters is found and counted from the index alone.
    sa.Index("open_items", "task_id", "n_claims", sqlite_where=_ORDINARY, postgresql_where=_ORDINARY),
)

raters = Table(
    "raters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False, index=True),
    Column("name", String(24), nullable=False, unique=True),  # random, and says nothing of the code
    Column("code_hash", String(64), nullable=False, unique=True),
    Column("joined_ms", BigInteger, nullable=False),
    Column("seed", Integer, nullable=False, server_default="0"),  # of where their attention checks come
    Column("excluded_ms", BigInteger),  # since when the owner counts none of their answers
)

# Items shown to raters, with their state: shown, answered, skipped or released.
assignments = Table(
    "assignments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("raters.id"), nullable=False),
    Column("item_id", Integer, ForeignKey("items.id"), nullable=False, index=True),
    Column("token", String(43), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("task_version", Integer, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    sa.UniqueConstraint("rater_id", "item_id"),
)

# Append-only: a withdrawn answer stays, and a new row withdraws it.
answers = Table(
    "answers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("raters.id"), nullable=False),
    Column("item_id", Integer, ForeignKey("items.id"), nullable=False, index=True),
    Column("task_version", Integer, nullable=False),
    Column("client_id", String(64), nullable=False),  # made by the rater's screen: a replay is harmless
    Column("kind", String(8), nullable=False),  # answer, skip, undo
    Column("choices", JSON, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("withdraws", Integer, ForeignKey("answers.id"), unique=True),
    sa.UniqueConstraint("rater_id", "client_id"),
    sqlite_autoincrement=True,  # an id is never used again, also after a deletion
)

# Judges' answers: machines, which count in no number about people.
judgements = Table(
    "judgements",
    metadata,
    Column("item_id", Integer, ForeignKey("items.id"), primary_key=True, autoincrement=False),
    Column("judge", String(300), primary_key=True),
    Column("choices", JSON, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

# Ids of raters that a crowd platform sent, from its link. For the owner alone, in no export of answers.
crowd_ids = Table(
    "crowd_ids",
    metadata,
    Column("rater_id", Integer, ForeignKey("raters.id"), primary_key=True, autoincrement=False),
    Column("participant", String(64), nullable=False),
    Column("study", String(64), nullable=False),
    Column("session", String(64), nullable=False),
)

# Raters' answers about themselves, by question, without those they prefer not to give.
rater_facts = Table(
    "rater_facts",
    metadata,
    Column("rater_id", Integer, ForeignKey("raters.id"), primary_key=True, autoincrement=False),
    Column("facts", JSON, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

# The row that remains of a rater who deleted their answers.
deletions = Table(
    "deletions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False, index=True),
    Column("rater", String(24), nullable=False),
    Column("n_answers", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

_FORM = 5  # of these tables; a database of another form is left alone
_LOCK = 5_201_314  # any number: PostgreSQL's name for "one program at a time makes the tables"


def make_tables(connection: Connection) -> None:
    """Create the tables in this transaction if there are none; StorageError for tables of another version."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    if not sa.inspect(connection).has_table(_version.name):
        metadata.create_all(connection)
        connection.execute(sa.insert(_version).values(version=_FORM))
        return
    form = connection.scalar(sa.select(sa.func.max(_version.c.version))) or 0
    if form != _FORM:
        raise StorageError(
            f"the labels were written by {'a newer' if form > _FORM else 'an older'} version of this program "
            f"(tables {form}, known {_FORM}); open them with that version: nothing in them was changed"
        )


T = TypeVar("T")

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONNECTIONS = 16  # to a database that several may write to at once
_MOST_ACTS = 256  # of one commit, so that early acts do not wait long for later ones


class LabelStore:
    """The database; opens on first use, and is safe in several threads and processes.

    SQLite has one writer, and forcing a commit to disk takes longer than its contents. While one
    commit is under way, new actions wait; a thread then does them one after the other in a single
    transaction, each whole or not at all, and confirms all of them once it is on disk.

    Parameters
    ----------
    url : SQLAlchemy's, such as ``sqlite:////data/labels.sqlite`` or
        ``postgresql+psycopg://user:password@host/labels``.
    pictures : folder of the pictures that raters see; shared by all machines that serve them.
    clock : seconds since 1970.
    rng : source of the places of attention checks.
    most_picture_bytes : limit for the pictures of all tasks.
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
        self._file: LabelFile | None = None  # the engine's, if that is one file
        self._opening, self._writing = threading.Lock(), threading.Lock()
        self._refuses_until = 0.0  # while another program keeps the file locked
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
        """Open a snapshot of the database."""
        with self._errors(), self._open()[0].connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: on disk if the block succeeds, else undone; in an action, part of the shared transaction."""
        with self._errors():
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
                connection.invalidate()  # closed for good, with its uncommitted changes
                raise
            if file is not None:
                file.empty_log()
                file.check()

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Run ``act`` in a thread, and return once what it wrote is on disk.

        Waiting actions share a commit if the database has one writer, so that all changes of an
        action happen inside its transactions; if that commit fails, all of them get the error. An action cancelled
        before its turn is skipped.
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
        results: list[Future[Any]] = [Future() for _ in batch]  # not handed out before the commit
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

    def close(self) -> None:
        """Close the database; it opens again on the next use."""
        with self._opening, self._errors():
            self._let_go()

    def _open(self) -> "tuple[Engine, LabelFile | None]":
        """Open the database; StorageError while its file is gone, replaced, read-only or locked."""
        with self._opening, self._errors():
            if time.monotonic() < self._refuses_until:
                raise StorageError("the labels' database: database is locked")
            if self._file is not None:
                self._file.check()
            if self._engine is None:
                try:
                    self._engine = self._new_engine()
                    with self._engine.execution_options(write=True).begin() as connection:
                        make_tables(connection)
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
        engine = create_engine(url, connect_args={"timeout": _LOCK_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            if isinstance(error, StorageError):
                raise
            # The statement may contain a rater's answer, and the URL a password: show neither.
            reason = getattr(error, "orig", None) or getattr(error, "strerror", None)
            reason = reason or (error if isinstance(error, sqlite3.Error) else type(error).__name__)
            if _is_locked(reason):
                self._refuses_until = time.monotonic() + _REFUSAL_SECONDS
            raise StorageError(f"the labels' database: {reason}") from error

    def _count_checks(self, task_id: str) -> int:  # never changes
        checks = (items.c.task_id == task_id) & items.c.gold.is_not(None)
        with self.read() as connection:
            return connection.scalar(select(func.count()).select_from(items).where(checks)) or 0

    def _read_version(self, task_id: str, version: int) -> Task:  # never changes
        table = task_versions.c
        of_version = select(table.texts).where(table.task_id == task_id, table.version == version)
        with self.read() as connection:
            texts = connection.execute(of_version).scalar_one()
        return task_from(texts, id=task_id, version=version)


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """Undo the changes of the block if it raises; SQLAlchemy's own savepoint takes longer than the changes."""
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
    """Return ``text`` if it has the form of a token, else "", which no rater or task has.

    >>> token("zJ8s-_"), token("' OR 1=1")
    ('zJ8s-_', '')
    """
    return text if _TOKEN.fullmatch(text) else ""


def hash_secret(secret: str) -> str:
    """Hash a code or secret for storage; these are random and too long to guess."""
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
    database: Any = connection.connection.driver_connection
    return int(database.total_changes)


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its turn at once: one that read first could find the database changed, and fail.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN")
