"""Models on servers of somebody else's, where each picture is a request: how they are named, and what they take."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from bias_core.errors import UnknownModel, quoted
from bias_core.models.fit import ModelFit
from bias_core.types import ModelInfo

Service = Literal["inference", "openai"]
"""Who is asked: a provider behind Hugging Face's Inference Providers, or an OpenAI-compatible server."""
FAMILY = "remote"
SIDE = 1024  # pixels that a picture of a model that is not listed has
_HUB_MODEL = re.compile(
    r"(?:(?P<provider>[a-z0-9][a-z0-9-]{0,40}):)?(?P<path>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})"
)
_SERVER_MODEL = re.compile(r"(?P<path>[A-Za-z0-9][\w./:-]{0,127})")
_UNSENT: Mapping[Service, frozenset[str]] = {
    "inference": frozenset(),
    "openai": frozenset({"num_inference_steps", "guidance_scale", "negative_prompt", "seed"}),
}


@dataclass(frozen=True, kw_only=True)
class HostedName:
    """What the name of a hosted model says."""

    service: Service
    path: str  # the model there: org/name of the hub, or the server's own name
    provider: str = ""  # who draws for Hugging Face; "" for the first that it offers

    @property
    def unsent(self) -> frozenset[str]:
        """The fields of a row that this service has no word for; its pictures do not depend on them."""
        return _UNSENT[self.service]


def hosted_name(name: str) -> HostedName | None:
    """The parts of ``inference:org/name``, ``inference:provider:org/name`` or ``openai:MODEL``; None for other names.

    UnknownModel: the name begins like one of them, and is none.

    >>> hosted_name("inference:fal-ai:org/model").provider, hosted_name("org/model")
    ('fal-ai', None)
    """
    service, sign, rest = name.partition(":")
    if not sign or service not in get_args(Service):
        return None
    if service == "inference" and (match := _HUB_MODEL.fullmatch(rest)):
        return HostedName(
            service="inference", path=match["path"], provider=(match["provider"] or "").replace("auto", "")
        )
    if service == "openai" and (match := _SERVER_MODEL.fullmatch(rest)):
        return HostedName(service="openai", path=match["path"])
    raise UnknownModel(
        f"no hosted model {quoted(name)}; write inference:org/name or inference:provider:org/name for a provider "
        "behind Hugging Face, or openai:MODEL for a model of an OpenAI-compatible server (BIAS_IMAGES_URL)"
    )


def hosted_info(name: str) -> ModelInfo | None:
    """The entry of a hosted model that the catalogue does not list; None where the name is no such model's."""
    hosted = hosted_name(name)
    if hosted is None:
        return None
    return ModelInfo(
        id=name, name=hosted.path, family=FAMILY, default_steps=0, default_guidance=0.0, width=SIDE, height=SIDE
    )


def request_words(n: int, info: ModelInfo, price_usd: float | None = None) -> str:
    """What ``n`` pictures of a hosted model cost, at the catalogue's price or the one that is given.

    >>> request_words(200, ModelInfo(id="openai:m", name="", family=FAMILY), 0.04)
    '200 requests to openai:m, about 8.00 USD at 0.04 USD a picture'
    """
    each = info.price_usd if price_usd is None else price_usd
    cost = "price unknown" if each is None else f"about {n * each:,.2f} USD at {each:g} USD a picture"
    return f"{n:,} request{'s' * (n != 1)} to {info.id}, {cost}"


def hosted_fit(info: ModelInfo, hosted: HostedName, *, has_server: bool) -> ModelFit:
    """What choosing a hosted model means, before anything is asked of it."""
    price = "price unknown" if info.price_usd is None else f"{info.price_usd:g} USD a picture"
    if hosted.service == "openai" and not has_server:
        says = (
            "It needs an OpenAI-compatible server, and none is known here (set BIAS_IMAGES_URL, and "
            "BIAS_IMAGES_KEY for its key)."
        )
        return ModelFit(here=False, works=False, short="hosted, no server is set", says=says)
    who = hosted.provider or "a provider that Hugging Face chooses"
    server = (
        "an OpenAI-compatible server (BIAS_IMAGES_URL)" if hosted.service == "openai" else f"{who}, with your own token"
    )
    seeds = " It takes no seed: pictures cannot be paired." if "seed" in hosted.unsent else ""
    says = f"Each picture is a request to {server}; {price}.{seeds}"
    return ModelFit(here=True, works=True, short=f"hosted, {price}", says=says)
