"""Facets of the best hits of a query: how many there are by source, author, kind, tag, folder,
format, property and year.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from dagster_project.extras.web.notes import SHOWN_ELSEWHERE, flat
from dagster_project.extras.web.question import Question, condition
from dagster_project.index.search.conditions.field_values import DATED
from dagster_project.index.search.lookup import Ask
from dagster_project.system.sql_files import SqlFile

_SQL = SqlFile(__file__, "facets.sql", dated=DATED)

MOST_ROWS = 5_000
"""Hits that are counted of a query that ranks nothing, the newest first."""
_VALUES = 8
"""Values of a facet that are listed."""
_PROPERTIES, _FEW, _LONGEST = 3, 12, 40
"""Properties that are facets, values that one has at most, and characters of a value."""
_MOST_DAYS, _MONTHS_OF_YEARS, MONTHS = 62, 3, "%B %Y"
"""A histogram has bars of days up to so many days, and of months up to so many years."""
_NAMES = {
    "kind": "Kind",
    "source": "Source",
    "list": "List",
    "from": "Author",
    "tag": "Tag",
    "path": "Folder",
}


@dataclass(frozen=True)
class _Value:
    """A value of a facet, how many have it, the address that filters by it or by it no more."""

    name: str
    count: int
    address: str
    is_chosen: bool


class Facet(NamedTuple):
    """One facet with its most frequent values."""

    title: str
    values: list[_Value]


@dataclass(frozen=True)
class Bar:
    """A span of time in a histogram: how many, its share of the most, and the address that filters
    by it.
    """

    label: str
    since: str
    until: str
    count: int
    share: float
    address: str


@dataclass(frozen=True)
class Facets:
    """All facets of a query, the histogram of its times, and how many things were counted."""

    count: int
    facets: list[Facet]
    bars: list[Bar]


def facets(ask: Ask, chunks: Sequence[int], question: Question) -> Facets:
    """The facets of the mails, documents and windows that some chunks belong to."""
    rows = ask(_SQL("facts"), {"chunks": list(chunks)}).to_pylist()
    names = {row["from"]: row["author"] for row in rows}
    listed = [_facet(name, rows, question, names if name == "from" else {}) for name in _NAMES]
    listed += [] if question.plain else _conditions(rows, question)
    times = Counter(row["dated_at"].date() for row in rows if row["dated_at"])
    telling = [f for f in listed if len(f.values) > 1 or any(value.is_chosen for value in f.values)]
    return Facets(len(rows), telling, histogram(times, question))


def _facet(
    name: str, rows: Sequence[dict[str, Any]], question: Question, names: Mapping[str, str]
) -> Facet:
    """The facet of a column; `names` has what to show for a value, of a person the name for the
    address.
    """
    values = (row[name] if isinstance(row[name], list) else [row[name]] for row in rows)
    counts = Counter(value for several in values for value in several if value)
    chosen = question.values.get(name)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]
    if chosen is not None:
        # Filters may be patterns: a chosen one is listed as the question has it.
        common = [(chosen, sum(counts.values())), *((n, c) for n, c in common if n != chosen)]
    listed = [
        _Value(
            names.get(value, value),
            count,
            question.filtered(name, None if value == chosen else value),
            value == chosen,
        )
        for value, count in common
    ]
    return Facet(_NAMES[name], listed)


def _conditions(rows: Sequence[dict[str, Any]], question: Question) -> list[Facet]:
    """Facets whose values are conditions in the query: the format, and the properties that most
    documents have.

    A property is one if it has few values, which on average two documents share.
    """
    fields = {"type": Counter(row["format"] for row in rows if row["format"])}
    for row in rows:
        for name, values in flat(json.loads(row["frontmatter"] or "{}")).items():
            if name.casefold() not in {*SHOWN_ELSEWHERE, "type"}:
                fields.setdefault(f"meta.{name.casefold()}", Counter()).update(set(values))
    formats = fields.pop("type")
    few = [name for name, counts in fields.items() if len(counts) <= min(_FEW, counts.total() // 2)]
    few += [name for name in fields if name not in few and f"{name}:" in question.query]
    common = sorted(few, key=lambda name: (-fields[name].total(), name))[:_PROPERTIES]
    return [_by_condition(n, fields.get(n, formats), question) for n in ("type", *common)]


def _by_condition(field: str, counts: Counter[str], question: Question) -> Facet:
    listed = []
    for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]:
        if (words := condition(field, value)) and len(value) <= _LONGEST:
            parts = f" {question.query} ".partition(f" {words} ")
            query = f"{parts[0]} {parts[2]}" if parts[1] else f"{question.query} {words}"
            address = question.address(q=" ".join(query.split()))
            listed.append(_Value(value, count, address, bool(parts[1])))
    return Facet("Format" if field == "type" else field.removeprefix("meta."), listed)


def histogram(times: Mapping[date, int], question: Question, name: str = "") -> list[Bar]:
    """A bar for each year between the first and the last day, for each month of a few years, for
    each day of weeks.

    `times` has how many there are of a day; with the name `MONTHS` a bar is for a month.
    """
    if not times:
        return []
    edges, name = _edges(min(times), max(times), name)
    counts = Counter[int]()
    for day, count in times.items():
        counts[bisect_right(edges, day) - 1] += count
    most, spans = (
        max(counts.values()),
        [(first, last - timedelta(1)) for first, last in pairwise(edges)],
    )
    return [
        Bar(
            f"{since.day} {since:%B} {since.year}" if name == "day" else f"{since:{name}}",
            since.isoformat(),
            until.isoformat(),
            counts[number],
            counts[number] / most,
            question.address(since=since.isoformat(), until=until.isoformat()),
        )
        for number, (since, until) in enumerate(spans)
    ]


def _edges(first: date, last: date, name: str = "") -> tuple[list[date], str]:
    """The days at which spans begin and end that cover two days, and the format of a span's name.

    >>> _edges(date(2019, 5, 7), date(2021, 2, 1))[0][:2]
    [datetime.date(2019, 5, 1), datetime.date(2019, 6, 1)]
    """
    if not name and (last - first).days <= _MOST_DAYS:
        return [first + timedelta(number) for number in range((last - first).days + 2)], "day"
    if name or last.year - first.year < _MONTHS_OF_YEARS:
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month + 1)
        return [date(month // 12, month % 12 + 1, 1) for month in months], MONTHS
    return [
        date(year, 1, 1) for year in range(first.year, min(last.year + 1, date.max.year) + 1)
    ], "%Y"
