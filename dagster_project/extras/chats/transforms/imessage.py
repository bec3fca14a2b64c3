"""Messages of macOS: the chats of its `chat.db`, an SQLite file."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from dagster_project.extras.chats.transforms.sms import ME
from transforms.conversations.exports import Chat, Entry, NamedFile, kind_of, no_time
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

_FROM = datetime(2001, 1, 1, tzinfo=UTC)
_NANOSECONDS = 10**11
"""Dates above are nanoseconds, as since macOS 10.13; below they are seconds."""
_LATER_COLUMNS = (
    "attributedBody",
    "thread_originator_guid",
    "date_edited",
    "associated_message_type",
)
_REACTIONS = range(2000, 3000)
_MESSAGES = """
SELECT c.ROWID, coalesce(nullif(c.display_name, ''), c.chat_identifier), m.guid, m.text, m.date, m.is_from_me,
  coalesce(h.id, ''), coalesce(m.associated_message_guid, ''), m.item_type, {}
FROM message m JOIN chat_message_join j ON j.message_id = m.ROWID JOIN chat c ON c.ROWID = j.chat_id
LEFT JOIN handle h ON h.ROWID = m.handle_id ORDER BY c.ROWID, m.date, m.ROWID
"""
_FILES = """
SELECT m.guid, coalesce(a.transfer_name, ''), coalesce(a.filename, ''), coalesce(a.mime_type, '')
FROM message m JOIN message_attachment_join j ON j.message_id = m.ROWID JOIN attachment a ON a.ROWID = j.attachment_id
ORDER BY a.ROWID
"""


def looks_like_imessage(head: bytes) -> bool:
    """True for an SQLite file; the tables say more when it is read."""
    return head.startswith(b"SQLite format 3\0")


class _Row(NamedTuple):
    """A row of `_MESSAGES`; `date` counts seconds, or nanoseconds in later versions."""

    chat: int
    title: str
    guid: str
    text: str | None
    date: Any
    from_me: int
    handle: str
    target: str
    item: int
    body: bytes | None
    thread: str | None
    edited: int | None
    kind: int | None


def _rows(data: bytes) -> tuple[list[_Row], list[tuple[str, str, str, str]]]:
    """The messages of the file, and the files of these; ChatFormatError if it is another file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.deserialize(data)
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            there = {row[1] for row in connection.execute("PRAGMA table_info(message)")}
            later = (f"m.{name}" if name in there else "NULL" for name in _LATER_COLUMNS)
            rows = connection.execute(_MESSAGES.format(", ".join(later)))
            return [_Row(*row) for row in rows], connection.execute(_FILES).fetchall()
        except sqlite3.Error as error:
            raise ChatFormatError(
                f"no_imessage: it is not the chat.db of Messages ({error})"
            ) from error


def _time(date: Any) -> datetime | None:
    """The time of a date of Messages, if it is one."""
    try:
        return _FROM + timedelta(seconds=date / 1e9 if abs(date) > _NANOSECONDS else date)
    except (TypeError, OverflowError):
        return None


def _entry(row: _Row, at: datetime, files: Sequence[NamedFile], reactions: int) -> Entry:
    text = (row.text or _archived(row.body)).replace("\ufffc", "").strip()
    content = "\n".join([*([text] if text else []), *(f"[{file.name}]" for file in files)])
    author = ME if row.from_me else row.handle or row.title
    return Entry(
        at=at,
        author=author,
        text=content,
        kind=kind_of(content, author),
        key=row.guid,
        answers=row.thread or "",
        reactions=reactions,
        is_edited=bool(row.edited),
        files=tuple(files),
    )


def read_imessage(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of the file, `name/n` by their number there; reactions are counted.

    ChatFormatError if it is not the file of Messages.
    """
    rows, listed = _rows(data)
    files: dict[str, list[NamedFile]] = {}
    for guid, label, place, type_ in listed:
        file = NamedFile(
            label or place.rpartition("/")[2], (place.partition("Messages/")[2],), type_
        )
        files.setdefault(guid, []).append(file)
    reactions = Counter(row.target.rpartition("/")[2] for row in rows if row.kind in _REACTIONS)
    chats: dict[tuple[int, str], list[Entry]] = {}
    names: set[str] = set()
    faults = []
    for row in rows:
        if row.kind in _REACTIONS or row.item:
            continue
        if (at := _time(row.date)) is None:
            faults.append(no_time(f"{name}:{row.guid}", (row.date, row.text)))
            continue
        entry = _entry(row, at, files.get(row.guid, []), reactions[row.guid])
        names.update({entry.author, row.handle, row.title} - {ME, ""})
        chats.setdefault((row.chat, row.title), []).append(entry)
    for (number, title), entries in chats.items():
        yield Chat(f"{name}/{number}", entries, frozenset(names), title=title)
    if faults:
        yield Chat(name, [], faults=faults)


def _archived(body: bytes | None) -> str:
    """The text in an archived attributed string: behind `NSString`, five bytes and its length;
    empty if there is none.
    """
    _, mark, rest = (body or b"").partition(b"NSString")
    if not mark or len(rest) < 7:
        return ""
    size, begin = rest[5], 6
    if size in (0x81, 0x82):
        begin += 2 * (size - 0x80)
        size = int.from_bytes(rest[6:begin], "little")
    return rest[begin : begin + size].decode(errors="replace")


PROGRAM = Program((".db",), looks_like_imessage, read_imessage)
