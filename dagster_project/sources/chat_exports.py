"""Exports of chat programs on disk: which there are at a place, and the chats in each of them."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dagster_project.config.settings import ConversationSourceSettings
from dagster_project.extensions import load, offered
from dagster_project.sources.reading_files import TooLargeError, bounded
from dagster_project.sources.zip_exports import ZippedExport
from dagster_project.system.globs import is_file, is_folder
from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    decoded,
    json_lines,
    json_list,
    read_table,
)
from transforms.conversations.programs import PROGRAMS, Program, ProgramOfFolders, program_of
from transforms.conversations.slack import read_slack
from transforms.conversations.whatsapp import looks_like_whatsapp, read_whatsapp
from transforms.errors import ChatFormatError
from transforms.mail import messages
from transforms.mail.threads import threads
from transforms.settings.conversations import ConversationSettings
from transforms.settings.mail import MailSettings, ThreadSettings

_TABLES = (".parquet", ".jsonl", ".ndjson", ".csv")
_BY_CONTENT = "by content"
_ADDED = {name: load(place) for name, place in offered("chats").items()}
_IN_FOLDERS = {
    name: program for name, program in _ADDED.items() if isinstance(program, ProgramOfFolders)
}
FILE_PROGRAMS = PROGRAMS | {
    name: program for name, program in _ADDED.items() if isinstance(program, Program)
}
"""Programs whose export is one file, by the name of the format."""
_FORMATS = {
    **{suffix: _BY_CONTENT for program in FILE_PROGRAMS.values() for suffix in program.suffixes},
    **dict.fromkeys(_TABLES, "table"),
    ".txt": "whatsapp",
    ".json": "discord",
    ".mbox": "mbox",
}
_SUFFIXES = (*_FORMATS, ".zip")
_PREFIXES = ("WhatsApp Chat with ", "WhatsApp Chat - ", "WhatsApp-Chat mit ")
_SLACK_FILES = ("users.json", "channels.json")
_CLOSED = "closed"
_HEAD = 1 << 12
"""Bytes by which a file is recognised."""
BROKEN = (
    ChatFormatError,
    OSError,
    pa.ArrowException,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""Exceptions of readers of chats and the libraries below them for broken files."""


@dataclass(frozen=True)
class Export:
    """One export: its name in the source, its format, its files, and a hash of all that decides the
    reading.

    `chat` names its chat, or begins the names of its chats; no other export of the source has it.
    `format` is one of those that a source can name, or `zip`, whose content tells its format.
    """

    source: ConversationSourceSettings
    name: str
    chat: str
    format: str
    files: tuple[Path, ...]
    digest: str


def is_named_as_export(path: Path) -> bool:
    """True for a folder and for a file whose suffix is one of exports alone; `.txt` is one of
    texts, too.
    """
    suffix = path.suffix.lower()
    return is_folder(path) or (suffix in _SUFFIXES and suffix != ".txt")


def is_slack(folder: Path) -> bool:
    """True for the folder of a Slack export."""
    return any(is_file(folder / n) for n in _SLACK_FILES)


def program_of_folder(folder: Path, format_: str = "auto") -> str | None:
    """The format of the export that a folder is, of those of one program, or of all; None if it is
    not such an export.
    """
    programs = [name for name in _IN_FOLDERS if format_ in ("auto", name)]
    return next((name for name in programs if len(_members(folder, _IN_FOLDERS[name])) > 1), None)


def _members(folder: Path, program: ProgramOfFolders) -> tuple[Path, ...]:
    """The files of an export that is a folder; none if its mark is not there."""
    mark = folder / program.mark
    if not is_file(mark):
        return ()
    return (mark, *sorted(p for p in folder.iterdir() if re.fullmatch(program.others, p.name)))


def exports_at(
    top: Path, source: ConversationSourceSettings
) -> Iterator[tuple[Path, str, tuple[Path, ...]]]:
    """Place, format and files of each export at or below `top`, without files that only accompany
    exports.

    A folder that cannot be listed is an export of the format `closed`.
    """
    places = [top]
    while places:
        place = places.pop()
        if not is_folder(place):
            suffix = place.suffix.lower()
            format_ = _FORMATS.get(suffix, "whatsapp") if source.format == "auto" else source.format
            yield place, "zip" if suffix == ".zip" else format_, (place,)
            continue
        try:
            inside = sorted(p for p in place.iterdir() if not p.name.startswith("."))
        except OSError:
            yield place, _CLOSED, (place,)
            continue
        if program := program_of_folder(place, source.format):
            yield place, program, _members(place, _IN_FOLDERS[program])
            continue
        if is_slack(place) if source.format == "auto" else source.format == "slack":
            channels = list(_slack_channels(place, inside))
            yield from channels
            if channels or source.format == "slack":
                continue
        beside = _beside({path.name for path in inside})
        for path in reversed(inside):
            is_known = (
                is_folder(path) or source.format != "auto" or path.suffix.lower() in _SUFFIXES
            )
            if is_known and path.name not in beside and not (path.is_symlink() and is_folder(path)):
                places.append(path)


