"""A labelling task that corrects a run: some of its pictures, drawn by lot, and what its reader looks for in them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.labels.collected import labels_for_run
from bias_core.labels.label_store import LabelStore
from bias_core.labels.sources import PERSON, candidates, task_pictures
from bias_core.labels.task_owner import CreatedTask, TaskPicture, create_task, set_status
from bias_core.measures.two_phase import FEWEST_LABELS
from bias_core.people import load_scales
from bias_core.store.manifests import ManifestStore
from bias_core.study.attribute_scores import plain_question
from bias_core.study.label_tasks import (
    MAX_POSITIONS,
    SINGLE,
    Answer,
    Looks,
    Task,
    answer_key,
    own_task,
    pst_task,
    scale_task,
    three_task,
)
from bias_core.study.run_readings import CANNOT_TELL, NO, PEOPLE, YES, Reading, readings_of, scale_pictures, strata_of
from bias_core.study.types import StudyReport
from bias_core.types import Attribute

N_LABELS = 64
TITLE = "What do these pictures show?"  # raters read it, so that it says nothing of the run
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
    """Make a task about ``n`` pictures of a run, open it to raters, and keep the run's pictures from making room.

    Pictures that an earlier task of the run asks the same about are left out, so that several add up.

    Parameters
    ----------
    report : of a run on record that reads attributes, or of the paired test.
    n : how many pictures; all that are left where there are fewer.
    stratify_by : name of an attribute ("people": of how people look): as many pictures as can be of each answer of the
        reader about it. "": all pictures are as likely.
    attributes : names of those that people are asked about; all, or the first twelve, where none are given. Or a scale
        alone, such as "skin tone".
    setting : of the paired test, whose people are asked about; in pairs where there are pairs.
    looks : the answers about how people look: "two" for the paper's (feminine, masculine, cannot identify), "four" for
        androgynous and unclear instead of the last.

    Raises
    ------
    InvalidInput : the run is not on record, reads nothing that people could correct, has no picture left, or lacks the
        attribute or setting.
    """
    manifest = manifests.find(report.run_id) if report.run_id.isalnum() else None
    if manifest is None:
        raise InvalidInput("this run is not on record (an example, or a deleted run): run it, then label its pictures")
    if n < FEWEST_LABELS:
        raise InvalidInput(f"at least {FEWEST_LABELS} pictures are needed; got {n}")
    if seed < 0:
        raise InvalidInput(f"the seed is 0 or more; got {seed}")
    scales = [name for name in attributes if name in load_scales()]
    readings = _on_scale(report, attributes, stratify_by) if scales else _chosen(report, attributes, setting)
    earlier = labels_for_run(store, report.run_id, manifest.label_tasks) if manifest.label_tasks else []
    abouts = {_about(one) for one in readings}
    earlier_ids = {
        one.item.image_id
        for task, items in earlier
        if abouts & ({name for name, _ in task.attributes.values()} or {f"{PEOPLE} {task.kind}"})
        for one in items
    }
    ids = dict.fromkeys(image_id for one in readings for image_id in one.image_ids)
    left = [i for i in ids if i not in earlier_ids and i in report.stored and report.stored[i].path.is_file()]
    if not left:
        raise InvalidInput("no picture of this run is left to ask about: all are in a task, or no longer stored")
    sample, words = _sample(left, readings, n, stratify_by, seed)
    task = replace(
        _task(readings, raters_per_item, looks), run_id=report.run_id, stratified_by=stratify_by,
        sample=f"{len(sample):,} of {len(left):,} pictures {words}, seed {seed}",
    )  # fmt: skip
    made = create_task(store, task, _pictures(report, task, set(sample)), hub_user=hub_user)
    manifests.add_label_task(report.run_id, made.task.id)
    return replace(made, task=set_status(store, made.key, "open"))


def _on_scale(report: StudyReport, names: Sequence[str], stratify_by: str) -> list[Reading]:
    """The pictures of a run that are asked about on a scale."""
    if len(names) > 1 or stratify_by:
        raise InvalidInput("a task on a scale asks about nothing else, of pictures that are chosen at random")
    scale = load_scales()[names[0]]
    about = Attribute(name=scale.name, positive=scale.question, negative="")
    readings = [
        Reading(
            arm=one.arm,
            group="",
            attribute=about,
            image_ids=one.image_ids,
            positions=("",) * len(one.image_ids),
            codes=np.zeros(len(one.image_ids), dtype=int),
        )
        for one in scale_pictures(report, scale.name)
    ]
    if not readings:
        raise InvalidInput("this run scores no pictures that people could be asked about on a scale")
    return readings


def can_be_labelled(report: StudyReport) -> bool:
    """Whether people could correct what the reader of this report says."""
    return bool(readings_of(report))


def serves(task: Task) -> str:
    """What of its run a task asks about, in words."""
    names = [name for name, _ in task.attributes.values()]
    return ", ".join(names) or "how people look"


def _about(reading: Reading) -> str:
    if reading.attribute is not None:
        return reading.attribute.name
    return f"{PEOPLE} {_task([reading], 1, 'two').kind}"


def _chosen(report: StudyReport, attributes: Sequence[str], setting: str) -> list[Reading]:
    """Of the run's readings those that people are asked about."""
    if not (readings := readings_of(report)):
        raise InvalidInput(
            "the reader of this run looks for no attribute, and for nobody's appearance: there is nothing that people "
            "could correct. Make a task in the tab Label"
        )
    people = [one for one in readings if one.attribute is None]
    if people:
        if attributes:
            raise InvalidInput("people are asked how those in the pictures of this run look; leave attributes out")
        settings = list(dict.fromkeys(one.group for one in people))
        chosen = [setting] if setting else [one for one in settings if one != SINGLE] or settings
        if not set(chosen) <= set(settings):
            raise InvalidInput(f"this run has no setting {setting!r}; it has {', '.join(settings)}")
        return [one for one in people if one.group in chosen]
    names = list(dict.fromkeys(one.attribute.name for one in readings if one.attribute))
    if unknown := [name for name in attributes if name not in names]:
        raise InvalidInput(f"this run has no attribute {unknown[0]!r}; it has {', '.join(names)}")
    if len(set(attributes)) > MAX_POSITIONS:
        raise InvalidInput(f"people are asked about at most {MAX_POSITIONS} attributes at once; got {len(attributes)}")
    chosen = list(attributes) or names[:MAX_POSITIONS]
    return [one for one in readings if one.attribute and one.attribute.name in chosen]


