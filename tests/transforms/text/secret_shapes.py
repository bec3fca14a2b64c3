"""Shapes of secrets and personal data, filled with letters drawn by lot: no file holds a text that
looks like a real key.

A line of a file of shapes is a shape; what stands between « and » must not stay in a masked text.
`⟨a:20⟩` are twenty letters of an alphabet, `⟦…⟧` is base64, `⟪…⟫` hexadecimal, and `\\n` and
`\\u200b` are the characters. `secret_shapes.txt` and `ordinary_sentences.txt` grew with the rules.
`unseen_shapes.txt` and `unseen_lines.txt` were written before the rules that they judge, and the
half of each that `is_kept_aside` names was not looked at until these were finished.
"""

import random
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

_HERE = Path(__file__).parent
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
    "2": _UPPER + "234567",
    "5": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "b": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}


def _drawn(match: re.Match[str], lot: random.Random) -> str:
    """Letters drawn by lot, with digits and both cases in every eight if the alphabet has them."""
    letters, count = _ALPHABETS[match[1]], int(match[2])
    drawn = lot.choices(letters, k=count)
    for n, part in enumerate(
        [letter for letter in letters if letter in p] for p in (_LOWER, _UPPER, _DIGITS)
    ):
        for at in range(n, count if part else 0, 8):
            drawn[at] = lot.choice(part)
    return "".join(drawn)


def _filled(shape: str, lot: random.Random) -> str:
    shape = re.sub("⟨(.):([0-9]+)⟩", lambda match: _drawn(match, lot), shape)
    for _ in range(shape.count("⟦")):  # the innermost first
        shape = re.sub("⟦([^⟦⟧]*)⟧", lambda match: b64encode(match[1].encode()).decode(), shape)
    shape = re.sub("⟪(.*?)⟫", lambda match: match[1].encode().hex(), shape)
    escapes = {"n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(
        r"\\(u[0-9a-f]{4}|.)",
        lambda m: escapes[m[1]] if m[1] in escapes else chr(int(m[1][1:], 16)),
        shape,
    )


def lines(name: str) -> list[str]:
    """The lines of a file beside this one."""
    return (_HERE / name).read_text(encoding="utf-8").splitlines()


def shapes(name: str) -> list[str]:
    """The shapes of a file, with letters in place of their alphabets."""
    lot = random.Random(20)
    return [_filled(line, lot) for line in lines(name)]


def is_kept_aside(line: str) -> bool:
    """Whether a line of the unseen ones belongs to the half that was not looked at."""
    return sha256(line.encode()).digest()[0] % 2 == 1


SHAPES = shapes("secret_shapes.txt")
SENTENCES = lines("ordinary_sentences.txt")
UNSEEN_SHAPES = shapes("unseen_shapes.txt")
UNSEEN_LINES = lines("unseen_lines.txt")
