"""Owners who sign in at the Hub: tasks are theirs by the session of the sign-in, and by nothing else."""

import time
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from gradio.utils import get_type_hints

from bias_core.errors import NotAllowed
from bias_core.labels import tab as label_tab
from bias_core.labels.tab import LabelTab, get_user_id, offers_login, parse_owner_key, task_choices
from bias_core.labels.task_owner import OwnerKey, create_task, list_user_tasks, owned_task
from bias_core.study.label_tasks import pst_task
from tests import shared
from tests.labels.raters import pictures
from tests.ui.fakes import FakeServices
from tests.ui.signed_in import cookie, serving_a_space, userinfo
from tests.ui.tabs import built

services = shared.fake_services


def signed_in(sub, name="ada"):
    return gr.OAuthProfile(userinfo(sub, name))


ADA, EVE = signed_in("1001"), signed_in("2002", "ada")  # Eve took Ada's old name


@pytest.fixture(scope="module")
def tab(services):
    return built(LabelTab, services)


@pytest.fixture
def task(services, tmp_path):
    """A task that Ada made."""
    return create_task(services.labels, pst_task(paired=True), pictures(tmp_path, 2), hub_user="1001")


def test_a_user_is_known_by_the_number_of_the_account_and_only_from_a_session():
    assert get_user_id(ADA) == "1001"
    strangers = [None, userinfo("1001"), "1001", SimpleNamespace(sub="1001"), signed_in("")]
    assert [get_user_id(stranger) for stranger in strangers] == [""] * 5
    assert parse_owner_key("abc.def", ADA) == OwnerKey(task_id="abc", secret="def", hub_user="1001")


def test_every_action_works_by_sign_in_as_by_key(tab, services, visitor, task):
    parts, key = tab.parts, OwnerKey(task_id=task.task.id).text
    told = tab.on_open(visitor, None, key, ADA)
    assert "your Hub sign-in" in told[parts["header"]]
    assert "owner=" not in told[parts["header"]]  # its secret is not known to anybody any more
    assert told[parts["memory"]] == {}  # nothing here opens it once Ada has left
    assert tab.on_status["open"](visitor, None, key, ADA)[parts["open"]]["visible"] is False
    changed = tab.on_change(visitor, None, key, ADA, "Another title", "", "You may stop.", "", 25)
    assert "version 2" in changed[parts["status"]]
    assert owned_task(services.labels, task.key)[0].gold_share == 0.25
    event = SimpleNamespace(take="labels:zip")
    assert parts["file"] in tab.on_take(visitor, key, None, event, ADA)
    *_, used = tab.scores.on_use(visitor, key, None, None, None, ADA)
    assert "choose a run" in used[tab.scores.parts["status"]]


@pytest.mark.parametrize("who", [None, EVE, userinfo("1001")], ids=["nobody", "another", "a form"])
def test_nobody_else_reaches_it(tab, services, visitor, task, who):
    parts = tab.parts
    for key in (f"{task.task.id}.", f"{task.task.id}.1001", f"{task.task.id}.ada", task.task.id):
        with pytest.raises(NotAllowed):
            owned_task(services.labels, parse_owner_key(key, who))
        event = SimpleNamespace(take="labels:zip")
        refused = (
            tab.on_open(visitor, None, key, who),
            tab.on_return(visitor, None, key, None, who),
            tab.on_status["open"](visitor, None, key, who),
            tab.on_change(visitor, None, key, who, "Mine", "", "You may stop.", "", 10),
            tab.on_take(visitor, key, None, event, who),
        )
        assert [list(told) for told in refused] == [[parts["status"]]] * len(refused)
        *_, used = tab.scores.on_use(visitor, key, None, None, None, who)
        assert tab.scores.parts["used"] not in used
    assert task.task.id not in str(tab.on_memory(None, who))
    assert owned_task(services.labels, task.key)[0].title == task.task.title


def test_the_list_has_the_user_s_tasks_once(services, task):
    key, mine = task.key.text, OwnerKey(task_id=task.task.id).text
    assert mine in [value for _, value in task_choices(services, None, ADA)]
    listed = [value for _, value in task_choices(services, {key: "Remembered"}, ADA)]
    assert (key in listed, mine in listed) == (True, False)
    assert task_choices(services, {key: "Remembered"}, None) == [("Remembered", key)]


