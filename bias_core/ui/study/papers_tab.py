"""The page of the papers: one form and one result, whose words, presets and panels are those of the chosen paper.

Each paper has an address and a tab of its own, which holds its question. What was typed for a paper, and the result it
showed last, are kept while another is looked at. Which paper a form or a report belongs to is read from its study.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.study.answer_files import ENDINGS
from bias_core.study.design import get_study, option_settings
from bias_core.study.types import Design, StudyReport, StudySettings
from bias_core.ui.links import OPTION, Link, build_link
from bias_core.ui.messages import EACH, LATEST, QUIET
from bias_core.ui.study.fields import Field, Groups
from bias_core.ui.study.form import (
    ARMS_INPUT,
    CLASSIFIER,
    FORM,
    OWN_INPUT,
    USE_OWN,
    fold,
    hidden_with_pictures,
    line,
    pass_values_by_name,
    plain_groups,
    read_settings,
    row,
    split_first_arm,
)
from bias_core.ui.study.own_pictures import chosen_pictures
from bias_core.ui.study.panels import Panels, Updates
from bias_core.ui.study.paper import PAPER_TESTS, Paper, opened_html
from bias_core.ui.study.parts import Chip, classification_html, skeleton_html
from bias_core.ui.study.result_page import CHOOSE_JS, FOLDS
from bias_core.ui.study.shown_report import find_report, get_report_name
from bias_core.ui.study.study_tab import LARGEST, StudyTab
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor
from bias_core.values import Setting

_ASKED_JS = "(...values) => { window.holdForm(true); return [window.openKey() ?? '', ...values.slice(1)]; }"


class PapersTab(StudyTab):
    key: ClassVar = "paper"
    title: ClassVar = PAPER_TESTS
    place: ClassVar = 10
    question: ClassVar = ""
    folds: ClassVar = FOLDS | {"by_attribute": "Look closer"}
    layout: ClassVar = (
        "chips",
        line("study", hidden_with_pictures("percent", scale=3, min_width=200)),
        line("source", hidden_with_pictures(row("model", "condition", equal_height=True), scale=7, min_width=240)),
        "upload",
        "model_note",
        fold("own_words", "Your own words", "own_words", elem_id="paper-own"),
        fold("options", "Sampling, classifier, options", row(*CLASSIFIER), "plain", "labels", elem_id="paper-more"),
        fold("arms", "Compare settings: add an arm", "arm_presets", "arms"),
        row("run", "replicates", "count", "gpu_time", elem_classes="tools"),
    )
    looks: ClassVar = {"study": {"scale": 4, "min_width": 240}}

    def __init__(self, services: Services, kinds: Sequence[type[Paper]]) -> None:
        self.studies = tuple(name for kind in kinds for name in kind.studies)  # type: ignore[misc]
        super().__init__(services)
        self.papers = {kind.key: kind(self) for kind in kinds}
        self._first = next(iter(self.papers.values()))
        self.chip_presets = {
            f"{paper.key}-{place}": preset
            for paper in self.papers.values() for place, preset in enumerate(paper.presets)
        }  # fmt: skip
        self.closer = CloserLook(self)
        self.panels = (*self.papers.values(), self.closer)
        self._of_study = {name: paper for paper in self.papers.values() for name in paper.studies}

    # Which paper.

    @property
    def keys(self) -> Sequence[str]:
        return tuple(self.papers)

    def find_paper(self, design: Design) -> Paper | None:
        claiming = (paper for paper in self.papers.values() if paper.claims(design))
        return self._of_study.get(design.name) or next(claiming, None)

    def claims(self, design: Design) -> bool:
        return self.find_paper(design) is not None

    def get_design_key(self, design: Design) -> str:
        paper = self.find_paper(design)
        return self._first.key if paper is None else paper.key

    def get_study_key(self, name: str) -> str:
        """Return the key of the paper with this study; "" if none has it."""
        paper = self._of_study.get(name)
        return "" if paper is None else paper.key

    def get_current_key(self, visitor: Visitor) -> str:
        return visitor.paper or self._first.key

    # The form.

    def build_question(self) -> None:
        """Build nothing: each paper's tab has its question."""

    def build_memory(self) -> None:
        """Remember the shown report and the browser's last choices."""
        super().build_memory()
        self.parts["asked"] = gr.Textbox("", visible="hidden", elem_id="paper-asked")

    @property
    def builders(self) -> dict[str, Callable[[], Any]]:
        """Functions that build the parts of the layout that are no settings, and the menu of judges."""
        first = self._first
        return super().builders | {
            "chips": lambda: self.chips.build(self._list_chips(first), first.examples.listed, first.key),
            "study": self._build_study, "own_words": self._build_own_words, "judge": self._build_judge,
            "labels": self._build_labels,
        }  # fmt: skip

    def _build_ask(self) -> None:
        super()._build_ask()
        self.form_folds.remove(self.parts["own_words"])  # a run keeps the words that it was made with in sight

    def _build_study(self) -> None:
        look = self.get_look("study", label="Study", info="The experiment to run")
        self.form["study"] = gr.Dropdown(self._list_studies(self._first), value=self._first.studies[0], **look)

    def _build_own_words(self) -> None:
        label = "Run with these instead of the study above"
        self.parts[USE_OWN] = gr.Checkbox(False, label=label, elem_id="paper-use-own", container=False)
        for paper in self.papers.values():
            with gr.Column(visible=paper is self._first) as self.parts[f"own {paper.key}"]:
                paper.own = paper.build_own()

    def _build_judge(self) -> None:
        self.form["judge"] = self.build_field("judge")
        self.form["judge"].visible = self._is_judged(self._first)

    def _build_labels(self) -> None:
        label = f"{FORM['labels'].label} ({', '.join(ending[1:] for ending in ENDINGS)})"
        look = self.get_look("labels", label=label, file_types=list(ENDINGS), height=110, min_width=240)
        self.form["labels"] = gr.File(**look)
        self.parts["labels_look"] = gr.HTML(elem_id="paper-labels-look", elem_classes="notes")

    def _list_chips(self, paper: Paper) -> list[Chip]:
        presets = self.chip_presets.items()
        return [(key, preset.name, preset.says) for key, preset in presets if preset in paper.presets]

    def _list_studies(self, paper: Paper) -> list[tuple[str, str]]:
        return [(self.designs[name].title, name) for name in paper.studies]

    def _is_judged(self, paper: Paper) -> bool:
        return any(get_study(self.designs[name]).judged for name in paper.studies)

    def get_options(self, study: str) -> Mapping[str, Setting]:
        return {OPTION + name: setting for name, setting in option_settings(self.designs[study]).items()}

    def get_field_groups(self, study: str) -> Groups:
        fields = [
            Field(name=name, setting=setting, is_wide=setting.kind is tuple)
            for name, setting in self.get_options(study).items()
        ]
        return {**plain_groups(), "Options of this study": fields}

    def first_values(self, key: str) -> dict[str, Any]:
        paper, study = self.papers[key], self.papers[key].studies[0]
        model = str(self.designs[study].settings.get("model", StudySettings().model))
        values = super().first_values(key) | {"study": study, "model": model, USE_OWN: False}
        return values | self.option_values(study, paper.shown_options(study))

    def inputs(self) -> dict[str, Any]:
        """Return the form's components by name, with the arms and the fields of own words."""
        own_fields = {
            f"{OWN_INPUT}{paper.key}.{name}": part for paper in self.papers.values() for name, part in paper.own.items()
        }
        return super().inputs() | {USE_OWN: self.parts[USE_OWN]} | own_fields

    def form_outputs(self) -> list[Any]:
        """Return everything that :meth:`show_settings` changes."""
        parts = [
            self.parts[name] for name in (USE_OWN, "labels_look", "own_words", *(f"own {key}" for key in self.papers))
        ]
        own_words = [part for paper in self.papers.values() for part in paper.own.values()]
        return [*parts, *own_words, self.chips.html, *super().form_outputs()]

    def design_and_settings(self, values: Mapping[str, Any]) -> tuple[Design, StudySettings]:
        """Return the design and settings in the form; InvalidInput if they are invalid."""
        if values["study"] not in self.designs:
            raise InvalidInput("choose a study")
        design, choice = self.designs[values["study"]], chosen_pictures(values["images"])
        settings = read_settings({**values, "images": ""}, design)
        settings = replace(settings, arms=tuple(values[ARMS_INPUT] or ()))
        settings = choice.apply(settings) if choice else settings
        paper = self._of_study[design.name]
        if not values.get(USE_OWN) or not paper.own:
            return design, settings
        own_values = {name: values[f"{OWN_INPUT}{paper.key}.{name}"] for name in paper.own}
        return paper.own_design(design, own_values), paper.own_settings(settings)

    def show_values(self, values: Mapping[str, Any]) -> Updates:
        """Return the form with these values, which may be wrong, and the words of their paper."""
        parts, form, study = self.parts, self.form, str(values["study"])
        paper = self._of_study[study]
        return super().show_values(values) | {
            form["study"]: gr.update(choices=self._list_studies(paper), value=study),
            form["judge"]: gr.update(value=values["judge"], visible=self._is_judged(paper)),
            parts["labels_look"]: "",
            parts[USE_OWN]: bool(values.get(USE_OWN)),
            parts["own_words"]: gr.update(visible=bool(paper.own), open=bool(values.get(USE_OWN))),
            **{parts[f"own {key}"]: gr.update(visible=key == paper.key) for key in self.papers},
            self.chips.html: self.chips.render(self._list_chips(paper), paper.examples.listed, paper.key),
        }

    def fill_from(self, design: Design, settings: StudySettings) -> Updates:
        """Return the form with the settings of a run, and with its own words."""
        paper = self.find_paper(design)
        own_values = {} if paper is None or design.name in self.designs else paper.own_values(design)
        above, arms = split_first_arm(settings)
        if paper is None or not own_values or above.images:
            return super().fill_from(design, settings)
        study = paper.studies[0]
        values = self.get_form_values(study, above) | {"percent": self.first_percent, ARMS_INPUT: arms, USE_OWN: True}
        words = {f"{OWN_INPUT}{paper.key}.{name}": value for name, value in own_values.items()}
        return self.fill(values | words) | {paper.own[name]: value for name, value in own_values.items()}

    def wire_form(self) -> None:
        super().wire_form()
        parts, form, named = self.parts, self.form, self.inputs()
        changed = [*self.plain.outputs(), form["model"], form["condition"], parts["model_note"], parts["status"]]
        studied = self.listen([form["study"].input], self.on_study, named, [*changed, parts[USE_OWN]])
        studied.then(*self.count, **QUIET)  # its options may be hidden
        # Typing own words ticks their box. For Gradio, text pasted with the mouse is a change but no input.
        own_fields = [part for paper in self.papers.values() for part in paper.own.values()]
        typed = [part.change if isinstance(part, gr.Textbox) else part.input for part in own_fields]
        gr.on(typed, None, None, parts[USE_OWN], js="() => true", **QUIET)

    def on_study(self, values: Mapping[str, Any]) -> Updates:
        """Show another study's options, with a model that it can use, and clear the status."""
        study = str(values["study"])
        paper = self._of_study[study]
        shown = {**values, "steps": None, "guidance": None, **self.option_values(study, paper.shown_options(study))}
        changed = self.plain.show(self.get_field_groups(study), shown) | {self.parts[USE_OWN]: False}
        return changed | {self.parts["status"]: ""} | paper.on_study(study, str(values["model"]))

    # The choice of a paper.

    def keep(self, visitor: Visitor, values: Mapping[str, Any], report: StudyReport | None = None) -> None:
        """Keep the form and the report of their papers while another paper is looked at."""
        if (paper := self._of_study.get(str(values["study"]))) is not None:
            visitor.typed[paper.key] = dict(values)
        if report is not None and (shown := self.find_paper(report.design)) is not None:
            visitor.results[shown.key] = get_report_name(report, self.services)

    def show_paper(
        self, key: str, visitor: Visitor, remembered: Mapping[str, Any] | None, link: Link, images: Any = None
    ) -> Updates:
        """Return the form of a paper as it was left, else with the address's values or the browser's last choices."""
        last = visitor.typed.get(key) or self.last_choices(key, remembered)
        return self.fill(self.filled_values(key, last, link) | {"images": images})

    def kept_result(self, key: str, visitor: Visitor) -> StudyReport | None:
        """Return the report that a paper showed last on this page; None if there is none."""
        return find_report(visitor.results.get(key, ""), self.services)

    def show_empty(self) -> Updates:
        hidden = dict.fromkeys((self.parts["shown"], self.parts["results"]), gr.update(visible=False))
        return (
            hidden
            | {self.parts[name]: "" for name in ("header", "beside_paper", "status")}
            | {self.parts["report"]: None}
        )

    def first_examples(self) -> list[Any]:
        return [lambda key=key: self.first_example(key) for key in self.papers]

    def first_example(self, key: str = "") -> Updates:
        paper = self.papers.get(key, self._first)
        if not paper.examples.listed:  # of an installed study: nothing, and not the result of another paper
            return self.show_empty()
        return paper.examples.first(self.show_report, self.parts["header"])

    def wire_choice(self, selects: Sequence[Any], known: Any, on_paper: Any) -> list[Any]:
        """Wire the events after which a paper may be looked at: its tab is chosen, or the visitor is ``known``."""
        parts, named = self.parts, self.inputs()
        inputs = [parts["asked"], parts["visitor"], parts["remembered"], parts["report"], *named.values()]
        told = pass_values_by_name(named, on_paper), inputs, self.opened_outputs()
        chosen = gr.on([*selects, parts["looked_at"].select], *told, js=_ASKED_JS, **LATEST)
        # The page waits for a lost answer to the event above, which therefore cannot ask again.
        retry = self.chips.html.edit(*told, js=_ASKED_JS, **EACH)
        return [chosen, retry, known.then(*told, js=_ASKED_JS, **QUIET)]

    def running_outputs(self) -> list[Any]:
        names = ("status", "at_work", "run", "stop", LARGEST)
        return [*(self.parts[name] for name in names), self.drawing.html, *self.no_classifier.outputs()]

    # The result.

    def _build_results(self) -> None:
        """Build the outline that stands in place of another paper's result, and the result."""
        gr.HTML(skeleton_html("line", "line", "half", "half"), elem_id="paper-skeleton")
        super()._build_results()

    def show_ended_run(self, visitor: Visitor, report: StudyReport, shown: Updates) -> Updates:
        """Return ``shown`` if its paper is looked at; else keep the report, and say where it is."""
        key = self.get_design_key(report.design)
        if visitor.paper in ("", key):
            return shown
        visitor.results[key] = get_report_name(report, self.services)
        note = render("elsewhere", key=key, title=self.papers[key].title)
        return {**self._buttons(running=False), self.drawing.html: "", self.parts["status"]: note}

    def link(self, report: StudyReport) -> str:
        """Return the address of the paper with these settings, without the visitor's own words."""
        return build_link(self.get_design_key(report.design), report)


