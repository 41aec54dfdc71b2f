"""A shared result: what its link shows, to whom, until when, and what stays with its visitor."""

import io
import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from bias_core.app.build import ComingBack
from bias_core.app.doors import OpenPaths
from bias_core.app.responses import FirstPage
from bias_core.app.shared import preview_tags, shared_routes
from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.explore.tab import ExploreTab
from bias_core.run import history
from bias_core.ui.messages import user_errors
from bias_core.ui.runs.tab import RunsTab, open_any
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.explored import explore
from tests.ui.tabs import built

services = shared.fake_services
EVIL = '"><script>alert(1)</script>'
OWNER, STRANGER = "a" * 32, "b" * 32
WORDS = {"name": "a name of my own", "note": "a note of my own"}


@pytest.fixture(scope="module")
def run(services):
    """A finished run of the owner, with a hostile concept."""
    settings = explore_settings(concept=f"nurse {EVIL}", n_images=5, attribute_a="", attribute_b="")
    *_, report = explore(settings, services, session=OWNER)
    history.describe_run(services, OWNER, report.run_id, **WORDS)
    return report.run_id


@pytest.fixture
def link(services, run):
    """The id of the run while it is shared."""
    history.share_run(services, OWNER, run, True)
    yield run
    history.share_run(services, OWNER, run, False)


@pytest.fixture
def client(services):
    """A server with a page, the tags of links, and the preview picture."""

    async def page(_):
        return HTMLResponse('<!doctype html><html><head><meta property="og:title" content="Gradio" /></head></html>')

    middleware = [Middleware(OpenPaths), Middleware(FirstPage, tags=preview_tags(services))]
    app = Starlette(routes=[Route("/", page), *shared_routes(services)], middleware=middleware)
    return TestClient(app, base_url="http://127.0.0.1")


def asked(query):
    return SimpleNamespace(query_params=query)


def test_a_run_is_seen_by_nobody_else_before_it_is_shared_and_after_that_is_taken_back(services, run, client):
    def is_seen():
        stranger = Visitor()
        stranger.key = STRANGER
        with user_errors() as problem:
            open_any(services, stranger, f"shared-{run}")
        assert problem.message in ("", history.NOT_SHARED)
        seen = [not problem.message]
        seen += [client.get(f"/shared/{run}.jpg").status_code == 200, "og:title" in client.get(f"/?run={run}").text]
        assert len(set(seen)) == 1
        return seen[0]

    assert not is_seen()
    history.share_run(services, OWNER, run, True)
    assert is_seen()
    history.share_run(services, OWNER, run, False)
    assert not is_seen()
    history.share_run(services, OWNER, run, True)
    deleted = history.delete_run(services, OWNER, run)
    assert not is_seen()
    history.restore_run(services, OWNER, deleted)
    assert is_seen()
    history.share_run(services, OWNER, run, False)


def test_no_one_but_its_visitor_shares_names_or_finds_it(services, run):
    for act in (
        lambda: history.share_run(services, STRANGER, run, True),
        lambda: history.share_run(services, "", run, True),
        lambda: history.describe_run(services, STRANGER, run, name="mine now"),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert history.find_shared(services, run) is None
    assert history.list_runs(services, STRANGER) == []
    assert history.list_runs(services, OWNER)[0].name == WORDS["name"]


def test_a_shared_report_has_no_words_of_its_visitor_no_key_and_no_folder_and_no_action_knows_it(services, link):
    saved = history.open_shared_run(services, link)
    text = repr(saved.report.settings) + saved.report.run_id
    assert not any(secret in text for secret in (OWNER, *WORDS.values(), str(services.settings.data_dir)))
    assert saved.report.run_id == f"shared-{link}"
    for act in (history.delete_run, history.open_run, history.study_of_run):
        with pytest.raises(InvalidInput):
            act(services, OWNER, saved.report.run_id)
    assert saved.report.results == history.open_run(services, OWNER, link).report.results


def test_a_link_that_leads_nowhere_costs_one_sentence(services, client):
    plain = client.get("/").text
    for run_id in ("0" * 16, "../../etc/passwd", EVIL, "a" * 10_000, "shared-x", "\x00"):
        assert history.find_shared(services, run_id) is None
        with pytest.raises(InvalidInput, match="leads to no result"):
            history.open_shared_run(services, run_id)
        assert client.get("/", params={"run": run_id}).text == plain
    for path in (
        "/shared/../runs/x.jpg",
        "/shared/x/y.jpg",
        "/shared/.jpg",
        "/shared/x.json",
        f"/shared/{'0' * 16}.jpg",
    ):
        assert client.get(path).status_code == 404


def test_the_preview_has_the_title_the_headline_and_a_grid_and_hostile_words_stay_words(link, client):
    page = client.get(f"/?run={link}").text
    assert "Gradio" not in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert f'content="http://127.0.0.1/?run={link}"' in page
    assert 'property="og:description" content="' in page
    assert not any(words in page for words in WORDS.values())
    answer = client.get(f"/shared/{link}.jpg")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["cache-control"] == "no-cache"
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.size == (1200, 600)
        assert len(picture.getcolors(1_000_000) or []) > 20
    assert "og:title" not in client.get("/").text  # the page without a link is as before


def test_a_link_opens_the_tab_of_its_study_and_the_tabs_example_does_not_hide_it(services, link):
    tab, runs, stranger = built(ExploreTab, services), built(RunsTab, services), Visitor()
    stranger.key, runs.others = STRANGER, [tab]
    coming = ComingBack(services, runs, [tab])
    places, notice = Mock(), "notice"
    places.open = lambda key: {"tabs": key}
    opened = coming.on_link(places, notice, asked({"run": link}))
    assert opened["tabs"] == "explore"
    assert not opened[notice]["visible"]
    *_, last, _ = coming.on_arrived(stranger, asked({"run": link}))
    (shown,) = coming.on_last("explore", stranger, last)
    assert "shared this result with you" in shown[tab.parts["header"]]
    assert shown[tab.parts["report"]].run_id == f"shared-{link}"
    assert not shown[tab.people.box]["visible"]
    assert set(coming.on_look("explore", stranger, None, asked({"run": link}))) == {tab.parts["status"]}
    refused = coming.on_link(places, notice, asked({"run": "0" * 16}))
    assert "leads to no result" in refused[notice]["value"]


def test_names_and_notes_have_a_limit_and_survive_another_run_of_the_same_settings(services, run):
    for words in ({"name": "x" * 121}, {"note": "x" * 2_001}, {"name": "a\x00b"}, {"note": "\ud800"}):
        with pytest.raises(InvalidInput):
            history.describe_run(services, OWNER, run, **words)
    (line,) = history.list_runs(services, OWNER)
    assert (line.name, line.note) == tuple(WORDS.values())
    before = services.manifests.find(run)
    services.manifests.save(before)
    after = services.manifests.find(run)
    assert (after.name, after.note, after.headline) == (*WORDS.values(), before.headline)
    assert before.headline
    assert "is_shared" not in json.loads(services.manifests.path(run).read_text(encoding="utf-8"))