def test_a_task_belongs_to_whoever_was_signed_in_when_it_was_made(tab, services, visitor, tmp_path, monkeypatch):
    order = pst_task(paired=True), pictures(tmp_path, 2)
    monkeypatch.setattr(tab.making, "order", lambda *_: order)
    for who, owner in ((signed_in("77"), "77"), (None, "")):
        told = tab.on_make(visitor, None, who, *[None] * 20)
        key = OwnerKey.parse(told[tab.parts["key"]])
        assert key.secret  # the link works beside the sign-in
        assert [one.id for one in list_user_tasks(services.labels, owner)] == ([key.task_id] if owner else [])


def test_gradio_sees_who_asks_for_a_profile(tab):
    handlers = [tab.on_make, tab.on_memory, tab.on_return, tab.on_open, tab.on_status["open"], tab.on_change]
    handlers += [tab.on_take, tab.scores.on_run_chosen, tab.scores.on_use]
    assert {get_type_hints(handler).get("profile") for handler in handlers} == {gr.OAuthProfile | None}


def test_without_a_space_nothing_changes(tab, monkeypatch):
    assert not offers_login()
    assert not any(isinstance(part, gr.LoginButton) for part in tab.parts.values())
    for name in label_tab._NEEDED:
        monkeypatch.setenv(name, "x")
    assert not offers_login()  # Gradio would pretend, with the token of this machine
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "somebody/something")
    assert offers_login()
    monkeypatch.delenv("OAUTH_CLIENT_SECRET")
    assert not offers_login()


# Through the page's own door, with the cookie that a sign-in gives.


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """The whole app as a Space would serve it, and its labels."""
    with serving_a_space(FakeServices, tmp_path_factory.mktemp("space")) as (served, services):
        yield served, services.labels


def listeners(url):
    """The listeners that list an owner's tasks and that open one."""
    config = httpx.get(f"{url}/config", timeout=60, verify=False).json()
    ids = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
    found = {"button": ids.get("label-login", -1)}
    for listener in config["dependencies"]:
        events = {tuple(target) for target in listener["targets"]}
        if (ids["label-open-key"], "click") in events and listener["outputs"]:
            found["open"] = listener["id"]
        if "load" in {event for _, event in events} and ids["label-mine"] in listener["outputs"]:
            found["list"] = listener["id"]
    return found


def ask(url, index, data, headers):
    """Return the text of a listener's answer."""
    body = {"data": data, "fn_index": index, "session_hash": f"s{time.time_ns()}"}
    with httpx.Client(base_url=f"{url}/gradio_api", headers=headers, timeout=60, verify=False) as client:
        client.post("/queue/join", json=body).raise_for_status()
        with client.stream("GET", "/queue/data", params={"session_hash": body["session_hash"]}) as stream:
            return next(line for line in stream.iter_lines() if "process_completed" in line)


def test_the_page_knows_a_user_by_the_signed_cookie_alone(space, tmp_path):
    served, store = space
    task = create_task(store, pst_task(paired=True), pictures(tmp_path, 2), hub_user="1001")
    url, mine, there = served.url, f"{task.task.id}.", listeners(served.url)
    assert there["button"] > 0
    assert mine in ask(url, there["list"], [{}], cookie("1001"))
    with pytest.raises(httpx.HTTPStatusError, match="403"):  # which another site sends
        ask(url, there["list"], [{}], cookie("1001") | {"Origin": "https://evil.example"})
    forged = {"Cookie": cookie("2002")["Cookie"][:-4] + "AAAA"}
    others = ({}, cookie("2002"), forged, cookie("1001", "another secret"), cookie("1001", expires_in=-1))
    for headers in others:
        assert mine not in ask(url, there["list"], [{}], headers)
        assert mine not in ask(url, there["list"], [{}, userinfo("1001")], headers)
        said = ask(url, there["open"], [None, {}, mine], headers)
        assert "opens no task of yours" in said
        assert "This task is" not in said
    assert "This task is" in ask(url, there["open"], [None, {}, mine], cookie("1001"))
    assert "This task is" in ask(url, there["open"], [None, {}, task.key.text], {})
