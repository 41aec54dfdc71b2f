"""What raters say of the pictures of a task, picture by picture and answer by answer, as a report shows it."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from bias_core.labels.collected import LabelledItem
from bias_core.labels.label_store import LabelStore
from bias_core.labels.task_owner import picture_path
from bias_core.measures.agreement import disagreements
from bias_core.measures.paired_stereotype import ANDROGYNOUS, GENDERS, UNCLEAR, UNTOLD
from bias_core.measures.sequential import share_interval
from bias_core.study.label_tasks import PICTURE, Task
from bias_core.study.types import StudyFigure, StudyTable, columns, figure, mark, table
from bias_core.types import ImageRow, StoredImage

PEOPLE_SAY = "people say"  # the column with what most raters say
_TWO = 2  # people in a picture
_BETWEEN_NOTE = (
    "Of all that raters disagree about, how much is between these two answers to the same picture; by chance: the same "
    "if answers went to pictures at random. Above it, the two are taken for each other."
)
_TIE, _NO_ANSWER = "no majority", "no answer yet"


def untold_among(answers: Collection[str]) -> str:
    """The answer, of those offered, for people of whom nobody can say how they look; "" where there is none.

    >>> untold_among(("feminine", "cannot_identify")), untold_among(("yes", "no"))
    ('cannot_identify', '')
    """
    return next((key for key in UNTOLD if key in answers), "")


def pictures_frame(people: pd.DataFrame, task: Task) -> pd.DataFrame:
    """A row for each picture: what most raters say of it, in each position and in all, and how many answered."""
    rows: dict[str, dict[str, Any]] = {}
    for one in people.itertuples(index=False):
        usual = {"image_id": one.image_id, "group": "", "prompt": str(one.identity), "seed": 0}
        row = rows.setdefault(str(one.image_id), {**usual, PEOPLE_SAY: "", "raters": one.raters})
        label = str(one.label) or (_TIE if one.raters else _NO_ANSWER)
        place = "" if one.position == PICTURE or len(task.positions) == 1 else f"{one.position}: "
        # Of many questions the first tells pictures apart.
        if not row[PEOPLE_SAY] or len(task.positions) == _TWO:
            row[PEOPLE_SAY] = ", ".join(filter(None, [row[PEOPLE_SAY], place + label]))
        if place:
            row[f"{place}people say"] = label
        row[f"{place}answers"] = one.answers
    return pd.DataFrame(list(rows.values()))


def answers_figure(people: pd.DataFrame, task: Task) -> StudyFigure:
    """The share of pictures that most raters call so, of each answer that a picture has."""
    rows: list[dict[str, Any]] = []
    given = [key for key in task.answer_keys if (people["label"] == key).any()]
    for position in task.positions:
        labels = people.loc[(people["position"] == position) & (people["label"] != ""), "label"]
        where = {"group": position} if len(task.positions) > 1 else {}
        shares = {key: share_interval(int((labels == key).sum()), len(labels)) for key in given if len(labels)}
        rows += [mark(key, share, **where) for key, share in shares.items()]
    facts: dict[str, Any] = {"caption": "Of the pictures that have a majority.", "x": "share of the labelled pictures"}
    return figure("pairs" if len(task.positions) > 1 else "intervals", "answers", "What most raters say", rows, **facts)


def stored_pictures(store: LabelStore, labelled: Sequence[LabelledItem]) -> dict[str, StoredImage]:
    """The pictures that raters see, by the ids of their originals."""
    return {
        one.item.image_id: StoredImage(
            row=ImageRow(prompt=next(iter(one.item.identities.values()), ""), seed=0, model=""),
            path=picture_path(store.pictures, one.item.picture),
        )
        for one in labelled
        if one.item.gold is None
    }


def votes_of(answers: pd.DataFrame) -> "pd.Series[Any]":
    """Everybody's answers by picture and position."""
    votes: pd.Series[Any] = answers.groupby(["image_id", "position"], sort=False)["answer"].agg(list)
    return votes


def answers_between(votes: "pd.Series[Any]") -> StudyTable:
    """Which two answers raters give to the same picture; nothing where there are but two answers, or one rater.

    ``votes``: everybody's answers, a list for each picture and position.
    """
    several = votes[votes.map(len) >= 2]
    rows: list[dict[str, Any]] = []
    if len(several) >= 2 and votes.explode().nunique() > 2:
        groups = several.index.get_level_values("image_id")
        for one in disagreements(pd.DataFrame(several.tolist()), groups=groups):
            row = {"one answer": one.answers[0], "other answer": one.answers[1]}
            rows.append(row | columns("share of disagreement", one.share) | {"by chance": one.by_chance})
    return table("between", "What raters disagree about", rows, _BETWEEN_NOTE)


def votes_in_two(votes: "pd.Series[Any]") -> "pd.Series[Any]":
    """Of answers in four, lists as above, those that say feminine or masculine, where two raters say so; else empty."""
    if not votes.explode().isin((ANDROGYNOUS, UNCLEAR)).any():
        return votes.iloc[:0]
    in_two = votes.map(lambda given: [answer for answer in given if answer in GENDERS])
    return in_two[in_two.map(len) >= 2]
