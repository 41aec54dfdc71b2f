"""Every byte of weights counts; large files are read once; what is drawn is kept under the weights that did it."""

import os
import shutil
from threading import Thread

import numpy as np
import pytest

from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.explore.options import explore_settings
from bias_core.store.files import FileHashes
from tests.explored import explore, plan_explore

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
    monkeypatch.setattr("bias_core.store.files._CHUNK", MB)
    first = hashes.reading(model)
    while next(first)[0] < MB:
        pass
    second = hashes.reading(model)
    next(second)
    assert next(second)[0] < MB  # waits: the other reads that file
    first.close()
    done, total = list(second)[-1]
    assert done == total >= 5 * MB  # small files may be known already


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


@pytest.fixture
def folder(tiny_sd1, tmp_path):
    shutil.copytree(tiny_sd1, tmp_path / "M")
    return tmp_path / "M"


def planned(services, model, **changes):
    settings = explore_settings(
        concept="doctor", model=str(model), condition="", n_images=2, num_inference_steps=1, force=True, **changes
    )
    return plan_explore(settings, services).rows[:2]


def pictures_of(services, rows):
    stored = [image for event in services.draw(rows) for image in event.images]
    return {image.path.stem: image.path.read_bytes() for image in stored}


def edit(folder, files="unet/*.safetensors", key="attn2.to_k"):
    """Edit as an editor of concepts does: other numbers in one tensor, in a file of the same size."""
    from safetensors.torch import load_file, save_file

    (file,) = folder.glob(files)
    tensors, size = load_file(file), file.stat().st_size
    name = next(name for name in tensors if key in name)
    tensors[name] = tensors[name] + 1
    save_file(tensors, file, metadata={"format": "pt"})
    assert file.stat().st_size == size


def test_edited_weights_in_the_same_folder_draw_new_pictures(services, folder, caplog):
    rows = planned(services, folder)
    before = pictures_of(services, rows)
    assert not caplog.records  # diffusers would print the checker that it is handed
    edit(folder)
    again = planned(services, folder)
    assert again[0].revision != rows[0].revision
    after = pictures_of(services, again)
    assert not set(before) & set(after)
    assert set(before.values()) != set(after.values())
    assert {image.path.stem for event in services.draw(again) for image in event.images} == set(after)
    assert len(services.images.find({row.id: row for row in rows})) == 2  # the old ones can still be opened


def test_a_run_that_was_planned_with_other_weights_is_not_drawn_with_these(services, folder):
    rows = planned(services, folder)
    model = services.text_to_image(rows[0].model)
    edit(folder)
    with pytest.raises(ModelUnavailable, match=r"M have changed since this began; start again"):
        services.draw(rows)
    with pytest.raises(ModelUnavailable, match=r"M have changed since this began; start again"):
        list(model.generate(rows))
    assert not model.loaded


def test_every_spelling_of_a_folder_is_one_model(services, folder, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    spelled = [folder, f"{folder}/", "../M", "../M/", "../sub/../M", "../link", tmp_path / "link"]
    ids = {planned(services, name)[0].id for name in spelled}
    assert len(ids) == 1
    assert len({id(services.text_to_image(str(name))) for name in spelled}) == 1


def test_every_spelling_of_a_lora_is_one_model(services, folder, tmp_path, monkeypatch):
    lora = tmp_path / "lora.safetensors"
    lora.write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    names = [f"M+{lora}", f"{folder}/+lora.safetensors:1", "../" + tmp_path.name + "/M+./lora.safetensors:1.0"]
    assert {services.model_info(name).id for name in names} == {f"{folder}+{lora}"}
    before = services.revision(names[0])
    flip(lora, 0)
    assert services.revision(names[0]) != before


def test_an_edited_encoder_is_read_anew_and_kept_under_another_name(services, tiny_clip, tmp_path):
    shutil.copytree(tiny_clip, tmp_path / "clip")
    encoder, shipped = services.encoder(str(tmp_path / "clip")), services.encoder("calibration-clip").name
    assert shipped == f"calibration-clip@{encoder.name.rpartition('@')[2]}"  # the same weights
    before = encoder.encode_texts(["a man"])
    assert services.encoder(f"{tmp_path}/clip/") is encoder
    edit(tmp_path / "clip", "model.safetensors", "text_model.encoder")
    other = services.encoder(str(tmp_path / "clip"))
    assert other.name != encoder.name
    assert not np.array_equal(other.encode_texts(["a man"]), before)
    encoder.unload()
    with pytest.raises(ModelUnavailable, match="have changed since this began"):
        encoder.encode_texts(["a man"])


def test_a_run_says_how_far_the_files_are_read_and_can_be_stopped_there(services, folder, monkeypatch):
    monkeypatch.setattr("bias_core.run.plan._SECONDS_BETWEEN_UPDATES", 0)
    settings = explore_settings(concept="doctor", model=str(folder), condition="", n_images=1, force=True)
    assert "reading the model's files: 0.0 of 0.0 GB" in next(explore(settings, services)).message
    with pytest.raises(Cancelled, match="nothing was drawn yet"):
        list(explore(settings, services, cancelled=lambda: True))
