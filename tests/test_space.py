"""The repository as a Space: what its README tells the platform, and the app started as it would be there."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import HfApi
from huggingface_hub.cli.hf import app as hf
from huggingface_hub.utils import filter_repo_objects
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.ui.served import _free_port

ROOT = Path(__file__).parent.parent
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
DEPLOY = SETTINGS.split("## Deploy your own Space\n")[1].split("\n## ")[0]
HF_LINES = re.findall(r"^ *\$ hf (.*)$", DEPLOY.replace("\\\n", " "), flags=re.M)
# From https://huggingface.co/docs/hub/spaces-config-reference and .../spaces-oauth.
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
SCOPES = {
    "email", "read-billing", "read-repos", "gated-repos", "contribute-repos", "write-repos", "manage-repos",
    "inference-api", "jobs", "webhooks", "write-discussions",
}  # fmt: skip
KNOWN = {
    "title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file", "app_port",
    "base_path", "short_description", "license", "tags", "models", "datasets", "preload_from_hub", "hf_oauth",
    "hf_oauth_scopes", "hf_oauth_expiration_minutes", "hf_oauth_authorized_org", "suggested_hardware",
    "suggested_storage", "startup_duration_timeout", "pinned", "header", "fullWidth", "thumbnail", "custom_headers",
    "disable_embedding",
}  # fmt: skip
LARGEST = 10_000_000  # bytes of a file that needs no LFS


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def front_matter() -> dict:
    _, block, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(block)


def test_the_front_matter_is_what_a_space_understands(front_matter):
    assert set(front_matter) <= KNOWN
    assert front_matter["sdk"] == "gradio"
    assert {front_matter["colorFrom"], front_matter["colorTo"]} <= COLOURS
    assert 0 < len(front_matter["short_description"]) <= 60
    assert re.fullmatch(r"[^\w\s]\ufe0f?", front_matter["emoji"])  # one emoji, of which a variation selector is part
    assert not front_matter["emoji"].isascii()
    assert re.fullmatch(r"3\.\d+(\.\d+)?", front_matter["python_version"])  # 3.10 as a number would be 3.1
    assert all(isinstance(tag, str) for tag in front_matter["tags"])
    assert front_matter["hf_oauth"] is True
    assert set(front_matter["hf_oauth_scopes"]) <= SCOPES
    assert (ROOT / front_matter["app_file"]).is_file()


def test_the_versions_that_it_names_are_those_that_are_required(front_matter):
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    required = {one.name: one for one in map(Requirement, filter(None, lines))}
    assert Version(front_matter["sdk_version"]) in required["gradio"].specifier
    assert Version(front_matter["sdk_version"]) <= Version(version("gradio"))  # what the tests run with, or older
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert Version(front_matter["python_version"]) in SpecifierSet(project["requires-python"])
    assert front_matter["license"] == project["license"].lower()
    assert "spaces" not in required  # a Space with ZeroGPU brings it; nobody else needs it


def test_no_file_needs_large_file_storage():
    assert [path.name for path in tracked() if path.stat().st_size > LARGEST] == []


def test_what_is_embedded_need_not_be_preloaded(front_matter):
    entries = yaml.safe_load((ROOT / "assets" / "models.yaml").read_text())
    embedded = [entry for kind in entries.values() if isinstance(kind, list) for entry in kind if entry.get("embedded")]
    assert len(embedded) >= 5
    for entry in embedded:
        path = entry.get("path") or entry.get("options", {}).get("path", "")
        assert not path or path == "calibration-clip" or (ROOT / "assets" / path).is_dir()
    assert "preload_from_hub" not in front_matter  # gigabytes at every build, for models that few ask for


@pytest.mark.parametrize("line", HF_LINES)
def test_the_commands_that_deploy_a_space_have_these_options(line):
    ran = CliRunner().invoke(hf, [*shlex.split(line), "--help"])  # which comes after all options were parsed
    assert ran.exit_code == 0, ran.output


@pytest.fixture(scope="module")
def uploaded():
    """The files that the documented command uploads, of those that are tracked."""
    (line,) = (line for line in HF_LINES if line.startswith("upload"))
    sent = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(HfApi, "create_repo", lambda self, *, repo_id, repo_type, **_: RepoUrl(repo_type, repo_id))
        patch.setattr(HfApi, "upload_folder", lambda self, **options: sent.append(options) or "done")
        ran = CliRunner().invoke(hf, shlex.split(line))
    assert ran.exit_code == 0, ran.output
    (options,) = sent
    assert (options["folder_path"], options["path_in_repo"], options["repo_type"]) == (".", ".", "space")
    names = (str(path.relative_to(ROOT)) for path in tracked())
    patterns = {name: options[name] for name in ("allow_patterns", "ignore_patterns")}
    return [ROOT / name for name in filter_repo_objects(names, **patterns)]


class RepoUrl:
    """What the hub's answer is asked for."""

    def __init__(self, repo_type, repo_id):
        assert repo_type == "space"
        self.repo_id = repo_id


