"""BLIP from transformers: what a picture shows in a sentence, and answers to questions about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import hide_progress_bars, pick_device
from bias_core.adapters.readers.encoders import Batches, as_rgb
from bias_core.adapters.weights import HubWeights, Weights, check_tokenizer, load_whole, variant_of
from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from PIL import Image


class _Blip(HubWeights[tuple[Any, Any, str]]):
    """A BLIP model with its processor; loads nothing before the first picture.

    Parameters
    ----------
    name : for messages and reports.
    source : hub id, or a folder in Hugging Face layout.
    batch_size : pictures at once, at most; halved when memory runs out.
    max_new_tokens : longest caption or answer.
    """

    model_class: str

    def __init__(
        self,
        name: str,
        source: str,
        *,
        device: str = "auto",
        offline: bool = False,
        unchanged: Callable[[], None] = lambda: None,
        batch_size: int = 32,
        max_new_tokens: int = 50,
    ) -> None:
        self.name = name
        self.source = source
        self.max_new_tokens = max_new_tokens
        self._batches = Batches(name, batch_size)
        self._wanted_device = device
        self._offline = offline
        self._parts = Weights(name, source, self._load, unchanged)

    def _generate(self, images: Sequence[Image.Image], questions: Any = None) -> list[str]:
        """What the model says about each picture; ``questions`` are token ids ``(n_images, n_tokens)``."""
        import torch

        if not images:
            return []
        model, processor, device = self._parts()

        def say(batch: Sequence[int]) -> list[str]:
            inputs = processor(images=[as_rgb(images[number]) for number in batch], return_tensors="pt")
            arguments = {"pixel_values": inputs["pixel_values"].to(device)}
            if questions is not None:
                ids = [questions[number] for number in batch]
                arguments["input_ids"] = torch.tensor(ids, device=device)
                arguments["attention_mask"] = torch.ones_like(arguments["input_ids"])
            with torch.inference_mode():
                output = model.generate(**arguments, max_new_tokens=self.max_new_tokens, do_sample=False)
            return [" ".join(text.split()) for text in processor.batch_decode(output, skip_special_tokens=True)]

        with self._parts.running():
            return [text for texts in self._batches.run(range(len(images)), say) for text in texts]

    @property
    def batch_size(self) -> int:
        """Pictures at once, at most; it halves when memory runs out."""
        return self._batches.size

    def _load(self) -> tuple[Any, Any, str]:
        import torch
        import transformers

        hide_progress_bars()
        source = self._here()
        local = {"local_files_only": Path(source).is_dir()}
        device = pick_device(self._wanted_device)
        kind = getattr(transformers, self.model_class)
        variant = variant_of(Path(source), "model", None)
        model = load_whole(
            kind, source, name=self.name, dtype=torch.float32, variant=variant, use_safetensors=True, **local
        )
        check_tokenizer(Path(source), self.name)
        processor = transformers.BlipProcessor.from_pretrained(source, **local)
        return model.to(device).eval(), processor, device


class BlipCaptioner(_Blip):
    """Captions by ``BlipForConditionalGeneration``, see :class:`_Blip`."""

    model_class = "BlipForConditionalGeneration"

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption per picture, the likeliest word at each step; it may be empty."""
        return self._generate(images, None)


class BlipAnswerer(_Blip):
    """Answers by ``BlipForQuestionAnswering``, see :class:`_Blip`."""

    model_class = "BlipForQuestionAnswering"

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """One answer per (picture, question) pair; long questions are cut at the model's limit.

        Raises
        ------
        InvalidInput
            Not one question per picture, or a blank one.
        """
        if len(images) != len(questions):
            raise InvalidInput(
                f"one question per picture is needed; got {len(images)} pictures, {len(questions)} questions."
            )
        if blank := [number for number, text in enumerate(questions, start=1) if not text.strip()]:
            raise InvalidInput(f"question {blank[0]} of {len(questions)} is blank.")
        in_order = [""] * len(questions)
        for numbers, ids in self._by_length(questions):
            answers = self._generate([images[number] for number in numbers], ids)
            for number, answer in zip(numbers, answers, strict=True):
                in_order[number] = answer
        return in_order

    def _by_length(self, questions: Sequence[str]) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Numbers and token ids of questions of equal length.

        The model's ``generate`` reads padding as if it were words, so that an answer would depend on the
        other questions of its batch.
        """
        if not questions:
            return
        model, processor, _ = self._parts()
        limit = int(model.config.text_config.max_position_embeddings)
        rows = processor.tokenizer(list(questions), truncation=True, max_length=limit)["input_ids"]
        for length in sorted({len(ids) for ids in rows}):
            numbers = [number for number, ids in enumerate(rows) if len(ids) == length]
            yield numbers, [rows[number] for number in numbers]
