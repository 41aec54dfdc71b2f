"""Imported pictures with their prompts, from a folder or zip in common layouts."""

import hashlib
import io
import json
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, cast

from PIL import Image

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.protocols import StepCallback
from bias_core.store.copies import PossibleCopy, find_copies, get_thumbnail
from bias_core.store.drawing_facts import PictureMetadata, different, number
from bias_core.store.images import DamagedRecord, decode_picture, open_header, read_record, without_texts
from bias_core.store.picture_metadata import (
    PARQUET,
    facts_of_name,
    facts_of_parquet,
    facts_of_part,
    facts_of_sidecar,
    metadata_of_line,
    metadata_of_record,
    model_folder,
    names_as_prompts,
    read_metadata,
    reads_like_a_prompt,
    sidecars_of,
    wrapper_of,
)
from bias_core.store.tables import Problems, read_table_file
from bias_core.types import IMPORTED, GeneratedImage, ImageRow, PictureRecord, is_blank
from bias_core.values import MAX_TEXT, check_texts, normal_form

MOST_BYTES = 40_000_000  # of one file, unpacked
MOST_UNPACKED = 4_000_000_000  # of a whole zip
MOST_FILES = 200_000
_MOST_OF_PARQUET, _MOST_OF_JSON, _MOST_OF_SIDECAR = 32_000_000, 8_000_000, 300_000  # bytes of one
_MOST_IN_TABLES = 128_000_000  # bytes of all tables in Parquet or JSON
_MOST_LINES = 300_000  # of all metadata files
_MOST_CHARACTERS = 50_000_000  # of all prompts and other metadata
_LONGEST_NAME = 255  # bytes of a file's or folder's, as systems have them
_SHOWN = 200  # characters of a name in a message
_LOCAL_HEAD = 30  # bytes before each file of a zip, at least
_ENTRY = b"PK\x01\x02"  # start of a file's entry in the directory of a zip
# RuntimeError: it wants a password; NotImplementedError: a way of packing that Python does not know.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")
TEXTS = ("prompt", "text", "caption")  # columns for the prompt, in order of preference
_FILE_COLUMNS = ("file_name", "image_file_name", "image_name", "filename")  # then any other "…_file_name"
_NUMBERS = {"seed", "steps", "num_inference_steps", "guidance_scale", "cfg_scale", "cfg", "guidance"}
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+?\d+")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")
WHOM = ("left", "middle", "right", "identity")
"""Optional columns for the people that a picture should show: two side by side, or one."""
_LINK_AS_TEXT = re.compile(rb"(?:\.\./)+[\w./-]+")  # as git writes links where the system has none
_FIGURE = "a figure of a report"
AUTO, ONE_FOR_ALL = "auto", "one for all: "
NO_PROMPT = "without a prompt"
"""Stands for the prompt of pictures without one, where pictures are asked for or counted by prompt."""
IN_TABLE, IN_PICTURE, IN_TEXT = "a table", "the picture's own record", "the text file with its name"
IN_FILE, IN_FOLDER, GIVEN = "the name of the file", "the name of the folder", "you"
PROMPT_SOURCES = {
    "table": IN_TABLE, "picture": IN_PICTURE, "text file": IN_TEXT, "file name": IN_FILE, "folder": IN_FOLDER,
}  # fmt: skip
"""Sources of prompts in words, by the names that choose them."""
COUNT_ONCE: Literal["count once"] = "count once"
COUNT_ALL: Literal["count all"] = "count all"
COPIES = COUNT_ONCE, COUNT_ALL
PICTURES = frozenset(
    (".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif")
)
_OTHER_PICTURES = frozenset((
    ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".svg", ".psd", ".xcf", ".ico", ".tga", ".exr", ".hdr", ".dds", ".ppm",
    ".pgm", ".pbm", ".pnm", ".pcx", ".raw", ".dng", ".cr2", ".nef", ".arw", ".eps", ".ai", ".qoi",
))  # fmt: skip
_NO_PICTURES = frozenset((
    ".txt", ".caption", ".csv", ".tsv", ".json", ".jsonl", ".md", ".yaml", ".yml", ".xml", ".html", ".htm", ".log",
    ".pdf", ".py", ".parquet", ".zip", ".npy", ".npz", ".pt", ".safetensors", ".css", ".js", ".toml", ".ini", ".db",
    ".doc", ".docx", ".xlsx", ".mp4", ".webm", ".mov",
))  # fmt: skip
_HEADS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")  # of pictures
MOST_PICTURES = 100_000
_MARKED_UTF8 = 0x800  # flag of a file in a zip
_UNICODE_NAME = 0x7075  # extra field with the name in UTF-8, after a version and a checksum of the other name
_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".parquet", ".arrow", ".lance", ".h5", ".npz")


def open_files(path: Path) -> "Files":
    """Open a folder or zip, sorted by name, without hidden files; InvalidInput if it is missing, damaged or unsafe."""
    try:
        path = path.expanduser()
        if path.is_dir():
            return _Folder(path)
        if path.is_file() and not path.name.lower().endswith(_ARCHIVES):
            return _Zip(path)
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, no such user, a lone surrogate
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{str(path)[:200]!r} cannot be opened: {error}") from error
    if path.is_file():
        raise InvalidInput(f"{path.name[:_SHOWN]} is no zip: unpack it, and give the folder or a zip of it")
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


