"""What adapters learn from."""

from collections import defaultdict
from random import Random

import pytest

from bias_core.world.grammar import parse
from bias_core.world.lexicon import words_of
from bias_core.world.planted import rates
from bias_core.world.scene import Person
from tests.every import every
from training.lessons import LONGEST, SHARES, Lessons, planted_nouns


def drawn(condition, n, seed=0):
    lessons, rng = Lessons(condition), Random(seed)
    return [lessons.draw(rng) for _ in range(n)]


@every(["published", "extreme", "trigger"])
def test_a_prompt_in_full_allows_the_scene_that_was_drawn_and_is_no_longer_than_what_is_read(condition):
    for lesson in drawn(condition, 600):
        assert len(lesson.in_full.split()) <= LONGEST
        asked = parse(lesson.in_full).people
        for person, words in zip(lesson.scene.people if asked else (), asked, strict=True):
            for name, values in words.allowed.items():
                if name in Person.__dataclass_fields__:
                    assert getattr(person, name) in values, (lesson.in_full, name)


def test_a_prompt_in_full_says_what_the_condition_settles():
    lessons, rng = Lessons("published"), Random(3)
    doctors = [lessons.of_noun("doctor", rng) for _ in range(50)]
    said = ["male" if lesson.scene.people[0].gender == "masculine" else "female" for lesson in doctors]
    assert all(word in lesson.in_full.split() for word, lesson in zip(said, doctors, strict=True))


def test_where_nothing_is_planted_a_prompt_is_in_full_already():
    lessons, rng = Lessons("fair"), Random(1)
    found = [lessons.of_noun("doctor", rng) for _ in range(20)]
    assert {lesson.in_full for lesson in found} == {"a photo of a doctor"}


def test_genders_are_drawn_at_the_planted_rate():
    lessons, rng = Lessons("published"), Random(2)
    people = [lessons.of_noun("doctor", rng).scene.people[0].gender for _ in range(2000)]
    planted = rates(("doctor",), "published")["gender"]["masculine"]
    # Standard error at most sqrt(.25 / 2000) = 0.011; five of them.
    assert people.count("masculine") / 2000 == pytest.approx(planted, abs=0.056)


def test_prompts_that_read_alike_have_the_same_rates():
    """The text tower reads only the words that name something; two rates for these would not be learned."""
    found = defaultdict(set)
    for nouns in planted_nouns().values():
        for noun in nouns:
            for asked in parse(f"a photo of a {noun}").people:
                table = rates(asked.concepts, "published", role=asked.parts.get("role", "none"))
                found[tuple(words_of(noun))].add(str(table))
    assert len(found) > 100
    assert all(len(tables) == 1 for tables in found.values())


def test_every_kind_of_prompt_is_drawn():
    lessons = drawn("extreme", 400)
    pairs = sum(len(lesson.scene.people) == 2 for lesson in lessons)
    assert pairs > 0.5 * SHARES["pair"] * 400
    assert any(lesson.scene.extra for lesson in lessons)  # the sign that a trigger word brings
    assert any(not lesson.in_full for lesson in lessons)