def _beside(names: Collection[str]) -> set[str]:
    """The names in a folder with these that accompany an export."""
    return {name for p in FILE_PROGRAMS.values() if p.mark in names for name in p.beside} | {
        f"{name}_Files" for name in names
    }


def _slack_channels(
    root: Path, inside: Sequence[Path]
) -> Iterator[tuple[Path, str, tuple[Path, ...]]]:
    """The channels of a Slack export that lie in its folder, and the zips there."""
    users = tuple(p for p in inside if p.name == "users.json")
    for place in inside:
        try:
            inside = sorted(place.iterdir()) if is_folder(place) else ()
            days = tuple(p for p in inside if p.name.endswith(".json"))
        except OSError:
            yield place, _CLOSED, (place,)
            continue
        if days:
            yield place, "slack", (*users, *days)
        elif place.suffix.lower() == ".zip":
            yield place, "zip", (place,)


def chat_names(exports: Sequence[tuple[str, str]]) -> list[str]:
    """For the name and format of each export of a source a name for its chats that no other one
    has.

    It is the name without the ending, and without the words that WhatsApp puts before it. Exports
    that differ in the ending alone keep it, and so does a zip beside the folder that was unpacked
    from it.
    """
    plain = [_plain_name(name) for name, _ in exports]
    count, folders = Counter(plain), {str(p) for name in plain for p in PurePosixPath(name).parents}
    return [
        name if count[short] > 1 or (format_ == "zip" and short in folders) else short
        for (name, format_), short in zip(exports, plain, strict=True)
    ]


