"""The table of planted rates is what the scenes are drawn from, and every line can be read."""

from random import Random

import numpy as np
from scipy.stats import binomtest

from bias_core.world import reader_errors
from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene
from bias_core.world.reader_errors import truth_table
from bias_core.world.truth import planted_lines, prompts_of
from tests.every import every

LINES = list(planted_lines())


def test_every_planted_rate_has_its_line():
    assert len(LINES) == 280
    assert {line.published for line in LINES if line.concept == "iranian" and line.attribute == "gender"} == {0.98}


@every([(line, condition) for line in LINES[::9] for condition in ("fair", "published", "extreme")])
def test_scenes_are_drawn_at_the_rate_of_the_line(line, condition):
    rng, n, shown = Random(f"{line.concept} {condition}"), 300, 0
    requests = [parse(prompt) for prompt in line.prompts]
    for i in range(n):
        scene = sample_scene(requests[i % len(requests)], condition, rng)
        found = scene.light if line.attribute == "light" else getattr(scene.people[0], line.attribute)
        shown += found == line.value
    assert binomtest(shown, n, line.rates[condition]).pvalue > 1e-5


def test_the_sentences_of_a_line_are_each_others_opposite():
    for positive, negative in {(line.positive, line.negative) for line in LINES}:
        assert not parse(positive).unknown_words
        assert not parse(negative).unknown_words


def test_prompts_of_a_group_are_its_stimuli():
    assert len(prompts_of("flowers")) == 25
    assert prompts_of("nurse", "single") == ["Generate a picture of one nurse."]


def test_what_the_held_out_scenes_show_is_looked_up_once_for_a_sentence_and_errors_stay_the_same(monkeypatch):
    looked_up = []

    def noted(scenes, requests):
        looked_up.extend(requests)
        return truth_table(scenes, requests)

    monkeypatch.setattr(reader_errors, "truth_table", noted)
    man, woman, unknown = "a photo of a man", "a photo of a woman", "a photo of a quokka"
    pairs, seed, n, d = ((man, woman), (woman, man), (man, unknown)), 71, 211, 5
    rng = np.random.default_rng(3)
    rows, texts = rng.normal(size=(n, d)), rng.normal(size=(2 * len(pairs), d))
    first = reader_errors.errors_of_sentences(rows, seed, texts, pairs)
    assert len(looked_up) == 2  # a man, a woman
    assert reader_errors.errors_of_sentences(rows, seed, texts, pairs) == first
    assert len(looked_up) == 2
    assert reader_errors.errors_of_sentences(rows, seed + 1, texts, pairs) != first  # other scenes
    assert len(looked_up) == 2 + 2
    scenes = reader_errors.held_out_scenes(seed, n)
    alone = (
        reader_errors.sentence_errors(rows, texts[2 * i : 2 * i + 2], scenes, *pair) for i, pair in enumerate(pairs)
    )
    assert first == tuple(alone)
    assert first[0].n_positive == first[1].n_negative > 0
    assert first[2] is None  # not a word of this world
