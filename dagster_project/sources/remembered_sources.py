"""The configured sources without forgotten texts, and without those that a stage failed on."""

import bz2
import gzip
import lzma
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.protocols.sources import SourcePartition
from dagster_project.config.settings import SourceSettings
from dagster_project.lake.forgotten import FORGOTTEN, Forgotten
from dagster_project.lake.set_aside import SetAside
from dagster_project.sources.file_sources import FileSources, stored_mail
from dagster_project.sources.reading_files import TooLargeError, content
from dagster_project.system.durable import put, sync
from transforms.conversations.exports import Fault
from transforms.conversations.windows import quarantine_rows
from transforms.documents.files import RawFile, part_paths
from transforms.documents.wiki_pages import WikiPage
from transforms.mail.messages import RawMail, id_and_author, split_mbox
from transforms.schemas.conversations import CONVERSATION_MESSAGES
from transforms.schemas.mail import ATTACHMENTS

_FAULT = f"{FORGOTTEN}: `weft forget` was asked to; the source still holds it"
_PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


class RememberedSources(FileSources):
    """`FileSources` that put forgotten texts, and those that a stage failed on, into quarantine, and
    leave out forgotten sources and partitions.
    """

    def __init__(self, forgotten: Forgotten, failing: SetAside, *args: Any):
        super().__init__(*args)
        self.forgotten, self.failing = forgotten, failing
        self.chats.is_forgotten = partial(forgotten.has, "partition")
        self.left_out: set[str] = set()
        """Sources where `discover` left partitions out."""

    def _source_partitions(self, source: Any) -> list[Any]:
        """The partitions of a source that were not forgotten, with their files."""
        if self.forgotten.has("source", source.name):
            self.left_out.add(source.name)
            return []
        items = super()._source_partitions(source)
        remaining = [item for item in items if not self.forgotten.has("partition", item[0].key)]
        if len(remaining) < len(items):
            self.left_out.add(source.name)
        return remaining

    def discover(self) -> list[SourcePartition]:
        """All partitions; one that leaves out texts that a stage failed on has another fingerprint."""
        return [self.failing.marked(partition) for partition in super().discover()]

    def partition(self, partition: str) -> SourcePartition:
        """The partition behind a key, as `discover`."""
        return self.failing.marked(super().partition(partition))

    def set_aside(self, partition: str, reasons: Mapping[str, str]) -> None:
        """Put documents, mails by their place, or a window into quarantine from now on, each with
        its reason.
        """
        self.failing.add(super().partition(partition), reasons)

    def _reasons(self, partition: SourcePartition) -> Mapping[str, str]:
        """Why a stage failed on documents, mails or the window of a partition, by place."""
        return self.failing.of(super().partition(partition.key))

    def conversation(self, partition: SourcePartition) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The tables of one window; empty but for the quarantine if a stage failed on it."""
        if not (reasons := self._reasons(partition)):
            return super().conversation(partition)
        faults = [Fault(place, reason, b"") for place, reason in reasons.items()]
        return (
            CONVERSATION_MESSAGES.from_rows([]),
            ATTACHMENTS.from_rows([]),
            quarantine_rows(faults, partition.source, partition.key),
        )

    def cut_fetched(self, partitions: Collection[str]) -> None:
        """Take forgotten texts out of the fetched files of partitions, but for chats and the
        history of a public inbox.

        A later fetch brings it again if its remote has it.
        """
        for partition in self.discover() if partitions else ():
            source = self.settings.source(partition.source)
            if partition.key not in partitions or source.remote is None:
                continue
            for file in self.stored_files(partition):
                if isinstance(source, SourceSettings) and source.kind == "mbox":
                    self._cut(file.path, source)
                elif isinstance(source, SourceSettings):
                    if self._mail(
                        RawMail(file.name, stored_mail(file.path, file.path.read_bytes()))
                    ).fault:
                        file.path.unlink()
                elif self.forgotten.has("document", f"{source.name}:{file.name}"):
                    file.path.unlink()

    def _cut(self, file: Path, source: SourceSettings) -> None:
        """Write an mbox file again without the mails that were forgotten; one that is broken stays."""
        try:
            data, fault = content(file, self.settings.mail)
        except (TooLargeError, OSError):
            return
        mails = [] if fault else list(split_mbox(data, name="", dialect=source.dialect)[0])
        starts = [int(mail.place[1:]) for mail in mails] + [len(data)]
        is_sound = [self._mail(mail).fault is None for mail in mails]
        if all(is_sound):
            return
        sound = [
            data[begin:end]
            for begin, end, is_ in zip(starts, starts[1:], is_sound, strict=False)
            if is_
        ]
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_bytes(_PACK.get(file.suffix, bytes)(data[: starts[0]] + b"".join(sound)))
        sync([beside])
        put(beside, file)

    def mails(self, partition: SourcePartition) -> Iterable[RawMail]:
        """The mails of the partition; those that were forgotten have no bytes, but the fault."""
        mails = super().mails(partition)
        if reasons := self._reasons(partition):
            mails = (
                replace(mail, data=b"", fault=mail.fault or reasons.get(mail.place))
                if mail.place in reasons
                else mail
                for mail in mails
            )
        return map(self._mail, mails) if self.forgotten.hashes else mails

    def _mail(self, mail: RawMail) -> RawMail:
        if mail.fault is not None or (identity := id_and_author(mail)) is None:
            return mail
        ident, author = identity
        is_forgotten = self.forgotten.has("mail", ident) or self.forgotten.has("address", author)
        return replace(mail, data=b"", fault=_FAULT) if is_forgotten else mail

    def _is_forgotten(self, partition: SourcePartition, *paths: str) -> bool:
        return any(self.forgotten.has("document", f"{partition.source}:{path}") for path in paths)

    def stored_files(self, partition: SourcePartition) -> list[Any]:
        """The files that make up a partition; one that was forgotten, or is a document that a stage
        failed on, has the fault, and no program reads it.
        """
        files, reasons = super().stored_files(partition), self._reasons(partition)
        return [
            replace(f, fault=fault)
            if (
                fault := _FAULT
                if self._is_forgotten(partition, f.name)
                else reasons.get(f"{partition.source}:{f.name}")
            )
            else f
            for f in files
        ]

    def readable(self, partition: SourcePartition, pages: list[WikiPage]) -> list[WikiPage]:
        """The pages of a partition's wikis; one that was forgotten has the fault, and no text."""
        own = ((page, self._is_forgotten(partition, page.path)) for page in pages)
        return [
            replace(page, text="", fault=_FAULT) if is_forgotten else page
            for page, is_forgotten in own
        ]

    def files(self, partition: SourcePartition) -> Iterator[RawFile]:
        """The files of the partition; those that were forgotten have no bytes, but the fault.

        The last event of a calendar, which has the path of its file, is forgotten as the one of
        several that it was.
        """
        reasons = self._reasons(partition)
        for file in super().files(partition):
            is_forgotten = self._is_forgotten(partition, file.path, *part_paths(file))
            fault = _FAULT if is_forgotten else reasons.get(f"{partition.source}:{file.path}")
            yield RawFile(file.path, b"", fault) if fault else file
