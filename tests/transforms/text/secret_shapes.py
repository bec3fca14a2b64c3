"""Shapes of secrets and personal data, filled with letters drawn by lot: no file holds a text that looks like a real key.

A line of `secret_shapes.txt` is a shape; what stands between « and » must not stay in a masked text. `⟨a:20⟩` are twenty
letters of an alphabet, `⟦…⟧` is base64, and `\\n` and `\\u200b` are the characters.
"""

import random
import re
from base64 import b64encode
from pathlib import Path

_RANDOM = random.Random(20)
_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_ALPHABETS = {
    "a": _LOWER + _UPPER + _DIGITS,
    "w": _LOWER + _UPPER + _DIGITS + "_",
    "s": _LOWER + _UPPER + _DIGITS + "+/",
    "u": _UPPER,
    "U": _UPPER + _DIGITS,
    "d": _DIGITS,
    "h": _DIGITS + "abcdef",
    "H": _DIGITS + "ABCDEF",
    "b": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}


def _drawn(match: re.Match[str]) -> str:
    """Letters drawn by lot, with digits and both cases in every eight if the alphabet has them."""
    letters, count = _ALPHABETS[match[1]], int(match[2])
    drawn = _RANDOM.choices(letters, k=count)
    for n, part in enumerate(
        [letter for letter in letters if letter in p] for p in (_LOWER, _UPPER, _DIGITS)
    ):
        for at in range(n, count if part else 0, 8):
            drawn[at] = _RANDOM.choice(part)
    return "".join(drawn)


def _filled(shape: str) -> str:
    shape = re.sub("⟨(.):([0-9]+)⟩", _drawn, shape)
    shape = re.sub("⟦(.*?)⟧", lambda match: b64encode(match[1].encode()).decode(), shape)
    escapes = {"n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(
        r"\\(u[0-9a-f]{4}|.)",
        lambda m: escapes[m[1]] if m[1] in escapes else chr(int(m[1][1:], 16)),
        shape,
    )


SHAPES = [
    _filled(line)
    for line in (Path(__file__).parent / "secret_shapes.txt")
    .read_text(encoding="utf-8")
    .splitlines()
]
