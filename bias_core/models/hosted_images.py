"""Models that are asked over the network."""

import base64
import binascii
import io
import re
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cache, cached_property, partial
from itertools import count
from typing import Any, ClassVar, Protocol, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import httpx
import huggingface_hub
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    InferenceTimeoutError,
    OfflineModeIsEnabled,
)
from PIL import Image, UnidentifiedImageError

from bias_core.errors import HubNotReached, InvalidInput, ModelUnavailable, NotDrawn, UnknownModel
from bias_core.given_values import read_json
from bias_core.models.catalogue import HostedName, hosted_name
from bias_core.protocols import StepCallback
from bias_core.settings import Settings
from bias_core.types import GeneratedImage, ImageRow, ModelInfo, is_blank

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


_PATIENCE = Patience()
_SECONDS_BETWEEN_LOOKS = 0.1  # at Stop, while a pause lasts
_LEAST_SIDE, _MOST_PIXELS = 16, 50_000_000
_REFUSALS = (400, 403, 422, 451)
_REFUSED = re.compile(
    r"moderation|content[ _-]?(policy|filter|management)|nsfw|flagged|inappropriate|prohibited|violat|guardrail"
    r"|(for|to) safety|safety[ _-]?(system|filter|polic|reason|violation|setting|check\w* (block|fail|trigger|flag))"
    r"|sensitive[ _-](content|word|topic|prompt)|responsible[ _]?ai",
    re.IGNORECASE,
)
_FLAGS = ("nsfw", "nsfw_content_detected", "has_nsfw_concepts", "content_filtered", "blocked", "flagged", "filtered")
_ENDS = {"content_filter", "content_filtered", "safety", "nsfw", "moderation"}  # finish reasons of a refusal
_BLANK = "the picture that came has one colour all over"
# Providers whose own documentation names a seed; of others it is not known that the same seed draws the same picture.
_SEEDED = frozenset({"fal-ai", "hf-inference", "replicate", "together", "wavespeed"})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came for one request."""

    image: Image.Image | None  # None where the service refused to draw
    refusal: str = ""  # why, in its own words
    revised_prompt: str = ""  # that it says it drew in place of the prompt


class ImageService(Protocol):
    """One way to ask for a picture."""

    @property
    def provider(self) -> str:
        """Who draws."""

    @property
    def model(self) -> str:
        """By the provider's own name."""

    @property
    def has_seeds(self) -> bool:
        """Whether the same seed is known to draw the same picture."""

    def check_token(self) -> None:
        """ModelUnavailable where nothing may be asked for want of a token."""

    def draw(self, row: ImageRow) -> Answer:
        """One request; RequestFailed where it has no usable answer."""

    def safe(self, text: str) -> str:
        """A text without the token."""


