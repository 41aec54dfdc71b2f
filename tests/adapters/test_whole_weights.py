"""Weights that are not whole are refused by name; what published checkpoints have too much is let pass."""

import shutil
from itertools import product

import numpy as np
import pytest

from bias_core.adapters.readers.encoders import OpenClipEncoder, TransformersEncoder
from bias_core.adapters.readers.generators import BlipAnswerer, BlipCaptioner, TransformersLanguageModel
from bias_core.errors import ModelUnavailable
from bias_core.settings import ASSETS
from tests.adapters.families import build, pixels, rows_of
from tests.adapters.tiny_parts import change_weights, diffusers, safetensors, torch

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
    return pixels(build("sd1", folder).generate(rows_of("sd1", 1, num_inference_steps=1)))[0]


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


def test_many_keys_are_counted_and_some_are_named(pipeline):
    change_weights(pipeline / "unet", lambda tensors: [tensors.pop(key) for key in list(tensors) if "attn2" in key])
    refused(pipeline, r"unet lacks 2\d of its weights \(\S+, \S+, \S+, \.\.\.\)")


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
    with pytest.raises(ModelUnavailable, match="no weights beside it"):
        OpenClipEncoder("mine", "", str(folder), device="cpu", offline=True).load()
