"""The page of the papers: each keeps what was typed and its result, and no forged text stands for a component."""

import asyncio
import json
import threading
from html import unescape
from types import SimpleNamespace

import gradio as gr
import pytest

from bias_core.app.build import TABS, ComingBack, build_app
from bias_core.errors import Cancelled, InvalidInput
from bias_core.explore.tab import ExploreTab
from bias_core.papers.pst.tab import Paired
from bias_core.papers.t2iat.tab import Association
from bias_core.run.run_queue import Requester
from bias_core.study.design import option_settings
from bias_core.study.types import Progress, StudySettings
from bias_core.types import ImageRow, StoredImage
from bias_core.ui.links import Link
from bias_core.ui.runs.tab import RunsTab
from bias_core.ui.study.fields import read_plain
from bias_core.ui.study.form import FILES, FORM, MENUS, PLAIN, pass_values_by_name
from bias_core.ui.study.paper import Paper
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built, form_values, paper_of, plain_of, sent

services = shared.fake_services

KINDS = [tab for tab in TABS if issubclass(tab, Paper)]
SMALL = {"percent": 2, "option.tests": "science_arts", "option.n_permutations": "50"}


@pytest.fixture(scope="module")
def page(services):
    return built(KINDS[0], services, *KINDS[1:])


@pytest.fixture
def coming(page, services):
    coming = ComingBack(services, built(RunsTab, services), [page])
    coming.notice = gr.HTML(render=False)
    return coming


@pytest.fixture
def visitor():
    visitor = arrived()
    yield visitor
    visitor.stop.set()
    visitor.leave()


class Opened:
    """The form and the result of a page while its papers are chosen."""

    def __init__(self, coming, page, visitor, link=None):
        self.coming, self.page, self.visitor = coming, page, visitor
        self.values, self.report, self.link, self.shown = page.values(), None, link or Link(), {}

    def choose(self, paper, remembered=None):
        self.update(self.coming.on_paper(paper, self.visitor, remembered or {}, self.report, self.values, self.link))
        chosen = self.shown
        filled = self.coming.on_fill(paper, self.visitor, "")
        if filled != gr.skip():
            self.update(filled)
            self.shown = chosen | self.shown
        return self.shown

    def update(self, shown):
        assert set(shown) <= set(self.page.opened_outputs())
        page, self.shown = self.page, shown
        for name, part in page.inputs().items():
            new = shown.get(part)
            if name == PLAIN and part in shown:
                self.values = {name: value for name, value in self.values.items() if name in page.inputs()}
                self.values |= read_plain(new)
            elif isinstance(new, dict) and new.get("__type__") == "update":
                self.values |= {name: new["value"]} if "value" in new else {}
            elif part in shown:
                self.values[name] = new
        self.report = shown.get(page.parts["report"], self.report)


@pytest.fixture
def opened(coming, page, visitor):
    opened = Opened(coming, page, visitor)
    opened.choose("association")
    return opened


def header(opened):
    return opened.shown.get(opened.page.parts["header"])


# What is kept of each paper.


def test_what_is_typed_for_each_paper_is_kept_while_another_is_looked_at_also_what_is_no_number(opened):
    typed = {"seed": "many", "percent": 7, "option.n_permutations": "x"}
    opened.values |= typed
    opened.choose("paired")
    assert opened.values["study"] == "pst-occupations"
    assert (opened.values["seed"], opened.values["percent"]) == (0, 10)
    assert "option.n_permutations" not in opened.values
    opened.values |= {"steps": "-3", "use_own": True}
    opened.choose("association")
    assert {name: opened.values[name] for name in typed} == typed
    assert 'value="many"' in opened.shown[opened.page.plain.html]
    assert not opened.values["use_own"]
    opened.choose("paired")
    assert (opened.values["steps"], opened.values["use_own"]) == ("-3", True)


