"""Who may ask what: names of this server, open paths, other sites, and the browser of a page."""

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
from bias_core.settings import Settings
from bias_core.study.saved import Newest
from bias_core.ui.visitor import BROWSER, SECURE_BROWSER, browser_of, own_cookie

API = "/gradio_api"
MCP = f"{API}/mcp"
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]", "0.0.0.0"})
_MOST_PAGES = 100_000
_IN_PATH = re.compile(r"/(?:heartbeat|call/(?:v2/)?[^/]+)/([^/]+)")  # Gradio takes an event for a page there
_NAME = "session_hash"  # Gradio's word for an open page
_NOT_YOURS = "This page was opened in another browser, or the cookies of this one were deleted: load the page again."


def speaks_for_another_site(scope: Scope, names: frozenset[str]) -> str:
    """The other site, quoted, whose page sends this with a visitor's cookie or password; "" where there is none.

    The browser says so, and no script can change that: by Origin where it sends it, else by Sec-Fetch-Site. A link
    elsewhere may open a page, for then the visitor acts. ``names`` are those of this server and of sites that its
    owner trusts.
    """
    headers = Headers(scope=scope)
    if "cookie" not in headers and "authorization" not in headers:
        return ""
    if origins := headers.getlist("origin"):
        others = [origin for origin in origins if not _is_own(origin, headers.get("host", ""), names)]
        return quoted(others[0]) if others else ""
    is_own = headers.get("sec-fetch-site", "none") in ("same-origin", "none") or _opens_a_page(scope, headers)
    return "" if is_own else "another site"


def _is_own(origin: str, host: str, names: frozenset[str]) -> bool:
    """True for the site that the request goes to and for trusted names, whatever their port."""
    address = re.fullmatch(r"https?://((\[[0-9a-f:.]+\]|[^/@:\[\]\s]+)(?::\d+)?)", origin.lower())
    return address is not None and (address[1] == host.lower() or address[2].rstrip(".") in names)


def _opens_a_page(scope: Scope, headers: Headers) -> bool:
    is_opened = scope.get("method") in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return is_opened and API not in scope["path"] and not scope["path"].rstrip("/").endswith("/logout")


def trusted_names(hosts: frozenset[str], public: bool) -> frozenset[str]:
    """Names whose pages may speak for a visitor, by the ``hosts`` of the owner: at home whatever this machine serves.

    A public server trusts no localhost, which is another machine for every visitor.
    """
    return hosts - _THIS_MACHINE if public else hosts | _THIS_MACHINE


def cors_options(hosts: frozenset[str], public: bool) -> dict[str, Any]:
    """Options of Starlette's CORSMiddleware: whose scripts may read answers, and never with cookies.

    On a public server those of all sites, for its programming interface is open; else of this machine and of ``hosts``.
    """
    names = "|".join(map(re.escape, sorted(hosts | _THIS_MACHINE)))
    which = {"allow_origins": ["*"]} if public else {"allow_origin_regex": rf"https?://({names})(:\d+)?"}
    return {**which, "allow_methods": ["*"], "allow_headers": ["*"], "allow_credentials": False}


class PageOwners:
    """Answers a request that names an open page only to the browser that named it first, and gives browsers a cookie.

    A stranger who learns or chooses the name of a visitor's page reads no answers there and starts nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._owners = Newest[str](_MOST_PAGES)  # browsers by page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what names no page, or one of this browser."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        if not self._is_owner(browser_of(connection), scope):
            content = {"error": _NOT_YOURS, "detail": _NOT_YOURS}  # as the page shows it
            await JSONResponse(content, status_code=403)(scope, receive, send)
            return
        is_new = scope["path"] == "/" and scope["method"] == "GET" and not own_cookie(connection)
        await self._app(scope, receive, _giving_a_cookie(scope, send) if is_new else send)

    def _is_owner(self, browser: str, scope: Scope) -> bool:
        """True where all pages that a request names are this browser's, as is one that an event names first."""
        named = QueryParams(scope["query_string"]).getlist(_NAME)
        if scope["method"] == "GET":
            named += _IN_PATH.findall(scope["path"])
        if page := scope.get("page", ""):
            named.append(page)
            if self._owners.get(page) is None and scope["method"] == "POST":
                self._owners.put(page, browser)
        return all(self._owners.get(page) in (None, browser) for page in named)


def _giving_a_cookie(scope: Scope, send: Send) -> Send:
    """Sends the answer with a random cookie, which the browser forgets when it is closed."""
    is_secure = "https" in (scope["scheme"], Headers(scope=scope).get("x-forwarded-proto", "").split(",")[0].strip())
    how = "Secure; SameSite=None; Partitioned" if is_secure else "SameSite=Lax"  # a Space stands in another site's page
    name = SECURE_BROWSER if is_secure else BROWSER
    cookie = f"{name}={secrets.token_urlsafe(24)}; Path=/; HttpOnly; {how}"

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


_HUB = "huggingface.co"  # whose pages ask a Space's tools
_READING = {"GET", "HEAD", "OPTIONS"}
_ADDRESS = re.compile(r"(https?:)?//(?P<name>[a-z0-9._-]+|\[(?P<number>[0-9a-f:.]+)\])(:[0-9]{1,5})?", re.IGNORECASE)


def allowed_hosts(settings: Settings, server_name: str) -> frozenset[str]:
    """Names of this server; numbers need no list, for only a name can be made to point elsewhere (DNS rebinding)."""
    space = os.environ.get("SPACE_HOST", "") + (f",{_HUB}" if os.environ.get("SPACE_ID") else "")
    names = f"localhost,{server_name},{settings.host},{settings.allowed_hosts},{space}".lower()
    return frozenset(names.replace(",", " ").split())


class HostCheck:
    """Refuses requests under a name that is not this server's, and those of other sites' scripts.

    A script's own site is in the header Origin. It is looked at for whatever comes with a visitor's cookie or password,
    for tools (MCP), and on a server that is not ``public`` (other sites may use its programming interface) for
    everything that does more than read.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        self._app, self._hosts, self._public = app, hosts, public
        self._trusted = trusted_names(hosts, public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is not refused."""
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request under another name or by another site; None if it may pass."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(f"//{host}"):
            return PlainTextResponse(
                f"This server is not known as {host[:100]!r}. Open it under localhost, or let its owner add "
                "the name to BIAS_ALLOWED_HOSTS.",
                status_code=421,
            )
        is_looked_at = MCP in scope["path"] or not (self._public or scope.get("method", "POST") in _READING)
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
