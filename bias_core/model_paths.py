"""Folders and files that a person names: the one way to spell each, and what it lacks."""

from __future__ import annotations

from pathlib import Path

from bias_core.errors import UnknownModel


def real_path(name: str) -> str:
    """The one spelling of a folder or file that may be named in many ways."""
    return str(Path(name).expanduser().resolve())


def is_folder(name: str, marker: str) -> bool:
    """Whether it is a folder that has this file; with "", any folder."""
    try:
        folder = Path(name).expanduser()
        return bool(name) and "\0" not in name and folder.is_dir() and (folder / marker).exists()
    except (OSError, RuntimeError):  # a name that no file system takes, or a home that is nobody's
        return False


def is_file(name: str) -> bool:
    """Whether it is a file."""
    try:
        return bool(name) and "\0" not in name and Path(name).expanduser().is_file()
    except (OSError, RuntimeError):
        return False


def refuse_folder(name: str, files: str) -> None:
    """Say what a folder lacks that was taken for a model; nothing of other names."""
    if is_folder(name, ""):
        raise UnknownModel(
            f"the folder {name} has no {files}, so it is no model in a layout that can be read here; give a "
            "folder that save_pretrained has written"
        )
