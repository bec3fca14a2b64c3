"""The configured sources: which files they have, how the files make units, and what is in them."""

from __future__ import annotations

import bz2
import glob
import gzip
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from assets.protocols import Unit
from dagster_project.config.settings import (
    ConversationSourceSettings,
    DocumentSourceSettings,
    Settings,
    SourceSettings,
)
from dagster_project.resources.remotes.landing import Landing
from dagster_project.resources.sources.public_inbox import InboxMail, blobs, inbox_mails
from dagster_project.resources.sources.trees import tree_files
from dagster_project.resources.system.globs import fixed_folder, matching_paths, unit_name, valid_text
from transforms.documents.files import RawFile
from transforms.errors import SourceError
from transforms.hashing import parts_hash
from transforms.mail.dates import sent_date
from transforms.mail.messages import RawMail, split_mbox
from transforms.mail.mime import MIME_FAULTS, read_headers
from transforms.settings.documents import DocumentSettings
from transforms.settings.mail import MailSettings

_DATED = re.compile(r"(?P<before>.*?)[._-]?(?P<year>(?:19|20)\d\d)[._-]?(?P<month>0[1-9]|1[0-2])(?!\d)")
_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_HEAD_BYTES = 1 << 16
_TYPICAL_MAIL_BYTES = 11_000
_PLAUSIBLE_EXPANSION = 16 << 20


@dataclass(frozen=True)
class _File:
    """A file of a unit: where it is, its name in the source, a hash of its bytes, why it is not read."""

    path: Path
    name: str
    digest: str
    fault: str | None = None


class ConversationReader(Protocol):
    """Knows how chats make units; `dagster_project.resources.sources.chats` implements it."""

    def units(self, source: ConversationSourceSettings, digest: Callable[[Path], str]) -> list[Unit]:
        """The windows of all chats of a source."""

    def window(self, unit: Unit) -> tuple[pa.Table, pa.Table]:
        """The tables of one window."""

    def sweep(self) -> int:
        """Delete what killed builds left; the number of files."""


