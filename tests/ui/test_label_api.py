"""The raters' door: what it gives and refuses, crowd codes, and what raters say of themselves."""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.app.responses import Opening
from bias_core.app.serve import launch_options
from bias_core.errors import InvalidInput, NotAllowed
from bias_core.labels import api as label_api
from bias_core.labels.api import MAX_BODY, LabelDoor
from bias_core.labels.label_store import hash_secret
from bias_core.labels.rating import new_pass
from bias_core.labels.report import HIDDEN, group_tables, label_report, visible_groups
from bias_core.labels.results import (
    crowd_frame,
    export_labels,
    facts_of_raters,
    given_answers,
    labelled_items,
    task_progress,
)
from bias_core.labels.task_owner import change_task, create_task, delete_task, exclude_rater, set_status
from bias_core.study.label_tasks import about_rater_from_lines, about_rater_lines, own_task, pst_task
from tests.labels.conftest import Clock
from tests.labels.raters import CHOICES, GOLD, answer_to, every_row, joined, new_id, open_task, pictures, to_join


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def task(fakes, tmp_path):
    return open_task(fakes.labels, tmp_path / "originals", 5)


@pytest.fixture
def client(fakes, clock):
    with TestClient(Starlette(routes=LabelDoor(fakes, clock=clock).routes())) as client:
        yield client


@pytest.fixture
def rater(client, task):
    """The header of somebody who has joined."""
    return joined(client, task)


def test_a_rater_reads_agrees_answers_takes_back_and_deletes(client, task, fakes):
    read = client.get(f"/label/task/{task.join_code}").json()
    assert (read["title"], read["status"], read["positions"]) == (task.task.title, "open", ["left", "right"])
    assert {"key", "label", "shortcut", "whole", "colour"} == set(read["answers"][0])
    joined = client.post("/label/join", json=to_join(client, task.join_code)).json()
    assert joined["task"] == {name: value for name, value in read.items() if name != "page"}
    me = {"X-Rater-Code": joined["code"]}
    assert client.get("/label/mine", headers=me).json() == joined["task"]
    turn = client.get("/label/next", headers=me).json()
    names = ("item", "picture", "questions", "answers", "chosen", "progress", "can_undo", "done", "about")
    assert set(turn) == set(names)
    assert [question["position"] for question in turn["questions"]] == ["left", "right"]
    assert turn["progress"] == {"answered": 0, "left": 5}
    picture = client.get("/" + turn["picture"])
    assert picture.content.startswith(b"\x89PNG")
    assert picture.headers["content-type"] == "image/png"
    body = answer_to(turn)
    then = client.post("/label/answer", headers=me, json=body).json()
    assert then == client.post("/label/answer", headers=me, json=body).json()  # sent again
    assert [one.choices for one in given_answers(fakes.labels, task.key)] == [CHOICES]
    skipped = client.post("/label/skip", headers=me, json={"id": new_id(), "item": then["item"]}).json()
    assert skipped["progress"] == {"answered": 1, "left": 3}
    back = client.post("/label/undo", headers=me, json={"id": new_id()}).json()
    back = client.post("/label/undo", headers=me, json={"id": new_id()}).json()
    assert (back["item"], back["chosen"], back["can_undo"]) == (turn["item"], CHOICES, False)
    client.post("/label/answer", headers=me, json=answer_to(back))
    assert client.delete("/label/mine", headers=me).json() == {"deleted": 1}
    assert client.get("/label/next", headers=me).status_code == 403
    assert client.get("/" + turn["picture"]).status_code == 404
    assert given_answers(fakes.labels, task.key) == []


def test_every_reply_is_closed_to_caches_frames_and_other_sites(client, rater):
    turn = client.get("/label/next", headers=rater)
    picture = client.get("/" + turn.json()["picture"])
    refused = client.get("/label/next", headers={"X-Rater-Code": "wrong"})
    for reply in (turn, picture, refused):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "set-cookie" not in reply.headers
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert turn.headers["cache-control"] == refused.headers["cache-control"] == "no-store"
    assert picture.headers["cache-control"].startswith("private")

    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
        assert client.get("/label/next", headers=rater | {"Sec-Fetch-Site": site}).status_code == status


