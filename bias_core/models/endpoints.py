"""Requests to OpenAI-compatible servers, and the language models and judges that answer there.

The package ``openai`` was tried and left out: it follows redirects, reads answers of any size for any time, and sleeps
through Stop between two tries.
"""

import base64
import io
import logging
import math
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models import httpx
from bias_core.models.encoders import convert_to_rgb
from bias_core.models.language_models import ANSWER_WORDS, check_questions, without_thoughts
from bias_core.values import read_json

T = TypeVar("T")
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # statuses that may pass
# Accounts without credit: waiting does not help.
_UNPAID_CODE = re.compile(r"insufficient_(\w+_)?(quota|balance|credit|fund)|billing|\bcredit|payment_", re.IGNORECASE)
_UNPAID = re.compile(
    r"billing (hard )?limit|spending limit|insufficient (credit|fund|balance)|out of credit|used all (\w+ )?credit"
    r"|credit balance is too low|payment required|(exceeded|exhausted|depleted|used up) your [\w ]{0,30}credit",
    re.IGNORECASE,
)
FIRST_PAUSE = 1.0  # seconds; each further one is twice as long
_MOST_REQUESTS = 4  # tries for one answer
_LONGEST_PAUSE = 30.0  # longest pause in seconds, even if the server asks for more
_CONNECT_SECONDS = 10.0
_MOST_BYTES = 64_000_000  # of an answer: a picture of 16 million pixels fits
_MOST_REASON = 10_000  # bytes of a server's error that are read
_SHOWN = 300  # characters of a server's reason
_SHORTEST_SECRET = 8  # characters; "none", "EMPTY" and "1234" stand in place of a key
# Placeholder words for a key, such as "lm-studio", which other texts have, too.
_WORDS = re.compile(r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15})(?:[ _-]+(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15}))*")


_SERVICE = re.compile(r"/(?:chat/completions|completions|responses|images/(?:generations|edits))$")


