"""The MIME tree of a mail: its headers, its body text, and the parts that are attached.

The email package parses; this module decides which parts are the body. Its compat32 policy is used
because the newer policies raise on headers that real mail has.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import MessageError
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import collapse_rfc2231_value
from functools import lru_cache
from typing import NamedTuple

from transforms.charsets import decode_text
from transforms.html_text import html_text
from transforms.mail_headers import MAX_FIELD_CHARS, header_text
from transforms.settings import MailSettings

MIME_FAULTS = (
    MessageError, LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError,
)  # fmt: skip
"""What the email package raises on broken mail; UnicodeError and binascii.Error are ValueErrors."""

KNOWN_HEADERS = frozenset(
    {
        "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "sender", "reply-to",
        "in-reply-to", "references", "mime-version", "content-type", "list-id", "delivered-to", "x-mailer",
    }
)  # fmt: skip
"""Headers of which a mail has at least one; what has none is no mail."""

_PARSER = BytesParser(policy=compat32)
# RFC 5322 section 2.2: a name, a colon, and a value that goes on as long as lines begin with a blank.
_FIELD = re.compile(rb"([!-9;-~]++)[ \t]*+:(.*\n(?:[ \t].*\n)*+)")
_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:|[ \t]|>?From ")
_KNOWN_LINE = re.compile(
    rb"(?:From|To|Cc|Subject|Date|Message-ID|In-Reply-To|References|MIME-Version|Content-\w+):", re.I
)
_BASE64_LINES = re.compile(rb"(?:[ \t]*+[A-Za-z0-9+/=]*+[ \t]*+(?:\r\n?|\n|\Z))*")
_BASE64_LINE = re.compile(rb"^[A-Za-z0-9+/]{60,}={0,2}\r?$", re.M)
_BASE64_NOISE = re.compile(rb"[^A-Za-z0-9+/]+")
_BROKEN_QP = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*\r?\n|[ \t]*\Z)")
_BOUNDARY_GUESS = re.compile(
    r"^--(\S[^\r\n]{0,69}?)[ \t]*\r?\n(?:[!-9;-~]+:.*\n(?:[ \t].*\n)*){0,20}Content-", re.M
)
_PATH = re.compile(r"[/\\]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
MAX_FILENAME_CHARS = 255


class Part(NamedTuple):
    """An attached part before its content is looked at."""

    position: int
    filename: str | None
    declared_type: str
    charset: str | None
    data: bytes
    text: str | None
    reason: str | None


@dataclass
class MailContent:
    """The body of a mail, the parts attached to it, and what was broken."""

    body: str = ""
    body_format: str = "none"
    charset_outcome: str = "none"
    parts: list[Part] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    def note(self, defect: str) -> None:
        """Record a defect once."""
        if defect not in self.defects:
            self.defects.append(defect)


class Headers(NamedTuple):
    """Parsed headers, the bytes behind them, and what was broken."""

    message: Message
    fields: dict[str, list[str]]
    body_start: int
    defects: list[str]


class _Leaf(NamedTuple):
    position: int
    part: Message
    alternative: int | None
    depth: int


def read_headers(data: bytes) -> Headers:
    """The header block of `data`; a line in it that is no header is taken for a folded one.

    `fields` maps lower-case names to their raw values in order, non-ASCII bytes as surrogate escapes.
    """
    head_end, body_start = _head_end(data)
    head = data[:head_end]
    fields: dict[str, list[str]] = {}
    position = 0
    while (line := _FIELD.match(head, position)) is not None:
        position = line.end()
        name, value = line[1].decode("ascii").lower(), line[2]
        fields.setdefault(name, []).append(value.decode("ascii", "surrogateescape").strip())
    if position == len(head):
        return Headers(_mime_headers(fields), fields, body_start, [])
    return _broken_headers(head, body_start)


def _head_end(data: bytes) -> tuple[int, int]:
    """Where the header block ends (behind its last line feed) and where the body starts."""
    bare = data.find(b"\n\n")
    full = data.find(b"\n\r\n", 0, bare + 1 if bare >= 0 else len(data))
    if full >= 0:
        return full + 1, full + 3
    return (bare + 1, bare + 2) if bare >= 0 else (len(data), len(data))


def _mime_headers(fields: dict[str, list[str]]) -> Message:
    message = Message(policy=compat32)
    for name, values in fields.items():
        if name.startswith("content-"):
            message[name] = values[0][:MAX_FIELD_CHARS]
    return message


def _broken_headers(head: bytes, body_start: int) -> Headers:
    """Headers of a block in which some line is none: folded text without its blank, or already the body."""
    if b"\n" not in head and b"\r" in head:
        head = head.replace(b"\r", b"\n")
    lines = head.splitlines(keepends=True)
    broken = next((n for n, line in enumerate(lines) if not _HEADER_LINE.match(line)), len(lines))
    defects: list[str] = []
    if broken and any(_KNOWN_LINE.match(line) for line in lines[broken:]):
        defects.append("header_line_broken")
        lines = [line if _HEADER_LINE.match(line) else b" " + line for line in lines]
    elif broken < len(lines):
        defects.append("missing_header_body_separator")
        lines = lines[:broken]
        body_start = sum(map(len, lines))
    parsed = _PARSER.parsebytes(b"".join(lines), headersonly=True)
    fields: dict[str, list[str]] = {}
    for name, value in parsed.raw_items():
        fields.setdefault(name.lower(), []).append(str(value))
    return Headers(_mime_headers(fields), fields, body_start, defects)


def read_content(data: bytes, headers: Headers, settings: MailSettings) -> MailContent:
    """Body and attached parts of the mail `data`; what is broken is repaired and noted, never raised.

    Only a mail of several parts goes through the full parser. The body is the unnamed text/plain
    parts in order, in multipart/alternative instead of their HTML form; HTML that stands alone is
    converted. Named parts, parts that ask to be attachments, and everything else are attached.
    """
    content = MailContent(defects=list(headers.defects))
    kind = _content_type(headers.message)
    if not kind.startswith(("multipart/", "message/")):
        payload = data[headers.body_start :]
        _read_single(payload, kind, headers, content)
        return content
    try:
        tree = _parsed_tree(data, headers, content)
    except RecursionError:
        content.note("mime_too_deep")
        content.parts.append(Part(0, None, kind, None, data[headers.body_start :], None, "nested too deeply"))
        return content
    _read_tree(tree, content, settings, 0)
    return content


def _read_single(payload: bytes, kind: str, headers: Headers, content: MailContent) -> None:
    encoding = _transfer_encoding(headers.message)
    decoded, faults = transfer_decoded(payload, encoding, kind)
    for fault in faults:
        content.note(fault)
    if kind.startswith("text/"):
        _add_text(content, decoded, kind, headers.message)
    elif decoded.strip():
        content.parts.append(
            Part(0, _filename(headers.message), kind, _charset(headers.message), decoded, None, None)
        )


def _parsed_tree(data: bytes, headers: Headers, content: MailContent) -> Message:
    mime = "".join(f"{name}: {value}\n" for name, value in headers.message.raw_items())
    tree = message_from_bytes(mime.encode("ascii", "surrogateescape") + b"\n" + data[headers.body_start :])
    payload = tree.get_payload()
    kind = _content_type(tree)
    if kind.startswith("multipart/") and isinstance(payload, str):
        guess = _BOUNDARY_GUESS.search(payload)
        if guess is not None:
            boundary = guess[1].encode("ascii", "replace").decode()
            mime = f'Content-Type: {kind}; boundary="{boundary}"\n\n'
            again = message_from_bytes(mime.encode() + data[headers.body_start :])
            if again.is_multipart():
                content.note("multipart_without_boundary")
                return again
    return tree


def _read_tree(tree: Message, content: MailContent, settings: MailSettings, first: int) -> None:
    leaves = list(_leaves(tree, settings, content, first))
    # An alternative that has text needs no second rendering of it.
    has_plain = {
        leaf.alternative
        for leaf in leaves
        if leaf.alternative is not None
        and _content_type(leaf.part) == "text/plain"
        and _is_body(leaf)
        and _payload(leaf.part).strip()
    }
    for leaf in leaves:
        kind = _content_type(leaf.part)
        if kind == "text/html" and _is_body(leaf) and leaf.alternative in has_plain:
            continue
        if kind.startswith("message/") and leaf.part.is_multipart():
            content.parts.append(_inner_message(leaf, kind, content, settings))
            continue
        if kind.startswith("multipart/"):
            content.note("multipart_without_boundary")
        for defect in () if kind.startswith("multipart/") else leaf.part.defects:
            content.note(_defect_code(defect))
        data, faults = transfer_decoded(_payload(leaf.part), _transfer_encoding(leaf.part), kind)
        for fault in faults:
            content.note(fault)
        if _is_body(leaf):
            _add_text(content, data, kind, leaf.part)
        else:
            content.parts.append(
                Part(leaf.position, _filename(leaf.part), kind, _charset(leaf.part), data, None, None)
            )


def _defect_code(defect: Exception) -> str:
    """The email package's name of a defect in the form of the codes used here."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(defect).__name__.removesuffix("Defect")).lower()


