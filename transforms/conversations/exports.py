"""Chats of exports: entries of any format, before windows and pseudonyms; Slack, Discord and plain tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from transforms.errors import ChatFormatError

AT_NAMES = ("timestamp", "sent_at", "time", "date", "datetime", "ts", "created_at")
AUTHOR_NAMES = ("author", "sender", "from", "name", "speaker", "user")
TEXT_NAMES = ("message", "text", "content", "body")
_SLACK_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_SLACK_LINK = re.compile(r"<(?P<url>(?:https?|mailto):[^|>]+)(?:\|(?P<label>[^>]*))?>")
_SLACK_SYSTEM = frozenset(
    {"channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name", "group_join"}
)
_DISCORD_MENTION = re.compile(r"<@!?(\d+)>")


class Entry(NamedTuple):
    """One entry of a chat: `kind` is message, media (no text), deleted or system (no author)."""

    at: datetime
    author: str
    text: str
    kind: str


class Fault(NamedTuple):
    """Unreadable input: its place, the reason and its bytes."""

    place: str
    reason: str
    data: bytes


@dataclass(frozen=True)
class Chat:
    """A chat in the order of its source; `names` are people it mentions who may never have written.

    `name` identifies it among the chats of a source; `title` is the name in its program, if different.
    """

    name: str
    entries: Sequence[Entry]
    names: frozenset[str] = frozenset()
    faults: Sequence[Fault] = field(default=())
    title: str = ""


def in_utc(at: datetime, timezone: str) -> datetime:
    """`at` in UTC; one without a zone is in `timezone`. Raises ChatFormatError for an unknown zone."""
    if at.tzinfo is None:
        try:
            at = at.replace(tzinfo=ZoneInfo(timezone))
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ChatFormatError(f"no time zone is called {timezone!r}") from error
    return at.astimezone(UTC)


def read_table(table: pa.Table, name: str, timezone: str) -> Chat:
    """The chat of a table with a time, an author and a text, under one of the usual names.

    Times are timestamps, ISO 8601 texts or seconds since 1970. A row without a usable time or text
    is a fault. Raises ChatFormatError if one of the three columns is missing.
    """
    lower = {c.lower(): c for c in reversed(table.column_names)}
    columns = []
    for meaning, names in (("time", AT_NAMES), ("author", AUTHOR_NAMES), ("text", TEXT_NAMES)):
        column = next((lower[n] for n in names if n in lower), None)
        if column is None:
            raise ChatFormatError(
                f"no_column: no column for the {meaning}; one of {', '.join(names)} is looked for, there are "
                f"{', '.join(table.column_names) or 'none'}"
            )
        columns.append(table.column(column).to_pylist())
    entries, faults = [], []
    for row, (at, author, text) in enumerate(zip(*columns, strict=True)):
        when = _moment(at)
        if when is None or not isinstance(text, str):
            why = "no_time: the row has no readable time" if when is None else "no_text: the row has no text"
            faults.append(Fault(f"{name}:{row}", why, repr((at, author, text)).encode(errors="replace")))
            continue
        author_name = "" if author is None else str(author)
        entries.append(Entry(in_utc(when, timezone), author_name, text, _kind(text, author_name)))
    return Chat(name, entries, frozenset(), faults)


def read_slack(days: Iterable[tuple[str, bytes]], users: Sequence[Mapping[str, Any]], name: str) -> Chat:
    """The chat of one channel of a Slack export: its daily JSON files by name, and `users.json`."""
    people = {str(u["id"]): _slack_name(u) for u in users if isinstance(u, Mapping) and u.get("id")}
    entries: list[Entry] = []
    faults: list[Fault] = []
    for file, data in sorted(days):
        rows = _json_list(data, f"{name}/{file}", faults)
        for number, row in enumerate(rows):
            at = _moment(row.get("ts")) if isinstance(row, Mapping) else None
            if at is None:
                faults.append(
                    Fault(f"{name}/{file}:{number}", "no_time: the message has no ts", repr(row).encode())
                )
                continue
            entries.append(_slack_entry(row, in_utc(at, "UTC"), people))
    entries.sort(key=lambda e: e.at)
    return Chat(name, entries, frozenset(people.values()), faults)


def _slack_entry(row: Mapping[str, Any], at: datetime, people: Mapping[str, str]) -> Entry:
    text = str(row.get("text") or "")
    text = _SLACK_MENTION.sub(lambda m: f"@{people.get(m[1], m[1])}", text)
    text = _SLACK_LINK.sub(lambda m: f"{m['label']} ({m['url']})" if m["label"] else m["url"], text)
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    profile = _fields(row.get("user_profile"))
    user = str(row.get("user") or row.get("bot_id") or "")
    author = people.get(user) or str(profile.get("real_name") or row.get("username") or user)
    if str(row.get("subtype")) in _SLACK_SYSTEM:
        return Entry(at, "", text, "system")
    if row.get("subtype") == "tombstone":
        return Entry(at, author, "", "deleted")
    return Entry(at, author, text, _kind(text, author))


def _slack_name(user: Mapping[str, Any]) -> str:
    profile = _fields(user.get("profile"))
    return str(user.get("real_name") or profile.get("real_name") or user.get("name") or user["id"])


def read_discord(data: bytes, name: str) -> Chat:
    """The chat of one channel as DiscordChatExporter writes it in JSON (`channel`, `messages`)."""
    try:
        export = json.loads(data)
        rows, channel = export["messages"], _fields(export.get("channel"))
        if not isinstance(rows, list):
            raise TypeError("messages")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ChatFormatError("no_discord: the file is no JSON export of a Discord channel") from error
    people: dict[str, str] = {}
    entries, faults = [], []
    for number, row in enumerate(rows):
        at = _moment(row.get("timestamp")) if isinstance(row, Mapping) else None
        if at is None:
            faults.append(
                Fault(f"{name}:{number}", "no_time: the message has no timestamp", repr(row).encode())
            )
            continue
        author = _fields(row.get("author"))
        display_name = str(author.get("nickname") or author.get("name") or author.get("id") or "")
        mentions = row.get("mentions")
        for person in (author, *map(_fields, mentions if isinstance(mentions, list) else ())):
            people[str(person.get("id"))] = str(person.get("nickname") or person.get("name") or "")
        text = _DISCORD_MENTION.sub(lambda m: f"@{people.get(m[1]) or m[1]}", str(row.get("content") or ""))
        system = str(row.get("type", "Default")) not in ("Default", "Reply")
        kind = "system" if system else _kind(text, display_name)
        entries.append(Entry(in_utc(at, "UTC"), "" if system else display_name, text, kind))
    title = str(channel.get("name") or "")
    return Chat(name, entries, frozenset(n for n in people.values() if n), faults, title)


def _fields(value: object) -> Mapping[str, Any]:
    """The fields of a JSON object; empty if the value is not an object."""
    return value if isinstance(value, Mapping) else {}


def _kind(text: str, author: str) -> str:
    if not author.strip():
        return "system"
    return "message" if text.strip() else "media"


def _json_list(data: bytes, file: str, faults: list[Fault]) -> list[Any]:
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        faults.append(Fault(file, "no_json: the file is no JSON list", data))
        return []
    return rows


def _moment(value: object) -> datetime | None:
    """A time from what tables and exports write; None if it is not a time, or outside the years that zones cover."""
    at = _any_moment(value)
    return at if at and MINYEAR < at.year < MAXYEAR else None


def _any_moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            pass
    try:
        return datetime.fromtimestamp(float(value), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return None