def test_the_upload_has_what_a_space_needs_and_no_tests(uploaded):
    tops = {path.relative_to(ROOT).parts[0] for path in uploaded}
    assert {"README.md", "LICENSE", "CITATION.cff", "app.py", "requirements.txt", "bias_core", "assets"} <= tops
    assert not tops & {"tests", "training", "validation", "bench", "scripts", ".ci"}
    assert sum(path.stat().st_size for path in uploaded) < 60_000_000


GHOST = {
    "id": "ghost-model", "name": "Ghost", "family": "sd1", "licence": "none", "default_steps": 2,
    "default_guidance": 1.0, "width": 64, "height": 64, "options": {"path": "nobody/nothing"},
}  # fmt: skip


@pytest.fixture(scope="module")
def space(tmp_path_factory, uploaded):
    """The app in a clean environment, from the uploaded files alone, with weights that are not there."""
    folder = tmp_path_factory.mktemp("space")
    home, code = folder / "home", folder / "app"
    home.mkdir()
    for path in uploaded:
        copy = code / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    catalogue = code / "assets" / "models.yaml"
    listed = yaml.safe_load(catalogue.read_text())
    listed["models"].append(GHOST)
    catalogue.write_text(yaml.safe_dump(listed))
    for name in ("captioner", "pipeline"):  # of which the second is what the app would warm up with
        shutil.rmtree(code / "assets" / "calibration" / name)
    port = _free_port()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "GRADIO_SERVER_PORT": str(port), "BIAS_OFFLINE": "true",
        "OMP_NUM_THREADS": "1", "SPACE_ID": "somebody/explorer",
    }  # fmt: skip
    log = (folder / "log").open("w+")
    app = subprocess.Popen([sys.executable, "app.py"], cwd=code, env=environment, stdout=log, stderr=log)
    try:
        yield _wait_for(f"http://127.0.0.1:{port}", app, folder / "log"), home
    finally:
        app.send_signal(signal.SIGTERM)
        app.wait(timeout=20)
        log.close()


def _wait_for(url, app, log, seconds=300):  # the machine may be busy
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if app.poll() is not None:
            pytest.fail(f"the app ended with {app.returncode}:\n{log.read_text()}")
        try:
            if httpx.get(url, timeout=5, trust_env=False).status_code == 200:
                return url
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail(f"the app did not answer within {seconds} s:\n{log.read_text()}")


def call(url, name, *values):
    """Return an endpoint's answer, or the message of its error."""
    api = f"{url}/gradio_api/call/{name}"
    event = httpx.post(api, json={"data": list(values)}, timeout=20, trust_env=False).json()["event_id"]
    with httpx.stream("GET", f"{api}/{event}", timeout=60, trust_env=False) as stream:
        lines = [line for line in stream.iter_lines() if line]
    kind, data = lines[-2].removeprefix("event: "), json.loads(lines[-1].removeprefix("data: "))
    return kind, data


def test_it_starts_though_weights_are_missing_and_there_is_no_network(space):
    url, _ = space
    page = httpx.get(url, timeout=20, trust_env=False).text
    assert "T2I Bias Explorer" in page
    kind, (listed,) = call(url, "list_models", "summary")
    assert kind == "complete"
    assert "ghost-model" in json.dumps(listed)


def explored(url, model):
    """All inputs of the tool, in its order."""
    told = httpx.get(f"{url}/gradio_api/info", timeout=20, trust_env=False).json()["named_endpoints"]["/explore"]
    given = {"concept": "doctor", "attributes": ["man"], "model": model, "n_images": 4, "encoder": "calibration-clip"}
    return [given.get(one["parameter_name"], one.get("parameter_default")) for one in told["parameters"]]


def test_what_is_there_works_and_what_is_missing_says_so_when_it_is_asked(space):
    url, home = space
    kind, answer = call(url, "explore", *explored(url, "calibration-renderer"))
    assert kind == "complete", answer
    report = answer[0]
    assert report["stands_out"][0]["n"] == 4
    assert (home / ".local" / "share" / "t2i-bias-explorer" / "images").is_dir()
    kind, said = call(url, "explore", *explored(url, "ghost-model"))
    assert kind == "error"
    assert "its files are not on this machine" in json.dumps(said)
    assert "BIAS_" not in json.dumps(said)
