"""What the owner of a labelling task sees of it, as HTML."""

from __future__ import annotations

import math
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from bias_core.studies.label_raters import RATERS
from bias_core.studies.label_report import COVERAGE
from bias_core.studies.number_text import format_estimate, format_number
from bias_core.ui.study_html import frame_html

if TYPE_CHECKING:
    from bias_core.annotation.collected import TaskProgress
    from bias_core.annotation.task_owner import OwnerKey
    from bias_core.annotation.tasks import Status
    from bias_core.studies.study_types import StudyReport

STATUS: dict[Status, str] = {
    "draft": "a draft: not open to raters yet",
    "open": "open",
    "paused": "paused: no new picture is given",
    "closed": "closed: no answer is taken",
}
TAKES = (
    '<p class="takes"><span>Take it:</span>'
    '<button type="button" data-take="labels:zip">Everything as one zip</button>'
    '<button type="button" data-take="labels:csv">Answers, CSV</button></p>'
    '<p class="quiet">The zip holds CSV, JSONL, Parquet, the pictures as an imagefolder with labels, files '
    "that Label Studio and Argilla import, and a data card. The CSV is what studies take as people's "
    "answers: <code>--labels</code>.</p>"
)
COPY_JS = """
element.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (!button) return;
  const link = element.querySelector('#' + button.dataset.copy);
  try {
    await navigator.clipboard.writeText(link.href);
    button.textContent = 'Copied';
  } catch {  // without https there is no clipboard: it can be copied by hand
    link.textContent = link.href;
    getSelection().selectAllChildren(link);
  }
});
"""


def header_html(progress: TaskProgress, owner: OwnerKey) -> str:
    """The task, how it stands, and its two links; to an owner by sign-in its key is not known."""
    task = progress.task
    return (
        f'<div class="header"><h2>{escape(task.title)}</h2><p class="facts"><span>This task is '
        f"<strong>{STATUS[task.status]}</strong></span><span>version {task.version}</span>"
        f"<span>{progress.n_items:,} pictures, {task.raters_per_item} raters each</span>"
        f"<span>{progress.n_gold_items:,} attention checks</span></p></div>"
        + _link("raters", "For raters", f"label?task={progress.join_code}", "Whoever has this link can join.")
        + (_owner_link(owner) if owner.secret else _SIGNED_IN)
    )


_SIGNED_IN = (
    '<p class="share"><small class="quiet">It is yours by your sign-in at the Hub: open it from your tasks, '
    "on any device.</small></p>"
)


def _owner_link(owner: OwnerKey) -> str:
    says = "It opens this task. Keep it: whoever has it owns the task, and nobody can find it for you."
    return _link("owner", "For you alone", f"?tab=label#owner={owner.text}", says)


def _link(name: str, title: str, address: str, says: str) -> str:
    return (
        f'<p class="share"><a id="label-link-{name}" href="{escape(address)}" target="_blank" '
        'rel="noreferrer">'
        f'{title}</a> <button type="button" data-copy="label-link-{name}">Copy the link</button>'
        f'<small class="quiet">{says}</small></p>'
    )


def progress_html(progress: TaskProgress, report: StudyReport, sync_error: str | None = None) -> str:
    """How far the task and each of its raters are.

    ``sync_error`` is of the copying to a hub: None where there is no copying, "" while all is well.
    """
    share = 100 * progress.n_answers / progress.n_wanted if progress.n_wanted else 0.0
    raters = progress.counted_raters
    n_excluded = len(progress.raters) - len(raters)
    seconds = [one.median_seconds for one in raters if not math.isnan(one.median_seconds)]
    wrong = sum(one.n_gold - one.n_gold_right for one in raters)
    checks = sum(one.n_gold for one in raters)
    facts = [
        f"{progress.n_answers:,} of {progress.n_wanted:,} answers",
        f"{progress.n_complete:,} of {progress.n_items:,} pictures complete",
        f"{len(raters):,} raters",
        f"raters excluded: {n_excluded:,}, with {progress.n_excluded_answers:,} answers"
        if n_excluded
        else "",
        f"{format_number(median(seconds))} s a picture (median of the raters' medians)" if seconds else "",
        f"{wrong:,} of {checks:,} attention checks failed" if checks else "",
        f"{progress.n_deleted_raters:,} raters deleted {progress.n_deleted_answers:,} answers"
        if progress.n_deleted_raters
        else "",
    ]
    told = "".join(f"<span>{escape(fact)}</span>" for fact in facts if fact)
    return (
        '<div class="status"><div class="bar" role="progressbar" aria-label="Answers" aria-valuemin="0" '
        f'aria-valuemax="{progress.n_wanted}" aria-valuenow="{progress.n_answers}">'
        f'<span style="width:{min(100.0, share):.1f}%"></span></div></div><p class="facts">{told}</p>'
        + _sync(sync_error)
        + "".join(
            f"<h3>{escape(table.title)}</h3>{frame_html(table.frame, table.title)}"
            f"<p class='quiet'>{escape(table.note)}</p>"
            for table in report.results.tables
            if table.key in (RATERS, COVERAGE)
        )
    )


def _sync(error: str | None) -> str:
    if error is None:
        return ""
    if not error:
        return '<p class="quiet">Answers are copied to the hub’s dataset.</p>'
    told = f"Copying to the hub failed: {escape(error)} The answers are safe here."
    return f'<p class="notes" role="alert">{told}</p>'


def headline(report: StudyReport) -> str:
    """What the answers say of agreement, in a sentence."""
    found = {finding.key: finding.estimate for finding in report.results.findings}
    if "alpha" not in found:
        return "Not enough answers yet to say whether raters agree."
    alpha = found["alpha"]
    if math.isnan(alpha.value):
        return "All raters always gave the same answer, so agreement by chance is certain."
    agree = "Raters agree more than by chance" if alpha.low > 0 else "Agreement beyond chance is not shown"
    return (
        f"{agree}: Krippendorff’s α = "
        f"{format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)} (0 is chance, 1 is always)."
    )


def notes_html(report: StudyReport) -> str:
    """What to keep in mind of these labels."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.results.notes)
    return f'<h3>What to keep in mind</h3><ul class="keep">{notes}</ul>'
