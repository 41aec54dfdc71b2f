"""Chooses and checks the classifiers and encoders that read pictures, and says in reports which ones did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bias_core.errors import ClassifierUnavailable, ModelUnavailable, NoClassifier, UnknownModel, UnsuitedClassifier
from bias_core.study.types import AUTO, Finding, Results, StudySettings, get_options, table
from bias_core.values import Options
from bias_core.wording import shorten

if TYPE_CHECKING:  # the command line's help does without numpy
    from collections.abc import Mapping, Sequence

    from bias_core.models.catalogue import Role
    from bias_core.study_services import StudyServices
    from bias_core.types import PromptLimit, ReaderFacts

FORCE_LABEL = "Score anyway with the chosen classifier"  # on the box of every form that sets ``force``
_WORDS: dict[Role, str] = {
    "encoder": "encoder",
    "captioner": "captioner",
    "answerer": "answerer",
    "judge": "judge",
    "person_finder": "finder",
}
_MOST_NAMED, _LONGEST = 3, 120  # classifiers, characters
_SETTINGS: Mapping[str, Role] = {
    "encoder": "encoder",
    "captioner": "captioner",
    "answerer": "answerer",
    "finder": "person_finder",
}
"""Settings, and options of studies, that name a classifier or encoder."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A classifier, encoder or judge of pictures, by its name in the settings."""

    role: Role
    name: str


def resolve_readers(
    settings: StudySettings, services: StudyServices, world: str, papers: Mapping[str, str] = {}
) -> StudySettings:
    """Return the settings with the name of a suitable classifier in place of each "auto".

    ``world`` is the world of the pictures, "" if unknown; the settings' options are typed. The classifiers of
    ``papers``, by setting, are chosen for other pictures if this machine has room for them.
    """

    def suited(name: str, role: Role) -> str:
        paper = papers.get(name, "")
        if world or paper not in services.fitting_readers(role):
            return services.default_reader(role, world)
        absent = services.settings.offline and services.reader_facts(role, paper).download_gb
        return services.default_reader(role, world) if absent else paper

    def names(values: Any) -> dict[str, Any]:
        automatic = {name: role for name, role in _SETTINGS.items() if getattr(values, name, "") == AUTO}
        return {name: suited(name, role) for name, role in automatic.items()}

    options = get_options(settings, Options)
    return replace(settings, **names(settings), options=replace(options, **names(options)))


READER_SETTINGS = tuple(_SETTINGS)


def chosen_readers(settings: StudySettings) -> dict[str, str]:
    """Return the settings and options that name a classifier or encoder."""
    values = {**vars(settings.options), **vars(settings)}
    return {name: values[name] for name in _SETTINGS if name in values}


def fetch_reader(reader: Reader, services: StudyServices, source: str) -> None:
    """Download a classifier before a picture is drawn; ModelUnavailable says what to do if that fails."""
    try:
        services.fetch_reader(reader.role, reader.name)
    except ModelUnavailable as error:
        installed_classifiers = [
            _describe_classifier(reader.role, name, services) for name in services.installed_readers(reader.role)
        ]
        from bias_core.types import IMPORTED  # the command line's help does without numpy

        is_own = source.startswith(IMPORTED)
        pictures = f"your own pictures ({source.removeprefix(IMPORTED)})" if is_own else f"pictures of {source}"
        otherwise = "have people label them" if is_own else "draw without measuring (`study run --draw-only`)"
        message = (
            f"no classifier for {pictures} works here: {str(error).rstrip('.')}. "
            f"Choose another {_WORDS[reader.role]} ({'; '.join([*installed_classifiers, 'a hub id'])}; or a folder "
            f"of this machine), or {otherwise}"
        )
        raise _mark_own_pictures(ClassifierUnavailable(message), source) from error


def _mark_own_pictures(error: NoClassifier, source: str) -> NoClassifier:
    """Return the error, marked if the pictures are the user's own."""
    from bias_core.types import IMPORTED  # the command line's help does without numpy

    error.are_own = source.startswith(IMPORTED)
    return error


def _describe_classifier(role: Role, name: str, services: StudyServices) -> str:
    """Return a classifier of this machine in words, and the option that lets it read any pictures."""
    world = services.reader_world(role, name)
    return f"{name}, which is installed" + f" but made for the {world} world: add “Score anyway” (--force)" * bool(
        world
    )


def reading_words(facts: ReaderFacts) -> str:
    """Return the name, role and download of a classifier, to be shown before a run.

    >>> from bias_core.types import ReaderFacts
    >>> reading_words(ReaderFacts(role="encoder", id="org/clip", name="A CLIP", download_gb=1.5))
    'A CLIP (org/clip, encoder, downloads 1.5 GB first)'
    """
    download = f", downloads {facts.download_gb:g} GB first" if facts.download_gb else ""
    return f"{facts.name} ({facts.id}, {_WORDS[facts.role]}{download})"


ERRORS_KNOWN = "its error rates were measured on other pictures from the same renderer"


READ_BY = "Read by "  # prefix of a note on a classifier


def reader_note(facts: ReaderFacts, *, errors_known: bool) -> str:
    """Return a note that names the classifier, and says if its error rates on these pictures are known."""
    revision = f", revision {facts.revision[:12]}" if facts.revision else ""
    unknown = "its error rates on these pictures are unknown: the numbers show what this classifier sees"
    errors = ERRORS_KNOWN if errors_known else unknown
    return f"{READ_BY}{facts.name} ({facts.id}{revision}, {_WORDS[facts.role]}); {errors}."


