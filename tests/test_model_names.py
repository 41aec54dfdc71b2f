"""Valid names of models, the settings and revision that follow from them, and messages before loading."""

import json
import os
import re
import stat
from dataclasses import replace
from unittest.mock import Mock

import pytest
from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError

from bias_core.errors import ModelUnavailable, UnknownModel
from bias_core.installed import ASSETS
from bias_core.models import model_sources as machine
from bias_core.models.catalogue import hosted_name, load_catalogue, native_size, split_revision
from bias_core.models.model_sources import Machine, download_gb, free_disk, is_cached, model_fit
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import ModelInfo
from tests.every import every

COMMIT, OTHER = "a" * 40, "b" * 40
CATALOGUE = load_catalogue(ASSETS / "models.yaml")
WORLD = ASSETS.parent / "docs" / "calibration.md"


@pytest.fixture
def offline(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    built = Services(Settings(data_dir=tmp_path / "data", offline=True, device="cpu"))
    yield built
    built.close()


def put_into_cache(root, repo, commit, files=(), branch="main"):
    """Write what the hub's client leaves after a download."""
    folder = root / "hub" / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / branch).write_text(commit)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    for name, content in dict(files).items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_text(json.dumps(content))
    return snapshot


FLUX = {"model_index.json": {"_class_name": "FluxPipeline"}}


# Names


def test_every_listed_model_says_what_a_choice_needs_to_know():
    families = {"sd1", "sd2", "sdxl", "sd3", "flux", "kandinsky", "deepfloyd", "sana", "pixart"}
    families |= {"sana-sprint", "flux2", "qwen-image", "z-image", "hidream", "chroma", "lumina2", "cogview4"}
    families |= {"kandinsky5"}
    page = WORLD.read_text(encoding="utf-8").replace("`", "")
    assert {name for info in CATALOGUE.models for name in info.conditions} == set(CATALOGUE.conditions)
    assert not [name for name, line in CATALOGUE.conditions.items() if f"\n| {name} | {line}" not in page]
    hosted = [info for info in CATALOGUE.models if info.family == "remote"]
    assert all(info.licence and info.note and hosted_name(info.id) and info.price_usd is None for info in hosted)
    listed = [info for info in CATALOGUE.models if not info.embedded and info not in hosted]
    assert {info.family for info in listed} == families
    for info in listed:
        assert info.licence, info.id
        assert info.note, info.id
        assert 0 < info.download_gb < 120, info.id
        assert 0 < info.memory_gb < 120, info.id
        assert info.width == info.height >= 256, info.id
        assert re.fullmatch(r"([0-9a-f]{40})?", info.revision), info.id
        assert info.traceable == (info.family not in {"kandinsky", "deepfloyd"}), info.id
        assert (info.default_guidance == 0) == ("without guidance" in info.note), info.id


def test_a_revision_can_be_pinned_and_paths_are_left_alone():
    for name in ("org/name@v1.0", f"org/name@{COMMIT}", "stable-diffusion-v1-5@main"):
        info = CATALOGUE.model(name)
        assert info.id == name
        assert info.revision == name.split("@")[1]
        assert "@" not in info.options["path"]
    assert split_revision("/home/me@work/x") == ("/home/me@work/x", "")
    assert split_revision("@x") == ("@x", "")
    assert split_revision("org/name@refs/pr/1") == ("org/name@refs/pr/1", "")


@every([
    ("org/base+org/lora", "org/base", "org/lora", 1.0),
    ("sdxl-base+org/lora:0.8", "sdxl-base", "org/lora", 0.8),
    ("flux.1-dev@main+org/lora@v2:-0.5", "flux.1-dev", "org/lora@v2", -0.5),
])  # fmt: skip
def test_a_lora_on_top_inherits_its_base(name, base, lora, weight):
    info, under = CATALOGUE.model(name), CATALOGUE.model(base)
    assert info.id == name
    assert (info.options["lora"], info.options["lora_weight"]) == (lora, weight)
    for inherited in ("family", "default_steps", "default_guidance", "width", "traceable", "memory_gb"):
        assert getattr(info, inherited) == getattr(under, inherited)


