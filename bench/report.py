"""Processor seconds of a run's HTML report after its page, which drew its figures: `python bench/report.py`.

The bar is a multiple of the same report without figures.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bars import bar, end
from bias_core.explore.options import explore_settings
from bias_core.report.export import to_form
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.ui.study.result_page import figures_html

COUNTS, LARGEST, MOST_SECONDS, TRIES = (64, 256, 1024), 2.0, 0.8, 3


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    with TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True))
        for n in COUNTS:
            settings = explore_settings(concept="doctor", model="calibration-renderer", n_images=n)
            report = complete(run_study(find_design("explore"), settings, services))
            bare = replace(report, results=replace(report.results, figures=()))
            to_form(bare, "html")  # templates load on first use
            page = seconds(lambda report=report: figures_html(report.results.figures))
            after = min(seconds(lambda report=report: to_form(report, "html")) for _ in range(TRIES))
            plain = min(seconds(lambda bare=bare: to_form(bare, "html")) for _ in range(TRIES))
            print(
                f"{n:,} pictures, {len(report.results.figures)} figures: page {page:.2f} s, report after it "
                f"{after:.2f} s {bar(after, most=MOST_SECONDS)}, {after / plain:.1f} times the same without figures "
                f"{bar(after / plain, most=LARGEST)}"
            )
        services.close()


if __name__ == "__main__":
    main()
    end()
