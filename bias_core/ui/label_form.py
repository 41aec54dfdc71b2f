"""The form that a labelling task is made with: its components, and the task that they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.tasks import association_task, own_task, pst_task
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
from bias_core.ui.study_form import as_text, as_whole

if TYPE_CHECKING:
    from bias_core.annotation.task_owner import TaskPicture
    from bias_core.annotation.tasks import Task, TaskKind
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
FIELDS = ("source", "kind", *NUMBERS, *WORDS, "gold", *TEXTS)
_SHOWN_FOR = {"who": ("pst_paired", "pst_single"), "a": ("association",), "b": ("association",)}
_SHOWN_FOR |= {"question": ("own",), "answers": ("own",)}
_MOST_PREVIEWED = 120


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
            [], label="Pictures of this run", info="Your runs; imports are measured in the tab Runs first",
            elem_id="label-source", min_width=280,
        )  # fmt: skip
        form["kind"] = gr.Dropdown(
            [(title, kind) for kind, title in KINDS.items()], value="pst_paired", label="What is asked",
            info="The papers' questions, or your own", elem_id="label-kind", min_width=280,
        )  # fmt: skip
    form["found"] = gr.HTML(elem_classes="quiet", elem_id="label-found")
    with gr.Row():
        form["n"] = _whole(0, "How many pictures", "0: all; else drawn at random")
        form["raters"] = _whole(3, "Raters for each picture", "Three give a majority")
        form["n_gold"] = _whole(0, "Attention checks", "Pictures whose answer is on record")
        form["seed"] = _whole(0, "Seed", "Of the random choice")
    _build_words(form)
    with gr.Accordion("What raters read", open=False, elem_classes="more", elem_id="label-texts"):
        form |= build_texts()
    with gr.Accordion("The pictures, and right answers of your own", open=False, elem_classes="more"):
        gr.HTML(
            '<p class="quiet">A picture whose right answer you know checks whether raters look. One a line, '
            "with the number below the picture: <code>4: feminine, masculine</code>.</p>"
        )
        form["gold"] = gr.Textbox("", label="Right answers", lines=2, elem_id="label-gold")
        form["preview"] = gr.Gallery(
            format="png", columns=10, height="auto", object_fit="contain", label="Pictures", show_label=False,
            allow_preview=False, buttons=[], elem_id="label-preview", elem_classes="grid", interactive=False,
        )  # fmt: skip
    return form


def _build_words(form: dict[str, Any]) -> None:
    """What some kinds of tasks need to know."""
    with gr.Row():
        form["who"] = gr.Textbox(
            "person", label="Whom they show", info="Where the run does not say", max_length=80
        )
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
    task = _task(kind, {"a": "a", "b": "b", "question": "?", "answers": "a\nb"}, {})
    return {name: getattr(task, name) for name in TEXTS}


def read_form(report: Report, values: Mapping[str, Any]) -> Asked:
    """The task that the form asks for, with its pictures.

    Raises
    ------
    InvalidInput
        A field cannot be used, or the run has no such pictures.
    """
    kind = values["kind"]
    if kind not in KINDS:
        raise InvalidInput(f"choose what is asked; got {kind!r}")
    n, seed, raters, n_gold = (as_whole(values[name], _COUNTED[name]) for name in NUMBERS)
    texts = {name: as_text(values[name]) for name in TEXTS}
    words = {name: as_text(values[name]) for name in WORDS}
    found = chosen(candidates(report, kind, words=(words["a"], words["b"])), n, seed)
    task = _task(kind, words, texts | {"raters_per_item": raters})
    gold = gold_from_record(found, task, n_gold, seed) if n_gold else {}
    gold |= gold_from_lines(as_text(values["gold"]), task)
    return Asked(task=task, pictures=task_pictures(found, task, who=words["who"], gold=gold))


_COUNTED = {
    "n": "number of pictures",
    "seed": "seed",
    "raters": "number of raters",
    "n_gold": "number of attention checks",
}


def _task(kind: TaskKind, words: Mapping[str, str], changes: Mapping[str, Any]) -> Task:
    if kind == "association":
        return association_task(words["a"], words["b"], **changes)
    if kind == "own":
        return own_task(words["question"], [a for a in words["answers"].splitlines() if a.strip()], **changes)
    return pst_task(paired=kind == "pst_paired", **changes)


def preview(found: Sequence[Candidate]) -> list[tuple[str, str]]:
    """The first pictures with their numbers, for a gallery."""
    return [(str(one.path), str(one.number)) for one in found[:_MOST_PREVIEWED]]


def words_of(report: Report) -> tuple[TaskKind, dict[str, str]]:
    """What such a run is usually asked, and its words, for the form."""
    kind = kind_of(report)
    words: dict[str, str] = {}
    if kind == "association" and isinstance(report, StudyReport) and report.pictures is not None:
        tests = {test["key"]: test for test in report.design.data.get("tests", ())}
        first = tests.get(report.pictures["test"].iloc[0] if "test" in report.pictures else "")
        words = {side: str(first[side]) for side in ("a", "b")} if first else {}
    return kind, words
