"""Reading a folder or zip of pictures, in a reader: prompts and where they come from, copies, what is left out."""

import hashlib
import io
import json
import re
import shutil
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.store.copies import PossibleCopy, describe_possible_copies, find_copies, get_thumbnail
from bias_core.store.drawing_facts import (
    LARGEST_SEED,
    PictureMetadata,
    clean_line,
    different,
    is_fact_name,
    number,
    whole,
)
from bias_core.store.images import DamagedRecord, decode_picture, is_animation, open_picture, read_record
from bias_core.store.picture_files import ARCHIVES, DAMAGE, SHOWN, Files, check_name, open_files, stored_name
from bias_core.store.picture_metadata import (
    PARQUET,
    UNREADABLE,
    facts_of_name,
    facts_of_parquet,
    facts_of_part,
    facts_of_sidecar,
    find_doubt,
    find_folders,
    find_hidden_text,
    find_numbered,
    find_sidecars,
    find_wrapper_folder,
    is_setting,
    metadata_of_line,
    metadata_of_record,
    model_folder,
    model_key,
    names_as_prompts,
    read_metadata,
    reads_like_a_prompt,
)
from bias_core.store.reader import TooMuch, count_picture, limit_file, may_write
from bias_core.store.tables import Row, describe_unused_columns, note_unused_columns, parquet_rows, read_table, refuse
from bias_core.types import IMPORTED, ONE_COLOUR, ImageRow, PictureRecord, is_blank
from bias_core.values import MAX_TEXT, check_texts, normal_form, read_json
from bias_core.wording import format_count, format_counts, limit_list

T = TypeVar("T")

AUTO, NO_PROMPTS, ONE_FOR_ALL = "auto", "none", "one for all: "
NO_PROMPT = "without a prompt"
"""Stands for the prompt of pictures without one, where pictures are asked for or counted by prompt."""
IN_TABLE, IN_PICTURE, IN_TEXT = "a table", "the picture's own record", "the text file with its name"
IN_FILE, IN_FOLDER, GIVEN = "the name of the file", "the name of the folder", "you"
PROMPT_SOURCES = {
    "table": IN_TABLE, "picture": IN_PICTURE, "text file": IN_TEXT, "file name": IN_FILE, "folder": IN_FOLDER,
}  # fmt: skip
"""Sources of prompts in words, by the names that choose them."""
_BLURRED = "blurred by a safety checker, by its metadata"
COUNT_ONCE: Literal["count once"] = "count once"
COUNT_ALL: Literal["count all"] = "count all"
COPIES = COUNT_ONCE, COUNT_ALL
METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")
TEXTS = ("prompt", "text", "caption")  # columns for the prompt, in order of preference
_FILE_COLUMNS = ("file_name", "image_file_name", "image_name", "filename")  # then any other "…_file_name"
_NUMBERS = {"seed", "steps", "num_inference_steps", "guidance_scale", "cfg_scale", "cfg", "guidance"}
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+?\d+")
_WHOLE_WITH_COMMA = re.compile(r"(\d+),0{1,2}")  # three zeros may be thousands
_DECIMAL_COMMA = re.compile(r"\d+,\d+")
WHOM = ("left", "middle", "right", "identity")
"""Optional columns for the people that a picture should show: two side by side, or one."""
_FIGURE = "a figure of a report"
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
_MOST_KEPT = 10_000  # pictures of all prompts that are compared with each other
_MOST_SHOWN = 6  # doubts of one prompt, and folders of one doubt
_TABLE_TIMES = 5  # the time of a picture, for a table of many
_ADVICE = (  # on files that are not read
    ((".zip", *ARCHIVES), "unpack it, and add its pictures to the folder"),
    ((".xlsx", ".xls", ".ods"), "if it has the prompts, save it as metadata.csv with the columns file_name and prompt"),
    (
        (".csv", ".tsv", ".jsonl"),
        "if it has the prompts, name it metadata.csv, .tsv or .jsonl; it needs file_name and prompt",
    ),
)
_ABOUT_PICTURES = re.compile(
    r".*(?:meta|caption|prompt|label|annotation|info).*\.(?:txt|json|ya?ml|caption)", re.IGNORECASE
)
_ADVICE_ON_TEXTS = "if it has the prompts, save them as metadata.csv with the columns file_name and prompt"
_LOSSLESS = ("PNG", "WEBP", "BMP", "TIFF")  # formats whose pixels can hide a text
_HEADS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")  # of pictures


@dataclass(frozen=True, kw_only=True)
class PromptSummary:
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
        return sum(prompt.n for prompt in self.prompts)

    @property
    def counts(self) -> dict[str, int]:
        return {summary.prompt: summary.n for summary in self.prompts}

    @property
    def prompt_count_text(self) -> str:
        """Return the number of prompts in words, such as “of 2 prompts”."""
        n = sum(prompt.prompt != NO_PROMPT for prompt in self.prompts)
        without = "without a prompt" if n < len(self.prompts) else ""
        return " and ".join(filter(None, (f"of {format_count(n, 'prompt')}" if n or not without else "", without)))

    @property
    def left_out_lines(self) -> list[str]:
        return [f"{name}: {reason}" for name, reason in self.left_out.items()]

    @property
    def to_check(self) -> bool:
        """Return True if a prompt is missing or doubted, a picture is left out, or ways of drawing differ."""
        is_unsure = any(summary.doubts or summary.prompt == NO_PROMPT for summary in self.prompts)
        return is_unsure or bool(self.left_out) or len(self.ways) > 1

    @property
    def ways(self) -> dict[str, int]:
        """Return the ways of drawing that the pictures record, with numbers of pictures."""
        counts = sum((Counter(prompt.drawn_with) for prompt in self.prompts), Counter[str]())
        return {way: n for way, n in counts.items() if way}


