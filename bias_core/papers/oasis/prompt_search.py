"""StOP: the prompts closest to a cluster of images, found without naming an attribute first."""

import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Floats, Seed, same_dimension, unit_rows
from bias_core.measures.intervals import mean_interval
from bias_core.measures.permutation import permutation_test
from bias_core.protocols import ImageTextEncoder, LanguageModel, StepCallback
from bias_core.types import Estimate
from bias_core.values import normal_form

PERMUTATIONS = 4_999
"""Random divisions of pictures that a test draws."""
_EQUAL_ROWS = 1e-4  # embeddings that differ by less in every place are equal, whatever batch they came in
_EQUAL = 1e-6  # cosines that differ by less are equal, as float32 has them
_FEWEST = 2  # images to search on, and to score, if some are held out
_TEXTS_AT_ONCE = 512  # texts that the encoder gets in one call


@dataclass(frozen=True, kw_only=True)
class OptimisedPrompt:
    """A prompt close to the images of a cluster."""

    text: str  # the whole prompt, prefix included
    score: Estimate  # mean cosine to the images of the cluster, in [-1, 1]; n counts images
    baseline: float  # the same for the prefix alone, in [-1, 1]
    gain: Estimate  # score - baseline, in [-2, 2]; 0: the words add nothing to the prefix
    others: float | None = None  # mean cosine to the other images, in [-1, 1]; None without any
    # gain in the cluster minus gain in the other images, in [-4, 4]; 0: the text fits the other images as well; tested
    # on images that the search did not see, else without null value and p; None without other images
    specificity: Estimate | None = None

    @property
    def test(self) -> Estimate:
        """Specificity, or an undefined estimate without other images."""
        return self.specificity or Estimate.undefined(0, "there are no other pictures")

    @property
    def n_others(self) -> int:
        """Number of other images that are scored."""
        return max(0, self.test.n - self.score.n)


