"""An association test of a visitor's own words."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.prompts import SLOT, fill_template
from bias_core.studies.designs import find_design
from bias_core.studies.t2iat import edited

if TYPE_CHECKING:
    from bias_core.studies.study_types import Design

NAME = "own-association"
KINDS = ("valence", "gender")
"""How a prompt is edited: its word is appended, or takes the place of "person"."""
MOST_WORDS = 100
MOST_PICTURES = 100
_SHOWN = 3  # words in a title that nobody gave


def own_association(
    x: str, y: str, a: str, b: str, *, kind: str = "valence", template: str = "a photo of a {}", n: int = 4
) -> Design:
    """The design of one test: do pictures of X lean to A more than pictures of Y do?

    Parameters
    ----------
    x, y, a, b : words with commas or line breaks between them, after a name and a colon if one is given
        ("Fruit: apple, pear"); at least two words for X and for Y.
    kind : one of ``KINDS``.
    template : a prompt with {} for a word of X or Y; with "person" in it for the kind "gender".
    n : pictures of each prompt.

    Raises
    ------
    InvalidInput
        For too few or too many words, words on both sides, or a prompt that cannot be edited.

    Examples
    --------
    >>> design = own_association("Fruit: apple, pear", "Tools: saw, axe", "happy", "sad")
    >>> design.data["titles"]
    {'Fruit': 'Fruit', 'Tools': 'Tools', 'happy': 'happy', 'sad': 'sad'}
    """
    if kind not in KINDS:
        raise InvalidInput(f"a prompt is edited in one of the ways {', '.join(KINDS)}; got {kind!r}")
    if not 1 <= n <= MOST_PICTURES:
        raise InvalidInput(f"1 to {MOST_PICTURES} pictures of each prompt; got {n}")
    given = {role: parse_words(text) for role, text in zip("xyab", (x, y, a, b), strict=True)}
    _check(given)
    names = {role: name for role, (name, _) in given.items()}
    for role in "xy":  # an edit that is impossible is said before anything is drawn
        edited(fill_template(template, given[role][1][0]), given["a"][1][0], kind)
    return replace(
        find_design("t2iat-tests"),
        name=NAME,
        title="Association test of your own words",
        where=f"Eq. 1 to 4, with words of your own in “{template.replace(SLOT, '…')}”",
        summary=f"Do pictures of {names['x']} lean to {names['a']} rather than {names['b']} more than "
        f"pictures of {names['y']} do?",
        data={
            "concepts": dict(given.values()),
            "titles": {name: name for name in names.values()},
            "tests": [{"key": "own", **names, "kind": kind, "template": template}],
        },
        images_per_prompt=n,
    )


def parse_words(text: str) -> tuple[str, list[str]]:
    """A name and its words, each once.

    Examples
    --------
    >>> parse_words("Fruit: apple, pear, apple"), parse_words("he, man")
    (('Fruit', ['apple', 'pear']), ('he, man', ['he', 'man']))
    """
    name, colon, rest = text.rpartition(":")
    listed = (rest if colon else text).replace("\n", ",").replace(";", ",").split(",")
    words = list(dict.fromkeys(" ".join(word.split()) for word in listed if word.strip()))
    shown = ", ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")
    return " ".join(name.split()) or shown, words


def _check(given: dict[str, tuple[str, list[str]]]) -> None:
    for role, least in {"x": 2, "y": 2, "a": 1, "b": 1}.items():
        n = len(given[role][1])
        if not least <= n <= MOST_WORDS:
            what = f"{'concept' if role in 'xy' else 'attribute'} {role.upper()}"
            raise InvalidInput(f"{what} needs {least} to {MOST_WORDS} words with commas between; got {n}")
    for one, other in ("xy", "ab"):
        if both := set(given[one][1]) & set(given[other][1]):
            raise InvalidInput(
                f"{', '.join(sorted(both))}: a word on both sides cannot tell them apart; take it out of one"
            )
    for one, other in combinations(given, 2):
        if given[one][0] == given[other][0]:
            raise InvalidInput(f"{one.upper()} and {other.upper()} have the same name, {given[one][0]!r}")
