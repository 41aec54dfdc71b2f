"""The small files of a hub repository and the commit they are of; the weights that an entry stands for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bias_core.adapters.devices import loading
from bias_core.adapters.pipeline_families import DEEPFLOYD_UPSCALER, KANDINSKY_PRIOR
from bias_core.model_catalogue import is_hub_id, split_revision

if TYPE_CHECKING:
    from collections.abc import Callable

    from bias_core.types import ModelInfo

_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMPANIONS = {"kandinsky": ("prior", KANDINSKY_PRIOR), "deepfloyd": ("upscaler", DEEPFLOYD_UPSCALER)}
_PARTS = ("prior", "upscaler", "lora")
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


def pinned(info: ModelInfo, *, offline: bool = False) -> ModelInfo:
    """The entry with the commit of everything that it takes from a hub: one run is one set of weights.

    A pipeline of two has both: ``options`` names the second with "@commit" then, like a LoRA on top.

    Raises
    ------
    ModelUnavailable
        As :func:`snapshot`; a commit that the entry names itself is taken as it is.
    """
    options, revision = dict(info.options), info.revision
    companion, repo = _COMPANIONS.get(info.family, ("", ""))
    if is_hub_id(str(options["path"])):
        revision = _commit(str(options["path"]), revision, info.id, offline)
        if companion:
            options.setdefault(companion, repo)
    for key in (companion, "lora"):
        name, asked = split_revision(str(options.get(key, "")))
        if is_hub_id(name):
            options[key] = f"{name}@{_commit(name, asked, f'{info.id}: {key}', offline)}"
    return replace(info, revision=revision, options=options)


def identity(info: ModelInfo, fingerprint: Callable[[Path], str]) -> str:
    """What the weights of a pinned entry are: commits, and fingerprints of what lies in folders and files."""
    local = local_sources(info)
    found = [fingerprint(local["path"]) if "path" in local else info.revision]
    for key in _PARTS:
        if key in local:
            found.append(fingerprint(local[key]))
        elif source := str(info.options.get(key, "")):
            found.append(split_revision(source)[1])
    return "+".join(found)


def local_sources(info: ModelInfo) -> dict[str, Path]:
    """The folders and files of a pinned entry that are no hub's, by its options' names."""
    sources = {key: Path(str(info.options.get(key, ""))).expanduser() for key in ("path", *_PARTS)}
    return {key: path for key, path in sources.items() if info.options.get(key) and path.exists()}


def _commit(repo: str, revision: str, name: str, offline: bool) -> str:
    if _COMMIT.fullmatch(revision):
        return revision
    return snapshot(repo, revision, name=name, offline=offline).name
