"""What a task has gathered: how far it is, each rater's part, and every answer that holds.

An answer holds unless a later row withdraws it (undo), or its rater deleted it. It counts where it holds and
the owner has not excluded its rater.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, func, select

from bias_core.annotation.schema import Row, answers, deletions, items, raters
from bias_core.annotation.task_owner import iso, owned_row, stored_task
from bias_core.annotation.tasks import Item, Task

if TYPE_CHECKING:
    from sqlalchemy import Select

    from bias_core.annotation.label_store import LabelStore
    from bias_core.annotation.task_owner import OwnerKey


@dataclass(frozen=True, kw_only=True)
class RaterProgress:
    """One rater, under their random name.

    Attributes
    ----------
    n_answered, n_skipped : that hold now.
    median_seconds : a picture; nan where nothing was answered.
    n_gold, n_gold_right : items with a known answer: answered, and answered so in every position.
    excluded : the owner lets nothing of this rater count.
    """

    rater: str
    n_answered: int
    n_skipped: int
    median_seconds: float
    n_gold: int
    n_gold_right: int
    excluded: bool = False


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    """How far a task is.

    Attributes
    ----------
    n_items, n_gold_items : ordinary items, and those with a known answer.
    n_complete : ordinary items that as many raters as wanted have answered.
    n_answers, n_wanted : answers to ordinary items that count, and how many are wanted in all.
    raters : everyone who joined, excluded ones too.
    n_deleted_raters, n_deleted_answers : of raters who deleted theirs.
    n_excluded_answers : to ordinary items, of raters whom the owner excluded.
    """

    task: Task
    join_code: str
    n_items: int
    n_gold_items: int
    n_complete: int
    n_answers: int
    n_wanted: int
    raters: tuple[RaterProgress, ...]
    n_deleted_raters: int
    n_deleted_answers: int
    n_excluded_answers: int = 0

    @property
    def counted_raters(self) -> tuple[RaterProgress, ...]:
        """Those whose answers count."""
        return tuple(one for one in self.raters if not one.excluded)


@dataclass(frozen=True, kw_only=True)
class GivenAnswer:
    """An answer that holds: one rater on one item, every position of it.

    ``at`` is ISO 8601, UTC; ``seconds`` how long the picture was looked at.
    """

    item: Item
    rater: str
    choices: Mapping[str, str]
    task_version: int
    seconds: float
    at: str


@dataclass(frozen=True, kw_only=True)
class LabelledItem:
    """An item with the answers of everybody, in the order given."""

    item: Item
    answers: Sequence[GivenAnswer]

    def votes(self, position: str) -> list[str]:
        """Everybody's answer for a position."""
        return [answer.choices[position] for answer in self.answers]

    def majority(self, position: str) -> str:
        """The answer with the most votes; "" where two have equally many or nobody answered."""
        return winner(Counter(self.votes(position)))

    def share(self, position: str) -> float:
        """Votes of the majority over all votes; nan where there is none."""
        votes, winner = self.votes(position), self.majority(position)
        return votes.count(winner) / len(votes) if winner else float("nan")


def winner(votes: Counter[str]) -> str:
    """The answer with the most votes; "" where two have equally many or there is none."""
    first = votes.most_common(2)
    return "" if not first or (len(first) == 2 and first[0][1] == first[1][1]) else first[0][0]


