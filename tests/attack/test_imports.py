"""Archives made to fill a memory, a disk or a day end in a sentence, or take what honest ones take."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.exchange import imports
from bias_core.exchange.imports import LONGEST_SIDE, ImportedImages

PROMPT = "a photo of a doctor"
MEASURED = """
import resource, sys
from pathlib import Path
from bias_core.engine.local import run_rows
from bias_core.store.images import ImageStore
from bias_core.exchange.imports import ImportedImages
import threading
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = ImportedImages(Path(sys.argv[1]))
rows = found.rows("a photo of a doctor", 100)
*_, last = run_rows(rows, found, ImageStore(Path(sys.argv[2])), lock=threading.Lock())
print(len(rows), last.done, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1000)
"""


def png(mode="RGB", size=(7000, 7000)):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def archive(tmp_path, files, **options):
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as written:
        for name, data in files:
            written.writestr(name, data)
    return path


@pytest.mark.parametrize("mode", ["P", "RGBA"])
def test_a_small_zip_of_huge_pictures_takes_little_memory(tmp_path, mode):
    data = png(mode)
    path = archive(tmp_path, [(f"{PROMPT}/{i}.png", data) for i in range(2)])
    assert path.stat().st_size < 2_000_000
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), str(tmp_path / "store")], cwd=root, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    n_rows, n_stored, megabytes = map(int, told.stdout.split())
    assert (n_rows, n_stored) == (2, 2)
    assert megabytes < 700


def test_what_is_larger_than_readers_take_is_made_smaller_and_recorded_so(tmp_path):
    sizes = {"wide": (3000, 1000), "tall": (600, 2048), "small": (640, 480)}
    files = [(f"{PROMPT}/{name}.png", png(size=size)) for name, size in sizes.items()]
    found = ImportedImages(archive(tmp_path, files))
    rows = found.rows(PROMPT, 3)
    pictures = [(p.row.width, p.row.height, p.image.size) for p in found.generate(rows)]
    assert sorted(pictures) == [
        (300, LONGEST_SIDE, (300, LONGEST_SIDE)),
        (640, 480, (640, 480)),
        (LONGEST_SIDE, 341, (LONGEST_SIDE, 341)),
    ]


def test_an_archive_is_opened_once_for_all_its_pictures(tmp_path, monkeypatch):
    opened = []

    class Counted(zipfile.ZipFile):
        def __init__(self, *args, **kwargs):
            opened.append(args)
            super().__init__(*args, **kwargs)

    path = archive(tmp_path, [(f"{PROMPT}/{i}.png", png(size=(8, 8))) for i in range(50)])
    monkeypatch.setattr(zipfile, "ZipFile", Counted)
    found = ImportedImages(path)
    assert len(list(found.generate(found.rows(PROMPT, 50)))) == 50
    assert len(opened) == 1


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "MOST_UNPACKED", 30_000_000)
    path = archive(tmp_path, [(f"{PROMPT}/{i}.bmp", bytes(10_000_000)) for i in range(4)])
    with pytest.raises(InvalidInput, match=r"would unpack to 0\.04 GB; at most 0\.03 GB .*: divide it"):
        ImportedImages(path)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "MOST_FILES", 3)
    path = archive(tmp_path, [(f"{i}.txt", b"") for i in range(4)])
    with pytest.raises(InvalidInput, match="4 files; at most 3"):
        ImportedImages(path)


def test_a_size_that_lies_is_found_and_costs_one_picture(tmp_path):
    path = archive(tmp_path, [(f"{PROMPT}/1.png", png(size=(500, 500))), (f"{PROMPT}/2.png", png(size=(9, 9)))])
    data = path.read_bytes()
    with zipfile.ZipFile(path) as read:
        true = read.getinfo(f"{PROMPT}/1.png").file_size.to_bytes(4, "little")
    path.write_bytes(data.replace(true, (20).to_bytes(4, "little")))
    found = ImportedImages(path)
    assert len(found.rows(PROMPT, 2)) == 1
    assert found.rejected[0].startswith(f"{PROMPT}/1.png: cannot be unpacked")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 5000, "a\0b", "\udcff.zip", "/dev/null", ""])
def test_paths_that_cannot_be_are_refused_in_words(path):
    with pytest.raises(InvalidInput):
        ImportedImages(Path(path) if path else Path("/nowhere"))
