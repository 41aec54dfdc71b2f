"""PST with words that ask for fairness: on pairs of the paper (Table 6), and on any two identities."""

from collections.abc import Mapping
from itertools import product

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.paired_stereotype import stereotype_test_score
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.setting_fields import setting, settings_class, settings_of
from bias_core.studies.kit.types import (
    Design,
    Finding,
    Results,
    Shot,
    StudySettings,
    StudyTable,
    figure,
    finding_mark,
    finding_rows,
    intervals,
    marks,
    table,
)
from bias_core.studies.paired.labelling import SINGLE, LabellingOptions, PairOptions
from bias_core.studies.paired.occupations import (
    FEWEST,
    GENDERS,
    OCCUPATION,
    POWER,
    Pair,
    occupation_identities,
    pair_shots,
    pairs_and_alone,
    power_identities,
    power_pairs,
)
from bias_core.studies.paired.scores import FAIRNESS, PAIRED, gap_finding, in_setting, paired_program, score_finding

ASPECTS = {OCCUPATION: "most stereotyped occupations", POWER: "organizational power"}
SETTINGS = {PAIRED: "In pairs", FAIRNESS: "In pairs, asked to be fair", SINGLE: "Alone"}
_MORE = "more stereotyped with the intervention"
_LONGEST = 80  # characters of an identity


@settings_class(frozen=True, kw_only=True)
class FairnessOptions(LabellingOptions):
    """Which pairs are drawn again with words that ask for fairness, and who labels."""

    aspects: tuple[str, ...] = setting(("occupation", "power"), "Aspects", "occupation, power, or both")
    masculine: tuple[str, ...] = setting((), "Masculine occupations", "To draw again; the paper's five where empty")
    feminine: tuple[str, ...] = setting((), "Feminine occupations", "To draw again; the paper's five where empty")
    power_images: int = setting(3, "Pictures of each pair of roles", "In each order", ge=1, le=1000)


@settings_class(frozen=True, kw_only=True)
class TwoOptions(PairOptions):
    """Of two identities of one's own."""

    fairness: bool = setting(True, "Also asked to be fair", "Draw the pair with the words that ask for fairness, too")


def fairness_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Every pair in both orders, plain and with the intervention, for each aspect asked for."""
    pairs = {OCCUPATION: _occupation_pairs(design, settings), POWER: power_pairs(design, settings)}
    n = {OCCUPATION: design.images_per_prompt, POWER: settings.options.power_images}
    return [
        shot
        for aspect, place in product(_aspects(settings), (PAIRED, FAIRNESS))
        for shot in pair_shots(design, pairs[aspect], n[aspect], place)
    ]


def _aspects(settings: StudySettings) -> list[str]:
    aspects = list(settings.options.aspects)
    if not aspects or (unknown := set(aspects) - set(ASPECTS)):
        raise InvalidInput(f"aspects are {' and '.join(ASPECTS)}; got {', '.join(unknown) if aspects else 'none'}")
    return aspects


def _occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    chosen = []
    for gender in GENDERS:
        names = getattr(settings.options, gender) or design.data["intervention"]["occupations"][gender]
        if unknown := set(names) - set(design.data["occupations"][gender]):
            choices = ", ".join(design.data["occupations"][gender])
            raise InvalidInput(f"{', '.join(sorted(unknown))}: {gender} occupations are {choices}")
        chosen.append(thinned(names, settings.scale**0.5, least=FEWEST, seed=settings.seed))
    return list(product(*chosen))


def fairness_identities(design: Design, settings: StudySettings) -> pd.DataFrame:
    """Stereotype and aspect of every occupation and role."""
    parts = {OCCUPATION: occupation_identities(design), POWER: power_identities(design, settings)}
    return pd.concat([part[["stereotyped_gender"]].assign(aspect=aspect) for aspect, part in parts.items()])


def report_fairness(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Scores with and without the intervention, and how far they differ."""
    findings = [f for aspect in _aspects(settings) for f in _of_aspect(design, people, aspect, settings)]
    title = "Scores with and without the intervention"
    rows = pd.DataFrame(map(finding_mark, findings)).astype({"published": float, "expected": float})
    caption = "An intervention that works moves the score to the line; one that overdoes it, across."
    axes = {"x": "stereotype test score, and their difference", "null": 0.0}
    return Results(
        findings=tuple(findings),
        tables=(table("table6", "Fairness intervention (Table 6)", finding_rows(findings, "pictures")),),
        figures=(figure("intervals", "intervention", title, rows, caption, **axes),),
        notes=(
            "Table 6 prints the intervened scores only; published plain ones are means of the same rows of "
            "Table 14, and Table 13's.",
            "The occupations are those that the paper's model stereotyped most. For another model name its "
            "own, found in other pictures than these: the most extreme of few pictures look less so when "
            "drawn again, with or without intervention.",
        ),
    )


