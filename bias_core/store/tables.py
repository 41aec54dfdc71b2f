"""Tables and prompt files of users, read row by row."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from math import isnan
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bias_core.errors import HubNotReached, InvalidInput, quoted
from bias_core.prompts import MAX_PROMPT_CHARACTERS
from bias_core.values import as_whole, check_texts, normal_form, read_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet


Row = tuple[str, dict[str, Any]]  # its place, such as "line 4", and its cells by column

MOST_ROWS, MOST_CELLS = 200_000, 4_000_000
_MOST_BYTES = 64_000_000  # of a table
_MOST_LINES = 1_000_000
_LONGEST_ROW = 1_000_000  # characters
_PIECE = 1 << 16  # bytes read at a time
_SEPARATORS = ",;\t|"
_NO_SEPARATOR = "\x1f"  # stands for no separator in a table with one column, which may have commas
_SEPARATOR_LINE = re.compile(r"\"?sep=([,;\t|])\"?[ \t]*", re.IGNORECASE)  # Excel's first line
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_NO_TEXT = "cannot be read: it is not a text; save a spreadsheet as CSV"
_SIMILAR, _NEARLY_SAME = 0.6, 0.8  # of names of columns, difflib's ratio
_MOST_NAMED = 5  # lines in one message
_MOST_COLUMNS = 1000


class Problems:
    """Bad lines of a file: the first few, and their number."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._n = 0

    def add(self, problem: str) -> None:
        """Add a problem."""
        self._n += 1
        if len(self._first) < _MOST_NAMED:
            self._first.append(problem)

    def refuse(self, name: str) -> None:
        """Raise InvalidInput for the first problems and the number of others, if any."""
        if self._n:
            more = f"; and {self._n - _MOST_NAMED:,} more" if self._n > _MOST_NAMED else ""
            raise InvalidInput(f"{name}: {'; '.join(self._first)}{more}")


def read_table_file(
    name: str, opened: Callable[[], BinaryIO], *, needs: Sequence[Sequence[str]], further: Collection[str] = ()
) -> Iterator[Row]:
    r"""Read the rows of a table one by one; cells are texts in CSV, any JSON values in JSON lines.

    The content decides the format: JSON lines, or CSV separated by comma, semicolon, tab or bar; in UTF-8, UTF-16 or
    Windows-1252. Blank lines are skipped. Column names become lower case with "_" for spaces and hyphens, texts are in
    Unicode's composed form (NFC).

    Parameters
    ----------
    name : of the file, for messages.
    opened : opens the file; called twice.
    needs : names of columns; the table has at least one of each sequence.
    further : optional columns. Others are ignored, unless their names are close to one of these.

    Raises
    ------
    InvalidInput : it cannot be read or is too large; the message names the lines, their faults, or the nearest name
        of a column. It may come after the last row.

    Examples
    --------
    >>> table = io.BytesIO(b"File name;Prompt\n1.png;a nurse\n").getvalue()
    >>> list(read_table_file("own.csv", lambda: io.BytesIO(table), needs=[["file_name"], ["prompt", "text"]]))
    [('line 2', {'file_name': '1.png', 'prompt': 'a nurse'})]
    """
    with opened() as file:
        encoding = _encoding(name, file)
    with opened() as file:
        lines = _Lines(name, file, encoding)
        if lines.first.lstrip().startswith(("{", "[")):
            yield from _json_rows(name, lines, needs, further)
        else:
            yield from _csv_rows(name, lines, needs, further)


