"""A language model behind an OpenAI-compatible server: a company's, or one's own vLLM or llama.cpp."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from bias_core.errors import InvalidInput, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx

_BATCH = 32  # prefixes in one request
_FEWER = (20, 5)  # how many likeliest tokens vLLM and OpenAI show at most
_RETRIED = {408, 409, 429, 500, 502, 503, 504, 529}
_MARK = re.compile(r"<\|?[\w ./-]{1,40}\|?>|\[[A-Z]{1,12}\]|bytes:.*|token_id:\d+")
_STOP_NEEDS = (
    "StOP needs a language model that shows the likeliest next tokens: a server with /v1/completions and "
    "logprobs (vLLM, llama.cpp's server), calibration-language, smollm2, or any causal model of the hub as "
    "org/name"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the server is and how long it is waited for.

    Attributes
    ----------
    url : base address, with or without its "/v1"; "https://user:password@host" works too.
    model : its name on that server.
    key : sent with every request, and never shown; "" for servers that ask for none.
    seconds : that an answer may take.
    attempts : requests in all, for an answer that fails for a while.
    longest_pause : seconds between two of them at most, whatever the server asks for.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    seconds: float = 120.0
    attempts: int = 4
    longest_pause: float = 30.0


class EndpointLanguageModel:
    """Next tokens and whole answers from a server; asks nothing before the first use.

    Parameters
    ----------
    name : for messages and reports.
    endpoint : from the settings of the machine alone: a visitor who could choose the address could make
        this machine call any other.
    sleep : waits that many seconds between two attempts.
    """

    def __init__(self, name: str, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = name
        self.endpoint = endpoint
        self._sleep = sleep
        self._most_shown: int | None = None
        self._unknown: set[str] = set()

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` likeliest continuations by one token, likeliest first.

        A server shows only so many tokens (OpenAI 5, vLLM 20 unless told otherwise): there may be far fewer
        than ``n``, which makes StOP's search narrower. Tokens that show nothing are left out.

        Raises
        ------
        InvalidInput
            The server continues no text, or shows no probabilities.
        ModelUnavailable
            It cannot be reached, refuses, or answers what cannot be understood.
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
        """The likeliest answer to ``prompt`` as a user's message.

        Raises
        ------
        ModelUnavailable
            The server cannot be reached, refuses, or answers nothing that can be understood.
        """
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_new_tokens, "temperature": 0}
        answer = self._ask("chat/completions", body)
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"]
        except (LookupError, TypeError) as error:
            self._not_understood(error)
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
        for shown in (n_tokens, *(fewer for fewer in _FEWER if fewer < n_tokens)):
            body = {
                "prompt": prefixes if len(prefixes) > 1 else prefixes[0],
                "max_tokens": 1,
                "temperature": 0,
                "logprobs": shown,
            }
            try:
                answer = self._ask("completions", body)
            except _Refused as refused:
                if refused.status in (404, 405, 501):
                    raise InvalidInput(f"{self.name} continues no texts ({refused.reason}). {_STOP_NEEDS}") from refused
                if "logprob" not in refused.reason:
                    raise
                continue
            if shown < n_tokens:
                _log.warning("%s shows %d tokens at most, where %d were asked for", self.name, shown, n)
                self._most_shown = shown
            return self._shown_tokens(answer)
        raise InvalidInput(f"{self.name} shows no probabilities of tokens. {_STOP_NEEDS}")

    def _shown_tokens(self, answer: Any) -> list[list[str]]:
        try:
            choices = sorted(answer["choices"], key=lambda choice: int(choice.get("index", 0)))
            likeliest = [_likeliest(choice.get("logprobs")) for choice in choices]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._not_understood(error)
        if not likeliest or any(tokens is None for tokens in likeliest):
            raise InvalidInput(f"{self.name} shows no probabilities of tokens. {_STOP_NEEDS}")
        return [[token for token in tokens or () if _shows_something(token)] for tokens in likeliest]

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON; settings that it says it does not know are left out from then on."""
        for _ in range(3):
            sent = {_spelt(key, self._unknown): value for key, value in body.items()}
            sent = {"model": self.endpoint.model} | {k: v for k, v in sent.items() if k not in self._unknown}
            try:
                return self._answer(path, sent)
            except _Refused as refused:
                new = {key for key in ("max_tokens", "temperature") if f"'{key}'" in refused.reason} - self._unknown
                if refused.status not in (400, 422) or not new:
                    raise
                self._unknown |= new
        raise ModelUnavailable(f"{self.name} accepts none of the ways in which it was asked")

    def _answer(self, path: str, body: Mapping[str, Any]) -> Any:
        import httpx

        for attempt in range(1, self.endpoint.attempts + 1):
            last = attempt == self.endpoint.attempts
            try:
                response = self._post(path, body)
            except httpx.TimeoutException as error:
                if attempt > 1:  # waiting again and again would hold up everybody
                    raise ModelUnavailable(
                        f"{self.name} did not answer within {self.endpoint.seconds:g} s; is the server at "
                        f"{self._host()} overloaded, or the model too slow for it?"
                    ) from error
                pause = 0.0
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if last or isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
                    raise ModelUnavailable(
                        f"{self.name} cannot be reached at {self._host()}: {self._safe(str(error))}; check "
                        "BIAS_LLM_URL and that the server runs"
                    ) from error
                pause = float(2**attempt) / 2
            else:
                if response.status_code not in _RETRIED or last:
                    return self._read(response)
                pause = _pause_asked_for(response.headers.get("retry-after", ""), float(2**attempt) / 2)
            self._sleep(min(pause, self.endpoint.longest_pause))
        raise ModelUnavailable(f"{self.name} was never asked: attempts is {self.endpoint.attempts}")

    def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        import httpx

        key = self.endpoint.key
        return httpx.post(
            f"{_base(self.endpoint.url)}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(self.endpoint.seconds, connect=10.0),
            follow_redirects=False,  # the key goes to the address that was set, and to no other
        )

    def _read(self, response: httpx.Response) -> Any:
        status = response.status_code
        if 300 <= status < 400:
            raise ModelUnavailable(
                f"the server at {self._host()} sends {self.name}'s requests elsewhere (status {status}); set "
                "BIAS_LLM_URL to the final address"
            )
        reason = self._safe(_error_text(response)) if status >= 400 else ""
        if status in (401, 403):
            raise ModelUnavailable(f"{self.name} refuses the key ({status}: {reason}); check BIAS_LLM_KEY")
        if status == 404 and "model" in reason.lower():
            raise ModelUnavailable(
                f"the server at {self._host()} has no model {self.endpoint.model!r} ({reason}); check BIAS_LLM_MODEL"
            )
        if status >= 400:
            raise _Refused(self.name, status, reason)
        try:
            return response.json()
        except ValueError as error:
            self._not_understood(error)

    def _not_understood(self, error: Exception) -> NoReturn:
        raise ModelUnavailable(
            f"what answers at {self._host()} is no OpenAI-compatible server, or {self.name} broke off "
            f"({type(error).__name__} while reading it); BIAS_LLM_URL should be like http://127.0.0.1:8000/v1"
        ) from error

    def _host(self) -> str:
        parts = urlsplit(self.endpoint.url)
        return f"{parts.hostname or '?'}" + (f":{parts.port}" if parts.port else "")

    def _safe(self, text: str) -> str:
        """What a server said, with the key taken out: some repeat it in their errors."""
        secrets = [self.endpoint.key, urlsplit(self.endpoint.url).password or ""]
        for secret in filter(None, secrets):
            text = text.replace(secret, "…")
        return " ".join(text.split())[:300]


