"""Prompts in the names of files and folders, without users, dates, numbers and switches."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from bias_core.exchange.drawing_facts import PictureMetadata, one_line
from bias_core.exchange.picture_metadata import facts_of_midjourney

FEWEST_WORDS = 3  # of a file name that is a prompt and no number
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MIDJOURNEY = re.compile(rf"[^_\s]+_([^\s]+)_{_UUID}(?:_\d+)?", re.IGNORECASE)  # user, prompt and switches, job
_DATE = r"\d{4}-\d\d-\d\d(?:[ T_-]+(?:at )?\d\d[.:_-]?\d\d(?:[.:_-]?\d\d)?)?"
_OF_PROGRAMS = (
    ("DALL·E", re.compile(rf"DALL.?E[ _]+{_DATE}[ _]*-[ _]*(.*)")),
    ("Adobe Firefly", re.compile(r"Firefly[ _](.*?)[ _]\d+")),
    ("Leonardo", re.compile(rf"(?:Default|Leonardo)_(.*?)_\d+(?:_{_UUID})?(?:_\d+)?")),
)
_BEFORE = re.compile(rf"^(?:{_DATE}|\d{{8}}(?=\D)|\d{{3,}}(?=[-_]))[\s_-]*")
_AFTER = re.compile(rf"(?:\(\d+\)|#?\d+|{_DATE}|{_UUID}|(?<=[\s_-])(?=[a-z]*\d)[0-9a-f]{{8,}})$", re.IGNORECASE)
_BETWEEN = " \t_-"
_LONGEST_NAME, _LONGEST_END, _MOST_ENDS = 255, 80, 8  # characters; numbers, dates and ids behind one another
_NO_PROMPT = re.compile(
    r"(?:ChatGPT Image|Gemini[ _]Generated[ _]Image|Copilot[ _]\d|Screen ?shot|WhatsApp Image|OIG\d?[.-]).*"
    r"|(?:IMG|DSC|PXL|ComfyUI|SwarmUI|image|picture|photo|download|untitled|unnamed|output|sample|file)[\W\d_]*",
    re.IGNORECASE,
)
_FOLDERS = re.compile(
    r"(?:txt2img|img2img|extras)[-_ ](?:images|grids)|outputs?|images?|pictures?|train|test|validation|raw|local",
    re.IGNORECASE,
)
_SHEET = re.compile(r"(?:xyz_|txt2img_)?grid[-_ ]?\d*(?:[-_ ].*)?|(?:.*[-_ ])?contact[-_ ]?sheet(?:[-_ ].*)?", re.I)
_EARLIER = re.compile(r"(.+?)-(?:before-[a-z-]+|ad-before|ad-preview[-\d]*|init-image|mask|mask-composite)")


def facts_of_name(name: str, wrapper: str) -> PictureMetadata:
    """The prompt by which the picture's folder is called, or the file where the folder's name is none.

    >>> names = ("a photo of a doctor/3.png", "x/00012-123-a_nurse-7.png", "DALL·E 2023-10-12 10.41.55 - A cook.png")
    >>> [facts_of_name(name, "x").prompt for name in (*names, "00000-1234.png", "2026-11-22/a cook-3.png")]
    ['a photo of a doctor', 'a nurse', 'A cook', '', 'a cook']
    """
    parent = PurePosixPath(name).parent
    if not _stem(name) or len(parent.name) > _LONGEST_NAME:
        return PictureMetadata()
    folder = one_line(parent.name.replace("_", " ")) if parent.as_posix() not in {".", wrapper} else ""
    if folder and _words(parent.name) and not _FOLDERS.fullmatch(parent.name):
        return PictureMetadata(prompt=folder)
    stem = _stem(name)
    if found := _MIDJOURNEY.fullmatch(stem):
        return facts_of_midjourney(found[1].replace("_", " "))
    for program, pattern in _OF_PROGRAMS:
        if found := pattern.fullmatch(stem):
            return PictureMetadata(program=program, prompt=_words(found[1]))
    return PictureMetadata(prompt=words_of(name))


def words_of(name: str) -> str:
    """A file name as a prompt: without its ending, dates, numbers and ids; "" where nothing else is in it."""
    return _words(_stem(name))


def _stem(name: str) -> str:
    """A name without its folders and ending; "" for one that is longer than systems have them."""
    stem = PurePosixPath(name).stem
    return stem if len(stem) <= _LONGEST_NAME else ""


def _words(text: str) -> str:
    if _NO_PROMPT.fullmatch(text):
        return ""
    for _ in range(_MOST_ENDS):
        before, text = text, _BEFORE.sub("", text)
        shown = text.rstrip()
        if found := _AFTER.search(shown, max(0, len(shown) - _LONGEST_END)):
            text = shown[: found.start()].rstrip(_BETWEEN)
        if text == before:
            break
    return one_line(text.replace("_", " ")) if any(character.isalpha() for character in text) else ""


def wrapper_of(names: Sequence[str]) -> str:
    """The folder that everything lies in where its name is no prompt, as zips often have; "" if none."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    if len(tops) != 1 or any(len(PurePosixPath(name).parts) == 1 for name in names):
        return ""
    directly = [name for name in names if len(PurePosixPath(name).parts) == 2]
    return tops.pop() if all(len(words_of(name).split()) >= FEWEST_WORDS for name in directly) else ""


def is_sheet_name(name: str) -> bool:
    """Whether a program or person calls a file a sheet of several pictures."""
    return bool(_SHEET.fullmatch(_stem(name)))


def finished_stem(name: str) -> str:
    """The name, without ending, of the picture that a program finished from this one; "" where it is no draft.

    >>> finished_stem("a/00000-70-before-highres-fix.png")
    'a/00000-70'
    """
    found = _EARLIER.fullmatch(_stem(name))
    return PurePosixPath(name).with_name(found[1]).as_posix() if found else ""
