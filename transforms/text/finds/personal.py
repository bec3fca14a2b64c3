"""E-mail addresses, telephone numbers, and numbers of cards and accounts, which have a checksum."""

import re
from collections.abc import Iterator

from transforms.text.finds.forms import AREAS, FILES, IBANS, PATTERNS, Find

_LOCAL_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_NUMERALS = b"0123456789"
_LOCAL = re.compile(r"[^\W_][\w.%+-]*\Z")
_DOMAIN = re.compile(
    rb"@((?:[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9\x80-\xff-]{0,62})\.){1,8}([A-Za-z\x80-\xff]{2,24}))(?![A-Za-z0-9-])"
)
_HOST = re.compile(r"[\w.-]+")
_LONGEST_LOCAL = 128
_PROGRAMS = frozenset((b"git", b"hg", b"svn", b"cvs", b"anoncvs", b"anonymous", b"pserver"))
"""Accounts that everybody uses."""
_PATH = re.compile(rb"://[^\s<>\"']*/[^\s<>\"'@]*\Z")
_USER = re.compile(rb"://[^\s/@:]{1,80}:\Z")
"""The name before the password in an address of a server."""
_ID_FIELDS = (
    b"message-id:",
    b"in-reply-to:",
    b"references:",
    b"resent-message-id:",
    b"content-id:",
)
_ID_NAMES = (b"message-id", b"msgid", b"message id")
_ID = re.compile(PATTERNS["message_id"].encode())
"""The part before `@` of ids that programs give to mails, within `<` and `>`."""
_LONGEST_ID = 200
_AT = rb"[ \t]*(?:\(at\)|\[at\]|\{at\}|<at>|\(a\)|\(@\)|\[@\])[ \t]*"
_DOT = rb"(?:\.|[ \t]*(?:\(dot\)|\[dot\]|\{dot\}|<dot>|\(\.\))[ \t]*|[ \t]+dot[ \t]+)"
_WRITTEN = re.compile(
    _AT + rb"[A-Za-z0-9-]{1,63}(?:" + _DOT + rb"[A-Za-z0-9-]{1,63}){1,5}", re.IGNORECASE
)
_SPELT = re.compile(PATTERNS["spelt"].encode(), re.IGNORECASE)

_AMERICAN = re.compile(rb"1[2-9][0-9]{2}[2-9][0-9]{6}")
_MOST_DIGITS = 15
"""Digits of a number of E.164 at most."""
_PHONE = re.compile(
    rf"(?<![\w.+/=-])(?:(?P<plus>(?:\+|00(?=[1-9][0-9]{{0,2}}[ -]))(?:{PATTERNS['country']})(?:[ ./-]?\(0?\d{{0,5}}\))?"
    rf"(?:[ ./-]?[0-9]){{6,13}}(?![0-9]))|{PATTERNS['phone']})".encode()
)
_NAMED_PHONE = re.compile(PATTERNS["named_phone"].encode(), re.IGNORECASE)
_VERSION = re.compile(PATTERNS["version"].encode())
_DIFF = re.compile(rb"(?m)^(?:@@ |-[^-\n]|--- )")

_SOCIAL = re.compile(
    rb"(?:ssn|ss#|social security(?: (?:number|no\.?|nr\.?))?)[^\n0-9]{0,20}"
    rb"((?!000|666|9)[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4})(?![0-9-])",
    re.IGNORECASE,
)
"""A number of the Social Security of the USA: its areas leave out 000, 666 and 900 to 999."""
_PASSPORT = re.compile(
    rb"passport (?:no\.?|number|nr\.?)[ \t]*(?:is|:|=)?[ \t]*([A-Z0-9]{2}[A-Z0-9]{4,8}[0-9])(?![\w-])",
    re.IGNORECASE,
)
_CARD = re.compile(PATTERNS["card"].encode())
_OF_CARD = re.compile(rb"(?i)card|karte|carte|kort|tarjeta|visa|amex|\bpan\b|\bcc\b")
"""Words before the number of a card without gaps: one in ten of all numbers of that length has a
right check digit.
"""
_ISSUER = re.compile(rf"(?:{PATTERNS['issuer']})\Z".encode())
_IBAN = re.compile(
    rb"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?|[A-Z0-9]{11,30})(?![A-Za-z0-9])"
)
_NAMED_IBAN = re.compile(
    rb"(?:iban|konto|account|cuenta|compte)\W[^\n0-9]{0,20}?"
    rb"([A-Z]{2}[0-9]{2}(?:(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?|[A-Z0-9]{11,30}))(?![A-Za-z0-9])",
    re.IGNORECASE,
)
"""The number of an account behind its name, also in small letters."""
NUMBER_SHAPES = (PATTERNS["phone_shapes"], PATTERNS["payment_shapes"])
"""Patterns for Polars of texts that may hold a telephone number, and of those with the number of a
card or account.
"""


def email_at(data: bytes, at: int) -> Find | None:
    """The address whose `@` is at `at`; files, accounts of programs and ids in addresses of pages
    are none.
    """
    domain = _DOMAIN.match(data, at)
    if (
        not domain
        or domain[2].lower().decode(errors="replace") in FILES
        or not (domain[1].isascii() or _HOST.fullmatch(domain[1].decode(errors="replace")))
    ):
        return None
    before = data[max(0, at - _LONGEST_LOCAL) : at]
    local = before[len(before.rstrip(_LOCAL_BYTES)) :]
    if at > len(local) and data[at - len(local) - 1] >= 0x80:
        match = _LOCAL.search(before.decode(errors="replace"))
        local = match[0].encode() if match else b""
    local = local.lstrip(b"._%+-")
    start = at - len(local)
    if not local or local.lower() in _PROGRAMS:
        return None
    is_id = (
        len(local.translate(None, _NUMERALS)) < len(local) - 5 or data[start - 1 : start] == b"/"
    )
    is_id = is_id and _PATH.search(data, max(0, start - _LONGEST_ID), start) is not None
    is_id = (
        is_id or data[start - 1 : start] == b":" and _USER.search(data, max(0, start - 90), start)
    )
    return None if is_id or _is_message_id(data, start, at) else Find(start, domain.end(), "email")


