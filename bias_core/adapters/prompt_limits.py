"""How much of a prompt the text encoders of a pipeline read."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.family_facts import read_index
from bias_core.adapters.pipeline_loader import KANDINSKY_PRIOR
from bias_core.models.catalogue import split_revision
from bias_core.types import PromptLimit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bias_core.types import ModelInfo

_DEEPFLOYD_LIMIT = 77  # written in its pipeline: the model was trained on so many
_ENDLESS = 1_000_000  # what a tokenizer without a limit of its own says is larger
_FROM_LOWER_CASE = ("PixArt", "IF", "DeepFloyd", "Sana")  # their pipelines change the prompt so


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One tokenizer of a pipeline.

    Attributes
    ----------
    name : of the text encoder behind it: "CLIP", "T5", ...
    tokenizer : of transformers.
    limit : tokens of a prompt that are read, with those that mark its start and end.
    before : text that the pipeline puts before every prompt.
    lower : the pipeline takes prompts in lower case, without spaces around them.
    """

    name: str
    tokenizer: Any
    limit: int
    before: str = ""
    lower: bool = False

    def reads(self, prompt: str) -> PromptLimit:
        """How much of one prompt is read."""
        shown = prompt.lower().strip() if self.lower else prompt
        text, n_before = self.before + shown, 0
        if self.before:
            n_before = len(self.tokenizer.encode(self.before)) - 2
        n_tokens = len(self.tokenizer(text, verbose=False).input_ids) - n_before
        cut = self._past(text, self.limit + n_before) if n_tokens > self.limit else ""
        return PromptLimit(prompt=prompt, reader=self.name, n_tokens=n_tokens, limit=self.limit, cut=cut)

    def _past(self, text: str, limit: int) -> str:
        how = {"truncation": True, "max_length": limit}
        if self.tokenizer.is_fast:
            offsets = self.tokenizer(text, return_offsets_mapping=True, **how).offset_mapping
            return text[max(end for _, end in offsets) :].strip()
        read = self.tokenizer.decode(self.tokenizer(text, **how).input_ids, skip_special_tokens=True)
        return text[len(read) :].strip()


def prompt_limits(readers: Sequence[Reader], prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
    """For each prompt, in order, what each reader takes of it."""
    return tuple(reader.reads(prompt) for prompt in prompts for reader in readers)


def readers_of(pipeline: Any, info: ModelInfo) -> tuple[Reader, ...]:
    """The readers of a loaded pipeline."""
    parts = pipeline.components
    encoders = {name: type(part).__name__ for name, part in parts.items() if "text_encoder" in name}
    tokenizers = {name: parts.get(_tokenizer_name(name, parts)) for name in encoders}
    return tuple(_readers(type(pipeline), encoders, tokenizers, info))


def readers_at(info: ModelInfo, source: str) -> tuple[Reader, ...]:
    """The readers of a pipeline that is not loaded, from files on this machine; none where they are not.

    No weights are read.
    """
    import diffusers

    if info.family == "kandinsky" and not (Path(source) / "prior_tokenizer").is_dir():
        source, revision = split_revision(str(info.options.get("prior", KANDINSKY_PRIOR)))
    else:
        revision = info.revision
    try:
        config = read_index(source, revision=revision or None, local_files_only=True)
        encoders = {
            name: value[1]
            for name, value in config.items()
            if "text_encoder" in name and isinstance(value, list) and isinstance(value[1], str)
        }
        tokenizers = {name: _tokenizer(source, revision, _tokenizer_name(name, config)) for name in encoders}
    except (OSError, ValueError):
        return ()
    kind = getattr(diffusers, str(config.get("_class_name")), None)
    return tuple(_readers(kind, encoders, tokenizers, info))


def _tokenizer_name(encoder: str, parts: Mapping[str, Any]) -> str:
    """Of the component that cuts texts for an encoder: its tokenizer, or a processor that holds one."""
    name = encoder.replace("text_encoder", "tokenizer")
    return name if name in parts else "processor"


def _tokenizer(source: str, revision: str, name: str) -> Any:
    from transformers import AutoTokenizer

    folder = Path(source)
    if folder.is_dir():
        return AutoTokenizer.from_pretrained(folder / name, local_files_only=True)
    return AutoTokenizer.from_pretrained(source, subfolder=name, revision=revision or None, local_files_only=True)


def _readers(
    kind: Any, encoders: Mapping[str, str], tokenizers: Mapping[str, Any], info: ModelInfo
) -> Iterator[Reader]:
    inputs = inspect.signature(kind.__call__).parameters if kind else {}
    call = info.options.get("call", {})
    before = inputs["complex_human_instruction"].default if "complex_human_instruction" in inputs else None
    for name, encoder in encoders.items():
        tokenizer = getattr(tokenizers[name], "tokenizer", tokenizers[name])  # of a processor
        if tokenizer is None:
            continue
        limit = int(tokenizer.model_max_length)
        if not encoder.startswith("CLIP"):
            if "max_sequence_length" in inputs:
                limit = int(call.get("max_sequence_length", inputs["max_sequence_length"].default))
            elif info.family == "deepfloyd":
                limit = _DEEPFLOYD_LIMIT
        if limit < _ENDLESS:
            yield Reader(
                name=_short(encoder),
                tokenizer=tokenizer,
                limit=limit - 2 if before else limit,
                before="\n".join(before or ()),
                lower=bool(kind) and kind.__name__.startswith(_FROM_LOWER_CASE),
            )


def _short(encoder: str) -> str:
    """What people call it: CLIP of CLIPTextModelWithProjection, T5 of T5EncoderModel."""
    name = re.match(r"(U?M?T5|CLIP|[A-Z][a-z]+\d*)", encoder)
    return name[0] if name else encoder
