"""The small files of a hub repository, from this machine's cache or the hub, and the commit they are of."""

from __future__ import annotations

from pathlib import Path

from bias_core.adapters.devices import loading

_SMALL = ["model_index.json", "*/config.json", "*/scheduler_config.json"]


def snapshot(repo: str, revision: str = "", *, name: str, offline: bool = False) -> Path:
    """Folder of the repository's small files as of ``revision``; its name is the commit.

    The hub is asked which commit a branch is at now; without a network it is the one that was used last.

    Parameters
    ----------
    revision : commit, tag or branch; "" for the main branch.
    name : of the model, for messages.
    offline : do not ask the hub.

    Raises
    ------
    ModelUnavailable
        No such repository or revision, no access to it, or neither a network nor a copy.
    """
    from huggingface_hub import snapshot_download

    with loading(name, repo):
        folder = snapshot_download(
            repo, revision=revision or None, allow_patterns=_SMALL, local_files_only=offline
        )
    return Path(folder)
