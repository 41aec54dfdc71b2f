"""Imported pictures with their prompts, from a folder or zip in common layouts."""

import hashlib
import io
import json
import os
import re
import shutil
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from PIL import Image

from bias_core.errors import InvalidInput, StorageError
from bias_core.protocols import StepCallback
from bias_core.store.copies import PossibleCopy, copies_among, grey_of
from bias_core.store.drawing_facts import PictureMetadata
from bias_core.store.images import DamagedRecord, decode_picture, open_header, read_record, without_texts
from bias_core.store.picture_metadata import (
    FEWEST_WORDS,
    PARQUET,
    facts_of_name,
    facts_of_parquet,
    facts_of_part,
    facts_of_sidecar,
    metadata_of_line,
    metadata_of_record,
    read_metadata,
    sidecars_of,
    wrapper_of,
)
from bias_core.store.tables import Problems, read_table_file
from bias_core.types import IMPORTED, GeneratedImage, ImageRow, PictureRecord, is_blank
from bias_core.values import MAX_TEXT, normal_form

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
WHOM = ("left", "middle", "right", "identity")
"""Optional columns for the people that a picture should show: two side by side, or one."""
_FIGURE = "a figure of a report"
IN_TABLE, IN_PICTURE, IN_TEXT, IN_NAME = (
    "a table",
    "metadata inside the pictures",
    "text files with their names",
    "names of files or folders",
)
"""Sources of prompts, in words."""
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


def open_files(path: Path) -> "Files":
    """Open a folder or zip, sorted by name, without hidden files; InvalidInput if it is missing, damaged or unsafe."""
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
    """Files of a folder by relative name with forward slashes.

    ``read`` returns an error in words; ``open`` raises Python's errors.
    """

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()
        files = {file.relative_to(self._root).as_posix(): file for file in sorted(self._root.rglob("*"))}
        files = {name: file for name, file in files.items() if not _hidden(name) and file.is_file()}
        inside = {name for name, file in files.items() if file.resolve().is_relative_to(self._root)}
        self.names = tuple(name for name in files if name in inside)
        self.rejected = tuple(f"{name}: a link out of the folder" for name in files if name not in inside)

    def open(self, name: str) -> BinaryIO:
        return (self._root / name).open("rb")

    def read(self, name: str, most: int | None = None) -> bytes:
        path, most = self._root / name, most or MOST_BYTES
        try:
            if path.stat().st_size > most:
                raise InvalidInput(f"larger than {most / 1e6:g} MB")
            return path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}") from error


class _Zip:
    """Files of a zip, opened once, because each opening reads the whole directory."""

    def __init__(self, path: Path) -> None:
        self.rejected: tuple[str, ...] = ()
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
        rejected = []
        for info in files:
            name = check_name(_stored_name(info))
            if len(name) > _LONGEST_NAME and any(len(os.fsencode(part)) > _LONGEST_NAME for part in name.split("/")):
                rejected.append(f"{name[:_SHOWN]}…: a name of more than {_LONGEST_NAME} bytes")
                continue
            if name in self._infos:
                rejected.append(f"{name}: twice in the zip; only the last counts")
            self._infos[name] = info
        self.rejected = tuple(rejected)
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
    """The stored name: zipfile cuts it at NUL, and reads unmarked UTF-8 (macOS) as MS-DOS text."""
    if not info.flag_bits & _MARKED_UTF8:
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


def _lines(name: str, files: Files) -> Iterator[tuple[str, str, _Line]]:
    """Yield each line of a metadata file: its place, the picture's name, and its facts."""
    problems, folder = Problems(), PurePosixPath(name).parent
    try:
        for place, row in read_table_file(name, partial(files.open, name), needs=[("file_name",), TEXTS], further=WHOM):
            try:
                file_name, line = _line(row)
            except InvalidInput as error:
                problems.add(f"{place}: {error}")
                continue
            yield place, (folder / file_name).as_posix(), line
    except _DAMAGE as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} cannot be read: {error}") from error
    problems.refuse(name)


def _line(row: Mapping[str, Any]) -> tuple[str, _Line]:
    column = next((c for c in TEXTS if row.get(c) is not None), "")
    if not (file_name := row.get("file_name")) or not isinstance(file_name, str) or not column:
        raise InvalidInput(f"needs file_name and one of {', '.join(TEXTS)}")
    identities = {name: " ".join(row[name].split()) for name in WHOM if isinstance(row.get(name), str)}
    identities = {name: text for name, text in identities.items() if text}
    return check_name(file_name), _Line(" ".join(str(row[column]).split()), identities, metadata_of_line(row))


