"""The words of the calibration world, and the parser of prompts."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bias_core.world.scene import DOMAINS, LIGHTS, Look, Person, Scene, Thing, load_drawing, read_asset

Constraint = Mapping[str, frozenset[object]]  # for a visible attribute, the values that the words allow

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A phrase's meaning by ``kind``: look, value, person, thing, nationality, valence, harm or known."""

    kind: str
    name: str = ""
    parts: Mapping[str, str] | None = None
    allowed: Constraint | None = None
    thing: Thing | None = None
    n: int = 1


def plain_words(text: str) -> list[str]:
    """Lower-case words and pictograms, without punctuation or articles."""
    words = re.findall(r"\w+|[\u2600-\u27bf\U0001f000-\U0001faff]", text.lower().replace("'", ""))
    return [word for word in words if word not in ARTICLES]


@cache
def book() -> dict[str, Any]:
    """The parsed lexicon."""
    return read_asset("lexicon.yaml")


@cache
def association_stimuli() -> dict[str, Any]:
    """Names and valence words of the association tests, from ``assets/studies/t2iat.yaml``."""
    return read_asset("../studies/t2iat.yaml")


def allowed(entry: Mapping[str, object]) -> Constraint:
    """Convert ``{"age": "old"}`` and the like to sets of values."""
    return {
        field: frozenset(value if isinstance(value, list) else [value])
        for field, value in entry.items()
        if field in DOMAINS or field == "light"
    }


def negated(constraint: Constraint) -> Constraint:
    """The values that the constraint does not allow."""
    domains = {**DOMAINS, "light": LIGHTS}
    return {field: frozenset(domains[field]) - values for field, values in constraint.items()}


@cache
def phrases() -> Mapping[tuple[str, ...], Meaning]:
    """Every phrase the world knows, as a tuple of words."""
    table: dict[tuple[str, ...], Meaning] = {}
    for word in (*book()["carriers"], *book()["actions"], *book()["negations"]):
        table[tuple(plain_words(str(word)) or [str(word)])] = Meaning(kind="known", name=str(word))
    for word in book()["harm"]:
        table[(word,)] = Meaning(kind="harm", name=word, allowed=allowed({"light": "gloomy"}))
    table.update((tuple(plain_words(phrase)), meaning) for phrase, meaning in _meanings())
    return table


def find_look(phrase: str) -> Look:
    """Return the look that a phrase of the lexicon describes."""
    setting, clothing, prop, *colour = book()["looks"][phrase].split()
    return Look(setting=setting, clothing=clothing, prop=prop, **({"colour": colour[0]} if colour else {}))


@cache
def lexicon_looks() -> tuple[Look, ...]:
    """Every look of the lexicon, with a role on some and flags for the nationalities."""
    plain = [find_look(phrase) for phrase in book()["looks"]]
    flags = [Look(flag=flag) for flag in book()["nationalities"].values()] * 4
    held = [Look(prop=t.icon, colour=t.colour) for t in things()]
    return (*plain, *plain, *flags, *held)


@cache
def things() -> tuple[Thing, ...]:
    return tuple(m.thing for m in phrases().values() if m.thing)


@cache
def words_of_the_renderer() -> frozenset[str]:
    """Words that only the renderer knows: no model of this world was trained on them."""
    renderer_people = book()["people_of_the_renderer"]
    model_words = {word for phrase in phrases() if " ".join(phrase) not in renderer_people for word in phrase}
    return frozenset(word for phrase in renderer_people for word in plain_words(phrase)) - model_words


@cache
def valence_words() -> Mapping[str, str]:
    """Evaluative words appended to a prompt -> the light they stand for."""
    concepts = association_stimuli()["concepts"]
    return {w: light for key, light in (("unpleasant", "gloomy"), ("pleasant", "bright")) for w in concepts[key]}


