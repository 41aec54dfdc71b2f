"""Several acts in one commit, so that the disk is waited for once.

SQLite has one writer, and forcing a commit to the disk takes longer than everything in it. While one commit
is under way the next acts wait; a thread then does them one after the other in a single transaction, each
whole or not at all, and all of them are told that they are done when that transaction is on the disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

MOST = 256  # acts of one commit, so that nobody waits long for those who come later


class GroupCommit:
    """One writer at a time.

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
        self._begin, self._commit = begin, commit
        self._errors = errors
        self._turn = threading.Lock()
        self._here = threading.local()
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="labels")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A block of one's own: undone when it raises, else on the disk when the ``with`` ends.

        Inside an act that was submitted, the block is part of the group's transaction.
        """
        connection: Connection | None = getattr(self._here, "connection", None)
        if connection is not None:
            with _savepoint(connection):
                yield connection
            return
        with self._turn, self._begin() as connection:
            yield connection
            try:
                self._commit(connection)
            except SQLAlchemyError:
                connection.invalidate()  # closed for good, with what it had not committed
                raise

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have ``act`` done soon, its transactions inside one with those of others who wait.

        What it returned or raised is told after the commit; where the commit fails, all are told that. Who
        cancels before its turn comes is left out.
        """
        told: Future[T] = Future()
        self._waiting.append((act, told))
        self._thread.submit(self._work)  # finds nothing to do where an earlier call took the act along
        return told

    def _work(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
        taken = [(act, told) for act, told in taken if told.set_running_or_notify_cancel()]
        if not taken:
            return
        results: list[Any] = [None] * len(taken)
        errors = [_Caught() for _ in taken]
        failed = _Caught()
        with failed, self._errors(), self.transaction() as self._here.connection:
            for i, (act, _) in enumerate(taken):
                with errors[i]:
                    results[i] = act()
        self._here.connection = None
        for (_, told), result, caught in zip(taken, results, errors, strict=True):
            error = failed.error or caught.error
            if error is None:
                told.set_result(result)
            else:
                told.set_exception(error)


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
