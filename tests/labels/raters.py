"""Tasks to test with, and raters who ask over HTTP as a browser does: one connection each, kept open."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from sqlalchemy import func, select

from bias_core.labels import label_store as schema
from bias_core.labels.label_store import metadata
from bias_core.labels.rating import Turn, give_answer, join, next_item
from bias_core.labels.task_owner import CreatedTask, TaskPicture, create_task, set_status
from bias_core.study.label_tasks import pst_task

if TYPE_CHECKING:
    from bias_core.labels.label_store import LabelStore

_MOST_TRIES, _PAUSE_SECONDS = 1200, 0.5

POSTGRES = pytest.param("postgresql", marks=pytest.mark.slow)
on_both = pytest.mark.parametrize("store", ["sqlite", POSTGRES], indirect=True)
"""Places where databases may differ: each statement once, what is done at once, and what is odd as a text."""

CHOICES = {"left": "feminine", "right": "masculine"}
GOLD = {"left": "feminine", "right": "feminine"}
FAILED = {"left": "not_two_people", "right": "not_two_people"}


def spotted(size: tuple[int, int], colour: tuple[int, int, int]) -> Image.Image:
    """A picture with one white pixel: of one colour all over it would count as blanked."""
    picture = Image.new("RGB", size, colour)
    picture.putpixel((size[0] - 1, size[1] - 1), (255, 255, 255))
    return picture


def pictures(folder: Path, n: int, *, n_gold: int = 0) -> list[TaskPicture]:
    """``n`` ordinary pictures of one colour each, and then ``n_gold`` with a known answer."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for i in range(n + n_gold):
        path = folder / f"{i}.png"
        spotted((16, 16), (i % 256, i // 256, 7)).save(path)
        identities = {"left": f"nurse {i}", "right": "CEO"}
        gold = GOLD if i >= n else None
        made.append(TaskPicture(path=path, image_id=f"picture-{i}", identities=identities, gold=gold))
    return made


def open_task(store: Any, folder: Path, n: int = 7, *, n_gold: int = 0, **changes: Any) -> CreatedTask:
    """An open task about pairs with ``n`` ordinary items."""
    made = create_task(store, pst_task(paired=True, **changes), pictures(folder, n, n_gold=n_gold))
    set_status(store, made.key, "open")
    return made


def to_join(client: Any, join_code: str) -> dict[str, Any]:
    """The page's request for a rater who has read it and agrees."""
    page = client.get(f"/label/task/{join_code}").json()["page"]
    return {"task": join_code, "agreed": True, "page": page}


def joined(client: Any, task: CreatedTask, **more: Any) -> dict[str, str]:
    """The header of somebody who has joined at the raters' door."""
    said = client.post("/label/join", json=to_join(client, task.join_code) | more)
    assert said.status_code == 200, said.text
    return {"X-Rater-Code": said.json()["code"]}


def answer_to(turn: Any, **changes: Any) -> dict[str, Any]:
    """The page's answer to the item that it shows."""
    return {"id": new_id(), "item": turn["item"], "choices": CHOICES, "duration_ms": 900} | changes


def every_row(store: Any) -> dict[str, list[str]]:
    """Everything that a store holds, by table."""
    with store.read() as connection:
        found = {
            table.name: connection.execute(table.select().order_by(*table.primary_key))
            for table in metadata.sorted_tables
        }
        return {name: [repr(tuple(row)) for row in rows] for name, rows in found.items()}


def new_id() -> str:
    return uuid.uuid4().hex


@dataclass
class WebRater:
    """Somebody with the rater's screen open.

    ``acknowledged`` has the ids of the answers that the server said are kept; ``seconds`` how long each took.
    """

    host: str
    port: int
    code: str = ""
    acknowledged: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _streams: Any = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, content = await self._send(method, path, body)
        return status, json.loads(content)

    async def picture(self, turn: dict[str, Any]) -> None:
        """Fetch the picture of a turn, if it has one."""
        if turn["picture"]:
            status, _ = await self._send("GET", f"/{turn['picture']}")
            assert status == 200

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", f"Content-Length: {len(data)}"]
        head += ["Content-Type: application/json"] if data else []
        head += [f"X-Rater-Code: {self.code}"] if self.code else []
        writer.write("\r\n".join([*head, "", ""]).encode() + data)
        received = await reader.readuntil(b"\r\n\r\n")
        status = int(received.split(b" ", 2)[1])
        lengths = [line for line in received.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return status, await reader.readexactly(int(lengths[0].split(b":")[1]))

    async def join(self, join_code: str) -> None:
        _, read = await self.persist("GET", f"/label/task/{join_code}")
        body = {"task": join_code, "agreed": True, "page": read["page"]}
        status, said = await self.persist("POST", "/label/join", body)
        assert status == 200, said
        self.code = said["code"]

    async def answer(self, turn: dict[str, Any]) -> dict[str, Any]:
        """Send an answer until it is acknowledged, as the screen does: again and again, under one id."""
        body = {"id": new_id(), "item": turn["item"], "choices": CHOICES, "duration_ms": 700}
        started = time.perf_counter()
        status, said = await self.persist("POST", "/label/answer", body)
        assert status == 200, said
        self.seconds.append(time.perf_counter() - started)
        self.acknowledged.append(body["id"])
        return said

    async def persist(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """As :meth:`ask`, over a server that dies and comes back, or cannot keep anything for a while."""
        for _ in range(_MOST_TRIES):
            with suppress(OSError, asyncio.IncompleteReadError):
                status, said = await self.ask(method, path, body)
                if status != 503:  # it could not be kept just now
                    return status, said
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self.close()
            await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError(f"no answer from {self.host}:{self.port}")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def say(store: LabelStore, code: str, turn: Turn, choices: Any = CHOICES, **more: Any) -> Turn:
    """Answer what is shown."""
    more = {"answer_id": new_id(), "item": turn.item, "duration_ms": 500} | more
    return give_answer(store, code, choices=choices, **more)


def one_rater(store: LabelStore, folder: Path, n: int = 5, **changes: Any) -> tuple[CreatedTask, str]:
    """An open task, and the code of somebody who has joined it."""
    task = open_task(store, folder, n, **changes)
    return task, join(store, task.join_code).code


def say_all(store: LabelStore, code: str, choices: Any = CHOICES, **more: Any) -> Turn:
    """Answer all that is left in the same way."""
    turn = next_item(store, code)
    while turn.item:
        turn = say(store, code, turn, choices, **more)
    return turn


def counts_are_right(store: LabelStore) -> bool:
    """Every item's count of claims is the number of assignments that claim it, excluded raters' apart."""
    claimed = (
        select(schema.assignments.c.item_id, func.count())
        .join(schema.raters, schema.raters.c.id == schema.assignments.c.rater_id)
        .where(schema.assignments.c.state.in_(("shown", "answered")), schema.raters.c.excluded_ms.is_(None))
        .group_by(schema.assignments.c.item_id)
    )
    with store.read() as connection:
        counted = dict(connection.execute(select(schema.items.c.id, schema.items.c.n_claims)).all())
        real = dict(connection.execute(claimed).all())
    return counted == {item: real.get(item, 0) for item in counted}


def n_rows(store: LabelStore, table: str) -> int:
    with store.read() as connection:
        return connection.scalar(select(func.count()).select_from(metadata.tables[table])) or 0
