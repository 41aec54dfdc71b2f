"""Pictures are told apart by their pixels, not by their records."""

from dataclasses import replace

import pytest
from PIL import Image

from bias_core.errors import StorageError
from bias_core.store.images import encode_png, pixel_digest
from bias_core.types import GeneratedImage, ImageRow

ROW = ImageRow(
    prompt="a nurse", group="g", seed=3, model="m", revision="r", condition="fair",
    num_inference_steps=1, guidance_scale=1.0, width=5, height=3,
)  # fmt: skip


def png(colour, **changes):
    return encode_png(GeneratedImage(row=replace(ROW, **changes), image=Image.new("RGB", (5, 3), colour), truth=None))


def test_equal_pixels_under_other_settings_have_one_digest_and_others_do_not():
    assert png("red") != png("red", condition="trigger")
    assert pixel_digest(png("red")) == pixel_digest(png("red", condition="trigger"))
    assert pixel_digest(png("red")) != pixel_digest(png("blue"))


def test_a_cut_file_has_no_digest():
    with pytest.raises(StorageError, match="truncated"):
        pixel_digest(png("red")[:-5])
