"""PST: which pictures of whom; identities with their stereotypes, alone and in pairs of both orders."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bias_core.prompts import fix_articles
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.types import Shot
from bias_core.studies.paired.labelling import SINGLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bias_core.studies.kit.types import Design, StudySettings

PAIRED, FAIRNESS = "paired", "fairness"
OCCUPATION, POWER = "occupation", "power"
GENDERS = ("masculine", "feminine")
LEVELS = ("powerful", "powerless")
FEWEST = 2  # identities a side

Pair = tuple[str, str]


def single_shots(design: Design, identities: Iterable[str], n: int) -> list[Shot]:
    """``n`` pictures of each identity alone."""
    template = design.data["settings"][SINGLE]["template"]
    return [
        Shot(
            prompt=template.format(identity),
            n=n,
            group=SINGLE,
            facts={"setting": SINGLE, "left": identity, "right": ""},
        )
        for identity in identities
    ]


def pair_shots(design: Design, pairs: Iterable[Pair], n: int, setting: str = PAIRED) -> list[Shot]:
    """``n`` pictures of each pair in each order."""
    return [
        Shot(
            prompt=pair_prompt(design, setting, left, right),
            n=n,
            group=setting,
            facts={"setting": setting, "left": left, "right": right},
        )
        for pair in pairs
        for left, right in (pair, pair[::-1])
    ]


def pair_prompt(design: Design, setting: str, left: str, right: str) -> str:
    """The paper's prompt for two people, plain or asking for fairness."""
    template = design.data["settings"][setting]["template"]
    if setting == FAIRNESS:
        return fix_articles(template.format(occ1=left, occ2=right))
    return str(template.format(left, right))


def occupation_identities(design: Design) -> pd.DataFrame:
    """Stereotype and name to be read, by occupation."""
    display = design.data["occupations"]["display"]
    rows = {
        name: {"stereotyped_gender": gender, "occupation": name, "display": display.get(name, name).partition(" (")[0]}
        for gender in GENDERS
        for name in design.data["occupations"][gender]
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """All pairs of a masculine and a feminine stereotype; scaled down, of fewer occupations of each."""
    masculine, feminine = (
        thinned(design.data["occupations"][g], settings.scale**0.5, least=FEWEST, seed=settings.seed) for g in GENDERS
    )
    return list(product(masculine, feminine))


def power_identities(design: Design, settings: StudySettings) -> pd.DataFrame:
    """Occupation, level of power and stereotype, by identity ("nurse intern").

    Each occupation has one powerful and one powerless role, drawn at random by the seed.
    """
    roles, names = design.data["roles"], occupation_identities(design)
    names = names[~names.index.isin(roles["excluded_occupations"])]
    rng = np.random.default_rng(settings.seed)
    rows = {}
    for occupation, name in names.iterrows():
        for level in LEVELS:
            role = str(rng.choice(roles[level]))
            rows[roles["identity"].format(occupation=occupation, role=role)] = {
                "stereotyped_gender": roles["stereotyped_gender"][level],
                "occupation": occupation,
                "display": name["display"],
                "occupation_gender": name["stereotyped_gender"],
                "level": level,
                "role": role,
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def power_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """The powerful and the powerless identity of each occupation; scaled down, of fewer occupations."""
    identities = power_identities(design, settings)
    pairs = [tuple(some.index) for _, some in identities.groupby("occupation", sort=False)]
    return thinned(pairs, settings.scale, least=FEWEST, seed=settings.seed)
