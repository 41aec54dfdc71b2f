"""People's answers as a frame, wherever they come from; corrections of a run take nothing else.

A file is read here; what a labelling task gathered is put into the same columns by
:func:`bias_core.annotation.collected.task_answers`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.exchange.tables import read_table

COLUMNS = {
    "task": "where the answer comes from: the title of a labelling task, or the name of a file",
    "image_id": "the picture in the run",
    "position": "who or what in the picture the answer is about: left, an attribute; empty where there is one thing",
    "attribute": "name of the attribute or scale that was asked about; empty where the position says it",
    "question": "the attribute's sentence that was asked about; empty where it is not known",
    "answer": "one of the words of the task; empty where raters were asked and nobody has answered yet",
    "rater": "a name for each person; “automatic” for a classifier",
    "sample": "how the pictures were drawn from the run, in words; empty if the task was not made to correct it",
    "stratified_by": "the attribute by whose reading the pictures were drawn; empty if at random",
}
"""Columns of a frame of answers, one row an answer. All are texts; a file needs ``image_id`` and ``answer``."""
_OF_FILES = ("image_id", "position", "answer", "rater")
_DATA = ("image_id", "image")  # where a task of Label Studio names its picture


def frame_of(rows: Iterable[Mapping[str, str]], places: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a frame of answers; columns that rows leave out are empty. ``places`` say where each row stands."""
    frame = pd.DataFrame(list(rows), index=None if places is None else list(places), columns=[*COLUMNS], dtype=object)
    return frame.fillna("")


def read_answers(path: str) -> pd.DataFrame:
    """Return the answers in a file: a table (:mod:`bias_core.exchange.tables`), or the JSON that Label Studio exports.

    Columns of other names and rows without an answer are passed over; case, blanks and hyphens of positions and answers
    do not matter. The index says where each answer stands. StorageError if the file cannot be read; InvalidInput if it
    lacks a column or has no answer.
    """
    name = Path(path).name
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read people's answers {path}: {error}") from error
    tasks = _label_studio(data)
    rows = read_table(name, data, needs=[["image_id"], ["answer"]], further=_OF_FILES) if tasks is None else tasks
    cells = [{key: str(row.get(key) or "").strip() for key in _OF_FILES} for _, row in rows]
    answers = frame_of(cells, [place for place, _ in rows]).assign(task=name)
    for column in ("position", "answer"):
        answers[column] = answers[column].str.lower().str.replace(r"[\s-]+", "_", regex=True)
    if (answers := answers[answers["answer"] != ""]).empty:
        raise InvalidInput(f"{name} has no answer at all")
    return answers


def _label_studio(data: bytes) -> list[tuple[str, dict[str, str]]] | None:
    """The answers in an export of Label Studio, with the place of each; None if the file is something else."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return None
    try:
        tasks = json.loads(data)
    except ValueError:  # which the reader of tables explains
        return None
    if not all(isinstance(task, dict) and isinstance(task.get("annotations"), list) for task in tasks) or not tasks:
        return None
    return [(f"task {i}", row) for i, task in enumerate(tasks, start=1) for row in _studio_answers(task)]


def _studio_answers(task: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The choices of everybody about one picture; none where the right answer is known, which checks attention."""
    annotations = [one for one in task["annotations"] if isinstance(one, Mapping) and not one.get("was_cancelled")]
    if any(one.get("ground_truth") for one in annotations):
        return
    data = task.get("data")
    picture = next((str(data[key]) for key in _DATA if data.get(key)), "") if isinstance(data, Mapping) else ""
    if not picture:
        raise InvalidInput(f"a task of Label Studio names no image_id; got {quoted(data)}")
    for number, annotation in enumerate(annotations, start=1):
        for result in annotation.get("result") or ():
            if not isinstance(result, Mapping) or not (choices := (result.get("value") or {}).get("choices")):
                continue
            texts = (result.get("meta") or {}).get("text") or [annotation.get("completed_by") or number]
            rater = texts[0].get("email") or texts[0].get("id") if isinstance(texts[0], Mapping) else texts[0]
            row = {"image_id": Path(picture).stem, "position": result.get("from_name", ""), "answer": choices[0]}
            yield {**row, "rater": str(rater)}
