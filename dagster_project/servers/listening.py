"""How a server listens: on an address that is free, for requests that come in time, with a log that
waits for no reader.
"""

import asyncio
import logging
import os
import queue
import socket
import threading
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from transforms.errors import SettingsError
from transforms.text.visible import visible

HEAD_SECONDS = 10.0
"""Seconds within which the head of a request is there, from the first byte or the opening of the
connection on.
"""
PEER = "weft.peer"
"""Key of the state of a request: who is connected, where `client` is the one for whom a proxy asks.
"""
_MOST_HEAD = 1 << 18
"""Bytes of a head: a query has up to 20,000 characters, each up to 12 bytes in an address."""
_STDERR = 2
_LINES = 100
"""Log lines that wait until somebody reads standard error; further ones are dropped."""
_LAST_SECONDS = 1.0
"""Seconds that the end of the process waits for the last log lines to be read."""


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address; SettingsError if it is in use, or not of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(
            f"{host}:{port}: {error.strerror or error}; take another port"
        ) from error


def make_server(app: ASGIApp, head_seconds: float = HEAD_SECONDS) -> uvicorn.Server:
    """A server of an application; run it with the sockets that it listens on.

    A connection whose request has no whole head within `head_seconds` is closed.
    """

    class Timed(_TimedProtocol):
        seconds = head_seconds

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Timed,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_MOST_HEAD,
        )
    )


def log_aside() -> None:
    """Let log lines and warnings go to standard error by a thread of their own, so that nobody
    waits for its reader.
    """
    handler = _AsideHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)


class _TimedProtocol(H11Protocol):
    """HTTP/1.1, on connections that are closed if the head of a request takes longer than
    `seconds`.
    """

    seconds: float
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, PEER: self.client}
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()  # the head is there
        elif self._late is None:
            self._late = self.loop.call_later(self.seconds, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _AsideHandler(logging.Handler):
    """Writes lines to standard error in a thread; while nobody reads them, further lines are
    dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[bytes] = queue.Queue(_LINES)
        threading.Thread(target=self._write, daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, or drop it."""
        line = visible(self.format(record)).encode("utf-8", "backslashreplace")
        with suppress(queue.Full):
            self._lines.put_nowait(line + b"\n")

    def flush(self) -> None:
        """Wait a moment until all lines are written."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(
                lambda: not self._lines.unfinished_tasks, _LAST_SECONDS
            )

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            # Not by sys.stderr: its lock, held in a thread that waits, would stop the end of the
            # process.
            with suppress(OSError):
                os.write(_STDERR, line)
            self._lines.task_done()
