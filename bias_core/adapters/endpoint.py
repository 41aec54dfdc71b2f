"""Servers that are asked over HTTP: where one is, how long and how often it is asked, and what its errors say."""

import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from bias_core.errors import ModelUnavailable
from bias_core.given_values import read_json

T = TypeVar("T")
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # answers that may be others the next time
# Accounts without money, which no patience changes.
_UNPAID_CODE = re.compile(r"insufficient_(\w+_)?(quota|balance|credit|fund)|billing|\bcredit|payment_", re.IGNORECASE)
_UNPAID = re.compile(
    r"billing (hard )?limit|spending limit|insufficient (credit|fund|balance)|out of credit|used all (\w+ )?credit"
    r"|credit balance is too low|payment required|(exceeded|exhausted|depleted|used up) your [\w ]{0,30}credit",
    re.IGNORECASE,
)
FIRST_PAUSE = 1.0  # seconds; each further one is twice as long
_CONNECT_SECONDS = 10.0
_MOST_BYTES = 64_000_000  # of an answer: a picture of 16 million pixels fits
_MOST_REASON = 10_000  # bytes of a server's error that are read
_SHOWN = 300  # characters of a server's reason
_SHORTEST_SECRET = 8  # characters; "none", "EMPTY" and "1234" stand in place of a key
# Words that stand in place of a key, such as "lm-studio": other texts have them, too.
_WORDS = re.compile(r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15})(?:[ _-]+(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15}))*")


class RequestFailed(ModelUnavailable):
    """A request without a usable answer.

    ``status`` is 0 where none came; ``reason`` is the server's own and ``code`` its name for it. ``again`` says
    whether another try may help, after ``pause`` seconds (None: the usual ones) and ``most`` tries at most.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        code: str = "",
        again: bool = False,
        pause: float | None = None,
        most: int = 9,
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.code = status, reason, code
        self.again, self.pause, self.most = again, pause, most


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a server is asked for one thing, and how long is waited in between."""

    attempts: int = 4  # requests in all, at least 1, for an answer that fails for a while
    longest_pause: float = 30.0  # seconds between two of them at most, whatever the server asks for

    def ask(self, request: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """What ``request`` returns, which is tried again as its RequestFailed says."""
        for attempt in count(1):
            try:
                return request()
            except RequestFailed as failure:  # noqa: PERF203
                if not failure.again or attempt >= min(self.attempts, failure.most):
                    raise
                pause = FIRST_PAUSE * 2 ** (attempt - 1) if failure.pause is None else failure.pause
                sleep(min(pause, self.longest_pause))
        raise AssertionError  # count does not end


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the server is and how long it is waited for; ModelUnavailable where the address is none."""

    url: str  # base address, with or without its "/v1"; "https://user:password@host" works too
    model: str  # its name on that server
    # sent with every request, and never shown; "" for servers that ask for none
    key: str = field(default="", repr=False)
    seconds: float = 120.0  # that an answer may take
    patience: Patience = Patience()
    settings: str = "BIAS_LLM"  # how the names of the settings begin that say all this
    named_by: str = "BIAS_LLM_MODEL"  # what names the model

    def __post_init__(self) -> None:
        with suppress(ValueError):  # a port that is no number
            parts = urlsplit(self.url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return
        raise ModelUnavailable(
            f"the server has no valid address ({self.settings}_URL should be like http://127.0.0.1:8000/v1)"
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

    def post(self, name: str, path: str, body: Mapping[str, Any], *, again: bool = False) -> Any:
        """The JSON that answers one request in the ``name`` of a model.

        RequestFailed where none can be used, which may be asked for ``again``. Some servers put an error into an answer
        whose status is good.
        """
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with self._worded(name):
            status, pause, content = exchange("POST", f"{self.base}/{path}", self.seconds, headers, body)
        self._check(name, status, pause, content)
        try:
            answer = read_json(content)
        except ValueError as error:
            raise self.not_understood(name, error, again=again) from error
        fault = answer.get("error") if isinstance(answer, dict) else None
        if fault and not (answer.get("data") or answer.get("choices")):
            code = fault.get("code") if isinstance(fault, dict) else None
            self._check(name, code if isinstance(code, int) and 400 <= code < 600 else 400, pause, content)
        return answer

    def get(self, name: str, url: str) -> bytes:
        """A file that an answer names, fetched without the key; RequestFailed where it cannot be had."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise RequestFailed(f"{name} names no address of a picture", again=True)
        with self._worded(name):
            status, _, content = exchange("GET", url, self.seconds)
        if status != 200:
            raise RequestFailed(f"the picture that {name} names cannot be fetched (status {status})", again=True)
        return content

    def not_understood(self, name: str, error: Exception, *, again: bool = False) -> RequestFailed:
        """The error for an answer of another form, or with an empty list in place of what was asked for."""
        if isinstance(error, IndexError):
            return RequestFailed(
                f"{name} answered with an empty list ({self.host} gave no reason; a filter of its own may have taken "
                "the answer away)",
                again=again,
            )
        return RequestFailed(
            f"what answers at {self.host} is no OpenAI-compatible server, or {name} broke off "
            f"({type(error).__name__} while reading it) ({self.settings}_URL should be like "
            "http://127.0.0.1:8000/v1)",
            again=again,
        )

    def safe(self, text: str) -> str:
        """What a server said, with the key taken out: some repeat it in their errors."""
        return without_secrets(text, self.key, urlsplit(self.url).password or "")

    @contextmanager
    def _worded(self, name: str) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise RequestFailed(  # twice at most: waiting again and again would hold up everybody
                f"{name} did not answer within {self.seconds:g} s; is the server at {self.host} overloaded, or the "
                "model too slow for it?",
                again=True, pause=0.0, most=2,
            ) from error  # fmt: skip
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RequestFailed(
                f"{name} cannot be reached at {self.host}: {self.safe(str(error))} (check {self.settings}_URL "
                "and that the server runs)",
                again=not isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)),
            ) from error

    def _check(self, name: str, status: int, pause: str, content: bytes) -> None:
        """Raise RequestFailed for every answer but a good one."""
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
        raise RequestFailed(message, **facts, again=status in RETRIED, pause=pause_asked_for(pause))


