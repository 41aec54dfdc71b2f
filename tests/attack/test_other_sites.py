"""Another site, or another browser, spends no visitor's token and reads nothing of theirs on a Space with a sign-in."""

import json
import secrets
from contextlib import ExitStack, suppress
from itertools import count

import httpx
import pytest

from bias_core.app.doors import PageOwners
from bias_core.services import Services
from tests.attack.page import PREFIX, PageVisitor
from tests.hosted_server import HostedServer
from tests.ui.fakes import FakeServices
from tests.ui.signed_in import SPACE_HOST, cookie, serving_a_space

pytestmark = pytest.mark.filterwarnings("ignore:The value passed into gr.Dropdown:UserWarning")

EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
TOKEN = "sk-of-the-visitor"
RUNS = count()


class Hosted(FakeServices):
    """Models named openai: are asked for on the server of pictures that stands for the hub."""

    def text_to_image(self, name):
        return Services.text_to_image(self, name) if name.startswith("openai:") else super().text_to_image(name)


@pytest.fixture(scope="module")
def hub():
    with HostedServer(lambda *_: (401, {"error": {"message": "no such key"}})).running() as running:
        yield running


@pytest.fixture(scope="module")
def space(tmp_path_factory, hub):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIAS_IMAGES_URL", hub.url)
        patch.setenv("NO_PROXY", "127.0.0.1")
        with serving_a_space(Hosted, tmp_path_factory.mktemp("space")) as (served, _):
            yield served


@pytest.fixture
def browser(space):
    """Opens pages in browsers that send these headers; such a page knows the form and has not arrived."""
    with ExitStack() as clients:

        def opened(page="", **headers):
            visitor = PageVisitor(space.url)
            clients.enter_context(visitor.client)
            visitor.config = visitor.client.get("/config").json()
            visitor.client.headers.update(headers)
            visitor.session = page or secrets.token_hex(6)
            return visitor

        yield opened


@pytest.fixture
def signed_in(browser):
    return lambda page="", sub="1001", token=TOKEN, **headers: browser(page, **cookie(sub, token=token), **headers)


@pytest.fixture
def typing(browser):
    """A page that has a cookie, and a token that was typed."""
    page = browser()
    page.client.get("/").raise_for_status()
    assert sends(page, page._event("hosted-token", "change"), hosted_token=TOKEN) == 200
    return page


def sends(page, event, **values):
    """The status of an event of a page, which has ended."""
    answer = page.client.post(f"{PREFIX}/queue/join", json=page._body(event, values))
    if answer.status_code == 200:
        next(message for message in page._messages() if message["msg"] == "process_completed")
    return answer.status_code


def arrives(page):
    """The status of what a page sends when it is opened: here is the key that this browser kept."""
    stored = next(c["id"] for c in page.config["components"] if c["props"].get("storage_key") == "t2i-bias-visitor")
    return sends(page, next(d["id"] for d in page.config["dependencies"] if stored in d["outputs"]))


def asks_the_hub_with(page, hub):
    """The keys that the hub is asked with when a page runs a hosted model; None where the run is refused."""
    hub.keys.clear()
    with suppress(httpx.HTTPStatusError):
        list(page.press("generate", model="openai:draw-1", concept=f"doctor {next(RUNS)}"))  # nothing is stored
        return set(hub.keys)
    return None


def test_what_another_site_sends_for_a_visitor_is_refused_and_leaves_nothing(browser, signed_in, hub):
    victim = signed_in("chosen-by-another-site", **EVIL)
    assert arrives(victim) == 403
    assert asks_the_hub_with(browser(victim.session), hub) == set()


def test_no_other_browser_runs_in_a_page_that_holds_a_token(browser, signed_in, typing, hub):
    visitor = signed_in()
    assert arrives(visitor) == 200
    for owner in (visitor, typing):
        for other in (browser(owner.session), signed_in(owner.session, "2002", "sk-of-another")):
            assert asks_the_hub_with(other, hub) is None
        assert asks_the_hub_with(owner, hub) == {f"Bearer {TOKEN}"}


def test_even_a_page_that_two_browsers_share_gives_neither_the_token_of_the_other(
    browser, signed_in, typing, hub, monkeypatch
):
    monkeypatch.setattr(PageOwners, "_is_owner", lambda *_: True)
    visitor = signed_in()
    assert arrives(visitor) == 200
    for page in (visitor.session, typing.session):
        assert asks_the_hub_with(browser(page), hub) == set()


def test_another_browser_reads_ends_and_lists_nothing_in_a_page(browser, signed_in):
    victim = signed_in()
    assert arrives(victim) == 200
    page, named = victim.session, {"session_hash": victim.session}
    asked = [
        ("GET", "/queue/data", {"params": named}),
        ("GET", "/queue/data", {"params": [("session_hash", "mine"), ("session_hash", page)]}),
        ("GET", f"/heartbeat/{page}", {}),
        ("GET", f"/call/explore/{page}", {}),
        ("GET", f"/call/v2/explore/{page}", {}),
        ("POST", "/cancel", {"json": {**named, "fn_index": 1, "event_id": "1"}}),
        ("POST", "/call/explore", {"json": {**named, "data": []}}),
        ("POST", "/run/explore", {"json": {**named, "data": []}}),
        ("POST", "/queue/join", {"content": f'{{"session\\u005fhash": "{page}", "fn_index": 1, "data": []}}'}),
    ]
    for other in (browser(), signed_in(sub="2002")):
        for method, path, what in asked:
            with other.client.stream(method, f"{PREFIX}{path}", **what) as answer:
                assert answer.status_code == 403, path
                assert "another browser" in json.loads(answer.read())["error"]  # which the page shows


def test_a_page_that_a_stranger_named_first_is_no_visitors(browser, signed_in):
    stranger = browser("waits-for-somebody")
    assert arrives(stranger) == 200
    assert arrives(signed_in(stranger.session)) == 403


def test_scripts_of_other_sites_may_ask_as_programs_and_never_with_cookies(browser):
    client = browser(Host=SPACE_HOST).client
    for origin in (EVIL["Origin"], "null"):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        allowed = client.options(f"{PREFIX}/queue/join", headers=asked).headers
        assert (allowed["access-control-allow-origin"], "access-control-allow-credentials" in allowed) == ("*", False)
        answer = client.get("/config", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert "access-control-allow-credentials" not in answer.headers
        assert client.post(f"{PREFIX}/call/explore", json={"data": []}, headers={"Origin": origin}).status_code == 200