class _Folder:
    """Files of a folder by relative name with forward slashes; links are followed, as downloaded data sets have them.

    ``read`` returns an error in words; ``open`` raises Python's errors.
    """

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()
        files = {file.relative_to(self._root).as_posix(): file for file in sorted(self._root.rglob("*"))}
        files = {name: file for name, file in files.items() if not _hidden(name) and file.is_file()}
        self._paths = {name: _follow_written_link(file) for name, file in files.items()}
        self.names = tuple(files)
        links = (file for file in self._root.rglob("*") if file.is_symlink() and not file.exists())
        self.rejected = {link.relative_to(self._root).as_posix(): "a link to a file that is not here" for link in links}

    def open(self, name: str) -> BinaryIO:
        return self._paths[name].open("rb")

    def read(self, name: str, most: int | None = None) -> bytes:
        path, most = self._paths[name], most or MOST_BYTES
        try:
            if path.stat().st_size > most:
                raise InvalidInput(f"larger than {most / 1e6:g} MB")
            return path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}") from error


def _follow_written_link(path: Path) -> Path:
    """Return the file that a link leads to which was written as a text, as git does where a system has no links."""
    if path.suffix.lower() in PICTURES and path.stat().st_size < _LONGEST_NAME:
        text = path.read_bytes().strip()
        if _LINK_AS_TEXT.fullmatch(text) and (target := path.parent / text.decode()).is_file():
            return target
    return path


class _Zip:
    """Files of a zip, opened once, because each opening reads the whole directory."""

    def __init__(self, path: Path) -> None:
        self.rejected: dict[str, str] = {}
        self._infos: dict[str, zipfile.ZipInfo] = {}
        _check_entries(path)
        try:
            self._archive = zipfile.ZipFile(path)
            files = [info for info in self._archive.infolist() if not info.orig_filename.endswith(("/", "\\"))]
        except _DAMAGE as error:
            raise InvalidInput(f"{path.name} cannot be read as a zip: {error}") from error
        _check_overlap(path.name, self._archive.infolist())
        unpacked = sum(info.file_size for info in files)  # never read more of a file than its entry says
        if unpacked > MOST_UNPACKED:
            raise InvalidInput(
                f"{path.name} would unpack to {unpacked / 1e9:.2f} GB; at most {MOST_UNPACKED / 1e9:g} GB "
                "can be taken: divide it, or make the pictures smaller"
            )
        for info in files:
            name = check_name(_stored_name(info))
            if len(name) > _LONGEST_NAME and any(len(os.fsencode(part)) > _LONGEST_NAME for part in name.split("/")):
                self.rejected[f"{name[:_SHOWN]}…"] = f"a name of more than {_LONGEST_NAME} bytes"
            elif stat.S_ISLNK(info.external_attr >> 16):
                self.rejected[name] = "a link, which a zip cannot follow: pack the file that it leads to"
            else:
                if name in self._infos:
                    self.rejected[name] = "twice in the zip; only the last counts"
                self._infos[name] = info
        self.names = tuple(sorted(name for name in self._infos if not _hidden(name)))

    def open(self, name: str) -> BinaryIO:
        return cast("BinaryIO", self._archive.open(self._infos[name]))

    def read(self, name: str, most: int | None = None) -> bytes:
        info, most = self._infos[name], most or MOST_BYTES
        if info.file_size > most:
            raise InvalidInput(f"larger than {most / 1e6:g} MB")
        try:
            return self._archive.read(info)
        except _DAMAGE as error:
            raise InvalidInput(f"cannot be unpacked: {error}") from error


Files = _Folder | _Zip


def _check_entries(path: Path) -> None:
    """Refuse a zip with too many files, before Python makes an object for each."""
    n_files, end = 0, b""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            n_files += (end + piece).count(_ENTRY)
            end = piece[1 - len(_ENTRY) :]
    if n_files > MOST_FILES:
        raise InvalidInput(f"{path.name} has {n_files:,} files; at most {MOST_FILES:,} can be taken: divide it")


def _check_overlap(name: str, infos: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse a zip bomb with overlapping files, which zipfile does not check before Python 3.11.8."""
    end = 0
    for info in sorted(infos, key=lambda entry: entry.header_offset):
        if info.header_offset < end:
            raise InvalidInput(f"{name} is not a readable zip: its files overlap")
        end = info.header_offset + _LOCAL_HEAD + info.compress_size


def _stored_name(info: zipfile.ZipInfo) -> str:
    """The stored name: zipfile cuts it at NUL, passes over Info-ZIP's extra field, and reads UTF-8 as MS-DOS text."""
    if not info.flag_bits & _MARKED_UTF8:
        extra = info.extra
        while len(extra) > 4:
            kind, size = struct.unpack_from("<HH", extra)
            if kind == _UNICODE_NAME and zlib.crc32(info.orig_filename.encode("cp437", "replace")) == int.from_bytes(
                extra[5:9], "little"
            ):
                with suppress(UnicodeError):
                    return extra[9 : 4 + size].decode()
            extra = extra[4 + size :]
        with suppress(UnicodeError):
            return info.orig_filename.encode("cp437").decode()
    return info.orig_filename


def _hidden(name: str) -> bool:
    """Return true for system files: ``.DS_Store``, ``__MACOSX/``, ``Thumbs.db``."""
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") for part in parts) or parts[0] == "__MACOSX" or parts[-1] == "Thumbs.db"


@dataclass(frozen=True)
class _Line:
    """A metadata file's facts about one picture."""

    prompt: str
    identities: Mapping[str, str]  # people that it should show
    drawing: PictureMetadata  # settings of its drawing
    place: str = field(default="", compare=False)  # such as "metadata.csv, line 2"


def _lines(name: str, files: Files, remarks: list[str]) -> Iterator[tuple[str, str, _Line]]:
    """Yield each line of a metadata file: its place, the picture's name in its folder ("" in a table without), facts.

    A table of one line needs no name. Numbers that are not as they were written are told in ``remarks``.
    """
    problems, places_without_file = Problems(), list[str]()
    try:
        for place, row in read_table_file(name, partial(files.open, name), needs=[TEXTS], further=WHOM):
            try:
                text, has_file = _get_text(row), any(column in row for column in _FILE_COLUMNS)
                remarks += [f"{name}, {place}: {remark}" for remark in _mend_numbers(row)]
                if not (file_name := _get_file_name(row)):
                    if has_file or not text or any(_has_picture_ending(str(cell)) for cell in row.values()):
                        raise InvalidInput(f"needs file_name and one of {', '.join(TEXTS)}")
                    places_without_file.append(place)
                people = {column: " ".join(row[column].split()) for column in WHOM if isinstance(row.get(column), str)}
                people = {column: text for column, text in people.items() if text}
                line = _Line(text, people, metadata_of_line(row), f"{PurePosixPath(name).name}, {place}")
                yield place, file_name, line
            except InvalidInput as error:
                problems.add(f"{place}: {error}")
        if places_without_file and place != places_without_file[0]:
            problems.add(f"{places_without_file[0]}: has no file_name")
    except _DAMAGE as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} cannot be read: {error}") from error
    problems.refuse(name)


