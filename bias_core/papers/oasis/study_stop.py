"""OASIS's StOP: clusters of pictures, the texts closest to them, and pictures of any text (Table 3)."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from bias_core import __version__
from bias_core.errors import InvalidInput
from bias_core.measures.alignment import similarity_estimate
from bias_core.measures.clustering import MAX_CLUSTERS, spectral_clusters
from bias_core.measures.permutation import smallest_p_value
from bias_core.measures.stereotype import attribute_prevalence
from bias_core.papers.oasis.cells import (
    NationalityOptions,
    nationality_shots,
    own_attributes,
    shown_words,
    wanted_nationalities,
)
from bias_core.papers.oasis.prompt_search import (
    PERMUTATIONS,
    OptimisedPrompt,
    cluster_average_image,
    optimise_prompts,
    permuted_difference,
)
from bias_core.papers.oasis.report import (
    HELD_OUT_NOTE,
    OPTIMISTIC_NOTE,
    cluster_name,
    describe_other_world,
    describe_prior,
    texts_headline,
)
from bias_core.protocols import StepCallback
from bias_core.report.blocked_pictures import describe_share
from bias_core.report.claims import WHY_NOT, claim_columns, decide_claims, family_note
from bias_core.report.saved import decode, encode
from bias_core.run.image_rows import RowMaker
from bias_core.run.limits import check_budget
from bias_core.run.study_run import Run
from bias_core.store.files import write_atomically
from bias_core.store.images import png_bytes
from bias_core.store.readings import open_original
from bias_core.study.classifiers import check_readers
from bias_core.study.design import ReportTexts
from bias_core.study.study import Measuring, RunSize, Study
from bias_core.study.types import (
    Claim,
    Design,
    Finding,
    Progress,
    Results,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    finding,
    get_options,
    intervals,
    or_nan,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate, StoredImage
from bias_core.values import declared_settings, setting, settings_class
from bias_core.wording import typeset

TEXTS = ReportTexts(__file__)
_FEWEST_PER_NATIONALITY = 2
_SHOWN = 3  # pictures of a cluster in the figure
_LONGEST = 26  # letters above a picture
TYPICAL = "similarity to its cluster"
"""Column: a picture's mean cosine to the cluster's pictures, or to the others if it is one of them."""
MOST_DRAWN = 64
PRIOR_WEIGHT = 0.05
"""Weight of a text's log-probability in the calibration world, whose encoder never read texts that are no phrases."""