def _meanings() -> Iterator[tuple[str, Meaning]]:
    """Yield phrases with their meanings; the last meaning of a phrase counts."""
    words, icons = book(), load_drawing("icons")
    for phrase, spec in words["things"].items():
        *icon, colour = spec.split()
        name = icon[0] if icon else phrase
        thing = Thing(icon=name if name in icons else "unknownthing", colour=colour)
        yield phrase, Meaning(kind="thing", name=phrase, thing=thing)
    skins = {"european_american": [1, 2, 3, 4], "african_american": [7, 8, 9, 10]}
    for group, by_gender in association_stimuli()["gender"].items():
        for gender, names in by_gender.items():
            values = allowed({"gender": gender, "skin": skins[group]})
            yield from ((name, Meaning(kind="person", name=group, parts={}, allowed=values)) for name in names)
    for phrase, entry in (words["people"] | words["people_of_the_renderer"]).items():
        name, parts = (phrase, {"prop": entry["sign"]}) if "sign" in entry else ("", {})
        yield phrase, Meaning(kind="person", name=name, parts=parts, allowed=allowed(entry), n=entry.get("n", 1))
    keys = ("setting", "clothing", "prop", "colour")
    looks = {name: dict(zip(keys, spec.split(), strict=False)) for name, spec in words["looks"].items()}
    for phrase, name in ({name: name for name in looks} | words["aliases"]).items():
        yield phrase, Meaning(kind="look", name=name, parts=looks[name])
    for phrase, entry in words["values"].items():
        yield phrase, Meaning(kind="value", name=phrase, allowed=allowed(entry))
    for word, flag in words["nationalities"].items():
        yield word, Meaning(kind="nationality", name=word, parts={"flag": flag})


PAIR = re.compile(r"\bone (?P<left>.{1,200}?) on (?:the )?left and (?:one )?(?P<right>.{1,200}?) on (?:the )?right\b")
LONGEST = 5
LIGHT_SKIN = frozenset({1, 2, 3, 4})  # of ten tones


