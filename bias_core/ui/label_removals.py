"""What an owner takes out, as a part of the Label tab: a rater's answers, or the whole task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.task_owner import delete_task, exclude_rater, owned_task
from bias_core.errors import InvalidInput
from bias_core.ui import messages
from bias_core.ui.label_login import owner_of, remembered_tasks, task_choices
from bias_core.ui.messages import user_errors
from bias_core.ui.study_form import as_text
from bias_core.ui.study_tab import QUIET, Updates
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.annotation.collected import TaskProgress
    from bias_core.services import Services

_EXCLUDE = (
    '<p class="quiet">An excluded rater’s answers stay and are exported apart, in a file of their own; they '
    "leave agreement, majorities and every score, and other raters are asked instead. The rater is told. You "
    "can take them back in at any time.</p>"
)
_DELETE = (
    '<p class="quiet">Its pictures, raters and answers are deleted for good, and every link to it stops '
    "working. <b>This cannot be undone:</b> take the zip first if you may need it.</p>"
)


class LabelRemovals:
    """Exclude a rater, or delete the task.

    Parameters
    ----------
    show : gives all that the owner sees, as after any other change.
    """

    def __init__(self, services: Services, show: Callable[..., Updates]) -> None:
        self.services, self.show = services, show
        self.parts: dict[str, Any] = {}

    def build(self) -> None:
        """The components."""
        parts = self.parts
        with gr.Accordion("Exclude a rater", open=False, elem_classes="more", elem_id="label-excluding"):
            gr.HTML(_EXCLUDE)
            with gr.Row(elem_classes="tools"):
                parts["rater"] = gr.Dropdown([], label="Rater", elem_id="label-rater", min_width=280)
                parts["exclude"] = gr.Button("Exclude", scale=0, min_width=140, elem_id="label-exclude")
                parts["include"] = gr.Button("Take back in", scale=0, min_width=140, elem_id="label-include")
        with gr.Accordion("Delete this task", open=False, elem_classes="more", elem_id="label-deleting"):
            gr.HTML(_DELETE)
            with gr.Row(elem_classes="tools"):
                parts["title"] = gr.Textbox(
                    "", label="Type the task’s title to confirm", max_length=300, elem_id="label-confirm",
                    min_width=280,
                )  # fmt: skip
                parts["delete"] = gr.Button(
                    "Delete the task for good", variant="stop", scale=0, min_width=220, elem_id="label-delete"
                )

    def outputs(self) -> list[Any]:
        """What :meth:`offer` changes."""
        return [self.parts["rater"], self.parts["title"]]

    def offer(self, progress: TaskProgress) -> Updates:
        """The raters of the task that is shown now."""
        choices = [
            (f"{one.rater} · {one.n_answered:,} answers{' · excluded' * one.excluded}", one.rater)
            for one in progress.raters
        ]
        return {self.parts["rater"]: gr.update(choices=choices, value=None), self.parts["title"]: ""}

    def wire(self, tab: dict[str, Any], owned: list[Any]) -> None:
        """The events; ``tab`` has the states of the tab, ``owned`` is all that shows the task."""
        parts, self.tab = self.parts, tab
        asked = [tab["visitor"], tab["memory"], tab["key"]]
        for name, excluded in (("exclude", True), ("include", False)):
            parts[name].click(self._excluder(excluded), [*asked, parts["rater"]], owned, **QUIET)
        parts["delete"].click(self.on_delete, [*asked[1:], parts["title"]], owned, **QUIET)

    # Handlers.

    def _excluder(self, excluded: bool) -> Any:
        def on_exclude(
            visitor: Visitor,
            memory: dict[str, str] | None,
            key: str,
            rater: str | None,
            profile: gr.OAuthProfile | None = None,
        ) -> Updates:
            with user_errors() as problem:
                if not rater:
                    raise InvalidInput("choose a rater; the table above says how each of them did")
                exclude_rater(self.services.labels, owner_of(key, profile), rater, excluded=excluded)
                says = "counts in nothing any more; their answers stay" if excluded else "counts again"
                return self.show(visitor, memory, key, profile, f"{rater} {says}.")
            return {self.tab["status"]: messages.error_html(problem.message)}

        return on_exclude

    def on_delete(
        self,
        memory: dict[str, str] | None,
        key: str,
        title: str,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Delete the task, and forget its key in this browser."""
        tab = self.tab
        with user_errors() as problem:
            owner = owner_of(key, profile)
            task, _ = owned_task(self.services.labels, owner)
            if as_text(title) != task.title.strip():
                raise InvalidInput(f"to delete this task type its title, “{task.title}”")
            n_answers = delete_task(self.services.labels, owner)
            known = {k: name for k, name in remembered_tasks(memory).items() if k != owner.text}
            return {
                tab["status"]: messages.done_html(f"“{task.title}” and {n_answers:,} answers are deleted."),
                tab["key"]: "", tab["report"]: None, tab["memory"]: known,
                tab["owned"]: gr.update(visible=False), self.parts["title"]: "",
                tab["mine"]: gr.update(choices=task_choices(self.services, known, profile), value=None),
            }  # fmt: skip
        return {tab["status"]: messages.error_html(problem.message)}
