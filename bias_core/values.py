"""Values from people and programs: settings, declared once, and checks of types and texts.

A setting's type, range, default, label and sentence stand at its field only. Command line, API, forms,
addresses and files of settings offer what is made from these declarations (:func:`declared_settings`).
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, wraps
from inspect import signature
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from bias_core.errors import InvalidInput, quoted

__all__ = ["settings_class"]  # type checkers take this for an import of another module

MAX_TEXT = 10_000  # characters of any text that is given
MAX_LIST = 1000  # entries of any list that is given
_MAX_DEPTH = 5
_EXACT = 2**53  # above this, floats do not represent every whole number
_WHITE = "\t\n\r"
_MOST_PARTS = 300_000  # lists, objects and commas of a JSON text; each may take a hundred bytes
# Combining marks after one letter; the time to sort them grows with the square of their number.
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
    """Describe the values of a type.

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
    """Make the error for a value from pydantic's first error; ``words`` describe valid values.

    Raises InvalidInput itself for a text that is too long or holds an invalid character.
    """
    first: Mapping[str, Any] = error.errors(include_url=False)[0] if error else {}
    if first.get("type") == "string_unicode":
        check_texts(name, value)
    if first.get("type") in _ENDS:
        words = f"{_ENDS[first['type']]} {number_words(next(iter(first['ctx'].values())))}"
    return f"{name} must be {words}; got {quoted(value)}"


@cache
def adapter(kind: Any, *, strict: bool = False) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type: ``strict`` converts nothing, otherwise numbers must be finite."""
    return TypeAdapter(kind, config=ConfigDict(strict=strict, allow_inf_nan=strict, arbitrary_types_allowed=True))


def check_value(name: str, value: object, kind: Any) -> None:
    """Raise InvalidInput for a value of a wrong type, or with an invalid character.

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


def check_fields(instance: object) -> None:
    """Raise InvalidInput for a dataclass field of a wrong type."""
    for name, kind in get_type_hints(type(instance)).items():
        check_value(name, getattr(instance, name), kind)


def check_arguments(run: Callable[..., Any], arguments: Mapping[str, object]) -> None:
    """Raise InvalidInput for an argument whose type differs from the one ``run`` declares."""
    for name, parameter in signature(run, eval_str=True).parameters.items():
        if name in arguments and parameter.annotation is not parameter.empty:
            check_value(name, arguments[name], parameter.annotation)


