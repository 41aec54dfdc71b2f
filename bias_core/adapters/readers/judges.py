"""Judges of pictures: a vision-language model, one behind a server, or an image classifier, asked yes or no."""

import base64
import io
import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from PIL import Image

from bias_core.adapters import torch, transformers
from bias_core.adapters.endpoint import Endpoint, RequestFailed
from bias_core.adapters.readers.answers import open_thought, read_message
from bias_core.adapters.readers.encoders import as_rgb
from bias_core.adapters.readers.endpoint_lm import EndpointReader
from bias_core.adapters.readers.generators import check_questions
from bias_core.adapters.weights import Reader, load_whole, pick_device
from bias_core.errors import InvalidInput, ModelUnavailable

ANSWER_WORDS = (("yes",), ("no",), ("cannot", "can't"))
"""How answers begin that say yes, no, and cannot tell, in the order of the probabilities."""

_CERTAIN = np.eye(3)
_FIRST_WORD = re.compile(r"\b(?:(yes)|(no)|(cannot|can['’]t|unable|unclear|unsure))\b", re.IGNORECASE)
_MARKS = " \n\t\"'“”*.,:!▁Ġ"  # around a token
_MOST_TOKENS = 16  # of an answer
_TOKENS_WITH_THOUGHTS = 4096  # of a model that thinks aloud before it
_SHOWN_TOKENS = 20  # likeliest tokens that a server is asked for; OpenAI and vLLM show no more
_MOSTLY = 0.5  # what the first tokens must hold of the three answers, for a text is read otherwise
_REFUSALS = {"content_filter", "content_policy_violation", "moderation_blocked"}
_INSTRUCTION = " Answer yes"  # where a question's own words end


class TransformersJudge(Reader[tuple[Any, Any, list[Any], str]]):
    """Answers of ``AutoModelForImageTextToText`` in its chat form, by the first token that it would say.

    A probability is the softmax over the three answers, each the sum over its words' spellings ("yes", "Yes", " YES").
    Pictures of one size with the same question go together: none is padded, so no answer depends on its company.
    """

    def __init__(self, name: str, source: str, *, batch_size: int = 8, **options: Any) -> None:
        super().__init__(name, source, batch_size=batch_size, **options)

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell".

        Raises InvalidInput: not one question per picture, or a blank one; ModelUnavailable: weights missing or
        corrupt, or a model that holds no conversation about a picture.
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
            [{"role": "user", "content": [{"type": "image", "image": as_rgb(images[number])}, text]}]
            for number in numbers
        ]
        how = {"add_generation_prompt": True, "enable_thinking": False}  # templates without this switch ignore it
        if open_thought(processor.apply_chat_template(turns[:1], tokenize=False, **how)[0]):
            raise ModelUnavailable(
                f"{self.name} thinks aloud before it answers, so its first word is no answer; choose one of the "
                "-Instruct models, or serve it (BIAS_JUDGE_URL)"
            )
        inputs = processor.apply_chat_template(turns, tokenize=True, return_dict=True, return_tensors="pt", **how)
        inputs = inputs.to(device, dtype=model.dtype)
        with torch.inference_mode():
            logits = model(**inputs).logits[:, -1].float()  # (n, n_words)
        if not torch.isfinite(logits).all():
            raise ModelUnavailable(f"{self.name} answers NaN; its weights are corrupt or of too low precision")
        each = torch.stack([logits[:, ids].logsumexp(dim=-1) for ids in tokens], dim=-1)
        answers: np.ndarray = each.softmax(dim=-1).double().cpu().numpy()
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
                f"{self.name} has no chat template, so it holds no conversation about a picture; choose a model that "
                "was taught to answer, such as one of the -Instruct models"
            )
        tokens = [torch.tensor(ids, device=device) for ids in first_tokens(processor.tokenizer, self.name)]
        return model.to(device).eval(), processor, tokens, device


def first_tokens(tokenizer: Any, name: str) -> list[list[int]]:
    """By answer, the ids of tokens with which it may begin, and no other answer; ModelUnavailable for none."""
    ids: list[set[int]] = []
    for words in ANSWER_WORDS:
        forms = {form for word in words for form in (word, word.capitalize(), word.upper())}
        texts = [space + form for form in sorted(forms) for space in ("", " ")]
        ids.append({tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in texts})
    own = [
        some - {tokenizer.unk_token_id}.union(*(others for j, others in enumerate(ids) if j != i))
        for i, some in enumerate(ids)
    ]
    if not all(own):
        raise ModelUnavailable(f"{name} begins yes, no and cannot tell with the same token; choose another model")
    return [sorted(some) for some in own]


