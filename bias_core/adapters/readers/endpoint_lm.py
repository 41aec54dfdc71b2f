"""Models behind an OpenAI-compatible server (a company's, vLLM, llama.cpp): how they are asked, and those of texts."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bias_core.adapters.endpoint import Endpoint, RequestFailed
from bias_core.adapters.readers.answers import read_message
from bias_core.errors import InvalidInput, ModelUnavailable

_BATCH = 32  # prefixes in one request
_FEWER = (20, 5)  # how many likeliest tokens vLLM and OpenAI show at most
_MARK = re.compile(r"<\|?[\w ./-]{1,40}\|?>|\[[A-Z]{1,12}\]|bytes:.*|token_id:\d+")
_STOP_NEEDS = (
    "StOP needs a language model that shows the likeliest next tokens: a server with /v1/completions and logprobs "
    "(vLLM, llama.cpp's server), calibration-language, smollm2, or any causal model of the hub as org/name"
)
_log = logging.getLogger(__name__)


class EndpointReader:
    """A model on a server, which is asked by its settings; asks nothing before the first use.

    The endpoint is from the settings of the machine alone: a visitor who could choose the address could make this
    machine call any other. It will ``sleep`` that many seconds between two attempts.
    """

    def __init__(self, name: str, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name, self.endpoint = name, endpoint
        self._sleep = sleep
        self._unknown: set[str] = set()

    def _said_nothing(self, choice: Any, most: int) -> ModelUnavailable:
        refusal = choice["message"].get("refusal")
        why = (
            f"it refuses: {self.endpoint.safe(str(refusal))}"
            if refusal
            else f"finish_reason {choice.get('finish_reason')!r}"
        )
        return ModelUnavailable(
            f"{self.name} answered nothing ({why}); a model that thinks aloud may need more tokens than "
            f"the {most} it was given, another model would do"
        )

    def _may_lack(self, key: str, reason: str) -> bool:
        """Whether a server that gives this reason does not know a setting that may be left out."""
        return key in ("max_tokens", "temperature") and f"'{key}'" in reason

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON; settings that it says it does not know are left out from then on."""
        for _ in range(4):
            sent: dict[str, Any] = {"model": self.endpoint.model, **body}
            if "max_tokens" in sent and "max_tokens" in self._unknown:  # newer models call it so
                sent["max_completion_tokens"] = sent["max_tokens"]
            sent = {key: value for key, value in sent.items() if key not in self._unknown}
            try:
                return self._answer(path, sent)
            except RequestFailed as refused:
                new = {key for key in sent if self._may_lack(key, refused.reason)}
                if refused.status not in (400, 422) or not new:
                    raise
                self._unknown |= new
        raise ModelUnavailable(f"{self.name} accepts none of the ways in which it was asked")

    def _answer(self, path: str, body: Mapping[str, Any]) -> Any:
        server = self.endpoint
        return server.patience.ask(partial(server.post, self.name, path, body), self._sleep)


class EndpointLanguageModel(EndpointReader):
    """Next tokens and whole answers from a server."""

    _most_shown: int | None = None  # likeliest tokens that the server shows, once it has said so

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` likeliest continuations by one token, likeliest first.

        A server shows only so many tokens (OpenAI 5, vLLM 20 unless told otherwise): there may be far fewer
        than ``n``, which makes StOP's search narrower. Tokens that show nothing are left out.

        Raises InvalidInput: the server continues no text, or shows no probabilities; ModelUnavailable: it
        cannot be reached, refuses, or answers what cannot be understood.
        """
        proposals: list[list[str]] = []
        for start in range(0, len(prefixes), _BATCH):
            batch = list(prefixes[start : start + _BATCH])
            choices = self._continuations(batch, n)
            if len(choices) != len(batch):  # some servers take one text at a time
                choices = [self._continuations([prefix], n)[0] for prefix in batch]
            proposals += [
                [prefix + token for token in tokens[:n]] for prefix, tokens in zip(batch, choices, strict=True)
            ]
        return proposals

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt`` as a user's message; ModelUnavailable where there is none."""
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_new_tokens, "temperature": 0}
        answer = self._ask("chat/completions", body)
        try:
            choice = answer["choices"][0]
            text, _ = read_message(choice["message"])
        except (LookupError, TypeError, AttributeError) as error:
            raise self.endpoint.not_understood(self.name, error) from error
        if not text:
            raise self._said_nothing(choice, max_new_tokens)
        return text

    def _continuations(self, prefixes: list[str], n: int) -> list[list[str]]:
        """Of each prefix, the likeliest next tokens, likeliest first; in one request."""
        n_tokens = min(n, self._most_shown or n)
        body = {"prompt": prefixes if len(prefixes) > 1 else prefixes[0], "max_tokens": 1, "temperature": 0}
        for shown in (n_tokens, *(fewer for fewer in _FEWER if fewer < n_tokens)):
            try:
                answer = self._ask("completions", body | {"logprobs": shown})
            except RequestFailed as refused:
                if refused.status in (404, 405, 501):
                    raise InvalidInput(f"{self.name} continues no texts ({refused.reason}). {_STOP_NEEDS}") from refused
                if "logprob" not in refused.reason:
                    raise
                continue
            if shown < n_tokens:
                _log.warning("%s shows %d tokens at most, where %d were asked for", self.name, shown, n)
                self._most_shown = shown
            try:
                choices = sorted(answer["choices"], key=lambda choice: int(choice.get("index", 0)))
                likeliest = [_likeliest(choice.get("logprobs")) for choice in choices]
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise self.endpoint.not_understood(self.name, error) from error
            if not likeliest or any(tokens is None for tokens in likeliest):
                break
            return [[token for token in tokens or () if _shows_something(token)] for tokens in likeliest]
        raise InvalidInput(f"{self.name} shows no probabilities of tokens. {_STOP_NEEDS}")


def _likeliest(logprobs: Any) -> list[str] | None:
    """Tokens by falling probability, from either form that servers give; None where there are none."""
    if logprobs and logprobs.get("top_logprobs"):
        first = logprobs["top_logprobs"][0]
    elif logprobs and logprobs.get("content"):
        first = {shown["token"]: shown["logprob"] for shown in logprobs["content"][0]["top_logprobs"]}
    else:
        return None
    return sorted(first, key=lambda token: -float(first[token]))


def _shows_something(token: str) -> bool:
    return bool(token.strip()) and token.isprintable() and "\ufffd" not in token and not _MARK.fullmatch(token)
