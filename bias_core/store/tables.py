"""Tables and prompt files of users, read row by row."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isnan
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from bias_core.errors import HubNotReached, InvalidInput, quoted
from bias_core.prompts import MAX_PROMPT_CHARACTERS
from bias_core.store.reader import TooMuch, limit_file, read_apart
from bias_core.values import check_texts, normal_form, parse_whole_number, read_json
from bias_core.wording import format_list

if TYPE_CHECKING:
    import pyarrow as pa


Row = tuple[str, dict[str, Any]]  # its place, such as "line 4", and its cells by column

_SEPARATORS = ",;\t|"
_NO_SEPARATOR = "\x1f"  # stands for no separator in a table with one column, which may have commas
_SEPARATOR_LINE = re.compile(r"\"?sep=([,;\t|])\"?[ \t]*", re.IGNORECASE)  # Excel's first line
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_SIMILAR, _NEARLY_SAME = 0.6, 0.8  # of names of columns, difflib's ratio
_MOST_NAMED, _MOST_COLUMNS = 5, 20  # lines, and columns that are not used, in one message


def refuse(name: str, problems: Sequence[str]) -> None:
    """Raise InvalidInput for the first bad lines of a file and the number of others, if any."""
    if problems:
        raise InvalidInput(f"{name}: {format_list(problems, '; ', limit=_MOST_NAMED)}")


def read_table(
    name: str, data: bytes, *, needs: Sequence[Sequence[str]], further: Collection[str] = ()
) -> Iterator[Row]:
    r"""Read the rows of a table one by one; cells are texts in CSV, any JSON values in JSON lines.

    The content decides the format: JSON lines, or CSV separated by comma, semicolon, tab or bar; in UTF-8, UTF-16 or
    Windows-1252. Blank lines are skipped. Column names become lower case with "_" for spaces and hyphens, texts are in
    Unicode's composed form (NFC).

    Parameters
    ----------
    name : of the file, for messages.
    data : what the file holds.
    needs : names of columns; the table has at least one of each sequence.
    further : optional columns. Others are ignored, unless their names are close to one of these.

    Raises
    ------
    InvalidInput : it cannot be read; the message names the lines, their faults, or the nearest name of a column. It may
        come after the last row.

    Examples
    --------
    >>> list(read_table("own.csv", b"File name;Prompt\n1.png;a nurse\n", needs=[["file_name"], ["prompt", "text"]]))
    [('line 2', {'file_name': '1.png', 'prompt': 'a nurse'})]
    """
    lines = list(io.StringIO(decode_text(name, data), newline=""))  # U+2028 and the like end no line
    head = next(filter(str.strip, lines), "")
    read_rows = _json_rows if head.lstrip().startswith(("{", "[")) else _csv_rows
    yield from read_rows(name, lines, needs, further)


def note_unused_columns(
    rows: Iterable[Row], texts: Sequence[str], is_used: Callable[[str], bool], unused: dict[str, None]
) -> Iterator[Row]:
    """Yield the rows, and collect in ``unused`` the columns that hold something and are not used.

    Of the columns for ``texts`` only the first that a row has is used.
    """
    for place, row in rows:
        unused |= dict.fromkeys(column for column in row if not _is_empty(row[column]) and not is_used(column))
        unused |= dict.fromkeys([column for column in texts if not _is_empty(row.get(column))][1:])
        yield place, row


def describe_unused_columns(unused: Collection[str]) -> str:
    """Name columns that are not used; "" for none.

    >>> describe_unused_columns(["rating", "notes"]), describe_unused_columns([])
    ('columns not used: rating, notes', '')
    """
    names = [column[:_LONGEST_GROUP] for column in unused]
    return f"columns not used: {format_list(names, limit=_MOST_COLUMNS)}" if names else ""


def decode_text(name: str, data: bytes) -> str:
    """Decode a text in UTF-8, UTF-16 or Windows-1252; InvalidInput if it is none of these."""
    if data.startswith(b"PK\3\4"):
        raise InvalidInput(f"{name} cannot be read: it is not a text; save a spreadsheet as CSV")
    encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    if b"\0" in data[:2]:
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # Five bytes have no character in Windows-1252, and a text with letters in UTF-8 is damaged UTF-8.
        is_windows = data.decode("utf-8", "ignore").isascii() and not any(map(data.__contains__, _NOT_WINDOWS))
        if encoding != "utf-8-sig" or not is_windows:
            line = 1 + max(map(data[: error.start].count, (b"\n", b"\r")))
            raise InvalidInput(f"{name} cannot be read: line {line} is not UTF-8 text; save it as UTF-8") from error
        text = data.decode("cp1252")
    if "\0" in text:
        raise InvalidInput(f"{name} cannot be read: it is not a text; save a spreadsheet as CSV")
    return text.lstrip("\ufeff")  # a file converted twice has two marks


_NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"


def _json_rows(name: str, lines: list[str], needs: Sequence[Sequence[str]], further: Collection[str]) -> Iterator[Row]:
    problems, columns = list[str](), dict[str, None]()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = _json_row(line)
                columns |= dict.fromkeys(row)
                yield f"line {number}", row
            except InvalidInput as error:
                problems.append(f"line {number}: {error}")
            except ValueError:
                problems.append(f'line {number}: is not an object such as {{"prompt": "a photo of a nurse"}}')
    refuse(name, problems)
    _check_columns(name, list(columns), needs, further)


def _json_row(line: str) -> dict[str, Any]:
    row = read_json(line, pairs=_object)
    if not isinstance(row, dict):
        raise ValueError
    return _object((_column(key), _clean_cell(value)) for key, value in row.items())


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, refusing repeated keys (Python would keep the last value)."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise InvalidInput(f"has {quoted(key)} twice")
        values[key] = value
    return values


def _csv_rows(name: str, lines: list[str], needs: Sequence[Sequence[str]], further: Collection[str]) -> Iterator[Row]:
    start = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if separator_line := _SEPARATOR_LINE.fullmatch("".join(lines[start : start + 1]).rstrip("\r\n")):
        separator, start = separator_line[1], start + 1
    else:
        known = {*further, *(column for names in needs for column in names)}
        separator = _find_separator("".join(lines[start : start + 1]), known)
    cells_of_rows, problems = _split_lines(name, lines, start, separator), list[str]()
    columns = [_column(cell) for cell in next(cells_of_rows, ("", []))[1]]
    while columns and not columns[-1]:
        columns.pop()
    _check_columns(name, columns, needs, further)

    nameless = [n for n, column in enumerate(columns) if n and not column]  # the first one is an index
    for place, cells in cells_of_rows:
        unnamed_places = [*nameless, *range(max(1, len(columns)), len(cells))]
        if extra_cells := [cells[n] for n in unnamed_places if n < len(cells) and cells[n].strip()]:
            advice = f"; put a text that contains “{separator}” in quotation marks" if len(cells) > len(columns) else ""
            problems.append(
                f"{place}: has more cells than columns with a name: {quoted(extra_cells[0])} has none{advice}"
            )
        elif missing := columns[len(cells) :][:_MOST_NAMED]:
            problems.append(f"{place}: ends after {len(cells)} of {len(columns)} cells, without {', '.join(missing)}")
        yield place, {column: _clean_cell(cell) for column, cell in zip(columns, cells, strict=False) if column}
    refuse(name, problems)


def _split_lines(name: str, lines: list[str], start: int, separator: str) -> Iterator[tuple[str, list[str]]]:
    """Yield place and cells of every row that is not blank."""
    reader = csv.reader(lines[start:], delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        place = f"line {reader.line_num + start + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # a quotation mark that is not closed, or closed too early
            raise InvalidInput(f"{name}: {place}: check its quotation marks ({error})") from error
        if any(map(str.strip, cells)):
            yield place, cells


def _find_separator(head: str, known_columns: Collection[str]) -> str:
    """The separator that gives the first line the most known names, then the most cells."""

    def names_and_cells(separator: str) -> tuple[int, int]:
        try:
            cells = next(csv.reader([head], delimiter=separator), [])
        except csv.Error:  # too long a cell
            return 0, 1
        return len({*known_columns} & {*map(_column, cells)}), len(cells)

    best = max(_SEPARATORS, key=names_and_cells)
    return best if names_and_cells(best)[1] > 1 else _NO_SEPARATOR


def _column(text: str) -> str:
    return re.sub(r"[\s-]+", "_", normal_form("NFC", text).strip().lower())


def _clean_cell(value: Any) -> Any:
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
    unknown_columns = [column for column in named if column not in known]
    for names in needs:
        if not {*names} & {*named}:
            near = next(
                (column for want in names for column in get_close_matches(want, unknown_columns, 1, _SIMILAR)), ""
            )
            nearest = f"the nearest is {quoted(near)}; " if near else ""
            description = f"its columns are {quoted(', '.join(named))}" if named else "it is empty"
            raise InvalidInput(f"{name} has no column {' or '.join(names)}; {nearest}{description}")
    for column in further:
        if column not in named and (similar := get_close_matches(column, unknown_columns, 1, _NEARLY_SAME)):
            raise InvalidInput(f"{name} has a column {quoted(similar[0])}, which is unknown: do you mean {column}?")


def parquet_rows(data: bytes) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet table, with its columns of texts, lists of texts, numbers and booleans.

    Raises InvalidInput: it cannot be read; this may come after some rows.
    """
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        file = parquet.ParquetFile(BufferReader(data))
        columns = [column.name for column in file.schema_arrow if _is_read(column.type)]
        for batch in file.iter_batches(1000, columns=columns, use_threads=False):
            yield from batch.to_pylist()
    except (InvalidInput, MemoryError):  # the second is also pyarrow's
        raise
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        raise InvalidInput("is not a readable Parquet table") from error


