"""The table of planted rates is what the scenes are drawn from, and every line can be read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from scipy.stats import binomtest

from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene
from bias_core.world.truth import planted_lines, prompts_of

if TYPE_CHECKING:
    from bias_core.types import PlantedLine
from tests.every import every

LINES = list(planted_lines())


def test_every_planted_rate_has_its_line() -> None:
    assert len(LINES) == 280
    assert {line.published for line in LINES if line.concept == "iranian" and line.attribute == "gender"} == {0.98}


@every([(line, condition) for line in LINES[::9] for condition in ("fair", "published", "extreme")])
def test_scenes_are_drawn_at_the_rate_of_the_line(line: PlantedLine, condition: str) -> None:
    rng, n, shown = Random(f"{line.concept} {condition}"), 1200, 0
    requests = [parse(prompt) for prompt in line.prompts]
    for i in range(n):
        scene = sample_scene(requests[i % len(requests)], condition, rng)
        found = scene.light if line.attribute == "light" else getattr(scene.people[0], line.attribute)
        shown += found == line.value
    assert binomtest(shown, n, line.rates[condition]).pvalue > 1e-5


def test_the_sentences_of_a_line_are_each_others_opposite() -> None:
    for positive, negative in {(line.positive, line.negative) for line in LINES}:
        assert not parse(positive).unknown_words
        assert not parse(negative).unknown_words


def test_prompts_of_a_group_are_its_stimuli() -> None:
    assert len(prompts_of("flowers")) == 25
    assert prompts_of("nurse", "single") == ["Generate a picture of one nurse."]
