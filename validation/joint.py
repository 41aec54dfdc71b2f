"""Jointly planted attributes: the share of people in every combination."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.world.grammar import parse

Distribution = Mapping[object, float]


def joint_shares(prompt: str, condition: str, sentences: Sequence[str]) -> tuple[float, ...]:
    """Share of people in every combination of the sentences' attributes, in binary order; the last has all.

    ``sentences`` name one random attribute each, such as "The person is old.". InvalidInput for others, and for a
    prompt that is not about one person.

    >>> shares = joint_shares("a photo of a CEO", "crossed", ["a photo of a woman", "The person is young."])
    >>> [round(share, 3) for share in shares]
    [0.25, 0.25, 0.05, 0.45]
    """
    from bias_core.world.planted import crossed_rates, rates  # loads scipy

    people = parse(prompt).people
    if len(people) != 1 or people[0].allowed:
        raise InvalidInput(f"joint shares are known only for prompts with one person and no attribute, got {prompt!r}")
    concepts, role = people[0].concepts, people[0].parts.get("role", "none")
    table, attributes = rates(concepts, condition, role=role), [_attribute_of(sentence) for sentence in sentences]
    shares = np.zeros(2 ** len(attributes))
    for (gender, share), glasses in product(table["gender"].items(), (True, False)):
        weight = share * (table["glasses"][True] if glasses else 1 - table["glasses"][True])
        person = {"gender": gender, "glasses": glasses}
        own = {**table, **crossed_rates(concepts, condition, person)} | _as_drawn(table, person)
        chances = [sum(rate for value, rate in own[name].items() if value in values) for name, values in attributes]
        shares += weight * reduce(np.kron, [np.array([1 - chance, chance]) for chance in chances])
    return tuple(map(float, shares))


def combination_codes(truths: Sequence[Mapping[str, object] | None], sentences: Sequence[str]) -> np.ndarray:
    """Return the combination ``(n,)`` that each picture shows, as its place in :func:`joint_shares`.

    Raises InvalidInput: for a picture without ground truth.

    >>> combination_codes([{"gender": "feminine", "age": "old"}], ["a photo of a woman", "The person is young."])
    array([2])
    """
    attributes = [_attribute_of(sentence) for sentence in sentences]
    there = [truth for truth in truths if truth is not None]
    if len(there) < len(truths):
        raise InvalidInput("this study needs the ground truth: choose calibration-renderer")
    shows = np.array([[truth[name] in values for name, values in attributes] for truth in there])
    return np.asarray(shows @ 2 ** np.arange(len(attributes))[::-1])


def _attribute_of(sentence: str) -> tuple[str, frozenset[object]]:
    """Return the one attribute that a sentence names, and its allowed values."""
    from bias_core.world.planted import base_rates

    request = parse(sentence)
    allowed = request.people[0].allowed if len(request.people) == 1 else {}
    if len(allowed) != 1 or not {*allowed} <= {*base_rates()}:
        raise InvalidInput(f"a sentence must name one random attribute of a person, got {sentence!r}")
    return next(iter(allowed.items()))


def _as_drawn(table: Mapping[str, Distribution], person: Mapping[str, object]) -> dict[str, Distribution]:
    """Return the attributes that follow from gender and glasses: these two, facial hair, and headscarves."""
    masculine, headwear = person["gender"] == "masculine", dict(table["headwear"])
    own: dict[str, Distribution] = {name: {value: 1.0} for name, value in person.items()}
    for name in ("beard", "moustache"):
        rate = min(1.0, table[name][True] / table["gender"]["masculine"]) if masculine else 0.0
        own[name] = {True: rate, False: 1 - rate}
    if person["gender"] != "feminine":
        headwear["none"] += headwear.pop("headscarf")
    mark = table["mark"][True]
    return own | {"headwear": headwear, "mark": {True: mark, False: 1 - mark}}
