"""One mail parsed into one record: its headers, its decoded body text, its attached parts, and its
defects.
"""

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.generator import BytesGenerator
from email.message import Message
from io import BytesIO
from typing import NamedTuple

from transforms.mail import mime_tree
from transforms.mail.header_block import KNOWN_HEADERS, MIME_FAULTS, read_headers
from transforms.mail.headers import header_text
from transforms.mail.html_text import html_text
from transforms.text.charsets import decode_text, holds

_BASE64_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"
_BASE64_LINES = re.compile(rb"(?:[ \t]*+[A-Za-z0-9+/=]*+[ \t]*+(?:\r\n?|\n|\Z))*")
_BASE64_LINE = re.compile(rb"^[A-Za-z0-9+/]{60,}={0,2}\r?$", re.M)
_BASE64_TEXT = re.compile(rb"[^=]+=*")
_UU_END = re.compile(rb"\A\s*(?:`\s*)?(?:end[ \t]*(?:\r?\n|\Z))?")
_BASE64_NOISE = bytes(
    byte for byte in range(256) if not (chr(byte).isalnum() and byte < 128) and byte not in b"+/"
)
_BROKEN_QP = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*\r?\n|[ \t]*\Z)")


IDENTITY = ("", "7bit", "8bit", "binary")
"""Transfer encodings that leave the bytes as they are."""
_UUENCODE = ("x-uuencode", "uuencode", "uue", "x-uue")
_STRICT = ("base64", *_UUENCODE, "quoted-printable")
"""Encodings that little else is valid in, the strictest first."""


def transfer_decoded(
    payload: bytes, encodings: Sequence[str], kind: str
) -> tuple[bytes, list[str]]:
    """`payload` without its transfer encoding (RFC 2045 section 6), and the codes of its faults.

    If `encodings` has several, the strictest that the payload is valid in counts. Plain text that a
    list server appends to base64, or text around uuencoded lines, stays in the result. Payload that
    is not in its declared encoding, or in an unknown one, is returned unchanged.

    >>> transfer_decoded(b"aGVsbG8=", ["base64"], "text/plain")
    (b'hello', [])
    """
    if len(encodings) > 1:
        for encoding in (e for e in _STRICT if e in encodings):
            data, faults = _decoded_payload(payload, encoding, kind)
            if not faults:
                return data, []
        if any(e in IDENTITY for e in encodings):
            return payload, []
    return _decoded_payload(payload, encodings[0], kind)


def _decoded_payload(payload: bytes, encoding: str, kind: str) -> tuple[bytes, list[str]]:
    if encoding in IDENTITY:
        return payload, []
    if encoding == "quoted-printable":
        faults = ["quoted_printable_broken"] if _BROKEN_QP.search(payload) else []
        return binascii.a2b_qp(payload), faults
    if encoding == "base64":
        return _base64_decoded(payload, kind)
    if encoding in _UUENCODE:
        return _uu_decoded(payload, kind)
    return payload, ["transfer_encoding_unknown"]


def _base64_decoded(payload: bytes, kind: str) -> tuple[bytes, list[str]]:
    encoded, tail = _encoded_part(payload)
    if not encoded.strip() and tail.strip():
        return payload, ["base64_broken"]
    body, padding, trailing = encoded.partition(b"=")
    # Words that look like base64, or encoded texts one after another.
    if trailing.translate(None, _BASE64_NOISE):
        if (joined := _concatenated(encoded)) is not None:
            return joined, ["base64_broken"]
        tail = trailing.lstrip(b"=\r\n") + tail
    digits = body.translate(None, _BASE64_NOISE)
    remainder = len(digits) % 4
    faults = ["base64_broken"] if remainder == 1 or (remainder and not padding) else []
    if remainder == 1:
        digits = digits[:-1]
    data = binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))
    if not tail.strip():
        return data, faults
    if kind.startswith("text/"):
        data += (b"" if data.endswith(b"\n") else b"\n") + tail
    return data, [*faults, "base64_trailing_text"]


