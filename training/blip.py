"""Train the captioner and the answerer of questions: two small BLIPs over balanced renders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from PIL import Image
from tokenizers import processors
from transformers import (
    BlipConfig,
    BlipForConditionalGeneration,
    BlipForQuestionAnswering,
    BlipImageProcessor,
    BlipProcessor,
    BlipTextConfig,
    BlipVisionConfig,
    PreTrainedTokenizerFast,
)

from bias_core.world.scene import Scene
from training.captions import caption, noun_of
from training.clip import draw_batch
from training.language import build_tokenizer
from training.loop import in_16_bit, record, to_tensor, train

MAX_TOKENS = 64
WHO, PAIRS = 0.5, 0.75
"""Shares of the answerer's lessons: who somebody is, for questions of gender; pairs, for people alone."""


def build_blip_tokenizer() -> PreTrainedTokenizerFast:
    """The language model's words between a beginning and an end mark."""
    tokenizer = build_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 1), ("[EOS]", 3)]
    )
    tokenizer.model_max_length = MAX_TOKENS
    return tokenizer


def build_config(n_words: int) -> BlipConfig:
    """Four layers for pictures, three for words, 128 wide."""
    text = BlipTextConfig(
        vocab_size=n_words, hidden_size=128, encoder_hidden_size=128, intermediate_size=384,
        projection_dim=64, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=MAX_TOKENS,
        pad_token_id=0, bos_token_id=1, eos_token_id=3, sep_token_id=3,
    )  # fmt: skip
    vision = BlipVisionConfig(
        hidden_size=128, intermediate_size=384, projection_dim=64, num_hidden_layers=4,
        num_attention_heads=4, image_size=64, patch_size=8, initializer_range=0.02,
    )  # fmt: skip
    return BlipConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=64)


def questions(scene: Scene, rng: Random) -> list[tuple[str, str]]:
    """Questions about each person in ``scene``: the paired stereotype test's with its answer, or who that person is.

    A whole description teaches which half of the picture is meant sooner than one bit does.
    """
    asked = []
    sides = ("on the left ", "on the right ") if len(scene.people) == 2 else ("",)
    for person, where in zip(scene.people, sides, strict=False):
        if rng.random() < WHO:
            asked.append((f"Who is {where}in the picture?", caption(Scene(people=(person,)))))
            continue
        noun = noun_of(person, rng) if rng.random() < 0.6 else "person"
        answer = "female" if person.gender == "feminine" else "male"
        asked.append((f"What gender is the {noun} {where}in the picture?", answer))
    return asked


class Texts:
    """Tokenises with padding, and hides the padding from the loss."""

    def __init__(self, device: str) -> None:
        self.tokenizer, self.device = build_blip_tokenizer(), device

    def __call__(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, attention mask and labels, ``(n, n_tokens)`` each."""
        tokens = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        ids, mask = tokens["input_ids"].to(self.device), tokens["attention_mask"].to(self.device)
        return ids, mask, ids.masked_fill(mask == 0, -100)


def train_captioner(
    work: Path, out: Path, *, minutes: float, batch: int = 48, seed: int = 0, device: str = "cpu"
) -> None:
    """Teach a BLIP to say everything that a picture shows."""
    torch.manual_seed(seed)
    rng, texts = Random(seed), Texts(device)
    model = _fresh_or_saved(BlipForConditionalGeneration, out, len(texts.tokenizer)).to(device)

    def loss_of(_step: int) -> torch.Tensor:
        model.train()
        scenes, images = draw_batch(rng, batch)
        ids, mask, labels = texts([caption(scene) for scene in scenes])
        pixels = to_tensor(images).to(device)
        with in_16_bit(device):
            loss: torch.Tensor = model(pixel_values=pixels, input_ids=ids, attention_mask=mask, labels=labels).loss
        return loss

    average = train(
        model,
        loss_of,
        name="captioner",
        checkpoint=work / "captioner.pt",
        minutes=minutes,
        lr=1e-3,
        ema=0.99,
        muon=_hidden,
    )
    model.load_state_dict(average.state)
    _save(model, texts.tokenizer, out)
    record(out, average.steps, minutes=minutes, seed=seed, device=device, batch=batch)


def train_answerer(
    work: Path, out: Path, *, captioner: Path, minutes: float, batch: int = 32, seed: int = 0, device: str = "cpu"
) -> None:
    """Teach a BLIP to answer which gender a person presents, alone or on one side of a pair.

    A new one begins with the eyes and the words of the ``captioner``, where there is one: one bit per picture
    teaches seeing far more slowly than whole sentences do. So does what reads the question: in the captioner those
    words look at the picture already, and whom "left" means is learned in hundreds of steps instead of thousands.
    """
    torch.manual_seed(seed)
    rng, texts = Random(seed), Texts(device)
    model = _fresh_or_saved(BlipForQuestionAnswering, out, len(texts.tokenizer))
    if not (out / "config.json").exists() and (captioner / "config.json").exists():
        seen = BlipForConditionalGeneration.from_pretrained(captioner, torch_dtype=torch.float32)
        model.vision_model.load_state_dict(seen.vision_model.state_dict())
        model.text_decoder.load_state_dict(seen.text_decoder.state_dict())
        model.text_encoder.load_state_dict(seen.text_decoder.bert.state_dict())
    model.to(device)

    def loss_of(_step: int) -> torch.Tensor:
        model.train()
        drawn = zip(*draw_batch(rng, batch, pairs=PAIRS), strict=True)
        asked = [(image, told) for scene, image in drawn for told in questions(scene, rng)]
        asking, mask, _ = texts([question for _, (question, _) in asked])
        ids, answer_mask, labels = texts([answer for _, (_, answer) in asked])
        with in_16_bit(device):
            loss: torch.Tensor = model(
                pixel_values=to_tensor([image for image, _ in asked]).to(device),
                input_ids=asking,
                attention_mask=mask,
                decoder_input_ids=ids,
                decoder_attention_mask=answer_mask,
                labels=labels,
            ).loss
        return loss.mean()

    average = train(
        model,
        loss_of,
        name="answerer",
        checkpoint=work / "answerer.pt",
        minutes=minutes,
        lr=1e-3,
        ema=0.99,
        muon=_hidden,
    )
    model.load_state_dict(average.state)
    _save(model, texts.tokenizer, out)
    record(out, average.steps, minutes=minutes, seed=seed, device=device, batch=batch)


def _hidden(name: str) -> bool:
    """Weights inside the layers, which Muon moves."""
    return ".layer" in name


def _fresh_or_saved(kind: Any, out: Path, n_words: int) -> Any:
    """A new model, or the one in ``out`` to be trained further."""
    if (out / "config.json").exists():
        return kind.from_pretrained(out, torch_dtype=torch.float32)
    return kind(build_config(n_words))


def _save(model: Any, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write model and processor as fp16, in shards of at most 9 MB."""
    model.eval().half().save_pretrained(out, max_shard_size="9MB")
    model.float()
    images = BlipImageProcessor(
        size={"height": 64, "width": 64}, resample=Image.Resampling.BILINEAR, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    BlipProcessor(images, tokenizer).save_pretrained(out)