def test_what_is_no_answer_is_refused_in_words(client, rater):
    turn = client.get("/label/next", headers=rater).json()
    for change, said in (
        ({"id": "short"}, "answer's id"), ({"id": 12345678}, "id: "), ({"id": "x" * 65}, "id: "),
        ({"item": "someone-elses"}, "not shown to you"), ({"item": "../../../etc/passwd"}, "not shown to you"),
        ({"item": None}, "item: "), ({"item": {"$ne": ""}}, "item: "),
        ({"choices": {}}, "no answer for left, right"), ({"choices": []}, "choices: "),
        ({"choices": {"left": 1, "right": 2}}, "choices.left: "),
        ({"choices": {"left": "feminine", "right": "<b>female</b>"}}, "is not an answer"),
        ({"choices": {str(i): "feminine" for i in range(13)}}, "choices: "),
        ({"duration_ms": "5"}, "duration_ms: "), ({"duration_ms": 1e300}, "duration_ms: "),
        ({"duration_ms": -5}, "duration_ms"), ({"duration_ms": 10**9}, "duration_ms is 0 to"),
        ({"duration_ms": 1.5}, "duration_ms: "), ({"duration_ms": True}, "duration_ms: "),
        ({"choices": CHOICES | {"middle": "feminine"}}, "middle"),
        ({"rater": "another"}, "rater: "), ({"at_ms": 0}, "at_ms: "),
    ):  # fmt: skip
        reply = client.post("/label/answer", headers=rater, json=answer_to(turn, **change))
        assert reply.status_code == (403 if said == "not shown to you" else 400), change
        assert set(reply.json()) == {"error"}
        assert said in reply.json()["error"]
        assert len(reply.content) < 500
    assert client.get("/label/next", headers=rater).json() == turn


def test_only_small_json_with_an_end_is_read(client, rater):
    for kind, status, contents in (
        ("application/json", 413, (b"{" + b" " * MAX_BODY + b"}", (b" " * 1024 for _ in range(1000)))),
        ("application/json", 400, (b"[" * (MAX_BODY - 1), b"", b"null", b"\xff\xfe", b'{"id": "\\ud800aaaaaaaa"}')),
        ("text/plain", 415, (b"{}",)),
        ("application/x-www-form-urlencoded", 415, (b"id=x",)),
        ("", 415, (b"{}",)),
    ):
        for content in contents:
            reply = client.post("/label/undo", headers=rater | {"Content-Type": kind}, content=content)
            assert (reply.status_code, set(reply.json())) == (status, {"error"}), (kind, content)


def test_who_joins_has_read_the_page_and_consent_is_given_and_never_assumed(client, task, fakes):
    for agreed in (False, None, 1, "true"):
        reply = client.post("/label/join", json={"task": task.join_code, "agreed": agreed})
        assert reply.status_code == 400
        assert reply.json()["error"].startswith("agreed: ")
    assert client.post("/label/join", json={"task": task.join_code}).status_code == 400
    other = open_task(fakes.labels, fakes.settings.data_dir / "other", 1)
    good = to_join(client, task.join_code)["page"]
    when, nonce, signature = good.split(".")
    forged = [
        "", "x", good[:-1], f"{int(when, 16) + 1:x}.{nonce}.{signature}", f"{when}.{nonce[::-1]}.{signature}",
        to_join(client, other.join_code)["page"],
        new_pass(hash_secret(task.key.secret), fakes.labels.now_ms - 25 * 3_600_000),
        new_pass(hash_secret(task.key.secret), fakes.labels.now_ms + 3_600_000),
    ]  # fmt: skip
    for page in forged:
        reply = client.post("/label/join", json={"task": task.join_code, "agreed": True, "page": page})
        assert reply.status_code == 403
        assert "open the link, read" in reply.json()["error"]
    reply = client.post("/label/join", json={"task": task.join_code, "agreed": True})
    assert reply.status_code == 403
    assert not task_progress(fakes.labels, task.key).raters


