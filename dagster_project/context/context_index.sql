-- name: facts
chunk_no::BIGINT AS chunk_no, chunk_id, doc_id AS document_id, source_kind, chunk_kind = 'window_segment' AS is_segment,
CASE chunk_kind WHEN 'turn' THEN chunk_index::BIGINT END AS turn,
list_min([s.byte_start FOR s IN spans IF s.role = 'own']) AS byte_start,
list_max([s.byte_end FOR s IN spans IF s.role = 'own']) AS byte_end
-- name: described
SELECT {facts} FROM chunks WHERE chunk_no IN ({numbers})
AND (chunk_kind <> 'turn' OR list_sum([s.byte_end - s.byte_start FOR s IN spans]) >= {least_turn})
-- name: turns
SELECT {facts} FROM chunks WHERE chunk_kind = 'turn' AND doc_id IN (SELECT unnest($ids::VARCHAR[]))
-- name: hidden
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT unnest($own::VARCHAR[])) OR $earlier AND doc_id IN (
  SELECT doc_id FROM conversation_windows WHERE conversation_id = $conversation OR last_at > $until
  UNION ALL SELECT message_id FROM messages WHERE effective_at > $until
  UNION ALL SELECT doc_id FROM documents WHERE coalesce(modified_at, created_at) > $until
)
-- name: hidden_with_turns
-- Also turns with a line of a text of several, which may have time and speaker before it.
{hidden}
UNION SELECT chunk_no FROM (
  SELECT chunk_no, unnest(string_split(text_display, chr(10))[2:]) AS line FROM chunks WHERE chunk_kind = 'turn'
) WHERE strlen(line) >= $least AND line IN (
  SELECT unnest([line, regexp_replace(line, '^.*?: ', '')]) FROM unnest(string_split($text, chr(10))) AS _(line)
)
-- The passages of chunks, and the texts that hold them.
-- name: joins
LEFT JOIN stored_documents d ON d.doc_id = c.doc_id LEFT JOIN stored_messages m ON m.message_id = c.doc_id
LEFT JOIN stored_attachments a ON a.attachment_id = c.attachment_id
LEFT JOIN stored_conversation_windows w ON w.doc_id = c.doc_id
-- name: rows
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
LEFT JOIN nodes n ON n.node_id = c.parent_id {joins} ORDER BY c.chunk_id
-- name: texts
SELECT coalesce(c.attachment_id, c.doc_id) AS text_id,
  lake_text(CASE WHEN c.attachment_id IS NULL THEN coalesce(d.text, m.body, w.markdown) ELSE a.text END) AS text
FROM (SELECT DISTINCT doc_id, attachment_id FROM stored_chunks WHERE chunk_id IN (SELECT unnest($ids::VARCHAR[]))) c
{joins}
