"""Several threads' transactions in one commit, so that the disk is waited for once.

SQLite has one writer, and forcing a commit to the disk takes longer than everything in it. While one commit
is under way the next blocks wait; they then run one after the other in a single transaction, each whole or
not at all, and all of them are told that they are done when that transaction is on the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from bias_core.errors import StorageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

MOST = 64  # blocks of one commit, so that nobody waits long for those who come later


@dataclass(kw_only=True)
class _Group:
    connection: Connection
    n_blocks: int = 0
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = field(default_factory=lambda: StorageError("the labels were not saved"))


class GroupCommit:
    """``begin`` gives a connection in a transaction that may write."""

    def __init__(self, begin: Callable[[], Connection]) -> None:
        self._begin = begin
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._n_waiting = 0
        self._group: _Group | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A block of one's own: on the disk when the ``with`` ends well, undone when it raises."""
        self._count(1)
        with self._turn:
            self._count(-1)
            group = self._group = self._group or _Group(connection=self._begin())
            group.n_blocks += 1
            try:
                with group.connection.begin_nested():
                    yield group.connection
            finally:
                if not self._n_waiting or group.n_blocks >= MOST:
                    self._commit(group)
        group.done.wait()
        if group.error is not None:
            raise group.error

    def _count(self, change: int) -> None:
        with self._counting:
            self._n_waiting += change

    def _commit(self, group: _Group) -> None:
        self._group = None
        try:
            group.connection.commit()
            group.error = None
        except SQLAlchemyError as error:
            group.error = error
            group.connection.invalidate()  # closed for good, with what it had not committed
        finally:
            group.connection.close()
            group.done.set()
