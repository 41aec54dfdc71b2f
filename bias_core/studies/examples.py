"""Example runs that come with the program: reports with small copies of their pictures, opened at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from bias_core.errors import StorageError
from bias_core.runs.files import write_atomically
from bias_core.settings import ASSETS
from bias_core.studies.kept_pictures import png_bytes
from bias_core.studies.saved_reports import from_text, to_text

if TYPE_CHECKING:
    from bias_core.studies.saved_reports import SavedReport
    from bias_core.studies.study_types import StudyFigure, StudyReport
    from bias_core.types import StoredImage

FOLDER = ASSETS / "examples"
_INDEX = "index.json"
_SIDE = 64  # pixels of a small copy
_COLOURS = 96  # of its palette
_MOST_PICTURES = 120


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example.

    Attributes
    ----------
    name : of its files.
    tab : key of the tab that shows it.
    title : on its button.
    """

    name: str
    tab: str
    title: str


def list_examples(tab: str = "", folder: Path = FOLDER) -> tuple[Example, ...]:
    """Those of one tab, or all; none where none are shipped."""
    path = folder / _INDEX
    if not path.is_file():
        return ()
    try:
        found = tuple(Example(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StorageError(f"cannot read the list of examples {path}: {error}") from error
    return tuple(example for example in found if tab in ("", example.tab))


def open_example(example: Example, folder: Path = FOLDER) -> SavedReport:
    """Its report; nothing is run."""
    try:
        text = (folder / f"{example.name}.json").read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"the example “{example.title}” is not there: {error}") from error
    return from_text(text, folder)


def write_example(example: Example, report: StudyReport, folder: Path = FOLDER) -> None:
    """Write a report with small copies of its pictures, and put it on the list."""
    kept = _chosen(report)
    stored = {
        key: replace(image, path=_copy(image.path, folder / example.name), truth=None)
        for key, image in kept.items()
    }
    frame = report.pictures
    if frame is not None:
        frame = frame[frame["image_id"].isin(list(stored))].reset_index(drop=True)
    figures = tuple(_copied(figure, folder / example.name) for figure in report.results.figures)
    note = (
        f"This is an example that comes with the program: small copies of {len(stored):,} of its "
        f"{report.n_images:,} pictures are shown; the numbers are of all."
    )
    results = replace(report.results, figures=figures, notes=(note, *report.results.notes))
    small = replace(report, results=results, pictures=frame, stored=stored)
    write_atomically(folder / f"{example.name}.json", to_text(small, folder).encode())
    others = [other for other in list_examples(folder=folder) if other.name != example.name]
    listed = sorted((*others, example), key=lambda item: (item.tab, item.name))
    text = json.dumps([asdict(item) for item in listed], ensure_ascii=False, indent=1)
    write_atomically(folder / _INDEX, text.encode())


def _chosen(report: StudyReport) -> Mapping[str, StoredImage]:
    """Pictures evenly out of all, so that every part of the study is seen."""
    if report.pictures is None or report.pictures.empty:
        return {}
    ids = list(dict.fromkeys(report.pictures["image_id"]))
    places = np.linspace(0, len(ids) - 1, min(len(ids), _MOST_PICTURES)).round().astype(int)
    return {ids[i]: report.stored[ids[i]] for i in dict.fromkeys(places)}


def _copied(figure: StudyFigure, folder: Path) -> StudyFigure:
    if "path" not in figure.data:
        return figure
    copies = [str(_copy(Path(path), folder)) for path in figure.data["path"]]
    return replace(figure, data=figure.data.assign(path=copies))


def _copy(path: Path, folder: Path) -> Path:
    """A small copy; its record and most of its colours stay behind."""
    target = folder / f"{path.stem[:12]}.png"
    if not target.is_file():
        with Image.open(path) as image:
            small = image.convert("RGB")
            small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
        write_atomically(target, png_bytes(small.quantize(_COLOURS)))
    return target
