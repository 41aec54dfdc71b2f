"""The command line: the same studies, and the same numbers, as the app and the Python library."""

from collections.abc import Callable
from inspect import getdoc

import typer

from bias_core.app.cli import environment, explore, reports, study
from bias_core.app.cli.common import Command, Group
from bias_core.settings import COMMAND


def _commands(help_text: str, commands: dict[str, tuple[Callable[..., None], list[str]]]) -> typer.Typer:
    """Make a group of commands by their names; the help of each ends with its examples."""
    group = typer.Typer(cls=Group, help=help_text, no_args_is_help=True, pretty_exceptions_enable=False)
    for name, (command, examples) in commands.items():
        epilog = "\n".join(["Examples:", *(f"  {COMMAND} {example}" for example in examples)]) if examples else None
        paragraphs = (getdoc(command) or "").split("\n\n")  # the terminal wraps lines itself
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        group.command(name, cls=Command, help=text, epilog=epilog)(command)
    return group


app = _commands(
    "Measure bias in text-to-image models. Without a command, the app starts.",
    {
        "explore": (explore.explore, ["explore doctor", 'explore "taxi driver" --n-images 64 --out report.html']),
        "compare": (explore.compare, ["compare doctor --arm condition=fair --arm condition=extreme"]),
        "suggest": (explore.suggest, ["suggest Iranian --words-only"]),
        "models": (explore.models, []),
        "attributes": (explore.attributes, ["attributes doctor"]),
        "pictures": (explore.pictures, ["pictures my-folder", 'pictures my.zip --prompts-from "file name"']),
        "runs": (reports.runs, []),
        "publish": (reports.publish, ["publish 0123456789abcdef --to numbers"]),
        "table": (reports.table, ["table numbers --csv numbers.csv", "table mine hf://datasets/org/numbers"]),
        "measures": (study.measures, []),
        "new-study": (study.new_study, ["new-study hats"]),
        "env": (environment.env, ["env --check", "env --check --model stable-diffusion-v1-5"]),
    },
)
_studies = _commands(
    "Run the studies of the papers.",
    {
        "list": (study.list_studies, []),
        "show": (study.show_study, ["study show t2iat-tests"]),
        "run": (
            study.run_studies,
            ["study run t2iat-tests --scale 0.1", "study run pst-occupations --plan --out report.html"],
        ),
        "label": (reports.label, []),
        "corrected": (reports.corrected, []),
        "report": (reports.report, []),
    },
)
app.add_typer(_studies, name="study")
