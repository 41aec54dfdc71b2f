"""The report of an exploration: findings, tables and figures, and the headlines of one arm and of several."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bias_core.explore.exploration import (
    ASSOCIATION,
    ATTRIBUTES,
    BEYOND,
    CONCEPT,
    EIGENVALUES,
    FIDELITY,
    KINDS,
    AssociationScore,
    Exploration,
    is_exploration,
)
from bias_core.explore.extension import NO_WORDS, explore_extensions
from bias_core.explore.options import ExploreOptions, explore_options
from bias_core.measures.clustering import ClusterResult
from bias_core.measures.sequential import against
from bias_core.report.claims import WHY_NOT, decide_claims, p_words
from bias_core.report.headlines import differences_headline, numbers_headline
from bias_core.run.attribute_scores import AttributeScore
from bias_core.run.limits import growth
from bias_core.study.attributes import ALL, finding_key, rate_words
from bias_core.study.types import (
    Claim,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyReport,
    StudyTable,
    columns,
    drawable,
    figure,
    mark,
    or_nan,
    table,
)
from bias_core.types import Estimate, is_sourced
from bias_core.wording import (
    format_count,
    format_list,
    format_percent,
    format_points,
    format_rate,
    format_share,
    state_p,
)

POOLED = "pooled over prompts"  # in titles, if the pictures have several prompts
_FEWEST_TO_GROW, _MOST_GROWING = 4, 4  # pictures, and attributes in one figure
_MOST_BESIDE = 6  # prompts in one figure, in addition to all pictures
_OF_JUDGE = " Cannot tell: share of pictures for which the judge cannot tell; P leaves them out."


def exploration_results(
    cells: Mapping[str, Sequence[AttributeScore]],
    association: AssociationScore | None,
    alike: ClusterResult | None,
    *,
    sample: Callable[[str, Any], Sample | None] = lambda _end, _of: None,
    notes: Iterable[str] = (),
    scored: Any = None,
    confidence: float = 0.95,
) -> Results:
    """Return the results of each prompt, then of all pictures; ``sample`` takes the end of a key and the score."""
    findings = list(attribute_findings(cells, sample, confidence))
    tables = list(attribute_table(cells))
    shares = share_figure(cells[ALL]) if len(cells) == 1 else _shares_by_prompt(cells)
    figures = [shares, _growth_figure(cells, confidence), _prompt_figure(cells)]
    if association is not None:
        findings += _association_findings(association, sample)
        figures.append(_association_figure(association))
    if alike is not None:
        eigenvalues = {"number": range(1, len(alike.eigenvalues) + 1), "eigenvalue": alike.eigenvalues}
        tables.append(
            table(EIGENVALUES, "Eigenvalues that decide the number of groups", pd.DataFrame(eigenvalues), alike.note)
        )
        figures.append(_map_figure(alike))
    return Results(
        findings=tuple(findings), tables=tuple(tables), figures=drawable(figures), notes=tuple(notes), scored=scored
    )


def attribute_findings(
    cells: Mapping[str, Sequence[AttributeScore]],
    sample: Callable[[str, Any], Sample | None],
    confidence: float,
    *,
    claimed: Collection[str] = (ALL,),
    ends: Collection[str] = KINDS,
    decided: Collection[str] = ("p", "corrected"),
) -> Iterator[Finding]:
    """Yield every number of every attribute, kind by kind; for a cell that is not ``claimed`` only P, P − P* and Ψ.

    The shares of all ``claimed`` cells are one family, as are those in ``decided`` that are corrected; other numbers
    restate P. ``ends``: of the keys of numbers that claimed cells have.
    """
    members = [(cell, score) for cell in claimed for score in cells[cell]]
    claims = {
        finding_key(cell, score.attribute.name, end): claim
        for end in decided
        for (cell, score), claim in zip(
            members, share_claims([score for _, score in members], confidence, KINDS[end].field), strict=True
        )
    }
    for cell, scores in cells.items():
        is_claimed = cell in claimed
        for end, kind in KINDS.items():
            for score in scores:
                name, estimate = score.attribute.name, getattr(score, kind.field)
                key, rate = finding_key(cell, name, end), rate_words(score.attribute)
                without_rate = score.attribute.reference is None and end in ("difference", "psi")
                if estimate is None or without_rate or end not in (ends if is_claimed else _OF_A_PROMPT):
                    continue
                yield Finding(
                    key=key,
                    title=f"{_cell_title(name, cell, cells, is_claimed=is_claimed)}: {kind.label.replace('P*', rate)}",
                    metric=kind.metric,
                    estimate=estimate,
                    claim=claims.get(key),
                    claim_of=finding_key(cell, name, "p") if is_claimed and end in _RESTATE_P else "",
                    expected=score.drawn if end in ("p", "corrected") else None,
                    says=kind.says.replace("P*", rate) + (_errors_in_words(score) if end == "corrected" else ""),
                    sample=sample(end, score) if is_claimed else None,
                )


def _errors_in_words(score: AttributeScore) -> str:
    """Return how often the classifier is right about one attribute; "" if that is unknown."""
    if (errors := score.errors) is None:
        return ""
    present = f"{format_percent(errors.sensitivity)} of {errors.n_positive:,} pictures with “{score.attribute.name}”"
    absent = f"{format_percent(errors.specificity)} of {errors.n_negative:,} without"
    return f" Where the truth is known, the classifier is right on {present}, and on {absent}."


def _cell_title(name: str, cell: str, cells: Collection[str], *, is_claimed: bool) -> str:
    """Return what a number is about; a concept of several stands first, as in numbers that people correct."""
    if len(cells) == 1 and cell == ALL:
        return name
    if cell == ALL:
        return f"{name}, {POOLED}"
    return f"{cell}, {name}" if is_claimed else f"{name}, {cell}"


def _association_findings(
    association: AssociationScore, sample: Callable[[str, Any], Sample | None]
) -> Iterator[Finding]:
    """Yield the association of Eq. 2, its distance from an even mix, and how often prompts are followed."""
    words = association.attribute_a, association.attribute_b
    yield Finding(
        key=ASSOCIATION,
        title=f"{' against '.join(words)}: association",
        metric="association",
        estimate=association.mean,
        says="The paper's Eq. 2: above 0 the pictures are closer to those of the first word, below 0 to those of "
        "the second; an even mix is not always 0.",
        sample=sample(ASSOCIATION, association),
    )
    if association.beyond is not None:
        yield Finding(
            key=BEYOND,
            title=f"{' against '.join(words)}: association compared with an even mix",
            metric="association_beyond_even_mix",
            estimate=association.beyond,
            says="Above 0 the pictures are closer to the first word than an even mix of both words' pictures.",
        )
    if association.fidelity is not None:
        yield Finding(
            key=FIDELITY,
            title=f"{' and '.join(words)}: shown when asked for",
            metric="asked_kept",
            estimate=association.fidelity,
            says="Share of pictures that look like the word in their prompt, not like the other word.",
            sample=sample(FIDELITY, association),
        )


def attribute_table(cells: Mapping[str, Sequence[AttributeScore]]) -> Iterator[StudyTable]:
    """Yield the table of all attributes by cell, if there are any."""
    records = [
        {
            "pictures of": cell,
            "attribute": score.attribute.name,
            "n": score.prevalence.n,
            **columns("P", score.prevalence, ends=""),
            "P*": or_nan(score.attribute.reference),
            **columns("P − P*", score.signed_difference),
            "Ψ": score.stereotype.value,
            "share of variance": score.variance_share.value,
            "WALS": score.wals.value,
            "drawn": or_nan(score.drawn),
            "ties": score.n_ties,
            "positive": score.attribute.positive,
            "negative": score.attribute.negative,
            "source of P*": score.attribute.reference_source,
            **({"cannot tell": score.cannot_tell.value, "asked": score.question} if score.cannot_tell else {}),
        }
        for cell, scores in cells.items()
        for score in scores
    ]
    if records:
        yield table(
            ATTRIBUTES,
            "Attributes and their sentences" if len(cells) == 1 else "Attributes per prompt",
            records,
            "P: share of pictures with the attribute. P*: real-world rate, or one that is assumed if it has no source. "
            "Ψ (over-representation) and WALS (variety) follow the paper. Drawn: true share, if known. Ties: pictures "
            "equally near to both sentences."
            + (f" “{ALL.capitalize()}” are {POOLED}." if len(cells) > 1 else "")
            + (_OF_JUDGE if "asked" in records[0] else ""),
        )


def share_figure(scores: Sequence[AttributeScore]) -> StudyFigure:
    """Return the shares in all pictures, without attributes that the encoder cannot judge."""
    return figure(
        "intervals",
        "shares",
        "How often is each attribute seen?",
        [share_mark(score, expected=or_nan(score.drawn)) for score in scores if math.isfinite(score.prevalence.value)],
        "Dots are shares of pictures; lines are intervals.",
        x="share of pictures",
        reference="real-world rate",
    )


def _shares_by_prompt(cells: Mapping[str, Sequence[AttributeScore]]) -> StudyFigure:
    """Return the shares in the pictures of the largest prompts, then in all pictures."""
    names = [cell for cell in cells if cell != ALL]
    excerpt = f"The {_MOST_BESIDE} of {len(names)} prompts with most pictures. " * (len(names) > _MOST_BESIDE)
    return figure(
        "pairs",
        "shares",
        "How often is each attribute seen, by prompt?",
        [
            share_mark(score, group=POOLED if cell == ALL else cell)
            for cell in (*names[:_MOST_BESIDE], ALL)
            for score in cells[cell]
            if math.isfinite(score.prevalence.value)
        ],
        f"{excerpt}Dots are shares of a prompt's pictures; the last dot is for all pictures, {POOLED}. Lines are "
        "intervals.",
        x="share of pictures",
        reference="real-world rate",
    )


def _growth_figure(cells: Mapping[str, Sequence[AttributeScore]], confidence: float) -> StudyFigure:
    """Return the shares by number of pictures, for a run with one prompt; empty for several prompts."""
    scores = [score for score in cells[ALL] if score.clear_calls.size >= _FEWEST_TO_GROW and len(cells) == 1]
    names = [score.attribute.name for score in scores]
    rows = [
        {"group": score.attribute.name, "x": n, **columns("value", share, ends="")}
        for score in scores[:_MOST_GROWING]
        for n, share in growth(score.clear_calls, confidence)
    ]
    excerpt = f"The first {_MOST_GROWING} of {len(scores)} attributes. " if len(scores) > _MOST_GROWING else ""
    return figure(
        "curves",
        "growth",
        "How the share settled" if len(names) == 1 else "How the shares settled",
        rows,
        f"{excerpt}The bands are valid at any time: in {confidence:.0%} of runs they include the true share from the "
        "first picture to the last. They are therefore wider than intervals for a fixed number of pictures.",
        x="number of pictures so far",
        y="share of pictures so far",
        apart=True,
    )


def share_mark(score: AttributeScore, name: str = "", **extra_columns: Any) -> dict[str, Any]:
    """Return P of an attribute next to P* as a mark of a figure, named after it; an assumed P* has its own mark."""
    rate, kind = or_nan(score.attribute.reference), "reference" if score.attribute.has_source else "assumed"
    rates = {"reference": math.nan, "assumed": math.nan} | {kind: rate}
    return mark(name or score.attribute.name, score.prevalence, **rates, **extra_columns)


def _prompt_figure(cells: Mapping[str, Sequence[AttributeScore]]) -> StudyFigure:
    return figure(
        "heatmap",
        "prompts",
        "Attributes by prompt",
        [
            mark("", score.prevalence, row=cell, column=score.attribute.name)
            for cell, scores in cells.items()
            for score in scores
            if cell != ALL and math.isfinite(score.prevalence.value)
        ],
        "Each cell is the share of a prompt's pictures with the attribute.",
        unit="share of the prompt's pictures",
    )


def _association_figure(association: AssociationScore) -> StudyFigure:
    first, second = association.attribute_a, association.attribute_b
    return figure(
        "distributions",
        ASSOCIATION,
        f"Are the pictures closer to {first} or to {second}?",
        pd.DataFrame({"group": "pictures", "value": association.associations}),
        "Each dot is a picture, by how much closer it is to the pictures of one word than to those of the other. "
        "The result depends on these two sets and on the encoder, which has associations of its own.",
        x=f"← {second}   |   {first} →",
        null=0.0,
    )


def group_name(group: int) -> str:
    """Return the name of a group of similar pictures, counted from 0."""
    return f"group {group + 1}"


def _map_figure(alike: ClusterResult) -> StudyFigure:
    names = [group_name(label) for label in alike.labels]
    points = pd.DataFrame({"x": alike.coordinates[:, 0], "y": alike.coordinates[:, 1], "group": names})
    return figure(
        "scatter",
        "alike",
        "Groups of similar pictures",
        points.sort_values("group", kind="stable").reset_index(drop=True),
        "Each dot is a picture; similar pictures lie close together. "
        "You can choose a group in the list of pictures, under “looks like”.",
        x="first principal component",
        y="second principal component",
    )


def picture_columns(
    scores: Sequence[AttributeScore], association: AssociationScore | None, alike: ClusterResult | None
) -> dict[str, Any]:
    """Return the values of each scored picture, by the name of their column."""
    columns: dict[str, Any] = {}
    for score in scores:
        name = score.attribute.name
        columns |= {
            f"{name}: positive": score.similarity_positive,
            f"{name}: negative": score.similarity_negative,
            f"{name}: nearer by": score.margins,
            f"{name}: perceived": yes_or_no(score),
        }
    if association is not None:
        columns[ASSOCIATION] = association.associations
    if alike is not None:
        columns["looks_like"] = [group_name(label) for label in alike.labels]
        columns |= {"map_x": alike.coordinates[:, 0], "map_y": alike.coordinates[:, 1]}
    return columns


def yes_or_no(score: AttributeScore) -> np.ndarray:
    """Return "yes", "no" or "cannot tell" for each picture ``(n,)``."""
    words: np.ndarray = np.where(np.isnan(score.margins), "cannot tell", np.where(score.margins > 0, "yes", "no"))
    return words


OF_CONCEPT = "of the concept"
"""Part of the number of pictures of a run with an association."""
_MOST_LISTED = 3  # prompts in a headline
NO_SOURCE = "No real-world rate with a source is known, so no share is called too high or too low."


def headline(report: StudyReport) -> str:
    """Return the headline of one arm: the attribute that lies farthest from a P* that has a source."""
    if not is_exploration(report):
        return numbers_headline(report)
    exploration = Exploration(report)
    n = len(exploration.scored_numbers)
    if not n:
        return "No picture could be scored."
    further = _further(report)
    if not exploration.attributes:
        return f"{n} pictures of “{exploration.prompt}”.{further or ' No attribute was asked for.'}"
    text = shares_headline(exploration.attributes, report.settings.confidence)
    if by_prompt := prompts_headline(exploration.shares_by_prompt):
        text = f"{by_prompt} {POOLED.capitalize()}: {text}"
    return text + further


def prompts_headline(shares: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Say the attribute with the largest differences between prompts, for each prompt or the two extremes.

    >>> half, all_ = (Estimate(value=p, low=p - 0.1, high=p, n=10) for p in (0.5, 1.0))
    >>> print(prompts_headline({"hat": {"a nurse": half, "a cook": all_}}).replace(chr(160), " "))
    “hat” is seen in 100 % [90, 100] of 10 pictures of “a cook”, in 50 % [40, 50] of 10 pictures of “a nurse”.
    """
    measured = {
        name: {c: share for c, share in of.items() if not math.isnan(share.value)} for name, of in shares.items()
    }
    by_name = {name: sorted(of.items(), key=lambda one: -one[1].value) for name, of in measured.items() if of}
    if not by_name:
        return ""
    name, cells = max(by_name.items(), key=lambda one: one[1][0][1].value - one[1][-1][1].value)
    of = f"The highest and the lowest share of {len(cells)} prompts: " if len(cells) > _MOST_LISTED else ""
    (first, share), *other_cells = [cells[0], cells[-1]] if of else cells
    other_phrases = [f"in {share_words(share)} of “{cell}”" for cell, share in other_cells]
    return f"{of}“{name}” is seen in {', '.join([f'{share_words(share)} of “{first}”', *other_phrases])}."


