"""The answers of a task as files that other programs read, in one zip with a data card."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.annotation.collected import LabelledItem, given_answers, labelled_items, task_progress
from bias_core.annotation.label_formats import argilla, label_card, label_studio
from bias_core.annotation.label_pictures import read_picture
from bias_core.annotation.tasks import Task, task_texts
from bias_core.runs.export import csv_bytes
from bias_core.runs.files import replaced_file

if TYPE_CHECKING:
    from bias_core.annotation.collected import TaskProgress
    from bias_core.annotation.label_store import LabelStore
    from bias_core.annotation.task_owner import OwnerKey

COLUMNS = {
    "image_id": "the picture in the run or import that it came from",
    "position": "who or what in the picture the answer is about",
    "identity": "whom the picture was asked to show there",
    "answer": "what the rater said; for people, how they look to the rater",
    "rater": "a random name",
    "known": "the answer that was known beforehand, of items that check attention; empty for all others",
    "task_version": "version of the texts that the rater read",
    "seconds": "how long the picture was looked at",
    "at": "when, UTC",
}


def answers_frame(store: LabelStore, key: OwnerKey, *, excluded: bool = False) -> pd.DataFrame:
    """One row for each answer that counts and each position, with the columns of :data:`COLUMNS`.

    As CSV it is what studies read as labels: ``image_id, position, answer, rater``. With ``excluded`` it is
    the answers of raters whom the owner has excluded.
    """
    rows = [
        {
            "image_id": given.item.image_id,
            "position": position,
            "identity": given.item.identities.get(position, ""),
            "answer": answer,
            "rater": given.rater,
            "known": (given.item.gold or {}).get(position, ""),
            "task_version": given.task_version,
            "seconds": given.seconds,
            "at": given.at,
        }
        for given in given_answers(store, key, excluded=excluded)
        for position, answer in given.choices.items()
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS])


def export_labels(store: LabelStore, key: OwnerKey, target: Path) -> Path:
    """Write a zip: CSV, JSONL, Parquet, imagefolder, Label Studio, Argilla and a data card.

    Raises
    ------
    NotAllowed
        The key opens no task.
    StorageError
        A picture is missing, or the disk is full. Nothing half-written stays behind.
    """
    progress = task_progress(store, key)
    with replaced_file(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in _entries(store, key, progress):
            packed = zipfile.ZIP_STORED if name.endswith((".png", ".parquet")) else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, packed)
    return target


def _entries(store: LabelStore, key: OwnerKey, progress: TaskProgress) -> Iterator[tuple[str, bytes]]:
    task, frame, labelled = progress.task, answers_frame(store, key), labelled_items(store, key)
    names = [
        f"{'known' if one.item.gold else 'train'}/{i:05d}-{one.item.picture[:12]}.png"
        for i, one in enumerate(labelled, start=1)
    ]
    by_name = dict(zip(names, labelled, strict=True))
    yield "README.md", label_card(progress, COLUMNS).encode()
    yield "task.json", _json({"id": task.id, "version": task.version, **task_texts(task)})
    yield "labels.csv", csv_bytes(frame)
    yield "labels.jsonl", _lines(frame.to_dict("records"))
    yield "labels.parquet", _parquet(frame)
    if len(left_out := answers_frame(store, key, excluded=True)):
        yield "excluded.csv", csv_bytes(left_out)
    ordinary = {name: one for name, one in by_name.items() if one.item.gold is None}
    yield "train/metadata.jsonl", _lines([_metadata(name, one, task) for name, one in ordinary.items()])
    for name, content in (label_studio(task, by_name) | argilla(task, by_name)).items():
        yield name, content
    for name, one in by_name.items():
        yield name, read_picture(store.pictures, one.item.picture)


def _metadata(name: str, one: LabelledItem, task: Task) -> dict[str, Any]:
    """A line of the imagefolder: one column of each kind for every position."""
    row: dict[str, Any] = {"file_name": name.removeprefix("train/"), "image_id": one.item.image_id}
    row["n_raters"] = len(one.answers)
    for position in task.positions:
        row |= {
            f"{position}_identity": one.item.identities.get(position, ""),
            f"{position}_label": one.majority(position),
            f"{position}_share": one.share(position) if one.majority(position) else None,
            f"{position}_answers": one.said(position),
        }
    return row


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=2).encode()


def _lines(rows: Sequence[Mapping[Any, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
