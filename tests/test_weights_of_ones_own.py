"""Folders that people bring: what is drawn and read is kept under the weights that did it."""

import shutil

import numpy as np
import pytest

from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.studies.explore.options import explore_settings
from tests.explored import explore, plan_explore
from tests.runs.test_file_hashes import flip


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
    """What an editor of concepts does: other numbers in one tensor, in a file of the same size."""
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
    monkeypatch.setattr("bias_core.studies.running.run._SECONDS_BETWEEN_UPDATES", 0)
    settings = explore_settings(concept="doctor", model=str(folder), condition="", n_images=1, force=True)
    assert "reading the model's files: 0.0 of 0.0 GB" in next(explore(settings, services)).message
    with pytest.raises(Cancelled, match="nothing was drawn yet"):
        list(explore(settings, services, cancelled=lambda: True))
