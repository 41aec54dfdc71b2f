"""Every byte of a file counts, and large files are read once."""

import os
from threading import Thread

import pytest

from bias_core.errors import ModelUnavailable
from bias_core.store.file_hashes import FileHashes

MB = 1 << 20


@pytest.fixture
def hashes(tmp_path):
    built = FileHashes(tmp_path / "hashes.sqlite")
    yield built
    built.close()


@pytest.fixture
def model(tmp_path):
    """A folder as a pipeline's: a large file of weights, a scheduler, a README."""
    folder = tmp_path / "model"
    (folder / "unet").mkdir(parents=True)
    (folder / "unet" / "model.safetensors").write_bytes(bytes(range(256)) * (5 * MB // 256))
    (folder / "scheduler_config.json").write_text('{"steps": 1}')
    (folder / "README.md").write_text("about it")
    return folder


def flip(path, place):
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("place", [0, 1_000_003, 5 * MB // 2, 5 * MB - 1])
def test_a_byte_anywhere_counts_even_when_size_and_time_of_change_are_put_back(hashes, model, place):
    before, file = hashes.fingerprint(model), model / "unet" / "model.safetensors"
    was = file.stat()
    flip(file, place)
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert hashes.fingerprint(model) != before
    flip(file, place)
    assert hashes.fingerprint(model) == before


def test_a_scheduler_counts_and_a_readme_does_not(hashes, model):
    before = hashes.fingerprint(model)
    (model / "README.md").write_text("more about it")
    (model / ".cache").mkdir()
    (model / ".cache" / "x.json").write_text("{}")
    assert hashes.fingerprint(model) == before
    (model / "scheduler_config.json").write_text('{"steps": 2}')
    assert hashes.fingerprint(model) != before


def test_the_spelling_of_a_path_and_the_name_of_the_folder_do_not_count(hashes, model, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(model)
    monkeypatch.chdir(tmp_path)
    spelled = (model, model / "unet" / "..", tmp_path / "link", type(model)("model"), type(model)("./link/"))
    assert len({hashes.fingerprint(path) for path in spelled}) == 1
    model.rename(tmp_path / "other")
    assert hashes.fingerprint(tmp_path / "other") == hashes.fingerprint(tmp_path / "other")
    assert len(list(hashes.reading(tmp_path / "other"))) <= 1  # the inode is the old one, its path is new


def test_a_large_file_is_read_once_in_this_process_and_in_the_next(hashes, model, tmp_path):
    steps = list(hashes.reading(model))
    assert steps[-1][0] == steps[-1][1] > 5 * MB
    assert all(total < 1000 for _, total in hashes.reading(model))  # small ones that were written just now
    after = FileHashes(tmp_path / "hashes.sqlite")
    assert all(total < 1000 for _, total in after.reading(model))  # the small ones again
    assert after.fingerprint(model) == hashes.fingerprint(model)
    after.close()


def test_a_reader_that_leaves_in_the_middle_holds_up_nobody(hashes, model, monkeypatch):
    monkeypatch.setattr("bias_core.store.file_hashes._CHUNK", MB)
    first = hashes.reading(model)
    while next(first)[0] < MB:
        pass
    second = hashes.reading(model)
    next(second)
    assert next(second)[0] < MB  # waits: the other reads that file
    first.close()
    assert list(second)[-1][0] > 5 * MB


def test_threads_agree(hashes, model):
    found = []
    threads = [Thread(target=lambda: found.append(hashes.fingerprint(model))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1


def test_folders_that_are_links_are_read_and_loops_are_not_followed(hashes, model, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (model / "unet").rename(elsewhere)
    (model / "unet").symlink_to(elsewhere)
    (model / "again").symlink_to(model)
    (model / "nowhere.json").symlink_to(model / "nowhere.json")
    before = hashes.fingerprint(model)
    flip(elsewhere / "model.safetensors", MB)
    assert hashes.fingerprint(model) != before


def test_what_cannot_be_read_or_kept_is_said_or_done_without(hashes, model, tmp_path):
    with pytest.raises(ModelUnavailable, match=r"cannot read .*gone: No such file"):
        hashes.fingerprint(tmp_path / "gone")
    (tmp_path / "file").write_text("not a folder")
    homeless = FileHashes(tmp_path / "file" / "hashes.sqlite")
    assert homeless.fingerprint(model) == hashes.fingerprint(model)
