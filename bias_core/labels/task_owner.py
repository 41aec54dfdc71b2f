"""Actions of a task's owner: make it, open and close it, change it, exclude a rater, delete it.

An owner has the task's secret, or is signed in at the Hub as the user who made it.
"""

import hashlib
import hmac
import io
import re
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from PIL import Image, ImageOps, UnidentifiedImageError
from sqlalchemy import Connection, delete, exists, func, insert, select, update

from bias_core.errors import InvalidInput, NotAllowed, StorageError, quoted
from bias_core.labels.label_store import (
    LabelStore,
    Row,
    answers,
    assignments,
    crowd_ids,
    deletions,
    hash_secret,
    items,
    judgements,
    rater_facts,
    raters,
    task_versions,
    tasks,
    token,
)
from bias_core.store.files import total_bytes, write_atomically
from bias_core.study.label_tasks import (
    MAX_LINE,
    AskedPicture,
    Status,
    Task,
    checked_choices,
    checked_task,
    checked_text,
    task_texts,
)

MAX_ITEMS = 20_000
MAX_USER = 100  # characters of a Hub user's id
MAX_BYTES, MAX_PIXELS = 50_000_000, 40_000_000  # of a picture
FORMATS = ("PNG", "JPEG", "WEBP")
CLAIMS = ("shown", "answered")  # states of an assignment that count towards the raters of its item
_NAME = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 50  # rows or files per transaction of a deletion, so that raters of other tasks do not wait long


@dataclass(frozen=True, kw_only=True)
class OwnerKey:
    """The key of a task for its owner: the task's id with the secret, or with the Hub user who made it.

    ``hub_user`` is an id that the Hub never gives to another account (the ``sub`` of a sign-in: names may change
    hands). It must come from a checked sign-in, never from a form.
    """

    task_id: str
    secret: str = ""
    hub_user: str = ""

    @property
    def text(self) -> str:
        return f"{self.task_id}.{self.secret}"

    @classmethod
    def parse(cls, text: object) -> "OwnerKey":
        """Read the key of an owner's link; a malformed text gives a key that opens nothing."""
        task_id, _, secret = (text if isinstance(text, str) else "").strip().partition(".")
        return cls(task_id=task_id, secret=secret)


@dataclass(frozen=True, kw_only=True)
class CreatedTask:
    """A new task, its owner's key (shown once: only a hash is kept) and the code of the raters' link."""

    task: Task
    key: OwnerKey
    join_code: str


@dataclass(frozen=True, kw_only=True)
class TaskPicture(AskedPicture):
    path: Path


def create_task(store: LabelStore, task: Task, pictures: Sequence[TaskPicture], *, hub_user: str = "") -> CreatedTask:
    """Create a draft with copies of the pictures' pixels; InvalidInput quotes what cannot be used."""
    checked_task(task)
    if not 1 <= len(pictures) <= MAX_ITEMS:
        raise InvalidInput(f"a task may have 1 to {MAX_ITEMS:,} pictures; got {len(pictures):,}")
    n_bytes = total_bytes(store.pictures.rglob("*.png"))
    if n_bytes + total_bytes({picture.path for picture in pictures}) > store.most_picture_bytes:
        raise InvalidInput(
            f"the pictures of all tasks may take {store.most_picture_bytes / 1e9:g} GB here "
            f"(BIAS_LABEL_PICTURES_GB), and {n_bytes / 1e9:.2g} GB are taken: choose fewer pictures, or delete a "
            "task that is done"
        )
    rows = [_item_row(store, task, picture) for picture in pictures]
    originals = {row["picture"]: picture.path for row, picture in zip(rows, pictures, strict=True)}
    if all(row["gold"] is not None for row in rows):
        raise InvalidInput("every picture is an attention check: add pictures without a known answer")
    task_id, secret, join_code = secrets.token_hex(8), secrets.token_urlsafe(32), secrets.token_urlsafe(18)
    now = store.now_ms
    values = {
        "id": task_id, "join_code": join_code, "owner_hash": hash_secret(secret), "status": "draft",
        "hub_user": checked_text("hub_user", hub_user, MAX_USER), "version": 1, "created_ms": now,
    }  # fmt: skip
    with store.write() as connection:
        connection.execute(insert(tasks).values(values))
        _keep_version(connection, task_id, 1, task, now)
        connection.execute(insert(items), [{"task_id": task_id, **row} for row in rows])
        for name, original in originals.items():  # another task that showed it may just have been deleted
            if not picture_path(store.pictures, name).is_file():
                keep_picture(store.pictures, original)
    draft = replace(task, id=task_id, version=1, status="draft", created=iso(now))
    return CreatedTask(task=draft, key=OwnerKey(task_id=task_id, secret=secret), join_code=join_code)


def owned_task(store: LabelStore, key: OwnerKey) -> tuple[Task, str]:
    """The task that this key opens, and the code of the raters' link; NotAllowed if it opens none."""
    with store.read() as connection:
        row = owned_row(connection, key)
    return stored_task(store, row), row.join_code


