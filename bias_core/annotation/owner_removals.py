"""What an owner takes out of a task: one rater's answers, which stay and are marked; or the whole task."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, exists, func, insert, select, update

from bias_core.annotation.label_pictures import remove_picture
from bias_core.annotation.schema import (
    Found,
    answers,
    assignments,
    deletions,
    items,
    raters,
    task_versions,
    tasks,
)
from bias_core.annotation.task_owner import OwnerKey, owned_row, set_status
from bias_core.annotation.tasks import quoted
from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bias_core.annotation.label_store import LabelStore

_AT_ONCE = 50  # rows or files of one transaction: raters of other tasks wait for no more


def exclude_rater(store: LabelStore, key: OwnerKey, rater: str, *, excluded: bool = True) -> None:
    """Leave a rater's answers out of everything that is counted, or take them back in.

    The answers stay, and are exported apart. Others are asked in this rater's place; the rater is told, is
    shown nothing more, and can still delete the answers.

    Parameters
    ----------
    rater : the random name.
    excluded : False takes the rater back in.

    Raises
    ------
    NotAllowed
        The key opens no task.
    InvalidInput
        The task has no rater of this name.
    """
    with store.write() as connection:
        task = owned_row(connection, key, change=True)
        named = (raters.c.task_id == task.id) & (raters.c.name == _name(rater))
        found: Found = connection.execute(select(raters).where(named)).first()
        if found is None:
            raise InvalidInput(f"this task has no rater {quoted(rater)}; names are in the table of raters")
        if (found.excluded_ms is not None) == excluded:
            return
        if excluded:
            _count_claims(connection, found.id, ("shown", "answered"), -1)
            _let_go = (assignments.c.rater_id == found.id) & (assignments.c.state == "shown")
            connection.execute(update(assignments).where(_let_go).values(state="released"))
        else:
            _count_claims(connection, found.id, ("answered",), 1)
        since = store.now_ms if excluded else None
        connection.execute(update(raters).where(raters.c.id == found.id).values(excluded_ms=since))


def delete_task(store: LabelStore, key: OwnerKey) -> int:
    """Delete a task for good: its texts, pictures, raters and answers; the number of answers that went.

    It is closed first, and goes in portions, so that raters of other tasks wait for none of it. Where that
    is interrupted the task is still there, closed, to be deleted again. Pictures that another task shows
    stay. What is left says that raters of these random names deleted so many answers.

    Raises
    ------
    NotAllowed
        The key opens no task.
    StorageError
        A picture cannot be removed; nothing else is removed then.
    """
    task_id = set_status(store, key, "closed").id
    _remove_pictures(store, task_id)
    n_answers = 0
    while portion := _first(store, select(raters).where(raters.c.task_id == task_id)):
        n_answers += _remove_raters(store, task_id, portion)
    with store.write() as connection:
        for table in (items, task_versions):
            connection.execute(delete(table).where(table.c.task_id == task_id))
        nobody = {"owner_hash": "", "hub_user": "", "join_code": secrets.token_hex(16)}
        connection.execute(update(tasks).where(tasks.c.id == task_id).values(status="deleted", **nobody))
    store.forget_texts()
    store.erase_traces()
    return n_answers


def _remove_raters(store: LabelStore, task_id: str, portion: Sequence[Found]) -> int:
    """With everything of theirs; a line for each says so, also to copies on a hub."""
    ids = [rater.id for rater in portion]
    later = answers.alias()
    held = (answers.c.kind == "answer") & ~exists().where(later.c.withdraws == answers.c.id)
    counted = select(answers.c.rater_id, func.count()).where(answers.c.rater_id.in_(ids), held)
    with store.write() as connection:
        n_answers: dict[int, int] = dict(connection.execute(counted.group_by(answers.c.rater_id)).all())
        for table in (answers, assignments):
            connection.execute(delete(table).where(table.c.rater_id.in_(ids)))
        connection.execute(delete(raters).where(raters.c.id.in_(ids)))
        lines = [
            {"task_id": task_id, "rater": rater.name, "n_answers": n_answers.get(rater.id, 0)}
            for rater in portion
        ]
        connection.execute(insert(deletions).values(at_ms=store.now_ms), lines)
    return sum(n_answers.values())


def _remove_pictures(store: LabelStore, task_id: str) -> None:
    """The files that no other task shows, while no task can be made with them."""
    with store.read() as connection:
        names = connection.scalars(select(items.c.picture).where(items.c.task_id == task_id).distinct()).all()
    for i in range(0, len(names), _AT_ONCE):
        some = names[i : i + _AT_ONCE]
        shown = select(items.c.picture).where(items.c.picture.in_(some), items.c.task_id != task_id)
        with store.write() as connection:
            for name in set(some) - set(connection.scalars(shown)):
                remove_picture(store.pictures, name)


def _first(store: LabelStore, wanted: Any) -> Sequence[Found]:
    with store.read() as connection:
        return connection.execute(wanted.limit(_AT_ONCE)).all()


def _count_claims(connection: Connection, rater_id: int, states: tuple[str, ...], change: int) -> None:
    claimed = select(assignments.c.item_id).where(
        assignments.c.rater_id == rater_id, assignments.c.state.in_(states)
    )
    counted = update(items).where(items.c.id.in_(claimed)).values(n_claims=items.c.n_claims + change)
    connection.execute(counted)


def _name(rater: str) -> str:
    return rater if isinstance(rater, str) and rater.isascii() and rater.isprintable() else ""
