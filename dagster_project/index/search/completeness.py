"""The completeness of an answer: how much was searched, the missing parts and why, and the age of
the index.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import duckdb
from pydantic import BaseModel, Field

from dagster_project.index.search.completeness_line import completeness_line
from dagster_project.ledger.ledger import file_state, ledger_in

_TEXTS = """
SELECT kind, count(*) FILTER (is_searchable), count(*), count(waits_for)
FROM readiness GROUP BY kind
"""
_TURNS = """
SELECT count(*), (SELECT coalesce(sum(message_count), 0)::BIGINT FROM conversation_windows)
FROM chunks WHERE chunk_kind = 'turn'
"""
_NEWEST = "SELECT max(seen_at) FROM readiness WHERE is_searchable"
_MOMENT = 1.0
"""Seconds for which the state of sources holds that files say is the same: two changes of one tick look alike."""
_SET_ASIDE = "SELECT reason_code, count(*) FROM quarantine GROUP BY ALL ORDER BY ALL"


class Completeness(BaseModel):
    """The statement of one answer; under a lens it counts only shown texts."""

    published_at: datetime
    newest_at: datetime | None = Field(
        None, description="when a build first saw the file of the newest searchable text"
    )
    mails: int
    documents: int
    turns: int = Field(description="turns of chats")
    held: dict[str, int] = Field(
        description="how many of each the sources hold, as far as they are read"
    )
    without_text: int
    waiting: int = Field(description="mails, documents and windows that wait for the slow lane")
    without_vector: int = Field(description="passages that only their words find")
    set_aside: dict[str, int] = Field(description="rows of the table `quarantine`, by reason")
    missing_legs: list[str] = Field(
        [], description="parts of the search that this answer lacks, and why"
    )
    changed_at: datetime | None = Field(
        None, description="since when sources hold texts that the index lacks"
    )
    unread: dict[str, int] = Field(
        {}, description="by source, files or folders that are not read yet"
    )
    looked_at: datetime | None = Field(None, description="when the sources were looked at last")
    not_seen: dict[str, datetime | None] = Field(
        {}, description="by unreadable source when it was read last"
    )

    def line(self) -> str:
        """The statement in one line, without counts of zero."""
        return completeness_line(self.model_dump(mode="json"))

    def lacking(self, legs: Iterable[str]) -> Self:
        """The statement of an answer that lacks these legs."""
        return self.model_copy(update={"missing_legs": list(dict.fromkeys(legs))})


def completeness(
    connection: duckdb.DuckDBPyConnection, published_at: str, unembedded: int
) -> Completeness:
    """The statement of a published file, as if no source had changed; `unembedded` of its chunks
    have no vector.
    """
    texts = {kind: counts for kind, *counts in connection.execute(_TEXTS).fetchall()}
    (mails, held_mails, _), (documents, held_documents, _) = (
        texts.get(kind, (0, 0, 0)) for kind in ("message", "document")
    )
    ((turns, held_turns),) = connection.execute(_TURNS).fetchall()
    ((newest,),) = connection.execute(_NEWEST).fetchall()
    return Completeness(
        published_at=datetime.fromisoformat(published_at),
        newest_at=newest,
        mails=mails,
        documents=documents,
        turns=turns,
        held={"mails": held_mails, "documents": held_documents, "turns": held_turns},
        without_text=sum(total - count for count, total, _ in texts.values()),
        waiting=sum(waiting for *_, waiting in texts.values()),
        without_vector=unembedded,
        set_aside=dict(connection.execute(_SET_ASIDE).fetchall()),
    )


class SourcesNow:
    """The contents of the sources below a root beside a version, read again once they may have changed."""

    def __init__(self, root: Path, published_at: datetime | None):
        self.root, self.published_at = root, published_at
        self._read: tuple[tuple[str, ...], float, dict[str, Any]] = ((), 0.0, {})

    @property
    def fields(self) -> dict[str, Any]:
        """As `of_sources` has them now; those of a moment ago if the files of the ledger are the same."""
        file, now = ledger_in(self.root).file, time.monotonic()
        state = (_state(f"{file}"), _state(f"{file}-wal"))
        before, at, fields = self._read
        if state != before or now - at > _MOMENT:
            fields = of_sources(self.root, self.published_at)
            self._read = state, now, fields
        return fields


def _state(path: str) -> str:
    """The state of a file but for the time that a look at it changes; empty if it is not there."""
    try:
        return file_state(path).rpartition(" ")[0]
    except OSError:
        return ""


def of_sources(root: Path, published_at: datetime | None) -> dict[str, Any]:
    """The fields on the contents of the sources below a root beside the version that was published
    at that time.
    """
    ledger = ledger_in(root)
    changes = [_time(at) for _, at in ledger.rows("changes").values()]
    looked = {
        str(source): (int(count or 0), _time(at) if at else None)
        for (source,), (count, at) in ledger.rows("sources").items()
    }
    last = max((at for _, at in looked.values() if at), default=None)
    start = published_at or datetime.min.replace(tzinfo=UTC)
    return {
        "changed_at": min((at for at in changes if at > start), default=None),
        "unread": {s: count for s, (count, _) in looked.items() if count and last and last > start},
        "looked_at": last,
        "not_seen": {s: at for s, (_, at) in looked.items() if at != last},
    }


def _time(text: object) -> datetime:
    return datetime.fromisoformat(str(text))
