"""All encoders keep the same promises: float32 unit rows, order kept, culprits named."""

import shutil
import socket
from importlib.metadata import version

import numpy as np
import pytest
import yaml
from packaging.version import Version
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.installed import ASSETS
from bias_core.models.encoders import OpenClipEncoder, TransformersEncoder
from tests.every import every
from tests.models.tiny_parts import small_tokenizer, torch

SIGLIP_TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
               "vocab_size": 13, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2,
               "pad_token_id": 0, "projection_size": 16}  # fmt: skip
SIGLIP_VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def tiny_siglip(tmp_path_factory):
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    folder = tmp_path_factory.mktemp("siglip")
    torch.manual_seed(0)
    vision = SIGLIP_VISION | {"image_size": 32, "patch_size": 8}
    SiglipModel(SiglipConfig(text_config=SIGLIP_TEXT, vision_config=vision)).save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    SiglipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny_siglip2(tmp_path_factory):
    """The kind that keeps a picture's proportions: it reads patches, their mask and their grid."""
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model, Siglip2Tokenizer

    folder = tmp_path_factory.mktemp("siglip2")
    torch.manual_seed(0)
    vision = SIGLIP_VISION | {"num_patches": 16, "patch_size": 8}
    Siglip2Model(Siglip2Config(text_config=SIGLIP_TEXT | {"vocab_size": 40}, vision_config=vision)).save_pretrained(
        folder
    )
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Siglip2Tokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[])
    tokenizer.save_pretrained(folder)
    Siglip2ImageProcessor(patch_size=8, max_num_patches=16).save_pretrained(folder)
    return folder


KINDS = ["clip", "dual encoder", "siglip", "siglip2", "open_clip"]


@pytest.fixture(scope="module")
def build(tiny_clip, tiny_dual_encoder, tiny_siglip, tiny_siglip2, tiny_open_clip):
    """Makes an encoder of a kind with options of one's own."""
    folders = {"clip": tiny_clip, "dual encoder": tiny_dual_encoder, "siglip": tiny_siglip,
               "siglip2": tiny_siglip2}  # fmt: skip

    def make(kind, **options):
        options = {"device": "cpu", "offline": True} | options
        if kind == "open_clip":
            return OpenClipEncoder("tiny", "tiny-test", str(tiny_open_clip / "weights.pt"), **options)
        return TransformersEncoder("tiny", str(folders[kind]), **options)

    return make


@pytest.fixture(scope="module", params=KINDS)
def encoder(request, build):
    return build(request.param)


def test_rows_are_float32_of_unit_length_in_one_space_and_do_not_depend_on_company(encoder, pictures):
    images = encoder.encode_images(pictures)
    texts = encoder.encode_texts(["a photo of a doctor", "a man", "a photo of a nurse"])
    assert images.dtype == texts.dtype == np.float32
    assert images.shape == (7, texts.shape[1])
    assert len(texts) == 3
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(pictures[2:3])[0], images[2], atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(["a man"])[0], texts[1], atol=1e-5)
    assert np.isfinite(encoder.encode_texts(["word " * 3000, "医生 👩‍⚕️"])).all()  # long, and foreign
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 0)
    encoder.unload()
    assert not encoder.loaded
    encoder.load()
    assert encoder.loaded
    np.testing.assert_array_equal(encoder.encode_images(pictures), images)


def test_it_says_without_weights_what_it_does_not_read_of_a_text(build):
    limits = {}
    for kind in KINDS:
        encoder = build(kind)
        short, long = encoder.prompt_limits(["a man", "man " * 100 + "doctor"])
        assert (short.cut, short.limit) == ("", long.limit), kind
        assert long.cut.endswith("doctor"), kind
        assert not encoder.loaded
        limits[kind] = long.limit
        assert long.n_tokens > long.limit, kind
    assert min(limits.values()) > 4


def test_nan_names_the_picture(tiny_clip, pictures):
    encoder = TransformersEncoder("tiny", str(tiny_clip), device="cpu")
    with torch.no_grad():
        encoder._parts()[0].visual_projection.weight.fill_(float("nan"))
    with pytest.raises(InvalidInput, match="image 1 of 7"):
        encoder.encode_images(pictures)


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_hardly_moves_a_cosine(build, kind, pictures):
    single, half = build(kind), build(kind, precision="half")
    texts = ["a man", "a photo of a doctor"]
    whole = single.encode_images(pictures) @ single.encode_texts(texts).T
    rounded = half.encode_images(pictures) @ half.encode_texts(texts).T
    assert not np.array_equal(whole, rounded)  # else nothing was tried
    # Kernels for half precision on a CPU, where the app does not use it, round more before torch 2.12.
    np.testing.assert_allclose(whole, rounded, atol=4e-3 if Version(version("torch")) < Version("2.12") else 2e-3)


