"""People's answers as a frame: read from a file, checked, counted, merged over raters. Corrections take this frame.

:func:`bias_core.labels.answers.task_answers` puts the answers of a labelling task into the same columns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.tables import read_table_file
from bias_core.values import read_json

COLUMNS = {
    "task": "source of the answer: the title of a labelling task, or the name of a file",
    "image_id": "the picture in the run",
    "position": "person or attribute that the answer is about, such as left; empty if there is only one",
    "attribute": "name of the attribute or scale in the question; empty if the position says it",
    "question": "sentence of the attribute in the question; empty if unknown",
    "answer": "one of the answers of the task; empty if no rater has answered yet",
    "rater": "a name for each person; “automatic” for a classifier",
    "sample": "sampling of the pictures from the run, in words; empty if the task does not correct the run",
    "stratified_by": "attribute that the sampling was stratified by; empty for a random sample",
}
"""Columns of a frame of answers, one row per answer, all texts; a file needs ``image_id`` and ``answer``."""
AUTOMATIC = "automatic"
"""Rater of a classifier's answers."""
_OF_FILES = ("image_id", "position", "answer", "rater")
_FIRST_BYTES, _MOST_BYTES = 64, 64_000_000  # read from an export of Label Studio


def frame_of(rows: Iterable[Mapping[str, str]], places: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a frame of answers; missing columns are empty. ``places`` name the line or task of each row."""
    frame = pd.DataFrame(list(rows), index=None if places is None else list(places), columns=[*COLUMNS], dtype=object)
    return frame.fillna("")


def read_answers(path: str) -> pd.DataFrame:
    """Return the answers in a file: a table (:mod:`bias_core.store.tables`), or the JSON that Label Studio exports.

    Other columns and rows without an answer are ignored, as are case, blanks and hyphens of positions and answers.
    The index names the line or task of each answer. StorageError if the file cannot be read; InvalidInput if it
    lacks a column or has no answer.
    """
    file = Path(path).expanduser()
    try:
        rows = _label_studio(file)
        if rows is None:
            needs = [["image_id"], ["answer"]]
            rows = list(read_table_file(file.name, lambda: file.open("rb"), needs=needs, further=_OF_FILES))
    except OSError as error:
        raise StorageError(f"cannot read people's answers {path}: {error}") from error
    cells = [{key: str(row.get(key) or "").strip() for key in _OF_FILES} for _, row in rows]
    answers = frame_of(cells, [place for place, _ in rows]).assign(task=file.name)
    for column in ("position", "answer"):
        answers[column] = answers[column].str.lower().str.replace(r"[\s-]+", "_", regex=True)
    if (answers := answers[answers["answer"] != ""]).empty:
        raise InvalidInput(f"{file.name} has no answers")
    return answers


def _label_studio(file: Path) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the answers in an export of Label Studio, each with its task; None for another kind of file."""
    with file.open("rb") as opened:
        data = opened.read(_FIRST_BYTES)
        if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return None
        data += opened.read(_MOST_BYTES)
    try:
        tasks = read_json(data)
    except ValueError:  # :func:`read_table_file` explains it
        return None
    if not (isinstance(tasks, list) and tasks and all(isinstance(one, dict) and "annotations" in one for one in tasks)):
        return None
    try:
        return [(f"task {i}", row) for i, task in enumerate(tasks, start=1) for row in _studio_answers(task)]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file.name} has another form than the JSON that Label Studio exports") from error


