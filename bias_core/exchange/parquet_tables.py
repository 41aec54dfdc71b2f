"""Tables in Parquet that other people made, read a thousand rows at a time.

A few bytes of Parquet may stand for gigabytes: a page says how far it unpacks, and a text that stands there once may be
meant a million times. So the heads of all pages are looked at before anything is unpacked, and each text is made once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from bias_core.errors import InvalidInput
from bias_core.exchange.tables import MOST_CELLS, MOST_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_MOST_COLUMNS, _MOST_GROUPS, _MOST_PAGES = 1000, 1000, 20_000
_MOST_PAGE, _MOST_UNPACKED = 8_000_000, 250_000_000  # bytes of one page, and of all
_FOOTER: Mapping[str, Any] = {"thrift_string_size_limit": 200_000, "thrift_container_size_limit": 200_000}
_LONGEST_TEXT = 65_536  # characters of a cell
_BATCH = 1000  # rows
# Of the format's encodings plain, two of dictionaries, run lengths, differences of numbers, and split numbers. Not
# texts that go on from the one before: these unpack to the product of length and number.
_ENCODINGS = frozenset({0, 2, 3, 5, 8, 9})
_DAMAGED = "cannot be read: the head of a page is damaged"


def parquet_rows(data: bytes) -> Iterator[dict[str, Any]]:
    """The rows of a table, with its columns of texts, lists of texts, numbers, and true or false.

    Raises InvalidInput: it cannot be read, or is too large; this may come after some rows.
    """
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        file = parquet.ParquetFile(BufferReader(data), **_FOOTER)
        columns = [one.name for one in file.schema_arrow if _is_read(one.type)]
        chunks = [one for one in _chunks(file.metadata) if _has_part_of(columns, one)]
        _check_pages(data, chunks)
        texts = {one.path_in_schema for one in chunks if one.physical_type == "BYTE_ARRAY"}
        file = parquet.ParquetFile(BufferReader(data), read_dictionary=sorted(texts), **_FOOTER)
        for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
            for row in zip(*map(_cells, batch.columns), strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("cannot be read as a table in Parquet") from error


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
    """The parts of all columns; InvalidInput where there are too many of them, or of rows."""
    if metadata.num_row_groups > _MOST_GROUPS or metadata.num_columns > _MOST_COLUMNS:
        raise InvalidInput(f"has more than {_MOST_COLUMNS:,} columns, or {_MOST_GROUPS:,} groups of rows")
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    if max(metadata.num_rows, sum(group.num_rows for group in groups)) > MOST_ROWS:
        raise InvalidInput(f"has more than {MOST_ROWS:,} rows")
    for group in groups:
        yield from map(group.column, range(metadata.num_columns))


def _check_pages(data: bytes, chunks: Sequence["parquet.ColumnChunkMetaData"]) -> None:
    """Refuse what unpacks to too much, by what stands before each page; what the footer says may be forged."""
    n_pages, n_bytes, n_cells = 0, 0, 0
    for page in (page for one in chunks for page in _pages(data, one)):
        n_pages, n_bytes, n_cells = n_pages + 1, n_bytes + page.n_bytes, n_cells + page.n_cells
        if not 0 <= page.n_bytes <= _MOST_PAGE or n_bytes > _MOST_UNPACKED or n_pages > _MOST_PAGES:
            raise InvalidInput(f"would unpack to more than {_MOST_UNPACKED // 1_000_000} MB, or has too large pages")
        if page.n_cells < 0 or n_cells > MOST_CELLS:
            raise InvalidInput(f"has more than {MOST_CELLS:,} cells")
        if page.encoding not in _ENCODINGS:
            raise InvalidInput("packs its texts in a way that is not read; write it anew with dictionaries")


class _Page(NamedTuple):
    """What the head of a page says."""

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
        if not isinstance(packed, int) or packed < 0 or not all(isinstance(one, int) for one in page):
            raise InvalidInput(_DAMAGED)
        head.at += packed
        yield _Page(*page)  # type: ignore[arg-type]


_Fields = dict[int, "int | _Fields"]
_DEEPEST = 4  # structs within one another, of the heads of pages


class _Head:
    """Reads what stands before a page, in the compact form of Apache Thrift, from the place ``at``."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def fields(self, depth: int = 0) -> _Fields:
        """Whole numbers and structs by the numbers of their fields; others are passed over."""
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


def _cells(column: "pa.Array") -> list[Any]:
    """The values of a column; of a text that stands in many rows there is one."""
    from pyarrow import types

    if types.is_list(column.type):
        texts = iter(_cells(column.flatten()))
        return [None if n is None else list(islice(texts, n)) for n in column.value_lengths().to_pylist()]
    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    places = column.indices.to_pylist()
    different = sorted({place for place in places if place is not None})
    values = dict(zip(different, column.dictionary.take(different).to_pylist(), strict=True)) if different else {}
    if any(isinstance(value, str) and len(value) > _LONGEST_TEXT for value in values.values()):
        raise InvalidInput(f"has a text of more than {_LONGEST_TEXT:,} characters")
    return [values.get(place) for place in places]
