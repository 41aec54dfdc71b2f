"""Pictures from elsewhere, each with its prompt: a folder or zip in the layouts that people keep them in."""

import csv
import hashlib
import io
import json
import re
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore
from typing import Any, BinaryIO, cast

from PIL import Image, ImageOps, UnidentifiedImageError

from bias_core.errors import InvalidInput, StorageError
from bias_core.exchange.drawing_facts import PictureMetadata
from bias_core.exchange.picture_metadata import FORMATS, metadata_of_line, metadata_of_record, read_metadata
from bias_core.protocols import StepCallback
from bias_core.store.images import read_record, without_texts
from bias_core.types import IMPORTED, GeneratedImage, ImageRow, is_blank

MOST_BYTES = 64_000_000  # of one file, unpacked
MOST_UNPACKED = 4_000_000_000  # of a whole zip
MOST_FILES = 200_000
# RuntimeError: it wants a password; NotImplementedError: a way of packing that Python does not know.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
METADATA = ("metadata.csv", "metadata.jsonl")
TEXTS = ("prompt", "text", "caption")  # columns that hold the prompt, the first that there is
WHOM = ("left", "middle", "right", "identity")
"""Columns that name whom a picture was to show: two people side by side, or one; none is needed."""
_FIGURE = "a figure of a report"
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp"})
MOST_PICTURES = 100_000
MOST_PIXELS = 50_000_000
LONGEST_SIDE = 1024
"""Pixels of an imported picture's longer side; a larger one is made smaller, as no reader takes more in."""
_LARGE = 4_000_000  # pixels
_decoding_large = BoundedSemaphore()
_FEWEST_WORDS = 3  # of a file name that is a prompt and no number


def open_files(path: Path) -> "Files":
    """The files of a folder or zip, in the order of their names; hidden ones are left out.

    Raises InvalidInput: there is nothing at ``path``, it is neither, it is damaged, or a name in it leads out of it.
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

    Raises InvalidInput: it does not.

    >>> check_name("train/1.png")
    'train/1.png'
    """
    path = PurePosixPath(name)
    drive = len(name) > 1 and name[1] == ":" and name[0].isalpha()
    if not name or path.is_absolute() or ".." in path.parts or drive or "\\" in name or "\0" in name:
        raise InvalidInput(f"the name {name[:200]!r} leads out of its folder")
    return path.as_posix()


class _Folder:
    """Files by their names, which are relative and use forward slashes.

    ``read`` tells why one cannot be read; ``open`` raises what Python does.
    """

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()
        files = {file.relative_to(self._root).as_posix(): file for file in sorted(self._root.rglob("*"))}
        files = {name: file for name, file in files.items() if not _hidden(name) and file.is_file()}
        inside = {name for name, file in files.items() if file.resolve().is_relative_to(self._root)}
        self.names = tuple(name for name in files if name in inside)
        self.rejected = tuple(f"{name}: a link that leads out of the folder" for name in files if name not in inside)

    def open(self, name: str) -> BinaryIO:
        return (self._root / name).open("rb")

    def read(self, name: str) -> bytes:
        path = self._root / name
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InvalidInput(f"larger than {MOST_BYTES // 1_000_000} MB")
            return path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}") from error


class _Zip:
    """The same of a zip, opened once, for each opening reads the whole directory."""

    def __init__(self, path: Path) -> None:
        self.rejected: tuple[str, ...] = ()
        try:
            self._archive = zipfile.ZipFile(path)
            files = [info for info in self._archive.infolist() if not info.is_dir()]
        except _DAMAGE as error:
            raise InvalidInput(f"{path.name} is no zip that can be read: {error}") from error
        unpacked = sum(info.file_size for info in files)  # more than it says is not read of any file
        if len(files) > MOST_FILES:
            raise InvalidInput(f"{path.name} has {len(files):,} files; at most {MOST_FILES:,} can be taken: divide it")
        if unpacked > MOST_UNPACKED:
            raise InvalidInput(
                f"{path.name} would unpack to {unpacked / 1e9:.2f} GB; at most {MOST_UNPACKED / 1e9:g} GB "
                "can be taken: divide it, or make the pictures smaller"
            )
        for info in files:
            # zipfile cuts a name at NUL and turns the system's separators; the name as stored decides.
            check_name(info.orig_filename)
        self.names = tuple(sorted({info.filename for info in files if not _hidden(info.filename)}))

    def open(self, name: str) -> BinaryIO:
        return cast("BinaryIO", self._archive.open(name))

    def read(self, name: str) -> bytes:
        if (info := self._archive.getinfo(name)).file_size > MOST_BYTES:
            raise InvalidInput(f"larger than {MOST_BYTES // 1_000_000} MB")
        try:
            return self._archive.read(info)
        except _DAMAGE as error:
            raise InvalidInput(f"cannot be unpacked: {error}") from error


