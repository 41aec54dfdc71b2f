"""What TBYB reads in pictures: captions, objects, gender words, and whether they miss their prompt."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.metrics.evenness import FORMULAS
from bias_core.metrics.object_bias import (
    GenderCounts,
    ObjectDistribution,
    count_gender_words,
    extract_objects,
    jaccard_distances,
    jaccard_hallucination_estimate,
    miss_probability,
    miss_rate_estimate,
    object_counts,
    object_distribution,
    to_person,
)
from bias_core.metrics.object_distribution import presence_of
from bias_core.studies.arms.samples import counted_sample, mean_sample
from bias_core.studies.kit.data import embed_ahead
from bias_core.studies.kit.kind import encoder_of
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.setting_fields import Options, setting, settings_class

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.protocols import Captioner
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import Sample, StudySettings
    from bias_core.types import Estimate, StoredImage

BLANK, STRONGER = "blank", "stronger"
"""The two negatives of M_G: the paper's, and another prompt or sentence."""

ANOTHER = "another prompt"
"""Value of the option "negative": each picture is held against a prompt of other objects."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was read in each picture, in one order.

    Attributes
    ----------
    units, prompts, captions : of each picture.
    prompt_objects, image_objects : that prompt and caption name.
    p_miss : by negative, the probability that the picture fits it rather than its prompt, ``(n,)``.
    """

    units: tuple[str, ...]
    prompts: tuple[str, ...]
    captions: tuple[str, ...]
    prompt_objects: tuple[tuple[str, ...], ...]
    image_objects: tuple[tuple[str, ...], ...]
    p_miss: Mapping[str, np.ndarray]

    def where(self, chosen: pd.Series | np.ndarray) -> Reading:
        """The chosen pictures alone."""
        places = np.flatnonzero(np.asarray(chosen, dtype=bool))
        return Reading(
            units=tuple(self.units[i] for i in places),
            prompts=tuple(self.prompts[i] for i in places),
            captions=tuple(self.captions[i] for i in places),
            prompt_objects=tuple(self.prompt_objects[i] for i in places),
            image_objects=tuple(self.image_objects[i] for i in places),
            p_miss={negative: values[places] for negative, values in self.p_miss.items()},
        )

    @property
    def distances(self) -> np.ndarray:
        """1 − |∩| / |∪| of each picture; nan where neither side names an object."""
        return jaccard_distances(self.prompt_objects, self.image_objects)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The three measures and their companions on one set of pictures.

    Attributes
    ----------
    n_images : pictures.
    distribution : B_D and its companions; None, with the reason in ``why``, where it is undefined.
    hallucination : H_J.
    miss : M_G by negative.
    genders : Table IV.
    counts : in how many pictures each object is.
    samples : what each measure was computed from, by its key in the table of measures or its negative.
    """

    n_images: int
    distribution: ObjectDistribution | None
    why: str
    hallucination: Estimate
    miss: Mapping[str, Estimate]
    genders: GenderCounts
    counts: Mapping[str, int]
    samples: Mapping[str, Sample] = field(default_factory=dict)


@settings_class(frozen=True, kw_only=True)
class CaptioningOptions(Options):
    """Who describes the pictures, and what counts."""

    captioner: str = setting("calibration-captioner", "Captioner", "Who describes each picture")
    negative: str = setting(
        "another prompt",
        "Stronger negative of M_G",
        "another prompt: of the same study; or any sentence; the other negative is a blank",
    )
    exclude_prompt: bool = setting(False, "Leave out what the prompt names", "From B_D, as the released code does")


def captioning_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """The captioner of the options, and the encoder."""
    captioner = Reader(role="captioner", name=settings.options.captioner)
    return (*encoder_of(settings), captioner)


def captioner_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner, or say what it lacks."""
    captioner = services.captioner(settings.options.captioner)
    with services.reading(captioner):
        captioner.caption([Image.new("RGB", (64, 64))])


def caption_ahead(data: StudyData, images: Sequence[StoredImage]) -> None:
    """Caption and embed finished pictures while the next are drawn."""
    embed_ahead(data, images)
    captioner = data.services.captioner(data.settings.options.captioner)
    data.said(captioner, [(image.path.stem, "") for image in images])


