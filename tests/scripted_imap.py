"""An IMAP server on the loopback interface that answers as a script says: soundly, until it lies."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

Answer = Callable[[bytes, bytes], Iterable[bytes]]
"""The bytes that come for a command, from its tag and its line."""

STAGES = (
    "greeting",
    "CAPABILITY",
    "LOGIN",
    "AUTHENTICATE",
    "EXAMINE",
    "SEARCH",
    "SIZES",
    "FLAGS",
    "BODIES",
)


def says(*blocks: bytes, pause: float = 0.0) -> Answer:
    """Blocks in which TAG stands for the tag and LINE for the line of the command, with a pause
    after each.
    """

    def answer(tag: bytes, line: bytes) -> Iterator[bytes]:
        for block in blocks:
            yield block.replace(b"TAG", tag).replace(b"LINE", line)
            time.sleep(pause)

    return answer


def _mails(mails: Mapping[int, bytes], line: bytes) -> dict[int, bytes]:
    """The mails whose UIDs a FETCH names."""
    spans = [s.partition(b":") for s in re.findall(rb"FETCH ([0-9:,]+)", line)[0].split(b",")]
    wanted = [range(int(first), int(last or first) + 1) for first, _, last in spans]
    return {uid: data for uid, data in mails.items() if any(uid in span for span in wanted)}


def sound(mails: Mapping[int, bytes], validity: int = 7) -> dict[str, Answer]:
    """The answers of a server whose folder has these mails, by their UIDs."""

    def sizes(tag: bytes, line: bytes) -> Iterator[bytes]:
        for uid, data in _mails(mails, line).items():
            yield b"* %d FETCH (UID %d RFC822.SIZE %d)\r\n" % (uid, uid, len(data))
        yield tag + b" OK done\r\n"

    def flags(tag: bytes, line: bytes) -> Iterator[bytes]:
        yield from (b"* %d FETCH (UID %d FLAGS ())\r\n" % (uid, uid) for uid in _mails(mails, line))
        yield tag + b" OK done\r\n"

    def bodies(tag: bytes, line: bytes) -> Iterator[bytes]:
        for uid, data in _mails(mails, line).items():
            yield b"* %d FETCH (UID %d INTERNALDATE " % (uid, uid)
            yield b'"20-Jan-2004 12:00:00 +0000" BODY[] {%d}\r\n' % len(data)
            yield data + b")\r\n"
        yield tag + b" OK done\r\n"

    uids = b" ".join(b"%d" % uid for uid in sorted(mails))
    return {
        "greeting": says(b"* OK ready\r\n"),
        "CAPABILITY": says(b"* CAPABILITY IMAP4rev1 AUTH=XOAUTH2\r\nTAG OK done\r\n"),
        "LOGIN": says(b"TAG OK welcome\r\n"),
        "AUTHENTICATE": says(b"TAG OK welcome\r\n"),
        "EXAMINE": says(
            b"* %d EXISTS\r\n* 0 RECENT\r\n* FLAGS (\\Seen)\r\n* OK [UIDVALIDITY %d] v\r\nTAG OK [READ-ONLY] done\r\n"
            % (len(mails), validity)
        ),
        "SEARCH": says(b"* SEARCH " + uids + b"\r\nTAG OK done\r\n"),
        "SIZES": sizes,
        "FLAGS": flags,
        "BODIES": bodies,
    }


def _stage(line: bytes) -> str | None:
    """Which command a line is; None for one that needs no answer."""
    if b"FETCH" in line:
        return "SIZES" if b"RFC822.SIZE" in line else "BODIES" if b"BODY" in line else "FLAGS"
    return next((s for s in STAGES[1:-3] if s.encode() in line.split(b" ")[1:3]), None)


def _converse(connection: socket.socket, script: Mapping[str, Answer]) -> None:
    with connection, suppress(OSError), connection.makefile("rb") as lines:
        for block in script["greeting"](b"*", b""):
            connection.sendall(block)
        for line in lines:
            tag = line.partition(b" ")[0]
            if stage := _stage(line.strip()):
                for block in script[stage](tag, line.strip()):
                    connection.sendall(block)


@contextmanager
def scripted_imap(script: dict[str, Answer]) -> Iterator[int]:
    """The port of a running server; the script may be changed meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(
                        target=_converse, args=(connection, script), daemon=True
                    ).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
