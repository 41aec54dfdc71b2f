"""Result pages in the page's second language: no sentence of an example's page or of a new run stays English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bias_core.app.build import TABS
from bias_core.settings import ASSETS
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.saved import list_examples, open_example
from bias_core.studies.reports.text import work
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.study.study_tab import StudyTab
from tests.ui.fakes import FakeServices
from tests.ui.in_language import Language
from tests.ui.page_texts import texts_of_html
from tests.ui.tabs import built, opened_folds

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport

FILES = sorted((ASSETS / "languages").glob("*.json"))
# Words that English sentences are made of, and that the second languages do not have.
_ENGLISH = (
    "the and is are with than that which from by not each their its it as has have be for this where when at between "
    "against share shares pictures picture mean without under over less drawn read"
)
ENGLISH = frozenset(_ENGLISH.split())
QUOTED = re.compile(r"„[^“]*“|“[^”]*”|<[^>]*>|\"[^\"]*\"|'[^']*'")
_WORD = re.compile(r"[^\W\d]+")
_HASH = re.compile(r"\b[0-9a-f]{20}\b")
_SHORTEST = 4  # letters of a name that is looked for
# A preset of every tab, each of them a second on services without weights; and Explore's comparisons.
PRESETS = {
    "explore": ("Fair against published: doctor", "Women drawn younger: CEO"),
    "association": ("From words to pictures",),
    "paired": ("Places swapped, and who is larger", "Does the stereotype hang on age?"),
    "objects": ("People at work",),
    "origins": ("Until which step does the text decide?", "Internet users"),
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServices]:
    made = FakeServices(tmp_path_factory.mktemp("pages"))
    yield made
    made.close()


def reports_of(tab: type[StudyTab], services: FakeServices) -> Iterator[StudyReport]:
    """The tab's examples, and new runs of its presets: in a few pictures, with what can be said of few."""
    if tab.key in PRESETS or tab.key in ("internal",):  # Runs shows reports as their own tabs do
        for example in list_examples(tab.key, ASSETS / "examples"):
            yield open_example(example, ASSETS / "examples").report
    for preset in tab.presets:
        if preset.name in PRESETS.get(tab.key, ()):
            few = (
                {"scale": 0.02} if tab.key != "explore" else {"options": {**preset.settings["options"], "n_images": 12}}
            )
            yield complete(run_study(find_design(preset.study), StudySettings(**preset.settings | few), services))


def names_in(report: StudyReport) -> set[str]:
    """What a model was given, and what was found as a text: the same in every language."""
    pages = [report, *report.arms]
    frames = [page.pictures for page in pages if getattr(page, "pictures", None) is not None]
    frames += [table.frame for page in pages for table in page.results.tables]
    names = {
        str(value)
        for frame in frames
        for column in frame.columns.intersection(
            ["prompt", "caption", "positive", "negative", "text", "texts", "name", "concept", "attribute", "pair"]
        )
        for value in frame[column].unique()
    }
    names |= {", ".join(report.unknown_words), work(report.design.reference), "This is a photo of"}
    return {name for name in names if len(name) > _SHORTEST}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("tab", [tab for tab in TABS if issubclass(tab, StudyTab)], ids=lambda tab: tab.key)
def test_no_sentence_of_a_result_page_stays_english(tab: type[StudyTab], path: Any, services: FakeServices) -> None:
    language, page, english = Language(path), built(tab, services), set()
    for report in reports_of(tab, services):
        names = sorted(names_in(report), key=len, reverse=True)
        for value in opened_folds(page, page.finished(report)).values():
            html = value.get("value") if isinstance(value, dict) else value
            if not isinstance(html, str) or not html.lstrip().startswith("<"):
                continue
            for text in texts_of_html(html, lambda text: language.say(text) != text):
                said = _HASH.sub(" ", QUOTED.sub(" ", language.say(text)))
                for name in names:
                    said = said.replace(name, " ")
                if ENGLISH & {word.lower() for word in _WORD.findall(said) if not word.isupper()}:
                    english.add(text)
    assert not english, "\n".join([f"{len(english)} texts to be added to {path.name}:", *sorted(english)])
