"""The markup of the page: a Jinja template per part, and the scripts in ``ui/static``.

All values are escaped. In a template, a line break between tags, or between a tag and a value, is layout and not
shown; between words, or between a word and a tag in its sentence, it is a space.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from bias_core.number_text import format_estimate, format_interval, format_number, format_p, typeset
from bias_core.study.documents import data_uri
from bias_core.study.figures import NARROW, WIDEST, figure_svg
from bias_core.study.report_text import excerpt, is_known, number_columns
from bias_core.study.types import StudyFigure
from bias_core.ui.study.shown_report import FIGURE_FORMS, TABLE_FORMS

MOST_WATCHED = 8  # shares shown during a run
TEMPLATES = Path(__file__).parent
STATIC = TEMPLATES.parent / "static"

_MAIN_PLOT = 5.0  # inches, for figures with numbers in cells or names at dots
_IN_ROWS = ("intervals", "pairs", "bars", "distributions", "arrows", "curves")
_FEW: Mapping[str, int] = {"scatter": 24, "mosaic": 3}  # points or columns that fit a narrow figure
_LONG_NAME = 30  # letters: longer names of dots or in the legend do not fit a narrow figure
_BREAK = re.compile(r"[ \t]*\n\s*")
_CLOSING_TAG = re.compile(r"</[^<>]*>$")
_VARIABLES = re.compile(r" ?\((?=[^()]*\b(?:BIAS|HF)_[A-Z])[^()]*\)")


class _Layout(Extension):
    """Handles line breaks as described at the top of this file."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return _BREAK.sub(_space, source.strip())


def _space(match: re.Match[str]) -> str:
    """The replacement of a line break: a space or nothing."""
    before, after = match.string[max(0, match.start() - 40) : match.start()], match.string[match.end() :][:2]
    text_before, text_after = not before.endswith((">", "%}", "#}")), not after.startswith(("<", "{%", "{#"))
    opens = after.startswith("<") and after != "</" and not before.endswith("}}")
    closes = _CLOSING_TAG.search(before) is not None and after != "{{"
    return " " if (text_before and (text_after or opens)) or (closes and text_after) else ""


@cache
def environment() -> Environment:
    """All templates, with the reports' number formats and filters for pictures, figures and tables."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Layout],
        finalize=lambda value: value if isinstance(value, Markup) else without_variables(value),
    )
    made.filters |= {
        "count": lambda n: f"{n:,}",
        "number": format_number,
        "interval": format_interval,
        "estimate": format_estimate,
        "p": format_p,
        "typeset": typeset,
        "form": format,  # in markup, or for values that are never negative
        "picture": data_uri,
        "svg": lambda figure, marks=None: Markup(figure_svg(figure, marks=marks, width=_width(figure, marks))),
        "excerpt": excerpt,
        "numbers": number_columns,
    }
    made.tests["known"] = is_known
    made.globals |= {"axis": axis, "FIGURE_FORMS": FIGURE_FORMS, "TABLE_FORMS": TABLE_FORMS}
    made.globals["MOST_WATCHED"] = MOST_WATCHED
    return made


def without_variables(text: Any) -> Any:
    """A text without brackets that name environment variables, which only the server's operator can set.

    >>> without_variables("at most 7 here (BIAS_MAX_IMAGES): ask for less (or 2)")
    'at most 7 here: ask for less (or 2)'
    """
    return _VARIABLES.sub("", text) if isinstance(text, str) else text


def _width(figure: StudyFigure, marks: Mapping[str, str] | None) -> float:
    """Maximum width of a figure in inches; rows, curves, and few points or columns fit a phone."""
    columns = ("group",) if figure.kind in _IN_ROWS else ("name", "group")  # names of rows have lines enough
    names = [str(name) for column in columns if column in figure.data for name in figure.data[column]]
    are_short = max(map(len, names), default=0) <= _LONG_NAME
    if figure.kind in _IN_ROWS and (marks is not None or are_short):
        return NARROW
    n = figure.data["column"].nunique() if figure.kind == "mosaic" else len(figure.data)
    if are_short and n <= _FEW.get(figure.kind, 0):
        return NARROW
    return WIDEST if marks is None else _MAIN_PLOT


def axis(scale: Sequence[float], width: float, edge: float) -> Callable[[float], float]:
    """A function from a value in ``scale`` to its position on a line of ``width``, ``edge`` from its ends.

    >>> x = axis((-1, 1), 100, 10)
    >>> x(-1), x(0.5), x(7)
    (10.0, 70.0, 90.0)
    """
    low, high = scale

    def place(value: float) -> float:
        share = (min(max(float(value), low), high) - low) / ((high - low) or 1.0)
        return round(edge + (width - 2 * edge) * share, 1)

    return place


def render(name: str, /, **values: Any) -> str:
    """The template ``name`` (without its ending) with these values in it."""
    return environment().get_template(f"{name}.html").render(values)


def script(name: str, /, **constants: Any) -> str:
    """The script ``name`` (without its ending), after these constants, by their names.

    >>> script("choose", limit=3).splitlines()[0]
    'const limit = 3;'
    """
    given = "".join(f"const {key} = {json.dumps(value)};\n" for key, value in constants.items())
    return given + (STATIC / f"{name}.js").read_text(encoding="utf-8")
