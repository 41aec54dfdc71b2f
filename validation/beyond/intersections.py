"""Repeated tests of crossed attributes: planted combinations are found, others are not claimed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bias_core.beyond.intersections.stereotypes import crossed_scores
from bias_core.errors import InvalidInput
from bias_core.measures.intersections import (
    CrossedShares,
    crossed_shares,
    crossed_stereotype,
    interaction,
    parity_signs,
)
from bias_core.measures.intervals import exact_interval
from bias_core.measures.stereotype import signed_difference_estimate
from bias_core.papers.pst.labelling import PairOptions
from bias_core.prompts import fill_template
from bias_core.report.claims import decide_claims
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Design, Finding, Shot, StudySettings, columns, finding, get_options
from bias_core.types import Estimate, ReaderErrors
from bias_core.values import setting, settings_class
from validation.joint import combination_codes, joint_shares
from validation.repetitions import POOL, PoolOptions, in_each_repetition, pool_of, pool_size, pools
from validation.verdicts import TEXTS, measured, results_of

CONDITIONS = ("fair", "crossed")
OF_THREE = "crossed, all three"
"""Group of pictures of the second condition with a three-way interaction and no two-way one."""
GROUPS = {"fair": "fair", "crossed": "crossed", OF_THREE: "crossed"}
"""Groups of pictures, with the condition of each."""
SIZES = (2, 3)
_WHAT = {2: "two attributes together", 3: "two of three attributes together"}
_ALL_THREE = "three attributes together"


@settings_class(frozen=True, kw_only=True)
class IntersectionOptions(PoolOptions):
    """Options of the repeated tests of crossed attributes."""

    conditions: tuple[str, ...] = setting(CONDITIONS, "Conditions", "Independent attributes, and planted combinations")


def _prompt(design: Design, group: str) -> str:
    return str(design.data["prompt_of_three" if group == OF_THREE else "prompt"])


def _planted_shares(design: Design, group: str, names: Sequence[str]) -> np.ndarray:
    """Planted share of people in every combination, with an axis of 2 for each attribute."""
    return np.reshape(joint_shares(_prompt(design, group), GROUPS[group], names), (2,) * len(names))


def _chances(codes: np.ndarray, planted: np.ndarray) -> np.ndarray:
    """Chance ``(n,)`` of each picture of a pool: every combination is drawn as often as planted, not as in the pool."""
    weights = planted[codes] / np.bincount(codes, minlength=len(planted))[codes]
    return np.asarray(weights / weights.sum())


def _tests(
    calls: np.ndarray, errors: Sequence[ReaderErrors | None], planted: np.ndarray, confidence: float
) -> Iterator[dict[str, Any]]:
    """Interaction of every two and all three attributes, with the planted one."""
    for of in (of for size in SIZES for of in combinations(range(calls.shape[1]), size)):
        shares = planted.sum(axis=tuple({*range(planted.ndim)} - {*of})).ravel()
        link = interaction(calls[:, of], errors=[errors[j] for j in of], confidence=confidence)
        theta = float(parity_signs(len(of)) @ np.log(shares))
        yield {"of": of, "planted": shares, "θ": theta, "link": link.estimate}


def _measurements(
    design: Design,
    calls: np.ndarray,
    errors: Sequence[ReaderErrors | None],
    claims: Sequence[dict[str, Any]],
    world: np.ndarray,
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """Interaction, excess and shares of the two related attributes, and of these with the third.

    ``world`` has the real-world rate of each single attribute.
    """
    pair = next(one for one in claims if _name(design, one["of"]) == _planted(design))
    where = {"condition": pair["condition"], "repetition": pair["repetition"]}
    yield _interaction(pair, _WHAT[2])
    for test in (one for one in claims if set(pair["of"]) <= set(one["of"])):
        of, shares, what = list(test["of"]), test["planted"], {**where, "planted": _WHAT[len(test["of"])]}
        crossed = crossed_shares(calls[:, of], errors=[errors[j] for j in of], confidence=confidence)
        each = [float(shares[crossed.cells[:, j] == 1].sum()) for j in range(len(of))]
        yield measured("joint_excess", crossed.excess_together, target=shares[-1] - math.prod(each), **what)
        alone = math.prod(world[of])
        difference = signed_difference_estimate(crossed.together, alone)
        yield measured("signed_difference", difference, target=shares[-1] - alone, **what)
        yield from _shares(crossed, shares, what)
        yield from _scores(design, calls[:, of], [errors[j] for j in of], shares, what, confidence)


def _interaction(test: dict[str, Any], what: str) -> dict[str, Any]:
    """Interval of an interaction with its planted value, all in one direction."""
    link, theta, condition = test["link"], test["θ"], GROUPS[test["condition"]]
    if what == _ALL_THREE:  # planted below 0
        link, theta = replace(link.scaled(-1.0), low=-link.high, high=-link.low), -theta
    where = {"condition": condition, "repetition": test["repetition"], "planted": what}
    return measured("interaction", link, target=theta, excluded=test["claimed"], **where)


def _shares(crossed: CrossedShares, planted: np.ndarray, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """P of every combination; for combinations that become rarer, the share of all others."""
    for place, (estimate, cell) in enumerate(zip(crossed.shares, crossed.cells, strict=True)):
        estimate, target = replace(estimate, value=float(crossed.shrunk[place])), float(planted[place])
        if cell[0] != cell[1]:
            estimate, target = estimate.scaled(-1.0, 1.0), 1 - target
            estimate = replace(estimate, low=estimate.high, high=estimate.low)
        yield measured("crossed_share", estimate, target=target, unit=str(place), **where)


def _scores(
    design: Design,
    calls: np.ndarray,
    errors: Sequence[ReaderErrors | None],
    planted: np.ndarray,
    where: dict[str, Any],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    """STS in every combination of the further attributes; for young people, who conform less, with the sign turned."""
    genders_of = planted.reshape(2, -1)
    side, genders = int(design.data["stereotyped"] == "feminine"), errors[0]  # what is read of a conforming person
    conforms = np.column_stack([calls[:, 0] == side, calls[:, 1:]]).astype(float)
    crossed = crossed_stereotype(
        conforms, errors=[genders.complement if genders and not side else genders, *errors[1:]], confidence=confidence
    )
    for place, (score, cell) in enumerate(zip(crossed.scores, crossed.cells, strict=True)):
        target = 200 * float(genders_of[side, place] / genders_of[:, place].sum()) - 100
        estimate = replace(score, value=float(crossed.shrunk[place]))
        if cell[0]:
            estimate, target = replace(estimate.scaled(-1.0), low=-estimate.high, high=-estimate.low), -target
        yield measured("crossed_stereotype", estimate, target=target, unit=str(place), **where)


def _identities(design: Design, condition: str) -> dict[str, dict[str, np.ndarray]]:
    """Planted shares of people ``(2, 2)``, by gender and the other attribute, for each stereotype and identity."""
    names = [design.data["attributes"][j]["positive"] for j in range(2)]
    return {
        gender: {
            who: np.reshape(joint_shares(fill_template("a photo of a {}", who), condition, names), (2, 2))
            for who in whose
        }
        for gender, whose in design.data["in_pairs"].items()
    }


def _in_pairs(
    design: Design, identities: Mapping[str, Mapping[str, np.ndarray]], settings: StudySettings, where: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """STS by further attributes of people in pairs, simulated from the planted shares without pictures."""
    other, n = design.data["attributes"][1], design.images_per_prompt
    also = f"{other['name']}|{other['positive']}|{other['negative']}"
    of_pairs = replace(settings, options=PairOptions(also_seen=(also,)))
    for k in range(int(design.data["sets_of_pairs"])):
        chance = np.random.default_rng([settings.seed, where["repetition"], CONDITIONS.index(where["condition"]), k])
        people = _people_by_lot(identities, n, f"seen: {other['name']}", chance)
        for one in crossed_scores(people, of_pairs, lambda _: None).findings:
            gender = next(gender for gender in identities if f"{gender}-stereotyped" in one.key)
            shares = np.mean(list(identities[gender].values()), axis=0)  # as many of each identity
            of_first = where | {"condition": CONDITIONS[0], "unit": f"{one.title} {k} {where['condition']}"}
            is_planted = gender == design.data["stereotyped"]
            here = where | {"unit": f"{one.title} {k}"} if is_planted else of_first
            yield _of_pairs(one, shares[:: -1 if gender == "feminine" else 1], is_planted, here)


def _of_pairs(one: Finding, shares: np.ndarray, is_planted: bool, where: dict[str, Any]) -> dict[str, Any]:
    """A score in pairs, or an interaction, with its target; the first row of ``shares (2, 2)`` is as stereotyped.

    An interaction of unlike identities has no single target, so only its p is given. Values that fall as more is
    planted have the sign turned.
    """
    is_score, cell = one.metric == "crossed_stereotype", int(one.key.endswith("1"))
    estimate = one.estimate if is_score else replace(one.estimate, low=math.nan, high=math.nan)
    target = 200 * float(shares[0, cell] / shares[:, cell].sum()) - 100 if is_score else math.nan
    if is_planted and (cell or not is_score):
        estimate, target = replace(estimate.scaled(-1.0), low=-estimate.high, high=-estimate.low), -target
    claimed = None if is_score else one.is_clear
    variant = "in pairs" if is_score else "in pairs, after Holm"
    return measured(one.metric, estimate, target=target, planted=_WHAT[2], variant=variant, excluded=claimed, **where)


def _people_by_lot(
    identities: Mapping[str, Mapping[str, np.ndarray]], n: int, column: str, chance: np.random.Generator
) -> pd.DataFrame:
    """Simulate the people of ``n`` pictures, one of each stereotype in each; equally many of every identity."""
    parts = []
    for position, (gender, shares) in zip(("left", "right"), identities.items(), strict=True):
        who = np.resize(list(shares), n)
        drawn = np.array([chance.choice(4, p=shares[one].ravel()) for one in who])
        facts = {"identity": who, "stereotyped_gender": gender, "setting": "paired", "position": position}
        looks = np.where(drawn // 2 == 1, "feminine", "masculine")  # the first attribute is that of a woman
        parts.append(pd.DataFrame({**facts, "perceived_gender": looks, column: drawn % 2}).assign(image_id=range(n)))
    return pd.concat(parts, ignore_index=True)


def _name(design: Design, of: Sequence[int]) -> str:
    return " × ".join(design.data["attributes"][j]["name"] for j in of)


def _planted(design: Design) -> str:
    return " × ".join(design.data["planted"])


def _claimed(claims: pd.DataFrame) -> pd.DataFrame:
    """Share of repetitions that claim each crossing, after correction for all tests of a repetition."""
    lines = []
    for (condition, attributes), rows in claims.groupby(["condition", "attributes"], sort=False):
        share = exact_interval(int(rows["claimed"].sum()), len(rows))
        there = abs(float(rows["θ"].iloc[0])) > 1e-9  # up to rounding
        lines.append(
            {
                "condition": condition,
                "attributes": attributes,
                "log odds ratio that is planted": float(rows["θ"].iloc[0]) if there else 0.0,
                **columns("claimed", share),
                "repetitions": len(rows),
                "is planted": there,
            }
        )
    return pd.DataFrame(lines)


_ENOUGH = "Should be 95 % or more."


def _findings(shares: pd.DataFrame) -> Iterator[Finding]:
    """Shares of planted combinations found, and of others claimed."""
    is_planted, of_three = shares["is planted"], shares["condition"] == OF_THREE
    for key, some, title, says in (
        ("found", shares[is_planted & ~of_three], "Repetitions in which the planted interaction is found", _ENOUGH),
        ("found-three", shares[is_planted & of_three], "Repetitions in which that of all three is found", _ENOUGH),
        ("claimed", shares[~is_planted], "Interactions claimed that are not planted", "Should be 5 % or less."),
    ):
        n = int(some["repetitions"].sum())
        count = round(float((some["claimed"] * some["repetitions"]).sum()))
        share = exact_interval(count, n) if n else Estimate.undefined(0, "nothing of this kind was drawn")
        yield finding(key, title, "interaction", share, says)


def _of_three(claims: pd.DataFrame) -> Finding:
    """Share of intervals of the three-way interaction that hold the planted value."""
    three = claims[claims["of"].map(len) == 3]
    rows = [(one, planted) for one, planted in zip(three["link"], three["θ"], strict=True) if not math.isnan(one.low)]
    n_held = sum(one.low - 1e-9 <= planted <= one.high + 1e-9 for one, planted in rows)
    share = exact_interval(n_held, len(rows)) if rows else Estimate.undefined(0, "three were never told apart")
    title = "Intervals that hold the interaction of three attributes"
    return finding("three", title, "interaction", share, f"Planted in one of three groups. {_ENOUGH}")


class ValidityIntersections(Study):
    """The study of the kind ``validity_intersections``."""

    kind = "validity_intersections"
    options = IntersectionOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """A pool of pictures of each group, on its own seeds."""
        options = get_options(settings, IntersectionOptions)
        if settings.images:
            raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
        if tuple(options.conditions) != CONDITIONS:
            raise InvalidInput(f"conditions are {', '.join(CONDITIONS)}; got {', '.join(options.conditions)}")
        n, pool = pool_size(self.design, settings), options.pool
        return pools(
            settings,
            [
                Shot(prompt=_prompt(self.design, group), n=n, group=group, condition=condition, first_seed=place * pool)
                for place, (group, condition) in enumerate(GROUPS.items())
            ],
        )

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Shares of combinations, excess and interaction of every two and all three attributes, in every repetition."""
        frame, attributes = data.frame.reset_index(drop=True), self.design.data["attributes"]
        rows = yield from data.embed(frame)
        pairs = [(one["positive"], one["negative"]) for one in attributes]
        texts = data.texts([sentence for pair in pairs for sentence in pair])
        calls = (rows @ (texts[0::2] - texts[1::2]).T > 0).astype(float)  # (n, n_attributes)
        errors = data.services.reader_errors(settings.encoder, settings.model, pairs)
        names = [positive for positive, _ in pairs]
        planted = {group: _planted_shares(self.design, group, names) for group in GROUPS}
        fair = planted[CONDITIONS[0]]  # where nothing goes together: each by itself
        world = np.array([fair.take(1, axis=j).sum() for j in range(len(pairs))])
        codes, claims = combination_codes(data.truths(frame), names), list[dict[str, Any]]()
        places_of = frame.groupby([POOL, "group"], sort=False).indices
        pairs_of = {condition: _identities(self.design, condition) for condition in CONDITIONS}

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            chance = np.random.default_rng([settings.seed, repetition])
            for group in GROUPS:
                at = places_of[pool_of(settings, repetition), group]
                chances = _chances(codes[at], planted[group].ravel())
                here = calls[chance.choice(at, size=self.design.images_per_prompt, p=chances)]
                tests = list(_tests(here, errors, planted[group], settings.confidence))
                decided = decide_claims([test["link"] for test in tests], confidence=settings.confidence)
                for test, claim in zip(tests, decided, strict=True):
                    where = {"condition": group, "repetition": repetition}
                    claims.append({**where, **test, "claimed": claim.is_clear})
                if group != CONDITIONS[1]:
                    yield _interaction(claims[-1], _ALL_THREE)  # the last crossing has all attributes
                if group != OF_THREE:
                    yield from _measurements(
                        self.design, here, errors, claims[-len(tests) :], world, settings.confidence
                    )
            for condition, identities in pairs_of.items():
                yield from _in_pairs(
                    self.design, identities, settings, {"condition": condition, "repetition": repetition}
                )

        measurements = yield from in_each_repetition(data, work)
        table = pd.DataFrame(claims).assign(attributes=lambda one: [_name(self.design, of) for of in one["of"]])
        results = results_of(
            pd.DataFrame(measurements),
            settings,
            notes=(TEXTS.note("planted together", n=pool_size(self.design, settings)),),
        )
        shares = _claimed(table)
        return replace(
            results,
            findings=(*_findings(shares), _of_three(table), *results.findings),
            tables=(*results.tables, TEXTS.table("claims", shares.drop(columns="is planted"))),
        )
