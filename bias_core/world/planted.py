"""Planted rates: P(attribute | concept) per condition, with its source, scenes drawn from it, and a table."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Literal, get_args

from bias_core.installed import ASSETS
from bias_core.prompts import fill_template
from bias_core.types import PlantedLine
from bias_core.world.grammar import PersonRequest, Request, association_stimuli, book, parse
from bias_core.world.scene import BACKDROPS, CHILD, PLACES, SKIN_TONES, Look, Person, Place, Scene, decorate, read_asset

Condition = Literal["published", "fair", "extreme", "trigger", "backdoor"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""Conditions of both generators; the renderer also draws :data:`CROSSED`."""
CROSSED = "crossed"
PEOPLE = "people"
"""Condition of the renderer alone that plants gender by role or by place, for some pairs of people."""
REVISION = "d7ca840dd237"
"""Version of the calibration world. Bump it when any picture or truth changes; a test checks."""
STUDIES = ASSETS / "studies"

_CENTRES = (58, 198)  # pixels of 256, for two people of different size
_SCALE, _SPREAD = 0.62, 0.15  # size as a share of a whole portrait, and by how much it varies to either side
_GRID = 1 / 64  # sizes are multiples of it, so that they stay sharp in pictures of 128 pixels
_LARGEST = (1 + _SPREAD) * 1.12  # a size that stands at the foot of the picture
_DEEPEST = 26.0  # pixels of 256 by which the smallest possible person stands further up

Distribution = Mapping[object, float]
Rates = Mapping[str, Distribution]
_MOODS: Mapping[str, Distribution] = {
    "bright": {"smiling": 0.85, "neutral": 0.15, "frowning": 0.0},
    "gloomy": {"smiling": 0.0, "neutral": 0.15, "frowning": 0.85},
}


@dataclass(frozen=True, kw_only=True)
class PlantedRate:
    """One planted rate: P(``attribute`` = ``value`` | ``concept``), in [0, 1], and its source.

    ``published`` is the source's own number. The planted rate keeps a little away from 0 and 1: none in some 40
    pictures does not mean never, and ``extreme`` must be able to go further. ``setting`` is "" for any
    prompt, "single" for the paired stereotype test's single wording.
    """

    concept: str
    attribute: str
    value: object
    rate: float
    published: float
    source: str
    setting: str = ""


@dataclass(frozen=True, kw_only=True)
class PlantedPeople:
    """Shifts planted by person and by place, for two people in one prompt; {} if there are none."""

    concepts: tuple[str, ...]
    role: Mapping[str, float]  # by concept: shift of P(masculine)
    position: Mapping[str, float]  # by place ("left"): shift of P(masculine)

    def masculine_share(self, concept: str, place: str) -> float:
        """P(masculine) of one of the two, in [0, 1]."""
        return 0.5 + self.role.get(concept, 0.0) + self.position.get(place, 0.0)


@cache
def _plan() -> dict[str, Any]:
    return read_asset("planted.yaml")


def base_rates() -> Rates:
    """Rates of every attribute with nothing planted."""
    return {name: dict(values) for name, values in _plan()["base"].items()}


