"""Tables that other people made: CSV with any usual separator, or JSON lines, as spreadsheets and programs save them.

Lines that cannot be read for certain are refused by their numbers: nothing is cut, merged or dropped in silence.
"""

import codecs
import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from bias_core.errors import InvalidInput, quoted

Row = tuple[str, dict[str, Any]]  # where it stands, as "line 4", and its cells by column

_SEPARATORS = ",;\t|"
_NO_SEPARATOR = "\x1f"  # of a table with one column, whose commas are text
_SEPARATOR_LINE = re.compile(r"\"?sep=([,;\t|])\"?[ \t]*(?=[\r\n])", re.IGNORECASE)  # Excel's first line
_FIRST_LINE = re.compile(r"[^\r\n]*[^\s][^\r\n]*")
_LINE_END = re.compile(r"\r\n|\r|\n")  # not U+2028 and its like, which texts hold
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_SIMILAR, _NEARLY_SAME = 0.6, 0.8  # of names of columns, difflib's ratio
_MOST_NAMED = 5  # lines in one message
_MOST_COLUMNS = 1000


def read_table(
    name: str, data: bytes, *, needs: Sequence[Sequence[str]], further: Collection[str] = ()
) -> tuple[Row, ...]:
    r"""Read the rows of a table; cells are text in CSV, any JSON value in JSON lines.

    The content decides which it is: JSON lines, or CSV separated by a comma, semicolon, tab or bar; in UTF-8, UTF-16 or
    Windows-1252. Blank lines are left out. Names of columns come in lower case with "_" for spaces and hyphens, text in
    Unicode's composed form (NFC).

    Parameters
    ----------
    name : of the file, for messages.
    needs : names of columns; the table has at least one of each sequence.
    further : other columns that are read. Columns of other names are passed over, unless they nearly have one of these.

    Raises
    ------
    InvalidInput : it cannot be read; the message names the lines, what they lack, or the nearest name of a column.

    Examples
    --------
    >>> read_table("own.csv", b"File name;Prompt\n1.png;a nurse\n", needs=[["file_name"], ["prompt", "text"]])
    (('line 2', {'file_name': '1.png', 'prompt': 'a nurse'}),)
    """
    text = _decoded(name, data)
    if text.lstrip().startswith(("{", "[")):
        rows = _json_rows(name, text)
        columns: Iterable[str] = dict.fromkeys(column for _, row in rows for column in row)
    else:
        columns, rows = _csv_rows(name, text, {*further, *(one for names in needs for one in names)})
    _check_columns(name, list(columns), needs, further)
    return tuple(rows)


def refuse_lines(name: str, problems: Sequence[str]) -> None:
    """Raise InvalidInput with the first of the problems and the number of the others, if there are any."""
    if problems:
        more = f"; and {len(problems) - _MOST_NAMED:,} more" if len(problems) > _MOST_NAMED else ""
        raise InvalidInput(f"{name}: {'; '.join(problems[:_MOST_NAMED])}{more}")


def _decoded(name: str, data: bytes) -> str:
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in data[:2]:
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    elif data.decode("utf-8", "ignore").isascii() and not data.isascii():  # no letter is UTF-8's
        encoding = "cp1252"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(data[: error.start].decode(encoding, "ignore"))) + 1
        raise InvalidInput(f"{name} cannot be read: line {line} is not UTF-8 text; save it as UTF-8") from error
    text = text.removeprefix("\ufeff")  # a second mark of UTF-8, of a file that was converted twice
    if "\0" in text:
        raise InvalidInput(f"{name} cannot be read: it is no text; save a spreadsheet as CSV")
    return text


def _json_rows(name: str, text: str) -> list[Row]:
    rows, problems = list[Row](), list[str]()
    for number, line in enumerate(_LINE_END.split(text), start=1):
        if line.strip():
            try:
                row = json.loads(line, object_pairs_hook=_object)
                if not isinstance(row, dict):
                    raise ValueError
                rows.append((f"line {number}", _object((_column(key), _cell(value)) for key, value in row.items())))
            except InvalidInput as error:
                problems.append(f"line {number}: {error}")
            except (ValueError, RecursionError):
                problems.append(f'line {number}: is no object such as {{"prompt": "a photo of a nurse"}}')
    refuse_lines(name, problems)
    return rows


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, which would else keep the last of two values."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise InvalidInput(f"has {quoted(key)} twice")
        values[key] = value
    return values


def _csv_rows(name: str, text: str, known: Collection[str]) -> tuple[list[str], list[Row]]:
    if told := _SEPARATOR_LINE.match(text):
        text = text[told.end() :]
    separator = told[1] if told else _separator_of(text, known)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    columns, rows, problems = list[str](), list[Row](), list[str]()
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:  # a quotation mark that is not closed, or closed too early
            problems.append(f"{place}: look at its quotation marks ({error})")
            break
        if not any(map(str.strip, cells)):
            continue
        if not columns:
            columns = list(map(_column, cells))
            while not columns[-1]:
                columns.pop()
            continue
        nameless = {n for n in range(1, len(cells)) if not "".join(columns[n : n + 1])}  # the first one is an index
        if more := [cells[n] for n in sorted(nameless) if cells[n].strip()]:
            problems.append(f"{place}: has more cells than columns with a name: {quoted(more[0])} has none")
        elif missing := columns[len(cells) :]:
            problems.append(f"{place}: ends after {len(cells)} of {len(columns)} cells, without {', '.join(missing)}")
        rows.append((place, {column: _cell(cell) for column, cell in zip(columns, cells, strict=False) if column}))
    refuse_lines(name, problems)
    return columns, rows


def _separator_of(text: str, known: Collection[str]) -> str:
    """The separator that gives the first line most of the known names, then most cells."""
    head = found[0] if (found := _FIRST_LINE.search(text)) else ""

    def names_and_cells(separator: str) -> tuple[int, int]:
        cells = next(csv.reader([head], delimiter=separator), [])
        return len({*known} & {*map(_column, cells)}), len(cells)

    best = max(_SEPARATORS, key=names_and_cells)
    return best if names_and_cells(best)[1] > 1 else _NO_SEPARATOR


def _column(text: str) -> str:
    return re.sub(r"[\s-]+", "_", unicodedata.normalize("NFC", text).strip().lower())


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _HALF_CHARACTER.search(value):
        raise InvalidInput(f"holds half a character: {quoted(value)}")
    return unicodedata.normalize("NFC", value)


def _check_columns(name: str, columns: list[str], needs: Sequence[Sequence[str]], further: Collection[str]) -> None:
    named = [column for column in columns if column]
    if len(named) > _MOST_COLUMNS:
        raise InvalidInput(f"{name} has {len(named):,} columns; at most {_MOST_COLUMNS:,} are read")
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
