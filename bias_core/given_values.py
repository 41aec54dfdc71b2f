"""What people and programs give, checked at the door: is each value of its type, and each text one?"""

from __future__ import annotations

import inspect
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from bias_core.errors import InvalidInput, quoted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_TEXT = 10_000  # characters of any text that is given
MAX_LIST = 1000  # entries of any list that is given
_MAX_DEPTH = 5
_LARGEST = 1e300
_EXACT = 2**53  # from here on a float is none of the whole numbers
_WHITE = "\t\n\r"
_MOST_PARTS = 300_000  # lists, objects and commas of a text of JSON; each may take a hundred bytes
# Characters that Unicode may have to sort behind one letter; it takes the square of their number.
_MANY_MARKS = re.compile("(?:[^\\w\\s!-~]|[\uff9e\uff9f]){31}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    # Not math.isfinite, which raises on a whole number that no float can be.
    return isinstance(value, float) or (_is_whole(value) and abs(value) < _LARGEST)  # type: ignore[arg-type]


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "a text"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "list[str]": (_is_list_of_texts, "a list of texts"),
    "list[dict[str, Any]]": (lambda value: isinstance(value, list), "a list of uploaded files"),
    "Mapping[str, Any]": (lambda value: isinstance(value, Mapping), "names with their values"),
}


def check_settings(settings: DataclassInstance) -> None:
    """Refuse settings with a value that is not of its type, or a text that is none.

    ``settings`` is a dataclass; fields of dataclasses, and tuples of them, are looked into. InvalidInput names the
    field and quotes what came.
    """
    for field in fields(settings):
        value = getattr(settings, field.name)
        check_value(field.name, value, _declared(field.type))
        for inner in value if isinstance(value, tuple) else (value,):
            if is_dataclass(inner) and not isinstance(inner, type):
                check_settings(inner)


def check_arguments(run: Callable[..., Any], given: Mapping[str, object]) -> None:
    """Refuse an argument that is not of the type that ``run`` declares; InvalidInput quotes it."""
    for name, parameter in inspect.signature(run).parameters.items():
        if name in given:
            check_value(name, given[name], _declared(parameter.annotation))


def with_whole_numbers(run: Callable[..., Any], given: Mapping[str, object]) -> dict[str, object]:
    """The arguments, with 8.0 as 8 where ``run`` declares a whole number: JSON has one kind of number."""
    parameters = inspect.signature(run).parameters
    declared = {name: _declared(parameters[name].annotation).split(" | ") for name in given if name in parameters}

    def is_whole(name: str, value: object) -> bool:
        exact = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        return exact and "int" in declared.get(name, ())

    return {name: int(value) if is_whole(name, value) else value for name, value in given.items()}  # type: ignore[call-overload]


def _declared(annotation: object) -> str:
    """A type in words, be it written as text (with annotations from the future) or as itself."""
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return written.replace("typing.", "").replace("collections.abc.", "")


def check_value(name: str, value: object, declared: str) -> None:
    """Refuse a value that is not of its declared type, or holds a text that is none.

    Parameters
    ----------
    name : of the value.
    declared : as in an annotation, such as ``int | None``; types that are not known here are let through.

    Raises InvalidInput: the message names the value, quotes it, and says what would do.

    >>> check_value("seed", 3, "int | None")
    >>> check_value("seed", "3", "int | None")
    Traceback (most recent call last):
    bias_core.errors.InvalidInput: seed must be a whole number, or left out; got '3'
    """
    kinds = declared.split(" | ")
    if value is None and "None" in kinds:
        return
    kinds_here = [_KINDS[kind] for kind in kinds if kind in _KINDS]
    if kinds_here and not any(fits(value) for fits, _ in kinds_here):
        expected = " or ".join(words for _, words in kinds_here)
        left_out = ", or left out" if "None" in kinds else ""
        raise InvalidInput(f"{name} must be {expected}{left_out}; got {quoted(value)}")
    check_texts(name, value)


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


def check_each(values: Mapping[str, object]) -> None:
    """Refuse values as :func:`check_texts` does; each is called by its key."""
    for name, value in values.items():
        check_texts(name, value)


def as_text(value: Any) -> str:
    """A form's value as text; nothing is ""."""
    return "" if value is None else str(value).strip()


def as_number(value: Any, what: str) -> float:
    """A finite number; InvalidInput quotes what is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # a whole number of 400 digits is no float
        raise InvalidInput(f"the {what} is a number, got {value!r:.80}") from error
    if not math.isfinite(number):
        raise InvalidInput(f"the {what} is a number, got {value!r}")
    return number


def as_whole(value: Any, what: str) -> int:
    """A whole number; InvalidInput quotes what is none."""
    number = as_number(value, what)
    if number != int(number):
        raise InvalidInput(f"the {what} is a whole number, got {value!r}")
    return int(number)


def read_json(text: str | bytes, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value of a text of JSON that somebody else wrote; ValueError where it is none, too large, or too deep.

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
    """The text in one of Unicode's normal forms; as it is where dozens of marks follow one letter.

    >>> normal_form("NFKC", "\uff30erson")
    'Person'
    """
    return text if text.isascii() or _MANY_MARKS.search(text) else unicodedata.normalize(form, text)
