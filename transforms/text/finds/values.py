"""Values of secrets, and how they differ from variables, paths, placeholders, words and numbers."""

import re
from collections import Counter
from math import log2
from typing import NamedTuple

from transforms.text.finds.forms import NO_VALUES, PATTERNS

_I = re.IGNORECASE
_SHORTEST_RANDOM = 8
"""Bytes of the shortest text whose letters and digits say that it is drawn by lot."""
_LONG_RANDOM = 20
"""Bytes from which letters of both cases say it without a digit: no name has so many."""
_LEAST_ENTROPY = 2.0
"""Bits a byte of a random text: eight drawn letters have 2.5 to 3, `xxxxxx12` has 1.3."""

_QUOTED = re.compile(r"\\?([\"'`„“”«])([^\"'`“”»\n]{1,300}?)\\?(?:\1|[“”»])".encode())
_BARE = re.compile(rb"[^\s\"'<>`]{1,400}")
_TAIL = b".,;:!?)]}|*_"
_NEXT_PART = (b"&", b";")
"""Signs before the next part of an address or of a connection string."""

_LETTERED = re.compile(rb"[A-Za-z]+\Z")
_WORDS = re.compile(rb"[A-Za-z]+(?:[_. -]+[A-Za-z]+)*[_-]?[0-9]?\Z")
_DOTTED = re.compile(rb"[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)+\Z")
_NUMBERS = re.compile(rb"v?[0-9]+(?:[.,:/-][0-9]+)*(?:[a-z]{1,3})?\Z|[0-9]+[a-z]{1,2}[0-9]*\Z", _I)
_VARIABLE = re.compile(PATTERNS["variable"].encode(), _I)
_CODE = re.compile(rb"\$?[\w.]*[(\[]|\w+->|\w+::|!")
_PLACEHOLDER = re.compile(rf"(?:{PATTERNS['placeholder']})".encode(), _I)
_ALGORITHM = re.compile(rf"(?:{PATTERNS['algorithm']})[_ -]?[0-9][\w.-]*\Z".encode(), _I)
_MIXED = re.compile(rb"(?=.*[A-Z][a-z][A-Z]|.*[A-Z]{2}.*[a-z][A-Z]{2})(?:.*?[a-z][A-Z]){2}")
"""Letters of both cases in an order that no name has."""
_STRONGISH = re.compile(rb"(?=.*[0-9])|.*[a-z][A-Z]|.*[^\w.'/()\x80-\xff-]", re.DOTALL)
"""A digit, a capital within a word, or a sign that words do not have."""
_SIGNED = re.compile(rb"[^\w.,'/():;\x80-\xff-]|[a-z][A-Z]")
_COMPOUND = re.compile(rb"([a-z]{4,})-([a-z]{4,})(?:-([a-z]{4,}))?\Z", _I)
_ADJECTIVE = re.compile(
    rb"(?:ed|ive|able|ible|less|ic|al|ing|ly|free|only|wide|long|like|case)\Z", _I
)
"""Ends of words of a compound that says what a password is like: `case-sensitive`."""


class SecretValue(NamedTuple):
    """A value at bytes of a text: whether it is quoted, the text behind it, and whether its line
    ends there.
    """

    start: int
    end: int
    text: bytes
    is_quoted: bool
    after: bytes
    is_last: bool


def value_at(data: bytes, at: int) -> SecretValue | None:
    """The quoted text at `at`, or else what is there up to a blank."""
    if quoted := _QUOTED.match(data, at):
        start, end = quoted.span(2)
        after = data[quoted.end() : quoted.end() + 1]
        return SecretValue(start, end, quoted[2], is_quoted=True, after=after, is_last=False)
    bare = _BARE.match(data, at)
    if not bare:
        return None
    text = bare[0].rstrip(_TAIL)
    for mark in _NEXT_PART:
        head, separator, rest = text.partition(mark)
        text = head if separator and b"=" in rest else text
    end = at + len(text)
    rest = data[end : end + 40].partition(b"\n")[0]
    is_last = not rest.strip(b" \t\r.,!*_|")
    return SecretValue(at, end, text, is_quoted=False, after=rest[:1], is_last=is_last)


def entropy(text: bytes) -> float:
    """Bits a byte of a text, by the shares of its bytes (Shannon 1948)."""
    return -sum(n / len(text) * log2(n / len(text)) for n in Counter(text).values())


def is_no_value(text: bytes, is_quoted: bool = False) -> bool:
    """True for variables, code, paths, placeholders and words that describe a value."""
    return bool(
        _VARIABLE.match(text)
        or (_CODE.match(text) and not (is_quoted and is_random(text)))
        or _PLACEHOLDER.match(text)
        or (_ALGORITHM.match(text) and not re.match(rb"(?:.*?[a-z][A-Z]){2}", text))
        or text.lower().decode(errors="replace") in NO_VALUES
    )


