"""Signal: the file `data.json` of a chat, JSON lines by the program signal-export (`sigexport`)
from Signal Desktop.
"""

import re
from collections.abc import Iterator

from dagster_project.extras.chats.transforms.sms import ME
from transforms.conversations import exports
from transforms.conversations.exports import Chat, Entry, Fault, NamedFile, fields, list_of
from transforms.conversations.programs import Program

_FIRST = re.compile(rb'\{"date":\s*"[0-9T:.+-]{19,32}",\s*"sender":\s*"')


def looks_like_signal_export(head: bytes) -> bool:
    """True if the first line begins with the time and the sender of a message."""
    return bool(_FIRST.match(head))


def read_signal_export(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a file, whose title is the name of its folder; times without a zone are in
    `timezone`.
    """
    entries, names, faults = list[Entry](), set[str](), list[Fault]()
    for place, _, row in exports.json_lines(data, name, faults):
        at, author = exports.moment(row.get("date")), str(row.get("sender") or "")
        if at is None:
            faults.append(exports.no_time(place, row))
            continue
        named = map(fields, list_of(row.get("attachments")))
        pairs = ((str(file.get("name") or ""), str(file.get("path") or "")) for file in named)
        files = [NamedFile(label, (place.removeprefix("./"),)) for label, place in pairs]
        text = "\n".join([str(row.get("body") or ""), *(f"[{file.name}]" for file in files)]).strip(
            "\n"
        )
        kind = "deleted" if row.get("deleted") else exports.kind_of(text, author)
        entry = Entry(exports.in_utc(at, timezone), author, text, kind, place)
        entries.append(
            entry._replace(reactions=len(list_of(row.get("reactions"))), files=tuple(files))
        )
        names.add(author)
    *_, folder, _ = ("", "", *name.split("/"))
    yield Chat(name, entries, frozenset(names - {ME, ""}), faults, title=folder)


_BESIDE = ("chat.md", "index.html", "media")
PROGRAM = Program(
    (".json",), looks_like_signal_export, read_signal_export, False, "data.json", _BESIDE
)
