"""The published table `readiness` as DuckDB statements: what can be found, and when it got how far."""

from collections.abc import Sequence

import pyarrow as pa

from transforms.schemas.table import TIME

STAGES = pa.schema(
    [
        ("partition", pa.string()),
        *((name, TIME) for name in ("seen_at", "parsed_at", "chunked_at", "slow_at", "embedded_at")),
    ]
)
"""When the partitions that changed got how far: the columns of the relation `stage_times`."""

SCOPE = """
CREATE TEMP TABLE scope AS FROM touched UNION SELECT partition FROM readiness WHERE waits_for IS NOT NULL
"""
IN_SCOPE = "partition IN (FROM scope)"
"""The rows that can differ from those of the version before: what changed, and what waits."""

_KEPT = "doc_id, kind, content_hash, seen_at, parsed_at, chunked_at, embedded_at, published_at, waits_for"
BEFORE_PUBLISHED = f"SELECT {_KEPT} FROM readiness WHERE partition IN (SELECT unnest(?))"
"""Rows of some partitions in the version before."""
BEFORE_STORED = f"SELECT {_KEPT} FROM lake_readiness"
"""Those that the lake keeps in case that there is no version that can be used."""

_ROWS = """
WITH readable AS (
  SELECT message_id AS doc_id, 'message' AS kind, source, partition, subject AS title, effective_at, content_hash
  FROM messages
  UNION ALL BY NAME SELECT doc_id, 'document' AS kind, source, partition, title,
    coalesce(modified_at, created_at) AS effective_at, content_hash FROM documents
  UNION ALL BY NAME SELECT doc_id, 'conversation' AS kind, source, partition, title, first_at AS effective_at,
    content_hash FROM conversation_windows
),
chunked AS (SELECT doc_id, count(*) AS chunk_count FROM chunks WHERE {scope} GROUP BY doc_id),
excluded AS (SELECT doc_id, list(DISTINCT reason ORDER BY reason) AS reasons FROM exclusions WHERE {scope} GROUP BY doc_id),
before AS (
  SELECT doc_id, kind, content_hash, arg_min(b, published_at) AS first FROM ({before}) b
  GROUP BY doc_id, kind, content_hash
),
-- What waited was not there as a whole: its times begin when it no longer waits.
whole AS (SELECT * FROM before WHERE first.waits_for IS NULL),
told AS (
  SELECT r.*, coalesce(c.chunk_count, 0) AS chunk_count, c.doc_id IS NOT NULL AS is_searchable,
    coalesce(e.reasons, []::VARCHAR[]) AS excluded_for,
    if(list_contains(e.reasons, 'slow_lane'), 'slow lane', NULL) AS waits_for,
    coalesce(b.first.seen_at, t.seen_at, $now) AS seen_at, coalesce(b.first.parsed_at, t.parsed_at, $now) AS parsed_at,
    coalesce(w.first.chunked_at, if(b.first.waits_for IS NULL, t.chunked_at, t.slow_at), b.first.chunked_at, $now)
      AS chunked_at,
    if(c.doc_id IS NULL, NULL, coalesce(w.first.embedded_at, t.embedded_at, b.first.embedded_at, $now))
      AS embedded_at,
    coalesce(w.first.published_at, $now) AS published_at
  FROM (FROM readable WHERE {scope}) r LEFT JOIN chunked c USING (doc_id) LEFT JOIN excluded e USING (doc_id)
  LEFT JOIN before b USING (doc_id, kind, content_hash) LEFT JOIN whole w USING (doc_id, kind, content_hash)
  LEFT JOIN stage_times t USING (partition)
)
SELECT *, greatest(epoch(published_at) - epoch(seen_at), 0) AS lag_seconds FROM told ORDER BY doc_id, kind
"""


def rows(before: Sequence[str], scope: str = "true") -> str:
    """The statement that selects the table's rows; `before` selects those whose times are kept, `$now` is the time."""
    return _ROWS.format(before=" UNION ALL ".join(before), scope=scope)


FIRST_SEEN_BEFORE = """
SELECT source, partition, place, bytes_sha256, min(first_seen) AS first_seen FROM quarantine GROUP BY ALL
"""
FIRST_SEEN = """
UPDATE quarantine q SET first_seen = b.first_seen FROM seen_before b
WHERE b.source = q.source AND b.partition = q.partition AND b.place = q.place
  AND b.bytes_sha256 IS NOT DISTINCT FROM q.bytes_sha256 AND q.first_seen IS NULL
"""