def test_a_request_to_join_that_is_sent_again_makes_one_rater(client, task, fakes):
    body = to_join(client, task.join_code)
    first, again = (client.post("/label/join", json=body).json() for _ in range(2))
    assert first == again
    other = client.post("/label/join", json=to_join(client, task.join_code)).json()
    assert other["code"] != first["code"]
    assert len(task_progress(fakes.labels, task.key).raters) == 2


def test_a_class_behind_one_address_gets_in_and_a_script_does_not_fill_the_task(
    client, task, fakes, clock, monkeypatch
):
    monkeypatch.setenv("SPACE_ID", "somebody/something")  # whose proxy says who asks

    def joins(n, link, forwarded):
        headers = {"X-Forwarded-For": forwarded}
        bodies = [to_join(client, link.join_code) for _ in range(n)]
        return [client.post("/label/join", json=body, headers=headers).status_code for body in bodies]

    change_task(fakes.labels, task.key, replace(task.task, joins_per_address=5, joins_per_hour=8))
    other = open_task(fakes.labels, fakes.settings.data_dir / "other", 1)
    assert set(joins(5, task, "8.8.8.8")) == {200}
    assert joins(2, task, "1.2.3.4, 8.8.8.8") == [429, 429]  # what a script writes before it is not believed
    assert joins(1, other, "8.8.8.8") == [200]  # another task's link
    assert joins(4, task, "9.9.9.9") == [200, 200, 200, 429]  # in all
    clock.now += 3600 / 5
    assert joins(2, task, "8.8.8.8") == [200, 429]


def test_a_script_is_slowed_down_and_others_are_not(client, task, rater, clock):
    replies = [client.get("/label/mine", headers=rater) for _ in range(70)]
    assert {reply.status_code for reply in replies} == {200, 429}
    assert replies[-1].headers["retry-after"] == "1"
    other = client.post("/label/join", json=to_join(client, task.join_code)).json()["code"]
    assert client.get("/label/mine", headers={"X-Rater-Code": other}).status_code == 200
    clock.now += 1
    assert client.get("/label/mine", headers=rater).status_code == 200


def test_what_could_not_be_stored_is_never_said_to_be(client, rater, fakes, monkeypatch, caplog):
    from sqlalchemy.exc import OperationalError

    turn = client.get("/label/next", headers=rater).json()

    def full(_connection):
        raise OperationalError("COMMIT", {}, Exception("database or disk is full"))

    with monkeypatch.context() as broken:
        broken.setattr("sqlalchemy.engine.base.Connection.commit", full)
        reply = client.post("/label/answer", headers=rater, json=answer_to(turn))
    assert reply.status_code == 503
    assert "send it again" in reply.json()["error"]
    assert "disk is full" in caplog.text  # for the one who runs the app
    assert client.get("/label/next", headers=rater).json() == turn
    assert client.post("/label/answer", headers=rater, json=answer_to(turn)).status_code == 200


def test_the_log_tells_neither_who_asked_nor_their_code(client, rater, fakes, caplog):
    caplog.set_level("DEBUG", logger="bias_core")
    turn = client.get("/label/next", headers=rater | {"User-Agent": "my-browser"}).json()
    client.post("/label/answer", headers=rater, json=answer_to(turn))
    rows = str(every_row(fakes.labels))
    for secret in (rater["X-Rater-Code"], "my-browser", "testclient", "127.0.0.1"):
        assert secret not in rows
        assert secret not in caplog.text


