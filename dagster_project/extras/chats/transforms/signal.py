"""Signal: the file `main.jsonl` of an export of chats, whose lines are the frames of a backup
(Signal's Backups.proto).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.extras.chats.transforms.sms import ME
from transforms.conversations.exports import (
    Chat,
    Entry,
    Fault,
    fields,
    json_lines,
    kind_of,
    list_of,
    milliseconds,
)
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

_PAIRS = (
    ("systemGivenName", "systemFamilyName"),
    ("profileGivenName", "profileFamilyName"),
    ("givenName", "familyName"),
)


def looks_like_signal(head: bytes) -> bool:
    """True if the first line is that of an export: the version and time of a backup."""
    return head.startswith(b"{") and b'"backupTimeMs"' in head.partition(b"\n")[0]


def read_signal(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of an export, `name/n` in the order of their first messages; an edited message has
    its last text.

    ChatFormatError if no line is a message.
    """
    people, names, places = dict[str, str](), set[str](), dict[str, str]()
    chats: dict[str, list[Entry]] = {}
    faults: list[Fault] = []
    for place, line, frame in json_lines(data, name, faults):
        names.update(_names_of({"contact": frame.get("account")}))
        if recipient := fields(frame.get("recipient")):
            own_names = _names_of(recipient)
            names.update(own_names)
            people[str(recipient.get("id"))] = (
                ME if "self" in recipient else next(iter(own_names), "")
            )
        elif chat := fields(frame.get("chat")):
            places[str(chat.get("id"))] = str(chat.get("recipientId"))
        elif item := fields(frame.get("chatItem")):
            author = people.get(str(item.get("authorId"))) or "?"
            if entry := _entry(item, author):
                chats.setdefault(str(item.get("chatId")), []).append(entry)
            else:
                faults.append(Fault(place, "no_time: the message has no time", line))
    if not chats and not faults:
        raise ChatFormatError("no_signal: the file is no export of Signal with messages")
    for number, (ident, entries) in enumerate(chats.items(), 1):
        ordered, title = (
            sorted(entries, key=lambda entry: entry.at),
            people.get(places.get(ident, ""), ""),
        )
        yield Chat(f"{name}/{number}", ordered, frozenset(names), title=title)
    if faults:
        yield Chat(name, [], faults=faults)


def _names_of(recipient: Mapping[str, Any]) -> list[str]:
    """The names of a person, group or owner of the export, the one that people see first."""
    contact, group = fields(recipient.get("contact")), fields(recipient.get("group"))
    title = fields(fields(group.get("snapshot")).get("title")).get("title")
    nick = fields(contact.get("nickname"))
    pairs = [(nick.get("given"), nick.get("family")), *(map(contact.get, pair) for pair in _PAIRS)]
    full = (" ".join(str(part) for part in pair if part) for pair in pairs)
    return [
        str(n)
        for n in (title, *full, *map(contact.get, ("systemNickname", "username", "e164")))
        if n
    ]


def _entry(item: Mapping[str, Any], author: str) -> Entry | None:
    """A message or its deletion; a call or a change of a group is named by its kind. None without a
    time.
    """
    at, key = milliseconds(item.get("dateSent")), str(item.get("dateSent"))
    if at is None:
        return None
    if "remoteDeletedMessage" in item:
        return Entry(at, author, "", "deleted", key)
    if "updateMessage" in item:
        return Entry(at, "", f"{author}: {', '.join(fields(item['updateMessage']))}", "system", key)
    message = fields(item.get("standardMessage") or item.get("directStoryReplyMessage"))
    pointers = [fields(fields(file).get("pointer")) for file in list_of(message.get("attachments"))]
    words = message.get("text") or fields(message.get("textReply")).get("text")
    names = (f"[{pointer['fileName']}]" for pointer in pointers if pointer.get("fileName"))
    text = "\n".join(filter(None, (str(fields(words).get("body") or ""), *names)))
    entry = Entry(
        at, author, text, kind_of(text, author), key, is_edited=bool(item.get("revisions"))
    )
    parent = str(fields(message.get("quote")).get("targetSentTimestamp") or "")
    return entry._replace(answers=parent, reactions=len(list_of(message.get("reactions"))))


PROGRAM = Program(
    (".jsonl",), looks_like_signal, read_signal, True, "main.jsonl", ("metadata.json", "files")
)
