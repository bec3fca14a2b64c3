"""The layout of an mbox file: the bytes of mails, those of From_ lines, and the others."""

import re
from bisect import bisect
from datetime import UTC, datetime
from typing import Literal, NamedTuple

BOM = b"\xef\xbb\xbf"
"""The byte-order mark that some editors put before a text in UTF-8."""

Dialect = Literal["mboxrd", "mboxo", "content-length"]

# RFC 5322 section 2.2: a header name is printable ASCII without the colon. A second envelope
# line, escaped as `>From `, is before the headers where a relay put its own in front.
_HEADER_NEXT = re.compile(rb"(?:>From [^\n]*\n)*(?=[!-9;-~]+[ \t]*:)")
_GIT_LINE = re.compile(rb"From [0-9a-f]{40}(?:[0-9a-f]{24})? Mon Sep 17 00:00:00 2001\s*\Z")
# A time or a year follows the sender; a sentence that begins with "From " has neither.
_FROM_LINE = re.compile(rb"From (?:\s*\S+\s*\Z|.*(?:\d\d?[:.]\d\d|\d{4}\s*\Z))", re.S)
_LEAD = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]{0,64}(?=From )")
"""Bytes that editors put before the first From_ line: a byte-order mark and blanks."""
_FROM = re.compile(rb"From ")
"""A pattern finds this twice as fast as `bytes.find`: it looks for the rare F."""
_ESCAPED = re.compile(rb"\n>(?=>*From )")
_ESCAPED_FIRST = re.compile(rb">>*From ")
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_CONTENT_LENGTH = re.compile(rb"^Content-Length:[ \t]*(\d{1,18})[ \t]*\r?$", re.M | re.I)


class MboxEntry(NamedTuple):
    """One mail: its From_ line begins at `envelope`, the mail itself is `[start, end)`.

    `has_escapes` says whether it contains `>From `.
    """

    envelope: int
    start: int
    end: int
    has_escapes: bool


class MboxLayout(NamedTuple):
    """The mails of a file in order, and the byte ranges that belong to none (blank lines left out)."""

    entries: list[MboxEntry]
    garbage: list[tuple[int, int]]


def mbox_layout(data: bytes, dialect: Dialect) -> MboxLayout:
    """The positions of the mails of an mbox file.

    A mail begins behind a From_ line: at the start of the file or after a blank line, `From `, a
    sender and a time, and a header on the next line. `From <commit> Mon Sep 17 00:00:00 2001`,
    which git format-patch writes into patches, does so only in a file that begins with one. A span
    leaves out the one blank line that separates it from the next. In the `content-length` dialect a
    Content-Length header that leads to the next From_ line or to the end of the file is believed.
    Bytes before the first From_ line (all of them, where there is none) are garbage.
    """
    git_too = _GIT_LINE.match(data, 0, _line_end(data, 0)) is not None
    lead = _LEAD.match(data)
    begins: list[tuple[int, int]] = []
    escapes: list[int] = []
    resume = 0
    for match in _FROM.finditer(data):
        at = match.start()
        if data.endswith(b">", 0, at):
            escapes.append(at)
        if at < resume or (start := _mail_start(data, at, git_too, lead)) is None:
            continue
        begins.append((at, start))
        resume = _declared_end(data, start) or 0 if dialect == "content-length" else 0
    stops = [*(_line_start(data, at) for at, _ in begins[1:]), len(data)]
    entries = [
        MboxEntry(at, start, end, bisect(escapes, end) > bisect(escapes, start))
        for (at, start), stop in zip(begins, stops, strict=False)
        for end in (_without_separator(data, start, stop),)
    ]
    first = begins[0][0] if begins else len(data)
    garbage = [(0, first)] if data[:first].removeprefix(BOM).strip() else []
    return MboxLayout(entries, garbage)


def unescape(raw: bytes, dialect: Dialect) -> bytes:
    """`raw` as it was before it was stored: in mboxrd `>From ` and `>>From ` lose one `>`.

    The mboxo dialect escapes only `From `, so that its `>From ` may have been in the mail: it
    stays.
    """
    if dialect != "mboxrd":
        return raw
    unescaped = _ESCAPED.sub(b"\n", raw)
    return unescaped[1:] if _ESCAPED_FIRST.match(raw) else unescaped


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _mail_start(data: bytes, at: int, git_too: bool, lead: re.Match[bytes] | None) -> int | None:
    """Where the mail behind a From_ line at `at` starts; None if no From_ line begins there."""
    if lead is None or at != lead.end():
        line = _line_start(data, at)
        if not data.endswith(b"\n", 0, line) or not _after_blank_line(data, line):
            return None
    end = _line_end(data, at)
    header = _HEADER_NEXT.match(data, end + 1)
    is_from = header is not None and _FROM_LINE.match(data, at, end)
    if header is None or not is_from or not (git_too or not _GIT_LINE.match(data, at, end)):
        return None
    return header.end()


def _line_start(data: bytes, at: int) -> int:
    """`at`, or the place of the byte-order mark before it."""
    return at - len(BOM) if data.endswith(BOM, 0, at) else at


def _after_blank_line(data: bytes, at: int) -> bool:
    if at == 0:
        return True
    before = at - 1  # the line feed that ends the line before
    if before and data[before - 1] == 0x0D:
        before -= 1
    return before == 0 or data[before - 1] == 0x0A


def _declared_end(data: bytes, start: int) -> int | None:
    """End of the mail by its Content-Length, or None if there is none or it leads nowhere."""
    headers_end = _HEADERS_END.search(data, start)
    if headers_end is None:
        return None
    declared = _CONTENT_LENGTH.search(data, start, headers_end.start() + 1)
    if declared is None:
        return None
    end = headers_end.end() + int(declared[1])
    if end > len(data):
        return None
    next_line = end
    while next_line < len(data) and data[next_line] in b"\r\n":
        next_line += 1
    if next_line == len(data):
        return len(data)
    return (
        next_line
        if data.startswith(b"From ", next_line) and _after_blank_line(data, next_line)
        else None
    )


def _without_separator(data: bytes, start: int, stop: int) -> int:
    for separator in (b"\r\n\r\n", b"\n\n"):
        if stop - start > len(separator) and data.endswith(separator, start, stop):
            return stop - len(separator) // 2
    return stop


def mbox_entry(mail: bytes, at: datetime | None) -> bytes:
    """A mail as an entry of an mbox file in the dialect mboxrd, with its time in the From_ line.

    >>> mbox_entry(b"Subject: a\\r\\n\\r\\nFrom here", None)
    b'From weft Thu Jan 01 00:00:00 1970\\nSubject: a\\n\\n>From here\\n\\n'
    """
    data = re.sub(rb"(?m)^(>*From )", rb">\1", mail.replace(b"\r\n", b"\n"))
    line = (
        f"From weft {(at or datetime.fromtimestamp(0, UTC)).astimezone(UTC):%a %b %d %H:%M:%S %Y}\n"
    )
    return line.encode() + data.rstrip(b"\n") + b"\n\n"