def _is_message_id(data: bytes, start: int, at: int) -> bool:
    """True if an id of a mail has its `@` at `at`: by its form, its name or the field that it is in."""
    first = max(0, at - _LONGEST_ID)
    bracket = data.rfind(b"<", first, at)
    if bracket >= 0 and _ID.fullmatch(data, bracket + 1, at):
        return True
    line = data[data.rfind(b"\n", first, start) + 1 : start].lower()
    return line.lstrip(b"> \t").startswith(_ID_FIELDS) or line.rstrip(b' :=<"').endswith(_ID_NAMES)


def written_email_at(data: bytes, at: int) -> Find | None:
    """The address whose `(at)`, or ` dot ` in words, is at `at`."""
    before = data[max(0, at - _LONGEST_LOCAL) : at]
    if domain := _WRITTEN.match(data, at):
        bare = before.rstrip(b" \t")
        local = bare[len(bare.rstrip(_LOCAL_BYTES)) :]
        return (
            Find(at - len(before) + len(bare) - len(local), domain.end(), "email")
            if local
            else None
        )
    line = at - len(before) + before.rfind(b"\n") + 1
    spelt = next(
        (m for m in _SPELT.finditer(data, line, at + 100) if m.start() < at < m.end()), None
    )
    return Find(spelt.start(), spelt.end(), "email") if spelt else None


def phones_at(data: bytes, at: int) -> Iterator[Find]:
    """The telephone number behind a word for one at `at`."""
    if match := _NAMED_PHONE.match(data, at):
        yield Find(*match.span(1), "phone")


def _is_international(number: bytes, digits: bytes) -> bool:
    """True if a number behind a plus has as many digits as one of E.164, and groups as one."""
    least = 10 if number[1:].isdigit() else 8
    if not least <= len(digits) <= _MOST_DIGITS:
        return False
    is_american = _AMERICAN.fullmatch(digits) and _is_area(digits[1:4])
    if digits.startswith(b"1") and not is_american:
        return False
    # The groups are not those of a version or of a table.
    groups = re.findall(rb"[0-9]+", number)
    is_dotted = b"." in number and len(groups) <= 2
    return len(groups) == 1 or (not is_dotted and min(map(len, groups[2:] or groups[1:])) > 1)


def phones(data: bytes) -> Iterator[Find]:
    """Telephone numbers by their form alone."""
    is_diff: bool | None = None
    for match in _PHONE.finditer(data):
        number, start = match[0], match.start()
        digits = re.sub(rb"\(0\)|[^0-9]", b"", number)
        if _VERSION.search(data, max(0, start - 16), start):
            continue
        is_american = number.lstrip(b"(")[:1] in b"123456789" and not match["plus"]
        if is_american and not _is_area(digits.removeprefix(b"1")[:3]):
            continue
        if match["plus"]:
            if not _is_international(number, digits):
                continue
            if start == 0 or data[start - 1 : start] == b"\n":
                is_diff = bool(_DIFF.search(data)) if is_diff is None else is_diff
                if is_diff:
                    continue
        yield Find(start, match.end(), "phone")


def _is_area(digits: bytes) -> bool:
    return digits.decode() in AREAS


def numbers_at(data: bytes, at: int) -> Iterator[Find]:
    """The number of a person or of an account behind its name at `at`."""
    for pattern in (_SOCIAL, _PASSPORT):
        if match := pattern.match(data, at):
            yield Find(*match.span(1), "id_number")
    if match := _NAMED_IBAN.match(data, at):
        yield from _account(data, *match.span(1))


def payments(data: bytes) -> Iterator[Find]:
    """Numbers of cards whose check digit is right (ISO/IEC 7812-1), and of accounts whose checksum
    is (ISO 13616).
    """
    for match in _CARD.finditer(data):
        digits = re.sub(rb"[ .-]", b"", match[0])
        is_grouped = len(digits) < len(match[0]) and b"." not in match[0]
        if (
            (is_grouped or _OF_CARD.search(data, max(0, match.start() - 60), match.start()))
            and _ISSUER.match(digits)
            and _is_luhn(digits)
        ):
            yield Find(match.start(), match.end(), "card")
    for match in _IBAN.finditer(data):
        yield from _account(data, *match.span())


def _account(data: bytes, start: int, end: int) -> Iterator[Find]:
    """The number of an account at these bytes, if it has the length and the checksum of one."""
    number = data[start:end].replace(b" ", b"").decode().upper()
    length = IBANS.get(number[:2], 0)
    while length and len(number) > length and (cut := data.rfind(b" ", start, end)) > 0:
        end = cut  # the word behind it looks like one more group
        number = data[start:end].replace(b" ", b"").decode().upper()
    moved = number[4:] + number[:4]
    if len(number) == length and int("".join(str(int(c, 36)) for c in moved)) % 97 == 1:
        yield Find(start, end, "iban")


def _is_luhn(digits: bytes) -> bool:
    doubled = (2 * (d - 48) if n % 2 else d - 48 for n, d in enumerate(reversed(digits)))
    return len(set(digits)) > 1 and sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0
