"""What the owner of a task does: make it, open and close it, see how far it is, take the answers.

An owner is whoever has the task's secret, or is signed in at the Hub as the user who made it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from sqlalchemy import insert, select, update

from bias_core.annotation.label_pictures import keep_picture, picture_path
from bias_core.annotation.label_store import LabelStore, hashed, token
from bias_core.annotation.schema import Found, items, task_versions, tasks
from bias_core.annotation.tasks import (
    MAX_LINE,
    Status,
    Task,
    checked_choices,
    checked_task,
    checked_text,
    quoted,
    task_texts,
)
from bias_core.errors import InvalidInput, NotAllowed

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_ITEMS = 20_000
MAX_USER = 100  # characters of a Hub user's id


@dataclass(frozen=True, kw_only=True)
class OwnerKey:
    """What opens a task to its owner: its id with the secret, or with the Hub user who made it.

    ``hub_user`` is what the Hub never gives to another account (the ``sub`` of a sign-in: names may change
    hands). It must come from a checked sign-in, never from a form.
    """

    task_id: str
    secret: str = ""
    hub_user: str = ""

    @property
    def text(self) -> str:
        """For the owner's link."""
        return f"{self.task_id}.{self.secret}"

    @classmethod
    def parse(cls, text: object) -> OwnerKey:
        """The key in an owner's link; one that opens nothing where the text is none."""
        task_id, _, secret = (text if isinstance(text, str) else "").strip().partition(".")
        return cls(task_id=task_id, secret=secret)


@dataclass(frozen=True, kw_only=True)
class CreatedTask:
    """A new task, its owner's key (told once: only a hash is kept) and the code of the raters' link."""

    task: Task
    key: OwnerKey
    join_code: str


@dataclass(frozen=True, kw_only=True)
class TaskPicture:
    """A picture to be asked about; the fields are those of :class:`~bias_core.annotation.tasks.Item`."""

    path: Path
    image_id: str
    identities: Mapping[str, str]
    gold: Mapping[str, str] | None = None
    question: str = ""


def create_task(
    store: LabelStore, task: Task, pictures: Sequence[TaskPicture], *, hub_user: str = ""
) -> CreatedTask:
    """A new draft with its items; copies of the pictures are kept, without what is written in them.

    Raises
    ------
    InvalidInput
        The task or a picture cannot be used; the message quotes it.
    """
    checked_task(task)
    if not 1 <= len(pictures) <= MAX_ITEMS:
        raise InvalidInput(f"a task has 1 to {MAX_ITEMS:,} pictures; got {len(pictures):,}")
    rows = [_item_row(store, task, picture) for picture in pictures]
    made_of = {row["picture"]: picture.path for row, picture in zip(rows, pictures, strict=True)}
    if all(row["gold"] is not None for row in rows):
        raise InvalidInput("every picture has a known answer: there is nothing to ask")
    task_id, secret, join_code = secrets.token_hex(8), secrets.token_urlsafe(32), secrets.token_urlsafe(18)
    now = store.now_ms
    with store.write() as connection:
        connection.execute(
            insert(tasks).values(
                id=task_id,
                join_code=join_code,
                owner_hash=hashed(secret),
                hub_user=checked_text("hub_user", hub_user, MAX_USER),
                status="draft",
                version=1,
                created_ms=now,
            )
        )
        _keep_version(connection, task_id, 1, task, now)
        connection.execute(insert(items), [{"task_id": task_id, **row} for row in rows])
        for name, original in made_of.items():  # another task that showed it may just have been deleted
            if not picture_path(store.pictures, name).is_file():
                keep_picture(store.pictures, original)
    made = replace(task, id=task_id, version=1, status="draft", created=iso(now))
    return CreatedTask(task=made, key=OwnerKey(task_id=task_id, secret=secret), join_code=join_code)


def owned_task(store: LabelStore, key: OwnerKey) -> tuple[Task, str]:
    """The task that this key opens, and the code of the raters' link; NotAllowed where it opens none."""
    with store.read() as connection:
        row = owned_row(connection, key)
    return stored_task(store, row), row.join_code


