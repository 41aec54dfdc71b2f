"""The container's files agree with the program; building the image needs a registry, which a test has not."""

import re
import tomllib
from pathlib import Path

import yaml

from bias_core.settings import Settings

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE_TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
SERVICES = yaml.safe_load(COMPOSE_TEXT)["services"]


def test_the_container_sets_only_settings_that_exist_and_keeps_its_data_in_the_volume():
    known = {f"BIAS_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"BIAS_\w+", DOCKERFILE + COMPOSE_TEXT)) <= known
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, flags=re.M)
    for name in ("BIAS_DATA_DIR", "HF_HOME"):
        assert re.search(rf"{name}={volume}/", DOCKERFILE), name
    mounted = [service["volumes"] for name, service in SERVICES.items() if name != "labels"]
    assert mounted == [[f"data:{volume}"]] * 3
    users = re.findall(r"^(USER|CMD) (.*)$", DOCKERFILE, flags=re.M)
    assert users[0] == ("USER", "explorer")  # and nobody else after it
    assert users[-1][0] == "CMD"


def test_what_is_copied_exists_is_not_ignored_and_is_all_that_a_wheel_needs():
    ignored, *lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert ignored == "*"
    assert all((ROOT / name).exists() for name in sent)
    own = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.M)
    assert {name for line in own for name in line.split() if name != "."} <= sent
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dynamic = project["tool"]["setuptools"]["dynamic"]["dependencies"]["file"]
    assert {*dynamic, *project["project"]["license-files"], "README.md", "setup.py", "assets", "bias_core"} <= sent
    extras = {
        name for service in SERVICES.values() for name in _arguments(service).get("EXTRAS", "postgres").split(",")
    }
    assert extras <= set(project["project"]["optional-dependencies"])


def test_every_argument_of_a_build_and_every_port_is_one_of_the_image():
    declared = re.findall(r"^ARG (\w+)=", DOCKERFILE, flags=re.M)
    assert all(set(_arguments(service)) <= set(declared) for service in SERVICES.values())
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, flags=re.M)
    assert SERVICES["app"]["ports"][0].endswith(f":{port}")
    assert Settings.model_fields["port"].default == int(port)


def _arguments(service):
    build = service.get("build", {})
    return {**build.get("args", {})}
