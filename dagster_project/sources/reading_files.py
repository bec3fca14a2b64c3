"""Reading one file of a source under a cap, compressed or not: its bytes, and why the rest is not
read.
"""

import bz2
import errno
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from dagster_project.system.disk_space import raise_of_machine
from transforms.formats.converted import FormatError
from transforms.settings.mail import MailSettings

_XZ_MEMORY = 512 << 20
"""Memory that an xz archive may ask for to be unpacked; the strongest of the presets of xz asks for
65 MiB.
"""
_MEMBERS: dict[str, Callable[[], Any]] = {
    ".gz": partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    ".xz": partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY),
    ".bz2": bz2.BZ2Decompressor,
}
COMPRESSED = tuple(_MEMBERS)
"""Endings of the names of compressed files."""
_BROKEN = (zlib.error, lzma.LZMAError, MemoryError)
_BLOCK = 1 << 17


class TooLargeError(Exception):
    """The content of a file passes a cap; the text is the reason, as `code: explanation`."""


UNPACK_FAULTS = (FormatError, TooLargeError, EOFError, OSError, *_BROKEN)
"""Faults of a file whose content is read in blocks, which `why_unreadable` knows."""


def open_file(path: Path) -> IO[bytes]:
    """A file to read; OSError if it is none: a pipe or a device could be waited for, or read,
    without end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is neither a file nor a link to one")
    return os.fdopen(descriptor, "rb")


def bounded(path: Path, cap: int, setting: str) -> bytes:
    """The bytes of a file, however many it says it has; TooLargeError if they are over `cap`."""
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = (stream.read(size + 1) or b"") if size <= cap else b""
        if len(data) > size:  # it grows, or is one of those that have no size before they are read
            data += stream.read(cap + 1 - size) or b""
        if (size := max(size, len(data))) > cap:
            raise TooLargeError(f"too_large: {size:,} bytes, {setting} is {cap:,}")
    return data


_PLAUSIBLE_BYTES, _PLAUSIBLE_RATIO = 16 << 20, 250
"""Bytes that any compressed text may become; and decompressed : stored above that."""


def plausible_bytes(stored: int) -> int:
    """Bytes that `stored` compressed bytes may become; bytes that become more are made to fill the
    memory.
    """
    return max(_PLAUSIBLE_BYTES, stored * _PLAUSIBLE_RATIO)


def content(path: Path, settings: MailSettings) -> tuple[bytes, str | None]:
    """The bytes of a file, decompressed by its ending under the caps of size and ratio.

    A compressed file that breaks off, or has something else behind its end, gives the bytes before
    that, and the reason. TooLargeError if it passes a cap, OSError if it cannot be read.
    """
    if path.suffix not in _MEMBERS:
        return bounded(path, settings.max_archive_bytes, "mail.max_archive_bytes"), None
    data = bytearray()
    with open_file(path) as stream:
        try:
            for block in blocks_of(stream, path.suffix, settings):
                data += block
        except (EOFError, OSError, *_BROKEN) as error:
            return bytes(data), why_unreadable(error)
    return bytes(data), None


def blocks_of(stream: IO[bytes], suffix: str, settings: MailSettings) -> Iterator[bytes]:
    """The content of an open file in blocks, decompressed by the ending of its name under the caps
    of size and ratio.

    One of `UNPACK_FAULTS` where it cannot be read on.
    """
    stored, cap = os.fstat(stream.fileno()).st_size, settings.max_archive_bytes
    what = f"too_large: more than {cap:,} bytes, mail.max_archive_bytes"
    blocks: Iterable[bytes] = iter(partial(stream.read, _BLOCK), b"")
    if suffix in _MEMBERS:
        blocks, cap = _decompressed(stream, _MEMBERS[suffix]), min(cap, plausible_bytes(stored))
        what = (
            f"compression_bomb: {stored:,} bytes expand to more than {cap:,}; raise mail.max_archive_bytes, or "
            "decompress it, if the archive is sound"
        )
    for block in blocks:
        if (cap := cap - len(block)) < 0:
            raise TooLargeError(what)
        yield block


def part(path: Path, start: int, count: int) -> bytes:
    """At most `count` bytes of a file's content, decompressed by its ending, from `start` on;
    OSError as `open_file`.
    """
    with open_file(path) as stream:
        if path.suffix not in _MEMBERS:
            stream.seek(start)
            return stream.read(count) or b""
        data, position = bytearray(), 0
        with (
            suppress(EOFError, OSError, *_BROKEN),
            closing(_decompressed(stream, _MEMBERS[path.suffix])) as blocks,
        ):
            for block in blocks:
                data += block[max(start - position, 0) :]
                position += len(block)
                if len(data) >= count:
                    break
    return bytes(data[:count])


def _decompressed(stream: IO[bytes], member_of: Callable[[], Any]) -> Generator[bytes]:
    """The content of all members of a compressed file in pieces; zeros that fill it up behind them
    are none.

    Python's own readers end silently where bytes behind a member of xz or bzip2 are not one.
    """
    rest = stream.read(_BLOCK)
    while rest:
        member = member_of()
        block = b""
        while not member.eof:
            if not rest and len(block) < _BLOCK and not (rest := stream.read(_BLOCK)):
                raise EOFError
            block = member.decompress(rest, _BLOCK)
            rest = getattr(member, "unconsumed_tail", b"")
            yield block
        rest = (member.unused_data or stream.read(_BLOCK)).lstrip(b"\0")
        while not rest and (more := stream.read(_BLOCK)):
            rest = more.lstrip(b"\0")


def why_unreadable(error: Exception) -> str:
    """The reason in `quarantine` for an unreadable file; WeftError as `raise_of_machine`."""
    if isinstance(error, TooLargeError | FormatError):
        return str(error)
    raise_of_machine(error)
    if isinstance(error, PermissionError):
        return "unreadable: no permission to read the file"
    if isinstance(error, EOFError):
        return "truncated_archive: the compressed file ends before its end mark"
    if isinstance(error, _BROKEN) or (
        isinstance(error, OSError) and error.errno is None
    ):  # that of bzip2
        return f"broken_archive: {str(error) or 'there is not enough memory to unpack it'}"
    return f"unreadable: {error.strerror if isinstance(error, OSError) else error}"
