"""Whether a model fits, and how it is placed so that it does."""

import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from bias_core.errors import ModelUnavailable
from bias_core.types import ModelInfo
from tests.adapters.tiny_parts import Library, torch
from tests.every import every

loader = Library("bias_core.adapters.pipeline_loader")

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
    monkeypatch.setattr("bias_core.adapters.pipeline_loader.free_memory", lambda: 20 * GB)
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
