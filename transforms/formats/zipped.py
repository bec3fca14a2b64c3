"""The members of a zip file that is a document, within limits of their size, and their XML."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from xml.etree import ElementTree

from transforms.formats.converted import Converted, FormatError, own_title

DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_CORE = {"title": f"{DC}title", "created": f"{_TERMS}created", "modified": f"{_TERMS}modified"}
MAX_BYTES = 256 << 20
"""Bytes of all members of a document when unpacked."""
_MAX_MEMBERS = 20_000
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError, ValueError)


class Zipped:
    """The members of a document by name; FormatError if it is none, encrypted, damaged or a compression bomb."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise FormatError(f"unreadable: it is no zip file ({error})") from error
        members = self._zip.infolist()
        # A member never gives more than it declares.
        size = sum(member.file_size for member in members)
        if size > MAX_BYTES or len(members) > _MAX_MEMBERS:
            raise FormatError(
                f"compression_bomb: {len(data):,} bytes hold {len(members):,} members of {size:,} bytes, the caps are "
                f"{_MAX_MEMBERS:,} and {MAX_BYTES:,}"
            )
        self.names = {member.filename for member in members}

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        try:
            return self._zip.read(name)
        except KeyError:
            raise FormatError(f"unreadable: it has no {name}") from None
        except RuntimeError as error:
            raise FormatError("encrypted: it opens with a password only") from error
        except _BROKEN as error:
            raise FormatError(f"unreadable: {name}: {error}") from error

    def xml(self, name: str) -> ElementTree.Element:
        """The root of a member that is XML; entities of its own are none of the parser's."""
        try:
            return ElementTree.fromstring(self.read(name))
        except ElementTree.ParseError as error:
            raise FormatError(f"unreadable: {name}: {error}") from error

    def described(self, converted: Converted, member: str, names: Mapping[str, str]) -> Converted:
        """A document with title, created and modified as the elements of these names in a member say them."""
        if member not in self.names:
            return converted
        root = self.xml(member)
        said = {field: root.findtext(f".//{name}") for field, name in names.items()}
        return converted._replace(
            title=own_title(said["title"]), created=said["created"], modified=said.get("modified")
        )

    def with_core_properties(self, converted: Converted) -> Converted:
        """An office document of Microsoft's kind with its title and times."""
        return self.described(converted, "docProps/core.xml", _CORE)
