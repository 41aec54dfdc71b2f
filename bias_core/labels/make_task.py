"""Labelling tasks that correct a run: a random sample of its pictures, and the attributes that it measures."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput, quoted
from bias_core.explore.exploration import CONCEPT
from bias_core.explore.options import KIND
from bias_core.labels.label_store import LabelStore
from bias_core.labels.results import labels_for_run
from bias_core.labels.task_owner import CreatedTask, TaskPicture, create_task, set_status
from bias_core.measures.paired_stereotype import CANNOT_IDENTIFY
from bias_core.measures.two_phase import FEWEST_LABELS
from bias_core.papers.pst.labelling import recorded_gender
from bias_core.people import load_scales
from bias_core.run.attribute_scores import plain_question
from bias_core.run.history import ListedRun, list_runs
from bias_core.store.manifests import Manifest, ManifestStore
from bias_core.study.classifier_answers import (
    PEOPLE,
    Reading,
    asked_readings,
    build_strata,
    list_readings,
    list_stored_pictures,
    scale_pictures,
)
from bias_core.study.design import known_study, read_study
from bias_core.study.label_tasks import (
    CANNOT_TELL,
    MAX_POSITIONS,
    N_LABELS,
    NO,
    PICTURE,
    POSITIONS,
    SINGLE,
    UNKNOWN,
    UNTOLD,
    YES,
    Answer,
    Looks,
    Task,
    TaskKind,
    answer_key,
    own_task,
    pst_task,
    scale_task,
    three_task,
)
from bias_core.study.types import StudyReport
from bias_core.study_services import StudyServices
from bias_core.types import Attribute
from bias_core.values import option_values

PERSON = "person"  # the identity of a person that neither run nor prompt names
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
    """A picture that people may be asked about; without identities if the run does not name the people in it."""

    number: int  # from 1, as its owner sees it
    prompt: str
    truth: Mapping[str, Any] | None = None  # ground truth of the calibration renderer; None elsewhere


def choose_task_kind(report: StudyReport) -> TaskKind:
    """The default kind of task for pictures of such a run."""
    frame = report.pictures
    if frame is None or "setting" not in frame:
        return "association" if frame is not None and "set" in frame else "own"
    if (~frame["setting"].isin(_ONE)).any():
        return "pst_three" if _shows_three(frame).any() else "pst_paired"
    study = known_study(report.design)
    return "own" if study is not None and study.shows_anything else "pst_single"


def candidates(report: StudyReport, kind: TaskKind, *, words: tuple[str, str] | None = None) -> list[Candidate]:
    """The stored pictures of a run that suit such a task, each once.

    Tasks on pairs and threes use pictures of that many people, and those on single people all others, if
    the run has both. Associations use neutral pictures if the run has others too, those that the run itself
    judges, and those of the tests of these two ``words`` if it has any.

    Raises InvalidInput: there are none.
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
    """Rows of the pictures that suit such a task."""
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
    """True for pictures that were to show three people."""
    return frame["middle"].fillna("") != "" if "middle" in frame else pd.Series(data=False, index=frame.index)


def draw_sample(pictures: Sequence[Candidate], n: int, seed: int = 0) -> list[Candidate]:
    """Draw ``n`` pictures by the seed, in order; all if ``n`` is 0 or too large. InvalidInput for a negative number."""
    if n < 0:
        raise InvalidInput(f"the number of pictures must be 0 (all) or more; got {n}")
    if not 0 < n < len(pictures):
        return list(pictures)
    return [pictures[place] for place in np.sort(np.random.default_rng(seed).permutation(len(pictures))[:n])]


def task_pictures(
    pictures: Sequence[Candidate], task: Task, *, identity: str = "", gold: Mapping[int, Mapping[str, str]] = {}
) -> list[Candidate]:
    """The items of a task, with ``gold`` answers by picture number (InvalidInput if there is no such picture).

    Questions name ``identity`` in place of the run's own words; "" keeps these, or says "person" without any.
    """
    if strange := sorted(set(gold) - {candidate.number for candidate in pictures}):
        raise InvalidInput(f"a right answer names picture {strange[0]}, which is not in this task")
    people = [position for position in task.positions if position != PICTURE]
    return [
        replace(
            picture,
            identities={p: identity or picture.identities.get(p) or PERSON for p in people},
            gold=gold.get(picture.number),
        )
        for picture in pictures
    ]