def test_the_app_hands_these_routes_to_gradio_serves_no_label_file_and_every_route_is_in_the_table(fakes):
    options = launch_options(fakes, Opening())
    paths = {route.path for route in options["app_kwargs"]["routes"]}
    assert {"/label/next", "/label/answer", "/label/picture/{token}"} <= paths
    for name in ("labels.sqlite", "label_pictures"):
        assert str(fakes.settings.data_dir / name) in options["blocked_paths"]
    rows = [line.split() for line in label_api.__doc__.splitlines() if "``/label/" in line]
    documented = {(row[0], row[1].strip("`").partition("<")[0]) for row in rows}
    made = LabelDoor(fakes).routes()
    assert documented == {(min((route.methods or set()) - {"HEAD"}), route.path.partition("{")[0]) for route in made}


def test_an_owner_excludes_raters_and_deletes_the_task_over_http(client, task, rater, fakes):
    owner, stranger = {"X-Owner-Key": task.key.text}, {"X-Owner-Key": task.key.text[:-1]}
    (name,) = [one.rater for one in task_progress(fakes.labels, task.key).raters]
    body = {"rater": name, "excluded": True}
    said = client.post("/label/exclude", headers=owner, json=body).json()
    assert said == {"raters": [{"rater": name, "n_answered": 0, "n_skipped": 0, "excluded": True}]}
    turn = client.get("/label/next", headers=rater).json()
    assert (turn["done"], turn["item"], turn["can_undo"]) == ("excluded", "", False)
    body["excluded"] = False
    assert not client.post("/label/exclude", headers=owner, json=body).json()["raters"][0]["excluded"]
    bad = ({"rater": name}, {"rater": 5, "excluded": True}, {"rater": "x", "excluded": True}, [])
    for wrong in bad:
        reply = client.post("/label/exclude", headers=owner, json=wrong)
        assert (reply.status_code, set(reply.json())) == (400, {"error"})
    for headers in (stranger, rater, {}, {"X-Owner-Key": "." * 4000}):
        assert client.post("/label/exclude", headers=headers, json=body).status_code == 403
        assert client.delete("/label/task", headers=headers).status_code == 403
    assert client.delete("/label/task", headers=owner).json() == {"deleted": 0}
    assert client.delete("/label/task", headers=owner).status_code == 403
    assert client.get(f"/label/task/{task.join_code}").status_code == 403
    assert client.get("/label/next", headers=rater).status_code == 403


ABOUT = {"How old are you?": ("under 40", "40 or older"), "Where do you live?": ("zq-town", "country")}


def test_a_rater_is_asked_once_before_the_first_picture_and_may_say_nothing(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path, 2, about_rater=ABOUT)
    rater = joined(client, task)
    asked = client.get("/label/next", headers=rater).json()
    assert asked["about"]["questions"][0] == {"text": "How old are you?", "answers": ["under 40", "40 or older"]}
    told = client.post("/label/about", headers=rater, json={"version": 1, "choices": [1, -1]}).json()
    assert told["about"] is None
    assert told["item"] == asked["item"]
    client.post("/label/about", headers=rater, json={"version": 1, "choices": [0, 0]})  # sent again: the first holds
    assert list(facts_of_raters(fakes.labels, task.key).values()) == [{"How old are you?": "40 or older"}]
    plain = open_task(fakes.labels, tmp_path, 1)
    assert client.get("/label/next", headers=joined(client, plain)).json()["about"] is None


def test_what_does_not_fit_the_questions_changes_nothing(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path, 1, about_rater=ABOUT)
    rater = joined(client, task)
    client.get("/label/next", headers=rater)
    before = every_row(fakes.labels)
    for version, choices in ((1, [0]), (1, [2, 0]), (1, [-2, 0]), (0, [0, 0]), (2, [0, 0]), (10**400, [0, 0])):
        reply = client.post("/label/about", headers=rater, json={"version": version, "choices": choices})
        assert (reply.status_code, set(reply.json())) == (400, {"error"}), (version, choices)
    assert every_row(fakes.labels) == before


