"""Models that cannot be used each say why: what is refused, is not whole, or does not fit and so is placed in parts."""

import json
import shutil
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bias_core.errors import ModelUnavailable
from bias_core.installed import ASSETS
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.encoders import OpenClipEncoder, TransformersEncoder
from bias_core.models.language_models import BlipAnswerer, BlipCaptioner, TransformersLanguageModel
from bias_core.models.model_sources import fetch_pipeline
from bias_core.types import ModelInfo
from tests.every import every
from tests.models.families import build, pixels, rows_of
from tests.models.tiny_parts import Library, change_weights, diffusers, safetensors, torch


def hub_model(**how):
    info = ModelInfo(id="org/name", name="org/name", family="diffusers", options={"path": "org/name"})
    return DiffusersTextToImage(info, "org/name", device="cpu", **how)


def drawn_by(model):
    return list(model.generate(rows_of("sd2", 1)))


@pytest.fixture
def copy(tiny_sd2, tmp_path):
    shutil.copytree(tiny_sd2, tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.mark.parametrize(("error_class", "said"), [
    ("RepositoryNotFoundError", r"no model of this name.*HF_TOKEN, or `hf auth login`"),
    ("RevisionNotFoundError", "not this revision"),
    ("RemoteEntryNotFoundError", "not in the layout of diffusers"),
])  # fmt: skip
def test_what_the_hub_refuses(monkeypatch, error_class, said):
    """As the hub's own client words it."""
    import httpx2
    from huggingface_hub import errors

    request = httpx2.Request("GET", "https://huggingface.co/org/name/resolve/main/model_index.json")
    error = getattr(errors, error_class)("refused", response=httpx2.Response(403, request=request))

    def refuse(*_args, **_kwargs):
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    with pytest.raises(ModelUnavailable, match=f"org/name cannot be loaded: .*{said}"):
        drawn_by(hub_model())


def test_a_model_that_is_not_here_while_offline(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="not on this machine, and the hub was not reached"):
        drawn_by(hub_model(offline=True))


def test_pickles_and_truncated_files_are_refused_and_it_is_said_why(copy):
    weights = copy / "unet" / "diffusion_pytorch_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(ModelUnavailable, match="cut off or damaged; delete it and download it again"):
        drawn_by(build("sd2", copy))
    weights.unlink()
    (copy / "unet" / "diffusion_pytorch_model.bin").write_bytes(whole)
    with pytest.raises(ModelUnavailable, match=r"a pickle, which may run any program.*safetensors, convert"):
        drawn_by(build("sd2", copy))


def test_pickles_of_the_hub_are_refused(monkeypatch, copy):
    message = "Could not find the necessary `safetensors` weights in {'unet/pytorch_model.bin'} (variant=None)"

    def only_pickles(*_args, **_kwargs):
        raise OSError(message)

    monkeypatch.setattr("diffusers.DiffusionPipeline.download", only_pickles)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_a, **_k: copy / "model_index.json")
    with pytest.raises(ModelUnavailable, match="a pickle, which may run any program"):
        drawn_by(hub_model())


def test_a_model_that_a_hub_has_in_half_precision_alone_is_fetched_and_what_stages_share_but_once(monkeypatch):
    asked = []

    def download(repo, **options):
        asked.append((repo, options.get("variant"), "text_encoder" in options))
        if options.get("variant") is None:
            raise OSError("Could not find the necessary `safetensors` weights in {} (variant=None)")
        return "somewhere"

    monkeypatch.setattr("diffusers.DiffusionPipeline.download", download)
    options = {"path": "org/first", "upscaler": f"org/second@{'0' * 40}"}
    fetch_pipeline(replace(hub_model().info, family="deepfloyd", revision="0" * 40, options=options))
    first, second = ("org/first", None, False), ("org/second", None, True)
    assert asked == [first, ("org/first", "fp16", False), second, ("org/second", "fp16", True)]


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
            drawn_by(build("sd2", copy))


def test_code_that_comes_with_a_model_is_not_run(copy):
    (copy / "pipeline.py").write_text("raise SystemExit('ran')")
    for name in ("SomebodysOwnPipeline", ["pipeline", "OwnPipeline"], None):
        rename_class(copy, name)
        with pytest.raises(ModelUnavailable, match="code that comes with a model is never run"):
            drawn_by(build("sd2", copy))


PARTS = ("text_encoder", "unet", "vae", "safety_checker")
READERS = {
    "captioner": BlipCaptioner,
    "answerer": BlipAnswerer,
    "language": TransformersLanguageModel,
    "clip": TransformersEncoder,
}


