"""Suggest attributes to measure for a concept, from its words and from its pictures."""

from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.explore.exploration import CONCEPT
from bias_core.explore.options import FEWEST, ExploreOptions, SuggestOptions, attribute_text
from bias_core.measures.clustering import spectral_clusters
from bias_core.prompts import fill_template
from bias_core.report.claims import NO_CLAIM, claim_columns, family_note
from bias_core.report.report_text import Row
from bias_core.run.programs import SUMMARY, Detail, listed_answer
from bias_core.run.run import run_study
from bias_core.run.study_run import Run
from bias_core.run.suggestions import (
    PERSON,
    Suggestion,
    find_opposite,
    is_about_person,
    is_about_thing,
    merge_suggestions,
    parse_phrases,
    suggest_from_captions,
    suggest_from_words,
)
from bias_core.study.classifiers import Reader, language_model_name
from bias_core.study.study import Measuring, RunSize, Study, encoders_and_judge
from bias_core.study.types import (
    Design,
    Finding,
    Progress,
    Results,
    Shot,
    StudyReport,
    StudySettings,
    get_options,
    get_scored_pictures,
    table,
)
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, Estimate
from bias_core.values import declared_settings

KIND = "suggest_attributes"
BASE, SUGGESTIONS = "base", "suggestions"
OBJECT = "object"
_TELLS = 0.5  # least agreement with captions, beyond chance, for a classifier to count as seeing an attribute
_OF_BASE = "share in {n} pictures of “{prompt}”, same model, seeds and classifier"
_CAUTION = (
    "These are suggestions, not findings. Pictures are compared on the same seeds, by McNemar’s exact test. "
    "Measure an attribute on other seeds before you quote it."
)


NOTHING = Estimate.undefined(0, "named by words alone")


DESIGN = Design(
    name="suggest-attributes",
    title="Suggested attributes",
    kind=KIND,
    reference="dehdashtian2025oasis",
    where="Eq. 2",
    summary=(
        "Attributes to measure for a concept: ideas of a language model, and phrases that captions and groups of "
        "similar pictures have more often than a matched baseline on the same seeds."
    ),
)


@dataclass(frozen=True, kw_only=True)
class Suggested:
    attribute: Attribute
    where_from: str
    is_told: bool = True  # False if the classifier is known not to see it


def suggest_attributes(
    settings: StudySettings, services: StudyServices, **kwargs: Any
) -> Generator[Progress, None, list[Suggested]]:
    """Draw or load pictures of the concept and its base, and compare both; the settings have ``SuggestOptions``.

    ``kwargs`` is as :func:`bias_core.run.run.run_study` takes it.
    """
    report = yield from run_study(DESIGN, settings, services, **kwargs)
    return read_suggestions(report)


def suggestions_answer(suggested: Sequence[Suggested], detail: Detail = SUMMARY) -> Row:
    """Return suggested attributes for programs, each with the text that ``explore`` and ``compare`` take."""
    origins = [
        {"where_from": suggestion.where_from, "attribute": attribute_text(suggestion.attribute)}
        for suggestion in suggested
    ]
    entries = {
        suggestion.attribute.name: asdict(suggestion.attribute) | origin
        for suggestion, origin in zip(suggested, origins, strict=True)
    }
    short = ("name", "where_from", "reference", "attribute")
    return listed_answer("suggest_attributes", "suggested", entries, short, detail)


def suggest_settings(base: StudySettings, **options: Any) -> StudySettings:
    """Return the settings of suggestions for the concept of an exploration."""
    given: dict[str, Any] = {}
    if isinstance(base.options, ExploreOptions):
        given = {name: getattr(base.options, name) for name in ("concept", "template", "n_images")}
        given["n_images"] = max(FEWEST, given["n_images"])
    if base.images:
        raise InvalidInput(
            "pictures of your own have no base of the same seeds: take suggestions from words, or let a model draw"
        )
    plain: dict[str, Any] = {
        "arms": (),
        "further_encoders": (),
        "judge": "",
        "stop_within": None,
        "stop_when_clear": False,
    }
    own_options = {
        name: value for name, value in {**given, **options}.items() if name in declared_settings(SuggestOptions)
    }
    return replace(base, **plain, options=SuggestOptions(**own_options))