def read_pictures(
    settings: StudySettings, data: StudyData, captioner: Captioner | None = None
) -> Generator[Progress, None, Reading]:
    """Caption and embed every picture of the study; by the captioner of the options where none is given."""
    captioner = captioner or data.services.captioner(settings.options.captioner)
    prompts = [str(prompt) for prompt in data.frame["prompt"]]
    captions = yield from data.say("captioning", data.frame, captioner)
    rows = yield from data.embed(data.frame)
    named = {prompt: tuple(extract_objects(prompt)) for prompt in set(prompts)}
    seen = {caption: tuple(extract_objects(caption)) for caption in set(captions)}
    return Reading(
        units=tuple(data.frame["unit"]),
        prompts=tuple(prompts),
        captions=tuple(captions),
        prompt_objects=tuple(named[prompt] for prompt in prompts),
        image_objects=tuple(seen[caption] for caption in captions),
        p_miss=_misses(settings, data, rows),
    )


def _misses(settings: StudySettings, data: StudyData, rows: np.ndarray) -> dict[str, np.ndarray]:
    prompts = [str(prompt) for prompt in data.frame["prompt"]]
    stronger = str(settings.options.negative)
    negatives = {BLANK: [""] * len(prompts), STRONGER: [stronger] * len(prompts)}
    if stronger == ANOTHER:
        negatives[STRONGER] = other_prompts(prompts, list(data.frame["seed"]))
    own = _cosines(data, rows, prompts)
    return {name: miss_probability(own, _cosines(data, rows, texts)) for name, texts in negatives.items()}


def _cosines(data: StudyData, rows: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """Of each picture to its text."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    embedded = data.texts(list(place))
    cosines: np.ndarray = (rows * embedded[[place[text] for text in texts]]).sum(axis=1)
    return cosines


def other_prompts(prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """For each picture a prompt of the study that names other objects, in turn; the same for equal seeds.

    Raises
    ------
    InvalidInput
        All prompts name the same objects, so that none can stand against another.
    """
    named = {prompt: frozenset(to_person(extract_objects(prompt))) for prompt in prompts}
    others = {prompt: [p for p in named if named[p] != named[prompt]] for prompt in named}
    if not all(others.values()):
        raise InvalidInput(
            "all prompts name the same objects, so no other prompt can be the negative of M_G: "
            "give a sentence as the option negative"
        )
    start = {prompt: i for i, prompt in enumerate(named)}
    return [
        others[prompt][(start[prompt] + int(seed)) % len(others[prompt])]
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]


def score(reading: Reading, settings: StudySettings) -> Scores:
    """All measures of a reading."""
    confidence, seed = settings.confidence, settings.seed
    exclude: Any = reading.prompt_objects if settings.options.exclude_prompt else None
    why, distribution, counts = "", None, {}
    try:
        counts = object_counts(reading.image_objects, exclude_prompt=exclude)
        distribution = object_distribution(
            reading.image_objects, exclude_prompt=exclude, confidence=confidence, rng=seed
        )
    except InvalidInput as error:  # few pictures, all alike: no distribution to speak of
        why = str(error)
    return Scores(
        n_images=len(reading.captions),
        distribution=distribution,
        why=why,
        hallucination=jaccard_hallucination_estimate(
            reading.prompt_objects, reading.image_objects, confidence=confidence, rng=seed
        ),
        miss={
            negative: miss_rate_estimate(values, confidence=confidence) for negative, values in reading.p_miss.items()
        },
        genders=count_gender_words(reading.captions, confidence=confidence),
        counts=counts,
        samples=_samples(reading, exclude, has_objects=distribution is not None),
    )


def _samples(reading: Reading, exclude: Any, *, has_objects: bool) -> dict[str, Sample]:
    """Of every measure what it is computed from, so that arms can be compared."""
    samples = {negative: mean_sample(reading.units, values > _MISSED) for negative, values in reading.p_miss.items()}
    samples["jaccard_hallucination"] = mean_sample(reading.units, reading.distances)
    if not has_objects:
        return samples
    _, presence = presence_of(reading.image_objects, exclude)
    by_object = presence.T.tocsr()

    def sample(formula: Callable[[np.ndarray], np.ndarray]) -> Sample:
        return counted_sample(reading.units, lambda times: formula((by_object @ times.T).T))

    return samples | {key: sample(formula) for key, formula in FORMULAS.items()}


_MISSED = 0.5  # a picture misses its prompt above this probability, as M_G counts


def men_drawn(data: StudyData, frame: pd.DataFrame) -> float | None:
    """Percentage of men among the pictures of one person; None where that is not on record."""
    truths = [truth for truth in data.truths(frame) if truth is not None and truth.get("n_people") == 1]
    share = data.services.shown("a photo of a man", truths) if truths else None
    return None if share is None else 100 * share
