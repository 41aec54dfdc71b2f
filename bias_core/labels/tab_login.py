"""Who owns a task: by its key, or by a sign-in at the Hub on a Space with ``hf_oauth: true``.

Gradio gives a handler the profile of whoever is signed in, from the session that its signed cookie holds;
nothing of it can come from a form. A user is known by the Hub's own number of the account (``sub``): names
may change hands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import gradio as gr
from gradio.utils import get_space

from bias_core.annotation.task_owner import OwnerKey, tasks_of
from bias_core.labels.view import note

if TYPE_CHECKING:
    from bias_core.annotation.tasks import Task
    from bias_core.services import Services

_NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")


def offers_login() -> bool:
    """Whether this is a Space that lets visitors sign in."""
    return get_space() is not None and all(os.environ.get(name) for name in _NEEDED)


def build_login() -> None:
    """Gradio's button for it, where it works."""
    if offers_login():
        gr.HTML(note("login"))
        names = ("Sign in with Hugging Face", "Sign out ({})")
        gr.LoginButton(*names, variant="secondary", size="md", scale=0, min_width=260, elem_id="label-login")


def user_of(profile: gr.OAuthProfile | None) -> str:
    """The account's number at the Hub; "" for nobody."""
    return str(profile.get("sub") or "") if isinstance(profile, gr.OAuthProfile) else ""


def owner_of(key: str, profile: gr.OAuthProfile | None) -> OwnerKey:
    """Who asks: by the key, and by their sign-in where they have one."""
    return replace(OwnerKey.parse(key), hub_user=user_of(profile))


def task_choices(
    services: Services, memory: Mapping[str, str] | None, profile: gr.OAuthProfile | None
) -> list[tuple[str, str]]:
    """Titles and keys: of tasks that the browser remembers, then of others that the user made."""
    remembered = [(str(title), str(key)) for key, title in remembered_tasks(memory).items()]
    if not (user := user_of(profile)):  # the store is not opened for a page that is only looked at
        return remembered
    ids = {OwnerKey.parse(key).task_id for _, key in remembered}
    mine = [task for task in tasks_of(services.labels, user) if task.id not in ids]
    return [*remembered, *((_title_of(task), OwnerKey(task_id=task.id).text) for task in mine)]


def remembered_tasks(memory: object) -> dict[str, str]:
    """Titles by key as the browser keeps them, where that is what was given to it."""
    return dict(memory) if isinstance(memory, Mapping) else {}


def with_task(memory: object, owner: OwnerKey, task: Task) -> dict[str, str]:
    """What the browser is to remember after this task was opened; nothing new of one opened by sign-in."""
    return remembered_tasks(memory) | ({owner.text: _title_of(task)} if owner.secret else {})


def _title_of(task: Task) -> str:
    return f"{task.title} · {task.created[:16].replace('T', ' ')}"
