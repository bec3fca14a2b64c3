"""Chats of exports: entries of any format, before windows and pseudonyms, and plain tables."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from transforms.errors import ChatFormatError

AT_NAMES = ("timestamp", "sent_at", "time", "date", "datetime", "ts", "created_at")
AUTHOR_NAMES = ("author", "sender", "from", "name", "speaker", "user")
TEXT_NAMES = ("message", "text", "content", "body")


class NamedFile(NamedTuple):
    """A file that a message names, with the type that the export declares; empty if none.

    `places` are where it may lie, below the folder of the export; `place` is where it was found,
    empty if nowhere, and `digest` a hash of its bytes, of files whose text is read.
    """

    name: str
    places: tuple[str, ...]
    declared_type: str = ""
    place: str = ""
    digest: str = ""


class Entry(NamedTuple):
    """One entry of a chat: `kind` is message, media (no text), deleted or system (no author).

    `key` is its id in its program, `answers` that of the message it answers or whose thread it is
    in; empty if none.
    """

    at: datetime
    author: str
    text: str
    kind: str
    key: str = ""
    answers: str = ""
    reactions: int = 0
    is_edited: bool = False
    files: tuple[NamedFile, ...] = ()


class Fault(NamedTuple):
    """Unreadable input: its place, the reason and its bytes."""

    place: str
    reason: str
    data: bytes


@dataclass(frozen=True)
class Chat:
    """A chat in the order of its source; `names` are people it mentions who may never have written.

    `name` identifies it among the chats of a source; `title` is the name in its program, if
    different. `mask` takes the names of its people out of the texts of its files.
    """

    name: str
    entries: Sequence[Entry]
    names: frozenset[str] = frozenset()
    faults: Sequence[Fault] = field(default=())
    title: str = ""
    mask: Callable[[Iterable[str]], list[str]] = field(default=list, repr=False, compare=False)


def in_utc(at: datetime, timezone: str) -> datetime:
    """`at` in UTC; one without a zone is in `timezone`. Raises ChatFormatError for an unknown zone."""
    if at.tzinfo is None:
        try:
            at = at.replace(tzinfo=ZoneInfo(timezone))
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ChatFormatError(f"no time zone is called {timezone!r}") from error
    return at.astimezone(UTC)


def chat_columns(names: Sequence[str]) -> list[str]:
    """The columns of the time, the author and the text among those of a table; ChatFormatError if
    one is missing.

    >>> chat_columns(["id", "Sender", "sent_at", "body"])
    ['sent_at', 'Sender', 'body']
    """
    lower = {c.lower(): c for c in reversed(names)}
    columns = []
    for meaning, usual in (("time", AT_NAMES), ("author", AUTHOR_NAMES), ("text", TEXT_NAMES)):
        column = next((lower[n] for n in usual if n in lower), None)
        if column is None:
            raise ChatFormatError(
                f"no_column: no column for the {meaning}; one of {', '.join(usual)} is looked for, there are "
                f"{', '.join(names) or 'none'}"
            )
        columns.append(column)
    return columns


def read_table(table: pa.Table, name: str, timezone: str) -> Chat:
    """The chat of a table with a time, an author and a text, under one of the usual names.

    Times are timestamps, ISO 8601 texts or seconds since 1970. A row without a usable time or text
    is a fault. Raises ChatFormatError if one of the three columns is missing.
    """
    names = chat_columns(table.column_names)
    columns = [table.column(column).to_pylist() for column in names]
    entries, faults = [], []
    for row, (at, author, text) in enumerate(zip(*columns, strict=True)):
        when = moment(at)
        if when is None or not isinstance(text, str):
            why = (
                "no_time: the row has no readable time"
                if when is None
                else "no_text: the row has no text"
            )
            faults.append(
                Fault(f"{name}:{row}", why, repr((at, author, text)).encode(errors="replace"))
            )
            continue
        author_name = "" if author is None else str(author)
        entries.append(Entry(in_utc(when, timezone), author_name, text, kind_of(text, author_name)))
    return Chat(name, entries, frozenset(), faults)


def fields(value: object) -> Mapping[str, Any]:
    """The fields of a JSON object; empty if the value is not an object."""
    return value if isinstance(value, Mapping) else {}


def json_rows(data: bytes, key: str, why: str) -> tuple[Mapping[str, Any], list[Any]]:
    """A JSON object and its list `key`; ChatFormatError with the reason `why` if there is none."""
    try:
        export = json.loads(data)
        rows = export[key]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ChatFormatError(why) from error
    if not isinstance(rows, list):
        raise ChatFormatError(why)
    return export, rows


def decoded(data: bytes) -> str:
    """The text of an export; ChatFormatError (`no_text`) if it is none."""
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChatFormatError(
            f"no_text: byte {error.start} is not UTF-8, as exports are"
        ) from error


def no_time(place: str, row: object) -> Fault:
    """That a message at a place of an export has no time that can be read."""
    return Fault(place, "no_time: the message has no time that can be read", repr(row).encode())


def milliseconds(value: object) -> datetime | None:
    """The time so many milliseconds after 1970; None if it is not a number, or outside the years
    that zones cover.
    """
    try:
        return moment(float(value) / 1000)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def reaction_count(reactions: object) -> int:
    """How many reactions a list of `{"count": n}` has; one without a count is one.

    >>> reaction_count([{"emoji": "a", "count": 2}, {"emoji": "b"}])
    3
    """
    counts = [one.get("count", 1) for one in map(fields, list_of(reactions)) if one]
    return sum(count for count in counts if isinstance(count, int) and 0 < count < 2**31)


def kind_of(text: str, author: str) -> str:
    if not author.strip():
        return "system"
    return "message" if text.strip() else "media"


def list_of(value: object) -> list[Any]:
    """A value of an export if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def json_list(data: bytes, file: str, faults: list[Fault]) -> list[Any]:
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        faults.append(Fault(file, "no_json: the file is no JSON list", data))
        return []
    return rows


def moment(value: object) -> datetime | None:
    """A time as tables and exports write it; None if it is not a time, or outside the years that
    zones cover.
    """
    at = _any_moment(value)
    return at if at and MINYEAR < at.year < MAXYEAR else None


def _any_moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            pass
    try:
        return datetime.fromtimestamp(float(value), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def json_lines(
    data: bytes, name: str, faults: list[Fault]
) -> Iterator[tuple[str, bytes, Mapping[str, Any]]]:
    """The objects of JSON lines, each with its place `name:n` and its bytes; a line that is none is
    added to `faults`.
    """
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield f"{name}:{number}", line, row
        else:
            faults.append(Fault(f"{name}:{number}", "no_json: the line is no JSON object", line))
