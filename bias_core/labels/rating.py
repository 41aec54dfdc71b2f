"""Actions of a rater: join a task, see an item, answer, skip, undo, delete.

Every function is one transaction over a :class:`~bias_core.labels.label_store.LabelStore`, in which the task
is locked; its result is on disk. A rater has only a code, and sees of an item only what a blind rater may:
a picture under their own token, the person that the prompt asked for, and their progress.

Raters join with a pass, which proves that they read the page with the task's consent text. It is signed with a hash
of the owner's secret, so that every process can check it, and visits leave no trace. The rater's code is made from
it: a repeated request to join finds the same rater.
"""

import hmac
import math
import random
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, Literal

from sqlalchemy import Connection, Integer, bindparam, exists, func, insert, select, update

from bias_core.errors import InvalidInput, NotAllowed, quoted
from bias_core.labels.label_store import (
    LabelStore,
    Row,
    answers,
    assignments,
    crowd_ids,
    hash_secret,
    items,
    rater_facts,
    raters,
    tasks,
    token,
)
from bias_core.labels.task_owner import CLAIMS, count_claims, remove_raters
from bias_core.study.label_tasks import Task, checked_choices

MAX_RATERS = 10_000  # of a task: joining is free, disk space is not
MAX_DURATION_MS = 24 * 3600 * 1000  # the page measures it, so it may be forged
PASS_HOURS = 24
UNTOUCHED_SECONDS = 180  # sooner if that rater has done nothing yet: a script may join and never answer
RELEASE_AFTER_SECONDS = 1800  # after this time, an item on one rater's screen goes to others too

# Crockford's base 32: no letter is taken for a digit. Twenty of them are 100 bits.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 20
_CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_PASS = re.compile(r"([0-9a-f]{1,12})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{32})")
_STATUS_WORDS = {"draft": "not open yet", "paused": "paused", "closed": "closed", "open": "open"}

Act = Literal["answer", "skip", "undo"]
NOT_SAID = -1  # index of "prefer not to say", an answer to every question about the rater
_ID = re.compile(r"[A-Za-z0-9_-]{0,64}")


@dataclass(frozen=True, kw_only=True)
class CrowdIds:
    """The ids of one rater in the link of a crowd platform (Prolific: PROLIFIC_PID, STUDY_ID, SESSION_ID)."""

    participant: str
    study: str = ""
    session: str = ""

    def __post_init__(self) -> None:
        for id_field in fields(self):
            if not (isinstance(value := getattr(self, id_field.name), str) and _ID.fullmatch(value)):
                raise InvalidInput(
                    f"the {id_field.name} of a crowd platform is up to 64 letters and digits; got {quoted(value)}"
                )
        if not self.participant:
            raise InvalidInput("the link of a crowd platform must give a participant's id, and this one gives none")


@dataclass(frozen=True, kw_only=True)
class NewRater:
    """A new rater's code (shown once), and the task."""

    code: str
    task: Task


