"""The corpus as a whole, and a person as the mails show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from dagster_project.evaluation.evaluator import read_report
from dagster_project.extras.web.question import with_parameters
from dagster_project.index.search.lookup import Ask
from transforms.errors import GroundTruthError, UnknownIdError, shortened
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
SELECT coalesce(p.name, nullif(regexp_replace(m.from_name, ' via .*', ''), ''), m.from_addr) AS name,
  min(p.person_id) AS addr, count(*) AS count
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
_QUARANTINE = """
WITH rows AS (SELECT source, place, split_part(reason, ':', 1) AS code, reason[length(code) + 2:] AS reason, byte_count
  FROM quarantine)
SELECT code, count(*) AS count, sum(byte_count)::BIGINT AS bytes, list_sort(list(DISTINCT source)) AS sources,
  list_slice(list_sort(list({'source': source, 'place': place, 'reason': trim(reason)})), 1, 5) AS examples
FROM rows GROUP BY code ORDER BY count DESC, code
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


def set_aside(ask: Ask) -> list[dict[str, Any]]:
    """What was not read, by the code of its reason: code, count, bytes, sources, five examples (source, place, reason)."""
    return _rows(ask, _QUARANTINE)


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


def month_plot(rows: Sequence[dict[str, Any]], author: str | None = None) -> Plot:
    """Mails by month as columns, all or those of an author; `rows` have year, month and count in order of time."""
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
                with_parameters(
                    "/", {"kind": "message", "from": author, "since": str(since), "until": str(until)}
                ),
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


_ADDRESSES = """
FROM people WHERE person_id = (SELECT person_id FROM people WHERE addr = lower($id))
ORDER BY mail_count DESC, mention_count DESC, addr
"""
_OWN = "SELECT unnest($addrs::VARCHAR[])"
_PERSON_MONTHS = f"""
SELECT year(effective_at) AS year, month(effective_at) AS month, count(*) AS count FROM messages
WHERE from_addr IN ({_OWN}) AND effective_at IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_PERSON_THREADS = f"""
SELECT t.thread_id, any_value(t.subject) AS subject, any_value(t.message_count) AS mails, count(*) AS own,
  max(m.effective_at) AS last_at
FROM messages m JOIN thread_tree n USING (message_id) JOIN threads t USING (thread_id)
WHERE m.from_addr IN ({_OWN}) GROUP BY t.thread_id ORDER BY last_at DESC NULLS LAST, t.thread_id LIMIT 20
"""
# A person's addresses count together, under the name that the mails use most.
_ANSWERS = f"""
WITH pairs AS (
  SELECT other.from_addr AS addr, coalesce(other.from_name, other.from_addr) AS name, own.from_addr IN ({_OWN}) AS is_own
  FROM thread_tree n JOIN messages own ON own.message_id = n.{{own}} JOIN messages other ON other.message_id = n.{{other}}
)
SELECT coalesce(p.person_id, addr) AS addr, mode(coalesce(p.name, pairs.name)) AS name, count(*) AS count
FROM pairs LEFT JOIN people p USING (addr)
WHERE is_own AND addr NOT IN ({_OWN}) GROUP BY ALL ORDER BY count DESC, addr LIMIT 10
"""
_REVIEWED = f"""
SELECT t.message_id, t.kind, m.subject, m.effective_at FROM trailers t JOIN messages m USING (message_id)
WHERE t.addr IN ({_OWN}) AND t.kind IN ('reviewed-by', 'acked-by', 'tested-by') AND m.from_addr IN ({_OWN})
ORDER BY m.effective_at DESC NULLS LAST, t.message_id LIMIT 20
"""
_FILES = f"""
SELECT a.attachment_id, a.filename, a.content_class, a.byte_count, m.subject, m.message_id
FROM attachments a JOIN messages m USING (message_id)
WHERE m.from_addr IN ({_OWN}) ORDER BY m.effective_at DESC NULLS LAST, a.attachment_id LIMIT 20
"""


@dataclass(frozen=True)
class Person:
    """A person: rows of `people`, mails by month, the latest threads, reviews and files, the most frequent partners."""

    name: str
    addresses: list[dict[str, Any]]
    months: Plot
    lists: Mapping[str, list[dict[str, Any]]]


def person_page(ask: Ask, address: str) -> Person:
    """The person of an address; UnknownIdError if no mail names it."""
    rows = ask(_ADDRESSES, {"id": address}).to_pylist()
    if not rows:
        raise UnknownIdError(f"no mail names the address {shortened(address)!r}")
    addrs = {"addrs": [row["addr"] for row in rows]}
    lists = {
        "threads": _PERSON_THREADS,
        "answers": _ANSWERS.format(own="message_id", other="parent_id"),
        "answered": _ANSWERS.format(own="parent_id", other="message_id"),
        "reviews": _REVIEWED,
        "files": _FILES,
    }
    months = month_plot(ask(_PERSON_MONTHS, addrs).to_pylist(), rows[0]["addr"])
    name = next((row["name"] for row in rows if row["name"]), rows[0]["addr"])
    return Person(
        name, rows, months, {n: ask(statement, addrs).to_pylist() for n, statement in lists.items()}
    )