def read_suggestions(report: StudyReport) -> list[Suggested]:
    rows = report.results.frame(SUGGESTIONS).astype(object)
    rows = rows.where(rows.notna(), None)
    return [
        Suggested(
            attribute=Attribute(
                name=row["attribute"],
                positive=row["positive"],
                negative=row["negative"],
                reference=row["P*"],
                reference_source=row["source of P*"] or "",
            ),
            where_from=row["where from"],
            is_told=row["told"],
        )
        for row in rows.to_dict("records")
    ]


def suggested_by_words(settings: StudySettings, services: StudyServices) -> list[Suggested]:
    """Suggest attributes from the concept's words alone, before drawing; ModelUnavailable without a language model."""
    options, world = get_options(settings, SuggestOptions), services.pictures_world(settings.model)
    named, note = _ask(options, services, world, OBJECT if is_about_thing(options.concept) else PERSON)
    if note:
        raise ModelUnavailable(note)
    return [
        Suggested(attribute=suggestion.attribute, where_from=suggestion.where_from)
        for suggestion in merge_suggestions([], named)
    ]


def _find_subject(captions: Sequence[str]) -> str:
    """Return the word for most pictures' subject: a person, or a thing."""
    return PERSON if 2 * sum(map(is_about_person, captions)) >= len(captions) else OBJECT


def _find_pairs(frame: pd.DataFrame) -> tuple[list[int], list[int]]:
    """Return the indices of the concept's pictures and of the base's on the same seeds, without unpaired ones."""
    of_group = {
        group: {seed: place for place, seed in enumerate(frame["seed"]) if frame["group"].iloc[place] == group}
        for group in (CONCEPT, BASE)
    }
    seeds = [seed for seed in of_group[CONCEPT] if seed in of_group[BASE]]
    return [of_group[CONCEPT][seed] for seed in seeds], [of_group[BASE][seed] for seed in seeds]


def _ask(options: SuggestOptions, services: StudyServices, world: str, subject: str) -> tuple[list[Suggestion], str]:
    """Return the suggestions of the language model, and if there are none, the reason."""
    try:
        name = language_model_name(options.language_model, services, world)
        if not name:
            return [], ""
        model, follows = services.language_model(name), not services.reader_world("language_model", name)
        with services.reading(model):
            return suggest_from_words(options.concept, model, subject=subject, follows=follows), ""
    except ModelUnavailable as error:
        return [], f"Nothing is suggested from words: {error}"


def _word_suggestion(
    suggestion: Suggestion, subject: str, captions: Sequence[str], rows: np.ndarray, data: Run
) -> tuple[Suggestion, float]:
    """Return the wording that agrees best with the captions, and its agreement beyond chance; nan from words alone."""
    if suggestion.phrase is None:
        return suggestion, float("nan")
    mentions = np.array(
        [suggestion.phrase.words in {phrase.words for phrase in parse_phrases(text)} for text in captions]
    )
    wordings = suggestion.phrase.wordings(subject, opposite=find_opposite(suggestion.phrase, captions))
    if mentions.all() or not mentions.any():
        return suggestion, float("nan")
    texts = data.texts(text for attribute in wordings for text in (attribute.positive, attribute.negative))
    readings = rows @ texts[::2].T > rows @ texts[1::2].T  # (n, n_wordings)
    agreement = readings[mentions].mean(axis=0) - readings[~mentions].mean(axis=0)
    best = int(np.argmax(agreement))
    return replace(suggestion, attribute=wordings[best]), float(agreement[best])


def _line(suggestion: Suggestion, agrees: float, base: np.ndarray, source: str, data: Run) -> dict[str, Any]:
    attribute, where = suggestion.attribute, suggestion.where_from
    positive, negative = data.texts([attribute.positive, attribute.negative])
    reads = not agrees < _TELLS  # nan: no captions to disagree with
    if not reads:
        where += "; the classifier hardly sees it: ask people, or use another classifier"
    odds = suggestion.odds
    return {
        "attribute": attribute.name,
        "where from": where,
        "pictures": odds.n_images if odds else None,
        "base": odds.n_base if odds else None,
        **claim_columns(odds.log_odds if odds else NOTHING, suggestion.claim or NO_CLAIM),
        "positive": attribute.positive,
        "negative": attribute.negative,
        "told": reads,
        "P*": float((base @ positive > base @ negative).mean()) if reads else None,
        "source of P*": source if reads else "",
    }