def _leaves(tree: Message, settings: MailSettings, content: MailContent, first: int) -> Iterator[_Leaf]:
    """The parts that hold no others, in order, without recursion; messages inside count as one part."""
    stack: list[tuple[Message, int | None, int]] = [(tree, None, 0)]
    index = first - 1
    while stack:
        part, alternative, depth = stack.pop()
        index += 1
        if index >= settings.max_mime_parts:
            content.note("mime_too_many_parts")
            return
        kind = _content_type(part)
        if part.is_multipart() and not kind.startswith("message/"):
            if depth >= settings.max_mime_depth:
                content.note("mime_too_deep")
                continue
            inside = index if kind == "multipart/alternative" else alternative
            for child in reversed(_children(part)):
                stack.append((child, inside, depth + 1))
            continue
        yield _Leaf(index, part, alternative, depth)
        if kind.startswith("message/") and part.is_multipart():
            index += sum(1 for _ in part.walk()) - 1


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _is_body(leaf: _Leaf) -> bool:
    """Whether a part is shown as the mail's text; a multipart that could not be taken apart is."""
    if not _content_type(leaf.part).startswith(("text/plain", "text/html", "multipart/")):
        return False
    if leaf.depth == 0:
        return True
    return _disposition(leaf.part) != "attachment" and _filename(leaf.part) is None


