"""People's answers as a frame: read from a file, checked, counted, merged over raters. Corrections take this frame.

:func:`bias_core.labels.results.task_answers` puts the answers of a labelling task into the same columns.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.study.answer_files import LOOK, NO_RATER, AnswerLook, clean_word, count_raters, read_answer_file

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
MACHINE = "judge: "
"""Start of the name of every other rater that is a machine."""


def make_answer_frame(rows: Iterable[Mapping[str, str]], places: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a frame of answers; missing columns are empty. ``places`` name the line or task of each row."""
    frame = pd.DataFrame(list(rows), index=None if places is None else list(places), columns=[*COLUMNS], dtype=object)
    return frame.fillna("")


def read_answers(path: str) -> pd.DataFrame:
    """Return the answers in a file that may count (:mod:`bias_core.study.answer_files`).

    Case, blanks and hyphens of positions and answers are ignored. The index names the line or task of each answer;
    ``attrs["look"]`` is an :class:`bias_core.study.answer_files.AnswerLook`. StorageError if the file cannot be read;
    InvalidInput if it lacks a column or has no answer.
    """
    look = read_answer_file(Path(path).expanduser())
    if not look.counted:
        raise InvalidInput(" ".join([f"{look.name} has no answers.", *look.without_effect()]))
    return frame_of_look(look)


def frame_of_look(look: AnswerLook) -> pd.DataFrame:
    """Return the answers that count as a frame, with the look as ``attrs["look"]``."""
    cells = [
        {
            "task": look.name, "image_id": answer.image_id or answer.picture, "position": clean_word(answer.position),
            "answer": clean_word(answer.answer), "rater": answer.rater,
        }
        for answer in look.counted
    ]  # fmt: skip
    answers = make_answer_frame(cells, [answer.place for answer in look.counted])
    answers.attrs = {LOOK: look}
    return answers


def count_answers(answers: pd.DataFrame) -> str:
    """Return a sentence on how many answers of people there are, from how many people about how many pictures."""
    people = answers[answers["rater"] != AUTOMATIC]
    n_people, n_pictures = count_raters(people["rater"]), people["image_id"].nunique()
    whose = f"of {n_people:,} {'person' if n_people == 1 else 'people'}" if n_people else f"{NO_RATER},"
    names = ", ".join(answers["task"].unique())
    return f"{len(people):,} answers in {names} count, {whose} about {n_pictures:,} pictures."


def majority(answers: pd.DataFrame) -> "pd.Series[str]":
    """Return the answer with the most votes of each picture, by ``image_id``; "" for a tie.

    >>> votes = pd.DataFrame({"image_id": list("aaabb"), "rater": list("12312"), "answer": list("xxyxy")})
    >>> majority(votes).to_dict()
    {'a': 'x', 'b': ''}
    """
    votes = answers.groupby(["image_id", "answer"], sort=False).size().unstack(fill_value=0)
    tie = votes.eq(votes.max(axis=1), axis=0).sum(axis=1) > 1
    merged: pd.Series[str] = votes.idxmax(axis=1).mask(tie, "")
    return merged