class RequestFailed(ModelUnavailable):
    """A request without a usable answer.

    ``status`` is 0 without an answer; ``reason`` is the server's text and ``code`` its name for it. ``again`` is true
    if another try may help, after ``pause`` seconds (None: the usual ones) and ``most`` tries at most.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        code: str = "",
        can_retry: bool = False,
        pause: float | None = None,
        max_requests: int = 9,
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.code = status, reason, code
        self.can_retry, self.pause, self.max_requests = can_retry, pause, max_requests


def ask_until_answered(request: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Return the result of ``request``; retry after a pause if its RequestFailed allows it."""
    for attempt in count(1):
        try:
            return request()
        except RequestFailed as failure:
            if not failure.can_retry or attempt >= min(_MOST_REQUESTS, failure.max_requests):
                raise
            pause = FIRST_PAUSE * 2 ** (attempt - 1) if failure.pause is None else failure.pause
            sleep(min(pause, _LONGEST_PAUSE))
    raise AssertionError  # count is endless


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A server, its model, and the time limit of an answer; ModelUnavailable for an invalid address."""

    # base address, with or without its "/v1", also with "/chat/completions" and a query; "https://user:password@host"
    # works too
    url: str
    model: str  # the model's name on that server
    # sent with every request, never shown; "" for servers without keys
    key: str = field(default="", repr=False)
    seconds: float = 120.0  # limit for an answer
    settings: str = "BIAS_LLM"  # prefix of the settings' names
    named_by: str = "BIAS_LLM_MODEL"  # setting that names the model

    def __post_init__(self) -> None:
        with suppress(ValueError):  # an invalid port
            parts = urlsplit(self.url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return
        raise ModelUnavailable(
            f"the server has no valid address ({self.settings}_URL should be like http://127.0.0.1:8000/v1)"
        )

    @property
    def base(self) -> str:
        """The address with the common part of its services.

        >>> Endpoint(url="http://host:1", model="").base, Endpoint(url="https://host/openai/v1/", model="").base
        ('http://host:1/v1', 'https://host/openai/v1')
        >>> Endpoint(url="http://host/v1/chat/completions?api-version=1", model="").base
        'http://host/v1'
        """
        parts = urlsplit(self.url)
        path = _SERVICE.sub("", parts.path.rstrip("/")).rstrip("/")
        return parts._replace(path=path or "/v1", query="", fragment="").geturl()

    def address(self, path: str) -> str:
        """Return the address of a service, with the query of the given address."""
        query = urlsplit(self.url).query
        return f"{self.base}/{path}{f'?{query}' if query else ''}"

    @property
    def place(self) -> str:
        """The address by which answers are stored: without password and query, which may hold a key."""
        parts = urlsplit(self.base)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def host(self) -> str:
        """The server's name and port, without a password."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def post(self, name: str, path: str, body: Mapping[str, Any], *, can_retry: bool = False) -> Any:
        """Post a request for the model ``name`` and return the JSON answer.

        RequestFailed for unusable answers, with ``can_retry`` for a retry. Some servers put an error into an answer
        with a good status.
        """
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with self._worded(name):
            status, pause, content = exchange("POST", self.address(path), self.seconds, headers, body)
        self._check(name, status, pause, content)
        try:
            answer = read_json(content)
        except ValueError as error:
            raise self.not_understood(name, error, can_retry=can_retry) from error
        fault = answer.get("error") if isinstance(answer, dict) else None
        if fault and not (answer.get("data") or answer.get("choices")):
            code = fault.get("code") if isinstance(fault, dict) else None
            self._check(name, code if isinstance(code, int) and 400 <= code < 600 else 400, pause, content)
        return answer

    def get(self, name: str, url: str) -> bytes:
        """Fetch a file that an answer names, without the key; RequestFailed if that fails."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise RequestFailed(f"{name} gave no valid address of a picture", can_retry=True)
        with self._worded(name):
            status, _, content = exchange("GET", url, self.seconds)
        if status != 200:
            raise RequestFailed(f"the picture that {name} names cannot be fetched (status {status})", can_retry=True)
        return content

    def not_understood(self, name: str, error: Exception, *, can_retry: bool = False) -> RequestFailed:
        """The error for an answer in another format, or with an empty list."""
        if isinstance(error, IndexError):
            return RequestFailed(
                f"{name} answered with an empty list ({self.host} gave no reason; its filter may have removed "
                "the answer)",
                can_retry=can_retry,
            )
        return RequestFailed(
            f"{self.host} is not an OpenAI-compatible server, or {name} broke off "
            f"({type(error).__name__} while reading it) ({self.settings}_URL should be like "
            "http://127.0.0.1:8000/v1)",
            can_retry=can_retry,
        )

    def safe(self, text: str) -> str:
        """A server's text without the key, which some servers repeat in errors."""
        return without_secrets(text, self.key, urlsplit(self.url).password or "")

    @contextmanager
    def _worded(self, name: str) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise RequestFailed(  # twice at most: more would hold up all visitors
                f"{name} did not answer within {self.seconds:g} s; is the server at {self.host} overloaded, or the "
                "model too slow for it?",
                can_retry=True, pause=0.0, max_requests=2,
            ) from error  # fmt: skip
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RequestFailed(
                f"{name} cannot be reached at {self.host}: {self.safe(str(error))} (check {self.settings}_URL "
                "and that the server runs)",
                can_retry=not isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)),
            ) from error

    def _check(self, name: str, status: int, pause: str, content: bytes) -> None:
        """Raise RequestFailed unless the status is good."""
        if status < 300:
            return
        if status < 400:
            raise RequestFailed(
                f"the server at {self.host} sends {name}'s requests elsewhere (status {status}) (set "
                f"{self.settings}_URL to the final address)"
            )
        text, code = error_text(content)
        reason = self.safe(text)
        facts: dict[str, Any] = {"status": status, "reason": reason, "code": code}
        if is_unpaid(status, code, text):
            raise RequestFailed(
                f"{name}: {unpaid(self.host)} (status {status}): {reason or 'no reason given'}", **facts
            )
        if status in (401, 403):
            raise RequestFailed(f"{name} refuses the key ({status}: {reason}) (check {self.settings}_KEY)", **facts)
        if status == 404 and "model" in text.lower():
            raise RequestFailed(
                f"the server at {self.host} has no model {self.model!r} ({reason}) (check {self.named_by})", **facts
            )
        message = f"{name} refuses (status {status}): {reason or 'no reason given'}"
        if status == 404:
            message += f" (nothing answers at {self.place}: check {self.settings}_URL)"
        raise RequestFailed(message, **facts, can_retry=status in RETRIED, pause=parse_retry_after(pause))


