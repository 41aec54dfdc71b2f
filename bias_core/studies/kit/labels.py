"""People's answers about pictures, from a CSV: checked at the door, and merged over raters."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput, StorageError
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
    path : a CSV with a header. ``position`` may be missing where pictures show one thing, ``rater`` where there is one.
        Other columns are passed over, and so are rows without an answer.
    allowed : the words that an answer may be; case, blanks and hyphens do not matter.
    """
    table = _read(path)
    answers = pd.DataFrame({name: table[name].str.strip() if name in table else "" for name in COLUMNS})
    for name in ("position", "answer"):
        answers[name] = answers[name].str.lower().str.replace(r"[\s-]+", "_", regex=True)
    answers = answers[answers["answer"] != ""].reset_index(drop=True)
    strange = answers.loc[~answers["answer"].isin(list(allowed)), "answer"]
    if answers.empty or len(strange):
        example = repr(strange.iloc[0]) if len(strange) else "no answer at all"
        raise InvalidInput(f"answers in {path} are one of {', '.join(allowed)}; got {example}")
    return answers


def check_answers_fit(path: str, image_ids: Collection[str]) -> None:
    """Raise InvalidInput where no answer is about one of these pictures; StorageError where there is no such file."""
    about = _read(path)["image_id"].str.strip()
    if not about.isin(list(image_ids)).any():
        first = f"; the first is about {about.iloc[0]!r}" if len(about) else ""
        raise InvalidInput(f"none of the {len(about):,} answers in {path} is about a picture of this run{first}")


def answers_counted(path: str, counted: pd.DataFrame) -> str:
    """How many of the answers of people in the file counted, and of whom and what they are, in a sentence."""
    table = _read(path)
    n = int(((table["answer"].str.strip() != "") & (table.get("rater", "") != AUTOMATIC)).sum())
    by_people = counted[counted["rater"] != AUTOMATIC]
    n_people, n_pictures = by_people["rater"].nunique(), by_people["image_id"].nunique()
    return (
        f"{len(by_people):,} of {n:,} answers in {Path(path).name} counted, of {n_people:,} "
        f"{'person' if n_people == 1 else 'people'} about {n_pictures:,} pictures."
    )


def _read(path: str) -> pd.DataFrame:
    try:
        table = pd.read_csv(Path(path).expanduser(), dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise StorageError(f"cannot read people's answers {path}: {error}") from error
    table = table.rename(columns=lambda name: str(name).strip().lower())
    if missing := [name for name in ("image_id", "answer") if name not in table]:
        raise InvalidInput(
            f"{path} has no column {' and '.join(missing)}; answers need the columns {', '.join(COLUMNS)}"
        )
    return table


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
