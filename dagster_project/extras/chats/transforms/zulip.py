"""Zulip: the folder of an organization's export, in which each topic of a channel is a chat."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
    moment,
    no_time,
)
from transforms.conversations.programs import ProgramOfFolders
from transforms.errors import ChatFormatError

_UPLOAD = re.compile(r"\[(?P<name>[^\]\n]*)\]\(/user_uploads/(?P<place>[^)\s]+)\)")
_CHANNEL = 2


def read_zulip(realm: bytes, files: Sequence[tuple[str, bytes]], name: str) -> Iterator[Chat]:
    """The chats of an export: `name/channel/topic`, and `name/direct/n` in the order in which they
    begin.

    `files` are those of its messages, with their names. ChatFormatError if `realm` cannot be read.
    """
    try:
        tables = fields(json.loads(realm))
        users = tables["zerver_userprofile"]
        people = {
            row["id"]: str(row.get("full_name") or row.get("email") or row["id"]) for row in users
        }
        channels = {row["id"]: str(row["name"]) for row in tables["zerver_stream"]}
        recipients = {row["id"]: row for row in tables["zerver_recipient"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ChatFormatError("no_zulip: realm.json is not that of an export of Zulip") from error
    names = frozenset((*people.values(), *(str(row["email"]) for row in users if row.get("email"))))
    chats: dict[tuple[str, ...], list[Entry]] = {}
    faults: list[Fault] = []
    for file, data in files:
        try:
            _, rows = json_rows(
                data, "zerver_message", "no_json: the file is no JSON with messages of Zulip"
            )
        except ChatFormatError as error:
            faults.append(Fault(f"{name}/{file}", str(error), data))
            continue
        for row in map(fields, rows):
            if (at := moment(row.get("date_sent"))) is None:
                faults.append(no_time(f"{name}/{file}:{row.get('id')}", row))
                continue
            author, text = people.get(row.get("sender"), ""), str(row.get("content") or "")
            place = _place(recipients.get(row.get("recipient"), {}), channels, row)
            entry = Entry(
                in_utc(at, "UTC"), author, text, kind_of(text, author), str(row.get("id") or "")
            )
            pairs = [
                (m["name"] or m["place"].rpartition("/")[2], m["place"])
                for m in _UPLOAD.finditer(text)
            ]
            files_of = tuple(NamedFile(label, (f"uploads/{upload}",)) for label, upload in pairs)
            entry = entry._replace(is_edited=bool(row.get("last_edit_time")), files=files_of)
            chats.setdefault(place, []).append(entry)
    direct = 0
    for place, entries in chats.items():
        direct += len(place) == 1
        own = f"direct/{direct}" if len(place) == 1 else "/".join(place)
        ordered = sorted(entries, key=lambda entry: (entry.at, entry.key))
        yield Chat(
            f"{name}/{own}", ordered, names, title="" if len(place) == 1 else " > ".join(place)
        )
    if faults:
        yield Chat(name, [], faults=faults)


def _place(
    recipient: Mapping[str, Any], channels: Mapping[object, str], row: Mapping[str, Any]
) -> tuple[str, ...]:
    """Channel and topic of a message; of a direct one only who it went to."""
    if recipient.get("type") == _CHANNEL:
        return channels.get(recipient.get("type_id"), "channel"), str(
            row.get("subject") or "general chat"
        )
    return (str(row.get("recipient")),)


PROGRAM = ProgramOfFolders("realm.json", r"messages-\d+\.json", read_zulip)
