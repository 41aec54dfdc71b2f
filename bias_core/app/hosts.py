"""Under which names this server may be asked, so that no other page reaches it by a name of its own."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from bias_core.settings import Settings

_MCP = "/gradio_api/mcp"
_HUB = "huggingface.co"  # whose pages ask a Space's tools
_READING = {"GET", "HEAD", "OPTIONS"}


def allowed_hosts(settings: Settings, server_name: str) -> frozenset[str]:
    """Names of this server: of this machine, of the settings, and a Space's own.

    Numbers need no list: only a name can be made to point somewhere else (DNS rebinding).
    """
    space = os.environ.get("SPACE_HOST", "") + (f",{_HUB}" if os.environ.get("SPACE_ID") else "")
    names = f"localhost,{server_name},{settings.host},{settings.allowed_hosts},{space}".lower()
    return frozenset(names.replace(",", " ").split())


class HostCheck:
    """Refuses requests under a name that is not this server's, and those of other sites' scripts.

    A script's own site is in the header Origin. It is looked at for tools (MCP), and on a server that is not
    public for everything that does more than read.

    Parameters
    ----------
    hosts : from :func:`allowed_hosts`.
    public : whether other sites may use this server's programming interface.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        self._app, self._hosts, self._public = app, hosts, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked under a name of this server."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif refusal := self._refusal(scope, Headers(scope=scope)):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> PlainTextResponse | None:
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
        try:
            name = urlsplit(address).hostname or ""
        except ValueError:
            return False
        if name.rstrip(".") in self._hosts:
            return True
        try:
            number = ip_address(name)
        except ValueError:
            return False
        return address.startswith("//") or number.is_loopback or name in self._hosts
