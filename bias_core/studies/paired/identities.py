"""Identities of one's own: any two, or three in a picture, of whom each pair may carry the stereotype."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pandas as pd

from bias_core.annotation.tasks import SINGLE
from bias_core.errors import InvalidInput
from bias_core.metrics.paired_labels import checked_labels
from bias_core.metrics.paired_stereotype import stereotype_test_score
from bias_core.metrics.swapped import within_picture_difference
from bias_core.stats.effects import holm
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import setting, settings_class, settings_of
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudySettings, finding_mark, finding_rows, marks
from bias_core.studies.paired.labelling import LabellingOptions, PairOptions
from bias_core.studies.paired.pairs import (
    FEWEST_IN_ORDER,
    GENDERS,
    MORE_ASKED,
    alone_shot,
    ordered_shot,
    pair_shots,
    pairs_and_alone,
)
from bias_core.studies.paired.places import places_of_three, with_places
from bias_core.studies.paired.scores import (
    FAIRNESS,
    PAIRED,
    THREE,
    gap_finding,
    in_setting,
    paired_program,
    score_finding,
    score_intervals,
)
from bias_core.studies.reports.crossed import joined

TEXTS = ReportTexts(__file__)
SETTINGS = {PAIRED: "In pairs", FAIRNESS: "In pairs, asked to be fair", THREE: "In threes", SINGLE: "Alone"}
MOST_TOGETHER = 6  # identities of whom three stand together: 20 threes in six orders
_LONGEST = 80  # characters of an identity


@settings_class(frozen=True, kw_only=True)
class TwoOptions(PairOptions):
    """Of two identities of one's own."""

    fairness: bool = setting(True, "Also asked to be fair", "Draw the pair with the words that ask for fairness, too")


@settings_class(frozen=True, kw_only=True)
class ThreeOptions(PairOptions):
    """Who stands together, and how each is stereotyped."""

    masculine: tuple[str, ...] = setting(("ceo", "janitor"), "Masculine identities", "Stereotyped as masculine")
    feminine: tuple[str, ...] = setting(("secretary",), "Feminine identities", "Stereotyped as feminine")


def _checked_names(identities: Mapping[str, str], fewest: str) -> dict[str, str]:
    """The stereotype of each name, without spare spaces; InvalidInput for an empty or long name, or another word."""
    names = {" ".join(name.split()): looks for name, looks in identities.items()}
    if not all(names) or len(names) < len(identities):
        raise InvalidInput(f"{fewest} different identities are needed, such as CEO and assistant; got {[*identities]}")
    if long := [name for name in names if len(name) > _LONGEST]:
        raise InvalidInput(f"an identity has at most {_LONGEST} characters; {long[0][:20]!r} … has more")
    if unknown := set(names.values()) - set(GENDERS):
        raise InvalidInput(f"a stereotype is {' or '.join(GENDERS)}; got {', '.join(map(str, unknown))}")
    return names


def design_of_two(
    base: Design, identities: Mapping[str, str], *, n_paired: int, n_single: int, fairness: bool = True
) -> Design:
    """The design for two identities with the stereotype of each: "masculine" or "feminine", as whoever asks chooses.

    ``base`` is a design of the paired stereotype test: its prompts and questions are taken.

    InvalidInput: not two different identities, no such stereotype, or no picture.
    """
    names = _checked_names(identities, "two")
    if len(names) != 2:
        raise InvalidInput(f"two different identities are needed, such as CEO and assistant; got {identities}")
    if min(n_paired, n_single) < 1:
        raise InvalidInput(f"each order and each identity needs a picture; got {n_paired} and {n_single}")
    return Design(
        name="pst-two",
        title=f"Paired stereotype test, {' and '.join(names)}",
        kind="paired_two",
        reference="",  # no published study has these pictures
        where="",
        summary="Do two identities look as their stereotypes have it, side by side and alone.",
        data={**{key: base.data[key] for key in ("settings", "vqa")}, "identities": names},
        images_per_prompt=n_paired,
        options={name: base.options[name] for name in settings_of(LabellingOptions) if name in base.options}
        | {"single_images": n_single, "fairness": fairness},
    )


def shots_of_two(design: Design, settings: StudySettings) -> list[Shot]:
    """The pair in both orders, plain and with the intervention, and each alone."""
    first, second = design.data["identities"]
    shots = pairs_and_alone(design, [(first, second)], (first, second), settings.options.single_images)
    if settings.options.fairness:
        shots[2:2] = pair_shots(design, [(first, second)], design.images_per_prompt, FAIRNESS)
    return shots


def identities_of_three(_design: Design, settings: StudySettings) -> pd.DataFrame:
    """The stereotype of everybody who stands in a picture of three."""
    given = [(name, gender) for gender in GENDERS for name in getattr(settings.options, gender)]
    names = _checked_names(dict(given), "three")
    if len(names) < len(given) or not FEWEST_IN_ORDER <= len(names) <= MOST_TOGETHER or len(set(names.values())) < 2:
        raise InvalidInput(
            f"three to {MOST_TOGETHER} different identities are needed, of both stereotypes; got "
            f"{', '.join(f'{name} ({gender})' for name, gender in given) or 'none'}"
        )
    return pd.DataFrame({"stereotyped_gender": names})


