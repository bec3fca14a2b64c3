"""Texts that a regular expression matches, drawn by lot: letters of its classes, any of its
branches.
"""

import random
from re import _parser  # type: ignore[attr-defined]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_OF_CATEGORY = {"CATEGORY_DIGIT": "0123456789", "CATEGORY_SPACE": " "}
_MORE = 12
"""Repeats above the least of a class that has no end."""


def sample(pattern: str, lot: random.Random) -> str:
    """A text of a pattern; an assertion is not looked at, and no class is negated."""
    return "".join(_drawn(op, value, lot) for op, value in _parser.parse(pattern))


def _drawn(op: object, value: object, lot: random.Random) -> str:
    name, parts = str(op), value
    match name:
        case "LITERAL":
            return chr(parts)  # type: ignore[arg-type]
        case "NOT_LITERAL":
            return lot.choice(_LETTERS)
        case "ANY":  # the dot of a host, most often
            return "."
        case "IN":
            return lot.choice(_letters(parts))
        case "BRANCH":
            return _all(lot.choice(parts[1]), lot)  # type: ignore[index]
        case "SUBPATTERN":
            return _all(parts[3], lot)  # type: ignore[index]
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = parts  # type: ignore[misc]
            count = lot.randint(least, min(most, least + _MORE))
            return "".join(_all(inner, lot) for _ in range(count))
        case _:
            return ""


def _all(parts: object, lot: random.Random) -> str:
    return "".join(_drawn(op, value, lot) for op, value in parts)  # type: ignore[attr-defined]


def _letters(parts: object) -> str:
    """The letters of a class that are most usual in it."""
    letters = ""
    for op, value in parts:  # type: ignore[attr-defined]
        if str(op) == "LITERAL":
            letters += chr(value)
        elif str(op) == "RANGE":
            letters += "".join(map(chr, range(value[0], value[1] + 1)))
        else:
            letters += _OF_CATEGORY.get(str(value), _LETTERS)
    return "".join(letter for letter in letters if letter in _LETTERS) or letters
