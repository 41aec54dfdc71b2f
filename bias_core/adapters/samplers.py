"""Samplers by plain names: another scheduler of diffusers in a pipeline's place of its own, for one call."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bias_core.adapters import diffusers
from bias_core.adapters.family_facts import PipelineFacts, facts_of
from bias_core.errors import InvalidInput
from bias_core.types import ModelInfo

SAMPLERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "ddpm": ("DDPMScheduler", {}),
    "pndm": ("PNDMScheduler", {}),
    "lms": ("LMSDiscreteScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler-a": ("EulerAncestralDiscreteScheduler", {}),
    "dpm2": ("KDPM2DiscreteScheduler", {}),
    "dpm2-a": ("KDPM2AncestralDiscreteScheduler", {}),
    "dpm++": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++"}),
    "dpm++-karras": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "use_karras_sigmas": True}),
    "dpm++-sde": ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}),
    "deis": ("DEISMultistepScheduler", {}),
    "unipc": ("UniPCMultistepScheduler", {}),
}
"""For each name of :data:`bias_core.types.Sampler` the class of diffusers, and what it is built with beside the
configuration of the pipeline's own."""
_CHANGEABLE = {"sd1", "sd2", "sdxl", "pixart", "diffusers"}  # families whose samplers can be changed, or nobody knows
_OWN_STEPS = {"LCMScheduler", "SCMScheduler", "TCDScheduler"}  # the network was distilled for the steps of these


def check_sampler(info: ModelInfo, facts: PipelineFacts | None, sampler: str) -> None:
    """InvalidInput where this model cannot be sampled so; of ``facts`` that are not here, its family decides."""
    if sampler and (why := _reason(info, facts, sampler)):
        raise InvalidInput(f"{info.id} cannot be drawn with the sampler {sampler}: {why}; leave the sampler out")


def _reason(info: ModelInfo, facts: PipelineFacts | None, sampler: str) -> str:
    if facts is None:
        return "" if info.family in _CHANGEABLE else f"models of the family {info.family} have one of their own"
    config = facts.scheduler
    name = str(config.get("_class_name", ""))
    if "FlowMatch" in name or config.get("prediction_type") == "flow_prediction" or config.get("use_flow_sigmas"):
        return f"it is a flow model, whose steps only its own scheduler ({name}) can take"
    if sum(name.endswith("scheduler") for name in inspect.signature(facts.kind.__init__).parameters) > 1:
        return "it draws in several stages, each with a scheduler of its own"
    if name in _OWN_STEPS or str(config.get("variance_type", "")).startswith("learned"):
        return f"its network was trained for the steps of its own scheduler ({name})"
    if SAMPLERS[sampler][0] not in {name, *getattr(getattr(diffusers, name, None), "_compatibles", ())}:
        return f"its own scheduler ({name or 'unknown'}) cannot be exchanged for that"
    return ""


@contextmanager
def sampled_by(pipeline: Any, info: ModelInfo, sampler: str) -> Iterator[None]:
    """Have the pipeline draw with this sampler until the block ends; with "", its own."""
    if not sampler:
        yield
        return
    check_sampler(info, facts_of(pipeline), sampler)
    own, (name, more) = pipeline.scheduler, SAMPLERS[sampler]
    pipeline.scheduler = getattr(diffusers, name).from_config(own.config, **more)
    try:
        yield
    finally:
        pipeline.scheduler = own
