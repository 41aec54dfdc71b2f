"""The page of the papers: one form and one result, whose words, presets and panels are those of the chosen paper.

Each paper has an address and a tab of its own, which holds its question. What was typed for a paper, and the result it
showed last, are kept while another is looked at. Which paper a form or a report belongs to is read from its study.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.study.answer_files import ENDINGS
from bias_core.study.design import option_settings, study_of
from bias_core.study.plan import settle
from bias_core.study.types import Design, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.links import OPTION, Link, address_of
from bias_core.ui.messages import EACH, LATEST, QUIET
from bias_core.ui.model_menu import HINT, model_hint as describe_model
from bias_core.ui.study.fields import Field, Groups, read_plain
from bias_core.ui.study.form import (
    ARMS_INPUT,
    CLASSIFIER,
    FIELDS,
    FILES,
    FORM,
    MENUS,
    OWN_INPUT,
    PLAIN,
    REMEMBERED,
    USE_OWN,
    ArmsForm,
    by_name,
    plain_groups,
    read_settings,
    split_first_arm,
)
from bias_core.ui.study.own_pictures import DRAWN, chosen_pictures
from bias_core.ui.study.panels import Panels, Updates
from bias_core.ui.study.paper import PAPER_TESTS, Paper, opened_html
from bias_core.ui.study.parts import Chip, why_html
from bias_core.ui.study.result_page import CHOOSE_JS
from bias_core.ui.study.shown_report import name_of, report_of
from bias_core.ui.study.study_tab import LARGEST, StudyTab
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor
from bias_core.values import option_values

_ASKED_JS = "(...values) => { window.holdForm(true); return [window.openKey() ?? '', ...values.slice(1)]; }"
_FILLED_JS = "() => window.holdForm(false)"


class PapersTab(StudyTab):
    """The page of all papers."""

    key: ClassVar = "paper"
    title: ClassVar = PAPER_TESTS
    place: ClassVar = 10
    question: ClassVar = ""

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
        """Keys of the papers, as addresses name them."""
        return tuple(self.papers)

    def find_paper(self, design: Design) -> Paper | None:
        """Return the paper that shows reports of a design; None for a design of no paper."""
        claiming = (paper for paper in self.papers.values() if paper.claims(design))
        return self._of_study.get(design.name) or next(claiming, None)

    def claims(self, design: Design) -> bool:
        """Return True if a paper shows reports of this design."""
        return self.find_paper(design) is not None

    def key_of(self, design: Design) -> str:
        """Return the key of the paper that shows reports of a design."""
        paper = self.find_paper(design)
        return self._first.key if paper is None else paper.key

    def key_of_study(self, name: str) -> str:
        """Return the key of the paper with this study; "" if none has it."""
        paper = self._of_study.get(name)
        return "" if paper is None else paper.key

    def place_of(self, visitor: Visitor) -> str:
        """Return the key of the paper that a visitor looks at."""
        return visitor.paper or self._first.key

    # The form.

    def build_question(self) -> None:
        """Build nothing: each paper's tab has its question."""

    def build_memory(self) -> None:
        """Remember the shown report and the browser's last choices."""
        super().build_memory()
        self.parts["asked"] = gr.Textbox("", visible="hidden", elem_id="paper-asked")

    def _build_ask(self) -> None:
        self.chips.build(self._chips_of(self._first), self._first.examples.listed, self._first.key)
        self._build_study()
        self._build_own_words()
        self._build_settings()
        fold = self.form_fold("Compare settings: add an arm", "paper-arms")
        self.arms = ArmsForm(self.key, self.services, fold)
        self._build_run()

    def _build_study(self) -> None:
        pictures, model = self.own_pictures, self._model_of(self._first.studies[0])
        self.form["images"] = pictures.images
        with gr.Row(equal_height=True, elem_classes="line"):
            self.form["study"] = gr.Dropdown(
                self._studies_of(self._first), value=self._first.studies[0], label="Study",
                info="The experiment to run", elem_id="paper-study", scale=4, min_width=240,
            )  # fmt: skip
            with gr.Column(scale=3, min_width=200) as size:
                self.form["percent"] = self.build_menu("percent", value=self.first_percent)
        with gr.Row(equal_height=True, elem_classes="line"):
            pictures.build_choice()
            with gr.Column(scale=7, min_width=240) as drawn, gr.Row(equal_height=True):
                self.form |= {name: self.build_menu(name, model=model) for name in ("model", "condition")}
        pictures.build_upload()
        self.drawing_parts += [size, drawn]

    def _build_own_words(self) -> None:
        with self.form_fold("Your own words", "paper-own") as self.parts["own_words"]:
            label = "Run with these instead of the study above"
            self.parts[USE_OWN] = gr.Checkbox(False, label=label, elem_id="paper-use-own", container=False)
            for paper in self.papers.values():
                with gr.Column(visible=paper is self._first) as self.parts[f"own {paper.key}"]:
                    paper.own = paper.build_own()

    def _build_settings(self) -> None:
        with self.form_fold("Sampling, classifier, options", "paper-more") as self.reading_fold:
            with gr.Row():
                self.form |= {name: self.build_menu(name) for name in CLASSIFIER}
                self.form["judge"].visible = self._is_judged(self._first)
            first = self._values_at_first(self._first)
            self.plain.build(self._fields_of(first["study"]), first)
            label = f"{FORM['labels'].label} ({', '.join(ending[1:] for ending in ENDINGS)})"
            look: dict[str, Any] = {"file_types": list(ENDINGS), "height": 110, "min_width": 240}
            self.form["labels"] = gr.File(label=label, elem_id="paper-labels", **look)
            self.parts["labels_look"] = gr.HTML(elem_id="paper-labels-look", elem_classes="notes")

    def _chips_of(self, paper: Paper) -> list[Chip]:
        presets = self.chip_presets.items()
        return [(key, preset.name, preset.says) for key, preset in presets if preset in paper.presets]

    def _studies_of(self, paper: Paper) -> list[tuple[str, str]]:
        return [(self.designs[name].title, name) for name in paper.studies]

    def _is_judged(self, paper: Paper) -> bool:
        return any(study_of(self.designs[name]).judged for name in paper.studies)

    def _model_of(self, study: str) -> str:
        return str(self.designs[study].settings.get("model", StudySettings().model))

    def _fields_of(self, study: str) -> Groups:
        """Return the plain fields of the form with the options of a study."""
        options = option_settings(self.designs[study]).items()
        fields = [Field(name=OPTION + name, setting=one, is_wide=one.kind is tuple) for name, one in options]
        return {**plain_groups(), "Options of this study": fields}

    def _options_as(self, study: str, chosen: Any = None) -> dict[str, Any]:
        """Return the options of a study as its form shows them; values in ``chosen`` override its defaults."""
        given = option_values(chosen or {})
        options = option_settings(self.designs[study]).items()
        return {OPTION + name: one.shown(one.read(given.get(name, one.default))) for name, one in options}

    def _values_at_first(self, paper: Paper) -> dict[str, Any]:
        """Return the form of a paper before any edit."""
        study = paper.studies[0]
        values = {key: one.shown(one.default) for key, one in FORM.items()}
        values |= {"study": study, "percent": self.first_percent, "model": self._model_of(study)}
        values |= {ARMS_INPUT: (), USE_OWN: False, "images": None, "labels": None}
        return values | self._options_as(study, paper.shown_options(study))

    def inputs(self) -> dict[str, Any]:
        """Return the form's components by name, with the arms and the fields of own words."""
        own = {
            f"{OWN_INPUT}{paper.key}.{name}": part for paper in self.papers.values() for name, part in paper.own.items()
        }
        form = {name: self.form[name] for name in ("study", *MENUS)}
        return form | {PLAIN: self.plain.values, ARMS_INPUT: self.arms.chosen, USE_OWN: self.parts[USE_OWN]} | own

    def values(self) -> dict[str, Any]:
        """Return the first values of these components."""
        values = {name: part.value for name, part in self.inputs().items()}
        return read_plain(values.pop(PLAIN)) | values

    def form_outputs(self) -> list[Any]:
        """Return everything that :meth:`form_of` changes."""
        parts = [self.parts[name] for name in (USE_OWN, "count", "labels_look", "own_words")]
        parts += [self.parts[f"own {key}"] for key in self.papers]
        parts += [*self.form.values(), *self.plain.outputs(), self.chips.html]
        parts += [*self.arms.outputs(), *self.source_outputs()]
        return list(dict.fromkeys(parts))

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
        own = {name: values[f"{OWN_INPUT}{paper.key}.{name}"] for name in paper.own}
        return paper.own_design(design, own), paper.own_settings(settings)

    def form_of(self, design: Design, settings: StudySettings) -> Updates:
        """Return the form for these settings of a shipped design; files are not restored."""
        above, arms = split_first_arm(settings)
        values = {key: option.shown(getattr(above, option.name)) for key, option in FORM.items() if key not in FILES}
        values |= self._options_as(design.name, above.options)
        values |= {"study": design.name, ARMS_INPUT: arms, USE_OWN: False, "images": None}
        count = self.count_of(settle(design, settings))  # no listener sees arms in a closed fold
        return self.show_source(DRAWN) | self.show_values(values) | {self.parts["count"]: count}

    def show_values(self, values: Mapping[str, Any]) -> Updates:
        """Return the form with these values, which may be wrong, and the words of their paper."""
        parts, form, study = self.parts, self.form, str(values["study"])
        paper, filled = self._of_study[study], {form[key]: values[key] for key in MENUS if key not in FILES}
        filled |= self.plain.show(self._fields_of(study), values)
        with messages.user_errors():  # a model that is none, of which the run tells
            filled[form["condition"]] = self._conditions(str(values["model"]), str(values["condition"] or ""))
        return filled | self.arms.show(values[ARMS_INPUT] or ()) | {
            form["study"]: gr.update(choices=self._studies_of(paper), value=study),
            form["model"]: gr.update(value=values["model"], info=HINT),
            form["judge"]: gr.update(value=values["judge"], visible=self._is_judged(paper)),
            form["labels"]: values.get("labels"), parts["labels_look"]: "",
            parts[USE_OWN]: bool(values[USE_OWN]),
            parts["own_words"]: gr.update(visible=bool(paper.own)),
            **{parts[f"own {key}"]: gr.update(visible=key == paper.key) for key in self.papers},
            self.chips.html: self.chips.render(self._chips_of(paper), paper.examples.listed, paper.key),
        }  # fmt: skip

    def wire_form(self) -> None:
        """Wire the events that change the form."""
        parts, form, named = self.parts, self.form, self.inputs()
        count = by_name(named, self.on_count), [parts["visitor"], *named.values()], parts["count"]
        studied = form["study"].input(
            by_name(named, self.on_study), [*named.values()],
            [*self.plain.outputs(), form["model"], form["condition"], parts["status"], parts[USE_OWN]], **LATEST,
        )  # fmt: skip
        chosen = [form["condition"], form["model"], parts["status"]]
        form["model"].input(self.on_model, [form["model"], form["condition"]], chosen, **LATEST)
        parts["count"].value = self.count_of(self.request_of(self.values()))
        parts["count"].edit(*count, **LATEST)
        studied.then(*count, **QUIET)  # its options may be hidden
        self.wire_pictures()
        # Typing own words ticks their box. For Gradio, text pasted with the mouse is a change but no input.
        own = [part for paper in self.papers.values() for part in paper.own.values()]
        typed = [part.change if isinstance(part, gr.Textbox) else part.input for part in own]
        gr.on(typed, None, None, parts[USE_OWN], js="() => true", **QUIET)

    def on_study(self, values: Mapping[str, Any]) -> Updates:
        """Show another study's options, with a model that it can use, and clear the status."""
        study = str(values["study"])
        paper = self._of_study[study]
        shown = {**values, "steps": None, "guidance": None, **self._options_as(study, paper.shown_options(study))}
        changed = self.plain.show(self._fields_of(study), shown) | {self.parts[USE_OWN]: False}
        return changed | {self.parts["status"]: ""} | paper.on_study(study, str(values["model"]))

    def on_model(self, name: str, condition: str | None) -> Updates:
        """Show another model's conditions, and a note on it."""
        with messages.user_errors() as problem:
            return {
                self.form["condition"]: self.conditions_after(name, condition),
                self.form["model"]: gr.update(info=describe_model(self.services, name)),
                self.parts["status"]: "",
            }
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_count(self, visitor: Visitor, values: Mapping[str, Any]) -> str:
        """Keep what was typed, and return the number of pictures in words; "" for invalid settings."""
        self.keep(visitor, values)
        return self.count_in(values)

    # The choice of a paper.

    def keep(self, visitor: Visitor, values: Mapping[str, Any], report: StudyReport | None = None) -> None:
        """Keep the form and the report of their papers while another paper is looked at."""
        if (paper := self._of_study.get(str(values["study"]))) is not None:
            visitor.typed[paper.key] = dict(values)
        if report is not None and (shown := self.find_paper(report.design)) is not None:
            visitor.results[shown.key] = name_of(report, self.services)

    def show_paper(
        self, key: str, visitor: Visitor, remembered: Mapping[str, Any] | None, link: Link, images: Any = None
    ) -> Updates:
        """Return the form of a paper as it was left, else with the address's values or the browser's last choices."""
        filled, last = self._values_at_first(self.papers[key]), (remembered or {}).get(key)
        if key in visitor.typed:
            filled |= visitor.typed[key]
        elif isinstance(last, dict):
            filled |= {name: str(value) for name, value in last.items() if name in REMEMBERED}
        filled["images"] = images
        if link.tab == key and link.values:
            filled |= {name: value for name, value in link.values.items() if name in FIELDS}
            if "study" in link.values or "options" in link.values:
                filled |= self._options_as(filled["study"], link.values.get("options"))
            filled[ARMS_INPUT] = link.values.get("arms", ())
            filled["condition"] = link.values.get("condition", "published")
        return self.show_values(filled) | {self.parts["count"]: self.count_in({**self.values(), **filled})}

    def kept_result(self, key: str, visitor: Visitor) -> StudyReport | None:
        """Return the report that a paper showed last on this page; None if there is none."""
        return report_of(visitor.results.get(key, ""), self.services)

    def show_empty(self) -> Updates:
        """Return the result page without a result."""
        hidden = dict.fromkeys((self.parts["shown"], self.parts["results"]), gr.update(visible=False))
        return (
            hidden
            | {self.parts[name]: "" for name in ("header", "beside_paper", "status")}
            | {self.parts["report"]: None}
        )

    def wire_memory(self, demo: gr.Blocks) -> None:
        """Remember the last choices of each paper in the browser."""
        chosen = [self.form[name] for name in REMEMBERED]
        inputs = [self.parts["remembered"], self.form["study"], *chosen]
        how = {**LATEST, "queue": False}
        self.on_any("input", chosen, self.on_remember, inputs, self.parts["remembered"], **how)

    def on_remember(self, remembered: Any, study: str, *chosen: Any) -> dict[str, Any]:
        """Return what the browser remembers, with these choices for the paper of the study."""
        kept = {key: last for key, last in (remembered or {}).items() if key in self.papers}
        return kept | {self.key_of_study(study): dict(zip(REMEMBERED, chosen, strict=True))}

    def first_examples(self) -> list[Any]:
        """Return the makers of each paper's first example."""
        return [lambda key=key: self.first_example(key) for key in self.papers]

    def first_example(self, key: str = "") -> Updates:
        """Show the first example of a paper before any run."""
        paper = self.papers.get(key, self._first)
        return paper.examples.first(self.show_report, self.parts["header"])

    def wire_choice(self, selects: Sequence[Any], known: Any, on_paper: Any) -> list[Any]:
        """Wire the events after which a paper may be looked at: its tab is chosen, or the visitor is ``known``."""
        parts, named = self.parts, self.inputs()
        inputs = [parts["asked"], parts["visitor"], parts["remembered"], parts["report"], *named.values()]
        told = by_name(named, on_paper), inputs, self.opened_outputs()
        chosen = gr.on([*selects, parts["looked_at"].select, self.chips.html.edit], *told, js=_ASKED_JS, **LATEST)
        asked = [chosen, known.then(*told, js=_ASKED_JS, **QUIET)]
        return [one.then(None, js=_FILLED_JS, **QUIET) for one in asked]

    def at_work_outputs(self) -> list[Any]:
        """Return what shows a run at work."""
        names = ("status", "run", "stop", LARGEST)
        return [*(self.parts[name] for name in names), self.drawing.html, *self.no_classifier.outputs()]

    # The result.

    def shown_here(self, visitor: Visitor, report: StudyReport, shown: Updates) -> Updates:
        """Return ``shown`` if its paper is looked at; else keep the report, and say where it is."""
        key = self.key_of(report.design)
        if visitor.paper in ("", key):
            return shown
        visitor.results[key] = name_of(report, self.services)
        note = render("elsewhere", key=key, title=self.papers[key].title)
        return {**self._buttons(running=False), self.drawing.html: "", self.parts["status"]: note}

    def link(self, report: StudyReport) -> str:
        """Return the address of the paper with these settings, without the visitor's own words."""
        return address_of(self.key_of(report.design), report)