class ClassifierJudge(Reader[Any]):
    """Answers of an image classifier, by what its ``labels`` mean: a label, and the word that it stands for.

    A question that names the words of some labels is answered yes by their probability and no by that of the other
    labels that have a word; what is left, or all where it names none, is "cannot tell".
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
            parts = self._batches.run(images, lambda batch: classify([*map(as_rgb, batch)], top_k=len(every)))
            shares = [{one["label"]: one["score"] for one in given} for part in parts for given in part]
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
    """Labels of a classifier with their words; InvalidInput quotes what is none.

    >>> read_labels("Male=man, Female=woman")
    {'Male': 'man', 'Female': 'woman'}
    """
    pairs = [one.partition("=") for one in text.split(",")]
    words = {label.strip(): word.strip() for label, _, word in pairs}
    if not all(words) or not all(words.values()):
        raise InvalidInput(f"labels of a classifier are Label=word, with commas between; got {text!r}")
    return words


class EndpointJudge(EndpointReader):
    """Answers of a model on a server, by the likeliest first tokens where it shows them, else by its text."""

    def __init__(self, name: str, endpoint: Endpoint, *, at_once: int = 4, **options: Any) -> None:
        super().__init__(name, endpoint, **options)
        self.at_once, self._most_tokens = at_once, _MOST_TOKENS

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell", which a refusal to answer is, too.

        Raises InvalidInput: as for other judges; ModelUnavailable: it cannot be reached, or is not understood.
        """
        check_questions(images, questions)
        pool = ThreadPoolExecutor(self.at_once)
        try:
            return np.array(list(pool.map(self._answer_one, images, questions))).reshape(-1, 3)
        finally:
            pool.shutdown(cancel_futures=True)

    def _answer_one(self, image: Image.Image, question: str) -> np.ndarray:
        content = [{"type": "image_url", "image_url": {"url": _data_uri(image)}}, {"type": "text", "text": question}]
        body = {
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self._most_tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": _SHOWN_TOKENS,
        }
        try:
            choice = self._ask("chat/completions", body)["choices"][0]
            text, thought = read_message(choice["message"])
            answer = None if thought else _by_tokens(choice.get("logprobs"))
        except RequestFailed as refused:
            if refused.code in _REFUSALS:
                return _CERTAIN[2]
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self.endpoint.not_understood(self.name, error) from error
        if answer is not None:
            return answer
        if text or choice.get("finish_reason") != "length":
            return by_text(text)
        if self._most_tokens == _TOKENS_WITH_THOUGHTS:
            raise self._said_nothing(choice, self._most_tokens)
        self._most_tokens = _TOKENS_WITH_THOUGHTS
        return self._answer_one(image, question)

    def _may_lack(self, key: str, reason: str) -> bool:
        return super()._may_lack(key, reason) or ("logprobs" in key and "logprob" in reason)


def by_text(text: str) -> np.ndarray:
    """The answer that a text gives first, with certainty ``(3,)``; "cannot tell" where it gives none.

    >>> by_text("No, she looks young.").tolist(), by_text("I am sorry, I can't say no.").tolist()
    ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    """
    match = _FIRST_WORD.search(text)
    return np.array(_CERTAIN[2 if match is None or match.lastindex is None else match.lastindex - 1])


def _by_tokens(logprobs: Any) -> np.ndarray | None:
    """The shares of the answers among the likeliest first tokens; None where these are mostly something else."""
    if not logprobs or not logprobs.get("content"):
        return None
    first = logprobs["content"][0]
    shown = {str(one["token"]): float(one["logprob"]) for one in (first, *first.get("top_logprobs", ()))}
    sums = np.zeros(3)
    for token, logprob in shown.items():
        word = token.strip(_MARKS).lower().replace("’", "'")
        for i, words in enumerate(ANSWER_WORDS):
            if word in words or (i == 2 and word and any(whole.startswith(word) for whole in words)):
                sums[i] += math.exp(logprob)
    total = float(sums.sum())
    return sums / total if total > _MOSTLY else None


def _data_uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    as_rgb(image).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