@dataclass(frozen=True, kw_only=True)
class ItemQuestion:
    """The question about one position of an item."""

    position: str
    text: str
    identity: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The screen of a rater: an item, or the reason that there is none."""

    item: str = ""  # token of the item and its picture for this rater; "" without an item
    questions: tuple[ItemQuestion, ...] = ()  # one for each position, in order
    task: Task  # texts and answers, in the version that this item uses
    # this rater's earlier answers that they took back; else empty
    earlier_choices: Mapping[str, str] = field(default_factory=dict)
    # n_answered, n_left: items that the rater answered, and that are there for them, this one and the attention checks
    # to come included: each of either kind makes one less
    n_answered: int
    n_left: int = 0
    can_undo: bool  # true if there is something to take back
    # "" while there is an item, else "all" (nothing is left), "paused", "closed", "draft", or "excluded" where the
    # owner has ended this rater's part
    why_done: str = ""
    asks_about_rater: bool = False  # true if this rater gets the questions about themselves first
    crowd_code: str = ""  # crowd platform's code for a rater who is done; "" before that, or without a platform


def join(store: LabelStore, join_code: str, *, page_pass: str | None = None, ids: CrowdIds | None = None) -> NewRater:
    """Add a rater, who has agreed to the consent text, to the task with this link.

    ``page_pass`` comes from the page (:func:`pass_to_join`), and gives the same rater again; None if
    the caller showed the text. ``ids`` are of the crowd platform that sent the rater; if the task has codes, a rater
    who comes back from there is the same rater. NotAllowed if the task is not open, or the page was not read within the
    last day.
    """
    with store.write() as connection:
        row = _task_row(connection, join_code)
        is_crowd = ids is not None and store.task(row.id, row.version).is_of_a_crowd
        if row.status != "open" and not is_crowd:
            raise NotAllowed(f"this task is {_STATUS_WORDS[row.status]}: no one can join now")
        number = secrets.randbits(256)
        if page_pass is not None:
            number = _checked_pass(row.owner_hash, page_pass, store.now_ms)
        if ids is not None and is_crowd:
            number = _hash_number(row.owner_hash, f"crowd {ids.participant}")
        code = "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_CODE_LENGTH))
        if connection.execute(_RATER, {"code_hash": hash_secret(code)}).first() is None:
            if row.status != "open":
                raise NotAllowed(f"this task is {_STATUS_WORDS[row.status]}: no one can join now")
            if (connection.scalar(select(func.count()).where(raters.c.task_id == row.id)) or 0) >= MAX_RATERS:
                raise NotAllowed(f"this task has its {MAX_RATERS:,} raters")
            new = {"task_id": row.id, "name": f"rater-{secrets.token_hex(6)}", "code_hash": hash_secret(code)}
            new |= {"joined_ms": store.now_ms, "seed": store.rng.getrandbits(31)}
            connection.execute(insert(raters).values(new))
            if ids is not None and is_crowd:
                rater = connection.execute(_RATER, {"code_hash": hash_secret(code)}).one()
                connection.execute(insert(crowd_ids).values(rater_id=rater.id, **vars(ids)))
    return NewRater(code=code_in_groups(code), task=store.task(row.id, row.version))


def pass_to_join(store: LabelStore, join_code: str) -> str:
    """Return a pass for one visitor to the page of the task with this link, for :func:`join`."""
    with store.read() as connection:
        return new_pass(_task_row(connection, join_code).owner_hash, store.now_ms)


def new_pass(secret: str, now_ms: int) -> str:
    """Make a pass for one rater of the task with this secret."""
    text = f"{now_ms:x}.{secrets.token_urlsafe(12)}"
    return f"{text}.{_signature(secret, text)}"


def task_to_join(store: LabelStore, join_code: str) -> tuple[Task, str]:
    """The task of this link and its status, for the consent page; raises as :func:`join`."""
    with store.read() as connection:
        row = _task_row(connection, join_code)
    return store.task(row.id, row.version), row.status


def get_task(store: LabelStore, code: str) -> tuple[Task, str]:
    """The task of this rater and its status, for another device; NotAllowed for an unknown code."""
    with store.read() as connection:
        rater = _rater(connection, code, lock=False)
    return store.task(rater.task_id, rater.version), rater.status


def next_item(store: LabelStore, code: str) -> Turn:
    """The item on this rater's screen, or a random one with the fewest raters; NotAllowed for an unknown code."""
    with store.write() as connection:
        return _turn(store, connection, _rater(connection, code))


def give_answer(
    store: LabelStore, code: str, *, answer_id: str, item: str, choices: Mapping[str, str], duration_ms: int = 0
) -> Turn:
    """Store an answer to ``item`` (its token) and return the next item; a repeated ``answer_id`` changes nothing.

    ``choices`` holds the key of an answer for each position; one about the whole picture may stand alone. NotAllowed
    if no rater has this code, the item is not theirs, or the task is closed; InvalidInput if the choices do not
    fit the question, or the item has an answer already.
    """
    if not (type(duration_ms) is int and 0 <= duration_ms <= MAX_DURATION_MS):
        raise InvalidInput(f"duration_ms is 0 to {MAX_DURATION_MS:,}; got {quoted(duration_ms)}")
    return _record_turn(store, code, "answer", answer_id, item, choices, duration_ms)


