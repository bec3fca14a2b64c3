"""What a server does with requests that never end, senders that go away, guesses of its token, and
a log nobody reads.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection

import pytest
import uvicorn
from click.testing import CliRunner
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from dagster_project.cli.main import main
from dagster_project.servers.guards import TokenRequired
from dagster_project.servers.listening import PEER, listening, make_server
from tests.archives import Workspace
from tests.pages import pages
from tests.timing import HUNG, until

TOKEN = "a-token-of-some-length"
KNOWN = f"Authorization: Bearer {TOKEN}\r\n"
SECONDS = 0.3
"""Time-outs of the server under test."""


class Served:
    """A server in a thread, and its port."""

    def __init__(self, server: uvicorn.Server, listener: socket.socket):
        self.server, self.port = server, listener.getsockname()[1]
        self.thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        self.thread.start()

    def sent(self, text: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), HUNG)
        connection.sendall(text.replace("HOST", f"Host: 127.0.0.1:{self.port}\r\n").encode())
        return connection

    def status(
        self, token: str, address: str = "127.0.0.1", path: str = "/help"
    ) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer to a token from an address of this machine."""
        connection = HTTPConnection("127.0.0.1", self.port, HUNG, (address, 0))
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, dict(answer.headers)

    def is_idle(self) -> None:
        """Wait until the server has no connection and no request."""
        state = self.server.server_state
        until(lambda: not state.connections and not state.tasks, "requests end")


@pytest.fixture(scope="module")
def served(built_once: Workspace) -> Iterator[Served]:
    """The pages behind a token, with short time-outs."""
    app = pages(built_once.settings, token=TOKEN, body_seconds=SECONDS).app
    made = Served(make_server(app, SECONDS), listening("127.0.0.1", 0))
    yield made
    made.server.should_exit = True
    made.thread.join()


def until_closed(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "half", ["", "GE", "GET / HTTP/1.1\r\nHost: 127", "GET / HTTP/1.1\r\n" + "a: b\r\n" * 50]
)
def test_a_head_that_does_not_end_is_not_waited_for(served: Served, half: str):
    assert until_closed(served.sent(half)) == b""


def test_a_second_head_that_does_not_end_is_not_waited_for(served: Served):
    connection = served.sent(f"GET /help HTTP/1.1\r\nHOST{KNOWN}\r\n")
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    connection.sendall(b"GET / HT")
    assert b"HTTP" not in until_closed(connection)


def test_a_body_that_does_not_end_is_not_waited_for(served: Served):
    head = f"POST /api/context HTTP/1.1\r\nHOST{KNOWN}Content-Length: 100\r\n\r\n"
    answer = until_closed(served.sent(head + '{"text"'))
    assert answer.startswith(b"HTTP/1.1 408") and b'"outcome":"ERROR"' in answer


def test_a_sender_that_goes_away_leaves_no_traceback(
    served: Served, caplog: pytest.LogCaptureFixture
):
    head = f"POST /api/context HTTP/1.1\r\nHOST{KNOWN}Content-Length: 100\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            served.sent(head + '{"text"').close()
        served.is_idle()
    assert not caplog.records
    assert served.status(TOKEN)[0] == 200


def test_no_private_page_is_stored(served: Served):
    for path in (
        "/",
        "/api/sources",
        "/m/m0@example.org",
        "/raw/m0@example.org",
        "/nowhere",
        "/feed?q=compactor",
    ):
        assert served.status(TOKEN, path=path)[1]["cache-control"] == "no-store", path
    assert "no-store" not in served.status(TOKEN, path="/static/weft.css")[1].get(
        "cache-control", ""
    )
    assert served.status("wrong")[1]["cache-control"] == "no-store"


def test_guesses_of_the_token_are_braked_and_the_owner_is_not_locked_out(served: Served):
    guessed = [served.status(f"guess {number}", "127.0.0.3") for number in range(100)]
    assert [status for status, _ in guessed[:10]] == [401] * 10
    braked = [headers for status, headers in guessed if status == 429]
    assert braked and all(int(headers["retry-after"]) > 0 for headers in braked)
    assert served.status(TOKEN, "127.0.0.2")[0] == 200, "of another address nobody is braked"
    until(lambda: served.status(TOKEN, "127.0.0.3")[0] == 200, "the brake ends by itself")
    assert {served.status("guess", "127.0.0.2")[0] for _ in range(30)} == {401}
    assert served.status(TOKEN, "127.0.0.2")[0] == 200, (
        "who is known is let in, whoever guesses beside"
    )


def test_who_sent_a_right_token_is_braked_later():
    client = TestClient(TokenRequired(PlainTextResponse("shown"), TOKEN), client=("192.0.2.1", 1))

    def status(token: str) -> int:
        return client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code

    assert status(TOKEN) == 200
    assert [status("guess") for _ in range(50)] == [401] * 50
    assert status(TOKEN) == 200
    # Guesses are counted over time, so that on a slow machine more of them come before the brake.
    until(lambda: status("guess") == status(TOKEN) == 429, "the brake", pause=0)


def test_a_proxy_with_another_address_for_each_guess_is_braked_and_known_addresses_are_not():
    app = TokenRequired(PlainTextResponse("shown"), TOKEN)

    async def behind_proxy(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {PEER: ("127.0.0.1", 1)}}, receive, send)

    def status(address: str, token: str = "guess") -> int:
        client = TestClient(behind_proxy, client=(address, 1))
        return client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code

    assert status("192.0.2.1", TOKEN) == 200
    guessed = [status(f"198.51.{number // 250}.{number % 250}") for number in range(400)]
    assert guessed[:100] == [401] * 100 and 429 in guessed
    assert status("192.0.2.1", TOKEN) == 200


def test_all_addresses_of_a_network_of_ipv6_are_one_guesser():
    app = TokenRequired(PlainTextResponse("shown"), TOKEN)

    def status(address: str) -> int:
        client = TestClient(app, client=(address, 1))
        return client.get("/", headers={"Authorization": "Bearer guess"}).status_code

    assert 429 in {status(f"2001:db8::{number}") for number in range(100)}
    assert status("2001:db8:0:1::1") == 401


def test_a_port_in_use_ends_every_server(served: Served, built_once: Workspace):
    for command, option in (("serve", "--port"), ("mcp", "--http"), ("ui", "--port")):
        arguments = [command, "--config", str(built_once.config), option, str(served.port)]
        result = CliRunner().invoke(main, arguments)
        assert (
            result.exit_code == 2
            and f"127.0.0.1:{served.port}: Address already in use" in result.output
        )


_UNREAD = """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from dagster_project.servers.listening import listening, log_aside, make_server

log_aside()
listener = listening("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
make_server(Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])).run(sockets=[listener])
"""
"""A server of one page."""


def test_a_log_that_nobody_reads_stops_no_answer():
    reader, writer = os.pipe()
    again = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(again, b"x" * 4_096)
    with subprocess.Popen(
        [sys.executable, "-c", _UNREAD], stdout=subprocess.PIPE, stderr=writer, text=True
    ) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            for _ in range(150):  # more lines than may wait
                with socket.create_connection(("127.0.0.1", port), HUNG) as connection:
                    connection.sendall(b"no request\r\n\r\n")
                    assert connection.recv(12) == b"HTTP/1.1 400"
            connection = HTTPConnection("127.0.0.1", port, timeout=HUNG)
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"here"
            connection.close()
        finally:
            server.terminate()
            for end in (reader, writer, again):
                os.close(end)
        assert server.wait(HUNG) == -signal.SIGTERM, "it ends, too"
