"""Chunks of a published index as a reader sees them, with lines, pages, and the section or mail around each."""

from collections.abc import Sequence
from typing import Any

import duckdb

from transforms.context.passages import Passage

_JOINS = """
LEFT JOIN stored_documents d ON d.doc_id = c.doc_id LEFT JOIN stored_messages m ON m.message_id = c.doc_id
LEFT JOIN stored_attachments a ON a.attachment_id = c.attachment_id
LEFT JOIN stored_conversation_windows w ON w.doc_id = c.doc_id"""
_ROWS = f"""
SELECT c.chunk_id, c.doc_id, coalesce(c.attachment_id, c.doc_id) AS text_id, c.source_kind,
  CASE c.chunk_kind WHEN 'turn' THEN c.chunk_index END AS turn, lake_text(c.text_display) AS text_display,
  coalesce(n.node_id, c.doc_id) || CASE WHEN c.attachment_id IS NULL THEN '' ELSE ' attachment ' || c.attachment_id[:12] END
    AS place,
  coalesce(ltrim(n.breadcrumb, '> '), m.subject, w.title) AS shown_title,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.first_at) AS date,
  d.tags,
  list_min([s.byte_start FOR s IN c.spans IF s.role = 'own']) AS start_byte,
  list_max([s.byte_end FOR s IN c.spans IF s.role = 'own']) AS end_byte,
  n.heading_start, n.body_end,
  CASE WHEN c.attachment_id IS NULL THEN d.page_starts ELSE a.page_starts END AS page_starts
FROM (FROM stored_chunks WHERE chunk_id IN (SELECT unnest($ids::VARCHAR[]))) c
LEFT JOIN nodes n ON n.node_id = c.parent_id {_JOINS} ORDER BY c.chunk_id
"""
_TEXTS = f"""
SELECT coalesce(c.attachment_id, c.doc_id) AS text_id,
  lake_text(CASE WHEN c.attachment_id IS NULL THEN coalesce(d.text, m.body, w.markdown) ELSE a.text END) AS text
FROM (SELECT DISTINCT doc_id, attachment_id FROM stored_chunks WHERE chunk_id IN (SELECT unnest($ids::VARCHAR[]))) c
{_JOINS}
"""


def passages(connection: duckdb.DuckDBPyConnection, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    """The passages of chunks by id; those that the index does not hold are left out."""
    ids = {"ids": sorted(set(chunk_ids))}
    rows = connection.execute(_ROWS, ids).to_arrow_table().to_pylist()
    texts = {name: (text or "").encode() for name, text in connection.execute(_TEXTS, ids).fetchall()}
    return {row["chunk_id"]: _passage(row, texts[row["text_id"]]) for row in rows}


def _passage(row: dict[str, Any], text: bytes) -> Passage:
    """The passage of a row, whose bytes are those of `text`; around it is its section, or its mail."""
    start, end = row["start_byte"] or 0, row["end_byte"] or 0
    own, shown = text[start:end].decode(errors="replace"), row["text_display"]
    around = None
    first, last = row["heading_start"] or 0, row["body_end"] or len(text)
    if row["heading_start"] is not None or row["source_kind"] == "message":
        around = text[first:last].decode()
    line, around_line = (1 + text.count(b"\n", 0, place) for place in (start, first))
    return Passage(
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        place=row["place"],
        source_kind=row["source_kind"],
        title=row["shown_title"] or "(no title)",
        date=row["date"],
        tags=tuple(row["tags"] or ()),
        text=own if own.rstrip() == shown.rstrip() else shown,
        start=start,
        end=end,
        around=around,
        around_start=first,
        around_end=last if around is not None else 0,
        turn=row["turn"],
        page_starts=tuple(row["page_starts"] or ()),
        lines=(line, max(line, 1 + text[:end].rstrip(b"\n").count(b"\n"))),
        around_lines=(around_line, around_line + (around or "").rstrip("\n").count("\n")),
    )
