"""The rater's page: its files, and what a browser may do with them."""

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.labels.api import PAGE, page_routes


@pytest.fixture
def client():
    return TestClient(Starlette(routes=page_routes()))


def test_the_page_is_closed_to_frames_and_to_scripts_of_others_and_nothing_else_is_served(client):
    kinds = {"": "html", "/label.css": "css", "/label.js": "javascript", "/language.js": "javascript"}
    for path, kind in kinds.items():
        reply = client.get(f"/label{path}", headers={"Sec-Fetch-Site": "cross-site"})  # a link in somebody's mail
        assert reply.status_code == 200
        assert kind in reply.headers["content-type"]
        policy = reply.headers["content-security-policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
            assert rule in policy
        assert "unsafe" not in policy
        assert reply.headers["referrer-policy"] == "no-referrer"
    for path in ("/label/index.html", "/label/../models.yaml", "/label/%2e%2e/models.yaml", "/label/label.js/x"):
        assert client.get(path).status_code == 404


def test_the_page_fetches_nothing_from_elsewhere_and_writes_no_html():
    for path in (entry for entry in PAGE.iterdir() if entry.is_file()):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://|@import|url\(", text), path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path.name
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon[a-z]+=", page)  # the policy would stop it
