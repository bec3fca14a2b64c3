"""E-mail addresses, telephone numbers, and numbers of cards and accounts, which have a checksum."""

import re
from collections.abc import Iterator

from transforms.text.finds.forms import FILES, IBANS, PATTERNS, Find

_LOCAL_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_LOCAL = re.compile(r"[^\W_][\w.%+-]*\Z")
_DOMAIN = re.compile(
    rb"@((?:[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9\x80-\xff-]{0,62})\.){1,8}([A-Za-z\x80-\xff]{2,24}))(?![A-Za-z0-9-])"
)
_HOST = re.compile(r"[\w.-]+")
_LONGEST_LOCAL = 128
_PROGRAMS = frozenset((b"git", b"hg", b"svn", b"cvs", b"anoncvs", b"anonymous", b"pserver"))
"""Accounts that everybody uses."""
_PATH = re.compile(rb"://[^\s<>\"']*/[^\s<>\"'@]*\Z")
_AT = rb"[ \t]*(?:\(at\)|\[at\]|\{at\}|<at>|\(a\)|\(@\)|\[@\])[ \t]*"
_DOT = rb"(?:\.|[ \t]*(?:\(dot\)|\[dot\]|\{dot\}|<dot>|\(\.\))[ \t]*|[ \t]+dot[ \t]+)"
_WRITTEN = re.compile(
    _AT + rb"[A-Za-z0-9-]{1,63}(?:" + _DOT + rb"[A-Za-z0-9-]{1,63}){1,5}", re.IGNORECASE
)
_SPELT = re.compile(PATTERNS["spelt"].encode(), re.IGNORECASE)

_PHONE = re.compile(
    rf"(?<![\w.+/=-])(?:(?P<plus>(?:\+|00(?=[1-9][0-9]{{0,2}}[ -]))(?:{PATTERNS['country']})(?:[ ./-]?\(0?\d{{0,5}}\))?"
    rf"(?:[ ./-]?[0-9]){{6,13}}(?![0-9]))|{PATTERNS['phone']})".encode()
)
_NAMED_PHONE = re.compile(PATTERNS["named_phone"].encode(), re.IGNORECASE)
_VERSION = re.compile(PATTERNS["version"].encode())
_DIFF = re.compile(rb"(?m)^(?:@@ |-[^-\n]|--- )")

_CARD = re.compile(PATTERNS["card"].encode())
_OF_CARD = re.compile(rb"(?i)card|karte|carte|kort|tarjeta|visa|amex|\bpan\b|\bcc\b")
"""Words before the number of a card without gaps: one in ten of all numbers of that length has a right check digit."""
_ISSUER = re.compile(rf"(?:{PATTERNS['issuer']})\Z".encode())
_IBAN = re.compile(
    rb"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?|[A-Z0-9]{11,30})(?![A-Za-z0-9])"
)
NUMBER_SHAPES = (PATTERNS["phone_shapes"], PATTERNS["payment_shapes"])
"""Patterns for Polars of texts that may hold a telephone number, and of those with the number of a card or account."""


def email_at(data: bytes, at: int) -> Find | None:
    """The address whose `@` is at `at`; files, accounts of programs and ids in addresses of pages are none."""
    domain = _DOMAIN.match(data, at)
    if (
        not domain
        or domain[2].lower().decode(errors="replace") in FILES
        or not _HOST.fullmatch(domain[1].decode(errors="replace"))
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
    is_id = sum(byte in b"0123456789" for byte in local) > 5 and _PATH.search(
        data, max(0, start - 200), start
    )
    return None if is_id else Find(start, domain.end(), "email")


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


def phones(data: bytes) -> Iterator[Find]:
    """Telephone numbers by their form alone."""
    is_diff: bool | None = None
    for match in _PHONE.finditer(data):
        number, start = match[0], match.start()
        digits = re.sub(rb"\(0\)|[^0-9]", b"", number)
        if _VERSION.search(data, max(0, start - 16), start):
            continue
        if match["plus"]:
            least = 10 if number[1:].isdigit() else 8
            is_wrong = digits.startswith(b"1") and not re.fullmatch(
                rb"1[2-9][0-9]{2}[2-9][0-9]{6}", digits
            )
            # The groups of an international number are not those of a version or of a table.
            groups = re.findall(rb"[0-9]+", number)
            is_grouped = len(groups) == 1 or (
                (b"." not in number or len(groups) > 2)
                and min(map(len, groups[2:] or groups[1:])) > 1
            )
            if not least <= len(digits) <= 15 or is_wrong or not is_grouped:
                continue
            if start == 0 or data[start - 1 : start] == b"\n":
                is_diff = bool(_DIFF.search(data)) if is_diff is None else is_diff
                if is_diff:
                    continue
        yield Find(start, match.end(), "phone")


def payments(data: bytes) -> Iterator[Find]:
    """Numbers of cards whose check digit is right (ISO/IEC 7812-1), and of accounts whose checksum is (ISO 13616)."""
    for match in _CARD.finditer(data):
        digits = re.sub(rb"[ -]", b"", match[0])
        is_grouped = len(digits) < len(match[0])
        if (
            (is_grouped or _OF_CARD.search(data, max(0, match.start() - 60), match.start()))
            and _ISSUER.match(digits)
            and _is_luhn(digits)
        ):
            yield Find(match.start(), match.end(), "card")
    for match in _IBAN.finditer(data):
        number = match[0].replace(b" ", b"").decode()
        length = IBANS.get(number[:2], 0)
        end = match.end()
        while length and len(number) > length and (cut := data.rfind(b" ", match.start(), end)) > 0:
            end = cut  # the word behind it looks like one more group
            number = data[match.start() : end].replace(b" ", b"").decode()
        if (
            len(number) == length
            and int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 == 1
        ):
            yield Find(match.start(), end, "iban")


def _is_luhn(digits: bytes) -> bool:
    doubled = (2 * (d - 48) if n % 2 else d - 48 for n, d in enumerate(reversed(digits)))
    return len(set(digits)) > 1 and sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0