def without_one(tensors):
    del tensors[sorted(key for key in tensors if key.endswith("weight"))[3]]


def with_one_more(tensors):
    tensors["surplus.weight"] = torch.zeros(3)


def with_another_shape(tensors):
    key = next(key for key in sorted(tensors) if tensors[key].ndim == 2)
    tensors[key] = torch.zeros(2, 3)


def with_nan(tensors):
    key = sorted(key for key in tensors if tensors[key].is_floating_point())[0]
    tensors[key].view(-1)[0] = float("nan")


DAMAGES = {
    without_one: r"lacks 1 of its weights \(\S+weight\): .* not of one model",
    with_one_more: r"has 1 that this kind of model does not take \(surplus.weight\)",
    with_another_shape: r"has 1 of another shape \(\S+ is \[2, 3\], not \[\d+, \d+\]\)",
    with_nan: r"has NaN or infinity in its weights \(\S+\)",
}


@pytest.fixture
def pipeline(tiny_sd1, tmp_path):
    shutil.copytree(tiny_sd1, tmp_path / "pipeline")
    return tmp_path / "pipeline"


def draw(folder):
    model = build("sd1", folder, options={"batch_size": 1})
    return pixels(model.generate(rows_of("sd1", 1, num_inference_steps=1)))[0]


def refused(folder, says):
    """It is said in one line that the pipeline cannot be drawn with."""
    with pytest.raises(ModelUnavailable, match=says) as said:
        draw(folder)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("part", "damage"),
    [*product(("text_encoder", "unet"), DAMAGES), ("vae", without_one), ("safety_checker", with_one_more)],
)
def test_no_component_is_filled_up_or_left_over(pipeline, part, damage):
    change_weights(pipeline / part, damage)
    refused(pipeline, f"tiny-sd1: {part} {DAMAGES[damage]}")


@pytest.mark.parametrize(("role", "damage"), [*zip(READERS, DAMAGES, strict=True), ("clip", without_one)])
def test_no_reader_is_filled_up_or_left_over(role, damage, tmp_path):
    shutil.copytree(ASSETS / "calibration" / role, tmp_path / role)
    change_weights(tmp_path / role, damage)
    with pytest.raises(ModelUnavailable, match=f"mine {DAMAGES[damage]}") as said:
        READERS[role]("mine", str(tmp_path / role), device="cpu", offline=True).load()
    assert "\n" not in str(said.value)


def test_what_published_checkpoints_have_too_much_is_let_pass(pipeline):
    """Stable Diffusion 1.5 has position_ids; other repositories have the whole CLIP as text encoder."""
    before = draw(pipeline)

    def as_published(tensors):
        tensors["text_model.embeddings.position_ids"] = torch.arange(16)[None]
        tensors["vision_model.embeddings.class_embedding"] = torch.zeros(16)
        tensors["logit_scale"] = torch.tensor(2.0)

    change_weights(pipeline / "text_encoder", as_published)
    change_weights(
        pipeline / "safety_checker",
        lambda tensors: tensors.update({"vision_model.vision_model.embeddings.position_ids": torch.arange(17)[None]}),
    )
    np.testing.assert_array_equal(draw(pipeline), before)


def halved(folder, stem):
    """Only a variant of these weights, in half precision."""
    file = folder / f"{stem}.safetensors"
    tensors = {k: v.half() if v.is_floating_point() else v for k, v in safetensors.load_file(file).items()}
    file.unlink()
    safetensors.save_file(tensors, folder / f"{stem}.fp16.safetensors", metadata={"format": "pt"})


def test_a_folder_that_has_only_half_precision_is_read_but_plain_weights_come_first(pipeline):
    before = draw(pipeline)
    weights = pipeline / "unet" / "diffusion_pytorch_model.safetensors"
    nothing = {key: value * 0 for key, value in safetensors.load_file(weights).items()}
    safetensors.save_file(nothing, weights.with_suffix(".fp16.safetensors"))
    np.testing.assert_array_equal(draw(pipeline), before)
    for part in PARTS:
        halved(pipeline / part, "diffusion_pytorch_model" if part in ("unet", "vae") else "model")
    assert np.abs(draw(pipeline).astype(int) - before).max() <= 2


@pytest.mark.parametrize("role", ["captioner", "clip"])
def test_a_reader_that_has_only_half_precision_is_read(role, tmp_path):
    shutil.copytree(ASSETS / "calibration" / role, tmp_path / role)
    halved(tmp_path / role, "model")
    READERS[role]("mine", str(tmp_path / role), device="cpu", offline=True).load()