def skip(store: LabelStore, code: str, *, answer_id: str, item: str) -> Turn:
    """Leave an item to others for good and return the next. Raises as :func:`give_answer`."""
    return _record_turn(store, code, "skip", answer_id, item)


def _record_turn(
    store: LabelStore,
    code: str,
    kind: Literal["answer", "skip"],
    answer_id: str,
    item: str,
    choices: Mapping[str, str] | None = None,
    duration_ms: int = 0,
) -> Turn:
    with store.write() as connection:
        rater = _rater(connection, code)
        if not _is_replay(connection, rater, answer_id, kind):
            _check_open(rater)
            if (place := connection.execute(_OF_TOKEN, {"token": token(item), "rater": rater.id}).first()) is None:
                raise NotAllowed("this picture was not shown to you")
            if place.state not in ("shown", "released"):
                raise InvalidInput("you have answered or skipped this picture already; undo that to answer it again")
            if choices is not None:
                choices = checked_choices(store.task(rater.task_id, place.task_version), choices)
            _keep(store, connection, place, answer_id, kind, choices=choices or {}, duration_ms=duration_ms)
            _move(connection, place, "answered" if kind == "answer" else "skipped")
        return _turn(store, connection, rater)


def undo(store: LabelStore, code: str, *, answer_id: str) -> Turn:
    """Take back the last answer or skip and return its item; InvalidInput without any."""
    with store.write() as connection:
        rater = _rater(connection, code)
        if not _is_replay(connection, rater, answer_id, "undo"):
            _check_open(rater)
            if (last := connection.execute(_LAST, {"rater": rater.id}).first()) is None:
                raise InvalidInput("there is nothing to take back")
            place = connection.execute(_OF_ITEM, {"rater": rater.id, "item": last.item_id}).one()
            _keep(store, connection, place, answer_id, "undo", withdraws=last.id)
            newest = connection.scalar(_NEWEST, {"rater": rater.id}) or 0
            _move(connection, place, "shown", since_ms=max(store.now_ms, newest + 1))
        return _turn(store, connection, rater)


def tell_about_me(store: LabelStore, code: str, *, version: int, choices: Sequence[int]) -> Turn:
    """Store a rater's answers about themselves by index (-1: none) and return the item; InvalidInput for others."""
    with store.write() as connection:
        rater = _rater(connection, code)
        _check_open(rater)
        if not 1 <= version <= rater.version:
            raise InvalidInput(f"this task has versions 1 to {rater.version}; got {quoted(version)}")
        _keep_facts(store, connection, rater, store.task(rater.task_id, version), choices)
        return _turn(store, connection, rater)


def _has_facts(connection: Connection, rater_id: int) -> bool:
    """True if this rater has answered or declined the questions about themselves."""
    return connection.scalar(select(rater_facts.c.rater_id).where(rater_facts.c.rater_id == rater_id)) is not None


def _keep_facts(store: LabelStore, connection: Connection, rater: Row, task: Task, choices: Sequence[int]) -> None:
    """Store a rater's answers about themselves, once: each answer's index, or :data:`NOT_SAID`."""
    if len(choices) != len(task.about_rater):
        raise InvalidInput(
            f"this task asks {len(task.about_rater)} questions about the rater; got {len(choices)} answers"
        )
    facts = {}
    for (question, possible), place in zip(task.about_rater.items(), choices, strict=True):
        if not NOT_SAID <= place < len(possible):
            raise InvalidInput(f"{quoted(question)} has answers 0 to {len(possible) - 1}, or {NOT_SAID}; got {place}")
        if place != NOT_SAID:
            facts[question] = possible[place]
    if not _has_facts(connection, rater.id):
        connection.execute(insert(rater_facts).values(rater_id=rater.id, facts=facts, at_ms=store.now_ms))


