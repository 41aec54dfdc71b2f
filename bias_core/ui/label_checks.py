"""Attention checks of a task to be made: the owner marks pictures whose answer they know, by clicking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.tasks import PICTURE, checked_choices
from bias_core.errors import InvalidInput
from bias_core.studies.label_sources import candidates, gold_from_lines, gold_lines, recorded_answers
from bias_core.ui import messages
from bias_core.ui.label_form import task_asked
from bias_core.ui.messages import user_errors
from bias_core.ui.study_form import as_text, as_whole
from bias_core.ui.study_tab import QUIET, Updates
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.annotation.tasks import Task
    from bias_core.studies.saved_reports import Report

_TOLD = (
    '<p class="quiet">A picture whose right answer you know checks whether raters look; it comes on top of '
    "the others and counts in nothing else. Press a picture, say what is right, and mark it. The calibration "
    "world's own pictures have their answer on record: it is filled in, and the number of checks above takes "
    "some of them at random.</p>"
)
_MOST_POSITIONS = 2
_ASKED = ("kind", "a", "b", "question", "answers", "gold")


class LabelChecks:
    """The pictures of the chosen run, one that is pressed, and the list of right answers."""

    def __init__(self, report: Callable[[Visitor, str | None], Report]) -> None:
        self.report = report
        self.parts: dict[str, Any] = {}

    def build(self, form: dict[str, Any]) -> None:
        """The components; ``preview`` and ``gold`` join the form."""
        parts = self.parts
        parts["picked"] = gr.State(0)
        with gr.Accordion(
            "Pictures, and attention checks of your own", open=False, elem_classes="more",
            elem_id="label-checks",
        ):  # fmt: skip
            gr.HTML(_TOLD)
            form["preview"] = gr.Gallery(
                format="png", columns=10, height="auto", object_fit="contain", label="Pictures",
                show_label=False, allow_preview=False, buttons=[], elem_id="label-preview",
                elem_classes="grid", interactive=False,
            )  # fmt: skip
            parts["says"] = gr.HTML(elem_id="label-picked")
            with gr.Column(visible=False, elem_id="label-marking") as parts["marking"]:
                with gr.Row():
                    parts["said"] = [
                        gr.Radio([], label="Right answer", min_width=260, elem_id=f"label-right-{i}")
                        for i in range(_MOST_POSITIONS)
                    ]
                with gr.Row(elem_classes="tools"):
                    parts["mark"] = gr.Button(
                        "Mark as a check", size="sm", scale=0, min_width=180, elem_id="label-mark"
                    )
                    parts["unmark"] = gr.Button("Not a check", size="sm", scale=0, min_width=140)
            form["gold"] = gr.Textbox(
                "", label="Right answers", info="One picture a line, as 4: feminine, masculine", lines=2,
                elem_id="label-gold",
            )  # fmt: skip
        self.form = form

    def outputs(self) -> list[Any]:
        """What :meth:`cleared` changes."""
        return [self.form["gold"], self.parts["marking"], self.parts["says"], self.parts["picked"]]

    def cleared(self) -> Updates:
        """Other pictures or another question: what was marked is of the old ones."""
        parts = self.parts
        return {
            self.form["gold"]: "", parts["marking"]: gr.update(visible=False), parts["says"]: "",
            parts["picked"]: 0,
        }  # fmt: skip

    def wire(self, visitor: Any) -> None:
        """The events."""
        parts, form = self.parts, self.form
        asked = [form[name] for name in _ASKED]
        told = [parts["picked"], parts["says"], parts["marking"], *parts["said"]]
        form["preview"].select(self.on_pick, [visitor, form["source"], *asked], told, **QUIET)
        marked = [form["gold"], parts["says"]]
        inputs = [parts["picked"], *asked]
        parts["mark"].click(self.on_mark, [*inputs, *parts["said"]], marked, **QUIET)
        parts["unmark"].click(self.on_mark, inputs, marked, **QUIET)

    # Handlers.

    def on_pick(
        self,
        visitor: Visitor,
        run_id: str | None,
        kind: Any,
        a: str,
        b: str,
        question: str,
        answers: str,
        gold: str,
        event: gr.SelectData,
    ) -> Updates:
        """Ask for the right answer of a picture that was pressed; what is known of it is filled in."""
        parts = self.parts
        with user_errors() as problem:
            task = _task(kind, a, b, question, answers)
            found = candidates(self.report(visitor, run_id), kind, words=(as_text(a), as_text(b)))
            place = as_whole(event.index, "picture's place")
            if not 0 <= place < len(found):
                raise InvalidInput("these pictures have changed: choose the run again")
            one = found[place]
            known = gold_from_lines(as_text(gold), task).get(one.number) or recorded_answers(one, task)
            whom = ", ".join(filter(None, one.identities.values()))
            recorded = " Its answer is on record." if recorded_answers(one, task) else ""
            says = f"<p><b>Picture {one.number}</b>{escape(f' ({whom})' if whom else '')}.{recorded}</p>"
            return {
                parts["picked"]: one.number, parts["says"]: says, parts["marking"]: gr.update(visible=True),
                **dict(zip(parts["said"], _radios(task, known), strict=True)),
            }  # fmt: skip
        return {
            parts["says"]: messages.error_html(problem.message),
            parts["marking"]: gr.update(visible=False),
        }

    def on_mark(
        self,
        number: int,
        kind: Any,
        a: str,
        b: str,
        question: str,
        answers: str,
        gold: str,
        *said: str | None,
    ) -> Updates:
        """Put a picture with its right answer on the list; without an answer, take it off."""
        with user_errors() as problem:
            task = _task(kind, a, b, question, answers)
            marked = gold_from_lines(as_text(gold), task)
            number = as_whole(number, "picture's number")
            marked.pop(number, None)
            if said:
                given = {p: answer for p, answer in zip(task.positions, said, strict=False) if answer}
                marked[number] = checked_choices(task, given)
            what = "is a check now" if said else "is no check"
            says = f"Picture {number} {what}; {len(marked):,} marked in all."
            return {self.form["gold"]: gold_lines(marked), self.parts["says"]: messages.done_html(says)}
        return {self.parts["says"]: messages.error_html(problem.message)}


def _task(kind: Any, a: str, b: str, question: str, answers: str) -> Task:
    words = {"a": a, "b": b, "question": question, "answers": answers}
    return task_asked(kind, {name: as_text(word) for name, word in words.items()})


def _radios(task: Task, known: Any) -> Sequence[Any]:
    """A question for each position, with what is known of it."""
    choices = [(answer.label, answer.key) for answer in task.answers]
    asked = [
        gr.update(
            label="Right answer" if position == PICTURE else f"Right answer, {position}",
            choices=choices,
            value=known.get(position),
            visible=True,
        )
        for position in task.positions[:_MOST_POSITIONS]
    ]
    return [*asked, *[gr.update(visible=False, value=None)] * (_MOST_POSITIONS - len(asked))]