@dataclass(frozen=True, kw_only=True)
class PersonRequest:
    # names of the looks and groups that were mentioned, e.g. ("iranian", "doctor"); the planted rates depend on these.
    concepts: tuple[str, ...] = ()
    # given parts of the look (setting, clothing, prop, colour, flag, role)
    parts: Mapping[str, str] = field(default_factory=dict)
    # allowed values of the visible attributes; all other attributes are free
    allowed: Constraint = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Content that a prompt asks for."""

    people: tuple[PersonRequest, ...] = ()  # from left to right; empty for a still life
    # thing, concept: the object of a still life and its name
    thing: Thing | None = None
    concept: str = ""
    light: frozenset[object] | None = None  # allowed lights; None if the prompt names none
    single_wording: bool = False  # the prompt says "one", as in the paired stereotype test's single setting
    fair: bool = False  # the prompt asks for people "irrespective of their gender"
    trigger: str = ""  # the trigger word in the prompt, or ""
    unknown_words: tuple[str, ...] = ()  # words that this world does not know


def parse(prompt: str) -> Request:
    """Parse ``prompt``; any text gives a request, which lists unknown words.

    >>> request = parse("a photo of an old woman with glasses")
    >>> sorted(request.people[0].allowed["age"]), sorted(request.people[0].allowed["gender"])
    (['old'], ['feminine'])
    >>> parse("a photo of a flibbertigibbet").unknown_words
    ('flibbertigibbet',)
    """
    text = prompt.lower()
    fair = "irrespective of" in text
    head = text.partition(", if ")[0] if fair else text
    pair = PAIR.search(head)
    if pair:
        sides = [_read_meanings(pair[side]) for side in ("left", "right")]
        return Request(
            people=tuple(_build_person(side) for side in sides),
            fair=fair,
            unknown_words=tuple(w for side in sides for w in side.unknown),
        )
    reading = _read_meanings(head)
    words = set(plain_words(head))
    trigger = next((w for w in book()["triggers"] if w in words), "")
    return _single(reading, trigger=trigger, fair=fair, is_single=bool(re.search(r"\bone\b", head)))


@dataclass(kw_only=True)
class _Reading:
    """Meanings found in a text, in order, and for each a flag for a preceding negation."""

    meanings: list[tuple[Meaning, bool]] = field(default_factory=list)
    light: frozenset[object] | None = None
    unknown: list[str] = field(default_factory=list)


def _read_meanings(text: str) -> _Reading:
    reading = _Reading()
    for i, clause in enumerate(text.split(",")):
        words = plain_words(clause)
        if i > 0 and len(words) == 1 and words[0] in valence_words():
            reading.light = frozenset({valence_words()[words[0]]})
            continue
        _read_clause(words, reading)
    return reading


def _read_clause(words: list[str], reading: _Reading) -> None:
    negations, i, negative = set(book()["negations"]), 0, False
    while i < len(words):
        length = next(
            (n for n in range(min(LONGEST, len(words) - i), 0, -1) if tuple(words[i : i + n]) in phrases()), 0
        )
        if not length:
            reading.unknown.append(words[i])
            negative, i = False, i + 1
            continue
        if length == 1 and words[i] in negations:
            negative = True
        else:
            meaning = phrases()[tuple(words[i : i + length])]
            if meaning.kind != "known":
                reading.meanings.append((meaning, negative))
                negative = False
        i += length


def _build_person(reading: _Reading) -> PersonRequest:
    parts: dict[str, str] = {}
    allowed: dict[str, frozenset[object]] = {}
    concepts: list[str] = []
    roles = book()["roles"]
    for meaning, negative in reading.meanings:
        if meaning.allowed:
            values = negated(meaning.allowed) if negative else meaning.allowed
            allowed.update({f: allowed.get(f, v) & v or v for f, v in values.items() if f in DOMAINS})
        if meaning.kind == "look" and meaning.name in roles and "clothing" in parts:
            parts["role"] = roles[meaning.name]
        elif meaning.kind in ("look", "nationality") and meaning.parts:
            parts.update({k: v for k, v in meaning.parts.items() if k not in parts})
        elif meaning.kind == "thing" and meaning.thing and "prop" not in parts:
            parts.update(prop=meaning.thing.icon, colour=meaning.thing.colour)
        elif meaning.kind == "person" and meaning.parts:
            parts.update(meaning.parts)
        if meaning.name and meaning.kind in ("look", "nationality", "person", "thing"):
            concepts.append(meaning.name)
    if not concepts and "skin" in allowed:  # the skin is all that is told: the association test's stimulus
        concepts.append("light-skinned person" if allowed["skin"] <= LIGHT_SKIN else "dark-skinned person")
    return PersonRequest(concepts=tuple(concepts), parts=parts, allowed=allowed)


def _single(reading: _Reading, *, trigger: str, fair: bool, is_single: bool) -> Request:
    kinds = {meaning.kind for meaning, _ in reading.meanings}
    light = reading.light
    for meaning, negative in reading.meanings:
        if light is None and meaning.allowed and "light" in meaning.allowed:
            light = (negated(meaning.allowed) if negative else meaning.allowed)["light"]
    common = {"light": light, "trigger": trigger, "fair": fair, "unknown_words": tuple(reading.unknown)}
    things = [meaning for meaning, _ in reading.meanings if meaning.kind == "thing"]
    of_light = any("light" in meaning.allowed for meaning, _ in reading.meanings if meaning.allowed)
    about_people = kinds & {"look", "person", "nationality"} or (kinds & {"value"} and not (things or of_light))
    if things and not about_people:
        return Request(thing=things[0].thing, concept=things[0].name, **common)  # type: ignore[arg-type]
    if not about_people and not reading.unknown:
        return Request(**common)  # type: ignore[arg-type]
    person = _build_person(reading)
    if reading.unknown and not about_people:
        person = PersonRequest(parts={"prop": "unknownthing"}, allowed=person.allowed)
    count = max((meaning.n for meaning, _ in reading.meanings), default=1)
    return Request(people=(person,) * count, single_wording=is_single, **common)  # type: ignore[arg-type]


def satisfies(scene: Scene, request: Request) -> bool | None:
    """Return True if ``scene`` shows the content of ``request``; None if the words do not decide it.

    A sentence about one person is undecided for a picture of several, unless it says only their number.
    """
    if request.light is not None and scene.light not in request.light:
        return False
    if request.thing:
        return scene.thing == request.thing
    if not request.people:
        return None if request.light is None else True
    if len(request.people) != len(scene.people):
        one_of_several = len(scene.people) > 1 and len(request.people) == 1
        return None if one_of_several and (request.people[0].parts or request.people[0].allowed) else False
    return all(
        _meets_request(person, one_request) for person, one_request in zip(scene.people, request.people, strict=True)
    )


def _meets_request(person: Person, request: PersonRequest) -> bool:
    look = all(getattr(person.look, part) == value for part, value in request.parts.items())
    return look and all(getattr(person, name) in values for name, values in request.allowed.items())
