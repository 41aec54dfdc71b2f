"""A run as files that other programs read: imagefolder, Parquet, CSV, JSON, Markdown, Croissant."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.errors import StorageError
from bias_core.runs.croissant import METADATA, column_kinds, croissant, described
from bias_core.runs.dataset_card import dataset_card
from bias_core.runs.files import replaced_file, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from bias_core.runs.dataset_card import DatasetFacts
    from bias_core.types import ImageRow

# A spreadsheet would run a cell that begins with one of these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Entry = tuple[str, "bytes | Path"]


@dataclass(frozen=True, kw_only=True)
class ExportedImage:
    """A picture to hand over: its original, its row, and what else its line of metadata says."""

    path: Path
    row: ImageRow
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Export:
    """What goes into a folder or a zip.

    Attributes
    ----------
    images : originals, into ``train/`` with ``train/metadata.jsonl`` (Hugging Face imagefolder); where there
        are none, there is no such folder.
    tables : data frames by name, each as ``<name>.parquet`` and ``<name>.csv``.
    report : as ``report.json``.
    markdown : as ``report.md``.
    files : anything else by its name in the folder, such as figures.
    facts : for the dataset card ``README.md`` and for ``croissant.json``; None: neither is written.
    """

    images: Sequence[ExportedImage]
    tables: Mapping[str, pd.DataFrame]
    report: Mapping[str, Any]
    markdown: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    facts: DatasetFacts | None = None


def write_zip(export: Export, target: Path) -> Path:
    """Write everything into one zip, which appears under its name only when it is whole.

    Raises
    ------
    StorageError
        The disk is full, or a picture is no longer in the store.
    """
    # PNG is compressed already; the rest is small.
    with replaced_file(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in _entries(export):
            if isinstance(content, Path):
                archive.write(_present(content), name)
            else:
                archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return target


def write_folder(export: Export, target: Path) -> Path:
    """Write the same files into a folder, each whole or not at all."""
    for name, content in _entries(export):
        write_atomically(
            target / name, _present(content).read_bytes() if isinstance(content, Path) else content
        )
    return target


def csv_bytes(table: pd.DataFrame) -> bytes:
    """CSV (UTF-8) in which no text is taken for a formula by a spreadsheet."""
    safe = table.rename(columns=_not_a_formula).map(_not_a_formula)
    return str(safe.to_csv(index=False)).encode()


def _entries(export: Export) -> Iterator[Entry]:
    names = [
        f"{i:05d}-{image.row.group}-{image.row.id}.png" for i, image in enumerate(export.images, start=1)
    ]
    lines = [_metadata(name, image) for name, image in zip(names, export.images, strict=True)]
    metadata = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    if lines:
        yield METADATA, metadata
    if export.facts is not None:
        kinds = column_kinds(lines)
        yield "README.md", dataset_card(export.facts, described(kinds)).encode()
        description = croissant(export.facts, metadata, kinds)
        yield "croissant.json", json.dumps(description, ensure_ascii=False, indent=2).encode()
    for name, image in zip(names, export.images, strict=True):
        yield f"train/{name}", image.path
    for name, table in export.tables.items():
        yield f"{name}.parquet", _parquet_bytes(table)
        yield f"{name}.csv", csv_bytes(table)
    yield "report.json", json.dumps(export.report, ensure_ascii=False, indent=2, allow_nan=False).encode()
    yield "report.md", export.markdown.encode()
    yield from export.files.items()


def _metadata(name: str, image: ExportedImage) -> dict[str, Any]:
    return {"file_name": name, **asdict(image.row), **image.metadata}


def _parquet_bytes(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _not_a_formula(cell: object) -> object:
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _present(path: Path) -> Path:
    if not path.is_file():
        raise StorageError(f"picture {path.stem} is no longer in the store; run again to draw it")
    return path
