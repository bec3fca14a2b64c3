"""A text as a person reads it: without escapes, colours and invisible letters, its digits and blanks
plain.
"""

import re
import unicodedata
from bisect import bisect_right

_WIDE = [chr(code) for code in range(0xFF01, 0xFF5F)]
_DIGITS = [chr(first + n) for first in (0x660, 0x6F0) for n in range(10)]
_BLANKS = [*map(chr, range(0x2000, 0x200B)), "\u00a0", "\u202f"]
_UNSEEN = [*map(chr, range(0x200B, 0x2010)), *map(chr, range(0x202A, 0x202F)), "\u2060"]
_UNSEEN += [*map(chr, range(0x2066, 0x206A)), "\ufeff", "\u00ad"]
_QUOTES = ["「", "」", "『", "』"]
_CODES = ["%5f", "%2d", "%2e", "%40", "&#", "&lowbar;", "&commat;", "\\_", "=5f", "\\u00"]
ESCAPES = [*_CODES, *_QUOTES, *_WIDE, *_DIGITS, *_BLANKS, *_UNSEEN, "\x1b["]
"""Every text that is read otherwise than written has one of these; letters are in lower case."""
_READ = dict.fromkeys(_UNSEEN, "")
_READ |= {letter: str(unicodedata.digit(letter)) for letter in _DIGITS}
_READ |= {letter: unicodedata.normalize("NFKC", letter) for letter in _WIDE}
_READ |= (
    dict.fromkeys(_BLANKS, " ")
    | dict.fromkeys(_QUOTES, '"')
    | {"&lowbar;": "_", "\\_": "_", "&commat;": "@"}
)
_PLAIN = {letter.encode(): read.encode() for letter, read in _READ.items()}
_ESCAPE = re.compile(
    rb"[%&=\\\x1b\xc2\xd9\xdb\xe2\xe3\xef](?:(?<=%)([2-7][0-9A-Fa-f])"
    rb"|(?<=&)(?:#0{0,3}([0-9]{2,3});|#[xX]0{0,2}([2-7][0-9A-Fa-f]);?|lowbar;|commat;)"
    rb"|(?<=\\)(?:u00([2-7][0-9A-Fa-f]);?|_)|(?<==)(5[Ff])|(?<=\x1b)\[[0-9;]{0,20}[A-Za-z]"
    rb"|(?<=[\xc2\xd9\xdb])[\x80-\xbf]|(?<=[\xe2\xe3\xef])[\x80-\xbf]{2})"
)
"""Every escape by its first byte, which is looked for at once, and then by what may follow it."""


class ReadText:
    """A text as it is read in `data`, and the places of its bytes in the text."""

    def __init__(self, data: bytes):
        parts, self._own, self._texts = [], [0], [0]
        length = last = 0
        for match in _ESCAPE.finditer(data):
            plain = _read(match)
            if plain is None:
                continue
            parts += [data[last : match.start()], plain]
            length += match.start() - last + len(plain)
            last = match.end()
            self._own += [length - len(plain), length]
            self._texts += [match.start(), last]
        self.data = b"".join(parts) + data[last:]

    def place(self, at: int) -> int:
        """Where the byte `at` of the view begins in the text."""
        n = bisect_right(self._own, at) - 1
        return self._texts[n] + at - self._own[n]

    def end(self, at: int) -> int:
        """Where the byte before `at` ends in the text."""
        n = bisect_right(self._own, at - 1) - 1
        is_escape = n % 2 == 1
        return self._texts[n + 1] if is_escape else self._texts[n] + at - self._own[n]


def _read(match: re.Match[bytes]) -> bytes | None:
    """The letters that an escape is read as; None for an escape of another letter."""
    code, decimal, hexadecimal, unicode, quoted = match.groups()
    if digits := code or hexadecimal or unicode or quoted:
        value = int(digits, 16)
    elif decimal:
        value = int(decimal)
    else:  # a colour of a terminal is read as nothing
        return b"" if match[0].startswith(b"\x1b") else _PLAIN.get(match[0])
    return bytes([value]) if 32 < value < 127 else None
