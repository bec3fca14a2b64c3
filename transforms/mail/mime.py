"""The MIME tree of a mail: its headers, its body text, and the parts that are attached.

The email package parses; this module decides which parts are the body. Its compat32 policy is used
because the newer policies raise on headers that real mail has.
"""

from __future__ import annotations

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

from transforms.mail.headers import MAX_FIELD_CHARS, header_text
from transforms.mail.html_text import html_text
from transforms.mail.regular_multipart import regular_parts
from transforms.mail.transfer_encodings import transfer_decoded
from transforms.settings.mail import MailSettings
from transforms.text.charsets import decode_text

MIME_FAULTS = (
    MessageError, LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError,
)  # fmt: skip
"""What the email package raises on broken mail; UnicodeError and binascii.Error are ValueErrors."""

KNOWN_HEADERS = frozenset(
    {
        "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "sender", "reply-to",
        "in-reply-to", "references", "mime-version", "content-type", "list-id", "delivered-to",
    }
)  # fmt: skip
"""Headers of which a mail has at least one; what has none is no mail."""

_READ_HEADERS = frozenset(
    {
        "from", "subject", "date", "message-id", "received", "in-reply-to", "references",
        "content-type", "content-transfer-encoding", "content-disposition",
    }
)  # fmt: skip
"""Headers that something is made of."""

_PARSER = BytesParser(policy=compat32)
# RFC 5322 section 2.2: a name, a colon, and a value that goes on as long as lines begin with a blank.
_BLOCK = re.compile(rb"(?:[!-9;-~]++:.*+\n(?:[ \t].*+\n)*+)++(?=\r?\n|\Z)")
# The names of the headers that are read begin with one of these letters; the longest has 25.
_FIELDS = re.compile(rb"\n([CcDdFfIiMmRrSs][A-Za-z-]{1,24}+):(.*+(?:\n[ \t].*+)*+)")
_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:|[ \t]|>?From ")
_BLANKS_BEFORE_COLON = re.compile(rb"\A([!-9;-~]+)[ \t]+(?=:)")
_ENVELOPES = (b"From ", b">From ")
_BLANK_LINE = re.compile(rb"\r?\n")
_REGULAR_DEPTH = 8
"""Nesting of multiparts beyond which a mail is unusual."""
_KNOWN_LINE = re.compile(
    rb"(?:From|To|Cc|Subject|Date|Message-ID|In-Reply-To|References|MIME-Version|Content-\w+):", re.I
)
_BOUNDARY_GUESS = re.compile(
    r"^--(\S[^\r\n]{0,69}?)[ \t]*\r?\n(?:[!-9;-~]+:.*\n(?:[ \t].*\n)*){0,20}Content-", re.M
)
_NOT_TYPE = re.compile(r"[^!-~]+")
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
    """The headers by lower-case name, where the bytes behind them start, and what was broken."""

    fields: dict[str, list[str]]
    body_start: int
    defects: list[str]


class _Declared(NamedTuple):
    """What a Content-Type header says."""

    kind: str
    charset: str | None
    body_format: str


class _Leaf(NamedTuple):
    """A part that holds no others, the multipart/alternative it stands in, and how deep."""

    position: int
    part: Message
    declared: _Declared
    alternative: int | None
    depth: int


def read_headers(data: bytes, *, quick: bool = True) -> Headers:
    """The header block of `data`; a line in it that is no header is taken for a folded one.

    `fields` maps the lower-case names of the headers that something is made of to their raw values in
    order, non-ASCII bytes as surrogate escapes; where a mail has none, those it is known by. A block in
    which every line is as it must be is read by patterns, any other one by the email package;
    `quick=False` gives all to the email package.
    """
    if quick and (block := _BLOCK.match(data)) is not None:
        head = block[0]
        if b"\r" not in head or head.count(b"\r") == head.count(b"\r\n"):
            fields = _regular_fields(head)
            if not KNOWN_HEADERS.isdisjoint(fields):
                blank_line = 2 if data.startswith(b"\r", block.end()) else 1
                return Headers(fields, block.end() + blank_line, [])
    return _parsed_headers(data)


@lru_cache(maxsize=8192)
def _read_name(name: bytes) -> str | None:
    """The lower-case name of a header that is read, None for the others."""
    lower = name.decode("ascii").lower()
    return lower if lower in _READ_HEADERS else None


def _regular_fields(head: bytes) -> dict[str, list[str]]:
    """The headers that are read, of a block that is nothing but headers and folded lines."""
    fields: dict[str, list[str]] = {}
    for name, value in _FIELDS.findall(b"\n" + head):
        known = _read_name(name)
        if known is None:
            continue
        text = value.decode("ascii", "surrogateescape").strip()
        if known in fields:
            fields[known].append(text)
        else:
            fields[known] = [text]
    return fields


def _head_end(data: bytes) -> tuple[int, int]:
    """Where the header block ends (behind its last line feed) and where the body starts."""
    bare = data.find(b"\n\n")
    full = data.find(b"\n\r\n", 0, bare + 1 if bare >= 0 else len(data))
    if full >= 0:
        return full + 1, full + 3
    return (bare + 1, bare + 2) if bare >= 0 else (len(data), len(data))


