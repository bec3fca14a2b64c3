"""The wishes of a question beside its words: persons, days, an order in time, versions, and kinds of mail.

Rules read it, with tables by language (`understanding.toml`). It lifts hits and leaves none out.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from transforms.toml_file import toml_file

_LONGEST = 200
"""Characters above which a query is a text that somebody pasted, which asks for nothing but its
words.
"""
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
_EDGE = r"\b(?:(?P<since>since|after|seit|nach|depuis)|(?P<until>before|until|till|vor|bis|avant))\s+(?:the\s+)?"
_IN = r"\b(?:in|on|during|of|by|from|early|late|last|this|im|am|en)\s+"
_DATES = [
    re.compile(f"(?:{_EDGE}|{_IN})?{pattern}", re.IGNORECASE)
    for pattern in (
        rf"(?<![\w/-]){_YEAR}-(?P<number>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?(?![\w/-])",
        rf"{_DAYS}\s+(?:of\s+)?{_MONTH}(?:,?\s*{_YEAR})?",
        rf"{_MONTH}\s+{_DAYS}(?:,?\s*{_YEAR})?",
        rf"{_MONTH},?\s+{_YEAR}",
    )
] + [
    re.compile(rf"(?:{_EDGE}|{_IN})(?:{_MONTH}|{_YEAR})", re.IGNORECASE),
    re.compile(rf"(?<=\w\s){_YEAR}\s*$"),
]
_BETWEEN = re.compile(r"\b(?:between|from|zwischen|von|vom|entre)\b", re.IGNORECASE)
_AGO = re.compile(r"\b(?:(yesterday)|today|(?:last|past|this) (week|month|year))\b", re.IGNORECASE)
_OWN_ACT = re.compile(
    r"\b(?:I|we)\s+(?:have\s+)?(?:delet|remov|los[et]|mov|renam|forg|search|look|ask|read|saw|open|clos)\w*"
    r"(?:\s+(?:it|them|this|for|at))?\s+$",
    re.IGNORECASE,
)
"""Behind it a day is that of what somebody did to a text, not that of the text."""
_UNITS = {"week": 7, "month": 31, "year": 365}
_WORD = re.compile(r"[^\W\d_]{2,}")
_QUOTED = re.compile(r'"[^"]*"')
_NAME_WORDS = 4
"""Words of a name at most that are compared with those of a query."""
_BETWEEN_NAMES = re.compile(r"[\s,.'\u2019-]+(?:\w\.\s*)?")
_PERSON = "\uf8ff"
"""Stands for a person's name while the words around it are read."""
_FIRST, _LAST = (1, 1, 1), (9999, 12, 31)
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
        ends = [
            "" if end in (_FIRST, _LAST) else "-".join(f"{n:02}" if n else "*" for n in end[:count])
            for end in self
        ]
        return f"d:{'..'.join(dict.fromkeys(ends))}"

    @property
    def times(self) -> tuple[datetime | None, datetime | None]:
        """The first moment, and the one behind the last, UTC; None for an open end."""
        since = None if self.first == _FIRST else _moment(self.first, 0)
        return since, None if self.last == _LAST else _moment(self.last, 1)


class Understanding(NamedTuple):
    """The wishes of a query: `rest` are the words that rank, the others say which hits are preferred.

    `names` are the names of people in it, `persons` who they may be, `answered` those whom the
    persons answer; `spans` are days; `order` is newest or oldest; `version` a number, or 0 for the
    latest, of a patch; `act` is what a mail does: opening (of a thread), reviewed, acked, tested,
    applied or replied. The persons are speakers of chats if it `is_spoken`.
    """

    rest: str = ""
    names: tuple[str, ...] = ()
    persons: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    spans: tuple[_Span, ...] = ()
    order: str | None = None
    version: int | None = None
    act: str | None = None
    is_spoken: bool = False

    @property
    def prefers(self) -> bool:
        """True if something is preferred."""
        return bool(
            self.persons or self.spans or self.order or self.version is not None or self.act
        )

    @property
    def names_a_time(self) -> bool:
        """True if a version is asked for that is not the latest, a span of days or an order."""
        return bool(self.version or self.spans or self.order)

    def is_then(self, day: date | None) -> bool:
        """True of a day within one of the spans."""
        at = (day.year, day.month, day.day) if day else (0, 0, 0)
        return any(
            first <= (at if first[0] else (0, *at[1:])) <= last for first, last in self.spans
        )

    @property
    def conditions(self) -> list[str]:
        """The preferences as conditions of the query language, and in words if that lacks one."""
        named = [f"f:{name}" for name in self.names]
        words = [word for word in (self.order, self.act) if word]
        versions = (
            []
            if self.version is None
            else [f"v{self.version}" if self.version else "latest version"]
        )
        return [*map(str, self.spans), *named, *words, *versions]


