"""Answers in the forms that Label Studio and Argilla import, and the data card of an export."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from bias_core.annotation.collected import LabelledItem, TaskProgress
    from bias_core.annotation.tasks import Task


def label_studio(task: Task, labelled: Mapping[str, LabelledItem]) -> dict[str, bytes]:
    """Files by name: ``config.xml`` of a project, ``tasks.json`` with every rater's answer as an annotation.

    ``labelled`` is by file name. Pictures are files of a local storage whose folder is the unpacked export.
    """
    return {
        "label_studio/config.xml": _studio_config(task).encode(),
        "label_studio/tasks.json": _json([_studio_task(task, name, one) for name, one in labelled.items()]),
    }


def argilla(task: Task, labelled: Mapping[str, LabelledItem]) -> dict[str, bytes]:
    """Files by name: ``settings.json``, and ``records.json`` with the majority as a suggestion.

    Pictures are paths from the unpacked export's folder. Votes are metadata:
    answers of single raters are no responses there, for a response belongs to a user of one's own server.
    """
    options = [{"value": answer.key, "text": answer.label} for answer in task.answers]
    settings = {
        "guidelines": task.instructions,
        "fields": [
            {"name": "image", "title": "Picture", "required": True, "settings": {"type": "image"}},
            {
                "name": "shown",
                "title": "What is asked",
                "required": False,
                "settings": {"type": "text", "use_markdown": False},
            },
        ],
        "questions": [
            {
                "name": position,
                "title": question.replace("{}", "…"),
                "required": True,
                "settings": {"type": "label_selection", "options": options},
            }
            for position, question in task.questions.items()
        ],
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": task.raters_per_item},
    }
    records = [_argilla_record(task, name, one) for name, one in labelled.items()]
    return {"argilla/settings.json": _json(settings), "argilla/records.json": _json(records)}


def label_card(progress: TaskProgress, columns: Mapping[str, str]) -> str:
    """Markdown with the head that dataset hubs read: what was asked, of whom, and what not to conclude."""
    task = progress.task
    head = {
        "pretty_name": task.title,
        "license": "other",
        "license_name": "see-card",
        "language": ["en"],
        "tags": ["text-to-image", "bias", "human-labels", "t2i-bias-explorer"],
        "configs": [{"config_name": "default", "drop_labels": True, "data_dir": "train"}],
    }
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {_line(task.title)}",
        _counts(progress),
        "## What raters were asked\n\n" + "\n".join(_asked(task)),
        f"## Instructions\n\n{_quoted(task.instructions)}" if task.instructions.strip() else "",
        f"## What raters agreed to\n\n{_quoted(task.consent)}",
        "## Columns\n\n" + "\n".join(f"- `{name}`: {what}" for name, what in columns.items()),
        _FILES,
        _LIMITS,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_FILES = """## Files

- `labels.csv`, `labels.jsonl`, `labels.parquet`: one row for each answer and position. The CSV is what the
  studies read as labels. In it, a text that a spreadsheet would run as a formula begins with an apostrophe.
- `excluded.csv`, where there is one: answers of raters whom the owner of the task excluded. They count in
  nothing else here.
- `train/`: the pictures with the answer of most raters (`…_label`, empty where two have equally many votes),
  its share and all answers; `datasets.load_dataset("imagefolder", data_dir="train")` reads it, and says None
  where nobody answered. `known/`: the pictures whose answer was known beforehand.
- `label_studio/`: `config.xml` for a project, `tasks.json` to import, with this folder as local storage.
- `argilla/`: from this folder, `rg.Settings.from_json("argilla/settings.json")`, then
  `dataset.records.from_json("argilla/records.json")`.
- `task.json`: every text that the raters read."""

_LIMITS = """## Biases, and what not to conclude

The answers say what raters perceive in pictures that a model drew; they say nothing of what anybody is, and
masculine and feminine are two of many ways to be seen. Raters differ, by background and by chance: look at
their agreement before using a majority. The pictures may show stereotypes; they are kept to be measured, not
to stand for the world.

