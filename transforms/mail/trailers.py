"""Trailers of mails (`Reviewed-by: Ann <ann@example.org>`) and the ways in which mails name people."""

import re
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.headers import address
from transforms.schemas.mail import MESSAGE_TRAILERS

_TRAILER = re.compile(
    rb"\n([A-Za-z][A-Za-z-]{2,30}-[Bb]y|[Ff]ixes|[Cc]loses|[Ll]ink|[Cc][Cc]|[Aa]uthors?|[Dd]iscussion):[ \t]*([^\n]+)"
)
# A Cc or Author among these is a header of a forwarded mail or a line of `git log`, and no trailer.
_HEADER = re.compile(
    rb"(?:From|To|Sent|Date|Subject|Message-ID|Reply-To|commit [0-9a-f]{7,40})\b", re.I
)
_COMMIT = re.compile(r"(?:commit )?([0-9a-f]{7,40})\b[,:]?(?:[ \t]*\(?[\"'](.*?)[\"']?\)?\s*$)?")
_OPEN_TITLE = re.compile(rb"\([\"'][^\n]*(?<![\"']\))\Z")
_COMMENT = re.compile(r"(?:\s+#.*|\s*\[[^\[\]]*\]|\s*\((?!at\b)[^()<>@]*\))+\s*$")
_LISTED = re.compile(r"(?:\"[^\"]*\"|<[^<>]*>|[^,;])+")
_NAME = re.compile(r"[^\W\d_][^\d<>@:/\"()]{1,60}")
_MOST_WORDS = 5
"""Words of a name without an address, as PostgreSQL's trailers name people; more are a sentence."""
_MOST_CHARS = 1000
_NAMES_COMMITS = {"fixes", "closes"}
_NAMES_NOBODY = {"fixes", "closes", "link", "discussion"}


def message_trailers(messages: pa.Table) -> pa.Table:
    """The `message_trailers` table of mails with message_id, source, partition and body.

    A trailer is at the beginning of a line, so that none in a quote counts. One that names several
    people is a row for each.
    """
    bodies = pc.cast(messages.column("body"), pa.large_binary()).to_pylist()
    data = b"\n" + b"\n\n".join(bodies)
    starts = 1 + np.cumsum([0, *(len(body) + 2 for body in bodies)])[:-1].astype(np.int64)
    rows: list[tuple[int, int, str, str, str | None, str | None, str | None, str | None]] = []
    begins: list[int] = []
    for match in _TRAILER.finditer(data):
        kind = match[1].decode().lower().replace("authors", "author")
        if kind in ("cc", "author"):
            above = data.rfind(b"\n", 0, match.start()) + 1
            if _HEADER.match(data, above, match.start()) or _HEADER.match(data, match.end() + 1):
                continue  # the line above or below is one of a block of headers
        value, end = _value(data, match)
        named = _COMMIT.match(value) if kind in _NAMES_COMMITS else None
        commit, title = (named[1], named[2] or None) if named else (None, None)
        for name, addr in [(None, None)] if kind in _NAMES_NOBODY else _people(value):
            begins.append(match.start(1))
            rows.append((match.start(1), end, kind, value, name, addr, commit, title))
    row = np.searchsorted(starts, np.array(begins, dtype=np.int64), side="right") - 1
    first = starts[row] if len(row) else np.array([], dtype=np.int64)
    names = ("byte_start", "byte_end", "kind", "value", "name", "addr", "commit_id", "commit_title")
    columns = pl.DataFrame(
        rows,
        schema={n: pl.Int64 if n.startswith("byte") else pl.String for n in names},
        orient="row",
    )
    columns = columns.with_columns(pl.col("byte_start") - first, pl.col("byte_end") - first)
    of_mail = {
        n: messages.column(n).take(pa.array(row)) for n in ("message_id", "source", "partition")
    }
    table = pa.table({**of_mail, **{n: columns[n].to_arrow() for n in names}})
    return MESSAGE_TRAILERS.conform(table.select(MESSAGE_TRAILERS.names))


def _value(data: bytes, match: re.Match[bytes]) -> tuple[str, int]:
    """The value of a trailer, with the end of a title or an address that mail wrapped, and the byte
    behind it.
    """
    value, end = match[2], match.end()
    line_end = data.find(b"\n", end + 1)
    following = data[end + 1 : line_end if line_end >= 0 else len(data)]
    if _OPEN_TITLE.search(value) or (
        following[:1] in b" \t" and following.lstrip()[:1] == b"<" and b"@" not in value
    ):
        value, end = value + b" " + following.strip(), end + 1 + len(following)
    return value.strip().decode()[:_MOST_CHARS], end


@lru_cache(maxsize=8192)
def _people(value: str) -> tuple[tuple[str | None, str | None], ...]:
    """Name and address of each person in a trailer; one row without both if it names none.

    >>> _people("Ann Lee <ann@example.org> # v2")
    (('Ann Lee', 'ann@example.org'),)
    >>> _people("Ann Lee, Bo Ek (v3)")
    (('Ann Lee', None), ('Bo Ek', None))
    """
    people: list[tuple[str | None, str | None]] = []
    for one in _LISTED.findall(_COMMENT.sub("", value)):
        name, addr = address(_COMMENT.sub("", one).strip())
        if addr and "@" in addr:
            people.append((name, addr))
        elif (
            (bare := one.strip(" .\t\"'"))
            and _NAME.fullmatch(bare)
            and len(bare.split()) <= _MOST_WORDS
        ):
            people.append((bare, None))
    return tuple(people) or ((None, None),)
