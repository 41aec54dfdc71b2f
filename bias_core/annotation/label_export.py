"""The answers of a task as files that other programs read, in one zip with a data card."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml
from jinja2 import Environment

from bias_core.annotation.collected import LabelledItem, given_answers, labelled_items, task_progress
from bias_core.annotation.task_owner import read_picture
from bias_core.annotation.tasks import Task, task_texts
from bias_core.exchange.export import csv_bytes
from bias_core.settings import ASSETS
from bias_core.store.files import replaced_file

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
_HEAD = {
    "license": "other",
    "license_name": "see-card",
    "language": ["en"],
    "tags": ["text-to-image", "bias", "human-labels", "t2i-bias-explorer"],
    "configs": [{"config_name": "default", "drop_labels": True, "data_dir": "train"}],
}


def answers_frame(store: LabelStore, key: OwnerKey, *, excluded: bool = False) -> pd.DataFrame:
    """One row for each answer that counts and each position, with the columns of :data:`COLUMNS`.

    As CSV it is what studies read as labels: ``image_id, position, answer, rater``. With ``excluded`` it is
    the answers of raters whom the owner has excluded.
    """
    rows = []
    for given in given_answers(store, key, excluded=excluded):
        item, gold = given.item, given.item.gold or {}
        last = (given.task_version, given.seconds, given.at)
        for position, answer in given.choices.items():
            identity = item.identities.get(position, "")
            rows.append((item.image_id, position, identity, answer, given.rater, gold.get(position, ""), *last))
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
            packing = zipfile.ZIP_STORED if name.endswith((".png", ".parquet")) else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, packing)
    return target


def _entries(store: LabelStore, key: OwnerKey, progress: TaskProgress) -> Iterator[tuple[str, bytes | str]]:
    task, frame = progress.task, answers_frame(store, key)
    by_name = {
        f"{'known' if one.item.gold else 'train'}/{i:05d}-{one.item.picture[:12]}.png": one
        for i, one in enumerate(labelled_items(store, key), start=1)
    }
    parquet = io.BytesIO()
    frame.to_parquet(parquet, index=False)
    yield "README.md", _card(progress)
    yield "task.json", _json({"id": task.id, "version": task.version, **task_texts(task)})
    yield "labels.csv", csv_bytes(frame)
    yield "labels.jsonl", _lines(frame.to_dict("records"))
    yield "labels.parquet", parquet.getvalue()
    if len(excluded := answers_frame(store, key, excluded=True)):
        yield "excluded.csv", csv_bytes(excluded)
    ordinary = {name: one for name, one in by_name.items() if one.item.gold is None}
    yield "train/metadata.jsonl", _lines([_metadata(name, one, task) for name, one in ordinary.items()])
    yield "label_studio/config.xml", _text_from("label_studio.xml", autoescape=True, task=task)
    yield "label_studio/tasks.json", _json([_studio_task(task, *pair) for pair in by_name.items()])
    yield "argilla/settings.json", _json(_argilla_settings(task))
    yield "argilla/records.json", _json([_argilla_record(task, *pair) for pair in by_name.items()])
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
            f"{position}_answers": one.votes(position),
        }
    return row


# The data card: what was asked, of whom, and what not to conclude; its head is what dataset hubs read.


def _card(progress: TaskProgress) -> str:
    task = progress.task
    return _text_from(
        "label_card.md",
        head=yaml.safe_dump({"pretty_name": task.title} | _HEAD, sort_keys=False, allow_unicode=True),
        progress=progress,
        task=task,
        n_raters=sum(rater.n_answered > 0 for rater in progress.counted_raters),
        n_excluded=len(progress.raters) - len(progress.counted_raters),
        columns=COLUMNS,
    )


def _text_from(name: str, *, autoescape: bool = False, **values: Any) -> str:
    """A template of ``assets/texts`` with these values; filters of its own keep markup out of a card."""
    environment = Environment(autoescape=autoescape, trim_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"line": _line, "quotation": _quotation}
    template = environment.from_string((ASSETS / "texts" / name).read_text(encoding="utf-8"))
    text: str = template.render(values)
    return text


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("<", "&lt;")


def _quotation(text: str) -> str:
    return "\n".join(f"> {_line(line)}" for line in text.strip().splitlines())


# Label Studio: every rater's answer is an annotation. Pictures are files of a local storage whose folder is
# the unpacked export.


def _studio_task(task: Task, name: str, one: LabelledItem) -> dict[str, Any]:
    data = {"image": f"/data/local-files/?d={name}", "image_id": one.item.image_id}
    data |= {f"question_{position}": text for position, text in _questions(task, one).items()}
    usual = {"ground_truth": False, "was_cancelled": False}
    annotations: list[dict[str, Any]] = []
    for given in one.answers:
        result = _studio_result(given.choices, meta={"text": [given.rater]})
        annotations.append(usual | {"result": result, "lead_time": given.seconds, "created_at": given.at})
    if one.item.gold is not None:
        annotations.append(usual | {"result": _studio_result(one.item.gold), "ground_truth": True})
    return {"data": data, "annotations": annotations}


def _studio_result(choices: Mapping[str, str], **more: Any) -> list[dict[str, Any]]:
    same = {"to_name": "image", "type": "choices", **more}
    return [
        {"id": position, "from_name": position, "value": {"choices": [answer]}, **same}
        for position, answer in choices.items()
    ]


# Argilla: the majority is a suggestion. Answers of single raters are no responses there, for a response
# belongs to a user of one's own server; their votes are metadata. Pictures are paths from its folder.


def _argilla_settings(task: Task) -> dict[str, Any]:
    options = [{"value": answer.key, "text": answer.label} for answer in task.answers]
    selection = {"type": "label_selection", "options": options}
    text = {"type": "text", "use_markdown": False}
    return {
        "guidelines": task.instructions,
        "fields": [
            {"name": "image", "title": "Picture", "required": True, "settings": {"type": "image"}},
            {"name": "shown", "title": "What is asked", "required": False, "settings": text},
        ],
        "questions": [
            {"name": name, "title": question.replace("{}", "…"), "required": True, "settings": selection}
            for name, question in task.questions.items()
        ],
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": task.raters_per_item},
    }


def _argilla_record(task: Task, name: str, one: LabelledItem) -> dict[str, Any]:
    counts = {position: Counter(one.votes(position)).most_common() for position in task.positions}
    votes = {f"{position}_votes": ", ".join(f"{k} {n}" for k, n in some) for position, some in counts.items()}
    return {
        "id": str(one.item.id),
        "fields": {"image": name, "shown": "\n".join(_questions(task, one).values())},
        "metadata": {"image_id": one.item.image_id, "n_raters": len(one.answers), **votes},
        "suggestions": {
            position: {"value": winner, "score": one.share(position), "agent": "most raters"}
            for position in task.positions
            if (winner := one.majority(position))
        },
        "responses": {},
        "vectors": {},
    }


def _questions(task: Task, one: LabelledItem) -> dict[str, str]:
    """What was asked of each position, with whom it names."""
    return {
        position: (one.item.question or question).replace("{}", one.item.identities.get(position, ""))
        for position, question in task.questions.items()
    }


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1)


def _lines(rows: Sequence[Mapping[Any, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
