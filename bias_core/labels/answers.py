"""What raters say of the pictures of a task, picture by picture and answer by answer, as a report shows it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from bias_core.annotation.collected import LabelledItem
from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.task_owner import picture_path
from bias_core.annotation.tasks import PICTURE, Task
from bias_core.stats.effects import wilson_interval
from bias_core.studies.kit.types import StudyFigure, figure, mark
from bias_core.types import ImageRow, StoredImage

PEOPLE_SAY = "people say"  # the column with what most raters say
_TWO = 2  # people in a picture
_TIE, _NO_ANSWER = "no majority", "no answer yet"


def pictures_frame(people: pd.DataFrame, task: Task) -> pd.DataFrame:
    """A row for each picture: what most raters say of it, in each position and in all, and how many answered."""
    rows: dict[str, dict[str, Any]] = {}
    for one in people.itertuples(index=False):
        usual = {"image_id": one.image_id, "group": "", "prompt": str(one.identity), "seed": 0}
        row = rows.setdefault(str(one.image_id), {**usual, PEOPLE_SAY: "", "raters": one.raters})
        label = str(one.label) or (_TIE if one.raters else _NO_ANSWER)
        place = "" if one.position == PICTURE or len(task.positions) == 1 else f"{one.position}: "
        if not row[PEOPLE_SAY] or len(task.positions) == _TWO:  # of many questions the first tells pictures apart
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
        shares = {key: wilson_interval(int((labels == key).sum()), len(labels)) for key in given if len(labels)}
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