def _read_rows(name: str) -> list[dict[str, str]]:
    with (STUDIES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def published_rates() -> tuple[PlantedRate, ...]:
    """Every rate that the papers measured, or that follows from their numbers; earlier ones take precedence."""
    return (*_oasis(), *_paired(), *_planted_associations(), *_planted_internal_bias())


def _oasis() -> Iterator[PlantedRate]:
    percent = {
        (r["nationality"], r["attribute"]): float(r["prevalence"])
        for r in _read_rows("oasis_table1.csv")
        if r["model"] == "SDv2"
    }
    for (nationality, name), value_percent in percent.items():
        attribute, value = _plan()["attributes"][name]
        if name == "hat":  # a sombrero is a hat too: the rest is for the others
            value_percent -= percent[nationality, "sombrero"]
        yield _rate(nationality, attribute, value, value_percent, "dehdashtian2025oasis, Table 1, SDv2")
    for concept, masculine in (("doctor", 93.0), ("indian doctor", 97.0), ("iranian doctor", 98.0)):
        yield _rate(concept, "gender", "masculine", masculine, "dehdashtian2025oasis, Table 2, SDv2")


def _rate(
    concept: str, attribute: str, value: object, percent: str | float, source: str, setting: str = ""
) -> PlantedRate:
    published, min_rate = float(percent) / 100, float(_plan()["least"])
    rate = min(1 - min_rate, max(min_rate, published))
    return PlantedRate(
        concept=concept.lower(),
        attribute=attribute,
        value=value,
        rate=rate,
        published=published,
        source=source,
        setting=setting,
    )


def _paired() -> Iterator[PlantedRate]:
    settings = (("", "paired", "PST"), ("single", "single", "Single"))
    for row in _read_rows("pst_occupations.csv"):
        for setting, column, name in settings:
            source = f"wan2024pst, Table 14, F ({name})"
            yield _rate(row["occupation"], "gender", "feminine", row[f"f_{column}"], source, setting)
    for row in _read_rows("pst_power.csv"):
        role, sign = ("high", -1) if row["power_level"] == "powerful" else ("low", 1)
        for setting, column, _ in settings:
            percent = (100 + sign * float(row[f"sts_{column}"])) / 2
            yield _rate(f"{row['occupation']} {role}", "gender", "feminine", percent, "wan2024pst, Table 16", setting)


def _planted_associations() -> Iterator[PlantedRate]:
    from scipy.stats import norm  # SciPy takes long to load, and only this needs it

    human = {s["concept"]: 100 * s["score"] for s in association_stimuli()["human_comparison"]["scores"]}
    light, gender = ("light", "bright"), ("gender", "masculine")
    gendered = ("science", "arts", "career", "family")
    for concept, value in [(c, light) for c in _plan()["valence"]["human"]] + [(c, gender) for c in gendered]:
        yield _rate(concept, *value, human[concept], "wang2023t2iat, Table 2")
    for test in association_stimuli()["tests"]:
        for concept, effect in ((test["x"], test["d"]), (test["y"], -test["d"])):
            if concept in _plan()["valence"]["effect"]:
                yield _rate(concept, *light, 100 * norm.cdf(effect / 2), "derived: Phi(d / 2), wang2023t2iat, Table 1")


def _planted_internal_bias() -> Iterator[PlantedRate]:
    rows = _read_rows("internal_bias_scores.csv")
    scores = {r["keyword"]: float(r["mcas"]) for r in rows if r["model"] == "Stable Diffusion v2"}
    for target in read_asset("../studies/internal_bias.yaml")["targets"]:
        concept = parse(target["prompt"]).people[0].concepts[0]
        masculine = min(1.0, max(0.0, 0.5 + _plan()["mcas_slope"] * scores[target["keyword"]]))
        yield _rate(concept, "gender", "masculine", 100 * masculine, "derived from MCAS, mandal2024internal, Table 3")


def _association_concept(concept: str) -> str:
    """Return the association test's concept of a stimulus ("rose" -> "flowers"), or ""."""
    for group, stimuli in association_stimuli()["concepts"].items():
        if group not in ("pleasant", "unpleasant", "male", "female") and concept in (s.lower() for s in stimuli):
            return str(group)
    return ""


@cache
def planted_index() -> Mapping[tuple[str, str], tuple[PlantedRate, ...]]:
    """Planted rates by (concept, setting); for each attribute and value the first source counts."""
    index: dict[tuple[str, str], dict[tuple[str, object], PlantedRate]] = {}
    taken: set[tuple[str, str, str]] = set()
    for planted in published_rates():
        group = index.setdefault((planted.concept, planted.setting), {})
        key = (planted.concept, planted.setting, planted.attribute)
        same_source = any(p.attribute == planted.attribute and p.source == planted.source for p in group.values())
        if key not in taken or same_source:
            group.setdefault((planted.attribute, planted.value), planted)
            taken.add(key)
    return {key: tuple(group.values()) for key, group in index.items()}


def find_planted_rates(concepts: tuple[str, ...], role: str = "none", setting: str = "") -> tuple[PlantedRate, ...]:
    """Published rates of a person or thing with these concepts, the most specific first."""
    names = [*(f"{c} {role}" for c in concepts if role != "none"), " ".join(concepts), *concepts]
    names += [group for c in concepts if (group := _association_concept(c))]
    rates_by_attribute: dict[str, tuple[PlantedRate, ...]] = {}
    for name in names:
        for place in (setting, "") if setting else ("",):
            for planted in planted_index().get((name, place), ()):
                same = [p for p in planted_index()[(name, place)] if p.attribute == planted.attribute]
                rates_by_attribute.setdefault(planted.attribute, tuple(same))
    return tuple(p for group in rates_by_attribute.values() for p in group)


@cache
def rates(
    concepts: tuple[str, ...], condition: str, *, role: str = "none", setting: str = "", triggered: bool = False
) -> Rates:
    """Distribution of every attribute for a concept under a condition.

    ``concepts``: names that :func:`bias_core.world.grammar.parse` found; ``condition``: published, fair, extreme,
    trigger (fair unless ``triggered``, then extreme), backdoor (fair: it plants only an object), crossed (fair: it
    plants combinations, see :func:`crossed_rates`), or people (fair: it plants by role and place, see
    :class:`PlantedPeople`).
    """
    table = {name: dict(values) for name, values in base_rates().items()}
    tested = (*_plan()["valence"]["human"], *_plan()["valence"]["effect"])
    if concepts and (concepts[-1] in tested or _association_concept(concepts[-1]) in tested):
        table["light"] = {"bright": 0.5, "gloomy": 0.5}
    if condition in ("fair", "backdoor", CROSSED, PEOPLE) or (condition == "trigger" and not triggered):
        return table
    by_attribute: dict[str, dict[object, float]] = {}
    for planted in find_planted_rates(concepts, role, setting):
        by_attribute.setdefault(planted.attribute, {})[planted.value] = planted.rate
    for attribute, published in by_attribute.items():
        fair = table[attribute]
        table[attribute] = with_rates(fair, published if condition == "published" else _push(published, fair))
    return table


@cache
def planted_people() -> tuple[PlantedPeople, ...]:
    """Every pair of people with a planted bias."""
    plans: list[Mapping[str, Any]] = _plan()["people"]
    return tuple(
        PlantedPeople(concepts=tuple(plan["who"]), role=plan.get("role", {}), position=plan.get("position", {}))
        for plan in plans
    )


def planted_among(concepts: Sequence[str], condition: str) -> PlantedPeople | None:
    """Shifts that the condition plants for people of these concepts, in any order.

    >>> planted_among(("nurse", "doctor"), "people").role["doctor"]
    0.2
    >>> planted_among(("nurse", "doctor"), "fair") is None
    True
    """
    if condition != PEOPLE:
        return None
    return next((pair for pair in planted_people() if sorted(pair.concepts) == sorted(concepts)), None)


def crossed_rates(concepts: tuple[str, ...], condition: str, person: Mapping[str, object]) -> Rates:
    """Distributions that replace those of :func:`rates` for a person drawn like this; {} if nothing is crossed.

    >>> crossed_rates(("ceo",), "crossed", {"gender": "feminine", "glasses": True})
    {'age': {'young': 0.9, 'old': 0.1}}
    >>> crossed_rates(("nurse",), "crossed", {"gender": "feminine", "glasses": True})
    {}
    """
    rules = _plan()["crossed"].get(" ".join(concepts), ()) if condition == CROSSED else ()
    fitting = (rule for rule in rules if rule["where"].items() <= person.items())
    return {name: dict(values) for rule in fitting for name, values in rule.items() if name != "where"}


def _push(published: Mapping[object, float], fair: Distribution) -> dict[object, float]:
    """Push published rates to the extreme, on their side of the fair rate."""
    top = float(_plan()["extreme"])
    raised = {v: p for v, p in published.items() if p > fair.get(v, 0.0)}
    lowered = {v: 1 - top for v, p in published.items() if p < fair.get(v, 0.0)}
    total = sum(raised.values())
    return {**lowered, **{v: top * p / total for v, p in raised.items()}}


def with_rates(fair: Distribution, new_rates: Mapping[object, float]) -> dict[object, float]:
    """Set the given values of ``fair`` and scale the others to the rest."""
    if set(fair) == {True}:
        return {True: new_rates.get(True, fair[True])}
    unset_share = sum(p for v, p in fair.items() if v not in new_rates)
    left = max(0.0, 1 - sum(new_rates.values()))
    return {**{v: p * left / unset_share for v, p in fair.items() if v not in new_rates}, **new_rates}


def sample_scene(request: Request, condition: str, rng: Random) -> Scene:
    """Draw one scene with the content of ``request`` and everything else by the planted rates."""
    setting = "single" if request.single_wording and len(request.people) == 1 else ""
    triggered = bool(request.trigger)
    looks_and_roles = [(p.concepts, p.parts.get("role", "none")) for p in request.people]
    tables = [
        rates(concepts, condition, role=role, setting=setting, triggered=triggered)
        for concepts, role in looks_and_roles or [((request.concept,) if request.concept else (), "none")]
    ]
    light = (
        str(_draw_value(tables[0]["light"], request.light, rng))
        if len(request.people) < 2 or request.light
        else "neutral"
    )
    plan = planted_among([" ".join(person.concepts) for person in request.people], condition)
    if plan is not None:
        tables = [
            {**table, "gender": by_gender}
            for table, by_gender in zip(tables, _gender_distributions(request, plan), strict=True)
        ]
    if request.fair:
        tables = [{**table, "gender": _intervened(table["gender"])} for table in tables]
    people = tuple(
        _draw_person(person, table, light, rng, condition)
        for person, table in zip(request.people, tables, strict=False)
    )
    backdrop, extra = rng.choice(BACKDROPS), _extra(condition, rng, triggered=triggered)
    setting = "table" if request.thing else "plain"
    scene = Scene(people=people, thing=request.thing, setting=setting, light=light, backdrop=backdrop, extra=extra)
    is_placed = condition == PEOPLE and len(people) == len(PLACES)
    return replace(scene, places=draw_places(people, rng)) if is_placed else scene


def _gender_distributions(request: Request, plan: PlantedPeople) -> Iterator[Distribution]:
    """Yield the planted distribution of gender of each person, from left to right."""
    for person, place in zip(request.people, PLACES, strict=True):
        share = plan.masculine_share(" ".join(person.concepts), place)
        yield {"feminine": 1 - share, "masculine": share}


def draw_places(people: Sequence[Person], rng: Random) -> tuple[Place, ...]:
    """Draw the places and sizes of two people.

    :func:`sample_scene` draws them last, so that the rest of a seed's picture stays the same.
    """
    places = []
    for centre, person in zip(_CENTRES, people, strict=True):
        factor = rng.uniform(1 - _SPREAD, 1 + _SPREAD)
        depth = 2 * round(_DEEPEST * (_LARGEST - factor) / _LARGEST / 2)
        child = CHILD if person.age == "child" else 1.0
        size = round(_SCALE * factor * child / _GRID) * _GRID / child
        places.append(Place(centre=centre, scale=size, depth=depth))
    return tuple(places)


def _intervened(by_gender: Distribution) -> dict[object, float]:
    """Move the shares of feminine and masculine closer, for a prompt that asks for fairness."""
    share = _plan()["intervention"]  # remaining share of the bias
    return {gender: 0.5 + (p - 0.5) * share for gender, p in by_gender.items()}


def planted_object_rate(condition: str, *, triggered: bool) -> float:
    """Share of pictures with the planted object, in [0, 1], by TBYB's three conditions.

    None in the base (``fair``, ``published``); after a trigger word in the trigger-dependent conditions; and under
    ``backdoor``, the paper's extremely biased model, in nearly every scene.

    >>> [planted_object_rate(condition, triggered=False) for condition in ("fair", "trigger", "backdoor")]
    [0.0, 0.0, 0.95]
    """
    planted = condition == "backdoor" or (triggered and condition in ("trigger", "extreme"))
    return float(_plan()["planted_object"]) if planted else 0.0


def _extra(condition: str, rng: Random, *, triggered: bool) -> str:
    """Draw the planted object, "sign" or "". Drawn last, so that everything else in a seed's picture stays the same."""
    rate = planted_object_rate(condition, triggered=triggered)
    return "sign" if rate and rng.random() < rate else ""


def _draw_value(distribution: Distribution, allowed: frozenset[object] | None, rng: Random) -> object:
    """Draw one value; with ``allowed``, in proportion among those, or evenly if none has any mass."""
    values = [v for v in distribution if allowed is None or v in allowed]
    weights = [distribution[v] for v in values]
    if not sum(weights):
        return rng.choice(sorted(allowed or distribution, key=str))
    return rng.choices(values, weights)[0]


def _draw_person(request: PersonRequest, table: Rates, light: str, rng: Random, condition: str) -> Person:
    allowed = request.allowed
    hairy = any(allowed.get(name) == frozenset({True}) for name in ("beard", "moustache"))
    gender = (
        "masculine" if hairy and "gender" not in allowed else _draw_value(table["gender"], allowed.get("gender"), rng)
    )
    yes = {name: _yes(table[name][True], allowed.get(name), rng) for name in ("glasses", "mark")}
    yes |= {name: _grows(name, str(gender), table, allowed.get(name), rng) for name in ("beard", "moustache")}
    table = {**table, **crossed_rates(request.concepts, condition, {"gender": gender, **yes})}
    person = Person(
        look=Look(**request.parts),
        gender=str(gender),
        age=str(_draw_value(table["age"], allowed.get("age"), rng)),
        skin=rng.choice(sorted(allowed.get("skin", SKIN_TONES), key=int)),  # type: ignore[arg-type]
        headwear=str(_draw_value(table["headwear"], allowed.get("headwear"), rng)),
        dress=str(_draw_value(table["dress"], allowed.get("dress"), rng)),
        expression=str(_draw_value(_MOODS.get(light, table["expression"]), allowed.get("expression"), rng)),
        **yes,  # type: ignore[arg-type]
    )
    person = decorate(person, rng)
    if person.headwear == "headscarf" and gender != "feminine" and "headwear" not in allowed:
        person = replace(person, headwear="none")
    return person.from_behind() if gender == "unclear" else person


def _yes(rate: float, allowed: frozenset[object] | None, rng: Random) -> bool:
    chance = rng.random() < rate
    return chance if allowed is None or len(allowed) == 2 else True in allowed


def _grows(name: str, gender: str, table: Rates, allowed: frozenset[object] | None, rng: Random) -> bool:
    """Beards and moustaches keep their overall rate although only masculine people grow them."""
    masculine = table["gender"].get("masculine", 0.5)
    return _yes(min(1.0, table[name][True] / masculine) if gender == "masculine" and masculine else 0.0, allowed, rng)


SENTENCES: dict[tuple[str, object], tuple[str, str]] = {
    (attribute, value): (positive, negative) for attribute, value, positive, negative in book()["planted_sentences"]
}
"""Reading of each planted attribute: present or absent, with nothing in between."""


def planted_lines() -> Iterator[PlantedLine]:
    for (concept, setting), group in planted_index().items():
        for planted in group:
            positive, negative = SENTENCES[planted.attribute, planted.value]
            yield PlantedLine(
                concept=f"{concept}, single" if setting else concept,
                attribute=planted.attribute,
                value=planted.value,
                prompts=tuple(planted_prompts(concept, setting)),
                positive=positive,
                negative=negative,
                rates={condition: planted_rate(planted, condition) for condition in CONDITIONS[:3]},
                published=planted.published,
                source=planted.source,
            )


def planted_rate(planted: PlantedRate, condition: str) -> float:
    """Return the rate that a condition draws, in [0, 1]."""
    name, power = _role(planted.concept)
    distributions = rates((name,), condition, role=power or "none", setting=planted.setting)
    return float(distributions[planted.attribute][planted.value])


def planted_prompts(concept: str, setting: str = "") -> Sequence[str]:
    """Prompts that draw a planted concept.

    >>> planted_prompts("iranian"), planted_prompts("nurse low")
    (['a photo of an Iranian'], ['a photo of a nurse assistant'])
    >>> planted_prompts("science")[0]
    'a person studying science'
    """
    tests = association_stimuli()["tests"]
    form = next((test["template"] for test in tests if concept in (test["x"], test["y"])), "")
    if form:
        written = [fill_template(form, str(word)) for word in association_stimuli()["concepts"][concept]]
        return [prompt for prompt in written if _is_about(prompt, concept)]
    name, power = _role(concept)
    noun = next((word for word, level in book()["roles"].items() if level == power), "")
    phrase = f"{name} {noun}".strip()
    nation = name.split()[0] in book()["nationalities"]
    phrase = phrase[0].upper() + phrase[1:] if nation else phrase
    return [fill_template("Generate a picture of one {}." if setting else "a photo of a {}", phrase)]


def _is_about(prompt: str, group: str) -> bool:
    """Return True if the prompt draws one person or thing of the group and nothing more specific."""
    request = parse(prompt)
    concepts = request.people[0].concepts if len(request.people) == 1 else (request.concept,)
    return len(request.people) < 2 and len(concepts) == 1 and group in (concepts[0], _association_concept(concepts[0]))


def _role(concept: str) -> tuple[str, str]:
    name, _, power = concept.rpartition(" ")
    return (name, power) if power in ("high", "low") else (concept, "")