@dataclass(frozen=True, kw_only=True)
class ImportedPicture:
    """A picture that counts, and what is known of it."""

    row: ImageRow
    name: str  # of its file
    drawing: PictureMetadata
    prompt_source: str  # in words, with the program that recorded it; "" without a prompt
    way: str  # in which it was drawn, in short: model and LoRAs, or the folder that names a model; "" if not known
    record: tuple[str, str]  # model and revision of its own record; "" without one
    people: Mapping[str, str]  # that it should show, by its metadata: "left", "middle", "right", "identity"
    block_reason: str  # why it counts as blanked; "" if it does not


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
    if sign or word not in (names := (AUTO, *PROMPT_SOURCES, NO_PROMPTS)):
        raise InvalidInput(
            f"prompts are taken from {', '.join(names)}, or “{ONE_FOR_ALL}a photo of a doctor”; got {quoted(text)}"
        )
    return word


_LOST_IN_NAMES = re.compile(r"""[\s_.,;:!?'"“”‘’«»/\\|<>\u2010-\u2015\u3001\u3002-]+""")


def key(prompt: str) -> str:
    """Normalise a prompt: equal for prompts that differ only in case, spaces and marks that names of files lose.

    >>> key("A photo of a light-skinned nurse.") == key("a_photo of a light skinned Nurse")
    True
    >>> key("C++") == key("C"), key("लड़का") == key("लड़की"), key("👨‍⚕️") == key("👩‍⚕️")
    (False, False, False)
    """
    return _LOST_IN_NAMES.sub(" ", normal_form("NFKC", prompt).casefold()).strip()


@dataclass(frozen=True, kw_only=True)
class Source:
    """A folder or zip of pictures and how it is read, as in :class:`bias_core.store.imports.ImportedImages`."""

    import_id: str  # different for each import: the files may have changed
    path: Path
    prompts_from: str
    copies: str
    drawn_with: str
    assumed_prompt: str
    broken: tuple[tuple[str, str], ...] = ()  # files that are not read, with reasons


@dataclass(frozen=True)
class _Line:
    """A metadata file's facts about one picture."""

    prompt: str
    people: Mapping[str, str]  # that it should show
    drawing: PictureMetadata
    place: str = field(default="", compare=False)  # such as "metadata.csv, line 2"


def _iterate_lines(
    name: str, files: Files, remarks: list[str], unused: dict[str, None]
) -> Iterator[tuple[str, str, _Line]]:
    """Yield each line of a metadata file: its place, the picture's name in its folder ("" in a table without), facts.

    A table of one line needs no name. Numbers that are not as they were written are told in ``remarks``.
    """
    problems, places_without_file, place = list[str](), list[str](), ""
    rows = read_table(name, files.read(name), needs=[TEXTS], further=WHOM)
    for place, row in note_unused_columns(rows, TEXTS, _is_used_column, unused):
        try:
            text, has_file = _get_text(row), any(map(_is_file_column, row))
            remarks += [f"{name}, {place}: {remark}" for remark in _mend_numbers(row)]
            if not (file_name := _get_file_name(row)):
                if not has_file and (cell := next(filter(_has_picture_ending, map(str, row.values())), "")):
                    problems = [f"needs the column file_name for names such as {quoted(cell)}, and one of "
                                f"{', '.join(TEXTS)}; its columns are {quoted(', '.join(row))}"]  # fmt: skip
                    break
                if has_file or not text:
                    raise InvalidInput(f"needs file_name and one of {', '.join(TEXTS)}")
                places_without_file.append(place)
            people = {column: people for column in WHOM if (people := clean_line(row.get(column)))}
            line = _Line(text, people, metadata_of_line(row), f"{PurePosixPath(name).name}, {place}")
            yield place, file_name, line
        except InvalidInput as error:
            problems.append(f"{place}: {error}")
    if places_without_file and place != places_without_file[0]:
        problems.append(f"{places_without_file[0]}: has no file_name")
    refuse(name, problems)


def _get_text(row: Mapping[str, Any]) -> str:
    text = next((row[column] for column in TEXTS if row.get(column) is not None), "")
    return " ".join(str(text).split())


def _get_file_name(row: Mapping[str, Any]) -> str:
    """Return the name of the picture in a line, with forward slashes; InvalidInput if it leads out of its folder."""
    columns = [*_FILE_COLUMNS, *filter(_is_file_column, row)]
    name = next((row[column] for column in columns if isinstance(row.get(column), str) and row[column]), "")
    try:
        return check_name(name) if name else ""
    except InvalidInput:  # a path of another machine
        return check_name(name.replace("\\", "/").rpartition("/")[2])


def _is_file_column(name: str) -> bool:
    return name in _FILE_COLUMNS or name.endswith("_file_name")


def _is_used_column(name: str) -> bool:
    usual_columns = (*WHOM, "drawn_with_model", "drawn_by", "program")
    return name in usual_columns or _is_file_column(name) or is_fact_name(name)


def _mend_numbers(row: dict[str, Any]) -> Iterator[str]:
    """Mend the numbers of a line that a spreadsheet wrote in its own way; yield remarks on these and on unread ones."""
    for column in filter(_NUMBERS.__contains__, [*row]):
        text = str(row[column]).strip() if row[column] is not None else ""
        if column == "seed" and _ROUNDED.fullmatch(text):
            row[column] = None
            yield f"the seed “{text}” was rounded by a spreadsheet, so it is not known"
        elif _WHOLE_WITH_COMMA.fullmatch(text) or (column != "seed" and _DECIMAL_COMMA.fullmatch(text)):
            row[column] = _WHOLE_WITH_COMMA.sub(r"\1", text).replace(",", ".")
            yield f"{column} “{text}” is read as {row[column]}"
        elif column == "seed" and number(row[column]) is not None and whole(row[column], LARGEST_SEED) is None:
            yield f"the seed “{text[:SHOWN]}” is none that a program draws from, so it is not known"
        elif text and number(row[column]) is None:
            yield f"{column} “{text[:SHOWN]}” is no number, so it is not known"


