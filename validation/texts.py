"""Tests of StOP: do its texts name the planted attribute of a cluster of pictures?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.papers.oasis.prompt_search import optimise_prompts
from bias_core.protocols import ImageTextEncoder, LanguageModel, StepCallback
from bias_core.study.design import find_design, typed_options
from bias_core.study.headlines import CONTRAST
from bias_core.study.image_rows import scaled
from bias_core.study.study import Measuring, Study
from bias_core.study.study_data import StudyData
from bias_core.study.types import Finding, Results, Shot, StudySettings, finding, mark, options_in
from bias_core.values import Options, setting, settings_class
from validation.repetitions import LADDER, POOL, SEEDS, pool_of, pools
from validation.verdicts import TEXTS, named

SEARCH = "oasis-stop"  # the search has this study's options, except those set here
BARE = "as in the paper"
_CONDITIONS = LADDER[:2]  # between them, every planted attribute is present in some pictures and absent in others
_MOST_NAMED = 3  # texts in which the attribute must be named


@settings_class(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """Options of the clusters and of the search for their texts."""

    clusters: int = setting(12, "Clusters", "Clusters per planted attribute, and as many without one", ge=1, le=1000)
    pictures: int = setting(30, "Pictures in a cluster", "Twice as many are outside", ge=4, le=1000)
    sharing: float = setting(0.8, "Share with the attribute", "Inside a cluster; outside: 1 minus this", ge=0.5, le=1)
    seeds: int = setting(3, *SEEDS, ge=1, le=100)
    n_candidates: int = setting(10_000, "Candidates", "Number of next words tried for each text", ge=1, le=10_000)


def _parts(
    at: np.ndarray, shows: np.ndarray, settings: StudySettings, draw: np.random.Generator, *, planted: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Indices of a cluster's pictures and of the others; None if too few pictures have or lack the attribute."""
    options = options_in(settings, ClusterOptions)
    size, share = options.pictures, options.sharing
    if not planted:
        both = draw.permutation(at)[: 3 * size]
        return both[:size], both[size:]
    has, lacks = draw.permutation(at[shows]), draw.permutation(at[~shows])
    n, n_outside = round(share * size), round((1 - share) * 2 * size)
    if len(has) < n + n_outside or len(lacks) < 3 * size - n - n_outside:
        return None
    inside = np.concatenate([has[:n], lacks[: size - n]])
    return inside, np.concatenate([has[n:][:n_outside], lacks[size - n :][: 2 * size - n_outside]])


class _Remembering:
    """Encoder with a cache of texts: searches of many clusters try the same ones."""

    def __init__(self, encoder: ImageTextEncoder) -> None:
        self.name, self.encode_images = encoder.name, encoder.encode_images
        self._encoder, self._rows = encoder, dict[str, np.ndarray]()

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows ``(n, d)``."""
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._rows |= zip(new, self._encoder.encode_texts(new), strict=True)
        return np.stack([self._rows[text] for text in texts])


def _search_options() -> Any:
    return typed_options(find_design(SEARCH), {})


def _searched(
    data: StudyData, inside: np.ndarray, outside: np.ndarray, encoder: _Remembering, model: LanguageModel
) -> Iterator[tuple[str, list[str]]]:
    """Run both searches of one cluster: name of the search, and the best texts without their beginning."""
    options = _search_options()
    search = partial(
        optimise_prompts,
        *(inside, encoder, model),
        **{name: getattr(options, name) for name in ("prefix", "n_tokens", "beam_width", "held_out")},
        n_candidates=options_in(data.settings, ClusterOptions).n_candidates,
        other_embeddings=outside,
        top_k=_MOST_NAMED,
        on_step=lambda *_: data.check(),
        lock=data.services.reading(data.encoder(), model),
        rng=data.settings.seed,
    )
    for variant, contrast in ((CONTRAST, True), (BARE, False)):
        yield variant, [one.text.removeprefix(options.prefix).strip().lower() for one in search(contrast=contrast)]


def _results(table: pd.DataFrame, n_cases: int) -> Results:
    findings, shares = list[Finding](), list[dict[str, Any]]()
    for (variant, planted), lines in table.groupby(["search", "planted"], sort=False):
        share = exact_interval(int(lines["named"].sum()), len(lines))
        what = "an attribute is planted" if planted else "none is planted"
        title = f"Clusters whose attribute a text names, {variant}, {what}"
        findings.append(
            finding(_key(str(variant), bool(planted)), title, "mean_similarity", share, TEXTS.note("named"))
        )
    for (variant, concept, name), lines in table[table["planted"]].groupby(["search", "concept", "attribute"]):
        share = exact_interval(int(lines["named"].sum()), len(lines))
        shares.append(mark(f"{concept}, {name}", share, n=len(lines), group=variant))
    missing = n_cases - table.loc[table["planted"], ["concept", "attribute"]].drop_duplicates().shape[0]
    return Results(
        findings=tuple(findings),
        tables=(TEXTS.table("texts", named("texts", table)),),
        figures=(TEXTS.figure("named", shares),),
        notes=(TEXTS.note("clusters"), *([TEXTS.note("too few", n=missing)] if missing else [])),
    )


def _key(variant: str, planted: bool) -> str:
    return f"{variant} {planted}"


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
            self.design.images_per_prompt, settings.scale, least=4 * options_in(settings, ClusterOptions).pictures
        )
        return pools(
            settings,
            [
                Shot(prompt=case["prompt"], n=n, group=case["prompt"], condition=condition, first_seed=1000 * k)
                for case in self.design.data["cases"]
                for k, condition in enumerate(_CONDITIONS)
            ],
        )

    def measure(self, settings: StudySettings, data: StudyData) -> Measuring:
        """Share of the clusters with their attribute named by one of the best texts, with and without contrast."""
        rows = yield from data.embed(data.frame)
        truths = np.array(data.truths(data.frame), dtype=object)
        draw = np.random.default_rng(settings.seed)
        model = data.services.language_model(_search_options().language_model)
        encoder = _Remembering(data.encoder())
        cases = [(case["prompt"], case, one) for case in self.design.data["cases"] for one in case["attributes"]]
        places = data.frame.groupby(["prompt", POOL]).indices
        n = scaled(options_in(settings, ClusterOptions).clusters, settings.scale)

        def work(of: tuple[str, Mapping[str, Any], str], _: StepCallback) -> list[dict[str, Any]]:
            (prompt, case, name), lines = of, list[dict[str, Any]]()
            attribute = self.design.data["attributes"][name]
            shows = np.array([truth[attribute["attribute"]] == attribute["value"] for truth in truths])
            for repetition in range(n):
                at = places[prompt, pool_of(settings, repetition)]
                for planted in (True, False):
                    parts = _parts(np.asarray(at), shows[at], settings, draw, planted=planted)
                    if parts is None:
                        continue
                    where = {
                        "concept": case["concept"],
                        "attribute": name,
                        "planted": planted,
                        "repetition": repetition,
                    }
                    inside, outside = (rows[part] for part in parts)
                    for variant, texts in _searched(data, inside, outside, encoder, model):
                        named = any(set(attribute["words"]) & set(text.split()) for text in texts)
                        lines.append(where | {"search": variant, "named": named, "texts": "; ".join(texts)})
            return lines

        parts = yield from data.map_until_stopped(f"attributes with texts of {n} clusters", cases, work)
        return _results(pd.DataFrame([line for part in parts for line in part]), len(parts))
