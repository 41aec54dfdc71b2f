"""Pictures of a run that people may be asked about: which ones, whom they show, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.annotation.task_owner import TaskPicture
from bias_core.annotation.tasks import PICTURE, SINGLE, quote
from bias_core.errors import InvalidInput
from bias_core.metrics.paired_labels import NOT_TWO_PEOPLE
from bias_core.studies.explore.options import KIND
from bias_core.studies.explore.results import CONCEPT
from bias_core.studies.kit.designs import programs_by_kind
from bias_core.studies.kit.paper_data import read_study
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.running.history import list_runs
from bias_core.studies.running.identities import UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from bias_core.annotation.tasks import Task, TaskKind
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.running.history import RunLine

PAIR = ("left", "right")
PERSON = "person"
"""What somebody is called whom nothing names."""
_LINE = re.compile(r"\s*(\d+)\s*[:=]\s*(.+)")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A picture that people may be asked about.

    Attributes
    ----------
    number : from 1, as its owner sees it.
    identities : whom the prompt asked for, by position; empty where the run does not say.
    truth : what was drawn, on the calibration renderer's record; None elsewhere.
    """

    number: int
    image_id: str
    path: Path
    prompt: str
    identities: Mapping[str, str]
    truth: Mapping[str, Any] | None = None


def kind_of(report: StudyReport) -> TaskKind:
    """What people are usually asked about pictures of such a run."""
    if report.pictures is None:
        return "own"
    if "setting" in report.pictures:
        if (~report.pictures["setting"].isin(_ONE)).any():
            return "pst_paired"
        program = programs_by_kind().get(report.design.kind)
        return "own" if program is not None and program.shows_anything else "pst_single"
    return "association" if "set" in report.pictures else "own"


def candidates(report: StudyReport, kind: TaskKind, *, words: tuple[str, str] | None = None) -> list[Candidate]:
    """The pictures of a run that suit such a task and are still stored, each once.

    Pairs are asked of pictures that were to show two people, and single people of all others where the run
    has both; associations of neutral pictures where the run has others too, of those that the run itself
    judges, and of the tests of these two ``words`` where it has any.

    Raises
    ------
    InvalidInput
        There is none.
    """
    rows = _of_study(report, kind, words)
    pictures = [Candidate(number=i, **row) for i, row in enumerate(rows, start=1)]
    if not pictures:
        raise InvalidInput(
            f"this run has no stored picture of {_WANTED[kind]}: ask something else, or choose another run"
        )
    return pictures


_WANTED = {
    "pst_paired": "two people",
    "pst_single": "one person",
    "association": "what these words are about",
    "own": "anything",
}


def sample_of(pictures: Sequence[Candidate], n: int, seed: int = 0) -> list[Candidate]:
    """``n`` of them at random by the seed, in their order; all where ``n`` is 0 or more than there are."""
    if n < 0:
        raise InvalidInput(f"the number of pictures is at least 0 (all); got {n}")
    if not 0 < n < len(pictures):
        return list(pictures)
    places = np.sort(np.random.default_rng(seed).permutation(len(pictures))[:n])
    return [pictures[place] for place in places]


def task_pictures(
    pictures: Sequence[Candidate], task: Task, *, who: str = "", gold: Mapping[int, Mapping[str, str]] = {}
) -> list[TaskPicture]:
    """The items of a task.

    Parameters
    ----------
    who : is asked about in place of whom the run names; "": as it names them, "person" where it does not.
    gold : known answers by number, for attention checks.

    Raises
    ------
    InvalidInput
        A known answer is given for a picture that is not among them.
    """
    numbers = {candidate.number for candidate in pictures}
    if strange := sorted(set(gold) - numbers):
        raise InvalidInput(f"a right answer is given for picture {strange[0]}, which is not in this task")
    return [
        TaskPicture(
            path=one.path,
            image_id=one.image_id,
            identities={p: who or one.identities.get(p) or PERSON for p in task.positions if p != PICTURE},
            gold=gold.get(one.number),
        )
        for one in pictures
    ]


def gold_from_record(pictures: Sequence[Candidate], task: Task, n: int, seed: int = 0) -> dict[int, dict[str, str]]:
    """Right answers for ``n`` pictures, drawn at random by the seed, from the record of what was drawn.

    Raises
    ------
    InvalidInput
        The record says too little: of real models, or of what is asked.
    """
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
    if one.truth is None:
        return {}
    if task.kind in ("pst_single", "pst_paired"):
        return _recorded_people(one.truth, task.positions)
    shown = read_study("t2iat")["human_comparison"]["shown"]
    fits = [key for key in task.answer_keys if key in shown and shown[key].items() <= dict(one.truth).items()]
    return {PICTURE: fits[0]} if task.kind == "association" and len(fits) == 1 else {}


