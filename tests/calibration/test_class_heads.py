"""The heads that read ten skin tones and three age groups: right on renders that nobody learned from."""

from random import Random

import numpy as np
import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.world.balanced import balanced_person, random_look
from bias_core.world.class_heads import CLASSES, class_of, load_head
from bias_core.world.render import render
from bias_core.world.scene import Scene
from bias_core.world.shapes import ASSETS

HELD_OUT = ASSETS / "clip" / "held_out.npz"


@pytest.mark.parametrize(("name", "right"), [("skin tone", 0.975), ("age group", 0.999)])
def test_a_head_reads_held_out_pictures_and_says_where_nothing_can_be_told(name, right):
    errors = load_head(name, HELD_OUT).errors
    counts = np.array(errors.counts)
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


def test_a_head_refuses_embeddings_of_another_encoder_and_a_broken_file(tmp_path):
    with pytest.raises(InvalidInput, match="128 numbers"):
        load_head("age group", HELD_OUT).read(np.ones((2, 512)))
    (tmp_path / "age_group.npz").write_bytes(b"nothing")
    with pytest.raises(StorageError, match="age group"):
        load_head("age group", HELD_OUT, tmp_path)