def test_what_raters_say_of_themselves_is_in_no_export_and_goes_with_their_answers(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "pictures", 1, about_rater=ABOUT)
    raters = [joined(client, task) for _ in range(2)]
    for rater in raters:
        turn = client.post("/label/about", headers=rater, json={"version": 1, "choices": [-1, 0]}).json()
        client.post("/label/answer", headers=rater, json=answer_to(turn))
    with zipfile.ZipFile(export_labels(fakes.labels, task.key, tmp_path / "all.zip")) as archive:
        names = [name for name in archive.namelist() if b"zq-town" in archive.read(name)]
    assert names == ["task.json"]  # what was asked, not what was said
    exclude_rater(fakes.labels, task.key, task_progress(fakes.labels, task.key).raters[0].rater)
    assert len(facts_of_raters(fakes.labels, task.key)) == 1
    client.delete("/label/mine", headers=raters[1])
    assert len(every_row(fakes.labels)["rater_facts"]) == 1
    delete_task(fakes.labels, task.key)
    assert every_row(fakes.labels)["rater_facts"] == []


def test_an_owner_changes_the_questions_and_odd_lines_say_what_to_write(fakes, tmp_path):
    lines = "How old are you? under 40 / 40 or older / Prefer not to say\nHome: zq-town / country"
    questions = about_rater_from_lines(lines)
    assert questions == {"How old are you?": ("under 40", "40 or older"), "Home": ("zq-town", "country")}
    assert about_rater_from_lines(about_rater_lines(questions)) == questions
    task = open_task(fakes.labels, tmp_path, 1)
    assert change_task(fakes.labels, task.key, pst_task(paired=True, about_rater=questions)).version == 2
    for odd in ("How old are you?", "Home: one", "a? b / c\na? d / e", "/ / /"):
        with pytest.raises(InvalidInput, match=r"question about the rater|asked twice"):
            about_rater_from_lines(odd)


def test_groups_too_small_are_told_of_together_so_that_none_is_found_by_subtraction():
    facts = {f"r{i}": {"Home": "town" if i < 6 else "country" if i < 12 else "sea"} for i in range(13)}
    assert {name: len(some) for name, some in visible_groups("Home", facts).items()} == {"country": 6, HIDDEN: 7}
    assert {name: len(some) for name, some in visible_groups("Other", facts).items()} == {"prefer not to say": 13}


def test_shares_and_agreement_of_groups_are_right_by_hand():
    """Six townspeople say yes of both pictures; of six from the country three say yes of both, three no of both."""
    facts = {f"r{i:02}": {"Home": "town" if i < 6 else "country"} for i in range(12)}
    says = {rater: "no" if i >= 9 else "yes" for i, rater in enumerate(facts)}
    rows = [(picture, "picture", rater, says[rater]) for picture in ("a", "b") for rater in facts]
    answers = pd.DataFrame(rows, columns=["image_id", "position", "rater", "answer"])
    task = pst_task(paired=True, about_rater={"Home": ("town", "country")})
    task = type(task)(**{**vars(task), "questions": {"picture": "?"}, "answers": own_task("?", ["yes", "no"]).answers})
    shares, agreement = (one.frame for one in group_tables(answers, facts, task))
    of_country = shares[(shares["group"] == "country") & (shares["answer"] == "yes")].iloc[0]
    assert of_country["share"] == 0.5  # mean of 1, 1, 1, 0, 0, 0
    assert of_country["low"] == 0  # 0.5 ± 2.571 · 0.5477 / √6 = 0.5 ± 0.575, within [0, 1]
    # Both pictures have three of each: D_o = 0.6, D_e = 6 · 6 · 2 / (12 · 11) = 0.545, α = 1 - 0.6 / 0.545 = -0.1
    assert agreement.set_index("group")["α"]["country"] == pytest.approx(-0.1)


