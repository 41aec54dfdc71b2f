"""One process's services: built once, named honestly, and holding nothing of a visitor."""

from __future__ import annotations

import threading

import pytest

from bias_core.errors import ModelUnavailable, StorageError, UnknownModel
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from bias_core.studies.explore_types import ExploreSettings


def test_every_default_is_in_the_shipped_catalogue(tmp_path):
    services = Services(Settings(data_dir=tmp_path))
    defaults = ExploreSettings(concept="doctor")
    info = services.model_info(defaults.model)
    assert info.embedded
    assert defaults.condition in info.conditions
    assert defaults.encoder in {item.id for item in services.encoders()}
    assert {info.id for info in services.models()} >= {"calibration-diffusion", "calibration-renderer"}


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("BIAS_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("BIAS_PORT", "1234")
    monkeypatch.setenv("BIAS_OFFLINE", "1")
    settings = Settings()
    assert (settings.data_dir, settings.port, settings.offline) == (tmp_path, 1234, True)
    assert settings.assets_dir == ASSETS


def test_nothing_is_written_before_it_is_needed(services):
    services.models()
    services.encoder("calibration-clip")
    services.text_to_image("calibration-diffusion")
    assert not services.settings.data_dir.exists()


def test_a_model_is_built_once_for_all_threads(services):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(services.text_to_image("calibration-diffusion")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(model) for model in found}) == 1


def test_the_name_of_an_encoder_changes_with_its_weights(services, tiny_clip, tmp_path, assets):
    import shutil

    name = services.encoder("calibration-clip").name
    assert name.startswith("calibration-clip@")
    folder = tmp_path / "other"
    shutil.copytree(tiny_clip, folder)
    same = services.encoder(str(folder)).name.split("@")[-1]
    assert name.endswith(same)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    fresh = Services(services.settings)
    assert not fresh.encoder(str(folder)).name.endswith(same)


def test_the_revision_of_the_renderer_is_its_world(services):
    assert len(services.revision("calibration-renderer")) == 12


def test_any_hub_name_or_folder_is_a_model(services, tiny_sd1):
    assert services.model_info("some-org/some-model").family == "diffusers"
    assert services.model_info(str(tiny_sd1)).id == str(tiny_sd1)
    assert services.revision(str(tiny_sd1))


@pytest.mark.parametrize("name", ["", "nope", "a/b/c", "../x", "https://example.org/x", "a\0b", "-x/y"])
def test_other_names_are_unknown(services, name):
    with pytest.raises(UnknownModel, match="calibration-diffusion"):
        services.model_info(name)


def test_a_missing_embedded_model_is_said(tmp_path):
    from bias_core.types import ImageRow

    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "models.yaml").write_text((ASSETS / "models.yaml").read_text())
    services = Services(Settings(data_dir=tmp_path / "data", assets_dir=assets, offline=True))
    model = services.text_to_image("calibration-diffusion")
    row = ImageRow(prompt="x", seed=0, model="calibration-diffusion", num_inference_steps=1)
    with pytest.raises(ModelUnavailable, match="calibration-diffusion cannot be loaded"):
        list(model.generate([row]))
    with pytest.raises(ModelUnavailable, match="calibration-clip cannot be loaded"):
        services.encoder("calibration-clip").encode_texts(["x"])


def test_a_broken_catalogue_is_said(tmp_path):
    (tmp_path / "models.yaml").write_text("models: [{id: x, name: x, family: x, surprise: 1}]\nencoders: []")
    with pytest.raises(StorageError, match="surprise"):
        Services(Settings(data_dir=tmp_path, assets_dir=tmp_path)).models()


def test_unknown_words_are_of_the_calibration_world_only(services):
    assert services.unknown_words("calibration-renderer", "a photo of a flibbertigibbet") == (
        "flibbertigibbet",
    )
    assert services.unknown_words("calibration-diffusion", "a photo of a doctor") == ()
    assert services.unknown_words("some-org/some-model", "a flibbertigibbet") == ()
