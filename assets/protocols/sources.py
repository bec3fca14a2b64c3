"""Protocols of the configured sources and of the remotes they are fetched from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

# A search knows the protocols and nothing of what makes an index, which takes seconds to import.
if TYPE_CHECKING:
    from transforms.documents.files import RawFile
    from transforms.formats.converted import Converted
    from transforms.mail.messages import RawMail


@dataclass(frozen=True)
class SourcePartition:
    """One partition of a source: `fingerprint` changes whenever a byte of its files does.

    `source_type` is the kind of its contents: mail, documents or conversations.
    """

    source: str
    name: str
    list_id: str | None
    fingerprint: str
    source_type: str = "mail"

    @property
    def key(self) -> str:
        """The partition key in Dagster and in the lake."""
        return f"{self.source}/{self.name}"


@dataclass(frozen=True)
class Fetched:
    """The result of a fetch: files or mails that came, changed, stayed and went, bytes and
    requests.

    `newest_at` is when the newest mail or file was made, `lag_seconds` how long ago that is; None
    where nothing is there. `notes` names mails and files left out, with the reason.
    """

    added: int
    changed: int
    unchanged: int
    removed: int
    bytes: int
    requests: int
    newest_at: datetime | None
    lag_seconds: float | None
    notes: tuple[str, ...] = ()


class Remotes(Protocol):
    """The remotes of the sources with `fetch`."""

    def fetch(self, source: str) -> Fetched:
        """Bring new mails and files from a source's remote.

        FetchInterruptedError where a repetition may help, else FetchError; finished files are kept.
        """

    def lag_seconds(self, source: str) -> float | None:
        """How old the newest mail or file is that was fetched; None where nothing was."""


class Sources(Protocol):
    """The configured sources."""

    def partition(self, partition: str) -> SourcePartition:
        """The partition behind a partition key; SourceError if no file makes it up."""

    def mails(self, partition: SourcePartition) -> Iterable[RawMail]:
        """The partition's mails in order; an unreadable one has a fault."""

    def files(self, partition: SourcePartition) -> Iterable[RawFile]:
        """The files of a partition of documents in order; an unreadable one has a fault."""

    def converted(self, data: bytes, kind: str) -> Converted:
        """The Markdown of an attached document of one of `CONVERTED_FORMATS`; FormatError if it
        cannot be read.
        """

    def set_aside(self, partition: str, reasons: Mapping[str, str]) -> None:
        """Put documents, mails by their place, or a window by its name into quarantine at the next
        reading of a partition, each with its reason.
        """

    def conversation(self, partition: SourcePartition) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The tables `conversations`, `conversation_attachments` and `conversation_quarantine` of
        one window.
        """