def delete_my_answers(store: LabelStore, code: str) -> int:
    """Delete all of this rater's data; keep and return the number of answers, under the random name."""
    with store.write() as connection:
        if (rater := _rater(connection, code)).excluded_ms is None:  # the answers of other raters count no more
            count_claims(connection, rater.id, CLAIMS, -1)
        return remove_raters(store, connection, rater.task_id, [rater])


def find_picture_hash(store: LabelStore, item: str) -> str:
    """SHA-256 of the picture that a rater saw under this item's token; NotAllowed without one."""
    with store.read() as connection:
        picture: str | None = connection.scalar(_PICTURE, {"token": token(item)})
    if picture is None:
        raise NotAllowed("no picture has this address")
    return picture


def code_in_groups(code: str) -> str:
    """Write a code in groups of four, easy to copy by hand."""
    return "-".join(code[i : i + 4] for i in range(0, len(code), 4))


def plain_code(code: str) -> str:
    """Correct the usual slips in a code that a rater typed.

    >>> plain_code(" 7o3k-il00 ")
    '703K1100'
    """
    return re.sub(r"[\s-]", "", code).upper().translate(str.maketrans("OIL", "011"))


def _checked_pass(secret: str, page_pass: str, now_ms: int) -> int:
    """256 bits for the code of the rater with this pass; NotAllowed for one older than a day."""
    if (match := _PASS.fullmatch(page_pass)) is not None:
        when, nonce, signature = match.groups()
        is_ours = hmac.compare_digest(signature, _signature(secret, f"{when}.{nonce}"))
        if is_ours and 0 <= now_ms - int(when, 16) < PASS_HOURS * 3_600_000:
            return _hash_number(secret, f"code {page_pass}")
    raise NotAllowed("read the task's page again before you join: open the link, read, and press Start")


def _hash_number(secret: str, text: str) -> int:
    return int.from_bytes(hmac.digest(secret.encode(), text.encode(), "sha256"), "big")


def _signature(secret: str, text: str) -> str:
    return hmac.digest(secret.encode(), f"page {text}".encode(), "sha256").hex()[:32]


def _task_row(connection: Connection, join_code: str) -> Row:
    if (row := connection.execute(select(tasks).where(tasks.c.join_code == token(join_code))).first()) is None:
        raise NotAllowed("this link opens no task; ask for a new one where you got it")
    return row


def _rater(connection: Connection, code: str, *, lock: bool = True) -> Row:
    """The rater and their task, which is locked so that one rater acts at a time."""
    row = connection.execute(_RATER_LOCKED if lock else _RATER, {"code_hash": hash_secret(plain_code(code))}).first()
    if row is None:
        raise NotAllowed("no rater has this code; it may be misspelled, or its answers were deleted")
    return row


def _check_open(rater: Row) -> None:
    """Raise NotAllowed if the task takes no answers from this rater; a paused task still takes the one on screen."""
    if rater.excluded_ms is not None:
        raise NotAllowed(
            "the person who made this task has ended your part in it: the task takes no more answers of yours. "
            "What you answered before is kept; you can delete it"
        )
    if rater.status not in ("open", "paused"):
        raise NotAllowed(f"this task is {_STATUS_WORDS[rater.status]}: no answer is taken any more")


def _is_replay(connection: Connection, rater: Row, answer_id: str, kind: Act) -> bool:
    """True if this action is stored already."""
    if not (isinstance(answer_id, str) and _CLIENT_ID.fullmatch(answer_id)):
        raise InvalidInput(f"an answer's id is 8 to 64 of A-Z, a-z, 0-9, _ and -; got {quoted(answer_id)}")
    if (earlier := connection.scalar(_KIND_OF_ACT, {"rater": rater.id, "client_id": answer_id})) not in (None, kind):
        raise InvalidInput(f"the id {quoted(answer_id)} was used for another action")
    return earlier is not None


