"""The same prompt in several languages, and the grammatical gender that each wording carries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from bias_core.errors import InvalidInput, quoted
from bias_core.installed import ASSETS
from bias_core.prompts import fill_template

ENGLISH = "en"
BETWEEN = ":"  # between a language and a form, as in de:feminine
FORMS: Mapping[str, str] = {
    "masculine": "generic masculine", "word": "one form for all", "neutral": "neutral", "feminine": "feminine",
    "paired": "both forms",
}  # fmt: skip
"""Grammatical forms, in words. The default is the first one that a language has."""
_NONE = "-"


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A prompt in one language."""

    language: str  # BCP 47 code
    form: str  # key of :data:`FORMS`
    prompt: str
    english: str  # English translation: of the feminine form it says that the person is female

    @property
    def name(self) -> str:
        """Language and form, as the name of an arm.

        >>> [one.name for one in list_wordings(("fr", "zh"), "a photo of a {}", "nurse")]
        ['English', 'French (generic masculine)', 'Chinese']
        """
        return self.language_name if self.form == "word" else f"{self.language_name} ({FORMS[self.form]})"

    @property
    def language_name(self) -> str:
        return str(_load_grammar()["languages"][self.language]["name"])


def list_wordings(languages: Sequence[str], template: str, concept: str) -> tuple[Wording, ...]:
    """The prompt of a concept in each language, English first.

    Parameters
    ----------
    languages : codes, each alone or with a form, as ``de`` or ``de:feminine``.
    template : an English one of the list, with one ``{}``.

    Raises
    ------
    InvalidInput : for a language, form, template or concept without a certain wording; it lists the choices.

    Examples
    --------
    >>> [one.prompt for one in list_wordings(("de", "de:feminine"), "a photo of a {}", "doctor")]
    ['a photo of a doctor', 'ein Foto von einem Arzt', 'ein Foto von einer Ärztin']
    """
    given = (ENGLISH, *(language.strip() for language in languages if language.strip() != ENGLISH))
    if len(given) < 2:
        raise InvalidInput(f"give a language other than English: {', '.join(language_names())}")
    return tuple(dict.fromkeys(_wording(*language.partition(BETWEEN)[::2], template, concept) for language in given))


def _wording(language: str, form: str, template: str, concept: str) -> Wording:
    book, name = _load_grammar(), " ".join(concept.split())
    if language not in book["languages"]:
        codes = ", ".join(f"{code} ({name})" for code, name in language_names().items())
        raise InvalidInput(
            f"languages are {codes}, each alone or with a form, as in de:feminine; got {quoted(language)}"
        )
    if template.strip() not in book["templates"]:
        raise InvalidInput(
            f"for several languages the template must be one of {'; '.join(book['templates'])}; got {quoted(template)}"
        )
    forms = _list_noun_forms(language, _find_key(name))
    if not forms:
        raise InvalidInput(
            f"{book['languages'][language]['name']} has no certain word for {quoted(name)} here; choose one of "
            f"{', '.join(concepts(language))}, or write arms, each with a template such as {{a photo of a {name}=...}}"
        )
    if form and form not in forms:
        could = "; ".join([language, *(f"{language}{BETWEEN}{form}" for form in forms if len(forms) > 1)])
        raise InvalidInput(
            f"{book['languages'][language]['name']} has no form {quoted(form)} of {quoted(name)} here; write {could}"
        )
    form = form or next(iter(forms))
    return _word_prompt(language, form, forms[form], template.strip(), _find_key(name))


def _word_prompt(language: str, form: str, noun: str, template: str, concept: str) -> Wording:
    english = fill_template(template, f"female {concept}" if form == "feminine" else concept)
    prompt = english if language == ENGLISH else _load_grammar()["templates"][template][language].replace("{}", noun)
    return Wording(language=language, form=form, prompt=prompt, english=english)


def concepts(language: str = ENGLISH) -> tuple[str, ...]:
    """Concepts with a wording in a language."""
    languages = _load_grammar()["languages"]
    all_concepts = dict.fromkeys(key for entry in languages.values() for key in entry["concepts"])
    return tuple(all_concepts) if language == ENGLISH else tuple(languages[language]["concepts"])


def language_names() -> dict[str, str]:
    """English names of the languages other than English, by code."""
    return {code: str(entry["name"]) for code, entry in _load_grammar()["languages"].items() if code != ENGLISH}


def language_choices() -> list[tuple[str, str]]:
    """Choices of a menu, name and value: each language, and its forms that are not every concept's default."""
    choices = []
    for code, name in language_names().items():
        forms = dict.fromkeys(form for concept in concepts(code) for form in list(_list_noun_forms(code, concept))[1:])
        form_choices = [(f"{name} ({FORMS[form]})", f"{code}{BETWEEN}{form}") for form in FORMS if form in forms]
        choices += [(name, code), *form_choices]
    return choices


def rival_concepts(concept: str) -> tuple[str, ...]:
    """Concepts that a picture could be mistaken for: other occupations, or things if the concept is any person."""
    book, key = _load_grammar(), _find_key(concept)
    if key not in book["people"]:
        return tuple(name for name in concepts() if name not in (key, *book["people"]))
    genders = [word for word in ("man", "woman") if key not in (word, "person")]
    return (*genders, *book["things"])


def planted_languages() -> tuple[str, ...]:
    """Languages in which the calibration world's condition ``languages`` plants a bias."""
    return tuple(_load_grammar()["planted"])


@cache
def wordings_by_prompt() -> Mapping[str, Wording]:
    """Every wording that is not English, by prompt; the first of equal prompts."""
    by_prompt: dict[str, Wording] = {}
    for template in _load_grammar()["templates"]:
        for language in language_names():
            for concept in concepts(language):
                for form, noun in _list_noun_forms(language, concept).items():
                    wording = _word_prompt(language, form, noun, template, concept)
                    by_prompt.setdefault(wording.prompt, wording)
    return by_prompt


def _find_key(concept: str) -> str:
    """Return the concept in the list's spelling."""
    return next((name for name in concepts() if name.casefold() == concept.casefold()), concept)


def _list_noun_forms(language: str, concept: str) -> dict[str, str]:
    """Noun phrases of a concept by form, in the order of :data:`FORMS`; empty if none is certain."""
    book, entry = _load_grammar(), _load_grammar()["languages"][language]
    text = concept if language == ENGLISH and concept in concepts() else entry["concepts"].get(concept, "")
    if not text:
        return {}
    parts = [part.strip() for part in text.split(" / ")]
    if len(parts) == 1:
        forms = {"word": text}
        if "feminine" in entry and concept not in book["people"]:
            forms["feminine"] = entry["feminine"].format(text)
        return forms
    gendered_parts = zip(("masculine", "feminine"), parts, entry["articles"], strict=False)
    forms = {form: article.format(part) for form, part, article in gendered_parts if part != _NONE}
    if len(forms) == len(("masculine", "feminine")):
        forms["paired"] = f"{forms['masculine']} {entry['or']} {forms['feminine']}"
    forms |= {"neutral": parts[2]} if parts[2:] else {}
    return {form: forms[form] for form in FORMS if form in forms}


@cache
def _load_grammar() -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load((ASSETS / "studies" / "languages.yaml").read_text(encoding="utf-8"), Loader=loader))
