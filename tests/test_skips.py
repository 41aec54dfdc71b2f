"""In CI no test is skipped in silence."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ESSENTIAL, SLOW

pytest_plugins = "pytester"
ROOT = Path(__file__).parent.parent
SLOW_FILE = next(path for path in SLOW if path.endswith(".py"))


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with this project's conftest and tests that are skipped in every way there is."""
    for name in ("CI", "BIAS_STRICT_SKIPS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BIAS_TEST_SLOW", "1")
    files = {
        "tests/conftest.py": (ROOT / "tests" / "conftest.py").read_text(),
        SLOW_FILE: "def test_that_takes_long(): pass",
        "tests/test_whole.py": "import pytest\npytest.importorskip('no_such_package')",
        "tests/test_single.py": """
import pytest

@pytest.fixture
def program():
    pytest.skip("no such program")

def test_of_a_fixture(program): pass

@pytest.mark.skipif(True, reason="no such machine")
def test_of_a_mark(): pass

@pytest.mark.xfail
def test_expected_to_fail(): raise ValueError

def test_of_itself(): pytest.skip("no such right")

def test_that_runs(): pass
""",
    }
    for name, text in files.items():
        file = pytester.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return pytester


@pytest.mark.parametrize("variable", ["CI", "BIAS_STRICT_SKIPS"])
def test_a_skip_that_is_not_listed_fails_in_ci_with_its_name_and_reason(project, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
    result.assert_outcomes(passed=2, errors=3, failed=1, xfailed=1)
    for name, reason in (
        ("tests/test_whole.py", "No module named"),
        ("tests/test_single.py::test_of_a_fixture", "no such program"),
        ("tests/test_single.py::test_of_a_mark", "no such machine"),
        ("tests/test_single.py::test_of_itself", "no such right"),
    ):
        result.stdout.re_match_lines_random([rf".*{name} was skipped \(.*{reason}.*requirements-dev.*"])


def test_elsewhere_a_skip_is_a_skip(project):
    result = project.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, skipped=4, xfailed=1)


def test_slow_tests_are_left_out_unless_they_are_wanted_or_named(project, monkeypatch):
    monkeypatch.delenv("BIAS_TEST_SLOW")
    project.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, skipped=4, xfailed=1, deselected=1)
    project.runpytest_inprocess("-p", "no:cacheprovider", SLOW_FILE).assert_outcomes(passed=1)


def test_every_slow_path_exists():
    assert not [path for path in SLOW if not (ROOT / path).exists()]


def test_every_essential_test_exists():
    places = [place.partition("::") for place in ESSENTIAL]
    gone = [
        file
        for file, _, name in places
        if f"def {name.partition('[')[0]}" * bool(name) not in (ROOT / file).read_text()
    ]
    assert not gone


def test_ci_runs_the_test_command_of_the_readme_and_nothing_else():
    *_, last = (ROOT / ".ci" / "run").read_text().splitlines()
    assert last == "BIAS_TEST_SLOW=1 BIAS_STRICT_SKIPS=1 make test"
    assert "$ make test" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("red", ["", "ruff", "mypy", "not browser", "tests/browser"])
def test_every_part_of_the_test_command_is_run_and_one_that_is_red_makes_it_red(tmp_path, red):
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "requirements-dev.txt").touch()
    for stamp in (".installed", ".installed-dev"):
        (tmp_path / ".venv" / stamp).touch()
    for name in ("python", "ruff", "mypy"):  # each says what it was called with; the one of ``red`` fails
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $* [$PYTHONDONTWRITEBYTECODE]"\n'
            f'case "{name} $*" in *"{red or "nothing"}"*) exit 1;; esac\n'
        )
        program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "test"], cwd=tmp_path, env=environment | {"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert bool(done.returncode) == bool(red), done.stderr
    for part in ("ruff check .", "mypy", "-m not browser", "-m browser tests/browser"):
        assert any(part in line and line.endswith("[]") for line in done.stdout.splitlines()), done.stdout