def shares_headline(attributes: Sequence[AttributeScore], confidence: float) -> str:
    """Say which attributes differ from a P* with a source; without such a P*, give the shares."""
    measured = [score for score in attributes if not math.isnan(score.prevalence.low)]
    if not measured:
        return f"No attribute could be measured: {attributes[0].prevalence.note or 'no picture was scored'}."
    compared = [score for score in measured if score.attribute.has_source]
    if not compared:
        first, *other_scores = measured
        shares = [f"“{score.attribute.name}” in {share_words(score.prevalence)}" for score in other_scores]
        shares = [share_words(first.prevalence), *shares]
        return f"“{first.attribute.name}” is seen in {format_list(shares)}. {NO_SOURCE}"
    claims = share_claims(compared, confidence)
    clear = [(score, claim) for score, claim in zip(compared, claims, strict=True) if claim.is_clear]
    lead, claim = max(clear or zip(compared, claims, strict=True), key=lambda pair: _departure(pair[0]))
    is_partial = len(compared) < len(attributes)
    kind, rate = "attribute", " with a sourced rate" * is_partial
    reference = format_rate(lead.attribute.reference)
    share = f"“{lead.attribute.name}” is seen in {share_words(lead.prevalence)}"
    if not clear:
        is_far = len(compared) > 1 and format_rate(lead.prevalence.value) != reference
        reason = f" Not clear: {claim.reason}." if claim.reason else ""
        farthest = "Farthest: " if is_far else ""
        return (
            f"No {kind}{rate} differs clearly from the real-world rate. {farthest}{share}, against {reference}.{reason}"
        )
    verb = "differs clearly from its" if len(clear) == 1 else "differ clearly from their"
    count_sentence = (
        f" {len(clear)} of {len(compared)} {kind}s{rate} {verb} real-world rate." if len(compared) > 1 else ""
    )
    beyond = claim.choose("more than", "less than", "")
    return f"{share}, {beyond} the real-world rate of {reference} ({p_words(claim)}).{count_sentence}"