def _encoding(name: str, file: BinaryIO) -> str:
    """The encoding of a file, from its whole text; InvalidInput if it is not a text, or too long."""
    piece = file.read(2)
    encoding, is_windows, wrong_line = "utf-8", True, 0
    if piece in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16-le" if piece == codecs.BOM_UTF16_LE else "utf-16-be"
    elif b"\0" in piece:
        encoding = "utf-16-be" if piece[0] == 0 else "utf-16-le"
    decoder, lenient = codecs.getincrementaldecoder(encoding)(), codecs.getincrementaldecoder("utf-8")("ignore")
    n_bytes, n_lines, is_last = 0, 1, False
    while not is_last:
        n_bytes, is_last = n_bytes + len(piece), not piece
        # Five bytes have no character in Windows-1252, and a text with letters in UTF-8 is damaged UTF-8.
        is_windows &= lenient.decode(piece).isascii() and not any(map(piece.__contains__, b"\x81\x8d\x8f\x90\x9d"))
        try:
            decoder.decode(piece, final=is_last)
        except UnicodeDecodeError as error:
            wrong_line = wrong_line or n_lines + _n_ends(error.object[: error.start])
        n_lines += _n_ends(piece)
        if encoding == "utf-8" and b"\0" in piece:
            raise InvalidInput(f"{name} {_NO_TEXT}")
        if n_bytes > _MOST_BYTES or n_lines > _MOST_LINES:
            raise InvalidInput(f"{name} has more than {_MOST_LINES:,} lines or {_MOST_BYTES // 1_000_000} MB")
        piece = file.read(_PIECE)
    if wrong_line and not (is_windows and encoding == "utf-8"):
        raise InvalidInput(f"{name} cannot be read: line {wrong_line} is not UTF-8 text; save it as UTF-8")
    return "cp1252" if wrong_line else encoding


def _n_ends(text: bytes) -> int:
    """Number of line ends of Windows, Unix or old Macs."""
    return max(text.count(b"\n"), text.count(b"\r"))


class _Lines(Iterator[str]):
    """Lines of a file from the first that is not blank, with their ends; U+2028 and the like end no line."""

    def __init__(self, name: str, file: BinaryIO, encoding: str) -> None:
        self._name, self._text = name, io.TextIOWrapper(file, encoding=encoding, newline="")
        self._n_characters = 0  # of the current row
        self.number = 0  # of the line ``first``
        self.skip()

    def skip(self) -> None:
        while True:
            self.new_row()
            self.first, self._is_waiting, self.number = self._read(), True, self.number + 1
            if self.number == 1:  # a file converted twice has two UTF-8 marks
                self.first = self.first.lstrip("\ufeff")
            if not self.first or self.first.strip():
                return

    def new_row(self) -> None:
        """Start to count the characters of a row."""
        self._n_characters = 0

    def __next__(self) -> str:
        line, self._is_waiting = self.first if self._is_waiting else self._read(), False
        if not line:
            raise StopIteration
        return line

    def _read(self) -> str:
        line = self._text.readline(_LONGEST_ROW + 1)
        self._n_characters += len(line)
        if self._n_characters > _LONGEST_ROW:
            raise InvalidInput(f"{self._name} has a row of more than {_LONGEST_ROW:,} characters")
        if "\0" in line:
            raise InvalidInput(f"{self._name} {_NO_TEXT}")
        return line


