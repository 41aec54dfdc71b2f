"""A page's texts in one of its languages: ``static/language.js`` in Python, for tests without a browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLACE = re.compile(r"\{([a-z]+)\}")
SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-ZÄÖÜΑ-Ω\d“])")
_LISTS = (r"(; )", r"(, (?![+−\d]))")
_PARTS = (r"(: | · |; )", r"(, (?![+−\d]))", r"( − )")
_WORD = re.compile(r"[^\W\d_]{2}")


def form_of(english: str) -> re.Pattern[str]:
    """What an entry stands for: ``{name}`` for any words, a letter for a number."""
    form = re.escape(english).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(PLACE.sub(lambda place: r"([\d.,]+)" if len(place[0]) == 3 else "([^<]+?)", form))


class Language:
    """What ``say`` of the script makes of a text; ``left_out`` are groups of phrases that another page has."""

    def __init__(self, path: Path, left_out: Sequence[str] = ("Rater's page",)) -> None:
        groups = json.loads(path.read_text(encoding="utf-8"))["phrases"]
        self.words = {en: own for name, group in groups.items() if name not in left_out for en, own in group.items()}
        patterned = sorted((en for en in self.words if PLACE.search(en)), key=lambda en: -len(PLACE.sub("", en)))
        self.patterns = [(PLACE.findall(en), self.words[en], form_of(en)) for en in patterned]

    def say(self, text: str) -> str:
        key = " ".join(text.split())
        if not _WORD.search(key):
            return key
        own = self.words.get(key) or self._sentences(key)
        return self._parts(key) if own == key else own

    def _filled(self, text: str) -> str:
        for names, own, form in self.patterns:
            if match := form.fullmatch(text):
                said = {name: self._items(match[i + 1]) for i, name in enumerate(names)}
                return PLACE.sub(lambda place: said[place[1]], own)  # noqa: B023
        return text

    def _sentences(self, text: str) -> str:
        parts = SENTENCES.split(text)
        own = [self.words.get(part) or self._filled(part) for part in parts]
        return self._filled(text) if any(map(str.__eq__, parts, own)) else " ".join(own)

    def _items(self, text: str, marks: Sequence[str] = _LISTS) -> str:
        if not marks:
            return self.say(text)
        some = re.split(marks[0], text)
        own = [part if i % 2 else self._items(part, marks[1:]) for i, part in enumerate(some)]
        whole = self.say(text) if any(map(str.__eq__, some[::2], own[::2])) else text
        return "".join(own) if whole == text else whole

    def _parts(self, text: str, marks: Sequence[str] = _PARTS) -> str:
        if not marks or re.search(r"<|[.!?]( |$)", text):
            return text
        some = re.split(marks[0], text)
        return "".join(part if i % 2 else self._known(part, marks[1:]) for i, part in enumerate(some))

    def _known(self, part: str, finer: Sequence[str]) -> str:
        own = self.words.get(part) or self._filled(part)
        return self._parts(part, finer) if own == part else own
