"""The command line: the same studies, and the same numbers, as the app and the Python library.

A command is imported when it is called; a list of commands only reads what their docstrings say.
"""

import ast
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from bias_core.installed import COMMAND

_COMMANDS = {
    "explore": ("explore.explore", ["explore doctor", 'explore "taxi driver" --n-images 64 --out report.html']),
    "compare": ("explore.compare", ["compare doctor --arm condition=fair --arm condition=extreme"]),
    "suggest": ("explore.suggest", ["suggest Iranian --words-only"]),
    "models": ("explore.models", []),
    "attributes": ("explore.attributes", ["attributes doctor"]),
    "pictures": ("explore.pictures", ["pictures my-folder", 'pictures my.zip --prompts-from "file name"']),
    "runs": ("reports.runs", []),
    "publish": ("reports.publish", ["publish 0123456789abcdef --to numbers"]),
    "table": ("reports.table", ["table numbers --csv numbers.csv", "table mine hf://datasets/org/numbers"]),
    "measures": ("study.measures", []),
    "new-study": ("study.new_study", ["new-study hats"]),
    "env": ("environment.env", ["env --check", "env --check --model stable-diffusion-v1-5"]),
    "study list": ("study.list_studies", []),
    "study show": ("study.show_study", ["study show t2iat-tests"]),
    "study run": (
        "study.run_studies",
        ["study run t2iat-tests --scale 0.1", "study run pst-occupations --plan --out report.html"],
    ),
    "study label": ("reports.label", []),
    "study corrected": ("reports.corrected", []),
    "study report": ("reports.report", []),
}
"""Function and examples of each command by its words."""

_VALUES = {"bool": "", "int": "NUMBER", "float": "NUMBER", "str": "TEXT", "list[str]": "TEXT", "path": "PATH"}
"""Placeholders for an option's value, by Typer's name of its type; nothing after a flag."""


def _with_values(params: Sequence[Any], ctx: Any) -> list[Any]:
    """Return the parameters; the help of each option shows what to type after it."""
    for param in params:
        if isinstance(param, TyperOption) and param.metavar is None:
            name = param.display_type(ctx).strip("<>").partition(" [")[0].removesuffix(" range")
            param.metavar = _VALUES.get(name, name)
    return [*params]


class _Group(TyperGroup):
    """Commands in outline, each of which is loaded when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that these words begin with, its name, and the words behind it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name else command, rest

    def load(self, name: str) -> Any:
        """Return a command of this group, or the group of this name."""
        command = self.commands[name]
        return _load(f"{self.name} {name}".strip()) if isinstance(command, _Outline) else command

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _with_values(super().get_params(ctx), ctx)


class _Outline(TyperCommand):
    """A command, of which only the docstring is known."""


class _Command(TyperCommand):
    """A command with its help option in the last group, whose help shows what to type after an option."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _with_values(super().get_params(ctx), ctx)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option for help."""
        from bias_core.app.cli.common import OUTPUT

        if option := super().get_help_option(ctx):
            option.rich_help_panel = OUTPUT
        return option


def _load(words: str) -> Any:
    place, examples = _COMMANDS[words]
    module, _, function = place.partition(".")
    command = getattr(import_module(f"{__name__}.{module}"), function)
    epilog = "\n".join(["Examples:", *(f"  {COMMAND} {example}" for example in examples)]) if examples else None
    single = typer.Typer(add_completion=False)
    single.command(words.split()[-1], cls=_Command, help=_unwrapped(getdoc(command) or ""), epilog=epilog)(command)
    return typer.main.get_command(single)


def _unwrapped(text: str) -> str:
    """Return the text without its ends of lines: the terminal wraps lines itself."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Return the docstring of each function of a module here, which is not imported."""
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


def _outline(help_text: str, name: str = "") -> typer.Typer:
    """Return the commands of the group of this name, or those without one."""
    group = typer.Typer(cls=_Group, help=help_text, no_args_is_help=True, pretty_exceptions_enable=False)
    for words, (place, _) in _COMMANDS.items():
        of, _, last = words.rpartition(" ")
        if of == name:
            module, _, function = place.partition(".")
            group.command(last, cls=_Outline, help=_unwrapped(_docstrings(module)[function]))(lambda: None)
    return group


app = _outline("Measure bias in text-to-image models. Without a command, the app starts.")
app.add_typer(_outline("Run the studies of the papers.", "study"), name="study")


def load_all(group: Any = None) -> Any:
    """Return Typer's group, by default that of the whole program, with all of its commands loaded."""
    group = group or typer.main.get_command(app)
    for name in group.commands:
        command = group.load(name)
        group.commands[name] = load_all(command) if isinstance(command, _Group) else command
    return group