def _limited(name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with a limit on their number."""
    n_cells = 0
    for n_rows, row in enumerate(rows, start=1):
        n_cells += len(row[1])
        if n_rows > MOST_ROWS or n_cells > MOST_CELLS:
            raise InvalidInput(f"{name} has more than {MOST_ROWS:,} rows or {MOST_CELLS:,} cells")
        yield row


def _json_rows(name: str, lines: _Lines, needs: Sequence[Sequence[str]], further: Collection[str]) -> Iterator[Row]:
    problems, columns = Problems(), dict[str, None]()

    def rows() -> Iterator[Row]:
        for number, line in enumerate(lines, start=lines.number):
            lines.new_row()
            if line.strip():
                try:
                    yield f"line {number}", _json_row(line)
                except InvalidInput as error:
                    problems.add(f"line {number}: {error}")
                except ValueError:
                    problems.add(f'line {number}: is not an object such as {{"prompt": "a photo of a nurse"}}')

    for row in _limited(name, rows()):
        columns |= dict.fromkeys(row[1])
        if len(columns) > _MOST_COLUMNS:
            raise InvalidInput(f"{name} has more than {_MOST_COLUMNS:,} columns; at most that many are allowed")
        yield row
    problems.refuse(name)
    _check_columns(name, list(columns), needs, further)


def _json_row(line: str) -> dict[str, Any]:
    row = read_json(line, pairs=_object)
    if not isinstance(row, dict):
        raise ValueError
    return _object((_column(key), _cell(value)) for key, value in row.items())


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, refusing repeated keys (Python would keep the last value)."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise InvalidInput(f"has {quoted(key)} twice")
        values[key] = value
    return values


def _csv_rows(name: str, lines: _Lines, needs: Sequence[Sequence[str]], further: Collection[str]) -> Iterator[Row]:
    separator_line = _SEPARATOR_LINE.fullmatch(lines.first.rstrip("\r\n"))
    if separator_line:
        lines.skip()
    separator = (
        separator_line[1]
        if separator_line
        else _separator_of(lines.first, {*further, *(column for names in needs for column in names)})
    )
    cells_of_rows, problems = _cells(name, lines, separator), Problems()
    columns = [_column(cell) for cell in next(cells_of_rows, ("", []))[1]]
    while columns and not columns[-1]:
        columns.pop()
    _check_columns(name, columns, needs, further)

    def rows() -> Iterator[Row]:
        for place, cells in cells_of_rows:
            nameless = {n for n in range(1, len(cells)) if not "".join(columns[n : n + 1])}  # the first one is an index
            if more := [cells[n] for n in sorted(nameless) if cells[n].strip()]:
                problems.add(f"{place}: has more cells than columns with a name: {quoted(more[0])} has none")
            elif missing := columns[len(cells) :][:_MOST_NAMED]:
                problems.add(f"{place}: ends after {len(cells)} of {len(columns)} cells, without {', '.join(missing)}")
            yield place, {column: _cell(cell) for column, cell in zip(columns, cells, strict=False) if column}

    yield from _limited(name, rows())
    problems.refuse(name)


def _cells(name: str, lines: _Lines, separator: str) -> Iterator[tuple[str, list[str]]]:
    """Yield place and cells of every row that is not blank."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        place = f"line {reader.line_num + lines.number}"
        lines.new_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # a quotation mark that is not closed, or closed too early
            raise InvalidInput(f"{name}: {place}: check its quotation marks ({error})") from error
        if len(cells) > _MOST_COLUMNS:
            raise InvalidInput(f"{name}: {place} has {len(cells):,} cells; at most {_MOST_COLUMNS:,} columns are read")
        if any(map(str.strip, cells)):
            yield place, cells


def _separator_of(head: str, known_columns: Collection[str]) -> str:
    """The separator that gives the first line the most known names, then the most cells."""

    def names_and_cells(separator: str) -> tuple[int, int]:
        try:
            cells = next(csv.reader([head], delimiter=separator), [])
        except csv.Error:  # too long a cell
            return 0, 1
        return len({*known_columns} & {*map(_column, cells[:_MOST_COLUMNS])}), len(cells)

    best = max(_SEPARATORS, key=names_and_cells)
    return best if names_and_cells(best)[1] > 1 else _NO_SEPARATOR


def _column(text: str) -> str:
    return re.sub(r"[\s-]+", "_", normal_form("NFC", text).strip().lower())


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _HALF_CHARACTER.search(value):
        raise InvalidInput(f"has an incomplete character: {quoted(value)}")
    return normal_form("NFC", value)


def _check_columns(name: str, columns: list[str], needs: Sequence[Sequence[str]], further: Collection[str]) -> None:
    named = [column for column in columns if column]
    if twice := [column for column, n in Counter(named).items() if n > 1]:
        raise InvalidInput(f"{name} has the column {twice[0]} twice")
    known = {*further, *(column for names in needs for column in names)}
    others = [column for column in named if column not in known]
    for names in needs:
        if not {*names} & {*named}:
            near = next((column for want in names for column in get_close_matches(want, others, 1, _SIMILAR)), "")
            nearest = f"the nearest is {quoted(near)}; " if near else ""
            there = f"its columns are {quoted(', '.join(named))}" if named else "it is empty"
            raise InvalidInput(f"{name} has no column {' or '.join(names)}; {nearest}{there}")
    for column in further:
        if column not in named and (similar := get_close_matches(column, others, 1, _NEARLY_SAME)):
            raise InvalidInput(f"{name} has a column {quoted(similar[0])}, which is unknown: do you mean {column}?")


_MOST_GROUPS, _MOST_PAGES = 1000, 20_000
_MOST_PAGE, _MOST_UNPACKED = 8_000_000, 250_000_000  # bytes of one page, and of all
_FOOTER: Mapping[str, Any] = {"thrift_string_size_limit": 200_000, "thrift_container_size_limit": 200_000}
_LONGEST_TEXT = 65_536  # characters of a cell
_BATCH = 1000  # rows
# Allowed encodings: plain, two of dictionaries, run lengths, differences of numbers, and split numbers. Not
# texts as differences from the one before: these unpack to the product of length and number.
_ENCODINGS = frozenset({0, 2, 3, 5, 8, 9})
_DAMAGED = "cannot be read: a page header is damaged"


def parquet_rows(data: bytes) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet table, with its columns of texts, lists of texts, numbers and booleans.

    Raises InvalidInput: it cannot be read, or is too large; this may come after some rows.
    """
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        file = parquet.ParquetFile(BufferReader(data), **_FOOTER)
        columns = [column.name for column in file.schema_arrow if _is_read(column.type)]
        chunks = [chunk for chunk in _chunks(file.metadata) if _has_part_of(columns, chunk)]
        _check_pages(data, chunks)
        texts = {chunk.path_in_schema for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"}
        file = parquet.ParquetFile(BufferReader(data), read_dictionary=sorted(texts), **_FOOTER)
        for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
            for row in zip(*map(_cells_of_column, batch.columns), strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("is not a readable Parquet table") from error


def _is_read(kind: "pa.DataType", *, in_list: bool = False) -> bool:
    from pyarrow import types

    if types.is_list(kind) and not in_list:
        return _is_read(kind.value_type, in_list=True)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return is_text or (is_number and not in_list)


def _has_part_of(columns: Collection[str], chunk: "parquet.ColumnChunkMetaData") -> bool:
    return chunk.path_in_schema in columns or chunk.path_in_schema.partition(".")[0] in columns


def _chunks(metadata: "parquet.FileMetaData") -> Iterator["parquet.ColumnChunkMetaData"]:
    """The chunks of all columns; InvalidInput for too many columns, groups or rows."""
    if metadata.num_row_groups > _MOST_GROUPS or metadata.num_columns > _MOST_COLUMNS:
        raise InvalidInput(f"has more than {_MOST_COLUMNS:,} columns, or {_MOST_GROUPS:,} groups of rows")
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    if max(metadata.num_rows, sum(group.num_rows for group in groups)) > MOST_ROWS:
        raise InvalidInput(f"has more than {MOST_ROWS:,} rows")
    for group in groups:
        yield from map(group.column, range(metadata.num_columns))


def _check_pages(data: bytes, chunks: Sequence["parquet.ColumnChunkMetaData"]) -> None:
    """Refuse data that unpacks to too much, by the page headers; the footer may be forged."""
    n_pages, n_bytes, n_cells = 0, 0, 0
    for page in (page for chunk in chunks for page in _pages(data, chunk)):
        n_pages, n_bytes, n_cells = n_pages + 1, n_bytes + page.n_bytes, n_cells + page.n_cells
        if not 0 <= page.n_bytes <= _MOST_PAGE or n_bytes > _MOST_UNPACKED or n_pages > _MOST_PAGES:
            raise InvalidInput(f"would unpack to more than {_MOST_UNPACKED // 1_000_000} MB, or has too large pages")
        if page.n_cells < 0 or n_cells > MOST_CELLS:
            raise InvalidInput(f"has more than {MOST_CELLS:,} cells")
        if page.encoding not in _ENCODINGS:
            raise InvalidInput("packs its texts in an unsupported way; write it again with dictionaries")


class _Page(NamedTuple):
    """The header of a page."""

    n_bytes: int  # unpacked
    n_cells: int
    encoding: int


def _pages(data: bytes, chunk: "parquet.ColumnChunkMetaData") -> Iterator[_Page]:
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset]
    head = _Head(data, min(starts))
    end = min(head.at + chunk.total_compressed_size, len(data))
    while head.at < end:
        fields = head.fields()
        told = next((inner for inner in map(fields.get, (5, 7, 8)) if isinstance(inner, dict)), {})
        packed, *page = fields.get(3), fields.get(2), told.get(1, 0), told.get(4 if 8 in fields else 2, 0)
        if not isinstance(packed, int) or packed < 0 or not all(isinstance(n, int) for n in page):
            raise InvalidInput(_DAMAGED)
        head.at += packed
        yield _Page(*page)  # type: ignore[arg-type]


_Fields = dict[int, "int | _Fields"]
_DEEPEST = 4  # nested structs in page headers


class _Head:
    """Reads a page header, in Apache Thrift's compact form, from the place ``at``."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def fields(self, depth: int = 0) -> _Fields:
        """Whole numbers and structs by field number; other fields are skipped."""
        fields: _Fields = {}
        number = 0
        while mark := self._byte():
            number = number + (mark >> 4) if mark >> 4 else self._number()
            if depth > _DEEPEST or (value := self._value(mark & 15, depth)) is None:
                raise InvalidInput(_DAMAGED)
            fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> "int | _Fields | None":
        match kind:
            case 1 | 2:  # true, false
                return kind
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._number()
            case 7:
                self.at += 8
            case 8:  # bytes, such as the least value
                length = self._varint()
                self.at += length
            case 12:
                return self.fields(depth + 1)
            case _:
                return None
        return 0

    def _byte(self) -> int:
        if not 0 <= self.at < len(self._data):
            raise InvalidInput(_DAMAGED)
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for place in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << place
            if byte < 128:
                break
        return value

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _cells_of_column(column: "pa.Array") -> list[Any]:
    """The values of a column; equal texts share one object."""
    from pyarrow import types

    if types.is_list(column.type):
        texts = iter(_cells_of_column(column.flatten()))
        return [None if n is None else list(islice(texts, n)) for n in column.value_lengths().to_pylist()]
    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    places = column.indices.to_pylist()
    different = sorted({place for place in places if place is not None})
    values = dict(zip(different, column.dictionary.take(different).to_pylist(), strict=True)) if different else {}
    if any(isinstance(value, str) and len(value) > _LONGEST_TEXT for value in values.values()):
        raise InvalidInput(f"has a text of more than {_LONGEST_TEXT:,} characters")
    return [values.get(place) for place in places]


ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet")
HUB = "hf://datasets/"
MOST_PROMPTS, MOST_BYTES, MOST_PICTURES = 1000, 5_000_000, 1_000_000
_MOST_ROWS = 10_000  # good and bad ones
_MOST_ATTRIBUTES = 50
_LONGEST_GROUP = 100
_PROMPT = ("prompt", "text")
_FURTHER = ("group", "n", "attributes")
_HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?:/(?P<file>[^@]+))?")
_ON_HUB = ENDINGS