def _is_read(kind: "pa.DataType") -> bool:
    from pyarrow import types

    is_list = types.is_list(kind)
    kind = kind.value_type if is_list else kind
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return is_text or (is_number and not is_list)


ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet")
HUB = "hf://datasets/"
MOST_PROMPTS, MOST_BYTES, MOST_PICTURES = 1000, 5_000_000, 1_000_000
_MOST_ATTRIBUTES = 50
_LONGEST_GROUP = 100
_PROMPT = ("prompt", "text")
_FURTHER = ("group", "n", "attributes")
_HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?:/(?P<file>[^@]+))?")


@dataclass(frozen=True, kw_only=True)
class PackedPrompt:
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


def read_pack(name: str) -> tuple[tuple[PackedPrompt, ...], str]:
    """Read the prompts of a file or a hub's data set, ``hf://datasets/owner/name[@revision][/file]``.

    The second result names the columns that are not used; "" for none.

    Raises InvalidInput: it is unreadable, or has bad rows, which the message names by their lines.
    HubNotReached: the hub does not answer.
    """
    path = _from_hub(name) if name.startswith(HUB) else Path(name).expanduser()
    display_name = name if name.startswith(HUB) else path.name
    try:
        packed: tuple[tuple[PackedPrompt, ...], str] = read_apart(read_prompts, display_name, str(path.absolute()))
    except TooMuch as error:
        raise InvalidInput(f"{display_name} {error}") from error
    return packed


