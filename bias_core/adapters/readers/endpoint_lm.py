"""A language model behind an OpenAI-compatible server: a company's, or one's own vLLM or llama.cpp."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from bias_core.errors import InvalidInput, ModelUnavailable

_BATCH = 32  # prefixes in one request
_FEWER = (20, 5)  # how many likeliest tokens vLLM and OpenAI show at most
_RETRIED = {408, 409, 429, 500, 502, 503, 504, 529}
_MARK = re.compile(r"<\|?[\w ./-]{1,40}\|?>|\[[A-Z]{1,12}\]|bytes:.*|token_id:\d+")
_STOP_NEEDS = (
    "StOP needs a language model that shows the likeliest next tokens: a server with /v1/completions and logprobs "
    "(vLLM, llama.cpp's server), calibration-language, smollm2, or any causal model of the hub as org/name"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the server is and how long it is waited for; ModelUnavailable where the address is none."""

    url: str  # base address, with or without its "/v1"; "https://user:password@host" works too
    model: str  # its name on that server
    # sent with every request, and never shown; "" for servers that ask for none
    key: str = field(default="", repr=False)
    seconds: float = 120.0  # that an answer may take
    attempts: int = 4  # requests in all, at least 1, for an answer that fails for a while
    longest_pause: float = 30.0  # seconds between two of them at most, whatever the server asks for

    def __post_init__(self) -> None:
        with suppress(ValueError):  # a port that is no number
            parts = urlsplit(self.url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return
        raise ModelUnavailable(
            "BIAS_LLM_URL is not the address of a server; it should be like http://127.0.0.1:8000/v1"
        )

    @property
    def base(self) -> str:
        """The address with the part that all its services share.

        >>> Endpoint(url="http://host:1", model="").base, Endpoint(url="https://host/openai/v1/", model="").base
        ('http://host:1/v1', 'https://host/openai/v1')
        """
        bare = self.url.rstrip("/")
        return bare if urlsplit(bare).path else f"{bare}/v1"

    @property
    def host(self) -> str:
        """The server's name and port, without a password."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}" + (f":{parts.port}" if parts.port else "")


class EndpointLanguageModel:
    """Next tokens and whole answers from a server; asks nothing before the first use.

    The endpoint is from the settings of the machine alone: a visitor who could choose the address could make this
    machine call any other. It will ``sleep`` that many seconds between two attempts.
    """

    def __init__(self, name: str, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name, self.endpoint = name, endpoint
        self._sleep = sleep
        self._most_shown: int | None = None
        self._unknown: set[str] = set()

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
            text = choice["message"]["content"]
        except (LookupError, TypeError) as error:
            raise self._not_understood(error) from error
        if not isinstance(text, str) or not text.strip():
            why = f"finish_reason {choice.get('finish_reason')!r}"
            raise ModelUnavailable(
                f"{self.name} answered nothing ({why}); a model that thinks aloud may need more tokens than "
                f"the {max_new_tokens} it was given, another model would do"
            )
        return text.strip()

    def _continuations(self, prefixes: list[str], n: int) -> list[list[str]]:
        """Of each prefix, the likeliest next tokens, likeliest first; in one request."""
        n_tokens = min(n, self._most_shown or n)
        body = {"prompt": prefixes if len(prefixes) > 1 else prefixes[0], "max_tokens": 1, "temperature": 0}
        for shown in (n_tokens, *(fewer for fewer in _FEWER if fewer < n_tokens)):
            try:
                answer = self._ask("completions", body | {"logprobs": shown})
            except _Refused as refused:
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
                raise self._not_understood(error) from error
            if not likeliest or any(tokens is None for tokens in likeliest):
                break
            return [[token for token in tokens or () if _shows_something(token)] for tokens in likeliest]
        raise InvalidInput(f"{self.name} shows no probabilities of tokens. {_STOP_NEEDS}")

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON; settings that it says it does not know are left out from then on."""
        for _ in range(3):
            sent: dict[str, Any] = {"model": self.endpoint.model, **body}
            if "max_tokens" in sent and "max_tokens" in self._unknown:  # newer models call it so
                sent["max_completion_tokens"] = sent["max_tokens"]
            sent = {key: value for key, value in sent.items() if key not in self._unknown}
            try:
                return self._answer(path, sent)
            except _Refused as refused:
                new = {key for key in ("max_tokens", "temperature") if f"'{key}'" in refused.reason} - self._unknown
                if refused.status not in (400, 422) or not new:
                    raise
                self._unknown |= new
        raise ModelUnavailable(f"{self.name} accepts none of the ways in which it was asked")

    def _answer(self, path: str, body: Mapping[str, Any]) -> Any:
        server, attempt = self.endpoint, 0
        while True:
            attempt += 1
            pause = 2**attempt / 2
            try:
                response = httpx.post(
                    f"{server.base}/{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {server.key}"} if server.key else {},
                    timeout=httpx.Timeout(server.seconds, connect=10.0),
                    follow_redirects=False,  # the key goes to the address that was set, and to no other
                )
            except httpx.TimeoutException as error:
                if attempt > 1:  # waiting again and again would hold up everybody
                    raise ModelUnavailable(
                        f"{self.name} did not answer within {server.seconds:g} s; is the server at "
                        f"{server.host} overloaded, or the model too slow for it?"
                    ) from error
                pause = 0.0
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if attempt >= server.attempts or isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
                    raise ModelUnavailable(
                        f"{self.name} cannot be reached at {server.host}: {self._safe(str(error))}; check "
                        "BIAS_LLM_URL and that the server runs"
                    ) from error
            else:
                if response.status_code not in _RETRIED or attempt >= server.attempts:
                    return self._read(response)
                pause = _pause_asked_for(response.headers.get("retry-after", ""), pause)
            self._sleep(min(pause, server.longest_pause))

    def _read(self, response: httpx.Response) -> Any:
        status, host = response.status_code, self.endpoint.host
        if 300 <= status < 400:
            raise ModelUnavailable(
                f"the server at {host} sends {self.name}'s requests elsewhere (status {status}); set "
                "BIAS_LLM_URL to the final address"
            )
        reason = self._safe(_error_text(response)) if status >= 400 else ""
        if status in (401, 403):
            raise ModelUnavailable(f"{self.name} refuses the key ({status}: {reason}); check BIAS_LLM_KEY")
        if status == 404 and "model" in reason.lower():
            raise ModelUnavailable(
                f"the server at {host} has no model {self.endpoint.model!r} ({reason}); check BIAS_LLM_MODEL"
            )
        if status >= 400:
            raise _Refused(self.name, status, reason)
        try:
            return response.json()
        except ValueError as error:
            raise self._not_understood(error) from error

    def _not_understood(self, error: Exception) -> ModelUnavailable:
        return ModelUnavailable(
            f"what answers at {self.endpoint.host} is no OpenAI-compatible server, or {self.name} broke off "
            f"({type(error).__name__} while reading it); BIAS_LLM_URL should be like http://127.0.0.1:8000/v1"
        )

    def _safe(self, text: str) -> str:
        """What a server said, with the key taken out: some repeat it in their errors."""
        for secret in filter(None, (self.endpoint.key, urlsplit(self.endpoint.url).password)):
            text = text.replace(secret, "…")
        return " ".join(text.split())[:300]


class _Refused(ModelUnavailable):
    """The server said no; ``reason`` says why."""

    def __init__(self, name: str, status: int, reason: str) -> None:
        super().__init__(f"{name} refuses (status {status}): {reason or 'no reason given'}")
        self.status, self.reason = status, reason


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


def _error_text(response: httpx.Response) -> str:
    try:
        body = response.json()
        error = body.get("error", body.get("detail", body.get("message", "")))
        return str(error.get("message", "") if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        return re.sub(r"<[^>]*>", " ", response.text)


def _pause_asked_for(header: str, otherwise: float) -> float:
    """Seconds that ``Retry-After`` asks for, as a number or a date.

    >>> _pause_asked_for("7", 1.0), _pause_asked_for("soon", 1.0)
    (7.0, 1.0)
    """
    with suppress(ValueError):
        return max(0.0, float(header))
    with suppress(TypeError, ValueError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds())
    return otherwise