def _keep(store: LabelStore, connection: Connection, place: Row, answer_id: str, kind: Act, **values: object) -> None:
    same = {"rater_id": place.rater_id, "item_id": place.item_id, "task_version": place.task_version}
    act = {"client_id": answer_id, "kind": kind, "at_ms": store.now_ms}
    connection.execute(_NEW_ACT, same | act | {"choices": {}, "duration_ms": 0, "withdraws": None} | values)


def _turn(store: LabelStore, connection: Connection, rater: Row) -> Turn:
    """The screen of this rater; claims a new item if there is none on it."""
    past = _Past(store, connection, rater)
    status = "excluded" if rater.excluded_ms is not None else rater.status
    is_at_work, on_screen, n_open = status in ("open", "paused"), None, 0
    if is_at_work and past.n["shown"]:
        on_screen = connection.execute(_ON_SCREEN, {"rater": rater.id}).one()
        n_open = connection.scalar(_N_OPEN, past.limits) or 0
    elif status == "open":
        on_screen, n_open = past.claim()
    same: dict[str, Any] = {"n_answered": past.n["answered"]}
    same["can_undo"] = is_at_work and past.n["answered"] + past.n["skipped"] > 0
    if on_screen is None:
        reason = "all" if status == "open" else status
        return Turn(task=past.task, why_done=reason, crowd_code=_crowd_code(connection, rater, past, reason), **same)
    choices: Mapping[str, str] = {}
    if past.n["shown"] or past.n["released"]:
        choices = connection.scalar(_TAKEN_BACK, {"rater": rater.id, "item": on_screen.item_id}) or {}
    task, n_left = store.task(rater.task_id, on_screen.task_version), past.n["shown"] + n_open
    questions = tuple(
        ItemQuestion(position=position, text=text, identity=on_screen.identities.get(position, ""))
        for position, text in task.questions_about(on_screen).items()
    )
    n_left += past.checks_to_come(n_open)
    same["asks_about_rater"] = bool(task.about_rater) and not _has_facts(connection, rater.id)
    return Turn(item=on_screen.token, questions=questions, task=task, earlier_choices=choices, n_left=n_left, **same)


def _crowd_code(connection: Connection, rater: Row, past: "_Past", why_done: str) -> str:
    """The crowd platform's code for a rater who is done: completed, failed or screened out."""
    if why_done in ("paused", "draft"):
        return ""
    right = [row.choices == row.gold for row in connection.execute(_CHECKED, {"rater": rater.id})]
    if why_done == "excluded" or 2 * sum(right) < len(right):
        return past.task.failed_code
    return past.task.completion_code if past.n["answered"] else past.task.screened_out_code


def n_checks_before(place: int, share: float, *, seed: int) -> int:
    """The number of attention checks before a rater's ordinary item number ``place``, counted from 1.

    With ``share`` of the items being checks, ``share / (1 - share)`` stand before each ordinary item: the
    k-th comes at a random place of its share, by the rater's ``seed``. So all places are known beforehand,
    and the number left is exact.

    >>> [n_checks_before(place, 0.5, seed=0) for place in (0, 1, 10)]
    [0, 1, 10]
    """
    due = place * share / (1 - share)
    whole = math.floor(due)
    # Seeded by a text, which Python hashes: by numbers, neighbours would be alike.
    return whole + (random.Random(f"{seed} {whole}").random() < due - whole)


