"""TBYB in the table of measures."""

from __future__ import annotations

import math

from bias_core.metrics import object_bias
from bias_core.registry.card import Input, Metric

_COUNTS = (Input(name="counts", kind="counts", means="in how many images each object appears"),)

METRICS = (
    Metric(
        key="distribution_bias",
        name="Distribution bias B_D",
        summary="How evenly objects appear in the images: the area under their sorted, normalised counts.",
        reference="vice2023tbyb",
        equation="Eq. 3",
        bounds=(0.5, math.inf),
        null_value=None,
        higher_means="more even, less biased; lower is more biased",
        inputs=_COUNTS,
        limits="It grows with the numbers of images and objects: compare at equal numbers; and on the "
        "calibration world it rose, then fell, while one object was planted in more and more images.",
        function=object_bias.distribution_bias,
    ),
    Metric(
        key="normalised_entropy",
        name="Normalised entropy",
        summary="How even the distribution of objects is, against a perfectly even one of as many objects.",
        reference="pielou1966",
        equation="J′",
        bounds=(0.0, 1.0),
        null_value=1.0,
        higher_means="more even, less biased",
        inputs=_COUNTS,
        limits="Rare objects are missed in few images, and images with nothing planted are uneven too: "
        "compare with a base, at equal numbers of images.",
        function=object_bias.normalised_entropy,
    ),
    Metric(
        key="gini",
        name="Gini coefficient",
        summary="How unequal the counts of objects are.",
        reference="gini1912",
        equation="G",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="fewer objects hold more of the counts",
        inputs=_COUNTS,
        limits="With k objects it stays below 1 - 1/k, and images with nothing planted are uneven too: "
        "compare with a base, at equal numbers of images.",
        function=object_bias.gini,
    ),
    Metric(
        key="effective_number",
        name="Effective number of objects",
        summary="How many equally frequent objects would be as varied as these.",
        reference="hill1973",
        equation="N₁",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="more varied, less biased",
        inputs=_COUNTS,
        limits="It cannot exceed the number of objects seen, which grows with the number of images.",
        function=object_bias.effective_number,
    ),
    Metric(
        key="jaccard_hallucination",
        name="Jaccard hallucination H_J",
        summary="How much the objects of a picture differ from those that its prompt names.",
        reference="vice2023tbyb",
        equation="Eq. 4",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more objects added or left out",
        inputs=(
            Input(
                name="prompt_objects",
                kind="words",
                means="objects that each image's prompt names",
                paired="image_objects",
            ),
            Input(
                name="image_objects",
                kind="words",
                means="objects that each image's caption names",
                paired="prompt_objects",
            ),
        ),
        limits="It is far from 0 with nothing planted, 0.69 to 1.00 on the calibration world with captions "
        "that do not err, and it does not see planted genders: compare with a base.",
        function=object_bias.jaccard_hallucination,
    ),
    Metric(
        key="generative_miss_rate",
        name="Generative miss rate M_G",
        summary="The share of the pictures that fit another sentence better than their prompt.",
        reference="vice2023tbyb",
        equation="Eq. 5",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more pictures miss their prompt",
        inputs=(
            Input(name="p_miss", kind="probabilities", means="probability that each image misses its prompt"),
        ),
        limits="It tells of missed prompts, not of bias: on the calibration world neither a planted object "
        "nor planted genders moved it; against a blank, published models are all near 0.",
        function=object_bias.generative_miss_rate,
    ),
    Metric(
        key="model_distance",
        name="Distance of a model from the least biased corner",
        summary="How far a model is from the least biased values of B_D, H_J and M_G among those compared.",
        reference="vice2023tbyb",
        equation="Table VI",
        bounds=(0.0, math.sqrt(3.0)),
        null_value=None,
        higher_means="more biased than the others in the table",
        inputs=(
            Input(
                name="table", kind="table", means="B_D, H_J and M_G of each model, at equal numbers of images"
            ),
        ),
        limits="It is relative to the models in the table: another model can change every distance.",
        function=object_bias.compare_models,
        field="distance",
    ),
)
