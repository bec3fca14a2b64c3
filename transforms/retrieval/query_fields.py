"""Meanings of words of a query: the values of fields, sizes, patterns, factors, operators, unknown
fields.
"""

import difflib
import re
from collections.abc import Collection

from transforms.languages import language_names
from transforms.retrieval.query_dates import age, time_span
from transforms.retrieval.search_filters import HAS, KINDS

LABELLED = "labelled"
"""The value of `sensitivity:` that a file of labels decides."""
VALUES = {
    "kind": KINDS,
    "has": HAS,
    "is": ("unanswered",),
    "is_code": ("true", "false"),
    "sensitivity": ("public", "personal", "secret", LABELLED),
    "language": tuple(language_names()),
}
"""The values of the fields that take few."""

_ELSEWHERE = {
    "from:": ("author", "sender", "person", "people"),
    "to:": ("recipient",),
    "list:": ("folder", "label", "mailbox"),
    "path:": ("filename",),
    "id:": ("msgid", "mid"),
    "date:2024-05..": ("after", "since"),
    "date:..2024-05": ("before", "until"),
}
"""Fields, or spans of one, by the names that other programs have for them."""
_SHORTEST_NAME = 3
_LIKE = 0.75
"""Likeness (difflib) of a known field from which a name is one that is mistyped, whatever is behind
it.
"""
_NAME = re.compile(r"([a-z][a-z_]+):(?=\S)(?!:|//|\\)")
_SCHEMES = ("mailto", "urn", "tel", "doi", "news", "data", "javascript", "about", "magnet", "sip")
_PATH = re.compile(r"/|\w\.\w{1,8}(?:#|$)")
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LONG = 8
"""Letters from which a word is looked for with two slips instead of one."""
_POINTERS = ("int*", "char*", "void*", "long*", "short*", "float*", "double*", "unsigned*")
"""Types of C, which are no patterns."""
_WILDCARD = re.compile(r"(?!_)\w{3,}\*\w*")
_FUZZY = re.compile(r"([^\W\d_]{4,})~([12]?)")
_SQL = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WHERE|HAVING|VALUES|CASE|WHEN|JOIN|BETWEEN)\b"
)
_JOINING = re.compile(r"\b(?:AND|OR|NOT)\b")
_OPERATOR = re.compile(r"(AND|OR|NOT)(?![^\s()])")
_CAPITALS = re.compile(r"\s+[A-Z]{2,}(?!\S)")
_FACTOR = re.compile(r"\d{1,3}(?:\.\d{1,3})?")


def size(value: str) -> int | None:
    """The bytes of `5000`, `100K`, `1.5M` or `1G` (of 1,024); None if it is not a size.

    >>> size("1.5K")
    1536
    """
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)([kmg]?)", value.lower(), re.ASCII)
    return match and int(float(match[1]) * _BYTES[match[2]])


def fault_of(field: str, value: str) -> str | None:
    """The fault of the value of a field that looks at no text; None without one."""
    if field in VALUES and value not in VALUES[field]:
        return f"{field}: takes {', '.join(VALUES[field])}"
    if field == "d" and time_span(value) is None:
        return "d: takes dates such as 2004, 2004-05, 2004-05-17, 2004..2006, 2004-05.. or ..2006-01-31"
    if field in ("newer_than", "older_than") and age(value) is None:
        return f"{field}: takes times such as 30d, 2w, 6m or 1y"
    if field == "larger" and size(value) is None:
        return "larger: takes sizes such as 5000, 100K or 1.5M"
    return None


def unknown_field(word: str, fields: Collection[str]) -> str | None:
    """The fault of a word that looks like a field and is not one; None for a word.

    `psql:dump.sql:10:`, `localhost:80`, `mailto:ann` and the id `notes:Ideas.md` are words,
    `titel:x` and `owner:ann` are not.
    """
    match = _NAME.match(word)
    if match is None or match[1] in fields or match[1] in _SCHEMES:
        return None
    name, value = match[1], word[match.end() :]
    near = [field for field, names in _ELSEWHERE.items() if name in names]
    if not near and _PATH.search(value):
        return None
    near = near or [f"{known}:" for known in difflib.get_close_matches(name, fields, 1, _LIKE)]
    if not near and (
        len(name) < _SHORTEST_NAME or ":" in value or not (value[0].isalpha() or value[0] in '"(')
    ):
        return None
    nearest = near or [f"{known}:" for known in difflib.get_close_matches(name, fields, 1, 0.0)]
    return f"no field is called {name}:, the nearest is {nearest[0]}"


def is_pattern(word: str) -> bool:
    """True for `vacuu*`, `inde*s` and `vacum~`, which stand for the words of the index that they
    are like.

    Wildcards follow three letters; a word with slips is in small letters, unlike HEAD~1.
    """
    if word.islower() and _FUZZY.fullmatch(word):
        return True
    return word not in _POINTERS and _WILDCARD.fullmatch(word) is not None


def expression(pattern: str) -> str | None:
    """The regular expression of the words that a pattern with a wildcard matches; None for one with
    slips.
    """
    return ".*".join(map(re.escape, pattern.lower().split("*"))) if "*" in pattern else None


def slips(word: str) -> int:
    """How many slips a word of so many letters may have.

    >>> slips("vacum"), slips("vaccuuming")
    (1, 2)
    """
    return 1 if len(word) < _LONG else 2


def fuzzy(pattern: str) -> tuple[str, int]:
    """The word of a pattern such as `vacum~` or `vacum~2`, and how many slips it may have."""
    word, _, count = pattern.partition("~")
    return word, int(count or slips(word))


def boosted(word: str) -> tuple[str, str]:
    """A word and the factor behind it: `vacuum^2` has one; the factor of 10^6, e^2 and others is
    empty.

    >>> boosted("vacuum^2.5"), boosted("e^2")
    (('vacuum', '2.5'), ('e^2', ''))
    """
    before, _, factor = word.rpartition("^")
    is_factor = len(before) >= _SHORTEST_NAME and before[0].isalpha() and _FACTOR.fullmatch(factor)
    return (before, factor) if is_factor else (word, "")


def factor_at(query: str, at: int) -> re.Match[str] | None:
    """The factor of a phrase or group that ends before `at`."""
    return _FACTOR.match(query, at + 1) if query.startswith("^", at) else None


def has_operators(unquoted: str) -> bool:
    """True if AND, OR and NOT may be operators: not in SQL, nor in a text that is in capitals as a
    whole.
    """
    is_upper = unquoted == unquoted.upper() and len(unquoted.split()) > 4
    return not (
        _SQL.search(unquoted) or (is_upper and re.search(r"\w", _JOINING.sub("", unquoted)))
    )


def operator(query: str, at: int) -> re.Match[str] | None:
    """AND, OR or NOT at this place; NOT NULL and the like are words, and so is NOT at the end."""
    match = _OPERATOR.match(query, at)
    if (
        match
        and match[1] == "NOT"
        and (_CAPITALS.match(query, match.end()) or match.end() == len(query))
    ):
        return None
    return match


def bare(word: str) -> str:
    """A word without the signs around it; those of C++ and C# stay."""
    return re.sub(r"^[^\w]+|[^\w+#]+$", "", word)
