"""The rater's screen as files of its own: no framework, nothing from elsewhere, and nothing of the app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.responses import FileResponse
from starlette.routing import Route

from bias_core.settings import ASSETS

if TYPE_CHECKING:
    from starlette.requests import Request

FOLDER = ASSETS / "label"
_FILES = {"/label": "index.html", "/label/label.css": "label.css", "/label/label.js": "label.js"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the link is in the address
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


def page_routes() -> list[Route]:
    """The page and what it is made of. Links to it stand on other sites, so anyone may ask for it."""
    return [Route(path, _sender(name), methods=["GET"]) for path, name in _FILES.items()]


def _sender(name: str) -> Callable[[Request], Awaitable[FileResponse]]:
    async def send(_: Request) -> FileResponse:
        return FileResponse(FOLDER / name, headers=_HEADERS)

    return send