def with_whole_numbers(run: Callable[..., Any], arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments, with 8.0 as 8 where ``run`` declares a whole number: JSON has one kind of number."""
    declared = signature(run, eval_str=True).parameters

    def convert_value(name: str, value: object) -> object:
        exact = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        kinds = (declared[name].annotation, *get_args(declared[name].annotation)) if name in declared else ()
        return int(value) if exact and int in kinds else value  # type: ignore[call-overload]

    return {name: convert_value(name, value) for name, value in arguments.items()}


def check_texts(name: str, value: object, depth: int = 0, *, longest: int = MAX_TEXT) -> None:
    """Raise InvalidInput for texts, alone or in lists, that are too long, too many, or hold invalid characters."""
    if isinstance(value, str):
        if len(value) > longest:
            raise InvalidInput(f"{name} has {len(value):,} characters; at most {longest:,} are allowed")
        if wrong := next((c for c in value if c not in _WHITE and unicodedata.category(c) in ("Cc", "Cs")), ""):
            raise InvalidInput(f"{name} holds U+{ord(wrong):04X}, which is not a valid character; got {quoted(value)}")
    elif isinstance(value, (list, tuple, Mapping)):
        if len(value) > MAX_LIST:
            raise InvalidInput(f"{name} may have at most {MAX_LIST:,} entries, got {len(value):,}")
        if depth >= _MAX_DEPTH:
            raise InvalidInput(f"{name} has lists within lists, {_MAX_DEPTH} deep; give a plain list")
        parts = (*value, *value.values()) if isinstance(value, Mapping) else value
        for part in parts:
            check_texts(name, part, depth + 1, longest=longest)


def text_from_value(value: Any) -> str:
    """Return a form's value as text, "" for an empty field."""
    return "" if value is None else str(value).strip()


def parse_number(value: Any, label: str) -> float:
    """Return a finite number; InvalidInput quotes other values."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # a whole number of 400 digits is no float
        raise InvalidInput(f"the {label} must be a number, got {value!r:.80}") from error
    if not math.isfinite(number):
        raise InvalidInput(f"the {label} must be a number, got {value!r}")
    return number


def parse_whole_number(value: Any, label: str) -> int:
    """Return a whole number; InvalidInput quotes other values."""
    number = parse_number(value, label)
    if number != int(number):
        raise InvalidInput(f"the {label} must be a whole number, got {value!r}")
    return int(number)


def read_json(text: str | bytes, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Read JSON of another program; ValueError if it is invalid, too large or too deep.

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
        raise ValueError("it has lists nested too deep") from error
    except ValueError as error:
        if "digits" in str(error):  # Python's sentence is for programmers
            raise ValueError("it has a number of more than 4,300 digits") from error
        raise


def normal_form(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return the text in a Unicode normal form, or unchanged if dozens of marks follow one letter.

    >>> normal_form("NFKC", "\uff30erson")
    'Person'
    """
    return text if text.isascii() or _MANY_MARKS.search(text) else unicodedata.normalize(form, text)


_INFO = "setting"
_COMMA = r"\,"  # one that belongs to a text of a list
_DEFAULT = " (default: "  # separates a sentence from the meaning of an omitted value
_ENDLESS = 1e9  # a range end too obvious to show
_KINDS = (int, float, bool, str, tuple)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Declaration of one setting."""

    name: str = ""
    annotation: Any = None  # as declared
    default: Any = None
    label: str  # two or three words for forms; one sentence
    sentence: str
    ge: float | None = None  # its range; None for an open end
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    option: str = ""  # on the command line; "" for the usual one
    link: str = ""  # in addresses; "" for the last word of ``option``
    percent: bool = False  # forms and addresses show the value times 100
    pattern: str = ""  # pattern of the whole text; ``example`` matches it
    example: str = ""
    local: bool = False  # names a local file, so that no program or address may set it

    @property
    def kind(self) -> type:
        """Type of its values, None aside: ``int, float, bool, str, tuple`` (of texts), or ``object`` for any other."""
        plain = [kind for kind in get_args(self.annotation) or (self.annotation,) if kind is not NoneType]
        first = self.annotation if get_origin(self.annotation) in (tuple, Literal) else plain[0]
        origin = get_origin(first) or first
        value_type = type(get_args(first)[0]) if origin is Literal else origin
        return value_type if value_type in _KINDS else object

    @property
    def choices(self) -> tuple[Any, ...]:
        """The valid values; () if every value of its type is valid."""
        kinds = (self.annotation, *get_args(self.annotation))
        return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())

    @property
    def may_be_left_out(self) -> bool:
        """True if None is valid, for the default of a model or a design."""
        return NoneType in get_args(self.annotation)

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return self.option or "--" + self.name.replace("_", "-")

    @property
    def key(self) -> str:
        """Its name in addresses and forms."""
        return self.link or self.option.lstrip("-").replace("-", "_") or self.name

    def description(self) -> dict[str, Any]:
        """Return the declaration as plain values for programs."""
        return {
            "name": self.name,
            "type": "list" if self.kind is tuple else self.kind.__name__,
            "default": self.default,
            "range": [self.ge if self.gt is None else self.gt, self.le if self.lt is None else self.lt],
            "choices": list(self.choices),
            "label": self.label,
            "sentence": self.sentence,
        }

    @property
    def range_words(self) -> str:
        """Its range in words, in the units of forms and addresses; "" without a range.

        >>> Setting(label="Seed", sentence="", ge=0, le=9999).range_words
        '0 to 9,999'
        """
        ge, gt, le, lt = (
            "" if end is None or end >= _ENDLESS else number_words(100 * end if self.percent else end)
            for end in (self.ge, self.gt, self.le, self.lt)
        )
        low, high = ge or (gt and f"above {gt}"), le or (lt and f"below {lt}")
        if low and high:
            return f"{low} to {high}"
        return f"at least {low}" if low else f"at most {high}" if high else ""

    def read(self, value: object) -> Any:
        """Read a value of a form, address or command, without checking its range; InvalidInput if unreadable."""
        if self.may_be_left_out and is_nothing(value):
            return None
        if self.kind is str:
            return "" if value is None else str(value).strip()
        if self.kind is object:
            return value
        if self.annotation == tuple[str, ...]:
            parts = re.split(r"(?<!\\),", value) if isinstance(value, str) and value else value or ()
            if isinstance(parts, (list, tuple)):
                return tuple(str(part).replace(_COMMA, ",").strip() for part in parts)
        elif not isinstance(value, bool) or self.kind is bool:  # pydantic takes True for 1
            with suppress(ValidationError, OverflowError):
                return adapter(self.kind).validate_python(value)
        raise InvalidInput(self.refusal(value))

    def read_shown(self, value: object) -> Any:
        """Read a value as forms and addresses show it; InvalidInput for others."""
        result = self.read(value)
        return result / 100 if self.percent and result is not None else result

    def format_value(self, value: Any) -> Any:
        """Write a value as forms and addresses show it."""
        if isinstance(value, tuple):
            return ", ".join(str(part).replace(",", _COMMA) for part in value)
        number = round(100 * value, 6) if self.percent and value is not None else value
        if self.may_be_left_out:
            return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        return int(number) if self.percent and number is not None and number == int(number) else number

    def write(self, value: Any) -> str:
        """Write a value as the text that :meth:`read` takes."""
        if value is None:
            return ""
        if isinstance(value, (list, tuple)):
            return ",".join(str(part).replace(",", _COMMA) for part in value)
        return str(value)

    @property
    def may_be_linked(self) -> bool:
        """True if an address may set it: it names no local file and gives no consent."""
        return not self.local and self.kind is not object and self.name not in ("force", "arms", "protocol")

    @property
    def info(self) -> str:
        """One line for a form."""
        listed = "with commas between" if self.kind is tuple else self.range_words
        return ". ".join(filter(None, (self.sentence, listed[:1].upper() + listed[1:])))

    @property
    def help(self) -> str:
        """The line of a command's help: the setting's purpose, its range or choices, and its default.

        >>> Setting(label="Seed", sentence="Seed of the first picture", default=0, ge=0, annotation=int).help
        'Seed of the first picture (at least 0; default: 0).'
        """
        sentence, _, default = self.sentence.removesuffix(")").partition(_DEFAULT)
        sentence = sentence if default else self.sentence
        if not default and self.default is not False and self.default not in (None, "", (), {}):
            default = "true" if self.default is True else self.write(self.default).removesuffix(".0")
        values = (
            "with commas between" if self.annotation == tuple[str, ...] else replace(self, percent=False).range_words
        )
        if not all(choice in sentence for choice in self.choices):
            values = ", ".join(filter(None, self.choices))
        facts = [values, default and f"default: {default}"]
        return f"{sentence} ({told})." if (told := "; ".join(filter(None, facts))) else f"{sentence}."

    def refusal(self, value: object, error: ValidationError | None = None) -> str:
        """Make the error for a value, from pydantic's error if there is one."""
        words = f"a text such as {self.example}" if self.example else type_words(self.annotation)
        left_out = ", or left out" if self.example and self.may_be_left_out else ""
        return refusal(f"“{self.label}”", value, words + left_out, error)


def setting(default: Any, label: str, sentence: str, **kwargs: Any) -> Any:
    """Declare a field of a :func:`settings_class`; ``sentence`` has no full stop, as range and default follow."""
    info = Setting(label=label, sentence=sentence, **kwargs)
    checks = {name: end for name in ("ge", "gt", "le", "lt") if (end := getattr(info, name)) is not None}
    checks |= {"pattern": info.pattern} if info.pattern else {}
    metadata = {_INFO: info, **checks}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


if TYPE_CHECKING:
    from dataclasses import dataclass as settings_class
else:

    def settings_class(*, frozen: bool, kw_only: bool):
        """Make a dataclass that checks types and ranges: InvalidInput names the field and its valid values."""
        config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)

        def decorate(kind):
            checked = checked_dataclass(frozen=frozen, kw_only=kw_only, config=config)(kind)
            labels = {entry.name: f"“{entry.metadata[_INFO].label}”" for entry in fields(checked)}
            build = checked.__init__

            @wraps(build)
            def init(self, **values):
                try:
                    build(self, **values)
                except ValidationError as error:
                    raise InvalidInput(_describe_error(checked, error)) from error
                # Options are checked by their own names.
                for name, value in values.items():
                    if not isinstance(value, Mapping):
                        check_texts(labels[name], value)
                if isinstance(self, RemembersNames):
                    object.__setattr__(self, "_given", frozenset(values))

            checked.__init__ = init
            return checked

        return decorate


