"""Patch series as they are read: their versions and parts, who answered with which trailer, the
changes between two.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dagster_project.extras.web.site import rows_about
from dagster_project.index.search.lookup import Ask
from transforms.errors import QueryError

MOST_LINES = 6_000
"""Lines of two patches together that are compared; the time grows with their product."""
_CONTEXT = 3
_SERIES = """
SELECT f.*, m.subject, m.effective_at, coalesce(m.from_name, m.from_addr) AS author, lake_text(m.body) AS body,
  t.thread_id
FROM patch_series f JOIN stored_messages m USING (message_id) LEFT JOIN thread_tree t USING (message_id)
WHERE f.series_id = $id OR f.series_id IN (SELECT series_id FROM patch_series WHERE message_id = $id)
ORDER BY f.version, f.posting_id, coalesce(f.part, 0), m.effective_at, f.message_id
"""
_VERSIONS = """
SELECT version, part, message_id, is_cover FROM patch_series
WHERE series_id = $id AND NOT is_reply ORDER BY version, coalesce(part, 0), message_id
"""
_PATCH = "SELECT message_id, subject, effective_at, body FROM messages WHERE message_id = $id"
_BACKLINKS = """
SELECT b.from_id, b.kind, m.subject, m.effective_at, coalesce(m.from_name, m.from_addr) AS author
FROM backlinks b JOIN messages m ON m.message_id = b.from_id
WHERE b.to_id = $id AND b.kind <> 'quoted' ORDER BY m.effective_at, b.from_id, b.kind LIMIT 50
"""
_GIVEN = re.compile(r"^((?:Reviewed|Acked|Tested|Reported|Suggested)-by): ([^<\n]+)", re.MULTILINE)
_DIFF = re.compile(r"^(?:diff --git |Index: |--- \S+\n\+\+\+ )", re.MULTILINE)
_NUMBERS = re.compile(r"^@@ [^@\n]*@@", re.MULTILINE)
_ROWS = re.compile(r"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", re.MULTILINE)
_STAT = re.compile(r"^ \d+ files? changed.*\n|^ \S+ +\| +\d+ [+-]*\n", re.MULTILINE)
_FOOT = re.compile(r"^-- ?\n[\d.]+\S*\n.*\Z", re.MULTILINE | re.DOTALL)


class Patch(NamedTuple):
    """A patch or cover letter of one posting, the trailers of its replies, and how many replies it
    has.
    """

    row: Mapping[str, Any]
    trailers: list[tuple[str, str]]
    replies: int


class Posting(NamedTuple):
    """One version of a series."""

    version: int
    patches: list[Patch]


class Series(NamedTuple):
    """All postings of a series, the first version first."""

    id: str
    title: str
    postings: list[Posting]


class _Difference(NamedTuple):
    """The two patches that are compared, as rows of `messages`, and their lines: class and text, a
    diff of diffs.

    `note` says why there are none.
    """

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    lines: list[tuple[str, str]]
    note: str | None


def versions(ask: Ask, row: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The same part in every version of the series of a row of `patch_series`, with those that are
    compared with it.
    """
    if row is None:
        return []
    rows = ask(_VERSIONS, {"id": row["series_id"]}).to_pylist()
    own = [r for r in rows if r["part"] == row["part"] and r["is_cover"] == row["is_cover"]]
    latest: dict[int, dict[str, Any]] = {r["version"]: r for r in own}
    return [
        {
            **r,
            "is_this": r["message_id"] == row["patch_id"],
            "before": before and before["message_id"],
        }
        for r, before in zip(latest.values(), [None, *latest.values()], strict=False)
    ]


def backlinks(ask: Ask, message_id: str) -> list[dict[str, Any]]:
    """The mails that name a mail in a trailer or an address, quotes left out."""
    return ask(_BACKLINKS, {"id": message_id}).to_pylist()


def series_page(ask: Ask, id_: str) -> Series:
    """A series, by its id or by any mail of it; UnknownIdError if the index lacks it."""
    rows = rows_about(ask, _SERIES, "patch series", id_)
    patches = [row for row in rows if not row["is_reply"]]
    postings: dict[str, Posting] = {}
    for row in patches:
        replies = [r for r in rows if r["is_reply"] and r["patch_id"] == row["message_id"]]
        pairs = {match for r in replies for match in _GIVEN.findall(r["body"])}
        trailers = sorted((kind, who.strip()) for kind, who in pairs)
        posting = postings.setdefault(row["posting_id"], Posting(row["version"], []))
        posting.patches.append(Patch(row, trailers, len(replies)))
    latest = [row for row in patches if row["is_latest"]] or patches or rows
    return Series(rows[0]["series_id"], latest[0]["subject"], list(postings.values()))


def patch_difference(ask: Ask, old_id: str, new_id: str) -> _Difference:
    """The changes between two patches: in their commit messages and diffs, without numbers of lines
    and hashes.
    """
    if not (old_id and new_id):
        raise QueryError("name the Message-IDs of two patches as from and to")
    old, new = (rows_about(ask, _PATCH, "mail", id_)[0] for id_ in (old_id, new_id))
    before, after = (_comparable(row["body"]) for row in (old, new))
    if (count := len(before) + len(after)) > MOST_LINES:
        return _Difference(
            old, new, [], f"the two have {count:,} lines, {MOST_LINES:,} are compared"
        )
    changed = list(difflib.unified_diff(before, after, "old", "new", n=_CONTEXT, lineterm=""))[2:]
    classes = {"+": "a", "-": "r"}
    lines = [
        ("h", "⋯") if line.startswith("@@") else (classes.get(line[:1], ""), line)
        for line in changed
    ]
    note = None if lines else "both say the same"
    return _Difference(old, new, lines, note)


def _comparable(body: str) -> list[str]:
    """The lines of a patch that say something: those of its message, then those of its diff."""
    text = _FOOT.sub("", body)
    start = match.start() if (match := _DIFF.search(text)) else len(text)
    message, diff = _STAT.sub("", text[:start]), text[start:]
    return [*message.rstrip().splitlines(), *_ROWS.sub("", _NUMBERS.sub("@@", diff)).splitlines()]
