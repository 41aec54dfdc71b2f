"""The page's second language is whole: every text of the page stands in it, and nothing in it is left over."""

from __future__ import annotations

import json
import re
import urllib.request
from functools import cache
from pathlib import Path

import pytest

from bias_core.app.build import TABS, launch_options
from bias_core.methods.tab import model_cards
from bias_core.metrics.cards import METRICS, glossary
from bias_core.settings import ASSETS, Settings
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.saved import list_examples, open_example
from bias_core.ui.language import languages
from tests.every import every
from tests.ui.fakes import FakeServices  # noqa: TC001
from tests.ui.in_language import PLACE, SENTENCES, form_of
from tests.ui.page_texts import texts_of
from tests.ui.raters_texts import raters_texts
from tests.ui.served import Served  # noqa: TC001

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ASSETS / "examples" / "index.json"
FILES = sorted((ASSETS / "languages").glob("*.json"))
SOURCES = [
    *(ROOT / "bias_core").rglob("*.py"), *(ROOT / "bias_core").rglob("*.html"), *(ROOT / "bias_core").rglob("*.js"),
    *(ROOT / "bias_core").rglob("*.yaml"), *(ROOT / "assets").rglob("*.yaml"), *(ROOT / "scripts").rglob("*.py"),
    EXAMPLES, *(ASSETS / "label").glob("*.*"),
]  # fmt: skip
# What a model is given and what things are called: the same in every language.
DATA = {
    "T2I Bias Explorer", "Python", "fair → extreme", "calibration-diffusion", "task_oriented", "general", "pooled",
    "published", "fair", "extreme", "trigger", "backdoor", "denoiser", "languages",
    "default", "both", "turns", "full", "union", "vqa",
    "finder", "people", "prompt", "keyword", "pictures", "prompts", "CEO", "doctor", "nurse", "construction worker",
    "Iranian person", "Indian person", "Mexican person", "person", "rose", "spider", "Doctor", "Nurse", "Lawyer",
    "Teacher", "Secretary", "Cook", "Farmer", "Construction worker", "Mechanic", "Developer", "Librarian",
    "Hairdresser", "Housekeeper",
}  # fmt: skip
DATA_FORMS = re.compile(
    r".* \(OASIS\)|Calibration CLIP|(?:ddim|ddpm|pndm|lms|heun|euler|dpm|deis|unipc)\S*|bias_core \d.*|.* · [\d.]+ GB"
)
COMPOSED = ("Headlines", "Parts of results")  # groups of what is put together of parts, which no source has in a row
GRADIOS_OWN = {
    "Use via API or MCP", "Use via API", "Built with Gradio", "Settings", "Drop File Here", "- or -", "or", "Clear",
    "Click to Upload", "Uploading...", "Error", "Loading", "Loading...", "Copy", "Copied!", "Download", "Fullscreen",
    "Exit fullscreen mode", "View in full screen", "Remove", "Reset to default value", "No options", "More tabs",
    "number input for {label}", "range slider for {label}", "File upload", "Open cell menu", "Empty value",
    "Table actions",
}  # fmt: skip


def phrases_of(path: Path) -> dict[str, str]:
    groups = json.loads(path.read_text(encoding="utf-8"))["phrases"]
    return {english: own for group in groups.values() for english, own in group.items()}


@pytest.fixture(scope="module")
def texts(served: Served) -> set[str]:
    """What the page is built with, but for names, and for the models' cards: documents of their own."""
    with urllib.request.urlopen(f"{served.url}/config") as answer:
        components = json.load(answer)["components"]
    names = {one.name for one in METRICS.values()}
    cards = [text.strip() for _, text in model_cards(ASSETS)]
    shown = {text for one in components if one["props"].get("value") not in cards for text in texts_of(one)}
    shown |= {preset.says for tab in TABS for preset in getattr(tab, "presets", ())}
    shown |= {text for term in glossary() for text in (term.words, term.says, term.reads) if text}
    shown |= {one[key] for one in json.loads(EXAMPLES.read_text(encoding="utf-8")) for key in ("title", "says")}
    return {text for text in shown if text not in DATA | names and not DATA_FORMS.fullmatch(text)}


