"""Pictures of a run that people may be asked about: which ones, whom they show, and what is known of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput, quoted
from bias_core.explore.options import KIND
from bias_core.explore.results import CONCEPT
from bias_core.labels.answers import untold_among
from bias_core.labels.task_owner import TaskPicture
from bias_core.measures.paired_stereotype import CANNOT_IDENTIFY, UNTOLD
from bias_core.papers.pst.labelling import recorded_gender
from bias_core.people import load_scales
from bias_core.study.design import known_study, read_study
from bias_core.study.history import RunLine, list_runs
from bias_core.study.label_tasks import CANNOT_TELL, PICTURE, POSITIONS, SINGLE, Task, TaskKind
from bias_core.study.labels import UNKNOWN
from bias_core.study.services import StudyServices
from bias_core.study.setting_fields import option_values
from bias_core.study.types import StudyReport

PERSON = "person"  # what somebody is called whom nothing names
_OF_PEOPLE = ("pst_single", "pst_paired", "pst_three")
_ONE = (SINGLE, UNKNOWN)  # settings of pictures that may show one person
_SUITABLE_PICTURES = {
    "pst_paired": "two people",
    "pst_three": "three people",
    "pst_single": "one person",
    "association": "what these words are about",
    "own": "anything",
}
_LINE = re.compile(r"\s*(\d+)\s*[:=]\s*(.+)")


@dataclass(frozen=True, kw_only=True)
class Candidate(TaskPicture):
    """A picture that people may be asked about; it has no identities where the run does not say whom it shows."""

    number: int  # from 1, as its owner sees it
    prompt: str
    truth: Mapping[str, Any] | None = None  # what was drawn, on the calibration renderer's record; None elsewhere


def kind_of(report: StudyReport) -> TaskKind:
    """What people are usually asked about pictures of such a run."""
    frame = report.pictures
    if frame is None or "setting" not in frame:
        return "association" if frame is not None and "set" in frame else "own"
    if (~frame["setting"].isin(_ONE)).any():
        return "pst_three" if _shows_three(frame).any() else "pst_paired"
    study = known_study(report.design)
    return "own" if study is not None and study.shows_anything else "pst_single"


def candidates(report: StudyReport, kind: TaskKind, *, words: tuple[str, str] | None = None) -> list[Candidate]:
    """The pictures of a run that suit such a task and are still stored, each once.

    Pairs and threes are asked of pictures that were to show so many people, and single people of all others where
    the run has both; associations of neutral pictures where the run has others too, of those that the run itself
    judges, and of the tests of these two ``words`` where it has any.

    Raises InvalidInput: there is none.
    """
    pictures: list[Candidate] = []
    for row in _suiting(report, kind, words):
        stored = report.stored.get(row["image_id"])
        if stored is not None and stored.path.is_file():
            named = tuple(side for side in POSITIONS[3] if isinstance(row.get(side), str) and row[side])
            sides = (SINGLE,) if row.get("setting") == SINGLE else named if row.get("setting", UNKNOWN) else ()
            identities = {side: str(row["left" if side == SINGLE else side]) for side in sides}
            same = {"image_id": row["image_id"], "prompt": row["prompt"], "identities": identities}
            pictures.append(Candidate(number=len(pictures) + 1, path=stored.path, truth=stored.truth, **same))
    if not pictures:
        raise InvalidInput(
            f"this run has no stored picture of {_SUITABLE_PICTURES[kind]}: ask something else, or choose another run"
        )
    return pictures


def _suiting(report: StudyReport, kind: TaskKind, words: tuple[str, str] | None) -> list[dict[Any, Any]]:
    """Rows of the pictures that such a task is about."""
    frame = report.pictures
    if frame is None or frame.empty:
        return []
    if "setting" in frame and kind in _OF_PEOPLE:
        several = (frame["setting"] != SINGLE) & (_shows_three(frame) == (kind == "pst_three"))
        frame = frame[frame["setting"].isin(_ONE) if kind == "pst_single" else several]
    if "set" in frame and kind == "association" and (frame["set"] == "neutral").any():
        frame = frame[frame["set"] == "neutral"]
    if report.design.kind == KIND and (concept := option_values(report.settings.options).get("concept")):
        frame = frame[frame["group"] == CONCEPT].assign(setting=SINGLE, left=str(concept))
    if kind == "association":
        for judged in (table.frame for table in report.results.tables if table.key == "judged"):
            frame = frame[frame["image_id"].isin(judged["image_id"])]
        tests = [test["key"] for test in report.design.data.get("tests", ()) if (test["a"], test["b"]) == words]
        if "test" in frame and (of_words := frame["test"].isin(tests)).any():
            frame = frame[of_words]
    return frame.drop_duplicates("image_id").to_dict("records")


def _shows_three(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Which pictures were to show three people."""
    return frame["middle"].fillna("") != "" if "middle" in frame else pd.Series(data=False, index=frame.index)


def sample_of(pictures: Sequence[Candidate], n: int, seed: int = 0) -> list[Candidate]:
    """``n`` of them at random by the seed, in their order; all where ``n`` is 0 or more than there are."""
    if n < 0:
        raise InvalidInput(f"the number of pictures is at least 0 (all); got {n}")
    if not 0 < n < len(pictures):
        return list(pictures)
    return [pictures[place] for place in np.sort(np.random.default_rng(seed).permutation(len(pictures))[:n])]


