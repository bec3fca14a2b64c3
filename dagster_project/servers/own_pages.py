"""Who may ask a server on this machine: programs, its own pages, and pages of origins that the settings name.

Any page that a browser shows can send requests to the loopback interface, and with a name that it lets point there
(DNS rebinding) read the answers. So a request must name this server as `Host`, and where a browser sent it, come from
a page of this server or of a named origin.
"""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT = 80
_OTHER_PAGES = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site by which browsers say that a page of another origin asks, where they send no Origin."""


class OwnPages:
    """ASGI middleware that answers 421 to another `Host` and 403 to pages of other origins, web sockets included.

    `hosts` are further values of `Host`, as `docs.example.org`; `origins` pages that may ask, `*` is every page.
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
            return PlainTextResponse("this server is asked by another name than its own", 421)
        if origin is None:
            by_page = headers.get("sec-fetch-site") in _OTHER_PAGES
            foreign = by_page and headers.get("sec-fetch-mode") != "navigate"
        else:
            foreign = origin not in {*self.origins, f"http://{host}", f"https://{host}"}
        if not foreign or "*" in self.origins:
            return None
        return PlainTextResponse("pages of this origin may not ask this server", 403)

    def _own(self, scope: Scope) -> frozenset[str]:
        """What `Host` may be: names of the loopback interface, and the address that the request came in at."""
        address, port = scope.get("server") or ("", None)
        names = (*_LOOPBACK, f"[{address}]" if ":" in address else address)
        own = frozenset(f"{name}:{port}" for name in names)
        return self.hosts | own | (frozenset(names) if port == _HTTP_PORT else frozenset())
