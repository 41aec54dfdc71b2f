"""Tables that other people made: CSV with any usual separator, or JSON lines, as spreadsheets and programs save them.

Lines that cannot be read for certain are refused by their numbers: nothing is cut, merged or dropped in silence.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, BinaryIO

from bias_core.errors import InvalidInput, quoted
from bias_core.given_values import normal_form, read_json

Row = tuple[str, dict[str, Any]]  # where it stands, as "line 4", and its cells by column

MOST_ROWS, MOST_CELLS = 200_000, 4_000_000
_MOST_BYTES = 64_000_000  # of a table
_MOST_LINES = 1_000_000
_LONGEST_ROW = 1_000_000  # characters
_PIECE = 1 << 16  # bytes that are looked at together
_SEPARATORS = ",;\t|"
_NO_SEPARATOR = "\x1f"  # of a table with one column, whose commas are text
_SEPARATOR_LINE = re.compile(r"\"?sep=([,;\t|])\"?[ \t]*", re.IGNORECASE)  # Excel's first line
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_NO_TEXT = "cannot be read: it is no text; save a spreadsheet as CSV"
_SIMILAR, _NEARLY_SAME = 0.6, 0.8  # of names of columns, difflib's ratio
_MOST_NAMED = 5  # lines in one message
_MOST_COLUMNS = 1000


class Problems:
    """Lines of a file that cannot be used: the first few, and the number of all."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._n = 0

    def add(self, problem: str) -> None:
        """Note one."""
        self._n += 1
        if len(self._first) < _MOST_NAMED:
            self._first.append(problem)

    def refuse(self, name: str) -> None:
        """Raise InvalidInput with the first of them and the number of the others, if there are any."""
        if self._n:
            more = f"; and {self._n - _MOST_NAMED:,} more" if self._n > _MOST_NAMED else ""
            raise InvalidInput(f"{name}: {'; '.join(self._first)}{more}")


def read_table(
    name: str, opened: Callable[[], BinaryIO], *, needs: Sequence[Sequence[str]], further: Collection[str] = ()
) -> Iterator[Row]:
    r"""Read the rows of a table one by one; cells are text in CSV, any JSON value in JSON lines.

    The content decides which it is: JSON lines, or CSV separated by a comma, semicolon, tab or bar; in UTF-8, UTF-16 or
    Windows-1252. Blank lines are left out. Names of columns come in lower case with "_" for spaces and hyphens, text in
    Unicode's composed form (NFC).

    Parameters
    ----------
    name : of the file, for messages.
    opened : opens the file; called twice.
    needs : names of columns; the table has at least one of each sequence.
    further : other columns that are read. Columns of other names are passed over, unless they nearly have one of these.

    Raises
    ------
    InvalidInput : it cannot be read or is too large; the message names the lines, what they lack, or the nearest name
        of a column. It may come after the last row.

    Examples
    --------
    >>> table = io.BytesIO(b"File name;Prompt\n1.png;a nurse\n").getvalue()
    >>> list(read_table("own.csv", lambda: io.BytesIO(table), needs=[["file_name"], ["prompt", "text"]]))
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
    """The encoding of a file's text, all of which is looked at; InvalidInput where it is none, or too long."""
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
        # Windows-1252 has no character for five bytes, and where letters of UTF-8 stand, it is damaged UTF-8.
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
    """The number of ends of lines, be they of Windows, Unix or an old Mac."""
    return max(text.count(b"\n"), text.count(b"\r"))


class _Lines(Iterator[str]):
    """The lines of a file from the first that is not blank, each with its end; U+2028 and its like end none."""

    def __init__(self, name: str, file: BinaryIO, encoding: str) -> None:
        self._name, self._text = name, io.TextIOWrapper(file, encoding=encoding, newline="")
        self._n_characters = 0  # of the row that is read
        self.number = 0  # of the line ``first``
        self.skip()

    def skip(self) -> None:
        """Go on to the next line that is not blank."""
        while True:
            self.new_row()
            self.first, self._is_waiting, self.number = self._read(), True, self.number + 1
            if self.number == 1:  # a file that was converted twice has two marks of UTF-8
                self.first = self.first.lstrip("\ufeff")
            if not self.first or self.first.strip():
                return

    def new_row(self) -> None:
        """Count the characters of a row from here."""
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


