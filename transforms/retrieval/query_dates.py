"""Dates and ages of a query and of the conditions beside it."""

import re
from datetime import UTC, datetime, timedelta

from transforms.errors import QueryError, shortened

_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def time_span(value: str) -> tuple[datetime | None, datetime | None] | None:
    """The half-open span of time (UTC) of `2004`, `2004-05`, `2004-05-17`, `20040517` or
    `from..to`; None if it is none.

    Both ends are meant as a whole, and in their order: 2004..2006 ends with 2006; one of them may
    be missing.
    """
    first, dots, last = value.partition("..")
    if not dots:
        return _whole(first)
    since, until = (_whole(part) if part else (None, None) for part in (first, last))
    if since is None or until is None or not (first or last):
        return None
    return None if since[0] and until[1] and since[0] >= until[1] else (since[0], until[1])


def _whole(value: str) -> tuple[datetime, datetime] | None:
    """The year, month or day of a date as a half-open span."""
    match = re.fullmatch(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?|(\d\d)(\d\d))?", value, re.ASCII)
    if match is None:
        return None
    year, month, day = int(match[1]), match[2] or match[4], match[3] or match[5]
    try:
        start = datetime(year, int(month or 1), int(day or 1), tzinfo=UTC)
        if day:
            return start, start + timedelta(days=1)
        if month:
            return start, datetime(year + int(month) // 12, int(month) % 12 + 1, 1, tzinfo=UTC)
        return start, datetime(year + 1, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def bound(name: str, date: str | None, *, is_end: bool = False) -> datetime | None:
    """The beginning of a date as `d:` takes it, or with `is_end` its end; QueryError if it is not a
    date.
    """
    if date is None:
        return None
    if span := _whole(date):
        return span[is_end]
    raise QueryError(
        f"{name} takes dates such as 2024, 2024-05 or 2024-05-17, not {shortened(date)!r}"
    )


def age(value: str) -> timedelta | None:
    """The time of `30d`, `2w`, `6m` (months of 30 days) or `1y` (365 days); None if it is none.

    >>> age("6m").days
    180
    """
    match = re.fullmatch(r"(\d{1,4})([dwmy])", value, re.ASCII)
    return match and timedelta(days=int(match[1]) * _DAYS[match[2]])