class _Past:
    """Items shown to this rater so far, by state; ``n_ordinary`` and ``n_checks`` leave released ones out."""

    def __init__(self, store: LabelStore, connection: Connection, rater: Row) -> None:
        self.store, self.connection, self.rater = store, connection, rater
        self.task = store.task(rater.task_id, rater.version)
        self.limits = {"task": rater.task_id, "rater": rater.id, "most": self.task.raters_per_item}
        self.n: Counter[str] = Counter()
        self.n_ordinary = self.n_checks = 0
        for state, is_ordinary, n in connection.execute(_STATES, {"rater": rater.id}):
            self.n[state] += n
            if state != "released":
                self.n_ordinary += n if is_ordinary else 0
                self.n_checks += 0 if is_ordinary else n

    def checks_to_come(self, n_ordinary: int) -> int:
        """The number of attention checks up to the last of ``n_ordinary`` more items."""
        if not n_ordinary:
            return 0
        n_due = n_checks_before(self.n_ordinary + n_ordinary, self.task.gold_share, seed=self.rater.seed)
        return max(0, min(n_due, self.store.n_checks(self.rater.task_id)) - self.n_checks)

    def claim(self) -> tuple[Row, int]:
        """Claim an item for this rater (None without any), perhaps one that they left before; also the items left."""
        choice = {**self.limits, "pick": secrets.randbelow(2**31)}
        pick: Row = self.connection.execute(_FEWEST, choice).first()
        if pick is None and self._release_old():
            pick = self.connection.execute(_FEWEST, choice).first()
        if pick is None:
            return None, 0
        n_open = pick.n_open
        if self.checks_to_come(1):
            pick = self.connection.execute(_CHECK, self.limits).one()
        mine = {"rater": self.rater.id, "item": pick.id}
        place = {"version": self.rater.version, "since": self.store.now_ms}
        earlier_claim = self.connection.execute(_RELEASED, mine).first() if self.n["released"] else None
        if earlier_claim is None:
            new_token = secrets.token_urlsafe(24)
            self.connection.execute(_ASSIGN, {**mine, **place, "new_token": new_token})
        else:
            new_token = earlier_claim.token  # had before: the same one
            self.connection.execute(_RETAKE, {"which": earlier_claim.id, **place})
        self.connection.execute(_COUNT_CLAIM, {"item": pick.id, "change": 1})
        texts = {"identities": pick.identities, "question": pick.question}
        return SimpleNamespace(item_id=pick.id, token=new_token, task_version=self.rater.version, **texts), n_open

    def _release_old(self) -> int:
        """Release items that raters left on their screens long ago; those raters may still answer them."""
        now = self.store.now_ms
        long_ago = {"before": now - RELEASE_AFTER_SECONDS * 1000, "untouched": now - UNTOUCHED_SECONDS * 1000}
        old = self.connection.execute(_LEFT_LYING, {"task": self.rater.task_id, **long_ago}).all()
        for place in old:
            _move(self.connection, place, "released")
        return len(old)


def _move(connection: Connection, place: Row, state: str, since_ms: int | None = None) -> None:
    """Change the state of an assignment and the item's count of claims."""
    connection.execute(_MOVE, {"which": place.id, "to": state, "since": since_ms or place.since_ms})
    if change := (state in CLAIMS) - (place.state in CLAIMS):
        connection.execute(_COUNT_CLAIM, {"item": place.item_id, "change": change})


