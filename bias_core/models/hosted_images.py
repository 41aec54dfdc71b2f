"""Text-to-image models of hosted services, and the engine that sends them parallel requests."""

import base64
import binascii
import io
import re
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any
from urllib.parse import unquote_to_bytes

import huggingface_hub
from PIL import Image, UnidentifiedImageError

from bias_core.errors import (
    BiasCoreError,
    Cancelled,
    HubNotReached,
    Interrupted,
    InvalidInput,
    ModelUnavailable,
    NotDrawn,
    UnknownModel,
)
from bias_core.models import hub_errors
from bias_core.models.catalogue import HostedName, hosted_name
from bias_core.models.endpoints import (
    RETRIED,
    Endpoint,
    RequestFailed,
    ask_until_answered,
    error_text,
    is_unpaid,
    parse_retry_after,
    unpaid,
    without_secrets,
)
from bias_core.models.engines import Drawing, EngineProgress, follow, stopped
from bias_core.protocols import StepCallback, TextToImage
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.types import BLOCK_REASON, ONE_COLOUR, GeneratedImage, ImageRow, ModelInfo, StoredImage, is_blank
from bias_core.waiting import Lock, StopSignal, handing_over, never, wait_while_paused, work_clock

_POLL_SECONDS = 0.1  # seconds between two checks of Stop
_LEAST_SIDE, _MOST_PIXELS = 16, 50_000_000
_REFUSAL_STATUSES = (400, 403, 422, 451)
_REFUSAL_WORDS = re.compile(
    r"moderation|content[ _-]?(policy|filter|management)|nsfw|flagged|inappropriate|prohibited|violat|guardrail"
    r"|(for|to) safety|safety[ _-]?(system|filter|polic|reason|violation|setting|check\w* (block|fail|trigger|flag))"
    r"|sensitive[ _-](content|word|topic|prompt)|responsible[ _]?ai",
    re.IGNORECASE,
)
_FLAGS = ("nsfw", "nsfw_content_detected", "has_nsfw_concepts", "content_filtered", "blocked", "flagged", "filtered")
_ENDS = {"content_filter", "content_filtered", "safety", "nsfw", "moderation"}  # finish reasons of a refusal
# Providers that document a seed; for others it is unknown if equal seeds draw equal pictures.
_SEEDED = frozenset({"fal-ai", "hf-inference", "replicate", "together", "wavespeed"})


@dataclass(frozen=True, kw_only=True)
class PictureAnswer:
    image: Image.Image | None  # None if the service refused
    refusal: str = ""  # the service's reason
    revised_prompt: str = ""  # prompt that the service says it drew instead


class HostedTextToImage(ABC):
    """Draws rows by requests to a service; each answer is a picture, a refusal, or is retried."""

    batch_size = 1

    def __init__(self, info: ModelInfo, name: HostedName, *, at_once: int = 4) -> None:
        self.info, self.name, self.at_once = info, name, at_once

    @property
    def has_seeds(self) -> bool:
        """True if equal seeds are known to draw equal pictures."""
        return False

    @property
    @abstractmethod
    def provider_and_model(self) -> tuple[str, str]:
        """The provider, and its name of the model."""

    @abstractmethod
    def check_token(self) -> None:
        """Raise ModelUnavailable if a token is missing."""

    @abstractmethod
    def draw(self, row: ImageRow) -> PictureAnswer:
        """Send one request; RequestFailed without a usable answer."""

    @abstractmethod
    def safe(self, text: str) -> str:
        """Return the text without the token."""

    def version(self) -> str:
        """The provider and its name of the model, which decide the pictures together with the row."""
        self.check_token()
        return "/".join(self.provider_and_model)

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; a refused or blanked one is ``blocked``, with the reason.

        Raises NotDrawn: this picture did not come after all tries; ModelUnavailable: no picture would; Cancelled:
        from ``on_step``, which is called during the wait.
        """
        self.check_token()
        for row in rows:
            try:
                answer = ask_until_answered(partial(self._picture_or_refusal, row), partial(_pause, on_step))
            except RequestFailed as failure:
                raise (NotDrawn if failure.can_retry else ModelUnavailable)(str(failure)) from failure
            yield self._generated(row, answer)

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """Warnings about the service, before it is asked."""
        notes = [f"{row.model} is hosted: its provider may change the model or its filter at any time."]
        if not self.has_seeds:
            notes.append(
                f"{row.model} is not known to take a seed: the same request draws another picture each time. Pictures "
                "cannot be paired by seed."
            )
        return tuple(notes)

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The requested size; each picture tells the size that came."""
        return width, height

    def check_traceable(self) -> None:
        """Raise InvalidInput, because a hosted model's steps cannot be seen."""
        raise InvalidInput(f"{self.info.id} is hosted, so its denoising steps cannot be seen; choose a local model")

    def _picture_or_refusal(self, row: ImageRow) -> PictureAnswer:
        """The answer; an error that refuses this prompt counts as a refusal."""
        try:
            return self.draw(row)
        except RequestFailed as failure:
            no_credit = is_unpaid(failure.status, failure.code, failure.reason)
            words = f"{failure.code} {failure.reason}"
            if failure.status in _REFUSAL_STATUSES and not no_credit and _REFUSAL_WORDS.search(words):
                return PictureAnswer(image=None, refusal=": ".join(filter(None, (failure.code, failure.reason))))
            raise

    def _generated(self, row: ImageRow, answer: PictureAnswer) -> GeneratedImage:
        provider, model = self.provider_and_model
        drawn: dict[str, Any] = {
            "provider": provider,
            "model": model,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed_sent": "seed" not in self.name.unsent,
        }
        if answer.revised_prompt and answer.revised_prompt != row.prompt:
            drawn["revised_prompt"] = answer.revised_prompt
        image, refusal = answer.image, answer.refusal
        if image is not None and is_blank(image):
            refusal = ONE_COLOUR
        if refusal or image is None:
            blank = Image.new("RGB", (row.width, row.height))
            drawn[BLOCK_REASON] = self.safe(refusal) or "no reason given"
            return GeneratedImage(row=row, image=blank, blocked=True, drawn=drawn)
        return GeneratedImage(row=row, image=image, drawn=drawn | {"width": image.width, "height": image.height})


