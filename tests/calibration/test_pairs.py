"""Lessons of two people say what their scenes show, and words that lean do so on their own side."""

import shutil
from random import Random

import pytest
import torch
from transformers import AutoTokenizer

from bias_core.world.grammar import parse
from bias_core.world.shapes import ASSETS
from tests.every import every
from training import diffusion, drawing
from training.pairs import FARTHEST, PairLessons, TowerLesson, Towers, train_pairs

NOUNS = ["nurse", "doctor"]


@pytest.fixture(scope="module")
def lessons():
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "pipeline" / "tokenizer")
    return PairLessons(lambda prompt: len(tokenizer(prompt)["input_ids"]) <= tokenizer.model_max_length)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    work = tmp_path_factory.mktemp("pairs")
    shutil.copytree(ASSETS / "pipeline", work / "pipeline")
    return diffusion.Folders(
        work=work, vae=ASSETS / "pipeline" / "vae", clip=ASSETS / "clip", pipeline=work / "pipeline",
        loras=ASSETS / "loras",
    )  # fmt: skip


@pytest.fixture(scope="module")
def towers(folders):
    return Towers(folders, AutoTokenizer.from_pretrained(folders.pipeline / "tokenizer"), "cpu")


def test_what_a_lesson_names_of_the_two_people_its_scene_shows(lessons):
    rng, named = Random(0), [0, 0]
    for _ in range(200):
        lesson = lessons.of_names(NOUNS, rng)
        for side, (asked, person) in enumerate(zip(parse(lesson.prompt).people, lesson.scene.people, strict=True)):
            assert all(getattr(person, name) in values for name, values in asked.allowed.items())
            named[side] += "gender" in asked.allowed
    assert min(named) > 120  # the right one as often as the left one


def test_the_farther_a_noun_leans_the_surer_is_the_gender_of_its_own_person(lessons):
    rng = Random(0)
    drawn = [lessons.of_leans(NOUNS, rng) for _ in range(400)]
    for side in (0, 1):
        far = [lesson for lesson in drawn if abs(lesson.leans[side]) > FARTHEST / 2]
        right = [(x.scene.people[side].gender == "masculine") == (x.leans[side] > 0) for x in far]
        assert sum(right) / len(right) > 0.9
        assert {lesson.prompt for lesson in drawn} == {
            "Generate a picture of one nurse on the left and one doctor on the right."
        }


def test_every_lesson_is_read_to_its_end_and_shows_two_people_by_published_rates_where_it_may(lessons):
    rng = Random(1)
    drawn = [lessons.draw(rng) for _ in range(100)]
    assert all(lessons.fits(lesson.prompt) and len(lesson.scene.people) == 2 for lesson in drawn)
    assert {lesson.condition for lesson in drawn} == {"fair", "published"}
    fair = PairLessons(lessons.fits, published=False)
    assert {fair.draw(rng).condition for _ in range(60)} == {"fair"}


@torch.no_grad()
def test_a_lean_changes_nothing_before_the_noun_that_leans(towers, lessons):
    plain = lessons.of_leans(NOUNS, Random(0))
    prompt, scene = plain.prompt, plain.scene
    still, left, right = (
        towers.read(TowerLesson(prompt, scene, leans=leans))[0] for leans in ((0.0, 0.0), (2.0, 0.0), (0.0, 2.0))
    )
    # [BOS] nurse left doctor right [EOS]
    moved = [(states - still).abs().amax(dim=(0, 2)) > 1e-3 for states in (left, right)]
    assert moved[0][:4].tolist() == [False, True, True, True]
    assert moved[1][:4].tolist() == [False, False, False, True]


@torch.no_grad()
def test_the_words_of_a_condition_are_read_by_its_own_tower(towers, lessons):
    lesson = lessons.of_planted(NOUNS, Random(0))
    assert lesson.condition == "published"
    fair = towers.read(lesson._replace(condition="fair"))[0]
    assert (towers.read(lesson)[0] - fair).abs().max() > 0.05


def test_training_on_pairs_moves_the_transformer_and_no_text_tower(folders):
    before = diffusion.assemble(folders, "cpu")
    train_pairs(folders, minutes=0.01, batch=4, pool=8)
    after = diffusion.assemble(folders, "cpu")
    weights = before.transformer.state_dict()
    moved = [not torch.equal(weights[name], x) for name, x in after.transformer.state_dict().items()]
    assert sum(moved) > len(moved) / 2
    words = before.text_encoder.state_dict()
    assert all(torch.equal(words[name], x) for name, x in after.text_encoder.state_dict().items())


@every([1, 4, 5])
def test_every_second_picture_begins_with_the_opposite_noise(n):
    noise = drawing.opposite_noise(n, seed=3)
    assert noise.shape == (n, 4, 16, 16)
    evens, odds = noise[: n - n % 2 : 2], noise[1::2]
    assert torch.equal(evens, -odds)
    assert torch.equal(noise, drawing.opposite_noise(n, seed=3))
    assert not torch.equal(noise, drawing.opposite_noise(n, seed=4))
