-- name: facts
chunk_no::BIGINT AS chunk_no, chunk_id, doc_id AS document_id, source_kind, chunk_kind = 'window_segment' AS is_segment,
CASE chunk_kind WHEN 'turn' THEN chunk_index::BIGINT END AS turn,
list_min([s.byte_start FOR s IN spans IF s.role = 'own']) AS byte_start,
list_max([s.byte_end FOR s IN spans IF s.role = 'own']) AS byte_end
-- name: described
SELECT {facts} FROM chunks WHERE chunk_no IN (SELECT unnest($ids::JSON::INTEGER[]))
AND (chunk_kind <> 'turn' OR list_sum([s.byte_end - s.byte_start FOR s IN spans]) >= {least_turn})
-- The documents and mails that a link joins.
-- name: linked_documents
SELECT DISTINCT if(source_kind = 'document', split_part(from_id, '#', 1), from_id), split_part(to_id, '#', 1)
FROM links WHERE to_id IS NOT NULL
-- name: turns
SELECT {facts} FROM chunks WHERE chunk_kind = 'turn' AND doc_id IN (SELECT unnest($ids::JSON::VARCHAR[]))
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
-- name: numbers
SELECT chunk_id, chunk_no::BIGINT AS chunk_no FROM chunks
WHERE chunk_id IN (SELECT unnest($ids::JSON::VARCHAR[]))
-- The facts of passages that rows of hits lack: of documents, chats and attachments.
-- name: further
SELECT c.chunk_no::BIGINT AS chunk_no, CASE c.chunk_kind WHEN 'turn' THEN c.chunk_index END AS turn, n.node_id,
  n.heading_start, n.body_end, d.tags,
  CASE WHEN c.attachment_id IS NULL THEN d.page_starts ELSE a.page_starts END AS page_starts
FROM (FROM chunks WHERE chunk_no IN (SELECT unnest($ids::JSON::INTEGER[]))) c
LEFT JOIN nodes n ON n.node_id = c.parent_id LEFT JOIN stored_documents d ON d.doc_id = c.doc_id
LEFT JOIN stored_attachments a ON a.attachment_id = c.attachment_id
