"""The whole page from its tabs, and its state after a reload."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

import bias_core
from bias_core.app import api
from bias_core.app.gradio_faults import MendedBlocks, steady_queue
from bias_core.errors import InvalidInput
from bias_core.labels.tab import LabelTab, offers_login
from bias_core.measures.cards import glossary
from bias_core.report.saved import SavedReport, is_example
from bias_core.run.history import NOT_SHARED, SHARED, list_runs, open_run, study_of_run
from bias_core.services import Services
from bias_core.study.design import design_files, read_page_layout
from bias_core.study.types import Arm, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.calibration.tab import CalibrationTab
from bias_core.ui.links import LINK_NAMES, OPTION, RUN, Link, get_query, notice_html, read_link
from bias_core.ui.places import Places, group_tabs
from bias_core.ui.runs.tab import RunsTab, open_linked, open_public
from bias_core.ui.study.paper import PAPER_TESTS, Paper, plain_paper
from bias_core.ui.study.papers_tab import PapersTab
from bias_core.ui.study.study_tab import QUIET, REPLICATE_TIPS, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, build_visitor, steps_in_words, then_run
from bias_core.values import declared_settings

_USED_JS = "(visitor, used) => [visitor, [...window.usedForms].join(' ')]"
_AT_WORK, _EXAMPLE, _LINKED, _NOTHING = "at work", "example", "linked", "nothing"
"""Contents of a tab when the page is opened, in place of the id of its last run."""
_MOST_LOOKED_AT = 50  # newest runs compared with an address
_SETTINGS = {name: option for name, option in declared_settings(StudySettings).items() if option.may_be_linked}


class ComingBack:
    """Restores runs once the page's visitor is known; ``others`` are the tabs of studies."""

    def __init__(self, services: Services, runs: RunsTab, tabs: list[StudyTab]) -> None:
        self._services, self._runs = services, runs
        self._tabs: dict[str, StudyTab] = {key: tab for tab in (*tabs, runs) for key in tab.keys}
        self._papers = next((tab for tab in tabs if isinstance(tab, PapersTab)), None)
        self._first = tabs[0].key  # the tab that a new page shows
        self._kept = [tab for tab in (*tabs, runs) if tab is not self._papers]  # each keeps its last run at its start

    def wire(self, arrived: Any, visitor: Any, notice: Any, places: Places) -> None:
        """Wire the list of runs, each tab's last run, and the ``notice`` of a running one."""
        self._used = gr.Textbox("", visible="hidden", elem_id="used-forms")
        self.notice, last = notice, {tab.key: gr.State("") for tab in self._kept}
        notice.expand(self._runs.on_open, visitor, self._runs.everywhere, **QUIET)
        notice.select(self._runs.on_stop, visitor, None, queue=False, **QUIET)
        known = arrived.then(self.on_arrived, visitor, [notice, self._runs.parts["list"], *last.values()], **QUIET)
        for tab in self._kept:
            run = last[tab.key]
            outputs = self._runs.everywhere if tab is self._runs else tab.opened_outputs()
            # Only tabs with a run: an unchanged state triggers no event.
            shown = partial(self.on_last, tab.key), [visitor, run], [*outputs, notice]
            ran = then_run(run.change, *shown, partial(self.on_crash, tab.key))
            for event in (run.change, ran.then):  # the form of a run at work is known at once
                self._wire_fill(event, tab, tab.key)
            looked_at = tab.parts["looked_at"].select
            looked_at(self._build_look_handler(tab.key), [visitor, tab.parts["report"]], tab.outputs(), **messages.EACH)
        if self._papers is not None:
            self._wire_papers(self._papers, known, notice, places)

    def _wire_fill(self, event: Callable[..., Any], tab: StudyTab, key: str = "") -> None:
        """Fill the form with the settings of the run that was shown, unless it is in use; then it takes input."""

        def on_fill(visitor: Visitor, used: str) -> Any:
            return self.on_fill(key or visitor.paper, visitor, used)

        if outputs := tab.form_outputs():
            filled = event(on_fill, [tab.parts["visitor"], self._used], outputs, js=_USED_JS, **messages.EACH)
            filled.then(None, js="() => window.holdForm(false)", **QUIET)

    def on_fill(self, key: str, visitor: Visitor, used: str) -> Any:
        """The form with the settings of the run that was shown last, unless it is in use or a run was begun there."""
        run = visitor.unfilled.pop(key, None)
        is_free = run is not None and key not in visitor.places and key not in used.split()
        return (self._tabs[key].fill_from(*run) if is_free else {}) or gr.skip()

    def _wire_papers(self, papers: PapersTab, known: Any, notice: Any, places: Places) -> None:
        """Wire the choice of a paper, and then the run that is at work there."""

        def on_paper(
            asked: str, visitor: Visitor, remembered: dict[str, Any] | None, report: StudyReport | None,
            values: Mapping[str, Any],
        ) -> Updates:  # fmt: skip
            link = visitor.link or self._link(LocalContext.request.get(None))  # the page changes its address
            return self.on_paper(asked, visitor, remembered, report, values, link)

        visitor = papers.parts["visitor"]
        for chosen in papers.wire_choice([places.shown[key].select for key in papers.keys], known, on_paper):
            then_run(chosen.then, self.on_follow, visitor, [*papers.opened_outputs(), notice], papers.on_crash)
            self._wire_fill(chosen.then, papers)

    def on_paper(
        self, asked: str, visitor: Visitor, remembered: Mapping[str, Any] | None, report: StudyReport | None,
        values: Mapping[str, Any], link: Link,
    ) -> Updates:  # fmt: skip
        """Show a paper as it was left: its form, and the result that it showed last, else its last run or example."""
        papers = self._papers
        if papers is None or asked not in papers.keys or not visitor.has_arrived:
            return {self.notice: gr.skip()} if papers is None else {papers.parts["status"]: gr.skip()}
        before, visitor.paper = visitor.paper, asked
        is_of_another = papers.get_study_key(values["study"]) != asked
        # An address fills the form once, and again for a page that had not got it when it asked, untouched.
        is_late = is_of_another and asked not in visitor.typed
        is_linked = link.tab == asked and (asked not in visitor.seen or is_late)
        visitor.seen.add(asked)
        if before == link.tab != asked:
            visitor.link = Link()  # its tab is left
        if before:
            papers.keep(visitor, values, report)
        shown: Updates = {}
        if is_of_another or is_linked:
            shown = papers.show_paper(asked, visitor, remembered, link if is_linked else Link(), values["images"])
        if report is None or papers.get_design_key(report.design) != asked:
            if before != asked or is_of_another:
                shown |= papers.show_empty()
            shown |= self._find_result(papers, asked, visitor, link)
        if (at_work := self._services.run_queue.find(visitor.key)) is not None:  # its progress and its Stop stay
            for part in papers.running_outputs():
                shown.pop(part, None)
            shown |= {} if at_work.place == asked else {papers.drawing.html: ""}
        return shown or {papers.parts["status"]: gr.skip()}

    def _find_result(self, papers: PapersTab, key: str, visitor: Visitor, link: Link) -> Updates:
        """The result that a paper shows when it is chosen: the last one there, the address's, or an example."""
        shown, link = Updates(), link if link.tab == key else Link()
        with messages.user_errors():
            kept = papers.kept_result(key, visitor)
            if link.run and (kept is None or kept.run_id == f"{SHARED}{link.run}"):  # with the note that it is shared
                shown = self._show_linked(papers, visitor, link)
            elif kept is not None:
                shown = papers.show_report(kept)
            elif run_id := self._last_runs(visitor).get(key, ""):
                if self._is_asked(run_id, link):
                    shown = self._show_run(papers, key, visitor, open_run(self._services, visitor.key, run_id))
            elif not link.values and key not in visitor.places:
                shown = papers.first_example(key)
        return shown

    def on_follow(self, visitor: Visitor) -> Iterator[Updates]:
        """Follow a run at work on the page of the papers, unless the page does so already."""
        papers, at_work = self._papers, self._services.run_queue.find(visitor.key)
        if papers is None or at_work is None or at_work.place not in papers.keys or visitor.follows:
            return
        yield from papers.following(visitor, steps_in_words(at_work), at_work.place, messages.GOES_ON)
        yield {self.notice: self._build_run_note("")}

    def on_arrived(self, visitor: Visitor, request: gr.Request | None = None) -> list[Any]:
        """The current list; for each tab the id of its last run, or that one is running."""
        with messages.user_errors():
            last = self._last_runs(visitor)
            at_work, link = self._services.run_queue.find(visitor.key), self._link(request)
            hidden = ""  # a tab with a running run, if it is not the open one
            if at_work is not None and at_work.place:
                last[at_work.place] = _AT_WORK
                self._note_unfilled(visitor, at_work.place)
                hidden = at_work.place if link.run or at_work.place != (link.tab or self._first) else ""
            visitor.link = link
            if link.run:
                last[link.tab] = _LINKED
            last.setdefault(self._first, _EXAMPLE)
            if self._is_asked(last.get(link.tab, ""), link):
                last.setdefault(link.tab, _EXAMPLE)
            else:  # the address's settings were not run yet: only the form is filled
                last[link.tab] = _NOTHING
            listed = self._runs.on_list(visitor)
            return [self._build_run_note(hidden), listed, *(last.get(tab.key, "") for tab in self._kept)]
        return [self._build_run_note(""), self._runs.on_list(visitor), *[""] * len(self._kept)]

    def _note_unfilled(self, visitor: Visitor, place: str) -> None:
        """Let :meth:`on_fill` show the settings of the run at work, unless it still waits."""
        running = [line.run_id for line in list_runs(self._services, visitor.key) if line.status == "running"]
        if running:
            visitor.unfilled[place] = study_of_run(self._services, visitor.key, running[0])

    def _build_run_note(self, place: str) -> Any:
        """A note on the run in progress in a tab; hidden without one."""
        return gr.update(value=render("at_work", title=place.title()) if place else "", visible=bool(place))

    def on_last(self, key: str, visitor: Visitor, run_id: str) -> Iterator[Updates]:
        """Show a tab's last run with its settings or its example, or follow the running one."""
        tab = self._tabs[key]
        if run_id == _EXAMPLE:
            yield tab.first_view(visitor)
            return
        at_work = self._services.run_queue.find(visitor.key)
        if run_id == _AT_WORK and at_work is not None:
            yield from tab.following(visitor, steps_in_words(at_work), key, messages.GOES_ON)
            yield {self.notice: self._build_run_note("")}
            return
        shown: Updates = {tab.parts["header"]: ""}
        with messages.user_errors():  # the list of runs explains why a run cannot be opened
            if run_id == _AT_WORK:  # the run has ended in the meantime
                run_id = self._last_runs(visitor).get(key, "")
            if run_id == _LINKED:
                shown = self._show_linked(tab, visitor, visitor.link)
            elif run_id and run_id != _NOTHING:
                shown = self._show_run(tab, key, visitor, open_run(self._services, visitor.key, run_id))
        if key not in visitor.places:  # else a run was begun in the meantime
            yield shown

    def _show_run(self, tab: StudyTab, key: str, visitor: Visitor, saved: SavedReport) -> Updates:
        """Show a run without its settings in the form, which :meth:`on_fill` fills in."""
        visitor.unfilled[key] = saved.report.design, saved.report.settings
        return tab.show_saved(saved, with_form=False)

    def _show_linked(self, tab: StudyTab, visitor: Visitor, link: Link, *, with_form: bool = True) -> Updates:
        """Show the result that the address names, or why it cannot be shown; an example leaves the form alone."""
        with messages.user_errors() as problem:
            saved, banner = open_linked(self._services, visitor, link.run)
            if self._runs.find_tab_key(saved.report.design) != link.tab:
                raise InvalidInput(NOT_SHARED)
            if not is_example(saved.report):
                return tab.show_saved(saved, banner, with_form=with_form)
            shown, header = tab.show_report(saved.report), tab.parts["header"]
            return shown | {header: banner + shown[header]}
        return {tab.parts["status"]: messages.error_html(problem.message), tab.parts["header"]: ""}

    def wire_history(self, page: Any, visitor: Any) -> None:
        """Show the result of an entry of the browser's history when Back or Forward leads to it."""
        page.expand(self.on_entry, visitor, self._runs.everywhere, **messages.EACH)

    def on_entry(self, visitor: Visitor, event: gr.EventData) -> Updates:
        """Show a result in its tab, with its settings in an unchanged form; or say why it cannot be shown."""
        if (tab := self._tabs.get(str(event.tab))) is None:
            return {self.notice: gr.skip()}
        link = Link(tab=str(event.tab), run=str(event.run))
        return {tab.parts["status"]: ""} | self._show_linked(tab, visitor, link, with_form=bool(event.form))

    def on_crash(self, key: str) -> Updates:
        """Show that the run followed in a tab met an unexpected error."""
        return {**self._tabs[key].on_crash(), self.notice: self._build_run_note("")}

    def _build_look_handler(self, key: str) -> Callable[..., Updates]:
        """:meth:`on_look` of a tab; a partial would have no types for Gradio, and so get no request."""

        def on_look(
            visitor: Visitor, shown: StudyReport | None, event: gr.EventData, request: gr.Request | None = None
        ) -> Updates:
            is_lost = getattr(event, "again", False)  # a reloaded page has lost the shown report
            return self.on_look(key, visitor, None if is_lost else shown, request)

        return on_look

    def on_look(
        self, key: str, visitor: Visitor, shown: StudyReport | None, request: gr.Request | None = None
    ) -> Updates:
        """Show a tab's example when first opened, unless the visitor has or requests a run there."""
        tab = self._tabs[key]
        with messages.user_errors():
            has_own = partial(self._has_own, key, visitor, self._link(request))
            if shown is None and visitor.has_arrived and not has_own():
                view = tab.first_view(visitor)
                if not has_own():  # a run may have begun while the example was made
                    return view
        return {tab.parts["status"]: gr.skip()}

    def _has_own(self, key: str, visitor: Visitor, link: Link) -> bool:
        """True if a tab has any run of the visitor, or the address fills in its form."""
        at_work = self._services.run_queue.find(visitor.key)
        is_here = key in visitor.places or (at_work is not None and at_work.place == key)
        is_linked = (link.tab or self._first) == key and (link.values or link.run)
        return is_here or bool(is_linked) or key in self._last_runs(visitor)

    def _link(self, request: gr.Request | None) -> Link:
        query = get_query(request)
        if run_id := query.get(RUN, ""):
            with messages.user_errors():  # :meth:`on_link` says why
                return Link(tab=self._home_of_linked(run_id, query), run=run_id)
        return read_link(query, {key: _STUDIES.get(key, ()) for key in self._tabs}, self._services)

    def _home_of_linked(self, run_id: str, query: Mapping[str, str]) -> str:
        """The key of the tab of a result that everyone may see, else of the tab in the address, for its owner.

        Raises InvalidInput if the result is not shared and the address names no tab.
        """
        with messages.user_errors() as problem:
            return self._runs.find_tab_key(open_public(self._services, run_id)[0].report.design)
        if (tab := query.get("tab", "")) in self._tabs:
            return tab
        raise InvalidInput(problem.message)

    def link_reader(self, places: Places, notice: Any) -> Callable[[gr.Request], Updates]:
        """:meth:`on_link`; a partial would have no types for Gradio, and so get no request."""

        def on_link(request: gr.Request) -> Updates:
            return self.on_link(places, notice, request)

        return on_link

    def on_link(self, places: Places, notice: Any, request: gr.Request) -> Updates:
        """Open the address's tab, and note its unknown parts."""
        query, problem = get_query(request), ""
        if run_id := query.get(RUN, ""):
            with messages.user_errors() as refused:
                return {**places.open(self._home_of_linked(run_id, query)), notice: gr.update(visible=False)}
            problem = messages.error_html(refused.message)
        link = read_link(query, _STUDIES, self._services)
        text = problem + notice_html(link)
        opened = places.open(link.tab) if link.tab else {}
        return {**opened, notice: gr.update(value=text, visible=bool(text))}

    def _is_asked(self, run_id: str, link: Link) -> bool:
        """True if a run has the address's values; otherwise the filled-in form stays."""
        if not link.values or run_id == _AT_WORK:
            return True
        run = self._services.manifests.find(run_id) if run_id else None
        if run is None:
            return False
        has = {option.key: option.format_value(run.settings.get(name)) for name, option in _SETTINGS.items()}
        options, values = run.settings.get("options", {}), dict(link.values)
        has |= {"study": run.study, "concept": options.get("concept")}
        has["arms"] = tuple(Arm(**arm) for arm in run.settings.get("arms", ()))
        for name, value in values.pop("options", {}).items():  # manifests store tuples as lists
            if options.get(name) != (list(value) if isinstance(value, tuple) else value):
                return False
        return all(has.get(name) == value for name, value in values.items())

    def _last_runs(self, visitor: Visitor) -> dict[str, str]:
        """Id of the newest run with a report, by tab."""
        lines = [line for line in list_runs(self._services, visitor.key) if line.saved]
        last: dict[str, str] = {}
        for line in lines[:_MOST_LOOKED_AT]:
            with messages.user_errors():
                design, _ = study_of_run(self._services, visitor.key, line.run_id)
                tab = next((tab for tab in self._tabs.values() if tab.claims(design)), self._runs)
                last.setdefault(tab.get_design_key(design), line.run_id)
        return last