def test_what_is_typed_is_kept_with_its_count_before_a_paper_is_left(page, visitor):
    values = form_values(page, SMALL | {"seed": "5"})
    assert page.on_count(visitor, values) == page.describe_form_size(values) != ""
    assert visitor.typed["association"]["seed"] == "5"
    assert page.on_count(visitor, values | {"seed": "many"}) == ""
    assert visitor.typed["association"]["seed"] == "many"


def test_each_paper_has_its_words_its_studies_its_fields_and_its_example(opened, page):
    shown = {}
    for key, paper in page.papers.items():
        opened.choose(key)
        updates = opened.shown if key != "association" else opened.shown | page.show_values(page.values())
        assert [value for _, value in updates[page.form["study"]]["choices"]] == list(paper.studies)
        assert updates[page.parts["own_words"]]["visible"]
        assert [k for k in page.papers if updates[page.parts[f"own {k}"]]["visible"]] == [key]
        assert all(preset.name in unescape(updates[page.chips.html]) for preset in paper.presets)
        if key != "association":
            assert "example-note" in header(opened)
            shown[key] = opened.report.design.kind
    assert len(set(shown.values())) == len(page.papers) - 1


def test_the_browser_s_choices_are_of_one_paper_and_less_than_what_was_typed(opened, page):
    chosen = {"model": "calibration-diffusion", "condition": "fair", "encoder": "calibration-clip"}
    remembered = page.on_remember({"gone": {"model": "x"}}, {"study": "pst-power", **chosen})
    assert remembered == {"paired": chosen}
    opened.choose("paired", remembered)
    assert (opened.values["model"], opened.values["condition"]) == ("calibration-diffusion", "fair")
    opened.choose("objects", remembered)
    assert opened.values["condition"] == "published"
    for forged in ({"paired": "x"}, {"paired": {"labels": "/etc/passwd", "study": "t2iat-human", "seed": "9"}}):
        other = Opened(opened.coming, page, arrived())
        other.choose("paired", forged)
        assert {name: other.values[name] for name in ("study", "labels", "seed")} == {
            "study": "pst-occupations", "labels": None, "seed": 0,
        }  # fmt: skip


def test_a_model_that_is_none_is_kept_too_and_keeps_no_paper_from_being_shown(opened, page):
    opened.values |= {"model": "no model!"}
    opened.choose("paired")
    opened.choose("association")
    assert opened.values["model"] == "no model!"
    other = Opened(opened.coming, page, arrived())
    other.choose("paired", {"paired": {"model": "gone/model@x"}})
    assert other.values["study"] == "pst-occupations"


def arrived():
    visitor = Visitor()
    assert visitor.key
    return visitor


def test_the_last_result_of_each_paper_comes_back_with_it(opened, page, visitor):
    *_, done = page.on_run(visitor, form_values(page, SMALL))
    opened.update(done)
    run = opened.report.run_id
    opened.choose("paired")
    assert opened.report.run_id != run
    opened.choose("association")
    assert opened.report.run_id == run
    assert "example-note" not in header(opened)
    opened.choose("association")
    assert header(opened) is None  # it is there
    reloaded = Opened(opened.coming, page, Visitor())
    reloaded.visitor.key = visitor.key
    reloaded.choose("paired")
    assert "example-note" in header(reloaded)
    reloaded.choose("association")
    assert reloaded.report.run_id == run
    assert reloaded.values["percent"] == 2
    assert "Opened: a run of" in reloaded.shown[page.parts["status"]]


