"""The form that a labelling task is made with: its components, and the task that they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.tasks import MAX_JOINS, Task, association_task, own_task, pst_task
from bias_core.errors import InvalidInput
from bias_core.studies.label_sources import (
    candidates,
    chosen,
    gold_from_lines,
    gold_from_record,
    kind_of,
    task_pictures,
)
from bias_core.studies.study_types import StudyReport
from bias_core.ui.study_form import as_number, as_text, as_whole

if TYPE_CHECKING:
    from bias_core.annotation.task_owner import TaskPicture
    from bias_core.annotation.tasks import TaskKind
    from bias_core.studies.label_sources import Candidate
    from bias_core.studies.saved_reports import Report

KINDS: Mapping[TaskKind, str] = {
    "pst_paired": "Perceived gender of two people, left and right",
    "pst_single": "Perceived gender of one person",
    "association": "Which of two words a picture is closer to",
    "own": "A question of your own",
}
TEXTS = ("title", "instructions", "consent", "content_note")
_NAMES = {
    "title": "Title",
    "instructions": "Instructions",
    "consent": "Consent",
    "content_note": "Note on content",
}
NUMBERS = ("n", "seed", "raters", "n_gold")
WORDS = ("who", "a", "b", "question", "answers")
FIELDS = ("source", "kind", *NUMBERS, "share", *WORDS, "gold", *TEXTS)
_SHOWN_FOR = {"who": ("pst_paired", "pst_single"), "a": ("association",), "b": ("association",)}
_SHOWN_FOR |= {"question": ("own",), "answers": ("own",)}
_MOST_PREVIEWED = 120
SAMPLE = {"a": "a", "b": "b", "question": "?", "answers": "a\nb"}
"""Words that make a task of any kind."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A task and its pictures, as the form has them."""

    task: Task
    pictures: Sequence[TaskPicture]


def build_form() -> dict[str, Any]:
    """The components by the names of ``FIELDS``, and ``found``, ``preview``."""
    form: dict[str, Any] = {}
    with gr.Row():
        form["source"] = gr.Dropdown(
            [], label="Pictures of this run", info="Yours to choose from; bring your own pictures in Runs",
            elem_id="label-source", min_width=280,
        )  # fmt: skip
        form["kind"] = gr.Dropdown(
            [(title, kind) for kind, title in KINDS.items()], value="pst_paired", label="What is asked",
            info="The papers' questions, or your own", elem_id="label-kind", min_width=280,
        )  # fmt: skip
    form["found"] = gr.HTML(elem_classes="quiet", elem_id="label-found")
    _build_words(form)
    with gr.Row():
        form["n"] = _whole(0, "How many pictures", "0: all; else at random")
        form["raters"] = _whole(3, "Raters for each picture", "Three give a majority")
        form["n_gold"] = _whole(0, "Attention checks", "At random, of those on record")
        form["share"] = build_share()
        form["seed"] = _whole(0, "Seed", "Of what is random")
    with gr.Accordion("What raters read", open=False, elem_classes="more", elem_id="label-texts"):
        form |= build_texts()
    return form


def build_share(value: float = 10) -> Any:
    """How many of the pictures that a rater sees are attention checks."""
    return gr.Number(
        value, label="Checks among the pictures, %", info="Until a rater has seen them all",
        minimum=0, maximum=99, min_width=140,
    )  # fmt: skip


def _build_words(form: dict[str, Any]) -> None:
    """What some kinds of tasks need to know."""
    with gr.Row():
        form["who"] = gr.Textbox(
            "", label="Whom they show", info="Empty: whom the run or its prompts name, else “person”",
            max_length=80, elem_id="label-who", min_width=300,
        )  # fmt: skip
        form["a"] = gr.Textbox("pleasant", label="First word", max_length=80, visible=False)
        form["b"] = gr.Textbox("unpleasant", label="Second word", max_length=80, visible=False)
        form["question"] = gr.Textbox(
            "", label="Question", max_length=300, visible=False, elem_id="label-question", min_width=300
        )
        form["answers"] = gr.Textbox(
            "yes\nno\ncannot tell",
            label="Answers, one a line",
            lines=3,
            visible=False,
            elem_id="label-answers",
        )


def build_limits() -> dict[str, Any]:
    """Boxes for the numbers of a task that can be changed later, in the order of :func:`read_limits`."""
    with gr.Row():
        return {
            "gold_share": build_share(),
            **{
                name: gr.Number(
                    getattr(Task, name), label=label, info=info, precision=0, minimum=1, maximum=MAX_JOINS,
                    min_width=140,
                )
                for name, (label, info) in _JOINS.items()
            },
        }  # fmt: skip