def _counted(name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, as far as they are not too many."""
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
                    problems.add(f'line {number}: is no object such as {{"prompt": "a photo of a nurse"}}')

    for row in _counted(name, rows()):
        columns |= dict.fromkeys(row[1])
        if len(columns) > _MOST_COLUMNS:
            raise InvalidInput(f"{name} has more than {_MOST_COLUMNS:,} columns, which are not read")
        yield row
    problems.refuse(name)
    _check_columns(name, list(columns), needs, further)


def _json_row(line: str) -> dict[str, Any]:
    row = read_json(line, pairs=_object)
    if not isinstance(row, dict):
        raise ValueError
    return _object((_column(key), _cell(value)) for key, value in row.items())


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, which would else keep the last of two values."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise InvalidInput(f"has {quoted(key)} twice")
        values[key] = value
    return values


def _csv_rows(name: str, lines: _Lines, needs: Sequence[Sequence[str]], further: Collection[str]) -> Iterator[Row]:
    told = _SEPARATOR_LINE.fullmatch(lines.first.rstrip("\r\n"))
    if told:
        lines.skip()
    separator = told[1] if told else _separator_of(lines.first, {*further, *(one for names in needs for one in names)})
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

    yield from _counted(name, rows())
    problems.refuse(name)


def _cells(name: str, lines: _Lines, separator: str) -> Iterator[tuple[str, list[str]]]:
    """The place and the cells of every row that is not blank."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        place = f"line {reader.line_num + lines.number}"
        lines.new_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # a quotation mark that is not closed, or closed too early
            raise InvalidInput(f"{name}: {place}: look at its quotation marks ({error})") from error
        if len(cells) > _MOST_COLUMNS:
            raise InvalidInput(f"{name}: {place} has {len(cells):,} cells; at most {_MOST_COLUMNS:,} columns are read")
        if any(map(str.strip, cells)):
            yield place, cells


def _separator_of(head: str, known: Collection[str]) -> str:
    """The separator that gives the first line most of the known names, then most cells."""

    def names_and_cells(separator: str) -> tuple[int, int]:
        try:
            cells = next(csv.reader([head], delimiter=separator), [])
        except csv.Error:  # too long a cell
            return 0, 1
        return len({*known} & {*map(_column, cells[:_MOST_COLUMNS])}), len(cells)

    best = max(_SEPARATORS, key=names_and_cells)
    return best if names_and_cells(best)[1] > 1 else _NO_SEPARATOR


def _column(text: str) -> str:
    return re.sub(r"[\s-]+", "_", normal_form("NFC", text).strip().lower())


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _HALF_CHARACTER.search(value):
        raise InvalidInput(f"holds half a character: {quoted(value)}")
    return normal_form("NFC", value)


def _check_columns(name: str, columns: list[str], needs: Sequence[Sequence[str]], further: Collection[str]) -> None:
    named = [column for column in columns if column]
    if twice := [column for column, n in Counter(named).items() if n > 1]:
        raise InvalidInput(f"{name} has the column {twice[0]} twice")
    known = {*further, *(one for names in needs for one in names)}
    others = [column for column in named if column not in known]
    for names in needs:
        if not {*names} & {*named}:
            near = next((one for want in names for one in get_close_matches(want, others, 1, _SIMILAR)), "")
            nearest = f"the nearest is {quoted(near)}; " if near else ""
            there = f"its columns are {quoted(', '.join(named))}" if named else "it is empty"
            raise InvalidInput(f"{name} has no column {' or '.join(names)}; {nearest}{there}")
    for column in further:
        if column not in named and (similar := get_close_matches(column, others, 1, _NEARLY_SAME)):
            raise InvalidInput(f"{name} has a column {quoted(similar[0])}, which is not read: is {column} meant?")
