"""Answers to a task: progress, data frames, export files, and a copy on a hub."""

import json
import threading
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml
from sqlalchemy import Connection, Select, delete, exists, func, insert, select

from bias_core.errors import InvalidInput
from bias_core.labels.label_store import (
    LabelStore,
    Row,
    answers,
    crowd_ids,
    deletions,
    items,
    judgements,
    rater_facts,
    raters,
    tasks,
)
from bias_core.labels.task_owner import OwnerKey, iso, owned_row, stored_task, task_picture_png
from bias_core.store.export import csv_bytes, json_lines, text_from
from bias_core.store.files import replaced_file, write_atomically
from bias_core.study.answers import MACHINE, make_answer_frame
from bias_core.study.label_tasks import Item, Task, checked_choices, task_texts
from bias_core.waiting import handing_over


def keep_judgements(store: LabelStore, key: OwnerKey, judge: str, choices: Mapping[int, Mapping[str, str]]) -> None:
    """Replace a judge's answers by item id; NotAllowed for a wrong key, InvalidInput for an unknown item or answer."""
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
    """Return a row per judge, item and position, with the columns of people's answers; the rater is "judge: NAME"."""
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


def facts_of_raters(store: LabelStore, key: OwnerKey) -> dict[str, Mapping[str, str]]:
    """Answers that counted raters gave about themselves, by random name; reports show groups only."""
    with store.read() as connection:
        counted = (raters.c.task_id == owned_row(connection, key).id) & raters.c.excluded_ms.is_(None)
        joined = select(raters.c.name, rater_facts.c.facts).join(raters, raters.c.id == rater_facts.c.rater_id)
        return {row.name: row.facts for row in connection.execute(joined.where(counted).order_by(raters.c.id))}


COLUMNS = {
    "image_id": "id of the picture in its run or import",
    "position": "the person or thing in the picture that the answer is about",
    "identity": "the person that the prompt asked for there",
    "answer": "the rater's answer; for people, how they look to the rater",
    "rater": "random name of the rater",
    "known": "the known answer of attention checks; empty for other items",
    "task_version": "version of the texts that the rater read",
    "seconds": "time that the rater spent on the picture",
    "at": "when, UTC",
}
_HEAD = {
    "license": "other",
    "license_name": "see-card",
    "language": ["en"],
    "tags": ["text-to-image", "bias", "human-labels", "t2i-bias-explorer"],
    "configs": [{"config_name": "default", "drop_labels": True, "data_dir": "train"}],
}


@dataclass(frozen=True, kw_only=True)
class RaterProgress:
    """One rater, under their random name."""

    rater: str
    # n_answered, n_skipped: that hold now
    n_answered: int
    n_skipped: int
    median_seconds: float  # per picture; nan without answers
    # n_gold, n_gold_right: items with a known answer: answered, and answered so in every position
    n_gold: int
    n_gold_right: int
    excluded: bool = False  # by the owner: none of this rater's answers count


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    task: Task
    join_code: str
    # n_items, n_gold_items: ordinary items, and those with a known answer
    n_items: int
    n_gold_items: int
    n_complete: int  # ordinary items with answers from all the raters asked for
    # n_answers, n_wanted: answers to ordinary items that count, and how many are wanted in all
    n_answers: int
    n_wanted: int
    raters: tuple[RaterProgress, ...]  # all who joined, including excluded ones
    # n_deleted_raters, n_deleted_answers: of raters who deleted theirs
    n_deleted_raters: int
    n_deleted_answers: int
    n_excluded_answers: int = 0  # to ordinary items, by excluded raters

    @property
    def counted_raters(self) -> tuple[RaterProgress, ...]:
        return tuple(rater for rater in self.raters if not rater.excluded)


@dataclass(frozen=True, kw_only=True)
class GivenAnswer:
    """An answer that holds: one rater on one item in ``seconds``, every position of it; ``at`` is ISO 8601, UTC."""

    item: Item
    rater: str
    choices: Mapping[str, str]
    task_version: int
    seconds: float
    at: str