def test_a_run_that_ends_while_another_paper_is_looked_at_is_offered_and_shown_when_its_paper_is_chosen(
    opened, page, visitor
):
    steps = page.on_run(visitor, form_values(page, SMALL, x="slow: cat, dog", y="b: art, music", n=2))
    for _ in range(2):  # it waits, and draws
        opened.update(next(steps))
    opened.choose("paired")
    at_work = {page.parts[name] for name in ("status", "run", "stop")}
    assert not at_work & set(opened.shown)  # its progress and its Stop stay
    example = opened.report
    later = list(steps)
    progress = [one for one in later[:-1] if page.parts["status"] in one]
    assert all("Association" in one[page.parts["status"]] for one in progress)
    assert all(one[page.drawing.html] == "" for one in progress)
    last = later[-1]
    assert not {page.parts[name] for name in ("header", "report", "results")} & set(last)
    assert 'data-go="association"' in last[page.parts["status"]]
    assert "Association is done" in last[page.parts["status"]]
    assert last[page.parts["run"]]["visible"]
    assert not last[page.parts["stop"]]["visible"]
    opened.update(last)
    assert opened.report is example
    opened.choose("association")
    assert opened.report.design.name == "own-association"
    assert "slow" in header(opened)


def test_a_run_goes_on_where_a_page_opens_again_and_is_followed_once(coming, page, visitor, services):
    go_on = threading.Event()
    begun(services, visitor, "paired", go_on)
    reloaded = Opened(coming, page, visitor)
    reloaded.choose("association")
    followed = coming.on_follow(visitor)
    first = next(followed)
    assert "continued" in first[page.parts["status"]]
    assert "Paired" in next(followed)[page.parts["status"]]
    assert visitor.follows
    assert list(coming.on_follow(visitor)) == []
    refused = page.on_click(visitor)  # of another paper
    assert "Your run in Paired is still running" in refused[page.parts["at_work"]]
    go_on.set()
    *_, last = followed
    assert coming.notice in last
    assert not visitor.follows


def begun(services, visitor, place, go_on):
    """A run that is at work in a place until it may go on, and is then stopped."""

    def steps():
        while not go_on.wait(0.01) and not visitor.stop.is_set():
            yield Progress(message="drawing")
        raise Cancelled("stopped")

    services.run_queue.begin(steps, Requester(name=visitor.key), visitor.stop, place)


def test_a_run_that_is_stopped_from_another_paper_leaves_no_pictures_there(page, visitor, tmp_path):
    rows = tuple(ImageRow(prompt="p", seed=seed, model="m") for seed in range(3))
    images = tuple(StoredImage(row=row, truth=None, path=tmp_path / f"{row.id}.png") for row in rows[:2])

    def stopped():
        yield Progress(message="", drawing=rows, total=3, done=2, images=images)
        raise Cancelled("stopped")

    for looked_at, is_left in (("association", True), ("paired", False)):
        visitor.paper = looked_at
        *_, last = page.following(visitor, stopped(), "association")
        assert ("2 of 3 pictures finished" in last[page.drawing.html]) == is_left, looked_at


def test_a_run_is_of_the_paper_whose_study_it_runs_also_if_another_was_chosen_just_after_the_press(
    page, visitor, services
):
    visitor.paper = "paired"  # the press was in Association
    steps = page.on_run(visitor, form_values(page, SMALL | {"seed": "77"}))
    for _ in range(2):
        next(steps)
    at_work = services.run_queue.find(visitor.key)
    assert at_work is not None
    assert at_work.place == "association"
    visitor.stop.set()
    list(steps)


def test_an_address_fills_the_form_of_its_paper_alone_and_its_example_does_not_take_the_word(coming, page, visitor):
    link = Link(tab="paired", values={"study": "pst-power", "percent": 7, "options": {"single_images": 3}})
    opened = Opened(coming, page, visitor, link)
    opened.choose("paired")
    assert {name: opened.values[name] for name in ("study", "percent")} == {"study": "pst-power", "percent": 7}
    assert str(opened.values["option.single_images"]) == "3"
    assert not header(opened)  # what it asks for was not run
    opened.choose("objects")
    assert opened.values["percent"] == 10
    assert "example-note" in header(opened)
    opened.choose("paired")
    assert opened.values["percent"] == 7
    late = Opened(coming, page, arrived(), link)
    late.choose("association")  # the page says first that its first tab is open
    late.choose("paired")
    assert late.values["percent"] == 7