def _pause(on_step: StepCallback | None, seconds: float) -> None:
    """Wait, and check Stop meanwhile."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if on_step is not None:
            on_step(0, 1)
        time.sleep(min(left, _POLL_SECONDS))


class OpenAIImages(HostedTextToImage):
    """Draws by ``/v1/images/generations`` of OpenAI or a compatible server."""

    def __init__(
        self, info: ModelInfo, name: HostedName, endpoint: Endpoint, *, needs_key: bool = False, at_once: int = 4
    ) -> None:
        super().__init__(info, name, at_once=at_once)
        self.endpoint = endpoint
        self._needs_key = needs_key  # on a public server: visitors may not use its key

    @property
    def provider_and_model(self) -> tuple[str, str]:
        """The server, and its name of the model."""
        return self.endpoint.host, self.endpoint.model

    def safe(self, text: str) -> str:
        """Return the text without the key."""
        return self.endpoint.safe(text)

    def check_token(self) -> None:
        """Refuse, by HubNotReached, visitors of a public server without their own key."""
        if self._needs_key and not self.endpoint.key:
            raise HubNotReached(
                f"{self.info.id} costs its user money: give your own key for {self.endpoint.host} below, "
                "under “Hosted models: your own token”, or in the header x-hosted-model-token of a program's calls"
            )

    def draw(self, row: ImageRow) -> PictureAnswer:
        """Send one request; RequestFailed without a usable answer."""
        name, size = row.model, f"{row.width}x{row.height}"
        body = {"model": self.endpoint.model, "prompt": row.prompt, "n": 1, "size": size}
        answer = self.endpoint.post(name, "images/generations", body, can_retry=True)
        if refusal := _flagged(answer):
            return PictureAnswer(image=None, refusal=refusal)
        try:
            first = (answer["data"] if "data" in answer else answer["images"])[0]
        except (LookupError, TypeError) as error:
            raise self.endpoint.not_understood(name, error, can_retry=True) from error
        revised = _read_text(first.get("revised_prompt")) if isinstance(first, Mapping) else ""
        if refusal := _flagged(first):
            return PictureAnswer(image=None, refusal=refusal, revised_prompt=revised)
        picture = _link_or_code(first)
        if not picture:
            raise RequestFailed(f"{name} answered without a picture", can_retry=True)
        data = self.endpoint.get(name, picture) if "://" in picture[:20] else _decoded(name, picture)
        return PictureAnswer(image=read_picture(name, data), revised_prompt=revised)


class HubInference(HostedTextToImage):
    """Draws by providers behind Hugging Face, through its client, always with the given token."""

    def __init__(
        self,
        info: ModelInfo,
        name: HostedName,
        token: str,
        *,
        offline: bool = False,
        seconds: float = 120.0,
        at_once: int = 4,
    ) -> None:
        super().__init__(info, name, at_once=at_once)
        self._token, self._offline, self._seconds = token, offline, seconds

    @cached_property
    def provider_and_model(self) -> tuple[str, str]:
        """The provider, and its own name of the model; the hub is asked once. HubNotReached if it does not answer."""
        path, provider, title = self.name.path, self.name.provider, f"inference:{self.name.path}"
        if self._offline:
            raise HubNotReached(f"{title} is hosted, and Hugging Face may not be asked (BIAS_OFFLINE forbids it)")
        try:
            api = huggingface_hub.HfApi(token=self._token or False)
            info = api.model_info(path, expand=["inferenceProviderMapping"], timeout=30.0)
        except (hub_errors.HTTPError, hub_errors.HFValidationError, hub_errors.OfflineModeIsEnabled, OSError) as error:
            status = getattr(getattr(error, "response", None), "status_code", 0)
            if status in (401, 403, 404):
                raise ModelUnavailable(
                    f"Hugging Face has no model {path} that this token may see (status {status}); check its name"
                ) from error
            raise HubNotReached(f"{title}: Hugging Face was not reached ({self.safe(str(error))})") from error
        offers = {
            offer.provider: offer for offer in info.inference_provider_mapping or () if offer.task == "text-to-image"
        }
        if not offers or (provider and provider not in offers):
            providers = f", but of {', '.join(offers)}" if offers else ""
            raise ModelUnavailable(
                f"{path} is not on offer of {provider or 'any provider'} as a text-to-image model{providers}; see the "
                "page of the model on Hugging Face"
            )
        chosen = offers[provider] if provider else next(iter(offers.values()))
        return str(chosen.provider), str(chosen.provider_id)

    @property
    def has_seeds(self) -> bool:
        """True if this provider documents a seed; False while the provider is unknown."""
        try:
            return self.provider_and_model[0] in _SEEDED
        except ModelUnavailable:
            return False

    def safe(self, text: str) -> str:
        """Return the text without the token."""
        return without_secrets(text, self._token)

    def check_token(self) -> None:
        """Refuse a visitor without a token; a public server's own token is not for visitors."""
        title = f"inference:{self.name.path}"
        if not self._token:
            raise HubNotReached(
                f"{title} costs its user money, so it needs your own Hugging Face token: paste one "
                "on the page under “Hosted models: your own token”, or sign in there (on your own machine set "
                "HF_TOKEN, or name another variable with --token-env)"
            )
        if not self._token.startswith("hf_"):
            raise HubNotReached(f"{title} needs a token of Hugging Face, which begins with hf_; the one given does not")

    def draw(self, row: ImageRow) -> PictureAnswer:
        """Send one request; RequestFailed without a usable answer."""
        name, provider = row.model, self.provider_and_model[0]
        sent: dict[str, Any] = {
            "negative_prompt": row.negative_prompt or None,
            "num_inference_steps": row.num_inference_steps or None,
            "guidance_scale": row.guidance_scale or None,
        }
        client = huggingface_hub.InferenceClient(provider=provider, token=self._token, timeout=self._seconds)
        try:
            with _refuse_unreadable(name):
                image = client.text_to_image(
                    row.prompt, model=self.name.path, width=row.width, height=row.height, seed=row.seed, **sent
                )
                return PictureAnswer(image=checked_picture(name, image))
        except hub_errors.InferenceTimeoutError as error:
            raise RequestFailed(
                f"{name} did not answer within {self._seconds:g} s; is {provider} overloaded?",
                can_retry=True,
                pause=0.0,
                max_requests=2,
            ) from error
        except hub_errors.HfHubHTTPError as error:
            raise self._refused(name, error) from error
        except (hub_errors.HTTPError, OSError) as error:
            raise RequestFailed(
                f"{name} cannot be reached at {provider}: {self.safe(str(error))}", can_retry=True
            ) from error
        except LookupError as error:
            raise RequestFailed(f"{name}: {provider} answered without a picture", can_retry=True) from error
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestFailed(
                f"{name}: {provider} sent an answer that is not understood ({self.safe(str(error))})", can_retry=True
            ) from error

    def _refused(self, name: str, error: Any) -> RequestFailed:
        response = error.response
        status = int(getattr(response, "status_code", 0))
        text, code = error_text(getattr(response, "content", b"") or b"")
        reason = self.safe(text) or self.safe(str(getattr(error, "server_message", "") or ""))
        no_credit = is_unpaid(status, code, text)
        provider = self.provider_and_model[0]
        refusal = f"{provider} {'refuses the token' if status == 401 else 'refuses'}"
        refusal = unpaid(provider) if no_credit else refusal
        message = f"{name}: {refusal} (status {status}): {reason or 'no reason given'}"
        pause = parse_retry_after(response.headers.get("retry-after", "")) if response is not None else None
        return RequestFailed(
            message, status=status, reason=reason, code=code, can_retry=status in RETRIED and not no_credit, pause=pause
        )