def forms_of(phrases: dict[str, str]) -> list[re.Pattern[str]]:
    return [form_of(english) for english in phrases if PLACE.search(english)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_text_of_the_page_stands_in_the_language(path: Path, texts: set[str]) -> None:
    phrases = phrases_of(path)
    forms = forms_of(phrases)
    missing = [text for text in texts if text not in phrases and not any(form.fullmatch(text) for form in forms)]
    assert not missing, "\n".join([f"to be added to {path.name}:", *sorted(missing)])


@cache
def _sources() -> str:
    """All sources as one text, without what cuts a sentence in them: line breaks and the quotes of two strings."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    text = re.sub(r"\"\s*\n\s*f?\"", "", text)
    return " ".join(text.replace("{%", "\n{%").split())


@cache
def _lower_sources() -> str:
    return _sources().lower()


def _has_a_run_of(english: str, n: int = 3) -> bool:
    """Whether so many of its words stand in a row in the sources: headlines and titles are put together of parts.

    Of two or three words between its places one less is enough.
    """
    chunks = [re.findall(r"[\w“”'’]+", chunk) for chunk in re.split(r"\{[a-z]+\}", english.lower())]
    n = min(n, max(1, max(map(len, chunks)) - 1))
    runs = [" ".join(chunk[i : i + n]) for chunk in chunks for i in range(len(chunk) - n + 1)]
    return any(run in _lower_sources() for run in runs)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_phrase_is_left_whose_english_is_gone(path: Path, texts: set[str]) -> None:
    def is_somewhere(english: str) -> bool:
        form = forms_of({english: ""})
        pieces = re.split(r"\{[a-z]+\}|[,.:;·→]", english)
        return (
            english in shown
            or any(one.fullmatch(text) for one in form for text in shown)
            or max((piece.strip() for piece in pieces), key=len) in _sources()
            or (english in composed and _has_a_run_of(english))
        )

    groups = json.loads(path.read_text(encoding="utf-8"))["phrases"]
    composed = {english for group in COMPOSED for english in groups.get(group, {})}
    shown = texts | {part for text in raters_texts() for part in (text, *SENTENCES.split(text))}
    gone = [english for english in phrases_of(path) if english not in GRADIOS_OWN and not is_somewhere(english)]
    assert not gone, "\n".join([f"to be taken out of {path.name}:", *gone])


@every(FILES)
def test_phrases_keep_their_places_and_their_tags(path: Path) -> None:
    for english, own in phrases_of(path).items():
        for form in (PLACE, re.compile(r"</?[a-z][^>]*>"), re.compile(r"\{\}")):
            assert sorted(form.findall(english)) == sorted(form.findall(own)), english


@every(FILES)
def test_no_phrase_of_a_language_is_english_for_something_else(path: Path) -> None:
    phrases = phrases_of(path)
    twice = {english: own for english, own in phrases.items() if phrases.get(own, own) != own}
    assert not twice


def test_a_language_is_one_file(tmp_path: Path, fakes: FakeServices) -> None:
    (tmp_path / "languages").mkdir()
    (tmp_path / "languages" / "fr.json").write_text('{"name": "Français", "phrases": {}}', encoding="utf-8")
    assert languages(Settings(assets_dir=tmp_path)) == {"en": "English", "fr": "Français"}
    head = launch_options(fakes)["head"]
    assert all(f'"{path.stem}"' in head for path in FILES)


@every(FILES)
def test_headlines_of_examples_are_said_in_the_language_sentence_by_sentence(path: Path) -> None:
    """As language.js looks them up; half a headline would stay English as a whole."""
    phrases = phrases_of(path)
    forms = forms_of(phrases)
    reports = [
        open_example(one, ASSETS / "examples").report
        for tab in TABS
        for one in list_examples(tab.key, ASSETS / "examples")
    ]
    sentences = [part for report in reports for part in SENTENCES.split(headline(report))]
    missing = [part for part in sentences if part not in phrases and not any(form.fullmatch(part) for form in forms)]
    assert len(sentences) > 8
    assert not missing


@every(FILES)
def test_the_raters_page_stands_in_the_language_with_every_task_that_the_program_words(path: Path) -> None:
    phrases, texts = phrases_of(path), raters_texts()
    forms = forms_of(phrases)

    def is_known(text: str) -> bool:
        return text in phrases or any(form.fullmatch(text) for form in forms)

    parts = {part for text in texts if not is_known(text) for part in SENTENCES.split(text)}
    missing = [one for one in parts if re.search(r"[^\W\d_]{2}", one) and "XXXX" not in one and not is_known(one)]
    assert len(texts) > 120
    assert not missing, "\n".join([f"to be added to {path.name}:", *sorted(missing)])