def test_shards_are_read_and_a_missing_one_is_named(pipeline):
    before = draw(pipeline)
    unet = diffusers.UNet2DConditionModel.from_pretrained(pipeline / "unet")
    shutil.rmtree(pipeline / "unet")
    unet.save_pretrained(pipeline / "unet", max_shard_size="20KB")
    np.testing.assert_array_equal(draw(pipeline), before)
    shards = sorted((pipeline / "unet").glob("*-of-*.safetensors"))
    assert len(shards) > 2
    shards[1].unlink()
    refused(pipeline, rf"unet lacks 1 of its {len(shards)} files of weights \({shards[1].name}\)")


def test_open_clip_reads_a_folder_or_a_file_of_ones_own(tiny_open_clip, services, pictures):
    from_folder = services.encoder(str(tiny_open_clip))
    also = services.encoder(f"open_clip:{tiny_open_clip}/")
    assert from_folder is also
    file = services.encoder(f"open_clip:tiny-test/{tiny_open_clip}/weights.pt")
    assert "@" in file.name
    assert file.name.endswith(services.encoder(f"open_clip:tiny-test/{tiny_open_clip}/arch/../weights.pt").name[-12:])
    rows = from_folder.encode_texts(["a man"]), file.encode_texts(["a man"])
    np.testing.assert_allclose(*rows, atol=1e-6)
    assert np.abs(from_folder.encode_images(pictures) - file.encode_images(pictures)).max() > 1e-4  # its mean
    said = {
        name: services.reader_facts("encoder", f"open_clip:{name}/{tiny_open_clip}/weights.pt").name
        for name in ("tiny-test", "ViT-B-32-quickgelu", "ViT-B-32")
    }
    assert [name for name, text in said.items() if "QuickGELU" in text] == ["ViT-B-32"]
    assert "its name is open_clip:ViT-B-32-quickgelu" in said["ViT-B-32"]


@pytest.mark.parametrize(("damage", "words"), [
    (without_one, r"Missing key\(s\) in state_dict: \"\S+weight\""),
    (with_one_more, r"Unexpected key\(s\) in state_dict: \"surplus.weight\""),
    (with_another_shape, "width changed"),
    (with_nan, "has NaN or infinity"),
])  # fmt: skip
def test_open_clip_takes_only_whole_weights(tiny_open_clip, tmp_path, damage, words):
    folder = tmp_path / "own"
    shutil.copytree(tiny_open_clip, folder)
    change_weights(folder, damage)
    with pytest.raises(ModelUnavailable, match=words) as said:
        OpenClipEncoder("mine", "", str(folder), device="cpu", offline=True).load()
    assert "\n" not in str(said.value)
    (folder / "open_clip_model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="without weights; put"):
        OpenClipEncoder("mine", "", str(folder), device="cpu", offline=True).load()


loader = Library("bias_core.models.pipeline_loader")

GB = 10**9
INFO = ModelInfo(id="org/big", name="big", family="sdxl", width=1024, height=1024)


class Recorder:
    """A pipeline of components with sizes in bytes, that notes what is done to it."""

    def __init__(self, **sizes):
        self.done, note = [], self.note
        self.vae = SimpleNamespace(enable_slicing=note("slicing"), enable_tiling=note("tiling"))
        self.enable_model_cpu_offload, self.enable_sequential_cpu_offload = note("offload"), note("sequential")
        self.components = {name: _module(size) for name, size in sizes.items()} | {"tokenizer": object()}

    def note(self, done):
        return partial(self.done.append, done)

    def to(self, device):
        self.done.append(f"to {device}")


def _module(n_bytes):
    tensor = SimpleNamespace(nbytes=n_bytes)
    return SimpleNamespace(parameters=lambda: [tensor], buffers=list)


@pytest.mark.parametrize(("free_gb", "done"), [
    (40, ["to cuda"]),  # 7 of weights and 6.3 to work with
    (13, ["to cuda", "slicing", "tiling"]),
    (6.5, ["offload", "slicing", "tiling"]),  # the largest component has 5
    (3, ["sequential", "slicing", "tiling"]),
])  # fmt: skip
def test_a_model_too_large_is_placed_in_parts(monkeypatch, caplog, free_gb, done):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free_gb * GB, 80 * GB))
    pipeline = Recorder(unet=5 * GB, text_encoder=2 * GB)
    placement = loader.put_on_device(pipeline, INFO, "cuda")
    assert pipeline.done == done
    assert bool(caplog.records) == (placement != "resident")


