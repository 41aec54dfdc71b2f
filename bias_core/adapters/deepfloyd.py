"""DeepFloyd IF as one pipeline: 64 x 64 pixels from the text, enlarged four times by a second model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from diffusers import DiffusionPipeline, IFPipeline, IFSuperResolutionPipeline
from diffusers.pipelines.deepfloyd_if import IFPipelineOutput, IFSafetyChecker

_ENLARGED = 4  # times, by the second stage


class SafetyChecker(IFSafetyChecker):
    """The checker, made as transformers 5 wants its models made: diffusers' own cannot be loaded there."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.post_init()


class DeepFloydPipeline(DiffusionPipeline):
    """Stages I and II. The text is encoded once for both, and the checker sees the enlarged picture.

    The third stage (1024 x 1024) is left out: it is a Stable Diffusion upscaler that may change what is in
    the picture. No watermark is drawn into pictures that are to be measured.
    """

    model_cpu_offload_seq = "text_encoder->unet->upscaler->safety_checker"
    _optional_components = ["safety_checker", "feature_extractor"]  # noqa: RUF012  (read by the base class)

    def __init__(
        self,
        tokenizer: Any,
        text_encoder: Any,
        unet: Any,
        scheduler: Any,
        upscaler: Any,
        upscaler_scheduler: Any,
        image_noising_scheduler: Any,
        safety_checker: Any,
        feature_extractor: Any,
    ) -> None:
        super().__init__()
        self.register_modules(
            tokenizer=tokenizer,
            text_encoder=text_encoder,
            unet=unet,
            scheduler=scheduler,
            upscaler=upscaler,
            upscaler_scheduler=upscaler_scheduler,
            image_noising_scheduler=image_noising_scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
        )
        unchecked = {"safety_checker": None, "feature_extractor": None, "watermarker": None}
        self.first = IFPipeline(tokenizer, text_encoder, unet, scheduler, **unchecked, requires_safety_checker=False)
        self.second = IFSuperResolutionPipeline(
            None,
            None,
            upscaler,
            upscaler_scheduler,
            image_noising_scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
            watermarker=None,
            requires_safety_checker=safety_checker is not None,
        )
        for method in ("load_lora_weights", "unload_lora_weights", "set_adapters", "get_list_adapters"):
            setattr(self, method, getattr(self.first, method))  # stage I decides what is drawn

    @classmethod
    def of(cls, first: IFPipeline, second: IFSuperResolutionPipeline) -> "DeepFloydPipeline":
        """Both stages, with the text encoder and the checker of the first."""
        parts = {name: part for name, part in first.components.items() if name != "watermarker"}
        return cls(
            **parts,
            upscaler=second.unet,
            upscaler_scheduler=second.scheduler,
            image_noising_scheduler=second.image_noising_scheduler,
        )

    def __call__(
        self,
        prompt: Sequence[str],
        negative_prompt: Sequence[str],
        *,
        num_inference_steps: int = 100,
        guidance_scale: float = 7.0,
        upscaler_num_inference_steps: int = 50,
        upscaler_guidance_scale: float = 4.0,
        height: int = 256,
        width: int = 256,
        generator: list[torch.Generator] | None = None,
        callback: Callable[[int, Any, Any], None] | None = None,
        output_type: str = "np",
    ) -> IFPipelineOutput:
        """Both stages; ``callback`` is called after each step of either."""
        positive, negative = self.first.encode_prompt(
            list(prompt), negative_prompt=list(negative_prompt), clean_caption=False
        )
        shared = {"prompt_embeds": positive, "negative_prompt_embeds": negative}
        shared |= {"generator": generator, "callback": callback}
        small = self.first(
            **shared,
            num_inference_steps=num_inference_steps,
            guidance_scale=guidance_scale,
            height=height // _ENLARGED,
            width=width // _ENLARGED,
            output_type="pt",
        ).images
        return self.second(
            **shared,
            image=small,
            num_inference_steps=upscaler_num_inference_steps,
            guidance_scale=upscaler_guidance_scale,
            height=height,
            width=width,
            output_type=output_type,
        )

    def set_progress_bar_config(self, **how: Any) -> None:
        """Of both stages."""
        for stage in (self.first, self.second):
            stage.set_progress_bar_config(**how)
