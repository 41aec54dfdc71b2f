"""What judges (machines) say of a task's items; kept apart from people's answers, so that it changes none of theirs."""

from collections.abc import Mapping

import pandas as pd
from sqlalchemy import delete, insert, select

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.schema import items, judgements
from bias_core.annotation.task_owner import OwnerKey, iso, owned_row, stored_task
from bias_core.annotation.tasks import checked_choices

MACHINE = "judge: "  # how the name of a rater begins who is no person


def keep_judgements(store: LabelStore, key: OwnerKey, judge: str, choices: Mapping[int, Mapping[str, str]]) -> None:
    """Keep what a judge says, by the item's id, in place of what it said before.

    NotAllowed where the key opens no task; InvalidInput for an answer that is none of the task's, or an item that is
    not in it.
    """
    with store.write() as connection:
        row = owned_row(connection, key, change=True)
        task = stored_task(store, row)
        ids = set(connection.scalars(select(items.c.id).where(items.c.task_id == row.id)))
        values = [
            {"item_id": item, "judge": judge, "choices": checked_choices(task, given), "at_ms": store.now_ms}
            for item, given in choices.items()
            if item in ids
        ]
        old = judgements.c.item_id.in_(ids), judgements.c.judge == judge
        connection.execute(delete(judgements).where(*old))
        if values:
            connection.execute(insert(judgements), values)


def judgements_frame(store: LabelStore, key: OwnerKey) -> pd.DataFrame:
    """A row per judge, item and position, as people's answers have them; the rater is "judge: " and its name."""
    with store.read() as connection:
        columns = (judgements, items.c.image_id, items.c.identities)
        of_task = items.c.task_id == owned_row(connection, key).id
        joined = select(*columns).join(items, items.c.id == judgements.c.item_id).where(of_task)
        rows = connection.execute(joined.order_by(judgements.c.judge, judgements.c.item_id)).all()
    given = (
        (row.image_id, position, row.identities.get(position, ""), answer, f"{MACHINE}{row.judge}", iso(row.at_ms))
        for row in rows
        for position, answer in row.choices.items()
    )
    return pd.DataFrame(given, columns=["image_id", "position", "identity", "answer", "rater", "at"])
