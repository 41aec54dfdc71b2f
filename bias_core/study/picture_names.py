"""Names of pictures in other programs' files: which picture of a run a name, path or address means."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_LONGEST_NAME = 1000  # characters
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
_UPLOAD_PREFIX = re.compile(r"[0-9a-f]{8}-(?=.)")  # Label Studio's, of uploaded files
_EXPORT_NAME = re.compile(r"[0-9]{5,}-.*-([^-]+)")  # bias_core.store.export: number, group, id


def match_picture(name: str, image_ids: Collection[str]) -> tuple[str, str]:
    """Return the picture that a name, path or address means, and in words by what it was found; ("", "") if none.

    >>> match_picture("/data/local-files/?d=a%2F1a2b3c4d-x1.png", {"x1"})
    ('x1', 'the file name after the prefix of an upload')
    >>> match_picture("x1", {"x1"}), match_picture("s3://bucket/x1.png", {"x1"}), match_picture("x2.png", {"x1"})
    (('x1', 'id'), ('x1', 'the file name in an address'), ('', ''))
    >>> match_picture("train/00001-paired-x1.png", {"x1"})
    ('x1', 'the id in the file name of an export')
    """
    name = name.strip()[:_LONGEST_NAME]
    if name in image_ids:
        return name, "id"
    path = _path_of(name)
    file = unquote(path).replace("\\", "/").rpartition("/")[2]
    stem = file if file in image_ids else file.rpartition(".")[0] or file
    later = _UPLOAD_PREFIX.sub("", stem, count=1) if _UPLOAD_PREFIX.match(stem) else ""
    export = _EXPORT_NAME.fullmatch(later) or _EXPORT_NAME.fullmatch(stem)
    ways = {
        "the file name in an address" if path != name or "/" in path else "the file name": stem,
        "the file name after the prefix of an upload": later,
        "the id in the file name of an export": export[1] if export else "",
    }
    return next(((found, way) for way, found in ways.items() if found in image_ids and found), ("", ""))


def _path_of(address: str) -> str:
    """Return the path in an address; in Label Studio's own addresses that of the file they stand for."""
    parts = _split(address)
    query = parse_qs(parts.query)
    if "d" in query and parts.path.rstrip("/").endswith("/data/local-files"):
        return query["d"][0]
    if "fileuri" in query and re.search(r"/(resolve|presign)/?$", parts.path):
        try:
            return _path_of(urlsafe_b64decode(query["fileuri"][0] + "==").decode())
        except ValueError:  # no base64, or no text in it
            return ""
    return parts.path if parts.scheme or parts.query else address


def is_picture(name: str, value: Any) -> bool:
    """Return True if a value names a picture, by its ending or the name of its column."""
    if not isinstance(value, str):
        return False
    has_ending = PurePosixPath(_path_of(value)).suffix.lower() in _ENDINGS
    return has_ending or name.lower() in ("image", "img", "picture")


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # a host in half a bracket
        return SplitResult("", "", address, "", "")
