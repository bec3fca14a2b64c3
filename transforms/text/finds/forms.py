"""Tokens that are known by their form, as `table.toml` lists them, also across broken lines, in
base64 once or twice, and in hexadecimal.
"""

import re
from base64 import b64decode, b64encode
from functools import cache
from math import ceil
from typing import NamedTuple

from transforms.toml_file import patterns, toml_file

_TABLE = toml_file(__name__, "table.toml")

_FORMS: dict[str, dict[str, str]] = _TABLE["forms"]
SERVICES = frozenset(_TABLE["services"].split())
OFTEN = frozenset(_TABLE["often"].split())
PINS: list[str] = _TABLE["pins"]
PHRASES: list[str] = _TABLE["phrases"]
CODE_LISTS: list[str] = _TABLE["code_lists"]
SHARED_SECRETS: list[str] = _TABLE["shared_secrets"]
AREAS = frozenset(_TABLE["areas"].split())
NO_VALUES = frozenset(_TABLE["no_values"].split())
FILES = frozenset(_TABLE["file_ends"].split())
IBANS = {word[:2]: int(word[2:]) for word in _TABLE["ibans"].split()}
PASSWORDS: list[str] = _TABLE["passwords"]
CLIENT_WORDS: list[str] = _TABLE["client_words"]
CLIENTS: list[str] = _TABLE["clients"]
FORMLESS: dict[str, list[str]] = _TABLE["formless"]
PATTERNS = patterns(__name__, "patterns.toml")


_MOST = 4096
"""Bytes of a token with the breaks in it."""
_LINE = 256
"""Bytes of a line that a mail program may have broken."""
_CODED = 512
"""Bytes before a prefix in base64 where the coded text may begin."""
_RUN = re.compile(rb"[A-Za-z0-9_+/.~=%-]*")
_BREAK = re.compile(rb"[ \t]*(?:\r\n|\n|\r)[>|: \t]*")
_SOFT_LINE = 60
"""Bytes of a line from which a `=` at its end is a soft break of quoted-printable and no padding of
base64.
"""
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
    prefix: bytes
    pattern: re.Pattern[bytes]


@cache
def forms() -> dict[str, Form]:
    """The form of the tokens with each prefix."""
    return {
        prefix: Form(
            kind=kind,
            prefix=prefix.encode(),
            pattern=re.compile(re.escape(prefix.encode()) + rest.encode()),
        )
        for kind, rows in _FORMS.items()
        for prefixes, rest in rows.items()
        for prefix in prefixes.split()
    }


@cache
def coded_prefixes() -> dict[str, list[tuple[Form, int]]]:
    """The part of each prefix of four or more bytes that base64 of any text around it holds, at
    each place modulo three, and for those of OFTEN so for base64 of that: the form, and how often
    it is coded.
    """
    cores: dict[str, list[tuple[Form, int]]] = {}
    for prefix, form in forms().items():
        once = _cores(prefix) if len(prefix) > 3 else set()
        is_often = prefix in OFTEN
        twice = {core for part in once if is_often and len(part) > 4 for core in _cores(part)}
        for times, of_prefix in ((1, once), (2, twice)):
            for core in of_prefix:
                cores.setdefault(core, []).append((form, times))
    return cores


def _cores(text: str) -> set[str]:
    """The base64 of a text at each place modulo three, without letters that depend on others."""
    data, cores = text.encode(), set()
    for before in range(3):
        coded = b64encode(bytes(before) + data).decode()
        cores.add(coded[ceil(before * 4 / 3) : (before + len(data)) * 4 // 3])
    return {core for core in cores if len(core) > 3}


@cache
def hexadecimal_prefixes() -> dict[str, Form]:
    """Each prefix of OFTEN as its hexadecimal digits, in lower case."""
    return {prefix.encode().hex(): form for prefix, form in forms().items() if prefix in OFTEN}


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
    data: bytes, at: int, core: bytes, meanings: list[tuple[Form, int]]
) -> Find | None:
    """The base64 around `at`, if it says a token whose coded prefix is there."""
    if data[at : at + len(core)] != core:
        return None
    ahead = data[max(0, at - _CODED) : at]
    start = at - len(ahead) + len(ahead.rstrip(_BASE64_BYTES))
    whole = _BASE64.match(data, start, at + _CODED)
    if not whole:
        return None
    # Letters ahead may belong to no code: it begins at one of the four next places.
    for shift in range(4):
        coded = whole[0][shift:]
        for form, times in meanings:
            text = coded
            for _ in range(times):
                text = _decoded(text)
            if form.prefix in text and form.pattern.match(text, text.index(form.prefix)):
                return Find(*whole.span(), form.kind)
    return None


def _decoded(coded: bytes) -> bytes:
    run = _BASE64.match(coded)
    text = (run[0] if run else b"").rstrip(b"=").translate(_STANDARD)
    text = text[: len(text) - (len(text) % 4 == 1)]  # a single letter at the end says nothing
    return b64decode(text + b"=" * (-len(text) % 4))


_HEXADECIMAL = re.compile(rb"(?:[0-9A-Fa-f]{2}){1,512}")


def hexadecimal_token_at(data: bytes, at: int, form: Form) -> Find | None:
    """The hexadecimal digits at `at`, if they say a token whose prefix is there."""
    run = _HEXADECIMAL.match(data, at)
    if run and form.pattern.match(bytes.fromhex(run[0].decode())):
        return Find(*run.span(), form.kind)
    return None
