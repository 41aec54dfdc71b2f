"""What a rater does: join a task, see an item, answer, skip, take back, delete.

Every function is one transaction over a :class:`~bias_core.annotation.label_store.LabelStore`; what it
returns is on the disk. A rater is known by a code alone, and sees of an item only what a blind rater may:
a picture under a token of their own, whom it was asked to show, and how far they are.

Who joins proves by a pass that the page with the task's consent text was read. It is signed with what the
store keeps of the task's owner, so that every process that serves the task knows it and nothing is kept of
who read. The rater's code is made from it: a request to join that is sent again finds the same rater.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from bias_core.annotation.label_store import LabelStore, hash_of, token
from bias_core.annotation.schema import Row, answers, assignments, deletions, items, raters, tasks
from bias_core.annotation.tasks import Task, checked_choices, quote
from bias_core.annotation.turns import CLAIMS, Turn, move, turn
from bias_core.errors import InvalidInput, NotAllowed

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_RATERS = 10_000  # of a task: joining is free, the disk is not
MAX_DURATION_MS = 24 * 3600 * 1000
PASS_HOURS = 24

# Crockford's base 32: no letter is taken for a digit. Twenty of them are 100 bits.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 20
_CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_PASS = re.compile(r"([0-9a-f]{1,12})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{32})")
_STATUS_WORDS = {"draft": "not open yet", "paused": "paused", "closed": "closed", "open": "open"}

Act = Literal["answer", "skip", "undo"]


@dataclass(frozen=True, kw_only=True)
class NewRater:
    """The code that leads to a new rater's answers (told once), and the task."""

    code: str
    task: Task


def join(store: LabelStore, join_code: str, *, page_pass: str | None = None) -> NewRater:
    """A new rater of the task with this link, who has read and agreed to the consent text.

    Parameters
    ----------
    page_pass : of the page that was read (:func:`pass_to_join`); sent again, it gives the same rater. None
        where the caller showed the text.

    Raises
    ------
    NotAllowed
        The link opens no task, the task is not open, or the page was not read within the last day.
    """
    with store.write() as connection:
        row = _task_row(connection, join_code)
        if row.status != "open":
            raise NotAllowed(f"this task is {_STATUS_WORDS[row.status]}: nobody can join now")
        number = secrets.randbits(256)
        if page_pass is not None:
            number = _checked_pass(row.owner_hash, page_pass, store.now_ms)
        code = "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_CODE_LENGTH))
        if connection.execute(_RATER, {"code_hash": hash_of(code)}).first() is None:
            _add_rater(store, connection, row.id, code)
    return NewRater(code=code_in_groups(code), task=store.task(row.id, row.version))


def pass_to_join(store: LabelStore, join_code: str) -> str:
    """What the page of the task with this link gives to whoever reads it, for :func:`join`."""
    with store.read() as connection:
        return new_pass(_task_row(connection, join_code).owner_hash, store.now_ms)


def new_pass(secret: str, now_ms: int) -> str:
    """A pass of the task with this secret, for one rater."""
    text = f"{now_ms:x}.{secrets.token_urlsafe(12)}"
    return f"{text}.{_signature(secret, text)}"


def task_to_join(store: LabelStore, join_code: str) -> tuple[Task, str]:
    """The task of this link and its status, for the page that asks for consent; as :func:`join`."""
    with store.read() as connection:
        row = _task_row(connection, join_code)
    return store.task(row.id, row.version), row.status


def task_of(store: LabelStore, code: str) -> tuple[Task, str]:
    """The task of this rater and its status: what the rater reads on another device. NotAllowed as below."""
    with store.read() as connection:
        rater = _rater(connection, code, lock=False)
    return store.task(rater.task_id, rater.version), rater.status


def next_item(store: LabelStore, code: str) -> Turn:
    """The item on this rater's screen, or a new one: of those with the fewest raters, one at random.

    Raises
    ------
    NotAllowed
        No rater has this code.
    """
    with store.write() as connection:
        return turn(store, connection, _rater(connection, code))


def give_answer(
    store: LabelStore, code: str, *, answer_id: str, item: str, choices: Mapping[str, str], duration_ms: int = 0
) -> Turn:
    """Keep an answer and give the next item.

    Parameters
    ----------
    answer_id : made by the rater's screen for this answer; sent again, nothing happens twice.
    item : its token.
    choices : the key of an answer for each position; one about the whole picture may stand alone.
    duration_ms : how long the picture was looked at.

    Raises
    ------
    NotAllowed
        No rater has this code, the item is not theirs, or the task is closed.
    InvalidInput
        The choices do not fit the question, or the item has an answer already.
    """
    if not (type(duration_ms) is int and 0 <= duration_ms <= MAX_DURATION_MS):
        raise InvalidInput(f"duration_ms is 0 to {MAX_DURATION_MS:,}; got {quote(duration_ms)}")
    with store.write() as connection:
        rater = _rater(connection, code)
        if not _is_replay(connection, rater, answer_id, "answer"):
            place = _waiting_item(connection, rater, item)
            answer = checked_choices(store.task(rater.task_id, place.task_version), choices)
            _keep(store, connection, place, answer_id, "answer", choices=answer, duration_ms=duration_ms)
            move(connection, place, "answered")
        return turn(store, connection, rater)