def _sample(left: Sequence[str], readings: Sequence[Reading], n: int, by: str, seed: int) -> tuple[list[str], str]:
    """Which pictures, in their order, and how they were chosen in words."""
    rng = np.random.default_rng(seed)
    shuffled = [left[i] for i in rng.permutation(len(left))]
    if not by:
        chosen = set(shuffled[:n])
        return [image_id for image_id in left if image_id in chosen], "at random"
    strata = strata_of(readings, (by,))
    if not strata:
        names = dict.fromkeys(PEOPLE if one.attribute is None else one.attribute.name for one in readings)
        raise InvalidInput(f"pictures can be chosen by what the reader says of {', '.join(names)}; got {by!r}")
    by_stratum: dict[str, list[str]] = {}
    for image_id in shuffled:
        by_stratum.setdefault(strata.get(image_id, ""), []).append(image_id)
    chosen, in_order = set(), sorted(by_stratum.values(), key=len)
    for i, of_stratum in enumerate(in_order):  # the smallest first: what it lacks the others give
        chosen |= set(of_stratum[: -(-(n - len(chosen)) // (len(in_order) - i))])
    return [image_id for image_id in left if image_id in chosen], f"in equal parts by what the reader says of {by}"


def _task(readings: Sequence[Reading], raters_per_item: int, looks: Looks) -> Task:
    if readings[0].attribute is None:
        if "middle" in readings[0].positions:
            return three_task(looks, raters_per_item=raters_per_item)
        return pst_task(paired=readings[0].group != SINGLE, looks=looks, raters_per_item=raters_per_item)
    if (name := readings[0].attribute.name) in load_scales():
        about_scale = {SINGLE: (name, readings[0].attribute.positive)}
        return scale_task(name, title=TITLE, raters_per_item=raters_per_item, attributes=about_scale)
    about = dict.fromkeys((one.attribute.name, one.attribute.positive) for one in readings if one.attribute)
    keys: dict[str, tuple[str, str]] = {}
    for number, pair in enumerate(list(about)[:MAX_POSITIONS], start=1):
        keys[_position(pair[0], number, keys)] = pair
    return replace(
        own_task("?", ["yes", "no"], title=TITLE, raters_per_item=raters_per_item),
        questions={key: plain_question(sentence) for key, (_, sentence) in keys.items()},
        answers=tuple(Answer(key=key, label=label, shortcut=shortcut) for key, label, shortcut in _ANSWERS),
        attributes=keys,
    )


def _position(name: str, number: int, taken: dict[str, tuple[str, str]]) -> str:
    """What is stored for a question about this attribute: raters see it as a step."""
    key = answer_key(name) if any(letter.isascii() and letter.isalnum() for letter in name) else f"question_{number}"
    return key if key not in taken else f"{key[:36]}_{number}"


def _pictures(report: StudyReport, task: Task, sample: set[str]) -> list[TaskPicture]:
    if task.attributes:
        shown = {SINGLE: PERSON} if task.scale else {}
        return [TaskPicture(image_id=i, identities=shown, path=report.stored[i].path) for i in sorted(sample)]
    suitable = [one for one in candidates(report, task.kind) if one.image_id in sample]
    if counts := Counter(sample) - Counter(one.image_id for one in suitable):
        raise InvalidInput(f"{len(counts)} pictures of this run cannot be asked about: run it again")
    return list(task_pictures(suitable, task))


def task_values(made: CreatedTask) -> dict[str, Any]:
    """What programs are told of a new task; addresses go on from that of this app."""
    task = made.task
    return {
        "task": task.id, "run_id": task.run_id, "status": task.status, "asks_about": serves(task),
        "sample": task.sample, "questions": dict(task.questions), "answers": list(task.answer_keys),
        "raters_link": f"label?task={made.join_code}", "owner_key": made.key.text,
        "owner_link": f"?tab=label#owner={made.key.text}",
    }  # fmt: skip
