"""Each listed model from the menu to a report, from a stand-in hub with its repositories, files and licence gate."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from bias_core import waiting
from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.explore.options import explore_settings
from bias_core.models import model_sources
from bias_core.models.catalogue import hosted_name, load_catalogue
from bias_core.models.family_facts import DEEPFLOYD_SHARED, HIDREAM_LLAMA, KANDINSKY_PRIOR
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from bias_core.study.design import find_design
from bias_core.ui.model_menu import model_choices
from tests.models import tiny_families
from tests.models.newer_families import NEWER
from tests.models.stand_in_hub import TOKEN, Repository, StandInHub
from tests.models.tiny_parts import safetensors, torch

MODELS = {info.id: info for info in load_catalogue(ASSETS / "models.yaml").models if not info.embedded}
DOWNLOADED = [name for name in MODELS if not hosted_name(name)]
NEWEST = "f" * 40  # commit of a repository whose revision is not pinned
FIXTURES = {
    "sd1": "tiny_sd1", "sd2": "tiny_sd2", "sdxl": "tiny_sdxl", "sdxl-turbo": "tiny_turbo", "sd3": "tiny_sd3",
    "flux": "tiny_flux", "kandinsky": "tiny_kandinsky", "deepfloyd": "tiny_deepfloyd", "sana": "tiny_sana",
    "pixart": "tiny_pixart",
}  # fmt: skip
NEWER_NAMES = {
    "sana-sprint": "SANA-Sprint", "flux.2-dev": "FLUX.2", "flux.2-klein-4b": "FLUX.2 Klein, distilled",
    "flux.2-klein-base-4b": "FLUX.2 Klein", "qwen-image": "Qwen-Image", "z-image": "Z-Image", "hidream": "HiDream",
    "chroma": "Chroma", "lumina2": "Lumina 2", "cogview4": "CogView4", "kandinsky5": "Kandinsky 5",
}  # fmt: skip
PICKLES = ("pytorch_model.bin", "pytorch_model.fp16.bin", "diffusion_pytorch_model.bin")
OTHER_FORMATS = (
    "flax_model.msgpack", "model.onnx", "model.onnx_data", "openvino_model.bin", "openvino_model.xml",
    "diffusion_pytorch_model.non_ema.safetensors", "diffusion_flax_model.msgpack",
)  # fmt: skip
AT_ROOT = ("model-pruned.safetensors", "model-pruned.ckpt", "ae.safetensors", "sample.png", "v1-inference.yaml")
"""Files that real repositories hold besides those that are needed."""


@dataclass
class Listed:
    """A model's own repositories; the first is its ``path``."""

    folders: dict[str, Path] = field(default_factory=dict)
    call: dict = field(default_factory=dict)
    size: int = 32


def newer_of(info):
    return NEWER_NAMES.get(info.id) or NEWER_NAMES[info.family]


@pytest.fixture(scope="module")
def repositories(request, tmp_path_factory):
    """The folders of a model's repositories, each built once for its kind of pipeline."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    built = {}

    def save_newer(name):
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp("newer") / "pipeline"
        pipeline = NEWER[name].build()
        if name == "HiDream":
            for part in ("text_encoder_4", "tokenizer_4"):
                getattr(pipeline, part).save_pretrained(folder.parent / "llama")
            pipeline.register_modules(text_encoder_4=None, tokenizer_4=None)
        pipeline.save_pretrained(folder)
        return folder

    def repositories_of(info):
        fixture = FIXTURES.get(info.id) or FIXTURES.get(info.family)
        kind = fixture or newer_of(info)
        if kind not in built:
            built[kind] = request.getfixturevalue(fixture) if fixture else save_newer(kind)
        folder = built[kind] / "pipeline" if kind == "tiny_sd3" else built[kind]
        folders = {str(info.options["path"]): folder}
        if info.family == "kandinsky":
            folders[KANDINSKY_PRIOR] = folder.parent / "prior"
        if "upscaler" in info.options:
            folders[info.options["upscaler"]] = folder.parent / "upscaler"
        if "llama" in info.options:
            folders[info.options["llama"]] = folder.parent / "llama"
        return folders

    return repositories_of


def with_variant(folder: Path, variant: str, place: Path) -> Path:
    """The same files, and the weights again in half precision under the variant's names."""
    shutil.copytree(folder, place)
    for file in place.rglob("*.safetensors"):
        weights = {key: tensor.half() for key, tensor in safetensors.load_file(file).items()}
        safetensors.save_file(weights, file.with_suffix(f".{variant}.safetensors"), metadata={"format": "pt"})
    return place


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The stand-in hub in place of the hub, with an empty cache and no token."""
    with StandInHub().running() as running:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", running.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no token"))
        yield running


def put_on(hub, info, folders, tmp_path):
    """Serve a model's repositories with everything that real ones hold besides."""
    for i, (name, folder) in enumerate(folders.items()):
        variant = info.options.get("variant")
        place = with_variant(folder, variant, tmp_path / f"repository-{i}") if variant else folder
        parts = {path.parent.relative_to(place).as_posix() for path in place.rglob("*.safetensors")} - {"."}
        further = {*AT_ROOT, *(f"{part}/{file}" for part in parts for file in (*PICKLES, *OTHER_FORMATS))}
        # HiDream itself asks for no consent, its text encoder does.
        gated = info.gated and (name == HIDREAM_LLAMA or "llama" not in info.options)
        commit = info.revision if i == 0 and info.revision else NEWEST
        hub.repositories[name] = Repository(place, commit, gated, frozenset(further))


@pytest.fixture
def services(tmp_path):
    """Makes services over an empty cache and data folder; without a GPU, as here."""
    made = []

    def start(info=None, **settings):
        built = Services(Settings(data_dir=tmp_path / "data", device="cpu", **settings))
        if info is not None:  # small pictures of few steps; everything else is the catalogue's
            models = tuple(info if info.id == listed.id else listed for listed in built.models())
            vars(built)["catalogue"] = replace(built.catalogue, models=models)
        made.append(built)
        return built

    yield start
    for built in made:
        built.close()


def small(info):
    """The entry with a tiny model's size and its limits of tokens and steps."""
    call, size = {}, 32
    if not (info.id in FIXTURES or info.family in FIXTURES):
        call, size = NEWER[newer_of(info)].call, NEWER[newer_of(info)].size
    call |= {"kandinsky": {"prior_num_inference_steps": 2}, "deepfloyd": {"upscaler_num_inference_steps": 2}}.get(info.family, {})
    return replace(info, width=size, height=size, default_steps=2, options={**info.options, "call": {**info.options.get("call", {}), **call}})


def run(info, services, **kwargs):
    settings = explore_settings(
        concept="doctor", model=info.id, condition="", attributes=("man",), attribute_a="", attribute_b="", n_images=2,
        encoder="calibration-clip", force=True,
    )  # fmt: skip
    return run_study(find_design("explore"), settings, services, **kwargs)


@pytest.mark.parametrize("name", DOWNLOADED)
def test_walk(name, hub, services, repositories, tmp_path, monkeypatch):
    info = small(MODELS[name])
    put_on(hub, info, repositories(info), tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("bias_core.models.pipeline_loader.free_memory", lambda: 10**12)
    built = services(info)
    report = None
    steps = run(info, built)
    try:
        while True:
            print(next(steps).message)
    except StopIteration as stop:
        report = stop.value
    print(report.n_images, report.settings.model, report.results.notes)
    print(sorted(f for f in hub.sent))
    print([(s.row.revision, s.row.model) for s in report.stored.values()] if hasattr(report, "stored") else dir(report))
