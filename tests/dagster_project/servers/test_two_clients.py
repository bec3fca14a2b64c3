"""Two assistants under two lenses at once, one on pipes and one over HTTP: each gets every tool, and its lens alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.archives import Workspace
from tests.dagster_project.servers.test_own_pages import serving

OWN = {"dev": ("compactor", "write-ahead log"), "users": ("shell",)}
"""The topics of each list; a third is on both."""


def calls(mail: str, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """A call of every tool."""
    return [
        ("search", {"query": f"{topic} measured", "options": {"expand": ["neighbours", "parent"], "weak": True}}),
        ("get", {"id": mail}), ("context", {"text": f"How does the {topic} behave when the load doubles?"}),
        ("similar", {"id": mail}), ("thread", {"id": mail}), ("list_sources", {}),
        ("sql", {"statement": "SELECT message_id, subject, body FROM messages ORDER BY ALL"}),
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_two_clients_under_two_lenses_get_every_tool_and_nothing_of_the_other(
    built: Workspace, tmp_path: Path
):
    lenses = '[lenses]\ndev = "source:dev"\nusers = "source:users"\n'
    built.config.write_text(f"{built.config.read_text()}\n{lenses}")
    command = ["mcp", "--sql", "--config", str(built.config), "--lens"]
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "HOME")}
    over_pipes = stdio_client(
        StdioServerParameters(
            command=sys.executable, args=["-m", "dagster_project.cli", *command, "dev"], env=environment
        )
    )
    said: dict[str, str] = {}
    tools: dict[str, set[str]] = {}

    async def asked(lens: str, connection: Any, mail: str) -> None:
        async with Client(connection) as client:
            tools[lens] = {tool.name for tool in (await client.list_tools()).tools}
            answers = [await client.call_tool(name, values) for name, values in calls(mail, OWN[lens][0])]
            assert not [answer.content for answer in answers if answer.is_error]
            hidden = await client.call_tool(
                "get", {"id": "m202@example.org" if lens == "dev" else "m2@example.org"}
            )
            assert hidden.is_error
            read = await client.read_resource(f"weft://document/{mail}")
            said[lens] = json.dumps([a.structured_content for a in answers], default=str) + str(read.contents)

    async def run(address: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(asked, "dev", over_pipes, "m2@example.org")
            group.start_soon(asked, "users", address, "m202@example.org")

    with serving(tmp_path, *command, "users", option="--http") as port:
        anyio.run(run, f"http://127.0.0.1:{port}/mcp")
    assert tools["dev"] == tools["users"] == {name for name, _ in calls("", "")}
    for lens, other in (("dev", "users"), ("users", "dev")):
        assert all(topic in said[lens] for topic in OWN[lens])
        assert not [topic for topic in OWN[other] if topic in said[lens]]
