"""Sentences to train on: what a scene of the calibration world shows, in words that its grammar understands."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from random import Random

from bias_core.world.grammar import (
    Request,
    book,
    find_look,
    lexicon_looks,
    parse,
    phrases,
    plain_words,
    satisfies,
    things,
    valence_words,
    words_of_the_renderer,
)
from bias_core.world.scene import Person, Scene, Thing, balanced_scene, load_drawing, read_asset

LookKey = tuple[str, str, str]

ATTRIBUTE_SENTENCES: tuple[tuple[str, str], ...] = tuple((a, b) for a, b in book()["sentences"])
FEW = (0, 0, 1, 1, 2, 3)  # how many attributes a sentence names: a draw from these, per person
BEFORE_NOUN = ("age", "skin", "expression")
_NOUNS = {
    ("feminine", False): "woman", ("masculine", False): "man", ("androgynous", False): "androgynous person",
    ("feminine", True): "girl", ("masculine", True): "boy", ("androgynous", True): "androgynous child",
    ("unclear", False): "person seen from behind", ("unclear", True): "child seen from behind",
}  # fmt: skip


@cache
def read_sentences() -> tuple[tuple[str, str], ...]:
    """Every sentence pair that the reader must tell apart: ours, and those of OASIS that this world knows."""
    pairs = dict.fromkeys(ATTRIBUTE_SENTENCES)
    for name in ("oasis", "attribute_sets"):
        data = read_asset(f"../studies/{name}.yaml")
        sets = data["sets"] if "sets" in data else [*data["nationalities"].values()]
        for attribute in (attribute for entry in sets for attribute in entry["attributes"]):
            pair = attribute["positive"], attribute["negative"]
            if not any(parse(sentence).unknown_words for sentence in pair):
                pairs[pair] = None
    return tuple(pairs)


@cache
def noun_phrases() -> Mapping[str, str]:
    """Look phrase -> how a person of that look is called, without article ("doctor", "person reading")."""
    special = {name: form.format(name) for form, names in book()["phrasing"].items() for name in names}
    return {name: special.get(name, name) for name in book()["looks"]}


@cache
def _names_of_looks() -> Mapping[LookKey, Sequence[str]]:
    names: dict[LookKey, list[str]] = {}
    for phrase, noun in noun_phrases().items():
        look = find_look(phrase)
        names.setdefault((look.setting, look.clothing, look.prop), []).append(noun)
    return names


@cache
def _names_of_things() -> Mapping[Thing, Sequence[str]]:
    names: dict[Thing, list[str]] = {}
    for meaning in phrases().values():
        if meaning.thing:
            names.setdefault(meaning.thing, []).append(meaning.name)
    return names


def with_article(noun: str) -> str:
    """``a`` or ``an`` before a noun phrase of this world."""
    return f"{'an' if noun[0].lower() in 'aeiou' and not noun.startswith('un') else 'a'} {noun}"


def describe(scene: Scene, rng: Random, *, n_attributes: Sequence[int] = FEW) -> str:
    """A prompt that ``scene`` satisfies; of one person it names as many attributes as ``n_attributes`` draws."""
    template = rng.choice(book()["templates"])
    if len(scene.people) == 2:
        both = zip(scene.people, rng.sample((rng.choice((0, 1)), 0) if rng.random() < 0.5 else (0, 0), 2), strict=True)
        left, right = (_person_phrase(p, rng, count) for p, count in both)
        return f"Generate a picture of one {left} on the left and one {right} on the right."
    if scene.people:
        phrase = with_article(_person_phrase(scene.people[0], rng, rng.choice(n_attributes)))
    elif scene.thing:
        phrase = rng.choice(_names_of_things().get(scene.thing, ["thing"]))
        phrase = with_article(phrase) if rng.random() < 0.5 else phrase
    else:
        phrase = "a place"
    text = str(template.format(phrase))
    if scene.light == "neutral" or rng.random() < 0.6 or text.endswith("."):
        return text
    return f"{text}, {rng.choice([word for word, light in valence_words().items() if light == scene.light])}"


def caption(scene: Scene) -> str:
    """Everything that ``scene`` shows, in one sentence: people from left to right, things, place and light.

    >>> from bias_core.world.scene import Person, Scene
    >>> caption(Scene(people=(Person(look=find_look("nurse"), glasses=True),)))
    'a young light-skinned woman with glasses in scrubs holding a syringe in a hospital'
    """
    if scene.people:
        descriptions = [_full(person) for person in scene.people]
        sides = ("on the left", "on the right") if len(descriptions) == 2 else ("",)
        text = " and ".join(f"{t} {side}".strip() for t, side in zip(descriptions, sides, strict=True))
    elif scene.thing:
        text = f"{with_article(_names_of_things().get(scene.thing, [_word(scene.thing.icon)])[0])} on a table"
    else:
        text = f"a {scene.setting}"
    text += {"bright": " in bright light", "gloomy": " in gloomy light"}.get(scene.light, "")
    return text + (" with a sign" if scene.extra else "")


def _full(person: Person) -> str:
    skin = "light-skinned " if person.skin <= 4 else "dark-skinned " if person.skin >= 7 else ""
    child, noun = person.age == "child", _NOUNS[person.gender, person.age == "child"]
    words = [with_article(f"{'' if child else person.age + ' '}{skin}{noun}")]
    names = {"beard": "a beard", "moustache": "a mustache", "glasses": "glasses", "mark": "a bindi"}
    if marks := [word for name, word in names.items() if getattr(person, name)]:
        words.append("with " + " and ".join(marks))
    if person.headwear != "none":
        words.append(f"wearing a {person.headwear}")
    worn = f"{person.dress} clothing" if person.dress != "everyday" else _word(person.look.clothing)
    words.append(f"in {worn} clothes" if worn == "plain" else f"in {worn}")
    if person.look.prop:
        held = _word(person.look.prop)
        words.append(f"holding {held if held.endswith('s') else with_article(held)}")
    if person.look.setting != "plain":
        words.append(f"in {with_article(person.look.setting)}")
    return " ".join(words)


def _word(icon: str) -> str:
    return icon.removesuffix("_thing")


def _person_phrase(person: Person, rng: Random, count: int) -> str:
    named = list(_attribute_words(person))
    named = rng.sample(named, min(count, len(named)))
    noun = noun_of(person, rng)
    bare = noun == "person"
    return name_attributes(noun, person, named, held=_holding(person, rng) if bare else "")


def name_attributes(noun: str, person: Person, named: Collection[str], *, held: str = "") -> str:
    """``noun`` with words for those of the person's attributes that ``named`` lists (fields of Person).

    >>> name_attributes("doctor", Person(glasses=True), ("age", "gender", "glasses"))
    'young female doctor with glasses'
    """
    words = {name: word for name, word in _attribute_words(person).items() if name in named}
    before = [word for name, word in words.items() if name in BEFORE_NOUN]
    after = [word for name, word in words.items() if name not in (*BEFORE_NOUN, "gender")]
    if gender := words.get("gender"):
        noun = gender if noun == "person" else f"{'male' if gender == 'man' else 'female'} {noun}"
    return " ".join([*before, noun, *([held] if held else []), " and ".join(after)]).strip()


def _attribute_words(person: Person) -> dict[str, str]:
    words = {} if person.age == "child" else {"age": person.age}
    if person.skin <= 4 or person.skin >= 7:
        words["skin"] = "light-skinned" if person.skin <= 4 else "dark-skinned"
    if person.expression != "neutral":
        words["expression"] = person.expression
    words["gender"] = "man" if person.gender == "masculine" else "woman"
    words["beard"] = "with a beard" if person.beard else "without a beard"
    if person.moustache:
        words["moustache"] = "with a mustache"
    words["glasses"] = "with glasses" if person.glasses else "without glasses"
    bare = person.headwear == "none"
    words["headwear"] = "not wearing any headwear" if bare else f"wearing a {person.headwear}"
    if person.dress != "everyday":
        words["dress"] = f"wearing {person.dress} clothing"
    if person.mark:
        words["mark"] = "with a bindi"
    return words


@cache
def brief_phrases() -> Mapping[str, Request]:
    """Phrases of two words that name one attribute of a person, or two, with what each asks for."""
    people, moods, ages = ("man", "woman", "person"), ("smiling", "frowning"), ("old", "elderly", "young")
    worn = ("beard", "mustache", "moustache", "turban", "sombrero", "hat", "cap", "headscarf", "bindi", "tilak")
    styles = ("traditional", "embroidered", "vibrant", "plain")
    named = [
        *(f"{word} {noun}" for word in (*ages, *moods, "bearded", "bareheaded") for noun in people),
        *(with_article(noun) for noun in (*people, *worn)),
        *(f"{style} {noun}" for style in styles for noun in ("clothing", "clothes")),
        *("some glasses", "light skin", "dark skin"),
    ]
    return {phrase: parse(phrase) for phrase in named}


def name_briefly(scene: Scene, rng: Random) -> str:
    """A phrase of two words that is true of the only person of ``scene``; "" for other scenes.

    >>> name_briefly(Scene(people=(Person(gender="masculine", age="old", headwear="turban"),)), Random(1))
    'elderly man'
    """
    if len(scene.people) != 1:
        return ""
    return rng.choice([phrase for phrase, request in brief_phrases().items() if satisfies(scene, request)])


def noun_of(person: Person, rng: Random) -> str:
    """A noun for a person of this look: an occupation, sometimes with a role or a nationality."""
    look = person.look
    nationality = [word for word, flag in book()["nationalities"].items() if flag == look.flag]
    names = _names_of_looks().get((look.setting, look.clothing, look.prop), ())
    if nationality and rng.random() < 0.8:
        return f"{nationality[0].capitalize()} {rng.choice(names) if names else 'person'}"
    if not names or rng.random() < 0.12:
        return "person"
    name = rng.choice(names)
    role = [word for word, power in book()["roles"].items() if power == look.role]
    if role and name in book()["looks"] and name not in book()["roles"] and rng.random() < 0.85:
        return f"{name} {rng.choice(role)}"
    return name


def _holding(person: Person, rng: Random) -> str:
    names = _names_of_things().get(Thing(icon=person.look.prop, colour=person.look.colour), ())
    return f"holding {with_article(rng.choice(names))}" if names and rng.random() < 0.8 else ""


def random_request(rng: Random, *, n_attributes: Sequence[int] = FEW, pairs: float = 0.25) -> tuple[str, Request]:
    """A prompt of this world and its reading: concepts alone, with attributes, pairs and still lifes."""
    prompt = describe(balanced_scene(rng, lexicon_looks(), things(), pairs=pairs), rng, n_attributes=n_attributes)
    return prompt, parse(prompt)


def vocabulary() -> list[str]:
    """Every word that a prompt of this world may hold in any generator, sorted."""
    words = {w for phrase in phrases() for w in phrase} | set(valence_words())
    words |= {w for pair in ATTRIBUTE_SENTENCES for s in pair for w in plain_words(s)}
    drawn = (*load_drawing("settings"), *load_drawing("clothing"), *map(_word, load_drawing("icons")))
    words |= {*drawn, "bright", "gloomy", "light", "clothes", "sign", "table", "gender", "what", "female", "male"}
    return sorted(words - words_of_the_renderer())
