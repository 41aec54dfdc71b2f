"""Files of answers from other tools: what is read, what is passed over and why, and which pictures are meant."""

import json
from random import Random

import pytest

from bias_core.errors import InvalidInput
from bias_core.study.answer_files import ENDINGS, READERS, match_answers, match_picture, read_answer_file
from bias_core.study.answers import read_answers
from bias_core.study.label_tasks import POSITIONS

IDS = ["0a1b2c3d4e5f", "picture-2"]


def saved(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def choices(name, *answers, **more):
    return {"from_name": name, "type": "choices", "value": {"choices": [*answers]}} | more


def annotation(rater, *results, **more):
    return {"completed_by": rater, "result": [*results], "was_cancelled": False} | more


def task(image, *annotations):
    return {"data": {"image": image}, "annotations": [*annotations]}


def test_results_of_label_studio_that_answer_nothing_are_no_answers_and_others_are_named(tmp_path):
    relation = {"from_id": "a", "to_id": "b", "type": "relation"}
    region = {"from_name": "box", "type": "rectanglelabels", "value": {"rectanglelabels": ["face"], "x": 1}}
    stars = {"from_name": "pleasant", "type": "rating", "value": {"rating": 4}}
    tasks = [
        task("x/picture-2.png", annotation(1, choices("left", "feminine"), relation, region, stars)),
        task("x/picture-2.png", annotation(2, choices("left", "feminine", "masculine"))),
        task("x/picture-2.png", annotation(3, choices("left", "masculine"), ground_truth=True)),  # starred by a user
        task("x/picture-2.png", annotation(4, choices("left", "feminine"), was_cancelled=True)),
        {"data": {}, "annotations": [annotation(5, choices("left", "feminine"))]},
    ]
    answers, look = read_answer_file(saved(tmp_path, "export.json", tasks))
    assert [(a.position, a.answer, a.rater) for a in answers if not a.passed_over] == [
        ("left", "feminine", "1"), ("pleasant", "4", "1"), ("left", "masculine", "3"),
    ]  # fmt: skip
    assert look.passed_over == {
        "several choices in one answer, so nothing is counted": ["task 2"],
        "cancelled by their raters": ["task 4"],
        "no picture is named": ["task 5"],
    }


def test_the_smaller_json_of_label_studio_and_cvats_xml_are_read(tmp_path):
    small = [
        {
            "image": "/data/upload/3/1a2b3c4d-picture-2.png",
            "id": 7,
            "left": "feminine",
            "annotator": 3,
            "lead_time": 2.5,
        },
        {"image": "gs://bucket/0a1b2c3d4e5f.png", "left": {"choices": ["feminine", "masculine"]}, "annotator": 4},
    ]
    answers = read_answers(str(saved(tmp_path, "min.json", small)))
    assert answers[["position", "answer", "rater"]].to_numpy().tolist() == [["left", "feminine", "3"]]
    assert match_answers(answers, IDS)["image_id"].tolist() == ["picture-2"]
    xml = """<?xml version="1.0"?><annotations><meta><task><owner><username>ada</username></owner></task></meta>
      <image id="0" name="a/picture-2.png"><tag label="person"><attribute name="left">Feminine</attribute></tag></image>
      <image id="1" name="0a1b2c3d4e5f.png"><tag label="masculine"></tag></image></annotations>"""
    answers = read_answers(str(saved(tmp_path, "cvat.xml", xml)))
    assert answers[["position", "answer", "rater"]].to_numpy().tolist() == [
        ["left", "feminine", "ada"], ["", "masculine", "ada"],
    ]  # fmt: skip
    assert match_answers(answers, IDS)["image_id"].tolist() == ["picture-2", "0a1b2c3d4e5f"]
    for wrong, says in (("<a/>", "its first tag is <a>"), ("<annotations>", "no readable XML"),
                        ('<!DOCTYPE x [<!ENTITY a "b">]><annotations/>', "declares entities")):  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            read_answers(str(saved(tmp_path, "wrong.xml", wrong)))


ADDRESSES = {
    "0a1b2c3d4e5f": ("0a1b2c3d4e5f", "id"),
    "picture-2.png": ("picture-2", "the file name"),
    "run/pictures/picture-2.jpg": ("picture-2", "the file name in an address"),
    "C:\\mine\\picture-2.png": ("picture-2", "the file name in an address"),
    "/data/upload/3/ffee0011-picture-2.png": ("picture-2", "the file name after “ffee0011-”"),
    "/data/local-files/?d=a%20b%2Fpicture-2.png": ("picture-2", "the file name in an address"),
    "https://host/x/picture-2.png?sig=1": ("picture-2", "the file name in an address"),
    "s3://bucket/0a1b2c3d4e5f.png": ("0a1b2c3d4e5f", "the file name in an address"),
    "ffee0011-other.png": ("", ""),
    "": ("", ""),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_picture_is_found_by_its_id_file_address_or_after_the_prefix_of_an_upload(name):
    assert match_picture(name, IDS) == ADDRESSES[name]


@pytest.mark.parametrize("seed", range(5))
def test_every_answer_in_a_file_matches_matches_not_or_is_passed_over(seed, tmp_path):
    chance = Random(seed)
    tasks = [
        task(
            chance.choice([*IDS, "/data/upload/1/00aa11bb-picture-2.png", "gone.png", ""]),
            *(
                annotation(
                    rater,
                    choices("left", *chance.sample(["feminine", "masculine"], chance.choice([1, 1, 2]))),
                    was_cancelled=chance.random() < 0.2,
                )
                for rater in range(chance.randint(1, 4))
            ),
        )
        for _ in range(20)
    ]
    n = sum(len(one["annotations"]) for one in tasks)
    tasks.append(task(IDS[0], annotation(9, choices("left", "feminine"))))
    answers = read_answers(str(saved(tmp_path, "export.json", tasks)))
    match_answers(answers, IDS)
    look = answers.attrs["look"]
    n_passed_over = sum(map(len, look.passed_over.values()))
    assert look.n == n + 1 == sum(look.found_by.values()) + len(look.unmatched) + n_passed_over
    said = " ".join(look.lines())
    assert f"export.json: {n + 1:,} answers (picture from the task's data, question from from_name" in said


def test_another_tool_is_one_function(tmp_path):
    assert set(ENDINGS) == set(READERS)
    table = "file_name,question,choice,annotator\nx/picture-2.png,right,Feminine,ada\n"
    answers, look = read_answer_file(saved(tmp_path, "images.csv", table))
    assert [(a.picture, a.position, a.answer, a.rater) for a in answers] == [
        ("x/picture-2.png", "right", "Feminine", "ada")
    ]
    assert look.columns == {"picture": "file_name", "answer": "choice", "question": "question", "rater": "annotator"}
    assert "right" in POSITIONS[2]
