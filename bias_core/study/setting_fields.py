"""Settings declared once: type, range, default, label and one sentence stand at the field, and nowhere else.

What the command line, the API, the forms, the addresses and the files of settings offer is made from these
declarations (:func:`settings_of`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from bias_core.errors import InvalidInput, quoted
from bias_core.given_values import adapter, check_texts, number_words, refusal, type_words

__all__ = ["settings_class"]  # which type checkers take for an import of another module
_INFO = "setting"
_COMMA = r"\,"  # one that belongs to a text of a list
_DEFAULT = " (default: "  # ends a sentence with what stands for a value that is left out
_ENDLESS = 1e9  # the end of a range that need not be told
_KINDS = (int, float, bool, str, tuple)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Declaration of one setting."""

    name: str = ""
    annotation: Any = None  # as declared
    default: Any = None
    label: str  # two or three words for forms; one sentence
    sentence: str
    ge: float | None = None  # its range; None where it has no such end
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    option: str = ""  # on the command line; "" for the usual one
    link: str = ""  # in addresses; "" for the last word of ``option``
    percent: bool = False  # forms and addresses show 100 times the value
    pattern: str = ""  # that a text matches as a whole, as the ``example`` does
    example: str = ""
    local: bool = False  # names a file of this machine, so that no program or address may give it

    @property
    def kind(self) -> type:
        """Type of its values but None: ``int, float, bool, str, tuple`` (of texts), or ``object`` for any other."""
        plain = [kind for kind in get_args(self.annotation) or (self.annotation,) if kind is not NoneType]
        first = self.annotation if get_origin(self.annotation) in (tuple, Literal) else plain[0]
        origin = get_origin(first) or first
        value_type = type(get_args(first)[0]) if origin is Literal else origin
        return value_type if value_type in _KINDS else object

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values it may have; () if every value of its type may be."""
        kinds = (self.annotation, *get_args(self.annotation))
        return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())

    @property
    def may_be_left_out(self) -> bool:
        """True if None is a value, which stands for the default of a model or a design."""
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
        """Its range in words, as forms and addresses show values; "" where it has none.

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
        """Read a value as a form, address or command writes it, whatever its range; InvalidInput quotes others."""
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
        elif not isinstance(value, bool) or self.kind is bool:
            with suppress(ValidationError, OverflowError):
                return adapter(self.kind).validate_python(value)
        raise InvalidInput(self.refusal(value))

    def read_shown(self, value: object) -> Any:
        """Read a value as forms and addresses show it; InvalidInput quotes other values."""
        result = self.read(value)
        return result / 100 if self.percent and result is not None else result

    def shown(self, value: Any) -> Any:
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
        """True if an address may set it: it names no file of this machine and gives no consent."""
        return not self.local and self.kind is not object and self.name not in ("force", "arms", "protocol")

    @property
    def info(self) -> str:
        """One line for a form."""
        listed = "with commas between" if self.kind is tuple else self.range_words
        return ". ".join(filter(None, (self.sentence, listed[:1].upper() + listed[1:])))

    @property
    def help(self) -> str:
        """The line of a command's help: what the setting does, its range or choices, and its default.

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
        """Write the sentence that refuses a value, from pydantic's error if there is one."""
        words = f"a text such as {self.example}" if self.example else type_words(self.annotation)
        left_out = ", or left out" if self.example and self.may_be_left_out else ""
        return refusal(f"“{self.label}”", value, words + left_out, error)


def setting(default: Any, label: str, sentence: str, **more: Any) -> Any:
    """Declare a field of a :func:`settings_class`; doors go on with the sentence, which ends without a full stop."""
    info = Setting(label=label, sentence=sentence, **more)
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
        """A dataclass that refuses values of a wrong type or range: InvalidInput says which, and what would do."""
        config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)

        def decorate(kind):
            made = checked_dataclass(frozen=frozen, kw_only=kw_only, config=config)(kind)
            labels = {one.name: f"“{one.metadata[_INFO].label}”" for one in fields(made)}
            build = made.__init__

            @wraps(build)
            def init(self, **values):
                try:
                    build(self, **values)
                except ValidationError as error:
                    raise InvalidInput(_sentence(made, error)) from error
                # Options are checked under their own names.
                for name, value in values.items():
                    if not isinstance(value, Mapping):
                        check_texts(labels[name], value)
                if isinstance(self, RemembersNames):
                    object.__setattr__(self, "_given", frozenset(values))

            made.__init__ = init
            return made

        return decorate


class RemembersNames:
    """Settings that know which of them were given, at their default or not; a copy does not know it."""

    __slots__ = ("_given",)


@settings_class(frozen=True, kw_only=True)
class Options:
    """Options of one kind of study, in addition to the settings of all; a kind without options has this class."""

    labels_replace_reader: ClassVar[bool] = True  # people's labels replace the classifier's


def option_values(options: Any) -> dict[str, Any]:
    """Return options by name, checked or as they were given; InvalidInput if they have no names."""
    if isinstance(options, Options):
        return {name: getattr(options, name) for name in settings_of(type(options))}
    if not isinstance(options, Mapping):
        raise InvalidInput(f"options must be names with their values; got {quoted(options)}")
    return dict(options)


def settings_of(kind: type) -> Mapping[str, Setting]:
    """Return the settings that a :func:`settings_class` declares, by name, in their order."""
    types, declared = get_type_hints(kind), {}
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        declared[one.name] = replace(one.metadata[_INFO], name=one.name, annotation=types[one.name], default=default)
    return declared


def name_and_value(text: str) -> tuple[str, str]:
    """Split an option of a study as the command line and the API write it."""
    name, sign, value = str(text).partition("=")
    if not sign or not name.strip():
        raise InvalidInput(f"write an option as name=value, got {quoted(text)}")
    return name.strip(), value.strip()


def changed_settings(settings: Any) -> dict[str, Any]:
    """Return the values of a :func:`settings_class` that are not at their default."""
    return {
        name: value
        for name, one in settings_of(type(settings)).items()
        if (value := getattr(settings, name)) != one.default
    }


def given_settings(settings: Any) -> frozenset[str]:
    """Return the names that were given a value, also the default; of a copy, the names not at their default.

    >>> sorted(given_settings(Options()))
    []
    """
    names, given = set(settings_of(type(settings))), getattr(settings, "_given", frozenset[str]())
    return frozenset(changed_settings(settings)) | (frozenset() if given >= names else given)


def _sentence(kind: type, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name, value, declared = str(first["loc"][0]), first["input"], settings_of(kind)
    if name not in declared:
        return f"there is no setting {quoted(name)}; there are {', '.join(declared) or 'none'}"
    check_texts(f"“{declared[name].label}”", value)
    return declared[name].refusal(value, error)


def is_nothing(value: object) -> bool:
    """Return true if a field of a form is empty."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
