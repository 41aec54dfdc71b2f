"""Each listed model from the menu to a report, from a stand-in hub with its repositories, files and licence gate."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from bias_core import waiting
from bias_core.errors import ModelUnavailable
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.models import model_sources, pipeline_loader
from bias_core.models.catalogue import hosted_name, load_catalogue
from bias_core.models.family_facts import DEEPFLOYD_SHARED, KANDINSKY_PRIOR
from bias_core.models.model_sources import Machine
from bias_core.report.report_text import circumstances
from bias_core.run.run import complete, followed, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.ui.model_menu import describe_model, model_choices
from bias_core.waiting import stoppable
from tests.hosted_server import HostedServer
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
CALLS = {"kandinsky": {"prior_num_inference_steps": 2}, "deepfloyd": {"upscaler_num_inference_steps": 2}}
VARIANT = ".fp16."
PICKLES = ("pytorch_model.bin", "pytorch_model.fp16.bin", "diffusion_pytorch_model.bin")
OTHER_FORMATS = (
    "flax_model.msgpack", "diffusion_flax_model.msgpack", "model.onnx", "model.onnx_data", "openvino_model.bin",
    "openvino_model.xml", *(f"diffusion_pytorch_model.{kind}.safetensors" for kind in ("non_ema", "bf16", "int4")),
    "model.bf16-00001-of-00002.safetensors", "model.safetensors.index.bf16.json",
)  # fmt: skip
AT_ROOT = ("model-pruned.safetensors", "model-pruned.ckpt", "ae.safetensors", "sample.png", "v1-inference.yaml")
"""Files that real repositories hold besides those that are needed."""


def fixture_of(info):
    return FIXTURES.get(info.id) or FIXTURES.get(info.family)


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
        fixture = fixture_of(info)
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
        if name == info.options.get("llama"):
            further = {"original/consolidated.00.pth", "original/tokenizer.model"}
        # HiDream itself asks for no consent, its text encoder does.
        gated = info.gated and (name == info.options.get("llama") or "llama" not in info.options)
        commit = info.revision if i == 0 and info.revision else NEWEST
        hub.repositories[name] = Repository(place, commit, gated, frozenset(further))


def small(info):
    """The entry with a tiny model's size, and its limits of tokens and steps."""
    call, size = {**info.options.get("call", {}), **CALLS.get(info.family, {})}, 32
    if not fixture_of(info):
        call, size = call | NEWER[newer_of(info)].call, NEWER[newer_of(info)].size
    return replace(info, width=size, height=size, default_steps=2, options={**info.options, "call": call})


@pytest.fixture
def services(tmp_path, monkeypatch):
    """Makes services over an empty data folder, on a machine with room for every model, and without a GPU."""
    monkeypatch.setattr(model_sources, "get_machine", lambda: Machine(memory=10**12))
    monkeypatch.setattr(pipeline_loader, "free_memory", lambda: 10**12)
    monkeypatch.setattr(model_sources, "free_disk", lambda: 10**12)
    monkeypatch.setattr(waiting, "_GRACE_SECONDS", 0)
    made = []

    def start(info=None, **settings):
        built = Services(Settings(data_dir=tmp_path / "data", device="cpu", **settings))
        if info is not None:  # its pictures are small and take few steps; everything else is the catalogue's
            models = tuple(info if info.id == listed.id else listed for listed in built.models())
            vars(built)["catalogue"] = replace(built.catalogue, models=models)
        made.append(built)
        return built

    yield start
    for built in made:
        built.close()


def run(info, services, **kwargs):
    settings = explore_settings(
        concept="doctor", model=info.id, condition="", attributes=("man",), attribute_a="", attribute_b="", n_images=2,
        encoder="calibration-clip", force=True,
    )  # fmt: skip
    return run_study(find_design("explore"), settings, services, **kwargs)


def weights_in(cache):
    """The (repository, file) of all complete files of weights in the cache."""
    folders = cache.glob("models--*/snapshots/*")
    return {
        (folder.parent.parent.name.removeprefix("models--").replace("--", "/"), file.relative_to(folder).as_posix())
        for folder in folders
        for file in folder.rglob("*.safetensors")
    }


def eventually(condition):
    """Wait until it is true."""
    until = time.monotonic() + 8
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def stop_halfway(info, services, hub, cache):
    """Start a run, stop it while the last file of weights of the first repository comes; return its messages."""
    name = str(info.options["path"])
    weights = {(name, file) for file in hub.repositories[name].needed if file.endswith(".safetensors")}
    weights = {(name, file) for name, file in weights if VARIANT not in file}
    hub.held, stop, messages, reports = max(weights), threading.Event(), [], []

    def follow():
        steps = stoppable(run(info, services, cancelled=stop.is_set), stop.is_set)
        messages.extend(step.message for step in followed(steps, reports))

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        try:
            eventually(lambda: weights_in(cache) == weights - {hub.held} and any("downloading" in m for m in messages))
        finally:
            stop.set()
        following.result(timeout=9)  # it does not wait for the hub, which is not released yet
    assert (reports[0].stopped, reports[0].n_images) == (True, 0)
    hub.held = "", ""
    hub.released.set()
    eventually(lambda: not any(thread.name == "bias-prepare" for thread in threading.enumerate()))
    assert weights_in(cache) == weights - {max(weights)}  # what was on its way has ended, and nothing more has begun
    return messages