def _of_aspect(design: Design, people: pd.DataFrame, aspect: str, settings: StudySettings) -> list[Finding]:
    some = people[people["aspect"] == aspect]
    plain, intervened = in_setting(some), in_setting(some, FAIRNESS)
    published, title = design.data["intervention"], ASPECTS[aspect]
    before = after = change = None
    if aspect == POWER or not any(getattr(settings.options, gender) for gender in GENDERS):
        key = {OCCUPATION: "occupation_top5", POWER: "power"}[aspect]
        before, after = published["plain"][key], published[key]
        change = after - before
    name = f"Intervened minus plain, {title}"
    return [
        score_finding(f"plain_{aspect}", f"Plain, {title}", plain, settings, published=before),
        score_finding(f"intervened_{aspect}", f"Intervened, {title}", intervened, settings, published=after),
        gap_finding(f"difference_{aspect}", name, intervened, plain, settings, published=change, more=_MORE),
    ]


def design_of_two(
    base: Design, identities: Mapping[str, str], *, n_paired: int, n_single: int, fairness: bool = True
) -> Design:
    """The design for two identities with the stereotype of each: "masculine" or "feminine", as whoever asks chooses.

    ``base`` is a design of the paired stereotype test: its prompts and questions are taken.

    InvalidInput: not two different identities, no such stereotype, or no picture.
    """
    names = {" ".join(name.split()): looks for name, looks in identities.items()}
    if len(names) != 2 or not all(names):
        raise InvalidInput(f"two different identities are needed, such as CEO and assistant; got {names}")
    if long := [name for name in names if len(name) > _LONGEST]:
        raise InvalidInput(f"an identity has at most {_LONGEST} characters; {long[0][:20]!r} … has more")
    if unknown := set(names.values()) - set(GENDERS):
        raise InvalidInput(f"a stereotype is {' or '.join(GENDERS)}; got {', '.join(map(str, unknown))}")
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
        options={name: base.options[name] for name in settings_of(LabellingOptions)}
        | {"single_images": n_single, "fairness": fairness},
    )


def shots_of_two(design: Design, settings: StudySettings) -> list[Shot]:
    """The pair in both orders, plain and with the intervention, and each alone."""
    first, second = design.data["identities"]
    shots = pairs_and_alone(design, [(first, second)], (first, second), settings.options.single_images)
    if settings.options.fairness:
        shots[2:2] = pair_shots(design, [(first, second)], design.images_per_prompt, FAIRNESS)
    return shots


def report_two(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Scores of both together and of each, in every setting, and how far the settings differ."""
    chosen = " and ".join(f"{looks} for {name}" for name, looks in design.data["identities"].items())
    parts = {place: some for place in SETTINGS if len(some := in_setting(people, place))}
    findings = [
        score_finding(place, f"{SETTINGS[place]}, both identities", some, settings) for place, some in parts.items()
    ]
    for key, title, one, other, more in (
        ("gap", "Gap: in pairs minus alone", PAIRED, SINGLE, "more stereotyped in pairs"),
        ("difference", "Asked to be fair minus plain", FAIRNESS, PAIRED, _MORE),
    ):
        if one in parts and other in parts:
            findings.append(gap_finding(key, title, parts[one], parts[other], settings, more=more))
    micro = _micro_table("micro", "Scores of each identity", people, settings)
    note = "Whether it matters who is asked for on the left."
    places = _micro_table("orders", "Scores by place in the picture", people, settings, "position", note=note)
    order = {name: i for i, name in enumerate(dict.fromkeys(micro.frame["identity"]))}
    rows = micro.frame.sort_values("identity", key=lambda names: names.map(order), kind="stable")
    groups, title = rows["setting"].map(SETTINGS), "Micro scores of both, in every setting"
    rows = rows.assign(group=groups, name=rows["identity"] + ", " + groups.str.lower())
    rows = rows.rename(columns={"STS": "value"})[["value", "low", "high", "name", "group"]].reset_index(drop=True)
    caption = "Right of the line: they look as the stereotype chosen for them has it more often than not."
    return Results(
        findings=tuple(findings),
        tables=(micro, places),
        figures=(figure("intervals", "micro", title, rows, caption, x="stereotype test score", null=0.0),),
        notes=(f"Whoever asked chose the stereotypes: {chosen}. The sign of a score follows that choice.",),
    )


def _micro_table(
    key: str, title: str, people: pd.DataFrame, settings: StudySettings, *further: str, note: str = ""
) -> StudyTable:
    by = ["setting", "identity", "stereotyped_gender", *further]
    scores = stereotype_test_score(people, by=by, **intervals(settings))
    order = {place: i for i, place in enumerate(SETTINGS)}
    scores = scores.sort_values("setting", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    frame = marks(scores, {ours: theirs for theirs, ours in _COLUMNS.items()})
    return table(key, title, frame, f"STS from -100 to 100; F: % perceived feminine. {note}".strip())


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
    "paired_fairness": paired_program(
        shots=fairness_shots, identities=fairness_identities, report=report_fairness, options=FairnessOptions
    ),
    "paired_two": paired_program(
        shots=shots_of_two,
        identities=lambda design, _settings: pd.DataFrame({"stereotyped_gender": design.data["identities"]}),
        report=report_two,
        options=TwoOptions,
    ),
}