class CloserLook(Panels):
    """A menu of the parts of a report, one part in words, and the pictures behind it, for papers that explain them."""

    def __init__(self, page: PapersTab) -> None:
        super().__init__()
        self._page = page

    def _paper_of(self, report: StudyReport) -> Paper | None:
        paper = self._page.find_paper(report.design)
        return paper if paper is not None and paper.closer else None

    def shows(self, report: StudyReport) -> bool:
        """Return True if the paper of a report explains its parts."""
        return self._paper_of(report) is not None

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
        """Show the first part of a new report."""
        paper = self._paper_of(report)
        choices = [] if paper is None else paper.closer_looks(report)
        first = choices[0][1] if choices else ""
        menu = gr.update(choices=choices, value=first or None, visible=len(choices) > 1)
        return {self.extra["closer"]: menu, **self._look_closer(report, first)}

    def wire_panels(self) -> None:
        """Wire the menu and the pictures."""
        report, extra = self._page.parts["report"], self.extra
        shown = [extra[name] for name in ("words", "behind", "opened")]
        extra["closer"].input(self.on_closer, [report, extra["closer"]], shown, **LATEST)
        extra["behind"].select(self.on_open, report, extra["opened"], **EACH)

    def on_closer(self, report: StudyReport | None, key: str) -> Updates:
        """Show another part of a report."""
        return gr.skip() if report is None else self._look_closer(report, key)

    def on_open(self, report: StudyReport | None, event: gr.EventData) -> str:
        """Show one of the pictures of that part large."""
        html = opened_html(report, str(event.image))
        return html + (why_html(report, str(event.image), self._page.services) if html and report else "")

    def _look_closer(self, report: StudyReport, key: str) -> Updates:
        paper = self._paper_of(report) if key else None
        parts = {
            "words": "" if paper is None else paper.closer_html(report, key),
            "behind": "" if paper is None else paper.behind_html(report, key),
        }
        shown = {self.extra[name]: gr.update(value=html, visible=bool(html)) for name, html in parts.items()}
        return {**shown, self.extra["opened"]: ""}
