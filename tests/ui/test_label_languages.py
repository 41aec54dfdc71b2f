"""The raters' page in other languages: every text of it stands in each, and nothing in it is left over."""

import json
import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

import bias_core
from bias_core.labels.api import PAGE, page_routes
from tests.every import every
from tests.ui.raters_texts import raters_texts

CODES = sorted(path.stem for path in (PAGE / "languages").glob("*.json"))
_PLACE = re.compile(r"\{([a-z]+)\}")
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-ZÄÖÜ\d“])")
_PACKAGE = Path(bias_core.__file__).parent
_SOURCES = (
    *(_PACKAGE / "annotation").glob("*.py"), *(_PACKAGE / "labels").glob("*.py"),
    _PACKAGE / "studies" / "kit" / "judging.py", PAGE / "index.html", PAGE / "label.js",
)  # fmt: skip


def phrases_of(code):
    return json.loads((PAGE / "languages" / f"{code}.json").read_text(encoding="utf-8"))


def form_of(english):
    """What an entry stands for: ``{name}`` for any words, a letter for a number."""
    form = re.escape(english).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(_PLACE.sub(lambda place: r"([\d.,]+)" if len(place[0]) == 3 else "(.+?)", form))


@every(CODES)
def test_the_page_stands_in_the_language_with_every_task_that_the_program_words(code):
    phrases, texts = phrases_of(code), raters_texts()
    forms = [form_of(english) for english in phrases if _PLACE.search(english)]

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
        assert sorted(_PLACE.findall(english)) == sorted(_PLACE.findall(own)), english
        assert phrases.get(own, own) == own  # what was looked up is looked up again


def test_a_language_is_one_file_that_the_page_names():
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert f'data-languages="{" ".join(CODES)}"' in page
    reply = TestClient(Starlette(routes=page_routes())).get("/label/languages/de.json")
    assert reply.json()["Your answers"] == "Ihre Antworten"
