"""Models that cannot be used each say why, and what to do."""

import json
import shutil

import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.errors import ModelUnavailable
from bias_core.types import ModelInfo
from tests.adapters.families import build, rows_of


def hub_model(name="org/name", **info):
    info = ModelInfo(id=name, name=name, family="diffusers", options={"path": name}, **info)
    return DiffusersTextToImage(info, name, device="cpu")


def draw(model):
    return list(model.generate(rows_of("sd2", 1)))


@pytest.fixture
def copy(tiny_sd2, tmp_path):
    shutil.copytree(tiny_sd2, tmp_path / "pipeline")
    return tmp_path / "pipeline"


def hub_says(monkeypatch, error_class):
    """Every file of the hub is refused in this way, as the hub's own client words it."""
    import httpx2
    from huggingface_hub import errors

    request = httpx2.Request("GET", "https://huggingface.co/org/name/resolve/main/model_index.json")
    error = getattr(errors, error_class)("refused", response=httpx2.Response(403, request=request))

    def refuse(*_args, **_kwargs):
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)


@pytest.mark.parametrize(("error_class", "said"), [
    ("GatedRepoError", r"ask for consent; accept their terms.*HF_TOKEN, or `hf auth login`"),
    ("RepositoryNotFoundError", r"no model of this name.*HF_TOKEN, or `hf auth login`"),
    ("RevisionNotFoundError", "not this revision"),
    ("RemoteEntryNotFoundError", "not in the layout of diffusers"),
])  # fmt: skip
def test_what_the_hub_refuses(monkeypatch, error_class, said):
    hub_says(monkeypatch, error_class)
    with pytest.raises(ModelUnavailable, match=f"org/name cannot be loaded from org/name: .*{said}"):
        draw(hub_model())


def test_a_model_that_is_not_here_while_offline(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    info = ModelInfo(id="org/name", name="x", family="diffusers", options={"path": "org/name"})
    model = DiffusersTextToImage(info, "org/name", device="cpu", offline=True)
    with pytest.raises(ModelUnavailable, match="not on this machine, and the hub was not reached"):
        draw(model)


def test_pickles_and_truncated_files_are_refused_and_it_is_said_why(copy):
    weights = copy / "unet" / "diffusion_pytorch_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(ModelUnavailable, match="cut off or damaged; delete it and download it again"):
        draw(build("sd2", copy))
    weights.unlink()
    (copy / "unet" / "diffusion_pytorch_model.bin").write_bytes(whole)
    with pytest.raises(ModelUnavailable, match=r"a pickle, which may run any program.*safetensors, convert"):
        draw(build("sd2", copy))


def test_pickles_of_the_hub_are_refused(monkeypatch, copy):
    message = "Could not find the necessary `safetensors` weights in {'unet/pytorch_model.bin'} (variant=None)"

    def only_pickles(*_args, **_kwargs):
        raise OSError(message)

    monkeypatch.setattr("diffusers.DiffusionPipeline.download", only_pickles)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_a, **_k: copy / "model_index.json")
    with pytest.raises(ModelUnavailable, match="a pickle, which may run any program"):
        draw(hub_model())


def rename_class(folder, name):
    index = folder / "model_index.json"
    entries = json.loads(index.read_text()) | {"_class_name": name}
    index.write_text(json.dumps(entries))


def test_what_does_not_draw_from_a_text_is_refused_before_it_is_loaded(copy):
    shutil.rmtree(copy / "unet")
    for name in (
        "StableDiffusionInpaintPipeline", "StableDiffusionControlNetPipeline", "FluxControlPipeline",
        "TextToVideoSDPipeline", "StableVideoDiffusionPipeline", "CogVideoXPipeline", "AudioLDM2Pipeline",
        "DDPMPipeline", "IFSuperResolutionPipeline",
    ):  # fmt: skip
        rename_class(copy, name)
        with pytest.raises(ModelUnavailable, match=f"{name}, which does not draw pictures from a text alone"):
            draw(build("sd2", copy))


def test_code_that_comes_with_a_model_is_not_run(copy):
    (copy / "pipeline.py").write_text("raise SystemExit('ran')")
    for name in ("SomebodysOwnPipeline", ["pipeline", "OwnPipeline"], None):
        rename_class(copy, name)
        with pytest.raises(ModelUnavailable, match="code that comes with a model is never run"):
            draw(build("sd2", copy))
