"""The configured sources: their files, the partitions of these, and their contents."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from assets.protocols.sources import SourcePartition
from assets.stages.singly import FILE_FAULTS, reason_of_content
from dagster_project.config.settings import (
    ConversationSourceSettings,
    DocumentSourceSettings,
    Settings,
    SourceSettings,
)
from dagster_project.ledger.ledger import Ledger, Row, file_state
from dagster_project.remotes.landing import Landing
from dagster_project.sources import mail_places
from dagster_project.sources.chats import ChatFiles
from dagster_project.sources.document_readers import (
    DocumentReaders,
    missing_program,
    refuse_missing_ocr,
)
from dagster_project.sources.public_inbox import InboxMail, blobs, inbox_mails, is_corrupt
from dagster_project.sources.reading_files import (
    UNPACK_FAULTS,
    TooLargeError,
    blocks_of,
    bounded,
    content,
    open_file,
    why_unreadable,
)
from dagster_project.sources.trees import tree_files, tree_parts
from dagster_project.system import globs
from dagster_project.system.long_work import ordered_map
from transforms.documents.files import RawFile, document_format, separated
from transforms.documents.issues import issue_files
from transforms.documents.wiki_pages import WikiPage, latest_pages, page_file, wiki_pages
from transforms.errors import SourceError
from transforms.formats.converted import Converted, FormatError
from transforms.hashing import parts_hash
from transforms.mail.dates import sent_date
from transforms.mail.header_block import read_headers
from transforms.mail.messages import RawMail, split_mbox
from transforms.settings.documents import CONVERTED_FORMATS, WIKI_FORMATS
from transforms.settings.mail import MailSettings

_FILES_AT_ONCE = 4
_HEAD_BYTES = 1 << 16
_TYPICAL_MAIL_BYTES = 11_000
_COUNT = re.compile(rb"[ \t]*(\d{1,12})[ \t]*\r?\n")
# Thunderbird's mark of a mail that is deleted and waits for the folder to be compacted (bit 0x8).
_EXPUNGED = re.compile(rb"^X-Mozilla-Status: [0-9A-Fa-f]{3}[89A-Fa-f]\r?$", re.M)


@dataclass(frozen=True)
class _File:
    """A file of a partition: where it is, its name in the source, a hash of its bytes, why it is
    not read, its mail folder, and the list of its mails if the partition holds several.
    """

    path: Path
    name: str
    digest: str
    fault: str | None = None
    folder: str = ""
    list_id: str | None = None


class FileSources:
    """Looks at the configured sources. A file whose size, modification and change times and inode
    are as the ledger records them is not read again.
    """

    def __init__(
        self,
        settings: Settings,
        cache: Path,
        chats: ChatFiles,
        parsed: Callable[[str, str], list[SourcePartition]],
    ):
        """`parsed` gives the partitions of a source and source type that earlier builds read; the
        readings of documents lie in the folder `cache`.
        """
        self.settings, self.chats, self._parsed_partitions = settings, chats, parsed
        self.ledger: Ledger = chats.ledger
        self._recorded: dict[Row, Row] = {}
        self._partitions: dict[str, tuple[SourcePartition, list[_File]]] = {}
        self._inboxes: dict[str, list[InboxMail]] = {}
        self._states: dict[Row, Row] = {}
        self._readers = DocumentReaders(settings.documents, cache / "documents")
        self.broken: dict[str, str] = {}
        """Sources that cannot be read at all, and why; their partitions are those that earlier
        builds read.
        """

    def discover(self) -> list[SourcePartition]:
        """All partitions of all sources, in order of partition.

        A source that waits for its first fetch has no partitions. One that has no file at all, or
        that cannot be read, is `broken` and keeps its partitions: a disk that is not mounted must
        not empty the index. SourceError if all are.
        """
        self._recorded = self.ledger.rows("files")
        self._partitions, self._inboxes, self._states, self.broken = {}, {}, {}, {}
        for source in self.settings.sources:
            try:
                partitions = self._source_partitions(source)
            except SourceError as fault:
                prefix = (
                    ""
                    if str(fault).startswith(f"source {source.name}:")
                    else f"source {source.name}: "
                )
                self.broken[source.name] = f"{prefix}{fault}"
                if len(self.broken) == len(self.settings.sources):
                    raise SourceError("\n".join(self.broken.values())) from fault
                partitions = [
                    (p, []) for p in self._parsed_partitions(source.name, source.source_type)
                ]
            self._partitions |= {
                partition.key: (partition, files) for partition, files in partitions
            }
        self.ledger.change("files", self._recorded, self._states)
        return [self._partitions[p][0] for p in sorted(self._partitions)]

    def _source_partitions(
        self, source: SourceSettings | DocumentSourceSettings | ConversationSourceSettings
    ) -> list[tuple[SourcePartition, list[_File]]]:
        """The partitions of a source with their files; those of chats and public inboxes have none."""
        if (
            source.remote
            and not (landing := Landing(self.settings.fetched, source.name)).has_files()
        ):
            if not landing.is_complete and self._parsed_partitions(source.name, source.source_type):
                raise SourceError(
                    f"source {source.name}: what was fetched of it is no longer there; fetch it again (`weft build "
                    f"--fetch-only {source.name}`), or remove the source from the settings to remove it from the index"
                )
            return []
        if isinstance(source, ConversationSourceSettings):
            return [
                (p, []) for p in self.chats.partitions(source, lambda path: self.identify(path)[0])
            ]
        if isinstance(source, DocumentSourceSettings):
            return list(self._folders_of(source))
        if source.kind == "public_inbox":
            inboxes = list(self._inbox_partitions(source))
            self._inboxes |= {partition.key: mails for partition, mails in inboxes}
            return [(partition, []) for partition, _ in inboxes]
        return list(self._partitions_of(source))

    def partition(self, partition: str) -> SourcePartition:
        """The partition behind a partition key; SourceError if no file makes it up.

        Once one of its files was read and was no longer as it was found, the partition has another
        fingerprint, which no later look will give it: the next build reads it again.
        """
        if not self._partitions:
            self.discover()
        if partition not in self._partitions:
            raise SourceError(
                f"partition {partition}: no file of the configured sources belongs to it"
            )
        partition_files = self._partitions[partition][0]
        if partition_files.source in self.broken:
            raise SourceError(self.broken[partition_files.source])
        return partition_files

    def bytes_of(self, partition: SourcePartition) -> int:
        """Bytes of the partition's files as they are stored; of a public inbox an estimate, 0 if
        none are known.
        """
        if partition.key in self._inboxes:
            return len(self._inboxes[partition.key]) * _TYPICAL_MAIL_BYTES
        return sum(globs.size_of(file.path) for file in self._partitions[partition.key][1])

    def mails(self, partition: SourcePartition) -> Iterable[RawMail]:
        """The mails of the partition's files in order of name, each file read under the caps of the
        settings.

        Those of a public inbox come in the order of their commits.
        """
        source = self.settings.source(partition.source)
        assert isinstance(source, SourceSettings)
        for file in self.stored_files(partition):
            for mail in _read_to_fault(file, source, self.settings.mail):
                yield replace(mail, list_id=file.list_id) if file.list_id else mail
            self._note_change(partition, file)
        inbox = self._inboxes.get(partition.key, [])
        for entry, mail in zip(
            inbox, blobs(inbox, self.settings.mail.max_message_bytes), strict=True
        ):
            yield mail
            if is_corrupt(mail) and not entry.fault:
                self._note_difference(partition, mail.place)

    def _inbox_partitions(
        self, source: SourceSettings
    ) -> Iterator[tuple[SourcePartition, list[InboxMail]]]:
        """The partitions of a public inbox: mails by the month they were sent in, or by epoch.

        The month is that of the commit's author time, so a new commit changes the partition of its
        month alone.
        """
        pattern = self.settings.place(source)
        is_one = globs.is_folder(pattern)
        matching = [pattern] if is_one else globs.matching_paths(pattern, self.settings.base)
        roots = [root for root in matching if globs.is_folder(root)]
        if not roots:
            raise SourceError(
                f"source {source.name}: no folder at {pattern}; mend `path` in the settings, or remove the "
                "source from them to remove its mail from the index"
            )
        grouped: dict[str, list[InboxMail]] = {}
        partitions = [
            mail
            for root in roots
            for mail in inbox_mails(
                root, globs.valid_text(root.relative_to(globs.fixed_folder(pattern)))
            )
        ]
        youngest = mail_places.youngest_year(mail.month for mail in partitions)
        for mail in partitions:
            partition = mail.epoch
            if source.grain != "archive":
                partition = mail_places.period_of(mail.month, source.grain, youngest)
            grouped.setdefault(partition, []).append(mail)
        list_id = source.list_id or source.name
        for name, mails in sorted(grouped.items()):
            fault_text = (
                p for mail in mails for p in (mail.place, mail.blob, mail.fault) if p is not None
            )
            fingerprint = parts_hash([source.kind, list_id, *fault_text])
            yield SourcePartition(source.name, name, list_id, fingerprint), mails

    def stored_files(self, partition: SourcePartition) -> list[_File]:
        """The files that make up a partition; none of a public inbox or a chat."""
        return self._partitions[partition.key][1]

    def files(self, partition: SourcePartition) -> Iterable[RawFile]:
        """The files of a partition of documents, those that are not read with the reason; of
        exports each issue is one.
        """
        kind = self.settings.source(partition.source).kind
        if kind == "wiki":
            return self._wiki_files(partition)
        files = separated(self._files(partition))
        return issue_files(files) if kind == "issues" else files

    def _wiki_files(self, partition: SourcePartition) -> Iterator[RawFile]:
        """The pages of exported wikis, the rest of a broken export with its reason, and other files
        as they are.
        """
        pages = list[WikiPage]()
        for file in self.stored_files(partition):
            if file.fault or not file.name.lower().endswith(WIKI_FORMATS):
                yield self._read_file(file)
            else:
                try:
                    with open_file(file.path) as stream:
                        blocks = blocks_of(stream, file.path.suffix, self.settings.mail)
                        pages += wiki_pages(
                            blocks, file.name, self.settings.documents.max_document_bytes
                        )
                except UNPACK_FAULTS as fault:
                    yield RawFile(file.name, b"", why_unreadable(fault))
                except FILE_FAULTS as fault:
                    yield RawFile(file.name, b"", reason_of_content(fault))
            self._note_change(partition, file)
        latest = list(latest_pages(self.readable(partition, pages)))
        yield from ordered_map(self._read_page, latest, _FILES_AT_ONCE)

    def readable(self, partition: SourcePartition, pages: list[WikiPage]) -> list[WikiPage]:
        """The pages of a partition's wikis, those that must not be read with a fault."""
        return pages

    def _read_page(self, page: tuple[WikiPage, tuple[str, ...]]) -> RawFile:
        """A page of a wiki as Markdown, or with the reason why it is not read."""
        wikitext = page[0].text.encode("utf-8", "replace")
        if page[0].fault:
            return RawFile(page[0].path, wikitext, page[0].fault)
        try:
            return page_file(*page, self._readers.read(wikitext, "wikitext"))
        except FormatError as fault:
            return RawFile(page[0].path, wikitext, str(fault))

    def _files(self, partition: SourcePartition) -> Iterator[RawFile]:
        files = self.stored_files(partition)
        for file, raw in zip(
            files, ordered_map(self._read_file, files, _FILES_AT_ONCE), strict=True
        ):
            yield raw
            self._note_change(partition, file)

    def _read_file(self, file: _File) -> RawFile:
        """One file of a tree with its bytes, or with the reason why it is not read."""
        if file.fault:
            return RawFile(file.name, b"", file.fault)
        settings, kind = self.settings.documents, document_format(file.name)
        is_large = kind is None or kind in CONVERTED_FORMATS
        cap = settings.max_file_bytes if is_large else settings.max_document_bytes
        try:
            data = bounded(file.path, cap, "the cap")
        except (TooLargeError, OSError) as error:
            return RawFile(file.name, b"", why_unreadable(error))
        if kind is None or kind not in CONVERTED_FORMATS:
            return RawFile(file.name, data)
        try:
            return RawFile(file.name, b"", converted=self._readers.read(data, kind, seen_pixels=0))
        except FormatError as error:
            return RawFile(file.name, data, str(error))

    def converted(self, data: bytes, kind: str, *, keep: bool = True) -> Converted:
        """The Markdown of an attached document of one of `CONVERTED_FORMATS`; FormatError if it
        cannot be read.
        """
        return self._readers.read_attached(data, kind, keep=keep)

    def _note_change(self, partition: SourcePartition, file: _File) -> None:
        """Give a partition another fingerprint if one of its files is no longer as it was found."""
        before = self._states.get(_key(file.path))
        with suppress(OSError):
            if before is None or before[0] == file_state(str(file.path)):
                return
        self._note_difference(partition, file.name)

    def _note_difference(self, partition: SourcePartition, what: str) -> None:
        """Give a partition another fingerprint: something in it was not as it was found."""
        now, files = self._partitions[partition.key]
        changed = parts_hash([now.fingerprint, "changed while it was read", what])
        self._partitions[partition.key] = replace(now, fingerprint=changed), files

    def conversation(self, partition: SourcePartition) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The tables `conversations`, `conversation_attachments` and `conversation_quarantine` of
        one window.
        """
        return self.chats.window(partition, self.converted)

    def _folders_of(
        self, source: DocumentSourceSettings
    ) -> Iterator[tuple[SourcePartition, list[_File]]]:
        root, reads_pictures = self.settings.place(source), self.settings.documents.reads_pictures
        refuse_missing_ocr(self.settings.documents)
        tree = tree_files(source, root, self.settings.root, reads_pictures=reads_pictures)
        grain = "whole" if source.kind in ("issues", "wiki") else source.grain
        for partition, part in sorted(tree_parts(tree, grain).items()):
            digests = [
                f.fault or self.identify(f.path)[0] + missing_program([f.name]) for f in part
            ]
            files = [
                _File(f.path, f.name, digest, f.fault)
                for f, digest in zip(part, digests, strict=True)
            ]
            fingerprint = parts_hash(
                [source.kind, *(p for file in files for p in (file.name, file.digest))]
            )
            yield (
                SourcePartition(source.name, partition, None, fingerprint, source.source_type),
                files,
            )

    def _partitions_of(
        self, source: SourceSettings
    ) -> Iterator[tuple[SourcePartition, list[_File]]]:
        units: dict[str, tuple[str | None, list[_File]]] = {}
        for (period, list_id), files in sorted(
            self._grouped(source).items(), key=lambda one: (one[0][0], one[0][1] or "")
        ):
            name = (
                period if period not in units else globs.partition_name(f"{period}@{list_id or ''}")
            )
            units[name] = list_id, files
        short = mail_places.without_source(source.name, units)
        for name, (list_id, files) in units.items():
            files.sort(key=lambda f: f.name)
            fingerprint = parts_hash(
                [
                    source.kind,
                    source.dialect,
                    list_id or "",
                    *(p for f in files for p in (f.name, f.digest)),
                ]
            )
            yield SourcePartition(source.name, short[name], list_id, fingerprint), files

    def _grouped(self, source: SourceSettings) -> dict[tuple[str, str | None], list[_File]]:
        """The files of a source by the name of their partition and its list."""
        grouped: dict[tuple[str, str | None], list[_File]] = {}
        assigned: list[tuple[_File, str | None]] = []
        for path, name, fault, folder in mail_places.mail_paths(source, self.settings):
            digest, month = (
                (fault, None) if fault else self.identify(path, dated=source.kind != "mbox")
            )
            month = mail_places.month_of(name) if source.kind == "mbox" else month
            assigned.append((_File(path, name, digest, fault, folder), month))
        base = source.list_id or source.name
        shared = self._shared(source, assigned)
        youngest = mail_places.youngest_year(month for _, month in assigned if month)
        for file, month in assigned:
            if name := shared.get(file.name):
                own = f"{base}/{file.folder}" if file.folder else base
                grouped.setdefault((name, base), []).append(replace(file, list_id=own))
                continue
            period = month and mail_places.period_of(month, source.grain, youngest)
            alone = mail_places.mail_partition(source, file.name, file.folder, period)
            grouped.setdefault(alone, []).append(file)
        return grouped

    def _shared(
        self, source: SourceSettings, files: Iterable[tuple[_File, str | None]]
    ) -> dict[str, str]:
        """The partitions of the files of mail folders by the number of mails, by the name of the
        file; none where the settings name another grain.
        """
        if source.grain not in (None, "auto"):
            return {}
        folder_files = {
            file.name: mail_places.FolderFile(
                file.folder,
                month,
                1 + globs.size_of(file.path) // _TYPICAL_MAIL_BYTES if source.kind == "mbox" else 1,
            )
            for file, month in files
            if file.folder or source.kind != "mbox"
        }
        partitions = mail_places.shared_partitions(list(folder_files.values()))
        return dict(zip(folder_files, partitions, strict=True))

    def identify(self, path: Path, *, dated: bool = False) -> tuple[str, str | None]:
        """Hash of the file's bytes, and if it is a `dated` single mail the month of its Date
        header.
        """
        key = _key(path)
        last = self._states.get(key) or self._recorded.get(key)
        try:
            state = file_state(str(path))
            if last and last[0] == state:
                self._states[key] = last
                return str(last[1]), str(last[2]) if last[2] else None
            with open_file(path) as stream:
                head = stream.read(_HEAD_BYTES)
                digest = blake2b(head, digest_size=16)
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            return why_unreadable(error), None
        month = _month(stored_mail(path, head)) if dated else None
        self._states[key] = state, digest.hexdigest(), month
        return digest.hexdigest(), month

    def sweep(self) -> int:
        """Delete files that killed readers left; returns their number. No other build may be
        running.
        """
        return self._readers.converted.sweep()


def _key(path: Path) -> Row:
    """The key of a file in the ledger, a hash: paths may have names."""
    return (parts_hash([os.fsencode(path)]),)


def stored_mail(path: Path, data: bytes) -> bytes:
    """The mail in a file of these bytes; `.emlx` has the count of its bytes above, and a property
    list below.
    """
    count = _COUNT.match(data) if path.suffix == ".emlx" else None
    return data[count.end() : count.end() + int(count[1])] if count else data


def _month(head: bytes) -> str | None:
    """Month of the Date header of a mail, as `YYYY-MM`; None without a readable one."""
    try:
        dates = read_headers(head).fields.get("date", [])
        at = sent_date(dates[0]).at if dates else None
    except FILE_FAULTS:
        return None
    return at.strftime("%Y-%m") if at else None


def _read_to_fault(
    file: _File, source: SourceSettings, settings: MailSettings
) -> Iterator[RawMail]:
    """The mails of a file up to a fault of its reader, and the reason in place of the others."""
    try:
        yield from _read(file, source, settings)
    except FILE_FAULTS as fault:
        yield RawMail(file.name, b"", fault=reason_of_content(fault))


def _read(file: _File, source: SourceSettings, settings: MailSettings) -> Iterator[RawMail]:
    if file.fault or globs.is_folder(file.path):
        yield RawMail(file.name, b"", fault=file.fault or "not_a_file: the path is a folder")
        return
    try:
        data, fault = content(file.path, settings)
    except (TooLargeError, OSError) as error:
        yield RawMail(file.name, b"", fault=why_unreadable(error))
        return
    if not data and not fault:
        yield RawMail(file.name, b"", fault="empty_file: the file has no bytes")
    elif source.kind == "mbox":
        mails, refused = split_mbox(data, name=file.name, dialect=source.dialect)
        yield from (mail for mail in mails if not _EXPUNGED.search(mail.data, 0, _HEAD_BYTES))
        yield from refused
    elif data:
        yield RawMail(file.name, stored_mail(file.path, data))
    if fault:
        yield RawMail(f"{file.name}:{len(data)}", b"", fault=fault)
