"""T2IAT where nothing is planted, on real renders: p is below .05 in no more than one test in twenty."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bias_core.metrics.association import association_test
from bias_core.studies.association.tests import size_note
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.checklist import outlook
from bias_core.studies.running.run import complete, plan_study, run_study, with_options
from tests import shared

services = shared.real_services

DESIGN = find_design("t2iat-tests")


def read(services, test, n):
    """``n`` pictures of every prompt of a test where nothing is planted, drawn and read once: rows by their names."""
    design, settings = replace(DESIGN, images_per_prompt=n), StudySettings(condition="fair", options={"tests": [test]})
    report = complete(run_study(design, settings, services))
    frame, encoder = report.pictures, services.encoder("calibration-clip")
    rows = services.embeddings.images(encoder, [report.stored[i] for i in frame["image_id"]])
    return {names: rows[places] for names, places in frame.groupby(["side", "stimulus", "set"]).indices.items()}


def false_alarms(pool, n_prompts, *, n_images, n_tests, mixed, seed=0):
    """Share of tests with p < .05 of prompts and pictures chosen anew; ``mixed``: words of both concepts at random."""
    rng, alarms = np.random.default_rng(seed), 0
    words = {side: sorted({names[:2] for names in pool if names[0] == side}) for side in "xy"}
    every = [*words["x"], *words["y"]]
    for _ in range(n_tests):
        both = [every[i] for i in rng.permutation(len(every))[: 2 * n_prompts]]
        sides = [both[:n_prompts], both[n_prompts:]]
        if not mixed:
            sides = [[words[side][i] for i in rng.permutation(len(words[side]))[:n_prompts]] for side in "xy"]
        (x, xa, xb), (y, ya, yb) = (
            [
                np.concatenate([rng.permutation(pool[(*word, kind)])[:n_images] for word in side])
                for kind in ("neutral", "a", "b")
            ]
            for side in sides
        )
        groups = np.repeat(np.arange(n_prompts), n_images)
        prompts = {"groups_x": groups, "groups_y": groups, "attribute_groups": [groups] * 4}
        alarms += association_test(x, y, xa, xb, ya, yb, **prompts, rng=rng).p_value < 0.05
    return alarms / n_tests


def most(n_tests):
    """5 % and two standard errors."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_tests)


@pytest.mark.slow
def test_where_nothing_is_planted_science_and_arts_are_seldom_told_apart(services):
    pool = read(services, "science_arts", 6)
    for n_prompts in (3, 4, 8):
        found = false_alarms(pool, n_prompts, n_images=4, n_tests=150, mixed=True)
        assert found <= most(150), n_prompts
        assert found == 0 or n_prompts > 3  # three against three give 0.10 at best


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [4, 9, 25])
@pytest.mark.parametrize("mixed", [False, True])
def test_where_nothing_is_planted_p_is_below_a_twentieth_in_one_test_of_twenty(flowers, n_prompts, mixed):
    assert false_alarms(flowers, n_prompts, n_images=6, n_tests=300, mixed=mixed, seed=2) <= most(300)


@pytest.fixture(scope="module")
def flowers(services):
    return read(services, "flowers_insects", 12)


def test_the_smallest_p_of_few_prompts_is_said_before_anything_is_drawn(services):
    few = StudySettings(scale=0.01, options={"tests": ["science_arts"]})
    assert size_note(DESIGN, with_options(DESIGN, few)) == "with 4 against 4 prompts p is 0.029 at best"
    assert "pictures (with 4 against 4 prompts p is 0.029 at best) with" in outlook(
        plan_study(DESIGN, few, services, estimate=True), services
    )
    several = StudySettings(options={"tests": ["science_arts", "flowers_insects"]})
    assert (
        size_note(DESIGN, with_options(DESIGN, several)) == "with 25 against 25 prompts p is 0.0010 at best in one test"
    )
