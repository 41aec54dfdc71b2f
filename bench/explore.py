"""Seconds for rendered pictures with all scores, for the same again, and for 16 diffused pictures.

Those of the same again are processor seconds, also as a multiple of the reading of its pictures with their checksums.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.bars import bar, end
from bias_core.explore.extension import suggest_set
from bias_core.explore.options import explore_settings
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.images import read_record
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.values import option_values

COUNTS, TRIES = (512, 1024, 2048), 3
MOST_SECONDS, MOST_AGAIN, MOST_DIFFUSED = 20, 1.0, 15  # the first of the largest count


def seconds(settings: StudySettings, services: Services) -> float:
    started = time.perf_counter()
    complete(run_study(find_design("explore"), settings, services))
    return time.perf_counter() - started


def again(n: int, settings: StudySettings, services: Services) -> None:
    """Print the processor seconds of a run that is repeated, every picture and reading stored."""
    tries = []
    for _ in range(TRIES):
        started = time.process_time()
        report = complete(run_study(find_design("explore"), settings, services))
        tries.append(time.process_time() - started)
    started = time.process_time()
    for image in report.stored.values():
        read_record(image.path.read_bytes())
    plain = time.process_time() - started
    print(
        f"{n:,} again: {min(tries):6.2f} s {bar(min(tries), most=MOST_AGAIN, unit='s')}, "
        f"{min(tries) / plain:.1f} times their reading"
    )


def main() -> None:
    attributes = suggest_set("doctor", load_attribute_sets()).attributes
    usual = explore_settings(concept="doctor", model="calibration-renderer", attributes=attributes)
    diffused = explore_settings(concept="doctor", n_images=16, attributes=attributes)
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True))
        for n in COUNTS:
            rendered = replace(usual, options={**option_values(usual.options), "n_images": n})
            taken = seconds(rendered, services)
            said = bar(taken, most=MOST_SECONDS, unit="s") if n == max(COUNTS) else ""
            print(f"{n:,} rendered pictures: {taken:6.1f} s {said}")
            again(n, rendered, services)
        taken = seconds(diffused, services)
        print(f"16 diffused pictures:    {taken:6.1f} s {bar(taken, most=MOST_DIFFUSED, unit='s')}")
        services.close()


if __name__ == "__main__":
    main()
    end()
