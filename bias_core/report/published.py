"""The numbers that papers print for real models, next to runs of their studies: one's own and published ones.

Every number is read from the data of the studies, which name the table that prints it; none is estimated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from bias_core.measures.cards import work
from bias_core.report.export import NOT_CHECKED, build_published_run
from bias_core.store.published_runs import PublishedClaim, PublishedPart, PublishedRun
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.design import find_design, read_study_table
from bias_core.study.types import StudyFigure, StudyReport, mark
from bias_core.types import Estimate
from bias_core.wording import format_estimate, format_list

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


class RunNumber(NamedTuple):
    """The same number of a run."""

    line: str
    name: str  # of the run, with its arm
    run: PublishedRun
    part: PublishedPart
    claim: PublishedClaim
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


def to_runs(reports: Iterable[tuple[str, StudyReport]]) -> list[tuple[str, PublishedRun]]:
    """Return named reports as published runs, without those whose classifier is not made for their pictures."""
    return [(name, build_published_run(report)) for name, report in reports if not report.warning]


def matching_numbers(measure: PublishedMeasure, runs: Sequence[tuple[str, PublishedRun]]) -> list[RunNumber]:
    """Return the same numbers of runs with these names, each marked with its protocol.

    Runs of other studies have them for the same concept and attribute.
    """
    lines = {number.key: number.line for number in measure.numbers}
    alike = {number.same: number.line for number in measure.numbers if number.same[0]}
    numbers = []
    for name, run in runs:
        for part in run.compared_parts:
            title = f"{name}: {part.arm}" if part.arm else name
            for claim in part.claims:
                if claim.key in lines and claim.published is not None:  # else of other words than the paper’s
                    numbers.append(RunNumber(lines[claim.key], title, run, part, claim, part.protocol))
                elif (part.concept, claim.key) in alike:
                    line = alike[part.concept, claim.key]
                    numbers.append(RunNumber(line, title, run, part, claim, _OTHER_STUDY))
    return numbers


_NO_SETTINGS = (
    "Run",
    "Measured on",
    "Read by",
    "Drawn by",
    "How they were read",
    "Intervals",
    "Licence of the pictures",
)
"""Words on a run's measurement that differ without another setting, or stand elsewhere."""


def describe_differences(runs: Sequence[PublishedRun]) -> list[str]:
    """Return for each run the settings in which these runs differ, in words; "" for all if they are alike."""
    facts = [
        {name: text for name, text in run.measurement.items() if name not in _NO_SETTINGS}
        | {"Confidence": _list_texts(part.settings.get("confidence", "") for part in run.compared_parts)}
        for run in runs
    ]
    names = dict.fromkeys(name for of in facts for name in of)
    differing = [name for name in names if len({of.get(name, "") for of in facts}) > 1]
    return ["; ".join(f"{name}: {of.get(name, 'none')}" for name in differing) for of in facts]


