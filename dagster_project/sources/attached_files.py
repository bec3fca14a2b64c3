"""Files that messages of chats name: where they lie beside their export or in its zip, and their
texts.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dagster_project.sources.chat_exports import Export
from dagster_project.sources.reading_files import TooLargeError, bounded, why_unreadable
from dagster_project.sources.zip_exports import ZippedExport
from dagster_project.system.globs import is_file, real_path
from transforms.conversations.chunks import FileText
from transforms.conversations.exports import NamedFile
from transforms.errors import ChatFormatError
from transforms.hashing import parts_hash
from transforms.mail.attachments import Convert, document_text
from transforms.settings.documents import (
    CONVERTED_FORMATS,
    DOCUMENT_FORMATS,
    PICTURE_FORMATS,
    DocumentSettings,
)
from transforms.text.charsets import decode_text

_TEXTS = ("markdown", "text", "table")
_MISSING = "missing: the export does not hold the file"


class _Member(NamedTuple):
    """A file in a zip: its name there, its checksum and its bytes."""

    name: str
    checksum: str
    byte_count: int


class AttachedFiles:
    """The files that lie with an export; of one that names a place outside of the export's folder
    there is none.
    """

    def __init__(self, export: Export, settings: DocumentSettings, digest: Callable[[Path], str]):
        """`digest` hashes a file on disk."""
        self.export, self.settings, self._digest = export, settings, digest
        file = export.files[-1]
        self._folder = file.parent.parent if export.format == "slack" else file.parent
        self._inside: dict[str, _Member] | None = None

    def located(self, file: NamedFile) -> NamedFile:
        """`file` with its place, and with a hash of its bytes if it is read."""
        place = next((p for p in file.places if self._is_there(p)), "")
        return file._replace(
            place=place, digest=self._hash(place) if place and self.is_read(file) else ""
        )

    def is_read(self, file: NamedFile) -> bool:
        """True if a file of that name has text that is read."""
        ending = file.name.rpartition(".")[2].lower()
        kind = DOCUMENT_FORMATS.get(ending)
        is_picture = self.settings.reads_pictures and ending in PICTURE_FORMATS
        return is_picture or kind in CONVERTED_FORMATS or kind in _TEXTS

    def state(self, places: Iterable[str]) -> str:
        """A hash that changes when one of the files at these places comes, changes or goes."""
        return parts_hash(
            part for p in places for part in (p, self._hash(p) if self._is_there(p) else "")
        )

    def text(self, file: NamedFile, convert: Convert) -> FileText:
        """The text of a file that was looked for, or the reason for none; its size in bytes is that
        of now, and 0 of a file that the export lacks.
        """
        if not file.place:
            return FileText(None, _MISSING)
        if not self.is_read(file):
            reason = f"binary: {file.name.rpartition('.')[2].lower()}"
            return FileText(None, reason, None, self._size(file.place))
        try:
            content = self.content(file.place)
            cap = self.settings.max_file_bytes
            data = (
                bounded(content, cap, "the cap") if isinstance(content, Path) else b"".join(content)
            )
        except (TooLargeError, ChatFormatError, OSError) as error:
            reason = str(error) if isinstance(error, ChatFormatError) else why_unreadable(error)
            return FileText(None, reason, None, self._size(file.place))
        if document := document_text(data, file.name, file.declared_type, convert):
            return FileText(
                document.text, document.reason, document.page_starts, len(data), document.picture
            )
        if DOCUMENT_FORMATS.get(file.name.rpartition(".")[2].lower()) not in _TEXTS:
            return FileText(None, "binary: not what its name says", None, len(data))
        text = decode_text(data, None).text.replace("\r\n", "\n").replace("\r", "\n")
        return FileText(text, None, None, len(data))

    def _is_there(self, place: str) -> bool:
        parts = PurePosixPath(place).parts
        if not parts or ".." in parts or parts[0] == "/" or "\0" in place:
            return False
        if self.export.format == "zip":
            return place in self._members()
        path = real_path(self._folder / place)
        return is_file(path) and path.is_relative_to(real_path(self._folder))

    def _members(self) -> dict[str, _Member]:
        """The files in the zip by their place below the folder of its export."""
        if self._inside is None:
            self._inside = {}
            with contextlib.suppress(ChatFormatError, OSError), self._archive() as archive:
                tops = {name.partition("/")[0] for name in archive.names}
                top = f"{next(iter(tops))}/" if len(tops) == 1 else ""
                self._inside = {
                    n.removeprefix(top): _Member(n, archive.checksum(n), archive.size(n))
                    for n in archive.names
                }
        return self._inside

    def _archive(self) -> ZippedExport:
        return ZippedExport(self.export.files[0], self.settings.max_file_bytes)

    def _hash(self, place: str) -> str:
        return (
            self._members()[place].checksum
            if self.export.format == "zip"
            else self._digest(self._folder / place)
        )

    def _size(self, place: str) -> int:
        """The bytes of a file at a place; 0 if it is gone meanwhile."""
        if self.export.format == "zip":
            member = self._members().get(place)
            return member.byte_count if member else 0
        with contextlib.suppress(OSError):
            return (self._folder / place).stat().st_size
        return 0

    def content(self, place: str) -> Path | Iterator[bytes]:
        """The path of a file at a place, or its blocks if it is in a zip; ChatFormatError if the
        export lacks it.
        """
        if not self._is_there(place):
            raise ChatFormatError(_MISSING)
        return self._folder / place if self.export.format != "zip" else self._unpacked(place)

    def _unpacked(self, place: str) -> Iterator[bytes]:
        with self._archive() as archive:
            yield from archive.blocks(self._members()[place].name)
