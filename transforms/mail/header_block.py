"""The header block of a mail: its fields as raw values, the start of the body, and its defects.

The email package reads irregular blocks, with its compat32 policy because the newer policies raise
on headers of real mail.
"""

import re
from email.errors import MessageError
from email.parser import BytesParser
from email.policy import compat32
from typing import NamedTuple

from transforms.toml_file import toml_file

MIME_FAULTS = (
    MessageError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    RecursionError,
)
"""Exceptions of the email package on broken mail; UnicodeError and binascii.Error are ValueErrors.
"""

KNOWN_HEADERS = frozenset(toml_file(__name__, "headers.toml")["known"])
"""A mail has at least one of these headers."""

_READ_HEADERS = frozenset(toml_file(__name__, "headers.toml")["read"])
"""Headers that become columns or determine the parts of a mail."""

_PARSER = BytesParser(policy=compat32)
# RFC 5322 section 2.2: a name, a colon, and a value that goes on as long as lines begin with a
# blank.
BLOCK = re.compile(rb"(?:[!-9;-~]++:.*+\n(?:[ \t].*+\n)*+)++(?=\r?\n|\Z)")
"""A header block without irregular lines."""
# The names of the headers that are read begin like this; the longest has 25 letters.
_FIELDS = re.compile(
    r"\n([CcDdFfIiMmRrSsTt][A-Za-z-]{1,24}+|[Ll][Ii][Ss][Tt]-[Ii][Dd]|[Uu][Ss][Ee][Rr]-[A-Za-z]{5}"
    r"|[Xx]-[Mm][A-Za-z]{5}|[Xx]-[Gg][Mm][Aa][Ii][Ll]-[A-Za-z]{6}|[Xx]-(?:[Oo]riginal-)?[Ff]rom)"
    r":([^\n]*+(?:\n[ \t][^\n]*+)*+)"
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:|[ \t]|>?From ")
_BLANKS_BEFORE_COLON = re.compile(rb"\A([!-9;-~]+)[ \t]+(?=:)")
_ENVELOPES = (b"From ", b">From ")
_KNOWN_LINE = re.compile(
    rb"(?:From|To|Cc|Subject|Date|Message-ID|In-Reply-To|References|MIME-Version|Content-\w+):",
    re.I,
)


class Headers(NamedTuple):
    """The headers by lower-case name, the byte offset of the body, and the defects of the block."""

    fields: dict[str, list[str]]
    body_start: int
    defects: list[str]


def read_headers(data: bytes, *, quick: bool = True) -> Headers:
    """The header block of `data`; a line that is not a header counts as a folded line.

    `fields` maps lower-case names to raw values in order, non-ASCII bytes as surrogate escapes. It
    has the headers of _READ_HEADERS, and of irregular blocks also those of KNOWN_HEADERS. Patterns
    read a regular block, the email package any other; `quick=False` reads every block with the
    email package.

    >>> read_headers(b"Subject: fast\\n  vacuum\\n\\nHello.\\n")
    Headers(fields={'subject': ['fast\\n  vacuum']}, body_start=24, defects=[])
    """
    if quick and (block := BLOCK.match(data)) is not None:
        head = block[0]
        if b"\r" not in head or head.count(b"\r") == head.count(b"\r\n"):
            fields = regular_fields(head)
            if not KNOWN_HEADERS.isdisjoint(fields):
                blank_line = 2 if data.startswith(b"\r", block.end()) else 1
                return Headers(fields, block.end() + blank_line, [])
    return _parsed_headers(data)


def regular_fields(head: bytes) -> dict[str, list[str]]:
    """The headers of _READ_HEADERS in a regular block."""
    fields: dict[str, list[str]] = {}
    for name, value in _FIELDS.findall("\n" + head.decode("ascii", "surrogateescape")):
        if (lower_name := name.lower()) in _READ_HEADERS:
            fields.setdefault(lower_name, []).append(value.strip())
    return fields


def _head_end(data: bytes) -> tuple[int, int]:
    """The end of the header block (after its last line feed) and the start of the body."""
    bare = data.find(b"\n\n")
    full = data.find(b"\n\r\n", 0, bare + 1 if bare >= 0 else len(data))
    if full >= 0:
        return full + 1, full + 3
    return (bare + 1, bare + 2) if bare >= 0 else (len(data), len(data))


def _parsed_headers(data: bytes) -> Headers:
    """Headers as the email package reads them, after a repair of lines at which it would stop.

    A line that is not a header is folded text without its blank if known headers follow, else the
    body begins there.
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
    block = b"".join(
        _BLANKS_BEFORE_COLON.sub(rb"\1", line) for line in lines if not line.startswith(_ENVELOPES)
    )
    fields: dict[str, list[str]] = {}
    for name, value in _PARSER.parsebytes(block, headersonly=True).raw_items():
        if name.lower() in _READ_HEADERS or name.lower() in KNOWN_HEADERS:
            fields.setdefault(name.lower(), []).append(str(value).strip())
    return Headers(fields, body_start, defects)
