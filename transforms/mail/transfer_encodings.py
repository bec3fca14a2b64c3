"""Decoding of the transfer encoding of a MIME part, with repairs of broken payload."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence

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


def transfer_decoded(payload: bytes, encodings: Sequence[str], kind: str) -> tuple[bytes, list[str]]:
    """`payload` without its transfer encoding (RFC 2045 section 6), and the codes of its faults.

    If `encodings` has several, the strictest that the payload is valid in counts. Plain text that a list
    server appends to base64, or text around uuencoded lines, stays in the result. Payload that is not in
    its declared encoding, or in an unknown one, is returned unchanged.

    >>> transfer_decoded(b"aGVsbG8=", ["base64"], "text/plain")
    (b'hello', [])
    """
    if len(encodings) > 1:
        for encoding in (e for e in _STRICT if e in encodings):
            data, faults = _decoded(payload, encoding, kind)
            if not faults:
                return data, []
        if any(e in IDENTITY for e in encodings):
            return payload, []
    return _decoded(payload, encodings[0], kind)


def _decoded(payload: bytes, encoding: str, kind: str) -> tuple[bytes, list[str]]:
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
    clean = _BASE64_LINES.match(payload)
    end = clean.end() if clean is not None else 0
    tail = payload[end:] if end < len(payload) else b""
    if not payload[:end].strip() and tail.strip():
        return payload, ["base64_broken"]
    if _BASE64_LINE.search(tail):  # noise in the middle, not text at the end
        end, tail = len(payload), b""
    body, padding, trailing = payload[:end].partition(b"=")
    if trailing.translate(
        None, _BASE64_NOISE
    ):  # words that look like base64, or encoded texts one after another
        texts = _BASE64_TEXT.findall(payload[:end].translate(None, _BASE64_NOISE.replace(b"=", b"")))
        if all(len(text) % 4 == 0 for text in texts) and (b"=" in texts[-1] or len(texts[-1]) > 60):
            return b"".join(map(binascii.a2b_base64, texts)), ["base64_broken"]
        tail = trailing.lstrip(b"=\r\n") + tail
    digits = body.translate(None, _BASE64_NOISE)
    faults: list[str] = []
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
