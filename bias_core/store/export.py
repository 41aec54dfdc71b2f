"""Export a run as files for other programs: pictures, tables, a dataset card and Croissant.

Texts of users stay literal in Markdown: they become no image, link, tag, heading or emphasis in CommonMark,
on GitHub or on the Hugging Face hub. A word that one of them would take for an address is shown as code, because no
other form keeps all of them from making it a link.
"""

import hashlib
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment

from bias_core.errors import StorageError
from bias_core.installed import ASSETS
from bias_core.store.files import replaced_file, write_atomically
from bias_core.store.images import with_source
from bias_core.types import ImageRow

METADATA = "train/metadata.jsonl"
# Words that `datasets` takes for the name of a split anywhere in a path.
_SPLIT = re.compile(
    r"(?<![a-z])(train|training|valid|validation|val|dev|test|testing|eval|evaluation)(?![a-z])", re.IGNORECASE
)
_TYPES = {bool: "sc:Boolean", int: "sc:Integer", float: "sc:Float"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a cell that begins with one of these

Entry = tuple[str, "bytes | ExportedImage"]


@cache
def _load_texts() -> dict[str, Any]:
    """Texts of the card, descriptions of the common columns, and fixed parts of Croissant."""
    return dict(yaml.safe_load(Path(__file__).with_name("export.yaml").read_text(encoding="utf-8")))


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """Facts for the card and the Croissant file."""

    # key, title, summary: name for programs, name for people, question of the run
    key: str
    title: str
    summary: str
    model: str  # generator with its condition and revision in words; "" for imported pictures
    annotation: str  # classification of the pictures, with the program
    limits: str  # limits of the numbers
    command: str  # command that gives the same numbers
    # n_pictures, n_prompts: in this export
    n_pictures: int
    n_prompts: int
    reference: str = ""  # key of the study's paper, "" for none
    licence: str = ""  # SPDX id of the pictures' licence; "" if unknown
    licence_note: str = ""  # note on the licence
    readers: Sequence[str] = ()  # names of the classifiers
    notes: Sequence[str] = ()  # notes of the run
    versions: Mapping[str, str] = field(default_factory=dict)  # versions of programs and weights
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d", time.gmtime()))

    @property
    def collection(self) -> str:
        texts = _load_texts()["texts"]
        return f"{texts['collected']} The model is {self.model}." if self.model else str(texts["imported"])


def without_splits(name: str) -> str:
    """Change a part of a file's name so that `datasets` finds no split in it: add "s" to each word that names one.

    >>> without_splits("1-test"), without_splits("2-latest-tests")
    ('1-tests', '2-latest-tests')
    """
    return _SPLIT.sub(r"\1s", name)


def text_from(name: str, *, autoescape: bool = False, **values: Any) -> str:
    """Render a template of ``assets/texts``; its filters keep users' markup out of a card."""
    environment = Environment(autoescape=autoescape, trim_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"line": escape_markdown, "paragraphs": paragraphs, "code": format_code, "fenced": fenced}
    return environment.from_string((ASSETS / "texts" / name).read_text(encoding="utf-8")).render(values)


def json_lines(rows: Iterable[Mapping[Any, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def card_head(facts: DatasetFacts, **further: Any) -> str:
    """Return the YAML head of a card for dataset hubs, with ``further`` entries at its end."""
    unknown = {"license": "other", "license_name": "see-card"}
    head = {
        "pretty_name": " ".join(facts.title.split()),
        **({"license": facts.licence.lower()} if facts.licence else unknown),
        "language": ["en"],
        "tags": ["text-to-image", "bias", "evaluation", "synthetic", "t2i-bias-explorer"],
        **further,
    }
    return str(yaml.safe_dump(head, sort_keys=False, allow_unicode=True))


def dataset_card(facts: DatasetFacts, columns: Mapping[str, str]) -> str:
    """Markdown with a YAML head for dataset hubs; ``columns`` of the metadata with their meaning."""
    n = facts.n_pictures
    size = "n<1K" if n < 1000 else "1K<n<10K" if n < 10_000 else "10K<n<100K"
    configs = [{"config_name": "default", "drop_labels": True, "data_dir": "train"}] if n else []
    return text_from(
        "dataset_card.md",
        head=card_head(facts, size_categories=[size], configs=configs),
        facts=facts,
        columns=columns,
        versions=", ".join(f"{name} {version}" for name, version in facts.versions.items() if version),
        texts=_load_texts()["texts"],
    )


def column_kinds(lines: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Croissant's type of each column, from its values; text in doubt."""
    kinds: dict[str, set[str]] = {}
    for line in lines:
        for name, value in line.items():
            kinds.setdefault(name, set()).update(() if value is None else [_TYPES.get(type(value), "sc:Text")])
    return {
        name: "sc:Float" if types == {"sc:Integer", "sc:Float"} else next(iter(types)) if len(types) == 1 else "sc:Text"
        for name, types in kinds.items()
    }


def described(names: Iterable[str]) -> dict[str, str]:
    return {
        name: _load_texts()["columns"].get(name, "known or measured by the study for the picture") for name in names
    }


def croissant(facts: DatasetFacts, metadata: bytes, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The Croissant description; ``metadata``: content of ``train/metadata.jsonl``, ``kinds``: its column types."""
    book = _load_texts()
    metadata_file = book["metadata"] | {
        "contentSize": f"{len(metadata)} B",
        "sha256": hashlib.sha256(metadata).hexdigest(),
    }
    lines, images = book["record_sets"]
    file_name = _field("images", "file_name", "sc:Text", "pictures", "filename", "name of the file") | {
        "references": {"field": {"@id": "lines/file_name"}}
    }
    picture = _field("images", "image", "sc:ImageObject", "pictures", "content", "the picture")
    values = {
        "@context": book["context"] | {term: f"cr:{term}" for term in book["own_terms"]},
        **book["dataset"],
        "name": facts.key,
        "alternateName": facts.title,
        "description": f"{facts.title}. {facts.summary}",
        "license": f"https://spdx.org/licenses/{facts.licence}.html" if facts.licence else facts.licence_note,
        "datePublished": facts.date,
        "citeAs": facts.reference,
        "distribution": [metadata_file, book["pictures"]] if facts.n_pictures else [],
        "recordSet": [
            lines | {"field": [_field("lines", name, kind, "metadata", "column") for name, kind in kinds.items()]},
            images | {"field": [file_name, picture]},
        ]
        if facts.n_pictures
        else [],
        **_responsible(facts),
    }
    return {key: value for key, value in values.items() if value not in ("", [])}


def _field(records: str, name: str, kind: str, source: str, part: str, text: str = "") -> dict[str, Any]:
    """A field from a ``part`` of a file's lines (a column), or of a set of files (names or contents)."""
    place, extract = ("fileObject", {part: name}) if part == "column" else ("fileSet", {"fileProperty": part})
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{name.replace(' ', '_')}",  # which may hold no spaces
        "name": name,
        "description": text or described([name])[name],
        "dataType": kind,
        "source": {place: {"@id": source}, "extract": extract},
    }


def _responsible(facts: DatasetFacts) -> dict[str, Any]:
    book, texts = _load_texts(), _load_texts()["texts"]
    missing = [note for note in facts.notes if re.search("missing|blank|could not", note)]
    return {
        "rai:dataCollection": facts.collection,
        "rai:dataCollectionType": ["Machine-generated" if facts.model else "Others"],
        "rai:dataCollectionMissingData": " ".join(missing) or "None was noticed.",
        "rai:dataAnnotationProtocol": facts.annotation,
        "rai:machineAnnotationTools": list(facts.readers),
        "rai:annotationsPerItem": "1 per attribute and classifier" if facts.readers else "",
        "rai:dataBiases": [texts["biases"]],
        "rai:dataLimitations": [facts.limits, *facts.notes],
        "rai:dataUseCases": [texts["uses"]],
        "rai:personalSensitiveInformation": [texts["sensitive"]],
        **book["responsible"],
    }


@dataclass(frozen=True, kw_only=True)
class ExportedImage:
    """A picture to export: its file, its row, and further metadata."""

    path: Path
    row: ImageRow
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""  # digital source type, written into the file if it has none

    def data(self) -> bytes:
        """The file with its digital source type. Raises StorageError: the picture is no longer in the store."""
        if not self.path.is_file():
            raise StorageError(f"picture {self.path.stem} is no longer in the store; run again to draw it")
        return with_source(self.path.read_bytes(), self.source)


@dataclass(frozen=True, kw_only=True)
class Export:
    # originals, into `train/` with `train/metadata.jsonl` (Hugging Face imagefolder); without pictures there is no
    # such folder
    images: Sequence[ExportedImage]
    tables: Mapping[str, pd.DataFrame]  # data frames by name, each as `<name>.parquet` and `<name>.csv`
    report: Mapping[str, Any]  # as `report.json`
    markdown: str  # as `report.md`
    # other files by name, such as figures; slow ones are made when they are written
    files: Mapping[str, bytes | Callable[[], bytes]] = field(default_factory=dict)
    # for the dataset card `README.md` and `croissant.json`; None: neither is written
    facts: DatasetFacts | None = None


def write_zip(export: Export, target: Path) -> Path:
    """Write one zip, named only when complete; StorageError if the disk is full, or a picture is gone."""
    # PNG is compressed already; the rest is small.
    with replaced_file(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in _entries(export):
            if isinstance(content, ExportedImage):
                archive.writestr(name, content.data())
            else:
                archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return target


def write_folder(export: Export, target: Path) -> Path:
    """Write the same files into a folder, each whole or not at all."""
    for name, content in _entries(export):
        write_atomically(target / name, content.data() if isinstance(content, ExportedImage) else content)
    return target


def csv_bytes(table: pd.DataFrame) -> bytes:
    """CSV (UTF-8) in which a spreadsheet finds no formulas."""
    return str(table.rename(columns=_not_a_formula).map(_not_a_formula).to_csv(index=False)).encode()


def _entries(export: Export) -> Iterator[Entry]:
    numbered = enumerate(export.images, start=1)
    images = {f"{i:05d}-{without_splits(image.row.group)}-{image.row.id}.png": image for i, image in numbered}
    lines = [{"file_name": name, **asdict(picture.row), **picture.metadata} for name, picture in images.items()]
    metadata = json_lines(lines).encode()
    if lines:
        yield METADATA, metadata
    if export.facts is not None:
        kinds = column_kinds(lines)
        yield "README.md", dataset_card(export.facts, described(kinds)).encode()
        description = croissant(export.facts, metadata, kinds)
        yield "croissant.json", json.dumps(description, ensure_ascii=False, indent=2).encode()
    for name, image in images.items():
        yield f"train/{name}", image
    for name, table in export.tables.items():
        yield f"{name}.parquet", table.to_parquet(index=False)
        yield f"{name}.csv", csv_bytes(table)
    yield "report.json", json.dumps(export.report, ensure_ascii=False, indent=2, allow_nan=False).encode()
    yield "report.md", export.markdown.encode()
    for name, content in export.files.items():
        yield name, content if isinstance(content, bytes) else content()


def _not_a_formula(cell: object) -> object:
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


# Numbers in brackets, as intervals are written, unless something follows that would make a link of them.
_INTERVAL = re.compile(r"(\[[−–+\-\d.,\s∞%]{1,80}\](?![\[(:]))")
_WORD = re.compile(r"([\s`|<>\\]+)")  # between words; these are never in code
_ADDRESS = re.compile(r"//|www\.|@|mailto:|xmpp:|[^\W_]\.[^\W\d_]{2}", re.IGNORECASE)
_AROUND = re.compile(r"([(“‘\"']*)(.+?)([.,;:!?)”’\"']*)", re.DOTALL)  # an address with its punctuation
_SPECIAL = {
    **{character: f"\\{character}" for character in "*~$[]|"},
    "`": "&#96;",  # a backslash does not escape backticks of code
    "\\": "&#92;",  # a backslash before it, as in "\(", would begin a formula on the hub
    "<": "&lt;",
}
_TABLE = str.maketrans(_SPECIAL)
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # inside a word it is not emphasis
_ENTITY = re.compile(r"&(?=#?\w+;)")
_HASH = re.compile(r"(?<!\S)#")
_LEADING = re.compile(r"(?:[-+](?=\s|$)|[-=+]+$|>|:)")  # of a line: a list, a rule, a quotation
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def escape_markdown(text: object) -> str:
    r"""Escape text to one line of Markdown: for a paragraph, heading, list item, table cell or link text.

    >>> escape_markdown("91 % [82, 96]"), escape_markdown("![x](http://evil.example)")
    ('91 % [82, 96]', '`![x](http://evil.example)`')
    >>> escape_markdown("<b>a|b</b>\n# *c*"), escape_markdown("1. d_e _f_")
    ('&lt;b>a\\|b&lt;/b> \\# \\*c\\*', '1\\. d_e \\_f\\_')
    >>> escape_markdown("people (three.csv), otherwise www.name.org.")
    'people (`three.csv`), otherwise `www.name.org`.'
    """
    line = " ".join(str(text).replace("\0", " ").split())
    parts = _INTERVAL.split(line)  # every second one is an interval
    written = "".join(part if i % 2 else "".join(map(_word, _WORD.split(part))) for i, part in enumerate(parts))
    if _LEADING.match(written):
        written = f"\\{written}"
    return _NUMBERED.sub(r"\1\\\2", written, count=1) if _NUMBERED.match(written) else written


def _word(word: str) -> str:
    if _ADDRESS.search(word) and (parts := _AROUND.fullmatch(word)):
        before, address, after = parts.groups()
        while after.startswith(")") and address.count("(") > address.count(")"):
            address, after = f"{address})", after[1:]
        return f"{before}`{address}`{after}"
    return _HASH.sub(r"\\#", _UNDERSCORE.sub(r"\\_", _ENTITY.sub("&amp;", word).translate(_TABLE)))


def paragraphs(text: str) -> str:
    """Escape each paragraph by :func:`escape_markdown`."""
    return "\n\n".join(filter(None, map(escape_markdown, re.split(r"\n\s*\n", text))))


def format_code(text: object) -> str:
    """Text on one line as code; as plain text if it has a bar, which would end a table cell."""
    line = " ".join(str(text).split())
    if "|" in line:
        return escape_markdown(line)
    fence = _fence(line, 1)
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def fenced(text: str, language: str = "") -> str:
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _fence(text: str, shortest: int) -> str:
    """A run of backticks that does not occur in a text."""
    return "`" * max(shortest, 1 + max(map(len, re.findall("`+", text)), default=0))
