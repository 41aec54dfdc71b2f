"""T2IAT's occupations (Fig. 3 and 4), and associations compared with people's choices (Table 2)."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import kendall_tau
from bias_core.measures.association import (
    association,
    association_beyond_even_mix,
    even_mix_association,
    mean_association,
)
from bias_core.measures.sequential import share_interval
from bias_core.papers.t2iat.report import (
    EVEN_MIX_NOTE,
    FEW_CONCEPTS_NOTE,
    TWO_SCALES_NOTE,
    describe_judges,
    occupations_headline,
    order_headline,
    words_headline,
)
from bias_core.papers.t2iat.study_tests import SETS, CrossingOptions, association_shots, names_of_tests
from bias_core.prompts import fill_template
from bias_core.report.arm_comparison import sets_sample, table_over_arms
from bias_core.report.claims import claim_columns, decide_claims, family_note, require_units, without_fixed_n
from bias_core.report.corrected import kappa_finding
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run, Steps
from bias_core.study.answer_fit import Questions
from bias_core.study.answers import count_answers, majority
from bias_core.study.design import ReportTexts
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Design,
    Finding,
    Results,
    Sample,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    finding,
    get_options,
    get_scored_pictures,
    intervals,
    marks,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate
from bias_core.values import setting, settings_class
from bias_core.wording import format_estimate, format_given, format_list, typeset

TEXTS = ReportTexts(__file__)
# A line of Table 2: concept, attributes a and b, the paper's score, test and side.
Line = Mapping[str, Any]
FEWEST = 2  # concepts that have an order
_FORMS = ("template", "template_a", "template_b")  # the prompts of an occupation, in the order of ``SETS``
_FEWEST = 2  # finished pictures of each, of a run that was stopped


@dataclass(frozen=True, kw_only=True)
class Leaning:
    """The association of an occupation's pictures."""

    singles: np.ndarray  # association of each neutral picture
    # mean of these less that of an even mix of the gendered pictures, and the mean: its null value is the even mix
    beyond: Estimate
    mean: Estimate
    claim: Claim  # of both, which is one test: all occupations are one family
    sample: Sample  # data of the mean


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Return, per occupation, neutral pictures and those of its two gendered descriptions."""
    occupations, n = design.data["occupations"], scaled(design.images_per_prompt, settings.scale)
    return [
        Shot(prompt=prompt, n=n, group=kind, facts={"occupation": name, "set": kind})
        for name in occupations["list"]
        for kind, form in zip(SETS, _FORMS, strict=True)
        for prompt in [fill_template(occupations[form], name)]
    ]


def _mean_association(means: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean associations of the means of targets, of A and of B."""
    targets, a, b = means
    return np.asarray((targets * (a - b)).sum(axis=1))


def _leanings(design: Design, settings: StudySettings, data: Run) -> Steps[dict[str, Leaning]]:
    """Return the association of each occupation, and of its neutral pictures."""
    rows = yield from data.embed(data.frame)
    leanings: dict[str, dict[str, Any]] = {}
    for name in design.data["occupations"]["list"]:
        mine = data.frame[data.frame["occupation"] == name]
        parts = [mine[mine["set"] == kind] for kind in SETS]
        if data.stopped and min(map(len, parts)) < _FEWEST:
            continue
        neutral, a, b = (rows[part.index] for part in parts)
        of_neutral, of_a, of_b = (list(part["unit"]) for part in parts)
        beyond = association_beyond_even_mix(neutral, a, b, confidence=settings.confidence)
        beyond = require_units(beyond, len(neutral))
        beyond = beyond if data.fixed_n else without_fixed_n(beyond)
        leanings[name] = {
            "singles": association(neutral, a, b),
            "beyond": beyond,
            "mean": beyond.scaled(1.0, even_mix_association(a, b)),
            "sample": sets_sample((of_neutral, of_a, of_b), (neutral, a, b), _mean_association),
        }
        data.keep(parts[0], association=leanings[name]["singles"])
    if not leanings:
        raise InvalidInput("no occupation has two finished pictures of each of its prompts")
    claims = decide_claims([facts["beyond"] for facts in leanings.values()], confidence=settings.confidence)
    return {name: Leaning(**facts, claim=claim) for (name, facts), claim in zip(leanings.items(), claims, strict=True)}


def _family_note(leanings: Mapping[str, Leaning]) -> str:
    return family_note([leaning.claim for leaning in leanings.values()], "occupations")