def hosted_model(info: ModelInfo, settings: Settings, token: str) -> HostedTextToImage:
    """Build the generator of a hosted model's entry, with a visitor's ``token``.

    Without one it uses this machine's token or key, but never on a public server. HubNotReached if no server is set
    for ``openai:``, UnknownModel for a model that is not hosted.
    """
    name = hosted_name(info.id)
    if name is None:
        raise UnknownModel(f"{info.id} is not a hosted model")
    seconds, at_once = settings.remote_seconds, settings.remote_at_once
    if name.service == "inference":
        machine_key = "" if settings.public else huggingface_hub.get_token() or ""
        return HubInference(
            info, name, token or machine_key, offline=settings.offline, seconds=seconds, at_once=at_once
        )
    if not settings.images_url:
        raise HubNotReached(
            f"{info.id} needs a server, and none is known here (set BIAS_IMAGES_URL to its address, such as "
            "https://api.openai.com/v1, and BIAS_IMAGES_KEY to its key)"
        )
    machine_key = "" if settings.public else settings.images_key.get_secret_value()
    endpoint = Endpoint(
        url=settings.images_url,
        model=name.path,
        key=machine_key
        if token.startswith("hf_")
        else token or machine_key,  # Hugging Face's token goes to no other server
        seconds=seconds,
        settings="BIAS_IMAGES",
        named_by="the name after openai:",
    )
    return OpenAIImages(info, name, endpoint, needs_key=settings.public, at_once=at_once)


