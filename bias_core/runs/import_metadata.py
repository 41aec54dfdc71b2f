"""``metadata.csv`` and ``metadata.jsonl``: which picture has which prompt, and whom it was to show."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput
from bias_core.runs.import_files import check_name

if TYPE_CHECKING:
    from bias_core.runs.import_files import Files

METADATA = ("metadata.csv", "metadata.jsonl")
TEXTS = ("prompt", "text", "caption")
"""Columns that hold the prompt, the first that there is."""
WHOM = ("left", "right", "identity")
"""Columns that name whom a picture was to show: two people side by side, or one; none is needed."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """Prompts and people by file name, and the folders whose pictures they are about ("." is the whole)."""

    prompts: Mapping[str, str]
    whom: Mapping[str, Mapping[str, str]]
    folders: frozenset[str]

    def covers(self, name: str) -> bool:
        """Whether a metadata file lies in the file's folder or above it."""
        return any(parent.as_posix() in self.folders for parent in PurePosixPath(name).parents)


def read_metadata(files: Files) -> Told:
    """All metadata files among ``files``.

    Raises
    ------
    InvalidInput
        One cannot be read, has no ``file_name`` or none of the columns of a prompt, or names a file that
        lies outside of its folder.
    """
    prompts: dict[str, str] = {}
    whom: dict[str, dict[str, str]] = {}
    folders = set()
    for name in files.names:
        path = PurePosixPath(name)
        if path.name in METADATA:
            folders.add(path.parent.as_posix())
            for line in _lines(name, files):
                picture = (path.parent / check_name(line["file_name"])).as_posix()
                prompts[picture] = line["prompt"]
                whom[picture] = {column: line[column] for column in WHOM if line[column]}
    return Told(prompts=prompts, whom=whom, folders=frozenset(folders))


def _lines(name: str, files: Files) -> list[dict[str, str]]:
    try:
        text = files.read(name).decode("utf-8-sig")
        rows = _csv(text) if name.endswith(".csv") else _json_lines(text)
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, InvalidInput, RecursionError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}") from error
    return [_line(name, number, row) for number, row in enumerate(rows, start=1)]


def _csv(text: str) -> list[Any]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _line(name: str, number: int, row: Any) -> dict[str, str]:
    column = next((c for c in TEXTS if isinstance(row, dict) and row.get(c) is not None), "")
    if not column or not isinstance(row.get("file_name"), str):
        raise InvalidInput(f"{name}, line {number}: needs file_name and one of {', '.join(TEXTS)}")
    people = {name: row[name] if isinstance(row.get(name), str) else "" for name in WHOM}
    texts = {"prompt": str(row[column]), **people}
    return {"file_name": row["file_name"]} | {name: " ".join(text.split()) for name, text in texts.items()}