def _inner_message(leaf: _Leaf, kind: str, content: MailContent, settings: MailSettings) -> Part:
    """A mail inside the mail, as text: its main headers, then its body; its own parts are attached too."""
    texts: list[str] = []
    for inner in _children(leaf.part):
        fields = {name.lower(): header_text(str(value)) for name, value in inner.raw_items()}
        shown = ("from", "date", "subject") if kind == "message/rfc822" else tuple(fields)
        lines = [f"{name.capitalize()}: {fields[name]}\n" for name in shown if name in fields]
        inside = MailContent()
        if leaf.depth + 1 < settings.max_mime_depth and kind != "message/delivery-status":
            nested = settings.model_copy(update={"max_mime_depth": settings.max_mime_depth - leaf.depth - 1})
            _read_tree(inner, inside, nested, leaf.position + 1)
        content.parts.extend(inside.parts)
        for defect in inside.defects:
            content.note(defect)
        texts.append("".join(lines) + ("\n" + inside.body if inside.body else ""))
    return Part(leaf.position, _filename(leaf.part), kind, None, b"", "\n".join(texts), None)


def _add_text(content: MailContent, data: bytes, kind: str, part: Message) -> None:
    decoded = decode_text(data, _charset(part))
    text = decoded.text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if decoded.had_nul:
        content.note("nul_removed")
    if decoded.outcome == "replaced" or decoded.outcome.startswith("detected"):
        content.note("charset_guessed")
    body_format = "plain"
    if kind == "text/html":
        text, body_format = html_text(text), "html"
    elif _content(str(part.get("content-type", "")), part.get_default_type()).flowed:
        body_format = "flowed"
    if not text:
        return
    if not content.body.strip():
        content.body_format, content.charset_outcome = body_format, decoded.outcome
    if content.body and not content.body.endswith("\n"):
        content.body += "\n"
    content.body += text


