"""Cost of showing pictures while they form, as a ratio: `python bench/forming.py [PAIRS]`.

The engine draws the same batch with and without previews, in turn, on the embedded model; the median of the pairs'
ratios counts, so other load matters little. At most 1.05.
"""

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

from bench.bars import bar, end
from bench.engine import rows
from bias_core.models.engines import run_rows
from bias_core.protocols import ShowsForming
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.images import ImageStore

MODEL = "calibration-diffusion"
N, MOST = 32, 1.05


class WithoutLooks:
    """Generator without previews."""

    def __init__(self, model):
        self.batch_size, self.generate = model.batch_size, model.generate


def draw(model, some):
    """CPU seconds and clock seconds of drawing, and the number of previews that showed something."""
    with tempfile.TemporaryDirectory() as folder:
        store, looks = ImageStore(Path(folder)), 0
        started, worked = time.perf_counter(), time.process_time()
        for event in run_rows(some, model, store, lock=threading.Lock()):
            looks += bool(event.forming)
        return time.process_time() - worked, time.perf_counter() - started, looks


def main():
    n_pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    torch.set_num_threads(1)  # threads that wait for each other use the processor too
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True, device="cpu"))
        model = services.text_to_image(MODEL)
        if not isinstance(model, ShowsForming):
            sys.exit(f"{MODEL} shows nothing while it draws")
        draw(model, rows(services, 8))
        plain = WithoutLooks(model)  # the weights have decided the size of its batches
        ratios, n_looks = [], []
        for pair in range(n_pairs):
            some, order = rows(services, N, first_seed=1000 * pair), (model, plain) if pair % 2 else (plain, model)
            times = {id(one): draw(one, some) for one in order}
            (cpu, seconds, looks), (plain_cpu, plain_seconds, _) = times[id(model)], times[id(plain)]
            ratios.append((cpu / plain_cpu, seconds / plain_seconds))
            n_looks.append(looks)
        cpu, seconds = (statistics.median(part) for part in zip(*ratios, strict=True))
        services.close()
    print(f"{N} pictures, {n_pairs} pairs: {cpu:.3f} of the CPU time {bar(cpu, most=MOST)}, {seconds:.3f} of the time")
    print(f"looks that showed something: {statistics.median(n_looks):g} a run")


if __name__ == "__main__":
    main()
    end()
