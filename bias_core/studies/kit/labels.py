"""People's answers about pictures: checked, counted, and merged over raters."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.agreement import agreement_estimate
from bias_core.studies.kit.types import Finding, finding

AUTOMATIC = "automatic"
"""As a rater: a reader's answer and no person's."""
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


def check_words(answers: pd.DataFrame, allowed: Collection[str]) -> None:
    """Raise InvalidInput that quotes an answer that is none of the words."""
    strange = answers.loc[~answers["answer"].isin(list(allowed)), "answer"]
    if len(strange):
        where = f"{strange.iloc[0]!r} in {strange.index[0]}"
        raise InvalidInput(f"answers in {_origin(answers)} are one of {', '.join(allowed)}; got {where}")


def check_answers_fit(answers: pd.DataFrame, image_ids: Collection[str]) -> None:
    """Raise InvalidInput if no answer is about one of these pictures."""
    answers_counted(answers, answers["image_id"].isin(list(image_ids)), dict.fromkeys(image_ids, ()))


def answers_counted(answers: pd.DataFrame, counted: "pd.Series[bool]", positions: Mapping[str, Sequence[str]]) -> str:
    """Say how many of the answers of people counted, who gave them, and why others were passed over.

    InvalidInput with the same reasons if none counted.

    Parameters
    ----------
    answers : a frame of answers (:data:`bias_core.annotation.answers.COLUMNS`).
    counted : for each answer.
    positions : of each picture that answers may be about, by its id.
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
    over = f"{n_over:,} answer{' was' if n_over == 1 else 's were'} passed over, {why}."
    return f"{says} {over}" if n_over else says


def _origin(answers: pd.DataFrame) -> str:
    """The name of the file or of the tasks that the answers come from."""
    return ", ".join(answers["task"].unique())


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
