"""Measurements of the calibration world's own models: the rates drawn, and the errors of the classifier.

The diffusion model's own rates were measured with many pictures. The classifier's embeddings of held-out renders are
shipped; the scenes behind them are redrawn from their seed and give the correct answers.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from random import Random
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import StorageError
from bias_core.types import Estimate, ImageRow, KnownPicture, ReaderErrors
from bias_core.world.grammar import Request, lexicon_looks, parse, satisfies, things
from bias_core.world.scene import CALIBRATION, Scene, balanced_scene, draw_scene

TABLE = CALIBRATION / "drawn_rates.json"


@dataclass(frozen=True, kw_only=True)
class DrawnRate:
    """One rate, planted and drawn, in [0, 1].

    Counts pictures with ``value`` of ``attribute``: the classifier found it in ``n_shown`` of ``n``. ``drawn``, with
    the interval ``low`` to ``high``, is corrected for its known errors. In a ``pair`` the person stands next to
    another. ``fair`` is the rate of the condition fair.
    """

    condition: str
    concept: str
    pair: bool
    attribute: str
    value: str
    planted: float
    fair: float
    drawn: float
    low: float
    high: float
    n_shown: int
    n: int

    @property
    def gap(self) -> float:
        """Drawn minus planted rate, in [-1, 1]; 0 is right."""
        return self.drawn - self.planted


@dataclass(frozen=True, kw_only=True)
class DrawnRates:
    """Rates of the weights of one ``revision``, drawn in ``num_inference_steps``."""

    revision: str
    num_inference_steps: int
    lines: Sequence[DrawnRate]

    def write(self, path: Path) -> None:
        rows = ",\n".join(json.dumps(asdict(line)) for line in self.lines)
        head = f'"revision": "{self.revision}", "num_inference_steps": {self.num_inference_steps}'
        path.write_text(f'{{{head}, "lines": [\n{rows}\n]}}\n', encoding="utf-8")


def read_drawn_rates(path: Path = TABLE) -> DrawnRates:
    """Read a table; StorageError if it is not one."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        lines = tuple(DrawnRate(**line) for line in table.pop("lines"))
        return DrawnRates(**table, lines=lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path.name} is no table of drawn rates ({error}); python -m training judge-rates"
        ) from error


@cache
def shipped_rates() -> DrawnRates:
    """Read the table that comes with the program."""
    return read_drawn_rates()


def true_rate(rows: Sequence[ImageRow], sentence: str) -> Estimate | None:
    """Measured share of pictures with these settings that show ``sentence``, from many other pictures.

    None if it was not measured: for other weights, another number of steps, guidance, or mixed prompts.
    """
    table, kinds = shipped_rates(), {(row.revision, row.num_inference_steps, row.condition) for row in rows}
    plain = all(row.guidance_scale == 1.0 and not row.negative_prompt for row in rows)
    revision, steps, condition = kinds.pop() if len(kinds) == 1 else ("", 0, "")
    if not plain or (revision, steps) != (table.revision, table.num_inference_steps):
        return None
    prompts = frozenset(_meaning(prompt) for prompt in {row.prompt for row in rows})
    line, is_complement = _index_lines().get((condition, prompts, _meaning(sentence)), (None, False))
    if line is None:
        return None
    ends = (1 - line.high, 1 - line.drawn, 1 - line.low) if is_complement else (line.low, line.drawn, line.high)
    low, value, high = (round(end, 4) for end in ends)
    return Estimate(value=value, low=low, high=high, n=line.n, method="Rogan–Gladen 95 %")


def _meaning(text: str) -> Hashable:
    """Meaning of a prompt or sentence: equal for "a photo of a nurse" and "Generate a picture of one nurse."."""
    request = parse(text)
    people = tuple(
        (person.concepts, frozenset(person.parts.items()), frozenset(person.allowed.items()))
        for person in request.people
    )
    return people, request.thing, request.concept, request.light, request.trigger, request.unknown_words


@cache
def _index_lines() -> Mapping[tuple[str, Hashable, Hashable], tuple[DrawnRate, bool]]:
    """Line by condition, prompts and sentence, and a flag that the sentence holds for the other pictures."""
    from bias_core.world.planted import SENTENCES, planted_lines

    prompts = {line.concept: line.prompts for line in planted_lines()}
    lines: dict[tuple[str, Hashable, Hashable], tuple[DrawnRate, bool]] = {}
    sentences = {(name, str(value)): pair for (name, value), pair in SENTENCES.items()}
    for line in shipped_rates().lines:
        meanings = frozenset(_meaning(prompt) for prompt in prompts.get(line.concept, ()))
        for is_complement, sentence in enumerate(sentences[line.attribute, line.value]):
            if meanings and not line.pair:
                lines[line.condition, meanings, _meaning(sentence)] = line, bool(is_complement)
    return lines


ENOUGH = 20  # scenes of each kind; error rates from fewer are too rough
JUDGES_SEED = 20_260_101  # of the scenes that judges are asked about
_SEARCHED, _MOST_KNOWN = 2000, 100  # scenes looked through; scenes that are asked about, of either kind


