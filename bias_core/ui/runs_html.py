"""The list of a visitor's runs, and what was found in an import, as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bias_core.ui.study_open import when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.history import Deleted, RunLine
    from bias_core.studies.imports import Fit, Imported

ACT_JS = """
const events = {open: 'expand', again: 'submit'};
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-act]');
  if (node) trigger(events[node.dataset.act] || 'select', {act: node.dataset.act, run: node.dataset.run});
});
"""
_STATUS = {
    "finished": "finished",
    "cancelled": "stopped",
    "failed": "failed",
    "running": "running or cut off",
}
_MOST_PROMPTS = 8
_MOST_REJECTED = 5
EMPTY = (
    '<p class="quiet">Nothing yet. Every run of this browser will be listed here, with its report, and stays '
    "when you reload the page.</p>"
)


def runs_html(lines: Sequence[RunLine], deleted: Deleted | None = None) -> str:
    """Every run with what can be done with it; the last deletion can be undone."""
    undo = ""
    if deleted is not None:
        title = escape(deleted.manifest.title)
        undo = (
            f'<p class="notes" role="status">Deleted “{title}”. '
            '<button type="button" data-act="undo" data-run="">Undo</button></p>'
        )
    if not lines:
        return undo + EMPTY
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Run", "Model", "Pictures", "When", "Status", "")
    )
    body = "".join(_row(line) for line in lines)
    return (
        f'{undo}<div class="scroll" tabindex="0" role="region" aria-label="Your runs">'
        f'<table class="scores runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(line: RunLine) -> str:
    asked = escape(f"{line.study} · {line.asked}")
    model = escape(" · ".join(filter(None, (line.model, line.condition))))
    kept = " · kept" if line.kept else ""
    stored = "" if line.n_stored == line.n_pictures else f"<small>{line.n_stored:,} still stored</small>"
    cells = (
        ("Model", model),
        ("Pictures", f"{line.n_pictures:,}{stored}<small>{_size(line.n_bytes)}</small>"),
        ("When", f"{when(line.updated)}"),
        ("Status", f"{_STATUS[line.status]}{kept}"),
        ("", f'<span class="takes">{_acts(line)}</span>'),
    )
    inside = "".join(f'<td data-label="{name}"><span>{text}</span></td>' for name, text in cells)
    return f'<tr><th scope="row">{escape(line.title)}<small>{asked}</small></th>{inside}</tr>'


def _acts(line: RunLine) -> str:
    again = "Run again" if line.status == "finished" else "Go on"
    acts = [("open", "Open")] if line.saved else []
    acts += [
        ("again", again),
        ("free", "Do not keep") if line.kept else ("keep", "Keep"),
        ("delete", "Delete"),
    ]
    return "".join(
        f'<button type="button" data-act="{act}" data-run="{escape(line.run_id)}" '
        f'aria-label="{text}: {escape(line.title)}" title="{_TITLES[act]}">{text}</button>'
        for act, text in acts
    )


_TITLES = {
    "open": "Show its report",
    "again": "With the same settings; what was drawn is not drawn again",
    "keep": "Its pictures and report never make room for newer ones",
    "free": "Its pictures and report may make room for newer ones",
    "delete": "Forget it; this can be undone until the next deletion",
}


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.0f} kB"


def imported_html(found: Imported) -> str:
    """What an upload holds, and which studies it can be measured by."""
    n = sum(found.counts.values())
    prompts = sorted(found.counts.items(), key=lambda item: -item[1])
    shown = "".join(
        f"<li>{escape(prompt)} <small>{k:,}</small></li>" for prompt, k in prompts[:_MOST_PROMPTS]
    )
    more = (
        f"<li>and {len(prompts) - _MOST_PROMPTS:,} more prompts</li>" if len(prompts) > _MOST_PROMPTS else ""
    )
    return (
        f"<h3>{n:,} pictures of {len(prompts):,} prompts in “{escape(found.name)}”</h3>"
        f'<ul class="prompts">{shown}{more}</ul>{_rejected(found.rejected)}{_fits(found.fits)}'
    )


def _rejected(rejected: Sequence[str]) -> str:
    if not rejected:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in rejected[:_MOST_REJECTED])
    return f'<p class="notes">{len(rejected):,} files were left out:</p><ul class="keep">{items}</ul>'


def _fits(fits: Sequence[Fit]) -> str:
    fitting = [fit for fit in fits if fit.n_found]
    others = [fit for fit in fits if not fit.n_found]
    return _studies(f"{len(fitting):,} studies can measure them", fitting) + _studies(
        f"{len(others):,} more ask for prompts that none of them has", others
    )


def _studies(title: str, fits: Sequence[Fit]) -> str:
    if not fits:
        return ""
    head = "".join(f'<th scope="col">{text}</th>' for text in ("Study", "your pictures", "what it asks for"))
    return (
        f'<details><summary>{title}</summary><div class="scroll" tabindex="0" '
        f'role="region" aria-label="{title}"><table class="scores plain"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(map(_fit, fits))}</tbody></table></div></details>"
    )


def _fit(fit: Fit) -> str:
    asks = "any picture with a prompt"
    if fit.n_asked:
        prompts = "; ".join(f"“{prompt}”" for prompt in fit.examples)
        asks = f"up to {fit.n_asked:,}, such as {prompts}"
    n = f"{fit.n_found:,}" if fit.n_found else "none fits"
    return f'<tr><th scope="row">{escape(fit.design.title)}</th><td>{n}</td><td>{escape(asks)}</td></tr>'
