"""The prior of an unCLIP model against its decoder: where the effect of a prompt becomes visible.

The prior draws the embedding of a picture from the text, and the decoder the picture from the embedding alone. Both are
read by the prior's own CLIP, on the same seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.exchange import PriorEffects, prior_effects
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.sequential import share_interval
from bias_core.protocols import HasPrior, StepCallback
from bias_core.report.arm_comparison import mean_sample
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run, Steps
from bias_core.store.readings import open_pictures
from bias_core.study.design import ReportTexts, distinct_texts
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    Finding,
    Results,
    Shot,
    StudyReport,
    StudySettings,
    columns,
    drawable,
    finding,
    get_options,
    mark,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate, StoredImage
from bias_core.values import Options, option_values, setting, settings_class
from bias_core.wording import format_change

TEXTS = ReportTexts(__file__)
_PRIOR_NOTE = (
    "The prior draws the embedding of a picture from the prompt; the decoder gets this embedding and no text. "
    "Embeddings and finished pictures are read by the prior's own CLIP with the same two sentences, seed by seed. All "
    "of a prompt's effect passes through the prior: what pictures show and their embeddings do not, the decoder makes "
    "of them."
)
_FEWEST_SEEDS = 4
_AT_ONCE = 8  # pictures
_PLACES = {"prior": "In the prior's embeddings", "whole": "In the pictures"}


@settings_class(frozen=True, kw_only=True)
class PriorOptions(Options):
    """The prompts to compare, and the attribute to measure."""

    text: str = setting("a photo of a person", "Text", "Prompt that the others are compared with")
    other_texts: tuple[str, ...] = setting(
        ("a photo of a doctor",), "Other prompts", "Prompts that are compared with the first"
    )
    attribute: str = setting("man", "Attribute", "Name of the attribute")
    present: str = setting(
        "a photo of a man", "Sentence of its presence", "Sentence that describes pictures with the attribute"
    )
    absent: str = setting(
        "a photo of a woman", "Sentence of its absence", "Sentence that describes pictures without the attribute"
    )


def _model_with_prior(model: object, name: str) -> HasPrior:
    if isinstance(model, HasPrior):
        return model
    raise InvalidInput(
        f"{name} has no prior that can be read here; this study needs an unCLIP model, such as kandinsky-2-2, that "
        "draws in this process"
    )


def _read_prior(data: Run, model: HasPrior, options: PriorOptions) -> Steps[pd.DataFrame]:
    """Return margins by the prior's CLIP, of each picture's embedding by the prior and of the picture itself."""
    stored = data.stored(data.frame)
    with data.services.model_lock:
        present, absent = model.prior_texts([options.present, options.absent])

    def read(part: Sequence[StoredImage], _on_step: StepCallback) -> np.ndarray:
        pictures = open_pictures(part)
        with data.services.model_lock:
            drawn = model.prior_embeddings([picture.row for picture in part])
            margins: np.ndarray = np.stack([drawn, model.prior_images(pictures)], axis=1) @ (present - absent)
        return margins

    parts = [stored[first : first + _AT_ONCE] for first in range(0, len(stored), _AT_ONCE)]
    margins = yield from data.map_until_stopped("parts of the pictures read by the prior's CLIP", parts, read)
    values = np.concatenate(margins)
    # A stopped run has read the first pictures only.
    return pd.DataFrame(values, columns=["prior", "picture"], index=data.frame.index[: len(values)])


def _match_seeds(data: Run, margins: pd.DataFrame, texts: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the margins of each text, of the seeds that all texts have."""
    frame = data.frame.loc[margins.index, ["seed", "text", "unit"]].join(margins)
    parts = {text: frame[frame["text"] == text].set_index("seed") for text in texts}
    seeds = sorted(set.intersection(*(set(part.index) for part in parts.values())))
    if len(seeds) < 2:
        raise InvalidInput(
            f"only {len(seeds)} seeds have a picture of every prompt, and 2 are needed; use more seeds, or check why "
            "pictures are blocked"
        )
    return {text: part.loc[seeds] for text, part in parts.items()}


def _effects(first: pd.DataFrame, second: pd.DataFrame, confidence: float) -> PriorEffects:
    return prior_effects(first["prior"], second["prior"], first["picture"], second["picture"], confidence=confidence)