def _encoded_part(payload: bytes) -> tuple[bytes, bytes]:
    """A payload up to the lines that are not base64, and those; noise in the middle divides nothing."""
    if not payload.translate(None, _BASE64_BYTES):
        return payload, b""
    clean = _BASE64_LINES.match(payload)
    end = len(payload) if clean is None else clean.end()
    if payload[:end].strip() and _BASE64_LINE.search(payload[end:]):
        return payload, b""
    return payload[:end], payload[end:]


_LEAST_LAST_TEXT = 60
"""Characters of a last encoded text without padding, below which it may be a word."""


def _concatenated(encoded: bytes) -> bytes | None:
    """Encoded texts one after another, decoded; None if they are something else."""
    texts = _BASE64_TEXT.findall(encoded.translate(None, _BASE64_NOISE.replace(b"=", b"")))
    if any(len(text) % 4 or len(text.rstrip(b"=")) % 4 == 1 for text in texts):
        return None
    if b"=" not in texts[-1] and len(texts[-1]) <= _LEAST_LAST_TEXT:
        return None
    return b"".join(map(binascii.a2b_base64, texts))


def _uu_decoded(payload: bytes, kind: str) -> tuple[bytes, list[str]]:
    begin = re.search(rb"^begin [0-7]{3,4} .*\r?\n", payload, re.M)
    if begin is None:
        return payload, ["uuencode_broken"]
    out: list[bytes] = []
    position = begin.end()
    for line in payload[begin.end() :].splitlines(keepends=True):
        position += len(line)
        if line.strip() in (b"end", b"`", b""):
            break
        line = line.rstrip(b"\r\n")
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders pad the line: its first character says how many bytes it holds.
            length = ((line[0] - 32) & 63) * 4 // 3 + 2
            try:
                out.append(binascii.a2b_uu(line[:length]))
            except binascii.Error:
                return payload, ["uuencode_broken"]
    around = payload[: begin.start()], _UU_END.sub(b"", payload[position:])
    if not kind.startswith("text/") or not any(text.strip() for text in around):
        return b"".join(out), []
    return around[0] + b"".join(out) + around[1], ["uuencode_amid_text"]


class MimePart(NamedTuple):
    """An attached part before its content is looked at."""

    position: int
    filename: str | None
    declared_type: str
    charset: str | None
    data: bytes
    text: str | None
    reason: str | None


_MAX_DEPTH = 32
"""Nesting of MIME parts; deeper parts get no text."""


@dataclass(slots=True)
class ParsedMail:
    """A mail: header fields by lower-case name with their raw values, body, attached parts,
    defects.
    """

    fields: dict[str, list[str]] = field(default_factory=dict)
    body: str = ""
    body_format: str = "none"
    charset_outcome: str = "none"
    parts: list[MimePart] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    def note(self, defect: str) -> None:
        """Record a defect once."""
        if defect not in self.defects:
            self.defects.append(defect)


def parsed_mail(data: bytes, *, quick: bool = True) -> ParsedMail | None:
    """The mail in `data`, None if it has no header that mails have; repairs are in its defects.

    Only a mail whose parts are nested or marked in an unusual way goes through the email package,
    with `quick=False` every mail. The body is the unnamed text/plain parts in order, in
    multipart/alternative instead of their HTML form; HTML without such a form is converted. Named
    parts, parts that ask to be attachments, everything else, and text outside of the parts are
    attached.
    """
    try:
        headers = read_headers(data, quick=quick)
    except MIME_FAULTS:
        return None
    if KNOWN_HEADERS.isdisjoint(headers.fields):
        return None
    mail = ParsedMail(headers.fields, defects=list(headers.defects))
    payload = data[headers.body_start :]
    try:
        _read_payload(mail, payload, quick)
    except MIME_FAULTS as error:
        # The email package cannot take its parts apart: its body is the undecoded payload.
        decoded = decode_text(payload, None)
        text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
        shape = ("plain", decoded.outcome) if text else ("none", "none")
        defect = f"mime_unreadable_{type(error).__name__.lower()}"
        return ParsedMail(headers.fields, text, *shape, defects=[defect])
    return mail


