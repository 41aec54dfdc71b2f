"""Contents and metadata of the wheel, and the message for a wrong version of a library."""

import ast
import glob
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import bias_core
from bias_core import __main__ as program
from bias_core.errors import ModelUnavailable
from bias_core.models import weights
from bias_core.run.plan import library_versions

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEWEST_ON_ZERO_GPU = Version("2.8.0")  # of torch, in the list of the platform's documentation


def lines_of(name: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


REQUIRED = {one.name.replace("_", "-").lower(): one for one in map(Requirement, lines_of("requirements.txt"))}


def tracked(*folders: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_every_file_of_the_program_and_of_its_assets_goes_into_a_wheel():
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    packed = set()
    for package, folder in {"bias_core": "bias_core", "bias_core.assets": "assets"}.items():
        for pattern in data[package]:
            names = glob.glob(pattern, root_dir=ROOT / folder, recursive=True)  # noqa: PTH207 - setuptools' own
            packed |= {f"{folder}/{name}" for name in names}
    files = tracked("bias_core", "assets")
    assert len(files) > 500
    assert [name for name in files if name not in packed and not name.endswith(".py")] == []
    folders = {Path(name).parent for name in tracked("bias_core") if name.endswith(".py")}
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []


def test_the_assets_are_found_in_one_place():
    named = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "bias_core").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value == "assets"
    }
    assert named == {"bias_core/installed.py"}


def test_the_version_stands_once_and_every_report_carries_it():
    project = PYPROJECT["project"]
    assert "version" in project["dynamic"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bias_core.__version__"}
    assert library_versions()["bias_core"] == bias_core.__version__


@pytest.mark.parametrize(("given", "called"), [([], "app"), (["models"], "command line")])
def test_the_program_alone_is_the_app_and_with_a_command_the_command_line(monkeypatch, given, called):
    calls = []
    monkeypatch.setattr("bias_core.app.start", lambda: calls.append("app"))
    monkeypatch.setattr("bias_core.app.cli.app", lambda prog_name: calls.append("command line"))
    monkeypatch.setattr(sys, "argv", ["t2i-bias", *given])
    program.main()
    assert calls == [called]
    assert PYPROJECT["project"]["scripts"] == {"t2i-bias": "bias_core.__main__:main"}


def test_the_cap_on_transformers_stays_until_peft_has_what_it_asks_for():
    assert not REQUIRED["transformers"].specifier.contains("5.24")
    peft = Version(metadata.version("peft"))
    assert peft < Version("0.22"), f"PEFT {peft} is out: lift the cap on transformers, and delete this test"


def test_the_locked_versions_are_allowed_and_are_those_of_a_space():
    locked = {
        one.name: Version(str(one.specifier).removeprefix("=="))
        for one in map(Requirement, lines_of("requirements.lock"))
    }
    wrong = {name: one for name, one in REQUIRED.items() if locked.get(name) not in one.specifier}
    assert wrong == {}
    _, block, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert locked["gradio"] == Version(yaml.safe_load(block)["sdk_version"])
    assert locked["torch"] <= NEWEST_ON_ZERO_GPU


@pytest.fixture(params=["requirements.txt", "metadata"])
def older_timm(request, monkeypatch, tmp_path):
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.0.11" if name == "timm" else version(name))
    if request.param == "metadata":  # as in an installed package
        monkeypatch.setattr(weights, "ASSETS", tmp_path / "bias_core" / "assets")
        asked = ["timm>=1.0.17", "torch>=2.6", 'unknown-library>=9; extra == "ray"']
        monkeypatch.setattr(metadata, "requires", lambda name: asked)


@pytest.mark.parametrize("kind", [ImportError, AttributeError, TypeError])
def test_a_library_of_a_wrong_version_is_named_with_the_version_that_is_needed(older_timm, kind):
    said = r"x cannot be loaded; install other versions: timm 1\.0\.11 is installed, and >=1\.0\.17 is needed$"
    with pytest.raises(ModelUnavailable, match=said), weights.loading("x", "org/x"):
        raise kind("no such thing")


def test_damaged_weights_are_not_blamed_on_a_version(older_timm):
    with pytest.raises(ModelUnavailable, match="weights missing, corrupt"), weights.loading("x", "org/x"):
        raise ValueError("shapes differ")


def test_these_libraries_have_versions_that_are_allowed():
    assert weights.wrong_versions() == ""


@pytest.mark.slow
def test_a_wheel_has_one_package_and_works_from_another_folder(tmp_path):
    source, place, elsewhere = tmp_path / "source", tmp_path / "place", tmp_path / "elsewhere"
    for name in tracked():
        copy = source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    build = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 45e6
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place)
    assert {path.name.partition("-")[0] for path in place.iterdir()} == {"bias_core", "t2i_bias_explorer"}
    (described,) = place.glob("*.dist-info/METADATA")
    assert "\n# T2I Bias Explorer\n" in described.read_text(encoding="utf-8")
    assert f"\nVersion: {bias_core.__version__}\n" in described.read_text(encoding="utf-8")
    shutil.rmtree(source)
    elsewhere.mkdir()
    environment = os.environ | {"PYTHONPATH": str(place), "BIAS_DATA_DIR": str(tmp_path / "data"), "BIAS_OFFLINE": "1"}

    def ran(*words: str) -> str:
        command = [sys.executable, "-m", "bias_core", *words]
        return subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "t2i-bias explore doctor" in ran("explore", "--help")
    assert "t2iat-tests" in ran("study", "list")
    assert "calibration-diffusion" in ran("models")
    assert "Source: Vice et al. 2023" in ran("measures", "--markdown")
    ran("explore", "doctor", "--model", "calibration-renderer", "-n", "4", "--out", "out")
    assert (elsewhere / "out" / "report.html").stat().st_size > 100_000
