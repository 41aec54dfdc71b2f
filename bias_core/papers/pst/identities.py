"""Two identities of one's own, side by side and alone."""

from collections.abc import Mapping

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import stereotype_test_score
from bias_core.papers.pst.labelling import LabellingOptions, PairOptions
from bias_core.papers.pst.pairs import GENDERS, MORE_ASKED, pair_shots, pairs_and_alone
from bias_core.papers.pst.scores import (
    FAIRNESS,
    PAIRED,
    PairedStudy,
    gap_finding,
    in_setting,
    score_finding,
    score_intervals,
)
from bias_core.study.design import ReportTexts
from bias_core.study.label_tasks import SINGLE
from bias_core.study.setting_fields import setting, settings_class, settings_of
from bias_core.study.types import Design, Results, Shot, StudySettings, marks, options_in

TEXTS = ReportTexts(__file__)
SETTINGS = {PAIRED: "In pairs", FAIRNESS: "In pairs, asked to be fair", SINGLE: "Alone"}
_LONGEST = 80  # characters of an identity


@settings_class(frozen=True, kw_only=True)
class TwoOptions(PairOptions):
    """Of two identities of one's own."""

    fairness: bool = setting(True, "Also asked to be fair", "Draw the pair with the words that ask for fairness, too")


def design_of_two(
    base: Design, identities: Mapping[str, str], *, n_paired: int, n_single: int, fairness: bool = True
) -> Design:
    """The design for two identities with the stereotype of each: "masculine" or "feminine", as whoever asks chooses.

    ``base`` is a design of the paired stereotype test: its prompts and questions are taken.

    InvalidInput: not two different identities, no such stereotype, or no picture.
    """
    names = {" ".join(name.split()): looks for name, looks in identities.items()}
    if not all(names) or len(names) != 2:
        raise InvalidInput(f"two different identities are needed, such as CEO and assistant; got {[*identities]}")
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
        options={name: base.options[name] for name in settings_of(LabellingOptions) if name in base.options}
        | {"single_images": n_single, "fairness": fairness},
    )


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


class TwoIdentities(PairedStudy):
    """Two identities of the user's own, in pairs and alone."""

    kind = "paired_two"
    options = TwoOptions

    def pairs(self, settings: StudySettings) -> list[Shot]:
        """The pair in both orders, plain and with the intervention, and each alone."""
        options = options_in(settings, TwoOptions)
        first, second = self.design.data["identities"]
        shots = pairs_and_alone(self.design, [(first, second)], (first, second), options.single_images)
        if options.fairness:
            shots[2:2] = pair_shots(self.design, [(first, second)], self.design.images_per_prompt, FAIRNESS)
        return shots

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        """Return both identities."""
        return pd.DataFrame({"stereotyped_gender": self.design.data["identities"]})

    def report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Scores of both together and of each, in every setting, and how far settings differ."""
        stereotypes = people.drop_duplicates("identity").set_index("identity")["stereotyped_gender"]
        chosen = " and ".join(f"{looks} for {name}" for name, looks in stereotypes.items())
        parts = {place: some for place in SETTINGS if len(some := in_setting(people, place))}
        findings = [
            score_finding(place, f"{SETTINGS[place]}, both identities", some, settings) for place, some in parts.items()
        ]
        for key, title, one, other, more in (
            ("gap", "Gap: in pairs minus alone", PAIRED, SINGLE, "more stereotyped in pairs"),
            ("difference", "Asked to be fair minus plain", FAIRNESS, PAIRED, MORE_ASKED),
        ):
            if one in parts and other in parts:
                findings.append(gap_finding(key, title, parts[one], parts[other], settings, more=more))
        micro, by_place = (_scores_of_identities(people, settings, *further) for further in ((), ("position",)))
        order = {name: i for i, name in enumerate(stereotypes.index)}
        rows = micro.sort_values("identity", key=lambda names: names.map(order), kind="stable")
        groups = rows["setting"].map(SETTINGS)
        rows = rows.assign(group=groups, name=rows["identity"] + ", " + groups.str.lower())
        rows = rows.rename(columns={"STS": "value"})[["value", "low", "high", "name", "group"]].reset_index(drop=True)
        return Results(
            findings=tuple(findings),
            tables=(TEXTS.table("micro", micro), TEXTS.table("orders", by_place)),
            figures=(TEXTS.figure("micro", rows),),
            notes=(TEXTS.note("chosen", chosen=chosen),),
        )
