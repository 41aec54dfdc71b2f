"""What an OASIS study found, in a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.studies.origins.view_film import films
from bias_core.studies.origins.view_stop import texts_of
from bias_core.studies.reports.number_text import format_estimate, format_given, format_interval, format_number
from bias_core.studies.reports.text import table_of
from bias_core.ui.study.words import headline

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.origins.view_film import Film


def origins_headline(report: StudyReport) -> str:
    """By the kind of study."""
    if report.design.kind == "propagation":
        return " ".join(_film_sentence(film) for film in films(report))
    if report.design.kind == "optimised_prompts":
        return _stop_sentence(report)
    if report.design.kind == "nationality_stereotypes":
        return _stereotype_sentence(table_of(report, "table1").frame)
    if report.design.kind == "doctor_prevalence":
        return _doctor_sentence(table_of(report, "table2").frame)
    if report.design.kind == "stereotypes_by_internet_users":
        return _users_sentence(table_of(report, "figure3").frame)
    return headline(report)


def _film_sentence(film: Film) -> str:
    early = sorted((line for line in film.lines if line.clear is not None), key=lambda line: line.clear or 0)
    if not early:
        return f"{film.concept}: with {film.n_seeds} seeds no step clearly moves towards an attribute or away."
    parts = []
    for line in early:
        step = line.clear or 0
        way = "towards" if line.band[step].value > 0 else "away from"
        parts.append(f"{way} {line.name} at step {step + 1}")
    unclear = [line.name for line in film.lines if line.clear is None]
    rest = f" {', '.join(unclear)}: not told." if unclear else ""
    return f"{film.concept}: of {film.n_steps} steps, the first clear move is {', '.join(parts)}.{rest}"


def _stop_sentence(report: StudyReport) -> str:
    texts = texts_of(report).drop_duplicates("name")
    clear = texts[~(texts["specificity low"] <= 0)]  # nan: nothing to be told apart from
    found = "; ".join(
        f"{row['name']} ({100 * row['share']:.0f} % of the concept's pictures): “{row['prompt']}”"
        for _, row in clear.iterrows()
    )
    rest = texts["name"][~texts["name"].isin(clear["name"])].tolist()
    none = f"No text tells {', '.join(rest)} from the concept's other pictures." if rest else ""
    return " ".join(filter(None, [f"For this reader, {found}." if found else "", none]))


def _stereotype_sentence(table: pd.DataFrame) -> str:
    known = table.dropna(subset=["P*"])
    if known.empty:
        return f"{len(table)} shares were measured; without real-world rates none can be called too high."
    corrected = known["P corrected low"].fillna(known["P low"])
    above = known[corrected > known["P*"]]
    if above.empty:
        return f"None of {len(known)} attributes is told to be shown more often than in the world."
    most = above.assign(beyond=above["P"] - above["P*"]).nlargest(1, "beyond").iloc[0]
    return (
        f"{len(above)} of {len(known)} attributes are shown more often than in the world. Farthest: "
        f"{most['attribute']} for {most['nationality']}, "
        f"{format_estimate(most['P'], most['P low'], most['P high'])} of the pictures against "
        f"{format_given(most['P*'])}."
    )


def _doctor_sentence(table: pd.DataFrame) -> str:
    plain, others = table.iloc[0], table.dropna(subset=["added"])
    parts = [
        f"{row['concept']} {row['added']:+.2f} [{row['added low']:+.2f}, {row['added high']:+.2f}]"
        for _, row in others.iterrows()
    ]
    clear = others[(others["added low"] > 0) | (others["added high"] < 0)]
    verdict = "" if len(clear) else ", which is not told apart from nothing"
    ends = plain["P low"], plain["P high"]
    first = (
        f"Shown as men: {format_number(plain['P'], *ends)} of the pictures of a {plain['concept']} "
        f"{format_interval(*ends)}."
    )
    return f"{first} A nationality adds to that: {', '.join(parts)}{verdict}." if parts else first


def _users_sentence(table: pd.DataFrame) -> str:
    ordered = table.sort_values("users")
    parts = [f"{row['nationality']} {row['mean Ψ']:.2f} ({row['users']:g} million)" for _, row in ordered.iterrows()]
    few = (
        " So few nationalities cannot show a trend: by chance alone, one order in three looks as clear."
        if len(table) == _THREE
        else ""
    )
    return f"Mean stereotype score, fewest internet users first: {', '.join(parts)}.{few}"


_THREE = 3  # whose orders are 6; a perfect trend, up or down, is 2 of them
