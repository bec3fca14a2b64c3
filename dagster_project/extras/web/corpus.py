"""The corpus as a whole: counts, mails by month, people, long threads, how fresh and how well searched it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from dagster_project.evaluation.evaluator import read_report
from dagster_project.index.search.lookup import Ask
from transforms.errors import GroundTruthError
from transforms.evaluation.quality import MAIN

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
# A mail that a list sent in its author's place ("Ada via dev") is by the author whom it names.
_PEOPLE = """
SELECT coalesce(p.name, nullif(regexp_replace(m.from_name, ' via .*', ''), ''), m.from_addr) AS name, count(*) AS count
FROM messages m LEFT JOIN people p ON p.addr = lower(m.from_addr) AND NOT p.is_shared
WHERE coalesce(m.from_name, m.from_addr) IS NOT NULL GROUP BY ALL ORDER BY count DESC, name LIMIT 20
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
_MEASURES = ("MRR@10", "nDCG@10", "Recall@10")
_WIDTH, _HEIGHT, _FLOOR = 960, 180, 24
_LABELS = 6
"""Labels below a plot by month, which a phone has room for."""


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
    """A plot of columns with months or years below, each with its place, and the largest count beside it."""

    width: int
    height: int
    columns: list[Column]
    labels: list[tuple[float, str]]
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


@dataclass(frozen=True)
class Quality:
    """The last evaluation: when, of which version, of how many queries, and the mean and interval of each measure."""

    made_at: datetime
    version: str
    queries: int
    measures: list[dict[str, Any]]


def last_quality(folder: Path) -> Quality | None:
    """The last report of `weft eval run` below `folder`; None if there is none of this version of Weft."""
    reports = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return _quality(reports[-1], reports[-1].stat().st_mtime_ns) if reports else None


@lru_cache(maxsize=1)
def _quality(path: Path, _changed: int) -> Quality | None:
    try:
        report = read_report(path)
    except GroundTruthError:
        return None
    rows = {
        row["measure"]: row
        for row in report["summary"]
        if row["tag"] is None
        and (row["stage"], row["level"]) == MAIN
        and row["profile"] == report["order"][0]
    }
    return Quality(
        datetime.fromisoformat(report["timing"]["made_at"]),
        report["index"]["version"],
        len(report["queries"]),
        [rows[name] for name in _MEASURES if name in rows],
    )


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
    return Plot(_WIDTH, _HEIGHT, columns, _labels(first, last, step), most)


def _labels(first: int, last: int, step: float) -> list[tuple[float, str]]:
    """Months, or of more than two years the Januaries, with their places; months count from the year 0."""
    unit, form = (1, "%b %Y") if last - first < 24 else (12, "%Y")
    whole = range(-(-first // unit), last // unit + 1)
    every = -(-len(whole) // _LABELS)
    return [
        (round((n * unit - first) * step, 2), date(n * unit // 12, n * unit % 12 + 1, 1).strftime(form))
        for n in whole[::every]
    ]


def _rows(ask: Ask, statement: str) -> list[dict[str, Any]]:
    return ask(statement, {}).to_pylist()
