"""People's answers as a frame: read from a file, checked, counted, merged over raters. Corrections take this frame.

:func:`bias_core.labels.answers.task_answers` puts the answers of a labelling task into the same columns.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.study.answer_files import LOOK, match_answers, read_answer_file

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


def frame_of(rows: Iterable[Mapping[str, str]], places: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a frame of answers; missing columns are empty. ``places`` name the line or task of each row."""
    frame = pd.DataFrame(list(rows), index=None if places is None else list(places), columns=[*COLUMNS], dtype=object)
    return frame.fillna("")


def read_answers(path: str) -> pd.DataFrame:
    """Return the answers in a file that may count (:mod:`bias_core.study.answer_files`).

    Case, blanks and hyphens of positions and answers are ignored. The index names the line or task of each answer;
    ``attrs["look"]`` is an :class:`bias_core.study.answer_files.AnswerLook`. StorageError if the file cannot be read;
    InvalidInput if it lacks a column or has no answer.
    """
    file = Path(path).expanduser()
    read, look = read_answer_file(file)
    may_count = [answer for answer in read if not answer.passed_over]
    if not may_count:
        raise InvalidInput(" ".join([f"{file.name} has no answers.", *([*look.lines()][2:] if look.n else [])]))
    cells = [
        {"image_id": answer.picture, "position": answer.position, "answer": answer.answer, "rater": answer.rater}
        for answer in may_count
    ]
    answers = frame_of(cells, [answer.place for answer in may_count]).assign(task=file.name)
    for column in ("position", "answer"):
        answers[column] = answers[column].str.lower().str.replace(r"[\s-]+", "_", regex=True)
    answers.attrs[LOOK] = look
    return answers


def check_words(answers: pd.DataFrame, allowed: Collection[str]) -> None:
    """Raise InvalidInput that names all answers that are not allowed."""
    strange = answers.loc[~answers["answer"].isin(list(allowed)), "answer"]
    if len(strange):
        named = ", ".join(f"{word!r} ({n:,})" for word, n in Counter(strange).most_common(5))
        raise InvalidInput(
            f"answers in {_origin(answers)} are one of {', '.join(allowed)}; got {named}, the first in "
            f"{strange.index[0]}. Nothing was scored"
        )


def check_answers_fit(answers: pd.DataFrame, image_ids: Collection[str]) -> None:
    """Raise InvalidInput if no answer is about one of these pictures."""
    answers = match_answers(answers, image_ids)
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
    if len(nowhere) and any(positions.values()):
        strange = ", ".join(f"{position!r} ({n:,})" for position, n in Counter(nowhere["position"]).most_common(5))
        usual = ", ".join(dict.fromkeys(place for places in positions.values() for place in places))
        raise InvalidInput(
            f"positions in {name} are {usual}; got {strange}, the first in {nowhere.index[0]}. Nothing was scored"
        )
    why = f"because they {' or '.join(reasons)}"
    if not counted.any():
        raise InvalidInput(f"none of the {len(answers):,} answers in {name} counts{f', {why}' if reasons else ''}")
    people = answers[counted & by_people]
    n_people, n_pictures = people["rater"].nunique(), people["image_id"].nunique()
    says = (
        f"{len(people):,} of {int(by_people.sum()):,} answers in {name} counted, of {n_people:,} "
        f"{'person' if n_people == 1 else 'people'} about {n_pictures:,} pictures."
    )
    n_over = len(elsewhere)
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
