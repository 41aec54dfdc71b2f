"""Example runs that come with the program: reports with small copies of their pictures, opened at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from bias_core.errors import StorageError
from bias_core.settings import ASSETS
from bias_core.store.files import write_atomically
from bias_core.studies.kit.derived_images import png_bytes
from bias_core.studies.reports.saved import from_text, to_text

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyFigure, StudyReport
    from bias_core.studies.reports.saved import SavedReport
    from bias_core.types import StoredImage

FOLDER = ASSETS / "examples"
_INDEX = "index.json"
_SIDE = 64  # pixels of a small copy
_COLOURS = 96  # of its palette, where a picture only stands for its kind
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


def write_example(example: Example, report: StudyReport, folder: Path = FOLDER, *, note: str = "") -> None:
    """Write a report with small copies of its pictures, and put it on the list.

    Parameters
    ----------
    note : what a reader must know besides, such as how the pictures were chosen.
    """
    kept, copies = _chosen(report), folder / example.name
    stored = {
        key: replace(image, path=_copy(image.path, copies, n_colours=_COLOURS), truth=None)
        for key, image in kept.items()
    }
    frame = report.pictures
    if frame is not None:
        frame = frame[frame["image_id"].isin(list(stored))].reset_index(drop=True)
    figures = tuple(_copied(figure, copies) for figure in report.results.figures)
    about = (
        f"This is an example that comes with the program: small copies of {len(stored):,} of its "
        f"{report.n_images:,} pictures are shown; the numbers are of all."
    )
    notes = tuple(filter(None, (about, note))) + report.results.notes
    results = replace(report.results, figures=figures, notes=notes)
    small = replace(report, results=results, pictures=frame, stored=stored)
    write_atomically(folder / f"{example.name}.json", to_text(small, folder).encode())
    used = {image.path for image in stored.values()} | {Path(p) for f in figures for p in _paths(f)}
    for old in set(copies.glob("*.png")) - used:  # of an earlier version
        old.unlink()
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
    """A figure shows pictures side by side, which may differ little: they keep all their colours."""
    copies = [str(_copy(Path(path), folder)) for path in _paths(figure)]
    return replace(figure, data=figure.data.assign(path=copies)) if copies else figure


def _paths(figure: StudyFigure) -> list[str]:
    return list(figure.data["path"]) if "path" in figure.data else []


def _copy(path: Path, folder: Path, *, n_colours: int = 0) -> Path:
    """A small copy, named by what it shows; its record and, with ``n_colours``, most colours stay behind."""
    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    content = png_bytes(small.quantize(n_colours) if n_colours else small)
    target = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
    write_atomically(target, content)
    return target
