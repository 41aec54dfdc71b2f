"""The raters' page: its files, its languages, and the demonstration of it."""

import ast
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import bias_core
from bias_core.errors import InvalidInput, StorageError
from bias_core.installed import ASSETS
from bias_core.labels import rating
from bias_core.labels.api import PAGE, page_routes
from bias_core.labels.tab_demonstration import FILE, YOU, Demonstration, DemonstrationPart, demonstration_html
from bias_core.measures.agreement import krippendorff_alpha
from bias_core.report.figures import to_bytes
from bias_core.study.label_tasks import Task, association_task, own_task, pst_task, scale_task
from tests.every import every


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


# What stands in a sentence, by the value that label.js or a refusal puts there.
_VALUES = {"error": "too many requests; wait a second", "said": "", "word": "paused"}
_PLACE = re.compile(r"\$\{(?:[^{}]|\{[^}]*\})*\}")
_READS_LIKE_TEXT = re.compile(r"^\W*[A-Z]?[a-z]+,? [a-z0-9]+|^[A-Z][a-z]+\W*$")
_ATTRIBUTES = ("aria-label", "alt", "data-label")


def raters_texts() -> set[str]:
    """These texts, with 1 or 5 where a number stands and a nurse where the picture's identity does."""
    page, script = ((PAGE / name).read_text(encoding="utf-8") for name in ("index.html", "label.js"))
    said = {text for n in (1, 5) for text in _script_texts(script, n)} | _refusals()
    return {*_texts_of_html(page), *said} | {text for task in _tasks() for text in _task_texts(task)}


def _texts_of_html(html: str) -> set[str]:
    """The texts between tags and in attributes that are read aloud, those with a word in them."""
    texts: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
            texts.extend(value for name, value in attrs if name in _ATTRIBUTES and value)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(html)
    return {" ".join(text.split()) for text in texts if re.search(r"[^\W\d_]{2}", text)}


def _tasks() -> list[Task]:
    two_looks = [pst_task(paired=paired) for paired in (True, False)]
    four_looks = [pst_task(paired=paired, looks="four") for paired in (True, False)]
    scales = [scale_task("skin tone"), scale_task("age group")]
    own = [own_task("Does this picture show a rose?", ["yes", "no"]), association_task("yes", "no")]
    return [*two_looks, *four_looks, *scales, *own]


def _task_texts(task: Task) -> set[str]:
    texts = {task.title, task.consent, task.content_note, *task.instructions.split("\n\n")}
    texts |= {question.replace("{}", "nurse") for question in task.questions.values()}
    return texts | {answer.label for answer in task.answers}


def _script_texts(script: str, n: int) -> set[str]:
    """The sentences and words of label.js: what is quoted and reads like text."""
    code = re.sub(r"(?m)(?<!:)//.*$|/\*.*?\*/", "", script)
    quoted = [_PLACE.sub(lambda one: _value(one[0], n), text) for text in re.findall(r"`([^`]*)`", code)]
    quoted += re.findall(r"'([^'\n]*)'", re.sub(r"`[^`]*`", "", code))
    return {
        " ".join(text.split())
        for text in quoted
        if _READS_LIKE_TEXT.search(text.replace(str(n), "n")) and "[" not in text
    }


def _value(code: str, n: int) -> str:
    if counted := re.search(r"count\(.*'(\w+)'\)", code):
        return f"{n} {counted[1]}{'' if n == 1 else 's'}"
    if choice := re.search(r"=== 1 \? '(\w+)' : '(\w+)'", code):
        return choice[1 if n == 1 else 2]
    return next((word for key, word in _VALUES.items() if re.search(rf"\b{key}\b", code)), "7")


def _refusals() -> set[str]:
    """Messages to raters who may not do something: ``NotAllowed`` in the room of raters."""
    source = ast.parse(Path(rating.__file__).read_text(encoding="utf-8"))
    calls = [one for one in ast.walk(source) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    texts = [
        one.args[0] for one in calls if isinstance(one.func, ast.Name) and one.func.id == rating.NotAllowed.__name__
    ]
    return {
        "".join(_literal(part) for part in (text.values if isinstance(text, ast.JoinedStr) else [text]))
        for text in texts
    }


def _literal(part: ast.expr) -> str:
    return (
        str(part.value)
        if isinstance(part, ast.Constant)
        else _value(ast.unparse(part).replace("_STATUS_WORDS", "word"), 5)
    )


CODES = sorted(path.stem for path in (PAGE / "languages").glob("*.json"))
_BLANK = re.compile(r"\{([a-z]+)\}")
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-ZÄÖÜ\d“])")
_PACKAGE = Path(bias_core.__file__).parent
_SOURCES = (
    *(_PACKAGE / "labels").glob("*.py"), _PACKAGE / "study" / "label_tasks.py", _PACKAGE / "study" / "answers.py",
    _PACKAGE / "run" / "attribute_scores.py", PAGE / "index.html", PAGE / "label.js",
)  # fmt: skip


def phrases_of(code):
    return json.loads((PAGE / "languages" / f"{code}.json").read_text(encoding="utf-8"))


def form_of(english):
    """The pattern of an entry: ``{name}`` for any words, a letter for a number."""
    form = re.escape(english).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(_BLANK.sub(lambda place: r"([\d.,]+)" if len(place[0]) == 3 else "(.+?)", form))


