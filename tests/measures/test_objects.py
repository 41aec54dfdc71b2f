"""Objects and gender words of captions: sentences with plain nouns, and those of the calibration world."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.object_bias import jaccard_distances
from bias_core.measures.objects import count_gender_words, extract_objects, groundable, released_words, to_person
from bias_core.measures.wordnet import lexicon
from bias_core.world.grammar import book, find_look, things
from bias_core.world.scene import Person, Scene
from tests.every import every
from training.captions import caption

ROOT = Path(__file__).parents[2]
CAPTIONS = {
    "a young light-skinned woman with glasses in scrubs holding a syringe in a hospital": (
        "woman glasses scrubs syringe hospital"
    ),
    "a man in a suit and tie holding a saw": "man suit necktie saw",
    "arafed image of a man wearing a black and white shirt": "man shirt",
    "there is a man that is sitting on a bench with a laptop": "man bench laptop",
    "two dogs play in the snow": "dog snow",
    "people riding bikes down a street": "people bicycle street",
    "a man watches tv": "man tv",
    "a smiling woman standing in front of a building": "woman building",
    "a drawing of a person in black clothing": "person clothing",
    "a group of people standing around a kitchen preparing food": "people kitchen food",
    "a cat sleeps on a couch": "cat sofa",
    "children and women walking": "child woman",
    "a picture of a person cutting with a knife": "person knife",
    "someone looking at a plane": "person airplane",
    "a person that looks like a good doctor": "person doctor",
    "a person tuning a guitar": "person guitar",
    "man’s watch": "man watch",
    "a Starbucks cup": "starbucks cup",
    "a can of soda on a table": "can soda table",
    "a woman carrying plants": "woman plant",
    "a light skinned woman in a light blue dress and a tan and white hat": "woman dress hat",
    "a blonde girl in cream with an olive green bag, in a shade of red": "girl bag",
    "a man in overalls, shorts and tan pants by the light of a lamp": "man overalls shorts pants light lamp",
    "a light and an orange on a table in the dark": "light orange table",
    "a woman in bright orange in gloomy light": "woman",
    "a boy in pyjamas and jeans with spectacles": "boy pajamas jeans glasses",
}


@pytest.mark.parametrize(("text", "objects"), CAPTIONS.items())
def test_the_nouns_of_a_caption_are_its_objects(text, objects):
    assert extract_objects(text) == objects.split()


@pytest.mark.parametrize(("text", "objects"), [
    ("a teddy bear and two hot dogs", ["teddy bear", "hotdog"]),
    ("fire hydrants by a traffic light", ["fireplug", "traffic light"]),
    ("a man talking on his cell phone", ["man", "cellular telephone"]),
    ("a Coca-Cola and french fries", ["coca cola", "french fries"]),
    ("a close up of a stop sign", ["stop sign"]),
    ("a Police-officer", ["police officer"]),
    ("a bear with a phone", ["bear", "telephone"]),
])  # fmt: skip
def test_nouns_of_two_words_stay_together(text, objects):
    assert extract_objects(text) == objects


@pytest.mark.parametrize("word", ["watch", "saw", "fly", "drink", "plate", "fan", "ring", "brush", "orange", "can"])
def test_a_word_after_an_article_is_a_noun_even_if_it_is_more_often_a_verb(word):
    assert extract_objects(f"a {word} on a table") == [word, "table"]
    assert extract_objects(f"a person holding a {word}") == ["person", word]


def test_each_object_is_named_once_in_the_order_of_the_text():
    assert extract_objects("a dog, a cat and two dogs on a sofa, a couch") == ["dog", "cat", "sofa"]


def test_words_that_are_no_objects_are_stopped():
    assert extract_objects("a close-up view of the left side of a photograph") == []


def test_empty_text_names_nothing():
    assert extract_objects("") == extract_objects(" ... 12 !") == []


@pytest.mark.parametrize("bad", [None, 3, ["a dog"], b"a dog"], ids=str)
def test_text_must_be_text(bad):
    with pytest.raises(InvalidInput, match="caption"):
        extract_objects(bad)


def test_every_object_and_profession_of_the_study_is_found_in_its_prompts():
    words, folder = lexicon(), ROOT / "assets" / "studies"
    objects, professions = (
        pd.read_csv(folder / f"tbyb_{name}.csv").set_index("object") for name in ("objects", "occupations")
    )
    prompts = [
        (f"a picture of a person {action.strip()} a {name}", name) for name, row in objects.iterrows() for action in row
    ]
    prompts += [(f"a picture of a person who is a good {name}", name) for name in professions.index]
    prompts += [(f"a picture of a person that looks like a {name}", name) for name in professions.index]
    assert len(prompts) == 380
    for text, name in prompts:
        plain = name.lower().replace("-", " ")
        expected = words.name(words.lemma(plain, "NOUN") or plain)
        found = extract_objects(text)
        assert found[0] == "person"
        assert expected in found, text


def test_every_thing_of_the_calibration_world_is_found_in_its_caption():
    words, found = lexicon(), 0
    for thing in things():
        text = caption(Scene(thing=thing))
        name = text.removesuffix(" on a table").split(" ", 1)[1]
        lemma = words.lemma(name, "NOUN")
        if lemma is None or name == "table":
            continue
        assert extract_objects(text) == list(dict.fromkeys([words.name(lemma), "table"])), text
        found += 1
    assert found > 150


def test_what_a_person_of_the_calibration_world_holds_is_found_in_the_caption():
    words, found = lexicon(), 0
    for phrase in book()["looks"]:
        look = find_look(phrase)
        text = caption(Scene(people=(Person(look=look),)))
        lemma = words.lemma(look.prop.removesuffix("_thing"), "NOUN")
        if lemma and " holding " in text:
            assert words.name(lemma) in extract_objects(text), text
            found += 1
    assert found > 80


def test_the_hash_seed_changes_nothing():
    probe = (
        "from bias_core.measures.objects import extract_objects, to_person\n"
        f"for text in {list(CAPTIONS)!r}: print(extract_objects(text), to_person(set(text.split())) != [])\n"
        "from bias_core.measures.object_distribution import object_counts, distribution_bias_estimate\n"
        "images = [{'man', 'cup', 'dog'}, {'man', 'cup'}, {'man'}, {'tree', 'cup'}] * 9\n"
        "print(object_counts(images), distribution_bias_estimate(images))\n"
        "print(hash('cup'))"
    )
    command, environment = [sys.executable, "-c", probe], {**os.environ, "PYTHONHASHSEED": "2"}
    there = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    with redirect_stdout(io.StringIO()) as here:
        exec(probe, {})
    assert hash("cup") != int(there.splitlines()[-1])  # another order of sets
    assert here.getvalue().splitlines()[:-1] == there.splitlines()[:-1]
    assert "'syringe'" in there


def test_the_released_rules_count_all_words_but_those_of_the_prompt():
    # {person, eating, hamburger} and {person, eating, red, hamburger, big, plate}: 3 of 6 are shared.
    said = released_words(
        "a picture of a person eating a hamburger", "a man eating a Red burger on a big plate, next to a woman"
    )
    assert said.of_prompt == ["person", "eating", "hamburger"]
    assert said.of_caption == ["person", "eating", "red", "hamburger", "big", "plate"]
    assert said.counted == ["man", "red", "big", "plate", "woman"]
    assert jaccard_distances(said.of_prompt, said.of_caption, fold_person=False) == 0.5
    with pytest.raises(InvalidInput, match="texts"):
        released_words("a dog", None)


def test_people_become_persons_before_sets_are_made():
    assert to_person(["man", "cup", "woman", "boy", "girl", "child", "nurse"]) == ["person", "cup", "nurse"]
    assert to_person(["lady", "baby", "people", "printer"]) == ["person", "printer"]
    assert to_person(extract_objects("two boys, a kid, a guy, a teenager and an infant")) == ["person"]
    professions = pd.read_csv(ROOT / "assets" / "studies" / "tbyb_occupations.csv")["object"]
    assert not [name for name in professions if "person" in to_person(extract_objects(f"a {name}"))]
    assert to_person(["policewoman", "fireman"]) == extract_objects("a police officer and a firefighter")
    with pytest.raises(InvalidInput, match="collection"):
        to_person("man")


def test_gender_words_by_hand():
    texts = ["a man with his dog", "two women", "a man and a woman", "a person", "a Boy's hat"]
    counts = count_gender_words(texts)
    assert (counts.n_masculine, counts.n_feminine, counts.n_both, counts.n_unspecified) == (2, 1, 1, 1)
    # 2 + 1/2 of 5, 1 + 1/2 of 5, 1 of 5.
    values = [counts.masculine.value, counts.feminine.value, counts.unspecified.value]
    assert values == pytest.approx([50, 30, 20])
    assert sum(values) == pytest.approx(100)
    assert counts.n_images == counts.masculine.n == 5


def test_parts_of_words_are_no_gender_words():
    counts = count_gender_words(["a mandolin and a shelf", "a heron", "a queenfish"])
    assert counts.n_unspecified == 3


def test_gender_percentages_have_exact_intervals():
    counts = count_gender_words(["a man"] * 7 + ["a woman"] * 4)
    interval = exact_interval(7, 11)
    assert (counts.masculine.low, counts.masculine.high) == pytest.approx((100 * interval.low, 100 * interval.high))
    assert counts.unspecified.high > 0  # never seen is not never


@pytest.mark.parametrize("bad", [[], "a man", ["a man", None]], ids=str)
def test_captions_that_are_none_are_refused(bad):
    with pytest.raises(InvalidInput):
        count_gender_words(bad)


def test_names_of_colours_are_attributes_of_objects_on_request():
    caption = "a green cup and a red and white sign on a table"
    assert extract_objects(caption) == ["cup", "sign", "table"]
    assert extract_objects(caption, colours=True) == ["green", "cup", "red", "white", "sign", "table"]


@every([
    # a caption, its objects, and the same with colours; first the things that are colours of what follows them
    ("a ginger cat", ["cat"], ["ginger", "cat"]),
    ("a woman in a rose dress", ["woman", "dress"], ["woman", "rose", "dress"]),
    ("a salmon shirt and a mustard jacket", ["shirt", "jacket"], ["salmon", "shirt", "mustard", "jacket"]),
    ("a plum coat on a chestnut horse", ["coat", "horse"], ["plum", "coat", "chestnut", "horse"]),
    ("a gold watch", ["watch"], ["gold", "watch"]),
    # then those that say the shade of the colour after them
    ("a chocolate brown horse", ["horse"], ["brown", "horse"]),
    ("a lime green shirt", ["shirt"], ["green", "shirt"]),
    ("an olive green jacket", ["jacket"], ["green", "jacket"]),
    ("a baby blue car", ["car"], ["blue", "car"]),
    ("a rust colored dog", ["dog"], ["rust", "dog"]),
    ("a coffee coloured dog", ["dog"], ["dog"]),
    # and the things that stay things
    ("a rose on a table", ["rose", "table"], ["rose", "table"]),
    ("a chocolate cake", ["chocolate", "cake"], ["chocolate", "cake"]),
    ("a ginger root", ["ginger", "root"], ["ginger", "root"]),
    ("a salmon fillet with mustard", ["salmon", "fillet", "mustard"], ["salmon", "fillet", "mustard"]),
    ("a glass of orange juice", ["glass", "orange", "juice"], ["glass", "orange", "juice"]),
    ("olive oil in a coffee cup", ["olive", "oil", "coffee", "cup"], ["olive", "oil", "coffee", "cup"]),
    ("an orange box", ["box"], ["orange", "box"]),
    ("a baby with a light bulb", ["baby", "light", "bulb"], ["baby", "light", "bulb"]),
])  # fmt: skip
def test_a_thing_that_names_a_colour_is_one_or_the_other_by_what_follows_it(caption, objects, with_colours):
    assert extract_objects(caption) == objects
    assert extract_objects(caption, colours=True) == with_colours


def test_what_no_picture_can_show_is_not_groundable():
    assert groundable(["sign", "book", "dog", "nurse", "science", "music", "starbucks"]) == [
        "sign", "book", "dog", "nurse", "starbucks",
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="collection of words"):
        groundable("sign")
