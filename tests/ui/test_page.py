"""The page: its markup, its first answer, what is warm before it, its glossary and its methods."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gradio as gr
import pandas as pd
import pytest
from jinja2 import UndefinedError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from bias_core.app.build import TABS
from bias_core.app.responses import FirstPage, Opening, OpeningWatch
from bias_core.app.serve import rehearse, start_warm_up
from bias_core.errors import ModelUnavailable
from bias_core.installed import ASSETS
from bias_core.measures.cards import METRICS, glossary, spell_out_symbols
from bias_core.models import _OnFirstUse
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.types import StudyFigure
from bias_core.ui.methods.tab import TITLES, about_html, measure_example_html, methods_html, model_cards, models_html
from bias_core.ui.places import Places, group_tabs
from bias_core.ui.templates import environment, script
from tests.ui.fakes import FakeServices, TracedRenderer

pytestmark = pytest.mark.draws

ROOT = Path(__file__).parent.parent.parent


_TABLE = '{% from "macros.html" import frame_table %}{{ frame_table(frame, "a table") }}'


def shown(text, **values):
    return environment().from_string(text).render(values)


def test_values_are_escaped_wherever_they_stand_and_a_missing_one_is_an_error():
    text = shown('<p title="{{ x }}">{{ x }}</p>', x="<img src=x onerror='alert(1)'>\"")
    assert "<img" not in text
    assert text.count('"') == 2
    with pytest.raises(UndefinedError):
        shown("<p>{{ missing }}</p>")
    assert script("choose", word='"; alert(1); "').startswith(r'const word = "\"; alert(1); \"";')


def test_line_breaks_are_layout_between_tags_and_a_space_in_a_sentence():
    lines = ("<p>", "  <b>one</b>", "  <i>{{ two }}</i>", "  {{ two }}", "  {% if 1 %}", "  three", "  {% endif %}")
    assert shown("\n".join((*lines, "</p>")), two=2) == "<p><b>one</b><i>2</i>2three</p>"
    sentence = ("<p>", "three", "{{ two }}", "four", "<b>five</b>", "six <b>of</b>", "seven", "</p>")
    assert shown("\n".join(sentence), two=2) == "<p>three 2 four <b>five</b> six <b>of</b> seven</p>"


def test_numbers_are_written_as_in_reports_and_words_that_begin_with_a_hyphen_stay():
    frame = pd.DataFrame({"name": ["-5 degrees", "no -1"], "value": [-0.25, 0.5], "low": [-0.5, 0.25], "n": [-3, 4]})
    frame = frame.assign(high=[0.125, 0.75])[["name", "value", "low", "high", "n"]]
    table = shown(_TABLE, frame=frame)
    plot = shown("{{ figure|svg }}", figure=StudyFigure(key="f", title="F", kind="intervals", data=frame))
    assert all("-5 degrees<" in part and "no -1<" in part for part in (table, plot))
    assert all(text in table for text in ("−0.25 [−0.50, 0.12]", ">−3<"))
    assert re.search(r">−0\.\d+<", plot)  # of the axis
    assert not re.search(r">-0\.\d", table + plot)
    assert shown("{{ 12345|count }} {{ 0.4213|number(0.24, 0.6) }} {{ 0.2401|interval(0.6) }}") == (
        "12,345 0.42 [0.24, 0.60]"
    )


def test_a_table_of_words_is_read_from_the_left_and_numbers_stand_below_each_other():
    frame = pd.DataFrame({"item": ["steps", "size"], "status": ["met", "differs"], "n": [3, 17]})
    html = shown(_TABLE, frame=frame)
    assert '<td dir="auto" class="as-text">differs</td><td dir="auto">17</td>' in html
    assert '<th scope="col" class="as-text">status</th><th scope="col">n</th>' in html


_CONFIG = '<script>window.gradio_config = {"a": "\\u003cscript\\u003e"};</script>'
_INFO = "<script>window.gradio_api_info = {};</script>"


class Pages:
    """An app that counts what it makes, and says to whom."""

    def __init__(self, status=200):
        self.n, self.status = 0, status

    def answer(self, request):
        self.n += 1
        said = f"{request.url.replace(path='/', query='')} {self.n}"
        return HTMLResponse(_CONFIG + _INFO + said, status_code=self.status)

    def client(self):
        routes = [Route("/{path:path}", self.answer, methods=["GET", "POST"])]
        return TestClient(Starlette(routes=routes, middleware=[Middleware(FirstPage)]))


SAME = (
    "/", "/?model=a", "/?concept=doctor#results", "/?page=", "/?page=runs", "/?deep_link=1", "/?all_endpoints=1",
    "/?__theme=dark", "/?view=api",
)  # fmt: skip


def test_one_page_is_made_whatever_a_link_asks_for_and_under_whatever_address():
    pages = Pages()
    with pages.client() as client:
        texts = [client.get(f"http://here{path}").text for path in SAME]
        assert set(texts) == {texts[0]}
        for n in range(50):
            assert client.get(f"http://10.0.0.{n}/").text == texts[0].replace("//here", f"//10.0.0.{n}")
        head = client.head("http://here/?x=1")
        assert head.headers["content-encoding"] == "gzip"
        assert not head.content
    assert pages.n == 1
    assert texts[0].endswith("http://here/ 1")


def test_the_address_in_a_page_is_the_one_it_was_asked_under():
    asked = (
        ("http://here/", {}, "http://here"),
        ("https://here/", {}, "https://here"),
        ("http://here:7860/", {"accept-encoding": ""}, "http://here:7860"),
        ("http://here/", {"x-forwarded-proto": "https"}, "https://here"),
        ("http://here/", {"x-forwarded-host": "there, here", "x-forwarded-proto": "https,http"}, "https://there"),
        ("http://here/", {"x-forwarded-host": '"<script>'}, "http://here"),
        ("http://here/", {"x-gradio-server": "http://there"}, "http://here"),
    )
    pages = Pages()
    with pages.client() as client:
        for url, headers, origin in asked:
            assert client.get(url, headers=headers).text.endswith(f"{origin}/ 1"), (url, headers)
    assert pages.n == 1


def test_what_programs_read_of_the_page_is_made_once():
    for paths in (("/config", "/config/", "/config?page="), ("/gradio_api/info", "/gradio_api/info/?page=x")):
        pages = Pages()
        with pages.client() as client:
            assert len({client.get(path).text for path in paths}) == 1
        assert pages.n == 1
    pages = Pages()
    with pages.client() as client:
        for path in ("/gradio_api/info", "/gradio_api/info?all_endpoints=True", "/gradio_api/info?all_endpoints=1"):
            client.get(path)
    assert pages.n == 2  # the second says more


def test_addresses_that_are_made_up_are_not_compressed_one_after_the_other():
    with Pages().client() as client:
        n = sum("content-encoding" in client.get(f"http://10.0.0.{n}/").headers for n in range(50))
    assert 1 <= n < 10


def test_one_page_is_made_however_many_ask_first():
    made = []

    async def slow(_scope, _receive, send):
        made.append(1)
        await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    async def all_at_once():
        page, scope = FirstPage(slow), {"type": "http", "method": "GET", "path": "/", "scheme": "http", "headers": []}
        sent = [asyncio.create_task(page(scope | {"query_string": b""}, never, nowhere)) for _ in range(9)]
        await asyncio.gather(*sent)

    async def never():
        await asyncio.Event().wait()

    async def nowhere(_message):
        pass

    asyncio.run(all_at_once())
    assert len(made) == 1


def test_what_is_no_page_is_passed_on():
    for path, method in (("/label", "GET"), ("/configs", "GET"), ("/", "POST"), ("/config", "POST")):
        pages = Pages()
        with pages.client() as client:
            for n in (1, 2):
                assert client.request(method, path).text.endswith(str(n)), (path, method)


def test_an_answer_that_is_no_page_is_not_kept():
    pages = Pages(status=503)
    with pages.client() as client:
        for n in (1, 2):
            answer = client.get("http://here/")
            assert answer.status_code == 503
            assert answer.text == f"{_CONFIG}{_INFO}http://page.invalid/ {n}"


def test_the_script_stands_once_after_the_description_and_before_all_that_reads_it():
    with Pages().client() as client:
        text = client.get("http://here/").text
    assert text.startswith(_CONFIG)
    quick = f"{{{script('storage')}}}{{{script('constant')}}}"
    assert text.count(quick) == 1
    assert text == f"{_CONFIG}{_INFO.replace('>', f'>{quick}', 1)}http://here/ 1"


def files_of(services):
    return [path for path in services.settings.data_dir.rglob("*") if path.is_file()]


def test_the_model_of_the_first_press_has_drawn_and_nothing_of_it_is_kept(fakes, monkeypatch):
    models = [TracedRenderer()]
    monkeypatch.setattr(FakeServices, "text_to_image", lambda _self, _name: models[0])
    rehearse(fakes)
    assert [row.prompt for row in models[0].rows] == ["a photo of a doctor"] * 4
    assert all(path.name.startswith("file_hashes") for path in files_of(fakes))  # of the weights
    assert fakes.settings.data_dir in fakes.images.folder.parents


def test_libraries_are_imported_one_at_a_time_whoever_asks_first(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    code = "import time\nbegan = time.monotonic()\ntime.sleep(0.1)\nended = time.monotonic()\n"
    for name in ("first_library", "second_library"):
        (tmp_path / f"{name}.py").write_text(code)
    libraries = [_OnFirstUse("first_library"), _OnFirstUse("second_library")]
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda library: library.ended, libraries))
    one, other = sorted(libraries, key=lambda library: library.began)
    assert one.ended <= other.began


def test_what_each_tab_opens_with_is_made_in_turn_the_first_before_the_models(fakes, monkeypatch):
    done = []
    monkeypatch.setattr("bias_core.app.serve.rehearse", lambda _services: done.append("models"))
    examples = [lambda: done.append("explore"), lambda: done.append("paired")]
    monkeypatch.setattr("bias_core.app.serve._ASK_SECONDS", 0.01)
    start_warm_up(fakes, examples, Opening()).join()
    assert done == ["explore", "models", "paired"]


def test_the_warm_up_waits_until_a_browser_that_asked_for_the_page_has_it(fakes, monkeypatch):
    done, opening = [], Opening()

    async def answer(*_request):
        pass

    def request(path, accept):
        scope = {"type": "http", "path": path, "headers": [(b"accept", accept.encode())]}
        asyncio.run(OpeningWatch(answer, opening)(scope, None, None))

    monkeypatch.setattr("bias_core.app.serve.rehearse", lambda _services: done.append("models"))
    request("/", "*/*")  # a monitor, not a browser
    assert not opening.asked.is_set()
    request("/", "text/html,*/*")
    thread = start_warm_up(fakes, [lambda: done.append("explore")], opening)
    request("/gradio_api/queue/join", "*/*")
    thread.join(timeout=0.3)
    assert done == ["explore"]
    request("/gradio_api/queue/data", "text/event-stream")
    thread.join()
    assert done == ["explore", "models"]


def test_a_model_that_cannot_be_had_is_said_to_who_asks_for_it_and_not_before(fakes, monkeypatch, capfd):
    def broken(_services):
        raise ModelUnavailable("weights are gone")

    monkeypatch.setattr("bias_core.app.serve.rehearse", broken)
    monkeypatch.setattr("bias_core.app.serve._ASK_SECONDS", 0.01)
    start_warm_up(fakes, [lambda: None], Opening()).join()
    assert not capfd.readouterr().err


SYMBOLS = ("P", "P*", "Ψ", "STS", "SPI", "MCAS", "δ", "δ′", "α", "α′", "κ", "H_J", "M_G", "B_D", "WALS")


def test_every_symbol_has_one_meaning_and_a_card_and_every_one_in_a_name_is_explained():
    entries = glossary()
    symbols = [entry.symbol for entry in entries]
    assert len(symbols) == len(set(symbols))
    assert set(SYMBOLS) <= set(symbols)
    for entry in entries:
        assert entry.measure in METRICS
        assert entry.says.endswith(".")
        assert entry.words == entry.words.strip()
        assert not set(entry.words.split()) & set(symbols), "words explain without symbols"
    unknown = {
        word
        for card in METRICS.values()
        for word in card.name.replace(",", " ").split()
        if re.fullmatch(r"[A-Z]_[A-Z]|[ΨδακαP][′*]?|[A-Z]{3,4}", word) and word not in symbols
    }
    assert unknown <= {"II", "TT"}


def test_words_for_a_symbol_repeat_no_words_that_stand_before_it():
    """In every sentence of the shipped reports that has a symbol."""
    texts = set[str]()
    for path in (ASSETS / "examples").glob("*.json"):
        texts |= {text for text in strings_in(json.loads(path.read_text(encoding="utf-8"))) if " " in text}
    texts |= {"give the share P and the stereotype score Ψ.", "Share P minus reference share P*: above 0"}
    assert sum(spell_out_symbols(text) != text for text in texts) > 50
    again = re.compile(r"\b(\w+(?: of the \w+)?) \1\b|\b(?:share|rate|score) (?:share|real-world|stereotype)\b", re.I)
    assert [text for text in texts if again.search(spell_out_symbols(text)) and not again.search(text)] == []
    assert spell_out_symbols("Share P minus reference share P*") == "Share minus reference share"
    assert spell_out_symbols("Prate P") == "Prate share of the pictures"  # the end of another word is no name


def strings_in(value):
    """Every text in plain JSON values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings_in(one)


