"""Two people: who is asked for where, and what hangs on that."""

import hashlib
from itertools import product

import numpy as np
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.types import ImageRow
from bias_core.world.grammar import parse
from bias_core.world.planted import PEOPLE
from bias_core.world.render import render
from tests.every import every

PAIR = "Generate a picture of one {} on the left and one {} on the right."


def scenes(prompt, n=1, condition=PEOPLE):
    return [
        scene_of(ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=k)) for k in range(n)
    ]


@every(["a doctor and a nurse", "a rose, a tulip and a lily", "a woman, smiling", "a man serving a pizza"])
def test_lists_and_verbs_are_no_pairs(prompt):
    assert len(parse(prompt).people) < 2
    assert not scenes(prompt)[0].places


def drawn_as(prompts, conditions):
    digest = hashlib.sha256()
    for prompt, condition in product(prompts, conditions):
        for scene in scenes(prompt, 3, condition):
            digest.update(render(scene, 64).tobytes())
    return digest.hexdigest()


def test_pictures_stay_bit_for_bit():
    known = (
        PAIR.format("doctor", "nurse"),
        "a doctor and a nurse",
        "a photo of a couple",
        "a man serving a pizza",
        "an image of a nurse treating a patient",
    )
    planted = (  # what is planted for some people leaves the pictures of others as they were
        *(PAIR.format(*two) for two in (("doctor", "nurse"), ("clerk", "lawyer"))),
        PAIR.format("pilot", "cook"),
    )
    first = "61834e43342c1f8ff2090f54934fa05e9b35beb411edf9fd4a5ff73a00ccc162"
    assert drawn_as(known, ("fair", "published", "crossed")) == first
    assert drawn_as(planted, (PEOPLE,)) == "cb81f71fded60976e369c50e63c496799d2c042c1017ab69058e8ec9283eed92"


def shares(prompt, n=1500):
    drawn = scenes(prompt, n)
    return [float(np.mean([one.people[k].gender == "masculine" for one in drawn])) for k in range(len(drawn[0].people))]


@every(
    [
        (PAIR.format("doctor", "nurse"), [0.7, 0.3]),  # the role alone: wherever it stands
        (PAIR.format("nurse", "doctor"), [0.3, 0.7]),
        (PAIR.format("lawyer", "clerk"), [0.7, 0.3]),  # the place alone: whoever stands there
        (PAIR.format("clerk", "lawyer"), [0.7, 0.3]),
        (PAIR.format("ceo", "assistant"), [0.55, 0.45]),  # 0.5 + 0.15 - 0.1, 0.5 - 0.15 + 0.1
        (PAIR.format("assistant", "ceo"), [0.25, 0.75]),
    ]
)
def test_shares_hang_on_role_and_place_as_planted(prompt, planted):
    assert shares(prompt) == pytest.approx(planted, abs=0.05)  # 4 standard errors of 1,500


def test_sizes_vary_and_hang_on_nobody():
    sizes = {"masculine": [], "feminine": []}
    for scene in scenes(PAIR.format("doctor", "nurse"), 600):
        for person, place in zip(scene.people, scene.places, strict=True):
            sizes[person.gender].append(place.scale)
    assert np.log(np.mean(sizes["masculine"]) / np.mean(sizes["feminine"])) == pytest.approx(0, abs=0.02)
    assert len(set(sizes["masculine"])) > 5


def test_elsewhere_and_in_other_conditions_nothing_hangs_on_the_place():
    for prompt, condition in ((PAIR.format("lawyer", "clerk"), "fair"), (PAIR.format("pilot", "cook"), PEOPLE)):
        drawn = [scene.people[0].gender for scene in scenes(prompt, 1000, condition)]
        assert drawn.count("masculine") / 1000 == pytest.approx(0.5, abs=0.07)