@dataclass(frozen=True, kw_only=True)
class PackedPrompt:
    """One row of a pack."""

    prompt: str
    group: str = ""
    n: int | None = None  # number of its pictures; None: as for the others
    attributes: tuple[str, ...] = ()  # attributes to measure in its group's pictures, next to the run's
    place: str = ""  # its place in the file


def is_pack(name: str) -> bool:
    """Return true if a name is a pack's: a file by its ending, or a data set of a hub.

    >>> is_pack("my/prompts.CSV"), is_pack("hf://datasets/org/prompts"), is_pack("pst-power")
    (True, True, False)
    """
    return name.lower().endswith(ENDINGS) or name.startswith(HUB)


def read_pack(name: str) -> tuple[PackedPrompt, ...]:
    """Read the prompts of a file or a hub's data set, ``hf://datasets/owner/name[@revision][/file]``.

    Raises InvalidInput: it is unreadable, or has bad rows, which the message names by their lines.
    HubNotReached: the hub does not answer.
    """
    path = _from_hub(name) if name.startswith(HUB) else Path(name).expanduser()
    display_name = name if name.startswith(HUB) else path.name
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(
                f"{display_name} is larger than {MOST_BYTES // 1_000_000} MB, the limit for a pack of prompts"
            )
        if path.suffix.lower() == ".parquet":
            return checked_prompts(display_name, _parquet_rows(display_name, path.read_bytes()))
        rows: Iterable[Row] = _plain_prompts(display_name, path) or read_table_file(
            display_name, lambda: path.open("rb"), needs=[_PROMPT], further=_FURTHER
        )
        return checked_prompts(display_name, rows)
    except OSError as error:
        raise InvalidInput(f"{display_name} cannot be read: {error.strerror or error}") from error


