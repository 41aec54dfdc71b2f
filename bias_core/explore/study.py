"""Explore: measure pictures of a concept, the user's own pictures, or pictures of prompts from a file.

It measures what a classifier perceives in the pictures. ``Unmeasured`` only keeps pictures so that people label them.
"""

import math
import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bias_core.explore.arms import Scored, compare_explorations
from bias_core.explore.exploration import CONCEPT, SCORED_GROUPS, AssociationScore, Exploration, explore_values
from bias_core.explore.extension import MOST, NO_WORDS, SUGGESTED
from bias_core.explore.options import (
    KIND,
    ExploreOptions,
    PackOptions,
    added_arms,
    attributes_of_cells,
    build_concept_settings,
    check_options,
    choose_design,
    explore_options,
    explore_words,
    list_prompt_cells,
    read_pack_prompts,
    scored_attributes,
)
from bias_core.explore.report import (
    OF_CONCEPT,
    arms_headline,
    describe_picture_counts,
    exploration_results,
    headline,
    picture_columns,
    with_words,
)
from bias_core.measures.arrays import all_equal
from bias_core.measures.association import association, association_beyond_even_mix, mean_association
from bias_core.measures.clustering import ClusterResult, spectral_clusters
from bias_core.measures.stereotype import asked_kept_estimate
from bias_core.prompts import fill_template
from bias_core.report.blocked_pictures import describe_share
from bias_core.report.headlines import ASKS_FOR_SEVERAL
from bias_core.report.stop_rules import ShareValues
from bias_core.run.attribute_scores import AttributeScore, score_attributes, watch_attributes
from bias_core.run.image_rows import ImportedRows, scaled
from bias_core.run.run import complete, run_study
from bias_core.run.study_run import Run, Steps
from bias_core.study.attributes import ALL
from bias_core.study.classifiers import Reader
from bias_core.study.design import PACK, pack_design
from bias_core.study.label_tasks import find_people
from bias_core.study.study import Measuring, ReportFacts, Study
from bias_core.study.types import (
    Arm,
    ArmReport,
    Design,
    Finding,
    Progress,
    Results,
    Shot,
    StudyReport,
    StudySettings,
    StudyTable,
    join_results,
)
from bias_core.study_services import StudyServices
from bias_core.types import Attribute
from bias_core.values import Options, declared_settings, option_values
from bias_core.wording import format_list, format_share

_PERSON = re.compile(r"\b(?:person|people|human|individual|m[ae]n|wom[ae]n|male|female)\b", re.I)
_SEVERAL = re.compile(
    r"(?i)\b(?:two|three|four|five|several|many|group|crowd|couple|pair|team|family|people)\b|\band (?:an?|one|the) "
)
_FEWEST = 4  # pictures for a map, or for separate scores of a prompt
_MOST_ON_MAP = 3000  # each picture is compared with all others
_MOST_PROMPTS = 24


def explore(concept: str | Sequence[str], services: StudyServices, **settings: Any) -> Exploration:
    """Draw or load pictures of a concept and measure their attributes, association and groups.

    Several concepts are measured one by one, each against its own real-world rates; ``rates`` and ``counts`` may give
    these, as ``concept|attribute|P*|source`` and ``concept|number``. Other ``settings`` are of a run and of an
    exploration, such as ``n_images``, ``attributes``, ``model``, ``seed``.
    """
    asked = build_concept_settings([concept] if isinstance(concept, str) else concept, **settings)
    return Exploration(complete(run_study(choose_design(asked), asked, services)))


def find_alike(n_clusters: int, settings: StudySettings, rows: np.ndarray) -> ClusterResult | None:
    """Return groups of similar pictures; None for too few or too many pictures."""
    if not _FEWEST <= len(rows) <= _MOST_ON_MAP:
        return None
    return spectral_clusters(rows, n_clusters=min(n_clusters, len(rows)) or None, seed=settings.seed)


def _number_pictures(settings: StudySettings, options: ExploreOptions, frame: pd.DataFrame) -> Any:
    """Return the number of each picture: by seed if pictures of one prompt were drawn here, else in order."""
    several = settings.images or options.takes_all
    return range(1, len(frame) + 1) if several else frame["seed"].to_numpy(int) - settings.seed + 1