def check_readers(
    facts: Mapping[Reader, ReaderFacts], services: StudyServices, *, source: str, world: str, force: bool
) -> str:
    """Return the warning that a report begins with; "" if all classifiers can read these pictures.

    A classifier of the calibration world answers for any picture, but its answers mean something only for that world:
    pictures of the calibration models, and imported ones that record such a model. A LoRA on a calibration model may
    draw anything, so its pictures do not count.

    ``source`` is the name of the model or import; ``world`` is the world of the pictures, "" if unknown; with ``force``
    the named classifier reads them anyway. UnsuitedClassifier names classifiers that can read these pictures.
    """
    unsuited = [reader for reader, reader_facts in facts.items() if reader_facts.world not in ("", world)]
    if not unsuited:
        return ""
    names = " and ".join(dict.fromkeys(reader.name for reader in unsuited))
    reads = "reads" if len({reader.name for reader in unsuited}) == 1 else "read"
    knows = f"{names} {reads} only pictures of the calibration world"
    if force:
        return (
            f"Forced: {knows}, and these are of {source}. Its answers are not measurements: do not quote these numbers."
        )
    message = (
        f"{knows}, and those of {source} may show anything; {_instead(unsuited, services)}, or score "
        f"anyway with {names}: tick “{FORCE_LABEL}” (--force, or force=true)"
    )
    raise _mark_own_pictures(UnsuitedClassifier(message), source)


def _instead(unsuited: Sequence[Reader], services: StudyServices) -> str:
    """Return the classifiers to choose instead that suit this machine, in words."""
    parts = []
    for role in dict.fromkeys(reader.role for reader in unsuited):
        names, word = services.fitting_readers(role)[:_MOST_NAMED], _WORDS[role]
        *leading_names, last = names or (f"your own (none of the listed {word}s fits this machine)",)
        parts.append(f"{', '.join(leading_names)} or {last} as {word}" if leading_names else f"{last} as {word}")
    return f"take {', and '.join(parts)}"


def language_model_name(name: str, services: StudyServices, world: str) -> str:
    """Return the language model to ask: a world's own, else this machine's endpoint if any; "" for none."""
    if name.strip().lower() in ("", "none"):
        return ""
    if name != AUTO:
        return name
    if world:
        return services.default_reader("language_model", world)
    try:
        services.reader_facts("language_model", "endpoint")
    except UnknownModel:  # no server is set up for it
        return services.default_reader("language_model", "")
    return "endpoint"


TOO_LONG = "too long for"  # words of a note on a text that is not read as a whole


def cut_texts(limits: Sequence[PromptLimit], text: str = "prompt") -> list[str]:
    """Return a sentence per text encoder that cuts off some prompts, or other texts.

    >>> from bias_core.types import PromptLimit
    >>> known = {"prompt": "a very long story", "n_tokens": 90}
    >>> print(*cut_texts([PromptLimit(reader="CLIP", limit=77, cut="long story", **known),
    ...                   PromptLimit(reader="T5", limit=256, cut="", **known)]))
    The prompt is too long for CLIP (90 tokens, at most 77), which did not see “long story”; T5 sees all.
    """
    readers = list(dict.fromkeys(limit.reader for limit in limits))
    cut = {name: [x for x in limits if x.reader == name and x.cut] for name in readers}
    whole = [name for name in readers if not cut[name]]
    sees_all = f"; {' and '.join(whole)} {'sees' if len(whole) == 1 else 'see'} all" if whole else ""
    n_prompts = len({limit.prompt for limit in limits})
    lines = []
    for reader, lost in cut.items():
        if lost:
            longest = max(lost, key=lambda limit: limit.n_tokens)
            prompts = len({limit.prompt for limit in lost})
            subject = f"The {text} is" if n_prompts == 1 else f"{prompts} of {n_prompts} {text}s are"
            lines.append(
                f"{subject} {TOO_LONG} {reader} ({longest.n_tokens} tokens, at most {longest.limit}), which did not "
                f"see “{shorten(longest.cut)}”{sees_all}."
            )
    return lines


NOTE = (
    "All classifiers saw the same pictures. The interval (low to high) is for other pictures and the first classifier. "
    "The spread, from the lowest to the highest classifier, is not in any interval."
)


def with_other_readers(first: str, results: Results, other_results: Mapping[str, Results]) -> Results:
    """Return the results of the ``first`` classifier, with the numbers of the others and a table of all."""
    values = {
        name: {finding.key: finding.estimate.value for finding in reader_results.findings}
        for name, reader_results in other_results.items()
    }

    def read_by_all(finding: Finding) -> Finding:
        others_say = {name: value for name, by_key in values.items() if (value := by_key.get(finding.key)) is not None}
        return replace(finding, by_reader={first: finding.estimate.value, **others_say})

    findings = tuple(map(read_by_all, results.findings))
    readers = table("readers", "Sensitivity to the classifier", map(_row, findings), NOTE)
    return replace(results, findings=findings, tables=(readers, *results.tables) if findings else results.tables)


def _row(finding: Finding) -> dict[str, float | str]:
    values, estimate = list(finding.by_reader.values()), finding.estimate
    spread = max(values) - min(values) if all(map(math.isfinite, values)) else math.nan
    return {
        "": finding.title,
        **finding.by_reader,
        "spread between classifiers": spread,
        "low": estimate.low,
        "high": estimate.high,
    }