def list_user_tasks(store: LabelStore, hub_user: str) -> list[Task]:
    """The tasks that this Hub user made, newest first; none for ""."""
    mine = select(tasks).where(tasks.c.hub_user == hub_user, tasks.c.hub_user != "")
    with store.read() as connection:
        rows = connection.execute(mine.order_by(tasks.c.created_ms.desc())).all()
    return [stored_task(store, row) for row in rows]


def set_status(store: LabelStore, key: OwnerKey, status: Status) -> Task:
    """Open, pause (no new picture) or close (no answer) a task; InvalidInput for another status."""
    if status not in get_args(Status) or status == "draft":
        raise InvalidInput(f"a task is made open, paused or closed; got {quoted(status)}")
    return replace(stored_task(store, _with_status(store, key, status)), status=status)


def _with_status(store: LabelStore, key: OwnerKey, status: Status) -> Row:
    with store.write() as connection:
        row = owned_row(connection, key, change=True)
        connection.execute(update(tasks).where(tasks.c.id == row.id).values(status=status))
    return row


def change_task(store: LabelStore, key: OwnerKey, task: Task) -> Task:
    """Save a new version of the texts (answers keep theirs); InvalidInput for other kinds, positions or answer keys."""
    checked_task(task)
    with store.write() as connection:
        row = owned_row(connection, key, change=True)
        old = store.task(row.id, row.version)
        for name in ("kind", "positions", "answer_keys"):
            if getattr(task, name) != getattr(old, name):
                raise InvalidInput(f"the {name} of a task cannot change: make a new task")
        version, now = row.version + 1, store.now_ms
        _keep_version(connection, row.id, version, task, now)
        connection.execute(update(tasks).where(tasks.c.id == row.id).values(version=version))
    return replace(task, id=row.id, version=version, status=row.status, created=iso(row.created_ms))


def exclude_rater(store: LabelStore, key: OwnerKey, rater: str, *, excluded: bool = True) -> None:
    """Exclude a rater's answers from all numbers, or include them again.

    The answers stay, and are exported apart. Other raters take this rater's place; the rater is told, is
    shown nothing more, and can still delete the answers.

    InvalidInput if the task has no ``rater`` of this random name; NotAllowed if the key opens no task.
    """
    name = rater if isinstance(rater, str) and rater.isascii() and rater.isprintable() else ""
    with store.write() as connection:
        task = owned_row(connection, key, change=True)
        row: Row = connection.execute(select(raters).where(raters.c.task_id == task.id, raters.c.name == name)).first()
        if row is None:
            raise InvalidInput(f"this task has no rater {quoted(rater)}; the table of raters has the names")
        if (row.excluded_ms is not None) == excluded:
            return
        if excluded:
            count_claims(connection, row.id, CLAIMS, -1)
            on_screen = (assignments.c.rater_id == row.id) & (assignments.c.state == "shown")
            connection.execute(update(assignments).where(on_screen).values(state="released"))
        else:
            count_claims(connection, row.id, ("answered",), 1)
        since = store.now_ms if excluded else None
        connection.execute(update(raters).where(raters.c.id == row.id).values(excluded_ms=since))


def delete_task(store: LabelStore, key: OwnerKey) -> int:
    """Delete a task for good, with texts, pictures, raters and answers; return the number of answers.

    It is closed first, and deleted in portions, so that raters of other tasks do not wait. After an
    interruption the task is still there, closed: delete it again. Pictures that another task shows
    stay. A row per random name keeps the number of deleted answers.

    NotAllowed if the key opens no task; StorageError, with nothing else deleted, if a picture cannot be removed.
    """
    task_id = _with_status(store, key, "closed").id
    _remove_pictures(store, task_id)
    n_answers, batch = 0, select(raters).where(raters.c.task_id == task_id).limit(_AT_ONCE)
    while True:
        with store.write() as connection:
            if not (portion := connection.execute(batch).all()):
                break
            n_answers += remove_raters(store, connection, task_id, portion)
    with store.write() as connection:
        of_task = select(items.c.id).where(items.c.task_id == task_id)
        connection.execute(delete(judgements).where(judgements.c.item_id.in_(of_task)))
        for table in (items, task_versions):
            connection.execute(delete(table).where(table.c.task_id == task_id))
        no_owner = {"owner_hash": "", "hub_user": "", "join_code": secrets.token_hex(16)}
        connection.execute(update(tasks).where(tasks.c.id == task_id).values(status="deleted", **no_owner))
    store.task.cache_clear()
    return n_answers