def skip(store: LabelStore, code: str, *, answer_id: str, item: str) -> Turn:
    """Leave an item to others and give the next; it does not come back. Raises as :func:`give_answer`."""
    with store.write() as connection:
        rater = _rater(connection, code)
        if not _is_replay(connection, rater, answer_id, "skip"):
            place = _waiting_item(connection, rater, item)
            _keep(store, connection, place, answer_id, "skip")
            move(connection, place, "skipped")
        return turn(store, connection, rater)


def undo(store: LabelStore, code: str, *, answer_id: str) -> Turn:
    """Take back the last answer or skip that still holds, and show its item again.

    Raises
    ------
    NotAllowed
        No rater has this code, or the task is closed.
    InvalidInput
        There is nothing to take back.
    """
    with store.write() as connection:
        rater = _rater(connection, code)
        if not _is_replay(connection, rater, answer_id, "undo"):
            _check_open(rater)
            last = connection.execute(_LAST, {"rater": rater.id}).first()
            if last is None:
                raise InvalidInput("there is nothing to take back")
            place = connection.execute(_OF_ITEM, {"rater": rater.id, "item": last.item_id}).one()
            _keep(store, connection, place, answer_id, "undo", withdraws=last.id)
            newest = connection.scalar(_NEWEST, {"rater": rater.id}) or 0
            move(connection, place, "shown", since_ms=max(store.now_ms, newest + 1))
        return turn(store, connection, rater)


def delete_my_answers(store: LabelStore, code: str) -> int:
    """Delete everything of this rater, the code included; the number of answers that held.

    What stays is that somebody with this random name deleted so many answers.
    """
    with store.write() as connection:
        rater = _rater(connection, code)
        n_answers = connection.scalar(_N_ANSWERS, {"rater": rater.id}) or 0
        claims = select(assignments.c.item_id).where(
            assignments.c.rater_id == rater.id, assignments.c.state.in_(CLAIMS)
        )
        if rater.excluded_ms is None:  # else they count no more
            fewer = update(items).where(items.c.id.in_(claims)).values(n_claims=items.c.n_claims - 1)
            connection.execute(fewer)
        for table in (answers, assignments):
            connection.execute(delete(table).where(table.c.rater_id == rater.id))
        connection.execute(delete(raters).where(raters.c.id == rater.id))
        tombstone = {"task_id": rater.task_id, "rater": rater.name, "n_answers": n_answers}
        connection.execute(insert(deletions).values(**tombstone, at_ms=store.now_ms))
    store.erase_traces()
    return n_answers


def picture_of(store: LabelStore, item: str) -> str:
    """SHA-256 of the picture that a rater was shown under this item's token; NotAllowed where none was."""
    with store.read() as connection:
        picture: str | None = connection.scalar(_PICTURE, {"token": token(item)})
    if picture is None:
        raise NotAllowed("no picture has this address")
    return picture


def code_in_groups(code: str) -> str:
    """A code in groups of four, easy to copy by hand."""
    return "-".join(code[i : i + 4] for i in range(0, len(code), 4))


def plain_code(code: str) -> str:
    """What a rater typed as the code that was meant.

    Examples
    --------
    >>> plain_code(" 7o3k-il00 ")
    '703K1100'
    """
    return re.sub(r"[\s-]", "", code).upper().translate(str.maketrans("OIL", "011"))


def _checked_pass(secret: str, page_pass: str, now_ms: int) -> int:
    """256 bits for the code of the rater who has this pass of the last day; NotAllowed says what to do."""
    if (match := _PASS.fullmatch(page_pass)) is not None:
        when, nonce, signature = match.groups()
        is_ours = hmac.compare_digest(signature, _signature(secret, f"{when}.{nonce}"))
        if is_ours and 0 <= now_ms - int(when, 16) < PASS_HOURS * 3_600_000:
            return int.from_bytes(_digest(secret, f"code {page_pass}"), "big")
    raise NotAllowed(
        "who joins has read the task's page within the last day: open the link again, read, and press Start"
    )


def _signature(secret: str, text: str) -> str:
    return _digest(secret, f"page {text}").hex()[:32]


def _digest(secret: str, text: str) -> bytes:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()