def tasks_of(store: LabelStore, hub_user: str) -> list[Task]:
    """The tasks that this Hub user made, newest first; none for nobody."""
    mine = select(tasks).where(tasks.c.hub_user == hub_user, tasks.c.hub_user != "")
    with store.read() as connection:
        found = connection.execute(mine.order_by(tasks.c.created_ms.desc())).all()
    return [stored_task(store, row) for row in found]


def set_status(store: LabelStore, key: OwnerKey, status: Status) -> Task:
    """Open, pause or close a task. A paused one gives no new picture; a closed one takes no answer."""
    if status not in get_args(Status) or status == "draft":
        raise InvalidInput(f"a task is made open, paused or closed; got {quoted(status)}")
    with store.write() as connection:
        row = owned_row(connection, key, change=True)
        connection.execute(update(tasks).where(tasks.c.id == row.id).values(status=status))
    return replace(stored_task(store, row), status=status)


def change_task(store: LabelStore, key: OwnerKey, task: Task) -> Task:
    """A new version of the texts; answers keep the version that they were given in.

    Raises
    ------
    InvalidInput
        The kind, the positions or the answers' keys are others: that is another task.
    """
    checked_task(task)
    with store.write() as connection:
        row = owned_row(connection, key, change=True)
        old = store.task(row.id, row.version)
        for name in ("kind", "positions", "answer_keys"):
            if getattr(task, name) != getattr(old, name):
                raise InvalidInput(f"the {name} of a task stay as they are: make a new task")
        version, now = row.version + 1, store.now_ms
        _keep_version(connection, row.id, version, task, now)
        connection.execute(update(tasks).where(tasks.c.id == row.id).values(version=version))
    return replace(task, id=row.id, version=version, status=row.status, created=iso(row.created_ms))


def iso(milliseconds: int) -> str:
    """A time of the store as text.

    Examples
    --------
    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def owned_row(connection: Connection, key: OwnerKey, *, change: bool = False) -> Found:
    """The row of the task that this key opens, locked for a change; NotAllowed where it opens none."""
    wanted = select(tasks).where(tasks.c.id == token(key.task_id))
    row = connection.execute(wanted.with_for_update() if change else wanted).first()
    if row is not None:
        if key.secret and hmac.compare_digest(row.owner_hash, hashed(key.secret)):
            return row
        if key.hub_user and hmac.compare_digest(row.hub_user.encode(), key.hub_user.encode()):
            return row
    raise NotAllowed("this link opens no task of yours")


def stored_task(store: LabelStore, row: Found) -> Task:
    """The task of this row, in its newest version."""
    return replace(store.task(row.id, row.version), status=row.status, created=iso(row.created_ms))


def _item_row(store: LabelStore, task: Task, picture: TaskPicture) -> dict[str, Any]:
    identities = {position: picture.identities.get(position, "") for position in task.positions}
    if strange := set(picture.identities) - set(identities):
        raise InvalidInput(f"{quoted(min(strange))} is no position of this task: {', '.join(identities)}")
    for position, identity in identities.items():
        checked_text(f"identity of {position}", identity, MAX_LINE)
        if "{}" in (picture.question or task.questions[position]) and not identity.strip():
            raise InvalidInput(
                f"the question of {position} names whom a picture shows; {picture.path.name} says nobody"
            )
    checked_text("image_id", picture.image_id, MAX_LINE, required=True)
    checked_text("question", picture.question, MAX_LINE)
    return {
        "picture": keep_picture(store.pictures, picture.path),
        "image_id": picture.image_id,
        "identities": identities,
        "gold": None if picture.gold is None else checked_choices(task, picture.gold),
        "question": picture.question,
        "n_claims": 0,
    }


def _keep_version(connection: Connection, task_id: str, version: int, task: Task, now: int) -> None:
    values = {"task_id": task_id, "version": version, "texts": task_texts(task), "created_ms": now}
    connection.execute(insert(task_versions).values(values))
