"""When and by whom: the days and authors that a question names, which lift hits and leave none out."""

import re
from collections.abc import Mapping
from datetime import date, timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval.hits import Step, best_first, groups, unchanged
from transforms.retrieval.small_tables import with_values

_LIFT = 0.2
"""The gain of a hit for each circumstance that it meets, as a share of the range of the scores of its query."""
_LONGEST = 200
"""Characters above which a query is a text that somebody pasted, whose dates and names are not circumstances."""
_MONTHS = (
    "jan(?:uary|uar|vier)?",
    "feb(?:ruary|ruar)?|f\u00e9vrier",
    "mar(?:ch|s)?|m\u00e4rz",
    "apr(?:il)?|avril",
    "may|mai",
    "jun(?:e|i)?|juin",
    "jul(?:y|i)?|juillet",
    "aug(?:ust)?|ao\u00fbt",
    "sep(?:t(?:ember|embre)?)?",
    "o[ck]t(?:ober|obre)?",
    "nov(?:ember|embre)?",
    "de[cz](?:ember|embre)?|d\u00e9cembre",
)
_MONTH, _YEAR = rf"\b(?P<month>{'|'.join(_MONTHS)})\b\.?", r"(?P<year>(?:19|20)\d\d)\b"
_DAY = r"(?<![\w.-]){}(?:st|nd|rd|th|\.)?(?![\w.-]*\w)"
_DAYS = (
    _DAY.format(r"(?P<day>[0-3]?\d)")
    + rf"(?:\s*(?:-|\u2013|and|to|until|till|und|bis)\s*{_DAY.format('(?P<last>[0-3]?[0-9])')})?"
)
_IN = (
    r"\b(?:in|since|during|of|by|from|before|after|until|early|late|last|this|im|seit|en|depuis)\s+"
)
_DATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w/-]){_YEAR}-(?P<number>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?(?![\w/-])",
        rf"{_DAYS}\s+(?:of\s+)?{_MONTH}(?:,?\s*{_YEAR})?",
        rf"{_MONTH}\s+{_DAYS}(?:,?\s*{_YEAR})?",
        rf"{_MONTH},?\s+{_YEAR}",
        rf"{_IN}(?:{_MONTH}|{_YEAR})",
    )
]
_BETWEEN = re.compile(r"\b(?:between|from|zwischen|von|vom|entre)\b", re.IGNORECASE)
_AGO = re.compile(r"\b(?:(yesterday)|today|(?:last|past|this) (week|month|year))\b", re.IGNORECASE)
_UNITS = {"week": 7, "month": 31, "year": 365}
_WORD = re.compile(r"[^\W\d_]{2,}")
_GIVEN = re.compile(
    r"\b(?:by|from|did|does|has|was|is|of)\s+([A-Z][a-z]{2,})\b|\b([A-Z][a-z]{2,})(?:'s|\u2019s|\s(?:says?|said|wr[oi]te|asks?))\b"
)
"""Where one word is a person's name, and not that of a product."""
Day = tuple[int, int, int]


class _Span(NamedTuple):
    """The days from `first` to `last` as year, month and day; in every year if their year is 0."""

    first: Day
    last: Day

    def __str__(self) -> str:
        """As the query language writes it.

        >>> str(_Span((2023, 8, 11), (2023, 8, 15)))
        'd:2023-08-11..2023-08-15'
        """
        is_whole = self.first[2] == 1 and self.last[2] == 31
        count = (
            1
            if is_whole and self.first[0] and (self.first[1], self.last[1]) == (1, 12)
            else 3 - is_whole
        )
        ends = ["-".join(f"{n:02}" if n else "*" for n in end[:count]) for end in self]
        return f"d:{'..'.join(dict.fromkeys(ends))}"


