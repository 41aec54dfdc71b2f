"""What a rater sees now: the item on their screen or a new one, blind, and how far they are.

Every function works inside a transaction that :mod:`bias_core.annotation.rating` opened, in which the task
is locked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, func, insert, select, update

from bias_core.annotation.schema import Found, answers, assignments, items

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from bias_core.annotation.label_store import LabelStore
    from bias_core.annotation.tasks import Task

RELEASE_AFTER_SECONDS = 1800
"""An item that a rater left on the screen for so long is given to others too."""

CLAIMS = ("shown", "answered")
"""States of an assignment that count towards the raters of its item."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of one position of an item."""

    position: str
    text: str
    identity: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a rater sees now.

    Attributes
    ----------
    item : token of the item for this rater, also of its picture; "" where there is none to show.
    questions : one for each position, in order.
    task : its texts and answers, in the version that this item is asked in.
    chosen : what this rater had answered before taking it back; empty otherwise.
    n_answered, n_left : items that the rater answered, and that are there for them, this one included.
    can_undo : whether there is something to take back.
    why_done : "" while there is an item, else "all" (nothing is left), "paused", "closed" or "draft".
    """

    item: str = ""
    questions: tuple[Question, ...] = ()
    task: Task
    chosen: Mapping[str, str]
    n_answered: int
    n_left: int
    can_undo: bool
    why_done: str = ""


def turn(store: LabelStore, connection: Connection, rater: Found) -> Turn:
    """What this rater sees; a new item is claimed for them where there is none on their screen."""
    task = store.task(rater.task_id, rater.version)
    shown = _on_screen(connection, rater) if rater.status in ("open", "paused") else None
    if shown is None and rater.status == "open":
        _give_item(store, connection, rater, task)
        shown = _on_screen(connection, rater)
    states = _states(connection, rater)
    n_answered, n_skipped = states.get("answered", 0), states.get("skipped", 0)
    n_left = connection.scalar(_open_items(rater, task).with_only_columns(func.count())) or 0
    now = Turn(
        task=task,
        chosen={},
        n_answered=n_answered,
        n_left=n_left + states.get("shown", 0),
        can_undo=rater.status in ("open", "paused") and n_answered + n_skipped > 0,
        why_done="all" if rater.status == "open" else rater.status,
    )
    if shown is None:
        return now
    asked = store.task(rater.task_id, shown.task_version)
    return replace(
        now,
        item=shown.token,
        questions=_questions(asked, shown),
        task=asked,
        chosen=_taken_back(connection, rater, shown),
        why_done="",
    )


def _states(connection: Connection, rater: Found) -> dict[str, int]:
    """How many items this rater has in each state."""
    mine = select(assignments.c.state, func.count()).where(assignments.c.rater_id == rater.id)
    found: Found = connection.execute(mine.group_by(assignments.c.state))
    return dict(found.all())


def _questions(task: Task, shown: Found) -> tuple[Question, ...]:
    return tuple(
        Question(
            position=position,
            # Not str.format: a question is a stranger's text, and could reach into objects.
            text=(shown.question or text).replace("{}", shown.identities.get(position, "")),
            identity=shown.identities.get(position, ""),
        )
        for position, text in task.questions.items()
    )


def _taken_back(connection: Connection, rater: Found, shown: Found) -> Mapping[str, str]:
    mine = (answers.c.rater_id == rater.id) & (answers.c.item_id == shown.item_id)
    last = select(answers.c.choices).where(mine, answers.c.kind == "answer").order_by(answers.c.id.desc())
    return connection.scalar(last.limit(1)) or {}


def _on_screen(connection: Connection, rater: Found) -> Found | None:
    """The item that was shown last and waits for an answer."""
    columns = (assignments, items.c.identities, items.c.question)
    wanted = select(*columns).join(items, items.c.id == assignments.c.item_id)
    wanted = wanted.where(assignments.c.rater_id == rater.id, assignments.c.state == "shown")
    newest = wanted.order_by(assignments.c.since_ms.desc(), assignments.c.id.desc()).limit(1)
    return connection.execute(newest).first()


def _open_items(rater: Found, task: Task) -> Select[Any]:
    """Ordinary items that this rater has not seen and that want more raters."""
    return _unseen(rater).where(items.c.gold.is_(None), items.c.n_claims < task.raters_per_item)


def _unseen(rater: Found) -> Select[Any]:
    seen = exists().where(assignments.c.rater_id == rater.id, assignments.c.item_id == items.c.id)
    return select(items.c.id).where(items.c.task_id == rater.task_id, ~seen)


def _give_item(store: LabelStore, connection: Connection, rater: Found, task: Task) -> None:
    """Claim an item for this rater, where there is one."""
    fewest = _open_items(rater, task).order_by(items.c.n_claims, func.random()).limit(1)
    item_id = connection.scalar(fewest)
    if item_id is None and _release(store, connection, rater.task_id):
        item_id = connection.scalar(fewest)
    if item_id is None:
        return
    if store.rng.random() < task.gold_share:
        known = _unseen(rater).where(items.c.gold.is_not(None)).order_by(func.random()).limit(1)
        item_id = connection.scalar(known) or item_id
    claim = {
        "rater_id": rater.id,
        "item_id": item_id,
        "token": secrets.token_urlsafe(24),
        "state": "shown",
        "task_version": rater.version,
        "since_ms": store.now_ms,
    }
    connection.execute(insert(assignments).values(claim))
    _count_claims(connection, item_id, 1)


def _release(store: LabelStore, connection: Connection, task_id: str) -> int:
    """Let others have what raters left on their screens long ago; who left it may still answer it."""
    left = select(assignments.c.id, assignments.c.item_id, assignments.c.state).join(
        items, items.c.id == assignments.c.item_id
    )
    before = store.now_ms - RELEASE_AFTER_SECONDS * 1000
    left = left.where(
        items.c.task_id == task_id, assignments.c.state == "shown", assignments.c.since_ms < before
    )
    found = connection.execute(left).all()
    for shown in found:
        move(connection, shown, "released")
    return len(found)


def move(connection: Connection, shown: Found, state: str, **values: int) -> None:
    """Give an assignment another state, with the item's count of claims."""
    changed = update(assignments).where(assignments.c.id == shown.id).values(state=state, **values)
    connection.execute(changed)
    change = (state in CLAIMS) - (shown.state in CLAIMS)
    if change:
        _count_claims(connection, shown.item_id, change)


def _count_claims(connection: Connection, item_id: int, change: int) -> None:
    counted = update(items).where(items.c.id == item_id).values(n_claims=items.c.n_claims + change)
    connection.execute(counted)
