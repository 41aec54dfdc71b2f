"""Tests of StOP's headlines: does the first text of a cluster name what its pictures share?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.clustering import spectral_clusters
from bias_core.measures.intervals import exact_interval
from bias_core.papers.oasis.prompt_search import optimise_prompts
from bias_core.papers.oasis.study_stop import PromptSearchOptions, decide_texts, search_arguments
from bias_core.protocols import ImageTextEncoder, LanguageModel, StepCallback
from bias_core.report.headlines import CONTRAST, NATURAL, ONE, RANDOM, TWO
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run
from bias_core.study.design import find_design, typed_options
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Finding, Results, Shot, StudySettings, finding, get_options, intervals, mark
from bias_core.types import Estimate
from bias_core.values import Options, setting, settings_class
from validation.repetitions import LADDER, POOL, SEEDS, pool_of, pools
from validation.verdicts import TEXTS, named

SEARCH = "oasis-stop"  # the search has this study's options
_VARIANTS: Mapping[str, dict[str, Any]] = {CONTRAST: {}, "as in the paper": {"contrast": False, "prior_weight": 0.0}}
_CONDITIONS = LADDER[:2]  # between them, every planted attribute is present in some pictures and absent in others
_Row = dict[str, Any]


@settings_class(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """Options of the clusters whose texts are searched."""

    clusters: int = setting(12, "Clusters", "Clusters of every kind, per concept and attribute", ge=1, le=1000)
    pictures: int = setting(30, "Pictures in a cluster", "Twice as many are outside", ge=4, le=1000)
    sharing: float = setting(0.8, "Share with the attribute", "Inside a cluster; outside: 1 minus this", ge=0.5, le=1)
    drawn: int = setting(
        200, "Pictures of a concept", "Pictures to find natural clusters and random halves in", ge=8, le=10_000
    )
    more_often: float = setting(
        0.25,
        "Share above the others'",
        "Least share above that of the others for an attribute to mark a natural cluster",
        gt=0,
        le=1,
    )
    seeds: int = setting(3, *SEEDS, ge=1, le=100)


def planted_cluster(
    cells: Sequence[np.ndarray], shares: Sequence[Sequence[float]], size: int, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the indices of a cluster's pictures and of twice as many others; None if a cell has too few.

    ``cells``: pictures of each kind, without any in common; ``shares``: of each kind, inside and outside.
    """
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    counts = np.array([[round(share * n) for share in of] for of, n in zip(shares, (size, 2 * size), strict=True)])
    counts[:, -1] += (size, 2 * size) - counts.sum(axis=1)  # rounding
    for cell, (n_inside, n_outside) in zip(cells, counts.T, strict=True):
        if len(cell) < n_inside + n_outside:
            return None
        order = draw.permutation(cell)
        parts[0].append(order[:n_inside])
        parts[1].append(order[n_inside : n_inside + n_outside])
    return np.concatenate(parts[0]), np.concatenate(parts[1])


class _Cluster(NamedTuple):
    """Indices of a cluster's pictures and of the others; ``names`` are the attributes that a text should name."""

    kind: str
    names: tuple[str, ...]
    inside: np.ndarray
    outside: np.ndarray


def _planted(
    names: Sequence[str],
    at: np.ndarray,
    shows: Mapping[str, np.ndarray],
    options: ClusterOptions,
    draw: np.random.Generator,
) -> Iterator[_Cluster | None]:
    """Yield a cluster that shares each attribute, and for each two one of which half shares either."""
    for some in (*((name,) for name in names), *combinations(names, 2)):
        seen = np.array([shows[name][at] for name in some])
        cells = [*(at[one & (seen.sum(axis=0) == 1)] for one in seen), at[~seen.any(axis=0)]]
        shares = [[of / len(some)] * len(some) + [1 - of] for of in (options.sharing, 1 - options.sharing)]
        parts = planted_cluster(cells, shares, options.pictures, draw)
        yield parts and _Cluster(ONE if len(some) == 1 else TWO, some, *parts)


def _natural(
    at: np.ndarray,
    rows: np.ndarray,
    shows: Mapping[str, np.ndarray],
    options: ClusterOptions,
    search: PromptSearchOptions,
    seed: int,
) -> Iterator[_Cluster]:
    """Yield the largest clusters that the study finds in these pictures."""
    labels = spectral_clusters(rows[at], n_clusters=search.n_clusters, seed=seed).labels
    for number in range(search.max_clusters):
        inside, outside = at[labels == number], at[labels != number]
        apart = [name for name, one in shows.items() if one[inside].mean() - one[outside].mean() >= options.more_often]
        yield _Cluster(NATURAL, tuple(apart), inside, outside)


class _Remembering:
    """Encoder and language model with a cache of texts: searches of many clusters try the same ones."""

    def __init__(self, encoder: ImageTextEncoder, model: LanguageModel) -> None:
        self.name, self.encode_images = encoder.name, encoder.encode_images
        self.propose, self.complete = model.propose, model.complete
        self._encoder, self._model = encoder, model
        self._rows, self._logs = dict[str, np.ndarray](), dict[tuple[str, bool], float]()

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows ``(n, d)``."""
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._rows |= zip(new, self._encoder.encode_texts(new), strict=True)
        return np.stack([self._rows[text] for text in texts])

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> np.ndarray:
        """As the language model's, ``(n,)``."""
        new = [text for text in dict.fromkeys(texts) if (text, ends) not in self._logs]
        if new:
            logs = self._model.log_probabilities(new, ends=ends)
            self._logs |= {(text, ends): float(log) for text, log in zip(new, logs, strict=True)}
        return np.array([self._logs[text, ends] for text in texts])


