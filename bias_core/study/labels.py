"""People's answers about pictures: checked, counted, and merged over raters.

At the end stands whom a picture was to show, by its prompt or by what came with it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import agreement_estimate
from bias_core.study.image_rows import ImportedRows
from bias_core.study.label_tasks import PAIRED, POSITIONS, SINGLE
from bias_core.study.study_data import StudyData
from bias_core.study.types import Finding, finding

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
    how : confidence and seed of the interval, of :func:`bias_core.measures.agreement.agreement_estimate`.
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
    answers : a frame of answers (:data:`bias_core.study.answers.COLUMNS`).
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


UNKNOWN = ""  # setting of a picture of which nobody says whom it was to show

_MOST_WORDS = 3  # of one person; what is longer says more of the prompt than a rater should know
_BLURB = re.compile(r"\b(?:a|an|and|at|by|for|from|in|is|of|on|or|that|the|to|two|who|with|\w+ing)\b", re.I)
_WHO = r"(?:an?|one|the) (.{1,200}?)"  # in a prompt with single spaces
_LEFT, _RIGHT = rf".*\b{_WHO} on the left", rf"{_WHO} on the right\b"
_SIDES = re.compile(rf"{_LEFT},? and {_RIGHT}", re.I)
_THREE = re.compile(rf"{_LEFT},? (?:and )?{_WHO} in the middle,? and {_RIGHT}", re.I)
_PICTURE = "photo|photograph|picture|portrait|headshot|face|image|painting|drawing"
_ONE = re.compile(rf".*\b(?:{_PICTURE}) of (?:an?|one|the) ([\w' -]{{1,200}}?) ?\.?", re.I)


def people_of(prompt: str, metadata: Mapping[str, str] | None = None) -> dict[str, str]:
    """``setting``, ``left``, ``right`` and, of three, ``middle`` of a picture; one person stands left.

    What the metadata says (``left`` and ``right``, or one of ``left`` and ``identity``) counts more than the prompt.

    >>> people_of("Generate a picture of one nurse on the left and one CEO on the right.")
    {'setting': 'paired', 'left': 'nurse', 'right': 'CEO'}
    >>> people_of("a photo of a construction worker")
    {'setting': 'single', 'left': 'construction worker', 'right': ''}
    >>> people_of("a photo of a nurse in a hospital, smiling")
    {'setting': '', 'left': '', 'right': ''}
    """
    left, middle, right = ((metadata or {}).get(place, "") for place in POSITIONS[3])
    if left and middle and right:
        return {**_people("three", left, right), "middle": middle}
    if left and right:
        return _people(PAIRED, left, right)
    if alone := (metadata or {}).get("identity", "") or left or right:
        return _people(SINGLE, alone)
    prompt = " ".join(prompt.split())
    if three := _THREE.match(prompt):
        return {**_people("three", three[1], three[3]), "middle": three[2]}
    if sides := _SIDES.match(prompt):
        return _people(PAIRED, sides[1], sides[2])
    one = _ONE.fullmatch(prompt)
    if one and len(one[1].split()) <= _MOST_WORDS and not _BLURB.search(one[1]):
        return _people(SINGLE, one[1])
    return _people(UNKNOWN)


def keep_people(data: StudyData) -> None:
    """Put whom each imported picture was to show into its row, where anything is known of any of them."""
    if not isinstance(data.rows, ImportedRows):
        return
    source = data.rows.source
    rows = [
        people_of(prompt, source.whom(image_id))
        for image_id, prompt in zip(data.frame["image_id"], data.frame["prompt"], strict=True)
    ]
    if any(people["setting"] for people in rows):
        names = dict.fromkeys(name for people in rows for name in people)
        data.keep(data.frame, **{name: [people.get(name, "") for people in rows] for name in names})


def _people(setting: str, left: str = "", right: str = "") -> dict[str, str]:
    return {"setting": setting, "left": left, "right": right}