def read_picture(name: str, data: bytes) -> Image.Image:
    """Return the picture in an answer; RequestFailed if it is unreadable, cut off, or far too large."""
    with _refuse_unreadable(name):
        return checked_picture(name, Image.open(io.BytesIO(data)))


@contextmanager
def _refuse_unreadable(name: str) -> Iterator[None]:
    """Raise RequestFailed for data that Pillow cannot read, or a huge picture."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RequestFailed(f"{name} answered with an unreadable picture", can_retry=True) from error


def checked_picture(name: str, image: Image.Image) -> Image.Image:
    """Load a picture as RGB, with transparent parts on white; RequestFailed if damaged, tiny or huge."""
    width, height = image.size
    if min(width, height) < _LEAST_SIDE or width * height > _MOST_PIXELS:
        raise RequestFailed(
            f"{name} answered a picture of {width}x{height} pixels: too large or too small", can_retry=True
        )
    try:
        image.load()
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's errors for cut-off or malformed files
        raise RequestFailed(f"{name} answered with a cut-off picture", can_retry=True) from error
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
    return _link_or_code(item) if isinstance(item, Mapping) else _read_text(item)


def _decoded(name: str, coded: str) -> bytes:
    """The bytes of a picture in base64, or in a data URL."""
    head, _, content = coded.partition(",") if coded.startswith("data:") else (";base64", "", coded)
    if not head.endswith(";base64"):
        return unquote_to_bytes(content)
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestFailed(f"{name} answered with a cut-off picture", can_retry=True) from error


def _read_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _flagged(answer: object) -> str:
    """The reason that an answer counts as a refusal; "" if it does not.

    >>> _flagged({"nsfw_content_detected": [True]}), _flagged({"b64_json": "...", "nsfw": False})
    ('nsfw_content_detected', '')
    """
    if not isinstance(answer, Mapping):
        return ""
    for name in _FLAGS:
        value = answer.get(name)
        if value is True or (isinstance(value, list) and any(flag is True for flag in value)):
            return name
    for name in ("finish_reason", "finishReason", "status"):
        if str(answer.get(name)).lower() in _ENDS:
            return f"{name} {answer[name]}"
    results = answer.get("content_filter_results")
    filtered = (
        [key for key, result in results.items() if isinstance(result, dict) and result.get("filtered")]
        if isinstance(results, dict)
        else []
    )
    return f"content filter: {', '.join(filtered)}" if filtered else ""


_GRACE_SECONDS = 0.5  # seconds after Stop for pending answers
_MOST_AT_FIRST = 8  # failures before the first picture that end the requests
_MOST_IN_A_ROW = 40  # the same later on: a failing prompt does not mean that the service is down


class RequestsEngine:
    """Sends ``at_once`` requests at a time, without a lock, because no model runs on this machine."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once

    def n_workers(self) -> int:
        return self._at_once

    def place(self) -> str:
        """A constant, since pictures are drawn elsewhere."""
        return "a hosted model"

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock | None = None,
        cancelled: StopSignal = never,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row has its picture in ``store``.

        Raises Cancelled: within a second of ``cancelled()``, and no further request is sent; pending pictures
        are stored when they come, if the program still runs. Interrupted: some pictures did not come after all
        tries, all others are stored. ModelUnavailable: none would come.
        """
        return follow(rows, store, lambda missing: _RequestDrawing(missing, model, store, self._at_once, cancelled))

    def close(self) -> None:
        """Do nothing, as there is nothing to close."""


class _RequestDrawing(Drawing):
    """A thread for each request on its way."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, at_once: int, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._at_once = rows, model, store, at_once
        self._over = threading.Event()
        self._failures: list[BiasCoreError] = []
        self._in_a_row = self._n_drawn = 0
        self._fatal: BiasCoreError | None = None

    def draw(self) -> None:
        rows, pending, clock = iter(self._rows), set[Future[list[StoredImage]]](), work_clock()
        try:
            while True:
                self.check()
                if not pending:
                    wait_while_paused(self.check)
                max_pending = 1 if clock.is_paused else self._at_once  # a run paused just now sends one more request
                while len(pending) < max_pending and self._fatal is None and (row := next(rows, None)) is not None:
                    pending.add(self._start(row))
                if not pending:
                    break
                pending -= self._take(pending, _POLL_SECONDS)
                if self._fatal is not None:
                    self._over.set()  # wait for pending requests instead of repeating them
        except Cancelled:
            self._over.set()
            self._take(pending, _GRACE_SECONDS, wait_for_all=True)
            raise
        if self._fatal is not None:
            raise self._fatal
        if self._failures:
            self._say_failures()

    def _start(self, row: ImageRow) -> "Future[list[StoredImage]]":
        future: Future[list[StoredImage]] = Future()
        # A daemon: a missing answer delays neither Stop nor the end of the program.
        threading.Thread(target=self._ask, args=(row, future), daemon=True, name="bias-request").start()
        return future

    def _ask(self, row: ImageRow, future: "Future[list[StoredImage]]") -> None:
        with handing_over(future):
            future.set_result(self._store.add(list(self._model.generate([row], on_step=self._on_step))))

    def _on_step(self, _step: int, _n_steps: int) -> None:
        if self._over.is_set():
            raise stopped()

    def _take(
        self, pending: "set[Future[list[StoredImage]]]", seconds: float, *, wait_for_all: bool = False
    ) -> "set[Future[list[StoredImage]]]":
        """Pass on the answers of that time; return the ended requests."""
        ended = wait(pending, timeout=seconds, return_when="ALL_COMPLETED" if wait_for_all else FIRST_COMPLETED).done
        for future in ended:
            error = future.exception()
            if error is None:
                self._n_drawn, self._in_a_row = self._n_drawn + 1, 0
                self.put(future.result())
            elif isinstance(error, NotDrawn):
                self._failures.append(error)
                self._in_a_row += 1
                self._fatal = self._fatal or self._service_down(error)
            elif not isinstance(error, Cancelled):
                self._fatal = self._fatal or error  # type: ignore[assignment]
        return ended

    def _service_down(self, error: NotDrawn) -> BiasCoreError | None:
        """The error after too many failures in a row; None before that."""
        if self._in_a_row < (_MOST_IN_A_ROW if self._n_drawn else _MOST_AT_FIRST):
            return None
        kind = Interrupted if self._n_drawn else ModelUnavailable
        return kind(
            f"{error}. {self._in_a_row} pictures failed in a row, so no more were requested; earlier ones are "
            "kept, and the same settings go on from there"
        )

    def _say_failures(self) -> None:
        """Raise the error for the missing pictures, if any."""
        n, first = len(self._failures), self._failures[0]
        if not self._n_drawn:
            raise ModelUnavailable(f"{first}; no picture came")
        raise Interrupted(
            f"{n:,} of {len(self._rows):,} pictures did not come after all tries ({first}). The others are kept; "
            "the same settings request only the missing ones"
        )
