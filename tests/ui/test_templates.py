"""The environment that all markup comes from."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from jinja2 import UndefinedError

from bias_core.studies.kit.types import StudyFigure
from bias_core.ui.templates import STATIC, TEMPLATES, environment, render, script

ROOT = Path(__file__).parent.parent.parent


def shown(text, **values):
    return environment().from_string(text).render(values)


def test_values_are_escaped_wherever_they_stand():
    text = shown('<p title="{{ x }}">{{ x }}</p>', x="<img src=x onerror='alert(1)'>\"")
    assert "<img" not in text
    assert text.count('"') == 2


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_page():
    with pytest.raises(UndefinedError):
        shown("<p>{{ missing }}</p>")


def test_line_breaks_are_layout_between_tags_and_a_space_in_a_sentence():
    lines = ("<p>", "  <b>one</b>", "  <i>{{ two }}</i>", "  {{ two }}", "  {% if 1 %}", "  three", "  {% endif %}")
    assert shown("\n".join((*lines, "</p>")), two=2) == "<p><b>one</b><i>2</i>2three</p>"
    sentence = ("<p>", "three", "{{ two }}", "four", "<b>five</b>", "six <b>of</b>", "seven", "</p>")
    assert shown("\n".join(sentence), two=2) == "<p>three 2 four <b>five</b> six <b>of</b> seven</p>"


def test_numbers_are_written_as_in_reports():
    assert shown("{{ 12345|count }} {{ 0.4213|number(0.24, 0.6) }} {{ 0.2401|interval(0.6) }}") == (
        "12,345 0.42 [0.24, 0.60]"
    )


def test_words_that_begin_with_a_hyphen_stay_and_numbers_have_a_minus_sign():
    frame = pd.DataFrame({"name": ["-5 degrees", "no -1"], "value": [-0.25, 0.5], "low": [-0.5, 0.25], "n": [-3, 4]})
    frame = frame.assign(high=[0.125, 0.75])[["name", "value", "low", "high", "n"]]
    table = render("frame", frame=frame, name="a table")
    plot = shown("{{ figure|svg }}", figure=StudyFigure(key="f", title="F", kind="intervals", data=frame))
    assert all("-5 degrees<" in part and "no -1<" in part for part in (table, plot))
    assert all(text in table for text in ("−0.25 [−0.50, 0.12]", ">−3<"))
    assert re.search(r">−0\.\d+<", plot)  # of the axis
    assert not re.search(r">-0\.\d", table + plot)


def test_constants_of_a_script_cannot_end_it():
    assert script("choose", word='"; alert(1); "').startswith(r'const word = "\"; alert(1); \"";')


@pytest.mark.slow
def test_an_installed_copy_has_every_template_and_script(tmp_path):
    source = tmp_path / "source"
    for part in ("bias_core/__init__.py", "bias_core/ui", "pyproject.toml", "requirements.txt", "LICENSE"):
        (source / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    build = "from setuptools import setup; setup()"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", build, "-q", "build_py", "-d", str(tmp_path / "built")],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    for folder in (TEMPLATES, STATIC):
        ours = {path.name for path in folder.iterdir() if path.is_file()}
        there = {path.name for path in (tmp_path / "built" / folder.relative_to(ROOT)).iterdir()}
        assert ours <= there


def test_a_table_of_words_is_read_from_the_left_and_numbers_stand_below_each_other():
    frame = pd.DataFrame({"item": ["steps", "size"], "status": ["met", "differs"], "n": [3, 17]})
    html = render("frame", frame=frame, name="a table")
    assert '<td dir="auto" class="as-text">differs</td><td dir="auto">17</td>' in html
    assert '<th scope="col" class="as-text">status</th><th scope="col">n</th>' in html
