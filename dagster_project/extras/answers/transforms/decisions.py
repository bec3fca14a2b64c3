"""Signs of decisions: sentences by which somebody accepts, chooses, rejects, replaces or settles something."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from dagster_project.extras.answers.transforms.words import sentence_ranges
from transforms.signs import sign_languages, sign_pattern
from transforms.toml_file import toml_file

ACCEPTED, APPROVED, CHOSEN, REJECTED, REPLACED, SETTLED, POSTED = (
    "accepted",
    "approved",
    "chosen",
    "rejected",
    "replaced",
    "settled",
    "posted",
)
OF_TRAILER = {
    "applied-by": ACCEPTED,
    "merged-by": ACCEPTED,
    "reviewed-by": APPROVED,
    "acked-by": APPROVED,
    "nacked-by": REJECTED,
    "rejected-by": REJECTED,
    "superseded-by": REPLACED,
}
"""The kind of decision that a trailer states, by its name."""
_OPEN = "[?\uff1f]\\W*$"
"""A sentence that asks, in a language without signs of its own for it."""
_MOST_WORDS = 50
"""Words of a sentence that states a decision; a longer one is a list or a table."""
_POSITIVE = (ACCEPTED, CHOSEN, SETTLED)
_APOSTROPHES = str.maketrans("'‘", "’’")
"""The patterns have one apostrophe."""


class DecisionSign(NamedTuple):
    """A sentence that states a decision: its kind and its half-open bytes in the text."""

    kind: str
    start: int
    end: int
    text: str


class _Patterns(NamedTuple):
    kinds: tuple[tuple[str, re.Pattern[str]], ...]
    unless: re.Pattern[str]
    open: re.Pattern[str]


def decision_signs(
    text: str, ranges: Iterable[tuple[int, int]] | None = None, language: str | None = None
) -> list[DecisionSign]:
    """The sentences of a text that state a decision, or of the half-open `ranges` of its bytes.

    Without a `language` those that the text may have (`sign_languages`).

    >>> [(sign.kind, sign.text) for sign in decision_signs("Nice work. Applied, thanks!")]
    [('accepted', 'Applied, thanks!')]
    >>> decision_signs("Could this be applied? If so, let's use v2.")
    []
    """
    data, results = text.encode(), list[DecisionSign]()
    languages = (language,) if language else sign_languages(text)
    patterns = [_patterns(name) for name in languages]
    for begin, end in [(0, len(data))] if ranges is None else ranges:
        part = data[begin:end].decode(errors="replace")
        for first, last in sentence_ranges(part):
            sentence = part[first:last]
            if kind := next(filter(None, (_kind(sentence, of) for of in patterns)), None):
                start = begin + len(part[:first].encode())
                results.append(DecisionSign(kind, start, start + len(sentence.encode()), sentence))
    return results


@cache
def _patterns(language: str) -> _Patterns:
    row: dict[str, Any] = toml_file(__name__, "decisions.toml").get(language, {})
    begin = "" if row.get("unspaced") else r"(?<!\w)"
    kinds = [
        (kind, re.compile(rf"{begin}(?:{'|'.join(row[kind])})", re.I))
        for kind in (REJECTED, REPLACED, ACCEPTED, CHOSEN, SETTLED)
        if kind in row
    ]
    denies = sign_pattern(("negation", "question"), (language,)) if kinds else ""
    unless, is_open = row.get("unless", denies), row.get("open", _OPEN)
    return _Patterns(tuple(kinds), re.compile(unless, re.I), re.compile(is_open, re.I))


def _kind(sentence: str, patterns: _Patterns) -> str | None:
    plain = " ".join(sentence.translate(_APOSTROPHES).split())
    if len(plain.split()) > _MOST_WORDS or patterns.open.search(plain):
        return None
    for kind, pattern in patterns.kinds:
        sign = pattern.search(plain)
        if sign and not (kind in _POSITIVE and patterns.unless.search(plain, 0, sign.end())):
            return kind
    return None


def without(
    ranges: Iterable[tuple[int, int]], holes: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Half-open ranges without the parts that are in others.

    >>> list(without([(0, 9)], [(2, 4)]))
    [(0, 2), (4, 9)]
    """
    cut = sorted(holes)
    for start, end in ranges:
        for first, last in cut:
            if first >= end or last <= start:
                continue
            if first > start:
                yield start, first
            start = max(start, last)
        if start < end:
            yield start, end
