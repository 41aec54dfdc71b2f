"""Seconds for 2,000 rendered pictures with all scores, for the same again, and for 16 diffused pictures."""

import tempfile
import time
from pathlib import Path

from bias_core.explore.extension import suggest_set
from bias_core.explore.options import explore_settings
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design
from bias_core.study.run import complete, run_study
from bias_core.study.types import StudySettings


def seconds(settings: StudySettings, services: Services) -> float:
    started = time.perf_counter()
    complete(run_study(find_design("explore"), settings, services))
    return time.perf_counter() - started


def main() -> None:
    attributes = suggest_set("doctor", load_attribute_sets()).attributes
    rendered = explore_settings(concept="doctor", model="calibration-renderer", n_images=2000, attributes=attributes)
    diffused = explore_settings(concept="doctor", n_images=16, attributes=attributes)
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True))
        print(f"2,000 rendered pictures: {seconds(rendered, services):6.1f} s (at most 20)")
        print(f"the same again:          {seconds(rendered, services):6.1f} s (at most 2)")
        print(f"16 diffused pictures:    {seconds(diffused, services):6.1f} s (at most 15)")
        services.close()


if __name__ == "__main__":
    main()