def test_a_lora_can_be_a_folder_or_a_file_whatever_is_in_its_name(tmp_path):
    folder = tmp_path / "a+b:0.5"
    folder.mkdir()
    (folder / "x.safetensors").write_bytes(b"")
    for path in (folder, folder / "x.safetensors"):
        for suffix, weight in (("", 1.0), (":0.25", 0.25)):
            options = CATALOGUE.model(f"calibration-diffusion+{path}{suffix}").options
            assert (options["lora"], options["lora_weight"]) == (str(path), weight)
    assert CATALOGUE.model(f"calibration-diffusion+{folder}").conditions == ()


@every([
    "calibration-diffusion@main", "calibration-renderer+org/lora", "nope+org/lora", "org/base+nope", "org/base+",
    "+org/lora", "org/base+org/lora:1:2", "org/base+org/lora:1e9", "org/base+/not/here.safetensors", "org/base+a\0b",
    "org/base+" + "x" * 300, "org/base@", "org/base@../x",
])  # fmt: skip
def test_what_is_no_name_is_refused(name):
    with pytest.raises(UnknownModel):
        CATALOGUE.model(name)


def test_a_single_file_is_refused_with_what_to_do(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(UnknownModel, match=r"single file; convert it once.*save_pretrained\(folder\)"):
        CATALOGUE.model(str(file))


# Settings of what is not listed


def test_a_folder_gets_the_settings_of_its_kind_and_its_own_size(tmp_path):
    def model(class_name, **configs):
        for name, config in ({"model_index": {"_class_name": class_name}} | configs).items():
            file = "model_index.json" if name == "model_index" else f"{name}/config.json"
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(json.dumps(config))
        return CATALOGUE.model(str(tmp_path))

    four_levels = {"block_out_channels": [1, 2, 3, 4]}  # three of them halve: 8 pixels a side of a latent
    sdxl = model("StableDiffusionXLPipeline", unet={"sample_size": 96}, vae=four_levels)
    assert (sdxl.family, sdxl.default_guidance, sdxl.width) == ("sdxl", 5.0, 768)
    assert native_size(tmp_path) == 768
    sd = model("StableDiffusionPipeline", unet={"sample_size": [64, 96]})
    assert (sd.family, sd.default_steps, sd.height, sd.traceable) == ("sd1", 30, 512, True)
    flux = model("FluxPipeline", unet={})
    assert (flux.family, flux.width) == ("flux", 1024)
    other = model("AuraFlowPipeline", unet={})
    assert (other.family, other.width, other.traceable) == ("diffusers", 512, True)
    (tmp_path / "model_index.json").write_text("not json")
    assert CATALOGUE.model(str(tmp_path)).family == "diffusers"


def test_the_kind_of_a_hub_model_is_read_from_its_small_files(tmp_path, offline):
    assert offline.model_info("org/flux").family == "diffusers"  # nothing is known of it here
    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    info = offline.model_info("org/flux")
    assert (info.id, info.family, info.width, info.default_guidance) == ("org/flux", "flux", 1024, 3.5)
    assert offline.model_info("org/flux+org/lora:0.5").family == "flux"


# Revisions


def test_the_commit_that_a_name_stands_for_is_known_before_the_first_picture(tmp_path, offline):
    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    put_into_cache(tmp_path, "org/flux", OTHER, FLUX, branch="v2")
    assert offline.revision("org/flux") == COMMIT
    assert offline.revision("org/flux@v2") == OTHER
    model = offline.text_to_image("org/flux")
    assert (model.info.id, model.info.revision, model.source) == ("org/flux", COMMIT, "org/flux")
    # A commit needs no hub.
    assert offline.revision(f"org/name@{COMMIT}") == COMMIT
    assert offline.revision("sdxl-base") == "462165984030d82259a11f4367a4eed129e94a7b"


def test_it_stays_the_same_when_the_branch_moves_in_the_middle_and_moves_with_the_next_start(tmp_path, offline):
    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    assert offline.revision("org/flux") == COMMIT
    put_into_cache(tmp_path, "org/flux", OTHER, FLUX)
    assert offline.revision("org/flux") == COMMIT
    assert offline.text_to_image("org/flux").info.revision == COMMIT
    assert Services(offline.settings).revision("org/flux") == OTHER


def test_the_hub_is_asked_for_the_newest_and_the_cache_is_the_answer_without_a_network(tmp_path, monkeypatch, offline):
    from huggingface_hub import HfApi

    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    asked = []

    def no_network(*_args, **_kwargs):
        import httpx2

        asked.append(1)
        raise httpx2.ConnectError("no network")

    monkeypatch.setattr(HfApi, "repo_info", no_network)
    online = Services(offline.settings.model_copy(update={"offline": False}))
    assert online.revision("org/flux") == COMMIT
    assert online.revision("org/flux") == COMMIT
    assert len(asked) == 2  # for its kind and for its commit; never again
    with pytest.raises(ModelUnavailable, match="not on this machine, and the hub was not reached"):
        online.revision("org/nowhere")


def test_the_revision_covers_both_pipelines_and_the_lora(tmp_path, offline):
    put_into_cache(tmp_path, "org/decoder", COMMIT, {"model_index.json": {"_class_name": "KandinskyV22Pipeline"}})
    put_into_cache(tmp_path, "kandinsky-community/kandinsky-2-2-prior", OTHER, FLUX)
    put_into_cache(tmp_path, "org/lora", "c" * 40)
    assert offline.revision("org/decoder") == f"{COMMIT}+{OTHER}"
    assert offline.text_to_image("org/decoder").info.options["prior"].endswith(f"prior@{OTHER}")
    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    assert offline.revision("org/flux+org/lora:0.5") == f"{COMMIT}+{'c' * 40}"
    info = offline.text_to_image("org/flux+org/lora:0.5").info
    assert (info.revision, info.options["lora"]) == (COMMIT, f"org/lora@{'c' * 40}")


def test_the_revision_changes_with_the_files_of_a_local_lora(tmp_path, offline):
    file = tmp_path / "x.safetensors"
    file.write_bytes(b"one")
    name = f"calibration-diffusion+{file}"
    first = offline.revision(name)
    assert first.startswith(f"{offline.revision('calibration-diffusion').split('-')[0]}+")
    file.write_bytes(b"two")
    assert Services(offline.settings).revision(name) != first


def test_a_picture_keeps_its_id_from_the_first_run_to_the_second(tmp_path, offline):
    from bias_core.explore.options import explore_settings
    from tests.explored import plan_explore

    put_into_cache(tmp_path, "org/flux", COMMIT, FLUX)
    settings = explore_settings(concept="doctor", model="org/flux", condition="", n_images=2, force=True)
    first, second = (plan_explore(replace(settings), Services(offline.settings)).rows[0] for _ in range(2))
    assert first.id == second.id
    assert (first.revision, first.width, first.num_inference_steps) == (COMMIT, 1024, 28)


def test_a_hosted_model_has_a_name_anywhere_and_what_only_looks_like_one_is_refused_in_a_sentence():
    for name in ("inference:org/name", "inference:fal-ai:org/name", "openai:org/x:tag"):
        for catalogue in (CATALOGUE, replace(CATALOGUE, allowed=())):  # on a public server, too
            info = catalogue.model(name)
            assert (info.id, info.family, info.default_steps) == (name, "remote", 0)
    for name in ("inference:name", "inference:a:b:org/x", "openai:", "openai:../x", "openai:a b"):
        with pytest.raises(UnknownModel, match="write inference:org/name or inference:provider:org/name"):
            CATALOGUE.model(name)


GB = 10**9
LAPTOP, WORKSTATION = Machine(memory=16 * GB), Machine(memory=64 * GB, gpu_memory=24 * GB, gpu="RTX")
SDXL = ModelInfo(id="org/xl", name="XL", family="sdxl", download_gb=7, memory_gb=9)
LARGE = ModelInfo(id="org/flux", name="F", family="flux", download_gb=34, memory_gb=36, gated=True)


def judged(info, machine, *, here=False, offline=False, free_disk=500 * GB):
    return model_fit(info, machine, is_local=here, offline=offline, free_disk=free_disk)


def test_a_model_says_what_it_downloads_how_to_get_in_and_whether_it_is_slow_or_too_large_here():
    fit = judged(SDXL, WORKSTATION)
    assert (fit.works, fit.short) == (True, "downloads 7 GB")
    assert fit.says == "Downloads 7 GB on first use. It needs 9 GB of the GPU's 24."
    assert judged(SDXL, WORKSTATION, here=True).short == "on this machine"
    fit = judged(LARGE, WORKSTATION)
    assert fit.works
    assert fit.short == "downloads 34 GB, gated, slow here: larger than the GPU"
    assert "HF_TOKEN" in fit.says
    assert "take turns" in fit.says
    assert "gated" not in judged(LARGE, WORKSTATION, here=True).short
    assert judged(replace(SDXL, memory_gb=4), LAPTOP).short == "downloads 7 GB, slow without a GPU"
    fit = judged(SDXL, LAPTOP)  # 9 GB in half precision are about 20 in single
    assert not fit.works
    assert "about 20 GB of memory, and this machine has 16 GB" in fit.says
    # 36 x 2.2 = 79 GB, and BIAS_DEVICE=cpu leaves the GPU alone.
    assert not model_fit(LARGE, WORKSTATION, is_local=True, offline=False, free_disk=0, on_cpu=True).works
    # No room on the disk and no network are said first.
    fit = judged(SDXL, WORKSTATION, free_disk=5 * GB)
    assert not fit.works
    assert "7 GB, and the disk has 5 GB free; make room (or set HF_HOME" in fit.says
    assert judged(SDXL, WORKSTATION, offline=True).short == "not on this machine, downloads are off"
    assert judged(SDXL, WORKSTATION, here=True, offline=True, free_disk=0).works
    fit = judged(ModelInfo(id="a/b", name="b", family="diffusers"), WORKSTATION)  # what is not known is not said to fit
    assert (fit.works, fit.short) == (True, "size unknown")
    assert fit.says == "The size of its download on first use is unknown."


def test_services_know_what_is_here_and_ask_for_the_size_of_strangers_once(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("bias_core.models.model_sources.download_gb", lambda *a: asked.append(a) or 3.14)
    monkeypatch.setattr("bias_core.models.model_sources.is_cached", lambda repo, *_: repo == "org/cached")
    services = Services(Settings(data_dir=tmp_path))
    assert services.model_fit("calibration-renderer").short == ""
    assert services.model_fit("org/cached").is_local
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


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch) -> None:
    machine.get_machine.cache_clear()
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)


