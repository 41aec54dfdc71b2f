"""TBYB: objects, hallucinations and misses in general, around a trigger word, in a data set, and in an experiment.

The experiment draws the same prompts under conditions with known bias.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product, starmap
from typing import Any, ClassVar, Literal

import pandas as pd

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.measures.intervals import mean_interval
from bias_core.measures.object_distribution import subset_distribution_bias
from bias_core.measures.sequential import share_interval
from bias_core.papers.tbyb import against_base, captions, captions as things, report
from bias_core.papers.tbyb.report import ALL, TEXTS, arms_headline, headline
from bias_core.prompts import fix_articles
from bias_core.report.claims import decide_findings
from bias_core.report.stop_rules import ShareValues
from bias_core.run.image_rows import scaled, thinned
from bias_core.run.study_run import Run, Steps
from bias_core.run.suggestions import suggest_scenes
from bias_core.store.images import pixel_digest
from bias_core.study.classifiers import Reader, language_model_name
from bias_core.study.design import distinct_texts, keep_only_options, read_study_table
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Shot,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    finding,
    get_options,
    join_results,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate
from bias_core.values import declared_settings, setting, settings_class
from bias_core.wording import format_list, typeset

Parts = Mapping[str, pd.DataFrame]  # readings of each condition's pictures, with `condition` and `words`


FEWEST = 2  # objects, professions, or prompts of a trigger
SETS = ("objects", "professions")
_PUBLISHED = (
    "runwayml/stable-diffusion-v1-5",
    "Model in the paper",
    "Model whose released numbers are shown for comparison",
)
_RELEASED_RULES = (
    True,
    "Also use the released rules",
    "Also compute B_D and H_J by the released rules, from all words but the prompt's, and compare them with "
    "the released numbers",
)
_MOST_PROMPTS, _LONGEST_PROMPT = 200, 500  # prompts, and characters of one


@settings_class(frozen=True, kw_only=True)
class PromptedOptions(captions.CaptioningOptions):
    base_prompt: str = setting(
        "",
        "Base prompt",
        "Prompt of a baseline picture for each picture, such as a picture of a person (default: no baseline)",
    )


_READING = tuple(declared_settings(PromptedOptions))


@settings_class(frozen=True, kw_only=True)
class GeneralOptions(PromptedOptions):
    sets: tuple[str, ...] = setting(SETS, "Prompts", "Sets of prompts: objects, professions, or both")
    person: bool = setting(
        True, "A person in every prompt", "Put a person in every prompt; otherwise use a picture of a {object}"
    )
    paper_wording: bool = setting(
        False, "The paper's wording", "Write a person ... instead of a picture of a person ..."
    )
    published_model: str = setting(*_PUBLISHED)
    released_rules: bool = setting(*_RELEASED_RULES)


@settings_class(frozen=True, kw_only=True)
class TaskOptions(captions.CaptioningOptions):
    triggers: tuple[str, ...] = setting(
        (), "Trigger words", "Trigger words; words that are not built in need your own scenes (default: all)"
    )
    scenes: tuple[str, ...] = setting(
        (), "Your own scenes", "Captions that each name one of the trigger words and replace the built-in scenes"
    )
    base: bool = setting(
        True, "Base scenes", "Also draw every scene without its trigger word on the same seeds, as a baseline"
    )
    in_place_of: str = setting(
        "",
        "Word of the base scenes",
        "Word that replaces your own trigger word in the base scenes (default: such words have no base scenes)",
    )
    published_model: str = setting(*_PUBLISHED)
    released_rules: bool = setting(*_RELEASED_RULES)


def general_shots(
    design: Design, settings: StudySettings, sets: Sequence[str], *, paper_wording: bool, with_person: bool = True
) -> list[Shot]:
    """Return objects with three actions each, and professions with three descriptors each, for the ``sets``."""
    if not sets or (unknown := sorted(set(sets) - set(SETS))):
        raise InvalidInput(f"sets are {' and '.join(SETS)}; got {', '.join(unknown) if sets else 'none'}")
    share, ending = settings.scale**0.5, "_paper" if paper_wording else ""
    objects, occupations = (design.data["general"][name] for name in ("objects", "occupations"))
    n, shots = scaled(design.images_per_prompt, share), []
    for kind, source in (("objects", objects), ("professions", occupations)):
        forms = source.get(f"templates{ending}", {})  # of professions, by descriptor
        columns = source["columns"]["actions"] if with_person else [""]
        for row, column in product(
            thinned(read_study_table(source["file"]), share, minimum=FEWEST, seed=settings.seed), columns
        ):
            action, name = row.get(column, ""), row["object"]
            form = forms.get(action) or objects[f"template{ending}" if with_person else "template_alone"]
            prompt = fix_articles(form.format(action=action, object=name, occupation=name))
            shots.append(Shot(prompt=prompt, n=n, group=kind, facts={"set": kind, "object": name}))
    return [shot for shot in shots if shot.group in sets]


def general_words(shots: Sequence[Shot], *, with_person: bool = True) -> dict[str, str]:
    """Return what general prompts show and how they differ from the paper's, in words."""
    n = {name: len({shot.facts["object"] for shot in shots if shot.group == name}) for name in SETS}
    people = "people with " if with_person else ""
    shown = {"objects": f"{people}{n['objects']} objects", "professions": f"of {n['professions']} professions"}
    wording = f"{len({shot.prompt for shot in shots})} prompts of the released lists"
    return {
        "shown": " and ".join(words for name, words in shown.items() if n[name]).removeprefix("of "),
        "wording": wording if with_person else f"{wording}, without a person",
    }


