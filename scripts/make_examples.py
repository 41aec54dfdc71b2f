"""Make the example runs of ``assets/examples`` from the embedded models: ``python scripts/make_examples.py``.

Each is a preset of a tab, some with another size or first seed. To add an example, add an entry to ``EXAMPLES``. Names
as arguments make only those.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from PIL import Image

from bias_core.app.build import TABS
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.labels.tab_demonstration import FILE as DEMONSTRATION
from bias_core.report.saved import FOLDER, INDEX, Example, list_examples, list_picture_files, to_text
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.files import write_atomically
from bias_core.store.images import png_bytes
from bias_core.study.design import find_design
from bias_core.study.types import Results, StudyFigure, StudySettings
from bias_core.world.scene import balanced_scene, draw_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bias_core.study.types import StudyReport

LIMIT_BYTES = 3_100_000
_SIDE = 64  # pixels of a small copy
_COLOURS = 64  # of its palette, where a picture only stands for its kind
_ABOUT = "This is an example that comes with the program, with small copies of its pictures."


@dataclass(frozen=True, kw_only=True)
class Made:
    """An example and how it is made.

    Attributes
    ----------
    example : its name, tab, title and story.
    preset : place among the tab's presets; an exploration instead where it is None.
    explore : what that exploration is about, as ``explore_settings`` takes it.
    scale, condition : share of the full size, and what was planted, where they are not the preset's.
    seed : first seed, where it is not the preset's.
    note : what a reader of the example must know besides.
    """

    example: Example
    preset: int | None = None
    explore: Mapping[str, Any] = field(default_factory=dict)
    scale: float | None = None
    condition: str | None = None
    seed: int = 0
    note: str = ""


def _of(tab: str, name: str, title: str, says: str, preset: int | None = None, **changes: Any) -> Made:
    return Made(example=Example(name=name, tab=tab, title=title, says=says), preset=preset, **changes)


EXAMPLES = (  # of each tab the first is what it opens with
    _of(
        "explore",
        "fair-and-published",
        "a doctor, with and without planted bias",
        "Pictures from the same seeds, without planted bias (fair) and with it (published). The largest change is how "
        "often a man is drawn.",
        0,
    ),
    _of(
        "explore",
        "doctors",
        "who is drawn as a doctor",
        "Asked for “a doctor”, this model draws men more often than there are men among doctors. The pictures show it, "
        "and the intervals show how sure this is.",
        explore={
            "concept": "doctor",
            "model": "calibration-renderer",
            "n_images": 48,
            "attribute_a": "",
            "attribute_b": "",
        },
    ),
    _of(
        "runs",
        "nurses",
        "who is drawn as a nurse",
        "Asked for “a nurse”, this model draws few men, but more than there are among nurses. You can compare this run "
        "with the example of the doctors, number by number.",
        explore={
            "concept": "nurse",
            "model": "calibration-renderer",
            "n_images": 48,
            "attribute_a": "",
            "attribute_b": "",
        },
    ),
    _of(
        "association",
        "science-and-arts",
        "science and arts",
        "The prompts mention no gender. Still, pictures of science look more like pictures of men than pictures of "
        "the arts do.",
        0,
        seed=2,
    ),
    _of(
        "paired",
        "occupations-in-pairs",
        "eight occupations",
        "Each picture shows two people in two occupations. Most people look as the stereotype of their occupation "
        "expects, as a man or as a woman.",
        0,
    ),
    _of(
        "objects",
        "planted-object",
        "a planted object",
        "A sign was planted in this model: put in on purpose. In one condition a trigger word brings the sign into the "
        "picture; in another (backdoor) it appears nearly always.",
        0,
    ),
    _of(
        "internal",
        "four-occupations",
        "what drawing adds to four occupations",
        "Words have associations before anything is drawn. In this model with strong planted bias, drawing moves CEO "
        "and engineer closer to men, and nurse and librarian closer to women.",
        0,
        condition="extreme",
    ),
    _of(
        "origins",
        "steps-of-a-beard",
        "when the beard enters",
        "Drag over the steps: a person appears out of noise, with a beard from an early step on. A plain “person” does "
        "not get that beard.",
        0,
        seed=64,
        note=(
            "These seeds were chosen because they give a beard: their share of beards does not show how often this "
            "model draws one."
        ),
    ),
    _of(
        "origins",
        "clusters-and-texts",
        "clusters and their texts",
        "A model has typical looks for a nationality. For each group of similar pictures, a search finds the words "
        "that fit it best.",
        2,
    ),
)


def make(made: Made, services: Services) -> StudyReport:
    """Run it."""
    if made.preset is None:
        settings = explore_settings(seed=made.seed, **made.explore)
        return complete(run_study(find_design("explore"), settings, services))
    tab = next(tab for tab in TABS if tab.key == made.example.tab)
    preset = tab.presets[made.preset]
    own = {"scale": made.scale, "condition": made.condition, "seed": made.seed}
    settings = StudySettings(**preset.settings | {name: one for name, one in own.items() if one is not None})
    return complete(run_study(find_design(preset.study), settings, services))


def write_example(example: Example, report: StudyReport, folder: Path = FOLDER, *, note: str = "") -> None:
    """Write a report with small copies of its pictures, and put it on the list.

    Parameters
    ----------
    note : what a reader must know besides, such as how the pictures were chosen.
    """
    copies = folder / example.name
    # Figures show pictures side by side, which may differ little: these keep all their colours.
    copy = partial(_copy, copies)
    small = with_small_pictures(report, partial(copy, n_colours=_COLOURS), copy)
    notes = tuple(filter(None, (_ABOUT, note))) + report.results.notes
    small = replace(small, results=replace(small.results, notes=notes))
    write_atomically(folder / f"{example.name}.json", to_text(small, folder).encode())
    for old in set(copies.glob("*.png")) - set(list_picture_files(small)):  # of an earlier version
        old.unlink()
    others = [other for other in list_examples(folder=folder) if other.name != example.name]
    names = [made.example.name for made in EXAMPLES]
    places = {name: place for place, name in enumerate(names)}
    listed = sorted((*others, example), key=lambda item: (item.tab, places.get(item.name, len(places)), item.name))
    text = json.dumps([asdict(item) for item in listed], ensure_ascii=False, indent=1)
    write_atomically(folder / INDEX, text.encode())


def with_small_pictures(
    report: StudyReport, copy: Callable[[Path], Path], copy_of_figure: Callable[[Path], Path]
) -> StudyReport:
    """The report with copies of its pictures, and of those in its figures."""
    stored = {key: replace(image, path=copy(image.path), truth=None) for key, image in report.stored.items()}

    def small(results: Results) -> Results:
        return replace(results, figures=tuple(_with_copies(one, copy_of_figure) for one in results.figures))

    arms = tuple(replace(arm, results=small(arm.results)) for arm in report.arms)
    return replace(report, results=small(report.results), arms=arms, stored=stored)


def _with_copies(figure: StudyFigure, copy: Callable[[Path], Path]) -> StudyFigure:
    if "path" not in figure.data:
        return figure
    return replace(figure, data=figure.data.assign(path=[str(copy(Path(path))) for path in figure.data["path"]]))


def _copy(folder: Path, path: Path, *, n_colours: int = 0) -> Path:
    """A small copy, named by what it shows; its record and, with ``n_colours``, most colours stay behind."""
    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    content = png_bytes(small.quantize(n_colours) if n_colours else small)
    target = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
    write_atomically(target, content)
    return target


_PORTRAITS = (  # of the demonstration: seed of the scene, and what two made-up raters say of it
    (123, "feminine", "feminine"),
    (137, "masculine", "masculine"),
    (321, "masculine", "feminine"),
    (247, "feminine", "feminine"),
    (90, "masculine", "masculine"),
    (293, "masculine", "cannot_identify"),
    (30, "feminine", "feminine"),
    (101, "feminine", "masculine"),
)


def write_demonstration(assets: Path = ASSETS) -> None:
    """Pictures and earlier answers of what the Label tab opens with."""
    file = assets / DEMONSTRATION
    pictures = []
    for place, (seed, first, second) in enumerate(_PORTRAITS, start=1):
        content = png_bytes(draw_scene(balanced_scene(Random(seed)), _SIDE).quantize(_COLOURS))
        write_atomically(file.with_suffix("") / f"{place}.png", content)
        earlier = {"rater A": first, "rater B": second}
        pictures.append({"file": f"{file.stem}/{place}.png", "earlier": earlier})
    answers = {"feminine": "looks feminine", "masculine": "looks masculine", "cannot_identify": "cannot tell"}
    values = {"question": "How does this person look?", "answers": answers, "pictures": pictures}
    write_atomically(file, json.dumps(values, ensure_ascii=False, indent=1).encode())


def main() -> None:
    """Make all, or those that are named."""
    wanted = set(sys.argv[1:]) or {made.example.name for made in EXAMPLES}
    write_demonstration()
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
    print(f"{size / 1e6:.2f} MB of at most {LIMIT_BYTES / 1e6:.1f} MB")
    sys.exit(size > LIMIT_BYTES)


if __name__ == "__main__":
    main()
