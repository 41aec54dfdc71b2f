"""TBYB's data on pictures: captions, objects, gender words, and misses of the prompt."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.object_bias import (
    compared_objects,
    jaccard_distances,
    jaccard_hallucination_estimate,
    miss_probability,
    miss_rate_estimate,
    missing_things,
)
from bias_core.measures.object_distribution import (
    FORMULAS,
    build_presence_matrix,
    distribution_bias_estimate,
    object_counts,
    object_distribution,
)
from bias_core.measures.objects import (
    GenderCounts,
    count_gender_words,
    extract_objects,
    gender_words,
    released_words,
    to_person,
)
from bias_core.prompts import fill_template
from bias_core.protocols import Captioner
from bias_core.report.arm_comparison import counted_sample, mean_sample
from bias_core.report.stop_rules import ShareValues
from bias_core.run.attribute_scores import ask_judge, measure_judge_errors, question_about
from bias_core.run.study_run import Run, Steps
from bias_core.store.readings import open_original
from bias_core.study.classifiers import Reader
from bias_core.study.design import ReportTexts
from bias_core.study.study import encoders_and_judge
from bias_core.study.types import (
    AUTO,
    Finding,
    Progress,
    Sample,
    StudySettings,
    StudyTable,
    columns,
    finding,
    get_options,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate, ReaderErrors
from bias_core.values import Options, setting, settings_class
from bias_core.wording import format_rate

BLANK, STRONGER = "blank", "stronger"  # the two negatives of M_G: the paper's, and another prompt or sentence
ANOTHER = "another prompt"  # value of the option "negative": each picture is held against a prompt of other objects
MISSED = 0.5  # a picture misses its prompt above this probability, as M_G counts


class Measure(NamedTuple):
    """One number of TBYB: its key in the table of measures, its names, and its explanation."""

    metric: str
    title: str
    column: str
    released: str  # column of the released evaluations, "" if none
    says: str


MEASURES = {
    "distribution_bias": Measure(
        "distribution_bias", "B_D", "B_D", "", "{n_objects:,} different objects."
    ),
    "normalised_entropy": Measure(
        "normalised_entropy", "normalised entropy", "normalised entropy", "", "1: all objects equally often."
    ),
    "gini": Measure("gini", "Gini", "Gini", "", "0: all objects equally often."),
    "effective_number": Measure(
        "effective_number", "effective number", "effective number", "",
        "As varied as {value:.0f} equally frequent objects.",
    ),
    "hallucination": Measure(
        "jaccard_hallucination", "H_J", "H_J", "",
        "On average {percent:.0f} % of the objects in prompt and caption are in only one of them.",
    ),
    f"miss {BLANK}": Measure(
        "generative_miss_rate", "M_G against a blank", "M_G, blank", "Gen. Miss Rate",
        "{percent:.0f} % of the pictures fit an empty text better than their prompt.",
    ),
    f"miss {STRONGER}": Measure(
        "generative_miss_rate", "M_G against the stronger negative", "M_G, stronger", "",
        "{percent:.0f} % of the pictures fit another text better than their prompt.",
    ),
    "released_distribution_bias": Measure(
        "distribution_bias", "B_D by the released rules", "B_D, released rules", "Dist. Bias",
        "Counts all words of captions that are not in the prompt.",
    ),
    "released_hallucination": Measure(
        "jaccard_hallucination", "H_J by the released rules", "H_J, released rules", "Hallucination",
        "On average {percent:.0f} % of all words in prompt and caption are in only one of them.",
    ),
}  # fmt: skip
"""Measures of a set of pictures, by the end of a finding's key."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The measures of one set of pictures; ``estimates`` and ``samples`` by the keys of :data:`MEASURES`."""

    n_images: int
    estimates: Mapping[str, Estimate]  # without B_D and its companions where they are undefined
    samples: Mapping[str, Sample]
    reason: str  # they are undefined, or ""
    genders: GenderCounts  # Table IV
    counts: Mapping[str, int]  # in how many pictures each object is


@settings_class(frozen=True, kw_only=True)
class CaptioningOptions(Options):
    """The captioner, and the rules for objects."""

    captioner: str = setting(
        AUTO, "Captioner", "Model that describes each picture; auto picks one that suits them and this machine"
    )
    negative: str = setting(
        "another prompt",
        "Stronger negative of M_G",
        "Text that M_G compares with the prompt: another prompt (of the same study) or any sentence; M_G is also given "
        "against a blank text",
    )
    exclude_prompt: bool = setting(
        False,
        "Exclude objects in the prompt",
        "Exclude objects that the prompt names from B_D, as the released code does",
    )
    colours: bool = setting(
        False, "Count colours", "Count names of colours among the objects, except in H_J (Table III)"
    )