def _plain_prompts(name: str, path: Path) -> list[Row]:
    """Read a JSON list of texts or objects, or a text with a prompt on each line; [] for a table."""
    try:
        text = path.read_text(encoding="utf-8-sig") if path.suffix.lower() in (".json", ".txt") else ""
    except UnicodeDecodeError:  # explained as a table's
        return []
    if path.suffix.lower() == ".txt":
        rows = [(f"line {n}", {"prompt": line.strip()}) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        has_columns = {*_PROMPT} & {*map(_column, re.split(r"[,;\t|]", text.lstrip().partition("\n")[0]))}
        return [] if has_columns else rows
    if not text.lstrip().startswith("["):
        return []
    try:
        items = read_json(text, pairs=_object)
    except ValueError as error:  # also InvalidInput, for a name that stands twice in an object
        raise InvalidInput(f"{name} is no readable JSON: {error}") from error
    objects = [item if isinstance(item, dict) else {"prompt": item} for item in items]
    return [
        (f"entry {n}", {_column(str(key)): _cell(value) for key, value in item.items()})
        for n, item in enumerate(objects, start=1)
    ]


def _parquet_rows(name: str, data: bytes) -> Iterator[Row]:
    try:
        for number, row in enumerate(parquet_rows(data), start=1):
            yield f"row {number}", row
    except InvalidInput as error:
        raise InvalidInput(f"{name} {error}") from error


def checked_prompts(name: str, rows: Iterable[Row]) -> tuple[PackedPrompt, ...]:
    """Check the prompts of all rows, with their places; InvalidInput lists the bad ones together."""
    prompts, wrong, places = list[PackedPrompt](), Problems(), dict[str, str]()
    for n_rows, (place, row) in enumerate(rows, start=1):
        if n_rows > _MOST_ROWS:
            raise InvalidInput(f"{name} has more than {_MOST_ROWS:,} rows; a pack has 1 to {MOST_PROMPTS:,} prompts")
        try:
            packed = replace(_prompt(row), place=place)
            if packed.prompt in places:
                raise InvalidInput(f"repeats the prompt of {places[packed.prompt]}")
            places[packed.prompt] = place
            prompts.append(packed)
        except InvalidInput as error:
            wrong.add(f"{place}: {error}")
    wrong.refuse(name)
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise InvalidInput(f"{name} has {len(prompts):,} prompts; a pack has 1 to {MOST_PROMPTS:,}")
    return tuple(prompts)


def _prompt(row: Mapping[str, Any]) -> PackedPrompt:
    prompt = _text(row, next((column for column in _PROMPT if column in row), _PROMPT[0]), MAX_PROMPT_CHARACTERS)
    if not prompt:
        raise InvalidInput("has no prompt")
    n = None if _is_empty(row.get("n")) else as_whole(row["n"], "number n of pictures")
    if n is not None and not 1 <= n <= MOST_PICTURES:
        raise InvalidInput(f"n must be 1 to {MOST_PICTURES:,}; got {n:,}")
    return PackedPrompt(prompt=prompt, group=_text(row, "group", _LONGEST_GROUP), n=n, attributes=_attributes(row))


def _attributes(row: Mapping[str, Any]) -> tuple[str, ...]:
    given: Any = row.get("attributes")
    if _is_empty(given):
        return ()
    texts = given.split(";") if isinstance(given, str) else list(given) if hasattr(given, "__iter__") else [given]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"write attributes as names with ; between them; got {quoted(given)}")
    check_texts("attributes", texts, longest=MAX_PROMPT_CHARACTERS)
    names = tuple(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))
    if len(names) > _MOST_ATTRIBUTES:
        raise InvalidInput(f"at most {_MOST_ATTRIBUTES} attributes, got {len(names)}")
    return names


