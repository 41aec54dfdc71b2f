"""Pictures per second of the local engine and of Ray with one and two workers: `python bench/engine.py`.

Before that, in this process: batches drawn at once next to the same in turn, and the cost of few pictures next to that
of sixteen, of which a full batch is the unit.
"""

import tempfile
import threading
import time
from pathlib import Path

import torch

from bench.bars import bar, end
from bias_core.models.engines import LocalEngine
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.study_services import draw_with_ray
from bias_core.types import ImageRow

MODEL = "calibration-diffusion"
N, REPEATS = 64, 3
COUNTS = (1, 4, 9, 16)
NAMES = {0: "local", 1: "Ray, 1 worker", 2: "Ray, 2 workers"}


def rows(services, n, first_seed=0):
    info = services.model_info(MODEL)
    return [
        ImageRow(
            prompt="a photo of a doctor",
            seed=first_seed + k,
            model=info.id,
            revision=services.revision(info.id),
            condition="published",
            num_inference_steps=info.default_steps,
            guidance_scale=info.default_guidance,
            width=info.width,
            height=info.height,
        )
        for k in range(n)
    ]


def draw(services, workers, folder):
    """Pictures by name, and pictures per second: from the first finished batch on, and overall."""
    if workers:
        draw_with_ray(services, workers)
        services.engine.n_workers()  # the cluster starts
    else:
        services.engine = LocalEngine("cpu")
    model, store, finished = services.text_to_image(MODEL), ImageStore(folder), []
    started = time.perf_counter()
    for event in services.engine.run(rows(services, N), model, store, lock=threading.Lock()):
        finished += [(time.perf_counter() - started, event.done)] if event.images else []
    services.engine.close()
    (first, n_first), (last, _) = finished[0], finished[-1]
    pictures = {path.name: path.read_bytes() for path in folder.glob("??/*.png")}
    return pictures, (N - n_first) / (last - first), N / last


def seconds(model, wanted):
    """Time and processor time of drawing these rows, with the pictures."""
    wall, cpu = time.perf_counter(), time.process_time()
    pictures = [image.image.tobytes() for image in model.generate(wanted)]
    return time.perf_counter() - wall, time.process_time() - cpu, pictures


def at_once(folder):
    """Print what batches at once take next to batches in turn, and few pictures next to sixteen."""
    models, times = {}, {}
    for n_threads in (1, torch.get_num_threads()):  # of the machine; each batch has one
        torch.set_num_threads(n_threads)
        services = Services(Settings(data_dir=folder / f"{n_threads} threads", offline=True, device="cpu"))
        models[n_threads] = services.text_to_image(MODEL)
        models[n_threads].load()
    for _ in range(REPEATS):
        for n_threads, model in models.items():
            for n in COUNTS:
                times.setdefault((n_threads, n), []).append(seconds(model, rows(services, n)))
    most = max(models)
    for n in COUNTS:
        if len({tuple(pictures) for key in models for _, _, pictures in times[key, n]}) > 1:
            raise SystemExit(f"{n} pictures differ between batches at once and in turn")
    wall, cpu = ({key: min(one[i] for one in tries) for key, tries in times.items()} for i in (0, 1))
    for n in COUNTS:
        print(
            f"{n:3} pictures: {wall[1, n]:.2f} s in turn ({cpu[1, n]:.2f} of a processor), {wall[most, n]:.2f} s with "
            f"{most} batches at once ({cpu[most, n]:.2f})"
        )
    print(
        f"16 at once take {wall[most, 16] / wall[1, 16]:.2f} of the time in turn, on 2 free processors "
        f"{bar(wall[most, 16] / wall[1, 16], most=0.65)}"
    )
    print(
        f"9 pictures cost {cpu[1, 9] / cpu[1, 16]:.2f} of the processor time of 16 "
        f"{bar(cpu[1, 9] / cpu[1, 16], most=0.8)}"
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        at_once(Path(folder))
    torch.set_num_threads(1)  # each worker takes the same number: pixels depend on it
    speeds = {workers: [] for workers in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True, device="cpu"))
        list(services.draw(rows(services, 8, first_seed=N)))  # weights loaded
        expected = None
        for repeat in range(REPEATS):  # in turns: the machine drifts
            for workers in NAMES:
                pictures, *speed = draw(services, workers, Path(folder) / f"{repeat} {workers}")
                expected = expected or pictures
                if pictures != expected:
                    raise SystemExit(f"{NAMES[workers]} drew other bytes than the local engine")
                speeds[workers].append(speed)
        services.close()
    steady, whole = ({w: max(s[i] for s in speeds[w]) for w in NAMES} for i in (0, 1))
    for workers, name in NAMES.items():
        print(f"{name:15} {steady[workers]:6.2f} pictures a second, {whole[workers]:6.2f} with its start")
    print(f"the same {N} files each time")
    print(f"one worker is {steady[1] / steady[0]:.2f} times as quick as local {bar(steady[1] / steady[0], least=0.9)}")
    print(
        f"two workers are {steady[2] / steady[1]:.2f} times as quick as one, on free processors "
        f"{bar(steady[2] / steady[1], least=1.6)}"
    )


if __name__ == "__main__":
    main()
    end()