def _add_rater(store: LabelStore, connection: Connection, task_id: str, code: str) -> None:
    n_raters = connection.scalar(select(func.count()).where(raters.c.task_id == task_id)) or 0
    if n_raters >= MAX_RATERS:
        raise NotAllowed(f"this task has its {MAX_RATERS:,} raters")
    values = {
        "task_id": task_id, "name": f"rater-{secrets.token_hex(6)}", "code_hash": hash_of(code),
        "joined_ms": store.now_ms, "seed": store.rng.getrandbits(31),
    }  # fmt: skip
    connection.execute(insert(raters).values(values))


def _task_row(connection: Connection, join_code: str) -> Row:
    row = connection.execute(select(tasks).where(tasks.c.join_code == token(join_code))).first()
    if row is None:
        raise NotAllowed("this link opens no task; ask whoever gave it to you for a new one")
    return row


def _rater(connection: Connection, code: str, *, lock: bool = True) -> Row:
    """The rater and their task, which is locked: on one task one rater acts at a time."""
    code_hash = {"code_hash": hash_of(plain_code(code))}
    row = connection.execute(_RATER_LOCKED if lock else _RATER, code_hash).first()
    if row is None:
        raise NotAllowed("no rater has this code; it may be mistyped, or its answers were deleted")
    return row


def _check_open(rater: Row) -> None:
    """What is on the screen may be answered while a task is paused, so that nothing is lost."""
    if rater.excluded_ms is not None:
        raise NotAllowed(
            "whoever made this task has ended your part in it: no more answers of yours are taken. What you "
            "answered before is kept; you can delete it"
        )
    if rater.status not in ("open", "paused"):
        raise NotAllowed(f"this task is {_STATUS_WORDS[rater.status]}: no answer is taken any more")


def _is_replay(connection: Connection, rater: Row, answer_id: str, kind: Act) -> bool:
    """Whether this very act is kept already."""
    if not (isinstance(answer_id, str) and _CLIENT_ID.fullmatch(answer_id)):
        raise InvalidInput(f"an answer's id is 8 to 64 of A-Z, a-z, 0-9, _ and -; got {quote(answer_id)}")
    earlier = connection.scalar(_KIND_OF_ACT, {"rater": rater.id, "client_id": answer_id})
    if earlier not in (None, kind):
        raise InvalidInput(f"the id {quote(answer_id)} was used for another act")
    return earlier is not None


def _waiting_item(connection: Connection, rater: Row, item: str) -> Row:
    """The assignment of an item that waits for this rater's answer."""
    _check_open(rater)
    row = connection.execute(_OF_TOKEN, {"token": token(item), "rater": rater.id}).first()
    if row is None:
        raise NotAllowed("this picture was not shown to you")
    if row.state not in ("shown", "released"):
        raise InvalidInput("this picture is answered or skipped already; undo that to answer it anew")
    return row


def _keep(store: LabelStore, connection: Connection, place: Row, answer_id: str, kind: Act, **values: object) -> None:
    same = {"rater_id": place.rater_id, "item_id": place.item_id, "task_version": place.task_version}
    act = {"client_id": answer_id, "kind": kind, "at_ms": store.now_ms}
    usual = {"choices": {}, "duration_ms": 0, "withdraws": None}
    connection.execute(_INSERT, same | act | usual | values)


# Built once: to build a statement takes longer than to run it.
_RATER = (
    select(raters.c.id, raters.c.name, raters.c.seed, raters.c.excluded_ms, tasks.c.id.label("task_id"))
    .add_columns(tasks.c.status, tasks.c.version)
    .join(tasks, tasks.c.id == raters.c.task_id)
    .where(raters.c.code_hash == bindparam("code_hash"))
)
_RATER_LOCKED = _RATER.with_for_update(of=tasks)
_KIND_OF_ACT = select(answers.c.kind).where(
    answers.c.rater_id == bindparam("rater"), answers.c.client_id == bindparam("client_id")
)
_mine = assignments.c.rater_id == bindparam("rater")
_OF_TOKEN = select(assignments).where(assignments.c.token == bindparam("token"), _mine)
_OF_ITEM = select(assignments).where(assignments.c.item_id == bindparam("item"), _mine)
_NEWEST = select(func.max(assignments.c.since_ms)).where(_mine)
_INSERT = insert(answers)
_later = answers.alias()
_holds = (answers.c.rater_id == bindparam("rater")) & ~exists().where(_later.c.withdraws == answers.c.id)
_LAST = (
    select(answers.c.id, answers.c.item_id)
    .where(_holds, answers.c.kind.in_(("answer", "skip")))
    .order_by(answers.c.id.desc())
    .limit(1)
)
_N_ANSWERS = select(func.count()).select_from(answers).where(_holds, answers.c.kind == "answer")
_PICTURE = (
    select(items.c.picture)
    .join(assignments, assignments.c.item_id == items.c.id)
    .where(assignments.c.token == bindparam("token"))
)
