"""The parts of a multipart body whose delimiter lines all conform to RFC 2046 section 5.1.1."""

from __future__ import annotations


def regular_parts(payload: bytes, boundary: bytes) -> list[bytes] | None:
    """The parts between the delimiter lines, without the line end before each delimiter.

    None if the body needs a full parser: a longer line begins like a delimiter, the closing delimiter
    is missing, text follows it, or a part has no line.

    >>> regular_parts(b"--x\\n\\none\\n--x\\n\\ntwo\\n--x--\\n", b"x")
    [b'\\none', b'\\ntwo']
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
