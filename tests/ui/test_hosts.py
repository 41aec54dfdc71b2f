"""A page that makes its own name point here (DNS rebinding) gets nothing; nor do other sites' scripts."""

from itertools import product

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from bias_core.app.doors import HostCheck, allowed_hosts
from bias_core.settings import Settings

PATHS = ("/", "/config", "/label/next", "/gradio_api/mcp/", "/gradio_api/queue/data")


def asked(settings, host, path="/", method="GET", origin=""):
    def answer(_):
        return PlainTextResponse("here")

    check = Middleware(HostCheck, hosts=allowed_hosts(settings, "127.0.0.1"), public=settings.public)
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])], middleware=[check])
    headers = {"host": host} | ({"origin": origin} if origin else {})
    return int(TestClient(app).request(method, path, headers=headers).status_code)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    for name in ("SPACE_ID", "SPACE_HOST", "BIAS_PUBLIC"):
        monkeypatch.delenv(name, raising=False)


OURS = ("localhost", "localhost:7860", "LocalHost:1", "127.0.0.1:7860", "[::1]:7860", "192.168.1.5", "my.lab:80")
OTHERS = ("evil.example", "localhost.evil.example", "evil.example:7860", "", "my.lab.evil", "[", "127.0.0.1.x")


def test_names_of_this_machine_and_of_the_settings_are_answered_and_others_refused_on_every_path():
    for host in OURS:
        assert asked(Settings(allowed_hosts="my.lab, other.lab"), host) == 200, host
    for host, path in product(OTHERS, PATHS):
        assert asked(Settings(allowed_hosts="my.lab"), host, path) == 421, (host, path)


def test_a_websocket_under_another_name_is_refused():
    check = Middleware(HostCheck, hosts=allowed_hosts(Settings(), ""), public=False)
    app = Starlette(routes=[WebSocketRoute("/", lambda _: None)], middleware=[check])
    with (
        TestClient(app) as client,
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/", headers={"host": "evil.example"}),
    ):
        pass
    assert refused.value.status_code == 421


def test_scripts_of_other_sites_use_no_tool_and_change_nothing_at_home():
    for origin in ("https://evil.example", "null", "http://10.1.1.1"):
        assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", origin) == 403
        assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/mcp/", "GET", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/call/explore", "POST", origin) == 200
    assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", "http://localhost:6274") == 200
    assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", "http://127.0.0.1:7860") == 200


def test_a_space_answers_under_its_own_host(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "me/space")
    monkeypatch.setenv("SPACE_HOST", "me-space.hf.space")
    assert asked(Settings(), "me-space.hf.space") == 200
    assert asked(Settings(), "other-space.hf.space") == 421