def captioning_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """Return the captioner of the options, and the encoder."""
    captioner = get_options(settings, CaptioningOptions).captioner
    return (*encoders_and_judge(settings), Reader(role="captioner", name=captioner))


def captioner_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner; ModelUnavailable if it cannot run."""
    captioner = services.captioner(get_options(settings, CaptioningOptions).captioner)
    with services.reading(captioner):
        captioner.caption([Image.new("RGB", (64, 64))])


def watch_captions(
    settings: StudySettings, data: Run, frame: pd.DataFrame
) -> Generator[Progress, None, list[ShareValues]]:
    """Return shares of captions with men, women and neither, and pictures that miss their prompt, without the base."""
    frame = frame[frame["base"] == 0] if "base" in frame else frame
    if frame.empty:
        return []
    captioner = data.services.captioner(get_options(settings, CaptioningOptions).captioner)
    texts = yield from data.say("captioning", frame, captioner)
    rows = yield from data.embed(frame)
    masculine, feminine = (words.astype(float) for words in gender_words(texts))
    shared_half = masculine * feminine / 2  # half of a caption with words of both kinds goes to either
    places, prompts = pd.factorize(frame["prompt"].astype(str))
    prompt_cosines = (rows * data.texts(list(map(str, prompts)))[places]).sum(axis=1)
    missed = miss_probability(prompt_cosines, rows @ data.texts([""])[0]) > MISSED
    shares = {
        "captions that mention men": masculine - shared_half,
        "captions that mention women": feminine - shared_half,
        "captions that name no gender": 1 - np.maximum(masculine, feminine),
        MEASURES[f"miss {BLANK}"].title: missed.astype(float),
    }
    ids = tuple(frame["image_id"])
    return [ShareValues(name=name, image_ids=ids, values=values) for name, values in shares.items()]


def read_pictures(
    settings: StudySettings, data: Run, captioner: Captioner | None = None
) -> Generator[Progress, None, pd.DataFrame]:
    """Caption and embed every picture of the study; the default captioner is that of the options.

    Returns
    -------
    DataFrame : a row per picture: ``unit, prompt, caption``; ``asked`` and ``seen``, the objects that prompt and
        caption name; ``counted``, those in distributions, with colours if chosen; ``H_J``, nan if neither names one;
        and for each negative the probability that the picture fits it better than its prompt.
    """
    options = get_options(settings, CaptioningOptions)
    captioner = captioner or data.services.captioner(options.captioner)
    prompts = [str(prompt) for prompt in data.frame["prompt"]]
    captions = yield from data.say("captioning", data.frame, captioner)
    rows = yield from data.embed(data.frame)
    objects = {text: tuple(extract_objects(text)) for text in {*prompts, *captions}}
    of_prompts, of_captions = ([objects[text] for text in texts] for texts in (prompts, captions))
    reading: dict[str, Any] = {"unit": data.frame["unit"], "prompt": prompts, "caption": captions}
    reading |= {"asked": of_prompts, "seen": of_captions, "H_J": jaccard_distances(of_prompts, of_captions)}
    with_colours = {text: tuple(extract_objects(text, colours=options.colours)) for text in {*captions}}
    reading["counted"] = [with_colours[text] for text in captions]
    return pd.DataFrame(reading | _misses(prompts, settings, data, rows), index=data.frame.index)


def read_and_keep(settings: StudySettings, data: Run) -> Generator[Progress, None, pd.DataFrame]:
    """Read pictures as :func:`read_pictures`, and keep the results with each picture, for the page and the export."""
    reading = yield from read_pictures(settings, data)
    folded = [
        (set(to_person(of_prompt)), set(to_person(of_caption)))
        for of_prompt, of_caption in zip(reading["asked"], reading["seen"], strict=True)
    ]
    data.keep(
        data.frame,
        caption=reading["caption"],
        objects=reading["counted"].map(", ".join),
        added=[", ".join(sorted(of_caption - of_prompt)) for of_prompt, of_caption in folded],
        left_out=[", ".join(sorted(of_prompt - of_caption)) for of_prompt, of_caption in folded],
        H_J=reading["H_J"],
        p_miss=reading[STRONGER],
    )
    return reading


def _misses(prompts: Sequence[str], settings: StudySettings, data: Run, rows: np.ndarray) -> dict[str, np.ndarray]:
    stronger = get_options(settings, CaptioningOptions).negative
    negatives = {BLANK: [""] * len(prompts), STRONGER: [stronger] * len(prompts)}
    if stronger == ANOTHER:
        negatives[STRONGER] = other_prompts(prompts, list(data.frame["seed"]))

    def cosines(texts: Sequence[str]) -> np.ndarray:
        places, distinct = pd.factorize(np.array(texts, dtype=object))
        return np.asarray((rows * data.texts(list(distinct))[places]).sum(axis=1))

    prompt_cosines = cosines(prompts)
    return {name: miss_probability(prompt_cosines, cosines(texts)) for name, texts in negatives.items()}


def other_prompts(prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Return for each picture, in turn, a prompt with other objects; InvalidInput if all name the same."""
    named = {prompt: frozenset(to_person(extract_objects(prompt))) for prompt in prompts}
    alternatives = {prompt: [p for p in named if named[p] != named[prompt]] for prompt in named}
    if not all(alternatives.values()):
        raise InvalidInput(
            "all prompts name the same objects, so no other prompt can be the negative of M_G: "
            "give a sentence as the option negative"
        )
    start = {prompt: i for i, prompt in enumerate(named)}
    return [
        alternatives[prompt][(start[prompt] + int(seed)) % len(alternatives[prompt])]
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]


