-- The rows of hits, and the texts that hold these.
-- By the numbers of rows: else all texts would be read before the rows are chosen.
-- name: texts
SELECT message_id AS key, encode(body) AS text FROM messages
WHERE rowid IN (SELECT rowid FROM messages WHERE message_id IN (FROM "{documents}"))
UNION ALL SELECT doc_id AS key, encode(text) AS text FROM documents
WHERE rowid IN (SELECT rowid FROM documents WHERE doc_id IN (FROM "{documents}"))
UNION ALL SELECT doc_id AS key, encode(markdown) AS text FROM conversation_windows
WHERE rowid IN (SELECT rowid FROM conversation_windows WHERE doc_id IN (FROM "{documents}"))
UNION ALL SELECT attachment_id AS key, encode(text) AS text FROM attachments
WHERE rowid IN (SELECT rowid FROM attachments WHERE message_id IN (FROM "{documents}"))
-- SQLite's numbers are signed. A text that is not a mail has no thread; a section says its place itself, a mail the blocks
-- that its bytes lie in.
-- name: chunks
WITH documents_ AS (
  SELECT * FROM (
    SELECT message_id AS doc_id, list_id, subject, NULL AS path, from_name, from_addr, effective_at FROM messages
    UNION ALL BY NAME
    SELECT doc_id, title AS subject, path, coalesce(modified_at, created_at) AS effective_at FROM documents
    UNION ALL BY NAME SELECT doc_id, title AS subject, first_at AS effective_at FROM conversation_windows
  ) WHERE doc_id IN (FROM "{documents}")
),
ends AS (
  SELECT message_id AS doc_id, list(byte_end) AS block_ends FROM blocks
  WHERE rowid IN (SELECT rowid FROM blocks WHERE message_id IN (FROM "{documents}")) GROUP BY message_id
),
attached AS (
  SELECT attachment_id, filename, page_starts FROM attachments WHERE message_id IN (FROM "{documents}")
),
pages AS (
  SELECT doc_id AS key, page_starts AS starts FROM documents
  WHERE page_starts IS NOT NULL AND doc_id IN (FROM "{documents}")
  UNION ALL SELECT attachment_id, page_starts FROM attached WHERE page_starts IS NOT NULL
),
own AS (
  SELECT *, coalesce(list_min([s.byte_start FOR s IN spans IF s.role = 'own']), spans[1].byte_start) AS byte_start,
    coalesce(list_max([s.byte_end FOR s IN spans IF s.role = 'own']), spans[-1].byte_end) AS byte_end
  FROM chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE doc_id IN (FROM "{documents}"))
),
present AS (
  SELECT message_id AS doc_id, thread_id, row_number() OVER (PARTITION BY thread_id ORDER BY position) AS position
  FROM thread_tree
  WHERE NOT is_ghost
    AND thread_id IN (SELECT thread_id FROM thread_tree WHERE message_id IN (FROM "{documents}"))
),
answered AS (
  SELECT p.message_id AS doc_id, p.parent_id AS answered_id, coalesce(m.from_name, m.from_addr) AS name
  FROM thread_tree p JOIN messages m ON m.message_id = p.parent_id WHERE p.message_id IN (FROM "{documents}")
),
repeats AS (
  SELECT message_id AS doc_id, list([byte_start, byte_end] ORDER BY byte_start) AS ranges FROM inferred_quotes
  WHERE message_id IN (FROM "{documents}") GROUP BY message_id
)
SELECT (c.chunk_key::HUGEINT - 9223372036854775808)::BIGINT AS chunk_key,
  c.source_kind, c.parent_id, c.attachment_id, c.content_class, c.byte_start, c.byte_end,
  coalesce(c.attachment_id, c.doc_id) AS text_key, list_min([s.byte_start FOR s IN spans]) AS first_byte,
  list_max([s.byte_end FOR s IN spans]) AS end_byte, encode(c.text_display) AS words,
  encode(json_array({facts})::VARCHAR) AS facts
FROM own c
LEFT JOIN documents_ d USING (doc_id)
LEFT JOIN ends b USING (doc_id)
LEFT JOIN present p USING (doc_id)
LEFT JOIN answered w USING (doc_id)
LEFT JOIN repeats i USING (doc_id)
LEFT JOIN chunk_context k USING (chunk_id)
LEFT JOIN threads t USING (thread_id)
LEFT JOIN attached a ON a.attachment_id = c.attachment_id
LEFT JOIN (FROM nodes WHERE doc_id IN (FROM "{documents}")) n ON n.node_id = c.parent_id
LEFT JOIN pages g ON g.key = coalesce(c.attachment_id, c.doc_id)
-- name: documents_with_chunks
CREATE TEMP TABLE documents_with_chunks AS
SELECT doc_id, min(rowid) // {at_once} AS part FROM chunks GROUP BY doc_id
-- name: written_documents
CREATE OR REPLACE TEMP TABLE written_documents AS SELECT doc_id FROM documents_with_chunks WHERE part = {part}
