"""Raters of a crowd platform go back to it with the code that says how their part went."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bias_core.annotation.collected import crowd_frame, export_labels, task_progress
from bias_core.annotation.task_owner import change_task, create_task, exclude_rater, set_status
from bias_core.annotation.tasks import pst_task
from bias_core.errors import InvalidInput, NotAllowed
from tests.annotation.raters import CHOICES, GOLD, answer_to, every_row, joined, open_task, pictures, to_join

CODES = {"completion_code": "DONE-1", "failed_code": "FAIL2", "screened_out_code": "OUT3"}
BACK = "https://app.prolific.com/submissions/complete?cc="


def answered(client, rater, choices=CHOICES):
    """What the rater is told in the end."""
    turn = client.get("/label/next", headers=rater).json()
    while turn["item"]:
        answer = answer_to(turn, choices=choices)
        turn = client.post("/label/answer", headers=rater, json=answer).json()
    return turn


def test_the_code_says_whether_a_rater_worked_failed_the_checks_or_had_nothing_to_do(client, fakes, tmp_path):
    same = {"raters_per_item": 2, "gold_share": 0.5, **CODES}
    task = open_task(fakes.labels, tmp_path / "originals", 4, n_gold=3, **same)
    good, bad = joined(client, task), joined(client, task)
    assert answered(client, good, GOLD)["crowd"] == f"{BACK}DONE-1"
    assert answered(client, bad, CHOICES)["crowd"] == f"{BACK}FAIL2"  # the checks read feminine on both sides
    late = joined(client, task)
    assert answered(client, late)["crowd"] == f"{BACK}OUT3"
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
    assert answered(client, joined(client, plain)).get("crowd") is None
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
    answered(client, rater, GOLD)
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
    answered(client, joined(client, task))
    assert "5f00secret" not in str(every_row(fakes.labels))


def test_codes_are_changed_with_the_task_and_a_code_that_is_none_is_refused(fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path / "originals", 1)
    changed = change_task(fakes.labels, task.key, replace(task.task, completion_code="NEW9"))
    assert changed.completion_code == "NEW9"
    for code in ("a b", "https://evil.example", "x" * 41, "é", "a&cc=b"):
        with pytest.raises(InvalidInput, match="the failed code is of letters, digits and -"):
            create_task(fakes.labels, pst_task(paired=True, failed_code=code), pictures(tmp_path / "more", 1))
