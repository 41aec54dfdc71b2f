"""Checks of values that people and programs give: types, by pydantic, and texts that can be written."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError

from bias_core.errors import InvalidInput, quoted

MAX_TEXT = 10_000  # characters of any text that is given
MAX_LIST = 1000  # entries of any list that is given
_MAX_DEPTH = 5
_EXACT = 2**53  # from here on a float is none of the whole numbers
_WHITE = "\t\n\r"
_MOST_PARTS = 300_000  # lists, objects and commas of a text of JSON; each may take a hundred bytes
# Characters that Unicode may have to sort behind one letter; it takes the square of their number.
_MANY_MARKS = re.compile("(?:[^\\w\\s!-~]|[\uff9e\uff9f]){31}")
_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
    tuple: "a list of texts",
    list[dict[str, Any]]: "a list of uploaded files (handle_file of gradio_client)",
    Mapping: "names with their values",
}
_ENDS = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most", "less_than": "below"}


def type_words(kind: Any) -> str:
    """Say which values a type has.

    >>> type_words(int | None), type_words(Literal["", "fair"])
    ('a whole number, or left out', 'one of fair')
    """
    if get_origin(kind) is Literal:
        return f"one of {', '.join(filter(None, map(str, get_args(kind))))}"
    if NoneType in get_args(kind):
        return " or ".join(type_words(part) for part in get_args(kind) if part is not NoneType) + ", or left out"
    return _WORDS.get(kind, _WORDS.get(get_origin(kind), "something else"))


def number_words(number: float) -> str:
    """Write the end of a range.

    >>> number_words(1_000_000), number_words(0.5)
    ('1,000,000', '0.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"


def refusal(name: str, value: object, words: str, error: ValidationError | None = None) -> str:
    """Write the sentence that refuses a value, from pydantic's first error; ``words`` say what would do.

    Raises InvalidInput: a text cannot be written, or is too long, which its own sentence says.
    """
    first: Mapping[str, Any] = error.errors(include_url=False)[0] if error else {}
    if first.get("type") == "string_unicode":
        check_texts(name, value)
    if first.get("type") in _ENDS:
        words = f"{_ENDS[first['type']]} {number_words(next(iter(first['ctx'].values())))}"
    return f"{name} must be {words}; got {quoted(value)}"


@cache
def adapter(kind: Any, *, strict: bool = False) -> TypeAdapter[Any]:
    """Return pydantic's reader of a type, of finite numbers if it is not ``strict``; then it converts nothing."""
    return TypeAdapter(kind, config=ConfigDict(strict=strict, allow_inf_nan=strict, arbitrary_types_allowed=True))


def check_value(name: str, value: object, kind: Any) -> None:
    """Refuse a value that is not of its type, or holds a text that cannot be written; InvalidInput quotes it.

    >>> check_value("seed", 3, int | None)
    >>> check_value("seed", "3", int | None)
    Traceback (most recent call last):
    bias_core.errors.InvalidInput: seed must be a whole number, or left out; got '3'
    """
    try:
        adapter(kind, strict=True).validate_python(value)
    except ValidationError as error:
        raise InvalidInput(refusal(name, value, type_words(kind), error)) from error
    check_texts(name, value)


def check_arguments(run: Callable[..., Any], given: Mapping[str, object]) -> None:
    """Refuse an argument that is not of the type that ``run`` declares; InvalidInput quotes it."""
    for name, parameter in signature(run, eval_str=True).parameters.items():
        if name in given and parameter.annotation is not parameter.empty:
            check_value(name, given[name], parameter.annotation)


def with_whole_numbers(run: Callable[..., Any], given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments, with 8.0 as 8 for a whole number that ``run`` declares: JSON has one kind of number."""
    declared = signature(run, eval_str=True).parameters

    def as_declared(name: str, value: object) -> object:
        exact = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        kinds = (declared[name].annotation, *get_args(declared[name].annotation)) if name in declared else ()
        return int(value) if exact and int in kinds else value  # type: ignore[call-overload]

    return {name: as_declared(name, value) for name, value in given.items()}


def check_texts(name: str, value: object, depth: int = 0, *, longest: int = MAX_TEXT) -> None:
    """Refuse texts, alone or in lists, that are too long, too many, or hold what cannot be written."""
    if isinstance(value, str):
        if len(value) > longest:
            raise InvalidInput(f"{name} has {len(value):,} characters; at most {longest:,} are allowed")
        if wrong := next((c for c in value if c not in _WHITE and unicodedata.category(c) in ("Cc", "Cs")), ""):
            raise InvalidInput(f"{name} holds the character U+{ord(wrong):04X}, which is no text; got {quoted(value)}")
    elif isinstance(value, (list, tuple, Mapping)):
        if len(value) > MAX_LIST:
            raise InvalidInput(f"{name} may have at most {MAX_LIST:,} entries, got {len(value):,}")
        if depth >= _MAX_DEPTH:
            raise InvalidInput(f"{name} has lists within lists, {_MAX_DEPTH} deep; give a plain list")
        parts = (*value, *value.values()) if isinstance(value, Mapping) else value
        for part in parts:
            check_texts(name, part, depth + 1, longest=longest)


def as_text(value: Any) -> str:
    """Return a form's value as text, "" for an empty field."""
    return "" if value is None else str(value).strip()


def as_number(value: Any, what: str) -> float:
    """Return a finite number; InvalidInput quotes other values."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # a whole number of 400 digits is no float
        raise InvalidInput(f"the {what} is a number, got {value!r:.80}") from error
    if not math.isfinite(number):
        raise InvalidInput(f"the {what} is a number, got {value!r}")
    return number


def as_whole(value: Any, what: str) -> int:
    """Return a whole number; InvalidInput quotes other values."""
    number = as_number(value, what)
    if number != int(number):
        raise InvalidInput(f"the {what} is a whole number, got {value!r}")
    return int(number)


def read_json(text: str | bytes, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Read JSON that another program wrote; ValueError if it is none, too large, or too deep.

    ``pairs`` makes the objects of their names and values.

    >>> read_json('{"seed": 3}')
    {'seed': 3}
    """
    written = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if sum(map(written.count, (b"{", b"[", b","))) > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS:,} values")
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("it has lists within lists, deeper than they are read") from error


def normal_form(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return the text in one of Unicode's normal forms, or as it is if dozens of marks follow one letter.

    >>> normal_form("NFKC", "\uff30erson")
    'Person'
    """
    return text if text.isascii() or _MANY_MARKS.search(text) else unicodedata.normalize(form, text)
