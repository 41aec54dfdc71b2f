"""Many raters at once, and a server that is killed under them: what was acknowledged is there, once.

How quick it is is measured here and printed, and judged by ``bench/labels.py`` on a machine at rest.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.schema import answers, assignments, items
from tests.annotation.raters import WebRater, open_task

ROOT = Path(__file__).parent.parent.parent
# BIAS_TEST_LOAD=1 is the whole load, ten thousand answers; three of each rater find the same faults in CI's time.
SCALE = float(os.environ.get("BIAS_TEST_LOAD", "0.06"))
N_RATERS, N_EACH = 200, max(2, round(50 * SCALE))
N_KILLS, N_KILLED_EACH = 10, 20


class Server:
    """A process of ours that can be killed and started again on the same port."""

    def __init__(self, module: str, data: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [sys.executable, "-m", module, str(data), str(self.port)]
        self.data = data
        self._log = data.parent / "server.log"
        self._environment = os.environ | {
            "GRADIO_ANALYTICS_ENABLED": "False",
            "GRADIO_TEMP_DIR": str(data.parent / "cache"),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """As a power cut would: no handler of the program runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def open_store(data: Path) -> LabelStore:
    return LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")


async def rate(rater: WebRater, join_code: str, n: int, rng: random.Random) -> None:
    await rater.join(join_code)
    _, turn = await rater.persist("GET", "/label/next")
    for _ in range(n):
        turn = await rater.answer(turn)
        await asyncio.sleep(rng.random() * 0.1)


async def rate_and_kill(
    server: Server, join_code: str, n_raters: int, n_each: int, kill_at: list[int], harm_at: Sequence[int] = ()
) -> list[WebRater]:
    """Everybody answers; when so many answers are acknowledged, the server dies and comes back."""
    rng = random.Random(0)
    raters = [WebRater("127.0.0.1", server.port) for _ in range(n_raters)]
    everybody = asyncio.gather(*(rate(rater, join_code, n_each, rng) for rater in raters))
    for wanted in kill_at:
        if wanted in harm_at:
            await harm(server, raters, everybody, [wanted, wanted])
        while n_acknowledged(raters) < wanted and not everybody.done():
            await asyncio.sleep(0.005)
        server.kill()
        server.start()
    await everybody
    for rater in raters:
        rater.close()
    return raters


def taken_away(store_of: Path) -> Callable[[], None]:
    """Take the database's file away now; what puts it back."""
    file = store_of / "labels.sqlite"
    away = file.rename(file.with_name("elsewhere.sqlite"))
    return lambda: (away.rename(file), None)[1]


def disk_full(server: Server) -> Callable[[], None]:
    """From now on no file of the server's grows past the log's present size; what gives room again."""
    assert server.process is not None
    log = server.data / "labels.sqlite-wal"
    everything = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    room = log.stat().st_size + 20_000 if log.exists() else 20_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, everything[1]))
    pid = server.process.pid
    return lambda: (resource.prlimit(pid, resource.RLIMIT_FSIZE, everything), None)[1]


async def harm(server: Server, raters: list[WebRater], everybody: asyncio.Future[Any], at: list[int]) -> None:
    """When so many answers are acknowledged, the file goes or the disk is full for a second, in turns."""
    harms: list[Callable[[], Callable[[], None]]] = [lambda: taken_away(server.data), lambda: disk_full(server)]
    for k, wanted in enumerate(at):
        while n_acknowledged(raters) < wanted and not everybody.done():
            await asyncio.sleep(0.005)
        mend = harms[k % len(harms)]()
        await asyncio.sleep(1.5)
        before = n_acknowledged(raters)
        await asyncio.sleep(0.5)
        assert k % len(harms) or n_acknowledged(raters) == before  # without its file nothing is acknowledged
        mend()


def n_acknowledged(raters: list[WebRater]) -> int:
    return sum(len(rater.acknowledged) for rater in raters)


def check(store: LabelStore, raters: list[WebRater], n_each: int) -> None:
    """Nothing is lost, nothing twice, and the counts agree with what they count."""
    with store.read() as connection:
        kept = connection.execute(select(answers.c.client_id, answers.c.rater_id, answers.c.item_id)).all()
        claimed = dict(
            connection.execute(
                select(assignments.c.item_id, func.count())
                .where(assignments.c.state.in_(("shown", "answered")))
                .group_by(assignments.c.item_id)
            ).all()
        )
        counted = dict(connection.execute(select(items.c.id, items.c.n_claims)).all())
    acknowledged = Counter(answer for rater in raters for answer in rater.acknowledged)
    assert set(acknowledged.values()) == {1}
    assert Counter(row.client_id for row in kept) == acknowledged
    assert len({(row.rater_id, row.item_id) for row in kept}) == len(kept) == n_each * len(raters)
    assert counted == {item: claimed.get(item, 0) for item in counted}
    waits = 1000 * np.concatenate([rater.seconds for rater in raters])
    p50, p99 = np.percentile(waits, [50, 99])
    print(f"{len(kept):,} answers of {len(raters)} raters: median {p50:.0f} ms, 99th percentile {p99:.0f} ms")


@pytest.mark.slow
def test_answers_of_200_raters_at_once_through_the_app_that_is_killed_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    task = open_task(store, tmp_path / "originals", 2 * N_EACH, raters_per_item=N_RATERS)
    server = Server("tests.ui.serve", data)
    server.start()
    try:
        halfway = N_RATERS * N_EACH // 2
        raters = asyncio.run(rate_and_kill(server, task.join_code, N_RATERS, N_EACH, [halfway]))
    finally:
        server.kill()
    check(store, raters, N_EACH)
    store.close()


@pytest.mark.slow
def test_what_was_acknowledged_survives_ten_kills_a_lost_file_and_a_full_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    # The whole load: ten thousand answers of 200 raters; else 20 answers between two kills.
    n_raters, n_each = (N_RATERS, N_EACH) if SCALE >= 1 else (N_KILLS, N_KILLED_EACH)
    task = open_task(store, tmp_path / "originals", n_each + 20, raters_per_item=n_raters)
    server = Server("tests.annotation.serve", data)
    server.start()
    kill_at = [round((k + 0.5) * n_raters * n_each / (N_KILLS + 1)) for k in range(N_KILLS)]
    try:
        going = rate_and_kill(server, task.join_code, n_raters, n_each, kill_at, [kill_at[N_KILLS // 2]])
        raters = asyncio.run(going)
    finally:
        server.kill()
    assert sum(rater.refused for rater in raters)  # while nothing could be kept
    check(store, raters, n_each)
    store.close()
