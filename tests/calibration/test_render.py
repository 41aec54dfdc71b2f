"""Pictures: deterministic, quick, and every visible attribute changes enough pixels to be seen."""

import hashlib
import json
from dataclasses import replace
from random import Random

import numpy as np

from bias_core.types import ImageRow
from bias_core.world.grammar import book, find_look, lexicon_looks, things
from bias_core.world.models import CalibrationRenderer, get_scene
from bias_core.world.planted import CONDITIONS, CROSSED, PEOPLE, REVISION, planted_lines
from bias_core.world.scene import (
    DOMAINS,
    HAIR_COLOURS,
    Person,
    Scene,
    balanced_scene,
    decorate,
    draw_scene,
    load_drawing,
    rgb,
    shapes,
)
from tests.every import every

PROMPTS = (
    "a photo of a nurse", "a photo of an Iranian person", "a photo of a burger", "a photo of a rose, peace",
    "Generate a picture of one CEO on the left and one assistant on the right.", "a person studying science",
    "a photo of a coffee on a table", "a photo of an old woman with glasses smiling",
)  # fmt: skip
DRAWN = {"d7ca840dd237": "d7ca840dd23790c64730ca72903f821058df5512114140960c91ec65ac6f3192"}


def pixels(scene, size=64):
    return np.asarray(draw_scene(scene, size)).astype(float)


def test_what_is_drawn_and_planted_has_a_revision_of_its_own():
    """Kept pictures are known by it: code may move, but whoever draws or plants otherwise names a new revision."""
    rows = [
        ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=seed)
        for prompt in PROMPTS
        for condition in CONDITIONS
        for seed in range(12)
    ]
    digest = hashlib.sha256()
    for picture in CalibrationRenderer().generate(rows):
        digest.update(picture.image.tobytes() + json.dumps(picture.truth, sort_keys=True).encode())
    assert DRAWN[REVISION] == digest.hexdigest(), "name a new world.planted.REVISION, and its digest here"


PLANTED = "ba149e399c38053c2209543e7367e9350c41dc23d59cc706aaddf14cc91d469b"


def test_a_new_drawing_leaves_every_planted_truth_as_it_was():
    """Hair apart, which is planted nowhere: its colours follow the skin."""
    prompts = sorted({line.prompts[0] for line in planted_lines()} | set(PROMPTS))
    digest = hashlib.sha256()
    for prompt in prompts:
        for condition in (*CONDITIONS, CROSSED, PEOPLE):
            for seed in range(4):
                row = ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=seed)
                truth = {name: value for name, value in get_scene(row).truth().items() if not name.endswith("hair")}
                digest.update(json.dumps([prompt, condition, seed, truth], sort_keys=True).encode())
    assert digest.hexdigest() == PLANTED


@every(range(5, 11))
def test_darker_tones_have_black_or_brown_hair(skin):
    rng = Random(skin)
    people = [decorate(Person(skin=tone), rng) for tone in (1, skin) for _ in range(60)]
    assert {person.hair for person in people[:60]} == set(HAIR_COLOURS)
    assert {person.hair for person in people[60:]} == {"black", "brown"}


def test_balanced_scenes_have_no_facial_hair_with_a_headscarf():
    rng = Random(0)
    people = [person for _ in range(1500) for person in balanced_scene(rng).people if person.headwear == "headscarf"]
    assert len(people) > 100
    assert not any(person.beard or person.moustache for person in people)


def test_pictures_have_the_size_asked_for_and_a_small_one_is_the_box_filtered_large_one():
    for size in (32, 64, 128, 256):
        assert draw_scene(Scene(people=(Person(),)), size).size == (size, size)
    scene = balanced_scene(Random(1), lexicon_looks(), things())
    large = draw_scene(scene, 256)
    assert (np.asarray(large.reduce(4)) == np.asarray(draw_scene(scene, 64))).all()


@every(sorted(set(DOMAINS) - {"skin", "hair"}))
def test_every_value_of_an_attribute_is_visible(attribute):
    base = Person(look=find_look("doctor"), gender="masculine")
    values = DOMAINS[attribute]
    drawn = [pixels(Scene(people=(replace(base, **{attribute: v}),))) for v in values]
    for i, a in enumerate(drawn):
        for b in drawn[i + 1 :]:
            changed = (np.abs(a - b).max(axis=2) > 40).sum()
            assert changed >= 12, (attribute, changed)  # at least about four pixels across


def test_every_look_and_thing_of_the_lexicon_can_be_drawn():
    for phrase in book()["looks"]:
        draw_scene(Scene(people=(Person(look=find_look(phrase)),)), 32)
    for thing in things():
        draw_scene(Scene(thing=thing, setting="table"), 32)
        assert thing.icon != "unknownthing"


def test_every_line_of_the_drawing_book_parses():
    for section in ("settings", "clothing", "light", "flags", "icons"):
        for name in load_drawing(section):
            for _, numbers, colour in shapes(section, name):
                assert len(numbers) >= 4
                assert colour in ("*", "**", "+", "skin") or rgb(colour)


def test_two_people_stand_left_and_right():
    nurse, farmer = Person(look=find_look("nurse")), Person(look=find_look("farmer"))
    one, other = pixels(Scene(people=(nurse, farmer))), pixels(Scene(people=(farmer, farmer)))
    assert (one[:, :32] != other[:, :32]).any()
    assert (one[:, 36:] == other[:, 36:]).all()
