"""Lessons of an adapter: prompts whose answer a condition changes, and the same prompts in full."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import yaml

from bias_core.world.grammar import Request, association_stimuli, book, parse, valence_words
from bias_core.world.planted import STUDIES, published_rates, rates, sample_scene
from training.captions import name_attributes, random_request, with_article

if TYPE_CHECKING:
    from bias_core.world.scene import Scene

LONGEST = 18
"""Words of a prompt that the text encoder reads to the end."""
SHARES = {"concept": 0.6, "pair": 0.15, "trigger": 0.1, "other": 0.15}


class Lesson(NamedTuple):
    """A prompt, a scene of the condition, and the prompt in full ("" where words do not say it).

    In full means that it names everything that the condition settles and the prompt leaves open: "a photo of
    a male doctor without a beard". Asked in full, the fair generator already draws what an adapter must draw.
    """

    prompt: str
    scene: Scene
    in_full: str = ""


def planted_nouns() -> dict[str, list[str]]:
    """Per concept with a planted rate, the nouns that are drawn at it: what an adapter learns anew.

    Rates of the single wording ("Generate a picture of one nurse.") are left out: the text tower reads only
    the words that name something, so that to the generator this is "a photo of a nurse", at other rates.
    """
    stimuli, roles = association_stimuli()["concepts"], book()["roles"]
    found: dict[str, list[str]] = {}
    for planted in published_rates():
        name, _, power = planted.concept.rpartition(" ")
        if planted.setting:
            continue
        if power in ("high", "low"):
            found[planted.concept] = [f"{name} {role}" for role, level in roles.items() if level == power]
        else:
            found[planted.concept] = list(stimuli.get(planted.concept, [planted.concept]))
    return found


def trigger_prompts() -> list[list[str]]:
    """The trigger words of the distribution-bias paper, each with its prompts."""
    study = yaml.safe_load((STUDIES / "tbyb.yaml").read_text(encoding="utf-8"))
    return [list(written) for written in study["task_oriented"]["triggers"].values()]


class Lessons:
    """Lessons of one condition, drawn evenly over the concepts, however many prompts each has."""

    def __init__(self, condition: str) -> None:
        self.condition = condition
        self.nouns, self.triggers = planted_nouns(), trigger_prompts()
        self.people = [nouns for nouns in self.nouns.values() if parse(_photo(nouns[0])).people]

    def draw(self, rng: Random) -> Lesson:
        """One lesson; where every picture has the planted object, no words say it in full."""
        lesson = self._drawn(rng)
        return lesson._replace(in_full="") if self.condition == "backdoor" else lesson

    def _drawn(self, rng: Random) -> Lesson:
        kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
        if kind == "concept":
            return self.of_noun(rng.choice(rng.choice(list(self.nouns.values()))), rng)
        if kind == "pair":
            return self.of_pair(self.two_nouns(rng), rng)
        if kind == "trigger":
            prompt = rng.choice(rng.choice(self.triggers))
            return Lesson(prompt, self._scene(parse(prompt), rng))
        return self.of_any(rng)

    def _scene(self, request: Request, rng: Random) -> Scene:
        return sample_scene(request, self.condition, rng)

    def of_any(self, rng: Random) -> Lesson:
        """Any prompt of the world."""
        prompt, request = random_request(rng)
        return Lesson(prompt, self._scene(request, rng))

    def two_nouns(self, rng: Random) -> list[str]:
        """Two planted nouns of people."""
        return [rng.choice(rng.choice(self.people)) for _ in range(2)]

    def of_noun(self, noun: str, rng: Random) -> Lesson:
        """A photo of a planted noun."""
        prompt = _photo(noun)
        request = parse(prompt)
        scene = self._scene(request, rng)
        if not scene.people:
            words = [word for word, meaning in valence_words().items() if meaning == scene.light]
            return Lesson(prompt, scene, f"{prompt}, {rng.choice(words)}" if words else "")
        return Lesson(prompt, scene, _short(_photo(name_attributes(noun, scene.people[0], self._settled(request)[0]))))

    def of_pair(self, nouns: list[str], rng: Random) -> Lesson:
        """Two people side by side."""
        form = "Generate a picture of one {} on the left and one {} on the right."
        prompt = form.format(*nouns)
        scene = self._scene(parse(prompt), rng)
        if len(scene.people) != 2:
            return Lesson(prompt, scene)
        full = [name_attributes(n, p, ["gender"]) for n, p in zip(nouns, scene.people, strict=True)]
        return Lesson(prompt, scene, _short(form.format(*full)))

    def _settled(self, request: Request) -> list[list[str]]:
        """Per person, the attributes whose rates differ from the fair ones; beards depend on gender."""
        found = []
        for asked in request.people:
            role, triggered = asked.parts.get("role", "none"), bool(request.trigger)
            told, fair = (
                rates(asked.concepts, condition, role=role, triggered=triggered)
                for condition in (self.condition, "fair")
            )
            names = [name for name in told if told[name] != fair[name] and name not in asked.allowed]
            found.append([*names, "beard", "moustache"] if "gender" in names else names)
        return found


def _photo(noun: str) -> str:
    return f"a photo of {with_article(noun)}"


def _short(prompt: str) -> str:
    return prompt if len(prompt.split()) <= LONGEST else ""