def score(reading: pd.DataFrame, settings: StudySettings, *, by_released_rules: bool = False) -> Scores:
    """Return all measures of a part of :func:`read_pictures`, optionally with B_D and H_J by the released rules."""
    confidence, seed, units = settings.confidence, settings.seed, tuple(reading["unit"])
    share: dict[str, Any] = {"fixed_n": not settings.may_stop_early, "confidence": confidence}
    of_prompt, of_caption, counted = (reading[name].tolist() for name in ("asked", "seen", "counted"))
    exclude: Any = of_prompt if get_options(settings, CaptioningOptions).exclude_prompt else None
    estimates: dict[str, Estimate] = {}
    samples: dict[str, Sample] = {}
    reason, counts = "", {}
    try:
        counts = object_counts(counted, exclude_prompt=exclude)
        even = object_distribution(counted, exclude_prompt=exclude, confidence=confidence, rng=seed)
        estimates = {key: getattr(even, key) for key in FORMULAS}
        samples = _evenness_samples(units, counted, exclude)
    except InvalidInput as error:  # few pictures, all alike: no distribution
        reason = str(error)
    estimates["hallucination"] = jaccard_hallucination_estimate(of_prompt, of_caption, confidence=confidence)
    samples["hallucination"] = mean_sample(units, reading["H_J"])
    for negative in (BLANK, STRONGER):
        estimates[f"miss {negative}"] = miss_rate_estimate(reading[negative], **share)
        samples[f"miss {negative}"] = mean_sample(units, reading[negative] > MISSED)
    if by_released_rules:
        _add_released(reading, settings, estimates, samples)
    genders = count_gender_words(reading["caption"].tolist(), **share)
    return Scores(
        n_images=len(reading), estimates=estimates, samples=samples, reason=reason, genders=genders, counts=counts
    )


def _add_released(
    reading: pd.DataFrame, settings: StudySettings, estimates: dict[str, Estimate], samples: dict[str, Sample]
) -> None:
    """Add B_D and H_J by the released rules, to compare with the released numbers."""
    options: dict[str, Any] = {"confidence": settings.confidence, "rng": settings.seed}
    pairs = map(released_words, reading["prompt"], reading["caption"])
    asked, shown, counted = map(list, zip(*pairs, strict=True))
    units = tuple(reading["unit"])
    distances = jaccard_distances(asked, shown, fold_person=False)
    estimates["released_hallucination"] = jaccard_hallucination_estimate(
        asked, shown, fold_person=False, confidence=settings.confidence
    )
    samples["released_hallucination"] = mean_sample(units, distances)
    with suppress(InvalidInput):  # few pictures, all alike
        estimates["released_distribution_bias"] = distribution_bias_estimate(counted, **options)
        samples["released_distribution_bias"] = _evenness_samples(units, counted, None)["distribution_bias"]


def _evenness_samples(units: Sequence[str], objects: Sequence[Sequence[str]], exclude: Any) -> dict[str, Sample]:
    """Return the samples of B_D and its companions, so that arms can be compared."""
    by_object = build_presence_matrix(objects, exclude)[1].T.tocsr()

    def sample(formula: Any) -> Sample:
        return counted_sample(units, lambda times: formula((by_object @ times.T).T))

    return {key: sample(formula) for key, formula in FORMULAS.items()}


TEXTS = ReportTexts(__file__)
SHOWS = "a photo of a {}"
_WITH, _WITHOUT = "a photo of a person with a {}", "a photo of a person without a {}"


