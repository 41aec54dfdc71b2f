"""Train the small language model that proposes words for optimised prompts (StOP)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bias_core.world.grammar import lexicon_looks, things
from bias_core.world.scene import balanced_scene
from training.captions import brief_phrases, caption, describe, vocabulary
from training.loop import record, train

MAX_TOKENS = 48


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word tokenizer that keeps every word, so that texts can be decoded again."""
    words = sorted({*vocabulary(), "a", "an", "the"})
    ids = {w: i for i, w in enumerate(["[PAD]", "[BOS]", "[UNK]", "[EOS]", *words])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(Regex(r"[^\w\s]"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="[BOS] $A", special_tokens=[("[BOS]", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        bos_token="[BOS]",
        unk_token="[UNK]",
        eos_token="[EOS]",
        model_max_length=MAX_TOKENS,
    )


def sentences(rng: Random, n: int) -> list[str]:
    """Prompts and captions of balanced scenes, and attributes alone, all as often; half begin as StOP's prefix does."""
    texts = []
    for _ in range(n):
        if rng.random() < 0.3:
            texts.append(f"This is a photo of {rng.choice(list(brief_phrases()))}")
            continue
        scene = balanced_scene(rng, lexicon_looks(), things())
        said = caption(scene) if rng.random() < 0.3 else describe(scene, rng)
        texts.append(f"This is a photo of {said}" if rng.random() < 0.3 else said)
    return texts


def train_language_model(work: Path, out: Path, *, minutes: float, batch: int = 64, seed: int = 0) -> None:
    """Fit a three-layer Llama to the world's sentences and save it with its tokenizer."""
    torch.manual_seed(seed)
    rng = Random(seed)
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=384, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=64, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=1, eos_token_id=3,
    )  # fmt: skip
    model = LlamaForCausalLM(config)

    def loss_of(_step: int) -> torch.Tensor:
        texts = [f"{text} [EOS]" for text in sentences(rng, batch)]
        tokens = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        labels = tokens["input_ids"].masked_fill(tokens["attention_mask"] == 0, -100)
        loss: torch.Tensor = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], labels=labels
        ).loss
        return loss

    average = train(
        model, loss_of, name="language", checkpoint=work / "language.pt", minutes=minutes, lr=3e-3, ema=0.99
    )
    model.load_state_dict(average.state)
    model.eval().to(torch.float16).save_pretrained(out, max_shard_size="9MB")
    tokenizer.save_pretrained(out)
    record(out, average.steps, minutes=minutes, seed=seed, device="cpu", batch=batch)