@settings_class(frozen=True, kw_only=True)
class PromptSearchOptions(NationalityOptions):
    """The nationalities, and the search for prompts that explain a cluster."""

    language_model: str = setting(
        "calibration-language", "Language model", "Language model that proposes the next words"
    )
    prefix: str = setting("This is a photo of", "Beginning of every text", "Text that the search adds words to")
    n_clusters: int = setting(
        4, "Clusters", "Clusters per nationality; 0 uses the largest eigengap (the paper gives no number)",
        ge=0, le=20,
    )  # fmt: skip
    max_clusters: int = setting(
        2, "Searched clusters", "Number of largest clusters that are searched; the paper picks one by eye", ge=1, le=20
    )
    clusters: tuple[str, ...] = setting(
        (),
        "Chosen clusters",
        "Numbers of clusters to search in place of the largest: 3 for every nationality, or Iranian 3",
    )
    n_tokens: int = setting(2, "Tokens", "Number of tokens that the search adds", ge=1, le=20)
    beam_width: int = setting(10, "Beam width", "Texts kept at each step (the paper gives no number)", ge=1, le=100)
    n_candidates: int = setting(
        256, "Candidates", "Next words tried for each text (the paper gives no number)", ge=1, le=10_000
    )
    contrast: bool = setting(
        True,
        "Contrast with other pictures",
        "Search for texts that separate the cluster from the nationality's other pictures; the paper searches for "
        "those closest to its own",
    )
    prior_weight: float | None = setting(
        None,
        "Weight of the language model",
        "Added to a text's cosine for each unit of its log-probability, so that the search finds phrases; 0 as in the "
        f"paper. Left out: {PRIOR_WEIGHT} if pictures, encoder and language model are of the calibration world, else 0",
        ge=0,
        le=1,
    )
    held_out: float = setting(
        0.5, "Pictures held out", "Share of pictures that are only scored, not searched; the paper uses 0",
        ge=0, le=0.9,
    )  # fmt: skip
    top_k: int = setting(
        3, "Shown texts", "Number of texts that are shown, the best first, as in Table 3", ge=1, le=100
    )
    n_generated: int = setting(
        4,
        "Pictures of the first text",
        "Pictures drawn from the first text, which show whether it describes the cluster",
        ge=0,
        le=100,
    )


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of the pictures of a nationality; rows are unit embeddings."""

    nationality: str
    number: int  # from 1, by size
    frame: pd.DataFrame  # its pictures, the ones closest to its mean first
    rows: np.ndarray  # of its pictures
    other_rows: np.ndarray  # of the nationality's other pictures
    average: Path  # its average picture
    prompts: tuple[OptimisedPrompt, ...] = ()  # its texts, the best first
    drawn: pd.DataFrame | None = None  # pictures of the first text; None without any
    drawn_rows: np.ndarray | None = None

    @property
    def name(self) -> str:
        return cluster_name(self.nationality, self.number)

    def closeness(self, rows: np.ndarray, settings: StudySettings) -> Estimate:
        """Return the mean cosine of other pictures to the pictures of the cluster."""
        return similarity_estimate(rows @ self.rows.mean(axis=0), confidence=settings.confidence)

    def own_closeness(self) -> float:
        """Return the mean cosine of its pictures to each other; nan for a single one."""
        return float(closeness_of_own(self.rows).mean())

    def others_closeness(self) -> float:
        """Return the mean cosine of the nationality's other pictures to its own; nan if there are none."""
        return float((self.other_rows @ self.rows.mean(axis=0)).mean()) if len(self.other_rows) else math.nan

    def size_row(self, settings: StudySettings) -> dict[str, Any]:
        rows = self.drawn_rows
        return {
            "nationality": self.nationality,
            "cluster": self.number,
            "pictures": len(self.rows),
            "share": len(self.rows) / (len(self.rows) + len(self.other_rows)),
            "each other": self.own_closeness(),
            **columns("drawn from its text", None if rows is None else self.closeness(rows, settings)),
            "others": self.others_closeness(),
            "drawn": 0 if rows is None else len(rows),
        }


def closeness_of_own(rows: np.ndarray) -> np.ndarray:
    """Return the mean cosine ``(n,)`` of each unit row ``(n, d)`` to the others; nan for a single one.

    >>> closeness_of_own(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([0.5, 0.5, 0. ])
    """
    if len(rows) < 2:
        return np.full(len(rows), np.nan)
    exact = rows.astype(np.float64)
    return np.asarray((exact @ exact.sum(axis=0) - (exact**2).sum(axis=1)) / (len(exact) - 1))


def _picked(text: str) -> tuple[str, int]:
    """Return the nationality ("" for every one) and the number of a chosen cluster.

    >>> _picked("3"), _picked("Iranian 3"), _picked("Iranian, cluster 3")
    (('', 3), ('Iranian', 3), ('Iranian', 3))
    """
    match = re.fullmatch(r"(?:(.+?)(?:, cluster)? )?([1-9]\d?)", " ".join(text.split()))
    if match is None:
        raise InvalidInput(f"a cluster is chosen by its number, such as 3 or Iranian 3; got {text!r}")
    return match[1] or "", int(match[2])


def _searched(options: PromptSearchOptions, nationality: str, n_clusters: int) -> list[int]:
    """Return the numbers of a nationality's clusters to search texts for, of ``n_clusters``."""
    if not options.clusters:
        return list(range(1, min(n_clusters, options.max_clusters) + 1))
    picked = [number for name, number in map(_picked, options.clusters) if name in ("", nationality)]
    if too_large := [number for number in picked if number > n_clusters]:
        raise InvalidInput(f"{nationality} has {n_clusters} clusters; cluster {too_large[0]} was picked")
    return list(dict.fromkeys(picked))


