"""The paths that the page, programs and raters need; everything else that Gradio 6.31 would answer is closed."""

import re

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_OPEN = re.compile(
    r"/"  # the page, and what belongs to it
    r"|/(config|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon|openapi\.json|logout)/?"
    r"|/(assets|static|pwa_icon|login)/.+"
    r"|/label(/.*)?"  # raters
    r"|/gradio_api/(info|openapi\.json|app_id|theme\.css|startup-events|upload|upload_progress|reset|cancel)/?"
    r"|/gradio_api/(queue/join|queue/data)/?"
    r"|/gradio_api/(heartbeat|call|run|api)/.+"
    r"|/gradio_api/mcp(/.*)?"
    r"|/gradio_api/file=(?![a-z][a-z0-9+.-]+:/|[/\\]{2}).+",  # a file of this server, and no address elsewhere
    re.IGNORECASE | re.DOTALL,
)


class OpenPaths:
    """Answers 404 to a path that nothing here needs, before its body is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is needed."""
        path = scope.get("path", "/").removeprefix(scope.get("root_path", "").rstrip("/"))
        is_open = scope["type"] == "lifespan" or _OPEN.fullmatch(path)
        await (self._app if is_open else PlainTextResponse("Not Found", 404))(scope, receive, send)