def read_prompts(name: str, file: str) -> tuple[tuple[PackedPrompt, ...], str]:
    """Read the prompts of a file, in a reader; ``name``: for messages. Raises InvalidInput."""
    ending, unused = Path(file).suffix.lower(), dict[str, None]()
    try:
        with limit_file(name):
            data = Path(file).read_bytes()
            rows = _plain_prompts(name, data, ending) or read_table(name, data, needs=[_PROMPT], further=_FURTHER)
            rows = note_unused_columns(rows, _PROMPT, {*_PROMPT, *_FURTHER}.__contains__, unused)
            prompts = checked_prompts(name, rows)
            notes = [
                describe_unused_columns(unused),
                *(_describe_marked_lines(data, prompts) if ending == ".txt" else ()),
            ]
            return prompts, "; ".join(filter(None, notes))
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror or error}") from error


def _plain_prompts(name: str, data: bytes, ending: str) -> Iterable[Row]:
    """Read Parquet, a JSON list of texts or objects, or a text with a prompt on each line; [] for another table."""
    if ending == ".parquet":
        return _parquet_rows(name, data)
    text = decode_text(name, data) if ending in (".json", ".txt") else ""
    if ending == ".txt":
        lines = ((n, line.strip()) for n, line in enumerate(text.split("\n"), 1))
        rows = [(f"line {n}", {"prompt": line}) for n, line in lines if line and not line.startswith(_COMMENT)]
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
        (f"entry {n}", {_column(str(key)): _clean_cell(value) for key, value in item.items()})
        for n, item in enumerate(objects, start=1)
    ]


_COMMENT = ("# ", "//")
_LIST_MARK = re.compile(r"(?:\d{1,4}[.)]|[-*•])\s")


def _describe_marked_lines(data: bytes, prompts: Sequence[PackedPrompt]) -> Iterator[str]:
    """Name the comments of a text, which are no prompts, and the prompts that begin with the mark of a list."""
    comments = [line.strip() for line in decode_text("it", data).split("\n") if line.strip().startswith(_COMMENT)]
    marked = [f"{entry.place}: “{entry.prompt[:40]}”" for entry in prompts if _LIST_MARK.match(entry.prompt)]
    for sentence, lines in (("skipped as comments", comments), ("with the mark of a list", marked)):
        if lines:
            yield f"{len(lines):,} {sentence}, such as {lines[0][:80]}"


