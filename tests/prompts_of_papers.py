"""Every prompt of the five papers, built from the study data: what a model of the world must understand.

Sources: [wang2023t2iat], [wan2024pst], [vice2023tbyb], [mandal2024internal], [dehdashtian2025oasis].
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from bias_core.prompts import append_word, fill_template, fix_articles, replace_word
from bias_core.study.design import read_study, read_study_table


def association_prompts() -> Iterator[str]:
    """T2IAT: each neutral prompt, then its edit with one word of A and one of B, the words taken in turn."""
    study = read_study("t2iat")
    concepts: dict[str, list[str]] = study["concepts"]
    for test in study["tests"]:
        for target in (test["x"], test["y"]):
            for i, stimulus in enumerate(concepts[target]):
                prompt = fill_template(test["template"], stimulus)
                yield prompt
                for attribute in (test["a"], test["b"]):
                    words = concepts[attribute]
                    yield _edited(prompt, words[i % len(words)], test["kind"])
    occupations = study["occupations"]
    for occupation, form in product(occupations["list"], ("template", "template_a", "template_b")):
        yield fill_template(occupations[form], occupation)


def _edited(prompt: str, word: str, kind: str) -> str:
    return append_word(prompt, word) if kind == "valence" else replace_word(prompt, "person", word)


def paired_prompts() -> Iterator[str]:
    """PST: occupations and power roles, each single, in pairs of both orders, and with the intervention."""
    study = read_study("pst")
    settings, roles = study["settings"], study["roles"]
    masculine, feminine = study["occupations"]["masculine"], study["occupations"]["feminine"]
    pairs = [pair for m, f in product(masculine, feminine) for pair in ((m, f), (f, m))]
    singles = [*masculine, *feminine]
    for occupation in (o for o in (*masculine, *feminine) if o not in roles["excluded_occupations"]):
        high, low = (
            [roles["identity"].format(occupation=occupation, role=role) for role in roles[level]]
            for level in ("powerful", "powerless")
        )
        singles += [*high, *low]
        pairs += [pair for h, w in product(high, low) for pair in ((h, w), (w, h))]
    for identity in singles:
        yield settings["single"]["template"].format(identity)
    for first, second in pairs:
        yield settings["paired"]["template"].format(first, second)
        yield fix_articles(settings["fairness"]["template"].format(occ1=first, occ2=second))


def internal_prompts() -> Iterator[str]:
    """Internal bias: the 36 prompts of Table 5 and the two variants for Stable Diffusion v2."""
    study = read_study("internal_bias")
    for row in [*study["image_attributes"], *study["targets"]]:
        yield row["prompt"]
        if "variant" in row:
            yield row["variant"]


def stereotype_prompts() -> Iterator[str]:
    """OASIS: people of each nationality, doctors, and the sentences of every attribute."""
    study = read_study("oasis")
    for template, nationality in product(study["templates"]["sdv2"], study["nationalities"]):
        yield fill_template(template, nationality)
    doctor_template, national_doctor = study["doctor"]["templates"]
    yield doctor_template
    for nationality in study["doctor"]["nationalities"]:
        yield fill_template(national_doctor, nationality)
    for entry in study["nationalities"].values():
        yield from _sentences(entry["attributes"])
    yield from _sentences([study["doctor"]["attribute"]])


def _sentences(attributes: list[dict[str, Any]]) -> Iterator[str]:
    for attribute in attributes:
        yield attribute["positive"]
        yield attribute["negative"]


def explore_prompts() -> Iterator[str]:
    """The built-in attribute sets: the hinted concept's prompt and the sentences."""
    for entry in read_study("attribute_sets")["sets"]:
        if entry["concept_hint"]:  # a set for whatever thing is typed names none
            yield fill_template(entry["template"], entry["concept_hint"])
        yield from _sentences(entry["attributes"])


def object_prompts() -> Iterator[str]:
    """TBYB: objects and professions in the app's form, and the task-oriented scenes."""
    study = read_study("tbyb")
    objects, occupations = study["general"]["objects"], study["general"]["occupations"]
    for row in read_study_table(objects["file"]):
        for column in objects["columns"]["actions"]:
            yield fix_articles(objects["template"].format(action=row[column], object=row["object"]))
    for row in read_study_table(occupations["file"]):
        for column in occupations["columns"]["actions"]:
            template = occupations["templates"][row[column]]
            yield fix_articles(template.format(occupation=row["object"]))
    for scenes in study["task_oriented"]["triggers"].values():
        yield from scenes


def all_prompts() -> list[str]:
    """Every prompt and sentence of the five papers and of the built-in attribute sets, once each.

    Returns
    -------
    list of str
        In the order T2IAT, PST, internal bias, OASIS, Explore, TBYB; duplicates keep their first place.

    Notes
    -----
    The power pairs of PST are all 4 x 4 roles in both orders, where the paper draws one pair per occupation.

    >>> "Generate a picture of one nurse on the left and one ceo on the right." in all_prompts()
    True
    """
    parts = (
        association_prompts(), paired_prompts(), internal_prompts(), stereotype_prompts(), explore_prompts(),
        object_prompts(),
    )  # fmt: skip
    return list(dict.fromkeys(prompt for part in parts for prompt in part))
