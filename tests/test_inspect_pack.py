"""Inside of inspect_ai: our generators as a provider of models, our readers as scorers, intervals among the metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.explore.study import explore

ROOT = Path(__file__).parent.parent
INSPECT = Path(sys.prefix) / "inspect"  # where the Makefile puts inspect_ai, whose pydantic is not Gradio's
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The metadata that an installation of the project leaves, so that inspect_ai finds its pack."""
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / f"t2i_bias_explorer-{PROJECT['version']}.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n"
    (metadata / "METADATA").write_text(head)
    points = PROJECT["entry-points"]["inspect_ai"].items()
    (metadata / "entry_points.txt").write_text("[inspect_ai]\n" + "".join(f"{k} = {v}\n" for k, v in points))
    return folder


def beside_inspect(folder, *words, site=""):
    """What Python says where inspect_ai can be imported."""
    if not INSPECT.exists():
        pytest.skip("inspect_ai is not installed (make test does)")
    paths = os.pathsep.join(filter(None, [str(INSPECT), str(site), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    settings = {"PYTHONPATH": paths, "BIAS_DATA_DIR": str(folder / "data"), "BIAS_OFFLINE": "true"}
    command, env = [sys.executable, *words], os.environ | settings
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def evaluated(installed, folder, *words):
    """The log of ``inspect eval``."""
    log_to = ("--log-dir", str(folder / "logs"), "--log-format", "json", "--display", "none")
    task = ("-m", "inspect_ai", "eval", "bias_core/perceived_attribute")
    done = beside_inspect(folder, *task, *words, *log_to, site=installed)
    (log,) = (folder / "logs").glob("*.json") if done.returncode == 0 else [None]
    assert log, done.stdout + done.stderr
    values = json.loads(log.read_text())
    assert values["status"] == "success", values["error"]
    return values


def test_four_pictures_are_drawn_read_and_counted_with_an_interval(installed, tmp_path):
    log = evaluated(
        installed, tmp_path, "--model", "t2i/calibration-renderer", "-M", "condition=fair", "-T", "concept=nurse",
        "-T", "n=4",
    )  # fmt: skip
    values = [sample["scores"]["perceived"]["value"] for sample in log["samples"]]
    (score,) = log["results"]["scores"]
    metrics = {name: one["value"] for name, one in score["metrics"].items()}
    assert len(values) == 4
    assert metrics["mean"] == sum(values) / 4
    assert 0 <= metrics["lower"] < metrics["upper"] <= 1
    assert metrics["lower"] <= metrics["mean"] <= metrics["upper"]
    for sample in log["samples"]:
        drawn, said = sample["output"]["metadata"]["drawn"], sample["scores"]["perceived"]["metadata"]
        assert (drawn["condition"], drawn["seed"]) == ("fair", sample["metadata"]["seed"])
        assert 0.5 < said["reader_errors"]["sensitivity"] <= 1
    # The program itself says the same of these pictures.
    services = Services(Settings(data_dir=tmp_path / "own"))
    how = {"model": "calibration-renderer", "condition": "fair", "attributes": ("man",), "n_images": 4}
    own = explore("nurse", services, attribute_a="", attribute_b="", **how)
    services.close()
    assert own.attributes[0].prevalence.value == metrics["mean"]


def test_samples_come_from_a_pack_each_on_its_own_seed(installed, tmp_path):
    (tmp_path / "p.csv").write_text("prompt,group,n\na photo of a nurse,care,1\na photo of a farmer,land,\n")
    words = ("-T", "prompts=p.csv", "-T", "n=2", "-T", "seed=5", "-T", "attribute=glasses")
    log = evaluated(installed, tmp_path, "--model", "t2i/calibration-renderer", *words)
    samples = {
        (one["input"], one["metadata"]["group"], one["output"]["metadata"]["drawn"]["seed"]) for one in log["samples"]
    }
    assert samples == {
        ("a photo of a nurse", "care", 5), ("a photo of a farmer", "land", 5), ("a photo of a farmer", "land", 6),
    }  # fmt: skip


_SCORED = """
import asyncio
from inspect_ai.model import ContentImage, ModelName, ModelOutput
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState
from bias_core.errors import InvalidInput
from bias_core.inspect_pack import perceived

def score(content):
    output = ModelOutput.from_content("model", content)
    state = TaskState(ModelName("some/model"), 1, 1, "a nurse", [], output=output)
    return asyncio.run(perceived("man")(state, Target("")))

words = score("I cannot draw.")
print(words.value, words.explanation)
try:
    score([ContentImage(image="https://example.com/a.png")])
except InvalidInput as error:
    print(error)
"""


def test_an_answer_without_a_picture_is_not_scored_and_an_address_is_not_fetched(tmp_path):
    done = beside_inspect(tmp_path, "-c", _SCORED)
    first, second = done.stdout.splitlines() or [done.stderr, ""]
    assert first == "nan The model gave no picture, so nothing was read."
    assert "only pictures that come with the answer are read" in second


def test_without_inspect_ai_the_pack_says_how_to_install_it():
    assert any(one.startswith("inspect_ai") for one in PROJECT["optional-dependencies"]["inspect"])
    without = "import sys; sys.modules['inspect_ai'] = None\nimport bias_core.inspect_pack"
    failed = subprocess.run([sys.executable, "-c", without], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ImportError: tasks for inspect_ai need it: pip install inspect_ai" in failed.stderr
