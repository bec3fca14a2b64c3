"""Tokens that are known by their form, as `table.toml` lists them, also across broken lines, and private keys."""

import re
from base64 import b64decode, b64encode
from functools import cache
from math import ceil
from typing import NamedTuple

from transforms.toml_file import patterns, toml_file

_TABLE = toml_file(__name__, "table.toml")

_FORMS: dict[str, dict[str, str]] = _TABLE["forms"]
SERVICES = frozenset(_TABLE["services"].split())
NO_VALUES = frozenset(_TABLE["no_values"].split())
FILES = frozenset(_TABLE["file_ends"].split())
IBANS = {word[:2]: int(word[2:]) for word in _TABLE["ibans"].split()}
PASSWORDS: list[str] = _TABLE["passwords"]
CLIENT_WORDS: list[str] = _TABLE["client_words"]
CLIENTS: list[str] = _TABLE["clients"]
FORMLESS: dict[str, list[str]] = _TABLE["formless"]
PATTERNS = patterns(__name__)


_MOST = 4096
"""Bytes of a token with the breaks in it."""
_LINE = 256
"""Bytes of a line that a mail program may have broken."""
_CODED = 512
"""Bytes before a prefix in base64 where the coded text may begin."""
_RUN = re.compile(rb"[A-Za-z0-9_+/.~=%-]*")
_BREAK = re.compile(rb"[ \t]*(?:\r\n|\n|\r)[>|: \t]*")
_SOFT_LINE = 60
"""Bytes of a line from which a `=` at its end is a soft break of quoted-printable and no padding of base64."""
_RANDOM = re.compile(
    rb"(?=[A-Za-z_+/=.-]*[0-9])(?=[0-9_+/=.-]*[A-Za-z])|[A-Za-z]*[a-z][A-Z]+[a-z]+[A-Z]"
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]*={0,2}")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_BASE64_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"


class Find(NamedTuple):
    """The kind of the secret or personal data at the bytes from `start` to `end` of a text."""

    start: int
    end: int
    kind: str


class Form(NamedTuple):
    """The kind of tokens with a prefix, and the pattern of the whole token."""

    kind: str
    pattern: re.Pattern[bytes]


@cache
def forms() -> dict[str, Form]:
    """The form of the tokens with each prefix."""
    return {
        prefix: Form(kind, re.compile(re.escape(prefix.encode()) + rest.encode()))
        for kind, rows in _FORMS.items()
        for prefixes, rest in rows.items()
        for prefix in prefixes.split()
    }


