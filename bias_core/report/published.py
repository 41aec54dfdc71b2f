"""The numbers that papers print for real models, next to a visitor's own runs of their studies.

Every number is read from the data of the studies, which name the table that prints it; none is estimated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from bias_core.measures.cards import work
from bias_core.prompts import WORD_SLOT
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.design import CHECKLIST, DIFFERS, find_design, read_study_table
from bias_core.study.types import StudyFigure, StudyReport, StudySettings, mark, named_parts
from bias_core.types import Estimate
from bias_core.values import option_values
from bias_core.wording import format_list

IN_PAPER = "in the paper"
_OTHER_STUDY = "from another study, not by the paper’s protocol"
_AS_SHARES = "(printed in %, here as shares)"


class PrintedNumber(NamedTuple):
    """One number of a paper: for one model, and one line of its table."""

    line: str
    model: str
    value: float
    key: str  # of the finding of a run that measures the same
    n: str = ""  # sample in words; "" if the paper does not print it
    remark: str = ""
    same: tuple[str, str] = ("", "")  # concept, and key of the finding, of a run of any study that measures the same


@dataclass(frozen=True, kw_only=True)
class PublishedMeasure:
    """The numbers that one table prints for one measure, and the studies whose runs stand next to them."""

    key: str
    title: str
    source: str
    studies: tuple[str, ...]
    numbers: tuple[PrintedNumber, ...]
    scale: str  # name of the axis
    null_value: float | None = None

    @property
    def label(self) -> str:
        """The title with paper, year and models."""
        models = list(dict.fromkeys(number.model for number in self.numbers))
        return " · ".join((self.title, work(find_design(self.studies[0]).reference), format_list(models)))


class OwnNumber(NamedTuple):
    """The same number of a visitor's run."""

    line: str
    run: str
    estimate: Estimate
    protocol: str


@cache
def published_measures() -> Mapping[str, PublishedMeasure]:
    """Return every measure that a paper prints for real models, by key."""
    made = (*_tbyb(), *_published_association(), *_nationalities(), *_published_pairs(), *_published_internal_bias())
    return {measure.key: measure for measure in made}


def _tbyb() -> Iterator[PublishedMeasure]:
    design = find_design("tbyb-general")
    evaluations = design.data["evaluations"]
    columns = (
        ("Dist. Bias", "distribution bias B_D", "released_distribution_bias"),
        ("Hallucination", "hallucination H_J", "released_hallucination"),
        ("Gen. Miss Rate", "miss rate M_G", "miss blank"),
    )
    for kind, study, title in (
        ("general", "tbyb-general", "general prompts"), ("task_oriented", "tbyb-task", "prompts with a trigger word"),
    ):  # fmt: skip
        rows, source = read_study_table(evaluations[kind]["file"]), evaluations[kind]["source"]
        for column, name, end in columns:
            yield PublishedMeasure(
                key=f"tbyb-{kind}-{end.split('_')[-1]}",
                title=f"Objects: {name}, {title}",
                source=f"Evaluation tables released with {design.reference} ({source})",
                studies=(study,),
                scale=name,
                numbers=tuple(
                    PrintedNumber(
                        line=row.get("Target", "all prompts"), model=row["Model"], value=float(row[column]),
                        key=f"{row.get('Target', 'all prompts')} {end}", n=f"{int(row['No. Samples']):,} pictures",
                    )
                    for row in rows
                ),
            )  # fmt: skip


def _published_association() -> Iterator[PublishedMeasure]:
    data = find_design("t2iat-tests").data
    settings, titles = data["settings"], data["titles"]
    yield PublishedMeasure(
        key="t2iat-tests",
        title="Association: differential association S, eight tests",
        source=data["tests"][0]["source"],
        studies=("t2iat-tests",),
        scale="S",
        null_value=0.0,
        numbers=tuple(
            PrintedNumber(
                line=", ".join(f"{titles[test[a]]} / {titles[test[b]]}" for a, b in ("xy", "ab")),
                model=settings["model"], value=float(test["score"]), key=test["key"],
                n=f"{settings['images_per_prompt']} pictures of each prompt",
                remark=f"p {'<' if test['p_below'] else '='} {test['p']:g}, d = {test['d']:g}",
            )
            for test in data["tests"]
        ),
    )  # fmt: skip


