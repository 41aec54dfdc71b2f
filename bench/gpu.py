"""Checks that need a GPU, in eight minutes: `PYTHONPATH=. python bench/gpu.py [--small] [stage ...]`.

Random weights of the published architectures; no network, no gradio. Each row is printed as soon as it is measured. A
row that fails, or exceeds its stage's time, prints a line, and the next row begins. --small runs everything on a CPU
with mid-size models. Libraries are imported on use: a missing one costs only its stage.
"""

import argparse
import gc
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

from bench.bars import bar, end, held

MOST_SECONDS = 450  # for all rows; with the imports eight minutes
GB = 1e9
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
AT_ONCE = 8  # pictures, in the plain loop
MOST_APP, MOST_BF16 = 1.1, 1.05
PROMPT = "a photo of a doctor"


class OutOfTime(BaseException):
    """Not an Exception, so that no library catches it as its own failure."""


@contextmanager
def at_most(seconds):
    def stop(*_):
        raise OutOfTime

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def free_memory():
    gc.collect()
    if GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gb():
    return torch.cuda.max_memory_allocated() / GB if GPU else float("nan")


class Shared:
    """State shared by stages: one pipeline in memory at a time, pipelines in folders, and reference pictures."""

    def __init__(self, *, full, folder):
        self.full, self.folder, self.repeats = full, folder, 2 if full else 1
        self.pictures, self._made = {}, {}

    def made(self, family, dtype=None):
        from bench.pipelines import built

        if (family, dtype) not in self._made:
            self.forget()
            n_steps = (20 if family == "sd1" else 10) if self.full else 2
            self._made[family, dtype] = built(family, self.full, DEVICE, dtype=dtype, n_steps=n_steps)
        return self._made[family, dtype]

    def forget(self):
        for one in self._made.values():
            one.model.unload()
        self._made.clear()
        free_memory()

    def saved(self, family):
        """Return a folder that models.yaml does not list."""
        folder = self.folder / family
        if not (folder / "model_index.json").exists():  # which is written last
            self.made(family).pipeline.save_pretrained(folder)
        return folder


def draw(shared, family):
    from bench import pipelines

    pipelines.draw(shared.made(family), shared.repeats)
    print(f"{family}: peak {peak_gb():.1f} GB")


def trace(shared, family):
    from bench import pipelines

    pipelines.trace(shared.made(family), shared.repeats)


def bf16(shared, family):
    from bench import pipelines

    dtypes = torch.bfloat16, torch.float16 if GPU else torch.float32
    other, usual = (pipelines.draw(shared.made(family, dtype), shared.repeats) for dtype in dtypes)
    bare, ours = np.divide(other, usual)
    print(f"{family}: {dtypes[0]} takes {bare:.3f} (bare), {ours:.3f} (ours) times what {dtypes[1]} takes, "
          f"{ours / bare:.3f} times bare's {bar(ours / bare, most=MOST_BF16)}")  # fmt: skip


def app(shared, family):
    """Draw by the program's store and engine, and by a plain loop that saves PNGs."""
    from bench.pipelines import draw_bare, seconds
    from bias_core.services import Services
    from bias_core.settings import Settings
    from bias_core.types import ImageRow

    (n, n_steps), out = (64, 20) if shared.full else (8, 2), shared.folder / "plain"
    services = Services(Settings(data_dir=shared.folder / "data", offline=True, device=DEVICE))
    info, size = services.model_info(str(shared.saved(family))), shared.made(family).rows[0].width
    how = {"model": info.id, "revision": services.revision(info.id), "num_inference_steps": n_steps}
    how |= {"prompt": PROMPT, "guidance_scale": 7.5, "width": size, "height": size}
    every = [ImageRow(seed=seed, **how) for seed in range(n + AT_ONCE)]
    rows, others = every[:n], every[n:]  # the others are for warming up
    out.mkdir(exist_ok=True)

    def loop(rows):
        for batch in (rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)):
            for row, image in zip(batch, draw_bare(shared.made(family).pipeline, batch), strict=True):
                image.save(out / f"{row.seed}.png")

    loop(others)
    free_memory()
    needed, _ = seconds(partial(loop, rows))
    print(f"{family}: plain loop, {n} pictures of {size} px, {n_steps} steps, {AT_ONCE} at a time: "
          f"{needed:.2f} s, peak {peak_gb():.1f} GB")  # fmt: skip
    shared.forget()
    model = services.text_to_image(info.id)
    loaded, _ = seconds(lambda: list(services.draw(others[:1])))
    taken, _ = seconds(lambda: list(services.draw(rows)))
    n_kept, size = services.images.n_present(row.id for row in rows), model.batch_size
    ratio = taken / needed
    print(f"{family}: the app, a folder that is not listed: {taken:.2f} s, {size} at a time, peak {peak_gb():.1f} GB: "
          f"{ratio:.3f} times the plain loop {bar(ratio, most=MOST_APP)}; {loaded:.1f} s before "
          f"that, to load it and draw one; all {n} pictures in the store: {held(n_kept == n)}")  # fmt: skip
    model.unload()
    services.close()


@contextmanager
def only_free(gb):
    """Leave only this much of the GPU's memory free: a tensor takes the rest; yield its GB."""
    free_memory()
    n_bytes = max(0, int(torch.cuda.mem_get_info()[0] - gb * GB)) if GPU and gb else 0
    block = torch.empty(n_bytes, dtype=torch.uint8, device=DEVICE)
    yield n_bytes / GB
    del block