Files = _Folder | _Zip


def _hidden(name: str) -> bool:
    """Files that systems leave behind: ``.DS_Store``, ``__MACOSX/``, ``Thumbs.db``."""
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") for part in parts) or parts[0] == "__MACOSX" or parts[-1] == "Thumbs.db"


def _lines(name: str, files: Files) -> list["_Line"]:
    try:
        text = files.read(name).decode("utf-8-sig")
        rows: list[Any] = (
            list(csv.DictReader(io.StringIO(text, newline="")))
            if name.endswith(".csv")
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, InvalidInput, RecursionError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}") from error
    return [_line(name, number, row) for number, row in enumerate(rows, start=1)]


@dataclass(frozen=True)
class _Line:
    """What a metadata file says of one picture."""

    file_name: str
    prompt: str
    identities: Mapping[str, str]  # whom it was to show
    drawing: PictureMetadata  # how it was drawn


def _line(name: str, number: int, row: Any) -> _Line:
    column = next((c for c in TEXTS if isinstance(row, dict) and row.get(c) is not None), "")
    if not column or not isinstance(row.get("file_name"), str):
        raise InvalidInput(f"{name}, line {number}: needs file_name and one of {', '.join(TEXTS)}")
    identities = {name: " ".join(row[name].split()) for name in WHOM if isinstance(row.get(name), str)}
    return _Line(
        " ".join(row["file_name"].split()),
        " ".join(str(row[column]).split()),
        {name: text for name, text in identities.items() if text},
        metadata_of_line(row),
    )


