"""Zipped exports: their members under caps of size and ratio; nothing is ever unpacked to disk."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from dagster_project.sources.reading_files import open_file, plausible_bytes
from transforms.errors import ChatFormatError

_BLOCK = 1 << 20
_ENCRYPTED = 1
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
    struct.error,
)


class ZippedExport(AbstractContextManager["ZippedExport"]):
    """The files in a zip, by name, without those that programs put beside them (`__MACOSX`, names
    with a dot).

    ChatFormatError for a file that is not a zip (`no_zip`), and for one that names a place outside
    itself (`path_traversal`), as no export does.
    """

    def __init__(self, path: Path, max_bytes: int):
        self._left = max_bytes
        self._members: dict[str, zipfile.ZipInfo] = {}
        self.repeated: list[str] = []
        """Names that several files have; the first of each is read."""
        self._stream = open_file(path)
        try:
            self._archive = zipfile.ZipFile(self._stream)
            self._list()
        except _BROKEN as error:
            self._stream.close()
            raise ChatFormatError(f"no_zip: {error}") from error
        except ChatFormatError:
            self._stream.close()
            raise

    def _list(self) -> None:
        for member in self._archive.infolist():
            name = member.filename.replace("\\", "/")
            parts = PurePosixPath(name).parts
            if ".." in parts or name.startswith("/") or ":" in name[:2]:
                raise ChatFormatError(
                    f"path_traversal: the archive names a place outside itself, {member.filename!r}"
                )
            if not member.is_dir() and not any(p.startswith((".", "__MACOSX")) for p in parts):
                if name in self._members:
                    self.repeated.append(name)
                self._members.setdefault(name, member)

    def __exit__(self, *_: object) -> None:
        self._archive.close()
        self._stream.close()

    @property
    def names(self) -> list[str]:
        """The names of the files, with `/` between folders, in order."""
        return sorted(self._members)

    def checksum(self, name: str) -> str:
        """The checksum of a file in the archive: it changes with the bytes."""
        return f"{self._members[name].CRC:08x}{self._members[name].file_size:x}"

    def size(self, name: str) -> int:
        """The bytes of a file, as the archive states them."""
        return self._members[name].file_size

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a file, to recognise it by; empty if it is broken or needs a password."""
        if self._members[name].flag_bits & _ENCRYPTED:
            return b""
        try:
            with self._archive.open(self._members[name]) as stream:
                return stream.read(size)
        except _BROKEN:
            return b""

    def read(self, name: str) -> bytes:
        """The bytes of a file; ChatFormatError as `blocks`."""
        return b"".join(self.blocks(name))

    def blocks(self, name: str) -> Iterator[bytes]:
        """The bytes of a file in blocks.

        ChatFormatError if a password is needed (`encrypted`), if it is broken (`no_zip`), or if the
        bytes read from the archive pass `max_bytes` or `plausible_bytes` (`too_large`).
        """
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise ChatFormatError("encrypted: the archive needs a password")
        cap = min(self._left, plausible_bytes(member.compress_size))
        count = 0
        try:
            with self._archive.open(member) as stream:
                while block := stream.read(_BLOCK):
                    if (count := count + len(block)) > cap:
                        raise ChatFormatError(
                            f"too_large: the archive unpacks to more than {cap:,} bytes; "
                            "unpack it, if it is sound"
                        )
                    yield block
        except _BROKEN as error:
            raise ChatFormatError(f"no_zip: {name} is broken: {error}") from error
        finally:
            self._left = max(0, self._left - count)
