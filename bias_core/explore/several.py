"""Explore several concepts: the share of each attribute in the pictures of each, against its own real-world rate."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd

from bias_core.explore.arms import Scored, compare_explorations
from bias_core.explore.concepts import attributes_by_concept, read_counts
from bias_core.explore.exploration import ATTRIBUTES
from bias_core.explore.extension import MOST, SeveralOptions
from bias_core.explore.options import SEVERAL, several_options, several_words
from bias_core.explore.report import (
    NO_SOURCE,
    attribute_findings,
    attribute_table,
    picture_columns,
    share_mark,
    share_words,
)
from bias_core.explore.study import Explore, find_alike, get_units, keep_people, notes_on_pictures, score_cells
from bias_core.prompts import fill_template
from bias_core.report.claims import NO_CLAIM, p_words
from bias_core.report.report_text import CORRECTED
from bias_core.report.stop_rules import ShareValues
from bias_core.run.attribute_scores import AttributeScore, watch_attributes
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run, Steps
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Results,
    Sample,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    Verdict,
    drawable,
    figure,
    mark,
    or_nan,
)
from bias_core.types import Attribute, Estimate, is_sourced
from bias_core.values import Options
from bias_core.wording import format_list, format_points, format_rate, state_p

_SHOWN = ("p", "corrected", "true", "unclear", "difference")  # ends of the keys of a concept's numbers


class Concepts(Explore):
    """Measure the same attributes in pictures of several concepts."""

    kind = SEVERAL
    options: ClassVar[type[Options]] = SeveralOptions
    cell_columns = ("concept",)
    fewest_of_cell = 1
    most_cells = MOST
    largest_first = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        options = _options(settings)
        return [
            Shot(
                prompt=fill_template(options.template, concept), n=scaled(n, settings.scale), group=concept,
                facts={"concept": concept},
            )
            for concept, n in read_counts(options).items()
        ]  # fmt: skip

    def attributes_of_cells(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return attributes_by_concept(_options(settings))

    def attributes_of_cell(self, settings: StudySettings, cell: str, prompts: Iterable[str]) -> tuple[Attribute, ...]:
        return tuple(self.attributes_of_cells(settings)[cell])

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return self.attributes_of_cells(settings)

    def attributes_for_prompts(
        self, settings: StudySettings, prompts: Iterable[str]
    ) -> Mapping[str, Sequence[Attribute]]:
        return self.attributes_of_cells(settings)

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        return watch_attributes(self.attributes(settings), data, frame, of_groups=True)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure every attribute in the pictures of every concept, and find groups of similar pictures."""
        keep_people(data)
        frame, notes = _keep_finished_concepts(data, self.shots(settings))
        if frame.empty:
            return Results(notes=tuple(notes_on_pictures(data, 0, missing=False)))
        rows = yield from data.embed(frame)
        cells, late = yield from score_cells(self, data, frame, rows)
        alike = find_alike(_options(settings).n_clusters, settings, rows)
        of_all = cells.pop(ALL)
        data.keep(frame, number=range(1, len(frame) + 1), **picture_columns(of_all, None, alike))
        scored = _join_scored(frame, rows, of_all)
        samples = {
            id(score): _join_scored(frame.iloc[at], rows[at], scores)
            for concept, scores in cells.items()
            for at in [np.flatnonzero(frame["concept"] == concept)]
            for score in scores
        }

        def sample(end: str, score: AttributeScore) -> Sample | None:
            return samples[id(score)].sample(end, score)

        found = attribute_findings(
            cells, sample, settings.confidence, claimed=tuple(cells), ends=_SHOWN, decided=("p",)
        )
        names = [score.attribute.name for score in of_all]
        keys = [finding_key(cell, name, end) for end in _SHOWN for name in names for cell in cells]
        order = {key: place for place, key in enumerate(keys)}
        return Results(
            findings=tuple(sorted(found, key=lambda finding: order[finding.key])),
            tables=tuple(attribute_table(cells)),
            figures=drawable(concept_figures({"": cells})),
            notes=(*self.design.notes, *notes, *late, *notes_on_pictures(data, len(frame), missing=False)),
            scored=replace(scored, cells=cells),
        )

    def get_run_title(self, settings: StudySettings) -> str:
        options = _options(settings)
        return fill_template(options.template, format_list(options.concepts, last=" or ")) if options.concepts else ""

    def get_command(self, settings: StudySettings) -> Sequence[str]:
        """Return the words of ``explore``."""
        return several_words(settings)

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        n = len(_options(settings).concepts)
        begins = f"Takes your own pictures of {n} concepts" if settings.images else f"Draws {n} concepts"
        measured = "how often a classifier sees each attribute, and how far that is from each concept's real-world rate"
        return {"begins": f"{begins} and measures", "measured": measured}

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the shares of every concept in every arm, and the pictures of each seed."""
        differences = compare_explorations(settings, arms, are_before_and_after=True)
        cells = {arm.name: arm.results.scored.cells for arm in arms if isinstance(arm.results.scored, Scored)}
        return replace(differences, figures=drawable(concept_figures(cells)))

    def headline(self, report: StudyReport) -> str:
        """Return how many concepts differ from their rate, and the two farthest."""
        return concepts_headline(report)

    def arms_headline(self, report: StudyReport) -> str:
        """Return the largest difference between two arms, clear or not, and how many are clear."""
        return arms_headline(report)

    def corrected_headline(self, report: StudyReport) -> str:
        """Return the headline from the shares that people's labels correct; "" without these, or for several arms."""
        return "" if report.arms or report.results.frame(CORRECTED).empty else concepts_headline(report)

    def enlarged(
        self, settings: StudySettings, times: float, cells: Collection[str] = ()
    ) -> tuple[Study, StudySettings]:
        """Return ``times`` the smallest number of pictures for every concept that has fewer, or for ``cells`` only."""
        options = _options(settings)
        counts = read_counts(options)
        grown = {concept: n for concept, n in counts.items() if concept in (cells or counts)}
        wanted = min(MOST, math.ceil(times * min(grown.values(), default=0)))
        counts |= {concept: max(n, wanted) for concept, n in grown.items()}
        return self, replace(settings, options=with_counts(options, counts))


