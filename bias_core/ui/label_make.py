"""Making a labelling task: which pictures, what is asked of them, and what the form then shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.history import list_runs, open_run
from bias_core.studies.label_sources import candidates, recorded_answers
from bias_core.ui import label_form, messages
from bias_core.ui.label_checks import LabelChecks
from bias_core.ui.label_form import FIELDS, TEXTS
from bias_core.ui.messages import user_errors
from bias_core.ui.study_form import as_text
from bias_core.ui.study_open import when
from bias_core.ui.study_tab import QUIET, Updates
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.saved_reports import Report
    from bias_core.ui.label_form import Asked

READY = '<p class="status quiet">Make a task from one of your runs, or open one with its owner’s key.</p>'


class LabelMaking:
    """The form of a new task."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.form: dict[str, Any] = {}
        self.checks = LabelChecks(self.report)
        self.status: Any = None

    def build(self) -> None:
        """The components."""
        self.form = label_form.build_form()
        self.checks.build(self.form)

    def inputs(self) -> list[Any]:
        """The form's components, in the order of ``FIELDS``."""
        return [self.form[name] for name in FIELDS]

    def source_outputs(self) -> list[Any]:
        """Everything that another source changes."""
        form = self.form
        own = [form[name] for name in ("source", "kind", "found", "preview", *label_form.WORDS, *TEXTS)]
        return [*own, *self.checks.outputs(), self.status]

    def wire(self, visitor: Any, status: Any) -> None:
        """The events; ``status`` is where the tab says what went wrong."""
        form, self.status = self.form, status
        changed = self.source_outputs()
        form["source"].focus(self.on_sources, visitor, form["source"], **QUIET)
        form["source"].input(self.on_source, [visitor, form["source"]], changed, **QUIET)
        asked = [visitor, form["source"], form["kind"], form["a"], form["b"]]
        form["kind"].input(self.on_kind, asked, changed, **QUIET)
        for word in ("a", "b"):
            form[word].blur(self.on_words, asked, [form["found"], form["preview"]], **QUIET)
        self.checks.wire(visitor)

    # Handlers.

    def on_sources(self, visitor: Visitor) -> Any:
        """The visitor's runs, newest first."""
        return gr.update(choices=self._sources(visitor))

    def on_source(self, visitor: Visitor, run_id: str | None) -> Updates:
        """What such a run is usually asked, and its pictures."""
        with user_errors() as problem:
            kind, words = label_form.words_of(self.report(visitor, run_id))
            told = self.on_kind(visitor, run_id, kind, words.get("a", ""), words.get("b", ""))
            filled = {self.form[name]: gr.update(value=word, visible=True) for name, word in words.items()}
            return told | filled | {self.form["kind"]: kind, self.status: READY}
        return {self.status: messages.error_html(problem.message)}

    def on_kind(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The texts and words of another kind of task, and the pictures that suit it."""
        form = self.form
        told: Updates = self.checks.cleared()
        told |= {form[name]: text for name, text in label_form.usual_texts(kind).items()}
        told |= {form[name]: update for name, update in label_form.shown_words(kind).items()}
        return told | self.on_words(visitor, run_id, kind, a, b)

    def on_words(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The pictures that suit this kind and these words, with their numbers."""
        form = self.form
        with user_errors() as problem:
            found = candidates(self.report(visitor, run_id), kind, words=(as_text(a), as_text(b)))
            task = label_form.task_asked(kind, label_form.SAMPLE | {"a": as_text(a), "b": as_text(b)})
            n_known = sum(bool(recorded_answers(one, task)) for one in found)
            known = f" Of {n_known:,} the right answer is on record." if n_known else ""
            says = f"<p>{len(found):,} pictures of this run can be asked about.{known}</p>"
            return {form["found"]: says, form["preview"]: label_form.preview(found)}
        return {form["found"]: f"<p>{escape(problem.message)}</p>", form["preview"]: []}

    # For other parts of the page.

    def labelling(self, visitor: Visitor, run_id: str) -> Updates:
        """The form as if this run had been chosen in it."""
        chosen = gr.update(choices=self._sources(visitor), value=run_id)
        return {self.form["source"]: chosen} | self.on_source(visitor, run_id)

    def asked(self, visitor: Visitor, values: Sequence[Any]) -> Asked:
        """The task that the form asks for, with its pictures; InvalidInput where it cannot be made."""
        form = dict(zip(FIELDS, values, strict=True))
        return label_form.read_form(self.report(visitor, form["source"]), form)

    def report(self, visitor: Visitor, run_id: str | None) -> Report:
        """A run of this visitor."""
        if not run_id:
            raise InvalidInput("choose one of your runs; its pictures are what raters will see")
        return open_run(self.services, visitor.key, run_id).report

    def _sources(self, visitor: Visitor) -> list[tuple[str, str]]:
        lines = [line for line in list_runs(self.services, visitor.key) if line.saved]
        return [(f"{line.title} · {line.asked} · {when(line.created)}", line.run_id) for line in lines]
