"""Which reader of a format a file needs, by how it begins."""

import re

from transforms.settings.documents import CONVERTED_FORMATS, DOCUMENT_FORMATS

CALENDAR = "BEGIN:VCALENDAR"
"""The beginning of a calendar."""
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*")
_BEGINNINGS = {
    "asciidoc": re.compile(b""),
    "web_archive": re.compile(b""),
    "notebook": re.compile(rb"\s*\{"),
    "contacts": re.compile(rb"(?:\xef\xbb\xbf)?\s*BEGIN:VCARD", re.I),
}
"""How a file of a format begins that is known by its name."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_DECLARED = (
    ("wordprocessingml", "docx"),
    ("presentationml", "pptx"),
    ("spreadsheetml", "sheet"),
    ("epub", "epub"),
    ("opendocument.spreadsheet", "sheet"),
    ("opendocument", "opendocument"),
)


def document_kind(data: bytes, filename: str, declared_type: str) -> str | None:
    """The format of an attached document by how it begins, of zip files also by name or declared
    type; None of others.

    >>> document_kind(b"%PDF-1.7", "plan", ""), document_kind(b"GIF89a", "a.pdf", "")
    ('pdf', 'picture')
    """
    if data.startswith(b"%PDF"):
        return "pdf"
    if data.startswith(_PICTURES) or (data.startswith(b"RIFF") and data[8:12] == b"WEBP"):
        return "picture"
    if data.startswith(CALENDAR.encode()):
        return "calendar"
    by_name = DOCUMENT_FORMATS.get(filename.rpartition(".")[2].lower())
    beginning = _BEGINNINGS.get(by_name or "")
    if beginning and beginning.match(data):
        return by_name
    if data.startswith(_OLD_OFFICE):
        return by_name if by_name == "sheet" else None
    if not data.startswith(b"PK\x03\x04"):
        return None
    declared = next((kind for mark, kind in _DECLARED if mark in declared_type), None)
    return by_name if by_name in CONVERTED_FORMATS else declared