@dataclass(frozen=True, kw_only=True)
class LabelledItem:
    item: Item
    answers: Sequence[GivenAnswer]

    def votes(self, position: str) -> list[str]:
        """All answers for a position."""
        return [answer.choices[position] for answer in self.answers]

    def majority(self, position: str) -> str:
        """The answer with the most votes; "" for a tie or no answer."""
        return winner(Counter(self.votes(position)))

    def share(self, position: str) -> float:
        """Votes of the majority over all votes; nan without votes."""
        votes, label = self.votes(position), self.majority(position)
        return votes.count(label) / len(votes) if label else float("nan")


def winner(votes: Counter[str]) -> str:
    """The answer with the most votes; "" for a tie or no votes."""
    first = votes.most_common(2)
    return "" if not first or (len(first) == 2 and first[0][1] == first[1][1]) else first[0][0]


def task_progress(store: LabelStore, key: OwnerKey) -> TaskProgress:
    with store.read() as connection:
        row = owned_row(connection, key)
        task = stored_task(store, row)
        acts = connection.execute(_acts_that_hold(row.id, "answer", "skip")).all()
        gold = {item.id: item.gold for item in _read_items(connection, row.id)}
        of_task = select(raters.c.name, raters.c.excluded_ms).where(raters.c.task_id == row.id)
        of_raters = connection.execute(of_task).all()
        totals = select(func.count(), func.coalesce(func.sum(deletions.c.n_answers), 0))
        deleted = connection.execute(totals.where(deletions.c.task_id == row.id)).one()
    ordinary = [act for act in acts if act.kind == "answer" and gold[act.item_id] is None]
    per_item = Counter(act.item_id for act in ordinary if act.excluded_ms is None)
    by_rater: dict[str, list[Row]] = {}
    for act in acts:
        by_rater.setdefault(act.name, []).append(act)
    n_gold = sum(value is not None for value in gold.values())
    return TaskProgress(
        task=task,
        join_code=row.join_code,
        n_items=len(gold) - n_gold,
        n_gold_items=n_gold,
        n_complete=sum(n >= task.raters_per_item for n in per_item.values()),
        n_answers=per_item.total(),
        n_wanted=(len(gold) - n_gold) * task.raters_per_item,
        raters=tuple(_rater_progress(rater, by_rater.get(rater.name, ()), gold) for rater in of_raters),
        n_deleted_raters=deleted[0],
        n_deleted_answers=int(deleted[1]),
        n_excluded_answers=len(ordinary) - per_item.total(),
    )


def _rater_progress(rater: Row, acts: Sequence[Row], gold: Mapping[int, Mapping[str, str] | None]) -> RaterProgress:
    given = [act for act in acts if act.kind == "answer"]
    checks = [act for act in given if gold[act.item_id] is not None]
    return RaterProgress(
        rater=rater.name,
        n_answered=len(given),
        n_skipped=len(acts) - len(given),
        median_seconds=median(act.duration_ms for act in given) / 1000 if given else float("nan"),
        n_gold=len(checks),
        n_gold_right=sum(act.choices == gold[act.item_id] for act in checks),
        excluded=rater.excluded_ms is not None,
    )


def given_answers(store: LabelStore, key: OwnerKey, *, excluded: bool = False) -> list[GivenAnswer]:
    """Every answer that counts, gold items included, in the order given; or those of ``excluded`` raters."""
    with store.read() as connection:
        return _read_answers(connection, owned_row(connection, key).id, excluded=excluded)


def _read_answers(connection: Connection, task_id: str, *, excluded: bool = False) -> list[GivenAnswer]:
    is_excluded = raters.c.excluded_ms.is_not(None)
    acts = connection.execute(_acts_that_hold(task_id, "answer").where(is_excluded if excluded else ~is_excluded))
    item_of = {item.id: item for item in _read_items(connection, task_id)}
    return [
        GivenAnswer(
            item=item_of[act.item_id],
            rater=act.name,
            choices=act.choices,
            task_version=act.task_version,
            seconds=act.duration_ms / 1000,
            at=iso(act.at_ms),
        )
        for act in acts
    ]


