"""Folders of models in every state of disrepair: one sentence each, never a number and never a traceback."""

import json
import shutil
from itertools import cycle

import pytest

from bias_core.errors import BiasCoreError
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from tests.explored import plan_explore
from tests.models.tiny_parts import change_weights, safetensors, torch
from tests.shared import command_line


def change_json(folder, file, **changes):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def weights(folder):
    (file,) = folder.glob("*.safetensors")
    return file


def cut(path, n_bytes):
    path.write_bytes(path.read_bytes()[:n_bytes])


def to_pickle(folder):
    torch.save(safetensors.load_file(weights(folder)), folder / "pytorch_model.bin")
    weights(folder).unlink()


def loop(path):
    path.unlink()
    path.symlink_to(path)


def as_integers(tensors):
    tensors.update({key: value.to(torch.int32) for key, value in tensors.items()})


def infinite(tensors):
    for value in tensors.values():
        value.view(-1)[:1] = float("inf") if value.is_floating_point() else 0


# The folder -> what is wrong with it.
PIPELINES = {
    "no model_index": lambda f: (f / "model_index.json").unlink(),
    "model_index is no JSON": lambda f: (f / "model_index.json").write_text("{"),
    "model_index is a list": lambda f: (f / "model_index.json").write_text("[]"),
    "model_index is empty": lambda f: (f / "model_index.json").write_text(""),
    "model_index is not text": lambda f: (f / "model_index.json").write_bytes(b"\xff\xfe\x00"),
    "no class name": lambda f: (f / "model_index.json").write_text("{}"),
    "unknown pipeline": lambda f: change_json(f, "model_index.json", _class_name="NoSuchPipeline"),
    "unknown component": lambda f: change_json(f, "model_index.json", unet=["diffusers", "NoSuchUNet"]),
    "unknown library": lambda f: change_json(f, "model_index.json", unet=["nolib", "UNet2DConditionModel"]),
    "wrong component": lambda f: change_json(f, "model_index.json", unet=["diffusers", "AutoencoderKL"]),
    "entry of three": lambda f: change_json(f, "model_index.json", unet=["diffusers", "x", "y"]),
    "no unet": lambda f: shutil.rmtree(f / "unet"),
    "no vae": lambda f: shutil.rmtree(f / "vae"),
    "no tokenizer": lambda f: shutil.rmtree(f / "tokenizer"),
    "empty tokenizer": lambda f: [path.unlink() for path in (f / "tokenizer").iterdir()],
    "broken tokenizer": lambda f: (f / "tokenizer" / "tokenizer.json").write_text('{"version": "1.0"}'),
    "tokenizer is no JSON": lambda f: (f / "tokenizer" / "tokenizer.json").write_text("{"),
    "no scheduler": lambda f: shutil.rmtree(f / "scheduler"),
    "empty scheduler": lambda f: (f / "scheduler" / "scheduler_config.json").unlink(),
    "scheduler of words": lambda f: change_json(f / "scheduler", "scheduler_config.json", beta_start="x"),
    "unknown schedule": lambda f: change_json(f / "scheduler", "scheduler_config.json", beta_schedule="x"),
    "no config": lambda f: (f / "unet" / "config.json").unlink(),
    "config is no JSON": lambda f: (f / "text_encoder" / "config.json").write_text("not json"),
    "config is a list": lambda f: (f / "unet" / "config.json").write_text("[1]"),
    "config of another": lambda f: shutil.copy(f / "vae" / "config.json", f / "unet" / "config.json"),
    "config of other size": lambda f: change_json(f / "text_encoder", "config.json", hidden_size=32),
    "config without heads": lambda f: change_json(f / "text_encoder", "config.json", num_attention_heads=0),
    "config of words": lambda f: change_json(f / "text_encoder", "config.json", hidden_size="many"),
    "fewer layers": lambda f: change_json(f / "text_encoder", "config.json", num_hidden_layers=1),
    "no weights": lambda f: weights(f / "unet").unlink(),
    "cut weights": lambda f: cut(weights(f / "unet"), 4000),
    "cut header": lambda f: cut(weights(f / "text_encoder"), 30),
    "zero bytes": lambda f: cut(weights(f / "vae"), 0),
    "not weights": lambda f: weights(f / "vae").write_text("<html>404</html>" * 20),
    "a pickle": lambda f: to_pickle(f / "text_encoder"),
    "integers": lambda f: change_weights(f / "unet", as_integers),
    "infinity": lambda f: change_weights(f / "vae", infinite),
    "a loop": lambda f: loop(weights(f / "unet")),
    "a link to nowhere": lambda f: (
        weights(f / "unet").rename(f / "x"),
        (f / "unet" / "a.safetensors").symlink_to("y"),
    ),
    "a folder for a file": lambda f: (path := weights(f / "unet"), path.unlink(), path.mkdir()),
    "no folder": shutil.rmtree,
}
READERS = {
    "no config": lambda f: (f / "config.json").unlink(),
    "config is no JSON": lambda f: (f / "config.json").write_text("{"),
    "config is empty": lambda f: (f / "config.json").write_text("{}"),
    "unknown kind": lambda f: change_json(f, "config.json", model_type="nothing", architectures=["Nothing"]),
    "another kind": lambda f: (f / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 1}'),
    "no weights": lambda f: weights(f).unlink(),
    "cut weights": lambda f: cut(weights(f), 4000),
    "zero bytes": lambda f: cut(weights(f), 0),
    "a pickle": to_pickle,
    "infinity": lambda f: change_weights(f, infinite),
    "no tokenizer": lambda f: [path.unlink() for path in f.glob("tokenizer*")],
    "tokenizer of no kind": lambda f: change_json(f, "tokenizer.json", model={"type": "X", "vocab": {"a": 1}}),
    "tokenizer beyond its words": lambda f: change_json(
        f, "tokenizer.json", model={"type": "BPE", "vocab": {"a": 0}, "merges": [["b", "c"]]}
    ),
    "no picture processor": lambda f: [path.unlink() for path in f.glob("*processor_config.json")],
    "broken tokenizer": lambda f: (f / "tokenizer.json").write_text('{"version": "1.0"}'),
    "tokenizer is no JSON": lambda f: (f / "tokenizer.json").write_text("{"),
    "empty folder": lambda f: [path.unlink() for path in f.iterdir()],
}
ROLES = {"clip": "encoder", "captioner": "captioner", "answerer": "answerer", "language": "language_model"}
# One kind of reader for each damage: they are read by the same few lines.
KINDS = dict(zip(READERS, cycle(ROLES), strict=False)) | {
    "unknown kind": "clip",
    "no tokenizer": "captioner",
    "no picture processor": "answerer",
    "tokenizer of no kind": "language",
}