def _nationalities() -> Iterator[PublishedMeasure]:
    data = find_design("oasis-nationalities").data
    rows, n = read_study_table(data["table1"]["file"]), f"{data['templates']['images_per_nationality']:,} pictures"
    for column, title, end, scale, finding in (
        ("prevalence", "share with an attribute, P", "P", "P", "p"),
        ("stereotype_score", "stereotype score Ψ", "stereotype", "Ψ", "psi"),
    ):
        yield PublishedMeasure(
            key=f"oasis-{column}",
            title=f"Origins: {title}",
            source=f"{data['table1']['source'].partition(', all')[0]} {_AS_SHARES}",
            studies=("oasis-nationalities",),
            scale=scale,
            numbers=tuple(
                PrintedNumber(
                    line=f"{row['nationality']}, {row['attribute']}", model=row["model"],
                    value=float(row[column]) / 100, key=f"{row['nationality']} {row['attribute']} {end}", n=n,
                    remark=row["note"] if end == "stereotype" else "",  # the note is on Ψ
                    same=(f"{row['nationality']} person", finding_key(ALL, row["attribute"], finding)),
                )
                for row in rows
            ),
        )  # fmt: skip
    doctors = find_design("oasis-doctors")
    doctor, n_doctors = doctors.data["doctor"], doctors.images_per_prompt
    yield PublishedMeasure(
        key="oasis-doctors",
        title="Origins: share of men among doctors, P(man)",
        source=f"{doctor['source']} {_AS_SHARES}",
        studies=("oasis-doctors",),
        scale="P(man)",
        numbers=tuple(
            PrintedNumber(
                line=concept,
                model=model,
                value=share / 100,
                key=concept,
                n=f"{n_doctors} pictures",
                same=(concept, finding_key(ALL, "man", "p")),
            )
            for model, shares in doctor["prevalence_man"].items()
            for concept, share in shares.items()
        ),
    )


def _published_pairs() -> Iterator[PublishedMeasure]:
    data, model = find_design("pst-occupations").data, "DALL-E 3"
    for kind, study in (("occupation", "pst-occupations"), ("power", "pst-power")):
        yield PublishedMeasure(
            key=f"pst-{kind}",
            title=f"Paired: stereotype test score, {kind}",
            source=data["overall"]["source"],
            studies=(study,),
            scale="stereotype test score, −100 to 100",
            null_value=0.0,
            numbers=tuple(
                PrintedNumber(
                    line={"single": "alone", "paired": "in pairs"}[setting], model=model, value=float(of["average"]),
                    key=f"{setting}_overall", remark=f"runs: {', '.join(f'{run:g}' for run in of['runs'])}",
                )
                for setting, of in data["overall"][kind].items()
            ),
        )  # fmt: skip
    asked = data["intervention"]
    yield PublishedMeasure(
        key="pst-fairness",
        title="Paired: stereotype test score after a request to be fair",
        source=asked["source"],
        studies=("pst-fairness",),
        scale="stereotype test score, −100 to 100",
        null_value=0.0,
        numbers=(
            PrintedNumber("occupations, the most biased", model, asked["occupation_top5"], "intervened_occupation"),
            PrintedNumber("power", model, asked["power"], "intervened_power"),
        ),
    )


def _published_internal_bias() -> Iterator[PublishedMeasure]:
    data = find_design("internal-bias").data
    n = f"{data['settings']['images_per_target']} pictures"
    yield PublishedMeasure(
        key="internal-mcas",
        title="Internal: MCAS of each target",
        source=data["scores"]["source"],
        studies=("internal-bias",),
        scale="MCAS, positive for men",
        null_value=0.0,
        numbers=tuple(
            PrintedNumber(row["keyword"], row["model"], float(row["mcas"]), f"mcas {row['keyword']}", n)
            for row in read_study_table(data["scores"]["file"])
        ),
    )
    for name, title, null in (("delta", "diffusion bias δ", 0.0), ("alpha", "bias amplification α", 1.0)):
        groups = [(model, group, of) for model, by in _list_models(data["summary"]) for group, of in by.items()]
        yield PublishedMeasure(
            key=f"internal-{name}",
            title=f"Internal: mean {title}",
            source=data["summary"]["source"],
            studies=("internal-bias",),
            scale=title,
            null_value=null,
            numbers=tuple(
                PrintedNumber(
                    line="all targets" if group == "overall" else f"{group}-dominated targets", model=model,
                    value=float(of[f"{name}_mean"][0]), key=f"{name} {group}",
                    remark="; ".join(
                        filter(None, (f"± {of[f'{name}_mean'][1]:g} printed", _misprint(of.get("misprint", ""), name)))
                    ),
                )
                for model, group, of in groups
            ),
        )  # fmt: skip


def _list_models(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(model, of) for model, of in summary.items() if isinstance(of, Mapping)]


