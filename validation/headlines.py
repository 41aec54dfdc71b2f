"""Counts wrong headlines: whole studies are run many times where nothing, some and all is planted.

Under "fair" nothing is planted, and each P* is the planted rate, so a headline that claims anything is false. A
diffusion model is fair only nearly: a claim that holds over all its runs is true of it. Under "published" and "extreme"
a claim is wrong if it points the other way than the mean of its number over all runs. Every run is a line of a file, so
that a longer check goes on from a shorter one.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.explore.concepts import load_concept_lists
from bias_core.measures.intervals import exact_interval
from bias_core.report.claims import claim_columns, decide_claims
from bias_core.report.headlines import COUNTED, FALSE_CLAIMS, NOT_AS_EXPECTED, headline
from bias_core.run.plan import library_versions
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import design_files, find_design
from bias_core.study.types import Arm, Design, Finding, Results, StudyReport, StudySettings, columns, finding, table
from bias_core.types import Estimate, is_sourced

NAME = "validity-headlines"
RENDERER = "calibration-renderer"
FAIR, PLANTED = "fair", ("published", "extreme")
RUNS_IN_ONE_STORE = 20  # then its pictures are deleted
_NEGATED = re.compile(
    r"\b(?:no|none|not|cannot|neither|nor|nothing|nobody|too few|undefined|never|looks as)\b[^.;:()]*"
    r"|\bbut among [\d,]+ tests\b[^.;:()]*",  # why a number is not clear though its interval excludes its null value
    re.IGNORECASE,
)
_CLAIMS = re.compile(r"\bclear(?:ly|est)?\b|\b(?:more|less) (?:than|often)\b|\bcloser to\b|\bdiffers?\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A study at one size, as a visitor runs it."""

    study: str
    size: str  # in words: the app's default, the smallest
    settings: Mapping[str, Any]  # of StudySettings
    conditions: tuple[str, ...] = (FAIR, *PLANTED)
    design: Callable[[Design, str], Design] = lambda design, _condition: design  # with the P* of its own null

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.study}, {self.size}".replace(", ", "-").replace(" ", "-")


def headline_claims(text: str) -> bool:
    """Return True if a headline claims a difference, an association or a bias: says so, and does not deny it.

    >>> headline_claims("No clear difference: the gap is +3 points."), headline_claims("It is clearly above half.")
    (False, True)
    >>> headline_claims("Not clear (+9; its interval excludes 0, but among 2 tests this happens in more than 5 %).")
    False
    """
    return any(_CLAIMS.search(_NEGATED.sub("", sentence)) for sentence in re.split(r"(?<=[.;:]) ", text))


def run_trial(trial: Trial, condition: str, seeds: Sequence[int], file: Path, *, model: str) -> None:
    """Run a study once for each seed that the file does not have, and append a line on each run."""
    known = {record["seed"] for record in read_records(file)}
    missing = [seed for seed in seeds if seed not in known]
    for start in range(0, len(missing), RUNS_IN_ONE_STORE):
        with TemporaryDirectory() as folder:
            services = Services(Settings(data_dir=Path(folder)))
            for seed in missing[start : start + RUNS_IN_ONE_STORE]:
                record = _run_once(trial, condition, seed, services, model)
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record, ensure_ascii=False) + "\n")
            services.close()


def _run_once(trial: Trial, condition: str, seed: int, services: Services, model: str) -> dict[str, Any]:
    design = trial.design(find_design(trial.study), condition)
    settings = StudySettings(model=model, condition=condition, seed=seed, **trial.settings)
    if settings.arms:  # the first arm is fair, the second has the condition
        settings = replace(
            settings, arms=tuple(replace(arm, condition=arm.condition or condition) for arm in settings.arms)
        )
    report = complete(run_study(design, settings, services))
    text = headline(report)
    numbers = {
        finding.key: [finding.estimate.value - (finding.estimate.null_value or 0.0), finding.claim.verdict]
        for finding in report.results.findings
        if finding.claim is not None and finding.claim.n_tests and np.isfinite(finding.estimate.value)
    }
    return {
        "seed": seed, "headline": text, "n_images": report.n_images,
        "numbers": numbers,
        "clear": sum(verdict in ("above", "below") for _, verdict in numbers.values()),
    }  # fmt: skip


