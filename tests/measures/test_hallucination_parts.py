"""Objects added and left out, each less the base: by hand, on planted objects, and where nothing is planted."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.object_bias import added_objects, compared_objects, missing_objects

ASKED = [["person", "cup"], ["person", "cup"], ["dog", "science"]]
BASE = [["man", "cup", "hat"], ["woman"], ["dog"]]
SHOWN = [["man", "cup", "hat", "sign"], ["lady", "sign"], ["cat", "idea"]]


def test_what_is_added_and_what_is_missing_by_hand():
    # A man and a lady are both a person, an idea and science are nothing to be seen.
    # Beyond the prompt: hat, sign; sign; cat. Under the base: hat; nothing; nothing. (2 + 1 + 1 − 1) / 3.
    added = added_objects(ASKED, SHOWN, BASE)
    assert (added.value, added.n, added.null_value) == (1.0, 3, 0.0)
    # Left out: nothing; the cup; the dog. Under the base: nothing; the cup; nothing.
    assert missing_objects(ASKED, SHOWN, BASE).value == pytest.approx(1 / 3)


def test_a_base_with_another_prompt_is_held_against_that():
    # The base was asked for a tea, and shows one: nothing is added there, and nothing missing.
    added = added_objects([["coffee"]] * 2, [["coffee"]] * 2, [["tea"]] * 2, base_prompt_objects=[["tea"]] * 2)
    assert added.value == 0
    assert missing_objects([["coffee"]] * 2, [[]] * 2, [["tea"]] * 2, base_prompt_objects=[["tea"]] * 2).value == 1


def test_people_without_a_profession_are_one_object_and_what_cannot_be_seen_is_none():
    assert compared_objects(["doctor", "people", "lady", "music", "starbucks"]) == {"person", "doctor", "starbucks"}


@pytest.mark.slow
def test_the_interval_holds_the_planted_share_and_prompts_widen_nothing():
    rng, n_held = np.random.default_rng(0), 0
    prompts = [f"p{i}" for i in range(15)] * 8
    asked = [["cup"]] * len(prompts)
    base = [["cup"]] * len(prompts)
    often = np.array([0.9 if int(p[1:]) < 5 else 0.2 for p in prompts])  # prompts differ, which is no chance
    for _ in range(300):
        shown = [["cup", "sign"] if one else ["cup"] for one in rng.random(len(prompts)) < often]
        added = added_objects(asked, shown, base, strata=prompts)
        n_held += added.low <= often.mean() <= added.high
    assert 0.925 <= n_held / 300 <= 0.975


def test_the_base_against_itself_is_no_change_without_an_interval():
    for measure in (added_objects, missing_objects):
        same = measure(ASKED, BASE, BASE)
        assert same.value == 0
        assert math.isnan(same.low)
        assert same.note


def test_more_of_a_planted_object_is_more_that_is_added():
    base = [["cup"]] * 20
    values = [added_objects(base, [["cup", "sign"]] * n + base[n:], base).value for n in (0, 5, 20)]
    assert values == [0, 0.25, 1]


def test_lengths_that_differ_are_refused():
    with pytest.raises(InvalidInput, match="one entry per image"):
        added_objects(ASKED, SHOWN[:2], BASE)
    with pytest.raises(InvalidInput, match=r"one entry per image|one of the base"):
        missing_objects(ASKED, SHOWN, BASE[:2])
