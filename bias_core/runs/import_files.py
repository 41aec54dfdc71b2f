"""The files of a folder or a zip of somebody else, read without trusting their names or sizes."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Protocol

from bias_core.errors import InvalidInput

MOST_BYTES = 64_000_000  # of one file, unpacked
MOST_UNPACKED = 4_000_000_000  # of a whole zip
MOST_FILES = 200_000
# RuntimeError: it wants a password; NotImplementedError: a way of packing that Python does not know.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


class Files(Protocol):
    """Files by their names, which are relative and use forward slashes."""

    names: tuple[str, ...]
    rejected: tuple[str, ...]

    def read(self, name: str) -> bytes:
        """The file's content; InvalidInput where it is too large or cannot be read."""
        ...


def open_files(path: Path) -> Files:
    """The files of a folder or zip, in the order of their names; hidden ones are left out.

    Raises
    ------
    InvalidInput
        There is nothing at ``path``, it is neither, it is damaged, or a name in it leads out of it.
    """
    try:
        path = path.expanduser()
        if path.is_dir():
            return _Folder(path)
        if path.is_file():
            return _Zip(path)
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, no such user, a lone surrogate
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{str(path)[:200]!r} cannot be opened: {error}") from error
    raise InvalidInput(f"there is no folder or zip {str(path)[:200]!r}")


def check_name(name: str) -> str:
    """``name``, if it stays inside: relative, without "..", drive or backslash.

    Raises
    ------
    InvalidInput
        It does not.

    Examples
    --------
    >>> check_name("train/1.png")
    'train/1.png'
    """
    path = PurePosixPath(name)
    drive = len(name) > 1 and name[1] == ":" and name[0].isalpha()
    if not name or path.is_absolute() or ".." in path.parts or drive or "\\" in name or "\0" in name:
        raise InvalidInput(f"the name {name[:200]!r} leads out of its folder")
    return path.as_posix()


class _Folder:
    def __init__(self, path: Path) -> None:
        self._root = path.resolve()
        inside: list[str] = []
        outside: list[str] = []
        for file in sorted(self._root.rglob("*")):
            name = file.relative_to(self._root).as_posix()
            if _hidden(name) or not file.is_file():
                continue
            (inside if file.resolve().is_relative_to(self._root) else outside).append(name)
        self.names = tuple(inside)
        self.rejected = tuple(f"{name}: a link that leads out of the folder" for name in outside)

    def read(self, name: str) -> bytes:
        path = self._root / name
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InvalidInput(f"larger than {MOST_BYTES // 1_000_000} MB")
            return path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}") from error


class _Zip:
    """Opened once, for each opening reads the whole directory."""

    def __init__(self, path: Path) -> None:
        self.rejected: tuple[str, ...] = ()
        try:
            self._archive = zipfile.ZipFile(path)
            files = [info for info in self._archive.infolist() if not info.is_dir()]
        except _DAMAGE as error:
            raise InvalidInput(f"{path.name} is no zip that can be read: {error}") from error
        unpacked = sum(info.file_size for info in files)  # more than it says is not read of any file
        if len(files) > MOST_FILES:
            raise InvalidInput(
                f"{path.name} has {len(files):,} files; at most {MOST_FILES:,} can be taken: divide it"
            )
        if unpacked > MOST_UNPACKED:
            raise InvalidInput(
                f"{path.name} would unpack to {unpacked / 1e9:.2f} GB; at most {MOST_UNPACKED / 1e9:g} GB "
                "can be taken: divide it, or make the pictures smaller"
            )
        for info in files:
            # zipfile cuts a name at NUL and turns the system's separators; the name as stored decides.
            check_name(info.orig_filename)
        self.names = tuple(sorted({info.filename for info in files if not _hidden(info.filename)}))

    def read(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        if info.file_size > MOST_BYTES:
            raise InvalidInput(f"larger than {MOST_BYTES // 1_000_000} MB")
        try:
            return self._archive.read(info)
        except _DAMAGE as error:
            raise InvalidInput(f"cannot be unpacked: {error}") from error


def _hidden(name: str) -> bool:
    """Files that systems leave behind: ``.DS_Store``, ``__MACOSX/``, ``Thumbs.db``."""
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") for part in parts) or parts[0] == "__MACOSX" or parts[-1] == "Thumbs.db"
