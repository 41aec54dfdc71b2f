"""The app runs without the optional folder ``beyond``, in a copy of the tree."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT = """
import json, sys
from typer.testing import CliRunner
from bias_core.app.api import Tools
from bias_core.app.build import TABS, build_app
from bias_core.app.cli import app
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import list_designs
from bias_core.report.saved import list_examples, open_example

def told(*words):
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "BIAS_DATA_DIR": sys.argv[1]})
    assert result.exit_code == 0, result.output
    return result.output

services = Services(Settings(data_dir=sys.argv[1]))
page = build_app(services).get_config_file()
folder = services.settings.assets_dir / "examples"
examples = [open_example(one, folder).report for one in list_examples("explore", folder)]
asked = {"concept": "doctor", "attributes": ["man", "old"], "n_images": 4, "encoder": "calibration-clip"}
tools = Tools(services)
print(json.dumps({
    "studies": [design.name for design in list_designs()],
    "ids": [one["props"].get("elem_id") for one in page["components"]],
    "fields": [*json.loads(next(
        one["props"]["value"] for one in page["components"] if one["props"].get("elem_id") == "explore-values"
    ))],
    "presets": [preset.name for tab in TABS for preset in getattr(tab, "presets", ())],
    "explored": tools.explore(**asked, n_attribute_images=2, model="calibration-renderer"),
    "compared": tools.compare(**asked, arms=["condition=fair", "condition=extreme"], attribute_a="", attribute_b=""),
    "examples": [note for report in examples for note in report.results.notes],
    "help": [told(command, "--help") for command in ("explore", "compare")],
    "loaded": [name for name in sys.modules if name.startswith("bias_core.beyond")],
}))
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "bias_core", tree / "bias_core", ignore=shutil.ignore_patterns("beyond", "__pycache__"))
    for name in ("assets", "docs", "README.md"):
        (tree / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tree / "data")], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_other_study_is_there_with_its_page_and_its_presets(without):
    assert without["loaded"] == []
    assert "causes" not in without["studies"]
    assert {"explore", "oasis-spi", "pst-swapped", "t2iat-tests"} <= set(without["studies"])
    assert {"concept", "generate", "paper-study"} <= set(without["ids"])
    assert "seed" in without["fields"]
    assert not {"crossed", "languages"} & set(without["fields"])
    assert "Doctor, with and without a planted bias" in without["presets"]
    assert "Doctor in seven languages" not in without["presets"]


def test_a_concept_is_explored_and_arms_are_compared(without):
    assert without["explored"]["n_images"] == 8
    assert "“man” is seen in" in without["explored"]["headline"]
    assert "“man” is seen in" in without["compared"]["headline"]
    assert not [note for note in without["examples"] if "no longer has" in note]


def test_no_command_offers_what_is_not_there(without):
    for text in without["help"]:
        assert "--n-images" in text
        assert "--crossed" not in text
        assert "--languages" not in text