@pytest.mark.parametrize(("free_gb", "placement"), [(14, "resident"), (9, "tiled"), (8.5, "offload"), (6.5, "offload")])
def test_a_decoder_converted_to_float32_needs_more_memory(monkeypatch, free_gb, placement):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free_gb * GB, 80 * GB))
    sizes = {"unet": 5.14, "text_encoder": 0.25, "text_encoder_2": 1.39, "vae": 0.17}  # SDXL's
    pipeline = Recorder(**{name: int(size * GB) for name, size in sizes.items()})
    pipeline.upcast_vae, pipeline.vae.dtype = None, torch.float16
    pipeline.vae.config = SimpleNamespace(force_upcast=True)
    assert loader.put_on_device(pipeline, INFO, "cuda") == placement


def test_tiles_are_smaller_than_a_picture_of_1024_pixels(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (8 * GB, 80 * GB))
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    pipeline, sides = Recorder(unet=7 * GB), []
    pipeline.vae = diffusers.AutoencoderKL(block_out_channels=(4, 4), norm_num_groups=2, sample_size=1024, **blocks)
    pipeline.vae.decoder.register_forward_pre_hook(lambda _module, args: sides.append(args[0].shape[2:]))
    assert loader.put_on_device(pipeline, INFO, "cuda") == "tiled"
    with torch.inference_mode():
        assert pipeline.vae.decode(torch.zeros(1, 4, 300, 280)).sample.shape[2:] == (600, 560)
    assert len(sides) > 1
    assert max(map(max, sides)) == 256  # of 512 pixels


def test_more_room_never_places_a_model_in_smaller_parts_and_none_for_a_layer_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (GB, 8 * GB))
    with pytest.raises(ModelUnavailable, match=r"7\.0 GB of weights.*1\.0 GB free.*BIAS_DEVICE=cpu"):
        loader.put_on_device(Recorder(unet=5 * GB, text_encoder=2 * GB), INFO, "cuda")
    order = ("resident", "tiled", "offload", "sequential", None)
    sizes = {"unet": 5 * GB, "text_encoder": 2 * GB}
    places = [order.index(loader.plan_placement(sizes, free=gb * GB, pixels=1 << 20)) for gb in range(24)]
    assert places == sorted(places, reverse=True)
    assert set(places) == set(range(5))


def test_sizes_are_those_of_the_weights(tiny_sd1):
    pipeline = loader.load_pipeline(ModelInfo(id="x", name="x", family="sd1"), str(tiny_sd1), device="cpu")
    sizes = loader.component_sizes(pipeline)
    assert {"unet", "vae", "text_encoder"} <= set(sizes)
    assert sizes["unet"] == sum(4 * tensor.numel() for tensor in pipeline.unet.parameters())


def test_what_cannot_be_held_is_refused_before_it_is_read(tiny_sd1, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_sd1, folder)
    with (folder / "unet" / "huge.safetensors").open("wb") as file:
        file.truncate(200 * GB)  # a sparse file: takes no room on the disk
    monkeypatch.setattr("bias_core.models.pipeline_loader.free_memory", lambda: 20 * GB)
    with pytest.raises(ModelUnavailable, match=r"needs 200\.0 GB .* has 20\.0 GB free; choose a smaller"):
        loader.load_pipeline(ModelInfo(id="x", name="x", family="sd1"), str(folder), device="cpu")
    with pytest.raises(ModelUnavailable, match=r"needs 34\.0 GB"):
        loader.check_memory(ModelInfo(id="org/flux", name="x", family="flux", download_gb=34), Path("org/flux"))
    loader.check_memory(ModelInfo(id="org/flux", name="x", family="flux", download_gb=19), Path("org/flux"))


@every([
    ("sd1", {}, "cpu", "float32"), ("sd1", {}, "cuda", "float16"), ("flux", {}, "cuda", "bfloat16"),
    ("diffusers", {}, "cuda", "bfloat16"), ("sd1", {"dtype": "float32"}, "cuda", "float32"),
    ("flux", {"dtype": "bfloat16"}, "cpu", "float32"),
])  # fmt: skip
def test_precision_suits_the_device(family, options, device, expected):
    assert loader.dtype_name(ModelInfo(id="x", name="x", family=family, options=options), device) == expected


@every([True, False])
def test_convolutions_are_laid_out_for_the_gpu_and_compiled_only_when_asked(compiled):
    done = []
    pipeline = SimpleNamespace(transformer=None)
    for name in ("unet", "vae"):
        layer = torch.nn.Conv2d(4, 8, 3)
        layer._repeated_blocks, layer.compile_repeated_blocks = ("Block",), partial(done.append, name)
        setattr(pipeline, name, layer)
    loader.speed_up(pipeline, compiled=compiled)
    assert pipeline.unet.weight.is_contiguous(memory_format=torch.channels_last)
    assert done == ["unet"] * compiled
