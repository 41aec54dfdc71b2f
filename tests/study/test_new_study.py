"""A new study is a package of its own that can be tested and run at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bias_core.app.cli import app

ROOT = Path(__file__).parents[2]


def new_study(name, folder):
    return CliRunner().invoke(app, ["new-study", name, "--folder", str(folder)])


def test_a_new_study_passes_its_own_tests_without_being_installed(tmp_path):
    assert new_study("warm_hats", tmp_path).exit_code == 0
    package = tmp_path / "warm-hats-study"
    files = [path for path in package.rglob("*") if path.is_file()]
    assert not [path for path in files if "study_name" in f"{path.relative_to(package)} {path.read_text()}"]
    assert "class WarmHats(Study)" in (package / "warm_hats" / "study.py").read_text()
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=package, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{package}"},
    )  # fmt: skip
    assert "2 passed" in told.stdout, told.stdout


@pytest.mark.parametrize("name", ["Hats", "2hats", "a hat", "import", "json", "explore", "../hats"])
def test_a_name_that_no_study_can_have_is_refused_and_writes_nothing(name, tmp_path):
    told = new_study(name, tmp_path)
    assert told.exit_code == 2
    assert "choose another name" in told.output or "small letters" in told.output
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path):
    (tmp_path / "hats-study").mkdir()
    assert "exists already" in new_study("hats", tmp_path).output
    assert not [*(tmp_path / "hats-study").iterdir()]
