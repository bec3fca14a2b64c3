"""The tools of the Model Context Protocol at /mcp of `weft serve`, under the lens of the person
whose token asks.
"""

from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from dagster_project.config.settings import Settings
from dagster_project.extras.web.tokens import LENS_OF
from dagster_project.servers.mcp import mcp_server


class Assistants:
    """ASGI application that keeps no session: each request has the rights of its own token, and its
    receipt the name.
    """

    def __init__(self, settings: Settings, lens: str | None):
        self.settings, self.lens = settings, lens
        self._servers = {lens: mcp_server(settings, lens)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lens = scope.get(LENS_OF) or self.lens
        if lens not in self._servers:
            self._servers[lens] = mcp_server(self.settings, lens)
        # The guards before this application know the names and the origins of the server.
        known = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = self._servers[lens].streamable_http_app(
            stateless_http=True, json_response=True, transport_security=known
        )
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)
