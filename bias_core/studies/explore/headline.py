"""What stands out of an exploration, and of one in several arms."""

import math
from collections.abc import Sequence

from bias_core.number_text import format_rate, format_share, typeset
from bias_core.studies.arms.crossed import crossed_arms_headline
from bias_core.studies.explore.languages import LANGUAGES, languages_headline
from bias_core.studies.explore.mitigation import overcorrected_sentence
from bias_core.studies.explore.options import NO_WORDS
from bias_core.studies.explore.report import Exploration, is_exploration
from bias_core.studies.explore.results import ATTRIBUTES, CONCEPT, KINDS
from bias_core.studies.kit.attribute_scores import AttributeScore
from bias_core.studies.kit.types import StudyReport, lean, listed
from bias_core.studies.reports.crossed import crossed_headline
from bias_core.studies.reports.headline import differences_headline, numbers_headline
from bias_core.types import is_sourced

_NO_SOURCE = "No real-world rate with a source is known, so that nothing here is called too often or too rare."


def headline(report: StudyReport) -> str:
    """What stands out of one arm: of the attributes whose P* has a source the one that lies farthest from it."""
    if not is_exploration(report):
        return numbers_headline(report)
    exploration = Exploration(report)
    n = len(exploration.scored_numbers)
    if not n:
        return "There is no picture to score."
    further = crossed_headline(report.results.findings)
    if not exploration.attributes:
        return f"{n} pictures of “{exploration.prompt}”.{further or ' No attribute was asked for.'}"
    return shares_headline(exploration.attributes) + further


def shares_headline(attributes: Sequence[AttributeScore]) -> str:
    """Of attributes: what departs from a P* with a source; without any the shares, against nothing."""
    measured = [score for score in attributes if not math.isnan(score.prevalence.low)]
    if not measured:
        return f"No attribute could be measured: {attributes[0].prevalence.note or 'no picture was scored'}."
    compared = [score for score in measured if score.attribute.has_source]
    if not compared:
        first, *others = measured
        shares = [f"“{one.attribute.name}” in {_share_words(one)}" for one in others]
        return f"“{first.attribute.name}” is seen in {listed([_share_words(first), *shares])}. {_NO_SOURCE}"
    lead, some = max(compared, key=_departure), len(compared) < len(attributes)
    rate = f"the rate in the world, {format_rate(lead.attribute.reference)}"
    share = f"“{lead.attribute.name}” is seen in {_share_words(lead)}"
    which = "attribute with a sourced rate departs" if some else "attribute departs"
    rest = _rest(compared, " with a sourced rate" if some else "")
    return {
        "above": f"{share}, more than {rate}.{rest}",
        "below": f"{share}, less than {rate}.{rest}",
        "within": f"No {which} clearly from the rate in the world. Farthest: {share}, against {rate}.",
    }[verdict(lead)]


def _share_words(score: AttributeScore) -> str:
    share = score.prevalence
    return f"{format_share(share.value, share.low, share.high, n=share.n)} of {share.n} pictures"


def arms_headline(report: StudyReport) -> str:
    """What a comparison of explorations found, in some sentences: the clearest share, then who overcorrects."""
    if len(languages := report.results.frame(LANGUAGES)):
        return languages_headline(languages)
    together = crossed_arms_headline(report.results.findings)
    return _differences_of_arms(report) + together + overcorrected_sentence(report.results)


def _differences_of_arms(report: StudyReport) -> str:
    frame = report.results.frame("differences")
    if frame.empty or not frame["p adjusted"].notna().any():
        return differences_headline(report, frame)
    frame = frame[~frame["finding"].isin(_against_assumed_rates(report))]
    shares = frame[frame["finding"].str.endswith(f": {KINDS['p'].label}")]
    clear = shares[shares["clear"] == "yes"]
    n_clear = int((frame["clear"] == "yes").sum())
    if not n_clear:
        reach = (shares["high"] - shares["low"]).max() / 2 if len(shares) else math.nan
        wide = f" With {frame['n'].max()} seeds a gap of up to about {100 * reach:.0f} points can hide."
        return differences_headline(report, frame) + (wide if reach > 0 else "")
    if clear.empty:
        return differences_headline(report, frame)
    row = clear.sort_values("difference", key=abs, ascending=False).iloc[0]
    name = row["finding"].rpartition(": ")[0]
    gap = [typeset(100 * row[end], "+.0f") for end in ("difference", "low", "high")]
    return (
        f"“{name}” is seen in {format_rate(row['value first'])} of the pictures of “{row['first']}” and in "
        f"{format_rate(row['value second'])} of “{row['second']}”, on the same {row['n']} seeds: "
        f"{gap[0]} points [{gap[1]}, {gap[2]}]. {n_clear} of "
        f"{int(frame['p adjusted'].notna().sum())} differences are clear after correction for looking at all."
    )


def made_of(report: StudyReport) -> str:
    """How many pictures show the concept, and how many are there for the association alone; "" without any of these."""
    frame = report.pictures
    if frame is None or "group" not in frame or not set(NO_WORDS) & set(frame["group"]):
        return ""
    shows = frame["group"] == CONCEPT
    if not report.arms:
        return f"{int(shows.sum()):,} of the concept, {int((~shows).sum()):,} for the association"
    of_arms = {(int(some.sum()), int((~some).sum())) for _, some in shows.groupby(frame["arm"])}
    if len(of_arms) > 1:
        return ""
    ((n, n_sides),) = of_arms
    return f"in each arm {n:,} of the concept, {n_sides:,} for the association"


def _against_assumed_rates(report: StudyReport) -> set[str]:
    """The titles of the numbers that hang on a P* without a source."""
    frames = [arm.results.frame(ATTRIBUTES) for arm in report.arms]
    names = {
        str(row["attribute"])
        for frame in frames
        for row in frame.to_dict("records")
        if not is_sourced(str(row["source of P*"]))
    }
    return {f"{name}: {KINDS[end].label}" for name in names for end in ("difference", "psi")}


def verdict(score: AttributeScore) -> str:
    """Where the interval of P lies against P*: "above", "below", "within" it, or "unknown"."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.low):
        return "unknown"
    return lean(share, "above", "below", "within", null=reference)


def _departure(score: AttributeScore) -> float:
    """How far P* lies outside of the interval; ties go to the larger plain difference."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.value):
        return -2.0
    outside = max(share.low - reference, reference - share.high, 0.0)
    return outside if outside else abs(share.value - reference) - 1


def _rest(compared: Sequence[AttributeScore], which: str) -> str:
    verdicts = [verdict(score) for score in compared]
    n_away = verdicts.count("above") + verdicts.count("below")
    if len(verdicts) == 1:
        return ""
    verb = "departs" if n_away == 1 else "depart"
    return f" {n_away} of {len(verdicts)} attributes{which} {verb} clearly from the reference."