def test_half_precision_is_for_a_gpu_and_what_it_cannot_hold_is_read_in_single(build, pictures):
    single = build("clip", precision="single").encode_images(pictures)
    np.testing.assert_array_equal(build("clip").encode_images(pictures), single)
    encoders = build("clip"), build("clip", precision="half")
    for one in encoders:
        with torch.no_grad():
            one._parts()[0].visual_projection.weight.mul_(1e6)  # float16 ends at 65504
    single, half = (one.encode_images(pictures) for one in encoders)
    np.testing.assert_array_equal(single, half)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_prepared_as_the_model_asks(build, kind):
    """Threads and batches change nothing: pictures of any size are read as by the bare library."""
    rng = np.random.default_rng(1)
    sizes = [(40, 64), (32, 32), (90, 41), (64, 40), (33, 57)]
    shown = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]
    encoder = build(kind, batch_size=2)
    model, prepare, _, _ = encoder._parts()
    bare = []
    with torch.inference_mode():
        for image in shown:
            if kind == "open_clip":
                features = model.encode_image(prepare(image)[None])
            else:
                features = model.get_image_features(**prepare(images=image, return_tensors="pt"))
            features = getattr(features, "pooler_output", features)
            bare.append((features / features.norm()).numpy()[0])
    np.testing.assert_allclose(encoder.encode_images(shown), np.stack(bare), atol=1e-5)


def small_device(encoder, holds):
    """The encoder on a device whose memory holds that many inputs at once; notes the batches tried."""
    tried, real = [], encoder._parts()[0].get_image_features

    def get_image_features(**inputs):
        tried.append(len(inputs["pixel_values"]))
        if tried[-1] > holds:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(**inputs)

    encoder._parts()[0].get_image_features = get_image_features
    return tried


def test_batches_halve_until_memory_holds_them_and_a_picture_too_large_is_said(build, pictures):
    encoder, expected = build("clip", batch_size=8), build("clip").encode_images(pictures)
    tried = small_device(encoder, holds=2)
    np.testing.assert_allclose(encoder.encode_images(pictures), expected, atol=1e-6)
    assert tried == [7, 3, 1] + [1] * 6  # 7 // 2 = 3, 3 // 2 = 1
    tried.clear()
    encoder.encode_images(pictures[:2])
    assert tried == [1, 1]  # what was learned is kept
    small_device(encoder, holds=0)
    with pytest.raises(ModelUnavailable, match=r"tiny ran out of memory at a single input; .* BIAS_DEVICE=cpu"):
        encoder.encode_images(pictures)


@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_siglip_reads_small_letters(build, kind):
    encoder = build(kind)
    capital, small, other = encoder.encode_texts(["A Photo OF", "a photo of", "a man"])
    np.testing.assert_array_equal(capital, small)
    assert np.abs(small - other).max() > 1e-3


def catalogued():
    entries = yaml.safe_load((ASSETS / "models.yaml").read_text())["encoders"]
    return [entry for entry in entries if not entry.get("embedded")]


@every(catalogued())
def test_every_listed_encoder_says_what_it_downloads_and_open_clip_knows_its_weights(entry):
    import open_clip

    assert 0.1 < entry["download_gb"] < 20
    if entry["library"] == "open_clip":
        assert entry["id"] == f"open_clip:{entry['path']}"
        assert tuple(entry["path"].split("/")) in open_clip.list_pretrained()


class Hub:
    """A hub with some files of one repository; notes what it was asked for."""

    def __init__(self, files, error=None):
        self.files, self.error, self.asked = files, error, []

    def __call__(self, repo, file, *, local_files_only=False):
        from huggingface_hub.errors import EntryNotFoundError

        self.asked.append((repo, file, local_files_only))
        if self.error is not None:
            raise self.error
        if file not in self.files:
            raise EntryNotFoundError(f"no {file}")
        return str(self.files[file])


@pytest.fixture
def hub(monkeypatch, tmp_path, tiny_open_clip):
    """Weights that were trained with QuickGELU and another normalisation than usual, on a hub of ours."""
    import huggingface_hub
    import open_clip
    from safetensors.torch import save_file

    safe, pickled = tmp_path / "open_clip_model.safetensors", tmp_path / "open_clip_pytorch_model.bin"
    save_file(open_clip.factory.load_state_dict(str(tiny_open_clip / "weights.pt")), safe)
    shutil.copy(tiny_open_clip / "weights.pt", pickled)
    tag = {"hf_hub": "org/repo/", "quick_gelu": True, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.5, 0.5),
           "interpolation": "bilinear", "resize_mode": "squash"}  # fmt: skip
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny-test", {"openai": tag})
    hub = Hub({safe.name: safe, pickled.name: pickled})
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub)
    torch.manual_seed(0)
    return hub


