"""Zulip: a topic as its API gives it, a JSON file each, as public archives publish it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    fields,
    in_utc,
    kind_of,
    list_of,
    moment,
    no_time,
    reaction_count,
)
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError
from transforms.formats.html_markdown import html_markdown

_MARKUP = re.compile(r"</?[a-z][^<>]*>")
_SIGNS = (b'"sender_full_name"', b'"timestamp"', b'"content"')
_INDEX = "stream_index.json"
"""The list of channels beside their folders."""


def looks_like_zulip_topic(head: bytes) -> bool:
    """True if JSON begins with messages of Zulip's API, alone or in its answer."""
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return begins in (b"[", b"{") and all(sign in head for sign in _SIGNS)


def read_zulip_topic(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a topic, in the order of its times; ChatFormatError if it is not JSON of messages.

    Contents are HTML unless the archive asked for Markdown. The title is channel and topic, if the
    messages name them.
    """
    try:
        export = json.loads(data)
        rows = export if isinstance(export, list) else export["messages"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ChatFormatError("no_zulip: the file is no JSON list of messages of Zulip") from error
    entries, names, faults, title = list[Entry](), set[str](), [], ""
    for number, row in enumerate(map(fields, list_of(rows))):
        at, author = moment(row.get("timestamp")), str(row.get("sender_full_name") or "")
        if at is None:
            faults.append(no_time(f"{name}:{row.get('id', number)}", row))
            continue
        names.update(filter(None, (author, str(row.get("sender_email") or ""))))
        title = title or _title(row)
        text = _text(str(row.get("content") or ""))
        entry = Entry(
            in_utc(at, timezone), author, text, kind_of(text, author), str(row.get("id") or "")
        )
        entries.append(
            entry._replace(
                reactions=reaction_count(row.get("reactions")),
                is_edited=bool(row.get("last_edit_timestamp")),
            )
        )
    ordered = sorted(entries, key=lambda entry: entry.at)
    yield Chat(name, ordered, frozenset(names), faults, title)


def _title(row: Mapping[str, Any]) -> str:
    channel, topic = row.get("display_recipient"), row.get("subject") or row.get("topic")
    return " > ".join(part for part in (channel, topic) if isinstance(part, str) and part)


def _text(content: str) -> str:
    """Content as Markdown."""
    converted = html_markdown(content) if _MARKUP.search(content) else None
    return converted.text.strip() if converted else content


PROGRAM = Program((".json",), looks_like_zulip_topic, read_zulip_topic, True, _INDEX, (_INDEX,))
