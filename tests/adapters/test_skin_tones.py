"""Skin tones by a package of others: what it can tell, what it cannot, and that it asks nobody."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from bias_core.adapters.readers import skin_tones
from bias_core.adapters.readers.skin_tones import INSTALL, SkinToneClassifier
from bias_core.errors import InvalidInput
from bias_core.protocols import ReadsScale
from bias_core.scales import CANNOT_TELL, load_scales

PHOTOGRAPH = Path(mpl.get_data_path()) / "sample_data" / "grace_hopper.jpg"  # of the US Navy, in the public domain
TONES = "skin tone"


@pytest.fixture(scope="module")
def reader():
    pytest.importorskip("stone", reason=f"NOT TESTED: the reader of skin tones: {INSTALL}")
    return SkinToneClassifier()


@pytest.fixture(scope="module")
def photograph():
    return Image.open(PHOTOGRAPH).convert("RGB")


def darker(picture, gamma):
    return Image.fromarray(np.uint8(255 * (np.asarray(picture) / 255.0) ** gamma))


def test_a_darker_photograph_of_the_same_face_is_never_read_as_lighter(reader, photograph):
    assert isinstance(reader, ReadsScale)
    pictures = [darker(photograph, gamma) for gamma in (0.4, 1.0, 2.0, 3.0)]
    tones = reader.answer(pictures, [TONES] * 4)
    assert set(tones) <= set(load_scales()[TONES].levels)
    assert [*map(int, tones)] == sorted(map(int, tones))
    assert int(tones[0]) < int(tones[-1])
    assert reader.answer(pictures, [TONES] * 4) == tones


@pytest.mark.parametrize("kind", ["no face", "black", "grey"])
def test_of_what_shows_no_face_in_colour_nothing_can_be_told(reader, photograph, kind):
    pictures = {
        "no face": photograph.crop((0, 0, 120, 120)),
        "black": Image.new("RGB", (128, 128)),
        "grey": photograph.convert("L").convert("RGB"),
    }
    assert reader.answer([pictures[kind]], [TONES]) == [CANNOT_TELL]


def test_it_reads_one_scale_and_no_pictures_are_no_answers(reader, photograph):
    assert reader.answer([], []) == []
    with pytest.raises(InvalidInput, match="reads skin tone alone, got 'age group'"):
        reader.answer([photograph], ["age group"])


def test_its_import_asks_no_server_for_a_newer_version(reader, monkeypatch):
    import requests
    import stone.utils

    asked = []
    monkeypatch.setattr(requests, "get", asked.append)
    reader.fetch()
    stone.utils.check_version()  # what its import does
    assert asked == []
    monkeypatch.delenv("STONE_UPGRADE_FLAG")
    stone.utils.check_version()
    assert asked == ["https://pypi.org/pypi/skin-tone-classifier/json"]  # what it would do without us


def test_where_it_is_missing_or_opencv_too_new_the_command_is_named(reader, monkeypatch):
    new = SkinToneClassifier()
    monkeypatch.delattr("cv2.CascadeClassifier")
    with pytest.raises(InvalidInput, match=r"finds no faces by cascades; pip install skin-tone-classifier \"opencv"):
        new.fetch()

    def nowhere(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(skin_tones, "version", nowhere)
    with pytest.raises(InvalidInput, match=r"GPL-3\.0.* is not installed; pip install skin-tone-classifier"):
        SkinToneClassifier()
