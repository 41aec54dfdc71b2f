"""Access rules: server names, open paths, other sites, and the browser of a page."""

import os
import re
import secrets
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.errors import quoted
from bias_core.report.saved import Newest
from bias_core.settings import Settings
from bias_core.ui.visitor import BROWSER, SECURE_BROWSER, identify_browser, own_cookie

API = "/gradio_api"
MCP = f"{API}/mcp"
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]", "0.0.0.0"})
_MOST_PAGES = 100_000
_IN_PATH = re.compile(r"/(?:heartbeat|call/(?:v2/)?[^/]+)/([^/]+)")  # paths in which Gradio expects the name of a page
_NAME = "session_hash"  # Gradio's word for an open page
_NOT_YOURS = "This page was opened in another browser, or this browser's cookies were deleted: reload the page."


def speaks_for_another_site(scope: Scope, names: frozenset[str]) -> str:
    """The other site, quoted, that sends this request with a visitor's cookie or password; "" if there is none.

    The browser says so and scripts cannot change it: by Origin, or else by Sec-Fetch-Site. A link elsewhere may open
    a page, because then the visitor acts. ``names`` are this server's and those of sites that its owner trusts.
    """
    headers = Headers(scope=scope)
    if "cookie" not in headers and "authorization" not in headers:
        return ""
    if origins := headers.getlist("origin"):
        other_sites = [origin for origin in origins if not _is_own(origin, headers.get("host", ""), names)]
        return quoted(other_sites[0]) if other_sites else ""
    is_own = headers.get("sec-fetch-site", "none") in ("same-origin", "none") or _opens_a_page(scope, headers)
    return "" if is_own else "another site"


def _is_own(origin: str, host: str, names: frozenset[str]) -> bool:
    """True for the requested site and for trusted names, on any port."""
    address = re.fullmatch(r"https?://((\[[0-9a-f:.]+\]|[^/@:\[\]\s]+)(?::\d+)?)", origin.lower())
    return address is not None and (address[1] == host.lower() or address[2].rstrip(".") in names)


def _opens_a_page(scope: Scope, headers: Headers) -> bool:
    is_opened = scope.get("method") in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return is_opened and API not in scope["path"] and not scope["path"].rstrip("/").endswith("/logout")


def trusted_names(hosts: frozenset[str], public: bool) -> frozenset[str]:
    """Names of sites that may act for a visitor, from the owner's ``hosts``; at home all sites on this machine.

    A public server does not trust localhost, which is a different machine for every visitor.
    """
    return hosts - _THIS_MACHINE if public else hosts | _THIS_MACHINE


def cors_options(hosts: frozenset[str], public: bool) -> dict[str, Any]:
    """Options of Starlette's CORSMiddleware: the sites that may read answers, never with cookies.

    On a public server all sites, because its API is open; else this machine and ``hosts``.
    """
    names = "|".join(map(re.escape, sorted(hosts | _THIS_MACHINE)))
    allowed_origins = {"allow_origins": ["*"]} if public else {"allow_origin_regex": rf"https?://({names})(:\d+)?"}
    return {**allowed_origins, "allow_methods": ["*"], "allow_headers": ["*"], "allow_credentials": False}


