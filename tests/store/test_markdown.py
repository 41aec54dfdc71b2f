"""Texts of others in Markdown: shown as they are, and never a link, a picture, a tag or a heading."""

import html
import re

import pytest
from markdown_it import MarkdownIt

from bias_core.store.export import DatasetFacts, dataset_card
from bias_core.store.markdown import as_code, fenced, in_markdown, paragraphs
from tests.hostile_markdown import HOSTILE_WORDS, Page, in_plain_blanks

PLACES = (
    "# {}", "{}", "- {}", "- name: {}", "1. {}", "> **{}**", "| a | b |\n| --- | --- |\n| {} | 0.5 |\n| 1 | {} |",
    "![{}](figures/own.svg)", "[{}](own.csv)", "**{}**", "before {} after", "{} {}",
)  # fmt: skip


def rendered(text):
    """As CommonMark with GitHub's tables and struck words."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)


@pytest.mark.parametrize("place", PLACES)
def test_hostile_words_stay_words_wherever_they_stand(place):
    own, tags = {"figures/own.svg", "own.csv"}, re.findall("<[a-z0-9]+", rendered(place.replace("{}", "x")))
    broken = {}
    for words in HOSTILE_WORDS:
        text = place.format(*[in_markdown(words)] * place.count("{}"))
        page = rendered(f"{text}\n\n[1] [x] [82, 96]")
        read = Page(page)
        is_shown = "![" in place or in_plain_blanks(words) in in_plain_blanks(read.text)
        if set(read.loaded) - own or not is_shown or re.findall("<(?!code)[a-z0-9]+", page) != [*tags, "<p"]:
            broken[words] = page
    assert broken == {}


def test_numbers_and_names_are_written_as_they_are():
    for plain in (
        "91\xa0% [82, 96]", "−0.29 [−0.39, −0.16]", "[1.50, ∞]", "a photo of a doctor", "calibration-renderer",
        "p < 0.05", "model_revision", "e.g. 0.5", "-0.25", "What’s “this”?", "n = 64; 1.5 (1 to 2)", "AT&T", "C#",
        "50 % & more", "a/b",
    ):  # fmt: skip
        assert in_markdown(plain) == plain.replace("\xa0", " ").replace("<", "&lt;")


def test_a_block_of_code_ends_where_it_ends():
    hostile = "python x\n```\n![](http://evil.example/x)\n````\n<script>"
    page = rendered(fenced(hostile) + "\n\n" + as_code("a`![](http://evil.example)``b") + " end")
    assert Page(page).loaded == []
    assert html.unescape(page).count("![](http://evil.example") == 2
    assert page.endswith(" end</p>\n")


def test_code_stays_in_its_cell_of_a_table():
    for words in HOSTILE_WORDS:
        page = rendered(f"| a | b |\n| --- | --- |\n| {as_code(words)} | 0.5 |")
        assert page.count("<td>") == 2, words
        assert "<td>0.5</td>" in page, words
        assert Page(page).loaded == [], words


def test_a_dataset_card_shows_what_others_wrote_as_words():
    words = "\n\n".join(HOSTILE_WORDS)
    facts = DatasetFacts(
        key="x", title=words, summary=words, model=words, annotation=words, limits=words, command=words, n_pictures=1,
        n_prompts=1, reference=words, licence_note=words, notes=[words], versions={"encoder": words},
    )  # fmt: skip
    card = dataset_card(facts, {"a`b": words})
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", card, flags=re.DOTALL).groups()
    assert Page(rendered(body)).loaded == []
    assert [line.partition(":")[0] for line in head.splitlines() if re.match(r"\w", line)] == [
        "pretty_name", "license", "license_name", "language", "tags", "size_categories", "configs",
    ]  # fmt: skip
    assert paragraphs("a\nb\n\n \nc") == "a b\n\nc"