def _parsed_headers(data: bytes) -> Headers:
    """Headers by the email package, lines mended that it would stop at.

    A line that is none is folded text without its blank if known headers follow, else already the body.
    """
    head_end, body_start = _head_end(data)
    lines = data[:head_end].splitlines(keepends=True)
    blank = next((n for n, line in enumerate(lines) if not line.strip(b"\r\n")), None)
    if blank is not None:
        body_start = sum(map(len, lines[: blank + 1]))
        lines = lines[:blank]
    broken = next((n for n, line in enumerate(lines) if not _HEADER_LINE.match(line)), len(lines))
    defects: list[str] = []
    if broken and any(_KNOWN_LINE.match(line) for line in lines[broken:]):
        defects.append("header_line_broken")
        lines = [line if _HEADER_LINE.match(line) else b" " + line for line in lines]
    elif broken < len(lines):
        defects.append("missing_header_body_separator")
        body_start = sum(map(len, lines[:broken]))
        lines = lines[:broken]
    whole = b"".join(
        _BLANKS_BEFORE_COLON.sub(rb"\1", line) for line in lines if not line.startswith(_ENVELOPES)
    )
    fields: dict[str, list[str]] = {}
    for name, value in _PARSER.parsebytes(whole, headersonly=True).raw_items():
        if name.lower() in _READ_HEADERS or name.lower() in KNOWN_HEADERS:
            fields.setdefault(name.lower(), []).append(str(value).strip())
    return Headers(fields, body_start, defects)


def _mime_headers(fields: dict[str, list[str]]) -> Message:
    """A part that has the Content headers of the mail and nothing else."""
    message = Message(policy=compat32)
    for name, values in fields.items():
        if name.startswith("content-"):
            message[name] = values[0][:MAX_FIELD_CHARS]
    return message


def _mime_header(fields: dict[str, list[str]], name: str) -> str:
    """The first header of that name as the email package gives it out, empty where there is none."""
    if name not in fields:
        return ""
    value = fields[name][0][:MAX_FIELD_CHARS]
    return value if value.isascii() else value.encode("ascii", "surrogateescape").decode("ascii", "replace")


def read_content(data: bytes, headers: Headers, settings: MailSettings, *, quick: bool = True) -> MailContent:
    """Body and attached parts of the mail `data`; what is broken is repaired and noted, never raised.

    Only a mail whose parts are nested or marked in an unusual way goes through the email package,
    with `quick=False` every mail. The body is the unnamed text/plain parts in order, in
    multipart/alternative instead of their HTML form; HTML that stands alone is converted. Named
    parts, parts that ask to be attachments, and everything else are attached.
    """
    content = MailContent(defects=list(headers.defects))
    declared = _declared(_mime_header(headers.fields, "content-type"), "text/plain")
    if quick and not declared.kind.startswith(("multipart/", "message/")):
        encoding = _encoding_name(_mime_header(headers.fields, "content-transfer-encoding"))
        payload = data[headers.body_start :]
        if declared.kind.startswith("text/"):
            _add_text(content, _decoded(payload, encoding, declared.kind, content), declared)
        else:
            leaf = _Leaf(0, _mime_headers(headers.fields), declared, None, 0)
            _attach(content, leaf, _decoded(payload, encoding, declared.kind, content))
        return content
    try:
        tree = _regular_tree(data, headers) if quick else None
        if tree is None:
            tree = _parsed_tree(data, headers, content)
    except RecursionError:
        content.note("mime_too_deep")
        rest = data[headers.body_start :]
        content.parts.append(Part(0, None, declared.kind, None, rest, None, "nested too deeply"))
        return content
    _read_tree(tree, content, settings, 0)
    return content


def _decoded(payload: bytes, encoding: str, kind: str, content: MailContent) -> bytes:
    """`payload` without its transfer encoding, its faults noted in `content`."""
    data, faults = transfer_decoded(payload, encoding, kind)
    for fault in faults:
        content.note(fault)
    return data


def _attach(content: MailContent, leaf: _Leaf, data: bytes) -> None:
    """Attach a part; a mail that is nothing but an empty part has none."""
    if leaf.depth or data.strip():
        kind, charset = leaf.declared.kind, leaf.declared.charset
        content.parts.append(Part(leaf.position, _filename(leaf.part), kind, charset, data, None, None))


def _regular_tree(data: bytes, headers: Headers) -> Message | None:
    """The parts of a mail if its multiparts are all built as they must be, else None."""
    payload = data[headers.body_start :]
    if b"\r" in payload and payload.count(b"\r") != payload.count(b"\r\n"):
        return None
    message = _mime_headers(headers.fields)
    return message if _with_parts(message, payload, 0) else None


