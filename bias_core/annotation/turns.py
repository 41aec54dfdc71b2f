"""What a rater sees now: the item on their screen or a new one, blind, and how far they are.

Every function works inside a transaction that :mod:`bias_core.annotation.rating` opened, in which the task
is locked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, bindparam, func, insert, select, update

from bias_core.annotation.schema import Found, answers, assignments, items

if TYPE_CHECKING:
    from sqlalchemy import Connection

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
    states: dict[str, int] = dict(connection.execute(_STATES, {"rater": rater.id}).all())
    task = store.task(rater.task_id, rater.version)
    wanted = {"task": rater.task_id, "rater": rater.id, "most": task.raters_per_item}
    shown: Found = None
    chosen: Mapping[str, str] = {}
    n_left = 0
    if rater.status in ("open", "paused") and states.get("shown"):
        shown = connection.execute(_ON_SCREEN, {"rater": rater.id}).one()
        mine = {"rater": rater.id, "item": shown.item_id}
        chosen = connection.scalar(_TAKEN_BACK, mine) or {}
        n_left = states["shown"] + (connection.scalar(_N_OPEN, wanted) or 0)
    elif rater.status == "open":
        shown = _claim(store, connection, rater, task, wanted)
        n_left = shown.n_open if shown is not None else 0
    asked = store.task(rater.task_id, shown.task_version) if shown is not None else task
    n_answered, n_skipped = states.get("answered", 0), states.get("skipped", 0)
    return Turn(
        item="" if shown is None else shown.token,
        questions=() if shown is None else _questions(asked, shown),
        task=asked,
        chosen=chosen,
        n_answered=n_answered,
        n_left=n_left,
        can_undo=rater.status in ("open", "paused") and n_answered + n_skipped > 0,
        why_done="" if shown is not None else "all" if rater.status == "open" else rater.status,
    )


def move(connection: Connection, shown: Found, state: str, since_ms: int | None = None) -> None:
    """Give an assignment another state, with the item's count of claims."""
    values = {"which": shown.id, "to": state, "since": since_ms or shown.since_ms}
    connection.execute(_MOVE, values)
    change = (state in CLAIMS) - (shown.state in CLAIMS)
    if change:
        connection.execute(_COUNT_CLAIM, {"item": shown.item_id, "change": change})


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """An item that was just claimed, as the query of the one on the screen gives it."""

    token: str
    identities: Mapping[str, str]
    question: str
    task_version: int
    n_open: int


def _claim(
    store: LabelStore, connection: Connection, rater: Found, task: Task, wanted: Mapping[str, Any]
) -> _Shown | None:
    """A new item for this rater, where there is one."""
    picked: Found = connection.execute(_FEWEST, wanted).first()
    if picked is None and _release(store, connection, rater.task_id):
        picked = connection.execute(_FEWEST, wanted).first()
    if picked is None:
        return None
    n_open = picked.n_open
    known: Found = None
    if store.rng.random() < task.gold_share:
        known = connection.execute(_GOLD, wanted).first()
    if known is not None:
        picked, n_open = known, n_open + 1  # it comes on top of those that want raters
    token = secrets.token_urlsafe(24)
    claim = {
        "rater_id": rater.id,
        "item_id": picked.id,
        "token": token,
        "state": "shown",
        "task_version": rater.version,
        "since_ms": store.now_ms,
    }
    connection.execute(_ASSIGN, claim)
    connection.execute(_COUNT_CLAIM, {"item": picked.id, "change": 1})
    return _Shown(
        token=token,
        identities=picked.identities,
        question=picked.question,
        task_version=rater.version,
        n_open=n_open,
    )


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


def _release(store: LabelStore, connection: Connection, task_id: str) -> int:
    """Let others have what raters left on their screens long ago; who left it may still answer it."""
    before = store.now_ms - RELEASE_AFTER_SECONDS * 1000
    left = connection.execute(_LEFT_LYING, {"task": task_id, "before": before}).all()
    for shown in left:
        move(connection, shown, "released")
    return len(left)


# Built once: to build a statement takes longer than to run it.
_rater_is = assignments.c.rater_id == bindparam("rater")
_STATES = select(assignments.c.state, func.count()).where(_rater_is).group_by(assignments.c.state)
_ON_SCREEN = (
    select(assignments, items.c.identities, items.c.question)
    .join(items, items.c.id == assignments.c.item_id)
    .where(_rater_is, assignments.c.state == "shown")
    .order_by(assignments.c.since_ms.desc(), assignments.c.id.desc())
    .limit(1)
)
_TAKEN_BACK = (
    select(answers.c.choices)
    .where(answers.c.rater_id == bindparam("rater"), answers.c.item_id == bindparam("item"))
    .where(answers.c.kind == "answer")
    .order_by(answers.c.id.desc())
    .limit(1)
)
_UNSEEN = (items.c.task_id == bindparam("task")) & items.c.id.not_in(
    select(assignments.c.item_id).where(_rater_is)
)
_WANTED = items.c.gold.is_(None) & (items.c.n_claims < bindparam("most"))
_n_wanted = select(func.count()).select_from(items).where(items.c.task_id == bindparam("task"), _WANTED)
_n_seen = select(func.count()).select_from(assignments).join(items, items.c.id == assignments.c.item_id)
_n_open = _n_wanted.scalar_subquery() - _n_seen.where(_rater_is, _WANTED).scalar_subquery()
_N_OPEN = select(_n_open)
_ITEM = (items.c.id, items.c.identities, items.c.question)
_picked = select(items.c.id).where(_UNSEEN, _WANTED).order_by(items.c.n_claims, func.random()).limit(1)
_FEWEST = select(*_ITEM, _n_open.label("n_open")).where(items.c.id == _picked.scalar_subquery())
_GOLD = select(*_ITEM).where(_UNSEEN, items.c.gold.is_not(None)).order_by(func.random()).limit(1)
_LEFT_LYING = (
    select(assignments)
    .join(items, items.c.id == assignments.c.item_id)
    .where(items.c.task_id == bindparam("task"), assignments.c.state == "shown")
    .where(assignments.c.since_ms < bindparam("before"))
)
_ASSIGN = insert(assignments)
_MOVE = (
    update(assignments)
    .where(assignments.c.id == bindparam("which"))
    .values(state=bindparam("to"), since_ms=bindparam("since"))
)
_COUNT_CLAIM = (
    update(items)
    .where(items.c.id == bindparam("item"))
    .values(n_claims=items.c.n_claims + bindparam("change", type_=Integer))
)
