"""The Compare tab: a concept drawn in two to four ways on the same seeds, and what differs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.catalogue import load_attribute_sets, suggest_set
from bias_core.studies.compare import KIND, compare
from bias_core.studies.compare_export import to_command, to_python
from bias_core.studies.compare_plan import check_number, compare_from_dict, plan_compare
from bias_core.studies.compare_report import summary
from bias_core.studies.compare_types import MOST_ARMS, Arm, CompareSettings
from bias_core.studies.study_types import StudyReport
from bias_core.ui import compare_form, compare_view, messages
from bias_core.ui.compare_form import FIELDS, INTERVENTION
from bias_core.ui.form import attribute_rows, words_for
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import model_hint
from bias_core.ui.page import ABSOLUTE_JS
from bias_core.ui.study_form import Preset
from bias_core.ui.study_pictures import wire_pictures
from bias_core.ui.study_tab import QUIET, StudyTab, Updates
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.studies.progress import Progress
    from bias_core.studies.saved_reports import SavedReport

_GENDER = {"attribute_a": "male", "attribute_b": "female"}
_REMEMBERED = tuple(name for name in FIELDS if name not in ("attributes", "force"))


def _preset(name: str, says: str, concept: str, arms: Sequence[Arm], **settings: Any) -> Preset:
    attributes = suggest_set(concept, load_attribute_sets()).attributes
    asked = CompareSettings(concept=concept, arms=tuple(arms), attributes=attributes, **settings)
    return Preset(name=name, study=KIND, says=says, settings=asdict(asked))


class CompareTab(StudyTab):
    """Two to four arms on the same seeds."""

    key: ClassVar = "compare"
    title: ClassVar = "Compare"
    question: ClassVar = "What changes when the model, the condition or the prompt changes, and only that?"
    caution: ClassVar = (
        "Every arm draws the same concept on the same seeds, so that chance is shared and the difference is "
        "tested seed by seed. A difference says that the arms differ for this reader; it does not say which "
        "is right, and an arm that is nearer to the world in one attribute can be further in another."
    )
    studies: ClassVar = ()
    also: ClassVar = (KIND,)
    presets: ClassVar = (
        _preset(
            "Fair against published: doctor",
            "The same model with and without the bias that was planted",
            "doctor",
            [Arm(condition="fair"), Arm(condition="published")],
            n_attribute_images=12,
            **_GENDER,
        ),
        _preset(
            "Plain against fairness-intervened prompt: CEO",
            "Words that ask for fairness, after Table 5 of the paired stereotype test",
            "CEO",
            [Arm(name="plain"), Arm(name="intervened", template=INTERVENTION)],
        ),
        _preset(
            "Renderer against diffusion: doctor",
            "Two models of the same world: one draws the planted rates, one learned them",
            "doctor",
            [Arm(name="renderer"), Arm(name="diffusion", model="calibration-diffusion")],
            n_images=16,
        ),
        _preset(
            "Fair, published, extreme: nurse",
            "Three arms on the plane of stereotype and variety",
            "nurse",
            [Arm(condition=condition) for condition in ("fair", "published", "extreme")],
            n_images=30,
        ),
    )

    # Layout.

    def _build_ask(self) -> None:
        parts = self.parts
        with gr.Row(elem_classes="chips"):
            parts["chips"] = [
                gr.Button(preset.name, size="sm", min_width=0, scale=0, elem_id=f"{self.key}-preset-{i}")
                for i, preset in enumerate(self.presets)
            ]
            self.build_examples()
        self.form |= compare_form.build_form(self.key, self._preset(0), self.services)
        with gr.Row(elem_classes="tools"):
            parts["run"] = gr.Button(
                "Draw and compare", variant="primary", elem_id=f"{self.key}-run", scale=0, min_width=200
            )
            parts["stop"] = gr.Button(
                "Stop", variant="stop", elem_id=f"{self.key}-stop", scale=0, min_width=200, visible=False
            )
            parts["count"] = gr.HTML(elem_classes="quiet", elem_id=f"{self.key}-count")

    def build_extra(self) -> dict[str, Any]:
        """Paired pictures: which arms, which seed, the slider, the strip."""
        extra: dict[str, Any] = {}
        with gr.Column(elem_classes="card", elem_id=f"{self.key}-pairs"):
            gr.HTML("<h3>The same seed, drawn both ways</h3>")
            with gr.Row():
                extra["pair"] = gr.Dropdown(label="Arms", elem_id=f"{self.key}-pair", min_width=200)
                extra["seed"] = gr.Dropdown(
                    label="Seed, the most changed first", elem_id=f"{self.key}-one-seed", min_width=260
                )
            extra["slide"] = gr.HTML(js_on_load=compare_view.SLIDE_JS, elem_id=f"{self.key}-slide")
            extra["strip"] = gr.HTML(js_on_load=compare_view.SLIDE_JS, elem_id=f"{self.key}-strip")
        return extra

    # Wiring.

    def inputs(self) -> list[Any]:
        """The form's components in the order of ``FIELDS``."""
        return [self.form[name] for name in FIELDS]

    def filled(self) -> list[Any]:
        """Everything that a preset or an opened run changes."""
        return [*self.inputs(), self.form["set"], *(self.form[f"row_{k}"] for k in range(MOST_ARMS))]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, form = self.parts, self.form
        self._wire_run(parts["run"].click)
        self._wire_run(self.on_any("click", parts["chips"], self.on_preset, None, self.filled()).then)
        parts["stop"].click(self.on_stop, parts["visitor"], parts["status"], queue=False, **QUIET)
        layout = [form[name] for name in compare_form.shown_fields("Condition", 2)]
        laid_out = [form["differs"], form["n_arms"]]
        self.on_any("input", laid_out, self.on_layout, laid_out, layout)
        form["set"].input(
            self.on_set, form["set"], [form[n] for n in ("attributes", "attribute_a", "attribute_b")], **QUIET
        )
        for end in ("", *(f"_{k}" for k in range(MOST_ARMS))):
            changed = [form[f"condition{end}"], form[f"model{end}"], parts["status"]]
            form[f"model{end}"].input(self._on_model(end), form[f"model{end}"], changed, **QUIET)
        counted = [form[n] for n in ("n_images", "n_arms", "n_attribute_images", "differs", "concept")]
        self.on_any("change", counted, self.on_count, self.inputs(), parts["count"])
        self.wire_take(*(parts[name] for name in ("findings", "figures", "tables", "takes")))
        kept = [form[name] for name in _REMEMBERED]
        parts["run"].click(self.on_remember, kept, parts["remembered"], queue=False, **QUIET)
        demo.load(self.on_load, parts["remembered"], [*self.filled(), parts["count"]], **QUIET)
        parts["link"].change(None, parts["link"], parts["link"], js=ABSOLUTE_JS, **QUIET)
        wire_pictures(self.pictures)
        self.wire_examples()
        self.wire_extra()

    def wire_extra(self) -> None:
        """Choosing arms and seeds."""
        extra, report = self.extra, self.parts["report"]
        shown = list(extra.values())
        extra["pair"].input(self.on_pair, [report, extra["pair"]], shown, **QUIET)
        extra["seed"].input(self.on_seed, [report, extra["pair"], extra["seed"]], shown, **QUIET)
        extra["strip"].select(self.on_strip, [report, extra["pair"]], shown, **QUIET)

    # Handlers.

    def preset_updates(self, place: int) -> Updates:
        """The form as a preset has it."""
        return self.form_updates(self._preset(place))

    def on_layout(self, differs: str, n_arms: int) -> Updates:
        """The fields that each arm has of its own."""
        shown = compare_form.shown_fields(differs, n_arms)
        return {self.form[name]: gr.update(visible=visible) for name, visible in shown.items()}

    def on_set(self, key: str) -> Updates:
        """The attributes of another set."""
        form = self.form
        with user_errors():
            chosen = compare_form.chosen_set(key)
            words = words_for(chosen) if chosen.attributes else ("", "")
            return {
                form["attributes"]: attribute_rows(chosen.attributes),
                form["attribute_a"]: words[0],
                form["attribute_b"]: words[1],
            }
        return {form["attributes"]: gr.skip()}

    def _on_model(self, end: str) -> Any:
        def on_model(name: str) -> Updates:
            """The conditions of another model."""
            with user_errors() as problem:
                hint = gr.update(info=model_hint(self.services, name))
                return {
                    self.form[f"condition{end}"]: self._condition_menu(name),
                    self.form[f"model{end}"]: hint,
                }
            return {self.parts["status"]: messages.error_html(problem.message)}

        return on_model

    def on_count(self, *values: Any) -> str:
        """How many pictures these settings ask for; nothing is said of settings that cannot be used."""
        with user_errors():
            with user_errors() as too_many:
                self.check_number(values)
            if too_many:
                return messages.warning_html(too_many.message)
            plans = plan_compare(compare_form.read_form(values), self.services)
            n = len({row.id for plan in plans for row in plan.rows})
            return f"{n:,} pictures in {len(plans)} arms"
        return ""

    def on_remember(self, *values: Any) -> dict[str, Any]:
        """What this browser should know next time: the form as it was run last."""
        return dict(zip(_REMEMBERED, values, strict=True))

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:  # noqa: ARG002
        """Put back what this browser ran last time, as far as it can still be asked."""
        first = compare_form.form_values(self._preset(0))
        with user_errors():
            known = {name: value for name, value in (remembered or {}).items() if name in _REMEMBERED}
            if known:
                settings = compare_form.read_form([{**first, **known}[name] for name in FIELDS])
                attributes = suggest_set(settings.concept, load_attribute_sets()).attributes
                return self.form_updates(replace(settings, attributes=attributes))
        return {self.form[name]: None for name in compare_form.EMPTY}

    def on_pair(self, report: StudyReport | None, pair: str | None) -> Updates:
        """Two other arms."""
        return {} if report is None else self._shown_pair(report, pair or "0")

    def on_seed(self, report: StudyReport | None, pair: str | None, seed: str | None) -> Updates:
        """Another seed."""
        if report is None:
            return {self.extra["slide"]: ""}
        pair, seed = pair or "0", seed or ""
        return {
            self.extra["seed"]: seed,
            self.extra["slide"]: compare_view.slide_html(report, pair, seed),
            self.extra["strip"]: compare_view.strip_html(report, pair, seed),
        }

    def on_strip(self, report: StudyReport | None, pair: str | None, event: gr.EventData) -> Updates:
        """A seed that was pressed in the strip."""
        return self.on_seed(report, pair, str(event.seed))

    # Steps of the handlers.

    def check_number(self, values: Sequence[Any]) -> None:
        """Refuse more pictures than one run may have, before it waits in line."""
        check_number(compare_form.read_form(values), self.services.settings)

    def steps(self, visitor: Visitor, values: Sequence[Any]) -> Generator[Progress, None, StudyReport]:
        """The comparison that the form asks for."""
        settings = compare_form.read_form(values)
        return compare(settings, self.services, cancelled=visitor.stop.is_set, session=visitor.key)

    def headline(self, report: StudyReport) -> str:
        """What differs most, and how many differences are clear."""
        return summary(report)

    def told(self, report: StudyReport) -> Updates:
        """The report, with the command and the lines of this comparison."""
        settings = compare_from_dict(report.settings.options)
        commands = {self.parts["shell"]: to_command(settings), self.parts["python"]: to_python(settings)}
        return super().told(report) | commands

    def show_extra(self, report: StudyReport) -> Updates:
        """The most changed seed of the first two arms."""
        return self._shown_pair(report, "0")

    def opened(self, saved: SavedReport, banner: str = "") -> Updates:
        """A saved comparison with its settings in the form."""
        shown = super().opened(saved, banner)
        if isinstance(saved.report, StudyReport):
            shown |= self.form_updates(compare_from_dict(saved.report.settings.options))
        return shown

    def form_updates(self, settings: CompareSettings) -> Updates:
        """The form for these settings: values, menus of conditions, and what is visible."""
        values: Mapping[str, Any] = compare_form.form_values(settings)
        shown = compare_form.shown_fields(values["differs"], values["n_arms"])
        updates: Updates = {}
        for name in (*FIELDS, *(f"row_{k}" for k in range(MOST_ARMS))):
            change = {"value": values[name]} if name in values else {}
            change |= {"visible": shown[name]} if name in shown else {}
            updates[self.form[name]] = gr.update(**change)
        for end in ("", *(f"_{k}" for k in range(MOST_ARMS))):
            menu = list(self.services.model_info(values[f"model{end}"]).conditions)
            update = {
                "choices": menu,
                "value": values[f"condition{end}"],
                "visible": shown[f"condition{end}"],
            }
            updates[self.form[f"condition{end}"]] = gr.update(**update)
        updates[self.form["set"]] = suggest_set(settings.concept, load_attribute_sets()).key
        return updates

    def _preset(self, place: int) -> CompareSettings:
        return compare_from_dict(self.presets[place].settings)

    def _condition_menu(self, model: str) -> Any:
        conditions = list(self.services.model_info(model).conditions)
        return gr.update(choices=conditions, value=conditions[0] if conditions else "")

    def _shown_pair(self, report: StudyReport, pair: str) -> Updates:
        pairs, seeds = compare_view.pair_choices(report), compare_view.seed_choices(report, pair)
        seed = seeds[0][1] if seeds else ""
        return {
            self.extra["pair"]: gr.update(choices=pairs, value=pair, visible=len(pairs) > 1),
            self.extra["seed"]: gr.update(choices=seeds, value=seed),
            self.extra["slide"]: compare_view.slide_html(report, pair, seed),
            self.extra["strip"]: compare_view.strip_html(report, pair, seed),
        }
