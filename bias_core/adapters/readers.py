"""Builds the readers that the catalogue names: encoders, captioners, answerers, language models, finders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.model_catalogue import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from bias_core.model_catalogue import EncoderInfo, ToolInfo
    from bias_core.protocols import (
        Captioner,
        ImageTextEncoder,
        LanguageModel,
        PersonFinder,
        VisualQuestionAnswerer,
    )
    from bias_core.settings import Settings


class ReaderBuilder:
    """Readers that load nothing before their first use.

    Parameters
    ----------
    settings : of the process.
    source : where a path of the catalogue is: a folder of the assets or of the user, or a hub id.
    device : they run on; of the settings, or another.
    """

    def __init__(self, settings: Settings, source: Callable[[str], str], *, device: str) -> None:
        self._settings, self._source = settings, source
        self._where: dict[str, Any] = {"device": device, "offline": settings.offline}

    def encoder(self, info: EncoderInfo) -> ImageTextEncoder:
        """An encoder of open_clip or transformers."""
        if info.library == "open_clip":
            from bias_core.adapters.open_clip_encoder import OpenClipEncoder

            architecture, weights = info.path.split("/", 1)
            return OpenClipEncoder(info.id, architecture, weights, **self._where)
        from bias_core.adapters.transformers_clip import TransformersEncoder

        return TransformersEncoder(self._versioned(info), self._source(info.path), **self._where)

    def captioner(self, info: ToolInfo) -> Captioner:
        """A captioner."""
        from bias_core.adapters.blip import BlipCaptioner

        return BlipCaptioner(self._versioned(info), self._source(info.path), **self._where)

    def answerer(self, info: ToolInfo) -> VisualQuestionAnswerer:
        """An answerer of questions."""
        from bias_core.adapters.blip import BlipAnswerer

        return BlipAnswerer(self._versioned(info), self._source(info.path), **self._where)

    def language_model(self, info: ToolInfo) -> LanguageModel:
        """A language model of a folder, a hub, a package or a server."""
        if info.library == "endpoint":
            return self._endpoint(info)
        from bias_core.adapters.transformers_lm import TransformersLanguageModel, package_gguf

        if info.library != "gguf":
            return TransformersLanguageModel(info.id, self._source(info.path), **self._where)
        folder, file = package_gguf(info.path)
        return TransformersLanguageModel(info.id, str(folder), gguf_file=file, **self._where)

    def person_finder(self, info: ToolInfo, encoder: Callable[[str], ImageTextEncoder]) -> PersonFinder:
        """A finder of people; that of the calibration world asks one of the encoders."""
        from bias_core.adapters.person_finder import CalibrationPersonFinder, TorchvisionPersonFinder

        if info.library == "calibration":
            return CalibrationPersonFinder(encoder(info.path))
        return TorchvisionPersonFinder(info.id, info.path, **self._where)

    def _endpoint(self, info: ToolInfo) -> LanguageModel:
        from bias_core.adapters.endpoint_lm import Endpoint, EndpointLanguageModel, check_url

        settings = self._settings
        url, key = check_url(settings.llm_url), settings.llm_key.get_secret_value()
        return EndpointLanguageModel(info.name, Endpoint(url=url, model=settings.llm_model, key=key))

    def _versioned(self, info: EncoderInfo | ToolInfo) -> str:
        """The id with a fingerprint of local weights: what was read is kept under this name."""
        source = Path(self._source(info.path))
        return f"{info.id}@{fingerprint(source)}" if source.is_dir() else info.id