def _studio_answers(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all answers about one picture; none for attention checks, whose right answer is known."""
    given = [answer for answer in task["annotations"] if not answer.get("was_cancelled")]
    if any(answer.get("ground_truth") for answer in given):
        return
    data = task["data"]
    picture = data.get("image_id") or Path(data["image"]).stem
    for number, annotation in enumerate(given, start=1):
        for result in annotation["result"]:
            if choices := result["value"].get("choices"):
                raters = result.get("meta", {}).get("text") or [annotation.get("completed_by", number)]
                rater = raters[0]["email"] if isinstance(raters[0], dict) else raters[0]
                yield {"image_id": picture, "position": result["from_name"], "answer": choices[0], "rater": rater}


def check_words(answers: pd.DataFrame, allowed: Collection[str]) -> None:
    """Raise InvalidInput that quotes the first answer that is not allowed."""
    strange = answers.loc[~answers["answer"].isin(list(allowed)), "answer"]
    if len(strange):
        where = f"{strange.iloc[0]!r} in {strange.index[0]}"
        raise InvalidInput(f"answers in {_origin(answers)} are one of {', '.join(allowed)}; got {where}")


def check_answers_fit(answers: pd.DataFrame, image_ids: Collection[str]) -> None:
    """Raise InvalidInput if no answer is about one of these pictures."""
    answers_counted(answers, answers["image_id"].isin(list(image_ids)), dict.fromkeys(image_ids, ()))


def answers_counted(answers: pd.DataFrame, counted: "pd.Series[bool]", positions: Mapping[str, Sequence[str]]) -> str:
    """Return a sentence: how many answers of people count, from how many people, and why others do not.

    InvalidInput with the same reasons if none counts.

    Parameters
    ----------
    answers : a frame of answers (:data:`bias_core.study.answers.COLUMNS`).
    counted : True for each answer that counts.
    positions : positions of each picture that answers may be about, by its id.
    """
    name, by_people = _origin(answers), answers["rater"] != AUTOMATIC
    there = answers["image_id"].isin(list(positions))
    elsewhere, nowhere = answers[~there], answers[there & ~counted]
    reasons = []
    if len(elsewhere):
        first = repr(elsewhere["image_id"].iloc[0])
        reasons.append(f"are about pictures that this run does not score ({len(elsewhere):,}, the first {first})")
    if len(nowhere):
        one = nowhere.iloc[0]
        first = f"{one['position']!r} where there is {' and '.join(positions[one['image_id']])}"
        reasons.append(f"name positions that their pictures do not have ({len(nowhere):,}, the first {first})")
    why = f"because they {' or '.join(reasons)}"
    if not counted.any():
        raise InvalidInput(f"none of the {len(answers):,} answers in {name} counts{f', {why}' if reasons else ''}")
    people = answers[counted & by_people]
    n_people, n_pictures = people["rater"].nunique(), people["image_id"].nunique()
    says = (
        f"{len(people):,} of {int(by_people.sum()):,} answers in {name} counted, of {n_people:,} "
        f"{'person' if n_people == 1 else 'people'} about {n_pictures:,} pictures."
    )
    n_over = len(elsewhere) + len(nowhere)
    over = f"{n_over:,} answer{' was' if n_over == 1 else 's were'} ignored, {why}."
    return f"{says} {over}" if n_over else says


def _origin(answers: pd.DataFrame) -> str:
    """Return the name of the file or of the tasks of the answers."""
    return ", ".join(answers["task"].unique())


def majority(answers: pd.DataFrame) -> "pd.Series[str]":
    """Return the answer with the most votes of each picture, by ``image_id``; "" for a tie.

    InvalidInput if a rater answered twice for a picture.

    >>> votes = pd.DataFrame({"image_id": list("aaabb"), "rater": list("12312"), "answer": list("xxyxy")})
    >>> majority(votes).to_dict()
    {'a': 'x', 'b': ''}
    """
    twice = answers.duplicated(["image_id", "rater"])
    if twice.any():
        first = answers.loc[twice, ["image_id", "rater"]].iloc[0].to_dict()
        raise InvalidInput(f"{int(twice.sum())} answers repeat a rater's answer; the first is {first}")
    votes = answers.groupby(["image_id", "answer"], sort=False).size().unstack(fill_value=0)
    tie = votes.eq(votes.max(axis=1), axis=0).sum(axis=1) > 1
    merged: pd.Series[str] = votes.idxmax(axis=1).mask(tie, "")
    return merged