class FileSources:
    """Looks at the configured sources; remembers hashes of files that did not change.

    A file whose size, modification and change times and inode are as remembered is not read
    again. What is remembered lies in `memory`, a file that may be deleted at any time.
    """

    def __init__(self, settings: Settings, memory: Path, chats: ConversationReader | None = None):
        self.settings, self.chats = settings, chats
        self._memory_file = memory
        self._memory: dict[str, list[object]] = {}
        self._units: dict[str, tuple[Unit, list[_File]]] | None = None
        self._inboxes: dict[str, list[InboxMail]] = {}
        self._seen: dict[str, list[object]] = {}
        self.unfetched: tuple[str, ...] = ()
        """Sources with a remote of which nothing is here, because no fetch came to its end yet."""

    def discover(self) -> list[Unit]:
        """All units of all sources, in order of partition; SourceError if a source has no file at all.

        A source that waits for its first fetch has no units.
        """
        self._memory = self._recall()
        found: dict[str, tuple[Unit, list[_File]]] = {}
        inboxes: dict[str, list[InboxMail]] = {}
        seen: dict[str, list[object]] = {}
        empty = {s.name: Landing(self.settings.fetched, s.name) for s in self.settings.sources if s.remote}
        empty = {name: landing for name, landing in empty.items() if not landing.has_files()}
        self.unfetched = tuple(name for name, landing in empty.items() if not landing.is_complete)
        for source in self.settings.sources:
            if source.name in empty:
                continue
            if isinstance(source, ConversationSourceSettings):
                assert self.chats
                windows = self.chats.units(source, lambda path: self._identify(path, seen)[0])
                found |= {u.partition: (u, []) for u in windows}
                continue
            if source.kind == "public_inbox":
                for unit, mails in self._inbox_units(source):
                    found[unit.partition] = (unit, [])
                    inboxes[unit.partition] = mails
                continue
            units = (
                self._folders_of(source, seen)
                if isinstance(source, DocumentSourceSettings)
                else self._units_of(source, seen)
            )
            for unit, files in units:
                found[unit.partition] = (unit, files)
        if seen != self._memory:
            self._remember(seen)
        self._units, self._inboxes, self._seen = found, inboxes, seen
        return [found[p][0] for p in sorted(found)]

    def unit(self, partition: str) -> Unit:
        """The unit behind a partition key; SourceError if no file makes it up.

        Once one of its files was read and was no longer as it was found, the unit has another fingerprint, which no
        later look will give it: what was read is made again by the next build.
        """
        if self._units is None:
            self.discover()
        assert self._units is not None
        if partition not in self._units:
            raise SourceError(
                f"partition {partition}: no file of the configured sources belongs to it any more"
            )
        return self._units[partition][0]

    def bytes_of(self, unit: Unit) -> int:
        """Bytes of the unit's files as they are stored; of a public inbox an estimate, 0 where none are known."""
        assert self._units is not None
        if unit.partition in self._inboxes:
            return len(self._inboxes[unit.partition]) * _TYPICAL_MAIL_BYTES
        return sum(file.path.stat().st_size for file in self._units[unit.partition][1] if file.path.exists())

    def mails(self, unit: Unit) -> Iterable[RawMail]:
        """The mails of the unit's files in order of name, each file read under the caps of the settings.

        Those of a public inbox come in the order of their commits.
        """
        assert self._units is not None
        source = self.settings.source(unit.source)
        assert isinstance(source, SourceSettings)
        for file in self._units[unit.partition][1]:
            yield from _read(file, source, self.settings.mail)
            self._note_change(unit, file)
        yield from blobs(self._inboxes.get(unit.partition, ()), self.settings.mail.max_message_bytes)

    def _inbox_units(self, source: SourceSettings) -> Iterator[tuple[Unit, list[InboxMail]]]:
        """The units of a public inbox: mails by the month they were sent in, or by epoch.

        The month is that of the commit's author time, so a new commit changes the unit of its month alone.
        """
        pattern = self.settings.place(source)
        roots = (
            [pattern]
            if pattern.is_dir()
            else [r for r in matching_paths(pattern, self.settings.base) if r.is_dir()]
        )
        if not roots:
            raise SourceError(
                f"source {source.name}: no folder at {pattern}; mend `path` in the settings, or remove the "
                "source from them to remove its mail from the index"
            )
        grouped: dict[str, list[InboxMail]] = {}
        found = [
            mail
            for root in roots
            for mail in inbox_mails(root, valid_text(root.relative_to(fixed_folder(pattern))))
        ]
        youngest = _youngest_year(mail.month for mail in found)
        for mail in found:
            unit = mail.epoch if source.grain == "archive" else _period(mail.month, source.grain, youngest)
            grouped.setdefault(unit, []).append(mail)
        list_id = source.list_id or source.name
        for name, mails in sorted(grouped.items()):
            told = (part for mail in mails for part in (mail.place, mail.blob))
            yield Unit(source.name, name, list_id, parts_hash([source.kind, list_id, *told])), mails

    def files(self, unit: Unit) -> Iterable[RawFile]:
        """The files of a unit of documents in order of name, those that are not read with the reason."""
        assert self._units is not None
        for file in self._units[unit.partition][1]:
            yield _read_file(file, self.settings.documents)
            self._note_change(unit, file)

    def _note_change(self, unit: Unit, file: _File) -> None:
        """Give a unit another fingerprint if one of its files is no longer as it was found."""
        assert self._units is not None
        known = self._seen.get(str(file.path))
        if known and known[:4] != _state(file.path):
            now, files = self._units[unit.partition]
            changed = parts_hash([now.fingerprint, "changed while it was read", file.name])
            self._units[unit.partition] = replace(now, fingerprint=changed), files

    def conversation(self, unit: Unit) -> tuple[pa.Table, pa.Table]:
        """The tables `conversations` and `conversation_quarantine` of one window of a conversation."""
        assert self.chats
        return self.chats.window(unit)

    def _folders_of(
        self, source: DocumentSourceSettings, seen: dict[str, list[object]]
    ) -> Iterator[tuple[Unit, list[_File]]]:
        grouped: dict[str, list[_File]] = {}
        root = self.settings.place(source)
        for file in tree_files(source, root, self.settings.root):
            folder, slash, _ = file.name.partition("/")
            unit = "all" if source.grain == "whole" else unit_name(folder) if slash else "top"
            digest = file.fault or self._identify(file.path, seen)[0]
            grouped.setdefault(unit, []).append(_File(file.path, file.name, digest, file.fault))
        for unit, files in sorted(grouped.items()):
            named = (part for file in files for part in (file.name, file.digest))
            yield Unit(source.name, unit, None, parts_hash([source.kind, *named]), source.family), files

    def _units_of(
        self, source: SourceSettings, seen: dict[str, list[object]]
    ) -> Iterator[tuple[Unit, list[_File]]]:
        grouped: dict[tuple[str, str | None], list[_File]] = {}
        found: list[tuple[_File, str | None]] = []
        for path, name in _paths(source, self.settings):
            digest, month = self._identify(path, seen, dated=source.kind != "mbox")
            named = _DATED.fullmatch(_stem(name)) if source.kind == "mbox" else None
            found.append((_File(path, name, digest), f"{named['year']}-{named['month']}" if named else month))
        youngest = _youngest_year(month for _, month in found if month)
        for file, month in found:
            period = month and _period(month, source.grain, youngest)
            grouped.setdefault(_unit_of(source, file.name, period), []).append(file)
        taken: set[str] = set()
        for (period, list_id), files in sorted(
            grouped.items(), key=lambda item: (item[0][0], item[0][1] or "")
        ):
            unit = period if period not in taken else f"{period}%40{unit_name(list_id or '')}"
            taken.add(unit)
            files.sort(key=lambda f: f.name)
            fingerprint = parts_hash(
                [source.kind, source.dialect, list_id or "", *(p for f in files for p in (f.name, f.digest))]
            )
            yield Unit(source.name, unit, list_id, fingerprint), files

    def _identify(
        self, path: Path, seen: dict[str, list[object]], *, dated: bool = False
    ) -> tuple[str, str | None]:
        """Hash of the file's bytes, and if it is a `dated` single mail the month of its Date header."""
        state = _state(path)
        if isinstance(state, str):
            return state, None
        known = self._memory.get(str(path))
        if known and known[:4] == state:
            seen[str(path)] = known
            return str(known[4]), known[5] if isinstance(known[5], str) else None
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
                digest = blake2b(head, digest_size=16)
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            return f"unreadable: {error.strerror}", None
        month = _month(head) if dated else None
        seen[str(path)] = [*state, digest.hexdigest(), month]
        return digest.hexdigest(), month

    def _recall(self) -> dict[str, list[object]]:
        try:
            known = json.loads(self._memory_file.read_text())
        except (OSError, ValueError):
            return {}
        return (
            {k: v for k, v in known.items() if isinstance(v, list) and len(v) == 6}
            if isinstance(known, dict)
            else {}
        )

    def _remember(self, seen: dict[str, list[object]]) -> None:
        self._memory_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._memory_file.with_name(f"{self._memory_file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(seen, sort_keys=True))
        temporary.replace(self._memory_file)

    def sweep(self) -> int:
        """Delete what killed builds left of the memory, the number of files; no other build may be running."""
        left = list(self._memory_file.parent.glob(f"{glob.escape(self._memory_file.name)}.*"))
        for file in left:
            file.unlink(missing_ok=True)
        return len(left) + (self.chats.sweep() if self.chats else 0)


def _state(path: Path) -> list[object] | str:
    """Size, times and inode of a file, by which a change is noticed; the reason if it cannot be looked at."""
    try:
        stat = path.stat()
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _paths(source: SourceSettings, settings: Settings) -> list[tuple[Path, str]]:
    """The files of a source with their names inside it, sorted by name; nothing that Weft made.

    SourceError if there are none: a disk that is not mounted must not empty the index.
    """
    pattern = settings.place(source)
    roots = [pattern] if pattern.exists() else matching_paths(pattern, settings.base)
    found = [
        (path, name)
        for path, name in _found(source, pattern, [r for r in roots if r != settings.root])
        if not settings.is_generated(path)
    ]
    if all(path.is_dir() for path, _ in found):
        raise SourceError(
            f"source {source.name}: no {source.kind} file at {pattern}; mend `path` in the settings, or "
            "remove the source from them to remove its mail from the index"
        )
    return found


def _found(source: SourceSettings, pattern: Path, roots: list[Path]) -> list[tuple[Path, str]]:
    """The files below the matches of a source's path."""
    if source.kind == "mbox":
        folder = fixed_folder(pattern)
        return sorted(((p, valid_text(p.relative_to(folder))) for p in roots), key=lambda item: item[1])
    found: list[tuple[Path, str]] = []
    for root in roots:
        folders = [root / "cur", root / "new"] if source.kind == "maildir" else [root]
        if source.kind == "maildir" and not any(f.is_dir() for f in folders):
            raise SourceError(f"source {source.name}: {root} is no Maildir: it has neither cur/ nor new/")
        if source.kind == "eml" and root.is_file():
            found.append((root, valid_text(root.relative_to(fixed_folder(pattern)))))
            continue
        for folder in folders:
            inside = folder.rglob("*.eml") if source.kind == "eml" else folder.glob("*")
            found += [
                (p, valid_text(p.relative_to(root if len(roots) == 1 else fixed_folder(pattern))))
                for p in inside
                if p.is_file() and not p.name.startswith(".")
            ]
    return sorted(found, key=lambda item: item[1])


def _unit_of(source: SourceSettings, name: str, period: str | None) -> tuple[str, str | None]:
    """Name of the unit a file of a period belongs to, and the list it holds."""
    if source.kind != "mbox":
        unit = "all" if source.grain == "archive" else period or "undated"
        return unit, source.list_id or source.name
    stem = _stem(name)
    dated = _DATED.fullmatch(stem)
    before = dated["before"].strip("._-") if dated else ""
    list_id = source.list_id or before or source.name
    prefix = "" if source.list_id or not before else f"{before}."
    if period is None or source.grain == "archive":
        return unit_name(stem), list_id
    return unit_name(f"{prefix}{period}"), list_id


def _stem(name: str) -> str:
    """The last part of a file's name without the endings of archives."""
    stem = Path(name).name
    while Path(stem).suffix in (*_COMPRESSED, ".mbox", ".eml", ".mbx"):
        stem = stem.removesuffix(Path(stem).suffix)
    return stem


def _period(month: str, grain: str, youngest: str) -> str:
    """The year or the month (`YYYY-MM`) of a unit that holds mail of a month; `youngest` is the youngest year."""
    year = month.partition("-")[0]
    return year if grain == "year" or (grain == "auto" and year < youngest) else month


def _youngest_year(months: Iterable[str]) -> str:
    """The year of the last month; mail without a date has none."""
    return max((month for month in months if month[0].isdigit()), default="")[:4]


def _month(head: bytes) -> str | None:
    """Month of the Date header of a mail, as `YYYY-MM`; None where there is no readable one."""
    try:
        dates = read_headers(head).fields.get("date", [])
    except MIME_FAULTS:
        return None
    at = sent_date(dates[0]).at if dates else None
    return at.strftime("%Y-%m") if at else None


def _read(file: _File, source: SourceSettings, settings: MailSettings) -> Iterator[RawMail]:
    """The mails of one file; what cannot be read as mail comes with its fault."""
    if file.path.is_dir():
        yield RawMail(file.name, b"", fault="not_a_file: the path is a folder")
        return
    try:
        data, fault = _content(file.path, settings)
    except (_TooLargeError, OSError) as error:
        yield RawMail(file.name, b"", fault=_why_unreadable(error))
        return
    if not data and not fault:
        yield RawMail(file.name, b"", fault="empty_file: the file has no bytes")
    elif source.kind == "mbox":
        mails, refused = split_mbox(data, name=file.name, dialect=source.dialect)
        yield from mails
        yield from refused
    elif data:
        yield RawMail(file.name, data)
    if fault:
        yield RawMail(f"{file.name}:{len(data)}", b"", fault=fault)


def _read_file(file: _File, settings: DocumentSettings) -> RawFile:
    """One file of a tree with its bytes, or with the reason why it has none."""
    if file.fault:
        return RawFile(file.name, b"", file.fault)
    try:
        size = file.path.stat().st_size
        if size > settings.max_document_bytes:
            fault = (
                f"too_large: {size:,} bytes, documents.max_document_bytes is {settings.max_document_bytes:,}"
            )
            return RawFile(file.name, b"", fault)
        return RawFile(file.name, file.path.read_bytes(), None)
    except OSError as error:
        return RawFile(file.name, b"", _why_unreadable(error))


class _TooLargeError(Exception):
    """The decompressed content passes a cap."""


def _content(path: Path, settings: MailSettings) -> tuple[bytes, str | None]:
    """The bytes of a file, decompressed by its ending under the caps of size and ratio.

    A compressed file that breaks off gives what stands before the break, and the reason.
    """
    opener = _COMPRESSED.get(path.suffix)
    stored = path.stat().st_size
    if opener is None:
        if stored > settings.max_archive_bytes:
            raise _TooLargeError(f"too_large: {stored:,} bytes, the cap is {settings.max_archive_bytes:,}")
        return path.read_bytes(), None
    cap = min(settings.max_archive_bytes, max(_PLAUSIBLE_EXPANSION, stored * settings.max_compression_ratio))
    data = bytearray()
    with opener(path, "rb") as stream:
        try:
            while block := stream.read1(1 << 17):
                data += block
                if len(data) > cap:
                    raise _TooLargeError(
                        f"compression_bomb: {stored:,} bytes expand to more than {cap:,}; raise "
                        "mail.max_archive_bytes or mail.max_compression_ratio if the archive is sound"
                    )
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            return bytes(data), _why_unreadable(error)
    return bytes(data), None


def _why_unreadable(error: Exception) -> str:
    if isinstance(error, _TooLargeError):
        return str(error)
    if isinstance(error, PermissionError):
        return "unreadable: no permission to read the file"
    if isinstance(error, EOFError):
        return "truncated_archive: the compressed file ends before its end mark"
    if isinstance(error, zlib.error | lzma.LZMAError | gzip.BadGzipFile):
        return f"broken_archive: {error}"
    return f"unreadable: {error}"
