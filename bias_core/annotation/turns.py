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
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sqlalchemy import Integer, bindparam, exists, func, insert, or_, select, update

from bias_core.annotation.schema import Row, answers, assignments, items

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bias_core.annotation.label_store import LabelStore
    from bias_core.annotation.tasks import Task

UNTOUCHED_SECONDS = 180
"""So soon where that rater has done nothing yet: a script that joins may never do anything."""

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
    earlier_choices : what this rater had answered before taking it back; empty otherwise.
    n_answered, n_left : items that the rater answered, and that are there for them, this one and the
        attention checks to come included: each of either kind makes one less.
    can_undo : whether there is something to take back.
    why_done : "" while there is an item, else "all" (nothing is left), "paused", "closed", "draft", or
        "excluded" where the owner has ended this rater's part.
    """

    item: str = ""
    questions: tuple[Question, ...] = ()
    task: Task
    earlier_choices: Mapping[str, str]
    n_answered: int
    n_left: int
    can_undo: bool
    why_done: str = ""


def turn(store: LabelStore, connection: Connection, rater: Row) -> Turn:
    """What this rater sees; a new item is claimed for them where there is none on their screen."""
    past = _Past(store, connection, rater)
    status = "excluded" if rater.excluded_ms is not None else rater.status
    on_screen: Row = None
    n_open = 0
    if status in ("open", "paused") and past.n_shown:
        on_screen = connection.execute(_ON_SCREEN, {"rater": rater.id}).one()
        n_open = connection.scalar(_N_OPEN, past.limits) or 0
    elif status == "open":
        on_screen, n_open = past.claim()
    choices: Mapping[str, str] = {}
    if on_screen is not None and (past.n_shown or past.n_released):
        mine = {"rater": rater.id, "item": on_screen.item_id}
        choices = connection.scalar(_TAKEN_BACK, mine) or {}
    task = past.task if on_screen is None else store.task(rater.task_id, on_screen.task_version)
    return Turn(
        item="" if on_screen is None else on_screen.token,
        questions=() if on_screen is None else _questions(task, on_screen),
        task=task,
        earlier_choices=choices,
        n_answered=past.n_answered,
        n_left=0 if on_screen is None else past.n_shown + n_open + past.checks_to_come(n_open),
        can_undo=status in ("open", "paused") and past.n_answered + past.n_skipped > 0,
        why_done="" if on_screen is not None else "all" if status == "open" else status,
    )


def move(connection: Connection, place: Row, state: str, since_ms: int | None = None) -> None:
    """Give an assignment another state, with the item's count of claims."""
    connection.execute(_MOVE, {"which": place.id, "to": state, "since": since_ms or place.since_ms})
    change = (state in CLAIMS) - (place.state in CLAIMS)
    if change:
        connection.execute(_COUNT_CLAIM, {"item": place.item_id, "change": change})


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


class _Past:
    """What this rater was shown so far; ``n_ordinary`` and ``n_checks`` without what was given to others."""

    def __init__(self, store: LabelStore, connection: Connection, rater: Row) -> None:
        self.store, self.connection, self.rater = store, connection, rater
        self.task = store.task(rater.task_id, rater.version)
        self.limits = {"task": rater.task_id, "rater": rater.id, "most": self.task.raters_per_item}
        counts = connection.execute(_STATES, {"rater": rater.id}).all()
        by_state = dict.fromkeys(("shown", "answered", "skipped", "released"), 0)
        self.n_ordinary = self.n_checks = 0
        for state, is_ordinary, n in counts:
            by_state[state] += n
            if state != "released":
                self.n_ordinary += n if is_ordinary else 0
                self.n_checks += 0 if is_ordinary else n
        self.n_shown, self.n_answered, self.n_skipped, self.n_released = by_state.values()

    def checks_to_come(self, n_ordinary: int) -> int:
        """How many attention checks this rater meets until the last of so many more ordinary items."""
        if not n_ordinary:
            return 0
        n_due = n_checks_before(self.n_ordinary + n_ordinary, self.task.gold_share, seed=self.rater.seed)
        return max(0, min(n_due, self.store.n_checks(self.rater.task_id)) - self.n_checks)

    def claim(self) -> tuple[Row, int]:
        """A new item for this rater or None, also one that they left and that is still wanted; items left."""
        pick: Row = self.connection.execute(_FEWEST, self.limits).first()
        if pick is None and self._release_old():
            pick = self.connection.execute(_FEWEST, self.limits).first()
        if pick is None:
            return None, 0
        n_open = pick.n_open
        if self.checks_to_come(1):
            pick = self.connection.execute(_CHECK, self.limits).one()
        mine = {"rater": self.rater.id, "item": pick.id}
        place = {"version": self.rater.version, "since": self.store.now_ms}
        again = self.connection.execute(_RELEASED, mine).first() if self.n_released else None
        token = secrets.token_urlsafe(24) if again is None else again.token  # had before: the same one
        if again is None:
            self.connection.execute(_ASSIGN, {**mine, **place, "new_token": token})
        else:
            self.connection.execute(_RETAKE, {"which": again.id, **place})
        self.connection.execute(_COUNT_CLAIM, {"item": pick.id, "change": 1})
        texts = {"identities": pick.identities, "question": pick.question}
        return SimpleNamespace(item_id=pick.id, token=token, task_version=self.rater.version, **texts), n_open

    def _release_old(self) -> int:
        """Let others have what raters left on their screens long ago; who left it may still answer it."""
        now = self.store.now_ms
        long_ago = {"before": now - RELEASE_AFTER_SECONDS * 1000, "untouched": now - UNTOUCHED_SECONDS * 1000}
        old = self.connection.execute(_LEFT_LYING, {"task": self.rater.task_id, **long_ago}).all()
        for place in old:
            move(self.connection, place, "released")
        return len(old)


