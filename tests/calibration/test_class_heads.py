"""The heads that read ten skin tones and three age groups: right on renders that nobody learned from."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from scipy.stats import chisquare

from bias_core.errors import InvalidInput, StorageError
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.world.balanced import balanced_person, random_look
from bias_core.world.class_heads import CLASSES, class_of, class_rates, count_errors, load_head
from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene
from bias_core.world.render import render
from bias_core.world.scene import Scene
from bias_core.world.shapes import ASSETS

HELD_OUT = ASSETS / "clip" / "held_out.npz"


@pytest.mark.parametrize(("name", "right"), [("skin tone", 0.975), ("age group", 0.999)])
def test_a_head_reads_held_out_pictures_and_says_where_nothing_can_be_told(name, right):
    head = load_head(name)
    errors, counts = head.errors, np.array(head.errors.counts)
    np.testing.assert_array_equal(counts, count_errors(name, head.weights, head.bias, HELD_OUT))
    assert counts.sum() == 4000
    assert np.trace(counts) / counts.sum() > right
    assert errors.classes[-1] == "cannot tell"
    assert counts[-1, -1] / counts[-1].sum() > 0.99  # things and pairs
    told = counts[:-1, :-1]
    assert np.abs(np.subtract.outer(*[np.arange(len(told))] * 2))[told > 0].max() <= 1  # never two classes off


def test_the_errors_that_are_shipped_are_those_of_new_pictures_too(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True))
    rng = Random("unseen")
    scenes = [Scene(people=(balanced_person(rng, random_look(rng)),)) for _ in range(60)]
    rows = services.encoder("calibration-clip").encode_images([render(scene) for scene in scenes])
    for name in CLASSES:
        head = services.class_head("calibration-clip", "calibration-renderer", name)
        right = head.read(rows) == [class_of(scene, name) for scene in scenes]
        assert right.mean() > 0.9
    assert services.class_head("calibration-clip", "stabilityai/stable-diffusion-xl-base-1.0", "skin tone") is None
    services.close()


def test_nothing_is_told_of_people_seen_from_behind(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True))
    rng = Random("behind")
    scenes = [Scene(people=(balanced_person(rng, random_look(rng)).from_behind(),)) for _ in range(60)]
    rows = services.encoder("calibration-clip").encode_images([render(scene, 128) for scene in scenes])
    for name, (_, values) in CLASSES.items():
        assert {class_of(scene, name) for scene in scenes} == {len(values)}
        assert (
            services.class_head("calibration-clip", "calibration-renderer", name).read(rows) == len(values)
        ).mean() > 0.95
    services.close()


@pytest.mark.parametrize(
    "prompt", ["a photo of a CEO", "a photo of a student", "a photo of a dark-skinned CEO", "a girl"]
)
def test_planted_tones_and_ages_are_drawn_and_nothing_else_changes(prompt):
    request = parse(prompt)
    fair, toned = ([sample_scene(request, one, Random(i)) for i in range(800)] for one in ("fair", "tones"))
    for name, (attribute, values) in CLASSES.items():
        planted = class_rates(prompt, "tones", name)
        assert sum(planted) == pytest.approx(1)
        drawn = [getattr(scene.people[0], attribute) for scene in toned]
        counts = np.array([drawn.count(value) for value in values])
        possible = np.array(planted) > 0
        assert not counts[~possible].any()
        assert possible.sum() == 1 or chisquare(counts[possible], 800 * np.array(planted)[possible]).pvalue > 1e-4
    same = {"skin": 1, "age": "young"}
    assert [replace(s, people=(replace(s.people[0], **same),)) for s in fair] == [
        replace(s, people=(replace(s.people[0], **same),)) for s in toned
    ]


def test_tones_are_shifted_seed_by_seed():
    request = parse("a photo of a CEO")
    pairs = [
        [sample_scene(request, condition, Random(i)).people[0].skin for condition in ("fair", "tones")]
        for i in range(300)
    ]
    assert all(toned <= fair for fair, toned in pairs)


def test_a_head_refuses_embeddings_of_another_encoder_and_a_broken_file(tmp_path):
    with pytest.raises(InvalidInput, match="128 numbers"):
        load_head("age group").read(np.ones((2, 512)))
    (tmp_path / "age_group.npz").write_bytes(b"nothing")
    with pytest.raises(StorageError, match="age group"):
        load_head("age group", tmp_path)