def test_openai_weights_get_the_activation_they_were_trained_with(hub, pictures):
    import open_clip

    encoder = OpenClipEncoder("x", "tiny-test", "openai", device="cpu")
    rows = encoder.encode_images(pictures)  # open_clip's warning of a mismatch would fail here
    assert hub.asked == [("org/repo", "open_clip_model.safetensors", False)]

    def bare(quick):
        model, _, prepare = open_clip.create_model_and_transforms(
            "tiny-test", str(hub.files["open_clip_pytorch_model.bin"]), force_quick_gelu=quick,
            image_mean=(0.1, 0.2, 0.3), image_std=(0.5, 0.5, 0.5),
            image_interpolation="bilinear", image_resize_mode="squash",
        )  # fmt: skip
        with torch.inference_mode():
            found = model.eval().encode_image(torch.stack([prepare(image) for image in pictures]))
        return (found / found.norm(dim=1, keepdim=True)).numpy()

    np.testing.assert_allclose(rows, bare(True), atol=1e-5)
    assert np.abs(rows - bare(False)).max() > 1e-5


def test_a_pickled_state_dict_is_the_second_choice_and_never_run(hub, tmp_path):
    del hub.files["open_clip_model.safetensors"]
    encoder = OpenClipEncoder("x", "tiny-test", "openai", device="cpu")
    encoder.load()
    assert [file for _, file, _ in hub.asked] == ["open_clip_model.safetensors", "open_clip_pytorch_model.bin"]
    marker = tmp_path / "ran"
    hub.files["open_clip_pytorch_model.bin"].write_bytes(
        b"\x80\x02cbuiltins\nopen\n(X" + len(str(marker)).to_bytes(4, "little") + str(marker).encode()
        + b"X\x01\x00\x00\x00wtR."
    )  # fmt: skip
    encoder.unload()
    with pytest.raises(ModelUnavailable, match="x cannot be loaded"):
        encoder.load()
    assert not marker.exists()


def hub_error(kind, message):
    import httpx2
    from huggingface_hub import errors

    request = httpx2.Request("GET", "https://hub.example/org/repo")
    return getattr(errors, kind)(message, response=httpx2.Response(403, request=request))


def test_what_a_hub_refuses_is_said_with_what_to_do_and_offline_only_the_cache_is_asked(hub):
    from huggingface_hub.errors import LocalEntryNotFoundError

    OpenClipEncoder("x", "tiny-test", "openai", device="cpu", offline=True).load()
    assert [local for _, _, local in hub.asked] == [True]
    for offline, error, said in (
        (False, hub_error("GatedRepoError", "403 Client Error"), r"consent; accept their terms .*HF_TOKEN"),
        (False, LocalEntryNotFoundError("neither"), r"the hub was not reached; check the network \(and BIAS_OFFLINE\)"),
        (True, LocalEntryNotFoundError("nothing"), r"x is not on this machine, .*BIAS_OFFLINE forbids"),
    ):
        hub.error = error
        with pytest.raises(ModelUnavailable, match=said):
            OpenClipEncoder("x", "tiny-test", "openai", device="cpu", offline=offline).load()


def test_offline_nobody_is_asked(monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for encoder in (
        TransformersEncoder("x", "no-such/clip", offline=True),
        OpenClipEncoder("x", "ViT-B-32", "openai", offline=True),
        OpenClipEncoder("x", "ViT-B-16-SigLIP", "webli", offline=True),
    ):
        with pytest.raises(ModelUnavailable, match="BIAS_OFFLINE"):
            encoder.encode_texts(["x"])


def test_a_pickle_is_never_opened(tmp_path, tiny_clip):
    for file in tiny_clip.iterdir():
        if file.suffix != ".safetensors" and file.is_file():
            shutil.copy(file, tmp_path)
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"no weights in safetensors.* never opened here"):
        TransformersEncoder("x", str(tmp_path), device="cpu").load()


def test_unknown_architectures_and_weights_are_said():
    with pytest.raises(ModelUnavailable, match="no architecture 'ViT-Z-99'"):
        OpenClipEncoder("x", "ViT-Z-99", "openai").encode_texts(["x"])
    with pytest.raises(ModelUnavailable, match=r"no weights 'nonsense' for RN50x64; it has openai"):
        OpenClipEncoder("x", "RN50x64", "nonsense").encode_texts(["x"])