def _questions(task: Task, item: Row) -> tuple[Question, ...]:
    return tuple(
        Question(
            position=position,
            # Not str.format: a question is a stranger's text, and could reach into objects.
            text=(item.question or text).replace("{}", item.identities.get(position, "")),
            identity=item.identities.get(position, ""),
        )
        for position, text in task.questions.items()
    )


# Built once: to build a statement takes longer than to run it.
_of_rater = assignments.c.rater_id == bindparam("rater")
_of_task = items.c.task_id == bindparam("task")
_is_ordinary = items.c.gold.is_(None)
_with_items = select(assignments, items.c.identities, items.c.question).join(items, items.c.id == assignments.c.item_id)
_STATES = (
    select(assignments.c.state, _is_ordinary, func.count())
    .join(items, items.c.id == assignments.c.item_id)
    .where(_of_rater)
    .group_by(assignments.c.state, _is_ordinary)
)
_ON_SCREEN = (
    _with_items.where(_of_rater, assignments.c.state == "shown")
    .order_by(assignments.c.since_ms.desc(), assignments.c.id.desc())
    .limit(1)
)
_LEFT_LYING = _with_items.where(
    _of_task,
    assignments.c.state == "shown",
    or_(
        assignments.c.since_ms < bindparam("before"),
        (assignments.c.since_ms < bindparam("untouched"))
        & ~exists().where(answers.c.rater_id == assignments.c.rater_id),
    ),
)
_TAKEN_BACK = (
    select(answers.c.choices)
    .where(answers.c.rater_id == bindparam("rater"), answers.c.item_id == bindparam("item"))
    .where(answers.c.kind == "answer")
    .order_by(answers.c.id.desc())
    .limit(1)
)
_WANTED = _is_ordinary & (items.c.n_claims < bindparam("most"))
_met = select(assignments.c.item_id).where(_of_rater, assignments.c.state != "released")
_unseen = _of_task & items.c.id.not_in(_met)
_n_wanted = select(func.count()).select_from(items).where(_of_task, _WANTED)
_n_met = select(func.count()).select_from(assignments).join(items, items.c.id == assignments.c.item_id)
_n_met = _n_met.where(_of_rater, assignments.c.state != "released", _WANTED)
_n_open = _n_wanted.scalar_subquery() - _n_met.scalar_subquery()
_N_OPEN = select(_n_open)
_fewest = select(items.c.id).where(_unseen, _WANTED).order_by(items.c.n_claims, func.random()).limit(1)
_ITEM = (items.c.id, items.c.identities, items.c.question)
_FEWEST = select(*_ITEM, _n_open.label("n_open")).where(items.c.id == _fewest.scalar_subquery())
_CHECK = select(*_ITEM).where(_unseen, items.c.gold.is_not(None)).order_by(func.random()).limit(1)
_RELEASED = select(assignments.c.id, assignments.c.token).where(
    _of_rater, assignments.c.item_id == bindparam("item"), assignments.c.state == "released"
)
_ASSIGN = insert(assignments).values(
    rater_id=bindparam("rater"), item_id=bindparam("item"), token=bindparam("new_token"), state="shown",
    task_version=bindparam("version"), since_ms=bindparam("since"),
)  # fmt: skip
_which = update(assignments).where(assignments.c.id == bindparam("which"))
_RETAKE = _which.values(state="shown", task_version=bindparam("version"), since_ms=bindparam("since"))
_MOVE = _which.values(state=bindparam("to"), since_ms=bindparam("since"))
_COUNT_CLAIM = (
    update(items)
    .where(items.c.id == bindparam("item"))
    .values(n_claims=items.c.n_claims + bindparam("change", type_=Integer))
)
