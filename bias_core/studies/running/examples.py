"""Example runs that come with the program: reports with small copies of their pictures, opened at once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bias_core.errors import StorageError
from bias_core.settings import ASSETS
from bias_core.studies.reports.saved import SavedReport, from_text

FOLDER = ASSETS / "examples"
INDEX = "index.json"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example: the name of its files, the key of the tab that shows it, and the title on its button."""

    name: str
    tab: str
    title: str


def list_examples(tab: str = "", folder: Path = FOLDER) -> tuple[Example, ...]:
    """Those of one tab, or all; none where none are shipped."""
    path = folder / INDEX
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
