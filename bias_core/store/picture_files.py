"""Files of a folder or zip, by relative name."""

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from bias_core.errors import InvalidInput

_LONGEST_NAME = 255  # bytes of a file's or folder's, as systems have them
_LONGEST_PATH = 4096  # characters
SHOWN = 200
"""Characters of a name in a message."""
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
"""Errors of opening and unpacking a file, such as a wanted password."""
_LINK_AS_TEXT = re.compile(rb"(?:\.\./)+[\w./-]+")  # as git writes links where the system has none
_MARKED_UTF8 = 0x800  # flag of a file in a zip
_UNICODE_NAME = 0x7075  # extra field with the name in UTF-8, after a version and a checksum of the other name
ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".parquet", ".arrow", ".lance", ".h5", ".npz")
"""Endings of other archives and tables that hold pictures."""
Openers = dict[str, Callable[[], BinaryIO]]


class Files:
    """Files of a folder or zip by relative name with forward slashes, without hidden ones.

    ``names``: sorted; ``rejected``: reasons why others are not read, by name; ``hidden``: names of hidden files.
    """

    def __init__(self, openers: Openers, rejected: dict[str, str]) -> None:
        self._openers, self.rejected = openers, rejected
        self.names = tuple(sorted(name for name in openers if not _hidden(name)))
        self.hidden = [name for name in openers if _hidden(name) and not _is_of_system(name)]

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file; InvalidInput if it cannot be read, also while it is used."""
        try:
            with self._openers[name]() as file:
                yield file
        except InvalidInput:
            raise
        except DAMAGE as error:
            says = "it wants a password" if "password" in str(error) else getattr(error, "strerror", None) or error
            raise InvalidInput(f"cannot be read: {says}") from error

    def read(self, name: str) -> bytes:
        """Return what a file holds; InvalidInput if it cannot be read."""
        with self.open(name) as file:
            return file.read()


def open_files(path: Path) -> Files:
    """Open a folder or zip, sorted by name, without hidden files; InvalidInput if it is missing, damaged or unsafe."""
    try:
        if path.is_dir():
            return _open_folder(path)
        if path.is_file() and not path.name.lower().endswith(ARCHIVES):
            return _open_zip(path)
    except InvalidInput:
        raise
    except DAMAGE as error:  # also too long a name, or a lone surrogate
        reason = str(error)
        if isinstance(error, UnicodeDecodeError):
            name = _shorten(error.object.decode("utf-8", "replace"))
            reason = f"its file {name} has a name that is not UTF-8, though the zip says so"
        advice = ": pack it anew" if path.is_file() else ""
        raise InvalidInput(f"{str(path)[:200]!r} cannot be opened: {reason}{advice}") from error
    if path.is_file():
        raise InvalidInput(f"{path.name[:SHOWN]} is no zip: unpack it, and give the folder or a zip of it")
    raise InvalidInput(f"there is no folder or zip at {str(path)[:200]!r}")


def check_name(name: str) -> str:
    r"""Return ``name`` with forward slashes, if it stays inside: relative, without ".." or drive.

    Raises InvalidInput: it leads out.

    >>> check_name("train/1.png"), check_name(r"train\1.png")
    ('train/1.png', 'train/1.png')
    """
    path = PurePosixPath(name.replace("\\", "/"))
    drive = len(name) > 1 and name[1] == ":" and name[0].isalpha()
    if not path.parts or path.is_absolute() or ".." in path.parts or drive or "\0" in name:
        raise InvalidInput(f"the name {name[:200]!r} leads out of its folder")
    return path.as_posix()


def _open_folder(path: Path) -> Files:
    """Open a folder; links are followed, as downloaded data sets have them."""
    root = path.resolve()
    files = {file.relative_to(root).as_posix(): file for file in root.rglob("*")}
    openers: Openers = {name: cast("Callable[[], BinaryIO]", partial(_follow_written_link(file).open, "rb"))
                        for name, file in files.items() if not _is_of_system(name) and file.is_file()}  # fmt: skip
    links = [name for name, file in files.items() if file.is_symlink() and not file.exists()]
    return Files(openers, dict.fromkeys(links, "a link to a file that is not here"))


def _follow_written_link(path: Path) -> Path:
    """Return the file that a link leads to which was written as a text, as git does where a system has no links."""
    if path.stat().st_size < _LONGEST_NAME:
        text = path.read_bytes().strip()
        if _LINK_AS_TEXT.fullmatch(text) and (target := path.parent / text.decode()).is_file():
            return target
    return path


def _open_zip(path: Path) -> Files:
    openers, rejected, archive = Openers(), dict[str, str](), zipfile.ZipFile(path)
    for info in archive.infolist():
        if info.orig_filename.endswith(("/", "\\")):
            continue
        try:
            name = check_name(stored_name(info))
        except InvalidInput as error:
            rejected[_shorten(info.filename) or "(without a name)"] = str(error)
            continue
        if len(name) > _LONGEST_PATH:
            rejected[_shorten(name)] = f"a path of more than {_LONGEST_PATH:,} characters"
        elif len(name) > _LONGEST_NAME and any(len(os.fsencode(part)) > _LONGEST_NAME for part in name.split("/")):
            rejected[_shorten(name)] = f"a name of more than {_LONGEST_NAME} bytes"
        elif stat.S_ISLNK(info.external_attr >> 16):
            rejected[name] = "a link, which a zip cannot follow: pack the file that it leads to"
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            rejected[name] = "packed in a way that is not read: make the zip anew in the usual way (deflate)"
        else:
            if name in openers:
                rejected[name] = "twice in the zip; only the last counts"
            openers[name] = cast("Callable[[], BinaryIO]", partial(archive.open, info))
    return Files(openers, rejected)


def _shorten(name: str) -> str:
    """Return a name without the middle of a long one, which the end tells from others."""
    return name if len(name) <= SHOWN else f"{name[: SHOWN // 2]}…{name[-SHOWN // 2 :]}"


def stored_name(info: zipfile.ZipInfo) -> str:
    """The stored name: zipfile cuts it at NUL, passes over Info-ZIP's extra field, and reads UTF-8 as MS-DOS text."""
    if not info.flag_bits & _MARKED_UTF8:
        extra = info.extra
        while len(extra) > 4:
            kind, size = struct.unpack_from("<HH", extra)
            checksum = zlib.crc32(info.orig_filename.encode("cp437", "replace"))
            if kind == _UNICODE_NAME and checksum == int.from_bytes(extra[5:9], "little"):
                with suppress(UnicodeError):
                    return extra[9 : 4 + size].decode()
            extra = extra[4 + size :]
        with suppress(UnicodeError):
            return info.orig_filename.encode("cp437").decode()
    return info.orig_filename


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts) or _is_of_system(name)


def _is_of_system(name: str) -> bool:
    """Return true for files of a system: ``.DS_Store``, ``__MACOSX/``, ``Thumbs.db``, ``._1.png``, ``.git/``."""
    parts = PurePosixPath(name).parts
    is_of_mac = parts[0] == "__MACOSX" or parts[-1].startswith("._")
    return is_of_mac or parts[-1] in (".DS_Store", "Thumbs.db") or ".git" in parts