def with_counts(options: SeveralOptions, counts: Mapping[str, int]) -> SeveralOptions:
    """Return the options with these numbers of pictures, written as briefly as they can be."""
    usual = max(set(counts.values()), key=[*counts.values()].count)
    own_counts = tuple(f"{concept}|{n}" for concept, n in counts.items() if n != usual)
    return replace(options, n_images=usual, counts=own_counts)


def _options(settings: StudySettings) -> SeveralOptions:
    return several_options(settings) or SeveralOptions()


def _join_scored(frame: pd.DataFrame, rows: np.ndarray, scores: tuple[AttributeScore, ...]) -> Scored:
    return Scored(
        units=get_units(frame), ids=tuple(frame["image_id"]), seeds=tuple(frame["seed"]), rows=rows, scores=scores
    )


def _keep_finished_concepts(data: Run, shots: Sequence[Shot]) -> tuple[pd.DataFrame, list[str]]:
    """Return the pictures of the concepts that were finished before a stop, and notes on the others.

    Of a run that was stopped before its first concept was finished, and under a stop rule, all pictures are taken.
    """
    frame = data.frame.reset_index(drop=True)
    if not data.stopped or data.settings.may_stop_early or frame.empty:
        return frame, []
    finished = Counter(int(picture.unit.partition(":")[0]) for picture in data.drawn_pictures)  # the place of its shot
    whole = [shot.facts["concept"] for i, shot in enumerate(shots) if finished[i] >= len(data.rows.make_rows(shot))]
    if not whole:
        return frame, ["Stopped before the first concept was finished."]
    kept = frame[frame["concept"].isin(whole)].reset_index(drop=True)
    notes = [f"Stopped: {len(whole):,} of {len(shots):,} concepts were finished, and only these are scored."]
    if n_left := len(frame) - len(kept):
        notes.append(f"{n_left:,} pictures of the next concept are stored, but not scored.")
    return kept, notes


