"""Chats on disk: the exports of a source, their chats, and the windows of these."""

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.protocols.sources import SourcePartition
from assets.stages.singly import FILE_FAULTS, reason_of_content
from dagster_project.config.settings import ConversationSourceSettings, Settings
from dagster_project.extensions import offered
from dagster_project.ledger.ledger import Ledger, Row
from dagster_project.sources import chat_exports
from dagster_project.sources.attached_files import AttachedFiles
from dagster_project.system import globs
from dagster_project.system.code import code_hashes
from transforms.conversations import windows as conversations
from transforms.conversations.chunks import conversation_attachments
from transforms.conversations.exports import Chat
from transforms.conversations.pseudonyms import Pseudonym, keyed_pseudonym
from transforms.errors import ChatFormatError, SettingsError, SourceError, UnwritableError
from transforms.formats.converted import Converted
from transforms.hashing import parts_hash
from transforms.schemas.conversations import CONVERSATION_MESSAGES
from transforms.schemas.mail import ATTACHMENTS

_READING = (
    "dagster_project.sources.chat_exports:ExportReader",
    "dagster_project.sources.chat_exports:FILE_PROGRAMS",
    "transforms.conversations.windows:windows",
)
"""The code that cuts exports into windows."""
_NO_MESSAGE = "no_messages: there is no message in it"
_NOTHING = {
    "mbox": "no_messages: no mail in it answers another; a source of the kind mbox reads each of them"
}
"""The reason for an export without a message, by its format, if it is not `_NO_MESSAGE`."""
UNREAD = "unread"
"""Partition of a source that lists its unreadable exports."""


