"""The study data of the papers: stimuli, lists and published numbers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import yaml

from bias_core.settings import ASSETS

STUDY_DATA = ASSETS / "studies"


def read_study(name: str, folder: Path = STUDY_DATA) -> dict[str, Any]:
    """The study data file ``<name>.yaml`` as a dictionary."""
    data: dict[str, Any] = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def read_table(file: str, folder: Path = STUDY_DATA) -> list[dict[str, str]]:
    """The rows of a study table, every cell a string without spaces around it."""
    with (folder / file).open(encoding="utf-8", newline="") as lines:
        return [{column: cell.strip() for column, cell in row.items()} for row in csv.DictReader(lines)]