def task_items(store: LabelStore, key: OwnerKey) -> list[Item]:
    """Every item of the task, answered or not, in order of creation."""
    with store.read() as connection:
        return _read_items(connection, owned_row(connection, key).id)


def _read_items(connection: Connection, task_id: str) -> list[Item]:
    names = ("id", "picture", "image_id", "identities", "gold", "question")
    of_task = select(*(items.c[name] for name in names)).where(items.c.task_id == task_id).order_by(items.c.id)
    return [Item(**row) for row in connection.execute(of_task).mappings()]


def labelled_items(store: LabelStore, key: OwnerKey) -> list[LabelledItem]:
    """Every item of the task with the answers that count."""
    with store.read() as connection:
        return _read_labelled_items(connection, owned_row(connection, key).id)


def _read_labelled_items(connection: Connection, task_id: str) -> list[LabelledItem]:
    return _match_answers(_read_items(connection, task_id), _read_answers(connection, task_id))


def _match_answers(of_task: Sequence[Item], given: Sequence[GivenAnswer]) -> list[LabelledItem]:
    by_item: dict[int, list[GivenAnswer]] = {}
    for answer in given:
        by_item.setdefault(answer.item.id, []).append(answer)
    return [LabelledItem(item=item, answers=by_item.get(item.id, ())) for item in of_task]


def write_answers(store: LabelStore, folder: Path) -> None:
    """Write a JSONL file of current answers for each task, empty without any; leave unchanged files alone."""
    with store.read() as connection:
        texts = {
            task_id: json_lines(
                _answer_line(task_id, given, excluded=excluded)
                for excluded in (False, True)
                for given in _read_answers(connection, task_id, excluded=excluded)
            )
            for task_id in connection.scalars(select(tasks.c.id)).all()
        }
    for task_id, text in texts.items():
        path, data = folder / f"{task_id}.jsonl", text.encode()
        if not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)


def _answer_line(task_id: str, answer: GivenAnswer, *, excluded: bool) -> dict[str, Any]:
    item, answer_facts = answer.item, {name: getattr(answer, name) for name in ("rater", "choices", "seconds", "at")}
    of_item = {"image_id": item.image_id, "identities": item.identities, "known": item.gold}
    return {"task": task_id, "task_version": answer.task_version, **of_item, **answer_facts, "excluded": excluded}


def labels_for_run(store: LabelStore, run_id: str, task_ids: Sequence[str]) -> list[tuple[Task, list[LabelledItem]]]:
    """The tasks that correct this run, with the answers that count; deleted tasks are left out.

    It needs no owner's key, so its results must not name a rater.
    """
    with store.read() as connection:
        rows = connection.execute(select(tasks).where(tasks.c.id.in_(task_ids), tasks.c.status != "deleted")).all()
        found = [stored_task(store, row) for row in rows]
        return [(task, _read_labelled_items(connection, task.id)) for task in found if task.run_id == run_id]


def run_answers(store: LabelStore, run_id: str, task_ids: Sequence[str]) -> pd.DataFrame | None:
    """The answers of all tasks that correct this run, as a frame; None without such a task."""
    frames = [task_answers(task, labelled) for task, labelled in labels_for_run(store, run_id, task_ids)]
    return pd.concat(frames, ignore_index=True) if frames else None


