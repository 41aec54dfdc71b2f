"""Exports that other programs can read, and that run nothing in a spreadsheet."""

import errno
import json
import os
import zipfile
from dataclasses import replace

import pandas as pd
import pytest
from PIL import Image

from bias_core.errors import StorageError
from bias_core.exchange.export import Export, ExportedImage, csv_bytes, write_folder, write_zip
from bias_core.store.images import ImageStore
from bias_core.types import GeneratedImage, ImageRow


@pytest.fixture
def export(tmp_path):
    rows = [ImageRow(prompt="=HYPERLINK()", seed=seed, model="m") for seed in range(3)]
    images = ImageStore(tmp_path / "images").add(
        [GeneratedImage(row=row, image=Image.new("RGB", (8, 8), (row.seed, 0, 0))) for row in rows]
    )
    return Export(
        images=[ExportedImage(path=i.path, row=i.row, metadata={"number": i.row.seed + 1}) for i in images],
        tables={"scores": pd.DataFrame({"attribute": ["man", "=1+1"], "value": [0.5, float("nan")]})},
        report={"prompt": "médecin"},
        markdown="# médecin\n",
    )


def test_the_zip_is_an_imagefolder_with_scores_and_report(export, tmp_path):
    path = write_zip(export, tmp_path / "run.zip")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        lines = [json.loads(line) for line in archive.read("train/metadata.jsonl").splitlines()]
        assert {f"train/{line['file_name']}" for line in lines} < names
        assert [line["number"] for line in lines] == [1, 2, 3]
        assert archive.read(f"train/{lines[0]['file_name']}") == export.images[0].path.read_bytes()
        assert json.loads(archive.read("report.json")) == {"prompt": "médecin"}
        assert archive.read("report.md").decode() == "# médecin\n"
        with archive.open("scores.parquet") as file:
            pd.testing.assert_frame_equal(pd.read_parquet(file), export.tables["scores"])
        assert archive.testzip() is None
    assert {"scores.csv", "scores.parquet", "report.json", "report.md"} < names


def test_the_folder_has_the_same_files(export, tmp_path):
    write_folder(export, tmp_path / "out")
    with zipfile.ZipFile(write_zip(export, tmp_path / "run.zip")) as archive:
        for name in archive.namelist():
            assert (tmp_path / "out" / name).read_bytes() == archive.read(name)


def test_without_pictures_there_is_no_folder_of_them(export, tmp_path):
    with zipfile.ZipFile(write_zip(replace(export, images=[]), tmp_path / "run.zip")) as archive:
        assert not [name for name in archive.namelist() if name.startswith("train/")]
        assert all(archive.getinfo(name).file_size for name in archive.namelist())


def test_no_cell_or_heading_is_a_formula():
    table = pd.DataFrame({"=a": ["=1+1", "+x", "-x", "@x", "\tx", "fine", "a=b"], "n": [-1.5] * 7})
    lines = csv_bytes(table).decode().splitlines()
    assert lines[0] == "'=a,n"
    assert [line.split(",")[0] for line in lines[1:]] == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "fine", "a=b"]
    assert all(line.endswith(",-1.5") for line in lines[1:])


def test_a_deleted_picture_is_said_and_no_zip_appears(export, tmp_path):
    export.images[1].path.unlink()
    with pytest.raises(StorageError, match="no longer in the store"):
        write_zip(export, tmp_path / "out" / "run.zip")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_leaves_no_half_zip(export, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(StorageError, match="the disk is full"):
        write_zip(export, tmp_path / "out" / "run.zip")
    assert list((tmp_path / "out").iterdir()) == []