## Personal and sensitive information

No name, address or browser of a rater was kept. Each rater has a random name here; whoever has the rater's
code may delete the answers in the store, and later exports lack them. Do not try to find out who they are."""


def _counts(progress: TaskProgress) -> str:
    active = [rater for rater in progress.counted_raters if rater.n_answered]
    gone = progress.n_deleted_raters
    deleted = f" {progress.n_deleted_answers} answers of {gone} raters were deleted by them." if gone else ""
    n_excluded = len(progress.raters) - len(progress.counted_raters)
    if n_excluded:
        deleted += (
            f" {progress.n_excluded_answers} answers of {n_excluded} raters were excluded by the owner."
        )
    return (
        f"{progress.n_answers:,} answers of {len(active)} raters to {progress.n_items:,} pictures "
        f"({progress.n_complete:,} have the {progress.task.raters_per_item} raters that were wanted); "
        f"{progress.n_gold_items} more pictures had a known answer. The task was made on "
        f"{progress.task.created[:10]}; this is version {progress.task.version}.{deleted}"
    )


def _asked(task: Task) -> list[str]:
    lines = [f"- {position}: {_line(question)}" for position, question in task.questions.items()]
    answers = "; ".join(f"{_line(answer.label)} (`{answer.key}`)" for answer in task.answers)
    return [*lines, f"- answers: {answers}"]


def _studio_config(task: Task) -> str:
    lines = ["<View>", '  <Image name="image" value="$image"/>']
    for position in task.positions:
        lines.append(f'  <Header value="$question_{position}"/>')
        lines.append(f'  <Choices name="{position}" toName="image" choice="single" required="true">')
        lines += [
            f'    <Choice value="{escape(a.key)}" html="{escape(escape(a.label))}"/>' for a in task.answers
        ]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def _studio_task(task: Task, name: str, one: LabelledItem) -> dict[str, Any]:
    data = {"image": f"/data/local-files/?d={name}", "image_id": one.item.image_id}
    for position, question in task.questions.items():
        identity = one.item.identities.get(position, "")
        data[f"question_{position}"] = (one.item.question or question).replace("{}", identity)
    annotations = [
        {
            "result": _studio_result(given.choices, rater=given.rater),
            "ground_truth": False,
            "was_cancelled": False,
            "lead_time": given.seconds,
            "created_at": given.at,
        }
        for given in one.answers
    ]
    if one.item.gold is not None:
        known = {"result": _studio_result(one.item.gold), "ground_truth": True, "was_cancelled": False}
        annotations.append(known)
    return {"data": data, "annotations": annotations}


def _studio_result(choices: Mapping[str, str], *, rater: str = "") -> list[dict[str, Any]]:
    meta = {"meta": {"text": [rater]}} if rater else {}
    return [
        {
            "id": position,
            "from_name": position,
            "to_name": "image",
            "type": "choices",
            "value": {"choices": [answer]},
            **meta,
        }
        for position, answer in choices.items()
    ]


def _argilla_record(task: Task, name: str, one: LabelledItem) -> dict[str, Any]:
    shown = [
        (one.item.question or question).replace("{}", one.item.identities.get(position, ""))
        for position, question in task.questions.items()
    ]
    votes = {
        f"{position}_votes": ", ".join(f"{key} {n}" for key, n in Counter(one.said(position)).most_common())
        for position in task.positions
    }
    return {
        "id": str(one.item.id),
        "fields": {
            "image": name,
            "shown": "\n".join(shown),
        },
        "metadata": {
            "image_id": one.item.image_id,
            "n_raters": len(one.answers),
            **votes,
        },
        "suggestions": {
            position: {"value": winner, "score": one.share(position), "agent": "most raters"}
            for position in task.positions
            if (winner := one.majority(position))
        },
        "responses": {},
        "vectors": {},
    }


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("<", "&lt;")


def _quoted(text: str) -> str:
    return "\n".join(f"> {_line(line)}" for line in text.strip().splitlines())
