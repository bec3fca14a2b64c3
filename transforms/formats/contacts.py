"""Address books (vCard 2.1 to 4.0, RFC 6350) to Markdown."""

import quopri
import re
from collections.abc import Iterator
from typing import NamedTuple

from transforms.formats.converted import Converted, FormatError, heading, plain
from transforms.text.charsets import decode_text

_FOLDED = re.compile(r"\r?\n[ \t]")
_QUOTED = "QUOTED-PRINTABLE"
_ESCAPED = re.compile(r"\\([nN,;:\\])")
_PARTS = re.compile(r"(?<!\\);")
_SHOWN = {
    "NICKNAME": "Called",
    "ORG": "Organisation",
    "TITLE": "Title",
    "ROLE": "Role",
    "EMAIL": "Mail",
    "TEL": "Telephone",
    "IMPP": "Chat",
    "ADR": "Address",
    "URL": "Web",
    "BDAY": "Born",
    "CATEGORIES": "Groups",
}
"""The properties that are shown, in this order, and the words for them; a note is text."""


class _Property(NamedTuple):
    """A line of a card: its name, and the parts of its value."""

    name: str
    parts: list[str]

    @property
    def words(self) -> str:
        """The value on one line."""
        return ", ".join(" ".join(part.split()) for part in self.parts if part.strip())


def contacts_markdown(data: bytes) -> Converted:
    """An address book as Markdown: a section for each card with its addresses, numbers and notes.

    Pictures, sounds and keys are left out. FormatError if it holds none.
    """
    cards: list[list[_Property]] = []
    for row in _properties(decode_text(data, "utf-8").text):
        if row.name == "BEGIN":
            cards.append([])
        elif cards:
            cards[-1].append(row)
    sections = [section for card in cards if (section := _section(card))]
    if not sections:
        raise FormatError("unreadable: it has no card that begins with BEGIN:VCARD")
    return Converted("\n\n".join(sections) + "\n", [])


def _properties(text: str) -> Iterator[_Property]:
    """The lines of all cards; a value in quoted-printable is decoded, one in Base64 left out."""
    for line in _lines(_FOLDED.sub("", text)):
        head, colon, value = line.partition(":")
        name, *parameters = head.upper().split(";")
        is_binary = "BASE64" in head.upper() or "ENCODING=B" in parameters
        if not colon or is_binary or value.startswith("data:"):
            continue
        if _QUOTED in head.upper():
            charset = re.search(r"CHARSET=([\w-]+)", head, re.I)
            value = decode_text(
                quopri.decodestring(value.encode()), charset[1] if charset else "utf-8"
            ).text
        # A group (`item1.EMAIL`) says which lines belong together.
        parts = [_ESCAPED.sub(_unescaped, part) for part in _PARTS.split(value)]
        yield _Property(name.rpartition(".")[2], parts)


def _lines(text: str) -> Iterator[str]:
    """The lines of cards; a value in quoted-printable goes on behind each `=` at the end of a line."""
    begun: list[str] = []
    for line in text.splitlines():
        goes_on = bool(begun) or _QUOTED in line.partition(":")[0].upper()
        if goes_on and line.endswith("="):
            begun.append(line[:-1])
        else:
            yield "".join([*begun, line])
            begun = []
    yield "".join(begun)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] in "nN" else match[1]


def _section(card: list[_Property]) -> str:
    """A card as a section; empty if it names nobody and has no value that is shown."""
    by_name: dict[str, list[_Property]] = {}
    for row in card:
        if row.words:
            by_name.setdefault(row.name, []).append(row)
    names = [*by_name.get("FN", ()), *by_name.get("N", ()), *by_name.get("ORG", ())]
    lines = [
        f"{word}: {'; '.join(row.words for row in by_name[name])}"
        for name, word in _SHOWN.items()
        if name in by_name
    ]
    notes = ["\n".join(";".join(row.parts).splitlines()) for row in by_name.get("NOTE", ())]
    parts = ["  \n".join(plain(line) for line in lines), *map(plain, notes)]
    title = names[0].words if names else ""
    shown = [heading(2, title) if title else "", *parts]
    return "\n\n".join(part for part in shown if part)
