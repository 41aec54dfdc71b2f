"""Processor seconds to list 50 and 500 runs of 528 pictures, as at every opening of *Runs*: `python bench/runs.py`.

The bar is a share of the time to read their files whole, so that it holds on a busy machine.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bars import bar, end
from bias_core.run.history import list_runs
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.manifests import Manifest
from bias_core.study.design import study_classes
from bias_core.types import ImageRow

COUNTS, N_PICTURES, LARGEST_SHARE, MOST_SECONDS = (50, 500), 528, 0.3, 0.3
VISITOR = "c" * 32


def manifest(number: int) -> Manifest:
    rows = tuple(ImageRow(prompt="a doctor", seed=number * N_PICTURES + k, model="x") for k in range(N_PICTURES))
    return Manifest(
        id=f"{number:016x}", study="explore", session=VISITOR, title=f"run {number}", settings={}, rows=rows,
        status="finished", complete=time.time() + 1,
    )  # fmt: skip


def measure(n_runs: int) -> None:
    """Print the seconds of a list of so many runs."""
    with TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True))
        services.images.folder.mkdir()
        for number in range(n_runs):
            services.manifests.save(manifest(number))
        study_classes()  # loaded on first use
        started = time.process_time()
        lines = list_runs(services, VISITOR)
        seconds = time.process_time() - started
        started = time.process_time()
        for line in lines:
            services.manifests.get(line.run_id)
        whole = time.process_time() - started
        services.close()
    print(
        f"{len(lines)} runs of {lines[0].n_pictures} pictures listed in {seconds:.2f} s "
        f"{bar(seconds, most=MOST_SECONDS)}, and read whole in {whole:.2f} s: {seconds / whole:.2f} "
        f"{bar(seconds / whole, most=LARGEST_SHARE)}"
    )


def main() -> None:
    for n in COUNTS:
        measure(n)


if __name__ == "__main__":
    main()
    end()