def _read_payload(mail: ParsedMail, payload: bytes, quick: bool) -> None:
    fields = mail.fields
    for name in mime_tree.CONTENT_FIELDS:
        if name in fields and len(fields[name]) > 1:
            _choose_type(mail, payload)
    top = mime_tree.declared(mime_tree.mime_values(fields, "content-type")[0], "text/plain")
    if quick and not top.kind.startswith(("multipart/", "message/")):
        encodings = mime_tree.mime_values(fields, "content-transfer-encoding")
        if top.kind.startswith("text/"):
            _add_text(mail, _decoded(payload, encodings, top.kind, mail), top)
        else:
            leaf = mime_tree.MimeLeaf(0, mime_tree.mime_headers(fields), top, None, 0)
            _attach(mail, leaf, _decoded(payload, encodings, top.kind, mail))
        return
    try:
        tree = (
            mime_tree.regular_tree(fields, payload) if quick else None
        ) or mime_tree.parsed_tree(fields, payload)
    except RecursionError:
        mail.note("mime_too_deep")
        mail.parts.append(MimePart(0, None, top.kind, None, payload, None, "nested too deeply"))
        return
    _read_tree(tree, mail, 0, _MAX_DEPTH)


def _choose_type(mail: ParsedMail, payload: bytes) -> None:
    """Note which Content headers come twice, and leave one Content-Type."""
    for defect in mime_tree.repeated_fields(
        {name: mail.fields.get(name, ()) for name in mime_tree.CONTENT_FIELDS}
    ):
        mail.note(defect)
    types = mime_tree.mime_values(mail.fields, "content-type")
    chosen = types.index(
        mime_tree.preferred_type(types, payload.decode("ascii", "surrogateescape"))
    )
    if "content-type" in mail.fields:
        mail.fields["content-type"] = [mail.fields["content-type"][chosen]]


def _read_tree(tree: mime_tree.Tree, mail: ParsedMail, first: int, levels: int) -> None:
    for defect in tree.defects:
        mail.note(defect)
    parts = list(mime_tree.leaves(tree.root, levels, mail.note, first))
    # An alternative that has text needs no second rendering of it.
    has_plain = {
        leaf.alternative
        for leaf in parts
        if leaf.alternative is not None
        and leaf.declared.kind == "text/plain"
        and mime_tree.is_body(leaf)
        and mime_tree.payload_text(leaf.part).strip()
    }
    for leaf in parts:
        kind = leaf.declared.kind
        in_body = mime_tree.is_body(leaf)
        if kind == "text/html" and in_body and leaf.alternative in has_plain:
            continue
        if kind.startswith("message/") and leaf.part.is_multipart():
            mail.parts.append(_inner_message(leaf, kind, mail, levels))
            continue
        if kind.startswith("multipart/"):
            mail.note("multipart_without_boundary")
        for broken in () if kind.startswith("multipart/") else leaf.part.defects:
            words = re.sub(
                r"(?<=[a-z])(?=[A-Z])", "_", type(broken).__name__.removesuffix("Defect")
            )
            mail.note(words.lower())
        data = decoded_part(leaf, mail)
        if in_body:
            _add_text(mail, data, leaf.declared)
        else:
            _attach(mail, leaf, data)
    if tree.behind:
        _add_text(mail, tree.behind, mime_tree.declared("", "text/plain"))
    if tree.rest:
        next_position = max((leaf.position for leaf in parts), default=first - 1) + 1
        mail.parts.append(MimePart(next_position, None, "text/plain", None, tree.rest, None, None))