def gold_from_record(pictures: Sequence[Candidate], task: Task, n: int, seed: int = 0) -> dict[int, dict[str, str]]:
    """Right answers for ``n`` random pictures, from the ground truth; InvalidInput if too few have one."""
    recorded = {picture.number: answers for picture in pictures if (answers := recorded_answers(picture, task))}
    if len(recorded) < n:
        raise InvalidInput(
            f"you asked for {n} pictures with an answer on record, and {len(recorded)} of {len(pictures)} have "
            "one: only the calibration renderer records them, for gender and the paper's words"
        )
    numbers = np.random.default_rng(seed + 1).permutation(sorted(recorded))[:n]
    return {int(number): recorded[number] for number in sorted(numbers)}


def recorded_answers(picture: Candidate, task: Task) -> dict[str, str]:
    """The right answers by the calibration renderer's ground truth; empty without it."""
    if picture.truth is not None and task.kind in _OF_PEOPLE:
        drawn = {position: recorded_gender(picture.truth, position, len(task.positions)) for position in task.positions}
        return {place: look if look in task.answer_keys else CANNOT_IDENTIFY for place, look in drawn.items()}
    if picture.truth is not None and task.scale:
        return recorded_level(picture.truth, task)
    if picture.truth is None or task.kind != "association":
        return {}
    shown = read_study("t2iat")["human_comparison"]["shown"]
    fits = [key for key in task.answer_keys if key in shown and shown[key].items() <= dict(picture.truth).items()]
    return {PICTURE: fits[0]} if len(fits) == 1 else {}


def recorded_level(truth: Mapping[str, Any], task: Task) -> dict[str, str]:
    """The level of the task's scale at which the one person was drawn; "cannot tell" without one.

    Empty for a level whose colour is closer to another level's: both answers would be right.
    """
    scale = load_scales()[task.scale]
    level = str(truth.get(scale.record)) if truth.get("n_people") == 1 else ""
    levels = dict(zip(scale.levels, task.answer_keys, strict=False))
    return {} if level in scale.unlike else {SINGLE: levels.get(level, CANNOT_TELL)}


def gold_from_lines(text: str, task: Task) -> dict[int, dict[str, str]]:
    """Read the right answers that an owner typed: a line ``number: answer`` per picture, an answer per position.

    >>> from bias_core.study.label_tasks import pst_task
    >>> gold_from_lines("4: feminine, masculine", pst_task(paired=True))
    {4: {'left': 'feminine', 'right': 'masculine'}}
    """
    gold: dict[int, dict[str, str]] = {}
    keys = {name.lower(): a.key for a in task.answers for name in (a.key, a.label, a.shortcut) if name}
    if task.untold:  # marked when the task used another word for it
        keys |= dict.fromkeys((*UNTOLD, *(word.replace("_", " ") for word in UNTOLD)), task.untold)
    positions = task.positions
    for line in filter(str.strip, text.splitlines()):
        parts = _LINE.fullmatch(line)
        answers = [part.strip().lower() for part in parts[2].split(",")] if parts else []
        if strange := [answer for answer in answers if answer not in keys]:
            raise InvalidInput(f"{quoted(strange[0])} is not an answer of this task: {', '.join(keys)}")
        if parts is None or len(answers) not in {1, len(positions)}:
            line_form = f"a picture's number, a colon, and an answer for {', '.join(positions)}"
            raise InvalidInput(f"{quoted(line)} is not {line_form}")
        position_answers = answers if len(answers) == len(positions) else answers * len(positions)
        gold[int(parts[1])] = dict(zip(positions, map(keys.__getitem__, position_answers), strict=True))
    return gold


def gold_lines(gold: Mapping[int, Mapping[str, str]]) -> str:
    """The inverse of :func:`gold_from_lines`.

    >>> gold_lines({4: {"left": "feminine", "right": "masculine"}})
    '4: feminine, masculine'
    """
    return "\n".join(f"{number}: {', '.join(answers.values())}" for number, answers in sorted(gold.items()))


def find_matching_runs(services: StudyServices, session: str, image_ids: Collection[str]) -> list[ListedRun]:
    """The visitor's runs with any of these pictures and a report that opens, newest first."""
    ids = set(image_ids)
    held = {run.id for run in services.manifests.list(session) if not ids.isdisjoint(run.image_ids)}
    return [line for line in list_runs(services, session) if line.saved and line.run_id in held]


TITLE = "What do these pictures show?"  # raters read it, so it must not describe the run
_ANSWERS = ((YES, "yes", "y"), (NO, "no", "n"), (CANNOT_TELL, "cannot tell", "c"))


