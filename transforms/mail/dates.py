"""Times of a mail: the Date header, the Received headers and the From_ line, repaired where they
are broken.

The checks use the mail and its archive alone, never the current time.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz
from functools import lru_cache
from typing import NamedTuple

from transforms.toml_file import toml_file

EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
DOS_CLOCK = (datetime(1979, 12, 31, 10, tzinfo=UTC), datetime(1980, 1, 2, 12, tzinfo=UTC))
"""The first day of the clocks of DOS and Windows, 1980-01-01, in all zones: a mail of then was
stamped by a clock that nobody had set.
"""
CLOCK_SKEW = timedelta(days=1)
"""A mail sent later than this after it was received was stamped by a wrong clock."""
LONGEST_DELAY = timedelta(days=365)
"""A mail sent longer than this before its first hop was stamped by a wrong clock."""

_TABLE = toml_file(__name__, "dates.toml")
_MONTHS = {name[:3]: n for names in _TABLE["months"] for n, name in enumerate(names.split(), 1)}
_MONTHS |= {"jui": 6, "juin": 6, "juil": 7}
_ZONES: dict[str, int] = _TABLE["zones"]

_TIME = re.compile(
    r"(?<![\d.:+-])(\d{1,2})([:.])(\d{2})(?:[:.](\d{2}))?(?:[.,]\d+)?\s*([ap]\.?m\b\.?)?", re.I
)
_ISO = re.compile(r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?=$|[T\s])")
_DAY_MONTH_YEAR = re.compile(
    r"(?<!\d)(\d{1,2})(?:st|nd|rd|th|\.)?[\s,-]*([^\W\d_]{3,})\.?[\s,-]+(\d{2,4})(?!\d)"
)
_MONTH_DAY = re.compile(r"(?<![^\W\d_])([^\W\d_]{3,})\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?![\d:.])")
_YEAR = re.compile(r"(?<![\d+-])((?:19|20)\d\d)(?!\d)")
_NUMERIC_ZONE = re.compile(r"([+-]+)\s*(\d{1,2}?):?(\d{2})?(?!\d)")
_WORD = re.compile(r"[A-Za-z]+")


class SentDate(NamedTuple):
    """A parsed time and whether something had to be repaired or guessed to get it."""

    at: datetime | None
    repaired: bool


def sent_date(text: str) -> SentDate:
    """The time of a Date header, in UTC; `at` is None if the text has no date.

    The RFC 2822 form (section 3.3) passes unrepaired, with a numeric or a well-known zone.
    Repaired: a missing, unknown or absurd zone (read as UTC unless its comment names one), 2- and
    3-digit years (section 4.3), dots for colons, hour 24, leap seconds, and the asctime, ISO 8601,
    US and foreign spellings.

    >>> sent_date("Tue, 2 Mar 04 10:00:00 +0100")
    SentDate(at=datetime.datetime(2004, 3, 2, 9, 0, tzinfo=datetime.timezone.utc), repaired=True)
    """
    text = " ".join(text[:512].split())
    clock = _clock(text)
    calendar = _calendar(
        text if clock is None else text[: clock.start()] + " | " + text[clock.end() :]
    )
    if clock is None or calendar is None:
        return _library_date(text)
    year, month, day, odd = calendar
    hour, separator, minute, second, half = clock.groups()
    shift, guessed = _zone(text[clock.end() :])
    hours = int(hour) % 12 + (12 if half.lower().startswith("p") else 0) if half else int(hour)
    try:
        at = datetime(year, month, day, tzinfo=UTC) + timedelta(
            hours=hours, minutes=int(minute) - shift, seconds=min(int(second or 0), 59)
        )
    except (ValueError, OverflowError):
        return SentDate(None, True)
    if hours > 24 or int(minute) > 59:
        return SentDate(None, True)
    repaired = (
        odd or guessed or separator == "." or bool(half) or hours == 24 or int(second or 0) > 59
    )
    return SentDate(at, repaired)


def sender_zone(text: str) -> int | None:
    """Minutes that the sender's clock is east of UTC, by a Date header; None if it names no zone.

    `-0000` says that the zone is not known (RFC 5322 section 3.3).

    >>> sender_zone("Tue, 2 Mar 2004 10:00:00 -0330")
    -210
    """
    zone = "".join(text.partition("(")[0].rsplit(None, 1)[-1:])
    minutes, is_guess = _zone(zone)
    is_zone = _NUMERIC_ZONE.fullmatch(zone) or zone.lower() in _ZONES
    return minutes if is_zone and not is_guess and zone != "-0000" else None


def received_times(headers: Sequence[str]) -> tuple[datetime | None, datetime | None]:
    """The first plausible time in `headers` (Received, newest first), and that of the earliest hop.

    The date follows the last semicolon (RFC 5321 section 4.4); headers without a date are skipped.
    """
    first = next(filter(None, map(_received_time, headers)), None)
    if first is None or len(headers) == 1:
        return first, first
    return first, next(filter(None, map(_received_time, reversed(headers))), None)


@lru_cache(maxsize=1024)
def envelope_time(line: bytes) -> datetime | None:
    """The time of an mbox From_ line (asctime, without zone: UTC), or None if it names no plausible
    one.
    """
    text = line[:256].decode("ascii", "replace")
    parts = text.split(None, 2)
    at = sent_date(parts[2]).at if len(parts) == 3 else None
    return at if _is_plausible(at) else None


def effective_time(
    sent: SentDate, received: datetime | None, first_hop: datetime | None, envelope: datetime | None
) -> tuple[datetime | None, str]:
    """The time to sort a mail by, and where it is from (`messages.date_quality`): sent if
    plausible, else received, else envelope.

    Implausible is a time on which the clocks of Unix (1970-01-01) or DOS (1980-01-01) begin or
    before the former, more than a day after the mail was received, or more than a year before its
    first hop. Without Received headers the envelope takes their place.
    """
    arrival = received or envelope
    hop = first_hop or envelope
    if sent.at is not None and _is_plausible(sent.at):
        late = arrival is not None and sent.at - arrival > CLOCK_SKEW
        early = hop is not None and hop - sent.at > LONGEST_DELAY
        if not late and not early:
            return sent.at, "sent_repaired" if sent.repaired else "sent"
    if received is not None:
        return received, "received"
    if envelope is not None:
        return envelope, "envelope"
    return None, "none"


def _received_time(header: str) -> datetime | None:
    at = sent_date(header.rpartition(";")[2]).at
    return at if _is_plausible(at) else None


def _is_plausible(at: datetime | None) -> bool:
    """True for a time that a set clock can show."""
    return at is not None and at >= EARLIEST and not DOS_CLOCK[0] <= at < DOS_CLOCK[1]


def _clock(text: str) -> re.Match[str] | None:
    """The time of day in `text`: the first with colons, else the first with dots."""
    dotted = None
    for match in _TIME.finditer(text.replace("T", " ") if _ISO.search(text) else text):
        if match[2] == ":":
            return match
        dotted = dotted or match
    return dotted


def _calendar(text: str) -> tuple[int, int, int, bool] | None:
    """Year, month, day, and whether the form is other than RFC 2822's."""
    for match in _DAY_MONTH_YEAR.finditer(text):
        month = _month(match[2])
        if month is not None:
            year, odd = _year(match[3])
            return year, month, int(match[1]), odd or "-" in match[0] or len(match[2]) > 3
    if (iso := _ISO.search(text)) is not None:
        return int(iso[1]), int(iso[2]), int(iso[3]), True
    for match in _MONTH_DAY.finditer(text):
        month = _month(match[1])
        year_match = _YEAR.search(text, match.end())
        if month is not None and year_match is not None:
            return int(year_match[1]), month, int(match[2]), True
    return None


