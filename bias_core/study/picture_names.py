"""Names of pictures in other programs' files: which picture of a run a name, path or address means.

Pictures of a run are found by their ids. Own pictures are also found by the names that their files had before they were
imported, which a run keeps in its saved report for this alone: no exported report and no rating task has them.
"""

import re
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import pandas as pd

from bias_core.store.found_pictures import PICTURES, normal_name

NOT_IN_RUN = "pictures that the run does not have"
LEFT_OUT = "pictures that this run leaves out"
SEVERAL = "several pictures of the run have this name"
SEVERAL_IN_FILE = (
    "several pictures in the file of answers have this name, and only one of the run: "
    "take their folders off if they are one picture"
)
_BY_NAME, _BY_PATH = "the name of its file", "the path of its file"
_OF_RATERS = ", in a folder of each person's own"
_RESAVED, _AFTER_PREFIX = ", saved in another format", " after the prefix of an upload"
UNMATCHED = NOT_IN_RUN, SEVERAL, SEVERAL_IN_FILE
"""Reasons for which an answer may be about another run."""
_LONGEST_NAME = 1000  # characters
_UPLOAD_PREFIX = re.compile(r"[0-9a-f]{8}-(?=.)")  # Label Studio's, of uploaded files
_EXPORT_NAME = re.compile(r"[0-9]{5,}-.*-([^-]+)")  # bias_core.store.export: number, group, id


def list_files(sources: Mapping[Path, Mapping[str, Collection[str]]]) -> pd.DataFrame:
    """Return the files of own pictures: ``image_id`` ("" for a file that does not count), ``folder, file``.

    ``sources`` has, by folder or zip, the ids of its pictures by the names of their files. A folder is named by as many
    of its parents as tell it from the others.
    """
    parts = {path: (*path.parts[:-1], path.stem if path.suffix.lower() == ".zip" else path.name) for path in sources}
    depths = range(1, max(map(len, parts.values()), default=1) + 1)
    depth = next(
        (n for n in depths if len({path_parts[-n:] for path_parts in parts.values()}) == len(parts)), depths[-1]
    )
    rows = [
        {"image_id": image_id, "folder": "/".join(parts[path][-depth:]), "file": name}
        for path, files in sources.items()
        for name, image_ids in files.items()
        for image_id in sorted(image_ids) or ("",)
    ]
    return pd.DataFrame(rows, columns=["image_id", "folder", "file"], dtype=object)


@dataclass(frozen=True, kw_only=True)
class PictureMatch:
    """The picture that a name means, and in words by what it was found; without a picture, the reason."""

    image_id: str = ""
    way: str = ""
    reason: str = ""


_NO_MATCH = PictureMatch(reason=NOT_IN_RUN)


