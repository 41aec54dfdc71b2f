"""Who may come in: under which names the server may be asked, and how much may be uploaded."""

import os
import re
from ipaddress import ip_address
from pathlib import Path

from gradio.utils import get_upload_folder
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bias_core.settings import Settings
from bias_core.store.files import total_bytes

_MCP = "/gradio_api/mcp"
_UPLOAD = "/gradio_api/upload"
_HUB = "huggingface.co"  # whose pages ask a Space's tools
_READING = {"GET", "HEAD", "OPTIONS"}
_ADDRESS = re.compile(r"(https?:)?//(?P<name>[a-z0-9._-]+|\[(?P<number>[0-9a-f:.]+)\])(:[0-9]{1,5})?", re.IGNORECASE)


class _Door:
    """Answers a request with a refusal, or passes it on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is not refused."""
        refusal = self.refusal(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered; None where it is."""
        raise NotImplementedError


def allowed_hosts(settings: Settings, server_name: str) -> frozenset[str]:
    """Names of this server; numbers need no list, for only a name can be made to point elsewhere (DNS rebinding)."""
    space = os.environ.get("SPACE_HOST", "") + (f",{_HUB}" if os.environ.get("SPACE_ID") else "")
    names = f"localhost,{server_name},{settings.host},{settings.allowed_hosts},{space}".lower()
    return frozenset(names.replace(",", " ").split())


class HostCheck(_Door):
    """Refuses requests under a name that is not this server's, and those of other sites' scripts.

    A script's own site is in the header Origin. It is looked at for tools (MCP), and on a server that is not
    ``public`` (other sites may use its programming interface) for everything that does more than read.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        super().__init__(app)
        self._hosts, self._public = hosts, public

    def refusal(self, scope: Scope) -> Response | None:
        """Of what is asked under another name, or by another site."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(f"//{host}"):
            return PlainTextResponse(
                f"This server is not known as {host[:100]!r}. Open it under localhost, or let its owner add "
                "the name to BIAS_ALLOWED_HOSTS.",
                status_code=421,
            )
        is_looked_at = _MCP in scope["path"] or not (self._public or scope.get("method", "POST") in _READING)
        if origin is not None and is_looked_at and not self._is_ours(origin):
            return PlainTextResponse(
                f"A page of {origin[:100]!r} may not use this server. Its owner can add that site to "
                "BIAS_ALLOWED_HOSTS.",
                status_code=403,
            )
        return None

    def _is_ours(self, address: str) -> bool:
        """True for ``//host:port`` or an origin of this server; nothing else stands in it, as ``a@`` may elsewhere."""
        matched = _ADDRESS.fullmatch(address)
        if matched is None:
            return False
        name = matched["number"] or matched["name"].lower().rstrip(".")
        try:
            number = ip_address(name)
        except ValueError:
            return matched["number"] is None and name in self._hosts
        return address.startswith("//") or number.is_loopback or name in self._hosts


class UploadQuota(_Door):
    """Refuses an upload while those of the last hour take more than ``limit`` bytes together."""

    def __init__(self, app: ASGIApp, limit: int, folder: Path | None = None) -> None:
        super().__init__(app)
        self._limit, self._folder = limit, folder

    def refusal(self, scope: Scope) -> Response | None:
        """Of an upload that would be too much."""
        folder = self._folder or Path(get_upload_folder())
        if not scope["path"].rstrip("/").endswith(_UPLOAD):
            return None
        if total_bytes(path for path in folder.rglob("*") if path.is_file()) <= self._limit:
            return None
        return PlainTextResponse(
            f"All visitors together have uploaded {self._limit / 1e9:g} GB within an hour, and more "
            "is not kept. Try again in an hour, or bring fewer or smaller pictures.",
            status_code=507,
        )
