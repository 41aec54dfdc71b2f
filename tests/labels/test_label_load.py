"""Many raters at once, and a server that is killed under them: what was acknowledged is there, once.

How quick it is is measured here and printed, and judged by ``bench/labels.py`` on a machine at rest.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from sqlalchemy import select

from bias_core.labels.label_store import LabelStore, answers
from tests.labels.raters import WebRater, counts_are_right, open_task
from tests.ui.fakes import FakeServices
from tests.ui.served import _free_port, serving_here

ROOT = Path(__file__).parent.parent.parent
# BIAS_TEST_LOAD=1 is the whole load, ten thousand answers of 200 raters; fewer find the same faults in CI's time.
SCALE = float(os.environ.get("BIAS_TEST_LOAD", "0.1"))
N_RATERS, N_EACH = max(60, round(200 * SCALE)), max(3, round(50 * SCALE))
N_KILLS = max(4, round(10 * SCALE))


@contextmanager
def killed(data, port):
    """The raters' door in a process of its own, killed in the end as by a power cut: no handler of it runs."""
    command = [sys.executable, "-m", "tests.labels.serve", str(data), str(port)]
    with (data.parent / "server.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait()


async def rate(rater, join_code, n, rng):
    await rater.join(join_code)
    _, turn = await rater.persist("GET", "/label/next")
    for _ in range(n):
        turn = await rater.answer(turn)
        await asyncio.sleep(rng.random() * 0.1)


async def rate_and_kill(data, app, join_code, kill_at):
    """Everybody answers; after so many answers the server dies and comes back, in the end as what ``app`` starts."""
    port, rng = _free_port(), random.Random(0)
    raters = [WebRater("127.0.0.1", port) for _ in range(N_RATERS)]
    everybody = asyncio.gather(*(rate(rater, join_code, N_EACH, rng) for rater in raters))
    for wanted in kill_at:
        with killed(data, port):
            while sum(len(rater.acknowledged) for rater in raters) < wanted and not everybody.done():
                await asyncio.sleep(0.005)
    port = await asyncio.to_thread(app)
    for rater in raters:
        rater.port = port
    await everybody
    for rater in raters:
        rater.close()
    return raters


def check(store, raters):
    """Nothing is lost, nothing twice, and the counts agree with what they count."""
    with store.read() as connection:
        kept = connection.execute(select(answers.c.client_id, answers.c.rater_id, answers.c.item_id)).all()
    acknowledged = Counter(answer for rater in raters for answer in rater.acknowledged)
    assert set(acknowledged.values()) == {1}
    assert Counter(row.client_id for row in kept) == acknowledged
    assert len({(row.rater_id, row.item_id) for row in kept}) == len(kept) == N_EACH * len(raters)
    assert counts_are_right(store)
    waits = 1000 * np.concatenate([rater.seconds for rater in raters])
    p50, p99 = np.percentile(waits, [50, 99])
    print(f"{len(kept):,} answers of {len(raters)} raters: median {p50:.0f} ms, 99th percentile {p99:.0f} ms")


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_after_kill_and_raters_go_on_at_the_app(tmp_path):
    data = tmp_path / "data"
    store = LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")
    task = open_task(store, tmp_path / "originals", 2 * N_EACH, raters_per_item=N_RATERS)
    # Half of the answers are the app's; without the whole load, about 20 come between two kills.
    kill_at = [round((k + 1) * N_RATERS * N_EACH / 2 / N_KILLS) for k in range(N_KILLS)]
    with ExitStack() as stack:

        def app():
            services = stack.enter_context(closing(FakeServices(data)))
            return urlsplit(stack.enter_context(serving_here(services, tmp_path)).url).port

        raters = asyncio.run(rate_and_kill(data, app, task.join_code, kill_at))
    check(store, raters)
    store.close()
