import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bias_core import __version__
from bias_core.app.cli import app

SECRETS = {
    "HF_TOKEN": "hf_abc", "BIAS_IMAGES_KEY": "sk-1", "BIAS_LLM_URL": "http://ann:pw@host/v1", "BIAS_LLM_KEY": "key-2",
    "BIAS_LABELS_URL": "sqlite:///hidden.db", "HTTPS_PROXY": "http://127.0.0.1:9/?password=3",
}  # fmt: skip


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("BIAS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("BIAS_OFFLINE", "1")
    return monkeypatch


def facts(*arguments):
    answer = CliRunner().invoke(app, ["env", "--json", *arguments])
    return answer.exit_code, answer.stdout


def test_settings_that_differ_are_named_and_secrets_only_as_set(environment):
    for name, value in (SECRETS | {"BIAS_CACHE_GB": "3"}).items():
        environment.setenv(name, value)
    _, text = facts()
    differ = json.loads(text)["settings that differ"]
    assert {name: differ.get(name) for name in SECRETS} == dict.fromkeys(SECRETS, "set")
    assert differ["BIAS_CACHE_GB"] == "3.0"
    assert differ["BIAS_DATA_DIR"] == "~/data"
    assert not [value for value in (*SECRETS.values(), "pw", "hidden", str(Path.home())) if value in text]


def test_versions_machine_models_and_hub_are_described(environment):
    code, text = facts()
    found = json.loads(text)
    assert code == 0
    assert found["program"]["t2i-bias-explorer"] == __version__
    assert {"torch", "gradio", "pandas"} <= set(found["libraries"])
    assert found["models"]["calibration-diffusion"] == "embedded"
    assert "cannot be used" in found["models"]["stable-diffusion-v1-5"]
    assert found["data"]["hub"] == "not asked (BIAS_OFFLINE)"


def test_a_gpu_that_torch_does_not_see_is_named(environment):
    import torch

    from bias_core.models import model_sources

    machine = model_sources.Machine(memory=8 * 10**9, gpu_memory=24 * 10**9, gpu="A card")
    environment.setattr(model_sources, "get_machine", lambda: machine)
    environment.setattr(torch.cuda, "is_available", lambda: False)
    found = json.loads(facts()[1])["machine"]
    assert found["GPU"] == "A card, 24 GB"
    assert "install torch for CUDA" in found["torch sees"]


def test_a_check_draws_and_classifies_or_says_what_did_not_work(environment):
    code, text = facts("--check", "--model", "calibration-renderer")
    took = json.loads(text)["check"]
    assert code == 0
    assert took["encoder"] == "calibration-clip"
    assert all(took[f"{which} picture {what}"].endswith(" s")
               for which in ("first", "second") for what in ("drawn", "classified"))  # fmt: skip
    code, text = facts("--check", "--model", "stable-diffusion-v1-5")
    assert code == 1
    assert "not on this machine" in json.loads(text)["check"]["did not work"]