def test_an_address_fills_the_form_of_a_page_that_asked_again_before_it_came(coming, page, visitor):
    opened = Opened(coming, page, visitor, Link(tab="paired", values={"study": "pst-power", "percent": 7}))
    empty = dict(opened.values)
    opened.choose("paired")
    opened.values = dict(empty)
    opened.choose("paired")
    assert {name: opened.values[name] for name in ("study", "percent")} == {"study": "pst-power", "percent": 7}
    visitor.typed["paired"] = opened.values | {"percent": 9}
    opened.values = dict(empty)
    opened.choose("paired")
    assert opened.values["percent"] == 9  # what was typed stays


def test_an_empty_paper_says_again_that_it_is_open_and_neither_its_address_nor_its_last_word_goes(
    coming, page, visitor
):
    link = Link(tab="paired", values={"study": "pst-power", "percent": 7})
    opened = Opened(coming, page, visitor, link)
    opened.choose("paired")
    opened.choose("paired")  # the page says so as long as it shows neither a result nor a run
    assert not header(opened)
    page.on_click(visitor)  # who began a run here, which was stopped or refused: its last word stays
    opened.choose("paired")
    assert not header(opened)
    assert opened.shown.get(page.parts["status"], gr.skip()) == gr.skip()


def test_before_the_visitor_is_known_and_for_a_tab_that_is_no_paper_nothing_changes(coming, page):
    visitor = Visitor()
    for asked in ("association", "", "explore", "<script>", None, ["paired"]):
        shown = coming.on_paper(str(asked), visitor, {}, None, page.values(), Link())
        assert shown == {page.parts["status"]: gr.skip()}
        assert visitor.paper == ""


# The plain fields.


def test_every_declared_option_of_every_study_and_every_setting_has_a_field(page):
    lacking = []
    for study, design in page.designs.items():
        groups = page.get_field_groups(study)
        names = [field.name for fields in groups.values() for field in fields]
        assert len(names) == len(set(names)), study
        html = page.plain.show(groups, page.option_values(study))[page.plain.html]
        for name in (f"option.{name}" for name in option_settings(design)):
            lacking += [(study, name)] if name not in names or f'name="{name}"' not in html else []
        lacking += [(study, name) for name in FORM if name not in (*MENUS, *names)]
    assert lacking == []
    assert len(page.designs) > 12


COMPONENTS = ("model", "study", "arms", "report", "pack", "attributes", "other", "concept", "use_own")
NEVER = ("/etc/passwd", ["x"], {"a": 1})
FORGED = [
    "", "{", "[]", "null", "3", '"x"', "[1, 2]", "\x00", "{" * 5000, "[" * 100_000, '{"a":' * 100_000,
    '{"seed": 1e999}', '{"seed": NaN}', '{"seed": -Infinity}', '{"seed": ' + "9" * 5000 + "}", '{"seed": true}',
    '{"seed": ["x"]}', '{"seed": {"a": 1}}', '{"option.tests": null}', '{"option.no": "x"}', '{"": ""}',
    '{"steps": "\\ud800"}', '{"seed": "\\u0000"}', '{"size": false}', '{"guidance": "nan"}', '{"confidence": "1e400"}',
    '{"further_encoders": 5}', '{"stop_when_clear": "maybe"}', '{"sampler": "x"}',
    *(json.dumps({name: value}) for name in (*FILES, *COMPONENTS) for value in NEVER),
    json.dumps({"options": "x", "use_own": True, "own.association.x": "cat, dog", "visitor": "y", "plain": "{}"}),
]  # fmt: skip