def _get_text(row: Mapping[str, Any]) -> str:
    column = next((c for c in TEXTS if row.get(c) is not None), "")
    return " ".join(str(row[column]).split()) if column else ""


def _get_file_name(row: Mapping[str, Any]) -> str:
    """Return the name of the picture in a line, with forward slashes; InvalidInput if it leads out of its folder."""
    columns = [*_FILE_COLUMNS, *(name for name in row if name.endswith("_file_name"))]
    name = next((row[column] for column in columns if isinstance(row.get(column), str) and row[column]), "")
    return check_name(name) if name else ""


def _mend_numbers(row: dict[str, Any]) -> Iterator[str]:
    """Mend the numbers of a line that a spreadsheet wrote in its own way; yield remarks on these and on unread ones."""
    for column in _NUMBERS & row.keys():
        text = str(row[column]).strip() if row[column] is not None else ""
        if column == "seed" and _ROUNDED.fullmatch(text):
            row[column] = None
            yield f"the seed “{text}” was rounded by a spreadsheet, so it is not known"
        elif column != "seed" and _DECIMAL_COMMA.fullmatch(text):
            row[column] = text.replace(",", ".")
            yield f"{column} “{text}” is read as {row[column]}"
        elif text and number(row[column]) is None:
            yield f"{column} “{text[:_SHOWN]}” is no number, so it is not known"


@dataclass(frozen=True)
class FoundPrompt:
    """The prompt of a picture; "" if it has none."""

    text: str = ""
    source: str = ""  # one of PROMPT_SOURCES; "" without a prompt
    doubt: str = ""  # reason to check it; "" if the source says outright that it is the prompt
    missing: str = ""  # reason for a missing prompt, if there is more to say than that there is none


@dataclass(frozen=True, kw_only=True)
class PromptSummary:
    """Facts about the pictures of one prompt."""

    prompt: str  # NO_PROMPT for pictures without one
    n: int  # pictures that count
    sources: Mapping[str, int]  # of the prompt, with numbers of pictures
    doubts: tuple[str, ...]
    spellings: tuple[str, ...]  # if there are several
    drawn_with: Mapping[str, int]  # models with their LoRAs, with numbers of pictures; "" where it is not known
    samplers: Mapping[str, int]
    further: tuple[str, ...]  # other texts and pictures that shaped them
    n_seeds: int  # different ones
    names: tuple[str, ...]  # of all files

    @property
    def ways(self) -> dict[str, int]:
        """Return the models with their LoRAs, and "not known", with numbers of pictures."""
        return {way or "not known": n for way, n in self.drawn_with.items()}

    @property
    def checks(self) -> tuple[str, ...]:
        """Return what a person should check: doubts, several spellings, other texts and pictures that shaped them."""
        spelled = (f"spelled as {', '.join(f'“{text}”' for text in self.spellings)}",) if self.spellings else ()
        return (*self.doubts, *spelled, *self.further)


