"""A page that makes its own name point here (DNS rebinding) gets nothing; nor do other sites' scripts."""

import asyncio
import json
from itertools import product

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from bias_core.app.doors import HostCheck, allowed_hosts, cors_options
from bias_core.app.request_limits import RequestLimits
from bias_core.app.responses import StreamEnd
from bias_core.settings import Settings

PATHS = ("/", "/config", "/label/next", "/gradio_api/mcp/", "/gradio_api/queue/data")


def asked(settings, host, path="/", method="GET", origin="", **more):
    def answer(_):
        return PlainTextResponse("here")

    check = Middleware(HostCheck, hosts=allowed_hosts(settings, "127.0.0.1"), public=settings.public)
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])], middleware=[check])
    headers = {"host": host} | ({"origin": origin} if origin else {})
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return int(TestClient(app).request(method, path, headers=headers).status_code)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    for name in ("SPACE_ID", "SPACE_HOST", "BIAS_PUBLIC"):
        monkeypatch.delenv(name, raising=False)


OURS = ("localhost", "localhost:7860", "LocalHost:1", "127.0.0.1:7860", "[::1]:7860", "192.168.1.5", "my.lab:80")
OTHERS = (
    "evil.example", "localhost.evil.example", "evil.example:7860", "", "my.lab.evil", "[", "127.0.0.1.x",
    "evil@127.0.0.1", "evil.example@localhost", "a:b@[::1]", "[::1]evil", "[::1]evil.example:80", "evil[::1]", "[::1",
    "::1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:80:80", "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1#evil",
    "localhost:7860/evil", "localhost evil", "localhost\tevil", "localhost,evil", "localhost\\evil", "localhost;",
    "[localhost]", "[127.0.0.1]evil", "[::1%25evil]", "0x7f.1", "2130706433", "127.1", "localhost:999999",
)  # fmt: skip


def test_names_of_this_machine_and_of_the_settings_are_answered_and_others_refused_on_every_path():
    for host in OURS:
        assert asked(Settings(allowed_hosts="my.lab, other.lab"), host) == 200, host
    for host, path in product(OTHERS, PATHS):
        assert asked(Settings(allowed_hosts="my.lab"), host, path) == 421, (host, path)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost", "origin": "https://evil.example", "cookie": "a=b"}, 403),
        ({"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "websocket", "cookie": "a=b"}, 403),
    ],
)
def test_a_websocket_under_another_name_or_of_another_site_is_refused(headers, status):
    check = Middleware(HostCheck, hosts=allowed_hosts(Settings(), ""), public=True)
    app = Starlette(routes=[WebSocketRoute("/", lambda _: None)], middleware=[check])
    with (
        TestClient(app) as client,
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/", headers=headers),
    ):
        pass
    assert refused.value.status_code == status


def test_scripts_of_other_sites_use_no_tool_and_change_nothing_at_home():
    odd = ("http://evil@127.0.0.1", "http://[::1]evil", "http://localhost/evil", "http://localhost:80@evil.example")
    for origin in ("https://evil.example", "null", "http://10.1.1.1", "file://localhost", "//localhost.evil", *odd):
        assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", origin) == 403
        assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/mcp/", "GET", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/call/explore", "POST", origin) == 200
    assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", "http://localhost:6274") == 200
    assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", "http://127.0.0.1:7860") == 200


API = "/gradio_api"
DOING = (
    ("POST", f"{API}/queue/join"), ("GET", f"{API}/queue/data"), ("POST", f"{API}/call/explore"),
    ("GET", f"{API}/call/explore/1"), ("GET", f"{API}/heartbeat/1"), ("POST", f"{API}/upload"), ("GET", "/config"),
    ("GET", f"{API}/file=x"), ("POST", "/label/join"), ("POST", "/"), ("POST", f"{API}/mcp/"), ("GET", "/"),
)  # fmt: skip
CREDENTIALS = ({"cookie": "session=x"}, {"cookie": "other=1"}, {"authorization": "Basic eDp5"})
FOREIGN = (
    "https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:7860", "http://[::1]:80", "file://",
    "https://me.hf.space.evil.example", "https://evil.example/me.hf.space", "https://me.hf.space@evil.example",
    "https://evil@me.hf.space", "https://evil.example#me.hf.space", "https://me.hf.space:x", "x://me", "*",
    "https://other.hf.space", "https://huggingface.co.evil.example", "https://me.hf.space, https://evil.example",
)  # fmt: skip


@pytest.fixture
def space(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "me/space")
    monkeypatch.setenv("SPACE_HOST", "me.hf.space")
    return Settings(allowed_hosts="my.lab")