def _scene_words(shots: Sequence[Shot], own_scenes: Sequence[str]) -> dict[str, str]:
    """Return the trigger words and how their scenes differ from the paper's, in words."""
    words = list(dict.fromkeys(shot.group for shot in shots))
    usual = list(map(fix_articles, (f"a {word}" for word in words)))
    scenes = "scenes of your own" if own_scenes else "everyday scenes"
    wording = "prompts of your own" if own_scenes else "prompts of ours like the paper's, which it does not print"
    return {
        "scenes_with": f"{scenes} with {format_list(usual, last=' or ')}",
        "wording": f"{len({shot.prompt for shot in shots})} {wording}",
    }


def _check_negatives(prompts: Iterable[str], settings: StudySettings) -> None:
    """Raise InvalidInput before drawing if the negative of M_G is missing."""
    if get_options(settings, captions.CaptioningOptions).negative == captions.ANOTHER and not settings.images:
        texts = list(prompts)
        captions.other_prompts(texts, range(len(texts)))


def scene_shots(
    design: Design, settings: StudySettings, asked: Sequence[str], own_scenes: Sequence[str] = ()
) -> list[Shot]:
    """Return scenes with one of the trigger words ``asked`` for, or the user's ``own_scenes``."""
    share = settings.scale**0.5
    n = scaled(design.images_per_prompt, share)
    triggers = design.data["task_oriented"]["triggers"]
    words = asked or list(triggers)
    if own_scenes:
        scenes = _own_scenes(own_scenes, asked)
    elif unknown := sorted(set(words) - set(triggers)):
        raise InvalidInput(
            f"no trigger {', '.join(unknown)}; there are {', '.join(triggers)}, or any word with your own scenes"
        )
    else:
        scenes = {word: thinned(triggers[word], share, minimum=FEWEST, seed=settings.seed) for word in words}
    return [
        Shot(prompt=prompt, n=n, group=trigger, facts={"set": trigger})
        for trigger, prompts in scenes.items()
        for prompt in prompts
    ]


def _with_base_scenes(design: Design, shots: list[Shot], in_place_of: str) -> list[Shot]:
    """Return all scenes, then each without its trigger word; no base scenes if one has no replacement."""
    replacements, words = dict(design.data["task_oriented"]["in_place_of"]), {shot.group for shot in shots}
    if in_place_of:
        replacements |= dict.fromkeys(words - replacements.keys(), in_place_of)
    if not words <= replacements.keys():
        return shots
    plain = [fix_articles(_word_pattern(shot.group).sub(replacements[shot.group], shot.prompt)) for shot in shots]
    return against_base.base_scenes(
        shots, [replace(shot, prompt=prompt) for shot, prompt in zip(shots, plain, strict=True)]
    )


