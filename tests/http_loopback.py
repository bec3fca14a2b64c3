"""A web server on the loopback interface that serves archives, knows validators and ranges, and
fails as planned.
"""

import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.timing import has_left

LAST_MODIFIED = "Sun, 01 Feb 2004 00:00:00 GMT"
Answer = Callable[["_Handler", bytes], None]


@dataclass
class Archives:
    """What the server has, what it was asked, and how it answers next.

    `plan` holds, per path, answers that are given once each before the true ones.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    plan: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    authorization: str | None = None
    has_validators: bool = True
    address: str = ""

    def take_asked(self) -> list[tuple[str, int]]:
        """Path and status of the requests since the last call."""
        found = [(path, status) for path, status, _ in self.asked]
        self.asked.clear()
        return found


class WholeAnswers(BaseHTTPRequestHandler):
    """A handler that sends whole answers and logs nothing."""

    def form(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def send(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Send bytes, a text or another value as JSON."""
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            **(headers or {}),
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *ignored: Any) -> None:
        return


class _Handler(WholeAnswers):
    protocol_version = "HTTP/1.1"
    archives: Archives

    def do_GET(self) -> None:  # noqa: N802
        path = self.path.partition("?")[0]
        body = self.archives.files.get(path)
        planned = self.archives.plan.get(path)
        if planned:
            planned.pop(0)(self, body or b"")
        elif self.archives.authorization not in (None, self.headers.get("Authorization")):
            self.answer(401, b"who are you?", {"WWW-Authenticate": "Basic"})
        elif body is None:
            self.answer(404, b"no such file")
        else:
            self.serve(path, body)

    def do_POST(self) -> None:  # noqa: N802
        self.form()
        self.do_GET()

    def serve(self, path: str, body: bytes) -> None:
        """A file with its validators, whole, in part, or not at all."""
        etag = f'"{sha256(body).hexdigest()[:16]}"'
        facts = {"Content-Type": self.archives.types.get(path, "application/mbox")}
        if self.archives.has_validators:
            facts |= {"ETag": etag, "Last-Modified": LAST_MODIFIED}
            if self.headers.get("If-None-Match") == etag:
                return self.answer(304, b"", facts)
            wanted = self.headers.get("Range", "")
            if wanted and self.headers.get("If-Range") == etag:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                facts["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                return self.answer(206, body[start:], facts)
        return self.answer(200, body, facts)

    def answer(self, status: int, body: bytes, facts: dict[str, str] | None = None) -> None:
        self.archives.asked.append((self.path.partition("?")[0], status, dict(self.headers)))
        self.send(status, body, facts)

    def handle(self) -> None:
        with suppress(OSError):  # clients may leave at any time
            super().handle()


def status(code: int, **facts: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in facts.items()}
    return lambda handler, body: handler.answer(code, b"planned", headers)


def broken_after(count: int) -> Answer:
    """The connection breaks after so many bytes of the file."""

    def answer(handler: _Handler, body: bytes) -> None:
        handler.archives.asked.append((handler.path, 200, dict(handler.headers)))
        handler.send_response(200)
        handler.send_header("ETag", f'"{sha256(body).hexdigest()[:16]}"')
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:count])
        handler.wfile.flush()
        handler.close_connection = True

    return answer


def stalled_after(count: int) -> Answer:
    """So many bytes of the file come, and no more until the client leaves."""

    def answer(handler: _Handler, body: bytes) -> None:
        broken_after(count)(handler, body)
        has_left(handler.connection)

    return answer


def login_page(handler: _Handler, body: bytes) -> None:
    """A page that asks to log in, as success."""
    page = b"<!DOCTYPE html><html><title>Log in</title>" + b"<p>please</p>" * 1000
    handler.answer(200, page, {"Content-Type": "text/html; charset=utf-8"})


def silent(handler: _Handler, body: bytes) -> None:
    """Nothing comes until the client leaves."""
    has_left(handler.connection)
    handler.close_connection = True


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def served(
    handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1", **facts: Any
) -> Iterator[str]:
    """The origin of a running server, whose handlers have these attributes."""
    server = ThreadingHTTPServer((host, 0), type("Handler", (handler,), facts))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def served_archives(host: str = "127.0.0.1") -> Iterator[Archives]:
    """A running server and what it serves."""
    archives = Archives()
    with served(_Handler, host, archives=archives) as archives.address:
        yield archives


def raw(*blocks: bytes, pause: float = 0.0, stays: bool = False) -> Answer:
    """Bytes in place of an answer, with a pause after each block; then the connection ends, if need
    be by the client.
    """

    def answer(handler: _Handler, body: bytes) -> None:
        handler.archives.asked.append((handler.path.partition("?")[0], 0, dict(handler.headers)))
        handler.close_connection = True
        with suppress(OSError):  # the client has enough
            for block in blocks:
                handler.wfile.write(block)
                handler.wfile.flush()
                time.sleep(pause)
            if stays:
                has_left(handler.connection)

    return answer


def in_blocks(noted: Callable[[], object]) -> Answer:
    """The true answer, some bytes at a time; `noted` is called before each of them goes."""
    return lambda handler, body: _sent_in_blocks(handler, body, noted)


def _sent_in_blocks(handler: _Handler, body: bytes, noted: Callable[[], object]) -> None:
    etag = f'"{sha256(body).hexdigest()[:16]}"'
    start, code, more = 0, 200, ""
    wanted = handler.headers.get("Range", "")
    if wanted and handler.headers.get("If-Range") == etag:
        start, code = int(wanted.removeprefix("bytes=").rstrip("-")), 206
        more = f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}\r\n"
    head = f"HTTP/1.1 {code} OK\r\nETag: {etag}\r\n{more}Connection: close\r\n"
    head += f"Content-Length: {len(body) - start}\r\n\r\n"
    handler.close_connection = True
    for block in (head.encode(), *(body[n : n + 2000] for n in range(start, len(body), 2000))):
        noted()
        handler.wfile.write(block)
        handler.wfile.flush()
