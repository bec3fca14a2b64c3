"""What stands before every page: the token, where one is set, and headers that let a browser run nothing of a text."""

from __future__ import annotations

import base64
import binascii
import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_VARIABLE = "WEFT_SERVE_TOKEN"
"""Environment variable with the token that opens the pages."""
LEAST_TOKEN = 16
"""Characters that a token has at least, so that nobody finds it by trying."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types default"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class SafeHeaders:
    """ASGI middleware: no script, style, frame or form but the server's own, and no address told to others."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


class TokenRequired:
    """ASGI middleware that answers 401 to whom the token is unknown.

    It is taken as the password of any user (RFC 7617), which browsers and feed readers ask for, or as a bearer (RFC 6750).
    """

    def __init__(self, app: ASGIApp, token: str):
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._knows(Headers(scope=scope).get("authorization", "")):
            await self.app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": 'Basic realm="Weft", charset="UTF-8"'}
        await PlainTextResponse("this server asks for its token", 401, headers)(scope, receive, send)

    def _knows(self, authorization: str) -> bool:
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer":
            given = value.strip().encode()
        elif scheme.lower() == "basic":
            try:
                given = base64.b64decode(value, validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return False
        else:
            return False
        return hmac.compare_digest(given, self.token)
