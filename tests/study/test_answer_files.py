"""Files of answers from other tools: what is read, what counts for a run and why not, and which pictures are meant."""

import csv
import io
import json
from random import Random

import pytest

from bias_core.errors import InvalidInput
from bias_core.study.answer_files import ENDINGS, READERS, look_table, read_answer_file
from bias_core.study.answer_fit import fit_answers
from bias_core.study.answers import count_answers, read_answers
from bias_core.study.label_tasks import YES_NO

IDS = ["0a1b2c3d4e5f", "picture-2", "alone"]
LOOKS = ("feminine", "masculine", "cannot_identify")
PAIRS = {
    "0a1b2c3d4e5f": {"left": LOOKS, "right": LOOKS}, "picture-2": {"left": LOOKS, "right": LOOKS},
    "alone": {"single": LOOKS}, "unasked": {},
}  # fmt: skip
"""Two pictures of two people, one of one person, and one that nothing is asked about."""


def saved(folder, name, content):
    path = folder / name
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fitted(path, questions=PAIRS):
    return fit_answers(read_answers(str(path)), questions)


def cells(answers):
    return answers[["image_id", "position", "answer", "rater"]].to_numpy().tolist()


def csv_text(*rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


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
        task("x/picture-2.png", annotation(1, choices("left", "Feminine"), relation, region, stars)),
        task("x/picture-2.png", annotation(2, choices("left", "feminine", "masculine"))),
        task("x/picture-2.png", annotation(3, choices("left", "masculine"), ground_truth=True)),  # starred by a user
        task("x/picture-2.png", annotation(4, choices("left", "feminine"), was_cancelled=True)),
        {"data": {}, "annotations": [annotation(5, choices("left", "feminine"))]},
        task("x/picture-2.png", annotation(6, region)),
        {"data": {"a": "1.png", "b": "2.png"}, "annotations": [annotation(7, choices("left", "feminine"))]},
    ]
    answers = fitted(saved(tmp_path, "export.json", tasks))
    assert cells(answers) == [["picture-2", "left", "feminine", "1"], ["picture-2", "left", "masculine", "3"]]
    look = answers.attrs["look"]
    assert look.passed_over == {
        "stars or numbers, for which this run has no question": ["task 1: pleasant"],
        "several choices in one answer, so nothing is counted": ["task 2"],
        "cancelled by their raters": ["task 4"],
        "no picture is named": ["task 5"],
        "their task shows several pictures": ["task 7"],
    }
    assert (look.n, look.skipped) == (7, ["task 6"])
    assert [line for line in look.not_counted() if "skipped" in line] == []


STUDIO = ("annotation_id", "annotator", "created_at", "id", "image", "lead_time", "updated_at")


def studio_row(picture, *answers):
    return (1, "ada", "2026", 7, f"/data/upload/3/1a2b3c4d-{picture}.png", 2.5, "2026", *answers)