class PageOwners:
    """Answers requests for an open page only to the browser that opened it, and gives browsers a cookie.

    A stranger who knows or guesses the name of a visitor's page can neither read answers nor start runs there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._owners = Newest[str](_MOST_PAGES)  # browsers by page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests without a page or for this browser's page."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        if not self._is_owner(identify_browser(connection), scope):
            content = {"error": _NOT_YOURS, "detail": _NOT_YOURS}  # the page shows either key
            await JSONResponse(content, status_code=403)(scope, receive, send)
            return
        is_new = scope["path"] == "/" and scope["method"] == "GET" and not own_cookie(connection)
        await self._app(scope, receive, _giving_a_cookie(scope, send) if is_new else send)

    def _is_owner(self, browser: str, scope: Scope) -> bool:
        """True if all pages in a request belong to this browser, as does a page first named by its event."""
        named = QueryParams(scope["query_string"]).getlist(_NAME)
        if scope["method"] == "GET":
            named += _IN_PATH.findall(scope["path"])
        if page := scope.get("page", ""):
            named.append(page)
            if self._owners.get(page) is None and scope["method"] == "POST":
                self._owners.put(page, browser)
        return all(self._owners.get(page) in (None, browser) for page in named)


def _giving_a_cookie(scope: Scope, send: Send) -> Send:
    """Sends the answer with a random session cookie."""
    is_secure = "https" in (scope["scheme"], Headers(scope=scope).get("x-forwarded-proto", "").split(",")[0].strip())
    flags = "Secure; SameSite=None; Partitioned" if is_secure else "SameSite=Lax"  # a Space is in another site's page
    name = SECURE_BROWSER if is_secure else BROWSER
    cookie = f"{name}={secrets.token_urlsafe(24)}; Path=/; HttpOnly; {flags}"

    async def giving(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("set-cookie", cookie)
            headers.setdefault("cache-control", "private")
        await send(message)

    return giving


_OPEN = re.compile(
    r"/"  # the page, and what belongs to it
    r"|/(config|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon|openapi\.json|logout)/?"
    r"|/(assets|static|pwa_icon|login)/.+"
    r"|/label(/.*)?"  # raters
    r"|/shared/[a-z0-9]+\.jpg"  # previews of shared results
    r"|/gradio_api/(info|openapi\.json|app_id|theme\.css|startup-events|upload|upload_progress|reset|cancel)/?"
    r"|/gradio_api/(queue/join|queue/data)/?"
    r"|/gradio_api/(heartbeat|call|run|api)/.+"
    r"|/gradio_api/mcp(/.*)?"
    r"|/gradio_api/file=(?![a-z][a-z0-9+.-]+:/|[/\\]{2}).+",  # a file of this server, and no address elsewhere
    re.IGNORECASE | re.DOTALL,
)


class OpenPaths:
    """Answers 404 to unused paths, before reading the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests for used paths."""
        path = scope.get("path", "/").removeprefix(scope.get("root_path", "").rstrip("/"))
        is_open = scope["type"] == "lifespan" or _OPEN.fullmatch(path)
        await (self._app if is_open else PlainTextResponse("Not Found", 404))(scope, receive, send)


_HUB = "huggingface.co"  # its pages call a Space's tools
_READING = {"GET", "HEAD", "OPTIONS"}
_ADDRESS = re.compile(r"(https?:)?//(?P<name>[a-z0-9._-]+|\[(?P<number>[0-9a-f:.]+)\])(:[0-9]{1,5})?", re.IGNORECASE)


def allowed_hosts(settings: Settings, server_name: str) -> frozenset[str]:
    """Names of this server; IP addresses need no list, because only a name can be redirected (DNS rebinding)."""
    space = os.environ.get("SPACE_HOST", "") + (f",{_HUB}" if os.environ.get("SPACE_ID") else "")
    names = f"localhost,{server_name},{settings.host},{settings.allowed_hosts},{space}".lower()
    return frozenset(names.replace(",", " ").split())


class HostCheck:
    """Refuses requests under a wrong server name, and those by other sites' scripts.

    The header Origin names a script's site. It is checked for requests with a visitor's cookie or password, for tools
    (MCP), and, unless the server is ``public`` (other sites may use its API), for everything that does more than read.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        self._app, self._hosts, self._public = app, hosts, public
        self._trusted = trusted_names(hosts, public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on accepted requests."""
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the reason to refuse a request; None if it may pass."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(f"//{host}"):
            return PlainTextResponse(
                f"This server is not known as {host[:100]!r}. Open it under localhost, or ask its owner to "
                "add the name to BIAS_ALLOWED_HOSTS.",
                status_code=421,
            )
        is_looked_at = MCP in scope["path"] or not (self._public or scope.get("method", "POST") in _READING)
        site = speaks_for_another_site(scope, self._trusted)
        if origin is not None and is_looked_at and not self._is_ours(origin):
            site = quoted(origin)
        if site:
            return PlainTextResponse(
                f"A page of {site} may not use this server for you. Open this server's own page; its owner can add "
                "that site to BIAS_ALLOWED_HOSTS.",
                status_code=403,
            )
        return None

    def _is_ours(self, address: str) -> bool:
        """True for ``//host:port`` or an origin of this server, without extra parts such as ``a@``."""
        matched = _ADDRESS.fullmatch(address)
        if matched is None:
            return False
        name = matched["number"] or matched["name"].lower().rstrip(".")
        try:
            number = ip_address(name)
        except ValueError:  # a name, or no valid number
            return matched["number"] is None and name in self._hosts
        return address.startswith("//") or number.is_loopback or name in self._hosts
