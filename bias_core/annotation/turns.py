"""What a rater sees now: the item on their screen or a new one, blind, and how far they are.

Every function works inside a transaction that :mod:`bias_core.annotation.rating` opened, in which the task
is locked.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    n_answered, n_left : items that the rater answered, and that are there for them, this one and the
        attention checks to come included: each of either kind makes one less.
    can_undo : whether there is something to take back.
    why_done : "" while there is an item, else "all" (nothing is left), "paused", "closed", "draft", or
        "excluded" where the owner has ended this rater's part.
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
    seen = _seen(connection, rater)
    status = "excluded" if rater.excluded_ms is not None else rater.status
    task = store.task(rater.task_id, rater.version)
    wanted = {"task": rater.task_id, "rater": rater.id, "most": task.raters_per_item}
    shown: Found = None
    n_left = 0
    if status in ("open", "paused") and seen.n_shown:
        shown = connection.execute(_ON_SCREEN, {"rater": rater.id}).one()
        n_open = connection.scalar(_N_OPEN, wanted) or 0
        n_left = seen.n_shown + n_open + seen.checks_to_come(store, task, n_open)
    elif status == "open":
        shown = _claim(store, connection, rater, task, seen)
        if shown is not None:
            n_left = shown.n_open + seen.checks_to_come(store, task, shown.n_open)
    chosen: Mapping[str, str] = {}
    if shown is not None and (seen.n_shown or seen.n_released):
        chosen = connection.scalar(_TAKEN_BACK, {"rater": rater.id, "item": shown.item_id}) or {}
    asked = store.task(rater.task_id, shown.task_version) if shown is not None else task
    return Turn(
        item="" if shown is None else shown.token,
        questions=() if shown is None else _questions(asked, shown),
        task=asked,
        chosen=chosen,
        n_answered=seen.n_answered,
        n_left=n_left,
        can_undo=status in ("open", "paused") and seen.n_answered + seen.n_skipped > 0,
        why_done="" if shown is not None else "all" if status == "open" else status,
    )


def move(connection: Connection, shown: Found, state: str, since_ms: int | None = None) -> None:
    """Give an assignment another state, with the item's count of claims."""
    values = {"which": shown.id, "to": state, "since": since_ms or shown.since_ms}
    connection.execute(_MOVE, values)
    change = (state in CLAIMS) - (shown.state in CLAIMS)
    if change:
        connection.execute(_COUNT_CLAIM, {"item": shown.item_id, "change": change})


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What this rater was shown so far; ``n_ordinary`` and ``n_checks`` without what was given to others."""

    rater: Found
    n_shown: int
    n_answered: int
    n_skipped: int
    n_released: int
    n_ordinary: int
    n_checks: int

    def checks_to_come(self, store: LabelStore, task: Task, n_ordinary: int) -> int:
        """How many attention checks this rater meets until the last of so many more ordinary items."""
        if not n_ordinary:
            return 0
        place = self.n_ordinary + n_ordinary
        n_due = n_checks_before(place, task.gold_share, seed=self.rater.seed)
        return max(0, min(n_due, store.n_checks(self.rater.task_id)) - self.n_checks)


def n_checks_before(place: int, share: float, *, seed: int) -> int:
    """How many attention checks come before a rater's ordinary item of this place, counted from 1.

    With ``share`` of the items being checks, ``share / (1 - share)`` stand before each ordinary item: the
    k-th comes at random, by the rater's ``seed``, among those that fall to it. So all are known beforehand,
    and what is left can be said exactly.

    Examples
    --------
    >>> [n_checks_before(place, 0.5, seed=0) for place in (0, 1, 10)]
    [0, 1, 10]
    """
    due = place * share / (1 - share)
    whole = math.floor(due)
    # Seeded by a text, which Python hashes: by numbers, neighbours would be alike.
    return whole + (random.Random(f"{seed} {whole}").random() < due - whole)


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """An item that was just claimed, as the query of the one on the screen gives it."""

    item_id: int
    token: str
    identities: Mapping[str, str]
    question: str
    task_version: int
    n_open: int


def _seen(connection: Connection, rater: Found) -> _Seen:
    counts = connection.execute(_STATES, {"rater": rater.id}).all()

    def total(*states: str, ordinary: tuple[bool, ...] = (True, False)) -> int:
        return sum(n for state, is_ordinary, n in counts if state in states and bool(is_ordinary) in ordinary)

    return _Seen(
        rater=rater,
        n_shown=total("shown"),
        n_answered=total("answered"),
        n_skipped=total("skipped"),
        n_released=total("released"),
        n_ordinary=total("shown", "answered", "skipped", ordinary=(True,)),
        n_checks=total("shown", "answered", "skipped", ordinary=(False,)),
    )


def _claim(store: LabelStore, connection: Connection, rater: Found, task: Task, seen: _Seen) -> _Shown | None:
    """A new item for this rater, where there is one; also one that they left, and that is still wanted."""
    wanted = {"task": rater.task_id, "rater": rater.id, "most": task.raters_per_item}
    picked: Found = connection.execute(_FEWEST, wanted).first()
    if picked is None and _release(store, connection, rater.task_id):
        picked = connection.execute(_FEWEST, wanted).first()
    if picked is None:
        return None
    n_open = picked.n_open
    if seen.checks_to_come(store, task, 1):
        picked = connection.execute(_CHECK, wanted).one()
    token = _assign(store, connection, rater, picked.id, again=seen.n_released > 0)
    return _Shown(
        item_id=picked.id,
        token=token,
        identities=picked.identities,
        question=picked.question,
        task_version=rater.version,
        n_open=n_open,
    )


def _assign(store: LabelStore, connection: Connection, rater: Found, item_id: int, *, again: bool) -> str:
    """Put an item on the rater's screen; its token, the same one where they had it before (``again``)."""
    values = {"since": store.now_ms, "version": rater.version}
    mine = {"rater": rater.id, "item": item_id}
    before: Found = connection.execute(_RELEASED, mine).first() if again else None
    if before is not None:
        connection.execute(_RETAKE, {"which": before.id, **values})
        token = str(before.token)
    else:
        token = secrets.token_urlsafe(24)
        connection.execute(_ASSIGN, {**mine, "new_token": token, **values})
    connection.execute(_COUNT_CLAIM, {"item": item_id, "change": 1})
    return token


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
_is_ordinary = items.c.gold.is_(None)
_STATES = (
    select(assignments.c.state, _is_ordinary, func.count())
    .join(items, items.c.id == assignments.c.item_id)
    .where(_rater_is)
    .group_by(assignments.c.state, _is_ordinary)
)
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
    select(assignments.c.item_id).where(_rater_is, assignments.c.state != "released")
)
_WANTED = items.c.gold.is_(None) & (items.c.n_claims < bindparam("most"))
_n_wanted = select(func.count()).select_from(items).where(items.c.task_id == bindparam("task"), _WANTED)
_n_seen = select(func.count()).select_from(assignments).join(items, items.c.id == assignments.c.item_id)
_n_seen = _n_seen.where(_rater_is, assignments.c.state != "released", _WANTED)
_n_open = _n_wanted.scalar_subquery() - _n_seen.scalar_subquery()
_N_OPEN = select(_n_open)
_ITEM = (items.c.id, items.c.identities, items.c.question)
_picked = select(items.c.id).where(_UNSEEN, _WANTED).order_by(items.c.n_claims, func.random()).limit(1)
_FEWEST = select(*_ITEM, _n_open.label("n_open")).where(items.c.id == _picked.scalar_subquery())
_CHECK = select(*_ITEM).where(_UNSEEN, items.c.gold.is_not(None)).order_by(func.random()).limit(1)
_LEFT_LYING = (
    select(assignments)
    .join(items, items.c.id == assignments.c.item_id)
    .where(items.c.task_id == bindparam("task"), assignments.c.state == "shown")
    .where(assignments.c.since_ms < bindparam("before"))
)
_RELEASED = select(assignments.c.id, assignments.c.token).where(
    _rater_is, assignments.c.item_id == bindparam("item"), assignments.c.state == "released"
)
_ASSIGN = insert(assignments).values(
    rater_id=bindparam("rater"),
    item_id=bindparam("item"),
    token=bindparam("new_token"),
    state="shown",
    task_version=bindparam("version"),
    since_ms=bindparam("since"),
)
_RETAKE = (
    update(assignments)
    .where(assignments.c.id == bindparam("which"))
    .values(state="shown", task_version=bindparam("version"), since_ms=bindparam("since"))
)
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