def read_records(file: Path) -> list[dict[str, Any]]:
    """Return the runs in a file; [] without one."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def summary_table(
    folder: Path, trials: Sequence[Trial], model: str, *, earlier: pd.DataFrame | None = None, confidence: float = 0.95
) -> pd.DataFrame:
    """Return one row for each study and size: false claims, power and wrong signs, with the runs they were counted in.

    Claims are exact shares of all runs; that of false ones is tested against 5 %, and all of these are one family.
    ``earlier`` is such a table, whose rows count for the trials that have no run in the folder.
    """
    rows, shares_false = list[dict[Any, Any]](), list[Estimate]()
    counted = {} if earlier is None else {(row["study"], row["size"]): row for row in earlier.to_dict("records")}
    for trial in trials:
        records = {name: read_records(folder / f"{trial.name}-{name}.jsonl") for name in trial.conditions}
        if not any(records.values()):
            if row := counted.get((trial.study, trial.size)):
                rows.append({name: value for name, value in row.items() if name not in _DECIDED})
                shares_false.append(_share_false(int(row["false claims"]), int(row[f"{FAIR}: runs"])))
            continue
        shares = {name: _share_that_claims(of) for name, of in records.items()}
        fair = records.get(FAIR, [])
        n_false = sum(map(headline_claims_falsely(fair, is_fair=model == RENDERER), fair))
        shares_false.append(_share_false(n_false, len(fair)))
        wrong, n_clear = map(sum, zip(*(count_wrong_signs(records.get(name, [])) for name in PLANTED), strict=True))
        every = [record for of in records.values() for record in of]
        rows.append(
            {"study": trial.study, "size": trial.size}
            | {"pictures a run": round(float(np.mean([record["n_images"] for record in every])))}
            | {column: number for name in (FAIR, *PLANTED) for column, number in _share_columns(name, shares).items()}
            | {"clear numbers": n_clear, "with the wrong sign": wrong, "false claims": n_false}
        )
    claims = decide_claims(shares_false, confidence=confidence)
    decided = [claim_columns(share, claim) for share, claim in zip(shares_false, claims, strict=True)]
    frame = pd.DataFrame([row | of for row, of in zip(rows, decided, strict=True)])
    frame = frame.rename(columns={"clear": NOT_AS_EXPECTED})
    for name in (NOT_AS_EXPECTED, "false claims") if len(frame) else ():  # beside the share of claims
        frame.insert([*frame].index(f"{FAIR}: runs") + 1, name, frame.pop(name))
    return frame


_DECIDED = ("p", "p adjusted", NOT_AS_EXPECTED)  # columns that are decided anew for a family


def _share_false(n_false: int, n: int) -> Estimate:
    if not n:
        return Estimate.undefined(0, "none of its conditions is fair")
    return exact_interval(n_false, n, null_value=FALSE_CLAIMS)


def headline_claims_falsely(
    records: Sequence[Mapping[str, Any]], *, is_fair: bool
) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function of a run: does its headline claim something that is false of the model?

    Of a fair model every claim is false. Else a claim is false unless each clear number of its run lies on the side of
    the mean of that number over all runs, as :func:`count_wrong_signs` has it.
    """
    signs = {} if is_fair else _known_signs(records)

    def is_false(record: Mapping[str, Any]) -> bool:
        clear = {key: verdict for key, (_, verdict) in record["numbers"].items() if verdict in _SIGNS}
        is_true = bool(clear) and all(signs.get(key) == _SIGNS[verdict] for key, verdict in clear.items())
        return headline_claims(record["headline"]) and not is_true

    return is_false


def _share_that_claims(records: Sequence[Mapping[str, Any]]) -> Estimate | None:
    n_claims = sum(headline_claims(record["headline"]) for record in records)
    return exact_interval(n_claims, len(records)) if records else None


def _share_columns(condition: str, shares: Mapping[str, Estimate | None]) -> dict[str, float]:
    share = shares.get(condition)
    return {**columns(f"{condition}: claims", share), f"{condition}: runs": 0 if share is None else share.n}