_SYMBOLS = {"alpha": "α", "delta": "δ"}


def _misprint(text: str, name: str) -> str:
    """Return the note on a misprint of this number; "" for one on another."""
    column, _, says = text.partition(": ")
    return f"the mean of the rows is {says}" if column == f"the mean of {_SYMBOLS[name]}" else ""


def own_numbers(measure: PublishedMeasure, reports: Sequence[tuple[str, StudyReport]]) -> list[OwnNumber]:
    """Return the same numbers of reports with these names, each marked with its protocol.

    Runs of other studies have them for the same concept and attribute. Those whose classifier is not made for their
    pictures have none.
    """
    lines = {number.key: number.line for number in measure.numbers}
    alike = {number.same: number.line for number in measure.numbers if number.same[0]}
    run_numbers = []
    for name, report in reports:
        for arm, part in named_parts(report) if not report.warning else ():
            run, concept = f"{name}: {arm}" if arm else name, _get_concept(part.settings)
            for finding in part.results.findings:
                if finding.key in lines and finding.published is not None:  # else of other words than the paper’s
                    run_numbers.append(
                        OwnNumber(lines[finding.key], run, finding.estimate, protocol_in_words(report, arm))
                    )
                elif (concept, finding.key) in alike:
                    run_numbers.append(OwnNumber(alike[concept, finding.key], run, finding.estimate, _OTHER_STUDY))
    return run_numbers


def _get_concept(settings: StudySettings) -> str:
    """Return the concept that a run or arm draws; "" if its study has none."""
    concept = str(option_values(settings.options).get("concept", ""))
    swap = WORD_SLOT.fullmatch(settings.arms[0].template or "") if len(settings.arms) == 1 else None
    return swap[2] if swap and swap[1] == concept else concept


def find_measure(report: StudyReport) -> str:
    """Return the key of the measure of which a report has numbers; else of its study, else of its paper; else ""."""
    measures = published_measures()
    papers = {key: find_design(measure.studies[0]).reference for key, measure in measures.items()}
    of_report = [key for key, measure in measures.items() if own_numbers(measure, [("", report)])]
    of_study = [key for key, measure in measures.items() if report.design.name in measure.studies]
    of_paper = [key for key, paper in papers.items() if paper == report.design.reference]
    return next(iter((*of_report, *of_study, *of_paper)), "")


def protocol_in_words(report: StudyReport, arm: str = "") -> str:
    """Return if a run, or one of its arms, meets its paper's protocol, or in which items it differs."""
    frame = report.results.frame(CHECKLIST)
    if frame.empty:
        return "protocol not checked"
    if arm and "arm" in frame:
        frame = frame[frame["arm"] == arm]
    names = [str(item) for item in frame[frame["status"] == DIFFERS]["item"]]
    if not names:
        return "paper’s protocol met"
    return f"differs in {format_list(names)}"


def ordered_lines(measure: PublishedMeasure, run_numbers: Sequence[OwnNumber]) -> list[str]:
    """Return the lines of a measure, first those that the visitor's runs have."""
    lines = dict.fromkeys(number.line for number in measure.numbers)
    of_runs = {number.line for number in run_numbers}
    return sorted(lines, key=lambda line: line not in of_runs)


def published_figure(measure: PublishedMeasure, run_numbers: Sequence[OwnNumber]) -> StudyFigure:
    """Return a plot of the printed numbers and the visitor's."""
    lines = ordered_lines(measure, run_numbers)
    printed = [_unknown(number.value) for number in measure.numbers]
    if len(lines) == 1:
        rows = [mark(number.model, at, group=IN_PAPER) for number, at in zip(measure.numbers, printed, strict=True)]
        rows += [mark(number.run, number.estimate, group="yours") for number in run_numbers]
        kind: Any = "intervals"
    else:
        rows = [mark(number.line, at, group=number.model) for number, at in zip(measure.numbers, printed, strict=True)]
        rows += [mark(number.line, number.estimate, group=f"yours: {number.run}") for number in run_numbers]
        rows.sort(key=lambda row: lines.index(row["name"]))
        kind = "pairs"
    labels: dict[str, Any] = {"x": measure.scale, "null": measure.null_value, "from_zero": True}
    return StudyFigure(key=measure.key, title=measure.title, kind=kind, data=pd.DataFrame(rows), labels=labels)


def _unknown(value: float) -> Estimate:
    """Return a number without an interval."""
    return Estimate(value=value, low=float("nan"), high=float("nan"), n=0, null_value=None)