def _own_scenes(scenes: Sequence[str], triggers: Sequence[str]) -> dict[str, list[str]]:
    """Return the scenes of each trigger word; InvalidInput for a scene without a word, or a word without a scene."""
    if not triggers:
        raise InvalidInput("your own scenes need their trigger word: give triggers, such as pizza")
    by_word: dict[str, list[str]] = {word: [] for word in triggers}
    for scene in _checked_prompts(scenes):
        word = next((word for word in triggers if _word_pattern(word).search(scene)), None)
        if word is None:
            raise InvalidInput(f"the scene {scene!r:.80} names no trigger word ({', '.join(triggers)})")
        by_word[word].append(scene)
    if without := [word for word, word_scenes in by_word.items() if not word_scenes]:
        raise InvalidInput(f"no scene names the trigger word {', '.join(without)}")
    return by_word


def written_scenes(word: str, language_model: str, model: str, services: StudyServices) -> list[str]:
    """Return scenes with a word for pictures of ``model``, by a language model; ModelUnavailable without one."""
    name = language_model_name(language_model, services, services.pictures_world(model))
    if not name:
        raise ModelUnavailable("writing scenes needs a language model: name one")
    writer, follows = services.language_model(name), not services.reader_world("language_model", name)
    with services.reading(writer):
        return suggest_scenes(word, writer, follows=follows)


def _word_pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(word)}\b", re.I)


def _read_released(design: Design, model: str, kind: str) -> list[dict[str, str]]:
    """Return the released evaluations of all models; InvalidInput if ``model`` is not among them."""
    rows = read_study_table(design.data["evaluations"][kind]["file"])
    models = dict.fromkeys(row["Model"] for row in rows)
    if model not in models:
        raise InvalidInput(f"no released evaluation of {model!r}; there are {', '.join(models)}")
    return rows


_FEW = 6  # the user's own prompts that are also measured separately


def _men_drawn(frame: pd.DataFrame, data: Run) -> float | None:
    """Return the true percentage of men among pictures of one person; None if unknown."""
    truths = [truth for truth in data.truths(frame) if truth is not None and truth.get("n_people") == 1]
    men = data.services.share_shown("a photo of a man", truths) if truths else None
    return None if men is None else 100 * men


def design_of_prompts(base: Design, prompts: Sequence[str], images_per_prompt: int) -> Design:
    """Return a design of these prompts, measured as ``base``; InvalidInput for no, too many or too long prompts."""
    texts = _checked_prompts(prompts)
    if images_per_prompt < 1:
        raise InvalidInput(f"each prompt needs a picture; got {images_per_prompt}")
    return Design(
        name="tbyb-prompts",
        title="Objects in pictures of your own prompts",
        kind="prompted_object_bias",
        reference="",  # no published study has these pictures
        where="",
        summary="Objects in the pictures, those that no prompt asks for, and pictures that miss their prompt.",
        data={"gender_shares": base.data["gender_shares"], "prompts": texts},
        images_per_prompt=images_per_prompt,
        options={name: base.options[name] for name in _READING if name in base.options},
    )


def _checked_prompts(prompts: Sequence[str]) -> list[str]:
    """Return each prompt once; InvalidInput for no, too many or too long prompts."""
    texts = list(distinct_texts(prompts))
    if not texts or len(texts) > _MOST_PROMPTS:
        raise InvalidInput(f"between 1 and {_MOST_PROMPTS} prompts are needed, one per line; got {len(texts):,}")
    if long := [prompt for prompt in texts if len(prompt) > _LONGEST_PROMPT]:
        raise InvalidInput(f"a prompt has at most {_LONGEST_PROMPT} characters; {long[0][:40]!r} … has more")
    return texts


def settings_for_prompts(settings: StudySettings) -> StudySettings:
    """Return the settings for that design: all of its pictures, and no options of other studies."""
    return keep_only_options(settings, _READING)


WITH_TRIGGER, WITHOUT_TRIGGER = "with a trigger word", "without one"
_CONDITIONS = {"trigger": "an object planted with trigger words only", "backdoor": "always planted"}
_COMPARED = {
    "H_J": ("hallucination", "jaccard_hallucination"),
    "M_G": (f"miss {captions.STRONGER}", "generative_miss_rate"),
}
"""Numbers that are compared prompt by prompt: key of the scores, and of the measure."""
_CHANGE = " change "  # in the keys of their findings


