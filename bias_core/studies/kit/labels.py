"""People's answers about pictures, from a table: checked at the door, and merged over raters."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput, StorageError
from bias_core.exchange.tables import read_table
from bias_core.metrics.agreement import agreement_estimate
from bias_core.studies.kit.types import Finding, finding

AUTOMATIC = "automatic"
"""As the rater of a CSV: a reader's answer and no person's."""
COLUMNS = ("image_id", "position", "answer", "rater")
_FEWEST = 2  # labels of both sources


def kappa_finding(
    key: str, title: str, both: pd.DataFrame, image_ids: "pd.Series[Any] | pd.Index[Any]", **how: Any
) -> Finding | None:
    """Cohen's κ between two sources of labels, such as people and a classifier; None for fewer than two labels.

    Every answer counts as one, also that somebody cannot be identified. Raters are merged by majority; a tie is that
    answer where it is offered, and no label elsewhere.

    Parameters
    ----------
    both : labels of the two sources, ``(n, 2)``; "" or missing where a source gave none, which leaves the row out.
    image_ids : the picture of each row; pictures are resampled.
    how : confidence and seed of the interval, of :func:`bias_core.metrics.agreement.agreement_estimate`.
    """
    given = (both.notna() & (both != "")).all(axis=1).to_numpy()
    some = both[given]
    if len(some) < _FEWEST:
        return None
    kappa = agreement_estimate(some, coefficient="cohen_kappa", groups=image_ids[given], **how)
    equal = 100 * float((some.iloc[:, 0] == some.iloc[:, 1]).mean())
    return finding(key, title, "cohen_kappa", kappa, f"{equal:.1f} % of {len(some):,} labels are equal.")


def read_answers(path: str, *, allowed: Collection[str]) -> pd.DataFrame:
    """One row per answer: ``image_id, position, answer, rater``, as text.

    StorageError where the file cannot be read; InvalidInput where it lacks a column, has no answer, or an answer is
    none of the words; the message quotes it.

    Parameters
    ----------
    path : a table (:mod:`bias_core.exchange.tables`). ``position`` may be missing where pictures show one thing,
        ``rater`` where there is one. Other columns are passed over, and so are rows without an answer.
    allowed : the words that an answer may be; case, blanks and hyphens do not matter.
    """
    answers = _read(path)
    for name in ("position", "answer"):
        answers[name] = answers[name].str.lower().str.replace(r"[\s-]+", "_", regex=True)
    answers = answers[answers["answer"] != ""]
    strange = answers.loc[~answers["answer"].isin(list(allowed)), "answer"]
    if answers.empty or len(strange):
        example = f"{strange.iloc[0]!r} in {strange.index[0]}" if len(strange) else "no answer at all"
        raise InvalidInput(f"answers in {Path(path).name} are one of {', '.join(allowed)}; got {example}")
    return answers.reset_index(drop=True)


def check_answers_fit(path: str, image_ids: Collection[str]) -> None:
    """Raise InvalidInput where no answer is about one of these pictures; StorageError where there is no such file."""
    answers = _read(path)
    answers_counted(path, answers, answers["image_id"].isin(list(image_ids)), dict.fromkeys(image_ids, ()))


def answers_counted(
    path: str, answers: pd.DataFrame, counted: "pd.Series[bool]", positions: Mapping[str, Sequence[str]]
) -> str:
    """Say how many of the answers of people in the file counted, who gave them, and why others were passed over.

    InvalidInput with the same reasons where none counted.

    Parameters
    ----------
    answers : of :func:`read_answers`.
    counted : for each answer.
    positions : of each picture that answers may be about, by its id.
    """
    name, by_people = Path(path).name, answers["rater"] != AUTOMATIC
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
    over = f"{n_over:,} answer{' was' if n_over == 1 else 's were'} passed over, {why}."
    return f"{says} {over}" if n_over else says


def _read(path: str) -> pd.DataFrame:
    """The rows of the file by their places, with the columns of COLUMNS as text without blanks at the ends."""
    file = Path(path).expanduser()
    try:
        read = read_table(file.name, lambda: file.open("rb"), needs=[["image_id"], ["answer"]], further=COLUMNS)
        rows = {place: list(map(row.get, COLUMNS)) for place, row in read}
    except OSError as error:
        raise StorageError(f"cannot read people's answers {path}: {error}") from error
    table = pd.DataFrame(list(rows.values()), list(rows), COLUMNS, dtype=object).fillna("")
    return table.map(lambda value: str(value).strip())


def majority(answers: pd.DataFrame) -> "pd.Series[str]":
    """The answer with the most votes of each picture, by ``image_id``; "" where two have equally many.

    InvalidInput where a rater answered twice for a picture.

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
