"""``refs.bib`` as a person reads it: authors, year, title, where it appeared, and a link."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from bias_core.errors import StorageError
from bias_core.settings import ASSETS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BIBLIOGRAPHY = ASSETS.parent / "refs.bib"
_ENTRY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),\n(?P<body>.*?)^\}", re.S | re.M)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?\s*$", re.M)
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_LETTERS = {r"{\`a}": "à", r"{\H o}": "ő"}
_VENUES = ("booktitle", "journal", "howpublished", "publisher")
_AUTHORS_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One work.

    Attributes
    ----------
    key : in ``refs.bib``.
    short : names and year, as in a text.
    authors, year, title, venue : as printed; ``venue`` "" where it is not known.
    url : "" where no address is known.
    """

    key: str
    short: str
    authors: str
    year: str
    title: str
    venue: str
    url: str


@cache
def load_references(path: Path = BIBLIOGRAPHY) -> Mapping[str, Reference]:
    """Every work of the bibliography by its key.

    Raises
    ------
    StorageError
        The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot read the bibliography {path}: {error}") from error
    return {found["key"]: _reference(found["key"], found["body"]) for found in _ENTRY.finditer(text)}


def _reference(key: str, body: str) -> Reference:
    fields = {name: _plain(value) for name, value in _FIELD.findall(body)}
    people = fields["author"].split(" and ")
    shown = [_initials_last(person) for person in people[:_AUTHORS_SHOWN]]
    number = fields.get("eprint") or "".join(_ARXIV.findall(fields.get("journal", ""))[:1])
    venue = next((fields[name] for name in _VENUES if name in fields), "")
    volume, issue, pages = (fields.get(k, "") for k in ("volume", "number", "pages"))
    where = f"{venue} {volume}" if volume else venue
    return Reference(
        key=key,
        short=_short(people, fields["year"]),
        authors=", ".join(shown) + (" et al." if len(people) > _AUTHORS_SHOWN else ""),
        year=fields["year"],
        title=fields["title"],
        venue=where + (f"({issue})" if issue else "") + (f", {pages}" if pages else ""),
        url=f"https://arxiv.org/abs/{number}" if number else "",
    )


def _plain(value: str) -> str:
    for letter, text in _LETTERS.items():
        value = value.replace(letter, text)
    return value.replace("{", "").replace("}", "").replace("--", "–")


def _initials_last(person: str) -> str:
    """Chang, Kai-Wei -> K.-W. Chang."""
    last, _, first = person.partition(", ")
    initials = ["-".join(f"{part[0]}." for part in name.split("-")) for name in first.split()]
    return " ".join([*initials, last])


def _short(people: list[str], year: str) -> str:
    names = [person.partition(", ")[0] for person in people]
    return f"{names[0]} et al. {year}" if len(names) > 2 else f"{' and '.join(names)} {year}"