class NoPrompts(InvalidInput):
    """A folder or zip in which no picture has a prompt; ``rejected`` has the reason for each picture."""

    pictures: tuple[str, ...] = ()  # names of its files
    rejected: tuple[str, ...] = ()


class ImportedImages:
    """Pictures of a folder or zip by prompt; they act as a text-to-image model that draws nothing.

    Their rows have the model "imported:<name>" and the digest of the file as revision, so a picture that was
    imported once is found in the store again. A picture's prompt comes from the first of these that exists:

    - of ``metadata.csv``, ``.tsv`` or ``.jsonl`` with ``file_name`` and ``prompt``, ``text`` or ``caption``
      (Hugging Face imagefolder, and this program's own exports), for the pictures below its folder;
    - of ``metadata.parquet``, or the JSON of a part of DiffusionDB;
    - in the picture itself: our own record, or metadata of AUTOMATIC1111, Forge, ComfyUI, SwarmUI, InvokeAI, Fooocus,
      NovelAI, Midjourney, Easy Diffusion or Draw Things;
    - in a text file next to it: ``1.txt``, ``1.caption`` or ``1.json`` for ``1.png``;
    - the name of its folder, as in DallEval: ``a photo of a doctor/3.png``;
    - its file name: ``a photo of a doctor_3.png``.

    Seed, negative prompt, steps, guidance, sampler and model come from the same places, each from the first that has
    it. In a row without a known seed, the picture's number among those of its prompt stands for it. A picture that was
    drawn once counts once: copies, drafts and contact sheets are left out (:mod:`bias_core.store.copies`).

    ``path``: folder or zip.

    Attributes
    ----------
    name : of the folder or zip.
    counts : number of files per prompt, in file order; after :meth:`examine` number of pictures.
    rejected : reasons for left-out pictures, one line each; grows while pictures are read.
    copies, blanks, animations : pictures that do not count, count as blanked, or count by their first frame.
    unread_metadata : reasons for ignored metadata, one line each; grows likewise.
    sources : number of files by the source of their prompt.
    others : files that are neither pictures nor texts about them.

    Raises NoPrompts: it has pictures, but none has a prompt. InvalidInput: there is no such folder or zip, it has no
    picture, there are too many, or a name leads out of it.
    """

    batch_size = 32

    def __init__(self, path: Path) -> None:
        self._files = open_files(path)
        path = path.expanduser()
        self.name = path.resolve().stem if path.is_file() else path.resolve().name
        self.rejected = list(self._files.rejected)
        self.unread_metadata: list[str] = []
        self.copies: list[str] = []
        self.blanks: list[str] = []
        self.animations: list[str] = []
        self.others: list[str] = []
        self.sources: Counter[str] = Counter()
        self._tables: dict[str, PictureMetadata] = {}  # of other tables, by file
        self._sidecars: dict[str, str] = {}  # names of texts, by file
        self._lines: dict[str, _Line] = {}  # of metadata files, by file
        self._n_characters = 0
        if not (prompts := self._find()):
            error = NoPrompts(
                f"{path} has no picture with a prompt: add a metadata.csv or metadata.jsonl with "
                "file_name and prompt, or name folders or files after their prompts"
                + (f" ({'; '.join(self.rejected[:3])})" if self.rejected else "")
            )
            error.pictures, error.rejected = self.pictures, tuple(self.rejected)
            raise error
        pictures: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, prompt in prompts.items():
            pictures[key(prompt)].append((name, prompt))
        self._n_files = {prompt: len(same) for prompt, same in pictures.items()}
        self.counts = {same[0][1]: len(same) for same in pictures.values()}
        self._unread = pictures
        self._first_files: dict[str, tuple[str, str]] = {}  # prompt and name of the first file with this content
        self._rows: dict[str, list[ImageRow]] = {}
        self._names: dict[str, str] = {}  # of files, by id of the row
        self._records: dict[str, tuple[str, str]] = {}
        self._drawings: dict[str, PictureMetadata] = {}

    def examine(self, check: Callable[[], None] = lambda: None) -> None:
        """Read every picture, calling ``check`` before each; only usable ones count. InvalidInput if none is."""
        for prompt in list(self.counts):
            if not (rows := self._examined(key(prompt), check)):
                del self.counts[prompt]
            else:
                self.counts[prompt] = self._n_files[key(prompt)] = len(rows)
        if not self.counts:
            raise InvalidInput(f"no picture of {self.name} can be used: {'; '.join(self.rejected[:3])}")

    def prompts(self) -> dict[str, str]:
        """Prompts by file name."""
        return {name: prompt for same in self._unread.values() for name, prompt in same}

    def first(self, n: int) -> list[tuple[str, str, Image.Image]]:
        """Name, prompt and pixels of the first ``n`` usable pictures."""
        rows = (row for prompt in self.counts for row in self.rows(prompt, MOST_PICTURES))
        names = sorted((self._names[row.id], row.prompt) for row in rows)[:n]
        return [(name, prompt, decode_picture(self._files.read(name))) for name, prompt in names]

    def remarks(self) -> list[tuple[str, str, list[str]]]:
        """Sentences (for one, for several) about pictures that do not count as they are, and the pictures."""
        parts = (
            ("file could not be used", "files could not be used", self.rejected),
            ("file is a copy of a picture, a draft or a contact sheet, and does not count",
             "files are copies of pictures, drafts or contact sheets, and do not count", self.copies),
            ("picture has one colour all over, or is blurred by a checker, and counts as blanked",
             "pictures have one colour all over, or are blurred by a checker, and count as blanked", self.blanks),
            ("file is an animation, of which the first frame counts",
             "files are animations, of which the first frames count", self.animations),
            ("picture has metadata that was not used", "pictures have metadata that was not used",
             self.unread_metadata),
        )  # fmt: skip
        return [part for part in parts if part[2]]

    def rows(self, prompt: str, n: int) -> list[ImageRow]:
        """Rows of the first ``n`` usable pictures of a prompt, or fewer."""
        return self._examined(key(prompt))[:n]

    def _examined(self, prompt_key: str, check: Callable[[], None] = lambda: None) -> list[ImageRow]:
        """The rows of all counting pictures of a prompt."""
        if prompt_key not in self._rows:
            read = []
            for name, own_prompt in self._unread.get(prompt_key, ()):
                check()
                try:
                    read.append(self._read(name, own_prompt))
                except InvalidInput as error:
                    self.rejected.append(f"{name}: {error}")
            copies = copies_among([candidate for candidate, _, _ in read])
            for picture in (candidate for candidate, _, _ in read if not (candidate.is_blank or candidate.own_id)):
                first_prompt, first_name = self._first_files.setdefault(picture.content, (prompt_key, picture.name))
                if first_prompt != prompt_key:
                    copies.setdefault(picture.name, f"the same picture as {first_name}, which has another prompt")
            self.copies += [f"{name}: {why}" for name, why in copies.items()]
            self._rows[prompt_key] = []
            for candidate, row, record in read:
                if candidate.name not in copies:
                    self._keep(self._rows[prompt_key], candidate, row, record)
        return self._rows[prompt_key]

    def _read(self, name: str, prompt: str) -> tuple[PossibleCopy, ImageRow, PictureRecord | None]:
        """Read a picture: its candidate for comparison, its row, and its record."""
        image = decode_picture(data := self._files.read(name))
        record, drawing = self._drawing(name, data)
        with open_header(io.BytesIO(without_texts(data))) as opened:
            size, kind = opened.size, str(opened.format)
            if getattr(opened, "is_animated", False):
                self.animations.append(name)
        row = ImageRow(
            prompt=prompt,
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
            grey=grey_of(image),
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
        line, known = self._lines.get(name), self._tables.get(name, PictureMetadata()).merged_with(inside)
        with suppress(InvalidInput):  # likewise
            known = known.merged_with(self._beside(name))
        known = known.merged_with(replace(facts_of_name(name, ""), prompt=""))
        return record, known if line is None else line.drawing.merged_with(known)

    def _beside(self, name: str) -> PictureMetadata:
        """Read the text file next to a picture; InvalidInput if it cannot be read."""
        text = self._sidecars.get(name)
        return facts_of_sidecar(self._files.read(text, _MOST_OF_SIDECAR)) if text else PictureMetadata()

    def n_of(self, prompt: str) -> int:
        """Number of files of a prompt, usable or not."""
        return self._n_files.get(key(prompt), 0)

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
        alike, n_lines = defaultdict[str, list[str]](list), 0
        for name in names:
            alike[_alike(name)].append(name)
        for path in map(PurePosixPath, self._files.names):
            if _is_table(path.name):
                folders.add(path.parent)
                for place, name, line in _lines(path.as_posix(), self._files):
                    n_lines += 1
                    if n_lines > _MOST_LINES:
                        raise InvalidInput(f"{self.name} has more than {_MOST_LINES:,} lines of metadata: divide it")
                    same = [name] if name in alike[_alike(name)] else alike[_alike(name)]
                    if len(same) != 1:
                        what = "several such pictures" if same else "no such picture"
                        self.rejected.append(f"{name[:_SHOWN]}: {what}")
                        continue
                    self._count(line.prompt, line.drawing.negative_prompt, *line.identities.values())
                    if self._lines.setdefault(same[0], line) != line:
                        self.rejected.append(f"{path}, {place}: {name} again; its first line counts")
        return folders

    def _find(self) -> dict[str, str]:
        names = [name for name in self._files.names if self._looks_like_a_picture(name)]
        if len(names) > MOST_PICTURES:
            raise InvalidInput(f"{self.name} has {len(names):,} pictures; at most {MOST_PICTURES:,} can be taken")
        self.pictures = tuple(names)
        folders = self._read_metadata(names)
        self._read_tables(names)
        used = {*names, *self._sidecars.values()}
        self.others = [name for name in self._files.names if name not in used and not self._is_text_or_named(name)]
        wrapper, prompts = wrapper_of(names), {}
        for name in names:
            if folders.isdisjoint(PurePosixPath(name).parents):
                prompt, unclear, source = self._own_prompt(name, wrapper)
            else:
                prompt, unclear, source = self._lines[name].prompt if name in self._lines else "", "", IN_TABLE
            if len(prompt) > MAX_TEXT:
                self.rejected.append(
                    f"{name}: its prompt has {len(prompt):,} characters; at most {MAX_TEXT:,} are read"
                )
            elif key(prompt):
                self._count(prompt)
                self.sources[source] += 1
                prompts[name] = prompt
            elif unclear != _FIGURE:  # of our own export; no loss
                self.rejected.append(f"{name}: {unclear or 'no prompt'}")
        return prompts

    def _looks_like_a_picture(self, name: str) -> bool:
        """Return true if a file is read as a picture, by ending or first bytes; note other picture formats."""
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
        self.rejected.append(f"{name}: {ending} pictures are not supported; save it as PNG, JPEG or WebP")
        return False

    def _read_tables(self, names: Sequence[str]) -> None:
        """Read other tables, and the texts next to pictures."""
        self._sidecars = sidecars_of(names, self._files.names)
        picture_names, beside, n_bytes = set(names), set(self._sidecars.values()), 0
        for path in map(PurePosixPath, self._files.names):
            is_parquet = path.name.lower() == PARQUET
            if not is_parquet and (path.suffix.lower() != ".json" or path.as_posix() in beside):
                continue
            n_absent, absent = 0, ""
            try:
                if n_bytes > _MOST_IN_TABLES:
                    raise InvalidInput("was not read: the tables before it use up the size limit")
                data = self._files.read(path.as_posix(), _MOST_OF_PARQUET if is_parquet else _MOST_OF_JSON)
                n_bytes += len(data)
                for name, facts in facts_of_parquet(data) if is_parquet else facts_of_part(data).items():
                    name = (path.parent / name).as_posix()
                    if name in picture_names:
                        self._count(facts.prompt, facts.negative_prompt)
                        self._tables[name] = facts
                    else:
                        n_absent, absent = n_absent + 1, absent or name
            except InvalidInput as error:
                self.rejected.append(f"{path}: {error}")
            if absent:
                self.rejected.append(f"{path}: {n_absent:,} of its pictures are not here, such as {absent[:_SHOWN]}")

    def _is_text_or_named(self, name: str) -> bool:
        """Return true for a table of prompts, and for a picture format that is already named as not supported."""
        path = PurePosixPath(name.lower())
        return path.name in (*METADATA, PARQUET) or path.suffix in (".json", *_OTHER_PICTURES)

    def _own_prompt(self, name: str, wrapper: str) -> tuple[str, str, str]:
        """The prompt in a picture, its name or its folder's name, "" or a reason against it, and its source."""
        own = PictureMetadata()
        try:
            with self._files.open(name) as file:
                own = read_metadata(file, name)
        except InvalidInput as error:
            self.unread_metadata.append(f"{name}: {error}")
        except _DAMAGE:  # reported when the picture itself is read
            pass
        if own.is_figure:
            return "", _FIGURE, ""
        beside = PictureMetadata()
        try:
            beside = self._beside(name)
        except InvalidInput as error:
            self.unread_metadata.append(f"{self._sidecars[name]}: {error}")
        in_table = self._tables[name].prompt if name in self._tables else ""
        for prompt, source in ((in_table, IN_TABLE), (own.prompt, IN_PICTURE), (beside.prompt, IN_TEXT)):
            if prompt:
                return prompt, "", source
        by_name = facts_of_name(name, wrapper).prompt
        # Programs number their files: a name counts as a prompt only if it reads like one.
        if not own.unclear or len(by_name.split()) >= FEWEST_WORDS:
            return by_name, "", IN_NAME
        return "", f"{own.unclear}: give its prompt in a metadata.csv", ""


def with_prompts(path: Path, target: Path, *, prompt: str = "", table: Path | None = None) -> None:
    """Write a copy of a zip in which all pictures have this ``prompt``, or those in the ``table`` have its prompts.

    The table has the columns ``file_name`` and ``prompt`` (CSV, TSV or JSONL); a name without its folders suffices if
    no other picture has it. What the zip's own tables say of a picture besides its prompt stays.

    Raises InvalidInput: the zip or table cannot be read, or there is neither prompt nor table.
    """
    if not (prompt := " ".join(prompt.split())) and table is None:
        raise InvalidInput("type a prompt, or choose a table with the columns file_name and prompt")
    try:
        imported = ImportedImages(path)
        pictures, given = imported.pictures, imported.prompts()
    except NoPrompts as error:
        pictures, given = error.pictures, {}
    given = dict.fromkeys(pictures, prompt) if prompt else given
    lines, files = dict[str, dict[str, Any]](), open_files(path)
    for name in filter(_is_table, files.names):
        lines |= {found: row for found, row in _table_rows(name, partial(files.open, name)) if found not in lines}
    if table is not None:
        by_name = _by_name(pictures)
        for name, row in _table_rows(table.name, lambda: table.open("rb")):
            given[by_name.get(_alike(name), name)] = _line(row)[1].prompt
    rows = [
        {**lines.get(name, {}), **dict.fromkeys(TEXTS), "prompt": text, "file_name": name}
        for name, text in given.items()
    ]
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for info in source.infolist():
            if not _is_table(name := _stored_name(info)) and not info.is_dir():
                entry = zipfile.ZipInfo(name)
                entry.compress_type = info.compress_type
                # A damaged picture arrives cut off, and is then listed as such.
                with suppress(*_DAMAGE), source.open(info) as picture, copy.open(entry, "w") as written:
                    shutil.copyfileobj(picture, written)
        copy.writestr(
            "metadata.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in rows), zipfile.ZIP_DEFLATED
        )


def _is_table(name: str) -> bool:
    return PurePosixPath(name).name.lower() in METADATA


def _table_rows(name: str, opened: Callable[[], BinaryIO]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a table by the path of their picture; InvalidInput if it cannot be read."""
    for _, row in read_table_file(name, opened, needs=[("file_name",), TEXTS], further=WHOM):
        with suppress(InvalidInput):  # named when the copy is read
            yield (PurePosixPath(name).parent / _line(row)[0]).as_posix(), row


def _by_name(pictures: Sequence[str]) -> dict[str, str]:
    """Pictures by path, and by name without folders where only one has it."""
    alone = Counter(_alike(PurePosixPath(name).name) for name in pictures)
    short = {_alike(PurePosixPath(name).name): name for name in pictures}
    return {key: name for key, name in short.items() if alone[key] == 1} | {_alike(name): name for name in pictures}


def _alike(name: str) -> str:
    """Normalise a file's name, which systems and spreadsheets write differently."""
    return normal_form("NFC", name.replace("\\", "/").strip()).casefold()


def key(prompt: str) -> str:
    """Normalise a prompt: equal for prompts that differ only in case, spaces and punctuation.

    >>> key("A photo of a light-skinned nurse.") == key("a_photo of a light skinned Nurse")
    True
    """
    return " ".join(re.findall(r"[^\W_]+", normal_form("NFKC", prompt).casefold()))
