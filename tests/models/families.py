"""Every family of generators: how its tiny pipeline is called, and what it can do."""

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.types import ImageRow, ModelInfo, VelocitySpace

PROMPTS = ("a photo of a doctor", "a photo of a nurse", "a man")


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family; ``fixture`` is its pipeline's, ``readers`` its text encoders with the tokens they take."""

    fixture: str
    readers: dict[str, int]
    space: VelocitySpace | None = None
    lora: bool = True
    guidance: float = 3.0
    steps: int = 3
    extra_steps: int = 0
    size: tuple[int, int] = (32, 32)
    options: dict = field(default_factory=dict)


T5_CALL = {"call": {"max_sequence_length": 8}}
PRIOR_CALL, UPSCALER_CALL = ({"call": {f"{stage}_num_inference_steps": 2}} for stage in ("prior", "upscaler"))
FAMILIES = {
    "sd1": Family(fixture="tiny_sd1", space="epsilon", readers={"CLIP": 16}),
    "sd2": Family(fixture="tiny_sd2", space="v_prediction", readers={"CLIP": 16}),
    "sdxl": Family(fixture="tiny_sdxl", space="epsilon", readers={"CLIP": 16}),
    "turbo": Family(fixture="tiny_turbo", space="epsilon", readers={"CLIP": 16}, guidance=0.0, steps=2),
    "sd3": Family(fixture="tiny_sd3", space="flow", readers={"CLIP": 16}, options=T5_CALL),
    "flux": Family(fixture="tiny_flux", space="flow", readers={"CLIP": 16, "T5": 8}, options=T5_CALL),
    "pixart": Family(fixture="tiny_pixart", space="epsilon", readers={"T5": 8}, lora=False, options=T5_CALL),
    "sana": Family(fixture="tiny_sana", space="flow", readers={"Gemma2": 6}, size=(64, 32), options=T5_CALL),
    "kandinsky": Family(fixture="tiny_kandinsky", readers={"CLIP": 16}, lora=False, extra_steps=2, options=PRIOR_CALL),
    "deepfloyd": Family(fixture="tiny_deepfloyd", readers={"T5": 77}, extra_steps=2, options=UPSCALER_CALL),
}


def folder_of(family: str, request) -> Path:
    found: Path = request.getfixturevalue(FAMILIES[family].fixture)
    return found / "pipeline" if family == "sd3" else found


def build(family: str, folder: Path, **how) -> DiffusersTextToImage:
    """A fresh adapter on the family's tiny pipeline."""
    facts = FAMILIES[family]
    beside = {"prior": str(folder.parent / "prior"), "upscaler": str(folder.parent / "upscaler")}
    options = {"batch_size": 2, **facts.options, **beside, **how.pop("options", {})}
    info = ModelInfo(id=f"tiny-{family}", name="tiny", family=family, options=options)
    return DiffusersTextToImage(info, str(folder), device="cpu", offline=True, **how)


READ: dict[Path, Any] = {}  # pipelines by folder


def shared(family: str, request, **how) -> DiffusersTextToImage:
    """A fresh adapter on the pipeline that all tests have in common, which they leave as it is."""
    folder = folder_of(family, request)
    model = build(family, folder, **how)
    if folder in READ:
        model.use(READ[folder])
    READ[folder] = model.pipeline()
    return model


def own(family: str, request, **how) -> DiffusersTextToImage:
    """The same on a pipeline of its own, to be changed."""
    model = shared(family, request, **how)
    model.use(deepcopy(model.pipeline()))
    return model


def build_sd3(folder: Path, loras: Path | None = None, **options) -> DiffusersTextToImage:
    """The same on the tiny SD3, whose base is the condition "fair", with the adapters beside it or others."""
    options = {"base_condition": "fair"} | options
    return build("sd3", folder / "pipeline", loras=loras or folder / "loras", options=options)


def pixels(generated) -> list[np.ndarray]:
    return [np.asarray(item.image) for item in generated]


def rows_of(family: str, n: int = 3, **changes) -> list[ImageRow]:
    facts = FAMILIES[family]
    width, height = facts.size
    settings = {"num_inference_steps": facts.steps, "guidance_scale": facts.guidance, "width": width, "height": height}
    return [ImageRow(prompt=PROMPTS[i % 3], seed=i, model=f"tiny-{family}", **(settings | changes)) for i in range(n)]