def gold_from_lines(text: str, task: Task) -> dict[int, dict[str, str]]:
    """Right answers that an owner typed: ``number: answer``, one a line, an answer for each position.

    Examples
    --------
    >>> from bias_core.annotation.tasks import pst_task
    >>> gold_from_lines("4: feminine, masculine", pst_task(paired=True))
    {4: {'left': 'feminine', 'right': 'masculine'}}
    """
    gold: dict[int, dict[str, str]] = {}
    keys = {name.lower(): a.key for a in task.answers for name in (a.key, a.label, a.shortcut) if name}
    for line in filter(str.strip, text.splitlines()):
        found = _LINE.fullmatch(line)
        said = [part.strip().lower() for part in found.group(2).split(",")] if found else []
        if strange := [part for part in said if part not in keys]:
            raise InvalidInput(f"{quote(strange[0])} is no answer of this task: {', '.join(keys)}")
        if found is None or len(said) not in {1, len(task.positions)}:
            asked = ", ".join(task.positions)
            raise InvalidInput(f"{quote(line)} is not a picture's number, a colon, and an answer for {asked}")
        all_said = said if len(said) == len(task.positions) else said * len(task.positions)
        gold[int(found.group(1))] = dict(zip(task.positions, (keys[part] for part in all_said), strict=True))
    return gold


def gold_lines(gold: Mapping[int, Mapping[str, str]]) -> str:
    """The inverse of :func:`gold_from_lines`.

    Examples
    --------
    >>> gold_lines({4: {"left": "feminine", "right": "masculine"}})
    '4: feminine, masculine'
    """
    return "\n".join(f"{number}: {', '.join(one.values())}" for number, one in sorted(gold.items()))


def _recorded_people(truth: Mapping[str, Any], positions: Sequence[str]) -> dict[str, str]:
    if truth["n_people"] != len(positions):
        return dict.fromkeys(positions, NOT_TWO_PEOPLE)
    return {p: str(truth["gender" if p == SINGLE else f"{p}_gender"]) for p in positions}


def _of_study(report: StudyReport, kind: TaskKind, words: tuple[str, str] | None) -> list[dict[str, Any]]:
    if report.pictures is None:
        return []
    frame, concept = _suiting(report.pictures, kind), ""
    if report.design.kind == KIND and not frame.empty:
        concept = str(option_values(report.settings.options).get("concept", ""))
        frame = frame[frame["group"] == CONCEPT] if concept else frame
    if kind == "association":
        frame = _judged(report, frame, words)
    frame = frame.drop_duplicates("image_id")
    rows = []
    for picture in frame.to_dict("records"):
        stored = report.stored.get(picture["image_id"])
        if stored is not None and stored.path.is_file():
            rows.append(
                {
                    "image_id": picture["image_id"],
                    "path": stored.path,
                    "prompt": picture["prompt"],
                    "identities": {SINGLE: concept} if concept else _identities(picture),
                    "truth": stored.truth,
                }
            )
    return rows


_ONE = (SINGLE, UNKNOWN)  # settings of pictures that may show one person


def _suiting(frame: pd.DataFrame, kind: TaskKind) -> pd.DataFrame:
    if "setting" in frame and kind in ("pst_paired", "pst_single"):
        alone = frame["setting"].isin(_ONE)
        return frame[alone] if kind == "pst_single" else frame[frame["setting"] != SINGLE]
    if "set" in frame and kind == "association" and (frame["set"] == "neutral").any():
        return frame[frame["set"] == "neutral"]
    return frame


def _judged(report: StudyReport, frame: pd.DataFrame, words: tuple[str, str] | None) -> pd.DataFrame:
    """Pictures whose judgement the run can use."""
    judged = [table.frame["image_id"] for table in report.results.tables if table.key == "judged"]
    if judged:
        frame = frame[frame["image_id"].isin(judged[0])]
    tests = [test["key"] for test in report.design.data.get("tests", ()) if (test["a"], test["b"]) == words]
    if "test" not in frame or not frame["test"].isin(tests).any():
        return frame
    return frame[frame["test"].isin(tests)]


def runs_with(services: StudyServices, session: str, image_ids: Collection[str]) -> list[RunLine]:
    """The visitor's runs that hold any of these pictures and whose report can be opened, newest first."""
    held = {run.id for run in services.manifests.list(session) if any(row.id in image_ids for row in run.rows)}
    return [line for line in list_runs(services, session) if line.saved and line.run_id in held]


def _identities(picture: Mapping[Any, Any]) -> dict[str, str]:
    if picture.get("setting", UNKNOWN) == UNKNOWN:
        return {}
    if picture["setting"] == SINGLE:
        return {SINGLE: str(picture["left"])}
    return {position: str(picture[position]) for position in PAIR}