def exchange(
    method: str, url: str, seconds: float, headers: Mapping[str, str] | None = None, body: Any = None
) -> tuple[int, str, bytes]:
    """Status, ``Retry-After`` and content of one answer; httpx's errors, too where it is too slow or too long."""
    timeout, ends = httpx.Timeout(seconds, connect=_CONNECT_SECONDS), time.monotonic() + seconds
    with httpx.stream(
        method, url, json=body, headers=headers, timeout=timeout, verify=_certificates(),
        follow_redirects=False,  # a key goes to the address that was set, and to no other
    ) as response:  # fmt: skip
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if time.monotonic() > ends:
                raise httpx.ReadTimeout("it answers a little at a time", request=response.request)
            if len(content) > _MOST_BYTES:
                raise httpx.DecodingError(f"its answer has more than {_MOST_BYTES:,} bytes", request=response.request)
        return response.status_code, response.headers.get("retry-after", ""), bytes(content)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: that takes longer than a request does."""
    return httpx.create_ssl_context()


def error_text(content: bytes) -> tuple[str, str]:
    """The reason in a server's error, and its code.

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
    """Whether an error says that the account has no credit left, or reached its limit.

    >>> is_unpaid(403, "", "Your team has used all available credits"), is_unpaid(429, "", "Rate limit reached")
    (True, False)
    """
    return status == 402 or bool(_UNPAID_CODE.search(code) or _UNPAID.search(reason))


def unpaid(host: str) -> str:
    """The words for such an error."""
    return f"the account at {host} has no credit left, or reached its limit; see its billing there"


def without_secrets(text: str, *secrets: str) -> str:
    """A text of somebody else's in one short line, without these; a word in place of a key is no secret.

    >>> without_secrets("no model for sk-1234567", "sk-1234567"), without_secrets("no such model", "model")
    ('no model for …', 'no such model')
    """
    for secret in filter(None, secrets):
        if len(secret) >= _SHORTEST_SECRET and not _WORDS.fullmatch(secret):
            text = text.replace(secret, "…")
        for before, after in (("Bearer ", ""), (":", "@")):
            text = text.replace(f"{before}{secret}{after}", f"{before}…{after}")
    return " ".join(text.split())[:_SHOWN]


def pause_asked_for(header: str) -> float | None:
    """Seconds that ``Retry-After`` asks for, as a number or a date; None where it says neither.

    >>> pause_asked_for("7"), pause_asked_for("soon")
    (7.0, None)
    """
    with suppress(ValueError):
        seconds = float(header)
        return max(0.0, seconds) if seconds == seconds else None
    with suppress(TypeError, ValueError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds())
    return None
