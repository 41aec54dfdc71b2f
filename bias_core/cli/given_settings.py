"""The options of a command that are made from the declared settings, and what was given by them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.studies.kit.setting_fields import Setting, name_and_value, settings_of
from bias_core.studies.kit.types import Arm, StudySettings, settings_from_dict
from bias_core.studies.running.arms import parse_arms

SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML file of settings by their names; what stands beside it goes first."),
]
Given = Mapping[str, Any]  # what was given on the command line, by the names of settings
_MANY = ("model", "condition")


def with_options(
    declared: Mapping[str, Setting], *, many: Collection[str] = (), flags: Mapping[str, Sequence[str]] = {}
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command with an option for every one of these settings, which it receives as ``given: Given``.

    Those in ``many`` may be given several times; ``flags`` are further names of an option.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != "given"]
        kinds = {name: _option(one, flags.get(name, ()), many=name in many) for name, one in declared.items()}
        made = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
            for name, kind in kinds.items()
        ]
        parameters = [*own[:1], *made, *own[1:]]

        @wraps(command)
        def run(**values: Any) -> None:
            command(given={name: value for name in declared if (value := values.pop(name)) not in (None, [])}, **values)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


with_settings = with_options(settings_of(StudySettings), many=_MANY)
"""The command with an option for every setting of a run."""


def _option(one: Setting, flags: Sequence[str], *, many: bool) -> Any:
    """The type and the help of a setting's option; None stands for what is not given."""
    if one.name == "options":
        return Annotated[list[str] | None, typer.Option("--option", help="name=value, see `study show`.")]
    if one.name == "arms":
        keys = ", ".join(arm.key for arm in settings_of(Arm).values())
        words = f"{one.sentence}. Keys are {keys}."
        return Annotated[list[str] | None, typer.Option("--arm", help=words)]
    limits = "" if one.percent else one.range_words
    words = ". ".join(filter(None, (one.sentence, limits[:1].upper() + limits[1:]))) + "."
    words += " Several times: each is run by itself; --arm compares." if many else ""
    default: Any = str(one.default) if one.default not in (None, "", False) else False
    kind: Any = one.kind if one.kind in (int, float, bool) else str
    kind = list[str] if many else kind
    return Annotated[kind | None, typer.Option(one.flag, *flags, help=words, show_default=default)]


def read_given(study: str, given: Given, file: Path | None) -> tuple[str, StudySettings, list[str], list[str]]:
    """The study, its settings, and the models and conditions that are asked for.

    Raises InvalidInput: a setting that is none, or no study; StorageError: the file cannot be read.
    """
    values = _read_file(file) if file else {}
    named = str(values.pop("study", ""))
    options = values.pop("options", None) or {}
    if not isinstance(options, Mapping):
        raise InvalidInput(f"options must be names with their values; got {quoted(options)}")
    own = {name: value for name, value in given.items() if name not in (*_MANY, "options", "arms")}
    options = {**options, **dict(name_and_value(text) for text in given.get("options", []))}
    like = settings_from_dict({**values, **own, "options": options})
    if texts := given.get("arms"):
        like = replace(like, arms=parse_arms(texts))
    if not (study or named):
        raise InvalidInput("name a study of `study list`, or a file of settings that names one as `study`")
    models, conditions = given.get("model", [like.model]), given.get("condition", [like.condition])
    return study or named, like, list(dict.fromkeys(models)), list(dict.fromkeys(conditions))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if not isinstance(values, dict):
        raise InvalidInput(f"{path} holds no settings with their names, such as `seed: 3`")
    return {str(name): value for name, value in values.items()}
