"""Chats to conversations: windows, pseudonyms, the table `conversations` and the consolidated
Markdown of a window.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from transforms.conversations.exports import Chat, Entry, Fault
from transforms.conversations.pseudonyms import Pseudonym, masked_texts
from transforms.hashing import bytes_sha256, parts_hash, text_hash
from transforms.schemas.conversations import CONVERSATION_MESSAGES, CONVERSATION_WINDOWS
from transforms.schemas.operations import QUARANTINE
from transforms.settings.conversations import WindowSettings

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORGED = re.compile(r"^(?=\\*## Message )", re.M)
_HEADER = re.compile(r"^## Message \d+\n\*\*Author:\*\* .*\n\*\*Timestamp:\*\* .*\n\n?", re.M)
_BLANK_LINES = re.compile(r"\n{3,}")


class Window(NamedTuple):
    """Turns of a conversation: its key, the number of its first turn, its entries, and the messages
    they answer.
    """

    key: str
    first: int
    entries: Sequence[Entry]
    answered: Mapping[int, int] = {}

    @property
    def fingerprint(self) -> str:
        """Hash of its entries and of the messages that they answer."""
        rows = (part for e in self.entries for part in (e.at.isoformat(), *map(str, e[1:])))
        return parts_hash([str(self.first), *rows, *(str(a) for a in self.answered.items())])


class Consolidated(NamedTuple):
    """The Markdown of a window, and the half-open character range of each message's text in it."""

    markdown: str
    ranges: list[tuple[int, int]]


def masked_chat(chat: Chat, pseudonym: Pseudonym | None) -> Chat:
    """`chat` ready for storage: valid text and, with a `pseudonym`, without known names.

    Name and title of the chat itself are treated as texts, as an export between two people carries
    the name of one.
    """
    entries = [e._replace(author=_one_line(e.author), text=_clean(e.text)) for e in chat.entries]
    if pseudonym is None:
        return Chat(_one_line(chat.name), entries, chat.names, chat.faults, _one_line(chat.title))
    names = {e.author for e in entries if e.author} | {_one_line(n) for n in chat.names}
    originals = [_one_line(chat.name), _one_line(chat.title), *(e.text for e in entries)]
    name, title, *texts = masked_texts(originals, names, pseudonym)
    masked_entries = [
        e._replace(author=e.author and pseudonym(e.author), text=text)
        for e, text in zip(entries, texts, strict=True)
    ]
    masked_places = masked_texts([f.place for f in chat.faults], names, pseudonym)
    faults = [f._replace(place=place) for f, place in zip(chat.faults, masked_places, strict=True)]
    return Chat(
        name,
        masked_entries,
        frozenset(),
        faults,
        title,
        partial(masked_texts, names=names, pseudonym=pseudonym),
    )


def windows(chat: Chat, settings: WindowSettings, timezone: str) -> list[Window]:
    """The windows of a chat in order; more entries at its end change the last window alone, or add
    some.

    `count`: so many entries each, keys 0001 and on. `day`: one per day of `timezone`, keys the day.
    `gap`: cut at silences of `gap_hours`, and at `messages`; keys the UTC time of the first entry.
    An entry that is behind a later one belongs to the later one's time.
    """
    marks = _marks([e.at for e in chat.entries], settings, timezone)
    result: list[Window] = []
    key_counts: dict[str, int] = {}
    turns = {entry.key: number for number, entry in enumerate(chat.entries) if entry.key}
    at = 0
    for _, members in groupby(marks):
        size = len(list(members))
        key = f"{chat.entries[at].at:%Y-%m-%dT%H%M}" if settings.by == "gap" else marks[at]
        key_counts[key] = key_counts.get(key, 0) + 1
        key = key if key_counts[key] == 1 else f"{key}-{key_counts[key]}"
        answered = {
            n: turns[key_]
            for n in range(at, at + size)
            if (key_ := chat.entries[n].answers) in turns
        }
        result.append(Window(key, at, chat.entries[at : at + size], answered))
        at += size
    return result


def _marks(times: Sequence[datetime], settings: WindowSettings, timezone: str) -> list[str]:
    """For each entry a text that is equal for neighbours in one window."""
    if settings.by == "count":
        return [f"{number // settings.messages + 1:04d}" for number in range(len(times))]
    latest: datetime | None = None
    marks, number, size = [], 0, 0
    zone = ZoneInfo(timezone)
    for at in times:
        silent = latest is not None and at - latest > timedelta(hours=settings.gap_hours)
        latest = at if latest is None else max(latest, at)
        if settings.by == "day":
            marks.append(f"{latest.astimezone(zone):%Y-%m-%d}")
            continue
        if silent or size >= settings.messages:
            number, size = number + 1, 0
        size += 1
        marks.append(str(number))
    return marks