def placements(shared, family, gb):
    """Draw one picture with this much free memory; None is all of it, the reference for the others."""
    from bench.pipelines import FAMILIES, SIDE, seconds
    from bias_core.models import pipeline_loader
    from bias_core.models.diffusers_t2i import DiffusersTextToImage
    from bias_core.types import ImageRow, ModelInfo

    (_, side, guidance), folder, place = FAMILIES[family], shared.saved(family), pipeline_loader.put_on_device
    size = dict.fromkeys(("width", "height"), side if shared.full else SIDE)
    rows = [ImageRow(prompt=PROMPT, seed=0, model="bench", guidance_scale=guidance, num_inference_steps=n, **size)
            for n in (2, 10)]  # fmt: skip
    name = f"{family}, {f'{gb} GB' if gb else 'all memory'} free"

    def noted(*how):
        placement = place(*how)
        print(f"{name}: {placement}")
        return placement

    shared.forget()  # else the program would, to make room
    info = ModelInfo(id="bench", name="bench", family=family, options={"batch_size": 1}, **size)
    model = DiffusersTextToImage(info, str(folder), device=DEVICE, offline=True)
    with only_free(gb) as block, patch.object(pipeline_loader, "put_on_device", noted):
        try:
            list(model.generate(rows[:1]))  # load, and warm up
            taken, (drawn,) = seconds(lambda: list(model.generate(rows[1:])))
        finally:
            model.unload()
        peak = peak_gb() - block
    picture = np.asarray(drawn.image).astype(int)
    apart = np.abs(picture - shared.pictures.setdefault(family, picture))
    print(f"{name}: {taken:.2f} s for {rows[1].num_inference_steps} steps, {size['width']} px, peak {peak:.2f} GB; "
          f"{(apart > 0).mean():.2%} of values are other than the first, by {apart.max()} of 255; fits the free "
          f"memory: {held(not (GPU and gb) or peak <= gb)}")  # fmt: skip


def embed(shared, library):
    """Embed by ours and by a plain loop: pictures in memory, and PNG files (ours through the cache)."""
    from bench import encoders
    from bias_core.store.readings import EmbeddingCache
    from bias_core.types import ImageRow, StoredImage

    n, folder = 512 if shared.full else 8, shared.folder / library
    rows = [ImageRow(prompt="", seed=seed, model="", width=encoders.SIDE, height=encoders.SIDE) for seed in range(n)]
    stored = [StoredImage(path=shared.folder / f"{row.seed}.png", row=row) for row in rows]

    def paint(one):
        noise = np.random.default_rng(one.row.seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize((one.row.width, one.row.height))
        image.save(one.path, compress_level=1)
        return image

    def bare_of_files(stored):
        return bare([Image.open(one.path) for one in stored])

    def through_cache(stored):
        with tempfile.TemporaryDirectory() as empty:
            cache = EmbeddingCache(Path(empty) / "embeddings.sqlite")
            rows = cache.images(ours.__self__, stored)
            cache.close()
        return rows

    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor() as pool:
        images = list(pool.map(paint, stored))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as bench/encoders.py does
    try:
        bare, ours = getattr(encoders, f"{library}_pair")(folder)
        with patch.multiple(encoders, N_PICTURES=n, REPEATS=shared.repeats):
            encoders.compare(f"{library}, {n} pictures in memory", lambda _: (bare, ours), images)
            encoders.compare(f"{library}, {n} PNG files", lambda _: (bare_of_files, through_cache), stored)
    finally:
        torch.set_num_threads(n_threads)


# Seconds that the rows of a stage may take together, and what measures one.
STAGES = {
    "draw": (160, draw),
    "trace": (90, trace),
    "app": (140, app),
    "placements": (170, placements),
    "bf16": (30, bf16),
    "embed": (90, embed),
}
# What matters most comes first.
ROWS = [
    ("trace", "sd1"), ("app", "sd1"), ("trace", "sdxl"), ("trace", "sd3"),
    ("embed", "open_clip"), ("embed", "transformers"),
    *(("placements", "sd1", gb) for gb in (None, 3.6, 3.0, 2.6, 2.5)),
    ("draw", "sd1"), ("bf16", "sd1"), ("draw", "sdxl"), ("draw", "sd3"), ("draw", "flux"),
    *(("placements", "sdxl", gb) for gb in (None, 9.0, 8.5, 6.5, 3.6)),
]  # fmt: skip


def measure(shared, stage, what, seconds):
    """Measure one row; return its seconds."""
    began, name = time.perf_counter(), " ".join(map(str, (stage, *what)))
    try:
        with at_most(seconds):
            STAGES[stage][1](shared, *what)
    except OutOfTime:
        print(f"{name}: CUT after {seconds:.0f} s, all that was left for it")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the next row is measured
        print(f"{name}: FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    free_memory()
    taken = time.perf_counter() - began
    print(f"  {name}: {taken:.0f} s in all")
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", help=", ".join(STAGES))
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if not (GPU or asked.small):
        print("no GPU here; --small tries this script on a CPU")
        return
    sys.stdout.reconfigure(line_buffering=True)
    os.environ |= {"HF_HUB_OFFLINE": "1", "DIFFUSERS_VERBOSITY": "error", "TRANSFORMERS_VERBOSITY": "error"}
    print(f"{torch.cuda.get_device_name() if GPU else DEVICE}, torch {torch.__version__}, "
          f"{'mid-size' if asked.small else 'published architectures'}, random weights")  # fmt: skip
    began, left = time.perf_counter(), {stage: seconds for stage, (seconds, _) in STAGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(full=not asked.small, folder=Path(folder))
        for stage, *what in ROWS:
            if stage not in (asked.stages or STAGES):
                continue
            seconds = min(left[stage], MOST_SECONDS - (time.perf_counter() - began))
            if seconds < 1:
                print(stage, *what, "CUT before it began: no time is left for it")
                continue
            left[stage] -= measure(shared, stage, what, seconds)


if __name__ == "__main__":
    main()
    end()
