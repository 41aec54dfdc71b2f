"""Pictures: deterministic, quick, and every visible attribute changes enough pixels to be seen."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bias_core.world.balanced import balanced_scene
from bias_core.world.captions import look_of, looks, things
from bias_core.world.lexicon import book
from bias_core.world.render import render
from bias_core.world.scene import DOMAINS, Person, Scene
from bias_core.world.shapes import drawing, rgb, shapes


def pixels(scene: Scene, size: int = 64) -> np.ndarray:
    return np.asarray(render(scene, size)).astype(float)


def test_the_same_scene_gives_the_same_pixels() -> None:
    scene = balanced_scene(Random(0), looks(), things())
    assert (pixels(scene) == pixels(scene)).all()


@pytest.mark.parametrize("size", [32, 64, 128, 256])
def test_sizes(size: int) -> None:
    assert render(Scene(people=(Person(),)), size).size == (size, size)


def test_a_small_picture_is_the_box_filtered_large_one() -> None:
    scene = balanced_scene(Random(1), looks(), things())
    large = render(scene, 256)
    assert (np.asarray(large.reduce(4)) == np.asarray(render(scene, 64))).all()


@pytest.mark.parametrize("attribute", sorted(set(DOMAINS) - {"skin", "hair"}))
def test_every_value_of_an_attribute_is_visible(attribute: str) -> None:
    base = Person(look=look_of("doctor"), gender="masculine")
    values = DOMAINS[attribute]
    drawn = [pixels(Scene(people=(replace(base, **{attribute: v}),))) for v in values]
    for i, a in enumerate(drawn):
        for b in drawn[i + 1 :]:
            changed = (np.abs(a - b).max(axis=2) > 40).sum()
            assert changed >= 12, (attribute, changed)  # at least about four pixels across


def test_every_look_and_thing_of_the_lexicon_can_be_drawn() -> None:
    for phrase in book()["looks"]:
        render(Scene(people=(Person(look=look_of(phrase)),)), 32)
    for thing in things():
        render(Scene(thing=thing, setting="table"), 32)
        assert thing.icon != "unknownthing"


def test_every_line_of_the_drawing_book_parses() -> None:
    for section in ("settings", "clothing", "light", "flags", "icons"):
        for name in drawing(section):
            for _, numbers, colour in shapes(section, name):
                assert len(numbers) >= 4
                assert colour in ("*", "**", "+", "skin") or rgb(colour)


def test_two_people_stand_left_and_right() -> None:
    nurse, farmer = Person(look=look_of("nurse")), Person(look=look_of("farmer"))
    one, other = pixels(Scene(people=(nurse, farmer))), pixels(Scene(people=(farmer, farmer)))
    assert (one[:, :32] != other[:, :32]).any()
    assert (one[:, 36:] == other[:, 36:]).all()
