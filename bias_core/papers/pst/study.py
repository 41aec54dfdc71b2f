"""PST: paired tests of occupations, roles of power, words that ask for fairness, and the user's own identities."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product, takewhile
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import kendall_tau
from bias_core.measures.paired_stereotype import ALL_ANSWERS, stereotype_test_score
from bias_core.papers.pst import PeopleExtension, labelling
from bias_core.papers.pst.labelling import LABELLED, Answers, LabellingOptions, PairOptions
from bias_core.papers.pst.report import (
    FAIRNESS,
    OWN_OCCUPATIONS_NOTE,
    PAIRED,
    PLACES,
    POWER_NOTE,
    TABLE_6_NOTE,
    TABLE_14_NOTE,
    TABLE_16_NOTE,
    TEXTS,
    add_claims,
    agreement,
    build_labelling_notes,
    compare_tests,
    coverage_table,
    decide_by_family,
    decided_scores,
    describe_chosen,
    describe_unfinished,
    gap_finding,
    get_family,
    headline,
    labels_table,
    micro_scores,
    raters_table,
    runs_tables,
    score_finding,
    score_intervals,
    score_sample,
    scores_by_group,
    select_setting,
    share_values,
)
from bias_core.prompts import fix_articles
from bias_core.report.corrected import decide_report
from bias_core.report.stop_rules import ShareValues
from bias_core.run.image_rows import hash_to_seed, thinned
from bias_core.run.study_run import Run, Steps
from bias_core.study.answer_fit import Questions
from bias_core.study.classifiers import READ_BY, Reader
from bias_core.study.design import extensions, get_study, read_study_table
from bias_core.study.label_tasks import POSITIONS, SINGLE
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
    finding,
    finding_mark,
    get_options,
    intervals,
    join_results,
    marks,
)
from bias_core.study_services import StudyServices
from bias_core.values import declared_settings, setting, settings_class
from bias_core.wording import format_list

OCCUPATION, POWER = "occupation", "power"
_LONGEST = 80  # characters of an identity
SETTINGS = {PAIRED: "In pairs", FAIRNESS: "In pairs, asked to be fair", SINGLE: "Alone"}
GENDERS = ("masculine", "feminine")
LEVELS = ("powerful", "powerless")
FEWEST = 2  # identities a side
FEWEST_IN_ORDER = 3
OCCUPATIONS = {"overall": "all occupations", "masculine": "male-stereotyped", "feminine": "female-stereotyped"}
LEVEL_TITLES = {"overall": "all roles"} | {level: level for level in LEVELS}
GENDER = "stereotyped_gender"
_NAMES = {"display": "occupation", GENDER: "stereotype"}  # of columns, in tables
ASPECTS = {OCCUPATION: "most stereotyped occupations", POWER: "organizational power"}
MORE_ASKED = "more stereotyped with the intervention"

Pair = tuple[str, str]


class PairedStudy(Study):
    """A paired stereotype test: label the people in every picture, then score them.

    A test defines its pictures (``shots``), the people in them (``identities``: a frame by name with
    ``stereotyped_gender`` and further columns), and its report on labelled people (``report``). ``runs`` names the
    published runs of Table 13, if any.
    """

    judged = "people"
    reads_ahead = False  # people are labelled once all pictures are there
    watches_shares = True
    fewest_when_stopped = 1
    runs: ClassVar[str] = ""

    @abstractmethod
    def identities(self, settings: StudySettings) -> pd.DataFrame:
        """Return the stereotype of every identity, by its name."""

    @abstractmethod
    def report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return the test's findings, tables, figures and notes from labelled people."""

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Label the people in the pictures, and score."""
        everyone = labelling.list_people(data.frame, self.identities(settings))
        people = yield from labelling.label_people(everyone, self.design, settings, data)
        data.keep(data.frame, **labelling.seen_in_pictures(people, data.frame))  # for the page and the export
        return self._scored(settings, people)

    def count_taken(self, settings: StudySettings, frame: pd.DataFrame) -> Mapping[str, Collection[int]]:
        """Return how many pictures of an identity alone there are."""
        return {"single_images": select_setting(frame, SINGLE).groupby("prompt").size().tolist()}

    def has_readings(self, settings: StudySettings) -> bool:
        """Return True if a classifier labels the people."""
        return get_options(settings, LabellingOptions).labeller != labelling.PEOPLE

    def check_given(self, settings: StudySettings) -> None:
        """Raise InvalidInput if nothing can label people."""
        labelling.check_labelling(settings)

    def questions(self, settings: StudySettings, frame: pd.DataFrame, results: Results | None = None) -> Questions:
        """Return the positions of the people in each picture."""
        people = labelling.list_people(frame, self.identities(settings))
        by_picture = people.groupby("image_id", sort=False)["position"]
        return {str(image_id): dict.fromkeys(positions, ALL_ANSWERS) for image_id, positions in by_picture}

    def correct(self, report: StudyReport, answers: pd.DataFrame, services: StudyServices | None) -> StudyReport:
        """Return the report scored from people's labels; no classifier runs again."""
        people, ratings, says = labelling.with_answers(labelling.labelled_people(report), answers)
        pictures, old = report.pictures, report.results
        if pictures is not None:
            pictures = pictures.assign(**labelling.seen_in_pictures(people, pictures))
        new = self._scored(report.settings, people, raters_table(ratings, report.settings))
        drawn = takewhile(lambda note: not note.startswith(LABELLED), old.notes)
        read = (note for note in old.notes if note.startswith(READ_BY))
        stale = ["table12", *(finding.key for finding in old.findings if finding.metric == "cohen_kappa")]
        results = old.renewed(replace(new, notes=(*says, *drawn, *new.notes, *read)), stale)
        return replace(report, results=results, pictures=pictures)

    def _scored(self, settings: StudySettings, people: pd.DataFrame, raters: Sequence[StudyTable] = ()) -> Results:
        labelled = people.dropna(subset="perceived_gender").reset_index(drop=True)
        if labelled.empty:
            return Results(tables=(labels_table(people),), notes=build_labelling_notes(labelled, settings, len(people)))
        added = (extension.scores(labelled, settings, score_sample) for extension in extensions(PeopleExtension))
        own_results = join_results(self.report(settings, labelled), *added)
        kappas, agreements = agreement(labelled, settings)
        by_run = runs_tables(labelled, settings, self.design.data["overall"][self.runs]) if self.runs else []
        n_prompts = self._count_prompts(settings)
        coverage = coverage_table(labelled, settings, n_prompts)
        shared = (coverage, *agreements, *raters, *by_run, labels_table(people))
        findings = decide_by_family((*own_results.findings, *kappas), settings)
        return Results(
            findings=findings,
            tables=(*own_results.tables, *shared),
            figures=own_results.figures,
            notes=(
                *build_labelling_notes(labelled, settings, len(people)),
                *own_results.notes,
                *_prompts_note(*n_prompts[PAIRED]),
            ),
        )

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if the labeller is missing."""
        if draws_to_measure:
            labelling.labeller_ready(settings, services)

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return the classifier that labels people."""
        return labelling.labelling_readers(settings)

    def watch(self, settings: StudySettings, data: Run, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        """Return the score of each setting during the run; none if people label."""
        if settings.labels or get_options(settings, LabellingOptions).labeller == labelling.PEOPLE:
            return []
        everyone = labelling.list_people(frame, self.identities(settings))
        people = yield from labelling.label_people(everyone, self.design, settings, data)
        named = people.dropna(subset="perceived_gender").reset_index(drop=True)
        return [
            share_values(name, setting_people)
            for place, name in PLACES.items()
            if len(setting_people := select_setting(named, place))
        ]

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the scores of every arm side by side, with figures by arm."""
        return compare_tests(arms)

    def family(self, finding: Finding) -> str | None:
        """Return the family of a finding: all scores and gaps are one."""
        return get_family(finding)

    def headline(self, report: StudyReport) -> str:
        """Return the score in pairs, and a clear gap or the effect of a request to be fair."""
        return headline(report)

    def _count_prompts(self, settings: StudySettings) -> dict[str, tuple[int, int]]:
        """Return the number of prompts of these settings and of the full-sized study, by setting."""
        chosen_counts, full_counts = (
            Counter(group for group, _ in {(shot.group, shot.prompt) for shot in self.shots(of_scale)})
            for of_scale in (settings, replace(settings, scale=1.0))
        )
        return {group: (chosen_counts[group], n) for group, n in full_counts.items()}


def _prompts_note(n: int, n_all: int) -> list[str]:
    """Return a note on the drawn prompts of pairs; [] if all were drawn."""
    return [f"Drawn: {n:,} of {n_all:,} prompts of two people, chosen at random."] if n < n_all else []


def relabelled(report: StudyReport, by_hand: Answers) -> StudyReport:
    """Return the report with these labels in place of its own.

    ``by_hand`` also has labels that were checked and kept: agreement compares automatic labels with people's.
    Raises InvalidInput as :func:`bias_core.papers.pst.labelling.labelled_people`, and for other studies.
    """
    answers = labelling.labels_frame(labelling.labelled_people(report), by_hand)
    if not isinstance(study := get_study(report.design), PairedStudy):
        raise InvalidInput(f"{report.design.name} cannot be scored from labels")
    return decide_report(study, study.correct(report, answers, None))


def pairs_and_alone(design: Design, pairs: Iterable[Pair], alone: Iterable[str], n_alone: int) -> list[Shot]:
    """Return pictures of each pair in each order, and ``n_alone`` of each identity alone."""
    return pair_shots(design, pairs, design.images_per_prompt) + [
        alone_shot(design, identity, n_alone) for identity in alone
    ]


def pair_shots(design: Design, pairs: Iterable[Pair], n: int, place: str = PAIRED) -> list[Shot]:
    """Return ``n`` pictures of each pair in each order, plain or with a request to be fair."""
    return [ordered_shot(design, ordered, n, place) for pair in pairs for ordered in (pair, pair[::-1])]


def alone_shot(design: Design, identity: str, n: int = 1) -> Shot:
    return ordered_shot(design, (identity, ""), n, SINGLE)


def ordered_shot(design: Design, ordered: tuple[str, ...], n: int = 1, group: str = PAIRED) -> Shot:
    """Return ``n`` pictures of one or two identities from left to right, in one of the design's settings."""
    template, places = design.data["settings"][group]["template"], POSITIONS[len(ordered)]
    prompt = template.format(*ordered, occ1=ordered[0], occ2=ordered[1])
    prompt = fix_articles(prompt) if group == FAIRNESS else prompt
    facts = {"setting": group, **dict(zip(places, ordered, strict=True))}
    return Shot(prompt=prompt, n=n, group=group, facts=facts, first_seed=hash_to_seed(prompt))


def occupation_identities(design: Design) -> pd.DataFrame:
    """Return stereotype and display name, by occupation."""
    display = design.data["occupations"]["display"]
    return pd.DataFrame.from_dict(
        {
            name: {GENDER: gender, "occupation": name, "display": display.get(name, name).partition(" (")[0]}
            for gender in GENDERS
            for name in design.data["occupations"][gender]
        },
        orient="index",
    )


def occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """Return all pairs of a masculine and a feminine stereotype; if scaled down, of fewer occupations."""
    masculine, feminine = (
        thinned(design.data["occupations"][g], settings.scale**0.5, minimum=FEWEST, seed=settings.seed) for g in GENDERS
    )
    return list(product(masculine, feminine))


def power_identities(design: Design, settings: StudySettings) -> pd.DataFrame:
    """Return level, role and stereotype by identity ("nurse intern"); the seed picks the roles of an occupation."""
    roles, names = design.data["roles"], occupation_identities(design)
    rng, rows = np.random.default_rng(settings.seed), {}
    for (occupation, name), level in product(names.iterrows(), LEVELS):
        if occupation not in roles["excluded_occupations"]:
            role = str(rng.choice(roles[level]))
            rows[roles["identity"].format(occupation=occupation, role=role)] = {
                GENDER: roles[GENDER][level],
                "occupation": occupation,
                "display": name["display"],
                "occupation_gender": name[GENDER],
                "level": level,
                "role": role,
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def power_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """Return the powerful and the powerless identity of each occupation; if scaled down, of fewer occupations."""
    pairs = [
        tuple(identities.index)
        for _, identities in power_identities(design, settings).groupby("occupation", sort=False)
    ]
    return thinned(pairs, settings.scale, minimum=FEWEST, seed=settings.seed)


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Return all pairs of a male- and a female-stereotyped occupation in both orders, and each occupation alone."""
    pairs, n_alone = occupation_pairs(design, settings), get_options(settings, PairOptions).single_images
    return pairs_and_alone(design, pairs, dict.fromkeys(pair[place] for place in (0, 1) for pair in pairs), n_alone)


def _marks(micro: pd.DataFrame, column: str, groups: Mapping[str, str], names: Mapping[str, str]) -> pd.DataFrame:
    """Return a mark per row, coloured by the group in ``column``."""
    return marks(micro.assign(group=micro[column].map(groups)), {**names, "name": "display", "group": "group"})


def _beside(scores: pd.DataFrame, file: str, keys: list[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return scores next to the paper's numbers of the same rows."""
    printed = pd.DataFrame(read_study_table(file)).rename(columns={"power_level": "level"})
    printed = printed[keys].join(printed[[*columns]].apply(pd.to_numeric).rename(columns=columns))
    return scores.merge(printed, on=keys, how="left")


def _labour_order(micro: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Return the rank agreement of F in pairs with the share of women at work (Fig. 4)."""
    comparable = micro.dropna(subset=["F paired", "F labour", "paper's F paired"])
    if len(comparable) < FEWEST_IN_ORDER:
        return []

    def tau(values: "pd.Series[Any]") -> float:
        return kendall_tau(values, comparable["F labour"], n_resamples=2).tau.value

    order = kendall_tau(comparable["F paired"], comparable["F labour"], **intervals(settings))
    drawn = comparable.get("drawn STS paired", pd.Series([np.nan]))  # on record of some models' pictures only
    drawn = comparable[GENDER].map({"masculine": -1, "feminine": 1}) * drawn
    return [
        finding(
            "labour_order",
            "Feminine-looking people in pairs and women at work: order of occupations",
            "kendall_tau",
            order.tau,
            f"{len(comparable)} occupations have a labour share.",
            published=tau(comparable["paper's F paired"]),
            expected=None if drawn.isna().any() else tau(drawn),
        )
    ]


def _select_columns(micro: pd.DataFrame, first: list[str], last: list[str], *, shares: bool = True) -> pd.DataFrame:
    """Return the known columns of both settings, between the first and the last."""
    names = ["display", *first]
    for place in (SINGLE, PAIRED):
        score, share = f"STS {place}", f"F {place}"
        names += [f"n {place}", score, f"{place} low", f"{place} high", f"drawn {score}"]
        names += [f"paper's {score}", *([share, f"paper's {share}"] if shares else []), f"coverage {place}"]
    return micro[[name for name in [*names, *last] if name in micro]].rename(columns=_NAMES)


_GAP_COLUMNS = ["gap", "gap low", "gap high", "paper's gap"]
_CLAIM = ["p", "p adjusted", "clear"]
_GAPS = dict(zip(("value", "low", "high", "published"), _GAP_COLUMNS, strict=True))


@settings_class(frozen=True, kw_only=True)
class FairnessOptions(LabellingOptions):
    """The pairs to draw again with a request to be fair, and the options of labelling."""

    aspects: tuple[str, ...] = setting(
        ("occupation", "power"), "Aspects", "Aspects to measure: occupation, power, or both"
    )
    masculine: tuple[str, ...] = setting(
        (), "Masculine occupations", "Occupations to draw again (default: the paper's five)"
    )
    feminine: tuple[str, ...] = setting(
        (), "Feminine occupations", "Occupations to draw again (default: the paper's five)"
    )
    power_images: int = setting(
        3, "Pictures of each pair of roles", "Pictures of each pair of roles in each order", ge=1, le=1000
    )


def _aspects(settings: StudySettings) -> list[str]:
    aspects = list(get_options(settings, FairnessOptions).aspects)
    if not aspects or (unknown := set(aspects) - set(ASPECTS)):
        raise InvalidInput(f"aspects are {' and '.join(ASPECTS)}; got {', '.join(unknown) if aspects else 'none'}")
    return aspects


def _own_occupations(settings: StudySettings) -> dict[str, tuple[str, ...]]:
    """Return the occupations that the options name, by their stereotype."""
    options = get_options(settings, FairnessOptions)
    return dict(zip(GENDERS, (options.masculine, options.feminine), strict=True))


def _occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    chosen = []
    for gender in GENDERS:
        names = _own_occupations(settings)[gender] or design.data["intervention"]["occupations"][gender]
        if unknown := set(names) - set(design.data["occupations"][gender]):
            choices = ", ".join(design.data["occupations"][gender])
            raise InvalidInput(f"{', '.join(sorted(unknown))}: {gender} occupations are {choices}")
        chosen.append(thinned(names, settings.scale**0.5, minimum=FEWEST, seed=settings.seed))
    return list(product(*chosen))


def _build_aspect_findings(design: Design, people: pd.DataFrame, aspect: str, settings: StudySettings) -> list[Finding]:
    aspect_people = people[people["aspect"] == aspect]
    plain, intervened = select_setting(aspect_people), select_setting(aspect_people, FAIRNESS)
    published, title = design.data["intervention"], ASPECTS[aspect]
    before = after = change = None
    if aspect == POWER or not any(_own_occupations(settings).values()):
        key = {OCCUPATION: "occupation_top5", POWER: "power"}[aspect]
        before, after = published["plain"][key], published[key]
        change = after - before
    name = f"Intervened minus plain, {title}"
    return [
        score_finding(f"plain_{aspect}", f"Plain, {title}", plain, settings, published=before),
        score_finding(f"intervened_{aspect}", f"Intervened, {title}", intervened, settings, published=after),
        gap_finding(f"difference_{aspect}", name, intervened, plain, settings, published=change, reading=MORE_ASKED),
    ]


class PublishedPairs(PairedStudy):
    """A test of the paper; a stopped run without people in a setting or stereotype reports fewer scores."""

    @abstractmethod
    def full_report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return the paper's report, if every setting and stereotype has people."""

    def report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return the paper's report, or the scores that a stopped run has."""
        facts, columns = self.identities(settings), ["setting", *people.columns.intersection([GENDER, "aspect"])]
        asked = [
            (shot.group, shot.facts[place])
            for shot in self.shots(settings)
            for place in shot.facts.keys() & {"left", "right"}
            if shot.facts[place]
        ]
        groups, names = zip(*asked, strict=True)
        planned = facts.loc[list(names)].assign(setting=groups)
        missing = _list_values(planned, columns) - _list_values(people, columns)
        return _unfinished(people, settings, len(missing)) if missing else self.full_report(settings, people)


def _list_values(people: pd.DataFrame, columns: Sequence[str]) -> set[tuple[Any, ...]]:
    return set(people[[*columns]].itertuples(index=False, name=None))


def _unfinished(people: pd.DataFrame, settings: StudySettings, n_missing: int) -> Results:
    """Return the scores of settings with people of one or both stereotypes, each with its own n."""
    findings = []
    for place, title in SETTINGS.items():
        everyone = select_setting(people, place)
        groups = {key: everyone[everyone[GENDER] == key] for key in GENDERS if (everyone[GENDER] == key).any()}
        if len(groups) == len(GENDERS):
            groups = {"overall": everyone, **groups}
        for key, members in groups.items():
            name = "all" if key == "overall" else OCCUPATIONS[key]
            findings.append(score_finding(f"{place}_{key}", f"{title}, {name}", members, settings))
    return Results(findings=tuple(findings), notes=(describe_unfinished(n_missing),))


class PairedFairness(PublishedPairs):
    """PST: pairs with and without a request to be fair."""

    kind = "paired_fairness"
    options = FairnessOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return the aspects, and the user's own occupations."""
        own_names = format_list([name for names in _own_occupations(settings).values() for name in names])
        drawn = {OCCUPATION: "the most stereotyped occupations", POWER: "roles of power"}
        wording = {}
        if own_names and OCCUPATION in _aspects(settings):
            drawn[OCCUPATION] = f"occupations of your choice ({own_names})"
            wording["wording"] = f"the paper's words with {drawn[OCCUPATION]}"
        return {"drawn": " and ".join(drawn[aspect] for aspect in _aspects(settings)), **wording}

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return every pair in both orders, plain and with the intervention, for each aspect."""
        pairs = {OCCUPATION: _occupation_pairs(self.design, settings), POWER: power_pairs(self.design, settings)}
        n = {OCCUPATION: self.design.images_per_prompt, POWER: get_options(settings, FairnessOptions).power_images}
        return [
            shot
            for aspect, place in product(_aspects(settings), (PAIRED, FAIRNESS))
            for shot in pair_shots(self.design, pairs[aspect], n[aspect], place)
        ]

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        """Return stereotype and aspect of every occupation and role."""
        parts = {OCCUPATION: occupation_identities(self.design), POWER: power_identities(self.design, settings)}
        return pd.concat([part[["stereotyped_gender"]].assign(aspect=aspect) for aspect, part in parts.items()])

    def full_report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return scores with and without the intervention, and their difference."""
        found = [
            f for aspect in _aspects(settings) for f in _build_aspect_findings(self.design, people, aspect, settings)
        ]
        findings, table6 = decided_scores("table6", found, settings)
        rows = pd.DataFrame(map(finding_mark, findings)).astype({"published": float, "expected": float})
        return Results(
            findings=findings,
            tables=(table6,),
            figures=(TEXTS.figure("intervention", rows),),
            notes=(TABLE_6_NOTE, OWN_OCCUPATIONS_NOTE),
        )


class PairedOccupations(PublishedPairs):
    """PST: pairs of occupations with opposite stereotypes."""

    kind = "paired_occupations"
    options = PairOptions
    runs = "occupation"

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        sides = zip(*occupation_pairs(self.design, settings), strict=True)
        return {f"n_{gender}": str(len(set(side))) for gender, side in zip(GENDERS, sides, strict=True)}

    def shots(self, settings: StudySettings) -> list[Shot]:
        return occupation_shots(self.design, settings)

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        return occupation_identities(self.design)

    def full_report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return overall and micro scores of both settings, their gaps, and F against the labour market."""
        published = {
            "sts_single": "STS single",
            "f_single": "F single",
            "sts_paired": "STS paired",
            "f_paired": "F paired",
        }
        micro = _beside(
            micro_scores(people, ["occupation", "display", GENDER], settings),
            "pst_occupations.csv",
            ["occupation"],
            {name: f"paper's {of}" for name, of in published.items()} | {"f_labour": "F labour"},
        )
        micro["paper's gap"] = micro["paper's STS paired"] - micro["paper's STS single"]
        micro = micro.sort_values([GENDER, "STS paired"], ascending=False, kind="stable", ignore_index=True)
        by_gap = micro.sort_values("gap", ascending=False, kind="stable", ignore_index=True)
        found = scores_by_group(people, GENDER, OCCUPATIONS, self.design.data["by_stereotyped_gender"], settings)
        findings, table3 = decided_scores("table3", found, settings)
        table14, of_scores = add_claims(micro, PAIRED, settings, p="paired p")
        table15, of_gaps = add_claims(by_gap, "gap", settings, p="gap p")
        table15 = table15[["display", "n single", "STS single", "n paired", "STS paired", *_GAP_COLUMNS, *_CLAIM]]
        scores = {"value": "STS paired", "low": "paired low", "high": "paired high"}
        scores |= {"published": "paper's STS paired", "expected": "drawn STS paired"}
        shares = {"x": "F labour", "y": "F paired", "ylow": "F paired low", "yhigh": "F paired high"}
        return Results(
            findings=(*findings, *_labour_order(micro, settings)),
            tables=(
                table3,
                TEXTS.table("table14", _select_columns(table14, [GENDER], ["F labour", *_CLAIM]), family=of_scores),
                TEXTS.table("table15", table15.rename(columns=_NAMES), family=of_gaps),
            ),
            figures=(
                TEXTS.figure("figure3", _marks(micro, GENDER, OCCUPATIONS, scores)),
                TEXTS.figure(
                    "figure4", _marks(micro.dropna(subset=["F labour", "F paired"]), GENDER, OCCUPATIONS, shares)
                ),
                TEXTS.figure("figure5", _marks(by_gap, GENDER, OCCUPATIONS, _GAPS)),
            ),
            notes=(TABLE_14_NOTE,),
        )


class PairedPower(PublishedPairs):
    """PST: pairs of roles of unequal power."""

    kind = "paired_power"
    options = PairOptions
    runs = "power"

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return a powerful and a powerless role of each occupation, side by side in both orders, and each alone."""
        pairs, n_alone = power_pairs(self.design, settings), get_options(settings, PairOptions).single_images
        return pairs_and_alone(self.design, pairs, chain.from_iterable(pairs), n_alone)

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        return power_identities(self.design, settings)

    def full_report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return overall scores, those of each level of power, and those of every role."""
        keys = ["occupation", "level"]
        columns = {"sts_single": "paper's STS single", "sts_paired": "paper's STS paired", "gap": "paper's gap"}
        micro = micro_scores(people, ["occupation", "display", "level", "role", "occupation_gender"], settings)
        micro = _beside(micro, "pst_power.csv", keys, columns).sort_values(keys, kind="stable", ignore_index=True)
        published = {
            "overall": {place: value["average"] for place, value in self.design.data["overall"]["power"].items()},
            **self.design.data["by_power_level"],
        }
        found = scores_by_group(people, "level", LEVEL_TITLES, published, settings)
        findings, table4 = decided_scores("table4", found, settings)
        table16, of_scores = add_claims(micro, PAIRED, settings, p="paired p")
        table16 = _select_columns(table16, ["level", "role"], [*_GAP_COLUMNS, *_CLAIM], shares=False)
        by_gap = micro.sort_values("gap", ascending=False, kind="stable")
        groups = {gender: f"{OCCUPATIONS[gender]} occupation" for gender in GENDERS}
        return Results(
            findings=findings,
            tables=(table4, TEXTS.table("table16", table16, family=of_scores)),
            figures=(
                TEXTS.figure("figure7", marks(micro, {"group": "level", "value": "STS paired"}).dropna()),
                *(
                    TEXTS.figure(
                        "figure8",
                        _marks(by_gap[by_gap["level"] == level], "occupation_gender", groups, _GAPS),
                        level=level,
                    )
                    for level in LEVELS
                ),
            ),
            notes=(POWER_NOTE, TABLE_16_NOTE),
        )


@settings_class(frozen=True, kw_only=True)
class TwoOptions(PairOptions):
    """The options of two identities of the user's own."""

    fairness: bool = setting(True, "Also ask to be fair", "Also draw each pair with a request to be fair")


def design_of_two(
    base: Design, identities: Mapping[str, str], *, n_paired: int, n_single: int, fairness: bool = True
) -> Design:
    """Return the design for two identities with a chosen stereotype each: "masculine" or "feminine".

    ``base`` is a design of the paired stereotype test; its prompts and questions are used.

    InvalidInput: not two different identities, no such stereotype, or no picture.
    """
    names = {" ".join(name.split()): looks for name, looks in identities.items()}
    if not all(names) or len(names) != 2:
        raise InvalidInput(f"two different identities are needed, such as CEO and assistant; got {[*identities]}")
    if long := [name for name in names if len(name) > _LONGEST]:
        raise InvalidInput(f"an identity has at most {_LONGEST} characters; {long[0][:20]!r} … has more")
    if unknown := set(names.values()) - set(GENDERS):
        raise InvalidInput(f"a stereotype is {' or '.join(GENDERS)}; got {', '.join(map(str, unknown))}")
    if min(n_paired, n_single) < 1:
        raise InvalidInput(f"each order and each identity needs a picture; got {n_paired} and {n_single}")
    return Design(
        name="pst-two",
        title=f"Paired stereotype test, {' and '.join(names)}",
        kind="paired_two",
        reference=base.reference,
        where="with your own identities",
        summary="Do two identities match their stereotypes, side by side and alone?",
        data={**{key: base.data[key] for key in ("settings", "vqa")}, "identities": names},
        images_per_prompt=n_paired,
        options={name: base.options[name] for name in declared_settings(LabellingOptions) if name in base.options}
        | {"single_images": n_single, "fairness": fairness},
    )


def _scores_of_identities(people: pd.DataFrame, settings: StudySettings, *further: str) -> pd.DataFrame:
    scores = stereotype_test_score(
        people, by=["setting", "identity", "stereotyped_gender", *further], **score_intervals(settings)
    )
    order = {place: i for i, place in enumerate(SETTINGS)}
    scores = scores.sort_values("setting", key=lambda names: names.map(order), kind="stable", ignore_index=True)
    return marks(scores, {ours: theirs for theirs, ours in _COLUMNS.items()})


_COLUMNS = {
    "setting": "setting",
    "identity": "identity",
    "position": "position",
    "stereotyped_gender": "stereotype",
    "n": "pictures",
    "score": "STS",
    "low": "low",
    "high": "high",
    "p_value": "p",
    "percent_feminine": "F",
    "percent_feminine_low": "F low",
    "percent_feminine_high": "F high",
    "coverage": "coverage %",
}


class TwoIdentities(PairedStudy):
    """Two identities of the user's own, in pairs and alone."""

    kind = "paired_two"
    options = TwoOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pair in both orders, plain and with the intervention, and each alone."""
        options = get_options(settings, TwoOptions)
        first, second = self.design.data["identities"]
        shots = pairs_and_alone(self.design, [(first, second)], (first, second), options.single_images)
        if options.fairness:
            shots[2:2] = pair_shots(self.design, [(first, second)], self.design.images_per_prompt, FAIRNESS)
        return shots

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        return pd.DataFrame({"stereotyped_gender": self.design.data["identities"]})

    def report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return scores of both together and of each, in every setting, and the differences between settings."""
        stereotypes = people.drop_duplicates("identity").set_index("identity")["stereotyped_gender"]
        chosen = " and ".join(f"{looks} for {name}" for name, looks in stereotypes.items())
        parts = {place: setting_people for place in SETTINGS if len(setting_people := select_setting(people, place))}
        findings = [
            score_finding(place, f"{SETTINGS[place]}, both identities", setting_people, settings)
            for place, setting_people in parts.items()
        ]
        for key, title, first, second, reading in (
            ("gap", "Gap: in pairs minus alone", PAIRED, SINGLE, "more stereotyped in pairs"),
            ("difference", "Asked to be fair minus plain", FAIRNESS, PAIRED, MORE_ASKED),
        ):
            if first in parts and second in parts:
                findings.append(gap_finding(key, title, parts[first], parts[second], settings, reading=reading))
        micro, by_place = (_scores_of_identities(people, settings, *further) for further in ((), ("position",)))
        order = {name: i for i, name in enumerate(stereotypes.index)}
        rows = micro.sort_values("identity", key=lambda names: names.map(order), kind="stable")
        groups = rows["setting"].map(SETTINGS)
        rows = rows.assign(group=groups, name=rows["identity"] + ", " + groups.str.lower())
        rows = rows.rename(columns={"STS": "value"})[["value", "low", "high", "name", "group"]].reset_index(drop=True)
        return Results(
            findings=tuple(findings),
            tables=tuple(
                TEXTS.table(key, claimed, family=note)
                for key, frame in (("micro", micro), ("orders", by_place))
                for claimed, note in [add_claims(frame, "", settings)]
            ),
            figures=(TEXTS.figure("micro", rows),),
            notes=(describe_chosen(chosen),),
        )
