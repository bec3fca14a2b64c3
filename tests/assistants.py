"""What the tools for assistants answer, for tests that look at them beside other interfaces."""

from typing import Any

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError

from dagster_project.config.settings import Settings
from dagster_project.servers.mcp import mcp_server

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments, or the address of a resource."""


def called(settings: Settings, *calls: Call, lens: str | None = None) -> list[Any]:
    """The answers of one server to calls, in their order; a fault of the protocol is an answer,
    too.
    """

    async def run() -> list[Any]:
        answers: list[Any] = []
        async with Client(mcp_server(settings, lens, has_sql=True)) as client:
            for name, arguments in calls:
                try:
                    is_resource = name.startswith("weft://")
                    asked = (
                        client.read_resource(name)
                        if is_resource
                        else client.call_tool(name, arguments)
                    )
                    answers.append(await asked)
                except MCPError as fault:
                    answers.append(fault)
        return answers

    return anyio.run(run)
