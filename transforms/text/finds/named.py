"""Secrets that are known by the words before them: `password: …`, `--token …`, headers, files and sentences."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from transforms.text.finds.forms import (
    CLIENT_WORDS,
    CLIENTS,
    NO_VALUES,
    PASSWORDS,
    PATTERNS,
    SERVICES,
    Find,
)

_I = re.IGNORECASE
_LONG = 20
"""Bytes of a random value that needs no sign between it and its name."""
_NEAR = 60
"""Bytes before a name that give its meaning."""

_SUFFIX = rb"(?:s|[_-]?[0-9]{1,2}|[_-](?:prod|live|dev|test|staging|old|new|value|b64|base64|base|text|plain))?"
_END = rb"(?![A-Za-z0-9_-])\\?[\"'`\])}*]{0,3}"
_SIGN = rb"(?:[ \t]{0,8}(?::=|=>|={1,2}|:)[ \t]{0,8}(?:=3D)?|(?<=[\"']),[ \t]{0,4}(?=[\"'])|(?<=[\"'])[ \t]{1,4}value=)"
_PASSWORD = (
    rb"(?:pass(?:[_-]?(?:word|wd|phrase|code|wort))?|pw|pwd|psk|"
    + "|".join(PASSWORDS).encode()
    + rb")"
)
_STRONG = re.compile(_PASSWORD + _SUFFIX + _END + _SIGN, _I)
_WEAK = re.compile(rf"(?:{PATTERNS['weak']})".encode() + _SUFFIX + _END + _SIGN, _I)
_OF_KEY = re.compile(rf"(?:{PATTERNS['of_key']})[_. -]?\Z".encode(), _I)
_FLAG = re.compile(
    rb"(?:" + _PASSWORD + rb"|secret(?:[_-]?(?:access[_-]?)?key)?|token|key)(?:[ \t]+)(?=[^\s-])",
    _I,
)
_OF_FLAG = re.compile(rb"(?:\A|[\s\"'\[(])--?(?:[a-z]+-){0,3}\Z", _I)
_SPOKEN = re.compile(
    rb"(?:\A|[\s(])(?:the|a|an|use|uses|using|option|options|flag|with|and|or|no|of|to|is|via|by)\s[^\n]*\Z",
    _I,
)
_ELEMENT = re.compile(rb"(?:" + _PASSWORD + rb"|secret|token|key)>()([^<>\s]{4,200})</", _I)
_STATEMENT = re.compile(
    rb"(?:password|identified by|by password)\s+(?:E|N)?()'([^'\n]{3,200})'", _I
)
_VERB = rb"(?:(?:was |is |has been |have been )?(?:set|changed|reset) to|(?:is|was|will be|lautet|ist|est|es|=)(?: now)?)"
_SENTENCE = re.compile(
    _PASSWORD
    + rb"(?:(?:[ \t]+(?:for|to|of|on|at)\s[^\n:=]{1,40}?)?(?:\s+"
    + _VERB
    + rb":?|:)\s+|[ \t]+)",
    _I,
)
_PIN = re.compile(
    rb"(?:pin|otp|verification code|security code|passcode)(?:[ \t]+code)?(?:\s+is|:|[ \t]*=)\s*([0-9]{4,8})\b",
    _I,
)
_QUOTED = re.compile(rb"\\?([\"'`])([^\"'`\n]{1,300}?)\\?\1")
_BARE = re.compile(rb"[^\s\"'<>`]{1,400}")
_TAIL = b".,;:!?)]}|"

_LETTERED = re.compile(rb"[A-Za-z]+\Z")
_WORDS = re.compile(rb"[A-Za-z]+(?:[_. -]+[A-Za-z]+)*[_-]?[0-9]?\Z")
_DOTTED = re.compile(rb"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)+\Z")
_VARIABLE = re.compile(PATTERNS["variable"].encode(), _I)
_CODE = re.compile(rb"[\w.]*[(\[]|\w+->|\w+::|!")
_MIXED = re.compile(rb"(?=.*[A-Z][a-z][A-Z]|.*[A-Z]{2}.*[a-z][A-Z]{2})(?:.*?[a-z][A-Z]){2}")
"""Letters of both cases in an order that no name has."""
_ALGORITHM = re.compile(rf"(?:{PATTERNS['algorithm']})[_ -]?[0-9][\w.-]*\Z".encode(), _I)
_NUMBERS = re.compile(rb"v?[0-9]+(?:[.,:/-][0-9]+)*(?:[a-z]{1,3})?\Z|[0-9]+[a-z]{1,2}[0-9]*\Z", _I)
_STRONGISH = re.compile(rb"(?=.*[0-9])|.*[a-z][A-Z]|.*[^\w.'/()\x80-\xff-]", re.DOTALL)
_PLACEHOLDER = re.compile(PATTERNS["placeholder"].encode(), _I)


class _Value(NamedTuple):
    """A value at bytes of a text: whether it is quoted, the text behind it, and whether its line ends there."""

    start: int
    end: int
    text: bytes
    is_quoted: bool
    after: bytes
    is_last: bool


def _value(data: bytes, at: int) -> _Value | None:
    quoted = _QUOTED.match(data, at)
    if quoted:
        start, end = quoted.span(2)
        return _Value(start, end, quoted[2], True, data[quoted.end() : quoted.end() + 1], False)
    bare = _BARE.match(data, at)
    if not bare:
        return None
    text = bare[0].rstrip(_TAIL)
    for mark in (b"&", b";"):  # the next part of an address or of a connection string
        head, separator, rest = text.partition(mark)
        text = head if separator and b"=" in rest else text
    end = at + len(text)
    rest = data[end : end + 40].partition(b"\n")[0]
    return _Value(at, end, text, False, rest[:1], not rest.strip(b" \t\r.,"))


def _is_no_value(text: bytes, is_quoted: bool = False) -> bool:
    """True for variables, code, paths, placeholders and words that describe a value."""
    return bool(
        _VARIABLE.match(text)
        or (_CODE.match(text) and not (is_quoted and _is_random(text)))
        or _PLACEHOLDER.match(text)
        or (_ALGORITHM.match(text) and not re.match(rb"(?:.*?[a-z][A-Z]){2}", text))
        or text.lower().decode(errors="replace") in NO_VALUES
    )


def _is_random(text: bytes) -> bool:
    """True for a text with letters and digits in the order of no word, name, number or version."""
    if len(text) < 8 or _NUMBERS.match(text) or _DOTTED.match(text):
        return False
    if _WORDS.match(text):
        return _MIXED.match(text) is not None
    digits = sum(byte in b"0123456789" for byte in text)
    return (
        digits >= 2
        and digits < len(text)
        or len(text) >= 20
        and bool(re.search(rb"[a-z][A-Z]+[a-z]", text))
    )


def _is_password(value: _Value, before: bytes, sign: bytes) -> bool:
    text = value.text
    if (
        len(text) < 4
        or _is_no_value(text, value.is_quoted)
        or (_DOTTED.match(text) and not value.is_quoted)
    ):
        return False
    if value.is_quoted:
        return (
            b" " not in text.strip()
            and not text.endswith((b":", b"="))
            or (b"psk" in before.lower()[-4:])
        )
    if value.after in (b"(", b"[") and value.after:
        return False
    is_name = re.fullmatch(rb"[A-Za-z_]\w*", text) is not None
    if _STRONGISH.match(text) and (not _WORDS.match(text) or _MIXED.match(text)):
        digits = sum(byte in b"0123456789" for byte in text)
        return not (is_name and value.after in (b";", b",", b")") and value.after and digits < 2)
    if b":" in sign and len(text) > 5 and re.search(rb"[0-9]", text):
        return True
    if b" " not in sign and b"\t" not in sign and b"=" in sign:
        return value.after not in (b",", b")", b";", b".") or not value.after
    # Nothing but a name and marks of lists or quotes may be on the line so far.
    line = before[before.rfind(b"\n") + 1 :]
    begins_line = re.fullmatch(rb"[\s>|*+\"'-]*(?:export |set |mot de |[\w-]{1,20} )?[\w.-]*", line)
    return value.is_last and value.after != b";" and begins_line is not None


def _is_secret(value: _Value, before: bytes, sign: bytes) -> bool:
    """True for the value of a name that says `secret`, `token` or `key`, which code uses for much else."""
    text = value.text
    if len(text) < 6 or _is_no_value(text, value.is_quoted):
        return False
    if value.is_quoted:
        return b" " not in text and (
            _is_random(text)
            or (len(text) >= 8 and not _WORDS.match(text))
            or len(text) > 11
            and bool(_LETTERED.match(text))
        )
    if value.after in (b"(", b"[") and value.after:
        return False
    is_variable = sign == b"=" and before[-1:].isupper()
    return _is_random(text) or (
        is_variable and not _DOTTED.match(text) and value.after not in (b")", b"(", b",", b".")
    )


def passwords_at(data: bytes, at: int) -> Iterator[Find]:
    """The value of the name of a password at `at`: in a setting, an option, an element, a statement or a sentence."""
    before = data[max(0, at - _NEAR) : at]
    if match := _STRONG.match(data, at):
        is_bare = re.match(rb"pass\b", match[0], _I) is not None
        value = _value(data, match.end())
        if (
            value
            and (
                not is_bare
                or _names_more(before)
                or (value.is_quoted and _is_in_sentence(value, False))
            )
            and _is_password(value, before + match[0].rstrip(b" \t:=>\"'"), _sign(match[0]))
        ):
            yield Find(value.start, value.end, "password")
    elif match := _STATEMENT.match(data, at) or _ELEMENT.match(data, at):
        if not _is_no_value(match[2]):
            yield Find(*match.span(2), "password")
    elif (match := _FLAG.match(data, at)) and _OF_FLAG.search(before):
        value = _value(data, match.end())
        is_spoken = value and _WORDS.match(value.text) and _SPOKEN.search(before)
        if value and len(value.text) > 2 and not _is_no_value(value.text) and not is_spoken:
            yield Find(value.start, value.end, "password")
    elif match := _SENTENCE.match(data, at):
        value = _value(data, match.end())
        if value and _is_in_sentence(
            value, bool(re.search(rb"\s(?:is|was|be|ist|lautet|est|es|to|now):?\s+\Z", match[0]))
        ):
            yield Find(value.start, value.end, "password")


def _sign(text: bytes) -> bytes:
    return text[re.search(rb"[\s:=>]*(?:=3D)?\Z", text).start() :]  # type: ignore[union-attr]


def _names_more(before: bytes) -> bool:
    """True if a short name follows a part of a name, or the name of a user on its line."""
    line = before[before.rfind(b"\n") + 1 :]
    return (
        before[-1:] in (b"_", b"-", b".", b"/", b"$")
        or re.search(rb"(?i)user|login|account|\bu:|-passin|-passout", line) is not None
    )


def _is_in_sentence(value: _Value, has_verb: bool) -> bool:
    text = value.text
    if value.is_quoted:
        is_strong = has_verb or re.search(rb"[0-9]", text)
        return bool(is_strong) and len(text) > 2 and b" " not in text and not _is_no_value(text)
    if (
        len(text) < (4 if has_verb else 6)
        or _is_no_value(text)
        or _WORDS.match(text)
        or _DOTTED.match(text)
    ):
        return False
    has_letter, has_digit = re.search(rb"[A-Za-z]", text), re.search(rb"[0-9]", text)
    if _NUMBERS.match(text):
        return has_verb and value.is_last and len(text) > 3
    return bool(
        has_letter
        and (has_digit or (has_verb and re.search(rb"[^\w.,'/():;\x80-\xff-]|[a-z][A-Z]", text)))
    )


def secrets_at(data: bytes, at: int) -> Iterator[Find]:
    """The value of the name of a secret, a token or a key at `at`."""
    before = data[max(0, at - _NEAR) : at]
    if match := _WEAK.match(data, at):
        if match[0][:3].lower() == b"key" and not _OF_KEY.search(before):
            return
        value = _value(data, match.end())
        if value and _is_secret(value, before + match[0].rstrip(b" \t:=>\"'"), _sign(match[0])):
            yield Find(value.start, value.end, "password")
    elif match := _ELEMENT.match(data, at):
        if _is_random(match[2]):
            yield Find(*match.span(2), "password")
    elif match := _FLAG.match(data, at):
        value = _value(data, match.end())
        if (
            value
            and _is_random(value.text)
            and (len(value.text) >= _LONG or _OF_FLAG.search(before))
        ):
            yield Find(value.start, value.end, "password")


_AUTHORIZATION = re.compile(PATTERNS["authorization"].encode(), _I)
_BEARER = re.compile(rb"bearer[ \t]+([A-Za-z0-9._~+/=-]{16,})", _I)
_COOKIES = re.compile(rb"cookie2?[\"']?:[^\r\n]{0,1000}", _I)
_COOKIE = re.compile(rb"=\s*(?!\[[a-z_]+\]\**(?:[;\s\"',]|\Z))([^;\s\"',]{8,})")  # not a mask
_ATTRIBUTES = re.compile(
    rb"(?:expires|path|domain|max-age|samesite|version|comment|priority)\Z", _I
)
_URL_PASSWORD = re.compile(rb"://[^\s/:@<>\"']{0,200}:([^\s/@<>\"']{1,200})@")
_CURL = re.compile(
    rb"curl\b[^\n|;]{0,300}?[ \t](?:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"'$<>]{1,100}:([^\s\"'$<>]{1,200})",
    _I,
)
_CLIENT = re.compile(
    ("(?:" + "|".join(CLIENTS) + r")([^\s\"'|;$<>-][^\s\"'|;<>]{2,})").encode(), _I
)
_NETRC = re.compile(rb"login\s+\S{1,100}\s+password\s+(\S{1,200})", _I)
_PAIR = re.compile(PATTERNS["pair"].encode(), _I)
_PGPASS = re.compile(
    rb"(?m)^[\s>]*[\w.*-]{1,100}:(?:[0-9]{4,5}|\*):[\w*.-]{1,60}:[\w*.@-]{1,60}:(\S{3,200})[ \t]*$"
)
_AZURE = re.compile(rb"(?:AccountKey|SharedAccessKey|AccessKey)=([A-Za-z0-9+/%]{30,}={0,2})", _I)
_SIGNATURE = re.compile(
    rb"(?:sig|X-Amz-Signature|X-Goog-Signature)=([A-Za-z0-9+/%]{32,}={0,2})", _I
)
_HASH = re.compile(rb"\$(?:1|2[abxy]|5|6|7|y|apr1|argon2\w*|scrypt)\$[A-Za-z0-9./$,=+-]{20,}")
_SERVICE = re.compile(
    rb"[\w -]{0,30}[\"'\]]{0,2}[ \t]{0,3}(?::=|=>|[=:])[ \t]{0,3}[\"']?([A-Za-z0-9_=.-]{15,})"
)


def _plain(
    pattern: re.Pattern[bytes], kind: str = "password"
) -> Callable[[bytes, int], Iterable[Find]]:
    """A function that finds the first group of a pattern at a place, unless it is a placeholder."""

    def finds(data: bytes, at: int) -> Iterator[Find]:
        match = pattern.match(data, at)
        if match and not _is_no_value(match[1].rstrip(_TAIL)):
            end = match.start(1) + len(match[1].rstrip(b",;."))
            yield Find(match.start(1), end, kind)

    return finds


def _authorization(data: bytes, at: int) -> Iterator[Find]:
    for pattern in (_AUTHORIZATION, _BEARER):
        match = pattern.match(data, at)
        if match and (_is_random(match[1]) or re.search(rb"=\Z|[a-z][A-Z][a-z]*[A-Z]", match[1])):
            yield Find(*match.span(1), "authorization")


def _cookies(data: bytes, at: int) -> Iterator[Find]:
    header = _COOKIES.match(data, at)
    for match in _COOKIE.finditer(data, at, header.end()) if header else ():
        name = data[max(at, match.start() - 20) : match.start()].rpartition(b";")[2].strip()
        if not _ATTRIBUTES.search(name):
            yield Find(*match.span(1), "authorization")


def _url_password(data: bytes, at: int) -> Iterator[Find]:
    match = _URL_PASSWORD.match(data, at)
    if (
        match
        and data[at - 1 : at].isalnum()
        and not re.fullmatch(rb"\[[a-z_]+\]\**|\$\{?\w+\}?|<.*|\{.*", match[1])
    ):
        yield Find(*match.span(1), "url_password")


def _pgpass(data: bytes, at: int) -> Iterator[Find]:
    line = data.rfind(b"\n", max(0, at - 200), at) + 1
    match = _PGPASS.match(data, line if line else max(0, at - 200))
    if match and not _is_no_value(match[1]):
        yield Find(*match.span(1), "password")


def _signature(data: bytes, at: int) -> Iterator[Find]:
    match = _SIGNATURE.match(data, at)
    if match and data[at - 1 : at] in (b"?", b"&", b";", b"", b'"', b"'", b" "):
        yield Find(*match.span(1), "cloud_key")


def _hash(data: bytes, at: int) -> Iterator[Find]:
    if match := _HASH.match(data, at):
        yield Find(match.start(), match.end(), "password")


def _service(data: bytes, at: int) -> Iterator[Find]:
    match = _SERVICE.match(data, at)
    if match and _is_random(match[1]) and not re.search(rb"[a-z]{4,}[.-][a-z]{4,}", match[1]):
        yield Find(*match.span(1), "access_token")


NAMES: dict[str, Callable[[bytes, int], Iterable[Find]]] = {
    **dict.fromkeys(
        (
            "pass",
            "pwd",
            "psk",
            *PASSWORDS,
            "pw:",
            "pw=",
            "pw for",
            "pw of",
            "pw is",
            "identified by",
        ),
        passwords_at,
    ),
    **dict.fromkeys(("secret", "token", "key", "auth", "session", "credential"), secrets_at),
    **dict.fromkeys(
        ("pin:", "pin is", "pin code", "pin =", "otp", "verification code", "security code"),
        _plain(_PIN),
    ),
    **dict.fromkeys(("authorization", "bearer "), _authorization),
    **dict.fromkeys(SERVICES, _service),
    "cookie": _cookies,
    "://": _url_password,
    "curl": _plain(_CURL),
    **dict.fromkeys(CLIENT_WORDS, _plain(_CLIENT)),
    "login": _plain(_NETRC),
    **dict.fromkeys(
        ("creds", "credentials", "login:", "logins", "user/pass", "username/pass"), _plain(_PAIR)
    ),
    **dict.fromkeys((":5432:", ":*:", ":6432:", ":5433:"), _pgpass),
    **dict.fromkeys(("accountkey=", "sharedaccesskey=", "accesskey="), _plain(_AZURE, "cloud_key")),
    **dict.fromkeys(("sig=", "x-amz-signature=", "x-goog-signature="), _signature),
    **dict.fromkeys(
        ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$apr1$", "$argon2", "$scrypt"), _hash
    ),
}
"""Functions that look for a value, by the word, in lower case, at whose beginning they look."""