@every(CODES)
def test_the_page_stands_in_the_language_with_every_task_that_the_program_words(code):
    phrases, texts = phrases_of(code), raters_texts()
    forms = [form_of(english) for english in phrases if _BLANK.search(english)]

    def is_known(text):
        return text in phrases or any(form.fullmatch(text) for form in forms)

    parts = {part for text in texts if not is_known(text) for part in _SENTENCES.split(text)}
    missing = [one for one in parts if re.search(r"[^\W\d_]{2}", one) and "XXXX" not in one and not is_known(one)]
    assert len(texts) > 130
    assert not missing, "\n".join([f"to be added to {code}.json:", *sorted(missing)])


@every(CODES)
def test_no_phrase_is_left_whose_english_is_gone(code):
    texts = {part for text in raters_texts() for part in (text, *_SENTENCES.split(text))}
    sources = "\n".join(path.read_text(encoding="utf-8") for path in _SOURCES)
    sources = " ".join(re.sub(r"\"\s*\n\s*f?\"", "", sources).split())  # strings that go on in the next line are one

    def is_somewhere(english):
        longest = max(re.split(r"\{[a-z]+\}", english), key=len).strip()
        return longest in sources or any(form_of(english).fullmatch(text) for text in texts)

    gone = [english for english in phrases_of(code) if not is_somewhere(english)]
    assert not gone, "\n".join([f"to be taken out of {code}.json:", *gone])


@every(CODES)
def test_phrases_keep_their_places_and_are_english_for_nothing_else(code):
    phrases = phrases_of(code)
    for english, own in phrases.items():
        assert sorted(_BLANK.findall(english)) == sorted(_BLANK.findall(own)), english
        assert phrases.get(own, own) == own  # what was looked up is looked up again


def test_a_language_is_one_file_that_the_page_names():
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert f'data-languages="{" ".join(CODES)}"' in page
    reply = TestClient(Starlette(routes=page_routes())).get("/label/languages/de.json")
    assert reply.json()["Your answers"] == "Ihre Antworten"


@pytest.fixture(scope="module")
def demonstration():
    return Demonstration.read(ASSETS)


def test_it_is_a_handful_of_small_pictures_on_which_two_raters_agree_in_part(demonstration):
    assert len({path.read_bytes() for path in demonstration.pictures}) == len(demonstration.pictures) > 5
    assert sum(path.stat().st_size for path in demonstration.pictures) < 20_000
    assert demonstration.ratings.shape[1] == 2
    assert 0 < demonstration.before.value < 1
    assert set(demonstration.ratings.to_numpy().ravel()) <= set(demonstration.answers)


def test_a_third_rater_s_answers_change_agreement_as_the_coefficient_says(demonstration):
    for choices in (list(demonstration.ratings["rater A"]), ["cannot_identify"] * len(demonstration.ratings)):
        comparison = demonstration.compared(choices)
        third = np.column_stack([demonstration.ratings.to_numpy(), choices])
        assert comparison.after.value == pytest.approx(krippendorff_alpha(third))
        assert comparison.after.n == len(choices)
        way = "more" if comparison.after.value > demonstration.before.value else "less"
        assert comparison.says.endswith(f": {way} agreement on these pictures.")
        alike = [len(set(said)) == 1 for said in third.tolist()]
        assert f"raters give the same answer for {sum(alike)} of {len(alike)}" in comparison.says
        assert [one for *_, one in comparison.rows] == alike
        figure = comparison.figure
        assert figure.data["value"].tolist()[:2] == [demonstration.before.value, comparison.after.value]
        assert to_bytes(figure)
        html = demonstration_html(comparison)
        assert comparison.says in unescape(html)
        assert html.count("<tr class=") == len(choices)
    comparison = demonstration.compared(list(demonstration.ratings["rater B"]))
    pair = comparison.figure.data.set_index("name")["value"]
    assert pair[f"{YOU} and rater B"] == 1
    assert pair[f"{YOU} and rater A"] == pytest.approx(demonstration.before.value)


def test_other_answers_are_refused_in_one_sentence(fakes):
    part = DemonstrationPart(fakes)
    for answers in ("", "feminine", "feminine," * 9, "feminine,<i>," * 4):
        html = part.on_answers(SimpleNamespace(answers=answers))
        assert "the demonstration asks for 8 answers of feminine, masculine, cannot_identify" in html
        assert "<i>" not in html
        with pytest.raises(InvalidInput):
            part.demonstration.compared(answers.split(","))


def test_nothing_of_it_is_kept_and_no_store_of_labels_is_opened(fakes):
    part = DemonstrationPart(fakes)
    before = sorted(fakes.settings.data_dir.rglob("*"))
    event = SimpleNamespace(answers=",".join(part.demonstration.ratings["rater A"]))
    assert "Before you, rater A and rater B" in part.on_answers(event)
    assert sorted(fakes.settings.data_dir.rglob("*")) == before
    assert not (fakes.settings.data_dir / "labels.sqlite").exists()
    assert YOU not in part.demonstration.ratings


def test_a_broken_one_is_said(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / FILE).write_text(json.dumps({"question": "?", "answers": {}, "pictures": [{}]}))
    with pytest.raises(StorageError, match="demonstration"):
        Demonstration.read(tmp_path)