def exchange(
    method: str, url: str, seconds: float, headers: Mapping[str, str] | None = None, body: Any = None
) -> tuple[int, str, bytes]:
    """Status, ``Retry-After`` and content of one answer; raises httpx's errors, also for slow or long answers."""
    timeout, ends = httpx.Timeout(seconds, connect=_CONNECT_SECONDS), time.monotonic() + seconds
    with httpx.stream(
        method, url, json=body, headers=headers, timeout=timeout, verify=_certificates(),
        follow_redirects=False,  # a key goes only to the configured address
    ) as response:  # fmt: skip
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if time.monotonic() > ends:
                raise httpx.ReadTimeout("it answers too slowly", request=response.request)
            if len(content) > _MOST_BYTES:
                raise httpx.DecodingError(f"its answer has more than {_MOST_BYTES:,} bytes", request=response.request)
        return response.status_code, response.headers.get("retry-after", ""), bytes(content)


@cache
def _certificates() -> ssl.SSLContext:
    """Certificates, read once, because that takes longer than a request."""
    context: ssl.SSLContext = httpx.create_ssl_context()
    return context


def error_text(content: bytes) -> tuple[str, str]:
    """Return the reason and the code of a server's error.

    >>> error_text(b'{"error": {"message": "no", "code": "moderation_blocked"}}'), error_text(b"<h1>Bad</h1>")
    (('no', 'moderation_blocked'), (' Bad ', ''))
    """
    text = content[:_MOST_REASON].decode(errors="replace")
    try:
        body = read_json(text)
    except ValueError:
        return re.sub(r"<[^<>]*>", " ", text), ""
    if not isinstance(body, dict):
        return text, ""
    error = body.get("error", body.get("detail", body.get("message", "")))
    if isinstance(error, dict):
        names = (error.get("code"), error.get("type"), error.get("status"))
        return str(error.get("message", "")), next((name for name in names if name and isinstance(name, str)), "")
    return str(error), str(body.get("code") or "")


def is_unpaid(status: int, code: str, reason: str) -> bool:
    """Return true for an account without credit, or at its limit.

    >>> is_unpaid(403, "", "Your team has used all available credits"), is_unpaid(429, "", "Rate limit reached")
    (True, False)
    """
    return status == 402 or bool(_UNPAID_CODE.search(code) or _UNPAID.search(reason))


def unpaid(host: str) -> str:
    """The message for such an error."""
    return f"the account at {host} has no credit left, or reached its limit; see its billing there"


def without_secrets(text: str, *secrets: str) -> str:
    """A server's text in one short line, without the secrets; a placeholder word is not a secret.

    >>> without_secrets("no model for sk-1234567", "sk-1234567"), without_secrets("no such model", "model")
    ('no model for …', 'no such model')
    """
    for secret in filter(None, secrets):
        if len(secret) >= _SHORTEST_SECRET and not _WORDS.fullmatch(secret):
            text = text.replace(secret, "…")
        for before, after in (("Bearer ", ""), (":", "@")):
            text = text.replace(f"{before}{secret}{after}", f"{before}…{after}")
    return " ".join(text.split())[:_SHOWN]


