"""Builds the readers that the catalogue names: encoders, captioners, answerers, language models, finders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from bias_core.models.catalogue import EncoderInfo, ToolInfo
    from bias_core.protocols import Captioner, ImageTextEncoder, LanguageModel, PersonFinder, VisualQuestionAnswerer
    from bias_core.settings import Settings

    ReaderInfo = EncoderInfo | ToolInfo

R = TypeVar("R")


Unchanged = Callable[[], None]
"""Called when weights were read; raises where their files are no longer those of the version."""


class Placing(Protocol):
    """Decides where a reader works."""

    def __call__(self, role: str, info: ReaderInfo, local: R) -> R:
        """What does the work."""
        ...


class ReaderBuilder:
    """Readers that load nothing before their first use.

    Parameters
    ----------
    settings : of the process.
    source : where a path of the catalogue is: a folder of the assets or of the user, or a hub id.
    device : they run on; of the settings, or another.
    placed : given the role, the entry and the reader, gives what does the work: itself, or one elsewhere.
    """

    def __init__(self, settings: Settings, source: Callable[[str], str], *, device: str, placed: Placing) -> None:
        self._settings, self._source, self._placed = settings, source, placed
        self._where: dict[str, Any] = {"device": device, "offline": settings.offline}

    def encoder(self, info: EncoderInfo, version: str, unchanged: Unchanged) -> ImageTextEncoder:
        """An encoder of open_clip or transformers."""
        from bias_core.adapters.readers.encoders import OpenClipEncoder, TransformersEncoder

        if info.library != "open_clip":
            return self._of_folder("encoder", TransformersEncoder, info, version, unchanged)
        whole = ("", "", info.path)
        architecture, _, weights = whole if info.path == info.local else info.path.partition("/")
        where = self._where | {"unchanged": unchanged}
        clip = OpenClipEncoder(_versioned(info, version), architecture, weights, **where)
        return self._placed("encoder", info, clip)

    def captioner(self, info: ToolInfo, version: str, unchanged: Unchanged) -> Captioner:
        """A captioner."""
        from bias_core.adapters.readers.blip import BlipCaptioner

        return self._of_folder("captioner", BlipCaptioner, info, version, unchanged)

    def answerer(self, info: ToolInfo, version: str, unchanged: Unchanged) -> VisualQuestionAnswerer:
        """An answerer of questions."""
        from bias_core.adapters.readers.blip import BlipAnswerer

        return self._of_folder("answerer", BlipAnswerer, info, version, unchanged)

    def language_model(self, info: ToolInfo, version: str, unchanged: Unchanged) -> LanguageModel:  # noqa: ARG002
        """A language model of a folder, a hub, a package, a GGUF file or a server."""
        if info.library == "endpoint":
            return self._endpoint(info)
        from bias_core.adapters.readers.transformers_lm import TransformersLanguageModel, package_gguf

        source, file = self._source(info.path), None
        if info.local:
            source, file = str(Path(info.local).parent), Path(info.local).name
        elif info.library == "gguf":
            folder, file = package_gguf(info.path)
            source = str(folder)
        where = self._where | {"unchanged": unchanged}
        reader = TransformersLanguageModel(info.id, source, gguf_file=file, **where)
        return self._placed("language_model", info, reader)

    def person_finder(self, info: ToolInfo, encoder: Callable[[str], ImageTextEncoder]) -> PersonFinder:
        """A finder of people; that of the calibration world asks one of the encoders."""
        from bias_core.adapters.readers.person_finder import CalibrationPersonFinder, TorchvisionPersonFinder

        if info.library == "calibration":
            return CalibrationPersonFinder(encoder(info.path))
        return TorchvisionPersonFinder(info.id, info.path, **self._where)

    def _of_folder(self, role: str, kind: Callable[..., R], info: ReaderInfo, version: str, unchanged: Unchanged) -> R:
        where = self._where | {"unchanged": unchanged}
        return self._placed(role, info, kind(_versioned(info, version), self._source(info.path), **where))

    def _endpoint(self, info: ToolInfo) -> LanguageModel:
        from bias_core.adapters.readers.endpoint_lm import Endpoint, EndpointLanguageModel, check_url

        settings = self._settings
        url, key = check_url(settings.llm_url), settings.llm_key.get_secret_value()
        return EndpointLanguageModel(info.name, Endpoint(url=url, model=settings.llm_model, key=key))


def _versioned(info: ReaderInfo, version: str) -> str:
    """The id with the fingerprint of local weights: what was read is kept under this name."""
    return f"{info.id}@{version}" if version else info.id