def limits_of(task: Task) -> dict[str, float]:
    """What stands in :func:`build_limits` for this task."""
    return {"gold_share": round(100 * task.gold_share, 4), **{name: getattr(task, name) for name in _JOINS}}


def read_limits(values: Sequence[Any]) -> dict[str, Any]:
    """The fields of a task that :func:`build_limits` asks for; those not given stay as they are."""
    share, *joins = values
    given = zip(_JOINS, joins, strict=False)
    limits = {name: as_whole(value, name.replace("_", " ")) for name, value in given}
    return {"gold_share": read_share(share), **limits}


_JOINS = {
    "joins_per_address": ("Raters an hour from one address", "A class or an office shares one"),
    "joins_per_hour": ("Raters an hour in all", "Who joins over the link"),
}


def build_texts() -> dict[str, Any]:
    """Boxes for what raters read, by the names of ``TEXTS``."""
    return {
        name: gr.Textbox(label=_NAMES[name], lines=1 if name == "title" else 3, max_lines=12)
        for name in TEXTS
    }


def _whole(value: int, label: str, info: str) -> Any:
    return gr.Number(value, label=label, info=info, precision=0, minimum=0, min_width=140)


def shown_words(kind: TaskKind) -> dict[str, Any]:
    """Which of the words are asked for."""
    return {name: gr.update(visible=kind in kinds) for name, kinds in _SHOWN_FOR.items()}


def usual_texts(kind: TaskKind) -> dict[str, str]:
    """The papers' texts for such a task."""
    task = task_asked(kind, SAMPLE)
    return {name: getattr(task, name) for name in TEXTS}


def read_form(report: Report, values: Mapping[str, Any]) -> Asked:
    """The task that the form asks for, with its pictures.

    Raises
    ------
    InvalidInput
        A field cannot be used, or the run has no such pictures.
    """
    kind = values["kind"]
    if kind not in tuple(KINDS):
        raise InvalidInput(f"choose what is asked; got {kind!r:.80}")
    n, seed, raters, n_gold = (as_whole(values[name], _COUNTED[name]) for name in NUMBERS)
    if seed < 0:
        raise InvalidInput(f"the seed is 0 or more; got {seed}")
    texts = {name: as_text(values[name]) for name in TEXTS}
    words = {name: as_text(values[name]) for name in WORDS}
    task = task_asked(
        kind, words, texts | {"raters_per_item": raters, "gold_share": read_share(values["share"])}
    )
    found = candidates(report, kind, words=(words["a"], words["b"]))
    gold = gold_from_lines(as_text(values["gold"]), task)
    if n_gold:
        gold = gold_from_record([one for one in found if one.number not in gold], task, n_gold, seed) | gold
    asked = {one.number for one in chosen([one for one in found if one.number not in gold], n, seed)}
    if gold and not task.gold_share:
        raise InvalidInput("attention checks at 0 % of the pictures are never shown: give a share above 0")
    shown = [one for one in found if one.number in asked | set(gold)]
    return Asked(task=task, pictures=task_pictures(shown, task, who=words["who"], gold=gold))


def read_share(value: Any) -> float:
    """The form's per cent of attention checks as a share."""
    return as_number(value, "share of attention checks") / 100


_COUNTED = {
    "n": "number of pictures",
    "seed": "seed",
    "raters": "number of raters",
    "n_gold": "number of attention checks",
}


def task_asked(kind: TaskKind, words: Mapping[str, str], changes: Mapping[str, Any] = {}) -> Task:
    """The task of this kind with these of ``WORDS``; ``changes`` are other fields of it."""
    if kind == "association":
        return association_task(words["a"], words["b"], **changes)
    if kind == "own":
        return own_task(words["question"], [a for a in words["answers"].splitlines() if a.strip()], **changes)
    return pst_task(paired=kind == "pst_paired", **changes)


def preview(found: Sequence[Candidate]) -> list[tuple[str, str]]:
    """The first pictures with their numbers, for a gallery."""
    return [
        (str(one.path), " · ".join([str(one.number), *filter(None, one.identities.values())]))
        for one in found[:_MOST_PREVIEWED]
    ]


def words_of(report: Report) -> tuple[TaskKind, dict[str, str]]:
    """What such a run is usually asked, and its words, for the form."""
    kind = kind_of(report)
    words: dict[str, str] = {}
    if kind == "association" and isinstance(report, StudyReport) and report.pictures is not None:
        tests = {test["key"]: test for test in report.design.data.get("tests", ())}
        first = tests.get(report.pictures["test"].iloc[0] if "test" in report.pictures else "")
        words = {side: str(first[side]) for side in ("a", "b")} if first else {}
    return kind, words