class Circumstances(NamedTuple):
    """The spans of days and the authors that a query names."""

    spans: tuple[_Span, ...] = ()
    authors: frozenset[str] = frozenset()

    def met(self, author: str | None, day: date | None) -> int:
        """How many of the two hold for a text of this author and day."""
        at = (day.year, day.month, day.day) if day else (0, 0, 0)
        is_then = any(
            first <= (at if first[0] else (0, *at[1:])) <= last for first, last in self.spans
        )
        return is_then + (author in self.authors)

    @property
    def conditions(self) -> list[str]:
        """They as conditions of the query language."""
        return [*map(str, self.spans), *(f"f:{name}" for name in sorted(self.authors))]


def circumstances(query: str, today: date, authors: Mapping[str, frozenset[str]]) -> Circumstances:
    """The days and authors that a query names; `authors` has names of people by their `keys`.

    >>> circumstances("Where was John between August 11 and 15?", date(2024, 1, 1), {}).conditions
    ['d:*-08-11..*-08-15']
    """
    if len(query) > _LONGEST or "\n" in query:
        return Circumstances()
    words = [word.lower() for word in _WORD.findall(query)]
    names = [name for name in map(" ".join, pairwise(words)) if name in authors]
    # The first word of a full name is not the name of everybody who shares it.
    names += [n for n in given_names(query) if not any(name.startswith(f"{n} ") for name in names)]
    return Circumstances(
        _spans(query, today), frozenset[str]().union(*(authors.get(n, ()) for n in names))
    )


def given_names(query: str) -> list[str]:
    """The single words of a query that stand where a person's name does, in small letters.

    >>> given_names("What did Caroline think of Melanie's cat, and how is SQL?")
    ['caroline', 'melanie']
    """
    return [word.lower() for match in _GIVEN.findall(query) for word in match if word]


def keys(name: str) -> list[str]:
    """The words by which a query names a person: the first and last name in small letters, and the first alone.

    >>> keys("Tom G. Lane"), keys("Caroline")
    (['tom lane', 'tom'], ['caroline'])
    """
    words = [word.lower() for word in _WORD.findall(name.partition("@")[0])]
    return (
        list(dict.fromkeys([" ".join(dict.fromkeys([words[0], words[-1]])), words[0]]))
        if words
        else []
    )


def _spans(query: str, today: date) -> tuple[_Span, ...]:
    """The spans of days that a query names; two days behind "between" or "from" are the ends of one."""
    spans: list[_Span] = []
    for pattern in _DATES if re.search(r"\d", query) else _DATES[-1:]:
        spans += [_span(match.groupdict()) for match in pattern.finditer(query)]
        query = pattern.sub(" ", query)
    if len(spans) == 2 and spans[0] < spans[1] and _BETWEEN.search(query):
        (first, _), (_, last) = spans
        spans = [_Span((first[0] or last[0], *first[1:]), last)]
    for yesterday, unit in _AGO.findall(query):
        first, last = (
            today - timedelta(n)
            for n in ((1, 1) if yesterday else (_UNITS.get(unit.lower(), 0), 0))
        )
        spans.append(_Span((first.year, first.month, first.day), (last.year, last.month, last.day)))
    return tuple(spans)


def _span(fields: Mapping[str, str | None]) -> _Span:
    year, month, day, last = (
        int(fields.get(name) or 0) for name in ("year", "number", "day", "last")
    )
    if word := fields.get("month"):
        month = next(
            n for n, name in enumerate(_MONTHS, 1) if re.fullmatch(name, word, re.IGNORECASE)
        )
    return _Span((year, month or 1, day or 1), (year, month or 12, last or day or 31))


def lifted(hits: pl.DataFrame, met: np.ndarray) -> Step:
    """The hits, each lifted for every circumstance that it meets."""
    score, of_query = hits.get_column("score").to_numpy(), groups(hits, "query")
    low, high = np.full((2, len(hits)), [[np.inf], [-np.inf]])
    np.minimum.at(low, of_query, score)
    np.maximum.at(high, of_query, score)
    return unchanged(
        best_first(with_values(hits, score=score + _LIFT * met * (high - low)[of_query]))
    )
