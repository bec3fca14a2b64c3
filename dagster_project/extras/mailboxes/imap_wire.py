"""The connection to an IMAP server: it counts the bytes for a command, and can be cut at any time."""

import imaplib
import socket
from contextlib import suppress
from typing import Any

from imapclient import IMAPClient
from imapclient.imap4 import IMAP4WithTimeout
from imapclient.tls import IMAP4_TLS

_TEXT_BYTES = 2 << 20
"""Bytes of lines that a command may be answered with: twice the longest line that imaplib reads."""


class TooManyBytesError(Exception):
    """A server sends more than was asked for."""


class Wire:
    """The bytes that may still come for the command under way; without an announcement, literals
    may not.
    """

    def __init__(self) -> None:
        self._connection: imaplib.IMAP4 | None = None
        self._is_cut = False
        self.allow(0)

    def allow(self, literals: int) -> None:
        """Begin to count for a command that is answered with so many bytes of literals at most."""
        self._literals, self._text = literals, _TEXT_BYTES

    def take_literal(self, size: int) -> None:
        """Before a literal is read, as a server that announces a huge one need not send it."""
        self._literals -= size
        if self._literals < 0:
            raise TooManyBytesError(f"a literal of {size:,} bytes")

    def take_text(self, size: int) -> None:
        """After a line was read."""
        self._text -= size
        if self._text < 0:
            raise TooManyBytesError(f"more than {_TEXT_BYTES:,} bytes of lines")

    def connected(self, connection: imaplib.IMAP4) -> None:
        """Keep a connection, to cut it; TimeoutError if it is too late."""
        self._connection = connection
        if self._is_cut:
            self.cut()
            raise TimeoutError

    def cut(self) -> None:
        """End all reading and writing, from another thread too."""
        self._is_cut = True
        if self._connection:
            with suppress(OSError):  # closed already
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, also one whose server never greeted."""
        if self._connection:
            with suppress(OSError):  # closed already
                self._connection.shutdown()


class WiredClient(IMAPClient):
    """An IMAPClient whose bytes a `Wire` counts, from the greeting on."""

    def __init__(self, wire: Wire, host: str, **settings: Any):
        self._wire = wire
        super().__init__(host, **settings)
        # IMAPClient formats whatever comes for a log, literals included: that takes several times
        # their memory.
        self._imap.debug = 0

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802
        if self.ssl:
            return _Encrypted(
                self._wire, self.host, self.port, self.ssl_context, self._timeout.connect
            )
        return _Plain(self._wire, self.host, self.port, self._timeout.connect)


class _Counted(imaplib.IMAP4):
    """The methods of imaplib that it offers for overriding."""

    def __init__(self, wire: Wire, *settings: Any):
        self._wire = wire
        super().__init__(*settings)

    def open(self, *address: Any, **settings: Any) -> None:
        super().open(*address, **settings)
        self._wire.connected(self)

    def read(self, size: int) -> bytes:
        self._wire.take_literal(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._wire.take_text(len(line))
        return line


class _Plain(_Counted, IMAP4WithTimeout):
    pass


class _Encrypted(_Counted, IMAP4_TLS):
    pass
