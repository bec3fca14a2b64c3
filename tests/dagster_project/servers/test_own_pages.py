"""No page of another origin, and no name that somebody else lets point here, reaches a server of
Weft.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from starlette.testclient import TestClient

from dagster_project.servers.mcp import mcp_app, mcp_server
from tests.archives import Workspace
from tests.processes import Command, free_port, listens
from tests.timing import HUNG, until

FRIEND = "https://friend.example"
ASKED = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
CLIENT = {"name": "test", "version": "1"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = ASKED | {
    "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": CLIENT}
}


@contextmanager
def serving(folder: Path, *arguments: str, option: str) -> Iterator[int]:
    port = free_port()
    server = Command(folder, *arguments, option, str(port))
    try:
        until(lambda: listens(port), "a server that listens")
        yield port
    finally:
        assert server.killed_after(0), "the server ended before"


def status(
    port: int, method: str, path: str, headers: Sequence[tuple[str, str]], body: str = ""
) -> tuple[int, str]:
    """Status and allowed origin of the answer to a request with these headers alone, `PORT` in them
    filled in.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=HUNG)
    connection.putrequest(method, path, skip_host=True)
    for name, value in (*headers, *([("Content-Length", str(len(body)))] if body else [])):
        connection.putheader(name, value.replace("PORT", str(port)))
    connection.endheaders(body.encode() or None)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers["Access-Control-Allow-Origin"] or ""


@pytest.fixture(scope="module")
def assistants(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("assistants")
    with serving(folder, "mcp", "--config", str(built_once.config), option="--http") as port:
        yield port


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:PORT", None, 200),
        ("localhost:PORT", "http://localhost:PORT", 200),
        ("rebound.example:PORT", None, 421),
        ("rebound.example:PORT", "http://rebound.example:PORT", 421),
        ("127.0.0.1:1", None, 421),
        ("127.0.0.1:PORT", "https://elsewhere.example", 403),
        ("127.0.0.1:PORT", "http://localhost:1", 403),
        ("127.0.0.1:PORT", "null", 403),
    ],
)
def test_assistants_are_answered_and_pages_are_not(
    assistants: int, host: str, origin: str | None, expected: int
):
    headers = (
        ACCEPT
        | {"Host": host, "Content-Type": "application/json"}
        | ({"Origin": origin} if origin else {})
    )
    assert status(assistants, "POST", "/mcp", [*headers.items()], json.dumps(INITIALIZE)) == (
        expected,
        "",
    )


@pytest.mark.parametrize("transport", ["http", pytest.param("pipes", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("revision", ["legacy", "2026-07-28"])
def test_clients_of_each_revision_of_the_protocol_are_answered(
    assistants: int, built_once: Workspace, revision: str, transport: str
):
    command = ["-m", "dagster_project.cli", "mcp", "--config", str(built_once.config)]
    pipes = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    server = stdio_client(pipes) if transport == "pipes" else f"http://127.0.0.1:{assistants}/mcp"

    async def found() -> str:
        async with Client(server, mode=revision) as client:
            assert len((await client.list_tools()).tools) >= 6
            return json.dumps((await client.call_tool("list_sources", {})).structured_content)

    assert '"dev"' in anyio.run(found)


def test_a_request_without_a_session_is_answered_by_itself(built_once: Workspace):
    meta = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
    values = {
        "name": "list_sources",
        "arguments": {},
        "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()},
    }
    with TestClient(
        mcp_app(mcp_server(built_once.settings), 8000, None), "http://127.0.0.1:8000"
    ) as client:
        for method, name in (("server/discover", None), ("tools/call", "list_sources")):
            headers = ACCEPT | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
            headers |= {"Mcp-Name": name} if name else {}
            answer = client.post(
                "/mcp", json=ASKED | {"method": method, "params": values}, headers=headers
            )
            assert answer.status_code == 200 and "Mcp-Session-Id" not in answer.headers, answer.text
    assert '"dev"' in answer.text


def test_pages_of_other_origins_need_a_token(workspace: Workspace):
    workspace.configure(mcp={"origins": [FRIEND]})
    with socket.create_server(("127.0.0.1", 0)) as taken:  # which ends the command, should it go on
        refused = workspace.weft("mcp", "--http", str(taken.getsockname()[1]))
    assert refused.exit_code == 2 and "set a token in WEFT_SERVE_TOKEN" in refused.output


def test_pages_of_the_settings_may_ask_assistants_by_the_token_and_no_others(built_once: Workspace):
    app = mcp_app(mcp_server(built_once.settings), 8000, "a-token-nobody-guesses", [FRIEND])
    headers = ACCEPT | {"Authorization": "Bearer a-token-nobody-guesses"}
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    with TestClient(app, "http://127.0.0.1:8000", headers=headers) as client:
        assert client.post("/mcp", json=INITIALIZE).status_code == 200
        for wrong in ("Bearer another", ""):
            refused = client.post("/mcp", json=INITIALIZE, headers={"Authorization": wrong})
            assert refused.status_code == 401
        for origin, expected in ((FRIEND, 200), ("https://elsewhere.example", 403)):
            answer = client.post("/mcp", json=INITIALIZE, headers={"Origin": origin})
            assert answer.status_code == expected
            allowed = client.options("/mcp", headers={"Origin": origin, **asks})
            assert (allowed.headers.get("Access-Control-Allow-Origin") == FRIEND) == (
                expected == 200
            )
