"""A judge model answers a labelling task, marked as a machine; it never counts as a person."""

import io
from collections.abc import Callable, Generator
from functools import partial

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.labels.label_store import LabelStore
from bias_core.labels.report import Labels
from bias_core.labels.results import judgements_frame, keep_judgements, task_items
from bias_core.labels.task_owner import OwnerKey, owned_task, task_picture_png
from bias_core.run.attribute_scores import INSTRUCTION, Picture, ask_judge, choose_calls
from bias_core.study.classifiers import Reader, fetch_reader
from bias_core.study.label_tasks import Item, Task
from bias_core.study.types import Progress
from bias_core.study_services import StudyServices


def judge_task(
    services: StudyServices, store: LabelStore, key: OwnerKey, judge: str, *, check: Callable[[], None]
) -> Generator[Progress, None, int]:
    """Let a judge answer a task, store its answers, and return the number of items that it answered.

    For each position, the judge is asked whether each of the task's answers is right; the likeliest yes is its answer.
    Without a yes, its answer is "cannot identify" ("unclear" for four looks), or empty if the task has none
    of these.
    Attention checks are for people, so it gets none. InvalidInput if no judge is named.
    """
    if not judge:
        raise InvalidInput("choose a judge, or type org/name of a vision-language model")
    fetch_reader(Reader(role="judge", name=judge), services, "this task")
    task, _ = owned_task(store, key)
    ordinary = [item for item in task_items(store, key) if item.gold is None]
    pictures: dict[tuple[str, str], Picture] = {
        (item.picture, question): partial(_opened, store, item.picture)
        for item in ordinary
        for questions in _list_questions(task, item).values()
        for question in questions
    }
    answers = yield from ask_judge(services, judge, "the judge answers", pictures, check)
    choices = {}
    for item in ordinary:
        item_answers = {
            position: _likeliest_answer(task, np.array([answers[item.picture, question] for question in questions]))
            for position, questions in _list_questions(task, item).items()
        }
        if all(item_answers.values()) or any(answer and task.answer(answer).whole for answer in item_answers.values()):
            choices[item.id] = {position: answer for position, answer in item_answers.items() if answer}
    keep_judgements(store, key, services.judge(judge).name, choices)
    return len(choices)


def judge_labels(store: LabelStore, key: OwnerKey) -> dict[str, Labels]:
    """Judges' answers to a task, by judge, for the comparison with people's."""
    frame = judgements_frame(store, key)
    return {
        str(rater): dict(
            zip(zip(rater_frame["image_id"], rater_frame["position"], strict=True), rater_frame["answer"], strict=True)
        )
        for rater, rater_frame in frame.groupby("rater", sort=False)
    }


def _list_questions(task: Task, item: Item) -> dict[str, list[str]]:
    """Yes-or-no questions for each position, one per answer."""
    return {
        position: [f"{question} Is the answer “{answer.label}”? {INSTRUCTION}" for answer in task.answers]
        for position, question in task.questions_about(item).items()
    }


def _likeliest_answer(task: Task, answers: np.ndarray) -> str:
    """The answer with the likeliest yes; "" without any."""
    says_yes = choose_calls(answers) == 0
    if says_yes.any():
        return task.answer_keys[int(np.where(says_yes, answers[:, 0], -1.0).argmax())]
    return task.untold


def _opened(store: LabelStore, picture: str) -> Image.Image:
    with Image.open(io.BytesIO(task_picture_png(store.pictures, picture))) as opened:
        return opened.convert("RGB")