def _parquet_rows(name: str, data: bytes) -> Iterator[Row]:
    try:
        for number, row in enumerate(parquet_rows(data), start=1):
            yield f"row {number}", row
    except InvalidInput as error:
        raise InvalidInput(f"{name} {error}") from error


def checked_prompts(name: str, rows: Iterable[Row]) -> tuple[PackedPrompt, ...]:
    """Check the prompts of all rows, with their places; InvalidInput lists the bad ones together."""
    prompts, wrong, places = list[PackedPrompt](), list[str](), dict[str, str]()
    for place, row in rows:
        try:
            packed = replace(_prompt(row), place=place)
            if packed.prompt in places:
                raise InvalidInput(f"repeats the prompt of {places[packed.prompt]}")
            places[packed.prompt] = place
            prompts.append(packed)
        except InvalidInput as error:
            wrong.append(f"{place}: {error}")
    refuse(name, wrong)
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise InvalidInput(f"{name} has {len(prompts):,} prompts; a pack has 1 to {MOST_PROMPTS:,}")
    return tuple(prompts)


def _prompt(row: Mapping[str, Any]) -> PackedPrompt:
    prompt = _read_text(row, next((column for column in _PROMPT if column in row), _PROMPT[0]), MAX_PROMPT_CHARACTERS)
    if not prompt:
        raise InvalidInput("has no prompt")
    n = None if _is_empty(row.get("n")) else parse_whole_number(row["n"], "number n of pictures")
    if n is not None and not 1 <= n <= MOST_PICTURES:
        raise InvalidInput(f"n must be 1 to {MOST_PICTURES:,}; got {n:,}")
    return PackedPrompt(
        prompt=prompt, group=_read_text(row, "group", _LONGEST_GROUP), n=n, attributes=_read_attributes(row)
    )


def _read_attributes(row: Mapping[str, Any]) -> tuple[str, ...]:
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


def _read_text(row: Mapping[str, Any], name: str, longest: int) -> str:
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


def read_hub_name(name: str) -> tuple[str, str | None, str | None]:
    """Return repository, revision and file or folder of a data set's name; InvalidInput if it is written otherwise."""
    match = _HUB_NAME.fullmatch(name.removeprefix(HUB))
    if not match:
        raise InvalidInput(f"write a data set as {HUB}owner/name or {HUB}owner/name/file.csv; got {quoted(name)}")
    repo, revision, file = match.group("repo", "revision", "file")
    return repo, revision, file


@contextmanager
def hub_errors(name: str) -> Iterator[None]:
    """Turn errors of the Hub about a data set into InvalidInput (none such) and HubNotReached."""
    from huggingface_hub import errors

    try:
        yield
    except (errors.RepositoryNotFoundError, errors.EntryNotFoundError, errors.HFValidationError) as error:
        if isinstance(error, errors.LocalEntryNotFoundError):  # offline
            raise HubNotReached(f"{name} cannot be fetched: it is not on this machine, and the Hub is off") from error
        raise InvalidInput(f"there is no data set {name}, or it is not public: {_first_line(error)}") from error
    except (errors.HTTPError, OSError) as error:
        raise HubNotReached(f"{name} cannot be fetched: {_first_line(error)}") from error


def _from_hub(name: str) -> Path:
    """Download the file of a data set; without a name, the only one that can hold prompts."""
    from huggingface_hub import HfApi, constants, hf_hub_download

    repo, revision, file = read_hub_name(name)
    with hub_errors(name):
        if file is None:
            file = _only_file(name, HfApi().list_repo_files(repo, repo_type="dataset", revision=revision))
        if not file.lower().endswith(ENDINGS):
            raise InvalidInput(f"{name}: a pack is a file {', '.join(ENDINGS)}; got {quoted(file)}")
        if not constants.HF_HUB_OFFLINE:  # otherwise a file of any size would be downloaded
            infos = HfApi().get_paths_info(repo, [file], repo_type="dataset", revision=revision)
            if any(getattr(info, "size", 0) > MOST_BYTES for info in infos):
                limit_mb = MOST_BYTES // 1_000_000
                raise InvalidInput(f"{name} is larger than {limit_mb} MB, the limit for a pack of prompts")
        return Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _only_file(name: str, files: Sequence[str]) -> str:
    tables = [file for file in files if file.lower().endswith(ENDINGS)]
    train = [file for file in tables if "train" in PurePosixPath(file).stem]
    if 1 in (len(tables), len(train)):
        return (tables if len(tables) == 1 else train)[0]
    listed = format_list(tables, limit=_MOST_NAMED) or "none"
    raise InvalidInput(f"{name} has {len(tables)} files of a pack ({listed}): add the file's name")
