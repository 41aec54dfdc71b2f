"""All encoders keep the same promises: float32 unit rows, order kept, culprits named."""

from __future__ import annotations

import numpy as np
import pytest

from bias_core.adapters.open_clip_encoder import OpenClipEncoder
from bias_core.adapters.transformers_clip import TransformersEncoder
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.protocols import ImageTextEncoder


@pytest.fixture(scope="module")
def tiny_open_clip(tmp_path_factory):
    import json

    import open_clip
    import torch

    folder = tmp_path_factory.mktemp("open_clip")
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    (folder / "tiny-test.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    model = open_clip.create_model("tiny-test")
    torch.save(model.state_dict(), folder / "weights.pt")
    return str(folder / "weights.pt")


@pytest.fixture(params=["clip", "dual encoder", "open_clip"])
def encoder(request, tiny_clip, tiny_dual_encoder, tiny_open_clip):
    if request.param == "clip":
        return TransformersEncoder("tiny", str(tiny_clip), device="cpu", offline=True)
    if request.param == "dual encoder":
        return TransformersEncoder("tiny", str(tiny_dual_encoder), device="cpu", offline=True)
    return OpenClipEncoder("tiny", "tiny-test", tiny_open_clip, device="cpu", offline=True)


def test_it_fills_the_role(encoder):
    assert isinstance(encoder, ImageTextEncoder)


def test_rows_are_float32_of_unit_length_in_one_space(encoder, pictures):
    images = encoder.encode_images(pictures)
    texts = encoder.encode_texts(["a photo of a doctor", "a man", "a photo of a nurse"])
    assert images.dtype == texts.dtype == np.float32
    assert images.shape == (7, texts.shape[1])
    assert len(texts) == 3
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)


def test_rows_do_not_depend_on_company(encoder, pictures):
    together = encoder.encode_images(pictures)
    np.testing.assert_allclose(encoder.encode_images(pictures[2:3])[0], together[2], atol=1e-5)
    texts = ["a man", "a photo of a doctor"]
    np.testing.assert_allclose(encoder.encode_texts(texts[:1])[0], encoder.encode_texts(texts)[0], atol=1e-5)


def test_long_and_foreign_texts_are_embedded(encoder):
    rows = encoder.encode_texts(["word " * 3000, "医生 👩‍⚕️"])
    assert np.isfinite(rows).all()


def test_nan_names_the_picture(tiny_clip, pictures):
    import torch

    encoder = TransformersEncoder("tiny", str(tiny_clip), device="cpu")
    with torch.no_grad():
        encoder._parts()[0].visual_projection.weight.fill_(float("nan"))
    with pytest.raises(InvalidInput, match="image 1 of 7"):
        encoder.encode_images(pictures)


@pytest.mark.parametrize("source", ["/nowhere/at/all", "empty folder"])
def test_missing_weights_are_said(source, tmp_path):
    folder = str(tmp_path) if source == "empty folder" else source
    with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
        TransformersEncoder("ghost", folder, offline=True).encode_texts(["x"])


def test_an_unknown_architecture_is_said():
    with pytest.raises(ModelUnavailable, match="no architecture 'ViT-Z-99'"):
        OpenClipEncoder("x", "ViT-Z-99", "openai").encode_texts(["x"])


def test_offline_asks_no_hub():
    with pytest.raises(ModelUnavailable, match="BIAS_OFFLINE"):
        OpenClipEncoder("x", "ViT-B-32", "openai", offline=True).encode_texts(["x"])
