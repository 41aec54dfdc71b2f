"""Questions to raters about themselves: asked once, kept apart, told of groups that are large enough."""

import zipfile

import pandas as pd
import pytest

from bias_core.annotation.collected import export_labels, labelled_items, task_progress
from bias_core.annotation.crowd import facts_of_raters
from bias_core.annotation.task_owner import change_task, delete_task, exclude_rater
from bias_core.annotation.tasks import about_rater_from_lines, about_rater_lines, own_task, pst_task
from bias_core.errors import InvalidInput
from bias_core.labels.groups import HIDDEN, group_tables, visible_groups
from bias_core.labels.report import label_report
from tests.annotation.raters import answer_to, every_row, joined, open_task

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
