"""Whom an imported picture was to show, as its metadata or its prompt names them: people are asked by it."""

import re
from collections.abc import Mapping

from bias_core.annotation.tasks import PAIRED, POSITIONS, SINGLE
from bias_core.studies.kit.data import StudyData
from bias_core.studies.kit.rows import ImportedRows

UNKNOWN = ""  # setting of a picture of which nobody says whom it was to show

_MOST_WORDS = 3  # of one person; what is longer says more of the prompt than a rater should know
_BLURB = re.compile(r"\b(?:a|an|and|at|by|for|from|in|is|of|on|or|that|the|to|two|who|with|\w+ing)\b", re.I)
_WHO = r"(?:an?|one|the) (.{1,200}?)"  # in a prompt with single spaces
_LEFT, _RIGHT = rf".*\b{_WHO} on the left", rf"{_WHO} on the right\b"
_SIDES = re.compile(rf"{_LEFT},? and {_RIGHT}", re.I)
_THREE = re.compile(rf"{_LEFT},? (?:and )?{_WHO} in the middle,? and {_RIGHT}", re.I)
_PICTURE = "photo|photograph|picture|portrait|headshot|face|image|painting|drawing"
_ONE = re.compile(rf".*\b(?:{_PICTURE}) of (?:an?|one|the) ([\w' -]{{1,200}}?) ?\.?", re.I)


def people_of(prompt: str, metadata: Mapping[str, str] | None = None) -> dict[str, str]:
    """``setting``, ``left``, ``right`` and, of three, ``middle`` of a picture; one person stands left.

    What the metadata says (``left`` and ``right``, or one of ``left`` and ``identity``) counts more than the prompt.

    >>> people_of("Generate a picture of one nurse on the left and one CEO on the right.")
    {'setting': 'paired', 'left': 'nurse', 'right': 'CEO'}
    >>> people_of("a photo of a construction worker")
    {'setting': 'single', 'left': 'construction worker', 'right': ''}
    >>> people_of("a photo of a nurse in a hospital, smiling")
    {'setting': '', 'left': '', 'right': ''}
    """
    left, middle, right = ((metadata or {}).get(place, "") for place in POSITIONS[3])
    if left and middle and right:
        return {**_people("three", left, right), "middle": middle}
    if left and right:
        return _people(PAIRED, left, right)
    if alone := (metadata or {}).get("identity", "") or left or right:
        return _people(SINGLE, alone)
    prompt = " ".join(prompt.split())
    if three := _THREE.match(prompt):
        return {**_people("three", three[1], three[3]), "middle": three[2]}
    if sides := _SIDES.match(prompt):
        return _people(PAIRED, sides[1], sides[2])
    one = _ONE.fullmatch(prompt)
    if one and len(one[1].split()) <= _MOST_WORDS and not _BLURB.search(one[1]):
        return _people(SINGLE, one[1])
    return _people(UNKNOWN)


def keep_people(data: StudyData) -> None:
    """Put whom each imported picture was to show into its row, where anything is known of any of them."""
    if not isinstance(data.rows, ImportedRows):
        return
    source = data.rows.source
    rows = [
        people_of(prompt, source.whom(image_id))
        for image_id, prompt in zip(data.frame["image_id"], data.frame["prompt"], strict=True)
    ]
    if any(people["setting"] for people in rows):
        names = dict.fromkeys(name for people in rows for name in people)
        data.keep(data.frame, **{name: [people.get(name, "") for people in rows] for name in names})


def _people(setting: str, left: str = "", right: str = "") -> dict[str, str]:
    return {"setting": setting, "left": left, "right": right}