@pytest.mark.parametrize("kind", [Association, Paired, ExploreTab])
def test_no_forged_text_of_the_plain_fields_crashes_a_handler_or_stands_for_a_component(services, kind):
    page, visitor, handed = built(kind, services), Visitor(), []
    components = {name: part.value for name, part in page.inputs().items() if name != PLAIN}
    arrive = pass_values_by_name(page.inputs(), handed.append)
    for text in FORGED:
        arrive(*(text if name == PLAIN else components[name] for name in page.inputs()))
        values = handed[-1]
        assert {name: values[name] for name in components} == components, text[:50]
        _, settings = asked(page, values)
        if settings is not None:
            assert (settings.images, settings.labels, settings.arms) == ("", "", ()), text[:50]
        assert page.on_gpu_time(visitor, "calibration-renderer", text) == ""
        if kind is not ExploreTab:
            assert isinstance(page.on_count(visitor, values), str), text[:50]
            assert isinstance(page.on_labels(values), str), text[:50]
            assert page.plain.values in page.on_study(values), text[:50]
            page.show_paper(kind.key, visitor, {}, Link())  # as it was typed


def asked(page, values):
    try:
        return page.design_and_settings(values)
    except InvalidInput:
        return None, None


def test_a_form_arrives_as_it_was_sent_and_an_unknown_study_is_refused(services):
    page = built(Association, services)
    values, handed = form_values(page, SMALL | {"seed": "5", "negative": "a hat"}, x="A: cat, dog"), []
    pass_values_by_name(page.inputs(), handed.append)(*sent(page, values))
    assert handed == [values]
    design, settings = page.design_and_settings(handed[0])
    assert (design.name, settings.seed, settings.negative_prompt) == ("own-association", 5, "a hat")
    *_, refused = page.on_run(Visitor(), values | {"study": "no study"})
    assert "choose a study" in refused[page.parts["status"]]


def test_a_study_brings_its_options_and_the_other_settings_stay(services):
    page = built(Association, services)
    values = form_values(page, {"study": "t2iat-human", "seed": "5", "negative": "a hat"})
    fields = plain_of(page, page.on_study(values))
    assert (fields["seed"], fields["negative"]) == ("5", "a hat")
    options = {name for name in fields if name.startswith("option.")}
    assert options == {f"option.{name}" for name in option_settings(page.designs["t2iat-human"])}
    design, settings = page.designs["t2iat-tests"], StudySettings(seed=7, options={"crossing": "full"})
    fields = plain_of(page, page.show_settings(design, settings))
    assert (int(fields["seed"]), fields["option.crossing"]) == (7, "full")


def test_no_plain_field_is_markup(services):
    page, evil = built(Association, services), '"><img src=x onerror=alert(1)>'
    html = page.plain.show(page.get_field_groups("t2iat-tests"), {"seed": evil, "option.tests": evil, "sampler": evil})
    assert "<img src=x" not in html[page.plain.html]
    assert plain_of(page, html)["seed"] == evil


def test_own_words_are_of_the_paper_whose_study_is_chosen(page):
    words = {"own.association.x": "A: cat, dog", "own.paired.first": "pilot", "use_own": True}
    for study, name in (("t2iat-human", "own-association"), ("pst-power", "pst-two")):
        design, _ = page.design_and_settings(form_values(page) | words | page.option_values(study) | {"study": study})
        assert design.name == name


# The whole page.


def test_the_page_is_small(services):
    async def config():  # Gradio's queue wants a running loop
        return build_app(services).get_config_file()

    described = asyncio.run(config())
    assert len(described["components"]) <= 1000
    assert len(described["dependencies"]) <= 330
    assert len(json.dumps(described, default=str)) <= 1.3e6


def test_a_paper_alone_is_a_page(services):
    page = built(Paired, services)
    assert page.keys == ("paired",)
    assert page.get_current_key(Visitor()) == "paired"
    assert page.find_paper(SimpleNamespace(name="own", kind="paired_two")) is paper_of(page)
    assert page.find_paper(SimpleNamespace(name="own", kind="mcas")) is None


def test_a_paper_without_an_example_shows_nothing_and_not_the_result_of_another(page, monkeypatch):
    monkeypatch.setattr(page.papers["paired"].examples, "listed", ())
    shown = page.first_example("paired")
    assert shown[page.parts["report"]] is None
    assert not shown[page.parts["results"]]["visible"]
