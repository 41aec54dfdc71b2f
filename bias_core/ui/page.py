"""What stands above the tabs: the name, a note on content, and what the page itself remembers and does."""

from __future__ import annotations

from collections.abc import Mapping

from bias_core.ui.links import LINK_NAMES
from bias_core.ui.study.form import OPTION
from bias_core.ui.templates import render, script

HEADER = render("header")


def header_js(titles: Mapping[str, str], tips: Mapping[str, str]) -> str:
    """What the page does by itself; ``titles`` of the tabs by their keys, ``tips`` of buttons by their id."""
    return script("page", titles=titles, tips=tips, linkNames=LINK_NAMES, optionPrefix=OPTION)


def address_js(key: str) -> str:
    """The address names the tab that was chosen."""
    return f"() => window.nameTab?.('{key}')"


LINK_IS_READ_JS = "() => { window.linkIsRead = true; }"
ABSOLUTE_JS = "(link) => link && link.startsWith('?') ? new URL(link, location.href).href : link"