def is_random(text: bytes) -> bool:
    """True for a text with letters and digits in the order of no word, name, number or version."""
    if len(text) < _SHORTEST_RANDOM or _NUMBERS.match(text) or _DOTTED.match(text):
        return False
    if _WORDS.match(text):
        return _MIXED.match(text) is not None
    if entropy(text) < _LEAST_ENTROPY:
        return False
    has_both = 2 <= digits_of(text) < len(text)
    return has_both or (
        len(text) >= _LONG_RANDOM and re.search(rb"[a-z][A-Z]+[a-z]", text) is not None
    )


def digits_of(text: bytes) -> int:
    return sum(byte in b"0123456789" for byte in text)


def is_strong(text: bytes) -> bool:
    """True for a text with a letter, and a digit or a sign, that no word, name or number has."""
    has_letter = re.search(rb"[A-Za-z]", text)
    return bool(
        len(text) > 3
        and has_letter
        and not is_no_value(text)
        and not _WORDS.match(text)
        and not _DOTTED.match(text)
        and not _NUMBERS.match(text)
        and (digits_of(text) or _SIGNED.search(text))
    )


def is_compound(text: bytes) -> bool:
    """True for words that are joined to be remembered, `tulip-orange`, and describe nothing."""
    match = _COMPOUND.match(text)
    words = [word for word in match.groups() if word] if match else []
    return bool(words) and not any(
        _ADJECTIVE.search(word) or word.lower().decode() in NO_VALUES for word in words
    )


_LEAST = 4
"""Bytes of a password at least."""


def is_password(value: SecretValue, before: bytes, sign: bytes) -> bool:
    """True for the value of the name of a password behind a `sign`, after `before`."""
    text = value.text
    if len(text) < _LEAST or is_no_value(text, value.is_quoted):
        return False
    if value.is_quoted:
        is_word = b" " not in text.strip() and not text.endswith((b":", b"="))
        return is_word or before.lower().endswith((b"psk", b"phrase"))
    return not _DOTTED.match(text) and _is_bare_password(value, before, sign)


def _is_bare_password(value: SecretValue, before: bytes, sign: bytes) -> bool:
    """True for a value without quotes that is neither a call nor another expression of code."""
    text = value.text
    if value.after and value.after in (b"(", b"["):
        return False
    if _STRONGISH.match(text) and (not _WORDS.match(text) or _MIXED.match(text)):
        is_name = re.fullmatch(rb"[A-Za-z_]\w*", text) is not None
        ends_code = value.after in (b";", b",", b")") and value.after
        return not (is_name and ends_code and digits_of(text) < 2)
    if b":" in sign and len(text) > 5 and re.search(rb"[0-9]", text):
        return True
    if b" " not in sign and b"\t" not in sign and b"=" in sign:
        return value.after not in (b",", b")", b";", b".") or not value.after
    # Nothing but a name and marks of lists or quotes may be on the line so far.
    line = before[before.rfind(b"\n") + 1 :]
    begins_line = re.fullmatch(
        rb"[\s>|*+\"'_-]*(?:export |set |mot de |[\w-]{1,20} )?[\w.-]*", line
    )
    return value.is_last and value.after != b";" and begins_line is not None


def is_secret(value: SecretValue, before: bytes, sign: bytes) -> bool:
    """True for the value of a name that says `secret`, `token` or `key`, which code uses for much
    else.
    """
    text = value.text
    if len(text) < 6 or is_no_value(text, value.is_quoted):
        return False
    if value.is_quoted:
        is_long_word = len(text) > 11 and _LETTERED.match(text)
        is_no_word = len(text) >= _SHORTEST_RANDOM and not _WORDS.match(text)
        return b" " not in text and bool(is_random(text) or is_no_word or is_long_word)
    if value.after in (b"(", b"[") and value.after:
        return False
    is_variable = sign == b"=" and before[-1:].isupper()
    return is_random(text) or (
        is_variable and not _DOTTED.match(text) and value.after not in (b")", b"(", b",", b".")
    )


def is_in_sentence(value: SecretValue, has_verb: bool) -> bool:
    """True for a password that a sentence names, after a verb as `is` if it `has_verb`."""
    text = value.text
    if value.is_quoted:
        is_meant = has_verb or re.search(rb"[0-9]", text)
        return bool(is_meant) and len(text) > 2 and b" " not in text and not is_no_value(text)
    if len(text) < (4 if has_verb else 6) or is_no_value(text) or _DOTTED.match(text):
        return False
    if _WORDS.match(text):
        is_numbered = value.is_last and text[-1:].isdigit() and len(text) > 5
        return has_verb and (is_numbered or is_compound(text) or _MIXED.match(text) is not None)
    if _NUMBERS.match(text):
        return has_verb and value.is_last and len(text) > 3
    has_letter, has_digit = re.search(rb"[A-Za-z]", text), re.search(rb"[0-9]", text)
    return bool(has_letter and (has_digit or (has_verb and _SIGNED.search(text))))


def is_plain_word(text: bytes) -> bool:
    return _LETTERED.match(text) is not None and not is_no_value(text)
