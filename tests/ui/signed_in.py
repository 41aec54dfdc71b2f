"""The app as a Space serves it to visitors who sign in at the Hub, and the cookie that a sign-in leaves."""

import hashlib
import json
import time
from base64 import b64encode
from contextlib import contextmanager

import gradio as gr
import pytest
from gradio import oauth
from gradio.context import LocalContext
from itsdangerous import TimestampSigner
from starlette.requests import Request

from bias_core.labels import tab
from bias_core.ui.visitor import BROWSER
from tests.ui.served import serving_here

SECRET, SPACE_HOST = "of these tests alone", "somebody-something.hf.space"


@contextmanager
def serving_a_space(build_services, folder):
    """The app in this process, and its services, built where the process is a Space that offers a sign-in."""
    space = {"SYSTEM": "spaces", "SPACE_ID": "somebody/something", "SPACE_HOST": SPACE_HOST}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (space | dict.fromkeys(tab._NEEDED, SECRET)).items():
            patch.setenv(name, value)
            patch.setattr(oauth, name, value, raising=False)  # which Gradio read when it was imported
        patch.setattr("gradio.http_server.get_space", lambda: None)  # else a thread waits for changes of the code
        services = build_services(folder / "data")
        try:
            with serving_here(services, folder) as served:
                yield served, services
        finally:
            services.close()


@contextmanager
def event(page="a-page", browser="", token="", sub="1001"):
    """An event of this page, in a browser with a cookie of its own and with a sign-in where they are given."""
    session = {"oauth_info": {"userinfo": userinfo(sub), "access_token": token}} if token else {}
    cookies = [(b"cookie", f"{BROWSER}={browser}".encode())] if browser else []
    scope = {"type": "http", "headers": cookies, "session": session}
    before = LocalContext.request.set(gr.Request(Request(scope), session_hash=page))
    try:
        yield
    finally:
        LocalContext.request.reset(before)


def userinfo(sub, name="ada"):
    there = f"https://hub.test/{name}"
    return {"sub": sub, "name": "Ada", "preferred_username": name, "profile": there, "picture": f"{there}.png"}


def cookie(sub, secret=SECRET, *, expires_in=3600, token="hf_none"):
    """The header of a browser that has signed in."""
    until = time.time() + expires_in
    info = {"userinfo": userinfo(sub), "access_token": token, "scope": "openid", "expires_at": until}
    key = hashlib.sha256(f"{secret}-v4".encode()).hexdigest()
    signed = TimestampSigner(key).sign(b64encode(json.dumps({"oauth_info": info}).encode())).decode()
    return {"Cookie": f"session={signed}"}
