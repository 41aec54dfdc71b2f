"""Several people: who is asked for where, what hangs on that, and that each of them is found again."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.adapters.readers.drawn_faces import boxes_of_faces
from bias_core.errors import InvalidInput
from bias_core.types import ImageRow
from bias_core.world.grammar import parse, satisfies
from bias_core.world.render import render
from bias_core.world.scene import PLACES, Person, Place, Scene
from bias_core.world.several import PEOPLE, PlantedPeople

PAIR = "Generate a picture of one {} on the left and one {} on the right."
FIVE = "a photo of an engineer, a chef, a nurse, a guard and a pilot"


def scenes(prompt: str, n: int = 1, condition: str = PEOPLE) -> list[Scene]:
    return [
        scene_of(ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=k)) for k in range(n)
    ]


@pytest.mark.parametrize(
    ("prompt", "names", "acts"),
    [
        ("a doctor, a nurse and a patient", ["doctor", "nurse", "patient"], ["", "", ""]),
        ("photo of a CEO, a secretary and a janitor", ["ceo", "secretary", "janitor"], ["", "", ""]),
        ("one cook on the left, one nurse in the middle and one guard on the right",
         ["cook", "nurse", "guard"], ["", "", ""]),
        (FIVE, ["engineer", "chef", "nurse", "guard", "pilot"], [""] * 5),
        ("a doctor examining a patient", ["doctor", "patient"], ["acting", "served"]),
        ("one guest on the left served by one cook on the right", ["guest", "cook"], ["served", "acting"]),
    ],
)  # fmt: skip
def test_people_stand_from_left_to_right_as_they_are_named_and_act_as_the_verb_says(prompt, names, acts) -> None:
    request = parse(prompt)
    assert [" ".join(person.concepts) for person in request.people] == names
    assert ([person.act for person in request.people], request.unknown_words) == (acts, ())
    (scene,) = scenes(prompt)
    assert satisfies(scene, request)
    assert len(scene.places) == len(names)
    assert [place.centre for place in scene.places] == sorted(place.centre for place in scene.places)
    truth = scene.truth()
    assert [truth[f"{side}_act"] for side in PLACES[len(names)]] == acts


@pytest.mark.parametrize(
    "prompt", ["a doctor and a nurse", "a rose, a tulip and a lily", "a woman, smiling", "a man serving a pizza"]
)
def test_other_lists_and_verbs_are_read_as_before(prompt: str) -> None:
    assert len(parse(prompt).people) < 2
    assert not scenes(prompt)[0].places


def drawn_as(prompts: Sequence[str], conditions: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for prompt, condition in product(prompts, conditions):
        for scene in scenes(prompt, 3, condition):
            digest.update(render(scene, 64).tobytes())
    return digest.hexdigest()


def test_pictures_of_prompts_that_were_known_before_stay_bit_for_bit() -> None:
    known = (
        PAIR.format("doctor", "nurse"),
        "a doctor and a nurse",
        "a photo of a couple",
        "a man serving a pizza",
        "an image of a nurse treating a patient",
    )
    planted = (  # what is planted for some people leaves the pictures of others as they were
        *(PAIR.format(*two) for two in (("doctor", "nurse"), ("clerk", "lawyer"), ("manager", "secretary"))),
        "one student on the left taught by one teacher on the right",
        PAIR.format("ceo", "assistant"),
        "a nurse, a doctor and a patient",
        "a photo of a CEO, a secretary and a janitor",
        PAIR.format("pilot", "cook"),
    )
    first = "61834e43342c1f8ff2090f54934fa05e9b35beb411edf9fd4a5ff73a00ccc162"
    assert drawn_as(known, ("fair", "published", "crossed")) == first
    assert drawn_as(planted, (PEOPLE,)) == "a009e59eb8287a8c1313b77c4f569b70c471bab418766b07fac197a408ea71ad"


def shares(prompt: str, n: int = 1500) -> list[float]:
    drawn = scenes(prompt, n)
    return [float(np.mean([one.people[k].gender == "masculine" for one in drawn])) for k in range(len(drawn[0].people))]


@pytest.mark.parametrize(
    ("prompt", "planted"),
    [
        (PAIR.format("doctor", "nurse"), [0.7, 0.3]),  # the role alone: wherever it stands
        (PAIR.format("nurse", "doctor"), [0.3, 0.7]),
        (PAIR.format("lawyer", "clerk"), [0.7, 0.3]),  # the place alone: whoever stands there
        (PAIR.format("clerk", "lawyer"), [0.7, 0.3]),
        ("one student on the left taught by one teacher on the right", [0.3, 0.7]),  # who acts alone
        ("one student on the left teaching one teacher on the right", [0.7, 0.3]),
        (PAIR.format("manager", "secretary"), [0.5, 0.5]),
        # role and place: 0.5 - 0.2 - 0.1, 0.5 + 0.15 + 0.2, 0.5 - 0.1
        ("a nurse, a doctor and a patient", [0.2, 0.85, 0.4]),
    ],
)
def test_shares_hang_on_role_place_and_act_as_planted(prompt, planted) -> None:
    assert shares(prompt) == pytest.approx(planted, abs=0.05)  # 4 standard errors of 1,500


def test_only_where_it_is_planted_masculine_people_are_larger() -> None:
    def log_ratio(prompt: str) -> float:
        sizes = {"masculine": [], "feminine": []}
        for scene in scenes(prompt, 600):
            for person, place in zip(scene.people, scene.places, strict=True):
                sizes[person.gender].append(place.scale)
        return float(np.log(np.mean(sizes["masculine"]) / np.mean(sizes["feminine"])))

    assert log_ratio(PAIR.format("manager", "secretary")) == pytest.approx(np.log(1.12 / 0.88), abs=0.02)
    assert log_ratio(PAIR.format("doctor", "nurse")) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(
    ("pair", "planted"),
    [(("leader", "employee"), 2), (("professor", "librarian"), 0), (("farmer", "baker"), 0)],  # the last ones larger
)
def test_masculine_people_stand_nearer_to_the_middle_where_it_is_planted_and_nobody_is_cut_off(pair, planted) -> None:
    inward: dict[str, list[int]] = {"masculine": [], "feminine": []}
    for scene in scenes(PAIR.format(*pair), 600):
        for person, place in zip(scene.people, scene.places, strict=True):
            inward[person.gender].append(128 - abs(128 - place.centre))
            left, _, right, _ = place.box(person.age)
            assert 0 < left < right < 256
        assert scene.places[1].centre - scene.places[0].centre > 90
    spread = range(74 - 6, 74 + 7, 2)  # 16 nearer than 58, and 6 to either side
    assert set(inward["masculine"]) == {one + planted for one in spread}
    assert set(inward["feminine"]) == {one - planted for one in spread}
    # Standard deviation 4, so five standard errors of the difference are 1.2.
    assert np.mean(inward["masculine"]) - np.mean(inward["feminine"]) == pytest.approx(2 * planted, abs=1.2)


def test_others_stand_at_the_same_distance_and_what_is_planted_is_what_128_pixels_show() -> None:
    assert {place.centre for scene in scenes(PAIR.format("manager", "secretary"), 50) for place in scene.places} == {
        58,
        198,
    }
    nothing = {"role": {}, "position": {}, "act": {}, "size": 0.0}
    for who, nearness in ((("cook", "guard"), 3), (("cook", "guard", "pilot"), 2)):
        with pytest.raises(InvalidInput, match="even number of pixels, for two people"):
            PlantedPeople(who=who, nearness=nearness, **nothing)


def test_elsewhere_and_in_other_conditions_nothing_hangs_on_the_place() -> None:
    for prompt, condition in ((PAIR.format("lawyer", "clerk"), "fair"), (PAIR.format("pilot", "cook"), PEOPLE)):
        drawn = [scene.people[0].gender for scene in scenes(prompt, 1000, condition)]
        assert drawn.count("masculine") / 1000 == pytest.approx(0.5, abs=0.07)


def test_who_acts_holds_out_an_arm() -> None:
    (scene,) = scenes("a doctor examining a patient")
    idle = replace(scene, places=tuple(replace(place, act="") for place in scene.places))
    changed = np.abs(np.asarray(render(scene)).astype(int) - np.asarray(render(idle))).max(axis=2) > 40
    assert 40 <= changed.sum() <= 800


@pytest.mark.parametrize(
    "prompt",
    [
        PAIR.format("manager", "secretary"),
        PAIR.format("leader", "employee"),
        "a doctor examining a patient",
        "a doctor, a nurse and a patient",
        FIVE,
    ],
)
def test_everybody_is_found_from_left_to_right_with_a_box_of_the_right_size(prompt: str) -> None:
    drawn, n = scenes(prompt, 12), len(parse(prompt).people)
    found = [boxes_of_faces(render(scene, 128)) for scene in drawn]
    assert Counter(map(len, found))[n] >= 11
    for scene, boxes in zip(drawn, found, strict=True):
        if len(boxes) == n:
            recorded = [np.array(place.box()) / 2 for place in scene.places]
            assert np.abs(np.array(boxes) - recorded).max() <= 2  # of 128 pixels


def test_glasses_under_the_brim_of_a_sombrero_are_seen() -> None:
    sizes = (0.515625, 0.6875)
    places = tuple(Place(centre=centre, scale=size, depth=6) for centre, size in zip((58, 198), sizes, strict=True))
    for gender in ("feminine", "masculine"):
        hidden = Person(gender=gender, glasses=True, headwear="sombrero")
        for people in ((hidden, Person()), (Person(glasses=True), hidden), (hidden, hidden)):
            boxes = boxes_of_faces(render(Scene(people=people, places=places), 256))
            assert boxes == [place.box() for place in places]


@pytest.mark.parametrize("prompt", [PAIR.format("doctor", "nurse"), "a photo of a nurse", "a photo of a burger"])
def test_pictures_of_one_or_of_two_who_stand_alike_are_left_to_the_reader(prompt: str) -> None:
    assert not any(boxes_of_faces(render(scene, 128)) for scene in scenes(prompt, 8, "fair"))
