"""Exports in JSON: a channel as DiscordChatExporter writes it, and the chats of Telegram Desktop's
`result.json`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    NamedFile,
    fields,
    in_utc,
    json_rows,
    kind_of,
    list_of,
    moment,
    no_time,
    reaction_count,
)
from transforms.errors import ChatFormatError

_MENTION = re.compile(r"<@!?(\d+)>")
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
# Kinds of messages that somebody wrote; all others the program writes.
_WRITTEN = frozenset(
    {
        "Default",
        "Reply",
        "ChatInputCommand",
        "ContextMenuCommand",
        "ThreadStarterMessage",
        "20",
        "21",
        "23",
    }
)


def looks_like_discord(head: bytes) -> bool:
    """True if a JSON file begins as DiscordChatExporter's: the server, then the channel."""
    return b'"guild"' in head and b'"channel"' in head


def read_discord(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of one channel as DiscordChatExporter writes it in JSON (`channel`, `messages`).

    The text of a message has that of its embeds, forwards and polls behind it, and the names of its
    files.
    """
    export, rows = json_rows(
        data, "messages", "no_discord: the file is no JSON export of a Discord channel"
    )
    channel = fields(export.get("channel"))
    people: dict[str, str] = {}
    names: set[str] = set()
    entries, faults = [], []
    for number, listed_row in enumerate(rows):
        row = fields(listed_row)
        at = moment(row.get("timestamp"))
        if at is None:
            faults.append(no_time(f"{name}:{number}", listed_row))
            continue
        author = fields(row.get("author"))
        for person in (author, *map(fields, list_of(row.get("mentions")))):
            people[str(person.get("id"))] = _name(person)
            names.update(str(person[key]) for key in ("nickname", "name") if person.get(key))
        text = _MENTION.sub(lambda m: f"@{people.get(m[1]) or m[1]}", "\n".join(_texts(row)))
        system = str(row.get("type", "Default")) not in _WRITTEN
        kind = "system" if system else kind_of(text, _name(author))
        if system and _name(author):
            text = f"{_name(author)}: {text or row.get('type')}"
        entry = Entry(
            in_utc(at, "UTC"), "" if system else _name(author), text, kind, str(row.get("id") or "")
        )
        entries.append(
            entry._replace(
                answers=str(fields(row.get("reference")).get("messageId") or ""),
                reactions=reaction_count(row.get("reactions")),
                is_edited=bool(row.get("timestampEdited")),
                files=tuple(_files(row)),
            )
        )
        if kind == "media":
            why = "no_text: the message has no text, embed or file that is known"
            faults.append(Fault(f"{name}:{number}", why, repr(row).encode()))
    yield Chat(name, entries, frozenset(names), faults, str(channel.get("name") or ""))


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message, its embeds, files, stickers, poll and forwards."""
    if content := _EMOJI.sub(r"\1", str(row.get("content") or "")):
        yield content
    for embed in map(fields, list_of(row.get("embeds"))):
        yield from _of_embed(embed)
    for kind, name in (("attachments", "fileName"), ("stickers", "name")):
        for shown in map(fields, list_of(row.get(kind))):
            if shown.get(name):
                yield f"[{shown[name]}]"
    poll = fields(row.get("poll"))
    if question := fields(poll.get("question")).get("text"):
        yield str(question)
        yield from (
            f"- {fields(fields(a).get('pollMedia') or a).get('text') or ''}"
            for a in list_of(poll.get("answers"))
        )
    if forwarded := fields(row.get("forwardedMessage")):
        yield from _texts(forwarded)


def _files(row: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The files of a message and of a forwarded one; those that were exported too have a place for
    an address.
    """
    for file in map(fields, list_of(row.get("attachments"))):
        if name := str(file.get("fileName") or ""):
            place = _ENCODED.sub(
                lambda m: bytes.fromhex(m[0].replace("%", "")).decode("utf-8", "replace"),
                str(file.get("url") or ""),
            )
            yield NamedFile(name, () if "://" in place else (place.replace("\\", "/"),))
    if forwarded := fields(row.get("forwardedMessage")):
        yield from _files(forwarded)


def _of_embed(embed: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an embed in the order in which they are shown."""
    author, footer = fields(embed.get("author")), fields(embed.get("footer"))
    heads = (author.get("name"), embed.get("title"), embed.get("description"))
    yield from (str(text) for text in heads if text)
    for field in map(fields, list_of(embed.get("fields"))):
        yield f"{field.get('name') or ''}: {field.get('value') or ''}".strip(": ")
    yield from (str(text) for text in (footer.get("text"), embed.get("url")) if text)


def _name(person: Mapping[str, Any]) -> str:
    return str(person.get("nickname") or person.get("name") or person.get("id") or "")


_OF_TELEGRAM = re.compile(
    rb'"type":\s*"(?:personal|private|public|saved|bot|message)|"personal_information"|"chats"'
)


def looks_like_telegram(data: bytes) -> bool:
    """True if a JSON file begins as Telegram's: a chat with its kind, or the account with its
    chats.
    """
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    has_chats = any(name in head for name in (b'"messages"', b'"chats"', b'"about"'))
    return head.startswith(b"{") and has_chats and _OF_TELEGRAM.search(head) is not None


def read_telegram(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of an export, of one chat or of an account; those of an account are called
    `name/title`.

    Dates are seconds since 1970 where the export has them, else in `timezone`. ChatFormatError if
    it is not an export.
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
    for number, row in enumerate(map(fields, list_of(chat.get("messages")))):
        at = moment(row.get("date_unixtime")) or moment(row.get("date"))
        if at is None:
            faults.append(no_time(f"{name}:{number}", row))
            continue
        author = str(row.get("from") or row.get("actor") or row.get("from_id") or "")
        members = [str(m) for m in list_of(row.get("members")) if m]
        names.update(
            filter(None, (author, row.get("forwarded_from"), row.get("inviter"), *members))
        )
        system = row.get("type") == "service"
        text = (
            _service(row, author, members)
            if system
            else "\n".join(filter(None, _telegram_texts(row)))
        )
        kind = "system" if system else kind_of(text, author)
        entry = Entry(
            in_utc(at, timezone), "" if system else author, text, kind, str(row.get("id") or "")
        )
        entries.append(
            entry._replace(
                answers=str(row.get("reply_to_message_id") or ""),
                reactions=reaction_count(row.get("reactions")),
                is_edited=bool(row.get("edited")),
                files=tuple(_telegram_files(row)),
            )
        )
        if kind == "media" and not row.get("media_type"):
            why = "no_text: the message has no text, file or place that is known"
            faults.append(Fault(f"{name}:{number}", why, repr(row).encode()))
    return Chat(name, entries, frozenset(str(n) for n in names), faults, title)


def _service(row: Mapping[str, Any], author: str, members: list[str]) -> str:
    """The text of a line of the program: who did what, with whom, to which title."""
    did = str(row.get("action") or "").replace("_", " ")
    return " ".join(
        filter(
            None,
            (author, did, ", ".join(members), str(row.get("title") or ""), _text(row.get("text"))),
        )
    )


def _telegram_texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The text of a message, and that of its file, poll, contact or place."""
    yield _text(row.get("text"))
    for key in ("file_name", "sticker_emoji"):
        if row.get(key):
            yield f"[{row[key]}]"
    poll = fields(row.get("poll"))
    if poll:
        yield str(poll.get("question") or "")
        yield from (
            f"- {fields(answer).get('text') or ''}" for answer in list_of(poll.get("answers"))
        )
    if row.get("place_name") or row.get("address"):
        yield ", ".join(str(row[key]) for key in ("place_name", "address") if row.get(key))
    elif place := fields(row.get("location_information")):
        yield f"{place.get('latitude')}, {place.get('longitude')}"


def _telegram_files(row: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The file or picture of a message; of one that was not exported the export says so in place of
    its place.
    """
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