def _month(word: str) -> int | None:
    low = word.lower()
    return _MONTHS.get(low) or _MONTHS.get(low[:4]) or _MONTHS.get(low[:3])


def _year(digits: str) -> tuple[int, bool]:
    year = int(digits)
    if len(digits) == 4:
        return year, False
    if len(digits) == 3:
        return 1900 + year, True
    return (2000 if year < 50 else 1900) + year, True


def _zone(text: str) -> tuple[int, bool]:
    """Minutes east of UTC that `text`, behind the time, names; and whether they are a guess."""
    number = _NUMERIC_ZONE.search(text)
    if number is not None:
        signs, hours, minutes = number.groups()
        shift = int(hours) * 60 + int(minutes or 0)
        if int(hours) <= 14 and int(minutes or 0) < 60:
            digits = len(hours) + len(minutes or "")
            return (shift if signs[-1] == "+" else -shift), len(signs) > 1 or digits != 4
    for word in _WORD.findall(text):
        if (offset := _ZONES.get(word.lower())) is not None:
            sign = -1 if offset < 0 else 1
            return sign * (abs(offset) // 100 * 60 + abs(offset) % 100), number is not None
    return 0, True


def _library_date(text: str) -> SentDate:
    """The date that the standard library reads in any other form."""
    try:
        parsed = parsedate_tz(text)
        if parsed is None:
            return SentDate(None, True)
        year, month, day, hour, minute, second = parsed[:6]
        shift = timedelta(seconds=parsed[9] or 0)
        if abs(shift) > timedelta(hours=14):
            shift = timedelta(0)
        return SentDate(
            datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC) - shift, True
        )
    except (ValueError, TypeError, IndexError, OverflowError):
        return SentDate(None, True)
