"""The class of an attachment by its content, and its text or the reason why the text is missing."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import NamedTuple

from transforms.formats.converted import Converted, FormatError
from transforms.formats.kinds import document_kind
from transforms.mail.html_text import html_text
from transforms.text.charsets import decode_text
from transforms.toml_file import patterns

_PATTERNS = patterns(__name__, "patterns.toml")
_MAX_RATIO = 250
"""Ratio of decompressed to stored bytes above which an output over _BOMB_FLOOR is a bomb."""
_BOMB_FLOOR = 16 << 20
"""Bytes of output up to which no compression ratio is suspicious."""
_BLOCK = 1 << 20
_XZ_MEMORY = 256 << 20
_MAX_LAYERS = 3

_SIGNATURES = {
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
}
_ARMOUR = re.compile(r"\s*-----BEGIN (PGP [A-Z ]+)-----\n.*-----END \1-----\s*", re.S)
_BINARY = (
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"BM", "image"),
    (b"%PDF", "PDF"),
    (b"\x7fELF", "program"),
    (b"{\\rtf", "RTF"),
    (b"\xd0\xcf\x11\xe0", "office document"),
    (b"%!PS", "PostScript"),
    (b"OggS", "media"),
    (b"ID3", "media"),
    (b"RIFF", "media"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
)
_ARCHIVES = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!", "rar"),
    (b"\x1f\x9d", "compress"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"MSCF", "cab"),
    (b"!<arch>\n", "ar"),
)
_DOCUMENT_TYPES = re.compile(r"opendocument|openxmlformats|epub|java-archive|android")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

# A line feed is found ten times as fast as the start of a line.
_PATCH = re.compile(rf"\n(?:{_PATTERNS['patch']})", re.M)
_CODE_NAMES = re.compile(_PATTERNS["code_names"], re.I)
_LOG_NAMES = re.compile(
    r"\.(?:log|out|err|dmesg|trace|strace|diffs)(?:\.\d+)?\Z|dmesg|strace", re.I
)
# Generated files (kernel configurations, lists of dependencies) are build artefacts, like logs.
_GENERATED = re.compile(
    r"(?i)\b(?:automatically generated|generated (?:automatically|file)|do not edit)\b"
)
_LOG_LINE = re.compile(rf"\A\s*(?:{_PATTERNS['log_line']})")
_CODE_LINE = re.compile(rf"\A\s*(?:{_PATTERNS['code_line']})")
_SHAPE_LINES = 400
_SHAPE_WIDTH = 200


class AttachmentText(NamedTuple):
    """Class of an attachment (patch, code, log, text, archive, other), its text or the reason for
    none, and its picture.
    """

    content_class: str
    text: str | None
    reason: str | None
    had_nul: bool = False
    page_starts: list[int] | None = None
    picture: str | None = None


Convert = Callable[[bytes, str], Converted]
"""The Markdown of a file of one of `CONVERTED_FORMATS`; FormatError with the reason if it cannot be
read.
"""


def attachment_text(
    data: bytes, *, filename: str | None, declared_type: str, charset: str | None, max_bytes: int
) -> AttachmentText:
    """Class and text of the decoded bytes of one attached part.

    The content decides, not the declared type: patches travel as octet-stream. A single file under
    gzip, bzip2 or xz is decompressed, within `max_bytes` and a ratio of sizes; tar
    and zip are archives and have no text. Line ends become LF.
    """
    if declared_type in _SIGNATURES:
        return AttachmentText("other", None, "signature")
    if not data:
        return AttachmentText("text", None, "empty")
    name = filename or ""
    for _ in range(_MAX_LAYERS):
        if not data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")):
            break
        data, reason = _decompressed(data, max_bytes)
        name = re.sub(r"\.(?:gz|bz2|xz|z)\Z", "", name, flags=re.I)
        charset = None
        if reason is not None:
            return AttachmentText("archive", None, reason)
    binary = _binary_kind(data, declared_type)
    if binary is not None:
        return binary
    decoded = decode_text(data, charset)
    if decoded.outcome == "replaced" and decoded.text.count("\ufffd") * 50 > len(decoded.text):
        return AttachmentText("other", None, "binary: no charset fits")
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    if declared_type == "application/pgp-encrypted" or _ARMOUR.fullmatch(text):
        return AttachmentText(
            "other", None, "armour: OpenPGP keys and encrypted text have no words"
        )
    if declared_type == "text/html" or re.search(r"\.[sx]?html?\Z", name, re.I):
        text = html_text(text)
        reason = None if text else "empty: the HTML shows no text"
        return AttachmentText("text", text or None, reason, decoded.had_nul)
    return AttachmentText(text_class(text, name), text, None, decoded.had_nul)


def document_text(
    data: bytes, filename: str | None, declared_type: str, convert: Convert
) -> AttachmentText | None:
    """The text of an attached document, or the reason for none; None if it is not a document."""
    kind = document_kind(data, filename or "", declared_type)
    if kind is None:
        return None
    try:
        converted = convert(data, kind)
    except FormatError as fault:
        return AttachmentText("other", None, str(fault))
    kind = "other" if converted.picture else "text"
    return AttachmentText(
        kind, converted.text, None, False, converted.page_starts, converted.picture
    )


def text_class(text: str, filename: str) -> str:
    """patch, code, log or text, by the marks of a diff, then the name, then the shape of the lines.

    >>> text_class("--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n", "fix.txt"), text_class("Hello.", "server.log")
    ('patch', 'log')
    """
    if _PATCH.search("\n" + text):
        return "patch"
    if _LOG_NAMES.search(filename):
        return "log"
    if _CODE_NAMES.search(filename):
        return "code"
    if _GENERATED.search(text, 0, 400):
        return "log"
    if text.startswith("#!"):
        return "code"
    lines = [
        line[:_SHAPE_WIDTH]
        for line in text[: _SHAPE_LINES * 100].split("\n")[:_SHAPE_LINES]
        if line.strip()
    ]
    if sum(1 for line in lines if _LOG_LINE.match(line)) * 2 > len(lines):
        return "log"
    if len(lines) > 3 and sum(1 for line in lines if _CODE_LINE.match(line)) * 2 > len(lines):
        return "code"
    return "text"


def _binary_kind(data: bytes, declared_type: str) -> AttachmentText | None:
    for magic, kind in _ARCHIVES:
        if data.startswith(magic):
            if _DOCUMENT_TYPES.search(declared_type):
                return AttachmentText("other", None, "binary: office document")
            return AttachmentText("archive", None, f"archive: {kind}")
    if data[257:262] == b"ustar":
        return AttachmentText("archive", None, "archive: tar")
    for magic, kind in _BINARY:
        if data.startswith(magic) and (kind != "image" or b"\0" in data):
            return AttachmentText("other", None, f"binary: {kind}")
    if declared_type.startswith(("image/", "audio/", "video/", "font/")):
        return AttachmentText("other", None, f"binary: {declared_type.partition('/')[0]}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    head = data[:8192]
    if head.count(0) > 1 or len(_CONTROL.findall(head)) * 20 > len(head):
        return AttachmentText("other", None, "binary: control characters")
    return None


def _decompressed(data: bytes, limit: int) -> tuple[bytes, str | None]:
    """The first file in compressed `data`, or the reason why it is missing; truncated data yields
    its start.
    """
    out = bytearray()
    rest = data
    try:
        while rest.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")):
            rest = _one_member(rest, out, len(data), limit)
            if len(out) > limit:
                return b"", f"compression bomb: more than {limit} bytes inside {len(data)}"
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        if not out:
            return b"", f"broken archive: {error}"
    if _is_bomb(out, len(data)):
        return b"", f"compression bomb: more than {_MAX_RATIO} times {len(data)} bytes"
    return bytes(out), None


def _one_member(data: bytes, out: bytearray, stored: int, limit: int) -> bytes:
    """Append one compressed member to `out`, stopping just above the limits; returns the bytes
    after it.
    """
    if data.startswith(b"\x1f\x8b"):
        gzip = zlib.decompressobj(wbits=31)
        block = data
        while not gzip.eof and len(out) <= limit and not _is_bomb(out, stored):
            output = gzip.decompress(block, _BLOCK)
            out += output
            block = gzip.unconsumed_tail
            if not output and not block:
                return b""
        return gzip.unused_data if gzip.eof else b""
    other = (
        bz2.BZ2Decompressor()
        if data.startswith(b"BZh")
        else lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    )
    block = data
    while not other.eof and len(out) <= limit and not _is_bomb(out, stored):
        output = other.decompress(block, _BLOCK)
        out += output
        block = b""
        if not output and other.needs_input:
            return b""
    return other.unused_data if other.eof else b""


def _is_bomb(out: bytearray, stored: int) -> bool:
    return len(out) > _BOMB_FLOOR and len(out) > stored * _MAX_RATIO
