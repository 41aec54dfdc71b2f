"""Scenes whose attributes are balanced and independent of everything: what the readers learn from."""

from collections.abc import Sequence
from random import Random

from bias_core.world.scene import (
    AGES,
    DRESSES,
    EXPRESSIONS,
    HAIR_COLOURS,
    HEADWEAR,
    LIGHTS,
    SKIN_TONES,
    Look,
    Person,
    Scene,
    Thing,
)
from bias_core.world.shapes import drawing

SHIRTS = ("red", "blue", "teal", "purple", "green", "orange", "pink", "gold", "wine", "lime", "grey", "white")
BACKDROPS = ("cream", "#e4e0ea", "#dde9e4", "#f2dfd3", "#dfe6ef", "#efe6c9")


def decorate(rng: Random) -> dict[str, object]:
    """What no prompt ever asks for: hair and shirt colour, the shade of a headdress."""
    return {"hair": rng.choice(HAIR_COLOURS), "shirt": rng.choice(SHIRTS), "shade": rng.randrange(4)}


def random_look(rng: Random) -> Look:
    """Any place, clothing and thing, unrelated to each other."""
    clothing = [c for c in drawing("clothing") if c not in DRESSES]
    prop = rng.choice(list(drawing("icons"))) if rng.random() < 0.75 else ""
    return Look(
        setting=rng.choice(list(drawing("settings"))),
        clothing=rng.choice(clothing),
        prop=prop,
        colour=rng.choice(SHIRTS),
        flag=rng.choice(list(drawing("flags"))) if rng.random() < 0.1 else "",
        role=rng.choice(("none", "none", "high", "low")),
    )


def balanced_person(rng: Random, look: Look) -> Person:
    """Every attribute present about half of the time, whatever the others are (women with beards too)."""
    return Person(
        look=look,
        gender=rng.choice(("feminine", "masculine")),
        age=rng.choice(AGES + AGES[1:]),
        skin=rng.choice(SKIN_TONES),
        beard=rng.random() < 0.4,
        moustache=rng.random() < 0.4,
        glasses=rng.random() < 0.5,
        headwear=rng.choice(("none", "none", "none", *HEADWEAR)),
        dress=rng.choice(("everyday", "everyday", *DRESSES)),
        mark=rng.random() < 0.35,
        expression=rng.choice(EXPRESSIONS),
        **decorate(rng),  # type: ignore[arg-type]
    )


def balanced_scene(
    rng: Random, looks: Sequence[Look] = (), things: Sequence[Thing] = (), *, pairs: float = 0.25
) -> Scene:
    """A pair (a share of ``pairs``), a still life (15 %) or a portrait of given or any looks and things."""

    def look() -> Look:
        return rng.choice(looks) if looks and rng.random() < 0.85 else random_look(rng)

    kind = rng.random()
    light = rng.choice(LIGHTS)
    extra = "sign" if rng.random() < 0.06 else ""
    backdrop = rng.choice(BACKDROPS)
    if kind < 0.85 - pairs:
        return Scene(people=(balanced_person(rng, look()),), light=light, extra=extra, backdrop=backdrop)
    if kind < 0.85:
        pair = (balanced_person(rng, look()), balanced_person(rng, look()))
        return Scene(people=pair, light=light if rng.random() < 0.4 else "neutral", backdrop=backdrop)
    thing = rng.choice(things) if things else Thing(icon=rng.choice(list(drawing("icons"))), colour=rng.choice(SHIRTS))
    return Scene(thing=thing, setting="table", light=light, extra=extra, backdrop=backdrop)
