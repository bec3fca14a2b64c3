"""Rooms of Matrix: the JSON that Element writes when a room is exported."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.conversations.exports import (
    Chat,
    Entry,
    NamedFile,
    fields,
    json_rows,
    kind_of,
    milliseconds,
    no_time,
)
from transforms.conversations.programs import Program

_FILES = frozenset({"m.file", "m.image", "m.audio", "m.video"})
_FOLDERS = ("files", "images", "audio", "video")
_CHANGES = {"m.room.name": "name", "m.room.topic": "topic", "m.room.member": "membership"}


def looks_like_element(head: bytes) -> bool:
    """True if a JSON file begins as Element's export of a room."""
    is_object = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return is_object and b'"room_name"' in head and b'"exported_by"' in head


def read_element(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a room; edits replace the messages that they change, and reactions are counted.

    ChatFormatError if the file is not an export of a room.
    """
    export, rows = json_rows(
        data, "messages", "no_element: the file is no JSON export of a room by Element"
    )
    events = [fields(row) for row in rows]
    people, names = _people(events), set[str]()
    relations = [(row, fields(fields(row.get("content")).get("m.relates_to"))) for row in events]
    edits = {
        str(r.get("event_id")): _text(fields(fields(row["content"]).get("m.new_content")))
        for row, r in relations
        if r.get("rel_type") == "m.replace"
    }
    reactions = Counter(
        str(r.get("event_id")) for row, r in relations if row.get("type") == "m.reaction"
    )
    entries, faults = [], []
    for number, (row, relation) in enumerate(relations):
        if row.get("type") == "m.reaction" or relation.get("rel_type") == "m.replace":
            continue
        at = milliseconds(row.get("origin_server_ts"))
        if at is None:
            faults.append(no_time(f"{name}:{number}", row))
            continue
        sender, key = (str(row.get(field) or "") for field in ("sender", "event_id"))
        content = fields(row.get("content"))
        author = people.get(sender, sender)
        names.update(filter(None, (sender, author, str(content.get("displayname") or ""))))
        if "redacted_because" in fields(row.get("unsigned")):
            entries.append(Entry(at, author, "", "deleted", key))
            continue
        if row.get("type") not in ("m.room.message", "m.sticker"):
            change = content.get(_CHANGES.get(str(row.get("type")), ""))
            if change:
                who = str(content.get("displayname") or author)
                entries.append(Entry(at, "", f"{who}: {change}", "system", key))
            continue
        text = edits.get(key) or _text(content, answers=bool(relation.get("m.in_reply_to")))
        answered = fields(relation.get("m.in_reply_to")).get("event_id") or relation.get("event_id")
        entry = Entry(
            at, author, text, kind_of(text, author), key, str(answered or ""), reactions[key]
        )
        entries.append(entry._replace(is_edited=key in edits, files=tuple(_files(content))))
    yield Chat(name, entries, frozenset(names), faults, str(export.get("room_name") or ""))


def _people(events: list[Mapping[str, Any]]) -> dict[str, str]:
    """The names that members show, by their ids."""
    members = (
        (row, fields(row.get("content"))) for row in events if row.get("type") == "m.room.member"
    )
    shown = (
        (row, str(content["displayname"])) for row, content in members if content.get("displayname")
    )
    return {str(row.get("state_key") or row.get("sender")): name for row, name in shown}


def _text(content: Mapping[str, Any], *, answers: bool = False) -> str:
    """The text of a message, without the quote that programs put before an answer; a file is named."""
    body = str(content.get("body") or "")
    if str(content.get("msgtype")) in _FILES:
        return f"[{content.get('filename') or body}]"
    if answers and body.startswith("> "):
        lines = body.split("\n")
        while lines and lines[0].startswith(">"):
            del lines[0]
        body = "\n".join(lines).removeprefix("\n")
    return body


def _files(content: Mapping[str, Any]) -> Iterator[NamedFile]:
    if str(content.get("msgtype")) in _FILES:
        name = str(content.get("filename") or content.get("body") or "")
        places = tuple(f"{folder}/{name}" for folder in _FOLDERS)
        yield NamedFile(name, places, str(fields(content.get("info")).get("mimetype") or ""))


PROGRAM = Program((".json",), looks_like_element, read_element)