def test_the_report_of_a_task_tells_of_groups(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path, 1, about_rater=ABOUT, raters_per_item=9)
    for place in range(6):
        rater = joined(client, task)
        turn = client.post("/label/about", headers=rater, json={"version": 1, "choices": [0, 0 if place else 1]}).json()
        client.post("/label/answer", headers=rater, json=answer_to(turn))
    given = task_progress(fakes.labels, task.key), labelled_items(fakes.labels, task.key)
    report = label_report(*given, facts=facts_of_raters(fakes.labels, task.key))
    shown = {(row.question, row.group) for row in report.results.frame("group_agreement").itertuples()}
    assert shown == {("How old are you?", "under 40"), ("Where do you live?", HIDDEN)}
    assert "group_shares" not in {one.key for one in label_report(*given).results.tables}


CODES = {"completion_code": "DONE-1", "failed_code": "FAIL2", "screened_out_code": "OUT3"}
BACK = "https://app.prolific.com/submissions/complete?cc="


def answered_all(client, rater, choices=CHOICES):
    """Answer every item and return the last turn."""
    turn = client.get("/label/next", headers=rater).json()
    while turn["item"]:
        answer = answer_to(turn, choices=choices)
        turn = client.post("/label/answer", headers=rater, json=answer).json()
    return turn


def test_the_code_says_whether_a_rater_worked_failed_the_checks_or_had_nothing_to_do(client, fakes, tmp_path):
    same = {"raters_per_item": 2, "gold_share": 0.5, **CODES}
    task = open_task(fakes.labels, tmp_path / "originals", 4, n_gold=3, **same)
    good, bad = joined(client, task), joined(client, task)
    assert answered_all(client, good, GOLD)["crowd"] == f"{BACK}DONE-1"
    assert answered_all(client, bad, CHOICES)["crowd"] == f"{BACK}FAIL2"  # the checks read feminine on both sides
    late = joined(client, task)
    assert answered_all(client, late)["crowd"] == f"{BACK}OUT3"
    first = task_progress(fakes.labels, task.key).raters[0].rater
    exclude_rater(fakes.labels, task.key, first)
    assert client.get("/label/next", headers=good).json()["crowd"] == f"{BACK}FAIL2"
    exclude_rater(fakes.labels, task.key, first, excluded=False)
    set_status(fakes.labels, task.key, "closed")
    assert client.get("/label/next", headers=good).json()["crowd"] == f"{BACK}DONE-1"


def test_nobody_is_sent_away_before_the_end_or_without_a_code(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 2, **CODES)
    rater = joined(client, task)
    assert client.get("/label/next", headers=rater).json().get("crowd") is None
    set_status(fakes.labels, task.key, "paused")
    set_status(fakes.labels, task.key, "open")
    other = joined(client, task)
    set_status(fakes.labels, task.key, "paused")
    assert client.get("/label/next", headers=other).json().get("crowd") is None
    plain = open_task(fakes.labels, tmp_path / "plain", 1)
    assert answered_all(client, joined(client, plain)).get("crowd") is None
    assert client.get(f"/label/task/{plain.join_code}").json().get("decline") is None


PID, OTHER_PID = "5f00a1b2c3d4e5f6a7b8c9d0", "6000a1b2c3d4e5f6a7b8c9d1"


def from_prolific(client, task, participant=PID, session="s1"):
    """The header of a rater whom Prolific sent."""
    return joined(client, task, crowd={"participant": participant, "study": "study1", "session": session})


def test_one_participant_is_one_rater_who_goes_on_where_they_were(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 3, **CODES)
    first = from_prolific(client, task)
    client.post("/label/answer", headers=first, json=answer_to(client.get("/label/next", headers=first).json()))
    again = from_prolific(client, task, session="s2")  # another device, another session
    assert client.get("/label/next", headers=again).json()["progress"]["answered"] == 1
    assert again == first
    other = from_prolific(client, task, OTHER_PID)
    assert client.get("/label/next", headers=other).json()["progress"]["answered"] == 0
    assert len(task_progress(fakes.labels, task.key).raters) == 2
    set_status(fakes.labels, task.key, "paused")
    assert from_prolific(client, task) == first  # who is in comes back; nobody else comes in
    body = to_join(client, task.join_code) | {"crowd": {"participant": "new", "study": "", "session": ""}}
    assert client.post("/label/join", json=body).status_code == 403


