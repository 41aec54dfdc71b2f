"""The markup of the page: a Jinja template per part, and the scripts in ``ui/static``.

All values are escaped. In a template, a line break between tags, or between a tag and a value, is layout and not
shown; between words, or between a word and a tag in its sentence, it is a space.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from bias_core.report.documents import data_uri
from bias_core.report.figures import figure_svg, page_width
from bias_core.report.report_text import excerpt, is_known, number_columns
from bias_core.ui.study.shown_report import FIGURE_FORMS, TABLE_FORMS
from bias_core.wording import format_estimate, format_interval, format_number, format_p, typeset

MOST_WATCHED = 8  # shares shown during a run
TEMPLATES = Path(__file__).parent
STATIC = TEMPLATES.parent / "static"
_COMMENT_LINE = re.compile(r"^\s*//.*\n", re.MULTILINE)  # each page would carry it

_BREAK = re.compile(r"[ \t]*\n\s*")
_CLOSING_TAG = re.compile(r"</[^<>]*>$")
_NAMED_NUMBER = re.compile(r"\b([np]) ([=<]) (?=\d)")
_VARIABLES = re.compile(r" ?\((?=[^()]*\b(?:BIAS|HF)_[A-Z])[^()]*\)")


class _Layout(Extension):
    """Handles line breaks as described at the top of this file."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return _BREAK.sub(_replace_break, source.strip())


def _replace_break(match: re.Match[str]) -> str:
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
        finalize=lambda value: value if isinstance(value, Markup) else keep_numbers_whole(without_variables(value)),
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
        "svg": lambda figure, marks=None: Markup(figure_svg(figure, marks=marks, width=page_width(figure, marks))),
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


def keep_numbers_whole(text: Any) -> Any:
    r"""A text in which a line never breaks between n or p and its number.

    >>> keep_numbers_whole("+0.3 [0.1, 0.5], n = 48, p < 0.001")
    '+0.3 [0.1, 0.5], n\xa0=\xa048, p\xa0<\xa00.001'
    """
    return _NAMED_NUMBER.sub("\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", text) if isinstance(text, str) else text


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
    """The script ``name`` (without its ending and its comment lines), after these constants, by their names.

    >>> script("choose", limit=3).splitlines()[0]
    'const limit = 3;'
    """
    given = "".join(f"const {key} = {json.dumps(value)};\n" for key, value in constants.items())
    return given + _COMMENT_LINE.sub("", (STATIC / f"{name}.js").read_text(encoding="utf-8"))
