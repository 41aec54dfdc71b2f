"""Repeated tests of languages: does the study name those with a planted bias, and no others?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bias_core.beyond.languages.comparison import LESS, MORE, LanguageArm, LanguageScore, language_lines
from bias_core.errors import InvalidInput
from bias_core.explore.extension import read_attributes
from bias_core.measures.intervals import exact_interval
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Design, Finding, Results, Shot, StudySettings, finding, get_options, join_results
from bias_core.types import Attribute, Estimate
from bias_core.values import setting, settings_class
from bias_core.world.wordings import Wording, language_names, list_wordings, planted_languages
from validation.repetitions import (
    POOL,
    PoolOptions,
    in_each_repetition,
    ladder,
    places_in_pool,
    pool_of,
    pool_size,
    pools,
)
from validation.verdicts import TEXTS, measured, results_of

PLANTED = "languages"  # the condition that plants a bias in two languages
MEASURE = "prevalence_difference"
_UNDERSTOOD = exact_interval(40, 40, null_value=0.1)  # as the world's prompts all are


@settings_class(frozen=True, kw_only=True)
class LanguageOptions(PoolOptions):
    """Options of the repeated tests of languages."""

    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for the concept")
    concept: str = setting("doctor", "Concept", "Drawn in every language")
    attributes: tuple[str, ...] = setting(("man", "old"), "Attributes", "Attributes to measure; the first is planted")


def _wordings(options: LanguageOptions) -> tuple[Wording, ...]:
    return list_wordings(tuple(language_names()), options.template, options.concept)


def _is_planted(one: Wording) -> bool:
    return one.language in planted_languages()


def _two_conditions(settings: StudySettings) -> tuple[str, str]:
    conditions = ladder(settings)
    if len(conditions) > 2:
        raise InvalidInput(f"languages need two conditions, without and with a planted bias; got {conditions}")
    return conditions[0], conditions[1]


def language_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A pool of pictures of each language, all on the same seeds, without a bias and, for two languages, with one."""
    nothing, planted = _two_conditions(settings)
    n = pool_size(design, settings)
    wordings = _wordings(get_options(settings, LanguageOptions))
    cells = [(one, nothing, nothing) for one in wordings]
    cells += [(one, planted, PLANTED) for one in wordings if _is_planted(one)]
    return pools(
        settings,
        [
            Shot(prompt=one.prompt, n=n, group=group, condition=condition, facts={"wording": one.name})
            for one, group, condition in cells
        ],
    )


def _language_table(
    options: LanguageOptions, attributes: Sequence[Attribute], margins: Mapping[str, np.ndarray], confidence: float
) -> pd.DataFrame:
    """The study's own table of languages, with a flag for a bias planted in any condition."""
    english, *others = _wordings(options)
    scored = {
        name: LanguageArm(
            scores=[
                LanguageScore(attribute=a.name, margins=m, prevalence=float((m > 0).mean()))
                for a, m in zip(attributes, of.T, strict=True)
            ],
            recognised=_UNDERSTOOD,
        )
        for name, of in margins.items()
    }
    places = np.arange(len(margins[english.name]))
    pairs = {one.name: (scored[english.name], scored[one.name], places, places) for one in others}
    table, _ = language_lines(others, pairs, confidence)
    names = {one.language_name for one in others if _is_planted(one)}
    of_first = table["attribute"] == attributes[0].name
    return table.assign(**{"is planted": table["language"].isin(names) & of_first})


def _measurements(
    table: pd.DataFrame, pool: Mapping[str, np.ndarray], where: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Each planted language by itself, and a flag that any language is named."""
    english, *others = pool
    shares = {name: float((pool[name][:, 0] > 0).mean()) for name in pool}
    targets = dict(zip((name.partition(" (")[0] for name in others), others, strict=True))
    some = table[table["is planted"]]
    for line in some.to_dict("records"):
        value, low, high = (float(line[name]) for name in ("difference", "low", "high"))
        gap = Estimate(value=value, low=low, high=high, n=int(line["n"]), null_value=0.0)
        target = shares[targets[line["language"]]] - shares[english]
        yield measured(MEASURE, gap, target=target, unit=line["language"], variant="a language by itself", **where)
    mean, n = float(some["difference"].mean()), int(some["n"].min())
    alone = Estimate(value=mean, low=np.nan, high=np.nan, n=n, null_value=0.0)
    any_named = bool(table["verdict"].isin([MORE, LESS]).any())
    yield measured(MEASURE, alone, target=np.nan, variant="any language, after Holm", excluded=any_named, **where)


def _findings(claims: Sequence[tuple[bool, bool]]) -> Iterator[Finding]:
    for key, title, is_so, says in (
        ("both", "Repetitions in which both planted languages are named", [both for both, _ in claims], "95 % or more"),
        ("others", "Repetitions in which another language is named", [other for _, other in claims], "5 % or less"),
    ):
        share = exact_interval(sum(is_so), len(is_so))
        yield finding(key, title, MEASURE, share, f"Should be {says}, after Holm over all languages and attributes.")


class ValidityLanguages(Study):
    """The study of the kind ``validity_languages``."""

    kind = "validity_languages"
    options = LanguageOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures to draw."""
        return language_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Results of every repetition for languages with a planted bias and for all others."""
        options, frame = get_options(settings, LanguageOptions), data.frame.reset_index(drop=True)
        rows = yield from data.embed(frame)
        attributes = read_attributes(options.attributes, options.concept)
        texts = data.texts([text for one in attributes for text in (one.positive, one.negative)])
        margins = rows @ (texts[0::2] - texts[1::2]).T  # (n, n_attributes)
        cells = {key: margins[at] for key, at in frame.groupby([POOL, "group", "wording"], sort=False).indices.items()}
        conditions = _two_conditions(settings)
        pools_of = {
            (k, group): {
                one.name: cells.get((k, group, one.name), cells[k, conditions[0], one.name])
                for one in _wordings(options)
            }
            for k, group in product(range(options.seeds), conditions)
        }
        draws, claims = places_in_pool(self.design, settings, conditions), list[tuple[bool, bool]]()

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            for group, places in draws[repetition].items():
                pool = pools_of[pool_of(settings, repetition), group]
                table = _language_table(
                    options, attributes, {name: of[places] for name, of in pool.items()}, settings.confidence
                )
                where = {"condition": group, "repetition": repetition, "planted": "gender in two languages"}
                yield from _measurements(table, pool, where)
                if group != conditions[0]:
                    named = table["verdict"].isin([MORE, LESS])
                    both, other = named[table["is planted"]].all(), named[~table["is planted"]].any()
                    claims.append((bool(both), bool(other)))

        lines = yield from in_each_repetition(data, work)
        note = TEXTS.note("languages", n=pool_size(self.design, settings))
        results = results_of(pd.DataFrame(lines), settings, notes=(note,))
        return join_results(Results(findings=tuple(_findings(claims))), results)