@dataclass(frozen=True)
class FoundPrompt:
    """The prompt of a picture; "" if it has none."""

    text: str = ""
    source: str = ""  # one of PROMPT_SOURCES; "" without a prompt
    doubt: str = ""  # reason to check it; "" if the source says outright that it is the prompt
    missing: str = ""  # reason for a missing prompt, if there is more to say than that there is none


class FoundPictures:
    """Pictures of a folder or zip by prompt.

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
    source : folder or zip, and how it is read.

    Attributes
    ----------
    name, counts, is_assumed : as in :class:`bias_core.store.imports.ImportedImages`.
    left_out : reasons for left-out pictures, by file; grows while pictures are read.
    problems : lines of tables, and files, that could not be used.
    blanks, animations : pictures that count as blanked, or count by their first frame.
    unread_metadata : reasons for ignored metadata, one line each; grows likewise.
    others : files that are neither pictures nor texts about them.

    Raises InvalidInput: there is no such folder or zip, it has no picture, a table contradicts itself, or a name leads
    out of it.
    """

    def __init__(self, source: Source) -> None:
        self._source, self._broken, path = source, dict(source.broken), source.path
        with limit_file(path.name, self._broken):
            self._files = open_files(path)
        self.name = path.resolve().stem if path.is_file() else path.resolve().name
        rejected = self._files.rejected
        self.left_out = {name: reason for name, reason in rejected.items() if _has_picture_ending(name)}
        self.problems = [f"{name}: {reason}" for name, reason in rejected.items() if name not in self.left_out]
        self.left_out |= {name: "a hidden file" for name in self._files.hidden if _has_picture_ending(name)}
        self.unread_metadata, self.others = list[str](), list[str]()
        self.blanks, self.animations = list[str](), list[str]()
        self._tables_with: dict[str, list[str]] = defaultdict(list)  # unused columns: tables
        self._tables: dict[str, PictureMetadata] = {}  # of other tables, by file
        self._sidecars: dict[str, str] = {}  # names of these texts
        self._lines: dict[str, _Line] = {}  # of metadata files, by file
        self._folder_lines: dict[PurePosixPath, _Line] = {}  # of metadata files that name no file, by folder
        self._inside: dict[str, PictureMetadata] = {}  # that pictures hold, by file
        self._beside: dict[str, PictureMetadata] = {}  # of texts next to pictures, by picture
        self._found = self._find()
        if not self._found:
            reasons = [f"{name}: {reason}" for name, reason in self.left_out.items()] + self.problems + self.others
            raise InvalidInput(f"{path.name} has no picture{f' ({chr(59).join(reasons[:3])})' if reasons else ''}")
        self._models = defaultdict[str, dict[str, None]](dict)  # spellings of their names, by key
        self._checkpoints = self._find_checkpoints()
        self.is_assumed = bool(source.assumed_prompt) and not self._has_picture_with_prompt()
        if self.is_assumed:
            self._found = dict.fromkeys(self._found, FoundPrompt(source.assumed_prompt, GIVEN))
        self._files_of: dict[str, list[str]] = defaultdict(list)  # by key of their prompt
        for name, found in self._found.items():
            self._files_of[key(found.text)].append(name)
        self.counts = {self._found[names[0]].text or NO_PROMPT: len(names) for names in self._files_of.values()}
        self._first_files: dict[str, tuple[str, str]] = {}  # prompt and name of the first file with this content
        self._pictures: dict[str, list[ImportedPicture]] = {}  # by key of their prompt
        self._ids: set[str] = set()  # of all rows
        self._counted: list[PossibleCopy] = []  # pictures that count
        self._alike: dict[int, list[str]] = {}  # remarks on those of them that may be copies, by their number

    def _has_picture_with_prompt(self) -> bool:
        """True if a file with a prompt can be read as a picture; a name alone, of no picture, says nothing."""
        for name, found in self._found.items():
            if found.text:
                with suppress(InvalidInput), limit_file(name, self._broken):
                    with open_picture(io.BytesIO(self._files.read(name))) as opened:
                        decode_picture(opened)
                    return True
        return False

    def look(self) -> PictureLook:
        """Read every picture, and return what was understood; no picture of the result may count."""
        summaries = [self._summarise(prompt, self.get_pictures(get_key(prompt))) for prompt in self.counts]
        return PictureLook(
            name=self.name,
            prompts=tuple(summary for summary in summaries if summary.n),
            left_out=self.left_out,
            notes=tuple((sentence, tuple(lines)) for sentence, lines in self.remarks()[bool(self.left_out) :]),
        )

    def _summarise(self, prompt: str, pictures: Sequence[ImportedPicture]) -> PromptSummary:
        names, drawings = [picture.name for picture in pictures], [picture.drawing for picture in pictures]
        found = [self._found[name] for name in names]
        spellings, doubts = (
            different(found_prompt.text for found_prompt in found),
            [found_prompt.doubt or found_prompt.missing for found_prompt in found],
        )
        all_doubts = different([*doubts, self._describe_folders(names), *_describe_settings(drawings)])
        return PromptSummary(
            prompt=prompt,
            n=len(pictures),
            sources=Counter(picture.prompt_source for picture in pictures if picture.prompt_source),
            doubts=tuple(limit_list(all_doubts, _MOST_SHOWN)),
            spellings=tuple(spellings) if len(spellings) > 1 else (),
            drawn_with=Counter(picture.way for picture in pictures),
            samplers=Counter(drawing.sampler for drawing in drawings if drawing.sampler),
            further=tuple(different(text for drawing in drawings for text in drawing.further)),
            n_seeds=len({drawing.seed for drawing in drawings if drawing.seed is not None}),
            names=tuple(names),
        )

    @property
    def names(self) -> list[str]:
        """Names of all files that look like pictures, also of those that do not count."""
        return [*dict.fromkeys((*self._found, *self.left_out))]

    def remarks(self) -> list[tuple[str, list[str]]]:
        """Return sentences about pictures that do not count as they are, each with the pictures."""
        left_out = [f"{name}: {reason}" for name, reason in self.left_out.items()]
        counted = [(name, found) for name, found in self._found.items() if name not in self.left_out]
        doubted = [f"{name}: “{found.text}”, {found.doubt}" for name, found in counted if found.doubt]
        groups = ([name for name in names if name not in self.left_out] for names in self._files_of.values())
        pooled = [f"“{self._found[names[0]].text}”: {text}" for names in groups
                  if names and (text := self._describe_folders(names))]  # fmt: skip
        mixed = [f"“{pictures[0].row.prompt or NO_PROMPT}”: {text}" for pictures in self._pictures.values()
                 if (text := "; ".join(_describe_settings([picture.drawing for picture in pictures])))]  # fmt: skip
        missing = [f"{name}: {found.missing}" for name, found in counted if found.missing]
        unread = [line for line in self.unread_metadata if line.partition(": ")[0] not in self.left_out]
        for columns, tables in self._tables_with.items():
            n = len(tables) - 1
            extra = f" and {format_count(n, 'other table')}" if n else ""
            unread += [f"{tables[0]}{extra}: {columns}"] * bool(columns)
        parts = (
            ("picture is left out", "pictures are left out", left_out),
            ("line or file could not be used", "lines or files could not be used", self.problems),
            ("picture counts though it looks like another, repeats its seed and settings, or may show others",
             "pictures count though they look like another, repeat its seed and settings, or may show others",
             self._describe_possible_copies()),
            ("prompt has several spellings, which count as one", "prompts have several spellings, which count as one",
             [", ".join(f"“{text}”" for text in texts) for texts in self._spellings() if len(texts) > 1]),
            ("prompt is guessed from a name, with a doubt", "prompts are guessed from names, with doubts", doubted),
            ("prompt is in several folders", "prompts are in several folders", pooled),
            ("prompt was drawn with settings that differ", "prompts were drawn with settings that differ", mixed),
            ("model has several spellings, which count as one", "models have several spellings, which count as one",
             [", ".join(f"“{model}”" for model in models) for models in self._models.values() if len(models) > 1]),
            ("picture has no prompt, though something is written about it",
             "pictures have no prompt, though something is written about them", missing),
            ("picture has one colour all over, or is blurred by a checker, and counts as blanked",
             "pictures have one colour all over, or are blurred by a checker, and count as blanked", self.blanks),
            ("picture is an animation, of which the first frame counts",
             "pictures are animations, of which the first frames count", self.animations),
            ("note on metadata that is not used as it stands",
             "notes on metadata that is not used as it stands", unread),
            ("file is neither a picture nor a text about one",
             "files are neither pictures nor texts about them", self.others),
        )  # fmt: skip
        return [(single if len(lines) == 1 else many, lines) for single, many, lines in parts if lines]

    def _spellings(self) -> list[list[str]]:
        """Return the different texts of each prompt."""
        return [different(self._found[name].text for name in names) for names in self._files_of.values()]

    def get_pictures(self, prompt_key: str) -> list[ImportedPicture]:
        """Return all counting pictures of a prompt, which are read at the first time."""
        if prompt_key in self._pictures:
            return self._pictures[prompt_key]
        read = []
        for name in self._files_of.get(prompt_key, ()):
            try:
                read.append(self._read(name))
            except InvalidInput as error:
                self.left_out[name] = str(error)
        candidates = [candidate for candidate, _ in read]
        copies: dict[str, str] = self._compare(find_copies, candidates, {})
        for candidate in candidates:
            if not (candidate.is_blank or candidate.own_id):
                first_prompt, first = self._first_files.setdefault(candidate.content, (prompt_key, candidate.name))
                if first_prompt != prompt_key and self._source.copies == COUNT_ONCE:
                    copies.setdefault(candidate.name, f"the same picture as {first}, which has another prompt")
        self.left_out |= copies
        self._counted += [candidate for candidate in candidates if candidate.name not in copies][
            : _MOST_KEPT - len(self._counted)
        ]
        pictures = self._pictures[prompt_key] = list[ImportedPicture]()
        for _, picture in read:
            if picture.name in copies:
                continue
            # Without a seed, its place among those of its prompt takes the seed's place; or the same blank file twice.
            if picture.drawing.seed is None or picture.row.id in self._ids:
                row, drawing = replace(picture.row, seed=len(pictures)), replace(picture.drawing, seed=None)
                picture = replace(picture, row=row, drawing=drawing)
            self._ids.add(picture.row.id)
            self.blanks += [picture.name] * bool(picture.block_reason)
            pictures.append(picture)
        return pictures

    def _describe_possible_copies(self) -> list[str]:
        """Compare all pictures that count until now, once."""
        n = len(self._counted)
        if n not in self._alike:
            self._alike = {n: self._compare(describe_possible_copies, self._counted, [])}
            self._alike[n] += [f"others may, for only {n:,} pictures were compared"] * (n == _MOST_KEPT)
        return self._alike[n]

    def _compare(self, compare: Callable[[Sequence[PossibleCopy]], T], pictures: Sequence[PossibleCopy], none: T) -> T:
        """Compare pictures if copies are of interest, within the limits of a reader."""
        if self._source.copies != COUNT_ONCE:
            return none
        try:
            with limit_file(self.name, self._broken, times=_TABLE_TIMES):
                return compare(pictures)
        except TooMuch as error:
            self.problems.append(f"copies among {len(pictures):,} pictures are not found: {error}")
            return none

    def _read(self, name: str) -> tuple[PossibleCopy, ImportedPicture]:
        """Read a picture, for comparison with others and as it counts."""
        with limit_file(name, self._broken):
            data = self._files.read(name)
            with open_picture(io.BytesIO(data)) as opened:
                size, kind, is_animated = opened.size, str(opened.format), is_animation(opened, data)
                hidden = find_hidden_text(opened) if kind in _LOSSLESS else ""
                image = decode_picture(opened)
            record, drawing = self._find_drawing(name, data)
            way = drawing.way or model_folder(name)
            if self._source.drawn_with and way != self._source.drawn_with:
                raise InvalidInput(f"drawn with {way}" if way else "how it was drawn is not known")
            candidate = PossibleCopy(
                name=name,
                prompt=key(self._found[name].text),
                content=hashlib.sha256(data).hexdigest()[:20],
                pixels=hashlib.sha256(image.tobytes()).hexdigest() + f"{image.size}",
                own_id=record.row.id if record else "",
                size=size,
                format=kind,
                is_blank=is_blank(image),
                thumbnail=get_thumbnail(image),
                way=way,
                drawing=drawing,
            )
        count_picture()
        self.animations += [name] * is_animated
        self.unread_metadata += [f"{name}: {text}" for text in (*drawing.unread, hidden) if text]
        row = ImageRow(
            prompt=self._found[name].text,
            seed=-1 if drawing.seed is None else drawing.seed,
            model=f"{IMPORTED}{self.name}",
            revision=candidate.content,
            num_inference_steps=drawing.num_inference_steps or 0,
            guidance_scale=drawing.guidance_scale or 0.0,
            negative_prompt=drawing.negative_prompt,
            width=image.width,
            height=image.height,
        )
        source, program = self._found[name].source, self._inside[name].program
        return candidate, ImportedPicture(
            row=row,
            name=name,
            drawing=drawing,
            prompt_source=f"{source} of {program}" if source == IN_PICTURE and program else source,
            way=way,
            record=(record.row.model, record.row.revision) if record else ("", ""),
            people=self._lines[name].people if name in self._lines else {},
            block_reason=ONE_COLOUR if candidate.is_blank else _BLURRED if drawing.is_blanked else "",
        )

    def _find_drawing(self, name: str, data: bytes) -> tuple[PictureRecord | None, PictureMetadata]:
        """Return our own intact record, and all known drawing facts."""
        record, inside = None, self._inside[name]
        try:
            record = read_record(data)
            inside = metadata_of_record(record)
        except StorageError as error:  # it has no intact record
            if isinstance(error, DamagedRecord):
                self.unread_metadata.append(f"{name}: {error}")
        drawing = self._merge_facts(name, inside)
        of_name = facts_of_name(name, self._numbered)
        for fact_name, first, second, third in (
            ("model", drawing.model, inside.model, of_name.model),
            ("seed", drawing.seed, inside.seed, of_name.seed),
            ("negative prompt", drawing.negative_prompt, inside.negative_prompt, ""),
        ):
            for value, where in ((second, "its own record"), (third, "its name")):
                if value not in (None, "") and model_key(f"{first}") != model_key(f"{value}"):
                    self.unread_metadata.append(f"{name}: its {fact_name} is {value} by {where}, but {first} counts")
        model = next(iter(self._models.get(model_key(drawing.model), ())), drawing.model)
        if digits := self._checkpoints.get((model_key(model), drawing.model_hash)):
            model = f"{model} ({digits})"
        return record, replace(drawing, model=model)

    def _merge_facts(self, name: str, inside: PictureMetadata) -> PictureMetadata:
        """Return the facts of a picture, each from the first source that has it."""
        line = self._lines[name].drawing if name in self._lines else PictureMetadata()
        known = line.fill_unknown_facts(self._tables.get(name, PictureMetadata())).fill_unknown_facts(inside)
        of_name = replace(facts_of_name(name, self._numbered), prompt="")
        return known.fill_unknown_facts(self._beside[name]).fill_unknown_facts(of_name)

    def _find_checkpoints(self) -> dict[tuple[str, str], str]:
        """Return the hashes of models that share their name, by their key and hash; the longest of those that agree."""
        checkpoints, hashes = dict[tuple[str, str], str](), defaultdict[str, set[str]](set)
        for facts in (self._merge_facts(name, self._inside[name]) for name in self._found):
            if facts.model:
                self._models[model_key(facts.model)][facts.model] = None
                hashes[model_key(facts.model)] |= {facts.model_hash} - {""}
        for model, model_hashes in hashes.items():
            longest = [
                digits
                for digits in model_hashes
                if not any(candidate.startswith(digits) for candidate in model_hashes - {digits})
            ]
            longer = {
                digits: [candidate for candidate in longest if candidate.startswith(digits)] for digits in model_hashes
            }
            full = {digits: matches[0] if len(matches) == 1 else digits for digits, matches in longer.items()}
            if len({*full.values()}) > 1:
                checkpoints |= {(model, digits): full[digits] for digits in model_hashes}
        return checkpoints

    def _read_metadata(self, names: Sequence[str]) -> set[PurePosixPath]:
        """Read the lines of all metadata files; return the folders of their pictures."""
        paths = [PurePosixPath(name) for name in self._files.names if _is_table(name)]
        for path in paths:
            try:
                with limit_file(path.as_posix(), self._broken, times=_TABLE_TIMES):
                    self._read_lines(path, _Matches(names, path.parent))
            except TooMuch as error:
                raise InvalidInput(f"{path} {error}") from error
        return {path.parent for path in paths}

    def _read_lines(self, path: PurePosixPath, matches: "_Matches") -> None:
        problems, unused = list[str](), dict[str, None]()
        for place, file_name, line in _iterate_lines(path.as_posix(), self._files, self.unread_metadata, unused):
            if not file_name:
                self._folder_lines[path.parent] = line
                continue
            name, reason = matches.find(file_name)
            if reason:
                self.problems.append(f"{path}, {place}: {file_name[:SHOWN]}: {reason}")
                continue
            first = self._lines.setdefault(name, line)
            if (first.prompt, first.people) != (line.prompt, line.people):
                problems.append(f"{place}: {file_name} again, with another prompt than in {first.place}")
            elif first != line:
                self.problems.append(f"{path}, {place}: {file_name} again; its first line counts")
        self._tables_with[describe_unused_columns(unused)].append(f"{path}")
        refuse(path.as_posix(), problems)

    def _find(self) -> dict[str, FoundPrompt]:
        names = [name for name in self._files.names if self._looks_like_a_picture(name)]
        folders = self._read_metadata(names)
        self._read_tables(names)
        used = {*names, *self._sidecars.values(), *self._second_texts}
        known_endings = (".json", ".parquet", *_OTHER_PICTURES)
        for name in self._files.names:
            if name not in used and not _is_table(name) and not name.lower().endswith(known_endings):
                self._note_other_file(name)
        self._wrapper = find_wrapper_folder(names) if self._source.prompts_from == AUTO else ""
        self._numbered, found = find_numbered(names), dict[str, FoundPrompt]()
        for name in names:
            prompt = self._find_prompt(name, is_in_table=not folders.isdisjoint(PurePosixPath(name).parents))
            if prompt.missing == _FIGURE:
                self.left_out[name] = _FIGURE
            elif len(prompt.text) > MAX_TEXT:
                n = len(prompt.text)
                self.left_out[name] = f"its prompt has {n:,} characters; at most {MAX_TEXT:,} are read"
            else:
                found[name] = prompt if key(prompt.text) else replace(prompt, text="", source="", doubt="")
        return found

    def _note_other_file(self, name: str) -> None:
        """Name a file that is not read, with what to do."""
        advice = next((text for endings, text in _ADVICE if name.lower().endswith(endings)), "")
        is_about_pictures = not advice and _ABOUT_PICTURES.fullmatch(PurePosixPath(name).name)
        advice = f"this text is not read; {_ADVICE_ON_TEXTS}" if is_about_pictures else advice
        (self.problems if is_about_pictures else self.others).append(f"{name}: {advice}" if advice else name)

    def _find_prompt(self, name: str, *, is_in_table: bool) -> FoundPrompt:
        """Find the prompt of a picture in the first source that has one, or in the source that was asked for."""
        inside = self._inside[name] = self._read_inside(name)
        if inside.is_figure:
            return FoundPrompt(missing=_FIGURE)
        beside = self._beside[name] = self._read_beside(name)
        if self._source.prompts_from.startswith(ONE_FOR_ALL):
            return FoundPrompt(self._source.prompts_from.removeprefix(ONE_FOR_ALL), GIVEN)
        if self._source.prompts_from == NO_PROMPTS:
            return FoundPrompt()
        folder, file = names_as_prompts(name, self._wrapper, self._numbered)
        written = {IN_TABLE: self._find_in_tables(name), IN_PICTURE: inside.prompt, IN_TEXT: beside.prompt}
        guesses = {IN_FOLDER: folder, IN_FILE: file}
        if self._source.prompts_from != AUTO:
            source = PROMPT_SOURCES[self._source.prompts_from]
            return FoundPrompt((written | guesses)[source], source)
        if is_in_table and not written[IN_TABLE]:
            named = "its line in the table has no prompt" if name in self._lines else "no line of the table names it"
            notes = [
                f"{origin} says “{text[:SHOWN]}”, which does not count" for origin, text in written.items() if text
            ]
            return FoundPrompt(missing=" and ".join([named, *notes]))
        good = {source: text for source, text in guesses.items() if reads_like_a_prompt(text)}
        for source, text in (written | good).items():
            if text:
                self._note_others(
                    name, text, {origin: other_text for origin, other_text in written.items() if origin != source}
                )
                return FoundPrompt(text, source, self._find_doubt(name, source, good) if source in guesses else "")
        if inside.unclear:  # programs number their files
            return FoundPrompt(missing=inside.unclear)
        source = IN_FOLDER if folder else IN_FILE
        return FoundPrompt(guesses[source], source, "which hardly reads like a prompt")

    def _find_doubt(self, name: str, source: str, guesses: Mapping[str, str]) -> str:
        """Return a reason to doubt a prompt from one of several names; "" for none."""
        text, path = guesses[source], PurePosixPath(name)
        outer = {"the outermost folder": self._wrapper} if reads_like_a_prompt(self._wrapper) else {}
        names = {**guesses, **outer}
        notes = [
            f"while {origin} says “{other_text[:SHOWN]}”"
            for origin, other_text in names.items()
            if key(other_text) != key(text)
        ]
        below = path.parent.name if source == IN_FOLDER else ""
        if below and key(below) != key(text) and not is_setting(below):
            notes.append(f"in which the folder “{below[:SHOWN]}” may be another prompt")
        return find_doubt(text, path.stem if source == IN_FILE else "") or "".join(notes[:1])

    def _describe_folders(self, names: Sequence[str]) -> str:
        """Name the folders that have pictures of the same prompt; "" for a single one, or without a prompt."""
        found = [find_folders(name, self._found[name].text, self._wrapper) for name in names]
        folders = Counter("/".join(parts) or "outside of these" for parts in found)
        if len(folders) < 2 or not self._found[names[0]].text:
            return ""
        listed = format_counts(folders, limit=_MOST_SHOWN)
        return f"the same prompt in {len(folders):,} folders, which count together: {listed}"

    def _note_others(self, name: str, prompt: str, other_texts: Mapping[str, str]) -> None:
        """Note sources with another prompt than the one that counts."""
        for source, text in other_texts.items():
            if text and key(text) != key(prompt):
                self.unread_metadata.append(f"{name}: {source} says “{text[:SHOWN]}”, which does not count")

    def _read_beside(self, name: str) -> PictureMetadata:
        try:
            if not (text := self._sidecars.get(name)):
                return PictureMetadata()
            with limit_file(text, self._broken):
                data = self._files.read(text)
                if len(mended := _read_json_list(b"[" + data + b"]")) == 1:
                    self.unread_metadata += [f"{text}: {remark}" for remark in _mend_numbers(mended[0])]
                    data = json.dumps(mended[0]).encode()
                return facts_of_sidecar(data)
        except InvalidInput as error:
            self.unread_metadata.append(f"{self._sidecars[name]}: {error}")
            return PictureMetadata()

    def _find_in_tables(self, name: str) -> str:
        folder_lines = map(self._folder_lines.get, PurePosixPath(name).parents)
        lines = (self._lines.get(name), *folder_lines, self._tables.get(name))
        return next((line.prompt for line in lines if line is not None), "")

    def _mend(self, path: PurePosixPath, rows: Iterable[dict[str, Any]]) -> Iterator[Row]:
        """Yield the rows of a table with numbers as they are meant, and note what is not as it was written."""
        for n, row in enumerate(rows, start=1):
            self.unread_metadata += [f"{path}, entry {n}: {remark}" for remark in _mend_numbers(row)]
            yield f"entry {n}", row

    def _read_inside(self, name: str) -> PictureMetadata:
        try:
            with limit_file(name, self._broken), self._files.open(name) as file:
                return read_metadata(file, name)
        except TooMuch as error:
            self._broken[name] = str(error)
        except InvalidInput as error:
            self.unread_metadata.append(f"{name}: {error}")
        return PictureMetadata()

    def _looks_like_a_picture(self, name: str) -> bool:
        """Return true if a file is read as a picture, by ending or first bytes; name other picture formats."""
        path = PurePosixPath(name)
        ending = path.suffix.lower()
        if ending in PICTURES or ending in _NO_PICTURES or (path.parent.name == "figures" and path.suffix == ".svg"):
            return ending in PICTURES
        if ending in _OTHER_PICTURES:
            self.left_out[name] = f"{ending} pictures are not supported; save it as PNG, JPEG or WebP"
            return False
        head = b""
        with suppress(InvalidInput), limit_file(name, self._broken), self._files.open(name) as file:
            head = file.read(16)
        return head.startswith(_HEADS) or head[8:12] == b"WEBP" or head[4:12] in (b"ftypavif", b"ftypavis")

    def _read_tables(self, names: Sequence[str]) -> None:
        """Read other tables, and the texts next to pictures."""
        self._sidecars, self._second_texts = find_sidecars(names, self._files.names)
        seconds = self._second_texts.items()
        self.unread_metadata += [f"{text}: a second text about {name}, which does not count" for text, name in seconds]
        picture_names, beside = set(names), set(self._sidecars.values())
        for path in map(PurePosixPath, self._files.names):
            is_parquet = path.suffix.lower() == ".parquet"
            is_text = path.as_posix() in beside or path.as_posix() in self._second_texts
            if not is_parquet and (path.suffix.lower() != ".json" or is_text):
                continue
            unused = dict[str, None]()
            try:
                with limit_file(path.as_posix(), self._broken, times=_TABLE_TIMES):
                    data = self._files.read(path.as_posix())
                    rows = self._mend(path, parquet_rows(data) if is_parquet else _read_json_list(data))
                    table = (row for _, row in note_unused_columns(rows, TEXTS, _is_used_column, unused))
                    if not is_parquet and (listed := [*table]):
                        data = json.dumps(listed).encode()
                    found = dict(facts_of_parquet(table)) if is_parquet else facts_of_part(data)
            except InvalidInput as error:
                is_table_of_pictures = not is_parquet or path.name.lower() == PARQUET
                (self.problems if is_table_of_pictures else self.others).append(f"{path}: {error}")
                continue
            if not found:
                self._note_other_file(path.as_posix())
            if found or is_parquet:
                self._tables_with[describe_unused_columns(unused)].append(f"{path}")
            named = {(path.parent / name).as_posix(): facts for name, facts in found.items()}
            self._tables |= {name: named[name] for name in named if name in picture_names}
            if absent := [name for name in named if name not in picture_names]:
                example = absent[0][:SHOWN]
                self.problems.append(f"{path}: {len(absent):,} of its pictures are not here, such as {example}")


