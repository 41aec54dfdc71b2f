"""Seconds for 12 concepts × 16 pictures, as a multiple of drawing and reading the same pictures alone.

Both start without stored pictures, and take turns.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.bars import bar, end
from bias_core.explore.concepts import load_concept_lists
from bias_core.explore.options import choose_design, explore_settings, several_settings
from bias_core.run.plan import lay_out, settle
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.types import StudySettings

TRIES = 2
MODELS = {"calibration-diffusion": 1.15, "calibration-renderer": None}


def draw_and_read(settings: StudySettings, services: Services) -> None:
    plan = lay_out(settle(choose_design(settings), settings), services)
    images = [image for event in services.draw(plan.manifest.rows) for image in event.images]
    services.embeddings.images(services.encoder(plan.settings.encoder), images)


def explore(settings: StudySettings, services: Services) -> None:
    complete(run_study(choose_design(settings), settings, services))


def timed(work: Callable[[StudySettings, Services], None], settings: StudySettings) -> float:
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True))
        started = time.process_time()
        work(settings, services)
        services.close()
        return time.process_time() - started


def main() -> None:
    concepts = load_concept_lists()["occupations"].concepts
    for model, most in MODELS.items():
        settings = several_settings(concepts, explore_settings(model=model))
        timed(explore, settings)  # loads the libraries
        pairs = [(timed(draw_and_read, settings), timed(explore, settings)) for _ in range(TRIES)]
        plain, whole = (min(some) for some in zip(*pairs, strict=True))
        said = bar(whole / plain, most=most) if most else "(no bar: it draws 192 pictures in less than a second)"
        print(f"{model}: {whole:6.2f} s, {whole / plain:.2f} times drawing and reading alone {said}")


if __name__ == "__main__":
    main()
    end()