class ThingsReport(NamedTuple):
    """A judge's findings on the named things; empty without a judge."""

    findings: tuple[Finding, ...] = ()
    tables: tuple[StudyTable, ...] = ()


def judged_things(data: Run, reading: pd.DataFrame, sets: Mapping[str, pd.Index]) -> Steps[ThingsReport]:
    """Ask the judge about every thing that a picture's prompt names, for each set of pictures.

    ``sets`` holds rows of ``reading`` by name. The judge's errors are corrected if there are known pictures with and
    without such a thing.
    """
    if not data.settings.judge:
        return ThingsReport()
    frame = data.frame.loc[reading.index]
    images = dict(zip(frame.index, data.stored(frame), strict=True))
    named = zip(reading.index, reading["asked"].tolist(), strict=True)
    pairs = [(row, thing) for row, words in named for thing in sorted(compared_objects(words))]
    if not pairs:
        return ThingsReport()
    questions = {thing: question_about(fill_template(SHOWS, thing)) for thing in {thing for _, thing in pairs}}
    asked_about = {
        (images[row].path.stem, questions[thing]): partial(open_original, images[row]) for row, thing in pairs
    }
    judge = data.settings.judge
    answers = yield from ask_judge(
        data.services, judge, "asking about things", asked_about, data.check, data.judge_answers.extend
    )
    keys = ((images[row].path.stem, questions[thing]) for row, thing in pairs)
    things = pd.DataFrame(pairs, columns=["row", "thing"]).assign(p_yes=[float(answers[key][0]) for key in keys])
    errors, n_known = yield from _measure_judge_errors(data, questions)
    note = f"corrected by the judge's errors on {n_known} of {len(questions)} things" if errors else ""
    return _build_things_report(things, sets, data.settings, errors, note)


def _measure_judge_errors(data: Run, questions: Mapping[str, str]) -> Steps[tuple[ReaderErrors | None, int]]:
    """Return the judge's errors on known pictures with and without things (None if none), and the number of things."""
    model, judge = data.settings.model, data.settings.judge
    sentences = {thing: (fill_template(_WITH, thing), fill_template(_WITHOUT, thing)) for thing in sorted(questions)}
    of_thing = {thing: data.services.known_pictures(model, *pair) for thing, pair in sentences.items()}
    known_pictures = [
        (picture, questions[thing]) for thing, thing_pictures in of_thing.items() for picture in thing_pictures
    ]
    if not known_pictures:
        return None, 0
    pictures = {(picture.key, question): picture.draw for picture, question in known_pictures}
    answers = yield from ask_judge(
        data.services, judge, "checking the judge on pictures with known ground truth", pictures, data.check
    )
    says = np.array([answers[picture.key, question] for picture, question in known_pictures])
    errors = measure_judge_errors([picture for picture, _ in known_pictures], says)
    tells = errors.sensitivity + errors.specificity > 1
    return errors if tells else None, sum(map(bool, of_thing.values()))


def _build_things_report(
    things: pd.DataFrame, sets: Mapping[str, pd.Index], settings: StudySettings, errors: ReaderErrors | None, note: str
) -> ThingsReport:
    findings, rows = [], []
    for name, index in sets.items():
        set_things = things[things["row"].isin(index)]
        if set_things.empty:
            continue
        share = missing_things(set_things["p_yes"], errors=errors, confidence=settings.confidence).with_note(note)
        says = f"{settings.judge} does not see {format_rate(share.value)} of the things that the prompts name."
        findings.append(
            finding(f"{name} missing things", f"{name}: named things that are missing", "missing_things", share, says)
        )
        rows += list(_list_missing_things(name, set_things, settings))
    tables = (TEXTS.table("missing_things", rows, judge=settings.judge),) if rows else ()
    return ThingsReport(findings=tuple(findings), tables=tables)


def _list_missing_things(name: str, set_things: pd.DataFrame, settings: StudySettings) -> Sequence[dict[str, object]]:
    """Return a line for each thing of a set, as the judge sees it, most often missing first."""
    groups = [
        (str(thing), thing_answers["p_yes"].to_numpy(float))
        for thing, thing_answers in set_things.groupby("thing", sort=True)
    ]
    shares = [missing_things(p_yes, confidence=settings.confidence) for _, p_yes in groups]
    order = np.argsort([-share.value for share in shares], kind="stable")
    return [
        {
            "pictures": name,
            "thing": groups[i][0],
            "asked in": shares[i].n,
            **columns("missing", shares[i]),
            "mean P(yes)": float(groups[i][1].mean()),
        }
        for i in order
    ]