def iso(milliseconds: int) -> str:
    """Write a time of the store as text.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def owned_row(connection: Connection, key: OwnerKey, *, change: bool = False) -> Row:
    """The row of the task that this key opens, locked for a ``change``; NotAllowed if it opens none."""
    by_id = select(tasks).where(tasks.c.id == token(key.task_id))
    if (row := connection.execute(by_id.with_for_update() if change else by_id).first()) is not None:
        if key.secret and hmac.compare_digest(row.owner_hash, hash_secret(key.secret)):
            return row
        if key.hub_user and hmac.compare_digest(row.hub_user.encode(), key.hub_user.encode()):
            return row
    raise NotAllowed("this link opens no task of yours")


def stored_task(store: LabelStore, row: Row) -> Task:
    """The task of this row, in its newest version."""
    return replace(store.task(row.id, row.version), status=row.status, created=iso(row.created_ms))


def _item_row(store: LabelStore, task: Task, picture: TaskPicture) -> dict[str, Any]:
    identities = {position: picture.identities.get(position, "") for position in task.positions}
    if strange := set(picture.identities) - set(identities):
        raise InvalidInput(f"{quoted(min(strange))} is not a position of this task: {', '.join(identities)}")
    for position, identity in identities.items():
        checked_text(f"identity of {position}", identity, MAX_LINE)
        if "{}" in (picture.question or task.questions[position]) and not identity.strip():
            raise InvalidInput(
                f"the question of {position} names the person in a picture, and {picture.path.name} names no one"
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


def count_claims(connection: Connection, rater_id: int, states: tuple[str, ...], change: int) -> None:
    """Change the count of claims of every item that this rater holds in one of these states."""
    claims = select(assignments.c.item_id).where(assignments.c.rater_id == rater_id, assignments.c.state.in_(states))
    connection.execute(update(items).where(items.c.id.in_(claims)).values(n_claims=items.c.n_claims + change))


def remove_raters(store: LabelStore, connection: Connection, task_id: str, portion: Sequence[Row]) -> int:
    """Delete these raters' data, keep a row for each, and return the number of current answers."""
    ids, later = [rater.id for rater in portion], answers.alias()
    holds = (answers.c.kind == "answer") & ~exists().where(later.c.withdraws == answers.c.id)
    counts = select(answers.c.rater_id, func.count()).where(answers.c.rater_id.in_(ids), holds)
    n_answers: dict[int, int] = dict(connection.execute(counts.group_by(answers.c.rater_id)).all())
    theirs = (table.c.rater_id for table in (answers, assignments, crowd_ids, rater_facts))
    for column in (*theirs, raters.c.id):
        connection.execute(delete(column.table).where(column.in_(ids)))
    lines = [{"task_id": task_id, "rater": rater.name, "n_answers": n_answers.get(rater.id, 0)} for rater in portion]
    connection.execute(insert(deletions).values(at_ms=store.now_ms), lines)
    return sum(n_answers.values())


def _remove_pictures(store: LabelStore, task_id: str) -> None:
    """Delete the files that no other task shows, while no task can be made with them."""
    with store.read() as connection:
        names = connection.scalars(select(items.c.picture).where(items.c.task_id == task_id).distinct()).all()
    for i in range(0, len(names), _AT_ONCE):
        batch = names[i : i + _AT_ONCE]
        elsewhere = select(items.c.picture).where(items.c.picture.in_(batch), items.c.task_id != task_id)
        with store.write() as connection:
            try:
                for name in set(batch) - set(connection.scalars(elsewhere)):
                    picture_path(store.pictures, name).unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"cannot remove the picture {name[:12]}: {error.strerror}") from error


# The pictures that raters see: pixels only, so that no file tells what its prompt or its model was. A copy of each
# has the SHA-256 of its bytes as name. It stays when the original is evicted from the store of runs. The name
# comes from the content, so that no one can choose a path that is opened.


def keep_picture(folder: Path, original: Path) -> str:
    """Store a picture's pixels and return their SHA-256; InvalidInput for no picture, StorageError for a disk error."""
    data = _pixels_only(original)
    name = hashlib.sha256(data).hexdigest()
    if not (target := picture_path(folder, name)).is_file():
        write_atomically(target, data)
    return name


def picture_path(folder: Path, name: str) -> Path:
    """The path of the picture with this SHA-256; StorageError for any other name."""
    if not _NAME.fullmatch(name):
        raise StorageError("pictures of tasks are named by their SHA-256 only")
    return folder / name[:2] / f"{name}.png"


def task_picture_png(folder: Path, name: str) -> bytes:
    """The file that a rater sees, as PNG; StorageError if it is gone."""
    path = picture_path(folder, name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"the picture {name[:12]} of this task is missing") from error


def _pixels_only(original: Path) -> bytes:
    try:
        if original.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{original.name} has more than {MAX_BYTES / 1e6:.0f} MB")
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(original, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise InvalidInput(f"{original.name} has {image.width} x {image.height} pixels: too many")
                upright = ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"{original.name} is no picture in {', '.join(FORMATS)}, or too large") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise StorageError(f"cannot read the picture {original.name}: {error.strerror}") from error
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{original.name} is a damaged picture: {error}") from error
    buffer = io.BytesIO()
    # A picture of the pixels alone: metadata of the file (prompt, seed, camera, place) is left out.
    Image.frombytes("RGB", upright.size, upright.tobytes()).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
