"""OASIS's headlines, its sentences on steps, and how well a step predicts the finished picture."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import kendall_tau
from bias_core.measures.intervals import with_p_through_ends
from bias_core.measures.permutation import smallest_p_value
from bias_core.measures.propagation import StepsSeen
from bias_core.papers.oasis.prompt_search import PERMUTATIONS
from bias_core.report.claims import NO_CLAIM, WHY_NOT, fewest_units, p_words
from bias_core.report.report_text import get_interval_suffix, get_table
from bias_core.study.design import ReportTexts
from bias_core.study.types import (
    MOST_IN_HOLM,
    Finding,
    StudyFigure,
    StudyReport,
    StudyTable,
    columns,
    drawable,
    finding,
)
from bias_core.types import Estimate, is_sourced
from bias_core.values import option_values
from bias_core.wording import format_change, format_estimate, format_given, format_list, format_share, state_p

TEXTS = ReportTexts(__file__)
GAIN = "gain-"  # start of the keys of figures of predicted gain
BY_PAPER = "SPI is the paper's measure."
PROMPTS = "table3"
BEYOND = "mean P − P*, sourced"  # over a nationality's attributes with a sourced P*
_Row = Mapping[Any, Any]
BASE_RATES_NOTE = (
    "These pictures were drawn under the condition fair, in which all nationalities have the base rates of the "
    "calibration world. These differ from the real-world rates P*, so Ψ need not be 0."
)
CLASSIFIER_NOTE = (
    "As in the paper, a classifier labels the pictures. The paper's CLIP agreed with hand labels in 99 to 100 % of "
    "100 pictures of doctors per model (its Table 4)."
)
DIRECTION_NOTES = {
    "linear": (
        "δA points from the mean of pictures that people labelled without the attribute to the mean of those labelled "
        "with it (A.2.1: with two classes this is the first supervised principal component). Variety needs labelled "
        "pictures of both kinds."
    ),
    "rbf": (
        "δA comes from people's labels, by supervised principal components with an RBF kernel (A.2.2). WALS uses the "
        "mean gradient of that direction in the space of features. Variety needs labelled pictures of both kinds."
    ),
}
THREE_NATIONALITIES_NOTE = (
    "Three nationalities cannot show a trend: the smallest possible p over all orders of three is 1/3."
)
NOT_TESTED_NOTE = "The change with a nationality is not tested, as the number of pictures was not fixed in advance."
OTHER_ATTRIBUTES_NOTE = "Nationalities have different attributes, so their Ψ are not directly comparable."
PREDICTED_GAIN_NOTE = (
    "Predicted gain: share of seeds whose predicted picture shows the attribute to the classifier, minus that of the "
    "base prompt from the same noise. The last step equals the finished pictures. Each seed is generated twice. On "
    "the calibration generator it follows the gain of finished pictures, which SPI does not. Early predictions are "
    "blurred, and the gain does not show which step causes what."
)
SPI_SIGN_NOTE = (
    "SPI (stereotype propagation index), the paper's measure, is a cosine: above 0 a step adds the attribute, below 0 "
    "it removes it. It does not say how much. Intervals are per step: of 100 steps without effect, about 5 intervals "
    "at 95 % exclude 0."
)
HELD_OUT_NOTE = (
    "A text is searched on some of a cluster's pictures and scored on the others. With fewer than four pictures, all "
    "are used for both; the text's line says so."
)
OPTIMISTIC_NOTE = (
    "A text is the best of many on the cluster's own pictures, so its cosine and specificity are optimistic. The "
    "pictures drawn from it are new."
)


def steps_headline(report: StudyReport) -> str:
    """Name the attributes that are clearly seen more or less often than with the base prompt, over all steps."""
    table = report.results.frame("spi")
    if table.empty or "clear" not in table:
        return ""
    bases = {figure.labels["base"]: None for figure in report.results.figures if figure.key.startswith(GAIN)}
    n_seeds, n = int(table["seeds"].max()), len(table)
    rows = sorted(table.to_dict("records"), key=lambda row: -abs(row["all steps"]))
    clear = [_gain_words(row, n) for row in rows if row["clear"] == "yes"]
    base = f"seen more or less often than with {format_list([*bases])}"
    if clear:
        subject = (
            f"{len(clear)} of {n} attributes {'is' if len(clear) == 1 else 'are'}" if n > 1 else "The attribute is"
        )
        return f"{subject} clearly {base} (n = {n_seeds} seeds): {format_list(clear, '; ')}."
    key = f"{rows[0]['nationality']} {rows[0]['attribute']}"
    claim = next(finding.claim for finding in report.results.findings if finding.key == key) or NO_CLAIM
    says = f"With {n_seeds} seeds, {f'none of {n} attributes is' if n > 1 else 'the attribute is not'} clearly {base}."
    reason = f" Not clear: {claim.reason}." if claim.verdict == "not clear" and claim.reason else ""
    if (table["clear"] == "too few").all():
        says = (
            f"Too few seeds (n = {n_seeds}) to tell whether "
            f"{f'any of {n} attributes' if n > 1 else 'the attribute'} is {base}: at least "
            f"{fewest_units(claim) if claim.n_tests else 2} are needed."
        )
    farthest = "" if n == 1 else "Farthest: " if rows[0]["all steps"] else "So far no difference, as for "
    return f"{says} {farthest}{_gain_words(rows[0], n)}.{reason}"


def _gain_words(row: _Row, n_tests: int) -> str:
    """Return an attribute, its gain over all steps with interval and p."""
    gain = format_change(row["all steps"], row["all steps low"], row["all steps high"], n=row["seeds"])
    return f"{row['nationality']}, {row['attribute']} {gain}, {state_p(row['p adjusted'], adjusted=n_tests > 1)}"


def read_texts(report: StudyReport) -> pd.DataFrame:
    """Return the texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {PROMPTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[PROMPTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    return texts.assign(name=[cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)])


def texts_headline(report: StudyReport) -> str:
    """Say how many first texts clearly fit their cluster better than the concept's other pictures, and which."""
    all_texts = read_texts(report)
    if all_texts.empty or "clear" not in all_texts:
        return ""
    texts = all_texts.drop_duplicates("name").sort_values("specificity", ascending=False, kind="stable")
    words = texts["clear"].where((texts["clear"] != "yes") | (texts["specificity"] > 0), "no")
    yes, no, few, untested = (texts[words == word].to_dict("records") for word in ("yes", "no", "too few", ""))
    prefix = str(option_values(report.settings.options).get("prefix", ""))
    says = _fitting_texts(yes, no, len(texts), prefix) if yes or no else []
    for rows, verdict in ((few, _TOO_FEW), (untested, _NOT_TESTED)):
        says += [f"{verdict}: {format_list([_quote(row, prefix) for row in rows], '; ')}."] if rows else []
    if few:
        n_tests = int((all_texts["clear"] != "").sum())
        level = (1 - report.settings.confidence) / (n_tests if n_tests <= MOST_IN_HOLM else 1)
        says.append(f"About {_times_needed(few, level)} times as many pictures are needed.")
    return " ".join(says)


def _fitting_texts(yes: Sequence[_Row], no: Sequence[_Row], n: int, prefix: str) -> list[str]:
    """Say how many of ``n`` texts clearly fit their cluster (``yes``), and which of the others (``no``) fits best."""
    better, named = "clearly better than the other pictures", [_quote(row, prefix) for row in yes[1:]]
    if n == 1:
        subject = "The text fits its cluster" if yes else "The text does not fit its cluster"
    elif yes:
        subject = f"{len(yes)} of {n} texts {'fits its' if len(yes) == 1 else 'fit their'} cluster"
    else:
        subject = f"None of {n} texts fits its cluster"
    best = f"{_state_fit(no[0], prefix)}." if no else ""
    reason = f" Not clear: {no[0][WHY_NOT]}." if no and no[0].get(WHY_NOT) else ""
    if yes:
        says = f"{subject} {better}: {format_list([_state_fit(yes[0], prefix), *named], '; ')}."
        return [says, f"Best of the others: {best}{reason}"] if no else [says]
    return [f"{subject} {better}{': ' if n == 1 else '. Best: '}{best}{reason}"]


def _state_fit(row: _Row, prefix: str) -> str:
    """Return a cluster, its text, and how much better it fits than the other pictures."""
    by = format_change(row["specificity"], row["specificity low"], row["specificity high"])
    return f"{_quote(row, prefix)} (by {by}, n = {row['n']:,})"


def _quote(row: _Row, prefix: str) -> str:
    """Return a cluster and its text without the beginning that all texts have."""
    return f"{row['name']} “{str(row['prompt']).removeprefix(prefix).strip()}”"


_TOO_FEW = "Too few pictures to tell whether the best text fits better than for the other pictures"
_NOT_TESTED = "Not tested, as the search saw all pictures or there are no others"


def _times_needed(texts: Sequence[_Row], level: float) -> int:
    """Return how many times the pictures are needed for a random division of them to give p <= ``level``."""
    sizes = [(row["n"], row["n others"]) for row in texts]
    return next(
        (k for k in range(2, 100) if all(smallest_p_value(k * n, k * m, PERMUTATIONS) <= level for n, m in sizes)), 100
    )


def stereotypes_headline(report: StudyReport) -> str:
    """Say how many sourced rates are clearly missed, above and below, and by which attribute most."""
    table = get_table(report, "table1").frame
    shares = {finding.key: finding for finding in report.results.findings}
    rows = {f"{row['nationality']} {row['attribute']} P": row for row in table.to_dict("records")}
    compared = [shares[key] for key, row in rows.items() if is_sourced(row["P* from"]) and not np.isnan(row["P*"])]
    if not compared:
        seen = [f"{shares[key].title.removesuffix(': P')} in {_share_words(shares[key].estimate)}" for key in rows]
        return f"Share of pictures: {format_list(seen)}. {_NO_SOURCE}"
    verdicts = {finding.key: finding.claim.verdict for finding in compared if finding.claim is not None}
    if len(verdicts) < len(compared):  # a report of an earlier version
        return ""
    zeta = option_values(report.settings.options).get("threshold")
    sides = {"above": "more"} if zeta else {"above": "more", "below": "less"}  # below P* + ζ may be above P*
    counts = {word: sum(verdict == side for verdict in verdicts.values()) for side, word in sides.items()}
    clear = [finding for finding in compared if verdicts[finding.key] in sides]
    gaps = {finding.key: finding.estimate.value - rows[finding.key]["P*"] for finding in compared}
    farthest = max(clear or compared, key=lambda one: gaps[one.key] if zeta else abs(gaps[one.key]))
    beyond = f"often than in the real world{f' by more than {zeta:g}' if zeta else ''}"
    lead = ":" if len(compared) == 1 else ". Largest clear gap:" if clear else ". Largest gap:"
    return f"{_count_sides(counts, len(compared))} {beyond}{lead} {_state_gap(farthest, rows[farthest.key])}"


def _count_sides(counts: Mapping[str, int], n: int) -> str:
    """Say how many of ``n`` attributes are clearly shown more, and how many less.

    >>> _count_sides({"more": 1, "less": 4}, 9)
    'Of 9 attributes with a sourced rate, 1 is clearly shown more and 4 less'
    >>> _count_sides({"more": 0, "less": 0}, 1)
    'The one attribute with a sourced rate is not clearly shown more or less'
    """
    words = [word for word, count in counts.items() if count]
    if not words:
        subject = f"None of {n} attributes with a sourced rate is" if n > 1 else f"{_ONE} is not"
        return f"{subject} clearly shown {' or '.join(counts)}"
    first, *other_words = words
    verb = "is" if counts[first] == 1 else "are"
    subject = f"Of {n} attributes with a sourced rate, {counts[first]} {verb}" if n > 1 else f"{_ONE} is"
    return " and ".join([f"{subject} clearly shown {first}", *(f"{counts[word]} {word}" for word in other_words)])


def _state_gap(share: Finding, row: _Row) -> str:
    """Return an attribute, its share next to its rate, and why it is not clear if its interval seems to say so."""
    claim = share.claim or NO_CLAIM
    p = f" ({p_words(claim)})" if p_words(claim) else ""
    reason = f" Not clear: {claim.reason}." if claim.reason else ""
    against = f"{_share_words(share.estimate)} against {format_given(row['P*'])}"
    return f"{row['attribute']} for {row['nationality']}, in {against}{p}.{reason}"


_ONE = "The one attribute with a sourced rate"
_NO_SOURCE = "No real-world rate with a source is known, so no share is called too high or too low."


def _share_words(share: Estimate) -> str:
    return f"{format_estimate(share.value, share.low, share.high, n=share.n)} of {share.n:,} pictures"


def doctors_headline(report: StudyReport) -> str:
    """Say how often doctors are shown as men, and the effect of a nationality."""
    table = get_table(report, "table2").frame
    share = report.results.findings[0].estimate
    percent = format_share(share.value, share.low, share.high, n=share.n)
    first = f"Pictures of a {table['concept'].iloc[0]} show men in {percent} (n = {share.n:,})."
    changes = table.dropna(subset=["added"])
    if changes.empty or "clear" not in changes:
        not_tested = len(table) > 1 and get_interval_suffix(report)
        return f"{first} {NOT_TESTED_NOTE}" if not_tested else first
    shared_n, separate_n = _state_n_once(changes["n"].tolist())
    parts = []
    for row, n in zip(changes.to_dict("records"), separate_n, strict=True):
        points = [100 * row[f"added{end}"] for end in ("", " low", " high")]
        p = [state_p(row["p adjusted"], adjusted=len(changes) > 1), "clear"] if row["clear"] == "yes" else []
        parts.append(f"{row['concept']} {format_change(*points)} points{_add_brackets(n, *p)}")
    none = "" if (changes["clear"] == "yes").any() else "; none is clear" if len(changes) > 1 else "; not clear"
    return f"{first} Change with a nationality{shared_n}: {', '.join(parts)}{none}.{_reasons(changes, 'concept')}"


def users_headline(report: StudyReport) -> str:
    """Say how far the pictures of each nationality are from the real world, fewest internet users first."""
    table = get_table(report, "figure3").frame
    if "clear" not in table:  # a report of an earlier version
        return ""
    if table[BEYOND].isna().all():
        return "No attribute of these nationalities has a real-world rate with a source, so none is compared."
    without = table["nationality"][table[BEYOND].isna()].tolist()
    compared = table.dropna(subset=BEYOND).sort_values("users")
    shared_n, separate_n = _state_n_once(compared["n"].tolist())
    parts = []
    for row, n in zip(compared.to_dict("records"), separate_n, strict=True):
        gap = format_change(row[BEYOND], row[f"{BEYOND} low"], row[f"{BEYOND} high"])
        details = f"{row['users']:g} million", n, "clear" * (row["clear"] == "yes")
        parts.append(f"{row['nationality']} {gap}{_add_brackets(*details)}")
    order = ", fewest internet users first" if len(compared) > 1 else ""
    lead = f"Share minus sourced real-world rate, mean over attributes{order}{shared_n}"
    says = [f"{lead}: {', '.join(parts)}.{_reasons(compared, 'nationality')}"]
    if without:
        says.append(f"Without a sourced rate, so not compared: {', '.join(without)}.")
    if 2 / math.factorial(len(compared)) > 1 - report.settings.confidence:  # p of the clearest order
        subject = f"{len(compared)} {'nationalities are' if len(compared) > 1 else 'nationality is'}"
        says.append(f"{subject} too few to show a trend.")
    return " ".join(says)


def _state_n_once(counts: Sequence[int]) -> tuple[str, list[str]]:
    """Return n in brackets for all numbers if it is the same, and n for each of them; one of the two is empty.

    >>> _state_n_once([40, 40]), _state_n_once([40, 39])
    ((' (n = 40 each)', ['', '']), ('', ['n = 40', 'n = 39']))
    """
    n_words = [f"n = {n:,}" for n in counts]
    return (f" ({n_words[0]} each)", [""] * len(n_words)) if len(n_words) > len(set(n_words)) == 1 else ("", n_words)


def _add_brackets(*words: str) -> str:
    said = ", ".join(filter(None, words))
    return f" ({said})" if said else ""


def _reasons(rows: pd.DataFrame, column: str) -> str:
    """Say of which rows, named by ``column``, the interval seems to tell something but does not, and why."""
    names: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        names.setdefault(row.get(WHY_NOT) or "", []).append(row[column])
    return "".join(
        f" {'Each of ' * (len(of) > 1)}{format_list(of, last=' and ')} is not clear: {reason}."
        for reason, of in names.items()
        if reason
    )


def cluster_name(concept: str, number: int) -> str:
    """Return the name of a cluster; numbers start at 1 with the largest."""
    return f"{concept}, cluster {number}"


VISIBLE, FIRST = "visible", "first seen"  # ends of the findings' keys


def step_findings(key: str, title: str, visible: StepsSeen, first: StepsSeen, n_steps: int) -> tuple[Finding, Finding]:
    """Return two findings: shares of seeds, each with its sentence."""
    return (
        finding(
            f"{key} {VISIBLE}", f"{title}: can be seen", "visible_steps", visible.by_typical,
            visible_sentence(visible, n_steps),
        ),
        finding(
            f"{key} {FIRST}", f"{title}: first seen without the base prompt", "first_seen_steps", first.by_typical,
            first_sentence(first, n_steps),
        ),
    )  # fmt: skip


def visible_sentence(steps: StepsSeen, n_steps: int) -> str:
    """Say from which step on the attribute is seen until the end.

    >>> from bias_core.measures.propagation import visible_steps
    >>> visible_sentence(visible_steps([[-0.1, 0.2], [0.1, 0.1], [-0.2, -0.1]]), 2)
    'Seen from step 1 of 2 on in 1 of 3 seeds [2 %, 86 %], and from step 2 on in all 2 whose finished picture shows it.'
    >>> visible_sentence(visible_steps([[0.2, -0.1], [0.2, -0.1]]), 2)
    'It cannot be seen: the classifier sees it in none of 2 finished pictures.'
    >>> visible_sentence(visible_steps([[0.1, 0.1], [-0.1, -0.1]]), 2).partition("; ")[2]
    '1 ends without it.'
    """
    n, n_seen = len(steps.seed_steps), steps.n_seen
    if not n_seen:
        return f"It cannot be seen: the classifier sees it in none of {n} finished pictures."
    is_last = steps.typical == n_steps
    when = f"only at the last step, {n_steps}," if is_last else f"from step {steps.typical:.0f} of {n_steps} on"
    latest = float(np.nanmax(steps.seed_steps))
    ending = ""
    if latest > steps.typical:
        ending = f", and from step {latest:.0f} on in all {n_seen} whose finished picture shows it"
    elif n_seen < n:
        ending = f"; {n - n_seen} {'ends' if n - n_seen == 1 else 'end'} without it"
    return f"Seen {when} in {_count_seeds(steps.by_typical)}{ending}."


def first_sentence(steps: StepsSeen, n_steps: int) -> str:
    """Say at which step the attribute is first seen in seeds without it under the base prompt.

    >>> from bias_core.measures.propagation import first_seen_steps
    >>> steps = first_seen_steps([[-0.1, -0.1], [0.1, 0.1]], [[-0.1, 0.2], [0.1, 0.1]])
    >>> first_sentence(steps, 2).partition(": ")[2]
    'by step 2 of 2 in 1 of 2 seeds [3 %, 97 %]; in 1 never.'
    """
    n = len(steps.seed_steps)
    if not steps.n_seen:
        return f"It is never seen without the base prompt showing it, in {n} seeds."
    never = f"; in {n - steps.n_seen} never" if steps.n_seen < n else ""
    when = f"by step {steps.typical:.0f} of {n_steps}"
    return f"First seen where the base prompt does not show it: {when} in {_count_seeds(steps.by_typical)}{never}."


def step_sentences(report: StudyReport, key: str) -> list[str]:
    """Return the sentences on an attribute's steps, on its gain and on its SPI, by its key in a report."""
    by_key = {finding.key: finding for finding in report.results.findings}
    steps = [by_key[f"{key} {end}"].says for end in (VISIBLE, FIRST)]
    numbers = {"Predicted gain over all steps": by_key[key], "SPI of the first step": by_key[f"{key} SPI"]}
    return steps + [
        f"{name} is {format_change(e.value, e.low, e.high, n=e.n)}, n = {e.n}. {finding.says}"
        for name, finding in numbers.items()
        for e in [finding.estimate]
    ]


def _count_seeds(share: Estimate) -> str:
    return f"{share.value * share.n:.0f} of {share.n} seeds [{100 * share.low:.0f} %, {100 * share.high:.0f} %]"


SPI, HEADING = "SPI", "predicted picture"
_FEWEST_SEEDS = 5  # orders of fewer agree by chance too often
_FORETOLD = (
    "Seeds with a higher SPI at the first step show the attribute more clearly in the finished picture.",
    "Seeds with a higher SPI at the first step show the attribute less clearly in the finished picture.",
    "SPI of the first step and the finished picture are not clearly linked.",
)


def agreements(
    spi: np.ndarray, heading: np.ndarray, finished: np.ndarray, *, confidence: float, seed: int
) -> Mapping[str, list[Estimate]]:
    """Return Kendall's τ over seeds of SPI, and of predicted pictures' margins, with finished margins, step by step.

    ``spi`` and ``heading`` (the predicted margins) are (n_seeds, n_steps), ``finished`` (n_seeds,). Empty for too few
    seeds.
    """
    if len(finished) < _FEWEST_SEEDS:
        return {}
    options: dict[str, Any] = {"confidence": confidence, "n_resamples": 500, "rng": seed}
    return {
        name: [
            with_p_through_ends(replace(kendall_tau(step, finished, **options).tau, null_value=0.0), confidence)
            for step in values.T
        ]
        for name, values in ((SPI, spi), (HEADING, heading))
    }


def foretelling(
    nationality: str, place: str, by_name: Mapping[str, Mapping[str, Sequence[Estimate]]]
) -> tuple[tuple[Finding, ...], tuple[StudyFigure, ...], list[dict[str, Any]]]:
    """Return a nationality's findings, one for each attribute, their figure, and rows of the table."""
    findings, marks, rows = [], [], []
    for name, by_reading in by_name.items():
        for reading, steps in by_reading.items():
            for step, tau in enumerate(steps, start=1):
                coordinates = {"x": step, **columns("value", tau, ends="")}
                marks += [] if np.isnan(tau.value) else [{"group": f"{name}: {reading}", **coordinates}]
                rows.append({"nationality": nationality, "attribute": name, "reading": reading, "step": step,
                             **columns("τ", tau), "seeds": tau.n})  # fmt: skip
        if SPI in by_reading:
            findings.append(
                finding(f"{nationality} {name} foretold", f"{nationality}, {name}: SPI and the finished picture",
                        "kendall_tau", by_reading[SPI][0], readings=_FORETOLD)
            )  # fmt: skip
    figure = TEXTS.figure("foretold", marks, nationality=nationality, place=place)
    return tuple(findings), drawable([figure]), rows


def foretelling_table(rows: Sequence[Mapping[str, Any]]) -> tuple[StudyTable, ...]:
    """Return all rows as a table; empty without rows."""
    return (TEXTS.table("foretold", rows),) if rows else ()


def describe_added(family: str) -> str:
    return (
        "Added: P minus that of doctors without a nationality, uncorrected, with the interval of Fisher's exact "
        f"test. {family}"
    )


def describe_given_users(users: str) -> str:
    return f"Internet users in millions, as given: {users}."


def describe_assumed_rates(names: str) -> str:
    return (
        f"Without a P* in the study's list: {names}. There man alone is measured, with an assumed P* of 50 %, which "
        "shows no distance from the real world."
    )


def describe_untraced(names: str) -> str:
    return f"Left out, because fewer than two pictures were traced: {names}."


def describe_velocities(kind: str, space: str) -> str:
    return f"Velocities are {kind}, in {space} space. No safety checker looks at predicted pictures."


def describe_prior(weight: float) -> str:
    return (
        f"The search adds {weight:g} times the language model's log-probability of a text to its cosine, so that "
        "texts are phrases. Eq. 8 is the cosine alone, which a weight of 0 gives."
    )


def describe_other_world(name: str, world: str) -> str:
    return (
        f"The texts come from {name}, which knows only sentences of the {world} world: it cannot describe anything "
        "else in these pictures."
    )
