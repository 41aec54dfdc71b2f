"""Reports that were made earlier, in the tab of their study: the visitor's own, and examples."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.running.examples import list_examples, open_example
from bias_core.ui import messages
from bias_core.ui.links import query_of, read_link
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import model_hint
from bias_core.ui.study import form as study_form
from bias_core.ui.study.arms_form import apart
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.services import Services
    from bias_core.studies.kit.types import Design, StudyReport, StudySettings
    from bias_core.studies.reports.saved import SavedReport
    from bias_core.studies.running.examples import Example
    from bias_core.ui.study.arms_form import ArmsForm

Updates = dict[Any, Any]
_STORAGE_SECRET = "t2i-bias-explorer-settings-1"  # what is stored is not secret


class Opening:
    """What a study tab needs to show a report that was not made just now.

    Attributes
    ----------
    also : kinds of designs that it shows beside those of its studies.
    """

    also: ClassVar[Sequence[str]] = ()
    key: ClassVar[str]
    services: Services
    studies: ClassVar[Sequence[str]]
    designs: Mapping[str, Design]
    form: Mapping[str, Any]
    arms: ArmsForm
    own: Mapping[str, Any]
    remembered: ClassVar[Sequence[str]]
    parts: dict[str, Any]

    def build_memory(self) -> None:
        """What this browser chose last time; outside of the tabs, for a closed tab's is not read."""
        self.parts["remembered"] = gr.BrowserState({}, storage_key=f"t2i-bias-{self.key}", secret=_STORAGE_SECRET)

    def claims(self, design: Design) -> bool:
        """Whether this tab shows reports of such a design."""
        return design.kind in {*self.also, *(known.kind for known in self.designs.values())}

    def opened(self, saved: SavedReport, banner: str = "") -> Updates:
        """A saved report with its settings in the form, where they can stand there."""
        report = saved.report
        shown: Updates = self.finished(report)
        shown[self.parts["header"]] = banner + shown[self.parts["header"]]
        what = "an example" if banner else "a run"
        shown[self.parts["status"]] = messages.done_html(f"Opened: {what} of {when(saved.created)}.")
        above, _ = apart(report.settings)
        if report.design.name in self.designs and not above.images:
            shown |= self.form_of(self.designs[report.design.name], report.settings)
        return shown

    def opened_outputs(self) -> list[Any]:
        """Everything that :meth:`opened` changes."""
        return [*self.outputs(), *self.filled()]

    def form_of(self, design: Design, settings: StudySettings) -> Updates:
        """The form for these settings."""
        above, arms = apart(settings)
        values = study_form.form_values(design, above)
        hidden = dict.fromkeys(study_form.option_names(self.form), gr.update(visible=False))
        return {self.form[name]: value for name, value in (hidden | values).items()} | {
            self.form["condition"]: self._conditions(above.model, above.condition),
            self.form["images"]: None,
            self.form["labels"]: None,
            **({self.parts["use_own"]: False} if self.own else {}),
            **self.arms.show(arms),
        }

    def filled(self) -> list[Any]:
        """Everything that :meth:`form_of` changes."""
        use_own = [self.parts["use_own"]] if self.own else []
        return [*self.form.values(), *use_own, *self.arms.outputs()]

    def suited(self) -> list[Any]:
        """Everything that :meth:`suited_to` changes."""
        return [self.form["condition"], self.form["model"], self.parts["status"]]

    def suited_to(self, model: str) -> Updates:
        """The conditions of another model, and what choosing it means here."""
        return {
            self.form["condition"]: self._conditions(model, ""),
            self.form["model"]: gr.update(info=model_hint(self.services, model)),
            self.parts["status"]: messages.READY,
        }

    def _conditions(self, model: str, condition: str) -> Any:
        """The menu of a model's conditions."""
        info = self.services.model_info(model)
        chosen = condition if condition in info.conditions else next(iter(info.conditions), None)
        return gr.update(choices=list(info.conditions), value=chosen, visible=bool(info.conditions))

    def options_of(self, name: str, chosen: Mapping[str, Any] | None = None) -> Updates:
        """The options of a study in the form, and no others."""
        shown = study_form.option_updates(self.designs[name], chosen)
        hidden = gr.update(visible=False)
        return {self.form[key]: shown.get(key, hidden) for key in study_form.option_names(self.form)}

    def on_remember(self, *values: Any) -> dict[str, Any]:
        """What this browser should know next time."""
        return dict(zip(self.remembered, values, strict=True))

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:
        """Put back what this browser chose last time, or fill in what the address asks for."""
        kept = {k: str(v) for k, v in (remembered or {}).items() if k in study_form.REMEMBERED}
        link = read_link(query_of(request), {self.key: self.studies}, self.services)
        kept |= {k: v for k, v in link.values.items() if k in study_form.FIELDS}
        with user_errors():
            model = kept.get("model", self.form["model"].value)
            filled: Updates = {self.form[k]: v for k, v in kept.items()}
            if "study" in kept or "options" in link.values:
                name = kept.get("study", next(iter(self.designs)))
                filled |= self.options_of(name, link.values.get("options"))
            condition = self._conditions(model, kept.get("condition", "published"))
            arms = link.values.get("arms", ())
            shown = self.arms.show(arms) if arms else {}
            return filled | {self.form["condition"]: condition} | shown
        return {self.parts["count"]: ""}

    # Examples.

    @property
    def example_folder(self) -> Any:
        """Where examples come from."""
        return self.services.settings.assets_dir / "examples"

    def build_examples(self) -> None:
        """A quiet button for each shipped example, beside the presets."""
        self.parts["examples"] = {
            example: gr.Button(
                f"Open an example: {example.title}", size="sm", min_width=0, scale=0, variant="secondary",
                elem_classes="example", elem_id=f"{self.key}-example-{i}",
            )
            for i, example in enumerate(list_examples(self.key, self.example_folder))
        }  # fmt: skip

    def wire_examples(self) -> None:
        """Each opens its report; nothing is run."""
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        for example, button in self.parts["examples"].items():
            button.click(self._example(example), None, self.opened_outputs(), **quiet)

    def _example(self, example: Example) -> Any:
        def on_example() -> Updates:
            with user_errors() as problem:
                saved = open_example(example, self.example_folder)
                return self.opened(saved, example_html(saved))
            return {self.parts["status"]: messages.error_html(problem.message)}

        return on_example

    # What the tab itself has.

    def finished(self, report: StudyReport) -> Updates:
        """All of a report."""
        raise NotImplementedError

    def outputs(self) -> list[Any]:
        """Everything that :meth:`finished` changes."""
        raise NotImplementedError


def by_name(report: StudyReport) -> StudyReport:
    """The report as a visitor may see it: where the server keeps an upload is nobody's business."""
    arms = tuple(replace(arm, settings=_by_name(arm.settings)) for arm in report.arms)
    return replace(report, settings=_by_name(report.settings), arms=arms)


def _by_name(settings: StudySettings) -> StudySettings:
    arms = tuple(replace(arm, images=arm.images and Path(arm.images).name) for arm in settings.arms)
    return replace(settings, images=settings.images and Path(settings.images).name, arms=arms)


def example_html(saved: SavedReport) -> str:
    """What an example is, in place of a run of one's own."""
    report = saved.report
    settings, versions = report.settings, report.versions
    model = " · ".join(filter(None, (settings.model, settings.condition, versions.get("model_revision", ""))))
    names = ("bias_core", "torch", "diffusers", "transformers")
    shown = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    return render("example_note", created=when(saved.created), model=model, versions=shown)


def when(seconds: float) -> str:
    """A time of day in UTC, as 2026-11-21 09:30."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
