"""Chunks of a published index as a reader sees them, with lines, pages, and the section or mail around each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb

from transforms.context.block import Passage

_STRETCHES = """
SELECT c.chunk_id, string_agg(lake_text(n.text_display), chr(10) ORDER BY n.chunk_index) AS said,
  min(list_min([s.byte_start FOR s IN n.spans IF s.role = 'own'])) AS start_byte,
  max(list_max([s.byte_end FOR s IN n.spans IF s.role = 'own'])) AS end_byte
FROM stored_chunks c JOIN stored_chunks n ON n.doc_id = c.doc_id AND n.chunk_kind = 'turn'
  AND n.chunk_index BETWEEN c.chunk_index - 1 AND c.chunk_index + 1
WHERE c.chunk_kind = 'turn' AND c.chunk_id IN (SELECT unnest($ids::VARCHAR[]))
GROUP BY c.chunk_id
"""
"""Of each turn of a chat what was said before and behind it: the stretch in which it is read."""
# Lines are counted in the bytes before a place, of the text that the place is in.
_PASSAGES = """
WITH chosen AS (
SELECT c.chunk_id, c.doc_id, c.source_kind, lake_text(c.text_display) AS text_display,
  coalesce(n.node_id, c.doc_id) || CASE WHEN c.attachment_id IS NULL THEN '' ELSE ' attachment ' || c.attachment_id[:12] END
    AS place,
  coalesce(ltrim(n.breadcrumb, '> '), m.subject, w.title) AS shown_title,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.first_at) AS date,
  d.tags,
  list_min([s.byte_start FOR s IN c.spans IF s.role = 'own']) AS start_byte,
  list_max([s.byte_end FOR s IN c.spans IF s.role = 'own']) AS end_byte,
  n.heading_start, n.body_end, decode(encode(lake_text(d.text))[n.heading_start + 1 : n.body_end]) AS section,
  lake_text(CASE WHEN c.attachment_id IS NULL THEN m.body END) AS body,
  CASE WHEN c.attachment_id IS NULL THEN d.page_starts ELSE a.page_starts END AS page_starts,
  encode(lake_text(CASE WHEN c.attachment_id IS NULL THEN coalesce(d.text, m.body, w.markdown) ELSE a.text END)) AS stored
FROM (FROM stored_chunks WHERE chunk_id IN (SELECT unnest($ids::VARCHAR[]))) c
LEFT JOIN nodes n ON n.node_id = c.parent_id LEFT JOIN stored_documents d ON d.doc_id = c.doc_id
LEFT JOIN stored_messages m ON m.message_id = c.doc_id LEFT JOIN stored_attachments a ON a.attachment_id = c.attachment_id
LEFT JOIN stored_conversation_windows w ON w.doc_id = c.doc_id
),
lined AS (
SELECT * EXCLUDE (stored), decode(stored[1 : start_byte]) AS before_start, decode(stored[1 : end_byte]) AS before_end,
  decode(stored[1 : heading_start]) AS before_section
FROM chosen
)
SELECT * EXCLUDE (before_start, before_end, before_section),
  1 + length(before_start) - length(replace(before_start, chr(10), '')) AS line_start,
  1 + length(rtrim(before_end, chr(10))) - length(replace(rtrim(before_end, chr(10)), chr(10), '')) AS line_end,
  1 + length(before_section) - length(replace(before_section, chr(10), '')) AS around_line
FROM lined ORDER BY chunk_id
"""


def passages(connection: duckdb.DuckDBPyConnection, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    """The passages of chunks by id; those that the index does not hold are left out."""
    rows = connection.execute(_PASSAGES, {"ids": sorted(set(chunk_ids))}).to_arrow_table().to_pylist()
    found = {row["chunk_id"]: _passage(row) for row in rows}
    turns = [passage.chunk_id for passage in found.values() if passage.source_kind == "conversation"]
    stretches = connection.execute(_STRETCHES, {"ids": turns}).fetchall() if turns else ()
    for chunk, said, start, end in stretches:
        found[chunk] = replace(found[chunk], around=said, around_start=start, around_end=end)
    return found


def _passage(row: dict[str, Any]) -> Passage:
    around, start, end = row["body"], 0, 0
    if row["section"] is not None:
        around, start, end = row["section"], row["heading_start"], row["body_end"]
    elif around is not None:
        end = len(around.encode())
    return Passage(
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        place=row["place"],
        source_kind=row["source_kind"],
        title=row["shown_title"] or "(no title)",
        date=row["date"],
        tags=tuple(row["tags"] or ()),
        text=row["text_display"],
        start=row["start_byte"] or 0,
        end=row["end_byte"] or 0,
        around=around,
        around_start=start,
        around_end=end,
        page_starts=tuple(row["page_starts"] or ()),
        lines=(row["line_start"] or 1, max(row["line_end"] or 1, row["line_start"] or 1)),
        around_lines=(
            row["around_line"] or 1,
            (row["around_line"] or 1) + (around or "").rstrip("\n").count("\n"),
        ),
    )