@pytest.mark.parametrize("name", DOWNLOADED)
def test_a_listed_model_is_downloaded_stopped_resumed_drawn_with_and_reported(
    name, hub, services, repositories, tmp_path, monkeypatch
):
    info, cache = small(MODELS[name]), tmp_path / "cache"
    put_on(hub, info, repositories(info), tmp_path)
    built = services(info)
    # menu, size
    size = info.download_gb * (2 if "variant" in info.options else 1)  # without a GPU, in single precision
    label = {model: label for label, model in model_choices(built)}[name]
    assert label == f"{info.name} · downloads {size:g} GB{', gated' * info.gated}, slow without a GPU"
    assert f"Downloads {size:g} GB on first use." in describe_model(built, name)
    assert escape(info.licence) in describe_model(built, name)
    # licence gate
    for token in ("", "hf_without0123456789consent") if info.gated else ():
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(ModelUnavailable, match=f"{name}.*ask for consent; accept their terms .*HF_TOKEN"):
            complete(run(info, built))
        assert not weights_in(cache)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    # download, stop, resume
    messages = stop_halfway(info, built, hub, cache)
    assert f"downloading {info.name}, which will draw the pictures: 0.0 of {size:.1f} GB" in messages
    complete_files, n_sent = weights_in(cache), len(hub.sent)
    report = complete(run(info, built))
    assert not complete_files & set(hub.sent[n_sent:])
    further = {(repository, file) for repository, at in hub.repositories.items() for file in at.further}
    assert not further & set(hub.sent)
    assert not [file for _, file in hub.sent if VARIANT in file]
    second_stage = {file for repository, file in weights_in(cache) if repository == info.options.get("upscaler")}
    assert not [file for file in second_stage if file.startswith(DEEPFLOYD_SHARED)]
    # picture, report
    revision = built.revision(name)
    assert revision.split("+") == [at.commit for at in hub.repositories.values()]
    assert {(stored.row.model, stored.row.revision) for stored in report.stored.values()} == {(name, revision)}
    assert report.n_images + report.n_blocked == 2
    assert circumstances(report, report).origin.startswith(f" drawn by {name} (revision {revision}) on ")
    assert built.model_fit(name).is_local
    # the next start, without a network
    n_sent = len(hub.sent)
    offline = services(info, offline=True)
    assert offline.revision(name) == revision
    (row,) = {stored.row for stored in report.stored.values() if stored.row.seed == 0}
    (picture,) = offline.text_to_image(name).generate([replace(row, seed=7)])
    assert picture.image is not None
    assert len(hub.sent) == n_sent


@pytest.mark.parametrize("name", [name for name in DOWNLOADED if "variant" in MODELS[name].options])
def test_a_machine_with_a_gpu_downloads_the_half_precision_variant_alone(
    name, hub, services, repositories, tmp_path, monkeypatch
):
    info = small(MODELS[name])
    put_on(hub, info, repositories(info), tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(model_sources, "pick_device", lambda _device: "cuda")
    built = services(info)
    for _ in built.fetch_model(name, built.revision(name)):
        pass
    weights = [file for _, file in hub.sent if file.endswith(".safetensors")]
    assert weights
    assert all(VARIANT in file for file in weights)
    assert weights_in(tmp_path / "cache") == {sent for sent in hub.sent if sent[1] in weights}


@pytest.mark.parametrize("name", [name for name in MODELS if hosted_name(name)])
def test_a_listed_hosted_model_is_asked_for_pictures_and_reported(name, tmp_path, monkeypatch):
    from huggingface_hub.inference._providers import _common

    info, path = MODELS[name], hosted_name(name).path
    with HostedServer().running() as server:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.INFERENCE_PROXY_TEMPLATE", server.url + "/{provider}")
        _common._fetch_inference_provider_mapping.cache_clear()
        settings = Settings(data_dir=tmp_path, device="cpu", images_url=server.url, images_key="sk-servers-own")
        built = Services(settings).for_visitor("hf_visitors0123456789own")
        assert (f"{info.name} · hosted, price unknown", name) in model_choices(built)
        assert escape(info.licence) in describe_model(built, name)
        report = complete(run(info, built))
        assert {(stored.row.model, stored.row.revision) for stored in report.stored.values()} == {
            (name, built.revision(name))
        }
        built.close()
    assert report.n_images == 2
    assert len(server.requests) == 2
    assert {request.get("model", path) for request in server.requests} <= {path, "together/flux"}


@pytest.mark.parametrize("name", ["google/siglip-base-patch16-224", "openai/clip-vit-base-patch32"])
def test_a_downloaded_reader_reads_offline_whatever_else_its_repository_holds(
    name, hub, services, tiny_clip, pictures, tmp_path
):
    further = frozenset({"README.md", "pytorch_model.bin", "onnx/model.onnx", "tf_model.h5"})
    hub.repositories[name] = Repository(tiny_clip, NEWEST, further=further)
    if name.startswith("openai"):  # its safetensors are in a pull request alone
        shutil.copytree(tiny_clip, tmp_path / "main", ignore=shutil.ignore_patterns("*.safetensors"))
        conversion = Repository(tiny_clip, "e" * 40, further=further)
        hub.repositories[name] = Repository(tmp_path / "main", NEWEST, further=further, conversion=conversion)
    online = services()
    online.fetch_reader("encoder", name)
    n_sent = len(hub.sent)
    rows = online.encoder(name).encode_images(pictures)
    assert (services(offline=True).encoder(name).encode_images(pictures) == rows).all()
    assert len(hub.sent) == n_sent  # nothing more was downloaded
    assert not {file for _, file in hub.sent} & further