@dataclass(frozen=True, kw_only=True)
class PictureLook:
    """A folder or zip of pictures as it was understood, before anything is scored.

    The pictures of all ``prompts`` and those ``left_out`` are together all files that look like pictures.
    """

    name: str
    prompts: tuple[PromptSummary, ...]
    left_out: Mapping[str, str]  # reasons by file
    notes: tuple[tuple[str, tuple[str, ...]], ...]  # what else there is to know, each with its files or reasons

    @property
    def n(self) -> int:
        """Number of pictures that count."""
        return sum(prompt.n for prompt in self.prompts)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of pictures of each prompt."""
        return {summary.prompt: summary.n for summary in self.prompts}

    @property
    def left_out_lines(self) -> list[str]:
        """Return the pictures that are left out, each with its reason."""
        return [f"{name}: {reason}" for name, reason in self.left_out.items()]

    @property
    def to_check(self) -> bool:
        """Return True if a person should look: a prompt is missing or doubted, a picture is left out or looks alike."""
        is_unsure = any(summary.doubts or summary.prompt == NO_PROMPT for summary in self.prompts)
        return is_unsure or bool(self.left_out) or len(self.ways) > 1

    @property
    def ways(self) -> dict[str, int]:
        """Return the ways of drawing that the pictures record, with numbers of pictures."""
        counts = sum((Counter(prompt.drawn_with) for prompt in self.prompts), Counter[str]())
        return {way: n for way, n in counts.items() if way}


class ImportedImages:
    """Pictures of a folder or zip by prompt; they act as a text-to-image model that draws nothing.

    Their rows have the model "imported:<name>" and the digest of the file as revision, so a picture that was
    imported once is found in the store again. A picture's prompt comes from the first of these that exists:

    - of ``metadata.csv``, ``.tsv`` or ``.jsonl`` with ``file_name`` and ``prompt``, ``text`` or ``caption``
      (Hugging Face imagefolder, and this program's own exports), for the pictures below its folder; a table with one
      line and no file has the prompt of all pictures below its folder (GenEval);
    - of ``metadata.parquet``, or the JSON of a part of DiffusionDB;
    - in the picture itself: our own record, or metadata of AUTOMATIC1111, Forge, ComfyUI, SwarmUI, InvokeAI, Fooocus,
      NovelAI, Midjourney, Easy Diffusion or Draw Things;
    - in a text file next to it: ``1.txt``, ``1.caption`` or ``1.json`` for ``1.png``;
    - in the name of its folder or file, whichever reads like a prompt: ``a photo of a doctor/3.png`` (DallEval),
      ``a photo of a doctor_3.png``. Others, such as one word, are doubted.

    Seed, negative prompt, steps, guidance, sampler and model come from the same places, each from the first that has
    it. In a row without a known seed, the picture's number among those of its prompt stands for it. Pictures without a
    prompt count under "". A picture that was drawn once counts once: certain copies are left out
    (:mod:`bias_core.store.copies`), pictures that only look alike count and are named.

    Parameters
    ----------
    path : folder or zip.
    prompts_from : "auto", one of :data:`PROMPT_SOURCES`, or "one for all: " and the prompt of all pictures.
    copies : "count once", or "count all".
    drawn_with : take only the pictures that were drawn in this way (:attr:`PictureLook.ways`); "" for all.

    Attributes
    ----------
    name : of the folder or zip.
    counts : number of files per prompt, in file order; after :meth:`examine` number of pictures.
    left_out : reasons for left-out pictures, by file; grows while pictures are read.
    problems : lines of tables, and files, that could not be used.
    blanks, animations, alike : pictures that count as blanked, count by their first frame, or look like another.
    unread_metadata : reasons for ignored metadata, one line each; grows likewise.
    others : files that are neither pictures nor texts about them.

    Raises InvalidInput: there is no such folder or zip, it has no picture, there are too many, a table contradicts
    itself, or a name leads out of it.
    """

    batch_size = 32

    def __init__(self, path: Path, *, prompts_from: str = AUTO, copies: str = COUNT_ONCE, drawn_with: str = "") -> None:
        self.prompts_from, self._copies_count, self._drawn_with = read_prompts_from(prompts_from), copies, drawn_with
        if copies not in COPIES:
            raise InvalidInput(f"copies are {' or '.join(map(repr, COPIES))}; got {quoted(copies)}")
        self._files = open_files(path)
        path = path.expanduser()
        self.name = path.resolve().stem if path.is_file() else path.resolve().name
        rejected = self._files.rejected
        self.left_out = {name: reason for name, reason in rejected.items() if _has_picture_ending(name)}
        self.problems = [f"{name}: {reason}" for name, reason in rejected.items() if name not in self.left_out]
        self.unread_metadata: list[str] = []
        self.alike: list[str] = []
        self.blanks: list[str] = []
        self.animations: list[str] = []
        self.others: list[str] = []
        self._tables: dict[str, PictureMetadata] = {}  # of other tables, by file
        self._sidecars: dict[str, str] = {}  # names of texts, by file
        self._lines: dict[str, _Line] = {}  # of metadata files, by file
        self._folder_lines: dict[PurePosixPath, _Line] = {}  # of metadata files that name no file, by folder
        self._programs: dict[str, str] = {}  # that wrote the prompt into the picture
        self._n_characters = 0
        self._found = self._find()
        if not self._found:
            reasons = [f"{name}: {reason}" for name, reason in self.left_out.items()] + self.problems + self.others
            raise InvalidInput(f"{path} has no picture{f' ({chr(59).join(reasons[:3])})' if reasons else ''}")
        pictures: dict[str, list[str]] = defaultdict(list)
        for name, found in self._found.items():
            pictures[key(found.text)].append(name)
        self._unread = pictures
        self._n_files = {prompt: len(names) for prompt, names in pictures.items()}
        self.counts = {self._found[names[0]].text or NO_PROMPT: len(names) for names in pictures.values()}
        self._first_files: dict[str, tuple[str, str]] = {}  # prompt and name of the first file with this content
        self._rows: dict[str, list[ImageRow]] = {}
        self._names: dict[str, str] = {}  # of files, by id of the row
        self._records: dict[str, tuple[str, str]] = {}
        self._drawings: dict[str, PictureMetadata] = {}

    @property
    def has_prompts(self) -> bool:
        """Return True if any picture has a prompt."""
        return any(self._n_files.keys() - {""})

    def take_as(self, prompt: str) -> None:
        """Give this prompt to all pictures, which have none."""
        self._found = dict.fromkeys(self._found, FoundPrompt(prompt, GIVEN))
        names = self._unread.pop("")
        self._unread[key(prompt)], self._n_files, self.counts = names, {key(prompt): len(names)}, {prompt: len(names)}

    def examine(self, check: Callable[[], None] = lambda: None) -> None:
        """Read every picture, calling ``check`` before each; only usable ones count. InvalidInput if none is."""
        for prompt in list(self.counts):
            if not (rows := self._examine(_key(prompt), check)):
                del self.counts[prompt]
            else:
                self.counts[prompt] = self._n_files[_key(prompt)] = len(rows)
        if not self.counts:
            reasons = [f"{name}: {reason}" for name, reason in self.left_out.items()]
            raise InvalidInput(f"no picture of {self.name} can be used: {'; '.join(reasons[:3])}")

    def look(self) -> PictureLook:
        """Read every picture, and return what was understood; no picture of the result may count."""
        with suppress(InvalidInput):
            self.examine()
        return PictureLook(
            name=self.name,
            prompts=tuple(self._summarise(prompt) for prompt in self.counts if self._rows.get(_key(prompt))),
            left_out=self.left_out,
            notes=tuple((sentence, tuple(lines)) for sentence, lines in self.remarks()[bool(self.left_out) :]),
        )

    def _summarise(self, prompt: str) -> PromptSummary:
        rows = self._rows[_key(prompt)]
        names = [self._names[row.id] for row in rows]
        found, drawings = [self._found[name] for name in names], [self._drawings[row.id] for row in rows]
        spellings = different(each.text for each in found)
        return PromptSummary(
            prompt=prompt,
            n=len(rows),
            sources=Counter(filter(None, (self.get_prompt_source(row.id) for row in rows))),
            doubts=tuple(different(each.doubt or each.missing for each in found)),
            spellings=tuple(spellings) if len(spellings) > 1 else (),
            drawn_with=Counter(self.get_way(row.id) for row in rows),
            samplers=Counter(drawing.sampler for drawing in drawings if drawing.sampler),
            further=tuple(different(text for drawing in drawings for text in drawing.further)),
            n_seeds=len({drawing.seed for drawing in drawings if drawing.seed is not None}),
            names=tuple(names),
        )

    def get_prompt_source(self, image_id: str) -> str:
        """Return the source of a picture's prompt in words, with the program that recorded it; "" without a prompt."""
        name = self._names[image_id]
        source, program = self._found[name].source, self._programs.get(name, "")
        return f"{source} of {program}" if source == IN_PICTURE and program else source

    def get_way(self, image_id: str) -> str:
        """Return how a picture was drawn, in short: its model and LoRAs, or the folder that names a model; else ""."""
        name = self._names[image_id]
        return self._drawings[image_id].drawn_with or model_folder(name)

    def read_first(self, names: Sequence[str]) -> Iterator[tuple[str, Image.Image]]:
        """Yield names and pixels of some pictures that can be read."""
        for name in names:
            with suppress(InvalidInput):
                yield name, decode_picture(self._files.read(name))

    def remarks(self) -> list[tuple[str, list[str]]]:
        """Return sentences about pictures that do not count as they are, each with the pictures."""
        left_out = [f"{name}: {reason}" for name, reason in self.left_out.items()]
        counted = [(name, found) for name, found in self._found.items() if name not in self.left_out]
        doubted = [f"{name}: “{found.text}”, {found.doubt}" for name, found in counted if found.doubt]
        missing = [f"{name}: {found.missing}" for name, found in counted if found.missing]
        parts = (
            ("picture is left out", "pictures are left out", left_out),
            ("line or file could not be used", "lines or files could not be used", self.problems),
            ("picture counts though it looks like another, or repeats its seed and settings",
             "pictures count though they look like another, or repeat its seed and settings", self.alike),
            ("prompt is guessed from a name that hardly reads like one",
             "prompts are guessed from names that hardly read like one", doubted),
            ("picture has no prompt, though something is written about it",
             "pictures have no prompt, though something is written about them", missing),
            ("picture has one colour all over, or is blurred by a checker, and counts as blanked",
             "pictures have one colour all over, or are blurred by a checker, and count as blanked", self.blanks),
            ("picture is an animation, of which the first frame counts",
             "pictures are animations, of which the first frames count", self.animations),
            ("picture or line has metadata that is not used as it stands",
             "pictures or lines have metadata that is not used as it stands", self.unread_metadata),
            ("file is neither a picture nor a text about one",
             "files are neither pictures nor texts about them", self.others),
        )  # fmt: skip
        return [(one if len(lines) == 1 else many, lines) for one, many, lines in parts if lines]

    def rows(self, prompt: str, n: int) -> list[ImageRow]:
        """Rows of the first ``n`` usable pictures of a prompt, or fewer."""
        return self._examine(_key(prompt))[:n]

    def _examine(self, prompt_key: str, check: Callable[[], None] = lambda: None) -> list[ImageRow]:
        """The rows of all counting pictures of a prompt."""
        if prompt_key not in self._rows:
            read = []
            for name in self._unread.get(prompt_key, ()):
                check()
                try:
                    read.append(self._read(name))
                except InvalidInput as error:
                    self.left_out[name] = str(error)
            candidates = [candidate for candidate, _, _ in read]
            copies, alike = find_copies(candidates) if self._copies_count == COUNT_ONCE else ({}, [])
            for picture in (candidate for candidate in candidates if not (candidate.is_blank or candidate.own_id)):
                first_prompt, first_name = self._first_files.setdefault(picture.content, (prompt_key, picture.name))
                if first_prompt != prompt_key and self._copies_count == COUNT_ONCE:
                    copies.setdefault(picture.name, f"the same picture as {first_name}, which has another prompt")
            self.left_out |= copies
            self.alike += [name for name in alike if name not in copies]
            self._rows[prompt_key] = []
            for candidate, row, record in read:
                if candidate.name not in copies:
                    self._keep(self._rows[prompt_key], candidate, row, record)
        return self._rows[prompt_key]

    def _read(self, name: str) -> tuple[PossibleCopy, ImageRow, PictureRecord | None]:
        """Read a picture: its candidate for comparison, its row, and its record."""
        image = decode_picture(data := self._files.read(name))
        record, drawing = self._drawing(name, data)
        way = drawing.drawn_with or model_folder(name)
        if self._drawn_with and way != self._drawn_with:
            raise InvalidInput(f"drawn with {way}" if way else "how it was drawn is not known")
        with open_header(io.BytesIO(without_texts(data))) as opened:
            size, kind = opened.size, str(opened.format)
            if getattr(opened, "is_animated", False):
                self.animations.append(name)
        self.unread_metadata += [f"{name}: {text}" for text in drawing.unread]
        row = ImageRow(
            prompt=self._found[name].text,
            seed=-1 if drawing.seed is None else drawing.seed,
            model=f"{IMPORTED}{self.name}",
            revision=hashlib.sha256(data).hexdigest()[:20],
            num_inference_steps=drawing.num_inference_steps or 0,
            guidance_scale=drawing.guidance_scale or 0.0,
            negative_prompt=drawing.negative_prompt,
            width=image.width,
            height=image.height,
        )
        candidate = PossibleCopy(
            name=name,
            content=row.revision,
            pixels=hashlib.sha256(image.tobytes()).hexdigest() + f"{image.size}",
            own_id=record.row.id if record else "",
            size=size,
            format=kind,
            is_blank=is_blank(image),
            thumbnail=get_thumbnail(image),
            way=way,
            drawing=drawing,
        )
        return candidate, row, record

    def _keep(self, rows: list[ImageRow], candidate: PossibleCopy, row: ImageRow, record: PictureRecord | None) -> None:
        """Add a counting picture; without a seed, its number takes the seed's place."""
        drawing = candidate.drawing
        if drawing.seed is None or row.id in self._names:  # the same blank file twice
            row, drawing = replace(row, seed=len(rows)), replace(drawing, seed=None)
        self._names[row.id], self._drawings[row.id] = candidate.name, drawing
        self._count(row.negative_prompt, drawing.prompt, drawing.revised_prompt, *drawing.further)
        if record:
            self._records[row.id] = (record.row.model, record.row.revision)
        if candidate.is_blank or drawing.is_blanked:
            self.blanks.append(candidate.name)
        rows.append(row)

    def _drawing(self, name: str, data: bytes) -> tuple[PictureRecord | None, PictureMetadata]:
        """Return our own intact record, and all known drawing facts."""
        record, inside = None, PictureMetadata()
        try:
            record = read_record(data)
            inside = metadata_of_record(record)
        except StorageError as error:  # it has no intact record
            if isinstance(error, DamagedRecord):
                self.unread_metadata.append(f"{name}: {error}")
            with suppress(InvalidInput):  # noted already, with its prompt
                inside = read_metadata(io.BytesIO(data), name)
        known = self._tables.get(name, PictureMetadata()).merged_with(inside)
        with suppress(InvalidInput):  # likewise
            known = known.merged_with(self._beside(name))
        known = known.merged_with(replace(facts_of_name(name), prompt=""))
        return record, self._lines[name].drawing.merged_with(known) if name in self._lines else known

    def _beside(self, name: str) -> PictureMetadata:
        """Read the text file next to a picture; InvalidInput if it cannot be read."""
        text = self._sidecars.get(name)
        return facts_of_sidecar(self._files.read(text, _MOST_OF_SIDECAR)) if text else PictureMetadata()

    def n_of(self, prompt: str) -> int:
        """Number of files of a prompt, usable or not."""
        return self._n_files.get(_key(prompt), 0)

    def record(self, image_id: str) -> tuple[str, str]:
        """Model and revision of a picture of :meth:`rows`, by its own record; "" without one."""
        return self._records.get(image_id, ("", ""))

    def drawing(self, image_id: str) -> PictureMetadata:
        """Known drawing facts of a picture of :meth:`rows`."""
        return self._drawings.get(image_id, PictureMetadata())

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield the pictures of these rows of :meth:`rows`."""
        for done, row in enumerate(rows, start=1):
            if row.id not in self._names:
                raise InvalidInput(f"{self.name} has no such picture of {row.prompt!r}")
            image = decode_picture(self._files.read(self._names[row.id]))
            drawing = self._drawings[row.id]
            blocked, drawn = is_blank(image) or drawing.is_blanked, drawing.record()
            if blocked:
                colour = "one colour all over, like a picture blanked by a safety checker"
                drawn["refused"] = colour if is_blank(image) else "blurred by a safety checker, by its metadata"
            yield GeneratedImage(row=row, image=image, blocked=blocked, drawn=drawn or None)
            if on_step is not None:
                on_step(done, len(rows))

    def identities_in(self, image_id: str) -> Mapping[str, str]:
        """The people that a picture should show, by its metadata (``left``, ``middle``, ``right``, ``identity``)."""
        line = self._lines.get(self._names.get(image_id, ""))
        return {} if line is None else line.identities

    def _count(self, *texts: str) -> None:
        """Count the kept characters; InvalidInput if all pictures together have too many."""
        self._n_characters += sum(map(len, texts))
        if self._n_characters > _MOST_CHARACTERS:
            raise InvalidInput(f"{self.name} has more than {_MOST_CHARACTERS:,} characters of prompts: divide it")

    def _read_metadata(self, names: Sequence[str]) -> set[PurePosixPath]:
        """Read the lines of all metadata files; return the folders of their pictures."""
        folders: set[PurePosixPath] = set()
        n_lines = 0
        for path in map(PurePosixPath, self._files.names):
            if not _is_table(path.name):
                continue
            folders.add(path.parent)
            problems, matches = Problems(), _Matches(names, path.parent)
            for place, file_name, line in _lines(path.as_posix(), self._files, self.unread_metadata):
                n_lines += 1
                if n_lines > _MOST_LINES:
                    raise InvalidInput(f"{self.name} has more than {_MOST_LINES:,} lines of metadata: divide it")
                if not file_name:
                    self._folder_lines[path.parent] = line
                    continue
                name, reason = matches.find(file_name)
                if reason:
                    self.problems.append(f"{path}, {place}: {file_name[:_SHOWN]}: {reason}")
                    continue
                self._count(line.prompt, line.drawing.negative_prompt, *line.identities.values())
                first = self._lines.setdefault(name, line)
                if (first.prompt, first.identities) != (line.prompt, line.identities):
                    problems.add(f"{place}: {file_name} again, with another prompt than in {first.place}")
                elif first != line:
                    self.problems.append(f"{path}, {place}: {file_name} again; its first line counts")
            problems.refuse(path.as_posix())
        return folders

    def _find(self) -> dict[str, FoundPrompt]:
        """Find the pictures and their prompts."""
        names = [name for name in self._files.names if self._looks_like_a_picture(name)]
        if len(names) > MOST_PICTURES:
            raise InvalidInput(f"{self.name} has {len(names):,} pictures; at most {MOST_PICTURES:,} can be taken")
        folders = self._read_metadata(names)
        self._read_tables(names)
        used = {*names, *self._sidecars.values()}
        for name in self._files.names:
            if name not in used and not self._is_text_or_named(name):
                is_packed = name.lower().endswith((".zip", *_ARCHIVES))
                self.others.append(f"{name}: unpack it, and add its pictures to the folder" if is_packed else name)
        wrapper, found = wrapper_of(names) if self.prompts_from == AUTO else "", {}
        for name in names:
            prompt = self._find_prompt(name, wrapper, is_in_table=not folders.isdisjoint(PurePosixPath(name).parents))
            if prompt.missing == _FIGURE:
                self.left_out[name] = _FIGURE
            elif len(prompt.text) > MAX_TEXT:
                n = len(prompt.text)
                self.left_out[name] = f"its prompt has {n:,} characters; at most {MAX_TEXT:,} are read"
            else:
                self._count(prompt.text)
                found[name] = prompt if key(prompt.text) else replace(prompt, text="", source="", doubt="")
        return found

    def _find_prompt(self, name: str, wrapper: str, *, is_in_table: bool) -> FoundPrompt:
        """Find the prompt of a picture in the first source that has one, or in the source that was asked for."""
        inside = self._read_inside(name)
        if inside.is_figure:
            return FoundPrompt(missing=_FIGURE)
        if self.prompts_from.startswith(ONE_FOR_ALL):
            return FoundPrompt(self.prompts_from.removeprefix(ONE_FOR_ALL), GIVEN)
        self._programs[name] = inside.program
        folder, file = names_as_prompts(name, wrapper)
        written = {IN_TABLE: self._find_in_tables(name), IN_PICTURE: inside.prompt, IN_TEXT: self._find_in_text(name)}
        guesses = {IN_FOLDER: folder, IN_FILE: file}
        if self.prompts_from != AUTO:
            source = PROMPT_SOURCES[self.prompts_from]
            text = (written | guesses)[source]
            return FoundPrompt(text, source if text else "")
        if is_in_table and not written[IN_TABLE]:
            named = "its line in the table has no prompt" if name in self._lines else "no line of the table names it"
            return FoundPrompt(missing=named)
        good = {source: text for source, text in guesses.items() if reads_like_a_prompt(text)}
        for source, text in (written | good).items():
            if text:
                return FoundPrompt(text, source)
        if inside.unclear:  # programs number their files
            return FoundPrompt(missing=inside.unclear)
        source = IN_FOLDER if folder else IN_FILE
        doubt = "which hardly reads like a prompt" if guesses[source] else ""
        return FoundPrompt(guesses[source], source if doubt else "", doubt)

    def _find_in_text(self, name: str) -> str:
        try:
            return self._beside(name).prompt
        except InvalidInput as error:
            self.unread_metadata.append(f"{self._sidecars[name]}: {error}")
            return ""

    def _find_in_tables(self, name: str) -> str:
        if name in self._lines:
            return self._lines[name].prompt
        parents = PurePosixPath(name).parents
        line = next((self._folder_lines[parent] for parent in parents if parent in self._folder_lines), None)
        return line.prompt if line else self._tables[name].prompt if name in self._tables else ""

    def _read_inside(self, name: str) -> PictureMetadata:
        """Read the metadata in a picture."""
        try:
            with self._files.open(name) as file:
                return read_metadata(file, name)
        except InvalidInput as error:
            self.unread_metadata.append(f"{name}: {error}")
        except _DAMAGE:  # named when the picture itself is read
            pass
        return PictureMetadata()

    def _looks_like_a_picture(self, name: str) -> bool:
        """Return true if a file is read as a picture, by ending or first bytes; name other picture formats."""
        path = PurePosixPath(name)
        ending, is_own_figure = path.suffix.lower(), path.parent.name == "figures" and path.suffix == ".svg"
        if ending in PICTURES or ending in _NO_PICTURES or is_own_figure:
            return ending in PICTURES
        if ending not in _OTHER_PICTURES:
            try:
                with self._files.open(name) as file:
                    head = file.read(16)
            except _DAMAGE:
                return False
            return head.startswith(_HEADS) or head[8:12] == b"WEBP" or head[4:12] in (b"ftypavif", b"ftypavis")
        self.left_out[name] = f"{ending} pictures are not supported; save it as PNG, JPEG or WebP"
        return False

    def _read_tables(self, names: Sequence[str]) -> None:
        """Read other tables, and the texts next to pictures."""
        self._sidecars = sidecars_of(names, self._files.names)
        picture_names, beside, n_bytes = set(names), set(self._sidecars.values()), 0
        for path in map(PurePosixPath, self._files.names):
            is_parquet = path.suffix.lower() == ".parquet"
            if not is_parquet and (path.suffix.lower() != ".json" or path.as_posix() in beside):
                continue
            n_absent, absent = 0, ""
            try:
                if n_bytes > _MOST_IN_TABLES:
                    raise InvalidInput("was not read: the tables before it use up the size limit")
                data = self._files.read(path.as_posix(), _MOST_OF_PARQUET if is_parquet else _MOST_OF_JSON)
                n_bytes += len(data)
                if not is_parquet and not (found := facts_of_part(data)):
                    self.others.append(path.as_posix())
                    continue
                for name, facts in facts_of_parquet(data) if is_parquet else found.items():
                    name = (path.parent / name).as_posix()
                    if name in picture_names:
                        self._count(facts.prompt, facts.negative_prompt)
                        self._tables[name] = facts
                    else:
                        n_absent, absent = n_absent + 1, absent or name
            except InvalidInput as error:
                is_table_of_pictures = not is_parquet or path.name.lower() == PARQUET
                (self.problems if is_table_of_pictures else self.others).append(f"{path}: {error}")
            if absent:
                self.problems.append(f"{path}: {n_absent:,} of its pictures are not here, such as {absent[:_SHOWN]}")

    def _is_text_or_named(self, name: str) -> bool:
        """Return true for a table of prompts, and for a picture format that is already named as not supported."""
        path = PurePosixPath(name.lower())
        return path.name in METADATA or path.suffix in (".json", ".parquet", *_OTHER_PICTURES)


def _has_picture_ending(name: str) -> bool:
    return PurePosixPath(name.rstrip("…")).suffix.lower() in PICTURES | _OTHER_PICTURES


def read_prompts_from(text: str) -> str:
    """Return the source of prompts as it is compared; InvalidInput for an unknown one.

    >>> read_prompts_from("One for all:  a doctor"), read_prompts_from("File name")
    ('one for all: a doctor', 'file name')
    """
    word, sign, prompt = text.partition(":")
    word, prompt = " ".join(word.split()).casefold(), " ".join(prompt.split())
    if sign and f"{word}: " == ONE_FOR_ALL and prompt:
        check_texts("the prompt of all pictures", prompt)
        return ONE_FOR_ALL + prompt
    if sign or word not in (AUTO, *PROMPT_SOURCES):
        raise InvalidInput(
            f"prompts are taken from {', '.join((AUTO, *PROMPT_SOURCES))}, or “{ONE_FOR_ALL}a photo of a doctor”; "
            f"got {quoted(text)}"
        )
    return word


class _Matches:
    """The pictures that the lines of a table in a folder can name."""

    def __init__(self, names: Sequence[str], folder: PurePosixPath) -> None:
        self._folder, self._paths = folder, defaultdict[str, list[str]](list)
        self._names, self._exact = defaultdict[str, list[str]](list), set(names)
        for name in names:
            self._paths[_alike(name)].append(name)
            if folder == PurePosixPath() or folder in PurePosixPath(name).parents:
                self._names[_alike(PurePosixPath(name).name)].append(name)

    def find(self, file_name: str) -> tuple[str, str]:
        """Return the picture of a name, and "" or why there is none; a name without folders is enough if it is rare."""
        path = (self._folder / file_name).as_posix()
        found = [path] if path in self._exact else self._paths[_alike(path)]
        if not found and "/" not in file_name:
            found = self._names[_alike(file_name)]
        if len(found) == 1:
            return found[0], ""
        return "", "several such pictures" if found else "no such picture"


def with_table(path: Path, target: Path, table: Path) -> None:
    """Write a copy of a zip in which a table's pictures have its prompts; what its own tables say besides them stays.

    Raises InvalidInput: the zip or table cannot be read, or the table names no picture of it.
    """
    files, rows = open_files(path), dict[str, dict[str, Any]]()
    for name in filter(_is_table, files.names):
        folder = PurePosixPath(name).parent
        for _, row in read_table_file(name, partial(files.open, name), needs=[TEXTS], further=WHOM):
            if file_name := _get_file_name(row):
                rows.setdefault((folder / file_name).as_posix(), row)
    matches, n_found = _Matches(files.names, PurePosixPath()), 0
    for _, row in read_table_file(table.name, lambda: table.open("rb"), needs=[TEXTS], further=WHOM):
        name, reason = matches.find(file_name := _get_file_name(row))
        name, n_found = name or file_name, n_found + (not reason)  # a line without picture is named when it is read
        rows[name] = {**rows.get(name, {}), **dict.fromkeys(TEXTS), "prompt": _get_text(row)}
    if not n_found:
        raise InvalidInput(f"{table.name} names no picture of {path.name}: it needs the columns file_name and prompt")
    lines = [{**row, "file_name": name} for name, row in rows.items()]
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for info in source.infolist():
            if not _is_table(name := _stored_name(info)) and not info.is_dir():
                entry = zipfile.ZipInfo(name)
                entry.compress_type = info.compress_type
                # A damaged picture arrives cut off, and is then listed as such.
                with suppress(*_DAMAGE), source.open(info) as picture, copy.open(entry, "w") as written:
                    shutil.copyfileobj(picture, written)
        text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        copy.writestr("metadata.jsonl", text, zipfile.ZIP_DEFLATED)


def _is_table(name: str) -> bool:
    return PurePosixPath(name).name.lower() in METADATA


def _alike(name: str) -> str:
    """Normalise a file's name, which systems and spreadsheets write differently."""
    return normal_form("NFC", name.replace("\\", "/").strip()).casefold()


def _key(prompt: str) -> str:
    return "" if prompt == NO_PROMPT else key(prompt)


_LOST_IN_NAMES = re.compile(r"""[\s_.,;:!?'"“”‘’«»/\\|<>\u2010-\u2015\u3001\u3002-]+""")


def key(prompt: str) -> str:
    """Normalise a prompt: equal for prompts that differ only in case, spaces and marks that names of files lose.

    >>> key("A photo of a light-skinned nurse.") == key("a_photo of a light skinned Nurse")
    True
    >>> key("C++") == key("C"), key("लड़का") == key("लड़की"), key("👨‍⚕️") == key("👩‍⚕️")
    (False, False, False)
    """
    return _LOST_IN_NAMES.sub(" ", normal_form("NFKC", prompt).casefold()).strip()