class ExportReader:
    """Reads exports under the caps of its settings."""

    def __init__(self, settings: ConversationSettings, mail: MailSettings, threads: ThreadSettings):
        self.settings, self.mail, self.threads = settings, mail, threads

    def chats(self, export: Export) -> Iterator[Chat]:
        """The chats of an export; one of BROKEN if it cannot be read at all."""
        if export.format == "zip":
            yield from self._zipped(export)
        elif export.format == "slack":
            yield self._slack(
                export.chat, [(file.name, partial(self._bytes, file)) for file in export.files]
            )
        elif export.format in _IN_FOLDERS and len(export.files) > 1:
            mark, *files = ((file.name, self._bytes(file)) for file in export.files)
            for chat in _IN_FOLDERS[export.format].read(mark[1], files, export.chat):
                yield replace(chat, name=chat.name.removeprefix("./"))
        elif export.format == _CLOSED:
            list(export.files[0].iterdir())
            raise ChatFormatError(
                "unreadable: the folder could not be listed when it was looked for chats"
            )
        else:
            (file,) = export.files
            yield from self._file(
                export, export.format, export.chat, self._bytes(file), file.suffix
            )

    def _file(
        self, export: Export, format_: str, name: str, data: bytes, suffix: str
    ) -> Iterator[Chat]:
        """The chats of one file, whose names are or begin with `name`."""
        source, program = export.source, format_ if format_ in FILE_PROGRAMS else None
        if source.format == "auto" and not (
            format_ == "whatsapp" and looks_like_whatsapp(decoded(data))
        ):
            known = program_of(FILE_PROGRAMS, data[:_HEAD], suffix.lower())
            program = known or (program if b'"messages"' in data else None)
        if program:
            yield from FILE_PROGRAMS[program].read(data, name, source.timezone)
        elif format_ in (_BY_CONTENT, "discord"):
            raise ChatFormatError(
                f"no_chat: the file is no export of {', '.join(FILE_PROGRAMS)}; `format` of the source can name its program"
            )
        elif format_ == "whatsapp":
            yield read_whatsapp(decoded(data), name, source.timezone, source.date_order)
        elif format_ == "mbox":
            yield from _threads(data, name, self.mail, self.threads)
        elif format_ == "table":
            table, faults = _table(data, suffix.lower(), name + suffix)
            chat = read_table(table, name, source.timezone)
            entries = sorted(chat.entries, key=lambda e: e.at)
            yield replace(chat, entries=entries, faults=[*faults, *chat.faults])
        else:
            files = [_IN_FOLDERS[format_].mark] if format_ in _IN_FOLDERS else _SLACK_FILES
            raise ChatFormatError(f"no_{format_}: its export is a folder with {' or '.join(files)}")

    def _zipped(self, export: Export) -> Iterator[Chat]:
        """The chats of a zip: the text of a WhatsApp export, the channels of a Slack one, or the
        files one by one.
        """
        with ZippedExport(export.files[0], self.settings.max_chat_bytes) as archive:
            if archive.repeated:
                why = "duplicate: the archive has several files of that name; the first is read"
                yield Chat(
                    export.chat,
                    [],
                    faults=[Fault(f"{export.chat}/{n}", why, b"") for n in archive.repeated],
                )
            format_, names = _contents(archive.names, export.source.format)
            if format_ == "slack":
                yield from self._zipped_slack(export, archive, names)
            elif format_ == "whatsapp":
                yield from self._file(export, format_, export.chat, archive.read(names[0]), ".txt")
            else:
                for name in names:
                    place = PurePosixPath(export.chat, name)
                    chat, suffix = str(place.with_suffix("")), place.suffix
                    try:
                        data = archive.read(name)
                        yield from self._file(export, _FORMATS[suffix.lower()], chat, data, suffix)
                    except BROKEN as error:
                        yield unread(str(place), error)

    def _zipped_slack(
        self, export: Export, archive: ZippedExport, names: Sequence[str]
    ) -> Iterator[Chat]:
        users = [n for n in names if PurePosixPath(n).name == "users.json"]
        days = [n for n in names if PurePosixPath(n).name not in _SLACK_FILES]
        for channel, listed in groupby(days, key=lambda n: PurePosixPath(n).parent.name):
            members = [(PurePosixPath(n).name, partial(archive.read, n)) for n in (*users, *listed)]
            yield self._slack(f"{export.chat}/{channel}", members)

    def _slack(self, name: str, files: Sequence[tuple[str, Callable[[], bytes]]]) -> Chat:
        """A channel of a Slack export: `users.json`, where there is one, and its days; unreadable
        files are faults.
        """
        users: Sequence[Mapping[str, Any]] = []
        days: list[tuple[str, bytes]] = []
        faults: list[Fault] = []
        for file, read in files:
            try:
                if file == "users.json":
                    users = json_list(read(), f"{name}/{file}", faults)
                else:
                    days.append((file, read()))
            except BROKEN as error:
                faults += unread(f"{name}/{file}", error).faults
        chat = read_slack(days, users, name)
        return replace(chat, faults=[*faults, *chat.faults])

    def _bytes(self, file: Path) -> bytes:
        try:
            return bounded(file, self.settings.max_chat_bytes, "the cap")
        except TooLargeError as error:
            raise ChatFormatError(str(error)) from error


def zipped_format(file: Path) -> str:
    """The format of a zip's content, as a source names it; ChatFormatError if that is not a chat,
    or it is not a zip.
    """
    with ZippedExport(file, 0) as archive:
        format_, names = _contents(archive.names, "auto")
        if format_ != "files":
            return format_
        suffix = PurePosixPath(names[0]).suffix.lower()
        program = program_of(FILE_PROGRAMS, archive.head(names[0], _HEAD), suffix)
    return program or _FORMATS[suffix]


