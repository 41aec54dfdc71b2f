"""Two sets side by side: how pairs are made of a run, what a rater may answer, and what the judgements say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.adapters.calibration_renderer import CalibrationRenderer
from bias_core.annotation.collected import labelled_items, task_progress
from bias_core.annotation.task_owner import OwnerKey, create_task, owned_task, set_status
from bias_core.annotation.tasks import checked_choices, sets_task
from bias_core.errors import InvalidInput
from bias_core.labels import sets
from bias_core.labels.api import LabelDoor
from bias_core.labels.report import label_report
from bias_core.labels.tab import LabelTab
from bias_core.labels.tab_make import FIELDS
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.visitor import Visitor
from tests.annotation.raters import new_id, to_join
from tests.ui.fakes import FakeServices  # noqa: TC001
from tests.ui.tabs import built

SHARES: Mapping[str, float] = {"fair": 0.3, "extreme": 0.8}


@pytest.fixture
def client(fakes: FakeServices):
    with TestClient(Starlette(routes=LabelDoor(fakes).routes())) as client:
        yield client


def some_sets(folder: Path) -> dict[str, list[sets.SetPicture]]:
    """White pictures show it, black ones do not."""
    folder.mkdir(parents=True)
    for name, shade in (("no", 0), ("yes", 255)):
        Image.new("RGB", (8, 8), (shade,) * 3).save(folder / f"{name}.png")
    return {
        name: [
            sets.SetPicture(path=folder / f"{'yes' if i < 20 * share else 'no'}.png", shows=float(i < 20 * share))
            for i in range(20)
        ]
        for name, share in SHARES.items()
    }


def open_sets(fakes: FakeServices, folder: Path, n: int, **changes: Any):
    pictures, known = sets.set_items(some_sets(folder / "of"), n, 3, folder)
    task = sets_task("white", sets.SIZE, sets=known, **changes)
    made = create_task(fakes.labels, task, pictures)
    set_status(fakes.labels, made.key, "open")
    return made


def test_a_pair_shows_both_sets_and_what_is_known_of_them_is_what_it_shows(tmp_path: Path) -> None:
    pictures, known = sets.set_items(some_sets(tmp_path / "of"), 7, 3, tmp_path)
    again, same = sets.set_items(some_sets(tmp_path / "more"), 7, 3, tmp_path)
    assert known == same
    assert [one.identities for one in pictures] == [one.identities for one in again]
    for one in pictures:
        left, right, of_left, of_right, size = known[one.image_id]
        assert {left, right} == set(SHARES)
        with Image.open(one.path) as opened:
            shades = np.asarray(opened.convert("L"), dtype=float)
        middle = shades.shape[1] // 2
        # Six squares, and white gaps between them: more white where more pictures are.
        brighter = shades[:, :middle].mean() - shades[:, middle:].mean()
        assert np.sign(round(brighter)) == np.sign(round(6 * (of_left - of_right)))
        assert size == sets.SIZE
    assert {one.identities["count"] for one in pictures} == {"left", "right"}


def test_each_question_has_its_own_answers_and_raters_are_not_told_which_sets_they_see(
    client: TestClient, fakes: FakeServices, tmp_path: Path
) -> None:
    made = open_sets(fakes, tmp_path, 2)
    read = client.get(f"/label/task/{made.join_code}").text
    me = {"X-Rater-Code": client.post("/label/join", json=to_join(client, made.join_code)).json()["code"]}
    reply = client.get("/label/next", headers=me)
    turn = reply.json()
    assert not [name for name in SHARES if name in reply.text + read]
    which, count = turn["questions"]
    assert (which["text"], which["answers"]) == (
        "In which set do more pictures show “white”?",
        ["left", "right", "alike"],
    )
    assert count["text"] in (
        f"Now count. How many pictures of the {side} set show “white”?" for side in ("left", "right")
    )
    assert count["answers"] == list("0123456")
    for choices in ({"sets": "3", "count": "3"}, {"sets": "left", "count": "left"}, {"sets": "left"}):
        answer = {"id": new_id(), "item": turn["item"], "choices": choices, "duration_ms": 5}
        assert client.post("/label/answer", headers=me, json=answer).status_code == 400
    answer = {"id": new_id(), "item": turn["item"], "choices": {"sets": "left", "count": "3"}, "duration_ms": 5}
    assert client.post("/label/answer", headers=me, json=answer).status_code == 200


def test_the_report_says_how_fine_raters_see_and_what_they_count(
    client: TestClient, fakes: FakeServices, tmp_path: Path
) -> None:
    """Four raters judge as the sets are, but for one pair in five; each counts one picture too many."""
    made = open_sets(fakes, tmp_path, 25, raters_per_item=4)
    known, rng = made.task.sets, np.random.default_rng(4)
    for _ in range(4):
        me = {"X-Rater-Code": client.post("/label/join", json=to_join(client, made.join_code)).json()["code"]}
        turn = client.get("/label/next", headers=me).json()
        while turn["item"]:
            item = _item_of(fakes, turn["item"])
            _, _, of_left, of_right, size = known[item.image_id]
            side = (
                "alike" if of_left == of_right else "left" if (of_left > of_right) ^ (rng.random() < 0.2) else "right"
            )
            share = of_left if item.identities["count"] == "left" else of_right
            choices = {"sets": side, "count": str(min(size, round(size * share) + 1))}
            answer = {"id": new_id(), "item": turn["item"], "choices": choices, "duration_ms": 5}
            turn = client.post("/label/answer", headers=me, json=answer).json()
    report = label_report(task_progress(fakes.labels, made.key), labelled_items(fakes.labels, made.key))
    findings = {one.key: one.estimate for one in report.results.findings}
    assert findings["judgement slope"].low > 0
    assert 0 < findings["count error"].value <= 1 / 6 + 1e-9
    table = report.results.frame("sets").set_index("set")
    assert table.loc["extreme", "strength"] > 0 > table.loc["fair", "strength"]
    assert table.loc["extreme", "counted"] > table.loc["fair", "counted"]
    assert report.results.frame("judged")["judgements"].sum() == 100
    assert report.results.figures[0].key == "judged"


def counted(path: Path) -> list[int]:
    """How many white pictures either side shows: of each the middle pixel."""
    with Image.open(path) as opened:
        shades = np.asarray(opened.convert("L"))
    down, half = shades.shape[0] // 3, (shades.shape[1] - 48) // 2
    rows = [down // 2 + i * down for i in range(3)]
    return [
        sum(int(shades[row, start + column] > 127) for row in rows for column in (half // 4, 3 * half // 4))
        for start in (0, half + 48)
    ]


@pytest.mark.parametrize("half", [False, True])
def test_checks_are_pairs_whose_answer_whoever_counts_knows(
    client: TestClient, fakes: FakeServices, tmp_path: Path, half: bool
) -> None:
    """One rater counts in the pictures, another says that all sets are alike."""
    first = "half" if half else "sets"
    task, pictures = sets.sets_order(
        some_sets(tmp_path / "of"), "white", 24, 3, tmp_path, half=half, n_checks=6, raters_per_item=2, gold_share=0.3
    )
    made = create_task(fakes.labels, task, pictures)
    set_status(fakes.labels, made.key, "open")
    assert task.positions == (first, "count")
    assert ("closer to one half" in task.questions[first]) == half
    assert sum(one.gold is not None for one in pictures) == 6
    paths = {one.image_id: one.path for one in pictures}
    for counts in (True, False):
        me = {"X-Rater-Code": client.post("/label/join", json=to_join(client, made.join_code)).json()["code"]}
        turn = client.get("/label/next", headers=me).json()
        while turn["item"]:
            item = _item_of(fakes, turn["item"])
            numbers = counted(paths[item.image_id])
            score = [-abs(number - 3) if half else number for number in numbers]
            side = "alike" if score[0] == score[1] or not counts else "left" if score[0] > score[1] else "right"
            number = numbers[item.identities["count"] == "right"] if counts else 2
            answer = {"id": new_id(), "item": turn["item"], "duration_ms": 5}
            turn = client.post(
                "/label/answer", headers=me, json=answer | {"choices": {first: side, "count": str(number)}}
            ).json()
    progress = task_progress(fakes.labels, made.key)
    assert sorted((one.n_gold, one.n_gold_right) for one in progress.raters) == [(6, 0), (6, 6)]
    labelled = labelled_items(fakes.labels, made.key)
    frame = sets.judgements_of(labelled, task)
    assert len(frame) == 48  # no check among them
    who = frame[frame["choice"] != "alike"]
    assert ((who["difference"] > 0) == (who["choice"] == "right")).all()
    note = next(one.note for one in label_report(progress, labelled).results.tables if one.key == "judged")
    assert ("asked which set is closer to half" in note) == half


def test_checks_need_enough_pictures_of_either_kind(tmp_path: Path) -> None:
    few = {name: some[:5] for name, some in some_sets(tmp_path / "of").items()}  # which all show it
    with pytest.raises(InvalidInput, match="known to show it and 6 that do not; there are 10 and 0"):
        sets.check_items(few, 1, 0, tmp_path)
    assert sets.check_items(few, 0, 0, tmp_path) == []


def _item_of(fakes: FakeServices, token: str):
    from sqlalchemy import select

    from bias_core.annotation.schema import assignments, items

    with fakes.labels.read() as connection:
        joined = select(items).join(assignments, assignments.c.item_id == items.c.id)
        return connection.execute(joined.where(assignments.c.token == token)).one()


def test_what_cannot_be_made_into_sets_says_what_to_do() -> None:
    from bias_core.labels.report import report_of
    from bias_core.studies.kit.types import Results

    report = report_of(sets_task("white", 6), Results(), n_planned=0, n_images=0)
    with pytest.raises(InvalidInput, match="no pictures"):
        sets.sets_of(report, "white")
    with pytest.raises(InvalidInput, match="is no answer for count"):
        checked_choices(sets_task("white", 6), {"sets": "left", "count": "right"})
    assert sets.judgements_of([], sets_task("white", 6)).equals(
        pd.DataFrame(columns=["rater", "left", "right", "difference", "choice", "counted set", "counted", "share"])
    )


def test_the_example_has_the_recorded_share_of_every_set(fakes: FakeServices, tmp_path: Path) -> None:
    drawn = sets.example_sets(CalibrationRenderer(), tmp_path)
    shares = [np.mean([one.shows for one in pictures]) for pictures in drawn.values()]
    assert shares == sorted(shares)
    assert shares[-1] - shares[0] > 0.2
    task, pictures = sets.sets_order(drawn, "man", 3, 0, tmp_path)
    assert len(create_task(fakes.labels, task, pictures).task.sets) == 3


def test_a_run_with_arms_becomes_a_task_of_sets_with_the_readers_shares(fakes: FakeServices) -> None:
    tab, visitor = built(LabelTab, fakes), Visitor()
    asked = {"concept": "doctor", "n_images": 8, "attributes": ("man",), "languages": ()}
    asked |= {"arms": (Arm(name="fair", condition="fair"), Arm(name="all men", condition="extreme"))}
    settings = explore_settings(StudySettings(model="calibration-renderer"), **asked)
    report = complete(run_study(find_design("explore"), settings, fakes, session=visitor.key))
    form = {name: tab.making.form[name].value for name in FIELDS}
    form |= {"source": report.run_id, "kind": "sets", "about": "man", "n": 5, "n_gold": 0, "title": "Sets"}
    shown = tab.on_make(visitor, None, None, *form.values())
    assert tab.parts["key"] in shown, shown[tab.parts["status"]]
    task, _ = owned_task(fakes.labels, OwnerKey.parse(shown[tab.parts["key"]]))
    assert len(task.sets) == 5
    calls = {arm: sets.sets_of(report, "man")[arm] for arm in ("fair", "all men")}
    assert [len(pictures) for pictures in calls.values()] == [8, 8]
    assert all(share is not None for one in task.sets.values() for share in one[2:4])
    unread = sets.sets_of(report, "a hat")  # of what the reader was not asked nothing is known
    assert np.isnan([one.shows for one in unread["fair"]]).all()
    with_checks = form | {"n_gold": 3, "kind": "sets_half"}
    shown = tab.on_make(visitor, None, None, *with_checks.values())
    key = OwnerKey.parse(shown[tab.parts["key"]])
    assert owned_task(fakes.labels, key)[0].positions == ("half", "count")
    assert task_progress(fakes.labels, key).n_gold_items == 3
    for change, words in (
        ({"about": "a hat"}, "set the attention checks to 0"),
        ({"share": 0}, "at 0 % of the pictures are never shown"),
    ):
        wrong = tab.on_make(visitor, None, None, *(with_checks | change).values())
        assert words in wrong[tab.parts["status"]]
    visitor.leave()