# Built once: to build a statement takes longer than to run it.
_act, _item, _place = answers.c, items.c, assignments.c
_by_rater, _of_rater = (column == bindparam("rater") for column in (_act.rater_id, _place.rater_id))
_later = answers.alias()
_holds = _by_rater & ~exists().where(_later.c.withdraws == _act.id)
_newest_act = select(_act.id, _act.item_id, _act.choices).order_by(_act.id.desc()).limit(1)
_LAST = _newest_act.where(_holds, _act.kind.in_(("answer", "skip")))
_CHECKED = select(_act.choices, _item.gold).select_from(answers).join(items, _item.id == _act.item_id)
_CHECKED = _CHECKED.where(_holds, _act.kind == "answer", _item.gold.is_not(None))
_TAKEN_BACK = _newest_act.with_only_columns(_act.choices)
_TAKEN_BACK = _TAKEN_BACK.where(_by_rater, _act.item_id == bindparam("item"), _act.kind == "answer")
_NEW_ACT = insert(answers)
_KIND_OF_ACT = select(_act.kind).where(_by_rater, _act.client_id == bindparam("client_id"))
_RATER = (
    select(raters.c.id, raters.c.name, raters.c.seed, raters.c.excluded_ms)
    .add_columns(tasks.c.id.label("task_id"), tasks.c.status, tasks.c.version)
    .join(tasks, tasks.c.id == raters.c.task_id)
    .where(raters.c.code_hash == bindparam("code_hash"))
)
_RATER_LOCKED = _RATER.with_for_update(of=tasks)
_OF_TOKEN = select(assignments).where(_place.token == bindparam("token"), _of_rater)
_OF_ITEM = select(assignments).where(_place.item_id == bindparam("item"), _of_rater)
_RELEASED = _OF_ITEM.where(_place.state == "released")
_NEWEST = select(func.max(_place.since_ms)).where(_of_rater)
_is_of_item = _item.id == _place.item_id
_PICTURE = select(_item.picture).join(assignments, _is_of_item).where(_place.token == bindparam("token"))
_is_ordinary, _of_task = _item.gold.is_(None), _item.task_id == bindparam("task")
_STATES = select(_place.state, _is_ordinary, func.count()).join(items, _is_of_item).where(_of_rater)
_STATES = _STATES.group_by(_place.state, _is_ordinary)
_shown = select(assignments, _item.identities, _item.question).join(items, _is_of_item).where(_place.state == "shown")
_ON_SCREEN = _shown.where(_of_rater).order_by(_place.since_ms.desc(), _place.id.desc()).limit(1)
_did_nothing = ~exists().where(_act.rater_id == _place.rater_id)
_is_left = (_place.since_ms < bindparam("before")) | ((_place.since_ms < bindparam("untouched")) & _did_nothing)
_LEFT_LYING = _shown.where(_of_task, _is_left)
_IS_OPEN = _is_ordinary & (_item.n_claims < bindparam("most"))
_MET = _of_rater & (_place.state != "released")
_unseen = _of_task & _item.id.not_in(select(_place.item_id).where(_MET))
_n_wanted = select(func.count()).select_from(items).where(_of_task, _IS_OPEN).scalar_subquery()
_n_of_met = select(func.count()).select_from(assignments).join(items, _is_of_item)
_n_met = _n_of_met.where(_MET, _IS_OPEN).scalar_subquery()
_N_OPEN = select(_n_wanted - _n_met)
# Counts find a random place among the fewest faster than an order by random numbers, which sorts every item.
_lowest = select(_item.n_claims).where(_unseen, _IS_OPEN).order_by(_item.n_claims).limit(1).cte("lowest")
_is_lowest = _is_ordinary & (_item.n_claims == select(_lowest.c.n_claims).scalar_subquery())
_n_lowest = select(func.count()).select_from(items).where(_of_task, _is_lowest).scalar_subquery()
_n_met_lowest = _n_of_met.where(_MET, _is_lowest).scalar_subquery()
_place_of = bindparam("pick", type_=Integer) % func.coalesce(func.nullif(_n_lowest - _n_met_lowest, 0), 1)
_fewest = select(_item.id).where(_unseen, _is_lowest).order_by(_item.id).limit(1).offset(_place_of)
_ITEM = select(_item.id, _item.identities, _item.question)
_FEWEST = _ITEM.add_columns((_n_wanted - _n_met).label("n_open")).where(_item.id == _fewest.scalar_subquery())
_CHECK = _ITEM.where(_unseen, _item.gold.is_not(None)).order_by(func.random()).limit(1)
_taken = {"state": "shown", "task_version": bindparam("version"), "since_ms": bindparam("since")}
_ASSIGN = insert(assignments).values(
    rater_id=bindparam("rater"), item_id=bindparam("item"), token=bindparam("new_token"), **_taken
)
_which = update(assignments).where(_place.id == bindparam("which"))
_RETAKE = _which.values(**_taken)
_MOVE = _which.values(state=bindparam("to"), since_ms=bindparam("since"))
_COUNT_CLAIM = update(items).where(_item.id == bindparam("item"))
_COUNT_CLAIM = _COUNT_CLAIM.values(n_claims=_item.n_claims + bindparam("change", type_=Integer))