def shots_of_three(design: Design, settings: StudySettings) -> list[Shot]:
    """Every three who are not all stereotyped alike in all six orders, and each alone."""
    stereotypes = identities_of_three(design, settings)["stereotyped_gender"]
    n = scaled(design.images_per_prompt, settings.scale, least=1)
    return [
        ordered_shot(design, order, n, THREE)
        for three in combinations(stereotypes.index, 3)
        if stereotypes[list(three)].nunique() > 1
        for order in permutations(three)
    ] + [
        alone_shot(design, name, scaled(settings.options.single_images, settings.scale, least=1))
        for name in stereotypes.index
    ]


def report_identities(_design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Scores of all together and of each, in every setting, how far settings differ, and which pairs carry them."""
    stereotypes = people.drop_duplicates("identity").set_index("identity")["stereotyped_gender"]
    chosen = " and ".join(f"{looks} for {name}" for name, looks in stereotypes.items())
    parts = {place: some for place in SETTINGS if len(some := in_setting(people, place))}
    everybody = "both identities" if len(stereotypes) == 2 else "all identities"
    findings = [
        score_finding(place, f"{SETTINGS[place]}, {everybody}", some, settings) for place, some in parts.items()
    ]
    for key, title, one, other, more in (
        ("gap", "Gap: in pairs minus alone", PAIRED, SINGLE, "more stereotyped in pairs"),
        ("gap", "Gap: in threes minus alone", THREE, SINGLE, "more stereotyped in threes"),
        ("difference", "Asked to be fair minus plain", FAIRNESS, PAIRED, MORE_ASKED),
    ):
        if one in parts and other in parts:
            findings.append(gap_finding(key, title, parts[one], parts[other], settings, more=more))
    pairs = pair_findings(parts[THREE], settings) if THREE in parts else []
    micro, by_place = (_scores_of_identities(people, settings, *further) for further in ((), ("position",)))
    order = {name: i for i, name in enumerate(stereotypes.index)}
    rows = micro.sort_values("identity", key=lambda names: names.map(order), kind="stable")
    groups = rows["setting"].map(SETTINGS)
    rows = rows.assign(group=groups, name=rows["identity"] + ", " + groups.str.lower())
    rows = rows.rename(columns={"STS": "value"})[["value", "low", "high", "name", "group"]].reset_index(drop=True)
    of_pairs = finding_rows(pairs, "pictures") if pairs else []
    own = Results(
        findings=(*findings, *pairs),
        tables=(
            *([TEXTS.table("pairs_of_three", of_pairs)] if pairs else []),
            TEXTS.table("micro", micro),
            TEXTS.table("orders", by_place),
        ),
        figures=(
            *([TEXTS.figure("pairs_of_three", pd.DataFrame(map(finding_mark, pairs)))] if pairs else []),
            TEXTS.figure("micro", rows),
        ),
        notes=(TEXTS.note("chosen", chosen=chosen),),
    )
    return joined(own, places_of_three(parts[THREE], settings)) if THREE in parts else own


def pair_findings(people: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """The score of every two of opposite stereotypes in pictures that show both, whoever stands beside them.

    p-values are of random signs of the two people's mean in each picture, corrected for looking at all pairs (Holm).
    """
    people = people.reset_index(drop=True)
    checked = checked_labels(people)
    conforms = people.assign(score=(2 * checked["conforms"] - 1).where(checked["usable"]))
    by_picture = conforms.pivot(index="image_id", columns="identity", values="score")
    stereotypes = people.drop_duplicates("identity").set_index("identity")["stereotyped_gender"]
    findings: list[Finding] = []
    p_values = []
    for both in combinations(stereotypes.index, 2):
        if stereotypes[list(both)].nunique() < 2:
            continue
        first, second = sorted(both, key=lambda name: GENDERS.index(stereotypes[name]))
        here = people[people["identity"].isin(both)]
        some = here[here.groupby("image_id")["identity"].transform("nunique") == 2]
        findings.append(score_finding(f"pair_{len(findings)}", f"{first} and {second}", some, settings))
        usable = by_picture[list(both)].dropna().mean(axis=1)
        p_value = np.nan if usable.empty else within_picture_difference(usable, rng=settings.seed).p_value
        p_values.append(p_value)
    corrected = holm([1.0 if np.isnan(p) else p for p in p_values])
    return [
        replace(one, p_value=None if np.isnan(p) else float(all_of_them))
        for one, p, all_of_them in zip(findings, p_values, corrected, strict=True)
    ]


def _scores_of_identities(people: pd.DataFrame, settings: StudySettings, *further: str) -> pd.DataFrame:
    scores = stereotype_test_score(
        people, by=["setting", "identity", "stereotyped_gender", *further], **score_intervals(settings)
    )
    order = {place: i for i, place in enumerate(SETTINGS)}
    scores = scores.sort_values("setting", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    return marks(scores, {ours: theirs for theirs, ours in _COLUMNS.items()})


_COLUMNS = {
    "setting": "setting",
    "identity": "identity",
    "position": "position",
    "stereotyped_gender": "stereotype",
    "n": "pictures",
    "score": "STS",
    "low": "low",
    "high": "high",
    "percent_feminine": "F",
    "percent_feminine_low": "F low",
    "percent_feminine_high": "F high",
    "coverage": "coverage %",
}


PROGRAMS = {
    "paired_two": paired_program(
        shots=shots_of_two,
        identities=lambda design, _settings: pd.DataFrame({"stereotyped_gender": design.data["identities"]}),
        report=report_identities,
        options=TwoOptions,
    ),
    "paired_three": paired_program(
        shots=shots_of_three,
        identities=identities_of_three,
        report=report_identities,
        options=ThreeOptions,
        more=with_places,
    ),
}