def transfer_decoded(payload: bytes, encoding: str, kind: str) -> tuple[bytes, list[str]]:
    """`payload` without its transfer encoding (RFC 2045 section 6), and what was broken in it.

    Plain text that a list server put behind base64 is kept behind the decoded text. Payload that is
    not in the encoding it declares is returned as it is; an unknown encoding is no encoding.
    """
    if encoding in ("", "7bit", "8bit", "binary"):
        return payload, []
    if encoding == "quoted-printable":
        faults = ["quoted_printable_broken"] if _BROKEN_QP.search(payload) else []
        return binascii.a2b_qp(payload), faults
    if encoding == "base64":
        return _base64_decoded(payload, kind)
    if encoding in ("x-uuencode", "uuencode", "uue", "x-uue"):
        return _uu_decoded(payload)
    return payload, ["transfer_encoding_unknown"]


def _base64_decoded(payload: bytes, kind: str) -> tuple[bytes, list[str]]:
    clean = _BASE64_LINES.match(payload)
    end = clean.end() if clean is not None else 0
    tail = payload[end:] if end < len(payload) else b""
    if not payload[:end].strip() and tail.strip():
        return payload, ["base64_broken"]
    if _BASE64_LINE.search(tail):  # noise in the middle, not text at the end
        end, tail = len(payload), b""
    body, padding, behind = payload[:end].partition(b"=")
    faults = ["base64_broken"] if _BASE64_NOISE.sub(b"", behind) else []
    digits = _BASE64_NOISE.sub(b"", body)
    if len(digits) % 4 == 1:
        digits = digits[:-1]
        faults = ["base64_broken"]
    elif len(digits) % 4 and not padding:
        faults = ["base64_broken"]
    data = binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))
    if tail.strip():
        faults.append("base64_trailing_text")
        data += (b"" if data.endswith(b"\n") else b"\n") + tail if kind.startswith("text/") else b""
    return data, faults


def _uu_decoded(payload: bytes) -> tuple[bytes, list[str]]:
    out: list[bytes] = []
    begin = re.search(rb"^begin [0-7]{3,4} .*\r?\n", payload, re.M)
    if begin is None:
        return payload, ["uuencode_broken"]
    for line in payload[begin.end() :].splitlines():
        if line.strip() in (b"end", b"`", b""):
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders pad the line: its first character says how many bytes it holds.
            length = ((line[0] - 32) & 63) * 4 // 3 + 2
            try:
                out.append(binascii.a2b_uu(line[:length]))
            except binascii.Error:
                return payload, ["uuencode_broken"]
    return b"".join(out), []


def _payload(part: Message) -> bytes:
    """The undecoded payload of a part that holds no others."""
    payload = part.get_payload()
    if isinstance(part._payload, str):  # type: ignore[attr-defined]
        payload = part._payload  # type: ignore[attr-defined]
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _content_type(part: Message) -> str:
    return _content(str(part.get("content-type", "")), part.get_default_type()).kind


class _Content(NamedTuple):
    kind: str
    charset: str | None
    flowed: bool


@lru_cache(maxsize=4096)
def _content(raw: str, default: str) -> _Content:
    """What a Content-Type header says; most mails of an archive share a handful of them."""
    part = Message(policy=compat32)
    part.set_default_type(default)
    if raw:
        part["Content-Type"] = raw
    try:
        kind = part.get_content_type()
    except MIME_FAULTS:
        kind = "text/plain"
    return _Content(kind, _param(part, "charset") or None, _param(part, "format").lower() == "flowed")


def _transfer_encoding(part: Message) -> str:
    raw = str(part.get("content-transfer-encoding", "")).lower()
    return raw.partition(";")[0].partition("(")[0].strip(" \t\r\n\"'")


def _disposition(part: Message) -> str | None:
    try:
        return part.get_content_disposition()
    except MIME_FAULTS:
        return None


def _param(part: Message, name: str) -> str:
    try:
        value = part.get_param(name, "")
        return collapse_rfc2231_value(value) if isinstance(value, tuple) else str(value or "")
    except MIME_FAULTS:
        return ""


def _charset(part: Message) -> str | None:
    return _content(str(part.get("content-type", "")), part.get_default_type()).charset


def _filename(part: Message) -> str | None:
    """The name a part goes by, without directories, control characters and what lies over 255 characters."""
    try:
        raw = part.get_filename()
    except MIME_FAULTS:
        raw = None
    if not raw:
        return None
    name = _PATH.split(header_text(raw))[-1]
    name = _UNPRINTABLE.sub("", name).strip(" .\t\"'") if name.strip(". ") else ""
    return name[:MAX_FILENAME_CHARS] or None