def test_every_measure_has_one_card_with_its_formula_range_and_limits():
    html = methods_html(METRICS.values())
    cards = dict(re.findall(r'<article class="measure card" id="measure-(\w+)"(.*?)</article>', html, re.S))
    assert set(cards) == set(METRICS)
    for key, card in cards.items():
        assert '<div class="math"><math xmlns=' in card, key
        assert "$" not in card, key
        assert METRICS[key].limits.split("'")[0] in card, key
        assert ("no single value means" in card) == (METRICS[key].null_value is None), key
        assert "data-go=" in card, key
    assert f"{len(METRICS)} measures" in html


def test_the_papers_are_linked_and_what_is_searched_is_in_the_card():
    html = methods_html([METRICS["stereotype_score"]])
    assert 'href="https://arxiv.org/abs/2501.00962" target="_blank" rel="noopener"' in html
    assert "dehdashtian et al. 2025" in html.split('data-text="')[1].split('"')[0]
    assert '<option value="dehdashtian2025oasis"' in html


def test_cards_name_tabs_by_the_titles_of_the_app():
    titles = {tab.key: tab.title for tab in TABS} | {"explore": "Explore"}
    for key, title in TITLES.items():
        assert titles.get(key, title) == title


def test_models_readers_and_what_is_stored_are_listed_without_a_path_of_the_server(tmp_path):
    services = Services(Settings(data_dir=tmp_path))
    html = models_html(services)
    for info in services.models():
        assert info.name in html
    titles = [title for title, _ in model_cards(ASSETS)]
    assert len(titles) >= 4
    assert any("reader" in title for title in titles)
    assert not any(text.startswith("---") for _, text in model_cards(ASSETS))
    services.close()
    html = about_html(Settings(data_dir=tmp_path, cache_gb=3, offline=True))
    assert "up to 3 GB" in html
    assert "The app never contacts a model hub." in html
    assert str(tmp_path) not in html
    assert "bias_core" in html