@settings_class(frozen=True, kw_only=True)
class ControlledOptions(captions.CaptioningOptions):
    conditions: tuple[str, ...] = setting(
        ("fair", "trigger", "backdoor"),
        "Conditions",
        "Conditions to draw; the first is the base, and backdoor is the paper's extreme",
    )
    prompts: Literal["both", "task_oriented", "general"] = setting(
        "both",
        "Prompts",
        "Prompts to draw: both (scenes with a trigger word and as many prompts without), or one of the two",
    )
    triggers: tuple[str, ...] = setting((), "Trigger words", "Trigger words (default: all)")
    sets: tuple[str, ...] = setting(SETS, "General prompts", "Sets of prompts: objects, professions, or both")
    paper_wording: bool = setting(
        False, "The paper's wording", "Write a person ... instead of a picture of a person ..."
    )


def controlled_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Return scenes with a trigger word, general prompts without one, or the same number of both.

    A trigger-dependent and an extreme condition draw alike for scenes, but not for general prompts.
    """
    options = get_options(settings, ControlledOptions)

    def general() -> list[Shot]:
        return general_shots(design, settings, options.sets, paper_wording=options.paper_wording)

    if options.prompts == "general":
        return general()
    triggered = scene_shots(design, settings, options.triggers)
    _check_negatives(dict.fromkeys(shot.prompt for shot in triggered), settings)
    if options.prompts == "task_oriented":
        return triggered
    plain = [shot for shot in general() if not _has_trigger(design, shot)]
    return [*triggered, *thinned(plain, len(triggered) / len(plain), minimum=FEWEST, seed=settings.seed)]


def _has_trigger(design: Design, shot: Shot) -> bool:
    return not set(re.findall(r"\w+", shot.prompt.lower())).isdisjoint(design.data["task_oriented"]["triggers"])


def measure_changes(part: pd.DataFrame, base: pd.DataFrame, settings: StudySettings) -> dict[str, Estimate]:
    """Return the mean change of H_J and M_G from the base, with the interval of Student's t over prompts.

    Both are parts of the result of ``captions.read_pictures``; pictures with an undefined value are left out.
    """
    ours, theirs = (
        frame.assign(M_G=(frame[captions.STRONGER] > captions.MISSED).astype(float))
        .groupby("prompt")[[*_COMPARED]]
        .mean()
        for frame in (part, base)
    )
    changes = {key: column.dropna().to_numpy(float) for key, column in (ours - theirs).items()}
    return {
        str(key): mean_interval(change, confidence=settings.confidence, null_value=0.0)
        for key, change in changes.items()
        if len(change) >= FEWEST
    }


def _change_findings(changes: Mapping[str, Mapping[str, Estimate]], base: str) -> list[Finding]:
    """Return the changes of H_J and M_G from the base, which are one family."""
    return [
        finding(
            f"{name}{_CHANGE}{key}",
            f"Change of {key} from {base} to {name}",
            _COMPARED[key][1],
            change,
            "n counts prompts.",
            readings=tuple(f"{key} {verb}." for verb in ("rises", "falls", "does not clearly change")),
        )
        for name, key in product(changes, _COMPARED)
        if (change := changes[name].get(key))
    ]


def _build_measures(parts: Parts, sets: Mapping[str, captions.Scores], settings: StudySettings) -> pd.DataFrame:
    """Return B_D at equal numbers, H_J and M_G of each condition."""
    n = min(map(len, parts.values()))

    def distribution_bias(name: str) -> float:
        estimate, part = sets[name].estimates.get("distribution_bias"), parts[name]
        if estimate is None or n == len(part):
            return math.nan if estimate is None else estimate.value
        exclude: Any = (
            part["asked"].tolist() if get_options(settings, captions.CaptioningOptions).exclude_prompt else None
        )
        return subset_distribution_bias(part["counted"].tolist(), n, exclude_prompt=exclude, rng=settings.seed).value

    return pd.DataFrame(
        [
            {
                "n": n,
                "distribution_bias": distribution_bias(name),
                "hallucination": scores.estimates["hallucination"].value,
                "miss_rate": scores.estimates[f"miss {captions.BLANK}"].value,
            }
            for name, scores in sets.items()
        ],
        index=list(sets),
    )


def _gained_table(parts: Parts) -> list[StudyTable]:
    """Return the number of pictures with the object that increases most, with and without trigger words."""
    base, *other_names = parts
    counts = {name: Counter(chain.from_iterable(map(set, part["counted"]))) for name, part in parts.items()}
    gains = {word: n - counts[base][word] for name in other_names for word, n in sorted(counts[name].items())}
    word = max(gains, key=lambda one: gains[one], default="")
    if gains.get(word, 0) <= 0:
        return []
    rows = []
    for name, part in parts.items():
        for words, has_object in (
            part["counted"].map(lambda objects: word in objects).groupby(part["words"], sort=False)
        ):
            n = int(has_object.sum())
            share = columns("share", share_interval(n, len(has_object)), ends="")
            rows.append({"condition": name, "prompts": words, "n": len(has_object), "with it": n, **share})
    return [TEXTS.table("gained_object", rows, word=word)]


def shared_pictures(data: Run, names: Sequence[str]) -> list[str]:
    """Return a warning for each two conditions with identical pictures for equal prompts and seeds."""
    frame = data.frame.drop_duplicates("image_id")
    table = frame.assign(pixels=[pixel_digest(stored.path.read_bytes()) for stored in data.stored(frame)]).pivot_table(
        index=["words", "prompt", "seed"], columns="condition", values="pixels", aggfunc="first"
    )
    warnings = []
    for first, second in combinations(names, 2):
        digests = table[[first, second]].dropna()
        same = digests[first] == digests[second]
        if same.any():
            parts = [
                f"{n} of {size} {words}"
                for words, n, size in same.groupby(level="words").agg(["sum", "size"]).itertuples()
            ]
            warnings.append(report.describe_same_pictures(first, second, ", ".join(parts)))
    return warnings


def _notes(sets: Mapping[str, captions.Scores], changes: Sequence[Finding]) -> list[str]:
    notes = []
    for key, (of, _) in _COMPARED.items():
        values = ", ".join(f"{typeset(scores.estimates[of].value, '.3f')} ({name})" for name, scores in sets.items())
        against = [
            f"{change.title}: {change.says.partition('. n ')[0]}."
            for change in changes
            if change.key.endswith(_CHANGE + key)
        ]
        notes.append(" ".join([f"{key}: {values}.", *against]))
    return notes


_PLAIN = "a picture of a person"


class ObjectStudy(Study):
    """TBYB: objects that captions name, compared with prompts."""

    judged = "things"
    fewest_when_stopped = 1
    watches_shares = True
    parts: ClassVar[str] = ""  # column; each of its values is also measured separately
    released: ClassVar[str] = ""  # the released evaluations for comparison
    findings_of_parts: ClassVar[bool] = False  # True if findings are for the parts, not for all pictures
    whole: ClassVar[tuple[str, str]] = (ALL, ALL)  # name of all pictures together in tables, and in findings
    base: ClassVar[str] = "the base prompt"  # name of the base
    note: ClassVar[str] = ""  # a further note

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure distribution bias, hallucination and misses on all pictures, and on each part of them."""
        reading, base = against_base.sides((yield from captions.read_and_keep(settings, data)), data.frame)
        frame = data.frame.loc[reading.index]
        parts = list(dict.fromkeys(frame[self.parts])) if self.parts else []
        if self.parts == "prompt":
            prompts = self.design.data["prompts"]
            parts = [prompt for prompt in prompts if prompt in parts] if 1 < len(prompts) <= _FEW else []
        options, released, published, by_released_rules = settings.options, list[dict[str, str]](), {}, False
        if isinstance(options, (GeneralOptions, TaskOptions)):
            released = _read_released(self.design, options.published_model, self.released)
            by_released_rules = options.released_rules
            published = {row.get("Target", ALL): row for row in released if row["Model"] == options.published_model}
        readings, (whole, whole_name) = {part: reading[frame[self.parts] == part] for part in parts}, self.whole
        sets = {
            name: captions.score(part_reading, settings, by_released_rules=by_released_rules)
            for name, part_reading in {whole: reading, **readings}.items()
        }
        findings: list[Finding] = []
        names = {part: part for part in parts} if self.findings_of_parts else {whole: whole_name}
        named_readings = {name: readings.get(part, reading) for part, name in names.items()}
        judged = yield from things.judged_things(
            data, reading, {name: part.index for name, part in named_readings.items()}
        )
        against = against_base.compare_sets(named_readings, base, settings, called=self.base)
        for part, name in names.items():
            findings += against_base.change_findings(name, against[name]) if name in against else ()
            findings += report.set_findings(name, sets[part], published.get(part))
        findings += judged.findings
        table4 = report.gender_table(sets, settings, _men_drawn(frame, data), self.design.data["gender_shares"]["rows"])
        placed, places = report.among_released(sets, released, settings)
        return Results(
            findings=tuple(findings),
            tables=(
                *against_base.tables(against, first="pictures"),
                *judged.tables,
                TEXTS.table("measures", report.measures_table(sets)),
                *([report.published_table(sets, released)] if released else []),
                *placed,
                table4,
                report.top_table(sets, settings),
            ),
            figures=drawable((*against_base.figures(against, settings), *places, *report.build_figures(sets, table4))),
            notes=(
                *([report.AGAINST_BASE_NOTE] if against else []),
                *report.READING_NOTES,
                *(self.design.notes if released else ()),
                *filter(None, [self.note]),
            ),
            scored=reading,
        )

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        return captions.captioning_readers(settings)

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if the captioner is missing."""
        if draws_to_measure:
            captions.captioner_ready(settings, services)

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        return captions.watch_captions(settings, data, frame)

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the objects of each arm against the first, and the paper's table over arms."""
        against = against_base.compare_objects_of_arms(arms, settings)
        object_results = Results(
            findings=tuple(chain.from_iterable(starmap(against_base.change_findings, against.items()))),
            tables=against_base.tables(against, first="arm"),
            figures=against_base.figures(against, settings),
        )
        return join_results(object_results, self.compare_measures(settings, arms))

    def compare_measures(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the paper's table over arms."""
        return report.compare_objects(settings, arms)

    def family(self, finding: Finding) -> str | None:
        """Return the family of a finding: nothing is claimed of the paper's measures but their changes."""
        return "changes" if _CHANGE in finding.key else against_base.FAMILIES.get(finding.metric)

    def headline(self, report: StudyReport) -> str:
        """Return the most frequent object and gender words, or the changes against a base."""
        return headline(report)

    def arms_headline(self, report: StudyReport) -> str:
        """Return the changes of objects against the first arm."""
        return arms_headline(report)

    def with_baseline(self, settings: StudySettings) -> tuple[StudySettings, str] | None:
        """Return the settings with plain scenes as a baseline; None if there is one already, or none is possible."""
        options = settings.options
        if isinstance(options, TaskOptions) and not options.base:
            return replace(settings, options=replace(options, base=True)), "every scene without its trigger word"
        if isinstance(options, PromptedOptions) and not options.base_prompt:
            return replace(settings, options=replace(options, base_prompt=_PLAIN)), f"“{_PLAIN}”"
        return None


class GeneralObjects(ObjectStudy):
    """TBYB's general task: prompts that name an object."""

    kind = "object_bias"
    options = GeneralOptions
    parts = "set"
    released = "general"

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        return general_words(self._shots(settings), with_person=get_options(settings, GeneralOptions).person)

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of every prompt."""
        options = get_options(settings, GeneralOptions)
        _read_released(self.design, options.published_model, "general")
        return against_base.with_base_prompt(self._shots(settings), settings, options.base_prompt)

    def _shots(self, settings: StudySettings) -> list[Shot]:
        options = get_options(settings, GeneralOptions)
        return general_shots(
            self.design, settings, options.sets, paper_wording=options.paper_wording, with_person=options.person
        )


class TriggeredObjects(ObjectStudy):
    """TBYB's task-oriented prompts, with a trigger word."""

    kind = "triggered_object_bias"
    options = TaskOptions
    parts = "set"
    released = "task_oriented"
    findings_of_parts = True
    base = "scenes without the word"

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        options = get_options(settings, TaskOptions)
        shots = scene_shots(self.design, settings, options.triggers, options.scenes)
        return _scene_words(shots, options.scenes)

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of every scene."""
        options = get_options(settings, TaskOptions)
        _read_released(self.design, options.published_model, "task_oriented")
        shots = scene_shots(self.design, settings, options.triggers, options.scenes)
        if options.base and not settings.images:
            shots = _with_base_scenes(self.design, shots, options.in_place_of)
        _check_negatives(dict.fromkeys(shot.prompt for shot in shots), settings)
        return shots


class DatasetObjects(ObjectStudy):
    kind = "dataset_bias"
    options = captions.CaptioningOptions
    whole = ("all pictures", "Dataset")
    note = "In a captioned dataset, H_J measures objects that captions leave out, not objects that a model added."

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return nothing to draw: the pictures are the dataset's."""
        return []

    def compare_measures(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        return report.compare_datasets(settings, arms)


class PromptedObjects(ObjectStudy):
    """Objects in pictures of the user's own prompts."""

    kind = "prompted_object_bias"
    options = PromptedOptions
    parts = "prompt"

    def shots(self, settings: StudySettings) -> list[Shot]:
        prompts = self.design.data["prompts"]
        _check_negatives(prompts, settings)
        shots = [
            Shot(prompt=prompt, n=self.design.images_per_prompt, group="own", facts={"set": prompt})
            for prompt in prompts
        ]
        return against_base.with_base_prompt(shots, settings, get_options(settings, PromptedOptions).base_prompt)


class ControlledObjects(ObjectStudy):
    """The same prompts under several planted conditions."""

    kind = "controlled_object_bias"
    options = ControlledOptions
    watches_shares = False  # a share over mixed conditions means nothing

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        conditions = get_options(settings, ControlledOptions).conditions
        shots = controlled_shots(self.design, settings)
        has_trigger = [_has_trigger(self.design, shot) for shot in shots]
        drawn = WITH_TRIGGER if all(has_trigger) else f"{WITH_TRIGGER} and {WITHOUT_TRIGGER}"
        return {
            "drawn": drawn if any(has_trigger) else "without a trigger word",
            "named_conditions": ", ".join(
                f"{name} ({_CONDITIONS[name]})" if name in _CONDITIONS else name for name in conditions
            ),
            "wording": f"{len({shot.prompt for shot in shots})} prompts of ours and of the released lists",
        }

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return every prompt under every condition."""
        conditions = get_options(settings, ControlledOptions).conditions
        if len(set(conditions)) < 2 or len(set(conditions)) < len(conditions):
            raise InvalidInput(f"a controlled experiment needs two different conditions; got {conditions}")
        if settings.images:
            raise InvalidInput("imported pictures have no conditions to compare; try tbyb-dataset")
        shots = controlled_shots(self.design, settings)
        return [
            replace(shot, condition=condition, facts={**shot.facts, "condition": condition, "words": words})
            for condition in conditions
            for shot in shots
            for words in [WITH_TRIGGER if _has_trigger(self.design, shot) else WITHOUT_TRIGGER]
        ]

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure every condition at equal numbers of pictures, and its change from the base."""
        reading = yield from captions.read_and_keep(settings, data)
        reading = reading.join(data.frame[["condition", "words", "seed"]])
        names = [str(name) for name in get_options(settings, ControlledOptions).conditions]
        base = names[0]
        parts = {name: reading[reading["condition"] == name] for name in names}
        sets = {name: captions.score(part, settings) for name, part in parts.items()}
        other_parts = {name: part for name, part in parts.items() if name != base}
        compared_sets = {
            name: against_base.against_base(part, parts[base], settings, name=base)
            for name, part in other_parts.items()
        }
        against = against_base.decide_objects(compared_sets, settings.confidence)
        judged = yield from things.judged_things(data, reading, {name: part.index for name, part in parts.items()})
        changes = {name: measure_changes(parts[name], parts[base], settings) for name in against}
        measures = _build_measures(parts, sets, settings)
        compared = report.ranked_sets(measures, sets, settings)
        places = compared.rename_axis("condition").reset_index()
        shown = [*against_base.figures(against, settings), report.change_figure(sets, base)]
        shown += [report.space_figure(compared, "The conditions"), report.curve_figure(sets), report.rates_figure(sets)]
        findings = [finding for name in against for finding in against_base.change_findings(name, against[name])]
        changed = decide_findings(_change_findings(changes, base), self.family, confidence=settings.confidence)
        return Results(
            findings=(
                *findings,
                *changed,
                *judged.findings,
                *[finding for name in names for finding in report.set_findings(name, sets[name])],
            ),
            tables=(
                *against_base.tables(against, first="condition"),
                *judged.tables,
                TEXTS.table("conditions", report.measures_table(sets, first="condition")),
                TEXTS.table(
                    "comparison",
                    places,
                    of="The conditions",
                    note=f"{report.normalised_note(measures)} {report.describe_ranks('')}",
                ),
                report.top_table(sets, settings, base=base),
                *_gained_table(parts),
            ),
            figures=drawable(shown),
            notes=(
                *_notes(sets, changed),
                *shared_pictures(data, names),
                report.AGAINST_BASE_NOTE,
                *report.READING_NOTES,
                *self.design.notes,
            ),
            scored=reading,
        )

    def compare_measures(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the scores of every condition and arm."""
        return report.compare_conditions(settings, arms)