class _Searches:
    """Searches with the options of the study of texts, and how often a cluster's attributes are named."""

    def __init__(self, data: Run, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        self.data, self.attributes = data, attributes
        self.options: PromptSearchOptions = typed_options(find_design(SEARCH), {})
        model = data.services.language_model(self.options.language_model)
        self._lock = data.services.reading(data.encoder(), model)
        self._models = _Remembering(data.encoder(), model)

    def rows(self, cluster: _Cluster, rows: np.ndarray, where: _Row) -> list[_Row]:
        """Return a row for each search of one cluster."""
        words = {word for name in cluster.names for word in self.attributes[name]["words"]}
        settings = self.data.settings
        how = search_arguments(self.options, settings, self.data.services) | intervals(settings)
        lines = []
        for variant, changes in _VARIANTS.items():
            prompts = optimise_prompts(
                rows[cluster.inside], self._models, self._models, other_embeddings=rows[cluster.outside],
                lock=self._lock, on_step=lambda *_: self.data.check(), **how | changes,
            )  # fmt: skip
            texts = [prompt.text.removeprefix(self.options.prefix).strip().lower() for prompt in prompts]
            facts = {
                "search": variant,
                "kind": cluster.kind,
                "attribute": ", ".join(cluster.names),
                "named": bool(words & set(texts[0].split())),
                "specific": decide_texts(prompts, confidence=settings.confidence)[0].verdict == "above",
                "text": texts[0],
                "next": "; ".join(texts[1:]),
            }
            lines.append(where | facts)
        return lines


def _results(table: pd.DataFrame, n_missing: int) -> Results:
    findings, shares = list[Finding](), list[_Row]()
    for (variant, kind), lines in table.groupby(["search", "kind"], sort=False):
        if variant == CONTRAST:
            shares += _marks(str(kind), lines)
        what = "specific" if kind == RANDOM else "named"
        counted = lines if kind == RANDOM else lines[lines["attribute"] != ""]
        n = len(counted)
        share = exact_interval(int(counted[what].sum()), n) if n else Estimate.undefined(0, "there are none")
        title = f"{_TITLES[str(kind)]}, {variant}"
        findings.append(finding(f"{variant} {kind}", title, "mean_similarity", share, TEXTS.note(what)))
    return Results(
        findings=tuple(findings),
        tables=(TEXTS.table("texts", named("texts", table)),),
        figures=(TEXTS.figure("named", shares),),
        notes=(TEXTS.note("clusters"), *([TEXTS.note("too few", n=n_missing)] if n_missing else [])),
    )


def _marks(kind: str, lines: pd.DataFrame) -> Iterator[_Row]:
    what = "specific" if kind == RANDOM else "named"
    for concept, some in lines.groupby("concept", sort=False):
        yield mark(f"{concept}, {kind}", exact_interval(int(some[what].sum()), len(some)), n=len(some), group=kind)


_TITLES = {
    ONE: "Clusters by one attribute whose first text names it",
    TWO: "Clusters of two attributes, half by half, whose first text names one of them",
    NATURAL: "Natural clusters whose first text names one of the attributes that tell them apart",
    RANDOM: "Halves at random whose first text is called specific",
}


class ValidityTexts(Study):
    """The study of the kind ``validity_texts``."""

    kind = "validity_texts"
    options = ClusterOptions
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Pictures of every concept, for clusters, with and without a planted bias."""
        if settings.images:
            raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
        n = scaled(
            self.design.images_per_prompt, settings.scale, minimum=4 * get_options(settings, ClusterOptions).pictures
        )
        return pools(
            settings,
            [
                Shot(prompt=case["prompt"], n=n, group=condition, condition=condition, first_seed=1000 * k)
                for case in self.design.data["cases"]
                for k, condition in enumerate(_CONDITIONS)
            ],
        )

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Search texts for clusters of every kind, in which it is known what they share."""
        rows = yield from data.embed(data.frame)
        options, attributes = get_options(settings, ClusterOptions), self.design.data["attributes"]
        truths = pd.DataFrame(data.truths(data.frame))
        shows = {
            name: truths[one["attribute"]].isin(np.atleast_1d(one["value"]).tolist()).to_numpy()
            for name, one in attributes.items()
        }
        places, n = data.frame.groupby(["prompt", POOL, "group"]).indices, scaled(options.clusters, settings.scale)
        searches = _Searches(data, attributes)

        def work(case: Mapping[str, Any], _: StepCallback) -> list[_Row | None]:
            lines = list[_Row | None]()
            for repetition in range(n):
                chance = np.random.default_rng([settings.seed, repetition, *case["prompt"].encode()])
                pools = [np.asarray(places[case["prompt"], pool_of(settings, repetition), of]) for of in _CONDITIONS]
                drawn = chance.permutation(pools[1])[: options.drawn]
                for cluster in (
                    *_planted(case["attributes"], np.concatenate(pools), shows, options, chance),
                    *_natural(drawn, rows, shows, options, searches.options, settings.seed),
                    _Cluster(RANDOM, (), *np.array_split(drawn, 2)),  # which are in random order
                ):
                    where = {"concept": case["concept"], "repetition": repetition}
                    lines += [None] if cluster is None else searches.rows(cluster, rows, where)
            return lines

        cases = self.design.data["cases"]
        parts = yield from data.map_until_stopped(f"concepts with texts of {n} clusters of each kind", cases, work)
        lines = [line for part in parts for line in part]
        there = pd.DataFrame([line for line in lines if line is not None])
        return _results(there, len(lines) - len(there))