class CloserLook(Panels):
    """A menu of the parts of a report, one part in words, and the pictures behind it, for papers that explain them."""

    def __init__(self, page: PapersTab) -> None:
        super().__init__()
        self._page = page

    def _find_paper(self, report: StudyReport) -> Paper | None:
        paper = self._page.find_paper(report.design)
        return paper if paper is not None and paper.closer else None

    def shows(self, report: StudyReport) -> bool:
        return self._find_paper(report) is not None

    def build_extra(self) -> dict[str, Any]:
        """Build the menu, the words, the pictures and a large one."""
        extra: dict[str, Any] = {}
        with gr.Row(elem_classes="closer"):
            extra["closer"] = gr.Dropdown(label="Look closer at", elem_id="paper-closer", visible=False)
        extra["words"] = gr.HTML(elem_id="paper-words", visible=False)
        extra["behind"] = gr.HTML(js_on_load=CHOOSE_JS, elem_id="paper-behind", visible=False)
        extra["opened"] = gr.HTML(elem_id="paper-opened")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        paper = self._find_paper(report)
        choices = [] if paper is None else paper.closer_looks(report)
        first = choices[0][1] if choices else ""
        menu = gr.update(choices=choices, value=first or None, visible=len(choices) > 1)
        return {self.extra["closer"]: menu, **self._look_closer(report, first)}

    def wire_panels(self) -> None:
        report, extra = self._page.parts["report"], self.extra
        shown = [extra[name] for name in ("words", "behind", "opened")]
        extra["closer"].input(self.on_closer, [report, extra["closer"]], shown, **LATEST)
        extra["behind"].select(self.on_open, report, extra["opened"], **EACH)

    def on_closer(self, report: StudyReport | None, key: str) -> Updates:
        return gr.skip() if report is None else self._look_closer(report, key)

    def on_open(self, report: StudyReport | None, event: gr.EventData) -> str:
        """Show one of the pictures of that part large."""
        html = opened_html(report, str(event.image))
        return html + (classification_html(report, str(event.image), self._page.services) if html and report else "")

    def _look_closer(self, report: StudyReport, key: str) -> Updates:
        paper = self._find_paper(report) if key else None
        parts = {
            "words": "" if paper is None else paper.closer_html(report, key),
            "behind": "" if paper is None else paper.behind_html(report, key),
        }
        shown = {self.extra[name]: gr.update(value=html, visible=bool(html)) for name, html in parts.items()}
        return {**shown, self.extra["opened"]: ""}