def _leaning_columns(leaning: Leaning, mean: str) -> dict[str, Any]:
    """Return the association of an occupation, its even mix, and what is claimed, as columns of a table."""
    return {
        **columns(mean, leaning.mean, ends=""),
        "even mix": leaning.mean.null_value,
        **columns("beyond it", leaning.beyond, ends="beyond"),
        **claim_columns(leaning.beyond, leaning.claim),
        "n": leaning.mean.n,
    }


def _leaning_finding(name: str, leaning: Leaning, says: str = "", **kwargs: Any) -> Finding:
    difference = format_estimate(leaning.beyond.value, leaning.beyond.low, leaning.beyond.high, n=leaning.beyond.n)
    unclear = f"No clear association: it differs from the even mix ({format_given(leaning.mean.null_value)}) by"
    unclear = "Too few pictures to tell." if leaning.claim.verdict == "too few" else f"{unclear} {difference}."
    return finding(
        name, name, "association", leaning.mean, says, claim=leaning.claim, sample=leaning.sample,
        readings=("Its pictures are closer to male.", "Its pictures are closer to female.", unclear),
        **kwargs,
    )  # fmt: skip


@settings_class(frozen=True, kw_only=True)
class JudgedOptions(CrossingOptions):
    """The tests that people judge, and the number of pictures."""

    n_images: int = setting(
        20, "Judged pictures", "Neutral pictures of each concept for people to judge", ge=1, le=10_000
    )
    tests: tuple[str, ...] = setting(
        ("flowers_insects", "instruments_weapons", "science_arts", "career_family"),
        "Tests",
        "Names of the tests to judge",
    )


def _letters(line: Line) -> dict[str, str]:
    """Return the letters of the possible answers: an attribute's name, or its letter; raters may mix both."""
    return {"a": "a", "b": "b", line["a"]: "a", line["b"]: "b"}


def _build_lines(design: Design, frame: pd.DataFrame) -> dict[str, Line]:
    """Return the lines of Table 2 with drawn concepts, by concept."""
    places = {test[side]: {"test": test["key"], "side": side} for test in design.data["tests"] for side in ("x", "y")}
    drawn = set(zip(frame["test"], frame["side"], strict=True)) if len(frame) else set()
    lines = {line["concept"]: line | places[line["concept"]] for line in design.data["human_comparison"]["scores"]}
    lines = {concept: line for concept, line in lines.items() if (line["test"], line["side"]) in drawn}
    if not lines:
        raise InvalidInput("people judged no concept of these tests, or none of its pictures can be scored")
    return lines


def _judged(design: Design, line: Line, pictures: pd.DataFrame, embedded: np.ndarray, data: Run) -> pd.DataFrame:
    """Return a concept's pictures with two answers: the classifier's and the ground truth, True for A.

    The classifier chooses the closer sentence. The ground truth is None if unknown, or neither A nor B.
    """
    comparison = design.data["human_comparison"]
    a, b = data.texts([comparison["sentences"][line[side]] for side in ("a", "b")])
    shown = [comparison["shown"][line[side]].items() for side in ("a", "b")]
    record: list[Any] = []
    for truth in data.truths(pictures):
        of_a, of_b = (truth is not None and side_items <= truth.items() for side_items in shown)
        record.append(of_a if of_a or of_b else None)
    return pictures.assign(concept=line["concept"], classifier=embedded @ (a - b) > 0, record=record)


def _read_majority(
    lines: Mapping[str, Line], judged: pd.DataFrame, answers: pd.DataFrame
) -> tuple[list[bool | None], list[str]]:
    """Return True for each picture if most raters chose A, None for a tie or no answer; and notes."""
    notes = [count_answers(answers)]
    answers = answers.merge(judged[["image_id", "concept"]])
    letters = [
        _letters(lines[concept])[answer] for answer, concept in zip(answers["answer"], answers["concept"], strict=True)
    ]
    by_picture = majority(answers.assign(answer=letters))
    if n_split := int((by_picture == "").sum()):
        notes.append(f"Raters are split on {n_split:,} of {len(by_picture):,} pictures, which count for neither side.")
    return [{"a": True, "b": False}.get(letter) for letter in judged["image_id"].map(by_picture)], notes


def _share_of_decided(choices: "pd.Series[Any]", settings: StudySettings) -> Estimate:
    decided = choices.dropna()
    if decided.empty:
        return Estimate.undefined(0, "no picture was decided", null_value=0.5)
    return share_interval(int(decided.sum()), len(decided), confidence=settings.confidence, null_value=0.5)