def _cluster(data: Run, nationality: str, frame: pd.DataFrame, rows: np.ndarray, clusters: list[Cluster]) -> str:
    """Add the searched clusters of a nationality, without texts; return a note on the clustering."""
    settings, options = data.settings, get_options(data.settings, PromptSearchOptions)
    n_clusters = min(options.n_clusters, len(rows)) or None
    clustering = spectral_clusters(rows, n_clusters=n_clusters, seed=settings.seed)
    typical = np.empty(len(rows))
    for k in np.unique(clustering.labels):
        typical[clustering.labels == k] = closeness_of_own(rows[clustering.labels == k])
    data.keep(frame, cluster=[cluster_name(nationality, k + 1) for k in clustering.labels], **{TYPICAL: typical})
    for number in _searched(options, nationality, clustering.n_clusters):
        inside = clustering.labels == number - 1
        order = np.argsort(-(rows[inside] @ rows[inside].mean(axis=0)), kind="stable")
        cluster_frame = frame[inside].iloc[order]
        clusters.append(
            Cluster(
                nationality=nationality,
                number=number,
                frame=cluster_frame,
                rows=rows[inside][order],
                other_rows=rows[~inside],
                average=_keep_picture(
                    data.services, cluster_average_image(map(open_original, data.stored(cluster_frame)))
                ),
            )
        )
    chosen = "asked for" if n_clusters else "by the largest eigengap"
    eigenvalues = ", ".join(f"{value:.2f}" for value in clustering.eigenvalues)
    return f"{clustering.n_clusters} clusters, {chosen}; smallest eigenvalues {eigenvalues}. {clustering.note}".rstrip()


def search_arguments(options: PromptSearchOptions, settings: StudySettings, services: StudyServices) -> dict[str, Any]:
    """Return the arguments of the search that follow from options, and from the worlds of models and pictures.

    An option with the name of a keyword of :func:`optimise_prompts` is passed on as this argument.
    """
    keywords = {key for key, part in signature(optimise_prompts).parameters.items() if part.kind is part.KEYWORD_ONLY}
    names = keywords & set(declared_settings(type(options)))
    arguments: dict[str, Any] = {name: getattr(options, name) for name in sorted(names)}
    if arguments["prior_weight"] is None:
        worlds = {
            services.pictures_world(settings.model),
            services.reader_world("encoder", settings.encoder),
            services.reader_world("language_model", options.language_model),
        }
        arguments["prior_weight"] = PRIOR_WEIGHT if len(worlds) == 1 and "" not in worlds else 0.0
    return arguments


def _with_prompts(data: Run, cluster: Cluster, on_step: StepCallback) -> Cluster:
    return replace(cluster, prompts=_search_prompts(data, cluster.rows, cluster.other_rows, on_step))


def _search_prompts(
    data: Run, rows: np.ndarray, other_rows: np.ndarray, on_step: StepCallback
) -> tuple[OptimisedPrompt, ...]:
    """Return the texts of a cluster; the same search is stored, and not repeated."""
    options, encoder, answers = get_options(data.settings, PromptSearchOptions), data.encoder(), data.services.answers
    facts = data.services.reader_facts("language_model", options.language_model)
    readers = " ".join(filter(None, (encoder.name, facts.id, facts.name, facts.revision, __version__)))
    arguments = search_arguments(options, data.settings, data.services) | intervals(data.settings)
    arguments["contrast"] = options.contrast and len(other_rows) > 0
    pictures = hashlib.sha256(rows.tobytes() + other_rows.tobytes()).hexdigest()
    question = ("", f"texts of {len(rows)} and {len(other_rows)} pictures {pictures} by {json.dumps(arguments)}")
    if stored := answers.find(readers, [question]):
        return tuple(OptimisedPrompt(**values) for values in decode(json.loads(stored[question]), Path()))
    model = data.services.language_model(options.language_model)
    prompts = optimise_prompts(
        rows,
        encoder,
        model,
        other_embeddings=other_rows if len(other_rows) else None,
        on_step=on_step,
        lock=data.services.reading(encoder, model),
        **arguments,
    )
    answers.keep(readers, {question: json.dumps(encode([vars(prompt) for prompt in prompts], Path()))})
    return tuple(prompts)


