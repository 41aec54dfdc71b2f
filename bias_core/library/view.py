"""The list of a visitor's runs, and what was found in an import, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.ui.study.view import when
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.library.fits import Imported
    from bias_core.studies.running.history import Deleted, RunLine

ACT_JS = script("runs")
_MOST_PROMPTS = 8
_MOST_REJECTED = 5


def runs_html(lines: Sequence[RunLine], deleted: Deleted | None = None) -> str:
    """Every run with what can be done with it; the last deletion can be undone."""
    return render("runs", lines=lines, deleted=deleted, size=_size, when=when)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.0f} kB"


def imported_html(upload: Imported) -> str:
    """What an upload holds, and which studies it can be measured by."""
    prompts = sorted(upload.counts.items(), key=lambda item: -item[1])
    most = {"most_prompts": _MOST_PROMPTS, "most_rejected": _MOST_REJECTED}
    return render("imported", upload=upload, prompts=prompts, **most)