def decoded_part(leaf: mime_tree.MimeLeaf, mail: ParsedMail) -> bytes:
    """The content of a part without its transfer encoding; its faults are noted in `mail`."""
    encodings = [str(value) for value in leaf.part.get_all("content-transfer-encoding", [""])]
    payload = mime_tree.payload_text(leaf.part).encode("utf-8", "surrogateescape")
    return _decoded(payload, encodings, leaf.declared.kind, mail)


def _decoded(payload: bytes, encodings: Sequence[str], kind: str, mail: ParsedMail) -> bytes:
    """`payload` without its transfer encoding, its faults noted; of several encodings the one that
    it is in.
    """
    if len(encodings) == 1 and mime_tree.encoding_name(encodings[0]) in IDENTITY:
        return payload
    data, faults = transfer_decoded(
        payload, [mime_tree.encoding_name(raw) for raw in encodings], kind
    )
    for fault in faults:
        mail.note(fault)
    return data


def _attach(mail: ParsedMail, leaf: mime_tree.MimeLeaf, data: bytes) -> None:
    """Attach a part, unless the mail is nothing but an empty part."""
    if leaf.depth or data.strip():
        kind, charset = leaf.declared.kind, leaf.declared.charset
        mail.parts.append(
            MimePart(leaf.position, mime_tree.filename(leaf.part), kind, charset, data, None, None)
        )


def _inner_message(leaf: mime_tree.MimeLeaf, kind: str, mail: ParsedMail, levels: int) -> MimePart:
    """A mail inside the mail, as text: its main headers, then its body; its own parts are attached
    too.
    """
    texts: list[str] = []
    for inner in _inner_mails(leaf.part, kind, mail):
        fields = {name.lower(): header_text(str(value)) for name, value in inner.raw_items()}
        names = ("from", "date", "subject") if kind == "message/rfc822" else tuple(fields)
        lines = [f"{name.capitalize()}: {fields[name]}\n" for name in names if name in fields]
        inside = ParsedMail()
        if leaf.depth + 1 < levels and kind != "message/delivery-status":
            _read_tree(
                mime_tree.Tree(inner, b"", b"", []),
                inside,
                leaf.position + 1,
                levels - leaf.depth - 1,
            )
        mail.parts.extend(inside.parts)
        for defect in inside.defects:
            mail.note(defect)
        texts.append("".join(lines) + ("\n" + inside.body if inside.body else ""))
    return MimePart(
        leaf.position, mime_tree.filename(leaf.part), kind, None, b"", "\n".join(texts), None
    )


def _inner_mails(part: Message, kind: str, mail: ParsedMail) -> list[Message]:
    """The mails inside a part; some programs put a transfer encoding around them, which RFC 2046
    forbids.
    """
    inner = mime_tree.children(part)
    encoding = mime_tree.encoding_name(str(part.get("content-transfer-encoding", "")))
    if (
        kind != "message/rfc822"
        or len(inner) != 1
        or encoding not in ("base64", "quoted-printable")
    ):
        return inner
    buffer = BytesIO()
    BytesGenerator(buffer, mangle_from_=False, maxheaderlen=0).flatten(inner[0])
    data, faults = transfer_decoded(buffer.getvalue(), [encoding], kind)
    message = message_from_bytes(data)
    if faults or KNOWN_HEADERS.isdisjoint(name.lower() for name in message):
        return inner
    mail.note("inner_message_encoded")
    return [message]


def _add_text(mail: ParsedMail, data: bytes, top: mime_tree.Declared) -> None:
    decoded = decode_text(data, top.charset)
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    if decoded.had_nul:
        mail.note("nul_removed")
    if not holds(top.charset, decoded.outcome):
        mail.note("charset_guessed")
    if top.kind == "text/html":
        text = html_text(text)
    if not text:
        return
    if not mail.body.strip():
        mail.body_format, mail.charset_outcome = top.body_format, decoded.outcome
    if mail.body and not mail.body.endswith("\n"):
        mail.body += "\n"
    mail.body += text
