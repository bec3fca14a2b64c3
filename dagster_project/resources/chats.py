"""Chats on disk: which exports a source has, what they hold, and the windows they make."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from assets.protocols import Unit
from dagster_project.resources.places import fixed_folder, matching_paths, unit_name, valid_text
from dagster_project.resources.pseudonym_key import pseudonym_key
from dagster_project.settings import ConversationSourceSettings, Settings
from transforms import conversations, mail, threads
from transforms.chats import Chat, Entry, Fault, read_discord, read_slack, read_table
from transforms.errors import ChatFormatError, SourceError
from transforms.hashing import parts_hash, text_hash
from transforms.pseudonyms import Pseudonym, keyed_pseudonym
from transforms.schemas import CONVERSATION_MESSAGES
from transforms.settings import ConversationSettings, MailSettings, ThreadSettings
from transforms.whatsapp import read_whatsapp

UNREAD = "unread"
"""Unit of a source that lists what of its exports could not be read."""

_TABLES = (".parquet", ".jsonl", ".ndjson", ".csv")
_SUFFIXES = (*_TABLES, ".txt", ".zip", ".json", ".mbox")
_PREFIXES = ("WhatsApp Chat with ", "WhatsApp Chat - ", "WhatsApp-Chat mit ")
_PLAUSIBLE_EXPANSION = 16 << 20
_UNIT_BYTES = 150


@dataclass(frozen=True)
class _Export:
    """One export: its name in the source, its format, its files, and a hash of all that decides what is read."""

    source: ConversationSourceSettings
    name: str
    format: str
    files: tuple[Path, ...]
    digest: str


class ChatFiles:
    """The chats of the configured sources, cut into windows.

    What windows an unchanged export has is remembered in `memory`, a file that may be deleted at
    any time; the chats read last are kept in memory.
    """

    def __init__(self, settings: Settings, memory: Path):
        self.settings, self._memory_file = settings, memory
        self._exports: dict[str, list[_Export]] = {}
        self._read: dict[str, list[Chat]] = {}
        self._known: dict[str, Any] | None = None
        self._pseudonym: tuple[Pseudonym, str] | None = None

    def units(self, source: ConversationSourceSettings, digest: Callable[[Path], str]) -> list[Unit]:
        """A unit per window of the source's chats, and one of what could not be read, if there is any."""
        exports = self._exports[source.name] = list(self._found(source, digest))
        if self._known is None:
            self._known = self._recall()
        made: dict[str, str] = {}
        faults: list[str] = []
        used: dict[str, Any] = {}
        for export in exports:
            listed = self._known.get(export.digest)
            if listed is None:
                listed = self._listed(export)
            used[export.digest] = listed
            for unit, fingerprint in listed["windows"]:
                made[unit] = parts_hash([made[unit], fingerprint]) if unit in made else fingerprint
            faults += [export.digest] if listed["faults"] else []
        if faults:
            made[UNREAD] = parts_hash(faults)
        if {k: v for k, v in self._known.items() if k in used} != used:
            self._known |= used
            self._remember()
        return [Unit(source.name, unit, None, print_, source.family) for unit, print_ in sorted(made.items())]

    def window(self, unit: Unit) -> tuple[pa.Table, pa.Table]:
        """The tables `conversations` and `conversation_quarantine` of a unit."""
        rows, faults = [], []
        for export in self._exports[unit.source]:
            listed = (self._known or {}).get(export.digest, {"windows": [], "faults": 1})
            if unit.unit == UNREAD:
                if listed["faults"]:
                    faults += [f for chat in self._chats(export) for f in chat.faults]
            elif unit.unit in {name for name, _ in listed["windows"]}:
                rows += [
                    conversations.conversation_messages(chat, window, unit.source, unit.unit)
                    for chat in self._chats(export)
                    for name, window in self._windows(chat, export.source)
                    if name == unit.unit
                ]
        table = pa.concat_tables(rows) if rows else CONVERSATION_MESSAGES.empty()
        return table, conversations.quarantined(faults, unit.source, unit.unit)

    def _found(self, source: ConversationSourceSettings, digest: Callable[[Path], str]) -> Iterator[_Export]:
        """The exports of a source in order of name; SourceError if there is none."""
        pattern = self.settings.base / Path(source.path).expanduser()
        roots = [pattern] if pattern.exists() else matching_paths(pattern, self.settings.base)
        base = pattern if pattern.is_dir() and not _is_slack(pattern) else fixed_folder(pattern)
        found = sorted(
            (
                (valid_text(p.relative_to(base)), format_, files)
                for r in roots
                for p, format_, files in _exports(r, source)
            ),
            key=lambda item: item[0],
        )
        found = [f for f in found if not any(p.is_relative_to(self.settings.root) for p in f[2])]
        if not found:
            raise SourceError(
                f"source {source.name}: no chat at {pattern}; mend `path` in the settings, or remove the source "
                "from them to remove its conversations from the index"
            )
        how = source.model_dump_json(exclude={"path"})
        version = f"{conversations.VERSION}-{self.settings.conversations.parts()[0]}-{self._key_id(source)}"
        for name, format_, files in found:
            parts = (part for f in files for part in (valid_text(f.relative_to(base)), digest(f)))
            yield _Export(source, name, format_, files, parts_hash([version, how, name, format_, *parts]))

    def _listed(self, export: _Export) -> dict[str, Any]:
        chats = self._chats(export)
        windows = [
            [name, window.fingerprint]
            for chat in chats
            for name, window in self._windows(chat, export.source)
        ]
        return {"windows": windows, "faults": sum(len(chat.faults) for chat in chats)}

    def _windows(
        self, chat: Chat, source: ConversationSourceSettings
    ) -> Iterator[tuple[str, conversations.Window]]:
        stem = unit_name(chat.name)
        if len(stem) > _UNIT_BYTES:
            stem = f"{stem[: _UNIT_BYTES - 20].rstrip('%')}-{text_hash(chat.name)[:16]}"
        for window in conversations.windows(chat, source.windows, source.timezone):
            yield f"{stem}.{window.key}", window

    def _chats(self, export: _Export) -> list[Chat]:
        """The chats of an export as they may be stored; what cannot be read is a chat of faults."""
        if export.digest not in self._read:
            if len(self._read) > 8:
                self._read.pop(next(iter(self._read)))
            pseudonym = self._named(export.source) if export.source.pseudonyms else None
            try:
                chats = list(
                    _read(export, self.settings.conversations, self.settings.mail, self.settings.threads)
                )
            except (ChatFormatError, OSError, pa.ArrowException) as error:
                reason = (
                    str(error)
                    if isinstance(error, ChatFormatError)
                    else f"unreadable: {str(error).splitlines()[0]}"
                )
                chats = [Chat(export.name, [], faults=[Fault(export.name, reason, b"")])]
            self._read[export.digest] = [conversations.told(chat, pseudonym) for chat in chats]
        return self._read[export.digest]

    def _named(self, source: ConversationSourceSettings) -> Pseudonym:
        if self._pseudonym is None:
            key = pseudonym_key(self.settings)
            self._pseudonym = keyed_pseudonym(key), parts_hash([b"key", key])[:16]
        return self._pseudonym[0]

    def _key_id(self, source: ConversationSourceSettings) -> str:
        if not source.pseudonyms:
            return "names"
        self._named(source)
        assert self._pseudonym
        return self._pseudonym[1]

    def _recall(self) -> dict[str, Any]:
        try:
            known = json.loads(self._memory_file.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self) -> None:
        self._memory_file.parent.mkdir(parents=True, exist_ok=True)
        current = {e.digest for exports in self._exports.values() for e in exports}
        configured = {s.name for s in self.settings.sources if isinstance(s, ConversationSourceSettings)}
        assert self._known is not None
        if configured <= set(self._exports):
            self._known = {k: v for k, v in self._known.items() if k in current}
        temporary = self._memory_file.with_name(f"{self._memory_file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self._known, sort_keys=True))
        temporary.replace(self._memory_file)

    def window_ids(self, path: Path) -> list[str]:
        """The windows, as `conversations` names them, of an export that belongs to a configured source."""
        found = []
        for source in self.settings.sources:
            if isinstance(source, ConversationSourceSettings):
                try:
                    exports = list(self._found(source, lambda file: ""))
                except SourceError:
                    continue
                for export in exports:
                    if any(f.resolve().is_relative_to(path.resolve()) for f in export.files):
                        found += [
                            conversations.window_id(f"{source.name}:{chat.name}", window.key)
                            for chat in self._chats(export)
                            for window in conversations.windows(chat, source.windows, source.timezone)
                        ]
        return found

    def sweep(self) -> None:
        """Delete what killed builds left of the memory; no other build may be running."""
        for left in self._memory_file.parent.glob(f"{self._memory_file.name}.*"):
            left.unlink(missing_ok=True)


def read_chats(path: Path, settings: ConversationSettings, timezone: str = "UTC") -> list[Chat]:
    """The chats of one export named by a person; ChatFormatError if it is none."""
    source = ConversationSourceSettings(name="given", kind="conversation", path=str(path), timezone=timezone)
    return [
        chat
        for _, format_, files in _exports(path, source)
        for chat in _read(
            _Export(source, path.name, format_, files, ""), settings, MailSettings(), ThreadSettings()
        )
    ]


def _is_slack(folder: Path) -> bool:
    return folder.is_dir() and any((folder / n).is_file() for n in ("users.json", "channels.json"))


def _exports(root: Path, source: ConversationSourceSettings) -> Iterator[tuple[Path, str, tuple[Path, ...]]]:
    """Place, format and files of each export at or below `root`; what only accompanies exports is none."""
    if source.format == "slack" or (source.format == "auto" and _is_slack(root)):
        users = tuple(p for p in [root / "users.json"] if p.is_file())
        for channel in sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
            days = tuple(sorted(channel.glob("*.json")))
            if days:
                yield channel, "slack", (*users, *days)
        return
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    for file in files:
        suffix = file.suffix.lower()
        if any(part.startswith(".") for part in file.relative_to(root.parent).parts):
            continue
        if source.format != "auto":
            yield file, source.format, (file,)
        elif suffix in _SUFFIXES or root.is_file():
            by_suffix = {".json": "discord", ".mbox": "mbox"} | dict.fromkeys(_TABLES, "table")
            yield file, by_suffix.get(suffix, "whatsapp"), (file,)


def _read(
    export: _Export,
    settings: ConversationSettings,
    mail_settings: MailSettings,
    thread_settings: ThreadSettings,
) -> Iterator[Chat]:
    if export.format == "slack":
        yield _slack(export, settings)
        return
    (file,) = export.files
    data = _bytes(file, settings)
    place = PurePosixPath(export.name)
    name = str(place.with_suffix("")) if place.suffix.lower() in _SUFFIXES else str(place)
    if export.format == "whatsapp":
        title = next((name.removeprefix(p) for p in _PREFIXES if name.startswith(p)), name)
        text = _decoded(_from_zip(data, settings) if file.suffix.lower() == ".zip" else data)
        chat = read_whatsapp(text, title, export.source.timezone, export.source.date_order)
        yield Chat(title, chat.entries, chat.names, chat.faults)
    elif export.format == "discord":
        yield read_discord(data, name)
    elif export.format == "mbox":
        yield from _threads(data, name, mail_settings, thread_settings)
    else:
        table, faults = _table(data, file.suffix.lower(), export.name)
        chat = read_table(table, name, export.source.timezone)
        entries = sorted(chat.entries, key=lambda e: e.at)
        yield Chat(name, entries, chat.names, [*faults, *chat.faults])


def _bytes(file: Path, settings: ConversationSettings) -> bytes:
    size = file.stat().st_size
    if size > settings.max_chat_bytes:
        raise ChatFormatError(
            f"too_large: {size:,} bytes, conversations.max_chat_bytes is {settings.max_chat_bytes:,}"
        )
    return file.read_bytes()


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChatFormatError(f"no_text: byte {error.start} is no UTF-8, which all exports are in") from error


def _from_zip(data: bytes, settings: ConversationSettings) -> bytes:
    """The chat's text in a zipped export; nothing is ever unpacked to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            for member in members:
                parts = PurePosixPath(member.filename.replace("\\", "/")).parts
                if ".." in parts or member.filename.startswith(("/", "\\")) or ":" in member.filename[:3]:
                    raise ChatFormatError(
                        f"path_traversal: the archive names a place outside itself, {member.filename!r}"
                    )
            texts = [m for m in members if m.filename.lower().endswith(".txt") and not m.is_dir()]
            texts.sort(
                key=lambda m: (not m.filename.endswith("_chat.txt"), "WhatsApp" not in m.filename, m.filename)
            )
            if not texts:
                raise ChatFormatError("no_chat: the archive holds no .txt file")
            if texts[0].flag_bits & 1:
                raise ChatFormatError("encrypted: the archive needs a password")
            cap = min(
                settings.max_chat_bytes,
                max(_PLAUSIBLE_EXPANSION, texts[0].compress_size * settings.max_compression_ratio),
            )
            with archive.open(texts[0]) as stream:
                content = stream.read(cap + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise ChatFormatError(f"no_zip: {error}") from error
    if len(content) > cap:
        raise ChatFormatError(f"too_large: the archive unpacks to more than {cap:,} bytes")
    return content


def _slack(export: _Export, settings: ConversationSettings) -> Chat:
    users: list[Any] = []
    days = []
    for file in export.files:
        data = _bytes(file, settings)
        if file.name == "users.json" and file == export.files[0]:
            try:
                users = json.loads(data)
            except ValueError as error:
                raise ChatFormatError("no_json: users.json is no JSON") from error
        else:
            days.append((file.name, data))
    return read_slack(days, users if isinstance(users, list) else [], export.name)


def _threads(
    data: bytes, name: str, settings: MailSettings, thread_settings: ThreadSettings
) -> Iterator[Chat]:
    """Each discussion of two and more mails in an mbox file as a chat."""
    mails, refused = mail.split_mbox(data, name=name)
    made = mail.read_mail([*mails, *refused], source="mbox", unit=name, list_id=name, settings=settings)
    frame = pl.from_arrow(made.messages)
    assert isinstance(frame, pl.DataFrame)
    frame = frame.unique("message_id", keep="first", maintain_order=True)
    columns = ["source", "unit", "message_id", "in_reply_to", "refs", "subject", "from_addr", "effective_at"]
    lists = frame.select("message_id", list_id=pl.lit(name)).to_arrow()
    built = threads.build_threads(frame.select(columns).to_arrow(), lists, thread_settings)
    place = pl.from_arrow(built.tree.select(["message_id", "thread_id"]))
    assert isinstance(place, pl.DataFrame)
    joined = frame.join(place, on="message_id").filter(pl.col("effective_at").is_not_null())
    people = frozenset(p for c in ("from_name", "from_addr") for p in frame.get_column(c).to_list() if p)
    for (thread,), rows in joined.sort("effective_at", "message_id").group_by(
        "thread_id", maintain_order=True
    ):
        if len(rows) > 1:
            entries = [
                Entry(r["effective_at"], r["from_name"] or r["from_addr"] or "unknown", r["body"], "message")
                for r in rows.iter_rows(named=True)
            ]
            yield Chat(f"{name}: {rows['subject'][0]} {str(thread)[:8]}", entries, people)
    bad = [Fault(r["place"], r["reason"], b"") for r in made.quarantine.to_pylist()]
    if bad:
        yield Chat(name, [], faults=bad)


def _table(data: bytes, suffix: str, name: str) -> tuple[pa.Table, list[Fault]]:
    if suffix == ".parquet":
        return pq.read_table(io.BytesIO(data)), []
    if suffix == ".csv":
        parse = pa_csv.ParseOptions(newlines_in_values=True)
        names = pa_csv.open_csv(io.BytesIO(data), parse_options=parse).schema.names
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        )
        return pa_csv.read_csv(io.BytesIO(data), parse_options=parse, convert_options=convert), []
    return _json_lines(data, name)


def _json_lines(data: bytes, name: str) -> tuple[pa.Table, list[Fault]]:
    rows: list[dict[str, Any]] = []
    faults = []
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            faults.append(Fault(f"{name}:{number}", "no_json: the line is no JSON object", line))
    columns: Sequence[str] = sorted({k for r in rows for k in r})
    return pa.table({c: [_plain(r.get(c)) for r in rows] for c in columns}), faults


def _plain(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