def _with_parts(message: Message, payload: bytes, depth: int) -> bool:
    """Give `message` the parts or the text in `payload`; False where that takes a full parser."""
    kind = _declared_by(message).kind
    if not kind.startswith(("multipart/", "message/")):
        message.set_payload(payload.decode("ascii", "surrogateescape"))
        return True
    boundary = message.get_boundary()
    if depth > _REGULAR_DEPTH or kind.startswith("message/") or kind == "multipart/digest" or not boundary:
        return False
    parts = regular_parts(payload, boundary.encode("ascii", "replace"))
    if parts is None:
        return False
    for part in parts:
        head = _BLOCK.match(part)
        end = 0 if head is None else head.end()
        blank_line = _BLANK_LINE.match(part, end)
        if blank_line is None:
            return False
        inside = _mime_headers(_regular_fields(part[:end]))
        if not _with_parts(inside, part[blank_line.end() :], depth + 1):
            return False
        message.attach(inside)
    return True


def _parsed_tree(data: bytes, headers: Headers, content: MailContent) -> Message:
    mime = "".join(f"{name}: {value}\n" for name, value in _mime_headers(headers.fields).raw_items())
    tree = message_from_bytes(mime.encode("ascii", "surrogateescape") + b"\n" + data[headers.body_start :])
    payload = tree.get_payload()
    kind = _declared_by(tree).kind
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
        and leaf.declared.kind == "text/plain"
        and _is_body(leaf)
        and _payload(leaf.part).strip()
    }
    for leaf in leaves:
        kind = leaf.declared.kind
        is_body = _is_body(leaf)
        if kind == "text/html" and is_body and leaf.alternative in has_plain:
            continue
        if kind.startswith("message/") and leaf.part.is_multipart():
            content.parts.append(_inner_message(leaf, kind, content, settings))
            continue
        if kind.startswith("multipart/"):
            content.note("multipart_without_boundary")
        for defect in () if kind.startswith("multipart/") else leaf.part.defects:
            content.note(_defect_code(defect))
        encoding = _encoding_name(str(leaf.part.get("content-transfer-encoding", "")))
        data = _decoded(_payload(leaf.part), encoding, kind, content)
        if is_body:
            _add_text(content, data, leaf.declared)
        else:
            _attach(content, leaf, data)


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
        declared = _declared_by(part)
        kind = declared.kind
        if part.is_multipart() and not kind.startswith("message/"):
            if depth >= settings.max_mime_depth:
                content.note("mime_too_deep")
                continue
            inside = index if kind == "multipart/alternative" else alternative
            for child in reversed(_children(part)):
                stack.append((child, inside, depth + 1))
            continue
        yield _Leaf(index, part, declared, alternative, depth)
        if kind.startswith("message/") and part.is_multipart():
            index += sum(1 for _ in part.walk()) - 1


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _is_body(leaf: _Leaf) -> bool:
    """Whether a part is shown as the mail's text; a multipart that could not be taken apart is."""
    if leaf.depth == 0:
        return leaf.declared.kind.startswith(("text/", "multipart/"))
    if not leaf.declared.kind.startswith(("text/plain", "text/html", "multipart/")):
        return False
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


def _add_text(content: MailContent, data: bytes, declared: _Declared) -> None:
    decoded = decode_text(data, declared.charset)
    text = decoded.text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if decoded.had_nul:
        content.note("nul_removed")
    if decoded.outcome == "replaced" or decoded.outcome.startswith("detected"):
        content.note("charset_guessed")
    if declared.kind == "text/html":
        text = html_text(text)
    if not text:
        return
    if not content.body.strip():
        content.body_format, content.charset_outcome = declared.body_format, decoded.outcome
    if content.body and not content.body.endswith("\n"):
        content.body += "\n"
    content.body += text


def _payload(part: Message) -> bytes:
    """The undecoded payload of a part that holds no others."""
    payload = part.get_payload()
    if isinstance(part._payload, str):  # type: ignore[attr-defined]
        payload = part._payload  # type: ignore[attr-defined]
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _declared_by(part: Message) -> _Declared:
    return _declared(str(part.get("content-type", "")), part.get_default_type())


@lru_cache(maxsize=4096)
def _declared(raw: str, default: str) -> _Declared:
    """What a Content-Type header says; most mails of an archive share a handful of them."""
    part = Message(policy=compat32)
    part.set_default_type(default)
    if raw:
        part["Content-Type"] = raw
    try:
        kind = part.get_content_type()
    except MIME_FAULTS:
        kind = "text/plain"
    kind = _NOT_TYPE.sub("", kind)[:MAX_FILENAME_CHARS]
    body_format = "html" if kind == "text/html" else "plain"
    if kind == "text/plain" and _param(part, "format").strip().lower() == "flowed":
        body_format = "flowed_delsp" if _param(part, "delsp").strip().lower() == "yes" else "flowed"
    return _Declared(kind, _param(part, "charset") or None, body_format)


@lru_cache(maxsize=1024)
def _encoding_name(raw: str) -> str:
    return raw.lower().partition(";")[0].partition("(")[0].strip(" \t\r\n\"'")


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
