"""What an OASIS study found: the film of SPI's steps, StOP's clusters and texts, and every study in a sentence."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bias_core.studies.kit.types import StudyFigure, StudyReport
from bias_core.studies.origins.spi import first_clear_step
from bias_core.studies.origins.stop import Regenerated, cluster_name
from bias_core.studies.reports.text import format_estimate, format_given, format_interval, format_number, table_of
from bias_core.types import Estimate
from bias_core.ui.embedded import N_COLOURS
from bias_core.ui.study.view import headline
from bias_core.ui.templates import render, script

AVERAGE = "figure9-"
TEXTS = "table3"
FILM_JS = script("choose") + script("film")
CHOOSE_TEXT_JS = script("choose") + script("texts")
_TICKS = 5
_SHOWN = 12  # pictures of each side of a comparison
_THREE = 3  # nationalities, whose orders are 6; a perfect trend, up or down, is 2 of them


@dataclass(frozen=True, kw_only=True)
class Line:
    """The curve of one attribute."""

    name: str
    number: int
    colour: int  # which of the page's
    classes: str  # its colour, and what its button hides
    band: tuple[Estimate, ...]  # mean over seeds and its interval, a step each
    has_intervals: bool  # whether there is a band around the curve: not of one seed
    clear: int | None  # the first step, from 0, whose interval excludes 0
    singles: Mapping[str, np.ndarray]  # by seed, SPI of each step
    finished: Estimate  # share of the finished pictures that are read to have the attribute, with its interval


@dataclass(frozen=True, kw_only=True)
class Film:
    """One concept's curves and predicted pictures."""

    key: str
    labels: Mapping[str, Any]  # of the figure of its curves: concept, velocities, and the key of its filmstrips
    confidence: float
    lines: tuple[Line, ...]
    strips: Mapping[str, list[tuple[int, Path]]]  # by seed, (step from 1, file), the finished one last
    n_seeds: int  # behind every mean
    n_steps: int
    low: float  # what the axis spans: bands, single seeds and 0
    high: float
    ticks: list[float]  # round numbers within the axis, 0 among them

    def y(self, value: float) -> str:
        """Where a value lies, in hundredths of the height from above."""
        return f"{100 * (self.high - value) / (self.high - self.low):.2f}"

    def points(self, values: Iterable[float], *, back: bool = False) -> str:
        """A curve with a value in the middle of each step's column, from the first or the last one on."""
        places = [f"{i + 0.5:g},{self.y(value)}" for i, value in enumerate(values)]
        return " ".join(reversed(places) if back else places)

    def sentence(self, line: Line) -> str:
        """At which step an attribute is decided, and what became of it."""
        end, n_steps = line.finished, self.n_steps
        share = format_estimate(end.value, end.low, end.high, n=end.n)
        shown = f"In the end it is read in {share} of the pictures."
        if math.isnan(line.band[0].low):
            return f"one seed has no interval, so this cannot be told. {shown}"
        if line.clear is None:
            return f"at none of the {n_steps} steps, which is no proof that it is never added. {shown}"
        step = line.band[line.clear]
        way = "moves towards it" if step.value > 0 else "moves away from it"
        early = "from pure noise" if line.clear == 0 else f"{100 * line.clear / n_steps:.0f} % of the way"
        return (
            f"step {line.clear + 1} of {n_steps} ({early}) {way}, SPI {step.value:+.3f} "
            f"[{step.low:+.3f}, {step.high:+.3f}]. {shown}"
        )