def share_words(share: Estimate) -> str:
    """Return a share with its interval and its number of pictures."""
    number = format_share(share.value, share.low, share.high, n=share.n)
    return f"{number} of {format_count(share.n, 'picture')}"


def arms_headline(report: StudyReport) -> str:
    """Return the headline of a comparison of explorations, the clearest share first."""
    in_place = next(filter(None, (extension.arms_headline(report) for extension in explore_extensions())), "")
    return in_place or _differences_of_arms(report) + _further(report)


def _further(report: StudyReport) -> str:
    return "".join(extension.further_headline(report) for extension in explore_extensions())


def _differences_of_arms(report: StudyReport) -> str:
    """Say the largest gap between shares, clear or not, and how many gaps are clear."""
    frame = report.results.frame("differences")
    is_share = frame["finding"].str.endswith(f": {KINDS['p'].label}") if len(frame) else frame
    shares = frame[is_share & frame["p adjusted"].notna()] if len(frame) else frame
    if shares.empty:
        return differences_headline(frame)
    clear = shares[shares["clear"] == "yes"]
    row = (shares if clear.empty else clear).sort_values("difference", key=abs, ascending=False).iloc[0]
    says = (
        f"“{row['finding'].rpartition(': ')[0]}” is seen in {format_rate(row['value first'])} of “{row['first']}” "
        f"and {format_rate(row['value second'])} of “{row['second']}” pictures: "
        f"{format_points(row['difference'], row['low'], row['high'])}, n = {row['n']:,}"
        f"{_describe_shared_seeds(report, row)}"
    )
    if clear.empty:
        reach = max(shares[["low", "high"]].abs().max())
        gap_words = "The largest gap: " if len(shares) > 1 else ""
        reason = row[WHY_NOT]
        says = f"No clear difference. {gap_words}{says}.{f' Not clear: {reason}.' if reason else ''}"
        return f"{says} A gap of up to {100 * reach:.0f} points is still possible.{_rates_of_arms(report, row)}"
    if len(shares) == 1:
        return f"{says}, a clear gap ({state_p(row['p adjusted'])}).{_rates_of_arms(report, row)}"
    gap_words = "the only clear gap" if len(clear) == 1 else f"the largest of {len(clear)} clear gaps"
    return f"{says}, {gap_words} of {len(shares)}.{_rates_of_arms(report, row)}"


