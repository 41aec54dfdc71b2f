"""What a paper's own comparison is made of: the arms' tables, figures and findings side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bias_core.studies.arms.statistics import Numbers, Rank, numbers_together, ranks_of
from bias_core.studies.kit.types import ArmReport, Finding, StudySettings

ARM = "arm"


def finding_of(arm: ArmReport, key: str) -> Finding | None:
    """A finding of an arm, None where it has none of this key."""
    return next((finding for finding in arm.results.findings if finding.key == key), None)


def numbers_of(arms: Sequence[ArmReport], keys: Sequence[str], settings: StudySettings) -> Numbers | None:
    """A number of every arm as the common comparison has it; ``keys`` has the key of each arm's finding.

    None where an arm has no such finding, or none that can be compared.
    """
    findings = [finding_of(arm, key) for arm, key in zip(arms, keys, strict=True)]
    samples = [finding.sample for finding in findings if finding is not None and finding.sample is not None]
    if len(samples) < len(arms) or findings[0] is None:
        return None
    return numbers_together(samples, depends_on_n=findings[0].depends_on_n, seed=settings.seed)


def ranks_over_arms(arms: Sequence[ArmReport], key: str, settings: StudySettings) -> list[dict[str, float]]:
    """Rank of every arm by a finding, as columns of a table; nothing where it has no sample."""
    numbers = numbers_of(arms, [key] * len(arms), settings)
    ranks = ranks_of(numbers, confidence=settings.confidence) if numbers else ()
    return [rank_columns(rank) for rank in ranks] or [{} for _ in arms]


def rank_columns(rank: Rank, name: str = "rank") -> dict[str, float]:
    """A rank and its interval, as columns of a table."""
    return {name: rank.rank, f"{name} low": rank.low, f"{name} high": rank.high}


def table_over_arms(
    arms: Sequence[ArmReport],
    key: str,
    by: Sequence[str],
    columns: Sequence[str],
    equal: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Lines of a table that the arms have, those of one ``by`` together, each arm's in a row of its own.

    ``columns`` come with the ends of their intervals; ``equal`` keeps the lines that have these values.
    """
    frames = []
    for arm in arms:
        for table in arm.results.tables:
            if table.key == key and len(lines := table.frame):
                for column, value in (equal or {}).items():
                    lines = lines[lines[column] == value]
                measures = [f"{name}{end}" for name in columns for end in ("", " low", " high")]
                names = [*by, ARM, *(name for name in measures if name in lines)]
                frames.append(lines.assign(**{ARM: arm.name})[names])
    return lines_together(pd.concat(frames, ignore_index=True), by) if frames else pd.DataFrame()


def arms_as_columns(frame: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """A table with one line for each ``by``, and of every arm the column with its interval."""
    ends = [end for end in ("", " low", " high") if f"{column}{end}" in frame]
    wide = frame[[*by]].drop_duplicates(ignore_index=True)
    for arm, lines in frame.groupby(ARM, sort=False):
        named = lines.rename(columns={f"{column}{end}": f"{arm}{end}" for end in ends})
        wide = wide.merge(named[[*by, *(f"{arm}{end}" for end in ends)]], on=[*by], how="left")
    return wide


def lines_together(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Lines of one ``by`` beside each other, in the order in which each was met first."""
    place = frame.groupby([*by], sort=False, dropna=False).ngroup()
    return frame.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def marks_over_arms(arms: Sequence[ArmReport], key: str) -> pd.DataFrame:
    """The marks of a figure that the arms have, with a column that names the arm."""
    frames = [
        figure.data.assign(**{ARM: arm.name}) for arm in arms for figure in arm.results.figures if figure.key == key
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