class RemoteTextToImage:
    """Draws rows by asking a service; each answer is a picture, a refusal, or is asked for again."""

    batch_size = 1

    def __init__(
        self,
        info: ModelInfo,
        name: HostedName,
        service: ImageService,
        *,
        at_once: int = 4,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.info, self.name, self.service, self.at_once = info, name, service, at_once
        self._sleep = sleep

    @property
    def has_seeds(self) -> bool:
        """Whether the same seed is known to draw the same picture."""
        return self.service.has_seeds

    def version(self) -> str:
        """Who draws, and by which name of the model: what decides the pictures beside the row."""
        self.service.check_token()
        return f"{self.service.provider}/{self.service.model}"

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; one that was refused is blank, ``blocked``, and says why.

        Raises NotDrawn: this picture did not come after all tries; ModelUnavailable: no picture would; Cancelled:
        from ``on_step``, which is called while it is waited.
        """
        self.service.check_token()
        pause = self._sleep or partial(_pausing, on_step)
        for row in rows:
            try:
                answer = _PATIENCE.ask(partial(_refusal_or, self.service.draw, row), pause)
            except RequestFailed as failure:
                raise (NotDrawn if failure.again else ModelUnavailable)(str(failure)) from failure
            yield self._generated(row, answer)

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """What is to be said of the service before it is asked."""
        notes = [f"{row.model} is hosted: who draws may change the model, or what is refused, at any time."]
        if not self.has_seeds:
            notes.append(
                f"{row.model} is not known to take a seed: the same request draws another picture each time. Nothing "
                "is paired by its seed."
            )
        return tuple(notes)

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that is asked for; what comes is said with each picture."""
        return width, height

    def check_traceable(self) -> None:
        """Refuse: nothing inside of a hosted model can be seen."""
        raise InvalidInput(
            f"{self.info.id} is hosted, so its denoising steps cannot be seen; take a model that runs here"
        )

    def _generated(self, row: ImageRow, answer: Answer) -> GeneratedImage:
        drawn: dict[str, Any] = {
            "provider": self.service.provider,
            "model": self.service.model,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seed_sent": "seed" not in self.name.unsent,
        }
        if answer.revised_prompt and answer.revised_prompt != row.prompt:
            drawn["revised_prompt"] = answer.revised_prompt
        image, refusal = answer.image, answer.refusal
        if image is not None and is_blank(image):
            refusal = _BLANK
        if refusal or image is None:
            blank = Image.new("RGB", (row.width, row.height))
            drawn["refused"] = self.service.safe(refusal) or "no reason given"
            return GeneratedImage(row=row, image=blank, blocked=True, drawn=drawn)
        return GeneratedImage(row=row, image=image, drawn=drawn | {"width": image.width, "height": image.height})


def _pausing(on_step: StepCallback | None, seconds: float) -> None:
    """Wait, and look at Stop meanwhile."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if on_step is not None:
            on_step(0, 1)
        time.sleep(min(left, _SECONDS_BETWEEN_LOOKS))


def _refusal_or(draw: Callable[[ImageRow], Answer], row: ImageRow) -> Answer:
    """An answer; an error that is a refusal to draw this prompt is one, too."""
    try:
        return draw(row)
    except RequestFailed as failure:
        no_credit = is_unpaid(failure.status, failure.code, failure.reason)
        if failure.status in _REFUSALS and not no_credit and _REFUSED.search(f"{failure.code} {failure.reason}"):
            return Answer(image=None, refusal=": ".join(filter(None, (failure.code, failure.reason))))
        raise


@dataclass(frozen=True, kw_only=True)
class OpenAIImages:
    """``/v1/images/generations`` of OpenAI, or of any server that speaks like it."""

    endpoint: Endpoint
    needs_key: bool = False  # where strangers come: the server's own key is not for them
    has_seeds: ClassVar[bool] = False

    @property
    def provider(self) -> str:
        """The server's name."""
        return self.endpoint.host

    @property
    def model(self) -> str:
        """The model's name there."""
        return self.endpoint.model

    def safe(self, text: str) -> str:
        """Without the key."""
        return self.endpoint.safe(text)

    def check_token(self) -> None:
        """Refuse strangers without a key of their own."""
        if self.needs_key and not self.endpoint.key:
            raise HubNotReached(
                f"openai:{self.model} is paid for by whoever asks: give a key of your own for {self.provider} below, "
                "under “Hosted models: your own token”, or in the header x-hosted-model-token of a program's calls"
            )

    def draw(self, row: ImageRow) -> Answer:
        """One request."""
        name, body = row.model, {"model": self.model, "prompt": row.prompt, "n": 1, "size": f"{row.width}x{row.height}"}
        answer = self.endpoint.post(name, "images/generations", body, again=True)
        if refusal := _flagged(answer):
            return Answer(image=None, refusal=refusal)
        try:
            first = (answer["data"] if "data" in answer else answer["images"])[0]
        except (LookupError, TypeError) as error:
            raise self.endpoint.not_understood(name, error, again=True) from error
        revised = _text(first.get("revised_prompt")) if isinstance(first, Mapping) else ""
        if refusal := _flagged(first):
            return Answer(image=None, refusal=refusal, revised_prompt=revised)
        picture = _link_or_code(first)
        if not picture:
            raise RequestFailed(f"{name} answered without a picture", again=True)
        data = self.endpoint.get(name, picture) if "://" in picture[:20] else _decoded(name, picture)
        return Answer(image=read_picture(name, data), revised_prompt=revised)


class HubInference:
    """Providers behind Hugging Face, through the client of ``huggingface_hub``, always with the given token."""

    def __init__(self, name: HostedName, token: str, *, offline: bool = False, seconds: float = 120.0) -> None:
        self._name, self._token, self._offline, self._seconds = name, token, offline, seconds

    @cached_property
    def _mapping(self) -> tuple[str, str]:
        """Provider and its own name of the model; the hub is asked once."""
        path, provider, title = self._name.path, self._name.provider, f"inference:{self._name.path}"
        if self._offline:
            raise HubNotReached(f"{title} is hosted, and Hugging Face may not be asked (BIAS_OFFLINE forbids it)")
        try:
            api = huggingface_hub.HfApi(token=self._token or False)
            info = api.model_info(path, expand=["inferenceProviderMapping"], timeout=30.0)
        except (HTTPError, HFValidationError, OfflineModeIsEnabled, OSError) as error:
            status = getattr(getattr(error, "response", None), "status_code", 0)
            if status in (401, 403, 404):
                raise ModelUnavailable(
                    f"Hugging Face has no model {path} that this token may see (status {status}); check its name"
                ) from error
            raise HubNotReached(f"{title}: Hugging Face was not reached ({self.safe(str(error))})") from error
        offers = {one.provider: one for one in info.inference_provider_mapping or () if one.task == "text-to-image"}
        if not offers or (provider and provider not in offers):
            others = f", but of {', '.join(offers)}" if offers else ""
            raise ModelUnavailable(
                f"{path} is not on offer of {provider or 'any provider'} as a text-to-image model{others}; see the "
                "page of the model on Hugging Face"
            )
        chosen = offers[provider] if provider else next(iter(offers.values()))
        return str(chosen.provider), str(chosen.provider_id)

    @property
    def provider(self) -> str:
        """Who draws."""
        return self._mapping[0]

    @property
    def model(self) -> str:
        """The provider's own name of the model."""
        return self._mapping[1]

    @property
    def has_seeds(self) -> bool:
        """Whether this provider documents a seed; while it is not known who draws, none is counted on."""
        try:
            return self.provider in _SEEDED
        except ModelUnavailable:
            return False

    def safe(self, text: str) -> str:
        """Without the token."""
        return without_secrets(text, self._token)

    def check_token(self) -> None:
        """Refuse whoever has no token; that of a public server is not for strangers."""
        title = f"inference:{self._name.path}"
        if not self._token:
            raise HubNotReached(
                f"{title} is paid for by whoever asks, so it needs a Hugging Face token of your own: paste one "
                "on the page under “Hosted models: your own token”, or sign in there (on your own machine set "
                "HF_TOKEN, or name another variable with --token-env)"
            )
        if not self._token.startswith("hf_"):
            raise HubNotReached(f"{title} needs a token of Hugging Face, which begins with hf_; the one given does not")

    def draw(self, row: ImageRow) -> Answer:
        """One request."""
        name, provider = row.model, self.provider
        sent: dict[str, Any] = {
            "negative_prompt": row.negative_prompt or None,
            "num_inference_steps": row.num_inference_steps or None,
            "guidance_scale": row.guidance_scale or None,
        }
        client = huggingface_hub.InferenceClient(provider=provider, token=self._token, timeout=self._seconds)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                image = client.text_to_image(
                    row.prompt, model=self._name.path, width=row.width, height=row.height, seed=row.seed, **sent
                )
            return Answer(image=checked_picture(name, image))
        except InferenceTimeoutError as error:
            raise RequestFailed(
                f"{name} did not answer within {self._seconds:g} s; is {provider} overloaded?",
                again=True,
                pause=0.0,
                most=2,
            ) from error
        except HfHubHTTPError as error:
            raise self._refused(name, error) from error
        except (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise RequestFailed(f"{name} answered what is no picture that can be read", again=True) from error
        except (HTTPError, OSError) as error:
            raise RequestFailed(
                f"{name} cannot be reached at {provider}: {self.safe(str(error))}", again=True
            ) from error
        except LookupError as error:
            raise RequestFailed(f"{name}: {provider} answered without a picture", again=True) from error
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestFailed(
                f"{name}: {provider} answered what is not understood ({self.safe(str(error))})", again=True
            ) from error

    def _refused(self, name: str, error: Any) -> RequestFailed:
        """The failure that a status stands for."""
        response = error.response
        status = int(getattr(response, "status_code", 0))
        text, code = error_text(getattr(response, "content", b"") or b"")
        reason = self.safe(text) or self.safe(str(getattr(error, "server_message", "") or ""))
        no_credit = is_unpaid(status, code, text)
        why = f"{self.provider} {'refuses the token' if status == 401 else 'refuses'}"
        why = unpaid(self.provider) if no_credit else why
        message = f"{name}: {why} (status {status}): {reason or 'no reason given'}"
        pause = pause_asked_for(response.headers.get("retry-after", "")) if response is not None else None
        return RequestFailed(
            message, status=status, reason=reason, code=code, again=status in RETRIED and not no_credit, pause=pause
        )


def hosted_model(info: ModelInfo, settings: Settings, token: str) -> RemoteTextToImage:
    """The generator of a hosted model's entry, asked with a visitor's ``token``.

    Without one it is this machine's own token or key, but never where strangers reach this server. ModelUnavailable
    where no server is set for ``openai:``.
    """
    name = hosted_name(info.id)
    if name is None:
        raise UnknownModel(f"{info.id} is no hosted model")
    seconds = settings.remote_seconds
    service: ImageService
    if name.service == "inference":
        own = "" if settings.public else huggingface_hub.get_token() or ""
        service = HubInference(name, token or own, offline=settings.offline, seconds=seconds)
    elif not settings.images_url:
        raise HubNotReached(
            f"{info.id} needs a server, and none is known here (set BIAS_IMAGES_URL to its address, such as "
            "https://api.openai.com/v1, and BIAS_IMAGES_KEY to its key)"
        )
    else:
        own = "" if settings.public else settings.images_key.get_secret_value()
        key = own if token.startswith("hf_") else token or own  # one of Hugging Face is for no other server
        endpoint = Endpoint(
            url=settings.images_url,
            model=name.path,
            key=key,
            seconds=seconds,
            settings="BIAS_IMAGES",
            named_by="the name after openai:",
        )
        service = OpenAIImages(endpoint=endpoint, needs_key=settings.public)
    return RemoteTextToImage(info, name, service, at_once=settings.remote_at_once)


def read_picture(name: str, data: bytes) -> Image.Image:
    """The picture in an answer; RequestFailed where it is none, broken off, or far too large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return checked_picture(name, Image.open(io.BytesIO(data)))
    except (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RequestFailed(f"{name} answered what is no picture that can be read", again=True) from error


def checked_picture(name: str, image: Image.Image) -> Image.Image:
    """An opened picture with its pixels, as RGB; what is transparent lies on white."""
    width, height = image.size
    if min(width, height) < _LEAST_SIDE or width * height > _MOST_PIXELS:
        raise RequestFailed(
            f"{name} answered a picture of {width}x{height} pixels, which is none to measure", again=True
        )
    try:
        image.load()
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for files that are broken off, or wrong
        raise RequestFailed(f"{name} answered a picture that is broken off", again=True) from error
    if image.mode in ("RGBA", "LA", "P", "PA"):
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _link_or_code(item: Any) -> str:
    """A picture in an answer: its address, a data URL or base64; "" for none.

    >>> _link_or_code({"b64_json": None, "url": "https://host/1.png"}), _link_or_code({"image_url": {"url": "data:,"}})
    ('https://host/1.png', 'data:,')
    """
    if isinstance(item, Mapping):
        item = next((item[key] for key in ("b64_json", "url", "image_url", "image") if item.get(key)), "")
    return _link_or_code(item) if isinstance(item, Mapping) else _text(item)


def _decoded(name: str, coded: str) -> bytes:
    """The bytes of a picture in base64, or in a data URL."""
    head, _, rest = coded.partition(",") if coded.startswith("data:") else (";base64", "", coded)
    if not head.endswith(";base64"):
        return unquote_to_bytes(rest)
    try:
        return base64.b64decode("".join(rest.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestFailed(f"{name} answered a picture that is broken off", again=True) from error


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _flagged(answer: object) -> str:
    """Why an answer that came was refused all the same; "" where it was not.

    >>> _flagged({"nsfw_content_detected": [True]}), _flagged({"b64_json": "...", "nsfw": False})
    ('nsfw_content_detected', '')
    """
    if not isinstance(answer, Mapping):
        return ""
    for name in _FLAGS:
        value = answer.get(name)
        if value is True or (isinstance(value, list) and any(one is True for one in value)):
            return name
    for name in ("finish_reason", "finishReason", "status"):
        if str(answer.get(name)).lower() in _ENDS:
            return f"{name} {answer[name]}"
    results = answer.get("content_filter_results")
    filtered = (
        [key for key, one in results.items() if isinstance(one, dict) and one.get("filtered")]
        if isinstance(results, dict)
        else []
    )
    return f"content filter: {', '.join(filtered)}" if filtered else ""