@pytest.fixture
def folder(tiny_sd1, tmp_path):
    shutil.copytree(tiny_sd1, tmp_path / "mine")
    return tmp_path / "mine"


def draw(services, folder):
    settings = explore_settings(
        concept="doctor", model=str(folder), condition="", n_images=2, num_inference_steps=1, force=True
    )
    for _ in services.draw(plan_explore(settings, services).rows[:1]):
        pass


@pytest.mark.parametrize("damage", PIPELINES)
def test_a_damaged_pipeline_ends_in_a_sentence(services, folder, damage):
    PIPELINES[damage](folder)
    with pytest.raises(BiasCoreError) as said:
        draw(services, folder)
    check_sentence(str(said.value))


@pytest.mark.parametrize("damage", READERS)
def test_a_damaged_reader_ends_in_a_sentence(services, tmp_path, damage):
    folder, kind = tmp_path / "mine", KINDS[damage]
    shutil.copytree(ASSETS / "calibration" / kind, folder)
    READERS[damage](folder)
    with pytest.raises(BiasCoreError) as said:
        getattr(services, ROLES[kind])(str(folder)).load()
    check_sentence(str(said.value))


def check_sentence(text):
    assert "\n" not in text
    assert "mine" in text
    assert "--force" not in text  # what is refused is the folder
    assert 30 < len(text) < 800
    for word in ("Traceback", "<class", "object at 0x", "NoneType"):
        assert word not in text


@pytest.mark.parametrize("damage", ["model_index is no JSON", "no unet", "cut weights", "infinity"])
def test_the_command_line_says_it_in_a_line_and_gives_no_number(folder, tmp_path, assets, damage):
    PIPELINES[damage](folder)
    command = command_line(tmp_path / "data", assets)
    read = ("--encoder", "calibration-clip", "--force")
    said = command("explore", "doctor", "--model", str(folder), "--condition", "", "-n", "2", *read)
    assert said.exit_code == 2, said.stderr
    assert said.stdout == ""
    (line,) = [line for line in said.stderr.splitlines() if "Error: " in line]
    check_sentence(line)
    assert "Traceback" not in said.stderr