def _draw_first_texts(
    design: Design, settings: StudySettings, data: Run, clusters: Sequence[Cluster]
) -> Generator[Progress, None, list[Cluster]]:
    """Return the clusters with pictures of the first text, on seeds that the cluster's pictures do not have.

    A stopped run shows the finished ones.
    """
    n = get_options(settings, PromptSearchOptions).n_generated
    if settings.images or not n or data.stopped_after:
        return list(clusters)
    first, shots = design.images_per_prompt, []
    for cluster in clusters:
        text, facts = cluster.prompts[0].text, {"nationality": cluster.nationality, "cluster": cluster.name}
        shots.append(Shot(prompt=text, n=n, group=cluster.name, facts=facts, first_seed=first))
    with data.allow_partial_results(
        lambda: f"all {len(clusters):,} clusters were searched, before all their texts were drawn"
    ):
        yield from data.fetch(shots)
    if (frame := data.add_finished(shots)).empty:
        return list(clusters)
    rows = yield from data.embed(frame)
    drawn_clusters = []
    for cluster in clusters:
        mine = (frame["group"] == cluster.name).to_numpy()
        data.keep(data.frame[data.frame["group"] == cluster.name], **{TYPICAL: rows[mine] @ cluster.rows.mean(axis=0)})
        drawn_clusters.append(replace(cluster, drawn=frame[mine], drawn_rows=rows[mine]) if mine.any() else cluster)
    return drawn_clusters


def _score_attributes(design: Design, settings: StudySettings, data: Run, clusters: Sequence[Cluster]) -> pd.DataFrame:
    """Return P of every attribute of the design's nationalities in every cluster."""
    attributes = {a.name: a for n in wanted_nationalities(design, settings) for a in own_attributes(design, n)}
    if not attributes:
        return pd.DataFrame()
    positive, negative = (
        data.sentences(getattr(a, side) for a in attributes.values()) for side in ("positive", "negative")
    )
    return pd.DataFrame(
        [
            {"row": cluster.name, "column": name, "value": attribute_prevalence(cluster.rows @ p, cluster.rows @ n)}
            for cluster in clusters
            for name, p, n in zip(attributes, positive, negative, strict=True)
        ]
    )


def _findings(cluster: Cluster, settings: StudySettings) -> list[Finding]:
    """Return findings: the closeness of the best text, and of the pictures drawn from it."""
    options = get_options(settings, PromptSearchOptions)
    best, key = cluster.prompts[0], f"{cluster.nationality} {cluster.number}"
    says = f'"{best.text}", without its last words {typeset(best.baseline, ".3f")}'
    if best.others is not None:
        says += f"; for the other pictures {typeset(best.others, '.3f')}"
    # one note for all texts says if scores are optimistic
    title = "most specific text" if options.contrast else "closest text"
    entries = [(f"{key} text", title, replace(best.score, note=""), says)]
    if cluster.drawn_rows is not None:
        says = f"For comparison: the cluster's own pictures {typeset(cluster.own_closeness(), '.3f')}"
        if len(cluster.other_rows):
            says += f", the nationality's other pictures {typeset(cluster.others_closeness(), '.3f')}"
        estimate = cluster.closeness(cluster.drawn_rows, settings)
        entries.append((f"{key} pictures", "pictures of that text", estimate, says))
    return [finding(k, f"{cluster.name}: {of}", "mean_similarity", estimate, f"{s}.") for k, of, estimate, s in entries]


def decide_texts(prompts: Sequence[OptimisedPrompt], *, confidence: float) -> tuple[Claim, ...]:
    """Return what may be claimed of the specificity of each text, in one family."""
    smallest = [smallest_p_value(prompt.score.n, max(1, prompt.n_others), PERMUTATIONS) for prompt in prompts]
    return decide_claims([prompt.test for prompt in prompts], confidence=confidence, smallest_p=smallest)