def optimise_prompts(
    image_embeddings: ArrayLike,
    encoder: ImageTextEncoder,
    language_model: LanguageModel,
    *,
    prefix: str,
    n_tokens: int,
    beam_width: int,
    n_candidates: int,
    top_k: int,
    contrast: bool,
    prior_weight: float,
    held_out: float,
    other_embeddings: ArrayLike | None = None,
    on_step: StepCallback | None = None,
    lock: AbstractContextManager[object] | None = None,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> list[OptimisedPrompt]:
    """Return the texts of a language model that are closest to the images of one cluster.

    s* = argmax_s 1/n Σ_i cos(T(s), I_i)   [dehdashtian2025oasis, Eq. 8]

    which is the dot product of the unit text embedding with the mean unit image embedding. s is the prefix
    and ``n_tokens`` tokens, searched by beam: the language model continues every text of the beam by its
    ``n_candidates`` likeliest tokens, the encoder scores them all, and the best ``beam_width`` go on.

    Parameters
    ----------
    image_embeddings : array (n, d). Of the cluster's images, by ``encoder``.
    encoder, language_model
    prefix : str. Not blank.
    n_tokens, beam_width, n_candidates, top_k : int >= 1. At most n_candidates · (1 + beam_width · (n_tokens - 1)) texts
        are scored. With a beam as wide as there are candidates the search is exhaustive.
    contrast : bool. Search for the largest mean cosine to the cluster minus that to the other images: this finds
        features of the cluster, while the paper's score finds features that all images of a concept share.
    prior_weight : float >= 0. λ: the search adds λ log p(s) to the cosine, so that it finds phrases; p is the language
        model's probability of the text, in the last round with nothing after it. 0 is Eq. 8.
    held_out : float in [0, 1). Share of the images, of both kinds, that the search does not see; only these are
        scored. ``rng`` draws them. With too few images for two of each, all are searched and scored.
    other_embeddings : array (m, d) or None. Of images outside the cluster.
    on_step : called with (texts scored, texts planned). Raising :class:`bias_core.errors.Cancelled` in it stops the
        search.
    lock : held while a model runs, one batch at a time.
    rng : seed or Generator of the images held out, and of their random divisions.

    Returns
    -------
    list of OptimisedPrompt : at most ``top_k``, the best of the last round by what was searched for; of texts with the
        same words, or that the encoder cannot tell apart, only the best. They stand in the order of their specificity
        (without contrast: of their mean cosine) on the images that are scored.

    Raises InvalidInput: for malformed embeddings, a blank prefix, a number below 1, a weight below 0, a share outside
    of [0, 1), a language model without proposals, or a contrast with no other images.

    Notes
    -----
    The paper gives no beam width, number of candidates or K; the defaults are those of the study's options. Intervals
    are Student's t over images and take the text as given; without images held out it was chosen on the same images as
    the best of many, so scores are optimistic, and ``note`` says of how many. Specificity is tested on images held out:
    p and interval are those of random divisions of them into cluster and others
    (:func:`~bias_core.measures.permutation.permutation_test`). Texts have the same words where they differ only in
    case, spacing or punctuation; one that adds no word to the prefix is left out.
    """
    if not prefix.strip():
        raise InvalidInput(f"the prefix must hold a word, like 'This is a photo of'; got {prefix!r}.")
    numbers = {"n_tokens": n_tokens, "beam_width": beam_width, "n_candidates": n_candidates, "top_k": top_k}
    for name, number in numbers.items():
        if number < 1:
            raise InvalidInput(f"{name} must be at least 1; got {number}.")
    cluster = unit_rows(image_embeddings, "image_embeddings")
    other_rows = None if other_embeddings is None else unit_rows(other_embeddings, "other_embeddings")
    if contrast and other_rows is None:
        raise InvalidInput("contrast needs other_embeddings to compare the cluster with; got None.")
    if not prior_weight >= 0:
        raise InvalidInput(f"prior_weight must be 0 or more; got {prior_weight}.")
    if not 0 <= held_out < 1:
        raise InvalidInput(f"held_out must be a share of the images, from 0 to below 1; got {held_out}.")
    searched, scored = _split_images(cluster, other_rows, held_out, rng)
    models = _Models(encoder, language_model, lock, on_step, 1 + n_candidates * (1 + beam_width * (n_tokens - 1)))
    texts, rows = [prefix], models.embed([prefix])
    is_held_out = scored[0] is not searched[0]
    comparison = _Comparison(*scored, rows[0], is_held_out, confidence, rng)
    target = _search_direction(*searched, contrast=contrast)
    for left in reversed(range(n_tokens)):
        proposed = models.propose(texts[:beam_width], n_candidates)
        rows = models.embed(proposed)
        scores = rows @ target
        if prior_weight:
            scores += prior_weight * models.log_probabilities(proposed, ends=not left)
        places = _best_first(proposed, scores, prefix)
        texts, rows = [proposed[place] for place in places], rows[places]
    models.report(models.n_planned)  # repeated proposals are scored once, so there are fewer texts than planned
    note = f"chosen as the best of {models.n_scored - 1:,} texts on these images, so optimistic"
    if is_held_out:
        note = f"on images that were held out while the best of {models.n_scored - 1:,} texts was chosen"
    found = [comparison.judge(texts[place], rows[place], note) for place in _first_different(rows, top_k)]
    return sorted(found, key=lambda prompt: -_rank_value(prompt, contrast=contrast))


def _rank_value(prompt: OptimisedPrompt, *, contrast: bool) -> float:
    """Return the measure by which texts are ranked."""
    return (prompt.specificity if contrast and prompt.specificity else prompt.score).value


def cluster_average_image(images: Iterable[Image.Image]) -> Image.Image:
    """Return the mean of the pictures of a cluster, pixel by pixel: common features stay sharp.

    It is RGB, of the size of the first picture; others are resized to it. It is shown with a cluster's optimised
    prompts [dehdashtian2025oasis, 3.3]. InvalidInput for no picture.

    >>> black, white = Image.new("L", (2, 2)), Image.new("L", (2, 2), 255)
    >>> cluster_average_image([black, white, white]).getpixel((0, 0))
    (170, 170, 170)
    """
    total: Array | None = None
    n_images, size = 0, (0, 0)
    for image in images:
        picture = image.convert("RGB")
        size = size if n_images else picture.size
        if picture.size != size:
            picture = picture.resize(size, Image.Resampling.BILINEAR)
        pixels = np.asarray(picture, dtype=np.float64)
        total = pixels if total is None else total + pixels
        n_images += 1
    if total is None:
        raise InvalidInput("an average image needs at least one picture; got none.")
    return Image.fromarray((total / n_images).round().astype(np.uint8))


class _Models:
    """The two models, which run in batches under the lock and report each batch."""

    def __init__(
        self,
        encoder: ImageTextEncoder,
        language_model: LanguageModel,
        lock: AbstractContextManager[object] | None,
        on_step: StepCallback | None,
        n_planned: int,
    ) -> None:
        self.n_scored = 0
        self._encoder, self._language_model = encoder, language_model
        self._lock: AbstractContextManager[object] = lock or nullcontext()
        self._on_step, self.n_planned = on_step, n_planned

    def propose(self, prefixes: Sequence[str], n: int) -> list[str]:
        """Return continuations of all prefixes by one token, each once."""
        with self._lock:
            proposals = self._language_model.propose(prefixes, n)
        self.report(self.n_scored)
        texts = list(dict.fromkeys(text for proposal in proposals for text in proposal[:n]))
        if not texts:
            raise InvalidInput(f"the language model proposed nothing after {prefixes[0]!r}; try another prefix.")
        return texts

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return unit rows ``(n, d)``."""
        rows = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            batch = texts[start : start + _TEXTS_AT_ONCE]
            with self._lock:
                rows.append(unit_rows(self._encoder.encode_texts(batch), "text embeddings"))
            self.n_scored += len(batch)
            self.report(self.n_scored)
        return np.concatenate(rows)

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> Array:
        """Return the language model's log-probability of each text ``(n,)``."""
        parts = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            with self._lock:
                parts.append(self._language_model.log_probabilities(texts[start : start + _TEXTS_AT_ONCE], ends=ends))
            self.report(self.n_scored)
        return np.concatenate(parts)

    def report(self, n_done: int) -> None:
        if self._on_step is not None:
            self._on_step(n_done, self.n_planned)


class _Comparison:
    """A text's cosines to the cluster, with those of the prefix and those to other images."""

    def __init__(
        self,
        cluster: Floats,
        other_rows: Floats | None,
        prefix: Floats,
        is_held_out: bool,
        confidence: float,
        rng: Seed,
    ) -> None:
        outside = cluster[:0] if other_rows is None else other_rows
        same_dimension(image_embeddings=cluster, other_embeddings=outside, text_embeddings=prefix)
        self._cluster, self._outside, self._prefix = cluster, outside, prefix
        self._is_held_out, self._confidence, self._rng = is_held_out, confidence, rng

    def judge(self, text: str, row: Floats, note: str) -> OptimisedPrompt:
        """Return the text with its numbers; each estimate has the note."""
        gains = self._cluster @ (row - self._prefix)  # (n,)
        outside = self._outside @ (row - self._prefix)  # (m,)
        return OptimisedPrompt(
            text=text,
            score=mean_interval(self._cluster @ row, confidence=self._confidence).with_note(note),
            baseline=float((self._cluster @ self._prefix).mean()),
            gain=mean_interval(gains, confidence=self._confidence, null_value=0.0).with_note(note),
            others=float((self._outside @ row).mean()) if len(outside) else None,
            specificity=self._specificity(gains, outside).with_note(note) if len(outside) else None,
        )

    def _specificity(self, gains: Floats, outside: Floats) -> Estimate:
        """Return the mean gain in the cluster minus that in the other images."""
        if not self._is_held_out:
            return mean_interval(gains, outside, confidence=self._confidence)
        return permuted_difference(gains, outside, confidence=self._confidence, rng=self._rng)


def permuted_difference(x: Floats, y: Floats, *, confidence: float, rng: Seed) -> Estimate:
    """Return mean(x) - mean(y) of two sets of images, with p and interval of random divisions of them.

    Without interval and p, with a note, where all are equal.
    """
    if np.ptp(np.concatenate([x, y])) <= _EQUAL:
        return Estimate.without_interval(0.0, len(x) + len(y), "all images are equally close", null_value=0.0)
    return permutation_test(x, y, n_permutations=PERMUTATIONS, confidence=confidence, rng=rng).estimate


def _split_images(
    cluster: Floats, other_rows: Floats | None, share: float, rng: Seed
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None]]:
    """Return the images to search on, and those to score; the same ones if there are too few to hold any out."""
    image_sets = [rows for rows in (cluster, other_rows) if rows is not None]
    if not all(_FEWEST <= round(share * len(rows)) <= len(rows) - _FEWEST for rows in image_sets):
        return (cluster, other_rows), (cluster, other_rows)
    draw = np.random.default_rng(rng)
    orders = [draw.permutation(len(rows)) for rows in image_sets]
    cuts = [round(share * len(rows)) for rows in image_sets]
    scored = [rows[order[:cut]] for rows, order, cut in zip(image_sets, orders, cuts, strict=True)]
    searched = [rows[order[cut:]] for rows, order, cut in zip(image_sets, orders, cuts, strict=True)]
    if other_rows is None:
        return (searched[0], None), (scored[0], None)
    return (searched[0], searched[1]), (scored[0], scored[1])


