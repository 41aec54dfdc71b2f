"""Many raters at once, and a server that is killed under them: what was acknowledged is there, once.

How quick it is is measured here and printed, and judged by ``bench/labels.py`` on a machine at rest.
"""

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.schema import answers
from tests.annotation.raters import WebRater, counts_are_right, open_task

ROOT = Path(__file__).parent.parent.parent
# BIAS_TEST_LOAD=1 is the whole load, ten thousand answers of 200 raters; fewer find the same faults in CI's time.
SCALE = float(os.environ.get("BIAS_TEST_LOAD", "0.1"))
N_RATERS, N_EACH = max(60, round(200 * SCALE)), max(3, round(50 * SCALE))
N_KILLS, N_KILLED_EACH = max(4, round(10 * SCALE)), 20


class Server:
    """A process of ours that can be killed and started again on the same port."""

    def __init__(self, module, data):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [sys.executable, "-m", module, str(data), str(self.port)]
        self.data = data
        self._log = data.parent / "server.log"
        own = {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": str(data.parent / "cache")}
        self._how = {"cwd": ROOT, "env": os.environ | own, "stderr": subprocess.STDOUT}
        self.process = None

    def start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, **self._how)

    def kill(self):
        """As a power cut would: no handler of the program runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


async def rate(rater, join_code, n, rng):
    await rater.join(join_code)
    _, turn = await rater.persist("GET", "/label/next")
    for _ in range(n):
        turn = await rater.answer(turn)
        await asyncio.sleep(rng.random() * 0.1)


async def rate_and_kill(server, join_code, n_raters, n_each, kill_at):
    """Everybody answers; when so many answers are acknowledged, the server dies and comes back."""
    rng = random.Random(0)
    raters = [WebRater("127.0.0.1", server.port) for _ in range(n_raters)]
    everybody = asyncio.gather(*(rate(rater, join_code, n_each, rng) for rater in raters))
    for wanted in kill_at:
        while n_acknowledged(raters) < wanted and not everybody.done():
            await asyncio.sleep(0.005)
        server.kill()
        server.start()
    await everybody
    for rater in raters:
        rater.close()
    return raters


def n_acknowledged(raters):
    return sum(len(rater.acknowledged) for rater in raters)


def check(store, raters, n_each):
    """Nothing is lost, nothing twice, and the counts agree with what they count."""
    with store.read() as connection:
        kept = connection.execute(select(answers.c.client_id, answers.c.rater_id, answers.c.item_id)).all()
    acknowledged = Counter(answer for rater in raters for answer in rater.acknowledged)
    assert set(acknowledged.values()) == {1}
    assert Counter(row.client_id for row in kept) == acknowledged
    assert len({(row.rater_id, row.item_id) for row in kept}) == len(kept) == n_each * len(raters)
    assert counts_are_right(store)
    waits = 1000 * np.concatenate([rater.seconds for rater in raters])
    p50, p99 = np.percentile(waits, [50, 99])
    print(f"{len(kept):,} answers of {len(raters)} raters: median {p50:.0f} ms, 99th percentile {p99:.0f} ms")


def rated(module, folder, n_items, n_raters, n_each, kill_at):
    """Of a task of so many items all raters' answers are there after the kills."""
    data = folder / "data"
    store = LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")
    task = open_task(store, folder / "originals", n_items, raters_per_item=n_raters)
    server = Server(module, data)
    server.start()
    try:
        raters = asyncio.run(rate_and_kill(server, task.join_code, n_raters, n_each, kill_at))
    finally:
        server.kill()
    check(store, raters, n_each)
    store.close()


@pytest.mark.slow
def test_answers_of_many_raters_at_once_through_the_app_that_is_killed_once(tmp_path):
    rated("tests.ui.serve", tmp_path, 2 * N_EACH, N_RATERS, N_EACH, [N_RATERS * N_EACH // 2])


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_after_kill(tmp_path):
    # Without the whole load: about 20 answers between two kills.
    n_raters, n_each = (N_RATERS, N_EACH) if SCALE >= 1 else (N_KILLS, N_KILLED_EACH)
    kill_at = [round((k + 0.5) * n_raters * n_each / (N_KILLS + 1)) for k in range(N_KILLS)]
    rated("tests.annotation.serve", tmp_path, n_each + 20, n_raters, n_each, kill_at)