class ChatFiles:
    """The chats of the configured sources, cut into windows.

    The ledger records the windows of unchanged exports, but no forgotten one: an export with such a
    window is read again. The chats read last are kept in memory.
    """

    def __init__(self, settings: Settings, ledger: Ledger):
        self.settings, self.ledger = settings, ledger
        self._digest: Callable[[Path], str] = lambda file: ""
        self.is_forgotten: Callable[[str], bool] = lambda partition: False
        self._exports: dict[str, list[chat_exports.Export]] = {}
        self._read: dict[str, list[Chat]] = {}
        self._listings: dict[str, Any] | None = None
        self._pseudonym: tuple[Pseudonym, str] | None = None

    def partitions(
        self, source: ConversationSourceSettings, digest: Callable[[Path], str]
    ) -> list[SourcePartition]:
        """A partition per window of the source's chats, and one of unreadable exports, if there are
        any.
        """
        self._digest = digest
        exports = self._exports[source.name] = list(self.exports_of_source(source, digest))
        if self._listings is None:
            self._listings = self.recorded()
        by_partition: dict[str, str] = {}
        faults: list[str] = []
        used: dict[str, Any] = {}
        for export in exports:
            listed = self._listings.get(export.digest)
            if listed is None or self.files(export).state(listed["files"]) != listed["state"]:
                self._read.pop(export.digest, None)
                listed = self._listed(export)
            used[export.digest] = listed
            for partition, fingerprint in listed["windows"]:
                others = by_partition.get(partition)
                by_partition[partition] = (
                    parts_hash([others, fingerprint]) if others else fingerprint
                )
            faults += [export.digest] if listed["faults"] else []
        if faults:
            by_partition[UNREAD] = parts_hash(faults)
        if {k: v for k, v in self._listings.items() if k in used} != used:
            self._listings |= used
            self._remember()
        return [
            SourcePartition(source.name, partition, None, print_, source.source_type)
            for partition, print_ in sorted(by_partition.items())
        ]

    def window(
        self, partition: SourcePartition, convert: Callable[..., Converted]
    ) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The tables `conversations`, `conversation_attachments` and `conversation_quarantine` of a
        partition.
        """
        rows, attached, faults = [], [], []
        for export in self._exports[partition.source]:
            listed = (self._listings or {}).get(export.digest, {"windows": [], "faults": 1})
            if partition.name == UNREAD:
                if listed["faults"]:
                    faults += [f for chat in self.chats(export) for f in chat.faults]
            elif partition.name in {name for name, _ in listed["windows"]}:
                # Under pseudonyms the names in a file are to be written nowhere.
                reader = partial(convert, keep=export.source.pseudonyms is not True)
                text = partial(self.files(export).text, convert=reader)
                for chat in self.chats(export):
                    for name, window in self.windows(chat, export.source):
                        if name == partition.name:
                            own = (chat, window, partition.source, partition.key)
                            rows.append(conversations.conversation_messages(*own))
                            attached.append(conversation_attachments(*own, text))
        return (
            pa.concat_tables(rows) if rows else CONVERSATION_MESSAGES.empty(),
            pa.concat_tables(attached) if attached else ATTACHMENTS.empty(),
            conversations.quarantine_rows(faults, partition.source, partition.key),
        )

    def exports_of_source(
        self, source: ConversationSourceSettings, digest: Callable[[Path], str]
    ) -> Iterator[chat_exports.Export]:
        """The exports of a source in order of name; SourceError if there is none."""
        pattern = self.settings.place(source)
        roots = (
            [pattern]
            if globs.is_there(pattern)
            else globs.matching_paths(pattern, self.settings.base)
        )
        is_around = globs.is_folder(pattern) and not chat_exports.is_slack(pattern)
        base = pattern if is_around else globs.fixed_folder(pattern)
        places = (export for root in roots for export in chat_exports.exports_at(root, source))
        named = (
            (globs.valid_text(p.relative_to(base)), format_, files) for p, format_, files in places
        )
        own = (export for export in named if not any(map(self.settings.is_generated, export[2])))
        exports = sorted(own, key=itemgetter(0))
        if not exports:
            raise SourceError(
                f"source {source.name}: no chat at {pattern}; mend `path` in the settings, or remove the source "
                "from them to remove its conversations from the index"
            )
        how = source.model_dump_json(exclude={"path", "fetch"})
        key = self._pseudonyms()[1] if source.pseudonyms is True else "names"
        (code,) = code_hashes([(*_READING, *offered("chats").values())])
        version = f"{code}-{self.settings.conversations.reading_digest()}-{key}"
        chats = chat_exports.chat_names([(name, format_) for name, format_, _ in exports])
        for chat, (name, format_, files) in zip(chats, exports, strict=True):
            parts = (
                part for f in files for part in (globs.valid_text(f.relative_to(base)), digest(f))
            )
            yield chat_exports.Export(
                source,
                name,
                chat,
                format_,
                files,
                parts_hash([version, how, name, chat, format_, *parts]),
            )

    def _listed(self, export: chat_exports.Export) -> dict[str, Any]:
        chats = self.chats(export)
        try:
            windows = [
                [name, parts_hash([w.fingerprint, chat.name, chat.title])]
                for chat in chats
                for name, w in self.windows(chat, export.source)
            ]
        except FILE_FAULTS as fault:
            chats, windows = [_unread(export, fault)], []
            self._read[export.digest] = chats
        files = self.files(export)
        named_files = (
            f for chat in chats for entry in chat.entries for f in entry.files if files.is_read(f)
        )
        places = sorted({place for file in named_files for place in file.places})
        faults = sum(len(chat.faults) for chat in chats)
        return {"windows": windows, "faults": faults, "files": places, "state": files.state(places)}

    def files(self, export: chat_exports.Export) -> AttachedFiles:
        """The files that lie with an export."""
        return AttachedFiles(export, self.settings.documents, self._digest)

    def windows(
        self, chat: Chat, source: ConversationSourceSettings
    ) -> Iterator[tuple[str, conversations.Window]]:
        """The windows of a chat, each after the name of its partition: that of the chat, unless it
        is the source's own, and the key of the window.
        """
        stem = globs.partition_name(chat.name)
        prefix = "" if stem == source.name else f"{stem}."
        for window in conversations.windows(chat, source.windows, source.timezone):
            yield f"{prefix}{window.key}", window

    def chats(self, export: chat_exports.Export) -> list[Chat]:
        """The chats of an export as they may be stored; one that is unreadable, or has no message,
        is a chat of faults.
        """
        if export.digest not in self._read:
            if len(self._read) > 8:
                self._read.pop(next(iter(self._read)))
            pseudonym = self._pseudonyms()[0] if export.source.pseudonyms is True else None
            settings, files = self.settings, self.files(export)
            reader = chat_exports.ExportReader(
                settings.conversations, settings.mail, settings.threads
            )
            try:
                chats = [
                    conversations.masked_chat(_with_files(chat, files), pseudonym)
                    for chat in reader.chats(export)
                ]
                if not any(chat.entries or chat.faults for chat in chats):
                    raise ChatFormatError(_NOTHING.get(export.format, _NO_MESSAGE))
                self._read[export.digest] = chats
            except FILE_FAULTS as fault:
                self._read[export.digest] = [_unread(export, fault)]
        return self._read[export.digest]

    def _pseudonyms(self) -> tuple[Pseudonym, str]:
        """The pseudonym of a name, and the id of its key."""
        if self._pseudonym is None:
            key = pseudonym_key(self.settings.pseudonym_key_file, self.settings.root)
            self._pseudonym = keyed_pseudonym(key), parts_hash([b"key", key])[:16]
        return self._pseudonym

    def _remember(self) -> None:
        current = {e.digest: e.source.name for exports in self._exports.values() for e in exports}
        configured = {
            s.name for s in self.settings.sources if isinstance(s, ConversationSourceSettings)
        }
        assert self._listings is not None
        if configured <= set(self._exports):
            self._listings = {k: v for k, v in self._listings.items() if k in current}
        stored = {}
        for digest, listed in self._listings.items():
            own = [
                w
                for w in listed["windows"]
                if not self.is_forgotten(f"{current.get(digest)}/{w[0]}")
            ]
            is_whole = len(own) == len(listed["windows"])
            stored[digest] = (
                listed if is_whole else {**listed, "windows": own, "files": [], "state": ""}
            )
        now: dict[Row, Row] = {
            (digest,): (json.dumps(listed, sort_keys=True),) for digest, listed in stored.items()
        }
        self.ledger.change("exports", self.ledger.rows("exports"), now)

    def recorded(self) -> dict[str, Any]:
        """By the digest of an export the recorded windows, files and faults of its chats."""
        rows = self.ledger.rows("exports")
        return {str(digest): json.loads(str(listing)) for (digest,), (listing,) in rows.items()}

    def exports_of(self, path: Path) -> list[chat_exports.Export]:
        """The exports of configured sources that lie at or below `path`, or that a file there is a
        part of.
        """
        exports = []
        for source in self.settings.sources:
            if isinstance(source, ConversationSourceSettings):
                with contextlib.suppress(SourceError):
                    exports += [
                        export
                        for export in self.exports_of_source(source, lambda file: "")
                        if any(
                            globs.real_path(f).is_relative_to(globs.real_path(path))
                            for f in export.files
                        )
                    ]
        return exports

    def window_ids(self, exports: Iterable[chat_exports.Export]) -> list[str]:
        """The windows of these exports, as `conversations` names them."""
        return [
            conversations.window_id(f"{export.source.name}:{chat.name}", window.key)
            for export in exports
            for chat in self.chats(export)
            for window in conversations.windows(chat, export.source.windows, export.source.timezone)
        ]


def _unread(export: chat_exports.Export, fault: BaseException) -> Chat:
    """A chat in place of the chats of an export that cannot be read; raises faults of disk, network
    and settings.
    """
    if isinstance(fault, chat_exports.BROKEN):
        return chat_exports.unread(export.name, fault)
    return chat_exports.unread(export.name, ChatFormatError(reason_of_content(fault)))


def _with_files(chat: Chat, files: AttachedFiles) -> Chat:
    """`chat` with the places where the files that it names were found."""
    entries = [
        e._replace(files=tuple(map(files.located, e.files))) if e.files else e for e in chat.entries
    ]
    return replace(chat, entries=entries)


VARIABLE = "WEFT_PSEUDONYM_KEY"
_LEAST_BYTES = 16


def pseudonym_key(path: Path, data: Path) -> bytes:
    """The key: `WEFT_PSEUDONYM_KEY`, else the content of the file at `path`, which is made if there
    is none.

    A new file is readable by its owner alone and is never written over. SettingsError if the file
    is in a folder of generated files below `data`, if others may read it, or if the key is too
    short to keep a secret.
    """
    key_text = os.environ.get(VARIABLE)
    if key_text is not None:
        return _long_enough(key_text.encode(), f"the key in {VARIABLE}")
    for folder in ("lake", "index", "cache", "dagster"):
        if path.is_relative_to(data / folder):
            raise SettingsError(
                f"the key of pseudonyms {path} is among the data, in {folder}/; move `storage.root`, or set {VARIABLE}"
            )
    try:
        _make(path)
        if path.stat().st_mode & 0o077:
            raise SettingsError(
                f"{path} can be read by others: chmod 600 it, or set {VARIABLE} instead"
            )
        return _long_enough(path.read_bytes().strip(), str(path))
    except OSError as error:
        fault = UnwritableError if error.errno in globs.NO_WRITING else SettingsError
        raise fault(
            f"the key of pseudonyms at {path} cannot be used ({error.strerror}): mend the file, or set {VARIABLE}"
        ) from error


def _make(path: Path) -> None:
    """Write a new key unless there is one; complete under its name, whoever else makes one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(secrets.token_hex(32) + "\n")
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _long_enough(key: bytes, place: str) -> bytes:
    if len(key) < _LEAST_BYTES:
        raise SettingsError(f"{place} has {len(key)} bytes; a key needs at least {_LEAST_BYTES}")
    return key
