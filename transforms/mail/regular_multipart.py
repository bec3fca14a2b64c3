"""The parts of a multipart body whose delimiter lines are all as RFC 2046 section 5.1.1 wants them."""

from __future__ import annotations


def regular_parts(payload: bytes, boundary: bytes) -> list[bytes] | None:
    """The parts between the delimiter lines, without the line end before each delimiter.

    None where only a full parser can tell: a line that begins like a delimiter and goes on, no
    delimiter that closes the body, text behind that one, or a part without a single line.
    """
    delimiter = b"--" + boundary
    parts: list[bytes] = []
    at = 0 if payload.startswith(delimiter) else payload.find(b"\n" + delimiter) + 1
    if not at and not payload.startswith(delimiter):
        return None
    while True:
        line = payload.find(b"\n", at) + 1
        mark = payload[at + len(delimiter) : line or len(payload)].rstrip(b"\r\n")
        if mark == b"--":
            return None if line and payload[line:].strip() else parts or None
        following = payload.find(b"\n" + delimiter, line - 1) + 1
        if mark or not line or not following:
            return None
        end = following - 1
        if payload.startswith(b"\r", end - 1):
            end -= 1
        if end < line:
            return None
        parts.append(payload[line:end])
        at = following