def test_other_sites_send_nothing_with_a_visitors_cookie_to_a_public_server_and_all_the_rest_as_ever(space):
    for (method, path), who in product(DOING, CREDENTIALS):
        for origin in FOREIGN:
            assert asked(space, "me.hf.space", path, method, origin, **who) == 403, (path, origin)
        for site in ("cross-site", "same-site", "Cross-Site", "", "x"):
            assert asked(space, "me.hf.space", path, method, sec_fetch_site=site, **who) == 403, (path, site)
        for own in ("https://me.hf.space", "https://my.lab", "https://my.lab:8443", "https://huggingface.co"):
            assert asked(space, "me.hf.space", path, method, own, sec_fetch_site="cross-site", **who) == 200
        for site in ("same-origin", "none"):
            assert asked(space, "me.hf.space", path, method, sec_fetch_site=site, **who) == 200
        assert asked(space, "me.hf.space", path, method, **who) == 200  # a program that keeps cookies
    for method, path in DOING:
        if "mcp" not in path:
            assert asked(space, "me.hf.space", path, method, FOREIGN[0], sec_fetch_site="cross-site") == 200
    assert asked(space, "10.1.1.1:7860", "/", "POST", "http://10.1.1.1:7860", cookie="a=b") == 200
    assert asked(space, "10.1.1.1:7860", "/", "POST", "http://10.1.1.1:80", cookie="a=b") == 403


def test_a_page_opens_from_a_link_elsewhere_and_in_the_hubs_frame_and_a_sign_in_comes_back(space):
    opened = {"cookie": "session=x", "sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    for path, into in product(("/", "/label", "/login/huggingface", "/login/callback"), ("document", "iframe")):
        assert asked(space, "me.hf.space", path, sec_fetch_dest=into, **opened) == 200
    for path in (f"{API}/queue/data", f"{API}/heartbeat/1", f"{API}/file=x", f"{API}/deep_link", "/logout", "/logout/"):
        assert asked(space, "me.hf.space", path, **opened) == 403
    assert asked(space, "me.hf.space", "/", "POST", **opened) == 403  # a form, whose sender does not say who it is


def test_at_home_what_is_on_this_machine_may_ask_with_cookies_and_other_sites_not_even_look():
    for origin in ("http://localhost:6274", "http://127.0.0.1:7860", "http://[::1]:3000"):
        assert asked(Settings(), "localhost:7860", "/config", "GET", origin, cookie="a=b") == 200
    assert asked(Settings(), "localhost:7860", "/config", "GET", "https://evil.example", cookie="a=b") == 403
    assert asked(Settings(), "localhost:7860", "/config", sec_fetch_site="cross-site", cookie="a=b") == 403


def test_scripts_of_named_sites_may_read_answers_at_home_and_those_of_all_sites_on_a_public_server():
    ours = ("http://localhost:6274", "http://127.0.0.1", "http://[::1]:80", "https://my.lab:8443")
    others = (
        "https://evil.example",
        "null",
        "https://my.lab.evil.example",
        "https://xmy.lab",
        "http://localhost:1@x",
        "",
    )
    for settings in (Settings(allowed_hosts="my.lab"), Settings(allowed_hosts="my.lab", public=True)):
        options = cors_options(allowed_hosts(settings, ""), settings.public)
        cors = CORSMiddleware(Starlette(), **options)
        assert all(map(cors.is_allowed_origin, ours))
        assert list(map(cors.is_allowed_origin, others)) == [settings.public] * len(others)
        assert not options["allow_credentials"]


def test_a_space_answers_under_its_own_host(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "me/space")
    monkeypatch.setenv("SPACE_HOST", "me-space.hf.space")
    assert asked(Settings(), "me-space.hf.space") == 200
    assert asked(Settings(), "other-space.hf.space") == 421


def test_what_is_pressed_while_a_stream_of_answers_ends_waits_for_the_page_to_know_and_a_new_stream_does_not():
    async def gradio(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        if scope["path"].endswith("join"):
            await receive()
        elif not scope.get("is_new"):
            await send({"type": "http.response.body", "body": b'data: {"msg":"close_stream"}', "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def both():
        door, left, sent = RequestLimits(StreamEnd(gradio)), asyncio.Event(), []

        async def disconnect():
            await left.wait()
            return {"type": "http.disconnect"}

        async def press(page):
            async def body():
                return {"type": "http.request", "body": json.dumps({"session_hash": page}).encode()}

            await door(scope | {"path": "/gradio_api/queue/join", "method": "POST"}, body, answered)

        async def answered(message):
            sent.append(message["type"])

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/gradio_api/queue/data",
            "query_string": b"session_hash=mine",
        }
        scope["headers"] = []
        stream = asyncio.create_task(door(scope, disconnect, answered))
        await asyncio.sleep(0.01)
        await press("other")
        sent.clear()
        await asyncio.wait_for(door(scope | {"is_new": True}, disconnect, answered), 1)
        assert sent == ["http.response.start", "http.response.body"]
        mine = asyncio.create_task(press("mine"))
        await asyncio.sleep(0.05)
        assert not mine.done()
        left.set()
        await asyncio.wait_for(asyncio.gather(mine, stream), 2)
        await press("mine")

    asyncio.run(both())
