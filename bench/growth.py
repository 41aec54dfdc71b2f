"""Processor time and memory of work on many items, at three sizes each, with growth: `python bench/growth.py`.

The interval of Krippendorff's α, the groups of pictures that look alike, the export of people's answers, and an
answer with the choice of the next item; each against a plain reference of the same run, its bar at the largest size.
"""

import json
import math
import resource
import sqlite3
import sys
import tempfile
import time
import uuid
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sqlalchemy import insert, select
from threadpoolctl import threadpool_limits

from bench.bars import bar, end
from bias_core.labels.label_store import LabelStore, answers, items, raters
from bias_core.labels.rating import join, next_item
from bias_core.labels.results import answers_frame, export_labels
from bias_core.measures.agreement import agreement_estimate, krippendorff_alpha
from bias_core.measures.clustering import spectral_clusters
from tests.labels.raters import CHOICES, open_task, say

N_RATERS, N_ANSWERS, D = 50, 100, 512


def seconds(function):
    start = time.process_time()  # of the processor: other programs' turns do not count
    function()
    return time.process_time() - start


def alpha(n_items):
    """Time of the interval, and of α alone."""
    rng = np.random.default_rng(0)
    truth, given = rng.integers(0, 3, (n_items, 1)), rng.integers(0, 3, (n_items, N_RATERS))
    ratings = np.where(rng.random(given.shape) < 0.3, given, truth)
    return seconds(lambda: agreement_estimate(ratings)), seconds(lambda: krippendorff_alpha(ratings))


def groups(n_pictures):
    """Time of the groups, and of the similarities of all pictures."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.standard_normal((6, D), dtype=np.float32)
    rows = 2 * rng.standard_normal((n_pictures, D), dtype=np.float32)
    rows += centres[rng.integers(0, 6, n_pictures)]
    parts = np.array_split(rows, n_pictures // 200)  # the whole matrix has 400 MB for 10,000 pictures
    return seconds(lambda: spectral_clusters(rows)), seconds(lambda: [np.max(part @ rows.T) for part in parts])


def export(n_labels):
    """Time of the export, and of a plain loop that writes each label as a line of JSON."""
    n_answers = n_labels // len(CHOICES)
    with tempfile.TemporaryDirectory() as folder:
        store = LabelStore(f"sqlite:///{folder}/labels.sqlite", pictures=Path(folder) / "label_pictures")
        task = open_task(store, Path(folder) / "originals", n_answers // N_RATERS, raters_per_item=N_RATERS)
        with store.write() as connection:
            item_ids = list(connection.scalars(select(items.c.id)))
            for number in range(N_RATERS):
                facts = {"task_id": task.key.task_id, "name": f"rater-{number}", "code_hash": str(number)}
                new = connection.execute(insert(raters).values(**facts, joined_ms=0, seed=number))
                given = {"rater_id": new.inserted_primary_key[0], "task_version": 1, "kind": "answer"}
                given |= {"choices": CHOICES, "duration_ms": 900, "at_ms": 0}
                lines = [given | {"item_id": item, "client_id": uuid.uuid4().hex} for item in item_ids]
                connection.execute(insert(answers), lines)
        frame = answers_frame(store, task.key)
        taken = seconds(lambda: export_labels(store, task.key, Path(folder) / "labels.zip"))
        return taken, seconds(lambda: [json.dumps(row) for row in frame.to_dict("records")])


def answer(n_items):
    """Time of a rater's answers, each on disk by itself, and of as many commits of one row to a bare database."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/bare.sqlite")) as bare:
        store = LabelStore(f"sqlite:///{folder}/labels.sqlite", pictures=Path(folder) / "label_pictures")
        task = open_task(store, Path(folder) / "originals", n_items, raters_per_item=N_RATERS)
        code = join(store, task.join_code).code
        turns = [say(store, code, next_item(store, code))]
        bare.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = extra; CREATE TABLE given (n)")

        def answers_of_rater():
            for _ in range(N_ANSWERS):
                turns.append(say(store, code, turns[-1]))

        def commits():
            for number in range(N_ANSWERS):
                with bare:
                    bare.execute("INSERT INTO given VALUES (?)", (number,))

        return seconds(answers_of_rater), seconds(commits)


# Work: its sizes, what the reference is, and at the largest size the most processor seconds and GB.
WORK = {
    alpha: ((500, 1000, 2000), "items of 50 raters", "α alone", 1.5, 0.5),
    groups: ((2000, 5000, 10_000), "pictures", "their similarities", 4.0, 0.5),
    export: ((25_000, 50_000, 100_000), "labels", "a line of JSON for each", 5.0, 1.0),
    answer: ((200, 800, 3200), f"items, {N_ANSWERS} answers", "a commit for each", 0.4, 1.0),
}


def measured(name, size):
    """Measure in a process of its own, whose peak of memory is that of this work."""
    work = globals()[name]
    work(200)  # libraries loaded
    with threadpool_limits(1):
        taken, reference = work(size)
    return taken, reference, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main():
    asked = sys.argv[1:]
    for work, (sizes, unit, plain, most_seconds, most_gb) in WORK.items():
        if asked and work.__name__ not in asked:
            continue
        lines = []
        for size in sizes:
            with get_context("spawn").Pool(1) as pool:
                lines.append(pool.apply(measured, (work.__name__, size)))
            taken, reference, gb = lines[-1]
            print(
                f"{work.__name__}, {size:,} {unit}: {taken:.2f} s, {taken / reference:.1f} times {plain}, {gb:.2f} GB",
                flush=True,
            )
        power = math.log(lines[-1][0] / lines[0][0]) / math.log(sizes[-1] / sizes[0])
        taken, _, gb = lines[-1]
        print(
            f"  grows as n^{power:.1f}; {taken:.2f} s {bar(taken, most=most_seconds)}, "
            f"{gb:.2f} GB {bar(gb, most=most_gb)}"
        )


if __name__ == "__main__":
    main()
    end()