def runs_frame(runs: Sequence[PublishedRun]) -> pd.DataFrame:
    """Return a line for each run, numbered from 1: from whom, how it was measured, and in what the runs differ."""
    rows = [
        {
            "run": f"{i}", "from": run.source, "study": run.study, "title": run.title,
            "model": _list_texts(f"{part.model} {part.revision}".strip() for part in run.compared_parts),
            "classifier": _list_texts(part.classifier for part in run.compared_parts),
            "pictures": _count_pictures(run), "day": run.day,
            "protocol": _list_texts(part.protocol for part in run.compared_parts if part.protocol != NOT_CHECKED),
            "settings that differ": differences, "note": run.caution, "claims": f"{run.n_claims:,}",
        }
        for i, (run, differences) in enumerate(zip(runs, describe_differences(runs), strict=True), start=1)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame[[name for name in frame if frame[name].any()]]


def _count_pictures(run: PublishedRun) -> str:
    n_images, n_planned, n_blocked = (
        sum(getattr(part, name) for part in run.compared_parts) for name in ("n_images", "n_planned", "n_blocked")
    )
    missing = f" of {n_planned:,}" if n_planned != n_images else ""
    return f"{n_images:,}{missing}" + f", {n_blocked:,} blocked" * bool(n_blocked)


def _list_texts(texts: Iterable[str]) -> str:
    return format_list(list(dict.fromkeys(texts)))


def claims_frame(runs: Sequence[PublishedRun]) -> pd.DataFrame:
    """Return a row for each claim of each run (numbered from 1), and for each number of a paper that measures the same.

    Rows with the same ``claim`` measure the same: a line of a paper's table, or the same number of the same concept.
    """
    lines, printed = _match_all(runs)
    rows = []
    for i, run in enumerate(runs, start=1):
        for part in run.parts:
            facts = {
                "run": f"{i}: {part.arm}" if part.arm and part.arm != part.concept else f"{i}", "from": run.source,
                "study": run.study, "concept": part.concept, "arm": part.arm, "model": part.model,
                "revision": part.revision, "classifier": part.classifier, "day": run.day, "protocol": part.protocol,
                "remark": run.caution,
            }  # fmt: skip
            for claim in part.claims:
                name = lines.get(id(claim), f"{part.concept or run.title}: {claim.number}")
                values = {name: value for name, value in asdict(claim).items() if name not in ("key", "published")}
                rows.append({"claim": name, **facts, **values})
    return pd.DataFrame([*rows, *printed]).astype({"n": "Int64", "n_tests": "Int64"})


def _match_all(runs: Sequence[PublishedRun]) -> tuple[dict[int, str], list[dict[str, Any]]]:
    """Return the line of a paper's table that each matching claim measures, by its id, and the numbers of these."""
    lines, printed = dict[int, str](), list[dict[str, Any]]()
    for measure in published_measures().values():
        names = {number.line: f"{measure.title}: {number.line}" for number in measure.numbers}
        for match in matching_numbers(measure, [("", run) for run in runs]):
            lines.setdefault(id(match.claim), names[match.line])
        facts = {"run": IN_PAPER, "from": work(find_design(measure.studies[0]).reference), "study": measure.studies[0]}
        printed += [
            {
                "claim": names[number.line], **facts, "model": number.model, "value": number.value,
                "remark": "; ".join(filter(None, (measure.source, number.n, number.remark))),
            }
            for number in measure.numbers if names[number.line] in lines.values()
        ]  # fmt: skip
    return lines, printed


def claims_table(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of :func:`claims_frame` as text: a line for each claim, a column for each run, then the papers'.

    Lines that most columns have are first.
    """
    cells = dict[str, dict[str, list[str]]]()
    for row in claims.to_dict("records"):
        text = f"{row['model']} {row['value']:g}, {row['from']}" if row["run"] == IN_PAPER else _cell(row)
        cells.setdefault(row["claim"], {}).setdefault(row["run"], []).append(text)
    columns = sorted(claims["run"].unique(), key=lambda name: name == IN_PAPER)
    lines = sorted(cells.items(), key=lambda line: -len(line[1]))
    texts = [{"claim": name, **{column: "; ".join(line.get(column, ())) for column in columns}} for name, line in lines]
    return pd.DataFrame(texts)


_VERDICTS = {"yes": ", clear", "no": ", not clear", "too few": ", too few", "": ""}


def _cell(row: Mapping[Any, Any]) -> str:
    value = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    return f"{value}, n = {row['n']:,.0f}{_VERDICTS[row['clear']]}"


def find_measure(report: StudyReport) -> str:
    """Return the key of the measure of which a report has numbers; else of its study, else of its paper; else ""."""
    measures = published_measures()
    papers = {key: find_design(measure.studies[0]).reference for key, measure in measures.items()}
    runs = to_runs([("", report)])
    of_report = [key for key, measure in measures.items() if matching_numbers(measure, runs)]
    of_study = [key for key, measure in measures.items() if report.design.name in measure.studies]
    of_paper = [key for key, paper in papers.items() if paper == report.design.reference]
    return next(iter((*of_report, *of_study, *of_paper)), "")


def ordered_lines(measure: PublishedMeasure, run_numbers: Sequence[RunNumber]) -> list[str]:
    """Return the lines of a measure, first those that the runs have."""
    lines = dict.fromkeys(number.line for number in measure.numbers)
    of_runs = {number.line for number in run_numbers}
    return sorted(lines, key=lambda line: line not in of_runs)


def published_figure(measure: PublishedMeasure, run_numbers: Sequence[RunNumber]) -> StudyFigure:
    """Return a plot of the printed numbers and those of runs."""
    lines = ordered_lines(measure, run_numbers)
    printed = [_unknown(number.value) for number in measure.numbers]
    if len(lines) == 1:
        rows = [mark(number.model, at, group=IN_PAPER) for number, at in zip(measure.numbers, printed, strict=True)]
        rows += [
            mark(number.name, number.claim.estimate, group="others" if number.run.source else "yours")
            for number in run_numbers
        ]
        kind: Any = "intervals"
    else:
        rows = [mark(number.line, at, group=number.model) for number, at in zip(measure.numbers, printed, strict=True)]
        rows += [mark(number.line, number.claim.estimate, group=number.name) for number in run_numbers]
        rows.sort(key=lambda row: lines.index(row["name"]))
        kind = "pairs"
    labels: dict[str, Any] = {"x": measure.scale, "null": measure.null_value, "from_zero": True}
    return StudyFigure(key=measure.key, title=measure.title, kind=kind, data=pd.DataFrame(rows), labels=labels)


def _unknown(value: float) -> Estimate:
    """Return a number without an interval."""
    return Estimate(value=value, low=float("nan"), high=float("nan"), n=0, null_value=None)
