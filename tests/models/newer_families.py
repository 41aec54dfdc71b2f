"""The newer families: how each tiny pipeline is called, by us and bare."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.types import ImageRow, ModelInfo
from tests.models import tiny_families
from tests.models.tiny_parts import torch

PROMPT, OTHER_PROMPT, AGAINST = "a photo of a doctor", "a nurse", "a female"


def plain_guidance(scale: float, against: str):
    """The right arguments of most families, called bare."""
    return {"guidance_scale": scale} | ({"negative_prompt": against} if against else {})


def without_negative(scale: float, _against: str):
    return {"guidance_scale": scale}


def true_cfg(scale: float, against: str):
    return {"true_cfg_scale": scale, "negative_prompt": against or " "}


def by_guider(_scale: float, against: str):
    """The scale is a setting of a component."""
    return {"negative_prompt": against} if against else {}


@dataclass(frozen=True, kw_only=True)
class Newer:
    """One family; ``call`` are options for its size, ``bare`` what else the bare call must be given.

    ``set_to`` are settings of the pipeline as built, for the real one's ask for more than is here: HiDream draws every
    shape at the area that it was trained at, Kandinsky 5 seven sizes, Hunyuan fills texts up, Ovis leaves a part out.
    """

    build: Callable[[], Any]
    set_to: dict[str, Any] = field(default_factory=dict)
    guidance: Callable[[float, str], dict[str, Any]] = plain_guidance
    call: dict[str, Any] = field(default_factory=dict)
    bare: dict[str, Any] = field(default_factory=dict)
    scale: float = 3.0
    steps: int = 2
    size: int = 32
    negative: bool = True
    guided: bool = True


SHORT = {"max_sequence_length": 16}
TEMPLATED = {"max_sequence_length": 128}
LAYERS = {"text_encoder_out_layers": (0, 1, 2)}
EXACT = {"use_resolution_binning": False}
FEW_TOKENS = {"tokenizer_max_length": 30, "tokenizer_2_max_length": 8}


NEWER = {
    "FLUX.2": Newer(build=tiny_families.flux2, guidance=without_negative, call=TEMPLATED | LAYERS,
                    negative=False),
    "FLUX.2 Klein": Newer(build=tiny_families.klein, guidance=without_negative, call=TEMPLATED | LAYERS,
                          negative=False),
    "FLUX.2 Klein, distilled": Newer(build=partial(tiny_families.klein, is_distilled=True), guidance=lambda *_: {},
                                     call=TEMPLATED | LAYERS, negative=False, guided=False),
    "Qwen-Image": Newer(build=tiny_families.qwen_image, guidance=true_cfg),
    "Qwen-Image 2.1": Newer(build=tiny_families.qwen_image_21, guidance=true_cfg),
    "Z-Image": Newer(build=tiny_families.z_image, call=SHORT),
    "HiDream": Newer(build=tiny_families.hidream, set_to={"default_sample_size": 16}, call=SHORT),
    "Chroma": Newer(build=tiny_families.chroma, call=SHORT),
    "Lumina 2": Newer(build=tiny_families.lumina2, call=TEMPLATED),
    "CogView4": Newer(build=tiny_families.cogview4),
    "Kandinsky 5": Newer(build=tiny_families.kandinsky5, set_to={"resolutions": [(64, 64)]}, size=64),
    "SANA-Sprint": Newer(build=tiny_families.sana_sprint, guidance=without_negative, call=TEMPLATED,
                         bare=EXACT, negative=False),
    "SANA-Sprint, 3 steps": Newer(build=tiny_families.sana_sprint, guidance=without_negative, steps=3,
                                  call=TEMPLATED, bare=EXACT | {"intermediate_timesteps": None},
                                  negative=False),
    "PRX": Newer(build=tiny_families.prx, bare=EXACT),
    "OmniGen": Newer(build=tiny_families.omnigen, guidance=without_negative, negative=False),
    "AuraFlow": Newer(build=tiny_families.aura_flow, call=SHORT),
    "GLM-Image": Newer(build=tiny_families.glm_image, guidance=without_negative, negative=False),
    "Ideogram 4": Newer(build=tiny_families.ideogram4, guidance=without_negative, call=SHORT,
                        bare={"guidance_schedule": None}, negative=False),
    "NucleusMoE": Newer(build=tiny_families.nucleus, call=TEMPLATED | {"return_index": -2}),
    "HunyuanImage": Newer(build=tiny_families.hunyuan_image, set_to=FEW_TOKENS, guidance=by_guider),
    "HunyuanImage, distilled": Newer(build=partial(tiny_families.hunyuan_image, guidance_embeds=True), negative=False,
                                     set_to=FEW_TOKENS, guidance=lambda scale, _: {"distilled_guidance_scale": scale}),
    "ERNIE-Image": Newer(build=tiny_families.ernie_image, bare={"use_pe": False}),
    "LongCat-Image": Newer(build=tiny_families.longcat, bare={"enable_prompt_rewrite": False}),
    "Ovis-Image": Newer(build=tiny_families.ovis_image, set_to={"user_prompt_begin_id": 8}, call=TEMPLATED),
    "Krea 2": Newer(build=tiny_families.krea2, call=SHORT),
    "Krea 2, distilled": Newer(build=partial(tiny_families.krea2, is_distilled=True), call=SHORT),
}  # fmt: skip


def model_of(family: str, pipeline: Any, **options: Any) -> DiffusersTextToImage:
    """The adapter, drawing with a pipeline that is in memory."""
    facts = NEWER[family]
    info = ModelInfo(
        id="tiny", name="tiny", family="diffusers", options={"batch_size": 1, "call": facts.call} | options
    )
    model = DiffusersTextToImage(info, "nowhere", device="cpu", offline=True)
    model.use(pipeline)
    return model


def row_of(family: str, **changes: Any) -> ImageRow:
    facts = NEWER[family]
    settings = {
        "prompt": PROMPT, "seed": 3, "num_inference_steps": facts.steps, "guidance_scale": facts.scale,
        "width": facts.size, "height": facts.size,
    }  # fmt: skip
    return ImageRow(model="tiny", **(settings | changes))


def draw_bare(family: str, pipeline: Any, row: ImageRow):
    """The same picture by diffusers alone, called as its makers say."""
    facts = NEWER[family]
    if facts.guidance is by_guider:
        for name in ("guider", "ocr_guider"):
            setattr(pipeline, name, getattr(pipeline, name).new(guidance_scale=row.guidance_scale))
    with torch.inference_mode():
        output = pipeline(
            prompt=row.prompt, generator=torch.Generator("cpu").manual_seed(row.seed),
            num_inference_steps=row.num_inference_steps, width=row.width, height=row.height, output_type="np",
            **facts.guidance(row.guidance_scale, row.negative_prompt), **facts.call, **facts.bare,
        )  # fmt: skip
    return output.images[0] if hasattr(output, "images") else output.image[0]
