"""Results and settings of reading a folder or zip of pictures."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bias_core.errors import InvalidInput, quoted
from bias_core.store.drawing_facts import PictureMetadata
from bias_core.types import ImageRow
from bias_core.values import check_texts, normal_form

AUTO, ONE_FOR_ALL = "auto", "one for all: "
NO_PROMPT = "without a prompt"
"""Stands for the prompt of pictures without one, where pictures are asked for or counted by prompt."""
IN_TABLE, IN_PICTURE, IN_TEXT = "a table", "the picture's own record", "the text file with its name"
IN_FILE, IN_FOLDER, GIVEN = "the name of the file", "the name of the folder", "you"
PROMPT_SOURCES = {
    "table": IN_TABLE, "picture": IN_PICTURE, "text file": IN_TEXT, "file name": IN_FILE, "folder": IN_FOLDER,
}  # fmt: skip
"""Sources of prompts in words, by the names that choose them."""
COUNT_ONCE: Literal["count once"] = "count once"
COUNT_ALL: Literal["count all"] = "count all"
COPIES = COUNT_ONCE, COUNT_ALL


@dataclass(frozen=True, kw_only=True)
class PromptSummary:
    """Facts about the pictures of one prompt."""

    prompt: str  # NO_PROMPT for pictures without one
    n: int  # pictures that count
    sources: Mapping[str, int]  # of the prompt, with numbers of pictures
    doubts: tuple[str, ...]
    spellings: tuple[str, ...]  # if there are several
    drawn_with: Mapping[str, int]  # models with their LoRAs, with numbers of pictures; "" where it is not known
    samplers: Mapping[str, int]
    further: tuple[str, ...]  # other texts and pictures that shaped them
    n_seeds: int  # different ones
    names: tuple[str, ...]  # of all files

    @property
    def ways(self) -> dict[str, int]:
        """Return the models with their LoRAs, and "not known", with numbers of pictures."""
        return {way or "not known": n for way, n in self.drawn_with.items()}

    @property
    def checks(self) -> tuple[str, ...]:
        """Return what a person should check: doubts, several spellings, other texts and pictures that shaped them."""
        spelled = (f"spelled as {', '.join(f'“{text}”' for text in self.spellings)}",) if self.spellings else ()
        return (*self.doubts, *spelled, *self.further)


@dataclass(frozen=True, kw_only=True)
class PictureLook:
    """A folder or zip of pictures as it was understood, before anything is scored.

    The pictures of all ``prompts`` and those ``left_out`` are together all files that look like pictures.
    """

    name: str
    prompts: tuple[PromptSummary, ...]
    left_out: Mapping[str, str]  # reasons by file
    notes: tuple[tuple[str, tuple[str, ...]], ...]  # what else there is to know, each with its files or reasons

    @property
    def n(self) -> int:
        """Number of pictures that count."""
        return sum(prompt.n for prompt in self.prompts)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of pictures of each prompt."""
        return {summary.prompt: summary.n for summary in self.prompts}

    @property
    def of_prompts(self) -> str:
        """Return the number of prompts in words, such as “of 2 prompts”."""
        n = sum(prompt.prompt != NO_PROMPT for prompt in self.prompts)
        without = "without a prompt" if n < len(self.prompts) else ""
        return " and ".join(filter(None, (f"of {n:,} prompt{'s' * (n != 1)}" if n or not without else "", without)))

    @property
    def left_out_lines(self) -> list[str]:
        """Return the pictures that are left out, each with its reason."""
        return [f"{name}: {reason}" for name, reason in self.left_out.items()]

    @property
    def to_check(self) -> bool:
        """Return True if a person should look: a prompt is missing or doubted, a picture is left out or looks alike."""
        is_unsure = any(summary.doubts or summary.prompt == NO_PROMPT for summary in self.prompts)
        return is_unsure or bool(self.left_out) or len(self.ways) > 1

    @property
    def ways(self) -> dict[str, int]:
        """Return the ways of drawing that the pictures record, with numbers of pictures."""
        counts = sum((Counter(prompt.drawn_with) for prompt in self.prompts), Counter[str]())
        return {way: n for way, n in counts.items() if way}


@dataclass(frozen=True, kw_only=True)
class ImportedPicture:
    """A picture that counts, and what is known of it."""

    row: ImageRow
    name: str  # of its file
    drawing: PictureMetadata
    prompt_source: str  # in words, with the program that recorded it; "" without a prompt
    way: str  # in which it was drawn, in short: model and LoRAs, or the folder that names a model; "" if not known
    record: tuple[str, str]  # model and revision of its own record; "" without one
    people: Mapping[str, str]  # that it should show, by its metadata: "left", "middle", "right", "identity"


def read_prompts_from(text: str) -> str:
    """Return the source of prompts as it is compared; InvalidInput for an unknown one.

    >>> read_prompts_from("One for all:  a doctor"), read_prompts_from("File name")
    ('one for all: a doctor', 'file name')
    """
    word, sign, prompt = text.partition(":")
    word, prompt = " ".join(word.split()).casefold(), " ".join(prompt.split())
    if sign and f"{word}: " == ONE_FOR_ALL and prompt:
        check_texts("the prompt of all pictures", prompt)
        return ONE_FOR_ALL + prompt
    if sign or word not in (AUTO, *PROMPT_SOURCES):
        raise InvalidInput(
            f"prompts are taken from {', '.join((AUTO, *PROMPT_SOURCES))}, or “{ONE_FOR_ALL}a photo of a doctor”; "
            f"got {quoted(text)}"
        )
    return word


def get_key(prompt: str) -> str:
    """Return the key of a prompt as it stands in counts, where :data:`NO_PROMPT` stands for none."""
    return "" if prompt == NO_PROMPT else key(prompt)


_LOST_IN_NAMES = re.compile(r"""[\s_.,;:!?'"“”‘’«»/\\|<>\u2010-\u2015\u3001\u3002-]+""")


def key(prompt: str) -> str:
    """Normalise a prompt: equal for prompts that differ only in case, spaces and marks that names of files lose.

    >>> key("A photo of a light-skinned nurse.") == key("a_photo of a light skinned Nurse")
    True
    >>> key("C++") == key("C"), key("लड़का") == key("लड़की"), key("👨‍⚕️") == key("👩‍⚕️")
    (False, False, False)
    """
    return _LOST_IN_NAMES.sub(" ", normal_form("NFKC", prompt).casefold()).strip()
