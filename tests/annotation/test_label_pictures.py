import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.task_owner import delete_task, keep_picture, picture_path, read_picture
from bias_core.errors import InvalidInput, StorageError
from bias_core.store.images import encode_png
from bias_core.types import GeneratedImage, ImageRow
from tests.annotation.raters import open_task
from tests.runs.test_imports import chunk


def noise(size=(17, 11)):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_the_pixels_stay_and_what_is_written_beside_them_goes(tmp_path):
    row = ImageRow(prompt="a photo of a SECRET nurse", seed=3, model="SECRET-model", width=17, height=11)
    original = tmp_path / "original.png"
    original.write_bytes(encode_png(GeneratedImage(row=row, image=noise(), truth={"gender": "SECRET"})))
    assert b"SECRET" in original.read_bytes()
    name = keep_picture(tmp_path / "kept", original)
    kept = picture_path(tmp_path / "kept", name)
    assert b"SECRET" not in kept.read_bytes()
    with Image.open(kept) as image:
        assert image.info == {}
        assert np.array_equal(np.asarray(image), np.asarray(noise()))


def test_the_same_pixels_are_kept_once_whatever_was_written_in_them(tmp_path):
    info = PngInfo()
    info.add_text("model", "another")
    noise().save(tmp_path / "a.png")
    noise().save(tmp_path / "b.png", pnginfo=info)
    assert keep_picture(tmp_path / "kept", tmp_path / "a.png") == keep_picture(tmp_path / "kept", tmp_path / "b.png")
    assert len(list((tmp_path / "kept").rglob("*.png"))) == 1


def test_a_photo_is_turned_upright_and_loses_where_it_was_taken(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    exif[0x010E] = "SECRET place"
    noise((20, 10)).save(tmp_path / "a.jpg", exif=exif)
    name = keep_picture(tmp_path, tmp_path / "a.jpg")
    assert b"SECRET" not in read_picture(tmp_path, name)
    with Image.open(picture_path(tmp_path, name)) as image:
        assert image.size == (10, 20)


def png_of(width, height):
    """A PNG that says it is huge, and holds nothing."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "no picture"),
        (b"GIF89a" + b"\0" * 40, "no picture"),
        (png_of(100_000, 100_000), "too large"),
        (png_of(9000, 9000), "too many"),
        (png_of(5, 5), "damaged"),
    ],
)
def test_what_is_no_usable_picture_is_refused(tmp_path, content, message):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        keep_picture(tmp_path / "kept", path)
    assert not list(tmp_path.rglob("kept/*"))


def test_a_file_that_is_too_large_is_not_even_read(tmp_path):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 60_000_000)
    with pytest.raises(InvalidInput, match="50 MB"):
        keep_picture(tmp_path, path)


def test_a_folder_or_a_missing_file_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "none.png"):
        with pytest.raises(StorageError, match=path.name):
            keep_picture(tmp_path / "kept", path)


def test_only_a_sha_names_a_picture_and_one_that_is_gone_is_said_to_be(tmp_path):
    for name in ("", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "/" + "a" * 63):
        with pytest.raises(StorageError, match="SHA-256"):
            read_picture(tmp_path, name)
    with pytest.raises(StorageError, match="missing"):
        read_picture(tmp_path, "a" * 64)


def test_pictures_of_all_tasks_have_a_limit_together(tmp_path):
    store = LabelStore("sqlite://", pictures=tmp_path / "kept")
    made = open_task(store, tmp_path / "first", 3)
    n_bytes = sum(path.stat().st_size for path in (tmp_path / "kept").rglob("*.png"))
    store.most_picture_bytes = n_bytes + 10
    with pytest.raises(InvalidInput, match=r"\(BIAS_LABEL_PICTURES_GB\), .* delete a task that is done"):
        open_task(store, tmp_path / "second", 2)
    delete_task(store, made.key)
    assert open_task(store, tmp_path / "third", 2).join_code
    store.close()
