"""Discord exports: one channel as DiscordChatExporter writes it in JSON."""

from __future__ import annotations

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
    kind_of,
    moment,
    reaction_count,
)
from transforms.errors import ChatFormatError

_MENTION = re.compile(r"<@!?(\d+)>")
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
# Kinds of messages that somebody wrote; all others the program writes.
_WRITTEN = frozenset(
    {"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "ThreadStarterMessage", "20", "21", "23"}
)


def read_discord(data: bytes, name: str) -> Chat:
    """The chat of one channel as DiscordChatExporter writes it in JSON (`channel`, `messages`).

    The text of a message has that of its embeds, forwards and polls behind it, and the names of its files.
    """
    try:
        export = json.loads(data)
        rows, channel = export["messages"], fields(export.get("channel"))
        if not isinstance(rows, list):
            raise TypeError("messages")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ChatFormatError("no_discord: the file is no JSON export of a Discord channel") from error
    people: dict[str, str] = {}
    names: set[str] = set()
    entries, faults = [], []
    for number, row in enumerate(rows):
        at = moment(row.get("timestamp")) if isinstance(row, Mapping) else None
        if at is None:
            faults.append(
                Fault(f"{name}:{number}", "no_time: the message has no timestamp", repr(row).encode())
            )
            continue
        author = fields(row.get("author"))
        for person in (author, *map(fields, _list(row.get("mentions")))):
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
    return Chat(name, entries, frozenset(names), faults, str(channel.get("name") or ""))


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The text of a message and of what hangs on it."""
    if content := _EMOJI.sub(r"\1", str(row.get("content") or "")):
        yield content
    for embed in map(fields, _list(row.get("embeds"))):
        yield from _of_embed(embed)
    for file in map(fields, _list(row.get("attachments"))):
        if file.get("fileName"):
            yield f"[{file['fileName']}]"
    for sticker in map(fields, _list(row.get("stickers"))):
        if sticker.get("name"):
            yield f"[{sticker['name']}]"
    poll = fields(row.get("poll"))
    if question := fields(poll.get("question")).get("text"):
        yield str(question)
        yield from (
            f"- {fields(fields(a).get('pollMedia') or a).get('text') or ''}"
            for a in _list(poll.get("answers"))
        )
    if forwarded := fields(row.get("forwardedMessage")):
        yield from _texts(forwarded)


def _files(row: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The files of a message and of what it forwards; those that were exported too have a place for an address."""
    for file in map(fields, _list(row.get("attachments"))):
        if name := str(file.get("fileName") or ""):
            place = _ENCODED.sub(_letters, str(file.get("url") or ""))
            yield NamedFile(name, () if "://" in place else (place.replace("\\", "/"),))
    if forwarded := fields(row.get("forwardedMessage")):
        yield from _files(forwarded)


def _letters(encoded: re.Match[str]) -> str:
    return bytes.fromhex(encoded[0].replace("%", "")).decode("utf-8", "replace")


def _of_embed(embed: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an embed in the order in which they are shown."""
    author, footer = fields(embed.get("author")), fields(embed.get("footer"))
    shown = (author.get("name"), embed.get("title"), embed.get("description"))
    yield from (str(text) for text in shown if text)
    for field in map(fields, _list(embed.get("fields"))):
        yield f"{field.get('name') or ''}: {field.get('value') or ''}".strip(": ")
    yield from (str(text) for text in (footer.get("text"), embed.get("url")) if text)


def _name(person: Mapping[str, Any]) -> str:
    return str(person.get("nickname") or person.get("name") or person.get("id") or "")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