def _measure_association(
    options: ExploreOptions, data: Run, frame: pd.DataFrame, rows: np.ndarray
) -> Generator[Progress, None, AssociationScore | None]:
    """Return T2IAT's Eq. 2 for the concept; None if a side has no picture."""
    frames = [data.frame[data.frame["group"] == side] for side in NO_WORDS]
    if not options.has_association or any(side.empty for side in frames):
        return None
    sides = [(yield from data.embed(frames[0])), (yield from data.embed(frames[1]))]
    calls = _shown_as_asked(options, data, sides)
    confidence = data.settings.confidence
    return AssociationScore(
        attribute_a=options.attribute_a,
        attribute_b=options.attribute_b,
        mean=mean_association(rows, *sides, confidence=confidence),
        associations=association(rows, *sides),
        beyond=association_beyond_even_mix(rows, *sides, confidence=confidence) if _vary(rows, *sides) else None,
        fidelity=asked_kept_estimate(*calls, confidence=confidence) if calls else None,
        calls=calls,
        rows=(rows, *sides),
        units=tuple(get_units(part) for part in (frame, *frames)),
    )


def _shown_as_asked(options: ExploreOptions, data: Run, sides: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return 1 for each picture of A or B that is nearer to its own prompt than to the other, else 0.

    Empty if both prompts are the same to the encoder. A judge is not asked.
    """
    prompts = options.prompts()
    a, b = data.texts([prompts[side] for side in NO_WORDS])
    if all_equal(np.stack([a, b])):
        return ()
    return tuple((rows @ to_own > 0).astype(float) for rows, to_own in zip(sides, (a - b, b - a), strict=True))


def _vary(rows: np.ndarray, *sides: np.ndarray) -> bool:
    """Return True if there is an even mix: two or more different pictures of each."""
    has_two_each = min(map(len, (rows, *sides))) > 1
    return has_two_each and not (all_equal(rows) or all_equal(np.vstack(sides)))


def score_cells(
    study: "Explore", data: Run, frame: pd.DataFrame, rows: np.ndarray
) -> Steps[tuple[dict[str, tuple[AttributeScore, ...]], list[str]]]:
    """Score the cells with most pictures (prompts, or groups of prompts), then all pictures.

    Returns the scores by cell, and notes on the other cells.
    """
    scored = scored_attributes(data.settings, frame["prompt"])
    cells = {ALL: (yield from score_attributes(data, frame, rows, scored))}
    by = next(column for column in study.cell_columns if column in frame)
    counts = frame[by].value_counts(sort=study.largest_first)
    is_alone = len(counts) == 1 and not study.attributes_of_cells(data.settings)
    named = [] if is_alone else list(counts[counts >= study.fewest_of_cell].index[: study.most_cells])
    with data.allow_partial_results(lambda: f"{len(cells) - 1} of {len(named)} {by}s were scored separately"):
        for name in named:
            data.check()
            at = np.flatnonzero(frame[by] == name)
            looked_for = study.attributes_of_cell(data.settings, name, frame.iloc[at]["prompt"])
            cells[name] = yield from score_attributes(data, frame.iloc[at], rows[at], looked_for)
    cells[ALL] = cells.pop(ALL)  # scored first, shown last
    if len(named) == len(counts) or len(counts) == 1:
        return cells, []
    n = len(counts) - len(named)
    cell_words = f"1 {by} has" if n == 1 else f"{n:,} {by}s have"
    return cells, [f"{cell_words} too few pictures for separate scores, or came too late: counted in “{ALL}” only."]


def get_units(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the units of pictures, ``(n,)``."""
    return tuple(map(str, frame["unit" if "unit" in frame else "image_id"]))


def _without_rates(options: ExploreOptions, scores: Sequence[AttributeScore]) -> list[str]:
    """Return a note on the attributes without their P* because the pictures show another concept."""
    pairs = zip(options.scored, scores, strict=True)
    names = [
        f"“{attribute.name}”"
        for attribute, score in pairs
        if attribute.reference is not None and score.attribute.reference is None
    ]
    if not names:
        return []
    if options.takes_all:
        return [
            f"No P* for {format_list(names)}: the real-world rate is for one concept, and these prompts show others."
        ]
    return [f"No P* for {format_list(names)}: the real-world rate is for another concept, “{options.concept}”."]


def notes_on_pictures(data: Run, n: int, *, missing: bool) -> list[str]:
    """Return notes on ``n`` scored pictures; ``missing``: an association was asked for, and is not there."""
    settings = data.settings
    info = None if settings.images else data.services.model_info(settings.model)
    of_people = any(_PERSON.search(attribute.positive) for attribute in explore_options(settings).scored)
    asks_for_several = of_people and n > 0 and bool(data.frame["prompt"].str.contains(_SEVERAL).any())
    notes = {
        ASKS_FOR_SEVERAL: asks_for_several,
        describe_share(picture.image for picture in data.drawn_pictures): data.n_blocked > 0,
        "No picture could be scored.": n == 0,
        f"No clusters: these need at most {_MOST_ON_MAP:,} pictures.": n > _MOST_ON_MAP,
        "No association: the pictures of the two words were not finished.": missing,
        "The renderer has no negative prompt; it was ignored.": info is not None
        and info.family == "renderer"
        and bool(settings.negative_prompt),
        "Guidance above 1 exaggerates the planted bias of this model.": info is not None
        and info.embedded
        and (settings.guidance_scale or 0) > 1,
    }
    return [note for note, holds in notes.items() if holds]


def keep_people(data: Run) -> None:
    """Add the people that each imported picture should show to its row, if known."""
    if not isinstance(data.rows, ImportedRows):
        return
    source = data.rows.source
    rows = [
        find_people(prompt, source.get_picture(image_id).people)
        for image_id, prompt in zip(data.frame["image_id"], data.frame["prompt"], strict=True)
    ]
    if any(people["setting"] for people in rows):
        names = dict.fromkeys(name for people in rows for name in people)
        data.keep(data.frame, **{name: [people.get(name, "") for people in rows] for name in names})


UNMEASURED = Design(
    name="unmeasured",
    title="Pictures of your own, not measured",
    kind="unmeasured",
    reference="",
    where="",
    summary="Imported pictures with their prompts and the people that these name, kept for labelling.",
)
_NOTE = "Nothing was measured: these pictures are for people to label."


class Explore(Study):
    """Measure pictures of any concept, or the user's own pictures."""

    kind = KIND
    options: ClassVar[type[Options]] = ExploreOptions
    judged = "attributes"
    shows_anything = True
    watches_shares = True
    fewest_when_stopped = 0
    cell_columns: ClassVar[Sequence[str]] = ("set", "prompt")  # the first that the pictures have names their cell
    fewest_of_cell: ClassVar[int] = _FEWEST
    most_cells: ClassVar[int] = _MOST_PROMPTS
    largest_first: ClassVar[bool] = True

    def attributes_of_cells(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        """Return further attributes of single cells."""
        return {}

    def attributes_of_cell(self, settings: StudySettings, cell: str, prompts: Iterable[str]) -> tuple[Attribute, ...]:
        return (*scored_attributes(settings, prompts), *self.attributes_of_cells(settings).get(cell, ()))

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the concept's pictures, then both sides of the association; none if all imported ones are taken."""
        options = explore_options(settings)
        if options.takes_all and settings.images:
            return []
        n = {CONCEPT: options.n_images}
        return [
            Shot(
                prompt=prompt,
                n=scaled(n.get(group, options.n_attribute_images), settings.scale),
                group=group,
                part=OF_CONCEPT if group == CONCEPT else with_words(options),
            )
            for group, prompt in options.prompts().items()
        ]

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure every attribute of the concept's pictures, their association, and groups of similar pictures."""
        options = explore_options(settings)
        keep_people(data)
        frame = data.frame.reset_index(drop=True)
        if not options.takes_all and len(frame):
            frame = frame[frame["group"] == CONCEPT]
        if frame.empty:
            return Results(notes=tuple(notes_on_pictures(data, 0, missing=False)))
        rows = yield from data.embed(frame)
        leaning = yield from _measure_association(options, data, frame, rows)
        cells, notes = yield from score_cells(self, data, frame, rows)
        alike = find_alike(options.n_clusters, settings, rows)
        data.keep(
            frame, number=_number_pictures(settings, options, frame), **picture_columns(cells[ALL], leaning, alike)
        )
        scored = Scored(
            units=get_units(frame),
            ids=tuple(frame["image_id"]),
            seeds=tuple(frame["seed"]),
            rows=rows,
            scores=cells[ALL],
            fidelity=leaning.fidelity if leaning else None,
        )
        results = exploration_results(
            cells,
            leaning,
            alike,
            sample=scored.sample,
            notes=[
                *self.design.notes,
                *notes,
                *_without_rates(options, cells[ALL]),
                *notes_on_pictures(data, len(frame), missing=options.has_association and leaning is None),
            ],
            scored=scored,
            confidence=settings.confidence,
        )
        return join_results(
            results, *(extension.reading(options, data, frame, scored) for extension in options.extensions)
        )

    def get_concept_prompt(self, settings: StudySettings) -> str:
        return explore_options(settings).concept_prompt

    def get_run_title(self, settings: StudySettings) -> str:
        """Return the concept's prompt, or a name for the user's own pictures."""
        return self.get_concept_prompt(settings) or "Attributes in pictures of your own"

    def get_command(self, settings: StudySettings) -> Sequence[str]:
        return explore_words(settings)

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        options = explore_options(settings)
        measured = ["and which pictures look alike"]
        if options.has_association and not options.takes_all:
            measured.insert(0, f"whether they are closer to “{options.attribute_a}” or “{options.attribute_b}”")
        if options.attributes:
            measured.insert(
                0, "how often a classifier sees each attribute and how far that is from its real-world rate"
            )
        begins = "Takes your own pictures" if settings.images else "Draws a concept in your own words"
        return {"begins": f"{begins} and measures", "measured": ", ".join(measured).removeprefix("and ")}

    def check_given(self, settings: StudySettings) -> None:
        """Raise InvalidInput for options that cannot be used together."""
        check_options(settings)

    def arms(self, settings: StudySettings) -> tuple[Arm, ...]:
        """Return the arms that options ask for by themselves, such as one for each language."""
        return added_arms(settings)

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        return watch_attributes(self.attributes(settings), data, frame)

    def attributes(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        return dict.fromkeys(SCORED_GROUPS, scored_attributes(settings))

    def attributes_for_prompts(
        self, settings: StudySettings, prompts: Iterable[str]
    ) -> Mapping[str, Sequence[Attribute]]:
        """Return the attributes with the real-world rates that fit the prompts."""
        return dict.fromkeys(SCORED_GROUPS, scored_attributes(settings, prompts))

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the differences between the arms, seed by seed, after the results of extensions."""
        differences = compare_explorations(settings, arms, are_before_and_after=not added_arms(settings))
        if not differences.tables:
            return differences
        options = explore_options(settings)
        added = join_results(
            Results(), *(extension.comparing(options, settings, arms) for extension in options.extensions)
        )
        return replace(join_results(added, differences), figures=(*differences.figures, *added.figures))

    def family(self, finding: Finding) -> str | None:
        """Return the family of a finding; nothing is claimed of Eq. 2 alone, for an even mix is not always 0 there."""
        return None if finding.metric == "association" else super().family(finding)

    def headline(self, report: StudyReport) -> str:
        return headline(report)

    def arms_headline(self, report: StudyReport) -> str:
        return arms_headline(report)

    def facts(self, report: StudyReport) -> ReportFacts:
        """Return the parts of the number of pictures, and the attributes by prompt."""
        return ReportFacts(made_of=describe_picture_counts(report), values=explore_values(report))

    def enlarged(
        self, settings: StudySettings, times: float, cells: Collection[str] = ()
    ) -> tuple[Study, StudySettings]:
        """Return ``times`` as many pictures of the concept; of both words too if nothing else is measured."""
        options = explore_options(settings)
        names = ["n_images"] if options.scored else ["n_images", "n_attribute_images"]
        new_counts = {name: min(MOST, math.ceil(times * getattr(options, name))) for name in names}
        return self, replace(settings, options=replace(options, **new_counts))

    def with_baseline(self, settings: StudySettings) -> tuple[StudySettings, str] | None:
        """Return the settings with a second arm of any person; None if the concept is not a kind of person."""
        options = explore_options(settings)
        about_people = any(_PERSON.search(attribute.positive) for attribute in options.scored)
        if settings.arms or options.takes_all or not about_people or _PERSON.search(options.concept):
            return None
        concept = " ".join(options.concept.split())
        arms = Arm(name=concept), Arm(name="person", template=f"{{{concept}=person}}")
        return replace(settings, arms=arms), f"“{fill_template(options.template, 'person')}”"


class Unmeasured(Study):
    """Keep the user's own pictures for labelling."""

    kind = UNMEASURED.kind
    shows_anything = True
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        return []

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Return the number of pictures of each prompt; the people that a prompt names are kept with each picture."""
        keep_people(data)
        frame = data.frame
        yield Progress(done=len(frame), total=len(frame), seconds_left=0.0, message=f"{len(frame):,} pictures")
        by = [name for name in ("prompt", "setting", "left", "right") if name in frame]
        counts: pd.DataFrame = frame.groupby(by, sort=False).size().rename("pictures").reset_index()
        table = StudyTable(key="prompts", title="Prompts", frame=counts, note="As many pictures as were stored.")
        return Results(tables=(table,), notes=(_NOTE,))

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        return ()

    def headline(self, report: StudyReport) -> str:
        return f"{report.n_images:,} pictures are ready for labelling; nothing was measured."


def prepare_pack(name: str, settings: StudySettings) -> tuple[Design, StudySettings]:
    """Return the design of a pack, and the settings of its run from those of an exploration.

    The attributes are those of the settings; if they leave the choice to the program, those that the rows name.
    """
    design, values = pack_design(name), option_values(settings.options)
    options = {name: values[name] for name in declared_settings(PackOptions) if name in values}
    if tuple(options.get("attributes", ())) == (SUGGESTED,):
        del options["attributes"]
    if "n_images" in values:
        design = replace(design, images_per_prompt=values["n_images"])
    return design, replace(settings, options=options)


class PromptPack(Explore):
    """Explore prompts from a file, together and by group."""

    kind = PACK
    options = PackOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of every prompt, with its group if any."""
        prompts = read_pack_prompts(self.design)
        cells = list_prompt_cells(prompts)
        self.attributes_of_cells(settings)  # invalid attributes raise before drawing
        return [
            Shot(
                prompt=prompt.prompt,
                n=scaled(prompt.n or self.design.images_per_prompt, settings.scale),
                group=CONCEPT,
                facts={"set": cell} if cell != prompt.prompt else {},
            )
            for prompt, cell in zip(prompts, cells, strict=True)
        ]

    def attributes_of_cells(self, settings: StudySettings) -> Mapping[str, Sequence[Attribute]]:
        """Return the attributes that rows of the file name."""
        return attributes_of_cells(self.design, scored_attributes(settings))

    def get_run_title(self, settings: StudySettings) -> str:
        return self.design.title

    def get_command(self, settings: StudySettings) -> Sequence[str]:
        """Return (): ``study run`` starts it."""
        return ()

    def headline(self, report: StudyReport) -> str:
        """Return the headline of an exploration; if groups have different attributes, the first shares."""
        measured = [
            finding
            for finding in report.results.findings
            if finding.key.endswith("-p") and not math.isnan(finding.estimate.low)
        ]
        if Exploration(report).attributes or not measured:
            return headline(report)
        shares = [
            f"{finding.title.removesuffix(': P')}, in {format_share(share.value, share.low, share.high)} of {share.n}"
            for finding in measured
            for share in [finding.estimate]
        ]
        return f"Attributes that the prompts ask for: {format_list(shares, '; ')} pictures."

    def enlarged(
        self, settings: StudySettings, times: float, cells: Collection[str] = ()
    ) -> tuple[Study, StudySettings]:
        """Return ``times`` as many pictures of every prompt; unchanged if rows give their own number."""
        has_own = any(prompt.n for prompt in read_pack_prompts(self.design))
        return (self, settings) if has_own else Study.enlarged(self, settings, times)

    def with_baseline(self, settings: StudySettings) -> tuple[StudySettings, str] | None:
        """Return None: a file's prompts have no common baseline."""
        return None
