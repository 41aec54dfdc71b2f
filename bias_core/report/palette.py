"""The colours of figures, of the page and of saved reports: those of ``palette.yaml``, as CSS variables."""

from pathlib import Path
from typing import Literal

from bias_core.models.catalogue import read_yaml

_LOOKS = read_yaml(Path(__file__).with_name("palette.yaml"))
COLOURS: tuple[str, ...] = tuple(value for name, value in _LOOKS["light"].items() if name.strip("c").isdigit())
"""Colours of groups, in turn; the shapes of marks tell groups apart for every kind of colour vision."""


def css_variables(look: Literal["light", "dark"]) -> str:
    """Return the colours of a look as CSS variables, such as ``--c0: #0a5fa8;``."""
    return " ".join(f"--{name}: {value};" for name, value in _LOOKS[look].items())
