"""Passwords, keys and tokens behind their names: in settings, options, statements, elements and
tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from transforms.text.finds.forms import PASSWORDS, PATTERNS, Find
from transforms.text.finds.values import (
    SecretValue,
    is_in_sentence,
    is_no_value,
    is_password,
    is_plain_word,
    is_random,
    is_secret,
    is_strong,
    value_at,
)

Look = Callable[[bytes, int], Iterable[Find]]
_I = re.IGNORECASE
NEAR = 60
"""Bytes before a name that give its meaning: half a line."""
_LONG = 20
"""Bytes of a random value that needs no sign between it and its name."""
_MOST_ROWS = 200
"""Rows of a table below its head: a mail has no longer list of passwords."""

_SUFFIX = rb"(?:s|[_-]?[0-9]{1,2}|[_-](?:prod|live|dev|test|staging|old|new|value|b64|base64|base|text|plain))?"
_END = rb"(?:_(?=\W))?(?![A-Za-z0-9_-])\\?[\"'`\])}*]{0,3}"
_SIGN = (
    rb"(?:[ \t]{0,8}(?::=|=>|->|={1,2}|::?|\xe2\x80[\x93\x94]|\xe2\x86\x92)(?:[*_]{1,2}(?=[\s`\w]))?[ \t]{0,8}(?:=3D)?"
    rb"|(?<=[\"']),[ \t]{0,4}(?=[\"'])|(?<=[\"'])[ \t]{1,4}value=)"
)
PASSWORD = (
    rb"(?:(?:pass(?:[_-]?(?:word|wd|phrase|code|wort|ord))?|pw|pwd|psk|"
    + "|".join(PASSWORDS).encode()
    + rb")(?:et|si|niz|iniz)?)"
)
_NOTE = rb"(?:[ \t]?\([^()\n]{1,30}\))?"
_STRONG = re.compile(PASSWORD + _SUFFIX + _END + _NOTE + _SIGN, _I)
_WEAK = re.compile(rf"(?:{PATTERNS['weak']})".encode() + _SUFFIX + _END + _SIGN, _I)
_OF_KEY = re.compile(rf"(?:{PATTERNS['of_key']})[_. -]?\Z".encode(), _I)
_OF_VARIABLE = re.compile(rb"[A-Z0-9]_\Z")
_BRACED = re.compile(rb"\{((?:[^{}\n]|\}\}){3,100})\}(?=\s*(?:;|\Z|\n))")
"""The value of a connection string of ODBC, in which a brace is written twice."""
_FLAG = re.compile(
    rb"(?:"
    + PASSWORD
    + rb"|secret(?:[_-]?(?:access[_-]?)?key)?|token|key)(?:[ \t]+(?:is[ \t]+)?)(?=[^\s-])",
    _I,
)
_OF_FLAG = re.compile(rb"(?:\A|[\s\"'\[(])--?(?:[a-z]+-){0,3}\Z", _I)
_SPOKEN = re.compile(
    rb"(?:\A|[\s(])(?:the|a|an|use|uses|using|option|options|flag|with|and|or|no|of|to|is|via|by)\s[^\n]*\Z",
    _I,
)
_FINGERPRINT = re.compile(rb"(?:[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40})\Z")
"""The name of a key of PGP or of a commit, beside the word `key`."""
_TAG = rb"</?[a-z][a-z0-9]{0,9}(?:\s[^<>]{0,60})?>"
_ELEMENT = re.compile(rb"(?:" + PASSWORD + rb"|secret|token|key)>()([^<>\s]{4,200})</", _I)
_CELL = re.compile(
    PASSWORD
    + rb"\s?:?(?:\s{0,8}"
    + _TAG
    + rb"){1,6}\s?:?\s{0,8}(?:"
    + _TAG
    + rb"){0,3}([^<>\s]{4,200})",
    _I,
)
_STATEMENT = re.compile(
    rb"(?:password|identified by|by password)\s+(?:E|N)?()'([^'\n]{3,200})'"
    rb"|psk[ \t]+()\"([^\"\n]{8,63})\"",
    _I,
)
_DEVICE = re.compile(
    PASSWORD + rb"[ \t]+(?:[5789]|ENC)[ \t]+()([0-9A-Za-z+/=$.]{10,200})(?!\S)", _I
)
"""The password of a switch, behind the number of the way that hides it."""
_BELOW = re.compile(PASSWORD + rb"\*{0,2}[ \t]?:?\*{0,2}[ \t]*(?:\r?\n[ \t>]*){1,3}", _I)
_LINE_BELOW = re.compile(rb"[`*\"']{0,2}([^\s`\"']{4,100})[`*\"']{0,2}[ \t]*(?=\r?\n|\Z)")
_HEAD = re.compile(rb"(?:new |old |root |user )?" + PASSWORD + rb"s?\Z", _I)
_PHRASE = re.compile(
    rb"phrase[\"'*_]{0,3}[ \t]{0,4}[:=][ \t]{0,4}([a-z]{2,12}(?: [a-z]{2,12}){3,7})[ \t]*(?=\r?\n|\Z)"
)


def passwords_at(data: bytes, at: int) -> Iterator[Find]:
    """The value of the name of a password at `at`, by the first of the ways that apply."""
    before = data[max(0, at - NEAR) : at]
    for look in (_set, _statement, _option, _cell, _phrase, _column, _below):
        finds = list(look(data, at, before))
        if finds:
            yield from finds
            return


def _set(data: bytes, at: int, before: bytes) -> Iterator[Find]:
    """`password = …`, `"password": "…"`, `**Password:** …`."""
    match = _STRONG.match(data, at)
    if not match:
        return
    if match[0].endswith(b"=") and (braced := _BRACED.match(data, match.end())):
        if not is_no_value(braced[1]):
            yield Find(*braced.span(1), "password")
        return
    value = value_at(data, match.end())
    is_bare = re.match(rb"pass\b", match[0], _I) is not None
    if not value or (is_bare and not (_names_more(before) or _is_quoted_password(value))):
        return
    if is_password(value, before + match[0].rstrip(b" \t:=>*_\"'-"), _sign(match[0])):
        yield Find(value.start, value.end, "password")


def _is_quoted_password(value: SecretValue) -> bool:
    return value.is_quoted and is_in_sentence(value, False)


def _statement(data: bytes, at: int, _: bytes) -> Iterator[Find]:
    """`PASSWORD '…'` of SQL, and `<password>…</password>`."""
    for pattern in (_STATEMENT, _ELEMENT, _DEVICE):
        match = pattern.match(data, at)
        group = match.lastindex if match else None
        if match and group and not is_no_value(match[group]):
            yield Find(*match.span(group), "password")
            return


def _option(data: bytes, at: int, before: bytes) -> Iterator[Find]:
    """`--password …`."""
    match = _FLAG.match(data, at)
    value = value_at(data, match.end()) if match and _OF_FLAG.search(before) else None
    is_value = value and len(value.text) > 2 and not is_no_value(value.text)
    if value and is_value and not (is_plain_word(value.text) and _SPOKEN.search(before)):
        yield Find(value.start, value.end, "password")


def _cell(data: bytes, at: int, _: bytes) -> Iterator[Find]:
    """`<td>Password</td><td>…</td>`, `<b>Password</b>: …`."""
    match = _CELL.match(data, at)
    if match and is_strong(text := match[1].rstrip(b".,;")):
        yield Find(match.start(1), match.start(1) + len(text), "password")


def _phrase(data: bytes, at: int, _: bytes) -> Iterator[Find]:
    """`passphrase: four words in a row`."""
    place = data.find(b"phrase", at, at + 12)
    match = _PHRASE.match(data, place) if place > 0 else None
    if match and not any(map(is_no_value, match[1].split())):
        yield Find(*match.span(1), "password")


def _below(data: bytes, at: int, before: bytes) -> Iterator[Find]:
    """A line `Password:`, and the password alone on the next one."""
    match = _BELOW.match(data, at)
    line = _LINE_BELOW.match(data, match.end()) if match else None
    text = line[1] if line else b""
    is_numbered = len(text) > 7 and text.isalnum() and text[-1:].isdigit() and not text.isdigit()
    is_meant = is_strong(text) or (is_numbered and not is_no_value(text))
    if line and is_meant and not text.endswith((b":", b",", b"{", b";")):
        yield Find(*line.span(1), "password")


def _column(data: bytes, at: int, _: bytes) -> Iterator[Find]:
    """The cells of a column below the head `password`, of a table in Markdown or CSV."""
    start, end = data.rfind(b"\n", max(0, at - 300), at) + 1, data.find(b"\n", at, at + 300)
    head = data[start:end] if end > 0 else b""
    mark = next((mark for mark in (b"|", b"\t", b";", b",") if mark in head), None)
    if mark is None or not head.isascii():
        return
    cells = head.split(mark)
    number = head[: at - start].count(mark)
    if not _HEAD.match(cells[number].strip(b" \t\r>*_`\"'")):
        return
    is_ruled, place = False, end + 1
    for row in data[place : place + 300 * _MOST_ROWS].split(b"\n", _MOST_ROWS)[:_MOST_ROWS]:
        parts = row.split(mark)
        if len(parts) != len(cells):
            return
        cell = parts[number].strip(b" \t\r`*\"'")
        is_rule = not row.strip(b" \t\r>|:-")
        is_ruled = is_ruled or is_rule
        if is_strong(cell) or (is_ruled and len(cell) > 5 and is_plain_word(cell)):
            offset = sum(map(len, parts[:number])) + number + parts[number].find(cell)
            yield Find(place + offset, place + offset + len(cell), "password")
        place += len(row) + 1


def _sign(text: bytes) -> bytes:
    return text[re.search(rb"[\s:=>*_]*(?:=3D)?\Z", text).start() :]  # type: ignore[union-attr]


def _names_more(before: bytes) -> bool:
    """True if a short name follows a part of a name, or the name of a user on its line."""
    line = before[before.rfind(b"\n") + 1 :]
    return (
        before[-1:] in (b"_", b"-", b".", b"/", b"$")
        or re.search(rb"(?i)user|login|account|\bu:|-passin|-passout", line) is not None
    )


def secrets_at(data: bytes, at: int) -> Iterator[Find]:
    """The value of the name of a secret, a token or a key at `at`."""
    before = data[max(0, at - NEAR) : at]
    if match := _WEAK.match(data, at):
        is_variable = match[0].startswith(b"KEY") and _OF_VARIABLE.search(before)
        if match[0][:3].lower() == b"key" and not (is_variable or _OF_KEY.search(before)):
            return
        value = value_at(data, match.end())
        if value and is_secret(value, before + match[0].rstrip(b" \t:=>\"'"), _sign(match[0])):
            yield Find(value.start, value.end, "password")
    elif match := _ELEMENT.match(data, at):
        if is_random(match[2]):
            yield Find(*match.span(2), "password")
    elif match := _FLAG.match(data, at):
        value = value_at(data, match.end())
        is_option = _OF_FLAG.search(before) is not None
        is_meant = len(value.text) >= _LONG or is_option if value else False
        if value and is_meant and is_random(value.text):
            is_name = match[0][:3].lower() == b"key" and _FINGERPRINT.match(value.text)
            if is_option or not is_name:
                yield Find(value.start, value.end, "password")


def short_name_at(data: bytes, at: int) -> Iterator[Find]:
    """As `passwords_at` for a name of two letters, with the blank at `at` before it."""
    return passwords_at(data, at + 1)


NAMED_LOOKS: dict[str, Look] = {
    **dict.fromkeys(
        ("pass", "pwd", "psk", "pw:", "pw=", "**pw", "identified by", *PASSWORDS), passwords_at
    ),
    **dict.fromkeys((" pw ", " pw (", "|pw|"), short_name_at),
    **dict.fromkeys(("secret", "token", "key", "auth", "session", "credential"), secrets_at),
}
"""Functions that look for a value, by the word, in lower case, at whose beginning they look."""