class RemembersNames:
    """Settings that remember which of them were given, even at their default; a copy does not."""

    __slots__ = ("_given",)


@settings_class(frozen=True, kw_only=True)
class Options:
    """Options of one kind of study, next to the common settings; this class for kinds without options."""

    labels_replace_reader: ClassVar[bool] = True  # people's labels replace the classifier's


def option_values(options: Any) -> dict[str, Any]:
    """Return options by name, checked or as given; InvalidInput if they have no names."""
    if isinstance(options, Options):
        return {name: getattr(options, name) for name in declared_settings(type(options))}
    if not isinstance(options, Mapping):
        raise InvalidInput(f"options must be names with their values; got {quoted(options)}")
    return dict(options)


def declared_settings(kind: type) -> Mapping[str, Setting]:
    """Return the settings of a :func:`settings_class` by name, in order."""
    return _declared(kind)


@cache
def _declared(kind: type) -> Mapping[str, Setting]:
    types, declared = get_type_hints(kind), {}
    for entry in fields(kind):
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        declared[entry.name] = replace(
            entry.metadata[_INFO], name=entry.name, annotation=types[entry.name], default=default
        )
    return declared


def name_and_value(text: str) -> tuple[str, str]:
    """Split an option ``name=value`` of the command line or API; InvalidInput without a name or =."""
    name, sign, value = str(text).partition("=")
    if not sign or not name.strip():
        raise InvalidInput(f"write an option as name=value, got {quoted(text)}")
    return name.strip(), value.strip()


def changed_settings(settings: Any) -> dict[str, Any]:
    return {
        name: value
        for name, declared in declared_settings(type(settings)).items()
        if (value := getattr(settings, name)) != declared.default
    }


def given_settings(settings: Any) -> frozenset[str]:
    """Return the names of given settings, even at their default; for a copy, those that differ from the default.

    >>> sorted(given_settings(Options()))
    []
    """
    names, given = set(declared_settings(type(settings))), getattr(settings, "_given", frozenset[str]())
    return frozenset(changed_settings(settings)) | (frozenset() if given >= names else given)


def _describe_error(kind: type, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name, value, declared = str(first["loc"][0]), first["input"], declared_settings(kind)
    if name not in declared:
        return f"there is no setting {quoted(name)}; there are {', '.join(declared) or 'none'}"
    check_texts(f"“{declared[name].label}”", value)
    return declared[name].refusal(value, error)


def is_nothing(value: object) -> bool:
    """Return true if a field of a form is empty."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
