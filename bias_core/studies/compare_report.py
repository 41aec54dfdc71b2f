"""A comparison as the report that every study has: findings, tables, figures, pictures."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.paired_variety import picture_change_estimate
from bias_core.studies.compare_figures import compare_figures
from bias_core.studies.compare_scores import RATE
from bias_core.studies.number_text import format_estimate, format_number, format_p
from bias_core.studies.report import LABELS, estimates
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    StudyReport,
    StudySettings,
    StudyTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bias_core.studies.compare_types import ComparedPair, CompareSettings, Difference, DrawnArm
    from bias_core.types import Estimate

TITLES = {
    "prevalence": "P",
    "stereotype": "Ψ",
    "alignment": "WALS",
    "association": "association",
    "spread": "spread",
    "corrected": "P, corrected for the reader's errors",
}
"""Names of the scores, in the order in which they are reported."""
_METRICS = {
    "prevalence": "prevalence_difference",
    "corrected": "prevalence_difference",
    "stereotype": "stereotype_difference",
    "alignment": "alignment_difference",
    "spread": "spread_difference",
    "association": "differential_association",
}
SEED_GIVES_ANOTHER = "The same seed gives"
"""How the note begins that says that pairs are no before and after."""
NEW_PICTURE = 0.9  # share of the distance between seeds from which a change is as good as another seed


def compare_report(
    settings: CompareSettings, arms: Sequence[DrawnArm], pairs: Sequence[ComparedPair]
) -> StudyReport:
    """The report, but for what only the run knows: its id, versions and seconds."""
    n_planned = sum(len(arm.report.images) for arm in arms)
    n_scored = sum(len(arm.pictures.stored) for arm in arms)
    unknown = {word for arm in arms for word in arm.report.unknown_words}
    stored = {image.path.stem: image for arm in arms for image in arm.pictures.stored}
    return StudyReport(
        run_id="",
        design=_design(settings, arms),
        settings=_study_settings(settings, arms),
        results=Results(
            findings=tuple(_findings(pairs)),
            tables=tuple(_tables(arms, pairs, settings)),
            figures=tuple(figure for figure in compare_figures(arms, pairs) if not figure.data.empty),
            notes=tuple(_notes(settings, arms, pairs)),
        ),
        n_planned=n_planned,
        n_images=n_scored,
        n_blocked=sum(image.blocked for arm in arms for image in arm.report.images),
        unknown_words=tuple(sorted(unknown)),
        pictures=_pictures(settings, arms),
        stored=stored,
    )


def summary(report: StudyReport) -> str:
    """What a comparison found, in a sentence or two."""
    frame = next(table.frame for table in report.results.tables if table.key == "differences")
    tested = frame[frame["p adjusted"].notna()]
    if tested.empty:
        return "Nothing could be tested on these pictures; the tables show what was measured."
    clear = tested[tested["p adjusted"] <= RATE]
    shares = tested[tested["score"] == TITLES["prevalence"]]
    n = int(tested["n"].max())
    if clear.empty:
        reach = (shares["high"] - shares["low"]).max() / 2 if len(shares) else math.nan
        wide = f" With {n} seeds a gap of up to about {100 * reach:.0f} points can hide." if reach > 0 else ""
        return f"No clear difference: none of {len(tested)} tests stands out from chance.{wide}"
    led = clear[clear["score"] == TITLES["prevalence"]]
    lead = (led if len(led) else clear).sort_values("difference", key=abs, ascending=False).iloc[0]
    counted = f"{len(clear)} of {len(tested)} differences are clear after correction for looking at all."
    return f"{_lead(lead)} {counted}"


def _lead(row: pd.Series[Any]) -> str:
    if row["score"] == TITLES["prevalence"]:
        return (
            f"“{row['attribute']}” is seen in {row['value first']:.0%} of the pictures of “{row['first']}” "
            f"and in {row['value second']:.0%} of “{row['second']}”, on the same {row['n']} seeds: "
            f"{100 * row['difference']:+.0f} points [{100 * row['low']:+.0f}, {100 * row['high']:+.0f}]."
        )
    ends = row["low"], row["high"]
    return (
        f"{row['score'].capitalize()} of “{row['attribute']}” is {format_number(row['value first'], *ends)} "
        f"in “{row['first']}” and {format_number(row['value second'], *ends)} in “{row['second']}”: "
        f"a difference of {format_estimate(row['difference'], *ends)}."
    )


def _design(settings: CompareSettings, arms: Sequence[DrawnArm]) -> Design:
    names = " against ".join(arm.name for arm in arms)
    return Design(
        name="compare",
        title=f"{settings.concept}: {names}",
        kind="compare",
        reference="",
        where="",
        summary=f"The same concept on the same {settings.n_images} seeds, drawn in {len(arms)} ways.",
        images_per_prompt=settings.n_images,
    )


def _study_settings(settings: CompareSettings, arms: Sequence[DrawnArm]) -> StudySettings:
    drawn_by = [(arm.report.settings.model, arm.report.settings.condition) for arm in arms]
    models, conditions = dict.fromkeys(m for m, _ in drawn_by), dict.fromkeys(c for _, c in drawn_by)
    if len(models) > 1 and len(conditions) > 1:  # each condition is its own model's
        models, conditions = dict.fromkeys(f"{m} ({c})" if c else m for m, c in drawn_by), {"": None}
    return StudySettings(
        model=" and ".join(models),
        condition=" and ".join(conditions),
        force=settings.force,
        encoder=settings.encoder,
        seed=settings.seed,
        confidence=settings.confidence,
        options=asdict(settings),
    )


def _findings(pairs: Sequence[ComparedPair]) -> Iterator[Finding]:
    several = len(pairs) > 1
    for score in TITLES:
        if score == "spread":  # the rest is for who wants it all
            yield from _changes(pairs, several=several)
        for pair in pairs:
            for place, difference in enumerate(pair.differences):
                if difference.score == score:
                    yield _finding(difference, f"{score}_{place}", several=several)


def _changes(pairs: Sequence[ComparedPair], *, several: bool) -> Iterator[Finding]:
    for pair in pairs:
        estimate = picture_change_estimate(1 - pair.changes)
        of = f", {pair.first} to {pair.second}" if several else ""
        yield Finding(
            key="change",
            title=f"Change of the picture of a seed{of}",
            metric="picture_change",
            estimate=estimate,
            says=f"Pictures of different seeds of the two lie {format_number(pair.change_elsewhere)} apart.",
        )


def _finding(difference: Difference, key: str, *, several: bool) -> Finding:
    arms = f", {difference.second} − {difference.first}" if several else ""
    ends = difference.test.estimate.low, difference.test.estimate.high
    says = difference.says or (
        f"{format_number(difference.value_first, *ends)} in “{difference.first}”, "
        f"{format_number(difference.value_second, *ends)} in “{difference.second}”."
    )
    if not math.isnan(difference.p_adjusted):
        says += f" Adjusted p {format_p(difference.p_adjusted)} ({difference.test.test})."
    tested = not math.isnan(difference.test.p_value)
    return Finding(
        key=key,
        title=f"{difference.attribute}: {TITLES[difference.score]}{arms}",
        metric=_METRICS[difference.score],
        estimate=difference.test.estimate,
        p_value=difference.test.p_value if tested else None,
        expected=difference.expected,
        says=says,
    )


def _tables(
    arms: Sequence[DrawnArm], pairs: Sequence[ComparedPair], settings: CompareSettings
) -> Iterator[StudyTable]:
    yield StudyTable(
        key="differences",
        title="Differences on the same seeds",
        frame=pd.DataFrame([_difference_row(d) for pair in pairs for d in pair.differences]),
        note="Difference: second less first. p adjusted: Benjamini–Hochberg over all tests of this table; "
        f"clear: at most {RATE:g}.",
    )
    yield StudyTable(
        key="arms",
        title="Each arm by itself",
        frame=pd.DataFrame([row for arm in arms for row in _arm_rows(arm)]),
        note="As Explore measures it, on all pictures of the arm.",
    )
    yield StudyTable(
        key="seeds",
        title="Seed by seed",
        frame=pd.concat([seed_frame(pair, settings) for pair in pairs], ignore_index=True),
        note="Change: one minus the cosine of the two pictures. Each attribute: whether the reader sees it, "
        "in the first and in the second.",
    )


def _difference_row(d: Difference) -> dict[str, Any]:
    estimate = d.test.estimate
    return {
        "attribute": d.attribute,
        "score": TITLES[d.score],
        "first": d.first,
        "second": d.second,
        "value first": d.value_first,
        "value second": d.value_second,
        "difference": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "p": d.test.p_value,
        "p adjusted": d.p_adjusted,
        "clear": "" if math.isnan(d.p_adjusted) else "yes" if d.p_adjusted <= RATE else "no",
        "drawn": math.nan if d.expected is None else d.expected,
        "test": d.test.test,
        "interval": estimate.method or estimate.note,
    }


def _arm_rows(arm: DrawnArm) -> Iterator[dict[str, Any]]:
    for score in arm.report.attributes:
        for name, estimate in estimates(score).items():
            yield _arm_row(arm, score.attribute.name, LABELS[name], estimate)
    if (found := arm.report.association) is not None:
        yield _arm_row(arm, f"{found.attribute_a} against {found.attribute_b}", "association", found.mean)


def _arm_row(arm: DrawnArm, attribute: str, score: str, estimate: Estimate) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "attribute": attribute,
        "score": score,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
    }


def seed_frame(pair: ComparedPair, settings: CompareSettings) -> pd.DataFrame:
    """One row per seed of a pair of arms, the most changed first."""
    columns: dict[str, Any] = {
        "first": pair.first,
        "second": pair.second,
        "seed": pair.seeds,
        "change": pair.changes,
    }
    words = np.array(["no", "yes"])
    for attribute, before, after in zip(
        settings.attributes, pair.margins_first, pair.margins_second, strict=True
    ):
        seen = [words[(margins > 0).astype(int)] for margins in (before, after)]
        columns[attribute.name] = [f"{a} → {b}" for a, b in zip(*seen, strict=True)]
    columns |= {"first picture": pair.image_ids[0], "second picture": pair.image_ids[1]}
    return pd.DataFrame(columns).sort_values("change", ascending=False, kind="stable", ignore_index=True)


def _notes(
    settings: CompareSettings, arms: Sequence[DrawnArm], pairs: Sequence[ComparedPair]
) -> Iterator[str]:
    for pair in pairs:
        names = f"“{pair.first}” and “{pair.second}”"
        if pair.n_dropped:
            yield (
                f"{pair.n_dropped} of {settings.n_images} seeds are left out of {names}: one of them has no "
                "picture that can be scored."
            )
        if pair.changes.mean() >= NEW_PICTURE * pair.change_elsewhere:
            yield (
                f"{SEED_GIVES_ANOTHER} {names} pictures that are as far apart as those of different seeds. "
                "The comparison stays right, but a pair shows no before and after, and pairing makes "
                "nothing sharper."
            )
    yield (
        "Every test is of these settings on these seeds. Another wording of a prompt, another model or "
        "reader may differ the other way."
    )
    seen = dict.fromkeys(note for arm in arms for note in arm.report.notes)
    yield from seen


def _pictures(settings: CompareSettings, arms: Sequence[DrawnArm]) -> pd.DataFrame:
    frames = []
    for arm in arms:
        rows = [image.row for image in arm.pictures.stored]
        columns: dict[str, Any] = {
            "image_id": [image.path.stem for image in arm.pictures.stored],
            "group": "concept",
            "prompt": [row.prompt for row in rows],
            "seed": [row.seed for row in rows],
            "arm": arm.name,
        }
        for score in arm.report.attributes:
            columns[score.attribute.name] = score.similarity_positive - score.similarity_negative
        if arm.report.association is not None:
            words = f"{settings.attribute_a} against {settings.attribute_b}"
            columns[words] = arm.report.association.associations
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)
