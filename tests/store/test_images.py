"""The store of pictures: whole files or none, found by id, evicted with care; pixels are told apart from records."""

import errno
import io
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import StorageError
from bias_core.store.images import ImageStore, encode_png, pixel_digest
from bias_core.types import GeneratedImage, ImageRow


def drawn(seed: int, size: int = 16, **extra) -> GeneratedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    row = ImageRow(prompt="a photo of a médecin 医生", seed=seed, model="m", revision="r1", condition="fair")
    return GeneratedImage(row=row, image=Image.fromarray(pixels), **extra)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def find(store: ImageStore, *items: GeneratedImage):
    return store.find({item.row.id: item.row for item in items})


def test_pixels_truth_and_blocked_come_back(store):
    picture = drawn(1, truth={"gender": "feminine", "skin": 3, "glasses": True}, blocked=True)
    assert find(store, picture) == {}
    with pytest.raises(StorageError, match="not in the store"):
        store.get(picture.row)
    (stored,) = store.add([picture])
    again = store.get(picture.row)
    assert again == stored
    assert again.truth == {"gender": "feminine", "skin": 3, "glasses": True}
    assert again.blocked
    with Image.open(again.path) as opened:
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(picture.image))


def test_the_png_says_what_it_is_to_any_reader(store):
    (stored,) = store.add([drawn(7)])
    with Image.open(stored.path) as opened:
        opened.load()
        text = opened.text
    assert text["prompt"] == "a photo of a médecin 医生"
    assert (text["seed"], text["model"], text["revision"], text["condition"]) == ("7", "m", "r1", "fair")
    assert '"guidance_scale": 0.0' in text["settings"]


DAMAGE = ("truncated", "flipped", "empty", "not a png", "someone else's png", "of another id", "other pixels")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_counts_as_absent_and_is_removed(store, damage):
    whole, hurt = drawn(1), drawn(2)
    _, stored = store.add([whole, hurt])
    data = stored.path.read_bytes()
    middle = len(data) // 2
    changed = {
        "truncated": data[:-20],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "not a png": b"hello",
        "of another id": encode_png(drawn(3)),
        "other pixels": _with_other_pixels(data),
    }
    if damage in changed:
        stored.path.write_bytes(changed[damage])
    else:
        hurt.image.save(stored.path)
    assert list(find(store, whole, hurt)) == [whole.row.id]
    assert not stored.path.exists()
    assert [hurt.row.id in line for line in store._repairs.since(0)] == [True]


def _with_other_pixels(data):
    """The file as a program writes it that changes a picture and keeps what it does not know."""
    with Image.open(io.BytesIO(data)) as image:
        text, size = image.text, image.size
    info = PngInfo()
    for name, value in text.items():
        info.add_itxt(name, value)
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, "PNG", pnginfo=info)
    return buffer.getvalue()


def test_the_least_recently_used_go_first_and_protected_ones_never(store):
    pictures = [drawn(seed) for seed in range(5)]
    paths = [stored.path for stored in store.add(pictures)]
    for age, path in enumerate(paths):
        os.utime(path, (1000 + age, 1000 + age))
    find(store, pictures[1])  # used just now
    size = store.n_bytes // 5
    removed = store.evict(2 * size + size // 2, protected={pictures[0].row.id})
    assert removed == [pictures[2].row.id, pictures[3].row.id, pictures[4].row.id]
    assert store.n_bytes == sum(path.stat().st_size for path in paths if path.exists())
    assert paths[0].exists()
    assert paths[1].exists()


def test_a_full_disk_leaves_nothing_half_written(store, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.add([drawn(1)])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="the disk is full"):
        store.add([drawn(2)])
    monkeypatch.undo()
    assert [path.suffix for path in store.folder.rglob("*") if path.is_file()] == [".png"]
    assert list(find(store, drawn(1), drawn(2))) == [drawn(1).row.id]


def test_many_pictures_are_found_at_once(store):
    pictures = [drawn(seed, size=8) for seed in range(500)]
    store.add(pictures)
    rows = {item.row.id: item.row for item in pictures}
    started = time.process_time()  # others may keep the machine busy
    assert len(store.find(rows)) == 500
    assert time.process_time() - started < 0.25  # 2,000 in a second


WRITER = """
import sys
from pathlib import Path
from bias_core.store.images import ImageStore
from bias_core.store.images import encode_png
from tests.store.test_images import drawn
store = ImageStore(Path(sys.argv[1]))
for _ in range(4):
    store.add([drawn(seed) for seed in range(40)])
"""


def test_several_processes_write_the_same_pictures_at_once(store):
    expected = ImageStore(store.folder.parent / "alone")
    expected.add([drawn(seed) for seed in range(40)])
    command = [sys.executable, "-c", WRITER, str(store.folder)]
    root = Path(__file__).parent.parent.parent
    for writer in [subprocess.Popen(command, cwd=root) for _ in range(2)]:
        assert writer.wait(timeout=60) == 0
    bytes_of = [{p.name: p.read_bytes() for p in s.folder.glob("??/*")} for s in (store, expected)]
    assert bytes_of[0] == bytes_of[1]  # and no half-written file beside them


def test_a_picture_of_another_process_is_counted_and_a_missing_one_refused(store):
    assert store.n_bytes == 0
    (theirs,) = ImageStore(store.folder).add([drawn(1)])
    assert store.adopt(theirs) == theirs
    assert store.n_bytes == theirs.path.stat().st_size
    assert store.n_present([drawn(1).row.id, drawn(2).row.id]) == 1
    theirs.path.unlink()
    with pytest.raises(StorageError, match=r"share one data folder \(BIAS_DATA_DIR\)"):
        store.adopt(theirs)


def test_what_killed_writers_left_goes_a_day_later(store):
    (kept,) = store.add([drawn(1)])
    old, fresh = (kept.path.with_name(f".{name}.png.tmp") for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    store.evict(0, protected={kept.row.id})
    assert kept.path.exists()
    assert fresh.exists()
    assert not old.exists()


NURSE = ImageRow(
    prompt="a nurse", group="g", seed=3, model="m", revision="r", condition="fair",
    num_inference_steps=1, guidance_scale=1.0, width=5, height=3,
)  # fmt: skip


def coloured(colour, **changes):
    return encode_png(GeneratedImage(row=replace(NURSE, **changes), image=Image.new("RGB", (5, 3), colour), truth=None))


def test_equal_pixels_under_other_settings_have_one_digest_and_others_do_not():
    assert coloured("red") != coloured("red", condition="trigger")
    assert pixel_digest(coloured("red")) == pixel_digest(coloured("red", condition="trigger"))
    assert pixel_digest(coloured("red")) != pixel_digest(coloured("blue"))


def test_a_cut_file_has_no_digest():
    with pytest.raises(StorageError, match="truncated"):
        pixel_digest(coloured("red")[:-5])
