"""The word table: lemmas, parts of speech and names of synonyms, against WordNet's own answers."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from bias_core.measures.wordnet import PARTS_OF_SPEECH, lexicon

ASSETS = Path(__file__).parents[2] / "assets"
PLURALS = {
    "men": "man", "women": "woman", "children": "child", "mice": "mouse", "geese": "goose", "knives": "knife",
    "teeth": "tooth", "boxes": "box", "buses": "bus", "cities": "city", "dishes": "dish", "dresses": "dress",
    "arms": "arm", "glass": "glass", "scissors": "scissors", "people": "people",
}  # fmt: skip


@pytest.mark.parametrize(("form", "lemma"), PLURALS.items())
def test_plurals_have_their_singular(form, lemma):
    assert lexicon().lemma(form, "NOUN") == lemma


@pytest.mark.skipif(not shutil.which("wn"), reason="needs WordNet's own program: apt-get install wordnet")
@pytest.mark.parametrize("form", [form for form in PLURALS if form != "people"])
def test_wordnets_own_program_knows_the_same_singular(form):
    said = subprocess.run(["wn", form, "-synsn"], capture_output=True, text=True, check=False).stdout
    assert f"of noun {lexicon().lemma(form, 'NOUN')}" in said


@pytest.mark.parametrize(("form", "part", "lemma"), [
    ("holding", "VERB", "hold"), ("saw", "VERB", "see"), ("saw", "NOUN", "saw"), ("older", "ADJ", "old"),
    ("nonesuchword", "NOUN", None), ("quickly", "NOUN", None), ("s", "NOUN", "s"),
])  # fmt: skip
def test_lemmas_belong_to_a_part_of_speech(form, part, lemma):
    assert lexicon().lemma(form, part) == lemma


def test_frequencies_are_those_of_wordnets_count_list():
    # cntlist.rev: watch%2:39:00:: 1 77 and watch%1:06:00:: 1 9.
    assert lexicon().frequency("watch", "VERB") == 77
    assert lexicon().frequency("watch", "NOUN") == 9
    assert lexicon().frequency("watch", "ADJ") is None
    assert lexicon().frequency("nonesuchword", "NOUN") is None


@pytest.mark.parametrize(("synonyms", "name"), [
    (("couch", "sofa"), "sofa"),
    (("pharmacist", "druggist"), "pharmacist"),
    (("phone", "telephone"), "telephone"),
    (("cell phone", "cellphone", "mobile phone", "cellular telephone"), "cellular telephone"),
    (("plane", "airplane"), "airplane"),
    (("burger", "hamburger"), "hamburger"),
    (("bike", "bicycle"), "bicycle"),
    (("glasses", "eyeglasses", "spectacles"), "glasses"),
])  # fmt: skip
def test_synonyms_share_a_name(synonyms, name):
    assert {lexicon().name(word) for word in synonyms} == {name}


def test_gendered_words_keep_their_own_name():
    words = lexicon()
    for word in ("policeman", "fireman", "boy", "girl", "lady", "waitress", "chairman"):
        assert words.name(word) == word
    for word in ("police officer", "firefighter", "fire fighter", "child", "person"):
        assert not words.name(word).endswith(("man", "woman"))


def test_folding_twice_changes_nothing():
    words = lexicon()
    names = {words.name(word) for word in words.rows}
    assert all(words.name(name) == name for name in names)
    assert len(names) < len(words.rows)


def test_untagged_words_of_several_senses_are_not_folded():
    # The first sense of "saw" is a proverb and of "mace" its bearer; neither was ever tagged.
    assert [lexicon().name(word) for word in ("saw", "mace", "monitor")] == ["saw", "mace", "monitor"]


def test_rows_hold_four_counts_and_a_known_name():
    words = lexicon()
    for word, row in words.rows.items():
        counts, name = row.split("\t")
        cells = counts.split(",")
        assert len(cells) == len(PARTS_OF_SPEECH) + 1
        assert cells.pop() in ("", "p", "t", "o")
        assert any(cells), word
        assert not name or name in words.rows


def test_the_word_lists_are_those_of_the_study():
    words = json.loads((ASSETS / "wordnet" / "words.json").read_text())
    study = yaml.safe_load((ASSETS / "studies" / "tbyb.yaml").read_text())
    assert words["stop_words"] == study["stop_list"]["words"]
    for key in ("masculine", "feminine", "person_words"):
        assert words[key] == study["gender_words"][key]


def test_compounds_are_two_words_and_go_by_a_known_name():
    for compound, known_as in lexicon().compounds.items():
        assert len(compound.split()) == 2
        name = known_as or compound
        assert name == known_as == compound or name in {*lexicon().rows, *lexicon().stop_words}, compound


def test_the_licence_lies_beside_the_table():
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in (ASSETS / "wordnet" / "LICENSE").read_text()