def understood(
    query: str,
    today: date | None,
    people: Mapping[str, frozenset[str]],
    speakers: Mapping[str, frozenset[str]] = {},
) -> Understanding:
    """The wishes of a query; `people` has writers of mail by the `keys` of their names, `speakers`
    those of chats, whose names stay words as well: turns are about them.

    Names and words between quotes are words and nothing else. Without a day of `today` no day is
    asked for.

    >>> understood("newest mail from Ann Lee on gauges", date(2024, 1, 1), {"ann lee": frozenset({"a"})})[:3]
    ('gauges', ('ann lee',), frozenset({'a'}))
    """
    if len(query) > _LONGEST or "\n" in query:
        return Understanding(query)
    words = query.replace('"', " ").strip()
    text, names = _named(_QUOTED.sub(" ", query), {**speakers, **people}, speakers)
    writers, spoken = (tuple(filter(known.__contains__, names)) for known in (people, speakers))
    is_spoken = bool(spoken) and not writers
    spans, text = _spans(text, today) if today else ((), text)
    text, wishes = _wishes(text)
    if is_spoken and wishes.act == "replied":
        wishes = wishes._replace(act=None)  # each turn of a chat answers
    rest = " ".join([*text.replace(_PERSON, " ").split(), *_phrases(query)])
    result = wishes._replace(
        rest=rest if any(map(str.isalnum, rest)) else words, spans=spans, is_spoken=is_spoken
    )
    if is_spoken:
        result = _with_names(result, spoken, speakers)
        keeps = not (spans or wishes.prefers)
    else:
        result = _with_names(result, writers, people)
        keeps = not result.prefers
    return result._replace(rest=words) if keeps else result


def _phrases(query: str) -> list[str]:
    return [part.strip('"') for part in _QUOTED.findall(query)]


def _wishes(text: str) -> tuple[str, Understanding]:
    """The text without the words that say more than the matter, and what they ask for: an order, a
    version, an act; `answered` has a sign if somebody is answered.
    """
    answered = frozenset([_PERSON] if _table("answering").search(text) else [])
    act = next((act for act in _ACTS if _table(act).search(text)), None)
    text, order, version = _ordered(text)
    for name in (*([act] if act and act != "replied" else []), "strips", "leftovers"):
        text = _table(name).sub(" ", text)
    return text, Understanding(answered=answered, order=order, version=version, act=act)


def _with_names(
    wishes: Understanding, names: tuple[str, ...], known: Mapping[str, frozenset[str]]
) -> Understanding:
    """The wishes with the persons of these names; the second is answered if somebody is."""
    answered = names[1:2] if wishes.answered else ()
    preferred = tuple(name for name in names if name not in answered)
    persons, others = (
        frozenset[str]().union(*(known[name] for name in of)) for of in (preferred, answered)
    )
    return wishes._replace(names=preferred, persons=persons, answered=others)


_ACTS = ("reviewed", "acked", "tested", "applied", "opening", "replied")


@cache
def _table(name: str) -> re.Pattern[str]:
    """The patterns of a name of all languages, as one."""
    tables = toml_file(__name__, "understanding.toml").values()
    parts = [part.replace("@", _PERSON) for table in tables for part in table.get(name, ())]
    return re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)


@cache
def _single() -> list[re.Pattern[str]]:
    """The patterns in which one word alone is a name, which is their group."""
    tables = toml_file(__name__, "understanding.toml").values()
    name = r"(?:[^\W\d_]|-){2,}"
    capital = rf"(?=[^\W\d_a-z]){name}"
    parts = [part for table in tables for part in table["single"]]
    return [
        re.compile(
            part.replace("(?-i:~)", f"(?P<name>(?-i:{capital}))").replace("~", f"(?P<name>{name})"),
            re.IGNORECASE,
        )
        for part in parts
    ]


def _named(
    query: str, people: Mapping[str, frozenset[str]], speakers: Mapping[str, frozenset[str]]
) -> tuple[str, tuple[str, ...]]:
    """The query with a sign for each name of a person, and the keys of these in their order.

    One word is a name in the place of one, or if it has a capital and is the whole name of a
    speaker: a chat has few of them.
    """
    places: dict[tuple[int, int], str] = {}
    for start, end in (
        *_whole_names(query, people),
        *(match.span("name") for pattern in _single() for match in pattern.finditer(query)),
        *_speaker_names(query, speakers),
    ):
        key = " ".join(_WORD.findall(query[start:end])).lower()
        if key in people and not any(a < end and start < b for a, b in places):
            places[start, end] = key
    names = tuple(places[span] for span in sorted(places))
    for start, end in sorted(places, reverse=True):
        query = f"{query[:start]}{_PERSON}{query[end:]}"
    return query, names


