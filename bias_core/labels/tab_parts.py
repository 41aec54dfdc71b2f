"""What the owner of a labelling task sees of it, and who that is: by a key, or by a sign-in at the Hub.

On a Space with ``hf_oauth: true`` Gradio gives a handler the profile of whoever is signed in, from the session
that its signed cookie holds; nothing of it can come from a form. A user is known by the Hub's own number of the
account (``sub``): names may change hands.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, TypeAlias

import gradio as gr
from gradio.utils import get_space

from bias_core.labels.collected import TaskProgress
from bias_core.labels.run_task import serves
from bias_core.labels.task_owner import OwnerKey, tasks_of
from bias_core.number_text import format_estimate, format_number
from bias_core.services import Services
from bias_core.study.corrected import correction_of
from bias_core.study.label_tasks import Task
from bias_core.study.report_text import title_of
from bias_core.study.saved import open_report
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.study.parts import corrected_html
from bias_core.ui.study.result_page import CHOOSE_JS
from bias_core.ui.templates import render, script

Memory: TypeAlias = Mapping[str, str] | None  # what the browser remembers: titles of tasks by their keys
Profile: TypeAlias = gr.OAuthProfile | None
Parts = dict[str, Any]
_NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")


def add(parts: Parts, rows: Mapping[str, tuple[Any, dict[str, Any]]], *names: str, prefix: str = "label") -> None:
    """Make components by the table ``rows`` (of each name its kind and options), all where there are no ``names``."""
    for name in names or rows:
        kind, options = rows[name]
        parts[name] = kind(**{"elem_id": f"{prefix}-{name}"} | options)


def button(text: str, width: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A button in such a table."""
    return gr.Button, {"value": text, "scale": 0, "min_width": width} | options


def note(name: str, text: str = "") -> str:
    """A sentence of the tab by its name in ``label_notes``; ``text`` is that of a "line" or "heading"."""
    return render("label_notes", note=name, text=text)


STATUSES = {"open": "Open for raters", "paused": "Pause", "closed": "Close"}
PARTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "make": button("Make the task", 200, variant="primary"),
    "mine": (gr.Dropdown, {"choices": [], "label": "Your tasks", "min_width": 240}),
    "typed": (gr.Textbox, {
        "label": "Or the owner's key", "info": "The part after “owner=” of the link for you alone",
        "type": "password", "max_length": 200, "elem_id": "label-key", "min_width": 240,
    }),
    "open_key": button("Open it", 120, elem_id="label-open-key"),
    "header": (gr.HTML, {"js_on_load": script("copy_link")}),
    **{name: button(text, 140, variant="primary" if name == "open" else "secondary")
       for name, text in STATUSES.items()},
    "refresh": button("Refresh", 140),
    "takes": (gr.HTML, {"value": note("takes")}),
    "used": (gr.HTML, {"js_on_load": CHOOSE_JS}),
    "progress": (gr.HTML, {}),
    "change": button("Save as a new version", 200, size="sm"),
    "rater": (gr.Dropdown, {"choices": [], "label": "Rater", "min_width": 280}),
    "exclude": button("Exclude", 140),
    "include": button("Take back in", 140),
    "title": (gr.Textbox, {
        "label": "Type the task’s title to confirm", "max_length": 300, "elem_id": "label-confirm", "min_width": 280,
    }),
    "delete": button("Delete the task for good", 220, variant="stop"),
    "source": (gr.Dropdown, {"choices": [], "label": "Run", "elem_id": "label-run", "min_width": 280}),
    "attribute": (gr.Dropdown, {
        "choices": [], "label": "Attribute", "info": "Of an exploration", "visible": False, "min_width": 160,
    }),
    "present": (gr.Dropdown, {"choices": [], "label": "The answer that says it is there", "visible": False}),
    "run": button("Score with people's labels", 280, elem_id="label-use"),
    "judge": (gr.Dropdown, {
        "choices": [], "value": None, "label": "Judge", "allow_custom_value": True, "min_width": 280,
        "info": "A model that looks at pictures; or type org/name",
    }),
    "judge_run": button("Let a judge answer this task", 300),
    "stop": button("Stop", 120, variant="stop", visible=False),
}  # fmt: skip
"""The tab's components, but for the form of a new task."""


def offers_login() -> bool:
    """Whether this is a Space that lets visitors sign in."""
    return get_space() is not None and all(os.environ.get(name) for name in _NEEDED)


def user_of(profile: Profile) -> str:
    """The account's number at the Hub; "" for nobody."""
    return str(profile.get("sub") or "") if isinstance(profile, gr.OAuthProfile) else ""


def owner_of(key: str, profile: Profile) -> OwnerKey:
    """Who asks: by the key, and by their sign-in where they have one."""
    return replace(OwnerKey.parse(key), hub_user=user_of(profile))


def task_choices(services: Services, memory: Memory, profile: Profile) -> list[tuple[str, str]]:
    """Titles and keys: of tasks that the browser remembers, then of others that the user made."""
    remembered = [(str(title), str(key)) for key, title in remembered_tasks(memory).items()]
    if not (user := user_of(profile)):  # the store is not opened for a page that is only looked at
        return remembered
    ids = {OwnerKey.parse(key).task_id for _, key in remembered}
    mine = [task for task in tasks_of(services.labels, user) if task.id not in ids]
    return [*remembered, *((_title_of(task), OwnerKey(task_id=task.id).text) for task in mine)]


def remembered_tasks(memory: object, owner: OwnerKey | None = None, task: Task | None = None) -> dict[str, str]:
    """What the browser remembers, where that is what was given to it; with a task that its owner's key opened."""
    new = {owner.text: _title_of(task)} if owner is not None and task is not None and owner.secret else {}
    return (dict(memory) if isinstance(memory, Mapping) else {}) | new


def _title_of(task: Task) -> str:
    return f"{task.title} · {task.created[:16].replace('T', ' ')}"


def progress_html(progress: TaskProgress, copy_error: str | None = None) -> str:
    """How far task and raters are; ``copy_error`` of the copying to a hub: None without it, "" while all is well."""
    seconds = [one.median_seconds for one in progress.counted_raters if one.n_answered]
    return render(
        "label_progress",
        progress=progress,
        seconds=format_number(median(seconds)) if seconds else "",
        copy_error=copy_error,
    )


def corrected_for(services: Services, task: Task) -> str:
    """The numbers of the run that a task serves, as people's labels correct them; "" for a task that serves none."""
    if not task.run_id:
        return ""
    with messages.user_errors() as problem:
        if services.manifests.find(task.run_id) is None:
            return note("line", f"The run that this task serves was deleted ({task.run_id}). Its answers stay.")
        if (saved := open_report(task.run_id, services)) is None:
            return note("line", "The report of the run that this task serves has made room: run it again in Runs.")
        if (answers := services.run_answers(task.run_id)) is None:
            return ""
        of = f"the run “{title_of(saved.report)}” ({task.run_id}): {serves(task)}"
        return corrected_html(correction_of(saved.report, answers), of)
    return messages.error_html(problem.message)


def headline(report: StudyReport) -> str:
    """What the answers say of agreement, in a sentence."""
    if (alpha := next((one.estimate for one in report.results.findings if one.key == "alpha"), None)) is None:
        return "Not enough answers yet to say whether raters agree."
    if math.isnan(alpha.value):
        return "All raters always gave the same answer, so agreement by chance is certain."
    agree = "Raters agree more than by chance" if alpha.low > 0 else "Agreement beyond chance is not shown"
    estimate = format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)
    return f"{agree}: Krippendorff’s α = {estimate} (0 is chance, 1 is always)."