def label_run(
    report: StudyReport,
    manifests: ManifestStore,
    store: LabelStore,
    *,
    n: int = N_LABELS,
    stratify_by: str = "",
    attributes: Sequence[str] = (),
    setting: str = "",
    raters_per_item: int = 3,
    seed: int = 0,
    looks: Looks = "two",
    hub_user: str = "",
) -> CreatedTask:
    """Make a task about ``n`` pictures of a run, open it to raters, and keep the run's pictures from deletion.

    Pictures of earlier tasks with the same question are left out, so that tasks add up.

    Parameters
    ----------
    report : of a saved run that measures attributes, or of the paired test.
    n : number of pictures; all that are left if there are fewer.
    stratify_by : name of an attribute ("people": how people look): equally many pictures of each answer of the
        classifier, as far as possible. "": all pictures are equally likely.
    attributes : names of those that people are asked about; by default those that the run compares with a sourced
        real-world rate, without any all, or the first twelve. Or a scale alone, such as "skin tone".
    setting : setting of the paired test that people are asked about; by default pairs if there are any.
    looks : the answers about how people look: "two" for the paper's (feminine, masculine, cannot identify), "four" for
        androgynous and unclear instead of the last.

    Raises
    ------
    InvalidInput : the run is not on record, measures nothing that people could correct, has no picture left, or lacks
        the attribute or setting.
    """
    manifest = manifests.find(report.run_id) if report.run_id.isalnum() else None
    if manifest is None:
        raise InvalidInput("this run is not on record (an example, or deleted): run it, then label its pictures")
    if n < FEWEST_LABELS:
        raise InvalidInput(f"at least {FEWEST_LABELS} pictures are needed; got {n}")
    if seed < 0:
        raise InvalidInput(f"the seed must be 0 or more; got {seed}")
    scales = [name for name in attributes if name in load_scales()]
    readings = (
        _on_scale(report, attributes, stratify_by)
        if scales
        else asked_readings(_find_readings(report), attributes=attributes, setting=setting)
    )
    earlier = pictures_in_tasks(store, manifest, readings)
    remaining = [image_id for image_id in list_stored_pictures(report, readings) if image_id not in earlier]
    if not remaining:
        raise InvalidInput("no picture of this run is left to ask about: all are in a task, or no longer stored")
    sample, words = _draw_sample(remaining, readings if scales else _find_readings(report), n, stratify_by, seed)
    task = replace(
        _choose_task(readings, raters_per_item, looks), run_id=report.run_id, stratified_by=stratify_by,
        sample=f"{len(sample):,} of {len(remaining):,} pictures {words}, seed {seed}",
    )  # fmt: skip
    made = create_task(store, task, _build_task_pictures(report, task, set(sample)), hub_user=hub_user)
    manifests.add_label_task(report.run_id, made.task.id)
    return replace(made, task=set_status(store, made.key, "open"))


def pictures_in_tasks(store: LabelStore, manifest: Manifest, readings: Sequence[Reading]) -> set[str]:
    """The pictures of a run that a task with the question of these readings has already."""
    abouts = {_about(reading) for reading in readings}
    earlier = labels_for_run(store, manifest.id, manifest.label_tasks) if manifest.label_tasks else []
    return {
        entry.item.image_id
        for task, items in earlier
        if abouts & ({name for name, _ in task.attributes.values()} or {f"{PEOPLE} {task.kind}"})
        for entry in items
    }


def _on_scale(report: StudyReport, names: Sequence[str], stratify_by: str) -> list[Reading]:
    """The pictures of a run that people may rate on a scale."""
    if len(names) > 1 or stratify_by:
        raise InvalidInput("a task on a scale asks about that scale alone, in random pictures")
    scale = load_scales()[names[0]]
    about = Attribute(name=scale.name, positive=scale.question, negative="")
    readings = [
        Reading(
            arm=pictures.arm,
            group="",
            attribute=about,
            image_ids=pictures.image_ids,
            positions=("",) * len(pictures.image_ids),
            codes=np.zeros(len(pictures.image_ids), dtype=int),
        )
        for pictures in scale_pictures(report, scale.name)
    ]
    if not readings:
        raise InvalidInput("this run has no scored pictures that people could rate on a scale")
    return readings


def serves(task: Task) -> str:
    """The attributes of the run that a task asks about, in words."""
    names = [name for name, _ in task.attributes.values()]
    return ", ".join(names) or "how people look"