def unread(name: str, error: Exception) -> Chat:
    """A chat in place of one that cannot be read: no entries, and the fault."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if not isinstance(error, ChatFormatError):
        message = f"unreadable: {(message.splitlines() or [type(error).__name__])[0]}"
    return Chat(name, [], faults=[Fault(name, message, b"")])


def _plain_name(name: str) -> str:
    place = PurePosixPath(name)
    if place.suffix.lower() in _SUFFIXES:
        place = place.with_suffix("")
    prefix = next((p for p in _PREFIXES if place.name.startswith(p) and place.name != p), "")
    return str(place.parent / place.name.removeprefix(prefix))


def _contents(names: Sequence[str], format_: str) -> tuple[str, list[str]]:
    """The format of a zip with these files, and those of them that are read; ChatFormatError if it
    holds no chat.

    From a WhatsApp export it reads one text, from Slack `users.json` and the days, from others
    (`files`) all.
    """
    if format_ in ("auto", "slack") and (members := _slack_members(names)):
        return "slack", members
    names = _without_beside(names)
    kinds = {n: _FORMATS.get(PurePosixPath(n).suffix.lower()) for n in names}
    texts = [n for n in names if kinds[n] == "whatsapp"]
    texts.sort(key=lambda n: (not n.endswith("_chat.txt"), "WhatsApp" not in n, n))
    is_named = any(word in name for name in texts[:1] for word in ("_chat.txt", "WhatsApp"))
    others = {name: kind for name, kind in kinds.items() if kind and kind != "whatsapp"}
    files = [name for name, kind in others.items() if format_ in ("auto", kind)]
    if texts and (is_named or format_ == "whatsapp" or (format_ == "auto" and not files)):
        return "whatsapp", texts[:1]
    if files:
        return "files", files
    format_note = "" if format_ == "auto" else f" of the format {format_}"
    raise ChatFormatError(f"no_chat: the archive holds no export of a chat{format_note}")


def _slack_members(names: Sequence[str]) -> list[str]:
    """Those of the files of a zip that a Slack export in it has; none without days of channels."""
    folders = [PurePosixPath(n).parent for n in names if PurePosixPath(n).name in _SLACK_FILES]
    if not folders:
        return []
    top = min(folders, key=lambda f: (len(f.parts), str(f)))
    places = {n: PurePosixPath(n) for n in names if n.lower().endswith(".json")}
    days = [n for n, p in places.items() if p.parent != top and p.parent.parent == top]
    return [*(n for n, p in places.items() if p == top / "users.json"), *days] if days else []


def _without_beside(names: Sequence[str]) -> list[str]:
    """The files of a zip but for those that accompany an export."""
    inside: dict[str, set[str]] = {}
    for place in map(PurePosixPath, names):
        inside.setdefault(str(place.parent), set()).add(place.name)
    beside = {str(PurePosixPath(f, n)) for f, own in inside.items() for n in _beside(own)}
    return [n for n in names if beside.isdisjoint(map(str, (p := PurePosixPath(n), *p.parents)))]


def _threads(
    data: bytes, name: str, settings: MailSettings, rules: ThreadSettings
) -> Iterator[Chat]:
    """Each discussion of two and more mails in an mbox file as a chat."""
    mails, refused = messages.split_mbox(data, name=name)
    tables = messages.read_mail(
        [*mails, *refused], source="mbox", partition=name, list_id=name, settings=settings
    )
    frame = pl.DataFrame(tables.messages).unique("message_id", keep="first", maintain_order=True)
    lists = frame.select("message_id", list_id=pl.lit(name)).to_arrow()
    thread_tables = threads.build_threads(frame.to_arrow(), lists, rules)
    place = pl.DataFrame(thread_tables.tree.select(["message_id", "thread_id"]))
    tree = frame.join(place, on="message_id").filter(pl.col("effective_at").is_not_null())
    people = frozenset(
        p for c in ("from_name", "from_addr") for p in frame.get_column(c).to_list() if p
    )
    for (thread,), rows in tree.sort("effective_at", "message_id").group_by(
        "thread_id", maintain_order=True
    ):
        if len(rows) > 1:
            entries = [
                Entry(
                    r["effective_at"],
                    r["from_name"] or r["from_addr"] or "unknown",
                    r["body"],
                    "message",
                )
                for r in rows.iter_rows(named=True)
            ]
            yield Chat(f"{name}: {rows['subject'][0]} {str(thread)[:8]}", entries, people)
    bad = [Fault(r["place"], r["reason"], b"") for r in tables.quarantine.to_pylist()]
    if bad:
        yield Chat(name, [], faults=bad)


def _table(data: bytes, suffix: str, name: str) -> tuple[pa.Table, list[Fault]]:
    if suffix == ".parquet":
        return pq.read_table(io.BytesIO(data), use_threads=False), []
    if suffix == ".csv":
        parse = pa_csv.ParseOptions(newlines_in_values=True)
        names = pa_csv.open_csv(io.BytesIO(data), parse_options=parse).schema.names
        convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        return pa_csv.read_csv(io.BytesIO(data), parse_options=parse, convert_options=convert), []
    faults: list[Fault] = []
    rows = [row for _, _, row in json_lines(data, name, faults)]
    columns: Sequence[str] = sorted({k for r in rows for k in r})
    return pa.table({c: [_plain(r.get(c)) for r in rows] for c in columns}), faults


def _plain(value: object) -> str | None:
    return (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