def _read_json_list(data: bytes) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; [] for another file."""
    with suppress(*UNREADABLE):
        rows = read_json(data)
        return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else []
    return []


def _describe_settings(drawings: Sequence[PictureMetadata]) -> Iterator[str]:
    """Name settings that differ among the pictures of one prompt, with numbers of pictures."""
    values = {
        "negative prompts": [
            f"“{drawing.negative_prompt[:SHOWN]}”" * bool(drawing.negative_prompt) for drawing in drawings
        ],
        "steps": [f"{drawing.num_inference_steps}" for drawing in drawings if drawing.num_inference_steps is not None],
        "guidance": [f"{drawing.guidance_scale:g}" for drawing in drawings if drawing.guidance_scale is not None],
        "samplers": [drawing.sampler for drawing in drawings if drawing.sampler],
    }
    for setting, setting_values in values.items():
        if len(counts := Counter(value or "none" for value in setting_values)) > 1:
            yield f"{setting}: {format_counts(counts, limit=_MOST_SHOWN)}"


def _has_picture_ending(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in PICTURES | _OTHER_PICTURES


class _Matches:
    """The pictures that the lines of a table in a folder can name."""

    def __init__(self, names: Sequence[str], folder: PurePosixPath) -> None:
        self._folder = folder
        self._paths, self._names = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for name in names:
            self._paths[normal_name(name)].append(name)
            if folder == PurePosixPath() or folder in PurePosixPath(name).parents:
                self._names[normal_name(PurePosixPath(name).name)].append(name)

    def find(self, file_name: str) -> tuple[str, str]:
        """Return the picture of a name, and "" or why there is none; a name without folders is enough if it is rare."""
        path = (self._folder / file_name).as_posix()
        found = self._paths[normal_name(path)]
        if not found and "/" not in file_name:
            found = self._names[normal_name(file_name)]
        if len(found) == 1 or path in found:
            return path if path in found else found[0], ""
        return "", "several such pictures" if found else "no such picture"


@lru_cache(maxsize=8)
def _find_pictures(source: Source) -> FoundPictures:
    """Find the pictures of an import, once for all questions about it."""
    return FoundPictures(source)


@lru_cache(maxsize=8)
def _open_again(source: Source) -> Files:
    return open_files(source.path)


def describe(source: Source) -> tuple[str, dict[str, int], bool, list[str]]:
    """Return the name of a folder or zip, its numbers of files by prompt, if it is assumed, and names of all files."""
    found = _find_pictures(source)
    return found.name, found.counts, found.is_assumed, found.names


def examine(source: Source, prompt_keys: Sequence[str]) -> dict[str, list[ImportedPicture]]:
    """Return the pictures of some prompts that count, by key."""
    found = _find_pictures(source)
    return {prompt_key: found.get_pictures(prompt_key) for prompt_key in prompt_keys}


def get_remarks(source: Source, prompt_keys: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, list[str]]]]:
    """Return the pictures of some prompts that are left out, with reasons, and the remarks on all of them."""
    examine(source, prompt_keys)
    found = _find_pictures(source)
    return found.left_out, found.remarks()


def look(source: Source) -> PictureLook:
    return _find_pictures(source).look()


def decode_small(source: Source, name: str, longest: int) -> tuple[tuple[int, int], bytes]:
    """Return the size and the RGB pixels of a picture, with its longer side at most ``longest``."""
    files = _open_again(source)
    with limit_file(name), open_picture(io.BytesIO(files.read(name))) as opened:
        image = decode_picture(opened)
        image.thumbnail((longest, longest))
        return image.size, image.tobytes()


def write_with_table(zip_path: str, target_path: str, table_path: str) -> None:
    """Write a copy of a zip as :func:`bias_core.store.imports.with_table` does."""
    with limit_file(Path(zip_path).name, times=_TABLE_TIMES):
        _write_with_table(Path(zip_path), Path(target_path), Path(table_path))


def _write_with_table(path: Path, target: Path, table: Path) -> None:
    files, rows = open_files(path), dict[str, dict[str, Any]]()
    for name in filter(_is_table, files.names):
        folder = PurePosixPath(name).parent
        for _, row in read_table(name, files.read(name), needs=[TEXTS], further=WHOM):
            if file_name := _get_file_name(row):
                rows.setdefault((folder / file_name).as_posix(), row)
    matches, n_found = _Matches(files.names, PurePosixPath()), 0
    for _, row in read_table(table.name, table.read_bytes(), needs=[TEXTS], further=WHOM):
        name, reason = matches.find(file_name := _get_file_name(row))
        name, n_found = name or file_name, n_found + (not reason)  # a line without picture is named when it is read
        rows[name] = {**rows.get(name, {}), **dict.fromkeys(TEXTS), "prompt": _get_text(row)}
    if not n_found:
        raise InvalidInput(f"{table.name} names no picture of {path.name}: it needs the columns file_name and prompt")
    lines = [{**row, "file_name": name} for name, row in rows.items()]
    may_write(target, path.stat().st_size + 10_000_000)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for info in source.infolist():
            if not _is_table(name := stored_name(info)) and not info.is_dir():
                entry = zipfile.ZipInfo(name)
                entry.compress_type = info.compress_type
                # A damaged picture arrives cut off, and is then listed as such.
                with suppress(*DAMAGE), source.open(info) as picture, copy.open(entry, "w") as written:
                    shutil.copyfileobj(picture, written)
        text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        copy.writestr("metadata.jsonl", text, zipfile.ZIP_DEFLATED)


def _is_table(name: str) -> bool:
    return PurePosixPath(name).name.lower() in METADATA


def normal_name(name: str) -> str:
    """Normalise a file's name, which systems and spreadsheets write differently."""
    return normal_form("NFC", name.replace("\\", "/").strip()).casefold()


def get_key(prompt: str) -> str:
    """Return the key of a prompt as it stands in counts, where :data:`NO_PROMPT` stands for none."""
    return "" if prompt == NO_PROMPT else key(prompt)