def round_numbers(low: float, high: float) -> list[float]:
    """About five round numbers of an axis.

    >>> round_numbers(-0.23, 0.41)
    [-0.2, 0.0, 0.2, 0.4]
    """
    rough = (high - low) / _TICKS
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
    return [round(k * step, 10) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def films_html(report: StudyReport) -> str:
    """All concepts of an SPI report with curves, filmstrips and what each step does; "" for other reports."""
    return render("film", films=films(report))


def films(report: StudyReport) -> list[Film]:
    """What an SPI report holds; empty for other reports."""
    figures = {figure.key: figure for figure in report.results.figures}
    return [_film(report, figure, figures) for key, figure in figures.items() if key.startswith(AVERAGE)]


def _film(report: StudyReport, figure: StudyFigure, figures: Mapping[str, StudyFigure]) -> Film:
    labels, data = figure.labels, figure.data
    singles = {key.rpartition("-")[2]: figures[key].data for key in labels["singles"]}
    table = table_of(report, "spi").frame
    finished = {row["attribute"]: row for row in table[table["nationality"] == labels["concept"]].to_dict("records")}
    parts = data.groupby("group", sort=False)
    lines = tuple(_line(str(name), i, own, singles, finished) for i, (name, own) in enumerate(parts))
    spans = [0.0, *data[["value", "low", "high"]].to_numpy(float).ravel()]
    spans += [value for single in singles.values() for value in single["value"]]
    low, high = float(np.nanmin(spans)), float(np.nanmax(spans))
    margin = 0.06 * (high - low) or 0.1
    n_steps, strips = len(lines[0].band), dict[str, list[tuple[int, Path]]]()
    for row in figures[labels["predicted"]].data.to_dict("records"):
        step = n_steps if row["column"] == "finished" else int(row["column"])
        strips.setdefault(str(row["row"]), []).append((step + 1, Path(row["path"])))
    return Film(
        key=figure.key,
        labels=labels,
        confidence=report.settings.confidence,
        lines=lines,
        strips=strips,
        n_seeds=lines[0].finished.n,
        n_steps=n_steps,
        low=low - margin,
        high=high + margin,
        ticks=round_numbers(low - margin, high + margin),
    )


def _line(
    name: str, number: int, own: pd.DataFrame, singles: Mapping[str, pd.DataFrame], finished: Mapping[str, Any]
) -> Line:
    end, colour = finished[name], number % N_COLOURS
    share, low, high = (float(end[f"finished P{which}"]) for which in ("", " low", " high"))
    finally_read = Estimate(value=share, low=low, high=high, n=int(end["seeds"]))
    steps = own[["value", "low", "high"]].astype(float).to_dict("records")
    band = tuple(Estimate(value=s["value"], low=s["low"], high=s["high"], n=finally_read.n) for s in steps)
    return Line(
        name=name,
        number=number,
        colour=colour,
        classes=f"c{colour} line-{number}",
        band=band,
        has_intervals=bool(np.isfinite(own[["low", "high"]].to_numpy(float)).all()),
        clear=first_clear_step(band),
        singles={seed: of[of["group"] == name]["value"].to_numpy(float) for seed, of in singles.items()},
        finished=finally_read,
    )


def texts_of(report: StudyReport) -> pd.DataFrame:
    """The texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {TEXTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[TEXTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    names = [cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)]
    return texts.assign(name=names)


def clusters_html(report: StudyReport) -> str:
    """Every searched cluster: its average, typical pictures, and its texts with their scores."""
    texts = texts_of(report)
    if texts.empty:
        return ""
    pictures = next(figure.data for figure in report.results.figures if figure.key == TEXTS)
    paths = {name: own.set_index("column")["path"] for name, own in pictures.groupby("row", sort=False)}
    clusters = [
        (name, own.to_dict("records"), paths[name]["average"], list(paths[name].filter(like="typical")))
        for name, own in texts.groupby("name", sort=False)
    ]
    return render("clusters", key=TEXTS, clusters=clusters)


def comparison_html(both: Regenerated) -> str:
    """Cluster and drawn pictures side by side, each with its similarity, and what that says."""
    groups = {
        "the cluster's own, to each other": both.own,
        "drawn from the text": both.drawn,
        "the concept's other pictures": both.others,
    }
    rows = [{"group": name, "value": float(value)} for name, side in groups.items() for value in side.closeness]
    figure = StudyFigure(
        key="closeness",
        title="Similarity of each picture to the cluster",
        kind="distributions",
        data=pd.DataFrame(rows).dropna(ignore_index=True),
        labels={"x": "mean cosine to the cluster's pictures"},
    )
    shown = {"groups": list(groups.items()), "figure": figure, "most": _SHOWN}
    return render("comparison", both=both, verdict=_verdict(both), **shown)


def _verdict(both: Regenerated) -> str:
    """Whether the drawn pictures are nearer to the cluster than the concept's other pictures are."""
    drawn, others, own = both.drawn.mean, both.others.mean, both.own.mean
    if drawn is None or np.isnan(drawn.low):
        return "One picture cannot tell how close this text comes to the cluster; draw more."
    if own is not None and drawn.high >= own.value:
        return "This text brings the cluster back: its pictures are as close as the cluster's own are."
    if others is None:
        return "This text does not bring the whole cluster back: its own pictures are closer to each other."
    if drawn.low > others.value:
        return "This text comes part of the way: closer than the concept's others, not as close as its own."
    if drawn.high < others.value:
        return "This text does not bring the cluster back: the concept's other pictures are closer to it."
    return "This text is not told to come closer than the concept's other pictures do."


def origins_headline(report: StudyReport) -> str:
    """By the kind of study."""
    if report.design.kind == "propagation":
        return " ".join(map(_film_sentence, films(report)))
    if report.design.kind == "optimised_prompts":
        return _stop_sentence(texts_of(report).drop_duplicates("name"))
    sentences = {
        "nationality_stereotypes": ("table1", _stereotype_sentence),
        "doctor_prevalence": ("table2", _doctor_sentence),
        "stereotypes_by_internet_users": ("figure3", _users_sentence),
    }
    if report.design.kind not in sentences:
        return headline(report)
    key, sentence = sentences[report.design.kind]
    return sentence(table_of(report, key).frame)


def _film_sentence(film: Film) -> str:
    early = sorted((line.clear, line.number) for line in film.lines if line.clear is not None)
    concept = film.labels["concept"]
    if not early:
        return f"{concept}: with {film.n_seeds} seeds no step clearly moves towards an attribute or away."
    parts = []
    for step, number in early:
        line = film.lines[number]
        parts.append(f"{'towards' if line.band[step].value > 0 else 'away from'} {line.name} at step {step + 1}")
    unclear = [line.name for line in film.lines if line.clear is None]
    rest = f" {', '.join(unclear)}: not told." if unclear else ""
    return f"{concept}: of {film.n_steps} steps, the first clear move is {', '.join(parts)}.{rest}"


def _stop_sentence(texts: pd.DataFrame) -> str:
    is_specific = ~(texts["specificity low"] <= 0)  # nan: nothing to be told apart from
    specific_texts = "; ".join(
        f"{row['name']} ({100 * row['share']:.0f} % of the concept's pictures): “{row['prompt']}”"
        for row in texts[is_specific].to_dict("records")
    )
    rest = ", ".join(texts["name"][~is_specific])
    none = f"No text tells {rest} from the concept's other pictures." if rest else ""
    return " ".join(filter(None, [f"For this reader, {specific_texts}." if specific_texts else "", none]))


def _stereotype_sentence(table: pd.DataFrame) -> str:
    comparable = table.dropna(subset=["P*"])
    if comparable.empty:
        return f"{len(table)} shares were measured; without real-world rates none can be called too high."
    above = comparable[comparable["P corrected low"].fillna(comparable["P low"]) > comparable["P*"]]
    if above.empty:
        return f"None of {len(comparable)} attributes is told to be shown more often than in the world."
    most = above.assign(beyond=above["P"] - above["P*"]).nlargest(1, "beyond").iloc[0]
    return (
        f"{len(above)} of {len(comparable)} attributes are shown more often than in the world. Farthest: "
        f"{most['attribute']} for {most['nationality']}, {format_estimate(most['P'], most['P low'], most['P high'])} "
        f"of the pictures against {format_given(most['P*'])}."
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