def task_answers(task: Task, labelled: Sequence[LabelledItem]) -> pd.DataFrame:
    """The answers to a task, as a frame (:data:`bias_core.study.answers.COLUMNS`), without attention checks.

    A picture that no one has answered has one row with an empty answer.
    """
    of_task = {"task": task.title, "sample": task.sample, "stratified_by": task.stratified_by}
    rows = []
    for entry in labelled:
        if entry.item.gold is not None:
            continue
        picture = {**of_task, "image_id": entry.item.image_id}
        rows += [] if entry.answers else [picture]
        for given in entry.answers:
            for position, answer in given.choices.items():
                attribute, question = task.attributes.get(position, ("", ""))
                about = {"position": position, "attribute": attribute, "question": question}
                rows.append({**picture, **about, "answer": answer, "rater": given.rater})
    return make_answer_frame(rows)


def answered_tasks(store: LabelStore, task_ids: Sequence[str]) -> set[str]:
    """The tasks, without deleted ones, of which a picture that is no attention check has an answer that counts."""
    later = answers.alias()
    with store.read() as connection:
        found = connection.scalars(
            select(items.c.task_id)
            .distinct()
            .join(answers, answers.c.item_id == items.c.id)
            .join(raters, raters.c.id == answers.c.rater_id)
            .join(tasks, tasks.c.id == items.c.task_id)
            .where(items.c.task_id.in_(task_ids), tasks.c.status != "deleted", answers.c.kind == "answer")
            .where(raters.c.excluded_ms.is_(None), items.c.gold.is_(None))
            .where(~exists().where(later.c.withdraws == answers.c.id))
        )
        return set(found)


def _acts_that_hold(task_id: str, *kinds: str) -> Select[Any]:
    """Query the actions of a task's raters that were not withdrawn, with the rater."""
    later = answers.alias()
    names = ("item_id", "kind", "choices", "task_version", "duration_ms", "at_ms")
    return (
        select(*(answers.c[name] for name in names), raters.c.name, raters.c.excluded_ms)
        .join(raters, raters.c.id == answers.c.rater_id)
        .join(items, items.c.id == answers.c.item_id)
        .where(items.c.task_id == task_id, answers.c.kind.in_(kinds))
        .where(~exists().where(later.c.withdraws == answers.c.id))
        .order_by(answers.c.id)
    )


def answers_frame(store: LabelStore, key: OwnerKey, *, excluded: bool = False) -> pd.DataFrame:
    """A row per position and counted answer (or ``excluded`` rater's answer); as CSV, the labels that studies take."""
    return pd.DataFrame(_label_rows(given_answers(store, key, excluded=excluded)), columns=[*COLUMNS])


def _label_rows(answers_given: Sequence[GivenAnswer]) -> list[tuple[Any, ...]]:
    return [
        (given.item.image_id, position, given.item.identities.get(position, ""), answer, given.rater,
         (given.item.gold or {}).get(position, ""), given.task_version, given.seconds, given.at)
        for given in answers_given
        for position, answer in given.choices.items()
    ]  # fmt: skip


def crowd_frame(store: LabelStore, key: OwnerKey) -> pd.DataFrame:
    """Platform ids and results of crowd raters, to pay or reject them; InvalidInput without any."""
    of_link = {"participant": "PROLIFIC_PID", "study": "STUDY_ID", "session": "SESSION_ID"}
    columns = (raters.c.name.label("rater"), *(crowd_ids.c[name].label(shown) for name, shown in of_link.items()))
    with store.read() as connection:
        of_task = raters.c.task_id == owned_row(connection, key).id
        joined = select(*columns).join(raters, raters.c.id == crowd_ids.c.rater_id).where(of_task)
        ids = pd.DataFrame(map(dict, connection.execute(joined.order_by(raters.c.id)).mappings()))
    if ids.empty:
        raise InvalidInput(
            "no rater came with ids of a crowd platform: they are kept if the task has a Prolific code and raters "
            "use the link that Prolific makes of it"
        )
    names = {"rater": "rater", "n_answered": "answered", "n_skipped": "skipped", "n_gold": "checks"}
    names |= {"n_gold_right": "checks right", "excluded": "excluded"}
    progress = pd.DataFrame(map(vars, task_progress(store, key).raters))[[*names]]
    return ids.merge(progress.rename(columns=names), on="rater")