def held_out_embeddings(path: Path) -> tuple[np.ndarray, int]:
    """Read the embeddings of held-out renders and the seed of their scenes; StorageError for a damaged file."""
    try:
        with np.load(path) as saved:
            return saved["image_embeddings"].astype(np.float32), int(saved["seed"])
    except (ValueError, KeyError, BadZipFile) as error:
        raise StorageError(f"cannot read the encoder's held-out embeddings {path}: {error}") from error


@lru_cache(maxsize=4)
def held_out_scenes(seed: int, n: int) -> tuple[Scene, ...]:
    """Return ``n`` balanced scenes that training never draws; a seed gives the same scenes every time."""
    rng = Random(f"held out {seed}")
    return tuple(balanced_scene(rng, lexicon_looks(), things()) for _ in range(n))


def known_scenes(positive: str, negative: str) -> tuple[tuple[int, Scene, bool], ...]:
    """Held-out scenes, by number, for which one of two sentences is true: equally many for each, at most 100.

    Empty if fewer than 20 show either sentence, or if this world does not know the words.
    """
    presence, absence = parse(positive), parse(negative)
    if presence.unknown_words or absence.unknown_words:
        return ()
    scenes: dict[bool, list[tuple[int, Scene, bool]]] = {True: [], False: []}
    for number, scene in enumerate(held_out_scenes(JUDGES_SEED, _SEARCHED)):
        holds, fails = satisfies(scene, presence), satisfies(scene, absence)
        if holds is not None and fails is not None and holds != fails:
            scenes[holds].append((number, scene, holds))
    if min(map(len, scenes.values())) < ENOUGH:
        return ()
    return tuple(entry for entries in scenes.values() for entry in entries[:_MOST_KNOWN])


def known_pictures(size: int, positive: str, negative: str) -> tuple[KnownPicture, ...]:
    """:func:`known_scenes` as pictures of ``size`` pixels, drawn on demand."""
    return tuple(
        KnownPicture(key=f"held-out {size} {number}", shows=shows, draw=partial(draw_scene, scene, size))
        for number, scene, shows in known_scenes(positive, negative)
    )


def truth_table(scenes: Sequence[Scene], requests: Sequence[Request]) -> np.ndarray:
    """``(n_scenes, n_requests)``: 1 true, 0 false, -1 undecided."""
    table = np.empty((len(scenes), len(requests)), dtype=np.int8)
    for i, scene in enumerate(scenes):
        for j, request in enumerate(requests):
            holds = satisfies(scene, request)
            table[i, j] = -1 if holds is None else int(holds)
    return table


def sentence_errors(
    image_embeddings: np.ndarray, text_embeddings: np.ndarray, scenes: Sequence[Scene], positive: str, negative: str
) -> ReaderErrors | None:
    """Errors of "cosine to ``positive`` above cosine to ``negative``" against the scenes' truth.

    ``image_embeddings``: ``(n, d)``, of the renders of ``scenes``; ``text_embeddings``: ``(2, d)``, of the two
    sentences.

    None if fewer than 20 pictures show either sentence, or if this world does not know the words.
    """
    return _count_errors(image_embeddings, text_embeddings, _truth(scenes, positive), _truth(scenes, negative))


def _count_errors(
    image_embeddings: np.ndarray, text_embeddings: np.ndarray, holds: np.ndarray | None, fails: np.ndarray | None
) -> ReaderErrors | None:
    """Errors from ``holds`` and ``fails`` ``(n,)``: flags that a scene shows the first or the second sentence."""
    if holds is None or fails is None:
        return None
    present, missing = (holds == 1) & (fails != 1), (fails == 1) & (holds != 1)
    if min(present.sum(), missing.sum()) < ENOUGH:
        return None
    calls = image_embeddings.astype(np.float32) @ (text_embeddings[0] - text_embeddings[1]) > 0
    return ReaderErrors(
        sensitivity=float(calls[present].mean()),
        specificity=float(1 - calls[missing].mean()),
        n_positive=int(present.sum()),
        n_negative=int(missing.sum()),
    )


def errors_of_sentences(
    image_embeddings: np.ndarray, seed: int, text_embeddings: np.ndarray, sentences: Sequence[tuple[str, str]]
) -> tuple[ReaderErrors | None, ...]:
    """:func:`sentence_errors` of several pairs; ``text_embeddings`` holds their sentences in turn."""
    of_scenes = partial(_held_out_truth, seed, len(image_embeddings))
    return tuple(
        _count_errors(image_embeddings, text_embeddings[2 * i : 2 * i + 2], of_scenes(positive), of_scenes(negative))
        for i, (positive, negative) in enumerate(sentences)
    )


def _truth(scenes: Sequence[Scene], sentence: str) -> np.ndarray | None:
    """Truth of a sentence in each scene, ``(n,)``, as in :func:`truth_table`; None for unknown words."""
    request = parse(sentence)
    return None if request.unknown_words else truth_table(scenes, [request])[:, 0]


@lru_cache(maxsize=512)
def _held_out_truth(seed: int, n: int, sentence: str) -> np.ndarray | None:
    """Truth of a sentence in held-out scenes, cached: every report asks about the same sentences."""
    return _truth(held_out_scenes(seed, n), sentence)
