"""What is said of a model before it is downloaded or loaded."""

from dataclasses import replace
from unittest.mock import Mock

from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError

from bias_core.models.fit import download_gb, free_disk, is_cached, model_fit
from bias_core.models.machine import Machine
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import ModelInfo

GB = 10**9
LAPTOP, WORKSTATION = Machine(memory=16 * GB), Machine(memory=64 * GB, gpu_memory=24 * GB, gpu="RTX")
SDXL = ModelInfo(id="org/xl", name="XL", family="sdxl", download_gb=7, memory_gb=9)
FLUX = ModelInfo(id="org/flux", name="F", family="flux", download_gb=34, memory_gb=36, gated=True)


def judged(info, machine, *, here=False, offline=False, free_disk=500 * GB):
    return model_fit(info, machine, here=here, offline=offline, free_disk=free_disk)


def test_a_model_that_fits_the_gpu_says_what_it_downloads():
    fit = judged(SDXL, WORKSTATION)
    assert (fit.works, fit.short) == (True, "downloads 7 GB")
    assert fit.says == "Downloads 7 GB on first use. It needs 9 GB of the GPU's 24."
    assert judged(SDXL, WORKSTATION, here=True).short == "on this machine"


def test_one_larger_than_the_gpu_is_slow_and_a_gated_one_says_how_to_get_in():
    fit = judged(FLUX, WORKSTATION)
    assert fit.works
    assert fit.short == "downloads 34 GB, gated, slow here: larger than the GPU"
    assert "HF_TOKEN" in fit.says
    assert "take turns" in fit.says
    assert "gated" not in judged(FLUX, WORKSTATION, here=True).short


def test_without_a_gpu_the_large_is_too_large_and_the_rest_slow():
    assert judged(replace(SDXL, memory_gb=4), LAPTOP).short == "downloads 7 GB, slow without a GPU"
    fit = judged(SDXL, LAPTOP)  # 9 GB in half precision are about 20 in single
    assert not fit.works
    assert "about 20 GB of memory, and this machine has 16 GB" in fit.says
    # 36 x 2.2 = 79 GB, and BIAS_DEVICE=cpu leaves the GPU alone.
    assert not model_fit(FLUX, WORKSTATION, here=True, offline=False, free_disk=0, on_cpu=True).works


def test_no_room_on_the_disk_and_no_network_are_said_first():
    fit = judged(SDXL, WORKSTATION, free_disk=5 * GB)
    assert not fit.works
    assert "7 GB, and the disk has 5 GB free; make room, or set HF_HOME" in fit.says
    assert judged(SDXL, WORKSTATION, offline=True).short == "not on this machine"
    assert judged(SDXL, WORKSTATION, here=True, offline=True, free_disk=0).works
    fit = judged(ModelInfo(id="a/b", name="b", family="diffusers"), WORKSTATION)  # what is not known is not said to fit
    assert (fit.works, fit.short) == (True, "size unknown")
    assert fit.says == "What it downloads on first use is not known here."


def test_services_know_what_is_here_and_ask_for_the_size_of_strangers_once(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("bias_core.services.download_gb", lambda *a: asked.append(a) or 3.14)
    monkeypatch.setattr("bias_core.adapters.model_sources.is_cached", lambda repo, *_: repo == "org/cached")
    services = Services(Settings(data_dir=tmp_path))
    assert services.model_fit("calibration-renderer").short == ""
    assert services.model_fit("org/cached").here
    for _ in range(2):
        assert services.model_fit("org/strange").short.startswith("downloads 3.1 GB")
    assert asked == [("org/strange", "")]
    assert not Services(Settings(data_dir=tmp_path, offline=True)).model_fit("org/strange").works
    assert len(asked) == 1


def test_a_hub_that_cannot_be_asked_leaves_the_size_open(monkeypatch):
    for error in (LocalEntryNotFoundError, HTTPError):
        monkeypatch.setattr("huggingface_hub.HfApi.model_info", Mock(side_effect=error("no network")))
        assert download_gb("org/name") == download_gb("no id") == 0


def test_the_cache_and_its_disk_are_found(tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model_index.json").write_text("{}")
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert is_cached("org/name")
    assert not is_cached("org/other")
    assert not is_cached("org/name", "def")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "not" / "yet"))
    assert free_disk() > 0
