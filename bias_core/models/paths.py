"""What a person may name: on a public server a few models, elsewhere any folder and file, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bias_core.errors import UnknownModel

_PLAIN = re.compile(r"(open_clip:)?[A-Za-z0-9][\w-]*(\.[\w-]+)*/[A-Za-z0-9][\w-]*(\.[\w-]+)*")
_SHOWN = 80  # characters of a name that a message repeats


@dataclass(frozen=True)
class AllowedNames:
    """Decides, for every door, whether a name may be asked for.

    Attributes
    ----------
    patterns : None where any name may. On a public server those that may beside the listed ones: "org/name",
        "org/*" or "open_clip:*"; a revision or a LoRA only where the pattern is that very name.
    """

    patterns: tuple[str, ...] | None = None

    @classmethod
    def listed_in(cls, text: str) -> AllowedNames:
        """Patterns from a setting, with commas or blanks between them."""
        return cls(tuple(text.replace(",", " ").split()))

    def check(self, name: str, listed: Iterable[str]) -> None:
        """Let a name through that is listed or allowed; no file of the server is looked at.

        Raises
        ------
        UnknownModel
            It is neither, and this server is public.
        """
        listed = tuple(listed)
        if self.patterns is None or name in listed or name in self._exact():
            return
        if _PLAIN.fullmatch(name) and any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return
        more = f", and of a hub {', '.join(self.patterns)}" if self.patterns else ""
        raise UnknownModel(
            f"{name[:_SHOWN]!r} cannot be used on this server; there are {', '.join(listed)}{more}. Other "
            "models, folders and LoRAs run on a machine of your own"
        )

    def _exact(self) -> set[str]:
        """Whole names; never a path, whatever the owner wrote."""
        return {p for p in self.patterns or () if "*" not in p and not p.startswith(("/", "~", "."))}


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


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object of a model's folder.

    Raises
    ------
    ValueError
        It is not there, cannot be read, or holds something else; whoever loads says of which model.
    """
    failure = f"cannot read {path.parent.name}/{path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{failure}: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise ValueError(f"{failure}: it is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError(f"{failure}: it is not a JSON object")
    return content
