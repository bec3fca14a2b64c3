"""Signal: the JSON lines of `signal-cli --output=json receive` and of its daemon (man page
signal-cli-jsonrpc).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.extras.chats.transforms.sms import ME
from transforms.conversations import exports
from transforms.conversations.exports import Chat, Entry, Fault, fields, list_of
from transforms.conversations.programs import Program

_MENTION = "\ufffc"


def looks_like_signal_cli(head: bytes) -> bool:
    """True if the first line has the envelope of a message."""
    return head.startswith(b"{") and b'"envelope":{"source' in head.partition(b"\n")[0].replace(
        b" ", b""
    )


def read_signal_cli(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of the lines, `name/n` in the order in which they begin; edits and deletions change
    the earlier message.

    Receipts, calls and changes of groups are left out.
    """
    chats: dict[str, dict[str, Entry]] = {}
    titles, names, faults = dict[str, str](), set[str](), list[Fault]()
    reactions: dict[tuple[str, str], str] = {}
    for place, _, row in exports.json_lines(data, name, faults):
        envelope = fields((fields(row.get("params")) or row).get("envelope"))
        sent = fields(fields(envelope.get("syncMessage")).get("sentMessage"))
        edit = fields(sent.get("editMessage") or envelope.get("editMessage"))
        message = fields(edit.get("dataMessage")) or sent or fields(envelope.get("dataMessage"))
        group, reaction = fields(message.get("groupInfo")), fields(message.get("reaction"))
        people = _people(sent, "destination") if sent else _people(envelope, "source")
        names.update(people, _people(envelope, "source"))
        author = ME if sent else next(iter(people), "?")
        chat = str(group.get("groupId") or next(reversed(people), "?"))
        entries = chats.setdefault(chat, {})
        if group or not sent:
            titles[chat] = str(group.get("groupName") or author)
        if target := reaction.get("targetSentTimestamp"):
            reactions[str(target), author] = "" if reaction.get("isRemove") else chat
        elif not _change(entries, message, author, str(edit.get("targetSentTimestamp") or "")):
            faults.append(exports.no_time(place, row))
    counts = Counter((chat, target) for (target, _), chat in reactions.items())
    for number, (chat, entries) in enumerate((c, e) for c, e in chats.items() if e):
        ordered = sorted(entries.values(), key=lambda entry: entry.at)
        counted = [entry._replace(reactions=counts[chat, entry.key]) for entry in ordered]
        yield Chat(f"{name}/{number + 1}", counted, frozenset(names), title=titles.get(chat, ""))
    if faults:
        yield Chat(name, [], faults=faults)


def _change(
    entries: dict[str, Entry], message: Mapping[str, Any], author: str, edited: str
) -> bool:
    """Add a message to the entries of its chat, or delete or edit one there; False for a text
    without a time.

    `edited` is the key of the message that it edits, "" for a new one.
    """
    if deleted := fields(message.get("remoteDelete")).get("timestamp"):
        if entry := entries.get(str(deleted)):
            entries[entry.key] = entry._replace(text="", kind="deleted", files=())
    elif text := _text(message):
        key = edited or str(message.get("timestamp"))
        earlier = entries.get(key)
        at = earlier.at if earlier else exports.milliseconds(message.get("timestamp"))
        if at is None:
            return False
        answers = str(fields(message.get("quote")).get("id") or "")
        entries[key] = Entry(at, author, text, "message", key, answers, is_edited=bool(edited))
    return True


def _people(part: Mapping[str, Any], who: str) -> list[str]:
    """The name, the number and the id of who sent a message or got it, those that it has."""
    return [str(part[key]) for key in (f"{who}Name", f"{who}Number", f"{who}Uuid") if part.get(key)]


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message with the names of the people and files in it."""
    text = str(message.get("message") or "")
    for mention in map(fields, list_of(message.get("mentions"))):
        text = text.replace(_MENTION, f"@{mention.get('name') or mention.get('number')}", 1)
    files = (
        str(fields(file).get("filename") or "") for file in list_of(message.get("attachments"))
    )
    return "\n".join(filter(None, (text, *(f"[{file}]" for file in files if file))))


PROGRAM = Program((".jsonl", ".json"), looks_like_signal_cli, read_signal_cli)
