"""Embeddings of prompts by the generator's text towers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Embedding = tuple[torch.Tensor, torch.Tensor]
"""Embedding of ``n`` prompts: states ``(n, tokens, d)`` and pooled ``(n, d)``."""


def read_tokens(tower: torch.nn.Module, tokens: torch.Tensor) -> Embedding:
    """Embed token ids ``(n, 20)`` by one text tower."""
    out = tower(tokens, output_hidden_states=True)
    return out.hidden_states[-2], out.text_embeds


def read_leaning(tower: torch.nn.Module, tokens: torch.Tensor, more: torch.Tensor) -> Embedding:
    """The same with ``more``, ``(tokens, d)`` or one per prompt, added to the embeddings of the tokens."""
    hook = tower.get_input_embeddings().register_forward_hook(lambda _layer, _ids, out: out + more)
    try:
        return read_tokens(tower, tokens)
    finally:
        hook.remove()


def gender_direction(tokenizer: PreTrainedTokenizerBase, tower: torch.nn.Module) -> torch.Tensor:
    """The direction of length 1 from "female" to "male" among a tower's words."""
    words = tower.get_input_embeddings().weight.detach()
    male, female = words[tokenizer.convert_tokens_to_ids(["male", "female"])]
    return torch.nn.functional.normalize(male - female, dim=0)


def as_two_towers(text: Embedding) -> Embedding:
    """One tower's answer as the pipeline gives it to the transformer: twice, and a zero token for T5."""
    states, pooled = text
    both = torch.cat([states, states], dim=-1)
    return torch.cat([both, torch.zeros_like(both[:, :1])], dim=1), torch.cat([pooled, pooled], dim=-1)


def encode_tokens(tower: torch.nn.Module, tokens: torch.Tensor) -> Embedding:
    """Embed token ids as the pipeline does."""
    return as_two_towers(read_tokens(tower, tokens))