TITLE = "T2I Bias Explorer"
PACKAGE = Path(bias_core.__file__).parent


def find_tabs() -> tuple[Any, ...]:
    """Classes of tabs and papers in order: from files ``tab.py``, or a plain paper for a study without one."""
    modules = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("tab.py")]
    classes = [member for name in modules for member in vars(import_module(name)).values() if _is_tab(member, name)]
    folders = sorted({path.parent.parent for path in design_files().values()})
    plain = (folder for folder in folders if not (folder / "tab.py").exists() and not read_page_layout(folder).tab)
    classes += map(plain_paper, plain)
    return tuple(sorted(classes, key=lambda tab: (tab.place, tab.key)))


def _is_tab(member: object, module: str) -> bool:
    return (
        isinstance(member, type)
        and member.__module__ == module
        and hasattr(member, "group")
        and hasattr(member, "place")
    )


TABS = find_tabs()
_STUDIES = {tab.key: tuple(getattr(tab, "studies", ())) for tab in TABS}
_CACHE_SECONDS = 3600


def build_app(services: Services) -> MendedBlocks:
    """The page, built without loading a model."""
    cache = (_CACHE_SECONDS, _CACHE_SECONDS)
    with MendedBlocks(services.uploads, title=TITLE, analytics_enabled=False, delete_cache=cache) as demo:
        page = _build_header()
        notice = gr.HTML(visible=False, elem_id="link-notice")
        at_work = gr.HTML(visible=False, elem_id="at-work", js_on_load=script("runs"))
        demo.visitor, arrived = build_visitor(demo)
        visitor = demo.visitor
        kinds = [tab for tab in TABS if issubclass(tab, Paper)]
        papers = PapersTab(services, kinds)
        built = {tab.key: tab(services) for tab in TABS if tab not in kinds} | {papers.key: papers}
        for tab in built.values():
            tab.build_memory()

        def build(tab: Any) -> None:
            if tab in kinds:
                gr.HTML(render("question", question=tab.question, caution=tab.caution, paper=tab.name_paper()))
            else:
                built[tab.key].build(demo, visitor)

        places = Places()
        places.build(TABS, build, {PAPER_TESTS: lambda: papers.build(demo, visitor)})
        _build_token(visitor)
        runs = next(tab for tab in built.values() if isinstance(tab, RunsTab))
        runs.connect(places, built)
        studies = [tab for tab in runs.others if isinstance(tab, StudyTab)]
        built[LabelTab.key].connect(places, [*studies, runs])
        coming_back = ComingBack(services, runs, studies)
        coming_back.wire(arrived, visitor, at_work, places)
        coming_back.wire_history(page, visitor)
        tab_examples = [tab.first_example for tab in (*studies, built[CalibrationTab.key]) if tab is not papers]
        demo.first_examples = [tab_examples[0], *papers.first_examples(), *tab_examples[1:]]
        for tab in studies:
            tab.wire_gpu_time(arrived)
        read = demo.load(coming_back.link_reader(places, notice), None, [*places.outputs(), notice], **QUIET)
        read.then(None, js="() => { window.linkIsRead = true; }", **QUIET)
        api.add_tools(services)
    for event in demo.fns.values():
        if event.show_progress_on is None:  # hidden: otherwise Gradio looks up the outputs of all earlier events
            event.show_progress_on = [notice]
    # For all events; runs have their own queue. Without a number, Gradio handles one event at a time on ZeroGPU.
    steady_queue(demo, default_concurrency_limit=8)
    return demo