def _tables(
    design: Design, settings: StudySettings, clusters: Sequence[Cluster], attributes: pd.DataFrame
) -> list[StudyTable]:
    prompts = [prompt for cluster in clusters for prompt in cluster.prompts]
    claims = decide_texts(prompts, confidence=settings.confidence)
    decided = iter(claims)
    tables = [
        TEXTS.table(
            "table3",
            [
                {
                    "nationality": cluster.nationality,
                    "cluster": cluster.number,
                    "rank": rank,
                    "prompt": prompt.text,
                    **columns("cosine", prompt.score),
                    "prefix alone": prompt.baseline,
                    **columns("gain", prompt.gain),
                    "others": or_nan(prompt.others),
                    **columns("specificity", prompt.specificity),
                    **claim_columns(prompt.test, claim := next(decided)),
                    WHY_NOT: claim.reason if claim.verdict == "not clear" else "",
                    "n": prompt.score.n,
                    "n others": prompt.n_others,
                }
                for cluster in clusters
                for rank, prompt in enumerate(cluster.prompts, start=1)
            ],
            family=family_note(claims, "texts of all clusters"),
        ),
        TEXTS.table("clusters", [cluster.size_row(settings) for cluster in clusters]),
    ]
    if len(attributes):
        wide = attributes.pivot_table("value", "row", "column", sort=False).reset_index()
        wide = wide.rename(columns={"row": "cluster"}).rename_axis(columns=None)
        tables.append(TEXTS.table("attributes", wide))
    printed = [
        {"nationality": n, "rank": rank, "prompt": text}
        for n in wanted_nationalities(design, settings)
        for rank, text in enumerate(design.data.get("optimised_prompts", {}).get(n, ()), start=1)
    ]
    return [*tables, TEXTS.table("published", printed)] if printed else tables


def _figures(
    data: Run, settings: StudySettings, clusters: Sequence[Cluster], attributes: pd.DataFrame
) -> list[StudyFigure]:
    """Return Table 3 as pictures (average, typical and drawn ones), and the attributes of the clusters."""
    rows, prefix = [], get_options(settings, PromptSearchOptions).prefix
    for cluster in clusters:
        shown = {"average": (cluster.average, f"{cluster.name}, n = {len(cluster.rows)}")}
        shown |= {f"typical {i}": (stored.path, "") for i, stored in enumerate(data.stored(cluster.frame.head(_SHOWN)))}
        if cluster.drawn is not None:
            text = _shorten_title(cluster.prompts[0].text.removeprefix(prefix).strip())
            shown |= {
                f"drawn {i}": (stored.path, "" if i else f"... {text}")
                for i, stored in enumerate(data.stored(cluster.drawn))
            }
        rows += [{"row": cluster.name, "column": k, "path": str(p), "text": text} for k, (p, text) in shown.items()]
    return [TEXTS.figure("table3", rows), *([TEXTS.figure("attributes", attributes)] if len(attributes) else [])]


def _shorten_title(text: str) -> str:
    """Return a short text for a title, with letters outside common fonts as codes, as in the paper."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("$", r"\$")
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 3].rstrip("\\") + "..."


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Some pictures and the closeness of each to a cluster: mean cosine, in [-1, 1]."""

    pictures: tuple[StoredImage, ...]  # the closest first
    closeness: np.ndarray  # ``(n,)``; of a picture of the cluster, to the cluster's others
    mean: Estimate | None  # its interval is for further pictures of this kind; None without pictures


@dataclass(frozen=True, kw_only=True)
class Regenerated:
    """A text and its pictures, compared with a cluster and the concept's other pictures."""

    cluster: str
    prompt: str
    text_closeness: float  # mean cosine of the text itself to the cluster's pictures, in [-1, 1]
    own_side: Compared
    drawn: Compared
    other_side: Compared
    # closeness of the drawn pictures minus that of the cluster's own, and of the others, with the claims of one family;
    # None without pictures to compare with
    beyond_own: tuple[Estimate, Claim] | None
    beyond_others: tuple[Estimate, Claim] | None


