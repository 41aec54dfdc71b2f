"""Make the example runs of ``assets/examples`` from the embedded models: ``python scripts/make_examples.py``.

Each is a preset of a tab, some in another size or from another seed on. An example more is an entry more in
``EXAMPLES``. Names as arguments make only those.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bias_core.app.build import TABS
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.examples import FOLDER, Example, write_example
from bias_core.studies.running.run import complete, run_study

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport

LIMIT_BYTES = 3_000_000


@dataclass(frozen=True, kw_only=True)
class Made:
    """An example and how it is made.

    Attributes
    ----------
    example : its name, tab and title.
    preset : place among the tab's presets.
    scale : share of the full size, where it is not the preset's.
    seed : first seed, where it is not the preset's.
    note : what a reader of the example must know besides.
    """

    example: Example
    preset: int
    scale: float | None = None
    seed: int = 0
    note: str = ""


def _of(tab: str, name: str, title: str, preset: int, **changes: Any) -> Made:
    return Made(example=Example(name=name, tab=tab, title=title), preset=preset, **changes)


EXAMPLES = (
    _of("association", "science-and-arts", "science and arts", 0, scale=0.25, seed=2),
    _of("paired", "occupations-in-pairs", "eight occupations", 0),
    _of("objects", "planted-object", "a planted object", 0),
    _of("internal", "eight-targets", "eight targets", 2),
    _of(
        "origins",
        "steps-of-a-beard",
        "when the beard enters",
        0,
        seed=24,
        note=(
            "Its seeds were chosen because a beard is drawn with them: their share of beards says nothing of "
            "how often this model draws one."
        ),
    ),
    _of("origins", "clusters-and-texts", "clusters and their texts", 2),
    _of("explore", "fair-and-published", "a doctor, fair and as published", 0),
)


def make(made: Made, services: Services) -> StudyReport:
    """Run it."""
    tab = next(tab for tab in TABS if tab.key == made.example.tab)
    preset = tab.presets[made.preset]
    scale = {} if made.scale is None else {"scale": made.scale}
    settings = StudySettings(**{**preset.settings, **scale, "seed": made.seed})
    return complete(run_study(find_design(preset.study), settings, services))


def main() -> None:
    """Make all, or those that are named."""
    wanted = set(sys.argv[1:]) or {made.example.name for made in EXAMPLES}
    with TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder), offline=True, device="cpu"))
        for made in EXAMPLES:
            if made.example.name in wanted:
                started = time.monotonic()
                report = make(made, services)
                write_example(made.example, report, note=made.note)
                print(f"{made.example.name}: {report.n_images} pictures, {time.monotonic() - started:.0f} s")
        services.close()
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"{size / 1e6:.2f} MB of at most {LIMIT_BYTES / 1e6:.0f} MB")
    sys.exit(size > LIMIT_BYTES)


if __name__ == "__main__":
    main()