class _Refused(ModelUnavailable):
    """The server said no; ``reason`` says why."""

    def __init__(self, name: str, status: int, reason: str) -> None:
        super().__init__(f"{name} refuses (status {status}): {reason or 'no reason given'}")
        self.status, self.reason = status, reason


def check_url(url: str) -> str:
    """The address, if it is one.

    Raises
    ------
    ModelUnavailable
        It is not.

    Examples
    --------
    >>> check_url("http://127.0.0.1:8000")
    'http://127.0.0.1:8000'
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        good = False
    if not good:
        raise ModelUnavailable(
            "BIAS_LLM_URL is not the address of a server; it should be like http://127.0.0.1:8000/v1"
        )
    return url


def _base(url: str) -> str:
    """The address with the part that all its services share.

    Examples
    --------
    >>> _base("http://host:1"), _base("https://host/openai/v1/")
    ('http://host:1/v1', 'https://host/openai/v1')
    """
    bare = url.rstrip("/")
    return f"{bare}/v1" if urlsplit(bare).path == "" else bare


def _spelt(key: str, unknown: set[str]) -> str:
    """Newer models take the longest answer under another name."""
    return "max_completion_tokens" if key == "max_tokens" and key in unknown else key


def _likeliest(logprobs: Any) -> list[str] | None:
    """Tokens by falling probability, from either form that servers give; None where there are none."""
    if not logprobs:
        return None
    if logprobs.get("top_logprobs"):
        first = logprobs["top_logprobs"][0]
    elif logprobs.get("content"):
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
        reason = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        reason = re.sub(r"<[^>]*>", " ", response.text)
    return str(reason)


def _pause_asked_for(header: str, otherwise: float) -> float:
    """Seconds that ``Retry-After`` asks for, as a number or a date.

    Examples
    --------
    >>> _pause_asked_for("7", 1.0), _pause_asked_for("soon", 1.0)
    (7.0, 1.0)
    """
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError):
        return otherwise