def _tool(folder, script: str, monkeypatch) -> None:
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_largest_gpu_counts(tmp_path, monkeypatch):
    _tool(tmp_path / "bin", "echo '8192, Small'; echo '81920, NVIDIA H100'", monkeypatch)
    found = machine.get_machine()
    assert (found.gpu, found.gpu_memory) == ("NVIDIA H100", 81920 << 20)


@pytest.mark.parametrize("script", ["exit 9", "echo No devices were found", "echo '[N/A], Odd'"])
def test_a_driver_without_a_gpu_is_no_gpu(tmp_path, monkeypatch, script: str):
    _tool(tmp_path / "bin", script, monkeypatch)
    assert machine.get_machine().gpu_memory == 0


def test_a_container_has_what_it_was_given(tmp_path):
    real = machine.get_machine().memory
    assert real > 10**8
    machine.get_machine.cache_clear()
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "memory.max").write_text("max\n")
    assert machine.get_machine().memory == real
    machine.get_machine.cache_clear()
    (tmp_path / "cgroup" / "memory.max").write_text("100000000\n")
    (tmp_path / "cgroup" / "memory.current").write_text("30000000\n")
    assert machine.get_machine().memory == 100_000_000
    assert machine.free_memory() == 70_000_000


def test_zero_gpu_is_known_by_its_variable(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert machine.get_machine().gpu_memory == machine.ZERO_GPU_BYTES
