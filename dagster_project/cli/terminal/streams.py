"""The standard streams of a command: output that cannot be written ends it with one sentence."""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_FULL_DISK = 11
"""Exit code of a command for which the disk has no room."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputError(Exception):
    """Standard output cannot be written."""

    def __init__(self, error: OSError):
        closed = error.errno == errno.EBADF
        why = "is closed" if closed else f"cannot be written ({error.strerror})"
        super().__init__(f"standard output {why}: the answer is not printed, or not all of it")
        self.exit_code = _FULL_DISK if error.errno in _NO_ROOM else 1


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        """Write `data`; OutputError if that is refused, but for a reader that has enough."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from error


class _Messages(io.FileIO):
    def write(self, data: Any) -> int:
        """Write `data`, or drop it: a message has no other place."""
        with suppress(OSError):
            return super().write(data) or 0
        return len(data)


def take_streams() -> None:
    """Let the standard streams be there, and writes to them fail as the classes above say.

    One that is closed would else be the first file that is opened.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # What is opened to read refuses writes as a closed stream does.
            os.set_inheritable(os.open(os.devnull, mode), True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _stream(sys.stdout, _Output(_number(sys.stdout, 1), "w", closefd=False))
    sys.stderr = _stream(sys.stderr, _Messages(_number(sys.stderr, 2), "w", closefd=False))


def drop_output() -> None:
    """Drop the rest of the output, at which Python would fail once more at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _number(stream: TextIO | None, usual: int) -> int:
    return usual if stream is None else stream.fileno()


def _stream(before: TextIO | None, raw: io.FileIO) -> TextIO:
    """A text stream on `raw` with the encoding of the one before."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else None,
        errors=before.errors if before else "backslashreplace",
        line_buffering=raw.isatty(),
    )