def regenerate(
    report: StudyReport,
    services: StudyServices,
    *,
    cluster: str,
    prompt: str,
    n: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[Progress, None, Regenerated]:
    """Draw ``n`` pictures of a text with new seeds and compare them with a cluster of a StOP report.

    Raises InvalidInput: no such cluster, an empty text, an invalid ``n``, or a report of imported pictures;
    Cancelled, ModelUnavailable, StorageError: during the run; finished pictures are kept.
    """
    settings, text = report.settings, prompt.strip()
    inside, outside = ([report.stored[i] for i in part["image_id"]] for part in _members(report, cluster))
    if settings.images:
        raise InvalidInput("these pictures are imported: there is no model to draw more")
    if not text:
        raise InvalidInput("the text is empty; choose one of the texts above, or write your own")
    if not 1 <= n <= MOST_DRAWN:
        raise InvalidInput(f"1 to {MOST_DRAWN} pictures can be drawn at once, got {n}")
    rows = RowMaker.build(settings, services)
    data = Run(OptimisedPrompts(report.design), settings, services, rows, cancelled=cancelled)
    check_readers(data.reader_facts, services, source=settings.model, world=rows.info.world, force=settings.force)
    check_budget(n, services.settings, subject="drawing a text", advice="draw fewer pictures")
    frame = yield from data.draw([Shot(prompt=text, n=n, group=cluster, first_seed=report.design.images_per_prompt)])
    if frame.empty:
        raise InvalidInput(f"no picture of {prompt!r} can be scored. {describe_share(data.images_by_id.values())}")
    drawn = yield from data.embed(frame)
    encoder = data.encoder()  # its embeddings of the old pictures are stored
    embeddings = services.embeddings.images(encoder, [*inside, *outside], lock=services.reading(encoder))
    own_rows, other_rows = embeddings[: len(inside)], embeddings[len(inside) :]
    centre = own_rows.mean(axis=0)
    text_row = data.texts([text])[0]
    services.tidy()
    closeness = drawn @ centre
    beyond_own, beyond_others = _decided(closeness, (closeness_of_own(own_rows), other_rows @ centre), settings)
    return Regenerated(
        cluster=cluster,
        prompt=text,
        text_closeness=float(text_row @ centre),
        own_side=_compare_pictures(inside, closeness_of_own(own_rows), settings),
        drawn=_compare_pictures(data.stored(frame), closeness, settings),
        other_side=_compare_pictures(outside, other_rows @ centre, settings),
        beyond_own=beyond_own,
        beyond_others=beyond_others,
    )


def _decided(
    drawn: np.ndarray, sides: Sequence[np.ndarray], settings: StudySettings
) -> list[tuple[Estimate, Claim] | None]:
    """Return how much closer drawn pictures are than each of some others, by permutation, decided as one family."""
    finite_sides = [side[np.isfinite(side)] for side in sides]
    tests = [permuted_difference(drawn, side, **intervals(settings)) if len(side) else None for side in finite_sides]
    smallest = [smallest_p_value(len(drawn), len(side), PERMUTATIONS) for side in finite_sides if len(side)]
    tested = [test for test in tests if test is not None]
    claims = iter(decide_claims(tested, confidence=settings.confidence, smallest_p=smallest))
    return [None if test is None else (test, next(claims)) for test in tests]


def cluster_names(report: StudyReport) -> list[str]:
    """Return the clusters of a StOP report, in order; empty for other reports."""
    parts = (name.rpartition(" ") for name in _get_concept_pictures(report)["cluster"].dropna().unique())
    return [f"{concept} {number}" for concept, number in sorted((concept, int(number)) for concept, _, number in parts)]


def _get_concept_pictures(report: StudyReport) -> pd.DataFrame:
    frame = report.pictures
    if frame is None or not {"cluster", "nationality"} <= set(frame):
        return pd.DataFrame(columns=["cluster", "nationality"])
    return frame[frame["group"] == frame["nationality"]]


def _members(report: StudyReport, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    if cluster not in (names := cluster_names(report)):
        raise InvalidInput(f"no cluster {cluster!r}; there are {', '.join(names) or 'none'}")
    frame = _get_concept_pictures(report)
    frame = frame[frame["nationality"] == frame.loc[frame["cluster"] == cluster, "nationality"].iloc[0]]
    return frame[frame["cluster"] == cluster], frame[frame["cluster"] != cluster]


def _compare_pictures(pictures: list[StoredImage], closeness: np.ndarray, settings: StudySettings) -> Compared:
    order = np.argsort(-closeness, kind="stable")
    finite = closeness[np.isfinite(closeness)]
    mean = similarity_estimate(finite, confidence=settings.confidence) if len(finite) else None
    return Compared(pictures=tuple(pictures[i] for i in order), closeness=closeness[order], mean=mean)


def _keep_picture(services: StudyServices, image: Image.Image) -> Path:
    """Write a picture under the data folder, once; its name is the hash of its content."""
    data = png_bytes(image)
    path = services.settings.data_dir / "derived" / f"{hashlib.sha256(data).hexdigest()[:20]}.png"
    if not path.is_file():
        write_atomically(path, data)
    return path


class OptimisedPrompts(Study):
    """OASIS: prompts that are optimised for clusters of pictures (StOP)."""

    kind = "optimised_prompts"
    options = PromptSearchOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return what the pictures show, the clusters that are searched, and if pictures are drawn from the texts."""
        options = get_options(settings, PromptSearchOptions)
        searched = f"the {options.max_clusters} largest are"
        return {
            **shown_words(self.design, settings),
            "grouped": f"{options.n_clusters}" if options.n_clusters else "as many as the largest eigengap tells",
            "searched": ", ".join(options.clusters) + " are" if options.clusters else searched,
            "kept": str(options.beam_width),
            "tried": str(options.n_candidates),
            "drawing": ", then draws pictures from the best text" if options.n_generated else "",
        }

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of each nationality; refuse clusters that cannot exist."""
        options = get_options(settings, PromptSearchOptions)
        names, n = wanted_nationalities(self.design, settings), options.n_clusters or MAX_CLUSTERS
        for text in options.clusters:
            name, number = _picked(text)
            if name and name not in names:
                raise InvalidInput(f"clusters: {name} is none of the nationalities {', '.join(names)}; got {text!r}")
            if number > n:
                raise InvalidInput(f"clusters: each nationality has at most {n} clusters; got {text!r}")
        return nationality_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Find clusters and their texts, and measure how close the pictures of those texts come."""
        options = get_options(settings, PromptSearchOptions)
        rows = yield from data.embed(data.frame)
        clusters: list[Cluster] = []
        name, notes = options.language_model, []
        world = data.services.reader_world("language_model", name)
        if world and data.services.pictures_world(settings.model) != world:
            notes.append(describe_other_world(name, world))
        if weight := search_arguments(options, settings, data.services)["prior_weight"]:
            notes.append(describe_prior(weight))
        for nationality in wanted_nationalities(self.design, settings):
            frame = data.frame[data.frame["nationality"] == nationality]
            if len(frame) >= _FEWEST_PER_NATIONALITY:
                notes.append(f"{nationality}: {_cluster(data, nationality, frame, rows[frame.index], clusters)}")
        if not clusters:
            raise InvalidInput(f"no nationality has {_FEWEST_PER_NATIONALITY} pictures that can be scored")
        clusters = yield from data.map_until_stopped(
            "clusters searched for texts", clusters, partial(_with_prompts, data)
        )
        clusters = yield from _draw_first_texts(self.design, settings, data, clusters)
        attributes = _score_attributes(self.design, settings, data, clusters)
        return Results(
            findings=tuple(finding for cluster in clusters for finding in _findings(cluster, settings)),
            tables=tuple(_tables(self.design, settings, clusters, attributes)),
            figures=tuple(_figures(data, settings, clusters, attributes)),
            notes=(*notes, HELD_OUT_NOTE if options.held_out else OPTIMISTIC_NOTE),
        )

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if the language model is missing."""
        if draws_to_measure:
            options = get_options(settings, PromptSearchOptions)
            model = services.language_model(options.language_model)
            with services.reading(model):
                model.propose([options.prefix], 1)

    def run_size(self, settings: StudySettings) -> RunSize:
        """Return the largest number of pictures to draw from the first texts."""
        options = get_options(settings, PromptSearchOptions)
        max_clusters = options.n_clusters or MAX_CLUSTERS
        n = sum(len(_searched(options, name, max_clusters)) for name in wanted_nationalities(self.design, settings))
        return RunSize(n_later=0 if settings.images else n * options.n_generated)

    def headline(self, report: StudyReport) -> str:
        return texts_headline(report)
