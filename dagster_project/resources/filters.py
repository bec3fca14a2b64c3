"""What hits must satisfy, as a mask on the chunks of a published index that is applied before candidates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import duckdb
import numpy as np

from transforms.errors import QueryError


@dataclass(frozen=True)
class Filters:
    """What hits must satisfy: their list, their source, what they are, and times they lie between.

    `kind` is `message`, `attachment`, `document` or `conversation`. The time of a document is the one its
    frontmatter gives; one without is in no span of time.
    """

    list_id: str | None = None
    source: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """True if every chunk passes."""
        return self == Filters()


class Conditions:
    """Conditions evaluated on the tables of one published index."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self.connection = connection

    @cached_property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        row = self.connection.execute("SELECT count(*) FROM chunks").fetchone()
        assert row is not None
        return int(row[0])

    def mask(self, filters: Filters) -> np.ndarray | None:
        """Which chunks meet the filters, by chunk number; None if there are no filters."""
        if filters.is_empty:
            return None
        self._require_known("mailing list", "list_id FROM memberships", filters.list_id)
        self._require_known("source", "source FROM chunks", filters.source)
        numbers = self.connection.execute(
            """
            WITH dated AS (
              SELECT message_id AS doc_id, effective_at FROM messages
              UNION ALL SELECT doc_id, coalesce(modified_at, created_at) FROM documents
              UNION ALL SELECT doc_id, first_at FROM conversation_windows
            )
            SELECT c.chunk_no FROM chunks c JOIN dated d USING (doc_id)
            WHERE ($list IS NULL OR c.doc_id IN (SELECT message_id FROM memberships WHERE list_id = $list))
              AND ($source IS NULL OR c.source = $source) AND ($kind IS NULL OR c.source_kind = $kind)
              AND ($since IS NULL OR d.effective_at >= $since) AND ($until IS NULL OR d.effective_at < $until)
            """,
            {
                "list": filters.list_id,
                "source": filters.source,
                "kind": filters.kind,
                "since": filters.since,
                "until": filters.until,
            },
        ).fetchnumpy()["chunk_no"]
        mask = np.zeros(self.chunk_count, dtype=bool)
        mask[np.asarray(numbers, dtype=np.int64)] = True
        return mask

    def _require_known(self, what: str, column: str, name: str | None) -> None:
        """QueryError naming the known names if there is no `what` of that name."""
        if name is None:
            return
        rows = self.connection.execute(f"SELECT DISTINCT {column} ORDER BY ALL").fetchall()
        known = [str(row[0]) for row in rows]
        if name not in known:
            raise QueryError(
                f"no {what} is called {name!r}; the index holds {', '.join(known[:20]) or 'none'}"
            )