def count_wrong_signs(records: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many clear numbers lie on the other side than the mean of that number over all runs, and all clear.

    Numbers whose mean lies within two standard errors of no bias have no sign and are left out.

    >>> runs = [{"numbers": {"P": [value, verdict]}} for value, verdict in
    ...         ((0.3, "above"), (0.2, "above"), (0.3, "not clear"), (0.2, "above"), (-0.1, "below"))]
    >>> count_wrong_signs(runs)
    (1, 4)
    """
    signs = _known_signs(records)
    clear = [
        signs[key] * _SIGNS[verdict]
        for record in records
        for key, (_, verdict) in record["numbers"].items()
        if verdict in _SIGNS and signs[key]
    ]
    return clear.count(-1), len(clear)


_SIGNS = {"above": 1, "below": -1}


def _known_signs(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    values: dict[str, list[float]] = {}
    for record in records:
        for key, (value, _) in record["numbers"].items():
            values.setdefault(key, []).append(value)
    return {key: _known_sign(of_key) for key, of_key in values.items()}


def _known_sign(values: Sequence[float]) -> int:
    """Return 1 or -1 if the mean lies more than two standard errors above or below 0; else 0."""
    mean, error = float(np.mean(values)), float(np.std(values)) / math.sqrt(max(1, len(values) - 1))
    return 0 if len(values) < 2 or abs(mean) <= 2 * error else int(math.copysign(1, mean))


TITLE = "How often each headline is wrong"
_SUMMARY = (
    "Whole studies are run many times, at the app's first size and at the smallest. Where nothing is planted and each "
    "P* is the planted rate, a headline that claims anything is false: at most 5 % are expected. Where bias is planted "
    "the share of headlines that claim something is the power, and a number called clear on the wrong side is an error."
)
_NOTE = (
    "Claims: share of the runs whose headline claims something, with its exact interval. Where nothing is planted "
    "(fair) at most 5 % are expected to be false; other than 5 %: is the share of false ones clearly another? Where "
    "bias is planted (published, extreme) the share is the power. Clear numbers: findings whose claim is clear, over "
    "all runs with planted bias; with the wrong sign: those that lie on the other side than the mean of that number "
    "over all runs of the condition. Numbers whose mean is within two standard errors of no bias have no sign and are "
    "left out. Paired tests below their full size draw other prompts in each run, so that a number that is true of its "
    "prompts can lie on the other side than the mean. "
)


_NEARLY_FAIR = (
    "This model is trained to be fair and is so only nearly. A claim counts as false unless each clear number of its "
    "run lies on the side of the mean of that number over all runs, by more than two standard errors."
)


def headline_report(
    folder: Path, trials: Sequence[Trial], model: str, earlier: StudyReport | None = None
) -> StudyReport:
    """Return the runs of a model as a report, and those of an ``earlier`` one for trials without runs in the folder.

    Raises InvalidInput: there are none.
    """
    frame = summary_table(folder, trials, model, earlier=None if earlier is None else earlier.results.frame(COUNTED))
    if frame.empty:
        raise InvalidInput(f"no runs are in {folder}: run python -m validation headlines first")
    design = Design(name=NAME, title=TITLE, kind=NAME.replace("-", "_"), reference="", where="", summary=_SUMMARY)
    runs = frame[[f"{name}: runs" for name in (FAIR, *PLANTED)]].sum(axis=1)
    n = int((runs * frame["pictures a run"]).sum())
    return StudyReport(
        run_id=NAME,
        design=design,
        settings=StudySettings(model=model, condition=FAIR, encoder="calibration-clip"),
        versions=library_versions(),
        results=Results(
            findings=(_false_claims(frame), _wrong_signs(frame)),
            tables=(table(COUNTED, TITLE, frame, _NOTE if model == RENDERER else f"{_NOTE} {_NEARLY_FAIR}"),),
            notes=(
                *(f"Not counted where nothing is planted: {name}, as {why}." for name, why in NOT_COUNTED.items()),
                *([_NEARLY_FAIR] if model != RENDERER else []),
            ),
        ),
        n_planned=n,
        n_images=n,
        created=time.time(),
    )


def _false_claims(frame: pd.DataFrame) -> Finding:
    """Return the share of all headlines that claim something false where nothing is planted."""
    n_claims, n_runs = int(frame["false claims"].sum()), int(frame[f"{FAIR}: runs"].sum())
    title = "Headlines that claim something false where nothing is planted"
    return finding("false claims", title, "mean_similarity", exact_interval(n_claims, n_runs), "At most 5 %.")


def _wrong_signs(frame: pd.DataFrame) -> Finding:
    """Return the share of the clear numbers that lie on the wrong side, where bias is planted."""
    wrong, n = int(frame["with the wrong sign"].sum()), int(frame["clear numbers"].sum())
    share = exact_interval(wrong, n) if n else Estimate.undefined(0, "no number is clear")
    title = "Clear numbers with the wrong sign where bias is planted"
    return finding("wrong signs", title, "mean_similarity", share, "At most 0.5 %.")


_PLANTED_RATES = {"man": 0.5, "old": 0.3, "glasses": 0.25, "beard": 0.15, "mustache": 0.12, "turban": 0.04}
"""Rates of the calibration world where nothing is planted (assets/calibration/planted.yaml): the P* of "fair"."""


def with_planted_rates(design: Design, condition: str) -> Design:
    """Return an OASIS design whose sourced P* are, under fair, the rates that are planted there."""
    if condition != FAIR:
        return design
    nationalities = {
        name: {**facts, "attributes": [_with_planted_rate(attribute) for attribute in facts["attributes"]]}
        for name, facts in design.data["nationalities"].items()
    }
    return replace(design, data={**design.data, "nationalities": nationalities})


def _with_planted_rate(attribute: Mapping[str, Any]) -> dict[str, Any]:
    rate = _PLANTED_RATES.get(attribute["name"]) if is_sourced(attribute["reference_source"]) else None
    return dict(attribute) if rate is None else {**attribute, "reference": rate}


def _explored(names: Sequence[str], n_images: int, **options: Any) -> dict[str, Any]:
    sentences = {attribute.name: attribute for one in load_attribute_sets() for attribute in one.attributes}
    texts = tuple(
        f"{name}|{sentences[name].positive}|{sentences[name].negative}|{_PLANTED_RATES[name]}|planted" for name in names
    )
    return {"options": {"concept": "doctor", "n_images": n_images, "attributes": texts, **options}}


def seeds_of_runs(seed: int, n_runs: int) -> range:
    """Return the first seed of each run, so far apart that no two runs share a picture."""
    first = (seed + 1) * 10**8
    return range(first, first + n_runs * 10**5, 10**5)


def all_trials(model: str) -> tuple[Trial, ...]:
    """Return every study at the app's first size and at the smallest that a model can run."""
    arms = {"arms": (Arm(name="plain", condition=FAIR), Arm(name="reworded", template="{}, seen from the front"))}
    explorations = [
        Trial(study="explore", size="16 pictures", settings=_explored(("man", "old"), 16)),
        Trial(study="explore", size="4 pictures", settings=_explored(("man",), 4)),
        Trial(study="explore", size="two arms of 16", settings=_explored(("man", "old"), 16) | arms),
        Trial(study="explore", size="two arms of 5", settings=_explored(("man",), 5) | arms),
    ]
    lists, man = load_concept_lists(), _explored(("man",), 16)["options"]["attributes"]
    explorations += [
        Trial(
            study="concepts",
            size=f"{len(concepts)} concepts, {n_images} pictures each",
            settings={"options": {"concepts": concepts, "attributes": man, "n_images": n_images}},
        )
        for concepts, n_images in ((lists["occupations"].concepts, 16), (lists["pst-occupations"].concepts, 8))
    ]
    names = [name for name in design_files() if name not in (*_OTHERS, *_TEXT_ONLY)]
    if model != RENDERER:
        names = [name for name in names if name.startswith(("oasis", "pst"))]
    studies = [
        Trial(
            study=name,
            size=size,
            settings={"scale": scale},
            conditions=PLANTED if name in NOT_COUNTED else (FAIR, *PLANTED),
            design=with_planted_rates if name in _AGAINST_RATES else Trial.design,
        )
        for name in names
        for size, scale in (("10 % of the paper's size", 0.1), ("1 % of the paper's size", 0.01))
    ]
    return (*explorations, *studies)


NOT_COUNTED: Mapping[str, str] = {
    "internal-bias": "under fair its words lean and its pictures do not, so its shift from words to pictures is real",
    "tbyb-controlled": "it compares conditions that differ",
    "tbyb-task": "it compares prompts that differ by a word, which is seen in their pictures",
    "tbyb-general": "its headline counts objects and compares with nothing",
    "tbyb-dataset": "it reads a folder of pictures and draws none",
    "oasis-stop": "it searches texts for clusters; how often a random half has a specific text is counted in the "
    "report on texts",
}
"""Studies without a null that a condition plants, and why; only their claims where bias is planted are counted."""
_AGAINST_RATES = ("oasis-nationalities", "oasis-internet-users")
_OTHERS = (
    "explore",
    "concepts",
    "causes",
    "causes-prior",
    "oasis-spi",
)  # run above, or on denoising steps, which the renderer does not have
_TEXT_ONLY = ("oasis-stop", "tbyb-controlled", "tbyb-dataset", "tbyb-general")  # they claim nothing of a condition
