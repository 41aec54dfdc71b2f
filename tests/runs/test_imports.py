"""Pictures of somebody else come in with their prompts, and no name leads out of its folder."""

import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.exchange import imports
from bias_core.exchange.imports import ImportedImages, decode, key
from bias_core.store.images import ImageStore

DOCTOR, NURSE = "a photo of a doctor", "a photo of a nurse"


def picture(seed=0, kind="PNG", size=(7, 5), **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(kind, body):
    """A part of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def folder(tmp_path, files, name="mine"):
    for path, content in files.items():
        target = tmp_path / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / name


def zipped(tmp_path, files, name="mine.zip"):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return tmp_path / name


LAYOUTS = {
    "metadata.csv": {
        "metadata.csv": f"file_name,text\n1.png,{DOCTOR}\n2.jpg,{DOCTOR}\nsub/3.webp,{NURSE}\n",
        "1.png": picture(1),
        "2.jpg": picture(2, "JPEG"),
        "sub/3.webp": picture(3, "WEBP"),
    },
    "metadata.jsonl in train": {
        "train/metadata.jsonl": "\n".join(
            json.dumps({"file_name": name, "prompt": prompt})
            for name, prompt in (("1.png", DOCTOR), ("2.png", DOCTOR), ("3.png", NURSE))
        ),
        **{f"train/{i}.png": picture(i) for i in (1, 2, 3)},
    },
    "folders": {f"{DOCTOR}/1.png": picture(1), f"{DOCTOR}/2.PNG": picture(2), f"{NURSE}/1.bmp": picture(3, "BMP")},
    "folders in a folder": {
        "SD/a_photo_of_a_doctor/1.png": picture(1),
        "SD/a_photo_of_a_doctor/2.png": picture(2),
        "SD/a_photo_of_a_nurse/img 1.png": picture(3),
    },
    "files": {
        "a photo of a doctor.png": picture(1),
        "a_photo_of_a_doctor_2.png": picture(2),
        "a photo of a nurse (13).png": picture(3),
    },
    "files in a folder": {
        "SD/a photo of a doctor-1.png": picture(1),
        "SD/a photo of a doctor 2.png": picture(2),
        "SD/a photo of a nurse.png": picture(3),
    },
}


@pytest.mark.parametrize("make", [folder, zipped])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_pictures_and_prompts(tmp_path, layout, make):
    junk = {".DS_Store": "x", "__MACOSX/1.png": "x", "readme.txt": "hello"}
    found = ImportedImages(make(tmp_path, LAYOUTS[layout] | junk))
    assert found.counts == {DOCTOR: 2, NURSE: 1}
    assert found.rejected == []
    rows = found.rows(DOCTOR, 10)
    assert [(row.prompt, row.seed, row.model) for row in rows] == [
        (DOCTOR, 0, "imported:mine"),
        (DOCTOR, 1, "imported:mine"),
    ]
    assert [(image.row.width, image.row.height) for image in found.generate(rows)] == [(7, 5), (7, 5)]


def test_pixels_and_their_order_are_kept_and_a_second_import_is_the_same(tmp_path):
    path = folder(tmp_path, LAYOUTS["folders"])
    first, again = (ImportedImages(path) for _ in range(2))
    rows = first.rows(DOCTOR, 2)
    assert rows == again.rows(DOCTOR, 2)
    stored = ImageStore(tmp_path / "store").add(list(first.generate(rows)))
    for seed, image in zip((1, 2), stored, strict=True):
        with Image.open(image.path) as kept, Image.open(io.BytesIO(picture(seed))) as original:
            assert np.array_equal(np.asarray(kept), np.asarray(original))
    (path / DOCTOR / "1.png").write_bytes(picture(99))
    assert ImportedImages(path).rows(DOCTOR, 2)[0].id != rows[0].id


def test_prompts_are_the_same_but_for_case_spaces_and_punctuation(tmp_path):
    found = ImportedImages(folder(tmp_path, LAYOUTS["folders"]))
    assert len(found.rows("A photo of  a_doctor.", 5)) == 2
    assert found.rows("a photo of doctors", 5) == []
    assert key("Ｐerson") == key("person")


def test_a_turned_photograph_is_put_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    data = picture(1, "JPEG", exif=exif)
    assert decode(data).size == (5, 7)
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.jpg": data}))
    assert (found.rows(DOCTOR, 1)[0].width, found.rows(DOCTOR, 1)[0].height) == (5, 7)


BROKEN = {
    "text": b"not a picture",
    "empty": b"",
    "truncated": picture(1, size=(64, 64))[:5000],
    "a format we do not read": picture(1, "GIF"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_picture_is_left_out_and_said_to_be(tmp_path, kind):
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.png": BROKEN[kind], f"{DOCTOR}/2.png": picture(2)}))
    assert len(found.rows(DOCTOR, 5)) == 1
    assert len(found.rejected) == 1
    assert found.rejected[0].startswith(f"{DOCTOR}/1.png: ")


def test_pictures_too_large_are_left_out(tmp_path, monkeypatch):
    path = zipped(tmp_path, LAYOUTS["folders"])
    monkeypatch.setattr(imports, "MOST_PIXELS", 34)
    found = ImportedImages(path)
    assert found.rows(DOCTOR, 2) == []
    assert "7 x 5" in found.rejected[0]
    monkeypatch.setattr(imports, "MOST_PIXELS", 35)
    monkeypatch.setattr(imports, "MOST_BYTES", 50)
    for source in (path, folder(tmp_path, LAYOUTS["folders"])):
        found = ImportedImages(source)
        assert found.rows(DOCTOR, 2) == []
        assert "larger" in found.rejected[0]


@pytest.mark.parametrize(
    "name", ["../1.png", "/etc/1.png", "a/../../1.png", "C:/1.png", "..\\1.png", "a photo\\..\\1.png"]
)
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match="leads out"):
        ImportedImages(zipped(tmp_path, {name: picture(1), f"{DOCTOR}/1.png": picture(2)}))
    listed = {"metadata.csv": f"file_name,text\n{name},{DOCTOR}\n", "1.png": picture(1)}
    for make in (folder, zipped):
        with pytest.raises(InvalidInput, match="leads out"):
            ImportedImages(make(tmp_path, listed))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(1))
    path = folder(tmp_path, {f"{DOCTOR}/2.png": picture(2)})
    (path / DOCTOR / "1.png").symlink_to(secret)
    found = ImportedImages(path)
    assert found.counts == {DOCTOR: 1}
    assert "link" in found.rejected[0]


def test_a_zip_that_needs_a_password_is_said_to(tmp_path):
    path = zipped(tmp_path, {f"{DOCTOR}/1.png": picture(1)})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # the flag of an encrypted file
    path.write_bytes(data)
    found = ImportedImages(path)
    assert found.rows(DOCTOR, 1) == []
    assert "cannot be unpacked" in found.rejected[0]


@pytest.mark.parametrize(("files", "words"), [
    ({"notes.txt": "x"}, "no picture with a prompt"),
    ({"1.png": picture(1)}, "no picture with a prompt"),  # a number is no prompt
    ({"metadata.csv": "file,text\n1.png,x\n", "1.png": picture(1)}, "file_name"),
    ({"metadata.csv": "file_name,colour\n1.png,x\n", "1.png": picture(1)}, "prompt, text, caption"),
    ({"metadata.jsonl": "{", "1.png": picture(1)}, "cannot be read"),
    ({"metadata.jsonl": "[1]", "1.png": picture(1)}, "line 1"),
    ({"metadata.csv": b"\xff\xfe\x00", "1.png": picture(1)}, "cannot be read"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_in_words(tmp_path, files, words):
    with pytest.raises(InvalidInput, match=words):
        ImportedImages(folder(tmp_path, files))


def test_no_folder_no_zip_and_a_damaged_zip_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no folder or zip"):
        ImportedImages(tmp_path / "nothing")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InvalidInput, match="no zip"):
        ImportedImages(damaged)


def test_too_many_pictures_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "MOST_PICTURES", 2)
    with pytest.raises(InvalidInput, match="at most 2"):
        ImportedImages(folder(tmp_path, LAYOUTS["folders"]))


def test_pictures_that_the_metadata_forgets_or_invents_are_said(tmp_path):
    files = {
        "metadata.csv": f"file_name,caption\n1.png,{DOCTOR}\n9.png,{NURSE}\n3.png,\n",
        "1.png": picture(1),
        "2.png": picture(2),
        "3.png": picture(3),
    }
    found = ImportedImages(folder(tmp_path, files))
    assert found.counts == {DOCTOR: 1}
    assert sorted(found.rejected) == ["2.png: no prompt", "3.png: no prompt", "9.png: no such picture"]


def test_rows_of_another_import_are_refused(tmp_path):
    found = ImportedImages(folder(tmp_path, LAYOUTS["folders"]))
    other = ImportedImages(folder(tmp_path, LAYOUTS["files"], "other"))
    with pytest.raises(InvalidInput, match="no such picture"):
        list(found.generate(other.rows(DOCTOR, 1)))
