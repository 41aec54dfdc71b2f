"""PST on any two identities: side by side in both orders, alone, and with words that ask for fairness."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.paired_stereotype import stereotype_test_score
from bias_core.studies.program import Measuring, Program
from bias_core.studies.pst_labels import (
    SINGLE,
    LabellingOptions,
    PairOptions,
    check_labelling,
    keep_labels,
    label_people,
    labelled_only,
    labeller_ready,
    labelling_readers,
    people_of,
)
from bias_core.studies.pst_scores import (
    agreement,
    coverage_table,
    gap_finding,
    in_setting,
    labelled_by,
    labels_table,
    raters_table,
    score_finding,
)
from bias_core.studies.pst_shots import FAIRNESS, GENDERS, PAIRED, pair_shots, single_shots
from bias_core.studies.setting_fields import setting, settings_class, settings_of
from bias_core.studies.study_data import nothing_ahead
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.study_data import StudyData

SETTINGS = {PAIRED: "In pairs", FAIRNESS: "In pairs, asked to be fair", SINGLE: "Alone"}
LABELLING = tuple(settings_of(LabellingOptions))
_LONGEST = 80  # characters of an identity


@settings_class(frozen=True, kw_only=True)
class TwoOptions(PairOptions):
    """Of two identities of one's own."""

    fairness: bool = setting(
        True, "Also asked to be fair", "Draw the pair with the words that ask for fairness, too"
    )


def design_of_two(
    base: Design, identities: Mapping[str, str], *, n_paired: int, n_single: int, fairness: bool = True
) -> Design:
    """The design for two identities with the stereotype of each.

    Parameters
    ----------
    base : a design of the paired stereotype test: its prompts and questions are taken.
    identities : "masculine" or "feminine" by identity; a choice of whoever asks.
    n_paired : pictures in each order.
    n_single : pictures of each alone.
    fairness : also with the words that ask for fairness.

    Raises
    ------
    InvalidInput
        Not two different identities, no such stereotype, or no picture.
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
        options={
            "single_images": n_single,
            "fairness": fairness,
            **{name: base.options[name] for name in LABELLING},
        },
    )


def settings_for_two(settings: StudySettings) -> StudySettings:
    """The settings as that design takes them: all of its pictures, and no options of other studies."""
    options = {name: value for name, value in settings.options.items() if name in LABELLING}
    return replace(settings, scale=1.0, options=options)


def shots_of_two(design: Design, settings: StudySettings) -> list[Shot]:
    """The pair in both orders, plain and with the intervention, and each alone."""
    check_labelling(settings)
    first, second = design.data["identities"]
    intervened = [FAIRNESS] if settings.options.fairness else []
    return [
        *[
            shot
            for setting in (PAIRED, *intervened)
            for shot in pair_shots(design, [(first, second)], design.images_per_prompt, setting)
        ],
        *single_shots(design, (first, second), settings.options.single_images),
    ]


def measure_two(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Scores of both together and of each, in every setting, and how far the settings differ."""
    named = design.data["identities"]
    asked = people_of(data.frame, pd.DataFrame({"stereotyped_gender": named}, index=list(named)))
    people = yield from label_people(asked, design, settings, data)
    keep_labels(people, data)
    return score_two(design, settings, people, raters_table(asked, settings))


def score_two(
    design: Design, settings: StudySettings, asked: pd.DataFrame, raters: Sequence[StudyTable]
) -> Results:
    """All of it from labelled people."""
    people = labelled_only(asked)
    micro = _micro(people, settings)
    kappas, agreements = agreement(people, settings)
    chosen = " and ".join(f"{looks} for {name}" for name, looks in design.data["identities"].items())
    return Results(
        findings=(*_findings(people, settings), *kappas),
        tables=(
            _micro_table("micro", "Scores of each identity", micro),
            _micro_table(
                "orders", "Scores by place in the picture", _micro(people, settings, "position"),
                note="Whether it matters who is asked for on the left.",
            ),
            coverage_table(people, settings),
            *agreements,
            *raters,
            labels_table(asked),
        ),
        figures=(_figure(micro),),
        notes=(
            *labelled_by(people, settings, len(asked)),
            f"Whoever asked chose the stereotypes: {chosen}. The sign of a score follows that choice.",
        ),
    )  # fmt: skip


def _findings(people: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    parts = {setting: in_setting(people, setting) for setting in SETTINGS}
    parts = {setting: some for setting, some in parts.items() if len(some)}
    found = [
        score_finding(setting, f"{SETTINGS[setting]}, both identities", some, settings)
        for setting, some in parts.items()
    ]
    if PAIRED in parts and SINGLE in parts:
        found.append(gap_finding("gap", "Gap: in pairs minus alone", parts[PAIRED], parts[SINGLE], settings))
    if PAIRED in parts and FAIRNESS in parts:
        found.append(
            gap_finding(
                "difference", "Asked to be fair minus plain", parts[FAIRNESS], parts[PAIRED], settings,
                more="more stereotyped with the intervention",
            )
        )  # fmt: skip
    return found


def _micro(people: pd.DataFrame, settings: StudySettings, *further: str) -> pd.DataFrame:
    """A row per setting, identity and stereotype."""
    by = ["setting", "identity", "stereotyped_gender", *further]
    scores = stereotype_test_score(people, by=by, confidence=settings.confidence, rng=settings.seed)
    order = {setting: place for place, setting in enumerate(SETTINGS)}
    return scores.sort_values(
        "setting", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )


def _micro_table(key: str, title: str, micro: pd.DataFrame, note: str = "") -> StudyTable:
    columns = {
        "stereotyped_gender": "stereotype",
        "n": "pictures",
        "score": "STS",
        "percent_feminine": "F",
        "percent_feminine_low": "F low",
        "percent_feminine_high": "F high",
        "coverage": "coverage %",
    }
    kept = ["setting", "identity", *(["position"] if "position" in micro else []), "stereotype"]
    frame = micro.rename(columns=columns)[
        [*kept, "pictures", "STS", "low", "high", "F", "F low", "F high", "coverage %"]
    ]
    return StudyTable(
        key=key,
        title=title,
        frame=frame,
        note=f"STS from -100 to 100; F: % perceived feminine. {note}".strip(),
    )


def _figure(micro: pd.DataFrame) -> StudyFigure:
    rows: list[dict[str, Any]] = [
        {
            "name": f"{identity}, {SETTINGS[setting].lower()}",
            "group": SETTINGS[setting],
            **dict(zip(("value", "low", "high"), some[["score", "low", "high"]].iloc[0], strict=True)),
        }
        for identity, setting in product(dict.fromkeys(micro["identity"]), SETTINGS)
        if len(some := micro[(micro["identity"] == identity) & (micro["setting"] == setting)])
    ]
    return StudyFigure(
        key="micro",
        title="Micro scores of both, in every setting",
        kind="intervals",
        data=pd.DataFrame(rows),
        labels={"x": "stereotype test score", "null": 0.0},
        caption="Right of the line: they look as the stereotype chosen for them has it more often than not.",
    )


PROGRAMS = {
    "paired_two": Program(
        takes_labels=True,
        shots=shots_of_two,
        measure=measure_two,
        ready=labeller_ready,
        readers=labelling_readers,
        options=TwoOptions,
        ahead=nothing_ahead,
        rescore=score_two,
    )
}