def _describe_shared_seeds(report: StudyReport, row: "pd.Series[Any]") -> str:
    """Return words for seeds in common, if an arm has more pictures than these."""
    numbers = (finding for arm in report.arms for finding in arm.results.findings if finding.title == row["finding"])
    return " seeds that both have" if any(number.estimate.n > row["n"] for number in numbers) else ""


def _rates_of_arms(report: StudyReport, row: "pd.Series[Any]") -> str:
    """Return the real-world rates of two arms that draw different concepts; "" if they are equal or not known."""
    name = str(row["finding"]).rpartition(": ")[0].removesuffix(f", {POOLED}")
    frames = [arm.results.frame(ATTRIBUTES) for arm in report.arms if arm.name in (row["first"], row["second"])]
    lines = [frame[frame["attribute"] == name].iloc[-1] for frame in frames]
    rates = [line["P*"] for line in lines if is_sourced(line["source of P*"])]
    if len(rates) < len(lines) or len(set(rates)) == 1:
        return ""
    return f" In the real world: {' and '.join(map(format_rate, rates))}."


def with_words(options: ExploreOptions) -> str:
    """Return the other part of that number, such as "with “male” or “female”"."""
    return f"with “{options.attribute_a}” or “{options.attribute_b}”"


def describe_picture_counts(report: StudyReport) -> str:
    """Return how many pictures show the concept, and how many only the association's words; "" without such words."""
    frame = report.pictures
    if frame is None or "group" not in frame or not set(NO_WORDS) & set(frame["group"]):
        return ""
    shows, side_words = frame["group"] == CONCEPT, with_words(explore_options(report.settings))
    if not report.arms:
        return f"{int(shows.sum()):,} {OF_CONCEPT}, {int((~shows).sum()):,} {side_words}"
    of_arms = {(int(arm_shows.sum()), int((~arm_shows).sum())) for _, arm_shows in shows.groupby(frame["arm"])}
    if len(of_arms) > 1:
        return ""
    ((n, n_sides),) = of_arms
    return f"in each arm {n:,} {OF_CONCEPT}, {n_sides:,} {side_words}"


_OF_A_PROMPT = ("p", "difference", "psi")  # ends of keys of the numbers of one prompt of several
_RESTATE_P = ("difference", "psi", "corrected")  # ends of keys of numbers that, in two arms, have the test of P


def share_claims(scores: Sequence[AttributeScore], confidence: float, field: str = "prevalence") -> tuple[Claim, ...]:
    """Return what may be claimed of each P against its P*: one family of all attributes with a sourced P*.

    Nothing is claimed against an assumed or chosen rate. ``field`` "corrected" takes the corrected shares.
    """
    shares = []
    for score in scores:
        null = score.attribute.reference if score.attribute.has_source else None
        share = getattr(score, field) or Estimate.undefined(0, score.uncorrected_reason)
        shares.append(against(share, null, confidence))
    return decide_claims(shares, confidence=confidence)


def _departure(score: AttributeScore) -> float:
    """Return the distance of P* from the interval; ties go to the larger plain difference."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.value):
        return -2.0
    outside = max(share.low - reference, reference - share.high, 0.0)
    return outside if outside else abs(share.value - reference) - 1
