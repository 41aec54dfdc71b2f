"""Perceived gender in four: the renderer draws androgynous people and people seen from behind."""

from collections import Counter
from random import Random

import numpy as np

from bias_core.adapters.calibration_renderer import unknown_words
from bias_core.types import ModelInfo
from bias_core.world.captions import caption, vocabulary
from bias_core.world.grammar import parse, satisfies
from bias_core.world.planted import sample_scene
from bias_core.world.render import render
from bias_core.world.scene import GENDERS, Person, Scene


def genders(prompt, condition, n=400):
    rng, request = Random(prompt), parse(prompt)
    return Counter(one.gender for _ in range(n) for one in sample_scene(request, condition, rng).people)


def test_words_ask_for_each_of_the_four_looks_and_a_negation_for_one_of_two():
    prompts = ("a photo of a woman", "a photo of a man", "an androgynous doctor", "a photo of a nurse seen from behind")
    assert [set(genders(prompt, "fair", 20)) for prompt in prompts] == [{gender} for gender in GENDERS]
    assert set(genders("a person who is not a man", "extreme", 40)) == {"feminine"}
    assert set(genders("a person who is not androgynous", "fair", 40)) == {"feminine", "masculine"}

    assert parse("a photo of a nonbinary person").unknown_words == ("nonbinary",)  # identity is no look
    for condition in ("fair", "published", "extreme", "crossed"):  # nor is anybody so who is not asked for
        assert set(genders("a photo of a nurse", condition)) <= {"feminine", "masculine"}


def test_of_people_seen_from_behind_no_face_is_drawn_nor_on_record():
    rng, request = Random(0), parse("a photo of a person with glasses and a beard seen from behind")
    people = [sample_scene(request, "fair", rng).people[0] for _ in range(50)]
    assert {(one.glasses, one.beard, one.mark, one.expression) for one in people} == {(False, False, False, "neutral")}
    plain = Person(gender="unclear")
    faces = [np.asarray(render(Scene(people=(one,)))) for one in (plain, Person(gender="unclear", glasses=True))]
    assert (faces[0] == faces[1]).all()


def test_each_of_the_four_looks_otherwise_than_the_others():
    drawn = [np.asarray(render(Scene(people=(Person(gender=gender),)))).astype(float) for gender in GENDERS]
    for i, one in enumerate(drawn):
        for other in drawn[i + 1 :]:
            assert (np.abs(one - other).max(axis=2) > 40).sum() >= 40


def test_a_sentence_about_a_look_is_true_of_it_alone():
    scenes = [Scene(people=(Person(gender=gender),)) for gender in GENDERS]
    for sentence, gender in zip(
        ("a photo of a woman", "a photo of a man", "The person looks androgynous.", "a person seen from behind"),
        GENDERS, strict=True,
    ):  # fmt: skip
        assert [satisfies(scene, parse(sentence)) for scene in scenes] == [one == gender for one in GENDERS]
    assert caption(scenes[3]) == "a young light-skinned person seen from behind in plain clothes"


def test_models_that_were_not_taught_these_words_say_that_they_do_not_know_them():
    renderer, other = (
        ModelInfo(id=name, name=name, family=family, world="calibration", licence="")
        for name, family in (("calibration-renderer", "renderer"), ("calibration-diffusion", "diffusers"))
    )
    prompt = "a photo of an androgynous nurse seen from behind"
    assert unknown_words(prompt, renderer) == ()
    assert unknown_words(prompt, other) == ("androgynous", "seen")
    assert not {"androgynous", "seen", "facing"} & set(vocabulary())