def _text(row: Mapping[str, Any], name: str, longest: int) -> str:
    value = row.get(name)
    if _is_empty(value):
        return ""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a text; got {quoted(value)}")
    check_texts(name, text := str(value), longest=longest)
    return " ".join(text.split())


def _is_empty(value: object) -> bool:
    """Return true for None, a blank cell, or a table's nan."""
    if isinstance(value, float):
        return isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def _from_hub(name: str) -> Path:
    """Download the file of a data set; without a name, the only one that can hold prompts."""
    from huggingface_hub import HfApi, constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError, HTTPError, RepositoryNotFoundError

    match = _HUB_NAME.fullmatch(name.removeprefix(HUB))
    if not match:
        raise InvalidInput(f"write a data set as {HUB}owner/name or {HUB}owner/name/file.csv; got {quoted(name)}")
    repo, revision, file = match.group("repo", "revision", "file")
    try:
        if file is None:
            file = _only_file(name, HfApi().list_repo_files(repo, repo_type="dataset", revision=revision))
        if not file.lower().endswith(_ON_HUB):
            raise InvalidInput(f"{name}: a pack is a file {', '.join(_ON_HUB)}; got {quoted(file)}")
        if not constants.HF_HUB_OFFLINE:  # otherwise a file of any size would be downloaded
            infos = HfApi().get_paths_info(repo, [file], repo_type="dataset", revision=revision)
            if any(getattr(info, "size", 0) > MOST_BYTES for info in infos):
                raise InvalidInput(
                    f"{name} is larger than {MOST_BYTES // 1_000_000} MB, the limit for a pack of prompts"
                )
        return Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision))
    except (RepositoryNotFoundError, EntryNotFoundError, HFValidationError) as error:
        raise InvalidInput(f"there is no data set {name}, or it is not public: {_first_line(error)}") from error
    except (HTTPError, OSError) as error:
        raise HubNotReached(f"{name} cannot be fetched: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _only_file(name: str, files: Sequence[str]) -> str:
    tables = [file for file in files if file.lower().endswith(_ON_HUB)]
    train = [file for file in tables if "train" in PurePosixPath(file).stem]
    for some in (tables, train):
        if len(some) == 1:
            return some[0]
    listed = ", ".join(tables[:_MOST_NAMED]) or "none"
    raise InvalidInput(f"{name} has {len(tables)} files of a pack ({listed}): add the file's name")