def _whole_names(query: str, people: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
    """The places of names of several words, longer ones first."""
    words = list(_WORD.finditer(query))
    for count in range(_NAME_WORDS, 1, -1):
        for parts in zip(*(words[n:] for n in range(count)), strict=False):
            between = [query[a.end() : b.start()] for a, b in pairwise(parts)]
            key = " ".join(part.group().lower() for part in parts)
            if key in people and all(map(_BETWEEN_NAMES.fullmatch, between)):
                yield parts[0].start(), parts[-1].end()


def _speaker_names(query: str, speakers: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, int]]:
    """The places of words with a capital that are the whole name of a speaker."""
    for word in _WORD.finditer(query):
        whole = {name.lower() for name in speakers.get(word.group().lower(), ())}
        if word.group()[0].isupper() and word.group().lower() in whole:
            yield word.span()


def _ordered(text: str) -> tuple[str, str | None, int | None]:
    """The text without the words that ask for an order or a version, the order, and the version."""
    if (latest := _table("latest_version")).search(text):
        return latest.sub(" ", text), None, 0
    for pattern in _versions():
        if match := pattern.search(text):
            return pattern.sub(" ", text), None, int(match[1])
    for order in ("oldest", "newest"):
        if (pattern := _table(order)).search(text):
            return pattern.sub(" ", text), order, None
    return text, None, None


@cache
def _versions() -> list[re.Pattern[str]]:
    tables = toml_file(__name__, "understanding.toml").values()
    return [re.compile(part, re.IGNORECASE) for table in tables for part in table["version"]]


def verdicts() -> re.Pattern[str]:
    """The words by which somebody says that a patch was applied."""
    return _table("verdict")


def given_names(query: str) -> list[str]:
    """The single words of a query that stand where a person's name does, in small letters.

    >>> given_names("What did Caroline think of Melanie's cat, and how is SQL?")
    ['caroline', 'melanie', 'sql']
    """
    names = {
        match.span("name"): match["name"].lower()
        for pattern in _single()
        for match in pattern.finditer(query)
    }
    return [names[span] for span in sorted(names)]


def keys(name: str) -> list[str]:
    """The words by which a query names a person, in small letters: all, the first and last name, and
    each of these alone.

    >>> keys("Tom G. Lane"), keys("Mikheev, Vadim"), keys("Caroline")
    (['tom lane', 'tom', 'lane'], ['vadim mikheev', 'mikheev vadim', 'vadim', 'mikheev'], ['caroline'])
    """
    last, comma, first = name.partition("@")[0].partition(",")
    words = [word.lower() for word in _WORD.findall(f"{first} {last}" if comma else last)]
    if not words:
        return []
    ends = list(dict.fromkeys([words[0], words[-1]]))
    whole = [words, ends, ends[::-1] if comma else ends]
    return list(dict.fromkeys([*map(" ".join, whole), *ends]))


def _spans(query: str, today: date) -> tuple[tuple[_Span, ...], str]:
    """The spans of days that a query names, and the query without them; two days behind "between"
    or "from" are the ends of one.
    """
    spans: list[_Span] = []
    is_between = _BETWEEN.search(query)
    for pattern in _DATES if re.search(r"\d", query) else _DATES[-2:-1]:
        spans += [_span(match.groupdict()) for match in pattern.finditer(query)]
        query = pattern.sub(" ", query)
    if len(spans) == 2 and spans[0] < spans[1] and is_between:
        (first, _), (_, last) = spans
        spans = [_Span((first[0] or last[0], *first[1:]), last)]
    ago = (match for match in _AGO.finditer(query) if not _OWN_ACT.search(query[: match.start()]))
    for yesterday, unit in (match.groups("") for match in ago):
        first, last = (
            today - timedelta(n)
            for n in ((1, 1) if yesterday else (_UNITS.get(unit.lower(), 0), 0))
        )
        spans.append(_Span((first.year, first.month, first.day), (last.year, last.month, last.day)))
    return tuple(spans), query


def _span(fields: Mapping[str, str | None]) -> _Span:
    year, month, day, last = (
        int(fields.get(name) or 0) for name in ("year", "number", "day", "last")
    )
    if word := fields.get("month"):
        month = next(
            n for n, name in enumerate(_MONTHS, 1) if re.fullmatch(name, word, re.IGNORECASE)
        )
    whole = _Span((year, month or 1, day or 1), (year, month or 12, last or day or 31))
    if year and fields.get("since"):
        return _Span(whole.first, _LAST)
    return _Span(_FIRST, _before(whole.first)) if year and fields.get("until") else whole


def _moment(day: Day, add: int) -> datetime:
    """The begin of a day, or of one so many days later; a month ends at its last day."""
    year, month, number = day
    number = min(number, monthrange(year, month)[1])
    return datetime(year, month, number, tzinfo=UTC) + timedelta(add)


def _before(day: Day) -> Day:
    """The last day before one; that of a month is its 31st.

    >>> _before((2023, 1, 1)), _before((2023, 3, 1)), _before((2023, 3, 9))
    ((2022, 12, 31), (2023, 2, 31), (2023, 3, 8))
    """
    year, month, number = day
    if number > 1:
        return (year, month, number - 1)
    return (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
