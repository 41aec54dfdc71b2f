"""Speed of answers from many raters at once, through the real app: `python bench/labels.py [raters] [answers each]`."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
from sqlalchemy import select

from bench.bars import bar, end, held
from bias_core.labels.label_store import LabelStore, answers
from tests.labels.raters import WebRater, open_task

N_RATERS, N_ANSWERS, N_ITEMS = 200, 50, 800
LIMIT_MS, MOST_OF_PROCESSOR_MS = 500, 3.5
MOST_TIMES = 16  # what the raters themselves take
QUICK_MS = 0.3  # what a rater takes for an answer on cores as quick as those that the bars were set on


async def work(rater, join_code, n, pause, rng):
    await asyncio.sleep(rng.random() * pause)
    await rater.join(join_code)
    _, turn = await rater.ask("GET", "/label/next")
    for _ in range(n):
        await asyncio.sleep(pause * (0.5 + rng.random()))
        turn = await rater.answer(turn)
        await rater.picture(turn)


async def everybody(port, join_code, n_raters, n_answers, pause):
    rng = random.Random(0)
    raters = [WebRater("127.0.0.1", port) for _ in range(n_raters)]
    started = time.perf_counter()
    await asyncio.gather(*(work(rater, join_code, n_answers, pause, rng) for rater in raters))
    for rater in raters:
        rater.close()
    return raters, time.perf_counter() - started


def wait_for(url):
    for _ in range(600):
        with suppress(OSError):
            urllib.request.urlopen(url).close()
            return
        time.sleep(0.2)
    raise SystemExit(f"no answer from {url}")


def processor_seconds(pid):
    """Processor time of the app so far, which tells its work on a busy machine too; nan outside Linux."""
    try:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return float("nan")
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(pid):
    """Wait until the app has prepared its first pages, which is no work of an answer."""
    before = -1.0
    while (now := processor_seconds(pid)) - before > 0.05:
        before = now
        time.sleep(1)


def main():
    n_raters, n_each = (int(word) for word in [*sys.argv[1:], N_RATERS, N_ANSWERS][:2])
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        data = Path(folder) / "data"
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        store = LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")
        task = open_task(store, Path(folder) / "originals", N_ITEMS, raters_per_item=1000)
        free.close()
        environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": f"{folder}/cache"}
        command = [sys.executable, "-m", "tests.ui.serve", str(data), str(port)]
        app = subprocess.Popen(command, env=environment)
        try:
            wait_for(f"http://127.0.0.1:{port}/label")
            wait_until_idle(app.pid)
            for pause, how in ((1.0, "a second between answers"), (0.0, "no pause at all")):
                before, own = processor_seconds(app.pid), time.process_time()
                raters, seconds = asyncio.run(everybody(port, task.join_code, n_raters, n_each, pause))
                waits = 1000 * np.concatenate([rater.seconds for rater in raters])
                said = [answer for rater in raters for answer in rater.acknowledged]
                with store.read() as labels:
                    kept = list(labels.execute(select(answers.c.client_id)).scalars())
                lost, twice = len(set(said) - set(kept)), len(kept) - len(set(kept))
                p50, p99 = np.percentile(waits, [50, 99])
                each = 1000 * (processor_seconds(app.pid) - before) / waits.size
                raters_own = 1000 * (time.process_time() - own) / waits.size
                slow = "" if raters_own <= QUICK_MS else f"slow cores, on which a rater alone takes {raters_own:.2f} ms"
                print(
                    f"{n_raters} raters, {waits.size:,} answers, {how}: {waits.size / seconds:.0f} a second; "
                    f"with its picture {each:.1f} ms of the processor each "
                    f"{bar(each, most=MOST_OF_PROCESSOR_MS, why=slow)}, {each / raters_own:.1f} times what these "
                    f"raters take {bar(each / raters_own, most=MOST_TIMES)}; at a load of {os.getloadavg()[0]:.0f} "
                    f"median {p50:.0f} ms, 99th percentile {p99:.0f} ms {bar(p99, most=LIMIT_MS, why=slow)}; "
                    f"{lost} lost, {twice} twice: {held(not lost and not twice)}"
                )
        finally:
            app.kill()
            app.wait()


if __name__ == "__main__":
    main()
    end()
