"""What messages tell a person to type or set exists."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

import bias_core.cli as commands
from bias_core.cli import app
from bias_core.settings import Settings
from tests.every import every
from training.__main__ import app as training
from validation.__main__ import app as validation

ROOT = Path(__file__).parent.parent
OF_OTHERS = {"--query-gpu", "--format", "--no-deps"}  # of nvidia-smi and of pip
TO_OTHERS = {"embedded.py"}  # a file that names the colours of style sheets


@cache
def strings(path: Path) -> list[str]:
    """Every text of a file that somebody may read: no docstrings but those of commands, no templates."""
    silent, found = set(), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and path.parent.name != "cli":
            silent |= {id(first.value) for first in node.body[:1] if isinstance(first, ast.Expr)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            found.append(node.value)
    return found


def texts(pattern: str) -> dict[str, list[Path]]:
    """What matches, with the files it is in."""
    found: dict[str, list[Path]] = {}
    for path in (ROOT / "bias_core").rglob("*.py"):
        for text in strings(path):
            for match in re.findall(pattern, text):
                found.setdefault(match, []).append(path)
    return found


def leaves(command, name: str = "") -> dict[str, set[str]]:
    """Every command by its words, with its options."""
    if hasattr(command, "commands"):
        children = (leaves(child, f"{name} {word}".strip()) for word, child in command.commands.items())
        return {word: options for child in children for word, options in child.items()}
    return {name: {option for one in command.params for option in one.opts if option.startswith("--")}}


def called(command) -> list[tuple[Any, set[str]]]:
    """The function of every command, with its options."""
    if hasattr(command, "commands"):
        return [one for child in command.commands.values() for one in called(child)]
    options = {option for one in command.params for option in one.opts if option.startswith("--")}
    return [(inspect.unwrap(command.callback), options)]


COMMANDS = leaves(get_command(app))
CALLED = called(get_command(app))


def test_every_option_that_a_message_names_is_one_of_some_command():
    known = set.union(*COMMANDS.values(), OF_OTHERS)
    known |= set.union(*(options for one in (training, validation) for options in leaves(get_command(one)).values()))
    named = texts(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
    named = {name: [path for path in paths if path.name not in TO_OTHERS] for name, paths in named.items()}
    assert {name: paths for name, paths in named.items() if paths and name not in known} == {}
    assert len(named) > 20


@every(["explore", "study"])
def test_a_message_of_a_command_names_its_own_options(module):
    path = Path(inspect.getfile(getattr(commands, module)))
    named = {name for text in strings(path) for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)}
    own = [options for callback, options in CALLED if Path(inspect.getfile(callback)) == path]
    assert own
    assert named <= set.union(*own, COMMANDS["study run"], {"--help"})


def test_every_command_that_a_message_names_exists():
    known = {"calibration.training", *COMMANDS, *(word.split()[0] for word in COMMANDS)}
    lines = texts(r"python -m bias_core[. ]([a-z.]+(?:-[a-z]+)?(?: [a-z-]+)?)")
    for line in lines:
        words = line.split()
        assert line in known or words[0] in known, (line, lines[line])
    quoted = texts(r"`((?:study|run|explore|compare|models|measures|runs|attributes)(?: [a-z]+)?)`")
    assert {"study list", "study show", "study run", "models"} <= set(quoted)
    assert {name: paths for name, paths in quoted.items() if name not in known} == {}


def test_every_variable_that_a_message_names_is_a_setting():
    known = {f"BIAS_{name.upper()}" for name in Settings.model_fields} | {"BIAS_HOST", "BIAS_PORT"}
    known |= {name.rpartition("_")[0] for name in known if name.endswith("_URL")}  # how those of a server begin
    named = texts(r"\bBIAS_[A-Z_]+[A-Z]\b")
    assert {name: paths for name, paths in named.items() if name not in known} == {}
    assert len(named) > 5


def test_every_target_of_make_that_a_message_names_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(texts(r"`make ([a-z]+)`")) <= targets


def test_every_package_that_a_message_asks_for_is_one_that_the_tests_install():
    files = ("requirements.txt", "requirements-dev.txt", "Makefile")
    lists = "".join((ROOT / name).read_text() for name in files)
    for package in texts(r"pip install (?:--[a-z-]+ )?[\"']?([a-z][\w-]+)"):
        assert package in lists