def _findings(suggestions: Sequence[Suggestion]) -> list[Finding]:
    return [
        Finding(
            key=suggestion.attribute.name,
            title=f"{suggestion.attribute.name}: log-odds against the base",
            metric="object_odds",
            estimate=suggestion.odds.log_odds,
            claim=suggestion.claim,
            says=f"{suggestion.where_from[:1].upper()}{suggestion.where_from[1:]}.",
        )
        for suggestion in suggestions
        if suggestion.is_clear and suggestion.odds is not None
    ]


class Suggest(Study):
    """Attributes suggested for a concept, from captions and a language model."""

    kind = KIND
    options = SuggestOptions
    shows_anything = True

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the concept's pictures; those of the base depend on their captions and follow later."""
        options = get_options(settings, SuggestOptions)
        return [Shot(prompt=fill_template(options.template, options.concept), n=options.n_images, group=CONCEPT)]

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Caption both, compare phrases, ask the language model, and word the attributes for the encoder."""
        options = get_options(settings, SuggestOptions)
        captioner = data.services.captioner(options.captioner)
        captions = yield from data.say("captioning", data.frame, captioner)
        subject = " ".join(options.base.split()) or _find_subject(captions)
        prompt = fill_template(options.template, subject)
        if prompt == fill_template(options.template, options.concept):
            raise InvalidInput(f"the base is the concept itself, “{prompt}”: name another base, such as “{OBJECT}”")
        yield from data.draw([Shot(prompt=prompt, n=options.n_images, group=BASE)])
        texts = yield from data.say("captioning", data.frame, captioner)
        rows = yield from data.embed(data.frame)
        data.keep(data.frame, caption=texts)
        ours, base = _find_pairs(data.frame)
        if len(ours) < FEWEST:
            raise InvalidInput(
                f"suggestions need {FEWEST} pictures of the concept with their base; there are {len(ours)}"
            )
        of_both = [texts[k] for k in (*ours, *base)]
        groups = spectral_clusters(rows[ours], seed=settings.seed).labels
        suggestions = suggest_from_captions(
            of_both[: len(ours)],
            of_both[len(ours) :],
            concept=options.concept,
            subject=subject,
            groups=groups.tolist(),
            confidence=settings.confidence,
        )
        yield Progress(message="asking the language model")
        world = data.services.pictures_world(settings.model)
        named, note = _ask(options, data.services, world, subject)
        merged = merge_suggestions(suggestions, named)
        worded = [_word_suggestion(suggestion, subject, of_both, rows[[*ours, *base]], data) for suggestion in merged]
        source = _OF_BASE.format(n=len(base), prompt=prompt)
        lines = [_line(suggestion, agrees, rows[base], source, data) for suggestion, agrees in worded]
        how_decided = family_note(
            [suggestion.claim or NO_CLAIM for suggestion in suggestions], "phrases of the captions"
        )
        return Results(
            findings=tuple(_findings(suggestions)),
            tables=(table(SUGGESTIONS, "Suggested attributes", lines, f"{_CAUTION} {how_decided}"),),
            notes=tuple(filter(None, (f"The base is “{prompt}”, drawn from the same seeds.", note))),
        )

    def headline(self, report: StudyReport) -> str:
        """Say which phrase is clearest, and how many are clear."""
        findings = report.results.findings
        if not findings:
            n = int((get_scored_pictures(report)["group"] == CONCEPT).sum())
            return f"No phrase is clearly more frequent in the captions of {n} pictures than in those of the base."
        lead = findings[0]
        verb = "phrase is" if len(findings) == 1 else "phrases are"
        return f"{len(findings)} {verb} clearly more frequent than in the base. The clearest: “{lead.key}”. {lead.says}"

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        captioner = get_options(settings, SuggestOptions).captioner
        return (*encoders_and_judge(settings), Reader(role="captioner", name=captioner))

    def run_size(self, settings: StudySettings) -> RunSize:
        """Return the number of pictures of the baseline, which are drawn later."""
        return RunSize(n_later=get_options(settings, SuggestOptions).n_images)

    def get_run_title(self, settings: StudySettings) -> str:
        return f"Attributes suggested for {get_options(settings, SuggestOptions).concept}"

    def get_command(self, settings: StudySettings) -> Sequence[str]:
        options, usual = get_options(settings, SuggestOptions), SuggestOptions()
        words = ["suggest", options.concept]
        for name in declared_settings(SuggestOptions):
            value = getattr(options, name)
            if name != "concept" and value != getattr(usual, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return [*words, "--model", settings.model]