def _search_direction(cluster: Floats, other_rows: Floats | None, *, contrast: bool) -> Array:
    """Return the vector ``(d,)``; the search maximises its dot product with a unit text embedding."""
    mean: Array = cluster.mean(axis=0, dtype=np.float64)
    return mean - other_rows.mean(axis=0, dtype=np.float64) if contrast and other_rows is not None else mean


def _best_first(texts: Sequence[str], scores: Array, prefix: str) -> list[int]:
    """Return the places of texts by falling score; for equal words only the best."""
    seen_words, places = {_normalise_text(prefix)}, []
    for index in np.argsort(-scores, kind="stable"):
        words = _normalise_text(texts[index])
        if words not in seen_words:
            seen_words.add(words)
            places.append(int(index))
    if not places:
        raise InvalidInput(f"the language model proposed no word, only {texts[0]!r}; try another prefix.")
    return places


def _first_different(rows: Floats, n: int) -> list[int]:
    """Return the places of the first ``n`` rows that differ from all before them."""
    places: list[int] = []
    for place, row in enumerate(rows):
        if len(places) < n and all(np.abs(row - rows[earlier]).max() > _EQUAL_ROWS for earlier in places):
            places.append(place)
    return places


def _normalise_text(text: str) -> str:
    """Return a text without case, extra spacing, punctuation and signs."""
    plain = normal_form("NFKC", text).casefold()
    return " ".join("".join(" " if unicodedata.category(c)[0] in "CPSZ" else c for c in plain).split())
