"""Who may come in: under which names the server may be asked, and how much may be uploaded."""

import os
import re
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bias_core.app.browsers import speaks_for_another_site, trusted_names
from bias_core.errors import quoted
from bias_core.settings import Settings

_MCP = "/gradio_api/mcp"
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

    A script's own site is in the header Origin. It is looked at for whatever comes with a visitor's cookie or password,
    for tools (MCP), and on a server that is not ``public`` (other sites may use its programming interface) for
    everything that does more than read.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        super().__init__(app)
        self._hosts, self._public = hosts, public
        self._trusted = trusted_names(hosts, public)

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
        other = speaks_for_another_site(scope, self._trusted)
        if origin is not None and is_looked_at and not self._is_ours(origin):
            other = quoted(origin)
        if other:
            return PlainTextResponse(
                f"A page of {other} may not use this server for you. Open this server's own page; its owner can add "
                "that site to BIAS_ALLOWED_HOSTS.",
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
