"""The prior of an unCLIP model apart from its decoder: embeddings of pictures that are not drawn yet.

Kandinsky 2.2 draws in two steps [mandal2024internal, section 3]: a prior draws the CLIP embedding of a picture from the
text, and a decoder draws the picture from this embedding alone. The prior's own CLIP embeds texts and finished pictures
in the same space, so that both steps can be compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import unit_rows
from bias_core.models.family_facts import accepted

WITH_PRIOR = "KandinskyV22CombinedPipeline"
"""The pipeline that has a prior."""
_SHARED = ("prompt", "negative_prompt", "generator")  # arguments that the prior takes as the whole pipeline does
_OF_PRIOR = ("num_inference_steps", "guidance_scale")


def check_has_prior(name: str, pipeline: str) -> None:
    """Raise InvalidInput if a model's pipeline has no prior."""
    if pipeline != WITH_PRIOR:
        raise InvalidInput(
            f"{name} has no prior that draws the embedding of a picture; choose a model that has one, such as "
            "kandinsky-2-2"
        )


def prior_embeddings(pipeline: Any, arguments: Mapping[str, Any]) -> np.ndarray:
    """Return the unit embeddings ``(n, d)`` that the prior draws for a call of the pipeline with these arguments.

    They are those that the decoder gets in that call: the generators begin anew, and nothing else draws before.
    """
    usual = accepted(pipeline)
    prior_arguments = {name: arguments.get(f"prior_{name}", usual[f"prior_{name}"]) for name in _OF_PRIOR}
    shared = {name: arguments[name] for name in _SHARED if name in arguments}
    embeddings, _ = pipeline.prior_pipe(**shared, **prior_arguments, output_type="pt", return_dict=False)
    return _unit_rows(embeddings)


def text_embeddings(pipeline: Any, texts: Sequence[str]) -> np.ndarray:
    """Return the unit embeddings ``(n, d)`` of texts by the prior's CLIP."""
    tokenizer = pipeline.prior_tokenizer
    tokens = tokenizer(
        list(texts), padding="max_length", max_length=tokenizer.model_max_length, truncation=True, return_tensors="pt"
    )
    return _unit_rows(pipeline.prior_text_encoder(tokens.input_ids.to(_device(pipeline))).text_embeds)


def image_embeddings(pipeline: Any, images: Sequence[Image.Image]) -> np.ndarray:
    """Return the unit embeddings ``(n, d)`` of pictures by the prior's CLIP."""
    encoder = pipeline.prior_image_encoder
    pixels = pipeline.prior_image_processor(list(images), return_tensors="pt").pixel_values
    return _unit_rows(encoder(pixels.to(_device(pipeline), encoder.dtype)).image_embeds)


def _device(pipeline: Any) -> Any:
    return pipeline.prior_pipe._execution_device  # noqa: SLF001 - where diffusers itself puts inputs


def _unit_rows(tensor: Any) -> np.ndarray:
    return unit_rows(tensor.float().cpu().numpy())