def _findings(text: str, effects: PriorEffects, first: pd.DataFrame, second: pd.DataFrame) -> Iterator[Finding]:
    columns_of = {"prior": "prior", "whole": "picture"}
    for name, title in _PLACES.items():
        estimate: Estimate = getattr(effects, name)
        column = columns_of[name]
        sample = mean_sample(tuple(map(str, first["unit"])), (second[column] > 0).astype(float) - (first[column] > 0))
        yield finding(f"{text}: {name}", f"“{text}”: {title.lower()}", "exchange_effect", estimate, sample=sample)


def _share_row(text: str, part: pd.DataFrame, confidence: float) -> dict[str, Any]:
    n, added = len(part), prevalence_difference_test(part["prior"], part["picture"], confidence=confidence)
    return {
        "prompt": text,
        **columns("P prior", share_interval(int((part["prior"] > 0).sum()), n, confidence=confidence)),
        **columns("P pictures", share_interval(int((part["picture"] > 0).sum()), n, confidence=confidence)),
        **columns("difference", added.estimate),
        "margin prior": float(part["prior"].mean()),
        "margin pictures": float(part["picture"].mean()),
        "seeds": n,
    }


class Prior(Study):
    """The prior's embeddings compared with the finished pictures."""

    kind = "prior"
    options = PriorOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of every prompt, on the same seeds."""
        options = get_options(settings, PriorOptions)
        texts = distinct_texts((options.text, *options.other_texts))
        if len(texts) < 2 or not all((options.text.strip(), options.attribute, options.present, options.absent)):
            raise InvalidInput("a comparison needs a prompt, others, and an attribute with its two sentences")
        n = scaled(self.design.images_per_prompt, settings.scale, minimum=_FEWEST_SEEDS)
        return [Shot(prompt=text, n=n, group="prompts", facts={"text": text}) for text in texts]

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure the effect of each prompt in the prior's embeddings and in the pictures."""
        options, confidence = get_options(settings, PriorOptions), settings.confidence
        rows = yield from data.embed(data.frame)
        present, absent = data.sentences([options.present, options.absent])
        model = _model_with_prior(data.rows.model(data.services), settings.model)
        margins = yield from _read_prior(data, model, options)
        data.keep(
            data.frame.loc[margins.index],
            **{
                f"{options.attribute}: nearer by": (rows @ (present - absent))[: len(margins)],
                "nearer by, prior": margins["prior"],
                "nearer by, picture": margins["picture"],
            },
        )
        first_text, *other_texts = dict.fromkeys(data.frame["text"])
        parts = _match_seeds(data, margins, [first_text, *other_texts])
        first = parts[first_text]
        effects = {text: _effects(first, parts[text], confidence) for text in other_texts}
        names = {"attribute": options.attribute, "text": first_text}
        marks = [
            mark(f"“{text}”: {title}", getattr(effect, name))
            for text, effect in effects.items()
            for name, title in {**_PLACES, "decoder": "Added by the decoder"}.items()
        ]
        return Results(
            findings=tuple(
                finding for text, effect in effects.items() for finding in _findings(text, effect, first, parts[text])
            ),
            tables=(
                TEXTS.table(
                    "prior effects",
                    [
                        {
                            "prompt": text,
                            **columns("effect", effect.whole),
                            **columns("prior", effect.prior),
                            **columns("decoder", effect.decoder),
                            "seeds": effect.whole.n,
                        }
                        for text, effect in effects.items()
                    ],
                    **names,
                ),
                TEXTS.table("prior shares", [_share_row(text, part, confidence) for text, part in parts.items()]),
            ),
            figures=drawable([TEXTS.figure("prior effects", marks, **names)]),
            notes=(_PRIOR_NOTE,),
        )

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Refuse models without a prior, and imported pictures."""
        if settings.images:
            raise InvalidInput("imported pictures have no prior to look into; this study draws with one")
        _model_with_prior(services.text_to_image(settings.model), settings.model).check_prior()

    def headline(self, report: StudyReport) -> str:
        """Say how much of the first prompt's effect is in the prior's embeddings already."""
        options, row = (
            option_values(report.settings.options),
            report.results.frame("prior effects").to_dict("records")[0],
        )
        whole, prior, decoder = (_format_effect(row, name) for name in ("effect", "prior", "decoder"))
        return (
            f"From “{options['text']}” to “{row['prompt']}”, the share of {options['attribute']} changes by {prior} in "
            f"the prior's embeddings and by {whole} in the pictures; the decoder adds {decoder}."
        )


def _format_effect(row: Mapping[Any, Any], name: str) -> str:
    return format_change(row[name], row[f"{name} low"], row[f"{name} high"])
