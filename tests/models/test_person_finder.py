"""People are found from left to right, and their crops are what the reader learned to read."""

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models.encoders import TorchvisionPersonFinder
from bias_core.people import crop_people, person_halves
from bias_core.protocols import PersonFinder
from bias_core.world.grammar import book
from bias_core.world.models import CalibrationPersonFinder
from tests.every import every
from tests.models.tiny_parts import torch


class Sees:
    """An encoder to which every picture looks like one given sentence, and a little like the others."""

    name = "stub"

    def __init__(self, sentence):
        self.sentence, self.n_text_calls = sentence, 0

    def encode_texts(self, texts):
        self.n_text_calls += 1
        assert self.sentence in texts
        self.texts = list(texts)
        return np.eye(len(texts), dtype=np.float32)

    def encode_images(self, images):
        rows = np.full((len(images), len(self.texts)), 0.1, dtype=np.float32)
        rows[:, self.texts.index(self.sentence)] = 0.5
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(("sentence", "boxes"), [
    ("a photo of a person", [(0, 0, 128, 96)]),
    ("a photo of two people", [(0, 29, 64, 96), (64, 29, 128, 96)]),  # round(0.3 * 96) = 29
    (f"a photo of a {next(iter(book()['things']))}", []),
    (f"a photo of a {list(book()['things'])[-1]}", []),
])  # fmt: skip
def test_the_closest_sentence_decides(sentence, boxes):
    finder = CalibrationPersonFinder(Sees(sentence))
    assert isinstance(finder, PersonFinder)
    for _ in range(2):
        assert finder.find(Image.new("RGB", (128, 96))) == boxes
    assert finder.encoder.n_text_calls == 1  # the sentences are read once


@pytest.mark.parametrize("size", [(64, 64), (128, 128), (65, 63)])
def test_crops_of_a_pair_are_those_that_the_reader_learns(size):
    from training.clip import crop_person

    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    crops = crop_people(picture, person_halves(picture))
    for side, crop in enumerate(crops):
        assert crop.width == crop.height
        shown = crop.resize(size, Image.Resampling.BILINEAR)
        assert shown.tobytes() == crop_person(picture, side).tobytes()


def test_a_crop_is_centred_on_the_colour_of_its_outer_corner():
    picture = Image.new("RGB", (10, 6), "white")
    picture.paste("red", (0, 0, 2, 6))  # the left person's box
    picture.paste("blue", (7, 1, 10, 6))  # the right person's
    picture.putpixel((9, 1), (0, 128, 0))
    left, right = crop_people(picture, [(0, 0, 2, 6), (7, 1, 10, 6)])
    assert (left.size, right.size) == ((6, 6), (5, 5))
    assert set(left.tobytes()) == {255, 0}
    assert left.getpixel((0, 0)) == left.getpixel((2, 3)) == (255, 0, 0)
    assert right.getpixel((0, 4)) == (0, 128, 0)  # padding
    assert right.getpixel((1, 0)) == (0, 0, 255)  # 3 wide, from column 1


@every([[(0, 0, 0, 5)], [(5, 5, 4, 9)], [(-1, 0, 5, 5)], [(0, 0, 11, 5)]])
def test_boxes_outside_the_picture_are_refused(boxes):
    with pytest.raises(InvalidInput, match="10 x 10"):
        crop_people(Image.new("RGB", (10, 10)), boxes)


@pytest.fixture(scope="module")
def random_detector(tmp_path_factory):
    """SSDlite as torchvision builds it, with weights that see people everywhere, in a file."""
    from torchvision.models import get_model

    torch.manual_seed(0)
    model = get_model("ssdlite320_mobilenet_v3_large", weights=None, weights_backbone=None)
    for name, bias in model.head.classification_head.named_parameters():
        if name.endswith("bias") and len(bias) % 91 == 0:
            bias.data.view(-1, 91)[:, 1] = 2.0
    path = tmp_path_factory.mktemp("detector") / "weights.pt"
    torch.save(model.state_dict(), path)
    return str(path)


def test_a_real_detector_gives_boxes_in_the_picture_from_left_to_right(random_detector):
    finder = TorchvisionPersonFinder(
        "tiny", "ssdlite320_mobilenet_v3_large", random_detector, threshold=0.0, smallest=0.0, device="cpu"
    )
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (90, 70, 3), dtype=np.uint8))
    boxes = finder.find(picture)
    assert isinstance(finder, PersonFinder)
    assert boxes
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= 70
        assert 0 <= top < bottom <= 90
    middles = [left + right for left, _, right, _ in boxes]
    assert middles == sorted(middles)
    assert boxes == finder.find(picture.convert("RGBA"))
    assert len(crop_people(picture, boxes)) == len(boxes)


def detects(**found):
    """A finder whose detector answers ``found`` whatever the picture."""
    finder = TorchvisionPersonFinder("stub", device="cpu")
    found = {key: torch.tensor(values) for key, values in found.items()}
    finder._value = (lambda pixels: [found], "cpu")
    return finder


def test_only_people_that_are_sure_and_tall_enough_count():
    finder = detects(
        boxes=[[60.2, 10.7, 90.1, 99.0], [5.0, 5.0, 40.0, 95.0], [1.0, 1.0, 50.0, 90.0],
               [2.0, 2.0, 9.0, 90.0], [70.0, 30.0, 75.0, 40.0], [-3.0, -2.0, 30.0, 120.0]],
        labels=[1, 1, 18, 1, 1, 1],  # 18 is a dog
        scores=[0.9, 0.7, 0.99, 0.2, 0.95, 0.8],
    )  # fmt: skip
    assert finder.find(Image.new("RGB", (100, 100))) == [(0, 0, 30, 100), (5, 5, 40, 95), (60, 10, 91, 99)]


def test_missing_and_corrupt_weights_and_an_unknown_detector_are_said(tmp_path, monkeypatch):
    picture = Image.new("RGB", (20, 20))
    corrupt = tmp_path / "weights.pt"
    for content in (b"", b"no weights", b"\x80\x02}q\x00."):
        corrupt.write_bytes(content)
        with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
            TorchvisionPersonFinder("ghost", "ssdlite320_mobilenet_v3_large", str(corrupt)).find(picture)
    with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
        TorchvisionPersonFinder("ghost", "ssdlite320_mobilenet_v3_large", "/nowhere/at/all").find(picture)
    with pytest.raises(ModelUnavailable, match="no detector 'resnet50'"):
        TorchvisionPersonFinder("x", "resnet50").find(picture)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="BIAS_OFFLINE"):  # nobody is asked
        TorchvisionPersonFinder("x", offline=True).find(picture)
