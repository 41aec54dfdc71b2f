"""A setting is declared once, and every door that can give it follows."""

import json
import shlex
from dataclasses import replace
from typing import Literal

import pytest
import yaml
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import InvalidInput, StorageError
from bias_core.studies.kit.designs import design_files, find_design
from bias_core.studies.kit.setting_fields import setting, settings_class, settings_of
from bias_core.studies.kit.types import Arm, StudySettings, settings_from_dict
from bias_core.studies.running.export import to_command, to_python
from bias_core.studies.running.run import plan_study, with_options
from tests.every import every
from tests.shared import command_line


@settings_class(frozen=True, kw_only=True)
class Kinds:
    """One setting of every kind."""

    whole: int = setting(3, "Whole", "A number", ge=1, le=9)
    number: float | None = setting(None, "Number", "Another", gt=0, lt=1)
    truth: bool = setting(False, "Truth", "Or not")
    text: str = setting("a", "Text", "Words")
    words: tuple[str, ...] = setting((), "Words", "More")
    choice: Literal["one", "two"] = setting("one", "Choice", "Of two")


@every([
    ("whole", "5", 5), ("whole", 5.0, 5), ("number", "0.5", 0.5), ("number", "", None), ("number", None, None),
    ("truth", "yes", True), ("truth", False, False), ("text", None, ""), ("text", " b ", "b"),
    ("words", "a, b", ("a", "b")), ("words", ["a"], ("a",)), ("words", "", ()),
    ("words", r"tall\, old, b", ("tall, old", "b")), ("choice", "two", "two"),
])  # fmt: skip
def test_what_forms_and_addresses_hold_is_read_and_shown_again(name, given, value):
    one = settings_of(Kinds)[name]
    assert one.read(given) == value
    assert getattr(Kinds(**{name: value}), name) == value
    assert one.read(one.shown(value)) == value
    assert one.read(one.write(value)) == value


@every([
    ("whole", True, "whole must be a whole number; got True"),
    ("whole", "3", "whole must be a whole number; got '3'"),
    ("whole", 0, "whole must be at least 1, got 0"),
    ("number", 1, "number must be below 1, got 1"),
    ("number", 0.0, "number must be above 0, got 0.0"),
    ("number", float("nan"), "number must be a number, or left out; got nan"),
    ("truth", 1, "truth must be true or false; got 1"),
    ("text", None, "text must be a text; got None"),
    ("text", "\ud800", r"text holds the character U\+D800"),
    ("text", "a\x00", r"text holds the character U\+0000"),
    ("words", ("a", 1), "words must be a list of texts"),
    ("choice", "three", "choice must be one of one, two; got 'three'"),
    ("colour", "red", "there is no setting 'colour'; there are whole, number"),
])  # fmt: skip
def test_what_is_none_is_refused_in_a_sentence_by_name(name, value, words):
    with pytest.raises(InvalidInput, match=words):
        Kinds(**{name: value})
    with pytest.raises(InvalidInput, match=words):
        replace(Kinds(), **{name: value})


def test_a_file_of_settings_says_what_is_not_given_beside_it(tmp_path, assets):
    path = tmp_path / "mine.yaml"
    values = {"study": "t2iat-tests", "scale": 0.02, "condition": "fair", "seed": 3,
              "options": {"tests": ["science_arts"], "n_permutations": 50}}  # fmt: skip
    path.write_text(yaml.safe_dump(values))
    asked = ("--settings", str(path), "--seed", "4", "--option", "n_permutations=60", "--keep")
    result = command_line(tmp_path / "data", assets)("study", "run", *asked)
    assert result.exit_code == 0, result.output
    (run,) = (json.loads(p.read_text()) for p in (tmp_path / "data" / "runs").glob("*.json"))
    chosen = run["settings"]
    assert (chosen["scale"], chosen["condition"], chosen["seed"], run["kept"]) == (0.02, "fair", 4, True)
    assert (chosen["options"]["tests"], chosen["options"]["n_permutations"]) == (["science_arts"], 60)


def test_a_file_that_cannot_be_used_is_refused_in_a_line(tmp_path, assets):
    path, command = tmp_path / "mine.yaml", command_line(tmp_path / "data", assets)
    for text, words in (
        ("colour: red", "no setting 'colour'"),
        ("seed: '3'", "seed must be a whole number"),
        ("scale: 0", "scale must be above 0"),
        ("arms: 5", "arms must be a list"),
        ("arms: [{colour: red}]", "no setting 'colour'"),
        ("options: [a]", "options must be names"),
        ("- a", "no settings"),
        ("a: [", "cannot read"),
        ("3: 4", "no setting '3'"),
        ("seed: 1", "name a study"),
    ):
        path.write_text(text)
        result = command("study", "run", "--settings", str(path))
        assert (result.exit_code, words in result.output) == (2, True), (text, result.output)


def test_commands_and_python_lines_give_the_settings_again(monkeypatch):
    design = find_design("t2iat-tests")
    settings = with_options(
        design,
        StudySettings(
            scale=0.1, num_inference_steps=5, negative_prompt="a 'hat'", confidence=0.9, force=True,
            options={"tests": ["science_arts", "career_family"]},
            arms=(Arm(condition="fair"), Arm(guidance_scale=2.0)),
        ),
    )  # fmt: skip
    drawn = []
    monkeypatch.setattr("bias_core.cli.study._measure", lambda design, chosen, *_: drawn.extend(chosen))
    result = CliRunner().invoke(app, shlex.split(to_command(design, settings))[3:])
    assert result.exit_code == 0, result.output
    assert [with_options(design, one) for one in drawn] == [settings]
    scope: dict = {}
    lines = to_python(design, settings).splitlines()
    exec("\n".join(line for line in lines if "import" in line or line.startswith("settings")), scope)
    assert with_options(design, scope["settings"]) == settings


def test_a_design_has_defaults_of_its_own_for_settings(tmp_path, services):
    values = yaml.safe_load((design_files()["t2iat-tests"]).read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values | {"settings": {"seed": 7, "condition": "fair", "scale": 0.02}}))
    design = find_design(str(path))
    plan = plan_study(design, StudySettings(condition="extreme"), services)
    assert (plan.settings.seed, plan.settings.condition, plan.settings.scale) == (7, "extreme", 0.02)
    for wrong in ({"seed": "many"}, {"colour": "red"}):
        path.write_text(yaml.safe_dump(values | {"settings": wrong}))
        with pytest.raises((InvalidInput, StorageError), match=next(iter(wrong))):
            find_design(str(path))


def test_settings_of_older_runs_and_of_files_are_read_alike():
    read = settings_from_dict({"seed": 3, "arms": [{"name": "a", "model": None}], "options": {"tests": ["x"]}})
    assert (read.seed, read.arms[0].name, read.options) == (3, "a", {"tests": ["x"]})
