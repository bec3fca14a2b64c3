"""Text messages of a phone: the XML of SMS Backup & Restore."""

from collections.abc import Iterator
from xml.etree import ElementTree

from transforms.conversations.exports import Chat, Entry, Fault, kind_of, milliseconds
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

ME = "Me"
"""The author of messages from the phone itself, whose name the export lacks."""
_SENT = "2"
_SENDER = "137"
_UNKNOWN = ("", "(Unknown)", "null")


def looks_like_sms(head: bytes) -> bool:
    """True if an XML file begins as one of SMS Backup & Restore."""
    return b"<smses" in head


def read_sms(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chats of a backup, one for each number or group: `name/n` in the order in which they
    begin.

    ChatFormatError if the file is not XML of messages.
    """
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ChatFormatError(
            "no_sms: the XML declares entities, which a backup of messages does not"
        )
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise ChatFormatError(f"no_sms: the file is no XML ({error})") from error
    chats: dict[str, list[Entry]] = {}
    titles: dict[str, str] = {}
    names: set[str] = set()
    faults = []
    for number, row in enumerate(root):
        at, address = milliseconds(row.get("date")), row.get("address", "")
        if at is None or row.tag not in ("sms", "mms"):
            what = f"unknown: a {row.tag!r} is not a message"
            why = "no_time: the message has no time" if at is None else what
            faults.append(Fault(f"{name}:{number}", why, ElementTree.tostring(row)))
            continue
        contact = row.get("contact_name", "")
        titles[address] = address if contact in _UNKNOWN else contact
        names.update(filter(None, (*address.split("~"), *titles[address].split(", "))))
        text = row.get("body", "") if row.tag == "sms" else _text(row)
        sender = next((a.get("address") for a in row.iter("addr") if a.get("type") == _SENDER), "")
        author = ME if _SENT in (row.get("type"), row.get("msg_box")) else sender or titles[address]
        names.add(author)
        chats.setdefault(address, []).append(Entry(at, author, text, kind_of(text, author)))
    for number, (address, entries) in enumerate(chats.items(), 1):
        ordered = sorted(entries, key=lambda entry: entry.at)
        yield Chat(f"{name}/{number}", ordered, frozenset(names - {ME}), title=titles[address])
    if faults:
        yield Chat(name, [], faults=faults)


def _text(row: ElementTree.Element) -> str:
    """The texts of a message with parts, and the names of its files."""
    parts = row.iter("part")
    texts = (
        part.get("text")
        if part.get("ct") == "text/plain"
        else f"[{part.get('cl') or part.get('name')}]"
        for part in parts
        if part.get("ct") != "application/smil"
    )
    return "\n".join(text for text in texts if text not in (None, "null", "[null]", "[None]"))


PROGRAM = Program((".xml",), looks_like_sms, read_sms)