@dataclass(frozen=True, kw_only=True)
class _FileName:
    """The name of a picture's file, or a name in answers, as they are compared."""

    folders: tuple[str, ...]  # of an own picture, with those of the import before those within it
    stem: str
    ending: str
    spelled: tuple[str, ...] = ()  # folders and file in their own case
    import_folders: tuple[str, ...] = ()
    image_id: str = ""  # of the run; "" for a picture that does not count

    @classmethod
    def build(cls, name: str, folder: str = "", image_id: str = "") -> "_FileName":
        above, path = (tuple(filter(None, normal_name(text).split("/"))) for text in (folder, name))
        *within, file = path or ("",)
        stem, _, ending = file.rpartition(".")
        stem, ending = (stem, ending) if stem and f".{ending}" in PICTURES else (file, "")
        spelled = tuple(filter(None, normalize("NFC", f"{folder}/{name.strip()}".replace("\\", "/")).split("/")))
        return cls(
            folders=(*above, *within), stem=stem, ending=ending, spelled=spelled, import_folders=above,
            image_id=image_id,
        )  # fmt: skip

    @property
    def uploaded_stem(self) -> str:
        """The stem as Label Studio writes it when a file is uploaded."""
        return re.sub(r"[^-\w.]", "", self.stem.replace(" ", "_"))

    def has_folders(self, folders: tuple[str, ...]) -> bool:
        """Return True if some folders of the name, one after the other, are these."""
        starts = range(len(self.folders) - len(folders) + 1)
        return any(self.folders[start : start + len(folders)] == folders for start in starts)

    @property
    def path(self) -> tuple[str, ...]:
        """Folders, stem and ending, without case."""
        return (*self.folders, self.stem, self.ending)

    def count_spelled(self, file: "_FileName") -> int:
        """Return how many parts of the name, from its end, are those of a file's path in the same case."""
        pairs = zip(reversed(self.spelled), reversed(file.spelled), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def nearness(self, file: "_FileName") -> tuple[bool, int, bool]:
        """Return if the path is all of a file's, how many of its folders it has, and if the endings are equal."""
        own_folders, theirs, within = self.folders, file.folders, file.folders[len(file.import_folders) :]
        pairs = ((own_folders, theirs), (theirs, own_folders), (within, own_folders))  # one ends with the other
        shared = [len(short) for short, long in pairs if short and long[-len(short) :] == short]
        return bool(own_folders) and own_folders in (theirs, within), max(shared, default=0), self.ending == file.ending


class PictureNames:
    """The names by which the pictures of a run are found.

    Parameters
    ----------
    image_ids : of all pictures.
    files : of own pictures, as :func:`list_files` returns them; None if they were drawn.
    """

    def __init__(self, image_ids: Collection[str], files: pd.DataFrame | None = None) -> None:
        self.image_ids = image_ids
        self._by_stem, self._by_uploaded_stem = (defaultdict[str, list[_FileName]](list) for _ in range(2))
        self._imports, rows = set[tuple[str, ...]](), [] if files is None else files.to_numpy().tolist()
        for image_id, folder, name in rows:
            file = _FileName.build(name, folder, image_id if image_id in image_ids else "")
            self._by_stem[file.stem].append(file)
            self._by_uploaded_stem[file.uploaded_stem].append(file)
            self._imports.add(file.import_folders)
        picture_files = (f"{folder}/{name}" for image_id, folder, name in rows if image_id in image_ids)
        self.example = next(picture_files, f"{next(iter(image_ids), '')}.png")  # the name of a picture

    def match_all(self, raters: Mapping[str, Collection[str]]) -> dict[str, PictureMatch]:
        """Return the pictures that the names in one file of answers mean, of the raters who answered about each name.

        A picture of the run that is found by its name alone is not matched if names in several folders mean it, unless
        each rater has a folder of their own: copies of the same pictures on their machines.
        """
        matches = {name: match_picture(name, self) for name in raters}
        folders = {
            name: _FileName.build(_extract_path(name)).folders
            for name, match in matches.items()
            if match.way.startswith((_BY_NAME, _BY_PATH)) and not match.way.endswith(_AFTER_PREFIX)
        }
        of_pictures, of_raters = (defaultdict[str, set[tuple[str, ...]]](set) for _ in range(2))
        for name, folder in folders.items():
            of_pictures[matches[name].image_id].add(folder)
            for rater in raters[name]:
                of_raters[rater].add(folder)
        contradicted = {
            image_id
            for image_id, picture_folders in of_pictures.items()
            for longest in [max(picture_folders, key=len)]
            if any(folder and longest[-len(folder) :] != folder for folder in picture_folders)
        }
        # A folder of the run itself says that the others are not the run's.
        in_run = {match.image_id for match in matches.values() if match.way.startswith(_BY_PATH)}
        one_each = [*of_raters.values()] if "" not in of_raters else []
        is_copied = all(len(rater_folders) == 1 for rater_folders in one_each) and 1 < len(one_each) == len(
            set().union(*one_each)
        )
        for name, match in matches.items():
            if match.image_id in contradicted and match.way.startswith(_BY_NAME):
                copy = replace(match, way=match.way + _OF_RATERS)
                is_copy = is_copied and match.image_id not in in_run
                matches[name] = copy if is_copy else PictureMatch(reason=SEVERAL_IN_FILE)
        return matches

    def find_file(self, name: str) -> PictureMatch:
        """Return the own picture whose file a name, path or address means."""
        spelled = dict.fromkeys((name, unquote(_extract_path(name))))
        matches = (self._find(text, is_uploaded=is_uploaded) for text in spelled for is_uploaded in (False, True))
        return next((match for match in matches if match != _NO_MATCH), _NO_MATCH)

    def _find(self, text: str, *, is_uploaded: bool) -> PictureMatch:
        """Return the picture whose file is the nearest of those with this name: by folders, then by its ending."""
        name, files = _FileName.build(text), list[_FileName]()
        if not is_uploaded:
            files = self._by_stem.get(name.stem, [])
        elif prefix := _UPLOAD_PREFIX.match(name.stem):
            *folders, file = name.spelled
            spelled = (*folders, file[len(prefix[0]) :])
            name = replace(name, stem=_UPLOAD_PREFIX.sub("", name.stem, count=1), spelled=spelled)
            files = self._by_stem.get(name.stem) or self._by_uploaded_stem.get(name.stem, [])
        # A name in the folder of one arm means no picture of another.
        named_imports = {folders for folders in self._imports if name.has_folders(folders)} or self._imports
        files = [file for file in files if file.import_folders in named_imports]
        if not files:
            return _NO_MATCH
        best = max(map(name.nearness, files))
        nearest = [file for file in files if name.nearness(file) == best]
        if len({file.path for file in nearest}) == 1:  # A.png and a.png
            max_spelled = max(map(name.count_spelled, nearest))
            nearest = [file for file in nearest if name.count_spelled(file) == max_spelled]
        image_ids = {file.image_id for file in nearest}
        if len(image_ids) > 1:
            return PictureMatch(reason=SEVERAL)
        if not (image_id := image_ids.pop()):
            return PictureMatch(reason=LEFT_OUT)
        _, n_folders, is_same = best
        way = (_BY_PATH if n_folders else _BY_NAME) + ("" if is_same or not name.ending else _RESAVED)
        return PictureMatch(image_id=image_id, way=way + _AFTER_PREFIX * is_uploaded)


def match_picture(name: str, pictures: PictureNames) -> PictureMatch:
    """Return the picture that a name, path or address means, and in words by what it was found.

    >>> pictures = PictureNames(image_ids={"x1"})
    >>> match_picture("/data/local-files/?d=a%2F1a2b3c4d-x1.png", pictures).way
    'the file name after the prefix of an upload'
    >>> [match_picture(name, pictures).way for name in ("x1", "s3://bucket/x1.png", "x2.png")]
    ['id', 'the file name in an address', '']
    >>> match_picture("train/00001-paired-x1.png", pictures)
    PictureMatch(image_id='x1', way='the id in the file name of an export', reason='')
    """
    name, image_ids = name.strip()[:_LONGEST_NAME], pictures.image_ids
    if name in image_ids:
        return PictureMatch(image_id=name, way="id")
    path = _extract_path(name)
    file = unquote(path).replace("\\", "/").rpartition("/")[2]
    stem = file if file in image_ids else file.rpartition(".")[0] or file
    later = _UPLOAD_PREFIX.sub("", stem, count=1) if _UPLOAD_PREFIX.match(stem) else ""
    export = _EXPORT_NAME.fullmatch(later) or _EXPORT_NAME.fullmatch(stem)
    ways = {
        "the file name in an address" if path != name or "/" in path else "the file name": stem,
        "the file name after the prefix of an upload": later,
        "the id in the file name of an export": export[1] if export else "",
    }
    by_id = (PictureMatch(image_id=image_id, way=way) for way, image_id in ways.items() if image_id in image_ids)
    return next(by_id, None) or pictures.find_file(name)


def _extract_path(address: str) -> str:
    """Return the path in an address; in Label Studio's own addresses that of the file they stand for."""
    parts = _split(address)
    query = parse_qs(parts.query)
    if "d" in query and parts.path.rstrip("/").endswith("/data/local-files"):
        return query["d"][0]
    if "fileuri" in query and re.search(r"/(resolve|presign)/?$", parts.path):
        try:
            return _extract_path(urlsafe_b64decode(query["fileuri"][0] + "==").decode())
        except ValueError:  # no base64, or no text in it
            return ""
    return parts.path if parts.scheme or parts.query else address


def is_picture(name: str, value: Any) -> bool:
    """Return True if a value names a picture, by its ending or the name of its column."""
    if not isinstance(value, str):
        return False
    has_ending = PurePosixPath(_extract_path(value)).suffix.lower() in PICTURES
    return has_ending or name.lower() in ("image", "img", "picture")


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # a host in half a bracket
        return SplitResult("", "", address, "", "")
