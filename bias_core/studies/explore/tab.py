"""The Explore tab: a concept and attributes in, pictures and scores out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

import gradio as gr

from bias_core.studies.explore import tab_form as explore_form
from bias_core.studies.explore import view as explore_view
from bias_core.studies.explore import view_sentences as sentences
from bias_core.studies.explore.arms import arms_summary
from bias_core.studies.explore.old_runs import COMPARE
from bias_core.studies.explore.options import KIND, OLD_KIND, explore_settings
from bias_core.studies.explore.report import Exploration, is_exploration
from bias_core.studies.explore.results import CONCEPT
from bias_core.studies.explore.tab_form import DEFAULTS, FIELDS, FormEvents
from bias_core.studies.explore.tab_pairs import build_pairs, show_pairs, wire_pairs
from bias_core.studies.explore.tab_presets import PRESETS
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.kit.types import StudyReport  # noqa: TC001 (Gradio reads the annotations)
from bias_core.studies.running.arms import arm_text
from bias_core.studies.running.run import followed
from bias_core.ui import messages
from bias_core.ui.links import ARMS, query_of, read_link
from bias_core.ui.messages import user_errors
from bias_core.ui.page import ABSOLUTE_JS
from bias_core.ui.run_turns import in_line
from bias_core.ui.study import arms_form
from bias_core.ui.study import form as study_form
from bias_core.ui.study import view as study_html
from bias_core.ui.study.open import by_name
from bias_core.ui.study.pictures import Look, build_pictures, show_only, show_pictures, wire_pictures
from bias_core.ui.study.study_tab import QUIET, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.services import Services
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import Arm, Design, StudyFigure, StudySettings

REMEMBERED = ("model", "condition", "encoder", "n_images")
_LINKED = ("seed", "concept", "template", "set", "attributes", "attribute_a", "attribute_b")
_APART = ("shares", "alike")  # figures that stand beside the pictures
_REVEAL = """() => {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const behavior = calm ? 'auto' : 'smooth';
  document.querySelector('#explore-picture article')?.scrollIntoView({behavior, block: 'nearest'});
}"""


class ExploreTab(FormEvents, StudyTab):  # type: ignore[misc]
    """A concept in one's own words."""

    key: ClassVar = "explore"
    title: ClassVar = "Explore"
    place: ClassVar = 0
    question: ClassVar = "What does a model draw for a concept, and how far is that from the world?"
    caution: ClassVar = "It is about what pictures show to a reader, never about who anybody is."
    studies: ClassVar = (KIND,)
    also: ClassVar = (OLD_KIND, COMPARE)
    presets: ClassVar = PRESETS

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.sets = {item.key: item for item in load_attribute_sets(services.settings.assets_dir / "studies")}

    # Layout.

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; pictures come first, then the numbers."""
        parts = self.parts
        parts |= {"visitor": visitor, "report": gr.State(None), "row": gr.State(None)}
        with gr.Column(elem_classes="card ask"):
            self._build_ask()
        parts["status"] = gr.HTML(messages.READY, elem_id="status")
        parts["welcome"] = gr.HTML(render("explore_welcome"))
        self._build_results()
        self._wire(demo)

    def _build_ask(self) -> None:
        self.form = explore_form.build_form(self.services, list(self.sets.values()))
        self.parts |= {name: self.form[name] for name in ("run", "stop")}
        self.arms = arms_form.build_arms(self.key, self.services, self._build_presets)

    def _build_presets(self) -> None:
        with gr.Row(elem_classes="chips"):
            self.parts["chips"] = [
                gr.Button(preset.name, size="sm", min_width=0, scale=0, elem_id=f"{self.key}-preset-{i}")
                for i, preset in enumerate(self.presets)
            ]
            self.build_examples()

    def _build_results(self) -> None:
        parts, key = self.parts, self.key
        parts["header"] = gr.HTML(elem_id="header", elem_classes="header")
        with gr.Row(visible=False, elem_id="pictures") as parts["shown"]:
            with gr.Column(scale=6, min_width=340):
                self.extra["groups"] = gr.HTML(
                    js_on_load=script("brush"), elem_id="groups", visible=False, elem_classes="card"
                )
                self.pictures = build_pictures(key)
            with gr.Column(scale=5, min_width=340, elem_classes="card") as parts["extra"]:
                self.extra["shares"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id="shares")
                self.extra["map"] = gr.HTML(js_on_load=script("brush"), elem_id="map")
        self.pairs = build_pairs(key)
        with gr.Column(visible=False, elem_id="results", elem_classes="results") as parts["results"]:
            with gr.Column(elem_classes="card"):
                parts["findings"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-findings")
            self.extra["sentences"] = gr.HTML(elem_id=f"{key}-sentences", elem_classes="card")
            parts["figures"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-figures")
            with gr.Column(elem_classes="card"):
                parts["tables"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-tables")
                parts["notes"] = gr.HTML()
            parts.update(study_form.build_take(key))

    # Wiring.

    def inputs(self) -> list[Any]:
        """The form's components in the order of ``FIELDS``, the arms, and the report that is shown."""
        return [*(self.form[name] for name in FIELDS), self.arms.chosen, self.parts["report"]]

    def outputs(self) -> list[Any]:
        """Everything that a finished run changes."""
        return [*super().outputs(), self.parts["shown"], self.parts["welcome"], *self.pairs.outputs()]

    def filled(self) -> list[Any]:
        """Everything that an opened run changes in the form."""
        noted = [self.form["model_note"], self.arms.listed, self.arms.status]
        return [*self.inputs()[:-1], *noted]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, form = self.parts, self.form
        self._wire_run(parts["run"].click)
        self._wire_run(form["concept"].submit)
        self._wire_run(self.on_any("click", parts["chips"], self.on_preset, None, self.filled()).then)
        parts["stop"].click(self.on_stop, parts["visitor"], parts["status"], queue=False, **QUIET)
        self._wire_form()
        arms_form.wire_arms(self.arms, self.services)
        self.wire_take(parts["findings"], parts["figures"], parts["tables"], parts["takes"], self.extra["shares"])
        remembered = [form[name] for name in REMEMBERED]
        self.on_any("input", remembered, self.on_remember, remembered, parts["remembered"], queue=False)
        linked = [
            form[name] for name in ("seed", "concept", "template", "set", "num_inference_steps", "guidance_scale")
        ]
        linked += [form[name] for name in ("attributes", "attribute_a", "attribute_b", "model_note")]
        listed = [self.arms.chosen, self.arms.listed, self.arms.status]
        demo.load(self.on_load, parts["remembered"], [*remembered, *linked, *listed], **QUIET)
        parts["link"].change(None, parts["link"], parts["link"], js=ABSOLUTE_JS, **QUIET)
        wire_pictures(self.pictures, self._opened)
        self.wire_examples()
        self.wire_extra()

    def wire_extra(self) -> None:
        """Groups and the map choose pictures."""
        extra, report = self.extra, self.parts["report"]
        linked = [extra["groups"], extra["map"], *self.pictures.outputs()]
        for source in (extra["groups"], extra["map"]):
            source.select(self.on_choose, report, linked, **QUIET)
        self.pictures.gallery.select(None, js=_REVEAL, **QUIET)
        wire_pairs(self.pairs, report)

    # Handlers.

    def on_run(self, visitor: Visitor, *values: Any) -> Iterator[Updates]:
        """Run the exploration and show it grow; where it has no report, the last one comes back."""
        with user_errors() as problem:
            self.check_number(values)
            steps = in_line(self.services, visitor, lambda: self.steps(visitor, values), self.key)
            yield from self.following(visitor, steps, last=values[-1])
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def following(
        self,
        _visitor: Visitor,
        steps: Generator[Progress, None, Any],
        note: str = "",
        *,
        last: StudyReport | None = None,
    ) -> Iterator[Updates]:
        """A run on its way, with a note below, and then its report."""
        found: list[StudyReport] = []
        pace, grid, status = messages.Pace(), explore_view.GrowingGrid(), self.parts["status"]
        yield self._buttons(running=True) | {status: note or messages.LOADING}
        with user_errors() as problem:
            for step in followed(steps, found):
                if pace.is_due():
                    shown = self.running(step, grid)
                    yield shown | {status: shown[status] + note}
        if found:
            yield self.finished(found[0])
            return
        before = {} if last is None else self.finished(last)
        yield before | self._buttons(running=False) | {status: messages.error_html(problem.message)}

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:
        """Put back what this browser chose last time, or fill in what the address asks for."""
        form, kept = self.form, {k: v for k, v in (remembered or {}).items() if k in REMEMBERED}
        link = read_link(query_of(request), {self.key: self.studies}, self.services)
        kept |= {k: v for k, v in link.values.items() if k in (*REMEMBERED, "seed")}
        with user_errors():
            updates = self._model_updates(str(kept.get("model", DEFAULTS.model)), kept.get("condition"))
            known = {form[k]: v for k, v in kept.items() if k != "condition"}
            filled = known | updates | self._concept_updates(str(link.values.get("concept", "")))
            return filled | self._arms_updates(link.values.get("arms", ()))
        return {form["model_note"]: ""}

    def on_remember(self, *values: Any) -> dict[str, Any]:
        """What this browser should know next time."""
        return dict(zip(REMEMBERED, values, strict=True))

    def on_choose(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """A group button or a point of the map was chosen."""
        if report is None:
            return {}
        seen = Exploration(report)
        if number := int(event.number):
            picture = explore_view.picture_html(seen, number)
            return {self.pictures.picture: picture, self.extra["map"]: explore_view.map_html(seen, opened=number)}
        group = int(event.group)
        which = f"group={CONCEPT}" if group == explore_view.ALL else f"looks_like={explore_view.group_name(group)}"
        return {
            **show_only(self.pictures, Look(report=report, which=which)),
            self.extra["groups"]: explore_view.group_buttons(seen, group),
            self.extra["map"]: explore_view.map_html(seen, group),
        }

    # Steps of the handlers.

    def asked(self, values: Sequence[Any]) -> tuple[Design, StudySettings]:
        """The design and the settings that stand in the form; InvalidInput where they cannot be used."""
        return self.designs[KIND], explore_form.read_form(values[:-1])

    def running(self, progress: Progress, grid: explore_view.GrowingGrid) -> Updates:
        """The run so far: its progress, and the grid when it has grown."""
        parts = self.parts
        status = {parts["status"]: messages.progress_html(progress)}
        drawn = grid.grown(progress)
        if drawn is None:
            return status
        pictures = [(str(image.path), explore_view.caption(image, i)) for i, image in enumerate(drawn, start=1)]
        hidden = (parts["welcome"], parts["header"], parts["results"], self.extra["map"], self.extra["groups"])
        return {
            **status,
            **dict.fromkeys(hidden, gr.update(visible=False)),
            parts["header"]: "",
            parts["shown"]: gr.update(visible=True),
            parts["extra"]: gr.update(visible=True),
            self.pictures.box: gr.update(visible=True),
            self.pictures.gallery: gr.update(value=pictures, selected_index=None),
            self.pictures.picture: "",
            self.extra["shares"]: messages.WAITING,
        }

    def finished(self, report: StudyReport) -> Updates:
        """All of a report."""
        parts, report = self.parts, by_name(report)
        shown = show_pictures(self.pictures, report)
        if is_exploration(report) and not report.arms and shown[self.pictures.look] is not None:
            menu = shown[self.pictures.which]
            shown |= show_only(self.pictures, Look(report=report, which=_first(report)))
            shown[self.pictures.which] = menu | {"value": _first(report)}
        text = f"Done in {report.seconds:.1f} s. {report.n_images:,} pictures scored."
        return {
            **self._buttons(running=False),
            parts["status"]: messages.done_html(text),
            parts["welcome"]: gr.update(visible=False),
            parts["shown"]: gr.update(visible=True),
            parts["results"]: gr.update(visible=True),
            parts["extra"]: gr.update(visible=is_exploration(report) and not report.arms),
            **self.told(report),
            **shown,
            **self.show_extra(report),
        }

    def told(self, report: StudyReport) -> Updates:
        """The numbers, figures and tables of a report; what must be known stands right under its headline."""
        told, notes = super().told(report), list(report.results.notes)
        headline = study_html.header_html(report, self.headline(report))
        if report.unknown_words:
            words = ", ".join(f"“{word}”" for word in report.unknown_words)
            notes.insert(0, f"The calibration world does not know {words}; the pictures were drawn without it.")
        header = headline + render("explore_notes", notes=notes)
        return told | {self.parts["header"]: header}

    def show_extra(self, report: StudyReport) -> Updates:
        """Groups, map, shares and sentences of an exploration."""
        extra = self.extra
        if not is_exploration(report) or report.arms:
            hidden = {part: gr.update(value="", visible=False) for part in extra.values()}
            return hidden | show_pairs(self.pairs, report)
        seen = Exploration(report)
        buttons, chart = explore_view.group_buttons(seen), explore_view.map_html(seen)
        shares = [figure for figure in report.results.figures if figure.key == "shares"]
        return {
            extra["groups"]: gr.update(value=buttons, visible=bool(buttons)),
            extra["map"]: gr.update(value=chart, visible=bool(chart)),
            extra["shares"]: gr.update(value=study_html.figures_html(shares), visible=True),
            extra["sentences"]: gr.update(value=explore_view.sentences_html(seen), visible=True),
            self.pairs.box: gr.update(visible=False),
        }

    def headline(self, report: StudyReport) -> str:
        """One sentence on what stands out, another on the rest."""
        if is_exploration(report) and not report.arms:
            return sentences.headline(Exploration(report))
        return arms_summary(report) if report.arms and is_exploration(report) else super().headline(report)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Those that do not stand beside the pictures."""
        beside = _APART if is_exploration(report) and not report.arms else ()
        return [figure for figure in report.results.figures if figure.key not in beside]

    def link(self, report: StudyReport) -> str:
        """The address of this tab with these settings; attributes and other words do not travel in it."""
        settings = report.settings
        if settings.images or report.design.kind != KIND:
            return f"?tab={self.key}"
        asked = {
            "tab": self.key,
            "concept": option_values(settings.options)["concept"],
            "model": settings.model,
            "condition": settings.condition,
            "seed": settings.seed,
            "arms": ARMS.join(arm_text(arm) for arm in settings.arms),
        }
        return "?" + urlencode({name: value for name, value in asked.items() if value != ""})

    def form_of(self, design: Design, settings: StudySettings) -> Updates:  # noqa: ARG002
        """The form for these settings."""
        form, (shown, arms) = self.form, arms_form.apart(settings)
        model = self._model_updates(shown.model, shown.condition)
        filled = {form[name]: value for name, value in explore_form.form_values(settings).items()}
        return model | filled | {form["condition"]: model[form["condition"]]} | arms_form.show_arms(self.arms, arms)

    def _opened(self, report: StudyReport, row: pd.Series[Any]) -> str:
        if not is_exploration(report) or report.arms or row["group"] != CONCEPT:
            return ""
        return explore_view.picture_html(Exploration(report), int(row["number"]))

    def _arms_updates(self, arms: Sequence[Arm]) -> Updates:
        """The form for arms that a link names: the first one's model and condition stand above."""
        if not arms:
            return {}
        shown, others = arms_form.apart(explore_settings(arms=tuple(arms)))
        model = self._model_updates(shown.model, shown.condition)
        return model | {self.form["model"]: shown.model} | arms_form.show_arms(self.arms, others)


def _first(report: StudyReport) -> str:
    """The pictures that are scored: those of the concept, where others were drawn beside them."""
    frame = report.pictures
    return f"group={CONCEPT}" if frame is not None and frame["group"].nunique() > 1 else ""
