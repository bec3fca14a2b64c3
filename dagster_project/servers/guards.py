"""Guards of a request before a page: its origin, the token, headers for the browser, and the wait
for the whole body.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TypeVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dagster_project.servers.listening import PEER

TOKEN_VARIABLE = "WEFT_SERVE_TOKEN"
"""Environment variable with the token that opens the pages."""
LEAST_TOKEN = 16
"""Characters that a token has at least, so that nobody finds it by trying."""
BODY_SECONDS = 30.0
"""Seconds within which the body of a request is there."""
_MOST_BODY = 4_000_000
_OF_ADDRESS, _OF_MANY = (10, 1.0), (100, 0.1)
"""Wrong tokens that an address may send at once; afterwards one in so many seconds is compared.

More may come from an address that sent a right one, and of all addresses for which one proxy asks.
"""
_MOST_ADDRESSES = 10_000
_STATIC = "/static/"
_Value = TypeVar("_Value")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types default"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class SafeHeaders:
    """ASGI middleware: no script, style, frame or form but the server's own, no address for others,
    no stored copy.

    An answer that brings such a header itself keeps it: the page of a mail's HTML has a stricter
    policy.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(_STATIC):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


class WholeBody:
    """ASGI middleware that hands on requests with their whole body: 408 to one that takes too long,
    413 to a long one.

    A request whose sender is gone before that is dropped.
    """

    def __init__(self, app: ASGIApp, seconds: float = BODY_SECONDS):
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in Request(scope, receive).stream():
                    body += part
                    if len(body) > _MOST_BODY:
                        break
        except ClientDisconnect:
            return
        except TimeoutError:
            await _refused(408, f"the request was not there in {self.seconds:g} s")(
                scope, receive, send
            )
            return
        if len(body) > _MOST_BODY:
            await _refused(413, f"the request is longer than {_MOST_BODY:,} bytes")(
                scope, receive, send
            )
            return
        first: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return first.pop() if first else await receive()

        await self.app(scope, again, send)


def _refused(status: int, error: str) -> JSONResponse:
    answer = {"outcome": "ERROR", "kind": "QUERY", "error": error}
    return JSONResponse(answer, status, {"Connection": "close"})


class TokenRequired:
    """ASGI middleware that answers 401 to whom the token is unknown.

    It is taken as the password of any user (RFC 7617), which browsers and feed readers ask for, or
    as a bearer (RFC 6750). Who sends many wrong ones gets 429, and for a moment nothing from that
    address is compared. An address that sent a right token may send more wrong ones, and so may a
    proxy for all addresses together: it could name another one with each guess.
    """

    refusal = "this server asks for its token"

    def __init__(self, app: ASGIApp, token: str):
        self.app, self.token = app, token.encode()
        self._of_address, self._of_many = _Brake(*_OF_ADDRESS), _Brake(*_OF_MANY)
        self._addresses: dict[str, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = (
            Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else ""
        )
        address, peer = _address(scope), f"by {peer_of(scope)}"
        if address in self._addresses:
            wait = self._of_many.wait(address)
        else:
            wait = max(self._of_address.wait(address), self._of_many.wait(peer))
        if authorization and wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            refused = PlainTextResponse(
                "too many wrong tokens came from this address", 429, headers
            )
            await refused(scope, receive, send)
        elif scope["type"] != "http" or self.admits(scope, _secret(authorization)):
            if authorization:
                _add(self._addresses, address, None)
            await self.app(scope, receive, send)
        else:
            if authorization:
                self._of_address.note(address)
                self._of_many.note(address)
                self._of_many.note(peer)
            headers = {"WWW-Authenticate": 'Basic realm="Weft", charset="UTF-8"'}
            await PlainTextResponse(self.refusal, 401, headers)(scope, receive, send)

    def admits(self, scope: Scope, secret: bytes) -> bool:
        """True if who sends this token, or none (`b""`), may ask what the scope names."""
        return hmac.compare_digest(secret, self.token)


class _Brake:
    """Counts wrong tokens by where they come from: `free` may come at once, then one in so many
    `seconds`.
    """

    def __init__(self, free: int, seconds: float):
        self.free, self.seconds = free, seconds
        self._paid: dict[str, float] = {}

    def wait(self, sender: str) -> float:
        """Seconds until the next token of a sender is compared; it is now, if they are not above 0."""
        return self._paid.get(sender, 0.0) - time.monotonic() - (self.free - 1) * self.seconds

    def note(self, sender: str) -> None:
        """Count a wrong token."""
        now = time.monotonic()
        _add(self._paid, sender, max(self._paid.get(sender, now), now) + self.seconds)


def peer_of(scope: Scope) -> str:
    """The address that is connected: that of the proxy, if one asks for others."""
    return str((scope.get("state", {}).get(PEER) or scope.get("client") or ("",))[0])


def _secret(authorization: str) -> bytes:
    """The token in a header; empty if there is none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    if scheme.lower() == "basic":
        with suppress(binascii.Error, ValueError):
            return base64.b64decode(value, validate=True).partition(b":")[2]
    return b""


def _address(scope: Scope) -> str:
    """Where a request comes from; of an IPv6 address its network, as one machine has many of them."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, 64 if address.version == 6 else 32), strict=False))


def _add(values: dict[str, _Value], address: str, value: _Value) -> None:
    """Set the value of an address as the newest of `_MOST_ADDRESSES`."""
    values.pop(address, None)
    values[address] = value
    if len(values) > _MOST_ADDRESSES:
        del values[next(iter(values))]


_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT = 80
_OTHER_PAGES = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site by which browsers say that a page of another origin asks, where they
send no Origin.
"""


class OwnPages:
    """ASGI middleware that answers 421 to another `Host` and 403 to pages of other origins, web
    sockets included.

    Any page that a browser shows can send requests to the loopback interface, and with a name that
    it lets point there (DNS rebinding) read the answers. So a request must name this server as
    `Host`, and where a browser sent it, come from a page of this server or of a named origin.

    `hosts` are further values of `Host`, as `docs.example.org`; `origins` pages that may ask, `*`
    is every page.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), origins: Collection[str] = ()):
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (refused := self._refused(scope)):
            # To a web socket that is not accepted yet, any answer is 403.
            close = {"type": "websocket.close", "code": 1008}
            await (refused(scope, receive, send) if scope["type"] == "http" else send(close))
        else:
            await self.app(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that must not be served; None to others."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if host not in self._own(scope):
            return PlainTextResponse(
                "not a name of this server: start it with --name HOST:PORT", 421
            )
        if origin is None:
            by_page = headers.get("sec-fetch-site") in _OTHER_PAGES
            foreign = by_page and (headers.get("sec-fetch-mode"), scope.get("method")) != (
                "navigate",
                "GET",
            )
        else:
            foreign = origin not in {*self.origins, f"http://{host}", f"https://{host}"}
        if not foreign or "*" in self.origins:
            return None
        return PlainTextResponse("pages of this origin may not ask this server", 403)

    def _own(self, scope: Scope) -> frozenset[str]:
        """The allowed values of `Host`: names of the loopback interface, and the address that the
        request came in at.
        """
        address, port = scope.get("server") or ("", None)
        names = (*_LOOPBACK, f"[{address}]" if ":" in address else address)
        own = frozenset(f"{name}:{port}" for name in names)
        return self.hosts | own | (frozenset(names) if port == _HTTP_PORT else frozenset())
