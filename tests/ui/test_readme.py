"""Every code block of the README and of `docs/` runs, links lead somewhere, and tests that promises name exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bias_core.app.build  # noqa: F401 - whose plots then have titles only
from tests.ui.fakes import FakeServices

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
ALL = "\n".join([README, *PAGES.values()])
PYTHON = re.findall(r"```python\n(.*?)```", ALL, flags=re.S)
CONSOLE = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", "".join(re.findall(r"```console\n(.*?)```", ALL, flags=re.S)), re.M)


@pytest.fixture(autouse=True)
def without_weights(tmp_path, monkeypatch):
    from bias_core import services

    monkeypatch.setattr(services, "Services", lambda: FakeServices(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code, served, capsys):
    code = code.replace("http://127.0.0.1:7860", served.url)
    names = {}
    exec(code, names)
    assert "n = 15" in capsys.readouterr().out or "report" in names
    if "client" in names:
        names["client"].close()


@pytest.mark.parametrize("line", [line for line in CONSOLE if line.startswith("t2i-bias")])
def test_command_lines_run(line):
    from bias_core.app import cli

    Path("my-prompts.csv").write_text("prompt,n\na photo of a doctor,4\n")  # what a line takes for granted
    run = CliRunner().invoke(cli.app, shlex.split(line)[1:])
    assert run.exit_code == 0, run.output


def test_links_of_the_readme_and_of_docs_lead_somewhere():
    for name, text in {"README.md": README, **{f"docs/{name}": text for name, text in PAGES.items()}}.items():
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"


def test_every_study_is_on_the_page_of_studies():
    from bias_core.app.cli import app

    told = CliRunner().invoke(app, ["study", "list", "--markdown"]).stdout
    assert told.strip() in PAGES["studies.md"], "put what `study list --markdown` says into docs/studies.md"


def test_every_variable_is_on_the_page_of_settings():
    from bias_core.settings import settings_markdown

    told = "put what `python -m bias_core.settings` prints into docs/settings.md"
    assert settings_markdown() in PAGES["settings.md"], told


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for line in CONSOLE if line.startswith("make")]
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_every_promise_has_a_test_that_exists():
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| shown by |")]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for path, test in named:
            assert f"def {test or 'test_'}" in (ROOT / path).read_text(), f"{path}::{test}"
