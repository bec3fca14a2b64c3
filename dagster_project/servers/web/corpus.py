"""The corpus as a whole: how much there is, mails by month, people, the longest threads, how fresh each source is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from dagster_project.resources.search.lookup import Ask

_COUNTS = """
SELECT (SELECT count(*) FROM messages) AS mails, (SELECT count(*) FROM threads) AS threads,
  (SELECT count(*) FROM documents) AS documents, (SELECT count(DISTINCT conversation_id) FROM conversation_windows) AS chats,
  (SELECT count(*) FROM attachments) AS attachments, (SELECT count(*) FROM quarantine) AS unread
"""
_RECENT = """
SELECT thread_id, subject, message_count, participant_count, last_at FROM threads
WHERE last_at IS NOT NULL ORDER BY last_at DESC, thread_id LIMIT 6
"""
_DOCUMENTS = """
SELECT doc_id, title, source, coalesce(modified_at, created_at) AS dated_at FROM documents
ORDER BY dated_at DESC NULLS LAST, doc_id LIMIT 6
"""
_CHATS = "SELECT doc_id, title, last_at, message_count FROM conversation_windows ORDER BY last_at DESC, doc_id LIMIT 4"
_MONTHS = """
SELECT year(effective_at) AS year, month(effective_at) AS month, count(*) AS count FROM messages
WHERE effective_at IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_PEOPLE = """
SELECT coalesce(from_name, from_addr) AS name, count(*) AS count FROM messages
WHERE coalesce(from_name, from_addr) IS NOT NULL GROUP BY name ORDER BY count DESC, name LIMIT 20
"""
_THREADS = """
SELECT thread_id, subject, message_count, participant_count, first_at, last_at FROM threads
ORDER BY message_count DESC, thread_id LIMIT 20
"""
_OPEN = """
SELECT m.message_id, m.subject, coalesce(m.from_name, m.from_addr) AS author, m.effective_at
FROM threads t JOIN messages m ON m.message_id = t.root_id
WHERE t.message_count = 1 AND regexp_matches(m.body, '(?m)^\\w.*\\w\\?\\s*$')
  AND m.message_id NOT IN (SELECT message_id FROM patch_series)
ORDER BY m.effective_at DESC NULLS LAST, m.message_id LIMIT 15
"""
_SOURCES = "FROM readiness_by_source ORDER BY source, kind"
_WIDTH, _HEIGHT, _FLOOR = 960, 180, 24


@dataclass(frozen=True)
class Column:
    """A column of a plot: place and size in the plot's units, what it says, the address it leads to."""

    x: float
    y: float
    width: float
    height: float
    text: str
    address: str


@dataclass(frozen=True)
class Plot:
    """A plot of columns with the years below and the largest count beside it."""

    width: int
    height: int
    columns: list[Column]
    years: list[tuple[float, int]]
    most: int


def glance(ask: Ask) -> dict[str, Any]:
    """How much there is, and the latest threads, documents and chats."""
    (counts,) = _rows(ask, _COUNTS)
    return {
        "counts": counts,
        "threads": _rows(ask, _RECENT),
        "documents": _rows(ask, _DOCUMENTS),
        "chats": _rows(ask, _CHATS),
    }


def overview(ask: Ask) -> dict[str, Any]:
    """What the page of the corpus shows."""
    (counts,) = _rows(ask, _COUNTS)
    people = _rows(ask, _PEOPLE)
    most = max((row["count"] for row in people), default=1)
    return {
        "counts": counts,
        "months": month_plot(_rows(ask, _MONTHS)),
        "people": [{**row, "share": row["count"] / most} for row in people],
        "threads": _rows(ask, _THREADS),
        "open": _rows(ask, _OPEN),
        "sources": _rows(ask, _SOURCES),
    }


def month_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Mails by month as columns; `rows` have year, month and count in order of time."""
    if not rows:
        return Plot(_WIDTH, _HEIGHT, [], [], 0)
    first = rows[0]["year"] * 12 + rows[0]["month"] - 1
    last = rows[-1]["year"] * 12 + rows[-1]["month"] - 1
    step, most = _WIDTH / (last - first + 1), max(row["count"] for row in rows)
    columns = []
    for row in rows:
        at = row["year"] * 12 + row["month"] - 1
        height = (_HEIGHT - _FLOOR) * row["count"] / most
        since, until = date(row["year"], row["month"], 1), date((at + 1) // 12, (at + 1) % 12 + 1, 1)
        columns.append(
            Column(
                round((at - first) * step, 2),
                round(_HEIGHT - _FLOOR - height, 2),
                round(max(step * 0.86, 0.6), 2),
                round(height, 2),
                f"{since:%B %Y}: {row['count']:,} mails",
                f"/?kind=message&since={since}&until={until}",
            )
        )
    every = max(1, -(-(last - first + 1) // 12 // 12))
    years = [
        (round((year * 12 - first) * step, 2), year)
        for year in range(-(-first // 12), last // 12 + 1)
        if (year - last // 12) % every == 0
    ]
    return Plot(_WIDTH, _HEIGHT, columns, years, most)


def _rows(ask: Ask, statement: str) -> list[dict[str, Any]]:
    return ask(statement, {}).to_pylist()
