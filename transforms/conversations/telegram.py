"""Telegram exports: the chats of a `result.json` as Telegram Desktop writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    NamedFile,
    fields,
    in_utc,
    kind_of,
    moment,
    reaction_count,
)
from transforms.errors import ChatFormatError


def looks_like_telegram(data: bytes) -> bool:
    """True if a JSON file begins as Telegram's: a chat with its kind, or the account with its chats."""
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return (
        head.startswith(b"{")
        and (b'"messages"' in head or b'"chats"' in head or b'"about"' in head)
        and (
            any(
                f'"type": "{kind}'.encode() in head
                for kind in ("personal", "private", "public", "saved", "bot", "message")
            )
            or b'"personal_information"' in head
            or b'"chats"' in head
        )
    )


def read_telegram(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of an export, of one chat or of an account; those of an account are called `name/title`.

    Dates are seconds since 1970 where the export has them, else in `timezone`. ChatFormatError if it is no export.
    """
    try:
        export = json.loads(data)
        chats = [export] if "messages" in export else fields(export.get("chats"))["list"]
        if not isinstance(chats, list):
            raise TypeError("chats")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ChatFormatError("no_telegram: the file is no JSON export of Telegram") from error
    for number, chat in enumerate(map(fields, chats)):
        title = str(chat.get("name") or chat.get("type") or "")
        own = name if "messages" in export else f"{name}/{chat.get('id', number)}"
        yield _chat(chat, own, title, timezone)


def _chat(chat: Mapping[str, Any], name: str, title: str, timezone: str) -> Chat:
    entries, faults = [], []
    names: set[str] = set()
    for number, row in enumerate(map(fields, _list(chat.get("messages")))):
        at = moment(row.get("date_unixtime")) or moment(row.get("date"))
        if at is None:
            faults.append(Fault(f"{name}:{number}", "no_time: the message has no date", repr(row).encode()))
            continue
        author = str(row.get("from") or row.get("actor") or row.get("from_id") or "")
        members = [str(m) for m in _list(row.get("members")) if m]
        names.update(filter(None, (author, row.get("forwarded_from"), row.get("inviter"), *members)))
        system = row.get("type") == "service"
        text = _service(row, author, members) if system else "\n".join(filter(None, _texts(row)))
        kind = "system" if system else kind_of(text, author)
        entry = Entry(in_utc(at, timezone), "" if system else author, text, kind, str(row.get("id") or ""))
        entries.append(
            entry._replace(
                answers=str(row.get("reply_to_message_id") or ""),
                reactions=reaction_count(row.get("reactions")),
                is_edited=bool(row.get("edited")),
                files=tuple(_files(row)),
            )
        )
        if kind == "media" and not row.get("media_type"):
            why = "no_text: the message has no text, file or place that is known"
            faults.append(Fault(f"{name}:{number}", why, repr(row).encode()))
    return Chat(name, entries, frozenset(str(n) for n in names), faults, title)


def _service(row: Mapping[str, Any], author: str, members: list[str]) -> str:
    """What a line of the program says: who did what, with whom, to which title."""
    did = str(row.get("action") or "").replace("_", " ")
    return " ".join(
        filter(None, (author, did, ", ".join(members), str(row.get("title") or ""), _text(row.get("text"))))
    )


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The text of a message, and what its file, poll, contact or place says."""
    yield _text(row.get("text"))
    for key in ("file_name", "sticker_emoji"):
        if row.get(key):
            yield f"[{row[key]}]"
    poll = fields(row.get("poll"))
    if poll:
        yield str(poll.get("question") or "")
        yield from (f"- {fields(answer).get('text') or ''}" for answer in _list(poll.get("answers")))
    if row.get("place_name") or row.get("address"):
        yield ", ".join(str(row[key]) for key in ("place_name", "address") if row.get(key))
    elif place := fields(row.get("location_information")):
        yield f"{place.get('latitude')}, {place.get('longitude')}"


def _files(row: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The file or picture of a message; of one that was not exported the export says so in place of its place."""
    for key in ("file", "photo"):
        if place := str(row.get(key) or ""):
            is_there = not place.startswith("(")
            name = str(row.get("file_name") or (place.rpartition("/")[2] if is_there else key))
            yield NamedFile(name, (place,) if is_there else (), str(row.get("mime_type") or ""))


def _text(value: object) -> str:
    """A text, which Telegram writes as one string or as pieces, some with a kind and a link."""
    if not isinstance(value, list):
        return str(value or "")
    pieces = []
    for piece in value:
        at = fields(piece)
        text, link = str(at.get("text") or "") if at else str(piece), str(at.get("href") or "")
        pieces.append(f"{text} ({link})" if link and link != text else text)
    return "".join(pieces)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
