"""The formula of a measure, as the docstring of its function says it."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bias_core.registry.card import Metric

_CITATION = re.compile(r",?\s*(from )?\[[a-z]+\d{4}[a-z0-9]*[^\]]*\]")
_MARKUP = re.compile(r";?\s*see :\w+:`[^`]*`|``|:\w+:`[^`]*`|\s*\(\w+:\s*\)")


def formula(metric: Metric) -> tuple[str, ...]:
    """The lines between the docstring's summary and its parameters that define something.

    Without citations: the card says the source. A function whose summary is its formula has that as its
    only line.

    Examples
    --------
    >>> from bias_core.registry import METRICS
    >>> formula(METRICS["stereotype_score"])
    ('Ψ(A | D, C) = max(0, P(A | D, C) - P*(A | C))',)
    """
    text = (inspect.getdoc(metric.function) or "").partition("\nParameters\n")[0]
    summary, _, rest = text.partition("\n\n")
    return tuple(_lines(rest)) or tuple(_lines(summary))


def _lines(text: str) -> list[str]:
    """Plain lines, without citations and markup; a line break inside of brackets or after a comma is none."""
    bare = _MARKUP.sub("", _CITATION.sub("", text))
    lines = [line.strip() for line in bare.splitlines()]
    joined: list[str] = []
    for line in filter(None, lines):
        if joined and not _begins(line) and not joined[-1].endswith("."):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return joined


def _begins(line: str) -> bool:
    """Whether a line starts a definition or a sentence, rather than going on with the one before."""
    return bool(re.match(r"[^ ]+(\([^)]*\))? = |[A-Z][a-z]+ |[A-Z]+: ", line)) or line.startswith("and ")
