"""Who raters are: their ids at a crowd platform, and what they say of themselves.

Both stand in tables of their own, apart from the answers, are in no export of answers, and go when a rater deletes
their answers. Ids are for the task's owner alone, who pays by them; of what raters say of themselves only groups are
told, see :mod:`bias_core.labels.groups`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import pandas as pd
from sqlalchemy import Connection, insert, select

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.schema import Row, crowd_ids, rater_facts, raters
from bias_core.annotation.task_owner import OwnerKey, owned_row
from bias_core.annotation.tasks import Task
from bias_core.errors import InvalidInput, quoted

NOT_SAID = -1
"""Place of "prefer not to say", which every question about the rater has."""
_ID = re.compile(r"[A-Za-z0-9_-]{0,64}")


@dataclass(frozen=True, kw_only=True)
class CrowdIds:
    """What a crowd platform writes into its link about one rater (Prolific: PROLIFIC_PID, STUDY_ID, SESSION_ID)."""

    participant: str
    study: str = ""
    session: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            if not (isinstance(value := getattr(self, one.name), str) and _ID.fullmatch(value)):
                raise InvalidInput(
                    f"the {one.name} of a crowd platform is up to 64 letters and digits; got {quoted(value)}"
                )
        if not self.participant:
            raise InvalidInput("a rater from a crowd platform has a participant's id; the link gives none")


def keep_ids(connection: Connection, rater_id: int, ids: CrowdIds) -> None:
    """Keep a new rater's ids."""
    connection.execute(insert(crowd_ids).values(rater_id=rater_id, **vars(ids)))


def ids_frame(store: LabelStore, key: OwnerKey) -> pd.DataFrame:
    """A row for each rater who came from a crowd platform, for the owner; NotAllowed where the key opens no task."""
    columns = (raters.c.name, crowd_ids.c.participant, crowd_ids.c.study, crowd_ids.c.session)
    with store.read() as connection:
        of_task = raters.c.task_id == owned_row(connection, key).id
        joined = select(*columns).join(raters, raters.c.id == crowd_ids.c.rater_id).where(of_task)
        rows = [tuple(row) for row in connection.execute(joined.order_by(raters.c.id))]
    return pd.DataFrame(rows, columns=["rater", "PROLIFIC_PID", "STUDY_ID", "SESSION_ID"])


def has_facts(connection: Connection, rater_id: int) -> bool:
    """Whether this rater was asked about themselves."""
    return connection.scalar(select(rater_facts.c.rater_id).where(rater_facts.c.rater_id == rater_id)) is not None


def keep_facts(store: LabelStore, connection: Connection, rater: Row, task: Task, choices: Sequence[int]) -> None:
    """Keep what a rater says of themselves, once: each answer's place in its question, or :data:`NOT_SAID`."""
    if len(choices) != len(task.about_rater):
        raise InvalidInput(
            f"this task asks {len(task.about_rater)} questions about the rater; got {len(choices)} answers"
        )
    facts = {}
    for (question, answers), place in zip(task.about_rater.items(), choices, strict=True):
        if not NOT_SAID <= place < len(answers):
            raise InvalidInput(f"{quoted(question)} has answers 0 to {len(answers) - 1}, or {NOT_SAID}; got {place}")
        if place != NOT_SAID:
            facts[question] = answers[place]
    if not has_facts(connection, rater.id):
        connection.execute(insert(rater_facts).values(rater_id=rater.id, facts=facts, at_ms=store.now_ms))


def facts_of_raters(store: LabelStore, key: OwnerKey) -> dict[str, Mapping[str, str]]:
    """What each rater who counts says of themselves, by random name, for a report that tells of groups alone."""
    with store.read() as connection:
        counted = (raters.c.task_id == owned_row(connection, key).id) & raters.c.excluded_ms.is_(None)
        joined = select(raters.c.name, rater_facts.c.facts).join(raters, raters.c.id == rater_facts.c.rater_id)
        return {row.name: row.facts for row in connection.execute(joined.where(counted).order_by(raters.c.id))}