def task_pictures(
    pictures: Sequence[Candidate], task: Task, *, who: str = "", gold: Mapping[int, Mapping[str, str]] = {}
) -> list[Candidate]:
    """The items of a task, with ``gold`` answers by number (InvalidInput for one of a picture that is not there).

    ``who`` is asked about in place of whom the run names; "": as it names them, "person" where it does not.
    """
    if strange := sorted(set(gold) - {candidate.number for candidate in pictures}):
        raise InvalidInput(f"a right answer is given for picture {strange[0]}, which is not in this task")
    people = [position for position in task.positions if position != PICTURE]
    return [
        replace(one, identities={p: who or one.identities.get(p) or PERSON for p in people}, gold=gold.get(one.number))
        for one in pictures
    ]


def gold_from_record(pictures: Sequence[Candidate], task: Task, n: int, seed: int = 0) -> dict[int, dict[str, str]]:
    """Right answers for ``n`` pictures, at random by the seed, from the record; InvalidInput for too few."""
    recorded = {one.number: answers for one in pictures if (answers := recorded_answers(one, task))}
    if len(recorded) < n:
        raise InvalidInput(
            f"{n} pictures with an answer on record are wanted, and {len(recorded)} of {len(pictures)} have "
            "one: only the calibration renderer keeps such a record, of gender and of the paper's words"
        )
    numbers = np.random.default_rng(seed + 1).permutation(sorted(recorded))[:n]
    return {int(number): recorded[number] for number in sorted(numbers)}


def recorded_answers(one: Candidate, task: Task) -> dict[str, str]:
    """What was drawn as answers of the task; empty where nobody knows."""
    if one.truth is not None and task.kind in _OF_PEOPLE:
        drawn = {position: recorded_gender(one.truth, position, len(task.positions)) for position in task.positions}
        return {place: look if look in task.answer_keys else CANNOT_IDENTIFY for place, look in drawn.items()}
    if one.truth is not None and task.scale:
        return recorded_level(one.truth, task)
    if one.truth is None or task.kind != "association":
        return {}
    shown = read_study("t2iat")["human_comparison"]["shown"]
    fits = [key for key in task.answer_keys if key in shown and shown[key].items() <= dict(one.truth).items()]
    return {PICTURE: fits[0]} if len(fits) == 1 else {}


def recorded_level(truth: Mapping[str, Any], task: Task) -> dict[str, str]:
    """The level of the task's scale at which the one person was drawn; that nobody can tell where there is no such.

    Nothing of a level whose colour is nearer to another's: who says that one is as right.
    """
    scale = load_scales()[task.scale]
    level = str(truth.get(scale.record)) if truth.get("n_people") == 1 else ""
    levels = dict(zip(scale.levels, task.answer_keys, strict=False))
    return {} if level in scale.unlike else {SINGLE: levels.get(level, CANNOT_TELL)}


def gold_from_lines(text: str, task: Task) -> dict[int, dict[str, str]]:
    """Right answers that an owner typed: ``number: answer``, one a line, an answer for each position.

    >>> from bias_core.study.label_tasks import pst_task
    >>> gold_from_lines("4: feminine, masculine", pst_task(paired=True))
    {4: {'left': 'feminine', 'right': 'masculine'}}
    """
    gold: dict[int, dict[str, str]] = {}
    keys = {name.lower(): a.key for a in task.answers for name in (a.key, a.label, a.shortcut) if name}
    if nobody_says := untold_among(task.answer_keys):  # marked while the task had the other words for it
        keys |= dict.fromkeys((*UNTOLD, *(word.replace("_", " ") for word in UNTOLD)), nobody_says)
    positions = task.positions
    for line in filter(str.strip, text.splitlines()):
        parts = _LINE.fullmatch(line)
        answers = [part.strip().lower() for part in parts[2].split(",")] if parts else []
        if strange := [answer for answer in answers if answer not in keys]:
            raise InvalidInput(f"{quoted(strange[0])} is no answer of this task: {', '.join(keys)}")
        if parts is None or len(answers) not in {1, len(positions)}:
            line_form = f"a picture's number, a colon, and an answer for {', '.join(positions)}"
            raise InvalidInput(f"{quoted(line)} is not {line_form}")
        each = answers if len(answers) == len(positions) else answers * len(positions)
        gold[int(parts[1])] = dict(zip(positions, map(keys.__getitem__, each), strict=True))
    return gold


def gold_lines(gold: Mapping[int, Mapping[str, str]]) -> str:
    """The inverse of :func:`gold_from_lines`.

    >>> gold_lines({4: {"left": "feminine", "right": "masculine"}})
    '4: feminine, masculine'
    """
    return "\n".join(f"{number}: {', '.join(one.values())}" for number, one in sorted(gold.items()))


def runs_with(services: StudyServices, session: str, image_ids: Collection[str]) -> list[RunLine]:
    """The visitor's runs that hold any of these pictures and whose report can be opened, newest first."""
    ids = set(image_ids)
    held = {run.id for run in services.manifests.list(session) if not ids.isdisjoint(run.image_ids)}
    return [line for line in list_runs(services, session) if line.saved and line.run_id in held]