CVAT = """<?xml version="1.0"{}?><annotations><meta><task><owner><username>ada</username></owner></task></meta>
  <image id="0" name="a/picture-2.png"><tag label="person"><attribute name="left">Feminine</attribute></tag></image>
  <image id="1" name="0a1b2c3d4e5f.png"><tag label="person"><attribute name="left">masculine</attribute></tag></image>
</annotations>"""
LAYOUTS = {
    "columns of Label Studio.csv": csv_text(
        (*STUDIO, "prompt", "left", "stars"),
        studio_row("picture-2", "two nurses", "Feminine", 4),
        studio_row("0a1b2c3d4e5f", "two cooks", "masculine", ""),
        studio_row("alone", "a cook", "", 3),  # no question about it, so no skipped one either
    ),
    "JSON-MIN.json": [
        {"photo": "/data/upload/3/1a2b3c4d-picture-2.png", "annotator": "ada", "left": "feminine", "stars": 4, "id": 7},
        {"photo": "gs://bucket/0a1b2c3d4e5f.png", "annotator": "ada", "left": {"choices": ["masculine"]}, "id": 8},
    ],
    "one answer a line, other order.csv": csv_text(
        ("Rater", "Comment", "Choice", "Question", "File name"),
        ("ada", "", "Feminine", "L", "picture-2.png"),
        ("ada", "é", "MASCULINE", "1", "train/00002-paired-0a1b2c3d4e5f.png"),
    ).encode("cp1252"),
    "records.json": [
        {"image_id": "picture-2", "position": "left", "answer": "feminine", "rater": "ada"},
        {"image_id": "0a1b2c3d4e5f", "position": "left", "answer": "masculine", "rater": "ada"},
    ],
    "cvat.xml": CVAT.format(""),
    "cvat in UTF-16.xml": CVAT.format(' encoding="utf-16"').encode("utf-16"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_other_tools_are_read_as_the_same_answers(name, tmp_path):
    answers = fitted(saved(tmp_path, name, LAYOUTS[name]))
    assert cells(answers) == [["picture-2", "left", "feminine", "ada"], ["0a1b2c3d4e5f", "left", "masculine", "ada"]]
    look, lines = answers.attrs["look"], " ".join(answers.attrs["look"].lines())
    assert (look.n, look.passed_over, look.skipped) == (2, {}, [])
    if "Studio" in name or "MIN" in name:
        assert "Columns taken as questions: left. " in lines
        assert f"Columns not read: {'prompt, ' * ('Studio' in name)}stars. " in lines


def cvat(meta, *images):
    """CVAT's XML: images of a name, a task ("" for none) and shapes."""
    tasks = [f' task_id="{task}"' * bool(task) for _, task, _ in images]
    lines = [f'<image id="{i}" name="{name}"{tasks[i]}>{shapes}</image>' for i, (name, _, shapes) in enumerate(images)]
    return f"<annotations><version>1.1</version><meta>{meta}</meta>{''.join(lines)}</annotations>"


def cvat_task(number, owner, assignee=""):
    people = f"<owner><username>{owner}</username></owner><assignee>{assignee}</assignee>"
    return f"<task><id>{number}</id><segments><segment><id>1</id></segment></segments>{people}</task>"


def test_tags_of_cvat_are_answers_or_their_attributes_are(tmp_path):
    left = '<tag label="left"><attribute name="gender">Feminine</attribute></tag>'
    right = '<tag label="person"><attribute name="right">masculine</attribute></tag>'
    box = '<box label="face" xtl="1"/>'
    xml = cvat(
        cvat_task(7, "ada", "<username>bob</username>"),
        ("picture-2.png", "", left + right), ("alone.png", "", '<tag label="cannot identify"/>' + box),
        ("0a1b2c3d4e5f.png", "", box),
    )  # fmt: skip
    answers = fitted(saved(tmp_path, "tags.xml", xml))
    assert cells(answers) == [
        ["picture-2", "left", "feminine", "bob"], ["picture-2", "right", "masculine", "bob"],
        ["alone", "single", "cannot_identify", "bob"],
    ]  # fmt: skip
    assert answers.attrs["look"].skipped == ["image 2"]
    two = cvat(cvat_task(7, "ada"), ("alone.png", "", '<tag label="feminine"/><tag label="masculine"/>'))
    with pytest.raises(InvalidInput, match=r"several answers of one rater .* image 0 \(alone, single, ada\)"):
        fitted(saved(tmp_path, "two.xml", two))
    gender = cvat(
        cvat_task(7, "ada"), ("picture-2.png", "", '<tag label="person"><attribute name="x">feminine</attribute></tag>')
    )
    with pytest.raises(InvalidInput, match=r"positions in gender.xml are left, right, single; got x \(1\), .*image 0"):
        fitted(saved(tmp_path, "gender.xml", gender))


def test_answers_of_a_model_in_cvat_are_none_of_people(tmp_path):
    tag = '<tag label="{}" source="{}"><attribute name="{}">{}</attribute></tag>'
    shapes = [
        tag.format("left", "auto", "gender", "feminine") + tag.format("right", "manual", "gender", "masculine"),
        '<tag label="feminine" source="auto"/><tag label="masculine" source="semi-auto"/>',
        '<box label="left" source="auto"><attribute name="gender">feminine</attribute></box>',
    ]
    names = ("picture-2.png", "alone.png", "0a1b2c3d4e5f.png")
    images = [(name, "", shape) for name, shape in zip(names, shapes, strict=True)]
    answers = fitted(saved(tmp_path, "mixed.xml", cvat(cvat_task(7, "ada"), *images)))
    assert cells(answers) == [["picture-2", "right", "masculine", "ada"], ["alone", "single", "masculine", "ada"]]
    assert answers.attrs["look"].passed_over == {
        "answers of machines, not of people": ["image 0", "image 1", "image 2"]
    }
    with pytest.raises(InvalidInput, match=r"auto.xml has no answers. 1 of 1 answers .*: answers of machines"):
        fitted(saved(tmp_path, "auto.xml", cvat("", images[2])))
    guessed = {"predictions": [{"model_version": "m", "result": [choices("single", "feminine")]}]}
    studio = [task("alone.png", annotation(1, choices("single", "masculine"))) | guessed, task("alone.png") | guessed]
    assert cells(fitted(saved(tmp_path, "export.json", studio))) == [["alone", "single", "masculine", "1"]]


def test_tasks_and_jobs_in_one_export_of_cvat_are_of_the_people_who_did_them(tmp_path):
    tag = '<tag label="feminine"/>'
    of_a_project = cvat(
        f"<project><tasks>{cvat_task(1, 'ada')}{cvat_task(2, 'ada')}{cvat_task(3, 'ada', '<username>bob</username>')}"
        "</tasks></project>",
        *(("alone.png", task, tag) for task in (1, 2, 3)),
    )
    answers = fitted(saved(tmp_path, "project.xml", of_a_project))
    assert answers["rater"].tolist() == ["ada, task 1", "ada, task 2", "bob"]
    job = "<job><id>4</id><assignee><username>eve</username></assignee></job>"
    assert fitted(saved(tmp_path, "job.xml", cvat(job, ("alone.png", "", tag))))["rater"].tolist() == ["eve"]
    one = cvat(job, ("alone.png", "", tag))
    for content, words in (
        (one + one, "several exports in one file: export the project"),
        ("<annotations><track id='0' label='x'/></annotations>", "for video; export it as “CVAT for images”"),
    ):
        with pytest.raises(InvalidInput, match=words):
            fitted(saved(tmp_path, "other.xml", content))


def test_a_column_is_a_question_by_its_name_or_its_answers_and_a_single_question_needs_no_name(tmp_path):
    table = csv_text(("image", "gender", "note"), ("alone.png", "feminine", "left"), ("alone.png", "", "hm"))
    answers = fitted(saved(tmp_path, "gender.csv", table))
    assert cells(answers) == [["alone", "single", "feminine", ""]]
    assert answers.attrs["look"].skipped == ["line 3"]
    assert answers.attrs["look"].other_columns == ["note"]


LINE = ("image_id", "position", "answer", "rater")
REFUSED = {
    "two answers of a rater": (
        csv_text(
            LINE, ("alone", "", "feminine", "a"), ("alone", "", "feminine", "b"), ("x/alone.png", "1", "masculine", "a")
        ),
        r"of one rater to one question about one picture: line 2 and line 4 \(alone, single, a\)",
    ),
    "two answers without raters": (
        csv_text(LINE[:3], ("alone", "", "feminine"), ("alone", "", "masculine")),
        "without a column of raters .* line 2 and line 3",
    ),
    "two annotations of a rater": (
        [
            task(
                "alone.png", annotation(1, choices("single", "feminine")), annotation(1, choices("single", "masculine"))
            )
        ],
        r"one picture: task 1 \(alone, single, 1\)",
    ),
    "a position": (
        csv_text(LINE, ("picture-2", "left", "feminine", "a"), ("picture-2", "top", "feminine", "a")),
        r"positions in file are left, right, single; got top \(1\), the first in line 3",
    ),
    "no position for two people": (csv_text(LINE, ("picture-2", "", "feminine", "a")), "got no position"),
    "a question of another study": (
        [task("picture-2.png", annotation(1, choices("left", "feminine"), choices("sharp", "yes")))],
        "got sharp",
    ),
    "a mistyped column": (csv_text((*STUDIO, "lefft"), studio_row("picture-2", "feminine")), "got lefft"),
    "no column of the run": (
        csv_text((*STUDIO, "lefft"), studio_row("picture-2", "woman")),
        r"no column of file \(lefft\) is a question of this run: none is named left or right or single, or has",
    ),
    "an answer": (csv_text(LINE, ("alone", "", "female", "a")), "answers in file are feminine, .*; got female"),
    "most pictures": (
        csv_text(LINE, ("alone", "", "feminine", "a"), *((f"other-{i}", "", "feminine", "a") for i in range(5))),
        r"only 1 of 6 answers in file match a picture of this run; not: .* \(line 3: other-0; .* 2 more.*e5f.png",
    ),
    "no answer that counts": (
        csv_text(LINE, ("alone", "left", "feminine", "a")),
        "none of the answers in file counts. 1 of 1",
    ),
    "several choices only": (
        [task("alone.png", annotation(1, choices("single", "feminine", "masculine")))],
        "has no answers. 1 of 1 .* several",
    ),
    "only blanks": (csv_text(LINE, ("alone", "", "", "a")), r"has no answers. 1 question was skipped, .* \(line 2\)"),
    "entities": ('<!DOCTYPE x [<!ENTITY a "b">]><annotations/>', "declares a document type x"),
    "entities in UTF-16": (
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x [<!ENTITY a "b">]><annotations/>'.encode("utf-16"),
        "declares a document type x",
    ),
    "XML of another tool": ("<a/>", "its first tag is <a>"),
    "half an XML": ("<annotations>", "no readable XML"),
    "half a JSON": ("[{", "no readable JSON"),
    "JSON without pictures": ([{"left": "feminine"}], "no picture or no answer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_run_does_not_know_is_refused_with_the_whole_file(case, tmp_path):
    content, says = REFUSED[case]
    with pytest.raises(InvalidInput, match=says):
        fitted(saved(tmp_path, "file", content))


def test_answers_about_pictures_that_a_stopped_run_did_not_draw_are_named_and_not_refused(tmp_path):
    given = read_answers(str(saved(tmp_path, "file", REFUSED["most pictures"][0])))
    look = fit_answers(given, PAIRS, has_all_pictures=False).attrs["look"]
    assert len(look.counted) == 1
    assert [len(places) for places in look.passed_over.values()] == [5]


def test_a_yes_about_another_attribute_counts_for_none(tmp_path):
    only_beards = {name: {"beard": YES_NO} for name in IDS}
    path = saved(tmp_path, "file", csv_text(LINE, ("alone", "hat", "yes", "a")))
    with pytest.raises(InvalidInput, match="are beard; got hat"):
        fitted(path, only_beards)
    by_machines = [("picture-2", "Beard", "no", rater) for rater in ("automatic", "judge: org/machine")]
    answers = fitted(saved(tmp_path, "file", csv_text(LINE, ("alone", "", "yes", "a"), *by_machines)), only_beards)
    assert cells(answers) == [["alone", "beard", "yes", "a"]]
    assert answers.attrs["look"].passed_over == {"answers of machines, not of people": ["line 3", "line 4"]}


def test_answers_to_a_question_that_a_picture_was_not_asked_are_named(tmp_path):
    rows = [("alone", "left", "feminine", "a"), ("unasked", "left", "feminine", "a"), ("alone", "", "feminine", "a")]
    given = read_answers(str(saved(tmp_path, "file.csv", csv_text(LINE, *rows))))
    before = given.attrs["look"]
    answers = fit_answers(given, PAIRS)
    assert cells(answers) == [["alone", "single", "feminine", "a"]]
    assert list(answers.attrs["look"].not_counted()) == [
        "2 of 3 answers in file.csv do not count: a question that this run does not ask about their pictures "
        "(line 2: left; line 3: left)."
    ]
    assert given.attrs["look"] is before  # what was given stays as it was
    assert len(given) == 3


def test_raters_whose_names_differ_only_by_case_or_blanks_are_named_and_not_merged(tmp_path):
    raters = ("Ann B", " ann b ", "ANNB", "Bob", "eve", "Eve")
    rows = [("alone", "single", "feminine", rater) for rater in raters]
    look = fitted(saved(tmp_path, "names.csv", csv_text(LINE, *rows))).attrs["look"]
    says = (
        "Raters in names.csv whose names differ only by case or blanks count as different people: “Ann B” and “ann b” "
        "and “ANNB”; “eve” and “Eve”. Write one person’s name in one way."
    )
    assert list(look.similar_raters()) == [says]
    assert {says, "Answers: feminine (6) about single (6), of 6 people."} <= {*look.lines()}
    plain = fitted(saved(tmp_path, "plain.csv", csv_text(LINE, *rows[2:5]))).attrs["look"]
    assert list(plain.similar_raters()) == []


@pytest.mark.parametrize("columns", [4, 3])
def test_answers_of_no_known_rater_are_of_no_number_of_people(columns, tmp_path):
    rows = [("alone", "single", "feminine", ""), ("picture-2", "left", "masculine", "")]
    answers = fitted(saved(tmp_path, "names.csv", csv_text(*(row[:columns] for row in (LINE, *rows)))))
    look = answers.attrs["look"]
    assert any(line.endswith("about single (1), left (1), without a rater.") for line in look.lines())
    assert "people" not in look_table(look).frame["what"].tolist()
    assert count_answers(answers) == "2 answers in names.csv count, without a rater, about 2 pictures."


def layouts_of(chance, answers):
    """The same answers, one each of picture, position, answer and rater, in three layouts."""
    yield "table.csv", csv_text(LINE, *answers)
    yield (
        "export.json",
        [
            task(f"s3://b/{picture}.png", annotation(rater, choices(position, *filter(None, [answer]))))
            for picture, position, answer, rater in answers
        ],
    )
    columns = ["left", "right", "single"]
    yield (
        "columns.csv",
        csv_text(
            (*STUDIO, "prompt", *columns),
            *(
                (
                    *studio_row(picture)[:1],
                    rater,
                    *studio_row(picture)[2:],
                    "left",
                    *(answer * (c == position) for c in columns),
                )
                for picture, position, answer, rater in answers
            ),
        ),
    )


@pytest.mark.parametrize("seed", range(5))
def test_every_answer_in_a_file_counts_or_is_named_with_a_reason(seed, tmp_path):
    chance = Random(seed)
    pictures = [*PAIRS] * 3 + ["gone"]
    answers = [
        (chance.choice(pictures), chance.choice(["left", "right", "single"]), chance.choice([*LOOKS, ""]), f"r{i}")
        for i in range(60)
    ]
    answers += [("alone", "single", "feminine", "last")]
    n = sum(answer != "" for _, _, answer, _ in answers)
    wanted = [a for a in answers if a[2] and a[1] in PAIRS.get(a[0], {})]
    for name, content in layouts_of(chance, answers):
        fit = fitted(saved(tmp_path, name, content))
        look = fit.attrs["look"]
        assert look.n == n == len(fit) + sum(map(len, look.passed_over.values())), name
        assert cells(fit) == [[*answer] for answer in wanted], name
        assert f"{name}: {n} answers (picture from " in " ".join(look.lines())
        said = sum(int(line.split(" of ")[0]) for line in look.not_counted())
        assert said == n - len(wanted), name


def test_another_tool_is_one_function(tmp_path):
    assert set(ENDINGS) == set(READERS)
    table = "file_name,question,choice,annotator\nx/picture-2.png,right,Feminine,ada\n"
    look = read_answer_file(saved(tmp_path, "images.csv", table))
    assert [(a.picture, a.position, a.answer, a.rater) for a in look.read] == [
        ("x/picture-2.png", "right", "Feminine", "ada")
    ]
    assert look.columns == {"picture": "file_name", "answer": "choice", "question": "question", "rater": "annotator"}