def _build_header() -> Any:
    """Build the top of the page, with the script that all tabs share."""
    tips = {f"{PapersTab.key}-{name.replace('_', '-')}": says for name, says in REPLICATE_TIPS.items()}
    groups = {
        tab.key: group if members[1:] or group == PAPER_TESTS else tab.key
        for group, members in group_tabs(TABS).items()
        for tab in members
    }
    facts = {"groups": groups, "tips": tips, "linkNames": LINK_NAMES, "optionPrefix": OPTION}
    return gr.HTML(render("header"), js_on_load=script("page", **facts) + _glossary_script())


def _glossary_script() -> str:
    """The script that explains symbols, from the cards of the measures."""
    return script("glossary", terms=list(map(asdict, glossary())), words=_WORDS)


_WORDS = {
    "arm": "One version of the settings that a run compares, such as another concept, model or prompt.",
    "planted": "Built into the pictures of the calibration world on purpose, so that the true bias is known.",
    "condition": "The bias that is built into a calibration model: as published, none (fair), or the most (extreme).",
}
"""Words of this program, which each page explains where they first stand."""


def _build_token(visitor: Any) -> None:
    """Build the field for a visitor's token for hosted models; it stays in the page's memory."""
    with gr.Accordion("Hosted models: your own token", open=False, elem_classes="more", elem_id="hosted"):
        gr.HTML(render("hosted_token"))
        with gr.Row():
            box = gr.Textbox(
                type="password", label="Token or key", max_lines=1, elem_id="hosted-token", min_width=260,
                info="Hugging Face token (hf_…), or a key for this app's OpenAI-compatible server",
            )  # fmt: skip
            if offers_login():
                names = ("Sign in with Hugging Face", "Sign out ({})")
                gr.LoginButton(*names, variant="secondary", size="md", scale=0, min_width=260, elem_id="hosted-login")
        box.change(on_token, [visitor, box], None, **QUIET)


def on_token(visitor: Visitor, typed: str | None) -> None:
    """Use the typed token to pay for this visitor's runs; an empty field removes it."""
    visitor.type_token(typed or "")