def task_progress(store: LabelStore, key: OwnerKey) -> TaskProgress:
    """How far the task and each of its raters are."""
    with store.read() as connection:
        row = owned_row(connection, key)
        task = stored_task(store, row)
        acts = connection.execute(_acts_that_hold(row.id, "answer", "skip")).all()
        everybody = select(raters.c.name, raters.c.excluded_ms).where(raters.c.task_id == row.id)
        excluded = {one.name: one.excluded_ms is not None for one in connection.execute(everybody)}
        gold = connection.scalars(select(items.c.gold).where(items.c.task_id == row.id)).all()
        totals = select(func.count(), func.coalesce(func.sum(deletions.c.n_answers), 0))
        deleted = connection.execute(totals.where(deletions.c.task_id == row.id)).one()
    ordinary = [act for act in acts if act.kind == "answer" and act.gold is None]
    per_item = Counter(act.item_id for act in ordinary if act.excluded_ms is None)
    by_rater: dict[str, list[Any]] = {name: [] for name in excluded}
    for act in acts:
        by_rater.setdefault(act.name, []).append(act)
    n_gold = sum(value is not None for value in gold)
    return TaskProgress(
        task=task,
        join_code=row.join_code,
        n_items=len(gold) - n_gold,
        n_gold_items=n_gold,
        n_complete=sum(n >= task.raters_per_item for n in per_item.values()),
        n_answers=per_item.total(),
        n_wanted=(len(gold) - n_gold) * task.raters_per_item,
        raters=tuple(
            _rater_progress(name, mine, excluded=excluded.get(name, False)) for name, mine in by_rater.items()
        ),
        n_deleted_raters=deleted[0],
        n_deleted_answers=int(deleted[1]),
        n_excluded_answers=len(ordinary) - per_item.total(),
    )


def given_answers(store: LabelStore, key: OwnerKey, *, excluded: bool = False) -> list[GivenAnswer]:
    """Every answer that counts, gold items included, in the order given; or those of ``excluded`` raters."""
    with store.read() as connection:
        row = owned_row(connection, key)
        acts = connection.execute(_acts_that_hold(row.id, "answer")).all()
    acts = [act for act in acts if (act.excluded_ms is not None) == excluded]
    item_of = {number: _item(act) for number, act in {act.item_id: act for act in acts}.items()}
    return [
        GivenAnswer(
            item=item_of[act.item_id],
            rater=act.name,
            choices=act.choices,
            task_version=act.task_version,
            seconds=act.duration_ms / 1000,
            at=iso(act.at_ms),
        )
        for act in acts
    ]


def task_items(store: LabelStore, key: OwnerKey) -> list[Item]:
    """Every item of the task, answered or not, in the order of its making."""
    with store.read() as connection:
        row = owned_row(connection, key)
        of_task = select(*_ITEM_COLUMNS).where(items.c.task_id == row.id).order_by(items.c.id)
        return [_item(one) for one in connection.execute(of_task)]


def labelled_items(store: LabelStore, key: OwnerKey) -> list[LabelledItem]:
    """Every item of the task with the answers that count."""
    by_item: dict[int, list[GivenAnswer]] = {}
    for answer in given_answers(store, key):
        by_item.setdefault(answer.item.id, []).append(answer)
    return [LabelledItem(item=item, answers=by_item.get(item.id, ())) for item in task_items(store, key)]


_ITEM_NAMES = ("picture", "image_id", "identities", "gold", "question")
_ITEM_COLUMNS = (items.c.id.label("item_id"), *(items.c[name] for name in _ITEM_NAMES))


def _item(row: Row) -> Item:
    return Item(id=row.item_id, **{name: getattr(row, name) for name in _ITEM_NAMES})


def _acts_that_hold(task_id: str, *kinds: str) -> Select[Any]:
    """Acts of a task's raters that nothing withdraws, with rater and item."""
    later = answers.alias()
    columns = (answers.c.kind, answers.c.choices, answers.c.task_version, answers.c.duration_ms)
    return (
        select(*columns, answers.c.at_ms, raters.c.name, raters.c.excluded_ms, *_ITEM_COLUMNS)
        .join(raters, raters.c.id == answers.c.rater_id)
        .join(items, items.c.id == answers.c.item_id)
        .where(items.c.task_id == task_id, answers.c.kind.in_(kinds))
        .where(~exists().where(later.c.withdraws == answers.c.id))
        .order_by(answers.c.id)
    )


def _rater_progress(name: str, acts: Sequence[Row], *, excluded: bool) -> RaterProgress:
    given = [act for act in acts if act.kind == "answer"]
    checks = [act for act in given if act.gold is not None]
    return RaterProgress(
        rater=name,
        n_answered=len(given),
        n_skipped=len(acts) - len(given),
        median_seconds=median(act.duration_ms for act in given) / 1000 if given else float("nan"),
        n_gold=len(checks),
        n_gold_right=sum(act.choices == act.gold for act in checks),
        excluded=excluded,
    )