def arms_headline(report: StudyReport) -> str:
    """Say the largest difference of a share between two arms, clear or not, and how many are clear."""
    frame = report.results.frame("differences")
    shares = frame[frame["finding"].str.endswith(": P") & frame["p adjusted"].notna()] if len(frame) else frame
    if shares.empty:
        return "No share could be compared between the arms."
    clear = shares[shares["clear"] == "yes"]
    row = (shares if clear.empty else clear).sort_values("difference", key=abs, ascending=False).iloc[0]
    gap_words = "the largest" if clear.empty or len(clear) > 1 else "this one"
    p_value = state_p(row["p adjusted"], adjusted=len(shares) > 1)
    return (
        f"{len(clear)} of {len(shares)} differences between the arms are clear; {gap_words}: "
        f"{row['finding'].removesuffix(': P')}, {format_rate(row['value first'])} of “{row['first']}” and "
        f"{format_rate(row['value second'])} of “{row['second']}” pictures, "
        f"{format_points(row['difference'], row['low'], row['high'])}, "
        f"{p_value}."
    )


class ConceptShare(NamedTuple):
    """The share of an attribute in the pictures of one concept, with what it is compared with."""

    concept: str
    attribute: str
    share: Estimate
    rate: float | None
    source: str
    claim: Claim

    @property
    def gap(self) -> float:
        """The share less the rate; nan without a rate."""
        return math.nan if self.rate is None else self.share.value - self.rate


def list_concept_shares(report: StudyReport | ArmReport) -> dict[str, list[ConceptShare]]:
    """Return the shares of a report, or of one of its arms, by attribute, in the order of the concepts."""
    findings = {finding.key: finding for finding in report.results.findings}
    shares: dict[str, list[ConceptShare]] = {}
    for row in report.results.frame(ATTRIBUTES).to_dict("records"):
        concept, attribute = str(row["pictures of"]), str(row["attribute"])
        if concept == ALL:
            continue
        finding = findings.get(finding_key(concept, attribute, "p"))
        if finding is None or math.isnan(finding.estimate.value):
            continue
        rate = None if math.isnan(row["P*"]) else float(row["P*"])
        shares.setdefault(attribute, []).append(
            ConceptShare(concept, attribute, finding.estimate, rate, str(row["source of P*"] or ""),
                         finding.claim or NO_CLAIM)
        )  # fmt: skip
    return {name: [_apply_correction(result, report) for result in of] for name, of in shares.items()}


def _apply_correction(result: ConceptShare, report: StudyReport | ArmReport) -> ConceptShare:
    """Return a share as people's labels correct it, with its claim; unchanged if they do not."""
    frame = report.results.frame(CORRECTED)
    for row in (
        frame[frame["number"] == f"{result.concept}, {result.attribute}: P"].to_dict("records") if len(frame) else ()
    ):
        share = Estimate(value=row["corrected"], low=row["corrected low"], high=row["corrected high"], n=int(row["n"]))
        verdict: Verdict = "not tested" if math.isnan(row["p adjusted"]) else "not clear"
        if row["clear"] == "yes":
            verdict = "above" if share.value > (result.rate or 0.0) else "below"
        n_tests = int(frame.loc[frame["measure"] == row["measure"], "p adjusted"].notna().sum())
        claim = replace(result.claim, verdict=verdict, p_adjusted=row["p adjusted"], n_tests=n_tests)
        return result._replace(share=share, claim=claim)
    return result