def export_labels(store: LabelStore, key: OwnerKey, target: Path) -> Path:
    """Write a zip: CSV, JSONL, imagefolder, Label Studio, Argilla and a data card.

    NotAllowed if the key opens no task; StorageError if a picture is missing, or the disk is full. Nothing
    half-written stays behind.
    """
    progress = task_progress(store, key)
    with replaced_file(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in _entries(store, key, progress):
            packing = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, packing)
    return target


def _entries(store: LabelStore, key: OwnerKey, progress: TaskProgress) -> Iterator[tuple[str, bytes | str]]:
    task, given = progress.task, given_answers(store, key)
    by_name = {
        f"{'known' if entry.item.gold else 'train'}/{i:05d}-{entry.item.picture[:12]}.png": entry
        for i, entry in enumerate(_match_answers(task_items(store, key), given), start=1)
    }
    labels = _label_rows(given)
    yield (
        "README.md",
        text_from(
            "label_card.md",
            head=yaml.safe_dump(
                {"pretty_name": " ".join(task.title.split())} | _HEAD, sort_keys=False, allow_unicode=True
            ),
            progress=progress,
            task=task,
            n_raters=sum(rater.n_answered > 0 for rater in progress.counted_raters),
            n_excluded=len(progress.raters) - len(progress.counted_raters),
            columns=COLUMNS,
        ),
    )
    texts = {"id": task.id, "version": task.version, **task_texts(task)}
    yield "task.json", json.dumps(texts, ensure_ascii=False, indent=1)
    yield "labels.csv", csv_bytes(pd.DataFrame(labels, columns=[*COLUMNS]))
    yield "labels.jsonl", json_lines(dict(zip(COLUMNS, row, strict=True)) for row in labels)
    if len(excluded := answers_frame(store, key, excluded=True)):
        yield "excluded.csv", csv_bytes(excluded)
    if len(machines := judgements_frame(store, key)):
        yield "judges.csv", csv_bytes(machines)
    ordinary = {name: entry for name, entry in by_name.items() if entry.item.gold is None}
    yield "train/metadata.jsonl", json_lines([_metadata(name, entry, task) for name, entry in ordinary.items()])
    yield "label_studio/config.xml", text_from("label_studio.xml", autoescape=True, task=task)
    yield "label_studio/tasks.json", _write_json_list(_studio_task(task, *pair) for pair in by_name.items())
    yield "argilla/settings.json", text_from("argilla.json", task=task)
    yield "argilla/records.json", _write_json_list(_argilla_record(task, *pair) for pair in by_name.items())
    for name, entry in by_name.items():
        yield name, task_picture_png(store.pictures, entry.item.picture)


def _metadata(name: str, entry: LabelledItem, task: Task) -> dict[str, Any]:
    """A line of the imagefolder: one column of each kind for every position."""
    row: dict[str, Any] = {"file_name": name.removeprefix("train/"), "image_id": entry.item.image_id}
    row |= {"n_raters": len(entry.answers)}
    for position in task.positions:
        row |= {
            f"{position}_identity": entry.item.identities.get(position, ""),
            f"{position}_label": entry.majority(position),
            f"{position}_share": entry.share(position) if entry.majority(position) else None,
            f"{position}_answers": entry.votes(position),
        }
    return row