def parse_retry_after(header: str) -> float | None:
    """Seconds in ``Retry-After``, a number or a date; None for other values.

    >>> parse_retry_after("7"), parse_retry_after("soon")
    (7.0, None)
    """
    with suppress(ValueError):
        seconds = float(header)
        return max(0.0, seconds) if seconds == seconds else None
    with suppress(TypeError, ValueError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    return None


_MOST_SAID = 100_000  # characters


def read_message(message: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the answer in a server's message, and true if the model thought before it.

    Its content is a text, empty, or a list of parts, of which texts count. TypeError for another form.
    """
    content = message.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    texts = [part if isinstance(part, str) else _text_of_part(part) for part in parts]
    said, thought = "".join(texts), message.get("reasoning_content") or message.get("reasoning")
    if len(said) > _MOST_SAID:
        raise TypeError(f"an answer has more than {_MOST_SAID:,} characters")
    answer = without_thoughts(said)
    return answer, bool(thought) or answer != said.strip() or "" in texts


def _text_of_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        raise TypeError(f"a part of an answer is {type(part).__name__}")
    text = part.get("text") if part.get("type", "text") in ("text", "output_text") else ""
    if not isinstance(text, str):
        raise TypeError("a part of an answer has no text")
    return text


_BATCH = 32  # prefixes in one request
_FEWER = (20, 5)  # maximum number of likeliest tokens from vLLM and OpenAI
_SPECIAL_TOKEN = re.compile(r"<\|?[\w ./-]{1,40}\|?>|\[[A-Z]{1,12}\]|bytes:.*|token_id:\d+")
_STOP_NEEDS = (
    "StOP needs a language model that shows the likeliest next tokens: a server with /v1/completions and logprobs "
    "(vLLM, llama.cpp's server), calibration-language, smollm2, or any causal model of the hub as org/name"
)
_log = logging.getLogger(__name__)


class EndpointReader:
    """A model on a server; sends nothing before first use.

    The endpoint comes only from the machine's settings: a visitor who could choose the address could make this
    machine call any other. ``sleep`` waits between two attempts.
    """

    def __init__(self, name: str, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name, self.endpoint = name, endpoint
        self.stored_as = f"{name} at {endpoint.place}"  # two servers may give their models the same name
        self._sleep = sleep
        self._unknown: set[str] = set()

    def _empty_answer_error(self, choice: Any, max_tokens: int) -> ModelUnavailable:
        refusal = choice["message"].get("refusal")
        reason = (
            f"it declined: {self.endpoint.safe(str(refusal))}"
            if refusal
            else f"finish_reason {choice.get('finish_reason')!r}"
        )
        return ModelUnavailable(
            f"{self.name} gave an empty answer ({reason}); a model that thinks aloud may need more tokens than "
            f"the {max_tokens} that it gets: choose another model"
        )

    def _may_lack(self, key: str, reason: str) -> bool:
        """Return true if the server's reason is an unknown optional setting."""
        return key in ("max_tokens", "temperature") and f"'{key}'" in reason

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON; from then on, optional settings unknown to it are left out."""
        for _ in range(4):
            sent: dict[str, Any] = {"model": self.endpoint.model, **body}
            if "max_tokens" in sent and "max_tokens" in self._unknown:  # name in newer models
                sent["max_completion_tokens"] = sent["max_tokens"]
            sent = {key: value for key, value in sent.items() if key not in self._unknown}
            try:
                return ask_until_answered(partial(self.endpoint.post, self.name, path, sent), self._sleep)
            except RequestFailed as error:
                new = {key for key in sent if self._may_lack(key, error.reason)}
                if error.status not in (400, 422) or not new:
                    raise
                self._unknown |= new
        raise ModelUnavailable(f"{self.name} accepts none of the known forms of a request")


class EndpointLanguageModel(EndpointReader):
    """Next tokens and whole answers from a server."""

    _most_shown: int | None = None  # the server's number of likeliest tokens, once known

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` likeliest continuations by one token, likeliest first.

        A server shows a limited number of tokens (OpenAI 5, vLLM 20 by default): there may be far fewer
        than ``n``, which makes StOP's search narrower. Invisible tokens are left out.

        Raises InvalidInput: the server cannot continue texts, or shows no probabilities; ModelUnavailable: it
        is out of reach, refuses, or sends a malformed answer.
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

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> np.ndarray:
        """Raise InvalidInput: servers do not give the probability of a whole text."""
        raise InvalidInput(
            f"{self.name} gives no probabilities of whole texts: set the weight of the language model to 0"
        )

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt`` as a user's message; ModelUnavailable without any."""
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_new_tokens, "temperature": 0}
        answer = self._ask("chat/completions", body)
        try:
            choice = answer["choices"][0]
            text, _ = read_message(choice["message"])
        except (LookupError, TypeError, AttributeError) as error:
            raise self.endpoint.not_understood(self.name, error) from error
        if not text:
            raise self._empty_answer_error(choice, max_new_tokens)
        return text

    def _continuations(self, prefixes: list[str], n: int) -> list[list[str]]:
        """The likeliest next tokens of each prefix, likeliest first; in one request."""
        n_tokens = min(n, self._most_shown or n)
        body = {"prompt": prefixes if len(prefixes) > 1 else prefixes[0], "max_tokens": 1, "temperature": 0}
        for n_shown in (n_tokens, *(fewer for fewer in _FEWER if fewer < n_tokens)):
            try:
                answer = self._ask("completions", body | {"logprobs": n_shown})
            except RequestFailed as error:
                if error.status in (404, 405, 501):
                    raise InvalidInput(f"{self.name} continues no texts ({error.reason}). {_STOP_NEEDS}") from error
                if "logprob" not in error.reason:
                    raise
                continue
            if n_shown < n_tokens:
                _log.warning("%s shows %d tokens at most, where %d were asked for", self.name, n_shown, n)
                self._most_shown = n_shown
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
    """Tokens by falling probability, from either of the servers' formats; None without any."""
    if logprobs and logprobs.get("top_logprobs"):
        first = logprobs["top_logprobs"][0]
    elif logprobs and logprobs.get("content"):
        first = {shown["token"]: shown["logprob"] for shown in logprobs["content"][0]["top_logprobs"]}
    else:
        return None
    return sorted(first, key=lambda token: -float(first[token]))


def _shows_something(token: str) -> bool:
    return bool(token.strip()) and token.isprintable() and "\ufffd" not in token and not _SPECIAL_TOKEN.fullmatch(token)


_CERTAIN = np.eye(3)
_WORD = re.compile(
    # "no beard" and "no doubt" answer nothing; "no it is not" does
    r"\b(?:(yes)|(no)(?!\s+(?!(?:it|he|she|they|this|that|there|the|i)\b)[a-z])|(cannot|can['’]t|unable|unclear|unsure))\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\byes\W{1,4}or\W{1,4}no\b\W{0,3}|\byes/no\b", re.IGNORECASE)
_FINAL = re.compile(
    r"\b(?:answer|verdict|conclusion)\b(?:\s+is)?\W{0,9}(?=(?:yes|no|cannot|can['’]t|unclear)\b)", re.IGNORECASE
)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?;])\s+|\n+")
_MARKS = " \n\t\"'“”*.,:!▁Ġ"  # around a token
_MOST_TOKENS = 16  # of an answer
_TOKENS_WITH_THOUGHTS = 4096  # of a model that thinks aloud before it
_SHOWN_TOKENS = 20  # likeliest tokens that a server is asked for; OpenAI and vLLM show no more
_MOSTLY = 0.5  # minimum probability of the three answers in the first tokens; below it, the text counts
_REFUSAL_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}