def test_methods_open_with_a_plot_of_a_shipped_report_and_without_reports_with_none(tmp_path):
    html = measure_example_html(str(ASSETS / "validity"))
    assert html.count("<svg") == 1
    assert "Planted against measured" in html
    assert 'data-go="calibration"' in html
    assert measure_example_html(str(tmp_path)) == ""


def test_tabs_stand_in_five_groups_and_open_with_their_group():
    groups = {group: [tab.title for tab in tabs] for group, tabs in group_tabs(TABS).items()}
    assert groups == {
        "Explore": ["Explore"],
        "Paper tests": ["Association", "Paired", "Objects", "Internal", "Origins"],
        "People": ["Label"],
        "Runs": ["Runs"],
        "Trust": ["Calibration", "Methods"],
    }
    places, below = Places(), []

    async def laid_out():  # Gradio's queue wants a running loop
        with gr.Blocks() as page:
            places.build(TABS, lambda tab: gr.HTML(tab.title), {"Paper tests": lambda: below.append(gr.HTML("form"))})
        return page

    page = asyncio.run(laid_out())
    names = [one["props"]["label"] for one in page.get_config_file()["components"] if one["type"] == "tabitem"]
    assert names == [
        "Explore", "Paper tests", *(f"{tab.title}: {tab.asks}" for tab in group_tabs(TABS)["Paper tests"]),
        "People", "Runs", "Trust", "Calibration", "Methods",
    ]  # fmt: skip
    outer, papers, trust = places.outputs()
    (form,) = below  # all papers have one
    assert form.parent is papers.parent
    chosen = {key: {part: one["selected"] for part, one in places.open(key).items()} for key in places.shown}
    assert chosen["label"] == {outer: "label"}
    assert chosen["paired"] == {outer: "Paper tests", papers: "paired"}
    assert chosen["methods"] == {outer: "Trust", trust: "methods"}