@cache
def coded_prefixes() -> dict[str, list[tuple[int, Form]]]:
    """The part of each prefix of four or more bytes that base64 of any text around it holds, at each place modulo three."""
    cores: dict[str, list[tuple[int, Form]]] = {}
    for prefix, form in forms().items():
        data = prefix.encode()
        for before in range(3) if len(data) > 3 else ():
            coded = b64encode(bytes(before) + data).decode()
            core = coded[ceil(before * 4 / 3) : (before + len(data)) * 4 // 3]
            if len(core) > 3:
                cores.setdefault(core, []).append((before, form))
    return cores


def begins_word(data: bytes, at: int) -> bool:
    """True if no letter or digit is before `at`, those of an escape (`%5F`, `\\n`) left aside."""
    if at == 0 or not data[at - 1 : at].isalnum():
        return True
    return data[at - 3 : at - 2] == b"%" or data[at - 2 : at - 1] == b"\\"


def token_at(data: bytes, at: int, form: Form) -> Find | None:
    """The token whose prefix is at `at`, to its end on a later line if a mail program broke it."""
    if not begins_word(data, at):
        return None
    run = _RUN.match(data, at, at + _LINE)
    if run is None or data[run.end() : run.end() + 1] not in (b" ", b"\t", b"\r", b"\n"):
        match = form.pattern.match(data, at)
        return Find(at, match.end(), form.kind) if match else None
    joined, pieces = _joined(data, at)
    match = form.pattern.match(joined)
    if not match:
        return None
    begin, place = next(piece for piece in reversed(pieces) if piece[0] < match.end())
    return Find(at, place + match.end() - begin, form.kind)


def _joined(data: bytes, at: int) -> tuple[bytes, list[tuple[int, int]]]:
    """The token at `at` without breaks, and where each piece of it begins there and in `data`."""
    parts: list[bytes] = []
    pieces: list[tuple[int, int]] = []
    length, place = 0, at
    while place - at < _MOST:
        run = _RUN.match(data, place, place + _LINE)
        part = run[0] if run else b""
        end = place + len(part)
        is_broken = _BREAK.match(data, end)
        line = end - data.rfind(b"\n", max(0, place - _LINE), place)
        is_soft = bool(is_broken) and part.endswith(b"=") and line >= _SOFT_LINE
        parts.append(part[:-1] if is_soft else part)
        pieces.append((length, place))
        length += len(parts[-1])
        if not is_broken or not (is_soft or _RANDOM.match(data, is_broken.end())):
            break
        place = is_broken.end()
    return b"".join(parts), pieces


def coded_token_at(
    data: bytes, at: int, core: bytes, meanings: list[tuple[int, Form]]
) -> Find | None:
    """The base64 around `at`, if it says a token whose coded prefix is there."""
    if data[at : at + len(core)] != core:
        return None
    for before, form in meanings:
        run = _BASE64.match(data, at, at + _CODED)
        coded = b"A" * ceil(before * 4 / 3) + (run[0] if run else b"").rstrip(b"=").translate(
            _STANDARD
        )
        coded = coded[
            : len(coded) - (len(coded) % 4 == 1)
        ]  # a single letter at the end says nothing
        if form.pattern.match(b64decode(coded + b"=" * (-len(coded) % 4)), before):
            ahead = data[max(0, at - _CODED) : at]
            whole = _BASE64.match(data, at - len(ahead) + len(ahead.rstrip(_BASE64_BYTES)))
            return Find(*whole.span(), form.kind) if whole else None
    return None


_BEGIN = re.compile(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_MOST_OF_KEY = 65_536
"""Bytes of a block."""
_KEY_LINE = re.compile(rb"[\s>|*#+\\nrt\"',-]*[A-Za-z0-9+/=]{30,}(?![A-Za-z0-9+/=])[\"',\\nr \t]*")
_SHORT = re.compile(rb"[\s>]*[A-Za-z0-9+/=]+[\s>]*\Z")
_WHOLE, _LAST = re.compile(rb"[A-Za-z0-9+/=]{30,}"), re.compile(rb"=?[A-Za-z0-9+/=]+")
_LONGEST = 200
"""Bytes of a line of a block."""
_PUTTY = re.compile(rb"Private-Lines: ([0-9]{1,3})[ \t]*\r?\n")


def block_at(data: bytes, at: int) -> Find | None:
    """The private key whose first line is at `at`: to its last line, else over the lines of base64 below it."""
    begin = _BEGIN.match(data, at)
    if not begin:
        return None
    last = data.find(b"-END ", begin.end(), begin.end() + _MOST_OF_KEY)
    if last > 0 and (end := _END.search(data, last - 4, last + 100)):
        return Find(at, end.end(), "private_key")
    place = _lines(data, begin.end())
    if place == begin.end():
        return None
    rest = _SHORT.match(data, place)
    return Find(at, len(data) if rest else place, "private_key")


def _lines(data: bytes, place: int) -> int:
    """The end of the lines of base64 that begin at `place`."""
    while line := _KEY_LINE.match(data, place):
        place = line.end()
    return place


def block_before(data: bytes, at: int) -> Find | None:
    """The private key whose last line is at `at` and whose first lines are cut off."""
    end = _END.match(data, at)
    if not end:
        return None
    start, is_last = at, True
    while at - start < _MOST_OF_KEY:
        begin = data.rfind(b"\n", max(0, start - _LONGEST), max(0, start - 1)) + 1
        if not (begin or start <= _LONGEST) or not (_LAST if is_last else _WHOLE).fullmatch(
            data[begin:start].strip(b" \t\r\n>|*")
        ):
            break
        start, is_last = begin, False
    if start == at:
        return None
    start += len(data[start:at]) - len(data[start:at].lstrip(b" \t\r\n>|*"))
    return Find(start, end.end(), "private_key")


def putty_at(data: bytes, at: int) -> Find | None:
    """The lines of a PuTTY key that are private."""
    head = _PUTTY.match(data, at)
    place = _lines(data, head.end()) if head else 0
    if not head or place == head.end():
        return None
    short = re.compile(rb"[ \t>]*[A-Za-z0-9+/=]{4,}(?=\r?\n)").match(data, place)
    return Find(head.end(), short.end() if short else place, "private_key")