def concepts_headline(report: StudyReport | ArmReport) -> str:
    """Say for how many concepts an attribute is clearly above and below its rate, then the two farthest.

    Only rates with a source are compared; without any, the highest and the lowest share of an attribute are given.
    """
    shares = list_concept_shares(report)
    if not shares:
        return "No picture could be scored."
    tested = {
        name: [result for result in of if result.rate is not None and is_sourced(result.source)]
        for name, of in shares.items()
    }
    name, compared = max(tested.items(), key=lambda one: len(one[1]))
    if not compared:
        return _extremes(shares)
    verdicts, n = Counter(result.claim.verdict for result in compared), len(compared)
    above, below = verdicts["above"], verdicts["below"]
    of = f"{n} concepts{' with a sourced rate' * (n < len(shares[name]))}"
    says = (
        f"“{name}” is clearly above the real-world rate for {above} of {of}, clearly below it for {below}, and not "
        f"clear for {n - above - below}."
        if above + below
        else f"For none of {of} does “{name}” differ clearly from the real-world rate."
    )
    farthest = sorted(compared, key=lambda one: (not one.claim.is_clear, -abs(one.gap)))[:2]
    n_others = sum(result.claim.is_clear for key, of_name in tested.items() if key != name for result in of_name)
    return (
        f"{says} Farthest: {'; '.join(map(_describe_share, farthest))}.{_correction(compared)}"
        + " Corrected by people’s labels." * (not report.results.frame(CORRECTED).empty)
        + f" {n_others} numbers of other attributes differ clearly." * (n_others > 0)
    )


def _describe_share(result: ConceptShare) -> str:
    p = f", {p_words(result.claim)}" if result.claim.is_clear else ", not clear"
    return f"{result.concept} {share_words(result.share)}, against {format_rate(result.rate)}{p}"


def _correction(compared: Sequence[ConceptShare]) -> str:
    claim = next((result.claim for result in compared if result.claim.n_tests > 1), None)
    return "" if claim is None else f" {claim.correction} for {claim.n_tests} tests."


def _extremes(shares: Mapping[str, Sequence[ConceptShare]]) -> str:
    """Return the highest and the lowest share of the attribute that differs most between the concepts."""
    name, of = max(shares.items(), key=lambda one: _share_range(one[1]))
    ordered = sorted(of, key=lambda one: -one.share.value)
    ends = ordered if len(ordered) < 3 else [ordered[0], ordered[-1]]
    said = "; ".join(f"{result.concept} {share_words(result.share)}" for result in ends)
    opening = "The highest and the lowest share" if len(ordered) > 2 else "The shares"
    return f"{opening} of “{name}”: {said}. {NO_SOURCE}"


def _share_range(shares: Sequence[ConceptShare]) -> float:
    values = [result.share.value for result in shares]
    return max(values) - min(values)


def concept_figures(arms: Mapping[str, Mapping[str, Sequence[AttributeScore]]]) -> Iterator[StudyFigure]:
    """Yield a figure of each attribute with a row for each concept, then all of them as a map.

    ``arms`` has the scores of each concept by the name of the arm; that of a single one is "".
    """
    names = dict.fromkeys(
        score.attribute.name for cells in arms.values() for scores in cells.values() for score in scores
    )
    several = len(arms) > 1
    for place, name in enumerate(names):
        yield figure(
            "pairs" if several else "intervals",
            f"shares {name}" if place else "shares",
            f"How often is “{name}” seen?",
            [
                share_mark(score, name=concept, **({"group": arm} if several else {"expected": or_nan(score.drawn)}))
                for arm, cells in arms.items()
                for concept, scores in cells.items()
                for score in scores
                if score.attribute.name == name and math.isfinite(score.prevalence.value)
            ],
            "A row for each concept. Dots are shares of its pictures, lines are intervals.",
            x="share of pictures",
            reference="real-world rate",
        )
    for arm, cells in arms.items():
        yield figure(
            "heatmap",
            f"concepts {arm}".strip(),
            f"Concepts and attributes{f', {arm}' if arm else ''}",
            [
                mark("", score.prevalence, row=concept, column=score.attribute.name)
                for concept, scores in cells.items()
                for score in scores
                if math.isfinite(score.prevalence.value)
            ],
            "Each cell is the share of a concept's pictures with the attribute.",
            unit="share of the concept's pictures",
        )