def _table2(
    design: Design,
    lines: Mapping[str, Line],
    shares: Mapping[str, Estimate],
    claims: Mapping[str, Claim],
    means: Mapping[str, Estimate],
) -> pd.DataFrame:
    """Return a line per concept; S of its test has the opposite sign for a concept Y, nan if the other is missing."""
    titles = design.data["titles"]
    values = {(line["test"], line["side"]): means[concept].value for concept, line in lines.items()}
    return pd.DataFrame(
        [
            {
                "concept": titles[concept],
                "attributes": f"{titles[line['a']]} / {titles[line['b']]}",
                "pictures": shares[concept].n,
                **columns("share", shares[concept]),
                **claim_columns(shares[concept], claims[concept]),
                "paper's share": float(line["score"]),
                **columns("association", mean),
                "even mix": mean.null_value,
                "signed S": mean.value - values.get((line["test"], "y" if line["side"] == "x" else "x"), math.nan),
                "prompts": mean.n,
            }
            for concept, line in lines.items()
            for mean in [means[concept]]
        ]
    )


def _compare_orders(design: Design, table2: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Return τ of means and choices, and τ as in the paper: S for each concept X, −S for each concept Y."""
    comparable = table2.dropna(subset=["share", "association"])
    if len(comparable) < FEWEST:
        return []
    correlation = kendall_tau(comparable["association"], comparable["share"], **intervals(settings))
    title = "Mean associations and choices, order of concepts"
    says = f"{len(comparable)} concepts. The paper's τ uses another score: see the next line."
    order = finding("order", title, "kendall_tau", correlation.tau, says)
    comparable = comparable.dropna(subset="signed S")
    if len(comparable) < FEWEST:
        return [order]
    tau = kendall_tau(comparable["signed S"], comparable["share"], n_resamples=2).tau
    note = "X and Y of a test have opposite values, so concepts are not independent and τ has no interval"
    tau = Estimate.without_interval(tau.value, tau.n, tau.note or note)
    title = "S (concept X), -S (concept Y) and choices, order of concepts"
    says = "This form of S in Table 1 gives 0.5455 against Table 2; the paper prints 0.55."
    published = float(design.data["human_comparison"]["kendall_tau"])
    return [order, finding("order_signed", title, "kendall_tau", tau, says, published=published)]


def _share_finding(design: Design, line: Line, share: Estimate, claim: Claim, expected: float | None) -> Finding:
    titles, concept = design.data["titles"], line["concept"]
    a, b = (titles[line[side]].lower() for side in ("a", "b"))
    about = f"Pictures of {titles[concept].lower()}"
    none = f"{about}: {'too few to tell' if claim.verdict == 'too few' else 'no clear difference'}."
    return finding(
        f"share_{concept}", f"{titles[concept]}, closer to {a} than to {b}", "attribute_prevalence", share, claim=claim,
        readings=(f"{about}: mostly {a}.", f"{about}: mostly {b}.", none),
        published=float(line["score"]), expected=expected,
    )  # fmt: skip


def _reader_against_people(judged: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    labels, title = judged[["classifier", "people"]], "Classifier against people"
    kappa = kappa_finding("kappa", title, labels, judged["image_id"], **intervals(settings))
    return [] if kappa is None else [kappa]


def _judged_frame(lines: Mapping[str, Line], judged: pd.DataFrame) -> pd.DataFrame:
    """Return the judged pictures, with each choice as the name of its attribute."""
    frame = judged[["image_id", "concept", "classifier", "people"]].reset_index(drop=True)
    frame.insert(2, "answers", [f"{lines[c]['a']} / {lines[c]['b']}" for c in frame["concept"]])
    for column in ("classifier", "people"):
        frame[column] = [
            "" if pd.isna(choice) else lines[concept]["a" if choice else "b"]
            for choice, concept in zip(frame[column], frame["concept"], strict=True)
        ]
    return frame


def _figures(table2: pd.DataFrame) -> tuple[StudyFigure, ...]:
    names = {"name": "concept", "group": "attributes"}
    shares = {"value": "share", "low": "share low", "high": "share high", "published": "paper's share"}
    places = {"x": "association", "xlow": "association low", "xhigh": "association high"}
    places |= {"y": "share", "ylow": "share low", "yhigh": "share high"}
    points = marks(table2, names | places).dropna(subset=["x", "y"])
    return TEXTS.figure("choices", marks(table2, names | shares)), TEXTS.figure("order", points)


_TESTED = ("even mix", "beyond it", "beyond low", "beyond high", "p", "p adjusted", "clear", "n")


class _OccupationStudy(Study):
    fewest_when_stopped = 1
    table: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]

    def shots(self, settings: StudySettings) -> list[Shot]:
        return occupation_shots(self.design, settings)

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        frame = table_over_arms(arms, self.table, ["occupation"], self.columns)
        return Results(tables=(TEXTS.table(f"{self.table}_arms", frame),))


class OccupationAssociations(_OccupationStudy):
    """T2IAT, Fig. 3: the association of each occupation's pictures."""

    kind = "occupation_associations"
    table = "occupations"
    columns = ("mean", "low", "high", *_TESTED)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        leanings = yield from _leanings(self.design, settings, data)
        sides = {name: side for side, names in self.design.data["occupations"]["leaning"].items() for name in names}
        findings, lines = [], []
        for name, leaning in leanings.items():
            findings.append(_leaning_finding(name, leaning))
            quartiles = map(float, np.quantile(leaning.singles, (0.25, 0.5, 0.75)))
            lines.append(
                {
                    "occupation": name,
                    **_leaning_columns(leaning, "mean"),
                    **dict(zip(("first quartile", "median", "third quartile"), quartiles, strict=True)),
                    "in the paper": sides.get(name, ""),
                }
            )
        points = [{"group": name, "value": value} for name, leaning in leanings.items() for value in leaning.singles]
        return Results(
            findings=tuple(findings),
            tables=(TEXTS.table("occupations", lines, clear=_family_note(leanings)),),
            figures=(TEXTS.figure("figure3", points),),
            notes=(EVEN_MIX_NOTE,),
        )

    def headline(self, report: StudyReport) -> str:
        return occupations_headline(report)


class Amplification(_OccupationStudy):
    """T2IAT, Fig. 4: the association of each occupation's prompt and of its pictures."""

    kind = "amplification"
    table = "amplification"
    columns = ("text", "image", "low", "high", *_TESTED, "same side")

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Compare Eq. 2 on the prompts' text embeddings with Eq. 2 on the pictures, for each occupation."""
        leanings = yield from _leanings(self.design, settings, data)
        occupations = self.design.data["occupations"]
        published = {row["occupation"]: row for row in occupations["amplification"]}
        findings, lines = [], []
        for name, leaning in leanings.items():
            texts = data.texts([fill_template(occupations[form], name) for form in _FORMS])
            text = float(association(*(row[None] for row in texts))[0])
            printed, says = published.get(name, {}), f"Association of its prompt: {typeset(text, '+.4f')}."
            findings.append(_leaning_finding(name, leaning, says, published=printed.get("image")))
            lines.append(
                {
                    "occupation": name,
                    "text": text,
                    **_leaning_columns(leaning, "image"),
                    "same side": leaning.beyond.value * text > 0,
                    "paper's text": printed.get("text"),
                    "paper's image": printed.get("image"),
                }
            )
        rows = marks(pd.DataFrame(lines), {"name": "occupation", "start": "text", "end": "image"})
        return Results(
            findings=tuple(findings),
            tables=(TEXTS.table("amplification", lines, clear=_family_note(leanings)),),
            figures=(TEXTS.figure("figure4", rows),),
            notes=(TWO_SCALES_NOTE, EVEN_MIX_NOTE),
        )

    def headline(self, report: StudyReport) -> str:
        """Say how many occupations' pictures agree with their words."""
        return words_headline(report)


class AssociationAndPeople(Study):
    """T2IAT, Table 2: associations compared with the choices of people."""

    kind = "association_and_people"
    options = JudgedOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return the first attribute of each test."""
        return {"attributes": format_list(names_of_tests(self.design, settings, "a", ""), " or ")}

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of association tests with judged concepts."""
        return association_shots(self.design, settings)

    def count_taken(self, settings: StudySettings, frame: pd.DataFrame) -> Mapping[str, Collection[int]]:
        """Return how many neutral pictures of a concept are judged: those asked for, or fewer if there are fewer."""
        group_sizes = frame[frame["set"] == SETS[0]].groupby(["test", "side"]).size()
        return {"n_images": group_sizes.clip(upper=get_options(settings, JudgedOptions).n_images).tolist()}

    def questions(self, settings: StudySettings, frame: pd.DataFrame, results: Results | None = None) -> Questions:
        """Return the attributes that a picture of a judged concept may be closer to."""
        lines = _build_lines(self.design, frame)
        concepts = {(line["test"], line["side"]): concept for concept, line in lines.items()}
        neutral = frame[frame["set"] == SETS[0]]
        of_pictures = [concepts.get(place, "") for place in zip(neutral["test"], neutral["side"], strict=True)]
        judged = neutral.assign(concept=of_pictures) if results is None else results.frame("judged")
        questions: dict[str, dict[str, list[str]]] = {}
        for image_id, concept in zip(judged["image_id"], judged["concept"], strict=True):
            if concept:
                words = [*_letters(lines[concept])]
                earlier = questions.get(image_id, {"": words})[""]  # a picture of two concepts has the words of both
                questions[image_id] = {"": [word for word in words if word in earlier]}
        return questions

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure the share judged closer to A and the mean association per concept, and the agreement of orders."""
        rows = yield from data.embed(data.frame)
        lines, rng = _build_lines(self.design, data.frame), np.random.default_rng(settings.seed)
        means, parts = {}, []
        for concept, line in lines.items():
            mine = data.frame[(data.frame["test"] == line["test"]) & (data.frame["side"] == line["side"])]
            sets = [mine[mine["set"] == kind] for kind in SETS]
            embedded = [rows[pictures.index] for pictures in sets]
            data.keep(sets[0], association=association(*embedded))
            prompts, *of_edits = (pictures["stimulus"].to_numpy(dtype=str) for pictures in sets)
            means[concept] = replace(
                mean_association(*embedded, groups=prompts, attribute_groups=of_edits, confidence=settings.confidence),
                null_value=even_mix_association(*embedded[1:]),
            )
            chosen = np.sort(rng.permutation(len(sets[0]))[: get_options(settings, JudgedOptions).n_images])
            parts.append(_judged(self.design, line, sets[0].iloc[chosen], embedded[0][chosen], data))
        judged = pd.concat(parts).assign(people=None)
        records = judged.groupby("concept")["record"]
        expected = {str(name): float(of.mean()) if of.notna().all() else None for name, of in records}
        return self._results(settings, lines, means, judged, expected, fixed_n=data.fixed_n)

    def correct(self, report: StudyReport, answers: pd.DataFrame, services: StudyServices) -> StudyReport:
        """Return the report with people's choices in place of the encoder's."""
        settings, results, lines = (
            report.settings,
            report.results,
            _build_lines(self.design, get_scored_pictures(report)),
        )
        table2 = results.frame("table2").set_index("concept")
        means = {}
        for concept in lines:
            row = table2.loc[self.design.data["titles"][concept]]
            low, high = float(row["association low"]), float(row["association high"])
            value, null_value = float(row["association"]), float(row["even mix"])
            means[concept] = Estimate(value=value, low=low, high=high, n=int(row["prompts"]), null_value=null_value)
        judged = results.frame("judged").copy()
        first = [lines[concept]["a"] for concept in judged["concept"]]
        judged["classifier"] = judged["classifier"] == first
        judged["people"], notes = _read_majority(lines, judged, answers)
        expected = {finding.key.removeprefix("share_"): finding.expected for finding in results.findings}
        new = self._results(settings, lines, means, judged, expected, by_people=True, fixed_n=not report.stopped)
        stay = [note for note in results.notes if note not in (self._judges(settings), *new.notes)]
        stale = ("order", "order_signed", "kappa")
        new = results.renewed(replace(new, notes=(*notes, *new.notes, *stay)), stale)
        return replace(report, results=new)

    def _judges(self, settings: StudySettings, *, by_people: bool = False) -> str:
        judges = "people, most votes win" if by_people else f"{settings.encoder}, by the closer sentence"
        return describe_judges(judges)

    def _results(
        self,
        settings: StudySettings,
        lines: Mapping[str, Line],
        means: Mapping[str, Estimate],
        judged: pd.DataFrame,
        expected: Mapping[str, float | None],
        *,
        by_people: bool = False,
        fixed_n: bool = True,
    ) -> Results:
        """Return the choices of people, or else of the encoder, next to the mean associations."""
        choices = judged["people" if by_people else "classifier"]
        shares = {name: _share_of_decided(choices[judged["concept"] == name], settings) for name in lines}
        tested = shares.values() if fixed_n else map(without_fixed_n, shares.values())
        decided = decide_claims([*tested], confidence=settings.confidence)
        claims = dict(zip(shares, decided, strict=True))
        table2 = _table2(self.design, lines, shares, claims, means)
        return Results(
            findings=(
                *_compare_orders(self.design, table2, settings),
                *(
                    _share_finding(self.design, line, shares[name], claims[name], expected[name])
                    for name, line in lines.items()
                ),
                *_reader_against_people(judged, settings),
            ),
            tables=(
                TEXTS.table("table2", table2, clear=family_note(decided, "shares")),
                TEXTS.table("judged", _judged_frame(lines, judged)),
            ),
            figures=_figures(table2),
            notes=(self._judges(settings, by_people=by_people), FEW_CONCEPTS_NOTE),
        )

    def family(self, finding: Finding) -> str | None:
        """Return None: nothing is claimed of agreements, which describe the same pictures twice."""
        return None

    def headline(self, report: StudyReport) -> str:
        """Say how well associations and choices agree."""
        return order_headline(report)