class EndpointJudge(EndpointReader):
    """Judge on a server: by the likeliest first tokens if it shows them, else by the last verdict of its text.

    ``said`` has what it said to the last questions, "" where its tokens counted.
    """

    said: Sequence[str] = ()

    def __init__(self, name: str, endpoint: Endpoint, *, at_once: int = 4, **options: Any) -> None:
        super().__init__(name, endpoint, **options)
        self.at_once, self._most_tokens = at_once, _MOST_TOKENS

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell" (also for a refusal).

        Raises InvalidInput: as for other judges; ModelUnavailable: it is out of reach, or sends a malformed answer.
        """
        check_questions(images, questions)
        pool = ThreadPoolExecutor(self.at_once)
        try:
            answers = list(pool.map(self._answer_one, images, questions))
        finally:
            pool.shutdown(cancel_futures=True)
        self.said = [text for _, text in answers]
        return np.array([answer for answer, _ in answers]).reshape(-1, 3)

    def _answer_one(self, image: Image.Image, question: str) -> tuple[np.ndarray, str]:
        content = [{"type": "image_url", "image_url": {"url": _data_uri(image)}}, {"type": "text", "text": question}]
        n_tokens = self._most_tokens
        body = {
            "messages": [{"role": "user", "content": content}],
            "max_tokens": n_tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": _SHOWN_TOKENS,
        }
        try:
            choice = self._ask("chat/completions", body)["choices"][0]
            text, thought = read_message(choice["message"])
            answer = None if thought else _read_token_shares(choice.get("logprobs"))
        except RequestFailed as error:
            if error.code in _REFUSAL_CODES:
                return _CERTAIN[2], f"(refused: {error.code})"
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self.endpoint.not_understood(self.name, error) from error
        if answer is not None:
            return answer, ""
        if choice.get("finish_reason") != "length":
            return read_verdict(text), text
        if n_tokens < _TOKENS_WITH_THOUGHTS:  # its verdict may come later
            self._most_tokens = _TOKENS_WITH_THOUGHTS
            return self._answer_one(image, question)
        if not text:
            raise self._empty_answer_error(choice, n_tokens)
        return _CERTAIN[2], text + CUT_OFF

    def _may_lack(self, key: str, reason: str) -> bool:
        return super()._may_lack(key, reason) or ("logprobs" in key and "logprob" in reason)


CUT_OFF = " … (cut off)"
"""End of what a judge said if it was cut at its length, so that it has no verdict."""


def read_verdict(text: str) -> np.ndarray:
    """The last verdict of a text, with certainty ``(3,)``; "cannot tell" if its sentence has both, or there is none.

    >>> read_verdict("There is no beard. Final answer: Yes").tolist(), read_verdict("Sorry, I can't say no.").tolist()
    ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    """
    plain = _ASKED.sub("", re.sub(r"[*_`]+", "", text))
    if final := list(_FINAL.finditer(plain)):
        plain = _SENTENCE_ENDS.split(plain[final[-1].end() :])[0]
    for sentence in reversed(_SENTENCE_ENDS.split(plain)):
        if verdicts := {match.lastindex for match in _WORD.finditer(sentence)}:
            return np.array(_CERTAIN[2 if len(verdicts) > 1 else (verdicts.pop() or 3) - 1])
    return np.array(_CERTAIN[2])


def _read_token_shares(logprobs: Any) -> np.ndarray | None:
    """Shares of the answers among the likeliest first tokens; None if most are other words."""
    if not logprobs or not logprobs.get("content"):
        return None
    first = logprobs["content"][0]
    shown = {str(entry["token"]): float(entry["logprob"]) for entry in (first, *first.get("top_logprobs", ()))}
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
    convert_to_rgb(image).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
