"""Readers of pictures and of texts, by role and library; each loads nothing before its first use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bias_core.adapters.readers import encoders, generators
from bias_core.models.catalogue import Role, ToolInfo
from bias_core.settings import Settings


def build_reader(
    role: Role, info: ToolInfo, version: str, *, settings: Settings, source: Callable[[str], str], **where: Any
) -> Any:
    """What reads in this role: an encoder, a captioner, an answerer or a language model.

    What was read is kept under a name with the ``version``, the fingerprint of local weights. ``source`` tells where
    a path of the catalogue is: a folder of the assets or of the user, or a hub id.
    """
    where["offline"] = settings.offline
    if info.library == "endpoint":
        from bias_core.adapters.readers.endpoint_lm import Endpoint, EndpointLanguageModel

        key = settings.llm_key.get_secret_value()
        return EndpointLanguageModel(info.name, Endpoint(url=settings.llm_url, model=settings.llm_model, key=key))
    if role == "language_model":
        if info.library != "gguf":
            return generators.TransformersLanguageModel(info.id, source(info.path), **where)
        path = Path(info.local) if info.local else generators.package_gguf(info.path)
        return generators.TransformersLanguageModel(info.id, str(path.parent), gguf_file=path.name, **where)
    name = f"{info.id}@{version}" if version else info.id
    if info.library == "open_clip":
        architecture, _, weights = info.path.partition("/") if info.path != info.local else ("", "", info.path)
        return encoders.OpenClipEncoder(name, architecture, weights, **where)
    blip = generators.BlipCaptioner if role == "captioner" else generators.BlipAnswerer
    kind: Any = encoders.TransformersEncoder if role == "encoder" else blip
    return kind(name, source(info.path), **where)