class ImportedImages:
    """The pictures of a folder or zip, found by their prompts; a text-to-image model that draws nothing.

    Their rows have the model "imported:<name>" and the digest of the file as revision, so a picture that was
    imported once is found in the store again. A picture's prompt is the first of these that there is:

    - of ``metadata.csv`` or ``metadata.jsonl`` with ``file_name`` and ``prompt``, ``text`` or ``caption``
      (Hugging Face imagefolder, and this program's own exports), for the pictures below its folder;
    - in the picture itself: our own record, or what AUTOMATIC1111, Forge, ComfyUI, InvokeAI, Fooocus or NovelAI
      wrote into it;
    - the name of its folder, as DallEval keeps them: ``a photo of a doctor/3.png``;
    - its file name: ``a photo of a doctor_3.png``.

    Seed, negative prompt, steps, guidance, sampler and model come from the first three places, too, each from the
    first that has it. A picture of which no seed is known has its number among those of its prompt in the row.

    ``path``: folder or zip.

    Attributes
    ----------
    name : of the folder or zip.
    counts : how many files each prompt has, in the order of the files.
    rejected : why a picture was left out, one line each; grows while pictures are read.
    unread_metadata : why what a picture says of itself was not taken, one line each; grows likewise.

    Raises InvalidInput: there is no such folder or zip, nothing in it is a picture with a prompt, there are too many,
    or a name leads out of it.
    """

    batch_size = 32

    def __init__(self, path: Path) -> None:
        self._files = open_files(path)
        path = path.expanduser()
        self.name = path.resolve().stem if path.is_file() else path.resolve().name
        self.rejected = list(self._files.rejected)
        self.unread_metadata: list[str] = []
        self._lines: dict[str, _Line] = {}  # of metadata files, by file
        if not (prompts := self._find()):
            raise InvalidInput(
                f"{path} holds no picture with a prompt: give a metadata.csv or metadata.jsonl with "
                "file_name and prompt, or name folders or files after their prompts"
                + (f" ({'; '.join(self.rejected[:3])})" if self.rejected else "")
            )
        pictures: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, prompt in prompts.items():
            pictures[key(prompt)].append((name, prompt))
        self._n_files = {prompt: len(same) for prompt, same in pictures.items()}
        self.counts = {same[0][1]: len(same) for same in pictures.values()}
        self._unread = {prompt: iter(same) for prompt, same in pictures.items()}
        self._rows: dict[str, list[ImageRow]] = defaultdict(list)
        self._names: dict[str, str] = {}  # of files, by id of the row
        self._records: dict[str, tuple[str, str]] = {}
        self._drawings: dict[str, PictureMetadata] = {}

    def rows(self, prompt: str, n: int) -> list[ImageRow]:
        """Rows of the first ``n`` usable pictures of a prompt, or of as many as there are."""
        prompt_key = key(prompt)
        rows, unread = self._rows[prompt_key], self._unread.get(prompt_key, iter(()))
        while len(rows) < n and (picture := next(unread, None)) is not None:
            name, own_prompt = picture
            try:
                image = decode(data := self._files.read(name))
            except InvalidInput as error:
                self.rejected.append(f"{name}: {error}")
                continue
            record, drawing = self._drawing(name, data)
            row = ImageRow(
                prompt=own_prompt,
                seed=len(rows) if drawing.seed is None else drawing.seed,
                model=f"{IMPORTED}{self.name}",
                revision=hashlib.sha256(data).hexdigest()[:20],
                num_inference_steps=drawing.num_inference_steps or 0,
                guidance_scale=drawing.guidance_scale or 0.0,
                negative_prompt=drawing.negative_prompt,
                width=image.width,
                height=image.height,
            )
            if row.id in self._names:  # the same file twice
                row, drawing = replace(row, seed=len(rows)), replace(drawing, seed=None)
            self._names[row.id], self._drawings[row.id] = name, drawing
            if record:
                self._records[row.id] = record
            rows.append(row)
        return rows[:n]

    def _drawing(self, name: str, data: bytes) -> tuple[tuple[str, str] | None, PictureMetadata]:
        """Model and revision of our own record, where it is whole; and all that is known of the drawing."""
        record, inside = None, PictureMetadata()
        try:
            own = read_record(data)
            record, inside = (own.row.model, own.row.revision), metadata_of_record(own)
        except StorageError:  # it has no record that is whole
            with suppress(InvalidInput):  # was noted, where its prompt was looked for
                inside = read_metadata(io.BytesIO(data))
        line = self._lines.get(name)
        return record, inside if line is None else line.drawing.over(inside)

    def n_of(self, prompt: str) -> int:
        """How many files a prompt has, usable or not."""
        return self._n_files.get(key(prompt), 0)

    def record(self, image_id: str) -> tuple[str, str]:
        """Model and revision that drew a picture of :meth:`rows`, as it says itself; "" where it does not."""
        return self._records.get(image_id, ("", ""))

    def drawing(self, image_id: str) -> PictureMetadata:
        """What is known of how a picture of :meth:`rows` was drawn."""
        return self._drawings.get(image_id, PictureMetadata())

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield the pictures of rows that :meth:`rows` gave."""
        for done, row in enumerate(rows, start=1):
            if row.id not in self._names:
                raise InvalidInput(f"{self.name} has no such picture of {row.prompt!r}")
            image = decode(self._files.read(self._names[row.id]))
            blocked, drawn = is_blank(image), self._drawings[row.id].record()
            drawn |= {"refused": "one colour all over, as a safety checker leaves it"} if blocked else {}
            yield GeneratedImage(row=row, image=image, blocked=blocked, drawn=drawn or None)
            if on_step is not None:
                on_step(done, len(rows))

    def whom(self, image_id: str) -> Mapping[str, str]:
        """Whom the metadata says that a picture was to show (``left``, ``middle``, ``right``, ``identity``)."""
        line = self._lines.get(self._names.get(image_id, ""))
        return {} if line is None else line.identities

    def _read_metadata(self) -> set[PurePosixPath]:
        """Take up the lines of all metadata files; the folders whose pictures these are about."""
        folders: set[PurePosixPath] = set()
        for path in map(PurePosixPath, self._files.names):
            if path.name in METADATA:
                folders.add(path.parent)
                for line in _lines(path.as_posix(), self._files):
                    self._lines[(path.parent / check_name(line.file_name)).as_posix()] = line
        return folders

    def _find(self) -> dict[str, str]:
        names = [name for name in self._files.names if PurePosixPath(name).suffix.lower() in PICTURES]
        if len(names) > MOST_PICTURES:
            raise InvalidInput(f"{self.name} has {len(names):,} pictures; at most {MOST_PICTURES:,} can be taken")
        folders = self._read_metadata()
        self.rejected += [f"{name}: no such picture" for name in sorted(set(self._lines) - set(names))]
        wrapper, prompts = _wrapper(names), {}
        for name in names:
            if folders.isdisjoint(PurePosixPath(name).parents):
                prompt, unclear = self._own_prompt(name, wrapper)
            else:
                prompt, unclear = self._lines[name].prompt if name in self._lines else "", ""
            if key(prompt):
                prompts[name] = prompt
            elif unclear != _FIGURE:  # of our own export; nobody misses it
                self.rejected.append(f"{name}: {unclear or 'no prompt'}")
        return prompts

    def _own_prompt(self, name: str, wrapper: str) -> tuple[str, str]:
        """The prompt that a picture holds, or by which it or its folder is named; "" and why there is none."""
        own = PictureMetadata()
        try:
            with self._files.open(name) as file:
                own = read_metadata(file)
        except InvalidInput as error:
            self.unread_metadata.append(f"{name}: {error}")
        except _DAMAGE:  # which is told when the picture itself is read
            pass
        if own.is_figure:
            return "", _FIGURE
        by_name = _prompt_of_name(name, wrapper)
        if own.prompt or not own.unclear:
            return own.prompt or by_name, ""
        # Programs number their files: a name is taken for a prompt only where it reads like one.
        if len(by_name.split()) >= _FEWEST_WORDS:
            return by_name, ""
        return "", f"{own.unclear}: give its prompt in a metadata.csv"


def key(prompt: str) -> str:
    """What two prompts share when they are the same but for case, spaces and punctuation.

    >>> key("A photo of a light-skinned nurse.") == key("a_photo of a light skinned Nurse")
    True
    """
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", prompt).casefold()))


def decode(data: bytes) -> Image.Image:
    """The picture in RGB, the right way up, its longer side at most ``LONGEST_SIDE``.

    Only one large picture of all visitors is unpacked at a time: 50 million pixels take 400 MB for a moment.

    Raises InvalidInput: it is no PNG, JPEG, WebP or BMP, it is truncated, or it has too many pixels.
    """
    try:
        with Image.open(io.BytesIO(without_texts(data)), formats=FORMATS) as opened:
            if (n_pixels := opened.width * opened.height) > MOST_PIXELS:
                raise InvalidInput(
                    f"{opened.width} x {opened.height} pixels are too many; at most {MOST_PIXELS:,} are read"
                )
            with _decoding_large if n_pixels > _LARGE else nullcontext():
                opened.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG need not be unpacked in full size
                # The numbers of a palette cannot be averaged.
                image = opened if opened.mode in {"RGB", "RGBA", "L"} else opened.convert("RGB")
                image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                return ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError as error:
        raise InvalidInput(f"no picture in one of the formats {', '.join(FORMATS)}") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"cannot be read as a picture: {error}") from error


def _wrapper(names: Sequence[str]) -> str:
    """The folder that everything lies in where its name is no prompt, as zips often have; "" if none."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    if len(tops) != 1 or any(len(PurePosixPath(name).parts) == 1 for name in names):
        return ""
    directly = [name for name in names if len(PurePosixPath(name).parts) == 2]
    return tops.pop() if all(len(_words_of(name).split()) >= _FEWEST_WORDS for name in directly) else ""


def _prompt_of_name(name: str, wrapper: str) -> str:
    """The name of the picture's folder, or of the file where it lies at the top."""
    parent = PurePosixPath(name).parent
    folder = parent.name if parent.as_posix() not in {".", wrapper} else ""
    return " ".join(folder.replace("_", " ").split()) if folder else _words_of(name)


def _words_of(name: str) -> str:
    """A file name as a prompt: without its ending and its number."""
    return " ".join(re.sub(r"[\s-]*(?:\(\d+\)|#?\d+)\s*$", "", PurePosixPath(name).stem.replace("_", " ")).split())