def conversation_messages(chat: Chat, window: Window, source: str, partition: str) -> pa.Table:
    """The table `conversations` of one window, in order of turn."""
    conversation = f"{source}:{chat.name}"
    rows = len(window.entries)
    turns = range(window.first, window.first + rows)
    columns: dict[str, list[Any]] = {
        "conversation_id": [conversation] * rows,
        "doc_id": [window_id(conversation, window.key)] * rows,
        "source": [source] * rows,
        "partition": [partition] * rows,
        "window": [window.key] * rows,
        "title": [chat.title or chat.name] * rows,
        "turn": list(turns),
        "sent_at": [e.at for e in window.entries],
        "author": [e.author or None for e in window.entries],
        "text": [e.text for e in window.entries],
        "kind": [e.kind for e in window.entries],
        "message_key": [e.key or None for e in window.entries],
        "answers_key": [e.answers or None for e in window.entries],
        "answered_turn": [window.answered.get(n) for n in turns],
        "reaction_count": [e.reactions for e in window.entries],
        "is_edited": [e.is_edited for e in window.entries],
        "file_count": [len(e.files) for e in window.entries],
    }
    return CONVERSATION_MESSAGES.from_columns(columns)


def window_id(conversation_id: str, window: str) -> str:
    """The id of a window, by which deduplication counts documents."""
    return f"{conversation_id}@{window}"


def windows_behind(partitions: Iterable[str]) -> dict[str, int]:
    """By partition `<conversation>.<key of a window>` how many of its conversation are behind it:
    their keys have numbers, by time. A conversation called as its source has `<source>/<key>`.

    >>> windows_behind(["chat/a.9999", "chat/a.10000", "chat/b.2025-03-27", "chat/unread"])
    {'chat/a.10000': 0, 'chat/a.9999': 1, 'chat/b.2025-03-27': 0, 'chat/unread': 0}
    >>> windows_behind(["room/0001", "room/0002"])
    {'room/0002': 0, 'room/0001': 1}
    """
    places: dict[tuple[str, str], list[tuple[list[int], str]]] = {}
    for partition in partitions:
        source, _, name = partition.partition("/")
        conversation, _, key = name.rpartition(".")
        place = [int(number) for number in re.findall(r"\d+", key)], partition
        places.setdefault((source, conversation), []).append(place)
    return {
        partition: behind
        for own in places.values()
        for behind, (_, partition) in enumerate(sorted(own, reverse=True))
    }


def quarantine_rows(faults: Sequence[Fault], source: str, partition: str) -> pa.Table:
    """The table `conversation_quarantine` of unreadable input; equal places get a number."""
    counts: dict[str, int] = {}
    rows = []
    for place, reason, data in faults:
        counts[place] = counts.get(place, 0) + 1
        rows.append(
            {
                "source": source,
                "partition": partition,
                "place": place if counts[place] == 1 else f"{place} ({counts[place]})",
                "reason": reason,
                "message_id": None,
                "byte_count": len(data),
                "bytes_sha256": bytes_sha256(data),
            }
        )
    return QUARANTINE.from_rows(rows)


def consolidate(
    authors: Sequence[str], times: Sequence[datetime | str], texts: Sequence[str]
) -> Consolidated:
    """The messages as one Markdown text, in the form of the egregora design.

    Each message is a heading `## Message n`, its author, its UTC time to the minute, a blank line
    and its text; a blank line is between messages and a line end behind the last. A line of a text
    that looks like such a heading gets a backslash before it, so that nobody can forge a message.
    No messages make an empty text.
    """
    sections: list[str] = []
    ranges = []
    at = 0
    for number, (author, time, text) in enumerate(zip(authors, times, texts, strict=True), start=1):
        when = time if isinstance(time, str) else f"{time:%Y-%m-%d %H:%M}"
        gap = "\n" if number > 1 else ""
        head = f"{gap}## Message {number}\n**Author:** {_one_line(author)}\n**Timestamp:** {_one_line(when)}\n\n"
        body = _FORGED.sub(r"\\", text.strip("\n").rstrip())
        ranges.append((at + len(head), at + len(head) + len(body)))
        sections += [head, body, "\n"]
        at += len(head) + len(body) + 1
    return Consolidated("".join(sections), ranges)


def without_headers(markdown: str) -> str:
    """The texts of a segment of consolidated Markdown, without headings, authors and times."""
    return _BLANK_LINES.sub("\n\n", _HEADER.sub("", markdown)).strip()


def conversation_markdown(messages: pa.Table) -> pa.Table:
    """The table `conversation_markdown`: one row per window of `conversations`, messages with text
    alone.
    """
    rows = []
    for window, turns in groupby(messages.to_pylist(), key=lambda r: r["doc_id"]):
        window_turns = list(turns)
        text_turns = [t for t in window_turns if t["kind"] == "message"]
        window_text = consolidate(
            *([t[n] for t in text_turns] for n in ("author", "sent_at", "text"))
        )
        first = window_turns[0]
        rows.append(
            {
                **{
                    n: first[n]
                    for n in ("conversation_id", "source", "partition", "window", "title")
                },
                "doc_id": window,
                "first_at": min(t["sent_at"] for t in window_turns),
                "last_at": max(t["sent_at"] for t in window_turns),
                "message_count": len(text_turns),
                "author_count": len({t["author"] for t in text_turns}),
                "markdown": window_text.markdown,
                "content_hash": text_hash(window_text.markdown),
            }
        )
    return CONVERSATION_WINDOWS.from_rows(rows)


def _clean(text: str) -> str:
    valid = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub("", valid.replace("\r\n", "\n").replace("\r", "\n"))


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())