def _about(reading: Reading) -> str:
    if reading.attribute is not None:
        return reading.attribute.name
    return f"{PEOPLE} {_choose_task([reading], 1, 'two').kind}"


def _find_readings(report: StudyReport) -> list[Reading]:
    """The classifier's answers of a run; InvalidInput without any."""
    if not (readings := list_readings(report)):
        raise InvalidInput(
            "the classifier of this run looks for no attribute and no one's appearance: people can correct nothing. "
            "Make a task in the Label tab instead"
        )
    return readings


def _draw_sample(
    remaining: Sequence[str], readings: Sequence[Reading], n: int, by: str, seed: int
) -> tuple[list[str], str]:
    """The sampled pictures, in order, and the way of sampling in words."""
    rng = np.random.default_rng(seed)
    shuffled = [remaining[i] for i in rng.permutation(len(remaining))]
    if not by:
        chosen = set(shuffled[:n])
        return [image_id for image_id in remaining if image_id in chosen], "at random"
    strata = build_strata(readings, (by,))
    if not strata:
        names = dict.fromkeys(PEOPLE if reading.attribute is None else reading.attribute.name for reading in readings)
        raise InvalidInput(f"pictures can be chosen by the classifier on {', '.join(names)}; got {by!r}")
    by_stratum: dict[str, list[str]] = {}
    for image_id in shuffled:
        by_stratum.setdefault(strata.get(image_id, ""), []).append(image_id)
    chosen, in_order = set(), sorted(by_stratum.values(), key=len)
    for i, of_stratum in enumerate(in_order):  # the smallest group first: the others fill up what it lacks
        chosen |= set(of_stratum[: -(-(n - len(chosen)) // (len(in_order) - i))])
    return [image_id for image_id in remaining if image_id in chosen], f"in equal parts by the classifier on {by}"


def _choose_task(readings: Sequence[Reading], raters_per_item: int, looks: Looks) -> Task:
    if readings[0].attribute is None:
        if "middle" in readings[0].positions:
            return three_task(looks, raters_per_item=raters_per_item)
        return pst_task(paired=readings[0].group != SINGLE, looks=looks, raters_per_item=raters_per_item)
    if (name := readings[0].attribute.name) in load_scales():
        about_scale = {SINGLE: (name, readings[0].attribute.positive)}
        return scale_task(name, title=TITLE, raters_per_item=raters_per_item, attributes=about_scale)
    about = dict.fromkeys(
        (reading.attribute.name, reading.attribute.positive) for reading in readings if reading.attribute
    )
    keys: dict[str, tuple[str, str]] = {}
    for number, pair in enumerate(list(about)[:MAX_POSITIONS], start=1):
        keys[_position(pair[0], number, keys)] = pair
    return replace(
        own_task("?", ["yes", "no"], title=TITLE, raters_per_item=raters_per_item),
        questions={key: plain_question(sentence) for key, (_, sentence) in keys.items()},
        answers=tuple(Answer(key=key, label=label, shortcut=shortcut) for key, label, shortcut in _ANSWERS),
        attributes=keys,
    )


def _position(name: str, number: int, keys: dict[str, tuple[str, str]]) -> str:
    """The key of the question about this attribute, which raters see as a step of their page."""
    key = answer_key(name) if any(letter.isascii() and letter.isalnum() for letter in name) else f"question_{number}"
    return key if key not in keys else f"{key[:36]}_{number}"


def _build_task_pictures(report: StudyReport, task: Task, sample: set[str]) -> list[TaskPicture]:
    if task.attributes:
        shown = {SINGLE: PERSON} if task.scale else {}
        return [TaskPicture(image_id=i, identities=shown, path=report.stored[i].path) for i in sorted(sample)]
    suitable = [picture for picture in candidates(report, task.kind) if picture.image_id in sample]
    if counts := Counter(sample) - Counter(picture.image_id for picture in suitable):
        raise InvalidInput(f"{len(counts)} pictures of this run cannot be asked about: run it again")
    return list(task_pictures(suitable, task))


def task_values(created: CreatedTask) -> dict[str, Any]:
    """A new task as plain values for programs; addresses are relative to the app's."""
    task = created.task
    return {
        "task": task.id, "run_id": task.run_id, "status": task.status, "asks_about": serves(task),
        "sample": task.sample, "questions": dict(task.questions), "answers": list(task.answer_keys),
        "raters_link": f"label?task={created.join_code}", "owner_key": created.key.text,
        "owner_link": f"?tab=label#owner={created.key.text}",
    }  # fmt: skip