def _studio_task(task: Task, name: str, entry: LabelledItem) -> dict[str, Any]:
    """The item as Label Studio imports and converts it: an annotation for each rater, and for the known answer.

    The unpacked export is the folder of its local storage. Every annotation has the keys that
    Label Studio needs.
    """
    data = {"image": f"/data/local-files/?d={name}", "image_id": entry.item.image_id}
    data |= {f"question_{position}": text for position, text in task.questions_about(entry.item).items()}
    replies = [(given.choices, given.at, given.seconds, {"meta": {"text": [given.rater]}}) for given in entry.answers]
    if entry.item.gold is not None:
        replies.append((entry.item.gold, task.created, 0.0, {}))
    same = {"to_name": "image", "type": "choices"}
    annotations = [
        {
            "id": 10_000 * entry.item.id + number, "created_at": at, "updated_at": at, "lead_time": seconds,
            "was_cancelled": False, "ground_truth": not rater, "result": [
                {"id": position, "from_name": position, "value": {"choices": [answer]}, **same, **rater}
                for position, answer in choices.items()
            ],
        }
        for number, (choices, at, seconds, rater) in enumerate(replies)
    ]  # fmt: skip
    return {"id": entry.item.id, "data": data, "annotations": annotations}


def _argilla_record(task: Task, name: str, entry: LabelledItem) -> dict[str, Any]:
    """The item as Argilla imports it: the majority is a suggestion, and votes are metadata.

    A response belongs to a user of the Argilla server, so answers of single raters are not exported as responses.
    """
    counts = {position: Counter(entry.votes(position)).most_common() for position in task.positions}
    votes = {
        f"{position}_votes": ", ".join(f"{k} {n}" for k, n in position_counts)
        for position, position_counts in counts.items()
    }
    return {
        "id": str(entry.item.id),
        "fields": {"image": name, "shown": "\n".join(task.questions_about(entry.item).values())},
        "metadata": {"image_id": entry.item.image_id, "n_raters": len(entry.answers), **votes},
        "suggestions": {
            position: {"value": winner, "score": entry.share(position), "agent": "most raters"}
            for position in task.positions
            if (winner := entry.majority(position))
        },
        "responses": {},
        "vectors": {},
    }


def _write_json_list(records: Iterable[object]) -> str:
    """A JSON list with a line per record: Python indents in an encoder that is ten times as slow."""
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "\n]"


class LabelCopy:
    """Has a ``CommitScheduler`` upload the answers of every task, from now on until :meth:`close`.

    Each task is one JSONL file in ``folder``, written before each upload. The dataset ``repo`` is private if
    it is created here. After a failed upload the next try comes after ``minutes``; answers do not wait for it.
    """

    def __init__(self, store: LabelStore, folder: Path, *, repo: str, minutes: float, api: Any = None) -> None:
        self._store, self._folder, self._api = store, folder, api
        self._repo, self._minutes = repo, minutes
        self._made: Future[Any] = Future()  # the scheduler, or the reason that there is none yet
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._start, daemon=True, name="label-copy")
        self._thread.start()

    @property
    def last_error(self) -> str:
        """The error of the last upload; "" if it worked."""
        made = self._made
        last = getattr(made.result(), "last_future", made) if made.done() and made.exception() is None else made
        error = last.exception() if last.done() else None
        return "" if error is None else (str(error) or type(error).__name__)[:500]

    def close(self) -> None:
        """Upload the last answers and stop."""
        self._end.set()
        self._thread.join()
        if self._made.exception() is None:
            scheduler = self._made.result()
            scheduler.stop()  # its own uploads do nothing from now on; the last one waits for a running one
            scheduler.api.run_as_future(scheduler.push_to_hub).exception()

    def _start(self) -> None:
        while True:
            made: Future[Any] = Future()
            with handing_over(made):
                made.set_result(self._scheduler())
            self._made = made
            if made.exception() is None or self._end.wait(60 * self._minutes):
                return

    def _scheduler(self) -> Any:
        from huggingface_hub import CommitScheduler  # slow to import

        store, folder = self._store, self._folder

        class LabelScheduler(CommitScheduler):
            def push_to_hub(self) -> Any:
                write_answers(store, folder)
                return super().push_to_hub()

        to = {"repo_id": self._repo, "repo_type": "dataset", "path_in_repo": "labels", "private": True}
        files = {"folder_path": folder, "allow_patterns": "*.jsonl"}
        return LabelScheduler(**files, **to, every=self._minutes, hf_api=self._api)