def test_ids_are_the_owners_alone_and_go_with_the_raters_answers(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 2, n_gold=1, gold_share=0.6, **CODES)
    rater = from_prolific(client, task)
    answered_all(client, rater, GOLD)
    ids = crowd_frame(fakes.labels, task.key)
    assert ids[["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"]].iloc[0].tolist() == [PID, "study1", "s1"]
    assert ids[["answered", "checks", "checks right", "excluded"]].iloc[0].tolist() == [3, 1, 1, False]
    with zipfile.ZipFile(export_labels(fakes.labels, task.key, tmp_path / "all.zip")) as archive:
        assert not [name for name in archive.namelist() if PID.encode() in archive.read(name)]
    with pytest.raises(NotAllowed):
        crowd_frame(fakes.labels, replace(task.key, secret="wrong"))
    assert client.delete("/label/mine", headers=rater).json() == {"deleted": 3}
    assert PID not in str(every_row(fakes.labels))
    assert PID.encode() not in b"".join(path.read_bytes() for path in Path(fakes.labels._path).parent.glob("labels*"))
    with pytest.raises(InvalidInput, match="no rater came with ids"):
        crowd_frame(fakes.labels, task.key)


def test_a_task_without_codes_keeps_no_ids_and_odd_ones_are_refused(client, fakes, tmp_path):
    plain = open_task(fakes.labels, tmp_path / "plain", 1)
    assert client.get(f"/label/task/{plain.join_code}").json()["of_a_crowd"] is False
    assert from_prolific(client, plain) != from_prolific(client, plain)
    assert PID not in str(every_row(fakes.labels))
    task = open_task(fakes.labels, tmp_path / "originals", 1, **CODES)
    assert client.get(f"/label/task/{task.join_code}").json()["of_a_crowd"] is True
    before = every_row(fakes.labels)
    for odd in ("", "{{%PROLIFIC_PID%}}", "x" * 65, "a b", "<b>"):
        crowd = {"participant": odd, "study": "", "session": ""}
        reply = client.post("/label/join", json=to_join(client, task.join_code) | {"crowd": crowd})
        assert (reply.status_code, set(reply.json())) == (400, {"error"})
    assert every_row(fakes.labels) == before


def test_who_does_not_agree_goes_back_and_what_the_platform_says_of_them_is_not_kept(client, fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 1, **CODES)
    link = f"/label/task/{task.join_code}?PROLIFIC_PID=5f00secret&STUDY_ID=s1&SESSION_ID=t1"
    assert client.get(link).json()["decline"] == f"{BACK}OUT3"
    answered_all(client, joined(client, task))
    assert "5f00secret" not in str(every_row(fakes.labels))


def test_codes_are_changed_with_the_task_and_a_code_that_is_none_is_refused(fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 1)
    changed = change_task(fakes.labels, task.key, replace(task.task, completion_code="NEW9"))
    assert changed.completion_code == "NEW9"
    for code in ("a b", "https://evil.example", "x" * 41, "é", "a&cc=b"):
        with pytest.raises(InvalidInput, match="the failed code is of letters, digits and -"):
            create_task(fakes.labels, pst_task(paired=True, failed_code=code), pictures(tmp_path / "more", 1))


def test_raters_of_a_server_that_ends_are_told_to_send_again(client, rater, monkeypatch):
    answer = answer_to(client.get("/label/next", headers=rater).json())

    def ended(*_):
        raise RuntimeError("cannot schedule new futures after shutdown")  # as Python has it

    monkeypatch.setattr(ThreadPoolExecutor, "submit", ended)
    for method, path, body in (("POST", "/label/answer", answer), ("GET", "/label/mine", None)):
        reply = client.request(method, path, json=body, headers=rater)
        assert (reply.status_code, "send it again" in reply.json()["error"]) == (503, True), path
