-- Statements of an evaluation on a published file.
-- name: thread
coalesce(t.thread_id, c.doc_id) AS thread_id
-- name: chunks
SELECT c.chunk_id, c.doc_id, {thread}, c.source_kind,
  CASE WHEN c.attachment_id IS NULL THEN list_min([s.byte_start FOR s IN c.spans IF s.role = 'own']) END AS byte_start,
  CASE WHEN c.attachment_id IS NULL THEN list_max([s.byte_end FOR s IN c.spans IF s.role = 'own']) END AS byte_end
FROM chunks c LEFT JOIN thread_tree t ON t.message_id = c.doc_id ORDER BY c.chunk_id
-- Texts of neither mail nor document are known by their chunks.
-- name: documents
SELECT m.message_id AS doc_id, t.thread_id FROM messages m JOIN thread_tree t USING (message_id)
UNION SELECT doc_id, doc_id FROM documents
UNION SELECT doc_id, doc_id FROM chunks WHERE source_kind NOT IN ('message', 'attachment', 'document')
ORDER BY ALL
-- name: turns
SELECT chunk_id, text_display AS text FROM chunks
WHERE source_kind NOT IN ('message', 'attachment', 'document') ORDER BY chunk_id
-- name: numbered
SELECT c.chunk_no::BIGINT AS chunk_no, c.chunk_id, c.doc_id, {thread}
FROM chunks c LEFT JOIN thread_tree t ON t.message_id = c.doc_id
-- name: facts
WITH attached AS (
  SELECT thread_id, count(*) AS attachments FROM attachments JOIN thread_tree USING (message_id) GROUP BY thread_id
)
SELECT c.chunk_id, c.chunk_kind, c.needs_parent, c.has_patch_markers,
  c.quote_anchor_chars / greatest(c.char_count, 1) AS quote_share, coalesce(x.checksum, c.checksum) AS checksum,
  coalesce(h.message_count, 1) AS thread_size, coalesce(a.attachments, 0) AS thread_attachments
FROM chunks c LEFT JOIN chunk_context x USING (chunk_id) LEFT JOIN thread_tree t ON t.message_id = c.doc_id
LEFT JOIN threads h USING (thread_id) LEFT JOIN attached a USING (thread_id) ORDER BY c.chunk_id
-- name: titles
SELECT message_id AS doc_id, coalesce(nullif(subject, ''), '(no subject)') AS title,
  concat_ws(' · ', coalesce(nullif(from_name, ''), from_addr), strftime(effective_at, '%Y-%m-%d'), list_id) AS origin
FROM messages WHERE message_id IN (SELECT unnest($ids::JSON::VARCHAR[]))
UNION ALL SELECT doc_id, title, source || ':' || path FROM documents WHERE doc_id IN (SELECT unnest($ids::JSON::VARCHAR[]))
UNION ALL SELECT doc_id, title, concat_ws(' · ', source, "window") FROM conversation_windows
WHERE doc_id IN (SELECT unnest($ids::JSON::VARCHAR[]))
ORDER BY ALL
-- name: words
SELECT chunk_id, concat_ws(' · ', chunk_kind, nullif(array_to_string(heading_path, ' > '), '')) AS place,
  left(text_display, {chars}) AS words
FROM chunks WHERE chunk_id IN (SELECT unnest($ids::JSON::VARCHAR[])) ORDER BY chunk_id
-- name: mails
WITH texts AS (
  SELECT doc_id, string_agg(text_lex, ' ' ORDER BY chunk_index) AS text FROM chunks
  WHERE source_kind = 'message' GROUP BY doc_id
)
SELECT m.message_id, t.thread_id, t.parent_id, m.subject, m.from_addr, coalesce(x.text, '') AS text, m.effective_at
FROM messages m JOIN thread_tree t USING (message_id) LEFT JOIN texts x ON x.doc_id = m.message_id
ORDER BY m.message_id
-- name: linked
SELECT l.from_id, l.to_id, l.kind, l.text, m.subject AS from_subject
FROM links l LEFT JOIN messages m ON m.message_id = l.from_id ORDER BY l.from_id, l.byte_start
