"""What designs on words of one's own have in common: words as they were meant, and limits."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings


def distinct_texts(texts: Iterable[str]) -> list[str]:
    """Each text once, without the blanks around and between its words; empty ones are left out.

    >>> distinct_texts([" a  nurse", "", "a nurse", "doctor "])
    ['a nurse', 'doctor']
    """
    return list(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))


def check_count(n: int, what: str, least: int, most: int) -> None:
    """InvalidInput where there are too few or too many of ``what``."""
    if not least <= n <= most:
        raise InvalidInput(f"{least} to {most} {what}; got {n}")


def settings_with(settings: StudySettings, options: Collection[str]) -> StudySettings:
    """All pictures of a design on words of one's own; of the options, those of these names."""
    values = {name: value for name, value in settings.options.items() if name in options}
    return replace(settings, scale=1.0, options=values)
